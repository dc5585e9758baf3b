//! Looking for a place in a log costs what it should, whatever its rows say.

mod durability;

use dsh_session_core::persistence::files::{FilePersistence, FileSettings};
use dsh_session_core::storage::Storage;
use dsh_session_core::storage::simulation::{FaultyStorage, MemoryStorage};
use dsh_session_core::{
    Access, CancelToken, Code, Encoding, Event, EventRange, SessionHeader, SessionPersistence,
};
use std::path::Path;
use std::sync::Arc;

const LOG: &str = "/data/_no-cwd/s/session.v4.jsonl";

fn raw_log(rows: &[String]) -> MemoryStorage {
    let memory = MemoryStorage::new(1);
    for folder in ["/data", "/data/_no-cwd", "/data/_no-cwd/s"] {
        memory.create_directory(Path::new(folder)).unwrap();
    }
    let header =
        r#"{"type":"session","version":4,"id":"s","createdAt":1,"isSeeded":false,"delegationDepth":0}"#;
    let text = std::iter::once(header)
        .chain(rows.iter().map(String::as_str))
        .fold(String::new(), |text, row| text + row + "\n");
    memory.write_file(Path::new(LOG), text.as_bytes()).unwrap();
    memory
}

fn plugin_row(seq: u64, text: &str) -> String {
    format!(r#"{{"type":"plugin:a/b","seq":{seq},"time":1,"data":"{text}","ignorable":true}}"#)
}

#[test]
fn a_row_full_of_turn_ends_is_looked_at_once() {
    // Also across the pieces in which the search goes backwards.
    for words in [60_000, 300_000] {
        let memory =
            raw_log(&[plugin_row(0, &"turn/end ".repeat(words)), plugin_row(1, &"x".repeat(70_000))]);
        let faulty = Arc::new(FaultyStorage::new(Arc::new(memory)));
        let storage = Arc::clone(&faulty) as Arc<dyn Storage>;
        let files = FilePersistence::with_storage("/data", storage, FileSettings::default()).unwrap();
        let go_on = CancelToken::new();
        let log = files.open("s", Access::Read, &go_on).unwrap();
        let seqs: Vec<_> =
            log.events(EventRange::newest(1), &go_on).unwrap().map(|it| it.unwrap().seq()).collect();
        assert_eq!(seqs, [1]);
        assert!(faulty.calls() < 2000, "{} calls for {words} words", faulty.calls());
    }
}

#[test]
fn a_log_that_is_cut_into_its_header_is_no_empty_log() {
    for length in [0, 20] {
        let memory = raw_log(&[plugin_row(0, "a")]);
        let files = FilePersistence::with_storage("/data", Arc::new(memory.clone()), FileSettings::default())
            .unwrap();
        let go_on = CancelToken::new();
        let log = files.open("s", Access::Read, &go_on).unwrap();
        memory
            .open(Path::new(LOG), dsh_session_core::storage::OpenHow::Append)
            .unwrap()
            .truncate(length)
            .unwrap();
        assert_eq!(log.events(EventRange::ALL, &go_on).unwrap_err().code(), Code::SourceChanged);
    }
}

#[test]
fn the_newest_events_are_the_same_however_many_are_asked_for() {
    let rows: Vec<String> = (0..9000).map(|seq| plugin_row(seq, "some text")).collect();
    let memory = raw_log(&rows);
    let files = FilePersistence::with_storage("/data", Arc::new(memory), FileSettings::default()).unwrap();
    let go_on = CancelToken::new();
    let log = files.open("s", Access::Read, &go_on).unwrap();
    for count in [1, 4095, 4096, 4097, 8999, 9000, 9001, u64::MAX] {
        let seqs: Vec<_> =
            log.events(EventRange::newest(count), &go_on).unwrap().map(|it| it.unwrap().seq()).collect();
        assert_eq!(seqs, (9000_u64.saturating_sub(count)..9000).collect::<Vec<_>>());
    }
}

/// A log of many batches, long enough to be searched by halves: turns, and rows so long that no piece of the search holds one.
fn long_log(encoding: Encoding, text_bytes: usize) -> (FilePersistence, Vec<Event>) {
    let memory = MemoryStorage::new(2);
    let settings = FileSettings { encoding: Some(encoding), ..FileSettings::default() };
    let files = FilePersistence::with_storage("/data", Arc::new(memory), settings).unwrap();
    let go_on = CancelToken::new();
    let log = files.create(&SessionHeader::new("s", 1), None, &go_on).unwrap();
    let mut all = Vec::new();
    for batch in 0..120 {
        let events: Vec<_> = (batch * 8..batch * 8 + 8)
            .map(|seq| match seq % 4 {
                1 => durability::note_of_length(seq, 3, text_bytes),
                _ => durability::event(seq, 3),
            })
            .collect();
        log.append(&events, &go_on).unwrap();
        all.extend(events);
    }
    log.close().unwrap();
    (files, all)
}

#[test]
fn a_window_anywhere_in_a_long_log_is_that_slice_of_the_whole() {
    let go_on = CancelToken::new();
    for encoding in [Encoding::None, Encoding::Zstd] {
        for text_bytes in [3000, 30_000] {
            let (files, all) = long_log(encoding, text_bytes);
            let log = files.open("s", Access::Read, &go_on).unwrap();
            for from in (0..=all.len()).step_by(37) {
                let window = EventRange::window(from as u64, 5);
                let found: Vec<_> = log.events(window, &go_on).unwrap().map(Result::unwrap).collect();
                assert_eq!(found, all[from..(from + 5).min(all.len())], "from {from}");
            }
            let rest: Vec<_> =
                log.events(EventRange::from(950), &go_on).unwrap().map(Result::unwrap).collect();
            assert_eq!(rest, all[950..]);
            for count in [1, 2, 300] {
                let newest = log.events(EventRange::newest(count), &go_on).unwrap();
                let newest: Vec<_> = newest.map(Result::unwrap).collect();
                assert_eq!(newest, all[all.len() - count as usize..]);
            }
        }
    }
}
