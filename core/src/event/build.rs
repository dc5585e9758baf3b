//! Making rows: from what a host appends, and from whole rows that it hands over.
//!
//! Both give canonical text (`format.md` 3.6): what a host sends is admitted as lossless JSON once, here. Rows that were read from a
//! log are events already and never come through this file.

use super::facts::Payload;
use super::row::{self, BadRow, RowFault};
use super::verdict::{self, RowVerdict};
use super::{Event, Span, SurfaceOp, is_plugin_record_type, source_ranges};
use crate::error::{Code, Error, Result};
use crate::json::{self, AdmitError, Json, Kind};
use std::borrow::Cow;
use std::fmt::Write as _;
use std::ops::Range;
use std::sync::Arc;

/// An event before it has its place in a log: what a host says of it.
///
/// ```
/// use dsh_session_core::event::EventDraft;
/// let draft = EventDraft::new("turn/start", r#"{ "turn": 1 }"#)?;
/// let event = draft.build(0, 1_760_000_000_000)?;
/// assert_eq!(event.row(), r#"{"type":"turn/start","seq":0,"time":1760000000000,"data":{"turn":1}}"#);
/// # Ok::<(), dsh_session_core::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct EventDraft {
    kind: String,
    /// Admitted text, with the payload in it.
    text: String,
    data: Range<usize>,
    /// Admitted text.
    surface_op: Option<Cow<'static, str>>,
    source_event_seqs: Option<Sources>,
    seq: Option<u64>,
    time: Option<i64>,
    ignorable: bool,
}

/// The commonest `surfaceOp`, as it is stored.
const APPEND: &str = "\"append\"";

/// The events that a draft names as its sources.
#[derive(Clone, Debug)]
enum Sources {
    Seqs(Vec<u64>),
    /// A text that is no such list, and why; the event is refused when it gets its place.
    Malformed(String),
}

pub(super) fn not_admitted(error: AdmitError, what: &str) -> Error {
    match error {
        AdmitError::NotLossless { path, reason } => {
            Error::new(Code::NotLosslessJson, format!("{what} is not lossless JSON: {reason} at {path}"))
                .with_json_path(path)
        }
        AdmitError::Json(error) => match error.kind {
            json::JsonErrorKind::TooDeep { depth_max } => {
                Error::new(Code::LimitExceeded, format!("{what} is nested deeper than {depth_max} levels"))
                    .with_limit("depth_max")
            }
            json::JsonErrorKind::Syntax(_) => {
                Error::new(Code::InvalidArgument, format!("{what} is not JSON: {error}"))
            }
        },
    }
}

fn invalid(message: impl Into<String>) -> Error {
    Error::new(Code::InvalidArgument, message)
}

impl EventDraft {
    /// An event of a type with a payload, JSON text.
    ///
    /// # Errors
    /// `INVALID_ARGUMENT` for text that is not JSON, `NOT_LOSSLESS_JSON`, `LIMIT_EXCEEDED` for nesting.
    pub fn new(kind: impl Into<String>, data: impl AsRef<[u8]>) -> Result<EventDraft> {
        // The row adds a level around the data.
        let data = json::admit(data.as_ref(), json::DEPTH_MAX_DEFAULT - 1)
            .map_err(|error| not_admitted(error, "the data"))?;
        let kind = kind.into();
        let ignorable = is_plugin_record_type(&kind);
        Ok(EventDraft {
            kind,
            data: 0..data.len(),
            text: data,
            surface_op: None,
            source_event_seqs: None,
            seq: None,
            time: None,
            ignorable,
        })
    }

    /// One line of `append` (`cli.md`): `type`, `data`, and optionally `surfaceOp`, `sourceEventSeqs` (ranges are taken too), `seq`,
    /// `time` and, on plugin records, `ignorable`.
    ///
    /// # Errors
    /// As [`new`](Self::new).
    pub fn from_line(line: impl AsRef<[u8]>) -> Result<EventDraft> {
        let mut members = LineMembers::default();
        let text = json::admit_members(line.as_ref(), json::DEPTH_MAX_DEFAULT, |key, place| {
            members.take(key, place);
        })
        .map_err(|error| not_admitted(error, "the line"))?;
        if Json::trusted(&text).kind() != Kind::Object {
            return Err(invalid("the line is not a JSON object"));
        }
        members.into_draft(text)
    }

    /// Places the event on the surface.
    #[must_use]
    pub fn surface(mut self, op: SurfaceOp) -> EventDraft {
        self.surface_op = Some(match op {
            SurfaceOp::Append => Cow::Borrowed(APPEND),
            SurfaceOp::Replace { start_seq, end_seq } => {
                format!("{{\"op\":\"replace\",\"startSeq\":{start_seq},\"endSeq\":{end_seq}}}").into()
            }
        });
        self
    }

    /// Names the events this one was made from.
    #[must_use]
    pub fn source_event_seqs(mut self, seqs: impl Into<Vec<u64>>) -> EventDraft {
        self.source_event_seqs = Some(Sources::Seqs(seqs.into()));
        self
    }

    /// Names them as JSON text, a list of numbers, pairs for runs included.
    #[must_use]
    pub fn source_event_seqs_text(mut self, text: impl Into<String>) -> EventDraft {
        // Its own seq is not known yet, so any later position will do; the row is checked again once it has its place.
        self.source_event_seqs = Some(sources_of(&text.into(), json::SAFE_INTEGER_MAX));
        self
    }

    /// Places the event on the surface as JSON text says; text that is no such operation is refused when the event is appended.
    ///
    /// # Errors
    /// `INVALID_ARGUMENT` for text that is not JSON, `NOT_LOSSLESS_JSON`.
    pub fn surface_op_text(mut self, text: impl AsRef<[u8]>) -> Result<EventDraft> {
        let text = json::admit(text.as_ref(), json::DEPTH_MAX_DEFAULT - 1)
            .map_err(|error| not_admitted(error, "`surfaceOp`"))?;
        self.surface_op = Some(text.into());
        Ok(self)
    }

    /// Sets the seq that the event must get; appending it anywhere else is refused.
    #[must_use]
    pub fn at_seq(mut self, seq: u64) -> EventDraft {
        self.seq = Some(seq);
        self
    }

    /// Sets the time, in milliseconds since 1970, instead of the clock's.
    #[must_use]
    pub fn at_time(mut self, time_ms: i64) -> EventDraft {
        self.time = Some(time_ms);
        self
    }

    /// The type.
    #[must_use]
    pub fn kind(&self) -> &str {
        &self.kind
    }

    /// The seq given, if any.
    #[must_use]
    pub fn seq(&self) -> Option<u64> {
        self.seq
    }

    /// Whether the draft is a plugin record, or made ignorable as one.
    pub(crate) fn is_ignorable(&self) -> bool {
        self.ignorable
    }

    /// The event at its place: `now_ms` is its time unless one was given.
    ///
    /// # Errors
    /// `EVENT_REFUSED` with `SOURCES_INVALID` where the sources are no list of distinct earlier events; `INVALID_ARGUMENT` where the
    /// envelope would break `format.md` 3.1; `LIMIT_EXCEEDED`.
    pub fn build(&self, seq: u64, now_ms: i64) -> Result<Event> {
        Event::from_canonical_row(self.row_text(seq, now_ms)?)
    }

    /// As [`build`](Self::build), judged in the same pass.
    pub(crate) fn build_judged(&self, seq: u64, now_ms: i64) -> Result<(Event, RowVerdict)> {
        let text = self.row_text(seq, now_ms)?;
        check_length(&text)?;
        let row = Span::new(0, text.len());
        let (parsed, verdict) = verdict::parse(&text, row, json::DEPTH_MAX_DEFAULT, &mut Payload::default());
        match parsed {
            Ok(envelope) => Ok((Event::new(Arc::new(text), row, envelope), verdict)),
            Err(bad) => Err(no_row(&bad)),
        }
    }

    fn data(&self) -> &str {
        self.text.get(self.data.clone()).unwrap_or_default()
    }

    fn row_text(&self, seq: u64, now_ms: i64) -> Result<String> {
        let time = self.time.unwrap_or(now_ms);
        let sources = match &self.source_event_seqs {
            Some(Sources::Seqs(seqs)) => {
                check_sources(seqs, seq)?;
                Some(source_ranges::encode(seqs))
            }
            Some(Sources::Malformed(fault)) => {
                return Err(sources_invalid(format!("`sourceEventSeqs` is malformed: {fault}")));
            }
            None => None,
        };
        let mut text = String::with_capacity(self.row_bytes(seq, time, sources.as_deref()));
        text.push_str("{\"type\":");
        json::print_string(&mut text, &self.kind);
        // Writing to a string cannot fail.
        let _ = write!(text, ",\"seq\":{seq},\"time\":{time},\"data\":");
        text.push_str(self.data());
        // The order of `format.md` 3.2.
        if let Some(sources) = &sources {
            text.push_str(",\"sourceEventSeqs\":");
            text.push_str(sources);
        }
        if let Some(op) = &self.surface_op {
            text.push_str(",\"surfaceOp\":");
            text.push_str(op);
        }
        if self.ignorable {
            text.push_str(",\"ignorable\":true");
        }
        text.push('}');
        Ok(text)
    }

    /// How long the row is, unless its type is written with escapes: an event is held for long, and room that it does not need with it.
    fn row_bytes(&self, seq: u64, time: i64, sources: Option<&str>) -> usize {
        let digits = |number: u64| number.checked_ilog10().map_or(1, |log| log as usize + 1);
        let required = r#"{"type":"","seq":,"time":,"data":}"#.len() + self.kind.len() + self.data().len();
        let numbers = digits(seq) + digits(time.unsigned_abs()) + usize::from(time < 0);
        let sources = sources.map_or(0, |sources| r#","sourceEventSeqs":"#.len() + sources.len());
        let op = self.surface_op.as_ref().map_or(0, |op| r#","surfaceOp":"#.len() + op.len());
        let mark = if self.ignorable { r#","ignorable":true"#.len() } else { 0 };
        required + numbers + sources + op + mark
    }
}

/// Where the members of a line of `append` stand in it.
#[derive(Default)]
struct LineMembers {
    kind: Option<Range<usize>>,
    data: Option<Range<usize>>,
    surface_op: Option<Range<usize>>,
    source_event_seqs: Option<Range<usize>>,
    seq: Option<Range<usize>>,
    time: Option<Range<usize>>,
    ignorable: Option<Range<usize>>,
    /// The first key that is none of an event.
    foreign: Option<String>,
}

impl LineMembers {
    fn take(&mut self, key: &str, place: Range<usize>) {
        let slot = match key {
            "type" => &mut self.kind,
            "data" => &mut self.data,
            "surfaceOp" => &mut self.surface_op,
            "sourceEventSeqs" => &mut self.source_event_seqs,
            "seq" => &mut self.seq,
            "time" => &mut self.time,
            "ignorable" => &mut self.ignorable,
            _ => {
                self.foreign.get_or_insert_with(|| key.to_owned());
                return;
            }
        };
        *slot = Some(place);
    }

    fn into_draft(self, text: String) -> Result<EventDraft> {
        if let Some(key) = self.foreign {
            return Err(invalid(format!("`{key}` is no key of an event")));
        }
        let value = |place: Range<usize>| Json::trusted(text.get(place).unwrap_or("null"));
        let wrong = |key: &str, rule: &str| invalid(format!("`{key}` is not {rule}"));
        let kind = value(self.kind.ok_or_else(|| invalid("`type` is missing"))?);
        let kind = kind.as_str().ok_or_else(|| wrong("type", "a string"))?.into_owned();
        let data = self.data.ok_or_else(|| invalid("`data` is missing"))?;
        let seq = self.seq.map(|place| {
            value(place).as_count().ok_or_else(|| wrong("seq", "a whole number from 0 to 2^53-1"))
        });
        let time = self.time.map(|place| {
            value(place).as_safe_integer().ok_or_else(|| wrong("time", "a whole number of milliseconds"))
        });
        let (seq, time) = (seq.transpose()?, time.transpose()?);
        let is_record = is_plugin_record_type(&kind);
        if let Some(place) = self.ignorable {
            let is_marked = value(place).as_bool() == Some(true);
            is_marked.then_some(()).ok_or_else(|| wrong("ignorable", "`true`"))?;
            is_record
                .then_some(())
                .ok_or_else(|| invalid("`ignorable` may only be given on plugin records"))?;
        }
        let surface_op = self.surface_op.map(|place| match value(place).text() {
            APPEND => Cow::Borrowed(APPEND),
            other => Cow::Owned(other.to_owned()),
        });
        // Where its own seq is not known yet, any later position will do; the row is checked again once it has its place.
        let position = seq.unwrap_or(json::SAFE_INTEGER_MAX);
        let source_event_seqs = self.source_event_seqs.map(|place| sources_of(value(place).text(), position));
        Ok(EventDraft { kind, data, surface_op, source_event_seqs, seq, time, ignorable: is_record, text })
    }
}

/// The sources that a text names, for an event at `seq` or later.
fn sources_of(text: &str, seq: u64) -> Sources {
    match source_ranges::decode(text, seq) {
        Ok(decoded) => Sources::Seqs(decoded.iter().collect()),
        Err(fault) => Sources::Malformed(fault.to_string()),
    }
}

/// A text that is no row, with the code of `session.md` 20 that a seed is refused with for it.
fn no_row(bad: &BadRow) -> Error {
    let is_sources = matches!(bad.fault, RowFault::SourceEventSeqs(_));
    let rule = if is_sources { "SOURCES_INVALID" } else { "EVENT_ENVELOPE_INVALID" };
    invalid(bad.fault.to_string()).with_rule(rule)
}

fn sources_invalid(message: String) -> Error {
    Error::new(Code::EventRefused, message).with_rule("SOURCES_INVALID")
}

/// Distinct and earlier (`session.md` 8.2, step 5). That there is at least one is judged with the rest of the row.
fn check_sources(seqs: &[u64], seq: u64) -> Result<()> {
    if let Some(late) = seqs.iter().find(|&&source| source >= seq) {
        return Err(sources_invalid(format!(
            "`sourceEventSeqs` names {late}, which is not earlier than {seq}"
        )));
    }
    let mut sorted = seqs.to_vec();
    sorted.sort_unstable();
    match sorted.windows(2).find(|pair| pair[0] == pair[1]) {
        Some(pair) => Err(sources_invalid(format!("`sourceEventSeqs` names {} twice", pair[0]))),
        None => Ok(()),
    }
}

fn check_length(text: &str) -> Result<()> {
    if text.len() as u64 > super::ROW_BYTES_MAX {
        let error = Error::new(Code::LimitExceeded, "the row is longer than 2 GiB");
        return Err(error.with_limit("row_bytes_max"));
    }
    Ok(())
}

impl Event {
    /// A whole row as a host hands it over, made canonical. Its `sourceEventSeqs` may be in expanded or in stored form.
    ///
    /// # Errors
    /// `INVALID_ARGUMENT` for text that is no JSON or breaks the envelope (`format.md` 3.1), `NOT_LOSSLESS_JSON`, `LIMIT_EXCEEDED`.
    pub fn from_row(row: impl AsRef<[u8]>) -> Result<Event> {
        let text = json::admit(row.as_ref(), json::DEPTH_MAX_DEFAULT)
            .map_err(|error| not_admitted(error, "the row"))?;
        let event = Event::from_canonical_row(text)?;
        let (Some(stored), Some(seqs)) = (event.source_event_seqs_text(), event.source_event_seqs()) else {
            return Ok(event);
        };
        let encoded = source_ranges::encode(&seqs.iter().collect::<Vec<_>>());
        if encoded == stored {
            return Ok(event);
        }
        let span = event.source_event_seqs;
        let mut text = event.row().to_owned();
        text.replace_range(span.start as usize..span.end as usize, &encoded);
        Event::from_canonical_row(text)
    }

    /// A whole row of a log that was never stored, made canonical: as [`from_row`](Self::from_row), but that `sourceEventSeqs` of an
    /// ignorable event of unknown type may be any value (`events.md` 1). Such an event cannot be stored.
    ///
    /// # Errors
    /// As there.
    pub fn from_unstored_row(row: impl AsRef<[u8]>) -> Result<Event> {
        let row = row.as_ref();
        Event::from_row(row).or_else(|error| {
            let text =
                json::admit(row, json::DEPTH_MAX_DEFAULT).map_err(|error| not_admitted(error, "the row"))?;
            check_length(&text)?;
            let envelope = row::parse_unstored(&text, json::DEPTH_MAX_DEFAULT).map_err(|_| error)?;
            let span = Span::new(0, text.len());
            Ok(Event::new(Arc::new(text), span, envelope))
        })
    }

    /// A row whose text was stored before, such as one that was sent to another process: kept byte for byte, not judged again.
    ///
    /// # Errors
    /// `INVALID_ARGUMENT` for text that is no row at all, `LIMIT_EXCEEDED`.
    pub fn from_stored_row(row: impl Into<String>) -> Result<Event> {
        Event::from_canonical_row(row.into())
    }

    /// A row whose text is canonical already.
    pub(crate) fn from_canonical_row(text: String) -> Result<Event> {
        check_length(&text)?;
        let row = Span::new(0, text.len());
        match row::parse(&text, row, json::DEPTH_MAX_DEFAULT) {
            Ok(envelope) => Ok(Event::new(Arc::new(text), row, envelope)),
            Err(bad) => Err(no_row(&bad)),
        }
    }
}
