//! One row on its own: parsed and judged in one pass, on whatever thread parses it.

use super::breach::{Breach, Stage};
use super::facts::{Links, Payload, RowKind};
use super::{acceptance, admission};
use crate::event::row::{self, BadRow, Members};
use crate::event::{Envelope, Event, Vocabulary};
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
        let (_, verdict) = parse(event.buffer(), event.row(), u32::MAX);
        verdict
    }

    /// Whether the row ends a read wherever it stands.
    pub(crate) fn is_not_admitted(&self) -> bool {
        self.breach.as_ref().is_some_and(|breach| breach.stage() == Stage::Admission)
    }
}

/// Parses and judges the row `text`, a part of `buffer`. Spans of the envelope are relative to `text`, those of the links to
/// `buffer`.
pub(crate) fn parse(buffer: &str, text: &str, depth_max: u32) -> (Result<Envelope, Box<BadRow>>, RowVerdict) {
    // Both are larger than most rows, so they are filled in place.
    let mut members = Members::default();
    let mut payload = Payload::default();
    let mut first = (None, RowKind::Unknown);
    row::scan(text, depth_max, &mut members, |written, cursor| {
        let kind = kind_of(written);
        first = (written, kind);
        if payload.kind != RowKind::Unknown {
            payload = Payload::default();
        }
        if kind.has_payload_rules() { payload.read(kind, cursor) } else { Ok(()) }
    })
    .map_or_else(
        |bad| (Err(bad), RowVerdict::default()),
        |()| {
            let written = members.kind();
            let is_first = first.0.map(|kind| kind.text()) == written.map(|kind| kind.text());
            let kind = if is_first { first.1 } else { kind_of(written) };
            let needs = kind.has_payload_rules();
            if needs && payload.kind != kind {
                // The type stands behind `data`, or twice, or there is no `data`: no known writer does that.
                payload = read_late(kind, &members);
            }
            judge(buffer, kind, &members, needs.then_some(&payload))
        },
    )
}

fn kind_of(kind: Option<Json<'_>>) -> RowKind {
    kind.and_then(|kind| kind.as_str()).map_or(RowKind::Unknown, |kind| RowKind::of(&kind))
}

/// A type that has rules, but whose row has no `data`, has the facts of a value that is no object.
fn read_late<'a>(kind: RowKind, members: &Members<'a>) -> Payload<'a> {
    let data = members.data().unwrap_or(Json::trusted("null"));
    let mut payload = Payload::default();
    // The text was checked before, within its limit of depth.
    match payload.read(kind, &mut Cursor::new(data.text(), u32::MAX)) {
        Ok(()) => payload,
        Err(_) => Payload { kind, ..Payload::default() },
    }
}

fn judge(
    buffer: &str,
    kind: RowKind,
    members: &Members<'_>,
    payload: Option<&Payload<'_>>,
) -> (Result<Envelope, Box<BadRow>>, RowVerdict) {
    let mut breach = admission::judge(kind, members, payload);
    let has_sources = members.source_event_seqs().is_some();
    let mut links = Links::None;
    let accepted = if breach.is_none()
        && let Some(seq) = members.seq()
    {
        links = payload.map_or(Links::None, |payload| Links::of(payload, buffer, has_sources));
        acceptance::judge(kind, members, seq, payload)
    } else {
        None
    };
    let lacks_stream = payload.is_some_and(|payload| {
        matches!(kind, RowKind::AssistantMessage | RowKind::AssistantAttempt) && !payload.has_stream
    });
    let outcome = members.envelope();
    if outcome.is_ok() && breach.is_none() {
        breach = accepted;
    }
    (outcome, RowVerdict { kind, breach: breach.map(Box::new), links, lacks_stream })
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
