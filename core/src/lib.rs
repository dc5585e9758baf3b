//! Durable session logs for AI agents.
//!
//! One folder of files, no server: append the events of an agent run, and when `flush` has returned, no crash,
//! full disk or second program loses them. The files are those of DeepSeek Harness, format 4.
//!
//! The rooms, from the ground up; each imports only from those before it in this list:
//! [`error`], [`json`], [`storage`], [`event`], [`mod@format`], [`persistence`], [`session`], [`mod@store`], [`query`]; the front door is
//! [`Store`].
#![forbid(unsafe_code)]

mod cancel;
pub mod error;
pub mod event;
pub mod format;
mod front;
pub mod json;
pub mod persistence;
pub mod query;
mod report;

pub mod session;
pub mod storage;
pub mod store;

pub use cancel::CancelToken;
pub use error::{Code, Error, Result};
pub use event::{Event, EventDraft, SurfaceOp};
pub use format::EventRange;
pub use format::header::SessionHeader;
pub use format::names::Encoding;
pub use format::reader::ReadLimits;
pub use front::{NewSession, Store, StoreBuilder, WAITING_BYTES_MAX, WRITE_BEHIND_BYTES, WRITE_BEHIND_DELAY};
pub use persistence::{Access, ListMode, Removal, SessionLog, SessionPersistence};
pub use report::{Reporter, Severity};
pub use session::{Pending, Session};
