//! Real processes on real files: killed, stopped, fighting for one session, out of space.
//!
//! The other process is this very test binary, started again as [`child`]: it opens a session and does what its standard input says,
//! one command a line, one line of answer each. Where a machine does not let a test do what it needs (mounts), the test says so.

mod durability;

use dsh_session_core::event::Event;
use dsh_session_core::persistence::Notice;
use dsh_session_core::persistence::files::{FilePersistence, FileSettings};
use dsh_session_core::storage::simulation::{MemoryStorage, SplitMix64};
use dsh_session_core::storage::{OpenHow, OsStorage, ProcessIdentity, Storage};
use dsh_session_core::{
    Access, Code, Encoding, Error, EventDraft, ListMode, NewSession, Result, SessionLog, SessionPersistence,
    Store,
};
use durability::{go_on, header, note, note_of_length, read_all, read_log, setting};
use rustix::fs::{FlockOperation, fcntl_lock, flock};
use rustix::process::{Pid, Resource, Rlimit, Signal, kill_process, setrlimit};
use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Write as _};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{ChildStdin, ChildStdout, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

const ID: &str = "s";
const SALT: u64 = 1;
const EFBIG: i32 = 27;
const ENOSPC: i32 = 28;

/// Marks the lines of a child among those of the test harness.
const ANSWER: &str = "\u{1}";

/// The event that any writer of these tests puts at `seq`.
fn sent(seq: u64) -> Event {
    note(seq, SALT)
}

#[track_caller]
fn assert_is_what_was_sent(events: &[Event]) {
    for (event, seq) in events.iter().zip(0..) {
        assert_eq!(event.row(), sent(seq).row());
    }
}

fn files(root: &Path, encoding: Encoding) -> FilePersistence {
    let settings = FileSettings { encoding: Some(encoding), ..FileSettings::default() };
    FilePersistence::with_storage(root, Arc::new(OsStorage::new()), settings).unwrap()
}

fn answer(text: &str) {
    // `println!` would be captured and held back by the harness.
    let mut out = std::io::stdout().lock();
    let _ = writeln!(out, "{ANSWER}{text}").and_then(|()| out.flush());
}

fn told(error: &Error) -> String {
    format!("{} {} {}", error.code().name(), error.os().unwrap_or(0), error.owner().unwrap_or("nobody"))
}

/// The other process. Its session is created if it is not there.
#[test]
#[ignore = "the other process of the tests in this file"]
fn child() {
    let Ok(root) = std::env::var("DSH_CHILD_ROOT") else { return };
    if let Ok(kind) = std::env::var("DSH_CHILD_LOCKS") {
        hold_lock(&kind, root.as_ref());
        return;
    }
    let encoding = match std::env::var("DSH_CHILD_ENCODING").as_deref() {
        Ok("none") => Encoding::None,
        _ => Encoding::Zstd,
    };
    let backend = files(root.as_ref(), encoding);
    if std::env::var("DSH_CHILD_FIGHTS").is_ok() {
        fight(&backend);
        return;
    }
    let opened = match backend.open(ID, Access::Write, &go_on()) {
        Err(error) if error.code() == Code::SessionNotFound => backend.create(&header(ID), None, &go_on()),
        opened => opened,
    };
    match opened {
        Ok(log) => obey(&*log, &backend),
        Err(error) => answer(&told(&error)),
    }
}

/// Holds a lock on a file until the input ends, as a program that writes no note.
fn hold_lock(kind: &str, path: &Path) {
    let file = std::fs::OpenOptions::new().write(true).create(true).truncate(false).open(path).unwrap();
    match kind {
        "flock" => flock(&file, FlockOperation::NonBlockingLockExclusive).unwrap(),
        "shared flock" => flock(&file, FlockOperation::NonBlockingLockShared).unwrap(),
        "fcntl" => fcntl_lock(&file, FlockOperation::NonBlockingLockExclusive).unwrap(),
        other => panic!("`{other}` is no lock"),
    }
    answer("ready");
    assert_eq!(std::io::stdin().lines().count(), 0);
}

fn obey(log: &dyn SessionLog, backend: &FilePersistence) {
    answer("ready");
    let mut next = log.event_count(&go_on()).unwrap();
    for line in std::io::stdin().lock().lines().map_while(std::result::Result::ok) {
        let words: Vec<_> = line.split(' ').collect();
        let number = || words[1].parse::<u64>().unwrap();
        let outcome = match words[0] {
            "append" => append(log, &mut next, number(), 0),
            "long" => append(log, &mut next, 1, number()),
            "write" => write_until_killed(log, next),
            "limit" => {
                let size = backend.stat(ID, &go_on()).unwrap().unwrap().size_bytes.unwrap();
                limit_files(Some(size + number()));
                Ok(())
            }
            "unlimit" => {
                limit_files(None);
                Ok(())
            }
            "close" => log.close(),
            other => panic!("`{other}` is no command"),
        };
        match outcome {
            Ok(()) => answer(&format!("ok {next}")),
            Err(error) => answer(&told(&error)),
        }
    }
}

fn append(log: &dyn SessionLog, next: &mut u64, count: u64, length: u64) -> Result<()> {
    let batch: Vec<_> = (*next..*next + count)
        .map(|seq| if length == 0 { sent(seq) } else { note_of_length(seq, SALT, length as usize) })
        .collect();
    log.append(&batch, &go_on())?;
    log.flush(&go_on())?;
    *next += count;
    Ok(())
}

fn write_until_killed(log: &dyn SessionLog, mut next: u64) -> Result<()> {
    let mut random = SplitMix64::new(next);
    loop {
        append(log, &mut next, 1 + random.below(5), 0)?;
        answer(&format!("acknowledged {next}"));
    }
}

fn limit_files(bytes: Option<u64>) {
    setrlimit(Resource::Fsize, Rlimit { current: bytes, maximum: None }).unwrap();
}

/// Opens the session, appends one event and closes it, as often as it is told; others do the same.
fn fight(backend: &FilePersistence) {
    let number: u64 = std::env::var("DSH_CHILD_FIGHTS").unwrap().parse().unwrap();
    let rounds: u64 = std::env::var("DSH_CHILD_ROUNDS").unwrap().parse().unwrap();
    let (mut won, mut refused) = (0, 0);
    while won < rounds {
        match backend.open(ID, Access::Write, &go_on()) {
            Ok(log) => {
                let seq = log.event_count(&go_on()).unwrap();
                log.append(&[note(seq, number)], &go_on()).unwrap();
                log.close().unwrap();
                won += 1;
            }
            Err(error) => {
                assert_eq!(error.code(), Code::SessionAlreadyOwned, "{error}");
                refused += 1;
                std::thread::yield_now();
            }
        }
    }
    answer(&format!("won {won} refused {refused}"));
}

/// A child and its pipes.
struct Child {
    process: std::process::Child,
    input: Option<ChildStdin>,
    output: BufReader<ChildStdout>,
}

impl Child {
    fn command(root: &Path, encoding: Encoding) -> Command {
        Child::wrapped(Command::new(std::env::current_exe().unwrap()), root, encoding)
    }

    /// Through a shell that sets something up first.
    fn in_shell(setup: &str, root: &Path, encoding: Encoding) -> Command {
        let mut command = Command::new("sh");
        command.args(["-c", &format!("{setup}; exec \"$0\" \"$@\"")]).arg(std::env::current_exe().unwrap());
        Child::wrapped(command, root, encoding)
    }

    fn wrapped(mut command: Command, root: &Path, encoding: Encoding) -> Command {
        command.args(["--exact", "child", "--ignored", "--nocapture", "--test-threads=1"]);
        command.env("DSH_CHILD_ROOT", root).env("DSH_CHILD_ENCODING", encoding.as_str());
        command.stdin(Stdio::piped()).stdout(Stdio::piped());
        command
    }

    fn start(mut command: Command) -> Child {
        let mut process = command.spawn().unwrap();
        let input = process.stdin.take();
        let output = BufReader::new(process.stdout.take().unwrap());
        Child { process, input, output }
    }

    /// A child that has the session open for writing.
    fn writer(root: &Path, encoding: Encoding) -> Child {
        Child::ready(Child::command(root, encoding))
    }

    fn ready(command: Command) -> Child {
        let mut child = Child::start(command);
        assert_eq!(child.answer().as_deref(), Some("ready"));
        child
    }

    /// A child that holds a lock of some kind on a file.
    fn holder(kind: &str, path: &Path) -> Child {
        let mut command = Child::command(path, Encoding::Zstd);
        command.env("DSH_CHILD_LOCKS", kind);
        Child::ready(command)
    }

    fn id(&self) -> Pid {
        Pid::from_child(&self.process)
    }

    /// The next answer; `None` once the child is gone.
    fn answer(&mut self) -> Option<String> {
        loop {
            let mut line = String::new();
            if self.output.read_line(&mut line).unwrap_or(0) == 0 || !line.ends_with('\n') {
                return None;
            }
            if let Some((_, text)) = line.trim_end().split_once(ANSWER) {
                return Some(text.to_owned());
            }
        }
    }

    fn send(&mut self, command: &str) {
        writeln!(self.input.as_mut().unwrap(), "{command}").unwrap();
    }

    fn ask(&mut self, command: &str) -> String {
        self.send(command);
        self.answer().unwrap_or_else(|| panic!("the child died of `{command}`"))
    }

    fn signal(&self, signal: Signal) {
        kill_process(self.id(), signal).unwrap();
    }

    fn kill(mut self) -> Vec<String> {
        self.signal(Signal::KILL);
        self.process.wait().unwrap();
        std::iter::from_fn(|| self.answer()).collect()
    }

    /// Lets it come to its end by itself.
    fn end(mut self) {
        self.input = None;
        assert!(self.process.wait().unwrap().success());
    }
}

impl Drop for Child {
    fn drop(&mut self) {
        // A test that failed leaves nobody behind.
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

fn folder() -> (tempfile::TempDir, PathBuf) {
    let folder = tempfile::tempdir().unwrap();
    let root = folder.path().join("sessions");
    (folder, root)
}

fn log_path(root: &Path) -> PathBuf {
    files(root, Encoding::Zstd).stat(ID, &go_on()).unwrap().unwrap().path.unwrap()
}

fn directory(root: &Path) -> PathBuf {
    log_path(root).parent().unwrap().to_owned()
}

/// Runs a program that may not be allowed here; tells whether it did.
fn may(program: &str, arguments: &[&str]) -> bool {
    let status = Command::new(program).args(arguments).stderr(Stdio::null()).status();
    status.is_ok_and(|status| status.success())
}

/// Something mounted for a test that must not outlive it.
struct Mounted(PathBuf);

impl Drop for Mounted {
    fn drop(&mut self) {
        // Lazily: a test that failed may still have files open there.
        may("umount", &["--lazy", self.0.to_str().unwrap()]);
    }
}

/// What a kill loop has seen.
#[derive(Default)]
struct Killed {
    rounds: u64,
    torn: u64,
    unacknowledged: u64,
    acknowledged: u64,
    reads: u64,
}

/// Reads a log again and again while another process writes it, until that one is gone; gives how often.
fn watch(root: &Path, encoding: Encoding, is_over: &AtomicBool) -> u64 {
    let backend = files(root, encoding);
    let (mut reads, mut seen) = (0, 0);
    while !is_over.load(Ordering::Acquire) {
        match backend.open(ID, Access::Read, &go_on()).and_then(|log| read_log(&*log)) {
            Err(error) if error.code() == Code::SessionNotFound && seen == 0 => std::thread::yield_now(),
            read => {
                let events = read.unwrap();
                assert_is_what_was_sent(&events);
                assert!(events.len() >= seen, "{} after {seen}", events.len());
                seen = events.len();
                reads += 1;
            }
        }
    }
    reads
}

/// Starts a writer with a reader beside it, kills it after 1 to 50 ms, opens the log and continues it.
fn kill_once(root: &Path, encoding: Encoding, random: &mut SplitMix64, killed: &mut Killed) {
    let backend = files(root, encoding);
    let mut child = Child::writer(root, encoding);
    let is_over = AtomicBool::new(false);
    let answers = std::thread::scope(|scope| {
        let reader = scope.spawn(|| watch(root, encoding, &is_over));
        child.send("write");
        std::thread::sleep(Duration::from_micros(1000 + random.below(49_000)));
        let answers = child.kill();
        is_over.store(true, Ordering::Release);
        killed.reads += reader.join().unwrap();
        answers
    });
    killed.rounds += 1;
    let last = answers.iter().filter_map(|line| line.strip_prefix("acknowledged ")).next_back();
    let acknowledged: u64 = last.map_or(0, |count| count.parse().unwrap());
    killed.acknowledged += answers.len() as u64;
    let log = match backend.open(ID, Access::Write, &go_on()) {
        Err(error) if error.code() == Code::SessionNotFound && acknowledged == 0 => return,
        opened => opened.unwrap(),
    };
    let notices = log.notices();
    let tails = notices.iter().filter(|notice| matches!(notice, Notice::TornTail { .. })).count();
    assert!(tails <= 1 && notices.len() == tails, "{notices:?}");
    killed.torn += tails as u64;
    let found = read_log(&*log).unwrap();
    assert!(found.len() as u64 >= acknowledged, "{} of {acknowledged}", found.len());
    assert_is_what_was_sent(&found);
    killed.unacknowledged += u64::from(acknowledged > 0 && found.len() as u64 > acknowledged);
    log.append(&[sent(found.len() as u64)], &go_on()).unwrap();
    log.close().unwrap();
}

#[test]
fn a_writer_killed_at_any_moment_loses_nothing_acknowledged() {
    /// Then a new log is begun, so that a round does not cost more and more.
    const ROUNDS_OF_A_LOG: u64 = 50;
    let rounds = setting("DSH_KILL_ROUNDS", 200);
    let seed = setting("DSH_SEED", 1);
    println!("DSH_SEED={seed}");
    let mut random = SplitMix64::new(seed);
    let mut killed = Killed::default();
    while killed.rounds < rounds {
        let (_folder, root) = folder();
        let encoding =
            if (killed.rounds / ROUNDS_OF_A_LOG).is_multiple_of(2) { Encoding::None } else { Encoding::Zstd };
        for _ in 0..ROUNDS_OF_A_LOG.min(rounds - killed.rounds) {
            kill_once(&root, encoding, &mut random, &mut killed);
        }
        assert_is_what_was_sent(&read_all(&files(&root, encoding), ID).unwrap());
    }
    let Killed { rounds, torn, unacknowledged, acknowledged, reads } = killed;
    println!(
        "kill loop: {rounds} writers killed, {acknowledged} appends acknowledged, {torn} torn tails, {unacknowledged} ends that were not \
         acknowledged, {reads} reads beside them"
    );
}

#[test]
fn eight_processes_that_fight_for_a_session_take_turns() {
    const FIGHTERS: u64 = 8;
    let rounds = setting("DSH_FIGHT_ROUNDS", 300).div_ceil(FIGHTERS);
    let (_folder, root) = folder();
    let backend = files(&root, Encoding::Zstd);
    backend.create(&header(ID), None, &go_on()).unwrap().flush(&go_on()).unwrap();
    let start = |number: u64| {
        let mut command = Child::command(&root, Encoding::Zstd);
        command.env("DSH_CHILD_FIGHTS", number.to_string()).env("DSH_CHILD_ROUNDS", rounds.to_string());
        Child::start(command)
    };
    let mut children: Vec<_> = (0..FIGHTERS).map(start).collect();
    let answers: Vec<_> = children.iter_mut().map(Child::answer).collect();
    let refused: u64 = answers
        .iter()
        .map(|answer| {
            answer.as_ref().and_then(|text| text.split(' ').next_back()?.parse::<u64>().ok()).unwrap()
        })
        .sum();
    children.into_iter().for_each(Child::end);
    let events = read_all(&backend, ID).unwrap();
    let mut won: BTreeMap<i64, u64> = BTreeMap::new();
    for (event, seq) in events.iter().zip(0..) {
        assert_eq!(event.row(), note(seq, event.time() as u64).row());
        *won.entry(event.time()).or_default() += 1;
    }
    assert!(won.len() as u64 == FIGHTERS && won.values().all(|count| *count == rounds), "{won:?}");
    println!("fight: {} turns of {FIGHTERS} processes, {refused} refusals", events.len());
}

#[test]
fn a_second_writer_is_refused_by_name_on_every_way_to_the_folder() {
    let (folder, root) = folder();
    let mut owner = Child::writer(&root, Encoding::Zstd);
    assert_eq!(owner.ask("append 3"), "ok 3");
    let link = folder.path().join("link");
    std::os::unix::fs::symlink(&root, &link).unwrap();
    let mut roots = vec![root.clone(), link, root.join("../sessions")];
    let mounted = folder.path().join("mounted");
    std::fs::create_dir(&mounted).unwrap();
    let is_mounted = may("mount", &["--bind", root.to_str().unwrap(), mounted.to_str().unwrap()]);
    let _mounted = is_mounted.then(|| Mounted(mounted.clone()));
    if is_mounted {
        roots.push(mounted.clone());
    } else {
        println!("this machine allows no bind mount: the second mount of the folder was not tried");
    }
    let name = format!("process {} ", owner.process.id());
    for way in &roots {
        let backend = files(way, Encoding::Zstd);
        let error = backend.open(ID, Access::Write, &go_on()).unwrap_err();
        assert_eq!(error.code(), Code::SessionAlreadyOwned);
        assert!(error.owner().unwrap_or("nobody").starts_with(&name), "{error}");
        assert_is_what_was_sent(&read_all(&backend, ID).unwrap());
    }
    let mut command = Child::command(Path::new("sessions"), Encoding::Zstd);
    command.current_dir(folder.path());
    let refused = Child::start(command).answer().unwrap();
    assert!(refused.starts_with("SESSION_ALREADY_OWNED") && refused.contains(&name), "{refused}");
    let reader = files(&root, Encoding::Zstd).open(ID, Access::Read, &go_on()).unwrap();
    assert_eq!(reader.event_count(&go_on()).unwrap(), 3);
    assert_eq!(owner.ask("append 2"), "ok 5");
    assert_eq!(reader.event_count(&go_on()).unwrap(), 5);
    assert_eq!(owner.ask("close"), "ok 5");
    for way in &roots {
        let log = files(way, Encoding::Zstd).open(ID, Access::Write, &go_on()).unwrap();
        assert_is_what_was_sent(&read_log(&*log).unwrap());
        log.close().unwrap();
    }
    owner.end();
}

#[test]
fn a_dead_owner_holds_nothing_whatever_its_note_says() {
    let (_folder, root) = folder();
    let mut owner = Child::writer(&root, Encoding::Zstd);
    assert_eq!(owner.ask("append 2"), "ok 2");
    let backend = files(&root, Encoding::Zstd);
    owner.kill();
    let note = directory(&root).join("session.owner");
    assert!(note.exists(), "a killed process takes nothing away");
    backend.open(ID, Access::Write, &go_on()).unwrap().close().unwrap();
    // The number of a live, unrelated process, with the time at which another one began.
    let unrelated = Command::new("sleep").arg("600").spawn().unwrap();
    let text = format!(r#"{{"pid":{},"began":"long ago","program":"sleep"}}"#, unrelated.id());
    std::fs::write(&note, text.clone()).unwrap();
    backend.open(ID, Access::Write, &go_on()).unwrap().close().unwrap();
    // And a live owner is not taken for that process, nor displaced.
    let mut owner = Child::writer(&root, Encoding::Zstd);
    std::fs::write(&note, text).unwrap();
    let error = backend.open(ID, Access::Write, &go_on()).unwrap_err();
    assert_eq!((error.code(), error.owner()), (Code::SessionAlreadyOwned, None));
    assert_eq!(owner.ask("append 1"), "ok 3");
    let mut unrelated = unrelated;
    unrelated.kill().unwrap();
    unrelated.wait().unwrap();
}

#[test]
fn a_writer_of_another_program_is_known_by_its_lock_and_nobody_by_another_one() {
    let (_folder, root) = folder();
    let backend = files(&root, Encoding::Zstd);
    let log = backend.create(&header(ID), None, &go_on()).unwrap();
    log.append(&[sent(0)], &go_on()).unwrap();
    log.close().unwrap();
    let directory = directory(&root);
    let lock = directory.join("session.lock");
    assert_eq!(backend.writer_of(ID).unwrap(), None);
    for (kind, path) in [
        ("fcntl", lock.clone()),
        ("shared flock", lock.clone()),
        ("flock", log_path(&root)),
        ("flock", root.join("session.lock")),
    ] {
        let holder = Child::holder(kind, &path);
        assert_eq!(backend.writer_of(ID).unwrap(), None, "{kind} on {}", path.display());
        holder.end();
    }
    for note in [None, Some(r#"{"pid":1,"began":"long ago","program":"init"}"#), Some("{")] {
        if let Some(note) = note {
            std::fs::write(directory.join("session.owner"), note).unwrap();
        }
        let holder = Child::holder("flock", &lock);
        let writer = backend.writer_of(ID).unwrap().expect("the holder of the lock");
        let expected = format!("process {} (", holder.process.id());
        assert!(writer.starts_with(&expected), "{writer} instead of {expected}");
        // It was looked at, not touched.
        let error = backend.open(ID, Access::Write, &go_on()).unwrap_err();
        assert_eq!((error.code(), error.owner()), (Code::SessionAlreadyOwned, None));
        holder.kill();
        assert_eq!(backend.writer_of(ID).unwrap(), None);
    }
    std::fs::remove_file(&lock).unwrap();
    assert_eq!(backend.writer_of(ID).unwrap(), None);
}

#[test]
fn the_holder_of_a_simulated_lock_is_known_where_the_system_tells_it() {
    let memory = MemoryStorage::new(1);
    let storage: Arc<dyn Storage> = Arc::new(memory.clone());
    let backend =
        FilePersistence::with_storage("/sessions", Arc::clone(&storage), FileSettings::default()).unwrap();
    let log = backend.create(&header(ID), None, &go_on()).unwrap();
    log.append(&[sent(0)], &go_on()).unwrap();
    log.close().unwrap();
    let path = backend.stat(ID, &go_on()).unwrap().unwrap().path.unwrap().with_file_name("session.lock");
    let here = memory.current_process().unwrap();
    let other = ProcessIdentity { id: here.id + 1, began: "then".to_owned(), program: "other".to_owned() };
    memory.set_current_process(other.clone());
    let file = memory.open(&path, OpenHow::Lock).unwrap();
    assert!(file.try_lock().unwrap());
    memory.set_current_process(here);
    let told = || backend.writer_of(ID).unwrap();
    assert_eq!(told(), Some(format!("process {} (other)", other.id)));
    memory.set_hides_locks(true);
    assert_eq!(told(), None);
    memory.set_hides_locks(false);
    assert!(told().is_some());
    memory.end_process(other.id);
    assert_eq!(told(), None);
}

#[test]
fn a_lock_whose_taker_left_it_to_another_process_is_held() {
    let (_folder, root) = folder();
    let backend = files(&root, Encoding::Zstd);
    let log = backend.create(&header(ID), None, &go_on()).unwrap();
    log.append(&[sent(0)], &go_on()).unwrap();
    log.close().unwrap();
    if !may("flock", &["--version"]) {
        eprintln!("skipped: there is no flock(1)");
        return;
    }
    // What scripts do: flock(1) takes the lock on a descriptor of the shell and ends; the shell goes on.
    let script = r#"exec 9>"$0"; flock -n 9 || exit 1; echo ready; read -r _; exit 0"#;
    let mut shell = Command::new("sh")
        .args(["-c", script])
        .arg(directory(&root).join("session.lock"))
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut line = String::new();
    BufReader::new(shell.stdout.take().unwrap()).read_line(&mut line).unwrap();
    assert_eq!(line, "ready\n");
    assert!(backend.writer_of(ID).unwrap().is_some());
    drop(shell.stdin.take());
    shell.wait().unwrap();
    assert_eq!(backend.writer_of(ID).unwrap(), None);
}

#[test]
fn a_writer_that_slept_while_another_took_over_writes_nothing() {
    for encoding in [Encoding::None, Encoding::Zstd] {
        let (_folder, root) = folder();
        let mut sleeper = Child::writer(&root, encoding);
        assert_eq!(sleeper.ask("append 2"), "ok 2");
        sleeper.signal(Signal::STOP);
        let directory = directory(&root);
        std::fs::remove_file(directory.join("session.lock")).unwrap();
        let backend = files(&root, encoding);
        let log = backend.open(ID, Access::Write, &go_on()).unwrap();
        log.append(&(2..5).map(sent).collect::<Vec<_>>(), &go_on()).unwrap();
        sleeper.signal(Signal::CONT);
        assert!(sleeper.ask("append 1").starts_with("SESSION_OWNERSHIP_LOST"));
        assert!(sleeper.ask("append 1").starts_with("SESSION_OWNERSHIP_LOST"));
        sleeper.ask("close");
        assert!(directory.join("session.owner").exists(), "the note is that of the new owner");
        log.append(&[sent(5)], &go_on()).unwrap();
        let events = read_all(&backend, ID).unwrap();
        assert_eq!(events.len(), 6);
        assert_is_what_was_sent(&events);
        sleeper.end();
    }
}

#[test]
fn readers_of_a_log_that_another_process_writes_see_a_growing_prefix() {
    for encoding in [Encoding::None, Encoding::Zstd] {
        let (_folder, root) = folder();
        let mut writer = Child::writer(&root, encoding);
        assert_eq!(writer.ask("append 1"), "ok 1");
        let backend = files(&root, encoding);
        writer.send("write");
        std::thread::scope(|scope| {
            for _ in 0..3 {
                scope.spawn(|| {
                    let reader = backend.open(ID, Access::Read, &go_on()).unwrap();
                    let mut seen = 0;
                    for _ in 0..150 {
                        let events = read_log(&*reader).unwrap();
                        assert_is_what_was_sent(&events);
                        assert!(events.len() >= seen);
                        seen = events.len();
                        assert!(reader.event_count(&go_on()).unwrap() >= seen as u64);
                    }
                });
            }
        });
        let answers = writer.kill();
        assert!(answers.iter().all(|answer| answer.starts_with("acknowledged")), "{answers:?}");
    }
}

#[test]
fn an_append_beyond_the_file_size_limit_is_taken_back_and_the_handle_goes_on() {
    for encoding in [Encoding::None, Encoding::Zstd] {
        let (_folder, root) = folder();
        let mut writer = Child::ready(Child::in_shell("trap '' XFSZ", &root, encoding));
        assert_eq!(writer.ask("append 3"), "ok 3");
        let size = || files(&root, encoding).stat(ID, &go_on()).unwrap().unwrap().size_bytes.unwrap();
        let before = size();
        writer.ask("limit 100");
        assert!(writer.ask("long 5000").starts_with(&format!("IO {EFBIG} ")));
        assert_eq!(size(), before);
        assert!(writer.ask("long 9000").starts_with(&format!("IO {EFBIG} ")));
        writer.ask("unlimit");
        assert_eq!(writer.ask("append 2"), "ok 5");
        let events = read_all(&files(&root, encoding), ID).unwrap();
        assert_eq!(events.len(), 5);
        assert_is_what_was_sent(&events);
        writer.end();
    }
}

#[test]
fn a_full_file_system_is_told_at_once_and_the_handle_goes_on_when_there_is_room() {
    let (folder, _) = folder();
    let mount = folder.path().join("full");
    std::fs::create_dir(&mount).unwrap();
    if !may("mount", &["-t", "tmpfs", "-o", "size=1m", "none", mount.to_str().unwrap()]) {
        println!("this machine allows no mount: the full disk is left to the simulated one");
        return;
    }
    let _mounted = Mounted(mount.clone());
    let root = mount.join("sessions");
    std::fs::write(mount.join("filler"), [7; 100_000]).unwrap();
    let backend = files(&root, Encoding::Zstd);
    let log = backend.create(&header(ID), None, &go_on()).unwrap();
    let mut all = Vec::new();
    let next = |all: &Vec<Event>| note_of_length(all.len() as u64, SALT, 8192);
    let size = || backend.stat(ID, &go_on()).unwrap().and_then(|stat| stat.size_bytes);
    let error = loop {
        let event = next(&all);
        let before = size();
        match log.append(std::slice::from_ref(&event), &go_on()) {
            Ok(()) => all.push(event),
            Err(error) => {
                assert_eq!(size(), before, "the log has its old length");
                break error;
            }
        }
    };
    assert_eq!((error.code(), error.os()), (Code::Io, Some(ENOSPC)));
    std::fs::remove_file(mount.join("filler")).unwrap();
    let event = next(&all);
    log.append(std::slice::from_ref(&event), &go_on()).unwrap();
    all.push(event);
    log.close().unwrap();
    assert_eq!(read_all(&backend, ID).unwrap(), all);
}

/// Every path below a folder with its permission bits.
fn modes(folder: &Path) -> Vec<(PathBuf, bool, u32)> {
    let mut found = Vec::new();
    let mut folders = vec![folder.to_owned()];
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(&folder).unwrap().map(std::result::Result::unwrap) {
            let metadata = entry.metadata().unwrap();
            if metadata.is_dir() {
                folders.push(entry.path());
            }
            found.push((entry.path(), metadata.is_dir(), metadata.permissions().mode() & 0o7777));
        }
    }
    found
}

#[test]
fn files_and_folders_are_private_under_every_umask() {
    for umask in ["000", "022", "077", "0777"] {
        let (folder, _) = folder();
        let root = folder.path().join("above/sessions");
        let mut writer = Child::ready(Child::in_shell(&format!("umask {umask}"), &root, Encoding::Zstd));
        assert_eq!(writer.ask("append 3"), "ok 3");
        writer.kill();
        // A torn tail with a row in it, so that one is saved.
        let log = log_path(&root);
        let mut bytes = std::fs::read(&log).unwrap();
        let mut frame = zstd_frame(format!("{}\n{{\"half\":", note(9, 1).row()).as_bytes());
        frame.truncate(frame.len() - 4);
        bytes.extend(frame);
        std::fs::write(&log, bytes).unwrap();
        let mut writer = Child::ready(Child::in_shell(&format!("umask {umask}"), &root, Encoding::Zstd));
        assert_eq!(writer.ask("append 1"), "ok 4");
        let found = modes(folder.path());
        let names: Vec<_> =
            found.iter().map(|(path, ..)| path.file_name().unwrap().to_string_lossy()).collect();
        for name in ["session.lock", "session.owner", "session.v4.jsonl.zstd"] {
            assert!(names.contains(&name.into()), "{names:?}");
        }
        assert!(names.iter().any(|name| name.starts_with("session.cut-")), "{names:?}");
        for (path, is_directory, mode) in &found {
            let private = if *is_directory { 0o700 } else { 0o600 };
            assert_eq!(*mode, private, "umask {umask}: {} has {mode:o}", path.display());
        }
        writer.end();
    }
}

fn zstd_frame(text: &[u8]) -> Vec<u8> {
    let mut frame = Vec::new();
    dsh_session_core::format::frames::FrameEncoder::new().encode(text, &mut frame).unwrap();
    frame
}

#[test]
fn a_writer_that_is_told_to_end_leaves_what_it_acknowledged() {
    for encoding in [Encoding::None, Encoding::Zstd] {
        let (_folder, root) = folder();
        let mut writer = Child::writer(&root, encoding);
        assert_eq!(writer.ask("append 4"), "ok 4");
        writer.send("write");
        assert!(writer.answer().unwrap().starts_with("acknowledged"));
        writer.signal(Signal::TERM);
        let answers: Vec<_> = std::iter::from_fn(|| writer.answer()).collect();
        let last = answers.iter().filter_map(|line| line.strip_prefix("acknowledged ")).next_back();
        let acknowledged: usize = last.map_or(5, |count| count.parse().unwrap());
        writer.process.wait().unwrap();
        let log = files(&root, encoding).open(ID, Access::Write, &go_on()).unwrap();
        let events = read_log(&*log).unwrap();
        assert!(events.len() >= acknowledged);
        assert_is_what_was_sent(&events);
    }
}

#[test]
fn a_clock_that_goes_back_changes_no_id_no_order_and_no_list() {
    const TWO_HOURS_MS: i64 = 2 * 3600 * 1000;
    let storage = MemoryStorage::new(5);
    storage.create_directory("/data".as_ref()).unwrap();
    storage.set_clock_ms(1_760_000_000_000);
    let store = Store::builder("/data/sessions").storage(Arc::new(storage.clone())).open().unwrap();
    let draft = || EventDraft::new("plugin:proof/note", "{}").unwrap();
    let mut ids = Vec::new();
    for _ in 0..4 {
        let session = store.create(NewSession::new()).unwrap();
        session.append(draft()).unwrap();
        storage.advance_clock_ms(-TWO_HOURS_MS);
        session.append(draft()).unwrap();
        session.flush().unwrap();
        session.append(draft()).unwrap();
        session.close().unwrap();
        let events: Vec<_> = store
            .events(session.id(), dsh_session_core::EventRange::ALL)
            .unwrap()
            .map(std::result::Result::unwrap)
            .collect();
        assert_eq!(events.iter().map(Event::seq).collect::<Vec<_>>(), [0, 1, 2]);
        assert_eq!(events[1].time(), events[0].time() - TWO_HOURS_MS);
        ids.push(session.id().to_owned());
    }
    let listing = store.list(ListMode::Strict).unwrap();
    let mut listed: Vec<_> = listing.sessions.iter().map(|one| one.header.id.clone()).collect();
    listed.sort();
    ids.sort();
    ids.dedup();
    assert_eq!(ids.len(), 4);
    assert_eq!(listed, ids);
}
