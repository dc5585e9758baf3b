//! What a person would read (`query.md` 8.3): everything that was said, also where the model no longer sees it.

use crate::event::facts::{is_word, members};
use crate::event::{Event, SurfaceOp};
use crate::json::{Json, ObjectText};
use std::collections::HashMap;

/// One entry of a transcript, ready for JSON.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TranscriptEntry {
    seq: u64,
    kind: &'static str,
    /// The members after `kind` and `seq`.
    rest: String,
}

impl TranscriptEntry {
    /// The seq of the event that it stands for.
    #[must_use]
    pub fn seq(&self) -> u64 {
        self.seq
    }

    /// `user`, `context`, `assistant`, `tool`, `marker` or `status`.
    #[must_use]
    pub fn kind(&self) -> &'static str {
        self.kind
    }

    /// `{kind, seq, …}`.
    #[must_use]
    pub fn to_json(&self) -> String {
        let mut out = ObjectText::new();
        out.string("kind", self.kind);
        out.number("seq", self.seq);
        let text = out.finish();
        let head = text.strip_suffix('}').unwrap_or_default();
        match self.rest.strip_prefix('{') {
            Some("}") | None => text,
            Some(rest) => format!("{head},{rest}"),
        }
    }
}

/// The transcript of a whole log.
///
/// ```
/// use dsh_session_core::{Event, query::transcript};
/// let row = r#"{"type":"user/message","seq":0,"time":7,"data":{"id":"m","role":"user","content":[{"type":"text","text":"hi"}],
///     "source":{"kind":"user"}},"surfaceOp":"append"}"#;
/// let entries = transcript(&[Event::from_row(row)?]);
/// assert_eq!(entries[0].to_json(), r#"{"kind":"user","seq":0,"blocks":[{"type":"text","text":"hi"}]}"#);
/// # Ok::<(), dsh_session_core::Error>(())
/// ```
#[must_use]
pub fn transcript(events: &[Event]) -> Vec<TranscriptEntry> {
    let names = ToolNames::of(events);
    events.iter().filter_map(|event| entry(event, &names)).collect()
}

fn entry(event: &Event, names: &ToolNames) -> Option<TranscriptEntry> {
    let mut out = ObjectText::new();
    let data = event.data();
    let is_appended = event.surface_op() == Some(SurfaceOp::Append);
    let kind = match event.kind() {
        "user/message" if is_appended => user(&mut out, data),
        "user/message" => marker(&mut out, event)?,
        "assistant/message" if is_appended => assistant(&mut out, data)?,
        "tool/result" if is_appended => tool(&mut out, data, names),
        "turn/end" => status(&mut out, data)?,
        _ => return None,
    };
    Some(TranscriptEntry { seq: event.seq(), kind, rest: out.finish() })
}

fn user(out: &mut ObjectText, data: Json<'_>) -> &'static str {
    let [content, source] = members(data, ["content", "source"]);
    let source_kind = source.and_then(|source| source.get("kind"));
    let is_user = is_word(source_kind, "user");
    if let (false, Some(kind)) = (is_user, source_kind) {
        out.json("sourceKind", kind.text());
    }
    out.json("blocks", &blocks(content, false));
    if is_user { "user" } else { "context" }
}

/// A replacement is silent, but for the checkpoint of a compaction, whose place is shown and whose text is not.
fn marker(out: &mut ObjectText, event: &Event) -> Option<&'static str> {
    let source = event.data().get("source").and_then(|source| source.get("kind"));
    let is_checkpoint = matches!(event.surface_op(), Some(SurfaceOp::Replace { .. }));
    if !is_checkpoint || !is_word(source, "compact-checkpoint") {
        return None;
    }
    out.string("marker", "compaction");
    Some("marker")
}

fn assistant(out: &mut ObjectText, data: Json<'_>) -> Option<&'static str> {
    let [message, interrupted] = members(data, ["message", "interrupted"]);
    let content = message.and_then(|message| message.get("content"))?;
    content.elements().next()?;
    out.json("blocks", &blocks(Some(content), true));
    let calls: Vec<String> = tool_calls(content)
        .map(|[id, name, arguments]| {
            let mut call = ObjectText::new();
            put(&mut call, &[("callId", id), ("name", name), ("arguments", arguments)]);
            call.finish()
        })
        .collect();
    out.json("toolCalls", &format!("[{}]", calls.join(",")));
    if interrupted.and_then(|interrupted| interrupted.as_bool()) == Some(true) {
        out.boolean("interrupted", true);
    }
    Some("assistant")
}

/// `id`, `name` and `arguments` of each call in a message.
fn tool_calls(content: Json<'_>) -> impl Iterator<Item = [Option<Json<'_>>; 3]> {
    content.elements().filter_map(|block| {
        let [kind, id, name, arguments] = members(block, ["type", "id", "name", "arguments"]);
        is_word(kind, "tool-call").then_some([id, name, arguments])
    })
}

fn tool(out: &mut ObjectText, data: Json<'_>, names: &ToolNames) -> &'static str {
    let message = data.get("message");
    let [source, call_id, is_error, content] = match message {
        Some(message) => members(message, ["source", "toolCallId", "isError", "content"]),
        None => [None; 4],
    };
    let call_id = source.and_then(|source| source.get("callId")).or(call_id);
    if let Some(id) = call_id {
        out.json("callId", id.text());
        if let Some(name) = id.as_str().and_then(|id| names.get(&id)) {
            out.string("name", name);
        }
    }
    out.boolean("isError", is_error.and_then(|is_error| is_error.as_bool()).unwrap_or(false));
    out.json("blocks", &blocks(content, false));
    "tool"
}

fn status(out: &mut ObjectText, data: Json<'_>) -> Option<&'static str> {
    let [kind, error] = members(data.get("reason")?, ["kind", "error"]);
    let outcomes = ["error", "aborted", "max-tokens", "interrupted"];
    let outcome = outcomes.into_iter().find(|outcome| is_word(kind, outcome))?;
    out.string("outcome", outcome);
    if let Some(message) = error.and_then(|error| error.get("message")) {
        out.json("message", message.text());
    }
    Some("status")
}

/// Tool calls of an assistant stand in a list of their own.
fn blocks(content: Option<Json<'_>>, is_assistant: bool) -> String {
    let content = content.into_iter().flat_map(|content| content.elements());
    let blocks: Vec<String> = content.filter_map(|block| block_json(block, is_assistant)).collect();
    format!("[{}]", blocks.join(","))
}

fn block_json(block: Json<'_>, is_assistant: bool) -> Option<String> {
    let [kind, text, attachment] = members(block, ["type", "text", "attachment"]);
    let mut out = ObjectText::new();
    if is_word(kind, "text") || is_word(kind, "reasoning") {
        put(&mut out, &[("type", kind), ("text", text)]);
    } else if is_assistant && is_word(kind, "tool-call") {
        return None;
    } else if let Some(attachment) = attachment {
        let [id, media_type] = members(attachment, ["attachmentId", "mediaType"]);
        out.string("type", "attachment");
        put(&mut out, &[("attachmentId", id), ("mediaType", media_type)]);
    } else {
        out.string("type", "other");
        put(&mut out, &[("blockType", kind)]);
    }
    Some(out.finish())
}

/// Those that are there, as they are written.
fn put(out: &mut ObjectText, members: &[(&str, Option<Json<'_>>)]) {
    for (key, value) in members {
        if let Some(value) = value {
            out.json(key, value.text());
        }
    }
}

/// The name of each call, by its id: that of the `tool/call`, else that of the block that asked for it.
struct ToolNames {
    called: HashMap<String, String>,
    asked: HashMap<String, String>,
}

impl ToolNames {
    fn of(events: &[Event]) -> ToolNames {
        let mut names = ToolNames { called: HashMap::new(), asked: HashMap::new() };
        let text = |value: Option<Json<'_>>| value.and_then(|value| value.as_str()).map(String::from);
        for event in events {
            let data = event.data();
            match event.kind() {
                "tool/call" => {
                    let [id, name] = members(data, ["callId", "name"]);
                    names.called.extend(text(id).zip(text(name)));
                }
                "assistant/message" => {
                    let content = data.get("message").and_then(|message| message.get("content"));
                    let calls = content.into_iter().flat_map(tool_calls);
                    names.asked.extend(calls.filter_map(|[id, name, _]| text(id).zip(text(name))));
                }
                _ => {}
            }
        }
        names
    }

    fn get(&self, id: &str) -> Option<&str> {
        self.called.get(id).or_else(|| self.asked.get(id)).map(String::as_str)
    }
}
