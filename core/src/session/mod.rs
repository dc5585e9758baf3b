//! One log in memory: what it accepts, and everything that is folded from it (`session.md`).
//!
//! | File | Holds |
//! | --- | --- |
//! | `session` | a session: read, and its states |
//! | `construction` | a session being put together |
//! | `append` | acceptance, commit and publication of events |
//! | `acceptance` | what an event must be like on its own |
//! | `log` | the events, and snapshots of them |
//! | `surface` | which events make messages, and how an event changes that |
//! | `projection` | events that change the content of earlier messages; `image/offload` |
//! | `message` | the messages that a model sees |
//! | `folds` | request header, request context, tool history, title |
//! | `seed` | how a session begins; the seed of a fork |
//! | `closers` | the events that end what a log's last turn left open |
//! | `gate`, `hub` | one writer at a time; what the sessions of a store share |
//! | `durability` | how a session is tied to what keeps it on the disk |
//! | `upload_exclusions` | which sessions are not uploaded, and what is uploaded next |

mod acceptance;
mod append;
pub mod closers;
pub(crate) mod construction;
pub(crate) mod durability;
mod fold_surface;
pub mod folds;
pub(crate) mod gate;
pub(crate) mod hub;
mod log;
mod message;
mod primitives;
mod projection;
pub(crate) mod seed;
#[allow(clippy::module_inception, reason = "the session of the session room")]
pub(crate) mod session;
mod surface;
pub mod upload_exclusions;

pub use durability::Pending;
pub use fold_surface::{FoldedSurface, Replacement, fold_surface, fold_surface_window};
pub use hub::{SessionRules, Subscription};
pub use log::{Snapshot, SnapshotIntoIter};
pub use message::{DerivedMessage, Messages};
pub use projection::{ImageOffload, MessageProjection, ProjectionContext, Projections, Registration};
pub use seed::{Seed, SeedMode, fork_seed, header_from_json};
pub use session::{Session, SurfaceView, WriteState};
