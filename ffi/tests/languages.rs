//! The examples in other languages run against the library and its header alone, where their runtimes are installed.
#![allow(missing_docs)]

mod support;

use std::process::Command;

fn runs(mut command: Command) {
    let folder = tempfile::tempdir().unwrap();
    command.arg(support::library("libdsh_session.so")).arg(support::root().join("include/dsh_session.h"));
    let output = support::run(command.arg(folder.path().join("sessions")));
    assert!(output.contains("3 events: ok"), "{output}");
}

#[test]
fn the_node_example_runs() {
    if !support::has("node") {
        return;
    }
    let example = support::root().join("examples/node");
    // Resolved as the example would: from its own folder, or from NODE_PATH.
    let mut probe = Command::new("node");
    probe.current_dir(&example).args(["-e", "require('koffi')"]);
    if !probe.output().unwrap().status.success() {
        support::skipped("koffi is not installed (npm install in examples/node)");
        return;
    }
    let mut command = Command::new("node");
    command.current_dir(&example).arg(example.join("example.js"));
    runs(command);
}

#[test]
fn the_luajit_example_runs() {
    if !Command::new("luajit").arg("-v").output().is_ok_and(|output| output.status.success()) {
        support::skipped("luajit is not installed");
        return;
    }
    let mut command = Command::new("luajit");
    command.arg(support::root().join("examples/luajit/example.lua"));
    runs(command);
}
