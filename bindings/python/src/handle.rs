//! Closing handles: on request, with their store, and where nobody did.

use crate::run::{Runner, lock};
use dsh_session_core::{CancelToken, Code, Error, Result};
use pyo3::exceptions::PyResourceWarning;
use pyo3::prelude::*;
use pyo3::types::PyAny;
use std::ffi::CString;
use std::fmt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, Weak};

/// What a handle closes.
pub(crate) trait Close: Send + Sync + fmt::Debug {
    fn close(&self) -> Result<()>;

    /// Makes everything durable without waiting for anybody; ownership ends with the process.
    fn rescue(&self) -> Result<()>;
}

impl Close for dsh_session_core::Session {
    fn rescue(&self) -> Result<()> {
        dsh_session_core::Session::flush(self)
    }

    fn close(&self) -> Result<()> {
        dsh_session_core::Session::close(self)
    }
}

/// A log behind one more pointer, because a weak reference to a trait object of the core cannot become one of [`Close`].
#[derive(Debug)]
pub(crate) struct OpenLog(pub(crate) Arc<dyn dsh_session_core::SessionLog>);

impl Close for OpenLog {
    fn close(&self) -> Result<()> {
        self.0.close()
    }

    fn rescue(&self) -> Result<()> {
        self.0.flush(&CancelToken::new())
    }
}

/// The open handles of one store, and whether the store itself is closed.
#[derive(Debug, Default)]
pub(crate) struct OpenHandles {
    is_closed: AtomicBool,
    /// Held for moments only.
    handles: Mutex<Vec<Weak<dyn Close>>>,
}

impl OpenHandles {
    /// Fails once the store is closed.
    pub(crate) fn check_open(&self) -> Result<()> {
        if self.is_closed.load(Ordering::Acquire) {
            let error = Error::new(Code::HandleClosed, "the store is closed");
            return Err(error.with_advice("open the store again"));
        }
        Ok(())
    }

    /// Remembers a handle. If the store was closed while it was being opened, it is closed at once.
    pub(crate) fn add(&self, handle: Weak<dyn Close>) -> Result<()> {
        let mut handles = lock(&self.handles);
        handles.retain(|handle| handle.strong_count() > 0);
        self.check_open()?;
        handles.push(handle);
        Ok(())
    }

    /// Closes every handle that is still open, the last one first; goes on past failures. A second close does nothing.
    pub(crate) fn close(&self) -> Result<()> {
        let handles = {
            let mut handles = lock(&self.handles);
            self.is_closed.store(true, Ordering::Release);
            std::mem::take(&mut *handles)
        };
        let open = handles.iter().rev().filter_map(Weak::upgrade);
        let failures: Vec<Error> = open.filter_map(|handle| handle.close().err()).collect();
        if failures.is_empty() { Ok(()) } else { Err(Error::several(failures)) }
    }
}

/// Closes what a Python object held when it was collected. Called with the interpreter's lock held, which is released to write.
///
/// In a forked child nothing is touched, not even to free it: the locks in it may be held for ever (`design.md` 5, Process forks).
pub(crate) fn collect<T: Close + 'static>(
    runner: &Runner,
    handle: &mut Option<Arc<T>>,
    is_closed: bool,
    what: &str,
) {
    let Some(handle) = handle.take() else { return };
    if runner.is_forked() {
        std::mem::forget(handle);
        return;
    }
    // Without an interpreter there is nobody to tell: the closure is dropped, and the handle in it closes.
    let _: Option<()> = Python::try_attach(|py| {
        // An object may be collected while an exception is on its way; the warning must not disturb it.
        let on_its_way = PyErr::take(py);
        if !is_closed {
            warn(py, what);
        }
        let closed = py.detach(|| {
            if crate::callbacks::is_stuck() {
                // Closing would wait for a thread that no longer runs.
                let rescued = handle.rescue();
                std::mem::forget(handle);
                return rescued;
            }
            let closed = handle.close();
            drop(handle);
            closed
        });
        if let (false, Err(error)) = (is_closed, closed) {
            crate::error::raise(py, &error).write_unraisable(py, None::<&Bound<'_, PyAny>>);
        }
        if let Some(error) = on_its_way {
            error.restore(py);
        }
    });
}

fn warn(py: Python<'_>, what: &str) {
    let Ok(message) = CString::new(format!("unclosed {what}; use `with`, or close it")) else { return };
    let category = py.get_type::<PyResourceWarning>();
    if let Err(error) = PyErr::warn(py, &category, &message, 1) {
        // Warnings are errors here, but nobody is left to catch this one.
        error.write_unraisable(py, None::<&Bound<'_, PyAny>>);
    }
}

/// What leaving a `with` block does: closes; a failure to close never hides the exception that left the block.
pub(crate) fn leave(
    py: Python<'_>,
    exception: Option<&Bound<'_, PyAny>>,
    close: impl FnOnce() -> PyResult<()>,
) -> PyResult<bool> {
    let closed = close();
    match (closed, exception.filter(|exception| !exception.is_none())) {
        (Ok(()), _) => Ok(false),
        (Err(failure), None) => Err(failure),
        (Err(failure), Some(exception)) => {
            py.import("dsh_session._errors")?.call_method1("close_failed", (exception, failure.value(py)))?;
            Ok(false)
        }
    }
}
