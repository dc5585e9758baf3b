//! The iterator over events.

use crate::event::Event;
use crate::run::Runner;
use crate::walk::Walk;
use dsh_session_core::persistence::Events;
use pyo3::prelude::*;
use std::sync::Arc;

/// Events in order. An iterator; use it from one thread at a time.
///
/// It ends with the exception of the first damage it meets, after the events before it.
#[pyclass(frozen, module = "dsh_session", weakref)]
#[derive(Debug)]
pub(crate) struct EventIterator(Walk<Events>);

impl EventIterator {
    pub(crate) fn new(runner: &Arc<Runner>, events: Events) -> EventIterator {
        EventIterator(Walk::new(runner, events))
    }
}

#[pymethods]
impl EventIterator {
    fn __iter__(slf: PyRef<'_, Self>) -> PyRef<'_, Self> {
        slf
    }

    fn __next__(&self, py: Python<'_>) -> PyResult<Option<Event>> {
        Ok(self.0.next(py)?.map(Event::new))
    }

    /// The events of the next batch, at least one; an empty list at the end. For code that works batch by batch.
    fn next_batch(&self, py: Python<'_>) -> PyResult<Vec<Event>> {
        Ok(self.0.next_batch(py)?.into_iter().map(Event::new).collect())
    }
}
