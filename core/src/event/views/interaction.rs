//! People, policies and plans (`events.md` 2.5).

use super::field::objects;
use super::message::Message;
use crate::json::Json;
use std::borrow::Cow;

objects! {
    /// The user is asked whether a tool may run.
    ApprovalAsked("approval/asked") {
        id: Cow<'a, str> = "id",
        tool_name: Cow<'a, str> = "toolName",
        call_id: Option<Cow<'a, str>> = "callId",
        reason: Option<Cow<'a, str>> = "reason",
    }

    /// Whether a tool may run.
    ApprovalDecided("approval/decided") {
        id: Cow<'a, str> = "id",
        /// `allowed-once`, `cancelled`, `rejected` or `unavailable`.
        outcome: Cow<'a, str> = "outcome",
    }

    /// When the user is asked, from here on.
    ApprovalPolicy("approval/policy") {
        /// `ask` or `never`.
        policy: Cow<'a, str> = "policy",
        /// `delegation`.
        source: Option<Cow<'a, str>> = "source",
    }

    /// The user runs a command.
    CommandRun("command/run") {
        command_id: Cow<'a, str> = "commandId",
        name: Cow<'a, str> = "name",
        args: Option<Cow<'a, str>> = "args",
        source: Json<'a> = "source",
    }

    /// A command has ended.
    CommandDone("command/done") {
        command_id: Cow<'a, str> = "commandId",
        /// `success` or `error`.
        outcome: Cow<'a, str> = "kind",
        text: Option<Cow<'a, str>> = "text",
        /// The event that it led to.
        source_event_seq: Option<u64> = "sourceEventSeq",
    }

    /// A hook is run.
    HookInvoked("hook/invoked") {
        turn: u64 = "turn",
        point: Cow<'a, str> = "point",
        /// `claude-code` or `codex`.
        dialect: Cow<'a, str> = "dialect",
        matcher: Option<Cow<'a, str>> = "matcher",
        handler_id: Cow<'a, str> = "handlerId",
    }

    /// A hook has ended.
    HookResult("hook/result") {
        turn: u64 = "turn",
        point: Cow<'a, str> = "point",
        handler_id: Cow<'a, str> = "handlerId",
        decision: Cow<'a, str> = "decision",
        exit_code: Option<i64> = "exitCode",
        stderr_summary: Option<Cow<'a, str>> = "stderrSummary",
        duration_ms: f64 = "durationMs",
    }

    /// Which permissions hold from here on.
    PermissionPreset("permission/preset") {
        preset: Cow<'a, str> = "preset",
    }

    /// What tools may touch from here on.
    SandboxMode("sandbox/mode") {
        /// `read-only`, `workspace-write` or `danger-full-access`.
        mode: Cow<'a, str> = "mode",
        /// `delegation`.
        source: Option<Cow<'a, str>> = "source",
    }

    /// Whether it is planned, not done, from here on.
    PlanMode("plan/mode") {
        active: bool = "active",
    }

    /// The whole list of things to do.
    TodoWrite("todo/write") {
        todos: Vec<Todo<'a>> = "todos",
    }

    /// A thing to do.
    Todo {
        content: Cow<'a, str> = "content",
        /// `pending`, `in_progress` or `completed`.
        status: Cow<'a, str> = "status",
    }

    /// The goal after a change of it.
    GoalChange("goal/change") {
        version: i64 = "version",
        /// `create`, `edit`, `pause`, `resume`, `block`, `complete` or `clear`.
        operation: Cow<'a, str> = "operation",
        /// Absent after `clear`.
        goal: Option<Goal<'a>> = "goal",
        rounds_started: Option<i64> = "roundsStarted",
        /// Milliseconds since 1970.
        created_at: Option<i64> = "createdAt",
        /// Milliseconds since 1970.
        updated_at: Option<i64> = "updatedAt",
        /// After `clear`: what was there.
        cleared: Option<ClearedGoal<'a>> = "cleared",
        /// After `clear`: milliseconds since 1970.
        cleared_at: Option<i64> = "clearedAt",
    }

    /// What the agent works towards.
    Goal {
        id: Cow<'a, str> = "id",
        objective: Cow<'a, str> = "objective",
        /// `active`, `paused`, `blocked` or `complete`.
        phase: Cow<'a, str> = "phase",
        revision: i64 = "revision",
        max_goal_rounds: i64 = "maxGoalRounds",
        blocked_reason: Option<BlockedReason<'a>> = "blockedReason",
    }

    /// Why a goal is blocked.
    BlockedReason {
        code: Cow<'a, str> = "code",
        message: Cow<'a, str> = "message",
    }

    /// A goal that was there.
    ClearedGoal {
        id: Cow<'a, str> = "id",
        revision: i64 = "revision",
    }

    /// A schedule is made, dispatched or deleted.
    ScheduleChange("schedule/change") {
        version: i64 = "version",
        /// `create`, `delete` or `dispatch`.
        operation: Cow<'a, str> = "operation",
        /// With `create`.
        schedule: Option<Schedule<'a>> = "schedule",
        /// With `delete` and `dispatch`.
        id: Option<Cow<'a, str>> = "id",
        /// With `dispatch` of a recurring one.
        accepted_at: Option<Cow<'a, str>> = "acceptedAt",
    }

    /// Something to do later.
    Schedule {
        id: Cow<'a, str> = "id",
        /// `after`, `at` or `every`.
        kind: Cow<'a, str> = "kind",
        prompt: Cow<'a, str> = "prompt",
        scheduled_at: Cow<'a, str> = "scheduledAt",
        title: Option<Cow<'a, str>> = "title",
        after_seconds: Option<f64> = "afterSeconds",
        every_seconds: Option<f64> = "everySeconds",
    }

    /// Another preset than the header's holds from here on.
    AgentPresetSelected("agent-preset/selected") {
        agent_preset: Cow<'a, str> = "agentPreset",
    }

    /// A change of one of the two lists of messages that wait.
    InboxSpliced("agent/inbox/spliced") {
        /// `next-turn` or `next-step`.
        target: Cow<'a, str> = "target",
        start: u64 = "start",
        removed_count: Option<u64> = "removedCount",
        inserted: Vec<Message<'a>> = "inserted",
        /// `canceled`.
        outcome: Option<Cow<'a, str>> = "outcome",
    }

    /// Where tools work from here on.
    WorkingDirectoryChange("working-directory/change") {
        /// Absolute.
        cwd: Cow<'a, str> = "cwd",
    }

    /// A turn has changed files.
    WorkspaceChanges("workspace/changes") {
        turn: u64 = "turn",
    }

    /// Files are shown to the user.
    DeliverablesPresented("deliverables/presented") {
        turn: u64 = "turn",
        call_id: Cow<'a, str> = "callId",
        files: Vec<Deliverable<'a>> = "files",
    }

    /// A file that is shown to the user.
    Deliverable {
        path: Cow<'a, str> = "path",
        description: Option<Cow<'a, str>> = "description",
    }
}
