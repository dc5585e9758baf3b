//! What a rule of stored logs says about the row that breaks it.

use crate::error::{At, Code, Error};
use std::borrow::Cow;

/// Which check a rule belongs to. They are ordered: of one row, the first of them speaks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Stage {
    /// R1 to R11 (`format.md` 5.2): ends a read wherever the row stands.
    Admission,
    /// What this build can read at all (`format.md` 5.6).
    Vocabulary,
    /// What an event must be like whatever stands around it (`format.md` 5.7).
    Acceptance,
    /// What binds several rows (`format.md` 5.5, `events.md` 11).
    Relationship,
}

/// A broken rule.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Breach {
    stage: Stage,
    rule: &'static str,
    message: Cow<'static, str>,
    is_unsupported: bool,
    earlier: Option<u64>,
}

impl Breach {
    pub(crate) fn new(stage: Stage, rule: &'static str, message: impl Into<Cow<'static, str>>) -> Breach {
        Breach { stage, rule, message: message.into(), is_unsupported: false, earlier: None }
    }

    /// The log is whole, but of a kind that this build does not read.
    pub(crate) fn unsupported(
        stage: Stage,
        rule: &'static str,
        message: impl Into<Cow<'static, str>>,
    ) -> Breach {
        Breach { is_unsupported: true, ..Breach::new(stage, rule, message) }
    }

    /// The breach is that of an earlier event than the one that decided it.
    pub(crate) fn of_earlier(mut self, seq: u64) -> Breach {
        self.earlier = Some(seq);
        self
    }

    /// The check that the rule belongs to.
    #[must_use]
    pub fn stage(&self) -> Stage {
        self.stage
    }

    /// R1 to R11, A1 to A25, or a code of `session.md` 20.
    #[must_use]
    pub fn rule(&self) -> &'static str {
        self.rule
    }

    /// What the row does wrong, for people.
    #[must_use]
    pub fn message(&self) -> &str {
        &self.message
    }

    /// Whether the log is unsupported and not corrupt.
    #[must_use]
    pub fn is_unsupported(&self) -> bool {
        self.is_unsupported
    }

    /// The event that breaks the rule, where it is not the one that was judged but an earlier one, of which a later row decided.
    #[must_use]
    pub fn earlier_seq(&self) -> Option<u64> {
        self.earlier
    }

    /// The error of a stored log that holds the row. Where the row stands is added by its reader.
    pub(crate) fn error(&self) -> Error {
        let code = if self.is_unsupported { Code::FormatUnsupported } else { Code::SessionCorrupt };
        let at = if self.stage == Stage::Relationship { At::Relationship } else { At::Row };
        Error::new(code, self.message.clone()).with_rule(self.rule).with_at(at)
    }
}
