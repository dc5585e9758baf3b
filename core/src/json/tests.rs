//! Properties of the room: the vectors of the format, agreement with serde_json on what is JSON and where its
//! parts lie, what admission keeps and refuses, and the depth limit on both sides.

use proptest::prelude::*;
use serde_json::Value;
use serde_json::value::RawValue;

use super::*;

const VECTORS: &str = include_str!("../../../tests/vectors/format-json-text.json");

const SESSION_VECTORS: &str = include_str!("../../../tests/vectors/session-json.json");

fn hex(text: &str) -> Vec<u8> {
    (0..text.len()).step_by(2).map(|at| u8::from_str_radix(&text[at..at + 2], 16).unwrap()).collect()
}

fn check(text: &str) -> Result<(), JsonError> {
    scan_object(text, DEPTH_MAX_DEFAULT, |_| {}).map(|_| ())
}

fn admitted(text: &str) -> Result<String, AdmitError> {
    admit(text.as_bytes(), DEPTH_MAX_DEFAULT)
}

fn refusal_path(text: &str) -> String {
    match admitted(text) {
        Err(AdmitError::NotLossless { path, .. }) => path,
        other => panic!("{text}: {other:?}"),
    }
}

#[test]
fn vectors_of_json_text_are_read_and_admitted_as_written_down() {
    let vectors: Value = serde_json::from_str(VECTORS).unwrap();
    for case in vectors["cases"].as_array().unwrap() {
        let name = case["name"].as_str().unwrap();
        let bytes = hex(case["in_hex"].as_str().unwrap());
        let line = line_text(&bytes);
        assert_eq!(check(&line).is_ok(), !case["out"].is_null(), "{name}: reading");
        assert_eq!(Json::parse(&line, DEPTH_MAX_DEFAULT).is_ok(), check(&line).is_ok(), "{name}: parse");
        let expected = case.get("append").unwrap_or(&case["out"]);
        match (admit(&bytes, DEPTH_MAX_DEFAULT), expected) {
            (Ok(text), Value::String(expected)) => assert_eq!(&text, expected, "{name}"),
            (Err(AdmitError::NotLossless { .. }), Value::Object(_)) => {}
            (Err(AdmitError::Json(_)), Value::Null) => {}
            (got, expected) => panic!("{name}: {got:?}, expected {expected}"),
        }
    }
}

#[test]
fn vectors_of_session_json_are_admitted_as_written_down() {
    let vectors: Value = serde_json::from_str(SESSION_VECTORS).unwrap();
    for case in vectors["cases"].as_array().unwrap() {
        let (name, text) = (&case["id"], case["text"].as_str().unwrap());
        match (admitted(text), case["expect"]["refused"].as_str()) {
            (Ok(stored), None) => {
                assert_eq!(case["expect"], "accept", "{name}");
                if let (Some(value), Ok(got)) = (case.get("value"), serde_json::from_str::<Value>(&stored)) {
                    let same = |value: &Value| admitted(&value.to_string()).unwrap();
                    assert_eq!(same(&got), same(value), "{name}");
                }
            }
            (Err(_), Some(_)) => {}
            (got, expected) => panic!("{name}: {got:?}, expected {expected:?}"),
        }
    }
}

#[test]
fn errors_name_the_byte_and_what_stood_there() {
    let cases = [
        ("", "an empty text where a value should be at byte 0"),
        ("\u{feff}{}", "a byte order mark where a value should start at byte 0"),
        ("{\"a\":1,}", "a comma before '}' at byte 7"),
        ("[1,]", "a comma before ']' at byte 3"),
        ("{'a':1}", "expected a key in double quotes at byte 1"),
        ("{\"a\" 1}", "expected ':' after a key at byte 5"),
        ("\"\u{1}\"", "a control character inside a string at byte 1"),
        ("\"\\x\"", "an escape that JSON does not have at byte 1"),
        ("\"\\u12g4\"", "expected four hexadecimal digits after \\u at byte 1"),
        ("01", "a number with a leading zero at byte 0"),
        ("[1 2]", "expected ',' or ']' at byte 3"),
        ("{} {}", "more text after the value at byte 3"),
        ("[1", "the text ends inside an array at byte 2"),
    ];
    for (text, expected) in cases {
        assert_eq!(check(text).unwrap_err().to_string(), expected, "{text:?}");
        assert_eq!(admitted(text).unwrap_err().to_string(), expected, "{text:?}, admitted");
    }
}

#[test]
fn every_special_byte_ends_a_string_at_every_distance() {
    for length in 0..100 {
        let plain = "é".repeat(length / 2) + &"x".repeat(length % 2);
        assert!(check(&format!("\"{plain}\"")).is_ok(), "{length}");
        assert_eq!(check(&format!("\"{plain}")).unwrap_err().offset, 1 + plain.len());
        for byte in 0..0x20_u8 {
            let text = format!("\"{plain}{}{plain}\"", char::from(byte));
            assert_eq!(check(&text).unwrap_err().offset, 1 + plain.len(), "{length} {byte}");
        }
        let text = format!("[\"{plain}\\\"{plain}\",1]");
        let elements: Vec<_> = Json::parse(&text, 1).unwrap().elements().map(|e| e.text().len()).collect();
        assert_eq!(elements, [2 * plain.len() + 4, 1]);
    }
}

#[test]
fn depth_is_accepted_at_the_limit_and_refused_one_past_it() {
    for limit in [1, 2, 63, 64, 65, 128, 129, DEPTH_MAX_DEFAULT] {
        for (open, close) in [("[", "]"), ("{\"k\":", "}"), ("{\"k\":[", "]}")] {
            let levels = if open.len() == 6 { 2 } else { 1 };
            let nested = |depth: u32| {
                let count = (depth / levels) as usize;
                format!(
                    "{}{}1{}{}",
                    if depth % levels == 1 { "[" } else { "" },
                    open.repeat(count),
                    close.repeat(count),
                    if depth % levels == 1 { "]" } else { "" }
                )
            };
            let fits = nested(limit);
            assert!(scan_object(&fits, limit, |_| {}).is_ok(), "{limit} {open}");
            assert_eq!(Json::parse(&fits, limit).unwrap().text(), fits);
            assert_eq!(admit(fits.as_bytes(), limit).unwrap(), fits);
            let deeper = nested(limit + 1);
            let expected = JsonErrorKind::TooDeep { depth_max: limit };
            assert_eq!(scan_object(&deeper, limit, |_| {}).unwrap_err().kind, expected);
            assert_eq!(Json::parse(&deeper, limit).unwrap_err().kind, expected);
            assert!(
                matches!(admit(deeper.as_bytes(), limit), Err(AdmitError::Json(e)) if e.kind == expected)
            );
        }
    }
    assert!(scan_object("1", 0, |_| {}).is_ok());
    assert!(scan_object("{}", 0, |_| {}).is_err());
}

#[test]
fn a_deep_bracket_of_the_wrong_sort_is_refused() {
    let text = format!("{}1{}}}{}", "[".repeat(200), "]".repeat(100), "]".repeat(99));
    assert_eq!(check(&text).unwrap_err().offset, 301);
}

#[test]
fn repeated_keys_nested_to_the_limit_are_admitted_in_linear_work() {
    let depth = DEPTH_MAX_DEFAULT as usize - 1;
    let text = format!("{}1{}", "{\"a\":0,\"a\":".repeat(depth), "}".repeat(depth));
    assert_eq!(admitted(&text).unwrap(), format!("{}1{}", "{\"a\":".repeat(depth), "}".repeat(depth)));
    let many: String = (0..200_000).map(|n| format!("\"k\":{n},")).collect();
    assert_eq!(admitted(&format!("{{{many}\"z\":1}}")).unwrap(), "{\"k\":199999,\"z\":1}");
}

#[test]
fn a_repeated_key_keeps_its_first_place_and_last_value() {
    let many: Vec<String> = (0..40).map(|n| format!("\"k{n}\":{n}")).collect();
    let many = many.join(",");
    let cases = [
        (
            r#"{"a":1,"\u0061":{"b":1,"b":2},"c":[{"d":0,"d":[]}]}"#.to_owned(),
            r#"{"a":{"b":2},"c":[{"d":[]}]}"#.to_owned(),
        ),
        (r#"{"a":1,"a":2,"b":0,"a":3}"#.to_owned(), r#"{"a":3,"b":0}"#.to_owned()),
        (r#"{ "\n" : "x" , "q":1, "\u000a" : "\/" }"#.to_owned(), r#"{"\n":"/","q":1}"#.to_owned()),
        (
            format!("{{{many},\"k39\":\"x\",\"k0\":\"y\"}}"),
            format!("{{{many}}}").replace(":39", ":\"x\"").replacen(":0", ":\"y\"", 1),
        ),
        (r#"{"a":-0,"a":1}"#.to_owned(), r#"{"a":1}"#.to_owned()),
    ];
    for (text, expected) in cases {
        assert_eq!(admitted(&text).unwrap(), expected, "{text}");
    }
}

#[test]
fn numbers_that_would_change_are_refused_with_their_path() {
    assert_eq!(
        refusal_path(r#"{"data":{"items":[0,1,"],",{"odd key":-0}]}}"#),
        r#"$.data.items[3]["odd key"]"#
    );
    assert_eq!(refusal_path(r#"{"a":{"b":1},"c":{"d":[[],[1e400]]}}"#), "$.c.d[1][0]");
    assert_eq!(refusal_path(r#"{"a":-0,"b":1,"a":[1,-0.0]}"#), "$.a[1]");
    for text in
        ["-0", "-0.0", "-0e0", "-1e-400", "1e400", "-1e309", "9007199254740993", "9223372036854775807"]
    {
        assert_eq!(refusal_path(text), "$", "{text}");
    }
    let kept = [
        ("9223372036854776000", "9223372036854776000"),
        ("9223372036854775808", "9223372036854776000"),
        ("-9007199254740992", "-9007199254740992"),
        ("1000000000000000000000", "1e+21"),
        ("1e-400", "0"),
        ("0.0", "0"),
        ("0.1000000000000000055", "0.1"),
        ("-1.50E+2", "-150"),
        ("123456789012345", "123456789012345"),
    ];
    for (text, expected) in kept {
        assert_eq!(admitted(text).unwrap(), expected, "{text}");
    }
}

#[test]
fn counts_and_safe_integers_are_judged_by_value() {
    let integer = |text: &str| Json::parse(text, 0).unwrap().as_safe_integer();
    let count = |text: &str| Json::parse(text, 0).unwrap().as_count();
    assert_eq!(count("3.0"), Some(3));
    assert_eq!(count("1e2"), Some(100));
    assert_eq!(count("0"), Some(0));
    assert_eq!(count("9007199254740991"), Some(SAFE_INTEGER_MAX));
    for text in ["-0", "-0.0", "-1e-400", "9007199254740992", "1.5", "1e400", "\"3\"", "null"] {
        assert_eq!(integer(text), None, "{text}");
    }
    assert_eq!((integer("-5"), count("-5")), (Some(-5), None));
    assert_eq!(integer("-9007199254740991"), Some(-9007199254740991));
    assert_eq!(Json::parse("1e400", 0).unwrap().as_f64(), Some(f64::INFINITY));
}

#[test]
fn strings_are_decoded_with_unpaired_surrogates_replaced() {
    let text = |raw: &str| Json::parse(raw, 0).unwrap().as_str().unwrap().into_owned();
    assert_eq!(text(r#""a\u00e9\n\ud83d\ude00\/""#), "aé\n😀/");
    assert_eq!(text(r#""\ud800\ud83d\ude00x\udc00""#), "\u{fffd}😀x\u{fffd}");
    assert_eq!(text(r#""\ud800\n""#), "\u{fffd}\n");
    let is_ill_formed = |raw: &str| Json::parse(raw, 0).unwrap().has_unpaired_surrogate();
    assert!(is_ill_formed(r#""x\ud800""#) && is_ill_formed(r#""\udc00\ud800""#));
    assert!(!is_ill_formed(r#""\ud83d\ude00\n\\ud800""#) && !is_ill_formed("1"));
}

#[test]
fn the_last_of_repeated_members_is_found_by_its_decoded_key() {
    let value = Json::parse(r#"{"a":1, "\u0061" : 2 ,"b":{"a":3}, "\\":4}"#, 2).unwrap();
    assert_eq!(value.get("a").unwrap().text(), "2");
    assert_eq!(value.get("\\").unwrap().text(), "4");
    assert!(value.get("\\\\").is_none());
    assert_eq!(value.members().count(), 4);
}

#[test]
fn code_units_are_printed_with_unpaired_surrogates_escaped() {
    let mut out = String::new();
    print_utf16(&mut out, &[0x61, 0xD800, 0x22, 0xD83D, 0xDE00, 0xDC01, 0x1F]);
    assert_eq!(out, "\"a\\ud800\\\"😀\\udc01\\u001f\"");
}

#[test]
fn walks_of_text_that_is_not_json_end() {
    for text in ["", "{", "[", "{\"", "[\"\\", "{\"a\":", "[,,,", "[}", "{]", "[\u{1}\"é\\", "{\"a\"é:é"] {
        let json = Json::trusted(text);
        assert!(json.members().count() + json.elements().count() <= text.len());
        let _ = (json.get("a"), json.as_str(), json.as_f64(), json.as_count(), json.kind());
    }
}

/// Texts made of the pieces JSON is made of, so that valid and nearly valid ones are both common.
fn token_soup() -> impl Strategy<Value = String> {
    let token = prop::sample::select(vec![
        "{",
        "}",
        "[",
        "]",
        ",",
        ":",
        "\"a\"",
        "\"\"",
        "\"b\\n\\u00e9\"",
        "1",
        "-0",
        "0.5",
        "1e3",
        "true",
        "null",
        "false",
        " ",
        "\n",
        "01",
        "\"a\":",
        "[]",
        "{}",
        "\"",
        "\\",
        ".",
        "-",
        "tru",
        "é",
    ]);
    prop::collection::vec(token, 0..12).prop_map(|tokens| tokens.concat())
}

fn tree() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        (-(1_i64 << 53)..(1 << 53)).prop_map(Value::from),
        // Few digits: serde_json, as it is built here, misses the last bit of longer ones.
        any::<i16>().prop_map(|n| Value::from(f64::from(n | 1) / 4.0)),
        ".{0,40}".prop_map(Value::from),
        "[\\x00-\\x7f]{0,60}".prop_map(Value::from),
    ];
    leaf.prop_recursive(5, 60, 8, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..8).prop_map(Value::from),
            prop::collection::vec((".{0,6}", inner), 0..8)
                .prop_map(|members| Value::Object(members.into_iter().collect())),
        ]
    })
}

/// A tree printed compactly or prettily, perhaps with one byte changed, removed or doubled.
fn mutated() -> impl Strategy<Value = String> {
    (tree(), any::<bool>(), any::<prop::sample::Index>(), 0..4_u8, any::<u8>()).prop_map(
        |(value, is_pretty, place, how, byte)| {
            let text =
                if is_pretty { serde_json::to_string_pretty(&value) } else { serde_json::to_string(&value) };
            let mut bytes = text.unwrap().into_bytes();
            let at = place.index(bytes.len());
            match how {
                0 => {}
                1 => bytes[at] = byte,
                2 => drop(bytes.remove(at)),
                _ => bytes.insert(at, byte),
            }
            line_text(&bytes).into_owned()
        },
    )
}

/// The text of a tree in which keys repeat at every level, some of them spelled with an escape.
fn repeating() -> impl Strategy<Value = String> {
    let leaf = prop::sample::select(vec!["1", "\"x\"", "[]", "{}", "null"]).prop_map(str::to_owned);
    leaf.prop_recursive(4, 60, 24, |inner| {
        let key = prop::sample::select(vec!["a", "b", "\\u0061", "\\n", "\\u000a", "", "c"]);
        let names = (0..40_u8).prop_map(|n| format!("k{n}"));
        let key = prop_oneof![key.prop_map(str::to_owned), names];
        let member = (key, inner.clone()).prop_map(|(key, value)| format!("\"{key}\" : {value}"));
        prop_oneof![
            prop::collection::vec(member, 0..24).prop_map(|members| format!("{{ {}}}", members.join(", "))),
            prop::collection::vec(inner, 0..3).prop_map(|elements| format!("[{} ]", elements.join(","))),
        ]
    })
}

/// serde_json passes over a raw value without decoding it: unpaired surrogates, `1e400` and depth (within its
/// own default of 128 when tokens are few) are no errors there, so the two must agree exactly.
fn agrees_with_serde(text: &str) -> Result<(), TestCaseError> {
    let peer = serde_json::from_str::<&RawValue>(text);
    prop_assert_eq!(check(text).is_ok(), peer.is_ok(), "{:?} {:?} {:?}", text, check(text), peer);
    let parsed = Json::parse(text, DEPTH_MAX_DEFAULT);
    prop_assert_eq!(parsed.is_ok(), peer.is_ok());
    if let (Ok(parsed), Ok(peer)) = (parsed, peer) {
        prop_assert_eq!(parsed.text(), peer.get());
        // Admission reads the same grammar.
        prop_assert!(!matches!(admitted(text), Err(AdmitError::Json(_))), "{:?}", text);
    } else {
        prop_assert!(matches!(admitted(text), Err(AdmitError::Json(_))), "{:?}", text);
    }
    Ok(())
}

proptest! {
    #[test]
    fn what_is_json_is_what_serde_json_says(text in prop_oneof![token_soup(), mutated()]) {
        agrees_with_serde(&text)?;
    }

    #[test]
    fn members_are_those_serde_json_finds(members in prop::collection::vec((".{0,5}", tree()), 0..6), pretty: bool) {
        let object = Value::Object(members.into_iter().collect());
        let text = if pretty { serde_json::to_string_pretty(&object) } else { serde_json::to_string(&object) }.unwrap();
        let mut seen = Vec::new();
        let shape = scan_object(&text, DEPTH_MAX_DEFAULT, |m| {
            assert_eq!(&text[m.value_start..m.value_end], m.value.text());
            seen.push((m.key_text().into_owned(), serde_json::from_str::<Value>(m.value.text()).unwrap()));
        });
        prop_assert_eq!(shape, Ok(Shape::Object { start: 0, end: text.len() }));
        let expected: Vec<_> = object.as_object().unwrap().clone().into_iter().collect();
        prop_assert_eq!(&seen, &expected);
        let json = Json::parse(&text, DEPTH_MAX_DEFAULT).unwrap();
        let walked: Vec<_> = json.members().map(|(k, v)| (k.into_owned(), v.text().to_owned())).collect();
        prop_assert_eq!(walked.len(), expected.len());
        for ((key, value), (walked_key, walked_value)) in expected.iter().zip(&walked) {
            prop_assert_eq!(key, walked_key);
            prop_assert_eq!(value, &serde_json::from_str::<Value>(walked_value).unwrap());
            prop_assert_eq!(json.get(key).unwrap().text(), walked_value);
        }
    }

    #[test]
    fn admitted_text_means_the_same_and_is_admitted_unchanged(value in tree(), pretty: bool) {
        let text = if pretty { serde_json::to_string_pretty(&value) } else { serde_json::to_string(&value) }.unwrap();
        let once = admitted(&text).unwrap();
        prop_assert_eq!(&serde_json::from_str::<Value>(&once).unwrap(), &serde_json::from_str::<Value>(&text).unwrap());
        prop_assert_eq!(admitted(&once).unwrap(), once);
    }

    #[test]
    fn repeated_keys_are_admitted_as_an_ordered_map_holds_them(text in repeating()) {
        let value: Value = serde_json::from_str(&text).unwrap();
        prop_assert_eq!(admitted(&text).unwrap(), value.to_string());
    }

    #[test]
    fn admission_is_idempotent_on_any_text_it_takes(text in prop_oneof![token_soup(), mutated()]) {
        if let Ok(once) = admitted(&text) {
            prop_assert_eq!(admitted(&once).unwrap(), once);
        }
    }

    #[test]
    fn strings_come_back_from_print_and_admission(text in any::<String>()) {
        let mut printed = String::new();
        print_string(&mut printed, &text);
        prop_assert_eq!(Json::parse(&printed, 0).unwrap().as_str().unwrap(), text.as_str());
        prop_assert_eq!(admitted(&printed).unwrap(), printed);
    }

    #[test]
    fn doubles_come_back_bit_for_bit(bits: u64) {
        let value = f64::from_bits(bits);
        prop_assume!(value.is_finite() && value != 0.0);
        let mut printed = String::new();
        print_number(&mut printed, value);
        prop_assert_eq!(Json::parse(&printed, 0).unwrap().as_f64(), Some(value));
        prop_assert_eq!(admitted(&printed).unwrap(), printed);
    }

    #[test]
    fn walks_of_any_text_end_without_panic(text in prop_oneof![token_soup(), any::<String>()]) {
        let json = Json::trusted(&text);
        prop_assert!(json.members().count() + json.elements().count() <= text.len());
        let _ = (json.get("a"), json.as_str(), json.as_f64(), json.as_count());
    }
}
