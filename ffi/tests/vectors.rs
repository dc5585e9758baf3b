//! The vectors of `session.md` 21 through the C functions: appends, surfaces, forks, closers, folds.
#![allow(missing_docs)]

mod support;

use ::dsh_session::buffer::{dsh_buffer, dsh_buffer_free};
use ::dsh_session::errors::{dsh_error, dsh_error_free, dsh_error_index, dsh_error_name, dsh_error_rule};
use ::dsh_session::events::{dsh_events, dsh_events_free, dsh_events_next};
use ::dsh_session::folds::{dsh_closers, dsh_fold, dsh_fold_surface, dsh_fork_seed};
use ::dsh_session::live::dsh_store_create_seeded;
use ::dsh_session::messages::{
    dsh_message, dsh_messages, dsh_messages_at, dsh_messages_count, dsh_messages_free,
};
use ::dsh_session::session::{
    dsh_append_options, dsh_session, dsh_session_append, dsh_session_append_rows, dsh_session_create,
    dsh_session_events, dsh_session_free, dsh_session_header, dsh_session_inherited_event_count,
    dsh_session_next_seq,
};
use ::dsh_session::store::{
    DSH_STORE_UNCHECKED_RULES, dsh_store, dsh_store_free, dsh_store_open, dsh_store_settings,
};
use ::dsh_session::surface::{
    dsh_seqs, dsh_seqs_free, dsh_session_first_lifecycle_seq, dsh_session_first_live_seq,
    dsh_session_messages, dsh_session_surface,
};
use serde_json::{Value, json};
use std::ffi::c_char;
use std::{mem, ptr, slice};

const DSH_OK: i32 = 0;
const DSH_DONE: i32 = 1;
const DSH_ABSENT: i32 = 2;

/// SAFETY of this file: every pointer is of a live value of the right type, every handle is freed once, and every text lives through its
/// call: the promises C1 to C5 of the library.
macro_rules! c {
    ($call:expr) => {
        // SAFETY: as said above the macro.
        unsafe { $call }
    };
}

fn vectors(suite: &str) -> Vec<Value> {
    let path = support::root().join(format!("tests/vectors/session-{suite}.json"));
    let vectors: Value = serde_json::from_slice(&std::fs::read(path).unwrap()).unwrap();
    vectors["cases"].as_array().unwrap().clone()
}

fn text(at: *const c_char, len: usize) -> String {
    let bytes: &[u8] = if at.is_null() { &[] } else { c!(slice::from_raw_parts(at.cast(), len)) };
    String::from_utf8(bytes.to_vec()).unwrap()
}

fn parsed(text: &str) -> Value {
    serde_json::from_str(text).unwrap_or_else(|error| panic!("{error}: {text}"))
}

/// The outcome of a call: its status, or what the vectors call its refusal.
fn made(call: impl FnOnce(*mut *mut dsh_error) -> i32) -> Result<i32, Value> {
    let mut error = ptr::null_mut();
    let status = call(&mut error);
    if status >= 0 {
        assert!(error.is_null());
        return Ok(status);
    }
    let (name, rule) = c!((dsh_error_name(error), dsh_error_rule(error)));
    let name = text(name.ptr, name.len);
    let code = match name.as_str() {
        "EVENT_REFUSED" | "SESSION_REFUSED" => text(rule.ptr, rule.len),
        // A text that is no JSON at all cannot come back equal from it either.
        "INVALID_ARGUMENT" => "NOT_LOSSLESS_JSON".to_owned(),
        _ => name,
    };
    let index = c!(dsh_error_index(error));
    c!(dsh_error_free(error));
    Err(json!({ "refused": code, "atIndex": index }))
}

/// The text of a call that fills a buffer; none where there is nothing.
fn filled(call: impl FnOnce(*mut dsh_buffer, *mut *mut dsh_error) -> i32) -> Result<Option<String>, Value> {
    let mut buffer = dsh_buffer { data: ptr::null(), len: 0, owner: ptr::null_mut() };
    match made(|err| call(&mut buffer, err))? {
        DSH_ABSENT => Ok(None),
        _ => {
            let filled = text(buffer.data, buffer.len);
            c!(dsh_buffer_free(&mut buffer));
            Ok(Some(filled))
        }
    }
}

fn number(call: impl FnOnce(*mut u64, *mut *mut dsh_error) -> i32) -> u64 {
    let mut number = 0;
    assert_eq!(made(|err| call(&mut number, err)), Ok(DSH_OK));
    number
}

/// A store in memory that judges by the rules of sessions only, as the vectors do.
struct Store(*mut dsh_store);

impl Store {
    fn new() -> Store {
        let settings = dsh_store_settings {
            struct_size: size_of::<dsh_store_settings>(),
            flags: DSH_STORE_UNCHECKED_RULES,
            // SAFETY: numbers and pointers.
            ..unsafe { mem::zeroed() }
        };
        let mut store = ptr::null_mut();
        assert_eq!(made(|err| c!(dsh_store_open(ptr::null(), 0, &settings, &mut store, err))), Ok(DSH_OK));
        Store(store)
    }
}

impl Drop for Store {
    fn drop(&mut self) {
        c!(dsh_store_free(self.0));
    }
}

struct Session(*mut dsh_session);

impl Drop for Session {
    fn drop(&mut self) {
        c!(dsh_session_free(self.0));
    }
}

impl Session {
    fn create(store: &Store) -> Session {
        let mut session = ptr::null_mut();
        let header = r#"{"id":"s"}"#;
        let (at, len) = (header.as_ptr().cast(), header.len());
        assert_eq!(made(|err| c!(dsh_session_create(store.0, at, len, &mut session, err))), Ok(DSH_OK));
        Session(session)
    }

    fn seeded(store: &Store, header: &Value, rows: &str, inherited: u64) -> Result<Session, Value> {
        let mut session = ptr::null_mut();
        let header = header.to_string();
        made(|err| {
            let (at, len) = (header.as_ptr().cast(), header.len());
            let (rows, rows_len) = (rows.as_ptr().cast(), rows.len());
            let inherited = i64::try_from(inherited).unwrap();
            c!(dsh_store_create_seeded(store.0, at, len, rows, rows_len, inherited, &mut session, err))
        })?;
        Ok(Session(session))
    }

    fn append_rows(&self, inputs: &[Value]) -> Value {
        let rows: String = inputs.iter().map(|input| format!("{input}\n")).collect();
        let (mut first, mut count) = (0, 0);
        let (at, len) = (rows.as_ptr().cast(), rows.len());
        match made(|err| c!(dsh_session_append_rows(self.0, at, len, &mut first, &mut count, err))) {
            Ok(_) => json!({ "committed": (first..first + count).collect::<Vec<_>>() }),
            Err(refused) => json!({ "refused": refused["refused"] }),
        }
    }

    /// One event through the plain call; `None` where its struct has no way to say what the input says.
    fn append(&self, input: &Value) -> Option<Value> {
        let members = input.as_object()?;
        if members.keys().any(|key| !["type", "data", "surfaceOp", "sourceEventSeqs"].contains(&key.as_str()))
        {
            return None;
        }
        let kind = input["type"].as_str()?;
        let data = members.get("data")?.to_string();
        let sources = members
            .get("sourceEventSeqs")
            .map(|seqs| seqs.as_array()?.iter().map(Value::as_u64).collect::<Option<Vec<_>>>());
        let sources = match sources {
            None => None,
            Some(sources) => Some(sources.filter(|sources| !sources.is_empty())?),
        };
        let mut options = dsh_append_options {
            struct_size: size_of::<dsh_append_options>(),
            // SAFETY: numbers and pointers.
            ..unsafe { mem::zeroed() }
        };
        match members.get("surfaceOp") {
            None => {}
            Some(Value::String(op)) if op == "append" => options.surface = 1,
            Some(op) => {
                let op = op.as_object().filter(|op| op.len() == 1)?.get("replace")?;
                let op = op.as_object().filter(|op| op.len() == 2)?;
                options.surface = 2;
                options.surface_start_seq = op.get("startSeq")?.as_u64()?;
                options.surface_end_seq = op.get("endSeq")?.as_u64()?;
            }
        }
        if let Some(sources) = &sources {
            options.source_event_seqs = sources.as_ptr();
            options.source_event_seqs_len = sources.len();
        }
        let mut seq = 0;
        let (kind_at, kind_len) = (kind.as_ptr().cast(), kind.len());
        let (data_at, data_len) = (data.as_ptr().cast(), data.len());
        let appended = made(|err| {
            c!(dsh_session_append(self.0, kind_at, kind_len, data_at, data_len, &options, &mut seq, err))
        });
        Some(match appended {
            Ok(_) => json!({ "committed": [seq] }),
            Err(refused) => json!({ "refused": refused["refused"] }),
        })
    }

    fn messages(&self) -> Vec<Value> {
        let mut list: *mut dsh_messages = ptr::null_mut();
        assert_eq!(made(|err| c!(dsh_session_messages(self.0, &mut list, err))), Ok(DSH_OK));
        let messages = (0..c!(dsh_messages_count(list))).map(|index| {
            // SAFETY: numbers and pointers.
            let mut message =
                dsh_message { struct_size: size_of::<dsh_message>(), ..unsafe { mem::zeroed() } };
            assert_eq!(made(|err| c!(dsh_messages_at(list, index, &mut message, err))), Ok(DSH_OK));
            parsed(&text(message.text.ptr, message.text.len))
        });
        let messages = messages.collect();
        c!(dsh_messages_free(list));
        messages
    }

    fn observed(&self) -> Value {
        let mut nodes = dsh_seqs { data: ptr::null(), len: 0, owner: ptr::null_mut() };
        let (mut replaced, mut changed) = (0, 0);
        let call = |err| c!(dsh_session_surface(self.0, &mut nodes, &mut replaced, &mut changed, err));
        assert_eq!(made(call), Ok(DSH_OK));
        let seqs = if nodes.data.is_null() {
            vec![]
        } else {
            c!(slice::from_raw_parts(nodes.data, nodes.len)).to_vec()
        };
        c!(dsh_seqs_free(&mut nodes));
        json!({
            "seq": number(|out, err| c!(dsh_session_next_seq(self.0, out, err))),
            "nodes": seqs,
            "replaceGeneration": replaced,
            "contentGeneration": changed,
            "derived": self.messages(),
        })
    }

    fn rows_from(&self, from: u64) -> Vec<Value> {
        let mut events: *mut dsh_events = ptr::null_mut();
        assert_eq!(made(|err| c!(dsh_session_events(self.0, from, u64::MAX, &mut events, err))), Ok(DSH_OK));
        let mut rows = Vec::new();
        loop {
            // SAFETY: numbers and pointers.
            let mut event: ::dsh_session::events::dsh_event = unsafe { mem::zeroed() };
            event.struct_size = size_of_val(&event);
            match made(|err| c!(dsh_events_next(events, &mut event, err))).unwrap() {
                DSH_DONE => break,
                _ => rows.push(parsed(&text(event.row.ptr, event.row.len))),
            }
        }
        c!(dsh_events_free(events));
        rows
    }
}

fn rows_of(events: &Value) -> String {
    events.as_array().unwrap().iter().map(|row| format!("{row}\n")).collect()
}

fn ids(messages: &[Value]) -> Vec<&Value> {
    messages.iter().map(|message| &message["id"]).collect()
}

#[test]
fn appends_are_accepted_and_refused_as_the_vectors_say() {
    let mut plain = 0;
    for case in vectors("append") {
        let store = Store::new();
        let session = Session::create(&store);
        for step in case["steps"].as_array().unwrap() {
            let before = session.observed();
            let inputs = step["inputs"].as_array().unwrap();
            let single = match &inputs[..] {
                [input] if step["call"] != "append-batch" => session.append(input),
                _ => None,
            };
            plain += usize::from(single.is_some());
            let outcome = single.unwrap_or_else(|| session.append_rows(inputs));
            assert_eq!(outcome, step["expect"], "{}", case["id"]);
            if outcome.get("refused").is_some() {
                assert_eq!(session.observed(), before, "{}: a refusal leaves no trace", case["id"]);
            }
        }
        assert_eq!(session.observed(), case["after"], "{}", case["id"]);
    }
    assert!(plain > 40, "only {plain} steps went through the plain call");
}

#[test]
fn surfaces_are_those_of_the_vectors() {
    for case in vectors("surface") {
        let rows = rows_of(&case["events"]);
        let base_seq = case["baseSeq"].as_u64().unwrap();
        let folded = filled(|out, err| {
            c!(dsh_fold_surface(ptr::null(), rows.as_ptr().cast(), rows.len(), base_seq, out, err))
        });
        let mut outcome = match folded {
            Ok(folded) => parsed(&folded.unwrap()),
            Err(refused) => refused,
        };
        if let Some(messages) = outcome["messages"].as_array() {
            let ids: Vec<_> = messages.iter().map(|it| it["message"]["id"].clone()).collect();
            outcome["derivedIds"] = ids.into();
        }
        for (key, expected) in case["expect"].as_object().unwrap() {
            assert_eq!(&outcome[key], expected, "{}: {key} of {outcome}", case["id"]);
        }
    }
}

#[test]
fn closers_are_those_of_the_vectors() {
    for case in vectors("closers") {
        let rows = rows_of(&case["events"]);
        let cause = i32::from(case["cause"] == "forked");
        let closers = filled(|out, err| c!(dsh_closers(rows.as_ptr().cast(), rows.len(), cause, out, err)));
        assert_eq!(closers.unwrap().unwrap(), rows_of(&case["expect"]), "{}", case["id"]);
    }
}

#[test]
fn folds_are_those_of_the_vectors() {
    const KINDS: [&str; 4] = ["requestHeader", "requestContext", "toolHistory", "title"];
    for case in vectors("folds") {
        let rows = rows_of(&case["events"]);
        let kind = KINDS.iter().position(|kind| case["fold"] == *kind).unwrap();
        let kind = i32::try_from(kind).unwrap();
        let folded = filled(|out, err| c!(dsh_fold(kind, rows.as_ptr().cast(), rows.len(), out, err)));
        let folded = folded.unwrap().unwrap_or_else(|| "null".to_owned());
        assert_eq!(folded, case["expect"].to_string(), "{}", case["id"]);
    }
}

/// The seed of a source at a boundary, and how many of its rows are inherited.
fn seed_of(source: &Value, boundary: Option<u64>) -> Result<(String, u64), Value> {
    let rows = rows_of(source);
    let last = (source.as_array().unwrap().len() as u64).checked_sub(1);
    let Some(boundary) = boundary.or(last) else { return Ok((String::new(), 0)) };
    let mut inherited = 0;
    let seed = filled(|out, err| {
        c!(dsh_fork_seed(rows.as_ptr().cast(), rows.len(), boundary, out, &mut inherited, err))
    })?;
    Ok((seed.unwrap(), inherited))
}

#[test]
fn forks_are_those_of_the_vectors() {
    let mut compared = 0;
    for case in vectors("fork").iter().filter(|case| case.get("source").is_some()) {
        let source = &case["source"];
        let (rows, inherited) = match seed_of(&source["events"], case.get("boundary").and_then(Value::as_u64))
        {
            Ok(seed) => seed,
            Err(refused) => {
                assert_eq!(refused["refused"], case["expect"]["refused"], "{}", case["id"]);
                continue;
            }
        };
        let mut header = json!({ "id": "kid", "createdAt": case["clock"], "isSeeded": true });
        if let Some(cwd) = source["header"].get("cwd") {
            header["cwd"] = cwd.clone();
        }
        let store = Store::new();
        let child = Session::seeded(&store, &header, &rows, inherited).unwrap();
        let header = filled(|out, err| c!(dsh_session_header(child.0, out, err))).unwrap().unwrap();
        let mut header = parsed(&header);
        // What only the stored form has.
        header.as_object_mut().unwrap().retain(|key, _| key != "type" && key != "delegationDepth");
        let all = child.rows_from(0);
        assert_eq!(all[..inherited as usize], source["events"].as_array().unwrap()[..inherited as usize]);
        let mut outcome = json!({
            "header": header,
            "inheritedEventCount": number(|out, err| c!(dsh_session_inherited_event_count(child.0, out, err))),
            "firstLiveSeq": number(|out, err| c!(dsh_session_first_live_seq(child.0, out, err))),
            "firstLifecycleSeq": number(|out, err| c!(dsh_session_first_lifecycle_seq(child.0, out, err))),
            "suffix": child.rows_from(inherited),
            "derivedIds": ids(&child.messages()),
        });
        let mut expected = case["expect"].clone();
        if rows.is_empty() {
            // The marker of an empty source is of the time of the call.
            for suffix in [&mut outcome["suffix"], &mut expected["suffix"]] {
                suffix[0].as_object_mut().unwrap().remove("time");
            }
        }
        for (key, expected) in expected.as_object().unwrap() {
            assert_eq!(&outcome[key], expected, "{}: {key} of {outcome}", case["id"]);
        }
        compared += 1;
    }
    assert!(compared >= 10, "only {compared} forks");
}
