//! Printing by the rule of `format.md` 3.6: strings with the fewest escapes, numbers as ECMAScript does.

use std::fmt::Write as _;

use super::scan::plain_run_end;
use super::text::piece;

/// Appends a JSON string, quotes included.
///
/// ```
/// let mut out = String::new();
/// dsh_session_core::json::print_string(&mut out, "a\n\u{1}/\u{7f}");
/// assert_eq!(out, "\"a\\n\\u0001/\u{7f}\"");
/// ```
pub fn print_string(out: &mut String, text: &str) {
    out.push('"');
    let mut at = 0;
    loop {
        let end = plain_run_end(text.as_bytes(), at);
        out.push_str(piece(text, at, end));
        // The run stops at the end or before an ASCII byte.
        let Some(&byte) = text.as_bytes().get(end) else { break };
        print_char(out, char::from(byte));
        at = end + 1;
    }
    out.push('"');
}

/// Appends a JSON string of UTF-16 code units, quotes included; an unpaired surrogate is printed as its
/// escape, `\udxxx` in lower case.
pub fn print_utf16(out: &mut String, units: &[u16]) {
    out.push('"');
    for character in char::decode_utf16(units.iter().copied()) {
        match character {
            Ok(character) => print_char(out, character),
            Err(error) => print_unit(out, error.unpaired_surrogate()),
        }
    }
    out.push('"');
}

/// Appends one character as it stands inside a string.
pub(super) fn print_char(out: &mut String, character: char) {
    match character {
        '"' => out.push_str("\\\""),
        '\\' => out.push_str("\\\\"),
        '\u{8}' => out.push_str("\\b"),
        '\t' => out.push_str("\\t"),
        '\n' => out.push_str("\\n"),
        '\u{c}' => out.push_str("\\f"),
        '\r' => out.push_str("\\r"),
        '\0'..='\u{1f}' => print_unit(out, character as u16),
        _ => out.push(character),
    }
}

/// Appends the escape of one code unit.
pub(super) fn print_unit(out: &mut String, unit: u16) {
    // Writing to a String does not fail.
    let _ = write!(out, "\\u{unit:04x}");
}

/// Appends a number by the ECMAScript rule: the shortest digits that come back as the same double. Negative
/// zero prints `0`; what is not finite prints `null`, as there.
pub fn print_number(out: &mut String, value: f64) {
    if value == 0.0 {
        out.push('0');
    } else if value.is_finite() {
        out.push_str(ryu_js::Buffer::new().format_finite(value));
    } else {
        out.push_str("null");
    }
}
