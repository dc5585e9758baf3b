//! Events as C sees them: views of the row text plus the numbers of the envelope, one by one or in batches.
//!
//! A view points into the text buffer that the core's event shares with its neighbours; nothing is copied.
//! What keeps that buffer alive is the view's `owner`: an event inside the iterator, replaced by its next
//! call, or a kept one.

use crate::buffer::{buffer_out, dsh_buffer, dsh_str};
use crate::errors::{ErrorValue, dsh_error, lent_error};
use crate::guard;
use crate::handle::{Handle, Kind, give};
use crate::input::{Sized1, invalid};
use crate::lines::{LinesValue, dsh_lines};
use crate::output::{Out, OutStruct};
use crate::status::{DSH_DONE, DSH_OK, dsh_status};
use dsh_session_core::persistence::Events;
use dsh_session_core::query::Salvage;
use dsh_session_core::{Error, Event, Result};
use std::iter;
use std::ptr;
use std::sync::Mutex;

/// A bit of `dsh_event.flags`: a reader that does not know the type may keep the event without understanding
/// it.
pub const DSH_EVENT_IGNORABLE: u32 = 1;

/// Text after which a batch ends even if there is room for more events: what an iterator holds stays small,
/// however large the rows.
pub const BATCH_BYTES_MAX: usize = 1 << 20;

/// What keeps the texts of an event alive: part of an iterator, or a kept event.
pub struct dsh_event_owner {
    _opaque: [u8; 0],
}

impl Kind for dsh_event_owner {
    type Value = Event;
    const MAGIC: u64 = 0x6473_685f_6576_6e74;
    const WORD: &'static str = "event";
}

/// One event. Begin with `DSH_EVENT_INIT`. The texts are lent: until the next call on the iterator that gave
/// the event, or until `dsh_event_release` for a kept one. They are not ended by a NUL.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct dsh_event {
    /// `sizeof(dsh_event)`, set by the caller.
    pub struct_size: usize,
    /// The position in the log, from 0.
    pub seq: u64,
    /// Milliseconds since 1970, as the writer's clock said.
    pub time: i64,
    /// `DSH_EVENT_IGNORABLE` or 0; other bits may come.
    pub flags: u32,
    /// Zero.
    pub reserved: u32,
    /// The event type, such as `turn/start`.
    pub r#type: dsh_str,
    /// The row as stored: JSON text without a newline.
    pub row: dsh_str,
    /// The payload: JSON text.
    pub data: dsh_str,
    /// `surfaceOp` as stored: JSON text; absent where the row has none.
    pub surface_op: dsh_str,
    /// `sourceEventSeqs` as stored, runs as pairs: JSON text; absent where the row has none.
    /// `dsh_event_logical_row` expands them.
    pub source_event_seqs: dsh_str,
    /// The library's own: what keeps the texts alive.
    pub owner: *const dsh_event_owner,
}

impl Sized1 for dsh_event {
    const SIZE_MIN: usize = size_of::<dsh_event>();
}

impl dsh_event {
    /// The view of an event that lies in a handle.
    pub(crate) fn of(handle: &Handle<Event>, struct_size: usize) -> dsh_event {
        let event = &handle.value;
        dsh_event {
            struct_size,
            seq: event.seq(),
            time: event.time(),
            flags: if event.ignorable() { DSH_EVENT_IGNORABLE } else { 0 },
            reserved: 0,
            r#type: dsh_str::of(event.kind()),
            row: dsh_str::of(event.row()),
            data: dsh_str::of(event.data().text()),
            surface_op: dsh_str::of_optional(event.surface_op_text()),
            source_event_seqs: dsh_str::of_optional(event.source_event_seqs_text()),
            owner: ptr::from_ref(handle).cast(),
        }
    }
}

/// A walk over events, in bounded memory. Used by one thread at a time, any one. Keeps alive what it walks
/// over.
pub struct dsh_events {
    _opaque: [u8; 0],
}

impl Kind for dsh_events {
    type Value = EventsValue;
    const MAGIC: u64 = 0x6473_685f_6576_6974;
    const WORD: &'static str = "iterator of events";
}

/// The walk and the events whose texts are lent.
#[derive(Debug)]
pub(crate) struct EventsValue(Mutex<Walk>);

#[derive(Debug)]
struct Walk {
    source: Source,
    lent: Vec<Handle<Event>>,
    /// What ended a batch that had events before it: told by the next call.
    failure: Option<Error>,
    /// What stopped a salvage, once it was asked for; at an address that does not move.
    damage: Option<Box<Handle<ErrorValue>>>,
}

/// Where the events come from.
#[derive(Debug)]
enum Source {
    Events(Events),
    Salvage(Box<Salvage>),
}

impl EventsValue {
    /// Gives the events that come next to `body`, which takes as many as it wants: they are not given again. What a view lent is gone.
    ///
    /// # Errors
    /// `INVALID_ARGUMENT` if another thread is inside, and what the reading finds, whatever `body` made of the events before it.
    pub(crate) fn take<T>(&self, body: impl FnOnce(&mut dyn Iterator<Item = Event>) -> T) -> Result<T> {
        let mut walk = self.0.try_lock().map_err(|_| busy(dsh_events::WORD))?;
        walk.lent.clear();
        let mut failure = None;
        let taken = body(&mut iter::from_fn(|| {
            walk.next().unwrap_or_else(|error| {
                failure = Some(error);
                None
            })
        }));
        failure.map_or(Ok(taken), Err)
    }

    pub(crate) fn new(events: Events) -> EventsValue {
        EventsValue::of(Source::Events(events))
    }

    /// A walk over events in memory.
    pub(crate) fn listed(events: Vec<Event>) -> EventsValue {
        let mut events = events.into_iter();
        EventsValue::new(Events::from_fn(move || Ok(events.next())))
    }

    pub(crate) fn salvage(salvage: Salvage) -> EventsValue {
        EventsValue::of(Source::Salvage(Box::new(salvage)))
    }

    fn of(source: Source) -> EventsValue {
        EventsValue(Mutex::new(Walk { source, lent: Vec::new(), failure: None, damage: None }))
    }
}

pub(crate) fn busy(word: &str) -> Error {
    invalid(format!("another thread is inside this {word}"))
        .with_advice("let one thread at a time use an iterator")
}

impl Walk {
    fn next(&mut self) -> Result<Option<Event>> {
        match self.failure.take() {
            Some(failure) => Err(failure),
            None => match &mut self.source {
                Source::Events(events) => events.next().transpose(),
                Source::Salvage(salvage) => salvage.next().transpose(),
            },
        }
    }

    /// Reads up to `capacity` events into `lent`; a failure after the first waits for the next call.
    fn fill(&mut self, capacity: usize) -> Result<()> {
        self.lent.clear();
        let process_id = std::process::id();
        let mut bytes = 0;
        while self.lent.len() < capacity && bytes < BATCH_BYTES_MAX {
            match self.next() {
                Ok(Some(event)) => {
                    bytes += event.row().len();
                    self.lent.push(Handle::lent_in::<dsh_event_owner>(event, process_id));
                }
                Ok(None) => break,
                Err(error) if self.lent.is_empty() => return Err(error),
                Err(error) => {
                    self.failure = Some(error);
                    break;
                }
            }
        }
        Ok(())
    }
}

/// The next event; `DSH_DONE` at the end. The texts of the event given before are gone. Fails with what the
/// reading finds (`DSH_E_SESSION_CORRUPT`, `DSH_E_SOURCE_CHANGED`, `DSH_E_LIMIT_EXCEEDED`, `DSH_E_CANCELLED`,
/// `DSH_E_IO`); after that there is nothing more. `DSH_E_INVALID_ARGUMENT` if another thread is inside.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dsh_events_next(
    events: *mut dsh_events,
    event: *mut dsh_event,
    err: *mut *mut dsh_error,
) -> dsh_status {
    // SAFETY: C1 (events), C4 (event), C3 (err).
    unsafe {
        guard::call(events, err, |value| {
            let out = OutStruct::new(event, "the event")?;
            let mut walk = value.0.try_lock().map_err(|_| busy(dsh_events::WORD))?;
            walk.fill(1)?;
            let Some(handle) = walk.lent.first() else { return Ok(DSH_DONE) };
            let view = dsh_event::of(handle, out.size());
            out.set(view);
            Ok(DSH_OK)
        })
    }
}

/// Several events at once: up to `capacity` of them into the array, `*count` says how many. The first
/// element's `struct_size` counts for all of them, and is the distance between them. A batch ends early after
/// 1 MiB of row text, and before a failure, which the next call reports. `DSH_DONE` when there was none left.
/// Otherwise as `dsh_events_next`: all texts live until the next call.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dsh_events_next_batch(
    events: *mut dsh_events,
    batch: *mut dsh_event,
    capacity: usize,
    count: *mut usize,
    err: *mut *mut dsh_error,
) -> dsh_status {
    // SAFETY: C1 (events), C4 (batch: `capacity` structs), C3 (count, err).
    unsafe {
        guard::call(events, err, |value| {
            if capacity == 0 {
                return Err(invalid("a batch needs room for one event at least"));
            }
            let count = Out::new(count, "the count")?;
            let stride = OutStruct::new(batch, "the batch")?.size();
            if stride % align_of::<dsh_event>() != 0 {
                return Err(invalid(format!("a struct_size of {stride} cannot stand in an array")));
            }
            let mut walk = value.0.try_lock().map_err(|_| busy(dsh_events::WORD))?;
            walk.fill(capacity)?;
            if walk.lent.is_empty() {
                return Ok(DSH_DONE);
            }
            for (index, handle) in walk.lent.iter().enumerate() {
                let place = batch.byte_add(index * stride);
                place.cast::<usize>().write(stride);
                OutStruct::new(place, "the batch")?.set(dsh_event::of(handle, stride));
            }
            count.set(walk.lent.len());
            Ok(DSH_OK)
        })
    }
}

/// What stopped a salvage, once its iterator has said `DSH_DONE`: NULL where the log is whole, and for an
/// iterator that is no salvage. Lent: it lives as long as the iterator, and is not to be freed.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dsh_events_damage(
    events: *mut dsh_events,
    damage: *mut *const dsh_error,
    err: *mut *mut dsh_error,
) -> dsh_status {
    // SAFETY: C1 (events), C3 (damage, err).
    unsafe {
        guard::call(events, err, |value| {
            let out = Out::new(damage, "the damage")?;
            let mut walk = value.0.try_lock().map_err(|_| busy(dsh_events::WORD))?;
            if let (Source::Salvage(salvage), None) = (&walk.source, &walk.damage) {
                walk.damage = salvage.damage().map(|error| Box::new(lent_error(error.duplicate())));
            }
            out.set(walk.damage.as_deref().map_or(ptr::null(), |handle| ptr::from_ref(handle).cast()));
            Ok(DSH_OK)
        })
    }
}

/// What is readable after the damage that stopped a salvage, once its iterator has said `DSH_DONE`, as the
/// lines of `dsh_query_rows`; none where the log is whole. The iterator of lines is freed with
/// `dsh_lines_free`. Fails with `DSH_E_INVALID_ARGUMENT` if `events` is no salvage.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dsh_events_after_damage(
    events: *mut dsh_events,
    lines: *mut *mut dsh_lines,
    err: *mut *mut dsh_error,
) -> dsh_status {
    // SAFETY: C1 (events), C3 (lines, err).
    unsafe {
        guard::call(events, err, |value| {
            let out = Out::new(lines, "the iterator of lines")?;
            let walk = value.0.try_lock().map_err(|_| busy(dsh_events::WORD))?;
            let Source::Salvage(salvage) = &walk.source else {
                return Err(invalid("the iterator is no salvage"));
            };
            let mut rows = salvage.after_damage()?;
            out.set(give(LinesValue::new(move || Ok(rows.next().transpose()?.map(|row| row.to_json())))));
            Ok(DSH_OK)
        })
    }
}

/// Frees the iterator and with it the texts of the events it gave last. NULL is fine.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dsh_events_free(events: *mut dsh_events) {
    // SAFETY: C1, last call.
    unsafe { guard::free(events, |_| {}) }
}

/// Keeps an event beyond the next call on its iterator: `*kept` gets the same facts, with texts that live
/// until `dsh_event_release`. Nothing is copied; the buffer that the row shares with its neighbours (about 1
/// MiB) stays as long as one of them is kept.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dsh_event_retain(
    event: *const dsh_event,
    kept: *mut dsh_event,
    err: *mut *mut dsh_error,
) -> dsh_status {
    // SAFETY: C5 (event), C4 (kept), C3 (err).
    unsafe {
        guard::call_free(err, || {
            let out = OutStruct::new(kept, "the kept event")?;
            give_event(out, owner_of(event)?.clone())
        })
    }
}

/// Gives back a kept event and sets everything in it but `struct_size` to zero. NULL, an empty event and one
/// that was not kept are fine.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dsh_event_release(event: *mut dsh_event) {
    if event.is_null() {
        return;
    }
    // SAFETY: C4 (event): it is there, and of version 1 at least.
    unsafe {
        let Ok(out) = OutStruct::new(event, "the event") else { return };
        let owner = (*event).owner;
        let size = out.size();
        out.set(dsh_event { struct_size: size, ..std::mem::zeroed() });
        guard::free(owner.cast_mut(), |_| {});
    }
}

/// The row with the pairs of `sourceEventSeqs` expanded to numbers: what other programs take. The stored row
/// where there are none.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dsh_event_logical_row(
    event: *const dsh_event,
    out: *mut dsh_buffer,
    err: *mut *mut dsh_error,
) -> dsh_status {
    // SAFETY: C5 (event), C3 (out, err).
    unsafe {
        guard::call_free(err, || {
            let out = buffer_out(out)?;
            out.give(owner_of(event)?.logical_row().into_owned());
            Ok(DSH_OK)
        })
    }
}

/// Gives a kept event.
///
/// # Errors
/// None: the handle was made just now.
pub(crate) fn give_event(out: OutStruct<dsh_event>, event: Event) -> Result<dsh_status> {
    let owner = give::<dsh_event_owner>(event);
    // SAFETY: it was given just now.
    let view = dsh_event::of(unsafe { crate::handle::borrow(owner.cast_const()) }?, out.size());
    out.set(view);
    Ok(DSH_OK)
}

/// The core's event behind a view.
///
/// # Errors
/// `INVALID_ARGUMENT` for NULL, an empty view, a `struct_size` that is too small.
///
/// # Safety
/// C5.
pub(crate) unsafe fn owner_of<'a>(event: *const dsh_event) -> Result<&'a Event> {
    if event.is_null() {
        return Err(invalid("the event is NULL"));
    }
    // SAFETY: C4 and C5: the struct is there, and its owner is alive.
    unsafe {
        crate::input::struct_size(event, "the event")?;
        Ok(&crate::handle::borrow((*event).owner)?.value)
    }
}
