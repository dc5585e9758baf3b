//! What remains of a row for the rules that bind several rows ([`relationships`](super::super::relationships)).
//!
//! Those rules run in order, on one thread, after the row was parsed on any. So that they need not walk long rows again, what
//! they want of such rows is kept beside the row, as spans of its buffer. Rows of other types are short: their `data` is walked
//! when their turn comes.

use super::{Payload, RowKind, is_text, is_word};
use crate::event::Span;
use crate::json::{Json, SAFE_INTEGER_MAX};

/// The facts of a long row that other rows may refer to, or that refer to other rows.
#[derive(Clone, Debug, Default)]
pub(crate) enum Links {
    /// The type has no such rules, or its rows are short.
    #[default]
    None,
    /// `system/message`, `assistant/attempt`.
    Step(StepLink),
    /// `developer/message`.
    Developer { step: StepLink, header_seq: Option<u64>, additions: Vec<Span> },
    /// `assistant/message`.
    Assistant { step: StepLink, has_other_block: bool, calls: Vec<CallSpans> },
    /// `tool/result`.
    ToolResult { step: StepLink, call_id: Span, is_not_started: bool },
    /// `user/message`.
    User { is_human: bool, checkpoint: Option<CheckpointLink> },
    /// `request/header`.
    Header { has_config: bool, provider: Option<Span>, tools: Option<Span> },
    /// `agent/inbox/spliced`, `session/title-llm-request`: whether the list of messages is as it must be.
    Slots { has_unnamed: bool, is_title_prompt: bool },
}

/// The turn and step that a row says it stands in; `None` where it says none.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct StepLink {
    pub(crate) turn: Option<u64>,
    pub(crate) step: Option<u64>,
}

/// The compaction that a checkpoint message names.
#[derive(Clone, Copy, Debug)]
pub(crate) struct CheckpointLink {
    pub(crate) compaction_id: Option<Span>,
    pub(crate) source_command_id: Option<Span>,
}

/// A tool call that an assistant message advertises; spans of JSON values.
#[derive(Clone, Copy, Debug)]
pub(crate) struct CallSpans {
    pub(crate) id: Option<Span>,
    pub(crate) name: Option<Span>,
    pub(crate) arguments: Option<Span>,
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
        let span = |value: Option<Json<'_>>| value.map(|value| span_in(buffer, value));
        let step = StepLink { turn: count(payload.turn), step: count(payload.step) };
        let message = &payload.message;
        match payload.kind {
            RowKind::SystemMessage | RowKind::AssistantAttempt => Links::Step(step),
            RowKind::DeveloperMessage => Links::Developer {
                step,
                header_seq: count(payload.header_seq),
                additions: message.content.additions.iter().map(|&name| span_in(buffer, name)).collect(),
            },
            RowKind::AssistantMessage => {
                let spans = |call: &super::Call<'_>| CallSpans {
                    id: span(call.id.filter(|_| is_text(call.id))),
                    name: span(call.name),
                    arguments: span(call.arguments),
                };
                let calls = message.content.calls.iter().map(spans).collect();
                Links::Assistant { step, has_other_block: message.content.has_other_block, calls }
            }
            RowKind::ToolResult => Links::ToolResult {
                step,
                call_id: span(message.tool_call_id).unwrap_or_default(),
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
