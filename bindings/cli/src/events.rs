//! `events` and `rows`: what a log says, line by line. Both stream, so the size of a log does not matter.

use crate::arguments::EventsOf;
use crate::context::Context;
use crate::conversation::Tail;
use crate::failure::{EXIT_DONE, Failure};
use crate::output::time_text;
use dsh_session_core::format::header::encode_line;
use dsh_session_core::format::raw_rows::RawRow;
use dsh_session_core::{Access, Event, EventRange};

/// Characters of a payload that a person is shown.
const PREVIEW_CHARACTERS: usize = 100;

pub(crate) fn events(context: &mut Context, arguments: &EventsOf) -> Result<i32, Failure> {
    let range = match arguments.newest {
        Some(count) => EventRange::newest(count),
        None => EventRange::window(arguments.from, arguments.limit.unwrap_or(u64::MAX)),
    };
    if arguments.is_balanced {
        return balanced_events(context, arguments);
    }
    let log = context.store()?.open_log(&arguments.id, Access::Read)?;
    if arguments.shows_header {
        context.out.line(&encode_line(log.header()))?;
    }
    for event in log.events(range, &context.cancel)? {
        print_event(context, &event?)?;
    }
    Ok(EXIT_DONE)
}

/// The events of a range of the log and of what closes its interrupted turn: all of the log is read, because only its end tells.
fn balanced_events(context: &mut Context, arguments: &EventsOf) -> Result<i32, Failure> {
    let store = context.store()?;
    let log = store.open_log(&arguments.id, Access::Read)?;
    if arguments.shows_header {
        context.out.line(&encode_line(log.header()))?;
    }
    let to = arguments.from.saturating_add(arguments.limit.unwrap_or(u64::MAX));
    let range = arguments.from..to;
    let mut tail = Tail::of(&store, &arguments.id)?;
    for event in log.events(EventRange::ALL, &context.cancel)? {
        let event = event?;
        tail.see(&event);
        if range.contains(&event.seq()) {
            print_event(context, &event)?;
        }
    }
    for closer in tail.closers(context, &store, &arguments.id)? {
        if range.contains(&closer.seq()) {
            print_event(context, &closer)?;
        }
    }
    Ok(EXIT_DONE)
}

/// One event: the logical row, or a line for a person.
pub(crate) fn print_event(context: &mut Context, event: &Event) -> Result<(), Failure> {
    if context.is_json {
        context.out.line(&event.logical_row())
    } else {
        context.out.text(&event_text(event))
    }
}

pub(crate) fn rows(context: &mut Context, id: &str) -> Result<i32, Failure> {
    let rows = context.store()?.rows(id, &context.cancel)?;
    for row in rows {
        let row = row?;
        if context.is_json {
            context.out.line(&row.to_json())?;
        } else {
            context.out.text(&row_text(&row))?;
        }
    }
    Ok(EXIT_DONE)
}

/// One event on one line for a person: seq, time, type, and the beginning of the payload.
fn event_text(event: &Event) -> String {
    let time = time_text(event.time());
    format!("{:>6}  {time}  {:<24}  {}", event.seq(), event.kind(), preview(event.data().text()))
}

fn row_text(row: &RawRow) -> String {
    let problem = row.problem.as_ref().map_or(String::new(), |problem| format!("  ! {problem}"));
    format!("{:>6}  {}{problem}", row.line, preview(&row.text))
}

pub(crate) fn preview(text: &str) -> String {
    let mut preview: String = text
        .chars()
        .take(PREVIEW_CHARACTERS)
        .map(|character| if character.is_control() { ' ' } else { character })
        .collect();
    if text.len() > preview.len() && text.chars().nth(PREVIEW_CHARACTERS).is_some() {
        preview.push('…');
    }
    preview
}
