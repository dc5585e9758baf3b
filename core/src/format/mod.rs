//! The files: layout, names, header, rows and frames of format 4.

pub mod header;
