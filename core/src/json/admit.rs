//! Admission: the JSON text an append was given becomes the text that is stored, or is refused because it
//! would not come back as the same value (`design.md` 5, `session.md` 2).
//!
//! One pass checks the grammar and copies. What is already in its stored form is not touched: only when a
//! byte has to change is the run before it copied, so clean text costs one scan and one copy. A repeated key
//! (last value, first place) would need text moved backwards in the middle of the pass; instead the pass
//! notes which stretches are replaced or dropped, and a second pass assembles them, each byte copied once
//! whatever the nesting. A number that cannot be kept is noted too and judged at the end, because a repeated
//! key may have dropped it; its path is found then by reading the text again, which only a refusal pays for.

use std::borrow::Cow;
use std::collections::HashMap;
use std::fmt;
use std::ops::Range;

use super::error::JsonError;
use super::number;
use super::print;
use super::scan;
use super::text::{Unit, decode_escape, line_text, piece};
use super::value::Json;

/// Why a text was not admitted.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum AdmitError {
    /// It is not one JSON value, or deeper than the limit.
    Json(JsonError),
    /// A number in it would not come back equal.
    NotLossless {
        /// Where it stands: `$.data.items[3]["odd key"]`.
        path: String,
        /// What is wrong with it, for people.
        reason: &'static str,
    },
}

impl fmt::Display for AdmitError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            AdmitError::Json(error) => error.fmt(f),
            AdmitError::NotLossless { path, reason } => write!(f, "{reason} at {path}"),
        }
    }
}

impl std::error::Error for AdmitError {}

impl From<JsonError> for AdmitError {
    fn from(error: JsonError) -> Self {
        AdmitError::Json(error)
    }
}

/// Makes a JSON text canonical for storage.
///
/// Ill-formed UTF-8 is replaced as in reading, white space goes, keys keep their order, a repeated key keeps
/// its last value at its first place, strings and numbers are printed as `format.md` 3.6 says. Admitting the
/// result again gives the same text.
///
/// # Errors
///
/// [`AdmitError::Json`] if it is not one value of at most `depth_max` levels; [`AdmitError::NotLossless`] for
/// negative zero however spelled, a number beyond a double's range, and an integer in plain digits that no
/// double holds exactly, unless its digits are the shortest form of one.
///
/// ```
/// use dsh_session_core::json::{AdmitError, DEPTH_MAX_DEFAULT, admit};
/// let stored = admit(br#"{ "a": 1.0, "b": 2, "a": [1e3] }"#, DEPTH_MAX_DEFAULT)?;
/// assert_eq!(stored, r#"{"a":[1000],"b":2}"#);
/// let refused = admit(br#"{"ids":[9007199254740993]}"#, DEPTH_MAX_DEFAULT).unwrap_err();
/// assert!(matches!(refused, AdmitError::NotLossless { path, .. } if path == "$.ids[0]"));
/// # Ok::<(), AdmitError>(())
/// ```
pub fn admit(text: &[u8], depth_max: u32) -> Result<String, AdmitError> {
    let text = line_text(text);
    let mut pass = Pass::new(&text, depth_max);
    pass.run()?;
    pass.assemble()
}

/// As [`admit`], and shows the members of the text if it is an object: each key, decoded, and where its value stands in the result.
/// Looking for them afterwards would go over the text once more.
pub(crate) fn admit_members(
    text: &[u8],
    depth_max: u32,
    mut member: impl FnMut(&str, Range<usize>),
) -> Result<String, AdmitError> {
    let text = line_text(text);
    let mut pass = Pass::new(&text, depth_max);
    pass.run()?;
    let outermost = std::mem::take(&mut pass.outermost);
    // Repeated keys move text about, and keys are marked as they are printed: a text with such a key, or one with escapes, is walked again.
    let is_marked = pass.edits.is_empty() && !outermost.iter().any(|mark| mark.key.contains('\\'));
    let admitted = pass.assemble()?;
    if is_marked {
        outermost.iter().for_each(|mark| member(&mark.key, mark.start..mark.end));
        return Ok(admitted);
    }
    let base = admitted.as_ptr() as usize;
    for (key, value) in Json::trusted(&admitted).members() {
        let start = value.text().as_ptr() as usize - base;
        member(&key, start..start + value.text().len());
    }
    Ok(admitted)
}

/// The pass over the text. Positions called *out* are those of the text as printed so far, the part that is
/// not copied yet included.
struct Pass<'a> {
    text: &'a str,
    depth_max: u32,
    at: usize,
    /// What is printed, up to `copied` of the source; from there to `at` it will be a plain copy.
    out: String,
    copied: usize,
    open: Vec<Container<'a>>,
    /// The members of all open objects, those of the innermost last.
    members: Vec<MemberMark<'a>>,
    /// The members of the outermost object, once it is closed.
    outermost: Vec<MemberMark<'a>>,
    edits: Vec<Edit>,
    refused: Vec<Refused>,
}

/// An open array or object.
struct Container<'a> {
    is_object: bool,
    members_start: usize,
    /// The member whose value is being read.
    current: usize,
    /// For a repeated key: the out position of the comma before it.
    repeat_comma: Option<usize>,
    has_repeats: bool,
    /// Where each key is in `members`, once there are too many to look through.
    index: Option<Box<KeyIndex<'a>>>,
    value_start: usize,
}

/// Keys of one object that are compared one by one; beyond, they are found by hash.
const KEYS_COMPARED_MAX: usize = 16;

/// Where in `members` the keys of one object are. Boxed where it is used: few objects have so many keys, and
/// containers are pushed and popped all the time.
struct KeyIndex<'a> {
    places: HashMap<Cow<'a, str>, usize>,
}

/// A member of an open object: its key as printed, and the out range of its value.
struct MemberMark<'a> {
    key: Cow<'a, str>,
    start: usize,
    end: usize,
    /// The value of the last repetition of the key.
    last: Option<(usize, usize)>,
}

/// A stretch of the printed text that goes, and the stretch that comes in its place. Stretches nest, never
/// overlap in part, and never start at the same position.
struct Edit {
    start: usize,
    end: usize,
    instead: Option<(usize, usize)>,
}

/// A number that cannot be kept, unless a repeated key drops it.
struct Refused {
    out_at: usize,
    source_at: usize,
    reason: &'static str,
}

impl<'a> Pass<'a> {
    fn new(text: &'a str, depth_max: u32) -> Self {
        Pass {
            text,
            depth_max,
            at: 0,
            out: String::with_capacity(text.len()),
            copied: 0,
            // Ordinary data never makes these grow.
            open: Vec::with_capacity(8),
            members: Vec::with_capacity(16),
            outermost: Vec::new(),
            edits: Vec::new(),
            refused: Vec::new(),
        }
    }

    fn bytes(&self) -> &'a [u8] {
        self.text.as_bytes()
    }

    fn byte(&self) -> Option<u8> {
        self.bytes().get(self.at).copied()
    }

    fn out_at(&self) -> usize {
        self.out.len() + (self.at - self.copied)
    }

    /// Copies what is pending, up to `end` of the source, and goes on after `resume` of it.
    fn copy(&mut self, end: usize, resume: usize) {
        self.out.push_str(piece(self.text, self.copied, end));
        self.copied = resume;
    }

    /// Leaves out white space.
    fn space(&mut self) {
        let end = scan::skip_space(self.bytes(), self.at);
        if end != self.at {
            self.copy(self.at, end);
            self.at = end;
        }
    }

    /// Reads the whole text.
    fn run(&mut self) -> Result<(), JsonError> {
        self.space();
        loop {
            if self.value()? {
                continue;
            }
            while !self.open.is_empty() {
                if self.after_value()? {
                    break;
                }
            }
            if self.open.is_empty() {
                break;
            }
        }
        self.copy(self.at, self.at);
        scan::expect_end(self.bytes(), self.at)
    }

    /// Reads a scalar or an empty container, or opens one and stops at the first value in it: true then.
    fn value(&mut self) -> Result<bool, JsonError> {
        match self.byte() {
            Some(b'"') => self.string().map(|_| false),
            Some(b'{') => self.open(true),
            Some(b'[') => self.open(false),
            Some(b'-' | b'0'..=b'9') => self.number().map(|()| false),
            _ => {
                self.at = scan::scalar_end(self.bytes(), self.at)?;
                Ok(false)
            }
        }
    }

    fn open(&mut self, is_object: bool) -> Result<bool, JsonError> {
        if self.open.len() >= self.depth_max as usize {
            return Err(JsonError::too_deep(self.at, self.depth_max));
        }
        self.at += 1;
        self.space();
        if self.byte() == Some(if is_object { b'}' } else { b']' }) {
            self.at += 1;
            return Ok(false);
        }
        self.open.push(Container {
            is_object,
            members_start: self.members.len(),
            current: 0,
            repeat_comma: None,
            has_repeats: false,
            index: None,
            value_start: 0,
        });
        if is_object {
            self.key(None)?;
        }
        Ok(true)
    }

    /// Reads what follows a value: true if that is another value of the same container.
    fn after_value(&mut self) -> Result<bool, JsonError> {
        self.space();
        let Some(container) = self.open.last() else { return Ok(false) };
        let is_object = container.is_object;
        match self.byte() {
            Some(b',') => {
                let comma = self.out_at();
                self.end_member(comma);
                self.at += 1;
                self.space();
                if is_object {
                    self.key(Some(comma))?;
                }
                Ok(true)
            }
            Some(b'}') if is_object => {
                self.end_member(self.out_at());
                self.close();
                Ok(false)
            }
            Some(b']') if !is_object => {
                self.close();
                Ok(false)
            }
            _ => Err(scan::unexpected_after_value(self.bytes(), self.at, is_object)),
        }
    }

    /// Reads a key and its colon, up to the value. `comma` is the out position of the comma before it.
    fn key(&mut self, comma: Option<usize>) -> Result<(), JsonError> {
        // For its message only: `string` alone would not say that a key is missing.
        if self.byte() != Some(b'"') {
            scan::key_end(self.bytes(), self.at)?;
        }
        let (source_start, out_start) = (self.at + 1, self.out_at() + 1);
        let key = if self.string()? {
            // The printed form decides whether two keys are equal; an escaped key is printed at once.
            self.copy(self.at, self.at);
            Cow::Owned(piece(&self.out, out_start, self.out.len() - 1).to_owned())
        } else {
            Cow::Borrowed(piece(self.text, source_start, self.at - 1))
        };
        self.space();
        self.at = scan::colon(self.bytes(), self.at)? + 1;
        self.space();
        self.start_member(key, comma);
        Ok(())
    }

    fn start_member(&mut self, key: Cow<'a, str>, comma: Option<usize>) {
        let start = self.out_at();
        // Invariant: a key is only read inside an open object.
        let Some(container) = self.open.last_mut() else { return };
        container.value_start = start;
        let earlier = container.find(&self.members, &key);
        container.repeat_comma = earlier.and(comma);
        container.current = earlier.unwrap_or(self.members.len());
        if earlier.is_none() {
            if let Some(index) = &mut container.index {
                index.places.insert(key.clone(), self.members.len());
            }
            self.members.push(MemberMark { key, start, end: start, last: None });
        }
    }

    /// The value of the current member, if the innermost container is an object, ends here.
    fn end_member(&mut self, end: usize) {
        let Some(container) = self.open.last_mut() else { return };
        if !container.is_object {
            return;
        }
        let Some(member) = self.members.get_mut(container.current) else { return };
        match container.repeat_comma {
            None => member.end = end,
            Some(comma) => {
                member.last = Some((container.value_start, end));
                container.has_repeats = true;
                self.edits.push(Edit { start: comma, end, instead: None });
            }
        }
    }

    fn close(&mut self) {
        self.at += 1;
        let Some(container) = self.open.pop() else { return };
        if container.has_repeats {
            let members = self.members.get(container.members_start..).unwrap_or_default();
            let moved = members.iter().filter(|member| member.last.is_some());
            self.edits.extend(moved.map(|m| Edit { start: m.start, end: m.end, instead: m.last }));
        }
        if self.open.is_empty() {
            self.outermost = std::mem::take(&mut self.members);
        }
        self.members.truncate(container.members_start);
    }

    /// Reads a string, and prints anew those of its escapes that have another stored form. True if it has any.
    fn string(&mut self) -> Result<bool, JsonError> {
        let bytes = self.bytes();
        let end = scan::string_end_with(bytes, self.at + 1, |backslash| {
            // The short escapes but `\/` are their own stored form. The second half of a pair is behind
            // `copied` already.
            if let Some(b'u' | b'/') = bytes.get(backslash + 1)
                && backslash >= self.copied
            {
                self.escape(backslash);
            }
        })?;
        self.at = end.quote + 1;
        Ok(end.is_escaped)
    }

    fn escape(&mut self, backslash: usize) {
        let (unit, length) = decode_escape(piece(self.text, backslash, self.text.len()));
        self.copy(backslash, backslash + length);
        match unit {
            Unit::Char(character) => print::print_char(&mut self.out, character),
            Unit::Surrogate(unit) => print::print_unit(&mut self.out, unit),
        }
    }

    fn number(&mut self) -> Result<(), JsonError> {
        let start = self.at;
        if let Some(end) = scan::integer_end(self.bytes(), start)
            && end - start <= number::DIGITS_KEPT_MAX
        {
            self.at = end;
            return Ok(());
        }
        let end = scan::scalar_end(self.bytes(), start)?;
        match number::stored_form(piece(self.text, start, end)) {
            number::StoredForm::AsWritten => {}
            number::StoredForm::Printed(value) => {
                self.copy(start, end);
                print::print_number(&mut self.out, value);
            }
            number::StoredForm::Refused(reason) => {
                self.refused.push(Refused { out_at: self.out_at(), source_at: start, reason });
            }
        }
        self.at = end;
        Ok(())
    }

    /// The final text: what was printed, with repeated keys brought to their first place.
    ///
    /// `pending` holds the stretches still to copy, the next one last.
    fn assemble(mut self) -> Result<String, AdmitError> {
        if self.edits.is_empty() {
            self.refuse_within(0, self.out.len())?;
            return Ok(self.out);
        }
        self.edits.sort_unstable_by_key(|edit| edit.start);
        let mut result = String::with_capacity(self.out.len());
        let mut pending = vec![(0, self.out.len())];
        while let Some((start, end)) = pending.pop() {
            let next = self.edits.partition_point(|edit| edit.start < start);
            let edit = self.edits.get(next).filter(|edit| edit.start < end);
            let run_end = edit.map_or(end, |edit| edit.start);
            self.refuse_within(start, run_end)?;
            result.push_str(piece(&self.out, start, run_end));
            if let Some(edit) = edit {
                pending.push((edit.end, end));
                pending.extend(edit.instead);
            }
        }
        Ok(result)
    }

    /// Fails if a number that cannot be kept stands in a stretch that is kept.
    fn refuse_within(&self, start: usize, end: usize) -> Result<(), AdmitError> {
        let first = self.refused.partition_point(|refused| refused.out_at < start);
        match self.refused.get(first).filter(|refused| refused.out_at < end) {
            None => Ok(()),
            Some(refused) => Err(AdmitError::NotLossless {
                path: path_to(self.text, refused.source_at),
                reason: refused.reason,
            }),
        }
    }
}

impl<'a> Container<'a> {
    /// Where in `members`, whose end belongs to this object, a key is.
    fn find(&mut self, members: &[MemberMark<'a>], key: &str) -> Option<usize> {
        let own = members.get(self.members_start..).unwrap_or_default();
        if own.len() < KEYS_COMPARED_MAX {
            return own.iter().position(|member| member.key == key).map(|place| self.members_start + place);
        }
        let index = self.index.get_or_insert_with(|| {
            let places = own.iter().zip(self.members_start..);
            Box::new(KeyIndex { places: places.map(|(member, place)| (member.key.clone(), place)).collect() })
        });
        index.places.get(key).copied()
    }
}

/// One step of a path.
enum Step<'a> {
    Index(u64),
    Key(&'a str),
}

/// The path of the value that starts at byte `target` of a text that is valid JSON.
fn path_to(text: &str, target: usize) -> String {
    let bytes = text.as_bytes();
    let mut steps: Vec<Step<'_>> = Vec::new();
    let mut is_key_next = false;
    let mut at = 0;
    while at < target {
        match bytes.get(at) {
            Some(b'"') => {
                let quote = scan::trusted_string_end(bytes, at + 1);
                if let Some(Step::Key(key)) = steps.last_mut()
                    && is_key_next
                {
                    *key = piece(text, at + 1, quote);
                    is_key_next = false;
                }
                at = quote;
            }
            Some(b'{') => {
                steps.push(Step::Key(""));
                is_key_next = true;
            }
            Some(b'[') => steps.push(Step::Index(0)),
            Some(b'}' | b']') => {
                steps.pop();
                is_key_next = false;
            }
            Some(b',') => match steps.last_mut() {
                Some(Step::Index(index)) => *index += 1,
                _ => is_key_next = true,
            },
            _ => {}
        }
        at += 1;
    }
    print_path(&steps)
}

fn print_path(steps: &[Step<'_>]) -> String {
    let mut path = String::from("$");
    for step in steps {
        match step {
            Step::Index(index) => path.push_str(&format!("[{index}]")),
            Step::Key(key) if is_name(key) => {
                path.push('.');
                path.push_str(key);
            }
            // The key as it was given, escapes included, is a JSON string already.
            Step::Key(key) => path.push_str(&format!("[\"{key}\"]")),
        }
    }
    path
}

fn is_name(key: &str) -> bool {
    let is_letter = |byte: u8| byte.is_ascii_alphabetic() || byte == b'_' || byte == b'$';
    key.bytes().next().is_some_and(is_letter)
        && key.bytes().all(|byte| is_letter(byte) || byte.is_ascii_digit())
}
