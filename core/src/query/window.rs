//! One event and its neighbours (`query.md` 5.1).

use crate::error::{Code, Error, Result};
use crate::event::Event;
use crate::format::header::SessionHeader;
use crate::json::{DEPTH_MAX_DEFAULT, Json, ObjectText};

/// Which events are wanted. `before` and `after` say how many beside the one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct EventRequest {
    /// The event; `None` for a number that no event has.
    seq: Option<u64>,
    before: u64,
    after: u64,
}

impl EventRequest {
    /// An event alone.
    #[must_use]
    pub fn new(seq: u64) -> EventRequest {
        EventRequest { seq: Some(seq), before: 0, after: 0 }
    }

    /// With this many events before it, as far as there are any.
    #[must_use]
    pub fn before(mut self, count: u64) -> EventRequest {
        self.before = count;
        self
    }

    /// With this many events after it, as far as there are any.
    #[must_use]
    pub fn after(mut self, count: u64) -> EventRequest {
        self.after = count;
        self
    }

    /// From `{seq, before?, after?}`; other members are not looked at.
    ///
    /// # Errors
    /// `SESSION_QUERY_INVALID_WINDOW` for `before` or `after` that is no whole number, `INVALID_ARGUMENT` where `seq` is no number.
    pub fn from_json(text: &str) -> Result<EventRequest> {
        let argument = |message: String| Error::new(Code::InvalidArgument, message);
        let json = Json::parse(text, DEPTH_MAX_DEFAULT)
            .map_err(|error| argument(format!("the request is no JSON: {error}")))?;
        let count = |key: &str| match json.get(key) {
            None => Ok(0),
            Some(value) => value.as_count().ok_or_else(|| invalid_window(key, value.text())),
        };
        let (before, after) = (count("before")?, count("after")?);
        let seq = json.get("seq").filter(|seq| seq.as_f64().is_some());
        let seq = seq.ok_or_else(|| argument("`seq` of the request is no number".to_owned()))?;
        Ok(EventRequest { seq: seq.as_count(), before, after })
    }

    /// Checks what can be checked before anything is loaded.
    pub(super) fn check(&self, window_max: u64) -> Result<()> {
        for (key, count) in [("before", self.before), ("after", self.after)] {
            if count > window_max {
                return Err(invalid_window(key, &count.to_string()).with_limit("readWindowMax"));
            }
        }
        Ok(())
    }

    /// The event that is wanted.
    pub(super) fn target(&self, session_id: &str) -> Result<u64> {
        let message = "the seq that was asked for is no whole number from 0 on";
        let error = || Error::new(Code::QueryEventNotFound, message).with_session_id(session_id);
        self.seq.ok_or_else(error)
    }

    /// The first and the last seq of the window, in a log that goes on for ever.
    pub(super) fn range(&self, target: u64) -> (u64, u64) {
        (target.saturating_sub(self.before), target.saturating_add(self.after))
    }
}

fn invalid_window(key: &str, value: &str) -> Error {
    let message = format!("`{key}` is {value}, which is no whole number from 0 to the limit");
    Error::new(Code::QueryInvalidWindow, message)
}

pub(super) fn event_not_found(session_id: &str, seq: u64) -> Error {
    let message = format!("the session has no event {seq}");
    Error::new(Code::QueryEventNotFound, message).with_session_id(session_id).with_seq(seq)
}

/// An event and its neighbours.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EventWindow {
    /// The header of the session at the time.
    pub session: SessionHeader,
    /// How many events at the beginning of the log were inherited.
    pub inherited_event_count: u64,
    /// The seq that was asked for.
    pub target_seq: u64,
    /// The events of the window, the one that was asked for among them.
    pub events: Vec<Event>,
}

impl EventWindow {
    /// A window of the events that there are; `events` are those of [`EventRequest::range`].
    pub(super) fn new(
        session: SessionHeader,
        inherited_event_count: u64,
        target_seq: u64,
        events: Vec<Event>,
    ) -> Result<EventWindow> {
        if !events.iter().any(|event| event.seq() == target_seq) {
            return Err(event_not_found(&session.id, target_seq));
        }
        Ok(EventWindow { session, inherited_event_count, target_seq, events })
    }

    /// The event that was asked for.
    #[must_use]
    pub fn target(&self) -> Option<&Event> {
        self.events.iter().find(|event| event.seq() == self.target_seq)
    }

    /// The first seq of the window.
    #[must_use]
    pub fn start_seq(&self) -> u64 {
        self.events.first().map_or(self.target_seq, Event::seq)
    }

    /// The last seq of the window.
    #[must_use]
    pub fn end_seq(&self) -> u64 {
        self.events.last().map_or(self.target_seq, Event::seq)
    }

    /// `{session, inheritedEventCount, target, events, startSeq, endSeq}`.
    #[must_use]
    pub fn to_json(&self) -> String {
        let mut out = ObjectText::new();
        out.json("session", &self.session.to_json());
        out.number("inheritedEventCount", self.inherited_event_count);
        if let Some(target) = self.target() {
            out.json("target", &target.logical_row());
        }
        out.json("events", &super::event_list(&self.events));
        out.number("startSeq", self.start_seq());
        out.number("endSeq", self.end_seq());
        out.finish()
    }
}
