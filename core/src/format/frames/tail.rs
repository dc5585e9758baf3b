//! Finding frames without walking to them from the start of the file: the last ones, and one near an offset.
//!
//! A frame begins with four fixed bytes, so a backward search for them gives candidates, and a walk from a candidate
//! to the end of the file confirms it. A false candidate inside a frame is practically impossible: raw blocks hold
//! log text, which as UTF-8 cannot contain the magic (0xb5 never follows 0x28 there); in compressed bytes it stands
//! at one place in 2^32 by chance, and the walk from there would have to meet another frame's start, or the end of
//! the file, exactly. What remains is a file that was made to deceive. Therefore the caller still checks what it
//! decodes: the checksum, that the rows parse, that their seqs follow each other, that the text begins at the start
//! of a row; and where one of these fails, it scans from the header before it calls anything damaged.

use std::collections::{HashSet, VecDeque};
use std::io;

use memchr::memmem::Finder;

use super::super::window::{FileWindow, READ_PIECE_BYTES, ReadAt};
use super::FRAME_MAGIC;
use super::scan::{FrameFault, FrameInfo, FrameStep, scan_frame};
use super::stream::FrameStream;

/// How far before the end the search begins, in bytes; it doubles from there.
const TAIL_PIECE_BYTES: u64 = 64 * 1024;

/// How far before the end the search goes, in bytes. A frame that is longer is passed by its block headers in a
/// scan from the floor for less than it would cost to search its body.
const TAIL_SEARCH_BYTES_MAX: u64 = 4 * 1024 * 1024;

/// How many places are tried for a frame behind one that does not end: chance gives none, more are a file made to deceive.
const HIDDEN_CANDIDATES_MAX: usize = 64;

/// How many frames in a row confirm a candidate in the middle of a file.
const CHAIN_MIN: usize = 4;

/// The last frames of a file, in order and without a gap.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TailFrames {
    /// Complete frames; each begins where the one before it ends.
    pub frames: Vec<FrameInfo>,
    /// Where the torn rest of the file begins, if there is one.
    pub torn_start: Option<u64>,
    /// What ended the scan before the end of the file, and where. Only a scan from the floor gives one.
    pub fault: Option<(FrameFault, u64)>,
    /// Whether they were found by a scan from the floor: then they are certain, not only confirmed.
    pub is_from_floor: bool,
}

impl TailFrames {
    /// Where the first of the frames begins: at the floor, there are no earlier ones.
    #[must_use]
    pub fn start(&self) -> Option<u64> {
        self.frames.first().map(|frame| frame.start).or(self.torn_start)
    }
}

/// Finds frames at the end of a file (of the bytes before `end`), without walking to them from its start.
///
/// `floor` is where a frame is known to begin, usually the end of the header's; nothing before it is looked at. The
/// frames given reach back at least `wanted_bytes` from `end`, or to the floor. See the module for how sure a
/// candidate is, and what the caller still checks.
///
/// A torn rest counts as found only after a complete frame, since any few bytes may pass for the start of a frame
/// that is not finished. A file without a chain near its end is scanned from the floor.
///
/// # Errors
/// Those of reading.
pub fn last_frames_start(
    source: &dyn ReadAt,
    end: u64,
    floor: u64,
    wanted_bytes: u64,
) -> io::Result<TailFrames> {
    let mut search = Search::new(source, end);
    let limit = TAIL_SEARCH_BYTES_MAX.max(wanted_bytes);
    let mut reach = TAIL_PIECE_BYTES.max(wanted_bytes);
    let mut searched_from = end;
    while reach <= limit && end.saturating_sub(reach) > floor {
        let from = end - reach;
        if let Some(chain) = search.first_chain(from, searched_from, usize::MAX)? {
            return Ok(chain);
        }
        searched_from = from;
        reach = reach.saturating_mul(2);
    }
    scan_keeping_tail(&mut search.walk_window, floor, wanted_bytes)
}

/// The first frame start at or after `position` that is confirmed by four frames in a row, or by all there
/// are to the end of the file; `None` if no complete frame begins there.
///
/// For searching by seq: frames carry their own, so halving the range between `floor` and `end` needs no index. See
/// the module for how sure the answer is. A frame that is longer than the range is read through once.
///
/// # Errors
/// Those of reading.
pub fn frame_start_near(source: &dyn ReadAt, position: u64, floor: u64, end: u64) -> io::Result<Option<u64>> {
    let mut search = Search::new(source, end);
    if position <= floor {
        let first = scan_frame(&mut search.walk_window, floor)?;
        return Ok(matches!(first, FrameStep::Complete(_)).then_some(floor));
    }
    let chain = search.first_chain(position, end, CHAIN_MIN)?;
    Ok(chain.and_then(|chain| chain.start()))
}

/// The text of the frames from `start` on, up to the first `text_bytes` bytes of it; checksums are not looked at.
///
/// For a probe: which rows stand near a place. Whatever is decided by it is checked by the read that follows, so a frame that does not
/// decode only ends the text.
///
/// # Errors
/// Those of reading.
pub fn peek_text(source: &dyn ReadAt, start: u64, end: u64, text_bytes: usize) -> io::Result<Vec<u8>> {
    let mut window = FileWindow::with_first_piece(source, end, READ_PIECE_BYTES / 4);
    let mut text = Vec::new();
    let mut next = start;
    while text.len() < text_bytes {
        let FrameStep::Complete(frame) = scan_frame(&mut window, next)? else { break };
        FrameStream::new(source, frame.start, frame.end, true).peek(&mut text, text_bytes)?;
        next = frame.end;
    }
    Ok(text)
}

/// A whole frame, by its checksum, that begins behind `start`, where a frame begins that does not end before the file does.
///
/// An unfinished append has nothing behind it. Where there is a frame, the one before it was damaged: the length of one of its blocks, most
/// likely, so that it seems to reach over what follows.
///
/// # Errors
/// Those of reading.
pub(crate) fn hidden_frame(source: &dyn ReadAt, start: u64, end: u64) -> io::Result<Option<u64>> {
    let mut search = Search::new(source, end);
    let mut position = start + 1;
    for _ in 0..HIDDEN_CANDIDATES_MAX {
        let found = find_magic(&mut search.magic_window, position, end)?;
        let Some(candidate) = found else { return Ok(None) };
        if let FrameStep::Complete(frame) = scan_frame(&mut search.walk_window, candidate)?
            && frame.has_checksum
            && FrameStream::new(source, frame.start, frame.end, false).check()?.is_ok_and(|length| length > 0)
        {
            return Ok(Some(candidate));
        }
        position = candidate + FRAME_MAGIC.len() as u64;
    }
    Ok(None)
}

/// A search for chains of frames in one file.
struct Search<'a> {
    /// For looking at bytes one after the other.
    magic_window: FileWindow<&'a dyn ReadAt>,
    /// For walking over headers, which would make the other one jump.
    walk_window: FileWindow<&'a dyn ReadAt>,
    /// Places from which a walk is known to end in a fault, so that each is walked once.
    dead: HashSet<u64>,
}

impl<'a> Search<'a> {
    fn new(source: &'a dyn ReadAt, end: u64) -> Self {
        Search {
            magic_window: FileWindow::new(source, end),
            walk_window: FileWindow::new(source, end),
            dead: HashSet::new(),
        }
    }

    /// The chain of the first candidate in `from..until` that has one.
    fn first_chain(&mut self, from: u64, until: u64, frames_max: usize) -> io::Result<Option<TailFrames>> {
        let mut position = from;
        while let Some(candidate) = find_magic(&mut self.magic_window, position, until)? {
            if let Some(chain) = self.walk(candidate, frames_max)? {
                return Ok(Some(chain));
            }
            position = candidate + 1;
        }
        Ok(None)
    }

    /// Up to `frames_max` frames from `start`; `None` if there is no complete one or they end in a fault.
    fn walk(&mut self, start: u64, frames_max: usize) -> io::Result<Option<TailFrames>> {
        let mut chain = TailFrames::default();
        let mut position = start;
        while chain.frames.len() < frames_max {
            let step = match self.dead.contains(&position) {
                true => FrameStep::Fault { at: position, kind: FrameFault::Magic },
                false => scan_frame(&mut self.walk_window, position)?,
            };
            match step {
                FrameStep::End => break,
                FrameStep::Complete(frame) => {
                    position = frame.end;
                    chain.frames.push(frame);
                }
                FrameStep::Torn { start } => {
                    chain.torn_start = Some(start);
                    break;
                }
                FrameStep::Fault { .. } => {
                    self.dead.extend(chain.frames.iter().map(|frame| frame.start));
                    return Ok(None);
                }
            }
        }
        Ok((!chain.frames.is_empty()).then_some(chain))
    }
}

/// The first magic that begins in `from..until`.
fn find_magic(window: &mut FileWindow<impl ReadAt>, from: u64, until: u64) -> io::Result<Option<u64>> {
    let finder = Finder::new(&FRAME_MAGIC);
    let overlap = FRAME_MAGIC.len() as u64 - 1;
    let mut position = from;
    while position < until {
        let limit = until.saturating_add(overlap) - position;
        let length = usize::try_from(limit).unwrap_or(usize::MAX).min(READ_PIECE_BYTES);
        let piece = window.bytes(position, length)?;
        if let Some(at) = finder.find(piece) {
            return Ok(Some(position + at as u64));
        }
        if piece.len() < FRAME_MAGIC.len() {
            break;
        }
        position += piece.len() as u64 - overlap;
    }
    Ok(None)
}

/// A scan from a known frame start to the end, keeping no more frames than reach back `wanted_bytes`.
fn scan_keeping_tail(
    window: &mut FileWindow<impl ReadAt>,
    start: u64,
    wanted_bytes: u64,
) -> io::Result<TailFrames> {
    let mut kept = VecDeque::new();
    let mut tail = TailFrames { is_from_floor: true, ..TailFrames::default() };
    let wanted_from = window.end().saturating_sub(wanted_bytes);
    let mut position = start;
    loop {
        match scan_frame(window, position)? {
            FrameStep::End => break,
            FrameStep::Complete(frame) => {
                // The new frame must not push out the last one that reaches back far enough.
                while kept.front().is_some_and(|first: &FrameInfo| first.end <= wanted_from.min(frame.start))
                {
                    kept.pop_front();
                }
                position = frame.end;
                kept.push_back(frame);
            }
            FrameStep::Torn { start } => {
                tail.torn_start = Some(start);
                break;
            }
            FrameStep::Fault { at, kind } => {
                tail.fault = Some((kind, at));
                break;
            }
        }
    }
    tail.frames = kept.into();
    Ok(tail)
}
