//! Messages, their blocks and who made them (`events.md` 4), tokens and failures (6, 7.4).

use super::field::{Field, Malformed, objects};
use crate::json::Json;
use std::borrow::Cow;

objects! {
    /// A message (`events.md` 4.1).
    Message {
        /// Its identity through every change of its form.
        id: Cow<'a, str> = "id",
        /// `system`, `developer`, `user`, `assistant` or `tool`.
        role: Cow<'a, str> = "role",
        content: Vec<ContentBlock<'a>> = "content",
        /// Who made it.
        source: Source<'a> = "source",
        /// Results of tools: the call that is answered.
        tool_call_id: Option<Cow<'a, str>> = "toolCallId",
        /// Results of tools: whether the call failed.
        is_error: Option<bool> = "isError",
    }

    /// Who made a message (`events.md` 4.5). The set of kinds is open.
    Source {
        /// `user`, `model`, `tool`, …
        kind: Cow<'a, str> = "kind",
    }

    /// A `text` or `reasoning` block.
    TextBlock {
        text: Cow<'a, str> = "text",
    }

    /// An `image` block.
    ImageBlock {
        attachment: ImageRef<'a> = "attachment",
        /// Whether the image was taken out of what the model sees.
        offloaded: Option<bool> = "offloaded",
    }

    /// A stored image.
    ImageRef {
        attachment_id: Cow<'a, str> = "attachmentId",
        /// `image/png`, `image/jpeg`, `image/webp` or `image/gif`.
        media_type: Cow<'a, str> = "mediaType",
        bytes: u64 = "bytes",
        /// In pixels.
        width: u64 = "width",
        /// In pixels.
        height: u64 = "height",
        name: Option<Cow<'a, str>> = "name",
        /// Before the image was made smaller.
        original_dimensions: Option<Dimensions<'a>> = "originalDimensions",
    }

    /// The sides of an image, in pixels.
    Dimensions {
        width: u64 = "width",
        height: u64 = "height",
    }

    /// A `file` block.
    FileBlock {
        attachment: FileRef<'a> = "attachment",
    }

    /// A stored file.
    FileRef {
        attachment_id: Cow<'a, str> = "attachmentId",
        name: Cow<'a, str> = "name",
        bytes: u64 = "bytes",
    }

    /// A `tool-call` block: what the model asks for.
    ToolCallBlock {
        id: Cow<'a, str> = "id",
        name: Cow<'a, str> = "name",
        /// The model's text, which may be no JSON.
        arguments: Cow<'a, str> = "arguments",
    }

    /// A `tool-addition` or `tool-removal` block.
    ToolChangeBlock {
        tool_name: Cow<'a, str> = "toolName",
    }

    /// Tokens of one call (`events.md` 6). The counts are disjoint.
    TokenUsage {
        /// Without cached input.
        input_tokens: i64 = "inputTokens",
        output_tokens: i64 = "outputTokens",
        total_tokens: Option<i64> = "totalTokens",
        cache_read_tokens: Option<i64> = "cacheReadTokens",
        cache_write_tokens: Option<i64> = "cacheWriteTokens",
        reasoning_tokens: Option<i64> = "reasoningTokens",
    }

    /// Why a call of a model failed (`events.md` 7.4). The set of codes is open.
    LlmFailure {
        message: Cow<'a, str> = "message",
        code: Cow<'a, str> = "code",
        /// Of HTTP.
        status: Option<i64> = "status",
        provider_retry_after_ms: Option<f64> = "providerRetryAfterMs",
        request_id: Option<Cow<'a, str>> = "requestId",
        /// With code `IMAGE_OFFLOAD_REQUIRED`.
        offload_images: Option<i64> = "offloadImages",
    }
}

impl TokenUsage<'_> {
    /// Tokens of input that are paid for: plain, read from and written to the cache.
    #[must_use]
    pub fn billed_input_tokens(&self) -> i64 {
        let cached = [self.cache_read_tokens, self.cache_write_tokens];
        cached.into_iter().flatten().fold(self.input_tokens, i64::saturating_add)
    }
}

impl<'a> Source<'a> {
    /// A member that is a string.
    #[must_use]
    pub fn text(&self, key: &str) -> Option<Cow<'a, str>> {
        self.json().get(key)?.as_str()
    }

    /// The provider of the model that made the message, for kind `model`.
    #[must_use]
    pub fn provider(&self) -> Option<Cow<'a, str>> {
        self.text("provider")
    }

    /// The model that made the message, for kind `model`.
    #[must_use]
    pub fn model(&self) -> Option<Cow<'a, str>> {
        self.text("model")
    }

    /// The call that is answered, for kinds `tool` and `user-question-reply`.
    #[must_use]
    pub fn call_id(&self) -> Option<Cow<'a, str>> {
        self.text("callId")
    }

    /// The compaction, for kind `compact-checkpoint`.
    #[must_use]
    pub fn compaction_id(&self) -> Option<Cow<'a, str>> {
        self.text("compactionId")
    }

    /// One line for people, where the form is `notice`.
    #[must_use]
    pub fn summary(&self) -> Option<Cow<'a, str>> {
        self.text("summary")
    }
}

/// A block of a message (`events.md` 4.4).
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum ContentBlock<'a> {
    /// `text`.
    Text(TextBlock<'a>),
    /// `reasoning`.
    Reasoning(TextBlock<'a>),
    /// `image`.
    Image(ImageBlock<'a>),
    /// `file`.
    File(FileBlock<'a>),
    /// `tool-call`.
    ToolCall(ToolCallBlock<'a>),
    /// `tool-addition`.
    ToolAddition(ToolChangeBlock<'a>),
    /// `tool-removal`.
    ToolRemoval(ToolChangeBlock<'a>),
    /// A block of another type, or not of the form of its type: nothing in the format keeps a log from having either.
    Unknown(Json<'a>),
}

impl<'a> ContentBlock<'a> {
    /// The whole block.
    #[must_use]
    pub fn json(&self) -> Json<'a> {
        match self {
            ContentBlock::Text(block) | ContentBlock::Reasoning(block) => block.json(),
            ContentBlock::Image(block) => block.json(),
            ContentBlock::File(block) => block.json(),
            ContentBlock::ToolCall(block) => block.json(),
            ContentBlock::ToolAddition(block) | ContentBlock::ToolRemoval(block) => block.json(),
            ContentBlock::Unknown(json) => *json,
        }
    }

    fn known(json: Json<'a>) -> Result<Self, Malformed> {
        let kind = json.get("type").and_then(|kind| kind.as_str()).unwrap_or_default();
        Ok(match &*kind {
            "text" => ContentBlock::Text(Field::read(json)?),
            "reasoning" => ContentBlock::Reasoning(Field::read(json)?),
            "image" => ContentBlock::Image(Field::read(json)?),
            "file" => ContentBlock::File(Field::read(json)?),
            "tool-call" => ContentBlock::ToolCall(Field::read(json)?),
            "tool-addition" => ContentBlock::ToolAddition(Field::read(json)?),
            "tool-removal" => ContentBlock::ToolRemoval(Field::read(json)?),
            _ => ContentBlock::Unknown(json),
        })
    }
}

impl<'a> Field<'a> for ContentBlock<'a> {
    fn read(json: Json<'a>) -> Result<Self, Malformed> {
        Ok(ContentBlock::known(json).unwrap_or(ContentBlock::Unknown(json)))
    }
}

impl<'a> Message<'a> {
    /// The text of all `text` blocks, one after the other.
    #[must_use]
    pub fn text(&self) -> Cow<'a, str> {
        let mut texts = self.content.iter().filter_map(|block| match block {
            ContentBlock::Text(block) => Some(&block.text),
            _ => None,
        });
        let Some(first) = texts.next() else { return Cow::Borrowed("") };
        texts.fold(first.clone(), |all, text| all + text.clone())
    }

    /// The calls that it asks for.
    pub fn tool_calls(&self) -> impl Iterator<Item = &ToolCallBlock<'a>> {
        self.content.iter().filter_map(|block| match block {
            ContentBlock::ToolCall(call) => Some(call),
            _ => None,
        })
    }
}
