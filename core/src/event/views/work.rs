//! What is done to a session: compactions, titles, feedback, retries, nested runs (`events.md` 2.2 to 2.4).

use super::field::{OrNull, objects};
use super::message::{ContentBlock, LlmFailure, Message, TokenUsage};
use crate::json::Json;
use std::borrow::Cow;

objects! {
    /// A compaction begins.
    CompactionStart("compaction/start") {
        compaction_id: Cow<'a, str> = "compactionId",
        source_command_id: Option<Cow<'a, str>> = "sourceCommandId",
        /// The open turn; `null` between turns.
        turn: OrNull<u64> = "turn",
    }

    /// What a compaction puts in the place of messages.
    CompactionSummary("compaction/summary") {
        compaction_id: Cow<'a, str> = "compactionId",
        source_command_id: Option<Cow<'a, str>> = "sourceCommandId",
        summary: Vec<ContentBlock<'a>> = "summary",
        shadowed_range: SeqRange<'a> = "shadowedRange",
        shadowed_seqs: Vec<u64> = "shadowedSeqs",
        shadowed_token_count: f64 = "shadowedTokenCount",
        provider: Cow<'a, str> = "provider",
        model: Cow<'a, str> = "model",
        max_tokens: Option<f64> = "maxTokens",
        usage: Option<TokenUsage<'a>> = "usage",
        /// What the model said, before it was made into a summary.
        raw_output: Option<Vec<ContentBlock<'a>>> = "rawOutput",
        llm_stream_call: Option<bool> = "llmStreamCall",
    }

    /// The price of a replacement that no model was asked for.
    CompactionPrune("compaction/prune") {
        shadowed_range: SeqRange<'a> = "shadowedRange",
        shadowed_seqs: Vec<u64> = "shadowedSeqs",
        shadowed_token_count: f64 = "shadowedTokenCount",
    }

    /// A compaction ends.
    CompactionEnd("compaction/end") {
        compaction_id: Cow<'a, str> = "compactionId",
        source_command_id: Option<Cow<'a, str>> = "sourceCommandId",
        /// As in its start.
        turn: OrNull<u64> = "turn",
        error: Option<Cow<'a, str>> = "error",
    }

    /// Two ends, both counted in.
    SeqRange {
        start: u64 = "start",
        end: u64 = "end",
    }

    /// Images leave what the model sees.
    ImageOffload("image/offload") {
        targets: Vec<OffloadTarget<'a>> = "targets",
    }

    /// Images of one message.
    OffloadTarget {
        /// The event of the message.
        seq: u64 = "seq",
        /// Which of its images, counted from 0.
        image_indexes: Vec<u64> = "imageIndexes",
    }

    /// The session gets a title.
    SessionTitle("session/title") {
        title: Cow<'a, str> = "title",
        /// The messages it was made from; none for one that the user gave.
        message_seqs: Vec<u64> = "messageSeqs",
        source: TitleSource<'a> = "source",
    }

    /// Who made a title.
    TitleSource {
        /// `fallback`, `provider` or `user`.
        kind: Cow<'a, str> = "kind",
        provider: Option<Cow<'a, str>> = "provider",
        model: Option<ModelRoute<'a>> = "model",
    }

    /// A model of a provider.
    ModelRoute {
        provider: Cow<'a, str> = "provider",
        model: Cow<'a, str> = "model",
    }

    /// A model is asked for a title.
    TitleRequest("session/title-llm-request") {
        title_provider: Cow<'a, str> = "titleProvider",
        message_seqs: Vec<u64> = "messageSeqs",
        route: ModelRoute<'a> = "route",
        system: Cow<'a, str> = "system",
        messages: Vec<Message<'a>> = "messages",
        max_tokens: i64 = "maxTokens",
        reasoning_effort: Option<Cow<'a, str>> = "reasoningEffort",
    }

    /// The user's opinion of the session.
    FeedbackRecord("feedback/record") {
        category: Option<Cow<'a, str>> = "category",
        text: Option<Cow<'a, str>> = "text",
    }

    /// The user's opinion of a message, new or changed.
    FeedbackMessagePut("feedback/message-put") {
        session_id: Cow<'a, str> = "sessionId",
        item: FeedbackItem<'a> = "item",
    }

    /// An opinion of a message.
    FeedbackItem {
        message_id: Cow<'a, str> = "messageId",
        /// `positive` or `negative`.
        rating: Cow<'a, str> = "rating",
        category: Option<Cow<'a, str>> = "category",
        note: Option<Cow<'a, str>> = "note",
        version: Cow<'a, str> = "version",
        /// Milliseconds since 1970.
        created_at: i64 = "createdAt",
        /// Milliseconds since 1970.
        updated_at: i64 = "updatedAt",
    }

    /// The user's opinion of a message is taken back.
    FeedbackMessageDelete("feedback/message-delete") {
        session_id: Cow<'a, str> = "sessionId",
        message_id: Cow<'a, str> = "messageId",
    }

    /// An upload took the events up to here.
    DeliveryAccepted("session-log-deepseek/delivery-accepted") {
        session_id: Cow<'a, str> = "sessionId",
        /// Absent means 0.
        session_format_version: Option<i64> = "sessionFormatVersion",
        through_seq: u64 = "throughSeq",
    }

    /// A failed call of a model is to be repeated.
    LlmRetry("llm/retry") {
        turn: u64 = "turn",
        step: u64 = "step",
        retry_id: Cow<'a, str> = "retryId",
        /// Which repetition, from 1.
        retry: u64 = "retry",
        provider: Cow<'a, str> = "provider",
        policy_key: Cow<'a, str> = "policyKey",
        delay_ms: f64 = "delayMs",
        failure: LlmFailure<'a> = "failure",
        /// `normal` or `always`.
        mode: Cow<'a, str> = "mode",
        /// With mode `normal`.
        max_retries: Option<u64> = "maxRetries",
    }

    /// A failed call of a model is repeated.
    LlmRetryStarted("llm/retry-started") {
        turn: u64 = "turn",
        step: u64 = "step",
        retry_id: Cow<'a, str> = "retryId",
        retry: u64 = "retry",
    }

    /// Another model is chosen.
    ModelSelection("model/selection") {
        provider: Cow<'a, str> = "provider",
        model: Cow<'a, str> = "model",
        reasoning_effort: Option<Cow<'a, str>> = "reasoningEffort",
    }

    /// A tool starts another.
    PtcDispatchStart("tool/ptc-dispatch-start") {
        root_call_id: Cow<'a, str> = "rootCallId",
        parent_call_id: Cow<'a, str> = "parentCallId",
        sub_call_id: Cow<'a, str> = "subCallId",
        name: Cow<'a, str> = "name",
        arguments: Json<'a> = "arguments",
    }

    /// A tool that another started has ended.
    PtcDispatch("tool/ptc-dispatch") {
        root_call_id: Cow<'a, str> = "rootCallId",
        parent_call_id: Cow<'a, str> = "parentCallId",
        sub_call_id: Cow<'a, str> = "subCallId",
        name: Cow<'a, str> = "name",
        arguments: Json<'a> = "arguments",
        content: Vec<ContentBlock<'a>> = "content",
        is_error: bool = "isError",
        error: Option<super::ToolError<'a>> = "error",
        meta: Option<Json<'a>> = "meta",
    }

    /// A model is asked to search the web.
    WebSearchRequest("web/deepseek-search-llm-request") {
        api_version: Cow<'a, str> = "apiVersion",
        endpoint: Cow<'a, str> = "endpoint",
        body: Json<'a> = "body",
    }
}
