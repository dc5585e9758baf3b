//! The contract without files: logs that live as long as their backend. For tests of rooms above, and to show that the contract's
//! suite tests the contract and not the file backend.

use super::contract::{
    Access, EventSlice, EventState, Events, FormatStatus, ListMode, Listing, Notice, Removal, Revision,
    SessionLog, SessionPersistence, Snapshot,
};
use crate::cancel::CancelToken;
use crate::error::{Code, Error, Result};
use crate::event::Event;
use crate::event::row::is_inherited_marker;
use crate::format::EventRange;
use crate::format::header::SessionHeader;
use crate::format::reader::LogEnd;
use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Logs in memory.
#[derive(Clone, Debug, Default)]
pub struct MemoryPersistence {
    sessions: Arc<Mutex<HashMap<String, Stored>>>,
}

#[derive(Debug)]
struct Stored {
    header: SessionHeader,
    events: Vec<Event>,
    is_materialized: bool,
    is_owned: bool,
    revision: u64,
}

#[derive(Debug)]
struct MemoryLog {
    sessions: Arc<Mutex<HashMap<String, Stored>>>,
    header: SessionHeader,
    access: Access,
    is_closed: AtomicBool,
}

impl MemoryPersistence {
    /// An empty backend.
    #[must_use]
    pub fn new() -> Self {
        MemoryPersistence::default()
    }

    fn sessions(&self) -> MutexGuard<'_, HashMap<String, Stored>> {
        self.sessions.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn log(&self, header: SessionHeader, access: Access) -> Arc<dyn SessionLog> {
        Arc::new(MemoryLog {
            sessions: Arc::clone(&self.sessions),
            header,
            access,
            is_closed: AtomicBool::new(false),
        })
    }
}

fn about(code: Code, message: String, id: &str) -> Error {
    Error::new(code, message).with_session_id(id)
}

fn snapshot(stored: &Stored) -> Snapshot {
    Snapshot {
        header: stored.header.clone(),
        format_status: stored.is_materialized.then_some(FormatStatus::Current),
        revision: Revision(format!("memory:memory:{}", stored.revision)),
        event_count: Some(stored.events.len() as u64),
        size_bytes: None,
        path: None,
    }
}

impl SessionPersistence for MemoryPersistence {
    fn create(
        &self,
        header: &SessionHeader,
        inherited_event_count: Option<u64>,
        cancel: &CancelToken,
    ) -> Result<Arc<dyn SessionLog>> {
        cancel.check()?;
        let id = &header.id;
        if header.check().is_err() || header.is_seeded != inherited_event_count.is_some() {
            return Err(about(Code::InvalidArgument, "the header is not valid".to_owned(), id));
        }
        let mut sessions = self.sessions();
        if sessions.contains_key(id) {
            return Err(about(Code::SessionAlreadyExists, format!("session {id} exists already"), id));
        }
        let stored = Stored {
            header: header.clone(),
            events: Vec::new(),
            is_materialized: false,
            is_owned: true,
            revision: 0,
        };
        sessions.insert(id.clone(), stored);
        drop(sessions);
        Ok(self.log(header.clone(), Access::Write))
    }

    fn open(&self, id: &str, access: Access, cancel: &CancelToken) -> Result<Arc<dyn SessionLog>> {
        cancel.check()?;
        let mut sessions = self.sessions();
        let Some(stored) = sessions.get_mut(id) else {
            return Err(about(Code::SessionNotFound, format!("there is no session {id}"), id));
        };
        if access == Access::Write {
            if stored.is_owned {
                return Err(about(
                    Code::SessionAlreadyOwned,
                    format!("session {id} is open for writing"),
                    id,
                ));
            }
            stored.is_owned = true;
        }
        let header = stored.header.clone();
        drop(sessions);
        Ok(self.log(header, access))
    }

    fn stat(&self, id: &str, cancel: &CancelToken) -> Result<Option<Snapshot>> {
        cancel.check()?;
        Ok(self.sessions().get(id).map(snapshot))
    }

    fn list(&self, _mode: ListMode, cancel: &CancelToken) -> Result<Listing> {
        cancel.check()?;
        Ok(Listing { sessions: self.sessions().values().map(snapshot).collect(), problems: Vec::new() })
    }

    fn remove(&self, id: &str, _how: Removal, cancel: &CancelToken) -> Result<Option<PathBuf>> {
        cancel.check()?;
        let mut sessions = self.sessions();
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
        for stored in self.sessions().values_mut().filter(|stored| stored.is_owned) {
            stored.is_materialized = true;
        }
        Ok(())
    }
}

impl MemoryLog {
    /// Runs `work` on the stored session, after the checks that every call begins with.
    fn with<T>(
        &self,
        operation: &str,
        writes: bool,
        work: impl FnOnce(&mut Stored) -> Result<T>,
    ) -> Result<T> {
        let id = &self.header.id;
        if self.is_closed.load(Ordering::Acquire) {
            return Err(about(
                Code::HandleClosed,
                format!("`{operation}` was called on a closed handle"),
                id,
            ));
        }
        if writes && self.access == Access::Read {
            return Err(about(Code::SessionReadOnly, format!("`{operation}` needs a write handle"), id));
        }
        let mut sessions = self.sessions.lock().unwrap_or_else(PoisonError::into_inner);
        match sessions.get_mut(id) {
            Some(stored) => work(stored),
            None => Err(about(Code::SessionNotFound, format!("there is no session {id}"), id)),
        }
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
        Ok(self.check(cancel)?.inherited_marker.filter(|_| self.header.is_seeded).unwrap_or(0))
    }

    fn events(&self, range: EventRange, cancel: &CancelToken) -> Result<Events> {
        cancel.check()?;
        let events = self.with("events", false, |stored| Ok(stored.events.clone()))?;
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
        let is_materialized = self.with("read", false, |stored| Ok(stored.is_materialized))?;
        let event_state = if is_materialized { EventState::SharedFrozen } else { EventState::Detached };
        Ok(EventSlice { event_state, events })
    }

    fn check(&self, cancel: &CancelToken) -> Result<LogEnd> {
        cancel.check()?;
        self.with("check", false, |stored| {
            let is_marker = |event: &&Event| is_inherited_marker(event.kind(), event.data());
            Ok(LogEnd {
                event_count: stored.events.len() as u64,
                inherited_marker: stored.events.iter().rev().find(is_marker).map(Event::seq),
                file_bytes: 0,
                torn: None,
                frames: 0,
            })
        })
    }

    fn event_count(&self, cancel: &CancelToken) -> Result<u64> {
        Ok(self.check(cancel)?.event_count)
    }

    fn append(&self, batch: &[Event], cancel: &CancelToken) -> Result<()> {
        self.with("append", true, |stored| {
            cancel.check()?;
            for (expected, event) in (stored.events.len() as u64..).zip(batch) {
                if event.seq() != expected {
                    let message = format!("seq {expected} should stand here, not {}", event.seq());
                    return Err(about(Code::InvalidArgument, message, &self.header.id));
                }
            }
            stored.is_materialized |= !batch.is_empty();
            stored.revision += batch.len() as u64;
            stored.events.extend_from_slice(batch);
            Ok(())
        })
    }

    fn flush(&self, cancel: &CancelToken) -> Result<()> {
        self.with("flush", true, |stored| {
            cancel.check()?;
            stored.is_materialized = true;
            Ok(())
        })
    }

    fn close(&self) -> Result<()> {
        if self.is_closed.swap(true, Ordering::AcqRel) || self.access == Access::Read {
            return Ok(());
        }
        let mut sessions = self.sessions.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(stored) = sessions.get_mut(&self.header.id) {
            stored.is_owned = false;
            // A session that was never materialized has never existed.
            if !stored.is_materialized {
                sessions.remove(&self.header.id);
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
