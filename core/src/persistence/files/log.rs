//! The handle of a file-backed log: checks in the order of `format.md` 6.1, then hands on to reader or writer.

use super::Shared;
use super::checked::OwnRules;
use super::lease::Lease;
use super::publication;
use super::reading::{AcceptedReader, Observed, StableReader, StoredLog, check_lineage};
use super::writer::{Accepted, Body, LogFile, Writer};
use crate::cancel::CancelToken;
use crate::error::{Code, Error, Result};
use crate::event::Event;
use crate::format::EventRange;
use crate::format::header::SessionHeader;
use crate::format::names::Encoding;
use crate::format::prefix::{StoredPrefix, stored_prefix};
use crate::format::reader::{LogEnd, LogReader, Trust};
use crate::format::relationships::LogChecker;
use crate::persistence::contract::{
    Access, EventSink, EventSlice, EventState, Events, NewLog, Notice, SessionLog, StoredEvents,
};
use crate::persistence::rules::{check_batch, check_checked_batch, check_seed};
use crate::storage::OpenHow;
use std::fmt;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// One open channel onto a log file.
pub(super) struct FileLog {
    shared: Arc<Shared>,
    id: String,
    header: SessionHeader,
    /// Set by the first `close`; later calls fail before anything else is looked at.
    is_closing: AtomicBool,
    side: Side,
    observed: Arc<AtomicU64>,
    notices: Mutex<Vec<Notice>>,
}

/// What the handle works with.
enum Side {
    Read {
        /// What the last read found; `None` for a session that was pending when it was opened.
        log: Mutex<Option<Box<StoredLog>>>,
    },
    Write {
        /// Serializes appends, flushes and the close. Held across their I/O: that is what serializing them means. Reads do not take it.
        writer: Box<Mutex<Writer>>,
        /// What reads of this handle may see, copied from the writer after each change.
        accepted: Mutex<Option<Accepted>>,
        cut: u64,
        is_materialized: AtomicBool,
    },
}

/// Whether a read asks the rules of rows again that this process has asked of the same revision.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Trusts {
    EarlierChecks,
    Nothing,
}

/// A lock whose data is valid after a panic elsewhere: each change is one assignment, or is undone by the next call.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

pub(super) fn not_found(id: &str) -> Error {
    Error::new(Code::SessionNotFound, format!("there is no session {id}")).with_session_id(id)
}

impl FileLog {
    /// The handle of a session that is not on the disk yet.
    pub(super) fn created(
        shared: &Arc<Shared>,
        header: SessionHeader,
        cut: u64,
        encoding: Encoding,
    ) -> Result<FileLog> {
        let place = publication::place_of(shared, &header, encoding)?;
        let vocabulary = shared.settings.vocabulary.clone();
        let rules = OwnRules::new(Some(LogChecker::with_inherited_count(&header, cut, vocabulary)), None);
        Ok(FileLog::writing(shared, header, Writer::created(place, rules), cut, Vec::new()))
    }

    fn writing(
        shared: &Arc<Shared>,
        header: SessionHeader,
        writer: Writer,
        cut: u64,
        notices: Vec<Notice>,
    ) -> FileLog {
        FileLog {
            shared: Arc::clone(shared),
            id: header.id.clone(),
            header,
            is_closing: AtomicBool::new(false),
            observed: Arc::default(),
            side: Side::Write {
                accepted: Mutex::new(writer.accepted()),
                is_materialized: AtomicBool::new(writer.is_materialized()),
                writer: Box::new(Mutex::new(writer)),
                cut,
            },
            notices: Mutex::new(notices),
        }
    }

    pub(super) fn open_read(shared: &Arc<Shared>, id: &str) -> Result<FileLog> {
        let (header, log) = match shared.pending(id) {
            Some(pending) => (pending.header, None),
            None => {
                let located = shared.find(id)?.ok_or_else(|| not_found(id))?;
                let log = StoredLog::open(shared, located, id, OpenHow::Read)?;
                (log.header.clone(), Some(log))
            }
        };
        Ok(FileLog {
            shared: Arc::clone(shared),
            id: id.to_owned(),
            header,
            is_closing: AtomicBool::new(false),
            observed: Arc::default(),
            side: Side::Read { log: Mutex::new(log.map(Box::new)) },
            notices: Mutex::default(),
        })
    }

    /// Takes the lock, then reads and checks the whole log, unless this process knows it to be unchanged since it last did.
    pub(super) fn open_write(shared: &Arc<Shared>, id: &str, cancel: &CancelToken) -> Result<FileLog> {
        let (lease, log) = lock_log(shared, id)?;
        let (end, rules) = match shared.checked_end(id, &log.metadata) {
            Some(end) => (end, shared.take_rules(id, &log.metadata)),
            None => {
                let (end, checker) = read_and_remember(shared, &log, cancel, &mut |_| Ok(()))?;
                (end, OwnRules::new(Some(checker), Some(log.metadata)))
            }
        };
        Ok(FileLog::owning(shared, lease, log, end, rules))
    }

    /// Takes the lock, then reads and checks the whole log once, for `sink` and for the checker that judged it: the caller's from then on.
    pub(super) fn resume(
        shared: &Arc<Shared>,
        id: &str,
        cancel: &CancelToken,
        sink: &mut EventSink<'_>,
    ) -> Result<(FileLog, LogChecker)> {
        let (lease, log) = lock_log(shared, id)?;
        let (end, checker) = read_and_remember(shared, &log, cancel, sink)?;
        let rules = OwnRules::new(None, Some(log.metadata));
        Ok((FileLog::owning(shared, lease, log, end, rules), checker))
    }

    /// The handle of a log that is locked and was read to its end.
    fn owning(shared: &Arc<Shared>, lease: Lease, log: StoredLog, end: LogEnd, rules: OwnRules) -> FileLog {
        let mut notices = Vec::new();
        notices.extend(lease.notice());
        if let Err(error) = lease.write_owner(&*shared.storage) {
            notices.push(Notice::OwnerFile { reason: error.to_string() });
        }
        if let Some(torn) = &end.torn {
            notices.push(Notice::TornTail {
                keep_bytes: torn.keep_bytes,
                cut_bytes: torn.cut_bytes,
                cut_rows: torn.cut_rows,
                recovered: torn.recovered.len() as u64,
                reason: torn.reason.clone(),
            });
        }
        let cut = end.inherited_marker.filter(|_| log.header.is_seeded).unwrap_or(0);
        let file = LogFile {
            file: Some(Arc::clone(&log.source.file)),
            identity: log.metadata,
            path: log.located.path.clone(),
        };
        let StoredLog { located, header, source, .. } = log;
        let writer = Writer::opened(located, lease, file, source.header_end, end, rules);
        FileLog::writing(shared, header, writer, cut, notices)
    }

    /// The checks that come before all others (`format.md` 6.1); a forked child is turned away before any lock is waited for.
    fn enter(&self, operation: &str) -> Result<()> {
        self.shared.check_process()?;
        if self.is_closing.load(Ordering::Acquire) {
            return Err(self.closed(operation));
        }
        Ok(())
    }

    fn closed(&self, operation: &str) -> Error {
        let message = format!("`{operation}` was called on a closed handle of session {}", self.id);
        Error::new(Code::HandleClosed, message).with_session_id(&self.id)
    }

    /// The log as it is now, for a read handle; `None` while the session is pending.
    fn current(&self, known: &Mutex<Option<Box<StoredLog>>>) -> Result<Option<StoredLog>> {
        let before = lock(known).clone();
        let now = match before {
            Some(log) => log.refreshed(&self.shared, &self.id)?.ok_or_else(|| not_found(&self.id))?,
            None if self.shared.pending(&self.id).is_some() => return Ok(None),
            None => {
                let located = self.shared.find(&self.id)?.ok_or_else(|| not_found(&self.id))?;
                StoredLog::open(&self.shared, located, &self.id, OpenHow::Read)?
            }
        };
        *lock(known) = Some(Box::new(now.clone()));
        Ok(Some(now))
    }

    /// A reader of the log as it is now, for a read handle; `None` while the session is pending.
    fn stable_reader(
        &self,
        known: &Mutex<Option<Box<StoredLog>>>,
        range: EventRange,
        trusts: Trusts,
        cancel: &CancelToken,
    ) -> Result<Option<StableReader>> {
        // Before the log is looked at: another read of this handle may see more of it and finish first.
        let events_min = self.observed.load(Ordering::Acquire);
        let Some(mut log) = self.current(known)? else { return Ok(None) };
        if trusts == Trusts::EarlierChecks && self.shared.checked_end(&self.id, &log.metadata).is_some() {
            log.source.trust = Trust::Judged;
        }
        let seen = Observed { events: Arc::clone(&self.observed), events_min };
        StableReader::new(Arc::clone(&self.shared), &self.id, log, range, seen, cancel).map(Some)
    }

    /// Runs a change under the writer's lock and shows its result to readers.
    fn change<T>(
        &self,
        operation: &str,
        cancel: &CancelToken,
        change: impl FnOnce(&mut Writer, u64, &mut Vec<Notice>) -> Result<T>,
    ) -> Result<T> {
        self.enter(operation)?;
        let Side::Write { writer, accepted, cut, is_materialized } = &self.side else {
            cancel.check()?;
            let message =
                format!("`{operation}` needs a write handle; this one of session {} only reads", self.id);
            return Err(Error::new(Code::SessionReadOnly, message).with_session_id(&self.id));
        };
        let mut writer = lock(writer);
        // Closed while this call waited for its turn.
        if self.is_closing.load(Ordering::Acquire) {
            return Err(self.closed(operation));
        }
        cancel.check()?;
        let mut notices = Vec::new();
        let outcome = change(&mut writer, *cut, &mut notices);
        lock(&self.notices).append(&mut notices);
        if writer.is_materialized() && !is_materialized.swap(true, Ordering::AcqRel) {
            self.shared.no_longer_pending(&self.id);
        }
        if let Some(now) = writer.accepted() {
            *lock(accepted) = Some(now);
        }
        outcome
    }

    /// Stores a session that was just created with the events that it begins with.
    pub(super) fn begin(&self, new: &NewLog<'_>, cancel: &CancelToken) -> Result<()> {
        self.change("create", cancel, |writer, cut, notices| {
            match new.are_checked {
                true => check_checked_batch(&self.header, cut, 0, new.events)?,
                false => {
                    check_batch(&self.header, cut, 0, new.events, &self.shared.settings.vocabulary)?;
                }
            }
            let body = match &new.stored {
                Some(from) if from.source.encoding == writer.encoding() => {
                    let prefix = copied_prefix(from, new, cut, cancel)?;
                    let rest = new.events.get(prefix.event_count as usize..).unwrap_or_default();
                    Body::Copied { from, prefix, rest, cancel }
                }
                // Rows are written in this log's encoding.
                _ => Body::Batch(new.events),
            };
            writer.materialize(&self.shared, &self.header, body, notices)?;
            match new.are_checked {
                true => writer.note_checked(&self.shared, &self.header, cut),
                false => writer.note_rules(&self.shared, &self.header, cut, new.events),
            }
            Ok(())
        })
    }

    /// Checks the log of a write handle: what it accepted and the torn tail it found, not what an append is writing or a failed one left.
    fn check_own(&self, writer: &Mutex<Writer>, cancel: &CancelToken) -> Result<LogEnd> {
        // Accepted bytes stay as they are, but an append would cut the torn ones while they are read.
        let writer = lock(writer);
        let end = writer.known_bytes();
        let _torn_bytes_stay = if writer.has_torn_tail() { Some(writer) } else { None };
        let located = self.shared.find(&self.id)?.ok_or_else(|| not_found(&self.id))?;
        let mut log = StoredLog::open(&self.shared, located, &self.id, OpenHow::Read)?;
        log.source.end = log.source.end.min(end);
        read_to_end(&log, cancel, &mut |_| Ok(())).map(|(end, _)| end)
    }

    fn close_once(&self) -> Result<()> {
        if self.is_closing.swap(true, Ordering::AcqRel) {
            return Ok(());
        }
        let Side::Write { writer, accepted, .. } = &self.side else { return Ok(()) };
        let released = lock(writer).release(&self.shared, &self.header);
        *lock(accepted) = None;
        self.shared.release_claim(&self.id);
        released
    }
}

/// Takes the lock of a session, then opens its log: only now is it certain to stay as it is.
fn lock_log(shared: &Shared, id: &str) -> Result<(Lease, StoredLog)> {
    let located = shared.find(id)?.ok_or_else(|| not_found(id))?;
    let lease =
        Lease::acquire(&*shared.storage, &located.directory, id).map_err(|error| match error.code() {
            // Removed since it was found.
            _ if error.os() == Some(rustix::io::Errno::NOENT.raw_os_error()) => not_found(id),
            // Perhaps the owner is that of another id, which has the same name here.
            Code::SessionAlreadyOwned => shared.refuse_twin(&located, id).err().unwrap_or(error),
            _ => error,
        })?;
    // A session that was moved or removed before the lock was taken is absent.
    let log = StoredLog::open(shared, located, id, OpenHow::Append)?;
    Ok((lease, log))
}

/// What of a stored log may be copied: frames that hold none but the first `inherited` events of the new one.
fn copied_prefix(
    from: &StoredEvents,
    new: &NewLog<'_>,
    inherited: u64,
    cancel: &CancelToken,
) -> Result<StoredPrefix> {
    if let Some(event_count) = from.event_count.filter(|&count| count <= inherited) {
        return Ok(StoredPrefix { event_count, end: from.source.end });
    }
    let inherited = new.events.get(..inherited as usize).unwrap_or_default();
    stored_prefix(&from.source, inherited, cancel).map_err(|error| error.with_path(&from.path))
}

/// Reads and checks a log from its first row to its end: what stands there, and the rules after its last event.
fn read_to_end(
    log: &StoredLog,
    cancel: &CancelToken,
    sink: &mut EventSink<'_>,
) -> Result<(LogEnd, LogChecker)> {
    let named = |error: Error| error.with_path(log.path()).with_session_id(&log.header.id);
    let mut reader = LogReader::from_start(log.source.clone(), cancel.clone());
    while let Some(event) = reader.next_event().map_err(named)? {
        sink(event)?;
    }
    let end = reader.end().cloned();
    let (Some(end), Some(checker)) = (end, reader.into_checker()) else {
        return Err(Error::new(Code::Internal, "a reader stopped before the end of the log"));
    };
    check_lineage(&log.header, &end).map_err(named)?;
    Ok((end, checker))
}

/// The same for a log that nobody else writes meanwhile: the outcome holds until the file changes.
fn read_and_remember(
    shared: &Shared,
    log: &StoredLog,
    cancel: &CancelToken,
    sink: &mut EventSink<'_>,
) -> Result<(LogEnd, LogChecker)> {
    let (end, checker) = read_to_end(log, cancel, sink)?;
    shared.remember_checked(&log.header.id, log.metadata, &end);
    Ok((end, checker))
}

impl SessionLog for FileLog {
    fn id(&self) -> &str {
        &self.id
    }

    fn header(&self) -> &SessionHeader {
        &self.header
    }

    fn access(&self) -> Access {
        match self.side {
            Side::Read { .. } => Access::Read,
            Side::Write { .. } => Access::Write,
        }
    }

    fn inherited_event_count(&self, cancel: &CancelToken) -> Result<u64> {
        self.enter("inherited_event_count")?;
        match &self.side {
            Side::Write { cut, .. } => Ok(*cut),
            Side::Read { .. } if !self.header.is_seeded => Ok(0),
            Side::Read { log } => {
                let known =
                    self.current(log)?.and_then(|log| self.shared.checked_end(&self.id, &log.metadata));
                let end = known.map_or_else(|| self.check(cancel), Ok)?;
                Ok(end.inherited_marker.unwrap_or(0))
            }
        }
    }

    fn events(&self, range: EventRange, cancel: &CancelToken) -> Result<Events> {
        self.enter("events")?;
        cancel.check()?;
        match &self.side {
            Side::Read { log } => match self.stable_reader(log, range, Trusts::EarlierChecks, cancel)? {
                None => Ok(Events::from_fn(|| Ok(None))),
                Some(mut reader) => Ok(Events::from_fn(move || reader.next_event())),
            },
            Side::Write { accepted, .. } => {
                let Some(accepted) = lock(accepted).clone() else { return Ok(Events::from_fn(|| Ok(None))) };
                let mut reader = AcceptedReader::new(accepted, &self.shared, &self.id, range, cancel)?;
                Ok(Events::from_fn(move || reader.next_event()))
            }
        }
    }

    fn read(&self, offset: u64, length: u64, cancel: &CancelToken) -> Result<EventSlice> {
        let events = self.events(EventRange::window(offset, length), cancel)?.collect::<Result<Vec<_>>>()?;
        let is_detached = match &self.side {
            Side::Read { log } => lock(log).is_none(),
            Side::Write { is_materialized, .. } => !is_materialized.load(Ordering::Acquire),
        };
        let event_state = if is_detached { EventState::Detached } else { EventState::SharedFrozen };
        Ok(EventSlice { event_state, events })
    }

    fn check(&self, cancel: &CancelToken) -> Result<LogEnd> {
        self.enter("check")?;
        cancel.check()?;
        let reader = match &self.side {
            Side::Read { log } => self.stable_reader(log, EventRange::ALL, Trusts::Nothing, cancel)?,
            Side::Write { is_materialized, .. } if !is_materialized.load(Ordering::Acquire) => None,
            Side::Write { writer, .. } => return self.check_own(writer, cancel),
        };
        let Some(mut reader) = reader else {
            return Ok(LogEnd {
                event_count: 0,
                inherited_marker: None,
                file_bytes: 0,
                torn: None,
                frames: 0,
            });
        };
        while reader.next_event()?.is_some() {}
        reader
            .end()
            .cloned()
            .ok_or_else(|| Error::new(Code::Internal, "a reader stopped before the end of the log"))
    }

    fn event_count(&self, cancel: &CancelToken) -> Result<u64> {
        self.enter("event_count")?;
        match &self.side {
            Side::Write { accepted, .. } => {
                Ok(lock(accepted).as_ref().map_or(0, |accepted| accepted.event_count))
            }
            Side::Read { log } => {
                let reader = self.stable_reader(log, EventRange::newest(1), Trusts::EarlierChecks, cancel)?;
                let Some(mut reader) = reader else { return Ok(0) };
                while reader.next_event()?.is_some() {}
                Ok(reader.end().map_or(0, |end| end.event_count))
            }
        }
    }

    fn append(&self, batch: &[Event], cancel: &CancelToken) -> Result<()> {
        self.change("append", cancel, |writer, cut, notices| {
            if batch.is_empty() {
                return Ok(());
            }
            check_batch(&self.header, cut, writer.next_seq(), batch, &self.shared.settings.vocabulary)?;
            writer.append(&self.shared, &self.header, batch, notices)?;
            writer.note_rules(&self.shared, &self.header, cut, batch);
            Ok(())
        })
    }

    fn append_checked(&self, batch: &[Event], cancel: &CancelToken) -> Result<()> {
        self.change("append", cancel, |writer, cut, notices| {
            if batch.is_empty() {
                return Ok(());
            }
            check_checked_batch(&self.header, cut, writer.next_seq(), batch)?;
            writer.append(&self.shared, &self.header, batch, notices)?;
            writer.note_checked(&self.shared, &self.header, cut);
            Ok(())
        })
    }

    fn stored_events(&self) -> Option<StoredEvents> {
        match &self.side {
            Side::Read { log } => {
                let StoredLog { located, source, .. } = *lock(log).clone()?;
                Some(StoredEvents { source, path: located.path, event_count: None })
            }
            Side::Write { accepted, .. } => {
                // Nobody has read the bytes since: a file that somebody changed is not what the handle knows, and is not copied.
                let accepted = lock(accepted).clone().filter(Accepted::is_untouched)?;
                let event_count = accepted.event_count - accepted.beyond.len() as u64;
                let path = accepted.path.clone();
                let source = accepted.source(&self.shared.settings.limits);
                Some(StoredEvents { source, path, event_count: Some(event_count) })
            }
        }
    }

    fn flush(&self, cancel: &CancelToken) -> Result<()> {
        self.change("flush", cancel, |writer, cut, notices| {
            if !writer.is_materialized() {
                check_seed(&self.header, cut, writer.next_seq(), &[])?;
            }
            writer.flush(&self.shared, &self.header, notices)
        })
    }

    fn close(&self) -> Result<()> {
        self.shared.check_process()?;
        self.close_once()
    }

    fn notices(&self) -> Vec<Notice> {
        lock(&self.notices).clone()
    }
}

impl fmt::Debug for FileLog {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("FileLog")
            .field("id", &self.id)
            .field("access", &self.access())
            .finish_non_exhaustive()
    }
}

impl Drop for FileLog {
    fn drop(&mut self) {
        if self.shared.is_forked() {
            // The parent still owns the session. Its descriptor stays open there, so dropping this copy releases nothing.
            if let Side::Write { writer, .. } = &mut self.side {
                writer.get_mut().unwrap_or_else(PoisonError::into_inner).abandon();
            }
            return;
        }
        // Everything appended is on the disk already; what fails here is the release of the note, which nobody trusts.
        let _ = self.close_once();
    }
}
