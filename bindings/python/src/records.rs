//! From the core's records to the package's: frozen classes written in Python (`dsh_session._records`).

use crate::error::{exception, facts};
use crate::event::loads;
use crate::message::Message;
use dsh_session_core::Error;
use dsh_session_core::Pending;
use dsh_session_core::SessionHeader;
use dsh_session_core::format::raw_rows::RawRow;
use dsh_session_core::format::reader::LogEnd;
use dsh_session_core::persistence::{Listing, Notice, Snapshot};
use dsh_session_core::query::{Outcome, Progress, Stats, Verification};
use dsh_session_core::session::upload_exclusions::Upload;
use dsh_session_core::session::{DerivedMessage, FoldedSurface};
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::{PyDict, PyList, PyModule, PyTuple};
use std::time::Duration;

fn module(py: Python<'_>) -> PyResult<&Bound<'_, PyModule>> {
    static MODULE: PyOnceLock<Py<PyModule>> = PyOnceLock::new();
    let module = MODULE.get_or_try_init(py, || py.import("dsh_session._records").map(Bound::unbind))?;
    Ok(module.bind(py))
}

/// A record by keywords, so that its fields may come in any order.
macro_rules! record {
    ($py:expr, $class:literal, $($name:literal: $value:expr),* $(,)?) => {{
        let fields = PyDict::new($py);
        $(fields.set_item($name, $value)?;)*
        module($py)?.getattr($class)?.call((), Some(&fields))
    }};
}

pub(crate) fn replace(py: Python<'_>, start_seq: u64, end_seq: u64) -> PyResult<Bound<'_, PyAny>> {
    module(py)?.getattr("Replace")?.call1((start_seq, end_seq))
}

pub(crate) fn header<'py>(py: Python<'py>, header: &SessionHeader) -> PyResult<Bound<'py, PyAny>> {
    record!(py, "SessionHeader",
        "id": &header.id,
        "created_at": header.created_at,
        "cwd": header.cwd.as_deref(),
        "parent_session": header.parent_session.as_deref(),
        "is_seeded": header.is_seeded,
        "origin": header.origin.map(|origin| origin.as_str()),
        "delegation_depth": header.delegation_depth,
        "agent_preset": header.agent_preset.as_deref(),
    )
}

pub(crate) fn snapshot<'py>(py: Python<'py>, snapshot: &Snapshot) -> PyResult<Bound<'py, PyAny>> {
    record!(py, "SessionRecord",
        "header": header(py, &snapshot.header)?,
        "format_status": snapshot.format_status.map(|status| status.as_str()),
        "revision": snapshot.revision.as_str(),
        "event_count": snapshot.event_count,
        "size_bytes": snapshot.size_bytes,
        "path": snapshot.path.as_deref(),
    )
}

/// Records made before other threads get a turn. Making one runs Python code, and a waiting thread would otherwise wait for the whole list.
const RECORDS_PER_TURN: usize = 32;

/// How long a turn is. Giving the interpreter up and taking it back at once gives nobody a turn: a thread that waits for it must first be
/// woken. This is about what that takes, and some microseconds a record.
const TURN: Duration = Duration::from_micros(100);

pub(crate) fn listing<'py>(py: Python<'py>, listing: &Listing) -> PyResult<Bound<'py, PyAny>> {
    let sessions = PyList::empty(py);
    for turn in listing.sessions.chunks(RECORDS_PER_TURN) {
        for session in turn {
            sessions.append(snapshot(py, session)?)?;
        }
        py.detach(|| std::thread::sleep(TURN));
    }
    let problems = PyList::empty(py);
    for problem in &listing.problems {
        problems.append(record!(py, "Problem",
            "path": &problem.path,
            "id": problem.id.as_deref(),
            "code": problem.error.code().name(),
            "message": problem.error.message(),
            "error": exception(py, &problem.error)?,
        )?)?;
    }
    record!(py, "Listing", "sessions": sessions.to_tuple(), "problems": problems.to_tuple())
}

pub(crate) fn folded_surface<'py>(py: Python<'py>, folded: &FoldedSurface) -> PyResult<Bound<'py, PyAny>> {
    let messages = |list: &[DerivedMessage]| -> PyResult<_> {
        let made: PyResult<Vec<_>> =
            list.iter().map(|message| Bound::new(py, Message::new(message.clone()))).collect();
        PyTuple::new(py, made?)
    };
    let replacements = PyList::empty(py);
    for replacement in &folded.replacements {
        replacements.append(record!(py, "Replacement",
            "seq": replacement.seq,
            "start_seq": replacement.start,
            "end_seq": replacement.end,
            "shadowed_seqs": PyTuple::new(py, &replacement.shadowed_seqs)?,
        )?)?;
    }
    record!(py, "FoldedSurface",
        "nodes": PyTuple::new(py, &folded.nodes)?,
        "replacements": replacements.to_tuple(),
        "messages": messages(&folded.messages)?,
        "projected_messages": messages(&folded.projected_messages)?,
        "replace_generation": folded.replace_generation,
        "content_generation": folded.content_generation,
    )
}

pub(crate) fn upload<'py>(py: Python<'py>, upload: &Upload<'_>) -> PyResult<Bound<'py, PyAny>> {
    record!(py, "Upload", "session_id": upload.session_id, "purpose": upload.purpose)
}

pub(crate) fn upload_verdict<'py>(
    py: Python<'py>,
    verdict: &str,
    error: Option<&Error>,
) -> PyResult<Bound<'py, PyAny>> {
    let error = error.map(|error| exception(py, error)).transpose()?;
    record!(py, "UploadVerdict", "verdict": verdict, "error": error)
}

pub(crate) fn next_upload(
    py: Python<'_>,
    first_seq: u64,
    last_seq: u64,
    bytes: u64,
) -> PyResult<Bound<'_, PyAny>> {
    record!(py, "NextUpload", "first_seq": first_seq, "last_seq": last_seq, "bytes": bytes)
}

pub(crate) fn upload_too_large(py: Python<'_>, seq: u64, bytes: u64) -> PyResult<Bound<'_, PyAny>> {
    record!(py, "UploadTooLarge", "seq": seq, "bytes": bytes)
}

/// The folds of a list of events, parsed.
pub(crate) fn folds<'py>(
    py: Python<'py>,
    request_header: Option<Bound<'py, PyAny>>,
    request_context: Option<Bound<'py, PyAny>>,
    tool_history: Option<Bound<'py, PyAny>>,
    title: Option<Bound<'py, PyAny>>,
) -> PyResult<Bound<'py, PyAny>> {
    record!(py, "Folds",
        "request_header": request_header,
        "request_context": request_context,
        "tool_history": tool_history,
        "title": title,
    )
}

pub(crate) fn pending<'py>(py: Python<'py>, pending: &Pending) -> PyResult<Bound<'py, PyAny>> {
    let error = pending.error.as_ref().map(|error| exception(py, error)).transpose()?;
    record!(py, "Pending", "events": pending.events, "bytes": pending.bytes, "error": error)
}

pub(crate) fn log_end<'py>(py: Python<'py>, end: &LogEnd) -> PyResult<Bound<'py, PyAny>> {
    let torn = end.torn.as_ref().map(|torn| {
        record!(py, "TornTail",
            "keep_bytes": torn.keep_bytes,
            "cut_bytes": torn.cut_bytes,
            "cut_rows": torn.cut_rows,
            "recovered": torn.recovered.len(),
            "reason": &torn.reason,
        )
    });
    record!(py, "LogEnd",
        "event_count": end.event_count,
        "file_bytes": end.file_bytes,
        "frames": end.frames,
        "torn": torn.transpose()?,
    )
}

/// Notices are JSON objects with a `kind` (`design.md` 5), here dicts.
pub(crate) fn notices<'py>(py: Python<'py>, notices: &[Notice]) -> PyResult<Bound<'py, PyList>> {
    let list = PyList::empty(py);
    for notice in notices {
        list.append(loads(py, &notice.to_json())?)?;
    }
    Ok(list)
}

pub(crate) fn raw_row<'py>(py: Python<'py>, row: &RawRow) -> PyResult<Bound<'py, PyAny>> {
    record!(py, "RawRow",
        "line": row.line,
        "text": &row.text,
        "seq": row.seq,
        "type": row.kind.as_deref(),
        "problem": row.problem.as_deref(),
        "frame": row.frame,
        "offset": row.offset,
        "is_event": row.is_event,
    )
}

/// The facts of an error that a judgement repeats, as `verify` does (`cli.md`).
const JUDGEMENT_FACTS: [&str; 14] = [
    "at",
    "line",
    "frame",
    "offset",
    "seq",
    "expected",
    "got",
    "salvageable",
    "version",
    "event_type",
    "rule",
    "limit",
    "paths",
    "os",
];

pub(crate) fn verification<'py>(py: Python<'py>, judged: &Verification) -> PyResult<Bound<'py, PyAny>> {
    let members = PyDict::new(py);
    members.set_item("id", judged.id.as_deref())?;
    members.set_item("path", judged.path.as_deref())?;
    members.set_item("generation", judged.generation)?;
    members.set_item("events", judged.events)?;
    members.set_item("outcome", judged.outcome.as_str())?;
    members.set_item("_json", judged.to_json())?;
    match &judged.outcome {
        Outcome::Ok { inherited_event_count } => {
            members.set_item("inherited_event_count", *inherited_event_count)?;
        }
        Outcome::TornTail { inherited_event_count, keep_bytes, cut_bytes, recovered, cut_rows, reason } => {
            members.set_item("inherited_event_count", *inherited_event_count)?;
            members.set_item("keep_bytes", *keep_bytes)?;
            members.set_item("cut_bytes", *cut_bytes)?;
            members.set_item("recovered", *recovered)?;
            members.set_item("cut_rows", *cut_rows)?;
            members.set_item("message", reason)?;
        }
        outcome => {
            if let Some(error) = outcome.error() {
                let known = facts(py, error)?;
                for name in JUDGEMENT_FACTS {
                    if let Some(value) = known.get_item(name)? {
                        members.set_item(name, value)?;
                    }
                }
                members.set_item("message", error.message())?;
                members.set_item("error", exception(py, error)?)?;
            }
        }
    }
    module(py)?.getattr("Verification")?.call((), Some(&members))
}

pub(crate) fn progress(py: Python<'_>, progress: Progress) -> PyResult<Bound<'_, PyAny>> {
    record!(py, "Progress",
        "sessions_done": progress.sessions_done,
        "sessions": progress.sessions,
        "bytes_done": progress.bytes_done,
        "bytes": progress.bytes,
    )
}

pub(crate) fn stats<'py>(py: Python<'py>, stats: &Stats) -> PyResult<Bound<'py, PyAny>> {
    let largest_rows = PyList::empty(py);
    for row in &stats.largest_rows {
        largest_rows.append(record!(py, "LargeRow",
            "id": &row.id,
            "seq": row.seq,
            "type": &row.kind,
            "bytes": row.bytes,
        )?)?;
    }
    let tokens = stats.tokens.map(|tokens| {
        record!(py, "TokenSums",
            "messages": tokens.messages,
            "input": tokens.input,
            "output": tokens.output,
            "cache_read": tokens.cache_read,
            "cache_write": tokens.cache_write,
            "reasoning": tokens.reasoning,
        )
    });
    record!(py, "Stats",
        "sessions": stats.sessions,
        "unreadable": stats.unreadable,
        "events": stats.events,
        "events_by_type": stats.events_by_type.clone(),
        "file_bytes": stats.file_bytes,
        "text_bytes": stats.text_bytes,
        "frames": stats.frames,
        "first_time": stats.first_time,
        "last_time": stats.last_time,
        "largest_rows": largest_rows.to_tuple(),
        "tokens": tokens.transpose()?,
        "_json": stats.to_json(),
    )
}
