//! The chunks in which an answer arrived, and the compact records that hold them in a log (`events.md` 5).
//!
//! Deltas of one block that follow each other share a record, a *run*: their texts, and the times between them. Everything else is a
//! record of its own, as it came. Packing loses nothing but the order of keys in a delta; unpacking judges each record before it gives
//! its first chunk.

use super::build::not_admitted;
use super::facts::{is_text, members};
use crate::error::{Code, Error, Result};
use crate::json::{self, Elements, Json, Kind, ObjectText, SAFE_INTEGER_MAX};

/// The three sorts of deltas that are packed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum RunKind {
    Text,
    Reasoning,
    ToolCall,
}

impl RunKind {
    const ALL: [RunKind; 3] = [RunKind::Text, RunKind::Reasoning, RunKind::ToolCall];

    /// The type of a chunk, and the type of the record.
    fn types(self) -> (&'static str, &'static str) {
        match self {
            RunKind::Text => ("text-delta", "text-chunks"),
            RunKind::Reasoning => ("reasoning-delta", "reasoning-chunks"),
            RunKind::ToolCall => ("tool-call-delta", "tool-call-chunks"),
        }
    }

    /// The key of the text in a chunk, and of the list of texts in the record.
    fn keys(self) -> (&'static str, &'static str) {
        match self {
            RunKind::Text | RunKind::Reasoning => ("text", "texts"),
            RunKind::ToolCall => ("argumentsDelta", "args"),
        }
    }
}

/// What the deltas of one run have in common; texts of JSON values.
#[derive(Clone, Debug, PartialEq, Eq)]
struct RunKey<T> {
    kind: RunKind,
    index: u64,
    /// Tool calls only.
    id: Option<T>,
    /// Tool calls only, and not all of them.
    name: Option<T>,
}

/// Packs timed chunks into records.
///
/// ```
/// use dsh_session_core::event::stream::StreamPacker;
/// let mut packer = StreamPacker::new();
/// packer.push(10, r#"{"type":"text-delta","index":0,"text":"Hel"}"#)?;
/// packer.push(12, r#"{"type":"text-delta","index":0,"text":"lo"}"#)?;
/// packer.push(13, r#"{"type":"finish","reason":{"kind":"stop"}}"#)?;
/// assert_eq!(
///     packer.finish(),
///     r#"[{"type":"text-chunks","time0":10,"index":0,"dt":[2],"texts":["Hel","lo"]},{"type":"chunk","time":13,"chunk":{"type":"finish","reason":{"kind":"stop"}}}]"#
/// );
/// # Ok::<(), dsh_session_core::Error>(())
/// ```
#[derive(Clone, Debug, Default)]
pub struct StreamPacker {
    /// The records that are whole, separated by commas.
    records: String,
    run: Option<OpenRun>,
}

/// The last record, while a delta may still extend it.
#[derive(Clone, Debug)]
struct OpenRun {
    key: RunKey<String>,
    time0: i64,
    last_time: i64,
    /// The elements of `dt` and of the list of texts, separated by commas.
    dt: String,
    texts: String,
}

impl StreamPacker {
    /// No chunk yet.
    #[must_use]
    pub fn new() -> StreamPacker {
        StreamPacker::default()
    }

    /// Adds a chunk, JSON text, that arrived at `time_ms` (milliseconds since 1970; may be before the one before).
    ///
    /// # Errors
    /// `INVALID_ARGUMENT` for a time beyond 2^53-1 or a chunk that is no JSON object, `NOT_LOSSLESS_JSON`, `LIMIT_EXCEEDED` for
    /// nesting. Nothing was added then.
    pub fn push(&mut self, time_ms: i64, chunk: impl AsRef<[u8]>) -> Result<()> {
        // The record, the stream, the data and the row add a level each.
        let text = json::admit(chunk.as_ref(), json::DEPTH_MAX_DEFAULT - 4)
            .map_err(|error| not_admitted(error, "the chunk"))?;
        let chunk = Json::trusted(&text);
        if chunk.kind() != Kind::Object {
            return Err(Error::new(Code::InvalidArgument, "the chunk is not a JSON object"));
        }
        if !is_safe(time_ms) {
            let message = "the time of the chunk is not a number of milliseconds within 2^53-1";
            return Err(Error::new(Code::InvalidArgument, message));
        }
        match packable(chunk) {
            Some((key, text)) => self.push_delta(time_ms, key, text.text()),
            None => self.push_raw(time_ms, chunk),
        }
        Ok(())
    }

    /// All records, the JSON text of an array: what stands in `stream` of an `assistant/message` or `assistant/attempt`.
    #[must_use]
    pub fn finish(mut self) -> String {
        self.close_run();
        format!("[{}]", self.records)
    }

    fn push_delta(&mut self, time: i64, key: RunKey<&str>, text: &str) {
        if let Some(run) = &mut self.run
            && run.has_key(&key)
            && let Some(gap) = time.checked_sub(run.last_time).filter(|&gap| is_safe(gap))
        {
            push_element(&mut run.dt, &gap.to_string());
            push_element(&mut run.texts, text);
            run.last_time = time;
            return;
        }
        self.close_run();
        let owned = |text: Option<&str>| text.map(str::to_owned);
        let key = RunKey { kind: key.kind, index: key.index, id: owned(key.id), name: owned(key.name) };
        self.run =
            Some(OpenRun { key, time0: time, last_time: time, dt: String::new(), texts: text.to_owned() });
    }

    fn push_raw(&mut self, time: i64, chunk: Json<'_>) {
        self.close_run();
        let mut record = ObjectText::new();
        record.string("type", "chunk");
        record.number("time", time);
        record.json("chunk", chunk.text());
        push_element(&mut self.records, &record.finish());
    }

    fn close_run(&mut self) {
        if let Some(run) = self.run.take() {
            push_element(&mut self.records, &run.record());
        }
    }
}

impl OpenRun {
    fn has_key(&self, key: &RunKey<&str>) -> bool {
        let own = &self.key;
        own.kind == key.kind
            && own.index == key.index
            && own.id.as_deref() == key.id
            && own.name.as_deref() == key.name
    }

    fn record(&self) -> String {
        let mut record = ObjectText::new();
        record.string("type", self.key.kind.types().1);
        record.number("time0", self.time0);
        record.number("index", self.key.index);
        record.json("dt", &format!("[{}]", self.dt));
        if let Some(id) = &self.key.id {
            record.json("id", id);
        }
        if let Some(name) = &self.key.name {
            record.json("name", name);
        }
        record.json(self.key.kind.keys().1, &format!("[{}]", self.texts));
        record.finish()
    }
}

fn push_element(elements: &mut String, element: &str) {
    if !elements.is_empty() {
        elements.push(',');
    }
    elements.push_str(element);
}

fn is_safe(value: i64) -> bool {
    value.unsigned_abs() <= SAFE_INTEGER_MAX
}

/// The key and text of a delta that may be part of a run. One that is not exactly of the known form is kept as it came, as are those
/// of tool calls with an empty id or name. The chunk is canonical: equal values have equal texts.
fn packable(chunk: Json<'_>) -> Option<(RunKey<&str>, Json<'_>)> {
    let kind = chunk.get("type")?.as_str()?;
    let kind = RunKind::ALL.into_iter().find(|it| it.types().0 == kind)?;
    let [index, id, name, text] = members(chunk, ["index", "id", "name", kind.keys().0]);
    let is_call = kind == RunKind::ToolCall;
    let known = 3 + usize::from(is_call) + usize::from(is_call && name.is_some());
    let is_known_form = chunk.members().count() == known;
    let (id, name) = if is_call { (Some(id?), name) } else { (None, None) };
    let text = text.filter(|text| text.kind() == Kind::String)?;
    let key = RunKey {
        kind,
        index: index?.as_count()?,
        id: id.map(|id| id.text()),
        name: name.map(|name| name.text()),
    };
    let is_named = [id, name].into_iter().all(|value| value.is_none() || is_text(value));
    (is_known_form && is_named).then_some((key, text))
}

/// A chunk and when it arrived.
#[derive(Clone, Copy, Debug)]
pub struct TimedChunk<'a> {
    /// Milliseconds since 1970.
    pub time_ms: i64,
    /// The chunk.
    pub chunk: Chunk<'a>,
}

/// A chunk of a stream. Texts, ids and names are JSON strings.
#[derive(Clone, Copy, Debug)]
pub enum Chunk<'a> {
    /// `text-delta`.
    Text {
        /// The block.
        index: u64,
        /// What is added to its text.
        text: Json<'a>,
    },
    /// `reasoning-delta`.
    Reasoning {
        /// The block.
        index: u64,
        /// What is added to its text.
        text: Json<'a>,
    },
    /// `tool-call-delta`.
    ToolCall {
        /// The block.
        index: u64,
        /// The id of the call.
        id: Json<'a>,
        /// The tool's name, where this delta has it.
        name: Option<Json<'a>>,
        /// What is added to its arguments.
        arguments: Json<'a>,
    },
    /// Anything else, as it came: `block-start`, `block-end`, `usage`, `finish`, deltas that are not packed.
    Other(Json<'a>),
}

impl Chunk<'_> {
    /// The chunk's JSON text.
    #[must_use]
    pub fn to_json(&self) -> String {
        let (kind, index, text) = match *self {
            Chunk::Text { index, text } => (RunKind::Text, index, text),
            Chunk::Reasoning { index, text } => (RunKind::Reasoning, index, text),
            Chunk::ToolCall { index, arguments, .. } => (RunKind::ToolCall, index, arguments),
            Chunk::Other(chunk) => return chunk.text().to_owned(),
        };
        let mut object = ObjectText::new();
        object.string("type", kind.types().0);
        object.number("index", index);
        if let Chunk::ToolCall { id, name, .. } = self {
            object.json("id", id.text());
            if let Some(name) = name {
                object.json("name", name.text());
            }
        }
        object.json(kind.keys().0, text.text());
        object.finish()
    }
}

/// The chunks of a stream, in order. `stream` is the array of records in the `data` of an `assistant/message` or `assistant/attempt`.
///
/// ```
/// use dsh_session_core::event::stream::unpack;
/// use dsh_session_core::json::{DEPTH_MAX_DEFAULT, Json};
/// let text = r#"[{"type":"text-chunks","time0":10,"index":0,"dt":[2],"texts":["Hel","lo"]}]"#;
/// let chunks = unpack(Json::parse(text, DEPTH_MAX_DEFAULT).unwrap()).collect::<Result<Vec<_>, _>>()?;
/// assert_eq!(chunks[1].time_ms, 12);
/// assert_eq!(chunks[1].chunk.to_json(), r#"{"type":"text-delta","index":0,"text":"lo"}"#);
/// # Ok::<(), dsh_session_core::Error>(())
/// ```
///
/// # Errors
/// The iterator gives `SESSION_REFUSED` with the rule `STREAM_RECORD_INVALID` and the number of the record, from 0, where it meets the
/// first malformed one, and ends there; for a `stream` that is no array at once.
pub fn unpack(stream: Json<'_>) -> Chunks<'_> {
    let is_array = stream.kind() == Kind::Array;
    Chunks { records: is_array.then(|| stream.elements()), record: 0, run: None, is_over: false }
}

/// See [`unpack`].
#[derive(Clone, Debug)]
pub struct Chunks<'a> {
    /// `None` where the stream is no array.
    records: Option<Elements<'a>>,
    /// How many records were met.
    record: u64,
    run: Option<Run<'a>>,
    is_over: bool,
}

/// A judged run, of which some chunks may have been given.
#[derive(Clone, Debug)]
struct Run<'a> {
    key: RunKey<Json<'a>>,
    /// The time of the next chunk.
    time: i64,
    dt: Elements<'a>,
    texts: Elements<'a>,
}

impl<'a> Iterator for Chunks<'a> {
    type Item = Result<TimedChunk<'a>>;

    fn next(&mut self) -> Option<Result<TimedChunk<'a>>> {
        if self.is_over {
            return None;
        }
        if let Some(chunk) = self.run.as_mut().and_then(Run::next_chunk) {
            return Some(Ok(chunk));
        }
        self.run = None;
        let judged = match &mut self.records {
            Some(records) => read_record(records.next()?),
            None => Err("the stream is not an array"),
        };
        let outcome = match judged {
            Ok(Record::Raw(chunk)) => Ok(chunk),
            // A judged run has a first chunk.
            Ok(Record::Run(mut run)) => {
                let first = run.next_chunk().ok_or("it has no members");
                self.run = Some(run);
                first
            }
            Err(why) => Err(why),
        };
        self.is_over = outcome.is_err();
        let record = self.record;
        self.record += 1;
        Some(outcome.map_err(|why| invalid_record(record, why)))
    }
}

impl<'a> Run<'a> {
    fn next_chunk(&mut self) -> Option<TimedChunk<'a>> {
        let text = self.texts.next()?;
        let RunKey { kind, index, id, name } = self.key;
        let chunk = match (kind, id) {
            (RunKind::ToolCall, Some(id)) => Chunk::ToolCall { index, id, name, arguments: text },
            (RunKind::Reasoning, _) => Chunk::Reasoning { index, text },
            _ => Chunk::Text { index, text },
        };
        let time_ms = self.time;
        self.time += self.dt.next().and_then(|gap| gap.as_safe_integer()).unwrap_or(0);
        Some(TimedChunk { time_ms, chunk })
    }
}

enum Record<'a> {
    Raw(TimedChunk<'a>),
    Run(Run<'a>),
}

fn invalid_record(record: u64, why: &str) -> Error {
    Error::new(Code::SessionRefused, format!("record {record} of the stream is invalid: {why}"))
        .with_rule("STREAM_RECORD_INVALID")
        .with_index(record)
        .with_advice("take the message as it stands; how it arrived cannot be read from this stream")
}

/// Judges a record (`events.md` 5.2).
fn read_record(record: Json<'_>) -> Result<Record<'_>, &'static str> {
    if record.kind() != Kind::Object {
        return Err("it is not an object");
    }
    let kind = record.get("type").and_then(|kind| kind.as_str()).ok_or("its `type` is not a string")?;
    if kind == "chunk" {
        return read_raw(record).map(Record::Raw);
    }
    let kind = RunKind::ALL.into_iter().find(|it| it.types().1 == kind).ok_or("its `type` is unknown")?;
    read_run(record, kind).map(Record::Run)
}

fn read_raw(record: Json<'_>) -> Result<TimedChunk<'_>, &'static str> {
    require_keys(record, &["type", "time", "chunk"], &[])?;
    let [time, chunk] = members(record, ["time", "chunk"]);
    let time_ms = time.and_then(|time| time.as_safe_integer()).ok_or("its `time` is not a safe integer")?;
    let chunk = chunk.filter(|chunk| chunk.kind() == Kind::Object).ok_or("its `chunk` is not an object")?;
    Ok(TimedChunk { time_ms, chunk: Chunk::Other(chunk) })
}

fn read_run(record: Json<'_>, kind: RunKind) -> Result<Run<'_>, &'static str> {
    let texts_key = kind.keys().1;
    let [time0, index, dt, id, name, texts] =
        members(record, ["time0", "index", "dt", "id", "name", texts_key]);
    if kind == RunKind::ToolCall {
        require_keys(record, &["type", "time0", "index", "dt", "id", texts_key], &["name"])?;
    } else {
        require_keys(record, &["type", "time0", "index", "dt", texts_key], &[])?;
    }
    let time0 = time0.and_then(|time| time.as_safe_integer()).ok_or("its `time0` is not a safe integer")?;
    let index = index.and_then(|index| index.as_count()).ok_or("its `index` is not a position")?;
    if [id, name].into_iter().any(|value| value.is_some() && !is_text(value)) {
        return Err("its `id` or `name` is not a string with something in it");
    }
    let dt = dt.filter(|dt| dt.kind() == Kind::Array).ok_or("its `dt` is not an array")?;
    let texts = texts.filter(|texts| texts.kind() == Kind::Array).ok_or("its texts are not an array")?;
    judge_members(time0, dt, texts)?;
    let key = RunKey { kind, index, id, name };
    Ok(Run { key, time: time0, dt: dt.elements(), texts: texts.elements() })
}

fn judge_members(time0: i64, dt: Json<'_>, texts: Json<'_>) -> Result<(), &'static str> {
    let mut count = 0_usize;
    for text in texts.elements() {
        if text.kind() != Kind::String {
            return Err("one of its texts is not a string");
        }
        count += 1;
    }
    let (mut time, mut gaps) = (time0, 0_usize);
    for gap in dt.elements() {
        let gap = gap.as_safe_integer().ok_or("a member of its `dt` is not a safe integer")?;
        // Both are within 2^53, so the sum is within 2^54.
        time += gap;
        if !is_safe(time) {
            return Err("a time of it is not a safe integer");
        }
        gaps += 1;
    }
    match count {
        0 => Err("it has no members"),
        _ if gaps + 1 != count => Err("its `dt` is not one shorter than its texts"),
        _ => Ok(()),
    }
}

/// Exactly these keys, the optional ones or not.
fn require_keys(record: Json<'_>, required: &[&str], optional: &[&str]) -> Result<(), &'static str> {
    let is_known = |key: &str| required.contains(&key) || optional.contains(&key);
    if record.members().any(|(key, _)| !is_known(&key)) {
        return Err("it has a key that such a record has not");
    }
    let has = |key: &&str| record.get(key).is_some();
    if required.iter().all(has) { Ok(()) } else { Err("it lacks a key") }
}
