//! One event, as Python sees it.

use crate::arguments;
use crate::error::raise;
use crate::records;
use pyo3::basic::CompareOp;
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::{PyBytes, PyString};
use std::hash::{DefaultHasher, Hash, Hasher};

/// One event of a session: its row as it is stored, and the fields of its envelope.
///
/// Immutable. Events that were read together share one buffer, so keeping one of them keeps about 1 MiB of its neighbours' text; `raw`
/// and `row` are copies of the event's own text, made when asked for. From Python 3.11 on an event is a buffer as well: what takes
/// bytes-like objects (`memoryview(event)`, `file.write(event)`) gets its row where it lies, read-only and without a copy, for as long
/// as it wants. Where the wheel for 3.10 is installed that is a `TypeError`. Equal rows are equal events.
///
/// >>> event = Event.from_row('{"type":"turn/start","seq":0,"time":1,"data":{"turn":1}}')
/// >>> event.seq, event.type, event.time, event.data
/// (0, 'turn/start', 1, {'turn': 1})
#[pyclass(frozen, module = "dsh_session", weakref)]
pub(crate) struct Event {
    event: dsh_session_core::Event,
    data: PyOnceLock<Py<PyAny>>,
}

impl Event {
    pub(crate) fn new(event: dsh_session_core::Event) -> Event {
        Event { event, data: PyOnceLock::new() }
    }

    pub(crate) fn event(&self) -> &dsh_session_core::Event {
        &self.event
    }
}

/// What `json.loads` makes of a text: numbers keep their digits, a lone surrogate stays one.
pub(crate) fn loads<'py>(py: Python<'py>, text: &str) -> PyResult<Bound<'py, PyAny>> {
    static LOADS: PyOnceLock<Py<PyAny>> = PyOnceLock::new();
    LOADS.import(py, "json", "loads")?.call1((text,))
}

#[pymethods]
impl Event {
    /// An event from a whole row (JSON text, or a dict), made canonical.
    ///
    /// Raises `InvalidArgumentError` for what is no row and `NotLosslessJsonError` for a number that would not come back.
    #[staticmethod]
    fn from_row(py: Python<'_>, row: &Bound<'_, PyAny>) -> PyResult<Event> {
        let text = arguments::line(row).and_then(|text| {
            text.ok_or_else(|| arguments::invalid("a row is a dict or JSON text in a str or bytes"))
        });
        let text = text.map_err(|error| raise(py, &error))?;
        let event = py.detach(|| dsh_session_core::Event::from_row(text));
        event.map(Event::new).map_err(|error| raise(py, &error))
    }

    /// The inverse of pickling: a row that was stored once is not judged again.
    #[staticmethod]
    fn _restore(py: Python<'_>, row: String) -> PyResult<Event> {
        let event = py.detach(|| dsh_session_core::Event::from_stored_row(row));
        event.map(Event::new).map_err(|error| raise(py, &error))
    }

    /// The position in the log, from 0.
    #[getter]
    fn seq(&self) -> u64 {
        self.event.seq()
    }

    /// The event type, such as `turn/start`.
    #[getter]
    fn r#type(&self) -> &str {
        self.event.kind()
    }

    /// Milliseconds since 1970, as the writer's clock said; may go back from one event to the next.
    #[getter]
    fn time(&self) -> i64 {
        self.event.time()
    }

    /// Whether a reader that does not know the type may keep the event without understanding it.
    #[getter]
    fn ignorable(&self) -> bool {
        self.event.ignorable()
    }

    /// The row as it is stored, UTF-8 without its newline: a copy made when asked for, a new object each time. `memoryview(event)` makes
    /// none.
    #[getter]
    fn raw<'py>(&self, py: Python<'py>) -> Bound<'py, PyBytes> {
        PyBytes::new(py, self.event.row().as_bytes())
    }

    /// The row as it is stored, as a `str` without its newline.
    #[getter]
    fn row(&self) -> &str {
        self.event.row()
    }

    /// The row with the ranges of `sourceEventSeqs` written as single numbers.
    #[getter]
    fn logical_row(&self) -> String {
        self.event.logical_row().into_owned()
    }

    /// The payload, parsed by `json.loads` when first asked for and then kept: the same object every time, so treat it as read-only.
    #[getter]
    fn data(&self, py: Python<'_>) -> PyResult<Py<PyAny>> {
        let data =
            self.data.get_or_try_init(py, || loads(py, self.event.data().text()).map(Bound::unbind))?;
        Ok(data.clone_ref(py))
    }

    /// The text of the payload, as it is stored.
    #[getter]
    fn data_json(&self) -> &str {
        self.event.data().text()
    }

    /// What the event does to the surface: `"append"`, a `Replace`, or `None`.
    #[getter]
    fn surface_op<'py>(&self, py: Python<'py>) -> PyResult<Option<Bound<'py, PyAny>>> {
        match self.event.surface_op() {
            None => Ok(None),
            Some(dsh_session_core::SurfaceOp::Append) => Ok(Some(PyString::intern(py, "append").into_any())),
            Some(dsh_session_core::SurfaceOp::Replace { start_seq, end_seq }) => {
                records::replace(py, start_seq, end_seq).map(Some)
            }
        }
    }

    /// The seqs of the events this one was made from, in the order of the row; `None` where the row names none.
    #[getter]
    fn source_event_seqs(&self, py: Python<'_>) -> Option<Vec<u64>> {
        py.detach(|| self.event.source_event_seqs().map(|seqs| seqs.iter().collect()))
    }

    /// The row as it is stored, where it lies.
    ///
    /// # Safety
    /// `view` is one that may be written: Python's own promise, and nobody else calls this.
    #[cfg(Py_3_11)]
    #[expect(unsafe_code, reason = "the slot of Python that this fills gets a raw pointer")]
    unsafe fn __getbuffer__(
        slf: &Bound<'_, Self>,
        view: *mut pyo3::ffi::Py_buffer,
        flags: std::ffi::c_int,
    ) -> PyResult<()> {
        // SAFETY: the promise above.
        unsafe { crate::buffer::lend(view, flags, slf.as_any(), slf.get().event.row().as_bytes()) }
    }

    fn __richcmp__(&self, other: &Bound<'_, PyAny>, op: CompareOp) -> PyResult<Py<PyAny>> {
        let py = other.py();
        let Ok(other) = other.cast::<Event>() else { return Ok(py.NotImplemented()) };
        let is_equal = self.event == other.get().event;
        let answer = match op {
            CompareOp::Eq => is_equal,
            CompareOp::Ne => !is_equal,
            _ => return Ok(py.NotImplemented()),
        };
        Ok(answer.into_pyobject(py)?.to_owned().into_any().unbind())
    }

    fn __hash__(&self) -> u64 {
        let mut hasher = DefaultHasher::new();
        self.event.row().hash(&mut hasher);
        hasher.finish()
    }

    fn __repr__(&self) -> String {
        format!("Event(seq={}, type={:?}, time={})", self.seq(), self.r#type(), self.time())
    }

    fn __reduce__<'py>(slf: &Bound<'py, Self>) -> PyResult<(Bound<'py, PyAny>, (String,))> {
        Ok((slf.get_type().getattr("_restore")?, (slf.get().event.row().to_owned(),)))
    }
}
