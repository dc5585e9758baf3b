//! A piece of log text cut into rows, each parsed and judged on its own. Pieces do not depend on each other, so several can be
//! parsed at once.

use super::reader::ReadLimits;
use crate::event::Envelope;
use crate::event::Span;
use crate::event::facts::Payload;
use crate::event::row::{self, BadRow};
use crate::event::verdict::{self, RowVerdict};
use memchr::memchr_iter;
use std::sync::Arc;

/// One row of a piece.
#[derive(Debug)]
pub(crate) struct ParsedRow {
    /// Where its text stands in the piece's buffer, newline left out.
    pub(crate) row: Span,
    /// Its bytes in the log, newline included; differs from the span where ill-formed UTF-8 was replaced.
    pub(crate) stored_bytes: u32,
    pub(crate) outcome: Result<Envelope, Box<BadRow>>,
    pub(crate) verdict: RowVerdict,
}

impl ParsedRow {
    /// Whether the text is a JSON object, good row or not.
    pub(crate) fn is_object(&self) -> bool {
        self.outcome.as_ref().map_or_else(|bad| bad.is_object, |_| true)
    }
}

/// How rows are parsed.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RowParsing {
    /// The longest row, in bytes of text.
    pub(crate) row_bytes_max: u64,
    /// The deepest nesting of a row.
    pub(crate) depth_max: u32,
    /// Whether the rules of single rows are asked; otherwise every row has the verdict of one that keeps them.
    pub(crate) judges: bool,
}

impl RowParsing {
    /// Parses rows without judging them.
    pub(crate) fn unjudged(limits: &ReadLimits) -> RowParsing {
        let ReadLimits { row_bytes_max, depth_max, .. } = *limits;
        RowParsing { row_bytes_max, depth_max, judges: false }
    }

    fn row<'a>(self, buffer: &'a str, row: Span, stored_bytes: u32, payload: &mut Payload<'a>) -> ParsedRow {
        let (outcome, verdict) = if u64::from(row.end - row.start) > self.row_bytes_max {
            (Err(Box::new(BadRow::too_long(self.row_bytes_max))), RowVerdict::default())
        } else if self.judges {
            verdict::parse(buffer, row, self.depth_max, payload)
        } else {
            (row::parse(buffer, row, self.depth_max), RowVerdict::default())
        };
        ParsedRow { row, stored_bytes, outcome, verdict }
    }
}

/// Whole rows and the buffer that their events share.
#[derive(Debug)]
pub(crate) struct ParsedPiece {
    pub(crate) buffer: Arc<String>,
    pub(crate) rows: Vec<ParsedRow>,
}

/// Cuts `bytes` at every newline and parses each row. A last row without newline is a row as well.
pub(crate) fn parse_piece(bytes: Vec<u8>, parsing: RowParsing) -> ParsedPiece {
    match String::from_utf8(bytes) {
        Ok(text) => parse_text(text, parsing),
        Err(error) => parse_ill_formed(error.as_bytes(), parsing),
    }
}

fn parse_text(text: String, parsing: RowParsing) -> ParsedPiece {
    let mut rows = Vec::with_capacity(text.len() / 512 + 1);
    let mut payload = Payload::default();
    for_each_line(text.as_bytes(), |start, end, stored_bytes| {
        rows.push(parsing.row(&text, Span::new(start, end), stored_bytes, &mut payload));
    });
    ParsedPiece { buffer: Arc::new(text), rows }
}

/// The rare path: each ill-formed part becomes U+FFFD (`format.md` 3.6), so rows change their length.
fn parse_ill_formed(bytes: &[u8], parsing: RowParsing) -> ParsedPiece {
    let mut text = String::with_capacity(bytes.len() + 64);
    let mut places = Vec::new();
    for_each_line(bytes, |start, end, stored_bytes| {
        let from = text.len();
        text.push_str(&String::from_utf8_lossy(&bytes[start..end]));
        places.push((Span::new(from, text.len()), stored_bytes));
        text.push('\n');
    });
    let mut payload = Payload::default();
    let rows = places.iter().map(|&(row, stored)| parsing.row(&text, row, stored, &mut payload)).collect();
    ParsedPiece { buffer: Arc::new(text), rows }
}

/// Calls `visit(start, end, stored_bytes)` for each line; `end` leaves the newline out, `stored_bytes` counts it.
fn for_each_line(bytes: &[u8], mut visit: impl FnMut(usize, usize, u32)) {
    let mut start = 0;
    for newline in memchr_iter(b'\n', bytes) {
        visit(start, newline, (newline + 1 - start) as u32);
        start = newline + 1;
    }
    if start < bytes.len() {
        visit(start, bytes.len(), (bytes.len() - start) as u32);
    }
}

#[cfg(test)]
mod tests {
    use super::{ReadLimits, RowParsing, parse_piece};

    #[test]
    fn replaced_bytes_do_not_change_the_stored_length() {
        let piece = parse_piece(
            b"{\"type\":\"a\",\"seq\":0,\"time\":1,\"data\":\"\xff\"}\n{\"x\":\xe2\x82}".to_vec(),
            RowParsing::unjudged(&ReadLimits::default()),
        );
        assert_eq!(piece.rows.len(), 2);
        assert_eq!(piece.rows[0].stored_bytes, 41);
        assert!(piece.rows[0].outcome.is_ok());
        assert!(piece.rows[1].outcome.is_err());
        assert_eq!(piece.rows[1].stored_bytes, 8);
    }
}
