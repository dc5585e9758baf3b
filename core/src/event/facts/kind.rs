//! The event types that rules tell apart.

use crate::event::is_known_type;

/// What sort of row an event type makes, as far as rules go.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum RowKind {
    /// No type of the vocabulary, or none that is a string.
    #[default]
    Unknown,
    /// A known type that has no rules but those of its metadata.
    Plain,
    SystemMessage,
    DeveloperMessage,
    UserMessage,
    AssistantMessage,
    ToolResult,
    AssistantAttempt,
    InboxSpliced,
    TeamMessageQueued,
    TurnStart,
    TurnEnd,
    StepStart,
    StepEnd,
    ToolCall,
    DispatchStart,
    Dispatch,
    RequestHeader,
    RequestContext,
    Retry,
    RetryStarted,
    Title,
    TitleRequest,
    CommandRun,
    CommandDone,
    CompactionStart,
    CompactionSummary,
    CompactionPrune,
    CompactionEnd,
    EndSeed,
    Delivery,
    Catalog,
    /// One of the two types that format 4 gave up (`events.md` 10).
    RetiredDispatch,
}

impl RowKind {
    pub(crate) fn of(kind: &str) -> RowKind {
        match kind {
            "system/message" => RowKind::SystemMessage,
            "developer/message" => RowKind::DeveloperMessage,
            "user/message" => RowKind::UserMessage,
            "assistant/message" => RowKind::AssistantMessage,
            "tool/result" => RowKind::ToolResult,
            "assistant/attempt" => RowKind::AssistantAttempt,
            "agent/inbox/spliced" => RowKind::InboxSpliced,
            "team/message/queued" => RowKind::TeamMessageQueued,
            "turn/start" => RowKind::TurnStart,
            "turn/end" => RowKind::TurnEnd,
            "step/start" => RowKind::StepStart,
            "step/end" => RowKind::StepEnd,
            "tool/call" => RowKind::ToolCall,
            "tool/ptc-dispatch-start" => RowKind::DispatchStart,
            "tool/ptc-dispatch" => RowKind::Dispatch,
            "request/header" => RowKind::RequestHeader,
            "request/context" => RowKind::RequestContext,
            "llm/retry" => RowKind::Retry,
            "llm/retry-started" => RowKind::RetryStarted,
            "session/title" => RowKind::Title,
            "session/title-llm-request" => RowKind::TitleRequest,
            "command/run" => RowKind::CommandRun,
            "command/done" => RowKind::CommandDone,
            "compaction/start" => RowKind::CompactionStart,
            "compaction/summary" => RowKind::CompactionSummary,
            "compaction/prune" => RowKind::CompactionPrune,
            "compaction/end" => RowKind::CompactionEnd,
            "session/end-seed" => RowKind::EndSeed,
            "session-log-deepseek/delivery-accepted" => RowKind::Delivery,
            "subagent/catalog" => RowKind::Catalog,
            "tool/code-dispatch" | "tool/code-dispatch-start" => RowKind::RetiredDispatch,
            _ if is_known_type(kind) => RowKind::Plain,
            _ => RowKind::Unknown,
        }
    }

    /// Whether the type is in the vocabulary.
    pub(crate) fn is_known(self) -> bool {
        !matches!(self, RowKind::Unknown | RowKind::RetiredDispatch)
    }

    /// Whether events of the type stand on the surface.
    pub(crate) fn is_surface(self) -> bool {
        use RowKind::{AssistantMessage, DeveloperMessage, SystemMessage, ToolResult, UserMessage};
        matches!(self, SystemMessage | DeveloperMessage | UserMessage | AssistantMessage | ToolResult)
    }

    /// Whether something in the `data` of the type is read while the row is scanned: a rule of a single row asks for it, or the rows
    /// are so many that they should not be walked again by the rules that bind them.
    pub(crate) fn has_facts(self) -> bool {
        use RowKind::{
            AssistantAttempt, CompactionSummary, Dispatch, InboxSpliced, RequestHeader, TeamMessageQueued,
            TitleRequest,
        };
        self.is_short()
            || self.is_surface()
            || matches!(
                self,
                AssistantAttempt
                    | CompactionSummary
                    | Dispatch
                    | InboxSpliced
                    | RequestHeader
                    | TeamMessageQueued
                    | TitleRequest
            )
    }

    /// Whether its facts are a turn, a step and a call at most.
    pub(crate) fn is_short(self) -> bool {
        use RowKind::{StepEnd, StepStart, ToolCall, TurnEnd, TurnStart};
        matches!(self, StepEnd | StepStart | ToolCall | TurnEnd | TurnStart)
    }
}
