//! The exact reads of a corpus: lists, filters, windows, traces, titles.

use crate::buffer::{buffer_out, dsh_buffer};
use crate::cancel::{self, dsh_cancel};
use crate::errors::dsh_error;
use crate::events::{EventsValue, dsh_events};
use crate::guard;
use crate::handle::give;
use crate::input;
use crate::lines::{LinesValue, dsh_lines};
use crate::output::Out;
use crate::status::{DSH_OK, dsh_status};
use crate::store::dsh_store;
use dsh_session_core::json::{DEPTH_MAX_DEFAULT, Json, Kind};
use dsh_session_core::persistence::Events;
use dsh_session_core::query::{EventFilter, EventRequest, SessionFilter};
use dsh_session_core::{Code, Error, Result};
use std::ffi::c_char;

/// One line for each item of a list.
fn lines_of<T: Send + 'static>(items: Vec<T>, to_json: fn(&T) -> String) -> LinesValue {
    let mut items = items.into_iter();
    LinesValue::new(move || Ok(items.next().map(|item| to_json(&item))))
}

/// JSON text of filters; NULL and length 0 stand for none.
///
/// # Errors
/// `INVALID_ARGUMENT` for what is no text, `SESSION_QUERY_INVALID_FILTER`.
///
/// # Safety
/// C2.
unsafe fn filters<T>(
    pointer: *const c_char,
    length: usize,
    read: fn(&str) -> Result<Vec<T>>,
) -> Result<Vec<T>> {
    // SAFETY: C2.
    match unsafe { input::text(pointer, length, "the filters") }? {
        "" if pointer.is_null() => Ok(Vec::new()),
        text => read(text),
    }
}

/// The ids in the JSON text of an array.
///
/// # Errors
/// `INVALID_ARGUMENT`.
fn ids(text: &str) -> Result<Vec<String>> {
    let refused = || Error::new(Code::InvalidArgument, "the ids are no JSON array of strings");
    let json = Json::parse(text, DEPTH_MAX_DEFAULT).map_err(|_| refused())?;
    if json.kind() != Kind::Array {
        return Err(refused());
    }
    json.elements().map(|id| id.as_str().map(Into::into).ok_or_else(refused)).collect()
}

/// Every session, live in this store or stored, most recently created first: lines as
/// `{"header","live","persisted","formatStatus"?}`. What stands in the root and is not usable is told by
/// `dsh_store_list`. The iterator is freed with `dsh_lines_free`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dsh_query_list_sessions(
    store: *const dsh_store,
    cancel: *const dsh_cancel,
    lines: *mut *mut dsh_lines,
    err: *mut *mut dsh_error,
) -> dsh_status {
    // SAFETY: C1 (store, cancel), C3 (results, err).
    unsafe {
        guard::call(store, err, |value| {
            let out = Out::new(lines, "the iterator")?;
            let found = value.open()?.list_sessions_with(&cancel::token(cancel)?)?;
            out.set(give(lines_of(found, |record| record.to_json())));
            Ok(DSH_OK)
        })
    }
}

/// The sessions that pass every filter, as `dsh_query_list_sessions`. `filters_json` is an array of clauses:
/// `{"kind":"id","values"}`, `cwd` and `parent` (whose values may be `null`), `created-at` with `from` and `to`,
/// `availability` with `live` and `persisted`. NULL and length 0 stand for none.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dsh_query_filter_sessions(
    store: *const dsh_store,
    filters_json: *const c_char,
    filters_json_len: usize,
    cancel: *const dsh_cancel,
    lines: *mut *mut dsh_lines,
    err: *mut *mut dsh_error,
) -> dsh_status {
    // SAFETY: C1 (store, cancel), C2 (filters), C3 (results, err).
    unsafe {
        guard::call(store, err, |value| {
            let out = Out::new(lines, "the iterator")?;
            let filters = filters(filters_json, filters_json_len, SessionFilter::list_from_json)?;
            let found = value.open()?.filter_sessions_with(&filters, &cancel::token(cancel)?)?;
            out.set(give(lines_of(found, |record| record.to_json())));
            Ok(DSH_OK)
        })
    }
}

/// Where a session came from and what came from it, as a JSON object:
/// `{"target","ancestors","descendants","complete","root"?,"unresolvedParentId"?}`; a descendant is
/// `{"session","descendants"}`, as deep as the lineage is.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dsh_query_trace_session(
    store: *const dsh_store,
    id: *const c_char,
    id_len: usize,
    cancel: *const dsh_cancel,
    out: *mut dsh_buffer,
    err: *mut *mut dsh_error,
) -> dsh_status {
    // SAFETY: C1 (store, cancel), C2 (id), C3 (results, err).
    unsafe {
        guard::call(store, err, |value| {
            let out = buffer_out(out)?;
            let id = input::id(id, id_len)?;
            out.give(value.open()?.trace_session_with(id, &cancel::token(cancel)?)?.to_json());
            Ok(DSH_OK)
        })
    }
}

/// A whole session, live or stored, as it was at one moment: its events, and in `facts` (or NULL)
/// `{"session","inheritedEventCount"}`. A stored one whose last turn was interrupted ends with the events that
/// close it, which are not stored. The iterator is freed with `dsh_events_free`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dsh_query_read_session(
    store: *const dsh_store,
    id: *const c_char,
    id_len: usize,
    cancel: *const dsh_cancel,
    facts: *mut dsh_buffer,
    events: *mut *mut dsh_events,
    err: *mut *mut dsh_error,
) -> dsh_status {
    // SAFETY: C1 (store, cancel), C2 (id), C3 (results, err).
    unsafe {
        guard::call(store, err, |value| {
            let out = Out::new(events, "the iterator")?;
            let facts = Out::optional(facts, "the facts")?;
            let id = input::id(id, id_len)?;
            let read = value.open()?.read_session_with(id, &cancel::token(cancel)?)?;
            if facts.is_wanted() {
                facts.give(read.facts_json());
            }
            let (events, mut next) = (read.events, 0);
            out.set(give(EventsValue::new(Events::from_fn(move || {
                next += 1;
                Ok(events.get(next - 1).cloned())
            }))));
            Ok(DSH_OK)
        })
    }
}

/// One line for each event of a session, in log order: `{"sessionId","seq","type","time","surface"}`, whose
/// `surface` is `current`, `shadowed` or `log-only`. The iterator is freed with `dsh_lines_free`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dsh_query_list_events(
    store: *const dsh_store,
    id: *const c_char,
    id_len: usize,
    cancel: *const dsh_cancel,
    lines: *mut *mut dsh_lines,
    err: *mut *mut dsh_error,
) -> dsh_status {
    // SAFETY: C1 (store, cancel), C2 (id), C3 (results, err).
    unsafe {
        guard::call(store, err, |value| {
            let out = Out::new(lines, "the iterator")?;
            let id = input::id(id, id_len)?;
            let found = value.open()?.list_events_with(id, &cancel::token(cancel)?)?;
            out.set(give(lines_of(found, |record| record.to_json())));
            Ok(DSH_OK)
        })
    }
}

/// What the events of a session say that pass every filter, in log order: lines as those of
/// `dsh_query_list_events` with `text`. `filters_json` is an array of clauses: `seq` and `time` with `from` and
/// `to`, `type` and `surface` with `values`, `{"kind":"text","text"}`. NULL and length 0 stand for none.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dsh_query_filter_events(
    store: *const dsh_store,
    id: *const c_char,
    id_len: usize,
    filters_json: *const c_char,
    filters_json_len: usize,
    cancel: *const dsh_cancel,
    lines: *mut *mut dsh_lines,
    err: *mut *mut dsh_error,
) -> dsh_status {
    // SAFETY: C1 (store, cancel), C2 (id, filters), C3 (results, err).
    unsafe {
        guard::call(store, err, |value| {
            let out = Out::new(lines, "the iterator")?;
            let id = input::id(id, id_len)?;
            let filters = filters(filters_json, filters_json_len, EventFilter::list_from_json)?;
            let found = value.open()?.filter_events_with(id, &filters, &cancel::token(cancel)?)?;
            out.set(give(lines_of(found, |document| document.to_json())));
            Ok(DSH_OK)
        })
    }
}

/// The events of a session that the model sees, in its order, and in `facts` (or NULL)
/// `{"session","inheritedEventCount","capturedThroughSeq"}`. The iterator is freed with `dsh_events_free`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dsh_query_read_surface(
    store: *const dsh_store,
    id: *const c_char,
    id_len: usize,
    cancel: *const dsh_cancel,
    facts: *mut dsh_buffer,
    events: *mut *mut dsh_events,
    err: *mut *mut dsh_error,
) -> dsh_status {
    // SAFETY: C1 (store, cancel), C2 (id), C3 (results, err).
    unsafe {
        guard::call(store, err, |value| {
            let out = Out::new(events, "the iterator")?;
            let facts = Out::optional(facts, "the facts")?;
            let id = input::id(id, id_len)?;
            let read = value.open()?.read_surface_with(id, &cancel::token(cancel)?)?;
            if facts.is_wanted() {
                facts.give(read.facts_json());
            }
            out.set(give(EventsValue::listed(read.events)));
            Ok(DSH_OK)
        })
    }
}

/// An event and its neighbours, without reading the rest of a long log. The request is
/// `{"seq","before"?,"after"?}`, the result
/// `{"session","inheritedEventCount","target","events","startSeq","endSeq"}`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dsh_query_read_event(
    store: *const dsh_store,
    id: *const c_char,
    id_len: usize,
    request_json: *const c_char,
    request_json_len: usize,
    cancel: *const dsh_cancel,
    out: *mut dsh_buffer,
    err: *mut *mut dsh_error,
) -> dsh_status {
    // SAFETY: C1 (store, cancel), C2 (id, request), C3 (results, err).
    unsafe {
        guard::call(store, err, |value| {
            let out = buffer_out(out)?;
            let id = input::id(id, id_len)?;
            let request = input::some_text(request_json, request_json_len, "the request")?;
            let request = EventRequest::from_json(request)?;
            out.give(value.open()?.read_event_with(id, request, &cancel::token(cancel)?)?.to_json());
            Ok(DSH_OK)
        })
    }
}

/// Where an event came from and what became of it: `{"session","target","replacedBy"?,"replacementChain",
/// "replacedEventSeqs","sourceEventSeqs","derivedEventSeqs"}`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dsh_query_trace_event(
    store: *const dsh_store,
    id: *const c_char,
    id_len: usize,
    seq: u64,
    cancel: *const dsh_cancel,
    out: *mut dsh_buffer,
    err: *mut *mut dsh_error,
) -> dsh_status {
    // SAFETY: C1 (store, cancel), C2 (id), C3 (results, err).
    unsafe {
        guard::call(store, err, |value| {
            let out = buffer_out(out)?;
            let id = input::id(id, id_len)?;
            out.give(value.open()?.trace_event_with(id, seq, &cancel::token(cancel)?)?.to_json());
            Ok(DSH_OK)
        })
    }
}

/// The header and, if there is one, the title of a session: `{"session","title"?}`; a title is
/// `{"title","messageSeqs","source","eventSeq","updatedAt"}`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dsh_query_read_title(
    store: *const dsh_store,
    id: *const c_char,
    id_len: usize,
    cancel: *const dsh_cancel,
    out: *mut dsh_buffer,
    err: *mut *mut dsh_error,
) -> dsh_status {
    // SAFETY: C1 (store, cancel), C2 (id), C3 (results, err).
    unsafe {
        guard::call(store, err, |value| {
            let out = buffer_out(out)?;
            let id = input::id(id, id_len)?;
            out.give(value.open()?.read_title_with(id, &cancel::token(cancel)?)?.to_json());
            Ok(DSH_OK)
        })
    }
}

/// Headers and titles of many sessions, each id of the JSON array once, in the order in which they come first:
/// lines as `{"sessionId","status":"fulfilled","value"}` with what `dsh_query_read_title` gives, or as
/// `{"sessionId","status":"rejected","reason"}`. The iterator is freed with `dsh_lines_free`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dsh_query_read_titles(
    store: *const dsh_store,
    ids_json: *const c_char,
    ids_json_len: usize,
    cancel: *const dsh_cancel,
    lines: *mut *mut dsh_lines,
    err: *mut *mut dsh_error,
) -> dsh_status {
    // SAFETY: C1 (store, cancel), C2 (ids), C3 (results, err).
    unsafe {
        guard::call(store, err, |value| {
            let out = Out::new(lines, "the iterator")?;
            let ids = ids(input::some_text(ids_json, ids_json_len, "the list of ids")?)?;
            let found = value.open()?.read_titles_with(&ids, &cancel::token(cancel)?)?;
            out.set(give(lines_of(found, |title| title.to_json())));
            Ok(DSH_OK)
        })
    }
}

/// What a person would read of a session, one line an entry: `{"kind","seq",...}`, whose `kind` is `user`,
/// `context`, `assistant`, `tool`, `marker` or `status`. The iterator is freed with `dsh_lines_free`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dsh_query_transcript(
    store: *const dsh_store,
    id: *const c_char,
    id_len: usize,
    cancel: *const dsh_cancel,
    lines: *mut *mut dsh_lines,
    err: *mut *mut dsh_error,
) -> dsh_status {
    // SAFETY: C1 (store, cancel), C2 (id), C3 (results, err).
    unsafe {
        guard::call(store, err, |value| {
            let out = Out::new(lines, "the iterator")?;
            let id = input::id(id, id_len)?;
            let found = value.open()?.transcript_with(id, &cancel::token(cancel)?)?;
            out.set(give(lines_of(found, |entry| entry.to_json())));
            Ok(DSH_OK)
        })
    }
}
