//! One session as it was at one moment (`query.md` 1.6, 1.7, 1.9).

use super::records::SessionRecord;
use crate::error::{Code, Error, Result};
use crate::event::Event;
use crate::format::header::SessionHeader;
use crate::json::ObjectText;
use std::sync::{Arc, OnceLock};

/// A stored log, read whole.
#[derive(Debug)]
pub(super) struct ColdLog {
    pub(super) header: SessionHeader,
    pub(super) inherited_event_count: u64,
    /// As stored.
    events: Arc<Vec<Event>>,
    /// What ends its open turn, if there is one.
    closers: Vec<Event>,
    /// Both together, once somebody wanted them.
    balanced: OnceLock<Arc<Vec<Event>>>,
    /// Bytes of row text.
    pub(super) text_bytes: u64,
}

impl ColdLog {
    pub(super) fn new(
        header: SessionHeader,
        inherited_event_count: u64,
        events: Vec<Event>,
        closers: Vec<Event>,
    ) -> ColdLog {
        let text_bytes = events.iter().chain(&closers).map(|event| event.row().len() as u64).sum();
        let (events, balanced) = (Arc::new(events), OnceLock::new());
        ColdLog { header, inherited_event_count, events, closers, balanced, text_bytes }
    }

    pub(super) fn is_open(&self) -> bool {
        !self.closers.is_empty()
    }

    /// The events, with those that end an open turn or without.
    pub(super) fn events(&self, is_balanced: bool) -> Arc<Vec<Event>> {
        if !is_balanced || self.closers.is_empty() {
            return Arc::clone(&self.events);
        }
        Arc::clone(self.balanced.get_or_init(|| {
            let mut events = Vec::with_capacity(self.events.len() + self.closers.len());
            events.extend(self.events.iter().chain(&self.closers).cloned());
            Arc::new(events)
        }))
    }
}

/// A whole session as it was at one moment; never changes afterwards.
#[derive(Clone, Debug)]
pub struct ReadSession {
    /// The header.
    pub session: SessionHeader,
    /// How many events at the beginning of the log were inherited.
    pub inherited_event_count: u64,
    /// Every event; those of a stored log whose last turn was interrupted end with the events that close it, which are not stored.
    pub events: Arc<Vec<Event>>,
}

impl ReadSession {
    /// `{session, inheritedEventCount}`: all but the events, which may be many.
    #[must_use]
    pub fn facts_json(&self) -> String {
        let mut out = ObjectText::new();
        out.json("session", &self.session.to_json());
        out.number("inheritedEventCount", self.inherited_event_count);
        out.finish()
    }
}

/// The events that the model sees, as they were at one moment.
#[derive(Clone, Debug)]
pub struct ReadSurface {
    /// The header.
    pub session: SessionHeader,
    /// How many events at the beginning of the log were inherited.
    pub inherited_event_count: u64,
    /// The last seq of the log; `None` for an empty one.
    pub captured_through_seq: Option<u64>,
    /// The events on the surface, in its order.
    pub events: Vec<Event>,
}

impl ReadSurface {
    /// `{session, inheritedEventCount, capturedThroughSeq}`: all but the events, which may be many.
    #[must_use]
    pub fn facts_json(&self) -> String {
        let mut out = ObjectText::new();
        out.json("session", &self.session.to_json());
        out.number("inheritedEventCount", self.inherited_event_count);
        match self.captured_through_seq {
            Some(seq) => out.number("capturedThroughSeq", seq),
            None => out.json("capturedThroughSeq", "null"),
        }
        out.finish()
    }
}

/// Checks that two descriptions of a session agree in what never changes (`query.md` 1.5).
pub(super) fn check_same(left: &SessionHeader, right: &SessionHeader) -> Result<()> {
    let depth = |header: &SessionHeader| header.delegation_depth.unwrap_or(0);
    let differences = [
        ("id", left.id != right.id),
        ("createdAt", left.created_at != right.created_at),
        ("cwd", left.cwd != right.cwd),
        ("parentSession", left.parent_session != right.parent_session),
        ("isSeeded", left.is_seeded != right.is_seeded),
        ("delegationDepth", depth(left) != depth(right)),
    ];
    match differences.iter().find(|(_, differs)| *differs) {
        None => Ok(()),
        Some((key, _)) => {
            let message = format!("two descriptions of the session differ in `{key}`");
            Err(Error::new(Code::QuerySourceConflict, message).with_session_id(&left.id))
        }
    }
}

/// Newest first, then by the bytes of the id (`query.md` 1.4).
pub(super) fn sort(records: &mut [SessionRecord]) {
    records.sort_by(|a, b| {
        b.header.created_at.cmp(&a.header.created_at).then_with(|| a.header.id.cmp(&b.header.id))
    });
}
