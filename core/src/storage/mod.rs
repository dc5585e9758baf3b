//! The only door to files, directories, locks, clock and randomness.
//!
//! Everything above this room speaks to the operating system through [`Storage`], a small trait with three
//! implementations: [`OsStorage`] (the product), `FaultyStorage` (the call number k fails) and
//! `RecordingStorage` (keeps every change and builds the disk contents that a crash may leave), the last two
//! behind the feature `simulation`. The trait has exactly the calls that durability is made of, so a proof about
//! the sequence of these calls is a proof about the library.
//!
//! Paths are absolute. Errors are the system's own ([`std::io::Error`]); the rooms above add what was tried.

mod os;
#[cfg(feature = "simulation")]
pub mod simulation;

pub use os::OsStorage;

use std::ffi::OsString;
use std::fmt::{self, Write as _};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// How a file is opened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OpenHow {
    /// An existing file, for reading.
    Read,
    /// An existing file, for reading and for writing at its end; never created.
    Append,
    /// A new file, mode 0600, for reading and for writing at its end; fails if the name exists.
    CreateNew,
    /// An empty file, mode 0600, for writing at its end: created, or emptied if it exists.
    CreateOrTruncate,
    /// The lock file: created empty if absent, mode 0600, contents never touched.
    Lock,
}

/// What a directory entry is; links are not followed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FileKind {
    /// A regular file.
    File,
    /// A directory.
    Directory,
    /// A symbolic link.
    Link,
    /// Anything else: device, pipe, socket.
    Other,
}

/// One name in a directory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DirectoryEntry {
    /// The name, without its directory.
    pub name: OsString,
    /// What it is.
    pub kind: FileKind,
}

/// Which file this is and whether it changed: the fields of a revision (`format.md` 6.8).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FileMetadata {
    /// What it is.
    pub kind: FileKind,
    /// The device.
    pub device: u64,
    /// The inode.
    pub inode: u64,
    /// Bytes.
    pub size: u64,
    /// Last change of the content, nanoseconds since 1970.
    pub modified_ns: i128,
    /// Last change of the inode, nanoseconds since 1970.
    pub changed_ns: i128,
}

impl FileMetadata {
    /// Whether both are the same file, whatever its content.
    #[must_use]
    pub fn is_same_file(&self, other: &FileMetadata) -> bool {
        self.device == other.device && self.inode == other.inode
    }
}

/// A process, so that a recorded owner can be told from a later process with the same number.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProcessIdentity {
    /// The process id.
    pub id: u32,
    /// When it began, in a form that is unique to this process and this start of the machine.
    pub began: String,
    /// The name of its program.
    pub program: String,
}

/// One open file.
pub trait StorageFile: Send + Sync + fmt::Debug {
    /// Reads into `buffer` from `offset`; 0 at the end of the file; may give less than asked.
    ///
    /// # Errors
    /// The system's own.
    fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<usize>;

    /// Writes at the end of the file; may write less than given.
    ///
    /// # Errors
    /// The system's own.
    fn append(&self, bytes: &[u8]) -> io::Result<usize>;

    /// Identity, size and times, as of now.
    ///
    /// # Errors
    /// The system's own.
    fn metadata(&self) -> io::Result<FileMetadata>;

    /// Cuts the file to `size` bytes.
    ///
    /// # Errors
    /// The system's own.
    fn truncate(&self, size: u64) -> io::Result<()>;

    /// Returns when content and size are on the disk.
    ///
    /// # Errors
    /// The system's own; what was written since the last success must then be counted as lost.
    fn sync(&self) -> io::Result<()>;

    /// Takes the exclusive lock without waiting; `false` if another descriptor holds it, of this process or of
    /// another. Taking it again through the same file changes nothing. The lock goes when the file is dropped by
    /// the process that took it, and only then: a forked child that drops its copy leaves the lock alone.
    ///
    /// # Errors
    /// The system's own.
    fn try_lock(&self) -> io::Result<bool>;
}

/// The text of a random UUID (version 4) of these bytes.
///
/// ```
/// use dsh_session_core::storage::uuid_v4;
/// assert_eq!(uuid_v4([0xff; 16]), "ffffffff-ffff-4fff-bfff-ffffffffffff");
/// ```
#[must_use]
pub fn uuid_v4(mut random: [u8; 16]) -> String {
    random[6] = (random[6] & 0x0f) | 0x40;
    random[8] = (random[8] & 0x3f) | 0x80;
    let mut text = String::with_capacity(36);
    for (index, byte) in random.iter().enumerate() {
        if matches!(index, 4 | 6 | 8 | 10) {
            text.push('-');
        }
        // Writing to a string cannot fail.
        let _ = write!(text, "{byte:02x}");
    }
    text
}

/// A random UUID (version 4): what new messages are known by (`events.md` 4.1).
///
/// # Errors
/// The system's own.
pub fn random_uuid(storage: &dyn Storage) -> io::Result<String> {
    let mut random = [0_u8; 16];
    storage.fill_random(&mut random)?;
    Ok(uuid_v4(random))
}

/// A file system, a clock and a source of randomness.
pub trait Storage: Send + Sync + fmt::Debug {
    /// Opens a file.
    ///
    /// # Errors
    /// The system's own.
    fn open(&self, path: &Path, how: OpenHow) -> io::Result<Arc<dyn StorageFile>>;

    /// Identity, size and times of a path; links are followed.
    ///
    /// # Errors
    /// The system's own.
    fn metadata(&self, path: &Path) -> io::Result<FileMetadata>;

    /// The entries of a directory, without `.` and `..`, in no order.
    ///
    /// # Errors
    /// The system's own.
    fn read_directory(&self, path: &Path) -> io::Result<Vec<DirectoryEntry>>;

    /// Makes one directory, mode 0700.
    ///
    /// # Errors
    /// The system's own; `AlreadyExists` if the name is taken.
    fn create_directory(&self, path: &Path) -> io::Result<()>;

    /// Returns when the names in a directory are on the disk.
    ///
    /// # Errors
    /// The system's own.
    fn sync_directory(&self, path: &Path) -> io::Result<()>;

    /// Gives a file a second name.
    ///
    /// # Errors
    /// The system's own; `AlreadyExists` if `link` exists.
    fn hard_link(&self, original: &Path, link: &Path) -> io::Result<()>;

    /// Moves a name, replacing what stands at `to`.
    ///
    /// # Errors
    /// The system's own.
    fn rename(&self, from: &Path, to: &Path) -> io::Result<()>;

    /// Removes a name of a file.
    ///
    /// # Errors
    /// The system's own.
    fn remove_file(&self, path: &Path) -> io::Result<()>;

    /// Removes an empty directory.
    ///
    /// # Errors
    /// The system's own.
    fn remove_directory(&self, path: &Path) -> io::Result<()>;

    /// The path with every link resolved.
    ///
    /// # Errors
    /// The system's own.
    fn canonicalize(&self, path: &Path) -> io::Result<PathBuf>;

    /// The clock: milliseconds since 1970. It may go back.
    fn now_unix_ms(&self) -> i64;

    /// Fills `bytes` with randomness fit for identifiers.
    ///
    /// # Errors
    /// The system's own.
    fn fill_random(&self, bytes: &mut [u8]) -> io::Result<()>;

    /// The number of the process that is running this code; cheap, since it is asked at every call on a handle.
    fn process_id(&self) -> u32;

    /// The process that is running this code.
    ///
    /// # Errors
    /// The system's own.
    fn current_process(&self) -> io::Result<ProcessIdentity>;

    /// A process of this machine by its number, `None` if none is alive.
    ///
    /// # Errors
    /// The system's own.
    fn process(&self, id: u32) -> io::Result<Option<ProcessIdentity>>;

    /// The number of the process that took the exclusive lock ([`StorageFile::try_lock`]) which is held on a file, told without trying
    /// the lock. Where its taker left the lock to another process, which a fork does, that number may be nobody's any more. `None` where
    /// no lock can be seen: the system lists none, or names the device of the file otherwise than the file does.
    ///
    /// # Errors
    /// The system's own; `Unsupported` where it does not tell.
    fn lock_holder(&self, file: &FileMetadata) -> io::Result<Option<u32>>;
}

/// The refusal of a pipe, socket or device under a name where a file is wanted; the same from every storage.
fn not_a_regular_file() -> io::Error {
    io::Error::new(io::ErrorKind::InvalidInput, "not a regular file but a pipe, socket or device")
}

#[cfg(test)]
mod laws;
