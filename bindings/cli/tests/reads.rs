//! `trace`, `lineage`, `title`, `filter`: results, and exit codes of what is not there.

mod common;

use common::{command, run, run_with};
use serde_json::json;

/// A root with a parent that has a title and an interrupted turn, and a child.
fn root() -> tempfile::TempDir {
    let root = tempfile::tempdir().unwrap();
    let rows = [
        json!({"type": "turn/start", "data": {"turn": 1}}),
        json!({"type": "session/title", "data": {"title": "Ledger port", "messageSeqs": [], "source": {"kind": "user"}}}),
    ];
    let input = rows.map(|row| format!("{row}\n")).concat();
    assert_eq!(run_with(root.path(), &["append", "parent", "--create", "--cwd", "/repo"], &input).code, 0);
    let header = r#"{"parentSession":"parent"}"#;
    assert_eq!(run(root.path(), &["create", "--id", "child", "--header", header]).code, 0);
    root
}

#[test]
fn the_exact_reads_print_their_result_objects() {
    let root = root();
    let trace = run(root.path(), &["trace", "parent", "1"]).lines().remove(0);
    assert_eq!((&trace["target"]["type"], &trace["derivedEventSeqs"]), (&json!("session/title"), &json!([])));
    let lineage = run(root.path(), &["lineage", "parent"]).lines().remove(0);
    assert_eq!(lineage["descendants"][0]["session"]["header"]["id"], "child");
    assert_eq!(lineage["complete"], true);
    let title = run(root.path(), &["title", "parent"]).lines().remove(0);
    assert_eq!(title["title"]["title"], "Ledger port");
    assert!(run(root.path(), &["title", "child"]).lines()[0].get("title").is_none());
    let sessions = run(root.path(), &["filter", "--where", r#"[{"kind":"cwd","values":["/repo"]}]"#]).lines();
    assert_eq!((sessions.len(), &sessions[0]["header"]["id"]), (1, &json!("parent")));
    // The word of the event that closes the interrupted turn in memory.
    let events =
        run(root.path(), &["filter", "parent", "--where", r#"[{"kind":"text","text":"Interrupted"}]"#]);
    assert_eq!((events.lines().len(), &events.lines()[0]["seq"]), (1, &json!(2)));
}

#[test]
fn what_is_not_there_or_no_filter_has_its_exit_code() {
    let root = root();
    for (arguments, code, name) in [
        (&["trace", "nobody", "0"][..], 3, "SESSION_QUERY_SESSION_NOT_FOUND"),
        (&["trace", "parent", "9"], 3, "SESSION_QUERY_EVENT_NOT_FOUND"),
        (&["lineage", "nobody"], 3, "SESSION_QUERY_SESSION_NOT_FOUND"),
        (&["title", "nobody"], 3, "SESSION_QUERY_SESSION_NOT_FOUND"),
        (&["filter", "--where", "{}"], 2, "SESSION_QUERY_INVALID_FILTER"),
        (
            &["filter", "parent", "--where", r#"[{"kind":"id","values":[]}]"#],
            2,
            "SESSION_QUERY_INVALID_FILTER",
        ),
    ] {
        let ran = run(root.path(), arguments);
        assert_eq!((ran.code, &ran.error()["code"]), (code, &json!(name)), "{arguments:?}");
    }
}

#[test]
fn a_person_is_shown_text() {
    let root = root();
    for (arguments, expected) in [
        (&["trace", "parent", "1"][..], "session/title  log-only"),
        (&["lineage", "child"], "child  <"),
        (&["title", "parent"], "Ledger port"),
        (&["filter", "--where", "[]"], "parent  /repo"),
        (&["filter", "parent", "--where", "[]"], "turn/end  interrupted"),
    ] {
        let output = command(root.path(), arguments).output().unwrap();
        let shown = String::from_utf8(output.stdout).unwrap();
        assert!(output.status.success() && shown.contains(expected), "{arguments:?}: {shown}");
    }
}
