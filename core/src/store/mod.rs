//! The front door: a root, its sessions, and everything that can be asked of them.
//!
//! [`Store`] opens a root and puts the rooms together. A [`Session`] records one run: events are accepted in memory, written in frames,
//! and on the disk when [`Session::flush`] has returned. A log handle ([`Store::open_log`]) is one floor below: whole rows, each append on
//! the disk when it returns.

mod session;

use session::Recording;
pub use session::{Pending, Session, WAITING_BYTES_MAX, WRITE_BEHIND_BYTES};

use crate::cancel::CancelToken;
use crate::error::{Code, Error, Result};
use crate::format::EventRange;
use crate::format::header::SessionHeader;
use crate::format::names::Encoding;
use crate::format::reader::ReadLimits;
use crate::persistence::files::{FilePersistence, FileSettings};
use crate::persistence::memory::MemoryPersistence;
use crate::persistence::{
    Access, Events, ListMode, Listing, Removal, SessionLog, SessionPersistence, Snapshot,
};
use crate::query::{self, Rows, Salvage, Stats, Verifications};
use crate::storage::{OsStorage, Storage, random_uuid};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

/// What a new session is to be. Everything has a default.
///
/// ```
/// use dsh_session_core::NewSession;
/// let new = NewSession::new().cwd("/repo").agent_preset("minimal");
/// assert_eq!(new.header.cwd.as_deref(), Some("/repo"));
/// ```
#[derive(Clone, Debug)]
pub struct NewSession {
    /// The header; an empty id and a `created_at` of 0 are filled in by [`Store::create`].
    pub header: SessionHeader,
    /// The length of a fork-inherited prefix, for a seeded header.
    pub inherited_event_count: Option<u64>,
}

impl NewSession {
    /// An unseeded session with a minted id, created now.
    #[must_use]
    pub fn new() -> NewSession {
        NewSession { header: SessionHeader::new("", 0), inherited_event_count: None }
    }

    /// From a JSON object with any of `id`, `createdAt`, `cwd`, `parentSession`, `origin`, `delegationDepth`, `agentPreset`,
    /// `isSeeded`: the form that C, Python and the command line take.
    ///
    /// # Errors
    /// `INVALID_ARGUMENT`, naming the key.
    pub fn from_json(text: &str) -> Result<NewSession> {
        let header = SessionHeader::from_json(text, SessionHeader::new("", 0))
            .map_err(|fault| Error::new(Code::InvalidArgument, fault.to_string()))?;
        Ok(NewSession { header, inherited_event_count: None })
    }

    /// Sets the id instead of minting one.
    #[must_use]
    pub fn id(mut self, id: impl Into<String>) -> NewSession {
        self.header.id = id.into();
        self
    }

    /// Sets the working directory, an absolute path.
    #[must_use]
    pub fn cwd(mut self, cwd: impl Into<String>) -> NewSession {
        self.header.cwd = Some(cwd.into());
        self
    }

    /// Names the session that this one comes from.
    #[must_use]
    pub fn parent_session(mut self, id: impl Into<String>) -> NewSession {
        self.header.parent_session = Some(id.into());
        self
    }

    /// Names the agent preset.
    #[must_use]
    pub fn agent_preset(mut self, preset: impl Into<String>) -> NewSession {
        self.header.agent_preset = Some(preset.into());
        self
    }
}

impl Default for NewSession {
    fn default() -> Self {
        NewSession::new()
    }
}

/// Settings of a store before it is opened.
#[derive(Debug)]
pub struct StoreBuilder {
    root: Option<PathBuf>,
    storage: Arc<dyn Storage>,
    settings: FileSettings,
}

impl StoreBuilder {
    /// The encoding of new sessions; unset, what the root uses, and zstd in an empty root.
    #[must_use]
    pub fn encoding(mut self, encoding: Encoding) -> StoreBuilder {
        self.settings.encoding = Some(encoding);
        self
    }

    /// The bounds of what is read.
    #[must_use]
    pub fn limits(mut self, limits: ReadLimits) -> StoreBuilder {
        self.settings.limits = limits;
        self
    }

    /// Another file system, clock and randomness than the operating system's.
    #[must_use]
    pub fn storage(mut self, storage: Arc<dyn Storage>) -> StoreBuilder {
        self.storage = storage;
        self
    }

    /// Opens the store. The root need not exist: the first session makes it.
    ///
    /// # Errors
    /// `IO` if the root is there and is no readable folder.
    pub fn open(self) -> Result<Store> {
        let (persistence, root): (Arc<dyn SessionPersistence>, _) = match self.root {
            Some(root) => {
                let files = FilePersistence::with_storage(root, Arc::clone(&self.storage), self.settings)?;
                let root = files.root().to_owned();
                (Arc::new(files), Some(root))
            }
            None => (Arc::new(MemoryPersistence::new()), None),
        };
        let process_id = self.storage.process_id();
        let sessions = Mutex::default();
        Ok(Store {
            shared: Arc::new(Shared { persistence, storage: self.storage, root, process_id, sessions }),
        })
    }
}

/// A root of sessions, opened. Clones share everything.
///
/// ```
/// use dsh_session_core::{EventDraft, NewSession, Store};
/// # fn main() -> dsh_session_core::Result<()> {
/// # let folder = tempfile::tempdir().unwrap();
/// let store = Store::open(folder.path().join("sessions"))?;
/// let session = store.create(NewSession::new().cwd("/repo"))?;
/// session.append(&EventDraft::new("turn/start", r#"{"turn":1}"#)?)?;
/// session.flush()?; // on disk, whatever happens next
/// for event in store.events(session.id(), dsh_session_core::EventRange::newest(100))? {
///     println!("{}", event?.row());
/// }
/// session.close()?;
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug)]
pub struct Store {
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    persistence: Arc<dyn SessionPersistence>,
    storage: Arc<dyn Storage>,
    root: Option<PathBuf>,
    process_id: u32,
    /// Sessions opened here, for [`Store::flush`]; those that are gone are dropped from it as others join.
    sessions: Mutex<Vec<Weak<Recording>>>,
}

impl Store {
    /// Opens a root with default settings.
    ///
    /// # Errors
    /// `IO` if the root is there and is no readable folder.
    pub fn open(root: impl AsRef<Path>) -> Result<Store> {
        Store::builder(root).open()
    }

    /// Settings for a root.
    #[must_use]
    pub fn builder(root: impl AsRef<Path>) -> StoreBuilder {
        let root = Some(root.as_ref().to_owned());
        StoreBuilder { root, storage: Arc::new(OsStorage::new()), settings: FileSettings::default() }
    }

    /// A store without a root: it writes no file, and its sessions go with it.
    ///
    /// # Errors
    /// None today; the same form as [`open`](Self::open).
    pub fn in_memory() -> Result<Store> {
        StoreBuilder { root: None, storage: Arc::new(OsStorage::new()), settings: FileSettings::default() }
            .open()
    }

    /// The root, absolute; `None` for a store in memory.
    #[must_use]
    pub fn root(&self) -> Option<&Path> {
        self.shared.root.as_deref()
    }

    /// The backend, for callers that work with log handles.
    #[must_use]
    pub fn persistence(&self) -> &Arc<dyn SessionPersistence> {
        &self.shared.persistence
    }

    /// A new session, open for appending; on the disk with its first written batch, or with [`Session::flush`].
    ///
    /// # Errors
    /// `INVALID_ARGUMENT`, `SESSION_ALREADY_EXISTS`, `SESSION_CONFLICT`, `IO`.
    pub fn create(&self, new: NewSession) -> Result<Session> {
        let NewSession { mut header, inherited_event_count } = new;
        if header.id.is_empty() {
            header.id = self.mint_id()?;
        }
        if header.created_at == 0 {
            header.created_at = u64::try_from(self.shared.storage.now_unix_ms()).unwrap_or(0);
        }
        let log = self.shared.persistence.create(&header, inherited_event_count, &CancelToken::new())?;
        self.session(log)
    }

    /// `session-` and a random UUID (version 4).
    fn mint_id(&self) -> Result<String> {
        self.mint_message_id().map(|id| format!("session-{id}"))
    }

    /// An id for a new message: a random UUID (version 4, `events.md` 4.1).
    ///
    /// # Errors
    /// `IO` if the system gives no randomness.
    pub fn mint_message_id(&self) -> Result<String> {
        random_uuid(&*self.shared.storage).map_err(|error| Error::io("get random bytes", &error))
    }

    /// A stored session, open for appending where its log ends. The whole log is read and checked.
    ///
    /// # Errors
    /// Those of [`SessionPersistence::open`] for writing.
    pub fn open_session(&self, id: &str) -> Result<Session> {
        self.open_session_with(id, &CancelToken::new())
    }

    /// As [`open_session`](Self::open_session), stoppable.
    ///
    /// # Errors
    /// Those of [`SessionPersistence::open`] for writing.
    pub fn open_session_with(&self, id: &str, cancel: &CancelToken) -> Result<Session> {
        let log = self.shared.persistence.open(id, Access::Write, cancel)?;
        self.session(log)
    }

    fn session(&self, log: Arc<dyn SessionLog>) -> Result<Session> {
        let session = Session::new(log, Arc::clone(&self.shared.storage))?;
        let mut sessions = self.sessions();
        sessions.retain(|known| known.strong_count() > 0);
        sessions.push(Arc::downgrade(session.recording()));
        drop(sessions);
        Ok(session)
    }

    fn sessions(&self) -> MutexGuard<'_, Vec<Weak<Recording>>> {
        self.shared.sessions.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A log handle.
    ///
    /// # Errors
    /// Those of [`SessionPersistence::open`].
    pub fn open_log(&self, id: &str, access: Access) -> Result<Arc<dyn SessionLog>> {
        self.shared.persistence.open(id, access, &CancelToken::new())
    }

    /// A log handle on a new session, for whole rows (importers).
    ///
    /// # Errors
    /// Those of [`SessionPersistence::create`].
    pub fn create_log(&self, new: NewSession) -> Result<Arc<dyn SessionLog>> {
        let NewSession { header, inherited_event_count } = new;
        self.shared.persistence.create(&header, inherited_event_count, &CancelToken::new())
    }

    /// Events of a stored session, walked in bounded memory.
    ///
    /// # Errors
    /// Those of [`SessionPersistence::open`] for reading and of [`SessionLog::events`].
    pub fn events(&self, id: &str, range: EventRange) -> Result<Events> {
        self.events_with(id, range, &CancelToken::new())
    }

    /// As [`events`](Self::events), stoppable.
    ///
    /// # Errors
    /// As there.
    pub fn events_with(&self, id: &str, range: EventRange, cancel: &CancelToken) -> Result<Events> {
        self.shared.persistence.open(id, Access::Read, cancel)?.events(range, cancel)
    }

    /// One session without its events; `None` if there is none.
    ///
    /// # Errors
    /// Those of [`SessionPersistence::stat`].
    pub fn stat(&self, id: &str) -> Result<Option<Snapshot>> {
        self.shared.persistence.stat(id, &CancelToken::new())
    }

    /// Every session, most recently created first, and everything in the root that is not usable.
    ///
    /// # Errors
    /// An unreadable root; in [`ListMode::Strict`] also findings about a single session.
    pub fn list(&self, mode: ListMode) -> Result<Listing> {
        self.list_with(mode, &CancelToken::new())
    }

    /// As [`list`](Self::list), stoppable.
    ///
    /// # Errors
    /// As there.
    pub fn list_with(&self, mode: ListMode, cancel: &CancelToken) -> Result<Listing> {
        let mut listing = self.shared.persistence.list(mode, cancel)?;
        listing.sessions.sort_by(|a, b| {
            b.header.created_at.cmp(&a.header.created_at).then_with(|| a.header.id.cmp(&b.header.id))
        });
        listing.problems.sort_by(|a, b| a.path.cmp(&b.path));
        Ok(listing)
    }

    /// Judges every session, or one, in the order of their paths: an iterator whose every step reads one log to its end. Nothing is
    /// changed. An id that was asked for and does not exist is an error of the first step.
    ///
    /// ```
    /// # fn main() -> dsh_session_core::Result<()> {
    /// # let folder = tempfile::tempdir().unwrap();
    /// # let store = dsh_session_core::Store::open(folder.path())?;
    /// for judged in store.verify(None, &dsh_session_core::CancelToken::new())? {
    ///     println!("{}", judged?.to_json());
    /// }
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// An unreadable root, `CANCELLED`; in the iterator also `SESSION_NOT_FOUND` and `INVALID_ARGUMENT` for an id that was asked for.
    pub fn verify(&self, id: Option<&str>, cancel: &CancelToken) -> Result<Verifications> {
        Verifications::new(&self.shared.persistence, id, cancel)
    }

    /// The events of a session up to its damage.
    ///
    /// # Errors
    /// `SESSION_NOT_FOUND`, `SESSION_CONFLICT`, `FORMAT_UNSUPPORTED` (another version), `INVALID_ARGUMENT`, `IO`. A damaged header is
    /// no error here: there are no events before it.
    pub fn salvage(&self, id: &str) -> Result<Salvage> {
        self.salvage_with(id, &CancelToken::new())
    }

    /// As [`salvage`](Self::salvage), stoppable.
    ///
    /// # Errors
    /// As there, and `CANCELLED`.
    pub fn salvage_with(&self, id: &str, cancel: &CancelToken) -> Result<Salvage> {
        Salvage::open(&self.shared.persistence, id, cancel)
    }

    /// Every row of a session's log as text, of any version, damaged or not, header first (`design.md` 5, Raw reading).
    ///
    /// # Errors
    /// `SESSION_NOT_FOUND`, `SESSION_CONFLICT`, `INVALID_ARGUMENT`, `CANCELLED`, `IO`.
    pub fn rows(&self, id: &str, cancel: &CancelToken) -> Result<Rows> {
        query::rows(&*self.shared.persistence, id, cancel)
    }

    /// Counts, sizes, largest rows and tokens of one session, or of all; reads every log.
    ///
    /// # Errors
    /// Those of [`events`](Self::events) for one session; for all an unreadable root and `CANCELLED`: sessions that cannot be read are
    /// counted as such.
    pub fn stats(&self, id: Option<&str>, cancel: &CancelToken) -> Result<Stats> {
        query::stats(&*self.shared.persistence, id, cancel)
    }

    /// Takes a session away for good, or moves its folder aside, to `<root>.trash/` beside the root, and tells where to.
    ///
    /// # Errors
    /// Those of [`SessionPersistence::remove`].
    pub fn remove(&self, id: &str, how: Removal) -> Result<Option<PathBuf>> {
        self.shared.persistence.remove(id, how, &CancelToken::new())
    }

    /// Writes what waits in every open session, and makes every open session and log handle durable; goes on past failures.
    ///
    /// # Errors
    /// The failures, together.
    pub fn flush(&self) -> Result<()> {
        // In a forked child before any lock is waited for.
        if self.shared.storage.process_id() != self.shared.process_id {
            return self.shared.persistence.flush();
        }
        let recordings: Vec<_> = self.sessions().iter().filter_map(Weak::upgrade).collect();
        let go_on = CancelToken::new();
        let mut errors: Vec<Error> = recordings
            .iter()
            .filter_map(|recording| recording.flush(&go_on).err())
            // Closed meanwhile: closing wrote everything.
            .filter(|error| error.code() != Code::HandleClosed)
            .collect();
        if let Err(error) = self.shared.persistence.flush() {
            errors.push(error);
        }
        if errors.is_empty() { Ok(()) } else { Err(Error::several(errors)) }
    }
}
