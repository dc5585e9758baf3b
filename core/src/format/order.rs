//! The one place that knows which rows of a log count: rows in order, gaps, the recoverable suffix (`format.md` 5.3), and the first
//! rule that a row breaks (5.2, 5.5 to 5.7).
//!
//! A log with an unknown required type is unsupported and not corrupt, whatever else is wrong with it (`design.md` 5, Order of
//! checks). So a breach by an accepted row, row admission aside, is not reported at once: no event comes any more, but rows are
//! still looked at until one is unsupported or the log ends.

use super::piece::ParsedRow;
use super::relationships::LogChecker;
use crate::error::{At, Code, Error, Result};
use crate::event::breach::{Breach, Stage};
use crate::event::row::{self, BadRow, RowFault};
use crate::event::verdict::RowVerdict;
use crate::event::{Event, Vocabulary};
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

/// Which rules rows are judged by.
#[derive(Debug)]
pub(crate) enum Checks {
    /// None but those of their order: the rows were judged when this process accepted them.
    Passed,
    /// Those of single rows: the rows before are not known.
    Single(Vocabulary),
    /// All.
    All(Box<LogChecker>),
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
    checks: Checks,
    /// The first breach, to be reported unless the log turns out to be unsupported.
    breach: Option<Error>,
    /// Where the rows stand whose breach a later row may clear.
    doubtful: Vec<(u64, Option<u64>, RowPlace)>,
}

impl RowOrder {
    /// From the first row after the header.
    pub(crate) fn from_start(checks: Checks) -> RowOrder {
        RowOrder { line: Some(2), ..RowOrder::from_middle(Some(0), checks) }
    }

    /// From the middle of a log: the first good row says where. `next_seq` where the caller knows it.
    pub(crate) fn from_middle(next_seq: Option<u64>, checks: Checks) -> RowOrder {
        RowOrder {
            next_seq,
            line: None,
            bad: None,
            dropped_objects: 0,
            inherited: None,
            checks,
            breach: None,
            doubtful: Vec::new(),
        }
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

    /// The checker after the last accepted row, where all rules were asked.
    pub(crate) fn into_checker(self) -> Option<LogChecker> {
        let Checks::All(mut checker) = self.checks else { return None };
        checker.settle_cut(self.inherited.unwrap_or(0));
        Some(*checker)
    }

    /// Judges the next row: an event, or nothing where the row is dropped.
    ///
    /// # Errors
    /// `SESSION_CORRUPT` for a bad row in a complete frame, or once a turn ends at or after a bad row, and for a row that is not
    /// admitted; `FORMAT_UNSUPPORTED`; `LIMIT_EXCEEDED` for nesting beyond the store's limit.
    pub(crate) fn push(
        &mut self,
        buffer: &Arc<String>,
        row: ParsedRow,
        place: RowPlace,
    ) -> Result<Option<Event>> {
        let line = self.line;
        self.line = line.map(|line| line + 1);
        self.take(buffer, row, line, place).map_err(|error| self.first_error(error))
    }

    fn take(
        &mut self,
        buffer: &Arc<String>,
        row: ParsedRow,
        line: Option<u64>,
        place: RowPlace,
    ) -> Result<Option<Event>> {
        let verdict = row.verdict;
        if verdict.is_not_admitted()
            && !matches!(self.checks, Checks::Passed)
            && let Some(breach) = &verdict.breach
        {
            let mut error = placed(breach.error(), line, place);
            if let Ok(envelope) = row.outcome {
                error = named(error, &Event::new(Arc::clone(buffer), row.row, envelope));
            }
            return Err(self.finished(error));
        }
        match row.outcome {
            Ok(envelope) => {
                let expected = self.next_seq;
                let event = Event::new(Arc::clone(buffer), row.row, envelope);
                if self.bad.is_none() && expected.is_none_or(|expected| expected == event.seq()) {
                    self.next_seq = Some(event.seq() + 1);
                    if row::is_inherited_marker(event.kind(), event.data()) {
                        self.inherited = Some(event.seq());
                    }
                    return self.judge(event, &verdict, line, place);
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
                let limit = match fault {
                    RowFault::TooDeep { .. } => Some("depth_max"),
                    RowFault::TooLong { .. } => Some("row_bytes_max"),
                    _ => None,
                };
                if let Some(limit) = limit {
                    return Err(self.finished(beyond_limit(&fault, limit, line, place)));
                }
                let reason = fault.to_string();
                let error = corrupt(reason.clone(), line, place);
                self.drop_row(reason, error, is_object, is_turn_end, place)
            }
        }
    }

    /// Judges a row that stands where it should.
    fn judge(
        &mut self,
        event: Event,
        verdict: &RowVerdict,
        line: Option<u64>,
        place: RowPlace,
    ) -> Result<Option<Event>> {
        let single = match &self.checks {
            Checks::Passed => None,
            Checks::Single(vocabulary) => crate::event::verdict::judge_single(&event, verdict, vocabulary),
            Checks::All(checker) => checker.judge_single(&event, verdict),
        };
        let is_after_breach = self.breach.is_some();
        match single {
            Some(breach) if breach.stage() == Stage::Vocabulary => {
                return Err(self.broken(&breach, &event, line, place));
            }
            _ if is_after_breach => return Ok(None),
            Some(breach) => return self.hold(&breach, &event, line, place),
            None => {}
        }
        let Checks::All(checker) = &mut self.checks else { return Ok(Some(event)) };
        match checker.judge_relationships(&event, verdict) {
            Ok(effect) => {
                let is_doubtful = effect.doubt().is_some();
                checker.commit(effect);
                let seq = event.seq();
                if is_doubtful && checker.doubts().any(|breach| breach.earlier_seq() == Some(seq)) {
                    self.doubtful.push((seq, line, place));
                }
                Ok(Some(event))
            }
            Err(breach) => self.hold(&breach, &event, line, place),
        }
    }

    /// Keeps the first breach until it is certain that the log is not unsupported. Where only a part of the log is read, the rest
    /// is not read for that.
    fn hold(
        &mut self,
        breach: &Breach,
        event: &Event,
        line: Option<u64>,
        place: RowPlace,
    ) -> Result<Option<Event>> {
        let error = self.broken(breach, event, line, place);
        if matches!(self.checks, Checks::Single(_)) {
            return Err(error);
        }
        self.breach = Some(error);
        Ok(None)
    }

    fn broken(&self, breach: &Breach, event: &Event, line: Option<u64>, place: RowPlace) -> Error {
        if breach.earlier_seq().is_some() {
            return self.broken_earlier(breach);
        }
        let error = named(placed(breach.error(), line, place), event);
        let first_doubt = self.doubts().min().unwrap_or(u64::MAX);
        error.with_salvageable(self.given(event.seq()).min(first_doubt))
    }

    /// The error of a breach that its row left open.
    fn broken_earlier(&self, breach: &Breach) -> Error {
        let seq = breach.earlier_seq().unwrap_or_default();
        let error =
            breach.error().with_seq(seq).with_salvageable(self.doubts().min().unwrap_or(seq).min(seq));
        match self.doubtful.iter().find(|(doubtful, ..)| *doubtful == seq) {
            Some((_, line, place)) => placed(error, *line, *place),
            None => error,
        }
    }

    fn doubts(&self) -> impl Iterator<Item = u64> {
        let checker = match &self.checks {
            Checks::All(checker) => Some(checker),
            _ => None,
        };
        checker.into_iter().flat_map(|checker| checker.doubts()).filter_map(Breach::earlier_seq)
    }

    /// Judges the end of the log.
    ///
    /// # Errors
    /// The first breach.
    pub(crate) fn end(&self) -> Result<()> {
        if let Some(breach) = &self.breach {
            return Err(breach.duplicate());
        }
        match &self.checks {
            Checks::All(checker) => checker.finish().map_err(|breach| self.broken_earlier(&breach)),
            _ => Ok(()),
        }
    }

    /// Of the breach that was found and damage that stands behind it, the breach is told.
    pub(crate) fn first_error(&self, error: Error) -> Error {
        match &self.breach {
            Some(breach) if error.code() == Code::SessionCorrupt => breach.duplicate(),
            _ => error,
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

    /// How many of `count` rows were given out as events: none from the first breach on.
    fn given(&self, count: u64) -> u64 {
        self.breach.as_ref().and_then(Error::salvageable).map_or(count, |before| before.min(count))
    }

    /// Adds what is known at the moment a log turns out to be damaged.
    pub(crate) fn finished(&self, error: Error) -> Error {
        match self.next_seq {
            Some(count) => error.with_salvageable(self.given(count)),
            None => error,
        }
    }
}

/// Adds which event an error is about.
fn named(error: Error, event: &Event) -> Error {
    error.with_seq(event.seq()).with_event_type(event.kind())
}

/// The error of a damaged row.
pub(crate) fn corrupt(reason: String, line: Option<u64>, place: RowPlace) -> Error {
    placed(Error::new(Code::SessionCorrupt, reason), line, place).with_at(At::Row)
}

fn beyond_limit(fault: &RowFault, limit: &'static str, line: Option<u64>, place: RowPlace) -> Error {
    placed(Error::new(Code::LimitExceeded, fault.to_string()), line, place).with_limit(limit).with_at(At::Row)
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
