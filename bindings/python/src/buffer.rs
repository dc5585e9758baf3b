//! Lending bytes to Python without a copy: the buffer protocol, which the stable interface has from Python 3.11 on.
//!
//! The only unsafe code of this crate. What it rests on has a name:
//!
//! * **B1, the bytes stay**: the text of an event is never changed or moved once it is there, and the event that owns it lives as long as
//!   any view of it, because the view counts as a reference to the event.
#![expect(unsafe_code, reason = "the buffer protocol is made of raw pointers")]

use pyo3::ffi;
use pyo3::prelude::*;
use std::ffi::c_int;

/// Fills a view of bytes that `owner` owns, read-only.
///
/// # Errors
/// `BufferError` for a caller that wants to write.
///
/// # Safety
/// `view` may be written; B1 holds for `bytes` and `owner`.
pub(crate) unsafe fn lend(
    view: *mut ffi::Py_buffer,
    flags: c_int,
    owner: &Bound<'_, PyAny>,
    bytes: &[u8],
) -> PyResult<()> {
    const READ_ONLY: c_int = 1;
    // A slice is never longer than this.
    let len = ffi::Py_ssize_t::try_from(bytes.len()).unwrap_or(ffi::Py_ssize_t::MAX);
    let start = bytes.as_ptr().cast_mut().cast();
    // SAFETY: `view` may be written; the interpreter is attached, as `owner` shows; B1: the bytes live as long as the reference to
    // `owner` that the view takes, and nobody writes through a view that is read-only.
    let status = unsafe { ffi::PyBuffer_FillInfo(view, owner.as_ptr(), start, len, READ_ONLY, flags) };
    if status == 0 { Ok(()) } else { Err(PyErr::fetch(owner.py())) }
}
