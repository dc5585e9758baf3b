//! What asks a root about itself: judgements, salvage, raw rows.

use crate::error::exception;
use crate::event::Event;
use crate::records;
use crate::run::{Runner, lock};
use crate::walk::{Source, Walk};
use dsh_session_core::format::raw_rows::RawRow;
use dsh_session_core::query::{AfterDamage, Progress, Rows, Salvage, Verification, Verifications};
use dsh_session_core::{CancelToken, Result};
use pyo3::prelude::*;
use std::sync::{Arc, Mutex};

/// The rows of a log as text, header first. An iterator of `RawRow`; use it from one thread at a time.
///
/// Damage never raises: it is told by the `problem` of a row. `DshIOError` and `CancelledError` are about the reading.
#[pyclass(frozen, module = "dsh_session", weakref)]
#[derive(Debug)]
pub(crate) struct RowIterator(Walk<Rows>);

impl RowIterator {
    pub(crate) fn new(runner: &Arc<Runner>, rows: Rows) -> RowIterator {
        RowIterator(Walk::new(runner, rows))
    }
}

#[pymethods]
impl RowIterator {
    fn __iter__(slf: PyRef<'_, Self>) -> PyRef<'_, Self> {
        slf
    }

    fn __next__<'py>(&self, py: Python<'py>) -> PyResult<Option<Bound<'py, PyAny>>> {
        self.0.next(py)?.map(|row| records::raw_row(py, &row)).transpose()
    }

    /// The rows of the next batch, at least one; an empty list at the end. For code that works batch by batch.
    fn next_batch<'py>(&self, py: Python<'py>) -> PyResult<Vec<Bound<'py, PyAny>>> {
        self.0.next_batch(py)?.iter().map(|row| records::raw_row(py, row)).collect()
    }
}

/// The events of a log up to its damage. An iterator; use it from one thread at a time.
///
/// With `all`, a `RawRow` follows for each row that is readable after the damage: those are no part of the log.
#[pyclass(frozen, generic, module = "dsh_session", weakref)]
#[derive(Debug)]
pub(crate) struct SalvageIterator {
    walk: Walk<Parts>,
    /// Locked while a batch is read, so only tried here.
    salvage: Arc<Mutex<Salvage>>,
}

impl SalvageIterator {
    pub(crate) fn new(runner: &Arc<Runner>, salvage: Salvage, wants_all: bool) -> SalvageIterator {
        let salvage = Arc::new(Mutex::new(salvage));
        let parts = Parts { salvage: Arc::clone(&salvage), wants_all, after: None };
        SalvageIterator { walk: Walk::new(runner, parts), salvage }
    }
}

#[pymethods]
impl SalvageIterator {
    fn __iter__(slf: PyRef<'_, Self>) -> PyRef<'_, Self> {
        slf
    }

    fn __next__<'py>(&self, py: Python<'py>) -> PyResult<Option<Bound<'py, PyAny>>> {
        self.walk.next(py)?.map(|part| part.into_python(py)).transpose()
    }

    /// The next batch, at least one event or row; an empty list at the end. For code that works batch by batch.
    fn next_batch<'py>(&self, py: Python<'py>) -> PyResult<Vec<Bound<'py, PyAny>>> {
        self.walk.next_batch(py)?.into_iter().map(|part| part.into_python(py)).collect()
    }

    /// Why there are no further events, once the iterator has given the last one: the exception that reading the log raises. `None`
    /// where the log is whole; bytes of a torn tail are no part of a log, so they are no damage.
    #[getter]
    fn damage<'py>(&self, py: Python<'py>) -> PyResult<Option<Bound<'py, PyAny>>> {
        let Ok(salvage) = self.salvage.try_lock() else { return Ok(None) };
        salvage.damage().map(|error| exception(py, error)).transpose()
    }
}

/// A part of a salvaged log.
#[derive(Debug)]
pub(crate) enum Part {
    Event(dsh_session_core::Event),
    /// After the damage.
    Row(RawRow),
}

impl Part {
    fn into_python(self, py: Python<'_>) -> PyResult<Bound<'_, PyAny>> {
        match self {
            Part::Event(event) => Ok(Bound::new(py, Event::new(event))?.into_any()),
            Part::Row(row) => records::raw_row(py, &row),
        }
    }
}

/// The events before the damage, then perhaps the rows after it.
#[derive(Debug)]
struct Parts {
    salvage: Arc<Mutex<Salvage>>,
    wants_all: bool,
    /// Begun once the events have ended.
    after: Option<AfterDamage>,
}

impl Source for Parts {
    type Item = Part;

    fn next_item(&mut self) -> Option<Result<Part>> {
        if self.after.is_none() {
            let mut salvage = lock(&self.salvage);
            if let Some(event) = salvage.next() {
                return Some(event.map(Part::Event));
            }
            if !self.wants_all || salvage.damage().is_none() {
                return None;
            }
            match salvage.after_damage() {
                Ok(after) => self.after = Some(after),
                Err(error) => return Some(Err(error)),
            }
        }
        Some(self.after.as_mut()?.next()?.map(Part::Row))
    }

    fn text_bytes(part: &Part) -> usize {
        match part {
            Part::Event(event) => event.row().len(),
            Part::Row(row) => row.text.len(),
        }
    }
}

/// Judging a root step by step: what `Store.verify` and its asyncio twin are made of.
#[pyclass(frozen, module = "dsh_session")]
#[derive(Debug)]
pub(crate) struct Verifier {
    runner: Arc<Runner>,
    /// Stops the step that is running: a log may be large.
    token: CancelToken,
    /// `None` while a step runs, and after the last one.
    state: Mutex<Option<Verifications>>,
}

impl Verifier {
    pub(crate) fn new(runner: &Arc<Runner>, token: CancelToken, verifications: Verifications) -> Verifier {
        Verifier { runner: Arc::clone(runner), token, state: Mutex::new(Some(verifications)) }
    }

    fn next(&self, py: Python<'_>) -> PyResult<Option<(Verification, Progress)>> {
        let Some(mut verifications) = lock(&self.state).take() else { return Ok(None) };
        let (verifications, judged) = self.runner.read_by(py, &self.token, move || {
            let judged = verifications.next().transpose()?;
            Ok((verifications, judged))
        })?;
        let progress = verifications.progress();
        *lock(&self.state) = Some(verifications);
        Ok(judged.map(|judged| (judged, progress)))
    }
}

#[pymethods]
impl Verifier {
    /// The next judgement and how far it is; `None` at the end.
    pub(crate) fn step<'py>(
        &self,
        py: Python<'py>,
    ) -> PyResult<Option<(Bound<'py, PyAny>, Bound<'py, PyAny>)>> {
        let Some((judged, progress)) = self.next(py)? else { return Ok(None) };
        Ok(Some((records::verification(py, &judged)?, records::progress(py, progress)?)))
    }
}
