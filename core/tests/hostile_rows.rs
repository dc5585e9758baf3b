//! What tolerant reading costs on files made to deceive: places that look like frames, each of which leads a long way to nowhere.

mod durability;

use dsh_session_core::format::frames::FrameEncoder;
use dsh_session_core::format::raw_rows::RawRow;
use dsh_session_core::persistence::files::{FilePersistence, FileSettings};
use dsh_session_core::storage::Storage;
use dsh_session_core::storage::simulation::MemoryStorage;
use dsh_session_core::{Encoding, SessionPersistence};
use durability::{go_on, header, note};
use std::sync::Arc;

const ID: &str = "s";

/// Magic, a descriptor, a window of 1 KiB.
fn false_header(descriptor: u8) -> [u8; 6] {
    [0x28, 0xb5, 0x2f, 0xfd, descriptor, 0]
}

/// A raw block's header.
fn raw_block(bytes: usize, is_last: bool) -> [u8; 3] {
    let field = u32::try_from(bytes).unwrap() << 3 | u32::from(is_last);
    let [one, two, three, _] = field.to_le_bytes();
    [one, two, three]
}

fn frame(text: &str) -> Vec<u8> {
    let mut frame = Vec::new();
    FrameEncoder::new().encode(text.as_bytes(), &mut frame).unwrap();
    frame
}

fn row_frame(seq: u64) -> Vec<u8> {
    frame(&format!("{}\n", note(seq, 1).row()))
}

/// What a log is made of, and what reading its rows gives and costs.
struct Reading {
    rows: Vec<RawRow>,
    file_bytes: u64,
    bytes_read: u64,
}

impl Reading {
    /// Reads a log of one event that goes on with these bytes.
    fn of(rest: &[u8]) -> Reading {
        let memory = MemoryStorage::new(1);
        let settings = FileSettings { encoding: Some(Encoding::Zstd), ..FileSettings::default() };
        let storage: Arc<dyn Storage> = Arc::new(memory.clone());
        let backend = FilePersistence::with_storage("/sessions", storage, settings).unwrap();
        let log = backend.create(&header(ID), None, &go_on()).unwrap();
        log.append(&[note(0, 1)], &go_on()).unwrap();
        log.close().unwrap();
        let path = backend.stat(ID, &go_on()).unwrap().unwrap().path.unwrap();
        let bytes = [memory.read_file(&path).unwrap(), rest.to_vec()].concat();
        memory.write_file(&path, &bytes).unwrap();
        let raw = backend.raw_log(ID, &go_on()).unwrap().unwrap();
        let before = memory.bytes_read();
        let rows = raw.rows(&go_on()).collect::<Result<Vec<_>, _>>().unwrap();
        Reading { rows, file_bytes: bytes.len() as u64, bytes_read: memory.bytes_read() - before }
    }

    fn seqs(&self) -> Vec<u64> {
        self.rows.iter().filter(|row| row.is_event).filter_map(|row| row.seq).collect()
    }

    fn reads_per_byte(&self) -> u64 {
        self.bytes_read / self.file_bytes
    }
}

/// False headers, each of which leads by one block into zeros: a chain of empty blocks that ends nowhere.
fn into_zeros(length: usize) -> Vec<u8> {
    let mut bytes = vec![0xff];
    let zeros = length / 2;
    while bytes.len() + 9 < zeros {
        bytes.extend(false_header(0));
        let jump = zeros - (bytes.len() + 3);
        bytes.extend(raw_block(jump, false));
    }
    bytes.resize(length, 0);
    bytes
}

/// False headers, each of which leads into a chain of whole blocks with a wrong checksum at its end.
fn into_a_wrong_checksum(length: usize) -> Vec<u8> {
    let mut bytes = vec![0xff];
    let chain = length / 2;
    // From the block of one header to that of another, as far as a block of such a window may reach.
    let block = 111 * 9 + 6;
    while bytes.len() + 9 < chain {
        bytes.extend(false_header(4));
        let jump = (chain - (bytes.len() + 3)).min(block);
        bytes.extend(raw_block(jump, false));
    }
    bytes.resize(chain, b'x');
    while bytes.len() + block < length {
        bytes.extend(raw_block(block, false));
        bytes.resize(bytes.len() + block, b'x');
    }
    bytes.extend(raw_block(0, true));
    bytes.extend(*b"none");
    bytes
}

/// False headers that lead into zeros, and a whole frame after each.
fn between_whole_frames(length: usize) -> Vec<u8> {
    let mut bytes = Vec::new();
    let zeros = length / 2;
    let mut seq = 1;
    while bytes.len() + 1000 < zeros {
        bytes.extend(false_header(0));
        let jump = zeros - (bytes.len() + 3);
        bytes.extend(raw_block(jump, false));
        bytes.extend(row_frame(seq));
        seq += 1;
    }
    bytes.resize(length, 0);
    bytes
}

/// How often the bytes of a hostile file may be read: its length 16 times in vain, 16 MiB that are free, and a few times for what is found.
const READS_PER_BYTE_MAX: u64 = 16 + (16 << 20) / HOSTILE_BYTES as u64 + 4;

const HOSTILE_BYTES: usize = 4 << 20;

#[test]
fn a_file_made_to_deceive_is_read_as_often_as_it_is_long_and_no_more() {
    for (name, make) in [
        ("zeros", into_zeros as fn(usize) -> Vec<u8>),
        ("a wrong checksum", into_a_wrong_checksum),
        ("between whole frames", between_whole_frames),
    ] {
        for length in [HOSTILE_BYTES, 2 * HOSTILE_BYTES] {
            let reading = Reading::of(&make(length));
            let reads = reading.reads_per_byte();
            assert!(reads <= READS_PER_BYTE_MAX, "{name}, {length} bytes: {reads} reads of each byte");
            assert_eq!(reading.seqs()[0], 0, "{name}: what comes before the damage is read");
            let last = reading.rows.last().unwrap().problem.as_deref().unwrap_or_default();
            assert!(last.ends_with("what follows is not searched for rows"), "{name}: {last}");
        }
    }
}

#[test]
fn a_row_behind_many_false_frames_is_found() {
    for make in [into_zeros as fn(usize) -> Vec<u8>, into_a_wrong_checksum] {
        // About 450 places that look like frames, each with a walk of thousands of bytes.
        let mut bytes = make(8 << 10);
        bytes.extend(row_frame(7));
        assert_eq!(Reading::of(&bytes).seqs(), [0, 7]);
    }
}

#[test]
fn rows_between_thousands_of_damaged_frames_are_all_found() {
    let mut bytes = Vec::new();
    for seq in 1..=20_000 {
        let mut frame = row_frame(seq);
        if seq % 2 == 0 {
            // Its checksum is wrong now.
            *frame.last_mut().unwrap() ^= 1;
        }
        bytes.extend(frame);
    }
    let reading = Reading::of(&bytes);
    let expected: Vec<u64> = [0].into_iter().chain((1..=20_000).filter(|seq| seq % 2 == 1)).collect();
    assert_eq!(reading.seqs(), expected);
    assert!(reading.reads_per_byte() <= 3, "{}", reading.reads_per_byte());
}
