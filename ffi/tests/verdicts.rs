//! Every case root is judged the same through C as through Rust; the command line's tests hold these judgements against
//! `expected.json`, and the Python tests do so once more.
#![allow(missing_docs)]

mod support;

use dsh_session_core::{CancelToken, Store};
use std::path::PathBuf;
use std::process::Command;

/// 1 GiB of text says nothing about the border; its judgement is tested elsewhere.
const LEFT_OUT: &str = "27-zstd-1GiB-from-a-small-file";

fn roots() -> Vec<PathBuf> {
    let folder = support::root().join("tests/cases");
    let mut roots: Vec<_> = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    roots.retain(|path| path.is_dir() && !path.ends_with(LEFT_OUT));
    roots.sort();
    assert!(roots.len() >= 50, "only {} cases are in the tree", roots.len());
    roots
}

#[test]
fn the_case_roots_have_the_same_verdicts_through_c_and_rust() {
    let folder = tempfile::tempdir().unwrap();
    let program = support::build("tests/c/verdicts.c", false, "gnu11", &[], folder.path());
    let roots = roots();
    let through_c = support::run(Command::new(program).args(&roots));
    let mut through_rust = String::new();
    for (number, root) in (1..).zip(&roots) {
        through_rust += &format!("root {number}\n");
        let store = Store::open(root).unwrap();
        for judged in store.verify(None, &CancelToken::new()).unwrap() {
            through_rust += &format!("{}\n", judged.unwrap().to_json());
        }
    }
    assert_eq!(through_c, through_rust);
    assert!(through_rust.lines().filter(|line| line.starts_with('{')).count() >= 90);
}
