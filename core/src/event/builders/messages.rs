//! The five message events (`events.md` 4). Each builder has the blocks that its role may have, and no others.

use super::{IntoDraft, JsonText, Place, Usage, add_optional, add_text, array, invalid, require};
use crate::error::Result;
use crate::event::stream::StreamPacker;
use crate::event::{EventDraft, SurfaceOp};
use crate::json::{ObjectText, print_string};
use std::borrow::Cow;

/// The longest summary of a notice, in UTF-16 code units (`events.md` 4.5).
pub const NOTICE_SUMMARY_UNITS_MAX: usize = 120;

/// The summary of a notice at its permitted length: as it is up to 120 UTF-16 code units, else the first 119 and an ellipsis. A
/// character of two units is not cut in two: it goes as a whole.
///
/// ```
/// use dsh_session_core::event::builders::notice_summary;
/// assert_eq!(notice_summary("done"), "done");
/// assert_eq!(notice_summary(&"x".repeat(121)).chars().count(), 120);
/// ```
#[must_use]
pub fn notice_summary(text: &str) -> Cow<'_, str> {
    // A text has no more units of UTF-16 than bytes.
    if text.len() <= NOTICE_SUMMARY_UNITS_MAX || text.encode_utf16().count() <= NOTICE_SUMMARY_UNITS_MAX {
        return Cow::Borrowed(text);
    }
    let mut units = 0;
    let kept = text.chars().take_while(|character| {
        units += character.len_utf16();
        units < NOTICE_SUMMARY_UNITS_MAX
    });
    Cow::Owned(kept.chain(['…']).collect())
}

/// Who made a message (`events.md` 4.5).
#[derive(Clone, Debug)]
pub struct Source {
    kind: String,
    /// Further members: key and JSON text.
    members: Vec<(String, String)>,
}

impl Source {
    /// A producer of this kind.
    #[must_use]
    pub fn new(kind: impl Into<String>) -> Source {
        Source { kind: kind.into(), members: Vec::new() }
    }

    /// A human.
    #[must_use]
    pub fn user() -> Source {
        Source::new("user")
    }

    /// A notice of some producer, with one line for people, cut to the permitted length ([`notice_summary`]).
    #[must_use]
    pub fn notice(kind: impl Into<String>, summary: &str) -> Source {
        Source::new(kind).with("form", "notice").with("summary", &notice_summary(summary))
    }

    /// The message that a compaction puts in the place of others.
    #[must_use]
    pub fn compact_checkpoint(compaction_id: &str, source_command_id: Option<&str>) -> Source {
        let source = Source::new("compact-checkpoint").with("compactionId", compaction_id);
        match source_command_id {
            Some(id) => source.with("sourceCommandId", id),
            None => source,
        }
    }

    /// Adds a member that is a string.
    #[must_use]
    pub fn with(mut self, key: &str, value: &str) -> Source {
        let mut text = String::new();
        print_string(&mut text, value);
        self.members.push((key.to_owned(), text));
        self
    }

    /// Adds any member.
    #[must_use]
    pub fn with_json(mut self, key: &str, value: JsonText) -> Source {
        self.members.push((key.to_owned(), value.0));
        self
    }

    fn text(&self) -> Result<String> {
        require(self.kind != "plugin", "the source kind `plugin` is retired")?;
        let mut source = ObjectText::new();
        add_text(&mut source, "kind", &self.kind)?;
        for (key, value) in &self.members {
            source.json(key, value);
        }
        Ok(source.finish())
    }
}

/// The sorts of images that a message may have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MediaType {
    /// `image/png`.
    Png,
    /// `image/jpeg`.
    Jpeg,
    /// `image/webp`.
    Webp,
    /// `image/gif`.
    Gif,
}

impl MediaType {
    fn as_str(self) -> &'static str {
        match self {
            MediaType::Png => "image/png",
            MediaType::Jpeg => "image/jpeg",
            MediaType::Webp => "image/webp",
            MediaType::Gif => "image/gif",
        }
    }
}

/// A stored image, as a message refers to it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Image {
    /// Its name in the store of attachments.
    pub attachment_id: String,
    /// What sort of image it is.
    pub media_type: MediaType,
    /// Its size.
    pub bytes: u32,
    /// Its width and height, in pixels, both at least 1.
    pub dimensions: (u32, u32),
    /// Its name for people.
    pub name: Option<String>,
    /// Width and height before it was made smaller.
    pub original_dimensions: Option<(u32, u32)>,
}

fn add_dimensions(object: &mut ObjectText, (width, height): (u32, u32)) -> Result<()> {
    require(width >= 1 && height >= 1, "an image has a side of no pixels")?;
    object.number("width", width);
    object.number("height", height);
    Ok(())
}

impl Image {
    fn block(&self) -> Result<String> {
        let mut image = ObjectText::new();
        add_text(&mut image, "attachmentId", &self.attachment_id)?;
        image.string("mediaType", self.media_type.as_str());
        image.number("bytes", self.bytes);
        add_dimensions(&mut image, self.dimensions)?;
        add_optional(&mut image, "name", self.name.as_deref());
        if let Some(original) = self.original_dimensions {
            let mut sides = ObjectText::new();
            add_dimensions(&mut sides, original)?;
            image.json("originalDimensions", &sides.finish());
        }
        Ok(attachment_block("image", &image.finish()))
    }
}

/// A stored file, as a message refers to it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct File {
    /// Its name in the store of attachments.
    pub attachment_id: String,
    /// Its name for people.
    pub name: String,
    /// Its size.
    pub bytes: u64,
}

impl File {
    fn block(&self) -> Result<String> {
        let mut file = ObjectText::new();
        add_text(&mut file, "attachmentId", &self.attachment_id)?;
        file.string("name", &self.name);
        file.number("bytes", self.bytes);
        Ok(attachment_block("file", &file.finish()))
    }
}

fn attachment_block(kind: &str, attachment: &str) -> String {
    let mut block = ObjectText::new();
    block.string("type", kind);
    block.json("attachment", attachment);
    block.finish()
}

/// The JSON text of a block, or what is wrong with it, which is told when the message is made.
type Block = std::result::Result<String, String>;

fn checked(block: Result<String>) -> Block {
    block.map_err(|error| error.message().to_owned())
}

/// What all messages have.
#[derive(Clone, Debug)]
struct Parts {
    id: String,
    content: Vec<Block>,
    surface: SurfaceOp,
    sources: Option<Vec<u64>>,
}

impl Parts {
    fn new(id: impl Into<String>) -> Parts {
        Parts { id: id.into(), content: Vec::new(), surface: SurfaceOp::Append, sources: None }
    }

    fn push_text(&mut self, kind: &str, key: &str, text: &str) {
        let mut block = ObjectText::new();
        block.string("type", kind);
        block.string(key, text);
        self.content.push(Ok(block.finish()));
    }

    /// The message; `rest` are the members after its source.
    fn message(&mut self, role: &str, source: &Source, rest: impl FnOnce(&mut ObjectText)) -> Result<String> {
        let mut message = ObjectText::new();
        add_text(&mut message, "id", &self.id)?;
        message.string("role", role);
        let content =
            std::mem::take(&mut self.content).into_iter().collect::<std::result::Result<Vec<_>, _>>();
        let content = content.map_err(invalid)?;
        message.json("content", &array(content));
        message.json("source", &source.text()?);
        rest(&mut message);
        Ok(message.finish())
    }

    fn draft(self, kind: &str, data: String) -> Result<EventDraft> {
        let draft = EventDraft::new(kind, data)?.surface(self.surface);
        Ok(match self.sources {
            Some(seqs) => draft.source_event_seqs(seqs),
            None => draft,
        })
    }
}

/// What several builders have in common.
macro_rules! message_methods {
    ($($builder:ident: $($method:ident)*;)*) => {
        $(impl $builder { $(message_methods!(@ $method);)* })*
    };
    (@ text) => {
        /// Adds a block of text.
        #[must_use]
        pub fn and_text(mut self, text: &str) -> Self {
            self.parts.push_text("text", "text", text);
            self
        }
    };
    (@ image) => {
        /// Adds an image.
        #[must_use]
        pub fn and_image(mut self, image: &Image) -> Self {
            self.parts.content.push(checked(image.block()));
            self
        }
    };
    (@ place) => {
        /// Names the events that the message was made from.
        #[must_use]
        pub fn made_from(mut self, seqs: impl Into<Vec<u64>>) -> Self {
            self.parts.sources = Some(seqs.into());
            self
        }

        /// Puts the message in the place of those from one event to another, in the order of the surface, instead of at the end.
        #[must_use]
        pub fn replacing(mut self, start_seq: u64, end_seq: u64) -> Self {
            self.parts.surface = SurfaceOp::Replace { start_seq, end_seq };
            self
        }
    };
}

message_methods! {
    UserMessage: text image place;
    SystemMessage: text place;
    DeveloperMessage: text place;
    ToolResult: text image place;
    AssistantMessage: text;
}

/// `user/message`.
///
/// ```
/// use dsh_session_core::event::builders::{IntoDraft, UserMessage};
/// let event = UserMessage::text("m-1", "Hello").into_draft()?.build(0, 5)?;
/// assert_eq!(event.as_user_message().unwrap().message.text(), "Hello");
/// # Ok::<(), dsh_session_core::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct UserMessage {
    parts: Parts,
    source: Source,
}

impl UserMessage {
    /// A message without content. New messages get an id that no other has ([`Store::mint_message_id`](crate::Store::mint_message_id)).
    #[must_use]
    pub fn new(id: impl Into<String>, source: Source) -> UserMessage {
        UserMessage { parts: Parts::new(id), source }
    }

    /// What a human says.
    #[must_use]
    pub fn text(id: impl Into<String>, text: &str) -> UserMessage {
        UserMessage::new(id, Source::user()).and_text(text)
    }

    /// Adds a file.
    #[must_use]
    pub fn and_file(mut self, file: &File) -> UserMessage {
        self.parts.content.push(checked(file.block()));
        self
    }
}

impl IntoDraft for UserMessage {
    fn into_draft(mut self) -> Result<EventDraft> {
        let data = self.parts.message("user", &self.source, |_| ())?;
        self.parts.draft("user/message", data)
    }
}

/// `system/message`: the system prompt.
#[derive(Clone, Debug)]
pub struct SystemMessage {
    place: Place,
    parts: Parts,
}

impl SystemMessage {
    /// A prompt of one text.
    #[must_use]
    pub fn text(place: Place, id: impl Into<String>, text: &str) -> SystemMessage {
        SystemMessage { place, parts: Parts::new(id) }.and_text(text)
    }
}

impl IntoDraft for SystemMessage {
    fn into_draft(mut self) -> Result<EventDraft> {
        let mut data = self.place.object()?;
        data.json("message", &self.parts.message("system", &Source::new("system-prompt"), |_| ())?);
        self.parts.draft("system/message", data.finish())
    }
}

/// `developer/message`.
#[derive(Clone, Debug)]
pub struct DeveloperMessage {
    place: Place,
    parts: Parts,
    source: Source,
    /// Of the added tools; several only by mistake.
    header_seqs: Vec<u64>,
}

impl DeveloperMessage {
    /// A message without content.
    #[must_use]
    pub fn new(place: Place, id: impl Into<String>, source: Source) -> DeveloperMessage {
        DeveloperMessage { place, parts: Parts::new(id), source, header_seqs: Vec::new() }
    }

    /// Adds a tool, as the `request/header` at `header_seq` defines it. All of one message refer to one header.
    #[must_use]
    pub fn and_tool(mut self, header_seq: u64, name: &str) -> DeveloperMessage {
        self.push_change("tool-addition", name);
        self.header_seqs.push(header_seq);
        self
    }

    /// Takes a tool away.
    #[must_use]
    pub fn without_tool(mut self, name: &str) -> DeveloperMessage {
        self.push_change("tool-removal", name);
        self
    }

    fn push_change(&mut self, kind: &str, name: &str) {
        let mut block = ObjectText::new();
        block.string("type", kind);
        let added = add_text(&mut block, "toolName", name);
        self.parts.content.push(checked(added.map(|()| block.finish())));
    }
}

impl IntoDraft for DeveloperMessage {
    fn into_draft(mut self) -> Result<EventDraft> {
        let mut data = self.place.object()?;
        data.json("message", &self.parts.message("developer", &self.source, |_| ())?);
        if let Some(&seq) = self.header_seqs.first() {
            let is_one = self.header_seqs.iter().all(|&other| other == seq);
            require(is_one, "the tools of one message are defined in several headers")?;
            data.number("headerSeq", seq);
        }
        self.parts.draft("developer/message", data.finish())
    }
}

/// `assistant/message`.
///
/// ```
/// use dsh_session_core::event::builders::{AssistantMessage, IntoDraft, Place};
/// let place = Place { turn: 1, step: 1 };
/// let message = AssistantMessage::new(place, "a-1", "acme", "large").and_tool_call("c-1", "read", "{}");
/// let event = message.into_draft()?.build(4, 5)?;
/// let view = event.as_assistant_message().unwrap();
/// assert_eq!(view.message.tool_calls().next().unwrap().name, "read");
/// # Ok::<(), dsh_session_core::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct AssistantMessage {
    place: Place,
    parts: Parts,
    provider: String,
    model: String,
    replay_state: Option<JsonText>,
    stream: StreamPacker,
    usage: Option<Usage>,
    is_interrupted: bool,
}

impl AssistantMessage {
    /// A message without content of a model of a provider.
    #[must_use]
    pub fn new(
        place: Place,
        id: impl Into<String>,
        provider: impl Into<String>,
        model: impl Into<String>,
    ) -> AssistantMessage {
        AssistantMessage {
            place,
            parts: Parts::new(id),
            provider: provider.into(),
            model: model.into(),
            replay_state: None,
            stream: StreamPacker::new(),
            usage: None,
            is_interrupted: false,
        }
    }

    /// Adds a block of reasoning.
    #[must_use]
    pub fn and_reasoning(mut self, text: &str) -> AssistantMessage {
        self.parts.push_text("reasoning", "text", text);
        self
    }

    /// Asks for a tool. `arguments` is the model's text, as it came.
    #[must_use]
    pub fn and_tool_call(mut self, id: &str, name: &str, arguments: &str) -> AssistantMessage {
        let mut block = ObjectText::new();
        block.string("type", "tool-call");
        let named = add_text(&mut block, "id", id).and_then(|()| add_text(&mut block, "name", name));
        block.string("arguments", arguments);
        self.parts.content.push(checked(named.map(|()| block.finish())));
        self
    }

    /// How it arrived.
    #[must_use]
    pub fn stream(mut self, stream: StreamPacker) -> AssistantMessage {
        self.stream = stream;
        self
    }

    /// What it cost.
    #[must_use]
    pub fn usage(mut self, usage: Usage) -> AssistantMessage {
        self.usage = Some(usage);
        self
    }

    /// What the provider wants back with the message in later requests.
    #[must_use]
    pub fn replay_state(mut self, state: JsonText) -> AssistantMessage {
        self.replay_state = Some(state);
        self
    }

    /// Says that it was cut off by a cancellation. Calls that were never started are left out of such a message.
    #[must_use]
    pub fn interrupted(mut self) -> AssistantMessage {
        self.is_interrupted = true;
        self
    }
}

impl IntoDraft for AssistantMessage {
    fn into_draft(mut self) -> Result<EventDraft> {
        let is_named = !self.provider.is_empty() && !self.model.is_empty();
        require(is_named, "the provider or model of an assistant message is empty")?;
        let mut source = Source::new("model").with("provider", &self.provider).with("model", &self.model);
        if let Some(state) = self.replay_state {
            source = source.with_json("replayState", state);
        }
        let mut data = self.place.object()?;
        data.json("message", &self.parts.message("assistant", &source, |_| ())?);
        data.json("stream", &self.stream.finish());
        if let Some(usage) = self.usage {
            data.json("usage", &usage.text());
        }
        if self.is_interrupted {
            data.boolean("interrupted", true);
        }
        self.parts.draft("assistant/message", data.finish())
    }
}

/// `tool/result`: the answer to a call.
#[derive(Clone, Debug)]
pub struct ToolResult {
    place: Place,
    parts: Parts,
    call_id: String,
    is_error: bool,
    error: Option<ToolError>,
    meta: Option<JsonText>,
}

/// Why a tool failed.
#[derive(Clone, Debug)]
struct ToolError {
    name: String,
    code: String,
    reason: Option<String>,
}

impl ToolError {
    fn text(&self) -> Result<String> {
        let mut error = ObjectText::new();
        add_text(&mut error, "name", &self.name)?;
        add_text(&mut error, "code", &self.code)?;
        add_optional(&mut error, "reason", self.reason.as_deref());
        Ok(error.finish())
    }
}

impl ToolResult {
    /// An answer without content.
    #[must_use]
    pub fn new(place: Place, id: impl Into<String>, call_id: impl Into<String>) -> ToolResult {
        let (parts, call_id) = (Parts::new(id), call_id.into());
        ToolResult { place, parts, call_id, is_error: false, error: None, meta: None }
    }

    /// Tells the model that the call failed.
    #[must_use]
    pub fn failed(mut self) -> ToolResult {
        self.is_error = true;
        self
    }

    /// Tells the model that the call failed, and everybody else why.
    #[must_use]
    pub fn error(mut self, name: &str, code: &str, reason: Option<&str>) -> ToolResult {
        let reason = reason.map(str::to_owned);
        self.error = Some(ToolError { name: name.to_owned(), code: code.to_owned(), reason });
        self.failed()
    }

    /// What is kept beside the answer and never shown to the model.
    #[must_use]
    pub fn meta(mut self, meta: JsonText) -> ToolResult {
        self.meta = Some(meta);
        self
    }
}

impl IntoDraft for ToolResult {
    fn into_draft(mut self) -> Result<EventDraft> {
        require(!self.call_id.is_empty(), "a tool result names no call")?;
        let mut data = self.place.object()?;
        let source = Source::new("tool").with("callId", &self.call_id);
        let (call_id, is_error) = (self.call_id, self.is_error);
        let message = self.parts.message("tool", &source, |message| {
            message.string("toolCallId", &call_id);
            if is_error {
                message.boolean("isError", true);
            }
        })?;
        data.json("message", &message);
        if let Some(error) = self.error {
            data.json("error", &error.text()?);
        }
        if let Some(meta) = self.meta {
            data.json("meta", meta.as_str());
        }
        self.parts.draft("tool/result", data.finish())
    }
}
