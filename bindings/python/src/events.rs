//! Walking events: read in batches with the interpreter's lock released, handed out one by one.

use crate::error::raise;
use crate::event::Event;
use crate::run::{Runner, lock};
use dsh_session_core::persistence::Events;
use dsh_session_core::{Code, Error};
use pyo3::prelude::*;
use std::collections::VecDeque;
use std::sync::{Arc, Mutex};

/// Events read at once: enough that releasing the lock costs nothing per event, few enough that signals are looked at often.
const BATCH_EVENTS_MAX: usize = 256;

/// Text read at once; the event that passes it still belongs to the batch.
const BATCH_BYTES_MAX: usize = 1 << 20;

/// Events in order. An iterator; use it from one thread at a time.
///
/// It ends with the exception of the first damage it meets, after the events before it.
#[pyclass(frozen, module = "dsh_session", weakref)]
#[derive(Debug)]
pub(crate) struct EventIterator {
    runner: Arc<Runner>,
    /// Held for moments only, never while reading or waiting for the interpreter's lock.
    state: Mutex<State>,
}

#[derive(Debug)]
struct State {
    ready: VecDeque<dsh_session_core::Event>,
    source: Source,
}

#[derive(Debug)]
enum Source {
    More(Events),
    /// A thread is reading.
    Taken,
    Failed(Error),
    Ended,
}

impl EventIterator {
    pub(crate) fn new(runner: &Arc<Runner>, events: Events) -> EventIterator {
        let state = State { ready: VecDeque::new(), source: Source::More(events) };
        EventIterator { runner: Arc::clone(runner), state: Mutex::new(state) }
    }

    fn next_ready(&self, py: Python<'_>) -> PyResult<Option<dsh_session_core::Event>> {
        self.runner.check_process().map_err(|error| raise(py, &error))?;
        loop {
            let source = {
                let mut state = lock(&self.state);
                if let Some(event) = state.ready.pop_front() {
                    return Ok(Some(event));
                }
                std::mem::replace(&mut state.source, Source::Taken)
            };
            let events = match source {
                Source::More(events) => events,
                Source::Taken => {
                    let message = "another thread is reading from this iterator";
                    return Err(raise(py, &Error::new(Code::InvalidArgument, message)));
                }
                Source::Failed(error) => {
                    lock(&self.state).source = Source::Ended;
                    return Err(raise(py, &error));
                }
                Source::Ended => {
                    lock(&self.state).source = Source::Ended;
                    return Ok(None);
                }
            };
            match self.runner.read(py, |_| Ok(read_batch(events))) {
                Ok(state) => *lock(&self.state) = state,
                // A signal handler raised while the batch was being read: the batch is given up, and the iterator with it.
                Err(raised) => {
                    lock(&self.state).source = Source::Ended;
                    return Err(raised);
                }
            }
        }
    }

    /// Fills the batch if it is empty; everything read so far and not given out.
    fn take_batch(&self, py: Python<'_>) -> PyResult<Vec<Event>> {
        let Some(first) = self.next_ready(py)? else { return Ok(Vec::new()) };
        let rest = std::mem::take(&mut lock(&self.state).ready);
        Ok(std::iter::once(first).chain(rest).map(Event::new).collect())
    }
}

/// What the next batch leaves behind. An error comes after the events before it.
fn read_batch(mut events: Events) -> State {
    let mut ready = VecDeque::new();
    let mut bytes = 0;
    while ready.len() < BATCH_EVENTS_MAX && bytes < BATCH_BYTES_MAX {
        match events.next() {
            None => return State { ready, source: Source::Ended },
            Some(Err(error)) => return State { ready, source: Source::Failed(error) },
            Some(Ok(event)) => {
                bytes += event.row().len();
                ready.push_back(event);
            }
        }
    }
    State { ready, source: Source::More(events) }
}

#[pymethods]
impl EventIterator {
    fn __iter__(slf: PyRef<'_, Self>) -> PyRef<'_, Self> {
        slf
    }

    fn __next__(&self, py: Python<'_>) -> PyResult<Option<Event>> {
        Ok(self.next_ready(py)?.map(Event::new))
    }

    /// The events of the next batch, at least one; an empty list at the end. For code that works batch by batch.
    fn next_batch(&self, py: Python<'_>) -> PyResult<Vec<Event>> {
        self.take_batch(py)
    }
}
