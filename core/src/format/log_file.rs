//! From an open file to a log that can be read: the header, and where the rows begin (`format.md` 2).

use super::frames::{Decoded, FrameDecoder, FrameStep, scan_frame};
use super::header::{self, DecodedHeader, HeaderFault};
use super::names::Encoding;
use super::reader::{LogSource, ReadLimits, Trust};
use super::window::FileWindow;
use crate::error::{At, Code, Error, Result};
use crate::event::Vocabulary;
use crate::storage::{FileMetadata, StorageFile};
use std::cell::RefCell;
use std::io;
use std::sync::Arc;

/// The piece in which a header is read: nearly every header fits into one.
const HEADER_PIECE_BYTES: usize = 8192;

thread_local! {
    /// A context costs more to make than a header to decode, and a listing decodes thousands.
    static HEADER_DECODER: RefCell<FrameDecoder> = RefCell::new(FrameDecoder::new());
}

/// The rule of an error about a header with `sandboxMode` or `approvalPolicy` (`format.md` 2.4).
pub(crate) const RETIRED_FIELD: &str = "RETIRED_FIELD";

/// A file whose header was read.
#[derive(Clone, Debug)]
pub(crate) struct OpenedLog {
    pub(crate) source: LogSource,
    pub(crate) header: DecodedHeader,
    pub(crate) metadata: FileMetadata,
}

/// Reads the header of a generation. `version` is that of the file's name; rows will be judged by `vocabulary`.
///
/// # Errors
/// `SESSION_CORRUPT` or `FORMAT_UNSUPPORTED` by `format.md` 2.4, `LIMIT_EXCEEDED`, `IO`; without path and session.
pub(crate) fn open_log(
    file: Arc<dyn StorageFile>,
    version: u64,
    encoding: Encoding,
    limits: ReadLimits,
    vocabulary: &Vocabulary,
) -> Result<OpenedLog> {
    let metadata = file.metadata().map_err(|error| Error::io("look at the log", &error))?;
    let end = metadata.size;
    let (line, header_end) = match encoding {
        Encoding::None => raw_header_line(&file, end, &limits)?,
        Encoding::Zstd => framed_header_line(&file, end, &limits)?,
    };
    let header = header::decode_line(&line, version).map_err(header_error)?;
    let trust = Trust::Unjudged { header: Arc::new(header.header.clone()), vocabulary: vocabulary.clone() };
    Ok(OpenedLog { source: LogSource { file, encoding, header_end, end, limits, trust }, header, metadata })
}

fn at_header(error: Error) -> Error {
    error.with_at(At::Header).with_line(1).with_salvageable(0)
}

fn header_corrupt(what: impl Into<String>) -> Error {
    at_header(Error::new(Code::SessionCorrupt, what))
}

fn io_error(error: &io::Error) -> Error {
    Error::io("read the header", error)
}

fn too_long(limits: &ReadLimits) -> Error {
    let message = format!("the header is longer than {} bytes", limits.header_bytes_max);
    at_header(Error::new(Code::LimitExceeded, message).with_limit("header_bytes_max"))
}

fn raw_header_line(file: &Arc<dyn StorageFile>, end: u64, limits: &ReadLimits) -> Result<(Vec<u8>, u64)> {
    let mut bytes = Vec::new();
    loop {
        let from = bytes.len();
        bytes.resize(from + HEADER_PIECE_BYTES, 0);
        let read = file.read_at(&mut bytes[from..], from as u64).map_err(|error| io_error(&error))?;
        bytes.truncate(from + read);
        if let Some(newline) = memchr::memchr(b'\n', &bytes[from..]) {
            let line_end = from + newline;
            if line_end as u64 > limits.header_bytes_max {
                return Err(too_long(limits));
            }
            bytes.truncate(line_end);
            return Ok((bytes, line_end as u64 + 1));
        }
        if bytes.len() as u64 > limits.header_bytes_max {
            return Err(too_long(limits));
        }
        if read == 0 {
            let what = if end == 0 { "the file is empty" } else { "the header line has no end" };
            return Err(header_corrupt(what));
        }
    }
}

fn framed_header_line(file: &Arc<dyn StorageFile>, end: u64, limits: &ReadLimits) -> Result<(Vec<u8>, u64)> {
    let mut window = FileWindow::with_first_piece(Arc::clone(file), end, HEADER_PIECE_BYTES);
    let frame = match scan_frame(&mut window, 0).map_err(|error| io_error(&error))? {
        FrameStep::Complete(frame) => frame,
        FrameStep::End => return Err(header_corrupt("the file is empty")),
        FrameStep::Torn { .. } => return Err(header_corrupt("the header frame is unfinished")),
        FrameStep::Fault { at, kind } => {
            return Err(header_corrupt(kind.to_string()).with_frame(0).with_offset(at));
        }
    };
    let length = usize::try_from(frame.end).unwrap_or(usize::MAX);
    // zstd never makes a frame that is much larger than its text.
    if length as u64 > 2 * limits.header_bytes_max {
        return Err(too_long(limits));
    }
    let limit = usize::try_from(limits.header_bytes_max).unwrap_or(usize::MAX);
    let bytes = window.bytes(0, length).map_err(|error| io_error(&error))?;
    let mut text = Vec::new();
    let decoded = HEADER_DECODER.with_borrow_mut(|decoder| decoder.decode(bytes, &frame, &mut text, limit));
    match decoded {
        Ok(Decoded::Whole(_)) => {}
        Ok(Decoded::TooLong) => return Err(too_long(limits)),
        Err(_) => {
            return Err(
                header_corrupt("the header frame does not decode or fails its checksum").with_frame(0)
            );
        }
    }
    if memchr::memchr(b'\n', &text) != text.len().checked_sub(1) {
        return Err(first_frame_error(&text));
    }
    text.pop();
    Ok((text, frame.end))
}

/// The first frame must be exactly one line; the message says how other files come about.
fn first_frame_error(text: &[u8]) -> Error {
    let what = match memchr::memchr(b'\n', text) {
        None if text.is_empty() => "the first frame is empty: it should hold the header line",
        None => "the first frame has no newline: the header line must end in its own frame",
        Some(_) if text.starts_with(b"{\"type\":\"session\"") => {
            "the first frame holds more than the header line: the log was probably compressed as a whole by another tool"
        }
        Some(_) => "the first frame is not the header line: the log has probably lost its first frame",
    };
    Error::new(Code::SessionCorrupt, what)
        .with_at(At::FirstFrame)
        .with_frame(0)
        .with_offset(0)
        .with_salvageable(0)
}

fn header_error(fault: HeaderFault) -> Error {
    let message = fault.to_string();
    match fault {
        HeaderFault::Version { text, .. } => {
            at_header(Error::new(Code::FormatUnsupported, message).with_version(text))
        }
        HeaderFault::Retired { .. } => header_corrupt(message).with_rule(RETIRED_FIELD),
        _ => header_corrupt(message),
    }
}
