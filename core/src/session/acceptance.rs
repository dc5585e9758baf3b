//! What an event must be like on its own to be accepted (`session.md` 4, step 5; `events.md` 2, 4.2, 4.3, 7.3).
//!
//! The rules of single rows of stored logs say nearly the same with other numbers, and were judged while the row was made. So an event
//! that broke none of them only needs what those leave out; one that broke some is looked at again, slowly, for the code that tells its
//! writer what is wrong. What only a stored log forbids is left to the checker of stored logs.

use crate::error::{Code, Error, Result};
use crate::event::Event;
use crate::event::breach::Stage;
use crate::event::facts::{RowKind, is_object, is_same_string, is_text, is_word, members};
use crate::event::verdict::RowVerdict;
use crate::json::{Json, Kind};

/// A refusal for one of the codes of `session.md` 20.
pub(super) fn refused(code: &'static str, message: impl Into<String>) -> Error {
    Error::new(Code::EventRefused, message).with_rule(code)
}

type Verdict = Result<(), (&'static str, &'static str)>;

/// Judges one event by itself.
pub(super) fn judge(event: &Event, verdict: &RowVerdict) -> Result<()> {
    let judged = match &verdict.breach {
        None => unjudged(event, verdict),
        // Row admission has numbers of its own, R1 to R11; what comes after it speaks in the codes of sessions.
        Some(breach) if breach.stage() == Stage::Admission => every_rule(event, verdict),
        Some(breach) => return Err(refused(breach.rule(), breach.message())),
    };
    judged.map_err(|(code, message)| refused(code, message))
}

/// The rules that stored logs do not have.
fn unjudged(event: &Event, verdict: &RowVerdict) -> Verdict {
    match verdict.kind {
        RowKind::RequestHeader => request_header(event.data()),
        RowKind::AssistantMessage | RowKind::AssistantAttempt => settlement(event, verdict),
        _ => Ok(()),
    }
}

fn every_rule(event: &Event, verdict: &RowVerdict) -> Verdict {
    let data = event.data();
    if verdict.kind == RowKind::RequestHeader {
        return request_header(data);
    }
    if verdict.kind.is_surface() {
        let message = match verdict.kind {
            RowKind::UserMessage => Some(data),
            _ => data.get("message"),
        };
        let message = message.filter(|message| message.kind() == Kind::Object);
        let message = message.ok_or(("MESSAGE_SHAPE_INVALID", "the event has no message object"))?;
        developer_rules(verdict.kind, data, message)?;
        message_shape(verdict.kind, message)?;
        let is_error = message.get("isError").and_then(|flag| flag.as_bool()) == Some(true);
        if verdict.kind == RowKind::ToolResult && data.get("error").is_some() && !is_error {
            let what = "a tool result has an `error` while `isError` is not `true`";
            return Err(("TOOL_ERROR_WITHOUT_FLAG", what));
        }
    }
    unjudged(event, verdict)
}

/// `events.md` 7.3, canonical form.
fn request_header(data: Json<'_>) -> Verdict {
    const CONFIG: &str = "HEADER_CONFIG_INVALID";
    const REASON: &str = "HEADER_REASON_INVALID";
    let header = data.get("header").filter(|header| header.kind() == Kind::Object);
    let header = header.ok_or(("DATA_NOT_OBJECT", "a `request/header` has no `header` object"))?;
    let [config, defaults, tools, system] = members(header, ["config", "adapterDefaults", "tools", "system"]);
    let require = |holds: bool, code, message| if holds { Ok(()) } else { Err((code, message)) };
    require(system.is_none(), "HEADER_SYSTEM_RETIRED", "a `request/header` has the retired field `system`")?;
    let is_empty = |value: Option<Json<'_>>, kind| {
        value.is_some_and(|value| {
            value.kind() == kind && value.elements().next().is_none() && value.members().next().is_none()
        })
    };
    require(!is_empty(tools, Kind::Array), "HEADER_EMPTY_TOOLS", "`tools` is empty; leave it out")?;
    let has_no_defaults = is_empty(defaults, Kind::Object);
    require(!has_no_defaults, "HEADER_EMPTY_DEFAULTS", "`adapterDefaults` is empty; leave it out")?;
    let config = config.filter(|config| config.kind() == Kind::Object);
    let config = config.ok_or((CONFIG, "a `request/header` has no `config` object"))?;
    let [provider, model, effort, tokens] =
        members(config, ["provider", "model", "reasoningEffort", "maxTokens"]);
    let names = is_text(provider) && is_text(model);
    require(names, CONFIG, "`config` lacks a non-empty `provider` or `model`")?;
    require(effort.is_none() || is_text(effort), CONFIG, "`config.reasoningEffort` is empty")?;
    if let Some(defaults) = defaults {
        require(defaults.kind() == Kind::Object, CONFIG, "`adapterDefaults` is no object")?;
        for (key, value) in defaults.members() {
            let set = match &*key {
                "reasoningEffort" => effort,
                "maxTokens" => tokens,
                _ => return Err((CONFIG, "`adapterDefaults` has a key that is no default")),
            };
            let is_marked = value.as_bool() == Some(true) && set.is_some();
            require(is_marked, CONFIG, "a default of `adapterDefaults` is not `true`, or not in `config`")?;
        }
    }
    let [reason, starts_series] = members(data, ["reason", "startsSeries"]);
    let is_reason = ["initial", "resume", "change", "series"].iter().any(|word| is_word(reason, word));
    require(is_reason, REASON, "`reason` is not `initial`, `resume`, `change` or `series`")?;
    let is_series = starts_series.is_none_or(|value| value.as_bool() == Some(true));
    require(is_series, REASON, "`startsSeries` is there and not `true`")
}

/// `turn`, `step` and `stream` of what a model sent (`events.md` 2.1).
fn settlement(event: &Event, verdict: &RowVerdict) -> Verdict {
    let [turn, step] = members(event.data(), ["turn", "step"]);
    let is_position = |value: Option<Json<'_>>| value.is_some_and(|value| value.as_count().is_some());
    match is_position(turn) && is_position(step) && !verdict.lacks_stream {
        true => Ok(()),
        false => Err(("SETTLEMENT_INVALID", "`turn` and `step` are no positions, or `stream` is no array")),
    }
}

/// `events.md` 4.3, rules 1 to 3.
fn developer_rules(kind: RowKind, data: Json<'_>, message: Json<'_>) -> Verdict {
    let is_developer = kind == RowKind::DeveloperMessage;
    if is_developer != is_word(message.get("role"), "developer") {
        let what = "role `developer` and type `developer/message` occur only together";
        return Err(("DEVELOPER_ROLE_MISMATCH", what));
    }
    let mut adds = false;
    for block in message.get("content").iter().flat_map(|content| content.elements()) {
        let [kind, name, tool] = members(block, ["type", "toolName", "tool"]);
        let is_addition = is_word(kind, "tool-addition");
        if !is_addition && !is_word(kind, "tool-removal") {
            continue;
        }
        if !is_developer {
            let what = "a tool-change block stands outside a developer message";
            return Err(("TOOL_CHANGE_REQUIRES_DEVELOPER", what));
        }
        if !is_text(name) {
            return Err(("TOOL_CHANGE_NAME_EMPTY", "a tool-change block has no `toolName`"));
        }
        if is_addition && tool.is_some() {
            return Err(("TOOL_ADDITION_INLINE", "a `tool-addition` has a `tool`; name a header instead"));
        }
        adds |= is_addition;
    }
    let header_seq = data.get("headerSeq");
    let names_header = header_seq.is_some_and(|seq| seq.as_count().is_some());
    match is_developer && (adds != header_seq.is_some() || adds && !names_header) {
        true => Err(("HEADER_SEQ_MISMATCH", "`headerSeq` must name a header exactly where tools are added")),
        false => Ok(()),
    }
}

/// `events.md` 4.2.
fn message_shape(kind: RowKind, message: Json<'_>) -> Verdict {
    let [id, role, content, source, call_id, is_error] =
        members(message, ["id", "role", "content", "source", "toolCallId", "isError"]);
    let wanted = match kind {
        RowKind::SystemMessage => "system",
        RowKind::DeveloperMessage => "developer",
        RowKind::AssistantMessage => "assistant",
        RowKind::ToolResult => "tool",
        _ => "user",
    };
    let source_kind = source.filter(|_| is_object(source)).and_then(|source| source.get("kind"));
    let of_source = |key| source.and_then(|source| source.get(key));
    let is_source = match kind {
        RowKind::SystemMessage => is_word(source_kind, "system-prompt"),
        RowKind::AssistantMessage => {
            is_word(source_kind, "model") && is_text(of_source("provider")) && is_text(of_source("model"))
        }
        RowKind::ToolResult => {
            let named = of_source("callId");
            is_word(source_kind, "tool") && is_text(named) && is_same_string(named, call_id)
        }
        _ => is_text(source_kind),
    };
    let shape: [(bool, &'static str); 5] = [
        (is_text(id), "the message has no `id`"),
        (is_word(role, wanted), "the message's `role` does not fit the event type"),
        (content.is_some_and(|content| content.kind() == Kind::Array), "`content` is not an array"),
        (is_source, "`source` does not say who made the message, as this event type needs it"),
        (is_error.is_none_or(|flag| flag.kind() == Kind::Bool), "`isError` is not a boolean"),
    ];
    match shape.iter().find(|(holds, _)| !holds) {
        Some((_, message)) => Err(("MESSAGE_SHAPE_INVALID", message)),
        None => Ok(()),
    }
}
