//! A log that did not change since this process read it whole is not checked again, and one that did is.

use dsh_session_core::persistence::files::{FilePersistence, FileSettings};
use dsh_session_core::storage::simulation::{FaultyStorage, MemoryStorage};
use dsh_session_core::storage::{OpenHow, Storage};
use dsh_session_core::{Access, CancelToken, Code, Event, EventRange, SessionHeader, SessionPersistence};
use std::path::Path;
use std::sync::Arc;

const LOG: &str = "/data/_no-cwd/s/session.v4.jsonl.zstd";

fn row(seq: u64) -> Event {
    let text = format!(
        r#"{{"type":"feedback/record","seq":{seq},"time":1,"data":{{"text":"{}"}}}}"#,
        "x".repeat(9000)
    );
    Event::from_row(text).unwrap()
}

fn with_log(memory: &MemoryStorage) {
    let files = persistence(Arc::new(memory.clone()));
    let go_on = CancelToken::new();
    let log = files.create(&SessionHeader::new("s", 1), None, &go_on).unwrap();
    for batch in 0..40 {
        log.append(&(batch * 10..batch * 10 + 10).map(row).collect::<Vec<_>>(), &go_on).unwrap();
    }
    log.close().unwrap();
}

fn persistence(storage: Arc<dyn Storage>) -> FilePersistence {
    FilePersistence::with_storage("/data", storage, FileSettings::default()).unwrap()
}

/// Storage calls that a write open makes.
fn calls_of_open(files: &FilePersistence, faulty: &FaultyStorage) -> u64 {
    let before = faulty.calls();
    let log = files.open("s", Access::Write, &CancelToken::new()).unwrap();
    let calls = faulty.calls() - before;
    assert_eq!(log.event_count(&CancelToken::new()).unwrap(), 400);
    log.close().unwrap();
    calls
}

#[test]
fn reopening_an_unchanged_log_reads_no_rows() {
    let memory = MemoryStorage::new(1);
    with_log(&memory);
    let faulty = Arc::new(FaultyStorage::new(Arc::new(memory)));
    let files = persistence(Arc::clone(&faulty) as Arc<dyn Storage>);
    let first = calls_of_open(&files, &faulty);
    let second = calls_of_open(&files, &faulty);
    assert!(second < first, "{second} calls after {first}");
}

#[test]
fn a_log_that_changed_is_checked_again() {
    let memory = MemoryStorage::new(1);
    with_log(&memory);
    let files = persistence(Arc::new(memory.clone()));
    let go_on = CancelToken::new();
    let reader = files.open("s", Access::Read, &go_on).unwrap();
    assert_eq!(reader.events(EventRange::ALL, &go_on).unwrap().filter_map(Result::ok).count(), 400);
    // Rows that break a rule, put there by somebody else.
    let mut encoder = dsh_session_core::format::frames::FrameEncoder::new();
    let mut frame = Vec::new();
    encoder
        .encode(b"{\"type\":\"turn/end\",\"seq\":400,\"time\":1,\"data\":{\"turn\":1}}\n", &mut frame)
        .unwrap();
    memory.open(Path::new(LOG), OpenHow::Append).unwrap().append(&frame).unwrap();
    let error = reader.events(EventRange::ALL, &go_on).unwrap().find_map(Result::err).unwrap();
    assert_eq!(error.code(), Code::SessionCorrupt);
    assert_eq!(files.open("s", Access::Write, &go_on).unwrap_err().code(), Code::SessionCorrupt);
}

#[test]
fn check_reads_the_disk_whatever_was_read_before() {
    let memory = MemoryStorage::new(1);
    with_log(&memory);
    let files = persistence(Arc::new(memory.clone()));
    let go_on = CancelToken::new();
    let reader = files.open("s", Access::Read, &go_on).unwrap();
    let before = reader.check(&go_on).unwrap();
    assert_eq!((before.event_count, before.frames), (400, 41));
    assert_eq!(reader.check(&go_on).unwrap().frames, 41);
}
