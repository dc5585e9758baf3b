//! What can be set on a simulated machine. The laws that it shares with the operating system are in `storage::laws`.

use super::*;

fn path(text: &str) -> &Path {
    Path::new(text)
}

#[track_caller]
fn assert_fails<T: fmt::Debug>(result: io::Result<T>, errno: Errno) {
    assert_eq!(result.expect_err("a refusal").raw_os_error(), Some(errno.raw_os_error()));
}

#[test]
fn a_full_disk_takes_what_fits_then_nothing_until_the_limit_is_lifted() {
    let storage = MemoryStorage::default();
    storage.write_file(path("/first"), b"12345").expect("fits");
    storage.set_space_limit_bytes(Some(8));
    let file = storage.open(path("/second"), OpenHow::CreateNew).expect("names need no space");
    assert_eq!(file.append(b"abcdef").expect("short"), 3);
    assert_fails(file.append(b"def"), Errno::NOSPC);
    assert_eq!(file.append(b"").expect("nothing"), 0);
    storage.remove_file(path("/first")).expect("removed");
    assert_eq!(file.append(b"def").expect("fits now"), 3);
    storage.set_space_limit_bytes(Some(0));
    assert_fails(file.append(b"g"), Errno::NOSPC);
    file.truncate(1).expect("a cut needs no space");
    storage.set_space_limit_bytes(None);
    assert_eq!(file.append(b"bc").expect("no limit"), 2);
    assert_eq!(storage.read_file(path("/second")).expect("content"), b"abc");
}

#[test]
fn a_read_only_disk_refuses_every_change_and_nothing_else() {
    let storage = MemoryStorage::default();
    storage.create_directory(path("/d")).expect("directory");
    storage.write_file(path("/f"), b"abc").expect("file");
    let open = storage.open(path("/f"), OpenHow::Append).expect("file");
    let before = storage.tree();
    storage.set_read_only(true);
    for how in [OpenHow::Append, OpenHow::CreateOrTruncate, OpenHow::Lock] {
        assert_fails(storage.open(path("/f"), how), Errno::ROFS);
    }
    for how in [OpenHow::CreateNew, OpenHow::CreateOrTruncate, OpenHow::Lock] {
        assert_fails(storage.open(path("/new"), how), Errno::ROFS);
    }
    assert_fails(open.append(b"d"), Errno::ROFS);
    assert_fails(open.truncate(0), Errno::ROFS);
    assert_fails(storage.create_directory(path("/new")), Errno::ROFS);
    assert_fails(storage.remove_directory(path("/d")), Errno::ROFS);
    assert_fails(storage.remove_file(path("/f")), Errno::ROFS);
    assert_fails(storage.rename(path("/f"), path("/g")), Errno::ROFS);
    assert_fails(storage.hard_link(path("/f"), path("/g")), Errno::ROFS);
    assert_eq!(storage.tree(), before);
    assert_eq!(storage.read_file(path("/f")).expect("content"), b"abc");
    storage.set_read_only(false);
    open.append(b"d").expect("append");
}

#[test]
fn without_working_flock_everyone_gets_the_lock() {
    let storage = MemoryStorage::default();
    storage.set_flock_is_ineffective(true);
    let open = || storage.open(path("/lock"), OpenHow::Lock).expect("lock");
    let (one, two) = (open(), open());
    assert!(one.try_lock().expect("lock") && two.try_lock().expect("lock"));
}

#[test]
fn a_forked_child_that_drops_its_copy_leaves_the_lock_to_its_parent() {
    let storage = MemoryStorage::default();
    let parent = storage.current_process().expect("process");
    let held = storage.open(path("/lock"), OpenHow::Lock).expect("lock");
    assert!(held.try_lock().expect("lock"));
    storage.set_current_process(ProcessIdentity { id: 2000, began: "2".into(), program: "child".into() });
    drop(held);
    assert_eq!((storage.held_locks(), storage.open_files()), (1, 0));
    let other = storage.open(path("/lock"), OpenHow::Lock).expect("lock");
    assert!(!other.try_lock().expect("lock"));
    storage.end_process(parent.id);
    assert_eq!(storage.process(parent.id).expect("process"), None);
    assert!(other.try_lock().expect("lock"));
}

#[test]
fn names_ignore_case_on_request_and_keep_their_spelling() {
    let storage = MemoryStorage::default();
    storage.set_names_ignore_case(true);
    storage.write_file(path("/Log"), b"1").expect("file");
    assert_fails(storage.open(path("/lOG"), OpenHow::CreateNew), Errno::EXIST);
    assert_eq!(storage.read_file(path("/LOG")).expect("content"), b"1");
    assert_eq!(storage.canonicalize(path("/log")).expect("path"), path("/Log"));
    assert_eq!(storage.tree().len(), 1);
}

#[test]
fn open_files_and_locks_are_counted_and_freed() {
    let storage = MemoryStorage::default();
    let file = storage.open(path("/f"), OpenHow::Lock).expect("file");
    file.append(b"abc").expect("append");
    file.try_lock().expect("lock");
    storage.remove_file(path("/f")).expect("removed");
    assert_eq!((storage.open_files(), storage.held_locks(), storage.used_bytes()), (1, 1, 3));
    drop(file);
    assert_eq!((storage.open_files(), storage.held_locks(), storage.used_bytes()), (0, 0, 0));
}

#[test]
fn the_clock_stands_until_it_is_set_and_changes_still_differ_in_time() {
    let storage = MemoryStorage::default();
    storage.set_clock_ms(5);
    storage.advance_clock_ms(-7);
    assert_eq!(storage.now_unix_ms(), -2);
    storage.write_file(path("/f"), b"a").expect("file");
    let before = storage.metadata(path("/f")).expect("metadata");
    storage.write_file(path("/f"), b"b").expect("file");
    assert!(storage.metadata(path("/f")).expect("metadata").modified_ns > before.modified_ns);
}

#[test]
fn a_seed_gives_the_same_machine_and_a_copy_is_another() {
    let bytes = |storage: &MemoryStorage| {
        let mut bytes = [0; 20];
        storage.fill_random(&mut bytes).expect("randomness");
        bytes
    };
    assert_eq!(bytes(&MemoryStorage::new(4)), bytes(&MemoryStorage::new(4)));
    assert_ne!(bytes(&MemoryStorage::new(4)), bytes(&MemoryStorage::new(5)));
    let storage = MemoryStorage::default();
    storage.write_file(path("/f"), b"abc").expect("file");
    let copy = storage.copy();
    let file = storage.open(path("/f"), OpenHow::Append).expect("file");
    file.append(b"d").expect("append");
    assert_eq!(copy.read_file(path("/f")).expect("content"), b"abc");
    assert_eq!(copy.open_files(), 0);
}

#[test]
fn special_files_and_relative_paths_are_refused() {
    let storage = MemoryStorage::default();
    storage.special_file(path("/pipe")).expect("pipe");
    for how in [OpenHow::Read, OpenHow::Append, OpenHow::Lock] {
        let error = storage.open(path("/pipe"), how).expect_err("refused");
        assert_eq!(error.kind(), io::ErrorKind::InvalidInput);
    }
    assert_eq!(storage.read_directory(path("/")).expect("entries")[0].kind, FileKind::Other);
    assert_eq!(storage.metadata(path("relative")).expect_err("refused").kind(), io::ErrorKind::InvalidInput);
}
