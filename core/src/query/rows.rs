//! The rows of one session as text, whatever is wrong with them (`design.md` 5, Raw reading).

use crate::cancel::CancelToken;
use crate::error::Result;
use crate::event::Event;
use crate::format::EventRange;
use crate::format::header::encode_line;
use crate::format::raw_rows::{RawRow, RawRows};
use crate::persistence::{Access, Events, SessionPersistence};

/// Raw rows of one session, header first. An error is the system's or a cancellation; after it there is nothing more.
#[derive(Debug)]
pub struct Rows {
    source: Source,
}

#[derive(Debug)]
enum Source {
    File(Box<RawRows>),
    /// A backend without files has no damage to show: its rows are made from what it holds.
    Events {
        header: Option<String>,
        events: Events,
        line: u64,
    },
}

/// The rows of a session (`cli.md`, `rows`).
pub(crate) fn rows(persistence: &dyn SessionPersistence, id: &str, cancel: &CancelToken) -> Result<Rows> {
    if let Some(log) = persistence.raw_log(id, cancel)? {
        return Ok(Rows { source: Source::File(Box::new(log.rows(cancel))) });
    }
    let log = persistence.open(id, Access::Read, cancel)?;
    let header = Some(encode_line(log.header()));
    let events = log.events(EventRange::ALL, cancel)?;
    Ok(Rows { source: Source::Events { header, events, line: 1 } })
}

impl Iterator for Rows {
    type Item = Result<RawRow>;

    fn next(&mut self) -> Option<Result<RawRow>> {
        match &mut self.source {
            Source::File(rows) => rows.next(),
            Source::Events { header, events, line } => {
                let row = match header.take() {
                    Some(text) => row_of(text, "session", None),
                    None => match events.next()? {
                        Ok(event) => row_of_event(&event),
                        Err(error) => return Some(Err(error)),
                    },
                };
                let row = RawRow { line: *line, ..row };
                *line += 1;
                Some(Ok(row))
            }
        }
    }
}

fn row_of_event(event: &Event) -> RawRow {
    RawRow { is_event: true, ..row_of(event.row().to_owned(), event.kind(), Some(event.seq())) }
}

fn row_of(text: String, kind: &str, seq: Option<u64>) -> RawRow {
    RawRow {
        line: 0,
        text,
        seq,
        kind: Some(kind.to_owned()),
        problem: None,
        frame: None,
        offset: 0,
        is_event: false,
    }
}
