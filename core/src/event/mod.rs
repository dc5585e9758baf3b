//! Events as they are held: the row text, byte for byte, and a parsed envelope beside it (`design.md` 4).
//!
//! An [`Event`] is a window onto a text buffer that it shares with its neighbours (one decoded frame, or a piece of
//! about 1 MiB), plus the few numbers of its envelope. Nothing of `data` is parsed to read, append, page, export or
//! follow; whoever wants a value in it asks [`Event::data`] and walks it as [`Json`].
//!
//! | File | Holds |
//! | --- | --- |
//! | `row`, `source_ranges` | the envelope, found in one pass |
//! | `build` | drafts: what a host appends, made canonical |
//! | `stream` | the chunks of an answer as they came, packed and unpacked |
//! | `views` | typed views on payloads |
//! | `builders` | drafts, typed |
//! | `vocabulary` | the known types, and the grammar of plugin records |
//! | `facts` | what the rules want to know of a row, read while it is scanned |
//! | `admission`, `acceptance` | the rules of a single row: R1 to R11; vocabulary and event-local acceptance |
//! | `nodes` | which events stand on a surface, in order |
//! | `verdict`, `breach` | one row, parsed and judged in one pass; a broken rule |

pub(crate) mod acceptance;
pub(crate) mod admission;
pub mod breach;
mod build;
pub mod builders;
pub(crate) mod facts;
pub(crate) mod nodes;
pub(crate) mod row;
#[cfg(test)]
pub(crate) mod rule_tests;
pub mod source_ranges;
pub mod stream;
pub(crate) mod verdict;
pub mod views;
mod vocabulary;

pub use build::EventDraft;
pub use vocabulary::{IMAGE_OFFLOAD, KNOWN_TYPES, Vocabulary, is_known_type, is_plugin_record_type};

use crate::json::Json;
use source_ranges::SourceSeqs;
use std::fmt;
use std::sync::Arc;

/// The longest row, in bytes of text: 2 GiB, less the room that the 32-bit offsets of a buffer need (`design.md` 5, Limits).
pub const ROW_BYTES_MAX: u64 = (2 << 30) - (4 << 20);

/// A half-open range of bytes in a text buffer. Buffers are below 4 GiB: a piece plus one row of at most 2 GiB.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Span {
    pub(crate) start: u32,
    pub(crate) end: u32,
}

impl Span {
    pub(crate) fn new(start: usize, end: usize) -> Span {
        debug_assert!(start <= end && u32::try_from(end).is_ok());
        Span { start: start as u32, end: end as u32 }
    }

    /// The same place in a text that begins `by` bytes earlier; no place stays none.
    pub(crate) fn shifted(self, by: u32) -> Span {
        if self.is_empty() { self } else { Span { start: self.start + by, end: self.end + by } }
    }

    pub(crate) fn of(self, text: &str) -> &str {
        text.get(self.start as usize..self.end as usize).unwrap_or("")
    }

    /// No value, where a span says which value there is: JSON values are never empty text.
    pub(crate) fn is_empty(self) -> bool {
        self.start == self.end
    }
}

/// `time` and `ignorable` in the room of one number: a program may hold millions of events. Times are within 2^53, so a bit is free.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Stamp(i64);

impl Stamp {
    /// `time` is a safe integer.
    pub(crate) fn new(time: i64, is_ignorable: bool) -> Stamp {
        debug_assert!(time.unsigned_abs() <= crate::json::SAFE_INTEGER_MAX);
        Stamp(time << 1 | i64::from(is_ignorable))
    }

    fn time(self) -> i64 {
        self.0 >> 1
    }

    fn is_ignorable(self) -> bool {
        self.0 & 1 == 1
    }
}

/// The parsed envelope of a row (`format.md` 3.1); spans point into the row's buffer.
#[derive(Clone, Debug)]
pub(crate) struct Envelope {
    pub(crate) seq: u64,
    pub(crate) stamp: Stamp,
    /// The type between its quotes.
    pub(crate) kind: Span,
    /// The type decoded, where it is written with escapes. Never so in files of a known writer.
    pub(crate) kind_unescaped: Option<String>,
    pub(crate) data: Span,
    /// Empty where absent: a JSON value is never empty text.
    pub(crate) surface_op: Span,
    /// Empty where absent.
    pub(crate) source_event_seqs: Span,
}

/// What an event does to the list of messages that a model sees (`format.md` 3.3).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SurfaceOp {
    /// Adds the event at the end.
    Append,
    /// Puts the event in the place of a range.
    Replace {
        /// The first seq of the range, in surface order.
        start_seq: u64,
        /// The last seq of the range, in surface order.
        end_seq: u64,
    },
}

/// Text that is shared with the events around it, such as a message.
///
/// Cloning shares the buffer. Equality is that of the texts.
#[derive(Clone)]
pub struct SharedText {
    buffer: Arc<String>,
    span: Span,
}

impl SharedText {
    /// The text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        self.span.of(&self.buffer)
    }
}

impl From<String> for SharedText {
    fn from(text: String) -> SharedText {
        let span = Span::new(0, text.len());
        SharedText { buffer: Arc::new(text), span }
    }
}

impl std::ops::Deref for SharedText {
    type Target = str;

    fn deref(&self) -> &str {
        self.as_str()
    }
}

impl PartialEq for SharedText {
    fn eq(&self, other: &SharedText) -> bool {
        self.as_str() == other.as_str()
    }
}

impl Eq for SharedText {}

impl fmt::Debug for SharedText {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(self.as_str(), f)
    }
}

/// One event: its row text, shared, and its envelope.
///
/// Cloning shares the buffer. Equality is that of the row texts.
///
/// A program may hold millions of them: one is 64 bytes, beside its text.
#[derive(Clone)]
pub struct Event {
    buffer: Arc<String>,
    seq: u64,
    stamp: Stamp,
    row: Span,
    /// The type, decoded. It stands in the row, or behind it where the row has it with escapes.
    kind: Span,
    data: Span,
    /// Empty where absent.
    surface_op: Span,
    /// Empty where absent.
    source_event_seqs: Span,
}

impl Event {
    /// `row` and the spans of `envelope` must lie in `buffer`, on character boundaries.
    pub(crate) fn new(buffer: Arc<String>, row: Span, envelope: Envelope) -> Event {
        let Envelope { seq, stamp, kind, kind_unescaped, data, surface_op, source_event_seqs } = envelope;
        let event = Event { buffer, seq, stamp, row, kind, data, surface_op, source_event_seqs };
        match kind_unescaped {
            None => event,
            Some(kind) => event.with_kind_behind(&kind),
        }
    }

    /// The same with a text of its own, which holds the type behind the row: a place for it in every event would cost all the others.
    #[cold]
    fn with_kind_behind(self, kind: &str) -> Event {
        let row = self.row();
        let mut text = String::with_capacity(row.len() + kind.len());
        text.push_str(row);
        text.push_str(kind);
        let (row, kind) = (Span::new(0, row.len()), Span::new(row.len(), text.len()));
        let base = self.row.start;
        let moved = |span: Span| match span.is_empty() {
            true => span,
            false => Span { start: span.start - base, end: span.end - base },
        };
        Event {
            buffer: Arc::new(text),
            row,
            kind,
            data: moved(self.data),
            surface_op: moved(self.surface_op),
            source_event_seqs: moved(self.source_event_seqs),
            ..self
        }
    }

    /// The position in the log, from 0.
    #[must_use]
    pub fn seq(&self) -> u64 {
        self.seq
    }

    /// Milliseconds since 1970, as the writer's clock said; may go back from one event to the next.
    #[must_use]
    pub fn time(&self) -> i64 {
        self.stamp.time()
    }

    /// The event type, such as `turn/start`.
    #[must_use]
    pub fn kind(&self) -> &str {
        self.kind.of(&self.buffer)
    }

    /// Whether a reader that does not know the type may keep the event without understanding it.
    #[must_use]
    pub fn ignorable(&self) -> bool {
        self.stamp.is_ignorable()
    }

    /// The row as it is stored, without its newline. Ill-formed UTF-8 reads as U+FFFD.
    #[must_use]
    pub fn row(&self) -> &str {
        self.row.of(&self.buffer)
    }

    /// The payload.
    #[must_use]
    pub fn data(&self) -> Json<'_> {
        Json::trusted(self.data.of(&self.buffer))
    }

    /// The text that the event shares with its neighbours.
    pub(crate) fn buffer(&self) -> &str {
        &self.buffer
    }

    /// The JSON value at a span of the buffer, which must lie in the event's own row; `None` where the span is empty.
    pub(crate) fn value_at(&self, span: Span) -> Option<Json<'_>> {
        (!span.is_empty()).then(|| Json::trusted(span.of(&self.buffer)))
    }

    /// A value inside `data` as text of its own, sharing the event's buffer.
    pub(crate) fn share(&self, part: Json<'_>) -> SharedText {
        let start = (part.text().as_ptr() as usize).wrapping_sub(self.buffer.as_ptr() as usize);
        let end = start.wrapping_add(part.text().len());
        if start <= end && end <= self.buffer.len() {
            return SharedText { buffer: Arc::clone(&self.buffer), span: Span::new(start, end) };
        }
        // No part of this event: not shared, but right all the same.
        SharedText::from(part.text().to_owned())
    }

    /// The text of `surfaceOp` as stored; `None` where the row has none.
    #[must_use]
    pub fn surface_op_text(&self) -> Option<&str> {
        let span = self.surface_op;
        (!span.is_empty()).then(|| span.of(&self.buffer))
    }

    /// `surfaceOp` in one of its two forms; `None` where it is absent or has neither form (the latter may only be
    /// on an unknown ignorable row, `format.md` 5.7).
    #[must_use]
    pub fn surface_op(&self) -> Option<SurfaceOp> {
        let text = self.surface_op_text()?;
        if text == "\"append\"" {
            return Some(SurfaceOp::Append);
        }
        let op = Json::trusted(text);
        if op.as_str().as_deref() == Some("append") {
            return Some(SurfaceOp::Append);
        }
        let is_replace = op.get("op")?.as_str().as_deref() == Some("replace") && op.members().count() == 3;
        let start_seq = op.get("startSeq")?.as_count()?;
        let end_seq = op.get("endSeq")?.as_count()?;
        is_replace.then_some(SurfaceOp::Replace { start_seq, end_seq })
    }

    /// The text of `sourceEventSeqs` as stored, ranges unexpanded; `None` where the row has none.
    #[must_use]
    pub fn source_event_seqs_text(&self) -> Option<&str> {
        let span = self.source_event_seqs;
        (!span.is_empty()).then(|| span.of(&self.buffer))
    }

    /// The events this one was made from; expanded while walking, never at once.
    #[must_use]
    pub fn source_event_seqs(&self) -> Option<SourceSeqs> {
        // The row was accepted, so the text decodes.
        source_ranges::decode(self.source_event_seqs_text()?, self.seq).ok()
    }

    /// The row with the ranges of `sourceEventSeqs` expanded to numbers; the stored text where there are none.
    #[must_use]
    pub fn logical_row(&self) -> std::borrow::Cow<'_, str> {
        let has_ranges = self.source_event_seqs_text().is_some_and(|text| text[1..].contains('['));
        let (true, Some(seqs)) = (has_ranges, self.source_event_seqs()) else {
            return self.row().into();
        };
        let span = self.source_event_seqs;
        let mut text = String::with_capacity(self.row().len() + 64);
        text.push_str(Span { start: self.row.start, end: span.start }.of(&self.buffer));
        text.push('[');
        for (index, seq) in seqs.iter().enumerate() {
            if index > 0 {
                text.push(',');
            }
            text.push_str(&seq.to_string());
        }
        text.push(']');
        text.push_str(Span { start: span.end, end: self.row.end }.of(&self.buffer));
        text.into()
    }
}

impl PartialEq for Event {
    fn eq(&self, other: &Event) -> bool {
        self.row() == other.row()
    }
}

impl Eq for Event {}

impl fmt::Debug for Event {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Event").field("seq", &self.seq()).field("kind", &self.kind()).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::{Event, EventDraft, Stamp, SurfaceOp};
    use crate::json::SAFE_INTEGER_MAX;

    #[test]
    fn a_stamp_gives_back_what_it_was_made_of() {
        let most = SAFE_INTEGER_MAX.cast_signed();
        for time in [-most, -2, -1, 0, 1, 1_760_000_000_000, most] {
            for is_ignorable in [false, true] {
                let stamp = Stamp::new(time, is_ignorable);
                assert_eq!((stamp.time(), stamp.is_ignorable()), (time, is_ignorable));
            }
        }
    }

    #[test]
    fn a_foreign_key_of_a_line_is_named_as_it_reads_wherever_text_moved() {
        for line in [r#"{"\"":1,"type":"t"}"#, r#"{"\"":1,"type":"t","type":"t"}"#, r#"{"\u0022":1}"#] {
            let refused = EventDraft::from_line(line).unwrap_err();
            assert!(refused.message().starts_with("`\"` is no key"), "{refused}");
        }
    }

    #[test]
    fn a_type_that_is_written_with_escapes_is_that_type() {
        let rows = [
            r#"{"type":"turn\u002fstart","seq":3,"time":1,"data":{"turn":1}}"#,
            r#"{"type":"\u0075ser/message","seq":3,"time":1,"data":{"a":1},"sourceEventSeqs":[1],"surfaceOp":"append"}"#,
        ];
        let plain = [
            r#"{"type":"turn/start","seq":3,"time":1,"data":{"turn":1}}"#,
            r#"{"type":"user/message","seq":3,"time":1,"data":{"a":1},"sourceEventSeqs":[1],"surfaceOp":"append"}"#,
        ];
        // Also behind other rows of a buffer.
        let buffer = std::sync::Arc::new(rows.concat());
        let mut start = 0;
        for (row, plain) in rows.into_iter().zip(plain) {
            let span = super::Span::new(start, start + row.len());
            start += row.len();
            let envelope = super::row::parse(&buffer, span, 100).unwrap();
            let shared = Event::new(std::sync::Arc::clone(&buffer), span, envelope);
            let plain = Event::from_stored_row(plain).unwrap();
            for event in [shared, Event::from_stored_row(row).unwrap()] {
                assert_eq!((event.row(), event.seq(), event.kind()), (row, 3, plain.kind()));
                assert_eq!(event.data().text(), plain.data().text());
                assert_eq!(event.surface_op(), plain.surface_op());
                assert_eq!(event.source_event_seqs_text(), plain.source_event_seqs_text());
            }
        }
    }

    /// Beyond its text an event costs itself, its share in the text (two counters and a `String`), and what the allocator adds to the
    /// two pieces of memory: glibc 8 bytes each, rounded up to 16.
    #[test]
    fn an_event_that_a_host_builds_costs_at_most_142_bytes_beyond_its_text() {
        let draft = |kind: &str| EventDraft::new(kind, r#"{"turn":1}"#).unwrap();
        let drafts = [
            draft("turn/start"),
            draft("plugin:acme/state"),
            draft("user/message").surface(SurfaceOp::Append),
            draft("tool/result")
                .surface(SurfaceOp::Replace { start_seq: 3, end_seq: 14 })
                .source_event_seqs([3, 14]),
            draft("turn/start").at_time(-1),
            draft("turn/start").at_time(0),
        ];
        for (draft, seq) in drafts.into_iter().zip([0, 9, 99, 100, 12_345_678, SAFE_INTEGER_MAX]) {
            let event = draft.build(seq, 1_760_000_000_000).unwrap();
            let text_bytes = event.row().len();
            assert_eq!(event.buffer.capacity(), text_bytes, "{}", event.row());
            let in_blocks = |bytes: usize| (bytes + 8).next_multiple_of(16);
            let shared = in_blocks(2 * size_of::<usize>() + size_of::<String>());
            let all = size_of::<Event>() + shared + in_blocks(text_bytes);
            assert!(all - text_bytes <= 142, "{} bytes", all - text_bytes);
        }
    }
}
