//! Typed views on the payloads of events (`events.md` 2): parsed when asked for, borrowed from the event, with everything unknown
//! still in them.
//!
//! Each known type has a view, and each view a method on [`Event`] of its name. Words from open sets (`outcome`, `phase`, `status`)
//! are text: a newer program may write others. Optional members are `Option`; one that is there in another form than it should have
//! makes the payload malformed, as a required one that is missing does.
//!
//! ```
//! use dsh_session_core::Event;
//! use dsh_session_core::event::views::{ContentBlock, TurnEndReason};
//! let event = Event::from_row(
//!     br#"{"type":"turn/end","seq":7,"time":1,"data":{"turn":1,"reason":{"kind":"completed"},"cost":3}}"#,
//! )?;
//! let end = event.as_turn_end().expect("a well-formed `turn/end`");
//! assert!(end.turn == 1 && matches!(end.reason, TurnEndReason::Completed));
//! assert_eq!(end.json().get("cost").and_then(|cost| cost.as_count()), Some(3));
//! assert!(event.as_turn_start().is_none());
//! # Ok::<(), dsh_session_core::Error>(())
//! ```
//!
//! | File | Holds |
//! | --- | --- |
//! | `field` | how members become fields |
//! | `message` | messages, blocks, sources, tokens, failures |
//! | `conversation` | `events.md` 2.1 |
//! | `work` | `events.md` 2.2 to 2.4 |
//! | `interaction` | `events.md` 2.5 |
//! | `agents` | `events.md` 2.6 |

mod agents;
mod conversation;
mod field;
mod interaction;
mod message;
mod work;

pub use agents::*;
pub use conversation::*;
pub use field::{Field, Malformed, OrNull};
pub use interaction::*;
pub use message::*;
pub use work::*;

use super::{Event, is_plugin_record_type};
use crate::error::{Code, Error, Result};
use crate::json::Json;

/// A view on the `data` of one event type.
pub trait EventView<'a>: Field<'a> {
    /// The event type.
    const KIND: &'static str;
}

impl Event {
    /// The view of the event's type, or why there is none.
    ///
    /// ```
    /// use dsh_session_core::{Code, Event, event::views::StepStart};
    /// let event = Event::from_row(br#"{"type":"step/start","seq":4,"time":1,"data":{"turn":"1","step":1}}"#)?;
    /// let error = event.view::<StepStart<'_>>().unwrap_err();
    /// assert_eq!((error.code(), error.json_path()), (Code::InvalidArgument, Some("$.data.turn")));
    /// # Ok::<(), dsh_session_core::Error>(())
    /// ```
    ///
    /// # Errors
    /// `INVALID_ARGUMENT` if the event is of another type, or its payload malformed: with its seq, its type and where in the row.
    pub fn view<'a, T: EventView<'a>>(&'a self) -> Result<T> {
        let refused = |message: String| {
            Error::new(Code::InvalidArgument, message)
                .with_seq(self.seq())
                .with_event_type(self.kind())
                .with_advice("look at the event's `data` as JSON instead")
        };
        if self.kind() != T::KIND {
            return Err(refused(format!("the event is of type `{}`, not `{}`", self.kind(), T::KIND)));
        }
        T::read(self.data()).map_err(|malformed| {
            let path = format!("$.data{}", malformed.path);
            refused(format!("the payload is malformed: `{path}` {}", malformed.rule)).with_json_path(path)
        })
    }

    /// The record of a plugin (`session.md` 15): `None` for any other event, also for one that has such a type and is not ignorable.
    #[must_use]
    pub fn as_plugin_record(&self) -> Option<PluginRecord<'_>> {
        let is_record = self.ignorable() && is_plugin_record_type(self.kind());
        is_record.then(|| PluginRecord {
            kind: self.kind(),
            seq: self.seq(),
            time_ms: self.time(),
            data: self.data(),
        })
    }
}

/// What a plugin wrote down for itself. Its owner checks the data: they may come from an older build.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct PluginRecord<'a> {
    /// The type, `plugin:` and the plugin's name first.
    pub kind: &'a str,
    /// The position in the log.
    pub seq: u64,
    /// Milliseconds since 1970.
    pub time_ms: i64,
    /// Any JSON.
    pub data: Json<'a>,
}

macro_rules! methods {
    ($($method:ident: $view:ident,)*) => {
        impl Event {
            $(
                #[doc = concat!("The event as [`", stringify!($view), "`]; `None` for another type and for a malformed payload.")]
                #[must_use]
                pub fn $method(&self) -> Option<$view<'_>> {
                    if self.kind() == $view::KIND { $view::read(self.data()).ok() } else { None }
                }
            )*

            /// Whether the payload is of the form of its type. The rules of a log ask for less (`events.md` 2): an event may be
            /// accepted, and so be stored, that is not. An event without a view is of any form.
            ///
            /// # Errors
            /// `INVALID_ARGUMENT`, as [`view`](Event::view).
            pub fn check_payload(&self) -> Result<()> {
                match self.kind() {
                    $(kind if kind == $view::KIND => self.view::<$view<'_>>().map(drop),)*
                    _ => Ok(()),
                }
            }
        }

        /// The types that have a view, in byte order.
        pub const VIEWED_TYPES: &[&str] = &[$($view::KIND,)*];
    };
}

methods! {
    as_agent_preset_selected: AgentPresetSelected,
    as_inbox_spliced: InboxSpliced,
    as_approval_asked: ApprovalAsked,
    as_approval_decided: ApprovalDecided,
    as_approval_policy: ApprovalPolicy,
    as_assistant_attempt: AssistantAttempt,
    as_assistant_message: AssistantMessage,
    as_command_done: CommandDone,
    as_command_run: CommandRun,
    as_compaction_end: CompactionEnd,
    as_compaction_prune: CompactionPrune,
    as_compaction_start: CompactionStart,
    as_compaction_summary: CompactionSummary,
    as_deliverables_presented: DeliverablesPresented,
    as_developer_message: DeveloperMessage,
    as_feedback_message_delete: FeedbackMessageDelete,
    as_feedback_message_put: FeedbackMessagePut,
    as_feedback_record: FeedbackRecord,
    as_goal_change: GoalChange,
    as_hook_invoked: HookInvoked,
    as_hook_result: HookResult,
    as_image_offload: ImageOffload,
    as_job_registered: JobRegistered,
    as_job_settled: JobSettled,
    as_llm_retry: LlmRetry,
    as_llm_retry_started: LlmRetryStarted,
    as_model_selection: ModelSelection,
    as_permission_preset: PermissionPreset,
    as_plan_mode: PlanMode,
    as_request_context: RequestContext,
    as_request_header: RequestHeader,
    as_sandbox_mode: SandboxMode,
    as_schedule_change: ScheduleChange,
    as_delivery_accepted: DeliveryAccepted,
    as_end_seed: EndSeed,
    as_session_title: SessionTitle,
    as_title_request: TitleRequest,
    as_step_end: StepEnd,
    as_step_start: StepStart,
    as_subagent_catalog: SubagentCatalog,
    as_subagent_descriptor: SubagentDescriptor,
    as_subagent_model_selection_policy: SubagentModelSelectionPolicy,
    as_system_message: SystemMessage,
    as_team_member: TeamMember,
    as_team_message_delivered: TeamMessageDelivered,
    as_team_message_queued: TeamMessageQueued,
    as_team_task: TeamTask,
    as_todo_write: TodoWrite,
    as_workflow_agent_end: WorkflowAgentEnd,
    as_workflow_agent_start: WorkflowAgentStart,
    as_workflow_run_end: WorkflowRunEnd,
    as_workflow_run_start: WorkflowRunStart,
    as_tool_call: ToolCall,
    as_ptc_dispatch: PtcDispatch,
    as_ptc_dispatch_start: PtcDispatchStart,
    as_tool_result: ToolResult,
    as_turn_end: TurnEnd,
    as_turn_start: TurnStart,
    as_user_message: UserMessage,
    as_web_search_request: WebSearchRequest,
    as_working_directory_change: WorkingDirectoryChange,
    as_workspace_changes: WorkspaceChanges,
}
