//! What is folded from a session: its surface, its messages, its header and title, and where it stands.

use crate::buffer::{buffer_out, dsh_buffer};
use crate::errors::dsh_error;
use crate::events::{EventsValue, dsh_event, dsh_events, give_event};
use crate::guard::{self, look};
use crate::handle::give;
use crate::input::{self, invalid};
use crate::messages::{MessagesValue, dsh_messages};
use crate::output::{Out, OutStruct};
use crate::session::dsh_session;
use crate::status::{DSH_ABSENT, DSH_OK, dsh_status};
use dsh_session_core::session::closers::Cause;
use dsh_session_core::session::{SurfaceView, WriteState};
use dsh_session_core::{Event, Result, Session};
use std::ffi::{c_char, c_void};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::ptr;
use std::sync::Arc;

/// A list of seqs given by the library, which never changes: the caller frees it with `dsh_seqs_free`. Begin with
/// `DSH_SEQS_INIT`; a call that fills a list does not look at what it held, so free it before it is filled
/// again. Never grows another member.
#[repr(C)]
#[derive(Debug)]
pub struct dsh_seqs {
    /// The first seq; NULL in an empty list.
    pub data: *const u64,
    /// How many.
    pub len: usize,
    /// The library's own; leave it alone.
    pub owner: *mut c_void,
}

impl dsh_seqs {
    const EMPTY: dsh_seqs = dsh_seqs { data: ptr::null(), len: 0, owner: ptr::null_mut() };

    /// A list that shares the seqs.
    pub(crate) fn give(seqs: Arc<Vec<u64>>) -> dsh_seqs {
        if seqs.is_empty() {
            return dsh_seqs::EMPTY;
        }
        let (data, len) = (seqs.as_ptr(), seqs.len());
        dsh_seqs { data, len, owner: Box::into_raw(Box::new(seqs)).cast() }
    }
}

/// Frees the list and leaves it empty, ready to be filled again. NULL and empty lists are fine.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dsh_seqs_free(seqs: *mut dsh_seqs) {
    if seqs.is_null() {
        return;
    }
    // SAFETY: C3, not NULL; a list is either empty or was filled by `give`, and only here is it emptied.
    let owner = unsafe { seqs.replace(dsh_seqs::EMPTY) }.owner;
    if !owner.is_null() {
        // SAFETY: `give` made the owner as a box, and this was its only copy.
        let _ =
            catch_unwind(AssertUnwindSafe(|| drop(unsafe { Box::from_raw(owner.cast::<Arc<Vec<u64>>>()) })));
    }
}

/// Whether a session may be written, and whether the listeners hear of its events.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum dsh_write_state {
    /// In no store. No session of this interface is that.
    DSH_WRITE_STATE_INDEPENDENT = 0,
    /// Made by a store, not found there yet.
    DSH_WRITE_STATE_PREPARED = 1,
    /// In its store, not announced yet.
    DSH_WRITE_STATE_ENTERED = 2,
    /// The creation listeners are being called; read-only until they have returned.
    DSH_WRITE_STATE_ANNOUNCING = 3,
    /// May be written; the listeners hear of its events.
    DSH_WRITE_STATE_LIVE = 4,
    /// A creation listener failed; never to be written.
    DSH_WRITE_STATE_FAILED = 5,
    /// Closed: no longer in its store.
    DSH_WRITE_STATE_REMOVED = 6,
}

/// Why a turn did not end by itself.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum dsh_cause {
    /// The program that wrote the log stopped.
    DSH_CAUSE_INTERRUPTED = 0,
    /// The log was copied up to a place inside the turn.
    DSH_CAUSE_FORKED = 1,
}

/// A `dsh_cause` of C.
///
/// # Errors
/// `INVALID_ARGUMENT`.
pub(crate) fn cause_of(cause: i32) -> Result<Cause> {
    match cause {
        0 => Ok(Cause::Interrupted),
        1 => Ok(Cause::Forked),
        other => Err(invalid(format!("{other} is no dsh_cause"))),
    }
}

/// # Safety
/// C1 (session), C3 (out, err).
unsafe fn number(
    session: *const dsh_session,
    out: *mut u64,
    err: *mut *mut dsh_error,
    read: impl FnOnce(&Session) -> u64,
) -> dsh_status {
    // SAFETY: C1, C3.
    unsafe {
        guard::call(session, err, |value| {
            Out::new(out, "the number")?.set(read(&value.session));
            Ok(DSH_OK)
        })
    }
}

/// # Safety
/// C1 (session), C3 (out, err).
unsafe fn text(
    session: *const dsh_session,
    out: *mut dsh_buffer,
    err: *mut *mut dsh_error,
    read: impl FnOnce(&Session) -> Result<Option<String>>,
) -> dsh_status {
    // SAFETY: C1, C3.
    unsafe {
        guard::call(session, err, |value| {
            let out = buffer_out(out)?;
            let Some(text) = read(&value.session)? else { return Ok(DSH_ABSENT) };
            out.give(text);
            Ok(DSH_OK)
        })
    }
}

/// # Safety
/// C1 (session), C4 (event), C3 (err).
unsafe fn kept(
    session: *const dsh_session,
    event: *mut dsh_event,
    err: *mut *mut dsh_error,
    read: impl FnOnce(&Session) -> Option<Event>,
) -> dsh_status {
    // SAFETY: C1, C4, C3.
    unsafe {
        guard::call(session, err, |value| {
            let out = OutStruct::new(event, "the event")?;
            read(&value.session).map_or(Ok(DSH_ABSENT), |event| give_event(out, event))
        })
    }
}

/// # Safety
/// C1 (session), C3 (events, err).
unsafe fn listed(
    session: *const dsh_session,
    events: *mut *mut dsh_events,
    err: *mut *mut dsh_error,
    read: impl FnOnce(&Session) -> Result<Vec<Event>>,
) -> dsh_status {
    // SAFETY: C1, C3.
    unsafe {
        guard::call(session, err, |value| {
            let out = Out::new(events, "the iterator")?;
            out.set(give(EventsValue::listed(read(&value.session)?)));
            Ok(DSH_OK)
        })
    }
}

/// Appends a plugin record: any JSON value, also a scalar, under a name of the plugin grammar (`plugin:<name>/<kind>`, in
/// lower case), which readers may keep without understanding it. Otherwise as `dsh_session_append`. Fails with
/// `DSH_E_EVENT_REFUSED`, `PLUGIN_RECORD_TYPE_INVALID` for another name.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dsh_session_append_record(
    session: *mut dsh_session,
    name: *const c_char,
    name_len: usize,
    data: *const c_char,
    data_len: usize,
    seq: *mut u64,
    err: *mut *mut dsh_error,
) -> dsh_status {
    // SAFETY: C1 (session), C2 (name, data), C3 (seq, err).
    unsafe {
        guard::call(session, err, |value| {
            let out = Out::optional(seq, "the seq")?;
            let name = input::text(name, name_len, "the name")?;
            let data = input::bytes(data, data_len, "the data")?;
            out.set(value.session.append_plugin_record(name, data)?.seq());
            Ok(DSH_OK)
        })
    }
}

/// The surface: the seqs of the events that make the messages a model sees, in their order. `*nodes` gets a list that never changes
/// afterwards and costs no copy; free it with `dsh_seqs_free`. `*replace_generation` counts replacements, `*content_generation`
/// replacements and projections: while that stays, messages are only added at the end. Both may be NULL. Fails with
/// `DSH_E_EVENT_REFUSED`, `PROJECTION_REMOVED` in a session whose projection was taken away.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dsh_session_surface(
    session: *const dsh_session,
    nodes: *mut dsh_seqs,
    replace_generation: *mut u64,
    content_generation: *mut u64,
    err: *mut *mut dsh_error,
) -> dsh_status {
    // SAFETY: C1 (session), C3 (nodes, replace_generation, content_generation, err).
    unsafe {
        guard::call(session, err, |value| {
            let out = Out::new(nodes, "the list of seqs")?;
            let replace_out = Out::optional(replace_generation, "the replace generation")?;
            let content_out = Out::optional(content_generation, "the content generation")?;
            let (nodes, replace, content) = surface_of(&value.session.surface())?;
            out.set(dsh_seqs::give(nodes));
            replace_out.set(replace);
            content_out.set(content);
            Ok(DSH_OK)
        })
    }
}

/// Nodes and generations that belong together, though other threads append.
fn surface_of(surface: &SurfaceView) -> Result<(Arc<Vec<u64>>, u64, u64)> {
    loop {
        // Each replacement and each projection moves it: while it stays, the rest stays, growth at the end aside.
        let content = surface.content_generation()?;
        let (nodes, replace) = (surface.nodes()?, surface.replace_generation()?);
        if surface.content_generation()? == content {
            return Ok((nodes, replace, content));
        }
    }
}

/// The messages that a model sees, in order. Cheap to ask for again: only what is new is looked at, and texts are shared. The list is
/// freed with `dsh_messages_free`. Fails with `DSH_E_EVENT_REFUSED`, `PROJECTION_REMOVED`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dsh_session_messages(
    session: *const dsh_session,
    messages: *mut *mut dsh_messages,
    err: *mut *mut dsh_error,
) -> dsh_status {
    // SAFETY: C1 (session), C3 (messages, err).
    unsafe {
        guard::call(session, err, |value| {
            let out = Out::new(messages, "the list of messages")?;
            out.set(give(MessagesValue::Shared(value.session.messages()?)));
            Ok(DSH_OK)
        })
    }
}

/// The message that one event makes now, as a JSON object, whether or not it was replaced since. `DSH_ABSENT` for an event that makes
/// none and for a seq that does not exist. Fails with `DSH_E_EVENT_REFUSED`, `PROJECTION_REMOVED`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dsh_session_message_of(
    session: *const dsh_session,
    seq: u64,
    out: *mut dsh_buffer,
    err: *mut *mut dsh_error,
) -> dsh_status {
    // SAFETY: C1 (session), C3 (out, err).
    unsafe {
        text(session, out, err, |session| {
            Ok(session.message_of(seq)?.map(|message| message.text().to_owned()))
        })
    }
}

/// The conversation as a person would read it: every message event that was appended, in log order, replaced or not. The iterator is
/// freed with `dsh_events_free`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dsh_session_transcript(
    session: *const dsh_session,
    events: *mut *mut dsh_events,
    err: *mut *mut dsh_error,
) -> dsh_status {
    // SAFETY: C1 (session), C3 (events, err).
    unsafe { listed(session, events, err, |session| Ok(session.transcript())) }
}

/// The events that would end what the session's last turn leaves open, for a `dsh_cause`; none where no turn is open. Nothing is
/// appended. The iterator is freed with `dsh_events_free`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dsh_session_closers(
    session: *const dsh_session,
    cause: i32,
    events: *mut *mut dsh_events,
    err: *mut *mut dsh_error,
) -> dsh_status {
    // SAFETY: C1 (session), C3 (events, err).
    unsafe { listed(session, events, err, |session| session.closers(cause_of(cause)?)) }
}

/// The event with a seq, kept: release it with `dsh_event_release`. `DSH_ABSENT` where there is none.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dsh_session_event_at(
    session: *const dsh_session,
    seq: u64,
    event: *mut dsh_event,
    err: *mut *mut dsh_error,
) -> dsh_status {
    // SAFETY: C1 (session), C4 (event), C3 (err).
    unsafe { kept(session, event, err, |session| session.event_at(seq)) }
}

/// The member of a batch that the listeners are being told of, kept: release it with `dsh_event_release`. `DSH_ABSENT` at all other
/// times, and for events that were appended one by one.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dsh_session_current_batch_publication(
    session: *const dsh_session,
    event: *mut dsh_event,
    err: *mut *mut dsh_error,
) -> dsh_status {
    // SAFETY: C1 (session), C4 (event), C3 (err).
    unsafe { kept(session, event, err, Session::current_batch_publication) }
}

/// The last request header, as a JSON object in canonical form. `DSH_ABSENT` before the first.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dsh_session_request_header(
    session: *const dsh_session,
    out: *mut dsh_buffer,
    err: *mut *mut dsh_error,
) -> dsh_status {
    // SAFETY: C1 (session), C3 (out, err).
    unsafe { text(session, out, err, |session| Ok(session.request_header())) }
}

/// The last request context, as a JSON object. `DSH_ABSENT` before the first.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dsh_session_request_context(
    session: *const dsh_session,
    out: *mut dsh_buffer,
    err: *mut *mut dsh_error,
) -> dsh_status {
    // SAFETY: C1 (session), C3 (out, err).
    unsafe { text(session, out, err, |session| Ok(session.request_context())) }
}

/// Which tools the model was told of and how they changed, as a JSON object with `tools` and `updates`; never absent.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dsh_session_tool_history(
    session: *const dsh_session,
    out: *mut dsh_buffer,
    err: *mut *mut dsh_error,
) -> dsh_status {
    // SAFETY: C1 (session), C3 (out, err).
    unsafe { text(session, out, err, |session| Ok(Some(session.tool_history().to_json()))) }
}

/// The newest title: a JSON object with its event's data, `eventSeq` and `updatedAt`. `DSH_ABSENT` before the first.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dsh_session_title(
    session: *const dsh_session,
    out: *mut dsh_buffer,
    err: *mut *mut dsh_error,
) -> dsh_status {
    // SAFETY: C1 (session), C3 (out, err).
    unsafe { text(session, out, err, |session| Ok(session.title().map(|title| title.to_json()))) }
}

/// Where the events begin that were appended to this object, the marker that its making added first: the length of what it was made
/// from.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dsh_session_first_live_seq(
    session: *const dsh_session,
    seq: *mut u64,
    err: *mut *mut dsh_error,
) -> dsh_status {
    // SAFETY: C1 (session), C3 (seq, err).
    unsafe { number(session, seq, err, Session::first_live_seq) }
}

/// The first event made for this object's life: in a new fork the end of what it inherits, else `dsh_session_first_live_seq`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dsh_session_first_lifecycle_seq(
    session: *const dsh_session,
    seq: *mut u64,
    err: *mut *mut dsh_error,
) -> dsh_status {
    // SAFETY: C1 (session), C3 (seq, err).
    unsafe { number(session, seq, err, Session::first_lifecycle_seq) }
}

/// Whether an event exists and was not inherited by a fork. False for NULL.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dsh_session_is_own_seq(session: *const dsh_session, seq: u64) -> bool {
    // SAFETY: C1.
    unsafe { look(session, false, |value| value.session.is_own_seq(seq)) }
}

/// Whether the session may be written now: `*state` gets a `dsh_write_state`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dsh_session_write_state(
    session: *const dsh_session,
    state: *mut i32,
    err: *mut *mut dsh_error,
) -> dsh_status {
    // SAFETY: C1 (session), C3 (state, err).
    unsafe {
        guard::call(session, err, |value| {
            let out = Out::new(state, "the state")?;
            let state = match value.session.write_state() {
                WriteState::Independent => dsh_write_state::DSH_WRITE_STATE_INDEPENDENT,
                WriteState::Prepared => dsh_write_state::DSH_WRITE_STATE_PREPARED,
                WriteState::Entered => dsh_write_state::DSH_WRITE_STATE_ENTERED,
                WriteState::Announcing => dsh_write_state::DSH_WRITE_STATE_ANNOUNCING,
                WriteState::Live => dsh_write_state::DSH_WRITE_STATE_LIVE,
                WriteState::Failed => dsh_write_state::DSH_WRITE_STATE_FAILED,
                WriteState::Removed => dsh_write_state::DSH_WRITE_STATE_REMOVED,
            };
            out.set(state as i32);
            Ok(DSH_OK)
        })
    }
}
