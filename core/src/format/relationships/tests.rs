//! Logs that keep and break each rule that binds rows; batches taken back; the surface against a slow and obvious one.

use super::{Effect, LogChecker};
use crate::event::nodes::{NODES_MAX, Nodes};
use crate::event::source_ranges::{decode, encode};
use crate::event::{Event, Vocabulary};
use crate::format::header::SessionHeader;
use proptest::prelude::*;
use serde_json::{Value, json};

fn event(row: &Value) -> Event {
    Event::from_row(row.to_string().as_bytes()).unwrap()
}

fn header(case: &Value) -> SessionHeader {
    let mut header = SessionHeader::new(case["id"].as_str().unwrap_or("x"), 1);
    header.is_seeded = case["isSeeded"] == true;
    header.parent_session = case["parentSession"].as_str().map(str::to_owned);
    header
}

/// The rules of `events.md` 11 go by other numbers where row admission or acceptance judges first.
fn admission_rule(rule: &str) -> &str {
    match rule {
        "R1" | "R2" | "R5" | "R6" => "A5",
        "R3" => "A11",
        "R4" | "R7" | "R11" => "A10",
        "R8" => "A6",
        "R9" => "A7",
        "R10" => "A8",
        other => other,
    }
}

/// The rule that a log breaks, and how many events stand before the breach.
fn outcome(checker: &mut LogChecker, events: &[Event]) -> Result<(), (String, u64)> {
    for event in events {
        if let Err(breach) = checker.check(event) {
            let seq = breach.earlier_seq().unwrap_or(event.seq());
            return Err((admission_rule(breach.rule()).to_owned(), seq));
        }
    }
    checker.finish().map_err(|breach| (breach.rule().to_owned(), breach.earlier_seq().unwrap()))
}

struct Case {
    name: String,
    header: SessionHeader,
    inherited: u64,
    events: Vec<Event>,
    rule: Option<String>,
}

/// The vectors, but those whose rule is about the header, the order of rows or the marker: no matter of this room.
fn vectors() -> Vec<Case> {
    let vectors: Value =
        serde_json::from_str(include_str!("../../../../tests/vectors/session-admission.json")).unwrap();
    let mut cases = Vec::new();
    for case in vectors["cases"].as_array().unwrap() {
        let rule = case["expect"]["rule"].as_str().map(str::to_owned);
        if matches!(rule.as_deref(), Some("A1" | "A4" | "A9")) {
            continue;
        }
        cases.push(Case {
            name: case["id"].as_str().unwrap().to_owned(),
            header: header(&case["header"]),
            inherited: case["inheritedEventCount"].as_u64().unwrap(),
            events: case["events"].as_array().unwrap().iter().map(event).collect(),
            rule,
        });
    }
    assert!(cases.len() > 60);
    cases
}

#[test]
fn stored_log_admission_is_as_the_vectors_say() {
    for case in vectors() {
        let mut reading = LogChecker::new(&case.header, Vocabulary::default());
        let mut live = LogChecker::with_inherited_count(&case.header, case.inherited, Vocabulary::default());
        for checker in [&mut reading, &mut live] {
            let rule = outcome(checker, &case.events).err().map(|(rule, _)| rule);
            assert_eq!(rule, case.rule, "{}", case.name);
        }
    }
}

#[test]
fn a_batch_that_is_taken_back_leaves_no_trace() {
    for case in vectors() {
        let fresh = || LogChecker::new(&case.header, Vocabulary::default());
        let expected = outcome(&mut fresh(), &case.events);
        for from in 0..case.events.len() {
            let mut checker = fresh();
            if case.events[..from].iter().any(|event| checker.check(event).is_err()) {
                break;
            }
            checker.begin_batch();
            for event in &case.events[from..] {
                if checker.check(event).is_err() {
                    break;
                }
            }
            checker.undo_batch();
            assert_eq!(outcome(&mut checker, &case.events[from..]), expected, "{} from {from}", case.name);
        }
    }
}

/// Builds logs in which every row is good but the ones that a test adds.
#[derive(Default)]
struct Log(Vec<Value>);

impl Log {
    fn in_step() -> Log {
        Log::default().row("turn/start", json!({"turn": 1})).row("step/start", json!({"turn": 1, "step": 1}))
    }

    fn row(mut self, kind: &str, data: Value) -> Log {
        let seq = self.0.len();
        self.0.push(json!({"type": kind, "seq": seq, "time": 1, "data": data}));
        self
    }

    fn message(mut self, kind: &str, data: Value, op: Value, sources: Option<Value>) -> Log {
        self = self.row(kind, data);
        let row = self.0.last_mut().unwrap().as_object_mut().unwrap();
        row.insert("surfaceOp".into(), op);
        if let Some(sources) = sources {
            row.insert("sourceEventSeqs".into(), sources);
        }
        self
    }

    fn user(self) -> Log {
        self.message("user/message", user(json!({"kind": "user"})), json!("append"), None)
    }

    fn header(self, tools: Value) -> Log {
        let header = json!({"config": {"provider": "p", "model": "m"}, "tools": tools});
        self.row("request/header", json!({"reason": "initial", "header": header}))
    }

    fn assistant(self, calls: Value) -> Log {
        let message = json!({"id": "a", "role": "assistant", "content": calls,
                             "source": {"kind": "model", "provider": "p", "model": "m"}});
        let data = json!({"turn": 1, "step": 1, "message": message, "stream": []});
        self.message("assistant/message", data, json!("append"), None)
    }

    fn result(self, op: Value, sources: Option<Value>) -> Log {
        let message = json!({"id": "r", "role": "tool", "toolCallId": "c", "content": [],
                             "source": {"kind": "tool", "callId": "c"}});
        self.message("tool/result", json!({"turn": 1, "step": 1, "message": message}), op, sources)
    }

    fn developer(self, header_seq: u64, tool: &str) -> Log {
        let message = json!({"id": "d", "role": "developer", "source": {"kind": "tool-registry"},
                             "content": [{"type": "tool-addition", "toolName": tool}]});
        let data = json!({"turn": 1, "step": 1, "message": message, "headerSeq": header_seq});
        self.message("developer/message", data, json!("append"), None)
    }

    fn outcome(&self) -> Option<(String, u64)> {
        self.outcome_of("x", false)
    }

    fn outcome_of(&self, id: &str, is_seeded: bool) -> Option<(String, u64)> {
        let events: Vec<Event> = self.0.iter().map(event).collect();
        let header = header(&json!({"id": id, "isSeeded": is_seeded}));
        outcome(&mut LogChecker::new(&header, Vocabulary::default()), &events).err()
    }

    /// Breaks a rule with its last row.
    fn breaks(self, rule: &str) {
        let last = self.0.len() as u64 - 1;
        assert_eq!(self.outcome(), Some((rule.to_owned(), last)), "{:#?}", self.0);
    }

    fn holds(self) -> Log {
        assert_eq!(self.outcome(), None, "{:#?}", self.0);
        self
    }
}

fn user(source: Value) -> Value {
    json!({"id": "u", "role": "user", "content": [], "source": source})
}

fn replace(start: u64, end: u64) -> Value {
    json!({"op": "replace", "startSeq": start, "endSeq": end})
}

fn call(id: &str) -> Value {
    json!({"type": "tool-call", "id": id, "name": "n", "arguments": "{}"})
}

#[test]
fn a_developer_message_adds_what_its_header_defines_once() {
    let tool = json!({"name": "t", "description": "", "parameters": {}});
    let log = |tools: Value| Log::in_step().header(tools);
    log(json!([tool])).developer(2, "t").holds();
    log(json!([tool])).developer(1, "t").breaks("A10");
    log(json!([tool])).developer(3, "t").breaks("A10");
    log(json!([tool])).developer(2, "other").breaks("A10");
    log(json!([tool, tool])).developer(2, "t").breaks("A10");
    log(json!([{"name": "t", "description": 1, "parameters": {}}])).developer(2, "t").breaks("A10");
    log(json!([{"name": "t", "description": ""}])).developer(2, "t").breaks("A10");
    // Only the header that is named counts, not the latest.
    log(json!([tool])).header(json!([{"name": "z"}])).developer(2, "t").holds();
    log(json!([tool])).header(json!([{"name": "z"}])).developer(3, "t").breaks("A10");
}

#[test]
fn messages_in_lists_say_who_made_them() {
    let splice = |inserted: Value| Log::default().row("agent/inbox/spliced", json!({"inserted": inserted}));
    splice(json!([])).holds();
    splice(json!([user(json!({"kind": "user"}))])).holds();
    splice(json!([user(json!({"kind": ""}))])).breaks("A11");
    splice(json!([3])).breaks("A11");
    splice(json!({})).breaks("A11");
    Log::default().row("agent/inbox/spliced", json!(3)).holds();
}

#[test]
fn deliveries_and_catalogs_of_a_parent_are_not_judged() {
    let delivery = json!({"sessionId": "parent", "sessionFormatVersion": 4, "throughSeq": 0});
    let child = json!({"childId": "c", "childCreatedAt": 1, "version": 0, "mode": "one-shot"});
    let foreign = || Log::default().user().row("session-log-deepseek/delivery-accepted", delivery.clone());
    let twice =
        || Log::default().row("subagent/catalog", child.clone()).row("subagent/catalog", child.clone());
    let marker = json!({"inherited": true});

    foreign().breaks("A12");
    assert_eq!(foreign().outcome_of("parent", false), None);
    twice().breaks("A13");
    // In a seeded log each later marker moves the cut.
    let breach = |rule: &str, seq| Some((rule.to_owned(), seq));
    assert_eq!(foreign().outcome_of("x", true), breach("A12", 1));
    assert_eq!(foreign().row("session/end-seed", marker.clone()).outcome_of("x", true), None);
    assert_eq!(foreign().row("session/end-seed", json!({})).outcome_of("x", true), breach("A12", 1));
    let later = twice().row("session/end-seed", marker).row("subagent/catalog", child.clone());
    assert_eq!(later.outcome_of("x", true), None);
    let again = later.row("subagent/catalog", child);
    assert_eq!(again.outcome_of("x", true), breach("A13", 4));
    // What cannot be right for any log is judged wherever it stands.
    let wrong = Log::default().row(
        "session-log-deepseek/delivery-accepted",
        json!({"sessionId": "p", "sessionFormatVersion": 4, "throughSeq": 0}),
    );
    assert_eq!(wrong.outcome_of("x", true), breach("A12", 0));
}

#[test]
fn turns_and_steps_nest_and_count() {
    Log::in_step().row("step/start", json!({"turn": 1, "step": 2})).breaks("A14");
    Log::in_step().row("step/end", json!({"turn": 2, "step": 1})).breaks("A14");
    Log::in_step().row("turn/end", json!({"turn": 1})).breaks("A14");
    let closed = || {
        Log::in_step().row("step/end", json!({"turn": 1, "step": 1})).row("turn/end", json!({"turn": 1.0}))
    };
    closed().row("turn/start", json!({"turn": 2})).row("step/start", json!({"turn": 2, "step": 1})).holds();
    closed().row("turn/end", json!({"turn": 1})).breaks("A14");
    closed().row("turn/start", json!({"turn": "2"})).breaks("A14");
    closed().row("turn/start", json!(null)).breaks("A14");
    closed().row("assistant/attempt", json!({"turn": 1, "step": 1, "stream": []})).breaks("A15");
    Log::in_step().row("assistant/attempt", json!({"turn": 1, "step": 1})).holds();
}

#[test]
fn a_call_is_advertised_started_and_answered_once() {
    let log = || Log::in_step().assistant(json!([call("c")]));
    let start = json!({"turn": 1, "step": 1, "callId": "c", "name": "n", "arguments": "{}"});
    let started = || log().row("tool/call", start.clone());
    started().result(json!("append"), None).row("step/end", json!({"turn": 1, "step": 1})).holds();
    started().row("tool/call", start.clone()).breaks("A16");
    started().result(json!("append"), None).result(json!("append"), None).breaks("A16");
    log().result(json!("append"), None).breaks("A16");
    log().assistant(json!([call("c")])).breaks("A16");
    Log::in_step().assistant(json!([call("c"), call("d"), call("c")])).breaks("A16");
    Log::in_step().assistant(json!([{"type": "tool-call"}])).breaks("A16");
    Log::in_step().assistant(json!([3])).breaks("A16");
    log().row("turn/end", json!({"turn": 1})).breaks("A14");
    // The same string written with other escapes is the same.
    let odd = r#"{"turn":1,"step":1,"callId":"\u0063","name":"\u006e","arguments":"\u007b}"}"#;
    let mut escaped: Vec<Event> = log().0.iter().map(event).collect();
    escaped.push(
        Event::from_row(format!(r#"{{"type":"tool/call","seq":3,"time":1,"data":{odd}}}"#).as_bytes())
            .unwrap(),
    );
    let mut checker = LogChecker::new(&header(&json!({})), Vocabulary::default());
    assert_eq!(outcome(&mut checker, &escaped), Ok(()));
    // A replacement needs its turn, and no call.
    let replaced = started().result(json!("append"), None).result(replace(4, 4), Some(json!([4]))).holds();
    let outside = replaced.row("step/end", json!({"turn": 1, "step": 1})).row("turn/end", json!({"turn": 1}));
    outside.result(replace(5, 5), Some(json!([5]))).breaks("A17");
}

#[test]
fn headers_and_contexts_stand_in_a_turn() {
    Log::default().row("request/context", json!({})).breaks("A18");
    Log::in_step().row("request/context", json!({})).holds();
    Log::in_step().row("request/context", json!(1)).breaks("A18");
    Log::in_step().row("request/header", json!({"header": {}})).breaks("A18");
}

#[test]
fn only_a_system_message_over_the_head_replaces_the_head() {
    let system = json!({"turn": 1, "step": 1, "message": {"id": "s", "role": "system", "content": [],
                        "source": {"kind": "system-prompt"}}});
    let log = || Log::in_step().message("system/message", system.clone(), json!("append"), None).user();
    log().message("system/message", system.clone(), json!("append"), None).holds();
    log().message("system/message", system.clone(), replace(2, 2), Some(json!([2]))).holds();
    log().message("system/message", system.clone(), replace(2, 3), Some(json!([2, 3]))).breaks("A19");
    let person = user(json!({"kind": "user"}));
    log().message("user/message", person.clone(), replace(2, 2), Some(json!([2]))).breaks("A19");
    log().message("user/message", person.clone(), replace(3, 3), Some(json!([3]))).holds();
    log().message("user/message", person.clone(), replace(3, 3), None).breaks("A19");
    log().message("user/message", person.clone(), replace(3, 2), Some(json!([2, 3]))).breaks("A19");
    log().message("user/message", person.clone(), replace(1, 3), Some(json!([1, 2, 3]))).breaks("A19");
    // The new head is protected as the old one was.
    let renewed = log().message("system/message", system, replace(2, 2), Some(json!([2])));
    renewed.message("user/message", person, replace(4, 4), Some(json!([4]))).breaks("A19");
}

#[test]
fn a_compaction_has_one_owner_one_summary_and_an_exact_span() {
    let begun = || {
        Log::default()
            .user()
            .user()
            .user()
            .row("compaction/start", json!({"compactionId": "k", "turn": null}))
    };
    let summary = |start: u64, end: u64, seqs: Value| json!({"compactionId": "k", "summary": [], "shadowedRange": {"start": start, "end": end}, "shadowedSeqs": seqs});
    let summed = || begun().row("compaction/summary", summary(0, 1, json!([0, 1])));
    let end = json!({"compactionId": "k", "turn": null});
    summed().row("compaction/end", end.clone()).holds();
    summed().row("compaction/summary", summary(0, 1, json!([0, 1]))).breaks("A20");
    begun().row("compaction/summary", summary(0, 1, json!([0]))).breaks("A20");
    begun().row("compaction/summary", summary(0, 1, json!([0, 1, 2]))).breaks("A20");
    begun().row("compaction/summary", summary(1, 0, json!([1, 0]))).breaks("A20");
    begun().row("compaction/summary", summary(0, 3, json!([0, 1, 2, 3]))).breaks("A20");
    begun().row("compaction/start", end.clone()).breaks("A20");
    begun().row("compaction/end", end.clone()).breaks("A20");
    begun().row("compaction/end", json!({"compactionId": "k", "turn": null, "error": "e"})).holds();
    summed().row("compaction/end", json!({"compactionId": "k", "turn": 1})).breaks("A20");
    summed()
        .row("compaction/end", json!({"compactionId": "k", "turn": null, "sourceCommandId": "s"}))
        .breaks("A20");
    Log::default().row("compaction/start", json!({"compactionId": "k", "turn": 1})).breaks("A20");
    Log::default().row("compaction/start", json!({"compactionId": "", "turn": null})).breaks("A20");
    let prune = json!({"shadowedRange": {"start": 1, "end": 2}, "shadowedSeqs": [1, 2]});
    Log::default().user().user().user().row("compaction/prune", prune.clone()).holds();
    Log::default().user().user().row("compaction/prune", prune).breaks("A20");
    // Checkpoints belong to the open compaction; one that replaces nothing is free.
    let checkpoint = user(json!({"kind": "compact-checkpoint", "compactionId": "k"}));
    let sources = Some(json!([0, 1]));
    summed().message("user/message", checkpoint.clone(), replace(0, 1), sources.clone()).holds();
    let ended = || summed().row("compaction/end", end.clone());
    ended().message("user/message", checkpoint.clone(), replace(0, 1), sources).breaks("A25");
    ended().message("user/message", checkpoint, json!("append"), None).holds();
}

#[test]
fn a_turn_bracket_in_a_compaction_waits_for_the_marker_that_excuses_it() {
    let crossed = || {
        Log::default()
            .row("compaction/start", json!({"compactionId": "k", "turn": null}))
            .row("turn/start", json!({"turn": 1}))
    };
    let breach = Some(("A20".to_owned(), 1));
    assert_eq!(crossed().outcome(), breach);
    assert_eq!(crossed().user().outcome(), breach);
    let end = json!({"compactionId": "k", "turn": null, "error": "e"});
    assert_eq!(crossed().row("compaction/end", end.clone()).outcome(), breach);
    let excused = crossed().row("session/end-seed", json!({})).holds();
    excused.row("compaction/end", end).breaks("A20");
    let mut checker = LogChecker::new(&header(&json!({})), Vocabulary::default());
    let rows = crossed().0;
    checker.check(&event(&rows[0])).unwrap();
    // A program that writes is told at once.
    assert_eq!(checker.judge(&event(&rows[1])).unwrap().doubt().map(|breach| breach.rule()), Some("A20"));
}

#[test]
fn retries_count_within_their_chain() {
    let retry = |id: &str, retry: u64, step: u64, policy: &str| json!({"turn": 1, "step": step, "retryId": id, "retry": retry, "provider": "p", "policyKey": policy});
    let log = || Log::in_step().header(json!([{}])).row("llm/retry", retry("r", 1, 1, "k"));
    log().row("llm/retry", retry("r", 2, 1, "k")).holds();
    log().row("llm/retry", retry("r", 3, 1, "k")).breaks("A21");
    log().row("llm/retry", retry("s", 2, 1, "k")).breaks("A21");
    log().row("llm/retry", retry("s", 1, 1, "other")).holds();
    log().row("llm/retry", retry("r", 1, 1, "other")).breaks("A21");
    log().row("llm/retry", retry("r", 2, 2, "k")).breaks("A21");
    // After the step, its number still is the one to name; in the next step a chain begins anew.
    let after = || log().row("step/end", json!({"turn": 1, "step": 1}));
    after().row("llm/retry", retry("r", 2, 1, "k")).holds();
    let next = || after().row("step/start", json!({"turn": 1, "step": 2}));
    next().row("llm/retry", retry("s", 1, 2, "k")).holds();
    next().row("llm/retry", retry("r", 2, 2, "k")).breaks("A21");
    // Before the first step it is 0.
    let early = json!({"turn": 1, "step": 0, "retryId": "r", "retry": 1});
    Log::default().row("turn/start", json!({"turn": 1})).row("llm/retry", early).holds();
    let started = |step: u64, retry: u64| json!({"turn": 1, "step": step, "retryId": "r", "retry": retry});
    log().row("llm/retry-started", started(1, 1)).holds();
    log().row("llm/retry-started", started(1, 2)).breaks("A21");
    log().row("llm/retry-started", started(1, 0)).breaks("A21");
    log().row("llm/retry-started", started(2, 1)).breaks("A21");
}

#[test]
fn a_nested_run_ends_as_it_began() {
    let run = |sub: &str, root: &str, parent: &str, arguments: Value| {
        json!({"subCallId": sub, "rootCallId": root, "parentCallId": parent, "name": "n", "arguments": arguments,
               "content": [], "isError": false})
    };
    let arguments = json!({"a": [1, {"b": 2}], "c": "x"});
    let log = || Log::in_step().row("tool/ptc-dispatch-start", run("s", "r", "r", arguments.clone()));
    log().row("tool/ptc-dispatch", run("s", "r", "r", json!({"c": "x", "a": [1.0, {"b": 2}]}))).holds();
    log().row("tool/ptc-dispatch", run("s", "r", "r", json!({"c": "x", "a": [1, {"b": 3}]}))).breaks("A22");
    log().row("tool/ptc-dispatch", run("s", "r", "r", json!({"c": "x", "a": [1]}))).breaks("A22");
    log().row("tool/ptc-dispatch", run("s", "q", "r", arguments.clone())).breaks("A22");
    log().row("tool/ptc-dispatch-start", run("s", "r", "r", json!(1))).breaks("A22");
    log().row("tool/ptc-dispatch-start", run("t", "r", "s", json!(1))).holds();
    log().row("tool/ptc-dispatch-start", run("t", "q", "s", json!(1))).breaks("A22");
    log().row("tool/ptc-dispatch-start", run("t", "r", "u", json!(1))).breaks("A22");
    log().row("tool/ptc-dispatch-start", run("", "r", "r", json!(1))).breaks("A22");
    Log::default().row("tool/ptc-dispatch-start", run("s", "r", "r", json!(1))).breaks("A22");
}

#[test]
fn titles_cite_what_people_said() {
    let title =
        |seqs: Value, kind: &str| json!({"title": "T", "messageSeqs": seqs, "source": {"kind": kind}});
    let log = || Log::default().user().user();
    log().row("session/title", title(json!([1, 0]), "fallback")).holds();
    log().row("session/title", title(json!([0, 0]), "fallback")).breaks("A23");
    log().row("session/title", title(json!([2]), "fallback")).breaks("A23");
    log().row("session/title", title(json!([]), "provider")).breaks("A23");
    log().row("session/title", json!({"messageSeqs": []})).breaks("A23");
    let request = |seqs: Value, kind: &str, content: Value| {
        let message = json!({"id": "m", "role": "user", "content": content, "source": {"kind": kind}});
        json!({"messageSeqs": seqs, "messages": [message]})
    };
    let text = json!([{"type": "text", "text": "t"}]);
    let kind = "session/title-llm-request";
    log().row(kind, request(json!([0]), "dsh-session-title-llm", text.clone())).holds();
    log().row(kind, request(json!([]), "dsh-session-title-llm", text.clone())).breaks("A23");
    log().row(kind, request(json!([0]), "user", text)).breaks("A23");
    log().row(kind, request(json!([0]), "dsh-session-title-llm", json!([]))).breaks("A23");
    log().row(kind, json!({"messageSeqs": [0]})).breaks("A11");
}

#[test]
fn a_command_that_is_done_ran_and_names_no_command() {
    let log = || Log::default().user().row("command/run", json!({"commandId": "c"}));
    let done = |kind: &str, source: Value| json!({"commandId": "c", "kind": kind, "sourceEventSeq": source});
    log().row("command/done", done("success", json!(0))).holds();
    log().row("command/done", done("error", json!(0))).breaks("A24");
    log().row("command/done", done("success", json!(1))).breaks("A24");
    log().row("command/done", done("success", json!(2))).breaks("A24");
    log().row("command/done", json!({"commandId": "d", "kind": "success"})).breaks("A24");
    log().row("command/run", json!({"commandId": "c"})).breaks("A24");
    log().row("command/run", json!({"commandId": ""})).breaks("A24");
}

/// What a message does in a random log: its place is chosen among the seqs so far.
#[derive(Clone, Debug)]
struct Step {
    is_system: bool,
    /// Ends of a replacement; append otherwise.
    range: Option<(usize, usize)>,
    /// How many of the removed seqs are cited, counted from the end.
    uncited: usize,
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let range = prop::option::weighted(0.5, (0_usize..40, 0_usize..6));
    let step = (prop::bool::weighted(0.2), range, prop::sample::select(vec![0, 0, 0, 0, 1]));
    prop::collection::vec(
        step.prop_map(|(is_system, range, uncited)| Step { is_system, range, uncited }),
        1..40,
    )
}

/// The surface as its rules are told, on a vector.
#[derive(Clone, Default)]
struct SlowSurface {
    nodes: Vec<u64>,
    head: Option<u64>,
}

impl SlowSurface {
    fn accepts(&mut self, seq: u64, is_system: bool, range: Option<(u64, u64)>, sources: &[u64]) -> bool {
        if is_system && !self.nodes.is_empty() && self.head.is_none() {
            return false;
        }
        let Some((start, end)) = range else {
            if is_system && self.nodes.is_empty() {
                self.head = Some(seq);
            }
            self.nodes.push(seq);
            return true;
        };
        let place = |wanted| self.nodes.iter().position(|&node| node == wanted);
        let (Some(from), Some(to)) = (place(start), place(end)) else { return false };
        if from > to || !self.nodes[from..=to].iter().all(|node| sources.contains(node)) {
            return false;
        }
        if self.head.is_some_and(|head| self.nodes[from..=to].contains(&head)) {
            if !is_system || from != to {
                return false;
            }
            self.head = Some(seq);
        }
        self.nodes.splice(from..=to, [seq]);
        true
    }
}

fn step_event(step: &Step, seq: u64, slow: &SlowSurface) -> (Event, Option<(u64, u64)>, Vec<u64>) {
    let node = |at: usize| slow.nodes.get(at % slow.nodes.len().max(1)).copied().unwrap_or(0);
    // Sometimes the ends are the wrong way round, or an end is no node.
    let range = step.range.map(|(at, length)| match length {
        5 => (node(at + 1), node(at)),
        4 => (node(at), seq - 1),
        _ => (node(at), node(at + length)),
    });
    let mut sources = Vec::new();
    if let Some((start, end)) = range {
        let place = |wanted| slow.nodes.iter().position(|&node| node == wanted).unwrap_or(0);
        sources = slow.nodes.get(place(start)..=place(end)).unwrap_or(&[start]).to_vec();
        sources.truncate(sources.len().saturating_sub(step.uncited).max(1));
    }
    let data = if step.is_system {
        json!({"turn": 1, "step": 1, "message": {"id": "s", "role": "system", "content": [],
               "source": {"kind": "system-prompt"}}})
    } else {
        user(json!({"kind": "user"}))
    };
    let kind = if step.is_system { "system/message" } else { "user/message" };
    let op = range.map_or(json!("append"), |(start, end)| replace(start, end));
    let mut row = json!({"type": kind, "seq": seq, "time": 1, "data": data, "surfaceOp": op});
    if !sources.is_empty() {
        row["sourceEventSeqs"] = serde_json::from_str(&encode(&sources)).unwrap();
    }
    (event(&row), range, sources)
}

proptest! {
    #[test]
    fn the_surface_is_that_of_a_plain_vector(steps in steps(), batches in prop::collection::vec(any::<bool>(), 40)) {
        let mut checker = LogChecker::new(&header(&json!({})), Vocabulary::default());
        for row in &Log::in_step().0 {
            checker.check(&event(row)).unwrap();
        }
        let mut slow = SlowSurface::default();
        let mut seq = 2;
        for (step, is_taken_back) in steps.iter().zip(batches) {
            let (event, range, sources) = step_event(step, seq, &slow);
            let mut next = slow.clone();
            let accepts = next.accepts(seq, step.is_system, range, &sources);
            checker.begin_batch();
            let judged = checker.check(&event);
            prop_assert_eq!(judged.is_ok(), accepts, "{:?} {:?}", event.row(), judged);
            if is_taken_back {
                checker.undo_batch();
            } else {
                checker.keep_batch();
                if accepts {
                    slow = next;
                    seq += 1;
                }
            }
            prop_assert_eq!(checker.state.surface.iter().collect::<Vec<_>>(), slow.nodes.clone());
            prop_assert_eq!(checker.state.now.head, slow.head);
        }
    }

    #[test]
    fn a_covered_range_is_one_whose_every_seq_is_cited(cited in prop::collection::btree_set(0_u64..20, 1..20), from in 0_u64..20, to in 0_u64..20) {
        let mut surface = Nodes::new();
        for seq in 0..20 {
            surface.push(seq);
        }
        let list: Vec<u64> = cited.iter().copied().collect();
        let sources = decode(&encode(&list), 20).unwrap();
        let expected = (from <= to).then(|| (from..=to).all(|seq| cited.contains(&seq)));
        prop_assert_eq!(surface.is_covered(surface.find(from).unwrap(), to, &sources), expected);
    }

    #[test]
    fn no_log_makes_the_checker_panic(kinds in prop::collection::vec(prop::sample::select(crate::event::KNOWN_TYPES.to_vec()), 1..12),
                                      datas in prop::collection::vec(crate::event::rule_tests::soup(), 12)) {
        let mut checker = LogChecker::new(&header(&json!({"isSeeded": true})), Vocabulary::default());
        for (seq, (kind, data)) in kinds.iter().zip(datas).enumerate() {
            let row = format!(r#"{{"type":"{kind}","seq":{seq},"time":1,"data":{data},"surfaceOp":"append"}}"#);
            let bare = format!(r#"{{"type":"{kind}","seq":{seq},"time":1,"data":{data}}}"#);
            for row in [row, bare] {
                if let Ok(event) = Event::from_row(row.as_bytes()) {
                    let _: Result<Effect, _> = checker.judge(&event);
                    checker.check(&event).ok();
                }
            }
        }
        checker.finish().ok();
    }
}

#[test]
fn a_log_of_more_messages_than_can_be_told_apart_is_refused() {
    let mut checker = LogChecker::new(&SessionHeader::new("s", 1), Vocabulary::default());
    let message = |seq: usize| {
        event(&json!({
            "type": "user/message", "seq": seq, "time": 1, "surfaceOp": "append",
            "data": {"id": "m", "role": "user", "source": {"kind": "user"}, "content": []},
        }))
    };
    (0..NODES_MAX).for_each(|seq| checker.check(&message(seq)).unwrap());
    assert_eq!(checker.check(&message(NODES_MAX)).unwrap_err().rule(), "A19");
    let other = json!({"type": "turn/start", "seq": NODES_MAX, "time": 1, "data": {"turn": 1}});
    checker.check(&event(&other)).unwrap();
}
