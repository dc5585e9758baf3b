//! The surface of a list of events outside any session (`session.md` 8.4).

use super::message::DerivedMessage;
use super::projection::Projections;
use super::surface::{Effect, Rules, Surface};
use crate::error::Result;
use crate::event::verdict::RowVerdict;
use crate::event::{Event, Vocabulary};

/// What a list of events leaves on the surface.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FoldedSurface {
    /// The seqs on the surface, in model order.
    pub nodes: Vec<u64>,
    /// Every replacement, in the order of the log.
    pub replacements: Vec<Replacement>,
    /// The messages that projections changed, by seq.
    pub projected_messages: Vec<DerivedMessage>,
    /// The messages that the model sees, in order.
    pub messages: Vec<DerivedMessage>,
    /// How many replacements there were.
    pub replace_generation: u64,
    /// How many replacements and projections there were.
    pub content_generation: u64,
}

/// One replacement of a range by an event.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Replacement {
    /// The replacing event.
    pub seq: u64,
    /// The first of the range, in surface order.
    pub start: u64,
    /// The last of the range, in surface order.
    pub end: u64,
    /// Everything in the range, in surface order.
    pub shadowed_seqs: Vec<u64>,
}

/// Folds a whole log, from seq 0 on.
///
/// # Errors
/// `EVENT_REFUSED` with a code of `session.md` 20 and the index of the first refused event.
pub fn fold_surface(
    events: impl IntoIterator<Item = Event>,
    projections: &Projections,
    vocabulary: &Vocabulary,
) -> Result<FoldedSurface> {
    fold_surface_window(events, 0, projections, vocabulary)
}

/// Folds a contiguous part of a log whose first event has the seq `base_seq`. What lies before it is not there: it cannot be replaced
/// or looked up, but may be named as a source.
///
/// # Errors
/// As [`fold_surface`].
pub fn fold_surface_window(
    events: impl IntoIterator<Item = Event>,
    base_seq: u64,
    projections: &Projections,
    vocabulary: &Vocabulary,
) -> Result<FoldedSurface> {
    let mut surface = Surface::new(base_seq);
    let mut seen: Vec<Event> = Vec::new();
    let mut folded = FoldedSurface::default();
    for (index, event) in events.into_iter().enumerate() {
        let rules = Rules { projections, vocabulary };
        let verdict = RowVerdict::of_event(&event);
        let judged = surface.judge(&event, &verdict, &seen, rules, false);
        let effect = judged.map_err(|error| error.with_index(index as u64).with_seq(event.seq()))?;
        surface.apply(event.seq(), &effect);
        if let Effect::Replace { start_seq, shadowed, .. } = effect {
            let end = shadowed.last().copied().unwrap_or(start_seq);
            let seq = event.seq();
            folded.replacements.push(Replacement { seq, start: start_seq, end, shadowed_seqs: shadowed });
        }
        seen.push(event);
    }
    folded.nodes = surface.nodes.iter().collect();
    folded.messages = folded.nodes.iter().filter_map(|&seq| surface.message(seq, &seen)).collect();
    folded.projected_messages = surface.projected.values().cloned().collect();
    folded.replace_generation = surface.replace_generation;
    folded.content_generation = surface.content_generation;
    Ok(folded)
}
