//! The log callback: what the library has to say that no call returns.
//!
//! Nothing is printed anywhere on its own. Without a callback these lines are dropped: damage found by an
//! open can still be read as a notice, and what is lost when a handle is freed unclosed is lost silently, as
//! everywhere where nobody asks.

use crate::buffer::dsh_str;
use dsh_session_core::persistence::Notice;
use dsh_session_core::{Reporter, Severity};
use std::ffi::c_void;
use std::sync::{Arc, Mutex, PoisonError};

/// How much a log line matters.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum dsh_log_level {
    /// Something was lost or broke: a panic, a failure that no call could report.
    DSH_LOG_ERROR = 1,
    /// Something is not as it should be, and was dealt with: a torn tail found by an open.
    DSH_LOG_WARNING = 2,
    /// Worth knowing.
    DSH_LOG_INFO = 3,
}

/// A line for the host's log. `level` is a `dsh_log_level`. `text` is one line of UTF-8, lent until the
/// callback returns. Runs on the thread that caused it, which for a failed write in the background is one of
/// the library's own; a listener's failure is told inside the store's gate, everything else with no lock of
/// the library held. It may call the library, and must not unwind or jump out.
pub type dsh_log_callback = Option<unsafe extern "C" fn(level: i32, text: dsh_str, user: *mut c_void)>;

/// What a line is given to.
type LogFunction = unsafe extern "C" fn(i32, dsh_str, *mut c_void);

/// Gives back the `user` of a callback; called once, after the callback's last call.
pub type dsh_destructor = Option<unsafe extern "C" fn(user: *mut c_void)>;

/// Where the lines of a store and of its children go.
#[derive(Debug, Default)]
pub(crate) struct LogSink {
    callback: Mutex<Option<Arc<Callback<LogFunction>>>>,
}

/// A function of the host, what it is called with, and how that is given back: once, when this is dropped.
#[derive(Debug)]
pub(crate) struct Callback<F> {
    pub(crate) function: F,
    pub(crate) user: *mut c_void,
    destructor: dsh_destructor,
}

// SAFETY: C6: the caller said that the callback and its `user` may be used from any thread.
unsafe impl<F> Send for Callback<F> {}
// SAFETY: C6, as above; the library itself never looks into `user`.
unsafe impl<F> Sync for Callback<F> {}

impl<F> Callback<F> {
    pub(crate) fn new(function: F, user: *mut c_void, destructor: dsh_destructor) -> Callback<F> {
        Callback { function, user, destructor }
    }

    /// Gives the `user` back without its destructor: the registration failed, and the caller keeps it.
    pub(crate) fn disarm(mut self) {
        self.destructor = None;
    }
}

impl<F> Drop for Callback<F> {
    fn drop(&mut self) {
        if let Some(destructor) = self.destructor {
            // SAFETY: C6: once, and nobody holds the callback any more.
            unsafe { destructor(self.user) };
        }
    }
}

impl LogSink {
    /// Sets, replaces or (with `None`) removes the callback. The old one's destructor runs once no line is
    /// being given to it.
    pub(crate) fn set(&self, callback: Option<Callback<LogFunction>>) {
        let old = std::mem::replace(
            &mut *self.callback.lock().unwrap_or_else(PoisonError::into_inner),
            callback.map(Arc::new),
        );
        // Outside of the lock: the destructor is the host's code.
        drop(old);
    }

    /// Gives a line to the callback, if there is one.
    pub(crate) fn line(&self, level: dsh_log_level, text: &str) {
        let callback = self.callback.lock().unwrap_or_else(PoisonError::into_inner).clone();
        if let Some(callback) = callback {
            // SAFETY: C6; the text lives until the call returns.
            unsafe { (callback.function)(level as i32, dsh_str::of(text), callback.user) };
        }
    }

    /// What the core has to say that no call returns.
    pub(crate) fn reporter(self: &Arc<Self>) -> Reporter {
        let sink = Arc::clone(self);
        Reporter::new(move |severity, line| {
            let level = match severity {
                Severity::Error => dsh_log_level::DSH_LOG_ERROR,
                Severity::Warning => dsh_log_level::DSH_LOG_WARNING,
                Severity::Info => dsh_log_level::DSH_LOG_INFO,
            };
            sink.line(level, line);
        })
    }

    /// What opening a session found.
    pub(crate) fn notices(&self, session_id: &str, notices: &[Notice]) {
        for notice in notices {
            self.line(dsh_log_level::DSH_LOG_WARNING, &format!("session {session_id}: {}", notice.to_json()));
        }
    }

    /// A failure that only `_free` saw.
    pub(crate) fn lost(&self, result: dsh_session_core::Result<()>) {
        if let Err(error) = result {
            self.line(dsh_log_level::DSH_LOG_ERROR, &format!("freed without a close: {error}"));
        }
    }
}
