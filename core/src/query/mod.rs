//! Asking a whole root: what is in it, what is damaged, what can still be read.
//!
//! | File | Holds |
//! | --- | --- |
//! | `verify` | reads everything, changes nothing, one judgement a session |
//! | `salvage` | the events before damage, and what is readable after it |
//! | `rows` | tolerant raw rows |
//! | `stats` | counts, sizes, largest rows, tokens |

mod rows;
mod salvage;
mod stats;
mod verify;

pub use rows::Rows;
pub use salvage::{AfterDamage, Salvage};
pub use stats::{LARGEST_ROWS_MAX, LargeRow, Stats, TokenSums};
pub use verify::{Outcome, Progress, Verification, Verifications};

pub(crate) use rows::rows;
pub(crate) use stats::stats;
