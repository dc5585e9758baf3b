//! The title of a session (`query.md` 5.4).

use crate::event::Event;
use crate::event::facts::{is_word, members};
use crate::format::header::SessionHeader;
use crate::json::{Json, ObjectText};

/// The last title event of a log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TitleRecord {
    /// JSON text. Not the event, which would keep its neighbours' text alive.
    data: String,
    event_seq: u64,
    updated_at: i64,
}

impl TitleRecord {
    /// The title of a log, inherited events included; `None` if it has no title event.
    ///
    /// ```
    /// use dsh_session_core::{Event, query::TitleRecord};
    /// let row = r#"{"type":"session/title","seq":0,"time":7,"data":{"title":"Ledger","messageSeqs":[],"source":{"kind":"user"}}}"#;
    /// let title = TitleRecord::of(&[Event::from_row(row)?]).unwrap();
    /// assert_eq!((title.text().as_str(), title.updated_at()), ("Ledger", 7));
    /// # Ok::<(), dsh_session_core::Error>(())
    /// ```
    pub fn of<'a>(events: impl IntoIterator<Item = &'a Event>) -> Option<TitleRecord> {
        let mut last = None;
        events.into_iter().for_each(|event| TitleRecord::see(&mut last, event));
        last
    }

    /// Takes the next event of a log.
    pub(super) fn see(last: &mut Option<TitleRecord>, event: &Event) {
        if event.kind() == "session/title" {
            let data = event.data().text().to_owned();
            *last = Some(TitleRecord { data, event_seq: event.seq(), updated_at: event.time() });
        }
    }

    fn data(&self) -> Json<'_> {
        Json::trusted(&self.data)
    }

    /// The title itself; empty where the event has none that is a string.
    #[must_use]
    pub fn text(&self) -> String {
        self.data().get("title").and_then(|title| title.as_str()).unwrap_or_default().into_owned()
    }

    /// The seq of the event that set it.
    #[must_use]
    pub fn event_seq(&self) -> u64 {
        self.event_seq
    }

    /// When it was set, in milliseconds since 1970.
    #[must_use]
    pub fn updated_at(&self) -> i64 {
        self.updated_at
    }

    /// `{title, messageSeqs, source, eventSeq, updatedAt}`; of the source only the members that sources have.
    #[must_use]
    pub fn to_json(&self) -> String {
        let [title, message_seqs, source] = members(self.data(), ["title", "messageSeqs", "source"]);
        let mut out = ObjectText::new();
        put(&mut out, "title", title);
        put(&mut out, "messageSeqs", message_seqs);
        if let Some(source) = source {
            out.json("source", &source_json(source));
        }
        out.number("eventSeq", self.event_seq());
        out.number("updatedAt", self.updated_at());
        out.finish()
    }
}

fn source_json(source: Json<'_>) -> String {
    let [kind, provider, model] = members(source, ["kind", "provider", "model"]);
    let mut out = ObjectText::new();
    put(&mut out, "kind", kind);
    if is_word(kind, "provider") {
        put(&mut out, "provider", provider);
        put(&mut out, "model", model);
    }
    out.finish()
}

fn put(out: &mut ObjectText, key: &str, value: Option<Json<'_>>) {
    if let Some(value) = value {
        out.json(key, value.text());
    }
}

/// The header and the title of one session, of one observation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TitleSnapshot {
    /// The header.
    pub session: SessionHeader,
    /// The title, if there is one.
    pub title: Option<TitleRecord>,
}

impl TitleSnapshot {
    /// `{session, title?}`.
    #[must_use]
    pub fn to_json(&self) -> String {
        let mut out = ObjectText::new();
        out.json("session", &self.session.to_json());
        if let Some(title) = &self.title {
            out.json("title", &title.to_json());
        }
        out.finish()
    }
}
