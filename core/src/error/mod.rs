//! One error type for the whole library: a code from a closed list, what happened, where, and what to do next.
//!
//! Every failure carries a [`Code`] (the same word and number in Rust, C, Python and on the command line,
//! `design.md` 6) and as much of its place as is known: path, line, frame, byte offset, seq, session. The
//! text a person reads is made from these facts, so a message never has to repeat them.

mod code;

pub use code::{Code, Group};

use std::any::Any;
use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// The result of every fallible call of the library.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// Which part of a log a finding is about; the `at` of `verify` (`cli.md`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum At {
    /// The header line, or a file that is too short to hold one.
    Header,
    /// The first frame of a compressed log, which must hold exactly the header line.
    FirstFrame,
    /// A row, or the frame that holds it.
    Row,
    /// The marker that ends an inherited prefix (`format.md` 2.6).
    SeedMarker,
    /// A rule that binds several rows (`format.md` 5.5).
    Relationship,
    /// Header and place of the file disagree (`format.md` 1.7).
    Identity,
}

impl At {
    /// The word used in `verify --json`.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            At::Header => "header",
            At::FirstFrame => "first-frame",
            At::Row => "row",
            At::SeedMarker => "seed-marker",
            At::Relationship => "relationship",
            At::Identity => "identity",
        }
    }
}

/// What went wrong, where, and what to do.
///
/// Boxed inside, so a `Result` stays two words wide. Built with [`Error::new`] and the `with_…` methods:
///
/// ```
/// use dsh_session_core::error::{Code, Error};
/// let error = Error::new(Code::SessionCorrupt, "the row is not JSON").with_line(7).with_path("session.v4.jsonl");
/// assert_eq!(error.code().name(), "SESSION_CORRUPT");
/// assert!(error.to_string().starts_with("the row is not JSON (session.v4.jsonl, line 7)"));
/// ```
pub struct Error {
    facts: Box<Facts>,
}

/// The facts of an error. Absent ones are unknown, never zero.
#[derive(Default)]
struct Facts {
    code: Option<Code>,
    message: String,
    path: Option<PathBuf>,
    other_paths: Vec<PathBuf>,
    session_id: Option<String>,
    at: Option<At>,
    line: Option<u64>,
    frame: Option<u64>,
    offset: Option<u64>,
    seq: Option<u64>,
    expected: Option<u64>,
    got: Option<u64>,
    version: Option<String>,
    event_type: Option<String>,
    rule: Option<&'static str>,
    limit: Option<&'static str>,
    owner: Option<String>,
    index: Option<u64>,
    json_path: Option<String>,
    salvageable: Option<u64>,
    os: Option<i32>,
    advice: Option<String>,
    causes: Vec<Error>,
    host: Option<Arc<dyn Any + Send + Sync>>,
}

macro_rules! fact {
    ($(#[$doc:meta])* $get:ident, $with:ident, $ty:ty) => {
        $(#[$doc])*
        #[must_use]
        pub fn $get(&self) -> Option<$ty> {
            self.facts.$get
        }

        #[doc = concat!("Adds [`", stringify!($get), "`](Self::", stringify!($get), ").")]
        #[must_use]
        pub fn $with(mut self, value: $ty) -> Self {
            self.facts.$get = Some(value);
            self
        }
    };
}

macro_rules! text_fact {
    ($(#[$doc:meta])* $get:ident, $with:ident) => {
        $(#[$doc])*
        #[must_use]
        pub fn $get(&self) -> Option<&str> {
            self.facts.$get.as_deref()
        }

        #[doc = concat!("Adds [`", stringify!($get), "`](Self::", stringify!($get), ").")]
        #[must_use]
        pub fn $with(mut self, value: impl Into<String>) -> Self {
            self.facts.$get = Some(value.into());
            self
        }
    };
}

impl Error {
    /// An error with a code and one sentence (no capital, no full stop) that says what happened.
    #[must_use]
    pub fn new(code: Code, message: impl Into<String>) -> Self {
        let facts = Facts { code: Some(code), message: message.into(), ..Facts::default() };
        Error { facts: Box::new(facts) }
    }

    /// A refusal by the operating system: `doing` says what was tried (`"open the log"`).
    #[must_use]
    pub fn io(doing: &str, error: &std::io::Error) -> Self {
        let mut new = Error::new(Code::Io, format!("could not {doing}: {error}"));
        new.facts.os = error.raw_os_error();
        new
    }

    /// Several failures of one call as one error; a single one stays itself.
    ///
    /// The list must not be empty; an empty one gives `INTERNAL`.
    #[must_use]
    pub fn several(mut errors: Vec<Error>) -> Self {
        match errors.len() {
            0 => Error::new(Code::Internal, "an empty list of errors was reported"),
            1 => errors.remove(0),
            count => {
                let first = errors[0].to_string();
                let mut new = Error::new(Code::Several, format!("{count} failures, the first: {first}"));
                new.facts.causes = errors;
                new
            }
        }
    }

    /// The code, from the closed list of `design.md` 6.
    #[must_use]
    pub fn code(&self) -> Code {
        self.facts.code.unwrap_or(Code::Internal)
    }

    /// What happened, without place and advice.
    #[must_use]
    pub fn message(&self) -> &str {
        &self.facts.message
    }

    /// What to do next, in one sentence.
    #[must_use]
    pub fn advice(&self) -> &str {
        self.facts.advice.as_deref().unwrap_or_else(|| self.code().advice())
    }

    /// Replaces the general advice of the code by one for this case.
    #[must_use]
    pub fn with_advice(mut self, advice: impl Into<String>) -> Self {
        self.facts.advice = Some(advice.into());
        self
    }

    /// The file or folder concerned, absolute.
    #[must_use]
    pub fn path(&self) -> Option<&Path> {
        self.facts.path.as_deref()
    }

    /// Adds [`path`](Self::path); the first path given stays.
    #[must_use]
    pub fn with_path(mut self, path: impl Into<PathBuf>) -> Self {
        self.facts.path.get_or_insert_with(|| path.into());
        self
    }

    /// All files or folders that exclude each other, for `SESSION_CONFLICT`; empty otherwise.
    #[must_use]
    pub fn paths(&self) -> &[PathBuf] {
        &self.facts.other_paths
    }

    /// Adds [`paths`](Self::paths).
    #[must_use]
    pub fn with_paths(mut self, paths: Vec<PathBuf>) -> Self {
        self.facts.other_paths = paths;
        self
    }

    text_fact!(
        /// The session concerned.
        session_id, with_session_id);
    text_fact!(
        /// The event type concerned.
        event_type, with_event_type);
    text_fact!(
        /// The format version found, as it is written in the file or in its name.
        version, with_version);
    text_fact!(
        /// Who owns the session: process id and program name, where known.
        owner, with_owner);
    text_fact!(
        /// Where in a JSON value the offending part stands (`$.data.items[3]`).
        json_path, with_json_path);
    fact!(
        /// The part of the log the finding is about.
        at, with_at, At);
    fact!(
        /// The line in the decompressed text, from 1 (the header).
        line, with_line, u64);
    fact!(
        /// The frame of a compressed log, from 0 (the header's).
        frame, with_frame, u64);
    fact!(
        /// The byte offset in the file, from 0.
        offset, with_offset, u64);
    fact!(
        /// The position of the event in its log, from 0.
        seq, with_seq, u64);
    fact!(
        /// The number that should have stood where [`got`](Self::got) stands.
        expected, with_expected, u64);
    fact!(
        /// The number found.
        got, with_got, u64);
    fact!(
        /// The number of a rule: R1 to R11, A1 to A25, or a code of `session.md` 20.
        rule, with_rule, &'static str);
    fact!(
        /// The name of the limit that was passed.
        limit, with_limit, &'static str);
    fact!(
        /// Which member of a batch was refused, from 0.
        index, with_index, u64);
    fact!(
        /// How many events before the damage can be read.
        salvageable, with_salvageable, u64);
    fact!(
        /// The operating system's error number.
        os, with_os, i32);

    /// The errors that this one sums up (`SEVERAL`) or was caused by.
    #[must_use]
    pub fn causes(&self) -> &[Error] {
        &self.facts.causes
    }

    /// Adds a cause.
    #[must_use]
    pub fn with_cause(mut self, cause: Error) -> Self {
        self.facts.causes.push(cause);
        self
    }

    /// What the host's own callback failed with, given back as it came: an exception of another language.
    #[must_use]
    pub fn host(&self) -> Option<&Arc<dyn Any + Send + Sync>> {
        self.facts.host.as_ref()
    }

    /// Adds [`host`](Self::host).
    #[must_use]
    pub fn with_host(mut self, failure: Arc<dyn Any + Send + Sync>) -> Self {
        self.facts.host = Some(failure);
        self
    }

    /// A copy with the same facts, for an outcome that several callers receive.
    #[must_use]
    pub fn duplicate(&self) -> Self {
        let f = &*self.facts;
        let facts = Facts {
            message: f.message.clone(),
            path: f.path.clone(),
            other_paths: f.other_paths.clone(),
            session_id: f.session_id.clone(),
            version: f.version.clone(),
            event_type: f.event_type.clone(),
            owner: f.owner.clone(),
            json_path: f.json_path.clone(),
            advice: f.advice.clone(),
            causes: f.causes.iter().map(Error::duplicate).collect(),
            host: f.host.clone(),
            ..*f
        };
        Error { facts: Box::new(facts) }
    }

    fn place(&self) -> String {
        let mut parts = Vec::new();
        if let Some(path) = &self.facts.path {
            parts.push(path.display().to_string());
        } else if let Some(id) = &self.facts.session_id {
            parts.push(format!("session {id}"));
        }
        let numbers = [
            ("line", self.facts.line),
            ("frame", self.facts.frame),
            ("byte", self.facts.offset),
            ("seq", self.facts.seq),
        ];
        parts.extend(numbers.iter().filter_map(|(word, number)| number.map(|n| format!("{word} {n}"))));
        parts.join(", ")
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.facts.message)?;
        let place = self.place();
        if !place.is_empty() {
            write!(f, " ({place})")?;
        }
        let advice = self.advice();
        if advice.is_empty() { Ok(()) } else { write!(f, "; {advice}") }
    }
}

impl fmt::Debug for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {self}", self.code().name())
    }
}

impl std::error::Error for Error {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        self.facts.causes.first().map(|cause| cause as _)
    }
}
