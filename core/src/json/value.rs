//! A view on the text of one checked JSON value, and walks through arrays and objects.
//!
//! The text was scanned before, so a walk only looks for the ends of things. Every walk is total: on text
//! that was wrongly trusted it stops early or gives odd pieces, but neither panics nor runs on.

use std::borrow::Cow;

use super::DEPTH_MAX_DEFAULT;
use super::admit::admit;
use super::error::JsonError;
use super::number;
use super::scan;
use super::text::{decode_string, has_unpaired_surrogate, piece};

/// What sort of value a JSON text is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Kind {
    /// `null`.
    Null,
    /// `true` or `false`.
    Bool,
    /// A number, of any size.
    Number,
    /// A string.
    String,
    /// An array.
    Array,
    /// An object.
    Object,
}

/// The text of exactly one valid JSON value, without white space around it.
///
/// ```
/// use dsh_session_core::json::{DEPTH_MAX_DEFAULT, Json};
/// let value = Json::parse(r#" {"turn": 3, "tags": ["a", "b"]} "#, DEPTH_MAX_DEFAULT)?;
/// assert_eq!(value.get("turn").and_then(|turn| turn.as_count()), Some(3));
/// let tags: Vec<_> = value.get("tags").into_iter().flat_map(|tags| tags.elements()).collect();
/// assert_eq!(tags[1].as_str().as_deref(), Some("b"));
/// # Ok::<(), dsh_session_core::json::JsonError>(())
/// ```
#[derive(Clone, Copy, Debug)]
pub struct Json<'a> {
    text: &'a str,
}

impl<'a> Json<'a> {
    /// Checks a text: one value, with space, tab, CR or LF around it at most, no deeper than `depth_max`.
    ///
    /// # Errors
    ///
    /// [`JsonError`] with the byte at which the text cannot go on.
    pub fn parse(text: &'a str, depth_max: u32) -> Result<Self, JsonError> {
        let (start, end) = scan::whole_value(text, depth_max)?;
        Ok(Json { text: piece(text, start, end) })
    }

    /// A view on the text of one value that was checked before.
    pub(crate) fn trusted(text: &'a str) -> Self {
        Json { text }
    }

    /// The text as it is written.
    #[must_use]
    pub fn text(&self) -> &'a str {
        self.text
    }

    /// What sort of value it is.
    #[must_use]
    pub fn kind(&self) -> Kind {
        match self.text.as_bytes().first() {
            Some(b'"') => Kind::String,
            Some(b'{') => Kind::Object,
            Some(b'[') => Kind::Array,
            Some(b't' | b'f') => Kind::Bool,
            Some(b'n') | None => Kind::Null,
            Some(_) => Kind::Number,
        }
    }

    /// The truth value of a boolean.
    #[must_use]
    pub fn as_bool(&self) -> Option<bool> {
        match self.text {
            "true" => Some(true),
            "false" => Some(false),
            _ => None,
        }
    }

    /// The text of a string, escapes decoded; an unpaired surrogate becomes U+FFFD.
    #[must_use]
    pub fn as_str(&self) -> Option<Cow<'a, str>> {
        self.string_inside().map(decode_string)
    }

    /// Whether it is a string with an unpaired surrogate, for which [`as_str`](Self::as_str) shows U+FFFD.
    #[must_use]
    pub fn has_unpaired_surrogate(&self) -> bool {
        self.string_inside().is_some_and(has_unpaired_surrogate)
    }

    /// The text as it would be printed (`format.md` 3.6): two values have one such text exactly if they are equal with their keys in
    /// the same order. A value that printing would change the meaning of (`-0`, `1e400`, which a stored log may hold) stays as it is written.
    ///
    /// ```
    /// use dsh_session_core::json::{DEPTH_MAX_DEFAULT, Json};
    /// let printed = |text| Json::parse(text, DEPTH_MAX_DEFAULT).map(|value| value.printed().into_owned());
    /// assert_eq!(printed(r#"{"a": 1.0, "b": "\u0041\uD800"}"#)?, r#"{"a":1,"b":"A\ud800"}"#);
    /// assert_eq!(printed("[1e400,-0 ]")?, "[1e400,-0 ]");
    /// # Ok::<(), dsh_session_core::json::JsonError>(())
    /// ```
    #[must_use]
    pub fn printed(&self) -> Cow<'a, str> {
        let is_plain = match self.kind() {
            Kind::String => !self.text.contains('\\'),
            Kind::Number => number::is_plain(self.text),
            Kind::Bool | Kind::Null => true,
            Kind::Array | Kind::Object => false,
        };
        if is_plain {
            return Cow::Borrowed(self.text);
        }
        match admit(self.text.as_bytes(), DEPTH_MAX_DEFAULT) {
            Ok(printed) if printed != self.text => Cow::Owned(printed),
            _ => Cow::Borrowed(self.text),
        }
    }

    /// What stands between the quotes of a string.
    fn string_inside(&self) -> Option<&'a str> {
        self.text.strip_prefix('"')?.strip_suffix('"')
    }

    /// The double a number stands for; infinite for one like `1e400`.
    #[must_use]
    pub fn as_f64(&self) -> Option<f64> {
        if self.kind() == Kind::Number { number::double(self.text) } else { None }
    }

    /// The value of a count (`format.md` 0.2): a number that is an integer of 0 to 2^53 - 1 and not negative
    /// zero, however it is written (`3.0`, `1e2`).
    #[must_use]
    pub fn as_count(&self) -> Option<u64> {
        self.as_safe_integer().and_then(|value| u64::try_from(value).ok())
    }

    /// The value of a safe integer: -(2^53 - 1) to 2^53 - 1, not negative zero, however it is written.
    #[must_use]
    pub fn as_safe_integer(&self) -> Option<i64> {
        if self.kind() == Kind::Number { number::safe_integer(self.text) } else { None }
    }

    /// The value of a member of an object; of a repeated key the last one.
    #[must_use]
    pub fn get(&self, key: &str) -> Option<Json<'a>> {
        let mut walk = self.members().walk;
        let mut found = None;
        while let Some((raw, value)) = walk.member() {
            // Most keys hold no escape, and then the written form decides without decoding.
            if raw == key && !raw.contains('\\') || raw.contains('\\') && decode_string(raw) == key {
                found = Some(value);
            }
        }
        found
    }

    /// The members of an object in the order of the text, repeated keys as often as they stand there; of any
    /// other value none.
    #[must_use]
    pub fn members(&self) -> Members<'a> {
        Members { walk: Walk::new(self.text, b'{') }
    }

    /// The elements of an array in order; of any other value none.
    #[must_use]
    pub fn elements(&self) -> Elements<'a> {
        Elements { walk: Walk::new(self.text, b'[') }
    }
}

/// The members of an object: decoded key and value, in the order of the text.
#[derive(Clone, Debug)]
pub struct Members<'a> {
    walk: Walk<'a>,
}

impl<'a> Iterator for Members<'a> {
    type Item = (Cow<'a, str>, Json<'a>);

    fn next(&mut self) -> Option<Self::Item> {
        let (key, value) = self.walk.member()?;
        Some((decode_string(key), value))
    }
}

/// The elements of an array, in order.
#[derive(Clone, Debug)]
pub struct Elements<'a> {
    walk: Walk<'a>,
}

impl<'a> Iterator for Elements<'a> {
    type Item = Json<'a>;

    fn next(&mut self) -> Option<Self::Item> {
        self.walk.element()
    }
}

/// A position inside the text of an array or object, at or before its next part.
#[derive(Clone, Debug)]
struct Walk<'a> {
    text: &'a str,
    at: usize,
}

impl<'a> Walk<'a> {
    fn new(text: &'a str, opening: u8) -> Self {
        let at = if text.as_bytes().first() == Some(&opening) { 1 } else { text.len() };
        Walk { text, at }
    }

    fn member(&mut self) -> Option<(&'a str, Json<'a>)> {
        let bytes = self.text.as_bytes();
        let start = self.part_start()?;
        let quote = scan::trusted_string_end(bytes, start + 1);
        let key = piece(self.text, start + 1, quote);
        self.at = scan::skip_space(bytes, scan::skip_space(bytes, quote + 1) + 1);
        Some((key, self.value()))
    }

    fn element(&mut self) -> Option<Json<'a>> {
        self.at = self.part_start()?;
        Some(self.value())
    }

    /// Where the next part starts: after white space and at most one comma. None at the closing bracket.
    fn part_start(&self) -> Option<usize> {
        let bytes = self.text.as_bytes();
        let mut at = scan::skip_space(bytes, self.at);
        if bytes.get(at) == Some(&b',') {
            at = scan::skip_space(bytes, at + 1);
        }
        match bytes.get(at) {
            None | Some(b'}' | b']') => None,
            Some(_) => Some(at),
        }
    }

    /// The value at the current position, and on to after it.
    fn value(&mut self) -> Json<'a> {
        let end = scan::trusted_value_end(self.text.as_bytes(), self.at).min(self.text.len());
        let value = Json::trusted(piece(self.text, self.at, end));
        // Always forward, so that a walk through text that was wrongly trusted ends too.
        self.at = end.max(self.at + 1);
        value
    }
}
