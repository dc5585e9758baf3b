//! Runs the C and C++ programs of `tests/` against the shared library, under the sanitizers and under valgrind.
#![allow(missing_docs)]

mod support;

use dsh_session_core::Code;
use std::path::Path;
use std::process::Command;

/// Builds and runs a program with the sanitizers, which also look for leaks; then plainly under valgrind, where that is installed.
/// Gives what the first of them printed.
fn runs_clean(source: &str, is_cpp: bool, standard: &str, extra: &[&str]) -> String {
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
    let printed = support::run(&mut start(&program, "sanitized"));
    assert!(printed.contains(": ok"), "{printed}");

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
    printed
}

#[test]
fn the_c_client_runs_clean() {
    runs_clean("tests/c/client.c", false, "gnu11", &[]);
}

#[test]
fn sessions_whole_run_clean() {
    runs_clean("tests/c/sessions.c", false, "gnu11", &[]);
}

#[test]
fn the_exact_reads_give_the_same_of_a_live_session_and_of_a_stored_one() {
    runs_clean("tests/c/reads.c", false, "gnu11", &[]);
}

#[test]
fn misuse_is_refused_and_runs_clean() {
    runs_clean("tests/c/misuse.c", false, "gnu11", &[]);
}

#[test]
fn signals_in_every_system_call_interrupt_nothing() {
    runs_clean("tests/c/signals.c", false, "gnu11", &[]);
}

#[test]
fn the_cpp_client_runs_clean() {
    runs_clean("tests/cpp/client.cpp", true, "c++17", &[]);
    let folder = tempfile::tempdir().unwrap();
    support::build("tests/cpp/client.cpp", true, "c++20", &[], folder.path());
}

#[test]
fn sessions_whole_run_clean_from_cpp() {
    runs_clean("tests/cpp/sessions.cpp", true, "c++17", &[]);
    let folder = tempfile::tempdir().unwrap();
    support::build("tests/cpp/sessions.cpp", true, "c++20", &[], folder.path());
}

#[test]
fn every_code_is_produced_from_c() {
    // What cannot be brought about from C: memory ends in an abort, INTERNAL is a defect, queries have no settings there, and the other
    // ones are for programs that work with the registry of live sessions itself.
    let registry = [Code::SessionNotLive, Code::SessionAlreadyEntered, Code::AlreadyAnnounced];
    let unreachable =
        [&[Code::OutOfMemory, Code::Internal, Code::QueryInvalidConfig], &registry[..]].concat();
    let printed = runs_clean("tests/c/codes.c", false, "gnu11", &[]);
    for code in Code::ALL {
        let is_produced = printed.lines().any(|line| line.strip_prefix("produced ") == Some(code.name()));
        assert_eq!(is_produced, !unreachable.contains(code), "{}", code.name());
    }
}
