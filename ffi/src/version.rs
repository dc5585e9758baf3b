//! Which library this is, and what it can do.

use crate::buffer::dsh_str;
use crate::input;
use std::ffi::c_char;

/// Changes only when a program built against an older header would break; the number in the soname.
pub const ABI_MAJOR: u32 = 1;

/// Grows with each addition: a program needs a library at least as new as its header. Counts from 1, so the
/// comparison in the header is never with 0.
pub const ABI_MINOR: u32 = 1;

/// What `dsh_has_feature` knows, by name; one word for each part of the library that an older one may lack.
pub const FEATURES: [&str; 14] = [
    "files",
    "memory",
    "zstd",
    "log-callback",
    "verify",
    "salvage",
    "rows",
    "stats",
    "remove",
    "sessions",
    "listeners",
    "projections",
    "folds",
    "uploads",
];

/// The ABI of the library: major version times 65536 plus minor version. Compare through the header's
/// `dsh_check_abi`.
#[unsafe(no_mangle)]
pub extern "C" fn dsh_abi_version() -> u32 {
    ABI_MAJOR << 16 | ABI_MINOR
}

/// The version of the library, such as `0.1.0`; followed by a NUL, lives for ever.
#[unsafe(no_mangle)]
pub extern "C" fn dsh_version() -> dsh_str {
    const VERSION: &str = concat!(env!("CARGO_PKG_VERSION"), "\0");
    dsh_str { ptr: VERSION.as_ptr().cast(), len: VERSION.len() - 1 }
}

/// Whether the library has a part: `files`, `memory` (stores without a root), `zstd`, `log-callback`,
/// `verify`, `salvage`, `rows`, `stats`, `remove`, `sessions` (surface, messages, resume,
/// fork), `listeners`, `projections`, `folds`, `uploads`. False for words it does not know.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dsh_has_feature(name: *const c_char, name_len: usize) -> bool {
    // SAFETY: C2.
    unsafe { input::text(name, name_len, "the name") }.is_ok_and(|name| FEATURES.contains(&name))
}
