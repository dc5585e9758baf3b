//! placeholder
/// later
pub fn run(_: &[u8]) {}
