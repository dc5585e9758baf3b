//! The laws of a storage, run on the operating system and on the simulated one alike: what the rooms above are tested
//! with must behave like what they run on.

use super::simulation::{FaultyStorage, MemoryStorage, RecordingStorage};
use super::{DirectoryEntry, FileKind, FileMetadata, OpenHow, OsStorage, Storage};
use rustix::io::Errno;
use std::fmt::Debug;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Runs a law on every storage, each with an empty directory.
fn on_every_storage(law: impl Fn(&dyn Storage, &Path)) {
    let directory = tempfile::tempdir().expect("directory");
    let root = std::fs::canonicalize(directory.path()).expect("root");
    law(&OsStorage::new(), &root);
    let memory = || {
        let memory = MemoryStorage::new(1);
        memory.create_directory(Path::new("/root")).expect("root");
        memory
    };
    law(&memory(), Path::new("/root"));
    law(&RecordingStorage::new(&memory()), Path::new("/root"));
    law(&FaultyStorage::new(Arc::new(memory())), Path::new("/root"));
}

#[track_caller]
fn assert_fails<T: Debug>(result: io::Result<T>, errno: Errno) {
    let error = result.expect_err("a refusal");
    assert_eq!(error.raw_os_error(), Some(errno.raw_os_error()), "{error}");
}

fn put(storage: &dyn Storage, path: &Path, bytes: &[u8]) {
    let file = storage.open(path, OpenHow::CreateOrTruncate).expect("file");
    assert_eq!(file.append(bytes).expect("append"), bytes.len());
}

fn get(storage: &dyn Storage, path: &Path) -> Vec<u8> {
    let file = storage.open(path, OpenHow::Read).expect("file");
    let mut bytes = vec![0; file.metadata().expect("metadata").size as usize + 1];
    let count = file.read_at(&mut bytes, 0).expect("read");
    bytes.truncate(count);
    bytes
}

fn names(storage: &dyn Storage, path: &Path) -> Vec<String> {
    let entries = storage.read_directory(path).expect("entries");
    let mut names: Vec<_> =
        entries.into_iter().map(|entry| entry.name.into_string().expect("text")).collect();
    names.sort();
    names
}

#[test]
fn appends_go_to_the_end_whoever_writes() {
    on_every_storage(|storage, root| {
        let path = root.join("log");
        let one = storage.open(&path, OpenHow::CreateNew).expect("file");
        let two = storage.open(&path, OpenHow::Append).expect("file");
        for (file, bytes) in [(&one, "a"), (&two, "bc"), (&one, ""), (&one, "d")] {
            assert_eq!(file.append(bytes.as_bytes()).expect("append"), bytes.len());
        }
        one.sync().expect("sync");
        assert_eq!(get(storage, &path), b"abcd");
        let mut buffer = [0; 2];
        assert_eq!(two.read_at(&mut buffer, 1).expect("read"), 2);
        assert_eq!(&buffer, b"bc");
        assert_eq!(two.read_at(&mut buffer, 3).expect("read"), 1);
        assert_eq!(two.read_at(&mut buffer, 4).expect("read"), 0);
        assert_eq!(two.read_at(&mut buffer, 400).expect("read"), 0);
        assert_eq!(two.read_at(&mut [], 0).expect("read"), 0);
    });
}

#[test]
fn after_a_cut_the_next_append_follows_the_cut() {
    on_every_storage(|storage, root| {
        let path = root.join("log");
        put(storage, &path, b"abcdef");
        let file = storage.open(&path, OpenHow::Append).expect("file");
        file.truncate(2).expect("cut");
        file.append(b"X").expect("append");
        assert_eq!(get(storage, &path), b"abX");
        file.truncate(5).expect("longer");
        assert_eq!(get(storage, &path), b"abX\0\0");
        file.truncate(0).expect("empty");
        assert_eq!(get(storage, &path), b"");
    });
}

#[test]
fn a_file_opened_to_read_is_not_written() {
    on_every_storage(|storage, root| {
        let path = root.join("log");
        put(storage, &path, b"abc");
        let file = storage.open(&path, OpenHow::Read).expect("file");
        assert_fails(file.append(b"d"), Errno::BADF);
        assert_fails(file.truncate(0), Errno::INVAL);
        assert_eq!(get(storage, &path), b"abc");
    });
}

#[test]
fn each_way_to_open_creates_and_empties_as_it_says() {
    on_every_storage(|storage, root| {
        let path = root.join("file");
        assert_fails(storage.open(&path, OpenHow::Read), Errno::NOENT);
        assert_fails(storage.open(&path, OpenHow::Append), Errno::NOENT);
        drop(storage.open(&path, OpenHow::Lock).expect("created"));
        assert_fails(storage.open(&path, OpenHow::CreateNew), Errno::EXIST);
        put(storage, &path, b"abc");
        drop(storage.open(&path, OpenHow::Lock).expect("untouched"));
        assert_eq!(get(storage, &path), b"abc");
        drop(storage.open(&path, OpenHow::CreateOrTruncate).expect("emptied"));
        assert_eq!(get(storage, &path), b"");
        storage.open(&root.join("new"), OpenHow::CreateNew).expect("created").append(b"1").expect("append");
        assert_eq!(names(storage, root), ["file", "new"]);
    });
}

#[test]
fn a_directory_is_no_file_and_a_file_no_directory() {
    on_every_storage(|storage, root| {
        let (directory, file) = (root.join("directory"), root.join("file"));
        storage.create_directory(&directory).expect("directory");
        put(storage, &file, b"");
        for how in [OpenHow::Read, OpenHow::Append, OpenHow::CreateOrTruncate, OpenHow::Lock] {
            assert_fails(storage.open(&directory, how), Errno::ISDIR);
        }
        assert_fails(storage.open(&directory, OpenHow::CreateNew), Errno::EXIST);
        assert_fails(storage.open(&file.join("below"), OpenHow::Read), Errno::NOTDIR);
        assert_fails(storage.metadata(&file.join("below")), Errno::NOTDIR);
        assert_fails(storage.read_directory(&file), Errno::NOTDIR);
        assert_fails(storage.sync_directory(&file), Errno::NOTDIR);
        assert_fails(storage.remove_file(&directory), Errno::ISDIR);
        assert_fails(storage.remove_directory(&file), Errno::NOTDIR);
        assert_fails(storage.create_directory(&directory), Errno::EXIST);
        assert_fails(storage.create_directory(&file), Errno::EXIST);
        assert_fails(storage.create_directory(&root.join("no/where")), Errno::NOENT);
        assert_fails(storage.hard_link(&directory, &root.join("link")), Errno::PERM);
    });
}

#[test]
fn a_directory_goes_only_when_it_is_empty() {
    on_every_storage(|storage, root| {
        let directory = root.join("directory");
        storage.create_directory(&directory).expect("directory");
        put(storage, &directory.join("file"), b"");
        assert_fails(storage.remove_directory(&directory), Errno::NOTEMPTY);
        storage.remove_file(&directory.join("file")).expect("removed");
        storage.sync_directory(&directory).expect("sync");
        storage.remove_directory(&directory).expect("removed");
        storage.sync_directory(root).expect("sync");
        assert_fails(storage.metadata(&directory), Errno::NOENT);
        assert_fails(storage.remove_directory(&directory), Errno::NOENT);
        assert_fails(storage.read_directory(&directory), Errno::NOENT);
        assert_fails(storage.sync_directory(&directory), Errno::NOENT);
    });
}

#[test]
fn a_hard_link_is_the_same_file_and_replaces_nothing() {
    on_every_storage(|storage, root| {
        let (one, two) = (root.join("one"), root.join("two"));
        put(storage, &one, b"abc");
        storage.hard_link(&one, &two).expect("link");
        let same = storage.metadata(&one).expect("one").is_same_file(&storage.metadata(&two).expect("two"));
        assert!(same);
        assert_fails(storage.hard_link(&one, &two), Errno::EXIST);
        assert_fails(storage.hard_link(&root.join("none"), &root.join("three")), Errno::NOENT);
        // Two names of one file: a rename does nothing at all.
        storage.rename(&one, &two).expect("rename");
        assert_eq!(names(storage, root), ["one", "two"]);
        storage.remove_file(&one).expect("removed");
        assert_eq!(get(storage, &two), b"abc");
        assert_fails(storage.remove_file(&one), Errno::NOENT);
    });
}

#[test]
fn a_rename_replaces_files_and_empty_directories_of_its_own_kind() {
    on_every_storage(|storage, root| {
        let at = |name: &str| root.join(name);
        put(storage, &at("new"), b"new");
        put(storage, &at("old"), b"old");
        storage.rename(&at("new"), &at("old")).expect("replaced");
        assert_eq!(get(storage, &at("old")), b"new");
        assert_fails(storage.rename(&at("new"), &at("old")), Errno::NOENT);

        storage.create_directory(&at("full")).expect("directory");
        put(storage, &at("full/file"), b"1");
        storage.create_directory(&at("empty")).expect("directory");
        assert_fails(storage.rename(&at("old"), &at("empty")), Errno::ISDIR);
        assert_fails(storage.rename(&at("empty"), &at("old")), Errno::NOTDIR);
        assert_fails(storage.rename(&at("empty"), &at("full")), Errno::NOTEMPTY);
        assert_fails(storage.rename(&at("full"), &at("full/below")), Errno::INVAL);
        storage.rename(&at("full"), &at("empty")).expect("replaced");
        assert_eq!(get(storage, &at("empty/file")), b"1");
        assert_eq!(names(storage, root), ["empty", "old"]);
    });
}

#[test]
fn an_open_file_outlives_its_name() {
    on_every_storage(|storage, root| {
        let path = root.join("file");
        put(storage, &path, b"old");
        let open = storage.open(&path, OpenHow::Append).expect("file");
        storage.remove_file(&path).expect("removed");
        put(storage, &path, b"new");
        open.append(b"er").expect("append");
        let mut buffer = [0; 9];
        assert_eq!(open.read_at(&mut buffer, 0).expect("read"), 5);
        assert_eq!(&buffer[..5], b"older");
        assert_eq!(get(storage, &path), b"new");
        let now = storage.metadata(&path).expect("metadata");
        assert!(!open.metadata().expect("metadata").is_same_file(&now));
    });
}

#[test]
fn the_lock_excludes_every_other_descriptor_until_its_file_is_dropped() {
    on_every_storage(|storage, root| {
        let path = root.join("session.lock");
        let open = || storage.open(&path, OpenHow::Lock).expect("lock");
        let (one, two) = (open(), open());
        assert!(one.try_lock().expect("lock"));
        assert!(one.try_lock().expect("again"));
        assert!(!two.try_lock().expect("lock"));
        let elsewhere = storage.open(&root.join("other.lock"), OpenHow::Lock).expect("lock");
        assert!(elsewhere.try_lock().expect("lock"));
        // Neither other handles of the file nor its name matter.
        drop(open());
        assert!(!two.try_lock().expect("lock"));
        drop(one);
        assert!(two.try_lock().expect("lock"));
        storage.remove_file(&path).expect("removed");
        assert!(open().try_lock().expect("another file"));
    });
}

#[test]
fn metadata_tells_size_and_kind_and_its_times_move_with_the_content() {
    on_every_storage(|storage, root| {
        let path = root.join("file");
        put(storage, &path, b"abc");
        let file = storage.open(&path, OpenHow::Append).expect("file");
        let before = file.metadata().expect("metadata");
        assert_eq!((before.kind, before.size), (FileKind::File, 3));
        assert_eq!(before, storage.metadata(&path).expect("metadata"));
        // The system's clock for files may be coarse: time moves in the end.
        loop {
            file.append(b"d").expect("append");
            let after = file.metadata().expect("metadata");
            assert!(after.is_same_file(&before) && after.size > before.size);
            if after.modified_ns > before.modified_ns && after.changed_ns > before.changed_ns {
                break;
            }
        }
        assert_eq!(storage.metadata(root).expect("metadata").kind, FileKind::Directory);
        assert_fails(storage.metadata(&root.join("none")), Errno::NOENT);
    });
}

#[test]
fn a_listing_names_each_entry_with_its_kind() {
    on_every_storage(|storage, root| {
        storage.create_directory(&root.join("directory")).expect("directory");
        put(storage, &root.join("directory/inner"), b"");
        put(storage, &root.join("füle"), b"");
        let mut entries = storage.read_directory(root).expect("entries");
        entries.sort_by(|one, two| one.name.cmp(&two.name));
        let entry = |name: &str, kind| DirectoryEntry { name: name.into(), kind };
        assert_eq!(entries, [entry("directory", FileKind::Directory), entry("füle", FileKind::File)]);
    });
}

#[test]
fn names_are_at_most_255_bytes() {
    on_every_storage(|storage, root| {
        let longest = root.join("n".repeat(255));
        put(storage, &longest, b"1");
        assert_eq!(get(storage, &longest), b"1");
        assert_fails(storage.open(&root.join("n".repeat(256)), OpenHow::CreateNew), Errno::NAMETOOLONG);
    });
}

#[test]
fn a_canonical_path_is_without_dots_and_exists() {
    on_every_storage(|storage, root| {
        storage.create_directory(&root.join("directory")).expect("directory");
        let path = root.join("directory/../directory/./.");
        assert_eq!(storage.canonicalize(&path).expect("path"), root.join("directory"));
        assert_fails(storage.canonicalize(&root.join("none")), Errno::NOENT);
        assert_eq!(storage.canonicalize(Path::new("/..")).expect("path"), PathBuf::from("/"));
    });
}

/// The same on both: links are made behind the trait's back, since the library makes none.
fn symbolic_links(storage: &dyn Storage, root: &Path, link: impl Fn(&Path, &Path)) {
    let at = |name: &str| root.join(name);
    put(storage, &at("file"), b"abc");
    link(Path::new("file"), &at("link"));
    link(Path::new("self"), &at("self"));
    link(root, &at("up"));
    let kinds = storage.read_directory(root).expect("entries");
    assert_eq!(kinds.iter().filter(|entry| entry.kind == FileKind::Link).count(), 3);
    assert_eq!(get(storage, &at("link")), b"abc");
    assert_eq!(get(storage, &at("up/up/link")), b"abc");
    assert_eq!(storage.canonicalize(&at("up/link")).expect("path"), at("file"));
    assert_eq!(
        storage.metadata(&at("link")).expect("metadata"),
        storage.metadata(&at("file")).expect("metadata")
    );
    assert_fails(storage.open(&at("self"), OpenHow::Read), Errno::LOOP);
    assert_fails(storage.open(&at("link"), OpenHow::CreateNew), Errno::EXIST);
    for how in [OpenHow::Lock, OpenHow::CreateOrTruncate] {
        assert_fails(storage.open(&at("link"), how), Errno::LOOP);
    }
    storage.rename(&at("link"), &at("moved")).expect("the link itself");
    storage.remove_file(&at("moved")).expect("the link itself");
    assert_eq!(get(storage, &at("file")), b"abc");
}

#[test]
fn links_are_followed_to_read_but_never_to_create_empty_or_lock() {
    let directory = tempfile::tempdir().expect("directory");
    let root = std::fs::canonicalize(directory.path()).expect("root");
    symbolic_links(&OsStorage, &root, |target, link| std::os::unix::fs::symlink(target, link).expect("link"));
    let memory = MemoryStorage::new(1);
    memory.create_directory(Path::new("/root")).expect("root");
    symbolic_links(&memory, Path::new("/root"), |target, link| {
        memory.symbolic_link(target, link).expect("link")
    });
}

#[test]
fn the_holder_of_a_lock_is_seen_without_taking_it() {
    on_every_storage(|storage, root| {
        let holder = |name: &str| {
            let file = storage.metadata(&root.join(name)).expect("metadata");
            storage.lock_holder(&file).expect("the locks")
        };
        let held = storage.open(&root.join("lock"), OpenHow::Lock).expect("file");
        let other = storage.open(&root.join("other"), OpenHow::Lock).expect("file");
        assert_eq!(holder("lock"), None);
        assert!(held.try_lock().expect("lock"));
        for _ in 0..2 {
            assert_eq!((holder("lock"), holder("other")), (Some(storage.process_id()), None));
        }
        let elsewhere = storage.metadata(&root.join("lock")).expect("metadata");
        let elsewhere = FileMetadata { device: elsewhere.device ^ 1, ..elsewhere };
        assert_eq!(storage.lock_holder(&elsewhere).expect("the locks"), None);
        drop(held);
        assert_eq!(holder("lock"), None);
        assert!(other.try_lock().expect("lock"));
        assert_eq!((holder("lock"), holder("other")), (None, Some(storage.process_id())));
    });
}

#[test]
fn randomness_differs_and_the_running_process_is_alive() {
    on_every_storage(|storage, _| {
        let (mut one, mut two) = ([0; 16], [0; 16]);
        storage.fill_random(&mut one).expect("randomness");
        storage.fill_random(&mut two).expect("randomness");
        assert_ne!(one, two);
        let me = storage.current_process().expect("process");
        assert_eq!(storage.process(me.id).expect("process"), Some(me));
        assert_eq!(storage.process(u32::MAX).expect("process"), None);
        assert!(storage.now_unix_ms() > 0);
    });
}
