//! Decoding a frame piece by piece: frames larger than memory, and the torn last one of a log.

use std::fmt;
use std::io;

use zstd::zstd_safe::{DCtx, DParameter, InBuffer, OutBuffer, ResetDirective};

use super::super::window::{ReadAt, read_full_at};
use super::WINDOW_LOG_MAX;
use super::decode::DecodeFault;
use super::encode::FrameEncoder;
use super::scan::{FRAME_HEADER_BYTES_MAX, FrameHeader, HeaderStep};

/// How much of a frame is read at once, and how much plaintext a first pass holds at once, in bytes: a whole block
/// and a little more, so that libzstd rarely has to join two pieces.
const PIECE_BYTES: usize = 160 * 1024;

/// How many zero bytes at the end of a frame that does not decode show that its end never reached the disk.
const ZERO_TAIL_BYTES_MIN: usize = 4;

/// The plaintext of one frame in bounded memory: two pieces and the frame's window.
///
/// [`check`](Self::check) decodes everything once to see whether it holds, [`read`](Self::read) then gives it from
/// the start. A torn frame gives what libzstd's streaming decoder gives (`format.md` 4.4): every complete block and
/// the bytes that are there of an unfinished raw one; nothing at all if the decoder reports an error anywhere.
pub struct FrameStream<S> {
    source: S,
    start: u64,
    end: u64,
    is_torn: bool,
    /// What the first pass found; reading goes no further than this.
    checked: Option<Result<u64, DecodeFault>>,
    given: u64,
    pass: Pass,
}

/// One run of the decoder over the frame.
#[derive(Default)]
struct Pass {
    context: Option<DCtx<'static>>,
    input: Vec<u8>,
    input_filled: usize,
    input_taken: usize,
    /// The next offset to read, or `None` before the start of a pass.
    position: Option<u64>,
    is_over: bool,
}

impl<S> fmt::Debug for FrameStream<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("FrameStream")
            .field("start", &self.start)
            .field("end", &self.end)
            .field("is_torn", &self.is_torn)
            .field("checked", &self.checked)
            .field("given", &self.given)
            .finish_non_exhaustive()
    }
}

impl<S: ReadAt> FrameStream<S> {
    /// The frame in the bytes `start..end` of `source`: complete, or, if `is_torn`, the unfinished last one.
    #[must_use]
    pub fn new(source: S, start: u64, end: u64, is_torn: bool) -> Self {
        FrameStream { source, start, end, is_torn, checked: None, given: 0, pass: Pass::default() }
    }

    /// Decodes everything once, discarding it, and gives the plaintext's length in bytes.
    ///
    /// A torn frame whose decoder reports an error counts as empty. Reading starts again from the beginning.
    ///
    /// # Errors
    /// The outer ones are those of reading the source, the inner ones those of the frame; of a torn frame only
    /// [`DecodeFault::Memory`].
    pub fn check(&mut self) -> io::Result<Result<u64, DecodeFault>> {
        self.given = 0;
        self.pass.restart(self.start);
        let outcome = match self.run_through()? {
            Err(fault) if self.is_torn && fault != DecodeFault::Memory => Ok(0),
            outcome => outcome,
        };
        self.checked = Some(outcome);
        self.pass.restart(self.start);
        Ok(outcome)
    }

    /// Appends up to `bytes_max` bytes of plaintext to `out` and gives their number: 0 at the end, or if
    /// `bytes_max` is 0.
    ///
    /// Runs [`check`](Self::check) first if it has not been, so nothing of a damaged frame is ever given.
    ///
    /// # Errors
    /// Those of reading the source; `InvalidData` with the [`DecodeFault`] inside for a frame that does not hold, or
    /// whose bytes changed since the check.
    pub fn read(&mut self, out: &mut Vec<u8>, bytes_max: usize) -> io::Result<usize> {
        let checked = match self.checked {
            Some(checked) => checked,
            None => self.check()?,
        };
        let text_bytes = checked.map_err(invalid_data)?;
        let rest = usize::try_from(text_bytes - self.given).unwrap_or(usize::MAX);
        let wanted = rest.min(bytes_max);
        if wanted == 0 {
            return Ok(0);
        }
        let length_before = out.len();
        out.try_reserve(wanted).map_err(|_| io::ErrorKind::OutOfMemory)?;
        out.resize(length_before + wanted, 0);
        let filled = self.pass.fill(&self.source, self.end, self.is_torn, &mut out[length_before..]);
        let count = match filled {
            Ok(Ok(count)) if count == wanted => count,
            failed => {
                out.truncate(length_before);
                let changed = DecodeFault::Damaged("it changed while it was being read");
                return Err(
                    failed.map_or_else(|error| error, |inner| invalid_data(inner.err().unwrap_or(changed)))
                );
            }
        };
        self.given += count as u64;
        Ok(count)
    }

    /// Appends up to `bytes_max` bytes of plaintext without a first pass: what stands at the beginning of a frame, unchecked.
    ///
    /// # Errors
    /// Those of reading the source.
    pub(super) fn peek(&mut self, out: &mut Vec<u8>, bytes_max: usize) -> io::Result<()> {
        self.pass.restart(self.start);
        let mut text = vec![0; bytes_max.min(PIECE_BYTES)];
        if let Ok(count) = self.pass.fill(&self.source, self.end, self.is_torn, &mut text)? {
            out.extend_from_slice(text.get(..count).unwrap_or_default());
        }
        Ok(())
    }

    /// Appends everything that decodes before the frame ends or fails, unchecked: what a cut of the frame would destroy.
    ///
    /// # Errors
    /// Those of reading the source.
    pub fn salvage(&mut self, out: &mut Vec<u8>) -> io::Result<()> {
        self.pass.restart(self.start);
        let mut text = vec![0; PIECE_BYTES];
        loop {
            let at_end = self.pass.refill(&self.source, self.end)?;
            let Ok((written, hint)) = self.pass.decode(&mut text) else { return Ok(()) };
            out.extend_from_slice(text.get(..written).unwrap_or_default());
            let is_consumed = at_end && self.pass.input_taken == self.pass.input_filled;
            if hint == 0 || (is_consumed && written < text.len()) {
                return Ok(());
            }
        }
    }

    /// The first pass.
    fn run_through(&mut self) -> io::Result<Result<u64, DecodeFault>> {
        let content_size = match self.check_header()? {
            Ok(content_size) => content_size,
            Err(fault) => return Ok(Err(fault)),
        };
        let mut text = vec![0; PIECE_BYTES];
        let mut text_bytes = 0;
        loop {
            match self.pass.fill(&self.source, self.end, self.is_torn, &mut text)? {
                Err(fault) => return Ok(Err(fault)),
                Ok(0) => break,
                Ok(count) => text_bytes += count as u64,
            }
        }
        // libzstd's streaming decoder does not compare the sizes where the last block is empty.
        if !self.is_torn && content_size.is_some_and(|size| size != text_bytes) {
            return Ok(Err(DecodeFault::Damaged("the text is not as long as the header says")));
        }
        Ok(Ok(text_bytes))
    }

    /// What can be told from the header alone: the limits, and the content size if it is given.
    fn check_header(&self) -> io::Result<Result<Option<u64>, DecodeFault>> {
        let mut bytes = [0; FRAME_HEADER_BYTES_MAX];
        let available = usize::try_from(self.end.saturating_sub(self.start)).unwrap_or(usize::MAX);
        let length =
            read_full_at(&self.source, &mut bytes[..available.min(FRAME_HEADER_BYTES_MAX)], self.start)?;
        Ok(match FrameHeader::parse(&bytes[..length]) {
            HeaderStep::Whole(header) => {
                match DecodeFault::of_header(header.window_bytes, header.dictionary_id) {
                    Some(fault) => Err(fault),
                    None => Ok(header.content_size),
                }
            }
            HeaderStep::Short if self.is_torn => Ok(None),
            HeaderStep::Short => Err(DecodeFault::Damaged("the frame header is cut")),
            HeaderStep::Fault { kind, .. } => Err(DecodeFault::Damaged(kind.as_str())),
        })
    }
}

impl Pass {
    fn restart(&mut self, start: u64) {
        self.position = Some(start);
        (self.input_filled, self.input_taken, self.is_over) = (0, 0, false);
        if let Some(context) = &mut self.context {
            // A reset of the session alone cannot fail; if it did, decoding would, and say so.
            let _ = context.reset(ResetDirective::SessionOnly);
        }
    }

    /// Decodes into `text` until it is full or the frame is over; gives the number of bytes.
    fn fill(
        &mut self,
        source: &dyn ReadAt,
        end: u64,
        is_torn: bool,
        text: &mut [u8],
    ) -> io::Result<Result<usize, DecodeFault>> {
        let mut filled = 0;
        while filled < text.len() && !self.is_over {
            let at_end = self.refill(source, end)?;
            let (written, hint) = match self.decode(&mut text[filled..]) {
                Ok(progress) => progress,
                Err(fault) => return Ok(Err(fault)),
            };
            filled += written;
            let is_consumed = at_end && self.input_taken == self.input_filled;
            if hint == 0 {
                self.is_over = true;
                if !is_torn && !is_consumed {
                    return Ok(Err(DecodeFault::Damaged("the frame ends before its bytes do")));
                }
            } else if is_consumed && filled < text.len() {
                // No input is left and the output is not full: libzstd has given all it can.
                self.is_over = true;
                if !is_torn {
                    return Ok(Err(DecodeFault::Damaged("the frame's bytes end before it does")));
                }
            }
        }
        Ok(Ok(filled))
    }

    /// Reads the next piece if the last one is used up; tells whether the source has nothing after it.
    fn refill(&mut self, source: &dyn ReadAt, end: u64) -> io::Result<bool> {
        let position = self.position.unwrap_or(end);
        if self.input_taken < self.input_filled {
            return Ok(position >= end);
        }
        self.input.resize(PIECE_BYTES, 0);
        let available = usize::try_from(end.saturating_sub(position)).unwrap_or(usize::MAX);
        let count = read_full_at(source, &mut self.input[..available.min(PIECE_BYTES)], position)?;
        (self.input_filled, self.input_taken) = (count, 0);
        let next = position + count as u64;
        // A source that is shorter than promised ends where it ends.
        let next = if count == 0 { end } else { next };
        self.position = Some(next);
        Ok(next >= end)
    }

    /// One call of the decoder: the bytes written, and libzstd's hint, which is 0 at the end of the frame.
    fn decode(&mut self, text: &mut [u8]) -> Result<(usize, usize), DecodeFault> {
        let context = match &mut self.context {
            Some(context) => context,
            none => none.insert(new_context()?),
        };
        let mut input = InBuffer::around(&self.input[self.input_taken..self.input_filled]);
        let mut output = OutBuffer::around(text);
        let hint = context.decompress_stream(&mut output, &mut input).map_err(DecodeFault::of_code)?;
        self.input_taken += input.pos();
        Ok((output.pos(), hint))
    }
}

fn new_context() -> Result<DCtx<'static>, DecodeFault> {
    let mut context = DCtx::try_create().ok_or(DecodeFault::Memory)?;
    // libzstd's own default is one byte more.
    context.set_parameter(DParameter::WindowLogMax(WINDOW_LOG_MAX)).map_err(DecodeFault::of_code)?;
    Ok(context)
}

fn invalid_data(fault: DecodeFault) -> io::Error {
    match fault {
        DecodeFault::Memory => io::ErrorKind::OutOfMemory.into(),
        fault => io::Error::new(io::ErrorKind::InvalidData, fault),
    }
}

/// Whether the bytes before `end` end in four or more 0x00.
///
/// A last frame (not the header's) that fails to decode and ends so is a torn tail of which nothing is taken
/// (`design.md` 5): its length reached the disk, its last bytes did not. Whether the frame is the last, is not the
/// header's and does not decode is the caller's to know.
///
/// # Errors
/// Those of reading.
pub fn ends_in_zeros(source: &dyn ReadAt, end: u64) -> io::Result<bool> {
    let Some(start) = end.checked_sub(ZERO_TAIL_BYTES_MIN as u64) else { return Ok(false) };
    let mut bytes = [0xff; ZERO_TAIL_BYTES_MIN];
    let count = read_full_at(source, &mut bytes, start)?;
    Ok(count == bytes.len() && bytes == [0; ZERO_TAIL_BYTES_MIN])
}

/// Whether the frame in the bytes `start..end` is whole but for its checksum, of which the last one to three bytes are 0x00 and the
/// others right: the block that held them never reached the disk. Four are a matter of [`ends_in_zeros`].
///
/// The text is compressed again for the sake of its checksum: this is asked of a damaged last frame only.
///
/// # Errors
/// Those of reading.
pub fn ends_in_cleared_checksum(source: &dyn ReadAt, start: u64, end: u64) -> io::Result<bool> {
    const CHECKSUM_BYTES: usize = 4;
    let text_end = end.saturating_sub(CHECKSUM_BYTES as u64);
    let mut stored = [0; CHECKSUM_BYTES];
    if text_end <= start || read_full_at(source, &mut stored, text_end)? < CHECKSUM_BYTES {
        return Ok(false);
    }
    let kept = CHECKSUM_BYTES - stored.iter().rev().take_while(|byte| **byte == 0).count();
    let mut text = Vec::new();
    if kept == 0 || kept == CHECKSUM_BYTES {
        return Ok(false);
    }
    FrameStream::new(source, start, text_end, true).salvage(&mut text)?;
    let mut again = Vec::new();
    let is_encoded = !text.is_empty() && FrameEncoder::new().encode(&text, &mut again).is_ok();
    let checksum = again.last_chunk::<CHECKSUM_BYTES>();
    Ok(is_encoded && checksum.is_some_and(|checksum| checksum[..kept] == stored[..kept]))
}
