//! Who holds a lock, from `/proc/locks`.
//!
//! The kernel lists each lock with the process that took it and the device and inode of its file, so a lock can be seen without taking
//! it. What is not listed is not known to be free: a file system may name its device otherwise in the list than in `stat(2)` (subvolumes),
//! and a process of another container has no number here.

use crate::storage::FileMetadata;
use std::io::{self, ErrorKind};

/// The locks of this machine, as far as this process may see them.
const LOCKS_PATH: &str = "/proc/locks";

/// The process that took the exclusive flock(2) which is held on a file; `None` where none is listed.
pub(super) fn holder(file: &FileMetadata) -> io::Result<Option<u32>> {
    match std::fs::read(LOCKS_PATH) {
        Ok(text) => Ok(String::from_utf8_lossy(&text).lines().find_map(|line| Lock::parse(line)?.on(file))),
        Err(error) if error.kind() == ErrorKind::NotFound => {
            Err(io::Error::new(ErrorKind::Unsupported, format!("locks are not told: no {LOCKS_PATH}")))
        }
        Err(error) => Err(error),
    }
}

/// One exclusive flock(2) that is held.
#[derive(Debug, PartialEq, Eq)]
struct Lock {
    process: u32,
    major: u32,
    minor: u32,
    inode: u64,
}

impl Lock {
    /// `1: FLOCK  ADVISORY  WRITE 4242 fe:00:99 0 EOF`: the device in hexadecimal, the inode in decimal. Lines of other locks, of those
    /// who wait for one (`1: -> FLOCK …`) and of unknown forms are `None`.
    fn parse(line: &str) -> Option<Lock> {
        let mut fields = line.split_ascii_whitespace();
        let (_number, kind, _advice, access) =
            (fields.next()?, fields.next()?, fields.next()?, fields.next()?);
        if kind != "FLOCK" || access != "WRITE" {
            return None;
        }
        let process = fields.next()?.parse().ok()?;
        let mut place = fields.next()?.split(':');
        let mut device_part = || u32::from_str_radix(place.next()?, 16).ok();
        let (major, minor) = (device_part()?, device_part()?);
        let inode = place.next()?.parse().ok()?;
        place.next().is_none().then_some(Lock { process, major, minor, inode })
    }

    /// Its process, if it is a lock on this file.
    fn on(&self, file: &FileMetadata) -> Option<u32> {
        let is_here = self.inode == file.inode
            && self.major == rustix::fs::major(file.device)
            && self.minor == rustix::fs::minor(file.device);
        is_here.then_some(self.process)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_exclusive_flock_is_read_with_its_device_and_inode() {
        let lock = Lock { process: 4242, major: 0xfe, minor: 0x1a, inode: 10_010_805 };
        for line in [
            "1: FLOCK  ADVISORY  WRITE 4242 fe:1a:10010805 0 EOF",
            " 17:\tFLOCK MSNFS WRITE 4242 fe:1a:10010805 0 EOF what comes one day",
            "9999999999: FLOCK ADVISORY WRITE 4242 00fe:001A:10010805",
        ] {
            assert_eq!(Lock::parse(line).as_ref(), Some(&lock), "{line}");
        }
    }

    #[test]
    fn waiters_other_locks_and_unknown_lines_hold_nothing() {
        for line in [
            "1: -> FLOCK  ADVISORY  WRITE 4242 fe:00:99 0 EOF",
            "1:     -> FLOCK  ADVISORY  WRITE 4242 fe:00:99 0 EOF",
            "1: POSIX  ADVISORY  WRITE 4242 fe:00:99 0 EOF",
            "1: OFDLCK ADVISORY  WRITE -1 fe:00:99 0 EOF",
            "1: LEASE  ACTIVE    WRITE 4242 fe:00:99 0 EOF",
            "1: FLOCK  ADVISORY  READ  4242 fe:00:99 0 EOF",
            "1: FLOCK  ADVISORY  WRITE 4242 <none>:0 0 EOF",
            "1: FLOCK  ADVISORY  WRITE 4242 fe:00:99:1 0 EOF",
            "1: FLOCK  ADVISORY  WRITE 4242 fe:00 0 EOF",
            "1: FLOCK  ADVISORY  WRITE 4242",
            "1: FLOCK  ADVISORY  WRITE -1 fe:00:99 0 EOF",
            "1: FLOCK  ADVISORY  WRITE 99999999999 fe:00:99 0 EOF",
            "1: FLOCK  ADVISORY  WRITE 4242 fe:00:99999999999999999999 0 EOF",
            "1: FLOCK",
            "",
            "\u{fffd}",
        ] {
            assert_eq!(Lock::parse(line), None, "{line}");
        }
    }
}
