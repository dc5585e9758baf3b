//! The write gate: one thread at a time changes the sessions behind it, and may come in again while it is inside
//! (`session.md` 6.5).
//!
//! All sessions of a store share one gate, so a listener that appends to another session never waits: its thread is inside already.
//! No lock of the gate is held while anybody is inside; waiting threads sleep. Where its primitives come from is left open, so that a
//! scheduler that tries the orders of events can be put under it (`core/tests/gate.rs`).

use super::primitives::{Condvar, Mutex, MutexGuard, PoisonError, ThreadId, current_thread};

/// Lets one thread in at a time, as often as it likes.
#[derive(Debug, Default)]
pub(crate) struct Gate {
    inside: Mutex<Inside>,
    left: Condvar,
}

#[derive(Debug, Default)]
struct Inside {
    thread: Option<ThreadId>,
    /// How often that thread came in and did not leave yet.
    depth: u32,
    /// Threads that sleep until it leaves: where there are none, leaving makes no call of the system.
    waiting: u32,
}

/// A thread that is inside; it leaves when this is dropped.
#[derive(Debug)]
pub(crate) struct Entered<'a> {
    gate: &'a Gate,
    is_outermost: bool,
}

impl Gate {
    /// Comes in, as soon as no other thread is inside.
    pub(crate) fn enter(&self) -> Entered<'_> {
        let me = current_thread();
        let mut inside = self.lock();
        while inside.thread.is_some_and(|other| other != me) {
            inside.waiting += 1;
            inside = self.left.wait(inside).unwrap_or_else(PoisonError::into_inner);
            inside.waiting -= 1;
        }
        inside.thread = Some(me);
        inside.depth += 1;
        Entered { gate: self, is_outermost: inside.depth == 1 }
    }

    fn leave(&self) {
        let mut inside = self.lock();
        inside.depth -= 1;
        if inside.depth == 0 {
            inside.thread = None;
            let is_awaited = inside.waiting > 0;
            drop(inside);
            if is_awaited {
                self.left.notify_one();
            }
        }
    }

    fn lock(&self) -> MutexGuard<'_, Inside> {
        // Nothing that can panic happens under this lock.
        self.inside.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Entered<'_> {
    /// Whether the thread was outside before.
    pub(crate) fn is_outermost(&self) -> bool {
        self.is_outermost
    }
}

impl Drop for Entered<'_> {
    fn drop(&mut self) {
        self.gate.leave();
    }
}
