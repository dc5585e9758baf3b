//! One pass over a log, or over its end: bytes in, accepted events out, in bounded memory (`format.md` 4.4, 5.3).
//!
//! A `LogReader` never holds more than a few pieces of about 1 MiB plus the largest row. Compressed logs are read in groups of
//! frames; where it pays, several groups are decoded and parsed at once on scoped threads, which live for one call only, so an
//! abandoned reader leaves nothing behind. What the rows mean together is decided afterwards, in order (`RowOrder`).

use super::frames::{FrameDecoder, FrameInfo, FrameStep, FrameStream, scan_frame};
use super::group::{self, Group, GroupStop};
use super::header::SessionHeader;
use super::names::Encoding;
use super::order::{self, Checks, RowOrder, RowPlace};
use super::piece::{ParsedPiece, ParsedRow, RowParsing, parse_piece};
use super::relationships::LogChecker;
use super::window::FileWindow;
use crate::cancel::CancelToken;
use crate::error::{At, Code, Error, Result};
use crate::event::{Event, Vocabulary};
use crate::storage::StorageFile;
use std::collections::VecDeque;
use std::sync::Arc;

/// The text that a piece aims at. Large enough that per-piece costs vanish, small enough that a few of them are little memory.
pub(crate) const PIECE_BYTES: usize = 1 << 20;

/// Compressed logs below this size are decoded on the calling thread: starting a second one costs more than it saves.
const PARALLEL_BYTES_MIN: u64 = 512 * 1024;

/// Bounds of what a reader accepts, and how it works; settings of the store (`design.md` 5, Limits).
#[derive(Clone, Copy, Debug)]
pub struct ReadLimits {
    /// The longest row, in bytes of text.
    pub row_bytes_max: u64,
    /// The longest header line, in bytes of text.
    pub header_bytes_max: u64,
    /// The deepest nesting of a row.
    pub depth_max: u32,
    /// How many threads decode one compressed log, the calling one included.
    pub threads: usize,
}

impl ReadLimits {
    /// The default of [`header_bytes_max`](Self::header_bytes_max): 1 MiB.
    pub const HEADER_BYTES_MAX: u64 = 1 << 20;
}

impl Default for ReadLimits {
    fn default() -> Self {
        let cores = std::thread::available_parallelism().map_or(1, usize::from);
        ReadLimits {
            row_bytes_max: crate::event::ROW_BYTES_MAX,
            header_bytes_max: Self::HEADER_BYTES_MAX,
            depth_max: crate::json::DEPTH_MAX_DEFAULT,
            threads: cores.min(4),
        }
    }
}

/// The file a reader works on and the bounds it keeps.
#[derive(Clone, Debug)]
pub(crate) struct LogSource {
    pub(crate) file: Arc<dyn StorageFile>,
    pub(crate) encoding: Encoding,
    /// Where the header (line or frame) ends and rows begin.
    pub(crate) header_end: u64,
    /// Bytes from here on are not looked at.
    pub(crate) end: u64,
    pub(crate) limits: ReadLimits,
    pub(crate) trust: Trust,
}

impl LogSource {
    /// How its rows are parsed.
    pub(crate) fn parsing(&self) -> RowParsing {
        RowParsing {
            judges: matches!(self.trust, Trust::Unjudged { .. }),
            ..RowParsing::unjudged(&self.limits)
        }
    }
}

/// Whether the rows of a log still have to be judged.
#[derive(Clone, Debug)]
pub(crate) enum Trust {
    /// They were, by this process, when it read or accepted them.
    Judged,
    /// They were not; the header says what log they belong to, the vocabulary which types the host reads.
    Unjudged { header: Arc<SessionHeader>, vocabulary: Vocabulary },
}

impl Trust {
    fn checks(&self, is_from_start: bool) -> Checks {
        match self {
            Trust::Judged => Checks::Passed,
            Trust::Unjudged { header, vocabulary } if is_from_start => {
                Checks::All(Box::new(LogChecker::new(header, vocabulary.clone())))
            }
            Trust::Unjudged { vocabulary, .. } => Checks::Single(vocabulary.clone()),
        }
    }
}

/// Bytes at the end of a log that are no part of it (`format.md` 4.4, 5.3).
#[derive(Clone, Debug)]
pub struct TornTail {
    /// The length that the first append cuts the file to.
    pub keep_bytes: u64,
    /// The bytes after it.
    pub cut_bytes: u64,
    /// Rows in those bytes that are JSON objects, recovered ones included: what a bare cut would destroy.
    pub cut_rows: u64,
    /// Events taken from a torn frame; the first append writes them again after the cut. They are part of the log.
    pub recovered: Vec<Event>,
    /// What was found, for people.
    pub reason: String,
}

/// What a read to the end of a log found.
#[derive(Clone, Debug)]
pub struct LogEnd {
    /// Events in the log, recovered ones included.
    pub event_count: u64,
    /// The seq of the last marker of an inherited prefix seen (`format.md` 2.6).
    pub inherited_marker: Option<u64>,
    /// Bytes of the file that were looked at.
    pub file_bytes: u64,
    /// What stands at the end and is no part of the log.
    pub torn: Option<TornTail>,
    /// Frames seen, the header's included; 0 for a raw log.
    pub frames: u64,
}

impl LogEnd {
    /// Bytes that hold the accepted rows: where the next append goes.
    #[must_use]
    pub fn keep_bytes(&self) -> u64 {
        self.torn.as_ref().map_or(self.file_bytes, |torn| torn.keep_bytes)
    }
}

const ZEROS_AFTER_LAST_ROW: &str = "zero bytes follow the last row";

/// A piece that waits to be put in order.
#[derive(Debug)]
struct Piece {
    buffer: Arc<String>,
    rows: std::vec::IntoIter<ParsedRow>,
    /// For compressed pieces: the text offset at which each frame ends, with the frame's number and start.
    frames: VecDeque<PieceFrame>,
    is_torn: bool,
}

/// A frame's share of a piece.
#[derive(Clone, Copy, Debug)]
pub(crate) struct PieceFrame {
    pub(crate) text_end: usize,
    pub(crate) index: u64,
    pub(crate) start: u64,
}

/// What is read next.
#[derive(Debug)]
enum Stage {
    /// Rows of a raw log, from this offset.
    Raw(u64),
    /// Frames, from this offset.
    Frames(u64),
    /// One frame that is too long to be held whole.
    Stream { stream: Box<FrameStream<Arc<dyn StorageFile>>>, frame: FrameInfo },
    /// An unfinished last frame.
    Torn { start: u64, is_readable: bool },
    /// Damage that stands behind everything read so far.
    Fault(Error),
    /// Everything has been read.
    Done,
}

/// Reads a log from its start, or from the start of a row or frame in its middle.
#[derive(Debug)]
pub(crate) struct LogReader {
    source: LogSource,
    window: FileWindow<Arc<dyn StorageFile>>,
    decoders: Vec<FrameDecoder>,
    cancel: CancelToken,
    order: RowOrder,
    stage: Stage,
    pieces: VecDeque<Piece>,
    /// Text of a row whose end has not been read yet.
    carry: Vec<u8>,
    /// The frame that `carry` began in.
    carry_frame: Option<PieceFrame>,
    /// Raw logs: the offset of the next row; the end of the last accepted row.
    row_offset: u64,
    accepted_end: u64,
    /// Compressed logs: the number of the next frame; unknown in the middle, then counted from 0 and not shown.
    frame_index: u64,
    is_from_start: bool,
    /// Text per compressed byte of the last groups, to size the next ones.
    text_ratio: usize,
    recovered: Vec<Event>,
    /// Where the torn part begins, and what it is.
    torn_start: Option<(u64, String)>,
    /// JSON objects in a torn last record.
    torn_objects: u64,
    failure: Option<Error>,
    end: Option<LogEnd>,
}

impl LogReader {
    /// Reads from the first row, and judges each row by every rule unless the source is trusted.
    pub(crate) fn from_start(source: LogSource, cancel: CancelToken) -> LogReader {
        let start = source.header_end;
        let order = RowOrder::from_start(source.trust.checks(true));
        LogReader::new(source, start, order, true, cancel)
    }

    /// Reads from `start`, the start of a row (raw) or of a frame (compressed) after the header. Rows before the first good one
    /// are passed over when `next_seq` is unknown. Rules that bind rows need the beginning of the log and are not asked.
    pub(crate) fn from_middle(
        source: LogSource,
        start: u64,
        next_seq: Option<u64>,
        cancel: CancelToken,
    ) -> LogReader {
        let order = RowOrder::from_middle(next_seq, source.trust.checks(false));
        LogReader::new(source, start, order, false, cancel)
    }

    fn new(
        source: LogSource,
        start: u64,
        order: RowOrder,
        is_from_start: bool,
        cancel: CancelToken,
    ) -> LogReader {
        let stage = match source.encoding {
            Encoding::None => Stage::Raw(start),
            Encoding::Zstd => Stage::Frames(start),
        };
        LogReader {
            window: FileWindow::new(Arc::clone(&source.file), source.end),
            decoders: Vec::new(),
            cancel,
            order,
            stage,
            pieces: VecDeque::new(),
            carry: Vec::new(),
            carry_frame: None,
            row_offset: start,
            accepted_end: start,
            frame_index: 1,
            is_from_start,
            text_ratio: 4,
            recovered: Vec::new(),
            torn_start: None,
            torn_objects: 0,
            failure: None,
            end: None,
            source,
        }
    }

    /// The next accepted event; `None` at the end of the log, when [`end`](Self::end) is known.
    ///
    /// # Errors
    /// `SESSION_CORRUPT`, `LIMIT_EXCEEDED`, `CANCELLED`, `IO`; after an error there is nothing more.
    pub(crate) fn next_event(&mut self) -> Result<Option<Event>> {
        if let Some(error) = &self.failure {
            return Err(error.duplicate());
        }
        self.advance().map_err(|error| {
            let error = self.order.first_error(error);
            let error = if error.salvageable().is_none() { self.order.finished(error) } else { error };
            self.failure = Some(error.duplicate());
            self.pieces.clear();
            error
        })
    }

    /// What the end of the log looks like, once [`next_event`](Self::next_event) has given `None`.
    pub(crate) fn end(&self) -> Option<&LogEnd> {
        self.end.as_ref()
    }

    /// The rules as they stand after the last event given; `None` where rows were trusted or reading began in the middle.
    pub(crate) fn into_checker(self) -> Option<LogChecker> {
        self.order.into_checker()
    }

    /// Events accepted so far, counted from the start of the log; `None` in a middle before its first event.
    pub(crate) fn next_seq(&self) -> Option<u64> {
        self.order.next_seq()
    }

    fn advance(&mut self) -> Result<Option<Event>> {
        loop {
            if let Some(event) = self.next_in_pieces()? {
                return Ok(Some(event));
            }
            if matches!(self.stage, Stage::Done) {
                self.order.end()?;
                self.finish();
                return Ok(None);
            }
            self.cancel.check()?;
            self.fill()?;
        }
    }

    fn next_in_pieces(&mut self) -> Result<Option<Event>> {
        while let Some(piece) = self.pieces.front_mut() {
            let Some(row) = piece.rows.next() else {
                self.pieces.pop_front();
                continue;
            };
            let place = match self.source.encoding {
                Encoding::None => {
                    RowPlace { frame: None, offset: self.row_offset, is_in_complete_frame: false }
                }
                Encoding::Zstd => piece.place(row.row.start as usize, self.is_from_start),
            };
            self.row_offset += u64::from(row.stored_bytes);
            let event = self.order.push(&piece.buffer, row, place)?;
            if let Some(event) = event {
                self.accepted_end = self.row_offset;
                if piece.is_torn {
                    self.recovered.push(event.clone());
                }
                return Ok(Some(event));
            }
        }
        Ok(None)
    }

    /// Reads the next pieces, or moves to the next stage.
    fn fill(&mut self) -> Result<()> {
        match std::mem::replace(&mut self.stage, Stage::Done) {
            Stage::Raw(offset) => self.fill_raw(offset),
            Stage::Frames(offset) => self.fill_frames(offset),
            Stage::Stream { stream, frame } => self.fill_stream(stream, frame),
            Stage::Torn { start, is_readable } => self.fill_torn(start, is_readable),
            Stage::Fault(error) => Err(error),
            Stage::Done => Ok(()),
        }
    }

    fn io<T>(&self, result: std::io::Result<T>) -> Result<T> {
        result.map_err(|error| Error::io("read the log", &error))
    }

    /// Reads about a piece of a raw log, to the last newline in it.
    fn fill_raw(&mut self, offset: u64) -> Result<()> {
        let mut bytes = Vec::with_capacity(PIECE_BYTES);
        let cut = loop {
            let read = group::read_more(&self.source, offset, &mut bytes, PIECE_BYTES);
            let is_end = self.io(read)? == 0;
            let newline = memchr::memrchr(b'\n', &bytes);
            if let (Some(newline), false) = (newline, is_end) {
                break Some(newline + 1);
            }
            if is_end {
                break newline.map(|newline| newline + 1);
            }
            // No row begins with a zero byte: a file that grew and was never written may end in any number of them.
            if bytes.first() == Some(&0) && self.is_zero_to_the_end(offset)? {
                self.torn_start = Some((offset, ZEROS_AFTER_LAST_ROW.to_owned()));
                return Ok(());
            }
            self.check_row_length(bytes.len())?;
            self.cancel.check()?;
        };
        let whole = cut.unwrap_or(0);
        let is_last = offset + bytes.len() as u64 >= self.source.end;
        let rest = bytes.split_off(whole);
        if whole > 0 {
            self.stage = Stage::Raw(offset + whole as u64);
            self.push_piece(parse_piece(bytes, self.source.parsing()), VecDeque::new(), false);
        } else if !rest.is_empty() && is_last {
            // A last record without its newline is torn, even if it parses (`format.md` 4.1).
            self.torn_record(offset, rest);
        } else if offset < self.source.end {
            return Err(Error::new(Code::SourceChanged, "the log became shorter while it was read")
                .with_offset(offset));
        }
        Ok(())
    }

    /// Whether nothing but 0x00 stands from `offset` to the end, in the memory of one piece.
    fn is_zero_to_the_end(&mut self, offset: u64) -> Result<bool> {
        let mut piece = Vec::new();
        let mut next = offset;
        loop {
            piece.clear();
            let read = group::read_more(&self.source, next, &mut piece, PIECE_BYTES);
            next += match self.io(read)? {
                0 => return Ok(next >= self.source.end),
                read => read as u64,
            };
            if piece.iter().any(|&byte| byte != 0) {
                return Ok(false);
            }
            self.cancel.check()?;
        }
    }

    fn torn_record(&mut self, offset: u64, rest: Vec<u8>) {
        let is_zeros = rest.iter().all(|&byte| byte == 0);
        let reason = if is_zeros { ZEROS_AFTER_LAST_ROW } else { "the last row has no newline" };
        self.torn_start = Some((offset, reason.to_owned()));
        let parsed = parse_piece(rest, self.source.parsing());
        self.torn_objects = parsed.rows.iter().filter(|row| row.is_object()).count() as u64;
    }

    /// Decodes the next groups of frames, several at once where it pays.
    fn fill_frames(&mut self, offset: u64) -> Result<()> {
        let threads = self.thread_count(offset);
        let mut groups = Vec::with_capacity(threads);
        let mut next = offset;
        let group_bytes = (PIECE_BYTES / self.text_ratio.max(1)).max(4096);
        let mut step = FrameStep::End;
        for _ in 0..threads {
            let collected = Group::collect(&mut self.window, next, group_bytes);
            let (group, stopped_by) = self.io(collected)?;
            next = group.end(next);
            step = stopped_by;
            if group.is_empty() {
                break;
            }
            groups.push(group);
            if !matches!(step, FrameStep::Complete(_)) {
                break;
            }
        }
        if groups.is_empty() {
            return self.after_last_frame(step);
        }
        self.stage = Stage::Frames(next);
        let carry = std::mem::take(&mut self.carry);
        let decoded = group::decode_all(&groups, carry, &mut self.decoders, self.source.parsing());
        self.accept_groups(groups, decoded)
    }

    /// Puts decoded groups in order. The first one that did not come out as foreseen ends the round: what follows it is read again.
    fn accept_groups(&mut self, groups: Vec<Group>, decoded: Vec<group::DecodedGroup>) -> Result<()> {
        let count = groups.len();
        for (number, (group, decoded)) in groups.into_iter().zip(decoded).enumerate() {
            let frames = decoded.frames(&group, self.frame_index);
            self.frame_index += frames.len() as u64;
            if let Some(last) = frames.back() {
                self.carry_frame = Some(*last);
            }
            self.text_ratio = decoded.text_ratio(&group).unwrap_or(self.text_ratio);
            self.push_piece(decoded.piece, frames, false);
            self.carry = decoded.rest;
            self.check_row_length(self.carry.len())?;
            match decoded.stop {
                None if self.carry.is_empty() || number + 1 == count => {}
                // A row goes on in the next frame: the groups after this one were parsed without its beginning.
                None => {
                    self.stage = Stage::Frames(group.end(0));
                    return Ok(());
                }
                Some(GroupStop::Full(frame)) => {
                    self.stage = Stage::Frames(frame.start);
                    return Ok(());
                }
                Some(GroupStop::TooLong(frame)) => return self.begin_stream(frame),
                Some(GroupStop::Fault(frame)) => return self.damaged_frame(frame),
            }
        }
        Ok(())
    }

    fn thread_count(&self, offset: u64) -> usize {
        let pays = self.source.end.saturating_sub(offset) >= PARALLEL_BYTES_MIN;
        if pays && self.carry.is_empty() { self.source.limits.threads.max(1) } else { 1 }
    }

    /// A frame that is too long to be held whole is decoded twice: for its checksum, then piece by piece.
    fn begin_stream(&mut self, frame: FrameInfo) -> Result<()> {
        let file = Arc::clone(&self.source.file);
        let mut stream = Box::new(FrameStream::new(file, frame.start, frame.end, false));
        let checked = stream.check();
        if self.io(checked)?.is_err() {
            return self.damaged_frame(frame);
        }
        self.stage = Stage::Stream { stream, frame };
        Ok(())
    }

    fn fill_stream(
        &mut self,
        mut stream: Box<FrameStream<Arc<dyn StorageFile>>>,
        frame: FrameInfo,
    ) -> Result<()> {
        let mut bytes = std::mem::take(&mut self.carry);
        let read = self.read_stream(&mut stream, &mut bytes)?;
        let place = PieceFrame { text_end: usize::MAX, index: self.frame_index, start: frame.start };
        if read == 0 {
            self.carry = bytes;
            self.frame_index += 1;
            self.carry_frame = Some(place);
            self.stage = Stage::Frames(frame.end);
            return Ok(());
        }
        let whole = memchr::memrchr(b'\n', &bytes).map_or(0, |newline| newline + 1);
        self.carry = bytes.split_off(whole);
        self.stage = Stage::Stream { stream, frame };
        self.push_piece(parse_piece(bytes, self.source.parsing()), VecDeque::from([place]), false);
        Ok(())
    }

    /// Adds to `bytes` until there is a whole row to look at; 0 at the end of the frame.
    fn read_stream(
        &mut self,
        stream: &mut FrameStream<Arc<dyn StorageFile>>,
        bytes: &mut Vec<u8>,
    ) -> Result<usize> {
        loop {
            let from = bytes.len();
            let read = stream.read(bytes, PIECE_BYTES);
            let read = self.io(read)?;
            if read == 0 || memchr::memchr(b'\n', &bytes[from..]).is_some() {
                return Ok(read);
            }
            self.check_row_length(bytes.len())?;
            self.cancel.check()?;
        }
    }

    /// A complete frame that does not decode is damage, unless it is the last one and ends in zeros (`design.md` 5).
    fn damaged_frame(&mut self, frame: FrameInfo) -> Result<()> {
        let next = scan_frame(&mut self.window, frame.end);
        let is_last = matches!(self.io(next)?, FrameStep::End | FrameStep::Torn { .. });
        let (file, end) = (&self.source.file, self.source.end);
        let is_unwritten = super::frames::ends_in_zeros(file, end).and_then(|ends_in_zeros| {
            Ok(ends_in_zeros || super::frames::ends_in_cleared_checksum(file, frame.start, frame.end)?)
        });
        if is_last && self.io(is_unwritten)? {
            self.check_rows_are_whole()?;
            self.stage = Stage::Torn { start: frame.start, is_readable: false };
            return Ok(());
        }
        self.stage =
            Stage::Fault(self.frame_error("the frame does not decode or fails its checksum", frame.start));
        Ok(())
    }

    /// No complete frame begins here: the end, an unfinished frame, or something that is no frame.
    fn after_last_frame(&mut self, step: FrameStep) -> Result<()> {
        if !matches!(step, FrameStep::Complete(_)) {
            self.check_rows_are_whole()?;
        }
        self.stage = match step {
            FrameStep::End | FrameStep::Complete(_) => Stage::Done,
            FrameStep::Torn { start } => Stage::Torn { start, is_readable: true },
            FrameStep::Fault { at, kind } => Stage::Fault(self.frame_error(&kind.to_string(), at)),
        };
        Ok(())
    }

    /// The complete frames must not end in the middle of a row (`format.md` 4.4): the next append would go on in it.
    fn check_rows_are_whole(&self) -> Result<()> {
        if self.carry.is_empty() {
            return Ok(());
        }
        let frame = self.carry_frame.unwrap_or(PieceFrame { text_end: 0, index: 0, start: 0 });
        let error = Error::new(Code::SessionCorrupt, "the complete frames end in the middle of a row");
        let place = RowPlace {
            frame: self.is_from_start.then_some(frame.index),
            offset: frame.start,
            is_in_complete_frame: true,
        };
        Err(order::placed(error, self.order.line(), place).with_at(At::Row))
    }

    fn frame_error(&self, reason: &str, offset: u64) -> Error {
        let error = Error::new(Code::SessionCorrupt, reason).with_at(At::Row).with_offset(offset);
        if self.is_from_start { error.with_frame(self.frame_index) } else { error }
    }

    /// Takes the whole rows of an unfinished last frame (`format.md` 4.4).
    fn fill_torn(&mut self, start: u64, is_readable: bool) -> Result<()> {
        let file = Arc::clone(&self.source.file);
        let hidden = super::frames::hidden_frame(&file, start, self.source.end);
        if let Some(next) = self.io(hidden)? {
            let reason = format!("the frame does not end, but a whole one follows it at byte {next}");
            return Err(self.frame_error(&reason, start));
        }
        let mut stream = FrameStream::new(file, start, self.source.end, true);
        let mut text = Vec::new();
        if is_readable {
            let checked = stream.check();
            if self.io(checked)?.is_ok() {
                // The rows of one append: its batch was in memory once, so it may be again.
                while self.read_stream(&mut stream, &mut text)? > 0 {
                    self.cancel.check()?;
                }
            }
        }
        if text.is_empty() {
            // Nothing is taken, but rows before the place that does not decode must not be lost with a cut.
            let mut lost = Vec::new();
            let salvaged = stream.salvage(&mut lost);
            self.io(salvaged)?;
            let lost = parse_piece(lost, self.source.parsing());
            self.torn_objects = lost.rows.iter().filter(|row| row.is_object()).count() as u64;
        }
        let reason =
            if is_readable { "the last frame is unfinished" } else { "the last frame ends in zero bytes" };
        self.torn_start = Some((start, reason.to_owned()));
        let whole = memchr::memrchr(b'\n', &text).map_or(0, |newline| newline + 1);
        let rest = text.split_off(whole);
        let parsed_rest = parse_piece(rest, self.source.parsing());
        self.torn_objects += parsed_rest.rows.iter().filter(|row| row.is_object()).count() as u64;
        let frame = PieceFrame { text_end: usize::MAX, index: self.frame_index, start };
        self.push_piece(parse_piece(text, self.source.parsing()), VecDeque::from([frame]), true);
        Ok(())
    }

    fn push_piece(&mut self, piece: ParsedPiece, frames: VecDeque<PieceFrame>, is_torn: bool) {
        if !piece.rows.is_empty() {
            self.pieces.push_back(Piece {
                buffer: piece.buffer,
                rows: piece.rows.into_iter(),
                frames,
                is_torn,
            });
        }
    }

    fn check_row_length(&self, bytes: usize) -> Result<()> {
        let limit = self.source.limits.row_bytes_max;
        if bytes as u64 <= limit {
            return Ok(());
        }
        let error = Error::new(Code::LimitExceeded, format!("a row is longer than {limit} bytes"));
        let frame = self.is_from_start.then_some(self.frame_index);
        let place = RowPlace { frame, offset: self.row_offset, is_in_complete_frame: false };
        Err(order::placed(error, self.order.line(), place).with_limit("row_bytes_max").with_at(At::Row))
    }

    fn finish(&mut self) {
        if self.end.is_some() {
            return;
        }
        let torn_objects = self.torn_objects + self.order.dropped_objects() + self.recovered.len() as u64;
        let dropped = self.order.first_bad().map(|bad| bad.reason.clone());
        let torn = match (self.source.encoding, &self.torn_start, dropped) {
            (Encoding::Zstd, Some((start, reason)), dropped) => {
                Some((*start, dropped.unwrap_or(reason.clone())))
            }
            (Encoding::None, _, Some(reason)) => Some((self.accepted_end, reason)),
            (Encoding::None, Some((start, reason)), None) => Some((*start, reason.clone())),
            (_, None, _) => None,
        };
        self.end = Some(LogEnd {
            event_count: self.order.next_seq().unwrap_or(0),
            inherited_marker: self.order.inherited(),
            file_bytes: self.source.end,
            frames: if self.source.encoding == Encoding::Zstd { self.frame_index } else { 0 },
            torn: torn.map(|(keep_bytes, reason)| TornTail {
                keep_bytes,
                cut_bytes: self.source.end - keep_bytes,
                cut_rows: torn_objects,
                recovered: std::mem::take(&mut self.recovered),
                reason,
            }),
        });
    }
}

impl Piece {
    fn place(&mut self, text_offset: usize, is_from_start: bool) -> RowPlace {
        while self.frames.len() > 1 && self.frames.front().is_some_and(|frame| frame.text_end <= text_offset)
        {
            self.frames.pop_front();
        }
        let frame = self.frames.front().copied();
        RowPlace {
            frame: frame.filter(|_| is_from_start).map(|frame| frame.index),
            offset: frame.map_or(0, |frame| frame.start),
            is_in_complete_frame: !self.is_torn,
        }
    }
}
