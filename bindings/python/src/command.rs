//! The command line (`cli.md`), as the package's `dsh-session` and `python -m dsh_session` run it.

use pyo3::prelude::*;
use std::ffi::OsString;
use std::io::Write;

/// Runs the command line and gives its exit code; `arguments` begin with the program's name.
///
/// It writes to the process's own standard output and error, and takes over the interrupt signal: for programs that do nothing else.
#[pyfunction]
pub(crate) fn run_command_line(py: Python<'_>, arguments: Vec<OsString>) -> i32 {
    py.detach(|| {
        let code = dsh_session_cli::run(arguments);
        // In a program of Rust the end of `main` does this. If nobody reads any more, there is nobody to tell.
        let _ = std::io::stdout().flush();
        code
    })
}
