//! What is accepted on the command line. Options of commands that do not exist yet are refused like any unknown word.

use clap::{Args, Parser, Subcommand, ValueEnum};
use dsh_session_core::Encoding;
use std::num::NonZeroU64;
use std::path::PathBuf;

/// Record, read, check and mend the session logs of AI agents.
#[derive(Debug, Parser)]
#[command(name = "dsh-session", version, about, max_term_width = 100)]
pub(crate) struct Arguments {
    /// The folder that holds the sessions [default: $DSH_HOME/sessions, with ~/.dsh for DSH_HOME].
    #[arg(long, value_name = "DIR", global = true)]
    pub(crate) root: Option<PathBuf>,

    /// Print JSON, one value a line, also for errors.
    #[arg(long = "json", global = true)]
    pub(crate) is_json: bool,

    /// Print no progress and no remarks, only results and errors.
    #[arg(long = "quiet", global = true)]
    pub(crate) is_quiet: bool,

    /// Neither use nor make an index file. There is none yet, so this changes nothing.
    #[arg(long = "no-index", global = true)]
    _no_index: bool,

    #[command(subcommand)]
    pub(crate) command: Command,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// All sessions, most recent first, then what in the root is not usable.
    List,
    /// One session without its events.
    Stat(One),
    /// Events in log order.
    Events(EventsOf),
    /// The events that make the messages a model sees, in their order, of the log as stored.
    Surface(Balanceable),
    /// The messages a model sees, in order, of the log as stored.
    Messages(Balanceable),
    /// The events that a resume would append to end an interrupted turn.
    Closers(One),
    /// Where an event came from and what became of it.
    Trace(Trace),
    /// Where a session came from and what came from it.
    Lineage(One),
    /// The title of a session.
    Title(One),
    /// The sessions, or the events of one session, that pass filters.
    Filter(Filter),
    /// Every line of a log as it stands there, with what is wrong with it; of any version, damaged or not.
    Rows(One),
    /// A new session, on disk when the command returns.
    Create(Create),
    /// Append events, one JSON object per line of standard input.
    Append(Append),
    /// Take a session up again: close an interrupted turn, append the marker of a new life.
    Resume(One),
    /// A new session that begins with the events of another.
    Fork(Fork),
    /// Remove a session, or move its folder aside; refused while it is owned.
    Delete(Delete),
    /// Read everything, change nothing, and judge each session.
    Verify(OneOrAll),
    /// Events before the damage, as rows.
    Salvage(Salvage),
    /// Counts by type, bytes, frames, largest rows, tokens where recorded.
    Stats(OneOrAll),
}

#[derive(Debug, Args)]
pub(crate) struct One {
    /// The session.
    pub(crate) id: String,
}

#[derive(Debug, Args)]
pub(crate) struct Trace {
    /// The session.
    pub(crate) id: String,

    /// The event.
    pub(crate) seq: u64,
}

#[derive(Debug, Args)]
pub(crate) struct Filter {
    /// The session whose events are filtered; all sessions without it.
    pub(crate) id: Option<String>,

    /// The clauses, as a JSON array, such as `[{"kind":"text","text":"north gate"}]`.
    #[arg(long = "where", value_name = "JSON")]
    pub(crate) filters: String,
}

#[derive(Debug, Args)]
pub(crate) struct OneOrAll {
    /// The session; all of them without it.
    pub(crate) id: Option<String>,
}

#[derive(Debug, Args)]
pub(crate) struct EventsOf {
    /// The session.
    pub(crate) id: String,

    /// The first event to show, by its seq.
    #[arg(long, value_name = "N", default_value_t = 0)]
    pub(crate) from: u64,

    /// How many events to show at most.
    #[arg(long, value_name = "N")]
    pub(crate) limit: Option<u64>,

    /// The newest events only; reads no more of the log than it must.
    #[arg(long, value_name = "N", conflicts_with_all = ["from", "limit"])]
    pub(crate) newest: Option<u64>,

    /// Close an interrupted turn, in memory; not while a live program writes the session.
    #[arg(long = "balanced", conflicts_with = "newest")]
    pub(crate) is_balanced: bool,

    /// Show the header line first.
    #[arg(long = "header")]
    pub(crate) shows_header: bool,
}

#[derive(Debug, Args)]
pub(crate) struct Balanceable {
    /// The session.
    pub(crate) id: String,

    /// Close an interrupted turn, in memory; not while a live program writes the session.
    #[arg(long = "balanced")]
    pub(crate) is_balanced: bool,
}

#[derive(Debug, Args)]
pub(crate) struct Fork {
    /// The session that is forked; it is only read.
    pub(crate) id: String,

    /// The last event that the child inherits, by its seq [default: the end of the last finished turn, with what belongs to it].
    #[arg(long, value_name = "N")]
    pub(crate) at: Option<u64>,

    /// The child's id; one is made up without it.
    #[arg(long = "id", value_name = "NEW")]
    pub(crate) new_id: Option<String>,
}

#[derive(Debug, Args)]
pub(crate) struct Create {
    /// The id; one is made up without it.
    #[arg(long)]
    pub(crate) id: Option<String>,

    /// The working directory, an absolute path.
    #[arg(long, value_name = "DIR")]
    pub(crate) cwd: Option<String>,

    /// Header fields as a JSON object; the options above win.
    #[arg(long, value_name = "JSON")]
    pub(crate) header: Option<String>,

    /// How the log is stored [default: as the root does it, zstd in an empty one].
    #[arg(long, value_enum)]
    pub(crate) encoding: Option<EncodingName>,
}

#[derive(Debug, Args)]
pub(crate) struct Delete {
    /// The session.
    pub(crate) id: String,

    /// Move the folder to `<root>.trash`, beside the root, instead of removing it.
    #[arg(long = "trash")]
    pub(crate) is_trash: bool,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
pub(crate) enum EncodingName {
    Zstd,
    None,
}

impl From<EncodingName> for Encoding {
    fn from(name: EncodingName) -> Encoding {
        match name {
            EncodingName::Zstd => Encoding::Zstd,
            EncodingName::None => Encoding::None,
        }
    }
}

#[derive(Debug, Args)]
pub(crate) struct Append {
    /// The session.
    pub(crate) id: String,

    /// Create the session if there is none.
    #[arg(long = "create")]
    pub(crate) creates: bool,

    /// The working directory of a session that is created, an absolute path.
    #[arg(long, value_name = "DIR", requires = "creates")]
    pub(crate) cwd: Option<String>,

    /// Make events durable after so many; what is left, at the end of the input.
    #[arg(long, value_name = "N", default_value = "100")]
    pub(crate) flush_every: NonZeroU64,
}

#[derive(Debug, Args)]
pub(crate) struct Salvage {
    /// The session.
    pub(crate) id: String,

    /// Also show rows that can be read after the damage, marked; they are no part of the log.
    #[arg(long = "all")]
    pub(crate) shows_after: bool,
}
