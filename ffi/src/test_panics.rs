//! Panics on purpose, one function for each kind of call: a released library does not have this file.

use crate::cancel::dsh_cancel;
use crate::errors::dsh_error;
use crate::events::dsh_events;
use crate::guard;
use crate::handle::Kind;
use crate::lines::dsh_lines;
use crate::listeners::dsh_subscription;
use crate::log::dsh_log;
use crate::messages::dsh_messages;
use crate::projections::dsh_projection;
use crate::session::dsh_session;
use crate::status::dsh_status;
use crate::store::dsh_store;

/// # Safety
/// C1 (handle), C3 (err).
unsafe fn panics<K: Kind>(handle: *const K, err: *mut *mut dsh_error) -> dsh_status {
    // SAFETY: C1, C3.
    unsafe { guard::call(handle, err, |_| panic!("on purpose, in the {}", K::WORD)) }
}

/// Panics inside a call on a store.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dsh_test_panic_store(
    handle: *const dsh_store,
    err: *mut *mut dsh_error,
) -> dsh_status {
    // SAFETY: C1, C3.
    unsafe { panics(handle, err) }
}

/// Panics inside a call on a session.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dsh_test_panic_session(
    handle: *const dsh_session,
    err: *mut *mut dsh_error,
) -> dsh_status {
    // SAFETY: C1, C3.
    unsafe { panics(handle, err) }
}

/// Panics inside a call on a log.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dsh_test_panic_log(handle: *const dsh_log, err: *mut *mut dsh_error) -> dsh_status {
    // SAFETY: C1, C3.
    unsafe { panics(handle, err) }
}

/// Panics inside a call on an iterator of events.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dsh_test_panic_events(
    handle: *const dsh_events,
    err: *mut *mut dsh_error,
) -> dsh_status {
    // SAFETY: C1, C3.
    unsafe { panics(handle, err) }
}

/// Panics inside a call on an iterator of lines.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dsh_test_panic_lines(
    handle: *const dsh_lines,
    err: *mut *mut dsh_error,
) -> dsh_status {
    // SAFETY: C1, C3.
    unsafe { panics(handle, err) }
}

/// Panics inside a call on a cancel token.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dsh_test_panic_cancel(
    handle: *const dsh_cancel,
    err: *mut *mut dsh_error,
) -> dsh_status {
    // SAFETY: C1, C3.
    unsafe { panics(handle, err) }
}

/// Panics inside a call on a subscription.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dsh_test_panic_subscription(
    handle: *const dsh_subscription,
    err: *mut *mut dsh_error,
) -> dsh_status {
    // SAFETY: C1, C3.
    unsafe { panics(handle, err) }
}

/// Panics inside a call on a list of messages.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dsh_test_panic_messages(
    handle: *const dsh_messages,
    err: *mut *mut dsh_error,
) -> dsh_status {
    // SAFETY: C1, C3.
    unsafe { panics(handle, err) }
}

/// Panics inside a call on the context of a projection.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dsh_test_panic_projection(
    handle: *const dsh_projection,
    err: *mut *mut dsh_error,
) -> dsh_status {
    // SAFETY: C1, C3.
    unsafe { panics(handle, err) }
}

/// Panics inside a call without a handle.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dsh_test_panic_free(err: *mut *mut dsh_error) -> dsh_status {
    // SAFETY: C3.
    unsafe { guard::call_free(err, || panic!("on purpose, without a handle")) }
}
