//! The rules of stored logs (`format.md` 5) as a reader of files meets them: the vectors, logs that the original wrote, and what
//! an error says about the row that breaks a rule.

use dsh_session_core::error::{At, Code, Error};
use dsh_session_core::event::Event;
use dsh_session_core::format::frames::FrameEncoder;
use dsh_session_core::format::header::SessionHeader;
use dsh_session_core::json::{DEPTH_MAX_DEFAULT, Json};
use dsh_session_core::persistence::files::FilePersistence;
use dsh_session_core::persistence::{Access, SessionLog, SessionPersistence};
use dsh_session_core::{CancelToken, EventRange};
use serde_json::{Value, json};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use tempfile::TempDir;

fn tests_folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../tests")
}

fn vectors(name: &str) -> Vec<Value> {
    let text = std::fs::read_to_string(tests_folder().join("vectors").join(name)).unwrap();
    let vectors: Value = serde_json::from_str(&text).unwrap();
    vectors["cases"].as_array().unwrap().clone()
}

/// A root with one log of session `id`, without `cwd`.
fn root_of(id: &str, file_name: &str, bytes: &[u8]) -> TempDir {
    let root = tempfile::tempdir().unwrap();
    let folder = root.path().join("_no-cwd").join(id);
    std::fs::create_dir_all(&folder).unwrap();
    std::fs::write(folder.join(file_name), bytes).unwrap();
    root
}

fn open(root: &Path, id: &str) -> Result<Arc<dyn SessionLog>, Error> {
    FilePersistence::open(root)?.open(id, Access::Read, &CancelToken::new())
}

/// The seqs of a range, up to the end or the first error.
fn seqs(log: &dyn SessionLog, range: EventRange) -> Result<Vec<u64>, Error> {
    log.events(range, &CancelToken::new())?.map(|event| event.map(|event| event.seq())).collect()
}

fn read_all(root: &Path, id: &str) -> Result<Vec<u64>, Error> {
    seqs(&*open(root, id)?, EventRange::ALL)
}

fn status(outcome: &Result<Vec<u64>, Error>) -> &'static str {
    match outcome {
        Ok(_) => "ok",
        Err(error) if error.code() == Code::SessionCorrupt => "corrupt",
        Err(error) if error.code() == Code::FormatUnsupported => "unsupported",
        Err(error) => panic!("{error:?}"),
    }
}

fn assert_scan(case: &Value, file_name: &str, bytes: &[u8]) {
    let root = root_of("log", file_name, bytes);
    let outcome = read_all(root.path(), "log");
    let expected = &case["expect"];
    assert_eq!(status(&outcome), expected["status"], "{}: {outcome:?}", case["name"]);
    let Ok(seqs) = outcome else { return };
    assert_eq!(json!(seqs), expected["seqs"], "{}", case["name"]);
    let end = open(root.path(), "log").unwrap().check(&CancelToken::new()).unwrap();
    assert_eq!(end.inherited_marker.unwrap_or(0), expected["inheritedEventCount"], "{}", case["name"]);
    let keep = end.torn.as_ref().map(|torn| torn.keep_bytes);
    assert_eq!(json!(keep), expected["truncateTo"], "{}", case["name"]);
    let recovered: Vec<u64> = end.torn.iter().flat_map(|torn| &torn.recovered).map(Event::seq).collect();
    if let Some(expected) = expected.get("recoveredSeqs") {
        assert_eq!(json!(recovered), *expected, "{}", case["name"]);
    }
}

#[test]
fn raw_logs_read_as_the_vectors_say() {
    for case in vectors("format-log-scan-raw.json") {
        assert_scan(&case, "session.v4.jsonl", case["text"].as_str().unwrap().as_bytes());
    }
}

#[test]
fn compressed_logs_read_as_the_vectors_say() {
    for case in vectors("format-log-scan-zstd.json") {
        let hex = case["hex"].as_str().unwrap();
        let bytes: Vec<u8> =
            (0..hex.len()).step_by(2).map(|at| u8::from_str_radix(&hex[at..at + 2], 16).unwrap()).collect();
        assert_scan(&case, "session.v4.jsonl.zstd", &bytes);
    }
}

fn header_line(header: &Value) -> String {
    let mut line = json!({"type": "session"});
    line.as_object_mut().unwrap().extend(header.as_object().unwrap().clone());
    line.to_string()
}

fn plain_header() -> Value {
    json!({"version": 4, "id": "x", "createdAt": 1, "isSeeded": false, "delegationDepth": 0})
}

/// A compressed log of one frame for the header and one for each batch.
fn framed(header: &Value, batches: &[Vec<Value>]) -> Vec<u8> {
    let mut bytes = Vec::new();
    let mut encoder = FrameEncoder::new();
    encoder.encode(format!("{}\n", header_line(header)).as_bytes(), &mut bytes).unwrap();
    for batch in batches {
        let text: String = batch.iter().map(|row| format!("{row}\n")).collect();
        encoder.encode(text.as_bytes(), &mut bytes).unwrap();
    }
    bytes
}

/// The rule of `events.md` 11 that an error stands for: row admission has numbers of its own, and some rules have none.
fn stored_log_rule(error: &Error) -> &str {
    match (error.rule(), error.at()) {
        (Some("R1" | "R2" | "R5" | "R6"), _) => "A5",
        (Some("R3"), _) => "A11",
        (Some("R4" | "R7" | "R11"), _) => "A10",
        (Some("R8"), _) => "A6",
        (Some("R9"), _) => "A7",
        (Some("R10"), _) => "A8",
        (Some(rule), _) => rule,
        (None, Some(At::Header)) => "A1",
        (None, Some(At::SeedMarker)) => "A9",
        (None, _) => "A4",
    }
}

#[test]
fn whole_logs_are_admitted_as_the_vectors_say() {
    for case in vectors("session-admission.json") {
        let events = case["events"].as_array().unwrap().clone();
        let root = root_of("x", "session.v4.jsonl.zstd", &framed(&case["header"], &[events]));
        let outcome = read_all(root.path(), "x");
        let found = outcome.as_ref().err().map(stored_log_rule);
        assert_eq!(found, case["expect"]["rule"].as_str(), "{}: {outcome:?}", case["id"]);
        let is_unsupported = status(&outcome) == "unsupported";
        assert_eq!(is_unsupported, found == Some("A3"), "{}", case["id"]);
    }
}

#[test]
fn every_log_that_the_original_wrote_is_accepted() {
    let mut logs = 0;
    for entry in std::fs::read_dir(tests_folder().join("fixtures/peer")).unwrap() {
        let folder = entry.unwrap().path();
        if !folder.is_dir() {
            continue;
        }
        let expected = std::fs::read(folder.join("expected.read.jsonl.zst")).unwrap();
        let expected = String::from_utf8(zstd::decode_all(&expected[..]).unwrap()).unwrap();
        for line in expected.lines() {
            // Not serde_json: one of the texts has an unpaired surrogate.
            let session = Json::parse(line, DEPTH_MAX_DEFAULT).unwrap();
            let id = session.get("id").unwrap().as_str().unwrap();
            let outcome = read_all(&folder.join("root"), &id);
            let name = format!("{} {id}", folder.display());
            if session.get("error").is_some() {
                assert_eq!(status(&outcome), "corrupt", "{name}");
                continue;
            }
            logs += 1;
            assert_eq!(outcome.unwrap().len(), session.get("events").unwrap().elements().count(), "{name}");
            let log = open(&folder.join("root"), &id).unwrap();
            let inherited = log.inherited_event_count(&CancelToken::new()).unwrap();
            let expected = session.get("inheritedEventCount").and_then(|count| count.as_count());
            assert_eq!(Some(inherited), expected, "{name}");
        }
    }
    assert!(logs >= 20, "only {logs} logs");
}

#[test]
fn odd_logs_are_judged_by_what_they_are() {
    let read = |case: &str, id: &str| read_all(&tests_folder().join("cases").join(case), id);
    assert_eq!(read("00-good-raw", "good").unwrap().len(), 16);
    assert_eq!(read("00-good-zstd", "good").unwrap().len(), 16);
    assert_eq!(read("42-unknown-event-type", "ignorable").unwrap().len(), 23);
    let unknown = read("42-unknown-event-type", "required").unwrap_err();
    assert_eq!(
        (unknown.code(), unknown.rule(), unknown.seq()),
        (Code::FormatUnsupported, Some("A3"), Some(16))
    );
    assert_eq!(unknown.event_type(), Some("example-plugin/usage"));
    let bad = read("42-unknown-event-type", "ignorable-not-true").unwrap_err();
    assert_eq!((bad.line(), bad.salvageable()), (Some(18), Some(16)));
    assert_eq!(read("43-source-event-ranges", "plain-list").unwrap().len(), 19);
    assert_eq!(read("43-source-event-ranges", "range-and-single").unwrap().len(), 19);
    for id in ["parent", "child", "grandchild"] {
        read("44-fork-child-with-inherited-markers", id).unwrap();
    }
    let unmarked = read("44-fork-child-with-inherited-markers", "seeded-without-marker").unwrap_err();
    assert_eq!(unmarked.at(), Some(At::SeedMarker));
    assert_eq!(read("51-duplicate-message-ids", "s").unwrap().len(), 22);
}

fn row(seq: u64, kind: &str, data: Value) -> Value {
    json!({"type": kind, "seq": seq, "time": 1, "data": data})
}

fn broken(batches: &[Vec<Value>]) -> Error {
    let root = root_of("x", "session.v4.jsonl.zstd", &framed(&plain_header(), batches));
    read_all(root.path(), "x").unwrap_err()
}

#[test]
fn a_breach_says_where_it_is_and_what_can_be_saved() {
    let first = vec![row(0, "turn/start", json!({"turn": 1}))];
    let second = vec![
        row(1, "step/start", json!({"turn": 1, "step": 1})),
        row(2, "step/start", json!({"turn": 1, "step": 2})),
    ];
    let second_start = framed(&plain_header(), std::slice::from_ref(&first)).len() as u64;
    let error = broken(&[first, second]);
    assert_eq!(
        (error.code(), error.rule(), error.at()),
        (Code::SessionCorrupt, Some("A14"), Some(At::Relationship))
    );
    assert_eq!((error.line(), error.frame(), error.offset()), (Some(4), Some(2), Some(second_start)));
    assert_eq!((error.seq(), error.salvageable()), (Some(2), Some(2)));
    assert_eq!(error.event_type(), Some("step/start"));
    assert!(error.path().is_some() && error.session_id() == Some("x"));

    let error = broken(&[vec![row(0, "request/header", json!({"header": {"system": 1}}))]]);
    assert_eq!((error.rule(), error.at(), error.line()), (Some("R2"), Some(At::Row), Some(2)));
    assert_eq!((error.seq(), error.salvageable()), (Some(0), Some(0)));
}

#[test]
fn an_unsupported_row_is_told_before_any_breach_and_a_breach_before_later_damage() {
    let wrong_turn = row(0, "turn/start", json!({"turn": 5}));
    let unknown = row(1, "acme/new", json!({}));
    assert_eq!(broken(&[vec![wrong_turn.clone()], vec![unknown]]).rule(), Some("A3"));
    let retired = row(1, "tool/code-dispatch", json!({}));
    assert_eq!(broken(&[vec![wrong_turn.clone()], vec![retired]]).rule(), Some("R1"));
    let fallback = json!({"reason": "fallback", "header": {"config": {}}});
    let fallback = vec![row(1, "request/header", fallback)];
    assert_eq!(broken(&[vec![wrong_turn.clone()], fallback]).code(), Code::FormatUnsupported);
    // Damage behind the breach is not what is told, and neither is an unknown type that only a gap would accept.
    let damages =
        [row(1, "request/header", json!(1)), row(7, "turn/end", json!({})), row(9, "acme/new", json!({}))];
    for damage in damages {
        let error = broken(&[vec![wrong_turn.clone()], vec![damage]]);
        assert_eq!((error.rule(), error.salvageable()), (Some("A14"), Some(0)));
    }
    // An event that is wrong by itself waits as well.
    let placeless = row(0, "user/message", json!({}));
    assert_eq!(broken(&[vec![placeless.clone(), row(1, "acme/new", json!({}))]]).rule(), Some("A3"));
    assert_eq!(broken(&[vec![placeless]]).rule(), Some("SURFACE_OP_REQUIRED"));
}

#[test]
fn a_breach_that_later_rows_decide_is_told_of_its_own_row() {
    let start = json!({"compactionId": "k", "turn": null});
    let rows = vec![row(0, "compaction/start", start), row(1, "turn/start", json!({"turn": 1}))];
    let later = vec![row(2, "step/start", json!({"turn": 1, "step": 1}))];
    let error = broken(&[rows.clone(), later.clone()]);
    assert_eq!(
        (error.rule(), error.seq(), error.line(), error.frame()),
        (Some("A20"), Some(1), Some(3), Some(1))
    );
    assert_eq!(error.salvageable(), Some(1));
    let excused = vec![row(3, "session/end-seed", json!({}))];
    let root = root_of("x", "session.v4.jsonl.zstd", &framed(&plain_header(), &[rows, later, excused]));
    assert_eq!(read_all(root.path(), "x").unwrap(), [0, 1, 2, 3]);
}

#[test]
fn rows_of_an_unfinished_frame_keep_the_same_rules() {
    let first = vec![row(0, "turn/start", json!({"turn": 1}))];
    let torn = |rows: &[Value]| {
        let whole = framed(&plain_header(), &[first.clone(), rows.to_vec()]);
        // Only checksum bytes are missing, so every row comes back.
        root_of("x", "session.v4.jsonl.zstd", &whole[..whole.len() - 2])
    };
    let good = torn(&[row(1, "step/start", json!({"turn": 1, "step": 1}))]);
    assert_eq!(read_all(good.path(), "x").unwrap(), [0, 1]);
    let unrelated = torn(&[row(1, "step/start", json!({"turn": 1, "step": 2}))]);
    assert_eq!(read_all(unrelated.path(), "x").unwrap_err().rule(), Some("A14"));
    let unknown = torn(&[row(1, "acme/new", json!({}))]);
    assert_eq!(read_all(unknown.path(), "x").unwrap_err().rule(), Some("A3"));
    let refused = torn(&[row(1, "request/header", json!(1))]);
    assert_eq!(read_all(refused.path(), "x").unwrap_err().rule(), Some("R2"));
}

#[test]
fn a_read_that_begins_in_the_middle_asks_only_the_rules_of_single_rows() {
    // The first row breaks a relationship; random text keeps the frames from shrinking.
    let mut state = 7_u64;
    let mut batches = vec![vec![row(0, "turn/start", json!({"turn": 9}))]];
    for seq in 1..400 {
        let text: String = (0..120)
            .map(|_| {
                state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
                format!("{:x}", state >> 32)
            })
            .collect();
        batches.push(vec![row(seq, "plan/mode", json!({"text": text}))]);
    }
    let healthy = framed(&plain_header(), &batches);
    assert!(healthy.len() > 150_000);
    let root = root_of("x", "session.v4.jsonl.zstd", &healthy);
    let log = open(root.path(), "x").unwrap();
    assert_eq!(seqs(&*log, EventRange::newest(2)).unwrap(), [398, 399]);
    assert_eq!(seqs(&*log, EventRange::window(350, 1)).unwrap(), [350]);
    assert_eq!(seqs(&*log, EventRange::ALL).unwrap_err().rule(), Some("A14"));

    for (last, rule) in
        [("acme/new", "A3"), ("request/header", "R2"), ("user/message", "SURFACE_OP_REQUIRED")]
    {
        let mut batches = batches.clone();
        batches.push(vec![row(400, last, json!({}))]);
        let root = root_of("x", "session.v4.jsonl.zstd", &framed(&plain_header(), &batches));
        let log = open(root.path(), "x").unwrap();
        assert_eq!(seqs(&*log, EventRange::newest(2)).unwrap_err().rule(), Some(rule));
    }
}

#[test]
fn a_writer_reads_back_what_it_wrote_and_others_judge_it() {
    let folder = tempfile::tempdir().unwrap();
    let cancel = CancelToken::new();
    let persistence = FilePersistence::open(folder.path().join("root")).unwrap();
    let log = persistence.create(&SessionHeader::new("s", 1), None, &cancel).unwrap();
    let orphan = Event::from_row(row(0, "turn/end", json!({"turn": 1})).to_string().as_bytes()).unwrap();
    log.append(&[orphan], &cancel).unwrap();
    assert_eq!(seqs(&*log, EventRange::ALL).unwrap(), [0]);
    log.close().unwrap();
    assert_eq!(read_all(persistence.root(), "s").unwrap_err().rule(), Some("A14"));
    let refused = persistence.open("s", Access::Write, &cancel).unwrap_err();
    assert_eq!((refused.rule(), refused.salvageable()), (Some("A14"), Some(0)));
}
