//! Messages and what they are made from: the surface, folds of lists of events.

use crate::arguments;
use crate::error::raise;
use crate::event::{Event, loads};
use crate::json;
use crate::records;
use crate::session::Session;
use dsh_session_core::event::Vocabulary;
use dsh_session_core::session::closers::Cause;
use dsh_session_core::session::{self, DerivedMessage, Projections, folds};
use pyo3::basic::CompareOp;
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::{PyBytes, PyDict};
use std::fmt;
use std::hash::{DefaultHasher, Hash, Hasher};

/// One message that a model sees, made by an event on the surface.
///
/// Immutable. `data` is the message object, parsed when first asked for and then kept; `raw` its bytes, `data_json` its text, as stored.
#[pyclass(frozen, module = "dsh_session")]
pub(crate) struct Message {
    message: DerivedMessage,
    data: PyOnceLock<Py<PyAny>>,
}

impl fmt::Debug for Message {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.message.fmt(f)
    }
}

impl Message {
    pub(crate) fn new(message: DerivedMessage) -> Message {
        Message { message, data: PyOnceLock::new() }
    }
}

#[pymethods]
impl Message {
    /// The seq of the event that makes it.
    #[getter]
    fn seq(&self) -> u64 {
        self.message.seq()
    }

    /// The message's id.
    #[getter]
    fn id(&self) -> String {
        self.message.id()
    }

    /// The message object as stored, UTF-8: a copy made when asked for.
    #[getter]
    fn raw<'py>(&self, py: Python<'py>) -> Bound<'py, PyBytes> {
        PyBytes::new(py, self.message.text().as_bytes())
    }

    /// The text of the message object, as stored.
    #[getter]
    fn data_json(&self) -> &str {
        self.message.text()
    }

    /// The message object, parsed by `json.loads` when first asked for and then kept: treat it as read-only.
    #[getter]
    fn data(&self, py: Python<'_>) -> PyResult<Py<PyAny>> {
        let data = self.data.get_or_try_init(py, || loads(py, self.message.text()).map(Bound::unbind))?;
        Ok(data.clone_ref(py))
    }

    fn __richcmp__(&self, other: &Bound<'_, PyAny>, op: CompareOp) -> PyResult<Py<PyAny>> {
        let py = other.py();
        let Ok(other) = other.cast::<Message>() else { return Ok(py.NotImplemented()) };
        let is_equal = self.message == other.get().message;
        let answer = match op {
            CompareOp::Eq => is_equal,
            CompareOp::Ne => !is_equal,
            _ => return Ok(py.NotImplemented()),
        };
        Ok(answer.into_pyobject(py)?.to_owned().into_any().unbind())
    }

    fn __hash__(&self) -> u64 {
        let mut hasher = DefaultHasher::new();
        (self.message.seq(), self.message.text()).hash(&mut hasher);
        hasher.finish()
    }

    fn __repr__(&self) -> String {
        format!("Message(seq={}, id={:?})", self.seq(), self.id())
    }
}

/// What the model sees, as a list of events: `Session.surface`. It follows its session.
///
/// Raises `EventRefusedError` with the rule `PROJECTION_REMOVED` where a projection that the session used was taken away.
#[pyclass(frozen, module = "dsh_session")]
#[derive(Debug)]
pub(crate) struct Surface(Py<Session>);

impl Surface {
    pub(crate) fn new(session: Py<Session>) -> Surface {
        Surface(session)
    }
}

#[pymethods]
impl Surface {
    /// The seqs on the surface, in model order.
    #[getter]
    fn nodes(&self, py: Python<'_>) -> PyResult<Vec<u64>> {
        self.0.get().look(py, |session| session.surface().nodes().map(|nodes| nodes.to_vec()))
    }

    /// The events on the surface, in model order.
    #[getter]
    fn events(&self, py: Python<'_>) -> PyResult<Vec<Event>> {
        let events = self.0.get().look(py, |session| session.surface().events())?;
        Ok(events.into_iter().map(Event::new).collect())
    }

    /// How many replacements there were.
    #[getter]
    fn replace_generation(&self, py: Python<'_>) -> PyResult<u64> {
        self.0.get().look(py, |session| session.surface().replace_generation())
    }

    /// How many replacements and projections there were: while it stays, messages are only added.
    #[getter]
    fn content_generation(&self, py: Python<'_>) -> PyResult<u64> {
        self.0.get().look(py, |session| session.surface().content_generation())
    }
}

/// What a projection decided: a dict from seqs to messages, or pairs of them. A message is a value or JSON text in `bytes`.
pub(crate) fn decided(value: &Bound<'_, PyAny>) -> PyResult<Vec<(u64, String)>> {
    let pairs = match value.cast::<PyDict>() {
        Ok(dict) => dict.items().into_any(),
        Err(_) => value.clone(),
    };
    let mut decided = Vec::new();
    for pair in pairs.try_iter()? {
        let (seq, message): (u64, Bound<'_, PyAny>) = pair?.extract()?;
        let message = match message.cast::<Message>() {
            Ok(message) => message.get().message.text().to_owned(),
            Err(_) => {
                let text = json::text_or_value(&message).map_err(|error| raise(value.py(), &error))?;
                let lossy = |_| raise(value.py(), &arguments::invalid("a message is not UTF-8"));
                String::from_utf8(text).map_err(lossy)?
            }
        };
        decided.push((seq, message));
    }
    Ok(decided)
}

/// Events from `Event`s and whole rows (dicts, JSON text).
pub(crate) fn events(py: Python<'_>, rows: &Bound<'_, PyAny>) -> PyResult<Vec<dsh_session_core::Event>> {
    let mut raw = Vec::new();
    for (row, index) in rows.try_iter()?.zip(0_u64..) {
        raw.push(arguments::row(py, &row?, index)?);
    }
    let admitted = py.detach(|| arguments::admit_all(raw, arguments::RawRow::admit_unstored));
    admitted.map_err(|error| raise(py, &error))
}

/// `"interrupted"` or `"forked"`.
pub(crate) fn cause(py: Python<'_>, word: &str) -> PyResult<Cause> {
    let known = [Cause::Interrupted, Cause::Forked].into_iter().find(|cause| cause.as_str() == word);
    known.ok_or_else(|| {
        raise(py, &arguments::invalid(format!("`{word}` is no cause; use \"interrupted\" or \"forked\"")))
    })
}

/// The events that end what the last turn of a log leaves open; nothing where no turn is open. `rows` are `Event`s, or whole rows as
/// dicts or JSON text, from seq 0 on; `cause` is `"interrupted"` or `"forked"`.
///
/// >>> [event.type for event in closers([{"type": "turn/start", "seq": 0, "time": 5, "data": {"turn": 1}}])]
/// ['turn/end']
#[pyfunction]
#[pyo3(signature = (rows, cause="interrupted"))]
pub(crate) fn closers(py: Python<'_>, rows: &Bound<'_, PyAny>, cause: &str) -> PyResult<Vec<Event>> {
    let (rows, cause) = (events(py, rows)?, self::cause(py, cause)?);
    let closers = py.detach(|| session::closers::closers(&rows, cause)).map_err(|error| raise(py, &error))?;
    Ok(closers.into_iter().map(Event::new).collect())
}

/// The seed of a fork at the event `boundary`, and how many of its events are inherited: for `Store.create` with `seed`.
///
/// Raises `InvalidBoundaryError` for a seq that is not among `rows`.
///
/// >>> seed, inherited = fork_seed([{"type": "turn/start", "seq": 0, "time": 5, "data": {"turn": 1}}], 0)
/// >>> [event.type for event in seed], inherited
/// (['turn/start', 'session/end-seed', 'turn/end'], 1)
#[pyfunction]
pub(crate) fn fork_seed(
    py: Python<'_>,
    rows: &Bound<'_, PyAny>,
    #[pyo3(from_py_with = arguments::given)] boundary: u64,
) -> PyResult<(Vec<Event>, u64)> {
    let rows = events(py, rows)?;
    let (seed, inherited) =
        py.detach(|| session::fork_seed(rows, boundary)).map_err(|error| raise(py, &error))?;
    Ok((seed.into_iter().map(Event::new).collect(), inherited))
}

/// What a list of events leaves on the surface: a `FoldedSurface`. `rows` begin at `base_seq`; what lies before it cannot be replaced.
///
/// Raises `EventRefusedError` with the rule, and the `index` of the first refused event.
///
/// >>> message = {"id": "m1", "role": "user", "content": [], "source": {"kind": "user"}}
/// >>> row = {"type": "user/message", "seq": 0, "time": 5, "data": message, "surfaceOp": "append"}
/// >>> fold_surface([row]).nodes
/// (0,)
#[pyfunction]
#[pyo3(signature = (rows, *, base_seq=0))]
pub(crate) fn fold_surface<'py>(
    py: Python<'py>,
    rows: &Bound<'py, PyAny>,
    #[pyo3(from_py_with = arguments::given)] base_seq: u64,
) -> PyResult<Bound<'py, PyAny>> {
    let rows = events(py, rows)?;
    let folded = py.detach(|| {
        session::fold_surface_window(rows, base_seq, &Projections::built_in(), &Vocabulary::default())
    });
    records::folded_surface(py, &folded.map_err(|error| raise(py, &error))?)
}

/// What a list of events says of the next request and of itself: `request_header`, `request_context`, `tool_history` and `title`, as in
/// `Session`.
///
/// >>> fold([{"type": "request/context", "seq": 0, "time": 5, "data": {"provider": "p", "model": "m"}}]).request_context
/// {'provider': 'p', 'model': 'm'}
#[pyfunction]
pub(crate) fn fold<'py>(py: Python<'py>, rows: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
    let rows = events(py, rows)?;
    let folds = py.detach(|| folds::Folds::of(&rows));
    let value = |text: Option<String>| text.map(|text| loads(py, &text)).transpose();
    records::folds(
        py,
        value(folds.request_header())?,
        value(folds.request_context().map(|context| context.text().to_owned()))?,
        value(Some(folds.tool_history().to_json()))?,
        value(folds.title().map(|title| title.to_json()))?,
    )
}
