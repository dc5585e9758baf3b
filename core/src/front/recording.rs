//! A session that is being recorded: events are accepted at once and written in frames.
//!
//! Every event is judged by the rules that readers of the stored log ask, so that what was accepted can always be reopened. The rules
//! of sessions beyond those (`session.md` 4 to 6), the surface and the 200 ms window are not built yet.

use crate::cancel::CancelToken;
use crate::error::{Code, Error, Result};
use crate::event::breach::Breach;
use crate::event::{Event, EventDraft};
use crate::format::EventRange;
use crate::format::header::SessionHeader;
use crate::format::relationships::LogChecker;
use crate::persistence::{Events, Notice, Resumed, SessionLog};
use crate::storage::Storage;
use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Text of waiting events at which they are written without being asked (`design.md` 5, Write-behind).
pub const WRITE_BEHIND_BYTES: usize = 64 * 1024;

/// Text of waiting events beyond which appends are refused: writing has failed for long (`design.md` 5, Waiting events).
pub const WAITING_BYTES_MAX: usize = 256 << 20;

/// Events that were accepted and are not on the disk yet.
#[derive(Debug)]
pub struct Pending {
    /// How many.
    pub events: u64,
    /// Their text, in bytes.
    pub bytes: u64,
    /// Why the last attempt to write them failed, if it did. Writing without being asked pauses until a flush succeeds.
    pub error: Option<Error>,
}

/// One session, open for appending. Many threads may use it; clones share everything, and the last one to go closes it.
#[derive(Clone, Debug)]
pub struct Session {
    recording: Arc<Recording>,
}

/// What the clones of a session share, and what its store flushes.
#[derive(Debug)]
pub(super) struct Recording {
    log: Arc<dyn SessionLog>,
    storage: Arc<dyn Storage>,
    /// The process that opened the session; a forked child is turned away before any lock is waited for.
    process_id: u32,
    is_closed: AtomicBool,
    /// Held while waiting events are written, so that they reach the log in order. Appending does not take it.
    writing: Mutex<()>,
    waiting: Mutex<Waiting>,
}

/// Accepted events that are not written yet, in order.
#[derive(Debug)]
struct Waiting {
    next_seq: u64,
    /// The rules that a reader of the stored log will ask, as far as the last accepted event: what is accepted can be reopened.
    rules: LogChecker,
    /// The members of one batch stay in one frame.
    batches: VecDeque<Vec<Event>>,
    bytes: usize,
    error: Option<Error>,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    // Every change under these locks is whole before anything in it can panic.
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Accepts an event that keeps every rule; one that only a later event could make good is refused as well.
fn judge(rules: &mut LogChecker, event: Event) -> Result<Event> {
    let effect = rules.judge(&event).map_err(|breach| broken(&breach, &event))?;
    if let Some(doubt) = effect.doubt() {
        return Err(broken(doubt, &event));
    }
    rules.commit(effect);
    Ok(event)
}

fn broken(breach: &Breach, event: &Event) -> Error {
    Error::new(Code::EventRefused, breach.message())
        .with_rule(breach.rule())
        .with_event_type(event.kind())
        .with_seq(event.seq())
}

fn text_bytes(events: &[Event]) -> usize {
    events.iter().map(|event| event.row().len() + 1).sum()
}

impl Session {
    pub(super) fn new(resumed: Resumed, storage: Arc<dyn Storage>) -> Result<Session> {
        let Resumed { log, checker } = resumed;
        let next_seq = log.event_count(&CancelToken::new())?;
        let waiting = Waiting { next_seq, rules: checker, batches: VecDeque::new(), bytes: 0, error: None };
        let recording = Recording {
            log,
            process_id: storage.process_id(),
            storage,
            is_closed: AtomicBool::new(false),
            writing: Mutex::new(()),
            waiting: Mutex::new(waiting),
        };
        Ok(Session { recording: Arc::new(recording) })
    }

    /// What the store flushes with all others.
    pub(super) fn recording(&self) -> &Arc<Recording> {
        &self.recording
    }

    /// The session's id.
    #[must_use]
    pub fn id(&self) -> &str {
        self.recording.log.id()
    }

    /// The session's header.
    #[must_use]
    pub fn header(&self) -> &SessionHeader {
        self.recording.log.header()
    }

    /// The seq that the next event gets: how many events the session has.
    #[must_use]
    pub fn next_seq(&self) -> u64 {
        lock(&self.recording.waiting).next_seq
    }

    /// What opening and writing have found so far.
    #[must_use]
    pub fn notices(&self) -> Vec<Notice> {
        self.recording.log.notices()
    }

    /// How many events at the beginning were inherited by a fork.
    ///
    /// # Errors
    /// Those of [`SessionLog::inherited_event_count`].
    pub fn inherited_event_count(&self) -> Result<u64> {
        self.recording.log.inherited_event_count(&CancelToken::new())
    }

    /// Events that are not on the disk yet.
    #[must_use]
    pub fn pending(&self) -> Pending {
        let waiting = lock(&self.recording.waiting);
        Pending {
            events: waiting.batches.iter().map(|batch| batch.len() as u64).sum(),
            bytes: waiting.bytes as u64,
            error: waiting.error.as_ref().map(Error::duplicate),
        }
    }

    /// Accepts one event. It is durable when [`flush`](Self::flush) or [`close`](Self::close) has returned.
    ///
    /// # Errors
    /// `EVENT_REFUSED` with the rule, `HANDLE_CLOSED`, `LIMIT_EXCEEDED` when too much waits because writing fails.
    pub fn append(&self, draft: &EventDraft) -> Result<Event> {
        let mut events = self.append_batch(std::slice::from_ref(draft))?;
        events.pop().ok_or_else(|| Error::new(Code::Internal, "an accepted event vanished"))
    }

    /// Accepts several events together: all of them or none, and one frame on the disk.
    ///
    /// # Errors
    /// As [`append`](Self::append), with the index of the refused member.
    pub fn append_batch(&self, drafts: &[EventDraft]) -> Result<Vec<Event>> {
        self.recording.check_process()?;
        let (events, is_due) = {
            let mut waiting = lock(&self.recording.waiting);
            // Closing marks the session under this lock: what is accepted here is still written by it.
            self.recording.check_open("append")?;
            self.recording.check_room(&waiting)?;
            let events = self.accept_batch(drafts, &mut waiting)?;
            if events.is_empty() {
                return Ok(events);
            }
            waiting.next_seq += events.len() as u64;
            waiting.bytes += text_bytes(&events);
            waiting.batches.push_back(events.clone());
            (events, waiting.bytes >= WRITE_BEHIND_BYTES && waiting.error.is_none())
        };
        if is_due {
            // Accepted all the same: the failure is kept for `pending`, and the next flush reports its own.
            let _ = self.recording.write_waiting(&CancelToken::new());
        }
        Ok(events)
    }

    /// Accepts one line of `append` (`cli.md`).
    ///
    /// # Errors
    /// As [`append`](Self::append), and for text that is no event `INVALID_ARGUMENT`, `NOT_LOSSLESS_JSON`.
    pub fn append_line(&self, line: impl AsRef<[u8]>) -> Result<Event> {
        self.append(&EventDraft::from_line(line)?)
    }

    /// All members, each judged after those before it; or none, and the rules stand where they stood.
    fn accept_batch(&self, drafts: &[EventDraft], waiting: &mut Waiting) -> Result<Vec<Event>> {
        let mut events = Vec::with_capacity(drafts.len());
        waiting.rules.begin_batch();
        for (draft, seq) in drafts.iter().zip(waiting.next_seq..) {
            let index = events.len() as u64;
            let judged = self.accept(draft, seq).and_then(|event| judge(&mut waiting.rules, event));
            match judged {
                Ok(event) => events.push(event),
                Err(error) => {
                    waiting.rules.undo_batch();
                    return Err(self.refused(error, index));
                }
            }
        }
        waiting.rules.keep_batch();
        Ok(events)
    }

    fn accept(&self, draft: &EventDraft, seq: u64) -> Result<Event> {
        if let Some(given) = draft.seq().filter(|&given| given != seq) {
            let message = format!("seq {given} was given, the next is {seq}");
            let error = Error::new(Code::EventRefused, message).with_rule("SEQ_NOT_CONTIGUOUS");
            return Err(error.with_expected(seq).with_got(given));
        }
        if !draft.has_known_type() {
            let message = format!("`{}` is not an event type this library knows", draft.kind());
            return Err(Error::new(Code::EventRefused, message)
                .with_rule("UNKNOWN_EVENT_TYPE")
                .with_event_type(draft.kind())
                .with_advice("use a known type, or a plugin record: `plugin:<name>/<kind>`"));
        }
        draft.build(seq, self.recording.storage.now_unix_ms())
    }

    fn refused(&self, error: Error, index: u64) -> Error {
        error.with_session_id(self.id()).with_index(index)
    }

    /// The durability barrier: on return every accepted event is on the disk, and the session exists for other processes.
    ///
    /// # Errors
    /// `HANDLE_CLOSED`, `SESSION_OWNERSHIP_LOST`, `SESSION_ALREADY_OWNED`, `SESSION_ALREADY_EXISTS`, `IO`; the events wait on, in order.
    pub fn flush(&self) -> Result<()> {
        self.flush_with(&CancelToken::new())
    }

    /// As [`flush`](Self::flush), stoppable before it writes.
    ///
    /// # Errors
    /// As there, and `CANCELLED`.
    pub fn flush_with(&self, cancel: &CancelToken) -> Result<()> {
        self.recording.flush(cancel)
    }

    /// The events of a range, those included that are not written yet.
    ///
    /// # Errors
    /// Those of [`SessionLog::events`].
    pub fn events(&self, range: EventRange) -> Result<Events> {
        self.recording.check_open("events")?;
        let (next_seq, waiting) = {
            // Nothing is written between these two looks.
            let _in_order = lock(&self.recording.writing);
            let waiting = lock(&self.recording.waiting);
            (waiting.next_seq, waiting.batches.iter().flatten().cloned().collect::<Vec<_>>())
        };
        let stored = next_seq - waiting.len() as u64;
        let (from, to) = match range {
            EventRange::Window { from, count } => (from, from.saturating_add(count).min(next_seq)),
            EventRange::Newest { count } => (next_seq.saturating_sub(count), next_seq),
        };
        let cancel = CancelToken::new();
        let in_log = EventRange::window(from, to.min(stored).saturating_sub(from));
        let mut in_log = self.recording.log.events(in_log, &cancel)?;
        let mut waiting = waiting.into_iter().filter(move |event| (from..to).contains(&event.seq()));
        Ok(Events::from_fn(move || match in_log.next() {
            Some(event) => event.map(Some),
            None => Ok(waiting.next()),
        }))
    }

    /// Writes what waits, gives up ownership. A second close does nothing.
    ///
    /// # Errors
    /// Those of [`flush`](Self::flush); the session is closed all the same, and what could not be written is lost.
    pub fn close(&self) -> Result<()> {
        self.recording.close()
    }
}

impl Recording {
    pub(super) fn flush(&self, cancel: &CancelToken) -> Result<()> {
        self.check_open("flush")?;
        self.write_waiting(cancel)?;
        self.log.flush(cancel)
    }

    fn close(&self) -> Result<()> {
        self.check_process()?;
        let was_closed = {
            let _none_is_accepted_meanwhile = lock(&self.waiting);
            self.is_closed.swap(true, Ordering::AcqRel)
        };
        if was_closed {
            return Ok(());
        }
        let written = self.write_waiting(&CancelToken::new());
        let closed = self.log.close();
        match (written, closed) {
            (Ok(()), closed) => closed,
            (written, Ok(())) => written,
            (Err(one), Err(other)) => Err(Error::several(vec![one, other])),
        }
    }

    fn check_process(&self) -> Result<()> {
        if self.storage.process_id() != self.process_id {
            let message = format!("this session was opened by process {}, not by its child", self.process_id);
            return Err(Error::new(Code::ForkedProcess, message).with_session_id(self.log.id()));
        }
        Ok(())
    }

    fn check_open(&self, operation: &str) -> Result<()> {
        self.check_process()?;
        if self.is_closed.load(Ordering::Acquire) {
            let message = format!("`{operation}` was called on a closed session");
            return Err(Error::new(Code::HandleClosed, message).with_session_id(self.log.id()));
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

    /// Writes what waits, in order, in as few frames as there may be.
    fn write_waiting(&self, cancel: &CancelToken) -> Result<()> {
        let _in_order = lock(&self.writing);
        loop {
            let (batch, batches) = {
                let waiting = lock(&self.waiting);
                let mut batch = Vec::new();
                let mut bytes = 0;
                for next in &waiting.batches {
                    if !batch.is_empty() && bytes >= WRITE_BEHIND_BYTES {
                        break;
                    }
                    bytes += text_bytes(next);
                    batch.extend_from_slice(next);
                }
                let length = batch.len();
                let mut counted = 0;
                let batches = waiting.batches.iter().take_while(|one| {
                    counted += one.len();
                    counted <= length
                });
                (batch, batches.count())
            };
            if batch.is_empty() {
                lock(&self.waiting).error = None;
                return Ok(());
            }
            let written = self.log.append(&batch, cancel);
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
}

impl Drop for Recording {
    fn drop(&mut self) {
        // Someone who needs to know calls `close`; dropping writes what it can. In a forked child every call fails at once.
        let _ = self.close();
    }
}
