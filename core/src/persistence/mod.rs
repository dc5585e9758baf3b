//! Making logs durable: the contract that every backend keeps, and the file backend.
//!
//! [`SessionPersistence`] finds and creates logs; a [`SessionLog`] is one open channel onto one of them and the only door to its
//! events. The contract is that of `format.md` 6; one suite of tests runs on every implementation: [`files::FilePersistence`] and
//! the small [`memory::MemoryPersistence`].

mod contract;
pub mod files;
pub mod memory;
mod rules;

pub use contract::{
    Access, EventSink, EventSlice, EventState, Events, FormatStatus, ListMode, Listing, NewLog, Notice,
    Problem, Removal, Resumed, Revision, SessionLog, SessionPersistence, Snapshot, StoredEvents,
};
