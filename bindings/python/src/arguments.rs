//! From Python arguments to those of the core.

use crate::error::raise;
use crate::event::Event;
use crate::json;
use dsh_session_core::json::ObjectText;
use dsh_session_core::{
    Access, Code, Encoding, Error, EventDraft, EventRange, NewSession, Result, SurfaceOp,
};
use pyo3::exceptions::{PyOverflowError, PyUnicodeError};
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict, PyString};
use std::path::PathBuf;

/// An argument as its type asks for it. Where the type is right and the value is one that the library cannot take (a number out of range, a
/// str that is no Unicode text) the exception is the library's `InvalidArgumentError`, not one of the conversion.
///
/// For every argument that is text or a number: `#[pyo3(from_py_with = arguments::given)]`.
pub(crate) fn given<'py, T>(value: &Bound<'py, PyAny>) -> PyResult<T>
where
    T: for<'a> FromPyObject<'a, 'py>,
{
    value.extract::<T>().map_err(|refusal| {
        let (py, refusal): (_, PyErr) = (value.py(), refusal.into());
        if refusal.is_instance_of::<PyOverflowError>(py) {
            raise(py, &invalid(format!("the number {value} is out of range")))
        } else if refusal.is_instance_of::<PyUnicodeError>(py) {
            raise(py, &invalid("a str holds a lone surrogate, which ids, names and paths cannot"))
        } else {
            refusal
        }
    })
}

/// A path, from a `str` or a path object.
pub(crate) fn path(value: &Bound<'_, PyAny>) -> PyResult<Option<PathBuf>> {
    if value.is_instance_of::<PyBytes>() {
        let error = invalid("a path is a str or a path object, not bytes");
        return Err(raise(value.py(), &error.with_advice("make a str of it with os.fsdecode")));
    }
    given(value)
}

pub(crate) fn invalid(message: impl Into<String>) -> Error {
    Error::new(Code::InvalidArgument, message)
}

/// `"none"` or `"zstd"`.
pub(crate) fn encoding(name: &str) -> Result<Encoding> {
    Encoding::from_name(name)
        .ok_or_else(|| invalid(format!("`{name}` is no encoding; use \"zstd\" or \"none\"")))
}

/// `"read"` or `"write"`.
pub(crate) fn access(name: &str) -> Result<Access> {
    match name {
        "read" => Ok(Access::Read),
        "write" => Ok(Access::Write),
        _ => Err(invalid(format!("`{name}` is no access; use \"read\" or \"write\""))),
    }
}

/// `from_seq` and `count`, or `newest`.
pub(crate) fn range(
    py: Python<'_>,
    from_seq: u64,
    count: Option<u64>,
    newest: Option<u64>,
) -> PyResult<EventRange> {
    match newest {
        Some(_) if from_seq != 0 || count.is_some() => {
            Err(raise(py, &invalid("`newest` excludes `from_seq` and `count`")))
        }
        Some(newest) => Ok(EventRange::newest(newest)),
        None => Ok(EventRange::window(from_seq, count.unwrap_or(u64::MAX))),
    }
}

/// What may be said of a new session; absent fields get the core's defaults.
#[derive(Debug, Default)]
pub(crate) struct Header {
    pub(crate) id: Option<String>,
    pub(crate) cwd: Option<PathBuf>,
    pub(crate) parent_session: Option<String>,
    pub(crate) created_at: Option<u64>,
    pub(crate) agent_preset: Option<String>,
    pub(crate) origin: Option<String>,
    pub(crate) delegation_depth: Option<u64>,
    pub(crate) is_seeded: bool,
    pub(crate) inherited_event_count: Option<u64>,
    pub(crate) seed: Option<Vec<dsh_session_core::Event>>,
}

impl Header {
    pub(crate) fn into_new_session(self) -> Result<NewSession> {
        if self.id.as_deref() == Some("") {
            return Err(invalid("an id may not be empty; leave it out to have one made"));
        }
        let cwd = self.cwd.map(PathBuf::into_os_string).map(|cwd| cwd.into_string()).transpose();
        let cwd = cwd.map_err(|_| invalid("`cwd` is not UTF-8, which the header cannot hold"))?;
        let mut text = ObjectText::new();
        let words = [
            ("id", self.id),
            ("cwd", cwd),
            ("parentSession", self.parent_session),
            ("agentPreset", self.agent_preset),
            ("origin", self.origin),
        ];
        for (key, word) in words {
            if let Some(word) = word {
                text.string(key, &word);
            }
        }
        let numbers = [("createdAt", self.created_at), ("delegationDepth", self.delegation_depth)];
        for (key, number) in numbers {
            if let Some(number) = number {
                text.number(key, number);
            }
        }
        if self.is_seeded {
            text.boolean("isSeeded", true);
        }
        let mut new = NewSession::from_json(&text.finish())?;
        new.inherited_event_count = self.inherited_event_count;
        new.seed = self.seed;
        Ok(new)
    }
}

/// `"append"`, or the pair of seqs that the event replaces.
pub(crate) fn surface(value: &Bound<'_, PyAny>) -> Result<SurfaceOp> {
    if value.cast::<PyString>().is_ok_and(|word| word == "append") {
        return Ok(SurfaceOp::Append);
    }
    match value.extract::<(u64, u64)>() {
        Ok((start_seq, end_seq)) => Ok(SurfaceOp::Replace { start_seq, end_seq }),
        Err(_) => Err(invalid("`surface` is neither \"append\" nor a pair (start_seq, end_seq)")),
    }
}

/// A draft whose payload is still to be admitted: that is work, done with the interpreter's lock released.
#[derive(Debug)]
pub(crate) enum RawDraft {
    /// A line of `append` (`cli.md`).
    Line(Vec<u8>),
    /// What the arguments of `append` say.
    Parts {
        kind: String,
        data: Vec<u8>,
        surface: Option<SurfaceOp>,
        sources: Option<Vec<u64>>,
        time: Option<i64>,
    },
}

impl RawDraft {
    pub(crate) fn admit(self) -> Result<EventDraft> {
        match self {
            RawDraft::Line(line) => EventDraft::from_line(line),
            RawDraft::Parts { kind, data, surface, sources, time } => {
                let mut draft = EventDraft::new(kind, data)?;
                if let Some(op) = surface {
                    draft = draft.surface(op);
                }
                if let Some(sources) = sources {
                    draft = draft.source_event_seqs(sources);
                }
                Ok(if let Some(time) = time { draft.at_time(time) } else { draft })
            }
        }
    }
}

/// One member of `append_many`: a pair `(type, data)`, or an event in the form of a line: a dict, JSON text in `bytes` or `str`.
pub(crate) fn draft(py: Python<'_>, member: &Bound<'_, PyAny>, index: u64) -> PyResult<RawDraft> {
    let placed = |error: Error| raise(py, &error.with_index(index));
    if let Some(line) = line(member).map_err(placed)? {
        return Ok(RawDraft::Line(line));
    }
    let Ok((kind, data)) = member.extract::<(String, Bound<'_, PyAny>)>() else {
        return Err(placed(invalid(format!(
            "member {index} is neither a pair (type, data) nor an event as a dict or a line of JSON"
        ))));
    };
    let data = json::text_or_value(&data).map_err(placed)?;
    Ok(RawDraft::Parts { kind, data, surface: None, sources: None, time: None })
}

/// The text of an object given as text or as a dict; `None` for anything else.
pub(crate) fn line(value: &Bound<'_, PyAny>) -> Result<Option<Vec<u8>>> {
    if let Some(bytes) = json::text_bytes(value) {
        return Ok(Some(bytes));
    }
    if let Ok(text) = value.cast::<PyString>() {
        return json::line_bytes(text).map(Some);
    }
    if value.cast::<PyDict>().is_ok() {
        return json::to_json(value).map(|text| Some(text.into_bytes()));
    }
    Ok(None)
}

/// A row for a log: an event, or text still to be admitted.
#[derive(Debug)]
pub(crate) enum RawRow {
    Event(dsh_session_core::Event),
    Text(Vec<u8>),
}

impl RawRow {
    pub(crate) fn admit(self) -> Result<dsh_session_core::Event> {
        match self {
            RawRow::Event(event) => Ok(event),
            RawRow::Text(text) => dsh_session_core::Event::from_row(text),
        }
    }

    /// As the folds take rows: what only storage asks of one is not asked.
    pub(crate) fn admit_unstored(self) -> Result<dsh_session_core::Event> {
        match self {
            RawRow::Event(event) => Ok(event),
            RawRow::Text(text) => dsh_session_core::Event::from_unstored_row(text),
        }
    }
}

/// One member of `SessionLog.append`: an `Event`, kept byte for byte, or a whole row as a dict or JSON text.
pub(crate) fn row(py: Python<'_>, member: &Bound<'_, PyAny>, index: u64) -> PyResult<RawRow> {
    let placed = |error: Error| raise(py, &error.with_index(index));
    if let Ok(event) = member.cast::<Event>() {
        return Ok(RawRow::Event(event.get().event().clone()));
    }
    match line(member).map_err(placed)? {
        Some(text) => Ok(RawRow::Text(text)),
        None => Err(placed(invalid(format!(
            "member {index} is neither an Event nor a row as a dict or a line of JSON"
        )))),
    }
}

/// Admits what was gathered, naming the member that is refused.
pub(crate) fn admit_all<R, T>(raw: Vec<R>, admit: impl Fn(R) -> Result<T>) -> Result<Vec<T>> {
    let numbered = raw.into_iter().zip(0_u64..);
    numbered.map(|(member, index)| admit(member).map_err(|error| error.with_index(index))).collect()
}
