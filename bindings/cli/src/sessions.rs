//! `list`, `stat`, `create`: sessions as wholes.

use crate::arguments::Create;
use crate::context::Context;
use crate::failure::{EXIT_DONE, Failure};
use crate::output::{bytes_text, table, time_text};
use dsh_session_core::error::{Code, Error};
use dsh_session_core::format::header::encode_line;
use dsh_session_core::json::ObjectText;
use dsh_session_core::persistence::{Problem, Snapshot};
use dsh_session_core::{ListMode, NewSession};

pub(crate) fn list(context: &mut Context) -> Result<i32, Failure> {
    let listing = context.store()?.list_with(ListMode::Tolerant, &context.cancel)?;
    if context.is_json {
        for session in &listing.sessions {
            context.out.line(&snapshot_json(session))?;
        }
        for problem in &listing.problems {
            context.out.line(&problem_json(problem))?;
        }
        return Ok(EXIT_DONE);
    }
    for line in table(&listing.sessions.iter().map(snapshot_cells).collect::<Vec<_>>()) {
        context.out.line(&line)?;
    }
    for problem in &listing.problems {
        let name = problem.id.clone().unwrap_or_else(|| problem.path.display().to_string());
        context.out.line(&format!("! {name}: {}", problem.error))?;
    }
    Ok(EXIT_DONE)
}

pub(crate) fn stat(context: &mut Context, id: &str) -> Result<i32, Failure> {
    let Some(session) = context.store()?.stat(id)? else {
        let message = format!("there is no session {id}");
        return Err(Error::new(Code::SessionNotFound, message).with_session_id(id).into());
    };
    if context.is_json {
        context.out.line(&snapshot_json(&session))?;
        return Ok(EXIT_DONE);
    }
    let header = &session.header;
    let mut rows = vec![vec!["id".to_owned(), header.id.clone()]];
    let mut row = |name: &str, value: Option<String>| {
        rows.extend(value.map(|value| vec![name.to_owned(), value]));
    };
    row("created", Some(created_text(&session)));
    row("cwd", header.cwd.clone());
    row("parent", header.parent_session.clone());
    row("preset", header.agent_preset.clone());
    row("seeded", header.is_seeded.then(|| "yes".to_owned()));
    row("format", session.format_status.map(|status| status.as_str().to_owned()));
    row("size", session.size_bytes.map(bytes_text));
    row("log", session.path.as_ref().map(|path| path.display().to_string()));
    row("revision", Some(session.revision.to_string()));
    for line in table(&rows) {
        context.out.line(&line)?;
    }
    Ok(EXIT_DONE)
}

pub(crate) fn create(context: &mut Context, arguments: Create) -> Result<i32, Failure> {
    let mut new = match &arguments.header {
        Some(header) => NewSession::from_json(header)?,
        None => NewSession::new(),
    };
    if let Some(id) = arguments.id {
        // An empty id in a library call means one that is minted; on the command line somebody wrote it.
        if id.is_empty() {
            return Err(Error::new(Code::InvalidArgument, "the id is empty").into());
        }
        new.header.id = id;
    }
    if let Some(cwd) = arguments.cwd {
        new.header.cwd = Some(cwd);
    }
    let session = context.store_with(arguments.encoding.map(Into::into))?.create(new)?;
    session.flush_with(&context.cancel)?;
    session.close()?;
    let id = session.id();
    let line = if context.is_json {
        let mut out = ObjectText::new();
        out.string("id", id);
        out.finish()
    } else {
        id.to_owned()
    };
    context.out.line(&line)?;
    Ok(EXIT_DONE)
}

/// The line of `list` and `stat` (`cli.md`). Titles and times of activity are not known yet, and left out where unknown.
fn snapshot_json(session: &Snapshot) -> String {
    let mut out = ObjectText::new();
    out.json("header", &encode_line(&session.header));
    if let Some(status) = session.format_status {
        out.string("formatStatus", status.as_str());
    }
    if let Some(bytes) = session.size_bytes {
        out.number("sizeBytes", bytes);
    }
    out.string("revision", session.revision.as_str());
    out.finish()
}

fn problem_json(problem: &Problem) -> String {
    let mut inner = ObjectText::new();
    inner.string("path", &problem.path.to_string_lossy());
    if let Some(id) = &problem.id {
        inner.string("id", id);
    }
    inner.string("code", problem.error.code().name());
    inner.string("message", problem.error.message());
    let mut out = ObjectText::new();
    out.json("problem", &inner.finish());
    out.finish()
}

fn snapshot_cells(session: &Snapshot) -> Vec<String> {
    let header = &session.header;
    vec![
        header.id.clone(),
        created_text(session),
        session.size_bytes.map_or(String::new(), bytes_text),
        session.format_status.map_or("", |status| status.as_str()).to_owned(),
        header.cwd.clone().unwrap_or_else(|| "-".to_owned()),
    ]
}

fn created_text(session: &Snapshot) -> String {
    i64::try_from(session.header.created_at).map_or(String::new(), time_text)
}
