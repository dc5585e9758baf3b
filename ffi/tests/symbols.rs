//! The exported symbols are those that `tests/abi/symbols.txt` lists: none leaves, none comes unseen, no other library's are let out.
#![allow(missing_docs)]

mod support;

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::fs;
use std::process::Command;

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

fn exported() -> BTreeSet<String> {
    let library = support::library("libdsh_session.so");
    let text = support::run(Command::new("nm").args(["-D", "--defined-only", "--format=posix"]).arg(library));
    text.lines()
        .filter_map(|line| line.split_whitespace().next())
        .filter(|symbol| !symbol.starts_with(TEST_PREFIX))
        .map(str::to_owned)
        .collect()
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
