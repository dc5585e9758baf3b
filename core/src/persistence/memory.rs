//! The contract without files: logs that live as long as their backend. For tests of rooms above, and to show that the contract's
//! suite tests the contract and not the file backend.

use super::contract::{
    Access, EventSink, EventSlice, EventState, Events, FormatStatus, ListMode, Listing, Notice, Removal,
    Resumed, Revision, SessionLog, SessionPersistence, Snapshot,
};
use super::rules::{check_batch, check_new_header, check_seed};
use crate::cancel::CancelToken;
use crate::error::{Code, Error, Result};
use crate::event::breach::Breach;
use crate::event::row::is_inherited_marker;
use crate::event::{Event, Vocabulary};
use crate::format::EventRange;
use crate::format::header::SessionHeader;
use crate::format::reader::LogEnd;
use crate::format::relationships::LogChecker;
use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Logs in memory.
#[derive(Clone, Debug, Default)]
pub struct MemoryPersistence {
    shared: Arc<Mutex<Shared>>,
    vocabulary: Vocabulary,
}

#[derive(Debug, Default)]
struct Shared {
    sessions: HashMap<String, Stored>,
    /// Counts changes of any log: no two states of a session have the same revision.
    changes: u64,
}

#[derive(Debug)]
struct Stored {
    header: SessionHeader,
    /// The length of the inherited prefix, as its creator gave it.
    cut: u64,
    vocabulary: Vocabulary,
    events: Vec<Event>,
    is_materialized: bool,
    is_owned: bool,
    revision: u64,
}

#[derive(Debug)]
struct MemoryLog {
    shared: Arc<Mutex<Shared>>,
    header: SessionHeader,
    access: Access,
    is_closed: AtomicBool,
}

fn lock(shared: &Mutex<Shared>) -> MutexGuard<'_, Shared> {
    // Nothing under this lock can panic halfway through a change.
    shared.lock().unwrap_or_else(PoisonError::into_inner)
}

impl MemoryPersistence {
    /// An empty backend.
    #[must_use]
    pub fn new() -> Self {
        MemoryPersistence::default()
    }

    /// An empty backend whose host appends and reads these event types.
    #[must_use]
    pub fn with_vocabulary(vocabulary: Vocabulary) -> Self {
        MemoryPersistence { vocabulary, ..MemoryPersistence::default() }
    }

    fn log(&self, header: SessionHeader, access: Access) -> Arc<dyn SessionLog> {
        Arc::new(MemoryLog {
            shared: Arc::clone(&self.shared),
            header,
            access,
            is_closed: AtomicBool::new(false),
        })
    }
}

fn about(code: Code, message: String, id: &str) -> Error {
    Error::new(code, message).with_session_id(id)
}

fn not_found(id: &str) -> Error {
    about(Code::SessionNotFound, format!("there is no session {id}"), id)
}

fn snapshot(stored: &Stored) -> Snapshot {
    Snapshot {
        header: stored.header.clone(),
        format_status: stored.is_materialized.then_some(FormatStatus::Current),
        revision: Revision(format!("memory:memory:{}", stored.revision)),
        event_count: stored.is_materialized.then_some(stored.events.len() as u64),
        size_bytes: None,
        path: None,
    }
}

impl Stored {
    fn materialize(&mut self, changes: &mut u64) -> Result<()> {
        if !self.is_materialized {
            check_seed(&self.header, self.cut, self.events.len() as u64, &[])?;
            self.is_materialized = true;
            self.change(changes);
        }
        Ok(())
    }

    fn append(&mut self, batch: &[Event], changes: &mut u64) -> Result<()> {
        if !batch.is_empty() {
            check_batch(&self.header, self.cut, self.events.len() as u64, batch, &self.vocabulary)?;
            self.is_materialized = true;
            self.events.extend_from_slice(batch);
            self.change(changes);
        }
        Ok(())
    }

    fn change(&mut self, changes: &mut u64) {
        // A stored header always says it.
        self.header.delegation_depth.get_or_insert(0);
        *changes += 1;
        self.revision = *changes;
    }
}

impl SessionPersistence for MemoryPersistence {
    fn create(
        &self,
        header: &SessionHeader,
        inherited_event_count: Option<u64>,
        cancel: &CancelToken,
    ) -> Result<Arc<dyn SessionLog>> {
        check_new_header(header, inherited_event_count)?;
        cancel.check()?;
        let id = &header.id;
        let mut shared = lock(&self.shared);
        if shared.sessions.contains_key(id) {
            return Err(about(Code::SessionAlreadyExists, format!("session {id} exists already"), id));
        }
        shared.changes += 1;
        let stored = Stored {
            header: header.clone(),
            cut: inherited_event_count.unwrap_or(0),
            vocabulary: self.vocabulary.clone(),
            events: Vec::new(),
            is_materialized: false,
            is_owned: true,
            revision: shared.changes,
        };
        shared.sessions.insert(id.clone(), stored);
        drop(shared);
        Ok(self.log(header.clone(), Access::Write))
    }

    fn open(&self, id: &str, access: Access, cancel: &CancelToken) -> Result<Arc<dyn SessionLog>> {
        cancel.check()?;
        let mut shared = lock(&self.shared);
        let stored = shared.sessions.get_mut(id).ok_or_else(|| not_found(id))?;
        if access == Access::Write {
            if stored.is_owned {
                let message = format!("session {id} is open for writing in this process");
                return Err(about(Code::SessionAlreadyOwned, message, id).with_owner("this process"));
            }
            stored.is_owned = true;
        }
        let header = stored.header.clone();
        drop(shared);
        Ok(self.log(header, access))
    }

    fn resume(&self, id: &str, cancel: &CancelToken, sink: &mut EventSink<'_>) -> Result<Resumed> {
        let log = self.open(id, Access::Write, cancel)?;
        let header = log.header();
        let cut = log.inherited_event_count(cancel)?;
        let mut checker = LogChecker::with_inherited_count(header, cut, self.vocabulary.clone());
        let broken = |breach: &Breach, seq: u64| breach.error().with_session_id(id).with_seq(seq);
        for event in log.events(EventRange::ALL, cancel)? {
            let event = event?;
            checker.check(&event).map_err(|breach| broken(&breach, event.seq()))?;
            sink(event)?;
        }
        checker.finish().map_err(|breach| broken(&breach, breach.earlier_seq().unwrap_or(0)))?;
        Ok(Resumed { log, checker })
    }

    fn stat(&self, id: &str, cancel: &CancelToken) -> Result<Option<Snapshot>> {
        cancel.check()?;
        Ok(lock(&self.shared).sessions.get(id).map(snapshot))
    }

    fn list(&self, _mode: ListMode, cancel: &CancelToken) -> Result<Listing> {
        cancel.check()?;
        let sessions = lock(&self.shared).sessions.values().map(snapshot).collect();
        Ok(Listing { sessions, problems: Vec::new() })
    }

    fn remove(&self, id: &str, _how: Removal, cancel: &CancelToken) -> Result<Option<PathBuf>> {
        cancel.check()?;
        let sessions = &mut lock(&self.shared).sessions;
        match sessions.get(id) {
            None => Err(about(Code::SessionNotFound, format!("there is no session {id}"), id)),
            Some(stored) if stored.is_owned => {
                Err(about(Code::SessionAlreadyOwned, format!("session {id} is open for writing"), id))
            }
            Some(_) => {
                sessions.remove(id);
                Ok(None)
            }
        }
    }

    fn flush(&self) -> Result<()> {
        let Shared { sessions, changes } = &mut *lock(&self.shared);
        let owned = sessions.values_mut().filter(|stored| stored.is_owned);
        let errors: Vec<_> = owned.filter_map(|stored| stored.materialize(changes).err()).collect();
        if errors.is_empty() { Ok(()) } else { Err(Error::several(errors)) }
    }
}

impl MemoryLog {
    /// The check that comes before all others (`format.md` 6.1).
    fn enter(&self, operation: &str) -> Result<()> {
        if self.is_closed.load(Ordering::Acquire) {
            let message =
                format!("`{operation}` was called on a closed handle of session {}", self.header.id);
            return Err(about(Code::HandleClosed, message, &self.header.id));
        }
        Ok(())
    }

    fn look<T>(&self, operation: &str, cancel: &CancelToken, work: impl FnOnce(&Stored) -> T) -> Result<T> {
        self.enter(operation)?;
        cancel.check()?;
        let shared = lock(&self.shared);
        let stored = shared.sessions.get(&self.header.id).ok_or_else(|| not_found(&self.header.id))?;
        Ok(work(stored))
    }

    fn change(
        &self,
        operation: &str,
        cancel: &CancelToken,
        work: impl FnOnce(&mut Stored, &mut u64) -> Result<()>,
    ) -> Result<()> {
        self.enter(operation)?;
        cancel.check()?;
        let id = &self.header.id;
        if self.access == Access::Read {
            let message = format!("`{operation}` needs a write handle; this one of session {id} only reads");
            return Err(about(Code::SessionReadOnly, message, id));
        }
        let Shared { sessions, changes } = &mut *lock(&self.shared);
        // Closed while this call waited for its turn.
        self.enter(operation)?;
        work(sessions.get_mut(id).ok_or_else(|| not_found(id))?, changes)
    }
}

impl SessionLog for MemoryLog {
    fn id(&self) -> &str {
        &self.header.id
    }

    fn header(&self) -> &SessionHeader {
        &self.header
    }

    fn access(&self) -> Access {
        self.access
    }

    fn inherited_event_count(&self, cancel: &CancelToken) -> Result<u64> {
        self.look("inherited_event_count", cancel, |stored| {
            // As in files, only the owner knows before the prefix is stored.
            if stored.is_materialized || self.access == Access::Write { stored.cut } else { 0 }
        })
    }

    fn events(&self, range: EventRange, cancel: &CancelToken) -> Result<Events> {
        let events = self.look("events", cancel, |stored| stored.events.clone())?;
        let length = events.len() as u64;
        let (from, count) = match range {
            EventRange::Window { from, count } => (from, count),
            EventRange::Newest { count } => (length.saturating_sub(count), count),
        };
        let in_range = move |event: &Event| event.seq() >= from && event.seq() - from < count;
        let mut events = events.into_iter().filter(in_range);
        Ok(Events::from_fn(move || Ok(events.next())))
    }

    fn read(&self, offset: u64, length: u64, cancel: &CancelToken) -> Result<EventSlice> {
        let events = self.events(EventRange::window(offset, length), cancel)?.collect::<Result<Vec<_>>>()?;
        let is_materialized = self.look("read", cancel, |stored| stored.is_materialized)?;
        let event_state = if is_materialized { EventState::SharedFrozen } else { EventState::Detached };
        Ok(EventSlice { event_state, events })
    }

    fn check(&self, cancel: &CancelToken) -> Result<LogEnd> {
        self.look("check", cancel, |stored| {
            let is_marker = |event: &&Event| is_inherited_marker(event.kind(), event.data());
            LogEnd {
                event_count: stored.events.len() as u64,
                inherited_marker: stored.events.iter().rev().find(is_marker).map(Event::seq),
                file_bytes: 0,
                torn: None,
                frames: 0,
            }
        })
    }

    fn event_count(&self, cancel: &CancelToken) -> Result<u64> {
        self.look("event_count", cancel, |stored| stored.events.len() as u64)
    }

    fn append(&self, batch: &[Event], cancel: &CancelToken) -> Result<()> {
        self.change("append", cancel, |stored, changes| stored.append(batch, changes))
    }

    fn flush(&self, cancel: &CancelToken) -> Result<()> {
        self.change("flush", cancel, Stored::materialize)
    }

    fn close(&self) -> Result<()> {
        // Under the lock: whoever got in before may finish, nobody gets in afterwards.
        let mut shared = lock(&self.shared);
        if self.is_closed.swap(true, Ordering::AcqRel) || self.access == Access::Read {
            return Ok(());
        }
        if let Some(stored) = shared.sessions.get_mut(&self.header.id) {
            stored.is_owned = false;
            // A session that was never materialized has never existed.
            if !stored.is_materialized {
                shared.sessions.remove(&self.header.id);
            }
        }
        Ok(())
    }

    fn notices(&self) -> Vec<Notice> {
        Vec::new()
    }
}

impl Drop for MemoryLog {
    fn drop(&mut self) {
        // Closing memory cannot fail.
        let _ = self.close();
    }
}
