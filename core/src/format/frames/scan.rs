//! One step from frame to frame (`format.md` 4.3), by headers alone: no body is read, nothing is decoded.

use std::error;
use std::fmt;
use std::io;

use super::super::window::{FileWindow, READ_PIECE_BYTES, ReadAt};
use super::{BLOCK_BYTES_MAX, FRAME_MAGIC};

/// Magic, descriptor, window, dictionary id and content size at their longest.
pub(super) const FRAME_HEADER_BYTES_MAX: usize = 4 + 1 + 1 + 4 + 8;

/// The header of a block.
const BLOCK_HEADER_BYTES: usize = 3;

/// The checksum after the last block, where the descriptor announces one.
const CHECKSUM_BYTES: u64 = 4;

/// A complete frame: where it is and what its header says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FrameInfo {
    /// The offset of its first byte.
    pub start: u64,
    /// The offset after its last byte.
    pub end: u64,
    /// The window its decoder needs, in bytes: the content size where the frame is a single segment.
    pub window_bytes: u64,
    /// The plaintext's length in bytes, where the header tells it. Not yet verified.
    pub content_size: Option<u64>,
    /// Whether it ends in a checksum of the plaintext.
    pub has_checksum: bool,
    /// The dictionary it was written with; 0: none.
    pub dictionary_id: u32,
}

impl FrameInfo {
    /// The length of the frame in the file, in bytes.
    #[must_use]
    pub fn frame_bytes(&self) -> u64 {
        self.end.saturating_sub(self.start)
    }
}

/// Why the bytes at a frame's place are not a frame. No frame after it can be trusted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FrameFault {
    /// It does not begin with [`FRAME_MAGIC`].
    Magic,
    /// Bit 3 or 4 of the descriptor is set.
    ReservedHeaderBit,
    /// A block is of the type that is kept for the future.
    ReservedBlockType,
}

impl FrameFault {
    /// A short label of the fault.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            FrameFault::Magic => "magic",
            FrameFault::ReservedHeaderBit => "reserved-header-bit",
            FrameFault::ReservedBlockType => "reserved-block-type",
        }
    }
}

impl fmt::Display for FrameFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            FrameFault::Magic => "no Zstandard frame begins here",
            FrameFault::ReservedHeaderBit => "the frame header has a reserved bit set",
            FrameFault::ReservedBlockType => "a block of the frame has the reserved type",
        })
    }
}

impl error::Error for FrameFault {}

/// What stands at a frame's place.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FrameStep {
    /// Nothing: the file ends here.
    End,
    /// A complete frame; the next place is its end.
    Complete(FrameInfo),
    /// The torn rest of the file (`format.md` 4.3; `design.md` 5 for zero bytes).
    Torn {
        /// Where it begins.
        start: u64,
    },
    /// Something that is no frame.
    Fault {
        /// The offset of the offending byte, or of the header it belongs to.
        at: u64,
        /// What is wrong.
        kind: FrameFault,
    },
}

/// The fields of a frame header.
#[derive(Clone, Debug)]
pub(super) struct FrameHeader {
    pub(super) header_bytes: usize,
    pub(super) window_bytes: u64,
    pub(super) content_size: Option<u64>,
    pub(super) has_checksum: bool,
    pub(super) dictionary_id: u32,
}

/// The outcome of reading a header from the bytes that are there.
pub(super) enum HeaderStep {
    Whole(FrameHeader),
    Short,
    Fault { offset: u64, kind: FrameFault },
}

impl FrameHeader {
    /// Reads the header at the start of `bytes`, which need not reach its end.
    pub(super) fn parse(bytes: &[u8]) -> HeaderStep {
        let Some((magic, rest)) = bytes.split_first_chunk::<4>() else { return HeaderStep::Short };
        if *magic != FRAME_MAGIC {
            return HeaderStep::Fault { offset: 0, kind: FrameFault::Magic };
        }
        let Some((&descriptor, rest)) = rest.split_first() else { return HeaderStep::Short };
        if descriptor & 0b0001_1000 != 0 {
            return HeaderStep::Fault { offset: 4, kind: FrameFault::ReservedHeaderBit };
        }
        FrameHeader::parse_fields(descriptor, rest).map_or(HeaderStep::Short, HeaderStep::Whole)
    }

    /// The fields that the descriptor announces, `None` if they are not all there.
    fn parse_fields(descriptor: u8, bytes: &[u8]) -> Option<FrameHeader> {
        let is_single_segment = descriptor & 0b0010_0000 != 0;
        let window_length = usize::from(!is_single_segment);
        let dictionary_length = [0, 1, 2, 4][usize::from(descriptor & 0b11)];
        let content_length = match descriptor >> 6 {
            0 => usize::from(is_single_segment),
            code => 1 << code,
        };
        let (window, rest) = bytes.split_at_checked(window_length)?;
        let (dictionary, rest) = rest.split_at_checked(dictionary_length)?;
        let (content, _) = rest.split_at_checked(content_length)?;
        let content_size = match content_length {
            0 => None,
            // A two-byte size counts from 256: smaller ones have the one-byte form.
            2 => Some(little_endian(content) + 256),
            _ => Some(little_endian(content)),
        };
        let window_bytes = window.first().map_or(content_size.unwrap_or(0), |byte| window_of(*byte));
        Some(FrameHeader {
            header_bytes: FRAME_MAGIC.len() + 1 + window_length + dictionary_length + content_length,
            window_bytes,
            content_size,
            has_checksum: descriptor & 0b0000_0100 != 0,
            // INVARIANT: at most four bytes.
            dictionary_id: little_endian(dictionary) as u32,
        })
    }

    /// The most plaintext that one block of this frame may hold.
    pub(super) fn block_bytes_max(&self) -> u64 {
        self.window_bytes.min(BLOCK_BYTES_MAX)
    }

    fn into_info(self, start: u64, end: u64) -> FrameInfo {
        FrameInfo {
            start,
            end,
            window_bytes: self.window_bytes,
            content_size: self.content_size,
            has_checksum: self.has_checksum,
            dictionary_id: self.dictionary_id,
        }
    }
}

/// The window of a window byte: five bits of exponent, three of eighths.
fn window_of(byte: u8) -> u64 {
    let base = 1_u64 << (10 + (byte >> 3));
    base + base / 8 * u64::from(byte & 0b111)
}

/// At most eight bytes as a number.
fn little_endian(bytes: &[u8]) -> u64 {
    bytes.iter().rev().fold(0, |number, byte| number << 8 | u64::from(*byte))
}

/// The type of a block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum BlockKind {
    Raw,
    Repeated,
    Compressed,
}

/// A block header.
#[derive(Clone, Copy, Debug)]
pub(super) struct BlockHeader {
    pub(super) is_last: bool,
    pub(super) kind: BlockKind,
    /// The plaintext's length for raw and repeated blocks, the body's for compressed ones.
    pub(super) size: u64,
}

impl BlockHeader {
    pub(super) const BYTES: u64 = BLOCK_HEADER_BYTES as u64;

    /// Reads a block header; `None` for the reserved type.
    pub(super) fn parse(bytes: [u8; BLOCK_HEADER_BYTES]) -> Option<BlockHeader> {
        let field = little_endian(&bytes);
        let kind = match field >> 1 & 0b11 {
            0 => BlockKind::Raw,
            1 => BlockKind::Repeated,
            2 => BlockKind::Compressed,
            _ => return None,
        };
        Some(BlockHeader { is_last: field & 1 != 0, kind, size: field >> 3 })
    }

    /// How many bytes follow the header.
    pub(super) fn body_bytes(self) -> u64 {
        if self.kind == BlockKind::Repeated { 1 } else { self.size }
    }
}

/// Looks at the frame that begins at `start`, by its headers alone (`format.md` 4.3).
///
/// Bodies are not read, so a frame of any size costs a few bytes per block. Zero bytes from the end of a complete
/// frame to the end of the file are a torn tail (`design.md` 5); at offset 0 they are no log at all.
///
/// ```
/// use dsh_session_core::format::frames::{FileWindow, FrameEncoder, FrameStep, scan_frame};
/// let mut file = Vec::new();
/// FrameEncoder::new().encode(b"{}\n", &mut file).unwrap();
/// let file = file.as_slice();
/// let mut window = FileWindow::new(&file, file.len() as u64);
/// let FrameStep::Complete(frame) = scan_frame(&mut window, 0).unwrap() else { panic!() };
/// assert_eq!(frame.end, file.len() as u64);
/// assert_eq!(scan_frame(&mut window, frame.end).unwrap(), FrameStep::End);
/// ```
///
/// # Errors
/// Those of reading.
pub fn scan_frame(window: &mut FileWindow<impl ReadAt>, start: u64) -> io::Result<FrameStep> {
    if start >= window.end() {
        return Ok(FrameStep::End);
    }
    // The first block header is asked for with the frame's, so that a small frame is one request.
    let bytes = window.bytes(start, FRAME_HEADER_BYTES_MAX + BLOCK_HEADER_BYTES)?;
    // A write of which the first bytes reached the disk, zeros the rest: of the magic none to three.
    let magic_bytes = bytes.iter().zip(&FRAME_MAGIC).take_while(|(found, magic)| found == magic).count();
    let goes_on_with_zeros = bytes[magic_bytes..].iter().take(FRAME_MAGIC.len()).all(|byte| *byte == 0);
    match FrameHeader::parse(bytes) {
        HeaderStep::Short => Ok(FrameStep::Torn { start }),
        HeaderStep::Fault { offset, kind } => {
            let is_unwritten = start > 0 && magic_bytes < FRAME_MAGIC.len() && goes_on_with_zeros;
            if is_unwritten && is_zero_to_the_end(window, start + magic_bytes as u64)? {
                return Ok(FrameStep::Torn { start });
            }
            Ok(FrameStep::Fault { at: start + offset, kind })
        }
        HeaderStep::Whole(header) => scan_blocks(window, start, header),
    }
}

/// Steps over the blocks and the checksum of the frame at `start`.
fn scan_blocks(
    window: &mut FileWindow<impl ReadAt>,
    start: u64,
    header: FrameHeader,
) -> io::Result<FrameStep> {
    let mut position = start + header.header_bytes as u64;
    loop {
        let bytes = window.bytes(position, BLOCK_HEADER_BYTES)?;
        let Some(bytes) = bytes.first_chunk::<BLOCK_HEADER_BYTES>() else {
            return Ok(FrameStep::Torn { start });
        };
        let Some(block) = BlockHeader::parse(*bytes) else {
            return Ok(FrameStep::Fault { at: position, kind: FrameFault::ReservedBlockType });
        };
        position += BlockHeader::BYTES + block.body_bytes();
        if block.is_last {
            position += if header.has_checksum { CHECKSUM_BYTES } else { 0 };
        }
        if position > window.end() {
            return Ok(FrameStep::Torn { start });
        }
        if block.is_last {
            return Ok(FrameStep::Complete(header.into_info(start, position)));
        }
    }
}

/// Whether there is nothing but 0x00 from `start` on. Stops at the first other byte; memory is one piece.
fn is_zero_to_the_end(window: &mut FileWindow<impl ReadAt>, start: u64) -> io::Result<bool> {
    let mut position = start;
    loop {
        let piece = window.bytes(position, READ_PIECE_BYTES)?;
        if piece.is_empty() {
            return Ok(true);
        }
        if piece.iter().any(|byte| *byte != 0) {
            return Ok(false);
        }
        position += piece.len() as u64;
    }
}

/// Scans bytes in memory: up to `frames_max` complete frames, and where a torn rest begins.
///
/// # Errors
/// The first fault and its offset; frames before it are not given.
pub fn scan_frames(
    bytes: &[u8],
    frames_max: usize,
) -> Result<(Vec<FrameInfo>, Option<u64>), (FrameFault, u64)> {
    let mut window = FileWindow::new(&bytes, bytes.len() as u64);
    let mut frames = Vec::new();
    let mut position = 0;
    while frames.len() < frames_max {
        // Reading memory does not fail; if it could, what was not read would be a torn rest.
        match scan_frame(&mut window, position).unwrap_or(FrameStep::Torn { start: position }) {
            FrameStep::End => break,
            FrameStep::Complete(frame) => {
                position = frame.end;
                frames.push(frame);
            }
            FrameStep::Torn { start } => return Ok((frames, Some(start))),
            FrameStep::Fault { at, kind } => return Err((kind, at)),
        }
    }
    Ok((frames, None))
}
