//! What every backend refuses before it stores anything: headers, batches, and seeded sessions without their prefix.

use crate::error::{Code, Error, Result};
use crate::event::row::is_inherited_marker;
use crate::event::{Event, Vocabulary};
use crate::format::header::SessionHeader;
use crate::format::names;

/// What `create` refuses (`format.md` 6.2).
pub(super) fn check_new_header(header: &SessionHeader, inherited: Option<u64>) -> Result<()> {
    let refuse =
        |message: String| Err(Error::new(Code::InvalidArgument, message).with_session_id(&header.id));
    if let Err(fault) = header.check() {
        return refuse(format!("the header is not valid: {fault}"));
    }
    for (what, name) in [
        ("id", names::session_directory(&header.id)),
        ("cwd", names::project_directory(header.cwd.as_deref())),
    ] {
        match name {
            Ok(name) if name.len() <= names::FILE_NAME_BYTES_MAX => {}
            Ok(name) => {
                return refuse(format!(
                    "the {what} gives a folder name of {} bytes; file systems take {}",
                    name.len(),
                    names::FILE_NAME_BYTES_MAX
                ));
            }
            Err(fault) => return refuse(format!("the {what} cannot name a folder: {fault}")),
        }
    }
    match (header.is_seeded, inherited) {
        (true, None) => refuse("a seeded session needs the number of its inherited events".to_owned()),
        (false, Some(count)) if count > 0 => {
            refuse(format!("a session that is not seeded cannot inherit {count} events"))
        }
        _ => Ok(()),
    }
}

/// What `append` refuses of events that a checker has accepted.
pub(super) fn check_checked_batch(
    header: &SessionHeader,
    cut: u64,
    next_seq: u64,
    batch: &[Event],
) -> Result<()> {
    for (index, event) in (0..).zip(batch) {
        check_row(header, next_seq + index, index, event)?;
    }
    check_seed(header, cut, next_seq, batch)
}

/// What no log takes, whoever has judged it: an event out of its place, and one that never was a row (`Event::from_unstored_row`).
fn check_row(header: &SessionHeader, expected: u64, index: u64, event: &Event) -> Result<()> {
    let refuse = |message: String| {
        Err(Error::new(Code::InvalidArgument, message).with_session_id(&header.id).with_index(index))
    };
    if event.seq() != expected {
        let message = format!("event {index} of the batch has seq {}, the next is {expected}", event.seq());
        return refuse(message).map_err(|error: Error| error.with_expected(expected).with_got(event.seq()));
    }
    if event.source_event_seqs_text().is_some() && event.source_event_seqs().is_none() {
        let message = "`sourceEventSeqs` of the event is no list that a log can hold".to_owned();
        return refuse(message).map_err(|error: Error| error.with_event_type(event.kind()));
    }
    Ok(())
}

/// What `append` refuses: a batch that does not follow the log, or that readers with this vocabulary would not accept.
pub(super) fn check_batch(
    header: &SessionHeader,
    cut: u64,
    next_seq: u64,
    batch: &[Event],
    vocabulary: &Vocabulary,
) -> Result<()> {
    for (index, event) in (0..).zip(batch) {
        check_row(header, next_seq + index, index, event)?;
        if !event.ignorable() && !vocabulary.is_known(event.kind()) {
            let message = format!("`{}` is not an event type this library knows", event.kind());
            return Err(Error::new(Code::EventRefused, message)
                .with_rule("UNKNOWN_EVENT_TYPE")
                .with_event_type(event.kind())
                .with_session_id(&header.id)
                .with_index(index)
                .with_advice(
                    "readers would refuse the log: mark the row `\"ignorable\":true`, use a known type, or register this one in the vocabulary of the store",
                ));
        }
    }
    check_seed(header, cut, next_seq, batch)
}

/// A seeded session must begin with its whole prefix and the marker at the cut; an unseeded one has no such marker (`format.md` 2.6).
pub(super) fn check_seed(header: &SessionHeader, cut: u64, next_seq: u64, batch: &[Event]) -> Result<()> {
    let marker =
        batch.iter().rev().find(|event| is_inherited_marker(event.kind(), event.data())).map(Event::seq);
    let is_first = next_seq == 0;
    match (header.is_seeded && is_first, marker) {
        (true, Some(seq)) if seq == cut => Ok(()),
        (true, _) => Err(Error::new(
            Code::SessionRefused,
            format!("a seeded session is stored with its {cut} inherited events and their end marker at seq {cut} in its first batch"),
        )
        .with_session_id(&header.id)
        .with_expected(cut)),
        (false, None) => Ok(()),
        (false, Some(seq)) => Err(Error::new(
            Code::EventRefused,
            "an inherited `session/end-seed` marker here would change what the session inherited",
        )
        .with_session_id(&header.id)
        .with_event_type("session/end-seed")
        .with_seq(seq)),
    }
}
