//! The content of a file as shared pieces, so that a copy costs nothing and a changed copy little.
//!
//! A crash campaign holds a million disks that differ in a few bytes. Content is therefore a list of pieces, each a
//! range of a shared buffer or of zeros; copies share the list until one of them changes, and the buffers for ever.

use std::ops::Range;
use std::sync::Arc;

/// Bytes, cheap to copy, to cut and to put together.
#[derive(Clone, Debug, Default)]
pub(super) struct Content {
    pieces: Arc<Vec<Piece>>,
    size: u64,
}

#[derive(Clone, Debug)]
struct Piece {
    /// Where the piece ends in the content. Pieces are in order, without gaps, never empty.
    end: u64,
    /// Where it begins.
    begin: u64,
    source: Source,
}

#[derive(Clone, Debug)]
enum Source {
    Zeros,
    /// The bytes from this place of the buffer on.
    Bytes(Arc<[u8]>, usize),
}

impl Content {
    pub(super) fn size(&self) -> u64 {
        self.size
    }

    /// Copies into `buffer` from `offset`; the count is smaller than asked only at the end.
    pub(super) fn read_at(&self, buffer: &mut [u8], offset: u64) -> usize {
        let mut filled = 0;
        let first = self.pieces.partition_point(|piece| piece.end <= offset);
        for piece in self.pieces.get(first..).unwrap_or_default() {
            let skipped = (offset + filled as u64).saturating_sub(piece.begin) as usize;
            let available = (piece.end - piece.begin) as usize - skipped;
            let count = available.min(buffer.len() - filled);
            let Some(target) = buffer.get_mut(filled..filled + count) else { break };
            match &piece.source {
                Source::Zeros => target.fill(0),
                Source::Bytes(bytes, from) => {
                    let Some(bytes) = bytes.get(from + skipped..from + skipped + count) else { break };
                    target.copy_from_slice(bytes);
                }
            }
            filled += count;
            if filled == buffer.len() {
                break;
            }
        }
        filled
    }

    /// Everything, as one buffer.
    #[cfg(test)]
    pub(super) fn to_vec(&self) -> Vec<u8> {
        let mut bytes = vec![0; self.size as usize];
        assert_eq!(self.read_at(&mut bytes, 0), bytes.len());
        bytes
    }

    pub(super) fn append(&mut self, bytes: Arc<[u8]>) {
        let length = bytes.len() as u64;
        self.push(length, Source::Bytes(bytes, 0));
    }

    pub(super) fn append_zeros(&mut self, length: u64) {
        self.push(length, Source::Zeros);
    }

    /// Appends the part of `other` that lies in `range`; what lies behind its end is left out.
    pub(super) fn append_part(&mut self, other: &Content, range: Range<u64>) {
        let first = other.pieces.partition_point(|piece| piece.end <= range.start);
        for piece in other.pieces.get(first..).unwrap_or_default() {
            let begin = piece.begin.max(range.start);
            let end = piece.end.min(range.end);
            if begin >= end {
                break;
            }
            let source = match &piece.source {
                Source::Zeros => Source::Zeros,
                Source::Bytes(bytes, from) => {
                    Source::Bytes(Arc::clone(bytes), from + (begin - piece.begin) as usize)
                }
            };
            self.push(end - begin, source);
        }
    }

    /// The first `size` bytes; zeros behind the end if there are fewer, as `ftruncate` does.
    pub(super) fn truncate(&mut self, size: u64) {
        if size >= self.size {
            self.append_zeros(size - self.size);
            return;
        }
        let pieces = Arc::make_mut(&mut self.pieces);
        pieces.truncate(pieces.partition_point(|piece| piece.begin < size));
        if let Some(last) = pieces.last_mut() {
            last.end = size;
        }
        self.size = size;
    }

    /// A copy in which the bytes of `range` are zeros.
    pub(super) fn with_zeros(&self, range: Range<u64>) -> Content {
        let range = range.start.min(self.size)..range.end.min(self.size);
        let mut content = self.clone();
        content.truncate(range.start);
        content.append_zeros(range.end.saturating_sub(range.start));
        content.append_part(self, range.end..self.size);
        content
    }

    fn push(&mut self, length: u64, source: Source) {
        if length > 0 {
            let begin = self.size;
            self.size += length;
            Arc::make_mut(&mut self.pieces).push(Piece { begin, end: self.size, source });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::SplitMix64;
    use super::*;

    #[test]
    fn content_behaves_like_a_vector_of_bytes() {
        for seed in 0..300 {
            let mut random = SplitMix64::new(seed);
            let (mut content, mut plain) = (Content::default(), Vec::new());
            for step in 0..30_u8 {
                let place = random.below(plain.len() as u64 + 1);
                let old = (content.clone(), plain.clone());
                match random.below(5) {
                    0 | 1 => {
                        let bytes = vec![step + 1; random.below(9) as usize];
                        content.append(bytes.clone().into());
                        plain.extend(bytes);
                    }
                    2 => {
                        content.truncate(place + random.below(3));
                        plain.resize(content.size() as usize, 0);
                    }
                    3 => {
                        let end = place + random.below(6);
                        content = content.with_zeros(place..end);
                        plain.iter_mut().take(end as usize).skip(place as usize).for_each(|byte| *byte = 0);
                    }
                    _ => {
                        content.append_part(&old.0, place..place + 5);
                        plain.extend(old.1.iter().skip(place as usize).take(5));
                    }
                }
                assert_eq!(old.0.to_vec(), old.1, "a copy changed, seed {seed}");
                assert_eq!(content.to_vec(), plain, "seed {seed} step {step}");
                let mut part = [9; 4];
                let count = content.read_at(&mut part, place);
                assert_eq!(part[..count], plain[(place as usize).min(plain.len())..][..count], "seed {seed}");
            }
        }
    }
}
