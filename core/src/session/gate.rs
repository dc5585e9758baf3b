//! The write gate: one thread at a time changes the sessions behind it, and may come in again while it is inside
//! (`session.md` 6.5).
//!
//! All sessions of a store share one gate, so a listener that appends to another session never waits: its thread is inside already.
//! No lock of the gate is held while anybody is inside; waiting threads sleep.

use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::{self, ThreadId};

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
        let me = thread::current().id();
        let mut inside = self.lock();
        while inside.thread.is_some_and(|other| other != me) {
            inside = self.left.wait(inside).unwrap_or_else(PoisonError::into_inner);
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
            drop(inside);
            self.left.notify_one();
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

#[cfg(test)]
mod tests {
    use super::Gate;
    use std::sync::Arc;
    use std::sync::atomic::{AtomicU32, Ordering};

    #[test]
    fn a_thread_that_is_inside_comes_in_again() {
        let gate = Gate::default();
        let first = gate.enter();
        let second = gate.enter();
        assert!(first.is_outermost() && !second.is_outermost());
        drop(first);
        drop(second);
        assert!(gate.enter().is_outermost());
    }

    #[test]
    fn two_threads_are_never_inside_at_once() {
        let (gate, inside) = (Arc::new(Gate::default()), Arc::new(AtomicU32::new(0)));
        std::thread::scope(|scope| {
            for _ in 0..8 {
                scope.spawn(|| {
                    for _ in 0..500 {
                        let _outer = gate.enter();
                        let _inner = gate.enter();
                        assert_eq!(inside.fetch_add(1, Ordering::SeqCst), 0);
                        std::thread::yield_now();
                        inside.fetch_sub(1, Ordering::SeqCst);
                    }
                });
            }
        });
    }
}
