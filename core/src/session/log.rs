//! The events of a session in memory: only ever longer, and cheap to look at while it grows.

use crate::event::Event;
use std::sync::Arc;

/// Events in one chunk. A chunk that somebody looks at is copied before it grows, so chunks are small; full ones never change.
const CHUNK_EVENTS: usize = 256;

/// Events with seqs from 0 on.
#[derive(Clone, Debug, Default)]
pub(super) struct Log {
    /// All but the last are full.
    chunks: Vec<Arc<Vec<Event>>>,
}

impl Log {
    pub(super) fn len(&self) -> u64 {
        match self.chunks.split_last() {
            Some((last, full)) => (full.len() * CHUNK_EVENTS + last.len()) as u64,
            None => 0,
        }
    }

    pub(super) fn get(&self, seq: u64) -> Option<&Event> {
        let index = usize::try_from(seq).ok()?;
        self.chunks.get(index / CHUNK_EVENTS)?.get(index % CHUNK_EVENTS)
    }

    pub(super) fn push(&mut self, event: Event) {
        match self.chunks.last_mut().filter(|chunk| chunk.len() < CHUNK_EVENTS) {
            Some(chunk) => Arc::make_mut(chunk).push(event),
            None => {
                let mut chunk = Vec::with_capacity(CHUNK_EVENTS);
                chunk.push(event);
                self.chunks.push(Arc::new(chunk));
            }
        }
    }

    /// The events with seqs from `from` to below `to`, as far as there are any.
    pub(super) fn snapshot(&self, from: u64, to: u64) -> Snapshot {
        let to = to.min(self.len());
        let from = from.min(to);
        let chunk = |seq: u64| (seq / CHUNK_EVENTS as u64) as usize;
        let last = if from == to { chunk(from) } else { chunk(to - 1) + 1 };
        let chunks = self.chunks.get(chunk(from)..last).unwrap_or_default().to_vec();
        Snapshot { chunks, first: from - from % CHUNK_EVENTS as u64, from, to }
    }
}

/// A range of a session's events as it was; never changes afterwards (`session.md` 18).
#[derive(Clone, Debug, Default)]
pub struct Snapshot {
    chunks: Vec<Arc<Vec<Event>>>,
    /// The seq of the first event of the first chunk.
    first: u64,
    from: u64,
    to: u64,
}

impl Snapshot {
    /// How many events.
    #[must_use]
    pub fn len(&self) -> u64 {
        self.to - self.from
    }

    /// Whether there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.from == self.to
    }

    /// The event with this seq, if it lies in the range.
    #[must_use]
    pub fn get(&self, seq: u64) -> Option<&Event> {
        if !(self.from..self.to).contains(&seq) {
            return None;
        }
        let index = (seq - self.first) as usize;
        self.chunks.get(index / CHUNK_EVENTS)?.get(index % CHUNK_EVENTS)
    }

    /// The events in order.
    pub fn iter(&self) -> impl Iterator<Item = &Event> + '_ {
        (self.from..self.to).filter_map(|seq| self.get(seq))
    }
}

impl IntoIterator for Snapshot {
    type Item = Event;
    type IntoIter = SnapshotIntoIter;

    fn into_iter(self) -> SnapshotIntoIter {
        SnapshotIntoIter { next: self.from, snapshot: self }
    }
}

/// Walks a [`Snapshot`] that it owns.
#[derive(Clone, Debug)]
pub struct SnapshotIntoIter {
    snapshot: Snapshot,
    next: u64,
}

impl Iterator for SnapshotIntoIter {
    type Item = Event;

    fn next(&mut self) -> Option<Event> {
        let event = self.snapshot.get(self.next)?.clone();
        self.next += 1;
        Some(event)
    }
}

#[cfg(test)]
mod tests {
    use super::{CHUNK_EVENTS, Log};
    use crate::event::Event;

    fn log(events: u64) -> Log {
        let mut log = Log::default();
        for seq in 0..events {
            let row = format!(r#"{{"type":"todo/write","seq":{seq},"time":1,"data":{{}}}}"#);
            log.push(Event::from_stored_row(row).unwrap());
        }
        log
    }

    #[test]
    fn a_range_is_that_range_wherever_chunks_end() {
        let chunk = CHUNK_EVENTS as u64;
        for length in [0, 1, chunk - 1, chunk, chunk + 1, 2 * chunk, 2 * chunk + 1] {
            let log = log(length);
            assert_eq!(log.len(), length);
            for from in [0, 1, chunk - 1, chunk, chunk + 1, length] {
                for to in [0, 1, chunk, chunk + 1, length, length + 5] {
                    let expected: Vec<_> = (from.min(to.min(length))..to.min(length)).collect();
                    let snapshot = log.snapshot(from, to);
                    assert_eq!(snapshot.iter().map(Event::seq).collect::<Vec<_>>(), expected);
                    assert_eq!(snapshot.len(), expected.len() as u64);
                    assert_eq!(snapshot.into_iter().map(|event| event.seq()).collect::<Vec<_>>(), expected);
                }
            }
        }
    }

    #[test]
    fn a_snapshot_does_not_grow_with_its_log() {
        let mut log = log(3);
        let before = log.snapshot(0, u64::MAX);
        log.push(Event::from_stored_row(r#"{"type":"todo/write","seq":3,"time":1,"data":{}}"#).unwrap());
        assert_eq!((before.len(), before.get(3), log.len()), (3, None, 4));
    }
}
