//! How a session is tied to whatever keeps it on the disk, without knowing what that is.

use crate::cancel::CancelToken;
use crate::error::{Error, Result};
use crate::event::Event;
use crate::persistence::Notice;
use std::fmt::Debug;
use std::sync::Arc;

/// Events that a session accepted and that are not on the disk yet.
#[derive(Debug, Default)]
pub struct Pending {
    /// How many.
    pub events: u64,
    /// Bytes of their rows.
    pub bytes: u64,
    /// Why the last write in the background failed; `None` while all goes well.
    pub error: Option<Error>,
}

/// What keeps the events of one session.
pub(crate) trait Durability: Send + Sync + Debug {
    /// Whether more events may be accepted: the session is open, and what waits is within its limit.
    fn check_append(&self) -> Result<()>;

    /// Whether the session is open.
    fn check_open(&self, operation: &str) -> Result<()>;

    /// Takes the events of one append, in order, to be written together. Called inside the gate: must not wait for the disk.
    fn committed(&self, events: &[Event]);

    /// Called after an append when its thread has left the gate: here it may wait for the disk.
    fn relieve(&self);

    /// Makes everything durable.
    fn flush(&self, cancel: &CancelToken) -> Result<()>;

    /// Ends it.
    fn close(&self) -> Result<()>;

    /// Ends it where nobody waits for the outcome: what could not be written is reported. In a forked child this does nothing.
    fn abandon(&self);

    /// What waits.
    fn pending(&self) -> Pending;

    /// What was found.
    fn notices(&self) -> Vec<Notice>;
}

/// Closes its session when the last clone that holds it is dropped.
#[derive(Debug)]
pub(crate) struct OpenHandle {
    durability: Arc<dyn Durability>,
    /// What has to live as long as a session is open, and goes where its last clone goes.
    _lives_on: Arc<dyn Debug + Send + Sync>,
}

impl OpenHandle {
    pub(crate) fn new(durability: Arc<dyn Durability>, lives_on: Arc<dyn Debug + Send + Sync>) -> OpenHandle {
        OpenHandle { durability, _lives_on: lives_on }
    }
}

impl Drop for OpenHandle {
    fn drop(&mut self) {
        self.durability.abandon();
    }
}
