//! Odd places for a root: locks that lock nothing, names without case, names at their longest, roots that may only be read, folders that
//! vanish. The file systems are simulated.

mod durability;

use dsh_session_core::event::Event;
use dsh_session_core::format::names::FILE_NAME_BYTES_MAX;
use dsh_session_core::persistence::files::{FilePersistence, FileSettings};
use dsh_session_core::persistence::{Notice, Removal};
use dsh_session_core::storage::Storage;
use dsh_session_core::storage::simulation::MemoryStorage;
use dsh_session_core::{
    Access, Code, Encoding, ListMode, NewSession, SessionHeader, SessionLog, SessionPersistence, Store,
};
use durability::{events, go_on, header, note, read_all, read_log, refusal};
use std::path::{Path, PathBuf};
use std::sync::Arc;

const ROOT: &str = "/data/sessions";
const ENCODINGS: [Encoding; 2] = [Encoding::None, Encoding::Zstd];

fn disk() -> MemoryStorage {
    let disk = MemoryStorage::new(3);
    disk.create_directory("/data".as_ref()).unwrap();
    disk
}

fn files(disk: &MemoryStorage) -> FilePersistence {
    FilePersistence::with_storage(ROOT, Arc::new(disk.clone()), FileSettings::default()).unwrap()
}

fn create(backend: &FilePersistence, id: &str) -> Arc<dyn SessionLog> {
    backend.create(&header(id), None, &go_on()).unwrap()
}

/// A stored session with its events.
fn stored(backend: &FilePersistence, id: &str) -> Vec<Event> {
    let log = create(backend, id);
    let all = events(0..4, 1);
    log.append(&all, &go_on()).unwrap();
    log.close().unwrap();
    all
}

fn says_lock_ineffective(log: &dyn SessionLog) -> bool {
    log.notices().iter().any(|notice| matches!(notice, Notice::LockIneffective { .. }))
}

#[test]
fn a_lock_that_keeps_nobody_away_is_told_and_one_that_does_is_not() {
    let disk = disk();
    let backend = files(&disk);
    let log = create(&backend, "s");
    log.append(&events(0..4, 1), &go_on()).unwrap();
    assert_eq!(log.notices(), []);
    log.close().unwrap();
    assert_eq!(backend.open("s", Access::Write, &go_on()).unwrap().notices(), []);
    assert_eq!(disk.held_locks(), 0);

    disk.set_flock_is_ineffective(true);
    let opened = backend.open("s", Access::Write, &go_on()).unwrap();
    assert!(says_lock_ineffective(&*opened));
    let told = opened.notices()[0].to_json();
    assert!(told.contains(r#""kind":"lock-ineffective""#) && told.contains("session.lock"), "{told}");
    let created = create(&backend, "t");
    assert!(!says_lock_ineffective(&*created), "nothing was locked yet");
    created.flush(&go_on()).unwrap();
    created.append(&events(0..1, 1), &go_on()).unwrap();
    assert_eq!(created.notices().len(), 1, "told once");
    assert!(says_lock_ineffective(&*created));
}

#[test]
fn where_locks_do_nothing_the_second_writer_stops_at_its_next_append() {
    for encoding in ENCODINGS {
        let disk = disk();
        disk.set_flock_is_ineffective(true);
        let settings = FileSettings { encoding: Some(encoding), ..FileSettings::default() };
        let backend =
            || FilePersistence::with_storage(ROOT, Arc::new(disk.clone()), settings.clone()).unwrap();
        stored(&backend(), "s");
        let (one, two) = (backend(), backend());
        let first = one.open("s", Access::Write, &go_on()).unwrap();
        let second = two.open("s", Access::Write, &go_on()).unwrap();
        first.append(&[note(4, 1)], &go_on()).unwrap();
        assert_eq!(refusal(second.append(&[note(4, 2)], &go_on())), Code::SessionOwnershipLost);
        first.append(&[note(5, 1)], &go_on()).unwrap();
        assert_eq!(read_all(&one, "s").unwrap()[4..], [note(4, 1), note(5, 1)]);
    }
}

#[test]
fn ids_that_differ_only_in_case_never_share_a_log_where_case_does_not_count() {
    let disk = disk();
    disk.set_names_ignore_case(true);
    let backend = files(&disk);
    let all = stored(&backend, "Alpha");
    let before = disk.tree();
    let error = backend.create(&header("alpha"), None, &go_on()).unwrap_err();
    assert_eq!(error.code(), Code::SessionConflict);
    assert!(error.message().contains("alpha") && error.message().contains("Alpha"), "{error}");
    assert_eq!(refusal(backend.open("alpha", Access::Read, &go_on())), Code::SessionConflict);
    assert_eq!(refusal(backend.open("alpha", Access::Write, &go_on())), Code::SessionConflict);
    assert_eq!(refusal(backend.stat("alpha", &go_on())), Code::SessionConflict);
    assert_eq!(refusal(backend.remove("alpha", Removal::Delete, &go_on())), Code::SessionConflict);
    let owner = backend.open("Alpha", Access::Write, &go_on()).unwrap();
    assert_eq!(refusal(files(&disk).open("alpha", Access::Write, &go_on())), Code::SessionConflict);
    owner.close().unwrap();
    let logs = |tree: Vec<(PathBuf, Option<Vec<u8>>)>| -> Vec<_> {
        tree.into_iter().filter(|(path, _)| path.to_string_lossy().contains(".jsonl")).collect()
    };
    assert_eq!(logs(disk.tree()), logs(before));
    assert_eq!(read_all(&backend, "Alpha").unwrap(), all);
    assert_eq!(backend.list(ListMode::Strict, &go_on()).unwrap().sessions.len(), 1);
    // Other ids are not affected, and the one that is there cannot be created twice.
    stored(&backend, "alpha-2");
    assert_eq!(refusal(backend.create(&header("Alpha"), None, &go_on())), Code::SessionAlreadyExists);
}

#[test]
fn of_two_new_sessions_that_differ_only_in_case_the_second_to_be_stored_is_refused() {
    let disk = disk();
    disk.set_names_ignore_case(true);
    let backend = files(&disk);
    for is_closed in [false, true] {
        let (upper, lower) = (format!("S{is_closed}"), format!("s{is_closed}"));
        let first = create(&backend, &upper);
        let second = create(&backend, &lower);
        first.append(&events(0..4, 1), &go_on()).unwrap();
        if is_closed {
            first.close().unwrap();
        }
        assert_eq!(refusal(second.append(&events(0..2, 7), &go_on())), Code::SessionConflict);
        assert_eq!(refusal(second.flush(&go_on())), Code::SessionConflict);
        second.close().unwrap();
        assert_eq!(read_all(&backend, &upper).unwrap(), events(0..4, 1));
    }
}

#[test]
fn where_case_counts_ids_that_differ_in_it_are_two_sessions() {
    let backend = files(&disk());
    for (id, salt) in [("Alpha", 1), ("alpha", 2), ("ALPHA", 3)] {
        let log = create(&backend, id);
        log.append(&events(0..4, salt), &go_on()).unwrap();
        log.close().unwrap();
    }
    for (id, salt) in [("Alpha", 1), ("alpha", 2), ("ALPHA", 3)] {
        assert_eq!(read_all(&backend, id).unwrap(), events(0..4, salt));
    }
}

#[test]
fn working_directories_that_differ_only_in_case_share_a_folder_and_keep_their_sessions() {
    let disk = disk();
    disk.set_names_ignore_case(true);
    let backend = files(&disk);
    for (id, cwd) in [("one", "/Work/Tool"), ("two", "/work/tool")] {
        let header = SessionHeader { cwd: Some(cwd.to_owned()), ..header(id) };
        let log = backend.create(&header, None, &go_on()).unwrap();
        log.append(&events(0..4, 1), &go_on()).unwrap();
        log.close().unwrap();
    }
    let listing = backend.list(ListMode::Strict, &go_on()).unwrap();
    assert_eq!((listing.sessions.len(), listing.problems.len()), (2, 0));
    for (id, cwd) in [("one", "/Work/Tool"), ("two", "/work/tool")] {
        let log = backend.open(id, Access::Write, &go_on()).unwrap();
        assert_eq!(log.header().cwd.as_deref(), Some(cwd));
        assert_eq!(read_log(&*log).unwrap(), events(0..4, 1));
    }
}

/// A folder renamed in case only: still the session where case does not count, another place where it does.
#[test]
fn a_folder_renamed_in_case_only_is_found_or_named() {
    for ignores_case in [false, true] {
        let disk = disk();
        disk.set_names_ignore_case(ignores_case);
        let backend = files(&disk);
        stored(&backend, "name");
        let project = Path::new(ROOT).join("_no-cwd");
        disk.rename(&project.join("name"), &project.join("other")).unwrap();
        disk.rename(&project.join("other"), &project.join("Name")).unwrap();
        let listing = backend.list(ListMode::Tolerant, &go_on()).unwrap();
        if ignores_case {
            assert_eq!(read_all(&backend, "name").unwrap().len(), 4);
            assert_eq!((listing.sessions.len(), listing.problems.len()), (1, 0));
        } else {
            assert_eq!(refusal(read_all(&backend, "name")), Code::SessionNotFound);
            assert_eq!(refusal(read_all(&backend, "Name")), Code::SessionCorrupt);
            assert_eq!((listing.sessions.len(), listing.problems.len()), (0, 1));
        }
    }
}

#[test]
fn an_id_whose_folder_has_the_longest_name_is_stored_and_one_byte_more_is_refused_before_any_folder() {
    let disk = disk();
    let store = Store::builder(ROOT).storage(Arc::new(disk.clone())).open().unwrap();
    let ascii = "a".repeat(FILE_NAME_BYTES_MAX);
    // Five bytes of the name for each character that is escaped.
    let escaped = "é".repeat(FILE_NAME_BYTES_MAX / 5);
    assert_eq!(FILE_NAME_BYTES_MAX, 255);
    for longest in [ascii, escaped] {
        let before = disk.tree();
        let error = store.create(NewSession::new().id(format!("{longest}x"))).unwrap_err();
        assert_eq!(error.code(), Code::InvalidArgument);
        assert!(error.message().contains("256 bytes") && error.message().contains("255"), "{error}");
        assert_eq!(disk.tree(), before, "nothing was made");
        let session = store.create(NewSession::new().id(&longest)).unwrap();
        session.flush().unwrap();
        session.close().unwrap();
        assert_eq!(store.stat(&longest).unwrap().unwrap().header.id, longest);
        // Asking for what cannot be there is no failure of the file system.
        assert!(store.stat(&format!("{longest}x")).unwrap().is_none());
    }
}

#[test]
fn a_root_that_may_only_be_read_is_read_and_listed_and_refuses_writes_by_the_systems_own_error() {
    const EROFS: i32 = 30;
    let disk = disk();
    let backend = files(&disk);
    let all = stored(&backend, "s");
    disk.set_read_only(true);
    let before = disk.tree();
    assert_eq!(read_all(&backend, "s").unwrap(), all);
    let listing = backend.list(ListMode::Strict, &go_on()).unwrap();
    assert_eq!((listing.sessions.len(), listing.problems.len()), (1, 0));
    assert!(backend.stat("s", &go_on()).unwrap().is_some());
    let opened = backend.open("s", Access::Write, &go_on()).unwrap_err();
    assert_eq!((opened.code(), opened.os()), (Code::Io, Some(EROFS)));
    let created = create(&backend, "t");
    let refused = created.append(&events(0..4, 1), &go_on()).unwrap_err();
    assert_eq!((refused.code(), refused.os()), (Code::Io, Some(EROFS)));
    assert_eq!(disk.tree(), before);
    // The same handle stores its events once the root can be written.
    disk.set_read_only(false);
    created.append(&events(0..4, 1), &go_on()).unwrap();
    created.close().unwrap();
    assert_eq!(read_all(&backend, "t").unwrap(), events(0..4, 1));
}

/// A root that becomes read-only under an open writer, as a file system does after an error.
#[test]
fn a_writer_whose_root_becomes_read_only_accepts_nothing_and_goes_on_when_it_is_writable() {
    const EROFS: i32 = 30;
    for encoding in ENCODINGS {
        let disk = disk();
        let settings = FileSettings { encoding: Some(encoding), ..FileSettings::default() };
        let backend = FilePersistence::with_storage(ROOT, Arc::new(disk.clone()), settings).unwrap();
        stored(&backend, "s");
        let log = backend.open("s", Access::Write, &go_on()).unwrap();
        log.append(&[note(4, 1)], &go_on()).unwrap();
        disk.set_read_only(true);
        let refused = log.append(&[note(5, 1)], &go_on()).unwrap_err();
        assert_eq!((refused.code(), refused.os()), (Code::Io, Some(EROFS)));
        assert_eq!(log.event_count(&go_on()).unwrap(), 5);
        assert_eq!(read_log(&*log).unwrap().len(), 5);
        disk.set_read_only(false);
        log.append(&[note(5, 2)], &go_on()).unwrap();
        log.close().unwrap();
        assert_eq!(read_all(&backend, "s").unwrap()[4..], [note(4, 1), note(5, 2)]);
    }
}

fn remove_all(disk: &MemoryStorage, folder: &Path) {
    for entry in disk.read_directory(folder).unwrap() {
        let path = folder.join(&entry.name);
        if entry.kind == dsh_session_core::storage::FileKind::Directory {
            remove_all(disk, &path);
        } else {
            disk.remove_file(&path).unwrap();
        }
    }
    disk.remove_directory(folder).unwrap();
}

#[test]
fn a_folder_that_vanishes_under_a_writer_ends_its_ownership_and_nothing_is_written_elsewhere() {
    for level in ["/data/sessions/_no-cwd/s", "/data/sessions/_no-cwd", "/data/sessions"] {
        let disk = disk();
        let backend = files(&disk);
        stored(&backend, "s");
        let log = backend.open("s", Access::Write, &go_on()).unwrap();
        let reader = backend.open("s", Access::Read, &go_on()).unwrap();
        assert_eq!(reader.event_count(&go_on()).unwrap(), 4);
        remove_all(&disk, Path::new(level));
        let before = disk.tree();
        assert_eq!(refusal(log.append(&[note(4, 1)], &go_on())), Code::SessionOwnershipLost);
        assert_eq!(refusal(reader.event_count(&go_on())), Code::SessionNotFound);
        assert_eq!(refusal(backend.open("s", Access::Read, &go_on())), Code::SessionNotFound);
        assert!(backend.list(ListMode::Strict, &go_on()).unwrap().sessions.is_empty());
        log.close().unwrap();
        assert_eq!(disk.tree(), before);
        drop(reader);
        assert_eq!((disk.open_files(), disk.held_locks()), (0, 0));
        // The id is free again.
        stored(&backend, "s");
    }
}

#[test]
fn a_root_that_vanishes_before_the_first_write_is_made_again() {
    let disk = disk();
    let backend = files(&disk);
    stored(&backend, "s");
    let log = create(&backend, "t");
    remove_all(&disk, Path::new(ROOT));
    log.append(&events(0..4, 1), &go_on()).unwrap();
    log.close().unwrap();
    assert_eq!(read_all(&backend, "t").unwrap(), events(0..4, 1));
}
