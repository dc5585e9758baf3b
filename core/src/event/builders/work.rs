//! Compactions, titles, images and plugin records (`events.md` 2.2, 2.3, 2.7).

use super::{IntoDraft, JsonText, Usage, add_optional, add_ordinal, add_text, array, numbers, require};
use crate::error::{Code, Error, Result};
use crate::event::{EventDraft, is_plugin_record_type};
use crate::json::ObjectText;

/// The format in which an upload counts events (`events.md` 2.3).
pub(crate) const DELIVERY_FORMAT_VERSION: i64 = 4;

/// What a compaction is known by.
fn compaction(id: &str, source_command_id: Option<&str>) -> Result<ObjectText> {
    let mut data = ObjectText::new();
    add_text(&mut data, "compactionId", id)?;
    add_optional(&mut data, "sourceCommandId", source_command_id);
    Ok(data)
}

/// `null` between turns.
fn add_turn(data: &mut ObjectText, turn: Option<u64>) -> Result<()> {
    match turn {
        Some(turn) => add_ordinal(data, "turn", turn),
        None => {
            data.json("turn", "null");
            Ok(())
        }
    }
}

/// `compaction/start`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CompactionStart {
    /// A new id.
    pub compaction_id: String,
    /// The command that asked for it.
    pub source_command_id: Option<String>,
    /// The open turn; `None` between turns.
    pub turn: Option<u64>,
}

impl IntoDraft for CompactionStart {
    fn into_draft(self) -> Result<EventDraft> {
        let mut data = compaction(&self.compaction_id, self.source_command_id.as_deref())?;
        add_turn(&mut data, self.turn)?;
        EventDraft::new("compaction/start", data.finish())
    }
}

/// `compaction/end`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CompactionEnd {
    /// As in the start.
    pub compaction_id: String,
    /// As in the start.
    pub source_command_id: Option<String>,
    /// As in the start.
    pub turn: Option<u64>,
    /// Why it has no summary.
    pub error: Option<String>,
}

impl IntoDraft for CompactionEnd {
    fn into_draft(self) -> Result<EventDraft> {
        let mut data = compaction(&self.compaction_id, self.source_command_id.as_deref())?;
        add_turn(&mut data, self.turn)?;
        add_optional(&mut data, "error", self.error.as_deref());
        EventDraft::new("compaction/end", data.finish())
    }
}

/// The events that a replacement takes off the surface, in the order of the surface.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Shadowed {
    /// All of them.
    pub seqs: Vec<u64>,
    /// What they cost, in tokens.
    pub token_count: u64,
}

impl Shadowed {
    fn add_to(&self, data: &mut ObjectText) -> Result<()> {
        let (Some(start), Some(end)) = (self.seqs.first(), self.seqs.last()) else {
            return Err(super::invalid("a compaction shadows no events"));
        };
        let mut range = ObjectText::new();
        range.number("start", *start);
        range.number("end", *end);
        data.json("shadowedRange", &range.finish());
        data.json("shadowedSeqs", &numbers(&self.seqs));
        data.number("shadowedTokenCount", self.token_count);
        Ok(())
    }
}

/// `compaction/summary`. The message that replaces the shadowed ones follows at once
/// ([`Source::compact_checkpoint`](super::Source::compact_checkpoint)).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CompactionSummary {
    /// As in the start.
    pub compaction_id: String,
    /// As in the start.
    pub source_command_id: Option<String>,
    /// The summary, one text.
    pub text: String,
    /// What it replaces.
    pub shadowed: Shadowed,
    /// Who ran the model.
    pub provider: String,
    /// The model.
    pub model: String,
    /// The ceiling of the summary.
    pub max_tokens: Option<u32>,
    /// What it cost.
    pub usage: Option<Usage>,
    /// What the model said, before it was made into a summary: one text.
    pub raw_output: Option<String>,
}

fn text_block(text: &str) -> String {
    let mut block = ObjectText::new();
    block.string("type", "text");
    block.string("text", text);
    array([block.finish()])
}

impl IntoDraft for CompactionSummary {
    fn into_draft(self) -> Result<EventDraft> {
        let mut data = compaction(&self.compaction_id, self.source_command_id.as_deref())?;
        data.json("summary", &text_block(&self.text));
        self.shadowed.add_to(&mut data)?;
        add_text(&mut data, "provider", &self.provider)?;
        add_text(&mut data, "model", &self.model)?;
        if let Some(tokens) = self.max_tokens {
            data.number("maxTokens", tokens);
        }
        if let Some(usage) = self.usage {
            data.json("usage", &usage.text());
        }
        if let Some(output) = &self.raw_output {
            data.json("rawOutput", &text_block(output));
            data.boolean("llmStreamCall", true);
        }
        EventDraft::new("compaction/summary", data.finish())
    }
}

/// `compaction/prune`: prices a replacement that no model was asked for, which follows at once.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CompactionPrune(pub Shadowed);

impl IntoDraft for CompactionPrune {
    fn into_draft(self) -> Result<EventDraft> {
        let mut data = ObjectText::new();
        self.0.add_to(&mut data)?;
        EventDraft::new("compaction/prune", data.finish())
    }
}

/// `session/title`.
///
/// ```
/// use dsh_session_core::event::builders::{IntoDraft, SessionTitle};
/// let event = SessionTitle::by_user("Trip").into_draft()?.build(0, 5)?;
/// assert_eq!(event.as_session_title().unwrap().title, "Trip");
/// assert!(SessionTitle::fallback("Trip", []).into_draft().is_err());
/// # Ok::<(), dsh_session_core::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct SessionTitle {
    title: String,
    message_seqs: Vec<u64>,
    /// JSON text.
    source: String,
    is_by_user: bool,
}

impl SessionTitle {
    /// The user's own title.
    #[must_use]
    pub fn by_user(title: impl Into<String>) -> SessionTitle {
        SessionTitle::new(title, Vec::new(), "user", |_| ())
    }

    /// A title cut from these `user/message` events of a human.
    #[must_use]
    pub fn fallback(title: impl Into<String>, message_seqs: impl Into<Vec<u64>>) -> SessionTitle {
        SessionTitle::new(title, message_seqs.into(), "fallback", |_| ())
    }

    /// A title that a provider of titles made from these `user/message` events of a human; `route`: provider and model, if one was
    /// asked.
    #[must_use]
    pub fn by_provider(
        title: impl Into<String>,
        message_seqs: impl Into<Vec<u64>>,
        provider: &str,
        route: Option<(&str, &str)>,
    ) -> SessionTitle {
        SessionTitle::new(title, message_seqs.into(), "provider", |source| {
            source.string("provider", provider);
            if let Some((provider, model)) = route {
                let mut route = ObjectText::new();
                route.string("provider", provider);
                route.string("model", model);
                source.json("model", &route.finish());
            }
        })
    }

    fn new(
        title: impl Into<String>,
        message_seqs: Vec<u64>,
        kind: &str,
        rest: impl FnOnce(&mut ObjectText),
    ) -> SessionTitle {
        let mut source = ObjectText::new();
        source.string("kind", kind);
        rest(&mut source);
        let is_by_user = kind == "user";
        SessionTitle { title: title.into(), message_seqs, source: source.finish(), is_by_user }
    }
}

impl IntoDraft for SessionTitle {
    fn into_draft(self) -> Result<EventDraft> {
        let has_messages = !self.message_seqs.is_empty();
        require(self.is_by_user || has_messages, "a title that is not the user's names no message")?;
        let mut data = ObjectText::new();
        add_text(&mut data, "title", &self.title)?;
        data.json("messageSeqs", &numbers(&self.message_seqs));
        data.json("source", &self.source);
        EventDraft::new("session/title", data.finish())
    }
}

/// `image/offload`: images leave what the model sees.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ImageOffload {
    /// The events of the messages and which of the images of each, counted from 0.
    pub targets: Vec<(u64, Vec<u64>)>,
}

impl IntoDraft for ImageOffload {
    fn into_draft(self) -> Result<EventDraft> {
        let target = |(seq, indexes): &(u64, Vec<u64>)| {
            let mut target = ObjectText::new();
            target.number("seq", *seq);
            target.json("imageIndexes", &numbers(indexes));
            target.finish()
        };
        let mut data = ObjectText::new();
        data.json("targets", &array(self.targets.iter().map(target)));
        EventDraft::new("image/offload", data.finish())
    }
}

/// `session-log-deepseek/delivery-accepted`: an upload took the session's events up to here.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DeliveryAccepted {
    /// The session's own id.
    pub session_id: String,
    /// The last event that was taken.
    pub through_seq: u64,
}

impl IntoDraft for DeliveryAccepted {
    fn into_draft(self) -> Result<EventDraft> {
        let mut data = ObjectText::new();
        add_text(&mut data, "sessionId", &self.session_id)?;
        data.number("sessionFormatVersion", DELIVERY_FORMAT_VERSION);
        data.number("throughSeq", self.through_seq);
        EventDraft::new("session-log-deepseek/delivery-accepted", data.finish())
    }
}

/// What a plugin writes down for itself (`session.md` 15).
///
/// ```
/// use dsh_session_core::event::builders::{IntoDraft, JsonText, PluginRecord};
/// let record = PluginRecord { kind: "plugin:acme/note".into(), data: JsonText::new("3")? };
/// assert!(record.into_draft()?.build(0, 5)?.as_plugin_record().is_some());
/// # Ok::<(), dsh_session_core::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PluginRecord {
    /// `plugin:`, the plugin's name, and what else names the record (`format.md` 3.5).
    pub kind: String,
    /// Any JSON.
    pub data: JsonText,
}

impl IntoDraft for PluginRecord {
    fn into_draft(self) -> Result<EventDraft> {
        if !is_plugin_record_type(&self.kind) {
            let message = format!("`{}` is no type of a plugin record", self.kind);
            return Err(Error::new(Code::EventRefused, message)
                .with_rule("PLUGIN_RECORD_TYPE_INVALID")
                .with_event_type(self.kind)
                .with_advice(
                    "use `plugin:` and segments of lower-case letters, digits, `.`, `_`, `-`, joined by `/`",
                ));
        }
        EventDraft::new(self.kind, self.data.as_str())
    }
}
