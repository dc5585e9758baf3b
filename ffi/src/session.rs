//! A session that is being recorded.

use crate::buffer::{buffer_out, dsh_buffer, dsh_str};
use crate::cancel::{self, dsh_cancel};
use crate::errors::{dsh_error, give_error};
use crate::events::{EventsValue, dsh_events};
use crate::guard::{self, look};
use crate::handle::{Kind, give};
use crate::input::{self, Sized1, invalid};
use crate::output::{Out, OutStruct};
use crate::status::{DSH_OK, dsh_status};
use crate::store::{StoreValue, dsh_store};
use dsh_session_core::persistence::Notice;
use dsh_session_core::{Error, EventDraft, EventRange, NewSession, Result, Session, Store, SurfaceOp};
use std::ffi::c_char;

/// A session open for appending: one process at a time has it open. Used by many threads at once. Close it
/// with `dsh_session_close` to learn whether everything became durable, then free it with
/// `dsh_session_free`. A session handed to a callback is lent: it is used until the callback returns, and is
/// not to be freed.
pub struct dsh_session {
    _opaque: [u8; 0],
}

/// The session, and the store that it keeps alive.
#[derive(Debug)]
pub(crate) struct SessionValue {
    pub(crate) session: Session,
    /// Absent in a session that is lent to a callback.
    _store: Option<Store>,
}

impl SessionValue {
    pub(crate) fn new(session: Session, store: Option<Store>) -> SessionValue {
        SessionValue { session, _store: store }
    }

    /// A session opened from a store; what opening it found goes to the store's log.
    pub(crate) fn of(store: &StoreValue, session: Session) -> SessionValue {
        store.log.notices(session.id(), &session.notices());
        SessionValue::new(session, Some(store.share()))
    }
}

impl Kind for dsh_session {
    type Value = SessionValue;
    const MAGIC: u64 = 0x6473_685f_7365_7373;
    const WORD: &'static str = "session";
}

/// A bit of `dsh_append_options.flags`: `time` counts.
pub const DSH_APPEND_TIME: u32 = 1;

/// A bit of `dsh_append_options.flags`: `seq` counts.
pub const DSH_APPEND_SEQ: u32 = 2;

/// What an event does to the list of messages that a model sees.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum dsh_surface {
    /// Nothing.
    DSH_SURFACE_NONE = 0,
    /// It is added at the end.
    DSH_SURFACE_APPEND = 1,
    /// It takes the place of a range.
    DSH_SURFACE_REPLACE = 2,
}

/// What an event carries beyond its type and payload. Begin with `DSH_APPEND_OPTIONS_INIT`.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct dsh_append_options {
    /// `sizeof(dsh_append_options)`.
    pub struct_size: usize,
    /// A `dsh_surface`.
    pub surface: i32,
    /// `DSH_APPEND_TIME`, `DSH_APPEND_SEQ`, both or 0.
    pub flags: u32,
    /// The first seq of the range that `DSH_SURFACE_REPLACE` replaces.
    pub surface_start_seq: u64,
    /// The last seq of that range.
    pub surface_end_seq: u64,
    /// The events this one was made from, each earlier than itself; NULL where none are named.
    pub source_event_seqs: *const u64,
    /// How many.
    pub source_event_seqs_len: usize,
    /// With `DSH_APPEND_TIME`: milliseconds since 1970, instead of the clock's.
    pub time: i64,
    /// With `DSH_APPEND_SEQ`: the seq that the event must get; any other is refused (`SEQ_NOT_CONTIGUOUS`).
    pub seq: u64,
}

impl Sized1 for dsh_append_options {
    const SIZE_MIN: usize = size_of::<dsh_append_options>();
}

impl dsh_append_options {
    /// # Errors
    /// `INVALID_ARGUMENT`.
    ///
    /// # Safety
    /// C2 (the source seqs).
    unsafe fn apply(&self, mut draft: EventDraft) -> Result<EventDraft> {
        if self.flags & !(DSH_APPEND_TIME | DSH_APPEND_SEQ) != 0 {
            return Err(invalid(format!("{:#x} are no flags of an append", self.flags)));
        }
        match self.surface {
            0 => {}
            1 => draft = draft.surface(SurfaceOp::Append),
            2 => {
                let (start_seq, end_seq) = (self.surface_start_seq, self.surface_end_seq);
                draft = draft.surface(SurfaceOp::Replace { start_seq, end_seq });
            }
            other => return Err(invalid(format!("{other} is no dsh_surface"))),
        }
        if !self.source_event_seqs.is_null() {
            // SAFETY: C2.
            let seqs = unsafe {
                input::numbers(self.source_event_seqs, self.source_event_seqs_len, "source_event_seqs")
            }?;
            draft = draft.source_event_seqs(seqs);
        } else if self.source_event_seqs_len != 0 {
            return Err(invalid("source_event_seqs is NULL, but its length is not 0"));
        }
        if self.flags & DSH_APPEND_TIME != 0 {
            draft = draft.at_time(self.time);
        }
        if self.flags & DSH_APPEND_SEQ != 0 {
            draft = draft.at_seq(self.seq);
        }
        Ok(draft)
    }
}

/// Events that were accepted and are not on the disk yet. Begin with `DSH_PENDING_INIT`.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct dsh_pending {
    /// `sizeof(dsh_pending)`, set by the caller.
    pub struct_size: usize,
    /// How many.
    pub events: u64,
    /// Their text, in bytes.
    pub bytes: u64,
    /// Why the last attempt to write them failed, the caller's to free; NULL if it did not.
    pub error: *mut dsh_error,
}

impl Sized1 for dsh_pending {
    const SIZE_MIN: usize = size_of::<dsh_pending>();
}

/// The JSON array of what opening and writing have found.
pub(crate) fn notices_json(notices: &[Notice]) -> String {
    let texts: Vec<_> = notices.iter().map(Notice::to_json).collect();
    format!("[{}]", texts.join(","))
}

/// The lines of a text of many; a last one without its newline counts, empty ones do not.
pub(crate) fn lines_of(text: &[u8]) -> impl Iterator<Item = &[u8]> {
    text.split(|&byte| byte == b'\n').filter(|line| !line.trim_ascii().is_empty())
}

/// Converts each line; the error of a bad one says which it was.
pub(crate) fn convert_lines<T>(text: &[u8], convert: impl Fn(&[u8]) -> Result<T>) -> Result<Vec<T>> {
    lines_of(text)
        .zip(0..)
        .map(|(line, index)| convert(line).map_err(|error: Error| error.with_index(index)))
        .collect()
}

/// A new session. `header` is a JSON object with any of `id`, `createdAt`, `cwd`, `parentSession`, `origin`,
/// `delegationDepth`, `agentPreset`; no text (length 0) means `{}`. Without `id` one is minted: see
/// `dsh_session_id`. The session is on the disk with its first written batch, or with `dsh_session_flush`.
/// Fails with `DSH_E_INVALID_ARGUMENT`, `DSH_E_SESSION_ALREADY_EXISTS`, `DSH_E_SESSION_CONFLICT` (the root
/// uses the other encoding), `DSH_E_IO`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dsh_session_create(
    store: *mut dsh_store,
    header: *const c_char,
    header_len: usize,
    session: *mut *mut dsh_session,
    err: *mut *mut dsh_error,
) -> dsh_status {
    // SAFETY: C1 (store), C2 (header), C3 (session, err).
    unsafe {
        guard::call(store, err, |value| {
            let out = Out::new(session, "the session")?;
            let session = value.open()?.create(new_session(header, header_len)?)?;
            out.set(give(SessionValue::of(value, session)));
            Ok(DSH_OK)
        })
    }
}

/// What a header text asks for.
///
/// # Errors
/// `INVALID_ARGUMENT`.
///
/// # Safety
/// C2.
pub(crate) unsafe fn new_session(header: *const c_char, header_len: usize) -> Result<NewSession> {
    // SAFETY: C2.
    let header = unsafe { input::text(header, header_len, "the header") }?;
    if header.is_empty() { Ok(NewSession::new()) } else { NewSession::from_json(header) }
}

/// Opens a stored session for appending where its log ends; the whole log is read and checked. What was found
/// wrong and dealt with is told by `dsh_session_notices`. Fails with `DSH_E_SESSION_NOT_FOUND`,
/// `DSH_E_SESSION_ALREADY_OWNED` (see `dsh_error_owner`), `DSH_E_SESSION_CORRUPT`,
/// `DSH_E_FORMAT_UNSUPPORTED`, `DSH_E_SESSION_CONFLICT`, `DSH_E_LIMIT_EXCEEDED`, `DSH_E_CANCELLED`,
/// `DSH_E_IO`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dsh_session_open(
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
            let session = value.open()?.open_session_with(id, &cancel::token(cancel)?)?;
            out.set(give(SessionValue::of(value, session)));
            Ok(DSH_OK)
        })
    }
}

/// The session's id. Lives as long as the handle.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dsh_session_id(session: *const dsh_session) -> dsh_str {
    // SAFETY: C1.
    unsafe { look(session, dsh_str::ABSENT, |value| dsh_str::of(value.session.id())) }
}

/// The header, as the JSON object that stands in the log's first line.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dsh_session_header(
    session: *const dsh_session,
    out: *mut dsh_buffer,
    err: *mut *mut dsh_error,
) -> dsh_status {
    // SAFETY: C1 (session), C3 (out, err).
    unsafe {
        guard::call(session, err, |value| {
            buffer_out(out)?.give(value.session.header().to_json());
            Ok(DSH_OK)
        })
    }
}

/// Accepts one event; it is durable when `dsh_session_flush` or `dsh_session_close` has returned. `data` is
/// JSON text, the payload. `options` may be NULL. `*seq` (`seq` may be NULL) gets the event's position. Fails
/// with `DSH_E_EVENT_REFUSED` (`dsh_error_rule` tells why), `DSH_E_INVALID_ARGUMENT`,
/// `DSH_E_NOT_LOSSLESS_JSON` (`dsh_error_json_path`), `DSH_E_LIMIT_EXCEEDED`, `DSH_E_HANDLE_CLOSED`; then
/// nothing was accepted.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dsh_session_append(
    session: *mut dsh_session,
    r#type: *const c_char,
    type_len: usize,
    data: *const c_char,
    data_len: usize,
    options: *const dsh_append_options,
    seq: *mut u64,
    err: *mut *mut dsh_error,
) -> dsh_status {
    // SAFETY: C1 (session), C2 (type, data), C4 (options), C3 (seq, err).
    unsafe {
        guard::call(session, err, |value| {
            let out = Out::optional(seq, "the seq")?;
            let kind = input::some_text(r#type, type_len, "the type")?;
            let data = input::bytes(data, data_len, "the data")?;
            let mut draft = EventDraft::new(kind, data)?;
            if let Some(options) = input::optional_struct(options, "the options")? {
                draft = options.apply(draft)?;
            }
            out.set(value.session.append(&draft)?.seq());
            Ok(DSH_OK)
        })
    }
}

/// Accepts many events together: all of them or none, and in one frame on the disk. `rows` holds one JSON
/// object a line, with `type`, `data` and optionally `surfaceOp`, `sourceEventSeqs`, `seq`, `time` and, on
/// plugin records, `ignorable`. `*first_seq` and `*count` (both may be NULL) tell where they went. Errors as
/// those of `dsh_session_append`, with the line in `dsh_error_index`, from 0; empty lines do not count.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dsh_session_append_rows(
    session: *mut dsh_session,
    rows: *const c_char,
    rows_len: usize,
    first_seq: *mut u64,
    count: *mut u64,
    err: *mut *mut dsh_error,
) -> dsh_status {
    // SAFETY: C1 (session), C2 (rows), C3 (first_seq, count, err).
    unsafe {
        guard::call(session, err, |value| {
            let first_seq = Out::optional(first_seq, "the first seq")?;
            let count = Out::optional(count, "the count")?;
            let rows = input::bytes(rows, rows_len, "the rows")?;
            let drafts = convert_lines(rows, |line| EventDraft::from_line(line))?;
            let events = value.session.append_batch(&drafts)?;
            first_seq.set(events.first().map_or_else(|| value.session.next_seq(), |event| event.seq()));
            count.set(events.len() as u64);
            Ok(DSH_OK)
        })
    }
}

/// The durability barrier: on return every accepted event is on the disk, and the session exists for other
/// processes. Fails with `DSH_E_SESSION_OWNERSHIP_LOST`, `DSH_E_SESSION_ALREADY_OWNED` and
/// `DSH_E_SESSION_ALREADY_EXISTS` (first write), `DSH_E_HANDLE_CLOSED`, `DSH_E_CANCELLED`, `DSH_E_IO`
/// (`dsh_error_os`); the events wait on, in order.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dsh_session_flush(
    session: *mut dsh_session,
    cancel: *const dsh_cancel,
    err: *mut *mut dsh_error,
) -> dsh_status {
    // SAFETY: C1 (session, cancel), C3 (err).
    unsafe {
        guard::call(session, err, |value| {
            value.session.flush_with(&cancel::token(cancel)?)?;
            Ok(DSH_OK)
        })
    }
}

/// The seq that the next event gets: how many events the session has, those included that are not written
/// yet.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dsh_session_next_seq(
    session: *const dsh_session,
    seq: *mut u64,
    err: *mut *mut dsh_error,
) -> dsh_status {
    // SAFETY: C1 (session), C3 (seq, err).
    unsafe {
        guard::call(session, err, |value| {
            Out::new(seq, "the seq")?.set(value.session.next_seq());
            Ok(DSH_OK)
        })
    }
}

/// How many events at the beginning were inherited by a fork; 0 in a session that is not seeded.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dsh_session_inherited_event_count(
    session: *const dsh_session,
    count: *mut u64,
    err: *mut *mut dsh_error,
) -> dsh_status {
    // SAFETY: C1 (session), C3 (count, err).
    unsafe {
        guard::call(session, err, |value| {
            let out = Out::new(count, "the count")?;
            out.set(value.session.inherited_event_count());
            Ok(DSH_OK)
        })
    }
}

/// What is accepted and not on the disk yet, and why not. `pending->error`, if not NULL, is the caller's to
/// free.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dsh_session_pending(
    session: *const dsh_session,
    pending: *mut dsh_pending,
    err: *mut *mut dsh_error,
) -> dsh_status {
    // SAFETY: C1 (session), C4 (pending), C3 (err).
    unsafe {
        guard::call(session, err, |value| {
            let out = OutStruct::new(pending, "the pending events")?;
            let pending = value.session.pending();
            let error = pending.error.map_or(std::ptr::null_mut(), give_error);
            let struct_size = out.size();
            out.set(dsh_pending { struct_size, events: pending.events, bytes: pending.bytes, error });
            Ok(DSH_OK)
        })
    }
}

/// The events of a range, those included that are not written yet: `count` of them (`DSH_ALL`: all) from
/// position `from` on. The iterator is freed with `dsh_events_free`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dsh_session_events(
    session: *const dsh_session,
    from: u64,
    count: u64,
    events: *mut *mut dsh_events,
    err: *mut *mut dsh_error,
) -> dsh_status {
    // SAFETY: C1 (session), C3 (events, err).
    unsafe { session_events(session, EventRange::window(from, count), events, err) }
}

/// The last `count` events, those included that are not written yet. The iterator is freed with
/// `dsh_events_free`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dsh_session_events_newest(
    session: *const dsh_session,
    count: u64,
    events: *mut *mut dsh_events,
    err: *mut *mut dsh_error,
) -> dsh_status {
    // SAFETY: C1 (session), C3 (events, err).
    unsafe { session_events(session, EventRange::newest(count), events, err) }
}

/// # Safety
/// C1 (session), C3 (events, err).
unsafe fn session_events(
    session: *const dsh_session,
    range: EventRange,
    events: *mut *mut dsh_events,
    err: *mut *mut dsh_error,
) -> dsh_status {
    // SAFETY: C1 (session), C3 (events, err).
    unsafe {
        guard::call(session, err, |value| {
            let out = Out::new(events, "the iterator")?;
            out.set(give(EventsValue::new(value.session.events(range)?)));
            Ok(DSH_OK)
        })
    }
}

/// What opening and writing have found so far: a JSON array of objects with a `kind`, such as `torn-tail`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dsh_session_notices(
    session: *const dsh_session,
    out: *mut dsh_buffer,
    err: *mut *mut dsh_error,
) -> dsh_status {
    // SAFETY: C1 (session), C3 (out, err).
    unsafe {
        guard::call(session, err, |value| {
            buffer_out(out)?.give(notices_json(&value.session.notices()));
            Ok(DSH_OK)
        })
    }
}

/// Writes what waits, leaves the store and gives up ownership; may come from any thread, while others are inside, and
/// closes every handle of the session (`dsh_store_get`). Later calls that write fail with `DSH_E_HANDLE_CLOSED`, and so does
/// `dsh_session_events`; what the session holds in memory can still be read. A second close does nothing. Fails as `dsh_session_flush`: the session is
/// closed all the same, and what could not be written is lost.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dsh_session_close(
    session: *mut dsh_session,
    err: *mut *mut dsh_error,
) -> dsh_status {
    // SAFETY: C1 (session), C3 (err).
    unsafe {
        guard::call(session, err, |value| {
            value.session.close()?;
            Ok(DSH_OK)
        })
    }
}

/// Frees a session; the last handle of it closes it if need be, and what that loses is only told to the log callback.
/// NULL and a lent session are fine.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dsh_session_free(session: *mut dsh_session) {
    // SAFETY: C1, last call.
    unsafe { guard::free(session, |_| {}) }
}
