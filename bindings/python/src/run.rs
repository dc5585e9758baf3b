//! How a call into the core runs: with the interpreter's lock released, stoppable, and never in a forked child.
//!
//! Python runs signal handlers on its main thread only, and only when that thread asks. A call that may take long is therefore done by a
//! helper thread while the main thread waits for it and asks for signals every [`SIGNAL_POLL`]; on any other thread it is done in place.
//! Helper threads enter the interpreter only to call a callable (`callbacks`), while the main thread waits for them: they cannot meet
//! one that is shutting down.

use crate::callbacks;
use crate::error::raise;
use dsh_session_core::{Code, Error, Result};
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::{PyDict, PyModule, PyTuple};
use std::cell::RefCell;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// How long the main thread waits between two looks at pending signals; a quarter of what `design.md` 8 allows.
const SIGNAL_POLL: Duration = Duration::from_millis(25);

/// A lock whose data is whole after a panic: nothing that can panic runs under it.
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The id of this process: asking the system for it is a call that every event would pay for. Python runs no code in a child that was
/// forked behind its back, so its own hook is enough to keep the id right.
static PROCESS_ID: AtomicU32 = AtomicU32::new(0);

/// Learns the id of this process, and has every forked child learn its own before anything else runs there.
pub(crate) fn watch_forks(module: &Bound<'_, PyModule>) -> PyResult<()> {
    learn_process_id();
    let hooks = PyDict::new(module.py());
    hooks.set_item("after_in_child", wrap_pyfunction!(learn_process_id, module)?)?;
    module.py().import("os")?.call_method("register_at_fork", (), Some(&hooks))?;
    Ok(())
}

#[pyfunction]
fn learn_process_id() {
    PROCESS_ID.store(std::process::id(), Ordering::Relaxed);
    callbacks::forget_other_threads();
}

thread_local! {
    /// The token that `CancelToken.run` has set for the calls of this thread.
    static CURRENT: RefCell<Option<dsh_session_core::CancelToken>> = const { RefCell::new(None) };
}

/// The token of the calls of this thread: that of `CancelToken.run`, or a new one.
pub(crate) fn current_token() -> dsh_session_core::CancelToken {
    CURRENT.with_borrow(Option::clone).unwrap_or_default()
}

/// What the handles of one store share to make their calls.
#[derive(Debug)]
pub(crate) struct Runner {
    /// The process that opened the store.
    process_id: u32,
    helper: Arc<Helper>,
}

impl Runner {
    pub(crate) fn new() -> Arc<Runner> {
        Arc::new(Runner { process_id: PROCESS_ID.load(Ordering::Relaxed), helper: Arc::default() })
    }

    pub(crate) fn is_forked(&self) -> bool {
        PROCESS_ID.load(Ordering::Relaxed) != self.process_id
    }

    /// Fails in a forked child. Comes before every lock: one that another thread held at the fork stays locked in the child for ever.
    pub(crate) fn check_process(&self) -> Result<()> {
        if self.is_forked() {
            let message = format!("this handle was opened by process {}, not by its child", self.process_id);
            return Err(Error::new(Code::ForkedProcess, message));
        }
        Ok(())
    }

    /// A call that is short, or that nothing could stop: done here, with the interpreter's lock released.
    pub(crate) fn in_place<T: Send>(
        &self,
        py: Python<'_>,
        work: impl FnOnce() -> Result<T> + Send,
    ) -> PyResult<T> {
        self.check_process().map_err(|error| raise(py, &error))?;
        let outcome = py.detach(|| Outcome::of(work));
        outcome.finish(py)
    }

    /// A call that only looks. Once a signal handler has raised, its result is not waited for.
    pub(crate) fn read<T: Send + 'static>(
        &self,
        py: Python<'_>,
        work: impl FnOnce(&dsh_session_core::CancelToken) -> Result<T> + Send + 'static,
    ) -> PyResult<T> {
        self.stoppable(py, current_token(), work, false)
    }

    /// A part of a call that only looks: what stops it is the token that the first part was begun with.
    pub(crate) fn read_by<T: Send + 'static>(
        &self,
        py: Python<'_>,
        token: &dsh_session_core::CancelToken,
        work: impl FnOnce() -> Result<T> + Send + 'static,
    ) -> PyResult<T> {
        self.stoppable(py, token.clone(), |_| work(), false)
    }

    /// A call that changes something or takes ownership. Its outcome is always waited for: on return it is done or not done.
    pub(crate) fn change<T: Send + 'static>(
        &self,
        py: Python<'_>,
        work: impl FnOnce(&dsh_session_core::CancelToken) -> Result<T> + Send + 'static,
    ) -> PyResult<T> {
        self.stoppable(py, current_token(), work, true)
    }

    fn stoppable<T: Send + 'static>(
        &self,
        py: Python<'_>,
        token: dsh_session_core::CancelToken,
        work: impl FnOnce(&dsh_session_core::CancelToken) -> Result<T> + Send + 'static,
        waits_for_outcome: bool,
    ) -> PyResult<T> {
        self.check_process().map_err(|error| raise(py, &error))?;
        let for_work = token.clone();
        let work = move || Outcome::of(|| work(&for_work));
        // Inside a callable the store's gate is this thread's: another one would wait for it.
        let outcome = if !callbacks::is_inside() && is_main_thread(py)? {
            self.beside_signals(py, Box::new(work), &token, waits_for_outcome)?
        } else {
            py.detach(work)
        };
        outcome.finish(py)
    }

    /// Has the helper do the work; the outer error is what a signal handler raised.
    fn beside_signals<T: Send + 'static>(
        &self,
        py: Python<'_>,
        work: Box<dyn FnOnce() -> Outcome<T> + Send>,
        token: &dsh_session_core::CancelToken,
        waits_for_outcome: bool,
    ) -> PyResult<Outcome<T>> {
        let slot = Arc::new(Slot::new());
        let place = Arc::clone(&slot);
        let started = py.detach(|| {
            self.helper.start(Box::new(move || {
                let outcome = work();
                Box::new(move || place.put(outcome))
            }))
        });
        if let Err(job) = started {
            // No thread to be had: the work is done all the same, signals wait for its end.
            py.detach(|| job()());
        }
        loop {
            if let Some(outcome) = py.detach(|| slot.take_within(SIGNAL_POLL)) {
                return Ok(outcome);
            }
            if let Err(raised) = py.check_signals() {
                token.cancel();
                if waits_for_outcome {
                    // What was opened meanwhile is closed by dropping it, before the caller goes on.
                    py.detach(|| drop(slot.take()));
                }
                return Err(raised);
            }
        }
    }
}

/// What came of a call, and what a callable raised in it that is no failure of its own.
struct Outcome<T> {
    result: Result<T>,
    interrupt: Option<PyErr>,
}

impl<T: Send> Outcome<T> {
    fn of(work: impl FnOnce() -> Result<T>) -> Outcome<T> {
        Outcome { result: guarded(work), interrupt: callbacks::take_interrupt() }
    }

    fn finish(self, py: Python<'_>) -> PyResult<T> {
        if let Some(interrupt) = self.interrupt {
            // A handle in it is closed, which may wait.
            let result = self.result;
            py.detach(|| drop(result));
            return Err(interrupt);
        }
        self.result.map_err(|error| raise(py, &error))
    }
}

/// The work, with a panic turned into its error: nothing unwinds into the interpreter.
fn guarded<T>(work: impl FnOnce() -> Result<T>) -> Result<T> {
    catch_unwind(AssertUnwindSafe(work)).unwrap_or_else(|panic| {
        let text = panic.downcast_ref::<&str>().map(|text| (*text).to_owned());
        let text = text.or_else(|| panic.downcast_ref::<String>().cloned()).unwrap_or_default();
        Err(Error::new(Code::Panic, format!("the library panicked: {text}")))
    })
}

/// Whether this is the thread on which Python runs signal handlers.
fn is_main_thread(py: Python<'_>) -> PyResult<bool> {
    static THREADING: PyOnceLock<(Py<PyAny>, Py<PyAny>)> = PyOnceLock::new();
    let (current, main) = THREADING.get_or_try_init(py, || -> PyResult<_> {
        let threading = py.import("threading")?;
        Ok((threading.getattr("get_ident")?.unbind(), threading.getattr("main_thread")?.unbind()))
    })?;
    // Asked each time: after a fork, the main thread of the child is the one that forked.
    let main = main.bind(py).call0()?;
    // An interpreter that is being taken down has emptied its modules; nobody runs signal handlers there.
    if main.is_none() {
        return Ok(false);
    }
    current.bind(py).call0()?.eq(main.getattr("ident")?)
}

/// Where an outcome is left for the thread that waits for it.
#[derive(Debug)]
struct Slot<T> {
    outcome: Mutex<Option<T>>,
    is_there: Condvar,
}

impl<T> Slot<T> {
    fn new() -> Slot<T> {
        Slot { outcome: Mutex::new(None), is_there: Condvar::new() }
    }

    fn put(&self, outcome: T) {
        *lock(&self.outcome) = Some(outcome);
        self.is_there.notify_all();
    }

    fn take_within(&self, time: Duration) -> Option<T> {
        let guard = lock(&self.outcome);
        let waited = self.is_there.wait_timeout_while(guard, time, |outcome| outcome.is_none());
        waited.unwrap_or_else(PoisonError::into_inner).0.take()
    }

    fn take(&self) -> Option<T> {
        let guard = lock(&self.outcome);
        let waited = self.is_there.wait_while(guard, |outcome| outcome.is_none());
        waited.unwrap_or_else(PoisonError::into_inner).take()
    }
}

/// Work in two steps: the work itself, then telling who waits. Between them the helper is made ready for the next job, so that a caller
/// that comes back at once finds it.
type Job = Box<dyn FnOnce() -> Box<dyn FnOnce() + Send> + Send>;

/// At most one idle thread, kept for the next call: handing over to it costs a few microseconds, starting one costs many.
#[derive(Debug, Default)]
struct Helper {
    idle: Mutex<Option<Sender<Job>>>,
}

impl Helper {
    /// Gives the job to the idle thread, or to a new one; back if there is none to be had.
    fn start(self: &Arc<Helper>, job: Job) -> Result<(), Job> {
        let idle = lock(&self.idle).take();
        let job = match idle {
            None => job,
            Some(idle) => match idle.send(job) {
                Ok(()) => return Ok(()),
                Err(refused) => refused.0,
            },
        };
        // A thread that cannot be started drops what it was to run, so the job comes to it by channel.
        let (sender, receiver) = channel::<Job>();
        let helper = Arc::downgrade(self);
        let body = move || {
            let mut next = receiver.recv().ok();
            while let Some(job) = next {
                let tell = job();
                let receiver = helper.upgrade().and_then(|helper| helper.become_idle());
                tell();
                next = receiver.and_then(|receiver| receiver.recv().ok());
            }
        };
        if std::thread::Builder::new().name("dsh-session".to_owned()).spawn(body).is_err() {
            return Err(job);
        }
        sender.send(job).map_err(|refused| refused.0)
    }

    /// Where the calling thread gets its next job; `None` if another one is idle already.
    fn become_idle(&self) -> Option<Receiver<Job>> {
        let mut idle = lock(&self.idle);
        if idle.is_some() {
            return None;
        }
        let (sender, receiver) = channel();
        *idle = Some(sender);
        Some(receiver)
    }
}

/// Stops calls from another thread. `dsh_session.aio` uses it; a program that has only threads may, too.
#[pyclass(frozen, module = "dsh_session")]
#[derive(Debug)]
pub(crate) struct CancelToken {
    token: dsh_session_core::CancelToken,
}

#[pymethods]
impl CancelToken {
    #[new]
    fn new() -> CancelToken {
        CancelToken { token: dsh_session_core::CancelToken::new() }
    }

    /// Stops the calls made by `run`, now and later. One atomic store.
    fn cancel(&self) {
        self.token.cancel();
    }

    /// Whether `cancel` was called.
    #[getter]
    fn is_cancelled(&self) -> bool {
        self.token.is_cancelled()
    }

    /// Calls `function(*args, **kwargs)`; what it asks of this library on this thread is stopped by this token and then raises
    /// `CancelledError`.
    #[pyo3(signature = (function, *args, **kwargs))]
    fn run<'py>(
        &self,
        function: &Bound<'py, PyAny>,
        args: &Bound<'py, PyTuple>,
        kwargs: Option<&Bound<'py, PyDict>>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let before = CURRENT.replace(Some(self.token.clone()));
        let result = function.call(args, kwargs);
        CURRENT.set(before);
        result
    }
}
