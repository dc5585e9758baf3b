//! The header line: the first line of every log, in the current format and in those before it
//! (`format.md` 2 and 8.2).
//!
//! A header is held in the form of the current version; reading an older one translates it. What is wrong
//! with a line is told as a [`HeaderFault`], which knows nothing of files: the reader of the file adds the
//! place and decides on the error.

use std::borrow::Cow;
use std::fmt;

use crate::json::{
    DEPTH_MAX_DEFAULT, Json, JsonError, Kind, Member, SAFE_INTEGER_MAX, Shape, line_text, print_number,
    print_string, scan_object,
};

/// The format version this library writes.
pub const FORMAT_VERSION: u32 = 4;

/// The last version whose header tells the inherited prefix itself, as `seedLength` (`format.md` 8.2).
const SEED_LENGTH_VERSION_LAST: u64 = 1;

/// The last version in which the preset now called `ptc` was called `code` (`format.md` 8.2).
const CODE_PRESET_VERSION_LAST: u64 = 2;

/// Keys that headers had before version 0 was settled; a header that owns one is refused by name.
const RETIRED_KEYS: [&str; 2] = ["sandboxMode", "approvalPolicy"];

/// Who asked for a session, where that is recorded.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Origin {
    /// Another session, for a subagent.
    Subagent,
}

impl Origin {
    /// The word in the header line.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Origin::Subagent => "subagent",
        }
    }

    fn from_word(word: &str) -> Option<Self> {
        if word == Origin::Subagent.as_str() { Some(Origin::Subagent) } else { None }
    }
}

/// What a session is, known before its first event and never changed (`format.md` 2.2).
///
/// ```
/// use dsh_session_core::format::header::{SessionHeader, encode_line};
/// let mut header = SessionHeader::new("s1", 1000);
/// header.cwd = Some("/home/ada".into());
/// assert_eq!(
///     encode_line(&header),
///     r#"{"type":"session","version":4,"id":"s1","createdAt":1000,"cwd":"/home/ada","isSeeded":false,"delegationDepth":0}"#
/// );
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SessionHeader {
    /// The session's id, unique in its root.
    pub id: String,
    /// When it was created, Unix milliseconds, 0 to 2^53 - 1.
    pub created_at: u64,
    /// The working directory, an absolute path.
    pub cwd: Option<String>,
    /// The session it came from, where the caller recorded one.
    pub parent_session: Option<String>,
    /// Whether it begins with events inherited from another session.
    pub is_seeded: bool,
    /// Who asked for it.
    pub origin: Option<Origin>,
    /// How many delegations lie between it and the person, 0 to 2^53 - 1; absent counts as 0 and is stored so.
    pub delegation_depth: Option<u64>,
    /// The name of the preset its agent started with.
    pub agent_preset: Option<String>,
}

impl SessionHeader {
    /// A header with the two facts that every session has.
    #[must_use]
    pub fn new(id: impl Into<String>, created_at: u64) -> Self {
        SessionHeader {
            id: id.into(),
            created_at,
            cwd: None,
            parent_session: None,
            is_seeded: false,
            origin: None,
            delegation_depth: None,
            agent_preset: None,
        }
    }

    /// Whether a session can be created with this header (`format.md` 2.2, 2.5): a non-empty id, counts in
    /// range, an absolute working directory.
    ///
    /// # Errors
    ///
    /// [`HeaderFault::Shape`] that names the key.
    pub fn check(&self) -> Result<(), HeaderFault> {
        if self.id.is_empty() {
            return Err(HeaderFault::shape("id", "must not be empty"));
        }
        if self.created_at > SAFE_INTEGER_MAX {
            return Err(HeaderFault::shape("createdAt", COUNT));
        }
        if self.delegation_depth.is_some_and(|depth| depth > SAFE_INTEGER_MAX) {
            return Err(HeaderFault::shape("delegationDepth", COUNT));
        }
        match &self.cwd {
            Some(cwd) if !is_absolute(cwd) => Err(HeaderFault::shape("cwd", ABSOLUTE_PATH)),
            _ => Ok(()),
        }
    }

    /// The header as the JSON text that stands in the log.
    #[must_use]
    pub fn to_json(&self) -> String {
        encode_line(self)
    }

    /// A header from the JSON object that a caller of `create` gives. Every key is optional: `cwd`,
    /// `parentSession`, `createdAt`, `isSeeded`, `origin`, `delegationDepth`, `agentPreset` and `id`; what is
    /// absent is taken from `base`. The result is not yet [checked](Self::check) as a whole.
    ///
    /// # Errors
    ///
    /// [`HeaderFault`] that names an unknown key or one with a bad value.
    ///
    /// ```
    /// use dsh_session_core::format::header::{HeaderFault, SessionHeader};
    /// let base = SessionHeader::new("s1", 1000);
    /// let header = SessionHeader::from_json(r#"{"cwd":"/w","createdAt":5}"#, base.clone())?;
    /// assert_eq!((header.id.as_str(), header.created_at, header.cwd.as_deref()), ("s1", 5, Some("/w")));
    /// let fault = SessionHeader::from_json(r#"{"cwdd":"/w"}"#, base).unwrap_err();
    /// assert_eq!(fault.to_string(), "the header's \"cwdd\" is not a key of headers");
    /// # Ok::<(), HeaderFault>(())
    /// ```
    pub fn from_json(text: &str, base: SessionHeader) -> Result<Self, HeaderFault> {
        let fields = Fields::read(text)?;
        let mut header = base;
        for (key, value) in fields.members() {
            match key {
                Key::Id => header.id = text_of(key.name(), value)?,
                Key::Type | Key::Version | Key::SeedLength => {
                    return Err(HeaderFault::shape(key.name(), UNKNOWN_KEY));
                }
                _ => header.set(key, value)?,
            }
        }
        match fields.retired.or(fields.unknown.as_deref()) {
            Some(key) => Err(HeaderFault::shape(key, UNKNOWN_KEY)),
            None => Ok(header),
        }
    }

    /// Sets one of the fields that stored headers and those given to `create` share.
    fn set(&mut self, key: Key, value: Json<'_>) -> Result<(), HeaderFault> {
        let name = key.name();
        match key {
            Key::CreatedAt => self.created_at = count_of(name, value)?,
            Key::Cwd => {
                let cwd = text_of(name, value)?;
                if !is_absolute(&cwd) {
                    return Err(HeaderFault::shape(name, ABSOLUTE_PATH));
                }
                self.cwd = Some(cwd);
            }
            Key::ParentSession => self.parent_session = Some(text_of(name, value)?),
            Key::IsSeeded => {
                self.is_seeded = value.as_bool().ok_or_else(|| HeaderFault::shape(name, BOOLEAN))?;
            }
            Key::Origin => {
                let word = value.as_str();
                let origin = word.as_deref().and_then(Origin::from_word);
                self.origin = Some(origin.ok_or_else(|| HeaderFault::shape(name, "must be \"subagent\""))?);
            }
            Key::DelegationDepth => self.delegation_depth = Some(count_of(name, value)?),
            Key::AgentPreset => self.agent_preset = Some(text_of(name, value)?),
            Key::Type | Key::Version | Key::Id | Key::SeedLength => {}
        }
        Ok(())
    }
}

/// The header line without its newline, in the order of `format.md` 2.3.
#[must_use]
pub fn encode_line(header: &SessionHeader) -> String {
    let mut id = String::new();
    print_string(&mut id, &header.id);
    encode_with_id(header, &id)
}

/// [`encode_line`] with the id as printed JSON text, which can hold what a Rust string cannot.
fn encode_with_id(header: &SessionHeader, id: &str) -> String {
    let mut line = format!("{{\"type\":\"session\",\"version\":{FORMAT_VERSION},\"id\":{id}");
    let number = |line: &mut String, key: &str, value: u64| {
        line.push_str(key);
        // A count is exactly a double.
        print_number(line, value as f64);
    };
    let text = |line: &mut String, key: &str, value: Option<&str>| {
        if let Some(value) = value {
            line.push_str(key);
            print_string(line, value);
        }
    };
    number(&mut line, ",\"createdAt\":", header.created_at);
    text(&mut line, ",\"cwd\":", header.cwd.as_deref());
    text(&mut line, ",\"parentSession\":", header.parent_session.as_deref());
    line.push_str(if header.is_seeded { ",\"isSeeded\":true" } else { ",\"isSeeded\":false" });
    text(&mut line, ",\"origin\":", header.origin.map(Origin::as_str));
    number(&mut line, ",\"delegationDepth\":", header.delegation_depth.unwrap_or(0));
    text(&mut line, ",\"agentPreset\":", header.agent_preset.as_deref());
    line.push('}');
    line
}

/// A header line that was read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DecodedHeader {
    /// The header in the form of the current version; `delegation_depth` is always set.
    pub header: SessionHeader,
    /// The version in which it is stored, 0 to 4.
    pub stored_version: u64,
    /// How many events are inherited, where the header says so: `seedLength` of versions 0 and 1. Later
    /// versions mark the cut in the body (`format.md` 2.6).
    pub inherited_event_count: Option<u64>,
}

/// Why a header line is not accepted.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum HeaderFault {
    /// It is not JSON.
    NotJson {
        /// What was found, and at which byte.
        what: String,
    },
    /// It is JSON, but not an object.
    NotObject,
    /// Its version is a number, but not that of the file.
    Version {
        /// The number as it is written.
        text: String,
        /// Whether it is above the current version; else it is below, or no version at all.
        newer: bool,
        /// The id, as text, if there is one.
        id: Option<String>,
    },
    /// It owns a key of the time before the format was settled.
    Retired {
        /// The key.
        key: String,
    },
    /// A key is missing, unknown or has a bad value.
    Shape {
        /// The key.
        key: String,
        /// What is wrong with it: completes "the header's key …".
        what: &'static str,
    },
    /// A text holds an unpaired surrogate where none can be held.
    IllFormedText {
        /// The key.
        key: String,
    },
}

impl HeaderFault {
    fn shape(key: &str, what: &'static str) -> Self {
        HeaderFault::Shape { key: key.to_owned(), what }
    }
}

impl From<JsonError> for HeaderFault {
    fn from(error: JsonError) -> Self {
        HeaderFault::NotJson { what: error.to_string() }
    }
}

impl fmt::Display for HeaderFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            HeaderFault::NotJson { what } => write!(f, "the header is not JSON: {what}"),
            HeaderFault::NotObject => f.write_str("the header is not a JSON object"),
            HeaderFault::Version { text, newer, id } => {
                f.write_str("the header ")?;
                if let Some(id) = id {
                    write!(f, "of session {id} ")?;
                }
                write!(f, "has format version {text}, ")?;
                if *newer {
                    write!(f, "newer than {FORMAT_VERSION}, which this library reads and writes")
                } else {
                    f.write_str("which is not the version of its file")
                }
            }
            HeaderFault::Retired { key } => write!(f, "the header has the retired key \"{key}\""),
            HeaderFault::Shape { key, what } => write!(f, "the header's \"{key}\" {what}"),
            HeaderFault::IllFormedText { key } => {
                write!(f, "the header's \"{key}\" holds an unpaired surrogate")
            }
        }
    }
}

impl std::error::Error for HeaderFault {}

const UNKNOWN_KEY: &str = "is not a key of headers";
const MISSING: &str = "is missing";
const COUNT: &str = "must be an integer of 0 to 2^53 - 1";
const BOOLEAN: &str = "must be true or false";
const STRING: &str = "must be a string";
const ABSOLUTE_PATH: &str = "must be an absolute path";

/// Reads the header line of a file whose name says `file_version` (without the newline).
///
/// The checks come in the order of `format.md` 2.4: JSON, object, version, retired keys, shape. The version
/// comes first of the contents, so a header of the future is never called damaged.
///
/// # Errors
///
/// [`HeaderFault`]. A version that is a number is a `Version` fault if it is not that of the file, and always
/// if the file is of a version above the current one.
pub fn decode_line(line: &[u8], file_version: u64) -> Result<DecodedHeader, HeaderFault> {
    let text = line_text(line);
    let fields = Fields::read(&text)?;
    let version = fields.get(Key::Version);
    if let Some(version) = version.filter(|version| version.kind() == Kind::Number)
        && (version.as_count() != Some(file_version) || file_version > u64::from(FORMAT_VERSION))
    {
        return Err(HeaderFault::Version {
            text: version.text().to_owned(),
            newer: version.as_f64().is_some_and(|version| version > f64::from(FORMAT_VERSION)),
            id: fields.get(Key::Id).map(|id| id.as_str().unwrap_or(Cow::Borrowed(id.text())).into_owned()),
        });
    }
    if let Some(key) = fields.retired {
        return Err(HeaderFault::Retired { key: key.to_owned() });
    }
    fields.check_keys(file_version)?;
    let mut header = SessionHeader::new(String::new(), 0);
    let mut inherited_event_count = None;
    for (key, value) in fields.members() {
        match key {
            Key::Type if value.as_str().as_deref() == Some("session") => {}
            Key::Type => return Err(HeaderFault::shape(key.name(), "must be \"session\"")),
            // A number is the right one by now.
            Key::Version if value.kind() == Kind::Number => {}
            Key::Version => return Err(HeaderFault::shape(key.name(), "must be a number")),
            Key::Id => header.id = text_of(key.name(), value)?,
            Key::SeedLength => inherited_event_count = Some(count_of(key.name(), value)?),
            _ => header.set(key, value)?,
        }
    }
    if file_version <= SEED_LENGTH_VERSION_LAST {
        header.is_seeded = inherited_event_count.is_some();
    }
    if file_version <= CODE_PRESET_VERSION_LAST && header.agent_preset.as_deref() == Some("code") {
        header.agent_preset = Some("ptc".to_owned());
    }
    Ok(DecodedHeader { header, stored_version: file_version, inherited_event_count })
}

/// The keys of headers of all versions, in the order of `format.md` 2.3, in which they are also checked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Key {
    Type,
    Version,
    Id,
    CreatedAt,
    Cwd,
    ParentSession,
    IsSeeded,
    SeedLength,
    Origin,
    DelegationDepth,
    AgentPreset,
}

impl Key {
    const ALL: [Key; 11] = [
        Key::Type,
        Key::Version,
        Key::Id,
        Key::CreatedAt,
        Key::Cwd,
        Key::ParentSession,
        Key::IsSeeded,
        Key::SeedLength,
        Key::Origin,
        Key::DelegationDepth,
        Key::AgentPreset,
    ];

    fn name(self) -> &'static str {
        match self {
            Key::Type => "type",
            Key::Version => "version",
            Key::Id => "id",
            Key::CreatedAt => "createdAt",
            Key::Cwd => "cwd",
            Key::ParentSession => "parentSession",
            Key::IsSeeded => "isSeeded",
            Key::SeedLength => "seedLength",
            Key::Origin => "origin",
            Key::DelegationDepth => "delegationDepth",
            Key::AgentPreset => "agentPreset",
        }
    }

    fn is_required(self, version: u64) -> bool {
        match self {
            Key::Type | Key::Version | Key::Id | Key::CreatedAt | Key::DelegationDepth => true,
            Key::IsSeeded => version > SEED_LENGTH_VERSION_LAST,
            _ => false,
        }
    }

    fn is_allowed(self, version: u64) -> bool {
        match self {
            Key::IsSeeded => version > SEED_LENGTH_VERSION_LAST,
            Key::SeedLength => version <= SEED_LENGTH_VERSION_LAST,
            _ => true,
        }
    }
}

/// The members of a header by key; of a repeated key the last.
struct Fields<'a> {
    values: [Option<Json<'a>>; Key::ALL.len()],
    retired: Option<&'static str>,
    unknown: Option<String>,
}

impl<'a> Fields<'a> {
    fn read(text: &'a str) -> Result<Self, HeaderFault> {
        let mut fields = Fields { values: [None; Key::ALL.len()], retired: None, unknown: None };
        match scan_object(text, DEPTH_MAX_DEFAULT, |member| fields.take(&member))? {
            Shape::Object { .. } => Ok(fields),
            Shape::Other(_) => Err(HeaderFault::NotObject),
        }
    }

    fn take(&mut self, member: &Member<'a>) {
        let name = member.key_text();
        let known = Key::ALL.iter().position(|key| key.name() == name);
        if let Some(slot) = known.and_then(|place| self.values.get_mut(place)) {
            *slot = Some(member.value);
        } else if let Some(key) = RETIRED_KEYS.iter().find(|key| **key == name) {
            self.retired.get_or_insert(key);
        } else {
            self.unknown.get_or_insert_with(|| name.into_owned());
        }
    }

    fn get(&self, key: Key) -> Option<Json<'a>> {
        self.members().find(|(name, _)| *name == key).map(|(_, value)| value)
    }

    /// What is there, in the order of [`Key::ALL`].
    fn members(&self) -> impl Iterator<Item = (Key, Json<'a>)> {
        Key::ALL.into_iter().zip(self.values).filter_map(|(key, value)| Some((key, value?)))
    }

    /// Every required key of a version is there, and no other than its own.
    fn check_keys(&self, version: u64) -> Result<(), HeaderFault> {
        if let Some(key) =
            Key::ALL.into_iter().find(|key| key.is_required(version) && self.get(*key).is_none())
        {
            return Err(HeaderFault::shape(key.name(), MISSING));
        }
        if let Some((key, _)) = self.members().find(|(key, _)| !key.is_allowed(version)) {
            return Err(HeaderFault::shape(key.name(), UNKNOWN_KEY));
        }
        match &self.unknown {
            Some(key) => Err(HeaderFault::shape(key, UNKNOWN_KEY)),
            None => Ok(()),
        }
    }
}

fn count_of(key: &str, value: Json<'_>) -> Result<u64, HeaderFault> {
    value.as_count().ok_or_else(|| HeaderFault::shape(key, COUNT))
}

/// A text of a header. One with an unpaired surrogate is refused: it names a folder or another session, and
/// U+FFFD in its place would name another one.
fn text_of(key: &str, value: Json<'_>) -> Result<String, HeaderFault> {
    if value.has_unpaired_surrogate() {
        return Err(HeaderFault::IllFormedText { key: key.to_owned() });
    }
    value.as_str().map(Cow::into_owned).ok_or_else(|| HeaderFault::shape(key, STRING))
}

/// Whether a working directory is absolute by the rule of the hosts this library is built for (`format.md`
/// 2.5, POSIX).
fn is_absolute(path: &str) -> bool {
    path.starts_with('/')
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    const ENCODE: &str = include_str!("../../../tests/vectors/format-header-encode.json");
    const LINES: &str = include_str!("../../../tests/vectors/format-header-lines.json");
    const HISTORICAL: &str = include_str!("../../../tests/vectors/format-historical-headers.json");

    fn cases(vectors: &str) -> Vec<Value> {
        serde_json::from_str::<Value>(vectors).unwrap()["cases"].as_array().unwrap().clone()
    }

    fn line_with(key: &str, value: Value) -> Vec<u8> {
        let mut header = json!({"type": "session", "version": 4, "id": "h", "createdAt": 1, "isSeeded": false,
            "delegationDepth": 0});
        header[key] = value;
        header.to_string().into_bytes()
    }

    #[test]
    fn vectors_of_encoding_give_exactly_their_line() {
        for case in cases(ENCODE) {
            let text = case["header"].to_string();
            let header = SessionHeader::from_json(&text, SessionHeader::new("", 0)).unwrap();
            let expected = case["line"].as_str().unwrap();
            let Some(units) = case.get("id_utf16") else {
                assert_eq!(encode_line(&header), expected);
                assert_eq!(header.check(), Ok(()));
                let depth = header.delegation_depth.or(Some(0));
                let decoded = decode_line(expected.as_bytes(), 4).unwrap();
                assert_eq!(decoded.header, SessionHeader { delegation_depth: depth, ..header });
                continue;
            };
            let units: Vec<u16> = serde_json::from_value(units.clone()).unwrap();
            let mut id = String::new();
            crate::json::print_utf16(&mut id, &units);
            assert_eq!(encode_with_id(&header, &id), expected);
            let fault = decode_line(expected.as_bytes(), 4).unwrap_err();
            assert_eq!(fault, HeaderFault::IllFormedText { key: "id".into() });
        }
    }

    #[test]
    fn vectors_of_header_lines_give_their_class_and_key() {
        for case in cases(LINES) {
            let line = case["line"].as_str().unwrap();
            let outcome = decode_line(line.as_bytes(), 4);
            let reason = case["reason"].as_str().unwrap_or("ok");
            let (class, fault_key) = match &outcome {
                Ok(_) => ("ok", "ok".to_owned()),
                Err(HeaderFault::NotJson { .. }) => ("corrupt", "header-not-json".to_owned()),
                Err(HeaderFault::NotObject) => ("corrupt", "header-not-object".to_owned()),
                Err(HeaderFault::Version { .. }) => ("unsupported", "foreign-version".to_owned()),
                Err(HeaderFault::Retired { .. }) => ("corrupt", "retired-field".to_owned()),
                Err(HeaderFault::Shape { key, what }) => {
                    let sort = match *what {
                        MISSING => "missing-field",
                        UNKNOWN_KEY => "unknown-field",
                        _ => "bad-value",
                    };
                    ("corrupt", format!("{sort}:{key}"))
                }
                Err(HeaderFault::IllFormedText { .. }) => ("corrupt", "ill-formed".to_owned()),
            };
            assert_eq!((class, fault_key.as_str()), (case["open"].as_str().unwrap(), reason), "{line}");
            if let Ok(decoded) = outcome {
                assert_eq!(decoded.header.id, "h");
                assert_eq!((decoded.stored_version, decoded.inherited_event_count), (4, None));
            }
        }
    }

    #[test]
    fn vectors_of_historical_headers_are_translated() {
        for case in cases(HISTORICAL) {
            let line = case["stored"].to_string();
            let version = case["stored"]["version"].as_u64().unwrap();
            match (decode_line(line.as_bytes(), version), case["status"].as_str().unwrap()) {
                (Ok(decoded), "current" | "migration-required") => {
                    let mut expected = case["header"].clone();
                    expected["type"] = json!("session");
                    let printed: Value = serde_json::from_str(&encode_line(&decoded.header)).unwrap();
                    assert_eq!(printed, expected, "{line}");
                    assert_eq!(decoded.stored_version, version);
                    assert_eq!(decoded.inherited_event_count, case["stored"]["seedLength"].as_u64());
                }
                (Err(HeaderFault::Version { newer: true, text, id }), "unsupported") => {
                    assert_eq!((text.as_str(), id.as_deref()), ("5", Some("a")));
                }
                (Err(HeaderFault::Shape { .. }), "malformed") => {}
                (outcome, status) => panic!("{line}: {outcome:?}, expected {status}"),
            }
        }
    }

    #[test]
    fn a_header_of_another_version_than_its_file_says_which_and_of_whom() {
        let fault = |line: &str, version| decode_line(line.as_bytes(), version).unwrap_err();
        let version = |text: &str, newer, id: Option<&str>| HeaderFault::Version {
            text: text.into(),
            newer,
            id: id.map(Into::into),
        };
        assert_eq!(fault(r#"{"version":42,"id":7}"#, 4), version("42", true, Some("7")));
        assert_eq!(fault(r#"{"version":3}"#, 4), version("3", false, None));
        assert_eq!(fault(r#"{"version":2,"id":"a"}"#, 3), version("2", false, Some("a")));
        assert_eq!(fault(r#"{"version":4,"id":"a"}"#, 3), version("4", false, Some("a")));
        assert_eq!(fault(r#"{"version":1e400,"sandboxMode":1}"#, 4), version("1e400", true, None));
        assert!(fault("{\"version\":5}", 5).to_string().contains("newer than 4"));
    }

    #[test]
    fn a_byte_order_mark_is_named() {
        let mut line = b"\xef\xbb\xbf".to_vec();
        line.extend(encode_line(&SessionHeader::new("a", 1)).into_bytes());
        assert!(decode_line(&line, 4).unwrap_err().to_string().contains("byte order mark"));
    }

    #[test]
    fn texts_with_an_unpaired_surrogate_are_refused_by_key() {
        for key in ["id", "cwd", "parentSession", "agentPreset"] {
            let line =
                String::from_utf8(line_with(key, json!("/PLACE"))).unwrap().replace("PLACE", "\\udc00");
            let expected = HeaderFault::IllFormedText { key: key.into() };
            assert_eq!(decode_line(line.as_bytes(), 4), Err(expected), "{key}");
        }
    }

    #[test]
    fn a_header_to_create_is_checked_at_the_limits() {
        let good = SessionHeader {
            cwd: Some("/".into()),
            delegation_depth: Some(SAFE_INTEGER_MAX),
            ..SessionHeader::new("a", SAFE_INTEGER_MAX)
        };
        assert_eq!(good.check(), Ok(()));
        assert_eq!(decode_line(good.to_json().as_bytes(), 4).unwrap().header, good);
        let bad = [
            ("id", SessionHeader { id: String::new(), ..good.clone() }),
            ("createdAt", SessionHeader { created_at: SAFE_INTEGER_MAX + 1, ..good.clone() }),
            ("delegationDepth", SessionHeader { delegation_depth: Some(1 << 53), ..good.clone() }),
            ("cwd", SessionHeader { cwd: Some(String::new()), ..good.clone() }),
            ("cwd", SessionHeader { cwd: Some("C:\\src".into()), ..good.clone() }),
        ];
        for (expected, header) in bad {
            let Err(HeaderFault::Shape { key, .. }) = header.check() else { panic!("{expected} passed") };
            assert_eq!(key, expected);
        }
    }

    #[test]
    fn a_header_given_as_json_names_the_key_that_is_wrong() {
        let base = || SessionHeader::new("base", 9);
        let full = r#"{"cwd":"/w","parentSession":"p","createdAt":1.0,"isSeeded":true,"origin":"subagent",
            "delegationDepth":2,"agentPreset":"x","id":"i"}"#;
        let header = SessionHeader::from_json(full, base()).unwrap();
        assert_eq!(SessionHeader::from_json("{}", base()), Ok(base()));
        let line = r#"{"type":"session","version":4,"id":"i","createdAt":1,"cwd":"/w","parentSession":"p","isSeeded":true,"origin":"subagent","delegationDepth":2,"agentPreset":"x"}"#;
        assert_eq!(header.to_json(), line);
        let bad = [
            (r#"{"cwd":null}"#, "cwd"),
            (r#"{"cwd":"w"}"#, "cwd"),
            (r#"{"createdAt":-1}"#, "createdAt"),
            (r#"{"isSeeded":0}"#, "isSeeded"),
            (r#"{"origin":"me"}"#, "origin"),
            (r#"{"delegationDepth":1.5}"#, "delegationDepth"),
            (r#"{"version":4}"#, "version"),
            (r#"{"seedLength":4}"#, "seedLength"),
            (r#"{"sandboxMode":4}"#, "sandboxMode"),
            (r#"{"more":4}"#, "more"),
        ];
        for (text, expected) in bad {
            let outcome = SessionHeader::from_json(text, base());
            assert!(
                matches!(&outcome, Err(HeaderFault::Shape { key, .. }) if key == expected),
                "{outcome:?}"
            );
        }
        assert_eq!(SessionHeader::from_json("[]", base()), Err(HeaderFault::NotObject));
        assert!(matches!(SessionHeader::from_json("{", base()), Err(HeaderFault::NotJson { .. })));
    }
}
