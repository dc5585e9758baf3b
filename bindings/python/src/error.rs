//! From the core's errors to exceptions.
//!
//! The classes are Python (`dsh_session._errors`, made by `generate_errors.py` from [`error_table`]); here the facts of an error become
//! their attributes.

use crate::callbacks::host_exception;
use dsh_session_core::error::Group;
use dsh_session_core::{Code, Error};
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::{PyDict, PyList};

/// The exception of an error.
pub(crate) fn raise(py: Python<'_>, error: &Error) -> PyErr {
    // What fails while an exception is made (memory, a broken package) is raised instead of it.
    exception(py, error).map_or_else(|failure| failure, PyErr::from_value)
}

/// The exception as a value, for records that carry one.
pub(crate) fn exception<'py>(py: Python<'py>, error: &Error) -> PyResult<Bound<'py, PyAny>> {
    static MAKE: PyOnceLock<Py<PyAny>> = PyOnceLock::new();
    let make = MAKE.get_or_try_init(py, || -> PyResult<_> {
        Ok(py.import("dsh_session._errors")?.getattr("from_native")?.unbind())
    })?;
    let causes = PyList::empty(py);
    for cause in error.causes() {
        causes.append(exception(py, cause)?)?;
    }
    let arguments = (error.code().name(), error.to_string(), error.message(), error.advice());
    let (code, text, message, advice) = arguments;
    let host = host_exception(py, error);
    make.bind(py).call1((code, text, message, advice, facts(py, error)?, causes, host))
}

/// The facts that are known, by the names of the attributes.
pub(crate) fn facts<'py>(py: Python<'py>, error: &Error) -> PyResult<Bound<'py, PyDict>> {
    let facts = PyDict::new(py);
    macro_rules! put {
        ($($name:literal = $value:expr),* $(,)?) => {
            $(if let Some(value) = $value { facts.set_item($name, value)?; })*
        };
    }
    put! {
        "path" = error.path(),
        "session_id" = error.session_id(),
        "event_type" = error.event_type(),
        "version" = error.version(),
        "owner" = error.owner(),
        "json_path" = error.json_path(),
        "at" = error.at().map(|at| at.as_str()),
        "line" = error.line(),
        "frame" = error.frame(),
        "offset" = error.offset(),
        "seq" = error.seq(),
        "expected" = error.expected(),
        "got" = error.got(),
        "rule" = error.rule(),
        "limit" = error.limit(),
        "index" = error.index(),
        "salvageable" = error.salvageable(),
        "os" = error.os(),
    }
    facts.set_item("_json", error.to_json())?;
    if !error.paths().is_empty() {
        facts.set_item("paths", error.paths().to_vec())?;
    }
    Ok(facts)
}

/// Every code: name, number, group, meaning, advice. The source of the package's exception classes.
#[pyfunction]
pub(crate) fn error_table() -> Vec<(&'static str, i32, &'static str, &'static str, &'static str)> {
    let row =
        |code: &Code| (code.name(), code.number(), group_name(code.group()), code.meaning(), code.advice());
    Code::ALL.iter().map(row).collect()
}

fn group_name(group: Group) -> &'static str {
    match group {
        Group::Argument => "argument",
        Group::General => "general",
        Group::Storage => "storage",
        Group::Session => "session",
        Group::Query => "query",
        Group::Controller => "controller",
    }
}
