//! What remains of a row for the rules that bind several rows ([`relationships`](super::super::relationships)).
//!
//! Those rules run in order, on one thread, after the row was parsed on any. So that they need not walk long rows again, or the many
//! short ones of turns, steps and tool calls, what they want of such rows is kept beside the row, as spans of its buffer. Rows of
//! other types are short and few: their `data` is walked when their turn comes.

use super::{Call, Payload, RowKind, is_text, is_word};
use crate::event::Span;
use crate::json::{Json, SAFE_INTEGER_MAX};

/// The facts of a row that other rows may refer to, or that refer to other rows. Of a value that is absent the span is empty.
#[derive(Clone, Debug, Default)]
pub(crate) enum Links {
    /// The type has no such rules, or its rows are walked when their turn comes.
    #[default]
    None,
    /// `turn/start`, `turn/end`, `step/start`, `step/end`, `system/message`, `assistant/attempt`.
    Step(StepLink),
    /// `tool/call`.
    Call { step: StepLink, call: CallSpans },
    /// `developer/message`.
    Developer { step: StepLink, header_seq: MaybeCount, additions: Box<[Span]> },
    /// `assistant/message`.
    Assistant { step: StepLink, has_other_block: bool, calls: Box<[CallSpans]> },
    /// `tool/result`.
    ToolResult { step: StepLink, call_id: Span, is_not_started: bool },
    /// `user/message`.
    User { is_human: bool, checkpoint: Option<CheckpointLink> },
    /// `request/header`.
    Header { has_config: bool, provider: Span, tools: Span },
    /// `agent/inbox/spliced`, `session/title-llm-request`: whether the list of messages is as it must be.
    Slots { has_unnamed: bool, is_title_prompt: bool },
}

/// A count that a row may have, in the room of one: every row on its way through a reader carries some.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct MaybeCount(u64);

impl MaybeCount {
    /// Beyond every count.
    const NONE: MaybeCount = MaybeCount(u64::MAX);

    pub(crate) fn new(count: Option<u64>) -> MaybeCount {
        count.map_or(MaybeCount::NONE, MaybeCount)
    }

    pub(crate) fn get(self) -> Option<u64> {
        (self != MaybeCount::NONE).then_some(self.0)
    }
}

/// The turn and step that a row says it stands in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct StepLink {
    pub(crate) turn: MaybeCount,
    pub(crate) step: MaybeCount,
}

/// The compaction that a checkpoint message names.
#[derive(Clone, Copy, Debug)]
pub(crate) struct CheckpointLink {
    pub(crate) compaction_id: Span,
    pub(crate) source_command_id: Span,
}

/// A tool call as an assistant message advertises it or a `tool/call` repeats it: spans of JSON values. An id that is no text counts
/// as absent.
#[derive(Clone, Copy, Debug)]
pub(crate) struct CallSpans {
    pub(crate) id: Span,
    pub(crate) name: Span,
    pub(crate) arguments: Span,
}

/// Where a piece of `buffer` stands in it.
fn span_in(buffer: &str, part: Json<'_>) -> Span {
    let start = (part.text().as_ptr() as usize).saturating_sub(buffer.as_ptr() as usize);
    Span::new(start, start + part.text().len())
}

impl Links {
    /// `payload` was read from a part of `buffer`; `has_sources`: whether the row has `sourceEventSeqs`.
    pub(crate) fn of(payload: &Payload<'_>, buffer: &str, has_sources: bool) -> Links {
        let count = |value: Option<Json<'_>>| value.and_then(|value| value.as_count());
        let span = |value: Option<Json<'_>>| value.map_or(Span::default(), |value| span_in(buffer, value));
        let call = |call: &Call<'_>| CallSpans {
            id: span(call.id.filter(|_| is_text(call.id))),
            name: span(call.name),
            arguments: span(call.arguments),
        };
        let step = StepLink {
            turn: MaybeCount::new(count(payload.turn)),
            step: MaybeCount::new(count(payload.step)),
        };
        let message = &payload.message;
        match payload.kind {
            RowKind::SystemMessage
            | RowKind::AssistantAttempt
            | RowKind::TurnStart
            | RowKind::TurnEnd
            | RowKind::StepStart
            | RowKind::StepEnd => Links::Step(step),
            RowKind::ToolCall => Links::Call { step, call: call(&payload.call) },
            RowKind::DeveloperMessage => Links::Developer {
                step,
                header_seq: MaybeCount::new(count(payload.header_seq)),
                additions: message.content.additions.iter().map(|&name| span_in(buffer, name)).collect(),
            },
            RowKind::AssistantMessage => Links::Assistant {
                step,
                has_other_block: message.content.has_other_block,
                calls: message.content.calls.iter().map(call).collect(),
            },
            RowKind::ToolResult => Links::ToolResult {
                step,
                call_id: span(message.tool_call_id),
                is_not_started: !has_sources && is_not_started(payload),
            },
            RowKind::UserMessage => Links::User {
                is_human: message.source.is_kind("user"),
                checkpoint: message.source.is_kind("compact-checkpoint").then(|| CheckpointLink {
                    compaction_id: span(message.source.compaction_id),
                    source_command_id: span(message.source.source_command_id),
                }),
            },
            RowKind::RequestHeader => Links::Header {
                has_config: payload.header.has_config,
                provider: span(payload.header.provider),
                tools: span(payload.header.tools),
            },
            RowKind::InboxSpliced => Links::Slots {
                has_unnamed: payload.is_object && (!payload.slots.is_array || payload.slots.has_unnamed),
                is_title_prompt: false,
            },
            RowKind::TitleRequest => Links::Slots {
                has_unnamed: !payload.slots.is_array || payload.slots.has_unnamed,
                is_title_prompt: payload.slots.count == 1 && payload.slots.is_title_prompt,
            },
            _ => Links::None,
        }
    }
}

/// Whether a tool result says that its call was never started, in a form that may answer such a call (`format.md` appendix B).
/// The text of the block is not compared: readers take any (`design.md` 5).
fn is_not_started(payload: &Payload<'_>) -> bool {
    let message = &payload.message;
    let is_error = message.is_error()
        && payload.has_error_code("TOOL_NOT_STARTED")
        && payload.has_error_name("ToolNotStartedError");
    if !is_error {
        return false;
    }
    let id = message.id.and_then(|id| id.as_str()).unwrap_or_default();
    let call_id = message.tool_call_id.and_then(|id| id.as_str()).unwrap_or_default();
    // The rest of the forked form is judged by R10, which ran before.
    repair_number(&id, "forked-tool-result-", &call_id).is_some()
        || repair_number(&id, "interrupted-tool-result-", &call_id).is_some_and(is_canonical)
            && message.content.is_one_text()
            && is_word(message.role, "tool")
}

/// What stands in a message id after `<prefix><callId>-`.
pub(crate) fn repair_number<'a>(id: &'a str, prefix: &str, call_id: &str) -> Option<&'a str> {
    id.strip_prefix(prefix)?.strip_prefix(call_id)?.strip_prefix('-')
}

fn is_canonical(number: &str) -> bool {
    canonical_count(number).is_some()
}

/// The value of a count in decimal digits without leading zeros.
pub(crate) fn canonical_count(number: &str) -> Option<u64> {
    let is_canonical = number == "0"
        || !number.is_empty() && !number.starts_with('0') && number.bytes().all(|byte| byte.is_ascii_digit());
    let value = if is_canonical { number.parse().ok() } else { None };
    value.filter(|&value: &u64| value <= SAFE_INTEGER_MAX)
}
