//! The one way in: checks the handle, catches panics, turns an error into a status and an object (`design.md` 7.8).

use crate::errors::{dsh_error, give_error};
use crate::handle::{self, Kind};
use crate::status::{dsh_status, status_of};
use dsh_session_core::{Code, Error, Result};
use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind};

/// A call on a handle. A panic inside spoils the handle: what it left half done is not looked at again.
///
/// # Safety
/// C1 (`pointer`), C3 (`err`), and what `body` needs.
pub(crate) unsafe fn call<K: Kind>(
    pointer: *const K,
    err: *mut *mut dsh_error,
    body: impl FnOnce(&K::Value) -> Result<dsh_status>,
) -> dsh_status {
    let work = || {
        // SAFETY: C1.
        let handle = unsafe { handle::borrow(pointer) }?;
        handle.check_usable::<K>()?;
        catch_unwind(AssertUnwindSafe(|| body(&handle.value))).unwrap_or_else(|panic| {
            handle.poison();
            Err(panicked(K::WORD, &*panic))
        })
    };
    // SAFETY: C3.
    unsafe { call_free(err, work) }
}

/// A call without a handle, or one that looks after its handle itself.
///
/// # Safety
/// C3 (`err`), and what `body` needs.
pub(crate) unsafe fn call_free(
    err: *mut *mut dsh_error,
    body: impl FnOnce() -> Result<dsh_status>,
) -> dsh_status {
    let outcome =
        catch_unwind(AssertUnwindSafe(body)).unwrap_or_else(|panic| Err(panicked("call", &*panic)));
    match outcome {
        Ok(status) => status,
        Err(error) => {
            let status = status_of(error.code());
            if !err.is_null() {
                // SAFETY: C3: it is not NULL, so it is writable.
                unsafe { err.write(give_error(error)) };
            }
            status
        }
    }
}

/// A look at a handle that cannot fail: `otherwise` where there is no usable one.
///
/// # Safety
/// C1.
pub(crate) unsafe fn look<K: Kind, T>(
    pointer: *const K,
    otherwise: T,
    body: impl FnOnce(&K::Value) -> T,
) -> T {
    // SAFETY: C1.
    let Ok(handle) = (unsafe { handle::borrow(pointer) }) else { return otherwise };
    catch_unwind(AssertUnwindSafe(|| body(&handle.value))).unwrap_or(otherwise)
}

/// Gives back a handle: `body` ends its work, unless a forked child frees what its parent opened. Never fails, NULL is fine.
///
/// # Safety
/// C1, and this is the last call on the handle.
pub(crate) unsafe fn free<K: Kind>(pointer: *mut K, body: impl FnOnce(&K::Value)) {
    // SAFETY: C1, last call.
    let Some(handle) = (unsafe { handle::take(pointer) }) else { return };
    // A panic here has nobody to tell; what it left is given up.
    let _ = catch_unwind(AssertUnwindSafe(|| {
        if handle.is_of_this_process() {
            body(&handle.value);
        }
        drop(handle);
    }));
}

fn panicked(word: &str, panic: &(dyn Any + Send)) -> Error {
    let text = panic
        .downcast_ref::<String>()
        .map(String::as_str)
        .or_else(|| panic.downcast_ref::<&str>().copied())
        .unwrap_or("no message");
    Error::new(Code::Panic, format!("the {word} stopped in the middle: {text}"))
}
