//! A log that did not change since this process read it whole is not checked again, and one that did is.

use dsh_session_core::persistence::files::{FilePersistence, FileSettings};
use dsh_session_core::storage::simulation::MemoryStorage;
use dsh_session_core::storage::{OpenHow, Storage};
use dsh_session_core::{
    Access, CancelToken, Code, Event, EventDraft, EventRange, SessionHeader, SessionLog, SessionPersistence,
    Store,
};
use std::path::Path;
use std::sync::Arc;

const LOG: &str = "/data/_no-cwd/s/session.v4.jsonl.zstd";

fn row(seq: u64) -> Event {
    let text = format!(
        r#"{{"type":"feedback/record","seq":{seq},"time":1,"data":{{"text":"{}"}}}}"#,
        "x".repeat(9000)
    );
    Event::from_row(text).unwrap()
}

fn with_log(memory: &MemoryStorage) {
    let files = persistence(Arc::new(memory.clone()));
    let go_on = go_on();
    let log = files.create(&SessionHeader::new("s", 1), None, &go_on).unwrap();
    for batch in 0..40 {
        log.append(&(batch * 10..batch * 10 + 10).map(row).collect::<Vec<_>>(), &go_on).unwrap();
    }
    log.close().unwrap();
}

fn persistence(storage: Arc<dyn Storage>) -> FilePersistence {
    FilePersistence::with_storage("/data", storage, FileSettings::default()).unwrap()
}

fn go_on() -> CancelToken {
    CancelToken::new()
}

/// Bytes that opening for writing reads, and what was opened.
fn opened(files: &FilePersistence, memory: &MemoryStorage) -> (u64, Arc<dyn SessionLog>) {
    let before = memory.bytes_read();
    let log = files.open("s", Access::Write, &go_on()).unwrap();
    (memory.bytes_read() - before, log)
}

/// More than a header is ever read in, less than the rows of any log here.
const HEADER_BYTES_MAX: u64 = 10_000;

#[test]
fn reopening_an_unchanged_log_reads_no_rows() {
    let memory = MemoryStorage::new(1);
    with_log(&memory);
    let files = persistence(Arc::new(memory.clone()));
    let (first, log) = opened(&files, &memory);
    drop(log);
    let (second, log) = opened(&files, &memory);
    assert!(first > HEADER_BYTES_MAX && second < HEADER_BYTES_MAX, "{second} bytes after {first}");
    assert_eq!(log.event_count(&go_on()).unwrap(), 400);
}

#[test]
fn an_append_extends_what_is_known() {
    let memory = MemoryStorage::new(1);
    with_log(&memory);
    let files = persistence(Arc::new(memory.clone()));
    let (first, mut log) = opened(&files, &memory);
    assert!(first > HEADER_BYTES_MAX);
    // Also through handles that have read nothing themselves.
    for seq in 400..410 {
        log.append(&[row(seq)], &go_on()).unwrap();
        drop(log);
        let (again, next) = opened(&files, &memory);
        assert!(again < HEADER_BYTES_MAX, "{again} bytes read after the append of {seq}");
        assert_eq!(next.event_count(&go_on()).unwrap(), seq + 1);
        log = next;
    }
    let fresh = persistence(Arc::new(memory.clone()));
    assert_eq!(fresh.open("s", Access::Write, &go_on()).unwrap_err().code(), Code::SessionAlreadyOwned);
    drop(log);
    assert!(opened(&fresh, &memory).0 > HEADER_BYTES_MAX, "another backend knows nothing");
}

#[test]
fn what_a_resumed_handle_and_a_new_one_append_is_known() {
    let memory = MemoryStorage::new(1);
    with_log(&memory);
    let files = persistence(Arc::new(memory.clone()));
    let mut resumed = files.resume("s", &go_on(), &mut |_| Ok(())).unwrap();
    // Whoever resumes has the checker, and the word of its holder counts.
    resumed.checker.check(&row(400)).unwrap();
    resumed.log.append_checked(&[row(400)], &go_on()).unwrap();
    drop(resumed);
    let (bytes, log) = opened(&files, &memory);
    assert!(bytes < HEADER_BYTES_MAX);
    // Nobody asks the rules of what is appended in another way: the next read does.
    log.append(&[row(401)], &go_on()).unwrap();
    drop(log);
    assert!(opened(&files, &memory).0 > HEADER_BYTES_MAX);
    let new = files.create(&SessionHeader::new("new", 1), None, &go_on()).unwrap();
    for batch in 0..5 {
        new.append(&(batch * 10..batch * 10 + 10).map(row).collect::<Vec<_>>(), &go_on()).unwrap();
    }
    new.close().unwrap();
    let before = memory.bytes_read();
    files.open("new", Access::Write, &go_on()).unwrap();
    assert!(memory.bytes_read() - before < HEADER_BYTES_MAX);
}

#[test]
fn the_log_of_a_live_session_is_known_and_judged_by_the_session_alone() {
    let memory = MemoryStorage::new(1);
    with_log(&memory);
    let store = Store::builder("/data").storage(Arc::new(memory.clone())).open().unwrap();
    let session = store.open_session("s").unwrap();
    session.append(EventDraft::new("turn/start", r#"{"turn":1}"#).unwrap()).unwrap();
    session.flush().unwrap();
    let before = memory.bytes_read();
    assert_eq!(store.events("s", EventRange::newest(1)).unwrap().count(), 1);
    let newest = memory.bytes_read() - before;
    assert_eq!(store.events("s", EventRange::ALL).unwrap().count(), 401);
    session.close().unwrap();
    let before = memory.bytes_read();
    store.open_log("s", Access::Write).unwrap();
    assert!(memory.bytes_read() - before < HEADER_BYTES_MAX, "after {newest} bytes for the newest event");
}

#[test]
fn a_reader_beside_a_writer_trusts_what_it_appended() {
    let memory = MemoryStorage::new(1);
    let files = persistence(Arc::new(memory.clone()));
    let seeded = SessionHeader { is_seeded: true, ..SessionHeader::new("s", 1) };
    let log = files.create(&seeded, Some(1), &go_on()).unwrap();
    let marker = r#"{"type":"session/end-seed","seq":1,"time":1,"data":{"inherited":true}}"#;
    log.append(&[row(0), Event::from_row(marker).unwrap()], &go_on()).unwrap();
    log.append(&(2..40).map(row).collect::<Vec<_>>(), &go_on()).unwrap();
    let reader = files.open("s", Access::Read, &go_on()).unwrap();
    let before = memory.bytes_read();
    // Asking a read handle for this reads the log, unless it is known.
    assert_eq!(reader.inherited_event_count(&go_on()).unwrap(), 1);
    assert_eq!(memory.bytes_read() - before, 0);
}

#[test]
fn rows_that_break_a_rule_are_not_known_by_having_been_appended() {
    let memory = MemoryStorage::new(1);
    with_log(&memory);
    let files = persistence(Arc::new(memory.clone()));
    let (_, log) = opened(&files, &memory);
    let stray = r#"{"type":"turn/end","seq":400,"time":1,"data":{"turn":1}}"#;
    log.append(&[Event::from_row(stray).unwrap()], &go_on()).unwrap();
    let reader = files.open("s", Access::Read, &go_on()).unwrap();
    let told = || reader.events(EventRange::ALL, &go_on()).unwrap().find_map(Result::err).unwrap();
    assert_eq!((told().code(), told().rule()), (Code::SessionCorrupt, Some("A14")));
    // A good row after it mends nothing.
    log.append(&[row(401)], &go_on()).unwrap();
    assert_eq!(told().seq(), Some(400));
    drop(log);
    assert_eq!(files.open("s", Access::Write, &go_on()).unwrap_err().code(), Code::SessionCorrupt);
}

#[test]
fn a_breach_that_a_later_row_clears_is_known_once_it_is_cleared() {
    let memory = MemoryStorage::new(1);
    let files = persistence(Arc::new(memory.clone()));
    let log = files.create(&SessionHeader::new("s", 1), None, &go_on()).unwrap();
    let rows = [
        r#"{"type":"compaction/start","seq":20,"time":1,"data":{"compactionId":"c","turn":null}}"#,
        r#"{"type":"turn/start","seq":21,"time":1,"data":{"turn":1}}"#,
        r#"{"type":"session/end-seed","seq":22,"time":1,"data":{}}"#,
    ];
    let [start, crossing, marker] = rows.map(|row| Event::from_row(row).unwrap());
    log.append(&(0..20).map(row).collect::<Vec<_>>(), &go_on()).unwrap();
    log.append(&[start, crossing], &go_on()).unwrap();
    let reader = files.open("s", Access::Read, &go_on()).unwrap();
    assert_eq!(reader.check(&go_on()).unwrap_err().rule(), Some("A20"));
    log.append(&[marker], &go_on()).unwrap();
    drop(log);
    assert!(opened(&files, &memory).0 < HEADER_BYTES_MAX);
}

#[test]
fn what_another_program_wrote_since_an_append_is_not_known() {
    let memory = MemoryStorage::new(1);
    with_log(&memory);
    let files = persistence(Arc::new(memory.clone()));
    let (_, log) = opened(&files, &memory);
    log.append(&[row(400)], &go_on()).unwrap();
    drop(log);
    let other = persistence(Arc::new(memory.clone()));
    let (_, log) = opened(&other, &memory);
    log.append(&[row(401)], &go_on()).unwrap();
    drop(log);
    let (read, log) = opened(&files, &memory);
    assert!(read > HEADER_BYTES_MAX);
    assert_eq!(log.event_count(&go_on()).unwrap(), 402);
}

#[test]
fn an_append_that_failed_is_not_known_and_the_next_one_is() {
    let memory = MemoryStorage::new(1);
    with_log(&memory);
    let files = persistence(Arc::new(memory.clone()));
    let (_, log) = opened(&files, &memory);
    log.append(&[row(400)], &go_on()).unwrap();
    let stray = r#"{"type":"turn/end","seq":401,"time":1,"data":{"turn":1}}"#;
    // Refused by the disk and not by a rule: it must leave no trace in what is known of the log.
    memory.set_space_limit_bytes(Some(0));
    assert_eq!(log.append(&[Event::from_row(stray).unwrap()], &go_on()).unwrap_err().code(), Code::Io);
    memory.set_space_limit_bytes(None);
    log.append(&[row(401)], &go_on()).unwrap();
    drop(log);
    let (read, log) = opened(&files, &memory);
    assert!(read < HEADER_BYTES_MAX);
    assert_eq!(log.check(&go_on()).unwrap().event_count, 402);
}

#[test]
fn a_log_that_changed_is_checked_again() {
    let memory = MemoryStorage::new(1);
    with_log(&memory);
    let files = persistence(Arc::new(memory.clone()));
    let go_on = go_on();
    let reader = files.open("s", Access::Read, &go_on).unwrap();
    assert_eq!(reader.events(EventRange::ALL, &go_on).unwrap().filter_map(Result::ok).count(), 400);
    // Rows that break a rule, put there by somebody else.
    let mut encoder = dsh_session_core::format::frames::FrameEncoder::new();
    let mut frame = Vec::new();
    encoder
        .encode(b"{\"type\":\"turn/end\",\"seq\":400,\"time\":1,\"data\":{\"turn\":1}}\n", &mut frame)
        .unwrap();
    memory.open(Path::new(LOG), OpenHow::Append).unwrap().append(&frame).unwrap();
    let error = reader.events(EventRange::ALL, &go_on).unwrap().find_map(Result::err).unwrap();
    assert_eq!(error.code(), Code::SessionCorrupt);
    assert_eq!(files.open("s", Access::Write, &go_on).unwrap_err().code(), Code::SessionCorrupt);
}

#[test]
fn check_reads_the_disk_whatever_was_read_before() {
    let memory = MemoryStorage::new(1);
    with_log(&memory);
    let files = persistence(Arc::new(memory.clone()));
    let go_on = go_on();
    let reader = files.open("s", Access::Read, &go_on).unwrap();
    let before = reader.check(&go_on).unwrap();
    assert_eq!((before.event_count, before.frames), (400, 41));
    assert_eq!(reader.check(&go_on).unwrap().frames, 41);
}
