//! What the tests of this folder share: the root of the workspace, committed files that are generated, C compilers, the library built.
#![allow(dead_code, missing_docs, reason = "each test file uses a part of it")]

use std::env;
use std::ffi::OsString;
use std::fs;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::Command;

/// The root of the workspace.
pub(crate) fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap().to_owned()
}

/// Fails if a committed file is not what it is generated to be; with `DSH_UPDATE=1` rewrites it instead.
pub(crate) fn expect_file(path: &str, generated: &str) {
    let full = root().join(path);
    if env::var_os("DSH_UPDATE").is_some_and(|it| it == "1") {
        fs::create_dir_all(full.parent().unwrap()).unwrap();
        // Another test may be reading it.
        let new = full.with_extension("new");
        fs::write(&new, generated).unwrap();
        fs::rename(&new, &full).unwrap();
        return;
    }
    let committed = fs::read_to_string(&full).unwrap_or_default();
    if committed != generated {
        let differing = committed.lines().zip(generated.lines()).position(|(one, other)| one != other);
        let line = differing.unwrap_or(committed.lines().count().min(generated.lines().count()));
        panic!(
            "{path} has drifted from the sources, first at line {}:\n  committed: {:?}\n  generated: {:?}\nrun the tests with DSH_UPDATE=1",
            line + 1,
            committed.lines().nth(line),
            generated.lines().nth(line)
        );
    }
}

/// The compiler of a language, from `CC` or `CXX`; these may hold arguments.
pub(crate) fn compiler(is_cpp: bool) -> Command {
    let (variable, default) = if is_cpp { ("CXX", "g++") } else { ("CC", "gcc") };
    let given = env::var(variable).unwrap_or_else(|_| default.to_owned());
    let mut words = given.split_whitespace();
    let mut command = Command::new(words.next().unwrap_or(default));
    command.args(words);
    command
}

/// Runs a command; its output, both streams together. Fails with that output if the command does.
pub(crate) fn run(command: &mut Command) -> String {
    let output = command.output().unwrap_or_else(|error| panic!("{command:?}: {error}"));
    let text =
        format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success(), "{command:?}: {}\n{text}", output.status);
    text
}

/// Whether a program can be started.
pub(crate) fn has(program: &str) -> bool {
    let found = Command::new(program).arg("--version").output().is_ok_and(|output| output.status.success());
    if !found {
        skipped(&format!("{program} is not installed"));
    }
    found
}

/// Says that something was not tested, past the capture of the test runner.
pub(crate) fn skipped(why: &str) {
    let _ = writeln!(std::io::stderr(), "SKIPPED: {why}");
}

/// The folder into which cargo built this test, and the libraries beside it.
fn built() -> PathBuf {
    env::current_exe().unwrap().parent().unwrap().to_owned()
}

/// A library that cargo built beside this test.
pub(crate) fn library(name: &str) -> PathBuf {
    let path = built().join(name);
    assert!(path.exists(), "{} was not built", path.display());
    path
}

/// The same library as `make install` takes it, where it was built.
pub(crate) fn release_library(name: &str) -> Option<PathBuf> {
    // Tests lie in <target>/<profile>/deps.
    let path = built().parent()?.parent()?.join("release").join(name);
    path.exists().then_some(path)
}

/// A folder in which programs can be linked with the shared library and find it: the library under its three names.
pub(crate) fn library_folder(folder: &Path) -> PathBuf {
    let folder = folder.join("lib");
    fs::create_dir_all(&folder).unwrap();
    for name in ["libdsh_session.so", "libdsh_session.so.1"] {
        let link = folder.join(name);
        if !link.exists() {
            std::os::unix::fs::symlink(library("libdsh_session.so"), link).unwrap();
        }
    }
    folder
}

/// Builds a program of one source file, linked with the shared library.
pub(crate) fn build(source: &str, is_cpp: bool, standard: &str, extra: &[&str], folder: &Path) -> PathBuf {
    let stem = Path::new(source).file_stem().unwrap().to_string_lossy().into_owned();
    let libraries = library_folder(folder);
    let program = folder.join(format!("{stem}-{standard}{}", extra.join("").replace(['=', ',', '/'], "")));
    let mut rpath = OsString::from("-Wl,-rpath,");
    rpath.push(&libraries);
    let mut command = compiler(is_cpp);
    command
        .arg(format!("-std={standard}"))
        .args(["-g", "-O1", "-Wall", "-Wextra", "-Wpedantic", "-Werror", "-pthread"])
        .args(extra)
        .arg("-I")
        .arg(root().join("include"))
        .arg(root().join(source))
        .arg("-o")
        .arg(&program)
        .arg("-L")
        .arg(&libraries)
        .arg("-ldsh_session")
        .arg(rpath);
    run(&mut command);
    program
}
