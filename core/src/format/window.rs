//! Bounded, buffered looks into a file: the one way in which this room reads bytes.
//!
//! A log may be larger than memory, so nothing here holds a whole file. [`ReadAt`] is the smallest thing a reader
//! needs (a file of the `storage` room, or bytes in memory), and [`FileWindow`] adds one reusable buffer that reads
//! ahead where requests follow each other, and reads little where they jump.

use std::fmt;
use std::io;
use std::sync::Arc;

use crate::storage::StorageFile;

/// How much is read at once where requests follow each other, in bytes.
///
/// 256 KiB: beyond this size a larger read no longer costs less per byte, and a buffer of this size still fits a
/// processor's second-level cache, so that what has just been read is decoded from there.
pub(crate) const READ_PIECE_BYTES: usize = 256 * 1024;

/// How much is read at once after a jump, in bytes: one page, since the next request may jump again.
const JUMP_PIECE_BYTES: usize = 4 * 1024;

/// A request that begins at most this many bytes after the end of the one before it still counts as following it.
const JUMP_GAP_BYTES: u64 = 16 * 1024;

/// Something that can be read at any offset, by several threads at once.
pub trait ReadAt: Send + Sync {
    /// Reads into `buffer` from the byte `offset`; 0 at the end; may give less than asked.
    ///
    /// # Errors
    /// The system's own.
    fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<usize>;
}

impl ReadAt for dyn StorageFile {
    fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
        StorageFile::read_at(self, buffer, offset)
    }
}

impl ReadAt for Arc<dyn StorageFile> {
    fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
        StorageFile::read_at(self.as_ref(), buffer, offset)
    }
}

impl ReadAt for [u8] {
    fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
        let rest = usize::try_from(offset).ok().and_then(|offset| self.get(offset..)).unwrap_or_default();
        let count = rest.len().min(buffer.len());
        buffer[..count].copy_from_slice(&rest[..count]);
        Ok(count)
    }
}

/// So that a reference to something unsized (`&[u8]`, `&dyn StorageFile`) can itself stand as `&dyn ReadAt`.
impl<T: ReadAt + ?Sized> ReadAt for &T {
    fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
        (**self).read_at(buffer, offset)
    }
}

/// Reads until `buffer` is full or the source ends; gives the number of bytes read.
pub(crate) fn read_full_at(source: &dyn ReadAt, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
    read_at_least(source, buffer, offset, buffer.len())
}

/// Reads into `buffer` until at least `wanted` bytes are there or the source ends.
fn read_at_least(source: &dyn ReadAt, buffer: &mut [u8], offset: u64, wanted: usize) -> io::Result<usize> {
    let mut filled = 0;
    while filled < wanted {
        match source.read_at(&mut buffer[filled..], offset + filled as u64) {
            Ok(0) => break,
            Ok(count) => filled += count,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(filled)
}

/// A buffered view of the bytes `0..end` of a source.
///
/// `end` is fixed when the window is made, so that a reader sees one length of a file that another process is
/// extending.
pub struct FileWindow<S> {
    source: S,
    end: u64,
    /// Only `buffer[..filled]` is meaningful; the rest is kept so that it is not zeroed again for each read.
    buffer: Vec<u8>,
    filled: usize,
    buffer_start: u64,
    /// The end of the request before, from which a jump is measured. The buffer's end would not do: a walk in steps
    /// of half a piece would always seem to follow it, and read everything it steps over.
    request_end: u64,
    next_piece_bytes: usize,
    work_bytes: u64,
}

impl<S: ReadAt> FileWindow<S> {
    /// A window over the bytes of `source` before `end`; nothing is read yet.
    #[must_use]
    pub fn new(source: S, end: u64) -> Self {
        FileWindow::with_first_piece(source, end, READ_PIECE_BYTES)
    }

    /// As [`new`](Self::new), where little is wanted: the first read takes `piece_bytes`, later ones grow from there.
    #[must_use]
    pub fn with_first_piece(source: S, end: u64, piece_bytes: usize) -> Self {
        FileWindow {
            source,
            end,
            buffer: Vec::new(),
            filled: 0,
            buffer_start: 0,
            request_end: 0,
            next_piece_bytes: piece_bytes,
            work_bytes: 0,
        }
    }

    /// What this window has done so far: bytes read from the source, and bytes given to requests.
    pub(crate) fn work_bytes(&self) -> u64 {
        self.work_bytes
    }

    /// The offset at which the view ends.
    #[must_use]
    pub fn end(&self) -> u64 {
        self.end
    }

    /// The source behind the window.
    #[must_use]
    pub fn source(&self) -> &S {
        &self.source
    }

    /// Up to `length` bytes from `offset`; fewer only at the end of the view or of the source.
    ///
    /// # Errors
    /// The system's own; `OutOfMemory` if a request of this length cannot be held.
    pub fn bytes(&mut self, offset: u64, length: usize) -> io::Result<&[u8]> {
        let available = self.end.saturating_sub(offset);
        let length = usize::try_from(available).unwrap_or(usize::MAX).min(length);
        if length == 0 {
            return Ok(&[]);
        }
        if self.position_of(offset).is_none_or(|at| self.filled - at < length) {
            self.fill(offset, length, available)?;
        }
        self.request_end = offset + length as u64;
        let at = self.position_of(offset).unwrap_or(self.filled);
        let until = self.filled.min(at + length);
        self.work_bytes += (until - at) as u64;
        Ok(&self.buffer[at..until])
    }

    /// Where in the buffer `offset` stands; the place just after the last byte counts as inside.
    fn position_of(&self, offset: u64) -> Option<usize> {
        let at = usize::try_from(offset.checked_sub(self.buffer_start)?).ok()?;
        (at <= self.filled).then_some(at)
    }

    /// Makes the buffer begin at `offset`, keeping what it already has of it, and hold at least `length` bytes.
    fn fill(&mut self, offset: u64, length: usize, available: u64) -> io::Result<()> {
        self.next_piece_bytes = self.piece_bytes(offset);
        let kept = match self.position_of(offset) {
            Some(at) => {
                self.buffer.copy_within(at..self.filled, 0);
                self.filled - at
            }
            None => 0,
        };
        self.buffer_start = offset;
        self.filled = kept;
        let wanted = length.max(self.next_piece_bytes);
        let wanted = usize::try_from(available).unwrap_or(usize::MAX).min(wanted);
        if self.buffer.len() < wanted {
            self.buffer
                .try_reserve_exact(wanted - self.buffer.len())
                .map_err(|_| io::ErrorKind::OutOfMemory)?;
            self.buffer.resize(wanted, 0);
        }
        // INVARIANT: kept < length <= wanted <= buffer.len(), since `fill` is only called where too little is there.
        let room = &mut self.buffer[kept..wanted];
        let read = read_at_least(&self.source, room, offset + kept as u64, length - kept)?;
        self.filled += read;
        self.work_bytes += read as u64;
        Ok(())
    }

    /// The size of the next read: growing while requests follow each other, one page after a jump, so that a walk
    /// over the headers of large frames does not read their bodies.
    fn piece_bytes(&self, offset: u64) -> usize {
        let follows =
            offset >= self.buffer_start && offset.saturating_sub(self.request_end) <= JUMP_GAP_BYTES;
        let is_first = self.buffer.is_empty();
        if is_first {
            self.next_piece_bytes
        } else if follows {
            (self.next_piece_bytes * 4).min(READ_PIECE_BYTES)
        } else {
            JUMP_PIECE_BYTES
        }
    }
}

impl<S> fmt::Debug for FileWindow<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let buffered = self.buffer_start..self.buffer_start + self.filled as u64;
        f.debug_struct("FileWindow")
            .field("end", &self.end)
            .field("buffered", &buffered)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::{FileWindow, READ_PIECE_BYTES, ReadAt};
    use std::io;
    use std::sync::atomic::{AtomicUsize, Ordering};

    /// Bytes that count what is read of them and give at most `step` at a time.
    struct Counted {
        bytes: Vec<u8>,
        step: usize,
        read: AtomicUsize,
    }

    impl Counted {
        fn new(length: usize, step: usize) -> Self {
            let bytes = (0..length).map(|i| (i % 251) as u8).collect();
            Counted { bytes, step, read: AtomicUsize::new(0) }
        }
    }

    impl ReadAt for Counted {
        fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
            let step = self.step.min(buffer.len());
            let count = self.bytes[..].read_at(&mut buffer[..step], offset)?;
            self.read.fetch_add(count, Ordering::Relaxed);
            Ok(count)
        }
    }

    #[test]
    fn every_request_gives_the_bytes_of_the_file_short_only_at_the_end() {
        let source = Counted::new(3 * READ_PIECE_BYTES + 17, 10_000);
        let end = source.bytes.len() as u64 - 5;
        let mut window = FileWindow::new(&source, end);
        let offsets = [0, 1, 300_000, 299_990, 5, 786_000, 700_000, 786_449, end - 1, end, end + 9, 0];
        for offset in offsets {
            for length in [0, 1, 3, 4096, READ_PIECE_BYTES, 2 * READ_PIECE_BYTES + 1] {
                let from = offset.min(end) as usize;
                let until = (from + length).min(end as usize);
                assert_eq!(
                    window.bytes(offset, length).unwrap(),
                    &source.bytes[from..until],
                    "{offset} {length}"
                );
            }
        }
    }

    #[test]
    fn a_source_that_is_shorter_than_the_view_gives_what_it_has() {
        let source: &[u8] = b"abc";
        let mut window = FileWindow::new(&source, 10);
        assert_eq!(window.bytes(1, 9).unwrap(), b"bc");
        assert_eq!(window.bytes(5, 2).unwrap(), b"");
    }

    #[test]
    fn a_sequential_reader_reads_each_byte_once_and_a_jumping_one_skips_what_it_passes() {
        let length = 40 * READ_PIECE_BYTES;
        let sequential = Counted::new(length, usize::MAX);
        let mut window = FileWindow::new(&sequential, length as u64);
        for offset in (0..length as u64).step_by(700) {
            window.bytes(offset, 21).unwrap();
        }
        assert!(sequential.read.load(Ordering::Relaxed) <= length);

        let jumping = Counted::new(length, usize::MAX);
        let mut window = FileWindow::new(&jumping, length as u64);
        for offset in (0..length as u64).step_by(128 * 1024 + 3) {
            window.bytes(offset, 3).unwrap();
        }
        assert!(jumping.read.load(Ordering::Relaxed) < length / 10, "{:?}", jumping.read);
    }
}
