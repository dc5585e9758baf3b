//! Limits of a store: at the limit and one past it, named in the error, and never a silent cut.

use dsh_session_core::{
    Access, CancelToken, Code, Encoding, Error, EventDraft, EventRange, ListMode, NewSession, ReadLimits,
    Store,
};
use std::path::Path;

const BOTH: [Encoding; 2] = [Encoding::None, Encoding::Zstd];

/// A session with rows of known lengths: the data is a text of `x`.
fn store_with_rows(root: &Path, encoding: Encoding, text_lengths: &[usize]) -> Vec<u64> {
    let store = Store::builder(root).encoding(encoding).open().unwrap();
    let session = store.create(NewSession::new().id("s")).unwrap();
    let mut lengths = Vec::new();
    for &length in text_lengths {
        let data = format!("{{\"x\":\"{}\"}}", "x".repeat(length));
        let event = session.append(EventDraft::new("plugin:test/row", data).unwrap().at_time(5)).unwrap();
        lengths.push(event.row().len() as u64);
    }
    session.close().unwrap();
    lengths
}

fn read(root: &Path, limits: ReadLimits) -> Result<u64, Error> {
    let store = Store::builder(root).limits(limits).open()?;
    Ok(store.open_log("s", Access::Read)?.check(&CancelToken::new())?.event_count)
}

#[test]
fn a_row_at_the_limit_is_read_and_one_byte_more_is_refused_by_name() {
    // The last one does not fit into one piece of a compressed log.
    for text_lengths in [[10, 20, 3000], [10, 20, 6 << 20]] {
        for encoding in BOTH {
            let folder = tempfile::tempdir().unwrap();
            let longest = store_with_rows(folder.path(), encoding, &text_lengths)[2];
            let limits = |row_bytes_max| ReadLimits { row_bytes_max, ..ReadLimits::default() };
            assert_eq!(read(folder.path(), limits(longest)).unwrap(), 3);
            let error = read(folder.path(), limits(longest - 1)).unwrap_err();
            assert_eq!((error.code(), error.limit()), (Code::LimitExceeded, Some("row_bytes_max")));
            assert_eq!((error.line(), error.salvageable()), (Some(4), Some(2)), "{encoding:?}");
            let store = Store::builder(folder.path()).limits(limits(longest - 1)).open().unwrap();
            let before: Vec<_> = store
                .events("s", EventRange::ALL)
                .unwrap()
                .take(2)
                .map(|event| event.unwrap().seq())
                .collect();
            assert_eq!(before, [0, 1]);
        }
    }
}

#[test]
fn a_header_at_the_limit_is_read_and_one_byte_more_is_a_problem_that_hides_nobody() {
    for encoding in BOTH {
        let folder = tempfile::tempdir().unwrap();
        store_with_rows(folder.path(), encoding, &[1]);
        let store = Store::builder(folder.path()).encoding(encoding).open().unwrap();
        let big = store.create(NewSession::new().id("big").agent_preset("p".repeat(5000))).unwrap();
        big.flush().unwrap();
        let length = big.header().to_json().len() as u64;
        // A frame is exactly one line, its newline included.
        let limit = length + u64::from(encoding == Encoding::Zstd);
        let list = |header_bytes_max| {
            let limits = ReadLimits { header_bytes_max, ..ReadLimits::default() };
            Store::builder(folder.path()).limits(limits).open().unwrap().list(ListMode::Tolerant).unwrap()
        };
        assert_eq!((list(limit).sessions.len(), list(limit).problems.len()), (2, 0));
        let past = list(limit - 1);
        assert_eq!((past.sessions.len(), past.problems.len()), (1, 1));
        let error = &past.problems[0].error;
        assert_eq!((error.code(), error.limit()), (Code::LimitExceeded, Some("header_bytes_max")));
    }
}

#[test]
fn a_row_at_the_deepest_nesting_is_read_and_one_level_more_is_refused_by_name() {
    let folder = tempfile::tempdir().unwrap();
    let store = Store::open(folder.path()).unwrap();
    let session = store.create(NewSession::new().id("s")).unwrap();
    let nested = |levels: usize| format!("{}{}", "[".repeat(levels), "]".repeat(levels));
    session.append(EventDraft::new("plugin:test/deep", nested(99)).unwrap()).unwrap();
    session.close().unwrap();
    let limits = |depth_max| ReadLimits { depth_max, ..ReadLimits::default() };
    assert_eq!(read(folder.path(), limits(100)).unwrap(), 1);
    let error = read(folder.path(), limits(99)).unwrap_err();
    assert_eq!(
        (error.code(), error.limit(), error.line()),
        (Code::LimitExceeded, Some("depth_max"), Some(2))
    );
    // What is appended can be read back with the default limits, at their very end.
    assert!(EventDraft::new("plugin:test/deep", nested(99_999)).is_ok());
    let error = EventDraft::new("plugin:test/deep", nested(100_000)).unwrap_err();
    assert_eq!((error.code(), error.limit()), (Code::LimitExceeded, Some("depth_max")));
}

#[test]
fn a_header_that_unpacks_to_much_costs_a_listing_its_limit_and_no_more() {
    let folder = tempfile::tempdir().unwrap();
    store_with_rows(folder.path(), Encoding::Zstd, &[1]);
    let directory = folder.path().join("_no-cwd/bomb");
    std::fs::create_dir_all(&directory).unwrap();
    let mut frame = Vec::new();
    let text = vec![b' '; 64 << 20];
    dsh_session_core::format::frames::FrameEncoder::new().encode(&text, &mut frame).unwrap();
    std::fs::write(directory.join("session.v4.jsonl.zstd"), frame).unwrap();
    let listing = Store::open(folder.path()).unwrap().list(ListMode::Tolerant).unwrap();
    assert_eq!((listing.sessions.len(), listing.problems.len()), (1, 1));
    assert_eq!(listing.problems[0].error.code(), Code::LimitExceeded);
}

#[test]
fn flushing_a_store_writes_what_its_sessions_have_accepted() {
    let folder = tempfile::tempdir().unwrap();
    let store = Store::open(folder.path()).unwrap();
    let sessions: Vec<_> = (0..3).map(|_| store.create(NewSession::new()).unwrap()).collect();
    for session in &sessions {
        session.append(EventDraft::new("plugin:test/row", "{}").unwrap()).unwrap();
    }
    sessions[2].close().unwrap();
    store.flush().unwrap();
    for session in &sessions {
        assert_eq!(session.pending().events, 0);
        assert_eq!(store.events(session.id(), EventRange::ALL).unwrap().count(), 1);
    }
}
