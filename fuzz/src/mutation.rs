//! Small changes of an input, for the ordinary tests: no feedback from coverage, but the same inputs for the same seed.

use dsh_session_core::storage::simulation::SplitMix64;

/// Inputs longer than this are cut: the tests look for odd shapes, not for size.
pub const INPUT_BYTES_MAX: usize = 16 * 1024;

/// Bytes that mean something to one of the formats.
const TELLING: [&[u8]; 14] = [
    b"\n",
    b"\0\0\0\0",
    &[0x28, 0xb5, 0x2f, 0xfd],
    b"\x1e",
    b"\"",
    b"{",
    b"}",
    b"[[[[",
    b"\\ud83d",
    b"\xef\xbb\xbf",
    b"1e400",
    b"9007199254740993",
    b"-0",
    b"\"type\":\"turn/end\"",
];

/// `input` after one to four changes; a piece of `other` may be put into it.
#[must_use]
pub fn mutated(input: &[u8], other: &[u8], random: &mut SplitMix64) -> Vec<u8> {
    let mut bytes = input.get(..INPUT_BYTES_MAX).unwrap_or(input).to_vec();
    for _ in 0..=random.below(4) {
        change(&mut bytes, other, random);
    }
    bytes.truncate(INPUT_BYTES_MAX);
    bytes
}

fn change(bytes: &mut Vec<u8>, other: &[u8], random: &mut SplitMix64) {
    let at = random.below(bytes.len() as u64 + 1) as usize;
    let end = (at + random.below(32) as usize).min(bytes.len());
    match random.below(8) {
        0 => bytes.truncate(at),
        1 => drop(bytes.drain(at..end)),
        2 => {
            let copy = bytes[at..end].to_vec();
            bytes.splice(at..at, copy);
        }
        3 => {
            let from = random.below(other.len() as u64 + 1) as usize;
            let piece = &other[from..(from + random.below(64) as usize).min(other.len())];
            bytes.splice(at..end, piece.iter().copied());
        }
        4 => {
            let telling = random.choose(&TELLING).copied().unwrap_or_default();
            bytes.splice(at..at, telling.iter().copied());
        }
        5 => bytes[at..end].fill(0),
        _ => {
            if let Some(byte) = bytes.get_mut(at) {
                *byte ^= 1 << random.below(8);
            }
        }
    }
}
