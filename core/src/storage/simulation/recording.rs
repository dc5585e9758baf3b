//! A storage in memory that keeps every change, in order.
//!
//! The journal speaks of inodes, not of paths: what a sync makes durable is an inode, whatever name it has by then,
//! and a name can be durable while the bytes behind it are not. `crash` turns a journal into disks.

use super::MemoryStorage;
use super::memory::state::State;
use crate::storage::{
    DirectoryEntry, FileKind, FileMetadata, OpenHow, ProcessIdentity, Storage, StorageFile,
};
use std::ffi::OsString;
use std::fmt;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// One change of the disk, or a request that changes be made durable.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Effect {
    /// A new, empty inode under a new name.
    Create {
        /// The directory's inode.
        directory: u64,
        /// The new name.
        name: OsString,
        /// The new inode.
        inode: u64,
        /// What it is.
        kind: FileKind,
        /// Where a symbolic link leads.
        target: Option<PathBuf>,
    },
    /// Bytes at the end of a file.
    Append {
        /// The file.
        inode: u64,
        /// Where they begin: the size before.
        offset: u64,
        /// The bytes.
        bytes: Arc<[u8]>,
    },
    /// A change of the size alone.
    Truncate {
        /// The file.
        inode: u64,
        /// The size before.
        from: u64,
        /// The size after.
        to: u64,
    },
    /// Content and size are on the disk.
    Sync {
        /// The file.
        inode: u64,
    },
    /// A sync failed: what was not yet on the disk may never get there, though later syncs succeed.
    SyncFailed {
        /// The file.
        inode: u64,
    },
    /// One more name for a file.
    Link {
        /// The directory's inode.
        directory: u64,
        /// The new name.
        name: OsString,
        /// The file.
        inode: u64,
    },
    /// A name removed, of a file or of an empty directory.
    Unlink {
        /// The directory's inode.
        directory: u64,
        /// The name.
        name: OsString,
        /// What it referred to.
        inode: u64,
    },
    /// A name moved, what stood there replaced.
    Rename {
        /// The inode of the directory of the old name.
        from_directory: u64,
        /// The old name.
        from_name: OsString,
        /// The inode of the directory of the new name.
        to_directory: u64,
        /// The new name.
        to_name: OsString,
        /// What is moved.
        inode: u64,
    },
    /// The names of a directory are on the disk.
    SyncDirectory {
        /// The directory.
        directory: u64,
    },
    /// A remark of the test: everything up to this number was acknowledged.
    Mark(u64),
}

/// A disk as it was when recording began (all of it durable) and what was done to it since.
#[derive(Clone)]
pub struct Journal {
    pub(super) initial: State,
    /// Clock, settings and the running process when the journal was taken.
    pub(super) machine: State,
    effects: Vec<Effect>,
}

impl Journal {
    /// The effects, in order.
    #[must_use]
    pub fn effects(&self) -> &[Effect] {
        &self.effects
    }

    /// How many effects: crash points go from 0 to here.
    #[must_use]
    pub fn len(&self) -> usize {
        self.effects.len()
    }

    /// Whether nothing was done.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.effects.is_empty()
    }

    /// The highest mark among the first `count` effects.
    #[must_use]
    pub fn highest_mark(&self, count: usize) -> Option<u64> {
        let marks = self.effects.iter().take(count).filter_map(|effect| match effect {
            Effect::Mark(mark) => Some(*mark),
            _ => None,
        });
        marks.max()
    }
}

impl fmt::Debug for Journal {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_list().entries(&self.effects).finish()
    }
}

/// A [`MemoryStorage`] that records.
#[derive(Clone, Debug)]
pub struct RecordingStorage {
    memory: MemoryStorage,
    initial: Arc<InitialState>,
}

struct InitialState(State);

impl fmt::Debug for InitialState {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("the disk when recording began")
    }
}

impl Default for RecordingStorage {
    fn default() -> Self {
        RecordingStorage::new(&MemoryStorage::default())
    }
}

impl RecordingStorage {
    /// Records what is done from now on to a copy of `memory`, all of which counts as durable.
    #[must_use]
    pub fn new(memory: &MemoryStorage) -> Self {
        let memory = memory.copy();
        let initial = memory.state().clone();
        memory.state().journal = Some(Vec::new());
        RecordingStorage { memory, initial: Arc::new(InitialState(initial)) }
    }

    /// What was done so far.
    #[must_use]
    pub fn journal(&self) -> Journal {
        let mut machine = self.memory.state().clone();
        let effects = machine.journal.take().unwrap_or_default();
        Journal { initial: self.initial.0.clone(), machine, effects }
    }

    /// Remarks that everything up to `number` was acknowledged here; see [`Journal::highest_mark`].
    pub fn mark(&self, number: u64) {
        self.memory.state().record(Effect::Mark(number));
    }

    /// The next `count` syncs of files fail with `EIO` as those of a dying disk do: the caller is told once, the
    /// bytes read back well as long as the machine runs, later syncs succeed without them.
    pub fn fail_next_syncs(&self, count: u32) {
        self.memory.state().failing_syncs = count;
    }

    /// The machine under the recorder, for its settings.
    #[must_use]
    pub fn memory(&self) -> &MemoryStorage {
        &self.memory
    }
}

impl Storage for RecordingStorage {
    fn open(&self, path: &Path, how: OpenHow) -> io::Result<Arc<dyn StorageFile>> {
        self.memory.open(path, how)
    }

    fn metadata(&self, path: &Path) -> io::Result<FileMetadata> {
        self.memory.metadata(path)
    }

    fn read_directory(&self, path: &Path) -> io::Result<Vec<DirectoryEntry>> {
        self.memory.read_directory(path)
    }

    fn create_directory(&self, path: &Path) -> io::Result<()> {
        self.memory.create_directory(path)
    }

    fn sync_directory(&self, path: &Path) -> io::Result<()> {
        self.memory.sync_directory(path)
    }

    fn hard_link(&self, original: &Path, link: &Path) -> io::Result<()> {
        self.memory.hard_link(original, link)
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        self.memory.rename(from, to)
    }

    fn remove_file(&self, path: &Path) -> io::Result<()> {
        self.memory.remove_file(path)
    }

    fn remove_directory(&self, path: &Path) -> io::Result<()> {
        self.memory.remove_directory(path)
    }

    fn canonicalize(&self, path: &Path) -> io::Result<PathBuf> {
        self.memory.canonicalize(path)
    }

    fn now_unix_ms(&self) -> i64 {
        self.memory.now_unix_ms()
    }

    fn fill_random(&self, bytes: &mut [u8]) -> io::Result<()> {
        self.memory.fill_random(bytes)
    }

    fn process_id(&self) -> u32 {
        self.memory.process_id()
    }

    fn current_process(&self) -> io::Result<ProcessIdentity> {
        self.memory.current_process()
    }

    fn process(&self, id: u32) -> io::Result<Option<ProcessIdentity>> {
        self.memory.process(id)
    }

    fn lock_holder(&self, file: &FileMetadata) -> io::Result<Option<u32>> {
        self.memory.lock_holder(file)
    }
}
