//! The surface: which events make the messages that a model sees, and how each accepted event changes that (`session.md` 8, 9).
//!
//! [`Surface::judge`] says what an event would do and changes nothing; [`Surface::apply`] does it and says how to take it back. A batch
//! is judged member by member on a surface that holds the members before, and taken back as a whole if one of them is refused.

use super::acceptance::{self, refused};
use super::message::{self, DerivedMessage};
use super::projection::{Definition, ProjectionContext, Projections};
use crate::error::{Code, Error, Result};
use crate::event::facts::{Links, RowKind, is_object, is_word, members};
use crate::event::nodes::{NodeId, Nodes};
use crate::event::verdict::RowVerdict;
use crate::event::{Event, Span, SurfaceOp, Vocabulary};
use crate::format::relationships::is_equal;
use crate::json::{Json, Kind};
use std::collections::BTreeMap;
use std::sync::Arc;

/// Messages that a projection changed, by seq.
pub(super) type Projected = BTreeMap<u64, DerivedMessage>;

/// Where a fold finds the events before the one that it judges.
pub(super) trait EarlierEvents {
    /// The event with this seq, if it is part of the fold.
    fn event(&self, seq: u64) -> Option<Event>;
}

impl EarlierEvents for Vec<Event> {
    fn event(&self, seq: u64) -> Option<Event> {
        let base = self.first()?.seq();
        self.get(usize::try_from(seq.checked_sub(base)?).ok()?).cloned()
    }
}

/// The state of a fold over the events from `base_seq` on.
#[derive(Clone, Debug)]
pub(super) struct Surface {
    base_seq: u64,
    next_seq: u64,
    pub(super) nodes: Nodes,
    pub(super) replace_generation: u64,
    pub(super) content_generation: u64,
    pub(super) projected: Arc<Projected>,
    /// The definitions that made `projected`.
    pub(super) applied: Vec<Arc<Definition>>,
}

/// What an accepted event does.
#[derive(Debug)]
pub(super) enum Effect {
    None,
    Push,
    Replace { start: NodeId, end: NodeId, start_seq: u64, shadowed: Vec<u64> },
    Project { definition: Arc<Definition>, messages: Vec<(u64, DerivedMessage)> },
}

/// How an effect is taken back.
#[derive(Debug)]
pub(super) enum Undo {
    None,
    Push,
    Replace { start: NodeId, end: NodeId },
    Project { projected: Arc<Projected>, was_new: bool },
}

impl Surface {
    pub(super) fn new(base_seq: u64) -> Surface {
        Surface {
            base_seq,
            next_seq: base_seq,
            nodes: Nodes::new(),
            replace_generation: 0,
            content_generation: 0,
            projected: Arc::default(),
            applied: Vec::new(),
        }
    }

    /// Judges the next event: by itself, unless `is_judged` says that this was done, then by what stands before it.
    pub(super) fn judge(
        &self,
        event: &Event,
        verdict: &RowVerdict,
        earlier: &dyn EarlierEvents,
        rules: Rules<'_>,
        is_judged: bool,
    ) -> Result<Effect> {
        rules.projections.check_applied(&self.applied)?;
        if event.seq() != self.next_seq {
            let error = refused("SEQ_NOT_CONTIGUOUS", "the event's seq is not the next one");
            return Err(error.with_expected(self.next_seq).with_got(event.seq()));
        }
        if !is_judged {
            acceptance::judge(event, verdict)?;
        }
        if !verdict.kind.is_surface() {
            return self.judge_log_only(event, verdict, earlier, rules);
        }
        if self.nodes.is_full() {
            let error =
                Error::new(Code::LimitExceeded, "the session has more messages than can be told apart");
            return Err(error.with_limit("surface_nodes_max").with_advice("go on in a new session"));
        }
        if let Links::Developer { header_seq, additions, .. } = &verdict.links
            && let Some(header_seq) = header_seq.get()
        {
            check_additions(event, header_seq, additions, earlier)?;
        }
        match event.surface_op() {
            Some(SurfaceOp::Append) => Ok(Effect::Push),
            Some(SurfaceOp::Replace { start_seq, end_seq }) => {
                self.judge_replacement(event, verdict.kind, start_seq, end_seq, earlier)
            }
            None => Err(refused("SURFACE_OP_INVALID", "`surfaceOp` is neither `append` nor a replacement")),
        }
    }

    fn judge_log_only(
        &self,
        event: &Event,
        verdict: &RowVerdict,
        earlier: &dyn EarlierEvents,
        rules: Rules<'_>,
    ) -> Result<Effect> {
        let is_known = verdict.kind.is_known() || rules.vocabulary.is_known(event.kind());
        if !is_known {
            // Metadata of an ignorable event that nobody here understands is opaque.
            return if event.ignorable() {
                Ok(Effect::None)
            } else {
                no_metadata(event).map(|()| Effect::None)
            };
        }
        no_metadata(event)?;
        let definition = rules.projections.get(event.kind());
        match definition {
            Some(definition) => {
                let context = ProjectionContext::new(self, earlier);
                let messages = definition.run(event, &context)?;
                Ok(Effect::Project { definition, messages })
            }
            None if rules.vocabulary.changes_messages(event.kind()) => {
                let message =
                    format!("`{}` changes messages, and no projection for it is registered", event.kind());
                Err(refused("PROJECTION_MISSING", message).with_event_type(event.kind()))
            }
            None => Ok(Effect::None),
        }
    }

    /// `session.md` 8.3.
    fn judge_replacement(
        &self,
        event: &Event,
        kind: RowKind,
        start_seq: u64,
        end_seq: u64,
        earlier: &dyn EarlierEvents,
    ) -> Result<Effect> {
        let (Some(start), Some(end)) = (self.nodes.find(start_seq), self.nodes.find(end_seq)) else {
            let gone = if self.nodes.find(start_seq).is_none() { start_seq } else { end_seq };
            let message = format!("a replacement names event {gone}, which is not on the surface");
            return Err(refused("REPLACE_RANGE_NOT_ON_SURFACE", message));
        };
        let sources = event.source_event_seqs().unwrap_or_default();
        match self.nodes.is_covered(start, end_seq, &sources) {
            Some(true) => {}
            Some(false) => {
                let message = "`sourceEventSeqs` does not name every event that the replacement shadows";
                return Err(refused("REPLACE_COVERAGE_MISSING", message));
            }
            None => {
                let message = format!("event {end_seq} stands before event {start_seq} on the surface");
                return Err(refused("REPLACE_RANGE_REVERSED", message));
            }
        }
        if kind == RowKind::ToolResult && (start != end || !is_rewrite(event, start_seq, earlier)) {
            let message =
                "a tool result may only replace one tool result that differs in nothing but its content";
            return Err(refused("TOOL_REWRITE_SCOPE", message));
        }
        let is_head = self.nodes.first() == Some(start_seq)
            && earlier.event(start_seq).is_some_and(|head| head.kind() == "system/message");
        if is_head && (kind != RowKind::SystemMessage || start != end) {
            let message = "only a system message over exactly the first one may replace it";
            return Err(refused("SYSTEM_HEAD_PROTECTED", message));
        }
        let mut shadowed = Vec::new();
        for seq in self.nodes.seqs_from(start) {
            shadowed.push(seq);
            if seq == end_seq {
                break;
            }
        }
        Ok(Effect::Replace { start, end, start_seq, shadowed })
    }

    /// Does what [`judge`](Self::judge) said of the next event.
    pub(super) fn apply(&mut self, seq: u64, effect: &Effect) -> Undo {
        self.next_seq = seq + 1;
        match effect {
            Effect::None => Undo::None,
            Effect::Push => {
                self.nodes.push(seq);
                Undo::Push
            }
            Effect::Replace { start, end, .. } => {
                self.nodes.replace(*start, *end, seq);
                self.replace_generation += 1;
                self.content_generation += 1;
                Undo::Replace { start: *start, end: *end }
            }
            Effect::Project { definition, messages } => {
                let before = Arc::clone(&self.projected);
                Arc::make_mut(&mut self.projected).extend(messages.iter().cloned());
                self.content_generation += 1;
                let was_new = !self.applied.iter().any(|known| Arc::ptr_eq(known, definition));
                if was_new {
                    self.applied.push(Arc::clone(definition));
                }
                Undo::Project { projected: before, was_new }
            }
        }
    }

    /// Takes the latest event back that was not taken back before.
    pub(super) fn undo(&mut self, undo: Undo) {
        self.next_seq -= 1;
        match undo {
            Undo::None => {}
            Undo::Push => self.nodes.undo_push(),
            Undo::Replace { start, end } => {
                self.nodes.undo_replace(start, end);
                self.replace_generation -= 1;
                self.content_generation -= 1;
            }
            Undo::Project { projected, was_new } => {
                self.projected = projected;
                self.content_generation -= 1;
                if was_new {
                    self.applied.pop();
                }
            }
        }
    }

    pub(super) fn next_seq(&self) -> u64 {
        self.next_seq
    }

    pub(super) fn base_seq(&self) -> u64 {
        self.base_seq
    }

    /// The message that an event on the surface makes now.
    pub(super) fn message(&self, seq: u64, earlier: &dyn EarlierEvents) -> Option<DerivedMessage> {
        match self.projected.get(&seq) {
            Some(projected) => Some(projected.clone()),
            None => message::derive(&earlier.event(seq)?),
        }
    }
}

/// What judging needs beyond the events.
#[derive(Clone, Copy, Debug)]
pub(super) struct Rules<'a> {
    pub(super) projections: &'a Projections,
    pub(super) vocabulary: &'a Vocabulary,
}

pub(super) fn no_metadata(event: &Event) -> Result<()> {
    if event.surface_op_text().is_some() {
        let message = format!("`{}` makes no message and cannot have `surfaceOp`", event.kind());
        return Err(refused("SURFACE_OP_FORBIDDEN", message));
    }
    if event.source_event_seqs_text().is_some() {
        let message = format!("`{}` makes no message and cannot have `sourceEventSeqs`", event.kind());
        return Err(refused("SOURCES_FORBIDDEN", message));
    }
    Ok(())
}

/// `events.md` 4.3, rules 4 and 5.
fn check_additions(
    event: &Event,
    header_seq: u64,
    additions: &[Span],
    earlier: &dyn EarlierEvents,
) -> Result<()> {
    let target =
        || refused("HEADER_SEQ_TARGET", format!("event {header_seq} is no earlier `request/header`"));
    if header_seq >= event.seq() {
        return Err(target());
    }
    let header =
        earlier.event(header_seq).filter(|header| header.kind() == "request/header").ok_or_else(target)?;
    let tools = header.data().get("header").and_then(|header| header.get("tools"));
    for &addition in additions {
        let wanted = event.value_at(addition).and_then(|name| name.as_str()).unwrap_or_default();
        let definition = |what: &str| -> Error {
            let message = format!("the tool `{wanted}` {what} in the header of event {header_seq}");
            refused("HEADER_SEQ_DEFINITION", message)
        };
        let mut found = tools
            .iter()
            .flat_map(|tools| tools.elements())
            .filter(|tool| tool.get("name").and_then(|name| name.as_str()).as_deref() == Some(&*wanted));
        let tool = found.next().ok_or_else(|| definition("does not occur"))?;
        if found.next().is_some() {
            return Err(definition("occurs twice"));
        }
        let [description, parameters, defer] = members(tool, ["description", "parameters", "deferLoading"]);
        if description.is_none_or(|text| text.kind() != Kind::String) || !is_object(parameters) {
            return Err(definition("has no `description` or no `parameters` object"));
        }
        if defer.is_some_and(|defer| defer.as_bool() != Some(true)) {
            let message = format!("`deferLoading` of the tool `{wanted}` is not `true`");
            return Err(refused("DEFER_LOADING_INVALID", message));
        }
    }
    Ok(())
}

/// Whether an event is a tool result whose data equals that of `event` but for `message.content`.
fn is_rewrite(event: &Event, replaced: u64, earlier: &dyn EarlierEvents) -> bool {
    let Some(old) = earlier.event(replaced).filter(|old| old.kind() == "tool/result") else { return false };
    let repeats = |a: Json<'_>, b: Json<'_>, skipped: &str| {
        a.members().all(|(key, value)| key == skipped || is_equal(Some(value), b.get(&key)))
    };
    let is_same = |skipped: &str, new, old| repeats(new, old, skipped) && repeats(old, new, skipped);
    match (event.data().get("message"), old.data().get("message")) {
        (Some(new_message), Some(old_message)) => {
            is_same("message", event.data(), old.data()) && is_same("content", new_message, old_message)
        }
        _ => false,
    }
}

/// Whether an event adds a message to the conversation as a person would read it: every message event that was appended, whether or
/// not it was replaced later (`session.md` 10, human transcript).
pub(super) fn is_transcript(event: &Event) -> bool {
    RowKind::of(event.kind()).is_surface()
        && event.surface_op_text().is_some_and(|op| is_word(Some(Json::trusted(op)), "append"))
}

#[cfg(test)]
mod tests {
    use crate::error::Code;
    use crate::event::nodes::NODES_MAX;
    use crate::event::{EventDraft, SurfaceOp};
    use crate::session::Session;

    #[test]
    fn a_session_takes_as_many_messages_as_can_be_told_apart_and_no_more() {
        let session = Session::independent("s").unwrap();
        let data = r#"{"id":"m","role":"user","source":{"kind":"user"},"content":[]}"#;
        let message = EventDraft::new("user/message", data).unwrap().surface(SurfaceOp::Append);
        for _ in 0..NODES_MAX {
            session.append(&message).unwrap();
        }
        let refused = session.append(&message).unwrap_err();
        assert_eq!((refused.code(), refused.limit()), (Code::LimitExceeded, Some("surface_nodes_max")));
        session.append(EventDraft::new("turn/start", r#"{"turn":1}"#).unwrap()).unwrap();
    }
}
