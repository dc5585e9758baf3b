//! What `make install` lays down can be used from outside of the tree, shared and static, through pkg-config and through CMake, also after
//! the folder was moved.
#![allow(missing_docs)]

mod support;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Installs what cargo built for the tests, then moves the folder: nothing in it may know where it was.
fn installed(folder: &Path) -> PathBuf {
    let built = support::library("libdsh_session.so").parent().unwrap().to_owned();
    let (first, prefix) = (folder.join("first"), folder.join("prefix"));
    let mut command = Command::new("make");
    command.arg("-f").arg(support::root().join("mk/install.mk")).arg("install");
    command.arg(format!("PREFIX={}", first.display())).arg(format!("DSH_BUILT={}", built.display()));
    // Jobs and flags of a make that runs this test are not for this one.
    command.env_remove("MAKEFLAGS").env_remove("MFLAGS").env_remove("MAKELEVEL").env_remove("DESTDIR");
    support::run(command.current_dir(folder));
    fs::rename(&first, &prefix).unwrap();
    prefix
}

fn sources() -> PathBuf {
    support::root().join("tests/install")
}

/// Runs a program that was built, with the shared library where it lies.
fn works(program: &Path, prefix: &Path, folder: &Path) {
    let data = folder.join("data").join(program.file_name().unwrap());
    fs::create_dir_all(&data).unwrap();
    let output = support::run(Command::new(program).arg(&data).env("LD_LIBRARY_PATH", prefix.join("lib")));
    assert_eq!(output, "turn/start: ok\n", "{}", program.display());
}

#[test]
fn programs_are_built_through_pkg_config() {
    if !support::has("pkg-config") {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let prefix = installed(folder.path());
    for (is_cpp, is_static) in [(false, false), (false, true), (true, false), (true, true)] {
        let mut config = Command::new("pkg-config");
        config.env("PKG_CONFIG_PATH", prefix.join("lib/pkgconfig")).args([
            "--cflags",
            "--libs",
            "dsh-session",
        ]);
        if is_static {
            config.arg("--static");
        }
        let flags = support::run(&mut config);
        let (source, standard) = if is_cpp { ("main.cpp", "-std=c++17") } else { ("main.c", "-std=c99") };
        let program = folder.path().join(format!("{source}-{is_static}"));
        let mut command = support::compiler(is_cpp);
        command.arg(standard).arg("-o").arg(&program).arg(sources().join(source));
        if is_static {
            command.arg("-static");
        }
        support::run(command.args(flags.split_whitespace()));
        works(&program, &prefix, folder.path());
    }
}

#[test]
fn programs_are_built_through_cmake() {
    if !support::has("cmake") {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let prefix = installed(folder.path());
    let build = folder.path().join("build");
    let mut configure = Command::new("cmake");
    configure.arg("-S").arg(sources()).arg("-B").arg(&build);
    support::run(configure.arg(format!("-DCMAKE_PREFIX_PATH={}", prefix.display())));
    support::run(Command::new("cmake").arg("--build").arg(&build));
    for program in ["c_session", "cpp_session", "c_session_static", "cpp_session_static"] {
        works(&build.join(program), &prefix, folder.path());
    }
}

#[test]
fn the_installed_files_are_those_that_programs_look_for() {
    let folder = tempfile::tempdir().unwrap();
    let prefix = installed(folder.path());
    for file in [
        "lib/libdsh_session.so",
        "lib/libdsh_session.so.1",
        "lib/libdsh_session.a",
        "lib/pkgconfig/dsh-session.pc",
        "lib/cmake/dsh-session/dsh-session-config.cmake",
        "lib/cmake/dsh-session/dsh-session-config-version.cmake",
        "include/dsh_session.h",
        "include/dsh_session.hpp",
    ] {
        assert!(prefix.join(file).exists(), "{file}");
        let is_text = !file.contains("/libdsh");
        assert!(
            !is_text || !fs::read_to_string(prefix.join(file)).unwrap().contains('@'),
            "{file} has an unfilled place"
        );
    }
}
