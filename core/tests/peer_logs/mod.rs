//! The logs that the original program wrote, whole and in memory, and the vectors.
#![allow(dead_code)] // Each test file takes what it needs.

use dsh_session_core::{Access, CancelToken, Event, SessionHeader, SessionLog, Store};
use serde_json::Value;
use std::path::{Path, PathBuf};
use std::sync::Arc;

fn tests_folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../tests")
}

pub(crate) fn vectors(name: &str) -> Vec<Value> {
    let text = std::fs::read_to_string(tests_folder().join("vectors").join(name)).unwrap();
    let vectors: Value = serde_json::from_str(&text).unwrap();
    vectors["cases"].as_array().unwrap().clone()
}

pub(crate) fn event(row: &Value) -> Event {
    Event::from_row(row.to_string()).unwrap()
}

pub(crate) fn events(rows: &Value) -> Vec<Event> {
    rows.as_array().unwrap().iter().map(event).collect()
}

pub(crate) struct PeerLog {
    pub(crate) name: String,
    pub(crate) header: SessionHeader,
    pub(crate) inherited: u64,
    pub(crate) events: Vec<Event>,
    /// What the original appends when it resumes the session; `None` where it does not read the log.
    pub(crate) closers: Option<Value>,
}

/// Every log that the original wrote and that can be read whole.
pub(crate) fn peer_logs() -> Vec<PeerLog> {
    let go_on = CancelToken::new();
    let mut logs = Vec::new();
    for entry in std::fs::read_dir(tests_folder().join("fixtures/peer")).unwrap() {
        let fixture = entry.unwrap().path();
        let Ok(file) = std::fs::read(fixture.join("expected.closers.jsonl.zst")) else { continue };
        let text = String::from_utf8(zstd::decode_all(&file[..]).unwrap()).unwrap();
        let store = Store::open(fixture.join("root")).unwrap();
        for expected in text.lines() {
            let expected: Value = serde_json::from_str(expected).unwrap();
            let id = expected["id"].as_str().unwrap();
            let log: Arc<dyn SessionLog> = store.open_log(id, Access::Read).unwrap();
            let Ok(read) = log.read(0, u64::MAX, &go_on) else {
                assert!(expected["error"].is_object(), "{id}");
                continue;
            };
            logs.push(PeerLog {
                name: format!("{id} in {}", fixture.display()),
                header: log.header().clone(),
                inherited: log.inherited_event_count(&go_on).unwrap(),
                events: read.events,
                closers: expected.get("closers").cloned(),
            });
        }
    }
    assert_eq!(logs.len(), 26);
    logs
}
