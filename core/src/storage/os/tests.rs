//! What only the operating system can show: modes under a umask, the kind of lock, special files, processes.
//! The laws that every storage keeps are in `storage::laws`.

use super::*;
use std::process::{Command, Stdio};

const ROOT_VARIABLE: &str = "DSH_TEST_UMASK_ROOT";

/// Runs `test` of this program again in a process of its own, under `umask`.
fn run_under_umask(umask: &str, test: &str, root: &Path) {
    let output = Command::new("sh")
        .args(["-c", "umask \"$1\" && shift && exec \"$@\"", "sh", umask])
        .arg(std::env::current_exe().expect("the test program"))
        .args(["--exact", "--ignored", "--nocapture", test])
        .env(ROOT_VARIABLE, root)
        .output()
        .expect("a shell");
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success() && text.contains("1 passed"), "umask {umask}: {text}");
}

fn mode(path: &Path) -> u32 {
    fs::symlink_metadata(path).expect("metadata").permissions().mode() & 0o7777
}

#[test]
#[ignore = "run by the test below, with a umask"]
fn creates_one_of_each() {
    let root = PathBuf::from(std::env::var_os(ROOT_VARIABLE).expect("the root"));
    let storage = OsStorage::new();
    let directory = root.join("directory");
    storage.create_directory(&directory).expect("directory");
    for (name, how) in
        [("new", OpenHow::CreateNew), ("owner", OpenHow::CreateOrTruncate), ("lock", OpenHow::Lock)]
    {
        storage.open(&directory.join(name), how).expect(name);
    }
}

#[test]
fn what_is_created_is_private_under_any_umask() {
    for umask in ["000", "022", "077", "777"] {
        let root = tempfile::tempdir().expect("directory");
        run_under_umask(umask, "storage::os::tests::creates_one_of_each", root.path());
        let directory = root.path().join("directory");
        assert_eq!(mode(&directory), 0o700, "umask {umask}");
        for name in ["new", "owner", "lock"] {
            assert_eq!(mode(&directory.join(name)), 0o600, "{name} under umask {umask}");
        }
    }
}

#[test]
fn a_file_that_exists_keeps_its_mode() {
    let root = tempfile::tempdir().expect("directory");
    let path = root.path().join("session.lock");
    fs::write(&path, b"").expect("file");
    fs::set_permissions(&path, Permissions::from_mode(0o664)).expect("mode");
    OsStorage.open(&path, OpenHow::Lock).expect("lock");
    OsStorage.open(&path, OpenHow::CreateOrTruncate).expect("owner");
    assert_eq!(mode(&path), 0o664);
}

#[test]
fn the_lock_is_flock_and_goes_with_the_file() {
    let root = tempfile::tempdir().expect("directory");
    let path = root.path().join("session.lock");
    let held = OsStorage.open(&path, OpenHow::Lock).expect("lock");
    assert!(held.try_lock().expect("flock"));
    assert_eq!(lock_kinds(held.metadata().expect("metadata").inode), ["FLOCK"]);
    let other = OsStorage.open(&path, OpenHow::Lock).expect("second descriptor");
    assert!(!other.try_lock().expect("flock"));
    drop(held);
    assert!(other.try_lock().expect("flock"));
    let inode = other.metadata().expect("metadata").inode;
    drop(other);
    assert!(lock_kinds(inode).is_empty());
}

/// The kinds of the locks that this process holds on `inode`, as the kernel lists them:
/// `1: FLOCK  ADVISORY  WRITE 4242 00:2f:99 0 EOF`.
fn lock_kinds(inode: u64) -> Vec<String> {
    let text = fs::read_to_string("/proc/locks").expect("/proc/locks");
    let process = std::process::id().to_string();
    text.lines()
        .map(|line| line.split_ascii_whitespace().collect::<Vec<_>>())
        .filter(|fields| {
            fields[4] == process && fields[5].rsplit(':').next() == Some(inode.to_string().as_str())
        })
        .map(|fields| fields[1].to_owned())
        .collect()
}

/// A locked file whose descriptor a living child has too, as after a fork; the child ends when its input does.
fn shared_with_a_child(path: &Path) -> (OsFile, std::process::Child) {
    let file = create_new(path).map(OsFile::new).expect("file");
    assert!(file.try_lock().expect("flock"));
    rustix::io::fcntl_setfd(&file.file, rustix::io::FdFlags::empty()).expect("inherited");
    let child = Command::new("cat").stdin(Stdio::piped()).stdout(Stdio::null()).spawn().expect("cat");
    (file, child)
}

fn end(mut child: std::process::Child) {
    drop(child.stdin.take());
    child.wait().expect("cat");
}

#[test]
fn a_living_child_does_not_keep_the_lock_that_its_parent_gives_up() {
    let root = tempfile::tempdir().expect("directory");
    let path = root.path().join("session.lock");
    let (file, child) = shared_with_a_child(&path);
    drop(file);
    assert!(OsStorage.open(&path, OpenHow::Lock).expect("lock").try_lock().expect("flock"));
    end(child);
}

#[test]
fn a_drop_in_another_process_leaves_the_lock_to_its_owner() {
    let root = tempfile::tempdir().expect("directory");
    let path = root.path().join("session.lock");
    let (file, child) = shared_with_a_child(&path);
    // The owner is somebody else: what a forked child sees.
    file.locked_by.store(std::process::id() + 1, Ordering::Relaxed);
    drop(file);
    let other = OsStorage.open(&path, OpenHow::Lock).expect("lock");
    assert!(!other.try_lock().expect("flock"));
    end(child);
    // Released by the last copy that closes: another test's child may hold one for a moment.
    while !other.try_lock().expect("flock") {
        std::thread::yield_now();
    }
}

#[test]
fn a_pipe_is_refused_at_once_however_it_is_opened() {
    let root = tempfile::tempdir().expect("directory");
    let path = root.path().join("pipe");
    assert!(Command::new("mkfifo").arg(&path).status().expect("mkfifo").success());
    for how in [OpenHow::Read, OpenHow::Append, OpenHow::CreateOrTruncate, OpenHow::Lock] {
        let error = OsStorage.open(&path, how).expect_err("refused");
        assert_eq!(error.kind(), ErrorKind::InvalidInput, "{how:?}");
    }
    let error = OsStorage.open(Path::new("/dev/null"), OpenHow::Read).expect_err("refused");
    assert_eq!(error.kind(), ErrorKind::InvalidInput);
    let entries = OsStorage.read_directory(root.path()).expect("entries");
    assert_eq!(entries, [DirectoryEntry { name: "pipe".into(), kind: FileKind::Other }]);
}

#[test]
fn this_process_is_alive_and_the_same_each_time() {
    let me = OsStorage.current_process().expect("this process");
    assert_eq!(me.id, std::process::id());
    assert!(!me.program.is_empty());
    assert_eq!(OsStorage.process(me.id).expect("process"), Some(me));
}

#[test]
fn a_child_began_at_another_time_and_is_dead_as_a_zombie_and_after() {
    let mut child = Command::new("cat").stdin(Stdio::piped()).stdout(Stdio::null()).spawn().expect("cat");
    let id = child.id();
    let alive = OsStorage.process(id).expect("process").expect("alive");
    assert_eq!(alive.id, id);
    assert_ne!(alive.began, "");
    // Its input closed, it ends; it stays a zombie until it is waited for.
    drop(child.stdin.take());
    while OsStorage.process(id).expect("process").is_some() {
        std::thread::yield_now();
    }
    assert!(Path::new(&format!("/proc/{id}")).exists(), "still there, as a zombie");
    child.wait().expect("cat");
    assert_eq!(OsStorage.process(id).expect("process"), None);
}

#[test]
fn numbers_that_are_no_process_are_not_alive() {
    assert_eq!(OsStorage.process(0).expect("process"), None);
    assert_eq!(OsStorage.process(u32::MAX).expect("process"), None);
}

#[test]
fn a_thread_is_not_a_process() {
    // A thread's number, as the kernel gives it, found through the thread's own listing.
    let id = std::thread::spawn(|| {
        let link = fs::read_link("/proc/thread-self").expect("this thread");
        let id =
            link.file_name().and_then(|name| name.to_str()).expect("a number").parse().expect("a number");
        assert!(Path::new(&format!("/proc/{id}/stat")).exists());
        assert_eq!(OsStorage.process(id).expect("process"), None);
        id
    })
    .join()
    .expect("thread");
    assert_ne!(id, std::process::id());
}

#[test]
fn randomness_fills_everything_it_is_given() {
    OsStorage.fill_random(&mut []).expect("nothing");
    // Longer than one call of the kernel gives at once (33,554,431 bytes are its limit; 256 its atomic size).
    let mut bytes = vec![0; 100_000];
    OsStorage.fill_random(&mut bytes).expect("randomness");
    assert!(bytes.chunks(1000).all(|chunk| chunk.iter().any(|&byte| byte != 0)));
}

#[test]
fn the_clock_is_later_than_the_format() {
    // 2025-01-01; the machine's clock is wrong in a way that no log survives if this fails.
    assert!(OsStorage.now_unix_ms() > 1_735_689_600_000);
}
