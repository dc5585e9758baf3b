//! What a root may hold that is not a session of this library's, each told by its own code and beside the sessions that are well; and calls
//! that a backend refuses before it looks at files.

mod durability;

use dsh_session_core::persistence::Notice;
use dsh_session_core::persistence::files::{FilePersistence, FileSettings};
use dsh_session_core::storage::simulation::MemoryStorage;
use dsh_session_core::storage::{ProcessIdentity, Storage};
use dsh_session_core::{Access, Code, Encoding, ListMode, Removal, SessionPersistence};
use durability::{events, go_on, header, note, read_all, refusal};
use std::path::{Path, PathBuf};
use std::sync::Arc;

const ROOT: &str = "/data/sessions";

fn disk() -> MemoryStorage {
    let disk = MemoryStorage::new(3);
    disk.create_directory("/data".as_ref()).unwrap();
    disk
}

fn files(disk: &MemoryStorage, encoding: Option<Encoding>) -> FilePersistence {
    let settings = FileSettings { encoding, ..FileSettings::default() };
    FilePersistence::with_storage(ROOT, Arc::new(disk.clone()), settings).unwrap()
}

fn store(backend: &FilePersistence, id: &str) -> PathBuf {
    let log = backend.create(&header(id), None, &go_on()).unwrap();
    log.append(&events(0..4, 1), &go_on()).unwrap();
    log.close().unwrap();
    backend.stat(id, &go_on()).unwrap().unwrap().path.unwrap()
}

/// The problems of a listing, by code; everything else in the root is listed.
fn problems(backend: &FilePersistence) -> Vec<Code> {
    let listing = backend.list(ListMode::Tolerant, &go_on()).unwrap();
    assert!(listing.sessions.iter().any(|session| session.header.id == "well"));
    for problem in &listing.problems {
        let told = problem.to_json();
        assert!(told.contains(problem.error.code().name()) && told.contains("\"path\""), "{told}");
    }
    listing.problems.iter().map(|problem| problem.error.code()).collect()
}

#[test]
fn a_session_in_two_projects_is_a_conflict_of_its_own() {
    let disk = disk();
    let backend = files(&disk, None);
    store(&backend, "well");
    let log = store(&backend, "twin");
    let other = Path::new(ROOT).join("--copy--");
    disk.create_directory(&other).unwrap();
    disk.create_directory(&other.join("twin")).unwrap();
    disk.write_file(&other.join("twin").join(log.file_name().unwrap()), &disk.read_file(&log).unwrap())
        .unwrap();
    assert_eq!(refusal(read_all(&backend, "twin")), Code::SessionConflict);
    assert_eq!(refusal(backend.create(&header("twin"), None, &go_on())), Code::SessionAlreadyExists);
    assert!(!problems(&backend).is_empty());
    assert!(backend.list(ListMode::Strict, &go_on()).is_err());
    assert_eq!(read_all(&backend, "well").unwrap().len(), 4);
}

#[test]
fn a_log_of_the_flat_layout_is_named_and_takes_its_id() {
    let disk = disk();
    let backend = files(&disk, None);
    let project = store(&backend, "well").ancestors().nth(2).unwrap().to_owned();
    disk.write_file(&project.join("old.jsonl"), b"{}\n").unwrap();
    assert_eq!(problems(&backend), [Code::FormatUnsupported]);
    assert_eq!(refusal(backend.open("old", Access::Read, &go_on())), Code::FormatUnsupported);
    assert_eq!(refusal(backend.create(&header("old"), None, &go_on())), Code::SessionAlreadyExists);
    assert!(backend.list(ListMode::Strict, &go_on()).is_err());
}

#[test]
fn older_and_newer_generations_are_told_apart_from_damage() {
    let disk = disk();
    let backend = files(&disk, Some(Encoding::None));
    store(&backend, "well");
    let v3 =
        r#"{"type":"session","version":3,"id":"old","createdAt":1,"isSeeded":false,"delegationDepth":0}"#;
    for (id, name, text) in [
        ("old", "session.v3.jsonl", format!("{v3}\n")),
        ("new", "session.v5.jsonl", "{\"type\":\"session\",\"version\":5}\n".to_owned()),
        ("wrong", "session.v4.jsonl", v3.replace("old", "wrong") + "\n"),
    ] {
        let folder = Path::new(ROOT).join("_no-cwd").join(id);
        disk.create_directory(&folder).unwrap();
        disk.write_file(&folder.join(name), text.as_bytes()).unwrap();
    }
    for (id, version) in [("old", "3"), ("new", "5"), ("wrong", "3")] {
        let error = backend.open(id, Access::Write, &go_on()).unwrap_err();
        assert_eq!((error.code(), error.version()), (Code::FormatUnsupported, Some(version)), "{id}");
    }
    assert_eq!(problems(&backend), [Code::FormatUnsupported; 2]);
    let old = backend.stat("old", &go_on()).unwrap().unwrap();
    assert!(old.to_json().contains("migration-required"), "{}", old.to_json());
    // A version that differs from the file's name fails a strict listing; one of the future does not.
    assert!(backend.list(ListMode::Strict, &go_on()).is_err());
    backend.remove("wrong", Removal::Delete, &go_on()).unwrap();
    assert_eq!(backend.list(ListMode::Strict, &go_on()).unwrap().sessions.len(), 2);
}

#[test]
fn a_root_takes_no_second_encoding() {
    let disk = disk();
    store(&files(&disk, Some(Encoding::None)), "well");
    let error = files(&disk, Some(Encoding::Zstd)).create(&header("other"), None, &go_on()).unwrap_err();
    assert_eq!(error.code(), Code::SessionConflict);
    assert!(error.message().contains("`none`") && error.message().contains("`zstd`"), "{error}");
    store(&files(&disk, None), "follows");
}

#[test]
fn a_root_that_is_a_file_is_refused_by_the_systems_own_error() {
    const ENOTDIR: i32 = 20;
    let disk = disk();
    disk.write_file(ROOT.as_ref(), b"a file").unwrap();
    let opened = FilePersistence::with_storage(ROOT, Arc::new(disk), FileSettings::default());
    let error = opened.unwrap_err();
    assert_eq!((error.code(), error.os()), (Code::Io, Some(ENOTDIR)));
}

/// What a child of the process sees: every call is turned away before it waits for anything, and dropping releases nothing.
#[test]
fn a_forked_child_is_turned_away_and_its_copies_release_nothing() {
    let disk = disk();
    let backend = files(&disk, None);
    store(&backend, "well");
    let log = backend.open("well", Access::Write, &go_on()).unwrap();
    let locks = disk.held_locks();
    disk.set_current_process(ProcessIdentity {
        id: 77,
        began: "later".to_owned(),
        program: "child".to_owned(),
    });
    assert_eq!(refusal(log.append(&[note(4, 1)], &go_on())), Code::ForkedProcess);
    assert_eq!(refusal(log.flush(&go_on())), Code::ForkedProcess);
    assert_eq!(refusal(log.read(0, 1, &go_on())), Code::ForkedProcess);
    assert_eq!(refusal(log.close()), Code::ForkedProcess);
    assert_eq!(refusal(backend.list(ListMode::Tolerant, &go_on())), Code::ForkedProcess);
    assert_eq!(refusal(backend.create(&header("new"), None, &go_on())), Code::ForkedProcess);
    assert_eq!(refusal(backend.flush()), Code::ForkedProcess);
    let before = disk.tree();
    drop(log);
    assert_eq!(disk.tree(), before, "the note of the owner stays");
    assert_eq!(disk.held_locks(), locks, "the lock stays the parent's");
}

#[test]
fn a_log_that_was_replaced_by_a_copy_of_itself_is_no_longer_the_writers() {
    for encoding in [Encoding::None, Encoding::Zstd] {
        let disk = disk();
        let backend = files(&disk, Some(encoding));
        let path = store(&backend, "s");
        let log = backend.open("s", Access::Write, &go_on()).unwrap();
        let bytes = disk.read_file(&path).unwrap();
        disk.remove_file(&path).unwrap();
        disk.write_file(&path, &bytes).unwrap();
        assert_eq!(refusal(log.append(&[note(4, 1)], &go_on())), Code::SessionOwnershipLost);
        assert_eq!(disk.read_file(&path).unwrap(), bytes);
    }
}

#[test]
fn every_notice_is_an_object_with_its_kind_and_its_figures() {
    let torn = Notice::TornTail {
        keep_bytes: 10,
        cut_bytes: 5,
        cut_rows: 2,
        recovered: 1,
        reason: "the last frame is unfinished".to_owned(),
    };
    let told = r#"{"kind":"torn-tail","keepBytes":10,"cutBytes":5,"cutRows":2,"recovered":1,"reason":"the last frame is unfinished"}"#;
    assert_eq!(torn.to_json(), told);
    let cut = Notice::TailCut { keep_bytes: 10, saved: Some("/r/session.cut-10-1.jsonl".into()) };
    assert_eq!(cut.to_json(), r#"{"kind":"tail-cut","keepBytes":10,"saved":"/r/session.cut-10-1.jsonl"}"#);
    let owner = Notice::OwnerFile { reason: "no space".to_owned() };
    assert_eq!(owner.to_json(), r#"{"kind":"owner-file","reason":"no space"}"#);
}
