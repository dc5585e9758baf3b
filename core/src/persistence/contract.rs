//! The contract: what a backend and its handles promise, whatever they store logs in (`format.md` 6).

use crate::cancel::CancelToken;
use crate::error::{Error, Result};
use crate::event::Event;
use crate::format::EventRange;
use crate::format::header::SessionHeader;
use crate::format::raw_rows::RawLog;
use crate::format::reader::{LogEnd, LogSource};
use crate::format::relationships::LogChecker;
use crate::json::ObjectText;
use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;

/// What a handle may do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Access {
    /// Reads; never takes ownership, works beside a writer.
    Read,
    /// Reads and appends; at most one such handle exists for a session, in all processes.
    Write,
}

/// Whether event values could be changed by their producer. In this library they never can; the word is kept because other
/// implementations of the contract distinguish it (`format.md` 6.1).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EventState {
    /// Of a session that was never materialized.
    Detached,
    /// Read from storage.
    SharedFrozen,
}

/// A slice of a log, as [`SessionLog::read`] gives it.
#[derive(Clone, Debug)]
pub struct EventSlice {
    /// Where the values come from; kept by slicing, also for an empty slice.
    pub event_state: EventState,
    /// The events, contiguous.
    pub events: Vec<Event>,
}

/// An opaque token that changes when a log may have changed. Comparable for one session and one backend.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Revision(pub(crate) String);

impl Revision {
    /// The token's text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for Revision {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// Whether a stored log is in the current format.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FormatStatus {
    /// Version 4.
    Current,
    /// Versions 0 to 3.
    MigrationRequired,
}

impl FormatStatus {
    /// The word used in JSON.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            FormatStatus::Current => "current",
            FormatStatus::MigrationRequired => "migration-required",
        }
    }
}

/// What is known of a session without reading its events (`format.md` 6.8).
#[derive(Clone, Debug)]
pub struct Snapshot {
    /// The header, in current form.
    pub header: SessionHeader,
    /// `None` for a session that was not materialized yet.
    pub format_status: Option<FormatStatus>,
    /// Changes when the log may have changed; never by taking or dropping ownership.
    pub revision: Revision,
    /// Events in the log, where that is known without reading it.
    pub event_count: Option<u64>,
    /// Bytes of the log file; `None` for a session that was not materialized yet.
    pub size_bytes: Option<u64>,
    /// The log file; `None` for a session that was not materialized yet, and in backends without files.
    pub path: Option<PathBuf>,
}

impl Snapshot {
    /// The line of `list` and `stat` (`cli.md`). Titles and times of activity are not known yet, and left out where unknown.
    #[must_use]
    pub fn to_json(&self) -> String {
        let mut out = ObjectText::new();
        out.json("header", &self.header.to_json());
        if let Some(status) = self.format_status {
            out.string("formatStatus", status.as_str());
        }
        if let Some(bytes) = self.size_bytes {
            out.number("sizeBytes", bytes);
        }
        out.string("revision", self.revision.as_str());
        out.finish()
    }
}

/// Something under a root that cannot be listed as a session.
#[derive(Debug)]
pub struct Problem {
    /// The file or folder.
    pub path: PathBuf,
    /// The session, where it is known.
    pub id: Option<String>,
    /// What is wrong, and what to do.
    pub error: Error,
}

impl Problem {
    /// The line of `list` for a problem (`cli.md`).
    #[must_use]
    pub fn to_json(&self) -> String {
        let mut inner = ObjectText::new();
        inner.string("path", &self.path.to_string_lossy());
        if let Some(id) = &self.id {
            inner.string("id", id);
        }
        inner.string("code", self.error.code().name());
        inner.string("message", self.error.message());
        let mut out = ObjectText::new();
        out.json("problem", &inner.finish());
        out.finish()
    }
}

/// Every session of a root, and everything that is wrong in it.
#[derive(Debug, Default)]
pub struct Listing {
    /// The sessions that can be named, in no order.
    pub sessions: Vec<Snapshot>,
    /// What stands beside them and is not usable. One bad session hides no other.
    pub problems: Vec<Problem>,
}

/// What a listing does with a session that cannot be listed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ListMode {
    /// Names it as a problem.
    Tolerant,
    /// As the reference does (`format.md` 6.8): some findings are passed over in silence, others fail the listing.
    Strict,
}

/// What [`SessionPersistence::remove`] does with a session.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Removal {
    /// Removes it for good.
    Delete,
    /// Moves it aside: out of the root, beside it.
    Trash,
}

/// What a notice of an ineffective lock says, and what to do.
const LOCK_INEFFECTIVE: &str = "the file system grants the lock to everybody, so nothing keeps other processes from writing this session \
    at the same time; keep the root on a file system where flock(2) works, or make sure that one process writes";

/// Something a handle has to tell that is no error (`design.md` 5, Notices).
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Notice {
    /// Bytes at the end of the log are no part of it; the first append cuts them.
    TornTail {
        /// The length that the file is cut to.
        keep_bytes: u64,
        /// The bytes after it.
        cut_bytes: u64,
        /// Rows in them that are whole JSON objects; they are saved beside the log before the cut.
        cut_rows: u64,
        /// Events among them that are part of the log and are written again after the cut.
        recovered: u64,
        /// What was found.
        reason: String,
    },
    /// The torn bytes were cut by an append.
    TailCut {
        /// The length the file was cut to.
        keep_bytes: u64,
        /// Where the cut bytes were saved; `None` where they held no whole row that was not put back.
        saved: Option<PathBuf>,
    },
    /// The lock of the session excludes nobody: a second descriptor was granted it too, as on network file systems without a working
    /// flock(2). What another program writes is still found before each append (`SESSION_OWNERSHIP_LOST`), but not in the same instant.
    LockIneffective {
        /// The lock file.
        path: PathBuf,
    },
    /// The log left a turn open, and a resume closed it (`session.md` 14.4).
    TurnClosed {
        /// The events that were added to close it.
        events: u64,
    },
    /// The file that names the owner for other programs could not be written or removed. Ownership itself is not affected.
    OwnerFile {
        /// The system's reason.
        reason: String,
    },
}

impl Notice {
    /// The `kind` of the notice in JSON.
    #[must_use]
    pub fn kind(&self) -> &'static str {
        match self {
            Notice::TornTail { .. } => "torn-tail",
            Notice::TailCut { .. } => "tail-cut",
            Notice::LockIneffective { .. } => "lock-ineffective",
            Notice::TurnClosed { .. } => "turn-closed",
            Notice::OwnerFile { .. } => "owner-file",
        }
    }

    /// The notice as a JSON object with its `kind` and its figures.
    #[must_use]
    pub fn to_json(&self) -> String {
        let mut out = ObjectText::new();
        out.string("kind", self.kind());
        match self {
            Notice::TornTail { keep_bytes, cut_bytes, cut_rows, recovered, reason } => {
                out.number("keepBytes", *keep_bytes);
                out.number("cutBytes", *cut_bytes);
                out.number("cutRows", *cut_rows);
                out.number("recovered", *recovered);
                out.string("reason", reason);
            }
            Notice::TailCut { keep_bytes, saved } => {
                out.number("keepBytes", *keep_bytes);
                if let Some(saved) = saved {
                    out.string("saved", &saved.to_string_lossy());
                }
            }
            Notice::LockIneffective { path } => {
                out.string("path", &path.to_string_lossy());
                out.string("reason", LOCK_INEFFECTIVE);
            }
            Notice::TurnClosed { events } => out.number("events", *events),
            Notice::OwnerFile { reason } => out.string("reason", reason),
        }
        out.finish()
    }
}

/// Events of a log, one after the other. After an error there is nothing more.
pub struct Events {
    next: Box<dyn FnMut() -> Result<Option<Event>> + Send>,
    is_done: bool,
}

impl Events {
    /// Events from a function that gives the next one, or `None` at the end.
    pub fn from_fn(next: impl FnMut() -> Result<Option<Event>> + Send + 'static) -> Events {
        Events { next: Box::new(next), is_done: false }
    }
}

impl Iterator for Events {
    type Item = Result<Event>;

    fn next(&mut self) -> Option<Result<Event>> {
        if self.is_done {
            return None;
        }
        let next = (self.next)().transpose();
        self.is_done = !matches!(next, Some(Ok(_)));
        next
    }
}

impl fmt::Debug for Events {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Events").field("is_done", &self.is_done).finish_non_exhaustive()
    }
}

/// One open channel onto a stored log.
///
/// Many threads may use a handle; its appends and flushes take effect in the order in which they are called. Every call on a
/// handle whose `close` has begun fails with `HANDLE_CLOSED`.
pub trait SessionLog: Send + Sync + fmt::Debug {
    /// The session.
    fn id(&self) -> &str;

    /// The header, fixed when the session was created.
    fn header(&self) -> &SessionHeader;

    /// What the handle may do.
    fn access(&self) -> Access;

    /// How many events at the beginning of the log were inherited by a fork; 0 in a session that is not seeded. Reads the log if
    /// it is seeded and was not read yet.
    ///
    /// # Errors
    /// Those of [`events`](Self::events).
    fn inherited_event_count(&self, cancel: &CancelToken) -> Result<u64>;

    /// The events of a range, read while walking, in bounded memory.
    ///
    /// Never goes back: once this handle has given an event, a later read that does not find it fails. Torn bytes are never given.
    ///
    /// # Errors
    /// `SESSION_CORRUPT`, `LIMIT_EXCEEDED`, `SOURCE_CHANGED`, `SESSION_NOT_FOUND`, `HANDLE_CLOSED`, `CANCELLED`, `IO`; damage in rows
    /// that the range does not touch may go unnoticed.
    fn events(&self, range: EventRange, cancel: &CancelToken) -> Result<Events>;

    /// `length` events from `offset` on, all at once; an offset at or past the end gives none.
    ///
    /// # Errors
    /// Those of [`events`](Self::events).
    fn read(&self, offset: u64, length: u64, cancel: &CancelToken) -> Result<EventSlice>;

    /// Reads everything, keeps nothing, and tells what the end of the log looks like.
    ///
    /// # Errors
    /// Those of [`events`](Self::events).
    fn check(&self, cancel: &CancelToken) -> Result<LogEnd>;

    /// How many events the log has. A write handle knows; a read handle looks at the end of the log.
    ///
    /// # Errors
    /// Those of [`events`](Self::events).
    fn event_count(&self, cancel: &CancelToken) -> Result<u64>;

    /// Adds a batch: all of it or nothing. The first event's seq must be the next one. On return of the file backend the batch is
    /// on the disk; the contract itself promises that only for [`flush`](Self::flush).
    ///
    /// # Errors
    /// `INVALID_ARGUMENT` (seq), `SESSION_READ_ONLY`, `SESSION_ALREADY_OWNED` and `SESSION_ALREADY_EXISTS` (first write of a created
    /// session), `SESSION_OWNERSHIP_LOST`, `FORMAT_UNSUPPORTED` (an unknown required type), `HANDLE_CLOSED`, `CANCELLED`, `IO`.
    fn append(&self, batch: &[Event], cancel: &CancelToken) -> Result<()>;

    /// As [`append`](Self::append), of events that the caller has asked the rules of stored logs about: a [`LogChecker`] that stood at the
    /// end of this log accepted them, in order. The handle does not ask again, and reads of this process rely on it.
    ///
    /// # Errors
    /// Those of [`append`](Self::append).
    fn append_checked(&self, batch: &[Event], cancel: &CancelToken) -> Result<()> {
        self.append(batch, cancel)
    }

    /// Where the events of this log are stored, for another log of the same backend that begins with them; `None` where nothing is
    /// stored, or the backend has no use for it.
    fn stored_events(&self) -> Option<StoredEvents> {
        None
    }

    /// The durability barrier: on return every acknowledged append is on the disk and the session exists for other processes.
    ///
    /// # Errors
    /// Those of [`append`](Self::append).
    fn flush(&self, cancel: &CancelToken) -> Result<()>;

    /// Ends the work and gives up ownership. Cannot be cancelled; a second close does nothing.
    ///
    /// # Errors
    /// `IO`, when something acknowledged could not be made durable; the handle is closed and ownership gone all the same.
    fn close(&self) -> Result<()>;

    /// What opening and writing have found so far.
    fn notices(&self) -> Vec<Notice>;
}

/// Where a backend finds the stored form of a log's events again, so that another log may begin with a copy of it ([`NewLog::stored`]).
///
/// Only the backend that made it understands it. It holds on to the log as it was: what is appended afterwards does not matter. Events
/// that are cut from the log afterwards can no longer be copied.
#[derive(Clone, Debug)]
pub struct StoredEvents {
    pub(super) source: LogSource,
    pub(super) path: PathBuf,
    /// How many events the bytes hold, where that is known.
    pub(super) event_count: Option<u64>,
}

/// A log that is to be, with the events that it begins with ([`SessionPersistence::create_with`]).
#[derive(Clone, Debug)]
pub struct NewLog<'a> {
    /// The header.
    pub header: &'a SessionHeader,
    /// The length of a fork-inherited prefix: required if and only if the header is seeded.
    pub inherited_event_count: Option<u64>,
    /// The first events, from seq 0 on; of a seeded log at least the inherited ones and their end marker.
    pub events: &'a [Event],
    /// Whether a [`LogChecker`] accepted them, in this order.
    pub are_checked: bool,
    /// A log whose first events are the inherited ones. A backend may copy their stored form instead of making it anew.
    pub stored: Option<StoredEvents>,
}

/// Takes the events of a log, in order. An error stops the read and is what its caller gets.
pub type EventSink<'a> = dyn FnMut(Event) -> Result<()> + 'a;

/// A session that was opened for writing, and the rules as its log left them ([`SessionPersistence::resume`]). Who asks them of what
/// comes next appends it with [`SessionLog::append_checked`].
#[derive(Debug)]
pub struct Resumed {
    /// The handle that owns the session.
    pub log: Arc<dyn SessionLog>,
    /// Every rule of stored logs, after the last event of the log: what it accepts can be read again.
    pub checker: LogChecker,
}

/// A place where logs are kept.
pub trait SessionPersistence: Send + Sync + fmt::Debug {
    /// A new session, owned by the returned handle. Nothing is written before its first append or flush; until then the session
    /// exists for this instance only.
    ///
    /// `inherited_event_count` is the length of a fork-inherited prefix: required if and only if the header is seeded.
    ///
    /// # Errors
    /// `INVALID_ARGUMENT`, `SESSION_ALREADY_EXISTS`, `SESSION_CONFLICT` (the root uses the other encoding), `CANCELLED`, `IO`.
    fn create(
        &self,
        header: &SessionHeader,
        inherited_event_count: Option<u64>,
        cancel: &CancelToken,
    ) -> Result<Arc<dyn SessionLog>>;

    /// A new session that begins with events, on the disk when this returns: all of it or nothing.
    ///
    /// ```
    /// # use dsh_session_core::{CancelToken, Event, SessionHeader, SessionPersistence};
    /// # use dsh_session_core::persistence::{NewLog, memory::MemoryPersistence};
    /// # fn main() -> dsh_session_core::Result<()> {
    /// # let (persistence, go_on) = (MemoryPersistence::new(), CancelToken::new());
    /// let header = SessionHeader::new("s1", 1);
    /// let events = [Event::from_row(r#"{"type":"turn/start","seq":0,"time":1,"data":{"turn":1}}"#)?];
    /// let (inherited_event_count, are_checked, stored) = (None, false, None);
    /// let new = NewLog { header: &header, inherited_event_count, events: &events, are_checked, stored };
    /// let log = persistence.create_with(new, &go_on)?;
    /// assert_eq!(log.event_count(&go_on)?, 1);
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// Those of [`create`](Self::create) and of the handle's [`append`](SessionLog::append); `SOURCE_CHANGED` where [`NewLog::stored`] does
    /// not hold its events any more.
    fn create_with(&self, new: NewLog<'_>, cancel: &CancelToken) -> Result<Arc<dyn SessionLog>> {
        let log = self.create(new.header, new.inherited_event_count, cancel)?;
        let append = if new.are_checked { SessionLog::append_checked } else { SessionLog::append };
        match append(&*log, new.events, cancel).and_then(|()| log.flush(cancel)) {
            Ok(()) => Ok(log),
            Err(error) => {
                // The handle is given up unseen: its failure to close would tell nothing new.
                let _ = log.close();
                Err(error)
            }
        }
    }

    /// An existing session. A write open reads and checks the whole log, a read open its header.
    ///
    /// # Errors
    /// `SESSION_NOT_FOUND`, `SESSION_ALREADY_OWNED`, `SESSION_CORRUPT`, `FORMAT_UNSUPPORTED`, `SESSION_CONFLICT`, `LIMIT_EXCEEDED`,
    /// `CANCELLED`, `IO`.
    fn open(&self, id: &str, access: Access, cancel: &CancelToken) -> Result<Arc<dyn SessionLog>>;

    /// An existing session, opened for writing by one read of its log: every event is given to `sink` as it is accepted, those
    /// recovered from a torn tail included, and the checker that judged them is handed over for the events to come.
    ///
    /// Where this fails, ownership is given up again, and `sink` may have been given the events before the failure.
    ///
    /// ```
    /// # use dsh_session_core::{CancelToken, Event, SessionHeader, SessionPersistence};
    /// # use dsh_session_core::persistence::memory::MemoryPersistence;
    /// # fn main() -> dsh_session_core::Result<()> {
    /// # let (persistence, go_on) = (MemoryPersistence::new(), CancelToken::new());
    /// # let log = persistence.create(&SessionHeader::new("s1", 1), None, &go_on)?;
    /// # log.append(&[Event::from_row(r#"{"type":"turn/start","seq":0,"time":1,"data":{"turn":1}}"#)?], &go_on)?;
    /// # log.close()?;
    /// let mut events = Vec::new();
    /// let mut resumed = persistence.resume("s1", &go_on, &mut |event| {
    ///     events.push(event);
    ///     Ok(())
    /// })?;
    /// assert_eq!(events.len(), 1);
    /// let end = Event::from_row(r#"{"type":"turn/end","seq":1,"time":2,"data":{"turn":1}}"#)?;
    /// resumed.checker.check(&end).unwrap(); // the turn that the log left open
    /// resumed.log.append(&[end], &go_on)?;
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// Those of [`open`](Self::open) for writing, and those of `sink`.
    fn resume(&self, id: &str, cancel: &CancelToken, sink: &mut EventSink<'_>) -> Result<Resumed>;

    /// One session without its events; `None` if there is none.
    ///
    /// # Errors
    /// Those of [`open`](Self::open) for reading, but for absence.
    fn stat(&self, id: &str, cancel: &CancelToken) -> Result<Option<Snapshot>>;

    /// Every session without its events.
    ///
    /// # Errors
    /// An unreadable root, `CANCELLED`; in [`ListMode::Strict`] also findings about a single session.
    fn list(&self, mode: ListMode, cancel: &CancelToken) -> Result<Listing>;

    /// The stored log of a session as it is, its header not looked at, for tolerant reading; `None` where the backend keeps no log
    /// files, or the session has none yet.
    ///
    /// # Errors
    /// `SESSION_NOT_FOUND`, `SESSION_CONFLICT`, `INVALID_ARGUMENT`, `FORMAT_UNSUPPORTED` (the flat layout), `CANCELLED`, `IO`.
    fn raw_log(&self, id: &str, cancel: &CancelToken) -> Result<Option<RawLog>> {
        let _ = (id, cancel);
        Ok(None)
    }

    /// Who has a session open for writing now, in words, as far as that is known: a process that is alive. What such a session leaves
    /// open is work in progress (`design.md` 5, Open turn of a session that another process writes). `None` says that nobody is known,
    /// not that nobody is there.
    ///
    /// # Errors
    /// `SESSION_NOT_FOUND`, `SESSION_CONFLICT`, `INVALID_ARGUMENT`, `IO`.
    fn writer_of(&self, id: &str) -> Result<Option<String>> {
        let _ = id;
        Ok(None)
    }

    /// Takes a session away, with its older generations. A crash meanwhile leaves the session, or nothing of it that counts as one.
    /// Gives the place it was moved to, for [`Removal::Trash`] where there is one.
    ///
    /// # Errors
    /// `SESSION_NOT_FOUND`, `SESSION_ALREADY_OWNED`, `SESSION_CONFLICT`, `SESSION_CORRUPT` for a folder that belongs to another session,
    /// `CANCELLED`, `IO`.
    fn remove(&self, id: &str, how: Removal, cancel: &CancelToken) -> Result<Option<PathBuf>>;

    /// Flushes every open write handle; goes on past failures.
    ///
    /// # Errors
    /// The failures, together.
    fn flush(&self) -> Result<()>;
}
