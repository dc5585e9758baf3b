//! A session that is being recorded.

use crate::arguments::{self, RawDraft, given};
use crate::error::raise;
use crate::event::Event;
use crate::events::EventIterator;
use crate::handle::{collect, leave};
use crate::json;
use crate::records;
use crate::run::Runner;
use dsh_session_core::{Code, Error};
use pyo3::prelude::*;
use pyo3::types::PyList;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// One session, open for appending: from `Store.create` and `Store.open_session`.
///
/// `append` accepts an event in memory; it is on the disk when `flush` or `close` has returned. Use it as a context manager. Any number of
/// threads may use one.
#[pyclass(frozen, module = "dsh_session", weakref)]
#[derive(Debug)]
pub(crate) struct Session {
    runner: Arc<Runner>,
    /// Taken only by dropping.
    session: Option<Arc<dsh_session_core::Session>>,
    is_closed: AtomicBool,
}

impl Session {
    pub(crate) fn new(runner: &Arc<Runner>, session: Arc<dsh_session_core::Session>) -> Session {
        Session { runner: Arc::clone(runner), session: Some(session), is_closed: AtomicBool::new(false) }
    }

    /// The session, where using it cannot block a forked child.
    fn get(&self, py: Python<'_>) -> PyResult<&Arc<dsh_session_core::Session>> {
        self.runner.check_process().map_err(|error| raise(py, &error))?;
        let gone = || raise(py, &Error::new(Code::HandleClosed, "the session is being collected"));
        self.session.as_ref().ok_or_else(gone)
    }

    fn append_drafts(&self, py: Python<'_>, drafts: Vec<RawDraft>) -> PyResult<Vec<Event>> {
        let session = self.get(py)?;
        let events = self.runner.in_place(py, || {
            let drafts = arguments::admit_all(drafts, RawDraft::admit)
                .map_err(|error| error.with_session_id(session.id()))?;
            session.append_batch(&drafts)
        })?;
        Ok(events.into_iter().map(Event::new).collect())
    }

    fn append_one(&self, py: Python<'_>, draft: RawDraft) -> PyResult<Event> {
        let mut events = self.append_drafts(py, vec![draft])?;
        events.pop().ok_or_else(|| raise(py, &Error::new(Code::Internal, "an accepted event vanished")))
    }
}

#[pymethods]
impl Session {
    /// The session's id.
    #[getter]
    fn id<'a>(&'a self, py: Python<'_>) -> PyResult<&'a str> {
        Ok(self.get(py)?.id())
    }

    /// What the session is, fixed when it was created.
    #[getter]
    fn header<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        records::header(py, self.get(py)?.header())
    }

    /// The seq that the next event gets: how many events the session has.
    #[getter]
    fn next_seq(&self, py: Python<'_>) -> PyResult<u64> {
        let session = self.get(py)?;
        self.runner.in_place(py, || Ok(session.next_seq()))
    }

    /// What is accepted and not on the disk yet, and why, if writing has failed.
    #[getter]
    fn pending<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        let session = self.get(py)?;
        let pending = self.runner.in_place(py, || Ok(session.pending()))?;
        records::pending(py, &pending)
    }

    /// What opening and writing have found so far: dicts with a `kind` and its figures.
    #[getter]
    fn notices<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyList>> {
        let session = self.get(py)?;
        let notices = self.runner.in_place(py, || Ok(session.notices()))?;
        records::notices(py, &notices)
    }

    /// Whether `close` has begun.
    #[getter]
    fn closed(&self) -> bool {
        self.is_closed.load(Ordering::Acquire)
    }

    /// Accepts one event and gives it back with its seq.
    ///
    /// `data` is a value (dict, list, str, number, bool or None), written down at once: changing it later has no effect. `bytes` are
    /// taken as JSON text. A str with a lone surrogate keeps it. `surface` is `"append"`, or a pair `(start_seq, end_seq)` (see
    /// `Replace`) whose place the event takes; `sources` are the seqs of the events it was made from; `time` is in milliseconds
    /// since 1970, the clock's unless given.
    ///
    /// Raises `EventRefusedError`, `NotLosslessJsonError` (NaN, infinities, negative zero, integers that no double holds),
    /// `InvalidArgumentError`, `SessionHandleClosedError`, `LimitExceededError`.
    #[pyo3(signature = (r#type, data, *, surface=None, sources=None, time=None))]
    fn append(
        &self,
        py: Python<'_>,
        #[pyo3(from_py_with = given)] r#type: String,
        data: &Bound<'_, PyAny>,
        surface: Option<&Bound<'_, PyAny>>,
        #[pyo3(from_py_with = given)] sources: Option<Vec<u64>>,
        #[pyo3(from_py_with = given)] time: Option<i64>,
    ) -> PyResult<Event> {
        let failed = |error: Error| raise(py, &error);
        let surface = surface.map(arguments::surface).transpose().map_err(failed)?;
        let data = json::text_or_value(data).map_err(failed)?;
        self.append_one(py, RawDraft::Parts { kind: r#type, data, surface, sources, time })
    }

    /// Accepts several events together: all of them or none, in one frame on the disk.
    ///
    /// Each is a pair `(type, data)`, or an event in the form of a line: a dict with `type`, `data` and, where wanted, `surfaceOp`,
    /// `sourceEventSeqs`, `seq`, `time`; or the JSON text of one, in `str` or `bytes`. An exception names the member in `index`.
    fn append_many(&self, py: Python<'_>, events: &Bound<'_, PyAny>) -> PyResult<Vec<Event>> {
        let mut drafts = Vec::new();
        for (event, index) in events.try_iter()?.zip(0_u64..) {
            drafts.push(arguments::draft(py, &event?, index)?);
        }
        self.append_drafts(py, drafts)
    }

    /// Accepts one event given as a line of JSON (`str` or `bytes`), as the command `append` does.
    fn append_line(&self, py: Python<'_>, line: &Bound<'_, PyAny>) -> PyResult<Event> {
        let text = arguments::line(line)
            .and_then(|text| text.ok_or_else(|| arguments::invalid("a line is JSON text in a str or bytes")));
        let text = text.map_err(|error| raise(py, &error))?;
        self.append_one(py, RawDraft::Line(text))
    }

    /// The durability barrier: on return every accepted event is on the disk.
    ///
    /// Raises `SessionOwnershipLostError`, `SessionAlreadyOwnedError`, `SessionAlreadyExistsError`, `DshIOError`,
    /// `SessionHandleClosedError`; the events wait on, in order.
    fn flush(&self, py: Python<'_>) -> PyResult<()> {
        let session = Arc::clone(self.get(py)?);
        self.runner.change(py, move |cancel| session.flush_with(cancel))
    }

    /// The session's events, those included that are not on the disk yet: `count` of them from `from_seq` on, or the `newest` ones.
    #[pyo3(signature = (*, from_seq=0, count=None, newest=None))]
    fn events(
        &self,
        py: Python<'_>,
        #[pyo3(from_py_with = given)] from_seq: u64,
        #[pyo3(from_py_with = given)] count: Option<u64>,
        #[pyo3(from_py_with = given)] newest: Option<u64>,
    ) -> PyResult<EventIterator> {
        let range = arguments::range(py, from_seq, count, newest)?;
        let session = Arc::clone(self.get(py)?);
        let events = self.runner.read(py, move |_| session.events(range))?;
        Ok(EventIterator::new(&self.runner, events))
    }

    /// Writes what waits and gives up ownership. A second close does nothing.
    ///
    /// Raises what `flush` raises; the session is closed all the same.
    fn close(&self, py: Python<'_>) -> PyResult<()> {
        let session = self.get(py)?;
        self.is_closed.store(true, Ordering::Release);
        self.runner.in_place(py, || session.close())
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
        let id = self.session.as_ref().map_or("", |session| session.id());
        format!("<dsh_session.Session {id:?}{}>", if self.closed() { " (closed)" } else { "" })
    }
}

impl Drop for Session {
    fn drop(&mut self) {
        let is_closed = self.closed();
        let what = format!("{self:?}");
        let what = self.session.as_ref().map_or(what, |session| format!("session {:?}", session.id()));
        collect(&self.runner, &mut self.session, is_closed, &what);
    }
}
