//! What holds of every session whatever is appended to it: the incremental folds equal fresh ones, a refusal leaves no trace, a batch
//! is its members or nothing, and what was accepted can be reopened.

use dsh_session_core::event::Vocabulary;
use dsh_session_core::session::folds::Folds;
use dsh_session_core::session::{Projections, Seed, SessionRules, fold_surface, fork_seed};
use dsh_session_core::storage::simulation::MemoryStorage;
use dsh_session_core::{Event, EventDraft, EventRange, NewSession, Session, SessionHeader, Store};
use proptest::prelude::*;
use std::sync::Arc;

/// What may be tried: most of it fits somewhere, and all of it is refused somewhere.
#[derive(Clone, Debug)]
enum Try {
    TurnStart(u64),
    TurnEnd(u64),
    StepStart(u64, u64),
    StepEnd(u64, u64),
    System {
        replaces: Option<(u64, u64)>,
    },
    User {
        images: usize,
        replaces: Option<(u64, u64)>,
        sources: Vec<u64>,
    },
    Assistant {
        calls: usize,
        is_empty: bool,
    },
    Call(u64),
    Result {
        call: u64,
        replaces: Option<u64>,
        text: String,
    },
    Offload {
        seq: u64,
        image: u64,
    },
    Header {
        tools: Vec<String>,
        reason: usize,
    },
    Developer {
        header: u64,
        tool: String,
    },
    Context(u64),
    Title,
    Plugin,
    /// Of this very session, or of the one that the events come from.
    Delivery {
        session: String,
        through: u64,
    },
    Catalog(u64),
    CompactionStart,
    CompactionEnd,
    Command(u64),
    Unknown,
}

fn op(replaces: Option<(u64, u64)>) -> String {
    match replaces {
        None => r#""append""#.to_owned(),
        Some((start, end)) => format!(r#"{{"op":"replace","startSeq":{start},"endSeq":{end}}}"#),
    }
}

fn covering(replaces: Option<(u64, u64)>) -> String {
    replaces.map_or_else(String::new, |(start, end)| {
        let seqs: Vec<String> = (start.min(end)..=start.max(end)).map(|seq| seq.to_string()).collect();
        format!(r#","sourceEventSeqs":[{}]"#, seqs.join(","))
    })
}

impl Try {
    fn draft(&self) -> EventDraft {
        EventDraft::from_line(self.line()).unwrap()
    }

    fn line(&self) -> String {
        const PLACE: &str = r#""turn":1,"step":1"#;
        let row =
            |kind: &str, data: String, rest: String| format!(r#"{{"type":"{kind}","data":{data}{rest}}}"#);
        let none = String::new;
        match self {
            Try::TurnStart(turn) => row("turn/start", format!(r#"{{"turn":{turn}}}"#), none()),
            Try::TurnEnd(turn) => {
                row("turn/end", format!(r#"{{"turn":{turn},"reason":{{"kind":"completed"}}}}"#), none())
            }
            Try::StepStart(turn, step) => {
                row("step/start", format!(r#"{{"turn":{turn},"step":{step}}}"#), none())
            }
            Try::StepEnd(turn, step) => {
                row("step/end", format!(r#"{{"turn":{turn},"step":{step}}}"#), none())
            }
            Try::System { replaces } => row(
                "system/message",
                format!(
                    r#"{{{PLACE},"message":{{"id":"y","role":"system","content":[{{"type":"text","text":"s"}}],"source":{{"kind":"system-prompt"}}}}}}"#
                ),
                format!(r#","surfaceOp":{}{}"#, op(*replaces), covering(*replaces)),
            ),
            Try::User { images, replaces, sources } => {
                let image = r#"{"type":"image","attachment":{"attachmentId":"i","mediaType":"image/png","bytes":1,"width":1,"height":1}}"#;
                let blocks = vec![image; *images].join(",");
                let data =
                    format!(r#"{{"id":"u","role":"user","content":[{blocks}],"source":{{"kind":"user"}}}}"#);
                let cited = match (replaces, sources.is_empty()) {
                    (None, false) => format!(r#","sourceEventSeqs":{sources:?}"#),
                    _ => covering(*replaces),
                };
                row("user/message", data, format!(r#","surfaceOp":{}{cited}"#, op(*replaces)))
            }
            Try::Assistant { calls, is_empty } => {
                let calls = (0..*calls).map(|call| {
                    format!(r#"{{"type":"tool-call","id":"c{call}","name":"t","arguments":"{{}}"}}"#)
                });
                let mut blocks: Vec<String> = calls.collect();
                if !is_empty {
                    blocks.push(r#"{"type":"text","text":"a"}"#.to_owned());
                }
                let content = blocks.join(",");
                row(
                    "assistant/message",
                    format!(
                        r#"{{{PLACE},"message":{{"id":"a","role":"assistant","content":[{content}],"source":{{"kind":"model","provider":"p","model":"m"}}}},"stream":[]}}"#
                    ),
                    r#","surfaceOp":"append""#.to_owned(),
                )
            }
            Try::Call(call) => row(
                "tool/call",
                format!(r#"{{{PLACE},"callId":"c{call}","name":"t","arguments":"{{}}"}}"#),
                none(),
            ),
            Try::Result { call, replaces, text } => {
                let replaces = replaces.map(|seq| (seq, seq));
                row(
                    "tool/result",
                    format!(
                        r#"{{{PLACE},"message":{{"id":"r{call}","role":"tool","toolCallId":"c{call}","source":{{"kind":"tool","callId":"c{call}"}},"content":[{{"type":"text","text":"{text}"}}]}}}}"#
                    ),
                    format!(r#","surfaceOp":{}{}"#, op(replaces), covering(replaces)),
                )
            }
            Try::Offload { seq, image } => row(
                "image/offload",
                format!(r#"{{"targets":[{{"seq":{seq},"imageIndexes":[{image}]}}]}}"#),
                none(),
            ),
            Try::Header { tools, reason } => {
                let reason = ["initial", "resume", "change", "series"][reason % 4];
                let tools: Vec<String> = tools
                    .iter()
                    .map(|name| format!(r#"{{"name":"{name}","description":"d","parameters":{{}}}}"#))
                    .collect();
                let tools =
                    if tools.is_empty() { none() } else { format!(r#","tools":[{}]"#, tools.join(",")) };
                row(
                    "request/header",
                    format!(
                        r#"{{"header":{{"config":{{"provider":"p","model":"m"}}{tools}}},"reason":"{reason}"}}"#
                    ),
                    none(),
                )
            }
            Try::Developer { header, tool } => row(
                "developer/message",
                format!(
                    r#"{{{PLACE},"message":{{"id":"d","role":"developer","content":[{{"type":"tool-addition","toolName":"{tool}"}}],"source":{{"kind":"tool-registry"}}}},"headerSeq":{header}}}"#
                ),
                r#","surfaceOp":"append""#.to_owned(),
            ),
            Try::Context(window) => row(
                "request/context",
                format!(r#"{{"provider":"p","model":"m","contextWindow":{window}}}"#),
                none(),
            ),
            Try::Title => row(
                "session/title",
                r#"{"title":"t","messageSeqs":[],"source":{"kind":"user"}}"#.to_owned(),
                none(),
            ),
            Try::Delivery { session, through } => row(
                "session-log-deepseek/delivery-accepted",
                format!(r#"{{"sessionId":"{session}","sessionFormatVersion":4,"throughSeq":{through}}}"#),
                none(),
            ),
            Try::Catalog(child) => row(
                "subagent/catalog",
                format!(r#"{{"childId":"child{child}","childCreatedAt":1,"version":0,"mode":"one-shot"}}"#),
                none(),
            ),
            Try::CompactionStart => {
                row("compaction/start", r#"{"compactionId":"k","turn":null}"#.to_owned(), none())
            }
            Try::CompactionEnd => row(
                "compaction/end",
                r#"{"compactionId":"k","turn":null,"error":"stopped"}"#.to_owned(),
                none(),
            ),
            Try::Command(command) => row(
                "command/run",
                format!(r#"{{"commandId":"k{command}","name":"n","args":"","source":"user"}}"#),
                none(),
            ),
            Try::Plugin => row("plugin:test/note", "1".to_owned(), none()),
            Try::Unknown => row("acme/unknown", "{}".to_owned(), none()),
        }
    }
}

fn tries() -> impl Strategy<Value = Try> {
    let seq = || 0_u64..14;
    let range = || proptest::option::weighted(0.4, (0_u64..14, 0_u64..14));
    let tool = || prop::sample::select(vec!["x".to_owned(), "y".to_owned()]);
    prop_oneof![
        2 => (1_u64..3).prop_map(Try::TurnStart),
        1 => (1_u64..3).prop_map(Try::TurnEnd),
        2 => (1_u64..2, 1_u64..3).prop_map(|(turn, step)| Try::StepStart(turn, step)),
        1 => (1_u64..2, 1_u64..3).prop_map(|(turn, step)| Try::StepEnd(turn, step)),
        1 => range().prop_map(|replaces| Try::System { replaces }),
        4 => (0_usize..3, range(), prop::collection::vec(seq(), 0..3)).prop_map(|(images, replaces, sources)| Try::User { images, replaces, sources }),
        3 => (0_usize..3, any::<bool>()).prop_map(|(calls, is_empty)| Try::Assistant { calls, is_empty }),
        2 => (0_u64..3).prop_map(Try::Call),
        2 => (0_u64..3, proptest::option::of(seq()), "[ab]").prop_map(|(call, replaces, text)| Try::Result { call, replaces, text }),
        2 => (seq(), 0_u64..3).prop_map(|(seq, image)| Try::Offload { seq, image }),
        2 => (prop::collection::vec(tool(), 0..3), 0_usize..4).prop_map(|(tools, reason)| Try::Header { tools, reason }),
        1 => (seq(), tool()).prop_map(|(header, tool)| Try::Developer { header, tool }),
        1 => (1_u64..5).prop_map(Try::Context),
        1 => Just(Try::Title),
        1 => Just(Try::Plugin),
        1 => (prop::sample::select(vec!["s", "source", "fork"]), 0_u64..4).prop_map(|(session, through)| Try::Delivery { session: session.to_owned(), through }),
        2 => (0_u64..2).prop_map(Try::Catalog),
        1 => Just(Try::CompactionStart),
        1 => Just(Try::CompactionEnd),
        1 => (0_u64..2).prop_map(Try::Command),
        1 => Just(Try::Unknown),
    ]
}

/// Batches; those of one member are appended as single events.
fn scripts() -> impl Strategy<Value = Vec<Vec<Try>>> {
    prop::collection::vec(prop::collection::vec(tries(), 1..4), 1..24)
}

fn independent(checks_stored_rules: bool) -> Session {
    let storage = MemoryStorage::new(1);
    storage.set_clock_ms(1000);
    let rules = SessionRules { checks_stored_rules, ..SessionRules::default() };
    Session::independent_with(SessionHeader::new("s", 1), Seed::default(), Arc::new(storage), rules).unwrap()
}

fn rows(session: &Session) -> Vec<String> {
    session.snapshot_events(0, u64::MAX).iter().map(|event| event.row().to_owned()).collect()
}

/// Everything that can be observed.
fn observed(session: &Session) -> impl PartialEq + std::fmt::Debug + use<> {
    let surface = session.surface();
    let messages: Vec<String> = session
        .messages()
        .unwrap()
        .iter()
        .map(|message| format!("{} {}", message.seq(), message.text()))
        .collect();
    (
        rows(session),
        surface.nodes().unwrap(),
        surface.replace_generation().unwrap(),
        surface.content_generation().unwrap(),
        messages,
        (session.request_header(), session.request_context()),
        session.tool_history().to_json(),
        session.title().map(|title| title.to_json()),
    )
}

fn append(session: &Session, batch: &[EventDraft]) -> Result<Vec<Event>, dsh_session_core::Error> {
    match batch {
        [single] => session.append(single).map(|event| vec![event]),
        batch => session.append_batch(batch),
    }
}

/// What a fold from the beginning gives is what the session kept while it grew.
fn assert_folds_are_fresh(session: &Session) {
    let events: Vec<Event> = session.snapshot_events(0, u64::MAX).into_iter().collect();
    let fresh = fold_surface(events.clone(), &Projections::built_in(), &Vocabulary::default()).unwrap();
    let surface = session.surface();
    assert_eq!(*surface.nodes().unwrap(), fresh.nodes);
    assert_eq!(surface.replace_generation().unwrap(), fresh.replace_generation);
    assert_eq!(surface.content_generation().unwrap(), fresh.content_generation);
    assert_eq!(session.messages().unwrap().to_vec(), fresh.messages);
    let folds = Folds::of(&events);
    assert_eq!(session.request_header(), folds.request_header());
    assert_eq!(session.request_context(), folds.request_context().map(|context| context.text().to_owned()));
    assert_eq!(session.tool_history().to_json(), folds.tool_history().to_json());
    assert_eq!(session.title().map(|title| title.to_json()), folds.title().map(|title| title.to_json()));
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 256, ..ProptestConfig::default() })]

    #[test]
    fn folds_are_fresh_refusals_leave_no_trace_and_batches_are_their_members(script in scripts(), checks in any::<bool>()) {
        let (session, twin) = (independent(checks), independent(checks));
        for batch in script {
            let drafts: Vec<EventDraft> = batch.iter().map(Try::draft).collect();
            let before = observed(&session);
            match &append(&session, &drafts) {
                // The twin gets the same members one by one.
                Ok(_) => drafts.iter().for_each(|draft| drop(twin.append(draft).unwrap())),
                Err(error) => {
                    assert_eq!(observed(&session), before);
                    // Alone, the members before the refused one are accepted, and it is refused for the same reason.
                    let index = error.index().unwrap() as usize;
                    let probe = independent(checks);
                    for event in twin.snapshot_events(0, u64::MAX) {
                        probe.append(EventDraft::from_line(event.row()).unwrap()).unwrap();
                    }
                    drafts[..index].iter().for_each(|draft| drop(probe.append(draft).unwrap()));
                    assert_eq!(probe.append(&drafts[index]).unwrap_err().rule(), error.rule());
                }
            }
            assert_folds_are_fresh(&session);
            assert_eq!(observed(&session), observed(&twin));
        }
    }

    #[test]
    fn what_a_store_accepted_can_be_reopened(script in scripts()) {
        let storage = Arc::new(MemoryStorage::new(7));
        let open = || Store::builder("/root").storage(Arc::clone(&storage) as _).open().unwrap();
        let session = open().create(NewSession::new().id("s")).unwrap();
        for batch in script {
            let drafts: Vec<EventDraft> = batch.iter().map(Try::draft).collect();
            let _ = append(&session, &drafts);
        }
        session.flush().unwrap();
        let (sent, before) = (rows(&session), observed(&session));
        session.close().unwrap();
        let store = open();
        let stored: Vec<String> = match store.events("s", EventRange::ALL) {
            Ok(events) => events.map(|event| event.unwrap().row().to_owned()).collect(),
            Err(error) => panic!("{error}"),
        };
        assert_eq!(stored, sent);
        let again = store.open_session("s").unwrap();
        assert_eq!(observed(&again), before);
        assert_folds_are_fresh(&again);
        again.close().unwrap();
        let resumed = store.resume("s").unwrap();
        assert_folds_are_fresh(&resumed);
        // A resumed log has no open turn, and can be resumed again.
        assert!(resumed.closers(dsh_session_core::session::closers::Cause::Interrupted).unwrap().is_empty());
        resumed.close().unwrap();
        let seqs = store.resume("s").unwrap().next_seq();
        assert_eq!(seqs, resumed.next_seq());
    }

    #[test]
    fn a_fork_takes_over_what_its_source_has_folded_as_if_it_had_been_judged_anew(
        script in scripts(), later in scripts(), latest in scripts(),
        earlier in (0_u64..3, 0_u64..5), checks in any::<bool>(), on_disk in any::<bool>(),
    ) {
        let storage = MemoryStorage::new(1);
        storage.set_clock_ms(1000);
        let open = |root: &str| {
            let builder = if on_disk { Store::builder(root) } else { Store::memory_builder() };
            builder.storage(Arc::new(storage.clone())).checks_stored_rules(checks).open().unwrap()
        };
        // Events may name the session that they are of, so both have the same id.
        let (store, twin) = (open("/root"), open("/twin"));
        let source = store.create(NewSession::new().id("source")).unwrap();
        tried(&[&source], script);
        // At the end nothing is judged again, before it everything is.
        let Some(at) = source.next_seq().checked_sub(1 + earlier.0) else { return Ok(()) };
        let [fork, judged] = forked_and_judged([&store, &twin], &source, at, "fork");
        tried(&[&fork, &judged], later);
        // And a fork of the fork, at its end or around its own marker.
        let Some(at) = fork.next_seq().checked_sub(1 + earlier.1) else { return Ok(()) };
        let [fork, judged] = forked_and_judged([&store, &twin], &fork, at, "grandchild");
        tried(&[&fork, &judged], latest);
        if on_disk && checks {
            for (root, session) in [("/root", &fork), ("/twin", &judged)] {
                session.flush().unwrap();
                let other = Store::builder(root).storage(Arc::new(storage.clone())).open().unwrap();
                let stored = other.events(session.id(), EventRange::ALL).unwrap();
                let stored: Vec<String> = stored.map(|event| event.unwrap().row().to_owned()).collect();
                assert_eq!(stored, rows(session), "who reads it from the disk sees the same");
            }
        }
    }
}

/// A fork, and what the same seed makes: nobody can tell them apart.
fn forked_and_judged([store, twin]: [&Store; 2], source: &Session, at: u64, id: &str) -> [Session; 2] {
    let before = observed(source);
    let fork = store.fork(source.id(), Some(at), NewSession::new().id(id)).unwrap();
    let (events, inherited) = fork_seed(source.snapshot_events(0, u64::MAX), at).unwrap();
    let mut new = NewSession::new().id(id).seed(events);
    (new.header.is_seeded, new.inherited_event_count) = (true, Some(inherited));
    let judged = twin.create(new).unwrap();
    assert_eq!(observed(&fork), observed(&judged));
    assert_folds_are_fresh(&fork);
    assert_eq!(observed(source), before);
    [fork, judged]
}

/// Appends the same to all, which take it alike; what it does to one is its own.
fn tried(sessions: &[&Session], script: Vec<Vec<Try>>) {
    for batch in script {
        let drafts: Vec<EventDraft> = batch.iter().map(Try::draft).collect();
        let outcome = |session: &&Session| {
            append(session, &drafts).err().map(|error| (error.rule().map(str::to_owned), error.index()))
        };
        let outcomes: Vec<_> = sessions.iter().map(outcome).collect();
        assert!(outcomes.windows(2).all(|pair| pair[0] == pair[1]), "{outcomes:?} {drafts:?}");
        assert!(sessions.windows(2).all(|pair| observed(pair[0]) == observed(pair[1])));
    }
}
