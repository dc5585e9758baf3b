//! The event types of format 4 (`format.md` appendix A) and the grammar of plugin records (`format.md` 3.5).

use std::collections::BTreeMap;
use std::sync::Arc;

/// Every event type this build knows, in byte order.
pub const KNOWN_TYPES: [&str; 62] = [
    "agent-preset/selected",
    "agent/inbox/spliced",
    "approval/asked",
    "approval/decided",
    "approval/policy",
    "assistant/attempt",
    "assistant/message",
    "command/done",
    "command/run",
    "compaction/end",
    "compaction/prune",
    "compaction/start",
    "compaction/summary",
    "deliverables/presented",
    "developer/message",
    "feedback/message-delete",
    "feedback/message-put",
    "feedback/record",
    "goal/change",
    "hook/invoked",
    "hook/result",
    "image/offload",
    "job/registered",
    "job/settled",
    "llm/retry",
    "llm/retry-started",
    "model/selection",
    "permission/preset",
    "plan/mode",
    "request/context",
    "request/header",
    "sandbox/mode",
    "schedule/change",
    "session-log-deepseek/delivery-accepted",
    "session/end-seed",
    "session/title",
    "session/title-llm-request",
    "step/end",
    "step/start",
    "subagent/catalog",
    "subagent/descriptor",
    "subagent/model-selection-policy",
    "system/message",
    "team/member",
    "team/message/delivered",
    "team/message/queued",
    "team/task",
    "todo/write",
    "tool-workflow/agent-end",
    "tool-workflow/agent-start",
    "tool-workflow/run-end",
    "tool-workflow/run-start",
    "tool/call",
    "tool/ptc-dispatch",
    "tool/ptc-dispatch-start",
    "tool/result",
    "turn/end",
    "turn/start",
    "user/message",
    "web/deepseek-search-llm-request",
    "working-directory/change",
    "workspace/changes",
];

/// Whether `kind` is one of [`KNOWN_TYPES`].
///
/// ```
/// use dsh_session_core::event::is_known_type;
/// assert!(is_known_type("turn/start"));
/// assert!(!is_known_type("acme/usage"));
/// ```
#[must_use]
pub fn is_known_type(kind: &str) -> bool {
    KNOWN_TYPES.binary_search(&kind).is_ok()
}

/// The first-party type whose events change the content of earlier messages (`session.md` 9).
pub const IMAGE_OFFLOAD: &str = "image/offload";

/// The event types that a program can read: [`KNOWN_TYPES`] and those that it registers (`events.md` 3).
///
/// ```
/// use dsh_session_core::event::Vocabulary;
/// let vocabulary = Vocabulary::with_types(["acme/usage"]);
/// assert!(vocabulary.is_known("acme/usage") && vocabulary.is_known("turn/start"));
/// assert!(!Vocabulary::default().is_known("acme/usage"));
/// ```
#[derive(Clone, Debug, Default)]
pub struct Vocabulary {
    /// Registered types, and whether each changes messages.
    registered: Option<Arc<BTreeMap<String, bool>>>,
}

impl Vocabulary {
    /// The known types and these.
    #[must_use]
    pub fn with_types(types: impl IntoIterator<Item = impl Into<String>>) -> Vocabulary {
        Vocabulary {
            registered: Some(Arc::new(types.into_iter().map(|kind| (kind.into(), false)).collect())),
        }
    }

    /// One more type. A `changes_messages` type needs a message projection wherever an event of it is accepted (`session.md` 9).
    #[must_use]
    pub fn and_type(mut self, kind: impl Into<String>, changes_messages: bool) -> Vocabulary {
        Arc::make_mut(self.registered.get_or_insert_default()).insert(kind.into(), changes_messages);
        self
    }

    /// Whether the type is known or registered.
    #[must_use]
    pub fn is_known(&self, kind: &str) -> bool {
        is_known_type(kind)
            || self.registered.as_ref().is_some_and(|registered| registered.contains_key(kind))
    }

    /// Whether events of the type change the content of earlier messages: `image/offload`, and types registered as such.
    #[must_use]
    pub fn changes_messages(&self, kind: &str) -> bool {
        let registered = || self.registered.as_ref().and_then(|registered| registered.get(kind).copied());
        kind == IMAGE_OFFLOAD || registered().unwrap_or(false)
    }
}

/// Whether `kind` is in the grammar of plugin records: `plugin:` and segments joined by `/`, each of lower-case
/// letters, digits, `.`, `_`, `-`, beginning with a letter or digit (`format.md` 3.5).
///
/// ```
/// use dsh_session_core::event::is_plugin_record_type;
/// assert!(is_plugin_record_type("plugin:acme/state"));
/// assert!(!is_plugin_record_type("plugin:Acme"));
/// assert!(!is_plugin_record_type("plugin:acme//x"));
/// ```
#[must_use]
pub fn is_plugin_record_type(kind: &str) -> bool {
    let Some(path) = kind.strip_prefix("plugin:") else { return false };
    path.split('/').all(|segment| {
        let first_is_plain =
            segment.bytes().next().is_some_and(|b| b.is_ascii_lowercase() || b.is_ascii_digit());
        first_is_plain
            && segment
                .bytes()
                .all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || matches!(b, b'.' | b'_' | b'-'))
    })
}

#[cfg(test)]
mod tests {
    use super::KNOWN_TYPES;

    #[test]
    fn known_types_are_sorted_so_that_the_search_finds_them() {
        assert!(KNOWN_TYPES.is_sorted());
    }
}
