//! The operating system's files.
/// The operating system.
#[derive(Debug, Default)]
pub struct OsStorage;
