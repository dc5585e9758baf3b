//! The vectors of the corpus, on a storage that does what each case says.

use super::{Corpus, EventFilter, EventRequest, QuerySettings, SessionFilter};
use crate::cancel::CancelToken;
use crate::error::{Code, Error, Result};
use crate::event::Event;
use crate::format::EventRange;
use crate::format::header::{Origin, SessionHeader};
use crate::format::reader::LogEnd;
use crate::persistence::{
    Access, EventSink, EventSlice, EventState, Events, FormatStatus, ListMode, Listing, Notice, Removal,
    Resumed, Revision, SessionLog, SessionPersistence, Snapshot,
};
use crate::session::closers::{Cause, closers};
use crate::session::{Seed, SeedMode, SessionRules};
use crate::storage::OsStorage;
use crate::store::{Preparation, SessionStore};
use serde_json::{Value, json};
use std::path::PathBuf;
use std::sync::{Arc, Mutex};

fn vectors(name: &str) -> Value {
    let path = format!("{}/../tests/vectors/{name}", env!("CARGO_MANIFEST_DIR"));
    serde_json::from_str(&std::fs::read_to_string(path).unwrap()).unwrap()
}

fn events(rows: &Value) -> Vec<Event> {
    let rows = rows.as_array().map_or(&[][..], |rows| rows);
    rows.iter().map(|row| Event::from_unstored_row(row.to_string()).unwrap()).collect()
}

fn header(value: &Value) -> SessionHeader {
    let text = |key: &str| value[key].as_str().map(String::from);
    SessionHeader {
        cwd: text("cwd"),
        parent_session: text("parentSession"),
        is_seeded: value["isSeeded"].as_bool().unwrap(),
        origin: (value["origin"] == "subagent").then_some(Origin::Subagent),
        delegation_depth: value["delegationDepth"].as_u64(),
        agent_preset: text("agentPreset"),
        ..SessionHeader::new(text("id").unwrap(), value["createdAt"].as_u64().unwrap())
    }
}

/// A storage that does what a case says of it, and counts what it is asked.
#[derive(Debug)]
struct Scripted {
    /// `store` of the case.
    script: Mutex<Value>,
    /// What is called, in order.
    calls: Mutex<Vec<String>>,
    live: SessionStore,
    writer: Mutex<Option<String>>,
    /// Called with the name of each call, before it answers.
    on_call: Mutex<Option<Hook>>,
}

struct Hook(Box<HookFn>);

type HookFn = dyn FnMut(&str, &mut Value) + Send;

impl std::fmt::Debug for Hook {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Hook")
    }
}

impl Scripted {
    fn new(script: &Value, live: &SessionStore) -> Arc<Scripted> {
        Arc::new(Scripted {
            script: Mutex::new(script.clone()),
            calls: Mutex::default(),
            live: live.clone(),
            writer: Mutex::default(),
            on_call: Mutex::default(),
        })
    }

    fn called(&self, call: &str) -> Value {
        self.calls.lock().unwrap().push(call.to_owned());
        let mut script = self.script.lock().unwrap();
        if let Some(Hook(hook)) = &mut *self.on_call.lock().unwrap() {
            hook(call, &mut script);
        }
        script.clone()
    }

    fn count(&self, call: &str) -> usize {
        self.calls.lock().unwrap().iter().filter(|made| *made == call).count()
    }

    fn session(script: &Value, id: &str) -> Option<Value> {
        script["sessions"].as_array()?.iter().find(|session| session["header"]["id"] == id).cloned()
    }

    /// The session goes live during this call, if the case says so.
    fn attach(&self, session: &Value, during: &str) {
        if session["attachesDuring"] == during {
            go_live(&self.live, &session["header"], &session["liveEvents"]);
        }
    }
}

/// What a flag of a case makes of a call.
fn flagged(flag: &Value) -> Result<()> {
    let code = match flag.as_str() {
        None => return Ok(()),
        Some("corrupt") => Code::SessionCorrupt,
        Some("format-unsupported") => Code::FormatUnsupported,
        Some("not-found") => Code::SessionNotFound,
        Some("fails" | "io-error") => Code::Io,
        Some(other) => panic!("an unknown flag {other}"),
    };
    Err(Error::new(code, "as the case says"))
}

fn snapshot(session: &Value, header_key: &str) -> Snapshot {
    Snapshot {
        header: header(session.get(header_key).unwrap_or(&session["header"])),
        format_status: match session["formatStatus"].as_str() {
            Some("current") => Some(FormatStatus::Current),
            Some("migration-required") => Some(FormatStatus::MigrationRequired),
            _ => None,
        },
        revision: Revision(session["revision"].as_str().unwrap().to_owned()),
        event_count: None,
        size_bytes: None,
        path: None,
    }
}

impl SessionPersistence for Scripted {
    fn create(&self, _: &SessionHeader, _: Option<u64>, _: &CancelToken) -> Result<Arc<dyn SessionLog>> {
        unreachable!("a query writes nothing")
    }

    fn open(&self, id: &str, access: Access, _: &CancelToken) -> Result<Arc<dyn SessionLog>> {
        assert_eq!(access, Access::Read);
        let script = self.called("open");
        flagged(&script["open"])?;
        let session = Scripted::session(&script, id).unwrap();
        flagged(&session["open"])?;
        self.attach(&session, "read");
        let header = header(session.get("openHeader").unwrap_or(&session["header"]));
        Ok(Arc::new(ScriptedLog { session, header }))
    }

    fn resume(&self, _: &str, _: &CancelToken, _: &mut EventSink<'_>) -> Result<Resumed> {
        unreachable!("a query takes no ownership")
    }

    fn stat(&self, id: &str, _: &CancelToken) -> Result<Option<Snapshot>> {
        let script = self.called("stat");
        flagged(&script["stat"])?;
        let Some(session) = Scripted::session(&script, id) else { return Ok(None) };
        flagged(&session["stat"])?;
        self.attach(&session, "stat");
        Ok(Some(snapshot(&session, "statHeader")))
    }

    fn list(&self, _: ListMode, _: &CancelToken) -> Result<Listing> {
        let script = self.called("list");
        flagged(&script["list"])?;
        let sessions = script["sessions"].as_array().unwrap().iter();
        let sessions = sessions.filter(|session| session["listed"] != false);
        Ok(Listing {
            sessions: sessions.map(|session| snapshot(session, "header")).collect(),
            problems: Vec::new(),
        })
    }

    fn writer_of(&self, _: &str) -> Result<Option<String>> {
        self.called("writer_of");
        Ok(self.writer.lock().unwrap().clone())
    }

    fn remove(&self, _: &str, _: Removal, _: &CancelToken) -> Result<Option<PathBuf>> {
        unreachable!("a query writes nothing")
    }

    fn flush(&self) -> Result<()> {
        Ok(())
    }
}

#[derive(Debug)]
struct ScriptedLog {
    session: Value,
    header: SessionHeader,
}

impl SessionLog for ScriptedLog {
    fn id(&self) -> &str {
        &self.header.id
    }

    fn header(&self) -> &SessionHeader {
        &self.header
    }

    fn access(&self) -> Access {
        Access::Read
    }

    fn inherited_event_count(&self, _: &CancelToken) -> Result<u64> {
        Ok(0)
    }

    fn events(&self, _: EventRange, cancel: &CancelToken) -> Result<Events> {
        let mut events = self.read(0, u64::MAX, cancel)?.events.into_iter();
        Ok(Events::from_fn(move || Ok(events.next())))
    }

    fn read(&self, offset: u64, length: u64, cancel: &CancelToken) -> Result<EventSlice> {
        cancel.check()?;
        flagged(&self.session["read"])?;
        let events = events(&self.session["events"]).into_iter();
        let events = events.filter(|event| event.seq() >= offset && event.seq() - offset < length).collect();
        Ok(EventSlice { event_state: EventState::SharedFrozen, events })
    }

    fn check(&self, _: &CancelToken) -> Result<LogEnd> {
        unreachable!("no query asks")
    }

    fn event_count(&self, _: &CancelToken) -> Result<u64> {
        flagged(&self.session["read"])?;
        Ok(self.session["events"].as_array().unwrap().len() as u64)
    }

    fn append(&self, _: &[Event], _: &CancelToken) -> Result<()> {
        unreachable!("a query writes nothing")
    }

    fn flush(&self, _: &CancelToken) -> Result<()> {
        Ok(())
    }

    fn close(&self) -> Result<()> {
        flagged(&self.session["close"])
    }

    fn notices(&self) -> Vec<Notice> {
        Vec::new()
    }
}

fn live_store() -> SessionStore {
    let rules = SessionRules { checks_stored_rules: false, ..SessionRules::default() };
    SessionStore::with(Arc::new(OsStorage::new()), rules)
}

fn go_live(live: &SessionStore, value: &Value, rows: &Value) {
    let seed = Seed {
        mode: SeedMode::Restore,
        events: Some(events(rows)),
        inherited_event_count: None,
        adds_marker: false,
    };
    live.create(Preparation { header: Some(header(value)), seed }).unwrap();
}

fn corpus_of(case: &Value) -> (Corpus, Option<Arc<Scripted>>) {
    let live = live_store();
    for session in case["live"].as_array().unwrap() {
        go_live(&live, &session["header"], &session["events"]);
    }
    let storage = case["store"].is_object().then(|| Scripted::new(&case["store"], &live));
    let persistence = storage.clone().map(|storage| storage as Arc<dyn SessionPersistence>);
    (Corpus::new(live, persistence, QuerySettings::default()).unwrap(), storage)
}

fn records(records: Vec<super::SessionRecord>) -> Value {
    let record = |record: super::SessionRecord| {
        let mut value: Value = serde_json::from_str(&record.to_json()).unwrap();
        let header = value.as_object_mut().unwrap().remove("header").unwrap();
        (value["id"], value["createdAt"]) = (header["id"].clone(), header["createdAt"].clone());
        value
    };
    records.into_iter().map(record).collect()
}

/// What an operation gives, as the cases write it. The source of what is read is told by `observe` alone; others are asked which
/// calls they made.
fn ask(corpus: &Corpus, operation: &str, args: &Value, cancel: &CancelToken) -> Result<Value> {
    let id = args["sessionId"].as_str().unwrap_or_default();
    let seqs = |events: &[Event]| json!({ "seqs": events.iter().map(Event::seq).collect::<Vec<_>>() });
    let filters = args["filters"].to_string();
    Ok(match operation {
        "listSessions" => records(corpus.list_sessions(cancel)?),
        "filterSessions" => {
            records(corpus.filter_sessions(&SessionFilter::list_from_json(&filters)?, cancel)?)
        }
        "traceSession" => json!(corpus.trace_session(id, cancel)?.target.header.id),
        "readSession" => {
            let read = corpus.read_session(id, cancel)?;
            let mut value = seqs(&read.events);
            value["tailTypes"] =
                read.events.iter().rev().take(2).rev().map(|event| json!(event.kind())).collect();
            value
        }
        "readSurface" => seqs(&corpus.read_surface(id, cancel)?.events),
        "listEvents" => {
            let records = corpus.list_events(id, cancel)?;
            json!({ "seqs": records.iter().map(|record| record.seq).collect::<Vec<_>>() })
        }
        "filterEvents" => {
            let filters = EventFilter::list_from_json(&filters)?;
            json!(corpus.filter_events(id, &filters, cancel)?.len())
        }
        "readEvent" => {
            let request = EventRequest::new(args["seq"].as_u64().unwrap());
            seqs(&corpus.read_event(id, request, cancel)?.events)
        }
        "traceEvent" => {
            let trace = corpus.trace_event(id, args["seq"].as_u64().unwrap(), cancel)?;
            json!({ "target": trace.target.seq })
        }
        "readTitle" => json!(corpus.read_title(id, cancel)?.session.id),
        "observeSession" => {
            let (cut, is_live) = corpus.observe(id, cancel)?;
            let mut value = seqs(&cut.events);
            value["source"] = json!(if is_live { "live" } else { "prepared" });
            value["cursor"] = json!(cut.events.last().map_or(-1, |event| event.seq() as i64));
            value
        }
        _ => panic!("no operation {operation}"),
    })
}

#[test]
fn the_corpus_answers_as_in_the_vectors() {
    let mut asked = 0;
    for case in vectors("query-corpus.json")["cases"].as_array().unwrap() {
        let operation = case["operation"].as_str().unwrap();
        if operation.starts_with("search") {
            continue;
        }
        asked += 1;
        let (corpus, storage) = corpus_of(case);
        let found = ask(&corpus, operation, &case["args"], &CancelToken::new());
        let expected = &case["expect"];
        match (found, expected.get("error")) {
            (Err(error), Some(code)) => {
                assert_eq!(error.code().name(), code.as_str().unwrap(), "{}", case["id"])
            }
            (Ok(found), None) => match expected["ok"].as_object() {
                None => assert_eq!(found, expected["ok"], "{}", case["id"]),
                Some(fields) => {
                    for (key, value) in
                        fields.iter().filter(|(key, _)| *key != "source" || found[key].is_string())
                    {
                        assert_eq!(found[key], *value, "{} {key}", case["id"]);
                    }
                }
            },
            (found, _) => panic!("{}: {found:?}, not {expected}", case["id"]),
        }
        let calls = storage.map(|storage| storage.calls.lock().unwrap().clone()).unwrap_or_default();
        if expected["storageCalls"].is_array()
            || expected["ok"]["source"] == "live" && case["store"].is_null()
        {
            assert!(calls.is_empty(), "{}: {calls:?}", case["id"]);
        }
        if let Some(reads) = expected["bodyReads"].as_u64() {
            let opened = calls.iter().filter(|call| *call == "open").count();
            assert_eq!(opened as u64, reads, "{}", case["id"]);
        }
    }
    assert_eq!(asked, 48);
}

#[test]
fn sessions_are_listed_in_the_order_of_the_vectors() {
    let vectors = vectors("query-lineage.json");
    let live = live_store();
    for record in vectors["records"].as_array().unwrap() {
        go_live(&live, &record["header"], &json!([]));
    }
    let corpus = Corpus::new(live, None, QuerySettings::default()).unwrap();
    let listed = corpus.list_sessions(&CancelToken::new()).unwrap();
    let ids: Value = listed.iter().map(|record| json!(record.header.id)).collect();
    let case = vectors["cases"].as_array().unwrap().iter().find(|case| case["id"] == "list-order").unwrap();
    assert_eq!(ids, case["expect"]["ok"]);
}

fn stored(rows: &Value) -> Value {
    let header = json!({"id": "cold", "createdAt": 300, "isSeeded": false});
    json!({"sessions": [{"header": header, "events": rows, "revision": "r1"}]})
}

fn cold_corpus(rows: &Value, settings: QuerySettings) -> (Corpus, Arc<Scripted>) {
    let live = live_store();
    let storage = Scripted::new(&stored(rows), &live);
    (Corpus::new(live, Some(Arc::clone(&storage) as _), settings).unwrap(), storage)
}

#[test]
fn an_interrupted_log_is_closed_as_in_the_vectors() {
    let all = vectors("query-corpus.json");
    let cases = all["balancing"].as_array().unwrap();
    assert_eq!(cases.len(), 14);
    for case in cases {
        let (corpus, _) = cold_corpus(&case["events"], QuerySettings::default());
        let real = events(&case["events"]);
        let (cut, _) = corpus.observe("cold", &CancelToken::new()).unwrap();
        let appended = &cut.events[real.len()..];
        // The rows themselves are held by the vectors of the session.
        assert_eq!(appended, closers(&real, Cause::Interrupted).unwrap(), "{}", case["id"]);
        let expected = case["expect"]["appended"].as_array().unwrap();
        assert_eq!(appended.len(), expected.len(), "{}", case["id"]);
        for (event, expected) in appended.iter().zip(expected) {
            assert_eq!(event.kind(), expected["type"], "{}", case["id"]);
            assert_eq!(json!([event.seq(), event.time()]), json!([expected["seq"], expected["time"]]));
        }
    }
}

fn open_turn() -> Value {
    json!([{"type": "turn/start", "seq": 0, "time": 1, "data": {"turn": 1}}])
}

fn lengths(corpus: &Corpus) -> usize {
    corpus.observe("cold", &CancelToken::new()).unwrap().0.events.len()
}

#[test]
fn a_log_that_somebody_writes_is_not_closed_until_the_writer_is_gone() {
    let (corpus, storage) = cold_corpus(&open_turn(), QuerySettings::default());
    *storage.writer.lock().unwrap() = Some("process 7".to_owned());
    assert_eq!(lengths(&corpus), 1);
    *storage.writer.lock().unwrap() = None;
    assert_eq!(lengths(&corpus), 2);
    assert_eq!(storage.count("open"), 1, "the revision is the same, so the log is not read again");
}

#[test]
fn a_log_whose_writer_left_while_it_was_read_is_read_again() {
    let (corpus, storage) = cold_corpus(&open_turn(), QuerySettings::default());
    let mut is_done = false;
    *storage.on_call.lock().unwrap() = Some(Hook(Box::new(move |call, script| {
        if call == "writer_of" && !is_done {
            is_done = true;
            let end = json!({"type": "turn/end", "seq": 1, "time": 2, "data": {"turn": 1, "reason": {"kind": "completed"}}});
            script["sessions"][0]["events"].as_array_mut().unwrap().push(end);
            script["sessions"][0]["revision"] = json!("r2");
        }
    })));
    let (cut, _) = corpus.observe("cold", &CancelToken::new()).unwrap();
    assert_eq!((cut.events.len(), cut.events[1].time()), (2, 2));
    assert_eq!(storage.count("open"), 2);
}

#[test]
fn a_log_that_never_comes_to_rest_is_given_as_work_in_progress() {
    let (corpus, storage) = cold_corpus(&open_turn(), QuerySettings::default());
    let mut changes = 0;
    *storage.on_call.lock().unwrap() = Some(Hook(Box::new(move |call, script| {
        if call == "writer_of" {
            changes += 1;
            script["sessions"][0]["revision"] = json!(format!("changed-{changes}"));
        }
    })));
    assert_eq!(lengths(&corpus), 1);
    assert_eq!(storage.count("writer_of"), super::corpus::SETTLE_READS_MAX);
}

#[test]
fn the_cache_keeps_and_drops_as_in_the_vectors() {
    // Two scripts need leases, one a second attachment; neither is here.
    let left_out = ["pinned", "swept-on-release", "storage-replaced"];
    let all = vectors("query-corpus.json");
    let scripts = all["cache"].as_array().unwrap();
    let scripts: Vec<_> =
        scripts.iter().filter(|script| !left_out.iter().any(|id| script["id"] == *id)).collect();
    assert_eq!(scripts.len(), 6);
    for script in scripts {
        let row = |seq: u64| json!({"type": "turn/end", "seq": seq, "time": 1, "data": {"turn": 1}});
        let session = |id: &str| json!({"header": {"id": id, "createdAt": 1, "isSeeded": false}, "events": [row(0)], "revision": "r1"});
        let live = live_store();
        let sessions = ["p1", "p2", "p3"].map(session);
        let storage = Scripted::new(&json!({"sessions": sessions}), &live);
        let prepared_session_cache_size = script["preparedSessionCacheSize"].as_u64().unwrap() as usize;
        let settings = QuerySettings { prepared_session_cache_size, ..QuerySettings::default() };
        let corpus = Corpus::new(live, Some(Arc::clone(&storage) as _), settings).unwrap();
        let mut held = std::collections::HashMap::new();
        for step in script["steps"].as_array().unwrap() {
            let before = storage.count("open");
            let observe =
                || corpus.observe(step["sessionId"].as_str().unwrap(), &CancelToken::new()).unwrap().0;
            match step["op"].as_str().unwrap() {
                "observe" => drop(held.insert(step["lease"].to_string(), observe())),
                "observeTogether" => std::thread::scope(|scope| {
                    (0..step["count"].as_u64().unwrap()).for_each(|_| drop(scope.spawn(observe)));
                }),
                "touch" => {
                    let mut stored = storage.script.lock().unwrap();
                    stored["sessions"][0]["revision"] = step["revision"].clone();
                    if step["events"] == "one more" {
                        stored["sessions"][0]["events"].as_array_mut().unwrap().push(row(1));
                    }
                }
                "useLease" => {
                    let events = if step["expect"]["events"] == "one more" { 2 } else { 1 };
                    assert_eq!(held[&step["lease"].to_string()].events.len(), events, "{}", script["id"]);
                }
                "dispose" => drop(held.remove(&step["lease"].to_string())),
                other => panic!("no step {other}"),
            }
            if let Some(reads) = step["expect"]["bodyReads"].as_u64() {
                assert_eq!((storage.count("open") - before) as u64, reads, "{}: {step}", script["id"]);
            }
        }
    }
}

#[test]
fn titles_of_many_are_read_as_in_the_vectors() {
    let mut asked = 0;
    for case in vectors("query-titles.json")["cases"].as_array().unwrap() {
        if case["operation"] != "batch" {
            continue;
        }
        asked += 1;
        let live = live_store();
        let header = |id: &str| json!({"id": id, "createdAt": 1, "isSeeded": false});
        for (id, rows) in case["corpus"]["live"].as_object().unwrap() {
            go_live(&live, &header(id), rows);
        }
        let script = match case["corpus"]["persisted"].as_object() {
            None => json!({"list": "fails", "sessions": []}),
            Some(sessions) => {
                let session = |(id, rows): (&String, &Value)| {
                    let read = if rows == "CORRUPT" { json!("corrupt") } else { Value::Null };
                    json!({"header": header(id), "events": rows, "revision": "r1", "read": read})
                };
                json!({"sessions": sessions.iter().map(session).collect::<Vec<_>>()})
            }
        };
        let storage = Scripted::new(&script, &live);
        let corpus = Corpus::new(live, Some(Arc::clone(&storage) as _), QuerySettings::default()).unwrap();
        let ids: Vec<String> = serde_json::from_value(case["sessionIds"].clone()).unwrap();
        let cancel = CancelToken::new();
        if case["cancelledBeforeStart"] == true {
            cancel.cancel();
        }
        let found = match corpus.read_titles(&ids, &cancel) {
            Err(error) => json!({ "error": error.code().name() }),
            Ok(results) => {
                let result = |result: super::TitleResult| match result.outcome {
                    Ok(found) => json!({"sessionId": result.session_id, "status": "fulfilled",
                        "title": found.title.map(|title| title.text())}),
                    Err(error) => json!({"sessionId": result.session_id, "status": "rejected",
                        "code": error.code().name()}),
                };
                json!({ "ok": results.into_iter().map(result).collect::<Vec<_>>() })
            }
        };
        assert_eq!(found, case["expect"], "{}", case["id"]);
        let is_listed = ids.iter().any(|id| !case["corpus"]["live"].as_object().unwrap().contains_key(id));
        assert_eq!(storage.count("list"), usize::from(is_listed && !cancel.is_cancelled()), "{}", case["id"]);
    }
    assert_eq!(asked, 4);
}

#[test]
fn windows_are_those_of_the_vectors_whether_the_log_is_live_or_stored_kept_or_not() {
    let all = vectors("query-window.json");
    let cases = all["cases"].as_array().unwrap();
    assert_eq!(cases.len(), 14);
    for case in cases {
        let read_window_max = case["readWindowMax"].as_u64().unwrap();
        let settings = QuerySettings { read_window_max, ..QuerySettings::default() };
        let (stored, _) = cold_corpus(&all["events"], settings);
        let (kept, _) = cold_corpus(&all["events"], settings);
        kept.observe("cold", &CancelToken::new()).unwrap();
        let live = live_store();
        go_live(&live, &json!({"id": "cold", "createdAt": 300, "isSeeded": false}), &all["events"]);
        let live = Corpus::new(live, None, settings).unwrap();
        for corpus in [stored, kept, live] {
            let window = EventRequest::from_json(&case["request"].to_string())
                .and_then(|request| corpus.read_event("cold", request, &CancelToken::new()));
            let found = match window {
                Err(error) => json!({ "error": error.code().name() }),
                Ok(window) => json!({ "ok": {
                    "startSeq": window.start_seq(), "endSeq": window.end_seq(),
                    "target": window.target().unwrap().seq(),
                    "seqs": window.events.iter().map(Event::seq).collect::<Vec<_>>(),
                }}),
            };
            assert_eq!(found, case["expect"], "{}", case["id"]);
        }
    }
}

#[test]
fn an_event_that_closes_an_interrupted_turn_can_be_read() {
    let (corpus, _) = cold_corpus(&open_turn(), QuerySettings::default());
    let window = corpus.read_event("cold", EventRequest::new(1).before(1), &CancelToken::new()).unwrap();
    assert_eq!((window.start_seq(), window.target().unwrap().kind()), (0, "turn/end"));
}

#[test]
fn what_is_cancelled_before_it_starts_asks_nobody_but_arguments_come_first() {
    let (corpus, storage) = cold_corpus(&open_turn(), QuerySettings::default());
    let cancel = CancelToken::new();
    cancel.cancel();
    let operations = [
        "listSessions",
        "filterSessions",
        "traceSession",
        "readSession",
        "readSurface",
        "listEvents",
        "filterEvents",
        "readEvent",
        "traceEvent",
        "readTitle",
    ];
    for operation in operations {
        let args = json!({"sessionId": "cold", "seq": 0, "filters": []});
        let error = ask(&corpus, operation, &args, &cancel).unwrap_err();
        assert_eq!(error.code(), Code::QueryAborted, "{operation}");
        assert_eq!(error.causes()[0].code(), Code::Cancelled, "{operation}");
    }
    assert!(storage.calls.lock().unwrap().is_empty());
    let error = corpus.read_event("cold", EventRequest::new(0).before(51), &cancel).unwrap_err();
    assert_eq!(error.code(), Code::QueryInvalidWindow);
    corpus.read_event("cold", EventRequest::new(0).before(50), &CancelToken::new()).unwrap();
}

#[test]
fn settings_of_nothing_are_refused() {
    let good =
        QuerySettings { read_window_max: 0, persisted_read_concurrency: 1, prepared_session_cache_size: 1 };
    Corpus::new(live_store(), None, good).unwrap();
    for bad in [
        QuerySettings { persisted_read_concurrency: 0, ..good },
        QuerySettings { prepared_session_cache_size: 0, ..good },
    ] {
        assert_eq!(Corpus::new(live_store(), None, bad).unwrap_err().code(), Code::QueryInvalidConfig);
    }
}

#[test]
fn an_error_of_the_storage_keeps_its_place_and_is_the_cause() {
    let cause = Error::new(Code::FormatUnsupported, "the log is of version 9")
        .with_version("9")
        .with_path("/r/s")
        .with_line(1);
    let error = super::storage_error::storage_error(Some("s"), cause);
    assert_eq!(
        (error.code(), error.version(), error.line()),
        (Code::QueryPersistenceFailed, Some("9"), Some(1))
    );
    assert_eq!((error.session_id(), error.causes()[0].code()), (Some("s"), Code::FormatUnsupported));
    assert!(error.to_string().contains("version 9 (/r/s, line 1)"), "{error}");
}
