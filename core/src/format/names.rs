//! The names of directories and files in a root (`format.md` 1): from a working directory and a session id to
//! directory names, and from a directory's entries to the one generation that counts.
//!
//! Everything here is text in, text out; no file is touched. Derivations walk UTF-16 code units, because other
//! writers of the format do, so each has a variant over units for text that is not well formed.

use std::error;
use std::ffi::OsStr;
use std::fmt;

/// The format version that this library writes; logs of it need no migration.
pub const CURRENT_VERSION: u64 = 4;

/// The longest name of a file or folder that common file systems take, in bytes.
pub const FILE_NAME_BYTES_MAX: usize = 255;

/// The directory of the sessions whose header has no working directory (`format.md` 1.2).
pub const NO_CWD_DIRECTORY: &str = "_no-cwd";

/// The lock file in a session directory (`format.md` 6.3).
pub const LOCK_FILE_NAME: &str = "session.lock";

/// The file in a session directory that says, for information only, who holds the lock (`design.md` 5).
pub const OWNER_FILE_NAME: &str = "session.owner";

/// How many characters of a working directory's text its directory name keeps (`format.md` 1.2): with the two
/// dashes on each side, 255 bytes, the longest name that common file systems hold.
pub const PROJECT_KEY_CHARACTERS_MAX: usize = 251;

/// The highest number a generation name can carry: the largest integer below which a double holds each one.
pub const GENERATION_VERSION_MAX: u64 = (1 << 53) - 1;

/// Why a text cannot name a directory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NameFault {
    /// The working directory is the empty text. (An absent one has a name: [`NO_CWD_DIRECTORY`].)
    EmptyCwd,
    /// The session id is the empty text.
    EmptySessionId,
}

impl fmt::Display for NameFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            NameFault::EmptyCwd => "an empty working directory names no directory",
            NameFault::EmptySessionId => "an empty session id names no directory",
        })
    }
}

impl error::Error for NameFault {}

/// The name of the directory that holds the sessions of one working directory (`format.md` 1.2).
///
/// The mapping is lossy: different working directories may share a directory.
///
/// ```
/// use dsh_session_core::format::names::project_directory;
/// assert_eq!(project_directory(Some("/home/ada/src/engine")).unwrap(), "--home-ada-src-engine--");
/// assert_eq!(project_directory(None).unwrap(), "_no-cwd");
/// ```
///
/// # Errors
/// [`NameFault::EmptyCwd`].
pub fn project_directory(cwd: Option<&str>) -> Result<String, NameFault> {
    match cwd {
        None => Ok(NO_CWD_DIRECTORY.to_owned()),
        Some(cwd) => project_key(cwd.encode_utf16()),
    }
}

/// [`project_directory`] of a working directory given as UTF-16 code units, well formed or not.
///
/// # Errors
/// [`NameFault::EmptyCwd`].
pub fn project_directory_from_units(cwd: &[u16]) -> Result<String, NameFault> {
    project_key(cwd.iter().copied())
}

fn project_key(units: impl Iterator<Item = u16>) -> Result<String, NameFault> {
    let mut units = units.peekable();
    if units.peek().is_none() {
        return Err(NameFault::EmptyCwd);
    }
    let mut key = String::new();
    let mut in_separators = false;
    for unit in units {
        let is_separator = [b'/', b'\\', b':'].map(u16::from).contains(&unit);
        if !is_separator {
            push_unit(&mut key, unit);
        } else if !in_separators {
            key.push('-');
        }
        in_separators = is_separator;
        // Leading dashes, literal ones too, never count, so they are dropped while they are all there is.
        if key == "-" {
            key.clear();
        }
        if key.len() >= PROJECT_KEY_CHARACTERS_MAX {
            break;
        }
    }
    if key.is_empty() {
        key.push_str("root");
    }
    key.truncate(PROJECT_KEY_CHARACTERS_MAX);
    Ok(format!("--{key}--"))
}

/// The name of the directory of one session (`format.md` 1.3); different ids never share one.
///
/// ```
/// use dsh_session_core::format::names::session_directory;
/// assert_eq!(session_directory("session-1").unwrap(), "session-1");
/// assert_eq!(session_directory("a/b").unwrap(), "a~002Fb");
/// assert_eq!(session_directory("..").unwrap(), "~002E~002E");
/// ```
///
/// # Errors
/// [`NameFault::EmptySessionId`].
pub fn session_directory(id: &str) -> Result<String, NameFault> {
    session_segment(id.encode_utf16())
}

/// Whether the folders of two different ids are one on a file system that ignores case (`format.md` 1.3). Other ways in which file systems
/// equate names (normalization) do not matter: what is not ASCII is escaped.
#[must_use]
pub(crate) fn are_case_twins(id: &str, other: &str) -> bool {
    let (Ok(one), Ok(two)) = (session_directory(id), session_directory(other)) else { return false };
    id != other && one.eq_ignore_ascii_case(&two)
}

/// [`session_directory`] of an id given as UTF-16 code units, well formed or not.
///
/// # Errors
/// [`NameFault::EmptySessionId`].
pub fn session_directory_from_units(id: &[u16]) -> Result<String, NameFault> {
    session_segment(id.iter().copied())
}

fn session_segment(units: impl Iterator<Item = u16>) -> Result<String, NameFault> {
    let mut segment = String::new();
    for unit in units {
        push_unit(&mut segment, unit);
    }
    match segment.as_str() {
        "" => Err(NameFault::EmptySessionId),
        // The two names that every directory already has.
        "." => Ok("~002E".to_owned()),
        ".." => Ok("~002E~002E".to_owned()),
        _ => Ok(segment),
    }
}

/// A unit that is safe in any file name as itself, every other one as `~` and four hex digits.
fn push_unit(text: &mut String, unit: u16) {
    match u8::try_from(unit) {
        Ok(byte) if byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'_' | b'-') => {
            text.push(char::from(byte))
        }
        _ => text.push_str(&format!("~{unit:04X}")),
    }
}

/// How the files of a root are stored (`format.md` 4).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Encoding {
    /// Lines of text.
    None,
    /// Zstandard frames of lines of text.
    Zstd,
}

impl Encoding {
    /// Both, in the order in which settings name them.
    pub const ALL: [Encoding; 2] = [Encoding::None, Encoding::Zstd];

    /// The word used in settings: `none` or `zstd`.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Encoding::None => "none",
            Encoding::Zstd => "zstd",
        }
    }

    /// The encoding of a word used in settings.
    #[must_use]
    pub fn from_name(name: &str) -> Option<Encoding> {
        Encoding::ALL.into_iter().find(|encoding| encoding.as_str() == name)
    }

    /// The one that is not this.
    #[must_use]
    pub fn other(self) -> Encoding {
        match self {
            Encoding::None => Encoding::Zstd,
            Encoding::Zstd => Encoding::None,
        }
    }

    /// How the names of log files end.
    #[must_use]
    pub fn extension(self) -> &'static str {
        match self {
            Encoding::None => ".jsonl",
            Encoding::Zstd => ".jsonl.zstd",
        }
    }
}

impl fmt::Display for Encoding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// The file name of a generation (`format.md` 1.4).
///
/// ```
/// use dsh_session_core::format::names::{Encoding, generation_file_name};
/// assert_eq!(generation_file_name(4, Encoding::Zstd), "session.v4.jsonl.zstd");
/// assert_eq!(generation_file_name(0, Encoding::None), "session.jsonl");
/// ```
#[must_use]
pub fn generation_file_name(version: u64, encoding: Encoding) -> String {
    let extension = encoding.extension();
    if version == 0 { format!("session{extension}") } else { format!("session.v{version}{extension}") }
}

/// The version of a canonical generation name of this encoding (`format.md` 1.4); `None` for every other name.
///
/// Names are compared byte for byte, so one that is not Unicode text is never a generation.
#[must_use]
pub fn parse_generation(name: impl AsRef<OsStr>, encoding: Encoding) -> Option<u64> {
    let name = name.as_ref().as_encoded_bytes();
    let middle = name.strip_prefix(b"session")?.strip_suffix(encoding.extension().as_bytes())?;
    if middle.is_empty() {
        return Some(0);
    }
    let digits = middle.strip_prefix(b".v")?;
    if digits.first().is_none_or(|first| *first == b'0') || !digits.iter().all(u8::is_ascii_digit) {
        return None;
    }
    let version = std::str::from_utf8(digits).ok()?.parse().ok()?;
    (version <= GENERATION_VERSION_MAX).then_some(version)
}

/// The version and encoding of a canonical generation name of either encoding.
#[must_use]
pub fn parse_any(name: impl AsRef<OsStr>) -> Option<(u64, Encoding)> {
    let name = name.as_ref();
    Encoding::ALL.into_iter().find_map(|encoding| Some((parse_generation(name, encoding)?, encoding)))
}

/// What can be done with a selected generation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum GenerationStatus {
    /// Of the version this library writes.
    Current,
    /// Older: to be read through a migration.
    MigrationRequired,
    /// Newer than this library knows; never replaced by an older one that stands beside it.
    UnsupportedNewer,
}

impl GenerationStatus {
    /// The status of a version.
    #[must_use]
    pub fn of(version: u64) -> Self {
        match version.cmp(&CURRENT_VERSION) {
            std::cmp::Ordering::Less => GenerationStatus::MigrationRequired,
            std::cmp::Ordering::Equal => GenerationStatus::Current,
            std::cmp::Ordering::Greater => GenerationStatus::UnsupportedNewer,
        }
    }
}

/// The outcome of looking for the authoritative generation of a session directory (`format.md` 1.6).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Selection {
    /// No generation of either encoding.
    Absent,
    /// The highest generation of the encoding.
    Selected {
        /// Its version.
        version: u64,
        /// What can be done with it.
        status: GenerationStatus,
    },
    /// There is a generation of the other encoding, whatever else there is.
    EncodingConflict {
        /// The highest version of the other encoding, whose path the error names.
        version: u64,
    },
}

/// Chooses the authoritative generation among the names in a session directory (`format.md` 1.6).
///
/// Only names matter. A broken or future generation is chosen like any other: the highest wins.
///
/// ```
/// use dsh_session_core::format::names::{Encoding, GenerationStatus, Selection, select};
/// let names = ["session.v3.jsonl.zstd", "session.v4.jsonl.zstd", "session.lock"];
/// let current = Selection::Selected { version: 4, status: GenerationStatus::Current };
/// assert_eq!(select(names, Encoding::Zstd), current);
/// assert_eq!(select(names, Encoding::None), Selection::EncodingConflict { version: 4 });
/// ```
#[must_use]
pub fn select<Name: AsRef<OsStr>>(entries: impl IntoIterator<Item = Name>, encoding: Encoding) -> Selection {
    let (mut own, mut other) = (None, None);
    for (version, found) in entries.into_iter().filter_map(parse_any) {
        let highest = if found == encoding { &mut own } else { &mut other };
        *highest = (*highest).max(Some(version));
    }
    match (own, other) {
        (_, Some(version)) => Selection::EncodingConflict { version },
        (Some(version), None) => Selection::Selected { version, status: GenerationStatus::of(version) },
        (None, None) => Selection::Absent,
    }
}

/// Whether a plain file of this name in a project directory is of the obsolete flat layout (`format.md` 1.5).
#[must_use]
pub fn is_flat_layout(name: impl AsRef<OsStr>) -> bool {
    let name = name.as_ref().as_encoded_bytes();
    Encoding::ALL.iter().any(|encoding| name.ends_with(encoding.extension().as_bytes()))
}

/// The name under which a first materialization is staged (`format.md` 1.5), made unique by random bytes.
#[must_use]
pub fn materialization_staging_name(version: u64, encoding: Encoding, random: [u8; 6]) -> String {
    format!("{}.{}.tmp", generation_file_name(version, encoding), hex(&random))
}

/// The name under which a migration is staged (`format.md` 1.5), made unique by random bytes.
#[must_use]
pub fn migration_staging_name(encoding: Encoding, random: [u8; 8]) -> String {
    format!("session.migration.{}{}.tmp", hex(&random), encoding.extension())
}

/// The name of the copy of a tail that recovery cuts off at `offset` (`design.md` 5); `number` tells apart several
/// cuts at one offset.
#[must_use]
pub fn cut_file_name(offset: u64, number: u64, encoding: Encoding) -> String {
    format!("session.cut-{offset}-{number}{}", encoding.extension())
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}
