//! Turns, steps, calls and attempts (`events.md` 2.1, 6, 7.4, 8).

use super::{IntoDraft, add_number, add_optional, add_ordinal, add_text};
use crate::error::Result;
use crate::event::EventDraft;
use crate::event::stream::StreamPacker;
use crate::json::ObjectText;

/// A step of a turn; both count from 1.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Place {
    /// The turn.
    pub turn: u64,
    /// The step in it.
    pub step: u64,
}

impl Place {
    /// An object that begins with both.
    pub(super) fn object(self) -> Result<ObjectText> {
        let mut data = ObjectText::new();
        add_ordinal(&mut data, "turn", self.turn)?;
        add_ordinal(&mut data, "step", self.step)?;
        Ok(data)
    }
}

/// `turn/start`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TurnStart {
    /// From 1, one more than the turn before.
    pub turn: u64,
}

impl IntoDraft for TurnStart {
    fn into_draft(self) -> Result<EventDraft> {
        let mut data = ObjectText::new();
        add_ordinal(&mut data, "turn", self.turn)?;
        EventDraft::new("turn/start", data.finish())
    }
}

/// `turn/end`.
#[derive(Clone, Debug, PartialEq)]
pub struct TurnEnd {
    /// The open turn.
    pub turn: u64,
    /// Why it ends.
    pub reason: EndReason,
}

/// Why a turn ends (`events.md` 8). That it was interrupted or forked is for [closers](crate::session::closers) to say.
#[derive(Clone, Debug, PartialEq)]
pub enum EndReason {
    /// All was done.
    Completed,
    /// Somebody stopped it.
    Aborted(AbortReason),
    /// It cannot go on.
    Blocked,
    /// The model failed.
    Error(Failure),
    /// A step hit its ceiling of tokens.
    MaxTokens,
}

/// Who stopped a turn.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum AbortReason {
    /// The user.
    User,
    /// The session that this one works for.
    Parent,
    /// A hook, with what it says.
    Hook(String),
    /// The program shuts down.
    Disposed,
}

impl IntoDraft for TurnEnd {
    fn into_draft(self) -> Result<EventDraft> {
        let mut data = ObjectText::new();
        add_ordinal(&mut data, "turn", self.turn)?;
        data.json("reason", &self.reason.text()?);
        EventDraft::new("turn/end", data.finish())
    }
}

impl EndReason {
    fn text(&self) -> Result<String> {
        let mut reason = ObjectText::new();
        let kind = match self {
            EndReason::Completed => "completed",
            EndReason::Aborted(_) => "aborted",
            EndReason::Blocked => "blocked",
            EndReason::Error(_) => "error",
            EndReason::MaxTokens => "max-tokens",
        };
        reason.string("kind", kind);
        match self {
            EndReason::Aborted(abort) => reason.json("reason", &abort.text()),
            EndReason::Error(failure) => reason.json("error", &failure.text()?),
            _ => {}
        }
        Ok(reason.finish())
    }
}

impl AbortReason {
    fn text(&self) -> String {
        let mut reason = ObjectText::new();
        match self {
            AbortReason::User => reason.string("kind", "user"),
            AbortReason::Parent => reason.string("kind", "parent"),
            AbortReason::Disposed => reason.string("kind", "disposed"),
            AbortReason::Hook(says) => {
                reason.string("kind", "hook");
                reason.string("reason", says);
            }
        }
        reason.finish()
    }
}

/// Why a call of a model failed (`events.md` 7.4).
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Failure {
    /// What happened.
    pub message: String,
    /// A code; `UNKNOWN` where nothing better is known.
    pub code: String,
    /// Of HTTP.
    pub status: Option<u16>,
    /// How long the provider asks to wait, in milliseconds.
    pub provider_retry_after_ms: Option<f64>,
    /// The provider's name of the request.
    pub request_id: Option<String>,
    /// With code `IMAGE_OFFLOAD_REQUIRED`: how many images are too many.
    pub offload_images: Option<u32>,
}

impl Failure {
    /// A failure of which nothing else is known.
    #[must_use]
    pub fn new(code: impl Into<String>, message: impl Into<String>) -> Failure {
        Failure { code: code.into(), message: message.into(), ..Failure::default() }
    }

    fn text(&self) -> Result<String> {
        let mut failure = ObjectText::new();
        failure.string("message", &self.message);
        add_text(&mut failure, "code", &self.code)?;
        if let Some(status) = self.status {
            failure.number("status", status);
        }
        if let Some(delay) = self.provider_retry_after_ms {
            add_number(&mut failure, "providerRetryAfterMs", delay)?;
        }
        add_optional(&mut failure, "requestId", self.request_id.as_deref());
        if let Some(images) = self.offload_images {
            failure.number("offloadImages", images);
        }
        Ok(failure.finish())
    }
}

/// `step/start`.
///
/// ```
/// use dsh_session_core::event::builders::{IntoDraft, Place, StepStart};
/// let event = StepStart(Place { turn: 1, step: 2 }).into_draft()?.build(0, 5)?;
/// assert_eq!(event.row(), r#"{"type":"step/start","seq":0,"time":5,"data":{"turn":1,"step":2}}"#);
/// assert!(StepStart(Place { turn: 1, step: 0 }).into_draft().is_err());
/// # Ok::<(), dsh_session_core::Error>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StepStart(pub Place);

/// `step/end`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StepEnd(pub Place);

impl IntoDraft for StepStart {
    fn into_draft(self) -> Result<EventDraft> {
        EventDraft::new("step/start", self.0.object()?.finish())
    }
}

impl IntoDraft for StepEnd {
    fn into_draft(self) -> Result<EventDraft> {
        EventDraft::new("step/end", self.0.object()?.finish())
    }
}

/// `tool/call`: a call that an assistant message asked for is started, with the same name and arguments.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ToolCall {
    /// The open step.
    pub place: Place,
    /// The id of the call.
    pub call_id: String,
    /// The tool.
    pub name: String,
    /// The model's text, as it came.
    pub arguments: String,
}

impl IntoDraft for ToolCall {
    fn into_draft(self) -> Result<EventDraft> {
        let mut data = self.place.object()?;
        add_text(&mut data, "callId", &self.call_id)?;
        add_text(&mut data, "name", &self.name)?;
        data.string("arguments", &self.arguments);
        EventDraft::new("tool/call", data.finish())
    }
}

/// `assistant/attempt`: what arrived of an answer that became no message.
#[derive(Clone, Debug)]
pub struct AssistantAttempt {
    /// The open step.
    pub place: Place,
    /// The chunks.
    pub stream: StreamPacker,
}

impl IntoDraft for AssistantAttempt {
    fn into_draft(self) -> Result<EventDraft> {
        let mut data = self.place.object()?;
        data.json("stream", &self.stream.finish());
        EventDraft::new("assistant/attempt", data.finish())
    }
}

/// Tokens of one call (`events.md` 6). The counts are disjoint: input without what was cached.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Usage {
    /// Input, without cached input.
    pub input_tokens: u32,
    /// Output.
    pub output_tokens: u32,
    /// All, where the provider says so.
    pub total_tokens: Option<u32>,
    /// Input read from the provider's cache.
    pub cache_read_tokens: Option<u32>,
    /// Input written to the provider's cache.
    pub cache_write_tokens: Option<u32>,
    /// The part of the output that is reasoning.
    pub reasoning_tokens: Option<u32>,
}

impl Usage {
    pub(super) fn text(self) -> String {
        let mut usage = ObjectText::new();
        usage.number("inputTokens", self.input_tokens);
        usage.number("outputTokens", self.output_tokens);
        let optional = [
            ("totalTokens", self.total_tokens),
            ("cacheReadTokens", self.cache_read_tokens),
            ("cacheWriteTokens", self.cache_write_tokens),
            ("reasoningTokens", self.reasoning_tokens),
        ];
        for (key, tokens) in optional {
            if let Some(tokens) = tokens {
                usage.number(key, tokens);
            }
        }
        usage.finish()
    }
}
