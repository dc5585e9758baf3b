//! The session model against the vectors of `session.md` 21, which were run against the original program.

use dsh_session_core::event::Vocabulary;
use dsh_session_core::json;
use dsh_session_core::session::{
    ImageOffload, Projections, Registration, Seed, SeedMode, SessionRules, fold_surface_window,
    header_from_json,
};
use dsh_session_core::storage::Storage;
use dsh_session_core::storage::simulation::MemoryStorage;
use dsh_session_core::store::{Detach, ForkSource, Preparation, SessionStore};
use dsh_session_core::{Code, Error, Event, EventDraft, Session, SessionHeader};
use serde_json::{Value, json};
use std::collections::HashMap;
use std::path::Path;
use std::sync::{Arc, Mutex};

fn vectors(name: &str) -> Vec<Value> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../tests/vectors").join(name);
    let vectors: Value = serde_json::from_str(&std::fs::read_to_string(path).unwrap()).unwrap();
    vectors["cases"].as_array().unwrap().clone()
}

/// The code that the vectors know a refusal by.
fn code(error: &Error) -> String {
    match error.code() {
        Code::EventRefused | Code::SessionRefused => error.rule().unwrap_or("NO_RULE").to_owned(),
        // A text that is no JSON at all cannot come back equal from it either.
        Code::InvalidArgument => "NOT_LOSSLESS_JSON".to_owned(),
        code => code.name().to_owned(),
    }
}

fn refused(error: &Error) -> Value {
    json!({ "refused": code(error) })
}

fn parsed(text: &str) -> Value {
    serde_json::from_str(text).unwrap()
}

fn draft(input: &Value) -> Result<EventDraft, Error> {
    EventDraft::from_line(input.to_string())
}

/// Appends inputs, as one batch or one event.
fn append(session: &Session, inputs: &Value, is_batch: bool) -> Value {
    let drafts: Result<Vec<_>, _> = inputs.as_array().unwrap().iter().map(draft).collect();
    let appended = drafts.and_then(|drafts| match (is_batch, &drafts[..]) {
        (false, [single]) => session.append(single).map(|event| vec![event]),
        _ => session.append_batch(&drafts),
    });
    match appended {
        Ok(events) => json!({ "committed": events.iter().map(Event::seq).collect::<Vec<_>>() }),
        Err(error) => refused(&error),
    }
}

fn messages(session: &Session) -> Vec<Value> {
    session.messages().unwrap().iter().map(|message| parsed(message.text())).collect()
}

fn ids(session: &Session) -> Vec<String> {
    session.messages().unwrap().iter().map(|message| message.id()).collect()
}

fn observed(session: &Session) -> Value {
    let surface = session.surface();
    json!({
        "seq": session.next_seq(),
        "nodes": *surface.nodes().unwrap(),
        "replaceGeneration": surface.replace_generation().unwrap(),
        "contentGeneration": surface.content_generation().unwrap(),
        "derived": messages(session),
    })
}

fn clock(now_ms: i64) -> Arc<dyn Storage> {
    let storage = MemoryStorage::new(1);
    storage.set_clock_ms(now_ms);
    Arc::new(storage)
}

fn rules(projections: &Arc<Projections>) -> SessionRules {
    SessionRules {
        projections: Arc::clone(projections),
        checks_stored_rules: false,
        ..SessionRules::default()
    }
}

/// An independent session with the projections that a case names.
fn independent(case: &Value) -> Session {
    let projections = Arc::new(Projections::default());
    for kind in case["projections"].as_array().into_iter().flatten() {
        projections.register(kind.as_str().unwrap(), ImageOffload).unwrap();
    }
    let header = SessionHeader::new("s", 1);
    Session::independent_with(header, Seed::default(), clock(1000), rules(&projections)).unwrap()
}

#[test]
fn appends_are_accepted_and_refused_as_the_vectors_say() {
    let cases = vectors("session-append.json").into_iter().chain(vectors("session-projection.json"));
    for case in cases.filter(|case| case["session"] == "independent") {
        let session = independent(&case);
        for step in case["steps"].as_array().unwrap() {
            let before = observed(&session);
            let outcome = append(&session, &step["inputs"], step["call"] == "append-batch");
            assert_eq!(outcome, step["expect"], "{}", case["id"]);
            if outcome.get("refused").is_some() {
                assert_eq!(observed(&session), before, "{}: a refusal leaves no trace", case["id"]);
            }
        }
        assert_eq!(observed(&session), case["after"], "{}", case["id"]);
    }
}

#[test]
fn every_json_text_is_admitted_or_refused_as_the_vectors_say() {
    for case in vectors("session-json.json") {
        let session = Session::independent("s").unwrap();
        let text = case["text"].as_str().unwrap();
        let outcome = EventDraft::new("todo/write", text).and_then(|draft| session.append(&draft));
        match outcome {
            Err(error) => assert_eq!(refused(&error), case["expect"], "{}", case["id"]),
            Ok(event) if case["rawText"] == true => assert_eq!(event.data().text(), text, "{}", case["id"]),
            Ok(event) => {
                assert_eq!(case["expect"], "accept", "{}", case["id"]);
                assert_eq!(parsed(event.data().text()), case["value"], "{}", case["id"]);
            }
        }
    }
}

#[test]
fn five_thousand_nested_arrays_are_accepted_copied_and_dropped() {
    let data = "[".repeat(5000) + &"]".repeat(5000);
    let session = Session::independent("s").unwrap();
    let event = session.append(EventDraft::new("todo/write", &data).unwrap()).unwrap();
    assert_eq!(event.data().text(), data);
    drop(session);
    assert_eq!(event.clone().data().text().len(), 10_000);
}

#[test]
fn free_folds_are_those_of_the_vectors() {
    for case in vectors("session-surface.json") {
        let events: Vec<Event> = case["events"]
            .as_array()
            .unwrap()
            .iter()
            .map(|row| Event::from_unstored_row(row.to_string()).unwrap())
            .collect();
        let base_seq = case["baseSeq"].as_u64().unwrap();
        let folded = fold_surface_window(events, base_seq, &Projections::built_in(), &Vocabulary::default());
        let outcome = match folded {
            Ok(folded) => {
                let replacements: Vec<Value> = folded
                    .replacements
                    .iter()
                    .map(|replacement| {
                        json!({
                            "seq": replacement.seq, "start": replacement.start, "end": replacement.end,
                            "shadowedSeqs": replacement.shadowed_seqs,
                        })
                    })
                    .collect();
                json!({
                    "nodes": folded.nodes,
                    "replacements": replacements,
                    "replaceGeneration": folded.replace_generation,
                    "contentGeneration": folded.content_generation,
                    "derivedIds": folded.messages.iter().map(|message| message.id()).collect::<Vec<_>>(),
                })
            }
            Err(error) => json!({ "refused": code(&error), "atIndex": error.index() }),
        };
        for (key, expected) in case["expect"].as_object().unwrap() {
            assert_eq!(&outcome[key], expected, "{}: {key} of {outcome}", case["id"]);
        }
    }
}

#[test]
fn sessions_begin_as_the_vectors_say() {
    for case in vectors("session-seed.json") {
        let outcome = begin(&case);
        let outcome = match &outcome {
            Ok((session, seed_length)) => {
                let appended = session.snapshot_events(*seed_length, u64::MAX);
                json!({
                    "appended": appended.iter().map(|event| parsed(event.row())).collect::<Vec<_>>(),
                    "seq": session.next_seq(),
                    "firstLiveSeq": session.first_live_seq(),
                    "firstLifecycleSeq": session.first_lifecycle_seq(),
                    "inheritedEventCount": session.inherited_event_count(),
                })
            }
            Err(error) => json!({ "refused": code(error), "atIndex": error.index() }),
        };
        for (key, expected) in case["expect"].as_object().unwrap() {
            assert_eq!(&outcome[key], expected, "{}: {key} of {outcome}", case["id"]);
        }
    }
}

fn begin(case: &Value) -> Result<(Session, u64), Error> {
    let events = case
        .get("seed")
        .map(|rows| Seed::from_rows(rows.as_array().unwrap().iter().map(Value::to_string)))
        .transpose()?;
    let header = match case.get("header") {
        Some(header) => header_from_json(&header.to_string(), "x")?,
        None => SessionHeader::new("x", 500),
    };
    let length = events.as_ref().map_or(0, Vec::len) as u64;
    let mode = if case["mode"] == "restore" { SeedMode::Restore } else { SeedMode::Snapshot };
    let inherited_event_count = case.get("inheritedEventCount").and_then(Value::as_u64);
    let seed = Seed { mode, events, inherited_event_count, ..Seed::default() };
    let storage = clock(case["clock"].as_i64().unwrap());
    Ok((Session::independent_with(header, seed, storage, rules(&Arc::default()))?, length))
}

fn store_with_clock(now_ms: i64) -> SessionStore {
    SessionStore::with(clock(now_ms), rules(&Arc::default()))
}

/// A store with the source of a fork case in it.
fn forkable(case: &Value) -> (SessionStore, Session) {
    let store = store_with_clock(case["clock"].as_i64().unwrap());
    let header = &case["source"]["header"];
    let header = header_from_json(&header.to_string(), header["id"].as_str().unwrap()).unwrap();
    let rows = case["source"]["events"].as_array().unwrap();
    let events: Vec<Event> = rows.iter().map(|row| Event::from_row(row.to_string()).unwrap()).collect();
    let markers = events.iter().filter(|event| event.kind() == "session/end-seed");
    let tagged = markers.filter(|event| event.data().get("inherited").is_some()).map(Event::seq).next_back();
    let inherited_event_count = header.is_seeded.then(|| tagged.unwrap());
    // Without a marker of its own, so that the source is exactly what the case says.
    let seed =
        Seed { mode: SeedMode::Restore, events: Some(events), inherited_event_count, adds_marker: false };
    let session = store.create(Preparation { header: Some(header), seed }).unwrap();
    (store, session)
}

#[test]
fn forks_are_those_of_the_vectors() {
    for case in vectors("session-fork.json").iter().filter(|case| case.get("source").is_some()) {
        let (store, source) = forkable(case);
        let boundary = case.get("boundary").and_then(Value::as_u64);
        let child = store.fork(ForkSource::Id(source.id()), boundary, Some("kid"));
        let child = match child {
            Ok(child) => child,
            Err(error) => {
                assert_eq!(refused(&error), case["expect"], "{}", case["id"]);
                continue;
            }
        };
        let inherited = child.inherited_event_count();
        for (ours, theirs) in
            child.snapshot_events(0, inherited).iter().zip(source.snapshot_events(0, inherited).iter())
        {
            assert_eq!(ours.row(), theirs.row(), "{}", case["id"]);
        }
        let mut header = parsed(&child.header().to_json());
        // What only the stored form has.
        header.as_object_mut().unwrap().retain(|key, _| key != "type" && key != "delegationDepth");
        let suffix = child.snapshot_events(inherited, u64::MAX);
        let outcome = json!({
            "header": header,
            "inheritedEventCount": inherited,
            "firstLiveSeq": child.first_live_seq(),
            "firstLifecycleSeq": child.first_lifecycle_seq(),
            "suffix": suffix.iter().map(|event| parsed(event.row())).collect::<Vec<_>>(),
            "derivedIds": ids(&child),
        });
        for (key, expected) in case["expect"].as_object().unwrap() {
            assert_eq!(&outcome[key], expected, "{}: {key} of {outcome}", case["id"]);
        }
    }
}

#[test]
fn forks_are_refused_with_the_codes_of_the_vectors_in_their_order() {
    let store = SessionStore::new();
    let live = store.create(Preparation::default()).unwrap();
    let fork = |source, boundary, child| store.fork(source, boundary, child).unwrap_err().code();
    assert_eq!(fork(ForkSource::Id("nobody"), Some(9), Some(live.id())), Code::SessionAlreadyExists);
    assert_eq!(fork(ForkSource::Id("nobody"), None, None), Code::SessionNotFound);
    let stranger = Session::independent("stranger").unwrap();
    assert_eq!(fork(ForkSource::Session(&stranger), None, None), Code::SessionNotFound);
    let double = Session::independent(live.id()).unwrap();
    assert_eq!(fork(ForkSource::Session(&double), None, None), Code::SessionNotLive);
    assert_eq!(
        fork(ForkSource::Session(&live), Some(json::SAFE_INTEGER_MAX + 1), None),
        Code::InvalidBoundary
    );
    assert_eq!(fork(ForkSource::Session(&live), Some(u64::MAX), None), Code::InvalidBoundary);
}

#[test]
fn plugin_records_are_those_of_the_vectors() {
    for case in vectors("session-records.json") {
        let id = &case["id"];
        if let Some(event) = case.get("event") {
            let event = Event::from_row(event.to_string()).unwrap();
            let record = event.as_plugin_record().map(|record| {
                let data = parsed(record.data.text());
                json!({ "type": record.kind, "seq": record.seq, "time": record.time_ms, "data": data })
            });
            assert_eq!(record.unwrap_or(Value::Null), case["expect"], "{id}");
            continue;
        }
        let header = SessionHeader::new("s", 1);
        let storage = clock(case["clock"].as_i64().unwrap_or(1));
        let session =
            Session::independent_with(header, Seed::default(), storage, rules(&Arc::default())).unwrap();
        let data = case.get("data").map_or_else(|| "1".to_owned(), Value::to_string);
        match session.append_plugin_record(case["name"].as_str().unwrap(), data) {
            Err(error) => assert_eq!(refused(&error), case["expect"], "{id}"),
            Ok(event) if case["expect"] == "ok" => assert!(event.ignorable(), "{id}"),
            Ok(event) => {
                assert_eq!(parsed(event.row()), case["expect"]["event"], "{id}");
                assert_eq!(json!(*session.surface().nodes().unwrap()), case["expect"]["nodes"], "{id}");
            }
        }
    }
}

/// A script of the suites `store`, `publication` and, for stores, `projection`.
#[derive(Clone)]
struct Script {
    store: SessionStore,
    shared: Arc<Mutex<Shared>>,
}

#[derive(Default)]
struct Shared {
    sessions: HashMap<String, Session>,
    detaches: HashMap<String, Detach>,
    projections: HashMap<String, Registration>,
    trace: Vec<String>,
    /// Outcomes of steps inside listeners that were not as expected.
    surprises: Vec<String>,
}

impl Script {
    fn new() -> Script {
        Script { store: store_with_clock(1000), shared: Arc::default() }
    }

    fn run(&self, case: &Value) {
        for step in case["steps"].as_array().unwrap() {
            let outcome = self.step(step);
            assert_eq!(outcome, step["expect"], "{}: {step}", case["id"]);
        }
        let shared = self.shared.lock().unwrap();
        assert!(shared.surprises.is_empty(), "{}: {:?}", case["id"], shared.surprises);
        if let Some(trace) = case.get("trace") {
            assert_eq!(&json!(shared.trace), trace, "{}", case["id"]);
        }
    }

    fn session(&self, name: &Value) -> Session {
        self.shared.lock().unwrap().sessions[name.as_str().unwrap()].clone()
    }

    fn name(&self, step: &Value, session: Session) -> Value {
        let name = step.get("as").or(step.get("id")).or(step.get("child")).unwrap();
        let told = if step["expect"] == "ok" { json!("ok") } else { json!({ "id": session.id() }) };
        self.shared.lock().unwrap().sessions.insert(name.as_str().unwrap().to_owned(), session);
        told
    }

    fn trace(&self, line: String) {
        self.shared.lock().unwrap().trace.push(line);
    }

    fn preparation(&self, step: &Value) -> Preparation {
        let header = step.get("id").map(|id| SessionHeader::new(id.as_str().unwrap(), 0));
        let events = step
            .get("seed")
            .map(|rows| Seed::from_rows(rows.as_array().unwrap().iter().map(Value::to_string)).unwrap());
        Preparation { header, seed: Seed { events, ..Seed::default() } }
    }

    fn step(&self, step: &Value) -> Value {
        let done =
            |outcome: Result<(), Error>| outcome.map_or_else(|error| self.told(&error), |()| json!("ok"));
        match step["call"].as_str().unwrap() {
            "independent" => {
                let session = Session::independent(step["id"].as_str().unwrap()).unwrap();
                self.name(step, session)
            }
            "prepare" => match self.store.prepare(self.preparation(step)) {
                Ok(session) => self.name(step, session),
                Err(error) => self.told(&error),
            },
            "create" => match self.store.create(self.preparation(step)) {
                Ok(session) => self.name(step, session),
                Err(error) => self.told(&error),
            },
            "enter" => done(self.store.enter(&self.session(&step["on"])).map(|detach| {
                let name = step["on"].as_str().unwrap().to_owned();
                self.shared.lock().unwrap().detaches.insert(name, detach);
            })),
            "announce" => done(self.store.announce(&self.session(&step["on"]))),
            "detach" => {
                let detach = self.shared.lock().unwrap().detaches.get(step["on"].as_str().unwrap()).cloned();
                let detach =
                    detach.unwrap_or_else(|| self.store.detach_of(&self.session(&step["on"])).unwrap());
                detach.detach();
                json!("ok")
            }
            "append" => {
                let is_batch = step["batch"] == true || step["inputs"].as_array().unwrap().len() > 1;
                append(&self.session(&step["on"]), &step["inputs"], is_batch)
            }
            "record" => {
                let session = self.session(&step["on"]);
                let name = step["type"].as_str().unwrap();
                match session.append_plugin_record(name, step["data"].to_string()) {
                    Ok(event) => json!({ "committed": [event.seq()] }),
                    Err(error) => self.told(&error),
                }
            }
            "get" => json!({ "found": self.store.get(step["id"].as_str().unwrap()).is_some() }),
            "list" => {
                let ids: Vec<_> = self.store.list().iter().map(|session| session.id().to_owned()).collect();
                json!({ "ids": ids })
            }
            "flush" => match self.store.flush(&self.session(&step["on"])) {
                Ok(participated) => json!({ "participated": participated }),
                Err(error) => self.told(&error),
            },
            "listen" => {
                self.listen(step);
                json!("ok")
            }
            "validate" => {
                let refused = step["type"].as_str().unwrap().to_owned();
                self.store.add_validator(move |_, event| match event.kind() == refused {
                    true => Err(Error::new(Code::InvalidArgument, "not here")),
                    false => Ok(()),
                });
                json!("ok")
            }
            call => self.projection_step(call, step),
        }
    }

    fn projection_step(&self, call: &str, step: &Value) -> Value {
        match call {
            "registerProjection" => {
                match self.store.projections().register(step["type"].as_str().unwrap(), ImageOffload) {
                    Ok(registration) => {
                        let name = step["definition"].as_str().unwrap().to_owned();
                        self.shared.lock().unwrap().projections.insert(name, registration);
                        json!("ok")
                    }
                    Err(error) => self.told(&error),
                }
            }
            "unregisterProjection" => {
                self.shared.lock().unwrap().projections[step["definition"].as_str().unwrap()].unregister();
                json!("ok")
            }
            "fork" => {
                let source = self.session(&step["source"]);
                let child =
                    self.store.fork(ForkSource::Session(&source), None, step["child"].as_str()).unwrap();
                self.name(step, child)
            }
            "deriveMessages" => match self.session(&step["on"]).messages() {
                Ok(messages) => {
                    json!({ "ids": messages.iter().map(|message| message.id()).collect::<Vec<_>>() })
                }
                Err(error) => self.told(&error),
            },
            "surfaceNodes" => match self.session(&step["on"]).surface().nodes() {
                Ok(nodes) => json!({ "nodes": *nodes }),
                Err(error) => self.told(&error),
            },
            call => panic!("a script calls `{call}`"),
        }
    }

    fn told(&self, error: &Error) -> Value {
        // A listener's own error is what the caller gets.
        let is_listener = error.message() == "the script says so";
        if is_listener { json!({ "refused": "LISTENER" }) } else { refused(error) }
    }

    fn listen(&self, step: &Value) {
        let (script, listener) = (self.clone(), step["listener"].clone());
        let name = listener["name"].as_str().unwrap().to_owned();
        let act = move |session: &Session, event: Option<&Event>, what: &str| {
            let mut line = format!("{what}:{name}:{}", session.id());
            if let Some(event) = event {
                let batch = session.current_batch_publication();
                let batch = batch.map_or_else(|| "none".to_owned(), |event| event.seq().to_string());
                line.push_str(&format!(":{}:{}:{batch}", event.seq(), session.next_seq()));
            }
            script.trace(line);
            script.act(&listener, event)
        };
        match step["event"].as_str().unwrap() {
            "event" => self.store.on_event(move |session, event| act(session, Some(event), "event")),
            "created" => self.store.on_created(move |session| act(session, None, "created")),
            "disposed" => self.store.on_disposed(move |session| act(session, None, "disposed")),
            _ => self.store.on_flush(move |session| act(session, None, "flush")),
        };
    }

    fn act(&self, listener: &Value, event: Option<&Event>) -> Result<(), Error> {
        let failure = || Error::new(Code::InvalidArgument, "the script says so");
        for step in listener["do"].as_array().into_iter().flatten() {
            if step.get("onSeq").is_some_and(|seq| seq.as_u64() != event.map(Event::seq)) {
                continue;
            }
            if step["call"] == "fail" {
                return Err(failure());
            }
            let outcome = self.step(step);
            if outcome != step["expect"] {
                self.shared.lock().unwrap().surprises.push(format!("{step} gave {outcome}"));
            }
        }
        if listener["fail"] == true { Err(failure()) } else { Ok(()) }
    }
}

#[test]
fn the_store_behaves_as_the_vectors_say() {
    vectors("session-store.json").iter().for_each(|case| Script::new().run(case));
}

#[test]
fn events_are_published_as_the_vectors_say() {
    vectors("session-publication.json").iter().for_each(|case| Script::new().run(case));
}

#[test]
fn projections_of_a_store_are_those_of_the_vectors() {
    for case in vectors("session-projection.json").iter().filter(|case| case["session"] == "store") {
        Script::new().run(case);
    }
}
