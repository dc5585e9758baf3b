//! `dsh-session`: the command line over session logs, as one function that any program may offer as its entry.
//!
//! People use it on the sessions they already have; scripts use it with `--json`, whose output is a contract. One file a group of
//! commands:
//!
//! | File | Holds |
//! | --- | --- |
//! | `arguments` | what is accepted on the command line |
//! | `context` | the store, the cancel token and the outputs that every command works with |
//! | `output` | standard output: buffered, ends quietly when nobody reads it |
//! | `failure` | errors for people and for programs, and the exit codes |
//! | `progress` | a bar on a terminal, nothing elsewhere |
//! | `sessions` | `list`, `stat`, `create`, `delete` |
//! | `events` | `events`, `rows` |
//! | `conversation` | `surface`, `messages`, `closers` |
//! | `reads` | `trace`, `lineage`, `title`, `filter` |
//! | `append` | `append` |
//! | `lives` | `resume`, `fork` |
//! | `health` | `verify`, `salvage`, `stats` |
#![forbid(unsafe_code)]

mod append;
mod arguments;
mod context;
mod conversation;
mod events;
mod failure;
mod health;
mod lives;
mod output;
mod progress;
mod reads;
mod sessions;

pub use failure::exit_code;

use arguments::{Arguments, Command};
use clap::Parser;
use context::Context;
use dsh_session_core::error::{Code, Error};
use failure::{EXIT_DONE, EXIT_USAGE, Failure};
use std::ffi::OsString;

/// Runs the command line; `arguments` begin with the program's name. Gives the exit code.
///
/// Prints to the process's standard output and error, reads its standard input, and turns the first Ctrl-C into a cancellation of the
/// running command (the second one ends the process).
#[must_use]
pub fn run(arguments: Vec<OsString>) -> i32 {
    let asks_for_json = arguments.iter().any(|argument| argument == "--json");
    let arguments = match Arguments::try_parse_from(arguments) {
        Ok(arguments) => arguments,
        Err(refusal) if refusal.use_stderr() => return refuse_usage(&refusal, asks_for_json),
        Err(help) => {
            // Help or the version; if nobody reads it, there is nothing to say.
            let _ = help.print();
            return EXIT_DONE;
        }
    };
    let is_json = arguments.is_json;
    match Context::new(&arguments).and_then(|mut context| {
        let outcome = dispatch(&mut context, arguments.command);
        // What was printed before a failure is shown before it.
        outcome.and_then(|code| context.out.flush().map(|()| code))
    }) {
        Ok(code) => code,
        Err(Failure::NobodyReads) => EXIT_DONE,
        Err(failure) => failure.report(is_json),
    }
}

/// Wrong usage as one line, like any other error: what clap says up to its usage text.
fn refuse_usage(refusal: &clap::Error, is_json: bool) -> i32 {
    let text = refusal.to_string();
    let said = text
        .lines()
        .map(str::trim)
        .take_while(|line| !line.starts_with("Usage:") && !line.starts_with("For more information"));
    let said: Vec<_> = said.filter(|line| !line.is_empty()).collect();
    let said = said.join(" ");
    let message = said.strip_prefix("error: ").unwrap_or(&said);
    let error = Error::new(Code::InvalidArgument, message)
        .with_advice("`dsh-session --help` and `dsh-session COMMAND --help` show what there is");
    failure::print(&error, None, is_json);
    EXIT_USAGE
}

fn dispatch(context: &mut Context, command: Command) -> Result<i32, Failure> {
    match command {
        Command::List => sessions::list(context),
        Command::Stat(it) => sessions::stat(context, &it.id),
        Command::Create(it) => sessions::create(context, it),
        Command::Events(it) => events::events(context, &it),
        Command::Surface(it) => conversation::surface(context, &it.id, it.is_balanced),
        Command::Messages(it) => conversation::messages(context, &it.id, it.is_balanced),
        Command::Closers(it) => conversation::closers(context, &it.id),
        Command::Resume(it) => lives::resume(context, &it.id),
        Command::Fork(it) => lives::fork(context, it),
        Command::Trace(it) => reads::trace(context, &it.id, it.seq),
        Command::Lineage(it) => reads::lineage(context, &it.id),
        Command::Title(it) => reads::title(context, &it.id),
        Command::Filter(it) => reads::filter(context, &it),
        Command::Rows(it) => events::rows(context, &it.id),
        Command::Append(it) => append::append(context, &it),
        Command::Delete(it) => sessions::delete(context, &it),
        Command::Verify(it) => health::verify(context, it.id.as_deref()),
        Command::Salvage(it) => health::salvage(context, &it),
        Command::Stats(it) => health::stats(context, it.id.as_deref()),
    }
}
