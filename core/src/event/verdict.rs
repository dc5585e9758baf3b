//! One row on its own: parsed and judged in one pass, on whatever thread parses it.

use super::breach::{Breach, Stage};
use super::facts::{Links, Payload, RowKind};
use super::{acceptance, admission};
use crate::event::row::{self, BadRow, Members};
use crate::event::{Envelope, Event, Span, Vocabulary};
use crate::json::{Cursor, Json};

/// What is known of a row before its neighbours are.
#[derive(Clone, Debug, Default)]
pub(crate) struct RowVerdict {
    pub(crate) kind: RowKind,
    /// The first rule of a single row that it breaks. Whether an unknown type may be read is not judged here.
    pub(crate) breach: Option<Box<Breach>>,
    /// What binds it to other rows.
    pub(crate) links: Links,
    /// Whether it is an `assistant/message` or `assistant/attempt` without a `stream` array. Readers of stored logs do not mind; an
    /// append does.
    pub(crate) lacks_stream: bool,
}

impl RowVerdict {
    /// Judges a row again that is held as an event.
    pub(crate) fn of_event(event: &Event) -> RowVerdict {
        // Whoever made the event kept its own limit of depth.
        let (_, verdict) = parse(event.buffer(), event.row, u32::MAX, &mut Payload::default());
        verdict
    }

    /// Whether the row ends a read wherever it stands.
    pub(crate) fn is_not_admitted(&self) -> bool {
        self.breach.as_ref().is_some_and(|breach| breach.stage() == Stage::Admission)
    }
}

/// Parses and judges the text at `row` of a buffer, whose spans are given. `payload` is a place for what is read on the way, used again
/// for each row of a buffer: it is larger than most rows.
pub(crate) fn parse<'a>(
    buffer: &'a str,
    row: Span,
    depth_max: u32,
    payload: &mut Payload<'a>,
) -> (Result<Envelope, Box<BadRow>>, RowVerdict) {
    let mut members = Members::default();
    let mut first = (None, RowKind::Unknown);
    payload.clear();
    let scanned = row::scan(row.of(buffer), depth_max, &mut members, |written, cursor| {
        let kind = kind_of(written);
        first = (written, kind);
        payload.clear();
        if kind.has_facts() { payload.read(kind, cursor) } else { Ok(()) }
    });
    if let Err(bad) = scanned {
        return (Err(bad), RowVerdict::default());
    }
    let written = members.kind();
    // The type is known where `data` stands behind it, as nearly always.
    let is_first = first.0.zip(written).is_some_and(|(first, last)| std::ptr::eq(first.text(), last.text()));
    let kind = if is_first { first.1 } else { kind_of(written) };
    if kind.has_facts() && payload.kind != kind {
        // The type stands behind `data`, or twice, or there is no `data`: no known writer does that.
        read_late(kind, &members, payload);
    }
    judge(buffer, row.start, kind, &members, kind.has_facts().then_some(payload))
}

fn kind_of(kind: Option<Json<'_>>) -> RowKind {
    kind.and_then(|kind| kind.as_str()).map_or(RowKind::Unknown, |kind| RowKind::of(&kind))
}

/// A type that has facts, but whose row has no `data`, has those of a value that is no object.
fn read_late<'a>(kind: RowKind, members: &Members<'a>, payload: &mut Payload<'a>) {
    let data = members.data().unwrap_or(Json::trusted("null"));
    payload.clear();
    // The text was checked before, within its limit of depth: this cannot fail, and what was read by then is all there is.
    let _ = payload.read(kind, &mut Cursor::new(data.text(), u32::MAX));
}

fn judge(
    buffer: &str,
    base: u32,
    kind: RowKind,
    members: &Members<'_>,
    payload: Option<&mut Payload<'_>>,
) -> (Result<Envelope, Box<BadRow>>, RowVerdict) {
    let payload = payload.as_deref();
    let outcome = members.envelope(base);
    let lacks_stream = payload.is_some_and(|payload| {
        matches!(kind, RowKind::AssistantMessage | RowKind::AssistantAttempt) && !payload.has_stream
    });
    let mut verdict = RowVerdict { kind, breach: None, links: Links::None, lacks_stream };
    let mut breach = admission::judge(kind, members, payload);
    if let (Ok(envelope), None) = (&outcome, &breach) {
        let has_sources = !envelope.source_event_seqs.is_empty();
        verdict.links = payload.map_or(Links::None, |payload| Links::of(payload, buffer, has_sources));
        breach = acceptance::judge(kind, members, envelope.seq, payload);
    }
    verdict.breach = breach.map(Box::new);
    (outcome, verdict)
}

/// The rules of a single row, with the vocabulary of the program that reads it.
pub(crate) fn judge_single(event: &Event, verdict: &RowVerdict, vocabulary: &Vocabulary) -> Option<Breach> {
    if verdict.breach.is_some() {
        return verdict.breach.as_deref().cloned();
    }
    if verdict.kind.is_known() {
        return None;
    }
    if vocabulary.is_known(event.kind()) {
        let has_sources = event.source_event_seqs_text().is_some();
        return acceptance::registered_type(event.surface_op_text().is_some(), has_sources);
    }
    acceptance::unknown_type(event.kind(), event.ignorable())
}
