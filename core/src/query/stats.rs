//! What a session, or a whole root, is made of: counts, sizes, the largest rows, tokens where they were recorded.

use crate::cancel::CancelToken;
use crate::error::{Code, Error, Result};
use crate::event::Event;
use crate::format::EventRange;
use crate::format::header::encode_line;
use crate::json::{Json, ObjectText};
use crate::persistence::{Access, ListMode, SessionPersistence};
use std::collections::BTreeMap;

/// How many of the largest rows are kept.
pub const LARGEST_ROWS_MAX: usize = 5;

/// One of the largest rows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LargeRow {
    /// The session.
    pub id: String,
    /// The position in its log.
    pub seq: u64,
    /// The event type.
    pub kind: String,
    /// Bytes of text, newline left out.
    pub bytes: u64,
}

/// Sums of the token usage of `assistant/message` rows, where they record it (`events.md` 6).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TokenSums {
    /// Messages that record a usage.
    pub messages: u64,
    /// Input that was not cached.
    pub input: u64,
    /// Output.
    pub output: u64,
    /// Input read from a cache.
    pub cache_read: u64,
    /// Input written to a cache.
    pub cache_write: u64,
    /// The part of the output that was reasoning, where it is told apart.
    pub reasoning: u64,
}

/// The figures of one session or of several.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Stats {
    /// Sessions counted.
    pub sessions: u64,
    /// Sessions and other things that could not be read to their end; nothing of them is in the other figures.
    pub unreadable: u64,
    /// Events.
    pub events: u64,
    /// Events by type.
    pub events_by_type: BTreeMap<String, u64>,
    /// Bytes of the log files.
    pub file_bytes: u64,
    /// Bytes of their text: headers and rows, newlines included.
    pub text_bytes: u64,
    /// Frames of compressed logs, header frames included.
    pub frames: u64,
    /// The time of the first event, Unix milliseconds: the smallest, since clocks go back.
    pub first_time: Option<i64>,
    /// The largest time of an event.
    pub last_time: Option<i64>,
    /// The largest rows, largest first, at most [`LARGEST_ROWS_MAX`].
    pub largest_rows: Vec<LargeRow>,
    /// Tokens; `None` where no message records any.
    pub tokens: Option<TokenSums>,
}

impl Stats {
    /// The figures as a JSON object (`cli.md`, `stats`).
    #[must_use]
    pub fn to_json(&self) -> String {
        let mut out = ObjectText::new();
        out.number("sessions", self.sessions);
        out.number("unreadable", self.unreadable);
        out.number("events", self.events);
        let mut types = ObjectText::new();
        for (kind, count) in &self.events_by_type {
            types.number(kind, *count);
        }
        out.json("eventsByType", &types.finish());
        out.number("fileBytes", self.file_bytes);
        out.number("textBytes", self.text_bytes);
        out.number("frames", self.frames);
        for (key, time) in [("firstTime", self.first_time), ("lastTime", self.last_time)] {
            if let Some(time) = time {
                out.number(key, time);
            }
        }
        let rows: Vec<_> = self.largest_rows.iter().map(LargeRow::to_json).collect();
        out.json("largestRows", &format!("[{}]", rows.join(",")));
        if let Some(tokens) = &self.tokens {
            out.json("tokens", &tokens.to_json());
        }
        out.finish()
    }

    fn add_event(&mut self, id: &str, event: &Event) {
        let bytes = event.row().len() as u64;
        self.events += 1;
        self.text_bytes += bytes + 1;
        match self.events_by_type.get_mut(event.kind()) {
            Some(count) => *count += 1,
            None => {
                self.events_by_type.insert(event.kind().to_owned(), 1);
            }
        }
        self.add_times(Some(event.time()), Some(event.time()));
        let is_large = self.largest_rows.len() < LARGEST_ROWS_MAX
            || self.largest_rows.last().is_some_and(|least| least.bytes < bytes);
        if is_large {
            let (id, kind) = (id.to_owned(), event.kind().to_owned());
            self.add_large_row(LargeRow { id, seq: event.seq(), kind, bytes });
        }
        if let Some(usage) = usage_of(event) {
            self.tokens.get_or_insert_default().add_usage(usage);
        }
    }

    fn add_times(&mut self, first: Option<i64>, last: Option<i64>) {
        self.first_time = self.first_time.into_iter().chain(first).min();
        self.last_time = self.last_time.into_iter().chain(last).max();
    }

    fn add_large_row(&mut self, row: LargeRow) {
        let place = self.largest_rows.partition_point(|other| other.bytes >= row.bytes);
        self.largest_rows.insert(place, row);
        self.largest_rows.truncate(LARGEST_ROWS_MAX);
    }

    fn add(&mut self, other: Stats) {
        self.sessions += other.sessions;
        self.unreadable += other.unreadable;
        self.events += other.events;
        for (kind, count) in other.events_by_type {
            *self.events_by_type.entry(kind).or_default() += count;
        }
        self.file_bytes += other.file_bytes;
        self.text_bytes += other.text_bytes;
        self.frames += other.frames;
        self.add_times(other.first_time, other.last_time);
        for row in other.largest_rows {
            self.add_large_row(row);
        }
        if let Some(tokens) = other.tokens {
            self.tokens.get_or_insert_default().add(&tokens);
        }
    }
}

impl LargeRow {
    fn to_json(&self) -> String {
        let mut out = ObjectText::new();
        out.string("id", &self.id);
        out.number("seq", self.seq);
        out.string("type", &self.kind);
        out.number("bytes", self.bytes);
        out.finish()
    }
}

impl TokenSums {
    fn to_json(self) -> String {
        let mut out = ObjectText::new();
        out.number("messages", self.messages);
        out.number("inputTokens", self.input);
        out.number("outputTokens", self.output);
        out.number("cacheReadTokens", self.cache_read);
        out.number("cacheWriteTokens", self.cache_write);
        out.number("reasoningTokens", self.reasoning);
        out.finish()
    }

    fn add_usage(&mut self, usage: Json<'_>) {
        let count = |key| usage.get(key).and_then(|value| value.as_count()).unwrap_or(0);
        self.add(&TokenSums {
            messages: 1,
            input: count("inputTokens"),
            output: count("outputTokens"),
            cache_read: count("cacheReadTokens"),
            cache_write: count("cacheWriteTokens"),
            reasoning: count("reasoningTokens"),
        });
    }

    fn add(&mut self, other: &TokenSums) {
        self.messages += other.messages;
        // Counts of a hostile log may be as large as 2^53; a sum that is full stays full.
        self.input = self.input.saturating_add(other.input);
        self.output = self.output.saturating_add(other.output);
        self.cache_read = self.cache_read.saturating_add(other.cache_read);
        self.cache_write = self.cache_write.saturating_add(other.cache_write);
        self.reasoning = self.reasoning.saturating_add(other.reasoning);
    }
}

/// The usage of an assistant message: its own, or else the last one in its stream (`events.md` 2.1).
fn usage_of(event: &Event) -> Option<Json<'_>> {
    if event.kind() != "assistant/message" {
        return None;
    }
    let data = event.data();
    data.get("usage").or_else(|| {
        let chunks = data.get("stream")?.elements().filter_map(|record| record.get("chunk"));
        chunks.filter_map(|chunk| chunk.get("usage")).last()
    })
}

/// The figures of one session, or of all.
pub(crate) fn stats(
    persistence: &dyn SessionPersistence,
    id: Option<&str>,
    cancel: &CancelToken,
) -> Result<Stats> {
    if let Some(id) = id {
        return of_session(persistence, id, cancel);
    }
    let listing = persistence.list(ListMode::Tolerant, cancel)?;
    let mut all = Stats { unreadable: listing.problems.len() as u64, ..Stats::default() };
    for snapshot in listing.sessions {
        match of_session(persistence, &snapshot.header.id, cancel) {
            Ok(one) => all.add(one),
            // Gone since the listing.
            Err(error) if error.code() == Code::SessionNotFound => {}
            Err(error) if is_about_one_session(&error) => all.unreadable += 1,
            Err(error) => return Err(error),
        }
    }
    Ok(all)
}

fn is_about_one_session(error: &Error) -> bool {
    matches!(
        error.code(),
        Code::SessionCorrupt
            | Code::FormatUnsupported
            | Code::SessionConflict
            | Code::LimitExceeded
            | Code::SourceChanged
            | Code::Io
    )
}

fn of_session(persistence: &dyn SessionPersistence, id: &str, cancel: &CancelToken) -> Result<Stats> {
    let log = persistence.open(id, Access::Read, cancel)?;
    let mut stats = Stats { sessions: 1, ..Stats::default() };
    match persistence.raw_log(id, cancel)? {
        Some(raw) => {
            stats.file_bytes = raw.file_bytes();
            stats.frames = raw.frame_count(cancel)?;
            let header = raw.rows(cancel).next().transpose()?;
            stats.text_bytes = header.map_or(0, |header| header.text.len() as u64 + 1);
        }
        None => stats.text_bytes = encode_line(log.header()).len() as u64 + 1,
    }
    for event in log.events(EventRange::ALL, cancel)? {
        stats.add_event(id, &event?);
    }
    Ok(stats)
}
