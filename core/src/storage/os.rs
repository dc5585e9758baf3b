//! The operating system's files, locks, clock and randomness (Unix; tested on Linux).
//!
//! Almost everything here is one system call. What is added to it:
//!
//! - *Modes*: what this room creates is 0600 (files) or 0700 (directories) whatever the umask (`format.md` 9.1).
//!   The mode given to `open` can only lose bits to the umask, so it is never wider than wanted at any moment;
//!   what the umask took is given back afterwards. Files that already exist keep the mode they have.
//! - *Only regular files*: a pipe or a device under the name of a log must neither hang the caller nor be
//!   written. Opening does not wait (`O_NONBLOCK`, without effect on regular files), looks, and refuses.
//! - *Links*: a name that this room creates, locks or empties is never reached through a symbolic link.
//! - *Interrupted calls* are repeated: a signal of the host must not look like a failure of the disk.
//!
//! Descriptors are close-on-exec, so a program started by the host holds no lock. A child that forks shares the
//! open file and with it the lock. Dropping a file therefore unlocks it explicitly in the process that took the
//! lock (or a living child would keep the session from being opened again), and only closes it in any other (or
//! the child would release what its parent relies on).

#[cfg(any(target_os = "linux", target_os = "android"))]
mod locks;
mod process;

use super::{
    DirectoryEntry, FileKind, FileMetadata, OpenHow, ProcessIdentity, Storage, StorageFile,
    not_a_regular_file,
};
use rustix::fs::{FlockOperation, OFlags};
use rustix::io::Errno;
use std::fs::{self, DirBuilder, File, OpenOptions, Permissions};
use std::io::{self, ErrorKind, Write};
use std::os::unix::fs::{DirBuilderExt, FileExt, MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{SystemTime, UNIX_EPOCH};

/// Mode of every file that is created here.
const FILE_MODE: u32 = 0o600;

/// Mode of every directory that is created here.
const DIRECTORY_MODE: u32 = 0o700;

/// The permission bits of a mode, without type, set-id and sticky bits.
const PERMISSION_BITS: u32 = 0o777;

/// How often "create, unless it is there" is tried again because the name came or went in between. Two
/// programs that start at the same moment need one repetition; more means that somebody plays with the name.
const OPEN_ATTEMPTS_MAX: u32 = 16;

const NANOSECONDS_PER_SECOND: i128 = 1_000_000_000;

/// The operating system.
///
/// Holds nothing: any number of them are the same storage.
#[derive(Clone, Copy, Debug, Default)]
pub struct OsStorage;

impl OsStorage {
    /// The operating system of this process.
    #[must_use]
    pub const fn new() -> Self {
        OsStorage
    }
}

impl Storage for OsStorage {
    fn open(&self, path: &Path, how: OpenHow) -> io::Result<Arc<dyn StorageFile>> {
        let file = match how {
            OpenHow::Read => open_existing(path, OpenOptions::new().read(true), OFlags::empty()),
            OpenHow::Append => open_existing(path, appending().read(true), OFlags::empty()),
            OpenHow::CreateNew => create_new(path),
            OpenHow::CreateOrTruncate => open_or_create(path).and_then(|(file, is_new)| {
                if !is_new {
                    // Not `O_TRUNC`: what stands there is looked at before it loses its content.
                    file.set_len(0)?;
                }
                Ok(file)
            }),
            OpenHow::Lock => open_or_create(path).map(|(file, _)| file),
        }?;
        Ok(Arc::new(OsFile::new(file)))
    }

    fn metadata(&self, path: &Path) -> io::Result<FileMetadata> {
        fs::metadata(path).map(|metadata| metadata_of(&metadata))
    }

    fn read_directory(&self, path: &Path) -> io::Result<Vec<DirectoryEntry>> {
        let mut entries = Vec::new();
        for entry in fs::read_dir(path)? {
            let entry = entry?;
            let kind = match entry.file_type() {
                Ok(file_type) => kind_of(file_type),
                // Some file systems do not tell the kind in the listing; it is then asked for by name, which
                // may have gone by now: an entry that is not there is not listed.
                Err(error) if error.kind() == ErrorKind::NotFound => continue,
                Err(error) => return Err(error),
            };
            entries.push(DirectoryEntry { name: entry.file_name(), kind });
        }
        Ok(entries)
    }

    fn create_directory(&self, path: &Path) -> io::Result<()> {
        DirBuilder::new().mode(DIRECTORY_MODE).create(path)?;
        let mode = fs::symlink_metadata(path)?.permissions().mode();
        if mode & PERMISSION_BITS != DIRECTORY_MODE {
            // By name, since a directory without its read bit cannot be opened. The other bits (set-group-id,
            // which is inherited) stay.
            fs::set_permissions(path, Permissions::from_mode(mode & !PERMISSION_BITS | DIRECTORY_MODE))?;
        }
        Ok(())
    }

    fn sync_directory(&self, path: &Path) -> io::Result<()> {
        OpenOptions::new().read(true).custom_flags(flag_bits(OFlags::DIRECTORY)).open(path)?.sync_all()
    }

    fn hard_link(&self, original: &Path, link: &Path) -> io::Result<()> {
        fs::hard_link(original, link)
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        fs::rename(from, to)
    }

    fn remove_file(&self, path: &Path) -> io::Result<()> {
        fs::remove_file(path)
    }

    fn remove_directory(&self, path: &Path) -> io::Result<()> {
        fs::remove_dir(path)
    }

    fn canonicalize(&self, path: &Path) -> io::Result<PathBuf> {
        fs::canonicalize(path)
    }

    fn now_unix_ms(&self) -> i64 {
        let milliseconds =
            |duration: std::time::Duration| i64::try_from(duration.as_millis()).unwrap_or(i64::MAX);
        match SystemTime::now().duration_since(UNIX_EPOCH) {
            Ok(since) => milliseconds(since),
            Err(before) => -milliseconds(before.duration()),
        }
    }

    fn fill_random(&self, bytes: &mut [u8]) -> io::Result<()> {
        fill_random(bytes)
    }

    fn process_id(&self) -> u32 {
        std::process::id()
    }

    fn current_process(&self) -> io::Result<ProcessIdentity> {
        // Asked for each time: the answer differs in a forked child.
        let id = std::process::id();
        process::process(id)?.ok_or_else(|| {
            io::Error::new(ErrorKind::Unsupported, format!("/proc does not show this process ({id})"))
        })
    }

    fn process(&self, id: u32) -> io::Result<Option<ProcessIdentity>> {
        process::process(id)
    }

    #[cfg(any(target_os = "linux", target_os = "android"))]
    fn lock_holder(&self, file: &FileMetadata) -> io::Result<Option<u32>> {
        locks::holder(file)
    }

    #[cfg(not(any(target_os = "linux", target_os = "android")))]
    fn lock_holder(&self, _file: &FileMetadata) -> io::Result<Option<u32>> {
        Err(io::Error::new(ErrorKind::Unsupported, "this system does not tell who holds a lock"))
    }
}

/// One descriptor.
#[derive(Debug)]
struct OsFile {
    file: File,
    /// The process that took the lock through this descriptor; [`NO_PROCESS`] without a lock.
    locked_by: AtomicU32,
}

/// No process of a user has this number.
const NO_PROCESS: u32 = 0;

impl OsFile {
    fn new(file: File) -> Self {
        OsFile { file, locked_by: AtomicU32::new(NO_PROCESS) }
    }
}

impl Drop for OsFile {
    fn drop(&mut self) {
        let locked_by = *self.locked_by.get_mut();
        if locked_by != NO_PROCESS && locked_by == std::process::id() {
            // A failure loses nothing: closing the last copy of the descriptor releases the lock as well.
            let _ = rustix::fs::flock(&self.file, FlockOperation::Unlock);
        }
    }
}

impl StorageFile for OsFile {
    fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
        repeat_interrupted(|| self.file.read_at(buffer, offset))
    }

    fn append(&self, bytes: &[u8]) -> io::Result<usize> {
        // The descriptor is `O_APPEND`: the kernel finds the end and writes there in one step, so even two
        // writers cannot overwrite each other.
        repeat_interrupted(|| (&self.file).write(bytes))
    }

    fn metadata(&self) -> io::Result<FileMetadata> {
        self.file.metadata().map(|metadata| metadata_of(&metadata))
    }

    fn truncate(&self, size: u64) -> io::Result<()> {
        self.file.set_len(size)
    }

    fn sync(&self) -> io::Result<()> {
        // fdatasync(2): content, and the part of the inode without which it cannot be read, so the size too;
        // times may be lost, nothing here relies on them after a crash. On macOS the standard library asks for
        // F_FULLFSYNC, since fsync(2) leaves the bytes in the drive's cache there.
        self.file.sync_data()
    }

    fn try_lock(&self) -> io::Result<bool> {
        // flock(2) and nothing else: record locks (fcntl) neither exclude flock holders nor survive the closing
        // of another descriptor of the same file (`format.md` 6.3).
        loop {
            match rustix::fs::flock(&self.file, FlockOperation::NonBlockingLockExclusive) {
                Ok(()) => {
                    self.locked_by.store(std::process::id(), Ordering::Relaxed);
                    return Ok(true);
                }
                Err(Errno::WOULDBLOCK) => return Ok(false),
                Err(Errno::INTR) => {}
                Err(error) => return Err(error.into()),
            }
        }
    }
}

/// The options of a descriptor that writes at the end.
fn appending() -> OpenOptions {
    let mut options = OpenOptions::new();
    options.append(true);
    options
}

/// Opens what exists, without waiting, and refuses it unless it is a regular file.
fn open_existing(path: &Path, options: &mut OpenOptions, extra: OFlags) -> io::Result<File> {
    let flags = OFlags::NONBLOCK | OFlags::NOCTTY | extra;
    let file = options.custom_flags(flag_bits(flags)).open(path)?;
    match kind_of(file.metadata()?.file_type()) {
        FileKind::File => Ok(file),
        // Reading from a directory fails only at the first read; the same error, sooner.
        FileKind::Directory => Err(Errno::ISDIR.into()),
        FileKind::Link | FileKind::Other => Err(not_a_regular_file()),
    }
}

/// Creates a file that nobody else has, with its mode.
fn create_new(path: &Path) -> io::Result<File> {
    let file = OpenOptions::new().read(true).append(true).create_new(true).mode(FILE_MODE).open(path)?;
    let mode = file.metadata()?.permissions().mode();
    if mode & PERMISSION_BITS != FILE_MODE {
        file.set_permissions(Permissions::from_mode(FILE_MODE))?;
    }
    Ok(file)
}

/// Opens a file for writing at its end, or creates it; says whether it was created.
///
/// Two calls instead of `O_CREAT` alone, so that only a new file has its mode set: a lock file made by another
/// program may be meant for a group of users.
fn open_or_create(path: &Path) -> io::Result<(File, bool)> {
    let mut attempts = 0;
    loop {
        attempts += 1;
        match open_existing(path, appending().read(true), OFlags::NOFOLLOW) {
            Ok(file) => return Ok((file, false)),
            Err(error) if error.kind() == ErrorKind::NotFound => {}
            Err(error) => return Err(error),
        }
        match create_new(path) {
            Ok(file) => return Ok((file, true)),
            Err(error) if error.kind() == ErrorKind::AlreadyExists && attempts < OPEN_ATTEMPTS_MAX => {}
            Err(error) => return Err(error),
        }
    }
}

/// Flags in the type that the standard library wants; all of them are small positive numbers.
fn flag_bits(flags: OFlags) -> i32 {
    flags.bits().cast_signed()
}

fn repeat_interrupted<T>(mut call: impl FnMut() -> io::Result<T>) -> io::Result<T> {
    loop {
        match call() {
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            result => return result,
        }
    }
}

#[cfg(any(target_os = "linux", target_os = "android"))]
fn fill_random(bytes: &mut [u8]) -> io::Result<()> {
    let mut filled = 0;
    while let Some(rest) = bytes.get_mut(filled..).filter(|rest| !rest.is_empty()) {
        match rustix::rand::getrandom(rest, rustix::rand::GetRandomFlags::empty()) {
            Ok(count) => filled += count,
            Err(Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
    }
    Ok(())
}

#[cfg(not(any(target_os = "linux", target_os = "android")))]
fn fill_random(bytes: &mut [u8]) -> io::Result<()> {
    io::Read::read_exact(&mut File::open("/dev/urandom")?, bytes)
}

fn kind_of(file_type: fs::FileType) -> FileKind {
    if file_type.is_file() {
        FileKind::File
    } else if file_type.is_dir() {
        FileKind::Directory
    } else if file_type.is_symlink() {
        FileKind::Link
    } else {
        FileKind::Other
    }
}

fn metadata_of(metadata: &fs::Metadata) -> FileMetadata {
    let nanoseconds =
        |seconds: i64, rest: i64| i128::from(seconds) * NANOSECONDS_PER_SECOND + i128::from(rest);
    FileMetadata {
        kind: kind_of(metadata.file_type()),
        device: metadata.dev(),
        inode: metadata.ino(),
        size: metadata.size(),
        modified_ns: nanoseconds(metadata.mtime(), metadata.mtime_nsec()),
        changed_ns: nanoseconds(metadata.ctime(), metadata.ctime_nsec()),
    }
}

#[cfg(test)]
mod tests;
