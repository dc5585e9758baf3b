//! Equality of JSON values by what they mean, for settlements that repeat what their start said.

use crate::event::facts::identity;
use crate::json::{Json, Kind};
use std::collections::HashMap;

/// Values nested deeper than this are taken for equal. Comparing costs each level another walk, so that a row made of brackets
/// could keep a reader busy for hours; and where a rule is in doubt, a reader is the one that accepts (`format.md` 9.4).
const COMPARED_LEVELS_MAX: u32 = 64;

/// Whether two values are equal: numbers as doubles, objects without regard to the order of their keys.
pub(super) fn is_deeply_equal(a: Json<'_>, b: Json<'_>) -> bool {
    let mut waiting = vec![(a, b, 0)];
    while let Some((a, b, level)) = waiting.pop() {
        // What one program wrote twice has one text, nearly always.
        if a.text() == b.text() || level == COMPARED_LEVELS_MAX {
            continue;
        }
        if a.kind() != b.kind() {
            return false;
        }
        match a.kind() {
            Kind::Number if a.as_f64() == b.as_f64() => {}
            Kind::String if identity(a) == identity(b) => {}
            Kind::Array => {
                let (mut left, mut right) = (a.elements(), b.elements());
                loop {
                    match (left.next(), right.next()) {
                        (Some(a), Some(b)) => waiting.push((a, b, level + 1)),
                        (None, None) => break,
                        _ => return false,
                    }
                }
            }
            Kind::Object => {
                // Collecting keeps the last value of a repeated key.
                let left: HashMap<_, _> = a.members().collect();
                let right: HashMap<_, _> = b.members().collect();
                if left.len() != right.len() {
                    return false;
                }
                for (key, a) in &left {
                    match right.get(key) {
                        Some(b) => waiting.push((*a, *b, level + 1)),
                        None => return false,
                    }
                }
            }
            _ => return false,
        }
    }
    true
}

/// Whether two values that may be absent are equal.
pub(crate) fn is_equal(a: Option<Json<'_>>, b: Option<Json<'_>>) -> bool {
    match (a, b) {
        (Some(a), Some(b)) => is_deeply_equal(a, b),
        (None, None) => true,
        _ => false,
    }
}
