//! Writing small objects: notices, list lines, results. Not for rows, whose text is kept as it came.

use super::print_string;

/// The text of one JSON object, written member by member.
///
/// ```
/// use dsh_session_core::json::ObjectText;
/// let mut object = ObjectText::new();
/// object.string("id", "s1");
/// object.number("events", 3);
/// assert_eq!(object.finish(), r#"{"id":"s1","events":3}"#);
/// ```
#[derive(Clone, Debug)]
pub struct ObjectText {
    text: String,
}

impl ObjectText {
    /// An object without members.
    #[must_use]
    pub fn new() -> Self {
        ObjectText { text: String::from("{") }
    }

    /// Adds a string.
    pub fn string(&mut self, key: &str, value: &str) {
        self.key(key);
        print_string(&mut self.text, value);
    }

    /// Adds a whole number.
    pub fn number(&mut self, key: &str, value: impl Into<i128>) {
        self.key(key);
        self.text.push_str(&value.into().to_string());
    }

    /// Adds a boolean.
    pub fn boolean(&mut self, key: &str, value: bool) {
        self.key(key);
        self.text.push_str(if value { "true" } else { "false" });
    }

    /// Adds a value that is JSON text already.
    pub fn json(&mut self, key: &str, value: &str) {
        self.key(key);
        self.text.push_str(value);
    }

    /// The object's text.
    #[must_use]
    pub fn finish(mut self) -> String {
        self.text.push('}');
        self.text
    }

    fn key(&mut self, key: &str) {
        if self.text.len() > 1 {
            self.text.push(',');
        }
        print_string(&mut self.text, key);
        self.text.push(':');
    }
}

impl Default for ObjectText {
    fn default() -> Self {
        ObjectText::new()
    }
}
