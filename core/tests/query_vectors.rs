//! The pure parts of queries: the vectors, and fast ways against slow, obvious ones.

use dsh_session_core::event::Vocabulary;
use dsh_session_core::query::{
    Availability, Bounds, Document, EventFilter, EventRecord, EventTrace, FoldRules, LineageEnd,
    SessionFilter, SessionLineage, SessionRecord, SurfacePlace, TextClause, TitleRecord, documents,
    event_records, semantic_text, transcript,
};
use dsh_session_core::session::Projections;
use dsh_session_core::{Code, Error, Event, SessionHeader};
use proptest::prelude::*;
use serde_json::{Value, json};

mod peer_logs;
use peer_logs::vectors;

fn whole(name: &str) -> Value {
    let path = format!("{}/../tests/vectors/{name}", env!("CARGO_MANIFEST_DIR"));
    serde_json::from_str(&std::fs::read_to_string(path).unwrap()).unwrap()
}

/// Also rows that no log could hold.
fn events(rows: &Value) -> Vec<Event> {
    rows.as_array().unwrap().iter().map(|row| Event::from_unstored_row(row.to_string()).unwrap()).collect()
}

fn outcome(result: Result<Value, Error>) -> Value {
    match result {
        Ok(value) => json!({ "ok": value }),
        Err(error) => json!({ "error": error.code().name() }),
    }
}

fn parsed(text: &str) -> Value {
    serde_json::from_str(text).unwrap()
}

fn with_rules<T>(ask: impl FnOnce(FoldRules<'_>) -> T) -> T {
    let rules = dsh_session_core::session::SessionRules::default();
    ask(FoldRules { projections: &rules.projections, vocabulary: &Vocabulary::default() })
}

fn record(value: &Value) -> SessionRecord {
    let header = &value["header"];
    let text = |key: &str| header[key].as_str().map(String::from);
    let mut made = SessionHeader::new(text("id").unwrap(), header["createdAt"].as_u64().unwrap());
    made.cwd = text("cwd");
    made.parent_session = text("parentSession");
    SessionRecord {
        header: made,
        live: value["live"].as_bool().unwrap(),
        persisted: value["persisted"].as_bool().unwrap(),
        format_status: None,
    }
}

#[test]
fn texts_are_those_of_the_vectors() {
    let cases = vectors("query-extraction.json");
    assert_eq!(cases.len(), 32);
    for case in cases {
        let event = events(&json!([case["event"]])).remove(0);
        assert_eq!(
            semantic_text(&event),
            case["expect"]["text"].as_str().unwrap_or_default(),
            "{}",
            case["id"]
        );
    }
}

#[test]
fn text_clauses_match_as_in_the_vectors() {
    let cases = vectors("query-text-match.json");
    assert_eq!(cases.len(), 28);
    for case in cases {
        let clause = TextClause::new(case["needle"].as_str().unwrap());
        let matched = clause.map(|clause| json!(clause.matches(case["haystack"].as_str().unwrap())));
        assert_eq!(outcome(matched), case["expect"], "{}", case["id"]);
    }
}

#[test]
fn filters_accept_and_refuse_as_in_the_vectors() {
    let all = whole("query-filters.json");
    let records: Vec<_> = all["records"].as_array().unwrap().iter().map(record).collect();
    let events = events(&all["events"]);
    let documents: Vec<_> = with_rules(|rules| documents("s-gate", &events, rules).unwrap().collect());
    for case in all["cases"].as_array().unwrap() {
        let filters = case["filters"].to_string();
        let found = if case["target"] == "sessions" {
            SessionFilter::list_from_json(&filters).map(|filters| {
                let passes = |record: &&SessionRecord| filters.iter().all(|filter| filter.accepts(record));
                records.iter().filter(passes).map(|record| json!(record.header.id)).collect::<Value>()
            })
        } else {
            EventFilter::list_from_json(&filters).map(|filters| {
                let passes = |document: &&Document| filters.iter().all(|filter| filter.accepts(document));
                documents.iter().filter(passes).map(|document| json!(document.record.seq)).collect::<Value>()
            })
        };
        assert_eq!(outcome(found), case["expect"], "{}", case["id"]);
    }
    assert_eq!(all["cases"].as_array().unwrap().len(), 43);
}

#[test]
fn what_is_no_finite_bound_or_no_json_is_no_filter() {
    for bounds in [(Some(f64::NAN), None), (None, Some(f64::INFINITY)), (Some(1.0), Some(0.5))] {
        assert_eq!(Bounds::new(bounds.0, bounds.1).unwrap_err().code(), Code::QueryInvalidFilter);
    }
    for text in ["", "[", "[]x", r#"[{"kind":"seq","from":1e400}]"#, r#"[{"kind":3}]"#] {
        assert_eq!(EventFilter::list_from_json(text).unwrap_err().code(), Code::QueryInvalidFilter, "{text}");
    }
    let second = SessionFilter::list_from_json(r#"[{"kind":"id","values":[]},7]"#).unwrap_err();
    assert_eq!(second.index(), Some(1));
}

fn surface_json(events: &[Event], rules: FoldRules<'_>) -> Result<Value, Error> {
    let folded =
        dsh_session_core::session::fold_surface(events.iter().cloned(), rules.projections, rules.vocabulary);
    // The code is that of the records, which fold in the same way.
    let nodes = folded.map(|folded| folded.nodes);
    let nodes = event_records("s-trace", events, rules).map(|_| nodes.unwrap())?;
    Ok(json!({ "capturedThroughSeq": events.last().map(Event::seq), "seqs": nodes }))
}

#[test]
fn places_surfaces_and_traces_are_those_of_the_vectors() {
    let cases = vectors("query-trace.json");
    assert_eq!(cases.len(), 29);
    let mut impossible = Vec::new();
    for case in cases {
        let rows = case["events"].as_array().unwrap().iter();
        let events: Result<Vec<_>, _> = rows.map(|row| Event::from_unstored_row(row.to_string())).collect();
        let Ok(events) = events else {
            // What cannot be held as an event is refused before it is folded.
            assert_eq!(case["expect"]["records"]["error"], "SESSION_QUERY_INVALID_SURFACE");
            impossible.push(case["id"].as_str().unwrap().to_owned());
            continue;
        };
        with_rules(|rules| {
            let records = event_records("s-trace", &events, rules);
            let places = |records: Vec<EventRecord>| {
                records.iter().map(|record| json!(record.surface.as_str())).collect::<Value>()
            };
            assert_eq!(outcome(records.map(places)), case["expect"]["records"], "{}", case["id"]);
            assert_eq!(outcome(surface_json(&events, rules)), case["expect"]["surface"], "{}", case["id"]);
            for (seq, expected) in case["expect"]["traces"].as_object().unwrap() {
                let header = SessionHeader::new("s-trace", 1);
                let trace = EventTrace::of(&header, &events, seq.parse().unwrap(), rules);
                let mut trace = outcome(trace.map(|trace| parsed(&trace.to_json())));
                if let Some(trace) = trace.get_mut("ok") {
                    let trace = trace.as_object_mut().unwrap();
                    assert_eq!(trace.remove("session").unwrap()["id"], "s-trace");
                }
                assert_eq!(trace, *expected, "{} {seq}", case["id"]);
            }
        });
    }
    assert_eq!(impossible, ["duplicate-source", "future-source"]);
}

#[test]
fn a_message_projection_that_is_not_registered_makes_the_surface_invalid() {
    let cases = vectors("query-trace.json");
    let case = cases.iter().find(|case| case["id"] == "image-offload").unwrap();
    let (events, projections) = (events(&case["events"]), Projections::default());
    let rules = FoldRules { projections: &projections, vocabulary: &Vocabulary::default() };
    let refused = event_records("s", &events, rules).unwrap_err();
    assert_eq!((refused.code(), refused.rule()), (Code::QueryInvalidSurface, Some("PROJECTION_MISSING")));
}

fn lineage_json(lineage: &SessionLineage) -> Value {
    fn ids(value: &mut Value) {
        for child in value.as_array_mut().unwrap() {
            ids(&mut child["descendants"]);
            let id = child["session"]["header"]["id"].clone();
            *child = json!({ "id": id, "descendants": child["descendants"] });
        }
    }
    let mut value = parsed(&lineage.to_json());
    ids(&mut value["descendants"]);
    value["target"] = value["target"]["header"]["id"].clone();
    for ancestor in value["ancestors"].as_array_mut().unwrap() {
        *ancestor = ancestor["header"]["id"].clone();
    }
    if let Some(root) = value.get_mut("root") {
        *root = root["header"]["id"].clone();
    }
    value
}

#[test]
fn lineages_are_those_of_the_vectors() {
    let all = whole("query-lineage.json");
    let records: Vec<_> = all["records"].as_array().unwrap().iter().map(record).collect();
    for case in all["cases"].as_array().unwrap() {
        // The order of lists is held by the vectors of the corpus.
        if case["operation"] == "traceSession" {
            let lineage = SessionLineage::of(case["sessionId"].as_str().unwrap(), &records);
            assert_eq!(
                outcome(lineage.map(|lineage| lineage_json(&lineage))),
                case["expect"],
                "{}",
                case["id"]
            );
        }
    }
}

#[test]
fn a_lineage_may_be_a_hundred_thousand_sessions_deep() {
    let record = |number: u64| {
        let mut header = SessionHeader::new(format!("s{number}"), number);
        header.parent_session = number.checked_sub(1).map(|parent| format!("s{parent}"));
        SessionRecord { header, live: false, persisted: true, format_status: None }
    };
    let records: Vec<_> = (0..100_000).map(record).collect();
    let down = SessionLineage::of("s0", &records).unwrap();
    assert_eq!(down.descendants.last().unwrap().depth, 99_999);
    assert_eq!(down.to_json().matches("\"descendants\":[").count(), 100_000);
    let up = SessionLineage::of("s99999", &records).unwrap();
    assert_eq!(up.ancestors.len(), 99_999);
    assert_eq!(up.end, LineageEnd::Root(records[0].clone()));
}

/// A lineage as the rule says it, step by step.
fn slow_lineage(id: &str, records: &[SessionRecord]) -> Result<Value, &'static str> {
    fn tree(id: &str, records: &[SessionRecord]) -> Value {
        let mut children: Vec<_> =
            records.iter().filter(|record| record.header.parent_session.as_deref() == Some(id)).collect();
        children.sort_by_key(|record| (record.header.created_at, record.header.id.clone()));
        children
            .iter()
            .map(|child| json!({ "id": child.header.id, "descendants": tree(&child.header.id, records) }))
            .collect()
    }
    let find = |id: &str| records.iter().find(|record| record.header.id == id);
    let target = find(id).ok_or("SESSION_QUERY_SESSION_NOT_FOUND")?;
    let (mut chain, mut unresolved) = (vec![target], None);
    while let Some(parent) = &chain.last().unwrap().header.parent_session {
        match find(parent) {
            None => {
                unresolved = Some(parent.clone());
                break;
            }
            Some(next) if chain.iter().any(|seen| seen.header.id == next.header.id) => {
                return Err("SESSION_QUERY_INVALID_LINEAGE");
            }
            Some(next) => chain.push(next),
        }
    }
    let ids: Vec<_> = chain.iter().map(|record| record.header.id.clone()).collect();
    let mut value = json!({ "target": id, "ancestors": ids[1..], "descendants": tree(id, records),
        "complete": unresolved.is_none() });
    match unresolved {
        Some(parent) => value["unresolvedParentId"] = json!(parent),
        None => value["root"] = json!(ids.last()),
    }
    Ok(value)
}

proptest! {
    #[test]
    fn a_lineage_is_that_of_the_slow_way(
        parents in prop::collection::vec((prop::option::of(0..12_u8), 0..3_u64), 1..10),
        wanted in 0..12_u8,
    ) {
        let records: Vec<_> = parents.iter().enumerate().map(|(id, (parent, created_at))| {
            let mut header = SessionHeader::new(format!("s{id}"), *created_at);
            header.parent_session = parent.map(|parent| format!("s{parent}"));
            SessionRecord { header, live: false, persisted: true, format_status: None }
        }).collect();
        let wanted = format!("s{wanted}");
        let fast = SessionLineage::of(&wanted, &records);
        let fast = fast.map(|lineage| lineage_json(&lineage)).map_err(|error| error.code().name());
        prop_assert_eq!(fast, slow_lineage(&wanted, &records));
    }

    #[test]
    fn a_text_clause_matches_what_a_pattern_of_its_characters_matches(
        needle in "[ \t\u{feff}\u{85}aAkKsS\u{212a}\u{17f}\u{3c3}\u{3c2}\u{df}\u{1e9e}\u{130}\u{131}.*一]{0,4}",
        document in "[ \n\u{feff}\u{85}aAkKsS\u{212a}\u{17f}\u{3c3}\u{3a3}\u{df}\u{1e9e}\u{130}i.*一]{0,12}",
    ) {
        const SPACE: &str = r"[\x09-\x0D \u{A0}\u{1680}\u{2000}-\u{200A}\u{2028}\u{2029}\u{202F}\u{205F}\u{3000}\u{FEFF}]+";
        let space = regex::Regex::new(SPACE).unwrap();
        let words: Vec<String> =
            space.split(&needle).filter(|word| !word.is_empty()).map(regex::escape).collect();
        match TextClause::new(&needle) {
            Err(_) => prop_assert!(words.is_empty()),
            Ok(clause) => {
                let pattern = regex::Regex::new(&format!("(?i){}", words.join(SPACE))).unwrap();
                prop_assert_eq!(clause.matches(&document), pattern.is_match(&document));
            }
        }
    }

    #[test]
    fn session_filters_pass_what_their_parts_pass(
        clauses in prop::collection::vec((0..5_u8, prop::collection::vec(0..4_u8, 0..3)), 0..4),
        id in 0..3_u8, cwd in prop::option::of(0..3_u8), parent in prop::option::of(0..3_u8),
        live: bool, persisted: bool,
    ) {
        let word = |number: u8| format!("w{number}");
        let maybe = |number: u8| (number < 3).then(|| word(number));
        let mut header = SessionHeader::new(word(id), u64::from(id));
        (header.cwd, header.parent_session) = (cwd.map(word), parent.map(word));
        let record = SessionRecord { header, live, persisted, format_status: None };
        let place = |number: u8| if number.is_multiple_of(2) { Availability::Live } else { Availability::Persisted };
        let mut expected = true;
        let filters: Vec<_> = clauses.iter().map(|(kind, values)| {
            let (some, all): (Vec<_>, Vec<_>) = (values.clone(), values.iter().map(|value| maybe(*value)).collect());
            match kind {
                0 => {
                    expected &= some.contains(&id);
                    SessionFilter::Id(some.into_iter().map(word).collect())
                }
                1 => {
                    expected &= some.iter().any(|value| (*value < 3).then_some(*value) == cwd);
                    SessionFilter::Cwd(all)
                }
                2 => {
                    expected &= some.iter().any(|value| (*value < 3).then_some(*value) == parent);
                    SessionFilter::Parent(all)
                }
                3 => {
                    expected &= some.iter().any(|value| if value.is_multiple_of(2) { live } else { persisted });
                    SessionFilter::Availability(some.into_iter().map(place).collect())
                }
                _ => {
                    let (from, to) = (some.first().copied(), Some(3));
                    expected &= from.is_none_or(|from| from <= id) && id <= 3;
                    SessionFilter::CreatedAt(Bounds::new(from.map(f64::from), to.map(f64::from)).unwrap())
                }
            }
        }).collect();
        prop_assert_eq!(filters.iter().all(|filter| filter.accepts(&record)), expected);
    }
}

#[test]
fn titles_are_folded_as_in_the_vectors() {
    let mut folded = 0;
    for case in vectors("query-titles.json") {
        if case["operation"] == "fold" {
            folded += 1;
            let title = TitleRecord::of(&events(&case["events"]));
            let title = title.map_or(Value::Null, |title| parsed(&title.to_json()));
            assert_eq!(json!({ "ok": title }), case["expect"], "{}", case["id"]);
        }
    }
    assert_eq!(folded, 7);
}

#[test]
fn transcripts_are_those_of_the_vectors() {
    let cases = vectors("query-transcript.json");
    assert_eq!(cases.len(), 11);
    for case in cases {
        let entries = transcript(&events(&case["events"]));
        let entries: Value = entries.iter().map(|entry| parsed(&entry.to_json())).collect();
        let expected = case["expect"].get("ok").or(case["expect"].get("entries")).unwrap_or(&case["expect"]);
        assert_eq!(entries, *expected, "{}", case["id"]);
    }
}

#[test]
fn every_place_has_a_word_of_its_own() {
    for place in [SurfacePlace::Current, SurfacePlace::Shadowed, SurfacePlace::LogOnly] {
        assert_eq!(SurfacePlace::from_word(place.as_str()), Some(place));
    }
    assert_eq!(SurfacePlace::from_word("Current"), None);
}
