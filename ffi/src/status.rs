//! What every call returns, and the table of error codes that the C header gets from the core.

use dsh_session_core::Code;

/// The outcome of a call: `DSH_OK` (0), a positive number that informs (`DSH_DONE`), or a negative
/// `DSH_E_...`.
pub type dsh_status = i32;

/// The call did what it says; its results are written.
pub(crate) const DSH_OK: dsh_status = 0;

/// There is nothing more: the end of an iterator. No results are written.
pub(crate) const DSH_DONE: dsh_status = 1;

/// What was asked for does not exist. No results are written.
pub(crate) const DSH_ABSENT: dsh_status = 2;

/// The status of a code: its number, negative.
pub(crate) fn status_of(code: Code) -> dsh_status {
    -code.number()
}

/// The code of a negative status; `None` for a number that is none.
pub(crate) fn code_of(status: dsh_status) -> Option<Code> {
    Code::ALL.iter().copied().find(|code| status_of(*code) == status)
}
