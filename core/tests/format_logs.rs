//! Whole logs: read as the vectors say (`format.md` 5.3, 2.6, 4.4), and written as the vectors say (3.7, 4.2, 6.4, 6.5).

use dsh_session_core::format::frames::{Decoded, FrameDecoder, scan_frames};
use dsh_session_core::persistence::files::revision;
use dsh_session_core::storage::{FileKind, FileMetadata};
use dsh_session_core::{Access, CancelToken, Code, Encoding, Event, NewSession, SessionLog, Store};
use serde_json::Value;
use std::path::{Path, PathBuf};
use std::sync::Arc;

fn cases(name: &str) -> Vec<Value> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../tests/vectors").join(name);
    let mut vectors: Value = serde_json::from_slice(&std::fs::read(path).unwrap()).unwrap();
    vectors["cases"].as_array_mut().unwrap().drain(..).collect()
}

fn from_hex(text: &str) -> Vec<u8> {
    (0..text.len()).step_by(2).map(|at| u8::from_str_radix(&text[at..at + 2], 16).unwrap()).collect()
}

/// A root that holds one log, and a store on it.
struct Root {
    folder: tempfile::TempDir,
    log: PathBuf,
}

impl Root {
    fn with(place: &str, bytes: &[u8]) -> Root {
        let folder = tempfile::tempdir().unwrap();
        let log = folder.path().join(place);
        std::fs::create_dir_all(log.parent().unwrap()).unwrap();
        std::fs::write(&log, bytes).unwrap();
        Root { folder, log }
    }

    fn store(&self) -> Store {
        Store::open(self.folder.path()).unwrap()
    }
}

/// The verdict on a log, in the words of the vectors.
fn verdict(root: &Root, id: &str) -> Value {
    let go_on = CancelToken::new();
    let log = match root.store().open_log(id, Access::Read) {
        Ok(log) => log,
        Err(error) => return refusal(error.code()),
    };
    let end = match log.check(&go_on) {
        Ok(end) => end,
        Err(error) => return refusal(error.code()),
    };
    let events = log.read(0, u64::MAX, &go_on).unwrap().events;
    serde_json::json!({
        "status": "ok",
        "seqs": events.iter().map(Event::seq).collect::<Vec<_>>(),
        "inheritedEventCount": log.inherited_event_count(&go_on).unwrap(),
        "truncateTo": end.torn.as_ref().map(|torn| torn.keep_bytes),
        "recoveredSeqs": end.torn.map_or(Vec::new(), |torn| torn.recovered.iter().map(Event::seq).collect()),
    })
}

fn refusal(code: Code) -> Value {
    match code {
        Code::SessionCorrupt => serde_json::json!({"status": "corrupt"}),
        Code::FormatUnsupported => serde_json::json!({"status": "unsupported"}),
        other => panic!("{other:?} is no verdict on a log"),
    }
}

fn check_log_vectors(file: &str, place: &str, bytes: impl Fn(&Value) -> Vec<u8>) {
    for case in cases(file) {
        let name = case["name"].as_str().unwrap();
        let root = Root::with(place, &bytes(&case));
        let mut expected = case["expect"].clone();
        expected.as_object_mut().unwrap().remove("reason");
        let mut got = verdict(&root, "log");
        if expected.get("recoveredSeqs").is_none() {
            got.as_object_mut().unwrap().remove("recoveredSeqs");
        }
        assert_eq!(got, expected, "{name}");
    }
}

#[test]
fn raw_logs_read_as_the_vectors_say() {
    let text = |case: &Value| case["text"].as_str().unwrap().as_bytes().to_vec();
    check_log_vectors("format-log-scan-raw.json", "_no-cwd/log/session.v4.jsonl", text);
}

#[test]
fn compressed_logs_read_as_the_vectors_say() {
    let bytes = |case: &Value| from_hex(case["hex"].as_str().unwrap());
    check_log_vectors("format-log-scan-zstd.json", "_no-cwd/log/session.v4.jsonl.zstd", bytes);
}

fn rows(events: &Value) -> Vec<Event> {
    events.as_array().unwrap().iter().map(|event| Event::from_row(event.to_string()).unwrap()).collect()
}

fn run_steps(log: &dyn SessionLog, steps: &Value) {
    let go_on = CancelToken::new();
    for step in steps.as_array().unwrap() {
        match step["op"].as_str().unwrap() {
            "flush" => log.flush(&go_on).unwrap(),
            "append" => log.append(&rows(&step["events"]), &go_on).unwrap(),
            other => panic!("{other} is no step"),
        }
    }
    log.close().unwrap();
}

fn create(store: &Store, header: &Value) -> Arc<dyn SessionLog> {
    store.create_log(NewSession::from_json(&header.to_string()).unwrap()).unwrap()
}

#[test]
fn raw_writers_leave_the_bytes_of_the_vectors() {
    for case in cases("format-write-raw.json") {
        let text = case.get("text").map(|text| text.as_str().unwrap());
        if let Some(line) = case["line"].as_str() {
            assert_eq!(Event::from_row(case["event"].to_string()).unwrap().row(), line);
        } else if let Some(before) = case["before"].as_str() {
            let root = Root::with("--proj--/w/session.v4.jsonl", before.as_bytes());
            let log = root.store().open_log("w", Access::Write).unwrap();
            log.append(&rows(&case["append"]), &CancelToken::new()).unwrap();
            log.close().unwrap();
            assert_eq!(std::fs::read_to_string(&root.log).unwrap(), text.unwrap());
        } else {
            let folder = tempfile::tempdir().unwrap();
            let store = Store::builder(folder.path()).encoding(Encoding::None).open().unwrap();
            run_steps(&*create(&store, &case["header"]), &case["steps"]);
            let path = folder.path().join(case["path"].as_str().unwrap());
            assert_eq!(std::fs::read_to_string(path).unwrap(), text.unwrap());
        }
    }
}

fn frame_texts(bytes: &[u8]) -> Vec<String> {
    let (frames, torn) = scan_frames(bytes, usize::MAX).unwrap();
    assert_eq!(torn, None);
    let mut decoder = FrameDecoder::new();
    let decode = |info: &dsh_session_core::format::frames::FrameInfo| {
        let mut text = Vec::new();
        let frame = &bytes[info.start as usize..info.end as usize];
        assert!(matches!(decoder.decode(frame, info, &mut text, 1 << 20), Ok(Decoded::Whole(_))));
        assert!(info.has_checksum);
        String::from_utf8(text).unwrap()
    };
    frames.iter().map(decode).collect()
}

#[test]
fn compressed_writers_leave_the_frames_of_the_vectors() {
    for case in cases("format-write-zstd.json") {
        let expected: Vec<String> = serde_json::from_value(case["frames_text"].clone()).unwrap();
        if let Some(before) = case["before_hex"].as_str() {
            let before = from_hex(before);
            let root = Root::with("--proj--/w/session.v4.jsonl.zstd", &before);
            let log = root.store().open_log("w", Access::Write).unwrap();
            let seqs: Vec<u64> = serde_json::from_value(case["read_seqs"].clone()).unwrap();
            let read = log.read(0, u64::MAX, &CancelToken::new()).unwrap().events;
            assert_eq!(read.iter().map(Event::seq).collect::<Vec<_>>(), seqs, "{}", case["name"]);
            run_steps(&*log, &case["steps"]);
            let after = std::fs::read(&root.log).unwrap();
            let kept = case["keep_bytes"].as_u64().unwrap() as usize;
            assert_eq!(after[..kept], before[..kept]);
            assert_eq!(frame_texts(&after), expected, "{}", case["name"]);
        } else {
            let folder = tempfile::tempdir().unwrap();
            let store = Store::open(folder.path()).unwrap();
            run_steps(&*create(&store, &case["header"]), &case["steps"]);
            let log = std::fs::read(folder.path().join("--proj--/w/session.v4.jsonl.zstd")).unwrap();
            assert_eq!(frame_texts(&log), expected, "{}", case["name"]);
        }
    }
}

/// Of the tokens only the revision of a current log applies: no digest over a root, no Windows name.
#[test]
fn the_revision_of_a_log_has_the_form_of_the_vectors() {
    let all = cases("format-tokens.json");
    let current: Vec<_> = all.iter().filter(|case| case["kind"] == "current-revision").collect();
    assert_eq!(current.len(), 1);
    for case in current {
        let number = |key: &str| case["identity"][key].as_str().unwrap().parse::<u64>().unwrap();
        let metadata = FileMetadata {
            kind: FileKind::File,
            device: number("dev"),
            inode: number("ino"),
            size: number("size"),
            modified_ns: number("mtimeNs").into(),
            changed_ns: number("ctimeNs").into(),
        };
        assert_eq!(revision(&metadata).as_str(), case["expect"].as_str().unwrap());
    }
}
