//! What comes in: text as pointer and length, structs that say how large the caller thinks they are.

use dsh_session_core::{Code, Error, Result};
use std::ffi::c_char;
use std::mem::MaybeUninit;
use std::slice;

pub(crate) fn invalid(message: impl Into<String>) -> Error {
    Error::new(Code::InvalidArgument, message)
}

/// Bytes; NULL with length 0 is no bytes. Not checked as text: for JSON, whose ill-formed parts the core
/// replaces.
///
/// # Errors `INVALID_ARGUMENT` for NULL with a length, and for a length that no memory has.
///
/// # Safety C2.
pub(crate) unsafe fn bytes<'a>(pointer: *const c_char, length: usize, what: &str) -> Result<&'a [u8]> {
    if length == 0 {
        return Ok(&[]);
    }
    if pointer.is_null() {
        return Err(invalid(format!("{what} is NULL, but its length is {length}")));
    }
    if isize::try_from(length).is_err() {
        return Err(invalid(format!("the length of {what} is {length}: more than memory can hold")));
    }
    // SAFETY: C2: not NULL, so `length` bytes are readable and unchanged during the call; the length fits.
    Ok(unsafe { slice::from_raw_parts(pointer.cast(), length) })
}

/// Text, UTF-8.
///
/// # Errors
/// `INVALID_ARGUMENT`.
///
/// # Safety
/// C2.
pub(crate) unsafe fn text<'a>(pointer: *const c_char, length: usize, what: &str) -> Result<&'a str> {
    // SAFETY: C2.
    let bytes = unsafe { bytes(pointer, length, what) }?;
    std::str::from_utf8(bytes)
        .map_err(|error| invalid(format!("{what} is not UTF-8 at byte {}", error.valid_up_to())))
}

/// Text that must be there.
///
/// # Errors
/// `INVALID_ARGUMENT`, also for no text.
///
/// # Safety
/// C2.
pub(crate) unsafe fn some_text<'a>(pointer: *const c_char, length: usize, what: &str) -> Result<&'a str> {
    // SAFETY: C2.
    let text = unsafe { text(pointer, length, what) }?;
    if text.is_empty() { Err(invalid(format!("{what} is empty"))) } else { Ok(text) }
}

/// A session's id, which must be there.
///
/// # Errors
/// `INVALID_ARGUMENT`.
///
/// # Safety
/// C2.
pub(crate) unsafe fn id<'a>(pointer: *const c_char, length: usize) -> Result<&'a str> {
    // SAFETY: C2.
    unsafe { some_text(pointer, length, "the id") }
}

/// A session's id, or with NULL and length 0 none, which stands for all sessions.
///
/// # Errors
/// `INVALID_ARGUMENT`.
///
/// # Safety
/// C2.
pub(crate) unsafe fn optional_id<'a>(pointer: *const c_char, length: usize) -> Result<Option<&'a str>> {
    if pointer.is_null() && length == 0 {
        return Ok(None);
    }
    // SAFETY: C2.
    unsafe { id(pointer, length) }.map(Some)
}

/// Numbers; NULL with length 0 is none.
///
/// # Errors
/// `INVALID_ARGUMENT`.
///
/// # Safety
/// C2.
pub(crate) unsafe fn numbers<'a>(pointer: *const u64, count: usize, what: &str) -> Result<&'a [u64]> {
    if count == 0 {
        return Ok(&[]);
    }
    if pointer.is_null() || !pointer.is_aligned() {
        return Err(invalid(format!("{what} is NULL or not aligned, but its length is {count}")));
    }
    if isize::try_from(count.saturating_mul(size_of::<u64>())).is_err() {
        return Err(invalid(format!("the length of {what} is {count}: more than memory can hold")));
    }
    // SAFETY: C2: not NULL, aligned, and the length fits.
    Ok(unsafe { slice::from_raw_parts(pointer, count) })
}

/// A struct of C that begins with its `struct_size`, as its author knew it. Its members are numbers and pointers.
pub(crate) trait Sized1: Copy {
    /// The size in version 1 of the library: what every caller has at least.
    const SIZE_MIN: usize;
}

/// The `struct_size` at the beginning of a struct, checked against version 1.
///
/// # Errors
/// `INVALID_ARGUMENT`.
///
/// # Safety
/// C4, and `pointer` is not NULL.
pub(crate) unsafe fn struct_size<T: Sized1>(pointer: *const T, what: &str) -> Result<usize> {
    if !pointer.is_aligned() {
        return Err(invalid(format!("{what} is not aligned")));
    }
    // SAFETY: C4: the struct is there, and begins with its size.
    let size = unsafe { pointer.cast::<usize>().read() };
    if size < T::SIZE_MIN {
        let message = format!("the struct_size of {what} is {size}, below the {} of version 1", T::SIZE_MIN);
        return Err(invalid(message).with_advice("initialise the struct with its DSH_…_INIT macro"));
    }
    Ok(size)
}

/// An input struct, `None` for NULL. A larger one than this library knows must be zero in what is not known.
///
/// # Errors
/// `INVALID_ARGUMENT`.
///
/// # Safety
/// C4.
pub(crate) unsafe fn optional_struct<T: Sized1>(pointer: *const T, what: &str) -> Result<Option<T>> {
    if pointer.is_null() {
        return Ok(None);
    }
    // SAFETY: C4, not NULL.
    let size = unsafe { struct_size(pointer, what) }?;
    let known = size_of::<T>();
    if size > known {
        // SAFETY: C4: `size` bytes are readable.
        let rest = unsafe { slice::from_raw_parts(pointer.cast::<u8>().add(known), size - known) };
        if rest.iter().any(|&byte| byte != 0) {
            return Err(invalid(format!(
                "{what} sets something that this version of the library does not know"
            ))
            .with_advice("use a library as new as the header that the program was built with"));
        }
    }
    let mut value = MaybeUninit::<T>::zeroed();
    // SAFETY: C4: `size` bytes are readable. What an older caller's struct lacks stays zero, which is the default of every member, and
    // every member may be zero: these are numbers and pointers.
    Ok(Some(unsafe {
        pointer.cast::<u8>().copy_to_nonoverlapping(value.as_mut_ptr().cast(), size.min(known));
        value.assume_init()
    }))
}
