//! Errors as JSON objects: the same members on the command line, in C and wherever else an error crosses as text (`cli.md`).

use super::{ObjectText, print_string};
use crate::error::{At, Error};

impl Error {
    /// Every fact that is known, as one JSON object: `code`, `message`, `advice`, and by name what else there is.
    ///
    /// ```
    /// use dsh_session_core::{Code, Error};
    /// let error = Error::new(Code::SessionNotFound, "there is no session s").with_session_id("s").with_advice("look again");
    /// assert_eq!(
    ///     error.to_json(),
    ///     r#"{"code":"SESSION_NOT_FOUND","message":"there is no session s","advice":"look again","id":"s"}"#
    /// );
    /// ```
    #[must_use]
    pub fn to_json(&self) -> String {
        let mut out = ObjectText::new();
        self.write_facts(&mut out);
        out.finish()
    }

    /// Adds the members of [`to_json`](Self::to_json) to an object that has more to say.
    pub fn write_facts(&self, out: &mut ObjectText) {
        out.string("code", self.code().name());
        out.string("message", self.message());
        out.string("advice", self.advice());
        let path = self.path().map(|path| path.to_string_lossy());
        let texts = [
            ("path", path.as_deref()),
            ("id", self.session_id()),
            ("at", self.at().map(At::as_str)),
            ("version", self.version()),
            ("type", self.event_type()),
            ("rule", self.rule()),
            ("limit", self.limit()),
            ("owner", self.owner()),
            ("jsonPath", self.json_path()),
        ];
        for (key, text) in texts {
            if let Some(text) = text {
                out.string(key, text);
            }
        }
        let numbers = [
            ("seq", self.seq()),
            ("line", self.line()),
            ("frame", self.frame()),
            ("offset", self.offset()),
            ("expected", self.expected()),
            ("got", self.got()),
            ("index", self.index()),
            ("salvageable", self.salvageable()),
        ];
        for (key, number) in numbers {
            if let Some(number) = number {
                out.number(key, number);
            }
        }
        if let Some(os) = self.os() {
            out.number("os", os);
        }
        if !self.paths().is_empty() {
            out.json("paths", &array(self.paths().iter().map(|path| quoted(&path.to_string_lossy()))));
        }
        if !self.causes().is_empty() {
            out.json("causes", &array(self.causes().iter().map(Error::to_json)));
        }
    }
}

fn quoted(text: &str) -> String {
    let mut out = String::new();
    print_string(&mut out, text);
    out
}

fn array(values: impl Iterator<Item = String>) -> String {
    format!("[{}]", values.collect::<Vec<_>>().join(","))
}
