//! Live and stored sessions as one corpus, and the exact reads of it (`query.md` 1, 5).
//!
//! A live session is the session; what is stored under its id is not looked at. A stored one is found by `stat`, read once for each
//! revision, and closed in memory if its last turn was interrupted and nobody is known who still writes it.

use super::cold_cache::{CACHED_TEXT_BYTES_MAX, ColdCache};
use super::filters::{EventFilter, SessionFilter};
use super::lineage::SessionLineage;
use super::observation::{ColdLog, ReadSession, ReadSurface, check_same, sort};
use super::records::{Document, EventRecord, SessionRecord};
use super::storage_error::{check, listing_error, storage_error};
use super::surface::{Classified, FoldRules, documents, event_records};
use super::titles::{TitleRecord, TitleSnapshot};
use super::trace::EventTrace;
use super::window::{EventRequest, EventWindow};
use super::{session_not_found, titles};
use crate::cancel::CancelToken;
use crate::error::{Code, Error, Result};
use crate::event::Event;
use crate::format::EventRange;
use crate::format::relationships::LogChecker;
use crate::json::ObjectText;
use crate::persistence::{Access, FormatStatus, ListMode, Listing, SessionLog, SessionPersistence, Snapshot};
use crate::session::Session;
use crate::session::closers::{Cause, closers};
use crate::store::SessionStore;
use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// How often an interrupted log is read again because it changed meanwhile, before it is taken for one that is being written.
pub(super) const SETTLE_READS_MAX: usize = 8;

/// Settings of queries (`query.md` 1.10).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct QuerySettings {
    /// How many events before or after one may be asked for. 50 unless set.
    pub read_window_max: u64,
    /// How many stored logs are read at a time where many are asked for, at least 1. 4 unless set.
    pub persisted_read_concurrency: usize,
    /// How many stored logs are kept that were read, at least 1. 5 unless set.
    pub prepared_session_cache_size: usize,
}

impl Default for QuerySettings {
    fn default() -> Self {
        QuerySettings { read_window_max: 50, persisted_read_concurrency: 4, prepared_session_cache_size: 5 }
    }
}

impl QuerySettings {
    fn check(&self) -> Result<()> {
        let at_least_one = [
            ("persistedReadConcurrency", self.persisted_read_concurrency),
            ("preparedSessionCacheSize", self.prepared_session_cache_size),
        ];
        match at_least_one.iter().find(|(_, value)| *value == 0) {
            None => Ok(()),
            Some((name, _)) => {
                Err(Error::new(Code::QueryInvalidConfig, format!("`{name}` must be at least 1"))
                    .with_limit(name))
            }
        }
    }
}

/// What a batch of titles says of one session.
#[derive(Debug)]
pub struct TitleResult {
    /// The session that was asked for.
    pub session_id: String,
    /// Its header and title, or why they cannot be had.
    pub outcome: Result<TitleSnapshot>,
}

impl TitleResult {
    /// `{sessionId, status: "fulfilled", value}` or `{sessionId, status: "rejected", reason}`.
    #[must_use]
    pub fn to_json(&self) -> String {
        let mut out = ObjectText::new();
        out.string("sessionId", &self.session_id);
        match &self.outcome {
            Ok(found) => {
                out.string("status", "fulfilled");
                out.json("value", &found.to_json());
            }
            Err(error) => {
                out.string("status", "rejected");
                out.json("reason", &error.to_json());
            }
        }
        out.finish()
    }
}

/// Everything that can be asked: the live sessions of a store, and the stored ones of a backend.
///
/// ```
/// use dsh_session_core::query::{Corpus, QuerySettings};
/// use dsh_session_core::store::{Preparation, SessionStore};
/// use dsh_session_core::CancelToken;
/// let live = SessionStore::new();
/// live.create(Preparation::default())?;
/// let corpus = Corpus::new(live, None, QuerySettings::default())?;
/// assert_eq!(corpus.list_sessions(&CancelToken::new())?.len(), 1);
/// # Ok::<(), dsh_session_core::Error>(())
/// ```
#[derive(Debug)]
pub struct Corpus {
    live: SessionStore,
    persistence: Option<Arc<dyn SessionPersistence>>,
    settings: QuerySettings,
    cache: ColdCache,
}

impl Corpus {
    /// A corpus; without a backend it has live sessions only.
    ///
    /// # Errors
    /// `SESSION_QUERY_INVALID_CONFIG`.
    pub fn new(
        live: SessionStore,
        persistence: Option<Arc<dyn SessionPersistence>>,
        settings: QuerySettings,
    ) -> Result<Corpus> {
        settings.check()?;
        let cache = ColdCache::new(settings.prepared_session_cache_size, CACHED_TEXT_BYTES_MAX);
        Ok(Corpus { live, persistence, settings, cache })
    }

    fn rules(&self) -> FoldRules<'_> {
        let hub = self.live.hub();
        FoldRules { projections: &hub.projections, vocabulary: &hub.vocabulary }
    }

    /// Every session, most recently created first, then by id.
    ///
    /// # Errors
    /// `SESSION_QUERY_PERSISTENCE_FAILED`, `SESSION_QUERY_SOURCE_CONFLICT`, `SESSION_QUERY_ABORTED`.
    pub fn list_sessions(&self, cancel: &CancelToken) -> Result<Vec<SessionRecord>> {
        check(cancel)?;
        // Stored ones first: one that goes live meanwhile is found as live.
        let listing = self.listing(cancel)?;
        let mut records: HashMap<String, SessionRecord> = HashMap::new();
        for Snapshot { header, format_status, .. } in listing.sessions {
            let record = SessionRecord { header, live: false, persisted: true, format_status };
            records.insert(record.header.id.clone(), record);
        }
        for session in self.live.list() {
            let (header, stored) = (session.header().clone(), records.get(session.id()));
            if let Some(stored) = stored {
                check_same(&header, &stored.header)?;
            }
            let format_status = Some(FormatStatus::Current);
            let record = SessionRecord { header, live: true, persisted: stored.is_some(), format_status };
            records.insert(record.header.id.clone(), record);
        }
        let mut records: Vec<SessionRecord> = records.into_values().collect();
        sort(&mut records);
        Ok(records)
    }

    fn listing(&self, cancel: &CancelToken) -> Result<Listing> {
        let Some(persistence) = &self.persistence else { return Ok(Listing::default()) };
        persistence.list(ListMode::Tolerant, cancel).map_err(listing_error)
    }

    /// The sessions that pass every filter, in the order of [`list_sessions`](Self::list_sessions).
    ///
    /// # Errors
    /// As there.
    pub fn filter_sessions(
        &self,
        filters: &[SessionFilter],
        cancel: &CancelToken,
    ) -> Result<Vec<SessionRecord>> {
        let mut records = self.list_sessions(cancel)?;
        records.retain(|record| filters.iter().all(|filter| filter.accepts(record)));
        Ok(records)
    }

    /// The ancestors and descendants of a session.
    ///
    /// # Errors
    /// Those of [`list_sessions`](Self::list_sessions) and of [`SessionLineage::of`].
    pub fn trace_session(&self, id: &str, cancel: &CancelToken) -> Result<SessionLineage> {
        SessionLineage::of(id, &self.list_sessions(cancel)?)
    }

    /// A whole session. A stored one is judged by every rule of logs and surfaces.
    ///
    /// # Errors
    /// `SESSION_QUERY_SESSION_NOT_FOUND`, `SESSION_QUERY_CORRUPT_SESSION`, `SESSION_QUERY_PERSISTENCE_FAILED`,
    /// `SESSION_QUERY_SOURCE_CONFLICT`, `SESSION_QUERY_ABORTED`.
    pub fn read_session(&self, id: &str, cancel: &CancelToken) -> Result<ReadSession> {
        let (cut, is_live) = self.observe(id, cancel)?;
        if !is_live {
            self.replay(&cut).map_err(|error| match error.code() {
                Code::QueryInvalidSurface => {
                    let message = error.message().to_owned();
                    Error::new(Code::QueryCorruptSession, message).with_session_id(id).with_cause(error)
                }
                _ => storage_error(Some(id), error),
            })?;
        }
        Ok(cut)
    }

    fn replay(&self, cut: &ReadSession) -> Result<()> {
        let vocabulary = self.rules().vocabulary.clone();
        let mut checker = LogChecker::new(&cut.session, vocabulary);
        for event in &*cut.events {
            checker.check(event).map_err(|breach| breach.error())?;
        }
        checker.finish().map_err(|breach| breach.error())?;
        Classified::of(&cut.session.id, &cut.events, self.rules()).map(drop)
    }

    /// One record for each event, in log order.
    ///
    /// # Errors
    /// Those of [`read_session`](Self::read_session), and `SESSION_QUERY_INVALID_SURFACE`.
    pub fn list_events(&self, id: &str, cancel: &CancelToken) -> Result<Vec<EventRecord>> {
        event_records(id, &self.observe(id, cancel)?.0.events, self.rules())
    }

    /// What the events say that pass every filter, in log order. Events that say nothing do not appear.
    ///
    /// # Errors
    /// As [`list_events`](Self::list_events).
    pub fn filter_events(
        &self,
        id: &str,
        filters: &[EventFilter],
        cancel: &CancelToken,
    ) -> Result<Vec<Document>> {
        let (cut, _) = self.observe(id, cancel)?;
        let mut found = Vec::new();
        for document in documents(id, &cut.events, self.rules())? {
            check(cancel)?;
            if filters.iter().all(|filter| filter.accepts(&document)) {
                found.push(document);
            }
        }
        Ok(found)
    }

    /// The events on the surface, in its order.
    ///
    /// # Errors
    /// As [`list_events`](Self::list_events).
    pub fn read_surface(&self, id: &str, cancel: &CancelToken) -> Result<ReadSurface> {
        let (cut, _) = self.observe(id, cancel)?;
        let nodes = Classified::of(id, &cut.events, self.rules())?.nodes;
        // A surface was folded, so seqs are positions.
        let event = |seq: u64| cut.events.get(usize::try_from(seq).ok()?).cloned();
        Ok(ReadSurface {
            captured_through_seq: cut.events.last().map(Event::seq),
            events: nodes.into_iter().filter_map(event).collect(),
            session: cut.session,
            inherited_event_count: cut.inherited_event_count,
        })
    }

    /// An event and its neighbours. Of a stored log only the part is read that they stand in, unless that reaches its end.
    ///
    /// # Errors
    /// `SESSION_QUERY_INVALID_WINDOW` before anything is looked at; `SESSION_QUERY_EVENT_NOT_FOUND`; those of
    /// [`read_session`](Self::read_session), of damage only what was touched.
    pub fn read_event(&self, id: &str, request: EventRequest, cancel: &CancelToken) -> Result<EventWindow> {
        request.check(self.settings.read_window_max)?;
        check(cancel)?;
        if let Ok(target) = request.target(id) {
            let (from, to) = request.range(target);
            if let Some(session) = self.live.get(id) {
                let events = session.snapshot_events(from, to.saturating_add(1)).into_iter().collect();
                return EventWindow::new(
                    session.header().clone(),
                    session.inherited_event_count(),
                    target,
                    events,
                );
            }
            if let Some(window) = self.stored_window(id, target, (from, to), cancel)? {
                return Ok(window);
            }
        }
        let (cut, _) = self.observe(id, cancel)?;
        let target = request.target(id)?;
        let (from, to) = request.range(target);
        let events = cut.events.iter().filter(|event| (from..=to).contains(&event.seq())).cloned().collect();
        EventWindow::new(cut.session, cut.inherited_event_count, target, events)
    }

    /// A window that ends before the stored log does, read alone. `None` where more must be known, or the whole log is.
    fn stored_window(
        &self,
        id: &str,
        target: u64,
        (from, to): (u64, u64),
        cancel: &CancelToken,
    ) -> Result<Option<EventWindow>> {
        let Some(persistence) = &self.persistence else { return Ok(None) };
        let Some(snapshot) = self.stat(&**persistence, id, cancel)? else { return Ok(None) };
        if self.cache.get(id, &snapshot.revision).is_some() {
            return Ok(None);
        }
        let read = with_log(&**persistence, &snapshot, cancel, |log| {
            // One event more tells that the log goes on behind the window: what closes its last turn is not in it.
            let mut events = log.read(from, (to - from).saturating_add(2), cancel)?.events;
            if events.pop_if(|last| last.seq() > to).is_none() {
                return Ok(None);
            }
            Ok(Some((log.inherited_event_count(cancel)?, events)))
        })?;
        // One that went live meanwhile is the session.
        match read {
            Some((inherited, events)) if self.live.get(id).is_none() => {
                EventWindow::new(snapshot.header, inherited, target, events).map(Some)
            }
            _ => Ok(None),
        }
    }

    /// Where an event came from and what became of it.
    ///
    /// # Errors
    /// Those of [`read_session`](Self::read_session) and of [`EventTrace::of`].
    pub fn trace_event(&self, id: &str, seq: u64, cancel: &CancelToken) -> Result<EventTrace> {
        let (cut, _) = self.observe(id, cancel)?;
        EventTrace::of(&cut.session, &cut.events, seq, self.rules())
    }

    /// What a person would read of a session.
    ///
    /// # Errors
    /// Those of [`read_session`](Self::read_session).
    pub fn transcript(&self, id: &str, cancel: &CancelToken) -> Result<Vec<super::TranscriptEntry>> {
        Ok(super::transcript(&self.observe(id, cancel)?.0.events))
    }

    /// The header and the title of one session. A stored log is gone through, and none of it kept.
    ///
    /// # Errors
    /// Those of [`read_session`](Self::read_session).
    pub fn read_title(&self, id: &str, cancel: &CancelToken) -> Result<TitleSnapshot> {
        check(cancel)?;
        if let Some(session) = self.live.get(id) {
            return Ok(live_title(&session));
        }
        let Some(persistence) = &self.persistence else { return Err(session_not_found(id)) };
        match self.stat(&**persistence, id, cancel)? {
            Some(snapshot) => self.stored_title(&**persistence, &snapshot, cancel),
            None => {
                self.live.get(id).map(|session| live_title(&session)).ok_or_else(|| session_not_found(id))
            }
        }
    }

    /// Titles of many sessions, each id once, in the order in which they come first. What is wrong with one is said of that one.
    ///
    /// # Errors
    /// `SESSION_QUERY_ABORTED`, once the reads that were begun are over.
    pub fn read_titles(&self, ids: &[String], cancel: &CancelToken) -> Result<Vec<TitleResult>> {
        check(cancel)?;
        let mut seen = HashSet::new();
        let ids: Vec<&String> = ids.iter().filter(|id| seen.insert(id.as_str())).collect();
        let mut outcomes: HashMap<&str, Result<TitleSnapshot>> = HashMap::new();
        for id in &ids {
            if let Some(session) = self.live.get(id) {
                outcomes.insert(id, Ok(live_title(&session)));
            }
        }
        let cold: Vec<&str> =
            ids.iter().map(|id| id.as_str()).filter(|id| !outcomes.contains_key(id)).collect();
        if !cold.is_empty() {
            outcomes.extend(cold.iter().copied().zip(self.stored_titles(&cold, cancel)?));
        }
        let result = |id: &String| {
            let outcome = outcomes.remove(id.as_str()).unwrap_or_else(|| Err(session_not_found(id)));
            TitleResult { session_id: id.clone(), outcome }
        };
        Ok(ids.into_iter().map(result).collect())
    }

    /// One outcome an id, from one listing; a few logs are read at a time.
    fn stored_titles(&self, ids: &[&str], cancel: &CancelToken) -> Result<Vec<Result<TitleSnapshot>>> {
        let listing = match self.listing(cancel) {
            Ok(listing) => listing,
            Err(error) if error.code() == Code::QueryAborted => return Err(error),
            Err(error) => return Ok(ids.iter().map(|_| Err(error.duplicate())).collect()),
        };
        let known: HashMap<&str, &Snapshot> =
            listing.sessions.iter().map(|snapshot| (snapshot.header.id.as_str(), snapshot)).collect();
        let problems: HashMap<&str, &Error> = listing
            .problems
            .iter()
            .filter_map(|problem| Some((problem.id.as_deref()?, &problem.error)))
            .collect();
        let title = |id: &str| match (&self.persistence, known.get(id), problems.get(id)) {
            (Some(persistence), Some(snapshot), _) => self.stored_title(&**persistence, snapshot, cancel),
            (_, None, Some(problem)) => Err(storage_error(Some(id), problem.duplicate())),
            _ => Err(session_not_found(id)),
        };
        let next = AtomicUsize::new(0);
        let work = || {
            let mut done = Vec::new();
            while let Some(id) =
                ids.get(next.fetch_add(1, Ordering::Relaxed)).filter(|_| !cancel.is_cancelled())
            {
                done.push((*id, title(id)));
            }
            done
        };
        let mut outcomes: HashMap<&str, _> = match self.settings.persisted_read_concurrency.min(ids.len()) {
            0 | 1 => work().into_iter().collect(),
            workers => std::thread::scope(|scope| {
                let workers: Vec<_> = (0..workers).map(|_| scope.spawn(work)).collect();
                let done = workers.into_iter().map(|worker| worker.join());
                done.flat_map(|done| done.unwrap_or_else(|panic| std::panic::resume_unwind(panic))).collect()
            }),
        };
        let outcomes: Option<Vec<_>> = ids.iter().map(|id| outcomes.remove(id)).collect();
        let is_aborted =
            |outcome: &Result<_>| matches!(outcome, Err(error) if error.code() == Code::QueryAborted);
        match outcomes {
            Some(outcomes) if !outcomes.iter().any(is_aborted) => Ok(outcomes),
            _ => Err(storage_error(None, Error::new(Code::Cancelled, "the call was cancelled"))),
        }
    }

    fn stored_title(
        &self,
        persistence: &dyn SessionPersistence,
        snapshot: &Snapshot,
        cancel: &CancelToken,
    ) -> Result<TitleSnapshot> {
        let id = snapshot.header.id.as_str();
        let title = match self.cache.get(id, &snapshot.revision) {
            // What closes an interrupted turn sets no title.
            Some(log) => TitleRecord::of(&*log.events(false)),
            None => with_log(persistence, snapshot, cancel, |log| {
                let mut last = None;
                for event in log.events(EventRange::ALL, cancel)? {
                    titles::TitleRecord::see(&mut last, &event?);
                }
                Ok(last)
            })?,
        };
        match self.live.get(id) {
            Some(session) => Ok(live_title(&session)),
            None => Ok(TitleSnapshot { session: snapshot.header.clone(), title }),
        }
    }

    /// A session as it is now, and whether it is live (`query.md` 1.6).
    pub(super) fn observe(&self, id: &str, cancel: &CancelToken) -> Result<(ReadSession, bool)> {
        for read in 1.. {
            check(cancel)?;
            if let Some(session) = self.live.get(id) {
                return Ok((live_cut(&session), true));
            }
            let Some(persistence) = &self.persistence else { break };
            let snapshot = self.stat(&**persistence, id, cancel)?;
            if self.live.get(id).is_some() {
                continue;
            }
            let Some(snapshot) = snapshot else { break };
            let read_now = || read_log(&**persistence, &snapshot, cancel);
            let log = self.cache.get_or_read(id, &snapshot.revision, cancel, read_now)?;
            if self.live.get(id).is_some() {
                continue;
            }
            let is_balanced = match log.is_open() {
                false => Some(false),
                true => self.is_interrupted(&**persistence, &snapshot, cancel)?,
            };
            if is_balanced.is_none() && read < SETTLE_READS_MAX {
                continue;
            }
            let cut = ReadSession {
                session: log.header.clone(),
                inherited_event_count: log.inherited_event_count,
                events: log.events(is_balanced.unwrap_or(false)),
            };
            return Ok((cut, false));
        }
        Err(session_not_found(id))
    }

    /// Whether the open turn of a log is nobody's work in progress: nobody is known to write it, and nobody wrote since it was found.
    /// `None` if somebody did and is gone.
    fn is_interrupted(
        &self,
        persistence: &dyn SessionPersistence,
        found: &Snapshot,
        cancel: &CancelToken,
    ) -> Result<Option<bool>> {
        let id = found.header.id.as_str();
        if persistence.writer_of(id).map_err(|error| storage_error(Some(id), error))?.is_some() {
            return Ok(Some(false));
        }
        let now = self.stat(persistence, id, cancel)?;
        Ok(now.is_some_and(|now| now.revision == found.revision).then_some(true))
    }

    fn stat(
        &self,
        persistence: &dyn SessionPersistence,
        id: &str,
        cancel: &CancelToken,
    ) -> Result<Option<Snapshot>> {
        check(cancel)?;
        let found = match persistence.stat(id, cancel) {
            Err(error) if error.code() == Code::SessionNotFound => None,
            found => found.map_err(|error| storage_error(Some(id), error))?,
        };
        match found {
            Some(other) if other.header.id != id => {
                let message = format!("the storage answered with session {}", other.header.id);
                Err(Error::new(Code::QuerySourceConflict, message).with_session_id(id))
            }
            found => Ok(found),
        }
    }
}

fn live_cut(session: &Session) -> ReadSession {
    ReadSession {
        session: session.header().clone(),
        inherited_event_count: session.inherited_event_count(),
        events: Arc::new(session.snapshot_events(0, u64::MAX).into_iter().collect()),
    }
}

fn live_title(session: &Session) -> TitleSnapshot {
    // The session has folded it already.
    let newest = session.title().and_then(|title| session.event_at(title.event_seq()));
    TitleSnapshot { session: session.header().clone(), title: TitleRecord::of(&newest) }
}

/// Opens a stored log, reads and closes it. A failed read wins over a failed close, which alone fails too.
fn with_log<T>(
    persistence: &dyn SessionPersistence,
    snapshot: &Snapshot,
    cancel: &CancelToken,
    read: impl FnOnce(&dyn SessionLog) -> Result<T>,
) -> Result<T> {
    let id = snapshot.header.id.as_str();
    let failed = |error| storage_error(Some(id), error);
    let log = persistence.open(id, Access::Read, cancel).map_err(failed)?;
    let outcome = check_same(&snapshot.header, log.header()).and_then(|()| read(&*log).map_err(failed));
    let closed = log.close().map_err(failed);
    let value = outcome?;
    closed.map(|()| value)
}

fn read_log(
    persistence: &dyn SessionPersistence,
    snapshot: &Snapshot,
    cancel: &CancelToken,
) -> Result<ColdLog> {
    with_log(persistence, snapshot, cancel, |log| {
        let events = log.read(0, u64::MAX, cancel)?.events;
        let inherited = log.inherited_event_count(cancel)?;
        let closers = closers(&events, Cause::Interrupted)?;
        Ok(ColdLog::new(log.header().clone(), inherited, events, closers))
    })
}
