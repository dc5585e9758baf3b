//! The files: layout, names, header, rows and frames of format 4.

pub mod frames;
pub mod names;
pub mod source_ranges;
pub(crate) mod window;
