//! Compressed bytes as they may stand in a log.

use dsh_session_core::format::frames::{
    DecodeFault, Decoded, FrameDecoder, FrameEncoder, FrameInfo, FrameStream, ends_in_cleared_checksum,
    ends_in_zeros, frame_start_near, last_frames_start, peek_text, scan_frames,
};

/// Plaintext held at a time; longer frames are only streamed.
const TEXT_BYTES_MAX: usize = 1 << 20;

/// Scans, decodes in both ways and searches. What is found one way is found every way.
pub fn run(bytes: &[u8]) {
    let (frames, torn) = match scan_frames(bytes, usize::MAX) {
        Ok(found) => found,
        Err((_, at)) => {
            assert!(at < bytes.len() as u64);
            (Vec::new(), None)
        }
    };
    check_places(bytes, &frames, torn);
    for frame in &frames {
        check_decoders(bytes, frame);
    }
    if let Some(start) = torn {
        check_torn(bytes, start);
    }
    check_searches(bytes, &frames);
    check_written(bytes);
}

fn check_places(bytes: &[u8], frames: &[FrameInfo], torn: Option<u64>) {
    let mut next = 0;
    for frame in frames {
        assert_eq!(frame.start, next);
        assert!(frame.end > frame.start);
        next = frame.end;
    }
    assert!(next <= bytes.len() as u64);
    if let Some(start) = torn {
        assert_eq!(start, next);
    }
}

fn read_stream(stream: &mut FrameStream<&[u8]>) -> Vec<u8> {
    let mut text = Vec::new();
    while text.len() < TEXT_BYTES_MAX && stream.read(&mut text, 10_000).expect("memory can be read") > 0 {}
    text
}

/// A frame that is whole for one decoder is whole for the other, with the same text.
fn check_decoders(bytes: &[u8], frame: &FrameInfo) {
    let mut text = b"before".to_vec();
    let piece = &bytes[frame.start as usize..frame.end as usize];
    let at_once = FrameDecoder::new().decode(piece, frame, &mut text, TEXT_BYTES_MAX);
    let mut stream = FrameStream::new(bytes, frame.start, frame.end, false);
    let checked = stream.check().expect("memory can be read");
    assert!(text.starts_with(b"before"));
    match at_once {
        Ok(Decoded::Whole(length)) => {
            assert_eq!(checked, Ok(length as u64));
            assert_eq!(text.len(), 6 + length);
            assert_eq!(&text[6..], read_stream(&mut stream));
        }
        Ok(Decoded::TooLong) => {
            assert_eq!(text.len(), 6);
            // Or it has an empty compressed block, which only the stream judges.
        }
        Err(_) => {
            assert_eq!(text.len(), 6);
            assert!(checked.is_err(), "{at_once:?} at once, {checked:?} in a stream");
        }
    }
}

/// A torn frame gives what stands before the tear, and nothing that a salvage would not.
fn check_torn(bytes: &[u8], start: u64) {
    let end = bytes.len() as u64;
    let mut stream = FrameStream::new(bytes, start, end, true);
    let checked = stream.check().expect("memory can be read");
    let length = match checked {
        Ok(length) => length,
        Err(fault) => {
            assert_eq!(fault, DecodeFault::Memory);
            return;
        }
    };
    let text = read_stream(&mut stream);
    assert!(text.len() as u64 == length || text.len() >= TEXT_BYTES_MAX);
    if length > TEXT_BYTES_MAX as u64 {
        return;
    }
    let mut salvaged = Vec::new();
    FrameStream::new(bytes, start, end, true).salvage(&mut salvaged).expect("memory can be read");
    assert!(salvaged.starts_with(&text), "{} bytes read, {} salvaged", text.len(), salvaged.len());
}

fn check_searches(bytes: &[u8], frames: &[FrameInfo]) {
    let end = bytes.len() as u64;
    let floor = frames.first().map_or(0, |frame| frame.end);
    let found = last_frames_start(&bytes, end, floor, 1).expect("memory can be read");
    if found.is_from_floor && found.fault.is_none() && !frames.is_empty() {
        assert_eq!(found.frames, frames[frames.len() - found.frames.len()..]);
    }
    let middle = end / 2;
    if let Some(start) = frame_start_near(&bytes, middle, floor, end).expect("memory can be read") {
        assert!(start >= middle.min(floor) && start < end);
    }
    let text = peek_text(&bytes, floor, end, 100).expect("memory can be read");
    assert!(text.len() <= 100 + TEXT_BYTES_MAX);
    ends_in_zeros(&bytes, end).expect("memory can be read");
    ends_in_cleared_checksum(&bytes, floor, end).expect("memory can be read");
}

/// What the encoder writes is one frame that gives the text back.
fn check_written(bytes: &[u8]) {
    let mut file = Vec::new();
    FrameEncoder::new().encode(bytes, &mut file).expect("a small text is compressed");
    let (frames, torn) = scan_frames(&file, 2).expect("the frame was just written");
    assert_eq!((frames.len(), torn), (1, None));
    let mut text = Vec::new();
    let decoded = FrameDecoder::new().decode(&file, &frames[0], &mut text, bytes.len());
    assert_eq!(decoded, Ok(Decoded::Whole(bytes.len())));
    assert_eq!(text, bytes);
}
