//! Compactions and their checkpoints (A20, A25).

use super::requests::key;
use super::state::{Change, Compaction};
use super::{Judged, LogChecker, broken, require};
use crate::event::breach::Breach;
use crate::event::facts::{CheckpointLink, is_text, members};
use crate::event::{Event, SurfaceOp};
use crate::json::{Json, Kind};
use std::sync::Arc;

const RULE: &str = "A20";

/// `turn` of a compaction's row: `None` for anything but a count or `null`.
fn owner_turn(turn: Option<Json<'_>>) -> Option<Option<u64>> {
    let turn = turn?;
    if turn.kind() == Kind::Null { Some(None) } else { turn.as_count().map(Some) }
}

fn command(value: Option<Json<'_>>) -> Option<Box<str>> {
    value.map(|value| key(Some(value)))
}

impl LogChecker {
    pub(super) fn compaction_start(&self, data: Json<'_>) -> Judged {
        let now = &self.state.now;
        require(now.compaction.is_none(), RULE, "a compaction starts inside another")?;
        let [id, source, turn] = members(data, ["compactionId", "sourceCommandId", "turn"]);
        require(is_text(id), RULE, "a compaction has no `compactionId`")?;
        let turn = owner_turn(turn).filter(|turn| turn.is_none() || *turn == now.open_turn);
        let Some(turn) = turn else {
            return broken(RULE, "`turn` of a compaction is neither the open turn nor `null`");
        };
        Ok(Change::Compaction(Some(Arc::new(Compaction {
            id: key(id),
            command: command(source),
            turn,
            open_turn: now.open_turn,
            is_summarized: false,
        }))))
    }

    /// The open compaction, if these ids are its own.
    fn owned(
        &self,
        id: Option<Json<'_>>,
        source: Option<Json<'_>>,
        rule: &'static str,
    ) -> Judged<&Compaction> {
        let compaction = self.state.now.compaction.as_deref();
        let owned = compaction.filter(|open| open.id == key(id) && open.command == command(source));
        match owned {
            Some(open) => Ok(open),
            None => broken(rule, "the event does not belong to the open compaction"),
        }
    }

    pub(super) fn compaction_summary(&self, event: &Event) -> Judged {
        let [id, source, range, seqs] =
            members(event.data(), ["compactionId", "sourceCommandId", "shadowedRange", "shadowedSeqs"]);
        let open = self.owned(id, source, RULE)?;
        require(
            open.open_turn == self.state.now.open_turn,
            RULE,
            "a compaction is summarized in another turn",
        )?;
        require(!open.is_summarized, RULE, "a compaction is summarized twice")?;
        self.exact_span(event.seq(), range, seqs)?;
        Ok(Change::Compaction(Some(Arc::new(Compaction { is_summarized: true, ..open.clone() }))))
    }

    pub(super) fn compaction_prune(&self, event: &Event) -> Judged {
        let [range, seqs] = members(event.data(), ["shadowedRange", "shadowedSeqs"]);
        self.exact_span(event.seq(), range, seqs)?;
        Ok(Change::None)
    }

    pub(super) fn compaction_end(&self, data: Json<'_>) -> Judged {
        let [id, source, turn, error] = members(data, ["compactionId", "sourceCommandId", "turn", "error"]);
        let open = self.owned(id, source, RULE)?;
        if let Some(crossing) = &self.state.now.unless_orphaned {
            // No marker came: the turn bracket inside was a breach, and it is the earlier one.
            return Err(Breach::clone(crossing));
        }
        require(open.open_turn == self.state.now.open_turn, RULE, "a compaction ends in another turn")?;
        require(owner_turn(turn) == Some(open.turn), RULE, "`turn` of a compaction changes until its end")?;
        let is_complete = open.is_summarized || error.is_some();
        require(is_complete, RULE, "a compaction ends without summary or error")?;
        Ok(Change::Compaction(None))
    }

    /// `shadowedSeqs` is exactly what stands on the surface from the start of `shadowedRange` to its end, without the head.
    fn exact_span(&self, seq: u64, range: Option<Json<'_>>, seqs: Option<Json<'_>>) -> Judged<()> {
        let surface = &self.state.surface;
        let Some(range) = range.filter(|range| range.kind() == Kind::Object) else {
            return broken(RULE, "a compaction has no `shadowedRange`");
        };
        let [start, end] = members(range, ["start", "end"]).map(|end| end.and_then(|end| end.as_count()));
        let (Some(start), Some(end)) = (start, end) else {
            return broken(RULE, "an end of `shadowedRange` is not a count");
        };
        let first = surface.find(start).filter(|_| start < seq && end < seq && surface.find(end).is_some());
        let Some(first) = first else {
            return broken(RULE, "an end of `shadowedRange` is not on the surface");
        };
        require(self.state.now.head != Some(start), RULE, "a compaction shadows the protected head")?;
        let Some(seqs) = seqs.filter(|seqs| seqs.kind() == Kind::Array) else {
            return broken(RULE, "a compaction has no `shadowedSeqs`");
        };
        let mut listed = seqs.elements();
        for standing in surface.seqs_from(first) {
            let is_listed = listed.next().and_then(|seq| seq.as_count()) == Some(standing);
            require(
                is_listed,
                RULE,
                "`shadowedSeqs` is not what stands between the ends of `shadowedRange`",
            )?;
            if standing == end {
                return require(
                    listed.next().is_none(),
                    RULE,
                    "`shadowedSeqs` goes on after `shadowedRange`",
                );
            }
        }
        broken(RULE, "`shadowedRange` ends before it starts")
    }

    pub(super) fn user_message(
        &self,
        event: &Event,
        is_human: bool,
        checkpoint: Option<CheckpointLink>,
    ) -> Judged {
        let is_replacement = || matches!(event.surface_op(), Some(SurfaceOp::Replace { .. }));
        if let Some(link) = checkpoint
            && is_replacement()
        {
            let (id, command) = (link.compaction_id, link.source_command_id);
            self.owned(event.value_at(id), event.value_at(command), "A25")?;
        }
        Ok(if is_human { Change::HumanMessage } else { Change::None })
    }
}
