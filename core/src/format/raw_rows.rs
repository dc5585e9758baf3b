//! Every row of a log file as text, with what is wrong with each: for viewers, salvage and repair tools.
//!
//! The tolerant counterpart of [`reader`](super::reader): any version, any damage, never a panic, and never an error but the
//! system's. Nothing here decides what belongs to a log, so nothing here may be used to resume one. Memory is bounded by a few
//! pieces and the longest row.
//!
//! A frame that does not decode gives one row that says so, and reading goes on at the next frame that does: after damage any
//! place may be a frame's start, so candidates are found by their first four bytes and confirmed by decoding them. A file made to deceive
//! could have many places that each lead a long way to nowhere, so the work that comes to nothing is counted and bounded by the length of
//! the file (`VAIN_WORK_FACTOR_MAX`).

use super::frames::{Decoded, FRAME_MAGIC, FrameDecoder, FrameInfo, FrameStep, FrameStream, scan_frame};
use super::header::{FORMAT_VERSION, decode_line};
use super::names::Encoding;
use super::reader::{PIECE_BYTES, ReadLimits};
use super::window::{FileWindow, READ_PIECE_BYTES};
use crate::cancel::CancelToken;
use crate::error::{Error, Result};
use crate::event::Span;
use crate::event::row;
use crate::json::{self, Shape};
use crate::storage::StorageFile;
use memchr::memmem::Finder;
use std::collections::VecDeque;
use std::fmt::Display;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// One line of a log, as it stands there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RawRow {
    /// The line in the decompressed text, from 1 (the header). After a frame that does not decode, lines are counted on from what could be
    /// read; the row that names such a frame has the line that would have come next.
    pub line: u64,
    /// The text without its newline; ill-formed UTF-8 as U+FFFD. Empty where the row stands for something that cannot be shown.
    pub text: String,
    /// Its `seq`, where it is a JSON object with a count under that key.
    pub seq: Option<u64>,
    /// Its `type`, where it is a JSON object with a string under that key.
    pub kind: Option<String>,
    /// What is wrong with it, for people.
    pub problem: Option<String>,
    /// The frame it begins in, from 0 (the header's); `None` in a raw log. After damage frames are counted on from what was found.
    pub frame: Option<u64>,
    /// The offset in the file: of the row in a raw log, of its frame in a compressed one.
    pub offset: u64,
    /// Whether it has the envelope of an event of the current format (`format.md` 3.1), wherever it stands.
    pub is_event: bool,
}

impl RawRow {
    /// The row as a JSON object (`cli.md`, `rows`).
    #[must_use]
    pub fn to_json(&self) -> String {
        let mut out = json::ObjectText::new();
        out.number("line", self.line);
        out.string("text", &self.text);
        if let Some(seq) = self.seq {
            out.number("seq", seq);
        }
        if let Some(kind) = &self.kind {
            out.string("type", kind);
        }
        if let Some(problem) = &self.problem {
            out.string("problem", problem);
        }
        if let Some(frame) = self.frame {
            out.number("frame", frame);
        }
        out.number("offset", self.offset);
        out.finish()
    }
}

/// A log file that was found by its name alone: its header may be damaged.
#[derive(Clone, Debug)]
pub struct RawLog {
    path: PathBuf,
    version: u64,
    encoding: Encoding,
    file: Arc<dyn StorageFile>,
    end: u64,
    limits: ReadLimits,
}

impl RawLog {
    pub(crate) fn new(
        path: PathBuf,
        version: u64,
        encoding: Encoding,
        file: Arc<dyn StorageFile>,
        limits: ReadLimits,
    ) -> Result<RawLog> {
        let metadata = file.metadata();
        let metadata = metadata.map_err(|error| Error::io("look at the log", &error).with_path(&path))?;
        Ok(RawLog { path, version, encoding, file, end: metadata.size, limits })
    }

    /// The file.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The format version that the file's name says.
    #[must_use]
    pub fn version(&self) -> u64 {
        self.version
    }

    /// How the file is stored.
    #[must_use]
    pub fn encoding(&self) -> Encoding {
        self.encoding
    }

    /// Bytes of the file when it was opened; what is added later is not looked at.
    #[must_use]
    pub fn file_bytes(&self) -> u64 {
        self.end
    }

    /// Complete frames before the first damage, the header's included; 0 in a raw log. No frame is decoded.
    ///
    /// # Errors
    /// `IO`, `CANCELLED`.
    pub fn frame_count(&self, cancel: &CancelToken) -> Result<u64> {
        if self.encoding == Encoding::None {
            return Ok(0);
        }
        let mut window = FileWindow::new(Arc::clone(&self.file), self.end);
        let (mut count, mut offset) = (0, 0);
        loop {
            cancel.check()?;
            let step = scan_frame(&mut window, offset);
            match step.map_err(|error| Error::io("read the log", &error).with_path(&self.path))? {
                FrameStep::Complete(frame) => offset = frame.end,
                _ => return Ok(count),
            }
            count += 1;
        }
    }

    /// Its rows, from the header on.
    #[must_use]
    pub fn rows(&self, cancel: &CancelToken) -> RawRows {
        RawRows {
            stage: match self.encoding {
                Encoding::None => Stage::Raw { next: 0 },
                Encoding::Zstd => Stage::Frames { next: 0 },
            },
            window: FileWindow::new(Arc::clone(&self.file), self.end),
            search_window: FileWindow::new(Arc::clone(&self.file), self.end),
            vain_work_left: self
                .end
                .saturating_mul(VAIN_WORK_FACTOR_MAX)
                .saturating_add(VAIN_WORK_FREE_BYTES),
            decoder: FrameDecoder::new(),
            cutter: Cutter::new(self.version, self.limits),
            frame_index: 0,
            cancel: cancel.clone(),
            log: self.clone(),
        }
    }
}

/// What is read next.
#[derive(Debug)]
enum Stage {
    /// A piece of a raw log.
    Raw { next: u64 },
    /// The frame at this offset.
    Frames { next: u64 },
    /// The rest of a frame that is too long to be held whole.
    Stream { stream: Box<FrameStream<Arc<dyn StorageFile>>>, frame: FrameInfo },
    /// Nothing.
    Done,
}

/// How often the length of the file may be gone through for places that are no frames after all. A frame that was damaged costs about its own
/// length, and chance makes four bytes look like a frame's start once in 4 GiB: files that came to harm stay far below.
const VAIN_WORK_FACTOR_MAX: u64 = 16;

/// Work that is free in any file, so that small ones are searched whatever they hold.
const VAIN_WORK_FREE_BYTES: u64 = 16 << 20;

/// How much is searched at once for the next frame: first what holds a few small ones, then more.
const SEARCH_PIECE_BYTES_MIN: usize = 1024;

/// Where reading goes on after damage.
#[derive(Debug)]
enum Search {
    /// At a complete frame that decodes.
    Found(u64),
    /// Nowhere: there is none.
    Nothing,
    /// Nowhere: too much was tried in vain, and what begins here was not searched.
    GivenUp(u64),
}

/// The rows of a [`RawLog`]. An error is the system's or a cancellation; after it there is nothing more.
#[derive(Debug)]
pub struct RawRows {
    log: RawLog,
    window: FileWindow<Arc<dyn StorageFile>>,
    /// For looking at bytes one after the other; walks over headers would make it jump.
    search_window: FileWindow<Arc<dyn StorageFile>>,
    /// What may still be read and walked over for nothing, in bytes.
    vain_work_left: u64,
    decoder: FrameDecoder,
    cancel: CancelToken,
    cutter: Cutter,
    stage: Stage,
    frame_index: u64,
}

impl Iterator for RawRows {
    type Item = Result<RawRow>;

    fn next(&mut self) -> Option<Result<RawRow>> {
        loop {
            if let Some(row) = self.cutter.ready.pop_front() {
                return Some(Ok(row));
            }
            if matches!(self.stage, Stage::Done) {
                return None;
            }
            if let Err(error) = self.cancel.check().and_then(|()| self.fill()) {
                self.stage = Stage::Done;
                return Some(Err(error.with_path(self.log.path())));
            }
        }
    }
}

fn io(error: &std::io::Error) -> Error {
    Error::io("read the log", error)
}

impl RawRows {
    fn fill(&mut self) -> Result<()> {
        match std::mem::replace(&mut self.stage, Stage::Done) {
            Stage::Raw { next } => self.fill_raw(next),
            Stage::Frames { next } => self.fill_frame(next),
            Stage::Stream { stream, frame } => self.fill_stream(stream, frame),
            Stage::Done => Ok(()),
        }
    }

    fn fill_raw(&mut self, offset: u64) -> Result<()> {
        let bytes = self.window.bytes(offset, PIECE_BYTES).map_err(|error| io(&error))?;
        if bytes.is_empty() {
            self.cutter.end_of_text(Some("the row has no newline"));
            return Ok(());
        }
        self.stage = Stage::Raw { next: offset + bytes.len() as u64 };
        self.cutter.push(bytes, Place { frame: None, offset }, None);
        Ok(())
    }

    fn fill_frame(&mut self, offset: u64) -> Result<()> {
        match self.step(offset)? {
            FrameStep::End => {
                self.cutter.end_of_text(Some("the frames end in the middle of this row"));
                Ok(())
            }
            FrameStep::Complete(frame) => self.fill_complete(frame),
            FrameStep::Torn { start } => self.fill_torn(start),
            FrameStep::Fault { at, kind } => self.damaged(offset, at, &kind.to_string()),
        }
    }

    /// What stands at a frame's place. A walk that leads to no frame is work in vain.
    fn step(&mut self, offset: u64) -> Result<FrameStep> {
        let before = self.window.work_bytes();
        let step = scan_frame(&mut self.window, offset).map_err(|error| io(&error))?;
        if !matches!(step, FrameStep::Complete(_)) {
            self.was_vain(self.window.work_bytes() - before);
        }
        Ok(step)
    }

    fn was_vain(&mut self, work_bytes: u64) {
        self.vain_work_left = self.vain_work_left.saturating_sub(work_bytes);
    }

    /// A frame that does not decode was read for nothing.
    fn bad_frame(&mut self, frame: &FrameInfo, fault: &dyn Display) -> Result<()> {
        self.was_vain(frame.frame_bytes());
        self.damaged(frame.start, frame.start, &fault.to_string())
    }

    /// A complete frame: its rows, or a row that says that it does not decode.
    fn fill_complete(&mut self, frame: FrameInfo) -> Result<()> {
        let mut text = Vec::new();
        let length = usize::try_from(frame.frame_bytes()).unwrap_or(usize::MAX);
        let decoded = if length <= PIECE_BYTES {
            let bytes = self.window.bytes(frame.start, length).map_err(|error| io(&error))?;
            self.decoder.decode(bytes, &frame, &mut text, PIECE_BYTES)
        } else {
            Ok(Decoded::TooLong)
        };
        match decoded {
            Ok(Decoded::Whole(_)) => {
                self.cutter.push(&text, self.place(frame.start), None);
                self.after_frame(frame);
                Ok(())
            }
            Ok(Decoded::TooLong) => self.begin_stream(frame),
            Err(fault) => self.bad_frame(&frame, &fault),
        }
    }

    fn begin_stream(&mut self, frame: FrameInfo) -> Result<()> {
        let mut stream =
            Box::new(FrameStream::new(Arc::clone(&self.log.file), frame.start, frame.end, false));
        match stream.check().map_err(|error| io(&error))? {
            Ok(_) => {
                self.stage = Stage::Stream { stream, frame };
                Ok(())
            }
            Err(fault) => self.bad_frame(&frame, &fault),
        }
    }

    fn fill_stream(
        &mut self,
        mut stream: Box<FrameStream<Arc<dyn StorageFile>>>,
        frame: FrameInfo,
    ) -> Result<()> {
        let mut text = Vec::new();
        if stream.read(&mut text, PIECE_BYTES).map_err(|error| io(&error))? == 0 {
            self.after_frame(frame);
            return Ok(());
        }
        self.cutter.push(&text, self.place(frame.start), None);
        self.stage = Stage::Stream { stream, frame };
        Ok(())
    }

    fn after_frame(&mut self, frame: FrameInfo) {
        self.frame_index += 1;
        self.stage = Stage::Frames { next: frame.end };
    }

    fn place(&self, offset: u64) -> Place {
        Place { frame: Some(self.frame_index), offset }
    }

    /// What does not end before the file does: the torn end of the log, or a damaged frame that others follow.
    fn fill_torn(&mut self, start: u64) -> Result<()> {
        let search = self.next_whole_frame(start + 1)?;
        if !matches!(search, Search::Nothing) {
            self.lost(start, "the frame is damaged: it does not end before the file does");
            self.go_on(&search);
            return Ok(());
        }
        let mut stream = FrameStream::new(Arc::clone(&self.log.file), start, self.log.end, true);
        let mut text = Vec::new();
        // A fault of a torn frame means no text; what remains of one append was in memory once, so it may be again.
        if stream.check().map_err(|error| io(&error))?.is_ok() {
            while stream.read(&mut text, PIECE_BYTES).map_err(|error| io(&error))? > 0 {
                self.cancel.check()?;
                self.cutter.push(&text, self.place(start), Some(TORN));
                text.clear();
            }
        }
        let was_empty = self.cutter.ready.is_empty() && self.cutter.carry.is_empty();
        self.cutter.end_of_text(Some("the row is cut: the last frame is unfinished"));
        if was_empty {
            self.lost(start, "the last frame is unfinished, and nothing of it can be read");
        }
        Ok(())
    }

    /// Names what stands at `start` and goes on at the next frame that decodes.
    fn damaged(&mut self, start: u64, at: u64, what: &str) -> Result<()> {
        let what = if at == start { what.to_owned() } else { format!("{what} (byte {at})") };
        self.lost(start, &what);
        let search = self.next_whole_frame(start + 1)?;
        self.go_on(&search);
        Ok(())
    }

    fn go_on(&mut self, search: &Search) {
        match *search {
            Search::Found(next) => self.stage = Stage::Frames { next },
            Search::Nothing => {}
            Search::GivenUp(from) => self.lost(from, GIVEN_UP),
        }
    }

    fn lost(&mut self, start: u64, what: &str) {
        self.cutter.end_of_text(Some("the rest of this row is lost: the frame after it is damaged"));
        self.cutter.name_lost(self.place(start), what);
        self.frame_index += 1;
    }

    /// The first place from `from` on at which a complete frame begins that decodes.
    fn next_whole_frame(&mut self, from: u64) -> Result<Search> {
        let finder = Finder::new(&FRAME_MAGIC);
        let overlap = FRAME_MAGIC.len() as u64 - 1;
        let (mut position, mut piece_bytes) = (from, SEARCH_PIECE_BYTES_MIN);
        loop {
            let piece = self.search_window.bytes(position, piece_bytes).map_err(|error| io(&error))?;
            if piece.len() < FRAME_MAGIC.len() {
                return Ok(Search::Nothing);
            }
            let found: Vec<u64> = finder.find_iter(piece).map(|at| position + at as u64).collect();
            let next = position + piece.len() as u64 - overlap;
            for candidate in found {
                self.cancel.check()?;
                if self.vain_work_left == 0 {
                    return Ok(Search::GivenUp(candidate));
                }
                if self.is_whole_frame(candidate)? {
                    return Ok(Search::Found(candidate));
                }
            }
            self.cancel.check()?;
            position = next;
            piece_bytes = (piece_bytes * 2).min(READ_PIECE_BYTES);
        }
    }

    /// Whether a complete frame begins here that decodes.
    fn is_whole_frame(&mut self, candidate: u64) -> Result<bool> {
        let before = self.window.work_bytes();
        let FrameStep::Complete(frame) = self.step(candidate)? else { return Ok(false) };
        let is_whole = self.decodes(&frame)?;
        if !is_whole {
            self.was_vain(self.window.work_bytes() - before + frame.frame_bytes());
        }
        Ok(is_whole)
    }

    fn decodes(&mut self, frame: &FrameInfo) -> Result<bool> {
        let length = usize::try_from(frame.frame_bytes()).unwrap_or(usize::MAX);
        if length <= PIECE_BYTES {
            let bytes = self.window.bytes(frame.start, length).map_err(|error| io(&error))?;
            match self.decoder.decode(bytes, frame, &mut Vec::new(), PIECE_BYTES) {
                Ok(Decoded::TooLong) => {}
                decoded => return Ok(decoded.is_ok()),
            }
        }
        let mut stream = FrameStream::new(Arc::clone(&self.log.file), frame.start, frame.end, false);
        Ok(stream.check().map_err(|error| io(&error))?.is_ok())
    }
}

/// What is said of the rest of a file that was not searched to its end.
const GIVEN_UP: &str =
    "too many places before this one look like frames and are none: what follows is not searched for rows";

/// Zero bytes that are shown as the text of a row; more are only counted.
const ZEROS_SHOWN_MAX: u64 = 4096;

/// What is said of whole rows in an unfinished last frame.
const TORN: &str = "the row stands in the unfinished last frame";

/// Where a piece of text begins in the file.
#[derive(Clone, Copy, Debug)]
struct Place {
    frame: Option<u64>,
    /// Of the text's first byte in a raw log, of the frame in a compressed one.
    offset: u64,
}

/// Cuts text into rows and judges each.
#[derive(Debug)]
struct Cutter {
    version: u64,
    limits: ReadLimits,
    line: u64,
    /// The beginning of a row whose end was not seen yet, and where it stands.
    carry: Vec<u8>,
    carry_place: Option<Place>,
    /// Zero bytes at the beginning of the row that are counted instead of kept, while nothing else was seen of it.
    zeros: u64,
    /// Bytes of a row that is longer than the limit and therefore not kept.
    dropped: u64,
    /// The seq that the next event should have; `None` where that is not known.
    next_seq: Option<u64>,
    ready: VecDeque<RawRow>,
}

impl Cutter {
    fn new(version: u64, limits: ReadLimits) -> Cutter {
        Cutter {
            version,
            limits,
            line: 1,
            carry: Vec::new(),
            carry_place: None,
            zeros: 0,
            dropped: 0,
            next_seq: Some(0),
            ready: VecDeque::new(),
        }
    }

    /// Takes text that begins at `place`; `remark` is said of each row that ends in it.
    fn push(&mut self, text: &[u8], place: Place, remark: Option<&str>) {
        let mut start = 0;
        for newline in memchr::memchr_iter(b'\n', text) {
            self.keep(&text[start..newline], self.place_in(place, start));
            self.row_ends(remark);
            start = newline + 1;
        }
        if start < text.len() {
            self.keep(&text[start..], self.place_in(place, start));
        }
    }

    fn place_in(&self, place: Place, start: usize) -> Place {
        match place.frame {
            Some(_) => place,
            None => Place { frame: None, offset: place.offset + start as u64 },
        }
    }

    fn keep(&mut self, bytes: &[u8], place: Place) {
        self.carry_place.get_or_insert(place);
        if self.carry.is_empty() && self.dropped == 0 && bytes.iter().all(|&byte| byte == 0) {
            self.zeros += bytes.len() as u64;
            return;
        }
        self.keep_zeros();
        let length = self.dropped + (self.carry.len() + bytes.len()) as u64;
        if self.dropped > 0 || length > self.limits.row_bytes_max {
            self.dropped = length;
            self.carry = Vec::new();
        } else {
            self.carry.extend_from_slice(bytes);
        }
    }

    /// Makes the zeros that were counted bytes of the row, or of its length where that is over the limit.
    fn keep_zeros(&mut self) {
        let zeros = std::mem::take(&mut self.zeros);
        if zeros > self.limits.row_bytes_max {
            self.dropped = zeros;
        } else {
            self.carry.resize(self.carry.len() + zeros as usize, 0);
        }
    }

    /// The text ends or is interrupted here; what is left of it is a row with a problem.
    fn end_of_text(&mut self, problem: Option<&str>) {
        if self.carry_place.is_some() {
            self.row_ends(problem);
        }
    }

    fn row_ends(&mut self, remark: Option<&str>) {
        let Some(place) = self.carry_place.take() else { return };
        if self.zeros > ZEROS_SHOWN_MAX {
            let zeros = std::mem::take(&mut self.zeros);
            self.name_lost(
                place,
                &format!("{zeros} zero bytes stand here: a file that grew and was never written"),
            );
            self.line += 1;
            return;
        }
        self.keep_zeros();
        let bytes = std::mem::take(&mut self.carry);
        let dropped = std::mem::take(&mut self.dropped);
        let mut row = self.blank(place);
        if dropped > 0 {
            let limit = self.limits.row_bytes_max;
            row.problem = Some(format!("the row of {dropped} bytes is longer than the limit of {limit}"));
            self.next_seq = None;
        } else {
            self.judge(bytes, &mut row);
            if let Some(remark) = remark {
                row.problem = Some(match row.problem.take() {
                    Some(problem) => format!("{remark}; {problem}"),
                    None => remark.to_owned(),
                });
            }
        }
        self.line += 1;
        self.ready.push_back(row);
    }

    fn blank(&self, place: Place) -> RawRow {
        RawRow {
            line: self.line,
            text: String::new(),
            seq: None,
            kind: None,
            problem: None,
            frame: place.frame,
            offset: place.offset,
            is_event: false,
        }
    }

    fn name_lost(&mut self, place: Place, what: &str) {
        let mut row = self.blank(place);
        row.problem = Some(what.to_owned());
        self.next_seq = None;
        self.ready.push_back(row);
    }

    fn judge(&mut self, bytes: Vec<u8>, row: &mut RawRow) {
        let text = String::from_utf8(bytes)
            .unwrap_or_else(|error| String::from_utf8_lossy(error.as_bytes()).into_owned());
        let is_current = self.version == u64::from(FORMAT_VERSION);
        let shape = json::scan_object(&text, self.limits.depth_max, |member| match &*member.key_text() {
            "type" => row.kind = member.value.as_str().map(|kind| kind.into_owned()),
            "seq" => row.seq = member.value.as_count(),
            _ => {}
        });
        if !matches!(shape, Ok(Shape::Object { .. })) {
            (row.kind, row.seq) = (None, None);
        }
        row.problem = match shape {
            Err(error) => Some(format!("the row is not JSON: {error}")),
            Ok(Shape::Other(_)) => Some("the row is not a JSON object".to_owned()),
            Ok(Shape::Object { .. }) if self.line == 1 => self.judge_header(&text, row, is_current),
            // What an event is in another version is not judged here.
            Ok(Shape::Object { .. }) if !is_current => None,
            Ok(Shape::Object { .. }) => self.judge_event(&text, row),
        };
        if self.line > 1 && !row.is_event {
            self.next_seq = None;
        }
        row.text = text;
    }

    fn judge_header(&mut self, text: &str, row: &mut RawRow, is_current: bool) -> Option<String> {
        if row.kind.as_deref() != Some("session") {
            if is_current {
                // A log that lost its header begins with an event, which is worth showing as one.
                self.judge_event(text, row);
            }
            return Some("the first row is not a header".to_owned());
        }
        // A newer version's header is only known to be an object.
        let fault = (self.version <= u64::from(FORMAT_VERSION))
            .then(|| decode_line(text.as_bytes(), self.version).err());
        fault.flatten().map(|fault| fault.to_string())
    }

    fn judge_event(&mut self, text: &str, row: &mut RawRow) -> Option<String> {
        match row::parse(text, Span::new(0, text.len()), self.limits.depth_max) {
            Err(bad) => Some(bad.fault.to_string()),
            Ok(envelope) => {
                row.is_event = true;
                row.seq = Some(envelope.seq);
                let expected = self.next_seq.replace(envelope.seq + 1);
                expected
                    .filter(|&expected| expected != envelope.seq)
                    .map(|expected| format!("seq {expected} should stand here, not {}", envelope.seq))
            }
        }
    }
}
