//! One log in memory: what it accepts, and everything that is folded from it (`session.md`).
//!
//! | File | Holds |
//! | --- | --- |
//! | `closers` | the events that end what a log's last turn left open |
//! | `folds` | request header, request context, tool history, title |
//! | `upload_exclusions` | which sessions are not uploaded, and what is uploaded next |
//! | `nodes` | which events stand on the surface, in order, and how a change of it is taken back |

pub mod closers;
pub mod folds;
pub(crate) mod nodes;
pub mod upload_exclusions;
