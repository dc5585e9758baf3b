//! Sessions used by many threads: appends are serialized, nothing deadlocks, and every event is published once and in order.

use dsh_session_core::{Event, EventDraft, EventRange, NewSession, Session, Store};
use std::collections::HashMap;
use std::sync::{Arc, Mutex};

const THREADS: usize = 8;
const APPENDS: usize = 200;

fn note(text: &str) -> EventDraft {
    EventDraft::new("plugin:test/note", format!("{text:?}")).unwrap()
}

/// The events published so far, by session.
fn published(store: &Store) -> Arc<Mutex<HashMap<String, Vec<u64>>>> {
    let seen: Arc<Mutex<HashMap<String, Vec<u64>>>> = Arc::default();
    let into = Arc::clone(&seen);
    store.on_event(move |session, event| {
        into.lock().unwrap().entry(session.id().to_owned()).or_default().push(event.seq());
        Ok(())
    });
    seen
}

#[test]
fn eight_threads_append_to_one_session_in_some_order() {
    let store = Store::in_memory().unwrap();
    let seen = published(&store);
    let session = store.create(NewSession::new().id("s")).unwrap();
    std::thread::scope(|scope| {
        for thread in 0..THREADS {
            let session = &session;
            scope.spawn(move || {
                for append in 0..APPENDS {
                    match append % 3 {
                        0 => drop(session.append(note("single")).unwrap()),
                        1 => drop(session.append_batch(&[note("one"), note("two")]).unwrap()),
                        _ => assert!(session.append(EventDraft::new("acme/unknown", "{}").unwrap()).is_err()),
                    }
                    if append % 20 == thread {
                        session.flush().unwrap();
                    }
                }
            });
        }
    });
    let length = session.next_seq();
    let kept: Vec<u64> = session.snapshot_events(0, u64::MAX).iter().map(Event::seq).collect();
    assert_eq!(kept, (0..length).collect::<Vec<_>>());
    assert_eq!(seen.lock().unwrap()["s"], kept);
    session.flush().unwrap();
    let stored: Vec<u64> =
        store.events("s", EventRange::ALL).unwrap().map(|event| event.unwrap().seq()).collect();
    assert_eq!(stored, kept);
}

#[test]
fn eight_threads_append_to_sessions_of_one_store_while_listeners_append_to_another() {
    let folder = tempfile::tempdir().unwrap();
    let store = Store::open(folder.path()).unwrap();
    let seen = published(&store);
    let mirror = store.create(NewSession::new().id("mirror")).unwrap();
    let sessions: Vec<Session> =
        (0..THREADS).map(|n| store.create(NewSession::new().id(format!("s{n}"))).unwrap()).collect();
    let into = mirror.clone();
    store.on_event(move |session, _| {
        // Its own events must not echo: an append to itself would be refused.
        if session.id() == "mirror" {
            return Ok(());
        }
        into.append(note(session.id())).map(drop)
    });
    std::thread::scope(|scope| {
        for (number, session) in sessions.iter().enumerate() {
            let next = &sessions[(number + 1) % THREADS];
            scope.spawn(move || {
                for _ in 0..APPENDS {
                    session.append(note("mine")).unwrap();
                    next.append_batch(&[note("yours"), note("yours too")]).unwrap();
                    assert!(next.messages().unwrap().is_empty());
                }
            });
        }
    });
    let each = (APPENDS * 3) as u64;
    assert!(sessions.iter().all(|session| session.next_seq() == each));
    assert_eq!(mirror.next_seq(), each * THREADS as u64);
    for (id, seqs) in seen.lock().unwrap().iter() {
        assert!(seqs.iter().copied().eq(0..seqs.len() as u64), "{id}");
    }
    store.flush().unwrap();
    for session in sessions.iter().chain([&mirror]) {
        assert_eq!(store.events(session.id(), EventRange::ALL).unwrap().count() as u64, session.next_seq());
    }
}

#[test]
fn sessions_come_and_go_while_others_append() {
    let store = Store::in_memory().unwrap();
    let lasting = store.create(NewSession::new().id("lasting")).unwrap();
    std::thread::scope(|scope| {
        for thread in 0..THREADS {
            let (store, lasting) = (&store, &lasting);
            scope.spawn(move || {
                for round in 0..30 {
                    let id = format!("t{thread}-{round}");
                    let session = store.create(NewSession::new().id(&id)).unwrap();
                    session.append(note("short")).unwrap();
                    lasting.append(note("long")).unwrap();
                    assert!(store.get(&id).is_some());
                    session.close().unwrap();
                    assert!(store.get(&id).is_none() && session.append(note("late")).is_err());
                    drop(store.fork(&id, Some(0), NewSession::new()).unwrap());
                }
            });
        }
    });
    assert_eq!(store.live_ids(), ["lasting"]);
    assert_eq!(lasting.next_seq(), (THREADS * 30) as u64);
}
