//! `append`: one event per line of standard input, durable in steps.
//!
//! A thread reads lines, so that Ctrl-C is seen while the input is silent. It may still wait for a line when the command is over; the
//! end of the process ends it, and nothing of the session is in its hands.

use crate::arguments::Append;
use crate::context::Context;
use crate::failure::{EXIT_DONE, Failure};
use dsh_session_core::error::{Code, Error};
use dsh_session_core::json::ObjectText;
use dsh_session_core::{CancelToken, NewSession, Session, Store};
use std::io::{self, BufRead};
use std::sync::mpsc::{Receiver, RecvTimeoutError, sync_channel};
use std::time::Duration;

/// How long a cancellation may stay unseen while the input is silent.
const CANCEL_WAIT: Duration = Duration::from_millis(50);

/// Lines read ahead of the one that is being appended.
const LINES_AHEAD: usize = 64;

pub(crate) fn append(context: &mut Context, arguments: &Append) -> Result<i32, Failure> {
    let session = open(&context.store()?, arguments, &context.cancel)?;
    let known = context.announce(&session.notices(), 0);
    let mut accepting = Accepting {
        session: &session,
        flushed: session.next_seq(),
        flush_every: arguments.flush_every.get(),
        is_heard: true,
    };
    let taken = accepting.take_lines(context);
    // Whatever stopped the input: what was accepted before is made durable, and only then is the reason told.
    let settled = accepting.flush(context, &CancelToken::new());
    let closed = session.close().map_err(Failure::from);
    context.announce(&session.notices(), known);
    taken.and(settled).and(closed)?;
    let next_seq = session.next_seq();
    if context.is_json {
        context.out.line(&number_object("seq", next_seq))?;
    } else {
        context.out.text(&format!("{}: {next_seq} events", session.id()))?;
    }
    Ok(EXIT_DONE)
}

fn open(store: &Store, arguments: &Append, cancel: &CancelToken) -> Result<Session, Failure> {
    match store.open_session_with(&arguments.id, cancel) {
        Err(error) if error.code() == Code::SessionNotFound && arguments.creates => {
            let mut new = NewSession::new().id(&arguments.id);
            new.header.cwd.clone_from(&arguments.cwd);
            if arguments.id.is_empty() {
                return Err(Error::new(Code::InvalidArgument, "the id is empty").into());
            }
            let session = store.create(new)?;
            // On the disk before the first line: a session that was asked for exists, also where the input is empty.
            session.flush_with(cancel)?;
            Ok(session)
        }
        opened => Ok(opened?),
    }
}

/// Lines on their way into a session.
struct Accepting<'a> {
    session: &'a Session,
    /// Events that are known to be durable.
    flushed: u64,
    flush_every: u64,
    /// Whether somebody still reads what is said.
    is_heard: bool,
}

impl Accepting<'_> {
    fn take_lines(&mut self, context: &mut Context) -> Result<(), Failure> {
        let lines = read_lines()?;
        for number in 1.. {
            let Some(line) = next_line(&lines, &context.cancel)? else { break };
            let accepted = self.session.append_line(&line);
            accepted.map_err(|error| Failure::Input(number, Box::new(error)))?;
            if self.session.next_seq() - self.flushed >= self.flush_every {
                self.flush(context, &context.cancel.clone())?;
            }
        }
        Ok(())
    }

    /// Makes everything accepted durable, then says so at once.
    fn flush(&mut self, context: &mut Context, cancel: &CancelToken) -> Result<(), Failure> {
        let next_seq = self.session.next_seq();
        if next_seq == self.flushed {
            return Ok(());
        }
        self.session.flush_with(cancel)?;
        self.flushed = next_seq;
        if context.is_json && self.is_heard {
            let told =
                context.out.line(&number_object("flushed", next_seq - 1)).and_then(|()| context.out.flush());
            match told {
                // The events are what this command is for: they are taken to the last one, whoever listens.
                Err(Failure::NobodyReads) => self.is_heard = false,
                told => told?,
            }
        }
        Ok(())
    }
}

fn number_object(key: &str, number: u64) -> String {
    let mut out = ObjectText::new();
    out.number(key, number);
    out.finish()
}

/// Lines of standard input without their ends, read by a thread of their own.
fn read_lines() -> Result<Receiver<io::Result<Vec<u8>>>, Failure> {
    let (sender, receiver) = sync_channel(LINES_AHEAD);
    let read = move || {
        let mut input = io::stdin().lock();
        loop {
            let mut line = Vec::new();
            let read = match input.read_until(b'\n', &mut line) {
                Ok(0) => return,
                Ok(_) => Ok(()),
                Err(error) => Err(error),
            };
            if line.ends_with(b"\n") {
                line.pop();
            }
            let is_over = read.is_err();
            // Nobody takes lines any more: the command is over.
            if sender.send(read.map(|()| line)).is_err() || is_over {
                return;
            }
        }
    };
    std::thread::Builder::new()
        .name("dsh-session input".to_owned())
        .spawn(read)
        .map_err(|error| Failure::Stream("start a thread for standard input", error))?;
    Ok(receiver)
}

/// The next line; `None` at the end of the input.
fn next_line(
    lines: &Receiver<io::Result<Vec<u8>>>,
    cancel: &CancelToken,
) -> Result<Option<Vec<u8>>, Failure> {
    loop {
        cancel.check()?;
        match lines.recv_timeout(CANCEL_WAIT) {
            Ok(Ok(line)) => return Ok(Some(line)),
            Ok(Err(error)) => return Err(Failure::Stream("read standard input", error)),
            Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) => return Ok(None),
        }
    }
}
