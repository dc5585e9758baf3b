//! Decoding a complete frame in one call: the path of every frame that fits the caller's buffer.

use std::error;
use std::fmt;
use std::io::Cursor;

use zstd::zstd_safe::{self, DCtx, zstd_sys::ZSTD_ErrorCode};

use super::WINDOW_BYTES_MAX;
use super::scan::{BlockHeader, BlockKind, FrameHeader, FrameInfo, HeaderStep};

/// Why a complete frame does not decode (`format.md` 4.4).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DecodeFault {
    /// Its window is larger than [`WINDOW_BYTES_MAX`].
    Window {
        /// The window, in bytes.
        window_bytes: u64,
    },
    /// It was written with a dictionary, and none is ever supplied.
    Dictionary {
        /// The dictionary's number.
        id: u32,
    },
    /// The plaintext does not match the checksum.
    Checksum,
    /// The frame is damaged in another way, in the words of libzstd.
    Damaged(&'static str),
    /// There was no memory for the plaintext or the window. The frame may be whole.
    Memory,
}

impl fmt::Display for DecodeFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            DecodeFault::Window { window_bytes } => {
                write!(f, "the frame needs a window of {window_bytes} bytes, more than {WINDOW_BYTES_MAX}")
            }
            DecodeFault::Dictionary { id } => write!(f, "the frame was written with dictionary {id}"),
            DecodeFault::Checksum => f.write_str("the frame's text does not match its checksum"),
            DecodeFault::Damaged(what) => write!(f, "the frame is damaged: {what}"),
            DecodeFault::Memory => f.write_str("there is no memory to decode the frame"),
        }
    }
}

impl error::Error for DecodeFault {}

impl DecodeFault {
    pub(super) fn of_code(code: zstd_safe::ErrorCode) -> DecodeFault {
        if is_code(code, ZSTD_ErrorCode::ZSTD_error_checksum_wrong) {
            DecodeFault::Checksum
        } else if is_code(code, ZSTD_ErrorCode::ZSTD_error_memory_allocation) {
            DecodeFault::Memory
        } else {
            DecodeFault::Damaged(zstd_safe::get_error_name(code))
        }
    }

    /// The limits that hold before anything is decoded.
    pub(super) fn of_header(window_bytes: u64, dictionary_id: u32) -> Option<DecodeFault> {
        if dictionary_id != 0 {
            Some(DecodeFault::Dictionary { id: dictionary_id })
        } else if window_bytes > WINDOW_BYTES_MAX {
            Some(DecodeFault::Window { window_bytes })
        } else {
            None
        }
    }
}

/// libzstd gives an error as its number, negated and wrapped.
fn is_code(code: zstd_safe::ErrorCode, error: ZSTD_ErrorCode) -> bool {
    code == (error as usize).wrapping_neg()
}

/// What became of a frame that is not damaged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Decoded {
    /// All of its plaintext, so many bytes, was appended; the checksum, if there is one, holds.
    Whole(usize),
    /// The plaintext is, or claims to be, longer than the caller takes at once, or only the streaming decoder tells whether the frame is
    /// whole; nothing was appended. A [`FrameStream`](super::FrameStream) gives it piece by piece.
    TooLong,
}

/// Decodes complete frames, one call each, with one context that is kept.
pub struct FrameDecoder {
    /// Made when it is first needed, so that making a decoder cannot fail.
    context: Option<DCtx<'static>>,
}

impl Default for FrameDecoder {
    fn default() -> Self {
        FrameDecoder::new()
    }
}

impl fmt::Debug for FrameDecoder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("FrameDecoder").finish_non_exhaustive()
    }
}

impl FrameDecoder {
    /// A decoder.
    #[must_use]
    pub fn new() -> Self {
        FrameDecoder { context: None }
    }

    /// Appends the plaintext of a complete frame to `text`. `frame` holds the bytes `info.start..info.end`.
    ///
    /// libzstd writes straight into the spare capacity of `text`, so nothing is copied or zeroed. What the frame
    /// says about its size is never trusted for more than `text_bytes_max` bytes. On a fault, and for
    /// [`Decoded::TooLong`], `text` is what it was.
    ///
    /// ```
    /// use dsh_session_core::format::frames::{Decoded, FrameDecoder, FrameEncoder, scan_frames};
    /// let mut frame = Vec::new();
    /// FrameEncoder::new().encode(b"{\"a\":1}\n", &mut frame).unwrap();
    /// let (frames, _) = scan_frames(&frame, 1).unwrap();
    /// let mut text = Vec::new();
    /// let decoded = FrameDecoder::new().decode(&frame, &frames[0], &mut text, 1 << 20);
    /// assert_eq!(decoded, Ok(Decoded::Whole(8)));
    /// assert_eq!(text, b"{\"a\":1}\n");
    /// ```
    ///
    /// # Errors
    /// [`DecodeFault`].
    pub fn decode(
        &mut self,
        frame: &[u8],
        info: &FrameInfo,
        text: &mut Vec<u8>,
        text_bytes_max: usize,
    ) -> Result<Decoded, DecodeFault> {
        if let Some(fault) = DecodeFault::of_header(info.window_bytes, info.dictionary_id) {
            return Err(fault);
        }
        if info.frame_bytes() != frame.len() as u64 {
            return Err(DecodeFault::Damaged("the frame's bytes are not all there"));
        }
        let Some(bound) = text_bound(frame)? else { return Ok(Decoded::TooLong) };
        if info.content_size.is_some_and(|size| size > text_bytes_max as u64) {
            return Ok(Decoded::TooLong);
        }
        let room = usize::try_from(bound).unwrap_or(usize::MAX).min(text_bytes_max);
        text.try_reserve(room).map_err(|_| DecodeFault::Memory)?;
        let context = match &mut self.context {
            Some(context) => context,
            none => none.insert(DCtx::try_create().ok_or(DecodeFault::Memory)?),
        };
        let length_before = text.len();
        let mut spare = Cursor::new(&mut *text);
        spare.set_position(length_before as u64);
        match context.decompress(&mut spare, frame) {
            Ok(length) if length <= text_bytes_max => Ok(Decoded::Whole(length)),
            // The capacity of a Vec may be more than was asked for.
            Ok(_) => {
                text.truncate(length_before);
                Ok(Decoded::TooLong)
            }
            Err(code)
                if is_code(code, ZSTD_ErrorCode::ZSTD_error_dstSize_tooSmall) && bound > room as u64 =>
            {
                Ok(Decoded::TooLong)
            }
            Err(code) => Err(DecodeFault::of_code(code)),
        }
    }
}

/// The most plaintext a complete frame can give: its content size, or else what its blocks may hold.
///
/// The sizes of blocks are checked on the way, because libzstd checks them in streaming only, and one frame must
/// not be whole for one path and damaged for the other. `None` for a compressed block without any bytes, which is nothing in streaming and
/// damage in one call.
fn text_bound(frame: &[u8]) -> Result<Option<u64>, DecodeFault> {
    const CUT: DecodeFault = DecodeFault::Damaged("the frame is not complete");
    let HeaderStep::Whole(header) = FrameHeader::parse(frame) else { return Err(CUT) };
    let block_bytes_max = header.block_bytes_max();
    let mut rest = frame.get(header.header_bytes..).ok_or(CUT)?;
    let mut bound = 0_u64;
    loop {
        let (bytes, after) = rest.split_first_chunk().ok_or(CUT)?;
        let block = BlockHeader::parse(*bytes).ok_or(CUT)?;
        if block.size > block_bytes_max {
            return Err(DecodeFault::Damaged("a block is larger than its frame allows"));
        }
        if block.kind == BlockKind::Compressed && block.size == 0 {
            return Ok(None);
        }
        bound += if block.kind == BlockKind::Compressed { block_bytes_max } else { block.size };
        let body_bytes = usize::try_from(block.body_bytes()).map_err(|_| CUT)?;
        rest = after.get(body_bytes..).ok_or(CUT)?;
        if block.is_last {
            return Ok(Some(header.content_size.map_or(bound, |size| size.min(bound))));
        }
    }
}
