//! The exact reads through the front door, on real files.

use dsh_session_core::query::{EventFilter, EventRequest, QuerySettings, SessionFilter};
use dsh_session_core::{CancelToken, Code, Encoding, EventDraft, NewSession, Session, Store};

fn draft(kind: &str, data: &str) -> EventDraft {
    EventDraft::new(kind, data).unwrap()
}

fn note(session: &Session, number: u64) {
    session.append(draft("plugin:acme/note", &format!(r#"{{"number":{number}}}"#))).unwrap();
}

fn store(root: &std::path::Path) -> Store {
    Store::builder(root).encoding(Encoding::None).open().unwrap()
}

#[test]
fn a_live_session_is_read_from_memory_and_another_store_reads_what_is_stored() {
    let folder = tempfile::tempdir().unwrap();
    let (here, there) = (store(folder.path()), store(folder.path()));
    let session = here.create(NewSession::new().id("s").cwd("/repo")).unwrap();
    session.append(draft("turn/start", r#"{"turn":1}"#)).unwrap();
    session.flush().unwrap();
    note(&session, 1);
    assert_eq!(here.read_session("s").unwrap().events.len(), 2);
    // The turn is work in progress there, so it is not closed.
    assert_eq!(there.read_session("s").unwrap().events.len(), 1);
    let record = |store: &Store| {
        let record = store.list_sessions().unwrap().remove(0);
        (record.live, record.persisted, record.format_status.unwrap().as_str())
    };
    assert_eq!((record(&here), record(&there)), ((true, true, "current"), (false, true, "current")));
    let live_only = SessionFilter::list_from_json(r#"[{"kind":"availability","values":["live"]}]"#).unwrap();
    assert_eq!(here.filter_sessions(&live_only).unwrap().len(), 1);
    assert_eq!(there.filter_sessions(&live_only).unwrap().len(), 0);
    session.close().unwrap();
    let kinds: Vec<_> =
        there.read_session("s").unwrap().events.iter().map(|event| event.kind().to_owned()).collect();
    assert_eq!(kinds, ["turn/start", "plugin:acme/note", "turn/end"]);
    assert_eq!(
        there.events("s", dsh_session_core::EventRange::ALL).unwrap().count(),
        2,
        "nothing was written"
    );
}

#[test]
fn an_event_is_read_without_the_rest_of_its_log() {
    let folder = tempfile::tempdir().unwrap();
    let session = store(folder.path()).create(NewSession::new().id("s")).unwrap();
    (0..2000).for_each(|number| note(&session, number));
    // A turn that ends after the damage makes it damage, and not a torn tail.
    session.append(draft("turn/start", r#"{"turn":1}"#)).unwrap();
    session.append(draft("turn/end", r#"{"turn":1,"reason":{"kind":"completed"}}"#)).unwrap();
    session.close().unwrap();
    let path = store(folder.path()).stat("s").unwrap().unwrap().path.unwrap();
    let text = std::fs::read_to_string(&path).unwrap();
    // Damage far from the window, of the same length.
    let damaged = text.replacen(r#""seq":1700,"#, r#""seq":1700;"#, 1);
    assert_ne!(damaged, text);
    std::fs::write(&path, damaged).unwrap();
    let reader = store(folder.path());
    let window = reader.read_event("s", EventRequest::new(20).before(2).after(3)).unwrap();
    assert_eq!((window.start_seq(), window.end_seq(), window.events.len()), (18, 23, 6));
    let refused = reader.read_session("s").unwrap_err();
    assert_eq!(refused.code(), Code::QueryCorruptSession);
    assert_eq!(refused.causes()[0].code(), Code::SessionCorrupt);
    assert_eq!(refused.path(), Some(path.as_path()));
    // Only this session is hurt.
    store(folder.path()).create(NewSession::new().id("t")).unwrap().close().unwrap();
    assert_eq!(reader.list_sessions().unwrap().len(), 1 + usize::from(reader.stat("t").unwrap().is_some()));
}

#[test]
fn what_was_said_is_found_by_its_words_and_traced() {
    let folder = tempfile::tempdir().unwrap();
    let store = store(folder.path());
    let session = store.create(NewSession::new().id("s")).unwrap();
    session.append(draft("turn/start", r#"{"turn":1}"#)).unwrap();
    session.append(draft("turn/end", r#"{"turn":1,"reason":{"kind":"aborted"}}"#)).unwrap();
    let title = r#"{"title":"Ledger port","messageSeqs":[],"source":{"kind":"user"}}"#;
    session.append(draft("session/title", title)).unwrap();
    for _ in 0..2 {
        let found = store.filter_events(
            "s",
            &EventFilter::list_from_json(r#"[{"kind":"text","text":"ABORTED"}]"#).unwrap(),
        );
        let found: Vec<_> = found.unwrap().iter().map(|document| document.record.seq).collect();
        assert_eq!(found, [1]);
        assert_eq!(store.list_events("s").unwrap().len(), 3);
        assert!(store.trace_event("s", 1).unwrap().derived_event_seqs.is_empty());
        assert_eq!(store.trace_event("s", 3).unwrap_err().code(), Code::QueryEventNotFound);
        assert_eq!(store.read_title("s").unwrap().title.unwrap().text(), "Ledger port");
        assert_eq!(store.read_surface("s").unwrap().captured_through_seq, Some(2));
        assert_eq!(store.transcript("s").unwrap()[0].kind(), "status");
        assert_eq!(store.trace_session("s").unwrap().ancestors.len(), 0);
        // The same again of what is stored.
        session.close().unwrap();
    }
    assert_eq!(store.read_session("nobody").unwrap_err().code(), Code::QuerySessionNotFound);
    let titles = store.read_titles(&["nobody".into(), "s".into(), "s".into()]).unwrap();
    assert_eq!(titles.len(), 2);
    assert_eq!(titles[0].outcome.as_ref().unwrap_err().code(), Code::QuerySessionNotFound);
    assert!(titles[1].outcome.is_ok());
}

#[test]
fn a_cancelled_read_says_so_and_settings_are_checked_when_a_store_is_opened() {
    let store = Store::in_memory().unwrap();
    let cancel = CancelToken::new();
    cancel.cancel();
    assert_eq!(store.read_session_with("s", &cancel).unwrap_err().code(), Code::QueryAborted);
    let settings = QuerySettings { prepared_session_cache_size: 0, ..QuerySettings::default() };
    let refused = Store::memory_builder().queries(settings).open().unwrap_err();
    assert_eq!(refused.code(), Code::QueryInvalidConfig);
}
