//! The exact reads: what goes in and comes out of them.

use crate::error::raise;
use crate::event::{Event, loads};
use crate::json;
use dsh_session_core::json::ObjectText;
use dsh_session_core::query::{EventRequest, EventWindow, LineageEnd, SessionLineage};
use dsh_session_core::{Code, Error, Result};
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyList};

/// A dictionary for each item.
pub(crate) fn objects<'py, T>(
    py: Python<'py>,
    items: &[T],
    to_json: impl Fn(&T) -> String,
) -> PyResult<Vec<Bound<'py, PyAny>>> {
    items.iter().map(|item| loads(py, &to_json(item))).collect()
}

/// Filters as they are at the moment of the call. What is no JSON is no filter.
pub(crate) fn filters<T>(
    py: Python<'_>,
    value: &Bound<'_, PyAny>,
    read: fn(&str) -> Result<Vec<T>>,
) -> PyResult<Vec<T>> {
    let refused =
        |error: Error| Error::new(Code::QueryInvalidFilter, error.message().to_owned()).with_cause(error);
    let text = json::text_or_value(value).map_err(refused);
    let filters = text.and_then(|text| read(&String::from_utf8_lossy(&text)));
    filters.map_err(|error| raise(py, &error))
}

/// The core judges the numbers: it knows which error each wrong one is.
pub(crate) fn request(
    seq: &Bound<'_, PyAny>,
    before: Option<&Bound<'_, PyAny>>,
    after: Option<&Bound<'_, PyAny>>,
) -> Result<EventRequest> {
    let mut request = ObjectText::new();
    request.json("seq", &json::to_json(seq)?);
    for (key, value) in [("before", before), ("after", after)] {
        if let Some(value) = value {
            request.json(key, &json::to_json(value)?);
        }
    }
    EventRequest::from_json(&request.finish())
}

fn events<'py>(py: Python<'py>, events: &[dsh_session_core::Event]) -> PyResult<Bound<'py, PyList>> {
    PyList::new(py, events.iter().map(|event| Event::new(event.clone())))
}

/// The facts of a reading with its events.
pub(crate) fn with_events<'py>(
    py: Python<'py>,
    facts_json: &str,
    read: &[dsh_session_core::Event],
) -> PyResult<Bound<'py, PyAny>> {
    let facts = loads(py, facts_json)?;
    facts.set_item("events", events(py, read)?)?;
    Ok(facts)
}

pub(crate) fn window<'py>(py: Python<'py>, window: &EventWindow) -> PyResult<Bound<'py, PyAny>> {
    let facts = PyDict::new(py);
    facts.set_item("session", loads(py, &window.session.to_json())?)?;
    facts.set_item("inheritedEventCount", window.inherited_event_count)?;
    facts.set_item("target", window.target().map(|target| Event::new(target.clone())))?;
    facts.set_item("events", events(py, &window.events)?)?;
    facts.set_item("startSeq", window.start_seq())?;
    facts.set_item("endSeq", window.end_seq())?;
    Ok(facts.into_any())
}

/// Put together without recursion: a lineage may be deeper than Python's own JSON reader goes.
pub(crate) fn lineage<'py>(py: Python<'py>, lineage: &SessionLineage) -> PyResult<Bound<'py, PyDict>> {
    let facts = PyDict::new(py);
    facts.set_item("target", loads(py, &lineage.target.to_json())?)?;
    facts.set_item("ancestors", objects(py, &lineage.ancestors, |record| record.to_json())?)?;
    let descendants = PyList::empty(py);
    // The lists of children on the way to the last session, by depth.
    let mut open = vec![descendants.clone()];
    for descendant in &lineage.descendants {
        let (child, children) = (PyDict::new(py), PyList::empty(py));
        child.set_item("session", loads(py, &descendant.session.to_json())?)?;
        child.set_item("descendants", &children)?;
        open.truncate(usize::try_from(descendant.depth).unwrap_or(usize::MAX));
        if let Some(siblings) = open.last() {
            siblings.append(child)?;
        }
        open.push(children);
    }
    facts.set_item("descendants", descendants)?;
    facts.set_item("complete", matches!(lineage.end, LineageEnd::Root(_)))?;
    match &lineage.end {
        LineageEnd::Root(root) => facts.set_item("root", loads(py, &root.to_json())?)?,
        LineageEnd::Unresolved(id) => facts.set_item("unresolvedParentId", id)?,
    }
    Ok(facts)
}
