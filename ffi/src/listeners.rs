//! Listeners and validators: functions of the host that hear of live sessions and their events, and how they are taken away again.

use crate::callback::{Callback, dsh_destructor};
use crate::errors::{dsh_error, take_error};
use crate::events::{dsh_event, dsh_event_owner};
use crate::guard;
use crate::handle::{Handle, Kind, give};
use crate::input::invalid;
use crate::output::Out;
use crate::projections::RegisteredProjection;
use crate::session::{SessionValue, dsh_session};
use crate::status::{DSH_OK, code_of, dsh_status};
use crate::store::dsh_store;
use dsh_session_core::session::Subscription;
use dsh_session_core::session::upload_exclusions::UploadRegistration;
use dsh_session_core::store::SessionStore;
use dsh_session_core::{Code, Error, Event, Result, Session};
use std::ffi::c_void;
use std::ptr;

/// Hears of an event, or judges one. 0 is fine; with anything else `*error` may be set to an error of `dsh_error_new`, which the library
/// then owns (without one, a negative `DSH_E_...` code is the error). `session` and `event` are lent until the function returns:
/// `dsh_event_retain` keeps an event, and `dsh_store_get` a session. It must not unwind or jump out.
///
/// It runs on the appending thread, inside the store's gate: it may read anything and append to other sessions of the store; an append to
/// the same session is refused (`APPEND_REENTRANT`). Waiting there for another thread that appends to the store is a deadlock.
pub type dsh_event_callback = Option<
    unsafe extern "C" fn(
        session: *mut dsh_session,
        event: *const dsh_event,
        user: *mut c_void,
        error: *mut *mut dsh_error,
    ) -> i32,
>;

/// Hears of a session. As `dsh_event_callback`.
pub type dsh_session_callback = Option<
    unsafe extern "C" fn(session: *mut dsh_session, user: *mut c_void, error: *mut *mut dsh_error) -> i32,
>;

type EventFunction =
    unsafe extern "C" fn(*mut dsh_session, *const dsh_event, *mut c_void, *mut *mut dsh_error) -> i32;
type SessionFunction = unsafe extern "C" fn(*mut dsh_session, *mut c_void, *mut *mut dsh_error) -> i32;

/// A registered listener, validator, projection or upload predicate. Used by many threads at once. May outlive its store; what it
/// registered is taken away when it is freed.
pub struct dsh_subscription {
    _opaque: [u8; 0],
}

/// What was registered.
#[derive(Debug)]
pub(crate) enum SubscriptionValue {
    Listener(Subscription),
    Projection(RegisteredProjection),
    UploadPredicate(UploadRegistration),
}

impl SubscriptionValue {
    fn cancel(&self) {
        match self {
            SubscriptionValue::Listener(subscription) => subscription.cancel(),
            SubscriptionValue::Projection(projection) => projection.unregister(),
            SubscriptionValue::UploadPredicate(predicate) => predicate.unregister(),
        }
    }
}

impl Kind for dsh_subscription {
    type Value = SubscriptionValue;
    const MAGIC: u64 = 0x6473_685f_7375_6273;
    const WORD: &'static str = "subscription";
}

/// Takes the function away. An append that goes on calls it to its end; the next one does not, and neither does this one if a listener takes
/// itself away. The destructor runs once the function cannot be called any more, which may be inside this call. A second call does
/// nothing. Sessions that a projection was applied in refuse to show their surface and to append from then on
/// (`PROJECTION_REMOVED`); build them anew from their events.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dsh_subscription_cancel(
    subscription: *mut dsh_subscription,
    err: *mut *mut dsh_error,
) -> dsh_status {
    // SAFETY: C1 (subscription), C3 (err).
    unsafe {
        guard::call(subscription, err, |value| {
            value.cancel();
            Ok(DSH_OK)
        })
    }
}

/// Takes the function away and frees the subscription. NULL is fine.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dsh_subscription_free(subscription: *mut dsh_subscription) {
    // SAFETY: C1, last call.
    unsafe { guard::free(subscription, SubscriptionValue::cancel) }
}

/// Takes what a callback returned, and the error that it gave, which is the library's now whatever it returned.
///
/// # Safety
/// C1 (error), given up.
pub(crate) unsafe fn outcome(returned: i32, error: *mut dsh_error, otherwise: Code) -> Result<()> {
    // SAFETY: C1, given up.
    let given = unsafe { take_error(error) };
    match (returned, given) {
        (0, _) => Ok(()),
        (_, Some(error)) => Err(error),
        (returned, None) => {
            let code = code_of(returned).unwrap_or(otherwise);
            Err(Error::new(code, format!("a callback returned {returned} and gave no error")))
        }
    }
}

/// The session as a callback sees it: lent, and not kept open by it. The process is that of the registration: a forked child appends
/// nothing.
fn lend(session: &Session, process_id: u32) -> Handle<SessionValue> {
    Handle::lent_in::<dsh_session>(SessionValue::new(session.clone(), None), process_id)
}

fn event_listener(
    callback: Callback<EventFunction>,
) -> impl Fn(&Session, &Event) -> Result<()> + Send + Sync + 'static {
    let process_id = std::process::id();
    move |session, event| {
        let session = lend(session, process_id);
        let event = Handle::lent_in::<dsh_event_owner>(event.clone(), process_id);
        let view = dsh_event::of(&event, size_of::<dsh_event>());
        let mut error = ptr::null_mut();
        let callback = &callback;
        // SAFETY: C6; session and view live until the call returns.
        unsafe {
            let lent = ptr::from_ref(&session).cast_mut().cast();
            let returned = (callback.function)(lent, &view, callback.user, &mut error);
            outcome(returned, error, Code::EventRefused)
        }
    }
}

fn session_listener(
    callback: Callback<SessionFunction>,
) -> impl Fn(&Session) -> Result<()> + Send + Sync + 'static {
    let process_id = std::process::id();
    move |session| {
        let session = lend(session, process_id);
        let mut error = ptr::null_mut();
        let callback = &callback;
        // SAFETY: C6; the session lives until the call returns.
        unsafe {
            let lent = ptr::from_ref(&session).cast_mut().cast();
            let returned = (callback.function)(lent, callback.user, &mut error);
            outcome(returned, error, Code::SessionRefused)
        }
    }
}

/// Gives a subscription to a caller who wants it; for one who does not, what was registered stays as long as the store.
pub(crate) fn give_subscription(
    out: Out<*mut dsh_subscription>,
    value: SubscriptionValue,
) -> Result<dsh_status> {
    if out.is_wanted() {
        out.set(give(value));
    }
    Ok(DSH_OK)
}

/// # Safety
/// C1 (store), C6 (function, destructor), C3 (subscription, err).
unsafe fn register<F>(
    store: *mut dsh_store,
    function: Option<F>,
    (user, destructor): (*mut c_void, dsh_destructor),
    subscription: *mut *mut dsh_subscription,
    err: *mut *mut dsh_error,
    add: impl FnOnce(&SessionStore, Callback<F>) -> Subscription,
) -> dsh_status {
    // SAFETY: C1, C6, C3.
    unsafe {
        guard::call(store, err, |value| {
            let out = Out::optional(subscription, "the subscription")?;
            let function = function.ok_or_else(|| invalid("the callback is NULL"))?;
            let live = value.open()?.live();
            let subscription = add(live, Callback::new(function, user, destructor));
            give_subscription(out, SubscriptionValue::Listener(subscription))
        })
    }
}

/// Calls `callback` with each event that a live session of the store commits, in order, from the next append on. All members of a batch
/// are in the session when the first of them is told. What the callback fails with is given to the log callback; the append has
/// succeeded all the same.
///
/// `destructor` (or NULL) is called once with `user`, after the last call: when the subscription is cancelled or freed, or when the store
/// and everything opened from it, subscriptions included, are freed. If this call fails it is not called. `user` must not own the
/// store, or neither ever goes. `subscription` may be NULL: the callback stays as long as the store. Fails with
/// `DSH_E_INVALID_ARGUMENT`, `DSH_E_HANDLE_CLOSED`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dsh_store_on_event(
    store: *mut dsh_store,
    callback: dsh_event_callback,
    user: *mut c_void,
    destructor: dsh_destructor,
    subscription: *mut *mut dsh_subscription,
    err: *mut *mut dsh_error,
) -> dsh_status {
    // SAFETY: C1 (store), C6 (callback, destructor), C3 (subscription, err).
    unsafe {
        register(store, callback, (user, destructor), subscription, err, |live, callback| {
            live.on_event(event_listener(callback))
        })
    }
}

/// Asks `callback` about each event before it is accepted, after every rule of the library; of a batch about all members before any is
/// committed. What it fails with refuses the append: `DSH_E_EVENT_REFUSED`, `DISPATCH_REJECTED`, with its error as cause. Destructor,
/// subscription and errors as in `dsh_store_on_event`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dsh_store_add_validator(
    store: *mut dsh_store,
    callback: dsh_event_callback,
    user: *mut c_void,
    destructor: dsh_destructor,
    subscription: *mut *mut dsh_subscription,
    err: *mut *mut dsh_error,
) -> dsh_status {
    // SAFETY: C1 (store), C6 (callback, destructor), C3 (subscription, err).
    unsafe {
        register(store, callback, (user, destructor), subscription, err, |live, callback| {
            live.add_validator(event_listener(callback))
        })
    }
}

/// Calls `callback` with each session that is created, opened, resumed or forked, before it may be written. What it fails with is what the
/// call that made the session fails with; later listeners are not called and the session is closed. Destructor, subscription and
/// errors as in `dsh_store_on_event`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dsh_store_on_created(
    store: *mut dsh_store,
    callback: dsh_session_callback,
    user: *mut c_void,
    destructor: dsh_destructor,
    subscription: *mut *mut dsh_subscription,
    err: *mut *mut dsh_error,
) -> dsh_status {
    // SAFETY: C1 (store), C6 (callback, destructor), C3 (subscription, err).
    unsafe {
        register(store, callback, (user, destructor), subscription, err, |live, callback| {
            live.on_created(session_listener(callback))
        })
    }
}

/// Calls `callback` with each session that has left the store: it is closed, and what it holds in memory can still be read. What the callback
/// fails with is given to the log callback. Destructor, subscription and errors as in `dsh_store_on_event`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dsh_store_on_disposed(
    store: *mut dsh_store,
    callback: dsh_session_callback,
    user: *mut c_void,
    destructor: dsh_destructor,
    subscription: *mut *mut dsh_subscription,
    err: *mut *mut dsh_error,
) -> dsh_status {
    // SAFETY: C1 (store), C6 (callback, destructor), C3 (subscription, err).
    unsafe {
        register(store, callback, (user, destructor), subscription, err, |live, callback| {
            live.on_disposed(session_listener(callback))
        })
    }
}

/// Calls `callback` with each session that `dsh_session_flush` makes durable, on the flushing thread, when the events are on the disk and with
/// no lock of the library held. All listeners are called; then the flush fails with `DSH_E_FLUSH_FAILED` and the first one's error as
/// cause. Destructor, subscription and errors as in `dsh_store_on_event`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dsh_store_on_flush(
    store: *mut dsh_store,
    callback: dsh_session_callback,
    user: *mut c_void,
    destructor: dsh_destructor,
    subscription: *mut *mut dsh_subscription,
    err: *mut *mut dsh_error,
) -> dsh_status {
    // SAFETY: C1 (store), C6 (callback, destructor), C3 (subscription, err).
    unsafe {
        register(store, callback, (user, destructor), subscription, err, |live, callback| {
            live.on_flush(session_listener(callback))
        })
    }
}
