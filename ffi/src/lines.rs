//! Iterators over lines of JSON: what a list or a report consists of, one object at a time.

use crate::buffer::dsh_str;
use crate::errors::dsh_error;
use crate::events::busy;
use crate::guard;
use crate::handle::Kind;
use crate::output::Out;
use crate::status::{DSH_DONE, DSH_OK, dsh_status};
use dsh_session_core::Result;
use std::fmt;
use std::sync::Mutex;

/// A walk over lines of JSON. Used by one thread at a time, any one. Keeps alive what it walks over.
pub struct dsh_lines {
    _opaque: [u8; 0],
}

/// The walk, and the line that is lent.
pub(crate) struct LinesValue(Mutex<Walk>);

struct Walk {
    next: Box<dyn FnMut() -> Result<Option<String>> + Send>,
    line: String,
    /// Set by a failure: a walk does not go on past one.
    is_over: bool,
}

impl Walk {
    fn step(&mut self) -> Result<Option<String>> {
        if self.is_over {
            return Ok(None);
        }
        let step = (self.next)();
        self.is_over = step.is_err();
        step
    }
}

impl fmt::Debug for LinesValue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LinesValue").finish_non_exhaustive()
    }
}

impl LinesValue {
    pub(crate) fn new(next: impl FnMut() -> Result<Option<String>> + Send + 'static) -> LinesValue {
        LinesValue(Mutex::new(Walk { next: Box::new(next), line: String::new(), is_over: false }))
    }
}

impl Kind for dsh_lines {
    type Value = LinesValue;
    const MAGIC: u64 = 0x6473_685f_6c69_6e65;
    const WORD: &'static str = "iterator of lines";
}

/// The next line: a JSON object without a newline, lent until the next call on the iterator and followed by a
/// NUL. `DSH_DONE` at the end, and after a failure. Fails with what the work finds, and with
/// `DSH_E_INVALID_ARGUMENT` if another thread is inside.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dsh_lines_next(
    lines: *mut dsh_lines,
    line: *mut dsh_str,
    err: *mut *mut dsh_error,
) -> dsh_status {
    // SAFETY: C1 (lines), C3 (line, err).
    unsafe {
        guard::call(lines, err, |value| {
            let line = Out::new(line, "the line")?;
            let mut walk = value.0.try_lock().map_err(|_| busy("iterator of lines"))?;
            let Some(mut next) = walk.step()? else { return Ok(DSH_DONE) };
            let len = next.len();
            next.push('\0');
            walk.line = next;
            line.set(dsh_str { ptr: walk.line.as_ptr().cast(), len });
            Ok(DSH_OK)
        })
    }
}

/// Frees the iterator. NULL is fine.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dsh_lines_free(lines: *mut dsh_lines) {
    // SAFETY: C1, last call.
    unsafe { guard::free(lines, |_| {}) }
}
