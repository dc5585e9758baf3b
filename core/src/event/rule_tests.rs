//! The rules of a single row: the vectors, and each rule broken and nearly broken.

use super::breach::Stage;
use super::facts::Payload;
use super::verdict::{self, judge_single};
use crate::event::{Event, Span, Vocabulary};
use crate::json::DEPTH_MAX_DEFAULT;
use proptest::prelude::*;
use serde_json::{Value, json};
use std::sync::Arc;

/// What becomes of a row: the rule it breaks and whether it is unsupported; `BAD` for one that is no good row.
fn judged(row: &str, vocabulary: &Vocabulary) -> Option<(Stage, &'static str, bool)> {
    let buffer = Arc::new(format!("before\n{row}\nafter"));
    let start = "before\n".len();
    let span = Span::new(start, start + row.len());
    let (outcome, verdict) = verdict::parse(&buffer, span, DEPTH_MAX_DEFAULT, &mut Payload::default());
    let told = |breach: &super::breach::Breach| (breach.stage(), breach.rule(), breach.is_unsupported());
    if let Some(breach) = &verdict.breach {
        return Some(told(breach));
    }
    let Ok(envelope) = outcome else { return Some((Stage::Acceptance, "BAD", false)) };
    let event = Event::new(Arc::clone(&buffer), span, envelope);
    judge_single(&event, &verdict, vocabulary).map(|breach| told(&breach))
}

fn rule(row: &Value) -> Option<&'static str> {
    judged(&row.to_string(), &Vocabulary::default()).map(|(_, rule, _)| rule)
}

fn cases(text: &str) -> Vec<Value> {
    let vectors: Value = serde_json::from_str(text).unwrap();
    vectors["cases"].as_array().unwrap().clone()
}

#[test]
fn row_admission_is_as_the_vectors_say() {
    for case in cases(include_str!("../../../tests/vectors/format-row-admission.json")) {
        let found = judged(&case["row"].to_string(), &Vocabulary::default())
            .filter(|(stage, ..)| *stage == Stage::Admission);
        let outcome = match found {
            None => "ok",
            Some((_, _, true)) => "unsupported",
            Some((_, _, false)) => "corrupt",
        };
        assert_eq!(outcome, case["expect"], "{}: {found:?}", case["name"]);
    }
}

#[test]
fn vocabulary_and_acceptance_are_as_the_vectors_say() {
    for case in cases(include_str!("../../../tests/vectors/format-event-adoption.json")) {
        let found = judged(&case["event"].to_string(), &Vocabulary::default());
        let outcome = match found {
            None => "ok",
            Some((_, _, true)) => "unsupported",
            Some((_, _, false)) => "corrupt",
        };
        assert_eq!(outcome, case["expect"], "{}: {found:?}", case["name"]);
    }
}

fn user(message: Value) -> Value {
    json!({"type": "user/message", "seq": 9, "time": 1, "data": message, "surfaceOp": "append"})
}

fn text_message() -> Value {
    json!({"id": "m", "role": "user", "content": [{"type": "text", "text": "t"}], "source": {"kind": "user"}})
}

fn stepped(kind: &str, message: Value) -> Value {
    json!({"type": kind, "seq": 9, "time": 1, "data": {"turn": 1, "step": 1, "message": message},
           "surfaceOp": "append"})
}

fn system() -> Value {
    stepped(
        "system/message",
        json!({"id": "s", "role": "system", "content": [], "source": {"kind": "system-prompt"}}),
    )
}

fn result() -> Value {
    stepped(
        "tool/result",
        json!({"id": "r", "role": "tool", "toolCallId": "c", "content": [{"type": "text", "text": "t"}],
               "source": {"kind": "tool", "callId": "c"}}),
    )
}

fn forked() -> Value {
    let mut row = result();
    row["data"]["message"]["id"] = json!("forked-tool-result-c-9");
    row["data"]["message"]["isError"] = json!(true);
    row["data"]["error"] = json!({"name": "ToolNotStartedError", "code": "TOOL_NOT_STARTED"});
    row
}

fn developer() -> Value {
    let mut row = stepped(
        "developer/message",
        json!({"id": "d", "role": "developer", "source": {"kind": "tool-registry"},
               "content": [{"type": "tool-addition", "toolName": "x"}]}),
    );
    row["data"]["headerSeq"] = json!(3);
    row
}

fn header() -> Value {
    json!({"type": "request/header", "seq": 9, "time": 1, "data": {"reason": "initial", "header": {
        "config": {"provider": "p", "model": "m"}, "tools": [{"name": "x", "deferLoading": true}]}}})
}

fn assistant(stream: Value) -> Value {
    let mut row = stepped(
        "assistant/message",
        json!({"id": "a", "role": "assistant", "content": [],
               "source": {"kind": "model", "provider": "p", "model": "m"}}),
    );
    row["data"]["stream"] = stream;
    row
}

fn plain(kind: &str, data: Value) -> Value {
    json!({"type": kind, "seq": 9, "time": 1, "data": data})
}

/// A row with one value changed, by JSON pointer; `null` removes the member.
fn with(mut row: Value, pointer: &str, value: Value) -> Value {
    let (parent, key) = pointer.rsplit_once('/').unwrap();
    let object = row.pointer_mut(parent).unwrap().as_object_mut().unwrap();
    match value {
        Value::Null => drop(object.remove(key)),
        value => drop(object.insert(key.to_owned(), value)),
    }
    row
}

#[test]
fn rows_that_keep_every_rule_pass() {
    let good = [
        user(text_message()),
        system(),
        result(),
        forked(),
        developer(),
        header(),
        assistant(json!([])),
        // Each of these is one step away from a breach below.
        with(plain("tool/code-dispatch", json!({})), "/ignorable", json!(true)),
        user(with(text_message(), "/source/kind", json!("plugins"))),
        user(with(text_message(), "/content", json!([{"type": "tool-results"}, 3, "tool-result"]))),
        plain("agent/inbox/spliced", json!("any")),
        plain("tool/ptc-dispatch", json!({"content": [{"type": "tool-addition"}]})),
        plain("compaction/summary", json!({"summary": [{"type": "text"}], "rawOutput": "tool-result"})),
        plain("team/message/queued", json!({"message": {"content": [{"type": "tool-removal"}]}})),
        assistant(json!([{"type": "chunk", "chunk": {"type": "block-start", "blockType": "text"}}])),
        assistant(json!([{"type": "raw", "chunk": {"type": "block-start", "blockType": "tool-result"}}])),
        assistant(json!([{"type": "chunk", "chunk": {"type": "block-end", "blockType": "tool-result"}}])),
        with(
            system(),
            "/data/message/content",
            json!([{"type": "new-kind"}, {"type": "tool-call", "id": "c",
            "name": "n", "arguments": ""}]),
        ),
        with(result(), "/data/message/isError", json!(false)),
        with(
            with(forked(), "/data/error/code", json!("OTHER")),
            "/data/message/id",
            json!("forked-tool-result-x"),
        ),
        with(
            with(
                with(forked(), "/surfaceOp", json!({"op": "replace", "startSeq": 4, "endSeq": 4})),
                "/sourceEventSeqs",
                json!([4]),
            ),
            "/data/message/id",
            json!("forked-tool-result-c-4"),
        ),
        with(
            with(developer(), "/data/message/content", json!([{"type": "tool-removal", "toolName": "x"}])),
            "/data/headerSeq",
            Value::Null,
        ),
    ];
    for row in good {
        assert_eq!(rule(&row), None, "{row}");
    }
}

#[test]
fn each_admission_rule_refuses_what_breaks_it() {
    let retired = json!([{"type": "tool-result"}]);
    let change = json!([{"type": "tool-removal", "toolName": "x"}]);
    let end =
        |kind: &str| json!([{"type": "chunk", "chunk": {"type": "block-end", "block": {"type": kind}}}]);
    let start = |kind: &str| json!([{"chunk": {"blockType": kind, "type": "block-start"}, "type": "chunk"}]);
    let image = |side: &str, value: Value| {
        let mut attachment = json!({"attachmentId": "a", "mediaType": "image/png", "bytes": 0, "width": 1, "height": 1,
                                    "originalDimensions": {"width": 1, "height": 1}});
        attachment[side] = value;
        with(system(), "/data/message/content", json!([{"type": "image", "attachment": attachment}]))
    };
    assert_eq!(rule(&image("name", json!("n"))), None);
    let broken = [
        ("R1", plain("tool/code-dispatch", json!({}))),
        ("R1", plain("tool/code-dispatch-start", json!(null))),
        ("R2", plain("request/header", json!(1))),
        ("R2", with(header(), "/data/header", json!([]))),
        ("R2", with(header(), "/data/header/system", json!(false))),
        ("R3", user(with(text_message(), "/source/kind", json!("plugin")))),
        ("R3", with(result(), "/data/message/source/kind", json!("plugin"))),
        ("R3", plain("agent/inbox/spliced", json!({"inserted": [{"source": {"kind": "plugin"}}]}))),
        ("R4", user(with(text_message(), "/role", json!("developer")))),
        ("R4", user(with(text_message(), "/content", change.clone()))),
        ("R4", plain("session/title-llm-request", json!({"messages": [{"content": change.clone()}]}))),
        ("R5", user(with(text_message(), "/content", retired.clone()))),
        ("R5", plain("team/message/queued", json!({"message": {"content": retired.clone()}}))),
        ("R5", plain("compaction/summary", json!({"summary": [], "rawOutput": change}))),
        ("R5", plain("tool/ptc-dispatch", json!({"content": retired.clone()}))),
        ("R5", with(developer(), "/data/message/content", retired.clone())),
        ("R6", assistant(end("tool-addition"))),
        ("R6", assistant(start("tool-removal"))),
        ("R6", plain("assistant/attempt", json!({"turn": 1, "step": 1, "stream": end("tool-result")}))),
        ("R7", with(header(), "/data/header/tools", json!([{"deferLoading": true}, {"deferLoading": null}]))),
        ("R8", with(system(), "/data/step", json!(0))),
        ("R8", with(system(), "/data/message/id", json!(""))),
        ("R8", with(system(), "/data/message/content", json!([3]))),
        ("R8", with(system(), "/data/message/content", json!([{"type": ""}]))),
        ("R8", with(system(), "/data/message/content", json!([{"type": "reasoning"}]))),
        (
            "R8",
            with(
                system(),
                "/data/message/content",
                json!([{"type": "tool-call", "id": "", "name": "n", "arguments": ""}]),
            ),
        ),
        ("R8", with(system(), "/data/message/content", retired.clone())),
        ("R8", image("mediaType", json!("image/bmp"))),
        ("R8", image("originalDimensions", json!({"width": 0, "height": 1}))),
        ("R9", with(result(), "/data/message", json!(3))),
        ("R9", with(result(), "/data/message/toolCallId", json!("d"))),
        ("R9", with(result(), "/data/message/content", retired)),
        ("R9", with(result(), "/data/message/isError", json!("true"))),
        ("R9", with(result(), "/data/error", json!({}))),
        ("R10", with(forked(), "/data/message/id", json!("forked-tool-result-c-09"))),
        ("R10", with(forked(), "/seq", json!(10))),
        ("R10", with(forked(), "/data/error/name", json!("Error"))),
        ("R10", with(forked(), "/data/message/content", json!([]))),
        ("R10", with(forked(), "/surfaceOp", json!({"op": "replace", "startSeq": 4, "endSeq": 4}))),
        ("R11", with(developer(), "/data/headerSeq", Value::Null)),
        ("R11", with(developer(), "/data/turn", json!(0))),
        ("R11", with(developer(), "/data/message/role", json!("user"))),
        ("R11", with(developer(), "/data/message/source", json!({}))),
        ("R11", with(developer(), "/data/message/content", json!([]))),
        (
            "R11",
            with(
                developer(),
                "/data/message/content",
                json!([{"type": "tool-addition", "toolName": "x", "tool": null}]),
            ),
        ),
        (
            "R11",
            with(developer(), "/data/message/content", json!([{"type": "tool-removal", "toolName": ""}])),
        ),
    ];
    for (expected, row) in broken {
        assert_eq!(rule(&row), Some(expected), "{row}");
    }
}

#[test]
fn a_row_that_is_bad_or_oddly_written_is_admitted_by_the_same_rules() {
    let rule = |row: &str| judged(row, &Vocabulary::default()).map(|(_, rule, _)| rule);
    // No good envelope.
    assert_eq!(rule(r#"{"type":"request/header","data":{"header":{"system":1}}}"#), Some("R2"));
    assert_eq!(rule(r#"{"type":"request/header","seq":"x"}"#), Some("R2"));
    // The type behind the data, with escapes, given twice.
    assert_eq!(rule(r#"{"data":{"header":{"system":1}},"type":"request/header"}"#), Some("R2"));
    assert_eq!(
        rule(r#"{"type":"request\/h\u0065ader","d\u0061ta":{"header":{"syst\u0065m":1}}}"#),
        Some("R2")
    );
    assert_eq!(rule(r#"{"type":"plan/mode","data":{"header":1},"type":"request/header"}"#), Some("R2"));
    assert_eq!(rule(r#"{"type":"request/header","data":1,"type":"plan/mode","seq":0,"time":1}"#), None);
    // The last of a repeated key counts, at every level.
    let twice =
        r#"{"type":"request/header","seq":0,"time":1,"data":{"header":{"system":1},"header":{"config":{}}}}"#;
    assert_eq!(rule(twice), None);
    let twice =
        r#"{"type":"request/header","seq":0,"time":1,"data":{"header":1},"data":{"header":{"config":{}}}}"#;
    assert_eq!(rule(twice), None);
    // No type at all, or one that is no string.
    assert_eq!(rule(r#"{"data":{}}"#), Some("BAD"));
    assert_eq!(rule(r#"{"type":7,"seq":0,"time":1,"data":{}}"#), Some("BAD"));
}

#[test]
fn acceptance_tells_the_code_that_an_append_would_be_refused_with() {
    let replace = json!({"op": "replace", "startSeq": 2, "endSeq": 4});
    let broken = [
        ("A3", plain("acme/usage", json!({}))),
        ("HEADER_REASON_INVALID", with(header(), "/data/reason", json!("fallback"))),
        ("SURFACE_OP_REQUIRED", with(user(text_message()), "/surfaceOp", Value::Null)),
        ("SURFACE_OP_INVALID", with(user(text_message()), "/surfaceOp", json!("Append"))),
        (
            "SURFACE_OP_INVALID",
            with(with(user(text_message()), "/surfaceOp", replace.clone()), "/surfaceOp/x", json!(1)),
        ),
        (
            "SURFACE_OP_INVALID",
            with(with(user(text_message()), "/surfaceOp", replace.clone()), "/surfaceOp/endSeq", json!(-1)),
        ),
        (
            "SURFACE_REF_NOT_EARLIER",
            with(with(user(text_message()), "/surfaceOp", replace), "/surfaceOp/endSeq", json!(9)),
        ),
        ("SURFACE_OP_FORBIDDEN", with(plain("plan/mode", json!({})), "/surfaceOp", json!("append"))),
        ("SOURCES_FORBIDDEN", with(plain("plan/mode", json!({})), "/sourceEventSeqs", json!([1]))),
        ("SOURCES_FORBIDDEN", with(assistant(json!([])), "/sourceEventSeqs", json!([1]))),
        ("SOURCES_INVALID", with(user(text_message()), "/sourceEventSeqs", json!([]))),
        ("MESSAGE_SHAPE_INVALID", user(with(text_message(), "/id", json!("")))),
        ("MESSAGE_SHAPE_INVALID", user(with(text_message(), "/role", json!("assistant")))),
        ("MESSAGE_SHAPE_INVALID", user(with(text_message(), "/source", Value::Null))),
        ("MESSAGE_SHAPE_INVALID", user(with(text_message(), "/content", json!("text")))),
        ("MESSAGE_SHAPE_INVALID", user(json!(null))),
        ("MESSAGE_SHAPE_INVALID", with(assistant(json!([])), "/data/message/source/model", json!(""))),
        ("MESSAGE_SHAPE_INVALID", with(system(), "/data/message/source/kind", json!("user"))),
        ("HEADER_EMPTY_TOOLS", with(header(), "/data/header/tools", json!([]))),
        ("HEADER_EMPTY_DEFAULTS", with(header(), "/data/header/adapterDefaults", json!({}))),
    ];
    for (expected, row) in broken {
        assert_eq!(rule(&row), Some(expected), "{row}");
    }
}

#[test]
fn a_registered_type_is_known_and_stays_off_the_surface() {
    let vocabulary = Vocabulary::with_types(["acme/usage"]);
    let row = plain("acme/usage", json!({}));
    assert_eq!(judged(&row.to_string(), &vocabulary), None);
    let placed = with(row.clone(), "/surfaceOp", json!("append")).to_string();
    assert_eq!(judged(&placed, &vocabulary).map(|(_, rule, _)| rule), Some("SURFACE_OP_FORBIDDEN"));
    let ignorable = with(with(row, "/surfaceOp", json!({"any": 1})), "/ignorable", json!(true));
    assert_eq!(rule(&ignorable), None);
}

proptest! {
    #[test]
    fn no_text_makes_the_judges_panic(kind in prop::sample::select(crate::event::KNOWN_TYPES.to_vec()), data in soup()) {
        judged(&format!(r#"{{"type":"{kind}","seq":5,"time":1,"data":{data},"surfaceOp":"append"}}"#), &Vocabulary::default());
        judged(&data, &Vocabulary::default());
    }
}

/// Text that is often JSON and often has the keys that rules look at.
pub(crate) fn soup() -> impl Strategy<Value = String> {
    let keys = [
        "message",
        "content",
        "source",
        "kind",
        "type",
        "id",
        "stream",
        "chunk",
        "block",
        "header",
        "tools",
        "turn",
        "step",
        "error",
        "code",
        "messages",
        "inserted",
        "role",
        "toolCallId",
        "callId",
        "headerSeq",
    ];
    let words = ["plugin", "tool-result", "tool-addition", "text", "developer", "chunk", "block-end", ""];
    let leaf = prop_oneof![
        prop::sample::select(words.to_vec()).prop_map(|word| format!("\"{word}\"")),
        prop::sample::select(vec!["1", "0", "-0", "1e400", "true", "null", "\"\\ud800\"", "}", "[", ","])
            .prop_map(str::to_owned),
    ];
    leaf.prop_recursive(6, 40, 5, move |inner| {
        let member = (prop::sample::select(keys.to_vec()), inner.clone())
            .prop_map(|(key, value)| format!("\"{key}\":{value}"));
        prop_oneof![
            prop::collection::vec(member, 0..5).prop_map(|members| format!("{{{}}}", members.join(","))),
            prop::collection::vec(inner, 0..4).prop_map(|elements| format!("[{}]", elements.join(","))),
        ]
    })
}
