//! `resume`, `fork`: new lives of recorded sessions.

use crate::arguments::Fork;
use crate::context::Context;
use crate::failure::{EXIT_DONE, Failure};
use dsh_session_core::NewSession;
use dsh_session_core::error::{Code, Error};
use dsh_session_core::json::ObjectText;
use dsh_session_core::persistence::Notice;

pub(crate) fn resume(context: &mut Context, id: &str) -> Result<i32, Failure> {
    let store = context.store()?;
    let session = store.resume_with(id, &context.cancel)?;
    context.announce(&session.notices(), 0);
    session.flush_with(&context.cancel)?;
    session.close()?;
    let closers = closers_of(&session.notices());
    let next_seq = session.next_seq();
    if context.is_json {
        let mut out = ObjectText::new();
        out.number("closers", closers);
        out.number("seq", next_seq);
        context.out.line(&out.finish())?;
    } else {
        context.out.text(&format!("{id}: {closers} events close an interrupted turn, {next_seq} events"))?;
    }
    Ok(EXIT_DONE)
}

/// How many events a resume has added to close a turn.
fn closers_of(notices: &[Notice]) -> u64 {
    let closed = notices.iter().find_map(|notice| match notice {
        Notice::TurnClosed { events } => Some(*events),
        _ => None,
    });
    closed.unwrap_or(0)
}

pub(crate) fn fork(context: &mut Context, arguments: Fork) -> Result<i32, Failure> {
    let mut new = NewSession::new();
    if let Some(id) = arguments.new_id {
        // An empty id in a library call means one that is minted; on the command line somebody wrote it.
        if id.is_empty() {
            return Err(Error::new(Code::InvalidArgument, "the id is empty").into());
        }
        new = new.id(id);
    }
    let child = context.store()?.fork_with(&arguments.id, arguments.at, new, &context.cancel)?;
    child.flush_with(&context.cancel)?;
    child.close()?;
    let (id, inherited) = (child.id(), child.inherited_event_count());
    if context.is_json {
        let mut out = ObjectText::new();
        out.string("id", id);
        out.number("inheritedEventCount", inherited);
        context.out.line(&out.finish())?;
    } else {
        context.out.text(&format!("{id}: {inherited} events of {}", arguments.id))?;
    }
    Ok(EXIT_DONE)
}
