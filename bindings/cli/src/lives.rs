//! `resume`, `fork`: new lives of recorded sessions.

use crate::arguments::Fork;
use crate::context::Context;
use crate::failure::{EXIT_DONE, Failure};
use dsh_session_core::error::{Code, Error};
use dsh_session_core::json::ObjectText;
use dsh_session_core::{Access, NewSession};

pub(crate) fn resume(context: &mut Context, id: &str) -> Result<i32, Failure> {
    let store = context.store()?;
    // What stands in the log before, so that what the resume adds can be told apart.
    let stored = store.open_log(id, Access::Read)?.event_count(&context.cancel)?;
    let session = store.resume_with(id, &context.cancel)?;
    context.announce(&session.notices(), 0);
    session.flush_with(&context.cancel)?;
    session.close()?;
    let closers = session.first_live_seq().saturating_sub(stored);
    let next_seq = session.next_seq();
    let line = if context.is_json {
        let mut out = ObjectText::new();
        out.number("closers", closers);
        out.number("seq", next_seq);
        out.finish()
    } else {
        format!("{id}: {closers} events close an interrupted turn, {next_seq} events")
    };
    if context.is_json {
        context.out.line(&line)?
    } else {
        context.out.text(&line)?
    }
    Ok(EXIT_DONE)
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
    let line = if context.is_json {
        let mut out = ObjectText::new();
        out.string("id", id);
        out.number("inheritedEventCount", inherited);
        out.finish()
    } else {
        format!("{id}: {inherited} events of {}", arguments.id)
    };
    if context.is_json {
        context.out.line(&line)?
    } else {
        context.out.text(&line)?
    }
    Ok(EXIT_DONE)
}
