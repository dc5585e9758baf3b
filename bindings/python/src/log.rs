//! An open channel onto a stored log.

use crate::arguments::{self, RawRow, given};
use crate::error::raise;
use crate::event::Event;
use crate::events::EventIterator;
use crate::handle::{OpenLog, collect, leave};
use crate::records;
use crate::run::Runner;
use dsh_session_core::{Access, Code, Error};
use pyo3::prelude::*;
use pyo3::types::PyList;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// An open channel onto a stored log: from `Store.open_log` and `Store.create_log`.
///
/// A read handle works beside a writer and sees what has been written since; it never goes back behind what it has given. A write handle
/// takes whole rows; each `append` is one frame, on the disk when it returns. Use it as a context manager.
#[pyclass(frozen, module = "dsh_session", weakref)]
#[derive(Debug)]
pub(crate) struct SessionLog {
    runner: Arc<Runner>,
    /// Taken only by dropping.
    log: Option<Arc<OpenLog>>,
    is_closed: AtomicBool,
}

impl SessionLog {
    pub(crate) fn new(runner: &Arc<Runner>, log: Arc<OpenLog>) -> SessionLog {
        SessionLog { runner: Arc::clone(runner), log: Some(log), is_closed: AtomicBool::new(false) }
    }

    /// The log, where using it cannot block a forked child.
    fn get(&self, py: Python<'_>) -> PyResult<&Arc<OpenLog>> {
        self.runner.check_process().map_err(|error| raise(py, &error))?;
        let gone = || raise(py, &Error::new(Code::HandleClosed, "the log is being collected"));
        self.log.as_ref().ok_or_else(gone)
    }
}

#[pymethods]
impl SessionLog {
    /// The session's id.
    #[getter]
    fn id<'a>(&'a self, py: Python<'_>) -> PyResult<&'a str> {
        Ok(self.get(py)?.0.id())
    }

    /// What the session is, fixed when it was created.
    #[getter]
    fn header<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        records::header(py, self.get(py)?.0.header())
    }

    /// `"read"` or `"write"`.
    #[getter]
    fn access(&self, py: Python<'_>) -> PyResult<&'static str> {
        Ok(match self.get(py)?.0.access() {
            Access::Read => "read",
            Access::Write => "write",
        })
    }

    /// What opening and writing have found so far: dicts with a `kind` and its figures.
    #[getter]
    fn notices<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyList>> {
        let log = self.get(py)?;
        let notices = self.runner.in_place(py, || Ok(log.0.notices()))?;
        records::notices(py, &notices)
    }

    /// Whether `close` has begun.
    #[getter]
    fn closed(&self) -> bool {
        self.is_closed.load(Ordering::Acquire)
    }

    /// How many events the log has. A write handle knows; a read handle looks at the end of the log.
    fn event_count(&self, py: Python<'_>) -> PyResult<u64> {
        let log = Arc::clone(self.get(py)?);
        self.runner.read(py, move |cancel| log.0.event_count(cancel))
    }

    /// How many events at the beginning were inherited by a fork.
    fn inherited_event_count(&self, py: Python<'_>) -> PyResult<u64> {
        let log = Arc::clone(self.get(py)?);
        self.runner.read(py, move |cancel| log.0.inherited_event_count(cancel))
    }

    /// Adds a batch of whole rows: all of them or none, on the disk on return. Each is an `Event`, kept byte for byte, a dict, or JSON
    /// text in `str` or `bytes`. The first row's seq must be the next one.
    ///
    /// Raises `InvalidArgumentError` (with `index`), `NotLosslessJsonError`, `SessionReadOnlyError`, `SessionAlreadyOwnedError`,
    /// `SessionOwnershipLostError`, `SessionFormatUnsupportedError`, `SessionHandleClosedError`, `DshIOError`.
    fn append(&self, py: Python<'_>, rows: &Bound<'_, PyAny>) -> PyResult<()> {
        let log = Arc::clone(self.get(py)?);
        let mut raw = Vec::new();
        for (row, index) in rows.try_iter()?.zip(0_u64..) {
            raw.push(arguments::row(py, &row?, index)?);
        }
        self.runner.change(py, move |cancel| {
            let batch = arguments::admit_all(raw, RawRow::admit)
                .map_err(|error| error.with_session_id(log.0.id()))?;
            log.0.append(&batch, cancel)
        })
    }

    /// `length` events from `offset` on, all at once; fewer at the end of the log.
    fn read(
        &self,
        py: Python<'_>,
        #[pyo3(from_py_with = given)] offset: u64,
        #[pyo3(from_py_with = given)] length: u64,
    ) -> PyResult<Vec<Event>> {
        let log = Arc::clone(self.get(py)?);
        let slice = self.runner.read(py, move |cancel| log.0.read(offset, length, cancel))?;
        Ok(slice.events.into_iter().map(Event::new).collect())
    }

    /// Events in bounded memory: `count` of them from `from_seq` on, or the `newest` ones.
    #[pyo3(signature = (*, from_seq=0, count=None, newest=None))]
    fn events(
        &self,
        py: Python<'_>,
        #[pyo3(from_py_with = given)] from_seq: u64,
        #[pyo3(from_py_with = given)] count: Option<u64>,
        #[pyo3(from_py_with = given)] newest: Option<u64>,
    ) -> PyResult<EventIterator> {
        let range = arguments::range(py, from_seq, count, newest)?;
        let log = Arc::clone(self.get(py)?);
        let events = self.runner.read(py, move |cancel| log.0.events(range, cancel))?;
        Ok(EventIterator::new(&self.runner, events))
    }

    /// Reads and checks everything, keeps nothing, and tells what the end of the log looks like.
    fn check<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        let log = Arc::clone(self.get(py)?);
        let end = self.runner.read(py, move |cancel| log.0.check(cancel))?;
        records::log_end(py, &end)
    }

    /// The durability barrier; also puts a new session on the disk that has no events yet.
    fn flush(&self, py: Python<'_>) -> PyResult<()> {
        let log = Arc::clone(self.get(py)?);
        self.runner.change(py, move |cancel| log.0.flush(cancel))
    }

    /// Ends the work and gives up ownership. A second close does nothing.
    fn close(&self, py: Python<'_>) -> PyResult<()> {
        let log = self.get(py)?;
        self.is_closed.store(true, Ordering::Release);
        self.runner.in_place(py, || log.0.close())
    }

    fn __enter__(slf: PyRef<'_, Self>) -> PyRef<'_, Self> {
        slf
    }

    #[pyo3(signature = (exc_type, exc_value, traceback, /))]
    fn __exit__(
        &self,
        py: Python<'_>,
        exc_type: &Bound<'_, PyAny>,
        exc_value: &Bound<'_, PyAny>,
        traceback: &Bound<'_, PyAny>,
    ) -> PyResult<bool> {
        let _ = (exc_type, traceback);
        leave(py, Some(exc_value), || self.close(py))
    }

    fn __repr__(&self) -> String {
        let id = self.log.as_ref().map_or("", |log| log.0.id());
        format!("<dsh_session.SessionLog {id:?}{}>", if self.closed() { " (closed)" } else { "" })
    }
}

impl Drop for SessionLog {
    fn drop(&mut self) {
        let is_closed = self.closed();
        let what =
            self.log.as_ref().map_or_else(String::new, |log| format!("log of session {:?}", log.0.id()));
        collect(&self.runner, &mut self.log, is_closed, &what);
    }
}
