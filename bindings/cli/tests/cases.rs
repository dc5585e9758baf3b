//! Every case in the tree through the program: judgements, events, salvage, repair by the first append.

mod common;

use common::{cases, copy_of, expected, run, run_with, tree};
use dsh_session_core::json::{DEPTH_MAX_DEFAULT, Json};
use serde_json::Value;
use std::path::Path;

/// The names of `expected.json` in the words of `verify --json`.
const NAMES: [(&str, &str); 13] = [
    ("keep_bytes", "keepBytes"),
    ("recovered_from_torn_frame", "recovered"),
    ("salvage_events", "salvageable"),
    ("inherited", "inheritedEventCount"),
    ("event_type", "type"),
    ("line", "line"),
    ("frame", "frame"),
    ("offset", "offset"),
    ("at", "at"),
    ("expected", "expected"),
    ("got", "got"),
    ("version", "version"),
    ("seq", "seq"),
];

/// A GiB of text through a pipe says nothing that the judgement does not.
const JUDGED_ONLY: &str = "27-zstd-1GiB-from-a-small-file";

struct Log {
    case: String,
    /// `<project>/<session>`.
    folder: String,
    id: String,
    figures: Value,
}

fn logs() -> Vec<Log> {
    let expected = expected();
    let in_tree = expected.as_object().unwrap().iter().filter(|(case, _)| cases().join(case).is_dir());
    in_tree
        .flat_map(|(case, logs)| {
            logs.as_object().unwrap().iter().map(|(path, figures)| {
                let folder = Path::new(path).parent().unwrap().to_str().unwrap().to_owned();
                let id = folder.split('/').nth(1).unwrap().to_owned();
                Log { case: case.clone(), folder, id, figures: figures.clone() }
            })
        })
        .collect()
}

fn outcome_fits(expected: &str, got: &str) -> bool {
    expected == got || expected == "ok-or-limit" && matches!(got, "ok" | "limit")
}

#[test]
fn verify_says_of_every_case_what_is_expected_and_changes_nothing() {
    let logs = logs();
    let mut names: Vec<_> = logs.iter().map(|log| log.case.as_str()).collect();
    names.dedup();
    assert!(names.len() >= 50, "{}", names.len());
    for case in names {
        let root = copy_of(case);
        let before = tree(root.path());
        let ran = run(root.path(), &["verify"]);
        let lines = ran.lines();
        for log in logs.iter().filter(|log| log.case == case) {
            let folder = root.path().join(&log.folder);
            let mine = |line: &&Value| Path::new(line["path"].as_str().unwrap()).starts_with(&folder);
            let found: Vec<_> = lines.iter().filter(mine).collect();
            assert_eq!(found.len(), 1, "{case} {}: {lines:?}", log.folder);
            check(log, found[0]);
        }
        let has = |outcome: &str| lines.iter().any(|line| line["outcome"] == outcome);
        let code = match () {
            () if has("corrupt") || has("conflict") => 5,
            () if has("unsupported") => 6,
            () => 0,
        };
        assert_eq!((ran.code, ran.err.as_str()), (code, ""), "{case}");
        assert!(tree(root.path()) == before, "{case}: verify changed something");
    }
}

fn check(log: &Log, line: &Value) {
    let what = || format!("{} {}: {line} instead of {}", log.case, log.folder, log.figures);
    let expected = log.figures["outcome"].as_str().unwrap();
    let got = line["outcome"].as_str().unwrap();
    assert!(outcome_fits(expected, got), "{}", what());
    if let Some(events) = log.figures.get("events").filter(|_| got == "ok" || got == "torn-tail") {
        assert_eq!(&line["events"], events, "{}", what());
    }
    for (name, key) in NAMES {
        // The line of a limit, where there may be one, is no figure of a log that is read.
        let is_told = log.figures.get(name).filter(|_| got != "ok" || key == "inheritedEventCount");
        if let Some(figure) = is_told {
            assert_eq!(&line[key], figure, "{key} of {}", what());
        }
    }
    if got == "conflict" {
        assert!(line["paths"].as_array().unwrap().len() > 1, "{}", what());
    }
    if log.case.starts_with("14") {
        assert!(line["message"].as_str().unwrap().contains("byte order mark"), "{}", what());
    }
}

/// The seqs of event lines, read by the library: other parsers refuse unpaired surrogates, `1E400` and deep nesting.
fn seqs(lines: &str) -> Vec<u64> {
    let seq = |line: &str| Json::parse(line, DEPTH_MAX_DEFAULT).unwrap().get("seq").unwrap().as_count();
    lines.split_terminator('\n').map(|line| seq(line).unwrap()).collect()
}

#[test]
fn events_and_salvage_give_what_can_be_read_and_change_nothing() {
    for log in logs().iter().filter(|log| log.case != JUDGED_ONLY) {
        let what = format!("{} {}", log.case, log.folder);
        let root = copy_of(&log.case);
        let before = tree(root.path());
        let events = run(root.path(), &["events", &log.id]);
        let salvage = run(root.path(), &["salvage", &log.id]);
        let rows = run(root.path(), &["rows", &log.id]);
        let whole = match log.figures["outcome"].as_str().unwrap() {
            "ok" | "torn-tail" | "ok-or-limit" => Some(&log.figures["events"]),
            _ => None,
        };
        let readable = whole.or(log.figures.get("salvage_events"));
        if let Some(count) = readable.and_then(Value::as_u64) {
            assert_eq!(seqs(&salvage.out), (0..count).collect::<Vec<_>>(), "{what}");
            assert_eq!(salvage.code, 0, "{what}");
            assert_eq!(seqs(&events.out), seqs(&salvage.out), "{what}");
        }
        match log.figures["outcome"].as_str().unwrap() {
            "ok" | "torn-tail" | "ok-or-limit" => {
                assert_eq!((events.code, events.err.as_str()), (0, ""), "{what}");
                assert_eq!(salvage.err, "", "{what}");
            }
            "corrupt" => {
                assert_eq!((events.code, &events.error()["code"]), (5, &"SESSION_CORRUPT".into()), "{what}");
                assert_eq!(salvage.error()["code"], "SESSION_CORRUPT", "{what}");
            }
            "unsupported" => assert_eq!((events.code, salvage.code), (6, 6), "{what}"),
            "conflict" => assert_eq!((events.code, salvage.code, rows.code), (5, 5, 5), "{what}"),
            other => panic!("{what}: {other}"),
        }
        if log.figures["outcome"] != "conflict" {
            assert_eq!(rows.code, 0, "{what}: {}", rows.err);
        }
        assert!(tree(root.path()) == before, "{what}: reading changed something");
    }
}

#[test]
fn the_first_append_after_a_torn_tail_cuts_puts_back_and_saves_aside() {
    let torn: Vec<_> = logs().into_iter().filter(|log| log.figures["outcome"] == "torn-tail").collect();
    assert!(torn.len() > 15, "{}", torn.len());
    for log in torn {
        let what = format!("{} {}", log.case, log.folder);
        let root = copy_of(&log.case);
        let folder = root.path().join(&log.folder);
        let file =
            folder.join(if log.case.contains("zstd") { "session.v4.jsonl.zstd" } else { "session.v4.jsonl" });
        let before = std::fs::read(&file).unwrap();
        let events = run(root.path(), &["events", &log.id]).out;
        let count = log.figures["events"].as_u64().unwrap();

        let ran =
            run_with(root.path(), &["append", &log.id], "{\"type\":\"plugin:test/mark\",\"data\":{}}\n");
        assert_eq!(ran.code, 0, "{what}: {}", ran.err);
        assert_eq!(ran.lines()[0]["flushed"], count, "{what}");
        assert_eq!(ran.lines()[1]["seq"], count + 1, "{what}");

        let keep = usize::try_from(log.figures["keep_bytes"].as_u64().unwrap()).unwrap();
        let after = std::fs::read(&file).unwrap();
        assert_eq!(after[..keep], before[..keep], "{what}");
        let now = run(root.path(), &["events", &log.id]).out;
        assert!(now.starts_with(&events), "{what}: an event changed");
        assert_eq!(now.lines().count() as u64, count + 1, "{what}");
        let judged = run(root.path(), &["verify", &log.id]).lines().remove(0);
        assert_eq!((&judged["outcome"], &judged["events"]), (&"ok".into(), &(count + 1).into()), "{what}");
        let rows = run(root.path(), &["rows", &log.id]).lines();
        assert!(rows.iter().all(|row| row.get("problem").is_none()), "{what}: {rows:?}");
        if log.figures["saved_aside"] == true {
            let is_copy = |name: &str| name.starts_with(&format!("session.cut-{keep}-"));
            let copies: Vec<_> = std::fs::read_dir(&folder)
                .unwrap()
                .map(|entry| entry.unwrap())
                .filter(|entry| is_copy(entry.file_name().to_str().unwrap()))
                .collect();
            assert_eq!(copies.len(), 1, "{what}");
            assert_eq!(std::fs::read(copies[0].path()).unwrap(), before[keep..], "{what}");
        }
    }
}

#[test]
fn no_append_reaches_a_log_that_cannot_be_read_whole() {
    for log in logs() {
        let outcome = log.figures["outcome"].as_str().unwrap();
        if !matches!(outcome, "corrupt" | "unsupported" | "conflict") {
            continue;
        }
        let root = copy_of(&log.case);
        let ran = run_with(
            root.path(),
            &["append", &log.id, "--create"],
            "{\"type\":\"plugin:test/mark\",\"data\":{}}\n",
        );
        let code = if outcome == "unsupported" { 6 } else { 5 };
        assert_eq!(ran.code, code, "{} {}: {}", log.case, log.folder, ran.err);
        let mut after = tree(root.path());
        // A writer that looked leaves its empty lock file, and nothing else.
        after.retain(|path, bytes| {
            !(path.ends_with("session.lock") && bytes.as_ref().is_some_and(Vec::is_empty))
        });
        let before = copy_of(&log.case);
        let relative = |tree: std::collections::BTreeMap<std::path::PathBuf, Option<Vec<u8>>>,
                        root: &Path| {
            tree.into_iter()
                .map(|(path, bytes)| (path.strip_prefix(root).unwrap().to_owned(), bytes))
                .collect::<Vec<_>>()
        };
        assert!(
            relative(after, root.path()) == relative(tree(before.path()), before.path()),
            "{} {}: an append changed something",
            log.case,
            log.folder
        );
    }
}

#[test]
fn what_is_salvaged_goes_on_in_a_new_session() {
    for (case, id) in [
        ("21-raw-seq-gap", "s"),
        ("31-zstd-damaged-complete-frame", "bad-checksum-last"),
        ("32-zstd-trailing-garbage", "garbage-text"),
    ] {
        let root = copy_of(case);
        let salvaged = run(root.path(), &["salvage", id]).out;
        let count = salvaged.lines().count() as u64;
        assert!(count > 0, "{case}");
        let ran =
            run_with(root.path(), &["append", "new", "--create", "--cwd", "/home/user/project"], &salvaged);
        assert_eq!((ran.code, ran.err.as_str()), (0, ""), "{case}");
        assert_eq!(ran.lines().last().unwrap()["seq"], count, "{case}");
        assert_eq!(run(root.path(), &["salvage", "new"]).out, salvaged, "{case}");
        assert_eq!(run(root.path(), &["verify", "new"]).lines()[0]["outcome"], "ok", "{case}");
    }
}

#[test]
fn salvage_of_everything_marks_what_stands_after_the_damage() {
    let root = copy_of("31-zstd-damaged-complete-frame");
    let lines = run(root.path(), &["salvage", "bad-checksum", "--all"]).lines();
    let (before, after): (Vec<_>, Vec<_>) = lines.iter().partition(|line| line.get("after").is_none());
    assert_eq!(before.len(), 4);
    assert!(after.iter().all(|line| line["after"] == true));
    assert_eq!(after.last().unwrap()["seq"], 15);
}
