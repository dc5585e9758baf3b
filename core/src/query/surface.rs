//! Where each event of a log stands (`query.md` 2.6).

use super::records::{Document, EventRecord, SurfacePlace};
use crate::error::{Code, Error, Result};
use crate::event::{Event, Vocabulary};
use crate::session::{Projections, Replacement, fold_surface};
use std::collections::HashMap;

/// What a store knows beyond its events: the types it registered, and the projections of messages. One set for every operation.
#[derive(Clone, Copy, Debug)]
pub struct FoldRules<'a> {
    /// The message projections.
    pub projections: &'a Projections,
    /// The known types.
    pub vocabulary: &'a Vocabulary,
}

/// The surface of a log, and its history.
#[derive(Clone, Debug)]
pub(crate) struct Classified {
    /// The seqs on the surface, in its order.
    pub(crate) nodes: Vec<u64>,
    /// Every replacement, in log order.
    pub(crate) replacements: Vec<Replacement>,
    /// The place of each event of the surface, now or once; all others are only in the log.
    places: HashMap<u64, SurfacePlace>,
}

impl Classified {
    /// Folds a whole log.
    ///
    /// # Errors
    /// `SESSION_QUERY_INVALID_SURFACE` with the first event that breaks a rule, `LIMIT_EXCEEDED`.
    pub(crate) fn of(session_id: &str, events: &[Event], rules: FoldRules<'_>) -> Result<Classified> {
        let folded = fold_surface(events.iter().cloned(), rules.projections, rules.vocabulary);
        let folded = folded.map_err(|error| invalid_surface(session_id, error))?;
        let mut places: HashMap<u64, SurfacePlace> = HashMap::new();
        let shadowed = folded.replacements.iter().flat_map(|replacement| &replacement.shadowed_seqs);
        places.extend(shadowed.map(|&seq| (seq, SurfacePlace::Shadowed)));
        places.extend(folded.nodes.iter().map(|&seq| (seq, SurfacePlace::Current)));
        Ok(Classified { nodes: folded.nodes, replacements: folded.replacements, places })
    }

    pub(crate) fn place(&self, seq: u64) -> SurfacePlace {
        self.places.get(&seq).copied().unwrap_or(SurfacePlace::LogOnly)
    }
}

fn invalid_surface(session_id: &str, cause: Error) -> Error {
    if cause.code() != Code::EventRefused {
        return cause.with_session_id(session_id);
    }
    let message = format!("the surface of the log is invalid: {}", cause.message());
    let mut error = Error::new(Code::QueryInvalidSurface, message).with_session_id(session_id);
    if let Some(seq) = cause.seq() {
        error = error.with_seq(seq);
    }
    if let Some(rule) = cause.rule() {
        error = error.with_rule(rule);
    }
    error.with_cause(cause)
}

/// One record an event, in log order.
///
/// # Errors
/// `SESSION_QUERY_INVALID_SURFACE`, `LIMIT_EXCEEDED`.
pub fn event_records(session_id: &str, events: &[Event], rules: FoldRules<'_>) -> Result<Vec<EventRecord>> {
    let classified = Classified::of(session_id, events, rules)?;
    let record = |event: &Event| EventRecord::of(session_id, event, classified.place(event.seq()));
    Ok(events.iter().map(record).collect())
}

/// One document for each event that says something, in log order (`query.md` 2.5).
///
/// # Errors
/// `SESSION_QUERY_INVALID_SURFACE`, `LIMIT_EXCEEDED`.
pub fn documents<'a>(
    session_id: &'a str,
    events: &'a [Event],
    rules: FoldRules<'_>,
) -> Result<impl Iterator<Item = Document> + 'a> {
    let classified = Classified::of(session_id, events, rules)?;
    Ok(events.iter().filter_map(move |event| Document::of(session_id, event, classified.place(event.seq()))))
}
