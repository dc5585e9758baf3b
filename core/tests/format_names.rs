//! Names (`format.md` 1) and source ranges (`format.md` 3.4) against the vectors, and properties beside them.

use std::collections::BTreeSet;
use std::path::Path;

use dsh_session_core::event::source_ranges::{self, RangeFault};
use dsh_session_core::format::names::{
    self, Encoding, GENERATION_VERSION_MAX, GenerationStatus, NameFault, PROJECT_KEY_CHARACTERS_MAX,
    Selection,
};
use proptest::prelude::*;
use serde_json::Value;

fn vectors(name: &str) -> Value {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../tests/vectors").join(name);
    serde_json::from_str(&std::fs::read_to_string(path).unwrap()).unwrap()
}

fn cases(vectors: &Value) -> &Vec<Value> {
    vectors["cases"].as_array().unwrap()
}

#[test]
fn project_directories_match_the_vectors() {
    for case in cases(&vectors("format-project-keys.json")) {
        let units: Vec<u16> = match case["input"].as_str() {
            Some(text) => text.encode_utf16().collect(),
            None => case["input_utf16"]
                .as_array()
                .unwrap()
                .iter()
                .map(|unit| unit.as_u64().unwrap() as u16)
                .collect(),
        };
        let name = names::project_directory_from_units(&units);
        if let Some(text) = case["input"].as_str() {
            assert_eq!(names::project_directory(Some(text)), name, "{case}");
        }
        match case["expect"].as_str() {
            Some(expected) => assert_eq!(name.as_deref(), Ok(expected), "{case}"),
            None => assert_eq!(name, Err(NameFault::EmptyCwd), "{case}"),
        }
    }
    assert_eq!(names::project_directory(None).as_deref(), Ok("_no-cwd"));
}

#[test]
fn a_project_directory_is_cut_at_its_limit_and_not_before() {
    let limit = PROJECT_KEY_CHARACTERS_MAX;
    for (length, kept) in [(limit - 1, limit - 1), (limit, limit), (limit + 1, limit)] {
        let name = names::project_directory(Some(&"x".repeat(length))).unwrap();
        assert_eq!(name.len(), kept + 4);
    }
}

#[test]
fn session_directories_escape_what_is_not_safe_and_the_two_reserved_names() {
    let expected = [
        ("session-1_a.B", "session-1_a.B"),
        (".", "~002E"),
        ("..", "~002E~002E"),
        ("...", "..."),
        ("a/b~", "a~002Fb~007E"),
        ("😀", "~D83D~DE00"),
    ];
    for (id, directory) in expected {
        assert_eq!(names::session_directory(id).as_deref(), Ok(directory));
    }
    assert_eq!(names::session_directory_from_units(&[0xd800]).as_deref(), Ok("~D800"));
    assert_eq!(names::session_directory(""), Err(NameFault::EmptySessionId));
}

#[test]
fn generation_names_match_the_vectors() {
    let vectors = vectors("format-filenames.json");
    for row in vectors["emit"].as_array().unwrap() {
        let version = row["version"].as_u64().unwrap();
        for encoding in Encoding::ALL {
            let name = names::generation_file_name(version, encoding);
            assert_eq!(row[encoding.as_str()], name.as_str());
            assert_eq!(names::parse_any(&name), Some((version, encoding)));
        }
    }
    for case in cases(&vectors) {
        let name = case["name"].as_str().unwrap();
        for encoding in Encoding::ALL {
            assert_eq!(names::parse_generation(name, encoding), case[encoding.as_str()].as_u64(), "{case}");
        }
    }
}

#[cfg(unix)]
#[test]
fn a_name_that_is_not_unicode_is_never_a_generation() {
    use std::ffi::OsStr;
    use std::os::unix::ffi::OsStrExt;
    for bytes in [&b"session.v4\xff.jsonl"[..], b"\xffsession.v4.jsonl", b"session.v4.jsonl\xff"] {
        assert_eq!(names::parse_any(OsStr::from_bytes(bytes)), None);
    }
    assert!(names::is_flat_layout(OsStr::from_bytes(b"\xff.jsonl")));
}

#[test]
fn selection_matches_the_vectors() {
    for case in cases(&vectors("format-generation-selection.json")) {
        let encoding = Encoding::from_name(case["encoding"].as_str().unwrap()).unwrap();
        let entries = case["entries"].as_array().unwrap().iter().map(|entry| entry.as_str().unwrap());
        let expected = &case["expect"];
        match names::select(entries, encoding) {
            Selection::Absent => assert_eq!(expected["result"], "absent", "{case}"),
            Selection::EncodingConflict { .. } => {
                assert_eq!(expected["result"], "encoding-mismatch", "{case}")
            }
            Selection::Selected { version, status } => {
                let word = match status {
                    GenerationStatus::Current => "current",
                    GenerationStatus::MigrationRequired => "migration-required",
                    GenerationStatus::UnsupportedNewer => "unsupported-newer",
                };
                assert_eq!(expected["result"], "selected", "{case}");
                assert_eq!(expected["version"], version, "{case}");
                assert_eq!(expected["status"], word, "{case}");
            }
        }
    }
}

#[test]
fn staging_cut_and_lock_files_are_no_generations() {
    let staged = names::materialization_staging_name(4, Encoding::Zstd, [0x9c, 0x0d, 0xe1, 0xf2, 0xa3, 0xb4]);
    assert_eq!(staged, "session.v4.jsonl.zstd.9c0de1f2a3b4.tmp");
    let migration =
        names::migration_staging_name(Encoding::None, [0, 0x11, 0x22, 0x33, 0x44, 0x55, 0x66, 0x77]);
    assert_eq!(migration, "session.migration.0011223344556677.jsonl.tmp");
    let cut = names::cut_file_name(1234, 2, Encoding::Zstd);
    assert_eq!(cut, "session.cut-1234-2.jsonl.zstd");
    for name in [&staged, &migration, &cut, names::LOCK_FILE_NAME, names::OWNER_FILE_NAME] {
        assert_eq!(names::parse_any(name), None, "{name}");
    }
}

#[test]
fn flat_layout_files_are_told_by_their_ending() {
    for name in ["a.jsonl", "a.jsonl.zstd", "session.v4.jsonl", ".jsonl"] {
        assert!(names::is_flat_layout(name), "{name}");
    }
    for name in ["a.jsonl.tmp", "a.json", "a.JSONL", "jsonl", "a.zstd"] {
        assert!(!names::is_flat_layout(name), "{name}");
    }
}

#[test]
fn source_ranges_match_the_vectors() {
    for case in cases(&vectors("format-source-ranges.json")) {
        let list = |key: &str| -> Vec<u64> {
            case[key].as_array().unwrap().iter().map(|number| number.as_u64().unwrap()).collect()
        };
        if case["op"] == "encode" {
            assert_eq!(source_ranges::encode(&list("logical")), case["stored"].to_string(), "{case}");
            continue;
        }
        // Once as printed tightly and once with white space wherever JSON allows it.
        for text in [case["stored"].to_string(), serde_json::to_string_pretty(&case["stored"]).unwrap()] {
            match source_ranges::decode(&text, case["seq"].as_u64().unwrap()) {
                Ok(seqs) => {
                    assert_eq!(seqs.iter().collect::<Vec<_>>(), list("logical"), "{case}");
                    assert_eq!(seqs.len(), list("logical").len() as u64, "{case}");
                }
                Err(fault) => assert_eq!(case["error"], fault.as_str(), "{case}"),
            }
        }
    }
}

#[test]
fn counts_are_read_however_they_are_spelled() {
    let seq = GENERATION_VERSION_MAX;
    for text in ["3", "3.0", "3e0", "0.3E1", "30e-1", " 3\n"] {
        let seqs = source_ranges::decode(&format!("[[{text},{text}],4]"), seq).unwrap();
        assert_eq!(seqs.iter().collect::<Vec<_>>(), [3, 4], "{text}");
    }
    for text in ["-0", "-0.0", "-1", "3.5", "1e400", "9007199254740992", "null", "true", "\"3\"", "{}"] {
        assert_eq!(source_ranges::decode(&format!("[{text}]"), seq), Err(RangeFault::BadMember), "{text}");
        assert_eq!(source_ranges::decode(&format!("[[1,{text}]]"), seq), Err(RangeFault::BadPair), "{text}");
    }
    for text in ["[[1,[2]]]", "[[]]", "[[[1,2],3]]"] {
        assert_eq!(source_ranges::decode(text, seq), Err(RangeFault::BadPair), "{text}");
    }
}

#[test]
fn a_pair_of_more_numbers_than_memory_is_not_expanded() {
    let seqs = source_ranges::decode("[[0,9007199254740989]]", GENERATION_VERSION_MAX).unwrap();
    assert_eq!(seqs.len(), 9_007_199_254_740_990);
    assert_eq!(seqs.runs(), [(0, 9_007_199_254_740_989)]);
    assert_eq!(seqs.iter().nth(3), Some(3));
}

/// One entry of a stored list: a pair, or a number, which then is both ends.
#[derive(Clone, Debug)]
struct Entry {
    first: u64,
    last: u64,
    is_pair: bool,
}

fn entry() -> impl Strategy<Value = Entry> {
    (0_u64..14, 0_u64..4, any::<bool>()).prop_map(|(first, more, is_pair)| {
        let last = if is_pair { (first + more).saturating_sub(1) } else { first };
        Entry { first, last, is_pair }
    })
}

/// Section 3.4 word for word, with the list expanded.
fn decode_plainly(stored: &[Entry], seq: u64) -> Result<Vec<u64>, &'static str> {
    let mut numbers = Vec::new();
    for &Entry { first, last, is_pair } in stored {
        let room = seq.saturating_sub(numbers.len() as u64);
        if is_pair && (first > last || last >= seq || last - first + 1 > room) {
            return Err("range-exceeds-seq");
        }
        numbers.extend(first..=last);
    }
    let distinct: BTreeSet<u64> = numbers.iter().copied().collect();
    if distinct.len() != numbers.len() || numbers.iter().any(|number| *number >= seq) {
        return Err("not-unique-earlier");
    }
    if stored.iter().any(|entry| entry.is_pair) && !numbers.is_sorted() {
        return Err("not-increasing");
    }
    Ok(numbers)
}

proptest! {
    #[test]
    fn decoding_what_was_encoded_gives_the_list(
        numbers in proptest::collection::hash_set(0_u64..60, 0..40),
        is_sorted: bool,
    ) {
        let mut list: Vec<u64> = numbers.into_iter().collect();
        if is_sorted {
            list.sort_unstable();
        }
        let text = source_ranges::encode(&list);
        prop_assert_eq!(source_ranges::decode(&text, 60).unwrap().iter().collect::<Vec<_>>(), list);
    }

    #[test]
    fn decoding_agrees_with_the_plain_rules(stored in proptest::collection::vec(entry(), 0..6), seq in 0_u64..16) {
        let text_of = |entry: &Entry| match entry.is_pair {
            true => format!("[{},{}]", entry.first, entry.last),
            false => entry.first.to_string(),
        };
        let members: Vec<String> = stored.iter().map(text_of).collect();
        let decoded = source_ranges::decode(&format!("[{}]", members.join(",")), seq);
        let decoded = decoded.map(|seqs| seqs.iter().collect::<Vec<_>>()).map_err(RangeFault::as_str);
        prop_assert_eq!(decoded, decode_plainly(&stored, seq));
    }

    #[test]
    fn no_text_makes_decoding_panic(text in "[\\[\\],0-9eE+.\\- a\"]{0,40}", seq: u64) {
        let _ = source_ranges::decode(&text, seq);
        let _ = source_ranges::decode(&format!("[{text}"), seq);
    }

    #[test]
    fn different_ids_have_different_directories(a: Vec<u16>, b: Vec<u16>) {
        prop_assume!(a != b);
        let (a, b) = (names::session_directory_from_units(&a), names::session_directory_from_units(&b));
        prop_assert_ne!(a, b);
    }

    #[test]
    fn every_project_directory_is_a_safe_name(cwd: Vec<u16>) {
        if let Ok(name) = names::project_directory_from_units(&cwd) {
            prop_assert!(name.len() <= 255 && name.starts_with("--") && name.ends_with("--"));
            prop_assert!(name.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"._-~".contains(&byte)));
        }
    }
}

/// Case 48: ids and paths with separators, dots, reserved names, CJK, emoji, two forms of é, case twins, 300 characters.
#[test]
fn odd_ids_and_paths_get_the_folders_of_the_case_or_a_clear_error() {
    use dsh_session_core::{Code, NewSession, Store};
    let path =
        Path::new(env!("CARGO_MANIFEST_DIR")).join("../tests/cases/48-ids-and-folder-names/names.json");
    let odd: Value = serde_json::from_slice(&std::fs::read(path).unwrap()).unwrap();
    let folder = tempfile::tempdir().unwrap();
    let store = Store::open(folder.path()).unwrap();
    for case in odd["session_ids"].as_array().unwrap() {
        let name = case["folder"].as_str().unwrap();
        let Some(id) = case["id"].as_str() else {
            // An unpaired surrogate names a folder, but no text of this library can hold it.
            assert_eq!(names::session_directory_from_units(&[0xd83d]).unwrap(), name);
            continue;
        };
        match store.create(NewSession::new().id(id)) {
            Ok(session) => {
                session.flush().unwrap();
                assert!(
                    folder.path().join("_no-cwd").join(name).join("session.v4.jsonl.zstd").exists(),
                    "{id}"
                );
                assert_eq!(store.stat(id).unwrap().unwrap().header.id, id);
            }
            Err(error) => {
                assert!(case["folder_bytes"].as_u64().unwrap() > 255, "{id}: {error}");
                assert_eq!(error.code(), Code::InvalidArgument);
            }
        }
    }
    for case in odd["project_folders"].as_array().unwrap() {
        let cwd = case["cwd"].as_str().unwrap();
        assert_eq!(names::project_directory(Some(cwd)).unwrap(), case["folder"].as_str().unwrap());
    }
}
