//! One log in memory: what it accepts, and everything that is folded from it (`session.md`).
//!
//! | File | Holds |
//! | --- | --- |
//! | `nodes` | which events stand on the surface, in order, and how a change of it is taken back |

pub(crate) mod nodes;
