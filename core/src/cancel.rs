//! Stopping a call from outside: one flag, set once, from any thread or from a signal handler.

use crate::error::{Code, Error, Result};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// A flag that stops the calls it was given to.
///
/// Cancelling is one atomic store, so it may be done in a signal handler. A call looks at its token before it
/// starts work and between pieces of long work, never during a physical write: a cancelled mutation is done
/// or not done, never half (`design.md` 7.6). Clones share the flag.
///
/// ```
/// use dsh_session_core::CancelToken;
/// let token = CancelToken::new();
/// assert!(token.check().is_ok());
/// token.cancel();
/// assert_eq!(token.check().unwrap_err().code().name(), "CANCELLED");
/// ```
#[derive(Clone, Debug, Default)]
pub struct CancelToken {
    flag: Arc<AtomicBool>,
}

impl CancelToken {
    /// A token that is not cancelled.
    #[must_use]
    pub fn new() -> Self {
        CancelToken::default()
    }

    /// Cancels, for good.
    pub fn cancel(&self) {
        self.flag.store(true, Ordering::Relaxed);
    }

    /// Whether [`cancel`](Self::cancel) was called.
    #[must_use]
    pub fn is_cancelled(&self) -> bool {
        self.flag.load(Ordering::Relaxed)
    }

    /// The flag itself, for code that can only set one, such as a crate that registers signal handlers. Setting it cancels; nothing
    /// takes it back.
    #[must_use]
    pub fn flag(&self) -> Arc<AtomicBool> {
        Arc::clone(&self.flag)
    }

    /// Fails with `CANCELLED` once cancelled.
    ///
    /// # Errors
    /// `CANCELLED`.
    pub fn check(&self) -> Result<()> {
        if self.is_cancelled() {
            return Err(Error::new(Code::Cancelled, "the call was cancelled before it took effect"));
        }
        Ok(())
    }
}
