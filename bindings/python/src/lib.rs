//! The border to Python: the module `dsh_session._native`.
//!
//! Thin on purpose: it converts arguments, calls the core with the interpreter's lock released, converts results. The package around it
//! (`python/dsh_session`) holds what is better said in Python: exceptions, records, the asyncio twin.
//!
//! | File | Holds |
//! | --- | --- |
//! | `run` | how a call waits: without the lock, stoppable, never in a forked child |
//! | `error` | from the core's errors to exceptions |
//! | `json` | from Python values to JSON text |
//! | `arguments` | from Python arguments to those of the core |
//! | `records` | from the core's records to those of the package |
//! | `walk` | reading in batches, for every iterator |
//! | `event`, `events` | one event; walking many |
//! | `buffer` | an event's bytes, lent without a copy |
//! | `callbacks` | Python callables as listeners, validators and projections |
//! | `message` | messages, the surface, folds of lists of events |
//! | `uploads` | what keeps a session out of an upload, and what comes next in one |
//! | `query` | judgements, salvage, raw rows |
//! | `handle` | closing, and what happens to a handle that nobody closed |
//! | `command` | the command line, as one function |
//! | `store`, `session`, `log` | the three classes that people hold |

#![deny(unsafe_code)]

mod arguments;
#[cfg(Py_3_11)]
mod buffer;
mod callbacks;
mod command;
mod error;
mod event;
mod events;
mod handle;
mod json;
mod log;
mod message;
mod query;
mod reads;
mod records;
mod run;
mod session;
mod store;
mod uploads;
mod walk;

use pyo3::prelude::*;

/// What the package is built on. Use `dsh_session`; nothing here is an interface of its own.
#[pymodule]
mod _native {
    #[pymodule_export]
    use crate::callbacks::{ProjectionContext, Subscription};
    #[pymodule_export]
    use crate::command::run_command_line;
    #[pymodule_export]
    use crate::error::error_table;
    #[pymodule_export]
    use crate::event::Event;
    #[pymodule_export]
    use crate::events::EventIterator;
    #[pymodule_export]
    use crate::json::encode_json;
    #[pymodule_export]
    use crate::log::SessionLog;
    #[pymodule_export]
    use crate::message::{Message, Surface, closers, fold, fold_surface, fork_seed};
    #[pymodule_export]
    use crate::query::{RowIterator, SalvageIterator, Verifier};
    #[pymodule_export]
    use crate::run::CancelToken;
    #[pymodule_export]
    use crate::session::Session;
    #[pymodule_export]
    use crate::store::Store;
    #[pymodule_export]
    use crate::uploads::{DeliveryFold, UploadExclusions, next_upload};

    #[pymodule_init]
    fn begin(module: &pyo3::Bound<'_, pyo3::types::PyModule>) -> pyo3::PyResult<()> {
        crate::callbacks::watch_end(module)?;
        crate::run::watch_forks(module)
    }

    /// The version of the library.
    #[pymodule_export]
    const VERSION: &str = env!("CARGO_PKG_VERSION");
}
