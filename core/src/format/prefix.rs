//! How much of a log another one can begin with as bytes: its frames or rows up to a cut (`design.md` 5, Fork of a live or stored session).

use super::frames::{Decoded, FrameDecoder, FrameInfo, FrameStep, scan_frame};
use super::names::Encoding;
use super::piece::{RowParsing, parse_piece};
use super::reader::LogSource;
use super::seek;
use super::window::FileWindow;
use crate::cancel::CancelToken;
use crate::error::{Error, Result};
use crate::event::Event;
use crate::storage::StorageFile;
use std::sync::Arc;

/// The longest text of one frame that is compared, in bytes. A frame around the cut that holds more is not taken.
const COMPARED_TEXT_BYTES_MAX: usize = 64 << 20;

/// The bytes of a log from the end of its header to `end`: its first `event_count` events and nothing else.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct StoredPrefix {
    pub(crate) event_count: u64,
    pub(crate) end: u64,
}

/// The longest prefix of a log that holds none but the first of `events`, which are those of the log from its first one on.
///
/// The log must have been judged: what stands before the place that a search finds near the cut is taken to be what comes before it.
/// From that place on, frames are taken as long as their text is that of the events. Whatever cannot be found out shortens the prefix.
///
/// The search takes frames in a row for a place where one begins, and the inside of a frame can be made to look like that. Who reads on
/// from there finds out; a copy that ends there would be no log. So the frames are followed to that place from the first one on, by their
/// headers alone.
///
/// # Errors
/// `CANCELLED`, `IO`.
pub(crate) fn stored_prefix(
    source: &LogSource,
    events: &[Event],
    cancel: &CancelToken,
) -> Result<StoredPrefix> {
    let nothing = StoredPrefix { event_count: 0, end: source.header_end };
    let start = seek::start_before(source, events.len() as u64, cancel)?;
    match source.encoding {
        // Rows are the same text wherever they stand: what lies between this place and the cut may as well be written.
        Encoding::None => {
            let found = seek::good_row_at(source, start)?;
            let found = found.map(|event| StoredPrefix { event_count: event.seq(), end: start });
            Ok(found.filter(|found| found.event_count <= events.len() as u64).unwrap_or(nothing))
        }
        Encoding::Zstd => {
            if !is_frame_start(source, start, cancel)? {
                return Ok(nothing);
            }
            let mut frames = Frames::new(source, start);
            let Some(mut text) = frames.next(cancel)? else { return Ok(nothing) };
            let Some(first_seq) = first_row_seq(&text, source) else { return Ok(nothing) };
            let mut found = StoredPrefix { event_count: first_seq, end: start };
            loop {
                let from = usize::try_from(found.event_count).unwrap_or(usize::MAX);
                let Some(rows) = events.get(from..).and_then(|events| rows_in(&text, events)) else { break };
                found = StoredPrefix { event_count: found.event_count + rows, end: frames.offset };
                match frames.next(cancel)? {
                    Some(next) => text = next,
                    None => break,
                }
            }
            Ok(if found.event_count <= events.len() as u64 { found } else { nothing })
        }
    }
}

/// Whether a frame begins at `offset`, or the last one before it ends there.
fn is_frame_start(source: &LogSource, offset: u64, cancel: &CancelToken) -> Result<bool> {
    let mut window = FileWindow::new(&source.file, source.end);
    let mut next = source.header_end;
    while next < offset {
        cancel.check()?;
        match scan_frame(&mut window, next).map_err(|error| Error::io("read the log", &error))? {
            FrameStep::Complete(frame) => next = frame.end,
            _ => return Ok(false),
        }
    }
    Ok(next == offset)
}

/// How many rows a text holds, if they are those of the first of `events`, each with its newline.
fn rows_in(mut text: &[u8], events: &[Event]) -> Option<u64> {
    let mut rows = 0;
    let mut events = events.iter();
    while !text.is_empty() {
        text = text.strip_prefix(events.next()?.row().as_bytes())?.strip_prefix(b"\n")?;
        rows += 1;
    }
    Some(rows)
}

/// The seq of the row that a text begins with; `None` where it does not begin with a whole row, as a frame that goes on with a row.
fn first_row_seq(text: &[u8], source: &LogSource) -> Option<u64> {
    let line = text.get(..=memchr::memchr(b'\n', text)?)?;
    let piece = parse_piece(line.to_vec(), RowParsing::unjudged(&source.limits));
    piece.rows.into_iter().next()?.outcome.ok().map(|envelope| envelope.seq)
}

/// The texts of frames, one after the other.
struct Frames<'a> {
    source: &'a LogSource,
    window: FileWindow<&'a Arc<dyn StorageFile>>,
    decoder: FrameDecoder,
    /// Where the next frame begins.
    offset: u64,
}

impl<'a> Frames<'a> {
    fn new(source: &'a LogSource, offset: u64) -> Frames<'a> {
        let window = FileWindow::new(&source.file, source.end);
        Frames { source, window, decoder: FrameDecoder::new(), offset }
    }

    /// The text of the next frame; `None` at the end, and for one that is not whole, does not decode, or is too long.
    fn next(&mut self, cancel: &CancelToken) -> Result<Option<Vec<u8>>> {
        cancel.check()?;
        let failed = |error| Error::io("read the log", &error);
        let FrameStep::Complete(frame) = scan_frame(&mut self.window, self.offset).map_err(failed)? else {
            return Ok(None);
        };
        if frame.frame_bytes() > COMPARED_TEXT_BYTES_MAX as u64 {
            return Ok(None);
        }
        let bytes = seek::read_exactly(self.source, frame.start, frame.frame_bytes() as usize)?;
        self.offset = frame.end;
        Ok(self.decode(&bytes, &frame))
    }

    fn decode(&mut self, bytes: &[u8], frame: &FrameInfo) -> Option<Vec<u8>> {
        let mut text = Vec::new();
        let decoded = self.decoder.decode(bytes, frame, &mut text, COMPARED_TEXT_BYTES_MAX);
        matches!(decoded, Ok(Decoded::Whole(_))).then_some(text)
    }
}
