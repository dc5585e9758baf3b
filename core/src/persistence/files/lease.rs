//! Ownership: the lock that only one writer holds, in all processes, and the note that says who (`format.md` 6.3).
//!
//! The lock is flock(2) on `session.lock`. The kernel drops it when its holder dies, so there is nothing stale to break and nothing to
//! keep alive. The file stays for ever: later lockers compare its identity with that of the path.

use crate::error::{Code, Error, Result};
use crate::format::names::{LOCK_FILE_NAME, OWNER_FILE_NAME};
use crate::json::{Json, ObjectText};
use crate::persistence::contract::Notice;
use crate::storage::{FileMetadata, OpenHow, ProcessIdentity, Storage, StorageFile};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// How often a lock path that changes under us is tried (`format.md` 9.1).
const LOCK_ATTEMPTS_MAX: usize = 3;

/// The note about an owner is a line; anything longer is none of ours.
const OWNER_BYTES_MAX: usize = 4096;

/// Exclusive ownership of a session, until dropped.
#[derive(Debug)]
pub(super) struct Lease {
    /// Holds the lock: it goes when this is dropped.
    _file: Arc<dyn StorageFile>,
    identity: FileMetadata,
    directory: PathBuf,
    /// Whether the lock keeps others away: not where every descriptor is granted it.
    is_effective: bool,
}

impl Lease {
    /// Takes the lock of a session folder, which must exist.
    ///
    /// # Errors
    /// `SESSION_ALREADY_OWNED`, `IO`.
    pub(super) fn acquire(storage: &dyn Storage, directory: &Path, id: &str) -> Result<Lease> {
        let path = directory.join(LOCK_FILE_NAME);
        let failed =
            |doing: &str, error: &io::Error| Error::io(doing, error).with_path(&path).with_session_id(id);
        for _ in 0..LOCK_ATTEMPTS_MAX {
            let file =
                storage.open(&path, OpenHow::Lock).map_err(|error| failed("open the lock file", &error))?;
            if !file.try_lock().map_err(|error| failed("take the lock", &error))? {
                return Err(owned(storage, directory, id));
            }
            let identity = file.metadata().map_err(|error| failed("look at the lock file", &error))?;
            match storage.metadata(&path) {
                Ok(there) if there.is_same_file(&identity) => {
                    let second = storage.open(&path, OpenHow::Lock).and_then(|second| second.try_lock());
                    let is_effective = !second.map_err(|error| failed("try the lock", &error))?;
                    let directory = directory.to_owned();
                    return Ok(Lease { _file: file, identity, directory, is_effective });
                }
                // Removed or replaced between opening and locking: what we hold is nobody's lock.
                Ok(_) => {}
                Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                Err(error) => return Err(failed("look at the lock file", &error)),
            }
        }
        Err(owned(storage, directory, id))
    }

    /// What the handle has to be told, where the lock keeps nobody away.
    pub(super) fn notice(&self) -> Option<Notice> {
        let path = self.directory.join(LOCK_FILE_NAME);
        (!self.is_effective).then_some(Notice::LockIneffective { path })
    }

    /// Whether the lock file is still the one that was locked.
    pub(super) fn is_held(&self, storage: &dyn Storage) -> io::Result<bool> {
        match storage.metadata(&self.directory.join(LOCK_FILE_NAME)) {
            Ok(there) => Ok(there.is_same_file(&self.identity)),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
            Err(error) => Err(error),
        }
    }

    /// Writes the note that names this process, for other programs' error messages.
    pub(super) fn write_owner(&self, storage: &dyn Storage) -> io::Result<()> {
        let process = storage.current_process()?;
        let mut text = ObjectText::new();
        text.number("pid", u64::from(process.id));
        text.string("began", &process.began);
        text.string("program", &process.program);
        let text = text.finish() + "\n";
        let file = storage.open(&self.directory.join(OWNER_FILE_NAME), OpenHow::CreateOrTruncate)?;
        let mut rest = text.as_bytes();
        while !rest.is_empty() {
            match file.append(rest)? {
                0 => return Err(io::ErrorKind::WriteZero.into()),
                written => rest = &rest[written..],
            }
        }
        Ok(())
    }

    /// Removes the note; the lock itself goes when the lease is dropped.
    pub(super) fn remove_owner(&self, storage: &dyn Storage) -> io::Result<()> {
        match storage.remove_file(&self.directory.join(OWNER_FILE_NAME)) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
            _ => Ok(()),
        }
    }
}

fn owned(storage: &dyn Storage, directory: &Path, id: &str) -> Error {
    let owner = owner_text(storage, directory);
    let by = owner.as_deref().unwrap_or("another process");
    let error = Error::new(Code::SessionAlreadyOwned, format!("session {id} is open for writing by {by}"))
        .with_session_id(id)
        .with_path(directory);
    match owner {
        Some(owner) => error.with_owner(owner),
        None => error,
    }
}

/// The live owner that the note names, in words.
pub(super) fn owner_text(storage: &dyn Storage, directory: &Path) -> Option<String> {
    live_owner(storage, directory).map(|process| in_words(&process))
}

fn in_words(process: &ProcessIdentity) -> String {
    format!("process {} ({})", process.id, process.program)
}

/// The live writer in words, as far as that is known: the owner that the note names, or, for writers of other programs, whoever holds the
/// lock. The lock is not tried: that would refuse a writer that comes at this moment.
pub(super) fn writer_text(storage: &dyn Storage, directory: &Path) -> Option<String> {
    owner_text(storage, directory).or_else(|| lock_holder_text(storage, directory))
}

fn lock_holder_text(storage: &dyn Storage, directory: &Path) -> Option<String> {
    let file = storage.metadata(&directory.join(LOCK_FILE_NAME)).ok()?;
    let id = storage.lock_holder(&file).ok()??;
    match storage.process(id) {
        Ok(Some(process)) => Some(in_words(&process)),
        // Held, so by somebody who lives: who took the lock left it to a process of its own, or cannot be looked at.
        _ => Some(format!("a process that holds the lock of process {id}")),
    }
}

/// Who the note names, if that very process is alive: a process id alone may have been used again.
fn live_owner(storage: &dyn Storage, directory: &Path) -> Option<ProcessIdentity> {
    let file = storage.open(&directory.join(OWNER_FILE_NAME), OpenHow::Read).ok()?;
    let mut bytes = vec![0; OWNER_BYTES_MAX];
    let length = file.read_at(&mut bytes, 0).ok()?;
    let text = String::from_utf8_lossy(bytes.get(..length)?);
    let note = Json::parse(&text, 4).ok()?;
    let id = u32::try_from(note.get("pid")?.as_count()?).ok()?;
    let alive = storage.process(id).ok()??;
    (note.get("began")?.as_str()? == alive.began).then_some(alive)
}
