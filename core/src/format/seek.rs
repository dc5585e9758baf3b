//! Finding a place in a log without reading what stands before it: the newest events, and a window around a seq.
//!
//! Frames and rows carry their own seqs, so a binary search over frame starts (compressed) or row starts (raw) replaces any side
//! file (`design.md` 4). The search only chooses where reading begins: everything given out was checked by a [`LogReader`].

use super::frames;
use super::names::Encoding;
use super::piece::{RowParsing, parse_piece};
use super::reader::{LogEnd, LogReader, LogSource, PIECE_BYTES};
use crate::cancel::CancelToken;
use crate::error::{Error, Result};
use crate::event::Event;
use std::collections::VecDeque;
use std::io;

/// Bytes of the file that the first look at its end takes; grows fourfold until enough events are found.
const TAIL_BYTES: u64 = 64 * 1024;

/// A search stops here: reading so much costs less than another probe.
const SEARCH_BYTES_MIN: u64 = 64 * 1024;

/// Text of a frame that a probe looks at to find a row.
const PROBE_TEXT_BYTES: usize = 64 * 1024;

/// The newest events that are held while their beginning is looked for; beyond these a second look costs less than the memory.
const NEWEST_HELD_MAX: u64 = 4096;

/// Which events of a log, by position.
///
/// ```
/// use dsh_session_core::format::EventRange;
/// assert_eq!(EventRange::window(10, 5), EventRange::Window { from: 10, count: 5 });
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EventRange {
    /// `count` events from position `from` on, or as many as there are.
    Window {
        /// The first seq.
        from: u64,
        /// How many; `u64::MAX` for all that follow.
        count: u64,
    },
    /// The last `count` events, or as many as there are.
    Newest {
        /// How many.
        count: u64,
    },
}

impl EventRange {
    /// Every event.
    pub const ALL: EventRange = EventRange::Window { from: 0, count: u64::MAX };

    /// From a position to the end.
    #[must_use]
    pub fn from(seq: u64) -> EventRange {
        EventRange::Window { from: seq, count: u64::MAX }
    }

    /// `count` events from a position on.
    #[must_use]
    pub fn window(from: u64, count: u64) -> EventRange {
        EventRange::Window { from, count }
    }

    /// The last `count` events.
    #[must_use]
    pub fn newest(count: u64) -> EventRange {
        EventRange::Newest { count }
    }
}

/// The events of a range, in order.
#[derive(Debug)]
pub(crate) struct RangeReader {
    reader: LogReader,
    /// Events that were already read while looking for the beginning.
    ready: VecDeque<Event>,
    from: u64,
    /// The seq to stop before.
    to: u64,
    is_from_start: bool,
}

impl RangeReader {
    pub(crate) fn new(source: LogSource, range: EventRange, cancel: &CancelToken) -> Result<RangeReader> {
        match range {
            EventRange::Window { from, count } => RangeReader::window(source, from, count, cancel),
            EventRange::Newest { count } => RangeReader::newest(source, count, cancel),
        }
    }

    fn window(source: LogSource, from: u64, count: u64, cancel: &CancelToken) -> Result<RangeReader> {
        let to = from.saturating_add(count);
        let start = locate(&source, from, cancel)?;
        let is_from_start = start.offset == source.header_end;
        let reader = start.reader(source, cancel);
        Ok(RangeReader { reader, ready: VecDeque::new(), from, to, is_from_start })
    }

    fn newest(source: LogSource, count: u64, cancel: &CancelToken) -> Result<RangeReader> {
        if count > NEWEST_HELD_MAX {
            // More than should be held at once: counted from the end, then walked.
            let mut last = RangeReader::newest(source.clone(), 1, cancel)?;
            while last.next_event()?.is_some() {}
            let event_count = last.end().map_or(0, |end| end.event_count);
            return RangeReader::window(source, event_count.saturating_sub(count), u64::MAX, cancel);
        }
        let wanted = usize::try_from(count).unwrap_or(usize::MAX);
        let mut tail_bytes = TAIL_BYTES;
        loop {
            let start = tail_start(&source, tail_bytes, cancel)?;
            let is_from_start = start.offset == source.header_end;
            let mut reader = start.reader(source.clone(), cancel);
            let mut ready = VecDeque::new();
            while let Some(event) = reader.next_event()? {
                ready.push_back(event);
                if ready.len() > wanted {
                    ready.pop_front();
                }
            }
            if is_from_start || ready.len() >= wanted {
                let from = ready.front().map_or(0, Event::seq);
                return Ok(RangeReader { reader, ready, from, to: u64::MAX, is_from_start });
            }
            tail_bytes = tail_bytes.saturating_mul(4);
        }
    }

    /// The next event of the range.
    pub(crate) fn next_event(&mut self) -> Result<Option<Event>> {
        if let Some(event) = self.ready.pop_front() {
            return Ok(Some(event));
        }
        if self.reader.next_seq().is_some_and(|next| next >= self.to) {
            return Ok(None);
        }
        while let Some(event) = self.reader.next_event()? {
            if event.seq() >= self.from {
                return Ok((event.seq() < self.to).then_some(event));
            }
        }
        Ok(None)
    }

    /// What the end of the log looks like; `None` where the range ended before it.
    pub(crate) fn end(&self) -> Option<&LogEnd> {
        self.reader.end()
    }

    /// Whether every row from the first one on was read.
    pub(crate) fn is_from_start(&self) -> bool {
        self.is_from_start
    }
}

/// Where reading begins.
#[derive(Clone, Copy, Debug)]
struct Start {
    offset: u64,
    /// The seq of the first row there, where it is certain.
    seq: Option<u64>,
}

impl Start {
    fn reader(self, source: LogSource, cancel: &CancelToken) -> LogReader {
        if self.offset == source.header_end {
            return LogReader::from_start(source, cancel.clone());
        }
        LogReader::from_middle(source, self.offset, self.seq, cancel.clone())
    }
}

fn io_error(error: &io::Error) -> Error {
    Error::io("read the log", error)
}

/// A place at or before the row of `seq`, near it.
fn locate(source: &LogSource, seq: u64, cancel: &CancelToken) -> Result<Start> {
    let first = Start { offset: source.header_end, seq: Some(0) };
    if seq == 0 || source.end.saturating_sub(source.header_end) <= SEARCH_BYTES_MIN {
        return Ok(first);
    }
    let tail = tail_start(source, TAIL_BYTES, cancel)?;
    if tail.offset == first.offset {
        return Ok(first);
    }
    match first_seq_at(source, tail.offset)? {
        Some((_, tail_seq)) if tail_seq <= seq => return Ok(tail),
        Some(_) => {}
        None => return Ok(first),
    }
    let (mut low, mut high) = (first, tail.offset);
    while high - low.offset > SEARCH_BYTES_MIN {
        cancel.check()?;
        let middle = low.offset + (high - low.offset) / 2;
        match row_start_near(source, middle, high)? {
            Some((offset, found)) if offset < high && found <= seq => low = Start { offset, seq: None },
            // Nothing begins between the middle and the upper end, or what does is too late.
            Some(_) => high = middle,
            // Damage: reading from the lower end on will tell.
            None => break,
        }
    }
    Ok(low)
}

/// A place near the end from which everything up to the end can be judged.
fn tail_start(source: &LogSource, tail_bytes: u64, cancel: &CancelToken) -> Result<Start> {
    match source.encoding {
        Encoding::Zstd => {
            let tail = frames::last_frames_start(&source.file, source.end, source.header_end, tail_bytes);
            let tail = tail.map_err(|error| io_error(&error))?;
            Ok(Start { offset: tail.start().unwrap_or(source.header_end), seq: None })
        }
        Encoding::None => raw_tail_start(source, tail_bytes, cancel),
    }
}

/// In a raw log a bad row drops everything after it, unless a turn ends later (`format.md` 5.3). So whatever stands before a good row
/// that ends a turn is accepted, or the log is corrupt: reading may begin at any such row, and only there.
fn raw_tail_start(source: &LogSource, tail_bytes: u64, cancel: &CancelToken) -> Result<Start> {
    const NEEDLE: &[u8] = b"turn/end";
    let finder = memchr::memmem::FinderRev::new(NEEDLE);
    let mut piece_end = source.end.saturating_sub(tail_bytes);
    while piece_end > source.header_end {
        cancel.check()?;
        let piece_start = piece_end.saturating_sub(PIECE_BYTES as u64).max(source.header_end);
        let bytes = read_exactly(source, piece_start, (piece_end - piece_start) as usize)?;
        let mut search_end = bytes.len();
        // Pieces overlap, so that a needle across their border is found.
        let is_first = piece_start == source.header_end;
        piece_end = if is_first { piece_start } else { piece_start + NEEDLE.len() as u64 - 1 };
        while let Some(found) = finder.rfind(&bytes[..search_end]) {
            cancel.check()?;
            let (offset, event) = row_around(source, piece_start + found as u64)?;
            if let Some(event) = event.filter(|event| event.kind() == "turn/end") {
                return Ok(Start { offset, seq: Some(event.seq()) });
            }
            // Each row is looked at once, however often the words stand in it and however many pieces it spans.
            if offset <= piece_start {
                piece_end = piece_end.min(offset);
                break;
            }
            search_end = (offset - piece_start) as usize;
        }
    }
    Ok(Start { offset: source.header_end, seq: Some(0) })
}

/// A row or frame start at or before the row of `seq`, near it.
pub(super) fn start_before(source: &LogSource, seq: u64, cancel: &CancelToken) -> Result<u64> {
    locate(source, seq, cancel).map(|start| start.offset)
}

pub(super) fn read_exactly(source: &LogSource, offset: u64, length: usize) -> Result<Vec<u8>> {
    let mut bytes = Vec::new();
    super::group::read_more(source, offset, &mut bytes, length).map_err(|error| io_error(&error))?;
    Ok(bytes)
}

/// Where the row that holds the byte at `position` begins, and the row if it is good.
fn row_around(source: &LogSource, position: u64) -> Result<(u64, Option<Event>)> {
    let mut start = position;
    let start = loop {
        let from = start.saturating_sub(8192).max(source.header_end);
        let bytes = read_exactly(source, from, (start - from) as usize)?;
        if let Some(newline) = memchr::memrchr(b'\n', &bytes) {
            break from + newline as u64 + 1;
        }
        if from == source.header_end {
            break from;
        }
        start = from;
    };
    Ok((start, good_row_at(source, start)?))
}

/// The row that begins at `offset` of a raw log, if it is good and whole.
pub(super) fn good_row_at(source: &LogSource, offset: u64) -> Result<Option<Event>> {
    let mut bytes = Vec::new();
    let mut piece = 8192;
    loop {
        let from = bytes.len();
        let read =
            super::group::read_more(source, offset, &mut bytes, piece).map_err(|error| io_error(&error))?;
        if let Some(newline) = memchr::memchr(b'\n', &bytes[from..]) {
            bytes.truncate(from + newline + 1);
            return Ok(first_good_event(bytes, source));
        }
        if read == 0 || bytes.len() as u64 > source.limits.row_bytes_max {
            return Ok(None);
        }
        piece *= 2;
    }
}

fn first_good_event(bytes: Vec<u8>, source: &LogSource) -> Option<Event> {
    let piece = parse_piece(bytes, RowParsing::unjudged(&source.limits));
    let mut rows = piece.rows.into_iter();
    rows.find_map(|row| Some(Event::new(std::sync::Arc::clone(&piece.buffer), row.row, row.outcome.ok()?)))
}

/// The first row or frame start at or after `position`, with the seq of the first good row found there.
fn row_start_near(source: &LogSource, position: u64, end: u64) -> Result<Option<(u64, u64)>> {
    if source.encoding == Encoding::Zstd {
        let start = frames::frame_start_near(&source.file, position, source.header_end, source.end);
        return match start.map_err(|error| io_error(&error))? {
            Some(start) => first_seq_at(source, start),
            None => Ok(None),
        };
    }
    let mut from = position;
    while from < end {
        let bytes = read_exactly(source, from, 8192)?;
        if let Some(newline) = memchr::memchr(b'\n', &bytes) {
            let offset = from + newline as u64 + 1;
            if offset >= end {
                break;
            }
            return Ok(good_row_at(source, offset)?.map(|event| (offset, event.seq())));
        }
        if bytes.is_empty() {
            break;
        }
        from += bytes.len() as u64;
    }
    // No row begins before `end`: report the end itself, which is later than any wanted row.
    Ok(Some((end, u64::MAX)))
}

/// The seq of the first good row from `offset` on, a row or frame start, looking through frames without whole rows.
fn first_seq_at(source: &LogSource, offset: u64) -> Result<Option<(u64, u64)>> {
    if source.encoding == Encoding::None {
        return Ok(good_row_at(source, offset)?.map(|event| (offset, event.seq())));
    }
    let text = frames::peek_text(&source.file, offset, source.end, PROBE_TEXT_BYTES)
        .map_err(|error| io_error(&error))?;
    let whole = memchr::memrchr(b'\n', &text).map_or(0, |newline| newline + 1);
    let mut text = text;
    text.truncate(whole);
    Ok(first_good_event(text, source).map(|event| (offset, event.seq())))
}
