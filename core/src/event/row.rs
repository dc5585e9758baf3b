//! From the text of one row to its envelope (`format.md` 3.1), in one pass and without a value tree.
//!
//! Whether the row's `seq` is the next one is not judged here: rows are parsed piece by piece, on several threads where it
//! pays, and put in order afterwards.

use super::{Envelope, Span, Stamp, is_known_type, source_ranges};
use crate::json::{self, Cursor, Json, JsonError};
use std::borrow::Cow;
use std::fmt;

/// The type whose presence after a bad row proves that committed rows were lost (`format.md` 5.3).
const TURN_END: &str = "turn/end";

/// Why a row is bad whatever stands before it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum RowFault {
    /// Not one JSON value.
    NotJson(JsonError),
    /// Nested deeper than the limit of the store.
    TooDeep { depth_max: u32 },
    /// Longer than the limit of the store.
    TooLong { row_bytes_max: u64 },
    /// A JSON value, but no object.
    NotAnObject,
    /// A key outside the envelope.
    ForeignKey(String),
    /// A required key that is absent.
    Missing(&'static str),
    /// A key whose value breaks its rule.
    BadValue { key: &'static str, rule: &'static str },
    /// `sourceEventSeqs` breaks a rule of `format.md` 3.4.
    SourceEventSeqs(String),
}

impl fmt::Display for RowFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            RowFault::NotJson(error) => write!(f, "the row is not JSON: {error}"),
            RowFault::TooDeep { depth_max } => write!(f, "the row is nested deeper than {depth_max} levels"),
            RowFault::TooLong { row_bytes_max } => write!(f, "the row is longer than {row_bytes_max} bytes"),
            RowFault::NotAnObject => f.write_str("the row is not a JSON object"),
            RowFault::ForeignKey(key) => write!(f, "the row has the foreign key `{key}`"),
            RowFault::Missing(key) => write!(f, "the row lacks `{key}`"),
            RowFault::BadValue { key, rule } => write!(f, "the row's `{key}` is not {rule}"),
            RowFault::SourceEventSeqs(rule) => write!(f, "the row's `sourceEventSeqs` is malformed: {rule}"),
        }
    }
}

/// A bad row: why, and whether it says that it ends a turn.
#[derive(Clone, Debug)]
pub(crate) struct BadRow {
    pub(crate) fault: RowFault,
    /// Whether the text is a JSON object at all: such rows are worth saving before they are cut.
    pub(crate) is_object: bool,
    pub(crate) is_turn_end: bool,
}

impl BadRow {
    /// A row that is not looked into, since it is too long. It may be an object, so it is worth saving.
    pub(crate) fn too_long(row_bytes_max: u64) -> BadRow {
        BadRow { fault: RowFault::TooLong { row_bytes_max }, is_object: true, is_turn_end: false }
    }
}

/// The members of a row that the envelope knows, as found; the last of a repeated key counts. The row may be good or bad.
#[derive(Debug, Default)]
pub(crate) struct Members<'a> {
    text: &'a str,
    /// The places of the values in the text; empty for absent ones.
    kind: Span,
    seq: Span,
    time: Span,
    data: Span,
    ignorable: Span,
    surface_op: Span,
    source_event_seqs: Span,
    foreign: Option<Cow<'a, str>>,
}

/// Parses the text at `row` of a buffer that is shorter than 4 GiB. Spans are those of the buffer.
pub(crate) fn parse(buffer: &str, row: Span, depth_max: u32) -> Result<Envelope, Box<BadRow>> {
    let mut members = Members::default();
    scan(row.of(buffer), depth_max, &mut members, |_, _| Ok(()))?;
    members.envelope(row.start)
}

/// As [`parse`], of a row that was never in a file: the sources of an ignorable event of unknown type may be anything.
pub(crate) fn parse_unstored(text: &str, depth_max: u32) -> Result<Envelope, Box<BadRow>> {
    let mut members = Members::default();
    scan(text, depth_max, &mut members, |_, _| Ok(()))?;
    let kind = members.kind().and_then(|kind| kind.as_str());
    let is_opaque = members.is_ignorable() && kind.is_some_and(|kind| !is_known_type(&kind));
    let sources = members.source_event_seqs;
    if is_opaque {
        members.source_event_seqs = Span::default();
    }
    let envelope = members.envelope(0)?;
    Ok(Envelope { source_event_seqs: sources, ..envelope })
}

/// Checks that the text of one row is a JSON object and finds the envelope's members, in place. `read_data` is shown `data`, once for each
/// time that the key stands there, with the type if that stands before it; it need not touch the value.
pub(crate) fn scan<'a>(
    text: &'a str,
    depth_max: u32,
    members: &mut Members<'a>,
    mut read_data: impl FnMut(Option<Json<'a>>, &mut Cursor<'a>) -> Result<(), JsonError>,
) -> Result<(), Box<BadRow>> {
    members.text = text;
    let mut cursor = Cursor::new(text, depth_max);
    let scanned = cursor.members(|key, cursor| {
        let start = cursor.position();
        if key == "data" {
            read_data(members.kind(), cursor)?;
        }
        if cursor.position() == start {
            cursor.value()?;
        }
        let end = cursor.position();
        match members.slot(&key) {
            Some(slot) => *slot = Span::new(start, end),
            None => drop(members.foreign.get_or_insert(key)),
        }
        Ok(())
    });
    let fault = match scanned.and_then(|value| cursor.finish().map(|()| value.kind())) {
        Ok(json::Kind::Object) => return Ok(()),
        Ok(_) => RowFault::NotAnObject,
        Err(error) => match error.kind {
            json::JsonErrorKind::TooDeep { depth_max } => RowFault::TooDeep { depth_max },
            json::JsonErrorKind::Syntax(_) => RowFault::NotJson(error),
        },
    };
    Err(Box::new(BadRow { fault, is_object: false, is_turn_end: false }))
}

impl<'a> Members<'a> {
    fn slot(&mut self, key: &str) -> Option<&mut Span> {
        Some(match key {
            "type" => &mut self.kind,
            "seq" => &mut self.seq,
            "time" => &mut self.time,
            "data" => &mut self.data,
            "ignorable" => &mut self.ignorable,
            "surfaceOp" => &mut self.surface_op,
            "sourceEventSeqs" => &mut self.source_event_seqs,
            _ => return None,
        })
    }

    fn value(&self, span: Span) -> Option<Json<'a>> {
        (!span.is_empty()).then(|| Json::trusted(span.of(self.text)))
    }

    /// `type`, whatever sort of value it is.
    pub(crate) fn kind(&self) -> Option<Json<'a>> {
        self.value(self.kind)
    }

    /// `data`.
    pub(crate) fn data(&self) -> Option<Json<'a>> {
        self.value(self.data)
    }

    /// `seq`, where it is a number that a row may have.
    pub(crate) fn seq(&self) -> Option<u64> {
        self.value(self.seq).and_then(count_or_minus_zero)
    }

    /// Whether `ignorable` is `true`.
    pub(crate) fn is_ignorable(&self) -> bool {
        self.value(self.ignorable).is_some_and(|value| value.as_bool() == Some(true))
    }

    /// `surfaceOp`, whatever sort of value it is.
    pub(crate) fn surface_op(&self) -> Option<Json<'a>> {
        self.value(self.surface_op)
    }

    /// `sourceEventSeqs`, whatever sort of value it is.
    pub(crate) fn source_event_seqs(&self) -> Option<Json<'a>> {
        self.value(self.source_event_seqs)
    }

    /// Judges the envelope (`format.md` 3.1). Its spans are those of a buffer in which the row begins at `base`.
    pub(crate) fn envelope(&self, base: u32) -> Result<Envelope, Box<BadRow>> {
        self.good_envelope(base).map_err(|fault| {
            let is_turn_end = self.kind().is_some_and(|kind| kind.as_str().as_deref() == Some(TURN_END));
            Box::new(BadRow { fault, is_object: true, is_turn_end })
        })
    }

    fn good_envelope(&self, base: u32) -> Result<Envelope, RowFault> {
        if let Some(key) = &self.foreign {
            return Err(RowFault::ForeignKey(key.to_string()));
        }
        let kind = self.kind().ok_or(RowFault::Missing("type"))?;
        let seq = self.value(self.seq).ok_or(RowFault::Missing("seq"))?;
        let time = self.value(self.time).ok_or(RowFault::Missing("time"))?;
        let data = self.data().ok_or(RowFault::Missing("data"))?;
        let kind = kind.as_str().ok_or(RowFault::BadValue { key: "type", rule: "a string" })?;
        let seq = count_or_minus_zero(seq)
            .ok_or(RowFault::BadValue { key: "seq", rule: "a whole number from 0 to 2^53-1" })?;
        let time = time.as_safe_integer().ok_or(RowFault::BadValue {
            key: "time",
            rule: "a whole number of milliseconds within 2^53-1",
        })?;
        let is_marked = !self.ignorable.is_empty();
        if is_marked && !self.is_ignorable() {
            return Err(RowFault::BadValue { key: "ignorable", rule: "`true`" });
        }
        if &*kind == "session/end-seed" && data.kind() != json::Kind::Object {
            return Err(RowFault::BadValue {
                key: "data",
                rule: "an object, which `session/end-seed` needs",
            });
        }
        if let Some(sources) = self.source_event_seqs() {
            source_ranges::decode(sources.text(), seq)
                .map_err(|fault| RowFault::SourceEventSeqs(fault.to_string()))?;
        }
        Ok(Envelope {
            seq,
            stamp: Stamp::new(time, is_marked),
            // The type's span leaves out its quotes.
            kind: Span { start: self.kind.start + 1, end: self.kind.end - 1 }.shifted(base),
            kind_unescaped: match kind {
                Cow::Borrowed(_) => None,
                Cow::Owned(text) => Some(text),
            },
            data: self.data.shifted(base),
            surface_op: self.surface_op.shifted(base),
            source_event_seqs: self.source_event_seqs.shifted(base),
        })
    }
}

/// A count; a negative zero passes as 0 (`format.md` 9.4, point 9).
fn count_or_minus_zero(value: Json<'_>) -> Option<u64> {
    value.as_count().or_else(|| (value.as_f64() == Some(0.0)).then_some(0))
}

/// Whether an accepted `session/end-seed` row ends an inherited prefix (`format.md` 2.6).
pub(crate) fn is_inherited_marker(kind: &str, data: Json<'_>) -> bool {
    kind == "session/end-seed" && data.get("inherited").and_then(|value| value.as_bool()) == Some(true)
}

#[cfg(test)]
mod tests {
    use super::{Span, parse};
    use serde_json::Value;

    #[test]
    fn every_envelope_vector_gives_its_verdict() {
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../tests/vectors/format-row-envelope.json");
        let vectors: Value = serde_json::from_slice(&std::fs::read(path).unwrap()).unwrap();
        for case in vectors["cases"].as_array().unwrap() {
            let text = case["row_text"].as_str().map_or_else(|| case["row"].to_string(), str::to_owned);
            let expected_seq = case["expected_seq"].as_u64().unwrap();
            let parsed = parse(&text, Span::new(0, text.len()), 100);
            let is_ok = parsed.as_ref().is_ok_and(|envelope| envelope.seq == expected_seq);
            assert_eq!(is_ok, case.get("ok").is_some(), "{}: {parsed:?}", case["name"]);
        }
    }
}
