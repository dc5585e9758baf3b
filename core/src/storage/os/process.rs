//! Processes of this machine, from `/proc`.
//!
//! A process number alone names nobody: numbers are used again, within minutes on a busy machine. Number and
//! start time do, within one start of the machine; the boot id tells the starts apart. Platforms without `/proc`
//! get a clear refusal, and the owner of a lock is then reported without a name (`design.md` 5, *Lock*).

use super::ProcessIdentity;
use rustix::io::Errno;
use std::io::{self, ErrorKind};

/// Changes with each start of the machine.
const BOOT_ID_PATH: &str = "/proc/sys/kernel/random/boot_id";

/// The process `id`, `None` if none is alive.
pub(super) fn process(id: u32) -> io::Result<Option<ProcessIdentity>> {
    let boot_id = std::fs::read_to_string(BOOT_ID_PATH).map_err(|error| {
        if error.kind() == ErrorKind::NotFound {
            io::Error::new(
                ErrorKind::Unsupported,
                format!("processes cannot be told apart: no {BOOT_ID_PATH}"),
            )
        } else {
            error
        }
    })?;
    let Some(stat) = read_while_alive(&format!("/proc/{id}/stat"))? else { return Ok(None) };
    let Some(status) = read_while_alive(&format!("/proc/{id}/status"))? else { return Ok(None) };
    let stat = Stat::parse(&stat).ok_or_else(|| unreadable(id, "stat"))?;
    // Threads are found under /proc by their number too, though they are not listed.
    if !stat.is_alive() || group_leader(&status).is_none_or(|leader| leader != id) {
        return Ok(None);
    }
    Ok(Some(ProcessIdentity {
        id,
        began: format!("{}:{}", boot_id.trim_end(), stat.start_ticks),
        program: String::from_utf8_lossy(stat.program).into_owned(),
    }))
}

/// The content of a file of a process, `None` once the process is gone: absent, or (ESRCH) gone since the open.
fn read_while_alive(path: &str) -> io::Result<Option<Vec<u8>>> {
    match std::fs::read(path) {
        Ok(content) => Ok(Some(content)),
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
        Err(error) if error.raw_os_error() == Some(Errno::SRCH.raw_os_error()) => Ok(None),
        Err(error) => Err(error),
    }
}

fn unreadable(id: u32, file: &str) -> io::Error {
    io::Error::new(ErrorKind::InvalidData, format!("/proc/{id}/{file} has an unknown form"))
}

/// The fields of `/proc/<pid>/stat` that matter here.
#[derive(Debug, PartialEq, Eq)]
struct Stat<'a> {
    program: &'a [u8],
    state: u8,
    threads: u64,
    start_ticks: u64,
}

impl<'a> Stat<'a> {
    /// `pid (program) state …`. The program's name may hold anything, parentheses and newlines included, so it
    /// ends at the *last* closing parenthesis: only numbers and one letter come after it.
    fn parse(text: &'a [u8]) -> Option<Stat<'a>> {
        let begin = memchr::memchr(b'(', text)? + 1;
        let end = memchr::memrchr(b')', text)?;
        let program = text.get(begin..end)?;
        let mut fields = std::str::from_utf8(text.get(end + 1..)?).ok()?.split_ascii_whitespace();
        // The state is field 3 of proc_pid_stat(5); num_threads is 20, starttime 22.
        let state = *fields.next()?.as_bytes().first()?;
        let threads = fields.nth(20 - 4)?.parse().ok()?;
        let start_ticks = fields.nth(22 - 21)?.parse().ok()?;
        Some(Stat { program, state, threads, start_ticks })
    }

    /// A zombie has closed its files and so released its locks: dead, though its parent has not asked yet. Unless
    /// only its first thread ended: the others go on, and hold what the process holds.
    fn is_alive(&self) -> bool {
        match self.state {
            b'X' | b'x' => false,
            b'Z' => self.threads > 1,
            _ => true,
        }
    }
}

/// The number of the process that a thread belongs to, from `/proc/<id>/status`.
fn group_leader(status: &[u8]) -> Option<u32> {
    let line = status.split(|&byte| byte == b'\n').find_map(|line| line.strip_prefix(b"Tgid:"))?;
    std::str::from_utf8(line).ok()?.trim().parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    const TAIL: &str =
        "1 7 7 0 -1 4194304 100 0 0 0 5 6 0 0 20 0 3 0 987654 1000 200 18446744073709551615 1 1 0";

    #[test]
    fn the_start_time_is_found_behind_any_program_name() {
        for name in ["sh", "a b", "a) S 1 (b", ")", "((((", "", "x\n9 (y) Z"] {
            let text = format!("42 ({name}) S {TAIL}\n");
            let stat = Stat::parse(text.as_bytes()).expect(name);
            assert_eq!(
                stat,
                Stat { program: name.as_bytes(), state: b'S', threads: 3, start_ticks: 987_654 }
            );
        }
    }

    #[test]
    fn a_cut_stat_is_refused_not_misread() {
        let text = format!("42 (sh) S {TAIL}");
        let complete = text.find("987654").expect("the field") + 1;
        for end in 0..complete - 1 {
            assert_eq!(Stat::parse(&text.as_bytes()[..end]), None, "{end} bytes");
        }
    }

    #[test]
    fn a_zombie_is_dead_unless_other_threads_go_on() {
        let with = |state, threads| Stat { program: b"", state, threads, start_ticks: 0 }.is_alive();
        assert!(with(b'S', 1) && with(b'R', 9) && with(b'D', 1) && with(b'T', 1) && with(b'Z', 2));
        assert!(!with(b'Z', 1) && !with(b'Z', 0) && !with(b'X', 1) && !with(b'x', 1));
    }
}
