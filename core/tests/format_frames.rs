//! Frames (`format.md` 4.2 to 4.4) against the vectors, and properties that hold for every file of frames.

use std::io;
use std::path::Path;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use dsh_session_core::format::frames::{
    DecodeFault, Decoded, FRAME_MAGIC, FileWindow, FrameDecoder, FrameEncoder, FrameFault, FrameInfo,
    FrameStep, FrameStream, ReadAt, TailFrames, ends_in_zeros, frame_start_near, last_frames_start,
    scan_frame, scan_frames,
};
use proptest::prelude::*;
use serde_json::{Value, json};

fn vectors(name: &str) -> Vec<Value> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../tests/vectors").join(name);
    let vectors: Value = serde_json::from_str(&std::fs::read_to_string(path).unwrap()).unwrap();
    vectors["cases"].as_array().unwrap().clone()
}

fn bytes_of(case: &Value) -> Vec<u8> {
    let hex = case["hex"].as_str().unwrap();
    (0..hex.len()).step_by(2).map(|at| u8::from_str_radix(&hex[at..at + 2], 16).unwrap()).collect()
}

fn encode(text: &[u8]) -> Vec<u8> {
    let mut frame = Vec::new();
    FrameEncoder::new().encode(text, &mut frame).unwrap();
    frame
}

/// A frame of raw blocks, so that its bytes hold the text as it is. A checksum is only announced: it is zero.
fn raw_frame(text: &[u8], block_bytes: usize, has_checksum: bool) -> Vec<u8> {
    let mut frame = FRAME_MAGIC.to_vec();
    frame.extend([if has_checksum { 4 } else { 0 }, 0x58]);
    let mut blocks = text.chunks(block_bytes).peekable();
    if blocks.peek().is_none() {
        frame.extend([1, 0, 0]);
    }
    while let Some(block) = blocks.next() {
        let header = (block.len() as u32) << 3 | u32::from(blocks.peek().is_none());
        frame.extend(&header.to_le_bytes()[..3]);
        frame.extend(block);
    }
    if has_checksum {
        frame.extend([0; 4]);
    }
    frame
}

fn decode_whole(
    file: &[u8],
    info: &FrameInfo,
    text_bytes_max: usize,
) -> Result<Option<Vec<u8>>, DecodeFault> {
    let mut text = b"kept".to_vec();
    let frame = &file[info.start as usize..info.end as usize];
    match FrameDecoder::new().decode(frame, info, &mut text, text_bytes_max) {
        Ok(Decoded::Whole(length)) => {
            assert!(text.starts_with(b"kept") && text.len() == 4 + length);
            Ok(Some(text.split_off(4)))
        }
        other => {
            assert_eq!(text, b"kept", "a frame that was not taken left something");
            other.map(|_| None)
        }
    }
}

fn decode_streaming(
    file: &[u8],
    start: u64,
    end: u64,
    is_torn: bool,
    piece: usize,
) -> Result<Vec<u8>, DecodeFault> {
    let mut stream = FrameStream::new(&file, start, end, is_torn);
    let mut text = Vec::new();
    let length = stream.check().unwrap()?;
    stream.read(&mut text, piece).unwrap();
    assert_eq!(stream.check().unwrap(), Ok(length), "a second check gives the same and starts again");
    text.clear();
    while stream.read(&mut text, piece).unwrap() > 0 {}
    assert_eq!(text.len() as u64, length);
    Ok(text)
}

#[test]
fn scanning_matches_the_vectors() {
    for case in vectors("format-frame-scan.json") {
        let frames_max = case["max_frames"].as_u64().map_or(usize::MAX, |count| count as usize);
        let found = match scan_frames(&bytes_of(&case), frames_max) {
            Ok((frames, torn_start)) => {
                let frames: Vec<_> = frames.iter().map(|frame| [frame.start, frame.end]).collect();
                json!({"frames": frames, "torn_start": torn_start})
            }
            Err((kind, at)) => json!({"error": kind.as_str(), "at": at}),
        };
        assert_eq!(found, case["expect"], "{}", case["name"]);
    }
}

#[test]
fn decoding_matches_the_vectors() {
    for case in vectors("format-frame-decode.json") {
        let file = bytes_of(&case);
        let (frames, torn_start) = scan_frames(&file, usize::MAX).unwrap();
        assert_eq!(case["torn_start"].as_u64(), torn_start, "{case}");
        let expected = case["complete"].as_array().unwrap();
        assert_eq!(frames.len(), expected.len(), "{case}");
        for (frame, expected) in frames.iter().zip(expected) {
            let whole = decode_whole(&file, frame, 1 << 20);
            let streamed = decode_streaming(&file, frame.start, frame.end, false, 3);
            match expected["text"].as_str() {
                Some(text) => {
                    assert_eq!(whole, Ok(Some(text.as_bytes().to_vec())), "{case}");
                    assert_eq!(streamed, Ok(text.as_bytes().to_vec()), "{case}");
                }
                None => assert!(whole.is_err() && streamed.is_err(), "{case}"),
            }
        }
        if let Some(start) = torn_start {
            let text = decode_streaming(&file, start, file.len() as u64, true, 3).unwrap();
            assert_eq!(text, case["torn_prefix"].as_str().unwrap().as_bytes(), "{case}");
        }
    }
}

#[test]
fn faults_are_named_alike_on_both_paths() {
    let fault_of = |name: &str| {
        let case = vectors("format-frame-decode.json").into_iter().find(|case| case["name"] == name).unwrap();
        let file = bytes_of(&case);
        let frame = scan_frames(&file, 1).unwrap().0.remove(0);
        let whole = decode_whole(&file, &frame, 1 << 20).unwrap_err();
        assert_eq!(decode_streaming(&file, 0, file.len() as u64, false, 9), Err(whole));
        whole
    };
    assert_eq!(fault_of("checksum mismatch in a complete frame"), DecodeFault::Checksum);
    assert_eq!(fault_of("dictionary id set"), DecodeFault::Dictionary { id: 7 });
    let window = DecodeFault::Window { window_bytes: 1 << 28 };
    assert_eq!(fault_of("window log 28 exceeds the decoder limit"), window);
}

#[test]
fn the_window_limit_holds_at_the_limit_and_one_past_it() {
    // A single segment, whose content size is its window: at the limit it fails only because its text is shorter.
    for (size, is_too_large) in [(1_u32 << 27, false), ((1 << 27) + 1, true)] {
        let mut file = FRAME_MAGIC.to_vec();
        file.push(0b1010_0000);
        file.extend(size.to_le_bytes());
        file.extend([0x11, 0, 0, b'x', b'\n']);
        let frame = scan_frames(&file, 1).unwrap().0.remove(0);
        assert_eq!(frame.window_bytes, u64::from(size));
        for fault in [
            decode_whole(&file, &frame, 1 << 28).unwrap_err(),
            decode_streaming(&file, 0, file.len() as u64, false, 9).unwrap_err(),
        ] {
            assert_eq!(matches!(fault, DecodeFault::Window { .. }), is_too_large, "{fault}");
        }
    }
}

#[test]
fn a_text_at_the_callers_limit_is_whole_and_one_past_it_is_too_long() {
    let text: Vec<u8> = (0..300_000_u32).flat_map(|number| (number / 7).to_le_bytes()).collect();
    for file in [encode(&text), raw_frame(&text, 100_000, false)] {
        let frame = scan_frames(&file, 1).unwrap().0.remove(0);
        assert_eq!(decode_whole(&file, &frame, text.len()), Ok(Some(text.clone())));
        assert_eq!(decode_whole(&file, &frame, text.len() - 1), Ok(None));
        assert_eq!(decode_whole(&file, &frame, 0), Ok(None));
        assert_eq!(decode_streaming(&file, 0, file.len() as u64, false, 70_000).as_ref(), Ok(&text));
    }
}

#[test]
fn a_block_that_is_larger_than_its_frame_allows_is_damage_on_both_paths() {
    // A repeated block of 200,000 bytes, and a raw one of 1,025 in a window of 1,024.
    let mut repeated = FRAME_MAGIC.to_vec();
    repeated.extend([0, 0x58]);
    repeated.extend(&(200_000_u32 << 3 | 0b011).to_le_bytes()[..3]);
    repeated.push(b'x');
    let mut raw = raw_frame(&[b'x'; 1025], 1025, false);
    raw[5] = 0;
    for file in [repeated, raw] {
        let frame = scan_frames(&file, 1).unwrap().0.remove(0);
        assert!(decode_whole(&file, &frame, 1 << 20).is_err());
        assert!(decode_streaming(&file, 0, file.len() as u64, false, 1 << 20).is_err());
    }
}

#[test]
fn zero_bytes_at_the_end_are_told() {
    for (bytes, expected) in
        [(&b"ab\0\0\0\0"[..], true), (b"ab\0\0\0", false), (b"\0\0\0\0", true), (b"\0\0\0", false)]
    {
        assert_eq!(ends_in_zeros(&bytes, bytes.len() as u64).unwrap(), expected, "{bytes:?}");
    }
}

#[test]
fn a_long_tail_of_zeros_is_torn_and_another_byte_at_its_end_makes_it_corrupt() {
    let mut file = encode(b"{}\n");
    let start = file.len() as u64;
    file.resize(file.len() + 700_000, 0);
    assert_eq!(scan_frames(&file, 9).unwrap().1, Some(start));
    *file.last_mut().unwrap() = 1;
    assert_eq!(scan_frames(&file, 9), Err((FrameFault::Magic, start)));
}

#[test]
fn a_frame_that_changes_between_check_and_read_is_an_error_and_gives_nothing() {
    struct Changing(Mutex<Vec<u8>>);
    impl ReadAt for Changing {
        fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
            self.0.lock().unwrap()[..].read_at(buffer, offset)
        }
    }
    let file = encode(b"some text\n");
    let end = file.len() as u64;
    let source = Changing(Mutex::new(file));
    let mut stream = FrameStream::new(&source, 0, end, false);
    assert_eq!(stream.check().unwrap(), Ok(10));
    source.0.lock().unwrap().truncate(8);
    let mut text = Vec::new();
    assert_eq!(stream.read(&mut text, 100).unwrap_err().kind(), io::ErrorKind::InvalidData);
    assert!(text.is_empty());
}

/// Plaintext of a frame: text that compresses, or bytes that do not, from empty to a few blocks.
fn plaintext() -> impl Strategy<Value = Vec<u8>> {
    prop_oneof![
        4 => proptest::collection::vec(any::<u8>(), 0..300),
        4 => ("[a-f\"{}:,]{1,40}", 1_usize..200).prop_map(|(text, count)| text.repeat(count).into_bytes()),
        1 => (any::<u64>(), 0_usize..400_000).prop_map(|(seed, length)| noise(seed, length)),
    ]
}

/// Bytes that do not compress.
fn noise(seed: u64, length: usize) -> Vec<u8> {
    let mut state = seed | 1;
    let step = |_| {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        (state >> 24) as u8
    };
    (0..length).map(step).collect()
}

/// A file of frames and their ends: some compressed, some raw with the magic strewn into them.
fn file_of_frames(counts: std::ops::Range<usize>) -> impl Strategy<Value = (Vec<u8>, Vec<u64>)> {
    let with_magic = |(mut text, has_checksum, seed): (Vec<u8>, bool, u64)| {
        for place in noise(seed, 9).chunks_exact(3) {
            let at = usize::from(place[0]) << 8 | usize::from(place[1]);
            let at = at.min(text.len());
            text.splice(at..at, FRAME_MAGIC);
        }
        raw_frame(&text, 90_000, has_checksum)
    };
    let frame = prop_oneof![
        3 => plaintext().prop_map(|text| encode(&text)),
        1 => (plaintext(), any::<bool>(), any::<u64>()).prop_map(with_magic),
    ];
    proptest::collection::vec(frame, counts).prop_map(|frames| {
        let (mut file, mut ends) = (Vec::new(), Vec::new());
        for frame in frames {
            file.extend(frame);
            ends.push(file.len() as u64);
        }
        (file, ends)
    })
}

fn ends_of(frames: &[FrameInfo]) -> Vec<u64> {
    frames.iter().map(|frame| frame.end).collect()
}

/// What a scan from `floor` to the end finds.
fn full_scan(file: &[u8], floor: u64) -> (Vec<FrameInfo>, Option<u64>) {
    let mut window = FileWindow::new(&file, file.len() as u64);
    let (mut frames, mut position) = (Vec::new(), floor);
    loop {
        match scan_frame(&mut window, position).unwrap() {
            FrameStep::End => return (frames, None),
            FrameStep::Complete(frame) => {
                position = frame.end;
                frames.push(frame);
            }
            FrameStep::Torn { start } => return (frames, Some(start)),
            FrameStep::Fault { at, kind } => panic!("{kind} at {at}"),
        }
    }
}

fn assert_tail_is_that_of_a_full_scan(file: &[u8], floor: u64, wanted: u64) -> TailFrames {
    let end = file.len() as u64;
    let (frames, torn_start) = full_scan(file, floor);
    let tail = last_frames_start(&file, end, floor, wanted).unwrap();
    assert_eq!(tail.torn_start, torn_start);
    assert_eq!(tail.fault, None);
    assert_eq!(tail.frames, frames[frames.len() - tail.frames.len()..]);
    assert_eq!(tail.frames.is_empty(), frames.is_empty());
    // No frame that begins within the wanted bytes is left out.
    let wanted_from = end.saturating_sub(wanted).max(floor);
    let first = tail.start().unwrap_or(end);
    assert!(frames.iter().all(|frame| frame.start < wanted_from || frame.start >= first));
    tail
}

/// Bytes that count how much of them is read.
struct Counted(Vec<u8>, AtomicUsize);

impl ReadAt for Counted {
    fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
        let count = self.0[..].read_at(buffer, offset)?;
        self.1.fetch_add(count, Ordering::Relaxed);
        Ok(count)
    }
}

#[test]
fn the_tail_of_a_long_file_is_found_by_reading_little_of_it() {
    let mut file = Vec::new();
    for number in 0..30_000_u64 {
        file.extend(raw_frame(&noise(number, 300), 300, false));
    }
    let end = file.len() as u64;
    let source = Counted(file, AtomicUsize::new(0));
    let tail = last_frames_start(&source, end, 309, 0).unwrap();
    assert!(!tail.is_from_floor && tail.frames.len() > 100);
    let near = frame_start_near(&source, end / 2 + 1, 309, end).unwrap();
    assert_eq!(near, Some(end / 2 + 309));
    assert!(source.1.load(Ordering::Relaxed) < source.0.len() / 8);
}

#[test]
fn huge_frames_are_passed_by_their_headers() {
    let mut file = encode(b"header\n");
    let floor = file.len() as u64;
    file.extend(raw_frame(&noise(3, 9_000_000), 128 * 1024, false));
    let tail = assert_tail_is_that_of_a_full_scan(&file, floor, 0);
    assert!(tail.is_from_floor && tail.start() == Some(floor));
    file.extend(encode(b"{}\n"));
    file.extend(&encode(&noise(4, 5_000_000))[..4_800_000]);
    assert_tail_is_that_of_a_full_scan(&file, floor, 0);
    assert_tail_is_that_of_a_full_scan(&file, floor, u64::MAX);
}

#[test]
fn damage_before_the_end_is_reported_where_the_scan_meets_it() {
    let mut file = encode(b"header\n");
    let floor = file.len() as u64;
    file.extend(encode(b"{}\n"));
    let damage = file.len() as u64;
    file.extend(b"not a frame");
    let tail = last_frames_start(&file.as_slice(), file.len() as u64, floor, 0).unwrap();
    assert_eq!(tail.fault, Some((FrameFault::Magic, damage)));
    assert_eq!(ends_of(&tail.frames), [damage]);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(96))]

    #[test]
    fn decoding_what_was_encoded_gives_the_text(text in plaintext()) {
        let file = encode(&text);
        let frame = scan_frames(&file, 2).unwrap().0.remove(0);
        prop_assert!(frame.has_checksum && frame.dictionary_id == 0 && frame.end == file.len() as u64);
        prop_assert_eq!(decode_whole(&file, &frame, 1 << 20), Ok(Some(text.clone())));
        prop_assert_eq!(decode_streaming(&file, 0, frame.end, false, 50_001), Ok(text));
    }

    #[test]
    fn scanning_finds_the_boundaries((file, ends) in file_of_frames(0..12)) {
        let (frames, torn_start) = scan_frames(&file, usize::MAX).unwrap();
        prop_assert_eq!(ends_of(&frames), ends);
        prop_assert_eq!(torn_start, None);
    }

    #[test]
    fn a_damaged_frame_is_the_same_for_both_paths(text in plaintext(), at: prop::sample::Index, bit in 0_u8..8) {
        let mut file = encode(&text);
        let at = at.index(file.len());
        file[at] ^= 1 << bit;
        if let Ok((frames, None)) = scan_frames(&file, 1) {
            let streamed = decode_streaming(&file, 0, frames[0].end, false, 9_999);
            match decode_whole(&file, &frames[0], 1 << 20) {
                // A content size beyond what the caller takes is only then known to be wrong.
                Ok(None) => prop_assert!(streamed.is_err()),
                Ok(Some(whole)) => prop_assert_eq!(streamed, Ok(whole)),
                Err(_) => prop_assert!(streamed.is_err()),
            }
        }
    }

    #[test]
    fn a_torn_frame_gives_a_beginning_of_its_text(text in plaintext(), at: prop::sample::Index) {
        let file = encode(&text);
        let cut = at.index(file.len());
        let prefix = decode_streaming(&file, 0, cut as u64, true, 4_000).unwrap();
        prop_assert!(text.starts_with(&prefix));
    }

    #[test]
    fn random_bytes_never_panic(bytes in proptest::collection::vec(any::<u8>(), 0..200), keep in 0_usize..8) {
        let mut file = [&FRAME_MAGIC[..], &[0x04, 0x58, 0x01]].concat()[..keep.min(7)].to_vec();
        file.extend(bytes);
        let end = file.len() as u64;
        if let Ok((frames, _)) = scan_frames(&file, usize::MAX) {
            for frame in frames {
                let _ = decode_whole(&file, &frame, 1 << 16);
                let _ = decode_streaming(&file, frame.start, frame.end, false, 4_000);
            }
        }
        let _ = decode_streaming(&file, 0, end, true, 4_000);
        last_frames_start(&file.as_slice(), end, 0, 0).unwrap();
        frame_start_near(&file.as_slice(), 1, 0, end).unwrap();
    }

    #[test]
    fn the_tail_agrees_with_a_full_scan(
        (file, ends) in file_of_frames(1..14),
        cut: prop::sample::Index,
        is_cut: bool,
        zeros in prop_oneof![Just(0_usize), 4_usize..5_000],
        wanted in prop_oneof![Just(0_u64), 1_u64..200_000, Just(u64::MAX)],
    ) {
        let mut file = file;
        if is_cut {
            let floor = ends[0] as usize;
            file.truncate(floor + cut.index(file.len() - floor + 1));
        } else {
            file.resize(file.len() + zeros, 0);
        }
        assert_tail_is_that_of_a_full_scan(&file, ends[0], wanted);
    }

    #[test]
    fn a_start_near_an_offset_is_the_next_boundary((file, ends) in file_of_frames(1..14), at: prop::sample::Index) {
        let position = at.index(file.len() + 1) as u64;
        let next = ends[..ends.len() - 1].iter().copied().filter(|start| *start >= position).min();
        prop_assert_eq!(frame_start_near(&file.as_slice(), position, ends[0], file.len() as u64).unwrap(), next);
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(12))]

    #[test]
    fn every_cut_gives_the_same_complete_frames_and_a_torn_start(
        texts in proptest::collection::vec(proptest::collection::vec(any::<u8>(), 0..60), 1..6),
    ) {
        let (mut file, mut ends) = (Vec::new(), Vec::new());
        for text in texts {
            file.extend(encode(&text));
            ends.push(file.len() as u64);
        }
        for cut in 0..=file.len() {
            let (frames, torn_start) = scan_frames(&file[..cut], usize::MAX).unwrap();
            let whole: Vec<u64> = ends.iter().copied().filter(|end| *end <= cut as u64).collect();
            let last = whole.last().copied().unwrap_or(0);
            prop_assert_eq!(ends_of(&frames), whole);
            prop_assert_eq!(torn_start, (last < cut as u64).then_some(last));
        }
    }
}

/// libzstd takes such a block for nothing in streaming, and for damage in one call.
#[test]
fn a_compressed_block_without_bytes_is_left_to_the_stream() {
    // Magic, descriptor, window; a compressed block of 0 bytes, the last one.
    let frame: &[u8] = &[0x28, 0xb5, 0x2f, 0xfd, 0x00, 0x00, 0x05, 0x00, 0x00];
    let (frames, torn) = scan_frames(frame, 2).unwrap();
    assert_eq!((frames.len(), torn), (1, None));
    let mut text = Vec::new();
    assert_eq!(FrameDecoder::new().decode(frame, &frames[0], &mut text, 1000), Ok(Decoded::TooLong));
    assert!(text.is_empty());
    let mut stream = FrameStream::new(frame, 0, frame.len() as u64, false);
    assert_eq!(stream.check().unwrap(), Ok(0));
}
