//! Zstandard frames (`format.md` 4.2 to 4.4): finding them without decoding, decoding them, writing them.
//!
//! A compressed log is a plain concatenation of frames, one per durable batch. [`scan_frame`] steps from one frame
//! to the next by headers alone; [`FrameDecoder`] decodes a frame that fits memory in one call, [`FrameStream`] any
//! other in bounded memory, torn ones included; [`FrameEncoder`] writes one. [`last_frames_start`] and
//! [`frame_start_near`] find frames without walking to them from the start of the file.

mod decode;
mod encode;
mod scan;
mod stream;
mod tail;

pub use super::window::{FileWindow, ReadAt};
pub use decode::{DecodeFault, Decoded, FrameDecoder};
pub use encode::{EncodeFault, FrameEncoder};
pub use scan::{FrameFault, FrameInfo, FrameStep, scan_frame, scan_frames};
pub use stream::{FrameStream, ends_in_cleared_checksum, ends_in_zeros};
pub(crate) use tail::hidden_frame;
pub use tail::{TailFrames, frame_start_near, last_frames_start, peek_text};

/// The four bytes with which every frame begins.
pub const FRAME_MAGIC: [u8; 4] = [0x28, 0xb5, 0x2f, 0xfd];

/// The largest window that is decoded, in bytes (`format.md` 4.4); a single-segment frame's window is its content.
pub const WINDOW_BYTES_MAX: u64 = 1 << WINDOW_LOG_MAX;

/// The compression level of written frames (`format.md` 4.2).
pub const COMPRESSION_LEVEL: i32 = 3;

/// [`WINDOW_BYTES_MAX`] as libzstd takes it.
const WINDOW_LOG_MAX: u32 = 27;

/// The most plaintext one block can hold, in bytes, where the window is not smaller: a constant of Zstandard.
const BLOCK_BYTES_MAX: u64 = 128 * 1024;
