//! A bar on a terminal's standard error, nothing elsewhere.

use indicatif::{ProgressBar, ProgressStyle};
use std::io::IsTerminal;

/// The progress of one command.
#[derive(Debug)]
pub(crate) struct Bar {
    /// `None` where nobody looks.
    bar: Option<ProgressBar>,
}

impl Bar {
    /// A bar over `bytes` of files, shown only if standard error is a terminal and `is_wanted`.
    pub(crate) fn over_bytes(bytes: u64, is_wanted: bool) -> Bar {
        if !is_wanted || !std::io::stderr().is_terminal() {
            return Bar { bar: None };
        }
        let bar = ProgressBar::new(bytes);
        // A template that does not parse would leave indicatif's own, which does as well.
        if let Ok(style) = ProgressStyle::with_template("{wide_bar} {bytes}/{total_bytes} {msg}") {
            bar.set_style(style);
        }
        Bar { bar: Some(bar) }
    }

    /// Shows how far it is.
    pub(crate) fn at(&self, bytes: u64, what: impl FnOnce() -> String) {
        if let Some(bar) = &self.bar {
            bar.set_message(what());
            bar.set_position(bytes);
        }
    }

    /// Takes the bar away.
    pub(crate) fn end(self) {
        if let Some(bar) = self.bar {
            bar.finish_and_clear();
        }
    }
}
