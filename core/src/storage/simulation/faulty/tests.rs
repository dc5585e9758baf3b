//! A fault strikes the call it was meant for, and does to the disk what it says.

use super::super::MemoryStorage;
use super::*;
use rustix::io::Errno;

const EIO: i32 = Errno::IO.raw_os_error();
const ENOSPC: i32 = Errno::NOSPC.raw_os_error();

fn setting() -> (MemoryStorage, FaultyStorage) {
    let memory = MemoryStorage::default();
    memory.write_file(Path::new("/a"), b"abc").expect("file");
    let faulty = FaultyStorage::new(Arc::new(memory.clone()));
    (memory, faulty)
}

#[track_caller]
fn assert_fails<T: std::fmt::Debug>(result: io::Result<T>, code: i32) {
    assert_eq!(result.expect_err("a fault").raw_os_error(), Some(code));
}

/// Every call once, in order; the names of those that failed.
fn every_call(storage: &FaultyStorage) -> Vec<&'static str> {
    let at = Path::new;
    let mut failed = Vec::new();
    let mut note = |name, is_ok: bool| {
        if !is_ok {
            failed.push(name)
        }
    };
    note("create_directory", storage.create_directory(at("/d")).is_ok());
    let file = storage.open(at("/a"), OpenHow::Append);
    note("open", file.is_ok());
    if let Ok(file) = file {
        note("append", file.append(b"d").is_ok());
        note("read_at", file.read_at(&mut [0; 2], 0).is_ok());
        note("file metadata", file.metadata().is_ok());
        note("truncate", file.truncate(3).is_ok());
        note("sync", file.sync().is_ok());
        note("try_lock", file.try_lock().is_ok());
    }
    note("metadata", storage.metadata(at("/a")).is_ok());
    note("read_directory", storage.read_directory(at("/")).is_ok());
    note("hard_link", storage.hard_link(at("/a"), at("/b")).is_ok());
    note("rename", storage.rename(at("/a"), at("/c")).is_ok());
    note("sync_directory", storage.sync_directory(at("/")).is_ok());
    note("remove_file", storage.remove_file(at("/c")).is_ok());
    note("remove_directory", storage.remove_directory(at("/d")).is_ok());
    note("canonicalize", storage.canonicalize(at("/")).is_ok());
    note("fill_random", storage.fill_random(&mut [0; 4]).is_ok());
    note("current_process", storage.current_process().is_ok());
    note("process", storage.process(1).is_ok());
    failed
}

/// As many as `every_call` makes.
const CALLS: u64 = 19;

#[test]
fn every_fallible_call_is_counted_and_can_fail() {
    let (_, storage) = setting();
    assert!(every_call(&storage).is_empty());
    assert_eq!((storage.calls(), storage.fired(), storage.log().len()), (CALLS, 0, CALLS as usize));
    let mut struck = std::collections::BTreeSet::new();
    for number in 1..=CALLS {
        let (_, storage) = setting();
        storage.fail_call(number, Fault::error(EIO));
        let failed = every_call(&storage);
        assert_eq!(storage.fired(), 1, "{:?}", storage.log());
        struck.insert(failed[0]);
        assert_eq!(storage.open_files(), 0);
    }
    assert_eq!(struck.len() as u64, CALLS);
}

#[test]
fn an_error_before_the_effect_changes_nothing_and_one_after_it_changes_everything() {
    for (fault, is_done) in [(Fault::error(EIO), false), (Fault::error_after_effect(EIO), true)] {
        let (memory, storage) = setting();
        storage.fail_call(1, fault);
        assert_fails(storage.rename(Path::new("/a"), Path::new("/b")), EIO);
        assert_eq!(memory.metadata(Path::new("/b")).is_ok(), is_done);

        let (memory, storage) = setting();
        storage.fail_call(1, fault);
        assert_fails(storage.open(Path::new("/new"), OpenHow::CreateNew), EIO);
        assert_eq!(memory.metadata(Path::new("/new")).is_ok(), is_done);
        assert_eq!((memory.open_files(), storage.open_files()), (0, 0));

        let (memory, storage) = setting();
        let file = storage.open(Path::new("/a"), OpenHow::Append).expect("file");
        storage.fail_call(2, fault);
        assert_fails(file.append(b"def"), EIO);
        assert_eq!(memory.read_file(Path::new("/a")).expect("content").len(), if is_done { 6 } else { 3 });
    }
}

#[test]
fn a_write_is_short_alone_or_before_its_error() {
    let (memory, storage) = setting();
    let file = storage.open(Path::new("/a"), OpenHow::Append).expect("file");
    storage.fail_call(2, Fault::short(2));
    storage.fail_call(3, Fault::error_after_bytes(ENOSPC, 1));
    storage.fail_call(4, Fault::short(100));
    storage.fail_call(5, Fault::short(0));
    assert_eq!(file.append(b"defg").expect("short"), 2);
    assert_fails(file.append(b"XYZ"), ENOSPC);
    assert_eq!(memory.read_file(Path::new("/a")).expect("content"), b"abcdeX");
    assert_eq!(file.append(b"Z").expect("all of it"), 1);
    assert_eq!(file.append(b"Z").expect("nothing"), 0);
    assert_eq!(storage.fired(), 4);
}

#[test]
fn a_short_read_gives_less_but_never_a_false_end() {
    let (_, storage) = setting();
    let file = storage.open(Path::new("/a"), OpenHow::Read).expect("file");
    storage.fail_calls(&[2, 3], Fault::short(0));
    storage.fail_call(4, Fault::error_after_bytes(EIO, 1));
    let mut buffer = [0; 3];
    assert_eq!(file.read_at(&mut buffer, 0).expect("read"), 1);
    assert_eq!(file.read_at(&mut buffer, 3).expect("the true end"), 0);
    assert_fails(file.read_at(&mut buffer, 0), EIO);
    assert_eq!(file.read_at(&mut buffer, 0).expect("read"), 3);
}

#[test]
fn a_pulled_disk_fails_everything_until_the_faults_are_cleared() {
    let (_, storage) = setting();
    storage.fail_from(2, Fault::error(EIO));
    storage.metadata(Path::new("/a")).expect("before");
    for _ in 0..3 {
        assert_fails(storage.metadata(Path::new("/a")), EIO);
    }
    storage.clear_faults();
    storage.metadata(Path::new("/a")).expect("after");
    assert_eq!((storage.calls(), storage.fired()), (5, 3));
    let open = storage.open(Path::new("/a"), OpenHow::Read).expect("file");
    storage.clear();
    assert_eq!((storage.calls(), storage.fired(), storage.log().len(), storage.open_files()), (0, 0, 0, 1));
    drop(open);
    assert_eq!(storage.open_files(), 0);
}

#[test]
fn the_log_names_each_call_and_its_fault() {
    let (_, storage) = setting();
    storage.fail_call(2, Fault::error(EIO));
    let file = storage.open(Path::new("/a"), OpenHow::Append).expect("file");
    file.sync().expect_err("a fault");
    let log = storage.log();
    assert_eq!(log[0], "1 open to append a");
    assert!(log[1].starts_with("2 sync a -> Fault"), "{}", log[1]);
}
