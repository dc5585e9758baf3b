//! What the tests of durability share: events whose content follows from their place, headers, and reading everything back.
#![allow(dead_code, reason = "each test crate uses its share")]

use dsh_session_core::event::Event;
use dsh_session_core::format::header::SessionHeader;
use dsh_session_core::storage::simulation::SplitMix64;
use dsh_session_core::{Access, CancelToken, Code, EventRange, Result, SessionLog, SessionPersistence};
use std::ops::Range;

/// A token that nobody cancels.
pub(crate) fn go_on() -> CancelToken {
    CancelToken::new()
}

/// A header with an id, created at a fixed time.
pub(crate) fn header(id: &str) -> SessionHeader {
    SessionHeader::new(id, 1_760_000_000_000)
}

/// The event that stands at `seq` of a log: turns of four events, what is in them decided by `salt` and `seq`.
pub(crate) fn event(seq: u64, salt: u64) -> Event {
    let turn = seq / 4 + 1;
    let row = match seq % 4 {
        0 => format!(r#"{{"type":"turn/start","seq":{seq},"time":{salt},"data":{{"turn":{turn}}}}}"#),
        3 => format!(r#"{{"type":"turn/end","seq":{seq},"time":{salt},"data":{{"turn":{turn}}}}}"#),
        _ => return note(seq, salt),
    };
    Event::from_row(row).unwrap()
}

/// A plugin record at `seq`: takes part in no rule. Its text is between 0 and 120 bytes that hardly compress.
pub(crate) fn note(seq: u64, salt: u64) -> Event {
    let mut random = SplitMix64::new(salt.wrapping_mul(1_000_003).wrapping_add(seq));
    let length = random.below(121);
    note_of_length(seq, salt, length as usize)
}

/// A plugin record with `length` bytes of text.
pub(crate) fn note_of_length(seq: u64, salt: u64, length: usize) -> Event {
    let mut random = SplitMix64::new(salt ^ (seq << 20));
    let letters = b"abcdefghijklmnopqrstuvwxyz0123456789 .,-_ABCDEFGHIJKLMNOPQRSTUVW";
    let text: String = (0..length).map(|_| char::from(*random.choose(letters).unwrap())).collect();
    Event::from_row(format!(
        r#"{{"type":"plugin:proof/note","seq":{seq},"time":{salt},"data":{{"text":"{text}"}},"ignorable":true}}"#
    ))
    .unwrap()
}

/// The events at these places.
pub(crate) fn events(seqs: Range<u64>, salt: u64) -> Vec<Event> {
    seqs.map(|seq| event(seq, salt)).collect()
}

/// The marker that ends an inherited prefix.
pub(crate) fn end_seed(seq: u64) -> Event {
    Event::from_row(format!(
        r#"{{"type":"session/end-seed","seq":{seq},"time":1,"data":{{"inherited":true}}}}"#
    ))
    .unwrap()
}

/// Everything in a log, read to its end.
pub(crate) fn read_log(log: &dyn SessionLog) -> Result<Vec<Event>> {
    log.events(EventRange::ALL, &go_on())?.collect()
}

/// Everything in a session, through a new read handle.
pub(crate) fn read_all(persistence: &dyn SessionPersistence, id: &str) -> Result<Vec<Event>> {
    read_log(&*persistence.open(id, Access::Read, &go_on())?)
}

/// The code with which a call failed; the test fails if it did not.
#[track_caller]
pub(crate) fn refusal<T: std::fmt::Debug>(result: Result<T>) -> Code {
    result.expect_err("the call should have been refused").code()
}

/// A setting of a campaign from the environment, or what the everyday test uses.
pub(crate) fn setting(name: &str, everyday: u64) -> u64 {
    match std::env::var(name) {
        Ok(text) => text.parse().unwrap_or_else(|_| panic!("{name} must be a number, not `{text}`")),
        Err(_) => everyday,
    }
}
