//! Row admission: what no row of a current log may be, wherever it stands (`format.md` 5.2, rules R1 to R11).
//!
//! Runs on every row that is a JSON object, before its envelope is judged, and on rows after a bad one. Pure and row by row. The
//! same checks carry other numbers in `events.md` 11: R1, R2, R5 and R6 are A5, R3 is A11, R4, R7 and R11 are A10, R8 is A6, R9 is
//! A7, R10 is A8.

use super::breach::{Breach, Stage};
use super::facts::{
    Payload, RowKind, SlotFault, StreamFault, canonical_count, is_object, is_positive, is_same_string,
    is_text, is_word, repair_number,
};
use crate::event::row::Members;
use crate::event::source_ranges;
use crate::json::{Json, Kind};

/// Judges one row; `payload` are the facts of its `data` where its type has any.
pub(crate) fn judge(kind: RowKind, row: &Members<'_>, payload: Option<&Payload<'_>>) -> Option<Breach> {
    if kind == RowKind::RetiredDispatch && !row.is_ignorable() {
        let message = "the event type was retired before format 4";
        return Some(Breach::unsupported(Stage::Admission, "R1", message));
    }
    let (rule, message) = judge_payload(row, payload?)?;
    Some(Breach::new(Stage::Admission, rule, message))
}

type Finding = Option<(&'static str, &'static str)>;

fn judge_payload(row: &Members<'_>, payload: &Payload<'_>) -> Finding {
    match payload.kind {
        RowKind::UserMessage => slot(payload.message.slot_fault(false)),
        RowKind::AssistantMessage => {
            slot(payload.message.slot_fault(false)).or_else(|| stream(payload.stream_fault))
        }
        RowKind::AssistantAttempt => stream(payload.stream_fault),
        RowKind::InboxSpliced | RowKind::TitleRequest => slot(payload.slots.fault),
        RowKind::TeamMessageQueued if payload.message.content.has_result => slot(Some(SlotFault::ToolResult)),
        RowKind::CompactionSummary => loose_blocks(payload),
        RowKind::Dispatch if payload.loose_result => slot(Some(SlotFault::ToolResult)),
        RowKind::RequestHeader => request_header(payload),
        RowKind::SystemMessage => {
            slot(payload.message.slot_fault(true)).or_else(|| broken("R8", system_message(payload)))
        }
        RowKind::ToolResult => slot(payload.message.slot_fault(true))
            .or_else(|| broken("R9", tool_result(payload)))
            .or_else(|| broken("R10", fork_result(row, payload))),
        RowKind::DeveloperMessage => {
            if payload.message.content.has_result {
                return slot(Some(SlotFault::ToolResult));
            }
            broken("R11", developer_message(payload))
        }
        _ => None,
    }
}

fn broken(rule: &'static str, fault: Option<&'static str>) -> Finding {
    fault.map(|message| (rule, message))
}

fn slot(fault: Option<SlotFault>) -> Finding {
    Some(match fault? {
        SlotFault::PluginSource => ("R3", "a message has the retired source kind `plugin`"),
        SlotFault::DeveloperRole => ("R4", "a message outside `developer/message` has the role `developer`"),
        SlotFault::ToolChange => ("R4", "a message outside `developer/message` has a tool-change block"),
        SlotFault::ToolResult => ("R5", "a block is of the retired type `tool-result`"),
    })
}

fn loose_blocks(payload: &Payload<'_>) -> Finding {
    if payload.loose_result {
        return slot(Some(SlotFault::ToolResult));
    }
    payload.loose_change.then_some(("R5", "the text of a compaction has a tool-change block"))
}

fn stream(fault: Option<StreamFault>) -> Finding {
    Some(match fault? {
        StreamFault::Start => {
            ("R6", "a `block-start` in the stream is of a type that assistants do not write")
        }
        StreamFault::End => ("R6", "a `block-end` in the stream is of a type that assistants do not write"),
    })
}

fn request_header(payload: &Payload<'_>) -> Finding {
    let header = &payload.header;
    if !payload.is_object || !header.is_object {
        return Some(("R2", "a `request/header` has no `header` object"));
    }
    if header.has_system {
        return Some(("R2", "a `request/header` has the retired field `system`"));
    }
    header.has_bad_defer_loading.then_some(("R7", "a tool's `deferLoading` is not `true`"))
}

fn system_message(payload: &Payload<'_>) -> Option<&'static str> {
    let message = &payload.message;
    if !payload.is_object || !message.is_object {
        return Some("a `system/message` has no `message` object");
    }
    if !is_positive(payload.turn) || !is_positive(payload.step) {
        return Some("`turn` or `step` of a `system/message` is not a count of at least 1");
    }
    if !is_text(message.id) {
        return Some("a system message has no `id`");
    }
    if !message.has_role("system") {
        return Some("the message of a `system/message` is not of role `system`");
    }
    if !message.content.is_array {
        return Some("the content of a system message is not an array");
    }
    message.content.system_fault
}

fn tool_result(payload: &Payload<'_>) -> Option<&'static str> {
    let message = &payload.message;
    if !payload.is_object || !message.is_object {
        return Some("a `tool/result` has no `message` object");
    }
    if !is_text(message.id) {
        return Some("a tool result has no `id`");
    }
    if !message.has_role("tool") {
        return Some("the message of a `tool/result` is not of role `tool`");
    }
    if !is_text(message.tool_call_id) || !is_same_string(message.tool_call_id, message.source.call_id) {
        return Some("`toolCallId` of a tool result is empty or not that of its source");
    }
    if !message.source.is_kind("tool") {
        return Some("the source kind of a tool result is not `tool`");
    }
    if !message.content.is_array || message.content.has_result {
        return Some("the content of a tool result is not an array, or nests a result");
    }
    if message.is_error.is_some_and(|value| value.kind() != Kind::Bool) {
        return Some("`isError` of a tool result is not a boolean");
    }
    (payload.error.is_some() && !message.is_error())
        .then_some("a tool result has an `error` while `isError` is not `true`")
}

/// R10: what a fork writes for a call that its parent never started. Ids of that form with another error code are not judged.
fn fork_result(row: &Members<'_>, payload: &Payload<'_>) -> Option<&'static str> {
    const PREFIX: &str = "forked-tool-result-";
    let message = &payload.message;
    let id = message.id.and_then(|id| id.as_str()).unwrap_or_default();
    if !payload.has_error_code("TOOL_NOT_STARTED") || !id.starts_with(PREFIX) {
        return None;
    }
    let call_id = message.source.call_id.and_then(|id| id.as_str()).unwrap_or_default();
    let Some(number) = repair_number(&id, PREFIX, &call_id).and_then(canonical_count) else {
        return Some("the id of a forked result is not `forked-tool-result-<callId>-<seq>`");
    };
    if !payload.has_error_name("ToolNotStartedError") || !message.is_error() {
        return Some("a forked result is not marked as an error named `ToolNotStartedError`");
    }
    if !message.content.is_one_text() {
        return Some("a forked result is not exactly one text");
    }
    let seq = row.seq().unwrap_or(0);
    let is_placed = if is_replacement(row.surface_op()) {
        number < seq && cites_exactly(row.source_event_seqs(), seq, number)
    } else {
        is_word(row.surface_op(), "append") && number == seq && row.source_event_seqs().is_none()
    };
    (!is_placed).then_some("the id or the sources of a forked result do not fit where it stands")
}

fn is_replacement(surface_op: Option<Json<'_>>) -> bool {
    is_object(surface_op) && surface_op.is_some_and(|op| is_word(op.get("op"), "replace"))
}

fn cites_exactly(sources: Option<Json<'_>>, seq: u64, only: u64) -> bool {
    let decoded = sources.and_then(|sources| source_ranges::decode(sources.text(), seq).ok());
    decoded.is_some_and(|sources| sources.runs() == [(only, only)])
}

fn developer_message(payload: &Payload<'_>) -> Option<&'static str> {
    let message = &payload.message;
    if !payload.is_object || !message.is_object || !message.has_role("developer") {
        return Some("a `developer/message` has no message of role `developer`");
    }
    if !is_positive(payload.turn) || !is_positive(payload.step) {
        return Some("`turn` or `step` of a `developer/message` is not a count of at least 1");
    }
    if !is_text(message.id) {
        return Some("a developer message has no `id`");
    }
    if !message.content.is_array {
        return Some("the content of a developer message is not an array");
    }
    if !message.source.has_kind() {
        return Some("the source of a developer message has no kind, or the retired kind `plugin`");
    }
    if let Some(fault) = message.content.change_fault {
        return Some(fault);
    }
    let names_header = payload.header_seq.is_some_and(|seq| seq.as_count().is_some());
    match (message.content.additions.is_empty(), payload.header_seq.is_some()) {
        (false, _) if !names_header => {
            Some("a developer message adds tools but names no header by `headerSeq`")
        }
        (true, true) => Some("a developer message has `headerSeq` but adds no tool"),
        _ => None,
    }
}
