//! Logs that the original program wrote: read equal to what it reads, and written again with the same frames.

use dsh_session_core::event::Vocabulary;
use dsh_session_core::format::frames::{Decoded, FrameDecoder, scan_frames};
use dsh_session_core::session::{Projections, fold_surface};
use dsh_session_core::{
    Access, CancelToken, Code, Encoding, Event, NewSession, SessionHeader, SessionLog, Store,
};
use serde_json::Value;
use std::path::{Path, PathBuf};

fn fixtures() -> Vec<PathBuf> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../tests/fixtures/peer");
    let mut roots: Vec<_> = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    roots.retain(|path| path.is_dir());
    roots.sort();
    assert_eq!(roots.len(), 19);
    roots
}

/// What the original reads: one value a session.
fn expected(fixture: &Path) -> Vec<Value> {
    let file = std::fs::read(fixture.join("expected.read.jsonl.zst")).unwrap();
    let text = String::from_utf8(zstd::decode_all(&file[..]).unwrap()).unwrap();
    text.lines().map(value).collect()
}

/// JSON with unpaired surrogate escapes, which serde_json refuses: each becomes the text of its escape, in expectation and reading alike.
fn value(text: &str) -> Value {
    let mut readable = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find('\\') {
        readable.push_str(&rest[..at]);
        let unit =
            |text: &str| text.strip_prefix("\\u").and_then(|hex| u16::from_str_radix(hex.get(..4)?, 16).ok());
        let length = match (unit(&rest[at..]), rest.get(at + 6..).and_then(unit)) {
            (Some(0xd800..=0xdbff), Some(0xdc00..=0xdfff)) => 12,
            (Some(0xd800..=0xdfff), _) => {
                readable.push('\\');
                6
            }
            (Some(_), _) => 6,
            (None, _) => 2,
        };
        readable.push_str(&rest[at..at + length]);
        rest = &rest[at + length..];
    }
    readable.push_str(rest);
    serde_json::from_str(&readable).unwrap()
}

fn without_default_depth(mut header: Value) -> Value {
    if header["delegationDepth"] == 0 {
        header.as_object_mut().unwrap().remove("delegationDepth");
    }
    header
}

fn header_value(header: &SessionHeader) -> Value {
    let mut fields = value(&header.to_json());
    fields.as_object_mut().unwrap().remove("type");
    without_default_depth(fields)
}

#[test]
fn every_session_reads_as_the_original_reads_it() {
    let go_on = CancelToken::new();
    let mut sessions = 0;
    for fixture in fixtures() {
        let store = Store::open(fixture.join("root")).unwrap();
        for expected in expected(&fixture) {
            let id = expected["id"].as_str().unwrap();
            let log = store.open_log(id, Access::Read).unwrap();
            sessions += 1;
            if expected.get("error").is_some() {
                assert_eq!(log.check(&go_on).unwrap_err().code(), Code::SessionCorrupt, "{id}");
                continue;
            }
            assert_eq!(header_value(log.header()), without_default_depth(expected["header"].clone()), "{id}");
            assert_eq!(log.inherited_event_count(&go_on).unwrap(), expected["inheritedEventCount"], "{id}");
            let events = log.read(0, u64::MAX, &go_on).unwrap().events;
            let values: Vec<Value> = events.iter().map(|event| value(&event.logical_row())).collect();
            assert_eq!(Value::Array(values), expected["events"], "{id} in {}", fixture.display());
        }
    }
    assert_eq!(sessions, 27);
}

/// The plaintexts of a log's frames, or its bytes in a raw root.
fn decoded(path: &Path) -> Vec<Vec<u8>> {
    let bytes = std::fs::read(path).unwrap();
    if path.extension().is_some_and(|extension| extension == "jsonl") {
        return vec![bytes];
    }
    let (frames, _) = scan_frames(&bytes, usize::MAX).unwrap();
    let mut decoder = FrameDecoder::new();
    let mut decode = |start: u64, end: u64, info| {
        let mut text = Vec::new();
        let whole = decoder.decode(&bytes[start as usize..end as usize], info, &mut text, 1 << 24);
        assert!(matches!(whole, Ok(Decoded::Whole(_))));
        text
    };
    frames.iter().map(|info| decode(info.start, info.end, info)).collect()
}

fn log_path(root: &Path, id: &str) -> PathBuf {
    let store = Store::open(root).unwrap();
    store.stat(id).unwrap().unwrap().path.unwrap()
}

#[test]
fn rows_written_again_with_the_same_batches_give_the_same_frames() {
    let go_on = CancelToken::new();
    for fixture in fixtures().into_iter().filter(|path| !path.to_string_lossy().contains("v4-damaged")) {
        let root = fixture.join("root");
        for expected in expected(&fixture) {
            let id = expected["id"].as_str().unwrap();
            let original = log_path(&root, id);
            let frames = decoded(&original);
            let is_raw = original.extension().is_some_and(|extension| extension == "jsonl");
            let folder = tempfile::tempdir().unwrap();
            let encoding = if is_raw { Encoding::None } else { Encoding::Zstd };
            let copy = Store::builder(folder.path()).encoding(encoding).open().unwrap();
            let source = Store::open(&root).unwrap().open_log(id, Access::Read).unwrap();
            let mut events = source.read(0, u64::MAX, &go_on).unwrap().events.into_iter();
            let inherited = source.header().is_seeded.then(|| source.inherited_event_count(&go_on).unwrap());
            let new =
                NewSession { header: source.header().clone(), inherited_event_count: inherited, seed: None };
            let log = copy.create_log(new).unwrap();
            let batches: Vec<usize> = if is_raw {
                vec![events.len()]
            } else {
                frames[1..].iter().map(|text| text.iter().filter(|&&byte| byte == b'\n').count()).collect()
            };
            write_batches(&*log, batches, &mut events);
            log.close().unwrap();
            assert_eq!(decoded(&log_path(folder.path(), id)), frames, "{id} in {}", fixture.display());
        }
    }
}

fn write_batches(log: &dyn SessionLog, batches: Vec<usize>, events: &mut impl Iterator<Item = Event>) {
    let go_on = CancelToken::new();
    for length in batches {
        log.append(&events.by_ref().take(length).collect::<Vec<_>>(), &go_on).unwrap();
    }
    log.flush(&go_on).unwrap();
}

#[test]
fn surface_and_messages_are_those_of_the_original() {
    let mut compared = 0;
    for fixture in fixtures() {
        let file = std::fs::read(fixture.join("expected.messages.jsonl.zst")).unwrap();
        let text = String::from_utf8(zstd::decode_all(&file[..]).unwrap()).unwrap();
        let store = Store::open(fixture.join("root")).unwrap();
        for expected in text.lines().map(value) {
            let id = expected["id"].as_str().unwrap();
            let events =
                store.events(id, dsh_session_core::EventRange::ALL).unwrap().collect::<Result<Vec<_>, _>>();
            let Ok(events) = events else {
                assert!(expected["error"].is_object(), "{id} in {}", fixture.display());
                continue;
            };
            let folded = fold_surface(events, &Projections::built_in(), &Vocabulary::default()).unwrap();
            let messages: Vec<Value> = folded.messages.iter().map(|message| value(message.text())).collect();
            assert_eq!(serde_json::json!(folded.nodes), expected["surface"], "{id} in {}", fixture.display());
            assert_eq!(Value::Array(messages), expected["messages"], "{id} in {}", fixture.display());
            compared += 1;
        }
    }
    assert_eq!(compared, 26);
}
