//! What the log says of the next request and of itself (`session.md` 11): the request header and context in force, the tools that a
//! provider was shown, the title.
//!
//! The folds hold events, which share their text, and make text only for who asks. Lists of tools are long and nearly always the same
//! from one header to the next, so headers that agree share one list; schemas are compared with one pass over their text.

use crate::event::Event;
use crate::event::facts::{is_word, members};
use crate::json::{Json, ObjectText};
use std::borrow::Cow;
use std::collections::{BTreeSet, HashMap};
use std::ops::Range;
use std::sync::Arc;

/// The folds of one log; fed with every event that is committed, in order.
///
/// ```
/// use dsh_session_core::Event;
/// use dsh_session_core::session::folds::Folds;
/// let mut folds = Folds::default();
/// folds.see(&Event::from_row(
///     br#"{"type":"request/context","seq":0,"time":5,"data":{"provider":"p","model":"m"}}"#,
/// )?);
/// assert_eq!(folds.request_context().unwrap().text(), r#"{"provider":"p","model":"m"}"#);
/// assert!(folds.request_header().is_none() && folds.title().is_none());
/// # Ok::<(), dsh_session_core::Error>(())
/// ```
#[derive(Clone, Debug, Default)]
pub struct Folds {
    header: Option<Event>,
    context: Option<Event>,
    title: Option<Event>,
    tools: ToolFold,
}

impl Folds {
    /// The folds of a whole list.
    pub fn of<'a>(events: impl IntoIterator<Item = &'a Event>) -> Folds {
        let mut folds = Folds::default();
        events.into_iter().for_each(|event| folds.see(event));
        folds
    }

    /// Takes the next event.
    pub fn see(&mut self, event: &Event) {
        match event.kind() {
            "request/header" => {
                self.tools.see_header(event);
                self.header = Some(event.clone());
            }
            "request/context" => self.context = Some(event.clone()),
            "session/title" => self.title = Some(event.clone()),
            "developer/message" => self.tools.see_developer_message(event),
            _ => {}
        }
    }

    /// The request header in force as JSON text in canonical form: `config`, `adapterDefaults` if it marks anything, `tools` if there
    /// are any (`session.md` 11.1). `None` before the first.
    #[must_use]
    pub fn request_header(&self) -> Option<String> {
        let header = self.request_header_event()?.data().get("header")?;
        let [config, defaults, tools] = members(header, ["config", "adapterDefaults", "tools"]);
        let is_marked = |defaults: &Json<'_>| defaults.members().next().is_some();
        let is_filled = |tools: &Json<'_>| tools.elements().next().is_some();
        let mut text = ObjectText::new();
        let parts = [
            ("config", config),
            ("adapterDefaults", defaults.filter(is_marked)),
            ("tools", tools.filter(is_filled)),
        ];
        for (key, value) in parts {
            if let Some(value) = value {
                text.json(key, value.text());
            }
        }
        Some(text.finish())
    }

    /// The event that the request header in force stands in.
    #[must_use]
    pub fn request_header_event(&self) -> Option<&Event> {
        self.header.as_ref()
    }

    /// `data` of the last `request/context`, whole: what it leaves out does not hold any more (`session.md` 11.2).
    #[must_use]
    pub fn request_context(&self) -> Option<Json<'_>> {
        self.context.as_ref().map(Event::data)
    }

    /// The tools that the provider was shown when the current message series began, and how they changed since (`session.md` 11.3).
    #[must_use]
    pub fn tool_history(&self) -> ToolHistory {
        self.tools.history()
    }

    /// The title; `None` before the first.
    #[must_use]
    pub fn title(&self) -> Option<Title> {
        self.title.clone().map(|event| Title { event })
    }
}

/// The request header in force after these events ([`Folds::request_header`]).
pub fn request_header<'a>(events: impl IntoIterator<Item = &'a Event>) -> Option<String> {
    Folds::of(events).request_header()
}

/// The request context in force after these events, JSON text ([`Folds::request_context`]).
pub fn request_context<'a>(events: impl IntoIterator<Item = &'a Event>) -> Option<String> {
    Folds::of(events).request_context().map(|context| context.text().to_owned())
}

/// The tool history after these events ([`Folds::tool_history`]).
pub fn tool_history<'a>(events: impl IntoIterator<Item = &'a Event>) -> ToolHistory {
    Folds::of(events).tool_history()
}

/// The title after these events ([`Folds::title`]).
pub fn title<'a>(events: impl IntoIterator<Item = &'a Event>) -> Option<Title> {
    Folds::of(events).title()
}

/// The title of a session (`session.md` 11.4).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Title {
    event: Event,
}

impl Title {
    /// The title itself; empty where the event has none that is a string.
    #[must_use]
    pub fn text(&self) -> Cow<'_, str> {
        self.event.data().get("title").and_then(|title| title.as_str()).unwrap_or_default()
    }

    /// The event's `data`: `title`, `messageSeqs`, `source`.
    #[must_use]
    pub fn data(&self) -> Json<'_> {
        self.event.data()
    }

    /// The seq of the event that set it.
    #[must_use]
    pub fn event_seq(&self) -> u64 {
        self.event.seq()
    }

    /// When it was set, in milliseconds since 1970.
    #[must_use]
    pub fn updated_at(&self) -> i64 {
        self.event.time()
    }

    /// The data and `eventSeq`, `updatedAt`.
    #[must_use]
    pub fn to_json(&self) -> String {
        let mut own = ObjectText::new();
        own.number("eventSeq", self.event_seq());
        own.number("updatedAt", self.updated_at());
        let own = own.finish();
        let data = self.data();
        if data.members().next().is_none() {
            return own;
        }
        let data = data.text().strip_suffix('}').unwrap_or_default();
        let text = format!("{data},{}", own.strip_prefix('{').unwrap_or_default());
        // Printing takes care of data that has members of these names itself.
        Json::trusted(&text).printed().into_owned()
    }
}

/// Which tools a provider saw, in which order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ToolHistory {
    tools: ToolList,
    updates: Vec<Arc<ToolUpdate>>,
}

impl ToolHistory {
    /// The tools at the start of the message series.
    #[must_use]
    pub fn tools(&self) -> Vec<ToolDefinition> {
        self.tools.definitions().collect()
    }

    /// What each developer message since has changed, in order.
    pub fn updates(&self) -> impl ExactSizeIterator<Item = &ToolUpdate> {
        self.updates.iter().map(|update| &**update)
    }

    /// `{tools, updates: [{messageId, additions}]}`.
    #[must_use]
    pub fn to_json(&self) -> String {
        let mut object = ObjectText::new();
        object.json("tools", &array(self.tools.definitions().map(|tool| tool.json().text().to_owned())));
        object.json("updates", &array(self.updates.iter().map(|update| update.to_json())));
        object.finish()
    }
}

/// What one developer message changed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ToolUpdate {
    event: Event,
    additions: Vec<ToolDefinition>,
}

impl ToolUpdate {
    /// The id of the message, a JSON string.
    #[must_use]
    pub fn message_id(&self) -> Json<'_> {
        let message = self.event.data().get("message");
        message.and_then(|message| message.get("id")).unwrap_or(Json::trusted("null"))
    }

    /// The tools that it added, as the header it refers to defines them; none if it only removed some.
    #[must_use]
    pub fn additions(&self) -> &[ToolDefinition] {
        &self.additions
    }

    fn to_json(&self) -> String {
        let mut object = ObjectText::new();
        object.json("messageId", self.message_id().text());
        object.json("additions", &array(self.additions.iter().map(|tool| tool.json().text().to_owned())));
        object.finish()
    }
}

fn array(values: impl Iterator<Item = String>) -> String {
    format!("[{}]", values.collect::<Vec<_>>().join(","))
}

/// A tool as a request header defines it (`events.md` 7.2).
#[derive(Clone, Debug)]
pub struct ToolDefinition {
    list: ToolList,
    index: usize,
}

impl ToolDefinition {
    /// Its name; empty where it has none that is a string.
    #[must_use]
    pub fn name(&self) -> Cow<'_, str> {
        Json::trusted(self.name_text()).as_str().unwrap_or_default()
    }

    /// The whole schema: `name`, `description`, `parameters` and what else it has, in the order of the log.
    #[must_use]
    pub fn json(&self) -> Json<'_> {
        let list = &*self.list.0;
        let place = list.tools.get(self.index).and_then(|tool| Some((list.event.as_ref()?, &tool.place)));
        place.map_or(Json::trusted("null"), |(event, place)| value_in(event, place))
    }

    fn name_text(&self) -> &str {
        self.list.0.tools.get(self.index).map_or("null", |tool| &tool.name)
    }
}

impl PartialEq for ToolDefinition {
    /// By the text as it is printed: the order of keys counts, the way a number or an escape is written does not.
    fn eq(&self, other: &ToolDefinition) -> bool {
        let is_same = Arc::ptr_eq(&self.list.0, &other.list.0) && self.index == other.index;
        is_same || is_same_text(self.json(), other.json())
    }
}

impl Eq for ToolDefinition {}

fn is_same_text(a: Json<'_>, b: Json<'_>) -> bool {
    a.text() == b.text() || a.printed() == b.printed()
}

/// `tools` of one header, shared by all headers that say the same.
#[derive(Clone, Debug, Default)]
struct ToolList(Arc<Tools>);

#[derive(Debug, Default)]
struct Tools {
    /// In whose `data` the schemas stand; `None` for a header without tools.
    event: Option<Event>,
    /// Where the array stands in the text of `data`.
    array: Range<usize>,
    tools: Vec<Tool>,
    /// The first tool of each name.
    places: HashMap<Box<str>, usize>,
}

#[derive(Debug)]
struct Tool {
    /// JSON text of the name, as printed.
    name: Box<str>,
    /// Where the schema stands in the text of `data`.
    place: Range<usize>,
}

fn value_in<'a>(event: &'a Event, place: &Range<usize>) -> Json<'a> {
    Json::trusted(event.data().text().get(place.clone()).unwrap_or("null"))
}

impl ToolList {
    /// The tools of a `request/header`; `known` is what the header before it had.
    fn of(event: &Event, known: &ToolList) -> ToolList {
        let data = event.data();
        let tools = data.get("header").and_then(|header| header.get("tools"));
        let Some(tools) = tools.filter(|tools| tools.elements().next().is_some()) else {
            return ToolList::default();
        };
        if known.0.event.as_ref().is_some_and(|event| value_in(event, &known.0.array).text() == tools.text())
        {
            return known.clone();
        }
        let place = |part: Json<'_>| {
            let start = (part.text().as_ptr() as usize).saturating_sub(data.text().as_ptr() as usize);
            start..start + part.text().len()
        };
        let mut list = Tools { event: Some(event.clone()), array: place(tools), ..Tools::default() };
        for (index, schema) in tools.elements().enumerate() {
            let name: Box<str> = name_text(schema.get("name"));
            list.places.entry(name.clone()).or_insert(index);
            list.tools.push(Tool { name, place: place(schema) });
        }
        ToolList(Arc::new(list))
    }

    fn definitions(&self) -> impl Iterator<Item = ToolDefinition> + '_ {
        (0..self.0.tools.len()).map(|index| ToolDefinition { list: self.clone(), index })
    }

    fn names(&self) -> impl ExactSizeIterator<Item = &Box<str>> {
        self.0.tools.iter().map(|tool| &tool.name)
    }

    fn named(&self, name: &str) -> Option<ToolDefinition> {
        let &index = self.0.places.get(name)?;
        Some(ToolDefinition { list: self.clone(), index })
    }
}

impl PartialEq for ToolList {
    fn eq(&self, other: &ToolList) -> bool {
        Arc::ptr_eq(&self.0, &other.0) || self.definitions().eq(other.definitions())
    }
}

impl Eq for ToolList {}

/// What a tool is known by: its name as it is printed.
fn name_text(name: Option<Json<'_>>) -> Box<str> {
    name.map_or("null".into(), |name| name.printed().into())
}

/// The state of `session.md` 11.3.
#[derive(Clone, Debug, Default)]
struct ToolFold {
    /// By growing seq.
    headers: Vec<(u64, ToolList)>,
    declared: HashMap<Box<str>, ToolDefinition>,
    /// The tools of the latest header.
    active: ToolList,
    available: BTreeSet<Box<str>>,
    /// The tools at the start of the series; `None` before the first header.
    baseline: Option<ToolList>,
    updates: Vec<Arc<ToolUpdate>>,
}

impl ToolFold {
    fn see_header(&mut self, event: &Event) {
        let list = ToolList::of(event, &self.active);
        let [reason, starts_series] = members(event.data(), ["reason", "startsSeries"]);
        let is_redefined = |tool: ToolDefinition| {
            self.declared.get(tool.name_text()).is_some_and(|declared| *declared != tool)
        };
        let starts_here = self.baseline.is_none()
            || is_word(reason, "series")
            || starts_series.and_then(|value| value.as_bool()) == Some(true)
            || list.definitions().any(is_redefined);
        if starts_here {
            self.declared = list.names().cloned().zip(list.definitions()).collect();
            self.available = list.names().cloned().collect();
            self.updates.clear();
            self.baseline = Some(list.clone());
        }
        self.headers.push((event.seq(), list.clone()));
        self.active = list;
    }

    fn see_developer_message(&mut self, event: &Event) {
        let [message, header_seq] = members(event.data(), ["message", "headerSeq"]);
        let header = header_seq.and_then(|seq| self.header_at(seq.as_count()?));
        let content = message.and_then(|message| message.get("content"));
        let mut additions = Vec::new();
        for block in content.into_iter().flat_map(|content| content.elements()) {
            let [kind, name] = members(block, ["type", "toolName"]);
            let name = name_text(name);
            if is_word(kind, "tool-removal") {
                self.available.remove(&name);
            } else if is_word(kind, "tool-addition")
                && let Some(tool) = header.as_ref().and_then(|header| header.named(&name))
            {
                self.declared.insert(name.clone(), tool.clone());
                self.available.insert(name);
                additions.push(tool);
            }
        }
        self.updates.push(Arc::new(ToolUpdate { event: event.clone(), additions }));
    }

    fn header_at(&self, seq: u64) -> Option<ToolList> {
        let at = self.headers.binary_search_by_key(&seq, |(seq, _)| *seq).ok()?;
        self.headers.get(at).map(|(_, list)| list.clone())
    }

    /// The history, if it explains the tools of the latest header; else those alone.
    fn history(&self) -> ToolHistory {
        let names = self.active.names();
        let is_explained = names.len() == self.available.len()
            && self.active.names().all(|name| self.available.contains(name));
        if is_explained {
            let tools = self.baseline.clone().unwrap_or_default();
            ToolHistory { tools, updates: self.updates.clone() }
        } else {
            ToolHistory { tools: self.active.clone(), updates: Vec::new() }
        }
    }
}
