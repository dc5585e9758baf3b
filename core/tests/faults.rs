//! Failing calls of the operating system: each public operation with each of its I/O calls failing, alone and in pairs.
//!
//! Whatever fails: nothing panics, an error says `IO` and never calls a good log damaged or absent, what was acknowledged is there for
//! whoever opens the root afterwards, what was not accepted is not counted, no hole opens, and the operation works when it is repeated.

mod durability;

use dsh_session_core::event::{Event, EventDraft};
use dsh_session_core::format::frames::FrameEncoder;
use dsh_session_core::persistence::files::{FilePersistence, FileSettings};
use dsh_session_core::persistence::{NewLog, Removal};
use dsh_session_core::storage::Storage;
use dsh_session_core::storage::simulation::{Fault, FaultyStorage, MemoryStorage};
use dsh_session_core::{
    Access, Code, Encoding, EventRange, ListMode, NewSession, Result, SessionHeader, SessionLog,
    SessionPersistence, Store, WRITE_BEHIND_BYTES,
};
use durability::{end_seed, event, events, go_on, header, note, note_of_length, read_all, read_log};
use std::cell::{Cell, RefCell};
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::path::PathBuf;
use std::sync::Arc;

const ROOT: &str = "/data/sessions";

const ENOSPC: i32 = 28;
const EIO: i32 = 5;
const EACCES: i32 = 13;
const EINTR: i32 = 4;

const ENCODINGS: [Encoding; 2] = [Encoding::None, Encoding::Zstd];

/// How a single call fails.
const FAULTS: [Fault; 8] = [
    Fault::error(ENOSPC),
    Fault::error(EIO),
    Fault::error(EACCES),
    Fault::error(EINTR),
    Fault::error_after_effect(EIO),
    Fault::error_after_bytes(ENOSPC, 7),
    Fault::short(3),
    Fault::short(0),
];

/// How each of two calls fails.
const PAIRED_FAULTS: [Fault; 3] =
    [Fault::error(EIO), Fault::error_after_effect(EIO), Fault::error_after_bytes(ENOSPC, 5)];

/// The calls that fail in one run, counted from the beginning of the operation under test.
struct Strike {
    encoding: Encoding,
    faults: Vec<(u64, Fault)>,
    calls: Cell<u64>,
    log: RefCell<Vec<String>>,
}

impl Strike {
    /// Runs the operation under test.
    fn during<T>(&self, world: &World, operation: impl FnOnce() -> T) -> T {
        world.faulty.clear();
        for (number, fault) in &self.faults {
            world.faulty.fail_call(*number, *fault);
        }
        let outcome = operation();
        self.calls.set(world.faulty.calls());
        self.log.replace(world.faulty.log());
        world.faulty.clear_faults();
        outcome
    }
}

type Scenario = fn(&Strike);

fn run(scenario: Scenario, encoding: Encoding, faults: Vec<(u64, Fault)>) -> u64 {
    let strike = Strike { encoding, faults, calls: Cell::new(0), log: RefCell::default() };
    if let Err(panic) = catch_unwind(AssertUnwindSafe(|| scenario(&strike))) {
        eprintln!("{}, {:?}, {:#?}", encoding.as_str(), strike.faults, strike.log.borrow());
        resume_unwind(panic);
    }
    strike.calls.get()
}

/// The scenario without a fault, then with each call failing in each way.
fn each_call(scenario: Scenario) {
    for encoding in ENCODINGS {
        let calls = run(scenario, encoding, Vec::new());
        assert!(calls > 0, "the operation makes no call of the system");
        for number in 1..=calls {
            for fault in FAULTS {
                run(scenario, encoding, vec![(number, fault)]);
            }
        }
    }
}

/// Every pair of calls: the second one among those that are made once the first has failed.
fn each_pair(scenario: Scenario) {
    for encoding in ENCODINGS {
        let calls = run(scenario, encoding, Vec::new());
        for first in 1..=calls {
            for fault in PAIRED_FAULTS {
                let calls = run(scenario, encoding, vec![(first, fault)]);
                for second in first + 1..=calls {
                    for other in PAIRED_FAULTS {
                        run(scenario, encoding, vec![(first, fault), (second, other)]);
                    }
                }
            }
        }
    }
}

/// A disk, the library on it with failing calls, and a way to look at it without.
struct World {
    disk: MemoryStorage,
    faulty: FaultyStorage,
    backend: FilePersistence,
    encoding: Encoding,
}

impl World {
    fn new(encoding: Encoding) -> World {
        let disk = MemoryStorage::new(3);
        disk.create_directory("/data".as_ref()).unwrap();
        World::on(disk, encoding)
    }

    fn on(disk: MemoryStorage, encoding: Encoding) -> World {
        let faulty = FaultyStorage::new(Arc::new(disk.clone()));
        let backend = files(Arc::new(faulty.clone()), Some(encoding));
        World { disk, faulty, backend, encoding }
    }

    /// A root with the session `s` of four events.
    fn with_session(encoding: Encoding) -> World {
        let world = World::new(encoding);
        let log = world.backend.create(&header("s"), None, &go_on()).unwrap();
        log.append(&events(0..4, 1), &go_on()).unwrap();
        log.close().unwrap();
        world
    }

    /// The same root as another program sees it, one whose calls do not fail.
    fn clean(&self) -> FilePersistence {
        files(Arc::new(self.disk.clone()), Some(self.encoding))
    }

    /// What another program reads of `s`; `None` if there is no such session.
    fn stored(&self) -> Option<Vec<Event>> {
        match read_all(&self.clean(), "s") {
            Ok(events) => Some(events),
            Err(error) if error.code() == Code::SessionNotFound => None,
            Err(error) => panic!("{error}"),
        }
    }

    fn open(&self, access: Access) -> Arc<dyn SessionLog> {
        self.backend.open("s", access, &go_on()).unwrap()
    }

    /// Closes the handle and sees that everything is given back.
    fn end(self, log: Arc<dyn SessionLog>) {
        log.close().unwrap();
        drop(log);
        self.clean().open("s", Access::Write, &go_on()).unwrap().close().unwrap();
        assert_eq!((self.faulty.open_files(), self.disk.held_locks()), (0, 0));
    }

    fn log_path(&self) -> PathBuf {
        self.clean().stat("s", &go_on()).unwrap().unwrap().path.unwrap()
    }
}

fn files(storage: Arc<dyn Storage>, encoding: Option<Encoding>) -> FilePersistence {
    FilePersistence::with_storage(ROOT, storage, FileSettings { encoding, ..FileSettings::default() })
        .unwrap()
}

/// The failure of a call of the system, reported as that.
#[track_caller]
fn assert_io<T>(result: Result<T>) {
    if let Err(error) = result {
        assert_eq!(error.code(), Code::Io, "{error}");
    }
}

/// `whole` is `begin` and then the first events of `batch`, all of them or less.
#[track_caller]
fn assert_prefix(whole: &[Event], begin: &[Event], batch: &[Event]) {
    assert!(whole.len() >= begin.len(), "acknowledged events are gone");
    assert_eq!(whole[..begin.len()], *begin);
    assert!(batch.starts_with(&whole[begin.len()..]), "events that were never sent");
}

#[test]
fn a_failed_create_reserves_nothing() {
    each_call(|strike| {
        let world = World::with_session(strike.encoding);
        let created = strike.during(&world, || world.backend.create(&header("new"), None, &go_on()));
        if let Ok(log) = &created {
            log.close().unwrap();
        }
        assert_io(created);
        let log = world.backend.create(&header("new"), None, &go_on()).unwrap();
        log.append(&events(0..3, 2), &go_on()).unwrap();
        log.close().unwrap();
        assert_eq!(read_all(&world.clean(), "new").unwrap(), events(0..3, 2));
        assert_eq!(world.stored().unwrap(), events(0..4, 1));
    });
}

#[test]
fn a_root_never_gets_a_second_encoding_because_it_could_not_be_read() {
    each_call(|strike| {
        let world = World::with_session(strike.encoding);
        let backend = files(Arc::new(world.faulty.clone()), None);
        let created = strike.during(&world, || backend.create(&header("new"), None, &go_on()));
        if let Ok(log) = &created {
            log.flush(&go_on()).unwrap();
            let path = world.clean().stat("new", &go_on()).unwrap().unwrap().path.unwrap();
            assert_eq!(path.extension(), world.log_path().extension());
        }
        assert_io(created);
    });
}

/// Materializes with a batch, or with the header alone if it is empty, and repeats that with another one if it fails.
fn first_write(strike: &Strike, batch: &[Event], again: &[Event]) {
    let write = |log: &dyn SessionLog, batch: &[Event]| match batch {
        [] => log.flush(&go_on()),
        batch => log.append(batch, &go_on()),
    };
    let world = World::new(strike.encoding);
    let log = world.backend.create(&header("s"), None, &go_on()).unwrap();
    let outcome = strike.during(&world, || write(&*log, batch));
    let expected = match outcome {
        Ok(()) => batch,
        Err(error) => {
            assert_eq!(error.code(), Code::Io, "{error}");
            assert_eq!(log.event_count(&go_on()).unwrap(), 0);
            assert_eq!(read_log(&*log).unwrap(), []);
            if let Some(stored) = world.stored() {
                assert_eq!(stored, batch, "a session is there whole or not at all");
            }
            write(&*log, again).unwrap();
            again
        }
    };
    assert_eq!(world.stored().unwrap(), expected);
    let next = expected.len() as u64;
    log.append(&events(next..next + 2, 5), &go_on()).unwrap();
    assert_eq!(world.stored().unwrap(), [expected, &events(next..next + 2, 5)].concat());
    world.end(log);
}

fn first_append(strike: &Strike) {
    first_write(strike, &events(0..4, 1), &events(0..3, 2));
}

#[test]
fn a_failed_first_append_stores_nothing_and_can_be_repeated() {
    each_call(first_append);
}

#[test]
fn a_first_append_with_two_failures_stores_nothing_and_can_be_repeated() {
    each_pair(first_append);
}

#[test]
fn a_failed_first_flush_can_be_repeated() {
    each_call(|strike| first_write(strike, &[], &[]));
    each_pair(|strike| first_write(strike, &[], &[]));
}

/// A first write that failed, given up by closing.
fn first_append_given_up(strike: &Strike) {
    let world = World::new(strike.encoding);
    let log = world.backend.create(&header("s"), None, &go_on()).unwrap();
    let batch = events(0..4, 1);
    let (appended, closed) = strike.during(&world, || (log.append(&batch, &go_on()), log.close()));
    match (appended.is_ok(), closed.is_ok(), world.stored()) {
        (true, _, stored) => assert_eq!(stored.unwrap(), batch),
        (false, true, stored) => assert_eq!(stored, None, "nothing was accepted, and closing went well"),
        (false, false, stored) => assert!(stored.is_none_or(|stored| stored == batch)),
    }
    assert_io(appended);
    assert_io(closed);
    drop(log);
    // The id is free for whoever comes next.
    let clean = world.clean();
    match world.stored() {
        None => clean.create(&header("s"), None, &go_on()).unwrap().flush(&go_on()).unwrap(),
        Some(_) => clean.open("s", Access::Write, &go_on()).unwrap().close().unwrap(),
    }
    assert_eq!(world.faulty.open_files(), 0);
}

#[test]
fn a_session_whose_first_append_failed_is_whole_or_absent_after_closing() {
    each_call(first_append_given_up);
    each_pair(first_append_given_up);
}

/// A session that is created with events, some of them copied from the log of another.
fn forked(strike: &Strike) {
    let world = World::with_session(strike.encoding);
    let source = world.open(Access::Read);
    let child = SessionHeader { is_seeded: true, ..header("child") };
    let begin = [events(0..4, 1), vec![end_seed(4), note(5, 1)]].concat();
    let new = || NewLog {
        header: &child,
        inherited_event_count: Some(4),
        events: &begin,
        are_checked: false,
        stored: source.stored_events(),
    };
    let stored = || match read_all(&world.clean(), "child") {
        Ok(events) => Some(events),
        Err(error) if error.code() == Code::SessionNotFound => None,
        Err(error) => panic!("{error}"),
    };
    match strike.during(&world, || world.backend.create_with(new(), &go_on())) {
        Ok(log) => log.close().unwrap(),
        Err(error) => {
            assert_eq!(error.code(), Code::Io, "{error}");
            match stored() {
                None => world.backend.create_with(new(), &go_on()).unwrap().close().unwrap(),
                Some(_) => world.backend.open("child", Access::Write, &go_on()).unwrap().close().unwrap(),
            }
        }
    }
    assert_eq!(stored().unwrap(), begin, "a session is there whole or not at all");
    assert_eq!(world.stored().unwrap(), events(0..4, 1), "the source is left alone");
    source.close().unwrap();
    drop(source);
    assert_eq!((world.faulty.open_files(), world.disk.held_locks()), (0, 0));
}

#[test]
fn a_session_created_with_events_is_whole_or_absent_whatever_fails() {
    each_call(forked);
    each_pair(forked);
}

fn later_append(strike: &Strike) {
    let world = World::with_session(strike.encoding);
    let log = world.open(Access::Write);
    let begin = events(0..5, 1);
    log.append(&begin[4..], &go_on()).unwrap();
    let batch = events(5..8, 1);
    let outcome = strike.during(&world, || log.append(&batch, &go_on()));
    let mut expected = begin.clone();
    match outcome {
        Ok(()) => expected.extend(batch),
        Err(error) => {
            assert_eq!(error.code(), Code::Io, "{error}");
            assert_prefix(&world.stored().unwrap(), &begin, &batch);
            assert_eq!(log.event_count(&go_on()).unwrap(), 5);
            assert_eq!(read_log(&*log).unwrap(), begin);
            assert_eq!(log.check(&go_on()).unwrap().event_count, 5);
            log.append(&events(5..7, 2), &go_on()).unwrap();
            expected.extend(events(5..7, 2));
        }
    }
    assert_eq!(world.stored().unwrap(), expected);
    assert_eq!(read_log(&*log).unwrap(), expected);
    world.end(log);
}

#[test]
fn a_failed_append_is_not_accepted_and_can_be_repeated() {
    each_call(later_append);
}

#[test]
fn an_append_with_two_failures_is_not_accepted_and_can_be_repeated() {
    each_pair(later_append);
}

/// An append that failed, given up by closing.
fn append_given_up(strike: &Strike) {
    let world = World::with_session(strike.encoding);
    let log = world.open(Access::Write);
    let (begin, batch) = (events(0..4, 1), events(4..8, 1));
    let (appended, closed) = strike.during(&world, || (log.append(&batch, &go_on()), log.close()));
    let stored = world.stored().unwrap();
    match (appended.is_ok(), closed.is_ok()) {
        (true, _) => assert_eq!(stored, [begin, batch].concat()),
        (false, true) => assert_eq!(stored, begin, "nothing was accepted, and closing went well"),
        (false, false) => assert_prefix(&stored, &begin, &batch),
    }
    assert_io(appended);
    assert_io(closed);
    drop(log);
    let next = stored.len() as u64;
    let log = world.clean().open("s", Access::Write, &go_on()).unwrap();
    log.append(&events(next..next + 1, 3), &go_on()).unwrap();
    log.close().unwrap();
    assert_eq!(world.stored().unwrap(), [stored, events(next..next + 1, 3)].concat());
    assert_eq!((world.faulty.open_files(), world.disk.held_locks()), (0, 0));
}

#[test]
fn a_log_is_whole_after_a_failed_append_and_a_close() {
    each_call(append_given_up);
    each_pair(append_given_up);
}

fn flush_of_a_reopened_log(strike: &Strike) {
    let world = World::with_session(strike.encoding);
    let log = world.open(Access::Write);
    assert_io(strike.during(&world, || log.flush(&go_on())));
    log.flush(&go_on()).unwrap();
    assert_eq!(read_log(&*log).unwrap(), events(0..4, 1));
    log.append(&events(4..5, 1), &go_on()).unwrap();
    assert_eq!(world.stored().unwrap(), events(0..5, 1));
    world.end(log);
}

#[test]
fn a_failed_flush_loses_nothing_and_can_be_repeated() {
    each_call(flush_of_a_reopened_log);
    each_pair(flush_of_a_reopened_log);
}

#[test]
fn a_close_gives_ownership_up_whatever_fails() {
    each_call(|strike| {
        let world = World::with_session(strike.encoding);
        let log = world.open(Access::Write);
        log.append(&events(4..5, 1), &go_on()).unwrap();
        assert_io(strike.during(&world, || log.close()));
        assert_eq!(world.stored().unwrap(), events(0..5, 1));
        // Here and for another program.
        world.open(Access::Write).close().unwrap();
        world.end(log);
    });
}

#[test]
fn a_failed_open_says_io_and_leaves_the_session_to_others() {
    each_call(|strike| {
        let world = World::with_session(strike.encoding);
        let opened = strike.during(&world, || world.backend.open("s", Access::Write, &go_on()));
        match opened {
            Ok(log) => {
                assert_eq!(read_log(&*log).unwrap(), events(0..4, 1));
                world.end(log);
            }
            Err(error) => {
                assert_eq!(error.code(), Code::Io, "{error}");
                world.clean().open("s", Access::Write, &go_on()).unwrap().close().unwrap();
                let log = world.open(Access::Write);
                log.append(&events(4..6, 1), &go_on()).unwrap();
                assert_eq!(world.stored().unwrap(), events(0..6, 1));
                world.end(log);
            }
        }
    });
}

/// What a read gave is right, or it says `IO`.
fn reading(strike: &Strike, access: Option<Access>, read: fn(&dyn SessionLog) -> Result<Vec<Event>>) {
    let world = World::new(strike.encoding);
    let log = world.backend.create(&header("s"), None, &go_on()).unwrap();
    let all: Vec<_> = (0..40).map(|seq| note_of_length(seq, 1, 4000)).collect();
    for batch in all.chunks(3) {
        log.append(batch, &go_on()).unwrap();
    }
    let expected = read(&*log).unwrap();
    log.close().unwrap();
    let handle = access.map(|access| world.open(access));
    let outcome = strike.during(&world, || match &handle {
        Some(handle) => read(&**handle),
        None => read(&*world.backend.open("s", Access::Read, &go_on())?),
    });
    match outcome {
        Ok(events) => assert_eq!(events, expected),
        Err(error) => assert_eq!(error.code(), Code::Io, "{error}"),
    }
    if let Some(handle) = handle {
        assert_eq!(read(&*handle).unwrap(), expected, "the same handle, once the disk is well");
    }
}

fn read_everything(log: &dyn SessionLog) -> Result<Vec<Event>> {
    read_log(log)
}

fn read_window(log: &dyn SessionLog) -> Result<Vec<Event>> {
    log.events(EventRange::window(20, 3), &go_on())?.collect()
}

fn read_newest(log: &dyn SessionLog) -> Result<Vec<Event>> {
    log.events(EventRange::newest(3), &go_on())?.collect()
}

fn read_slice(log: &dyn SessionLog) -> Result<Vec<Event>> {
    Ok(log.read(38, 10, &go_on())?.events)
}

/// Counts as a row, so that it compares like the others.
fn count(log: &dyn SessionLog) -> Result<Vec<Event>> {
    let end = log.check(&go_on())?;
    assert!(end.torn.is_none());
    Ok(vec![note(log.event_count(&go_on())?, end.event_count)])
}

#[test]
fn a_read_is_right_or_says_io() {
    each_call(|strike| reading(strike, Some(Access::Read), read_everything));
    each_call(|strike| reading(strike, Some(Access::Read), read_window));
    each_call(|strike| reading(strike, Some(Access::Read), read_newest));
    each_call(|strike| reading(strike, Some(Access::Read), read_slice));
    each_call(|strike| reading(strike, Some(Access::Read), count));
}

#[test]
fn a_read_of_a_write_handle_is_right_or_says_io() {
    each_call(|strike| reading(strike, Some(Access::Write), read_everything));
    each_call(|strike| reading(strike, Some(Access::Write), read_window));
    each_call(|strike| reading(strike, Some(Access::Write), read_newest));
    each_call(|strike| reading(strike, Some(Access::Write), count));
}

#[test]
fn opening_and_reading_is_right_or_says_io() {
    each_call(|strike| reading(strike, None, read_newest));
    each_call(|strike| reading(strike, None, read_window));
}

#[test]
fn stat_and_list_are_right_or_say_io() {
    each_call(|strike| {
        let world = World::with_session(strike.encoding);
        let clean = world.clean().stat("s", &go_on()).unwrap().unwrap();
        match strike.during(&world, || world.backend.stat("s", &go_on())) {
            Ok(stat) => assert_eq!(stat.unwrap().revision, clean.revision),
            Err(error) => assert_eq!(error.code(), Code::Io, "{error}"),
        }
    });
    for mode in [ListMode::Tolerant, ListMode::Strict] {
        let scenario: Scenario = match mode {
            ListMode::Tolerant => |strike| listing(strike, ListMode::Tolerant),
            ListMode::Strict => |strike| listing(strike, ListMode::Strict),
        };
        each_call(scenario);
    }
}

fn listing(strike: &Strike, mode: ListMode) {
    let world = World::with_session(strike.encoding);
    let other = world.backend.create(&header("other"), None, &go_on()).unwrap();
    other.flush(&go_on()).unwrap();
    match strike.during(&world, || world.backend.list(mode, &go_on())) {
        Ok(listing) => {
            let is_whole = listing.sessions.len() == 2 && listing.problems.is_empty();
            let is_told = !listing.problems.is_empty() && mode == ListMode::Tolerant;
            assert!(is_whole || is_told, "a session is missing without a word: {listing:?}");
            assert!(listing.problems.iter().all(|problem| problem.error.code() == Code::Io), "{listing:?}");
        }
        Err(error) => assert_eq!(error.code(), Code::Io, "{error}"),
    }
}

/// What stands after the accepted events of a torn log.
struct Tail {
    /// In the bytes, but read as events of the log.
    recovered: Vec<Event>,
    /// In the bytes, and not part of the log.
    dropped: Vec<Event>,
}

/// A root whose session `s` has four events and then a torn tail that holds more.
fn torn_world(encoding: Encoding) -> (World, Tail) {
    let world = World::with_session(encoding);
    let path = world.log_path();
    let mut bytes = world.disk.read_file(&path).unwrap();
    let rows = [event(4, 1), event(5, 1), note(9, 1)];
    let mut text = String::new();
    for row in &rows {
        text.push_str(row.row());
        text.push('\n');
    }
    let tail = match encoding {
        Encoding::None => {
            bytes.extend_from_slice(b"{\"type\":\"plugin:proof/no");
            bytes.push(b'\n');
            bytes.extend_from_slice(text.as_bytes());
            Tail { recovered: Vec::new(), dropped: rows.to_vec() }
        }
        Encoding::Zstd => {
            let mut frame = Vec::new();
            FrameEncoder::new().encode(text.as_bytes(), &mut frame).unwrap();
            // Without its checksum a frame is unfinished, and all of its rows are there.
            bytes.extend_from_slice(&frame[..frame.len() - 4]);
            Tail { recovered: rows[..2].to_vec(), dropped: rows[2..].to_vec() }
        }
    };
    world.disk.write_file(&path, &bytes).unwrap();
    (World::on(world.disk, encoding), tail)
}

/// Every row that stands in a saved tail, in a log, or nowhere.
fn is_saved(world: &World, row: &Event) -> bool {
    let path = world.log_path();
    let directory = path.parent().unwrap();
    let names = world.disk.read_directory(directory).unwrap().into_iter().map(|entry| entry.name);
    let saved = names.filter(|name| name.to_string_lossy().starts_with("session.cut-"));
    saved.into_iter().any(|name| {
        let bytes = world.disk.read_file(&directory.join(name)).unwrap();
        let text = match world.encoding {
            Encoding::None => bytes,
            Encoding::Zstd => {
                let mut text = vec![0; 1 << 16];
                let mut output = zstd::zstd_safe::OutBuffer::around(&mut text[..]);
                let mut input = zstd::zstd_safe::InBuffer::around(&bytes);
                let _ = zstd::zstd_safe::DCtx::create().decompress_stream(&mut output, &mut input);
                let length = output.pos();
                text.truncate(length);
                text
            }
        };
        String::from_utf8_lossy(&text).lines().any(|line| line == row.row())
    })
}

fn repair(strike: &Strike) {
    let (world, tail) = torn_world(strike.encoding);
    let log = world.open(Access::Write);
    let found = [events(0..4, 1), tail.recovered.clone()].concat();
    assert_eq!(read_log(&*log).unwrap(), found);
    let next = found.len() as u64;
    let batch = events(next..next + 2, 1);
    let outcome = strike.during(&world, || log.append(&batch, &go_on()));
    let mut expected = found.clone();
    match outcome {
        Ok(()) => expected.extend(batch),
        Err(error) => {
            assert_eq!(error.code(), Code::Io, "{error}");
            assert_eq!(read_log(&*log).unwrap(), found, "the handle still knows what it found");
            let stored = world.stored().unwrap();
            assert_prefix(&stored, &found[..4], &[&found[4..], &batch].concat());
            for row in &found[stored.len().min(found.len())..] {
                assert!(is_saved(&world, row), "a recovered event is neither in the log nor saved");
            }
            log.append(&events(next..next + 1, 2), &go_on()).unwrap();
            expected.extend(events(next..next + 1, 2));
        }
    }
    assert_eq!(world.stored().unwrap(), expected);
    assert_eq!(read_log(&*log).unwrap(), expected);
    assert!(tail.dropped.iter().all(|row| is_saved(&world, row)), "a row was cut and not saved");
    world.end(log);
}

#[test]
fn a_failed_repair_goes_on_where_it_stopped() {
    each_call(repair);
}

#[test]
fn a_repair_with_two_failures_goes_on_where_it_stopped() {
    each_pair(repair);
}

/// A repair that failed, given up by closing.
fn repair_given_up(strike: &Strike) {
    let (world, tail) = torn_world(strike.encoding);
    let log = world.open(Access::Write);
    let found = [events(0..4, 1), tail.recovered.clone()].concat();
    let next = found.len() as u64;
    let batch = events(next..next + 2, 1);
    let (appended, closed) = strike.during(&world, || (log.append(&batch, &go_on()), log.close()));
    let stored = world.stored().unwrap();
    match (appended.is_ok(), closed.is_ok()) {
        (true, _) => assert_eq!(stored, [found, batch].concat()),
        (false, true) => assert_eq!(stored, found, "what was found is there again"),
        (false, false) => {
            assert_prefix(&stored, &found[..4], &[&found[4..], &batch].concat());
            for row in &found[stored.len().min(found.len())..] {
                assert!(is_saved(&world, row), "a recovered event is neither in the log nor saved");
            }
        }
    }
    assert_io(appended);
    assert_io(closed);
    drop(log);
    let next = stored.len() as u64;
    let log = world.clean().open("s", Access::Write, &go_on()).unwrap();
    log.append(&events(next..next + 1, 3), &go_on()).unwrap();
    log.close().unwrap();
    assert!(tail.dropped.iter().all(|row| is_saved(&world, row)), "a row was cut and not saved");
    assert_eq!((world.faulty.open_files(), world.disk.held_locks()), (0, 0));
}

#[test]
fn a_repair_given_up_destroys_nothing() {
    each_call(repair_given_up);
    each_pair(repair_given_up);
}

#[test]
fn a_torn_log_opens_and_reads_or_says_io() {
    each_call(|strike| {
        let (world, tail) = torn_world(strike.encoding);
        let found = [events(0..4, 1), tail.recovered].concat();
        let before = world.disk.read_file(&world.log_path()).unwrap();
        for access in [Access::Read, Access::Write] {
            let read = strike.during(&world, || {
                let log = world.backend.open("s", access, &go_on())?;
                let events = read_log(&*log)?;
                log.close()?;
                Ok(events)
            });
            match read {
                Ok(events) => assert_eq!(events, found),
                Err(error) => assert_eq!(Code::Io, dsh_session_core::Error::code(&error), "{error}"),
            }
        }
        assert_eq!(world.disk.read_file(&world.log_path()).unwrap(), before, "reading changed the log");
    });
}

fn draft(text: &str) -> EventDraft {
    EventDraft::new("plugin:proof/note", format!(r#"{{"text":"{text}"}}"#)).unwrap()
}

fn session_in(world: &World) -> dsh_session_core::Session {
    // Nothing is written behind the back of the call that is struck.
    let store = Store::builder(ROOT)
        .storage(Arc::new(world.faulty.clone()))
        .encoding(world.encoding)
        .write_behind_delay(std::time::Duration::MAX);
    let new = NewSession { header: header("s"), ..NewSession::new() };
    store.open().unwrap().create(new).unwrap()
}

fn session_flush(strike: &Strike) {
    let world = World::new(strike.encoding);
    let session = session_in(&world);
    let mut sent = vec![session.append(draft("one")).unwrap()];
    session.flush().unwrap();
    sent.extend(session.append_batch(&[draft("two"), draft("three")]).unwrap());
    sent.push(session.append(draft("four")).unwrap());
    let flushed = strike.during(&world, || session.flush());
    if flushed.is_err() {
        assert_prefix(&world.stored().unwrap(), &sent[..1], &sent[1..]);
        assert_eq!(session.pending().events, 3);
        assert!(session.pending().error.is_some());
        sent.push(session.append(draft("meanwhile")).unwrap());
        let seen: Result<Vec<_>> = session.events(EventRange::ALL).unwrap().collect();
        assert_eq!(seen.unwrap(), sent);
        session.flush().unwrap();
    }
    assert_io(flushed);
    assert_eq!(world.stored().unwrap(), sent);
    assert!((session.pending().events, session.pending().error.is_none()) == (0, true));
    session.close().unwrap();
    assert_eq!((world.faulty.open_files(), world.disk.held_locks()), (0, 0));
}

#[test]
fn events_of_a_session_whose_flush_failed_wait_in_order() {
    each_call(session_flush);
    each_pair(session_flush);
}

#[test]
fn events_of_a_session_whose_first_flush_failed_wait_in_order() {
    let scenario: Scenario = |strike| {
        let world = World::new(strike.encoding);
        let session = session_in(&world);
        let sent = session.append_batch(&[draft("one"), draft("two")]).unwrap();
        let flushed = strike.during(&world, || session.flush());
        assert_io(flushed);
        session.flush().unwrap();
        assert_eq!(world.stored().unwrap(), sent);
        session.close().unwrap();
    };
    each_call(scenario);
    each_pair(scenario);
}

#[test]
fn a_session_accepts_events_while_writing_fails_and_writes_them_once_it_works() {
    each_call(|strike| {
        let world = World::new(strike.encoding);
        let session = session_in(&world);
        session.flush().unwrap();
        let long = "x".repeat(30_000);
        let mut sent = Vec::new();
        strike.during(&world, || {
            for _ in 0..6 {
                sent.push(session.append(draft(&long)).unwrap());
            }
            // The background has written all that is due, or given up until somebody flushes.
            while session.pending().error.is_none() && session.pending().bytes >= WRITE_BEHIND_BYTES as u64 {
                std::thread::yield_now();
            }
        });
        assert_prefix(&world.stored().unwrap(), &[], &sent);
        session.flush().unwrap();
        assert_eq!(world.stored().unwrap(), sent);
        session.close().unwrap();
    });
}

#[test]
fn a_session_whose_close_failed_keeps_what_was_flushed_and_gives_ownership_up() {
    let scenario: Scenario = |strike| {
        let world = World::new(strike.encoding);
        let session = session_in(&world);
        let mut sent = vec![session.append(draft("one")).unwrap()];
        session.flush().unwrap();
        sent.push(session.append(draft("two")).unwrap());
        let closed = strike.during(&world, || session.close());
        let stored = world.stored().unwrap();
        assert_prefix(&stored, &sent[..1], &sent[1..]);
        if closed.is_ok() {
            assert_eq!(stored, sent);
        }
        let code = closed.err().map(|error| error.code());
        assert!(matches!(code, None | Some(Code::Io | Code::Several)), "{code:?}");
        drop(session);
        world.clean().open("s", Access::Write, &go_on()).unwrap().close().unwrap();
    };
    each_call(scenario);
    each_pair(scenario);
}

fn removing(strike: &Strike, how: Removal) {
    let world = World::with_session(strike.encoding);
    let removed = strike.during(&world, || world.backend.remove("s", how, &go_on()));
    let stored = world.stored();
    match &removed {
        Ok(_) => assert_eq!(stored, None),
        Err(error) => {
            assert_eq!(error.code(), Code::Io, "{error}");
            assert!(stored.is_none_or(|stored| stored == events(0..4, 1)), "whole or gone");
            let again = world.backend.remove("s", how, &go_on());
            assert!(again.is_ok_and(|_| true) || world.stored().is_none());
        }
    }
    assert_eq!(world.stored(), None);
    assert_eq!((world.faulty.open_files(), world.disk.held_locks()), (0, 0));
    let log = world.backend.create(&header("s"), None, &go_on()).unwrap();
    log.append(&events(0..2, 2), &go_on()).unwrap();
    assert_eq!(world.stored().unwrap(), events(0..2, 2));
    world.end(log);
}

#[test]
fn a_session_whose_removal_failed_is_whole_or_gone_and_can_be_removed() {
    each_call(|strike| removing(strike, Removal::Delete));
    each_pair(|strike| removing(strike, Removal::Delete));
    each_call(|strike| removing(strike, Removal::Trash));
    each_pair(|strike| removing(strike, Removal::Trash));
}

#[test]
fn a_full_disk_is_told_at_once_and_the_handle_works_when_there_is_room() {
    for encoding in ENCODINGS {
        let world = World::with_session(encoding);
        let filler = "/data/filler";
        world.disk.write_file(filler.as_ref(), &[7; 100_000]).unwrap();
        world.disk.set_space_limit_bytes(Some(world.disk.used_bytes() + 40_000));
        let log = world.open(Access::Write);
        let mut sent = events(0..4, 1);
        let size = || world.disk.metadata(&world.log_path()).unwrap().size;
        loop {
            let next = note_of_length(sent.len() as u64, 1, 8000);
            let before = size();
            match log.append(std::slice::from_ref(&next), &go_on()) {
                Ok(()) => sent.push(next),
                Err(error) => {
                    assert_eq!((error.code(), error.os()), (Code::Io, Some(ENOSPC)));
                    assert_eq!(size(), before, "the log has its old length again");
                    break;
                }
            }
        }
        assert_eq!(world.stored().unwrap(), sent);
        world.disk.remove_file(filler.as_ref()).unwrap();
        let next = note_of_length(sent.len() as u64, 2, 8000);
        log.append(std::slice::from_ref(&next), &go_on()).unwrap();
        sent.push(next);
        assert_eq!(world.stored().unwrap(), sent);
        world.end(log);
    }
}
