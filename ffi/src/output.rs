//! What goes out: results are looked at before the work, so that nothing is done that cannot be told, and written after it.

use crate::input::{self, Sized1, invalid};
use dsh_session_core::Result;
use std::ptr;

/// A place for a result. Never read.
pub(crate) struct Out<T> {
    pointer: *mut T,
}

impl<T> Out<T> {
    /// A place that must be there.
    ///
    /// # Errors
    /// `INVALID_ARGUMENT` for NULL.
    ///
    /// # Safety
    /// C3, for as long as the call lasts.
    pub(crate) unsafe fn new(pointer: *mut T, what: &str) -> Result<Out<T>> {
        if pointer.is_null() {
            return Err(invalid(format!("the place for {what} is NULL")));
        }
        // SAFETY: C3.
        unsafe { Out::optional(pointer, what) }
    }

    /// A place that may be NULL, for a result that the caller may not want.
    ///
    /// # Errors
    /// `INVALID_ARGUMENT` for a pointer that is not aligned.
    ///
    /// # Safety
    /// C3, for as long as the call lasts.
    pub(crate) unsafe fn optional(pointer: *mut T, what: &str) -> Result<Out<T>> {
        if !pointer.is_null() && !pointer.is_aligned() {
            return Err(invalid(format!("the place for {what} is not aligned")));
        }
        Ok(Out { pointer })
    }

    /// Writes the result.
    pub(crate) fn set(self, value: T) {
        if !self.pointer.is_null() {
            // SAFETY: C3 was promised to `new`: not NULL, so writable; the old value is nothing that Rust would drop.
            unsafe { self.pointer.write(value) };
        }
    }
}

/// A place for a struct that begins with its `struct_size`, set by the caller.
pub(crate) struct OutStruct<T> {
    pointer: *mut T,
    size: usize,
}

impl<T: Sized1> OutStruct<T> {
    /// The place.
    ///
    /// # Errors
    /// `INVALID_ARGUMENT` for NULL and for a `struct_size` below that of version 1.
    ///
    /// # Safety
    /// C4, for as long as the call lasts.
    pub(crate) unsafe fn new(pointer: *mut T, what: &str) -> Result<OutStruct<T>> {
        if pointer.is_null() {
            return Err(invalid(format!("the place for {what} is NULL")));
        }
        // SAFETY: C4, not NULL.
        let size = unsafe { input::struct_size(pointer.cast_const(), what) }?;
        Ok(OutStruct { pointer, size })
    }

    /// How many bytes the caller's struct has.
    pub(crate) fn size(&self) -> usize {
        self.size
    }

    /// Writes the result; what the caller's struct has beyond it becomes zero. `value` must carry the `struct_size` to keep.
    pub(crate) fn set(self, value: T) {
        // SAFETY: C4 was promised to `new`, and `size >= SIZE_MIN == size_of::<T>()`.
        unsafe {
            self.pointer.write(value);
            let known = size_of::<T>();
            ptr::write_bytes(self.pointer.cast::<u8>().add(known), 0, self.size - known);
        }
    }
}
