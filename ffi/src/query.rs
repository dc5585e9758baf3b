//! Asking a whole root: what is damaged, what can still be read, how much there is.

use crate::buffer::{buffer_out, dsh_buffer};
use crate::callback::dsh_destructor;
use crate::cancel::{self, dsh_cancel};
use crate::errors::dsh_error;
use crate::events::{EventsValue, dsh_events};
use crate::guard;
use crate::handle::give;
use crate::input::{self, invalid};
use crate::lines::{LinesValue, dsh_lines};
use crate::output::Out;
use crate::status::{DSH_OK, dsh_status};
use crate::store::dsh_store;
use dsh_session_core::{Code, Error, Result};
use std::ffi::{c_char, c_void};

/// How far long work has come; called on the thread that does it. A result other than 0 stops it with
/// `DSH_E_CANCELLED`.
pub type dsh_progress_callback = Option<
    unsafe extern "C" fn(
        sessions_done: u64,
        sessions: u64,
        bytes_done: u64,
        bytes: u64,
        user: *mut c_void,
    ) -> i32,
>;

/// A progress callback that an iterator keeps; the destructor runs with the iterator's end.
struct Progress {
    function: unsafe extern "C" fn(u64, u64, u64, u64, *mut c_void) -> i32,
    user: *mut c_void,
    destructor: dsh_destructor,
}

// SAFETY: C6: an iterator may be used by one thread at a time, any one, and its callback with it.
unsafe impl Send for Progress {}

impl Drop for Progress {
    fn drop(&mut self) {
        if let Some(destructor) = self.destructor {
            // SAFETY: C6: once, after the last call.
            unsafe { destructor(self.user) };
        }
    }
}

impl Progress {
    /// # Errors
    /// `CANCELLED` if the callback says so.
    fn tell(&self, progress: &dsh_session_core::query::Progress) -> Result<()> {
        let dsh_session_core::query::Progress { sessions_done, sessions, bytes_done, bytes, .. } = *progress;
        // SAFETY: C6.
        match unsafe { (self.function)(sessions_done, sessions, bytes_done, bytes, self.user) } {
            0 => Ok(()),
            _ => Err(Error::new(Code::Cancelled, "the progress callback stopped the work")),
        }
    }
}

/// Judges one session, or with `id` NULL every one, in the order of their paths: each step of the iterator
/// reads one log to its end and gives one line as `{"id"?,"path","outcome","events",...}`, whose `outcome` is
/// `ok`, `torn-tail`, `corrupt`, `unsupported`, `conflict`, `limit` or `unreadable`. Nothing is changed.
/// `progress` (or NULL) is called after each step, and `destructor` (or NULL) once when the iterator is
/// freed; not if this call fails. The iterator is freed with `dsh_lines_free`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dsh_query_verify(
    store: *const dsh_store,
    id: *const c_char,
    id_len: usize,
    progress: dsh_progress_callback,
    user: *mut c_void,
    destructor: dsh_destructor,
    cancel: *const dsh_cancel,
    lines: *mut *mut dsh_lines,
    err: *mut *mut dsh_error,
) -> dsh_status {
    // SAFETY: C1 (store, cancel), C2 (id), C6 (progress, destructor), C3 (lines, err).
    unsafe {
        guard::call(store, err, |value| {
            let out = Out::new(lines, "the iterator")?;
            if progress.is_none() && destructor.is_some() {
                return Err(invalid("a destructor was given without a callback"));
            }
            let id = input::optional_id(id, id_len)?;
            let mut judged = value.open()?.verify(id, &cancel::token(cancel)?)?;
            let progress = progress.map(|function| Progress { function, user, destructor });
            out.set(give(LinesValue::new(move || {
                let line = judged.next().transpose()?.map(|one| one.to_json());
                if let (Some(_), Some(progress)) = (&line, &progress) {
                    progress.tell(&judged.progress())?;
                }
                Ok(line)
            })));
            Ok(DSH_OK)
        })
    }
}

/// The events of a session up to its damage. At the end of the walk `dsh_events_damage` says what stopped it,
/// and `dsh_events_after_damage` gives what is readable after it. A failure of the walk itself is about
/// reading, not about the log. The iterator is freed with `dsh_events_free`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dsh_query_salvage(
    store: *const dsh_store,
    id: *const c_char,
    id_len: usize,
    cancel: *const dsh_cancel,
    events: *mut *mut dsh_events,
    err: *mut *mut dsh_error,
) -> dsh_status {
    // SAFETY: C1 (store, cancel), C2 (id), C3 (events, err).
    unsafe {
        guard::call(store, err, |value| {
            let out = Out::new(events, "the iterator")?;
            let id = input::id(id, id_len)?;
            let salvage = value.open()?.salvage_with(id, &cancel::token(cancel)?)?;
            out.set(give(EventsValue::salvage(salvage)));
            Ok(DSH_OK)
        })
    }
}

/// Every row of a log as it stands, of any version, damaged or not, header first: lines as
/// `{"line","text","seq"?,"type"?,"problem"?}`. For viewers and repair tools, never to resume from. The
/// iterator is freed with `dsh_lines_free`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dsh_query_rows(
    store: *const dsh_store,
    id: *const c_char,
    id_len: usize,
    cancel: *const dsh_cancel,
    lines: *mut *mut dsh_lines,
    err: *mut *mut dsh_error,
) -> dsh_status {
    // SAFETY: C1 (store, cancel), C2 (id), C3 (lines, err).
    unsafe {
        guard::call(store, err, |value| {
            let out = Out::new(lines, "the iterator")?;
            let id = input::id(id, id_len)?;
            let mut rows = value.open()?.rows(id, &cancel::token(cancel)?)?;
            out.set(give(LinesValue::new(move || Ok(rows.next().transpose()?.map(|row| row.to_json())))));
            Ok(DSH_OK)
        })
    }
}

/// Counts by type, bytes, frames, largest rows and tokens of one session, or with `id` NULL of all, as a JSON
/// object. Reads every log; of all, sessions that cannot be read are counted as such.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dsh_query_stats(
    store: *const dsh_store,
    id: *const c_char,
    id_len: usize,
    cancel: *const dsh_cancel,
    out: *mut dsh_buffer,
    err: *mut *mut dsh_error,
) -> dsh_status {
    // SAFETY: C1 (store, cancel), C2 (id), C3 (out, err).
    unsafe {
        guard::call(store, err, |value| {
            let out = buffer_out(out)?;
            let id = input::optional_id(id, id_len)?;
            out.give(value.open()?.stats(id, &cancel::token(cancel)?)?.to_json());
            Ok(DSH_OK)
        })
    }
}
