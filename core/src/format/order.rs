//! The one place that knows which rows of a log count: rows in order, gaps, and the recoverable suffix (`format.md` 5.3).
//!
//! Row admission, relationships and vocabulary (`format.md` 5.2, 5.5, 5.6) will be asked here, row by row.

use super::piece::ParsedRow;
use crate::error::{At, Code, Error, Result};
use crate::event::Event;
use crate::event::row::{self, BadRow, RowFault};
use std::sync::Arc;

/// Where a row stands, as far as its reader knows.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct RowPlace {
    /// The frame that the row begins in; `None` in a raw log, and where reading did not begin at the start.
    pub(crate) frame: Option<u64>,
    /// The byte offset of the row (raw) or of its frame (compressed).
    pub(crate) offset: u64,
    /// Whether the row stands in complete frames, where nothing is ever dropped.
    pub(crate) is_in_complete_frame: bool,
}

/// The first row that was not accepted; everything from it on is dropped, unless a turn ended after it.
#[derive(Debug)]
pub(crate) struct FirstBad {
    pub(crate) reason: String,
    error: Error,
}

/// Accepts rows one after the other.
#[derive(Debug)]
pub(crate) struct RowOrder {
    /// The seq that the next row must have; unknown when reading began in the middle, until the first good row.
    next_seq: Option<u64>,
    /// The line of the next row; unknown when reading began in the middle.
    line: Option<u64>,
    bad: Option<FirstBad>,
    /// Rows after the first bad one (itself included) that are JSON objects: what a cut would destroy.
    dropped_objects: u64,
    /// Seq of the last accepted marker that ends an inherited prefix.
    inherited: Option<u64>,
}

impl RowOrder {
    /// From the first row after the header.
    pub(crate) fn from_start() -> RowOrder {
        RowOrder { next_seq: Some(0), line: Some(2), bad: None, dropped_objects: 0, inherited: None }
    }

    /// From the middle of a log: the first good row says where. `next_seq` where the caller knows it.
    pub(crate) fn from_middle(next_seq: Option<u64>) -> RowOrder {
        RowOrder { next_seq, line: None, bad: None, dropped_objects: 0, inherited: None }
    }

    /// Rows accepted so far, counted from the start of the log; `None` before the first good row of a middle.
    pub(crate) fn next_seq(&self) -> Option<u64> {
        self.next_seq
    }

    pub(crate) fn line(&self) -> Option<u64> {
        self.line
    }

    pub(crate) fn first_bad(&self) -> Option<&FirstBad> {
        self.bad.as_ref()
    }

    pub(crate) fn dropped_objects(&self) -> u64 {
        self.dropped_objects
    }

    pub(crate) fn inherited(&self) -> Option<u64> {
        self.inherited
    }

    /// Judges the next row: an event, or nothing where the row is dropped.
    ///
    /// # Errors
    /// `SESSION_CORRUPT` for a bad row in a complete frame, or once a turn ends at or after a bad row;
    /// `LIMIT_EXCEEDED` for nesting beyond the store's limit.
    pub(crate) fn push(
        &mut self,
        buffer: &Arc<String>,
        row: ParsedRow,
        place: RowPlace,
    ) -> Result<Option<Event>> {
        let line = self.line;
        self.line = line.map(|line| line + 1);
        match row.outcome {
            Ok(envelope) => {
                let expected = self.next_seq;
                let event = Event::new(Arc::clone(buffer), row.row, envelope);
                if self.bad.is_none() && expected.is_none_or(|expected| expected == event.seq()) {
                    self.next_seq = Some(event.seq() + 1);
                    if row::is_inherited_marker(event.kind(), event.data()) {
                        self.inherited = Some(event.seq());
                    }
                    return Ok(Some(event));
                }
                let expected = expected.unwrap_or_default();
                let reason = format!("seq {expected} should stand here, not {}", event.seq());
                let error =
                    corrupt(reason.clone(), line, place).with_expected(expected).with_got(event.seq());
                self.drop_row(reason, error, true, event.kind() == "turn/end", place)
            }
            // The first line of a window may be the end of a row that began before it.
            Err(_) if self.next_seq.is_none() => Ok(None),
            Err(bad) => {
                let BadRow { fault, is_object, is_turn_end } = *bad;
                if let RowFault::TooDeep { .. } = fault {
                    return Err(self.finished(too_deep(&fault, line, place)));
                }
                let reason = fault.to_string();
                let error = corrupt(reason.clone(), line, place);
                self.drop_row(reason, error, is_object, is_turn_end, place)
            }
        }
    }

    fn drop_row(
        &mut self,
        reason: String,
        error: Error,
        is_object: bool,
        is_turn_end: bool,
        place: RowPlace,
    ) -> Result<Option<Event>> {
        self.dropped_objects += u64::from(is_object);
        let bad = self.bad.get_or_insert(FirstBad { reason, error });
        if place.is_in_complete_frame || is_turn_end {
            let error = bad.error.duplicate();
            return Err(self.finished(error));
        }
        Ok(None)
    }

    /// Adds what is known at the moment a log turns out to be damaged.
    pub(crate) fn finished(&self, error: Error) -> Error {
        match self.next_seq {
            Some(count) => error.with_salvageable(count),
            None => error,
        }
    }
}

/// The error of a damaged row.
pub(crate) fn corrupt(reason: String, line: Option<u64>, place: RowPlace) -> Error {
    placed(Error::new(Code::SessionCorrupt, reason), line, place).with_at(At::Row)
}

fn too_deep(fault: &RowFault, line: Option<u64>, place: RowPlace) -> Error {
    placed(Error::new(Code::LimitExceeded, fault.to_string()), line, place)
        .with_limit("depth_max")
        .with_at(At::Row)
}

/// Adds a row's place to an error.
pub(crate) fn placed(mut error: Error, line: Option<u64>, place: RowPlace) -> Error {
    error = error.with_offset(place.offset);
    if let Some(frame) = place.frame {
        error = error.with_frame(frame);
    }
    if let Some(line) = line {
        error = error.with_line(line);
    }
    error
}
