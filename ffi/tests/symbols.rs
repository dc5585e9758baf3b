//! The exported symbols are those that `tests/abi/symbols.txt` lists: none leaves, none comes unseen, no other library's are let out.
#![allow(missing_docs)]

mod support;

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::SystemTime;

const LIST: &str = "tests/abi/symbols.txt";

/// What only a library built for tests exports.
const TEST_PREFIX: &str = "dsh_test_";

/// Each listed symbol with the version it came with.
fn listed() -> BTreeMap<String, String> {
    let text = fs::read_to_string(support::root().join(LIST)).unwrap_or_default();
    text.lines()
        .filter(|line| !line.starts_with('#'))
        .filter_map(|line| line.split_once(' '))
        .map(|(symbol, version)| (symbol.to_owned(), version.to_owned()))
        .collect()
}

fn symbols_of(library: &Path) -> BTreeSet<String> {
    let text = support::run(Command::new("nm").args(["-D", "--defined-only", "--format=posix"]).arg(library));
    text.lines().filter_map(|line| line.split_whitespace().next()).map(str::to_owned).collect()
}

/// What the library built for the tests exports, its own additions aside.
fn exported() -> BTreeSet<String> {
    let mut symbols = symbols_of(&support::library("libdsh_session.so"));
    symbols.retain(|symbol| !symbol.starts_with(TEST_PREFIX));
    symbols
}

/// When the newest source of the library was written.
fn newest_source() -> SystemTime {
    let mut folders: Vec<PathBuf> =
        ["core/src", "ffi/src"].iter().map(|it| support::root().join(it)).collect();
    let mut newest = SystemTime::UNIX_EPOCH;
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder).unwrap().map(Result::unwrap) {
            let facts = entry.metadata().unwrap();
            if facts.is_dir() {
                folders.push(entry.path());
            } else {
                newest = newest.max(facts.modified().unwrap());
            }
        }
    }
    newest
}

#[test]
fn the_exported_symbols_are_the_listed_ones() {
    let (listed, exported) = (listed(), exported());
    let gone: Vec<_> = listed.keys().filter(|symbol| !exported.contains(*symbol)).collect();
    assert!(gone.is_empty(), "symbols were removed, which breaks programs: {gone:?}");
    let mut text = String::from(
        "# Each exported symbol and the version it came with. New ones are added by the tests with DSH_UPDATE=1.\n",
    );
    for symbol in &exported {
        let version = listed.get(symbol).map_or(env!("CARGO_PKG_VERSION"), String::as_str);
        let _ = writeln!(text, "{symbol} {version}");
    }
    support::expect_file(LIST, &text);
}

#[test]
fn the_library_that_is_installed_exports_the_listed_symbols_and_no_others() {
    let Some(library) = support::release_library("libdsh_session.so") else {
        return support::skipped(
            "no release build of the library to look at (cargo build --release -p dsh-session-ffi)",
        );
    };
    if fs::metadata(&library).unwrap().modified().unwrap() < newest_source() {
        return support::skipped("the release build of the library is older than its sources");
    }
    let listed: BTreeSet<String> = listed().into_keys().collect();
    assert_eq!(symbols_of(&library), listed);
}

#[test]
fn every_exported_symbol_is_declared_in_the_header_and_begins_with_dsh() {
    let header = fs::read_to_string(support::root().join("include/dsh_session.h")).unwrap();
    for symbol in exported() {
        assert!(symbol.starts_with("dsh_"), "{symbol}");
        assert!(header.contains(&format!("{symbol}(")), "{symbol} is not declared");
    }
}

#[test]
fn the_soname_has_the_major_version() {
    let library = support::library("libdsh_session.so");
    let text = support::run(Command::new("readelf").arg("-d").arg(library));
    let soname = format!("[libdsh_session.so.{}]", dsh_session::version::ABI_MAJOR);
    assert!(text.contains(&soname), "{text}");
}
