//! Message projections of the host: it decides what an event of one type does to the content of earlier messages.

use crate::buffer::{buffer_out, dsh_buffer, take_text};
use crate::callback::{Callback, dsh_destructor};
use crate::errors::dsh_error;
use crate::events::{dsh_event, dsh_event_owner, give_event};
use crate::guard::{self, look};
use crate::handle::{Handle, Kind, give};
use crate::input::{self, invalid};
use crate::listeners::{SubscriptionValue, dsh_subscription, give_subscription, outcome};
use crate::messages::{MessagesValue, dsh_messages};
use crate::output::{Out, OutStruct};
use crate::status::{DSH_ABSENT, DSH_OK, dsh_status};
use crate::store::dsh_store;
use crate::surface::dsh_seqs;
use dsh_session_core::json::{self, DEPTH_MAX_DEFAULT, Json};
use dsh_session_core::session::{ProjectionContext, Registration};
use dsh_session_core::{Code, Error, Event, Result};
use std::ffi::{c_char, c_void};
use std::fmt;
use std::ptr;
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{self, ThreadId};

/// What a projection sees: everything as of just before its event. Lent until the projection returns, and used on its thread only.
pub struct dsh_projection {
    _opaque: [u8; 0],
}

/// The context of a projection that runs.
pub(crate) struct ContextValue {
    /// Lives until the projection returns.
    context: *const ProjectionContext<'static>,
    thread: ThreadId,
}

impl Kind for dsh_projection {
    type Value = ContextValue;
    const MAGIC: u64 = 0x6473_685f_7072_6f6a;
    const WORD: &'static str = "context of a projection";
}

impl ContextValue {
    /// # Errors
    /// `INVALID_ARGUMENT` on another thread than the projection's.
    fn open(&self) -> Result<&ProjectionContext<'_>> {
        if thread::current().id() != self.thread {
            return Err(invalid(
                "the context of a projection was used on another thread than the projection's",
            ));
        }
        // SAFETY: C1: the projection has not returned, so the context is there.
        Ok(unsafe { &*self.context.cast() })
    }
}

/// Decides what `event` does to the messages before it. `messages` gets the changed ones with `dsh_buffer_new`, as a JSON array of objects
/// with `seq`, an event on the surface, and `message`, the whole new message under its old id; left empty, nothing changes. Pure: the
/// same events, the same decision. 0 is fine; anything else refuses the event, with `*error` as in `dsh_event_callback`. `event` and
/// `context` are lent until the function returns. It runs inside the store's gate as a `dsh_event_callback` does.
pub type dsh_projection_callback = Option<
    unsafe extern "C" fn(
        event: *const dsh_event,
        context: *const dsh_projection,
        user: *mut c_void,
        messages: *mut dsh_buffer,
        error: *mut *mut dsh_error,
    ) -> i32,
>;

type ProjectionFunction = unsafe extern "C" fn(
    *const dsh_event,
    *const dsh_projection,
    *mut c_void,
    *mut dsh_buffer,
    *mut *mut dsh_error,
) -> i32;

/// Where the function is as long as it is registered: sessions that applied the projection keep its definition, and not what it calls.
type Slot = Arc<Mutex<Option<Arc<Callback<ProjectionFunction>>>>>;

/// A registered projection.
pub(crate) struct RegisteredProjection {
    registration: Registration,
    slot: Slot,
}

impl fmt::Debug for RegisteredProjection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RegisteredProjection").finish_non_exhaustive()
    }
}

impl RegisteredProjection {
    pub(crate) fn unregister(&self) {
        self.registration.unregister();
        // Outside of the lock: the destructor is the host's code.
        drop(take(&self.slot));
    }
}

fn take(slot: &Slot) -> Option<Arc<Callback<ProjectionFunction>>> {
    slot.lock().unwrap_or_else(PoisonError::into_inner).take()
}

/// Registers a projection for an event type: one that the store's settings name with `changesMessages`, or any known one that makes no
/// message itself. Every session of the store has it from now on, in appends, seeds and logs that are read. The library's own one,
/// for `image/offload`, is registered already. `subscription` takes it away again (see `dsh_subscription_cancel`); if it is NULL the
/// projection stays as long as the store. Destructor as in `dsh_store_on_event`. Fails with `DSH_E_SESSION_REFUSED`,
/// `PROJECTION_ALREADY_REGISTERED`; `DSH_E_INVALID_ARGUMENT` for a type that makes messages itself; `DSH_E_HANDLE_CLOSED`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dsh_store_register_projection(
    store: *mut dsh_store,
    event_type: *const c_char,
    event_type_len: usize,
    callback: dsh_projection_callback,
    user: *mut c_void,
    destructor: dsh_destructor,
    subscription: *mut *mut dsh_subscription,
    err: *mut *mut dsh_error,
) -> dsh_status {
    // SAFETY: C1 (store), C2 (event_type), C6 (callback, destructor), C3 (subscription, err).
    unsafe {
        guard::call(store, err, |value| {
            let out = Out::optional(subscription, "the subscription")?;
            let event_type = input::some_text(event_type, event_type_len, "the event type")?;
            let function = callback.ok_or_else(|| invalid("the callback is NULL"))?;
            let projections = value.open()?.live().projections();
            let slot: Slot = Arc::new(Mutex::new(Some(Arc::new(Callback::new(function, user, destructor)))));
            match projections.register(event_type, projection(Arc::clone(&slot))) {
                Ok(registration) => {
                    let registered = RegisteredProjection { registration, slot };
                    give_subscription(out, SubscriptionValue::Projection(registered))
                }
                Err(error) => {
                    take(&slot).and_then(Arc::into_inner).map(Callback::disarm).unwrap_or_default();
                    Err(error)
                }
            }
        })
    }
}

fn projection(
    slot: Slot,
) -> impl Fn(&Event, &ProjectionContext<'_>) -> Result<Vec<(u64, String)>> + Send + Sync + 'static {
    let process_id = std::process::id();
    move |event, context| {
        let callback = slot.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let callback =
            callback.ok_or_else(|| Error::new(Code::EventRefused, "the projection was taken away"))?;
        let event = Handle::lent_in::<dsh_event_owner>(event.clone(), process_id);
        let view = dsh_event::of(&event, size_of::<dsh_event>());
        let context = ContextValue { context: ptr::from_ref(context).cast(), thread: thread::current().id() };
        let context = Handle::lent_in::<dsh_projection>(context, process_id);
        let (mut messages, mut error) = (dsh_buffer::EMPTY, ptr::null_mut());
        // SAFETY: C6; view and context live until the call returns, and the buffer is the library's afterwards.
        unsafe {
            let lent = ptr::from_ref(&context).cast();
            let returned = (callback.function)(&view, lent, callback.user, &mut messages, &mut error);
            let text = take_text(messages);
            outcome(returned, error, Code::EventRefused)?;
            decided(&text)
        }
    }
}

/// The messages that a projection's text gives.
fn decided(text: &str) -> Result<Vec<(u64, String)>> {
    if text.is_empty() {
        return Ok(Vec::new());
    }
    let malformed = || {
        let message = "it returned no JSON array of objects with `seq` and `message`";
        Error::new(Code::EventRefused, message)
    };
    let array = Json::parse(text, DEPTH_MAX_DEFAULT).map_err(|_| malformed())?;
    if array.kind() != json::Kind::Array {
        return Err(malformed());
    }
    let read = |entry: Json<'_>| {
        let seq = entry.get("seq").and_then(|seq| seq.as_count());
        let message = entry.get("message").map(|message| message.text().to_owned());
        seq.zip(message).ok_or_else(malformed)
    };
    array.elements().map(read).collect()
}

/// # Safety
/// C1 (context), and what `body` needs.
unsafe fn inside(
    context: *const dsh_projection,
    err: *mut *mut dsh_error,
    body: impl FnOnce(&ProjectionContext<'_>) -> Result<dsh_status>,
) -> dsh_status {
    // SAFETY: C1, C3.
    unsafe { guard::call(context, err, |value| body(value.open()?)) }
}

/// The seqs on the surface, in model order. Freed with `dsh_seqs_free`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dsh_projection_nodes(
    context: *const dsh_projection,
    nodes: *mut dsh_seqs,
    err: *mut *mut dsh_error,
) -> dsh_status {
    // SAFETY: C1 (context), C3 (nodes, err).
    unsafe {
        inside(context, err, |context| {
            Out::new(nodes, "the list of seqs")?.set(dsh_seqs::give(Arc::new(context.nodes().collect())));
            Ok(DSH_OK)
        })
    }
}

/// Whether an event is on the surface. False for NULL.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dsh_projection_is_on_surface(context: *const dsh_projection, seq: u64) -> bool {
    // SAFETY: C1.
    unsafe { look(context, false, |value| value.open().is_ok_and(|context| context.is_on_surface(seq))) }
}

/// The seq of the first event that can be seen: 0, but in a window of a log.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dsh_projection_base_seq(
    context: *const dsh_projection,
    seq: *mut u64,
    err: *mut *mut dsh_error,
) -> dsh_status {
    // SAFETY: C1 (context), C3 (seq, err).
    unsafe {
        inside(context, err, |context| {
            Out::new(seq, "the seq")?.set(context.base_seq());
            Ok(DSH_OK)
        })
    }
}

/// An earlier event, kept: release it with `dsh_event_release`. `DSH_ABSENT` where there is none.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dsh_projection_event(
    context: *const dsh_projection,
    seq: u64,
    event: *mut dsh_event,
    err: *mut *mut dsh_error,
) -> dsh_status {
    // SAFETY: C1 (context), C4 (event), C3 (err).
    unsafe {
        inside(context, err, |context| {
            let out = OutStruct::new(event, "the event")?;
            context.event(seq).map_or(Ok(DSH_ABSENT), |event| give_event(out, event))
        })
    }
}

/// The message of an event as earlier projections left it: a JSON object. `DSH_ABSENT` where there is none.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dsh_projection_message(
    context: *const dsh_projection,
    seq: u64,
    out: *mut dsh_buffer,
    err: *mut *mut dsh_error,
) -> dsh_status {
    // SAFETY: C1 (context), C3 (out, err).
    unsafe {
        inside(context, err, |context| {
            let out = buffer_out(out)?;
            let Some(message) = context.message(seq) else { return Ok(DSH_ABSENT) };
            out.give(message.text().to_owned());
            Ok(DSH_OK)
        })
    }
}

/// The messages that projections changed so far, by seq. The list is freed with `dsh_messages_free`, and may outlive the projection.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dsh_projection_projected(
    context: *const dsh_projection,
    messages: *mut *mut dsh_messages,
    err: *mut *mut dsh_error,
) -> dsh_status {
    // SAFETY: C1 (context), C3 (messages, err).
    unsafe {
        inside(context, err, |context| {
            let out = Out::new(messages, "the list of messages")?;
            out.set(give(MessagesValue::Own(context.projected().cloned().collect())));
            Ok(DSH_OK)
        })
    }
}
