//! What this process has checked already: a log whose revision did not change since is not checked again.
//!
//! Only the outcome of a whole, strict read is kept, and only while identity, size and times of the file are those it had then. `verify`
//! and `check` never ask here: who wants to know whether the disk still holds the bytes has them read.
//!
//! An append extends what is known. The write handle keeps the checker that read its log ([`OwnRules`]), and what it has written it
//! asks the same rules of: a handle takes whole rows and refuses none for a broken rule, so that rows came through one says nothing
//! about them. If they keep the rules, the file as it is now is known as well; if not, nothing is known of it any more, and the next
//! read tells what is wrong. Judging at once costs some microseconds beside a sync; remembering up to where a log was judged would
//! need the same checker, and a second kind of read that begins to judge in the middle. Who resumes a log takes the checker with it, and
//! appends what it has judged itself (`append_checked`).

use super::Shared;
use crate::event::Event;
use crate::format::reader::LogEnd;
use crate::format::relationships::LogChecker;
use crate::storage::FileMetadata;
use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Logs remembered at once, some hundred bytes each. Beyond it all are forgotten: reading again is slow, not wrong.
const CHECKED_LOGS_MAX: usize = 1024;

/// The events of closed logs whose checkers are kept, together: a checker remembers some tens of bytes for each. Without one a log is
/// known as it is, and an append ends that.
const KEPT_EVENTS_MAX: u64 = 200_000;

/// The outcome of whole reads, by session.
#[derive(Debug, Default)]
pub(super) struct CheckedLogs(Mutex<HashMap<String, Checked>>);

#[derive(Debug)]
struct Checked {
    metadata: FileMetadata,
    event_count: u64,
    inherited_marker: Option<u64>,
    /// The rules after the last event, for the next write handle; while there is one, it has them.
    rules: Option<Box<LogChecker>>,
}

/// The rules of a log as its write handle knows them, after the last event it accepted.
#[derive(Debug, Default)]
pub(super) struct OwnRules {
    /// `None` where it is not known whether the rows so far keep the rules, or known that they do not.
    checker: Option<Box<LogChecker>>,
    /// The file as it was when it was last known to keep them.
    known: Option<FileMetadata>,
}

impl OwnRules {
    /// `known`: the file to whose end the checker was brought; `None` for a session without one, or where a torn tail follows.
    pub(super) fn new(checker: Option<LogChecker>, known: Option<FileMetadata>) -> OwnRules {
        OwnRules { checker: checker.map(Box::new), known }
    }

    /// Whether events may be accepted that are known to keep the rules.
    pub(super) fn are_known(&self) -> bool {
        self.checker.is_some()
    }

    /// Asks the rules of events that were just accepted. After a breach nothing is known any more.
    pub(super) fn judge(&mut self, batch: &[Event]) {
        if let Some(checker) = &mut self.checker
            && batch.iter().any(|event| checker.check(event).is_err())
        {
            self.checker = None;
        }
    }
}

impl Shared {
    fn checked(&self) -> MutexGuard<'_, HashMap<String, Checked>> {
        self.checked.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Remembers that the log, as `metadata` describes it, was read from its first row to `end` by every rule.
    pub(super) fn remember_checked(&self, id: &str, metadata: FileMetadata, end: &LogEnd) {
        // A torn tail is looked at anew each time: what to recover from it is not worth keeping.
        if end.torn.is_some() {
            return;
        }
        self.remember_as_checked(id, metadata, end.event_count, end.inherited_marker);
    }

    fn remember(&self, id: &str, checked: Checked) {
        let mut logs = self.checked();
        if logs.len() >= CHECKED_LOGS_MAX && !logs.contains_key(id) {
            logs.clear();
        }
        logs.insert(id.to_owned(), checked);
    }

    /// The end of the log, if it was checked and is still as `metadata` describes it. Its frames were not counted.
    pub(super) fn checked_end(&self, id: &str, metadata: &FileMetadata) -> Option<LogEnd> {
        let logs = self.checked();
        let checked = logs.get(id).filter(|checked| checked.metadata == *metadata)?;
        Some(LogEnd {
            event_count: checked.event_count,
            inherited_marker: checked.inherited_marker,
            file_bytes: metadata.size,
            torn: None,
            frames: 0,
        })
    }

    /// The rules that an earlier write handle left of the log, for the next one.
    pub(super) fn take_rules(&self, id: &str, metadata: &FileMetadata) -> OwnRules {
        let mut logs = self.checked();
        let left = logs.get_mut(id).filter(|checked| checked.metadata == *metadata);
        OwnRules { checker: left.and_then(|checked| checked.rules.take()), known: Some(*metadata) }
    }

    /// Remembers that the log is `metadata` now, after an append of events that `rules` were asked of.
    pub(super) fn extend_checked(
        &self,
        id: &str,
        metadata: FileMetadata,
        event_count: u64,
        inherited_marker: Option<u64>,
        rules: &mut OwnRules,
    ) {
        // A doubt is a breach until a later event clears it, and a read would tell it.
        if rules.checker.as_ref().is_some_and(|checker| checker.finish().is_ok()) {
            rules.known = Some(metadata);
            self.remember_as_checked(id, metadata, event_count, inherited_marker);
        }
    }

    /// Remembers that the log is `metadata` now, and that somebody who knows asked its rules of every event.
    pub(super) fn remember_as_checked(
        &self,
        id: &str,
        metadata: FileMetadata,
        event_count: u64,
        inherited_marker: Option<u64>,
    ) {
        self.remember(id, Checked { metadata, event_count, inherited_marker, rules: None });
    }

    /// Takes the rules of a handle that is closed, if they are those of the log as it was last seen.
    pub(super) fn keep_rules(&self, id: &str, rules: OwnRules) {
        let OwnRules { checker: Some(checker), known: Some(known) } = rules else { return };
        let mut logs = self.checked();
        let kept = logs.values().filter(|checked| checked.rules.is_some());
        let kept: u64 = kept.map(|checked| checked.event_count).sum();
        // Another file under this name, read since by somebody else, has rules of its own.
        let Some(checked) = logs.get_mut(id).filter(|checked| checked.metadata == known) else { return };
        // A call that waits for its result holds on to the text around it.
        if checked.event_count > KEPT_EVENTS_MAX || checker.holds_text() {
            return;
        }
        checked.rules = Some(checker);
        if kept + checked.event_count > KEPT_EVENTS_MAX {
            let others = logs.iter_mut().filter(|(other, _)| *other != id);
            others.for_each(|(_, checked)| checked.rules = None);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{Checked, KEPT_EVENTS_MAX, OwnRules};
    use crate::event::Vocabulary;
    use crate::format::header::SessionHeader;
    use crate::format::relationships::LogChecker;
    use crate::persistence::files::FilePersistence;
    use crate::storage::{FileKind, FileMetadata};

    fn metadata(inode: u64) -> FileMetadata {
        FileMetadata { kind: FileKind::File, device: 1, inode, size: 9, modified_ns: 1, changed_ns: 1 }
    }

    #[test]
    fn the_rules_of_closed_logs_are_kept_for_so_many_events_and_of_the_right_file() {
        let folder = tempfile::tempdir().unwrap();
        let shared = FilePersistence::open(folder.path()).unwrap().shared;
        let keep = |inode: u64, event_count: u64, known: u64| {
            let id = inode.to_string();
            let checked =
                Checked { metadata: metadata(inode), event_count, inherited_marker: None, rules: None };
            shared.remember(&id, checked);
            let checker = LogChecker::new(&SessionHeader::new(&id, 1), Vocabulary::default());
            shared.keep_rules(&id, OwnRules::new(Some(checker), Some(metadata(known))));
        };
        let is_kept = |inode: u64| shared.take_rules(&inode.to_string(), &metadata(inode)).are_known();
        keep(1, KEPT_EVENTS_MAX + 1, 1);
        assert!(!is_kept(1), "too many events in one log");
        keep(1, 1, 2);
        assert!(!is_kept(1), "the rules of another file");
        keep(1, KEPT_EVENTS_MAX - 1, 1);
        keep(2, 1, 2);
        assert!(
            is_kept(1) && is_kept(2) && !is_kept(1),
            "at the limit both are kept, and each is given once"
        );
        keep(1, KEPT_EVENTS_MAX, 1);
        keep(2, 1, 2);
        assert!(is_kept(2) && !is_kept(1), "beyond it only the last");
    }
}
