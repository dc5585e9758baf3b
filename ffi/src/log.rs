//! A log handle: one open channel onto a stored log, one floor below the session.

use crate::buffer::{buffer_out, dsh_buffer, dsh_str};
use crate::callback::LogSink;
use crate::cancel::{self, dsh_cancel};
use crate::errors::dsh_error;
use crate::events::{EventsValue, dsh_events};
use crate::guard::{self, look};
use crate::handle::{Kind, give};
use crate::input::{self, invalid};
use crate::output::Out;
use crate::session::{convert_lines, new_session, notices_json};
use crate::status::{DSH_OK, dsh_status};
use crate::store::{StoreValue, dsh_store};
use dsh_session_core::json::ObjectText;
use dsh_session_core::{Access, CancelToken, Event, EventRange, Result, SessionLog, Store};
use std::ffi::c_char;
use std::sync::Arc;

/// An open channel onto a stored log. Used by many threads at once. Free it with `dsh_log_free`.
pub struct dsh_log {
    _opaque: [u8; 0],
}

/// The log, and the store that it keeps alive.
#[derive(Debug)]
pub(crate) struct LogValue {
    log: Arc<dyn SessionLog>,
    _store: Store,
    sink: Arc<LogSink>,
}

impl Kind for dsh_log {
    type Value = LogValue;
    const MAGIC: u64 = 0x6473_685f_6c6f_6720;
    const WORD: &'static str = "log";
}

impl LogValue {
    fn new(store: &StoreValue, log: Arc<dyn SessionLog>) -> LogValue {
        store.log.notices(log.id(), &log.notices());
        LogValue { log, _store: store.share(), sink: Arc::clone(&store.log) }
    }
}

/// What a log handle may do.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum dsh_access {
    /// Reads; never takes ownership, works beside a writer.
    DSH_READ = 0,
    /// Reads and appends; at most one such handle exists for a session, in all processes.
    DSH_WRITE = 1,
}

/// Opens a stored log. `access` is a `dsh_access`: to write, the whole log is read and checked; to read, its
/// header. Fails with `DSH_E_SESSION_NOT_FOUND`, `DSH_E_SESSION_ALREADY_OWNED`, `DSH_E_SESSION_CORRUPT`,
/// `DSH_E_FORMAT_UNSUPPORTED`, `DSH_E_SESSION_CONFLICT`, `DSH_E_LIMIT_EXCEEDED`, `DSH_E_CANCELLED`,
/// `DSH_E_IO`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dsh_log_open(
    store: *mut dsh_store,
    id: *const c_char,
    id_len: usize,
    access: i32,
    cancel: *const dsh_cancel,
    log: *mut *mut dsh_log,
    err: *mut *mut dsh_error,
) -> dsh_status {
    // SAFETY: C1 (store, cancel), C2 (id), C3 (log, err).
    unsafe {
        guard::call(store, err, |value| {
            let out = Out::new(log, "the log")?;
            let id = input::id(id, id_len)?;
            let access = match access {
                0 => Access::Read,
                1 => Access::Write,
                other => return Err(invalid(format!("{other} is no dsh_access"))),
            };
            let log = value.open()?.persistence().open(id, access, &cancel::token(cancel)?)?;
            out.set(give(LogValue::new(value, log)));
            Ok(DSH_OK)
        })
    }
}

/// A new log, open for whole rows (importers). `header` is as in `dsh_session_create`, but `id` and
/// `createdAt` must be given. With `inherited_event_count` >= 0 the log begins with that many events of
/// another session, and the header says `"isSeeded":true`; -1 otherwise. Fails as `dsh_session_create`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dsh_log_create(
    store: *mut dsh_store,
    header: *const c_char,
    header_len: usize,
    inherited_event_count: i64,
    cancel: *const dsh_cancel,
    log: *mut *mut dsh_log,
    err: *mut *mut dsh_error,
) -> dsh_status {
    // SAFETY: C1 (store, cancel), C2 (header), C3 (log, err).
    unsafe {
        guard::call(store, err, |value| {
            let out = Out::new(log, "the log")?;
            let header = new_session(header, header_len)?.header;
            let inherited = match inherited_event_count {
                -1 => None,
                count => Some(u64::try_from(count).map_err(|_| {
                    invalid(format!("inherited_event_count is {count}; it is a count, or -1 for none"))
                })?),
            };
            let cancel = cancel::token(cancel)?;
            let log = value.open()?.persistence().create(&header, inherited, &cancel)?;
            out.set(give(LogValue::new(value, log)));
            Ok(DSH_OK)
        })
    }
}

/// The session's id. Lives as long as the handle.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dsh_log_id(log: *const dsh_log) -> dsh_str {
    // SAFETY: C1.
    unsafe { look(log, dsh_str::ABSENT, |value| dsh_str::of(value.log.id())) }
}

/// The header, as the JSON object that stands in the log's first line.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dsh_log_header(
    log: *const dsh_log,
    out: *mut dsh_buffer,
    err: *mut *mut dsh_error,
) -> dsh_status {
    // SAFETY: C1 (log), C3 (out, err).
    unsafe {
        guard::call(log, err, |value| {
            buffer_out(out)?.give(value.log.header().to_json());
            Ok(DSH_OK)
        })
    }
}

/// Adds whole rows, one JSON object a line with `seq` and `time`, as one batch: all of them or none, one
/// frame, on the disk on return. The first row's seq must be the next one. `*count` (`count` may be NULL)
/// tells how many rows there were. Fails with `DSH_E_INVALID_ARGUMENT` (`dsh_error_index` is the line, from
/// 0, empty ones not counted), `DSH_E_SESSION_READ_ONLY`, `DSH_E_EVENT_REFUSED` (an unknown required type),
/// and as `dsh_session_flush`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dsh_log_append_rows(
    log: *mut dsh_log,
    rows: *const c_char,
    rows_len: usize,
    cancel: *const dsh_cancel,
    count: *mut u64,
    err: *mut *mut dsh_error,
) -> dsh_status {
    // SAFETY: C1 (log, cancel), C2 (rows), C3 (count, err).
    unsafe {
        guard::call(log, err, |value| {
            let out = Out::optional(count, "the count")?;
            let rows = input::bytes(rows, rows_len, "the rows")?;
            let batch = convert_lines(rows, |line| Event::from_row(line))?;
            value.log.append(&batch, &cancel::token(cancel)?)?;
            out.set(batch.len() as u64);
            Ok(DSH_OK)
        })
    }
}

/// The events of a range: `count` of them (`DSH_ALL`: all) from position `from` on, read while walking, in
/// bounded memory. The token also stops the walk. The iterator is freed with `dsh_events_free`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dsh_log_events(
    log: *const dsh_log,
    from: u64,
    count: u64,
    cancel: *const dsh_cancel,
    events: *mut *mut dsh_events,
    err: *mut *mut dsh_error,
) -> dsh_status {
    // SAFETY: C1 (log, cancel), C3 (events, err).
    unsafe { log_events(log, EventRange::window(from, count), cancel, events, err) }
}

/// The last `count` events; only the end of the log is read. Otherwise as `dsh_log_events`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dsh_log_events_newest(
    log: *const dsh_log,
    count: u64,
    cancel: *const dsh_cancel,
    events: *mut *mut dsh_events,
    err: *mut *mut dsh_error,
) -> dsh_status {
    // SAFETY: C1 (log, cancel), C3 (events, err).
    unsafe { log_events(log, EventRange::newest(count), cancel, events, err) }
}

/// # Safety
/// C1 (log, cancel), C3 (events, err).
unsafe fn log_events(
    log: *const dsh_log,
    range: EventRange,
    cancel: *const dsh_cancel,
    events: *mut *mut dsh_events,
    err: *mut *mut dsh_error,
) -> dsh_status {
    // SAFETY: C1 (log, cancel), C3 (events, err).
    unsafe {
        guard::call(log, err, |value| {
            let out = Out::new(events, "the iterator")?;
            let events = value.log.events(range, &cancel::token(cancel)?)?;
            out.set(give(EventsValue::new(events)));
            Ok(DSH_OK)
        })
    }
}

/// How many events the log has. To read that, a read handle looks at the end of the log.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dsh_log_event_count(
    log: *const dsh_log,
    cancel: *const dsh_cancel,
    count: *mut u64,
    err: *mut *mut dsh_error,
) -> dsh_status {
    // SAFETY: C1 (log, cancel), C3 (count, err).
    unsafe { count_of(log, cancel, count, err, |log, cancel| log.event_count(cancel)) }
}

/// How many events at the beginning were inherited by a fork; 0 in a session that is not seeded.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dsh_log_inherited_event_count(
    log: *const dsh_log,
    cancel: *const dsh_cancel,
    count: *mut u64,
    err: *mut *mut dsh_error,
) -> dsh_status {
    // SAFETY: C1 (log, cancel), C3 (count, err).
    unsafe { count_of(log, cancel, count, err, |log, cancel| log.inherited_event_count(cancel)) }
}

/// # Safety
/// C1 (log, cancel), C3 (count, err).
unsafe fn count_of(
    log: *const dsh_log,
    cancel: *const dsh_cancel,
    count: *mut u64,
    err: *mut *mut dsh_error,
    body: impl FnOnce(&dyn SessionLog, &CancelToken) -> Result<u64>,
) -> dsh_status {
    // SAFETY: C1 (log, cancel), C3 (count, err).
    unsafe {
        guard::call(log, err, |value| {
            let out = Out::new(count, "the count")?;
            out.set(body(&*value.log, &cancel::token(cancel)?)?);
            Ok(DSH_OK)
        })
    }
}

/// Reads and checks everything, keeps nothing, and tells what the log is like, as a JSON object: `events`,
/// `inheritedEventCount`, `fileBytes`, `frames` (0 for a log of plain lines), and for a torn tail `keepBytes`
/// and `cutBytes`. Fails at the first damage.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dsh_log_check(
    log: *const dsh_log,
    cancel: *const dsh_cancel,
    out: *mut dsh_buffer,
    err: *mut *mut dsh_error,
) -> dsh_status {
    // SAFETY: C1 (log, cancel), C3 (out, err).
    unsafe {
        guard::call(log, err, |value| {
            let out = buffer_out(out)?;
            let cancel = cancel::token(cancel)?;
            let end = value.log.check(&cancel)?;
            let mut object = ObjectText::new();
            object.number("events", end.event_count);
            object.number("inheritedEventCount", value.log.inherited_event_count(&cancel)?);
            object.number("fileBytes", end.file_bytes);
            object.number("frames", end.frames);
            if end.torn.is_some() {
                object.number("keepBytes", end.keep_bytes());
                object.number("cutBytes", end.file_bytes.saturating_sub(end.keep_bytes()));
            }
            out.give(object.finish());
            Ok(DSH_OK)
        })
    }
}

/// The durability barrier: on return the session exists for other processes, with everything appended. Fails
/// as `dsh_session_flush`, and with `DSH_E_SESSION_READ_ONLY`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dsh_log_flush(
    log: *mut dsh_log,
    cancel: *const dsh_cancel,
    err: *mut *mut dsh_error,
) -> dsh_status {
    // SAFETY: C1 (log, cancel), C3 (err).
    unsafe {
        guard::call(log, err, |value| {
            value.log.flush(&cancel::token(cancel)?)?;
            Ok(DSH_OK)
        })
    }
}

/// What opening and writing have found so far: a JSON array of objects with a `kind`, such as `torn-tail`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dsh_log_notices(
    log: *const dsh_log,
    out: *mut dsh_buffer,
    err: *mut *mut dsh_error,
) -> dsh_status {
    // SAFETY: C1 (log), C3 (out, err).
    unsafe {
        guard::call(log, err, |value| {
            buffer_out(out)?.give(notices_json(&value.log.notices()));
            Ok(DSH_OK)
        })
    }
}

/// Ends the work and gives up ownership; may come from any thread, while others are inside. Later calls fail
/// with `DSH_E_HANDLE_CLOSED`; a second close does nothing.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dsh_log_close(log: *mut dsh_log, err: *mut *mut dsh_error) -> dsh_status {
    // SAFETY: C1 (log), C3 (err).
    unsafe {
        guard::call(log, err, |value| {
            value.log.close()?;
            Ok(DSH_OK)
        })
    }
}

/// Frees a log handle, closing it if need be; what that loses is only told to the log callback. NULL is fine.
/// Iterators opened from it work on.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dsh_log_free(log: *mut dsh_log) {
    // SAFETY: C1, last call.
    unsafe { guard::free(log, |value| value.sink.lost(value.log.close())) }
}
