//! A storage whose call number *k* fails.
//!
//! A test runs an operation once to count its calls, then once for each of them with that call failing, and looks at
//! what the caller was told and what the disk holds. A call fails *before* its effect (nothing happened) or *after*
//! it (a rename that was done, a sync that was, and an error all the same: a network file system's reply that got
//! lost); a write may also be short, alone or before the error.

use crate::storage::{DirectoryEntry, FileMetadata, OpenHow, ProcessIdentity, Storage, StorageFile};
use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// How a call fails.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fault {
    /// The error, as a number of the system; none: the call only moves fewer bytes.
    error_code: Option<i32>,
    /// Bytes that a write (or a read) still moves.
    moved_bytes: Option<usize>,
    is_after_effect: bool,
}

impl Fault {
    /// The call does nothing and gives the system's error `code` (`ENOSPC`, `EIO`, …).
    #[must_use]
    pub const fn error(code: i32) -> Self {
        Fault { error_code: Some(code), moved_bytes: None, is_after_effect: false }
    }

    /// The call does all it should and gives the system's error `code` nevertheless.
    #[must_use]
    pub const fn error_after_effect(code: i32) -> Self {
        Fault { error_code: Some(code), moved_bytes: None, is_after_effect: true }
    }

    /// A write moves the first `bytes` bytes, then gives the error: bytes that nobody was told of are in the
    /// file. Any other call fails as with [`Fault::error`].
    #[must_use]
    pub const fn error_after_bytes(code: i32, bytes: usize) -> Self {
        Fault { error_code: Some(code), moved_bytes: Some(bytes), is_after_effect: false }
    }

    /// A write or a read moves at most `bytes` bytes and says so; a read at least 1, since 0 would mean the end.
    /// Any other call is unaffected.
    #[must_use]
    pub const fn short(bytes: usize) -> Self {
        Fault { error_code: None, moved_bytes: Some(bytes), is_after_effect: false }
    }

    /// Runs a call that moves no bytes.
    fn apply<T>(self, call: impl FnOnce() -> io::Result<T>) -> io::Result<T> {
        let Some(code) = self.error_code else { return call() };
        if self.is_after_effect {
            // What the call returned is dropped: an opened file is closed again.
            drop(call()?);
        }
        Err(io::Error::from_raw_os_error(code))
    }

    fn apply_to_append(self, file: &dyn StorageFile, bytes: &[u8]) -> io::Result<usize> {
        let Some(moved_bytes) = self.moved_bytes else { return self.apply(|| append_all(file, bytes)) };
        let part = bytes.get(..moved_bytes).unwrap_or(bytes);
        match self.error_code {
            None if part.is_empty() => Ok(0),
            None => file.append(part),
            Some(code) => {
                append_all(file, part)?;
                Err(io::Error::from_raw_os_error(code))
            }
        }
    }

    fn apply_to_read(self, file: &dyn StorageFile, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
        if self.error_code.is_some() {
            return self.apply(|| file.read_at(buffer, offset));
        }
        let count = buffer.len().min(self.moved_bytes.unwrap_or(usize::MAX).max(1));
        file.read_at(buffer.get_mut(..count).unwrap_or_default(), offset)
    }
}

fn append_all(file: &dyn StorageFile, bytes: &[u8]) -> io::Result<usize> {
    let mut written = 0;
    while let Some(rest) = bytes.get(written..).filter(|rest| !rest.is_empty()) {
        match file.append(rest)? {
            0 => break,
            count => written += count,
        }
    }
    Ok(written)
}

#[derive(Debug, Default)]
struct Plan {
    calls: u64,
    faults: BTreeMap<u64, Fault>,
    from: Option<(u64, Fault)>,
    fired: u64,
    open_files: usize,
    log: Vec<String>,
}

#[derive(Debug, Default)]
struct Shared {
    plan: Mutex<Plan>,
}

impl Shared {
    fn plan(&self) -> MutexGuard<'_, Plan> {
        self.plan.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Counts a call and says how it fails, if it does.
    fn enter(&self, name: &str, path: &Path) -> Option<Fault> {
        let mut plan = self.plan();
        plan.calls += 1;
        let number = plan.calls;
        let from = plan.from.filter(|(from, _)| number >= *from).map(|(_, fault)| fault);
        let fault = plan.faults.get(&number).copied().or(from);
        let file_name = path.file_name().unwrap_or(path.as_os_str()).display();
        let note = fault.map_or(String::new(), |fault| format!(" -> {fault:?}"));
        plan.log.push(format!("{number} {name} {file_name}{note}"));
        plan.fired += u64::from(fault.is_some());
        fault
    }

    fn call<T>(&self, name: &str, path: &Path, call: impl FnOnce() -> io::Result<T>) -> io::Result<T> {
        match self.enter(name, path) {
            Some(fault) => fault.apply(call),
            None => call(),
        }
    }
}

/// A storage whose calls are counted, from 1, and fail as planned. Each call of the two traits that may fail
/// counts, those of its open files too; the clock does not.
#[derive(Clone, Debug)]
pub struct FaultyStorage {
    inner: Arc<dyn Storage>,
    shared: Arc<Shared>,
}

impl FaultyStorage {
    /// Around `inner`, without any fault yet.
    #[must_use]
    pub fn new(inner: Arc<dyn Storage>) -> Self {
        FaultyStorage { inner, shared: Arc::default() }
    }

    /// The call number `number` fails; may be said for several.
    pub fn fail_call(&self, number: u64, fault: Fault) {
        self.shared.plan().faults.insert(number, fault);
    }

    /// These calls fail, for failures of a clean-up after a failure.
    pub fn fail_calls(&self, numbers: &[u64], fault: Fault) {
        self.shared.plan().faults.extend(numbers.iter().map(|number| (*number, fault)));
    }

    /// Every call from `number` on fails, as when the disk is pulled.
    pub fn fail_from(&self, number: u64, fault: Fault) {
        self.shared.plan().from = Some((number, fault));
    }

    /// Calls made so far.
    #[must_use]
    pub fn calls(&self) -> u64 {
        self.shared.plan().calls
    }

    /// How many calls a fault has struck: 0 tells a test that its fault came too late.
    #[must_use]
    pub fn fired(&self) -> u64 {
        self.shared.plan().fired
    }

    /// One line for each call: number, name, file, and the fault that struck it.
    #[must_use]
    pub fn log(&self) -> Vec<String> {
        self.shared.plan().log.clone()
    }

    /// No more faults; the count goes on.
    pub fn clear_faults(&self) {
        let mut plan = self.shared.plan();
        plan.faults.clear();
        plan.from = None;
    }

    /// No more faults, the count begins again, the log is empty.
    pub fn clear(&self) {
        let mut plan = self.shared.plan();
        *plan = Plan { open_files: plan.open_files, ..Plan::default() };
    }

    /// How many files are open through this storage: 0 when nothing leaked.
    #[must_use]
    pub fn open_files(&self) -> usize {
        self.shared.plan().open_files
    }
}

impl Storage for FaultyStorage {
    fn open(&self, path: &Path, how: OpenHow) -> io::Result<Arc<dyn StorageFile>> {
        let name = match how {
            OpenHow::Read => "open to read",
            OpenHow::Append => "open to append",
            OpenHow::CreateNew => "create",
            OpenHow::CreateOrTruncate => "create or truncate",
            OpenHow::Lock => "open the lock",
        };
        let inner = self.shared.call(name, path, || self.inner.open(path, how))?;
        self.shared.plan().open_files += 1;
        Ok(Arc::new(FaultyFile { inner, path: path.to_owned(), shared: Arc::clone(&self.shared) }))
    }

    fn metadata(&self, path: &Path) -> io::Result<FileMetadata> {
        self.shared.call("metadata", path, || self.inner.metadata(path))
    }

    fn read_directory(&self, path: &Path) -> io::Result<Vec<DirectoryEntry>> {
        self.shared.call("read directory", path, || self.inner.read_directory(path))
    }

    fn create_directory(&self, path: &Path) -> io::Result<()> {
        self.shared.call("create directory", path, || self.inner.create_directory(path))
    }

    fn sync_directory(&self, path: &Path) -> io::Result<()> {
        self.shared.call("sync directory", path, || self.inner.sync_directory(path))
    }

    fn hard_link(&self, original: &Path, link: &Path) -> io::Result<()> {
        self.shared.call("link", link, || self.inner.hard_link(original, link))
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        self.shared.call("rename", to, || self.inner.rename(from, to))
    }

    fn remove_file(&self, path: &Path) -> io::Result<()> {
        self.shared.call("remove file", path, || self.inner.remove_file(path))
    }

    fn remove_directory(&self, path: &Path) -> io::Result<()> {
        self.shared.call("remove directory", path, || self.inner.remove_directory(path))
    }

    fn canonicalize(&self, path: &Path) -> io::Result<PathBuf> {
        self.shared.call("canonicalize", path, || self.inner.canonicalize(path))
    }

    fn now_unix_ms(&self) -> i64 {
        self.inner.now_unix_ms()
    }

    fn fill_random(&self, bytes: &mut [u8]) -> io::Result<()> {
        self.shared.call("random bytes", Path::new(""), || self.inner.fill_random(bytes))
    }

    fn process_id(&self) -> u32 {
        self.inner.process_id()
    }

    fn current_process(&self) -> io::Result<ProcessIdentity> {
        self.shared.call("current process", Path::new(""), || self.inner.current_process())
    }

    fn process(&self, id: u32) -> io::Result<Option<ProcessIdentity>> {
        self.shared.call("process", Path::new(""), || self.inner.process(id))
    }

    fn lock_holder(&self, file: &FileMetadata) -> io::Result<Option<u32>> {
        self.shared.call("lock holder", Path::new(""), || self.inner.lock_holder(file))
    }
}

#[derive(Debug)]
struct FaultyFile {
    inner: Arc<dyn StorageFile>,
    path: PathBuf,
    shared: Arc<Shared>,
}

impl StorageFile for FaultyFile {
    fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
        match self.shared.enter("read", &self.path) {
            Some(fault) => fault.apply_to_read(&*self.inner, buffer, offset),
            None => self.inner.read_at(buffer, offset),
        }
    }

    fn append(&self, bytes: &[u8]) -> io::Result<usize> {
        match self.shared.enter("append", &self.path) {
            Some(fault) => fault.apply_to_append(&*self.inner, bytes),
            None => self.inner.append(bytes),
        }
    }

    fn metadata(&self) -> io::Result<FileMetadata> {
        self.shared.call("metadata of open file", &self.path, || self.inner.metadata())
    }

    fn truncate(&self, size: u64) -> io::Result<()> {
        self.shared.call("truncate", &self.path, || self.inner.truncate(size))
    }

    fn sync(&self) -> io::Result<()> {
        self.shared.call("sync", &self.path, || self.inner.sync())
    }

    fn try_lock(&self) -> io::Result<bool> {
        self.shared.call("lock", &self.path, || self.inner.try_lock())
    }
}

impl Drop for FaultyFile {
    fn drop(&mut self) {
        self.shared.plan().open_files -= 1;
    }
}

#[cfg(test)]
mod tests;
