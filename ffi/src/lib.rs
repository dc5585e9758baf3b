//! The C library: converts, calls the core, converts back (`design.md` 7). One file per handle.
//!
//! Every function that C sees is `unsafe extern "C"` and runs through `guard`, which checks the handle,
//! catches panics and writes the error object. Nothing else in the workspace says `unsafe`; what it relies on
//! here are the promises that a C caller makes by calling, written in the prologue of the header and named in
//! the `SAFETY` comments as
//!
//! * **C1, handles**: a handle is NULL or came from this library, was not freed, and is not freed while a
//!   call is inside it. (A wrong kind, and most handles that were freed, are found by their magic number and
//!   refused; nothing relies on that.)
//! * **C2, inputs**: a pointer and a length describe readable memory that nobody changes during the call;
//!   NULL goes with length 0.
//! * **C3, outputs**: a pointer to a result or to `err` is NULL or writable and aligned; what it holds is not
//!   read.
//! * **C4, structs**: a struct with a `struct_size` is NULL or that many bytes, readable (inputs) or writable
//!   (outputs).
//! * **C5, views**: an event view is given back before the next call on its iterator, or is a kept one that
//!   was not released.
//! * **C6, callbacks**: a callback may be called with its `user` from any thread until its destructor was
//!   called.
#![allow(non_camel_case_types, reason = "the types are named as C names them")]
#![allow(
    clippy::missing_safety_doc,
    reason = "the contract is C1 to C6, which stands once, and in the header"
)]

pub mod buffer;
pub mod callback;
pub mod cancel;
pub mod errors;
pub mod events;
pub mod folds;
mod guard;
mod handle;
mod input;
pub mod lines;
pub mod listeners;
pub mod live;
pub mod log;
pub mod messages;
mod output;
pub mod projections;
pub mod query;
pub mod reads;
pub mod session;
pub mod status;
pub mod store;
pub mod surface;
#[cfg(feature = "test-panics")]
pub mod test_panics;
pub mod uploads;
pub mod version;
