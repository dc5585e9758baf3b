//! Asking a whole root: what is in it, what was said, what is damaged, what can still be read.
//!
//! | File | Holds |
//! | --- | --- |
//! | `corpus` | live and stored sessions as one; the exact reads |
//! | `observation` | one session as it was at one moment; the log of a stored one, balanced |
//! | `cold_cache` | stored logs that were read, shared by those who ask again |
//! | `storage_error` | what a failure of the storage means to a query |
//! | `records` | the lines of lists: sessions, events, documents |
//! | `text` | what of an event can be found by its words |
//! | `surface` | where each event of a log stands |
//! | `filters` | clauses about sessions and events |
//! | `text_clause`, `case_fold` | the literal text filter |
//! | `window` | an event and its neighbours |
//! | `trace`, `lineage` | where an event, a session came from |
//! | `titles` | titles, one and many |
//! | `transcript` | what a person would read |
//! | `verify` | reads everything, changes nothing, one judgement a session |
//! | `salvage` | the events before damage, and what is readable after it |
//! | `rows` | tolerant raw rows |
//! | `stats` | counts, sizes, largest rows, tokens |

mod case_fold;
mod case_fold_table;
mod cold_cache;
mod corpus;
#[cfg(test)]
mod corpus_tests;
mod filters;
mod lineage;
mod observation;
mod records;
mod rows;
mod salvage;
mod stats;
mod storage_error;
mod surface;
mod text;
mod text_clause;
mod titles;
mod trace;
mod transcript;
mod verify;
mod window;

pub use cold_cache::CACHED_TEXT_BYTES_MAX;
pub use corpus::{Corpus, QuerySettings, TitleResult};
pub use filters::{Availability, Bounds, EventFilter, SessionFilter};
pub use lineage::{Descendant, LineageEnd, SessionLineage};
pub use observation::{ReadSession, ReadSurface};
pub use records::{Document, EventRecord, SessionRecord, SurfacePlace};
pub use rows::Rows;
pub use salvage::{AfterDamage, Salvage};
pub use stats::{LARGEST_ROWS_MAX, LargeRow, Stats, TokenSums};
pub use surface::{FoldRules, documents, event_records};
pub use text::semantic_text;
pub use text_clause::TextClause;
pub use titles::{TitleRecord, TitleSnapshot};
pub use trace::EventTrace;
pub use transcript::{TranscriptEntry, transcript};
pub use verify::{Outcome, Progress, Verification, Verifications};
pub use window::{EventRequest, EventWindow};

pub(crate) use rows::rows;
pub(crate) use stats::stats;

use crate::error::{Code, Error};
use crate::event::Event;

fn session_not_found(id: &str) -> Error {
    Error::new(Code::QuerySessionNotFound, format!("no session {id} is live or stored")).with_session_id(id)
}

/// Events as the JSON text of an array.
fn event_list(events: &[Event]) -> String {
    let mut text = String::from("[");
    for (index, event) in events.iter().enumerate() {
        if index > 0 {
            text.push(',');
        }
        text.push_str(&event.logical_row());
    }
    text.push(']');
    text
}
