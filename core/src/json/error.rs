//! What is wrong with a text that is not JSON, and at which byte.

use std::fmt;

/// Why a text is not one JSON value, and where.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct JsonError {
    /// The byte in the text at which it cannot go on, from 0.
    pub offset: usize,
    /// What was wrong there.
    pub kind: JsonErrorKind,
}

/// What is wrong with a text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum JsonErrorKind {
    /// The grammar is broken: what was expected or found, for people.
    Syntax(&'static str),
    /// More arrays and objects stand inside each other than the limit allows.
    TooDeep {
        /// The limit that was passed.
        depth_max: u32,
    },
}

impl JsonError {
    #[cold]
    pub(super) fn syntax(offset: usize, what: &'static str) -> Self {
        JsonError { offset, kind: JsonErrorKind::Syntax(what) }
    }

    #[cold]
    pub(super) fn too_deep(offset: usize, depth_max: u32) -> Self {
        JsonError { offset, kind: JsonErrorKind::TooDeep { depth_max } }
    }
}

impl fmt::Display for JsonError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.kind {
            JsonErrorKind::Syntax(what) => write!(f, "{what} at byte {}", self.offset),
            JsonErrorKind::TooDeep { depth_max } => {
                write!(
                    f,
                    "more than {depth_max} arrays and objects inside each other at byte {}",
                    self.offset
                )
            }
        }
    }
}

impl std::error::Error for JsonError {}
