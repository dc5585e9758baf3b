//! Groups of complete frames: the unit in which a compressed log is decoded and parsed, alone or several at once.

use super::frames::{Decoded, FrameDecoder, FrameInfo, FrameStep, scan_frame};
use super::piece::{ParsedPiece, RowParsing, parse_piece};
use super::reader::{LogSource, PIECE_BYTES, PieceFrame};
use super::window::FileWindow;
use crate::storage::StorageFile;
use std::collections::VecDeque;
use std::io;
use std::sync::Arc;

/// The text one group may unpack to. A frame that does not fit into what is left begins the next group; one that does not
/// fit into a whole group is streamed.
const GROUP_TEXT_BYTES_MAX: usize = 4 * PIECE_BYTES;

/// Neighbouring complete frames, still compressed.
#[derive(Debug, Default)]
pub(crate) struct Group {
    bytes: Vec<u8>,
    frames: Vec<FrameInfo>,
}

/// Why a group ended before its last frame.
#[derive(Debug)]
pub(crate) enum GroupStop {
    /// This frame does not fit into what the group may still hold; the next group begins with it.
    Full(FrameInfo),
    /// This frame alone unpacks to more than a group may hold.
    TooLong(FrameInfo),
    /// This frame does not decode.
    Fault(FrameInfo),
}

/// The text of a group, parsed.
#[derive(Debug)]
pub(crate) struct DecodedGroup {
    pub(crate) piece: ParsedPiece,
    /// Text after the last newline: the beginning of a row that goes on in a later frame.
    pub(crate) rest: Vec<u8>,
    pub(crate) stop: Option<GroupStop>,
    /// Where in the text each decoded frame ends.
    text_ends: Vec<usize>,
}

impl Group {
    /// Collects complete frames from `offset` on, about `bytes_aim` compressed bytes, at least one frame. Also gives the step that
    /// ended the group: `Complete` where more frames follow.
    pub(crate) fn collect(
        window: &mut FileWindow<Arc<dyn StorageFile>>,
        offset: u64,
        bytes_aim: usize,
    ) -> io::Result<(Group, FrameStep)> {
        let mut group = Group::default();
        let mut next = offset;
        loop {
            let step = scan_frame(window, next)?;
            let FrameStep::Complete(frame) = step else { return Ok((group, step)) };
            let length = (frame.end - frame.start) as usize;
            let is_full = !group.frames.is_empty() && group.bytes.len() + length > bytes_aim;
            if is_full {
                return Ok((group, FrameStep::Complete(frame)));
            }
            // A frame whose compressed form alone fills several pieces is never decoded in one go: its bytes are not copied.
            if length <= GROUP_TEXT_BYTES_MAX {
                group.bytes.extend_from_slice(window.bytes(frame.start, length)?);
            }
            next = frame.end;
            group.frames.push(frame);
        }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.frames.is_empty()
    }

    /// Where the next group begins; `otherwise` for an empty one.
    pub(crate) fn end(&self, otherwise: u64) -> u64 {
        self.frames.last().map_or(otherwise, |frame| frame.end)
    }

    /// Unpacks and parses; the text begins with `carry`.
    fn decode(&self, carry: Vec<u8>, decoder: &mut FrameDecoder, parsing: RowParsing) -> DecodedGroup {
        let mut text = carry;
        let carried = text.len();
        let mut text_ends = Vec::with_capacity(self.frames.len());
        let mut stop = None;
        let mut from = 0;
        for frame in &self.frames {
            let length = (frame.end - frame.start) as usize;
            let room = GROUP_TEXT_BYTES_MAX.saturating_sub(text.len() - carried);
            let decoded = match self.bytes.get(from..from + length) {
                Some(bytes) if length <= GROUP_TEXT_BYTES_MAX => {
                    decoder.decode(bytes, frame, &mut text, room)
                }
                _ => Ok(Decoded::TooLong),
            };
            match decoded {
                Ok(Decoded::Whole(_)) => text_ends.push(text.len()),
                Ok(Decoded::TooLong) if text_ends.is_empty() => stop = Some(GroupStop::TooLong(*frame)),
                Ok(Decoded::TooLong) => stop = Some(GroupStop::Full(*frame)),
                Err(_) => stop = Some(GroupStop::Fault(*frame)),
            }
            if stop.is_some() {
                break;
            }
            from += length;
        }
        let whole = memchr::memrchr(b'\n', &text).map_or(0, |newline| newline + 1);
        let rest = text.split_off(whole);
        text.shrink_to_fit();
        DecodedGroup { piece: parse_piece(text, parsing), rest, stop, text_ends }
    }
}

impl DecodedGroup {
    /// The frames that were decoded, numbered from `first_index`.
    pub(crate) fn frames(&self, group: &Group, first_index: u64) -> VecDeque<PieceFrame> {
        let numbered = self.text_ends.iter().zip(&group.frames).zip(first_index..);
        numbered
            .map(|((&text_end, frame), index)| PieceFrame { text_end, index, start: frame.start })
            .collect()
    }

    /// How many bytes of text a compressed byte became; `None` where nothing was decoded.
    pub(crate) fn text_ratio(&self, group: &Group) -> Option<usize> {
        let text = *self.text_ends.last()?;
        let frames = group.frames.get(..self.text_ends.len())?;
        let stored = frames.last()?.end - frames.first()?.start;
        Some((text / stored.max(1) as usize).max(1))
    }
}

/// Decodes groups on as many threads as there are groups; the first one, which begins with `carry`, on the calling thread.
pub(crate) fn decode_all(
    groups: &[Group],
    carry: Vec<u8>,
    decoders: &mut Vec<FrameDecoder>,
    parsing: RowParsing,
) -> Vec<DecodedGroup> {
    while decoders.len() < groups.len() {
        decoders.push(FrameDecoder::new());
    }
    let mut work = groups.iter().zip(decoders.iter_mut());
    let Some((first, first_decoder)) = work.next() else { return Vec::new() };
    std::thread::scope(|scope| {
        let others: Vec<_> = work
            .map(|(group, decoder)| {
                let spawned = std::thread::Builder::new()
                    .spawn_scoped(scope, || group.decode(Vec::new(), decoder, parsing));
                (group, spawned)
            })
            .collect();
        let mut decoded = vec![first.decode(carry, first_decoder, parsing)];
        for (group, spawned) in others {
            let outcome = match spawned {
                Ok(handle) => handle.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)),
                // No thread to be had: the work is done here.
                Err(_) => group.decode(Vec::new(), &mut FrameDecoder::new(), parsing),
            };
            decoded.push(outcome);
        }
        decoded
    })
}

/// Adds up to `length` bytes of a raw log to `bytes`, which begin at `start`; gives how many came.
pub(crate) fn read_more(
    source: &LogSource,
    start: u64,
    bytes: &mut Vec<u8>,
    length: usize,
) -> io::Result<usize> {
    let from = bytes.len();
    let offset = start + from as u64;
    let room = usize::try_from(source.end.saturating_sub(offset)).unwrap_or(usize::MAX).min(length);
    bytes.resize(from + room, 0);
    let mut filled = 0;
    while filled < room {
        let read = source.file.read_at(&mut bytes[from + filled..], offset + filled as u64)?;
        if read == 0 {
            break;
        }
        filled += read;
    }
    bytes.truncate(from + filled);
    Ok(filled)
}
