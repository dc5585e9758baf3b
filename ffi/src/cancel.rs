//! Cancel tokens: stopping a call from another thread or from a signal handler.

use crate::errors::dsh_error;
use crate::guard::{self, look};
use crate::handle::{self, Kind, give};
use crate::output::Out;
use crate::status::{DSH_OK, dsh_status};
use dsh_session_core::{CancelToken, Result};

/// Stops the calls it is given to, once and for good. May be fired from any thread and from a signal handler. A call that takes one
/// accepts NULL for none; it looks at the token before its work and between pieces of long work. A cancelled call that changes
/// something has done it all (`DSH_OK`) or nothing (`DSH_E_CANCELLED`). May be freed once no call that it was given to is running.
pub struct dsh_cancel {
    _opaque: [u8; 0],
}

impl Kind for dsh_cancel {
    type Value = CancelToken;
    const MAGIC: u64 = 0x6473_685f_6361_6e63;
    const WORD: &'static str = "cancel token";
}

/// The token behind a pointer; NULL is one that is never fired.
///
/// # Errors
/// `INVALID_ARGUMENT` for a pointer that is no token.
///
/// # Safety
/// C1.
pub(crate) unsafe fn token(pointer: *const dsh_cancel) -> Result<CancelToken> {
    if pointer.is_null() {
        return Ok(CancelToken::new());
    }
    // SAFETY: C1.
    Ok(unsafe { handle::borrow(pointer) }?.value.clone())
}

/// A new token, not fired. Free it with `dsh_cancel_free`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dsh_cancel_new(cancel: *mut *mut dsh_cancel, err: *mut *mut dsh_error) -> dsh_status {
    // SAFETY: C3 (cancel, err).
    unsafe {
        guard::call_free(err, || {
            Out::new(cancel, "the token")?.set(give(CancelToken::new()));
            Ok(DSH_OK)
        })
    }
}

/// Fires the token: one atomic store, safe in a signal handler and from any thread. NULL is fine.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dsh_cancel_fire(cancel: *const dsh_cancel) {
    if cancel.is_null() {
        return;
    }
    // Not through `borrow`, whose messages take memory, which a signal handler must not.
    // SAFETY: C1, and every kind of handle begins with its magic number.
    let magic = unsafe { &*cancel.cast::<std::sync::atomic::AtomicU64>() };
    if magic.load(std::sync::atomic::Ordering::Acquire) == dsh_cancel::MAGIC {
        // SAFETY: the magic number says that it is a token.
        unsafe { &*cancel.cast::<handle::Handle<CancelToken>>() }.value.cancel();
    }
}

/// Whether the token was fired. False for NULL.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dsh_cancel_is_fired(cancel: *const dsh_cancel) -> bool {
    // SAFETY: C1.
    unsafe { look(cancel, false, CancelToken::is_cancelled) }
}

/// Frees a token. NULL is fine.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dsh_cancel_free(cancel: *mut dsh_cancel) {
    // SAFETY: C1, last call.
    unsafe { guard::free(cancel, |_| {}) }
}
