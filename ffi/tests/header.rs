//! The header is what the sources say, and every C and C++ compiler mode takes it.
#![allow(missing_docs)]

mod support;

use dsh_session::version::{ABI_MAJOR, ABI_MINOR};
use dsh_session_core::Code;
use std::fmt::Write as _;
use std::fs;
use std::path::Path;

/// The members of the enum of codes.
fn codes() -> String {
    let mut text = String::new();
    for code in Code::ALL {
        let _ = writeln!(text, "    /* {} {} */", code.meaning(), capitalised(code.advice()));
        let _ = writeln!(text, "    DSH_E_{} = -{},", code.name(), code.number());
    }
    text
}

/// An advice as a sentence.
fn capitalised(advice: &str) -> String {
    let mut letters = advice.chars();
    letters.next().map_or_else(String::new, |first| format!("{}{}.", first.to_uppercase(), letters.as_str()))
}

fn generated() -> String {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR"));
    let part = |name: &str| fs::read_to_string(folder.join(name)).unwrap();
    let mut config = cbindgen::Config::from_file(folder.join("cbindgen.toml")).unwrap();
    let definitions = part("header_definitions.h")
        .replace("{abi_major}", &ABI_MAJOR.to_string())
        .replace("{abi_minor}", &ABI_MINOR.to_string())
        .replace("{codes}", &codes());
    config.after_includes = Some(definitions.trim_end().to_owned());
    let mut builder = cbindgen::Builder::new().with_config(config);
    // In the order in which a person reads them.
    for file in [
        "version",
        "status",
        "buffer",
        "errors",
        "cancel",
        "callback",
        "lines",
        "store",
        "events",
        "session",
        "messages",
        "surface",
        "log",
        "query",
        "reads",
        "live",
        "listeners",
        "projections",
        "folds",
        "uploads",
    ] {
        builder = builder.with_src(folder.join(format!("src/{file}.rs")));
    }
    let mut text = Vec::new();
    builder.generate().expect("the sources can be read").write(&mut text);
    // Each struct has a typedef of the same name: prototypes read better without the tag.
    let body = String::from_utf8(text).unwrap();
    let body = body.replace("typedef struct dsh_", "typedef#dsh_").replace("struct dsh_", "dsh_");
    let body = body.replace("typedef#dsh_", "typedef struct dsh_");
    let guard = "DSH_SESSION_H";
    format!(
        "{}\n#ifndef {guard}\n#define {guard}\n\n{}\n{}\n#endif /* {guard} */\n",
        part("header_prologue.h"),
        body.trim(),
        part("header_epilogue.h")
    )
}

#[test]
fn the_header_is_generated_from_the_sources() {
    support::expect_file("include/dsh_session.h", &generated());
}

#[test]
fn the_header_compiles_alone_and_twice_in_every_standard() {
    let folder = tempfile::tempdir().unwrap();
    let c = ["c99", "c11", "c17"].map(|standard| (false, standard));
    let cpp = ["c++11", "c++14", "c++17", "c++20"].map(|standard| (true, standard));
    for (is_cpp, standard) in c.into_iter().chain(cpp) {
        let source = folder.path().join(if is_cpp { "twice.cpp" } else { "twice.c" });
        let text = "#include \"dsh_session.h\"\n#include \"dsh_session.h\"\n\
            dsh_event event = DSH_EVENT_INIT;\ndsh_buffer buffer = DSH_BUFFER_INIT;\n\
            dsh_store_settings settings = DSH_STORE_SETTINGS_INIT;\n\
            dsh_append_options options = DSH_APPEND_OPTIONS_INIT;\ndsh_pending pending = DSH_PENDING_INIT;\n\
            dsh_message message = DSH_MESSAGE_INIT;\ndsh_seqs seqs = DSH_SEQS_INIT;\n\
            dsh_next_upload upload = DSH_NEXT_UPLOAD_INIT;\n\
            int main(void) { return dsh_check_abi() ? DSH_OK : DSH_E_INTERNAL; }\n";
        fs::write(&source, text).unwrap();
        let mut command = support::compiler(is_cpp);
        command
            .arg(format!("-std={standard}"))
            .args(["-Wall", "-Wextra", "-Wpedantic", "-Wconversion", "-Werror", "-c", "-o"])
            .arg(folder.path().join("twice.o"))
            .arg("-I")
            .arg(support::root().join("include"))
            .arg(&source);
        support::run(&mut command);
    }
}
