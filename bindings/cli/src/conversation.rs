//! `surface`, `messages`, `closers`: what a log comes to, and what it leaves open.

use crate::context::Context;
use crate::events::{preview, print_event};
use crate::failure::{EXIT_DONE, Failure};
use dsh_session_core::event::Vocabulary;
use dsh_session_core::session::closers::{Cause, TailScan};
use dsh_session_core::session::{DerivedMessage, FoldedSurface, Projections, fold_surface};
use dsh_session_core::{Access, Event, EventRange, Store};

pub(crate) fn surface(context: &mut Context, id: &str, is_balanced: bool) -> Result<i32, Failure> {
    let (events, folded) = folded(context, id, is_balanced)?;
    // A surface holds seqs of the fold's events, which begin with 0.
    for event in folded.nodes.iter().filter_map(|&seq| events.get(usize::try_from(seq).ok()?)) {
        print_event(context, event)?;
    }
    Ok(EXIT_DONE)
}

pub(crate) fn messages(context: &mut Context, id: &str, is_balanced: bool) -> Result<i32, Failure> {
    let (_, folded) = folded(context, id, is_balanced)?;
    for message in &folded.messages {
        if context.is_json {
            context.out.line(message.text())?;
        } else {
            context.out.text(&message_text(message))?;
        }
    }
    Ok(EXIT_DONE)
}

pub(crate) fn closers(context: &mut Context, id: &str) -> Result<i32, Failure> {
    let store = context.store()?;
    let mut tail = Tail::of(&store, id)?;
    let log = store.open_log(id, Access::Read)?;
    for event in log.events(EventRange::ALL, &context.cancel)? {
        tail.see(&event?);
    }
    for closer in tail.closers(context, &store, id)? {
        print_event(context, &closer)?;
    }
    Ok(EXIT_DONE)
}

/// All events of a stored log, with those that close its last turn if asked for, and what they come to.
fn folded(context: &Context, id: &str, is_balanced: bool) -> Result<(Vec<Event>, FoldedSurface), Failure> {
    let store = context.store()?;
    let (mut events, mut tail) = (Vec::new(), Tail::of(&store, id)?);
    for event in store.open_log(id, Access::Read)?.events(EventRange::ALL, &context.cancel)? {
        let event = event?;
        tail.see(&event);
        events.push(event);
    }
    if is_balanced {
        events.extend(tail.closers(context, &store, id)?);
    }
    let folded = fold_surface(events.iter().cloned(), &Projections::built_in(), &Vocabulary::default())
        .map_err(|error| error.with_session_id(id))?;
    Ok((events, folded))
}

/// What the end of a log leaves open.
pub(crate) struct Tail {
    /// Who wrote the session when the reading began: what is read may be old when it ends.
    writer: Option<String>,
    scan: TailScan,
    /// Seq and time of the last event.
    last: Option<(u64, i64)>,
}

impl Tail {
    /// Before the log is read.
    pub(crate) fn of(store: &Store, id: &str) -> Result<Tail, Failure> {
        Ok(Tail { writer: store.writer_of(id)?, scan: TailScan::default(), last: None })
    }

    pub(crate) fn see(&mut self, event: &Event) {
        self.scan.see(event);
        self.last = Some((event.seq(), event.time()));
    }

    /// The events that end an interrupted turn. None where a live program writes the session: its turn is not interrupted
    /// (`design.md` 5, Open turn of a session that another process writes).
    pub(crate) fn closers(&self, context: &Context, store: &Store, id: &str) -> Result<Vec<Event>, Failure> {
        let Some((seq, time)) = self.last.filter(|_| self.scan.is_open()) else { return Ok(Vec::new()) };
        let writer = self.writer.clone().map_or_else(|| store.writer_of(id), |writer| Ok(Some(writer)));
        if let Some(writer) = writer? {
            context.remark(&format!("{id} is being written by {writer}: its open turn is left open"));
            return Ok(Vec::new());
        }
        Ok(self.scan.closers(Cause::Interrupted, seq + 1, time)?)
    }
}

/// One message on one line for a person: its event, who says it, and the beginning of what.
fn message_text(message: &DerivedMessage) -> String {
    let json = message.json();
    let role = json.get("role").and_then(|role| role.as_str()).unwrap_or_default().into_owned();
    let content = json.get("content").map_or("", |content| content.text());
    format!("{:>6}  {role:<10}  {}", message.seq(), preview(content))
}
