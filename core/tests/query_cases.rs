//! The query room over the cases in the tree: every judgement, every salvaged event, every raw row.

use dsh_session_core::format::raw_rows::RawRow;
use dsh_session_core::query::Outcome;
use dsh_session_core::{CancelToken, Code, ReadLimits, Store};
use proptest::prelude::*;
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

/// Writes one log of a root of its own, and opens the root.
fn store_of(name: &str, bytes: &[u8], limits: ReadLimits) -> (tempfile::TempDir, Store) {
    let root = tempfile::tempdir().unwrap();
    let folder = root.path().join("--home-user-project--/good");
    std::fs::create_dir_all(&folder).unwrap();
    std::fs::write(folder.join(name), bytes).unwrap();
    let store = Store::builder(root.path()).limits(limits).open().unwrap();
    (root, store)
}

fn rows_of(name: &str, bytes: &[u8], limits: ReadLimits) -> Vec<RawRow> {
    let (_root, store) = store_of(name, bytes, limits);
    store.rows("good", &CancelToken::new()).unwrap().map(Result::unwrap).collect()
}

#[test]
fn a_row_at_the_limit_is_returned_and_one_past_it_is_not() {
    let log = b"{\"type\":\"session\"}\n{\"a\":1}\n{\"b\":22}\n{\"c\":3}";
    let at = ReadLimits { row_bytes_max: 18, ..ReadLimits::default() };
    assert_eq!(rows_of("session.v9.jsonl", log, at).len(), 4);
    let past = ReadLimits { row_bytes_max: 7, ..ReadLimits::default() };
    let rows = rows_of("session.v9.jsonl", log, past);
    let shown: Vec<_> = rows.iter().map(|row| (row.line, row.text.as_str())).collect();
    assert_eq!(shown, [(1, ""), (2, "{\"a\":1}"), (3, ""), (4, "{\"c\":3}")]);
    assert!(rows[2].problem.as_deref().unwrap().contains("8 bytes"), "{:?}", rows[2]);
    assert_eq!(rows.iter().map(|row| row.offset).collect::<Vec<_>>(), [0, 19, 27, 36]);
}

#[test]
fn other_versions_show_their_rows_and_only_their_json_is_judged() {
    let log = b"{\"type\":\"session\",\"version\":9}\n{\"odd\":true}\n\n{\"seq\":3,\"type\":\"x\"}\n";
    let rows = rows_of("session.v9.jsonl", log, ReadLimits::default());
    let problems: Vec<_> = rows.iter().map(|row| row.problem.is_some()).collect();
    assert_eq!(problems, [false, false, true, false]);
    assert_eq!((rows[3].seq, rows[3].kind.as_deref()), (Some(3), Some("x")));
    assert!(rows_of("session.v4.jsonl", b"", ReadLimits::default()).is_empty());
    assert!(rows_of("session.v4.jsonl.zstd", b"", ReadLimits::default()).is_empty());
}

#[test]
fn rows_of_a_torn_frame_are_shown_and_marked() {
    let store = store("30-zstd-last-frame-cut");
    let id = "multi-block-cut-after-second-block";
    let rows: Vec<_> = store.rows(id, &CancelToken::new()).unwrap().map(Result::unwrap).collect();
    let torn: Vec<_> = rows.iter().filter(|row| row.frame == rows.last().unwrap().frame).collect();
    assert_eq!(torn.iter().filter(|row| row.is_event).count(), 266);
    assert!(torn.iter().all(|row| row.problem.as_deref().unwrap().contains("unfinished")), "{torn:?}");
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(256) })]

    /// Whatever happened to a log: rows come without a failure, a salvage gives a prefix of what was there, and both agree with the
    /// judgement.
    #[test]
    fn a_damaged_log_gives_rows_and_a_prefix_of_its_events(
        is_raw in any::<bool>(),
        changes in proptest::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 0..4),
        cut in any::<prop::sample::Index>(),
        is_cut in any::<bool>(),
        tail in proptest::collection::vec(any::<u8>(), 0..12),
    ) {
        let (case, name) = match is_raw {
            true => ("00-good-raw", "session.v4.jsonl"),
            false => ("00-good-zstd", "session.v4.jsonl.zstd"),
        };
        let path = cases().join(case).join("--home-user-project--/good").join(name);
        let mut bytes = std::fs::read(path).unwrap();
        for (place, byte) in changes {
            let place = place.index(bytes.len());
            bytes[place] = byte;
        }
        if is_cut {
            bytes.truncate(cut.index(bytes.len()));
        }
        bytes.extend(tail);
        let (_root, store) = store_of(name, &bytes, ReadLimits::default());
        let go_on = CancelToken::new();
        let rows: Vec<_> = store.rows("good", &go_on).unwrap().map(Result::unwrap).collect();
        let whole: Vec<_> = rows.iter().filter(|row| row.is_event).map(|row| row.text.as_str()).collect();
        let judged = store.verify(None, &go_on).unwrap().next().unwrap().unwrap();
        match store.salvage("good") {
            Ok(mut salvage) => {
                let events: Vec<_> = salvage.by_ref().map(Result::unwrap).collect();
                let texts: Vec<_> = events.iter().map(|event| event.row()).collect();
                prop_assert_eq!(&texts[..], &whole[..texts.len()]);
                prop_assert_eq!(salvage.after_damage().unwrap().count(), whole.len() - texts.len());
                match judged.outcome.error() {
                    None => prop_assert_eq!(judged.events, texts.len() as u64),
                    Some(error) => prop_assert_eq!(error.salvageable(), Some(texts.len() as u64)),
                }
            }
            Err(error) => prop_assert_eq!(error.code(), Code::FormatUnsupported),
        }
    }
}
