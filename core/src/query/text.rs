//! What of an event can be found by its words (`query.md` 2.1 to 2.4).

use crate::event::Event;
use crate::event::facts::{is_word, members};
use crate::json::Json;

/// The white space of queries (`query.md` 2.1). Not [`char::is_whitespace`], which has U+0085 and lacks U+FEFF.
pub(crate) fn is_query_space(character: char) -> bool {
    matches!(character, '\u{9}'..='\u{d}' | ' ' | '\u{a0}' | '\u{1680}' | '\u{2000}'..='\u{200a}' | '\u{2028}' | '\u{2029}'
        | '\u{202f}' | '\u{205f}' | '\u{3000}' | '\u{feff}')
}

/// The parts of a text, one to a line.
#[derive(Default)]
struct Joined {
    text: String,
}

impl Joined {
    fn add(&mut self, part: &str) {
        let part = part.trim_matches(is_query_space);
        if part.is_empty() {
            return;
        }
        if !self.text.is_empty() {
            self.text.push('\n');
        }
        self.text.push_str(part);
    }

    /// A part that is a string; anything else adds nothing.
    fn add_value(&mut self, part: Option<Json<'_>>) {
        if let Some(text) = part.and_then(|part| part.as_str()) {
            self.add(&text);
        }
    }

    /// `query.md` 2.3.
    fn add_blocks(&mut self, content: Option<Json<'_>>) {
        for block in content.into_iter().flat_map(|content| content.elements()) {
            let [kind, text, name, arguments] = members(block, ["type", "text", "name", "arguments"]);
            if is_word(kind, "text") {
                self.add_value(text);
            } else if is_word(kind, "tool-call") {
                self.add_value(name);
                self.add_value(arguments);
            }
        }
    }
}

/// What an event says, for search and text filters; empty for events that say nothing (`query.md` 2.4).
///
/// ```
/// use dsh_session_core::{Event, query::semantic_text};
/// let row = r#"{"type":"tool/call","seq":0,"time":1,"data":{"turn":1,"step":1,"callId":"c","name":"grep","arguments":" {} "}}"#;
/// assert_eq!(semantic_text(&Event::from_row(row)?), "grep\n{}");
/// # Ok::<(), dsh_session_core::Error>(())
/// ```
#[must_use]
pub fn semantic_text(event: &Event) -> String {
    let data = event.data();
    let mut joined = Joined::default();
    match event.kind() {
        "user/message" => joined.add_blocks(data.get("content")),
        "assistant/message" => {
            joined.add_blocks(data.get("message").and_then(|message| message.get("content")))
        }
        "tool/call" => {
            let [name, arguments] = members(data, ["name", "arguments"]);
            joined.add_value(name);
            joined.add_value(arguments);
        }
        "tool/result" => add_result(&mut joined, data),
        "todo/write" => {
            for item in data.get("todos").into_iter().flat_map(|todos| todos.elements()) {
                let [status, content] = members(item, ["status", "content"]);
                joined.add_value(status);
                joined.add_value(content);
            }
        }
        "turn/end" => add_ending(&mut joined, data),
        _ => {}
    }
    joined.text
}

fn add_result(joined: &mut Joined, data: Json<'_>) {
    let [message, error] = members(data, ["message", "error"]);
    joined.add_blocks(message.and_then(|message| message.get("content")));
    if let Some(error) = error {
        let [name, code] = members(error, ["name", "code"]);
        joined.add_value(name);
        joined.add_value(code);
    }
}

/// How a turn ended, where that is no ordinary end.
fn add_ending(joined: &mut Joined, data: Json<'_>) {
    let Some(reason) = data.get("reason") else { return };
    let [kind, error] = members(reason, ["kind", "error"]);
    for word in ["error", "aborted", "max-tokens", "interrupted"] {
        if is_word(kind, word) {
            joined.add(word);
            if word == "error" {
                joined.add_value(error.and_then(|error| error.get("message")));
            }
        }
    }
}
