//! The life of a session on the disk: what it accepts waits here for a moment, and is written in frames.

use super::write_behind::Timer;
use crate::cancel::CancelToken;
use crate::error::{Code, Error, Result};
use crate::event::Event;
use crate::persistence::{Notice, SessionLog, StoredEvents};
use crate::report::{Reporter, Severity};
use crate::session::Pending;
use crate::session::durability::{Durability, OpenHandle};
use crate::storage::Storage;
use crate::store::Detach;
use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

/// How long the first waiting event waits at most before it is written without being asked (`design.md` 5, Write-behind). Later events
/// join it and do not put this off.
pub const WRITE_BEHIND_DELAY: Duration = Duration::from_millis(200);

/// Text of waiting events, in bytes, at which they are written at once (`design.md` 5, Write-behind).
pub const WRITE_BEHIND_BYTES: usize = 64 * 1024;

/// Text of waiting events, in bytes, at which the appending thread waits for the disk: it appends faster than the disk writes.
const CROWDED_BYTES: usize = 4 << 20;

/// Text of waiting events, in bytes, beyond which appends are refused: writing has failed for long (`design.md` 5, Waiting events).
pub const WAITING_BYTES_MAX: usize = 256 << 20;

/// One session's place on the disk.
#[derive(Debug)]
pub(super) struct Recording {
    me: Weak<Recording>,
    log: Arc<dyn SessionLog>,
    /// Whether the session has asked the rules of stored logs of what it hands over.
    are_checked: bool,
    /// What a resume did, beside what the log has to tell.
    resumed: Option<Notice>,
    storage: Arc<dyn Storage>,
    reporter: Reporter,
    timer: Arc<Timer>,
    /// The process that opened the session; a forked child is turned away before any lock is waited for.
    process_id: u32,
    is_closed: AtomicBool,
    /// What takes the session out of the registry; gone once that is done.
    detach: Mutex<Option<Detach>>,
    /// What the clones of the session hold that keep it open.
    handle: Mutex<Weak<OpenHandle>>,
    /// Held while waiting events are written, so that they reach the log in order. Appending does not take it.
    writing: Mutex<()>,
    waiting: Mutex<Waiting>,
}

/// Accepted events that are not written yet, in order.
#[derive(Debug, Default)]
struct Waiting {
    /// The members of one batch stay in one frame.
    batches: VecDeque<Vec<Event>>,
    bytes: usize,
    error: Option<Error>,
    /// Whether the thread in the background was told of these events.
    is_scheduled: bool,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    // Every change under these locks is whole before anything in it can panic.
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

fn text_bytes(events: &[Event]) -> usize {
    events.iter().map(|event| event.row().len() + 1).sum()
}

impl Recording {
    pub(super) fn new(
        log: Arc<dyn SessionLog>,
        are_checked: bool,
        resumed: Option<Notice>,
        storage: Arc<dyn Storage>,
        reporter: Reporter,
        timer: Arc<Timer>,
    ) -> Arc<Recording> {
        Arc::new_cyclic(|me| Recording {
            me: me.clone(),
            log,
            are_checked,
            resumed,
            process_id: storage.process_id(),
            storage,
            reporter,
            timer,
            is_closed: AtomicBool::new(false),
            detach: Mutex::default(),
            handle: Mutex::default(),
            writing: Mutex::default(),
            waiting: Mutex::default(),
        })
    }

    /// Remembers how the session leaves the registry; one that a creation listener has closed leaves it now.
    pub(super) fn set_detach(&self, detach: Detach) {
        *lock(&self.detach) = Some(detach);
        if self.is_closed.load(Ordering::Acquire) {
            self.leave();
        }
    }

    fn leave(&self) {
        let detach = lock(&self.detach).take();
        if let Some(detach) = detach {
            detach.detach();
        }
    }

    pub(super) fn set_handle(&self, handle: &Arc<OpenHandle>) {
        *lock(&self.handle) = Arc::downgrade(handle);
    }

    /// What keeps the session open, while something does.
    pub(super) fn handle(&self) -> Option<Arc<OpenHandle>> {
        lock(&self.handle).upgrade()
    }

    /// Where the events are stored that were written.
    pub(super) fn stored_events(&self) -> Option<StoredEvents> {
        self.log.stored_events()
    }

    pub(super) fn id(&self) -> &str {
        self.log.id()
    }

    fn check_process(&self) -> Result<()> {
        if self.storage.process_id() != self.process_id {
            let message = format!("this session was opened by process {}, not by its child", self.process_id);
            return Err(Error::new(Code::ForkedProcess, message).with_session_id(self.log.id()));
        }
        Ok(())
    }

    fn check_room(&self, waiting: &Waiting) -> Result<()> {
        if waiting.bytes < WAITING_BYTES_MAX {
            return Ok(());
        }
        let message = format!("{} bytes of events wait because they could not be written", waiting.bytes);
        let error = Error::new(Code::LimitExceeded, message).with_limit("waiting_bytes_max");
        let error = error.with_session_id(self.log.id()).with_advice("resolve the cause, then flush");
        Err(match &waiting.error {
            Some(cause) => error.with_cause(cause.duplicate()),
            None => error,
        })
    }

    /// What the thread in the background does when the time has come.
    pub(super) fn write_in_background(&self) {
        if self.check_process().is_err() {
            return;
        }
        lock(&self.waiting).is_scheduled = false;
        if let Err(error) = self.write_waiting(&CancelToken::new()) {
            // Kept for `pending`; nothing is written unasked until a flush succeeds.
            let line = format!("events of session {} could not be written: {error}", self.log.id());
            self.reporter.report(Severity::Error, &line);
        }
    }

    /// Writes what waits, in order, in as few frames as there may be.
    fn write_waiting(&self, cancel: &CancelToken) -> Result<()> {
        let _in_order = lock(&self.writing);
        loop {
            let (batch, batches) = self.next_frame();
            if batch.is_empty() {
                lock(&self.waiting).error = None;
                return Ok(());
            }
            let written = match self.are_checked {
                true => self.log.append_checked(&batch, cancel),
                false => self.log.append(&batch, cancel),
            };
            let mut waiting = lock(&self.waiting);
            match written {
                Ok(()) => {
                    waiting.batches.drain(..batches);
                    waiting.bytes -= text_bytes(&batch);
                }
                Err(error) => {
                    // Who cancels has not learned that writing fails.
                    if error.code() != Code::Cancelled {
                        waiting.error = Some(error.duplicate());
                    }
                    return Err(error);
                }
            }
        }
    }

    /// The events of the next frame, and how many batches they are.
    fn next_frame(&self) -> (Vec<Event>, usize) {
        let waiting = lock(&self.waiting);
        let (mut events, mut bytes, mut batches) = (Vec::new(), 0, 0);
        for next in &waiting.batches {
            if batches > 0 && bytes >= WRITE_BEHIND_BYTES {
                break;
            }
            bytes += text_bytes(next);
            events.extend_from_slice(next);
            batches += 1;
        }
        (events, batches)
    }
}

impl Durability for Recording {
    fn check_append(&self) -> Result<()> {
        self.check_open("append")?;
        self.check_room(&lock(&self.waiting))
    }

    fn check_open(&self, operation: &str) -> Result<()> {
        self.check_process()?;
        if self.is_closed.load(Ordering::Acquire) {
            let message = format!("`{operation}` was called on a closed session");
            return Err(Error::new(Code::HandleClosed, message).with_session_id(self.log.id()));
        }
        Ok(())
    }

    fn committed(&self, events: &[Event]) {
        let (is_due, is_first) = {
            let mut waiting = lock(&self.waiting);
            waiting.bytes += text_bytes(events);
            waiting.batches.push_back(events.to_vec());
            let goes_on = waiting.error.is_none();
            let is_due = goes_on && waiting.bytes >= WRITE_BEHIND_BYTES;
            let is_first = goes_on && !waiting.is_scheduled;
            waiting.is_scheduled |= is_first;
            (is_due, is_first)
        };
        if is_due {
            self.timer.hurry(&self.me);
        } else if is_first {
            self.timer.schedule(&self.me);
        }
    }

    fn relieve(&self) {
        let is_crowded = {
            let waiting = lock(&self.waiting);
            waiting.bytes >= CROWDED_BYTES && waiting.error.is_none()
        };
        if is_crowded {
            // Accepted all the same: the failure is kept for `pending`, and the next flush reports its own.
            let _ = self.write_waiting(&CancelToken::new());
        }
    }

    fn flush(&self, cancel: &CancelToken) -> Result<()> {
        self.check_open("flush")?;
        self.write_waiting(cancel)?;
        self.log.flush(cancel)
    }

    fn close(&self) -> Result<()> {
        self.check_process()?;
        if self.is_closed.swap(true, Ordering::AcqRel) {
            return Ok(());
        }
        // Waits for an append that goes on in another thread: what it accepts is still written.
        self.leave();
        let written = self.write_waiting(&CancelToken::new());
        let closed = self.log.close();
        match (written, closed) {
            (Ok(()), closed) => closed,
            (written, Ok(())) => written,
            (Err(one), Err(other)) => Err(Error::several(vec![one, other])),
        }
    }

    fn abandon(&self) {
        let Err(error) = self.close() else { return };
        if error.code() != Code::ForkedProcess {
            let line = format!("session {} was dropped without a close: {error}", self.log.id());
            self.reporter.report(Severity::Error, &line);
        }
    }

    fn pending(&self) -> Pending {
        let waiting = lock(&self.waiting);
        Pending {
            events: waiting.batches.iter().map(|batch| batch.len() as u64).sum(),
            bytes: waiting.bytes as u64,
            error: waiting.error.as_ref().map(Error::duplicate),
        }
    }

    fn notices(&self) -> Vec<Notice> {
        self.log.notices().into_iter().chain(self.resumed.clone()).collect()
    }
}

impl Drop for Recording {
    fn drop(&mut self) {
        // In a forked child this touches nothing.
        self.abandon();
    }
}
