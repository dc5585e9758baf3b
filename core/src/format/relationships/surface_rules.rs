//! Joining and replacing on the surface (A19).

use super::state::SurfaceChange;
use super::{Effect, Judged, LogChecker, broken, require};
use crate::event::facts::RowKind;
use crate::event::nodes::NodeId;
use crate::event::{Event, SurfaceOp};

const RULE: &str = "A19";

impl LogChecker {
    pub(super) fn judge_surface(&self, event: &Event, kind: RowKind, effect: &mut Effect) -> Judged<()> {
        let surface = &self.state.surface;
        require(!surface.is_full(), RULE, "the log has more messages than can be told apart")?;
        let is_system = kind == RowKind::SystemMessage;
        if is_system && !surface.is_empty() && effect.head.is_none() {
            return broken(RULE, "a system message joins a surface that did not begin with one");
        }
        match event.surface_op() {
            Some(SurfaceOp::Append) => {
                effect.surface = SurfaceChange::Push;
                if is_system && surface.is_empty() {
                    effect.head = Some(event.seq());
                }
            }
            Some(SurfaceOp::Replace { start_seq, end_seq }) => {
                let (start, end) = self.replaced(event, start_seq, end_seq)?;
                if effect.head == Some(start_seq) {
                    let keeps_head = is_system && start == end;
                    require(
                        keeps_head,
                        RULE,
                        "only a system message over exactly the head may replace the head",
                    )?;
                    effect.head = Some(event.seq());
                }
                effect.surface = SurfaceChange::Replace { start, end };
            }
            None => return broken(RULE, "a message event has no well-formed `surfaceOp`"),
        }
        Ok(())
    }

    /// The ends of a replacement, which must stand on the surface in this order, with all between them cited. The protected head is
    /// the first node, so it can only be the start.
    fn replaced(&self, event: &Event, start_seq: u64, end_seq: u64) -> Judged<(NodeId, NodeId)> {
        let surface = &self.state.surface;
        let (Some(start), Some(end)) = (surface.find(start_seq), surface.find(end_seq)) else {
            return broken(RULE, "a replacement names an event that is not on the surface");
        };
        let sources = event.source_event_seqs().unwrap_or_default();
        match surface.is_covered(start, end_seq, &sources) {
            Some(true) => Ok((start, end)),
            Some(false) => broken(RULE, "a replacement does not cite every event that it removes"),
            None => broken(RULE, "a replacement ends before it starts"),
        }
    }
}
