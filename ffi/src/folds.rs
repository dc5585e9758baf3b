//! Folds over rows that stand in no session: what a log's text says, without opening anything.

use crate::buffer::{buffer_out, dsh_buffer};
use crate::errors::dsh_error;
use crate::guard;
use crate::handle;
use crate::input::{self, invalid};
use crate::output::Out;
use crate::session::{convert_lines, lines_of};
use crate::status::{DSH_ABSENT, DSH_OK, dsh_status};
use crate::store::dsh_store;
use crate::surface::cause_of;
use dsh_session_core::event::Vocabulary;
use dsh_session_core::json::ObjectText;
use dsh_session_core::session::folds::Folds;
use dsh_session_core::session::{
    DerivedMessage, FoldedSurface, Projections, Replacement, Seed, closers, fold_surface_window, fork_seed,
};
use dsh_session_core::{Code, Error, Event, Result};
use std::ffi::c_char;
use std::sync::Arc;

/// What is folded from rows.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum dsh_fold_kind {
    /// As `dsh_session_request_header`.
    DSH_FOLD_REQUEST_HEADER = 0,
    /// As `dsh_session_request_context`.
    DSH_FOLD_REQUEST_CONTEXT = 1,
    /// As `dsh_session_tool_history`.
    DSH_FOLD_TOOL_HISTORY = 2,
    /// As `dsh_session_title`.
    DSH_FOLD_TITLE = 3,
}

/// Whole rows, one a line.
///
/// # Errors
/// `SESSION_REFUSED` with the index of the first bad row.
///
/// # Safety
/// C2.
unsafe fn events(rows: *const c_char, rows_len: usize) -> Result<Vec<Event>> {
    // SAFETY: C2.
    let rows = unsafe { input::bytes(rows, rows_len, "the rows") }?;
    Seed::from_rows(lines_of(rows))
}

/// Rows that need not be fit to be stored: the surface judges them.
///
/// # Errors
/// As [`events`].
fn unstored(rows: &[u8]) -> Result<Vec<Event>> {
    let read = |row: &[u8]| {
        Event::from_unstored_row(row).map_err(|error| {
            Error::new(Code::SessionRefused, error.message())
                .with_rule("EVENT_ENVELOPE_INVALID")
                .with_cause(error)
        })
    };
    convert_lines(rows, read)
}

/// Events as rows, each with its newline.
fn rows_text(events: &[Event]) -> String {
    let mut text = String::with_capacity(events.iter().map(|event| event.row().len() + 1).sum());
    for event in events {
        text.push_str(event.row());
        text.push('\n');
    }
    text
}

/// Folds the surface of rows, whole ones with consecutive seqs from `base_seq` on, 0 for a whole log: a JSON object with `nodes`,
/// `replacements` (`seq`, `start`, `end`, `shadowedSeqs`), `replaceGeneration`, `contentGeneration`, `messages` and
/// `projectedMessages` (each `seq` and `message`). With a store, its projections and event types count; with NULL only the library's
/// own. Fails with `DSH_E_EVENT_REFUSED` (`dsh_error_rule`, `dsh_error_index` from 0), `DSH_E_SESSION_REFUSED` for a line that is no
/// row, `DSH_E_INVALID_ARGUMENT`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dsh_fold_surface(
    store: *const dsh_store,
    rows: *const c_char,
    rows_len: usize,
    base_seq: u64,
    out: *mut dsh_buffer,
    err: *mut *mut dsh_error,
) -> dsh_status {
    // SAFETY: C1 (store), C2 (rows), C3 (out, err).
    unsafe {
        guard::call_free(err, || {
            let out = buffer_out(out)?;
            let (projections, vocabulary) = rules(store)?;
            let events = unstored(input::bytes(rows, rows_len, "the rows")?)?;
            let folded = fold_surface_window(events, base_seq, &projections, &vocabulary)?;
            out.give(surface_json(&folded));
            Ok(DSH_OK)
        })
    }
}

/// # Safety
/// C1 (store).
unsafe fn rules(store: *const dsh_store) -> Result<(Arc<Projections>, Vocabulary)> {
    if store.is_null() {
        return Ok((Projections::built_in(), Vocabulary::default()));
    }
    // SAFETY: C1.
    let handle = unsafe { handle::borrow(store) }?;
    handle.check_usable::<dsh_store>()?;
    let value = &handle.value;
    Ok((Arc::clone(value.open()?.live().projections()), value.vocabulary.clone()))
}

fn surface_json(folded: &FoldedSurface) -> String {
    let mut out = ObjectText::new();
    out.json("nodes", &numbers(&folded.nodes));
    out.json("replacements", &array(folded.replacements.iter().map(replacement_json)));
    out.number("replaceGeneration", folded.replace_generation);
    out.number("contentGeneration", folded.content_generation);
    out.json("messages", &array(folded.messages.iter().map(message_json)));
    out.json("projectedMessages", &array(folded.projected_messages.iter().map(message_json)));
    out.finish()
}

fn replacement_json(replacement: &Replacement) -> String {
    let mut out = ObjectText::new();
    out.number("seq", replacement.seq);
    out.number("start", replacement.start);
    out.number("end", replacement.end);
    out.json("shadowedSeqs", &numbers(&replacement.shadowed_seqs));
    out.finish()
}

fn message_json(message: &DerivedMessage) -> String {
    let mut out = ObjectText::new();
    out.number("seq", message.seq());
    out.json("message", message.text());
    out.finish()
}

fn numbers(numbers: &[u64]) -> String {
    array(numbers.iter().map(u64::to_string))
}

fn array(values: impl Iterator<Item = String>) -> String {
    format!("[{}]", values.collect::<Vec<_>>().join(","))
}

/// One fold, a `dsh_fold_kind`, over whole rows: a JSON object. `DSH_ABSENT` where the rows have nothing to fold. Fails with
/// `DSH_E_SESSION_REFUSED` for a line that is no row (`dsh_error_index`, from 0), `DSH_E_INVALID_ARGUMENT`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dsh_fold(
    kind: i32,
    rows: *const c_char,
    rows_len: usize,
    out: *mut dsh_buffer,
    err: *mut *mut dsh_error,
) -> dsh_status {
    // SAFETY: C2 (rows), C3 (out, err).
    unsafe {
        guard::call_free(err, || {
            let out = buffer_out(out)?;
            let folds = Folds::of(&events(rows, rows_len)?);
            let folded = match kind {
                0 => folds.request_header(),
                1 => folds.request_context().map(|context| context.text().to_owned()),
                2 => Some(folds.tool_history().to_json()),
                3 => folds.title().map(|title| title.to_json()),
                other => return Err(invalid(format!("{other} is no dsh_fold_kind"))),
            };
            let Some(folded) = folded else { return Ok(DSH_ABSENT) };
            out.give(folded);
            Ok(DSH_OK)
        })
    }
}

/// The events that end what the last turn of whole rows leaves open, for a `dsh_cause`: rows, each with its newline; an empty text where no
/// turn is open. Errors as those of `dsh_fold`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dsh_closers(
    rows: *const c_char,
    rows_len: usize,
    cause: i32,
    out: *mut dsh_buffer,
    err: *mut *mut dsh_error,
) -> dsh_status {
    // SAFETY: C2 (rows), C3 (out, err).
    unsafe {
        guard::call_free(err, || {
            let out = buffer_out(out)?;
            let cause = cause_of(cause)?;
            out.give(rows_text(&closers::closers(&events(rows, rows_len)?, cause)?));
            Ok(DSH_OK)
        })
    }
}

/// The seed of a fork of whole rows, which begin with seq 0, at the event `boundary`: those rows, the marker that ends them, and what
/// closes a turn that is open there; rows, each with its newline, for `dsh_store_create_seeded`. `*inherited_event_count` gets how
/// many of them are the parent's. Fails with `DSH_E_INVALID_BOUNDARY` for a seq that is not among the rows, else as `dsh_fold`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dsh_fork_seed(
    rows: *const c_char,
    rows_len: usize,
    boundary: u64,
    out: *mut dsh_buffer,
    inherited_event_count: *mut u64,
    err: *mut *mut dsh_error,
) -> dsh_status {
    // SAFETY: C2 (rows), C3 (out, inherited_event_count, err).
    unsafe {
        guard::call_free(err, || {
            let out = buffer_out(out)?;
            let count = Out::new(inherited_event_count, "the count")?;
            let (seed, inherited) = fork_seed(events(rows, rows_len)?, boundary)?;
            out.give(rows_text(&seed));
            count.set(inherited);
            Ok(DSH_OK)
        })
    }
}
