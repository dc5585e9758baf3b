//! The one background thread of a store: it writes events that have waited long enough (`design.md` 5, Write-behind).
//!
//! It starts with the first waiting event and ends with the store and its sessions. No lock is held while it writes, and it keeps no
//! session alive.

use super::recording::Recording;
use crate::storage::Storage;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError, Weak};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

/// Keeps the thread. It is held by the store and by whatever keeps a session open, never by the thread itself: whoever lets go of it last
/// waits until the thread has ended, so that nothing of the library runs or is held behind a store that is gone.
#[derive(Debug)]
pub(super) struct WriteBehind {
    timer: Arc<Timer>,
    storage: Arc<dyn Storage>,
    process_id: u32,
}

/// Knows when which session is to be written.
#[derive(Debug)]
pub(super) struct Timer {
    delay: Duration,
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct State {
    /// In no order; there is one at most for each session.
    due: Vec<(Instant, Weak<Recording>)>,
    is_over: bool,
    thread: Option<JoinHandle<()>>,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl WriteBehind {
    pub(super) fn new(storage: Arc<dyn Storage>, delay: Duration) -> WriteBehind {
        let timer = Timer { delay, state: Mutex::default(), changed: Condvar::new() };
        let process_id = storage.process_id();
        WriteBehind { timer: Arc::new(timer), storage, process_id }
    }

    /// What sessions tell that they wait.
    pub(super) fn timer(&self) -> Arc<Timer> {
        Arc::clone(&self.timer)
    }
}

impl Timer {
    /// Has a session written when the delay has passed.
    pub(super) fn schedule(self: &Arc<Self>, recording: &Weak<Recording>) {
        // A delay past the end of time is a wish to write on flush alone.
        if let Some(at) = Instant::now().checked_add(self.delay) {
            self.schedule_at(recording, at);
        }
    }

    /// Has a session written as soon as may be.
    pub(super) fn hurry(self: &Arc<Self>, recording: &Weak<Recording>) {
        self.schedule_at(recording, Instant::now());
    }

    fn schedule_at(self: &Arc<Self>, recording: &Weak<Recording>, at: Instant) {
        let mut state = lock(&self.state);
        if state.is_over {
            return;
        }
        match state.due.iter_mut().find(|(_, known)| known.ptr_eq(recording)) {
            Some((planned, _)) => *planned = at.min(*planned),
            None => state.due.push((at, recording.clone())),
        }
        if state.thread.is_none() {
            let timer = Arc::clone(self);
            let builder = thread::Builder::new().name("dsh-write-behind".to_owned());
            // Where no thread can be had, the next flush, or a crowd of waiting events, writes them.
            state.thread = builder.spawn(move || timer.run()).ok();
        }
        drop(state);
        self.changed.notify_one();
    }
}

impl Timer {
    fn run(&self) {
        while let Some(recording) = self.next() {
            if let Some(recording) = recording.upgrade() {
                recording.write_in_background();
            }
        }
    }

    /// Waits for the next session that is due; `None` when all is over.
    fn next(&self) -> Option<Weak<Recording>> {
        let mut state = lock(&self.state);
        loop {
            if state.is_over {
                return None;
            }
            let now = Instant::now();
            let earliest = state.due.iter().enumerate().min_by_key(|(_, (at, _))| *at);
            state = match earliest.map(|(index, (at, _))| (index, *at)) {
                Some((index, at)) if at <= now => return Some(state.due.swap_remove(index).1),
                Some((_, at)) => {
                    let waited = self.changed.wait_timeout(state, at - now);
                    waited.unwrap_or_else(PoisonError::into_inner).0
                }
                None => self.changed.wait(state).unwrap_or_else(PoisonError::into_inner),
            };
        }
    }
}

impl Drop for WriteBehind {
    fn drop(&mut self) {
        // A forked child has no such thread, and must not wait for a lock that it may have held.
        if self.storage.process_id() != self.process_id {
            return;
        }
        let thread = {
            let mut state = lock(&self.timer.state);
            state.is_over = true;
            state.thread.take()
        };
        self.timer.changed.notify_all();
        // A callback that the thread is in may drop the last session, and with it this.
        if let Some(thread) = thread.filter(|thread| thread.thread().id() != thread::current().id()) {
            // It panics for nobody: what it calls contains its own.
            let _ = thread.join();
        }
    }
}
