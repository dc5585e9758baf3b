//! The storage form of `sourceEventSeqs` (`format.md` 3.4): lists of event numbers, with runs as pairs.
//!
//! A pair of a few bytes may stand for millions of numbers, so a decoded list stays a list of runs and is only
//! expanded by its iterator. The text is read without a tree of values: its grammar is numbers and pairs.

use std::error;
use std::fmt::{self, Write};

/// The largest integer that counts: each one up to here is held exactly by a double (`format.md` 0.2).
const SAFE_INTEGER_MAX: u64 = (1 << 53) - 1;

/// A run is stored as a pair if it has at least this many members.
const PAIR_RUN_MIN: u64 = 3;

/// The rule of `format.md` 3.4 that a stored list breaks; it makes its row malformed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RangeFault {
    /// The value is not an array.
    NotArray,
    /// An entry is neither a count nor an array.
    BadMember,
    /// An entry that is an array is not two counts.
    BadPair,
    /// A pair runs backwards, or to the row itself or past it, or makes the list longer than there are earlier events.
    RangeExceedsSeq,
    /// A number occurs twice, or is not below the row's own.
    NotUniqueEarlier,
    /// A list with a pair does not increase.
    NotIncreasing,
}

impl RangeFault {
    /// A short label of the rule.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            RangeFault::NotArray => "not-array",
            RangeFault::BadMember => "bad-member",
            RangeFault::BadPair => "bad-pair",
            RangeFault::RangeExceedsSeq => "range-exceeds-seq",
            RangeFault::NotUniqueEarlier => "not-unique-earlier",
            RangeFault::NotIncreasing => "not-increasing",
        }
    }
}

impl fmt::Display for RangeFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            RangeFault::NotArray => "sourceEventSeqs is not an array",
            RangeFault::BadMember => "an entry of sourceEventSeqs is neither a count nor a pair",
            RangeFault::BadPair => "a pair in sourceEventSeqs is not two counts",
            RangeFault::RangeExceedsSeq => "a pair in sourceEventSeqs does not fit below the row's own seq",
            RangeFault::NotUniqueEarlier => {
                "sourceEventSeqs names an event twice, or one that is not earlier"
            }
            RangeFault::NotIncreasing => "sourceEventSeqs has a pair but does not increase",
        })
    }
}

impl error::Error for RangeFault {}

/// The stored form of a list of event numbers, as JSON text.
///
/// ```
/// use dsh_session_core::event::source_ranges::encode;
/// assert_eq!(encode(&[1, 2, 3, 5, 6, 9]), "[[1,3],5,6,9]");
/// assert_eq!(encode(&[9, 8, 7]), "[9,8,7]");
/// ```
#[must_use]
pub fn encode(logical: &[u64]) -> String {
    let increases = logical.windows(2).all(|pair| pair[0] < pair[1]);
    let mut text = String::from("[");
    let mut rest = logical;
    while let Some(&first) = rest.first() {
        let run = if increases { run_length(rest) } else { 1 };
        let last = first + (run as u64 - 1);
        push_run(&mut text, first, last);
        rest = &rest[run..];
    }
    text.push(']');
    text
}

/// How many numbers from the start of a strictly increasing list follow each other without a gap.
fn run_length(list: &[u64]) -> usize {
    // The list increases, so neither `+` passes the next member.
    1 + list.windows(2).take_while(|pair| pair[0] + 1 == pair[1]).count()
}

fn push_run(text: &mut String, first: u64, last: u64) {
    let separator = |text: &String| if text.len() > 1 { "," } else { "" };
    // Writing to a String cannot fail.
    if last - first + 1 >= PAIR_RUN_MIN {
        let _ = write!(text, "{}[{first},{last}]", separator(text));
    } else {
        for number in first..=last {
            let _ = write!(text, "{}{number}", separator(text));
        }
    }
}

/// A decoded list of distinct event numbers, in the order of the list, held as runs.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SourceSeqs {
    /// Inclusive runs, in list order; `first <= last` in each.
    runs: Vec<(u64, u64)>,
    length: u64,
}

impl SourceSeqs {
    /// How many numbers there are.
    #[must_use]
    pub fn len(&self) -> u64 {
        self.length
    }

    /// Whether there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.length == 0
    }

    /// The numbers as inclusive runs `(first, last)`, in list order.
    #[must_use]
    pub fn runs(&self) -> &[(u64, u64)] {
        &self.runs
    }

    /// The numbers one by one, in list order.
    pub fn iter(&self) -> impl Iterator<Item = u64> + '_ {
        self.runs.iter().flat_map(|&(first, last)| first..=last)
    }

    /// Adds a run, as part of the one before it where it continues that.
    fn push(&mut self, first: u64, last: u64) {
        self.length += last - first + 1;
        match self.runs.last_mut() {
            Some(run) if run.1 + 1 == first => run.1 = last,
            _ => self.runs.push((first, last)),
        }
    }

    fn increases(&self) -> bool {
        self.runs.windows(2).all(|pair| pair[0].1 < pair[1].0)
    }

    /// Whether no number occurs twice. The copy is as long as the text, not as the numbers it stands for.
    fn is_distinct(&self) -> bool {
        let mut sorted = self.runs.clone();
        sorted.sort_unstable();
        sorted.windows(2).all(|pair| pair[0].1 < pair[1].0)
    }
}

/// Reads the stored form at a row whose number is `seq`. `json` is valid JSON text of one value.
///
/// ```
/// use dsh_session_core::event::source_ranges::{RangeFault, decode};
/// let seqs = decode("[[1,3],5]", 10).unwrap();
/// assert_eq!(seqs.iter().collect::<Vec<_>>(), [1, 2, 3, 5]);
/// assert_eq!(decode("[10]", 10), Err(RangeFault::NotUniqueEarlier));
/// ```
///
/// # Errors
/// The first rule broken: entries one by one, then earlier and distinct, then increasing.
pub fn decode(json: &str, seq: u64) -> Result<SourceSeqs, RangeFault> {
    let mut cursor = Cursor { rest: json.as_bytes() };
    let mut seqs = SourceSeqs::default();
    let (mut has_pair, mut all_earlier) = (false, true);
    if !cursor.take(b'[') {
        return Err(RangeFault::NotArray);
    }
    while !cursor.take(b']') {
        if cursor.take(b'[') {
            let (first, last) = cursor.pair().ok_or(RangeFault::BadPair)?;
            let room = seq.saturating_sub(seqs.length);
            if first > last || last >= seq || last - first >= room {
                return Err(RangeFault::RangeExceedsSeq);
            }
            has_pair = true;
            seqs.push(first, last);
        } else {
            let member = cursor.count().ok_or(RangeFault::BadMember)?;
            all_earlier &= member < seq;
            seqs.push(member, member);
        }
        cursor.take(b',');
    }
    if !all_earlier {
        return Err(RangeFault::NotUniqueEarlier);
    }
    if !seqs.increases() {
        // Sorting is for the rare list out of order; the label tells a repeated number from mere disorder.
        if !seqs.is_distinct() {
            return Err(RangeFault::NotUniqueEarlier);
        }
        if has_pair {
            return Err(RangeFault::NotIncreasing);
        }
    }
    Ok(seqs)
}

/// What is left of the text.
struct Cursor<'a> {
    rest: &'a [u8],
}

impl Cursor<'_> {
    fn skip_space(&mut self) {
        self.rest = self.rest.trim_ascii_start();
    }

    /// Takes this byte if it is the next one that is not white space.
    fn take(&mut self, byte: u8) -> bool {
        self.skip_space();
        match self.rest.split_first() {
            Some((first, rest)) if *first == byte => {
                self.rest = rest;
                true
            }
            _ => false,
        }
    }

    /// Two counts and the bracket that closes them.
    fn pair(&mut self) -> Option<(u64, u64)> {
        let first = self.count()?;
        let last = if self.take(b',') { self.count()? } else { return None };
        self.take(b']').then_some((first, last))
    }

    /// A number that is a count: a safe integer of at least 0, however it is spelled (`3.0`, `1e0`), but not `-0`.
    fn count(&mut self) -> Option<u64> {
        self.skip_space();
        let is_number_byte =
            |byte: &u8| byte.is_ascii_digit() || matches!(byte, b'+' | b'-' | b'.' | b'e' | b'E');
        let length = self.rest.iter().take_while(|byte| is_number_byte(byte)).count();
        let (token, rest) = self.rest.split_at(length);
        self.rest = rest;
        let token = std::str::from_utf8(token).ok()?;
        if token.bytes().all(|byte| byte.is_ascii_digit()) {
            return token.parse().ok().filter(|count| *count <= SAFE_INTEGER_MAX);
        }
        let value: f64 = token.parse().ok()?;
        let is_count = value.is_sign_positive() && value.fract() == 0.0 && value <= SAFE_INTEGER_MAX as f64;
        is_count.then_some(value as u64)
    }
}
