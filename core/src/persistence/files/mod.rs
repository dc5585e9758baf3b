//! The file backend: one folder a session under a root, one append-only log in it (`format.md` 1, 6).
//!
//! | File | Holds |
//! | --- | --- |
//! | `locate` | from an id to a file, and the walk over a whole root |
//! | `listing` | snapshots and problems of a root |
//! | `lease` | the exclusive lock of a writer and the note that names it |
//! | `checked` | what this process has checked already |
//! | `publication` | the first bytes of a session: folders, staging, link |
//! | `writer` | appends, roll-back, repair of a torn tail, failed syncs |
//! | `removal` | taking a session away |
//! | `reading` | reads beside a writer: fresh, stable, never going back |
//! | `log` | the handle that ties these together |

mod checked;
mod lease;
mod listing;
mod locate;
mod log;
mod publication;
mod reading;
mod removal;
mod writer;

use super::contract::{
    Access, EventSink, ListMode, Listing, NewLog, Removal, Resumed, Revision, SessionLog, SessionPersistence,
    Snapshot,
};
use super::rules::check_new_header;
use crate::cancel::CancelToken;
use crate::error::{Code, Error, Result};
use crate::event::Vocabulary;
use crate::format::header::SessionHeader;
use crate::format::names::Encoding;
use crate::format::raw_rows::RawLog;
use crate::format::reader::ReadLimits;
use crate::storage::{FileKind, OsStorage, Storage};
use checked::CheckedLogs;
use log::FileLog;

pub use listing::revision;
use std::collections::HashMap;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

/// Settings of the file backend.
#[derive(Clone, Debug, Default)]
pub struct FileSettings {
    /// The encoding of new sessions. Unset: what the root already uses, zstd in an empty root. Set: that one, and creating a session
    /// in a root that uses the other one is refused, because other readers refuse a mixed root as a whole.
    pub encoding: Option<Encoding>,
    /// Bounds of what is read.
    pub limits: ReadLimits,
    /// The event types that the host reads and appends: every read and every append of the backend asks it (`format.md` 5.6).
    pub vocabulary: Vocabulary,
}

/// Session logs as files under one root.
///
/// ```
/// use dsh_session_core::CancelToken;
/// use dsh_session_core::event::Event;
/// use dsh_session_core::format::header::SessionHeader;
/// use dsh_session_core::persistence::{Access, SessionLog, SessionPersistence};
/// use dsh_session_core::persistence::files::FilePersistence;
/// # fn main() -> dsh_session_core::Result<()> {
/// # let folder = tempfile::tempdir().unwrap();
/// let persistence = FilePersistence::open(folder.path().join("sessions"))?;
/// let go_on = CancelToken::new();
/// let log = persistence.create(&SessionHeader::new("s1", 1_760_000_000_000), None, &go_on)?;
/// log.append(&[Event::from_row(br#"{"type":"turn/start","seq":0,"time":1,"data":{"turn":1}}"#)?], &go_on)?;
/// log.close()?;
/// assert_eq!(persistence.open("s1", Access::Read, &go_on)?.event_count(&go_on)?, 1);
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug)]
pub struct FilePersistence {
    shared: Arc<Shared>,
}

/// What the backend and its handles share.
#[derive(Debug)]
struct Shared {
    root: PathBuf,
    storage: Arc<dyn Storage>,
    settings: FileSettings,
    /// The process that opened the backend; a forked child must not use it.
    process_id: u32,
    state: Mutex<State>,
    checked: CheckedLogs,
}

#[derive(Debug, Default)]
struct State {
    /// Sessions that this instance owns for writing.
    owned: HashMap<String, Weak<FileLog>>,
    /// Sessions created here that are not on the disk yet.
    pending: HashMap<String, Snapshot>,
    /// Makes the revisions of pending sessions distinct.
    created: u64,
}

fn absolute(root: &Path) -> Result<PathBuf> {
    if root.as_os_str().as_encoded_bytes().contains(&0) {
        return Err(Error::new(Code::InvalidArgument, "the path of the root holds a NUL"));
    }
    std::path::absolute(root)
        .map_err(|error| Error::io("make the root's path absolute", &error).with_path(root))
}

/// The root is a folder that can be read, or not there yet.
fn check_root(storage: &dyn Storage, root: &Path) -> Result<()> {
    let absence = match storage.read_directory(root) {
        Ok(_) => return Ok(()),
        Err(error) if error.kind() == io::ErrorKind::NotFound => error,
        Err(error) => return Err(Error::io("read the root", &error).with_path(root)),
    };
    // A link whose target is not there counts as absent too, but no session could make a folder in its place. It is looked for by name,
    // since asking for a path follows links.
    let (Some(parent), Some(name)) = (root.parent(), root.file_name()) else { return Ok(()) };
    let entries = match storage.read_directory(parent) {
        Ok(entries) => entries,
        // Nothing is there, or it cannot be listed: whether it can be used the first session will tell.
        Err(error) if matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::PermissionDenied) => {
            return Ok(());
        }
        Err(error) => return Err(Error::io("read the folder of the root", &error).with_path(parent)),
    };
    if entries.iter().any(|entry| entry.name == name && entry.kind == FileKind::Link) {
        let error = Error::io("read the root, a symbolic link whose target is not there", &absence);
        return Err(error
            .with_path(root)
            .with_advice("make the folder that the link names, or take the link away"));
    }
    Ok(())
}

impl FilePersistence {
    /// A backend on `root` with the operating system's files and default settings. The root need not exist: the first session makes
    /// it.
    ///
    /// # Errors
    /// `INVALID_ARGUMENT` for a path with a NUL; `IO` if the root is there and is no readable folder, or a link to nothing.
    pub fn open(root: impl AsRef<Path>) -> Result<FilePersistence> {
        FilePersistence::with_storage(root, Arc::new(OsStorage::new()), FileSettings::default())
    }

    /// A backend on `root`, made absolute now, with a storage and settings.
    ///
    /// # Errors
    /// `INVALID_ARGUMENT` for a path with a NUL; `IO` if the root is there and is no readable folder, or a link to nothing.
    pub fn with_storage(
        root: impl AsRef<Path>,
        storage: Arc<dyn Storage>,
        settings: FileSettings,
    ) -> Result<FilePersistence> {
        let root = absolute(root.as_ref())?;
        check_root(&*storage, &root)?;
        let process_id = storage.process_id();
        let shared = Shared {
            root,
            storage,
            settings,
            process_id,
            state: Mutex::default(),
            checked: CheckedLogs::default(),
        };
        Ok(FilePersistence { shared: Arc::new(shared) })
    }

    /// The root, absolute.
    #[must_use]
    pub fn root(&self) -> &Path {
        &self.shared.root
    }

    fn create_log(
        &self,
        header: &SessionHeader,
        inherited: Option<u64>,
        cancel: &CancelToken,
    ) -> Result<Arc<FileLog>> {
        let shared = &self.shared;
        shared.check_process()?;
        check_new_header(header, inherited)?;
        cancel.check()?;
        let claim = shared.claim(&header.id, Code::SessionAlreadyExists)?;
        shared.refuse_existing(&header.id)?;
        let encoding = shared.encoding_for_new_session()?;
        let log = Arc::new(FileLog::created(shared, header.clone(), inherited.unwrap_or(0), encoding)?);
        claim.keep_pending(&log);
        Ok(log)
    }
}

fn already_exists(id: &str) -> Error {
    Error::new(Code::SessionAlreadyExists, format!("session {id} exists already")).with_session_id(id)
}

impl Shared {
    /// Fails in a forked child: before any lock is waited for.
    fn check_process(&self) -> Result<()> {
        if self.is_forked() {
            let message = format!("this store was opened by process {}, not by its child", self.process_id);
            return Err(Error::new(Code::ForkedProcess, message));
        }
        Ok(())
    }

    fn is_forked(&self) -> bool {
        self.storage.process_id() != self.process_id
    }

    /// The state; never held across I/O. A panic elsewhere cannot leave it half changed, so poison is passed over.
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn pending(&self, id: &str) -> Option<Snapshot> {
        self.state().pending.get(id).cloned()
    }

    /// Takes the id for this instance; `taken` is the code when somebody here has it.
    fn claim<'a>(&'a self, id: &str, taken: Code) -> Result<Claim<'a>> {
        let mut state = self.state();
        if state.owned.contains_key(id) {
            let message = match taken {
                Code::SessionAlreadyExists => format!("session {id} exists already"),
                _ => format!("session {id} is open for writing in this process"),
            };
            let error = Error::new(taken, message).with_session_id(id);
            return Err(if taken == Code::SessionAlreadyOwned {
                error.with_owner("this process")
            } else {
                error
            });
        }
        state.owned.insert(id.to_owned(), Weak::new());
        Ok(Claim { shared: self, id: id.to_owned(), is_kept: false })
    }

    fn release_claim(&self, id: &str) {
        let mut state = self.state();
        state.owned.remove(id);
        state.pending.remove(id);
    }

    fn no_longer_pending(&self, id: &str) {
        self.state().pending.remove(id);
    }

    /// What the root uses, or what the settings say where it is empty.
    fn encoding_for_new_session(&self) -> Result<Encoding> {
        let used = self.first_encoding_in_root()?;
        match (self.settings.encoding, used) {
            (Some(wanted), Some((used, path))) if wanted != used => {
                let message =
                    format!("the root uses the encoding `{}`, not `{}`", used.as_str(), wanted.as_str());
                Err(Error::new(Code::SessionConflict, message).with_path(path).with_advice(
                    "leave the encoding unset to follow the root, or use another root: other readers refuse a mixed one",
                ))
            }
            (Some(wanted), _) => Ok(wanted),
            (None, Some((used, _))) => Ok(used),
            (None, None) => Ok(Encoding::Zstd),
        }
    }
}

/// An id taken in this instance; given back on drop unless kept.
struct Claim<'a> {
    shared: &'a Shared,
    id: String,
    is_kept: bool,
}

impl Claim<'_> {
    fn keep(mut self, log: &Arc<FileLog>) {
        self.shared.state().owned.insert(self.id.clone(), Arc::downgrade(log));
        self.is_kept = true;
    }

    fn keep_pending(mut self, log: &Arc<FileLog>) {
        let mut state = self.shared.state();
        state.created += 1;
        let revision = Revision(format!("memory:files:{}", state.created));
        let snapshot = Snapshot {
            header: log.header().clone(),
            format_status: None,
            revision,
            event_count: None,
            size_bytes: None,
            path: None,
        };
        state.pending.insert(self.id.clone(), snapshot);
        state.owned.insert(self.id.clone(), Arc::downgrade(log));
        self.is_kept = true;
    }
}

impl Drop for Claim<'_> {
    fn drop(&mut self) {
        if !self.is_kept {
            self.shared.release_claim(&self.id);
        }
    }
}

impl SessionPersistence for FilePersistence {
    fn create(
        &self,
        header: &SessionHeader,
        inherited_event_count: Option<u64>,
        cancel: &CancelToken,
    ) -> Result<Arc<dyn SessionLog>> {
        Ok(self.create_log(header, inherited_event_count, cancel)?)
    }

    fn create_with(&self, new: NewLog<'_>, cancel: &CancelToken) -> Result<Arc<dyn SessionLog>> {
        let log = self.create_log(new.header, new.inherited_event_count, cancel)?;
        match log.begin(&new, cancel) {
            Ok(()) => Ok(log),
            Err(error) => {
                // The handle is given up unseen: its failure to close would tell nothing new.
                let _ = log.close();
                Err(error)
            }
        }
    }

    fn open(&self, id: &str, access: Access, cancel: &CancelToken) -> Result<Arc<dyn SessionLog>> {
        let shared = &self.shared;
        shared.check_process()?;
        cancel.check()?;
        if access == Access::Read {
            return Ok(Arc::new(FileLog::open_read(shared, id)?));
        }
        let claim = shared.claim(id, Code::SessionAlreadyOwned)?;
        let log = Arc::new(FileLog::open_write(shared, id, cancel)?);
        claim.keep(&log);
        Ok(log)
    }

    fn resume(&self, id: &str, cancel: &CancelToken, sink: &mut EventSink<'_>) -> Result<Resumed> {
        let shared = &self.shared;
        shared.check_process()?;
        cancel.check()?;
        let claim = shared.claim(id, Code::SessionAlreadyOwned)?;
        let (log, checker) = FileLog::resume(shared, id, cancel, sink)?;
        let log = Arc::new(log);
        claim.keep(&log);
        Ok(Resumed { log, checker })
    }

    fn stat(&self, id: &str, cancel: &CancelToken) -> Result<Option<Snapshot>> {
        self.shared.check_process()?;
        cancel.check()?;
        self.shared.stat(id)
    }

    fn list(&self, mode: ListMode, cancel: &CancelToken) -> Result<Listing> {
        self.shared.check_process()?;
        self.shared.list(mode, cancel)
    }

    fn raw_log(&self, id: &str, cancel: &CancelToken) -> Result<Option<RawLog>> {
        self.shared.check_process()?;
        cancel.check()?;
        self.shared.raw_log(id)
    }

    fn writer_of(&self, id: &str) -> Result<Option<String>> {
        self.shared.check_process()?;
        let located = self.shared.find(id)?.ok_or_else(|| log::not_found(id))?;
        let directory = located.path.parent().unwrap_or(&self.shared.root);
        Ok(lease::writer_text(&*self.shared.storage, directory))
    }

    fn remove(&self, id: &str, how: Removal, cancel: &CancelToken) -> Result<Option<PathBuf>> {
        self.shared.check_process()?;
        cancel.check()?;
        self.shared.remove(id, how, cancel)
    }

    fn flush(&self) -> Result<()> {
        self.shared.check_process()?;
        let logs: Vec<_> = self.shared.state().owned.values().filter_map(Weak::upgrade).collect();
        let go_on = CancelToken::new();
        let mut errors = Vec::new();
        for log in logs {
            match log.flush(&go_on) {
                Ok(()) => {}
                // Closed meanwhile: closing made everything durable.
                Err(error) if error.code() == Code::HandleClosed => {}
                Err(error) => errors.push(error),
            }
        }
        if errors.is_empty() { Ok(()) } else { Err(Error::several(errors)) }
    }
}
