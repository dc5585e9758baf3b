//! Stored logs that were read, kept for whoever asks next (`query.md` 1.8).
//!
//! One entry a session, good for one revision. Whoever has an entry keeps it, whatever becomes of the cache. Those who want the same
//! log at the same time share one read.

use super::observation::ColdLog;
use super::storage_error::check;
use crate::cancel::CancelToken;
use crate::error::{Code, Error, Result};
use crate::persistence::Revision;
use std::collections::HashMap;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// The text of events, in bytes, that the cache keeps at most. A log that is larger is read and given, but not kept.
pub const CACHED_TEXT_BYTES_MAX: u64 = 256 << 20;

/// How long a call that waits for another's read does so before it looks at its token.
const CANCEL_LOOK: Duration = Duration::from_millis(50);

type Key = (String, Revision);

/// Logs by session.
#[derive(Debug)]
pub(super) struct ColdCache {
    entries_max: usize,
    text_bytes_max: u64,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    /// Least recently used first.
    entries: Vec<(Key, Arc<ColdLog>)>,
    flights: HashMap<Key, Arc<Flight>>,
}

/// A read that several wait for.
#[derive(Debug, Default)]
struct Flight {
    outcome: Mutex<Option<Result<Arc<ColdLog>>>>,
    is_over: Condvar,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    // Nothing under these locks can panic halfway through a change.
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl ColdCache {
    pub(super) fn new(entries_max: usize, text_bytes_max: u64) -> ColdCache {
        ColdCache { entries_max, text_bytes_max, state: Mutex::default() }
    }

    /// The log of this revision if it is here; counts as a use.
    pub(super) fn get(&self, id: &str, revision: &Revision) -> Option<Arc<ColdLog>> {
        lock(&self.state).get(&(id.to_owned(), revision.clone()))
    }

    /// The log of this revision: from the cache, from a read that is under way, or read now.
    pub(super) fn get_or_read(
        &self,
        id: &str,
        revision: &Revision,
        cancel: &CancelToken,
        read: impl Fn() -> Result<ColdLog>,
    ) -> Result<Arc<ColdLog>> {
        let key = (id.to_owned(), revision.clone());
        loop {
            let (flight, is_mine) = {
                let mut state = lock(&self.state);
                if let Some(log) = state.get(&key) {
                    return Ok(log);
                }
                let under_way = state.flights.get(&key).map(Arc::clone);
                let is_mine = under_way.is_none();
                (under_way.unwrap_or_else(|| state.take_off(&key)), is_mine)
            };
            if is_mine {
                // Ends the flight also if the read panics, so that nobody waits for ever.
                let mut landing = Landing { cache: self, key, flight, outcome: None };
                let outcome = read().map(Arc::new);
                landing.outcome = Some(share(&outcome));
                return outcome;
            }
            match flight.wait(cancel)? {
                // The one who read was cancelled, not this one.
                Err(error) if error.code() == Code::QueryAborted => {}
                outcome => return outcome,
            }
        }
    }
}

fn share(outcome: &Result<Arc<ColdLog>>) -> Result<Arc<ColdLog>> {
    match outcome {
        Ok(log) => Ok(Arc::clone(log)),
        Err(error) => Err(error.duplicate()),
    }
}

impl Flight {
    fn wait(&self, cancel: &CancelToken) -> Result<Result<Arc<ColdLog>>> {
        let mut outcome = lock(&self.outcome);
        loop {
            if let Some(outcome) = &*outcome {
                return Ok(share(outcome));
            }
            check(cancel)?;
            let waited = self.is_over.wait_timeout(outcome, CANCEL_LOOK);
            outcome = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
    }
}

struct Landing<'a> {
    cache: &'a ColdCache,
    key: Key,
    flight: Arc<Flight>,
    outcome: Option<Result<Arc<ColdLog>>>,
}

impl Drop for Landing<'_> {
    fn drop(&mut self) {
        let stopped = || Err(Error::new(Code::Internal, "the read of a stored log stopped in the middle"));
        let outcome = self.outcome.take().unwrap_or_else(stopped);
        {
            let mut state = lock(&self.cache.state);
            state.flights.remove(&self.key);
            if let Ok(log) = &outcome {
                state.keep(&self.key, log, self.cache);
            }
        }
        *lock(&self.flight.outcome) = Some(outcome);
        self.flight.is_over.notify_all();
    }
}

impl State {
    fn get(&mut self, key: &Key) -> Option<Arc<ColdLog>> {
        let place = self.entries.iter().position(|(known, _)| known == key)?;
        let entry = self.entries.remove(place);
        let log = Arc::clone(&entry.1);
        self.entries.push(entry);
        Some(log)
    }

    fn take_off(&mut self, key: &Key) -> Arc<Flight> {
        let flight = Arc::new(Flight::default());
        self.flights.insert(key.clone(), Arc::clone(&flight));
        flight
    }

    fn keep(&mut self, key: &Key, log: &Arc<ColdLog>, bounds: &ColdCache) {
        self.entries.retain(|((id, _), _)| *id != key.0);
        if log.text_bytes > bounds.text_bytes_max {
            return;
        }
        self.entries.push((key.clone(), Arc::clone(log)));
        let mut text_bytes: u64 = self.entries.iter().map(|(_, log)| log.text_bytes).sum();
        while self.entries.len() > bounds.entries_max || text_bytes > bounds.text_bytes_max {
            text_bytes -= self.entries.remove(0).1.text_bytes;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{ColdCache, ColdLog};
    use crate::cancel::CancelToken;
    use crate::error::{Code, Error};
    use crate::event::Event;
    use crate::format::header::SessionHeader;
    use crate::persistence::Revision;
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::sync::{Arc, Barrier};

    fn log(events: u64) -> ColdLog {
        let event =
            |seq| Event::from_stored_row(format!(r#"{{"type":"x","seq":{seq},"time":1,"data":{{}}}}"#));
        let events = (0..events).map(|seq| event(seq).unwrap()).collect();
        ColdLog::new(SessionHeader::new("s", 1), 0, events, Vec::new())
    }

    fn revision() -> Revision {
        Revision("r1".to_owned())
    }

    #[test]
    fn logs_up_to_the_bound_of_bytes_are_kept_and_one_byte_more_is_not() {
        let bytes = log(3).text_bytes;
        for (bound, is_kept) in [(bytes, true), (bytes - 1, false)] {
            let cache = ColdCache::new(5, bound);
            cache.get_or_read("s", &revision(), &CancelToken::new(), || Ok(log(3))).unwrap();
            assert_eq!(cache.get("s", &revision()).is_some(), is_kept);
        }
        for (bound, is_kept) in [(2 * bytes, true), (2 * bytes - 1, false)] {
            let cache = ColdCache::new(5, bound);
            for id in ["a", "b"] {
                cache.get_or_read(id, &revision(), &CancelToken::new(), || Ok(log(3))).unwrap();
            }
            assert_eq!(cache.get("a", &revision()).is_some(), is_kept);
            assert!(cache.get("b", &revision()).is_some());
        }
    }

    #[test]
    fn calls_that_come_during_a_read_share_it_and_its_failure() {
        for fails in [false, true] {
            let (cache, reads) = (ColdCache::new(5, u64::MAX), AtomicUsize::new(0));
            let all_here = Barrier::new(4);
            let ask = || {
                cache.get_or_read("s", &revision(), &CancelToken::new(), || {
                    reads.fetch_add(1, Ordering::SeqCst);
                    all_here.wait();
                    // The three others wait for this flight, or come when it is over and ask again: only a failure is read twice.
                    while Arc::strong_count(&super::lock(&cache.state).flights[&("s".to_owned(), revision())])
                        < 5
                    {
                        std::thread::yield_now();
                    }
                    if fails { Err(Error::new(Code::QueryCorruptSession, "damaged")) } else { Ok(log(1)) }
                })
            };
            let outcomes: Vec<_> = std::thread::scope(|scope| {
                let first = scope.spawn(ask);
                let others: Vec<_> = (0..3)
                    .map(|_| {
                        scope.spawn(|| {
                            all_here.wait();
                            ask()
                        })
                    })
                    .collect();
                std::iter::once(first).chain(others).map(|thread| thread.join().unwrap()).collect()
            });
            assert_eq!(reads.load(Ordering::SeqCst), 1);
            assert!(outcomes.iter().all(|outcome| outcome.is_err() == fails));
        }
    }

    #[test]
    fn one_who_waits_for_a_cancelled_read_reads_himself() {
        let (cache, reads) = (ColdCache::new(5, u64::MAX), AtomicUsize::new(0));
        let begun = Barrier::new(2);
        std::thread::scope(|scope| {
            let first = scope.spawn(|| {
                cache.get_or_read("s", &revision(), &CancelToken::new(), || {
                    begun.wait();
                    while Arc::strong_count(&super::lock(&cache.state).flights[&("s".to_owned(), revision())])
                        < 3
                    {
                        std::thread::yield_now();
                    }
                    Err(Error::new(Code::QueryAborted, "cancelled"))
                })
            });
            begun.wait();
            let second = cache.get_or_read("s", &revision(), &CancelToken::new(), || {
                reads.fetch_add(1, Ordering::SeqCst);
                Ok(log(1))
            });
            assert!(second.is_ok());
            assert_eq!(first.join().unwrap().unwrap_err().code(), Code::QueryAborted);
        });
        assert_eq!(reads.load(Ordering::SeqCst), 1);
    }

    #[test]
    fn a_read_that_panics_leaves_nobody_waiting() {
        let cache = ColdCache::new(5, u64::MAX);
        let panicked = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            cache.get_or_read("s", &revision(), &CancelToken::new(), || panic!("a bug"))
        }));
        assert!(panicked.is_err());
        assert!(cache.get_or_read("s", &revision(), &CancelToken::new(), || Ok(log(1))).is_ok());
    }
}
