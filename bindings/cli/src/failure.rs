//! Errors for people and for programs, and the exit codes (`cli.md`).

use dsh_session_core::error::{Code, Error};
use dsh_session_core::json::ObjectText;
use std::io::{self, Write};

/// Done; a torn tail is no error.
pub(crate) const EXIT_DONE: i32 = 0;
/// Anything that has no code of its own.
pub(crate) const EXIT_OTHER: i32 = 1;
/// Wrong usage, invalid input, a refused event.
pub(crate) const EXIT_USAGE: i32 = 2;
/// No such session or event.
pub(crate) const EXIT_NOT_FOUND: i32 = 3;
/// Owned by another writer, or ownership lost.
pub(crate) const EXIT_OWNED: i32 = 4;
/// Corrupt, or a conflict.
pub(crate) const EXIT_CORRUPT: i32 = 5;
/// Another format, or an unknown required event type.
pub(crate) const EXIT_UNSUPPORTED: i32 = 6;
/// The operating system refused something.
pub(crate) const EXIT_SYSTEM: i32 = 7;
/// Cancelled.
pub(crate) const EXIT_CANCELLED: i32 = 8;

/// The exit code of an error; one that sums up or wraps others has the code of its first cause.
#[must_use]
pub fn exit_code(error: &Error) -> i32 {
    match error.code() {
        Code::InvalidArgument
        | Code::NotLosslessJson
        | Code::EventRefused
        | Code::SessionRefused
        | Code::SessionReadOnly
        | Code::SessionAlreadyExists => EXIT_USAGE,
        Code::QueryInvalidFilter | Code::QueryInvalidWindow | Code::QueryInvalidConfig => EXIT_USAGE,
        Code::SessionNotFound
        | Code::ForkUnavailable
        | Code::InvalidBoundary
        | Code::QuerySessionNotFound
        | Code::QueryEventNotFound => EXIT_NOT_FOUND,
        Code::SessionAlreadyOwned | Code::SessionOwnershipLost => EXIT_OWNED,
        Code::SessionCorrupt
        | Code::SessionConflict
        | Code::QueryCorruptSession
        | Code::QueryInvalidSurface
        | Code::QueryInvalidLineage
        | Code::QuerySourceConflict => EXIT_CORRUPT,
        Code::FormatUnsupported => EXIT_UNSUPPORTED,
        Code::Io => EXIT_SYSTEM,
        Code::Cancelled | Code::QueryAborted => EXIT_CANCELLED,
        Code::Several | Code::FlushFailed | Code::QueryPersistenceFailed => {
            error.causes().first().map_or(EXIT_OTHER, exit_code)
        }
        // `LIMIT_EXCEEDED`, `HANDLE_CLOSED`, `SOURCE_CHANGED`, and whatever is the library's own fault.
        _ => EXIT_OTHER,
    }
}

/// Why a command ends early.
#[derive(Debug)]
pub(crate) enum Failure {
    /// The reader of standard output is gone: a quiet end, as of `| head`.
    NobodyReads,
    /// Standard output or standard input does not work.
    Stream(&'static str, io::Error),
    /// The library refused.
    Library(Box<Error>),
    /// The library refused a line of standard input, counted from 1.
    Input(u64, Box<Error>),
}

impl From<Error> for Failure {
    fn from(error: Error) -> Failure {
        Failure::Library(Box::new(error))
    }
}

impl Failure {
    /// Prints the failure to standard error and gives the exit code.
    pub(crate) fn report(self, is_json: bool) -> i32 {
        let (error, input) = match self {
            Failure::NobodyReads => return EXIT_DONE,
            Failure::Stream(doing, error) => (Error::io(doing, &error), None),
            Failure::Library(error) => (*error, None),
            Failure::Input(line, error) => (*error, Some(line)),
        };
        print(&error, input, is_json);
        exit_code(&error)
    }
}

/// Prints an error to standard error: one line, or one JSON object.
pub(crate) fn print(error: &Error, input: Option<u64>, is_json: bool) {
    let text = if is_json { to_json(error, input) } else { to_line(error, input) };
    // Nobody can be told that telling failed.
    let _ = writeln!(io::stderr(), "{text}");
}

/// One line for a person, whatever the message holds.
fn to_line(error: &Error, input: Option<u64>) -> String {
    let place = input.map_or(String::new(), |line| format!("input line {line}: "));
    let owner = error.owner().map_or(String::new(), |owner| format!(" [owner: {owner}]"));
    let text = format!("dsh-session: {place}{error}{owner}");
    text.chars().map(|character| if character.is_control() { ' ' } else { character }).collect()
}

/// `{"error":{…}}` with what is known.
fn to_json(error: &Error, input: Option<u64>) -> String {
    let mut out = ObjectText::new();
    out.json("error", &error_object(error, input));
    out.finish()
}

fn error_object(error: &Error, input: Option<u64>) -> String {
    let mut out = ObjectText::new();
    error.write_facts(&mut out);
    if let Some(input) = input {
        out.number("input", input);
    }
    out.finish()
}

#[cfg(test)]
mod tests {
    use super::{exit_code, to_line};
    use dsh_session_core::error::{Code, Error};

    /// The table of `cli.md`, code by code; a new code without a line here fails.
    const TABLE: [(Code, i32); 36] = [
        (Code::InvalidArgument, 2),
        (Code::NotLosslessJson, 2),
        (Code::Cancelled, 8),
        (Code::LimitExceeded, 1),
        (Code::ForkedProcess, 1),
        (Code::OutOfMemory, 1),
        (Code::Internal, 1),
        (Code::Panic, 1),
        (Code::SessionNotFound, 3),
        (Code::SessionAlreadyExists, 2),
        (Code::SessionAlreadyOwned, 4),
        (Code::SessionOwnershipLost, 4),
        (Code::SessionReadOnly, 2),
        (Code::HandleClosed, 1),
        (Code::SessionCorrupt, 5),
        (Code::FormatUnsupported, 6),
        (Code::SessionConflict, 5),
        (Code::SourceChanged, 1),
        (Code::Io, 7),
        (Code::ForkUnavailable, 3),
        (Code::InvalidBoundary, 3),
        (Code::SessionNotLive, 1),
        (Code::SessionAlreadyEntered, 1),
        (Code::AlreadyAnnounced, 1),
        (Code::FlushFailed, 1),
        (Code::QueryAborted, 8),
        (Code::QueryCorruptSession, 5),
        (Code::QueryEventNotFound, 3),
        (Code::QueryInvalidConfig, 2),
        (Code::QueryInvalidFilter, 2),
        (Code::QueryInvalidLineage, 5),
        (Code::QueryInvalidSurface, 5),
        (Code::QueryInvalidWindow, 2),
        // Without a cause; else the code of that one.
        (Code::QueryPersistenceFailed, 1),
        (Code::QuerySessionNotFound, 3),
        (Code::QuerySourceConflict, 5),
    ];

    #[test]
    fn every_code_of_the_library_has_its_exit_code() {
        let refusals = [(Code::EventRefused, 2), (Code::SessionRefused, 2)];
        let table: Vec<_> = TABLE.into_iter().chain(refusals).collect();
        for &(code, expected) in &table {
            assert_eq!(exit_code(&Error::new(code, "x")), expected, "{code:?}");
        }
        for code in Code::ALL.iter().filter(|code| **code != Code::Several) {
            assert!(table.iter().any(|(known, _)| known == code), "{code:?} has no line in the table");
        }
    }

    #[test]
    fn several_failures_exit_with_the_code_of_the_first() {
        let causes = vec![Error::new(Code::Io, "a"), Error::new(Code::SessionCorrupt, "b")];
        assert_eq!(exit_code(&Error::several(causes)), 7);
        let wrapped = Error::new(Code::FlushFailed, "x").with_cause(Error::new(Code::Io, "a"));
        assert_eq!(exit_code(&wrapped), 7);
    }

    #[test]
    fn an_error_is_one_line_whatever_its_message_holds() {
        let line = to_line(&Error::new(Code::InvalidArgument, "a\nb\tc"), Some(3));
        assert_eq!(line.lines().count(), 1);
        assert!(line.starts_with("dsh-session: input line 3: a b c"), "{line}");
    }
}
