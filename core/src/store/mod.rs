//! The live registry: which sessions are live, and how one becomes so and ceases to be (`session.md` 17).
//!
//! [`SessionStore`] does no I/O. The front door ([`Store`](crate::Store)) puts a session here when its place on the disk is prepared.

mod fork;

pub use fork::ForkSource;

use crate::cancel::CancelToken;
use crate::error::{Code, Error, Result};
use crate::event::Event;
use crate::format::header::SessionHeader;
use crate::session::construction::{Construction, Known};
use crate::session::hub::Hub;
use crate::session::{Projections, Seed, Session, SessionRules, Subscription, WriteState};
use crate::storage::Storage;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// The sessions that are live in a program.
///
/// ```
/// use dsh_session_core::store::{Preparation, SessionStore};
/// use dsh_session_core::session::WriteState;
/// let store = SessionStore::new();
/// let session = store.create(Preparation::default())?;
/// assert_eq!((session.id(), session.write_state()), ("session-1", WriteState::Live));
/// assert!(store.get("session-1").is_some());
/// # Ok::<(), dsh_session_core::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct SessionStore {
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    hub: Arc<Hub>,
    /// In order of entry.
    entries: Mutex<Vec<Arc<Entry>>>,
    next_id: AtomicU64,
}

/// One stay of a session in the store.
#[derive(Debug)]
struct Entry {
    session: Session,
    is_announced: AtomicBool,
}

/// What a session is to be.
#[derive(Clone, Debug, Default)]
pub struct Preparation {
    /// The header; an empty id is minted and a `created_at` of 0 is now. For a restored session, the stored one.
    pub header: Option<SessionHeader>,
    /// The events that it begins with.
    pub seed: Seed,
}

/// Takes a session out of the store, once.
#[derive(Clone, Debug)]
pub struct Detach {
    store: SessionStore,
    entry: Arc<Entry>,
}

impl Detach {
    /// Takes the session out, if its entry is still the current one for its id. While the session is announced or published, that waits
    /// for the end. Calling it again does nothing.
    pub fn detach(&self) {
        self.store.detach(&self.entry);
    }
}

/// Owns a prepared session until it is entered, and lets its maker know when that is over.
pub struct SessionPreparation {
    session: Session,
    release: Mutex<Option<Box<dyn FnOnce() + Send>>>,
}

impl SessionPreparation {
    /// For a session, with what to do when the preparation ends.
    #[must_use]
    pub fn new(session: Session, release: Option<Box<dyn FnOnce() + Send>>) -> SessionPreparation {
        SessionPreparation { session, release: Mutex::new(release) }
    }

    /// The session.
    #[must_use]
    pub fn session(&self) -> &Session {
        &self.session
    }

    /// Ends the preparation: the callback runs, at most once.
    pub fn dispose(&self) {
        let release = lock(&self.release).take();
        if let Some(release) = release {
            release();
        }
    }
}

impl Drop for SessionPreparation {
    fn drop(&mut self) {
        self.dispose();
    }
}

impl std::fmt::Debug for SessionPreparation {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("SessionPreparation").field("session", &self.session).finish_non_exhaustive()
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    // Every change under these locks is whole before anything in it can panic.
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Default for SessionStore {
    fn default() -> Self {
        SessionStore::new()
    }
}

impl SessionStore {
    /// An empty store with the system's clock, without projections, that does not judge by the rules of stored logs.
    #[must_use]
    pub fn new() -> SessionStore {
        let rules = SessionRules {
            projections: Arc::new(Projections::default()),
            checks_stored_rules: false,
            ..SessionRules::default()
        };
        SessionStore::with(Arc::new(crate::storage::OsStorage::new()), rules)
    }

    /// An empty store with a clock and rules of the caller's choice.
    #[must_use]
    pub fn with(storage: Arc<dyn Storage>, rules: SessionRules) -> SessionStore {
        let hub = Arc::new(Hub::new(storage, rules));
        let shared = Shared { hub, entries: Mutex::default(), next_id: AtomicU64::new(1) };
        SessionStore { shared: Arc::new(shared) }
    }

    pub(crate) fn hub(&self) -> &Arc<Hub> {
        &self.shared.hub
    }

    /// The message projections of the sessions here.
    #[must_use]
    pub fn projections(&self) -> &Arc<Projections> {
        &self.shared.hub.projections
    }

    /// Builds a session without entering it.
    ///
    /// # Errors
    /// `SESSION_ALREADY_EXISTS` for the id of a live session; `SESSION_REFUSED` with a code of `session.md` 20.
    pub fn prepare(&self, preparation: Preparation) -> Result<Session> {
        self.prepare_from(preparation, Known::Nothing)
    }

    fn prepare_from(&self, preparation: Preparation, known: Known) -> Result<Session> {
        let Preparation { header, seed } = preparation;
        let header = self.complete(header.unwrap_or_else(|| SessionHeader::new("", 0)));
        self.check_free(&header.id)?;
        let construction = Construction { header, seed: &seed, write_state: WriteState::Prepared, known };
        Session::build(construction, Arc::clone(&self.shared.hub))
    }

    /// Fills in what the store knows: an id, the time.
    fn complete(&self, mut header: SessionHeader) -> SessionHeader {
        if header.id.is_empty() {
            header.id = self.mint_id();
        }
        if header.created_at == 0 {
            header.created_at = u64::try_from(self.shared.hub.storage.now_unix_ms()).unwrap_or(0);
        }
        header
    }

    /// `session-<n>`, counting from 1 and past live ids.
    fn mint_id(&self) -> String {
        loop {
            let id = format!("session-{}", self.shared.next_id.fetch_add(1, Ordering::Relaxed));
            if self.entry(&id).is_none() {
                return id;
            }
        }
    }

    fn check_free(&self, id: &str) -> Result<()> {
        match self.entry(id) {
            Some(_) => {
                let message = format!("a session `{id}` is live");
                Err(Error::new(Code::SessionAlreadyExists, message).with_session_id(id))
            }
            None => Ok(()),
        }
    }

    fn entry(&self, id: &str) -> Option<Arc<Entry>> {
        lock(&self.shared.entries).iter().find(|entry| entry.session.id() == id).cloned()
    }

    fn entry_of(&self, session: &Session) -> Result<Arc<Entry>> {
        self.entry(session.id()).filter(|entry| entry.session.is_same(session)).ok_or_else(|| {
            let message = format!("this session object is not live under its id `{}`", session.id());
            Error::new(Code::SessionNotLive, message).with_session_id(session.id())
        })
    }

    /// Puts a session into the store: it is found from now on, and may be written once it is announced.
    ///
    /// # Errors
    /// `SESSION_ALREADY_EXISTS` where its id is live; `SESSION_ALREADY_ENTERED` for one that was in a store before.
    pub fn enter(&self, session: &Session) -> Result<Detach> {
        // An independent session has a gate of its own, which an append may be in.
        let own = session.hub();
        let _own_gate = own.gate.enter();
        let _gate = self.shared.hub.gate.enter();
        self.check_free(session.id())?;
        if !matches!(session.write_state(), WriteState::Independent | WriteState::Prepared) {
            let message = "a session enters a store once";
            return Err(Error::new(Code::SessionAlreadyEntered, message).with_session_id(session.id()));
        }
        session.set_hub(Arc::clone(&self.shared.hub));
        session.set_write_state(WriteState::Entered);
        let entry = Entry { session: session.unkept(), is_announced: AtomicBool::new(false) };
        let entry = Arc::new(entry);
        lock(&self.shared.entries).push(Arc::clone(&entry));
        Ok(Detach { store: self.clone(), entry })
    }

    /// Tells the creation listeners, after which the session may be written. Once for an entry: if a listener fails, the session stays
    /// read-only for good.
    ///
    /// # Errors
    /// The first failing listener's error; `SESSION_NOT_LIVE`, `ALREADY_ANNOUNCED`.
    pub fn announce(&self, session: &Session) -> Result<()> {
        let _gate = self.shared.hub.gate.enter();
        let entry = self.entry_of(session)?;
        if entry.is_announced.swap(true, Ordering::AcqRel) {
            let message = "the announcement of the session has begun before";
            return Err(Error::new(Code::AlreadyAnnounced, message).with_session_id(session.id()));
        }
        session.set_write_state(WriteState::Announcing);
        let listeners = self.shared.hub.on_created.current();
        session.begin_dispatch();
        let seen = session.unkept();
        let told = listeners.iter().try_for_each(|(_, listener)| {
            let called = catch_unwind(AssertUnwindSafe(|| listener(&seen)));
            called.unwrap_or_else(|_| Err(Error::new(Code::Panic, "a creation listener panicked")))
        });
        session.set_write_state(if told.is_ok() { WriteState::Live } else { WriteState::Failed });
        session.end_dispatch();
        told
    }

    /// Prepares, enters and announces. If a creation listener fails, the session leaves the store again.
    ///
    /// # Errors
    /// Those of [`prepare`](Self::prepare), [`enter`](Self::enter) and [`announce`](Self::announce).
    pub fn create(&self, preparation: Preparation) -> Result<Session> {
        let session = self.prepare(preparation)?;
        self.publish(&session)?;
        Ok(session)
    }

    /// Enters and announces; if that fails, the session leaves the store again.
    pub(crate) fn publish(&self, session: &Session) -> Result<Detach> {
        let detach = self.enter(session)?;
        match self.announce(session) {
            Ok(()) => Ok(detach),
            Err(error) => {
                detach.detach();
                Err(error)
            }
        }
    }

    /// The handle that takes a live session out.
    ///
    /// # Errors
    /// `SESSION_NOT_LIVE`.
    pub fn detach_of(&self, session: &Session) -> Result<Detach> {
        Ok(Detach { store: self.clone(), entry: self.entry_of(session)? })
    }

    fn detach(&self, entry: &Arc<Entry>) {
        let _gate = self.shared.hub.gate.enter();
        let (store, leaving) = (self.clone(), Arc::clone(entry));
        entry.session.after_dispatch(move || store.leave(&leaving));
    }

    fn leave(&self, entry: &Arc<Entry>) {
        let was_here = {
            let mut entries = lock(&self.shared.entries);
            let before = entries.len();
            entries.retain(|known| !Arc::ptr_eq(known, entry));
            entries.len() < before
        };
        if !was_here {
            return;
        }
        entry.session.set_write_state(WriteState::Removed);
        if entry.is_announced.load(Ordering::Acquire) {
            for (_, listener) in self.shared.hub.on_disposed.current().iter() {
                self.shared.hub.contain("the disposal", &entry.session, || listener(&entry.session));
            }
        }
    }

    /// The live session of an id.
    #[must_use]
    pub fn get(&self, id: &str) -> Option<Session> {
        self.entry(id).map(|entry| entry.session.clone())
    }

    /// The live sessions, in order of entry.
    #[must_use]
    pub fn list(&self) -> Vec<Session> {
        lock(&self.shared.entries).iter().map(|entry| entry.session.clone()).collect()
    }

    /// Asks the flush listeners to make a session durable. Gives whether there was one.
    ///
    /// # Errors
    /// `SESSION_NOT_LIVE`; those of [`Session::flush`].
    pub fn flush(&self, session: &Session) -> Result<bool> {
        self.entry_of(session)?;
        session.flush_all(&CancelToken::new())
    }

    /// Calls `listener` with each event that a live session of this store commits, in order, on the appending thread.
    ///
    /// It runs inside the store's gate (`session.md` 6.5): it may read anything and append to other sessions; it must not wait for
    /// another thread that appends here. Its errors are reported, and change nothing.
    pub fn on_event(
        &self,
        listener: impl Fn(&Session, &Event) -> Result<()> + Send + Sync + 'static,
    ) -> Subscription {
        self.shared.hub.on_event.add(Arc::new(listener))
    }

    /// Asks `validator` about each event before it is accepted; its error refuses the append with `DISPATCH_REJECTED`.
    pub fn add_validator(
        &self,
        validator: impl Fn(&Session, &Event) -> Result<()> + Send + Sync + 'static,
    ) -> Subscription {
        self.shared.hub.validators.add(Arc::new(validator))
    }

    /// Calls `listener` when a session is announced; an error vetoes the session.
    pub fn on_created(
        &self,
        listener: impl Fn(&Session) -> Result<()> + Send + Sync + 'static,
    ) -> Subscription {
        self.shared.hub.on_created.add(Arc::new(listener))
    }

    /// Calls `listener` when an announced session has left the store; its errors are reported.
    pub fn on_disposed(
        &self,
        listener: impl Fn(&Session) -> Result<()> + Send + Sync + 'static,
    ) -> Subscription {
        self.shared.hub.on_disposed.add(Arc::new(listener))
    }

    /// Calls `listener` when a session is flushed, without the gate; the first error fails the flush.
    pub fn on_flush(
        &self,
        listener: impl Fn(&Session) -> Result<()> + Send + Sync + 'static,
    ) -> Subscription {
        self.shared.hub.on_flush.add(Arc::new(listener))
    }
}
