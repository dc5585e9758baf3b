//! Runs the C and C++ programs of `tests/` against the shared library, under the sanitizers and under valgrind.
#![allow(missing_docs)]

mod support;

use std::path::Path;
use std::process::Command;

/// Builds and runs a program with the sanitizers, which also look for leaks; then plainly under valgrind, where that is installed.
fn runs_clean(source: &str, is_cpp: bool, standard: &str, extra: &[&str]) {
    let folder = tempfile::tempdir().unwrap();
    let start = |program: &Path, data: &str| {
        let data = folder.path().join(data);
        std::fs::create_dir(&data).unwrap();
        let mut command = Command::new(program);
        command.arg(data).env("ASAN_OPTIONS", "detect_leaks=1").env("UBSAN_OPTIONS", "halt_on_error=1");
        command
    };
    let sanitizers = ["-fsanitize=address,undefined", "-fno-sanitize-recover=all"];
    let flags: Vec<&str> = sanitizers.into_iter().chain(extra.iter().copied()).collect();
    let program = support::build(source, is_cpp, standard, &flags, folder.path());
    let output = support::run(&mut start(&program, "sanitized"));
    assert!(output.contains(": ok"), "{output}");

    if support::has("valgrind") {
        let program = support::build(source, is_cpp, standard, extra, folder.path());
        let plain = start(&program, "valgrind");
        let mut command = Command::new("valgrind");
        command
            .args(["--quiet", "--error-exitcode=99", "--leak-check=full", "--errors-for-leak-kinds=definite"])
            .arg(plain.get_program())
            .args(plain.get_args());
        let output = support::run(&mut command);
        assert!(output.contains(": ok"), "{output}");
    }
}

#[test]
fn the_c_client_runs_clean() {
    runs_clean("tests/c/client.c", false, "gnu11", &[]);
}
