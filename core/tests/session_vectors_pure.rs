//! What is computed from a list of events alone (`session.md` 11, 14, 15): the vectors, and what the original program computes.

use dsh_session_core::event::Vocabulary;
use dsh_session_core::event::stream::{StreamPacker, unpack};
use dsh_session_core::format::relationships::LogChecker;
use dsh_session_core::json::{DEPTH_MAX_DEFAULT, Json};
use dsh_session_core::session::closers::{Cause, INTERRUPTED_NOT_STARTED_TEXT, TailScan, closers};
use dsh_session_core::session::folds::{self, Folds};
use dsh_session_core::{Code, Event};
use proptest::prelude::*;
use serde_json::{Value, json};
use std::collections::{BTreeSet, HashMap};

mod peer_logs;
use peer_logs::{event, events, peer_logs, vectors};

/// The texts in their order of keys, which is part of what is expected.
fn rows(events: &[Event]) -> Vec<String> {
    events.iter().map(|event| event.row().to_owned()).collect()
}

#[test]
fn closers_are_those_of_the_vectors() {
    for case in vectors("session-closers.json") {
        let cause = if case["cause"] == "forked" { Cause::Forked } else { Cause::Interrupted };
        let made = closers(&events(&case["events"]), cause).unwrap();
        let expected: Vec<String> = case["expect"].as_array().unwrap().iter().map(Value::to_string).collect();
        assert_eq!(rows(&made), expected, "{}", case["id"]);
    }
}

/// The texts of answers are each program's own, but for the one that readers compare.
fn without_own_texts(closers: &mut Value) {
    for closer in closers.as_array_mut().unwrap() {
        if let Some(text) = closer.pointer_mut("/data/message/content/0/text")
            && *text != INTERRUPTED_NOT_STARTED_TEXT
        {
            *text = json!("");
        }
    }
}

#[test]
fn logs_of_the_original_are_closed_as_it_closes_them() {
    let mut not_empty = 0;
    for log in peer_logs() {
        let Some(mut expected) = log.closers else { panic!("{} is read here and not there", log.name) };
        let made = closers(&log.events, Cause::Interrupted).unwrap();
        not_empty += usize::from(!made.is_empty());
        let mut made: Value = serde_json::from_str(&format!("[{}]", rows(&made).join(","))).unwrap();
        without_own_texts(&mut expected);
        without_own_texts(&mut made);
        assert_eq!(made.to_string(), expected.to_string(), "{}", log.name);
    }
    assert_eq!(not_empty, 4);
}

/// A plain marker: what a restore appends after the closers.
fn marker(last: &Event) -> Event {
    event(&json!({"type": "session/end-seed", "seq": last.seq() + 1, "time": last.time(), "data": {}}))
}

#[test]
fn a_log_cut_anywhere_and_closed_is_one_that_readers_accept() {
    let (mut cuts, mut answers) = (0, 0);
    for log in peer_logs() {
        let mut checker = LogChecker::new(&log.header, Vocabulary::default());
        let mut scan = TailScan::default();
        for event in &log.events {
            checker.check(event).unwrap();
            scan.see(event);
            for cause in [Cause::Interrupted, Cause::Forked] {
                let made = scan.closers(cause, event.seq() + 1, event.time()).unwrap();
                assert_eq!(made.is_empty(), !scan.is_open(), "{} at {}", log.name, event.seq());
                let Some(last) = made.last() else { continue };
                cuts += 1;
                answers += made.iter().filter(|closer| closer.kind() == "tool/result").count();
                checker.begin_batch();
                for closer in made.iter().chain([&marker(last)]) {
                    let judged = checker.check(closer);
                    judged.unwrap_or_else(|breach| panic!("{} at {}: {breach:?}", log.name, event.seq()));
                }
                // What lies before the inherited marker is judged once that is there.
                if event.seq() >= log.inherited {
                    checker.finish().unwrap();
                }
                checker.undo_batch();
            }
        }
    }
    assert!(cuts > 1000 && answers > 50, "{cuts} cuts, {answers} answers");
}

#[test]
fn looking_at_events_one_by_one_and_at_a_whole_list_gives_the_same_closers() {
    for log in peer_logs() {
        let mut scan = TailScan::default();
        for (index, event) in log.events.iter().enumerate() {
            scan.see(event);
            // Every place of a short log, some of a long one.
            if index % (1 + log.events.len() / 200) == 0 {
                let one_by_one = scan.closers(Cause::Forked, event.seq() + 1, event.time()).unwrap();
                assert_eq!(
                    one_by_one,
                    closers(&log.events[..=index], Cause::Forked).unwrap(),
                    "{}",
                    log.name
                );
            }
        }
    }
}

fn open_step() -> Vec<Event> {
    events(&json!([
        {"type": "turn/start", "seq": 0, "time": 1, "data": {"turn": 1}},
        {"type": "step/start", "seq": 1, "time": 1, "data": {"turn": 1, "step": 1}},
    ]))
}

/// An event of step 1 of turn 1; `rest` is JSON text that goes on after the step.
fn in_step(kind: &str, seq: u64, rest: &str) -> Event {
    let surface = if kind == "tool/call" { "" } else { r#","surfaceOp":"append""# };
    let row =
        format!(r#"{{"type":"{kind}","seq":{seq},"time":1,"data":{{"turn":1,"step":1,{rest}}}{surface}}}"#);
    Event::from_stored_row(row).unwrap()
}

fn asking(seq: u64, ids: impl Iterator<Item = String>) -> Event {
    let calls = ids.map(|id| format!(r#"{{"type":"tool-call","id":{id},"name":"read","arguments":"{{}}"}}"#));
    let calls = calls.collect::<Vec<_>>().join(",");
    let source = r#"{"kind":"model","provider":"p","model":"m"}"#;
    let rest = format!(
        r#""message":{{"id":"a{seq}","role":"assistant","content":[{calls}],"source":{source}}},"stream":[]"#
    );
    in_step("assistant/message", seq, &rest)
}

fn start(seq: u64, id: &str) -> Event {
    in_step("tool/call", seq, &format!(r#""callId":{id},"name":"read","arguments":"{{}}""#))
}

fn answer(seq: u64, id: &str) -> Event {
    let message = format!(
        r#""message":{{"id":"r{seq}","role":"tool","toolCallId":{id},"content":[],"source":{{"kind":"tool","callId":{id}}}}}"#
    );
    in_step("tool/result", seq, &message)
}

#[test]
fn a_call_is_known_by_its_id_however_that_is_written() {
    let ids = [r#""a\"""#, r#""\\""#, r#""\ud800""#, r#""\u0061""#, r#""""#];
    let mut log = open_step();
    log.push(asking(2, ids.iter().map(|id| (*id).to_owned())));
    // The same texts with other escapes.
    log.push(start(3, r#""a\u0022""#));
    log.push(start(4, r#""\uD800""#));
    log.push(start(5, r#""a""#));
    log.push(answer(6, r#""a""#));
    let made = closers(&log, Cause::Interrupted).unwrap();
    let answered: Vec<_> = made
        .iter()
        .filter(|closer| closer.kind() == "tool/result")
        .map(|closer| {
            let message = closer.data().get("message").unwrap();
            let text = |key| message.get(key).unwrap().text().to_owned();
            (text("id"), text("toolCallId"), closer.source_event_seqs_text().map(str::to_owned))
        })
        .collect();
    let expected = [
        (r#""interrupted-tool-result-a\"-7""#, ids[0], Some("[3]")),
        (r#""interrupted-tool-result-\\-8""#, ids[1], None),
        (r#""interrupted-tool-result-\ud800-9""#, ids[2], Some("[4]")),
        (r#""interrupted-tool-result--10""#, ids[4], None),
    ];
    let expected = expected.map(|(id, call, seqs)| (id.to_owned(), call.to_owned(), seqs.map(str::to_owned)));
    assert_eq!(answered, expected);
}

#[test]
fn a_step_of_very_many_calls_is_closed_without_comparing_each_with_each() {
    const CALLS: u64 = 50_000;
    let id = |index: u64| format!("\"call-{index}\"");
    let mut log = open_step();
    log.push(asking(2, (0..CALLS).map(id)));
    log.extend((0..CALLS).map(|index| start(3 + index, &id(index))));
    log.extend((0..CALLS).filter(|index| index % 2 == 0).map(|index| answer(3 + CALLS + index, &id(index))));
    let made = closers(&log, Cause::Forked).unwrap();
    assert_eq!(made.len() as u64, CALLS / 2 + 2);
    assert_eq!(made[0].source_event_seqs_text(), Some("[4]"));
    assert!(made.windows(2).all(|pair| pair[1].seq() == pair[0].seq() + 1));
}

#[test]
fn events_of_another_shape_than_expected_open_and_close_nothing() {
    for data in ["5", "null", "[]", "{}", r#"{"message":[]}"#, r#"{"message":{"content":{},"source":7}}"#] {
        for kind in ["turn/start", "turn/end", "step/end", "assistant/message", "tool/call", "tool/result"] {
            let odd = format!(r#"{{"type":"{kind}","seq":2,"time":1,"data":{data},"surfaceOp":"append"}}"#);
            let odd = Event::from_row(odd).unwrap();
            assert_eq!(closers([&odd], Cause::Interrupted).unwrap(), []);
        }
    }
}

#[test]
fn closers_beyond_the_last_seq_are_refused() {
    let mut scan = TailScan::default();
    open_step().iter().for_each(|event| scan.see(event));
    let last = (1 << 53) - 1;
    assert_eq!(scan.closers(Cause::Interrupted, last - 1, 1).unwrap().len(), 2);
    let error = scan.closers(Cause::Interrupted, last, 1).unwrap_err();
    assert_eq!(error.code(), Code::InvalidArgument, "{error}");
}

/// The fold as JSON text, `null` for none.
fn fold(name: &str, events: &[Event]) -> String {
    let text = match name {
        "requestHeader" => folds::request_header(events),
        "requestContext" => folds::request_context(events),
        "toolHistory" => Some(folds::tool_history(events).to_json()),
        "title" => folds::title(events).map(|title| title.to_json()),
        _ => panic!("{name}"),
    };
    text.unwrap_or_else(|| "null".to_owned())
}

#[test]
fn folds_are_those_of_the_vectors() {
    for case in vectors("session-folds.json") {
        let folded = fold(case["fold"].as_str().unwrap(), &events(&case["events"]));
        assert_eq!(folded, case["expect"].to_string(), "{}", case["id"]);
    }
}

fn header(seq: u64, tools: &str, rest: &str) -> Event {
    let header = format!(r#"{{"config":{{"provider":"p","model":"m"}},"tools":[{tools}]}}"#);
    let data = format!(r#"{{"header":{header},"reason":"change"{rest}}}"#);
    let row = format!(r#"{{"type":"request/header","seq":{seq},"time":1,"data":{data}}}"#);
    Event::from_stored_row(row).unwrap()
}

fn developer(seq: u64, blocks: &str, rest: &str) -> Event {
    let message = format!(
        r#""message":{{"id":"d{seq}","role":"developer","content":[{blocks}],"source":{{"kind":"x"}}}}{rest}"#
    );
    in_step("developer/message", seq, &message)
}

#[test]
fn a_tool_is_the_same_however_its_schema_is_written_but_not_in_another_order_of_keys() {
    let first = r#"{"name":"a","description":"A","parameters":{"maximum":10}}"#;
    let same = r#"{"name":"\u0061","description":"A","parameters":{"maximum":1e1}}"#;
    let reordered = r#"{"name":"a","parameters":{"maximum":10},"description":"A"}"#;
    let removal = r#"{"type":"tool-removal","toolName":"a"}"#;
    let addition = r#"{"type":"tool-addition","toolName":"a"}"#;
    let ids = |log: &[Event]| {
        let history = folds::tool_history(log);
        let ids: Vec<_> = history.updates().map(|it| it.message_id().text().to_owned()).collect();
        (history.tools().len(), ids)
    };
    let mut log = vec![header(0, first, ""), header(1, "", ""), developer(2, removal, "")];
    assert_eq!(ids(&log), (1, vec![r#""d2""#.to_owned()]));
    log.push(header(3, same, ""));
    assert_eq!(ids(&log), (1, vec![]), "not explained yet: the active tools alone");
    log.push(developer(4, addition, r#","headerSeq":3"#));
    assert_eq!(ids(&log), (1, vec![r#""d2""#.to_owned(), r#""d4""#.to_owned()]));
    let history = folds::tool_history(&log);
    let last = history.updates().last().unwrap();
    assert_eq!((last.additions()[0].name(), last.additions()[0].json().text()), ("a".into(), same));
    log.push(header(5, reordered, ""));
    assert_eq!(ids(&log), (1, vec![]), "a new definition starts anew");
    assert_eq!(folds::tool_history(&log).tools()[0].json().text(), reordered);
}

#[test]
fn an_addition_finds_its_tool_in_any_of_many_headers_that_say_the_same() {
    let tool = r#"{"name":"a","description":"A","parameters":{}}"#;
    let mut folds = Folds::default();
    (0..1000).for_each(|seq| folds.see(&header(seq, tool, "")));
    // An addition finds its tool in any of them.
    folds.see(&developer(1000, r#"{"type":"tool-addition","toolName":"a"}"#, r#","headerSeq":500"#));
    let history = folds.tool_history();
    let expected =
        format!(r#"{{"tools":[{tool}],"updates":[{{"messageId":"d1000","additions":[{tool}]}}]}}"#);
    assert_eq!(history.to_json(), expected);
}

#[test]
fn a_title_that_names_the_fields_of_the_fold_itself_does_not_win_over_them() {
    let row = r#"{"type":"session/title","seq":3,"time":7,"data":{"eventSeq":"x","title":"T","\ud800":1}}"#;
    let title = folds::title([&Event::from_stored_row(row).unwrap()]).unwrap();
    assert_eq!((title.text(), title.event_seq(), title.updated_at()), ("T".into(), 3, 7));
    assert_eq!(title.to_json(), r#"{"eventSeq":3,"title":"T","\ud800":1,"updatedAt":7}"#);
}

#[test]
fn folds_of_odd_events_are_empty_and_not_a_failure() {
    for data in ["5", "[]", "{}", r#"{"header":5,"message":{"content":7}}"#, r#"{"header":{"tools":[1,{}]}}"#]
    {
        let mut folds = Folds::default();
        for kind in ["request/header", "developer/message", "request/context", "session/title"] {
            folds.see(
                &Event::from_row(format!(r#"{{"type":"{kind}","seq":0,"time":1,"data":{data}}}"#)).unwrap(),
            );
        }
        assert_eq!(folds.request_context().unwrap().text(), data);
        assert_eq!(folds.title().unwrap().text(), "");
        for text in [folds.tool_history().to_json(), folds.title().unwrap().to_json()] {
            assert!(serde_json::from_str::<Value>(&text).is_ok(), "{text}");
        }
    }
}

/// The folds as the rule says them, event by event, over parsed values.
fn slow_tool_history(events: &[Event]) -> Value {
    let text = |value: &Value| value.to_string();
    let data = |event: &Event| serde_json::from_str::<Value>(event.data().text()).unwrap();
    let tools_of = |event: &Event| data(event)["header"]["tools"].as_array().cloned().unwrap_or_default();
    let (mut declared, mut available) = (HashMap::new(), BTreeSet::new());
    let (mut active, mut history) = (Vec::new(), json!({"tools": [], "updates": []}));
    let mut has_baseline = false;
    for event in events {
        let data = data(event);
        if event.kind() == "request/header" {
            let tools = tools_of(event);
            let names = || tools.iter().map(|tool| tool["name"].to_string());
            let redefined = tools.iter().any(|tool| {
                declared
                    .get(&tool["name"].to_string())
                    .is_some_and(|known: &String| known.as_str() != text(tool))
            });
            if !has_baseline || data["reason"] == "series" || data["startsSeries"] == true || redefined {
                has_baseline = true;
                declared = names().zip(tools.iter().map(Value::to_string)).collect();
                available = names().collect();
                history = json!({"tools": tools, "updates": []});
            }
            active = tools;
        }
        if event.kind() != "developer/message" {
            continue;
        }
        let mut additions = Vec::new();
        for block in data["message"]["content"].as_array().unwrap() {
            let name = block["toolName"].to_string();
            if block["type"] == "tool-removal" {
                available.remove(&name);
            } else if block["type"] == "tool-addition" {
                let header = events.iter().find(|it| json!(it.seq()) == data["headerSeq"]).unwrap();
                let tool = tools_of(header).into_iter().find(|tool| text(&tool["name"]) == name).unwrap();
                declared.insert(name.clone(), tool.to_string());
                available.insert(name);
                additions.push(tool);
            }
        }
        let update = json!({"messageId": data["message"]["id"], "additions": additions});
        history["updates"].as_array_mut().unwrap().push(update);
    }
    let is_explained = active.len() == available.len()
        && active.iter().all(|tool| available.contains(&tool["name"].to_string()));
    if is_explained { history } else { json!({"tools": active, "updates": []}) }
}

/// A log of headers with some of four tools, each in one of two definitions, and of developer messages that add and remove.
fn tool_log() -> impl Strategy<Value = Vec<Event>> {
    let step = (any::<bool>(), 0_u8..16, 0_u8..4, any::<prop::sample::Index>(), 0_u8..8);
    prop::collection::vec(step, 1..24).prop_map(|steps| {
        let mut log: Vec<Event> = Vec::new();
        let mut headers: Vec<(u64, Vec<char>)> = Vec::new();
        for (is_header, shown, redefined, choice, extra) in steps {
            let seq = log.len() as u64;
            if is_header || headers.is_empty() {
                let names: Vec<char> = "abcd"
                    .chars()
                    .enumerate()
                    .filter(|(bit, _)| shown & (1 << bit) != 0)
                    .map(|(_, name)| name)
                    .collect();
                let tool = |name: &char| {
                    let text = if *name == 'a' && redefined == 0 { "other" } else { "usual" };
                    format!(r#"{{"name":"{name}","description":"{text}","parameters":{{}}}}"#)
                };
                let tools = names.iter().map(tool).collect::<Vec<_>>().join(",");
                let series = if extra == 0 { r#","startsSeries":true"# } else { "" };
                log.push(header(seq, &tools, series));
                headers.push((seq, names));
                continue;
            }
            let (header_seq, names) = &headers[choice.index(headers.len())];
            let mut blocks: Vec<String> = "abcd"
                .chars()
                .enumerate()
                .filter(|(bit, _)| shown & (1 << bit) != 0)
                .map(|(_, name)| name)
                .map(|name| {
                    let kind =
                        if names.contains(&name) && extra > 1 { "tool-addition" } else { "tool-removal" };
                    format!(r#"{{"type":"{kind}","toolName":"{name}"}}"#)
                })
                .collect();
            blocks.reverse();
            log.push(developer(seq, &blocks.join(","), &format!(r#","headerSeq":{header_seq}"#)));
        }
        log
    })
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(512) })]

    #[test]
    fn the_tool_history_is_that_of_the_rule_applied_to_values(log in tool_log()) {
        let mut folds = Folds::default();
        for (index, event) in log.iter().enumerate() {
            folds.see(event);
            prop_assert_eq!(folds.tool_history().to_json(), slow_tool_history(&log[..=index]).to_string());
        }
    }
}

fn parsed(text: &str) -> Json<'_> {
    Json::parse(text, DEPTH_MAX_DEFAULT).unwrap()
}

fn packed<'a>(chunks: impl IntoIterator<Item = &'a (i64, String)>) -> String {
    let mut packer = StreamPacker::new();
    for (time, chunk) in chunks {
        packer.push(*time, chunk).unwrap();
    }
    packer.finish()
}

fn unpacked(records: &str) -> Vec<(i64, String)> {
    unpack(parsed(records)).map(Result::unwrap).map(|it| (it.time_ms, it.chunk.to_json())).collect()
}

#[test]
fn streams_are_packed_and_refused_as_the_vectors_say() {
    for case in vectors("session-stream.json") {
        let (id, expected) = (&case["id"], case["expect"].to_string());
        let Some(chunks) = case["chunks"].as_array() else {
            let records = case["records"].to_string();
            let error = unpack(parsed(&records)).find_map(Result::err).unwrap();
            assert_eq!(error.rule(), case["expect"]["refused"].as_str(), "{id}");
            assert_eq!(error.index(), Some(0), "{id}");
            continue;
        };
        let chunks: Vec<(i64, String)> =
            chunks.iter().map(|it| (it["time"].as_i64().unwrap(), it["chunk"].to_string())).collect();
        assert_eq!(packed(&chunks), expected, "{id}");
        assert_eq!(unpacked(&expected), chunks, "{id}");
    }
}

#[test]
fn every_stream_of_the_original_unpacks_and_packs_to_the_same_records() {
    let mut chunks = 0;
    for log in peer_logs() {
        for event in log.events.iter().filter(|event| event.kind().starts_with("assistant/")) {
            let stream = event.data().get("stream").unwrap();
            let unpacked = unpacked(stream.text());
            chunks += unpacked.len();
            assert_eq!(packed(&unpacked), stream.text(), "{} at {}", log.name, event.seq());
        }
    }
    assert!(chunks > 1000, "{chunks}");
}

#[test]
fn a_malformed_record_ends_the_stream_after_what_stands_before_it() {
    let good = r#"{"type":"text-chunks","time0":1,"index":0,"dt":[1],"texts":["a","b"]}"#;
    for bad in [
        "5",
        "{}",
        r#"{"type":"chunk","time":1}"#,
        r#"{"type":"chunk","time":1,"chunk":[]}"#,
        r#"{"type":"chunk","time":0.5,"chunk":{}}"#,
        r#"{"type":"chunk","time":1,"chunk":{},"index":0}"#,
        r#"{"type":"text-chunks","time0":1,"index":-1,"dt":[],"texts":["a"]}"#,
        r#"{"type":"text-chunks","time0":1,"index":0,"dt":[],"texts":[1]}"#,
        r#"{"type":"text-chunks","time0":1,"index":0,"dt":["1"],"texts":["a","b"]}"#,
        r#"{"type":"text-chunks","time0":1,"index":0,"dt":{},"texts":["a"]}"#,
        r#"{"type":"text-chunks","time0":1,"index":0,"dt":[],"args":["a"]}"#,
        r#"{"type":"reasoning-chunks","time0":1,"index":0,"dt":[],"texts":["a"],"id":"c"}"#,
        r#"{"type":"tool-call-chunks","time0":1,"index":0,"dt":[],"args":["a"]}"#,
        r#"{"type":"tool-call-chunks","time0":1,"index":0,"dt":[],"id":"","args":["a"]}"#,
        r#"{"type":"tool-call-chunks","time0":-9007199254740991,"index":0,"dt":[-1],"id":"c","args":["a","b"]}"#,
    ] {
        let text = format!("[{good},{bad},{good}]");
        let chunks: Vec<_> = unpack(parsed(&text)).collect();
        assert_eq!(chunks.len(), 3, "{bad}");
        let error = chunks[2].as_ref().unwrap_err();
        assert_eq!(
            (error.code(), error.rule()),
            (Code::SessionRefused, Some("STREAM_RECORD_INVALID")),
            "{bad}"
        );
        assert_eq!(error.index(), Some(1), "{bad}");
    }
    let errors: Vec<_> = unpack(parsed("{}")).collect();
    assert!(errors.len() == 1 && errors[0].is_err());
}

#[test]
fn a_chunk_that_is_no_object_or_of_no_safe_time_is_refused_and_leaves_no_trace() {
    let delta = r#"{"type":"text-delta","index":0,"text":"a"}"#;
    let mut packer = StreamPacker::new();
    let last = (1 << 53) - 1;
    packer.push(-last, delta).unwrap();
    for (time, chunk) in [(last + 1, delta), (i64::MIN, delta), (0, "[]"), (0, r#"{"n":-0}"#), (0, "{")] {
        assert!(packer.push(time, chunk).is_err(), "{chunk}");
    }
    // The gap is no safe integer: a run of its own.
    packer.push(last, delta).unwrap();
    packer.push(last - 1, delta).unwrap();
    let records = packer.finish();
    assert_eq!(unpacked(&records).iter().map(|it| it.0).collect::<Vec<_>>(), [-last, last, last - 1]);
    assert_eq!(parsed(&records).elements().count(), 2);
}

/// Chunks of every sort, with the odd ones among them.
fn chunk() -> impl Strategy<Value = String> {
    let string =
        prop_oneof![Just(String::new()), "[a-b]", any::<String>()].prop_map(|text| json!(text).to_string());
    let optional = prop::option::of(string.clone());
    let index = prop_oneof![Just("0"), Just("1"), Just("-1"), Just("1.5"), Just("\"0\"")];
    let kind =
        prop_oneof![Just("text-delta"), Just("reasoning-delta"), Just("tool-call-delta"), Just("usage")];
    (kind, index, optional.clone(), optional.clone(), optional.clone(), optional).prop_map(
        |(kind, index, id, name, text, other)| {
            let mut chunk = format!(r#"{{"type":"{kind}","index":{index}"#);
            let text_key = if kind == "tool-call-delta" { "argumentsDelta" } else { "text" };
            let is_call = kind == "tool-call-delta";
            // Mostly of the known form.
            let id = id.filter(|id| is_call || id.len() > 6);
            let name = name.filter(|name| is_call || name.len() > 6);
            for (key, value) in
                [("id", id), ("name", name), (text_key, text), ("other", other.filter(|it| it.len() > 9))]
            {
                if let Some(value) = value {
                    chunk.push_str(&format!(",\"{key}\":{value}"));
                }
            }
            chunk.push('}');
            chunk
        },
    )
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(512) })]

    #[test]
    fn unpacking_gives_what_was_packed(chunks in prop::collection::vec((-9_i64..9, chunk()), 0..24)) {
        let records = packed(&chunks);
        let values = |chunks: &[(i64, String)]| {
            chunks.iter().map(|(time, text)| (*time, text.parse::<Value>().unwrap())).collect::<Vec<_>>()
        };
        let again = unpacked(&records);
        prop_assert_eq!(values(&again), values(&chunks));
        // And the records are their own canonical form.
        prop_assert_eq!(packed(&again), records);
    }
}
