//! The files of format 4: layout, names, header, rows and frames, and one pass over a log (`format.md`).
//!
//! | File | Holds |
//! | --- | --- |
//! | `names` | folder and file names, and which generation counts |
//! | `header` | the first line |
//! | `frames`, `window` | compressed frames: found without decoding, decoded, encoded |
//! | `piece`, `group` | text cut into rows, on several threads where it pays |
//! | `order` | which rows are part of the log, and the first rule that one of them breaks |
//! | `relationships` | the rules that bind rows: A10 to A25 |
//! | `reader` | one pass over a log, in bounded memory |
//! | `seek` | the newest events, and a window around a seq, without reading the rest |
//! | `prefix` | what another log can begin with as bytes |
//! | `raw_rows` | every row of any log, damaged or not, as text |
//! | `log_file` | from an open file to a log that can be read |

pub mod frames;
mod group;
pub mod header;
pub(crate) mod log_file;
pub mod names;
pub(crate) mod order;
pub(crate) mod piece;
pub(crate) mod prefix;
pub mod raw_rows;
pub mod reader;
pub mod relationships;
pub(crate) mod seek;
pub(crate) mod window;

pub use seek::EventRange;
