//! What the rules want to know of a row, read from its `data` while the row is scanned.
//!
//! A row is scanned once (`event::row`); this room enters the few places of it that a rule looks at and passes over the rest. So
//! the rules themselves ([`admission`](super::admission), [`acceptance`](super::acceptance)) see a handful of facts and never go
//! back to the text, and text that is long (messages, tool results, streams) is gone over once. It is pure and works row by row,
//! on the thread that parses the row.
//!
//! | File | Holds |
//! | --- | --- |
//! | `kind` | the event types that rules tell apart |
//! | `message` | messages and who made them |
//! | `content` | content blocks |
//! | `payload` | the rest of `data` |
//! | `links` | what remains of a row for the rules that bind several rows |

mod content;
mod kind;
mod links;
mod message;
mod payload;

pub(crate) use content::{Call, Content};
pub(crate) use kind::RowKind;
pub(crate) use links::{
    CallSpans, CheckpointLink, Links, MaybeCount, StepLink, canonical_count, repair_number,
};
pub(crate) use message::Message;
pub(crate) use payload::{Payload, SlotFault, StreamFault};

use crate::json::{DEPTH_MAX_DEFAULT, Json, Kind, admit};
use std::borrow::Cow;

/// Whether a value is a string with something in it.
pub(crate) fn is_text(value: Option<Json<'_>>) -> bool {
    // The quotes alone are two bytes.
    value.is_some_and(|value| value.kind() == Kind::String && value.text().len() > 2)
}

/// Whether a value is this string, which has no quotes or backslashes.
pub(crate) fn is_word(value: Option<Json<'_>>, word: &str) -> bool {
    let Some(value) = value else { return false };
    let text = value.text().as_bytes();
    match text {
        [b'"', inside @ .., b'"'] if inside == word.as_bytes() => true,
        // Written with escapes it is longer: only then is it worth decoding.
        [b'"', inside @ .., b'"'] if inside.len() > word.len() && inside.contains(&b'\\') => {
            value.as_str().as_deref() == Some(word)
        }
        _ => false,
    }
}

/// Whether two values are the same string.
pub(crate) fn is_same_string(a: Option<Json<'_>>, b: Option<Json<'_>>) -> bool {
    let (Some(a), Some(b)) = (a, b) else { return false };
    let both_strings = a.kind() == Kind::String && b.kind() == Kind::String;
    both_strings && (a.text() == b.text() || identity(a) == identity(b))
}

/// Whether a value is a count of at least 1.
pub(crate) fn is_positive(value: Option<Json<'_>>) -> bool {
    value.and_then(|value| value.as_count()).is_some_and(|count| count >= 1)
}

/// Whether a value is an object.
pub(crate) fn is_object(value: Option<Json<'_>>) -> bool {
    value.is_some_and(|value| value.kind() == Kind::Object)
}

/// What a value is known by when it names something: the text of a string. Anything else gets a name that no string has, so that
/// two values have one name exactly if they are equal scalars.
pub(crate) fn identity(value: Json<'_>) -> Cow<'_, str> {
    match value.as_str() {
        Some(text) if !value.has_unpaired_surrogate() => text,
        // Printing gives each string with unpaired surrogates one form, whatever escapes it was written with.
        _ => {
            let printed = admit(value.text().as_bytes(), DEPTH_MAX_DEFAULT);
            format!("\u{0}{}", printed.as_deref().unwrap_or(value.text())).into()
        }
    }
}

/// The last value of each of some keys of an object, in one walk.
pub(crate) fn members<'a, const N: usize>(object: Json<'a>, keys: [&str; N]) -> [Option<Json<'a>>; N] {
    let mut found = [None; N];
    for (key, value) in object.members() {
        if let Some(slot) = keys.iter().position(|wanted| *wanted == key) {
            found[slot] = Some(value);
        }
    }
    found
}
