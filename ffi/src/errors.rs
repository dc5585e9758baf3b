//! The error object: every fact of a core error, as lent text and as numbers.

use crate::buffer::{buffer_out, dsh_buffer, dsh_str};
use crate::guard::{self, look};
use crate::handle::{self, Handle, Kind, give};
use crate::input;
use crate::output::Out;
use crate::status::{DSH_OK, code_of, dsh_status, status_of};
use dsh_session_core::{Error, error::At};
use std::ffi::c_char;
use std::path::Path;

/// Why a call failed. A call that takes `dsh_error **err` sets `*err` when it fails and `err` is not NULL;
/// the caller frees it with `dsh_error_free`. It holds nothing but its own facts, so it may outlive
/// everything else. Used by one thread at a time. Text got from it lives as long as it does and is followed
/// by a NUL that `len` does not count.
pub struct dsh_error {
    _opaque: [u8; 0],
}

/// The facts in the form in which C borrows them.
#[derive(Debug)]
pub(crate) struct ErrorValue {
    error: Error,
    message: Text,
    summary: Text,
    advice: Text,
    path: Option<Text>,
    other_paths: Vec<Text>,
    session_id: Option<Text>,
    event_type: Option<Text>,
    version: Option<Text>,
    rule: Option<Text>,
    limit: Option<Text>,
    owner: Option<Text>,
    json_path: Option<Text>,
    causes: Vec<Handle<ErrorValue>>,
}

impl Kind for dsh_error {
    type Value = ErrorValue;
    const MAGIC: u64 = 0x6473_685f_6572_726f;
    const WORD: &'static str = "error";
}

/// Bytes and a NUL after them.
#[derive(Debug)]
struct Text(Vec<u8>);

impl Text {
    fn new(text: impl AsRef<[u8]>) -> Text {
        let mut bytes = text.as_ref().to_vec();
        bytes.push(0);
        Text(bytes)
    }

    fn of_path(path: &Path) -> Text {
        Text::new(path.as_os_str().as_encoded_bytes())
    }

    fn lend(&self) -> dsh_str {
        dsh_str { ptr: self.0.as_ptr().cast(), len: self.0.len() - 1 }
    }
}

fn lend(text: Option<&Text>) -> dsh_str {
    text.map_or(dsh_str::ABSENT, Text::lend)
}

impl ErrorValue {
    fn new(error: Error) -> ErrorValue {
        ErrorValue {
            message: Text::new(error.to_string()),
            summary: Text::new(error.message()),
            advice: Text::new(error.advice()),
            path: error.path().map(Text::of_path),
            other_paths: error.paths().iter().map(|path| Text::of_path(path)).collect(),
            session_id: error.session_id().map(Text::new),
            event_type: error.event_type().map(Text::new),
            version: error.version().map(Text::new),
            rule: error.rule().map(Text::new),
            limit: error.limit().map(Text::new),
            owner: error.owner().map(Text::new),
            json_path: error.json_path().map(Text::new),
            causes: error.causes().iter().map(|cause| lent_error(cause.duplicate())).collect(),
            error,
        }
    }
}

/// An error object, owned by the caller.
pub(crate) fn give_error(error: Error) -> *mut dsh_error {
    give::<dsh_error>(ErrorValue::new(error))
}

/// The error of an object that the host gives up; `None` for NULL and for what is not its to give.
///
/// # Safety
/// C1, and this is the last call on the handle.
pub(crate) unsafe fn take_error(pointer: *mut dsh_error) -> Option<Error> {
    // SAFETY: C1, last call.
    unsafe { handle::take(pointer) }.map(|handle| handle.value.error)
}

/// An error inside another handle.
pub(crate) fn lent_error(error: Error) -> Handle<ErrorValue> {
    Handle::lent::<dsh_error>(ErrorValue::new(error))
}

/// An error of the host's own, for a callback to fail with: `*error` gets it. `code` is any `DSH_E_…`, `message` says in one line what
/// is wrong. The library owns an error that a callback gave it; any other is freed with `dsh_error_free`. Fails with
/// `DSH_E_INVALID_ARGUMENT` for a number that is no code, an empty message, and text that is not UTF-8.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dsh_error_new(
    code: dsh_status,
    message: *const c_char,
    message_len: usize,
    error: *mut *mut dsh_error,
    err: *mut *mut dsh_error,
) -> dsh_status {
    // SAFETY: C2 (message), C3 (error, err).
    unsafe {
        guard::call_free(err, || {
            let out = Out::new(error, "the error")?;
            let message = input::some_text(message, message_len, "the message")?;
            let code = code_of(code).ok_or_else(|| input::invalid(format!("{code} is no error code")))?;
            out.set(give_error(Error::new(code, message)));
            Ok(DSH_OK)
        })
    }
}

/// The code: a `DSH_E_…`, the same number that the failed call returned. 0 for NULL.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dsh_error_code(error: *const dsh_error) -> dsh_status {
    // SAFETY: C1.
    unsafe { look(error, DSH_OK, |value| status_of(value.error.code())) }
}

/// The name of the code without `DSH_E_`, such as `SESSION_NOT_FOUND`; the same word in every language.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dsh_error_name(error: *const dsh_error) -> dsh_str {
    // SAFETY: C1.
    unsafe { look(error, dsh_str::ABSENT, |value| dsh_str::of(value.error.code().name())) }
}

/// What a person reads: what happened, where, and what to do.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dsh_error_message(error: *const dsh_error) -> dsh_str {
    // SAFETY: C1.
    unsafe { look(error, dsh_str::ABSENT, |value| value.message.lend()) }
}

/// What happened, without place and advice.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dsh_error_summary(error: *const dsh_error) -> dsh_str {
    // SAFETY: C1.
    unsafe { look(error, dsh_str::ABSENT, |value| value.summary.lend()) }
}

/// What to do next, in one sentence.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dsh_error_advice(error: *const dsh_error) -> dsh_str {
    // SAFETY: C1.
    unsafe { look(error, dsh_str::ABSENT, |value| value.advice.lend()) }
}

/// The file or folder concerned, absolute, in the bytes of the file system; absent where none is.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dsh_error_path(error: *const dsh_error) -> dsh_str {
    // SAFETY: C1.
    unsafe { look(error, dsh_str::ABSENT, |value| lend(value.path.as_ref())) }
}

/// How many files or folders exclude each other, for `DSH_E_SESSION_CONFLICT`; 0 otherwise.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dsh_error_path_count(error: *const dsh_error) -> usize {
    // SAFETY: C1.
    unsafe { look(error, 0, |value| value.other_paths.len()) }
}

/// One of the `dsh_error_path_count` files or folders, from 0; absent past the last.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dsh_error_path_at(error: *const dsh_error, index: usize) -> dsh_str {
    // SAFETY: C1.
    unsafe { look(error, dsh_str::ABSENT, |value| lend(value.other_paths.get(index))) }
}

/// The session concerned; absent where none is.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dsh_error_session_id(error: *const dsh_error) -> dsh_str {
    // SAFETY: C1.
    unsafe { look(error, dsh_str::ABSENT, |value| lend(value.session_id.as_ref())) }
}

/// The event type concerned; absent where none is.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dsh_error_event_type(error: *const dsh_error) -> dsh_str {
    // SAFETY: C1.
    unsafe { look(error, dsh_str::ABSENT, |value| lend(value.event_type.as_ref())) }
}

/// The format version that was found, as it is written; absent where that is not the trouble.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dsh_error_version(error: *const dsh_error) -> dsh_str {
    // SAFETY: C1.
    unsafe { look(error, dsh_str::ABSENT, |value| lend(value.version.as_ref())) }
}

/// The part of the log that a finding is about: `header`, `first-frame`, `row`, `seed-marker`, `relationship`
/// or `identity`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dsh_error_at(error: *const dsh_error) -> dsh_str {
    // SAFETY: C1.
    unsafe { look(error, dsh_str::ABSENT, |value| dsh_str::of_optional(value.error.at().map(At::as_str))) }
}

/// The rule that was broken: R1 to R11, A1 to A25, or the reason of a refusal such as `SEQ_NOT_CONTIGUOUS`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dsh_error_rule(error: *const dsh_error) -> dsh_str {
    // SAFETY: C1.
    unsafe { look(error, dsh_str::ABSENT, |value| lend(value.rule.as_ref())) }
}

/// The name of the limit that was passed, for `DSH_E_LIMIT_EXCEEDED`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dsh_error_limit(error: *const dsh_error) -> dsh_str {
    // SAFETY: C1.
    unsafe { look(error, dsh_str::ABSENT, |value| lend(value.limit.as_ref())) }
}

/// Who owns the session, for `DSH_E_SESSION_ALREADY_OWNED`: process id and program name, where known.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dsh_error_owner(error: *const dsh_error) -> dsh_str {
    // SAFETY: C1.
    unsafe { look(error, dsh_str::ABSENT, |value| lend(value.owner.as_ref())) }
}

/// Where in a JSON value the offending part stands, such as `$.items[3]`, for `DSH_E_NOT_LOSSLESS_JSON`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dsh_error_json_path(error: *const dsh_error) -> dsh_str {
    // SAFETY: C1.
    unsafe { look(error, dsh_str::ABSENT, |value| lend(value.json_path.as_ref())) }
}

/// A count in C: -1 where it is not known. No count of the library reaches 2^63.
fn number(value: Option<u64>) -> i64 {
    value.and_then(|value| i64::try_from(value).ok()).unwrap_or(-1)
}

/// The position of the event in its log, from 0; -1 where not known.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dsh_error_seq(error: *const dsh_error) -> i64 {
    // SAFETY: C1.
    unsafe { look(error, -1, |value| number(value.error.seq())) }
}

/// The line in the decompressed text, from 1, which is the header; -1 where not known.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dsh_error_line(error: *const dsh_error) -> i64 {
    // SAFETY: C1.
    unsafe { look(error, -1, |value| number(value.error.line())) }
}

/// The frame of a compressed log, from 0, which is the header's; -1 where not known.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dsh_error_frame(error: *const dsh_error) -> i64 {
    // SAFETY: C1.
    unsafe { look(error, -1, |value| number(value.error.frame())) }
}

/// The byte offset in the file, from 0; -1 where not known.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dsh_error_offset(error: *const dsh_error) -> i64 {
    // SAFETY: C1.
    unsafe { look(error, -1, |value| number(value.error.offset())) }
}

/// Which member of a batch was refused, from 0; -1 where that is not the trouble.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dsh_error_index(error: *const dsh_error) -> i64 {
    // SAFETY: C1.
    unsafe { look(error, -1, |value| number(value.error.index())) }
}

/// The number that should have stood where `dsh_error_got` stands; -1 where not known.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dsh_error_expected(error: *const dsh_error) -> i64 {
    // SAFETY: C1.
    unsafe { look(error, -1, |value| number(value.error.expected())) }
}

/// The number found; -1 where not known.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dsh_error_got(error: *const dsh_error) -> i64 {
    // SAFETY: C1.
    unsafe { look(error, -1, |value| number(value.error.got())) }
}

/// How many events before the damage can be read; -1 where not known.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dsh_error_salvageable(error: *const dsh_error) -> i64 {
    // SAFETY: C1.
    unsafe { look(error, -1, |value| number(value.error.salvageable())) }
}

/// The operating system's `errno`; 0 where the system is not the trouble.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dsh_error_os(error: *const dsh_error) -> i32 {
    // SAFETY: C1.
    unsafe { look(error, 0, |value| value.error.os().unwrap_or(0)) }
}

/// How many errors this one sums up (`DSH_E_SEVERAL`) or was caused by.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dsh_error_cause_count(error: *const dsh_error) -> usize {
    // SAFETY: C1.
    unsafe { look(error, 0, |value| value.causes.len()) }
}

/// One of the `dsh_error_cause_count` causes, from 0; NULL past the last. Lent: it lives as long as `error`,
/// and is not to be freed.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dsh_error_cause(error: *const dsh_error, index: usize) -> *const dsh_error {
    let none = std::ptr::null();
    // SAFETY: C1. A cause is a handle inside its error, at an address that does not move.
    unsafe {
        look(error, none, |value| {
            value.causes.get(index).map_or(none, |cause| std::ptr::from_ref(cause).cast())
        })
    }
}

/// The error as a JSON object with every fact that is known: `code`, `message`, and of `path`, `id`, `type`,
/// `version`, `at`, `rule`, `limit`, `owner`, `jsonPath`, `seq`, `line`, `frame`, `offset`, `expected`,
/// `got`, `index`, `salvageable`, `os`, `paths` and `causes` those that apply. Fails only for NULL arguments.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dsh_error_json(
    error: *const dsh_error,
    out: *mut dsh_buffer,
    err: *mut *mut dsh_error,
) -> dsh_status {
    // SAFETY: C1 (error), C3 (out, err).
    unsafe {
        guard::call(error, err, |value| {
            buffer_out(out)?.give(value.error.to_json());
            Ok(DSH_OK)
        })
    }
}

/// Frees an error. NULL is fine, and a lent cause is left alone.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dsh_error_free(error: *mut dsh_error) {
    // SAFETY: C1, last call; a lent cause is left alone.
    unsafe { guard::free(error, |_| {}) }
}
