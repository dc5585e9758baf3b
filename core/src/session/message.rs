//! The messages that a model sees, made from the events on the surface (`session.md` 10).

use crate::event::facts::RowKind;
use crate::event::{Event, SharedText};
use crate::json::{Json, Kind};
use std::ops::Deref;
use std::sync::Arc;

/// A message, as JSON text that it shares with its event or that a projection made.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DerivedMessage {
    seq: u64,
    text: SharedText,
}

impl DerivedMessage {
    pub(super) fn new(seq: u64, text: impl Into<SharedText>) -> DerivedMessage {
        DerivedMessage { seq, text: text.into() }
    }

    /// The event on the surface that makes it.
    #[must_use]
    pub fn seq(&self) -> u64 {
        self.seq
    }

    /// The message object, as text.
    #[must_use]
    pub fn text(&self) -> &str {
        &self.text
    }

    /// The message object.
    #[must_use]
    pub fn json(&self) -> Json<'_> {
        Json::trusted(&self.text)
    }

    /// The message's id.
    #[must_use]
    pub fn id(&self) -> String {
        self.json().get("id").and_then(|id| id.as_str()).unwrap_or_default().into_owned()
    }
}

/// The messages of a session as they were; never changes afterwards, and shared with whoever asks before the next change.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Messages {
    list: Arc<Vec<DerivedMessage>>,
}

impl Deref for Messages {
    type Target = [DerivedMessage];

    fn deref(&self) -> &[DerivedMessage] {
        &self.list
    }
}

/// The message that an event makes by itself; `None` for one that makes none.
pub(super) fn derive(event: &Event) -> Option<DerivedMessage> {
    let kind = RowKind::of(event.kind());
    let data = event.data();
    let message = match kind {
        RowKind::UserMessage => data,
        RowKind::ToolResult => data.get("message")?,
        RowKind::SystemMessage | RowKind::DeveloperMessage | RowKind::AssistantMessage => {
            let message = data.get("message")?;
            message.get("content").filter(|content| content.elements().next().is_some())?;
            message
        }
        _ => return None,
    };
    (message.kind() == Kind::Object).then(|| DerivedMessage { seq: event.seq(), text: event.share(message) })
}

/// The list as far as it was asked for, so that growth costs only what is new.
#[derive(Clone, Debug, Default)]
pub(super) struct MessageCache {
    messages: Messages,
    /// How many nodes of the surface are in `messages`, and at which content they were.
    nodes: usize,
    content_generation: u64,
}

impl MessageCache {
    /// The messages of `nodes`; `message` makes the one of a seq.
    pub(super) fn update(
        &mut self,
        nodes: &[u64],
        content_generation: u64,
        message: impl Fn(u64) -> Option<DerivedMessage>,
    ) -> Messages {
        if self.content_generation != content_generation || nodes.len() < self.nodes {
            *self = MessageCache { content_generation, ..MessageCache::default() };
        }
        if self.nodes < nodes.len() {
            let list = Arc::make_mut(&mut self.messages.list);
            list.extend(nodes[self.nodes..].iter().filter_map(|&seq| message(seq)));
            self.nodes = nodes.len();
        }
        self.messages.clone()
    }
}
