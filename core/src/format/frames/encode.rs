//! Writing one frame: level 3, a checksum, and the content's size in the header (`format.md` 4.2).

use std::error;
use std::fmt;
use std::io::Cursor;

use zstd::zstd_safe::{self, CCtx, CParameter};

use super::COMPRESSION_LEVEL;

/// Why a frame could not be made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EncodeFault {
    /// There was no memory for the frame or the encoder.
    Memory,
    /// libzstd refused, in its words. Not expected.
    Refused(&'static str),
}

impl fmt::Display for EncodeFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            EncodeFault::Memory => f.write_str("there is no memory to compress the batch"),
            EncodeFault::Refused(what) => write!(f, "the batch could not be compressed: {what}"),
        }
    }
}

impl error::Error for EncodeFault {}

/// Encodes batches, one frame each, with one context that is kept.
pub struct FrameEncoder {
    /// Made when it is first needed, so that making an encoder cannot fail.
    context: Option<CCtx<'static>>,
}

impl Default for FrameEncoder {
    fn default() -> Self {
        FrameEncoder::new()
    }
}

impl fmt::Debug for FrameEncoder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("FrameEncoder").finish_non_exhaustive()
    }
}

impl FrameEncoder {
    /// An encoder.
    #[must_use]
    pub fn new() -> Self {
        FrameEncoder { context: None }
    }

    /// Appends one frame that holds `text` to `out`, which on a fault is what it was.
    ///
    /// # Errors
    /// [`EncodeFault`]; only lack of memory is expected.
    pub fn encode(&mut self, text: &[u8], out: &mut Vec<u8>) -> Result<(), EncodeFault> {
        out.try_reserve(zstd_safe::compress_bound(text.len())).map_err(|_| EncodeFault::Memory)?;
        let context = match &mut self.context {
            Some(context) => context,
            none => none.insert(new_context()?),
        };
        let length_before = out.len() as u64;
        let mut spare = Cursor::new(out);
        spare.set_position(length_before);
        context.compress2(&mut spare, text).map_err(refused)?;
        Ok(())
    }
}

fn new_context() -> Result<CCtx<'static>, EncodeFault> {
    let mut context = CCtx::try_create().ok_or(EncodeFault::Memory)?;
    context.set_parameter(CParameter::CompressionLevel(COMPRESSION_LEVEL)).map_err(refused)?;
    context.set_parameter(CParameter::ChecksumFlag(true)).map_err(refused)?;
    Ok(context)
}

fn refused(code: zstd_safe::ErrorCode) -> EncodeFault {
    EncodeFault::Refused(zstd_safe::get_error_name(code))
}
