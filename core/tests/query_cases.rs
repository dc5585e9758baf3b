//! The query room over the cases in the tree: every judgement, every salvaged event, every raw row.

use dsh_session_core::query::Outcome;
use dsh_session_core::{CancelToken, Code, ReadLimits, Store};
use serde_json::Value;
use std::path::{Path, PathBuf};

fn cases() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../tests/cases")
}

fn store(case: &str) -> Store {
    Store::open(cases().join(case)).unwrap()
}

fn texts(store: &Store, id: &str) -> Vec<String> {
    store.rows(id, &CancelToken::new()).unwrap().map(|row| row.unwrap().text).collect()
}

#[test]
fn raw_rows_of_a_whole_log_are_its_lines() {
    let raw =
        std::fs::read_to_string(cases().join("00-good-raw/--home-user-project--/good/session.v4.jsonl"))
            .unwrap();
    let lines: Vec<_> = raw.lines().map(str::to_owned).collect();
    assert_eq!(texts(&store("00-good-raw"), "good"), lines);
    assert_eq!(texts(&store("00-good-zstd"), "good").len(), lines.len());
    for case in ["00-good-raw", "00-good-zstd"] {
        let rows: Vec<_> =
            store(case).rows("good", &CancelToken::new()).unwrap().map(Result::unwrap).collect();
        assert!(rows.iter().all(|row| row.problem.is_none()), "{rows:?}");
        assert_eq!(rows.iter().map(|row| row.line).collect::<Vec<_>>(), (1..=17).collect::<Vec<_>>());
        assert_eq!(rows.last().unwrap().seq, Some(15));
    }
}

#[test]
fn rows_after_a_damaged_frame_are_read_and_the_frame_is_named() {
    let store = store("31-zstd-damaged-complete-frame");
    for (id, frame) in [("bad-checksum", 2), ("flipped-body-byte", 1), ("reserved-block-type", 1)] {
        let rows: Vec<_> = store.rows(id, &CancelToken::new()).unwrap().map(Result::unwrap).collect();
        let named: Vec<_> = rows.iter().filter(|row| row.text.is_empty()).collect();
        assert_eq!(named.len(), 1, "{id}: {rows:?}");
        assert_eq!(named[0].frame, Some(frame), "{id}");
        assert!(rows.last().unwrap().is_event && rows.last().unwrap().seq == Some(15), "{id}: {rows:?}");
        let mut salvage = store.salvage(id).unwrap();
        let before = salvage.by_ref().map(Result::unwrap).count() as u64;
        assert_eq!(salvage.damage().unwrap().salvageable(), Some(before), "{id}");
        let after: Vec<_> = salvage.after_damage().unwrap().map(|row| row.unwrap().seq.unwrap()).collect();
        assert!(after[0] > before && *after.last().unwrap() == 15, "{id}: {after:?}");
        assert!(after.windows(2).all(|pair| pair[1] == pair[0] + 1), "{id}: {after:?}");
    }
}

#[test]
fn a_log_without_its_header_still_shows_its_rows() {
    let store = store("36-root-with-one-headless-log");
    let rows: Vec<_> = store.rows("beta", &CancelToken::new()).unwrap().map(Result::unwrap).collect();
    assert!(rows[0].problem.as_deref().unwrap().contains("not a header"), "{:?}", rows[0]);
    assert_eq!(rows.iter().filter(|row| row.is_event).count(), 16);
    let mut salvage = store.salvage("beta").unwrap();
    assert!(salvage.next().is_none());
    assert_eq!(salvage.damage().unwrap().code(), Code::SessionCorrupt);
    assert_eq!(salvage.after_damage().unwrap().count(), 16);
}

#[test]
fn a_row_over_the_limit_is_named_and_not_returned() {
    let limits = ReadLimits { row_bytes_max: 1 << 20, ..ReadLimits::default() };
    for case in ["26-zstd-one-64MiB-line", "27-zstd-1GiB-from-a-small-file"] {
        let store = Store::builder(cases().join(case)).limits(limits).open().unwrap();
        let judged = store.verify(Some("s"), &CancelToken::new()).unwrap().next().unwrap().unwrap();
        let Outcome::Limit(error) = &judged.outcome else { panic!("{judged:?}") };
        assert_eq!(error.limit(), Some("row_bytes_max"));
        let salvage = store.salvage("s").unwrap().map(Result::unwrap).count() as u64;
        assert_eq!(error.salvageable(), Some(salvage), "{case}");
        let rows: Vec<_> = store.rows("s", &CancelToken::new()).unwrap().map(Result::unwrap).collect();
        let named: Vec<_> = rows.iter().filter(|row| row.text.is_empty()).collect();
        assert_eq!(named.len(), 1, "{case}");
        assert!(named[0].problem.as_deref().unwrap().contains("longer than the limit"), "{case}");
    }
}

#[test]
fn an_unknown_id_is_not_found_and_a_conflict_refuses_rows() {
    let go_on = CancelToken::new();
    let good = store("00-good-raw");
    assert_eq!(
        good.verify(Some("none"), &go_on).unwrap().next().unwrap().unwrap_err().code(),
        Code::SessionNotFound
    );
    assert_eq!(good.rows("none", &go_on).unwrap_err().code(), Code::SessionNotFound);
    assert_eq!(good.salvage("none").unwrap_err().code(), Code::SessionNotFound);
    assert_eq!(good.stats(Some("none"), &go_on).unwrap_err().code(), Code::SessionNotFound);
    let both = store("37-raw-and-zstd-side-by-side");
    assert_eq!(both.rows("s", &go_on).unwrap_err().code(), Code::SessionConflict);
}

/// Every log of every case, whatever its state: rows never fail, never panic, and hold every event that a salvage gives.
#[test]
fn rows_of_every_case_hold_every_event_of_a_salvage_in_order() {
    let expected: Value =
        serde_json::from_str(&std::fs::read_to_string(cases().join("expected.json")).unwrap()).unwrap();
    let mut seen = 0;
    for (case, logs) in expected.as_object().unwrap() {
        if !cases().join(case).is_dir() || case.starts_with("26") || case.starts_with("27") {
            continue;
        }
        let store = store(case);
        for log in logs.as_object().unwrap().keys() {
            let id = log.split('/').nth(1).unwrap();
            let Ok(rows) = store.rows(id, &CancelToken::new()) else { continue };
            let rows: Vec<_> =
                rows.map(Result::unwrap).filter(|row| row.is_event).map(|row| row.text).collect();
            let Ok(salvage) = store.salvage(id) else { continue };
            let events: Vec<_> = salvage.map(|event| event.unwrap().row().to_owned()).collect();
            assert_eq!(events, rows[..events.len()], "{case} {id}");
            seen += 1;
        }
    }
    assert!(seen > 60, "{seen}");
}

#[test]
fn figures_of_a_session_agree_with_its_file() {
    let go_on = CancelToken::new();
    let raw = store("00-good-raw").stats(Some("good"), &go_on).unwrap();
    let zstd = store("00-good-zstd").stats(Some("good"), &go_on).unwrap();
    assert_eq!((raw.events, raw.file_bytes, raw.frames), (16, 2636, 0));
    assert_eq!(raw.text_bytes, raw.file_bytes);
    assert_eq!((zstd.events, zstd.file_bytes, zstd.frames), (16, 1230, 5));
    assert_eq!(raw.events_by_type, zstd.events_by_type);
    assert_eq!(raw.events_by_type.values().sum::<u64>(), 16);
    assert_eq!(raw.largest_rows.len(), 5);
    assert!(raw.largest_rows.windows(2).all(|pair| pair[0].bytes >= pair[1].bytes));
    assert!(raw.first_time <= raw.last_time && raw.first_time.is_some());
    let all = store("36-root-with-one-headless-log").stats(None, &go_on).unwrap();
    assert_eq!((all.sessions, all.unreadable, all.events), (2, 1, 32));
}
