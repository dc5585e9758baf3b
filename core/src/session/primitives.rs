//! What the gate is made of; its test puts others in their place.

pub(super) use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
pub(super) use std::thread::ThreadId;

pub(super) fn current_thread() -> ThreadId {
    std::thread::current().id()
}
