//! A root of sessions, opened.

use crate::arguments::{self, Header, given};
use crate::error::raise;
use crate::events::EventIterator;
use crate::handle::{Close, OpenHandles, OpenLog, leave};
use crate::log::SessionLog;
use crate::query::{RowIterator, SalvageIterator, Verifier};
use crate::records;
use crate::run::{self, Runner};
use crate::session::Session;
use dsh_session_core::{ListMode, ReadLimits, Removal, Result};
use pyo3::prelude::*;
use pyo3::types::PyList;
use std::path::PathBuf;
use std::sync::{Arc, Weak};

/// A root of sessions.
///
/// `root` is a folder, made by the first session; `None` keeps everything in memory. `encoding` is `"zstd"` or `"none"`; left out, new
/// sessions follow what the root already uses. The limits are bounds of what is read, in bytes of text and levels of nesting;
/// `threads` is how many threads decode one compressed log.
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
    store: dsh_session_core::Store,
    runner: Arc<Runner>,
    open: Arc<OpenHandles>,
}

impl Store {
    /// Everything a call needs that may outlive it.
    fn shared(&self) -> (dsh_session_core::Store, Arc<OpenHandles>) {
        (self.store.clone(), Arc::clone(&self.open))
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
    #[pyo3(signature = (root=None, *, encoding=None, row_bytes_max=None, header_bytes_max=None, depth_max=None, threads=None))]
    fn new(
        py: Python<'_>,
        #[pyo3(from_py_with = arguments::path)] root: Option<PathBuf>,
        #[pyo3(from_py_with = given)] encoding: Option<String>,
        #[pyo3(from_py_with = given)] row_bytes_max: Option<u64>,
        #[pyo3(from_py_with = given)] header_bytes_max: Option<u64>,
        #[pyo3(from_py_with = given)] depth_max: Option<u32>,
        #[pyo3(from_py_with = given)] threads: Option<usize>,
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
            let Some(root) = root else { return dsh_session_core::Store::in_memory() };
            let mut builder = dsh_session_core::Store::builder(root).limits(limits);
            if let Some(encoding) = encoding {
                builder = builder.encoding(encoding);
            }
            builder.open()
        })?;
        Ok(Store { store, runner, open: Arc::default() })
    }

    /// The root, absolute; `None` for a store in memory.
    #[getter]
    fn root(&self) -> Option<PathBuf> {
        self.store.root().map(ToOwned::to_owned)
    }

    /// A new session, open for appending; its `id` is made unless given. It is on the disk with its first written batch, or when
    /// `flush` has returned.
    ///
    /// `created_at` is in milliseconds since 1970, the clock's unless given; `cwd` is an absolute path.
    ///
    /// Raises `InvalidArgumentError`, `SessionAlreadyExistsError`, `SessionConflictError`, `DshIOError`.
    #[pyo3(signature = (*, id=None, cwd=None, parent_session=None, created_at=None, agent_preset=None, origin=None, delegation_depth=None))]
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
        let (store, open) = self.shared();
        let session = self.runner.change(py, move |_| {
            open.check_open()?;
            keep(&open, store.create(header.into_new_session()?)?)
        })?;
        Ok(Session::new(&self.runner, session))
    }

    /// A stored session, open for appending where its log ends. Its whole log is read and checked.
    ///
    /// Raises `SessionPersistenceNotFoundError`, `SessionAlreadyOwnedError`, `SessionPersistenceCorruptionError`,
    /// `SessionFormatUnsupportedError`, `SessionConflictError`, `DshIOError`.
    fn open_session(&self, py: Python<'_>, #[pyo3(from_py_with = given)] id: String) -> PyResult<Session> {
        let (store, open) = self.shared();
        let session = self.runner.change(py, move |cancel| {
            open.check_open()?;
            keep(&open, store.open_session_with(&id, cancel)?)
        })?;
        Ok(Session::new(&self.runner, session))
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
        let (store, open) = self.shared();
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
        };
        let (store, open) = self.shared();
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
        let (store, open) = self.shared();
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
        let (store, open) = self.shared();
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
        let (store, open) = self.shared();
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
        let (store, open) = self.shared();
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
        let (store, open) = self.shared();
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
        let (store, open) = self.shared();
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
        let (store, open) = self.shared();
        let stats = self.runner.read(py, move |cancel| {
            open.check_open()?;
            store.stats(id.as_deref(), cancel)
        })?;
        records::stats(py, &stats)
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
        let (store, open) = self.shared();
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
        let (store, open) = self.shared();
        self.runner.change(py, move |_| {
            open.check_open()?;
            store.flush()
        })
    }

    /// Closes the sessions and logs opened from this store, and the store. A second close does nothing.
    fn close(&self, py: Python<'_>) -> PyResult<()> {
        self.runner.in_place(py, || self.open.close())
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
        match self.store.root() {
            Some(root) => format!("Store({:?})", root.display().to_string()),
            None => "Store()".to_owned(),
        }
    }
}
