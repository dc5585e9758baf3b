//! One row, as an append is given it and as a log may hold it.

use dsh_session_core::SessionHeader;
use dsh_session_core::event::{Event, Vocabulary};
use dsh_session_core::format::relationships::LogChecker;
use dsh_session_core::json::{DEPTH_MAX_DEFAULT, Json, admit, line_text};
use serde::de::IgnoredAny;

/// A row of so many sources is not looked through: two numbers may stand for more than memory holds.
const SOURCES_MAX: usize = 100_000;

/// Compares the grammar with serde_json's, then takes the row through admission and its rules.
pub fn run(bytes: &[u8]) {
    let text = line_text(bytes);
    let is_json = serde_json::from_str::<IgnoredAny>(&text).is_ok();
    assert_eq!(Json::parse(&text, DEPTH_MAX_DEFAULT).is_ok(), is_json, "the grammar is that of serde_json");
    if let Ok(admitted) = admit(bytes, DEPTH_MAX_DEFAULT) {
        assert!(is_json);
        assert_eq!(admit(admitted.as_bytes(), DEPTH_MAX_DEFAULT).as_ref(), Ok(&admitted), "printed once");
    }
    if let Ok(event) = Event::from_row(bytes) {
        assert!(is_json);
        check_event(&event);
        assert_eq!(Event::from_row(event.row()).as_ref().map(Event::row).ok(), Some(event.row()));
    }
    if let Ok(event) = Event::from_stored_row(text.as_ref()) {
        assert!(is_json);
        check_event(&event);
    }
}

fn check_event(event: &Event) {
    let stored = Event::from_stored_row(event.row()).expect("a row is a row again");
    assert_eq!((stored.seq(), stored.time(), stored.kind()), (event.seq(), event.time(), event.kind()));
    assert_eq!(stored.ignorable(), event.ignorable());
    assert_eq!(stored.surface_op(), event.surface_op());
    assert!(Json::parse(event.data().text(), DEPTH_MAX_DEFAULT).is_ok());
    if let Some(seqs) = event.source_event_seqs() {
        let mut last = None;
        for seq in seqs.iter().take(SOURCES_MAX) {
            assert!(last != Some(seq));
            last = Some(seq);
        }
        if seqs.iter().take(SOURCES_MAX).count() < SOURCES_MAX {
            assert!(Json::parse(&event.logical_row(), DEPTH_MAX_DEFAULT).is_ok());
        }
    }
    check_rules(event);
}

/// As the first row of a log: the verdict is the same each time, and a refused row leaves no trace.
fn check_rules(event: &Event) {
    let header = SessionHeader::new("s", 1);
    let mut checker = LogChecker::new(&header, Vocabulary::default());
    let verdict = checker.judge(event).map(drop);
    let again = checker.check(event);
    assert_eq!(verdict.is_ok(), again.is_ok());
    if again.is_ok() {
        let finished = checker.finish();
        assert!(finished.is_ok(), "{finished:?}");
    }
}
