//! What the text of a number means: a double, a count, a safe integer.

use super::SAFE_INTEGER_MAX;

/// The double a valid number text stands for, correctly rounded; infinite beyond the range.
pub(super) fn double(text: &str) -> Option<f64> {
    // Every JSON number is a Rust float literal; the reverse does not hold (`inf`), but the text is checked.
    text.parse().ok()
}

/// The integer a number text stands for, if it is a safe one and not negative zero.
pub(super) fn safe_integer(text: &str) -> Option<i64> {
    let digits = text.strip_prefix('-').unwrap_or(text);
    // Plain digits of nearly every number in a log; 15 of them never leave the safe range.
    if digits.len() <= 15 && !digits.starts_with('0') && digits.bytes().all(|byte| byte.is_ascii_digit()) {
        return text.parse().ok();
    }
    let value = double(text)?;
    let is_safe = value.fract() == 0.0 && value.abs() <= SAFE_INTEGER_MAX as f64;
    let is_negative_zero = value == 0.0 && value.is_sign_negative();
    // Exact: a safe integer is within i64.
    if is_safe && !is_negative_zero { Some(value as i64) } else { None }
}
