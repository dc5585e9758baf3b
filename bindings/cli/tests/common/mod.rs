//! Running the built program over copies of the cases.
#![allow(dead_code, missing_docs, unreachable_pub)]

use serde_json::Value;
use std::collections::BTreeMap;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

pub fn cases() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/cases")
}

/// `expected.json`: case, then log path, then figures.
pub fn expected() -> Value {
    serde_json::from_slice(&std::fs::read(cases().join("expected.json")).unwrap()).unwrap()
}

/// A copy of one case that a test may change.
pub fn copy_of(case: &str) -> tempfile::TempDir {
    let copy = tempfile::tempdir().unwrap();
    copy_tree(&cases().join(case), copy.path());
    copy
}

fn copy_tree(from: &Path, to: &Path) {
    for entry in std::fs::read_dir(from).unwrap() {
        let entry = entry.unwrap();
        let target = to.join(entry.file_name());
        if entry.file_type().unwrap().is_dir() {
            std::fs::create_dir(&target).unwrap();
            copy_tree(&entry.path(), &target);
        } else {
            std::fs::copy(entry.path(), &target).unwrap();
        }
    }
}

/// Every file below a folder with its bytes, and every folder without.
pub fn tree(root: &Path) -> BTreeMap<PathBuf, Option<Vec<u8>>> {
    let mut found = BTreeMap::new();
    let mut waiting = vec![root.to_owned()];
    while let Some(folder) = waiting.pop() {
        for entry in std::fs::read_dir(&folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                waiting.push(path.clone());
                found.insert(path, None);
            } else {
                found.insert(path.clone(), Some(std::fs::read(&path).unwrap()));
            }
        }
    }
    found
}

/// What a finished run said.
#[derive(Debug)]
pub struct Ran {
    pub code: i32,
    pub out: String,
    pub err: String,
}

impl Ran {
    pub fn lines(&self) -> Vec<Value> {
        self.out
            .lines()
            .map(|line| serde_json::from_str(line).unwrap_or_else(|e| panic!("{e}: {line}")))
            .collect()
    }

    /// The `error` object on standard error.
    pub fn error(&self) -> Value {
        let value: Value = serde_json::from_str(self.err.trim()).unwrap_or_else(|e| panic!("{e}: {self:?}"));
        value["error"].clone()
    }
}

pub fn command(root: &Path, arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_dsh-session"));
    command.arg("--root").arg(root).args(arguments);
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    command
}

pub fn start(root: &Path, arguments: &[&str]) -> Child {
    command(root, arguments).spawn().unwrap()
}

/// Runs with `--json` and `input` on standard input.
pub fn run_with(root: &Path, arguments: &[&str], input: &str) -> Ran {
    let mut with_json = vec!["--json"];
    with_json.extend_from_slice(arguments);
    finish(start(root, &with_json), input)
}

pub fn run(root: &Path, arguments: &[&str]) -> Ran {
    run_with(root, arguments, "")
}

pub fn finish(mut child: Child, input: &str) -> Ran {
    let mut stdin = child.stdin.take().unwrap();
    let input = input.to_owned();
    // A program that ends early closes the pipe: that is its right, and what it says is what counts.
    let writing = std::thread::spawn(move || drop(stdin.write_all(input.as_bytes())));
    let output = child.wait_with_output().unwrap();
    writing.join().unwrap();
    Ran {
        code: output.status.code().unwrap_or(-1),
        out: String::from_utf8(output.stdout).unwrap(),
        err: String::from_utf8(output.stderr).unwrap(),
    }
}
