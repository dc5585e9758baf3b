//! A root of sessions, opened.

use crate::arguments::{self, Header, given};
use crate::callbacks::{self, Callback, Registered, Subscription, Subscriptions};
use crate::error::raise;
use crate::event::loads;
use crate::events::EventIterator;
use crate::handle::{Close, OpenHandles, OpenLog, leave};
use crate::log::SessionLog;
use crate::message;
use crate::query::{RowIterator, SalvageIterator, Verifier};
use crate::reads;
use crate::records;
use crate::run::{self, Runner};
use crate::session::Session;
use dsh_session_core::event::Vocabulary;
use dsh_session_core::query::{EventFilter, SessionFilter};
use dsh_session_core::session::ProjectionContext;
use dsh_session_core::store::SessionStore;
use dsh_session_core::{CancelToken, Code, Error, ListMode, ReadLimits, Removal, Result};
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyList};
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Weak};

/// A root of sessions.
///
/// `root` is a folder, made by the first session; `None` keeps everything in memory. `encoding` is `"zstd"` or `"none"`; left out, new
/// sessions follow what the root already uses. The limits are bounds of what is read, in bytes of text and levels of nesting;
/// `threads` is how many threads decode one compressed log. `event_types` are the event types that the program registers, each with
/// whether its events change earlier messages (then it needs a projection). With `checks_stored_rules` off, an append is accepted even if
/// no reader would take the log afterwards.
///
/// Closing a store, or leaving its `with` block, closes the sessions and logs opened from it. Any number of threads may use one.
///
/// >>> with Store() as store:
/// ...     with store.create(id="s1", cwd="/repo") as session:
/// ...         event = session.append("turn/start", {"turn": 1})
/// ...         session.flush()
/// ...     [event.type for event in store.events("s1")]
/// ['turn/start']
#[pyclass(frozen, module = "dsh_session", weakref)]
#[derive(Debug)]
pub(crate) struct Store {
    /// Taken only by dropping.
    store: Option<dsh_session_core::Store>,
    runner: Arc<Runner>,
    open: Arc<OpenHandles>,
    subscriptions: Arc<Subscriptions>,
}

impl Store {
    fn core(&self, py: Python<'_>) -> PyResult<&dsh_session_core::Store> {
        let gone = || raise(py, &Error::new(Code::HandleClosed, "the store is being collected"));
        self.store.as_ref().ok_or_else(gone)
    }

    /// Everything a call needs that may outlive it.
    fn shared(&self, py: Python<'_>) -> PyResult<(dsh_session_core::Store, Arc<OpenHandles>)> {
        Ok((self.core(py)?.clone(), Arc::clone(&self.open)))
    }

    /// A question that only looks.
    fn ask<T: Send + 'static>(
        &self,
        py: Python<'_>,
        question: impl FnOnce(&dsh_session_core::Store, &CancelToken) -> Result<T> + Send + 'static,
    ) -> PyResult<T> {
        let (store, open) = self.shared(py)?;
        self.runner.read(py, move |cancel| {
            open.check_open()?;
            question(&store, cancel)
        })
    }

    fn session(&self, session: Arc<dsh_session_core::Session>) -> Session {
        Session::new(&self.runner, &self.subscriptions, session)
    }

    /// Registers a callable, with the interpreter's lock released.
    fn register(
        &self,
        py: Python<'_>,
        function: &Bound<'_, PyAny>,
        register: impl FnOnce(&SessionStore, Callback) -> Result<Registered> + Send,
    ) -> PyResult<Subscription> {
        if !function.is_callable() {
            return Err(raise(py, &arguments::invalid("what is registered is not callable")));
        }
        let callback = Callback::new(&self.runner, function.clone().unbind());
        let store = self.core(py)?;
        let registered = self.runner.in_place(py, || {
            self.open.check_open()?;
            register(store.live(), callback)
        })?;
        Ok(self.subscriptions.add(registered))
    }
}

/// Keeps a new handle with its store, or closes it because the store is.
fn keep<T: Close + 'static>(open: &OpenHandles, handle: T) -> Result<Arc<T>> {
    let handle = Arc::new(handle);
    let weak: Weak<T> = Arc::downgrade(&handle);
    open.add(weak)?;
    Ok(handle)
}

#[pymethods]
impl Store {
    #[new]
    #[pyo3(signature = (root=None, *, encoding=None, row_bytes_max=None, header_bytes_max=None, depth_max=None, threads=None, event_types=None, checks_stored_rules=true))]
    #[expect(clippy::too_many_arguments, reason = "keywords of one Python call")]
    fn new(
        py: Python<'_>,
        #[pyo3(from_py_with = arguments::path)] root: Option<PathBuf>,
        #[pyo3(from_py_with = given)] encoding: Option<String>,
        #[pyo3(from_py_with = given)] row_bytes_max: Option<u64>,
        #[pyo3(from_py_with = given)] header_bytes_max: Option<u64>,
        #[pyo3(from_py_with = given)] depth_max: Option<u32>,
        #[pyo3(from_py_with = given)] threads: Option<usize>,
        #[pyo3(from_py_with = given)] event_types: Option<BTreeMap<String, bool>>,
        checks_stored_rules: bool,
    ) -> PyResult<Store> {
        let encoding =
            encoding.as_deref().map(arguments::encoding).transpose().map_err(|error| raise(py, &error))?;
        let base = ReadLimits::default();
        let limits = ReadLimits {
            row_bytes_max: row_bytes_max.unwrap_or(base.row_bytes_max),
            header_bytes_max: header_bytes_max.unwrap_or(base.header_bytes_max),
            depth_max: depth_max.unwrap_or(base.depth_max),
            threads: threads.unwrap_or(base.threads),
        };
        let runner = Runner::new();
        let store = runner.read(py, move |_| {
            let mut builder = match root {
                Some(root) => dsh_session_core::Store::builder(root),
                None => dsh_session_core::Store::memory_builder(),
            };
            let types = event_types.into_iter().flatten();
            let vocabulary = types.fold(Vocabulary::default(), |known, (kind, changes_messages)| {
                known.and_type(kind, changes_messages)
            });
            builder = builder.limits(limits).vocabulary(vocabulary).reporter(callbacks::reporter());
            builder = builder.checks_stored_rules(checks_stored_rules);
            if let Some(encoding) = encoding {
                builder = builder.encoding(encoding);
            }
            builder.open()
        })?;
        Ok(Store { store: Some(store), runner, open: Arc::default(), subscriptions: Arc::default() })
    }

    /// The root, absolute; `None` for a store in memory.
    #[getter]
    fn root(&self) -> Option<PathBuf> {
        self.store.as_ref()?.root().map(ToOwned::to_owned)
    }

    /// A new session, open for appending; its `id` is made unless given. It is on the disk with its first written batch, or when
    /// `flush` has returned.
    ///
    /// `created_at` is in milliseconds since 1970, the clock's unless given; `cwd` is an absolute path. `seed` are the events that the
    /// session begins with (`Event`s, or whole rows as dicts or JSON text); it is on the disk with them when this returns. With
    /// `inherited_event_count`, that many of them are inherited from another session (see `fork_seed`).
    ///
    /// Raises `InvalidArgumentError`, `SessionAlreadyExistsError`, `SessionConflictError`, `DshIOError`; `SessionRefusedError` for a seed
    /// that breaks a rule, with the `index` of the event, and where a creation listener refuses, with what it raised as its cause.
    #[pyo3(signature = (*, id=None, cwd=None, parent_session=None, created_at=None, agent_preset=None, origin=None, delegation_depth=None, seed=None, inherited_event_count=None))]
    #[expect(clippy::too_many_arguments, reason = "keywords of one Python call")]
    fn create(
        &self,
        py: Python<'_>,
        #[pyo3(from_py_with = given)] id: Option<String>,
        #[pyo3(from_py_with = arguments::path)] cwd: Option<PathBuf>,
        #[pyo3(from_py_with = given)] parent_session: Option<String>,
        #[pyo3(from_py_with = given)] created_at: Option<u64>,
        #[pyo3(from_py_with = given)] agent_preset: Option<String>,
        #[pyo3(from_py_with = given)] origin: Option<String>,
        #[pyo3(from_py_with = given)] delegation_depth: Option<u64>,
        seed: Option<&Bound<'_, PyAny>>,
        #[pyo3(from_py_with = given)] inherited_event_count: Option<u64>,
    ) -> PyResult<Session> {
        let seed = seed.map(|rows| message::events(py, rows)).transpose()?;
        let header = Header {
            id,
            cwd,
            parent_session,
            created_at,
            agent_preset,
            origin,
            delegation_depth,
            is_seeded: inherited_event_count.is_some(),
            inherited_event_count,
            seed,
        };
        let (store, open) = self.shared(py)?;
        let session = self.runner.change(py, move |_| {
            open.check_open()?;
            keep(&open, store.create(header.into_new_session()?)?)
        })?;
        Ok(self.session(session))
    }

    /// Resumes a stored session: its log is read and checked, a turn that was interrupted is closed with the results that are missing,
    /// the marker of a new life is added, and all of that is on the disk when this returns.
    ///
    /// Raises what `open_session` raises; `SessionRefusedError` where a creation listener refuses, with what it raised as its cause.
    ///
    /// >>> with Store() as store:
    /// ...     with store.create(id="s1") as session:
    /// ...         event = session.append("turn/start", {"turn": 1})
    /// ...     with store.resume("s1") as session:
    /// ...         [event.type for event in session.events()]
    /// ['turn/start', 'turn/end', 'session/end-seed']
    fn resume(&self, py: Python<'_>, #[pyo3(from_py_with = given)] id: String) -> PyResult<Session> {
        let (store, open) = self.shared(py)?;
        let session = self.runner.change(py, move |cancel| {
            open.check_open()?;
            keep(&open, store.resume_with(&id, cancel)?)
        })?;
        Ok(self.session(session))
    }

    /// A new session that begins with the events of another, live or stored: up to the event `at`, or, without one, up to the end of its
    /// last finished turn. A turn that is open at `at` is closed in the child. The source is only read; the child has its `cwd` and its
    /// preset unless the keywords say otherwise, which are those of `create`.
    ///
    /// Raises `SessionPersistenceNotFoundError`; `ForkUnavailableError` for an event that the source does not have, or a source without a
    /// finished turn; what reading the source and `create` raise.
    ///
    /// >>> with Store() as store:
    /// ...     with store.create(id="s1", cwd="/repo") as session:
    /// ...         event = session.append("turn/start", {"turn": 1})
    /// ...         with store.fork("s1", at=0) as child:
    /// ...             [event.type for event in child.events()], child.inherited_event_count, child.header.cwd
    /// (['turn/start', 'session/end-seed', 'turn/end'], 1, '/repo')
    #[pyo3(signature = (source_id, at=None, *, id=None, cwd=None, parent_session=None, created_at=None, agent_preset=None, origin=None, delegation_depth=None))]
    #[expect(clippy::too_many_arguments, reason = "keywords of one Python call")]
    fn fork(
        &self,
        py: Python<'_>,
        #[pyo3(from_py_with = given)] source_id: String,
        #[pyo3(from_py_with = given)] at: Option<u64>,
        #[pyo3(from_py_with = given)] id: Option<String>,
        #[pyo3(from_py_with = arguments::path)] cwd: Option<PathBuf>,
        #[pyo3(from_py_with = given)] parent_session: Option<String>,
        #[pyo3(from_py_with = given)] created_at: Option<u64>,
        #[pyo3(from_py_with = given)] agent_preset: Option<String>,
        #[pyo3(from_py_with = given)] origin: Option<String>,
        #[pyo3(from_py_with = given)] delegation_depth: Option<u64>,
    ) -> PyResult<Session> {
        let header = Header {
            id,
            cwd,
            parent_session,
            created_at,
            agent_preset,
            origin,
            delegation_depth,
            ..Header::default()
        };
        let (store, open) = self.shared(py)?;
        let session = self.runner.change(py, move |cancel| {
            open.check_open()?;
            keep(&open, store.fork_with(&source_id, at, header.into_new_session()?, cancel)?)
        })?;
        Ok(self.session(session))
    }

    /// The live session of an id, as a view that does not keep it open; `None` if it is not live in this store.
    ///
    /// >>> with Store() as store:
    /// ...     with store.create(id="s1") as session:
    /// ...         event = store.get("s1").append("turn/start", {"turn": 1})
    /// ...         before = session.next_seq
    /// ...     before, store.get("s1")
    /// (1, None)
    fn get(&self, py: Python<'_>, #[pyo3(from_py_with = given)] id: String) -> PyResult<Option<Session>> {
        let store = self.core(py)?;
        let found = self.runner.in_place(py, || {
            self.open.check_open()?;
            // The first one keeps the session open, for as long as this takes.
            Ok(store.get(&id).and_then(|_open| store.live().get(&id)))
        })?;
        Ok(found.map(|session| Session::view(&self.runner, session)))
    }

    /// The ids of the live sessions, in the order in which they were opened.
    fn live_ids(&self, py: Python<'_>) -> PyResult<Vec<String>> {
        let store = self.core(py)?;
        self.runner.in_place(py, || Ok(store.live_ids()))
    }

    /// Calls `listener(session, event)` with each event that a live session commits, in order, on the appending thread.
    ///
    /// It may read anything and append to other sessions; it must not wait for another thread that appends to this store. An exception
    /// is logged (logger `dsh_session`) and changes nothing. The session it gets is a view, which keeps nothing open.
    ///
    /// >>> seen = []
    /// >>> with Store() as store:
    /// ...     subscription = store.on_event(lambda session, event: seen.append((session.id, event.seq, event.type)))
    /// ...     with store.create(id="s1") as session:
    /// ...         event = session.append("turn/start", {"turn": 1})
    /// >>> seen
    /// [('s1', 0, 'turn/start')]
    fn on_event(&self, py: Python<'_>, listener: &Bound<'_, PyAny>) -> PyResult<Subscription> {
        self.register(py, listener, |live, callback| {
            let listener = move |session: &_, event: &_| callback.tell("events", session, Some(event));
            Ok(Registered::Listener(live.on_event(listener)))
        })
    }

    /// Calls `listener(session)` when a session is announced, before it may be written: an exception refuses it, `create` then raises
    /// `SessionRefusedError` with the exception as its cause. It may be called on a thread of the library, while yours waits.
    fn on_created(&self, py: Python<'_>, listener: &Bound<'_, PyAny>) -> PyResult<Subscription> {
        self.register(py, listener, |live, callback| {
            let listener = move |session: &_| callback.ask(Code::SessionRefused, session, None);
            Ok(Registered::Listener(live.on_created(listener)))
        })
    }

    /// Calls `listener(session)` when a session has left the store, on the closing thread. An exception is logged.
    fn on_disposed(&self, py: Python<'_>, listener: &Bound<'_, PyAny>) -> PyResult<Subscription> {
        self.register(py, listener, |live, callback| {
            let listener = move |session: &_| callback.tell("the disposal", session, None);
            Ok(Registered::Listener(live.on_disposed(listener)))
        })
    }

    /// Calls `listener(session)` when a session is flushed, once its events are on the disk, on the flushing thread. An exception makes
    /// the flush raise `FlushFailedError`, with it as the cause.
    fn on_flush(&self, py: Python<'_>, listener: &Bound<'_, PyAny>) -> PyResult<Subscription> {
        self.subscriptions.hears_flush.store(true, Ordering::Release);
        self.register(py, listener, |live, callback| {
            let listener = move |session: &_| callback.ask(Code::FlushFailed, session, None);
            Ok(Registered::Listener(live.on_flush(listener)))
        })
    }

    /// Calls `validator(session, event)` for each event before it is accepted: an exception refuses the append, which raises
    /// `EventRefusedError` with the rule `DISPATCH_REJECTED` and the exception as its cause. It must not change anything.
    ///
    /// >>> def no_turns(session, event):
    /// ...     if event.type == "turn/start":
    /// ...         raise RuntimeError("no turns here")
    /// >>> with Store() as store:
    /// ...     subscription = store.add_validator(no_turns)
    /// ...     with store.create(id="s1") as session:
    /// ...         try:
    /// ...             event = session.append("turn/start", {"turn": 1})
    /// ...         except ValueError as error:
    /// ...             error.rule, error.__cause__, session.next_seq
    /// ('DISPATCH_REJECTED', RuntimeError('no turns here'), 0)
    fn add_validator(&self, py: Python<'_>, validator: &Bound<'_, PyAny>) -> PyResult<Subscription> {
        self.register(py, validator, |live, callback| {
            let validator =
                move |session: &_, event: &_| callback.ask(Code::EventRefused, session, Some(event));
            Ok(Registered::Listener(live.add_validator(validator)))
        })
    }

    /// Has `projection(event, context)` decide what an event of a type does to the messages before it: a dict from seqs on the surface to
    /// messages, or pairs of them, with their ids unchanged. It must be pure: same events, same decision. An exception refuses the event
    /// (`PROJECTION_REJECTED`) and is the cause. `context` is a `ProjectionContext`.
    ///
    /// The type is one that the store was opened with in `event_types`, as `True`. `image/offload` has its projection already.
    ///
    /// Raises `SessionRefusedError` with the rule `PROJECTION_ALREADY_REGISTERED`, `InvalidArgumentError` for a type that makes messages.
    ///
    /// >>> hello = {"id": "m1", "role": "user", "content": [], "source": {"kind": "user"}}
    /// >>> def tag(event, context):
    /// ...     return {seq: {**context.message(seq).data, "tag": event.data["tag"]} for seq in context.nodes}
    /// >>> with Store(event_types={"acme/tag": True}) as store:
    /// ...     subscription = store.register_projection("acme/tag", tag)
    /// ...     with store.create(id="s1") as session:
    /// ...         events = session.append_many([
    /// ...             {"type": "user/message", "data": hello, "surfaceOp": "append"}, ("acme/tag", {"tag": "new"})])
    /// ...         session.messages()[0].data["tag"]
    /// 'new'
    fn register_projection(
        &self,
        py: Python<'_>,
        #[pyo3(from_py_with = given)] event_type: String,
        projection: &Bound<'_, PyAny>,
    ) -> PyResult<Subscription> {
        self.register(py, projection, |live, callback| {
            let projection =
                move |event: &_, context: &ProjectionContext<'_>| callback.project(event, context);
            Ok(Registered::Projection(live.projections().register(event_type, projection)?))
        })
    }

    /// A stored session, open for appending where its log ends, in the middle of a turn if that is where it ends: for programs that go on
    /// in the writer's name, such as importers. An agent that comes back calls `resume`. Its whole log is read and checked.
    ///
    /// Raises `SessionPersistenceNotFoundError`, `SessionAlreadyOwnedError`, `SessionPersistenceCorruptionError`,
    /// `SessionFormatUnsupportedError`, `SessionConflictError`, `DshIOError`.
    fn open_session(&self, py: Python<'_>, #[pyo3(from_py_with = given)] id: String) -> PyResult<Session> {
        let (store, open) = self.shared(py)?;
        let session = self.runner.change(py, move |cancel| {
            open.check_open()?;
            keep(&open, store.open_session_with(&id, cancel)?)
        })?;
        Ok(self.session(session))
    }

    /// A channel onto a stored log, one floor below sessions: whole rows, and every append is on the disk when it returns.
    ///
    /// `access` is `"read"`, which works beside a writer, or `"write"`, of which there is one at a time in all processes.
    #[pyo3(signature = (id, access="read"))]
    fn open_log(
        &self,
        py: Python<'_>,
        #[pyo3(from_py_with = given)] id: String,
        access: &str,
    ) -> PyResult<SessionLog> {
        let access = arguments::access(access).map_err(|error| raise(py, &error))?;
        let (store, open) = self.shared(py)?;
        let log = self.runner.change(py, move |cancel| {
            open.check_open()?;
            keep(&open, OpenLog(store.persistence().open(&id, access, cancel)?))
        })?;
        Ok(SessionLog::new(&self.runner, log))
    }

    /// A log of a new session, for importers: id and creation time are the caller's, rows are whole.
    ///
    /// A seeded session (one that begins with inherited events) also says how many it inherits.
    #[pyo3(signature = (id, *, created_at, cwd=None, parent_session=None, agent_preset=None, origin=None, delegation_depth=None, is_seeded=false, inherited_event_count=None))]
    #[expect(clippy::too_many_arguments, reason = "keywords of one Python call")]
    fn create_log(
        &self,
        py: Python<'_>,
        #[pyo3(from_py_with = given)] id: String,
        #[pyo3(from_py_with = given)] created_at: u64,
        #[pyo3(from_py_with = arguments::path)] cwd: Option<PathBuf>,
        #[pyo3(from_py_with = given)] parent_session: Option<String>,
        #[pyo3(from_py_with = given)] agent_preset: Option<String>,
        #[pyo3(from_py_with = given)] origin: Option<String>,
        #[pyo3(from_py_with = given)] delegation_depth: Option<u64>,
        is_seeded: bool,
        #[pyo3(from_py_with = given)] inherited_event_count: Option<u64>,
    ) -> PyResult<SessionLog> {
        let header = Header {
            id: Some(id),
            created_at: Some(created_at),
            cwd,
            parent_session,
            agent_preset,
            origin,
            delegation_depth,
            is_seeded,
            inherited_event_count,
            seed: None,
        };
        let (store, open) = self.shared(py)?;
        let log = self.runner.change(py, move |_| {
            open.check_open()?;
            keep(&open, OpenLog(store.create_log(header.into_new_session()?)?))
        })?;
        Ok(SessionLog::new(&self.runner, log))
    }

    /// The events of a stored session, in bounded memory: `count` of them from `from_seq` on, or the `newest` ones.
    ///
    /// Only the parts of the log that are asked for are read; damage elsewhere goes unnoticed.
    #[pyo3(signature = (id, *, from_seq=0, count=None, newest=None))]
    fn events(
        &self,
        py: Python<'_>,
        #[pyo3(from_py_with = given)] id: String,
        #[pyo3(from_py_with = given)] from_seq: u64,
        #[pyo3(from_py_with = given)] count: Option<u64>,
        #[pyo3(from_py_with = given)] newest: Option<u64>,
    ) -> PyResult<EventIterator> {
        let range = arguments::range(py, from_seq, count, newest)?;
        let (store, open) = self.shared(py)?;
        let events = self.runner.read(py, move |cancel| {
            open.check_open()?;
            store.events_with(&id, range, cancel)
        })?;
        Ok(EventIterator::new(&self.runner, events))
    }

    /// One session without its events; `None` if there is none.
    fn stat<'py>(
        &self,
        py: Python<'py>,
        #[pyo3(from_py_with = given)] id: String,
    ) -> PyResult<Option<Bound<'py, PyAny>>> {
        let (store, open) = self.shared(py)?;
        let found = self.runner.read(py, move |cancel| {
            open.check_open()?;
            store.persistence().stat(&id, cancel)
        })?;
        found.map(|found| records::snapshot(py, &found)).transpose()
    }

    /// Every session, most recently created first, and in `problems` everything in the root that is not usable.
    ///
    /// With `strict`, findings about a single session fail the listing, as in the reference implementation.
    #[pyo3(signature = (*, strict=false))]
    fn list<'py>(&self, py: Python<'py>, strict: bool) -> PyResult<Bound<'py, PyAny>> {
        let mode = if strict { ListMode::Strict } else { ListMode::Tolerant };
        let (store, open) = self.shared(py)?;
        let listing = self.runner.read(py, move |cancel| {
            open.check_open()?;
            store.list_with(mode, cancel)
        })?;
        records::listing(py, &listing)
    }

    /// Judges every session, or one, in the order of their paths: one `Verification` each, and one for everything in the root that is
    /// not usable. Every log is read to its end; nothing is changed, and damage raises nothing.
    ///
    /// `progress` is called after each judgement with a `Progress`; what it raises ends the call.
    ///
    /// Raises `SessionPersistenceNotFoundError` for an `id` that is not there, `DshIOError` for a root that cannot be read.
    ///
    /// >>> with Store() as store:
    /// ...     with store.create(id="s1") as session:
    /// ...         event = session.append("turn/start", {"turn": 1})
    /// ...     [(judged.id, judged.outcome, judged.events) for judged in store.verify()]
    /// [('s1', 'ok', 1)]
    #[pyo3(signature = (id=None, *, progress=None))]
    fn verify<'py>(
        &self,
        py: Python<'py>,
        #[pyo3(from_py_with = given)] id: Option<String>,
        progress: Option<&Bound<'py, PyAny>>,
    ) -> PyResult<Bound<'py, PyList>> {
        let verifier = self._verifier(py, id)?;
        let judgements = PyList::empty(py);
        while let Some((judged, done)) = verifier.step(py)? {
            judgements.append(judged)?;
            if let Some(progress) = progress {
                progress.call1((done,))?;
            }
        }
        Ok(judgements)
    }

    /// The steps of `verify`, for the asyncio twin.
    #[pyo3(signature = (id=None))]
    fn _verifier(
        &self,
        py: Python<'_>,
        #[pyo3(from_py_with = given)] id: Option<String>,
    ) -> PyResult<Verifier> {
        let (store, open) = self.shared(py)?;
        let token = run::current_token();
        let for_steps = token.clone();
        let verifications = self.runner.read_by(py, &token, move || {
            open.check_open()?;
            store.verify(id.as_deref(), &for_steps)
        })?;
        Ok(Verifier::new(&self.runner, token, verifications))
    }

    /// The events of a session up to its damage, which `damage` of the iterator tells once it has ended. With `all`, the rows that are
    /// readable after the damage follow, as `RawRow`.
    ///
    /// Raises `SessionPersistenceNotFoundError`, `SessionConflictError`, `SessionFormatUnsupportedError` (another version), `DshIOError`.
    /// A damaged header raises nothing: there are no events before it.
    ///
    /// >>> with Store() as store:
    /// ...     with store.create(id="s1") as session:
    /// ...         event = session.append("turn/start", {"turn": 1})
    /// ...     salvage = store.salvage("s1")
    /// ...     [event.data for event in salvage], salvage.damage
    /// ([{'turn': 1}], None)
    #[pyo3(signature = (id, *, all=false))]
    fn salvage(
        &self,
        py: Python<'_>,
        #[pyo3(from_py_with = given)] id: String,
        all: bool,
    ) -> PyResult<SalvageIterator> {
        let (store, open) = self.shared(py)?;
        let salvage = self.runner.read(py, move |cancel| {
            open.check_open()?;
            store.salvage_with(&id, cancel)
        })?;
        Ok(SalvageIterator::new(&self.runner, salvage, all))
    }

    /// Every row of a session's log as text, header first, of any version and damaged or not: for viewers and repair tools. What is
    /// wrong with a row stands in its `problem`.
    ///
    /// Raises `SessionPersistenceNotFoundError`, `SessionConflictError`, `DshIOError`.
    ///
    /// >>> with Store() as store:
    /// ...     with store.create(id="s1") as session:
    /// ...         event = session.append("turn/start", {"turn": 1})
    /// ...     [(row.line, row.type, row.problem) for row in store.rows("s1")]
    /// [(1, 'session', None), (2, 'turn/start', None)]
    fn rows(&self, py: Python<'_>, #[pyo3(from_py_with = given)] id: String) -> PyResult<RowIterator> {
        let (store, open) = self.shared(py)?;
        let rows = self.runner.read(py, move |cancel| {
            open.check_open()?;
            store.rows(&id, cancel)
        })?;
        Ok(RowIterator::new(&self.runner, rows))
    }

    /// Counts by type, bytes, frames, the largest rows, and tokens where they were recorded: of one session, or of all. Reads every log.
    ///
    /// Raises what `events` raises for one session. Of all, those that cannot be read are counted in `unreadable`.
    ///
    /// >>> with Store() as store:
    /// ...     with store.create(id="s1") as session:
    /// ...         event = session.append("turn/start", {"turn": 1})
    /// ...     store.stats().events_by_type
    /// {'turn/start': 1}
    #[pyo3(signature = (id=None))]
    fn stats<'py>(
        &self,
        py: Python<'py>,
        #[pyo3(from_py_with = given)] id: Option<String>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let (store, open) = self.shared(py)?;
        let stats = self.runner.read(py, move |cancel| {
            open.check_open()?;
            store.stats(id.as_deref(), cancel)
        })?;
        records::stats(py, &stats)
    }

    /// Every session, live in this store or stored, most recently created first: dictionaries with `header`, `live`, `persisted` and, where
    /// known, `formatStatus`. What stands in the root and is not usable is told by `list`.
    ///
    /// Raises `SessionQueryPersistenceFailedError`, `SessionQuerySourceConflictError`.
    ///
    /// >>> with Store(None) as store, store.create(id="s1", cwd="/repo") as session:
    /// ...     [(record["header"]["id"], record["live"]) for record in store.list_sessions()]
    /// [('s1', True)]
    fn list_sessions<'py>(&self, py: Python<'py>) -> PyResult<Vec<Bound<'py, PyAny>>> {
        let found = self.ask(py, |store, cancel| store.list_sessions_with(cancel))?;
        reads::objects(py, &found, |record| record.to_json())
    }

    /// The sessions that pass every filter, as `list_sessions` gives them. A filter is a dictionary such as
    /// `{"kind": "cwd", "values": ["/repo", None]}`; the kinds are `id`, `cwd`, `created-at`, `parent` and `availability`.
    ///
    /// Raises `SessionQueryInvalidFilterError`, and as `list_sessions`.
    fn filter_sessions<'py>(
        &self,
        py: Python<'py>,
        filters: &Bound<'py, PyAny>,
    ) -> PyResult<Vec<Bound<'py, PyAny>>> {
        let filters = reads::filters(py, filters, SessionFilter::list_from_json)?;
        let found = self.ask(py, move |store, cancel| store.filter_sessions_with(&filters, cancel))?;
        reads::objects(py, &found, |record| record.to_json())
    }

    /// Where a session came from and what came from it: `target`, `ancestors`, `descendants`, `complete`, and `root` or
    /// `unresolvedParentId`.
    ///
    /// Raises `SessionQuerySessionNotFoundError`, `SessionQueryInvalidLineageError`, and as `list_sessions`.
    fn trace_session<'py>(
        &self,
        py: Python<'py>,
        #[pyo3(from_py_with = given)] id: String,
    ) -> PyResult<Bound<'py, PyDict>> {
        let lineage = self.ask(py, move |store, cancel| store.trace_session_with(&id, cancel))?;
        reads::lineage(py, &lineage)
    }

    /// A whole session, live or stored, as it was at one moment: `session`, `inheritedEventCount`, and `events`, a list of `Event`. A stored
    /// one whose last turn was interrupted ends with the events that close it, which are not stored.
    ///
    /// Raises `SessionQuerySessionNotFoundError`, `SessionQueryCorruptSessionError`, `SessionQueryPersistenceFailedError`,
    /// `SessionQuerySourceConflictError`.
    fn read_session<'py>(
        &self,
        py: Python<'py>,
        #[pyo3(from_py_with = given)] id: String,
    ) -> PyResult<Bound<'py, PyAny>> {
        let read = self.ask(py, move |store, cancel| store.read_session_with(&id, cancel))?;
        reads::with_events(py, &read.facts_json(), &read.events)
    }

    /// One dictionary for each event of a session, in log order: `sessionId`, `seq`, `type`, `time`, and `surface`, which is `current`,
    /// `shadowed` or `log-only`.
    ///
    /// Raises `SessionQueryInvalidSurfaceError`, and as `read_session`.
    fn list_events<'py>(
        &self,
        py: Python<'py>,
        #[pyo3(from_py_with = given)] id: String,
    ) -> PyResult<Vec<Bound<'py, PyAny>>> {
        let found = self.ask(py, move |store, cancel| store.list_events_with(&id, cancel))?;
        reads::objects(py, &found, |record| record.to_json())
    }

    /// What the events of a session say that pass every filter, in log order: as `list_events`, with `text`. A filter is a dictionary such as
    /// `{"kind": "text", "text": "north gate"}`; the kinds are `seq`, `time`, `type`, `surface` and `text`.
    ///
    /// Raises `SessionQueryInvalidFilterError`, and as `list_events`.
    fn filter_events<'py>(
        &self,
        py: Python<'py>,
        #[pyo3(from_py_with = given)] id: String,
        filters: &Bound<'py, PyAny>,
    ) -> PyResult<Vec<Bound<'py, PyAny>>> {
        let filters = reads::filters(py, filters, EventFilter::list_from_json)?;
        let found = self.ask(py, move |store, cancel| store.filter_events_with(&id, &filters, cancel))?;
        reads::objects(py, &found, |document| document.to_json())
    }

    /// The events of a session that the model sees: `session`, `inheritedEventCount`, `capturedThroughSeq`, and `events`, a list of `Event`
    /// in the order of the model.
    ///
    /// Raises as `list_events`.
    fn read_surface<'py>(
        &self,
        py: Python<'py>,
        #[pyo3(from_py_with = given)] id: String,
    ) -> PyResult<Bound<'py, PyAny>> {
        let read = self.ask(py, move |store, cancel| store.read_surface_with(&id, cancel))?;
        reads::with_events(py, &read.facts_json(), &read.events)
    }

    /// An event and its neighbours, without reading the rest of a long log: `session`, `inheritedEventCount`, `target`, `events`,
    /// `startSeq`, `endSeq`. At most 50 events before and after are given.
    ///
    /// Raises `SessionQueryInvalidWindowError`, `SessionQueryEventNotFoundError`, and as `read_session`.
    ///
    /// >>> with Store(None) as store, store.create(id="s1") as session:
    /// ...     event = session.append("turn/start", {"turn": 1})
    /// ...     store.read_event("s1", 0, after=3)["endSeq"]
    /// 0
    #[pyo3(signature = (id, seq, *, before=None, after=None))]
    fn read_event<'py>(
        &self,
        py: Python<'py>,
        #[pyo3(from_py_with = given)] id: String,
        seq: &Bound<'py, PyAny>,
        before: Option<&Bound<'py, PyAny>>,
        after: Option<&Bound<'py, PyAny>>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let request = reads::request(seq, before, after).map_err(|error| raise(py, &error))?;
        let window = self.ask(py, move |store, cancel| store.read_event_with(&id, request, cancel))?;
        reads::window(py, &window)
    }

    /// Where an event came from and what became of it: `session`, `target`, `replacedBy` where something replaced it, `replacementChain`,
    /// `replacedEventSeqs`, `sourceEventSeqs`, `derivedEventSeqs`.
    ///
    /// Raises `SessionQueryEventNotFoundError`, and as `list_events`.
    fn trace_event<'py>(
        &self,
        py: Python<'py>,
        #[pyo3(from_py_with = given)] id: String,
        #[pyo3(from_py_with = given)] seq: u64,
    ) -> PyResult<Bound<'py, PyAny>> {
        let trace = self.ask(py, move |store, cancel| store.trace_event_with(&id, seq, cancel))?;
        loads(py, &trace.to_json())
    }

    /// The header of a session, and its title if it has one: `session`, and `title` with `title`, `messageSeqs`, `source`, `eventSeq`,
    /// `updatedAt`.
    ///
    /// Raises as `read_session`.
    fn read_title<'py>(
        &self,
        py: Python<'py>,
        #[pyo3(from_py_with = given)] id: String,
    ) -> PyResult<Bound<'py, PyAny>> {
        let found = self.ask(py, move |store, cancel| store.read_title_with(&id, cancel))?;
        loads(py, &found.to_json())
    }

    /// Headers and titles of many sessions, each id once: dictionaries with `sessionId`, `status` (`fulfilled` or `rejected`), and `value`
    /// as `read_title` gives it, or `reason`, the facts of the error.
    fn read_titles<'py>(
        &self,
        py: Python<'py>,
        #[pyo3(from_py_with = given)] ids: Vec<String>,
    ) -> PyResult<Vec<Bound<'py, PyAny>>> {
        let found = self.ask(py, move |store, cancel| store.read_titles_with(&ids, cancel))?;
        reads::objects(py, &found, |title| title.to_json())
    }

    /// What a person would read of a session, also where the model no longer sees it: dictionaries with `kind` (`user`, `context`,
    /// `assistant`, `tool`, `marker`, `status`), `seq`, and what belongs to that kind.
    ///
    /// Raises as `read_session`.
    fn transcript<'py>(
        &self,
        py: Python<'py>,
        #[pyo3(from_py_with = given)] id: String,
    ) -> PyResult<Vec<Bound<'py, PyAny>>> {
        let found = self.ask(py, move |store, cancel| store.transcript_with(&id, cancel))?;
        reads::objects(py, &found, |entry| entry.to_json())
    }

    /// Takes a session away for good, with its older generations. With `trash` its folder is moved to `<root>.trash/`, beside the root;
    /// gives the place, where there is one.
    ///
    /// Raises `SessionPersistenceNotFoundError`, `SessionAlreadyOwnedError` (a writer has it open), `SessionConflictError`,
    /// `SessionPersistenceCorruptionError` (the folder belongs to another session), `DshIOError`.
    ///
    /// >>> with Store() as store:
    /// ...     with store.create(id="s1") as session:
    /// ...         session.flush()
    /// ...     store.remove("s1")
    /// ...     len(store.list())
    /// 0
    #[pyo3(signature = (id, *, trash=false))]
    fn remove(
        &self,
        py: Python<'_>,
        #[pyo3(from_py_with = given)] id: String,
        trash: bool,
    ) -> PyResult<Option<PathBuf>> {
        let how = if trash { Removal::Trash } else { Removal::Delete };
        let (store, open) = self.shared(py)?;
        self.runner.change(py, move |cancel| {
            open.check_open()?;
            store.persistence().remove(&id, how, cancel)
        })
    }

    /// The durability barrier of the whole store: writes what waits in every open session, makes every open session and log durable, and
    /// goes on past failures.
    ///
    /// Raises what `Session.flush` raises; several failures come as `SeveralError` with `causes`.
    ///
    /// >>> with Store() as store:
    /// ...     with store.create(id="s1") as session:
    /// ...         event = session.append("turn/start", {"turn": 1})
    /// ...         store.flush()
    /// ...         session.pending.events
    /// 0
    fn flush(&self, py: Python<'_>) -> PyResult<()> {
        let (store, open) = self.shared(py)?;
        if self.subscriptions.hears_flush.load(Ordering::Acquire) {
            // Listeners are called on the thread that flushes.
            return self.runner.in_place(py, move || open.check_open().and_then(|()| store.flush()));
        }
        self.runner.change(py, move |_| {
            open.check_open()?;
            store.flush()
        })
    }

    /// Closes the sessions and logs opened from this store, and the store; its listeners are forgotten then. A second close does nothing.
    fn close(&self, py: Python<'_>) -> PyResult<()> {
        self.runner.in_place(py, || {
            let closed = self.open.close();
            self.subscriptions.cancel_all();
            closed
        })
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
        match self.root() {
            Some(root) => format!("Store({:?})", root.display().to_string()),
            None => "Store()".to_owned(),
        }
    }
}

impl Drop for Store {
    fn drop(&mut self) {
        let store = self.store.take();
        if self.runner.is_forked() {
            std::mem::forget(store);
            return;
        }
        // The thread that writes in the background ends with the store, and may be waiting for the interpreter's lock to log something.
        let _: Option<()> = Python::try_attach(|py| py.detach(|| drop(store)));
    }
}
