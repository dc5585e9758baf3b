//! Lines for the host's log: what went wrong where no call could fail for it, such as a listener's error.

use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

/// How bad it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Severity {
    /// Worth knowing.
    Info,
    /// Something was skipped, or is tried again.
    Warning,
    /// Something failed.
    Error,
}

/// Takes a line.
type Sink = dyn Fn(Severity, &str) + Send + Sync;

/// Where lines go; nowhere unless the host says so. May be called on any thread; what it does cannot fail the library.
#[derive(Clone, Default)]
pub struct Reporter {
    sink: Option<Arc<Sink>>,
}

impl Reporter {
    /// Gives each line to `sink`.
    #[must_use]
    pub fn new(sink: impl Fn(Severity, &str) + Send + Sync + 'static) -> Reporter {
        Reporter { sink: Some(Arc::new(sink)) }
    }

    /// Reports one line. A sink that panics is ignored.
    pub fn report(&self, severity: Severity, line: &str) {
        if let Some(sink) = &self.sink {
            let _ = catch_unwind(AssertUnwindSafe(|| sink(severity, line)));
        }
    }
}

impl fmt::Debug for Reporter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Reporter").field("is_set", &self.sink.is_some()).finish()
    }
}
