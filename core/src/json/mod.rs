//! JSON as text in, text out: a strict scanner, views on checked text, admission of what an append is given,
//! and printing. No tree of values is built and nothing recurses, so neither the size nor the depth of a row
//! costs more than one pass over its bytes.
//!
//! Everything a caller receives is a piece of the text it gave: a [`Json`] is the text of exactly one valid
//! value. The grammar is RFC 8259 as `format.md` 3.6 reads it: unpaired surrogate escapes and numbers beyond a
//! double's range are valid text.

mod admit;
mod cursor;
mod error;
mod facts;
mod number;
mod object;
mod print;
mod scan;
mod text;
mod value;

pub(crate) use admit::admit_members;
pub use admit::{AdmitError, admit};
pub use cursor::Cursor;
pub use error::{JsonError, JsonErrorKind};
pub use object::ObjectText;
pub use print::{print_number, print_string, print_utf16};
pub use scan::{Member, Shape, scan_object};
pub use text::line_text;
pub use value::{Elements, Json, Kind, Members};

/// How many arrays and objects may stand inside each other, the outermost counted (`design.md` 5).
///
/// Nothing here recurses; the limit only bounds the memory that a hostile row can ask for.
pub const DEPTH_MAX_DEFAULT: u32 = 100_000;

/// The largest integer whose neighbours are doubles too: 2^53 - 1 (`format.md` 0.2).
pub const SAFE_INTEGER_MAX: u64 = (1 << 53) - 1;

#[cfg(test)]
mod tests;
