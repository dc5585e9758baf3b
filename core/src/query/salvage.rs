//! What can be had of a damaged log: the events before the damage, and on request what is readable after it.

use super::rows::{Rows, rows};
use crate::cancel::CancelToken;
use crate::error::{Code, Error, Result};
use crate::event::Event;
use crate::format::EventRange;
use crate::format::raw_rows::RawRow;
use crate::persistence::{Access, Events, SessionPersistence};
use std::sync::Arc;

/// The events of a log up to its damage, or all of them.
///
/// An iterator over the events; at its end [`damage`](Self::damage) says what stopped it. An error *in* it is not about the log but
/// about reading it (`IO`, `CANCELLED`, `SOURCE_CHANGED`): what was given then is not all that could be had.
///
/// ```
/// use dsh_session_core::{EventDraft, NewSession, Store};
/// # fn main() -> dsh_session_core::Result<()> {
/// # let folder = tempfile::tempdir().unwrap();
/// # let store = Store::open(folder.path())?;
/// # let session = store.create(NewSession::new().id("s"))?;
/// # session.append(&EventDraft::new("turn/start", r#"{"turn":1}"#)?)?;
/// # session.close()?;
/// let mut salvage = store.salvage("s")?;
/// let events = salvage.by_ref().collect::<dsh_session_core::Result<Vec<_>>>()?;
/// assert_eq!(events.len(), 1);
/// assert!(salvage.damage().is_none());
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
pub struct Salvage {
    persistence: Arc<dyn SessionPersistence>,
    id: String,
    cancel: CancelToken,
    /// `None` where not even the header could be read, and after the last event.
    events: Option<Events>,
    given: u64,
    damage: Option<Error>,
}

/// Whether an error is about the content of a log.
fn is_damage(error: &Error) -> bool {
    matches!(error.code(), Code::SessionCorrupt | Code::LimitExceeded | Code::FormatUnsupported)
}

impl Salvage {
    pub(crate) fn open(
        persistence: &Arc<dyn SessionPersistence>,
        id: &str,
        cancel: &CancelToken,
    ) -> Result<Salvage> {
        let opened =
            persistence.open(id, Access::Read, cancel).and_then(|log| log.events(EventRange::ALL, cancel));
        let (events, damage) = match opened {
            Ok(events) => (Some(events), None),
            // A log of another version is whole, and nothing was tried: that is a refusal, not a part.
            Err(error) if is_damage(&error) && error.code() != Code::FormatUnsupported => (None, Some(error)),
            Err(error) => return Err(error),
        };
        Ok(Salvage {
            persistence: Arc::clone(persistence),
            id: id.to_owned(),
            cancel: cancel.clone(),
            events,
            given: 0,
            damage,
        })
    }

    /// Why there are no further events, once the iterator has ended; `None` where the log is whole. Bytes of a torn tail are no part of
    /// a log, so they are no damage.
    #[must_use]
    pub fn damage(&self) -> Option<&Error> {
        self.damage.as_ref()
    }

    /// How many events were given so far.
    #[must_use]
    pub fn event_count(&self) -> u64 {
        self.given
    }

    /// Rows after the events given so far that have the envelope of an event: of a torn tail, of another branch, or behind
    /// damaged bytes. They need not follow each other, and are no part of the log.
    ///
    /// # Errors
    /// `SESSION_CONFLICT`, `SESSION_NOT_FOUND`, `CANCELLED`, `IO`.
    pub fn after_damage(&self) -> Result<AfterDamage> {
        let rows = rows(&*self.persistence, &self.id, &self.cancel)?;
        Ok(AfterDamage { rows, passed_over: self.given })
    }
}

impl Iterator for Salvage {
    type Item = Result<Event>;

    fn next(&mut self) -> Option<Result<Event>> {
        let event = self.events.as_mut()?.next();
        match event {
            Some(Ok(event)) => {
                self.given += 1;
                Some(Ok(event))
            }
            Some(Err(error)) if is_damage(&error) => {
                self.events = None;
                self.damage = Some(error);
                None
            }
            Some(Err(error)) => {
                self.events = None;
                Some(Err(error))
            }
            None => {
                self.events = None;
                None
            }
        }
    }
}

/// The rows that [`Salvage::after_damage`] finds.
#[derive(Debug)]
pub struct AfterDamage {
    rows: Rows,
    /// Events before the damage, which come first among the rows.
    passed_over: u64,
}

impl Iterator for AfterDamage {
    type Item = Result<RawRow>;

    fn next(&mut self) -> Option<Result<RawRow>> {
        loop {
            match self.rows.next()? {
                Ok(row) if !row.is_event => {}
                Ok(_) if self.passed_over > 0 => self.passed_over -= 1,
                other => return Some(other),
            }
        }
    }
}
