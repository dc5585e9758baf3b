//! Turns, steps and tool calls (A14 to A17).

use super::state::{Change, PendingCall};
use super::{DoubtKind, Judged, LogChecker, broken, require};
use crate::event::breach::{Breach, Stage};
use crate::event::facts::{CallSpans, MaybeCount, StepLink, identity};
use crate::event::{Event, Span, SurfaceOp};
use crate::json::{Json, Kind};

use super::equality::is_equal;

/// `data` must be an object for the rules to mean anything.
pub(super) fn object(data: Json<'_>, rule: &'static str) -> Judged<()> {
    require(data.kind() == Kind::Object, rule, "`data` is no object")
}

/// Whether a row names the turn or step that is open.
fn is_open(named: MaybeCount, open: Option<u64>) -> bool {
    open.is_some() && named.get() == open
}

type DoubtSlot = Option<(DoubtKind, Box<Breach>)>;

impl LogChecker {
    pub(super) fn turn_start(&self, link: StepLink, doubt: &mut DoubtSlot) -> Judged {
        let now = &self.state.now;
        require(now.open_turn.is_none(), "A14", "a turn starts inside another")?;
        if link.turn.get() != Some(now.next_turn) {
            return broken("A14", format!("a turn starts that is not turn {}", now.next_turn));
        }
        self.note_crossing(doubt);
        Ok(Change::TurnStart)
    }

    pub(super) fn turn_end(&self, link: StepLink, doubt: &mut DoubtSlot) -> Judged {
        let now = &self.state.now;
        require(is_open(link.turn, now.open_turn), "A14", "a turn ends that is not the open one")?;
        require(now.open_step.is_none(), "A14", "a turn ends with an open step")?;
        self.require_answers("a turn ends with an unanswered tool call")?;
        self.note_crossing(doubt);
        Ok(Change::TurnEnd)
    }

    /// A turn bracket inside a compaction is a breach, unless a marker shows that the compaction was left behind by a crash.
    fn note_crossing(&self, doubt: &mut DoubtSlot) {
        if self.state.now.compaction.is_some() {
            let message = "a turn starts or ends inside a compaction";
            let breach = Breach::new(Stage::Relationship, "A20", message);
            *doubt = Some((DoubtKind::UnlessOrphaned, Box::new(breach)));
        }
    }

    pub(super) fn step_start(&self, link: StepLink) -> Judged {
        let now = &self.state.now;
        require(is_open(link.turn, now.open_turn), "A14", "a step starts outside its turn")?;
        require(now.open_step.is_none(), "A14", "a step starts inside another")?;
        if link.step.get() != Some(now.next_step) {
            return broken("A14", format!("a step starts that is not step {}", now.next_step));
        }
        Ok(Change::StepStart)
    }

    pub(super) fn step_end(&self, link: StepLink) -> Judged {
        let now = &self.state.now;
        require(is_open(link.turn, now.open_turn), "A14", "a step ends outside its turn")?;
        require(is_open(link.step, now.open_step), "A14", "a step ends that is not the open one")?;
        self.require_answers("a step ends with an unanswered tool call")?;
        Ok(Change::StepEnd)
    }

    fn require_answers(&self, message: &'static str) -> Judged<()> {
        require(self.state.calls.is_empty(), "A16", message)
    }

    /// A15: the row names the open turn and step.
    pub(super) fn inside_step(&self, link: StepLink) -> Judged<()> {
        let now = &self.state.now;
        let is_inside = is_open(link.turn, now.open_turn) && is_open(link.step, now.open_step);
        require(is_inside, "A15", "the event does not name the open turn and step")
    }

    pub(super) fn require_turn(&self, rule: &'static str) -> Judged<()> {
        require(self.state.now.open_turn.is_some(), rule, "the event stands outside a turn")
    }

    pub(super) fn assistant_message(
        &self,
        event: &Event,
        step: StepLink,
        has_other_block: bool,
        calls: &[CallSpans],
    ) -> Judged {
        self.inside_step(step)?;
        require(!has_other_block, "A16", "a block of an assistant message is no object")?;
        if calls.is_empty() {
            return Ok(Change::None);
        }
        let mut advertised: Vec<(Box<str>, PendingCall)> = Vec::with_capacity(calls.len());
        for call in calls {
            let Some(id) = event.value_at(call.id) else { return broken("A16", "a tool call has no `id`") };
            let id: Box<str> = identity(id).into();
            require(!self.state.calls.contains_key(&id), "A16", "a tool call has the id of one that waits")?;
            advertised.push((id, PendingCall { event: event.clone(), call: *call, is_started: false }));
        }
        if advertised.len() > 1 {
            // Sorted copies, so that a message of a hundred thousand calls is not compared call by call.
            let mut ids: Vec<&str> = advertised.iter().map(|(id, _)| &**id).collect();
            ids.sort_unstable();
            let repeats = ids.windows(2).any(|pair| pair[0] == pair[1]);
            require(!repeats, "A16", "two tool calls of a message have one id")?;
        }
        Ok(Change::Advertise(advertised))
    }

    pub(super) fn tool_call(&self, event: &Event, step: StepLink, called: CallSpans) -> Judged {
        self.inside_step(step)?;
        let id = event.value_at(called.id).map(identity).unwrap_or_default();
        let Some(call) = self.state.calls.get(&*id) else {
            return broken("A16", "a tool is called that no assistant message asked for");
        };
        require(!call.is_started, "A16", "a tool call starts twice")?;
        let is_same = is_equal(call.name(), event.value_at(called.name))
            && is_equal(call.arguments(), event.value_at(called.arguments));
        require(is_same, "A16", "a tool is called with another name or other arguments than asked for")?;
        Ok(Change::StartCall(id.into()))
    }

    pub(super) fn tool_result(
        &self,
        event: &Event,
        step: StepLink,
        call_id: Span,
        is_not_started: bool,
    ) -> Judged {
        if matches!(event.surface_op(), Some(SurfaceOp::Replace { .. })) {
            return self.require_turn("A17").map(|()| Change::None);
        }
        self.inside_step(step)?;
        let id = event.value_at(call_id).map(identity).unwrap_or_default();
        let Some(call) = self.state.calls.get(&*id) else {
            return broken("A16", "a tool result answers no waiting call");
        };
        require(
            call.is_started || is_not_started,
            "A16",
            "a call that never started has an ordinary result",
        )?;
        Ok(Change::ResolveCall(id.into()))
    }
}
