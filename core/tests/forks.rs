//! Logs that begin with the events of another: the same as logs that were appended to, and copied from stored bytes where that can be.

mod durability;

use dsh_session_core::format::frames::{FrameEncoder, scan_frames};
use dsh_session_core::persistence::files::{FilePersistence, FileSettings};
use dsh_session_core::persistence::memory::MemoryPersistence;
use dsh_session_core::persistence::{NewLog, Removal, StoredEvents};
use dsh_session_core::storage::Storage;
use dsh_session_core::storage::simulation::{MemoryStorage, SplitMix64};
use dsh_session_core::{
    Access, CancelToken, Code, Encoding, Event, EventDraft, NewSession, Result, SessionHeader, SessionLog,
    SessionPersistence, Store,
};
use durability::{
    end_seed, event, events, go_on, header, note_of_length, read_all, read_log, refusal, setting,
};
use std::path::{Path, PathBuf};
use std::sync::Arc;

const ENCODINGS: [Encoding; 2] = [Encoding::None, Encoding::Zstd];

fn files_on(disk: &MemoryStorage, root: &str, encoding: Encoding) -> FilePersistence {
    let settings = FileSettings { encoding: Some(encoding), ..FileSettings::default() };
    FilePersistence::with_storage(root, Arc::new(disk.clone()), settings).unwrap()
}

fn files(disk: &MemoryStorage, encoding: Encoding) -> FilePersistence {
    files_on(disk, "/data", encoding)
}

fn on_every_backend(promise: impl Fn(&dyn SessionPersistence)) {
    promise(&MemoryPersistence::new());
    for encoding in ENCODINGS {
        promise(&files(&MemoryStorage::new(7), encoding));
    }
}

/// The source `s`, written in these batches.
fn source(backend: &dyn SessionPersistence, batches: &[Vec<Event>]) -> Arc<dyn SessionLog> {
    let log = backend.create(&header("s"), None, &go_on()).unwrap();
    for batch in batches {
        log.append(batch, &go_on()).unwrap();
    }
    log
}

/// A child that inherits the first `cut` of these events.
fn fork(
    backend: &dyn SessionPersistence,
    id: &str,
    all: &[Event],
    cut: u64,
    stored: Option<StoredEvents>,
) -> Result<Arc<dyn SessionLog>> {
    let header = SessionHeader { is_seeded: true, ..header(id) };
    let mut events = all[..cut as usize].to_vec();
    events.push(end_seed(cut));
    let new = NewLog {
        header: &header,
        inherited_event_count: Some(cut),
        events: &events,
        are_checked: false,
        stored,
    };
    backend.create_with(new, &go_on())
}

fn with_marker(all: &[Event], cut: u64) -> Vec<Event> {
    let mut events = all[..cut as usize].to_vec();
    events.push(end_seed(cut));
    events
}

fn log_path(backend: &dyn SessionPersistence, id: &str) -> PathBuf {
    backend.stat(id, &go_on()).unwrap().unwrap().path.unwrap()
}

fn bytes_of(disk: &MemoryStorage, path: &Path) -> Vec<u8> {
    let file = disk.open(path, dsh_session_core::storage::OpenHow::Read).unwrap();
    let mut bytes = vec![0; file.metadata().unwrap().size as usize];
    let mut filled = 0;
    while filled < bytes.len() {
        filled += file.read_at(&mut bytes[filled..], filled as u64).unwrap();
    }
    bytes
}

/// Batches of one to five events of some hundred bytes that hardly compress: some hundred KiB, so that a place in them is searched for.
fn long_batches(seed: u64) -> Vec<Vec<Event>> {
    let mut random = SplitMix64::new(seed);
    let (mut batches, mut next) = (Vec::new(), 0);
    while next < 800 {
        let count = 1 + random.below(5);
        let length = |seq: u64| 200 + (seq * 37 % 700) as usize;
        batches.push((next..next + count).map(|seq| note_of_length(seq, seed, length(seq))).collect());
        next += count;
    }
    batches
}

#[test]
fn a_log_created_with_events_is_on_the_disk_and_one_that_was_appended_to() {
    on_every_backend(|backend| {
        for count in [0, 1, 5] {
            let (id, all) = (format!("s{count}"), events(0..count, 1));
            let header = header(&id);
            let new = NewLog {
                header: &header,
                inherited_event_count: None,
                events: &all,
                are_checked: false,
                stored: None,
            };
            let log = backend.create_with(new.clone(), &go_on()).unwrap();
            assert!(backend.stat(&id, &go_on()).unwrap().unwrap().format_status.is_some(), "stored at once");
            assert_eq!(refusal(backend.create_with(new, &go_on())), Code::SessionAlreadyExists);
            log.append(&events(count..count + 3, 1), &go_on()).unwrap();
            log.close().unwrap();
            assert_eq!(read_all(backend, &id).unwrap(), events(0..count + 3, 1));
        }
    });
}

#[test]
fn what_cannot_be_a_log_is_refused_and_leaves_nothing() {
    on_every_backend(|backend| {
        let seeded = SessionHeader { is_seeded: true, ..header("s") };
        let plain = header("s");
        let all = events(0..4, 1);
        let gap = [event(0, 1), event(2, 1)];
        let cases: [(&SessionHeader, Option<u64>, &[Event], Code); 4] = [
            (&seeded, Some(4), &all, Code::SessionRefused), // no marker
            (&seeded, None, &all, Code::InvalidArgument),
            (&seeded, Some(0), &[], Code::SessionRefused),
            (&plain, None, &gap, Code::InvalidArgument),
        ];
        // Its sources are no list: it was never a row of a log, whatever a checker of rules that bind rows says.
        let opaque = r#"{"type":"acme/x","seq":0,"time":1,"data":1,"sourceEventSeqs":7,"ignorable":true}"#;
        let opaque = [Event::from_unstored_row(opaque).unwrap()];
        let cases = cases.into_iter().chain([(&plain, None, &opaque[..], Code::InvalidArgument)]);
        let cases: Vec<_> = cases.collect();
        for are_checked in [false, true] {
            for &(header, inherited_event_count, events, code) in &cases {
                let new = NewLog { header, inherited_event_count, events, are_checked, stored: None };
                assert_eq!(refusal(backend.create_with(new, &go_on())), code);
                assert!(backend.stat("s", &go_on()).unwrap().is_none());
            }
        }
        let stopped = CancelToken::new();
        stopped.cancel();
        let new = NewLog {
            header: &plain,
            inherited_event_count: None,
            events: &all,
            are_checked: false,
            stored: None,
        };
        assert_eq!(refusal(backend.create_with(new, &stopped)), Code::Cancelled);
        assert!(backend.stat("s", &go_on()).unwrap().is_none());
    });
}

#[test]
fn a_child_has_the_events_before_the_cut_wherever_it_falls_and_whoever_has_the_source_open() {
    for encoding in ENCODINGS {
        let disk = MemoryStorage::new(7);
        let backend = files(&disk, encoding);
        let batches = [events(0..1, 1), events(1..4, 1), events(4..9, 1), events(9..10, 1)];
        let all = batches.concat();
        let writer = source(&backend, &batches);
        let before = bytes_of(&disk, &log_path(&backend, "s"));
        let reader = backend.open("s", Access::Read, &go_on()).unwrap();
        for cut in 1..=all.len() as u64 {
            for (name, stored) in
                [("writer", writer.stored_events()), ("reader", reader.stored_events()), ("nobody", None)]
            {
                let id = format!("{name}-{cut}");
                assert!(name == "nobody" || stored.is_some());
                let child = fork(&backend, &id, &all, cut, stored).unwrap();
                assert_eq!(read_log(&*child).unwrap(), with_marker(&all, cut), "{id}");
                child.append(&[note_of_length(cut + 1, 1, 5)], &go_on()).unwrap();
                child.close().unwrap();
                let strict = files(&disk, encoding).open(&id, Access::Write, &go_on()).unwrap();
                assert_eq!(strict.event_count(&go_on()).unwrap(), cut + 2, "{id}");
            }
        }
        assert_eq!(bytes_of(&disk, &log_path(&backend, "s")), before, "the source is left alone");
    }
}

#[test]
fn frames_before_the_cut_are_copied_as_bytes() {
    let disk = MemoryStorage::new(7);
    let backend = files(&disk, Encoding::Zstd);
    let batches = long_batches(setting("DSH_SEED", 1));
    let all = batches.concat();
    let writer = source(&backend, &batches);
    let reader = backend.open("s", Access::Read, &go_on()).unwrap();
    let bytes = bytes_of(&disk, &log_path(&backend, "s"));
    assert!(bytes.len() > 200_000, "large enough that the cut is searched for");
    let (frames, _) = scan_frames(&bytes[..], usize::MAX).unwrap();
    let header_end = |bytes: &[u8]| scan_frames(bytes, usize::MAX).unwrap().0[0].end as usize;
    // The events up to each batch's end, and where its frame ends.
    let ends: Vec<(u64, u64)> = batches
        .iter()
        .scan(0, |count, batch| {
            *count += batch.len() as u64;
            Some(*count)
        })
        .zip(frames[1..].iter().map(|frame| frame.end))
        .collect();
    for (name, log) in [("writer", &writer), ("reader", &reader)] {
        for cut in (1..all.len() as u64)
            .step_by(13)
            .chain([all.len() as u64])
            .chain(ends.iter().map(|end| end.0).step_by(17))
        {
            let id = format!("{name}-{cut}-{}", disk.bytes_read());
            let child = fork(&backend, &id, &all, cut, log.stored_events()).unwrap();
            let copy = bytes_of(&disk, &log_path(&backend, &id));
            let end = ends.iter().rev().find(|(count, _)| *count <= cut).map_or(frames[0].end, |end| end.1);
            let prefix = &bytes[frames[0].end as usize..end as usize];
            assert!(copy[header_end(&copy)..].starts_with(prefix), "{id}: every whole frame is the source's");
            assert_eq!(read_log(&*child).unwrap(), with_marker(&all, cut), "{id}");
        }
    }
}

/// The log of `s` as another program might have written it: one header frame, then these texts as frames.
fn foreign(disk: &MemoryStorage, backend: &FilePersistence, texts: &[String]) {
    let log = backend.create(&header("s"), None, &go_on()).unwrap();
    log.flush(&go_on()).unwrap();
    log.close().unwrap();
    let file = disk.open(&log_path(backend, "s"), dsh_session_core::storage::OpenHow::Append).unwrap();
    let mut bytes = Vec::new();
    for text in texts {
        FrameEncoder::new().encode(text.as_bytes(), &mut bytes).unwrap();
    }
    let mut written = 0;
    while written < bytes.len() {
        written += file.append(&bytes[written..]).unwrap();
    }
    file.sync().unwrap();
}

#[test]
fn rows_that_go_on_in_the_next_frame_are_never_cut() {
    let disk = MemoryStorage::new(7);
    let backend = files(&disk, Encoding::Zstd);
    let all: Vec<Event> = (0..300).map(|seq| note_of_length(seq, 3, 600)).collect();
    let text: String = all.iter().map(|event| format!("{}\n", event.row())).collect();
    // Frames of 1,000 bytes of text, wherever rows end.
    let texts: Vec<String> =
        text.as_bytes().chunks(1000).map(|chunk| String::from_utf8(chunk.to_vec()).unwrap()).collect();
    foreign(&disk, &backend, &texts);
    let log = backend.open("s", Access::Read, &go_on()).unwrap();
    assert_eq!(read_log(&*log).unwrap(), all);
    for cut in (1..=300).step_by(7) {
        let child = fork(&backend, &format!("c{cut}"), &all, cut, log.stored_events()).unwrap();
        assert_eq!(read_log(&*child).unwrap(), with_marker(&all, cut));
    }
}

#[test]
fn a_torn_source_gives_what_is_part_of_it() {
    let disk = MemoryStorage::new(7);
    let backend = files(&disk, Encoding::Zstd);
    let all: Vec<Event> = (0..4).map(|seq| note_of_length(seq, 3, 600)).collect();
    let text = |range: std::ops::Range<usize>| -> String {
        all[range].iter().map(|event| format!("{}\n", event.row())).collect()
    };
    foreign(&disk, &backend, &[text(0..2), text(2..4)]);
    let path = log_path(&backend, "s");
    let length = bytes_of(&disk, &path).len() as u64;
    disk.open(&path, dsh_session_core::storage::OpenHow::Append).unwrap().truncate(length - 30).unwrap();
    let whole = read_all(&backend, "s").unwrap();
    assert!(whole.len() >= 2);
    for access in [Access::Read, Access::Write] {
        let log = backend.open("s", access, &go_on()).unwrap();
        for cut in 1..=whole.len() as u64 {
            let id = format!("{access:?}-{cut}");
            let child = fork(&backend, &id, &whole, cut, log.stored_events()).unwrap();
            assert_eq!(read_log(&*child).unwrap(), with_marker(&whole, cut));
        }
    }
}

#[test]
fn a_child_in_another_encoding_is_written_anew() {
    for (of_source, of_child) in [(Encoding::None, Encoding::Zstd), (Encoding::Zstd, Encoding::None)] {
        let disk = MemoryStorage::new(7);
        let backend = files(&disk, of_source);
        let all = events(0..9, 1);
        let log = source(&backend, &[all[..4].to_vec(), all[4..].to_vec()]);
        let other = files_on(&disk, "/other", of_child);
        let child = fork(&other, "child", &all, 5, log.stored_events()).unwrap();
        assert_eq!(read_log(&*child).unwrap(), with_marker(&all, 5));
    }
}

#[test]
fn a_source_that_is_cut_short_meanwhile_gives_no_half_child() {
    let disk = MemoryStorage::new(7);
    let backend = files(&disk, Encoding::Zstd);
    let batches = long_batches(2);
    let all = batches.concat();
    let log = source(&backend, &batches);
    let stored = log.stored_events();
    disk.open(&log_path(&backend, "s"), dsh_session_core::storage::OpenHow::Append)
        .unwrap()
        .truncate(1000)
        .unwrap();
    assert_eq!(refusal(fork(&backend, "child", &all, all.len() as u64, stored)), Code::SourceChanged);
    assert!(backend.stat("child", &go_on()).unwrap().is_none());
    let child = fork(&backend, "child", &all, 3, None).unwrap();
    assert_eq!(child.event_count(&go_on()).unwrap(), 4, "the id is free");
}

fn draft(kind: &str, data: &str) -> EventDraft {
    EventDraft::new(kind, data).unwrap().at_time(1_760_000_000_000)
}

/// P18: a session of 100 MB, forked again and again, also in the middle and while it is written.
#[test]
fn a_large_session_is_forked_many_times_at_the_price_of_its_bytes() {
    let text_bytes = 100_000_000;
    let folder = tempfile::tempdir().unwrap();
    let store = Store::open(folder.path().join("sessions")).unwrap();
    let source = store.create(NewSession::new().id("source").cwd("/repo")).unwrap();
    let mut random = SplitMix64::new(5);
    let mut turn = 0;
    let mut written = 0;
    let mut append_turn = |written: &mut usize| {
        turn += 1;
        let text: String = (0..4000).map(|_| (b'a' + random.below(4) as u8) as char).collect();
        source.append(draft("turn/start", &format!(r#"{{"turn":{turn}}}"#))).unwrap();
        source.append(draft("feedback/record", &format!(r#"{{"text":"{text}"}}"#))).unwrap();
        let end = format!(r#"{{"turn":{turn},"reason":{{"kind":"completed"}}}}"#);
        source.append(draft("turn/end", &end)).unwrap();
        *written += text.len();
    };
    while written < text_bytes {
        append_turn(&mut written);
    }
    source.flush().unwrap();
    let size = |id: &str| store.stat(id).unwrap().unwrap().size_bytes.unwrap();
    let mut ids = std::collections::BTreeSet::new();
    for round in 0_u64..20 {
        // Also with events that wait, and in the middle.
        append_turn(&mut written);
        let at = (round % 2 == 1).then_some(source.next_seq() / 2 + round);
        let child = store.fork("source", at, NewSession::new()).unwrap();
        let cut = at.map_or(source.next_seq(), |at| at + 1);
        assert!(ids.insert(child.id().to_owned()), "ids never collide");
        assert_eq!(child.inherited_event_count(), cut);
        let (ours, theirs) = (child.snapshot_events(0, cut), source.snapshot_events(0, cut));
        assert!(ours.iter().eq(theirs.iter()), "each event once, with its own time");
        if at.is_none() {
            let (child, source) = (size(child.id()), size("source"));
            assert!(child < source + source / 10 + 100_000, "{child} bytes for a source of {source}");
        }
        child.close().unwrap();
        if round >= 18 {
            let judged = store.verify(Some(child.id()), &go_on()).unwrap().next().unwrap().unwrap();
            assert_eq!(judged.outcome.as_str(), "ok");
        }
        store.remove(child.id(), Removal::Delete).unwrap();
    }
}
