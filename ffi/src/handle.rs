//! The memory behind an opaque pointer: a magic number that tells the kinds apart, who opened it, whether a
//! panic spoiled it.

use dsh_session_core::{Code, Error, Result};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

/// What stands where the magic number was once a handle is freed. Reading it then is luck, not a promise.
const MAGIC_FREED: u64 = 0x6473_685f_6465_6164;

/// A kind of opaque pointer: its own type is empty, what it points to is a [`Handle`] of `Value`.
pub(crate) trait Kind {
    /// What the handle holds.
    type Value;
    /// Tells this kind from others in memory.
    const MAGIC: u64;
    /// What messages call it.
    const WORD: &'static str;
}

/// What an opaque pointer points to. The magic number comes first in every kind, so that a wrong kind can be
/// told.
#[repr(C)]
#[derive(Debug)]
pub(crate) struct Handle<V> {
    magic: AtomicU64,
    is_poisoned: AtomicBool,
    /// Part of another handle, which frees it: not the caller's to give back.
    is_lent: bool,
    process_id: u32,
    pub(crate) value: V,
}

fn invalid(message: String) -> Error {
    Error::new(Code::InvalidArgument, message)
}

impl<V> Handle<V> {
    pub(crate) fn new<K: Kind<Value = V>>(value: V) -> Handle<V> {
        Handle { is_lent: false, ..Handle::lent::<K>(value) }
    }

    /// A handle inside another one.
    pub(crate) fn lent<K: Kind<Value = V>>(value: V) -> Handle<V> {
        Handle::lent_in::<K>(value, std::process::id())
    }

    /// A handle inside another one of this process, whose id is known: for many at once, since asking for the id is a system call.
    pub(crate) fn lent_in<K: Kind<Value = V>>(value: V, process_id: u32) -> Handle<V> {
        let (magic, is_poisoned) = (AtomicU64::new(K::MAGIC), AtomicBool::new(false));
        Handle { magic, is_poisoned, is_lent: true, process_id, value }
    }

    /// Whether this process opened the handle; a forked child did not.
    pub(crate) fn is_of_this_process(&self) -> bool {
        self.process_id == std::process::id()
    }

    pub(crate) fn poison(&self) {
        self.is_poisoned.store(true, Ordering::Release);
    }

    /// The checks that come before every call; none of them waits for a lock, so a forked child may make
    /// them.
    pub(crate) fn check_usable<K: Kind<Value = V>>(&self) -> Result<()> {
        if self.is_poisoned.load(Ordering::Acquire) {
            let message = format!("this {} is unusable since a call on it stopped in the middle", K::WORD);
            return Err(Error::new(Code::Panic, message));
        }
        if !self.is_of_this_process() {
            let message =
                format!("this {} was opened by process {}, not by its child", K::WORD, self.process_id);
            return Err(Error::new(Code::ForkedProcess, message));
        }
        Ok(())
    }
}

/// A new handle, owned by the caller until [`take`].
pub(crate) fn give<K: Kind>(value: K::Value) -> *mut K {
    Box::into_raw(Box::new(Handle::new::<K>(value))).cast()
}

/// The handle behind a pointer that was given by [`give`] or lies in a place that outlives `'a`.
///
/// # Errors
/// `INVALID_ARGUMENT` for NULL, a wrong kind, or a handle that can be seen to be freed.
///
/// # Safety
/// C1.
pub(crate) unsafe fn borrow<'a, K: Kind>(pointer: *const K) -> Result<&'a Handle<K::Value>> {
    let pointer = pointer.cast::<Handle<K::Value>>();
    if pointer.is_null() {
        return Err(invalid(format!("the {} is NULL", K::WORD)));
    }
    if !pointer.is_aligned() {
        return Err(invalid(format!("the pointer given as a {} is none of this library", K::WORD)));
    }
    // SAFETY: C1: it points to a live handle of some kind, and each begins with its magic number. The reference covers only that
    // number, so a smaller handle of a wrong kind is not overrun.
    let magic = unsafe { &*pointer.cast::<AtomicU64>() }.load(Ordering::Acquire);
    match magic {
        // SAFETY: the magic number says that it is a handle of this kind.
        magic if magic == K::MAGIC => Ok(unsafe { &*pointer }),
        MAGIC_FREED => Err(invalid(format!("the {} was freed", K::WORD))),
        _ => Err(invalid(format!("the pointer given as a {} is a handle of another kind, or none", K::WORD))),
    }
}

/// Takes a handle back; `None` where [`borrow`] would fail and for a lent one. Of two threads that free the
/// same handle one gets it.
///
/// # Safety C1, and this is the last call on the handle.
pub(crate) unsafe fn take<K: Kind>(pointer: *mut K) -> Option<Box<Handle<K::Value>>> {
    // SAFETY: C1.
    let handle = unsafe { borrow(pointer.cast_const()) }.ok()?;
    if handle.is_lent {
        return None;
    }
    let is_first =
        handle.magic.compare_exchange(K::MAGIC, MAGIC_FREED, Ordering::AcqRel, Ordering::Acquire).is_ok();
    // SAFETY: the kind is right, `give` made it as a box, and the exchange lets only one caller get here.
    is_first.then(|| unsafe { Box::from_raw(pointer.cast::<Handle<K::Value>>()) })
}
