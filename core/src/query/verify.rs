//! One judgement a session: everything is read, nothing is changed (`cli.md`, `verify`).

use crate::cancel::CancelToken;
use crate::error::{Code, Error, Result};
use crate::format::header::SessionHeader;
use crate::format::names;
use crate::format::reader::LogEnd;
use crate::json::{DEPTH_MAX_DEFAULT, Json, Kind, ObjectText};
use crate::persistence::{Access, ListMode, Problem, SessionPersistence, Snapshot};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// How a session was found to be.
#[derive(Debug)]
#[non_exhaustive]
pub enum Outcome {
    /// Whole.
    Ok {
        /// Events at the beginning that a fork inherited.
        inherited_event_count: u64,
    },
    /// Whole, with bytes at its end that are no part of it; the next append cuts them.
    TornTail {
        /// As for `Ok`.
        inherited_event_count: u64,
        /// The length that the first append cuts the file to.
        keep_bytes: u64,
        /// The bytes after it.
        cut_bytes: u64,
        /// Events taken from a torn frame; they count as events of the log.
        recovered: u64,
        /// JSON objects in the bytes that would be cut, recovered ones included.
        cut_rows: u64,
        /// What was found.
        reason: String,
    },
    /// Damaged.
    Corrupt(Error),
    /// Whole, and not for this build: another version, an unknown required type, the flat layout.
    Unsupported(Error),
    /// One of several files or folders that exclude each other.
    Conflict(Error),
    /// Something in it is larger than a setting of the store allows.
    Limit(Error),
    /// The system refused a file.
    Unreadable(Error),
}

impl Outcome {
    /// The word in JSON.
    #[must_use]
    pub fn as_str(&self) -> &'static str {
        match self {
            Outcome::Ok { .. } => "ok",
            Outcome::TornTail { .. } => "torn-tail",
            Outcome::Corrupt(_) => "corrupt",
            Outcome::Unsupported(_) => "unsupported",
            Outcome::Conflict(_) => "conflict",
            Outcome::Limit(_) => "limit",
            Outcome::Unreadable(_) => "unreadable",
        }
    }

    /// What is wrong, for the outcomes that are an error.
    #[must_use]
    pub fn error(&self) -> Option<&Error> {
        match self {
            Outcome::Ok { .. } | Outcome::TornTail { .. } => None,
            Outcome::Corrupt(error)
            | Outcome::Unsupported(error)
            | Outcome::Conflict(error)
            | Outcome::Limit(error)
            | Outcome::Unreadable(error) => Some(error),
        }
    }

    fn of_error(error: Error) -> Outcome {
        match error.code() {
            Code::SessionCorrupt => Outcome::Corrupt(error),
            Code::FormatUnsupported => Outcome::Unsupported(error),
            Code::SessionConflict => Outcome::Conflict(error),
            Code::LimitExceeded => Outcome::Limit(error),
            _ => Outcome::Unreadable(error),
        }
    }

    fn of_end(header: &SessionHeader, end: LogEnd) -> Outcome {
        let inherited_event_count = end.inherited_marker.filter(|_| header.is_seeded).unwrap_or(0);
        match end.torn {
            None => Outcome::Ok { inherited_event_count },
            Some(torn) => Outcome::TornTail {
                inherited_event_count,
                keep_bytes: torn.keep_bytes,
                cut_bytes: torn.cut_bytes,
                recovered: torn.recovered.len() as u64,
                cut_rows: torn.cut_rows,
                reason: torn.reason,
            },
        }
    }
}

/// What was found about one session, or about one thing in the root that is no session.
#[derive(Debug)]
pub struct Verification {
    /// The session, where it is known.
    pub id: Option<String>,
    /// Its log, or the folder or file that is wrong; `None` in a store without files.
    pub path: Option<PathBuf>,
    /// The format version that the log's name says.
    pub generation: Option<u64>,
    /// Events that come back when the session is read; 0 where reading it fails.
    pub events: u64,
    /// The judgement.
    pub outcome: Outcome,
}

impl Verification {
    fn new(id: Option<String>, path: Option<PathBuf>, events: u64, outcome: Outcome) -> Verification {
        let name = path.as_deref().and_then(Path::file_name);
        let generation = name.and_then(names::parse_any).map(|(version, _)| version);
        Verification { id, path, generation, events, outcome }
    }

    fn of_problem(problem: Problem) -> Verification {
        Verification::new(problem.id, Some(problem.path), 0, Outcome::of_error(problem.error))
    }

    /// The line of `verify --json` (`cli.md`).
    #[must_use]
    pub fn to_json(&self) -> String {
        let mut out = ObjectText::new();
        if let Some(id) = &self.id {
            out.string("id", id);
        }
        if let Some(path) = &self.path {
            out.string("path", &path.to_string_lossy());
        }
        out.string("outcome", self.outcome.as_str());
        out.number("events", self.events);
        if let Some(generation) = self.generation {
            out.number("generation", generation);
        }
        match &self.outcome {
            Outcome::Ok { inherited_event_count } => {
                out.number("inheritedEventCount", *inherited_event_count);
            }
            Outcome::TornTail {
                inherited_event_count,
                keep_bytes,
                cut_bytes,
                recovered,
                cut_rows,
                reason,
            } => {
                out.number("inheritedEventCount", *inherited_event_count);
                out.number("keepBytes", *keep_bytes);
                out.number("cutBytes", *cut_bytes);
                out.number("recovered", *recovered);
                out.number("cutRows", *cut_rows);
                out.string("message", reason);
            }
            outcome => {
                if let Some(error) = outcome.error() {
                    error_members(&mut out, error);
                }
            }
        }
        out.finish()
    }
}

/// The members that an error adds to a line; those that are not known are left out.
fn error_members(out: &mut ObjectText, error: &Error) {
    if let Some(at) = error.at() {
        out.string("at", at.as_str());
    }
    let numbers = [
        ("line", error.line()),
        ("frame", error.frame()),
        ("offset", error.offset()),
        ("seq", error.seq()),
        ("expected", error.expected()),
        ("got", error.got()),
        ("salvageable", error.salvageable()),
    ];
    for (key, number) in numbers {
        if let Some(number) = number {
            out.number(key, number);
        }
    }
    if let Some(version) = error.version() {
        // As it is written in the file: a number of any form, or in a damaged name something else.
        match Json::parse(version, DEPTH_MAX_DEFAULT).is_ok_and(|value| value.kind() == Kind::Number) {
            true => out.json("version", version),
            false => out.string("version", version),
        }
    }
    for (key, text) in [("type", error.event_type()), ("rule", error.rule()), ("limit", error.limit())] {
        if let Some(text) = text {
            out.string(key, text);
        }
    }
    if !error.paths().is_empty() {
        let mut paths = String::from("[");
        for (index, path) in error.paths().iter().enumerate() {
            if index > 0 {
                paths.push(',');
            }
            crate::json::print_string(&mut paths, &path.to_string_lossy());
        }
        paths.push(']');
        out.json("paths", &paths);
    }
    if let Some(os) = error.os() {
        out.number("os", os);
    }
    out.string("message", error.message());
}

/// How far a verification is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Progress {
    /// Sessions (and problems) judged.
    pub sessions_done: u64,
    /// Sessions (and problems) in all.
    pub sessions: u64,
    /// Bytes of log files read.
    pub bytes_done: u64,
    /// Bytes of log files in all.
    pub bytes: u64,
}

/// Judges one session after the other; each step reads one log to its end.
///
/// An error in it is no judgement: `CANCELLED`, or that the root cannot be read. After it there is nothing more.
#[derive(Debug)]
pub struct Verifications {
    persistence: Arc<dyn SessionPersistence>,
    cancel: CancelToken,
    /// In reverse order of their paths.
    waiting: Vec<Waiting>,
    progress: Progress,
}

#[derive(Debug)]
enum Waiting {
    /// A session that the caller asked for.
    Asked(String),
    Session(Box<Snapshot>),
    Problem(Problem),
}

impl Waiting {
    fn path(&self) -> Option<&Path> {
        match self {
            Waiting::Asked(_) => None,
            Waiting::Session(snapshot) => snapshot.path.as_deref(),
            Waiting::Problem(problem) => Some(&problem.path),
        }
    }

    fn bytes(&self) -> u64 {
        match self {
            Waiting::Session(snapshot) => snapshot.size_bytes.unwrap_or(0),
            _ => 0,
        }
    }
}

impl Verifications {
    pub(crate) fn new(
        persistence: &Arc<dyn SessionPersistence>,
        id: Option<&str>,
        cancel: &CancelToken,
    ) -> Result<Verifications> {
        cancel.check()?;
        let mut waiting = match id {
            Some(id) => vec![Waiting::Asked(id.to_owned())],
            None => {
                let listing = persistence.list(ListMode::Tolerant, cancel)?;
                let sessions =
                    listing.sessions.into_iter().map(|snapshot| Waiting::Session(Box::new(snapshot)));
                sessions.chain(listing.problems.into_iter().map(Waiting::Problem)).collect()
            }
        };
        waiting.sort_by(|one, other| other.path().cmp(&one.path()));
        let bytes = waiting.iter().map(Waiting::bytes).sum();
        let progress = Progress { sessions: waiting.len() as u64, bytes, ..Progress::default() };
        Ok(Verifications { persistence: Arc::clone(persistence), cancel: cancel.clone(), waiting, progress })
    }

    /// How far it is.
    #[must_use]
    pub fn progress(&self) -> Progress {
        self.progress
    }

    /// `None` for a session that vanished since the listing.
    fn judge(&self, waiting: Waiting) -> Result<Option<Verification>> {
        match waiting {
            Waiting::Problem(problem) => Ok(Some(Verification::of_problem(problem))),
            Waiting::Asked(id) => self.judge_session(&id, None).map(Some),
            Waiting::Session(snapshot) => match self.judge_session(&snapshot.header.id, snapshot.path) {
                Err(error) if error.code() == Code::SessionNotFound => Ok(None),
                judged => judged.map(Some),
            },
        }
    }

    fn judge_session(&self, id: &str, path: Option<PathBuf>) -> Result<Verification> {
        let checked = self
            .persistence
            .open(id, Access::Read, &self.cancel)
            .and_then(|log| Ok((log.check(&self.cancel)?, log.header().clone())));
        let id = Some(id.to_owned());
        match checked {
            Ok((end, header)) => {
                let path = match path {
                    Some(path) => Some(path),
                    None => self.persistence.stat(&header.id, &self.cancel)?.and_then(|one| one.path),
                };
                let events = end.event_count;
                Ok(Verification::new(id, path, events, Outcome::of_end(&header, end)))
            }
            Err(error) if is_no_judgement(&error) => Err(error),
            Err(error) => {
                let path = error.path().map(Path::to_owned).or(path);
                Ok(Verification::new(id, path, 0, Outcome::of_error(error)))
            }
        }
    }
}

/// Whether an error is about the call and not about the session.
fn is_no_judgement(error: &Error) -> bool {
    matches!(
        error.code(),
        Code::SessionNotFound
            | Code::InvalidArgument
            | Code::Cancelled
            | Code::ForkedProcess
            | Code::Internal
            | Code::Panic
    )
}

impl Iterator for Verifications {
    type Item = Result<Verification>;

    fn next(&mut self) -> Option<Result<Verification>> {
        loop {
            let waiting = self.waiting.pop()?;
            let bytes = waiting.bytes();
            match self.judge(waiting) {
                Ok(judged) => {
                    self.progress.sessions_done += 1;
                    self.progress.bytes_done += bytes;
                    if let Some(judged) = judged {
                        return Some(Ok(judged));
                    }
                }
                Err(error) => {
                    self.waiting.clear();
                    return Some(Err(error));
                }
            }
        }
    }
}
