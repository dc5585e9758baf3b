//! What the sessions of a store share: the gate, the projections, and whoever listens (`session.md` 6, 17). An independent session has
//! one for itself, with nobody in it.

use super::gate::Gate;
use super::projection::Projections;
use super::session::Session;
use crate::error::Result;
use crate::event::{Event, Vocabulary};
use crate::report::{Reporter, Severity};
use crate::storage::Storage;
use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Mutex, PoisonError};

/// Called with a session and one of its events.
pub(crate) type EventFn = dyn Fn(&Session, &Event) -> Result<()> + Send + Sync;
/// Called with a session.
pub(crate) type SessionFn = dyn Fn(&Session) -> Result<()> + Send + Sync;

/// What a store's sessions share.
pub(crate) struct Hub {
    pub(crate) gate: Gate,
    pub(crate) storage: Arc<dyn Storage>,
    pub(crate) projections: Arc<Projections>,
    pub(crate) vocabulary: Vocabulary,
    pub(crate) reporter: Reporter,
    /// Whether sessions refuse what readers of stored logs would (`session.md` 6.3).
    pub(crate) checks_stored_rules: bool,
    pub(crate) on_event: Arc<Listeners<EventFn>>,
    pub(crate) validators: Arc<Listeners<EventFn>>,
    pub(crate) on_created: Arc<Listeners<SessionFn>>,
    pub(crate) on_disposed: Arc<Listeners<SessionFn>>,
    pub(crate) on_flush: Arc<Listeners<SessionFn>>,
}

impl Hub {
    pub(crate) fn new(storage: Arc<dyn Storage>, rules: SessionRules) -> Hub {
        Hub {
            gate: Gate::default(),
            storage,
            projections: rules.projections,
            vocabulary: rules.vocabulary,
            reporter: rules.reporter,
            checks_stored_rules: rules.checks_stored_rules,
            on_event: Arc::default(),
            validators: Arc::default(),
            on_created: Arc::default(),
            on_disposed: Arc::default(),
            on_flush: Arc::default(),
        }
    }

    /// Calls something foreign for which nothing may fail: an error or a panic is reported and that is all.
    pub(crate) fn contain(&self, what: &str, session: &Session, call: impl FnOnce() -> Result<()>) {
        let failure = match catch_unwind(AssertUnwindSafe(call)) {
            Ok(Ok(())) => return,
            Ok(Err(error)) => error.to_string(),
            Err(_) => "it panicked".to_owned(),
        };
        let line = format!("a listener for {what} of session {} failed: {failure}", session.id());
        self.reporter.report(Severity::Error, &line);
    }
}

impl fmt::Debug for Hub {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Hub").field("checks_stored_rules", &self.checks_stored_rules).finish_non_exhaustive()
    }
}

/// What a session is judged by beyond its own events.
#[derive(Clone, Debug)]
pub struct SessionRules {
    /// The message projections (`session.md` 9); with [`ImageOffload`](super::ImageOffload) unless said otherwise.
    pub projections: Arc<Projections>,
    /// The event types that the host registered.
    pub vocabulary: Vocabulary,
    /// Where failures of listeners are told.
    pub reporter: Reporter,
    /// Whether an event is refused that would make the stored log unreadable (rules A1 to A25, `events.md` 11).
    pub checks_stored_rules: bool,
}

impl Default for SessionRules {
    fn default() -> Self {
        SessionRules {
            projections: Projections::built_in(),
            vocabulary: Vocabulary::default(),
            reporter: Reporter::default(),
            checks_stored_rules: true,
        }
    }
}

/// Callbacks in the order of their registration.
pub(crate) struct Listeners<F: ?Sized> {
    list: Mutex<Registered<F>>,
}

struct Registered<F: ?Sized> {
    next_id: u64,
    current: Arc<Vec<(u64, Arc<F>)>>,
}

impl<F: ?Sized> Default for Listeners<F> {
    fn default() -> Self {
        Listeners { list: Mutex::new(Registered { next_id: 0, current: Arc::default() }) }
    }
}

impl<F: ?Sized + Send + Sync + 'static> Listeners<F> {
    /// Adds a callback, which the returned subscription can take away.
    pub(crate) fn add(self: &Arc<Self>, callback: Arc<F>) -> Subscription {
        let mut list = self.list.lock().unwrap_or_else(PoisonError::into_inner);
        let id = list.next_id;
        list.next_id += 1;
        Arc::make_mut(&mut list.current).push((id, callback));
        let listeners = Arc::clone(self);
        Subscription { cancel: Arc::new(move || listeners.remove(id)) }
    }

    fn remove(&self, id: u64) {
        let mut list = self.list.lock().unwrap_or_else(PoisonError::into_inner);
        let mut kept = (*list.current).clone();
        kept.retain(|(known, _)| *known != id);
        let removed = std::mem::replace(&mut list.current, Arc::new(kept));
        drop(list);
        // Foreign destructors run without the lock.
        drop(removed);
    }

    /// Those registered now; later changes do not show in it.
    pub(crate) fn current(&self) -> Arc<Vec<(u64, Arc<F>)>> {
        Arc::clone(&self.list.lock().unwrap_or_else(PoisonError::into_inner).current)
    }
}

/// A registered listener or validator. It stays until [`cancel`](Self::cancel) is called; dropping this changes nothing.
#[derive(Clone)]
pub struct Subscription {
    cancel: Arc<dyn Fn() + Send + Sync>,
}

impl Subscription {
    /// Takes the callback away, from the next append on (`session.md` 6.1). A second call does nothing.
    pub fn cancel(&self) {
        (self.cancel)();
    }
}

impl fmt::Debug for Subscription {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Subscription").finish_non_exhaustive()
    }
}
