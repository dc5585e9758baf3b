//! Typed builders: what they make is what a log takes and what the views read; what a log would refuse they refuse first.

use dsh_session_core::event::Vocabulary;
use dsh_session_core::event::builders::*;
use dsh_session_core::event::stream::StreamPacker;
use dsh_session_core::format::relationships::LogChecker;
use dsh_session_core::{Code, Event, SessionHeader, Store};
use proptest::prelude::*;

const PLACE: Place = Place { turn: 1, step: 1 };

/// The events of a log, each checked by the rules of stored logs and by its own view.
struct Log {
    events: Vec<Event>,
    checker: LogChecker,
}

impl Log {
    fn push(&mut self, event: impl IntoDraft) -> u64 {
        let seq = self.events.len() as u64;
        let event = event.into_draft().unwrap().build(seq, 1_760_000_000_000).unwrap();
        self.checker.check(&event).unwrap_or_else(|breach| panic!("{breach:?}: {}", event.row()));
        event.check_payload().unwrap();
        self.events.push(event);
        seq
    }
}

fn tool(name: &str) -> Tool {
    let parameters = JsonText::new(r#"{"type":"object"}"#).unwrap();
    Tool { name: name.to_owned(), description: "reads".to_owned(), parameters, defer_loading: name == "late" }
}

fn config() -> CallConfig {
    CallConfig {
        temperature: Some(0.5),
        max_tokens: Some(9),
        stop: Some(vec!["\n".into()]),
        ..CallConfig::new("acme", "large")
    }
}

fn image() -> Image {
    let attachment_id = "i".to_owned();
    Image {
        attachment_id,
        media_type: MediaType::Png,
        bytes: 3,
        dimensions: (1, 2),
        name: None,
        original_dimensions: Some((3, 4)),
    }
}

fn stream() -> StreamPacker {
    let mut stream = StreamPacker::new();
    stream.push(1, r#"{"type":"text-delta","index":0,"text":"Hi"}"#).unwrap();
    stream
}

fn push_first_step(log: &mut Log) -> u64 {
    log.push(TurnStart { turn: 1 });
    let asked = log.push(UserMessage::text("u-1", "Look").and_image(&image()).and_file(&File {
        attachment_id: "f".into(),
        name: "a.txt".into(),
        bytes: 7,
    }));
    log.push(StepStart(PLACE));
    let header = RequestHeader {
        is_default_max_tokens: true,
        tools: vec![tool("read"), tool("late")],
        ..RequestHeader::new(config(), HeaderReason::Initial)
    };
    let header_seq = log.push(header);
    let context = RequestContext {
        provider: "acme".into(),
        model: "large".into(),
        context_window: Some(9),
        updates_system_prompt_in_history: true,
    };
    log.push(context);
    log.push(
        DeveloperMessage::new(PLACE, "d-1", Source::new("tool-registry"))
            .and_tool(header_seq, "read")
            .without_tool("late"),
    );
    log.push(AssistantAttempt { place: PLACE, stream: stream() });
    let usage = Usage { input_tokens: 4, output_tokens: 2, cache_read_tokens: Some(3), ..Usage::default() };
    let replay_state = JsonText::new(r#"{"response":1}"#).unwrap();
    let answer = AssistantMessage::new(PLACE, "a-1", "acme", "large").and_reasoning("hm").and_text("Hi");
    log.push(
        answer.and_tool_call("c-1", "read", "{}").stream(stream()).usage(usage).replay_state(replay_state),
    );
    log.push(ToolCall { place: PLACE, call_id: "c-1".into(), name: "read".into(), arguments: "{}".into() });
    let result =
        ToolResult::new(PLACE, "r-1", "c-1").and_text("none").error("NotFound", "ENOENT", Some("gone"));
    log.push(result.meta(JsonText::new("{}").unwrap()));
    log.push(StepEnd(PLACE));
    asked
}

#[test]
fn a_run_made_by_builders_is_one_that_readers_accept() {
    let checker = LogChecker::new(&SessionHeader::new("s", 1), Vocabulary::default());
    let mut log = Log { events: Vec::new(), checker };
    let asked = push_first_step(&mut log);
    log.push(ImageOffload { targets: vec![(asked, vec![0])] });
    log.push(SessionTitle::fallback("Look", [asked]));
    log.push(SessionTitle::by_provider("A look", [asked], "titles", Some(("acme", "small"))));
    log.push(SessionTitle::by_user("Mine"));
    let failure = Failure {
        status: Some(529),
        provider_retry_after_ms: Some(0.25),
        ..Failure::new("OVERLOADED", "busy")
    };
    log.push(TurnEnd { turn: 1, reason: EndReason::Error(failure) });
    let compaction_id = || "k-1".to_owned();
    log.push(CompactionStart { compaction_id: compaction_id(), source_command_id: None, turn: None });
    let surface: Vec<u64> =
        log.events.iter().filter(|it| it.surface_op().is_some()).map(Event::seq).collect();
    let (first, last) = (surface[0], *surface.last().unwrap());
    log.push(CompactionSummary {
        compaction_id: compaction_id(),
        source_command_id: None,
        text: "looked".into(),
        shadowed: Shadowed { seqs: surface.clone(), token_count: 12 },
        provider: "acme".into(),
        model: "large".into(),
        max_tokens: Some(100),
        usage: Some(Usage::default()),
        raw_output: Some("looked".into()),
    });
    let checkpoint = UserMessage::new("u-2", Source::compact_checkpoint("k-1", None)).and_text("looked");
    log.push(checkpoint.replacing(first, last).made_from(surface));
    log.push(CompactionEnd {
        compaction_id: compaction_id(),
        source_command_id: None,
        turn: None,
        error: None,
    });
    log.push(PluginRecord { kind: "plugin:acme/note".into(), data: JsonText::new("[1]").unwrap() });
    let end = |reason| TurnEnd { turn: 2, reason: EndReason::Aborted(reason) };
    log.push(TurnStart { turn: 2 });
    log.push(end(AbortReason::Hook("no".into())));
    log.checker.finish().unwrap();
    let dsh_session_core::event::views::TurnEndReason::Error(failure) =
        log.events.iter().find_map(Event::as_turn_end).unwrap().reason
    else {
        panic!()
    };
    assert_eq!((failure.status, failure.provider_retry_after_ms), (Some(529), Some(0.25)));
}

#[test]
fn a_system_message_stands_first_and_a_notice_is_read_back() {
    let checker = LogChecker::new(&SessionHeader::new("s", 1), Vocabulary::default());
    let mut log = Log { events: Vec::new(), checker };
    log.push(TurnStart { turn: 1 });
    log.push(StepStart(PLACE));
    log.push(SystemMessage::text(PLACE, "s-1", "Be brief"));
    let seq =
        log.push(UserMessage::new("n-1", Source::notice("webhook", &"é".repeat(200)).with("provider", "p")));
    let view = log.events[seq as usize].as_user_message().unwrap();
    assert_eq!(view.message.source.summary().unwrap(), format!("{}…", "é".repeat(119)));
}

#[test]
fn what_a_log_would_refuse_is_refused_before() {
    let nowhere = Place { turn: 0, step: 1 };
    let no_config = CallConfig::new("", "m");
    let header = |config| RequestHeader::new(config, HeaderReason::Initial);
    let scalar = Tool { parameters: JsonText::new("3").unwrap(), ..tool("read") };
    let flat = Image { dimensions: (0, 1), ..image() };
    let refused = [
        TurnStart { turn: 0 }.into_draft(),
        TurnStart { turn: 1 << 53 }.into_draft(),
        StepEnd(nowhere).into_draft(),
        UserMessage::text("", "x").into_draft(),
        UserMessage::text("m", "x").and_image(&flat).into_draft(),
        UserMessage::new("m", Source::new("plugin")).into_draft(),
        UserMessage::new("m", Source::new("")).into_draft(),
        AssistantMessage::new(PLACE, "a", "", "m").into_draft(),
        AssistantMessage::new(PLACE, "a", "p", "m").and_tool_call("", "read", "{}").into_draft(),
        ToolResult::new(PLACE, "r", "").into_draft(),
        ToolResult::new(PLACE, "r", "c").error("", "E", None).into_draft(),
        DeveloperMessage::new(PLACE, "d", Source::user()).and_tool(1, "a").and_tool(2, "b").into_draft(),
        DeveloperMessage::new(PLACE, "d", Source::user()).without_tool("").into_draft(),
        header(no_config).into_draft(),
        header(CallConfig { temperature: Some(f64::NAN), ..config() }).into_draft(),
        RequestHeader { is_default_reasoning_effort: true, ..header(config()) }.into_draft(),
        RequestHeader { tools: vec![scalar], ..header(config()) }.into_draft(),
        RequestContext::default().into_draft(),
        SessionTitle::by_user("").into_draft(),
        CompactionPrune(Shadowed { seqs: vec![], token_count: 0 }).into_draft(),
    ];
    for (index, refused) in refused.into_iter().enumerate() {
        assert_eq!(refused.unwrap_err().code(), Code::InvalidArgument, "number {index}");
    }
    let record = PluginRecord { kind: "plugin:Acme".into(), data: JsonText::new("1").unwrap() };
    assert_eq!(record.into_draft().unwrap_err().rule(), Some("PLUGIN_RECORD_TYPE_INVALID"));
    assert_eq!(JsonText::new("-0").unwrap_err().code(), Code::NotLosslessJson);
}

#[test]
fn ids_of_new_messages_are_random_uuids_of_version_4() {
    let store = Store::in_memory().unwrap();
    let ids: Vec<String> = (0..100).map(|_| store.mint_message_id().unwrap()).collect();
    for id in &ids {
        let parts: Vec<usize> = id.split('-').map(str::len).collect();
        assert_eq!(parts, [8, 4, 4, 4, 12], "{id}");
        assert!(id.as_bytes()[14] == b'4' && b"89ab".contains(&id.as_bytes()[19]), "{id}");
    }
    let distinct: std::collections::BTreeSet<_> = ids.iter().collect();
    assert_eq!(distinct.len(), ids.len());
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(256) })]

    /// At most 120 units, and longer texts lose nothing that would have fitted.
    #[test]
    fn a_notice_summary_is_the_text_or_as_much_of_it_as_fits(text in "[a😀é]{0,20}[x😀]{90,110}") {
        let units = |text: &str| text.encode_utf16().count();
        let summary = notice_summary(&text);
        if units(&text) <= NOTICE_SUMMARY_UNITS_MAX {
            prop_assert_eq!(&*summary, &text);
        } else {
            let kept = summary.strip_suffix('…').unwrap();
            prop_assert!(text.starts_with(kept));
            let next = text[kept.len()..].chars().next().unwrap();
            prop_assert!(units(kept) < NOTICE_SUMMARY_UNITS_MAX && units(kept) + next.len_utf16() >= NOTICE_SUMMARY_UNITS_MAX);
        }
    }
}

#[test]
fn a_notice_summary_of_120_units_stays_and_one_of_121_is_cut() {
    let at_limit = "x".repeat(NOTICE_SUMMARY_UNITS_MAX);
    assert_eq!(notice_summary(&at_limit), at_limit);
    assert_eq!(notice_summary(&format!("{at_limit}x")), format!("{}…", &at_limit[1..]));
    // 118 units and a character of two: it would be cut in two, so it goes.
    assert_eq!(notice_summary(&format!("{}😀yy", &at_limit[2..])), format!("{}…", &at_limit[2..]));
}
