//! Subagents, teams, workflows and jobs (`events.md` 2.6).

use super::field::objects;
use super::message::ContentBlock;
use super::work::ModelRoute;
use crate::json::Json;
use std::borrow::Cow;

objects! {
    /// A session that works for this one.
    SubagentCatalog("subagent/catalog") {
        child_id: Cow<'a, str> = "childId",
        /// Milliseconds since 1970.
        child_created_at: i64 = "childCreatedAt",
        version: i64 = "version",
        /// `continuable`, `one-shot`, `unknown` or `external`.
        mode: Cow<'a, str> = "mode",
        label: Option<Cow<'a, str>> = "label",
    }

    /// What this session is, as one that works for another.
    SubagentDescriptor("subagent/descriptor") {
        version: i64 = "version",
        provider: Cow<'a, str> = "provider",
        /// `one-shot` or `continuable`.
        mode: Cow<'a, str> = "mode",
        label: Option<Cow<'a, str>> = "label",
        persona: Option<Cow<'a, str>> = "persona",
        agent_provider: Option<Cow<'a, str>> = "agentProvider",
        agent_model: Option<Cow<'a, str>> = "agentModel",
        agent_reasoning_effort: Option<Cow<'a, str>> = "agentReasoningEffort",
        tool_filter: Option<ToolFilter<'a>> = "toolFilter",
    }

    /// Which tools a subagent has.
    ToolFilter {
        allow: Option<Vec<Cow<'a, str>>> = "allow",
        deny: Option<Vec<Cow<'a, str>>> = "deny",
    }

    /// Which models subagents may use.
    SubagentModelSelectionPolicy("subagent/model-selection-policy") {
        allowed_models: Vec<ModelRoute<'a>> = "allowedModels",
    }

    /// A member of a team, whole.
    TeamMember("team/member") {
        version: i64 = "version",
        team_id: Cow<'a, str> = "teamId",
        member: Member<'a> = "member",
    }

    /// Who works in a team.
    Member {
        id: Cow<'a, str> = "id",
        name: Cow<'a, str> = "name",
        description: Cow<'a, str> = "description",
        provider: Cow<'a, str> = "provider",
        /// `fork` or `fresh`.
        context: Cow<'a, str> = "context",
        /// `provisioning`, `active` or `failed`.
        phase: Cow<'a, str> = "phase",
        error: Option<Json<'a>> = "error",
    }

    /// A task of a team, whole.
    TeamTask("team/task") {
        version: i64 = "version",
        team_id: Cow<'a, str> = "teamId",
        task: Task<'a> = "task",
    }

    /// What a team has to do.
    Task {
        id: Cow<'a, str> = "id",
        subject: Cow<'a, str> = "subject",
        description: Cow<'a, str> = "description",
        /// `pending`, `in_progress`, `completed` or `deleted`.
        status: Cow<'a, str> = "status",
        owner_id: Option<Cow<'a, str>> = "ownerId",
        blocked_by: Vec<Cow<'a, str>> = "blockedBy",
        write_scopes: Vec<Cow<'a, str>> = "writeScopes",
        revision: i64 = "revision",
    }

    /// A message within a team waits.
    TeamMessageQueued("team/message/queued") {
        version: i64 = "version",
        team_id: Cow<'a, str> = "teamId",
        message: TeamMessage<'a> = "message",
    }

    /// A message within a team.
    TeamMessage {
        id: Cow<'a, str> = "id",
        sender_id: Cow<'a, str> = "senderId",
        sender_name: Cow<'a, str> = "senderName",
        target_id: Cow<'a, str> = "targetId",
        content: Vec<ContentBlock<'a>> = "content",
    }

    /// A message within a team has arrived.
    TeamMessageDelivered("team/message/delivered") {
        version: i64 = "version",
        team_id: Cow<'a, str> = "teamId",
        message_id: Cow<'a, str> = "messageId",
        target_id: Cow<'a, str> = "targetId",
    }

    /// A workflow begins.
    WorkflowRunStart("tool-workflow/run-start") {
        run_id: Cow<'a, str> = "runId",
        name: Cow<'a, str> = "name",
    }

    /// A member of a workflow begins.
    WorkflowAgentStart("tool-workflow/agent-start") {
        run_id: Cow<'a, str> = "runId",
        /// Which member; no position in a log.
        member_number: u64 = "seq",
        label: Cow<'a, str> = "label",
        child_id: Cow<'a, str> = "childId",
        phase: Option<Cow<'a, str>> = "phase",
    }

    /// A member of a workflow has ended.
    WorkflowAgentEnd("tool-workflow/agent-end") {
        run_id: Cow<'a, str> = "runId",
        /// Which member; no position in a log.
        member_number: u64 = "seq",
        /// `completed`, `failed` or `cancelled`.
        outcome: Cow<'a, str> = "outcome",
    }

    /// A workflow has ended.
    WorkflowRunEnd("tool-workflow/run-end") {
        run_id: Cow<'a, str> = "runId",
        /// `completed`, `error` or `cancelled`.
        stop_reason: Cow<'a, str> = "stopReason",
    }

    /// A job in the background begins.
    JobRegistered("job/registered") {
        job_id: Cow<'a, str> = "jobId",
        /// The session.
        owner: Cow<'a, str> = "owner",
        kind: Cow<'a, str> = "kind",
        label: Cow<'a, str> = "label",
        /// Milliseconds since 1970.
        started_at: i64 = "startedAt",
        tool_call: Option<JobCall<'a>> = "toolCall",
    }

    /// The call that began a job.
    JobCall {
        call_id: Cow<'a, str> = "callId",
        root_call_id: Cow<'a, str> = "rootCallId",
    }

    /// A job in the background has ended.
    JobSettled("job/settled") {
        job_id: Cow<'a, str> = "jobId",
        /// The session.
        owner: Cow<'a, str> = "owner",
        kind: Cow<'a, str> = "kind",
        label: Cow<'a, str> = "label",
        /// Milliseconds since 1970.
        started_at: i64 = "startedAt",
        tool_call: Option<JobCall<'a>> = "toolCall",
        /// Milliseconds since 1970.
        finished_at: i64 = "finishedAt",
        /// `completed`, `killed` or `failed`.
        status: Cow<'a, str> = "status",
        /// `producer`, `kill` or `teardown`.
        cause: Cow<'a, str> = "cause",
        producer_reported: bool = "producerReported",
        detail: Option<Cow<'a, str>> = "detail",
    }
}
