//! Text between bytes, JSON strings and Rust strings: decoding of records and of escapes.

use std::borrow::Cow;

/// The text of a record: UTF-8 with each ill-formed maximal subpart replaced by U+FFFD (`format.md` 3.6).
///
/// A byte order mark stays, and so makes the record no JSON.
#[must_use]
pub fn line_text(bytes: &[u8]) -> Cow<'_, str> {
    // Checking first is several times faster than the replacing decoder, and nearly every record is clean.
    std::str::from_utf8(bytes).map_or_else(|_| String::from_utf8_lossy(bytes), Cow::Borrowed)
}

/// The piece of a text between two positions of a scan.
///
/// Invariant: both lie on ASCII bytes or the end, in order; so the empty piece is never what is returned.
/// It only keeps text that was wrongly called checked from being a panic.
#[inline]
pub(super) fn piece(text: &str, start: usize, end: usize) -> &str {
    text.get(start..end).unwrap_or_default()
}

/// One step in the inside of a string.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Unit {
    /// A character that an escape, or a pair of them, stands for.
    Char(char),
    /// An unpaired surrogate.
    Surrogate(u16),
}

/// What the escape at the start of `raw` stands for, and its length in bytes.
///
/// Total on any text: what is no escape gives U+FFFD for one byte or character.
pub(super) fn decode_escape(raw: &str) -> (Unit, usize) {
    let simple = match raw.as_bytes().get(1) {
        Some(b'b') => '\u{8}',
        Some(b'f') => '\u{c}',
        Some(b'n') => '\n',
        Some(b'r') => '\r',
        Some(b't') => '\t',
        Some(b'u') => return decode_unicode_escape(raw),
        Some(&byte) if byte.is_ascii() => char::from(byte),
        _ => return (Unit::Char(char::REPLACEMENT_CHARACTER), 1),
    };
    (Unit::Char(simple), 2)
}

fn decode_unicode_escape(raw: &str) -> (Unit, usize) {
    let Some(first) = escaped_unit(raw) else { return (Unit::Char(char::REPLACEMENT_CHARACTER), 2) };
    if let Some(character) = char::from_u32(u32::from(first)) {
        return (Unit::Char(character), 6);
    }
    let second = raw.get(6..).and_then(escaped_unit);
    match second.and_then(|second| char::decode_utf16([first, second]).next()?.ok()) {
        Some(character) => (Unit::Char(character), 12),
        None => (Unit::Surrogate(first), 6),
    }
}

/// The code unit of a `\uXXXX` at the start of a text.
fn escaped_unit(raw: &str) -> Option<u16> {
    let digits = raw.strip_prefix("\\u")?.get(..4)?;
    // `from_str_radix` takes a sign, JSON does not.
    if digits.starts_with('+') { None } else { u16::from_str_radix(digits, 16).ok() }
}

/// The text of a string, given what stands between its quotes; an unpaired surrogate becomes U+FFFD.
pub(super) fn decode_string(raw: &str) -> Cow<'_, str> {
    // Most strings that are decoded are short names, for which setting up a search costs more than looking at each byte.
    let is_escaped = match raw.len() {
        0..=32 => raw.bytes().any(|byte| byte == b'\\'),
        _ => memchr::memchr(b'\\', raw.as_bytes()).is_some(),
    };
    if is_escaped { unescaped(raw).into() } else { raw.into() }
}

#[cold]
fn unescaped(raw: &str) -> String {
    let mut text = String::with_capacity(raw.len());
    for part in Parts(raw) {
        match part {
            Part::Plain(run) => text.push_str(run),
            Part::Escape(Unit::Char(character)) => text.push(character),
            Part::Escape(Unit::Surrogate(_)) => text.push(char::REPLACEMENT_CHARACTER),
        }
    }
    text
}

/// Whether what stands between the quotes of a string holds an unpaired surrogate, so that no Rust string is
/// equal to it.
pub(super) fn has_unpaired_surrogate(raw: &str) -> bool {
    Parts(raw).any(|part| matches!(part, Part::Escape(Unit::Surrogate(_))))
}

/// A run without escapes, or one escape.
enum Part<'a> {
    Plain(&'a str),
    Escape(Unit),
}

/// The parts of what stands between the quotes of a string.
struct Parts<'a>(&'a str);

impl<'a> Iterator for Parts<'a> {
    type Item = Part<'a>;

    fn next(&mut self) -> Option<Part<'a>> {
        let run_end = self.0.find('\\').unwrap_or(self.0.len());
        if run_end > 0 {
            let (run, rest) = self.0.split_at(run_end);
            self.0 = rest;
            return Some(Part::Plain(run));
        }
        if self.0.is_empty() {
            return None;
        }
        let (unit, length) = decode_escape(self.0);
        self.0 = self.0.get(length..).unwrap_or_default();
        Some(Part::Escape(unit))
    }
}
