//! What a failure of the storage means to a query (`query.md` 1.6, 6).

use crate::cancel::CancelToken;
use crate::error::{Code, Error, Result};

/// A failure of a storage call about one session, or about all.
pub(super) fn storage_error(id: Option<&str>, cause: Error) -> Error {
    let code = match cause.code() {
        Code::Cancelled => Code::QueryAborted,
        Code::SessionNotFound => Code::QuerySessionNotFound,
        Code::SessionCorrupt | Code::EventRefused | Code::SessionRefused => Code::QueryCorruptSession,
        // Of this process, not of the storage.
        Code::ForkedProcess | Code::OutOfMemory | Code::Internal | Code::Panic => return cause,
        code if code.number() >= Code::QueryAborted.number() => return cause,
        _ => Code::QueryPersistenceFailed,
    };
    wrap(code, id, cause)
}

/// A failure to list: of no session, so whatever it is, it is the storage's.
pub(super) fn listing_error(cause: Error) -> Error {
    match cause.code() {
        Code::Cancelled | Code::ForkedProcess | Code::OutOfMemory | Code::Internal => {
            storage_error(None, cause)
        }
        _ => wrap(Code::QueryPersistenceFailed, None, cause),
    }
}

/// The same facts under another code, the error itself as the cause.
fn wrap(code: Code, id: Option<&str>, cause: Error) -> Error {
    let mut error = Error::new(code, cause.message());
    if let Some(path) = cause.path() {
        error = error.with_path(path);
    }
    if let Some(id) = id.or(cause.session_id()) {
        error = error.with_session_id(id);
    }
    if let Some(version) = cause.version() {
        error = error.with_version(version);
    }
    if let Some(kind) = cause.event_type() {
        error = error.with_event_type(kind);
    }
    if let Some(line) = cause.line() {
        error = error.with_line(line);
    }
    if let Some(frame) = cause.frame() {
        error = error.with_frame(frame);
    }
    if let Some(offset) = cause.offset() {
        error = error.with_offset(offset);
    }
    if let Some(seq) = cause.seq() {
        error = error.with_seq(seq);
    }
    if let Some(rule) = cause.rule() {
        error = error.with_rule(rule);
    }
    if let Some(os) = cause.os() {
        error = error.with_os(os);
    }
    error.with_advice(cause.advice().to_owned()).with_cause(cause)
}

/// Fails with `SESSION_QUERY_ABORTED` once cancelled.
pub(super) fn check(cancel: &CancelToken) -> Result<()> {
    cancel.check().map_err(|cause| storage_error(None, cause))
}
