//! The strict scanner: one pass over a text that says whether it is one JSON value and where its parts lie.
//!
//! This is the hot path of the library (every row of every log goes through it once), so it works on byte
//! positions only, allocates nothing for rows of ordinary depth, and passes over the inside of strings many
//! bytes at a time. Open containers are one bit each: object or array.
//!
//! What runs once for each token is `inline(always)`: left to the compiler, positions and errors went through
//! memory and rows of small tokens took twice as long.
//!
//! Positions handed on are always those of ASCII bytes (quotes, brackets, digits), so the pieces cut at them
//! are valid `str`.

use std::borrow::Cow;

use super::error::JsonError;
use super::text::{decode_string, piece};
use super::value::{Json, Kind};

/// One member of the outermost object of a text, as [`scan_object`] meets it.
#[derive(Clone, Copy, Debug)]
pub struct Member<'a> {
    /// The key as it is written, between its quotes.
    pub key: &'a str,
    /// Whether the key contains an escape, so that its written form is not its text.
    pub key_is_escaped: bool,
    /// The value.
    pub value: Json<'a>,
    /// The byte in the whole text at which the value starts.
    pub value_start: usize,
    /// The byte in the whole text after the value.
    pub value_end: usize,
}

impl<'a> Member<'a> {
    /// The key with its escapes decoded; an unpaired surrogate becomes U+FFFD.
    #[must_use]
    pub fn key_text(&self) -> Cow<'a, str> {
        if self.key_is_escaped { decode_string(self.key) } else { Cow::Borrowed(self.key) }
    }
}

/// What a whole text turned out to be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Shape {
    /// An object; the bytes from its `{` to after its `}`.
    Object {
        /// The byte of the `{`.
        start: usize,
        /// The byte after the `}`.
        end: usize,
    },
    /// Some other value.
    Other(Kind),
}

/// Checks that a text is exactly one JSON value, and shows the members of an object in order.
///
/// Space, tab, CR and LF may stand around the value. A repeated key is shown as often as it stands there.
/// Members are shown while the rest is still unread: on an error the caller drops what it has seen.
///
/// # Errors
///
/// [`JsonError`] if the text is not one value, or deeper than `depth_max`.
///
/// ```
/// use dsh_session_core::json::{DEPTH_MAX_DEFAULT, scan_object};
/// let mut keys = Vec::new();
/// scan_object(r#"{"seq":3,"data":[1]}"#, DEPTH_MAX_DEFAULT, |member| keys.push(member.key))?;
/// assert_eq!(keys, ["seq", "data"]);
/// # Ok::<(), dsh_session_core::json::JsonError>(())
/// ```
pub fn scan_object<'a>(
    text: &'a str,
    depth_max: u32,
    mut visit: impl FnMut(Member<'a>),
) -> Result<Shape, JsonError> {
    let bytes = text.as_bytes();
    let start = skip_space(bytes, 0);
    if bytes.get(start) != Some(&b'{') {
        let end = value_end(bytes, start, 0, depth_max)?;
        expect_end(bytes, end)?;
        return Ok(Shape::Other(Json::trusted(piece(text, start, end)).kind()));
    }
    if depth_max == 0 {
        return Err(JsonError::too_deep(start, depth_max));
    }
    let mut at = skip_space(bytes, start + 1);
    if bytes.get(at) != Some(&b'}') {
        loop {
            let (key_start, key) = key_end(bytes, at)?;
            let value_start = colon_end(bytes, key.quote + 1)?;
            let value_end = value_end(bytes, value_start, 1, depth_max)?;
            visit(Member {
                key: piece(text, key_start, key.quote),
                key_is_escaped: key.is_escaped,
                value: Json::trusted(piece(text, value_start, value_end)),
                value_start,
                value_end,
            });
            at = skip_space(bytes, value_end);
            match bytes.get(at) {
                Some(b',') => at = skip_space(bytes, at + 1),
                Some(b'}') => break,
                _ => return Err(unexpected_after_value(bytes, at, true)),
            }
        }
    }
    expect_end(bytes, at + 1)?;
    Ok(Shape::Object { start, end: at + 1 })
}

/// The start and end of the one value a text holds.
pub(super) fn whole_value(text: &str, depth_max: u32) -> Result<(usize, usize), JsonError> {
    let bytes = text.as_bytes();
    let start = skip_space(bytes, 0);
    let end = value_end(bytes, start, 0, depth_max)?;
    expect_end(bytes, end)?;
    Ok((start, end))
}

/// The open containers between a value and the one that is read: one bit each, 1 for an object.
///
/// The innermost 64 live in a register; only deeper rows touch the vector.
#[derive(Default)]
struct Containers {
    depth: u32,
    word: u64,
    spilled: Vec<u64>,
}

impl Containers {
    #[inline]
    fn push(&mut self, is_object: bool) {
        if self.depth.is_multiple_of(u64::BITS) && self.depth > 0 {
            self.spilled.push(self.word);
        }
        self.word = (self.word << 1) | u64::from(is_object);
        self.depth += 1;
    }

    #[inline]
    fn pop(&mut self) {
        self.depth -= 1;
        self.word >>= 1;
        if self.depth.is_multiple_of(u64::BITS) && self.depth > 0 {
            // Invariant: one word was spilled for each full 64 containers below this one.
            self.word = self.spilled.pop().unwrap_or_default();
        }
    }

    #[inline]
    fn innermost_is_object(&self) -> bool {
        self.word & 1 == 1
    }
}

/// The byte after the value that starts at `at`; `depth` containers are open around it.
pub(super) fn value_end(bytes: &[u8], mut at: usize, depth: u32, depth_max: u32) -> Result<usize, JsonError> {
    let mut open = Containers::default();
    let inner_max = depth_max.saturating_sub(depth);
    loop {
        match bytes.get(at) {
            Some(b'"') => at = string_end(bytes, at + 1)?.quote + 1,
            Some(b'0'..=b'9') => at = unsigned_end(bytes, at)?,
            Some(b'{') => {
                if open.depth >= inner_max {
                    return Err(JsonError::too_deep(at, depth_max));
                }
                open.push(true);
                at = skip_space(bytes, at + 1);
                if bytes.get(at) != Some(&b'}') {
                    at = colon_end(bytes, key_end(bytes, at)?.1.quote + 1)?;
                    continue;
                }
                open.pop();
                at += 1;
            }
            Some(b'[') => {
                if open.depth >= inner_max {
                    return Err(JsonError::too_deep(at, depth_max));
                }
                open.push(false);
                at = skip_space(bytes, at + 1);
                if bytes.get(at) != Some(&b']') {
                    continue;
                }
                open.pop();
                at += 1;
            }
            _ => at = scalar_end(bytes, at)?,
        }
        loop {
            if open.depth == 0 {
                return Ok(at);
            }
            at = skip_space(bytes, at);
            let in_object = open.innermost_is_object();
            match bytes.get(at) {
                Some(b',') => {
                    at = skip_space(bytes, at + 1);
                    if in_object {
                        at = colon_end(bytes, key_end(bytes, at)?.1.quote + 1)?;
                    }
                    break;
                }
                Some(b'}') if in_object => open.pop(),
                Some(b']') if !in_object => open.pop(),
                _ => return Err(unexpected_after_value(bytes, at, in_object)),
            }
            at += 1;
        }
    }
}

/// Where a string ends.
#[derive(Clone, Copy)]
pub(super) struct StringEnd {
    /// The byte of the closing quote.
    pub(super) quote: usize,
    /// Whether a backslash stands in it.
    pub(super) is_escaped: bool,
}

/// The end of the string whose opening quote is the byte before `at`.
#[inline(always)]
pub(super) fn string_end(bytes: &[u8], at: usize) -> Result<StringEnd, JsonError> {
    string_end_with(bytes, at, |_| {})
}

/// [`string_end`], showing the backslash of each escape, once that escape is known to be valid.
#[inline(always)]
pub(super) fn string_end_with(
    bytes: &[u8],
    at: usize,
    escape: impl FnMut(usize),
) -> Result<StringEnd, JsonError> {
    let at = plain_run_end(bytes, at);
    if bytes.get(at) == Some(&b'"') {
        return Ok(StringEnd { quote: at, is_escaped: false });
    }
    rest_of_string_end(bytes, at, escape)
}

/// The slow half of [`string_end`]: from the first byte that is not plain, and not the closing quote.
#[inline(never)]
fn rest_of_string_end(
    bytes: &[u8],
    mut at: usize,
    mut escape: impl FnMut(usize),
) -> Result<StringEnd, JsonError> {
    let mut is_escaped = false;
    loop {
        match bytes.get(at) {
            Some(b'"') => return Ok(StringEnd { quote: at, is_escaped }),
            Some(b'\\') => {
                let end = escape_end(bytes, at)?;
                escape(at);
                at = end;
            }
            Some(_) => return Err(JsonError::syntax(at, "a control character inside a string")),
            None => return Err(JsonError::syntax(at, "the text ends inside a string")),
        }
        is_escaped = true;
        at = plain_run_end(bytes, at);
    }
}

/// The byte after the escape whose backslash stands at `at`.
#[inline]
fn escape_end(bytes: &[u8], at: usize) -> Result<usize, JsonError> {
    match bytes.get(at + 1) {
        Some(b'"' | b'\\' | b'/' | b'b' | b'f' | b'n' | b'r' | b't') => Ok(at + 2),
        Some(b'u') => match bytes.get(at + 2..at + 6) {
            Some(digits) if digits.iter().all(u8::is_ascii_hexdigit) => Ok(at + 6),
            _ => Err(JsonError::syntax(at, "expected four hexadecimal digits after \\u")),
        },
        Some(_) => Err(JsonError::syntax(at, "an escape that JSON does not have")),
        None => Err(JsonError::syntax(at + 1, "the text ends inside a string")),
    }
}

const ONES: u64 = u64::MAX / 255;
const HIGH_BITS: u64 = ONES << 7;

/// A word whose lowest set bit is the high bit of the first byte that is `"`, `\` or below 0x20; 0 for none.
///
/// The subtractions borrow only out of a byte that is itself a hit, so bits above the lowest may lie, the
/// lowest does not.
#[inline(always)]
fn specials(word: u64) -> u64 {
    let quote = word ^ (ONES * b'"' as u64);
    let backslash = word ^ (ONES * b'\\' as u64);
    ((quote.wrapping_sub(ONES) & !quote)
        | (backslash.wrapping_sub(ONES) & !backslash)
        | (word.wrapping_sub(ONES * 0x20) & !word))
        & HIGH_BITS
}

#[inline(always)]
fn word_at(bytes: &[u8], at: usize) -> Option<u64> {
    bytes.get(at..)?.first_chunk::<8>().map(|chunk| u64::from_le_bytes(*chunk))
}

/// The first byte at or after `at` that is `"`, `\` or below 0x20, or the end.
#[inline(always)]
pub(super) fn plain_run_end(bytes: &[u8], mut at: usize) -> usize {
    // Most strings are short: two words first, only then the loop for long text.
    for _ in 0..2 {
        let Some(word) = word_at(bytes, at) else { return byte_run_end(bytes, at) };
        let hits = specials(word);
        if hits != 0 {
            return at + hits.trailing_zeros() as usize / 8;
        }
        at += 8;
    }
    long_run_end(bytes, at)
}

#[inline(never)]
fn byte_run_end(bytes: &[u8], at: usize) -> usize {
    let rest = bytes.get(at..).unwrap_or_default();
    at + rest.iter().position(|&byte| is_special(byte)).unwrap_or(rest.len())
}

#[inline]
fn is_special(byte: u8) -> bool {
    (byte == b'"') | (byte == b'\\') | (byte < 0x20)
}

/// [`plain_run_end`] for long runs. The compiler makes vector code of the inner loop, which has no early exit.
#[inline(never)]
fn long_run_end(bytes: &[u8], mut at: usize) -> usize {
    const STRIDE: usize = 32;
    while let Some(chunk) = bytes.get(at..).and_then(|rest| rest.first_chunk::<STRIDE>()) {
        if chunk.iter().fold(false, |any, &byte| any | is_special(byte)) {
            break;
        }
        at += STRIDE;
    }
    while let Some(word) = word_at(bytes, at) {
        let hits = specials(word);
        if hits != 0 {
            return at + hits.trailing_zeros() as usize / 8;
        }
        at += 8;
    }
    byte_run_end(bytes, at)
}

/// The first byte at or after `at` that is not space, tab, CR or LF.
#[inline(always)]
pub(super) fn skip_space(bytes: &[u8], at: usize) -> usize {
    // Stored rows have no white space: one comparison is all they pay.
    match bytes.get(at) {
        Some(0..=b' ') => skip_some_space(bytes, at),
        _ => at,
    }
}

#[inline(never)]
fn skip_some_space(bytes: &[u8], mut at: usize) -> usize {
    while let Some(b' ' | b'\t' | b'\r' | b'\n') = bytes.get(at) {
        at += 1;
    }
    at
}

/// The start of the key (after its quote) whose opening quote must stand at `at`, and its end.
#[inline(always)]
pub(super) fn key_end(bytes: &[u8], at: usize) -> Result<(usize, StringEnd), JsonError> {
    match bytes.get(at) {
        Some(b'"') => Ok((at + 1, string_end(bytes, at + 1)?)),
        Some(b'}') => Err(JsonError::syntax(at, "a comma before '}'")),
        Some(_) => Err(JsonError::syntax(at, "expected a key in double quotes")),
        None => Err(JsonError::syntax(at, "the text ends inside an object")),
    }
}

/// The start of the value after the colon that must come at or after `at`.
#[inline(always)]
pub(super) fn colon_end(bytes: &[u8], at: usize) -> Result<usize, JsonError> {
    let at = colon(bytes, at)?;
    Ok(skip_space(bytes, at + 1))
}

/// The byte of the colon that must come at or after `at`, white space aside.
#[inline(always)]
pub(super) fn colon(bytes: &[u8], at: usize) -> Result<usize, JsonError> {
    let at = skip_space(bytes, at);
    match bytes.get(at) {
        Some(b':') => Ok(at),
        Some(_) => Err(JsonError::syntax(at, "expected ':' after a key")),
        None => Err(JsonError::syntax(at, "the text ends inside an object")),
    }
}

/// The byte after the number or word that starts at `at`.
#[inline]
pub(super) fn scalar_end(bytes: &[u8], at: usize) -> Result<usize, JsonError> {
    match bytes.get(at) {
        Some(b'-' | b'0'..=b'9') => number_end(bytes, at),
        Some(b't') => word_end(bytes, at, b"true"),
        Some(b'f') => word_end(bytes, at, b"false"),
        Some(b'n') => word_end(bytes, at, b"null"),
        _ => Err(no_value(bytes, at)),
    }
}

#[inline]
fn word_end(bytes: &[u8], at: usize, word: &[u8]) -> Result<usize, JsonError> {
    if bytes.get(at..at + word.len()) == Some(word) { Ok(at + word.len()) } else { Err(no_value(bytes, at)) }
}

#[cold]
fn no_value(bytes: &[u8], at: usize) -> JsonError {
    let rest = bytes.get(at..).unwrap_or_default();
    let what = match rest.first() {
        None if at == 0 => "an empty text where a value should be",
        None => "the text ends where a value should be",
        Some(_) if rest.starts_with("\u{feff}".as_bytes()) => "a byte order mark where a value should start",
        Some(b']') => "a comma before ']'",
        Some(b'\'') => "a single quote; JSON has double quotes only",
        Some(_) => "expected a value",
    };
    JsonError::syntax(at, what)
}

/// The byte after the number that starts with a digit at `at`.
#[inline(always)]
pub(super) fn unsigned_end(bytes: &[u8], at: usize) -> Result<usize, JsonError> {
    match integer_end(bytes, at) {
        Some(end) => Ok(end),
        None => number_end(bytes, at),
    }
}

/// The byte after the digits that start at `start`, if they alone are a valid number: what nearly every
/// number in a log is.
#[inline(always)]
pub(super) fn integer_end(bytes: &[u8], start: usize) -> Option<usize> {
    let mut at = start;
    while let Some(b'0'..=b'9') = bytes.get(at) {
        at += 1;
    }
    let is_more = matches!(bytes.get(at), Some(b'.' | b'e' | b'E'));
    let has_leading_zero = bytes.get(start) == Some(&b'0') && at > start + 1;
    if is_more || has_leading_zero || at == start { None } else { Some(at) }
}

#[inline(never)]
fn number_end(bytes: &[u8], start: usize) -> Result<usize, JsonError> {
    let mut at = start + usize::from(bytes.get(start) == Some(&b'-'));
    if bytes.get(at) == Some(&b'0') {
        at += 1;
        if bytes.get(at).is_some_and(u8::is_ascii_digit) {
            return Err(JsonError::syntax(at - 1, "a number with a leading zero"));
        }
    } else {
        at = digits_end(bytes, at)?;
    }
    if bytes.get(at) == Some(&b'.') {
        at = digits_end(bytes, at + 1)?;
    }
    if let Some(b'e' | b'E') = bytes.get(at) {
        let has_sign = matches!(bytes.get(at + 1), Some(b'+' | b'-'));
        at = digits_end(bytes, at + 1 + usize::from(has_sign))?;
    }
    Ok(at)
}

/// The byte after the digits, at least one, that start at `at`.
#[inline]
fn digits_end(bytes: &[u8], start: usize) -> Result<usize, JsonError> {
    let mut at = start;
    while bytes.get(at).is_some_and(u8::is_ascii_digit) {
        at += 1;
    }
    if at == start { Err(JsonError::syntax(at, "expected a digit")) } else { Ok(at) }
}

/// Only white space may come from `at` on.
#[inline]
pub(super) fn expect_end(bytes: &[u8], at: usize) -> Result<(), JsonError> {
    let at = skip_space(bytes, at);
    if at == bytes.len() { Ok(()) } else { Err(JsonError::syntax(at, "more text after the value")) }
}

#[cold]
pub(super) fn unexpected_after_value(bytes: &[u8], at: usize, in_object: bool) -> JsonError {
    let what = match (bytes.get(at), in_object) {
        (None, true) => "the text ends inside an object",
        (None, false) => "the text ends inside an array",
        (Some(_), true) => "expected ',' or '}'",
        (Some(_), false) => "expected ',' or ']'",
    };
    JsonError::syntax(at, what)
}

/// The byte after the value that starts at `at` in text that was checked before; the end if it never ends.
///
/// Brackets are counted, strings passed over, and nothing else looked at.
pub(super) fn trusted_value_end(bytes: &[u8], at: usize) -> usize {
    match bytes.get(at) {
        Some(b'"') => trusted_string_end(bytes, at + 1) + 1,
        Some(b'{' | b'[') => trusted_container_end(bytes, at),
        _ => {
            let rest = bytes.get(at..).unwrap_or_default();
            let is_end = |byte: &u8| matches!(byte, b',' | b'}' | b']' | b' ' | b'\t' | b'\r' | b'\n');
            at + rest.iter().position(is_end).unwrap_or(rest.len())
        }
    }
}

fn trusted_container_end(bytes: &[u8], mut at: usize) -> usize {
    let mut depth = 0_usize;
    while let Some(byte) = bytes.get(at) {
        at += 1;
        match byte {
            b'"' => at = trusted_string_end(bytes, at) + 1,
            b'{' | b'[' => depth += 1,
            b'}' | b']' => {
                depth = depth.saturating_sub(1);
                if depth == 0 {
                    return at;
                }
            }
            _ => {}
        }
    }
    bytes.len()
}

/// The closing quote of the string whose opening quote is the byte before `at`, in checked text.
#[inline]
pub(super) fn trusted_string_end(bytes: &[u8], mut at: usize) -> usize {
    loop {
        at = plain_run_end(bytes, at);
        match bytes.get(at) {
            Some(b'\\') => at += 2,
            Some(b'"') | None => return at,
            Some(_) => at += 1,
        }
    }
}
