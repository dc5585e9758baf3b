//! A session that is being recorded.

use crate::arguments::{self, RawDraft, given};
use crate::callbacks::Subscriptions;
use crate::error::raise;
use crate::event::{Event, loads};
use crate::events::EventIterator;
use crate::handle::{collect, leave};
use crate::json;
use crate::message::{self, Message, Surface};
use crate::records;
use crate::run::Runner;
use dsh_session_core::session::WriteState;
use dsh_session_core::{Code, Error, Result};
use pyo3::prelude::*;
use pyo3::types::PyList;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// One session, open for appending: from `Store.create`, `Store.resume`, `Store.fork` and `Store.open_session`.
///
/// `append` accepts an event in memory; it is on the disk when `flush` or `close` has returned. Use it as a context manager. Any number of
/// threads may use one. What a listener is given, and what `Store.get` gives, is a view: the same session, which it does not keep open.
///
/// >>> with Store() as store:
/// ...     with store.create(id="s1") as session:
/// ...         hello = {"id": "m1", "role": "user", "content": [], "source": {"kind": "user"}}
/// ...         event = session.append("user/message", hello, surface="append")
/// ...         [message.data["role"] for message in session.messages()], session.surface.nodes
/// (['user'], [0])
#[pyclass(frozen, module = "dsh_session", weakref)]
#[derive(Debug)]
pub(crate) struct Session {
    runner: Arc<Runner>,
    /// Taken only by dropping.
    session: Option<Arc<dsh_session_core::Session>>,
    is_closed: AtomicBool,
    /// Whether the session stays as it is when this is dropped.
    is_view: bool,
    hears_flush: Option<Arc<Subscriptions>>,
}

impl Session {
    pub(crate) fn new(
        runner: &Arc<Runner>,
        subscriptions: &Arc<Subscriptions>,
        session: Arc<dsh_session_core::Session>,
    ) -> Session {
        Session {
            runner: Arc::clone(runner),
            session: Some(session),
            is_closed: AtomicBool::new(false),
            is_view: false,
            hears_flush: Some(Arc::clone(subscriptions)),
        }
    }

    /// A session that belongs to somebody else.
    pub(crate) fn view(runner: &Arc<Runner>, session: dsh_session_core::Session) -> Session {
        Session {
            runner: Arc::clone(runner),
            session: Some(Arc::new(session)),
            is_closed: AtomicBool::new(false),
            is_view: true,
            hears_flush: None,
        }
    }

    /// Reads something of the session, with the interpreter's lock released.
    pub(crate) fn look<T: Send>(
        &self,
        py: Python<'_>,
        look: impl FnOnce(&dsh_session_core::Session) -> Result<T> + Send,
    ) -> PyResult<T> {
        let session = self.get(py)?;
        self.runner.in_place(py, || look(session))
    }

    fn parsed<'py>(
        &self,
        py: Python<'py>,
        text: impl FnOnce(&dsh_session_core::Session) -> Option<String> + Send,
    ) -> PyResult<Option<Bound<'py, PyAny>>> {
        let text = self.look(py, |session| Ok(text(session)))?;
        text.map(|text| loads(py, &text)).transpose()
    }

    /// The session, where using it cannot block a forked child.
    fn get(&self, py: Python<'_>) -> PyResult<&Arc<dsh_session_core::Session>> {
        self.runner.check_process().map_err(|error| raise(py, &error))?;
        let gone = || raise(py, &Error::new(Code::HandleClosed, "the session is being collected"));
        self.session.as_ref().ok_or_else(gone)
    }

    fn append_drafts(&self, py: Python<'_>, drafts: Vec<RawDraft>, form: Form) -> PyResult<Vec<Event>> {
        let session = self.get(py)?;
        let events = self.runner.in_place(py, || {
            let drafts = arguments::admit_all(drafts, RawDraft::admit)
                .map_err(|error| error.with_session_id(session.id()))?;
            match (form, &drafts[..]) {
                (Form::Single, [single]) => session.append(single).map(|event| vec![event]),
                _ => session.append_batch(&drafts),
            }
        })?;
        Ok(events.into_iter().map(Event::new).collect())
    }

    fn append_one(&self, py: Python<'_>, draft: RawDraft) -> PyResult<Event> {
        let mut events = self.append_drafts(py, vec![draft], Form::Single)?;
        events.pop().ok_or_else(|| raise(py, &Error::new(Code::Internal, "an accepted event vanished")))
    }
}

/// Whether `current_batch_publication` is set while the events are published.
#[derive(Clone, Copy)]
enum Form {
    Single,
    Batch,
}

fn write_state(state: WriteState) -> &'static str {
    match state {
        WriteState::Independent => "independent",
        WriteState::Prepared => "prepared",
        WriteState::Entered => "entered",
        WriteState::Announcing => "announcing",
        WriteState::Live => "live",
        WriteState::Failed => "failed",
        WriteState::Removed => "removed",
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

    /// How many events at the beginning were inherited by a fork; 0 in a session that is not seeded.
    #[getter]
    fn inherited_event_count(&self, py: Python<'_>) -> PyResult<u64> {
        Ok(self.get(py)?.inherited_event_count())
    }

    /// The length of the seed, or of the log that was resumed: where events begin that were appended to this object.
    #[getter]
    fn first_live_seq(&self, py: Python<'_>) -> PyResult<u64> {
        Ok(self.get(py)?.first_live_seq())
    }

    /// The first event that was made for this object's life.
    #[getter]
    fn first_lifecycle_seq(&self, py: Python<'_>) -> PyResult<u64> {
        Ok(self.get(py)?.first_lifecycle_seq())
    }

    /// Whether the session may be written: `"live"`; `"announcing"` while creation listeners are called, `"failed"` after one refused,
    /// `"removed"` once it has left its store.
    #[getter]
    fn write_state(&self, py: Python<'_>) -> PyResult<&'static str> {
        self.look(py, |session| Ok(write_state(session.write_state())))
    }

    /// The member of an `append_many` that is being published, while it is; `None` at any other time.
    #[getter]
    fn current_batch_publication(&self, py: Python<'_>) -> PyResult<Option<Event>> {
        Ok(self.look(py, |session| Ok(session.current_batch_publication()))?.map(Event::new))
    }

    /// The event with this seq; `None` if there is none.
    fn event_at(&self, py: Python<'_>, #[pyo3(from_py_with = given)] seq: u64) -> PyResult<Option<Event>> {
        Ok(self.look(py, |session| Ok(session.event_at(seq)))?.map(Event::new))
    }

    /// What the model sees, as a list of events; it follows the session.
    #[getter]
    fn surface(slf: Bound<'_, Self>) -> Surface {
        Surface::new(slf.unbind())
    }

    /// The messages that the model sees, in order. Cheap to ask for again: only what is new is looked at.
    ///
    /// Raises `EventRefusedError` with the rule `PROJECTION_REMOVED` where a projection that the session used was taken away.
    fn messages(&self, py: Python<'_>) -> PyResult<Vec<Message>> {
        let messages = self.look(py, |session| session.messages())?;
        Ok(messages.iter().cloned().map(Message::new).collect())
    }

    /// The message that one event makes now; `None` for one that makes none, or does not exist. Raises what `messages` raises.
    fn message_of(
        &self,
        py: Python<'_>,
        #[pyo3(from_py_with = given)] seq: u64,
    ) -> PyResult<Option<Message>> {
        Ok(self.look(py, |session| session.message_of(seq))?.map(Message::new))
    }

    /// The conversation as a person would read it: every message event that was appended, in log order, replaced or not.
    fn transcript(&self, py: Python<'_>) -> PyResult<Vec<Event>> {
        let events = self.look(py, |session| Ok(session.transcript()))?;
        Ok(events.into_iter().map(Event::new).collect())
    }

    /// The request header in force, a new dict; `None` before the first.
    #[getter]
    fn request_header<'py>(&self, py: Python<'py>) -> PyResult<Option<Bound<'py, PyAny>>> {
        self.parsed(py, |session| session.request_header())
    }

    /// The request context in force, a new dict; `None` before the first.
    #[getter]
    fn request_context<'py>(&self, py: Python<'py>) -> PyResult<Option<Bound<'py, PyAny>>> {
        self.parsed(py, |session| session.request_context())
    }

    /// Which tools the model was told of, and how they changed: a new dict with `tools` and `updates`.
    #[getter]
    fn tool_history<'py>(&self, py: Python<'py>) -> PyResult<Option<Bound<'py, PyAny>>> {
        self.parsed(py, |session| Some(session.tool_history().to_json()))
    }

    /// The newest title: a new dict with `title`, `messageSeqs`, `source`, `eventSeq`, `updatedAt`; `None` where there is none.
    #[getter]
    fn title<'py>(&self, py: Python<'py>) -> PyResult<Option<Bound<'py, PyAny>>> {
        self.parsed(py, |session| session.title().map(|title| title.to_json()))
    }

    /// What a resume would append now if the session ended here; nothing where no turn is open. `cause` is `"interrupted"` or `"forked"`.
    #[pyo3(signature = (cause="interrupted"))]
    fn closers(&self, py: Python<'_>, cause: &str) -> PyResult<Vec<Event>> {
        let cause = message::cause(py, cause)?;
        let events = self.look(py, |session| session.closers(cause))?;
        Ok(events.into_iter().map(Event::new).collect())
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
        self.append_drafts(py, drafts, Form::Batch)
    }

    /// Accepts a plugin record: any value under a name of the form `plugin:<name>/<kind>`, in lower case.
    ///
    /// Raises what `append` raises; `EventRefusedError` with the rule `PLUGIN_RECORD_TYPE_INVALID` for another name.
    fn append_record(
        &self,
        py: Python<'_>,
        #[pyo3(from_py_with = given)] name: String,
        data: &Bound<'_, PyAny>,
    ) -> PyResult<Event> {
        let data = json::text_or_value(data).map_err(|error| raise(py, &error))?;
        Ok(Event::new(self.look(py, |session| session.append_plugin_record(&name, data))?))
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
    /// `SessionHandleClosedError`; the events wait on, in order. `FlushFailedError` where a flush listener failed, with what it raised as
    /// its cause.
    fn flush(&self, py: Python<'_>) -> PyResult<()> {
        let session = Arc::clone(self.get(py)?);
        if self.hears_flush.as_ref().is_some_and(|listeners| listeners.hears_flush.load(Ordering::Acquire)) {
            // Listeners are called on the thread that flushes.
            return self.runner.in_place(py, || session.flush());
        }
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
        if self.is_view {
            let view = self.session.take();
            if self.runner.is_forked() {
                std::mem::forget(view);
            } else {
                // The last part of a session that is closed may go with it, and its store's thread with that.
                let _: Option<()> = Python::try_attach(|py| py.detach(|| drop(view)));
            }
            return;
        }
        let is_closed = self.closed();
        let what = format!("{self:?}");
        let what = self.session.as_ref().map_or(what, |session| format!("session {:?}", session.id()));
        collect(&self.runner, &mut self.session, is_closed, &what);
    }
}
