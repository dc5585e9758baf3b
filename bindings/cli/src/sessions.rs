//! `list`, `stat`, `create`, `delete`: sessions as wholes.

use crate::arguments::{Create, Delete};
use crate::context::Context;
use crate::failure::{EXIT_DONE, Failure};
use crate::output::{bytes_text, table, time_text};
use dsh_session_core::error::{Code, Error};
use dsh_session_core::json::ObjectText;
use dsh_session_core::persistence::Snapshot;
use dsh_session_core::{ListMode, NewSession, Removal};

pub(crate) fn list(context: &mut Context) -> Result<i32, Failure> {
    let listing = context.store()?.list_with(ListMode::Tolerant, &context.cancel)?;
    if context.is_json {
        for session in &listing.sessions {
            context.out.line(&session.to_json())?;
        }
        for problem in &listing.problems {
            context.out.line(&problem.to_json())?;
        }
        return Ok(EXIT_DONE);
    }
    for line in table(&listing.sessions.iter().map(snapshot_cells).collect::<Vec<_>>()) {
        context.out.text(&line)?;
    }
    for problem in &listing.problems {
        let name = problem.id.clone().unwrap_or_else(|| problem.path.display().to_string());
        context.out.text(&format!("! {name}: {}", problem.error))?;
    }
    Ok(EXIT_DONE)
}

pub(crate) fn stat(context: &mut Context, id: &str) -> Result<i32, Failure> {
    let Some(session) = context.store()?.stat(id)? else {
        let message = format!("there is no session {id}");
        return Err(Error::new(Code::SessionNotFound, message).with_session_id(id).into());
    };
    if context.is_json {
        context.out.line(&session.to_json())?;
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
        context.out.text(&line)?;
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
    if context.is_json {
        let mut out = ObjectText::new();
        out.string("id", session.id());
        context.out.line(&out.finish())?;
    } else {
        context.out.text(session.id())?;
    }
    Ok(EXIT_DONE)
}

pub(crate) fn delete(context: &mut Context, arguments: &Delete) -> Result<i32, Failure> {
    let how = if arguments.is_trash { Removal::Trash } else { Removal::Delete };
    let aside = context.store()?.remove(&arguments.id, how)?;
    let aside = aside.map(|path| path.to_string_lossy().into_owned());
    if context.is_json {
        let mut out = ObjectText::new();
        out.string("id", &arguments.id);
        if let Some(aside) = &aside {
            out.string("path", aside);
        }
        context.out.line(&out.finish())?;
    } else {
        let what = aside.map_or_else(|| "removed".to_owned(), |aside| format!("moved to {aside}"));
        context.out.text(&format!("{} {what}", arguments.id))?;
    }
    Ok(EXIT_DONE)
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
