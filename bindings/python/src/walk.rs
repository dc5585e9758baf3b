//! Walking: items are read in batches with the interpreter's lock released, and handed out one by one.

use crate::error::raise;
use crate::run::{Runner, lock};
use dsh_session_core::format::raw_rows::RawRow;
use dsh_session_core::persistence::Events;
use dsh_session_core::query::Rows;
use dsh_session_core::{Code, Error, Event, Result};
use pyo3::prelude::*;
use std::collections::VecDeque;
use std::fmt;
use std::sync::{Arc, Mutex};

/// Items read at once: enough that releasing the lock costs nothing per item, few enough that signals are looked at often.
const BATCH_ITEMS_MAX: usize = 256;

/// Text read at once; the item that passes it still belongs to the batch.
const BATCH_BYTES_MAX: usize = 1 << 20;

/// What is walked over.
pub(crate) trait Source: fmt::Debug + Send + 'static {
    /// One step's result.
    type Item: fmt::Debug + Send + 'static;

    /// The next item; after an error there is nothing more.
    fn next_item(&mut self) -> Option<Result<Self::Item>>;

    /// The text that an item holds, in bytes.
    fn text_bytes(item: &Self::Item) -> usize;
}

impl Source for Events {
    type Item = Event;

    fn next_item(&mut self) -> Option<Result<Event>> {
        self.next()
    }

    fn text_bytes(event: &Event) -> usize {
        event.row().len()
    }
}

impl Source for Rows {
    type Item = RawRow;

    fn next_item(&mut self) -> Option<Result<RawRow>> {
        self.next()
    }

    fn text_bytes(row: &RawRow) -> usize {
        row.text.len()
    }
}

/// A walk that any thread may go on with, one at a time.
#[derive(Debug)]
pub(crate) struct Walk<S: Source> {
    runner: Arc<Runner>,
    /// Held for moments only, never while reading or waiting for the interpreter's lock.
    state: Mutex<State<S>>,
}

#[derive(Debug)]
struct State<S: Source> {
    ready: VecDeque<S::Item>,
    rest: Rest<S>,
}

#[derive(Debug)]
enum Rest<S> {
    More(S),
    /// A thread is reading.
    Taken,
    Failed(Error),
    Ended,
}

impl<S: Source> Walk<S> {
    pub(crate) fn new(runner: &Arc<Runner>, source: S) -> Walk<S> {
        let state = State { ready: VecDeque::new(), rest: Rest::More(source) };
        Walk { runner: Arc::clone(runner), state: Mutex::new(state) }
    }

    /// The next item; an error comes after the items before it.
    pub(crate) fn next(&self, py: Python<'_>) -> PyResult<Option<S::Item>> {
        self.runner.check_process().map_err(|error| raise(py, &error))?;
        loop {
            let rest = {
                let mut state = lock(&self.state);
                if let Some(item) = state.ready.pop_front() {
                    return Ok(Some(item));
                }
                std::mem::replace(&mut state.rest, Rest::Taken)
            };
            let source = match rest {
                Rest::More(source) => source,
                Rest::Taken => {
                    let message = "another thread is reading from this iterator";
                    return Err(raise(py, &Error::new(Code::InvalidArgument, message)));
                }
                Rest::Failed(error) => {
                    lock(&self.state).rest = Rest::Ended;
                    return Err(raise(py, &error));
                }
                Rest::Ended => {
                    lock(&self.state).rest = Rest::Ended;
                    return Ok(None);
                }
            };
            match self.runner.read(py, |_| Ok(read_batch(source))) {
                Ok(state) => *lock(&self.state) = state,
                // A signal handler raised while the batch was being read: the batch is given up, and the iterator with it.
                Err(raised) => {
                    lock(&self.state).rest = Rest::Ended;
                    return Err(raised);
                }
            }
        }
    }

    /// Fills the batch if it is empty; everything read so far and not given out.
    pub(crate) fn next_batch(&self, py: Python<'_>) -> PyResult<Vec<S::Item>> {
        let Some(first) = self.next(py)? else { return Ok(Vec::new()) };
        let rest = std::mem::take(&mut lock(&self.state).ready);
        Ok(std::iter::once(first).chain(rest).collect())
    }
}

/// What the next batch leaves behind.
fn read_batch<S: Source>(mut source: S) -> State<S> {
    let mut ready = VecDeque::new();
    let mut bytes = 0;
    while ready.len() < BATCH_ITEMS_MAX && bytes < BATCH_BYTES_MAX {
        match source.next_item() {
            None => return State { ready, rest: Rest::Ended },
            Some(Err(error)) => return State { ready, rest: Rest::Failed(error) },
            Some(Ok(item)) => {
                bytes += S::text_bytes(&item);
                ready.push_back(item);
            }
        }
    }
    State { ready, rest: Rest::More(source) }
}
