//! What a session accepts can be reopened: every event is judged by the rules of the stored log before it is accepted.

use dsh_session_core::{Code, Event, EventDraft, EventRange, NewSession, Session, Store, SurfaceOp};

fn draft(kind: &str, data: &str) -> EventDraft {
    EventDraft::new(kind, data).unwrap()
}

fn user_message(id: &str) -> EventDraft {
    let data = format!(r#"{{"id":"{id}","role":"user","content":[],"source":{{"kind":"user"}}}}"#);
    draft("user/message", &data).surface(SurfaceOp::Append)
}

fn refusal(session: &Session, draft: &EventDraft) -> (Code, Option<&'static str>) {
    let before = (session.next_seq(), session.pending().events);
    let error = session.append(draft).unwrap_err();
    assert_eq!((session.next_seq(), session.pending().events), before, "a refused append leaves no trace");
    assert!(error.advice().len() > 5 && error.event_type() == Some(draft.kind()), "{error}");
    (error.code(), error.rule())
}

#[test]
fn events_that_a_reader_would_refuse_are_refused_by_their_rule() {
    let folder = tempfile::tempdir().unwrap();
    let store = Store::open(folder.path()).unwrap();
    let session = store.create(NewSession::new().id("s")).unwrap();
    for refused in [
        draft("user/message", "{}"),
        draft("user/message", "5").surface(SurfaceOp::Append),
        draft("turn/end", r#"{"turn":1}"#),
        draft("turn/start", r#"{"turn":7}"#),
        draft("tool/result", "{}").surface(SurfaceOp::Append),
        draft("request/header", "[]"),
    ] {
        let (code, rule) = refusal(&session, &refused);
        assert_eq!(code, Code::EventRefused, "{}", refused.kind());
        assert!(rule.is_some(), "{}", refused.kind());
    }
    session.append(draft("turn/start", r#"{"turn":1}"#)).unwrap();
    session.append(user_message("m")).unwrap();
    session.close().unwrap();

    // Reopened, the rules go on where they stood.
    let session = store.open_session("s").unwrap();
    assert_eq!(refusal(&session, &draft("turn/start", r#"{"turn":2}"#)).0, Code::EventRefused);
    session.append(draft("turn/end", r#"{"turn":1,"reason":{"kind":"completed"}}"#)).unwrap();
    session.append(draft("turn/start", r#"{"turn":2}"#)).unwrap();
    session.close().unwrap();
    let kinds: Vec<String> =
        store.events("s", EventRange::ALL).unwrap().map(|it| it.unwrap().kind().to_owned()).collect();
    assert_eq!(kinds, ["turn/start", "user/message", "turn/end", "turn/start"]);
}

#[test]
fn a_batch_with_one_bad_member_is_refused_whole_and_the_rules_stand_where_they_stood() {
    let store = Store::in_memory().unwrap();
    let session = store.create(NewSession::new()).unwrap();
    let start = draft("turn/start", r#"{"turn":1}"#);
    let error = session.append_batch(&[start.clone(), user_message("m"), start.clone()]).unwrap_err();
    assert_eq!((error.code(), error.index(), session.next_seq()), (Code::EventRefused, Some(2), 0));
    let accepted = session.append_batch(&[start, user_message("m")]).unwrap();
    assert_eq!(accepted.iter().map(Event::seq).collect::<Vec<_>>(), [0, 1]);
}
