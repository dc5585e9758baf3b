//! What the text of a number means: a double, a safe integer, and the form in which it is stored.

use super::SAFE_INTEGER_MAX;

/// How many plain digits always are a safe integer, and its shortest form.
pub(super) const DIGITS_KEPT_MAX: usize = 15;

/// Whether a valid number text is plain digits, few enough that they are a safe integer in its shortest form.
pub(super) fn is_plain(text: &str) -> bool {
    text.len() <= DIGITS_KEPT_MAX && text.bytes().all(|byte| byte.is_ascii_digit())
}

/// The double a valid number text stands for, correctly rounded; infinite beyond the range.
pub(super) fn double(text: &str) -> Option<f64> {
    // Every JSON number is a Rust float literal; the reverse does not hold (`inf`), but the text is checked.
    text.parse().ok()
}

/// The integer a number text stands for, if it is a safe one and not negative zero.
pub(super) fn safe_integer(text: &str) -> Option<i64> {
    if let Some(value) = plain_integer(text.as_bytes()) {
        return Some(value);
    }
    let value = double(text)?;
    let is_safe = value.fract() == 0.0 && value.abs() <= SAFE_INTEGER_MAX as f64;
    let is_negative_zero = value == 0.0 && value.is_sign_negative();
    // Exact: a safe integer is within i64.
    if is_safe && !is_negative_zero { Some(value as i64) } else { None }
}

/// The value of a few plain digits without leading zeros: of nearly every number in a log.
#[inline]
fn plain_integer(text: &[u8]) -> Option<i64> {
    let (digits, sign) = match text {
        [b'-', digits @ ..] => (digits, -1),
        digits => (digits, 1),
    };
    if digits.len() > DIGITS_KEPT_MAX || matches!(digits, [] | [b'0', ..]) {
        return None;
    }
    let mut value = 0;
    for &byte in digits {
        if !byte.is_ascii_digit() {
            return None;
        }
        value = value * 10 + i64::from(byte - b'0');
    }
    Some(sign * value)
}

/// What becomes of a number that an append was given.
pub(super) enum StoredForm {
    /// It is already the shortest form.
    AsWritten,
    /// It is printed anew.
    Printed(f64),
    /// It would not come back equal: why.
    Refused(&'static str),
}

/// Decides how a valid number text is stored (`design.md` 5, Numbers).
pub(super) fn stored_form(text: &str) -> StoredForm {
    let digits = text.strip_prefix('-').unwrap_or(text);
    let is_plain = digits.bytes().all(|byte| byte.is_ascii_digit());
    if is_plain && digits.len() <= DIGITS_KEPT_MAX && text != "-0" {
        return StoredForm::AsWritten;
    }
    let Some(value) = double(text) else { return StoredForm::AsWritten };
    if value.is_infinite() {
        return StoredForm::Refused("a number beyond the range of a double");
    }
    if value == 0.0 {
        return match text {
            "0" => StoredForm::AsWritten,
            _ if value.is_sign_negative() => StoredForm::Refused("negative zero"),
            _ => StoredForm::Printed(value),
        };
    }
    if ryu_js::Buffer::new().format_finite(value) == text {
        return StoredForm::AsWritten;
    }
    // `{:.0}` prints all digits of the exact value, and JSON has no leading zeros: equal text, equal number.
    if is_plain && format!("{value:.0}") != text {
        return StoredForm::Refused("an integer that no double holds exactly");
    }
    StoredForm::Printed(value)
}
