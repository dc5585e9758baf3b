//! A file system in memory, with the clock, the randomness and the processes of its machine.
//!
//! It obeys the same laws as the operating system (one test suite runs on both) and gives the same error numbers, but
//! everything that a test wants to choose can be set: the time, the process that is running, the space that is
//! left, whether locks work. Modelled: inodes, names, hard and symbolic links, files that live on without a name,
//! locks per open file, distinct times for all changes. Not modelled: permissions and users (a `FaultyStorage`
//! gives `EACCES`), sparse files, space for names, relative paths.

pub(super) mod state;

use self::state::{Body, DEVICE, Lock, Names, Place, State};
use crate::storage::{
    DirectoryEntry, FileKind, FileMetadata, OpenHow, ProcessIdentity, Storage, StorageFile,
};
use rustix::io::Errno;
use std::fmt;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// A simulated machine. Clones are the same machine; [`MemoryStorage::copy`] makes another.
#[derive(Clone)]
pub struct MemoryStorage {
    state: Arc<Mutex<State>>,
}

impl Default for MemoryStorage {
    fn default() -> Self {
        MemoryStorage::new(0)
    }
}

impl fmt::Debug for MemoryStorage {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let state = self.state();
        formatter
            .debug_struct("MemoryStorage")
            .field("inodes", &state.nodes.len())
            .field("open_files", &state.open.len())
            .finish_non_exhaustive()
    }
}

impl MemoryStorage {
    /// An empty disk: `/` alone. `seed` decides the randomness.
    #[must_use]
    pub fn new(seed: u64) -> Self {
        MemoryStorage::from_state(State::new(seed))
    }

    pub(super) fn from_state(state: State) -> Self {
        MemoryStorage { state: Arc::new(Mutex::new(state)) }
    }

    pub(super) fn state(&self) -> MutexGuard<'_, State> {
        // A panic of a test while it held the state leaves nothing half done that another test could see.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Another machine with the same disk and settings, without open files and locks. Cheap: bytes are shared
    /// until one of the two changes them.
    #[must_use]
    pub fn copy(&self) -> MemoryStorage {
        let mut state = self.state().clone();
        state.open.clear();
        state.locks.clear();
        state.journal = None;
        MemoryStorage::from_state(state)
    }

    /// Sets the clock, milliseconds since 1970. It stands still until it is set again.
    pub fn set_clock_ms(&self, now_unix_ms: i64) {
        self.state().clock_ms = now_unix_ms;
    }

    /// Moves the clock, back if `by_ms` is negative.
    pub fn advance_clock_ms(&self, by_ms: i64) {
        let mut state = self.state();
        state.clock_ms = state.clock_ms.saturating_add(by_ms);
    }

    /// From here on the code runs as `process`, which is alive: what a forked child sees.
    pub fn set_current_process(&self, process: ProcessIdentity) {
        let mut state = self.state();
        state.processes.insert(process.id, process.clone());
        state.current_process = process;
    }

    /// Adds a living process, or replaces the one with its number.
    pub fn add_process(&self, process: ProcessIdentity) {
        self.state().processes.insert(process.id, process);
    }

    /// Ends a process: it is no longer alive, and its locks go with it.
    pub fn end_process(&self, id: u32) {
        let mut state = self.state();
        state.processes.remove(&id);
        state.locks.retain(|_, lock| lock.process != id);
    }

    /// Whether every lock is granted, as on network file systems without working flock.
    pub fn set_flock_is_ineffective(&self, is_ineffective: bool) {
        self.state().flock_is_ineffective = is_ineffective;
    }

    /// Whether nobody is told who holds a lock, as on systems without `/proc`.
    pub fn set_hides_locks(&self, hides_locks: bool) {
        self.state().hides_locks = hides_locks;
    }

    /// Whether `A` and `a` are the same name. To be chosen before names exist.
    pub fn set_names_ignore_case(&self, ignore_case: bool) {
        self.state().names_ignore_case = ignore_case;
    }

    /// Whether every change fails with `EROFS`, opening for a change included.
    pub fn set_read_only(&self, is_read_only: bool) {
        self.state().is_read_only = is_read_only;
    }

    /// Limits the bytes of all files together: what still fits is written, a short write; then `ENOSPC`. `None`
    /// lifts the limit.
    pub fn set_space_limit_bytes(&self, limit_bytes: Option<u64>) {
        self.state().space_limit_bytes = limit_bytes;
    }

    /// Bytes of all files, those without a name but still open included.
    #[must_use]
    pub fn used_bytes(&self) -> u64 {
        self.state().used_bytes()
    }

    /// How many files are open: 0 when nothing leaked.
    #[must_use]
    pub fn open_files(&self) -> usize {
        self.state().open.len()
    }

    /// How many locks are held.
    #[must_use]
    pub fn held_locks(&self) -> usize {
        self.state().locks.len()
    }

    /// Makes a symbolic link.
    ///
    /// # Errors
    /// Those of `symlink(2)`.
    pub fn symbolic_link(&self, target: &Path, link: &Path) -> io::Result<()> {
        let mut state = self.state();
        let place = state.walk(link, false)?;
        state.create(&place, Body::Link(target.to_owned())).map(drop)
    }

    /// Makes what is neither file nor directory nor link, as `mkfifo` would.
    ///
    /// # Errors
    /// Those of `mknod(2)`.
    pub fn special_file(&self, path: &Path) -> io::Result<()> {
        let mut state = self.state();
        let place = state.walk(path, false)?;
        state.create(&place, Body::Special).map(drop)
    }

    /// The whole content of a file, for assertions.
    ///
    /// # Errors
    /// Those of opening and reading it.
    pub fn read_file(&self, path: &Path) -> io::Result<Vec<u8>> {
        let state = self.state();
        let content = state.content(state.walk(path, true)?.existing()?)?;
        let mut bytes = vec![0; content.size() as usize];
        content.read_at(&mut bytes, 0);
        Ok(bytes)
    }

    /// How many bytes reads of open files have given so far.
    #[must_use]
    pub fn bytes_read(&self) -> u64 {
        self.state().bytes_read
    }

    /// Puts a file there with this content, whatever stood there, for the preparation of a test.
    ///
    /// # Errors
    /// Those of opening and writing it.
    pub fn write_file(&self, path: &Path, bytes: &[u8]) -> io::Result<()> {
        let file = self.open(path, OpenHow::CreateOrTruncate)?;
        let mut rest = bytes;
        while !rest.is_empty() {
            let count = file.append(rest)?;
            rest = rest.get(count..).unwrap_or_default();
        }
        Ok(())
    }

    /// Every path below `/` and its content (`None`: not a file), in order of the paths: two disks with equal
    /// trees cannot be told apart by reading.
    #[must_use]
    pub fn tree(&self) -> Vec<(PathBuf, Option<Vec<u8>>)> {
        let mut paths = vec![PathBuf::from("/")];
        let mut tree = Vec::new();
        while let Some(path) = paths.pop() {
            for entry in self.read_directory(&path).unwrap_or_default() {
                let path = path.join(entry.name);
                let content = if entry.kind == FileKind::File { self.read_file(&path).ok() } else { None };
                if entry.kind == FileKind::Directory {
                    paths.push(path.clone());
                }
                tree.push((path, content));
            }
        }
        tree.sort();
        tree
    }
}

impl Storage for MemoryStorage {
    fn open(&self, path: &Path, how: OpenHow) -> io::Result<Arc<dyn StorageFile>> {
        let mut state = self.state();
        let follows = matches!(how, OpenHow::Read | OpenHow::Append);
        let place = state.walk(path, follows)?;
        let is_writable = how != OpenHow::Read;
        let inode = match how {
            OpenHow::CreateNew => state.create(&place, Body::File(Default::default()))?,
            OpenHow::Read | OpenHow::Append => check_opens(&state, &place, is_writable)?,
            OpenHow::CreateOrTruncate | OpenHow::Lock if place.inode.is_none() => {
                state.create(&place, Body::File(Default::default()))?
            }
            OpenHow::Lock => check_opens(&state, &place, is_writable)?,
            OpenHow::CreateOrTruncate => {
                let inode = check_opens(&state, &place, is_writable)?;
                state.truncate(inode, 0)?;
                inode
            }
        };
        let description = state.next_number();
        state.open.insert(description, inode);
        Ok(Arc::new(MemoryFile { storage: self.clone(), description, inode, is_writable }))
    }

    fn metadata(&self, path: &Path) -> io::Result<FileMetadata> {
        let state = self.state();
        state.metadata(state.walk(path, true)?.existing()?)
    }

    fn read_directory(&self, path: &Path) -> io::Result<Vec<DirectoryEntry>> {
        let state = self.state();
        let names = state.names(state.walk(path, true)?.existing()?)?;
        let entry = |(name, inode): (&std::ffi::OsString, &u64)| {
            Ok(DirectoryEntry { name: name.clone(), kind: state.node(*inode)?.body.kind() })
        };
        names.iter().map(entry).collect()
    }

    fn create_directory(&self, path: &Path) -> io::Result<()> {
        let mut state = self.state();
        let place = state.walk(path, false)?;
        state.create(&place, Body::Directory(Names::new())).map(drop)
    }

    fn sync_directory(&self, path: &Path) -> io::Result<()> {
        let mut state = self.state();
        let directory = state.walk(path, true)?.existing()?;
        state.names(directory)?;
        state.record(super::Effect::SyncDirectory { directory });
        Ok(())
    }

    fn hard_link(&self, original: &Path, link: &Path) -> io::Result<()> {
        let mut state = self.state();
        let (original, link) = (state.walk(original, false)?, state.walk(link, false)?);
        state.link(&original, &link)
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        let mut state = self.state();
        let (from, to) = (state.walk(from, false)?, state.walk(to, false)?);
        state.rename(&from, &to)
    }

    fn remove_file(&self, path: &Path) -> io::Result<()> {
        let mut state = self.state();
        let place = state.walk(path, false)?;
        state.unlink(&place, false)
    }

    fn remove_directory(&self, path: &Path) -> io::Result<()> {
        let mut state = self.state();
        let place = state.walk(path, false)?;
        state.unlink(&place, true)
    }

    fn canonicalize(&self, path: &Path) -> io::Result<PathBuf> {
        let place = self.state().walk(path, true)?;
        place.existing()?;
        Ok(place.path())
    }

    fn now_unix_ms(&self) -> i64 {
        self.state().clock_ms
    }

    fn fill_random(&self, bytes: &mut [u8]) -> io::Result<()> {
        self.state().random.fill(bytes);
        Ok(())
    }

    fn process_id(&self) -> u32 {
        self.state().current_process.id
    }

    fn current_process(&self) -> io::Result<ProcessIdentity> {
        Ok(self.state().current_process.clone())
    }

    fn process(&self, id: u32) -> io::Result<Option<ProcessIdentity>> {
        Ok(self.state().processes.get(&id).cloned())
    }

    fn lock_holder(&self, file: &FileMetadata) -> io::Result<Option<u32>> {
        let state = self.state();
        if state.hides_locks {
            return Err(io::ErrorKind::Unsupported.into());
        }
        let lock = state.locks.get(&file.inode).filter(|_| file.device == DEVICE);
        Ok(lock.map(|lock| lock.process))
    }
}

/// The inode of a place that can be opened, with the refusals of the operating system's storage.
fn check_opens(state: &State, place: &Place, is_writable: bool) -> io::Result<u64> {
    let inode = place.existing()?;
    match state.node(inode)?.body {
        Body::Directory(_) => return Err(Errno::ISDIR.into()),
        // Met only where links are not followed.
        Body::Link(_) => return Err(Errno::LOOP.into()),
        Body::Special => return Err(crate::storage::not_a_regular_file()),
        Body::File(_) => {}
    }
    if is_writable {
        state.check_writable()?;
    }
    Ok(inode)
}

/// One open file.
struct MemoryFile {
    storage: MemoryStorage,
    description: u64,
    inode: u64,
    is_writable: bool,
}

impl fmt::Debug for MemoryFile {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("MemoryFile").field("inode", &self.inode).finish_non_exhaustive()
    }
}

impl StorageFile for MemoryFile {
    fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
        let mut state = self.storage.state();
        let read = state.content(self.inode)?.read_at(buffer, offset);
        state.bytes_read += read as u64;
        Ok(read)
    }

    fn append(&self, bytes: &[u8]) -> io::Result<usize> {
        if !self.is_writable {
            return Err(Errno::BADF.into());
        }
        self.storage.state().append(self.inode, bytes)
    }

    fn metadata(&self) -> io::Result<FileMetadata> {
        self.storage.state().metadata(self.inode)
    }

    fn truncate(&self, size: u64) -> io::Result<()> {
        if !self.is_writable || i64::try_from(size).is_err() {
            return Err(Errno::INVAL.into());
        }
        self.storage.state().truncate(self.inode, size)
    }

    fn sync(&self) -> io::Result<()> {
        self.storage.state().sync(self.inode)
    }

    fn try_lock(&self) -> io::Result<bool> {
        let mut state = self.storage.state();
        if state.flock_is_ineffective {
            return Ok(true);
        }
        let process = state.current_process.id;
        let description = self.description;
        let lock = state.locks.entry(self.inode).or_insert(Lock { description, process });
        Ok(lock.description == description)
    }
}

impl Drop for MemoryFile {
    fn drop(&mut self) {
        let mut state = self.storage.state();
        let process = state.current_process.id;
        // In a forked child the lock stays: the parent's copy of the descriptor holds it.
        state.locks.retain(|_, lock| lock.description != self.description || lock.process != process);
        state.open.remove(&self.description);
        state.forget_unreferenced(Some(self.inode));
    }
}

#[cfg(test)]
mod tests;
