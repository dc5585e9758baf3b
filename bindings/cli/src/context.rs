//! What every command works with: the store, the cancel token, and the outputs.

use crate::arguments::Arguments;
use crate::failure::{self, Failure};
use crate::output::Output;
use dsh_session_core::error::{Code, Error};
use dsh_session_core::json::ObjectText;
use dsh_session_core::persistence::Notice;
use dsh_session_core::{CancelToken, Encoding, Store};
use signal_hook::consts::SIGINT;
use signal_hook::{SigId, flag, low_level};
use std::io::Write;
use std::path::PathBuf;

/// One run of the program.
#[derive(Debug)]
pub(crate) struct Context {
    root: PathBuf,
    pub(crate) is_json: bool,
    is_quiet: bool,
    pub(crate) cancel: CancelToken,
    pub(crate) out: Output,
    _interrupts: Interrupts,
}

impl Context {
    pub(crate) fn new(arguments: &Arguments) -> Result<Context, Failure> {
        let root = match &arguments.root {
            Some(root) => root.clone(),
            None => default_root()?,
        };
        let cancel = CancelToken::new();
        let interrupts = Interrupts::cancelling(&cancel)?;
        let (is_json, is_quiet) = (arguments.is_json, arguments.is_quiet);
        Ok(Context { root, is_json, is_quiet, cancel, out: Output::new(), _interrupts: interrupts })
    }

    /// The store of the root.
    pub(crate) fn store(&self) -> Result<Store, Failure> {
        Ok(Store::open(&self.root)?)
    }

    /// The store of the root, with an encoding for new sessions.
    pub(crate) fn store_with(&self, encoding: Option<Encoding>) -> Result<Store, Failure> {
        let builder = Store::builder(&self.root);
        Ok(match encoding {
            Some(encoding) => builder.encoding(encoding),
            None => builder,
        }
        .open()?)
    }

    /// Whether a progress bar is wanted.
    pub(crate) fn wants_progress(&self) -> bool {
        !self.is_quiet
    }

    /// Says something for a person beside the results, on standard error.
    pub(crate) fn remark(&self, text: &str) {
        if !self.is_quiet && !self.is_json {
            // A remark that nobody can read is no failure.
            let _ = writeln!(std::io::stderr(), "dsh-session: {text}");
        }
    }

    /// Tells a finding that is no failure of the command, in the form of an error.
    pub(crate) fn tell(&self, finding: &Error) {
        failure::print(finding, None, self.is_json);
    }

    /// Tells what a handle has noticed after its first `known` notices; gives how many there are now.
    pub(crate) fn announce(&self, notices: &[Notice], known: usize) -> usize {
        for notice in notices.iter().skip(known).filter(|_| !self.is_quiet) {
            let json = notice.to_json();
            let line = if self.is_json { object("notice", &json) } else { format!("dsh-session: {json}") };
            let _ = writeln!(std::io::stderr(), "{line}");
        }
        notices.len()
    }
}

/// An object with one member, whose value is JSON text.
pub(crate) fn object(key: &str, value: &str) -> String {
    let mut out = ObjectText::new();
    out.json(key, value);
    out.finish()
}

/// `$DSH_HOME/sessions`; an empty or missing `DSH_HOME` means `~/.dsh`.
fn default_root() -> Result<PathBuf, Error> {
    let home = std::env::var_os("DSH_HOME").filter(|home| !home.is_empty()).map(PathBuf::from);
    let home = home.or_else(|| {
        std::env::home_dir().filter(|home| !home.as_os_str().is_empty()).map(|home| home.join(".dsh"))
    });
    match home {
        Some(home) => Ok(home.join("sessions")),
        None => Err(Error::new(Code::InvalidArgument, "neither DSH_HOME nor a home folder is known")
            .with_advice("name the folder of the sessions with --root")),
    }
}

/// While it lives, the first Ctrl-C cancels what runs and the second one ends the process.
#[derive(Debug)]
struct Interrupts {
    registered: Vec<SigId>,
}

impl Interrupts {
    fn cancelling(cancel: &CancelToken) -> Result<Interrupts, Failure> {
        let refused = |error| Failure::Stream("watch for Ctrl-C", error);
        let mut interrupts = Interrupts { registered: Vec::new() };
        // Actions run in the order of their registration: the first signal finds the flag unset, and sets it.
        let ending = flag::register_conditional_default(SIGINT, cancel.flag()).map_err(refused)?;
        interrupts.registered.push(ending);
        interrupts.registered.push(flag::register(SIGINT, cancel.flag()).map_err(refused)?);
        Ok(interrupts)
    }
}

impl Drop for Interrupts {
    /// A program that offers this command line as a function has its own handler back.
    fn drop(&mut self) {
        for id in self.registered.drain(..) {
            low_level::unregister(id);
        }
    }
}
