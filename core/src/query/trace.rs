//! Where an event came from and what became of it (`query.md` 5.2).

use super::records::EventRecord;
use super::surface::{Classified, FoldRules};
use super::window::event_not_found;
use crate::error::Result;
use crate::event::Event;
use crate::format::header::SessionHeader;
use crate::json::ObjectText;
use std::collections::HashMap;

/// The history of one event.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EventTrace {
    /// The header of the session at the time.
    pub session: SessionHeader,
    /// The event that was asked for.
    pub target: EventRecord,
    /// What removed it from the surface, what removed that, and so on to the last; empty if nothing did.
    pub replacement_chain: Vec<u64>,
    /// What it removed when it was committed, in the order of the surface then.
    pub replaced_event_seqs: Vec<u64>,
    /// Its own list of sources, in the order in which it was recorded.
    pub source_event_seqs: Vec<u64>,
    /// The later events that name it as a source, ascending.
    pub derived_event_seqs: Vec<u64>,
}

impl EventTrace {
    /// Traces one event of a whole log.
    ///
    /// # Errors
    /// `SESSION_QUERY_EVENT_NOT_FOUND`; then `SESSION_QUERY_INVALID_SURFACE`, `LIMIT_EXCEEDED`.
    pub fn of(
        session: &SessionHeader,
        events: &[Event],
        seq: u64,
        rules: FoldRules<'_>,
    ) -> Result<EventTrace> {
        let target = events.iter().find(|event| event.seq() == seq);
        let target = target.ok_or_else(|| event_not_found(&session.id, seq))?;
        let classified = Classified::of(&session.id, events, rules)?;
        let mut replaced_by = HashMap::new();
        for replacement in &classified.replacements {
            replaced_by.extend(replacement.shadowed_seqs.iter().map(|&shadowed| (shadowed, replacement.seq)));
        }
        let own = classified.replacements.iter().find(|replacement| replacement.seq == seq);
        let names_target = |event: &&Event| {
            let sources = event.source_event_seqs().unwrap_or_default();
            sources.runs().iter().any(|&(first, last)| (first..=last).contains(&seq))
        };
        let later = events.iter().filter(|event| event.seq() > seq);
        Ok(EventTrace {
            session: session.clone(),
            target: EventRecord::of(&session.id, target, classified.place(seq)),
            // A replacement comes after what it replaces, so the chain ends.
            replacement_chain: std::iter::successors(replaced_by.get(&seq), |next| replaced_by.get(next))
                .copied()
                .collect(),
            replaced_event_seqs: own.map(|own| own.shadowed_seqs.clone()).unwrap_or_default(),
            source_event_seqs: target.source_event_seqs().unwrap_or_default().iter().collect(),
            derived_event_seqs: later.filter(names_target).map(Event::seq).collect(),
        })
    }

    /// What removed it from the surface.
    #[must_use]
    pub fn replaced_by(&self) -> Option<u64> {
        self.replacement_chain.first().copied()
    }

    /// `{session, target, replacedBy?, replacementChain, replacedEventSeqs, sourceEventSeqs, derivedEventSeqs}`.
    #[must_use]
    pub fn to_json(&self) -> String {
        let mut out = ObjectText::new();
        out.json("session", &self.session.to_json());
        out.json("target", &self.target.to_json());
        if let Some(seq) = self.replaced_by() {
            out.number("replacedBy", seq);
        }
        out.json("replacementChain", &seq_list(&self.replacement_chain));
        out.json("replacedEventSeqs", &seq_list(&self.replaced_event_seqs));
        out.json("sourceEventSeqs", &seq_list(&self.source_event_seqs));
        out.json("derivedEventSeqs", &seq_list(&self.derived_event_seqs));
        out.finish()
    }
}

fn seq_list(seqs: &[u64]) -> String {
    let seqs: Vec<String> = seqs.iter().map(u64::to_string).collect();
    format!("[{}]", seqs.join(","))
}
