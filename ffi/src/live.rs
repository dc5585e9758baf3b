//! Live sessions of a store: taken up again, forked, begun from events, found.

use crate::buffer::{buffer_out, dsh_buffer};
use crate::cancel::{self, dsh_cancel};
use crate::errors::dsh_error;
use crate::guard;
use crate::handle::give;
use crate::input::{self, invalid};
use crate::output::Out;
use crate::session::{SessionValue, dsh_session, lines_of, new_session};
use crate::status::{DSH_OK, dsh_status};
use crate::store::{StoreValue, dsh_store};
use dsh_session_core::json::print_string;
use dsh_session_core::session::Seed;
use dsh_session_core::{Code, Error, Result, Session};
use std::ffi::c_char;

/// `at` of a fork at the end of the last finished turn: `DSH_COMPLETED_PREFIX` in the header.
const COMPLETED_PREFIX: u64 = u64::MAX;

/// Gives a session of the store to C.
fn give_session(value: &StoreValue, out: Out<*mut dsh_session>, session: Session) -> Result<dsh_status> {
    out.set(give(SessionValue::of(value, session)));
    Ok(DSH_OK)
}

/// Takes up a stored session again: its log is read and checked, a turn that was interrupted is closed with the
/// results that are missing, the marker of a new life is added, and all of that is on the disk before the
/// creation listeners hear of the session. What was found wrong and dealt with is told by
/// `dsh_session_notices`; what was added, by the events from `dsh_session_first_live_seq` on and the ones
/// before it that closed the turn. The session is freed with `dsh_session_free`. To go on in the middle of an
/// open turn instead, as an importer does, call `dsh_session_open`. Fails with `DSH_E_SESSION_NOT_FOUND`,
/// `DSH_E_SESSION_ALREADY_OWNED` (see `dsh_error_owner`; also by this process), `DSH_E_SESSION_CORRUPT`,
/// `DSH_E_FORMAT_UNSUPPORTED`, `DSH_E_SESSION_CONFLICT`, `DSH_E_LIMIT_EXCEEDED`, `DSH_E_CANCELLED`,
/// `DSH_E_IO`, and with the error of a creation listener.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dsh_store_resume(
    store: *mut dsh_store,
    id: *const c_char,
    id_len: usize,
    cancel: *const dsh_cancel,
    session: *mut *mut dsh_session,
    err: *mut *mut dsh_error,
) -> dsh_status {
    // SAFETY: C1 (store, cancel), C2 (id), C3 (session, err).
    unsafe {
        guard::call(store, err, |value| {
            let out = Out::new(session, "the session")?;
            let id = input::id(id, id_len)?;
            let session = value.open()?.resume_with(id, &cancel::token(cancel)?)?;
            give_session(value, out, session)
        })
    }
}

/// A new session that begins with the events of another, live or stored, up to the event `at`, or with
/// `DSH_COMPLETED_PREFIX` up to the end of its last finished turn and what belongs to it. A turn that is open
/// there is closed in the child. The source is only read. `header` is that of `dsh_session_create`; without
/// `cwd` and `agentPreset` the child has the source's, and it is seeded whatever the header says. The child is
/// on the disk before the creation listeners hear of it, and is freed with `dsh_session_free`. Fails with
/// `DSH_E_SESSION_NOT_FOUND`, `DSH_E_FORK_UNAVAILABLE` (the source has no such event, or no finished turn),
/// what reading the source finds, what `dsh_session_create` fails with, `DSH_E_CANCELLED`, and with the error
/// of a creation listener.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dsh_store_fork(
    store: *mut dsh_store,
    source_id: *const c_char,
    source_id_len: usize,
    at: u64,
    header: *const c_char,
    header_len: usize,
    cancel: *const dsh_cancel,
    session: *mut *mut dsh_session,
    err: *mut *mut dsh_error,
) -> dsh_status {
    // SAFETY: C1 (store, cancel), C2 (source_id, header), C3 (session, err).
    unsafe {
        guard::call(store, err, |value| {
            let out = Out::new(session, "the session")?;
            let source = input::some_text(source_id, source_id_len, "the source's id")?;
            let at = (at != COMPLETED_PREFIX).then_some(at);
            let new = new_session(header, header_len)?;
            let child = value.open()?.fork_with(source, at, new, &cancel::token(cancel)?)?;
            give_session(value, out, child)
        })
    }
}

/// A new session that begins with events of the caller's: a replay, an import, a fork made by hand. `rows` holds whole rows, one JSON
/// object a line, with seqs from 0 on. With `"isSeeded":true` in the header they are a fork's seed, such as `dsh_fork_seed` makes,
/// and the first `inherited_event_count` of them are the parent's; otherwise that is -1 or 0. What the session adds of its own is a
/// marker that ends the seed. All of it is on the disk before the creation listeners hear of the session. No rows (length 0) are an
/// empty seed, which is another thing than none. The session is freed with `dsh_session_free`. Fails as `dsh_session_create`, and
/// with `DSH_E_SESSION_REFUSED` for a seed that breaks a rule: `dsh_error_rule` names it, `dsh_error_index` the row, from 0.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dsh_store_create_seeded(
    store: *mut dsh_store,
    header: *const c_char,
    header_len: usize,
    rows: *const c_char,
    rows_len: usize,
    inherited_event_count: i64,
    session: *mut *mut dsh_session,
    err: *mut *mut dsh_error,
) -> dsh_status {
    // SAFETY: C1 (store), C2 (header, rows), C3 (session, err).
    unsafe {
        guard::call(store, err, |value| {
            let out = Out::new(session, "the session")?;
            let mut new = new_session(header, header_len)?;
            new.inherited_event_count = inherited_count(inherited_event_count)?;
            new.seed = Some(Seed::from_rows(lines_of(input::bytes(rows, rows_len, "the rows")?))?);
            let session = value.open()?.create(new)?;
            give_session(value, out, session)
        })
    }
}

fn inherited_count(given: i64) -> Result<Option<u64>> {
    match given {
        -1 => Ok(None),
        _ => u64::try_from(given).map(Some).map_err(|_| invalid(format!("{given} is no count of events"))),
    }
}

/// Another handle of the live session of an id, which this store has open. It counts as much as the first one: the
/// session stays open until the last handle of it is freed, and `dsh_session_close` on any of them closes it.
/// Freed with `dsh_session_free`. Fails with `DSH_E_SESSION_NOT_FOUND` when no session of that id is live
/// here, stored or not.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dsh_store_get(
    store: *mut dsh_store,
    id: *const c_char,
    id_len: usize,
    session: *mut *mut dsh_session,
    err: *mut *mut dsh_error,
) -> dsh_status {
    // SAFETY: C1 (store), C2 (id), C3 (session, err).
    unsafe {
        guard::call(store, err, |value| {
            let out = Out::new(session, "the session")?;
            let id = input::id(id, id_len)?;
            let session = value.open()?.get(id).ok_or_else(|| {
                let message = format!("no session `{id}` is live in this store");
                let error = Error::new(Code::SessionNotFound, message).with_session_id(id);
                error.with_advice("open or resume the session")
            })?;
            give_session(value, out, session)
        })
    }
}

/// The ids of the live sessions, in the order in which they were opened: a JSON array of strings.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dsh_store_live_ids(
    store: *const dsh_store,
    out: *mut dsh_buffer,
    err: *mut *mut dsh_error,
) -> dsh_status {
    // SAFETY: C1 (store), C3 (out, err).
    unsafe {
        guard::call(store, err, |value| {
            let out = buffer_out(out)?;
            let mut text = String::from("[");
            for id in value.open()?.live_ids() {
                if text.len() > 1 {
                    text.push(',');
                }
                print_string(&mut text, &id);
            }
            text.push(']');
            out.give(text);
            Ok(DSH_OK)
        })
    }
}
