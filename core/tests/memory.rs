//! What reading costs in memory where a file is long and holds little. One test alone in this program: it looks at the peak of its process.

use dsh_session_core::{Access, CancelToken, EventDraft, EventRange, NewSession, Store};
use std::fs::OpenOptions;

const ZEROS_BYTES: u64 = 64 << 20;

/// Far below the zeros, far above what a piece and the test itself need.
const GROWTH_BYTES_MAX: u64 = 24 << 20;

/// The most memory this process had so far; `None` where the system does not tell.
fn peak_bytes() -> Option<u64> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"))?;
    Some(line.trim().strip_suffix(" kB")?.parse::<u64>().ok()? * 1024)
}

#[test]
fn a_raw_log_that_ends_in_64_mebibytes_of_zeros_is_judged_and_repaired_in_the_memory_of_a_few_pieces() {
    let folder = tempfile::tempdir().unwrap();
    let store = Store::builder(folder.path()).encoding(dsh_session_core::Encoding::None).open().unwrap();
    let session = store.create(NewSession::new().id("s")).unwrap();
    let draft = EventDraft::new("plugin:proof/note", r#"{"text":"x"}"#).unwrap();
    session.append(&draft).unwrap();
    session.close().unwrap();
    let path = store.stat("s").unwrap().unwrap().path.unwrap();
    let length = std::fs::metadata(&path).unwrap().len();
    let Some(before) = peak_bytes() else {
        println!("this machine does not tell the peak of a process: the memory was not measured");
        return;
    };
    OpenOptions::new().write(true).open(&path).unwrap().set_len(length + ZEROS_BYTES).unwrap();

    let go_on = CancelToken::new();
    assert_eq!(store.events("s", EventRange::ALL).unwrap().map(Result::unwrap).count(), 1);
    assert_eq!(store.events("s", EventRange::newest(5)).unwrap().map(Result::unwrap).count(), 1);
    assert_eq!(store.events("s", EventRange::window(0, 9)).unwrap().map(Result::unwrap).count(), 1);
    let verifications: Vec<_> = store.verify(None, &go_on).unwrap().map(Result::unwrap).collect();
    assert_eq!(verifications[0].outcome.as_str(), "torn-tail");
    assert_eq!(store.salvage("s").unwrap().map(Result::unwrap).count(), 1);
    let rows: Vec<_> = store.rows("s", &go_on).unwrap().map(Result::unwrap).collect();
    assert_eq!((rows.len(), rows[2].text.len()), (3, 0));
    assert!(rows[2].problem.as_ref().unwrap().starts_with(&format!("{ZEROS_BYTES} zero bytes")));
    let log = store.open_log("s", Access::Write).unwrap();
    log.append(&[session_row(1)], &go_on).unwrap();
    log.close().unwrap();

    let grown = peak_bytes().unwrap() - before;
    assert!(grown < GROWTH_BYTES_MAX, "the process grew by {} MiB", grown >> 20);
    assert!(std::fs::metadata(&path).unwrap().len() < 2 * length);
    assert_eq!(store.events("s", EventRange::ALL).unwrap().map(Result::unwrap).count(), 2);
}

fn session_row(seq: u64) -> dsh_session_core::Event {
    let row = format!(r#"{{"type":"plugin:proof/note","seq":{seq},"time":1,"data":{{}},"ignorable":true}}"#);
    dsh_session_core::Event::from_row(row).unwrap()
}
