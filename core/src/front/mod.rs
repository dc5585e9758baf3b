//! The front door: a root, its sessions, and everything that can be asked of them.
//!
//! [`Store`] opens a root and puts the rooms together: live sessions ([`SessionStore`]), their place on the disk (`recording`,
//! `write_behind`), what is stored ([`SessionPersistence`]), and questions about it. A log handle ([`Store::open_log`]) is one floor
//! below sessions: whole rows, each append on the disk when it returns.

mod exact_reads;
mod fork;
mod new_session;
mod recording;
mod reopen;
mod write_behind;

pub use new_session::NewSession;
pub use recording::{WAITING_BYTES_MAX, WRITE_BEHIND_BYTES, WRITE_BEHIND_DELAY};

use crate::cancel::CancelToken;
use crate::error::{Code, Error, Result};
use crate::event::{Event, Vocabulary};
use crate::format::EventRange;
use crate::format::names::Encoding;
use crate::format::reader::ReadLimits;
use crate::persistence::files::{FilePersistence, FileSettings};
use crate::persistence::memory::MemoryPersistence;
use crate::persistence::{
    Access, Events, ListMode, Listing, NewLog, Notice, Removal, SessionLog, SessionPersistence, Snapshot,
    StoredEvents,
};
use crate::query::{self, Corpus, QuerySettings, Rows, Salvage, Stats, Verifications};
use crate::report::Reporter;
use crate::session::construction::{Construction, Folded, Known};
use crate::session::durability::Durability;
use crate::session::{Projections, Seed, Session, SessionRules, Subscription, WriteState};
use crate::storage::{OsStorage, Storage, random_uuid};
use crate::store::SessionStore;
use recording::Recording;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;
use write_behind::WriteBehind;

/// Settings of a store before it is opened.
#[derive(Debug)]
pub struct StoreBuilder {
    root: Option<PathBuf>,
    storage: Arc<dyn Storage>,
    settings: FileSettings,
    rules: SessionRules,
    write_behind_delay: Duration,
    queries: QuerySettings,
}

impl StoreBuilder {
    fn new(root: Option<PathBuf>) -> StoreBuilder {
        StoreBuilder {
            root,
            storage: Arc::new(OsStorage::new()),
            settings: FileSettings::default(),
            rules: SessionRules::default(),
            write_behind_delay: WRITE_BEHIND_DELAY,
            queries: QuerySettings::default(),
        }
    }

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

    /// The event types that this program registers (`events.md` 3): they are known when a log is read, and may be appended.
    #[must_use]
    pub fn vocabulary(mut self, vocabulary: Vocabulary) -> StoreBuilder {
        self.settings.vocabulary = vocabulary.clone();
        self.rules.vocabulary = vocabulary;
        self
    }

    /// The message projections (`session.md` 9); unset, `image/offload` alone.
    #[must_use]
    pub fn projections(mut self, projections: Arc<Projections>) -> StoreBuilder {
        self.rules.projections = projections;
        self
    }

    /// Where failures go that no call reports: of listeners, of writes in the background.
    #[must_use]
    pub fn reporter(mut self, reporter: Reporter) -> StoreBuilder {
        self.rules.reporter = reporter;
        self
    }

    /// Whether an append is refused that would make the log unreadable (rules A1 to A25, `events.md` 11). On unless turned off.
    #[must_use]
    pub fn checks_stored_rules(mut self, checks: bool) -> StoreBuilder {
        self.rules.checks_stored_rules = checks;
        self
    }

    /// How long an accepted event waits at most before it is written without being asked; [`WRITE_BEHIND_DELAY`] unless set.
    #[must_use]
    pub fn write_behind_delay(mut self, delay: Duration) -> StoreBuilder {
        self.write_behind_delay = delay;
        self
    }

    /// The settings of queries (`query.md` 1.10).
    #[must_use]
    pub fn queries(mut self, settings: QuerySettings) -> StoreBuilder {
        self.queries = settings;
        self
    }

    /// Opens the store. The root need not exist: the first session makes it.
    ///
    /// # Errors
    /// `IO` if the root is there and is no readable folder; `SESSION_QUERY_INVALID_CONFIG`.
    pub fn open(self) -> Result<Store> {
        let StoreBuilder { root, storage, settings, rules, write_behind_delay, queries } = self;
        let (persistence, root): (Arc<dyn SessionPersistence>, _) = match root {
            Some(root) => {
                let files = FilePersistence::with_storage(root, Arc::clone(&storage), settings)?;
                let root = files.root().to_owned();
                (Arc::new(files), Some(root))
            }
            None => (Arc::new(MemoryPersistence::with_vocabulary(rules.vocabulary.clone())), None),
        };
        let process_id = storage.process_id();
        let reporter = rules.reporter.clone();
        let live = SessionStore::with(Arc::clone(&storage), rules);
        let corpus = Corpus::new(live.clone(), Some(Arc::clone(&persistence)), queries)?;
        let shared = Shared {
            persistence,
            root,
            process_id,
            write_behind: Arc::new(WriteBehind::new(Arc::clone(&storage), write_behind_delay)),
            reporter,
            live,
            corpus,
            storage,
            recordings: Mutex::default(),
        };
        Ok(Store { shared: Arc::new(shared) })
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
    live: SessionStore,
    corpus: Corpus,
    reporter: Reporter,
    write_behind: Arc<WriteBehind>,
    /// Sessions opened here; those that are gone are dropped from it as others join.
    recordings: Mutex<Vec<Weak<Recording>>>,
}

/// What is known of the seed of a new session, where another session has it.
#[derive(Default)]
struct Origin {
    folded: Option<Folded>,
    stored: Option<StoredEvents>,
    cancel: CancelToken,
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
        StoreBuilder::new(Some(root.as_ref().to_owned()))
    }

    /// A store without a root: it writes no file, and its sessions go with it.
    ///
    /// # Errors
    /// None today; the same form as [`open`](Self::open).
    pub fn in_memory() -> Result<Store> {
        Store::memory_builder().open()
    }

    /// Settings for a store without a root.
    #[must_use]
    pub fn memory_builder() -> StoreBuilder {
        StoreBuilder::new(None)
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

    /// A new session, live and open for appending; on the disk with its first written batch, or with [`Session::flush`]. One with a
    /// seed is on the disk before it is announced.
    ///
    /// # Errors
    /// `INVALID_ARGUMENT`, `SESSION_ALREADY_EXISTS`, `SESSION_CONFLICT`, `IO`; `SESSION_REFUSED` for a seed that breaks a rule, with its
    /// code and the index of the event; a creation listener's own error.
    pub fn create(&self, new: NewSession) -> Result<Session> {
        self.create_from(new, Origin::default())
    }

    fn create_from(&self, new: NewSession, origin: Origin) -> Result<Session> {
        self.check_process()?;
        let NewSession { mut header, inherited_event_count, seed } = new;
        if header.id.is_empty() {
            header.id = self.mint_id()?;
        }
        if header.created_at == 0 {
            header.created_at = u64::try_from(self.shared.storage.now_unix_ms()).unwrap_or(0);
        }
        header.check().map_err(|fault| Error::new(Code::InvalidArgument, fault.to_string()))?;
        let seed = Seed { events: seed, inherited_event_count, ..Seed::default() };
        let known = origin.folded.map_or(Known::Nothing, |folded| Known::Folded(Box::new(folded)));
        let construction = Construction { header, seed: &seed, write_state: WriteState::Prepared, known };
        let session = Session::build(construction, Arc::clone(self.shared.live.hub()))?;
        let inherited = session.header().is_seeded.then(|| session.inherited_event_count());
        let go_on = CancelToken::new();
        let persistence = &self.shared.persistence;
        let mut events = seed.events.unwrap_or_default();
        events.extend(session.snapshot_events(events.len() as u64, u64::MAX));
        let log = match events.is_empty() {
            true => persistence.create(session.header(), inherited, &go_on)?,
            false => {
                let new = NewLog {
                    header: session.header(),
                    inherited_event_count: inherited,
                    events: &events,
                    are_checked: session.checks_stored_rules(),
                    stored: origin.stored,
                };
                persistence.create_with(new, &origin.cancel)?
            }
        };
        self.go_live(session, log, None)
    }

    /// Announces a session whose events are all in its log.
    fn go_live(
        &self,
        session: Session,
        log: Arc<dyn SessionLog>,
        resumed: Option<Notice>,
    ) -> Result<Session> {
        let shared = &self.shared;
        let are_checked = session.checks_stored_rules();
        let (storage, reporter) = (Arc::clone(&shared.storage), shared.reporter.clone());
        let recording =
            Recording::new(log, are_checked, resumed, storage, reporter, shared.write_behind.timer());
        let durability: Arc<dyn Durability> = Arc::clone(&recording) as _;
        let session = session.kept_open_by(durability, Arc::clone(&shared.write_behind) as _);
        if let Some(handle) = session.handle() {
            recording.set_handle(handle);
        }
        {
            let mut recordings = self.recordings();
            recordings.retain(|known| known.strong_count() > 0);
            recordings.push(Arc::downgrade(&recording));
        }
        // On failure the clone that goes here closes the log.
        recording.set_detach(shared.live.publish(&session)?);
        Ok(session)
    }

    /// The live session of an id, opened by this store.
    #[must_use]
    pub fn get(&self, id: &str) -> Option<Session> {
        let session = self.shared.live.get(id)?;
        let recordings: Vec<_> = self.recordings().iter().filter_map(Weak::upgrade).collect();
        // One whose last clone is going right now is as good as gone.
        let handle = recordings.iter().rev().find(|known| known.id() == id)?.handle()?;
        Some(session.with_handle(handle))
    }

    /// The ids of the live sessions, in the order in which they were opened.
    #[must_use]
    pub fn live_ids(&self) -> Vec<String> {
        self.shared.live.list().iter().map(|session| session.id().to_owned()).collect()
    }

    /// The registry of live sessions, with its listeners, validators and projections.
    #[must_use]
    pub fn live(&self) -> &SessionStore {
        &self.shared.live
    }

    /// As [`SessionStore::on_event`].
    pub fn on_event(
        &self,
        listener: impl Fn(&Session, &Event) -> Result<()> + Send + Sync + 'static,
    ) -> Subscription {
        self.shared.live.on_event(listener)
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

    /// Turns a forked child away before any lock is waited for: a thread that it does not have may have held it.
    fn check_process(&self) -> Result<()> {
        let process_id = self.shared.process_id;
        if self.shared.storage.process_id() != process_id {
            let message = format!("this store was opened by process {process_id}, not by its child");
            return Err(Error::new(Code::ForkedProcess, message));
        }
        Ok(())
    }

    fn recordings(&self) -> MutexGuard<'_, Vec<Weak<Recording>>> {
        self.shared.recordings.lock().unwrap_or_else(PoisonError::into_inner)
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
        let NewSession { header, inherited_event_count, .. } = new;
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

    /// Who has a stored session open for writing now, in words, as far as that is known.
    ///
    /// # Errors
    /// Those of [`SessionPersistence::writer_of`].
    pub fn writer_of(&self, id: &str) -> Result<Option<String>> {
        self.shared.persistence.writer_of(id)
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
        self.check_process()?;
        let recordings: Vec<_> = self.recordings().iter().filter_map(Weak::upgrade).collect();
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
