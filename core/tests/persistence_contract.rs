//! The persistence contract (`format.md` 6), promise by promise, on every implementation: logs in memory, files on the simulated
//! storage and files of the operating system, raw and compressed.

mod durability;

use dsh_session_core::event::Vocabulary;
use dsh_session_core::persistence::files::{FilePersistence, FileSettings};
use dsh_session_core::persistence::memory::MemoryPersistence;
use dsh_session_core::persistence::{EventState, FormatStatus, Removal, Resumed};
use dsh_session_core::storage::simulation::MemoryStorage;
use dsh_session_core::storage::{OsStorage, Storage};
use dsh_session_core::{
    Access, CancelToken, Code, Encoding, Error, Event, EventRange, ListMode, Result, SessionHeader,
    SessionLog, SessionPersistence,
};
use durability::{end_seed, event, events, go_on, header, note, note_of_length, read_all, read_log, refusal};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Barrier};

type Backend = dyn SessionPersistence;

/// Runs a promise on a fresh backend of each kind. The name of the one at fault is in the output.
#[track_caller]
fn on_every_backend(promise: impl Fn(&Backend)) {
    eprintln!("backend: memory");
    promise(&MemoryPersistence::new());
    for encoding in [Encoding::None, Encoding::Zstd] {
        on_files(encoding, &promise);
    }
}

fn on_files(encoding: Encoding, promise: impl Fn(&Backend)) {
    let open = |root: &std::path::Path, storage: Arc<dyn Storage>| {
        let settings = FileSettings { encoding: Some(encoding), ..FileSettings::default() };
        FilePersistence::with_storage(root, storage, settings).unwrap()
    };
    eprintln!("backend: simulated files, {}", encoding.as_str());
    promise(&open("/data/sessions".as_ref(), simulated()));
    eprintln!("backend: files of the system, {}", encoding.as_str());
    let folder = tempfile::tempdir().unwrap();
    promise(&open(&folder.path().join("sessions"), Arc::new(OsStorage::new())));
}

fn simulated() -> Arc<MemoryStorage> {
    let storage = MemoryStorage::new(7);
    storage.create_directory("/data".as_ref()).unwrap();
    Arc::new(storage)
}

fn create(backend: &Backend, id: &str) -> Arc<dyn SessionLog> {
    backend.create(&header(id), None, &go_on()).unwrap()
}

fn open(backend: &Backend, id: &str, access: Access) -> Arc<dyn SessionLog> {
    backend.open(id, access, &go_on()).unwrap()
}

/// A stored, closed session of `count` events.
fn stored(backend: &Backend, id: &str, count: u64) -> Vec<Event> {
    let log = create(backend, id);
    let all = events(0..count, 1);
    log.append(&all, &go_on()).unwrap();
    log.flush(&go_on()).unwrap();
    log.close().unwrap();
    all
}

fn listed(backend: &Backend) -> Vec<String> {
    let listing = backend.list(ListMode::Strict, &go_on()).unwrap();
    assert!(listing.problems.is_empty(), "{:?}", listing.problems);
    let mut ids: Vec<_> = listing.sessions.into_iter().map(|one| one.header.id).collect();
    ids.sort();
    ids
}

fn revision(backend: &Backend, id: &str) -> String {
    backend.stat(id, &go_on()).unwrap().unwrap().revision.to_string()
}

#[test]
fn a_pending_session_is_seen_by_stat_list_and_readers_of_its_backend() {
    on_every_backend(|backend| {
        let log = create(backend, "s");
        let snapshot = backend.stat("s", &go_on()).unwrap().unwrap();
        assert_eq!(snapshot.header, header("s"));
        assert_eq!((snapshot.format_status, snapshot.size_bytes, snapshot.event_count), (None, None, None));
        assert_eq!(listed(backend), ["s"]);
        let reader = open(backend, "s", Access::Read);
        assert_eq!(read_log(&*reader).unwrap(), []);
        assert_eq!(reader.event_count(&go_on()).unwrap(), 0);
        assert_eq!(reader.check(&go_on()).unwrap().event_count, 0);
        assert_eq!(log.access(), Access::Write);
        assert_eq!(reader.access(), Access::Read);
    });
}

#[test]
fn a_pending_session_is_unknown_to_another_backend_on_the_same_root() {
    let storage = simulated();
    let open =
        || FilePersistence::with_storage("/data/sessions", storage.clone(), FileSettings::default()).unwrap();
    let (one, other) = (open(), open());
    let log = create(&one, "s");
    assert!(other.stat("s", &go_on()).unwrap().is_none());
    assert!(listed(&other).is_empty());
    assert_eq!(refusal(other.open("s", Access::Read, &go_on())), Code::SessionNotFound);
    log.flush(&go_on()).unwrap();
    assert_eq!(listed(&other), ["s"]);
}

#[test]
fn a_session_closed_before_it_was_stored_never_existed() {
    on_every_backend(|backend| {
        let log = create(backend, "s");
        let reader = open(backend, "s", Access::Read);
        log.close().unwrap();
        assert!(backend.stat("s", &go_on()).unwrap().is_none());
        assert!(listed(backend).is_empty());
        assert_eq!(refusal(backend.open("s", Access::Read, &go_on())), Code::SessionNotFound);
        assert_eq!(refusal(backend.open("s", Access::Write, &go_on())), Code::SessionNotFound);
        assert_eq!(refusal(read_log(&*reader)), Code::SessionNotFound);
        assert_eq!(refusal(reader.event_count(&go_on())), Code::SessionNotFound);
        // The id is free again.
        create(backend, "s").flush(&go_on()).unwrap();
        assert_eq!(listed(backend), ["s"]);
    });
}

#[test]
fn creating_reserves_nothing_when_it_is_refused() {
    on_every_backend(|backend| {
        let bad = SessionHeader { cwd: Some("not/absolute".to_owned()), ..header("s") };
        assert_eq!(refusal(backend.create(&bad, None, &go_on())), Code::InvalidArgument);
        assert_eq!(refusal(backend.create(&header(""), None, &go_on())), Code::InvalidArgument);
        let long = "x".repeat(300);
        assert_eq!(refusal(backend.create(&header(&long), None, &go_on())), Code::InvalidArgument);
        let cancelled = CancelToken::new();
        cancelled.cancel();
        assert_eq!(refusal(backend.create(&header("s"), None, &cancelled)), Code::Cancelled);
        assert!(listed(backend).is_empty());
        create(backend, "s");
    });
}

#[test]
fn an_id_that_is_pending_open_or_stored_is_not_created_again() {
    on_every_backend(|backend| {
        let again = || refusal(backend.create(&header("s"), None, &go_on()));
        let log = create(backend, "s");
        assert_eq!(again(), Code::SessionAlreadyExists);
        log.flush(&go_on()).unwrap();
        assert_eq!(again(), Code::SessionAlreadyExists);
        log.close().unwrap();
        assert_eq!(again(), Code::SessionAlreadyExists);
        let elsewhere = SessionHeader { cwd: Some("/elsewhere".to_owned()), ..header("s") };
        assert_eq!(refusal(backend.create(&elsewhere, None, &go_on())), Code::SessionAlreadyExists);
    });
}

#[test]
fn of_concurrent_creates_of_one_id_exactly_one_wins() {
    on_every_backend(|backend| {
        for round in 0..20 {
            let id = format!("s{round}");
            let barrier = Barrier::new(4);
            let attempt = || {
                barrier.wait();
                backend.create(&header(&id), None, &go_on())
            };
            let results: Vec<_> = std::thread::scope(|scope| {
                let threads: Vec<_> = (0..4).map(|_| scope.spawn(attempt)).collect();
                threads.into_iter().map(|thread| thread.join().unwrap()).collect()
            });
            let (won, lost): (Vec<_>, Vec<_>) = results.into_iter().partition(Result::is_ok);
            assert_eq!(won.len(), 1);
            assert!(lost.into_iter().all(|one| refusal(one) == Code::SessionAlreadyExists));
        }
    });
}

#[test]
fn a_session_has_one_owner_at_a_time_and_any_number_of_readers() {
    on_every_backend(|backend| {
        let creator = create(backend, "s");
        assert_eq!(refusal(backend.open("s", Access::Write, &go_on())), Code::SessionAlreadyOwned);
        creator.append(&events(0..3, 1), &go_on()).unwrap();
        assert_eq!(refusal(backend.open("s", Access::Write, &go_on())), Code::SessionAlreadyOwned);
        creator.close().unwrap();
        let owner = open(backend, "s", Access::Write);
        let error = backend.open("s", Access::Write, &go_on()).unwrap_err();
        assert_eq!((error.code(), error.owner()), (Code::SessionAlreadyOwned, Some("this process")));
        let readers: Vec<_> = (0..5).map(|_| open(backend, "s", Access::Read)).collect();
        owner.append(&events(3..4, 1), &go_on()).unwrap();
        assert!(readers.iter().all(|reader| read_log(&**reader).unwrap().len() == 4));
        drop(owner);
        open(backend, "s", Access::Write);
    });
}

#[test]
fn of_concurrent_write_opens_exactly_one_wins() {
    on_every_backend(|backend| {
        stored(backend, "s", 4);
        for _ in 0..20 {
            let barrier = Barrier::new(4);
            let attempt = || {
                barrier.wait();
                backend.open("s", Access::Write, &go_on())
            };
            let results: Vec<_> = std::thread::scope(|scope| {
                let threads: Vec<_> = (0..4).map(|_| scope.spawn(attempt)).collect();
                threads.into_iter().map(|thread| thread.join().unwrap()).collect()
            });
            let (won, lost): (Vec<_>, Vec<_>) = results.into_iter().partition(Result::is_ok);
            assert_eq!(won.len(), 1);
            assert!(lost.into_iter().all(|one| refusal(one) == Code::SessionAlreadyOwned));
        }
    });
}

/// Opens a session for writing and gives the events that came with it.
fn resume(backend: &Backend, id: &str) -> Result<(Resumed, Vec<Event>)> {
    let mut given = Vec::new();
    let resumed = backend.resume(id, &go_on(), &mut |event| {
        given.push(event);
        Ok(())
    })?;
    Ok((resumed, given))
}

#[test]
fn resuming_gives_the_events_of_a_read_and_a_checker_that_goes_on_from_them() {
    on_every_backend(|backend| {
        // The second turn stays open.
        let all = stored(backend, "s", 6);
        let (Resumed { log, mut checker, .. }, given) = resume(backend, "s").unwrap();
        assert_eq!(given, all);
        assert_eq!((log.access(), log.event_count(&go_on()).unwrap()), (Access::Write, 6));
        assert_eq!(refusal(backend.open("s", Access::Write, &go_on())), Code::SessionAlreadyOwned);
        let second_start = r#"{"type":"turn/start","seq":6,"time":1,"data":{"turn":3}}"#;
        assert_eq!(checker.check(&Event::from_row(second_start).unwrap()).unwrap_err().rule(), "A14");
        let rest = events(6..12, 1);
        for event in &rest {
            checker.check(event).unwrap();
        }
        log.append(&rest, &go_on()).unwrap();
        drop(log);
        assert_eq!(resume(backend, "s").unwrap().1, events(0..12, 1));
    });
}

#[test]
fn resuming_a_fork_knows_what_it_inherited() {
    on_every_backend(|backend| {
        let seeded = SessionHeader { is_seeded: true, ..header("s") };
        let log = backend.create(&seeded, Some(2), &go_on()).unwrap();
        let catalog = |seq: u64| {
            let data = r#"{"version":1,"childId":"c","childCreatedAt":1,"mode":"one-shot"}"#;
            Event::from_row(format!(r#"{{"type":"subagent/catalog","seq":{seq},"time":1,"data":{data}}}"#))
                .unwrap()
        };
        // Twice the same child is a breach, but not among inherited events.
        let all = [catalog(0), catalog(1), end_seed(2), catalog(3)];
        log.append(&all, &go_on()).unwrap();
        log.close().unwrap();
        let (Resumed { log, mut checker, .. }, given) = resume(backend, "s").unwrap();
        assert_eq!((&given[..], log.inherited_event_count(&go_on()).unwrap()), (&all[..], 2));
        assert_eq!(checker.check(&catalog(4)).unwrap_err().rule(), "A13");
        checker.finish().unwrap();
    });
}

#[test]
fn resuming_gives_the_events_recovered_from_a_torn_tail() {
    let storage = simulated();
    let settings = FileSettings { encoding: Some(Encoding::Zstd), ..FileSettings::default() };
    let backend = FilePersistence::with_storage("/data/sessions", storage.clone(), settings).unwrap();
    let log = create(&backend, "s");
    log.append(&events(0..4, 1), &go_on()).unwrap();
    let batch: Vec<_> = (4..64).map(|seq| note_of_length(seq, 1, 5_000)).collect();
    log.append(&batch, &go_on()).unwrap();
    log.close().unwrap();
    let path = backend.stat("s", &go_on()).unwrap().unwrap().path.unwrap();
    let bytes = storage.read_file(&path).unwrap();
    storage.write_file(&path, &bytes[..bytes.len() - 10]).unwrap();
    let read = read_all(&backend, "s").unwrap();
    assert!((5..64).contains(&read.len()), "{} events", read.len());
    let (resumed, given) = resume(&backend, "s").unwrap();
    assert_eq!(given, read);
    assert_eq!(resumed.log.notices()[0].kind(), "torn-tail");
    assert_eq!(resumed.log.event_count(&go_on()).unwrap(), read.len() as u64);
}

#[test]
fn resuming_reads_the_bytes_of_a_log_once() {
    for encoding in [Encoding::None, Encoding::Zstd] {
        let storage = simulated();
        let settings = FileSettings { encoding: Some(encoding), ..FileSettings::default() };
        let backend = FilePersistence::with_storage("/data/sessions", storage.clone(), settings).unwrap();
        let log = create(&backend, "s");
        for batch in 0..60 {
            let batch: Vec<_> =
                (batch * 10..batch * 10 + 10).map(|seq| note_of_length(seq, 1, 5_000)).collect();
            log.append(&batch, &go_on()).unwrap();
        }
        log.close().unwrap();
        let size = backend.stat("s", &go_on()).unwrap().unwrap().size_bytes.unwrap();
        // Whether the log was read before changes nothing.
        for _ in 0..2 {
            let before = storage.bytes_read();
            let (resumed, given) = resume(&backend, "s").unwrap();
            let read = storage.bytes_read() - before;
            assert_eq!(given.len(), 600);
            // Besides the rows: the header, and the frame or row over which two pieces meet.
            assert!((size..size + size / 8).contains(&read), "{encoding:?}: {read} bytes read of {size}");
            resumed.log.close().unwrap();
        }
    }
}

#[test]
fn a_sink_that_refuses_ends_the_resume_with_its_own_error_and_nobody_owns_the_session() {
    on_every_backend(|backend| {
        stored(backend, "s", 8);
        let mut given = 0;
        let resumed = backend.resume("s", &go_on(), &mut |event| {
            given += 1;
            if event.seq() == 5 { Err(Error::new(Code::OutOfMemory, "enough")) } else { Ok(()) }
        });
        assert_eq!((refusal(resumed), given), (Code::OutOfMemory, 6));
        assert_eq!(resume(backend, "s").unwrap().1.len(), 8);
    });
}

#[test]
fn a_resume_that_is_refused_gives_nothing() {
    on_every_backend(|backend| {
        let refused = |id: &str, cancel: &CancelToken| {
            refusal(backend.resume(id, cancel, &mut |event| panic!("{} was given", event.seq())))
        };
        assert_eq!(refused("nobody", &go_on()), Code::SessionNotFound);
        stored(backend, "s", 4);
        let owner = open(backend, "s", Access::Write);
        assert_eq!(refused("s", &go_on()), Code::SessionAlreadyOwned);
        drop(owner);
        let cancelled = CancelToken::new();
        cancelled.cancel();
        assert_eq!(refused("s", &cancelled), Code::Cancelled);
        resume(backend, "s").unwrap();
    });
}

#[test]
fn a_log_that_breaks_a_rule_is_not_resumed() {
    on_every_backend(|backend| {
        let log = create(backend, "s");
        let end = r#"{"type":"turn/end","seq":4,"time":1,"data":{"turn":9}}"#;
        log.append(&events(0..4, 1), &go_on()).unwrap();
        log.append(&[Event::from_row(end).unwrap()], &go_on()).unwrap();
        log.close().unwrap();
        for _ in 0..2 {
            let error = resume(backend, "s").unwrap_err();
            assert_eq!((error.code(), error.rule()), (Code::SessionCorrupt, Some("A14")));
            assert_eq!((error.seq(), error.session_id()), (Some(4), Some("s")));
        }
    });
}

#[test]
fn types_that_the_host_registered_are_appended_and_read_and_no_others() {
    let vocabulary = Vocabulary::with_types(["acme/state"]);
    let storage = simulated();
    let files = |vocabulary: Vocabulary| {
        let settings = FileSettings { vocabulary, ..FileSettings::default() };
        FilePersistence::with_storage("/data/sessions", storage.clone(), settings).unwrap()
    };
    let row = |kind: &str, seq: u64| {
        Event::from_row(format!(r#"{{"type":"{kind}","seq":{seq},"time":1,"data":{{}}}}"#)).unwrap()
    };
    let state = |seq: u64| row("acme/state", seq);
    let memory = MemoryPersistence::with_vocabulary(vocabulary.clone());
    let backends: [&Backend; 2] = [&memory, &files(vocabulary)];
    for backend in backends {
        let log = create(backend, "s");
        log.append(&[state(0), state(1)], &go_on()).unwrap();
        let error = log.append(&[row("acme/other", 2)], &go_on()).unwrap_err();
        assert_eq!((error.code(), error.rule()), (Code::EventRefused, Some("UNKNOWN_EVENT_TYPE")));
        log.close().unwrap();
        let reader = open(backend, "s", Access::Read);
        assert_eq!(reader.check(&go_on()).unwrap().event_count, 2);
        for range in [EventRange::ALL, EventRange::newest(1), EventRange::window(1, 1)] {
            let last = reader.events(range, &go_on()).unwrap().last().unwrap();
            assert_eq!(last.unwrap(), state(1));
        }
        let (mut resumed, given) = resume(backend, "s").unwrap();
        assert_eq!(given, [state(0), state(1)]);
        resumed.checker.check(&state(2)).unwrap();
    }
    let stranger = files(Vocabulary::default());
    assert_eq!(refusal(read_all(&stranger, "s")), Code::FormatUnsupported);
    assert_eq!(refusal(resume(&stranger, "s")), Code::FormatUnsupported);
    assert_eq!(refusal(open(&stranger, "s", Access::Read).check(&go_on())), Code::FormatUnsupported);
}

#[test]
fn an_open_of_what_is_not_there_finds_nothing_and_leaves_nothing() {
    on_every_backend(|backend| {
        for access in [Access::Read, Access::Write] {
            assert_eq!(refusal(backend.open("nobody", access, &go_on())), Code::SessionNotFound);
        }
        assert!(backend.stat("nobody", &go_on()).unwrap().is_none());
        create(backend, "nobody").flush(&go_on()).unwrap();
    });
}

#[test]
fn every_read_that_starts_after_an_append_sees_it() {
    on_every_backend(|backend| {
        let log = create(backend, "s");
        let early = open(backend, "s", Access::Read);
        for seq in 0..12 {
            log.append(&events(seq..seq + 1, 1), &go_on()).unwrap();
            let expected = events(0..seq + 1, 1);
            assert_eq!(read_log(&*log).unwrap(), expected);
            assert_eq!(read_log(&*early).unwrap(), expected);
            assert_eq!(read_all(backend, "s").unwrap(), expected);
            assert_eq!(early.event_count(&go_on()).unwrap(), seq + 1);
            assert_eq!(log.event_count(&go_on()).unwrap(), seq + 1);
            assert_eq!(early.check(&go_on()).unwrap().event_count, seq + 1);
            assert_eq!(log.check(&go_on()).unwrap().event_count, seq + 1);
        }
    });
}

#[test]
fn slices_windows_and_the_newest_are_those_of_the_whole() {
    on_every_backend(|backend| {
        let all = stored(backend, "s", 40);
        for access in [Access::Read, Access::Write] {
            let log = open(backend, "s", access);
            for (offset, length) in [(0, 40), (0, 1), (7, 12), (39, 1), (39, 9), (40, 1), (99, 9), (5, 0)] {
                let slice = log.read(offset, length, &go_on()).unwrap();
                let from = (offset as usize).min(40);
                let to = (offset + length).min(40) as usize;
                assert_eq!(slice.events, all[from..to.max(from)]);
                assert_eq!(slice.event_state, EventState::SharedFrozen);
            }
            assert_eq!(log.read(3, u64::MAX, &go_on()).unwrap().events, all[3..]);
            for count in [0, 1, 7, 40, 41, u64::MAX] {
                let newest = log.events(EventRange::newest(count), &go_on()).unwrap();
                let newest: Vec<_> = newest.map(Result::unwrap).collect();
                assert_eq!(newest, all[40 - count.min(40) as usize..]);
            }
        }
    });
}

#[test]
fn reads_of_a_session_that_was_never_stored_are_detached_also_when_empty() {
    on_every_backend(|backend| {
        let log = create(backend, "s");
        let reader = open(backend, "s", Access::Read);
        for handle in [&log, &reader] {
            let slice = handle.read(0, 0, &go_on()).unwrap();
            assert_eq!((slice.event_state, slice.events.len()), (EventState::Detached, 0));
        }
        log.flush(&go_on()).unwrap();
        for handle in [&log, &reader] {
            assert_eq!(handle.read(9, 3, &go_on()).unwrap().event_state, EventState::SharedFrozen);
        }
    });
}

#[test]
fn a_batch_that_does_not_follow_the_log_leaves_nothing() {
    on_every_backend(|backend| {
        let log = create(backend, "s");
        let wrong = |batch: &[Event], expected: u64, got: u64, index: u64| {
            let error = log.append(batch, &go_on()).unwrap_err();
            assert_eq!(error.code(), Code::InvalidArgument);
            let facts = (error.expected(), error.got(), error.index());
            assert_eq!(facts, (Some(expected), Some(got), Some(index)));
        };
        wrong(&events(1..2, 1), 0, 1, 0);
        log.append(&events(0..2, 1), &go_on()).unwrap();
        wrong(&[event(2, 1), event(4, 1)], 3, 4, 1);
        wrong(&[event(2, 1), event(3, 1), event(3, 1)], 4, 3, 2);
        wrong(&events(1..5, 1), 2, 1, 0);
        assert_eq!(read_log(&*log).unwrap(), events(0..2, 1));
        log.append(&events(2..4, 1), &go_on()).unwrap();
        assert_eq!(read_all(backend, "s").unwrap(), events(0..4, 1));
    });
}

#[test]
fn a_row_that_readers_would_refuse_is_refused_and_leaves_nothing() {
    on_every_backend(|backend| {
        let log = create(backend, "s");
        let unknown = Event::from_row(r#"{"type":"acme/state","seq":1,"time":1,"data":{}}"#).unwrap();
        let error = log.append(&[event(0, 1), unknown], &go_on()).unwrap_err();
        assert_eq!((error.code(), error.index()), (Code::EventRefused, Some(1)));
        assert_eq!(log.event_count(&go_on()).unwrap(), 0);
        assert!(backend.stat("s", &go_on()).unwrap().unwrap().format_status.is_none());
    });
}

#[test]
fn an_empty_batch_changes_nothing() {
    on_every_backend(|backend| {
        let log = create(backend, "s");
        log.append(&[], &go_on()).unwrap();
        assert!(backend.stat("s", &go_on()).unwrap().unwrap().format_status.is_none());
        log.append(&events(0..4, 1), &go_on()).unwrap();
        let before = revision(backend, "s");
        log.append(&[], &go_on()).unwrap();
        assert_eq!(revision(backend, "s"), before);
        assert_eq!(read_log(&*log).unwrap().len(), 4);
    });
}

#[test]
fn a_flush_stores_the_header_alone() {
    on_every_backend(|backend| {
        let log = create(backend, "s");
        log.flush(&go_on()).unwrap();
        log.flush(&go_on()).unwrap();
        log.close().unwrap();
        let snapshot = backend.stat("s", &go_on()).unwrap().unwrap();
        assert_eq!(snapshot.format_status, Some(FormatStatus::Current));
        assert_eq!(read_all(backend, "s").unwrap(), []);
        let again = open(backend, "s", Access::Write);
        again.append(&events(0..1, 1), &go_on()).unwrap();
        assert_eq!(read_all(backend, "s").unwrap(), events(0..1, 1));
    });
}

#[test]
fn flushing_the_backend_stores_every_open_session_and_goes_on_past_failures() {
    on_every_backend(|backend| {
        let seeded = SessionHeader { is_seeded: true, ..header("seeded") };
        let unfinished = backend.create(&seeded, Some(2), &go_on()).unwrap();
        let logs = ["a", "b", "c"].map(|id| create(backend, id));
        assert_eq!(refusal(backend.flush()), Code::SessionRefused);
        for (id, log) in ["a", "b", "c"].iter().zip(&logs) {
            let status = backend.stat(id, &go_on()).unwrap().unwrap().format_status;
            assert_eq!(status, Some(FormatStatus::Current));
            log.close().unwrap();
        }
        unfinished.close().unwrap();
        backend.flush().unwrap();
        assert_eq!(listed(backend), ["a", "b", "c"]);
    });
}

#[test]
fn closing_twice_is_closing_once() {
    on_every_backend(|backend| {
        let log = create(backend, "s");
        log.append(&events(0..2, 1), &go_on()).unwrap();
        log.close().unwrap();
        log.close().unwrap();
        let next = open(backend, "s", Access::Write);
        // A late close of the old handle takes nothing from the new owner.
        log.close().unwrap();
        drop(log);
        assert_eq!(refusal(backend.open("s", Access::Write, &go_on())), Code::SessionAlreadyOwned);
        next.append(&events(2..4, 1), &go_on()).unwrap();
        let reader = open(backend, "s", Access::Read);
        reader.close().unwrap();
        reader.close().unwrap();
    });
}

#[test]
fn a_closed_handle_refuses_everything_before_it_looks_at_anything_else() {
    on_every_backend(|backend| {
        stored(backend, "s", 4);
        for access in [Access::Read, Access::Write] {
            let log = open(backend, "s", access);
            log.close().unwrap();
            let cancelled = CancelToken::new();
            cancelled.cancel();
            for cancel in [go_on(), cancelled] {
                let codes = [
                    refusal(log.append(&events(9..10, 1), &cancel)),
                    refusal(log.append(&[], &cancel)),
                    refusal(log.flush(&cancel)),
                    refusal(log.read(0, 1, &cancel)),
                    refusal(log.events(EventRange::ALL, &cancel)),
                    refusal(log.check(&cancel)),
                    refusal(log.event_count(&cancel)),
                    refusal(log.inherited_event_count(&cancel)),
                ];
                assert_eq!(codes, [Code::HandleClosed; 8]);
            }
            // A stored header always tells its depth.
            let stored = SessionHeader { delegation_depth: Some(0), ..header("s") };
            assert_eq!((log.id(), log.header()), ("s", &stored));
        }
    });
}

#[test]
fn a_read_handle_writes_nothing() {
    on_every_backend(|backend| {
        stored(backend, "s", 4);
        let before = revision(backend, "s");
        let reader = open(backend, "s", Access::Read);
        assert_eq!(refusal(reader.append(&events(4..5, 1), &go_on())), Code::SessionReadOnly);
        assert_eq!(refusal(reader.append(&[], &go_on())), Code::SessionReadOnly);
        assert_eq!(refusal(reader.flush(&go_on())), Code::SessionReadOnly);
        let cancelled = CancelToken::new();
        cancelled.cancel();
        assert_eq!(refusal(reader.flush(&cancelled)), Code::Cancelled);
        assert_eq!(revision(backend, "s"), before);
    });
}

#[test]
fn a_call_that_was_cancelled_before_it_began_changes_nothing() {
    on_every_backend(|backend| {
        let cancelled = CancelToken::new();
        cancelled.cancel();
        let log = create(backend, "s");
        assert_eq!(refusal(log.append(&events(0..2, 1), &cancelled)), Code::Cancelled);
        assert_eq!(refusal(log.append(&events(7..9, 1), &cancelled)), Code::Cancelled);
        assert_eq!(refusal(log.flush(&cancelled)), Code::Cancelled);
        assert!(backend.stat("s", &go_on()).unwrap().unwrap().format_status.is_none());
        log.append(&events(0..2, 1), &go_on()).unwrap();
        let before = revision(backend, "s");
        assert_eq!(refusal(log.append(&events(2..4, 1), &cancelled)), Code::Cancelled);
        assert_eq!(refusal(log.read(0, 1, &cancelled)), Code::Cancelled);
        assert_eq!(refusal(log.check(&cancelled)), Code::Cancelled);
        log.close().unwrap();
        for access in [Access::Read, Access::Write] {
            assert_eq!(refusal(backend.open("s", access, &cancelled)), Code::Cancelled);
        }
        assert_eq!(refusal(backend.stat("s", &cancelled)), Code::Cancelled);
        assert_eq!(revision(backend, "s"), before);
        assert_eq!(read_log(&*open(backend, "s", Access::Write)).unwrap(), events(0..2, 1));
    });
}

#[test]
fn a_list_names_what_stat_knows() {
    on_every_backend(|backend| {
        stored(backend, "stored", 8);
        let _pending = create(backend, "pending");
        let open_one = create(backend, "open");
        open_one.append(&events(0..1, 1), &go_on()).unwrap();
        assert_eq!(listed(backend), ["open", "pending", "stored"]);
        for mode in [ListMode::Strict, ListMode::Tolerant] {
            for one in backend.list(mode, &go_on()).unwrap().sessions {
                let stat = backend.stat(&one.header.id, &go_on()).unwrap().unwrap();
                assert_eq!(stat.header, one.header);
                assert_eq!(stat.revision, one.revision);
                assert_eq!(stat.format_status, one.format_status);
                assert_eq!(stat.size_bytes, one.size_bytes);
                assert_eq!(stat.event_count, one.event_count);
                assert_eq!(stat.path, one.path);
            }
        }
    });
}

#[test]
fn a_revision_changes_with_the_log_and_not_with_its_owner() {
    on_every_backend(|backend| {
        let log = create(backend, "s");
        let mut seen = vec![revision(backend, "s")];
        log.flush(&go_on()).unwrap();
        seen.push(revision(backend, "s"));
        for seq in 0..3 {
            log.append(&events(seq..seq + 1, 1), &go_on()).unwrap();
            seen.push(revision(backend, "s"));
        }
        let last = seen[seen.len() - 1].clone();
        let distinct: std::collections::BTreeSet<_> = seen.iter().collect();
        assert_eq!(distinct.len(), seen.len(), "{seen:?}");
        log.flush(&go_on()).unwrap();
        log.close().unwrap();
        assert_eq!(revision(backend, "s"), last);
        let owner = open(backend, "s", Access::Write);
        read_log(&*owner).unwrap();
        assert_eq!(revision(backend, "s"), last);
        owner.close().unwrap();
        assert_eq!(revision(backend, "s"), last);
    });
}

#[test]
fn a_seeded_session_is_stored_with_its_whole_prefix_or_not_at_all() {
    on_every_backend(|backend| {
        let seeded = SessionHeader { is_seeded: true, ..header("child") };
        assert_eq!(refusal(backend.create(&seeded, None, &go_on())), Code::InvalidArgument);
        assert_eq!(refusal(backend.create(&header("child"), Some(3), &go_on())), Code::InvalidArgument);
        let log = backend.create(&seeded, Some(4), &go_on()).unwrap();
        assert_eq!(log.inherited_event_count(&go_on()).unwrap(), 4);
        let prefix = events(0..4, 1);
        assert_eq!(refusal(log.flush(&go_on())), Code::SessionRefused);
        assert_eq!(refusal(log.append(&prefix, &go_on())), Code::SessionRefused);
        let misplaced = [&prefix[..3], &[end_seed(3)]].concat();
        assert_eq!(refusal(log.append(&misplaced, &go_on())), Code::SessionRefused);
        assert!(backend.stat("child", &go_on()).unwrap().unwrap().format_status.is_none());
        let first = [&prefix[..], &[end_seed(4), note(5, 1)]].concat();
        log.append(&first, &go_on()).unwrap();
        log.append(&[note(6, 1)], &go_on()).unwrap();
        assert_eq!(refusal(log.append(&[end_seed(7)], &go_on())), Code::EventRefused);
        log.close().unwrap();
        for access in [Access::Read, Access::Write] {
            let log = open(backend, "child", access);
            assert_eq!(log.inherited_event_count(&go_on()).unwrap(), 4);
            assert_eq!(log.event_count(&go_on()).unwrap(), 7);
            assert_eq!(log.check(&go_on()).unwrap().inherited_marker, Some(4));
        }
    });
}

#[test]
fn a_session_that_is_not_seeded_takes_no_marker_of_inheritance() {
    on_every_backend(|backend| {
        let log = create(backend, "s");
        assert_eq!(refusal(log.append(&[end_seed(0)], &go_on())), Code::EventRefused);
        log.append(&events(0..4, 1), &go_on()).unwrap();
        assert_eq!(refusal(log.append(&[end_seed(4)], &go_on())), Code::EventRefused);
        assert_eq!(log.inherited_event_count(&go_on()).unwrap(), 0);
        assert_eq!(read_all(backend, "s").unwrap(), events(0..4, 1));
    });
}

#[test]
fn readers_beside_a_writer_see_a_growing_prefix_that_never_goes_back() {
    const BATCHES: u64 = 150;
    on_every_backend(|backend| {
        let log = create(backend, "s");
        log.flush(&go_on()).unwrap();
        let shared = open(backend, "s", Access::Read);
        let is_over = AtomicBool::new(false);
        std::thread::scope(|scope| {
            for number in 0..3_u64 {
                let (shared, is_over) = (&shared, &is_over);
                scope.spawn(move || {
                    // Two readers share a handle: what one of them has seen must not make the other one fail.
                    let own;
                    let reader = if number < 2 {
                        shared
                    } else {
                        own = open(backend, "s", Access::Read);
                        &own
                    };
                    let mut seen = 0;
                    loop {
                        let last_round = is_over.load(Ordering::Acquire);
                        let now = read_log(&**reader).unwrap();
                        assert!(now.iter().zip(0..).all(|(event, seq)| event.seq() == seq));
                        assert!(now.len() >= seen, "{} events after {seen}", now.len());
                        seen = now.len();
                        let newest = reader.events(EventRange::newest(2), &go_on()).unwrap();
                        let newest: Vec<_> = newest.map(Result::unwrap).collect();
                        assert!(newest.len() <= 2);
                        assert!(newest.last().is_none_or(|event| event.seq() + 1 >= seen as u64));
                        if last_round {
                            assert_eq!(seen as u64, 2 * BATCHES);
                            return;
                        }
                    }
                });
            }
            for batch in 0..BATCHES {
                log.append(&events(2 * batch..2 * batch + 2, 1), &go_on()).unwrap();
            }
            is_over.store(true, Ordering::Release);
        });
    });
}

#[test]
fn threads_that_share_a_write_handle_get_whole_ordered_appends_and_closed_after_a_close() {
    on_every_backend(|backend| {
        let log = create(backend, "s");
        let accepted = std::sync::Mutex::new(0_u64);
        std::thread::scope(|scope| {
            for number in 0..8 {
                let (log, accepted) = (&log, &accepted);
                scope.spawn(move || {
                    loop {
                        let mut next = accepted.lock().unwrap();
                        match log.append(&events(*next..*next + 3, 1), &go_on()) {
                            Ok(()) => *next += 3,
                            Err(error) => {
                                assert_eq!(error.code(), Code::HandleClosed);
                                return;
                            }
                        }
                        let (now, is_last) = (*next, *next >= 120 && number == 3);
                        drop(next);
                        match read_log(&**log) {
                            Ok(read) => assert!(read.len() as u64 >= now && read.len() % 3 == 0),
                            Err(error) => assert_eq!(error.code(), Code::HandleClosed),
                        }
                        if is_last {
                            log.close().unwrap();
                        }
                    }
                });
            }
        });
        let expected = events(0..*accepted.lock().unwrap(), 1);
        assert_eq!(read_all(backend, "s").unwrap(), expected);
        open(backend, "s", Access::Write);
    });
}

#[test]
fn a_session_is_removed_unless_somebody_owns_it() {
    on_every_backend(|backend| {
        for how in [Removal::Delete, Removal::Trash] {
            let remove = || backend.remove("s", how, &go_on());
            assert_eq!(refusal(remove()), Code::SessionNotFound);
            let log = create(backend, "s");
            assert_eq!(refusal(remove()), Code::SessionAlreadyOwned);
            log.append(&events(0..4, 1), &go_on()).unwrap();
            assert_eq!(refusal(remove()), Code::SessionAlreadyOwned);
            log.close().unwrap();
            let cancelled = CancelToken::new();
            cancelled.cancel();
            assert_eq!(refusal(backend.remove("s", how, &cancelled)), Code::Cancelled);
            let reader = open(backend, "s", Access::Read);
            assert_eq!(read_log(&*reader).unwrap().len(), 4);
            remove().unwrap();
            assert_eq!(refusal(read_log(&*reader)), Code::SessionNotFound);
            assert!(backend.stat("s", &go_on()).unwrap().is_none());
            assert!(listed(backend).is_empty());
            // The id is free again, and nothing of the old log is in the new one.
            stored(backend, "s", 1);
            assert_eq!(read_all(backend, "s").unwrap(), events(0..1, 1));
            remove().unwrap();
        }
    });
}

#[test]
fn what_the_caller_does_to_its_batch_after_the_call_changes_nothing() {
    on_every_backend(|backend| {
        let log = create(backend, "s");
        let mut batch = events(0..4, 1);
        log.append(&batch, &go_on()).unwrap();
        batch.reverse();
        batch.truncate(1);
        log.flush(&go_on()).unwrap();
        assert_eq!(read_all(backend, "s").unwrap(), events(0..4, 1));
    });
}
