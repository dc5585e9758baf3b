//! Taking sessions away: what is removed, what refuses, and that no crash brings an older generation back.

use dsh_session_core::persistence::files::{FilePersistence, FileSettings};
use dsh_session_core::storage::Storage;
use dsh_session_core::storage::simulation::{
    CrashImages, Fault, FaultyStorage, MemoryStorage, RecordingStorage,
};
use dsh_session_core::{
    Access, CancelToken, Code, Event, ListMode, Removal, SessionHeader, SessionPersistence, Store,
};
use std::path::{Path, PathBuf};
use std::sync::Arc;

const ROOT: &str = "/data/sessions";
const FOLDER: &str = "/data/sessions/_no-cwd/s";

fn persistence(storage: Arc<dyn Storage>) -> FilePersistence {
    FilePersistence::with_storage(ROOT, storage, FileSettings::default()).unwrap()
}

/// A session with an older generation, a saved tail and a folder of somebody else's beside the log.
fn with_session() -> MemoryStorage {
    let memory = MemoryStorage::new(1);
    let go_on = CancelToken::new();
    let log =
        persistence(Arc::new(memory.clone())).create(&SessionHeader::new("s", 5), None, &go_on).unwrap();
    log.append(
        &[Event::from_row(r#"{"type":"turn/start","seq":0,"time":1,"data":{"turn":1}}"#).unwrap()],
        &go_on,
    )
    .unwrap();
    log.close().unwrap();
    memory.write_file(&Path::new(FOLDER).join("session.v3.jsonl.zstd"), b"older").unwrap();
    memory.write_file(&Path::new(FOLDER).join("session.jsonl.zstd"), b"oldest").unwrap();
    memory.write_file(&Path::new(FOLDER).join("session.cut-9-1.jsonl.zstd"), b"saved").unwrap();
    memory.create_directory(&Path::new(FOLDER).join("artifacts")).unwrap();
    memory.write_file(&Path::new(FOLDER).join("artifacts/a.png"), b"png").unwrap();
    memory
}

fn remove(storage: Arc<dyn Storage>, how: Removal) -> dsh_session_core::Result<Option<PathBuf>> {
    persistence(storage).remove("s", how, &CancelToken::new())
}

#[test]
fn a_deleted_session_is_gone_with_its_folder() {
    let memory = with_session();
    assert_eq!(remove(Arc::new(memory.clone()), Removal::Delete).unwrap(), None);
    assert!(memory.metadata(Path::new(FOLDER)).is_err());
    let files = persistence(Arc::new(memory.clone()));
    assert!(files.list(ListMode::Tolerant, &CancelToken::new()).unwrap().sessions.is_empty());
    assert_eq!(memory.held_locks(), 0);
    let again = remove(Arc::new(memory), Removal::Delete).unwrap_err();
    assert_eq!(again.code(), Code::SessionNotFound);
}

#[test]
fn a_session_in_the_trash_lies_beside_the_root_whole_and_never_over_another() {
    let memory = with_session();
    let first = remove(Arc::new(memory.clone()), Removal::Trash).unwrap().unwrap();
    assert_eq!(first, Path::new("/data/sessions.trash/_no-cwd/s"));
    assert!(memory.metadata(&first.join("session.v4.jsonl.zstd")).is_ok());
    assert!(memory.metadata(&first.join("artifacts/a.png")).is_ok());
    let go_on = CancelToken::new();
    let files = persistence(Arc::new(memory.clone()));
    files.create(&SessionHeader::new("s", 6), None, &go_on).unwrap().flush(&go_on).unwrap();
    let second = files.remove("s", Removal::Trash, &go_on).unwrap().unwrap();
    assert_eq!(second, Path::new("/data/sessions.trash/_no-cwd/s.1"));
}

#[test]
fn an_owned_session_is_not_removed() {
    let memory = with_session();
    let storage: Arc<dyn Storage> = Arc::new(memory.clone());
    let go_on = CancelToken::new();
    let files = persistence(Arc::clone(&storage));
    let owner = files.open("s", Access::Write, &go_on).unwrap();
    for how in [Removal::Delete, Removal::Trash] {
        // By this instance, and by another one.
        assert_eq!(files.remove("s", how, &go_on).unwrap_err().code(), Code::SessionAlreadyOwned);
        assert_eq!(remove(Arc::clone(&storage), how).unwrap_err().code(), Code::SessionAlreadyOwned);
    }
    owner.close().unwrap();
    files.remove("s", Removal::Delete, &go_on).unwrap();
}

#[test]
fn a_folder_that_belongs_to_another_session_is_left_alone() {
    let memory = with_session();
    memory.rename(Path::new(FOLDER), Path::new("/data/sessions/_no-cwd/other")).unwrap();
    let files = persistence(Arc::new(memory.clone()));
    let error = files.remove("other", Removal::Delete, &CancelToken::new()).unwrap_err();
    assert_eq!(error.code(), Code::SessionCorrupt);
    assert!(memory.metadata(Path::new("/data/sessions/_no-cwd/other/session.v4.jsonl.zstd")).is_ok());
}

#[test]
fn no_crash_during_a_removal_brings_an_older_generation_back() {
    for how in [Removal::Delete, Removal::Trash] {
        let recorder = RecordingStorage::new(&with_session());
        remove(Arc::new(recorder.clone()), how).unwrap();
        let journal = recorder.journal();
        let mut images = CrashImages::new(&journal, 3);
        for point in 0..=journal.len() {
            for image in images.at(point) {
                let files = persistence(Arc::new(image.storage.clone()));
                match files.open("s", Access::Read, &CancelToken::new()) {
                    Ok(log) => assert_eq!(log.event_count(&CancelToken::new()).unwrap(), 1, "{image:?}"),
                    Err(error) => assert_eq!(error.code(), Code::SessionNotFound, "{image:?}"),
                }
            }
        }
    }
}

#[test]
fn a_removal_whose_call_fails_can_be_repeated() {
    let go_on = CancelToken::new();
    for how in [Removal::Delete, Removal::Trash] {
        for call in 1.. {
            let memory = with_session();
            let faulty = Arc::new(FaultyStorage::new(Arc::new(memory.clone())));
            let files = persistence(Arc::clone(&faulty) as Arc<dyn Storage>);
            faulty.clear();
            faulty.fail_call(call, Fault::error(rustix::io::Errno::IO.raw_os_error()));
            let first = files.remove("s", how, &go_on);
            if faulty.fired() == 0 {
                assert!(call > 10, "only {call} calls were tried");
                break;
            }
            faulty.clear_faults();
            let second = files.remove("s", how, &go_on);
            let is_gone = second.is_ok() || second.is_err_and(|error| error.code() == Code::SessionNotFound);
            assert!(is_gone, "call {call} of {how:?}: {first:?}");
            assert!(memory.metadata(&Path::new(FOLDER).join("session.v4.jsonl.zstd")).is_err());
            assert_eq!(memory.held_locks(), 0);
        }
    }
}

#[test]
fn a_store_removes_from_the_real_file_system() {
    let folder = tempfile::tempdir().unwrap();
    let store = Store::open(folder.path().join("root")).unwrap();
    let session = store.create(dsh_session_core::NewSession::new().cwd("/w")).unwrap();
    session.flush().unwrap();
    let id = session.id().to_owned();
    assert_eq!(store.remove(&id, Removal::Trash).unwrap_err().code(), Code::SessionAlreadyOwned);
    session.close().unwrap();
    let aside = store.remove(&id, Removal::Trash).unwrap().unwrap();
    assert!(aside.starts_with(folder.path().join("root.trash")) && aside.exists());
    assert!(store.list(ListMode::Tolerant).unwrap().sessions.is_empty());
}

#[test]
fn the_trash_lies_beside_the_root_however_the_root_is_written() {
    for written in ["root/", "root/../root", "root/."] {
        let folder = tempfile::tempdir().unwrap();
        std::fs::create_dir(folder.path().join("root")).unwrap();
        let store = Store::open(folder.path().join(written)).unwrap();
        store.create(dsh_session_core::NewSession::new().id("s")).unwrap().flush().unwrap();
        let aside = store.remove("s", Removal::Trash).unwrap().unwrap();
        let aside = aside.canonicalize().unwrap();
        assert!(
            aside.starts_with(folder.path().canonicalize().unwrap().join("root.trash")),
            "{written}: {aside:?}"
        );
    }
}

#[test]
fn a_link_that_leads_nowhere_is_a_problem_and_not_absent() {
    let folder = tempfile::tempdir().unwrap();
    let directory = folder.path().join("_no-cwd/dangling");
    std::fs::create_dir_all(&directory).unwrap();
    std::os::unix::fs::symlink("nowhere", directory.join("session.v4.jsonl")).unwrap();
    let listing = Store::open(folder.path()).unwrap().list(ListMode::Tolerant).unwrap();
    assert_eq!((listing.sessions.len(), listing.problems.len()), (0, 1));
    assert_eq!(listing.problems[0].id.as_deref(), Some("dangling"));
}
