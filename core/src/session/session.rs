//! A session: its construction, its states, and everything that can be read of it. Appending has a file of its own.

use super::acceptance;
use super::construction::{Construction, JudgedBy};
use super::durability::{Durability, OpenHandle, Pending};
use super::folds::{Folds, Title, ToolHistory};
use super::gate::Entered;
use super::hub::{Hub, SessionRules};
use super::log::{Log, Snapshot};
use super::message::{self, DerivedMessage, MessageCache, Messages};
use super::projection::Definition;
use super::seed::Seed;
use super::surface::{EarlierEvents, Effect, Projected, Surface, is_transcript};
use crate::cancel::CancelToken;
use crate::error::{Code, Error, Result};
use crate::event::Event;
use crate::format::EventRange;
use crate::format::header::SessionHeader;
use crate::format::relationships::LogChecker;
use crate::persistence::{Events, Notice};
use crate::storage::Storage;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

pub(super) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    // Every change under these locks is whole before anything in it can panic.
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Whether a session may be written, and whether it publishes (`session.md` 7).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WriteState {
    /// Made directly: may be written, publishes nothing.
    Independent,
    /// Made by a store, not entered yet.
    Prepared,
    /// In a store, not announced yet.
    Entered,
    /// Its announcement has begun.
    Announcing,
    /// Announced: may be written, publishes.
    Live,
    /// A creation listener failed; never to be written.
    Failed,
    /// No longer in its store.
    Removed,
}

/// One log in memory, with everything that is folded from it. Clones share it.
///
/// A session that a [`Store`](crate::Store) gave is open until the last such clone is dropped, or [`close`](Self::close) is called; one
/// seen in a listener does not keep it open. Many threads may use it.
///
/// ```
/// use dsh_session_core::{EventDraft, Session};
/// let session = Session::independent("s1")?;
/// session.append(&EventDraft::new("turn/start", r#"{"turn":1}"#)?)?;
/// let hello = r#"{"id":"m1","role":"user","source":{"kind":"user"},"content":[{"type":"text","text":"Hello"}]}"#;
/// session.append(&EventDraft::new("user/message", hello)?.surface(dsh_session_core::SurfaceOp::Append))?;
/// assert_eq!(session.messages()?[0].text(), hello);
/// # Ok::<(), dsh_session_core::Error>(())
/// ```
#[derive(Clone)]
pub struct Session {
    pub(super) inner: Arc<Inner>,
    /// Where clones are held that keep the session open.
    handle: Option<Arc<OpenHandle>>,
}

pub(super) struct Inner {
    pub(super) header: SessionHeader,
    pub(super) inherited_event_count: u64,
    pub(super) first_live_seq: u64,
    pub(super) first_lifecycle_seq: u64,
    /// The process that made the session; a forked child is turned away before any lock is waited for.
    pub(super) process_id: u32,
    pub(super) storage: Arc<dyn Storage>,
    pub(super) durability: OnceLock<Arc<dyn Durability>>,
    pub(super) hub: Mutex<Arc<Hub>>,
    /// By whom the events were judged that the session began with.
    pub(super) judged_by: JudgedBy,
    pub(super) write_state: Mutex<WriteState>,
    pub(super) dispatch: Mutex<Dispatch>,
    /// Only touched inside the gate; held from the acceptance of an append to the end of its publication, so that whoever finds it
    /// taken there is a reentrant append.
    pub(super) writer: Mutex<Writer>,
    /// What readers see. Never held while foreign code runs.
    pub(super) view: Mutex<View>,
}

/// What only an append needs: the surface as its next member finds it, and the rules of stored logs.
#[derive(Clone, Debug)]
pub(super) struct Writer {
    pub(super) surface: Surface,
    pub(super) checker: Option<LogChecker>,
}

/// Listeners that are being called, and what waits for their end.
#[derive(Default)]
pub(super) struct Dispatch {
    depth: u32,
    then: Vec<Box<dyn FnOnce() + Send>>,
}

/// The committed state.
#[derive(Clone, Debug, Default)]
pub(super) struct View {
    pub(super) log: Log,
    nodes: Arc<Vec<u64>>,
    replace_generation: u64,
    content_generation: u64,
    projected: Arc<Projected>,
    applied: Vec<Arc<Definition>>,
    folds: Folds,
    cache: MessageCache,
    pub(super) publishing: Option<Event>,
}

impl View {
    pub(super) fn commit(&mut self, event: Event, effect: &Effect) {
        let seq = event.seq();
        match effect {
            Effect::None => {}
            Effect::Push => Arc::make_mut(&mut self.nodes).push(seq),
            Effect::Replace { start_seq, shadowed, .. } => {
                let nodes = Arc::make_mut(&mut self.nodes);
                if let Some(at) = nodes.iter().position(|node| node == start_seq) {
                    nodes.splice(at..at + shadowed.len(), [seq]);
                }
                self.replace_generation += 1;
                self.content_generation += 1;
            }
            Effect::Project { definition, messages } => {
                Arc::make_mut(&mut self.projected).extend(messages.iter().cloned());
                if !self.applied.iter().any(|known| Arc::ptr_eq(known, definition)) {
                    self.applied.push(Arc::clone(definition));
                }
                self.content_generation += 1;
            }
        }
        self.folds.see(&event);
        self.log.push(event);
    }

    fn message(&self, seq: u64) -> Option<DerivedMessage> {
        match self.projected.get(&seq) {
            Some(projected) => Some(projected.clone()),
            None => message::derive(self.log.get(seq)?),
        }
    }

    fn messages(&mut self) -> Messages {
        let mut cache = std::mem::take(&mut self.cache);
        let messages = cache.update(&self.nodes, self.content_generation, |seq| self.message(seq));
        self.cache = cache;
        messages
    }
}

impl EarlierEvents for View {
    fn event(&self, seq: u64) -> Option<Event> {
        self.log.get(seq).cloned()
    }
}

impl Session {
    /// A session of its own, with a new header and nobody who listens.
    ///
    /// # Errors
    /// `SESSION_REFUSED`, `HEADER_INVALID` for an empty id.
    pub fn independent(id: impl Into<String>) -> Result<Session> {
        let storage: Arc<dyn Storage> = Arc::new(crate::storage::OsStorage::new());
        let now_ms = u64::try_from(storage.now_unix_ms()).unwrap_or(0);
        let rules = SessionRules { checks_stored_rules: false, ..SessionRules::default() };
        Session::independent_with(SessionHeader::new(id, now_ms), Seed::default(), storage, rules)
    }

    /// An independent session from a header, a seed and rules of the caller's choice; `storage` is its clock.
    ///
    /// # Errors
    /// `SESSION_REFUSED` with a code of `session.md` 20 and, for a bad seed event, its index.
    pub fn independent_with(
        header: SessionHeader,
        seed: Seed,
        storage: Arc<dyn Storage>,
        rules: SessionRules,
    ) -> Result<Session> {
        let hub = Arc::new(Hub::new(storage, rules));
        let construction = Construction::new(header, &seed, WriteState::Independent);
        Session::build(construction, hub)
    }

    /// The session's id.
    #[must_use]
    pub fn id(&self) -> &str {
        &self.inner.header.id
    }

    /// The header, fixed when the session was made.
    #[must_use]
    pub fn header(&self) -> &SessionHeader {
        &self.inner.header
    }

    /// How many events at the beginning a fork inherited; 0 in a session that is not seeded.
    #[must_use]
    pub fn inherited_event_count(&self) -> u64 {
        self.inner.inherited_event_count
    }

    /// The length of the seed: where events begin that were appended to this object, the construction's own marker first.
    #[must_use]
    pub fn first_live_seq(&self) -> u64 {
        self.inner.first_live_seq
    }

    /// The first event made for this object's life (`session.md` 12.4).
    #[must_use]
    pub fn first_lifecycle_seq(&self) -> u64 {
        self.inner.first_lifecycle_seq
    }

    /// How many events the session has: the seq of the next one.
    #[must_use]
    pub fn next_seq(&self) -> u64 {
        self.view().log.len()
    }

    /// Whether the session may be written now.
    #[must_use]
    pub fn write_state(&self) -> WriteState {
        *lock(&self.inner.write_state)
    }

    /// The event with this seq.
    #[must_use]
    pub fn event_at(&self, seq: u64) -> Option<Event> {
        self.view().log.get(seq).cloned()
    }

    /// The events with seqs from `from` to below `to`, as they are now.
    #[must_use]
    pub fn snapshot_events(&self, from: u64, to: u64) -> Snapshot {
        self.view().log.snapshot(from, to)
    }

    /// The events that the session did not inherit.
    #[must_use]
    pub fn own_events(&self) -> Snapshot {
        self.snapshot_events(self.inner.inherited_event_count, u64::MAX)
    }

    /// Whether an event exists and was not inherited.
    #[must_use]
    pub fn is_own_seq(&self, seq: u64) -> bool {
        (self.inner.inherited_event_count..self.next_seq()).contains(&seq)
    }

    /// The events of a range, walked; those that are not on the disk yet included.
    ///
    /// # Errors
    /// `HANDLE_CLOSED` for a session that was closed.
    pub fn events(&self, range: EventRange) -> Result<Events> {
        self.check_open("events")?;
        let snapshot = {
            let view = self.view();
            let length = view.log.len();
            let (from, to) = match range {
                EventRange::Window { from, count } => (from, from.saturating_add(count)),
                EventRange::Newest { count } => (length.saturating_sub(count), length),
            };
            view.log.snapshot(from, to)
        };
        let mut events = snapshot.into_iter();
        Ok(Events::from_fn(move || Ok(events.next())))
    }

    /// The surface: what the model sees, as a list of events. The view follows the session.
    #[must_use]
    pub fn surface(&self) -> SurfaceView {
        SurfaceView { session: Session { inner: Arc::clone(&self.inner), handle: None } }
    }

    /// The messages that the model sees, in order (`session.md` 10). Cheap to ask for again: only what is new is looked at.
    ///
    /// # Errors
    /// `EVENT_REFUSED`, `PROJECTION_REMOVED`.
    pub fn messages(&self) -> Result<Messages> {
        let hub = self.hub();
        let mut view = self.view();
        hub.projections.check_applied(&view.applied)?;
        Ok(view.messages())
    }

    /// The message that one event makes now; `None` for one that makes none, or does not exist.
    ///
    /// # Errors
    /// `EVENT_REFUSED`, `PROJECTION_REMOVED`.
    pub fn message_of(&self, seq: u64) -> Result<Option<DerivedMessage>> {
        let hub = self.hub();
        let view = self.view();
        hub.projections.check_applied(&view.applied)?;
        Ok(view.message(seq))
    }

    /// The conversation as a person would read it: every message event that was appended, in log order, replaced or not.
    #[must_use]
    pub fn transcript(&self) -> Vec<Event> {
        self.snapshot_events(0, u64::MAX).iter().filter(|event| is_transcript(event)).cloned().collect()
    }

    /// The last request header, in canonical form (`session.md` 11.1).
    #[must_use]
    pub fn request_header(&self) -> Option<String> {
        self.view().folds.request_header()
    }

    /// The last request context, whole (`session.md` 11.2).
    #[must_use]
    pub fn request_context(&self) -> Option<String> {
        self.view().folds.request_context().map(|context| context.text().to_owned())
    }

    /// Which tools the model was told of, and how they changed (`session.md` 11.3).
    #[must_use]
    pub fn tool_history(&self) -> ToolHistory {
        self.view().folds.tool_history()
    }

    /// The newest title (`session.md` 11.4).
    #[must_use]
    pub fn title(&self) -> Option<Title> {
        self.view().folds.title()
    }

    /// What a resume would append now if the session ended here (`session.md` 14); nothing where no turn is open.
    ///
    /// # Errors
    /// `LIMIT_EXCEEDED` for an id that makes a row too long.
    pub fn closers(&self, cause: super::closers::Cause) -> Result<Vec<Event>> {
        super::closers::closers(self.snapshot_events(0, u64::MAX).iter(), cause)
    }

    /// The member of a batch that is being published, while it is (`session.md` 6.1).
    #[must_use]
    pub fn current_batch_publication(&self) -> Option<Event> {
        self.view().publishing.clone()
    }

    /// The durability barrier: on return every accepted event is on the disk, and the session exists for other processes. Flush
    /// listeners of the store are called as well.
    ///
    /// # Errors
    /// `HANDLE_CLOSED`, `SESSION_OWNERSHIP_LOST`, `SESSION_ALREADY_OWNED`, `SESSION_ALREADY_EXISTS`, `IO`: the events wait on, in
    /// order. `FLUSH_FAILED` with a listener's error as its cause.
    pub fn flush(&self) -> Result<()> {
        self.flush_with(&CancelToken::new())
    }

    /// As [`flush`](Self::flush), stoppable before it writes.
    ///
    /// # Errors
    /// As there, and `CANCELLED`.
    pub fn flush_with(&self, cancel: &CancelToken) -> Result<()> {
        self.flush_all(cancel).map(drop)
    }

    /// As [`flush_with`](Self::flush_with); gives whether anybody took part, which is not so in a session that nobody stores.
    pub(crate) fn flush_all(&self, cancel: &CancelToken) -> Result<bool> {
        self.check_process()?;
        let durability = self.inner.durability.get();
        if let Some(durability) = durability {
            durability.flush(cancel)?;
        }
        let listeners = self.hub().on_flush.current();
        let seen = self.unkept();
        let mut first_failure = None;
        for (_, listener) in listeners.iter() {
            let called = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| listener(&seen)));
            let outcome =
                called.unwrap_or_else(|_| Err(Error::new(Code::Panic, "a flush listener panicked")));
            first_failure = first_failure.or(outcome.err());
        }
        match first_failure {
            Some(cause) => {
                let message = format!("a flush listener failed: {}", cause.message());
                Err(Error::new(Code::FlushFailed, message).with_session_id(self.id()).with_cause(cause))
            }
            None => Ok(durability.is_some() || !listeners.is_empty()),
        }
    }

    /// Events that are not on the disk yet, and why not. Nothing ever waits in a session that nobody stores.
    #[must_use]
    pub fn pending(&self) -> Pending {
        self.inner.durability.get().map_or_else(Pending::default, |durability| durability.pending())
    }

    /// What opening and writing have found so far.
    #[must_use]
    pub fn notices(&self) -> Vec<Notice> {
        self.inner.durability.get().map_or_else(Vec::new, |durability| durability.notices())
    }

    /// Writes what waits, leaves the store and gives up ownership. A second close does nothing, and so does that of an independent
    /// session.
    ///
    /// # Errors
    /// Those of [`flush`](Self::flush); the session is closed all the same, and what could not be written is lost.
    pub fn close(&self) -> Result<()> {
        match self.inner.durability.get() {
            Some(durability) => durability.close(),
            None => Ok(()),
        }
    }

    /// Gives the session its place on the disk, once. The returned clone keeps it open.
    pub(crate) fn kept_open_by(
        &self,
        durability: Arc<dyn Durability>,
        lives_on: Arc<dyn fmt::Debug + Send + Sync>,
    ) -> Session {
        let durability = self.inner.durability.get_or_init(|| durability);
        let handle = Some(Arc::new(OpenHandle::new(Arc::clone(durability), lives_on)));
        Session { inner: Arc::clone(&self.inner), handle }
    }

    /// The session without what keeps it open, for the store's own lists.
    pub(crate) fn unkept(&self) -> Session {
        Session { inner: Arc::clone(&self.inner), handle: None }
    }

    /// What keeps the session open, where this clone does.
    pub(crate) fn handle(&self) -> Option<&Arc<OpenHandle>> {
        self.handle.as_ref()
    }

    pub(crate) fn with_handle(&self, handle: Arc<OpenHandle>) -> Session {
        Session { inner: Arc::clone(&self.inner), handle: Some(handle) }
    }

    /// A new session of nobody.
    pub(super) fn of(inner: Inner) -> Session {
        Session { inner: Arc::new(inner), handle: None }
    }

    /// Whether what the session accepts was judged by the rules of stored logs.
    pub(crate) fn checks_stored_rules(&self) -> bool {
        self.hub().checks_stored_rules
    }

    pub(crate) fn is_same(&self, other: &Session) -> bool {
        Arc::ptr_eq(&self.inner, &other.inner)
    }

    pub(crate) fn set_write_state(&self, state: WriteState) {
        *lock(&self.inner.write_state) = state;
    }

    /// Moves an independent session behind the gate of a store.
    pub(crate) fn set_hub(&self, hub: Arc<Hub>) {
        *lock(&self.inner.hub) = hub;
    }

    pub(crate) fn hub(&self) -> Arc<Hub> {
        Arc::clone(&lock(&self.inner.hub))
    }

    /// Comes into the gate of the hub that the session has by then.
    pub(super) fn enter<'a>(&self, hub: &'a Arc<Hub>) -> Option<Entered<'a>> {
        let entered = hub.gate.enter();
        Arc::ptr_eq(hub, &self.hub()).then_some(entered)
    }

    pub(super) fn view(&self) -> MutexGuard<'_, View> {
        lock(&self.inner.view)
    }

    pub(crate) fn begin_dispatch(&self) {
        lock(&self.inner.dispatch).depth += 1;
    }

    /// Ends a dispatch; what waited for the end of the outermost runs now.
    pub(crate) fn end_dispatch(&self) {
        let then = {
            let mut dispatch = lock(&self.inner.dispatch);
            dispatch.depth -= 1;
            if dispatch.depth == 0 { std::mem::take(&mut dispatch.then) } else { Vec::new() }
        };
        then.into_iter().for_each(|then| then());
    }

    /// Runs something at the end of the dispatch that goes on, or at once where none does.
    pub(crate) fn after_dispatch(&self, then: impl FnOnce() + Send + 'static) {
        let mut dispatch = lock(&self.inner.dispatch);
        if dispatch.depth > 0 {
            dispatch.then.push(Box::new(then));
            return;
        }
        drop(dispatch);
        then();
    }

    pub(crate) fn check_process(&self) -> Result<()> {
        let process_id = self.inner.process_id;
        if self.inner.storage.process_id() != process_id {
            let message = format!("this session was opened by process {process_id}, not by its child");
            return Err(Error::new(Code::ForkedProcess, message).with_session_id(self.id()));
        }
        Ok(())
    }

    fn check_open(&self, operation: &str) -> Result<()> {
        match self.inner.durability.get() {
            Some(durability) => durability.check_open(operation),
            None => Ok(()),
        }
    }
}

impl fmt::Debug for Session {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Session").field("id", &self.id()).finish_non_exhaustive()
    }
}

/// What the model sees, as a list of events (`session.md` 8.1). It follows its session.
#[derive(Clone, Debug)]
pub struct SurfaceView {
    session: Session,
}

impl SurfaceView {
    fn read<T>(&self, read: impl FnOnce(&View) -> T) -> Result<T> {
        let hub = self.session.hub();
        let view = self.session.view();
        hub.projections.check_applied(&view.applied)?;
        Ok(read(&view))
    }

    /// The seqs on the surface, in model order; the list never changes afterwards.
    ///
    /// # Errors
    /// `EVENT_REFUSED`, `PROJECTION_REMOVED`.
    pub fn nodes(&self) -> Result<Arc<Vec<u64>>> {
        self.read(|view| Arc::clone(&view.nodes))
    }

    /// The events on the surface, in model order.
    ///
    /// # Errors
    /// As [`nodes`](Self::nodes).
    pub fn events(&self) -> Result<Vec<Event>> {
        self.read(|view| view.nodes.iter().filter_map(|&seq| view.log.get(seq).cloned()).collect())
    }

    /// How many replacements there were.
    ///
    /// # Errors
    /// As [`nodes`](Self::nodes).
    pub fn replace_generation(&self) -> Result<u64> {
        self.read(|view| view.replace_generation)
    }

    /// How many replacements and projections there were: while it stays, messages are only added.
    ///
    /// # Errors
    /// As [`nodes`](Self::nodes).
    pub fn content_generation(&self) -> Result<u64> {
        self.read(|view| view.content_generation)
    }
}

/// A refusal that names the session.
pub(super) fn refused_here(session: &Session, code: &'static str, message: &str) -> Error {
    acceptance::refused(code, message).with_session_id(session.id())
}
