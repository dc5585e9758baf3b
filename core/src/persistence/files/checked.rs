//! What this process has checked already: a log whose revision did not change since is not checked again.
//!
//! Only the outcome of a whole, strict read is kept, and only while identity, size and times of the file are those it had then. `verify`
//! and `check` never ask here: who wants to know whether the disk still holds the bytes has them read.

use super::Shared;
use crate::format::reader::LogEnd;
use crate::storage::FileMetadata;
use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};

/// Logs remembered at once, some hundred bytes each. Beyond it all are forgotten: reading again is slow, not wrong.
const CHECKED_LOGS_MAX: usize = 1024;

/// The outcome of whole reads, by session.
#[derive(Debug, Default)]
pub(super) struct CheckedLogs(Mutex<HashMap<String, Checked>>);

#[derive(Clone, Copy, Debug)]
struct Checked {
    metadata: FileMetadata,
    event_count: u64,
    inherited_marker: Option<u64>,
}

impl Shared {
    /// Remembers that the log, as `metadata` describes it, was read from its first row to `end` by every rule.
    pub(super) fn remember_checked(&self, id: &str, metadata: FileMetadata, end: &LogEnd) {
        // A torn tail is looked at anew each time: what to recover from it is not worth keeping.
        if end.torn.is_some() {
            return;
        }
        let checked =
            Checked { metadata, event_count: end.event_count, inherited_marker: end.inherited_marker };
        let mut logs = self.checked.0.lock().unwrap_or_else(PoisonError::into_inner);
        if logs.len() >= CHECKED_LOGS_MAX {
            logs.clear();
        }
        logs.insert(id.to_owned(), checked);
    }

    /// The end of the log, if it was checked and is still as `metadata` describes it. Its frames were not counted.
    pub(super) fn checked_end(&self, id: &str, metadata: &FileMetadata) -> Option<LogEnd> {
        let logs = self.checked.0.lock().unwrap_or_else(PoisonError::into_inner);
        let checked = logs.get(id).filter(|checked| checked.metadata == *metadata)?;
        Some(LogEnd {
            event_count: checked.event_count,
            inherited_marker: checked.inherited_marker,
            file_bytes: metadata.size,
            torn: None,
            frames: 0,
        })
    }
}
