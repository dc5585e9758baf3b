//! Typed views on payloads (`events.md`): all types have one, they read what the original writes, and they say what is malformed.

use dsh_session_core::event::views::{
    AbortReason, ContentBlock, LlmCallConfig, TurnEndReason, UserMessage, VIEWED_TYPES,
};
use dsh_session_core::event::{KNOWN_TYPES, is_plugin_record_type};
use dsh_session_core::{Code, Event};
use serde_json::{Value, json};
use std::collections::BTreeSet;

mod peer_logs;
use peer_logs::{event, peer_logs, vectors};

fn of_kind(kind: &str, data: Value) -> Event {
    event(&json!({"type": kind, "seq": 3, "time": 5, "data": data}))
}

#[test]
fn every_known_type_has_a_view() {
    assert_eq!(VIEWED_TYPES, KNOWN_TYPES);
}

#[test]
fn every_payload_that_the_original_wrote_is_of_the_form_of_its_view() {
    let mut kinds = BTreeSet::new();
    for log in peer_logs() {
        for event in &log.events {
            event.check_payload().unwrap_or_else(|error| panic!("{}: {error}", log.name));
            kinds.insert(event.kind().to_owned());
        }
    }
    let viewed = kinds.iter().filter(|kind| VIEWED_TYPES.contains(&kind.as_str())).count();
    assert!(viewed >= 30, "{kinds:?}");
}

#[test]
fn texts_of_messages_are_those_that_a_parser_of_values_finds() {
    let mut messages = 0;
    for event in peer_logs().iter().flat_map(|log| &log.events) {
        let views = [
            event.as_user_message().map(|view| view.message),
            event.as_assistant_message().map(|view| view.message),
            event.as_tool_result().map(|view| view.message),
            event.as_system_message().map(|view| view.message),
            event.as_developer_message().map(|view| view.message),
        ];
        let Some(message) = views.into_iter().flatten().next() else { continue };
        // An unpaired surrogate is no text of the other parser.
        let Ok(value) = serde_json::from_str::<Value>(message.json().text()) else { continue };
        let blocks = value["content"].as_array().unwrap();
        let texts: String =
            blocks.iter().filter(|it| it["type"] == "text").map(|it| it["text"].as_str().unwrap()).collect();
        assert_eq!(message.text(), texts);
        assert_eq!(message.id, value["id"].as_str().unwrap());
        assert_eq!(
            message.tool_calls().count(),
            blocks.iter().filter(|it| it["type"] == "tool-call").count()
        );
        messages += 1;
    }
    assert!(messages > 100, "{messages}");
}

#[test]
fn a_block_of_another_type_or_form_is_kept_and_does_not_spoil_the_message() {
    let content = json!([
        {"type": "text", "text": "a", "cache": true},
        {"type": "text"},
        {"type": "hologram", "depth": 3},
        7,
        {"type": "image", "attachment": {"attachmentId": "i", "mediaType": "image/png", "bytes": 1, "width": 2, "height": 3}},
    ]);
    let row = of_kind(
        "user/message",
        json!({"id": "m", "role": "user", "source": {"kind": "user", "rpcId": "r"}, "content": content}),
    );
    let UserMessage { message, .. } = row.as_user_message().unwrap();
    let is_known: Vec<_> =
        message.content.iter().map(|block| !matches!(block, ContentBlock::Unknown(_))).collect();
    assert_eq!(is_known, [true, false, false, false, true]);
    let texts: Vec<_> = message.content.iter().map(|block| block.json().text().to_owned()).collect();
    let expected: Vec<_> = content.as_array().unwrap().iter().map(Value::to_string).collect();
    assert_eq!(texts, expected);
    assert_eq!((message.text(), message.source.text("rpcId")), ("a".into(), Some("r".into())));
}

#[test]
fn what_is_malformed_is_named_by_its_place() {
    for (kind, data, path) in [
        ("turn/start", json!({}), "$.data.turn"),
        ("turn/start", json!([]), "$.data"),
        ("turn/start", json!({"turn": -1}), "$.data.turn"),
        ("turn/end", json!({"turn": 1, "reason": {"kind": "error"}}), "$.data.reason.error"),
        (
            "todo/write",
            json!({"todos": [{"content": "a", "status": "pending"}, {"content": 1}]}),
            "$.data.todos[1].content",
        ),
        (
            "image/offload",
            json!({"targets": [{"seq": 1, "imageIndexes": [0, 0.5]}]}),
            "$.data.targets[0].imageIndexes[1]",
        ),
        ("compaction/start", json!({"compactionId": "c"}), "$.data.turn"),
        ("plan/mode", json!({"active": 1}), "$.data.active"),
        (
            "hook/invoked",
            json!({"turn": 1, "point": "p", "dialect": "codex", "handlerId": "h", "matcher": null}),
            "$.data.matcher",
        ),
    ] {
        let error = of_kind(kind, data.clone()).check_payload().unwrap_err();
        assert_eq!((error.code(), error.json_path()), (Code::InvalidArgument, Some(path)), "{data}");
        assert_eq!((error.seq(), error.event_type()), (Some(3), Some(kind)));
        assert!(error.message().contains(path), "{error}");
    }
    let other = of_kind("turn/start", json!({"turn": 1}));
    let error = other.view::<UserMessage<'_>>().unwrap_err();
    assert!(error.message().contains("turn/start") && error.message().contains("user/message"), "{error}");
    assert!(
        of_kind("compaction/start", json!({"compactionId": "c", "turn": null}))
            .as_compaction_start()
            .unwrap()
            .turn
            .0
            .is_none()
    );
    event(&json!({"type": "acme/x", "seq": 0, "time": 1, "data": 5, "ignorable": true}))
        .check_payload()
        .unwrap();
}

#[test]
fn a_reason_that_nobody_knew_is_kept() {
    let reason = |reason: Value| of_kind("turn/end", json!({"turn": 1, "reason": reason}));
    let odd = reason(json!({"kind": "eclipse", "moon": 1}));
    let TurnEndReason::Unknown(json) = odd.as_turn_end().unwrap().reason else { panic!() };
    assert_eq!(json.text(), r#"{"kind":"eclipse","moon":1}"#);
    let hook = reason(json!({"kind": "aborted", "reason": {"kind": "hook", "reason": "no"}}));
    let TurnEndReason::Aborted(AbortReason::Hook(why)) = hook.as_turn_end().unwrap().reason else { panic!() };
    assert_eq!(why, "no");
}

fn assistant(usage: Option<i64>, stream: Value) -> Event {
    let message = json!({"id": "a", "role": "assistant", "content": [], "source": {"kind": "model", "provider": "p", "model": "m"}});
    let mut data = json!({"turn": 1, "step": 1, "message": message, "stream": stream});
    if let Some(tokens) = usage {
        data["usage"] = json!({"inputTokens": tokens, "outputTokens": 1, "cacheReadTokens": 5});
    }
    of_kind("assistant/message", data)
}

#[test]
fn usage_is_that_of_the_event_or_else_the_last_of_the_stream() {
    let usage = |tokens: i64| json!({"type": "chunk", "time": 1, "chunk": {"type": "usage", "usage": {"inputTokens": tokens, "outputTokens": 2}}});
    let stream = json!([usage(10), {"odd": 1}, usage(20), {"type": "text-chunks", "time0": 1, "index": 0, "dt": [], "texts": ["a"]}]);
    let tokens = |event: &Event| {
        event.as_assistant_message().unwrap().usage().map(|usage| usage.billed_input_tokens())
    };
    assert_eq!(tokens(&assistant(Some(30), stream.clone())), Some(35));
    assert_eq!(tokens(&assistant(None, stream)), Some(20));
    assert_eq!(tokens(&assistant(None, json!([]))), None);
}

#[test]
fn settings_are_equal_if_all_six_agree() {
    let header =
        |config: Value| of_kind("request/header", json!({"header": {"config": config}, "reason": "initial"}));
    let whole = json!({"provider": "p", "model": "m", "reasoningEffort": "low", "temperature": 0.5, "maxTokens": 9, "stop": ["x"], "extra": 1});
    let first = header(whole.clone());
    let config = |event: &'static Event| -> LlmCallConfig<'static> {
        event.as_request_header().unwrap().header.config
    };
    let first = config(Box::leak(Box::new(first)));
    for (key, other) in [
        ("provider", json!("q")),
        ("model", json!("n")),
        ("reasoningEffort", json!("high")),
        ("temperature", json!(1)),
        ("maxTokens", json!(8)),
        ("stop", json!([])),
    ] {
        let mut changed = whole.clone();
        changed[key] = other;
        assert_ne!(config(Box::leak(Box::new(header(changed)))), first, "{key}");
    }
    let mut same = whole;
    same["extra"] = json!(2);
    assert_eq!(config(Box::leak(Box::new(header(same)))), first);
}

#[test]
fn plugin_records_are_those_of_the_vectors() {
    let mut names = 0;
    for case in vectors("session-records.json") {
        if let Some(name) = case["name"].as_str().filter(|_| case.get("data").is_none()) {
            assert_eq!(is_plugin_record_type(name), case["expect"] == "ok", "{name}");
            names += 1;
        }
        let Some(row) = case.get("event") else { continue };
        let event = event(row);
        let record = event.as_plugin_record().map(|record| {
            json!({"type": record.kind, "seq": record.seq, "time": record.time_ms, "data": serde_json::from_str::<Value>(record.data.text()).unwrap()})
        });
        assert_eq!(json!(record), case["expect"], "{}", case["id"]);
    }
    assert_eq!(names, 14);
}
