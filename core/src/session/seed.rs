//! How a session begins: the events that it is given, the marker that says where they end, and the seed of a fork
//! (`session.md` 12, 13.1).

use super::closers::{self, Cause};
use crate::error::{Code, Error, Result};
use crate::event::row::is_inherited_marker;
use crate::event::{Event, EventDraft};
use crate::format::header::{FORMAT_VERSION, SessionHeader};
use crate::json::{DEPTH_MAX_DEFAULT, Json, ObjectText};

/// The code of a text that is no event.
pub(super) const ENVELOPE_INVALID: &str = "EVENT_ENVELOPE_INVALID";

/// The type of the events that mark where a seed ends.
const END_SEED: &str = "session/end-seed";

/// Where the events of a new session object come from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SeedMode {
    /// Borrowed: of a new, a replayed or a forked session. Checked in full.
    Snapshot,
    /// Read from storage, where they were checked.
    Restore,
}

/// What a session is built from.
#[derive(Clone, Debug)]
pub struct Seed {
    /// How far the events are trusted.
    pub mode: SeedMode,
    /// The events, from seq 0 on; `None` is another thing than an empty list: a new session has no marker.
    pub events: Option<Vec<Event>>,
    /// How many of them a fork inherited; required for a seeded session.
    pub inherited_event_count: Option<u64>,
    /// Whether the construction adds the marker of `session.md` 12.3. Without it a restored session goes on in the middle of what it was
    /// doing, which only a program that continues an unfinished log in its own name should do.
    pub adds_marker: bool,
}

impl Default for Seed {
    fn default() -> Self {
        Seed { mode: SeedMode::Snapshot, events: None, inherited_event_count: None, adds_marker: true }
    }
}

/// A refusal of a construction.
pub(crate) fn refused(code: &'static str, message: impl Into<String>) -> Error {
    Error::new(Code::SessionRefused, message).with_rule(code)
}

impl Seed {
    /// Seed events from whole rows as text, each a JSON object with the envelope of `events.md` 1.
    ///
    /// # Errors
    /// `SESSION_REFUSED` with `EVENT_ENVELOPE_INVALID` or `SOURCES_INVALID` and the index of the first bad row.
    pub fn from_rows<T: AsRef<[u8]>>(rows: impl IntoIterator<Item = T>) -> Result<Vec<Event>> {
        let read = |(index, row): (usize, T)| {
            Event::from_row(row).map_err(|error| {
                let is_lossy = error.code() == Code::NotLosslessJson;
                let code =
                    if is_lossy { "NOT_LOSSLESS_JSON" } else { error.rule().unwrap_or(ENVELOPE_INVALID) };
                refused(code, error.message()).with_index(index as u64).with_cause(error)
            })
        };
        rows.into_iter().enumerate().map(read).collect()
    }

    /// The checks of `session.md` 12.2 that come after those of the events, and the marker to add.
    pub(super) fn finish(&self, header: &SessionHeader, now_ms: i64) -> Result<Begun> {
        let events = self.events.as_deref();
        let length = events.map_or(0, <[Event]>::len) as u64;
        if header.is_seeded && events.is_none() {
            return Err(refused(
                "SEED_REQUIRED",
                "a seeded session is built from the events that it inherits",
            ));
        }
        if header.is_seeded && self.inherited_event_count.is_none() {
            let message = "a seeded session needs the number of events that it inherits";
            return Err(refused("INHERITED_COUNT_REQUIRED", message));
        }
        let inherited = self.inherited_event_count.unwrap_or(0);
        if !header.is_seeded && inherited > 0 {
            let message = "a session that is not seeded inherits no events";
            return Err(refused("INHERITED_COUNT_NOT_ZERO", message));
        }
        if inherited > length {
            let error = refused("INHERITED_COUNT_EXCEEDS", "more events are inherited than there are");
            return Err(error.with_expected(length).with_got(inherited));
        }
        let events = events.unwrap_or_default();
        self.check_cut(header, events, inherited)?;
        let marker = self.marker(header, events, inherited, now_ms)?;
        let first_lifecycle_seq =
            if header.is_seeded && self.mode == SeedMode::Snapshot { inherited } else { length };
        Ok(Begun { inherited, first_live_seq: length, first_lifecycle_seq, marker })
    }

    /// Rules 8 and 9 of `session.md` 12.2.
    fn check_cut(&self, header: &SessionHeader, events: &[Event], inherited: u64) -> Result<()> {
        let (_, own) = events.split_at(inherited as usize);
        let Some((at_cut, later)) = own.split_first() else { return Ok(()) };
        let is_marked = is_tagged(at_cut);
        if self.mode == SeedMode::Snapshot && header.is_seeded && !is_marked {
            let message = format!("event {inherited} is not the marker that ends what is inherited");
            return Err(refused("SEED_CUT_UNMARKED", message));
        }
        if is_marked && later.iter().any(is_tagged) {
            let message = "a later event ends what is inherited once more";
            return Err(refused("INHERITED_MARKER_NOT_LAST", message));
        }
        Ok(())
    }

    /// `session.md` 12.3.
    fn marker(
        &self,
        header: &SessionHeader,
        events: &[Event],
        inherited: u64,
        now_ms: i64,
    ) -> Result<Option<Event>> {
        let length = events.len() as u64;
        let is_fork = header.is_seeded && self.mode == SeedMode::Snapshot;
        if is_fork {
            // Whatever its last event is, an ancestor's marker included: the prefix alone is not marked yet.
            return if inherited == length { end_seed(length, now_ms, true).map(Some) } else { Ok(None) };
        }
        let is_new = self.events.is_none() && self.mode == SeedMode::Snapshot;
        let ends_marked = events.last().is_some_and(|last| last.kind() == END_SEED);
        match is_new || ends_marked || !self.adds_marker {
            true => Ok(None),
            false => end_seed(length, now_ms, false).map(Some),
        }
    }
}

/// What a construction found and adds.
#[derive(Debug)]
pub(super) struct Begun {
    pub(super) inherited: u64,
    pub(super) first_live_seq: u64,
    pub(super) first_lifecycle_seq: u64,
    pub(super) marker: Option<Event>,
}

fn is_tagged(event: &Event) -> bool {
    is_inherited_marker(event.kind(), event.data())
}

fn end_seed(seq: u64, time_ms: i64, is_inherited: bool) -> Result<Event> {
    let data = if is_inherited { r#"{"inherited":true}"# } else { "{}" };
    EventDraft::new(END_SEED, data)?.build(seq, time_ms)
}

/// The seed of a fork at an existing event, and how many of its events are inherited: the events up to `boundary`, the marker, and
/// closers for a turn that is open there (`session.md` 13.1).
///
/// # Errors
/// `INVALID_BOUNDARY` for a seq that is not among `events`, which begin at seq 0.
pub fn fork_seed(events: impl IntoIterator<Item = Event>, boundary: u64) -> Result<(Vec<Event>, u64)> {
    let inherited = boundary.saturating_add(1);
    let mut seed: Vec<Event> = events.into_iter().take_while(|event| event.seq() <= boundary).collect();
    let Some(last) = seed.last().filter(|last| last.seq() == boundary) else {
        let message = format!("the source has no event {boundary}; it has {}", seed.len());
        return Err(Error::new(Code::InvalidBoundary, message));
    };
    let time = last.time();
    seed.push(end_seed(inherited, time, true)?);
    // What stands before the last bracket of a turn is closed, whatever it is.
    let is_bracket = |event: &Event| matches!(event.kind(), "turn/start" | "turn/end");
    let tail = seed.iter().rposition(is_bracket).unwrap_or(0);
    let closers = closers::closers(seed.get(tail..).unwrap_or_default(), Cause::Forked)?;
    seed.extend(closers);
    Ok((seed, inherited))
}

/// The header of a session in memory from its complete JSON object (`session.md` 3).
///
/// # Errors
/// `SESSION_REFUSED`, `HEADER_INVALID`: a version other than 4, an id that is not `id`, a missing, unknown or malformed field.
pub fn header_from_json(text: &str, id: &str) -> Result<SessionHeader> {
    let invalid = |message: String| refused("HEADER_INVALID", message).with_session_id(id);
    let object = Json::parse(text, DEPTH_MAX_DEFAULT).map_err(|error| invalid(error.to_string()))?;
    let mut rest = ObjectText::new();
    let mut version = None;
    let mut required = ["id", "createdAt", "isSeeded"].to_vec();
    for (key, value) in object.members() {
        required.retain(|name| *name != key);
        if key == "version" {
            version = value.as_count();
        } else {
            rest.json(&key, value.text());
        }
    }
    if version != Some(u64::from(FORMAT_VERSION)) {
        return Err(invalid(format!("the header's version is not {FORMAT_VERSION}")));
    }
    if let Some(missing) = required.first() {
        return Err(invalid(format!("the header lacks `{missing}`")));
    }
    let header = SessionHeader::from_json(&rest.finish(), SessionHeader::new(id, 0))
        .map_err(|fault| invalid(fault.to_string()))?;
    match header.id == id {
        true => Ok(header),
        false => Err(invalid(format!("the header's id is `{}`, the session's `{id}`", header.id))),
    }
}
