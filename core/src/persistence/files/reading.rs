//! Reads beside a writer (`format.md` 6.7): fresh at every call, stable against a repair that runs meanwhile, never going back.

use super::Shared;
use super::locate::Located;
use crate::cancel::CancelToken;
use crate::error::{At, Code, Error, Result};
use crate::event::Event;
use crate::format::EventRange;
use crate::format::header::{FORMAT_VERSION, SessionHeader};
use crate::format::reader::{LogEnd, LogSource, Trust};
use crate::format::seek::RangeReader;
use crate::storage::{FileMetadata, OpenHow};
use std::collections::VecDeque;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// How often a read looks again at a log that moved under it (`format.md` 9.1).
const STABLE_READ_ATTEMPTS_MAX: u32 = 2;

/// A stored log as a read handle knows it; looked up again at each read.
#[derive(Clone, Debug)]
pub(super) struct StoredLog {
    pub(super) located: Located,
    pub(super) header: SessionHeader,
    pub(super) source: LogSource,
    pub(super) metadata: FileMetadata,
}

impl StoredLog {
    /// Opens a located generation and reads its header. Only the current version has events that this build reads.
    pub(super) fn open(shared: &Shared, located: Located, id: &str, how: OpenHow) -> Result<StoredLog> {
        let opened = shared.open_located(&located, Some(id), how)?;
        if located.version != u64::from(FORMAT_VERSION) {
            let message =
                format!("the log is of format version {} and must be migrated first", located.version);
            return Err(Error::new(Code::FormatUnsupported, message)
                .with_version(located.version.to_string())
                .with_session_id(id)
                .with_path(located.path)
                .with_advice("open it with a program that migrates; `rows` shows its text"));
        }
        let crate::format::log_file::OpenedLog { source, header, metadata } = opened;
        Ok(StoredLog { located, header: header.header, source, metadata })
    }

    /// The same log as it is now: longer, replaced by a newer generation, or gone (`None`).
    pub(super) fn refreshed(&self, shared: &Shared, id: &str) -> Result<Option<StoredLog>> {
        match shared.storage.metadata(&self.located.path) {
            Ok(metadata) if metadata.is_same_file(&self.metadata) => {
                if metadata.size < self.source.header_end {
                    return Err(Error::new(Code::SourceChanged, "the log was cut into its header")
                        .with_path(&self.located.path)
                        .with_session_id(id));
                }
                let mut fresh = self.clone();
                fresh.source.end = metadata.size;
                if metadata != self.metadata {
                    let (header, vocabulary) =
                        (Arc::new(self.header.clone()), shared.settings.vocabulary.clone());
                    fresh.source.trust = Trust::Unjudged { header, vocabulary };
                }
                fresh.metadata = metadata;
                return Ok(Some(fresh));
            }
            Ok(_) => {}
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => {
                return Err(Error::io("look at the log", &error)
                    .with_path(&self.located.path)
                    .with_session_id(id));
            }
        }
        let Some(located) = shared.find(id)? else { return Ok(None) };
        StoredLog::open(shared, located, id, OpenHow::Read).map(Some)
    }

    pub(super) fn path(&self) -> &Path {
        &self.located.path
    }
}

/// Checks a log that was read from its first row to its end against its header (`format.md` 2.6).
pub(super) fn check_lineage(header: &SessionHeader, end: &LogEnd) -> Result<()> {
    let what = match (header.is_seeded, end.inherited_marker) {
        (true, None) => {
            "the header says that the session is seeded, but no `session/end-seed` marks what it inherited"
        }
        (false, Some(_)) => {
            "a `session/end-seed` marks inherited events, but the header says that there are none"
        }
        _ => return Ok(()),
    };
    Err(Error::new(Code::SessionCorrupt, what).with_at(At::SeedMarker).with_salvageable(end.event_count))
}

/// A stored log that may move while it is read.
#[derive(Debug)]
struct MovingLog {
    shared: Arc<Shared>,
    id: String,
    log: StoredLog,
    cancel: CancelToken,
    attempt: u32,
}

impl MovingLog {
    /// A reader of a range of the log as it is now. One that reads ahead, as that of the newest events does, has met the end already:
    /// what it found there may be the work of a moment.
    fn reader(&mut self, range: EventRange) -> Result<RangeReader> {
        loop {
            match RangeReader::new(self.log.source.clone(), range, &self.cancel) {
                Ok(reader) if is_torn(&reader) && self.has_moved()? => {}
                Ok(reader) => return Ok(reader),
                Err(error) if may_be_a_race(&error) && self.has_moved()? => {}
                Err(error) => return Err(self.named(error)),
            }
        }
    }

    /// Whether the log changed since this read began; from now on it is the log as it is now.
    fn has_moved(&mut self) -> Result<bool> {
        if self.attempt >= STABLE_READ_ATTEMPTS_MAX {
            return Ok(false);
        }
        let fresh = self.log.refreshed(&self.shared, &self.id)?;
        let Some(fresh) = fresh else { return Err(super::log::not_found(&self.id)) };
        if fresh.metadata == self.log.metadata {
            return Ok(false);
        }
        self.attempt += 1;
        self.log = fresh;
        Ok(true)
    }

    fn named(&self, error: Error) -> Error {
        error.with_path(self.log.path()).with_session_id(&self.id)
    }
}

fn is_torn(reader: &RangeReader) -> bool {
    reader.end().is_some_and(|end| end.torn.is_some())
}

/// What bytes that are cut and written again look like to somebody who reads them meanwhile.
fn may_be_a_race(error: &Error) -> bool {
    matches!(error.code(), Code::SessionCorrupt | Code::SourceChanged)
}

/// What the reads of a handle have seen of the log.
#[derive(Debug)]
pub(super) struct Observed {
    /// The most events that any of them has given.
    pub(super) events: Arc<AtomicU64>,
    /// What that was when this read began: a log that is shorter now went back. Reads that began later may have seen more.
    pub(super) events_min: u64,
}

/// Walks the events of a stored log, looking again if it moved.
#[derive(Debug)]
pub(super) struct StableReader {
    moving: MovingLog,
    reader: RangeReader,
    range: EventRange,
    observed: Observed,
    next_seq: Option<u64>,
    end: Option<LogEnd>,
}

impl StableReader {
    pub(super) fn new(
        shared: Arc<Shared>,
        id: &str,
        log: StoredLog,
        range: EventRange,
        observed: Observed,
        cancel: &CancelToken,
    ) -> Result<StableReader> {
        let mut moving = MovingLog { shared, id: id.to_owned(), log, cancel: cancel.clone(), attempt: 1 };
        let reader = moving.reader(range)?;
        Ok(StableReader { moving, reader, range, observed, next_seq: None, end: None })
    }

    pub(super) fn next_event(&mut self) -> Result<Option<Event>> {
        loop {
            match self.reader.next_event() {
                Ok(Some(event)) => {
                    let next_seq = event.seq() + 1;
                    self.next_seq = Some(next_seq);
                    self.observed.events.fetch_max(next_seq, Ordering::AcqRel);
                    return Ok(Some(event));
                }
                Ok(None) if is_torn(&self.reader) && self.look_again()? => {}
                Ok(None) => return self.finish().map(|()| None),
                Err(error) if may_be_a_race(&error) && self.look_again()? => {}
                Err(error) => return Err(self.moving.named(error)),
            }
        }
    }

    /// What the end of the log looks like; `None` where the range ended before it.
    pub(super) fn end(&self) -> Option<&LogEnd> {
        self.end.as_ref()
    }

    /// If the log changed since this read began, goes on with the log as it is now.
    fn look_again(&mut self) -> Result<bool> {
        // The newest events were counted from the end as it was: going on would give more of them than were asked for.
        let EventRange::Window { from, count } = self.range else { return Ok(false) };
        if !self.moving.has_moved()? {
            return Ok(false);
        }
        let to = from.saturating_add(count);
        let from = self.next_seq.unwrap_or(from);
        self.reader = self.moving.reader(EventRange::window(from, to.saturating_sub(from)))?;
        Ok(true)
    }

    fn finish(&mut self) -> Result<()> {
        let Some(end) = self.reader.end() else { return Ok(()) };
        if self.reader.is_from_start() {
            let MovingLog { shared, id, log, .. } = &self.moving;
            check_lineage(&log.header, end).map_err(|error| self.moving.named(error))?;
            if matches!(log.source.trust, Trust::Unjudged { .. }) {
                shared.remember_checked(id, log.metadata, end);
            }
        }
        let events_min = self.observed.events_min.max(self.next_seq.unwrap_or(0));
        if end.event_count < events_min {
            let message = format!("the log had {events_min} events, now it has {}", end.event_count);
            return Err(self.moving.named(Error::new(Code::SourceChanged, message)));
        }
        self.observed.events.fetch_max(end.event_count, Ordering::AcqRel);
        self.end = Some(end.clone());
        Ok(())
    }
}

/// The events that a write handle accepted: those in the file, then those that wait to be written again.
#[derive(Debug)]
pub(super) struct AcceptedReader {
    reader: RangeReader,
    beyond: VecDeque<Event>,
    path: PathBuf,
    id: String,
}

impl AcceptedReader {
    pub(super) fn new(
        accepted: super::writer::Accepted,
        shared: &Shared,
        id: &str,
        range: EventRange,
        cancel: &CancelToken,
    ) -> Result<AcceptedReader> {
        let (from, to) = bounds(range, accepted.event_count);
        let in_file = accepted.event_count - accepted.beyond.len() as u64;
        let source = accepted.source(&shared.settings.limits);
        let is_newest = matches!(range, EventRange::Newest { .. });
        let file_range = match is_newest && to > from {
            true if from < in_file => EventRange::newest(in_file - from),
            _ => EventRange::window(from.min(in_file), to.min(in_file).saturating_sub(from)),
        };
        let path = accepted.path;
        let reader = RangeReader::new(source, file_range, cancel)
            .map_err(|error| error.with_path(&path).with_session_id(id))?;
        let beyond = accepted.beyond.into_iter().filter(|event| (from..to).contains(&event.seq())).collect();
        Ok(AcceptedReader { reader, beyond, path, id: id.to_owned() })
    }

    pub(super) fn next_event(&mut self) -> Result<Option<Event>> {
        match self.reader.next_event() {
            Ok(Some(event)) => Ok(Some(event)),
            Ok(None) => Ok(self.beyond.pop_front()),
            Err(error) => Err(error.with_path(&self.path).with_session_id(&self.id)),
        }
    }
}

/// First seq and seq to stop before, in a log of `event_count` events.
fn bounds(range: EventRange, event_count: u64) -> (u64, u64) {
    match range {
        EventRange::Window { from, count } => (from, from.saturating_add(count).min(event_count)),
        EventRange::Newest { count } => (event_count.saturating_sub(count), event_count),
    }
}
