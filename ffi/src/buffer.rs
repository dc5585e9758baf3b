//! Text that the library gives away, and text that it lends.

use crate::errors::dsh_error;
use crate::guard;
use crate::input;
use crate::output::Out;
use crate::status::{DSH_OK, dsh_status};
use dsh_session_core::Result;
use std::ffi::{c_char, c_void};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::ptr;

/// Text lent by the library: UTF-8 unless it is a path, and not ended by a NUL unless its giver says so. How
/// long it lives is said where it is given. Absent text is `{NULL, 0}`. Never grows another member.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct dsh_str {
    /// The first byte.
    pub ptr: *const c_char,
    /// How many bytes.
    pub len: usize,
}

impl dsh_str {
    pub(crate) const ABSENT: dsh_str = dsh_str { ptr: ptr::null(), len: 0 };

    pub(crate) fn of(text: &str) -> dsh_str {
        dsh_str { ptr: text.as_ptr().cast(), len: text.len() }
    }

    pub(crate) fn of_optional(text: Option<&str>) -> dsh_str {
        text.map_or(dsh_str::ABSENT, dsh_str::of)
    }
}

/// Text given by the library: the caller frees it with `dsh_buffer_free`. `data` is followed by a NUL that
/// `len` does not count. Begin with `DSH_BUFFER_INIT`; a call that fills a buffer does not look at what it
/// held, so free it before it is filled again. Never grows another member.
#[repr(C)]
#[derive(Debug)]
pub struct dsh_buffer {
    /// The first byte; NULL in an empty buffer.
    pub data: *const c_char,
    /// How many bytes.
    pub len: usize,
    /// The library's own; leave it alone.
    pub owner: *mut c_void,
}

impl dsh_buffer {
    pub(crate) const EMPTY: dsh_buffer = dsh_buffer { data: ptr::null(), len: 0, owner: ptr::null_mut() };

    fn give(mut text: String) -> dsh_buffer {
        let len = text.len();
        text.push('\0');
        let text = Box::new(text);
        let data = text.as_ptr().cast();
        dsh_buffer { data, len, owner: Box::into_raw(text).cast() }
    }
}

impl Out<dsh_buffer> {
    /// Gives a text away.
    pub(crate) fn give(self, text: String) {
        self.set(dsh_buffer::give(text));
    }

    /// Gives a text away, or an empty buffer. Nothing is made where nobody wants it: it would never be freed.
    pub(crate) fn give_optional(self, text: Option<String>) {
        if self.is_wanted() {
            self.set(text.map_or(dsh_buffer::EMPTY, dsh_buffer::give));
        }
    }
}

/// The text of a buffer that the host gives up, which a call or `dsh_buffer_new` had filled; none for an empty one.
///
/// # Safety
/// The buffer is empty or was filled by this library, and is not used afterwards.
pub(crate) unsafe fn take_text(buffer: dsh_buffer) -> String {
    if buffer.owner.is_null() {
        return String::new();
    }
    // SAFETY: `give` made the owner as a box, and the caller gave up its only copy.
    let mut text = unsafe { Box::from_raw(buffer.owner.cast::<String>()) };
    text.pop();
    *text
}

/// Fills a buffer with a copy of the caller's text, for a projection to return; any other is freed with `dsh_buffer_free`. Fails with
/// `DSH_E_INVALID_ARGUMENT` for text that is not UTF-8.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dsh_buffer_new(
    text: *const c_char,
    text_len: usize,
    buffer: *mut dsh_buffer,
    err: *mut *mut dsh_error,
) -> dsh_status {
    // SAFETY: C2 (text), C3 (buffer, err).
    unsafe {
        guard::call_free(err, || {
            let out = buffer_out(buffer)?;
            out.give(input::text(text, text_len, "the text")?.to_owned());
            Ok(DSH_OK)
        })
    }
}

/// A place for a buffer.
///
/// # Errors
/// `INVALID_ARGUMENT` for NULL.
///
/// # Safety
/// C3.
pub(crate) unsafe fn buffer_out(pointer: *mut dsh_buffer) -> Result<Out<dsh_buffer>> {
    // SAFETY: C3.
    unsafe { Out::new(pointer, "the buffer") }
}

/// Frees the text and leaves the buffer empty, ready to be filled again. NULL and empty buffers are fine.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dsh_buffer_free(buffer: *mut dsh_buffer) {
    if buffer.is_null() {
        return;
    }
    // SAFETY: C3, not NULL; a buffer is either empty or was filled by `give`, and only here is it emptied.
    let owner = unsafe { buffer.replace(dsh_buffer::EMPTY) }.owner;
    if !owner.is_null() {
        // SAFETY: `give` made the owner as a box, and this was its only copy.
        let _ = catch_unwind(AssertUnwindSafe(|| drop(unsafe { Box::from_raw(owner.cast::<String>()) })));
    }
}
