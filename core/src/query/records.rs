//! What lists are made of: one line for a session, one for an event, one for what an event says (`query.md` 1.3, 2.5).

use super::text::semantic_text;
use crate::event::Event;
use crate::format::header::SessionHeader;
use crate::json::ObjectText;
use crate::persistence::FormatStatus;

/// A session of the corpus (`query.md` 1.3).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SessionRecord {
    /// That of the live session if it is live, else the stored one.
    pub header: SessionHeader,
    /// Whether it is live in this store.
    pub live: bool,
    /// Whether the storage lists it, with or without a log file.
    pub persisted: bool,
    /// `Current` if live, else what the storage says; `None` where it says nothing.
    pub format_status: Option<FormatStatus>,
}

impl SessionRecord {
    /// `{header, live, persisted, formatStatus?}`.
    #[must_use]
    pub fn to_json(&self) -> String {
        let mut out = ObjectText::new();
        self.write(&mut out);
        out.finish()
    }

    fn write(&self, out: &mut ObjectText) {
        out.json("header", &self.header.to_json());
        out.boolean("live", self.live);
        out.boolean("persisted", self.persisted);
        if let Some(status) = self.format_status {
            out.string("formatStatus", status.as_str());
        }
    }
}

/// Where an event stands (`query.md` 2.6).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum SurfacePlace {
    /// On the surface now.
    Current,
    /// Was on it, and a replacement removed it.
    Shadowed,
    /// Never on it.
    LogOnly,
}

impl SurfacePlace {
    /// The word in JSON.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            SurfacePlace::Current => "current",
            SurfacePlace::Shadowed => "shadowed",
            SurfacePlace::LogOnly => "log-only",
        }
    }

    /// The place of a word.
    #[must_use]
    pub fn from_word(word: &str) -> Option<SurfacePlace> {
        [SurfacePlace::Current, SurfacePlace::Shadowed, SurfacePlace::LogOnly]
            .into_iter()
            .find(|place| place.as_str() == word)
    }
}

/// An event without its content.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EventRecord {
    /// The session that was asked.
    pub session_id: String,
    /// The position in the log.
    pub seq: u64,
    /// The event type.
    pub kind: String,
    /// Milliseconds since 1970.
    pub time: i64,
    /// Where it stands.
    pub surface: SurfacePlace,
}

impl EventRecord {
    pub(super) fn of(session_id: &str, event: &Event, surface: SurfacePlace) -> EventRecord {
        EventRecord {
            session_id: session_id.to_owned(),
            seq: event.seq(),
            kind: event.kind().to_owned(),
            time: event.time(),
            surface,
        }
    }

    /// `{sessionId, seq, type, time, surface}`.
    #[must_use]
    pub fn to_json(&self) -> String {
        let mut out = ObjectText::new();
        self.write(&mut out);
        out.finish()
    }

    fn write(&self, out: &mut ObjectText) {
        out.string("sessionId", &self.session_id);
        out.number("seq", self.seq);
        out.string("type", &self.kind);
        out.number("time", self.time);
        out.string("surface", self.surface.as_str());
    }
}

/// What an event says (`query.md` 2.5).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Document {
    /// The event.
    pub record: EventRecord,
    /// Its [semantic text](super::semantic_text), never empty.
    pub text: String,
}

impl Document {
    /// `None` for an event that says nothing.
    pub(super) fn of(session_id: &str, event: &Event, surface: SurfacePlace) -> Option<Document> {
        let text = semantic_text(event);
        (!text.is_empty()).then(|| Document { record: EventRecord::of(session_id, event, surface), text })
    }

    /// The record and `text`.
    #[must_use]
    pub fn to_json(&self) -> String {
        let mut out = ObjectText::new();
        self.record.write(&mut out);
        out.string("text", &self.text);
        out.finish()
    }
}
