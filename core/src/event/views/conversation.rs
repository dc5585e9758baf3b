//! Turns, steps, messages, calls and requests (`events.md` 2.1, 7, 8).

use super::EventView;
use super::field::{Field, Malformed, member, objects};
use super::message::{LlmFailure, Message, TokenUsage};
use crate::event::facts::is_word;
use crate::event::stream::{Chunks, unpack};
use crate::json::Json;
use std::borrow::Cow;

objects! {
    /// A turn begins.
    TurnStart("turn/start") {
        turn: u64 = "turn",
    }

    /// A turn ends.
    TurnEnd("turn/end") {
        turn: u64 = "turn",
        reason: TurnEndReason<'a> = "reason",
    }

    /// A step of a turn begins.
    StepStart("step/start") {
        turn: u64 = "turn",
        step: u64 = "step",
    }

    /// A step ends.
    StepEnd("step/end") {
        turn: u64 = "turn",
        step: u64 = "step",
    }

    /// The system prompt.
    SystemMessage("system/message") {
        turn: u64 = "turn",
        step: u64 = "step",
        message: Message<'a> = "message",
    }

    /// What the program tells the model beside the conversation: tools that came and went, notes.
    DeveloperMessage("developer/message") {
        turn: u64 = "turn",
        step: u64 = "step",
        message: Message<'a> = "message",
        /// Where the added tools are defined.
        header_seq: Option<u64> = "headerSeq",
    }

    /// What the model said.
    AssistantMessage("assistant/message") {
        turn: u64 = "turn",
        step: u64 = "step",
        message: Message<'a> = "message",
        /// How it arrived; see [`chunks`](Self::chunks).
        stream: Json<'a> = "stream",
        /// The usage of the event itself; see [`usage`](Self::usage).
        own_usage: Option<TokenUsage<'a>> = "usage",
        /// Whether it was cut off by a cancellation.
        interrupted: Option<bool> = "interrupted",
    }

    /// The stream of an attempt that gave no message.
    AssistantAttempt("assistant/attempt") {
        turn: u64 = "turn",
        step: u64 = "step",
        stream: Json<'a> = "stream",
    }

    /// A tool is started.
    ToolCall("tool/call") {
        turn: u64 = "turn",
        step: u64 = "step",
        call_id: Cow<'a, str> = "callId",
        name: Cow<'a, str> = "name",
        /// The model's text, which may be no JSON.
        arguments: Cow<'a, str> = "arguments",
    }

    /// What a tool gave back.
    ToolResult("tool/result") {
        turn: u64 = "turn",
        step: u64 = "step",
        message: Message<'a> = "message",
        /// Never shown to the model.
        error: Option<ToolError<'a>> = "error",
        /// Never shown to the model.
        meta: Option<Json<'a>> = "meta",
    }

    /// Why a tool failed.
    ToolError {
        name: Cow<'a, str> = "name",
        code: Cow<'a, str> = "code",
        reason: Option<Cow<'a, str>> = "reason",
    }

    /// What requests ask with from here on.
    RequestHeader("request/header") {
        header: EpochHeader<'a> = "header",
        /// `initial`, `resume`, `change` or `series`.
        reason: Cow<'a, str> = "reason",
        starts_series: Option<bool> = "startsSeries",
    }

    /// Model, settings and tools of requests (`events.md` 7.3).
    EpochHeader {
        config: LlmCallConfig<'a> = "config",
        adapter_defaults: Option<AdapterDefaults<'a>> = "adapterDefaults",
        tools: Option<Vec<ToolSchema<'a>>> = "tools",
    }

    /// Settings of a call (`events.md` 7.1).
    LlmCallConfig {
        provider: Cow<'a, str> = "provider",
        model: Cow<'a, str> = "model",
        reasoning_effort: Option<Cow<'a, str>> = "reasoningEffort",
        temperature: Option<f64> = "temperature",
        max_tokens: Option<i64> = "maxTokens",
        stop: Option<Vec<Cow<'a, str>>> = "stop",
    }

    /// Which settings the adapter chose, not the user.
    AdapterDefaults {
        reasoning_effort: Option<bool> = "reasoningEffort",
        max_tokens: Option<bool> = "maxTokens",
    }

    /// A tool as the model is told of it (`events.md` 7.2).
    ToolSchema {
        name: Cow<'a, str> = "name",
        description: Cow<'a, str> = "description",
        /// A JSON Schema.
        parameters: Json<'a> = "parameters",
        defer_loading: Option<bool> = "deferLoading",
    }

    /// Where requests go from here on. What it leaves out does not hold any more.
    RequestContext("request/context") {
        provider: Cow<'a, str> = "provider",
        model: Cow<'a, str> = "model",
        /// In tokens.
        context_window: Option<f64> = "contextWindow",
        /// `in-history`.
        system_prompt_update: Option<Cow<'a, str>> = "systemPromptUpdate",
    }

    /// The seed of a session ends.
    EndSeed("session/end-seed") {
        /// Whether the events before it were copied from another session.
        inherited: Option<bool> = "inherited",
    }
}

/// A message of the user, or of who speaks in the user's place; the message is the whole `data`.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct UserMessage<'a> {
    /// The message.
    pub message: Message<'a>,
}

impl<'a> UserMessage<'a> {
    /// The whole `data`.
    #[must_use]
    pub fn json(&self) -> Json<'a> {
        self.message.json()
    }
}

impl<'a> Field<'a> for UserMessage<'a> {
    fn read(json: Json<'a>) -> Result<Self, Malformed> {
        Field::read(json).map(|message| UserMessage { message })
    }
}

impl<'a> EventView<'a> for UserMessage<'a> {
    const KIND: &'static str = "user/message";
}

impl<'a> AssistantMessage<'a> {
    /// The chunks in which it arrived, with their times.
    pub fn chunks(&self) -> Chunks<'a> {
        unpack(self.stream)
    }

    /// The tokens of the call: those of the event itself, where it has none those of the last `usage` chunk (`events.md` 2.1).
    #[must_use]
    pub fn usage(&self) -> Option<TokenUsage<'a>> {
        self.own_usage.clone().or_else(|| last_usage(self.stream))
    }
}

impl<'a> AssistantAttempt<'a> {
    /// The chunks that arrived, with their times.
    pub fn chunks(&self) -> Chunks<'a> {
        unpack(self.stream)
    }

    /// The tokens of the attempt, as its last `usage` chunk tells them.
    #[must_use]
    pub fn usage(&self) -> Option<TokenUsage<'a>> {
        last_usage(self.stream)
    }
}

/// The last usage that a stream tells. Tokens were spent whatever else is wrong with the stream, so records are not judged here.
fn last_usage(stream: Json<'_>) -> Option<TokenUsage<'_>> {
    let chunks = stream.elements().filter(|record| is_word(record.get("type"), "chunk"));
    let usages =
        chunks.filter_map(|record| record.get("chunk")).filter(|it| is_word(it.get("type"), "usage"));
    usages.last().and_then(|chunk| TokenUsage::read(chunk.get("usage")?).ok())
}

impl PartialEq for LlmCallConfig<'_> {
    /// The six settings; an absent `stop` differs from an empty one.
    fn eq(&self, other: &Self) -> bool {
        self.provider == other.provider
            && self.model == other.model
            && self.reasoning_effort == other.reasoning_effort
            && self.temperature == other.temperature
            && self.max_tokens == other.max_tokens
            && self.stop == other.stop
    }
}

impl PartialEq for ToolSchema<'_> {
    /// By printed text, so the order of keys counts.
    fn eq(&self, other: &Self) -> bool {
        self.json().text() == other.json().text() || self.json().printed() == other.json().printed()
    }
}

impl PartialEq for AdapterDefaults<'_> {
    fn eq(&self, other: &Self) -> bool {
        (self.reasoning_effort, self.max_tokens) == (other.reasoning_effort, other.max_tokens)
    }
}

impl PartialEq for EpochHeader<'_> {
    /// Equal settings, markers and tools in order (`events.md` 7.3).
    fn eq(&self, other: &Self) -> bool {
        self.config == other.config
            && self.adapter_defaults == other.adapter_defaults
            && self.tools == other.tools
    }
}

/// Why a turn ended (`events.md` 8). The set is open.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum TurnEndReason<'a> {
    /// `completed`.
    Completed,
    /// `aborted`.
    Aborted(AbortReason<'a>),
    /// `blocked`.
    Blocked,
    /// `error`.
    Error(LlmFailure<'a>),
    /// `max-tokens`: a step of the turn hit its ceiling.
    MaxTokens,
    /// `interrupted`: closed when the log was taken up again.
    Interrupted,
    /// `forked`: closed when the log was copied up to a place in the turn.
    Forked,
    /// Any other kind.
    Unknown(Json<'a>),
}

/// Who ended a turn before its time.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum AbortReason<'a> {
    /// `user`.
    User,
    /// `parent`: the session that this one works for.
    Parent,
    /// `hook`, with what it said.
    Hook(Cow<'a, str>),
    /// `disposed`.
    Disposed,
    /// `legacy`: of a log that did not tell.
    Legacy,
    /// Any other kind.
    Unknown(Json<'a>),
}

/// The `kind` of an object.
fn kind_of(json: Json<'_>) -> Result<Cow<'_, str>, Malformed> {
    member("kind", json.get("kind"))
}

impl<'a> Field<'a> for TurnEndReason<'a> {
    fn read(json: Json<'a>) -> Result<Self, Malformed> {
        Ok(match &*kind_of(json)? {
            "completed" => TurnEndReason::Completed,
            "aborted" => TurnEndReason::Aborted(member("reason", json.get("reason"))?),
            "blocked" => TurnEndReason::Blocked,
            "error" => TurnEndReason::Error(member("error", json.get("error"))?),
            "max-tokens" => TurnEndReason::MaxTokens,
            "interrupted" => TurnEndReason::Interrupted,
            "forked" => TurnEndReason::Forked,
            _ => TurnEndReason::Unknown(json),
        })
    }
}

impl<'a> Field<'a> for AbortReason<'a> {
    fn read(json: Json<'a>) -> Result<Self, Malformed> {
        Ok(match &*kind_of(json)? {
            "user" => AbortReason::User,
            "parent" => AbortReason::Parent,
            "hook" => AbortReason::Hook(member("reason", json.get("reason"))?),
            "disposed" => AbortReason::Disposed,
            "legacy" => AbortReason::Legacy,
            _ => AbortReason::Unknown(json),
        })
    }
}
