//! The life of a session on the disk: when its events get there, what a resume and a fork leave there, and how it ends.

use dsh_session_core::event::Vocabulary;
use dsh_session_core::session::WriteState;
use dsh_session_core::storage::ProcessIdentity;
use dsh_session_core::storage::simulation::{Fault, FaultyStorage, MemoryStorage};
use dsh_session_core::store::{Preparation, SessionPreparation, SessionStore};
use dsh_session_core::{
    Code, Error, Event, EventDraft, EventRange, NewSession, Reporter, Result, Session, Severity, Store,
    StoreBuilder, WRITE_BEHIND_BYTES,
};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Barrier, Mutex};
use std::time::Duration;

const ROOT: &str = "/root";

fn disk() -> MemoryStorage {
    MemoryStorage::new(3)
}

fn on(disk: &MemoryStorage) -> StoreBuilder {
    // Nothing is written behind the back of a test that does not ask for it.
    Store::builder(ROOT).storage(Arc::new(disk.clone())).write_behind_delay(Duration::MAX)
}

fn open(disk: &MemoryStorage) -> Store {
    on(disk).open().unwrap()
}

fn event(kind: &str, data: &str) -> EventDraft {
    EventDraft::new(kind, data).unwrap()
}

fn start(turn: u64) -> EventDraft {
    event("turn/start", &format!(r#"{{"turn":{turn}}}"#))
}

fn end(turn: u64) -> EventDraft {
    event("turn/end", &format!(r#"{{"turn":{turn},"reason":{{"kind":"completed"}}}}"#))
}

fn note(text: &str) -> EventDraft {
    event("plugin:test/note", &format!("{text:?}"))
}

/// What another program would read.
fn stored(disk: &MemoryStorage, id: &str) -> Vec<String> {
    let events = match open(disk).events(id, EventRange::ALL) {
        Ok(events) => events,
        Err(error) if error.code() == Code::SessionNotFound => return Vec::new(),
        Err(error) => panic!("{error}"),
    };
    events.map(|event| event.unwrap().kind().to_owned()).collect()
}

/// Waits until the background has done something.
fn until(holds: impl Fn() -> bool) {
    while !holds() {
        std::thread::yield_now();
    }
}

#[test]
fn an_event_gets_to_the_disk_without_being_asked() {
    let disk = disk();
    let store = on(&disk).write_behind_delay(Duration::from_millis(1)).open().unwrap();
    let session = store.create(NewSession::new().id("s")).unwrap();
    for count in 1..4 {
        session.append(note("x")).unwrap();
        until(|| stored(&disk, "s").len() == count);
    }
    assert_eq!(session.pending().events, 0);
}

#[test]
fn much_text_is_written_at_once_and_little_waits() {
    let disk = disk();
    let session = open(&disk).create(NewSession::new().id("s")).unwrap();
    session.append(note("little")).unwrap();
    assert_eq!((session.pending().events, stored(&disk, "s").len()), (1, 0));
    session.append(note(&"x".repeat(WRITE_BEHIND_BYTES))).unwrap();
    until(|| session.pending().events == 0);
    assert_eq!(stored(&disk, "s").len(), 2);
}

#[test]
fn a_write_that_fails_in_the_background_is_reported_and_waits_for_a_flush() {
    let memory = disk();
    let faulty = FaultyStorage::new(Arc::new(memory.clone()));
    let lines: Arc<Mutex<Vec<String>>> = Arc::default();
    let into = Arc::clone(&lines);
    let reporter = Reporter::new(move |severity, line| {
        assert_eq!(severity, Severity::Error);
        into.lock().unwrap().push(line.to_owned());
    });
    let store = Store::builder(ROOT)
        .storage(Arc::new(faulty.clone()))
        .write_behind_delay(Duration::from_millis(1))
        .reporter(reporter)
        .open()
        .unwrap();
    let session = store.create(NewSession::new().id("s")).unwrap();
    session.append(note("one")).unwrap();
    session.flush().unwrap();
    faulty.clear();
    faulty.fail_from(1, Fault::error(rustix::io::Errno::NOSPC.raw_os_error()));
    session.append(note("two")).unwrap();
    until(|| session.pending().error.is_some());
    assert_eq!(session.pending().error.unwrap().code(), Code::Io);
    until(|| !lines.lock().unwrap().is_empty());
    assert!(lines.lock().unwrap()[0].contains('s'));
    // It goes on accepting, and tries nothing of its own accord.
    session.append(note("three")).unwrap();
    assert_eq!((session.pending().events, stored(&memory, "s").len()), (2, 1));
    faulty.clear_faults();
    session.flush().unwrap();
    assert_eq!((session.pending().events, stored(&memory, "s").len()), (0, 3));
    assert!(session.pending().error.is_none());
    assert_eq!(lines.lock().unwrap().len(), 1);
}

#[test]
fn nothing_of_a_store_is_held_or_runs_once_its_last_handle_is_gone() {
    for sessions_go_first in [true, false] {
        for _ in 0..20 {
            let held = Arc::new(());
            let (held_by_reporter, told) = (Arc::clone(&held), Arc::new(AtomicUsize::new(0)));
            let count = Arc::clone(&told);
            let reporter = Reporter::new(move |_, _| {
                count.fetch_add(1, Ordering::SeqCst);
                // Slow enough for the handles to go meanwhile.
                (0..1000).for_each(|_| std::thread::yield_now());
                assert_eq!(Arc::strong_count(&held_by_reporter), 2);
            });
            let faulty = FaultyStorage::new(Arc::new(disk()));
            let store = Store::builder(ROOT).storage(Arc::new(faulty.clone())).reporter(reporter);
            let store = store.write_behind_delay(Duration::from_millis(1)).open().unwrap();
            let session = store.create(NewSession::new()).unwrap();
            session.append(note("one")).unwrap();
            session.flush().unwrap();
            faulty.clear();
            faulty.fail_from(1, Fault::error(rustix::io::Errno::NOSPC.raw_os_error()));
            session.append(note("two")).unwrap();
            until(|| told.load(Ordering::SeqCst) > 0);
            if sessions_go_first {
                drop(session);
                drop(store);
            } else {
                drop(store);
                drop(session);
            }
            assert_eq!(Arc::strong_count(&held), 1);
        }
    }
}

#[test]
fn a_resume_closes_the_turn_on_the_disk_before_anybody_hears_of_the_session() {
    let disk = disk();
    let session = open(&disk).create(NewSession::new().id("s")).unwrap();
    session.append_batch(&[start(1), event("step/start", r#"{"turn":1,"step":1}"#)]).unwrap();
    session.close().unwrap();
    let store = open(&disk);
    let heard = Arc::new(AtomicUsize::new(0));
    let (count, looking) = (Arc::clone(&heard), disk.clone());
    store.live().on_created(move |session| {
        count.fetch_add(1, Ordering::SeqCst);
        assert_eq!(session.write_state(), WriteState::Announcing);
        assert_eq!(stored(&looking, "s").len() as u64, session.next_seq());
        Ok(())
    });
    let session = store.resume("s").unwrap();
    let kinds = ["turn/start", "step/start", "step/end", "turn/end", "session/end-seed"];
    assert_eq!(stored(&disk, "s"), kinds);
    assert_eq!((heard.load(Ordering::SeqCst), session.first_live_seq()), (1, 4));
    assert_eq!(session.notices().last().unwrap().to_json(), r#"{"kind":"turn-closed","events":2}"#);
    session.append(start(2)).unwrap();
    session.append(end(2)).unwrap();
    session.close().unwrap();
    // A log that ends in no marker gets one at each resume, one that does gets none.
    store.resume("s").unwrap().close().unwrap();
    let length = stored(&disk, "s").len();
    store.resume("s").unwrap().close().unwrap();
    assert_eq!(stored(&disk, "s").len(), length);
}

#[test]
fn a_session_is_open_as_long_as_a_clone_that_the_store_gave() {
    let disk = disk();
    let store = open(&disk);
    let seen: Arc<Mutex<Option<dsh_session_core::Session>>> = Arc::default();
    let into = Arc::clone(&seen);
    store.on_event(move |session, _| {
        *into.lock().unwrap() = Some(session.clone());
        Ok(())
    });
    let session = store.create(NewSession::new().id("s")).unwrap();
    session.append(note("x")).unwrap();
    let again = store.get("s").unwrap();
    drop(session);
    assert_eq!(store.live_ids(), ["s"]);
    again.append(note("y")).unwrap();
    drop(again);
    // What a listener kept does not keep it open, and everything was written.
    assert!(store.live_ids().is_empty() && store.get("s").is_none());
    assert_eq!(stored(&disk, "s").len(), 2);
    let kept = seen.lock().unwrap().clone().unwrap();
    assert_eq!(kept.append(note("z")).unwrap_err().code(), Code::HandleClosed);
    assert_eq!(kept.next_seq(), 2);
    store.open_session("s").unwrap();
}

#[test]
fn a_veto_leaves_nothing_open_and_the_id_free() {
    let disk = disk();
    let store = open(&disk);
    let veto = store.live().on_created(|_| Err(Error::new(Code::InvalidArgument, "not this one")));
    let disposed = Arc::new(AtomicUsize::new(0));
    let count = Arc::clone(&disposed);
    store.live().on_disposed(move |_| {
        count.fetch_add(1, Ordering::SeqCst);
        Ok(())
    });
    let error = store.create(NewSession::new().id("s")).unwrap_err();
    assert_eq!((error.message(), disposed.load(Ordering::SeqCst)), ("not this one", 1));
    assert!(store.live_ids().is_empty());
    veto.cancel();
    store.create(NewSession::new().id("s")).unwrap().append(start(1)).unwrap();
    assert_eq!(disk.held_locks(), 0);
}

#[test]
fn a_session_can_be_closed_from_its_own_listener() {
    let disk = disk();
    let store = open(&disk);
    store.on_event(|session, event| if event.kind() == "turn/end" { session.close() } else { Ok(()) });
    let session = store.create(NewSession::new().id("s")).unwrap();
    session.append_batch(&[start(1), end(1)]).unwrap();
    assert!(store.live_ids().is_empty());
    assert_eq!(session.append(start(2)).unwrap_err().code(), Code::HandleClosed);
    assert_eq!(stored(&disk, "s"), ["turn/start", "turn/end"]);
}

#[test]
fn a_fork_is_on_the_disk_before_it_is_announced_and_leaves_its_source_alone() {
    let disk = disk();
    let store = open(&disk);
    let source = store.create(NewSession::new().id("source").cwd("/w").agent_preset("plain")).unwrap();
    let selected = event("agent-preset/selected", r#"{"agentPreset":"other"}"#);
    source.append_batch(&[start(1), end(1), selected, start(2), note("open")]).unwrap();
    let looking = disk.clone();
    store.live().on_created(move |session| {
        assert_eq!(stored(&looking, session.id()).len() as u64, session.next_seq());
        Ok(())
    });
    // The completed prefix: the turn that ended, and what belongs to no other.
    let child = store.fork("source", None, NewSession::new().id("completed")).unwrap();
    assert_eq!((child.inherited_event_count(), child.next_seq(), child.first_lifecycle_seq()), (3, 4, 3));
    assert_eq!(
        (child.header().cwd.as_deref(), child.header().agent_preset.as_deref()),
        (Some("/w"), Some("other"))
    );
    assert!(child.header().parent_session.is_none() && child.header().is_seeded);
    // A cut inside a turn is closed in the child alone.
    let child = store.fork("source", Some(4), NewSession::new().id("cut").parent_session("source")).unwrap();
    let kinds: Vec<String> =
        child.snapshot_events(5, 9).iter().map(|event| event.kind().to_owned()).collect();
    assert_eq!(kinds, ["session/end-seed", "turn/end"]);
    assert_eq!(child.header().parent_session.as_deref(), Some("source"));
    child.append(start(3)).unwrap();
    assert_eq!(source.next_seq(), 5);
    source.close().unwrap();
    // The same of a stored source, which stays stored.
    let child = store.fork("source", Some(0), NewSession::new()).unwrap();
    assert_eq!(child.header().agent_preset.as_deref(), Some("plain"));
    assert!(child.id().starts_with("session-") && store.get("source").is_none());
    for (at, code) in [(5, Code::ForkUnavailable), (u64::MAX, Code::ForkUnavailable)] {
        assert_eq!(store.fork("source", Some(at), NewSession::new()).unwrap_err().code(), code);
    }
    assert_eq!(store.fork("nobody", None, NewSession::new()).unwrap_err().code(), Code::SessionNotFound);
    let empty = store.create(NewSession::new().id("empty")).unwrap();
    assert_eq!(store.fork(empty.id(), None, NewSession::new()).unwrap_err().code(), Code::ForkUnavailable);
    // Forks of forks, resumed.
    let (grandchild, length) = {
        let grandchild = store.fork("cut", None, NewSession::new().id("grandchild")).unwrap();
        (grandchild.inherited_event_count(), grandchild.next_seq())
    };
    let resumed = store.resume("grandchild").unwrap();
    assert_eq!((resumed.inherited_event_count(), resumed.next_seq()), (grandchild, length));
}

#[test]
fn a_seed_that_no_reader_would_accept_is_refused_by_its_rule_and_index() {
    let store = Store::in_memory().unwrap();
    let seed = [start(1).build(0, 1).unwrap(), start(2).build(1, 1).unwrap()];
    let error = store.create(NewSession::new().id("s").seed(seed)).unwrap_err();
    assert_eq!((error.code(), error.rule(), error.index()), (Code::SessionRefused, Some("A14"), Some(1)));
    assert!(store.live_ids().is_empty());
    let seed = [start(1).build(0, 1).unwrap(), end(1).build(1, 1).unwrap()];
    let session = store.create(NewSession::new().id("s").seed(seed)).unwrap();
    assert_eq!(
        session.snapshot_events(2, 9).iter().map(Event::kind).collect::<Vec<_>>(),
        ["session/end-seed"]
    );
}

#[test]
fn a_host_may_turn_the_rules_of_stored_logs_off_and_register_types() {
    let store = Store::memory_builder().checks_stored_rules(false).open().unwrap();
    store.create(NewSession::new()).unwrap().append(start(7)).unwrap();
    let vocabulary = Vocabulary::with_types(["acme/usage"]).and_type("acme/redact", true);
    let disk = disk();
    let store = on(&disk).vocabulary(vocabulary).open().unwrap();
    let session = store.create(NewSession::new().id("s")).unwrap();
    session.append(event("acme/usage", "{}")).unwrap();
    let missing = session.append(event("acme/redact", "{}")).unwrap_err();
    assert_eq!(missing.rule(), Some("PROJECTION_MISSING"));
    let hide = |_: &Event, _: &dsh_session_core::session::ProjectionContext<'_>| Ok(Vec::new());
    store.live().projections().register("acme/redact", hide).unwrap();
    session.append(event("acme/redact", "{}")).unwrap();
    session.close().unwrap();
    assert_eq!(store.open_session("s").unwrap().next_seq(), 2);
    // A program that does not know the type cannot open the log.
    assert_eq!(open(&disk).open_session("s").unwrap_err().code(), Code::FormatUnsupported);
}

#[test]
fn a_projection_that_fails_panics_or_changes_an_id_refuses_its_event_and_nothing_changes() {
    type Decision = fn() -> dsh_session_core::Result<Vec<(u64, String)>>;
    let decisions: [Decision; 5] = [
        || Err(Error::new(Code::InvalidArgument, "no")),
        || panic!("on purpose"),
        || Ok(vec![(0, r#"{"id":"other","role":"user","content":[]}"#.to_owned())]),
        || Ok(vec![(7, r#"{"id":"m"}"#.to_owned())]),
        || Ok(vec![(0, "{".to_owned())]),
    ];
    for decision in decisions {
        let vocabulary = Vocabulary::default().and_type("acme/redact", true);
        let store = Store::memory_builder().vocabulary(vocabulary).open().unwrap();
        let decide = move |_: &Event, _: &dsh_session_core::session::ProjectionContext<'_>| decision();
        store.live().projections().register("acme/redact", decide).unwrap();
        let session = store.create(NewSession::new()).unwrap();
        let message = r#"{"id":"m","role":"user","source":{"kind":"user"},"content":[]}"#;
        session.append(event("user/message", message).surface(dsh_session_core::SurfaceOp::Append)).unwrap();
        let error = session.append(event("acme/redact", "{}")).unwrap_err();
        assert_eq!(
            (error.code(), error.rule()),
            (Code::EventRefused, Some("PROJECTION_REJECTED")),
            "{error}"
        );
        assert_eq!((session.next_seq(), session.messages().unwrap()[0].text()), (1, message));
        session.append(start(1)).unwrap();
    }
}

#[test]
fn a_preparation_releases_once_whether_it_is_disposed_or_dropped() {
    let released = Arc::new(AtomicUsize::new(0));
    let preparation = || {
        let count = Arc::clone(&released);
        let release = Box::new(move || {
            count.fetch_add(1, Ordering::SeqCst);
        });
        let session = SessionStore::new().prepare(Preparation::default()).unwrap();
        SessionPreparation::new(session, Some(release))
    };
    let disposed = preparation();
    assert_eq!(disposed.session().write_state(), WriteState::Prepared);
    disposed.dispose();
    disposed.dispose();
    drop(disposed);
    assert_eq!(released.load(Ordering::SeqCst), 1);
    drop(preparation());
    assert_eq!(released.load(Ordering::SeqCst), 2);
}

/// Whoever is in the gate when a process forks never leaves it in the child: there, nothing of a store may wait.
#[test]
fn a_forked_child_is_turned_away_by_a_store_whose_gate_is_taken() {
    let disk = disk();
    for builder in [on(&disk), Store::memory_builder().storage(Arc::new(disk.clone()))] {
        disk.set_current_process(process(1));
        let store = builder.open().unwrap();
        let source = store.create(NewSession::new().id("source")).unwrap();
        source.append(start(1)).unwrap();
        source.append(end(1)).unwrap();
        let (entered, leave) = (Arc::new(Barrier::new(2)), Arc::new(Barrier::new(2)));
        let (inside, outside) = (Arc::clone(&entered), Arc::clone(&leave));
        store.on_event(move |_, _| {
            inside.wait();
            outside.wait();
            Ok(())
        });
        let appender = source.clone();
        let thread = std::thread::spawn(move || appender.append(note("x")).map(drop));
        entered.wait();
        disk.set_current_process(process(2));
        let code = |result: Result<Session>| result.unwrap_err().code();
        assert_eq!(code(store.fork("source", None, NewSession::new())), Code::ForkedProcess);
        assert_eq!(code(store.create(NewSession::new())), Code::ForkedProcess);
        assert_eq!(code(store.resume("source")), Code::ForkedProcess);
        assert_eq!(code(store.open_session("source")), Code::ForkedProcess);
        assert_eq!(store.flush().unwrap_err().code(), Code::ForkedProcess);
        assert_eq!(source.append(note("y")).unwrap_err().code(), Code::ForkedProcess);
        disk.set_current_process(process(1));
        leave.wait();
        thread.join().unwrap().unwrap();
    }
}

fn process(id: u32) -> ProcessIdentity {
    ProcessIdentity { id, began: id.to_string(), program: "test".to_owned() }
}

#[test]
fn a_marker_that_the_log_would_refuse_is_refused_before_others_wait_behind_it() {
    let disk = disk();
    let store = open(&disk);
    let session = store.create(NewSession::new().id("s")).unwrap();
    session.append(note("one")).unwrap();
    let fork = store.fork("s", Some(0), NewSession::new().id("fork")).unwrap();
    for session in [&session, &fork] {
        let before = session.next_seq();
        let marker = event("session/end-seed", r#"{"inherited":true}"#);
        for error in
            [session.append(&marker).unwrap_err(), session.append_batch(&[note("x"), marker]).unwrap_err()]
        {
            assert_eq!((error.code(), error.rule()), (Code::EventRefused, Some("INHERITED_MARKER_NOT_LAST")));
        }
        session.append(event("session/end-seed", "{}")).unwrap();
        session.flush().unwrap();
        assert_eq!((session.next_seq(), stored(&disk, session.id()).len() as u64), (before + 1, before + 1));
    }
}
