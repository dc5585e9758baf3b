//! From the text of one row to its envelope (`format.md` 3.1), in one pass and without a value tree.
//!
//! Whether the row's `seq` is the next one is not judged here: rows are parsed piece by piece, on several threads where it
//! pays, and put in order afterwards.

use super::{Envelope, Span, source_ranges};
use crate::json::{self, Json, JsonError, Shape};
use std::borrow::Cow;
use std::fmt;
use std::sync::Arc;

/// The type whose presence after a bad row proves that committed rows were lost (`format.md` 5.3).
const TURN_END: &str = "turn/end";

/// Why a row is bad whatever stands before it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum RowFault {
    /// Not one JSON value.
    NotJson(JsonError),
    /// Nested deeper than the limit of the store.
    TooDeep { depth_max: u32 },
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

/// The members of a row that the envelope knows, as found; the last of a repeated key counts.
#[derive(Default)]
struct Members<'a> {
    kind: Option<Found<'a>>,
    seq: Option<Found<'a>>,
    time: Option<Found<'a>>,
    data: Option<Found<'a>>,
    ignorable: Option<Found<'a>>,
    surface_op: Option<Found<'a>>,
    source_event_seqs: Option<Found<'a>>,
    foreign: Option<Cow<'a, str>>,
}

#[derive(Clone, Copy)]
struct Found<'a> {
    value: Json<'a>,
    span: Span,
}

/// Parses the text of one row. Spans are relative to `text`, which must be shorter than 4 GiB.
pub(crate) fn parse(text: &str, depth_max: u32) -> Result<Envelope, Box<BadRow>> {
    let mut members = Members::default();
    let shape = json::scan_object(text, depth_max, |member| {
        let found = Found { value: member.value, span: Span::new(member.value_start, member.value_end) };
        let key = if member.key_is_escaped { member.key_text() } else { Cow::Borrowed(member.key) };
        let slot = match &*key {
            "type" => &mut members.kind,
            "seq" => &mut members.seq,
            "time" => &mut members.time,
            "data" => &mut members.data,
            "ignorable" => &mut members.ignorable,
            "surfaceOp" => &mut members.surface_op,
            "sourceEventSeqs" => &mut members.source_event_seqs,
            _ => {
                members.foreign.get_or_insert(key);
                return;
            }
        };
        *slot = Some(found);
    });
    let bad = |fault, is_object, is_turn_end| Err(Box::new(BadRow { fault, is_object, is_turn_end }));
    match shape {
        Ok(Shape::Object { .. }) => {}
        Ok(Shape::Other(_)) => return bad(RowFault::NotAnObject, false, false),
        Err(error) => {
            let fault = match error.kind {
                json::JsonErrorKind::TooDeep { depth_max } => RowFault::TooDeep { depth_max },
                json::JsonErrorKind::Syntax(_) => RowFault::NotJson(error),
            };
            return bad(fault, false, false);
        }
    }
    let is_turn_end = members.kind.is_some_and(|kind| kind.value.as_str().as_deref() == Some(TURN_END));
    members.envelope().or_else(|fault| bad(fault, true, is_turn_end))
}

impl Members<'_> {
    fn envelope(self) -> Result<Envelope, RowFault> {
        if let Some(key) = self.foreign {
            return Err(RowFault::ForeignKey(key.into_owned()));
        }
        let kind = self.kind.ok_or(RowFault::Missing("type"))?;
        let seq = self.seq.ok_or(RowFault::Missing("seq"))?;
        let time = self.time.ok_or(RowFault::Missing("time"))?;
        let data = self.data.ok_or(RowFault::Missing("data"))?;
        let kind_text = kind.value.as_str().ok_or(RowFault::BadValue { key: "type", rule: "a string" })?;
        let kind_unescaped = match &kind_text {
            Cow::Borrowed(_) => None,
            Cow::Owned(text) => Some(Arc::from(text.as_str())),
        };
        let seq = count_or_minus_zero(seq.value)
            .ok_or(RowFault::BadValue { key: "seq", rule: "a whole number from 0 to 2^53-1" })?;
        let time = time.value.as_safe_integer().ok_or(RowFault::BadValue {
            key: "time",
            rule: "a whole number of milliseconds within 2^53-1",
        })?;
        if self.ignorable.is_some_and(|found| found.value.as_bool() != Some(true)) {
            return Err(RowFault::BadValue { key: "ignorable", rule: "`true`" });
        }
        if &*kind_text == "session/end-seed" && data.value.kind() != json::Kind::Object {
            return Err(RowFault::BadValue {
                key: "data",
                rule: "an object, which `session/end-seed` needs",
            });
        }
        if let Some(found) = self.source_event_seqs {
            source_ranges::decode(found.value.text(), seq)
                .map_err(|fault| RowFault::SourceEventSeqs(fault.to_string()))?;
        }
        Ok(Envelope {
            seq,
            time,
            // The type's span leaves out its quotes.
            kind: Span { start: kind.span.start + 1, end: kind.span.end - 1 },
            kind_unescaped,
            data: data.span,
            surface_op: self.surface_op.map_or(Span::default(), |found| found.span),
            source_event_seqs: self.source_event_seqs.map_or(Span::default(), |found| found.span),
            ignorable: self.ignorable.is_some(),
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
    use super::parse;
    use serde_json::Value;

    #[test]
    fn every_envelope_vector_gives_its_verdict() {
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../tests/vectors/format-row-envelope.json");
        let vectors: Value = serde_json::from_slice(&std::fs::read(path).unwrap()).unwrap();
        for case in vectors["cases"].as_array().unwrap() {
            let text = case["row_text"].as_str().map_or_else(|| case["row"].to_string(), str::to_owned);
            let expected_seq = case["expected_seq"].as_u64().unwrap();
            let parsed = parse(&text, 100);
            let is_ok = parsed.as_ref().is_ok_and(|envelope| envelope.seq == expected_seq);
            assert_eq!(is_ok, case.get("ok").is_some(), "{}: {parsed:?}", case["name"]);
        }
    }
}
