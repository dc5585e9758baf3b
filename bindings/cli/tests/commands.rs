//! The commands by themselves: output, exit codes, pipes, signals, two writers.

mod common;

use common::{Ran, command, copy_of, finish, run, run_with, start, tree};
use serde_json::Value;
use std::io::{BufRead, BufReader, Read, Write};
use std::process::Command;

const MARK: &str = "{\"type\":\"plugin:test/mark\",\"data\":{}}\n";

#[test]
fn a_created_session_is_on_the_disk_and_listed() {
    let root = tempfile::tempdir().unwrap();
    let ran = run(
        root.path(),
        &[
            "create",
            "--id",
            "s",
            "--cwd",
            "/repo",
            "--header",
            "{\"agentPreset\":\"minimal\"}",
            "--encoding",
            "none",
        ],
    );
    assert_eq!((ran.code, ran.out.as_str()), (0, "{\"id\":\"s\"}\n"));
    assert!(root.path().join("--repo--/s/session.v4.jsonl").is_file());
    let listed = run(root.path(), &["list"]).lines();
    assert_eq!(listed.len(), 1);
    assert_eq!(listed[0]["header"]["agentPreset"], "minimal");
    assert_eq!(listed[0]["formatStatus"], "current");
    assert!(listed[0]["sizeBytes"].is_u64() && listed[0]["revision"].is_string());
    assert_eq!(run(root.path(), &["stat", "s"]).lines(), listed);
    assert_eq!(run(root.path(), &["create", "--id", "s"]).code, 2);
    let minted = run(root.path(), &["create"]).lines()[0]["id"].as_str().unwrap().to_owned();
    assert!(minted.starts_with("session-"), "{minted}");
    // The root is raw by now, and stays so.
    assert_eq!(run(root.path(), &["create", "--encoding", "zstd"]).code, 5);
}

#[test]
fn what_a_person_is_shown_moves_no_terminal_and_json_keeps_every_character() {
    let root = tempfile::tempdir().unwrap();
    let id = "a\u{1b}[2J\u{9b}b";
    assert_eq!(run(root.path(), &["create", "--id", id, "--cwd", "/\u{1b}]0;x\u{7}"]).code, 0);
    assert_eq!(run_with(root.path(), &["append", id], MARK).code, 0);
    for arguments in [&["list"][..], &["stat", id], &["events", id], &["rows", id], &["verify"], &["stats"]] {
        let mut program = command(root.path(), arguments);
        let output = program.output().unwrap();
        let shown = String::from_utf8(output.stdout).unwrap();
        assert!(output.status.success() && !shown.is_empty(), "{arguments:?}: {shown}");
        assert!(!shown.contains(|it: char| it.is_control() && it != '\n'), "{arguments:?}: {shown:?}");
    }
    assert_eq!(run(root.path(), &["list"]).lines()[0]["header"]["id"], id);
}

#[test]
fn a_root_that_can_never_be_one_is_told_so() {
    let folder = tempfile::tempdir().unwrap();
    let link = folder.path().join("link");
    std::os::unix::fs::symlink(folder.path().join("gone"), &link).unwrap();
    let ran = run(&link, &["list"]);
    assert_eq!(ran.code, 7);
    assert!(ran.err.contains("symbolic link whose target is not there"), "{}", ran.err);
    // A link to a folder is that folder.
    std::fs::create_dir(folder.path().join("gone")).unwrap();
    assert_eq!(run(&link, &["list"]).code, 0);
}

#[test]
fn list_gives_readable_sessions_newest_first_and_names_the_others() {
    let root = copy_of("36-root-with-one-headless-log");
    let lines = run(root.path(), &["list"]).lines();
    assert_eq!(lines.len(), 3);
    let created: Vec<_> =
        lines[..2].iter().map(|line| line["header"]["createdAt"].as_u64().unwrap()).collect();
    assert!(created.is_sorted_by(|one, other| one >= other));
    assert_eq!(lines[2]["problem"]["id"], "beta");
    assert_eq!(lines[2]["problem"]["code"], "SESSION_CORRUPT");
    assert!(lines[2]["problem"]["path"].is_string() && lines[2]["problem"]["message"].is_string());
}

#[test]
fn a_range_of_events_is_what_was_asked_for() {
    let root = copy_of("00-good-zstd");
    let seqs = |arguments: &[&str]| -> Vec<u64> {
        run(root.path(), arguments).lines().iter().map(|line| line["seq"].as_u64().unwrap()).collect()
    };
    assert_eq!(seqs(&["events", "good", "--from", "3", "--limit", "2"]), [3, 4]);
    assert_eq!(seqs(&["events", "good", "--newest", "2"]), [14, 15]);
    assert_eq!(seqs(&["events", "good", "--from", "99"]), [0_u64; 0]);
    let with_header = run(root.path(), &["events", "good", "--header", "--limit", "1"]).lines();
    assert_eq!((&with_header[0]["type"], with_header.len()), (&Value::from("session"), 2));
}

#[test]
fn source_ranges_are_expanded_in_events() {
    let root = copy_of("43-source-event-ranges");
    let lines = run(root.path(), &["events", "range-and-single"]).lines();
    let expanded = serde_json::json!([3, 4, 5, 6, 7, 9, 12]);
    assert!(lines.iter().any(|line| line["sourceEventSeqs"] == expanded), "{lines:?}");
}

#[test]
fn each_kind_of_failure_has_its_exit_code_and_its_object() {
    let good = copy_of("00-good-raw");
    let of = |ran: &Ran| (ran.code, ran.error()["code"].as_str().unwrap().to_owned());
    let is = |code: i32, name: &str| (code, name.to_owned());
    for arguments in [
        ["stat", "none"],
        ["events", "none"],
        ["rows", "none"],
        ["salvage", "none"],
        ["verify", "none"],
        ["stats", "none"],
        ["append", "none"],
        ["surface", "none"],
        ["messages", "none"],
        ["closers", "none"],
        ["resume", "none"],
        ["fork", "none"],
    ] {
        assert_eq!(of(&run(good.path(), &arguments)), is(3, "SESSION_NOT_FOUND"), "{arguments:?}");
    }
    for arguments in [
        &["events", "good", "--balanced", "--newest", "1"][..],
        &["events", "good", "--tolerant"],
        &["fork", "good", "--id", ""],
        &["fork", "good", "--at", "-1"],
        &["events"],
        &["append", "good", "--flush-every", "0"],
    ] {
        assert_eq!(of(&run(good.path(), arguments)), is(2, "INVALID_ARGUMENT"), "{arguments:?}");
    }
    assert_eq!(of(&run(good.path(), &["create", "--cwd", "relative"])), is(2, "INVALID_ARGUMENT"));
    assert_eq!(
        of(&run_with(good.path(), &["append", "good"], "{\"type\":\"no/such\",\"data\":1}\n")),
        is(2, "EVENT_REFUSED")
    );
    assert_eq!(
        of(&run_with(good.path(), &["append", "good"], "{\"type\":\"plugin:a\",\"data\":-0}\n")),
        is(2, "NOT_LOSSLESS_JSON")
    );
    let file = good.path().join("--home-user-project--/good/session.v4.jsonl");
    assert_eq!(of(&run(&file, &["list"])), is(7, "IO"));
    assert_eq!(of(&run(copy_of("21-raw-seq-gap").path(), &["events", "s"])), is(5, "SESSION_CORRUPT"));
    assert_eq!(
        of(&run(copy_of("37-raw-and-zstd-side-by-side").path(), &["stat", "s"])),
        is(5, "SESSION_CONFLICT")
    );
    assert_eq!(of(&run(copy_of("19-future-generation").path(), &["stat", "s"])), is(6, "FORMAT_UNSUPPORTED"));
}

#[test]
fn without_json_an_error_is_one_line() {
    let root = tempfile::tempdir().unwrap();
    for arguments in [&["stat", "none"][..], &["events"], &["nonsense"]] {
        let ran = finish(start(root.path(), arguments), "");
        assert_eq!((ran.err.lines().count(), ran.out.as_str()), (1, ""), "{ran:?}");
        assert!(ran.err.starts_with("dsh-session: "), "{ran:?}");
    }
}

#[test]
fn people_get_text_and_no_progress_where_there_is_no_terminal() {
    let root = copy_of("36-root-with-one-headless-log");
    for arguments in
        [&["list"][..], &["stat", "alpha"], &["events", "alpha"], &["rows", "beta"], &["stats"], &["verify"]]
    {
        let ran = finish(start(root.path(), arguments), "");
        assert!(!ran.out.is_empty() && ran.err.is_empty(), "{arguments:?}: {ran:?}");
    }
}

#[test]
fn append_flushes_as_it_goes_and_stops_at_the_first_refused_line() {
    let root = tempfile::tempdir().unwrap();
    let input = format!("{MARK}{MARK}{MARK}{MARK}{MARK}");
    let ran = run_with(root.path(), &["append", "s", "--create", "--flush-every", "2"], &input);
    assert_eq!(ran.out, "{\"flushed\":1}\n{\"flushed\":3}\n{\"flushed\":4}\n{\"seq\":5}\n");
    for (bad, input) in [("\n", 2), ("{\"type\":\"plugin:a\",\"data\":1,\"seq\":9}\n", 2), ("{oops\n", 2)] {
        let before = run(root.path(), &["events", "s"]).lines().len();
        let ran = run_with(root.path(), &["append", "s"], &format!("{MARK}{bad}{MARK}"));
        assert_eq!((ran.code, &ran.error()["input"]), (2, &Value::from(input)), "{bad}: {ran:?}");
        assert_eq!(ran.lines().last().unwrap()["flushed"], before, "{bad}");
        assert_eq!(run(root.path(), &["events", "s"]).lines().len(), before + 1, "{bad}");
    }
}

#[test]
fn an_empty_input_makes_an_empty_session() {
    let root = tempfile::tempdir().unwrap();
    assert_eq!(run(root.path(), &["append", "s", "--create"]).out, "{\"seq\":0}\n");
    assert_eq!(run(root.path(), &["verify", "s"]).lines()[0]["events"], 0);
}

#[test]
fn a_second_writer_is_refused_and_told_who_the_first_is() {
    let root = tempfile::tempdir().unwrap();
    let mut first = start(root.path(), &["--json", "append", "s", "--create", "--flush-every", "1"]);
    let mut input = first.stdin.take().unwrap();
    let mut output = BufReader::new(first.stdout.take().unwrap());
    input.write_all(MARK.as_bytes()).unwrap();
    let mut line = String::new();
    output.read_line(&mut line).unwrap();
    assert_eq!(line, "{\"flushed\":0}\n");

    let second = run_with(root.path(), &["append", "s"], MARK);
    assert_eq!((second.code, &second.error()["code"]), (4, &Value::from("SESSION_ALREADY_OWNED")));
    let owner = second.error()["owner"].as_str().unwrap().to_owned();
    assert!(owner.contains(&first.id().to_string()), "{owner}");
    assert_eq!(run(root.path(), &["events", "s"]).lines().len(), 1, "reading works beside a writer");

    drop(input);
    line.clear();
    output.read_line(&mut line).unwrap();
    assert_eq!(line, "{\"seq\":1}\n");
    assert!(first.wait().unwrap().success());
    assert_eq!(run_with(root.path(), &["append", "s"], MARK).code, 0);
}

#[test]
fn an_interrupt_cancels_and_keeps_what_was_accepted() {
    let root = tempfile::tempdir().unwrap();
    let mut child = start(root.path(), &["--json", "append", "s", "--create", "--flush-every", "2"]);
    let mut input = child.stdin.take().unwrap();
    let mut output = BufReader::new(child.stdout.take().unwrap());
    input.write_all(format!("{MARK}{MARK}").as_bytes()).unwrap();
    let mut line = String::new();
    output.read_line(&mut line).unwrap();
    assert_eq!(line, "{\"flushed\":1}\n");
    let killed = Command::new("kill").args(["-INT", &child.id().to_string()]).status().unwrap();
    assert!(killed.success());
    let code = child.wait().unwrap().code();
    let mut err = String::new();
    child.stderr.take().unwrap().read_to_string(&mut err).unwrap();
    assert_eq!(code, Some(8), "{err}");
    assert!(err.contains("\"code\":\"CANCELLED\""), "{err}");
    assert_eq!(run(root.path(), &["verify", "s"]).lines()[0]["events"], 2);
}

#[test]
fn a_closed_pipe_ends_the_output_quietly() {
    let root = copy_of("29-zstd-5000-one-event-frames");
    let mut child = start(root.path(), &["--json", "events", "s"]);
    let mut output = BufReader::new(child.stdout.take().unwrap());
    output.read_line(&mut String::new()).unwrap();
    drop(output);
    let ran = child.wait_with_output().unwrap();
    assert_eq!((ran.status.code(), ran.stderr.as_slice()), (Some(0), &b""[..]));
}

#[test]
fn the_root_is_that_of_dsh_home_where_none_is_named() {
    let home = tempfile::tempdir().unwrap();
    let program = || Command::new(env!("CARGO_BIN_EXE_dsh-session"));
    let made = program().env("DSH_HOME", home.path()).args(["create", "--id", "a"]).output().unwrap();
    assert!(made.status.success());
    assert!(home.path().join("sessions/_no-cwd/a").is_dir());
    let made = program()
        .env("DSH_HOME", "")
        .env("HOME", home.path())
        .args(["create", "--id", "b"])
        .output()
        .unwrap();
    assert!(made.status.success());
    assert!(home.path().join(".dsh/sessions/_no-cwd/b").is_dir());
}

#[test]
fn stats_of_a_root_sum_up_its_sessions() {
    let root = copy_of("36-root-with-one-headless-log");
    let before = tree(root.path());
    let stats = run(root.path(), &["--no-index", "stats"]).lines().remove(0);
    assert_eq!(
        (&stats["sessions"], &stats["unreadable"], &stats["events"]),
        (&2.into(), &1.into(), &32.into())
    );
    assert_eq!(stats["largestRows"].as_array().unwrap().len(), 5);
    assert!(tree(root.path()) == before);
}

#[test]
fn help_and_version_are_no_failures() {
    let root = tempfile::tempdir().unwrap();
    for arguments in [["--help"], ["--version"]] {
        let output = command(root.path(), &arguments).output().unwrap();
        assert!(output.status.success() && !output.stdout.is_empty(), "{arguments:?}");
    }
}

#[test]
fn a_deleted_session_is_gone_and_one_in_the_trash_is_said_where() {
    let root = copy_of("36-root-with-one-headless-log");
    let gone = run(root.path(), &["delete", "alpha"]).lines();
    assert_eq!(gone, [serde_json::json!({"id": "alpha"})]);
    // A damaged one too: it is what the id names.
    let aside = run(root.path(), &["delete", "beta", "--trash"]).lines();
    assert!(std::path::Path::new(aside[0]["path"].as_str().unwrap()).join("session.v4.jsonl.zstd").exists());
    let ids: Vec<_> =
        run(root.path(), &["list"]).lines().iter().map(|line| line["header"]["id"].clone()).collect();
    assert_eq!(ids, ["gamma"]);
    assert_eq!(run(root.path(), &["delete", "alpha"]).code, 3);
}

#[test]
fn append_takes_every_line_also_when_nobody_reads_what_it_says() {
    let root = tempfile::tempdir().unwrap();
    let mut child = command(root.path(), &["append", "s", "--create", "--flush-every", "1"]);
    let mut child = child
        .stdin(std::process::Stdio::piped())
        .stdout(std::process::Stdio::piped())
        .stderr(std::process::Stdio::piped())
        .spawn()
        .unwrap();
    drop(child.stdout.take());
    let mut input = child.stdin.take().unwrap();
    for _ in 0..50 {
        std::io::Write::write_all(&mut input, b"{\"type\":\"plugin:a/b\",\"data\":1}\n").unwrap();
    }
    drop(input);
    assert_eq!(child.wait().unwrap().code(), Some(0));
    assert_eq!(run(root.path(), &["events", "s"]).lines().len(), 50);
}

/// A turn that nobody ended: a message, a call that was started, no result.
const OPEN_TURN: &str = concat!(
    r#"{"type":"turn/start","data":{"turn":1}}"#,
    "\n",
    r#"{"type":"user/message","data":{"id":"u1","role":"user","source":{"kind":"user"},"content":[{"type":"text","text":"Hello"}]},"surfaceOp":"append"}"#,
    "\n",
);

/// A root with one session, `s`, whose turn was interrupted.
fn interrupted() -> tempfile::TempDir {
    let root = tempfile::tempdir().unwrap();
    let ran = run_with(root.path(), &["append", "s", "--create", "--cwd", "/repo"], OPEN_TURN);
    assert_eq!(ran.code, 0, "{ran:?}");
    root
}

fn kinds(ran: &Ran) -> Vec<String> {
    assert_eq!(ran.code, 0, "{ran:?}");
    ran.lines().iter().map(|line| line["type"].as_str().unwrap().to_owned()).collect()
}

#[test]
fn the_surface_and_the_messages_are_those_of_the_log_as_stored() {
    let root = interrupted();
    let before = tree(root.path());
    let surface = run(root.path(), &["surface", "s"]);
    assert_eq!((kinds(&surface), &surface.lines()[0]["seq"]), (vec!["user/message".to_owned()], &1.into()));
    let messages = run(root.path(), &["messages", "s"]).lines();
    assert_eq!((messages.len(), &messages[0]["id"]), (1, &"u1".into()));
    assert_eq!(run(root.path(), &["messages", "s", "--balanced"]).lines(), messages);
    assert_eq!(kinds(&run(root.path(), &["surface", "s", "--balanced"])), ["user/message"]);
    assert!(tree(root.path()) == before, "looking changes nothing");
}

#[test]
fn a_call_without_a_result_is_answered_in_memory_only() {
    let vectors = std::fs::read(common::cases().join("../vectors/session-closers.json")).unwrap();
    let vectors: Value = serde_json::from_slice(&vectors).unwrap();
    let mut compared = 0;
    for case in vectors["cases"].as_array().unwrap().iter().filter(|case| case["cause"] == "interrupted") {
        let root = tempfile::tempdir().unwrap();
        let rows: String = case["events"].as_array().unwrap().iter().map(|row| format!("{row}\n")).collect();
        // A case that is no whole log, such as a window, cannot stand in one.
        if run_with(root.path(), &["append", "s", "--create"], &rows).code != 0 {
            continue;
        }
        let expected = case["expect"].as_array().unwrap();
        let closers = run(root.path(), &["closers", "s"]).lines();
        assert_eq!(&closers, expected, "{}", case["id"]);
        let stored = run(root.path(), &["events", "s"]).lines();
        let balanced = run(root.path(), &["events", "s", "--balanced"]).lines();
        assert_eq!(balanced, [stored.clone(), closers.clone()].concat(), "{}", case["id"]);
        let from = stored.len().to_string();
        assert_eq!(run(root.path(), &["events", "s", "--balanced", "--from", &from]).lines(), closers);
        let resumed = run(root.path(), &["resume", "s"]).lines();
        assert_eq!(resumed[0]["closers"], closers.len(), "{}", case["id"]);
        let after = run(root.path(), &["events", "s"]).lines();
        assert_eq!(after[..balanced.len()], balanced, "{}", case["id"]);
        assert_eq!(resumed[0]["seq"], after.len(), "{}", case["id"]);
        assert_eq!(after.last().unwrap()["type"], "session/end-seed");
        compared += 1;
    }
    assert!(compared >= 3, "only {compared} cases make a log");
}

#[test]
fn a_resume_closes_the_turn_once_and_verifies() {
    let root = interrupted();
    assert_eq!(run(root.path(), &["resume", "s"]).lines(), [serde_json::json!({"closers": 1, "seq": 4})]);
    assert_eq!(run(root.path(), &["resume", "s"]).lines(), [serde_json::json!({"closers": 0, "seq": 4})]);
    assert_eq!(
        kinds(&run(root.path(), &["events", "s"])),
        ["turn/start", "user/message", "turn/end", "session/end-seed"]
    );
    assert_eq!(run(root.path(), &["closers", "s"]).out, "");
    assert_eq!(run(root.path(), &["verify", "s"]).lines()[0]["outcome"], "ok");
}

#[test]
fn a_turn_that_a_live_program_writes_is_left_open() {
    let root = tempfile::tempdir().unwrap();
    let mut child = start(root.path(), &["--json", "append", "s", "--create", "--flush-every", "2"]);
    let mut input = child.stdin.take().unwrap();
    let mut output = BufReader::new(child.stdout.take().unwrap());
    input.write_all(OPEN_TURN.as_bytes()).unwrap();
    let mut line = String::new();
    output.read_line(&mut line).unwrap();
    assert_eq!(line, "{\"flushed\":1}\n");
    assert_eq!(kinds(&run(root.path(), &["events", "s", "--balanced"])), ["turn/start", "user/message"]);
    assert_eq!(run(root.path(), &["closers", "s"]).out, "");
    // Nor is it closed where the program left no note: its lock is seen.
    let notes: Vec<_> =
        tree(root.path()).into_keys().filter(|path| path.ends_with("session.owner")).collect();
    assert_eq!(notes.len(), 1);
    std::fs::remove_file(&notes[0]).unwrap();
    assert_eq!(kinds(&run(root.path(), &["events", "s", "--balanced"])), ["turn/start", "user/message"]);
    assert_eq!(run(root.path(), &["closers", "s"]).out, "");
    let refused = run(root.path(), &["resume", "s"]);
    assert_eq!((refused.code, refused.error()["code"].as_str()), (4, Some("SESSION_ALREADY_OWNED")));
    // A fork only reads: it goes on from what is there.
    assert_eq!(run(root.path(), &["fork", "s", "--at", "1", "--id", "child"]).code, 0);
    drop(input);
    assert_eq!(child.wait().unwrap().code(), Some(0));
    assert_eq!(kinds(&run(root.path(), &["closers", "s"])), ["turn/end"]);
}

#[test]
fn a_fork_begins_with_the_events_of_its_parent() {
    let root = interrupted();
    let unavailable = run(root.path(), &["fork", "s"]);
    assert_eq!((unavailable.code, unavailable.error()["code"].as_str()), (3, Some("FORK_UNAVAILABLE")));
    assert_eq!(run(root.path(), &["fork", "s", "--at", "2"]).code, 3);
    let before = run(root.path(), &["events", "s"]).out;
    let forked = run(root.path(), &["fork", "s", "--at", "1", "--id", "child"]).lines();
    assert_eq!(forked, [serde_json::json!({"id": "child", "inheritedEventCount": 2})]);
    let child = run(root.path(), &["events", "child"]);
    assert!(child.out.starts_with(&before));
    assert_eq!(kinds(&child), ["turn/start", "user/message", "session/end-seed", "turn/end"]);
    assert_eq!(run(root.path(), &["stat", "child"]).lines()[0]["header"]["cwd"], "/repo");
    assert_eq!(run(root.path(), &["fork", "s", "--at", "1", "--id", "child"]).code, 2);
    assert_eq!(run(root.path(), &["resume", "s"]).code, 0);
    // Now a turn has ended: without `--at` its end, and the marker after it, is where the child begins.
    let minted = run(root.path(), &["fork", "s"]).lines();
    assert_eq!(minted[0]["inheritedEventCount"], 4);
    assert!(minted[0]["id"].as_str().unwrap().starts_with("session-"));
    assert_eq!(run(root.path(), &["events", "s"]).lines().len(), 4);
    for line in run(root.path(), &["verify"]).lines() {
        assert_eq!(line["outcome"], "ok", "{line}");
    }
}

#[test]
fn append_refuses_what_the_session_rules_refuse_and_keeps_what_came_before() {
    let root = interrupted();
    let ran = run_with(
        root.path(),
        &["append", "s"],
        "{\"type\":\"plugin:a/b\",\"data\":1}\n{\"type\":\"turn/start\",\"data\":{\"turn\":2}}\n",
    );
    assert_eq!(
        (ran.code, ran.error()["code"].as_str(), ran.error()["input"].as_u64()),
        (2, Some("EVENT_REFUSED"), Some(2))
    );
    assert!(ran.error()["rule"].is_string(), "{ran:?}");
    assert_eq!(run(root.path(), &["events", "s"]).lines().len(), 3);
}
