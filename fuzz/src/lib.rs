//! What the fuzz targets do: each takes bytes, drives one door of the library with them, and panics if a property does not hold.
//!
//! `fuzz/libfuzzer` gives these functions to libFuzzer (`make fuzz`); `tests/seeds.rs` runs the same ones over the seeds in
//! `fuzz/seeds` and over inputs [mutated](mutation) from them, in every `cargo test`.
//!
//! | Target | Door |
//! | --- | --- |
//! | [`frames`] | compressed bytes: scan, decode in one call and in a stream, search from the end |
//! | [`rows`] | one row: JSON grammar against serde_json, admission, verdict, rules of its log |
//! | [`headers`] | one header line of any version, and the folder names that follow from it |
//! | [`files`] | a whole session file: read, window, verify, salvage, tolerant rows, append, reopen |
//! | [`calls`] | a sequence of calls of the C library |

pub mod calls;
pub mod files;
pub mod frames;
pub mod headers;
pub mod mutation;
pub mod rows;

/// What a target does with its bytes.
pub type Body = fn(&[u8]);

/// Every target with its name, which is also that of its folder of seeds.
pub const TARGETS: [(&str, Body); 5] = [
    ("frames", frames::run),
    ("rows", rows::run),
    ("headers", headers::run),
    ("files", files::run),
    ("calls", calls::run),
];
