//! The command line of dsh-session: everything is in the library, so that other programs can offer the same entry.
#![forbid(unsafe_code)]

fn main() {
    std::process::exit(dsh_session_cli::run(std::env::args_os().collect()));
}
