//! What an event of a stored log must be like whatever stands around it: vocabulary and event-local acceptance (`format.md` 5.6,
//! 5.7), for good rows that passed admission.
//!
//! Rules carry the codes that an append of the same event would be refused with (`session.md` 20).

use super::breach::{Breach, Stage};
use super::facts::{Message, Payload, RowKind, is_same_string, is_text, is_word};
use crate::event::row::Members;
use crate::event::source_ranges;
use crate::json::Json;

type Verdict = Result<(), (&'static str, &'static str)>;

/// Judges one good row; `payload` are the facts of its `data` where its type has any. Unknown types are not judged here: whether
/// one may be read depends on what the host registered ([`unknown_type`]).
pub(crate) fn judge(
    kind: RowKind,
    row: &Members<'_>,
    seq: u64,
    payload: Option<&Payload<'_>>,
) -> Option<Breach> {
    if !kind.is_known() {
        return None;
    }
    if payload.is_some_and(|payload| kind == RowKind::RequestHeader && is_word(payload.reason, "fallback")) {
        let message = "a `request/header` has the retired reason `fallback`";
        return Some(Breach::unsupported(Stage::Vocabulary, "HEADER_REASON_INVALID", message));
    }
    let metadata = if kind.is_surface() { surface_metadata(kind, row, seq) } else { no_metadata(row) };
    let judged = metadata.and_then(|()| payload.map_or(Ok(()), judge_payload));
    let (rule, message) = judged.err()?;
    Some(Breach::new(Stage::Acceptance, rule, message))
}

/// A row of a type that this build does not know: `None` where it may be kept without being understood.
pub(crate) fn unknown_type(kind: &str, is_ignorable: bool) -> Option<Breach> {
    if is_ignorable {
        return None;
    }
    let message =
        format!("the event type `{kind}` is not known to this build, and the event is not ignorable");
    Some(Breach::unsupported(Stage::Vocabulary, "A3", message))
}

/// An event of a type that the host registered: like any other known type outside the five, it has no place on the surface.
pub(crate) fn registered_type(has_surface_op: bool, has_sources: bool) -> Option<Breach> {
    let (rule, message) = absent_metadata(has_surface_op, has_sources).err()?;
    Some(Breach::new(Stage::Acceptance, rule, message))
}

fn no_metadata(row: &Members<'_>) -> Verdict {
    absent_metadata(row.surface_op().is_some(), row.source_event_seqs().is_some())
}

fn absent_metadata(has_surface_op: bool, has_sources: bool) -> Verdict {
    if has_surface_op {
        return Err(("SURFACE_OP_FORBIDDEN", "an event outside the five message types has `surfaceOp`"));
    }
    if has_sources {
        return Err(("SOURCES_FORBIDDEN", "an event outside the five message types has `sourceEventSeqs`"));
    }
    Ok(())
}

fn surface_metadata(kind: RowKind, row: &Members<'_>, seq: u64) -> Verdict {
    let op = row.surface_op().ok_or(("SURFACE_OP_REQUIRED", "a message event has no `surfaceOp`"))?;
    if !is_word(Some(op), "append") {
        let (start, end) = replaced_range(op)
            .ok_or(("SURFACE_OP_INVALID", "`surfaceOp` is neither `append` nor a well-formed replacement"))?;
        if start >= seq || end >= seq {
            return Err(("SURFACE_REF_NOT_EARLIER", "a replacement names an event that is not earlier"));
        }
    }
    let Some(sources) = row.source_event_seqs() else { return Ok(()) };
    if kind == RowKind::AssistantMessage {
        return Err(("SOURCES_FORBIDDEN", "an `assistant/message` has `sourceEventSeqs`"));
    }
    // Distinct and earlier is part of decoding, without which the row were bad.
    match source_ranges::decode(sources.text(), seq) {
        Ok(decoded) if !decoded.is_empty() => Ok(()),
        _ => Err(("SOURCES_INVALID", "`sourceEventSeqs` is empty")),
    }
}

/// The ends of a replacement; `None` for anything that has not exactly its three keys.
fn replaced_range(op: Json<'_>) -> Option<(u64, u64)> {
    let (mut has_op, mut start, mut end) = (false, None, None);
    for (key, value) in op.members() {
        match &*key {
            "op" => has_op = is_word(Some(value), "replace"),
            "startSeq" => start = value.as_count(),
            "endSeq" => end = value.as_count(),
            _ => return None,
        }
    }
    if has_op { start.zip(end) } else { None }
}

fn judge_payload(payload: &Payload<'_>) -> Verdict {
    match payload.kind {
        RowKind::RequestHeader => request_header(payload),
        kind if kind.is_surface() => message(payload.kind, &payload.message).and_then(|()| flag(payload)),
        _ => Ok(()),
    }
}

fn request_header(payload: &Payload<'_>) -> Verdict {
    // That it is an object without `system` was judged by R2.
    if payload.header.has_empty_tools {
        return Err(("HEADER_EMPTY_TOOLS", "a `request/header` has an empty `tools`"));
    }
    if payload.header.has_empty_defaults {
        return Err(("HEADER_EMPTY_DEFAULTS", "a `request/header` has an empty `adapterDefaults`"));
    }
    Ok(())
}

fn flag(payload: &Payload<'_>) -> Verdict {
    if payload.error.is_some() && !payload.message.is_error() {
        return Err((
            "TOOL_ERROR_WITHOUT_FLAG",
            "a tool result has an `error` while `isError` is not `true`",
        ));
    }
    Ok(())
}

fn message(kind: RowKind, message: &Message<'_>) -> Verdict {
    shape(kind, message).map_err(|what| ("MESSAGE_SHAPE_INVALID", what))
}

fn shape(kind: RowKind, message: &Message<'_>) -> Result<(), &'static str> {
    let (role, wrong_role) = match kind {
        RowKind::SystemMessage => ("system", "the message of a `system/message` is not of role `system`"),
        RowKind::DeveloperMessage => {
            ("developer", "the message of a `developer/message` is not of role `developer`")
        }
        RowKind::AssistantMessage => {
            ("assistant", "the message of an `assistant/message` is not of role `assistant`")
        }
        RowKind::ToolResult => ("tool", "the message of a `tool/result` is not of role `tool`"),
        _ => ("user", "the message of a `user/message` is not of role `user`"),
    };
    let source = &message.source;
    let is_whole = |holds: bool, what: &'static str| if holds { Ok(()) } else { Err(what) };
    is_whole(message.is_object, "the message is no object")?;
    is_whole(is_text(message.id), "the message has no `id`")?;
    is_whole(message.has_role(role), wrong_role)?;
    is_whole(source.is_object && is_text(source.kind), "the message's `source` has no `kind`")?;
    is_whole(message.content.is_array, "the message's `content` is not an array")?;
    match kind {
        RowKind::SystemMessage => is_whole(
            source.is_kind("system-prompt"),
            "the source kind of a system message is not `system-prompt`",
        ),
        RowKind::AssistantMessage => is_whole(
            source.is_kind("model") && is_text(source.provider) && is_text(source.model),
            "the source of an assistant message is not `model` with `provider` and `model`",
        ),
        RowKind::ToolResult => is_whole(
            source.is_kind("tool")
                && is_text(source.call_id)
                && is_same_string(source.call_id, message.tool_call_id),
            "the source of a tool result is not `tool` with the `callId` of the message",
        ),
        _ => Ok(()),
    }
}
