//! The events that end what a log's last turn left open (`session.md` 14): an answer for each call that waits, the end of the step,
//! the end of the turn.
//!
//! A scan looks at an event only if it may open or close something, and at the messages and calls among those only when the step they
//! stand in is still open in the end, or grows long: in a log of whole turns nothing but types is compared.

use crate::error::Result;
use crate::event::facts::{is_word, members};
use crate::event::{Event, SurfaceOp};
use crate::json::{Json, Kind, ObjectText};
use std::collections::HashMap;

/// How many events of an open step wait unread. A bound, because each may keep a whole piece of text alive.
const UNREAD_EVENTS_MAX: usize = 16;

/// The text of an answer to a call that an interruption left without a start. Other readers of format 4 compare it byte for byte
/// (`events.md` 11, wire constant).
pub const INTERRUPTED_NOT_STARTED_TEXT: &str = "The tool call was interrupted before the Harness recorded it as started. Retry it if it is still needed.";

const INTERRUPTED_STARTED_TEXT: &str = "This tool call was started, but the session was interrupted before its result was saved, \
    so whether it took effect is unknown. Repeat it only when it merely reads or is safe to repeat; if it can change anything, check \
    the actual state first or ask the user.";

const FORKED_NOT_STARTED_TEXT: &str = "The history copied into this branch has no recorded start for this tool call; the original \
    session may have run it after the branch point. Repeat it only when it merely reads or is safe to repeat; if it can change \
    anything, check the actual state first or ask the user.";

const FORKED_STARTED_TEXT: &str = "The history copied into this branch includes the start of this tool call but not its result; the \
    original session may have finished it after the branch point. Repeat it only when it merely reads or is safe to repeat; if it can \
    change anything, check the actual state first or ask the user.";

/// Why a turn did not end by itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Cause {
    /// The program that wrote the log stopped. Written when a log is taken up again.
    Interrupted,
    /// The log was copied up to a place inside the turn.
    Forked,
}

impl Cause {
    /// The word in the events: the kind of the turn's end reason, and the start of the answers' ids.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Cause::Interrupted => "interrupted",
            Cause::Forked => "forked",
        }
    }

    fn text(self, is_started: bool) -> &'static str {
        match (self, is_started) {
            (Cause::Interrupted, false) => INTERRUPTED_NOT_STARTED_TEXT,
            (Cause::Interrupted, true) => INTERRUPTED_STARTED_TEXT,
            (Cause::Forked, false) => FORKED_NOT_STARTED_TEXT,
            (Cause::Forked, true) => FORKED_STARTED_TEXT,
        }
    }
}

/// What the tail of a log leaves open; fed with every event, in order.
///
/// ```
/// use dsh_session_core::Event;
/// use dsh_session_core::session::closers::{Cause, TailScan};
/// let mut scan = TailScan::default();
/// scan.see(&Event::from_row(br#"{"type":"turn/start","seq":0,"time":5,"data":{"turn":1}}"#)?);
/// let closers = scan.closers(Cause::Interrupted, 1, 5)?;
/// assert_eq!(
///     closers[0].row(),
///     r#"{"type":"turn/end","seq":1,"time":5,"data":{"turn":1,"reason":{"kind":"interrupted"}}}"#
/// );
/// # Ok::<(), dsh_session_core::Error>(())
/// ```
#[derive(Clone, Debug, Default)]
pub struct TailScan {
    /// The number of the open turn, as text.
    turn: Option<Box<str>>,
    /// The number of the open step, as text.
    step: Option<Box<str>>,
    calls: WaitingCalls,
    /// Messages, calls and results since, not yet looked into.
    unread: Vec<Event>,
}

impl TailScan {
    /// Takes the next event.
    pub fn see(&mut self, event: &Event) {
        match event.kind() {
            "turn/start" => {
                self.forget_calls();
                self.turn = number_text(event.data().get("turn"));
                self.step = None;
            }
            "turn/end" => {
                self.forget_calls();
                self.turn = None;
                self.step = None;
            }
            "step/start" => self.step = number_text(event.data().get("step")),
            "step/end" => {
                self.forget_calls();
                self.step = None;
            }
            "assistant/message" | "tool/call" | "tool/result" => {
                self.unread.push(event.clone());
                if self.unread.len() >= UNREAD_EVENTS_MAX {
                    self.unread.drain(..).for_each(|event| self.calls.see(&event));
                }
            }
            _ => {}
        }
    }

    fn forget_calls(&mut self) {
        self.calls = WaitingCalls::default();
        self.unread.clear();
    }

    /// Whether a turn is open, so that there are closers.
    #[must_use]
    pub fn is_open(&self) -> bool {
        self.turn.is_some()
    }

    /// The events that end what is open, none if nothing is. Their seqs go on from `next_seq`; all are of the time `time_ms`
    /// (milliseconds since 1970), which is that of the last event.
    ///
    /// # Errors
    /// `INVALID_ARGUMENT` for a seq or time beyond 2^53-1, `LIMIT_EXCEEDED` for an id that makes a row too long.
    pub fn closers(&self, cause: Cause, next_seq: u64, time_ms: i64) -> Result<Vec<Event>> {
        let Some(turn) = &self.turn else { return Ok(Vec::new()) };
        let mut calls = self.calls.clone();
        self.unread.iter().for_each(|event| calls.see(event));
        let mut rows = Rows { events: Vec::new(), next_seq, time_ms };
        for call in calls.into_waiting() {
            rows.push("tool/result", &answer(&call, cause, rows.next_seq), |row| {
                row.string("surfaceOp", "append");
                if let Some(seq) = call.start_seq {
                    row.json("sourceEventSeqs", &format!("[{seq}]"));
                }
            })?;
        }
        if let Some(step) = &self.step {
            rows.push("step/end", &object(&[("turn", turn), ("step", step)]), |_| ())?;
        }
        let mut reason = ObjectText::new();
        reason.string("kind", cause.as_str());
        rows.push("turn/end", &object(&[("turn", turn), ("reason", &reason.finish())]), |_| ())?;
        Ok(rows.events)
    }
}

/// The events that end what a log leaves open; none for an empty or balanced one.
///
/// # Errors
/// As [`TailScan::closers`].
pub fn closers<'a>(events: impl IntoIterator<Item = &'a Event>, cause: Cause) -> Result<Vec<Event>> {
    let mut scan = TailScan::default();
    let mut last = None;
    for event in events {
        scan.see(event);
        last = Some((event.seq().saturating_add(1), event.time()));
    }
    last.map_or(Ok(Vec::new()), |(next_seq, time_ms)| scan.closers(cause, next_seq, time_ms))
}

/// Rows being made, one after the other.
struct Rows {
    events: Vec<Event>,
    next_seq: u64,
    time_ms: i64,
}

impl Rows {
    /// `rest` adds what follows `data`: unlike in a live append, `surfaceOp` comes before `sourceEventSeqs` (`session.md` 14.2).
    fn push(&mut self, kind: &str, data: &str, rest: impl FnOnce(&mut ObjectText)) -> Result<()> {
        let mut row = ObjectText::new();
        row.string("type", kind);
        row.number("seq", self.next_seq);
        row.number("time", self.time_ms);
        row.json("data", data);
        rest(&mut row);
        self.events.push(Event::from_canonical_row(row.finish())?);
        self.next_seq = self.next_seq.saturating_add(1);
        Ok(())
    }
}

fn object(members: &[(&str, &str)]) -> String {
    let mut object = ObjectText::new();
    for (key, value) in members {
        object.json(key, value);
    }
    object.finish()
}

/// `data` of the result that answers a call.
fn answer(call: &WaitingCall, cause: Cause, seq: u64) -> String {
    let (name, code) = match call.start_seq {
        None => ("ToolNotStartedError", "TOOL_NOT_STARTED"),
        Some(_) => ("ToolOutcomeUnknownError", "TOOL_OUTCOME_UNKNOWN"),
    };
    let id = &*call.id;
    let id_inside = id.strip_prefix('"').and_then(|id| id.strip_suffix('"')).unwrap_or(id);
    let mut source = ObjectText::new();
    source.string("kind", "tool");
    source.json("callId", id);
    let mut block = ObjectText::new();
    block.string("type", "text");
    block.string("text", cause.text(call.start_seq.is_some()));
    let mut message = ObjectText::new();
    message.json("id", &format!("\"{}-tool-result-{id_inside}-{seq}\"", cause.as_str()));
    message.string("role", "tool");
    message.json("toolCallId", id);
    message.boolean("isError", true);
    message.json("source", &source.finish());
    message.json("content", &format!("[{}]", block.finish()));
    let mut error = ObjectText::new();
    error.string("name", name);
    error.string("code", code);
    object(&[
        ("turn", &call.turn),
        ("step", &call.step),
        ("message", &message.finish()),
        ("error", &error.finish()),
    ])
}

/// A turn or step as it is written into a closer: digits for a count, whatever else a log may hold as it stands there.
fn number_text(value: Option<Json<'_>>) -> Option<Box<str>> {
    Some(value?.printed().into())
}

/// A call that was asked for and has no result.
#[derive(Clone, Debug)]
struct WaitingCall {
    /// JSON text of the id, as printed.
    id: Box<str>,
    turn: Box<str>,
    step: Box<str>,
    start_seq: Option<u64>,
}

/// Calls that wait, in the order in which they were asked for.
#[derive(Clone, Debug, Default)]
struct WaitingCalls {
    /// `None` where a call was answered.
    calls: Vec<Option<WaitingCall>>,
    /// Place in `calls`, by the printed id.
    places: HashMap<Box<str>, usize>,
}

impl WaitingCalls {
    fn see(&mut self, event: &Event) {
        match event.kind() {
            "assistant/message" => self.ask(event.data()),
            "tool/call" => self.start(event),
            _ if event.surface_op() == Some(SurfaceOp::Append) => self.answer(event.data()),
            _ => {}
        }
    }

    fn ask(&mut self, data: Json<'_>) {
        let [turn, step, message] = members(data, ["turn", "step", "message"]);
        let content = message.and_then(|message| message.get("content"));
        for block in content.into_iter().flat_map(|content| content.elements()) {
            let [kind, id] = members(block, ["type", "id"]);
            let Some(id) = id.filter(|id| id.kind() == Kind::String && is_word(kind, "tool-call")) else {
                continue;
            };
            let text = |value| number_text(value).unwrap_or_else(|| "null".into());
            let id: Box<str> = id.printed().into();
            self.insert(WaitingCall { id, turn: text(turn), step: text(step), start_seq: None });
        }
    }

    /// A call that waits already keeps its place.
    fn insert(&mut self, call: WaitingCall) {
        match self.places.get(&call.id).and_then(|&place| self.calls.get_mut(place)) {
            Some(waiting) => *waiting = Some(call),
            None => {
                self.places.insert(call.id.clone(), self.calls.len());
                self.calls.push(Some(call));
            }
        }
    }

    fn start(&mut self, event: &Event) {
        let Some(id) = event.data().get("callId") else { return };
        let place = self.places.get(&*id.printed());
        if let Some(Some(call)) = place.and_then(|&place| self.calls.get_mut(place)) {
            call.start_seq = Some(event.seq());
        }
    }

    fn answer(&mut self, data: Json<'_>) {
        let [turn, step, message] = members(data, ["turn", "step", "message"]);
        let source = message.and_then(|message| message.get("source"));
        let Some(id) = source.and_then(|source| source.get("callId")) else { return };
        let Some(&place) = self.places.get(&*id.printed()) else { return };
        let is_same = |text: &str, value| number_text(value).as_deref() == Some(text);
        let Some(slot) = self.calls.get_mut(place) else { return };
        if slot.as_ref().is_some_and(|call| is_same(&call.turn, turn) && is_same(&call.step, step)) {
            *slot = None;
            self.places.remove(&*id.printed());
        }
    }

    fn into_waiting(self) -> impl Iterator<Item = WaitingCall> {
        self.calls.into_iter().flatten()
    }
}
