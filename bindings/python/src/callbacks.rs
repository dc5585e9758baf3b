//! Python callables as listeners, validators and projections (`design.md` 8): called on the thread on which the core calls them, with
//! the interpreter's lock taken for the call.
//!
//! A failing listener is logged. What a validator, a creation or flush listener or a projection raises refuses, and travels inside the
//! core's error to become the `__cause__` of the exception. What is no `Exception` (`KeyboardInterrupt`, `SystemExit`) is no failure of
//! the callable: it is kept for the thread, and raised when the call of the library that it interrupted has ended.
//!
//! Once the interpreter goes down nothing here enters it: an exit hook says so, after waiting for those that are inside.

use crate::event::Event;
use crate::message::{Message, decided};
use crate::records;
use crate::run::{Runner, lock};
use crate::session::Session;
use dsh_session_core::session::upload_exclusions::{Upload, UploadRegistration};
use dsh_session_core::session::{
    ProjectionContext as CoreContext, Registration, Subscription as CoreSubscription,
};
use dsh_session_core::{Code, Error, Reporter, Result, Severity};
use pyo3::exceptions::PyException;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyModule};
use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::fmt;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

/// The logger of the package.
const LOGGER: &str = "dsh_session";

/// How often the exit hook looks whether threads of the library have left the interpreter.
const LEAVE_POLL: Duration = Duration::from_millis(1);

/// Set by the exit hook: from then on nothing of the library enters the interpreter by itself.
static IS_OVER: AtomicBool = AtomicBool::new(false);

/// Threads of the library that are in the interpreter, or about to be.
static INSIDE: AtomicU32 = AtomicU32::new(0);

/// Callables that are being called, on whatever thread.
static CALLED: AtomicU32 = AtomicU32::new(0);

thread_local! {
    /// How many callables this thread is in: it may be inside the gate of a store, which another thread would wait for.
    static DEPTH: Cell<u32> = const { Cell::new(0) };
    /// What a callable raised that is no failure of its own.
    static INTERRUPT: RefCell<Option<PyErr>> = const { RefCell::new(None) };
}

/// Has the end of the interpreter watched.
pub(crate) fn watch_end(module: &Bound<'_, PyModule>) -> PyResult<()> {
    let hook = wrap_pyfunction!(end, module)?;
    module.py().import("atexit")?.call_method1("register", (hook,))?;
    Ok(())
}

#[pyfunction]
fn end(py: Python<'_>) {
    IS_OVER.store(true, Ordering::SeqCst);
    py.detach(|| {
        while INSIDE.load(Ordering::SeqCst) > 0 {
            std::thread::sleep(LEAVE_POLL);
        }
    });
}

/// In a forked child there is one thread: the others are not there to leave.
pub(crate) fn forget_other_threads() {
    INSIDE.store(0, Ordering::SeqCst);
    CALLED.store(DEPTH.get(), Ordering::SeqCst);
}

/// Whether the interpreter goes down while a thread is stopped inside a callable, with the gate of a store.
pub(crate) fn is_stuck() -> bool {
    IS_OVER.load(Ordering::SeqCst) && CALLED.load(Ordering::SeqCst) > DEPTH.get()
}

/// Whether the calling thread is inside a callable.
pub(crate) fn is_inside() -> bool {
    DEPTH.get() > 0
}

/// What a callable on this thread raised that the call it was in must raise.
pub(crate) fn take_interrupt() -> Option<PyErr> {
    INTERRUPT.take()
}

/// One more, for as long as it lives.
struct Counted(&'static AtomicU32);

impl Counted {
    fn new(counter: &'static AtomicU32) -> Counted {
        counter.fetch_add(1, Ordering::SeqCst);
        Counted(counter)
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::SeqCst);
    }
}

/// Where the core tells what no call reports: the logger of the package.
pub(crate) fn reporter() -> Reporter {
    Reporter::new(|severity, line| {
        let _inside = Counted::new(&INSIDE);
        // Counted before it is asked: the hook that sets it waits for those who were counted.
        if IS_OVER.load(Ordering::SeqCst) {
            return;
        }
        let level = match severity {
            Severity::Info => "info",
            Severity::Warning => "warning",
            Severity::Error => "error",
        };
        let _: Option<()> = Python::try_attach(|py| log(py, level, line, None));
    })
}

fn log(py: Python<'_>, level: &str, line: &str, failure: Option<&PyErr>) {
    let logged = (|| {
        let logger = py.import("logging")?.call_method1("getLogger", (LOGGER,))?;
        let keywords = PyDict::new(py);
        keywords.set_item("exc_info", failure.map(|failure| failure.value(py)))?;
        logger.call_method(level, ("%s", line), Some(&keywords))
    })();
    if let Err(error) = logged {
        // A logger that raises has nobody above it.
        error.write_unraisable(py, None::<&Bound<'_, PyAny>>);
    }
}

/// A callable, with what it takes to show it a session.
pub(crate) struct Callback {
    function: Py<PyAny>,
    runner: Arc<Runner>,
}

impl fmt::Debug for Callback {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Callback").finish_non_exhaustive()
    }
}

impl Callback {
    pub(crate) fn new(runner: &Arc<Runner>, function: Py<PyAny>) -> Callback {
        Callback { function, runner: Arc::clone(runner) }
    }

    /// Enters the interpreter for a call; `None` once it goes down.
    fn enter<T>(work: impl FnOnce(Python<'_>) -> T) -> Option<T> {
        if IS_OVER.load(Ordering::SeqCst) {
            return None;
        }
        let _called = Counted::new(&CALLED);
        DEPTH.set(DEPTH.get() + 1);
        let result = Python::try_attach(work);
        DEPTH.set(DEPTH.get() - 1);
        result
    }

    fn view<'py>(
        &self,
        py: Python<'py>,
        session: &dsh_session_core::Session,
    ) -> PyResult<Bound<'py, Session>> {
        Bound::new(py, Session::view(&self.runner, session.clone()))
    }

    fn call(
        &self,
        py: Python<'_>,
        session: &dsh_session_core::Session,
        event: Option<&dsh_session_core::Event>,
    ) -> PyResult<()> {
        let session = self.view(py, session)?;
        match event {
            Some(event) => self.function.call1(py, (session, Event::new(event.clone()))),
            None => self.function.call1(py, (session,)),
        }
        .map(drop)
    }

    /// Calls a listener whose failure changes nothing.
    pub(crate) fn tell(
        &self,
        what: &str,
        session: &dsh_session_core::Session,
        event: Option<&dsh_session_core::Event>,
    ) -> Result<()> {
        let told = Callback::enter(|py| {
            if let Err(failure) = self.call(py, session, event)
                && let Some(failure) = without_interrupt(py, failure)
            {
                let line = format!("a listener for {what} of session {} failed", session.id());
                log(py, "error", &line, Some(&failure));
            }
        });
        // Nobody is left to be told.
        told.map_or(Ok(()), Ok)
    }

    /// Calls something whose failure refuses, with the code that says what.
    pub(crate) fn ask(
        &self,
        code: Code,
        session: &dsh_session_core::Session,
        event: Option<&dsh_session_core::Event>,
    ) -> Result<()> {
        let asked = Callback::enter(|py| {
            self.call(py, session, event).map_err(|failure| refusal(py, code, failure, session.id()))
        });
        asked.unwrap_or_else(|| Err(gone(code)))
    }

    /// Asks whether a session stays out of an upload.
    pub(crate) fn excludes(&self, upload: &Upload<'_>) -> Result<bool> {
        let asked = Callback::enter(|py| {
            let answer = records::upload(py, upload)
                .and_then(|upload| self.function.bind(py).call1((upload,)))
                .and_then(|answer| answer.is_truthy());
            answer.map_err(|failure| refusal(py, UPLOAD_FAILURE, failure, upload.session_id))
        });
        asked.unwrap_or_else(|| Err(gone(UPLOAD_FAILURE)))
    }

    /// Calls a projection.
    pub(crate) fn project(
        &self,
        event: &dsh_session_core::Event,
        context: &CoreContext<'_>,
    ) -> Result<Vec<(u64, String)>> {
        let seen = ProjectionContext::of(context, event.seq());
        let asked = Callback::enter(|py| {
            let arguments = (Event::new(event.clone()), Bound::new(py, seen)?);
            decided(self.function.bind(py).call1(arguments)?.as_any())
        });
        match asked {
            Some(Ok(decided)) => Ok(decided),
            Some(Err(failure)) => {
                let refused = Callback::enter(|py| refusal(py, Code::EventRefused, failure, ""));
                Err(refused.unwrap_or_else(|| gone(Code::EventRefused)))
            }
            None => Err(gone(Code::EventRefused)),
        }
    }
}

/// A predicate of uploads failed and refuses nothing else: that upload goes without the session's log.
const UPLOAD_FAILURE: Code = Code::SessionRefused;

/// The failure, unless it is none of the callable's own: then it is kept for the call that it interrupted.
fn without_interrupt(py: Python<'_>, failure: PyErr) -> Option<PyErr> {
    if failure.is_instance_of::<PyException>(py) {
        return Some(failure);
    }
    INTERRUPT.with_borrow_mut(|kept| kept.get_or_insert(failure).value(py).is_none());
    None
}

/// The error of a failure that refuses; the exception is in it.
fn refusal(py: Python<'_>, code: Code, failure: PyErr, session_id: &str) -> Error {
    let kind = failure.get_type(py).name().map_or_else(|_| String::new(), |name| name.to_string());
    let text =
        failure.value(py).str().map_or_else(|_| String::new(), |text| text.to_string_lossy().into_owned());
    let message = if text.is_empty() { kind } else { format!("{kind}: {text}") };
    let error = Error::new(code, message)
        .with_advice("the callable's own exception, the cause of this one, says why");
    let error = if session_id.is_empty() { error } else { error.with_session_id(session_id) };
    let host: Py<PyAny> = failure.value(py).clone().into_any().unbind();
    let error = error.with_host(Arc::new(host));
    // An interrupt refuses too, and is raised itself.
    let _ = without_interrupt(py, failure);
    error
}

fn gone(code: Code) -> Error {
    Error::new(code, "the interpreter is going down, so the callable could not be asked")
}

/// The exception that is in an error, if one is.
pub(crate) fn host_exception<'py>(py: Python<'py>, error: &Error) -> Option<Bound<'py, PyAny>> {
    let host = error.host().or_else(|| error.causes().first()?.host())?;
    host.downcast_ref::<Py<PyAny>>().map(|exception| exception.bind(py).clone())
}

/// A registered callable. `cancel` takes it away; dropping this changes nothing. As a context manager it is cancelled at the end.
#[pyclass(frozen, module = "dsh_session")]
#[derive(Debug)]
pub(crate) struct Subscription(Arc<Registered>);

/// What was registered.
#[derive(Debug)]
pub(crate) enum Registered {
    Listener(CoreSubscription),
    Projection(Registration),
    UploadPredicate(UploadRegistration),
}

impl Registered {
    pub(crate) fn cancel(&self) {
        match self {
            Registered::Listener(listener) => listener.cancel(),
            Registered::Projection(projection) => projection.unregister(),
            Registered::UploadPredicate(predicate) => predicate.unregister(),
        }
    }
}

impl Subscription {
    pub(crate) fn of(registered: Registered) -> Subscription {
        Subscription(Arc::new(registered))
    }
}

#[pymethods]
impl Subscription {
    /// Takes the callable away, from the next append or judgement on. A second call does nothing.
    ///
    /// A projection that was taken away leaves sessions that used it without messages: they refuse with `PROJECTION_REMOVED`.
    fn cancel(&self, py: Python<'_>) {
        py.detach(|| self.0.cancel());
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
    ) -> bool {
        let _ = (exc_type, exc_value, traceback);
        self.cancel(py);
        false
    }
}

/// The listeners of one store. They go with it: a listener that knows its store would otherwise keep it for ever.
#[derive(Debug, Default)]
pub(crate) struct Subscriptions {
    registered: Mutex<Vec<Arc<Registered>>>,
    /// Whether a flush listener was ever registered: it is called where `flush` is.
    pub(crate) hears_flush: AtomicBool,
}

impl Subscriptions {
    pub(crate) fn add(&self, registered: Registered) -> Subscription {
        let registered = Arc::new(registered);
        if matches!(*registered, Registered::Listener(_)) {
            lock(&self.registered).push(Arc::clone(&registered));
        }
        Subscription(registered)
    }

    pub(crate) fn cancel_all(&self) {
        let all = std::mem::take(&mut *lock(&self.registered));
        all.iter().for_each(|registered| registered.cancel());
    }
}

/// What a projection sees: everything as of just before its event. It never changes afterwards.
#[pyclass(frozen, module = "dsh_session")]
#[derive(Debug)]
pub(crate) struct ProjectionContext {
    base_seq: u64,
    nodes: Vec<u64>,
    events: Vec<dsh_session_core::Event>,
    messages: HashMap<u64, dsh_session_core::session::DerivedMessage>,
}

impl ProjectionContext {
    fn of(context: &CoreContext<'_>, seq: u64) -> ProjectionContext {
        let nodes: Vec<u64> = context.nodes().collect();
        let base_seq = context.base_seq();
        let events = (base_seq..seq).filter_map(|seq| context.event(seq)).collect();
        let messages = nodes.iter().filter_map(|&seq| Some((seq, context.message(seq)?))).collect();
        ProjectionContext { base_seq, nodes, events, messages }
    }
}

#[pymethods]
impl ProjectionContext {
    /// The seqs on the surface, in model order.
    #[getter]
    fn nodes(&self) -> Vec<u64> {
        self.nodes.clone()
    }

    /// The seq of the first event that the fold sees; 0 but in a window.
    #[getter]
    fn base_seq(&self) -> u64 {
        self.base_seq
    }

    /// Whether an event is on the surface.
    fn is_on_surface(&self, #[pyo3(from_py_with = crate::arguments::given)] seq: u64) -> bool {
        self.messages.contains_key(&seq)
    }

    /// An earlier event; `None` if there is none.
    fn event(&self, #[pyo3(from_py_with = crate::arguments::given)] seq: u64) -> Option<Event> {
        let index = usize::try_from(seq.checked_sub(self.base_seq)?).ok()?;
        self.events.get(index).cloned().map(Event::new)
    }

    /// The message of an event on the surface as earlier projections left it; `None` for any other event.
    fn message(&self, #[pyo3(from_py_with = crate::arguments::given)] seq: u64) -> Option<Message> {
        self.messages.get(&seq).cloned().map(Message::new)
    }
}
