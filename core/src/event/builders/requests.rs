//! Request header and context (`events.md` 7), in canonical form: what must not be empty is left out where it is.

use super::{IntoDraft, JsonText, add_number, add_optional, add_text, array, require, strings};
use crate::error::Result;
use crate::event::EventDraft;
use crate::json::ObjectText;

/// Settings of calls (`events.md` 7.1).
#[derive(Clone, Debug, Default, PartialEq)]
pub struct CallConfig {
    /// Who runs the model.
    pub provider: String,
    /// The model.
    pub model: String,
    /// How much it reasons.
    pub reasoning_effort: Option<String>,
    /// How it samples.
    pub temperature: Option<f64>,
    /// The ceiling of an answer.
    pub max_tokens: Option<u32>,
    /// Texts at which it stops.
    pub stop: Option<Vec<String>>,
}

impl CallConfig {
    /// A model of a provider, with no settings.
    #[must_use]
    pub fn new(provider: impl Into<String>, model: impl Into<String>) -> CallConfig {
        CallConfig { provider: provider.into(), model: model.into(), ..CallConfig::default() }
    }

    fn text(&self) -> Result<String> {
        let mut config = ObjectText::new();
        add_text(&mut config, "provider", &self.provider)?;
        add_text(&mut config, "model", &self.model)?;
        if let Some(effort) = &self.reasoning_effort {
            add_text(&mut config, "reasoningEffort", effort)?;
        }
        if let Some(temperature) = self.temperature {
            add_number(&mut config, "temperature", temperature)?;
        }
        if let Some(tokens) = self.max_tokens {
            config.number("maxTokens", tokens);
        }
        if let Some(stop) = &self.stop {
            config.json("stop", &strings(stop));
        }
        Ok(config.finish())
    }
}

/// A tool as the model is told of it (`events.md` 7.2).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Tool {
    /// Its name.
    pub name: String,
    /// What it does.
    pub description: String,
    /// A JSON Schema: an object. Its order of keys is part of what the tool is known by.
    pub parameters: JsonText,
    /// Whether it is only loaded when it is asked for.
    pub defer_loading: bool,
}

impl Tool {
    fn text(&self) -> Result<String> {
        let mut tool = ObjectText::new();
        add_text(&mut tool, "name", &self.name)?;
        tool.string("description", &self.description);
        require(self.parameters.is_object(), "`parameters` of a tool is not an object")?;
        tool.json("parameters", self.parameters.as_str());
        if self.defer_loading {
            tool.boolean("deferLoading", true);
        }
        Ok(tool.finish())
    }
}

/// Why a header is written (`events.md` 7.3).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HeaderReason {
    /// The first of the log.
    Initial,
    /// The first of a program that takes up a log which has headers.
    Resume,
    /// It differs from the one before.
    Change,
    /// It does not, but a new series of messages begins.
    Series,
}

/// `request/header`.
///
/// ```
/// use dsh_session_core::event::builders::{CallConfig, HeaderReason, IntoDraft, RequestHeader};
/// let header = RequestHeader::new(CallConfig::new("acme", "large"), HeaderReason::Initial);
/// let event = header.into_draft()?.build(1, 5)?;
/// assert_eq!(event.data().text(), r#"{"header":{"config":{"provider":"acme","model":"large"}},"reason":"initial"}"#);
/// # Ok::<(), dsh_session_core::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct RequestHeader {
    /// Settings.
    pub config: CallConfig,
    /// Whether the adapter chose the reasoning effort.
    pub is_default_reasoning_effort: bool,
    /// Whether the adapter chose the ceiling of tokens.
    pub is_default_max_tokens: bool,
    /// The tools.
    pub tools: Vec<Tool>,
    /// Why it is written.
    pub reason: HeaderReason,
    /// Whether a new series of messages begins, where the reason does not say so.
    pub starts_series: bool,
}

impl RequestHeader {
    /// A header without tools.
    #[must_use]
    pub fn new(config: CallConfig, reason: HeaderReason) -> RequestHeader {
        RequestHeader {
            config,
            is_default_reasoning_effort: false,
            is_default_max_tokens: false,
            tools: Vec::new(),
            reason,
            starts_series: false,
        }
    }

    fn defaults(&self) -> Result<Option<String>> {
        let marks = [
            ("reasoningEffort", self.is_default_reasoning_effort, self.config.reasoning_effort.is_some()),
            ("maxTokens", self.is_default_max_tokens, self.config.max_tokens.is_some()),
        ];
        let mut defaults = ObjectText::new();
        for (key, is_marked, is_set) in marks {
            if is_marked {
                require(is_set, &format!("`{key}` is marked as a default and has no value"))?;
                defaults.boolean(key, true);
            }
        }
        Ok(marks.iter().any(|(_, is_marked, _)| *is_marked).then(|| defaults.finish()))
    }
}

impl IntoDraft for RequestHeader {
    fn into_draft(self) -> Result<EventDraft> {
        let mut header = ObjectText::new();
        header.json("config", &self.config.text()?);
        if let Some(defaults) = self.defaults()? {
            header.json("adapterDefaults", &defaults);
        }
        if !self.tools.is_empty() {
            header.json("tools", &array(self.tools.iter().map(Tool::text).collect::<Result<Vec<_>>>()?));
        }
        let mut data = ObjectText::new();
        data.json("header", &header.finish());
        let reason = match self.reason {
            HeaderReason::Initial => "initial",
            HeaderReason::Resume => "resume",
            HeaderReason::Change => "change",
            HeaderReason::Series => "series",
        };
        data.string("reason", reason);
        if self.starts_series && self.reason != HeaderReason::Series {
            data.boolean("startsSeries", true);
        }
        EventDraft::new("request/header", data.finish())
    }
}

/// `request/context`. What it leaves out does not hold any more.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RequestContext {
    /// Who runs the model.
    pub provider: String,
    /// The model.
    pub model: String,
    /// In tokens.
    pub context_window: Option<u32>,
    /// Whether the system prompt is updated within the history.
    pub updates_system_prompt_in_history: bool,
}

impl IntoDraft for RequestContext {
    fn into_draft(self) -> Result<EventDraft> {
        let mut data = ObjectText::new();
        add_text(&mut data, "provider", &self.provider)?;
        add_text(&mut data, "model", &self.model)?;
        if let Some(tokens) = self.context_window {
            data.number("contextWindow", tokens);
        }
        let update = self.updates_system_prompt_in_history.then_some("in-history");
        add_optional(&mut data, "systemPromptUpdate", update);
        EventDraft::new("request/context", data.finish())
    }
}
