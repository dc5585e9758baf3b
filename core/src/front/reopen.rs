//! From a stored log to a live session.

use super::Store;
use crate::cancel::CancelToken;
use crate::error::Result;
use crate::event::Event;
use crate::persistence::{Notice, Resumed, SessionLog};
use crate::session::closers::{Cause, TailScan};
use crate::session::construction::{Construction, Known};
use crate::session::{Seed, SeedMode, Session, WriteState};
use std::sync::Arc;

/// What becomes of a turn that the log leaves open.
#[derive(Clone, Copy, PartialEq, Eq)]
enum OpenTurn {
    /// It is closed as interrupted, and the marker of a new life is added.
    Close,
    /// It goes on as if nothing had happened.
    GoOn,
}

impl Store {
    /// Resumes a stored session (`session.md` 14.4): its log is read and checked once, a turn that was interrupted is closed with the
    /// results that are missing, the marker of a new life is added, and all of that is on the disk before the session is announced.
    /// A notice `turn-closed` tells what was done.
    ///
    /// ```
    /// use dsh_session_core::{EventDraft, NewSession, Store};
    /// # fn main() -> dsh_session_core::Result<()> {
    /// let store = Store::in_memory()?;
    /// let session = store.create(NewSession::new().id("s1"))?;
    /// session.append(&EventDraft::new("turn/start", r#"{"turn":1}"#)?)?;
    /// session.close()?; // and the program is gone, in the middle of a turn
    /// let session = store.resume("s1")?;
    /// let kinds: Vec<_> = session.snapshot_events(1, 3).iter().map(|event| event.kind().to_owned()).collect();
    /// assert_eq!(kinds, ["turn/end", "session/end-seed"]);
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// Those of [`SessionPersistence::resume`](crate::SessionPersistence::resume); a creation listener's own error.
    pub fn resume(&self, id: &str) -> Result<Session> {
        self.resume_with(id, &CancelToken::new())
    }

    /// As [`resume`](Self::resume), stoppable while the log is read.
    ///
    /// # Errors
    /// As there, and `CANCELLED`.
    pub fn resume_with(&self, id: &str, cancel: &CancelToken) -> Result<Session> {
        self.reopen(id, OpenTurn::Close, cancel)
    }

    /// A stored session, open for appending where its log ends, in the middle of a turn if that is where it ends. For programs that
    /// continue an unfinished log in its writer's name, such as importers; an agent that comes back calls [`resume`](Self::resume).
    ///
    /// # Errors
    /// As [`resume`](Self::resume).
    pub fn open_session(&self, id: &str) -> Result<Session> {
        self.open_session_with(id, &CancelToken::new())
    }

    /// As [`open_session`](Self::open_session), stoppable while the log is read.
    ///
    /// # Errors
    /// As there, and `CANCELLED`.
    pub fn open_session_with(&self, id: &str, cancel: &CancelToken) -> Result<Session> {
        self.reopen(id, OpenTurn::GoOn, cancel)
    }

    fn reopen(&self, id: &str, open_turn: OpenTurn, cancel: &CancelToken) -> Result<Session> {
        let (mut events, mut scan) = (Vec::new(), TailScan::default());
        let resumed = self.shared.persistence.resume(id, cancel, &mut |event: Event| {
            scan.see(&event);
            events.push(event);
            Ok(())
        })?;
        let log = Arc::clone(&resumed.log);
        let stored = events.len() as u64;
        let restored = self.restore(resumed, events, &scan, open_turn, cancel).and_then(|session| {
            self.store_rest(&session, &*log, stored)?;
            Ok(session)
        });
        match restored {
            Ok(session) => {
                let events = session.first_live_seq() - stored;
                let resumed = (events > 0).then_some(Notice::TurnClosed { events });
                self.go_live(session, log, resumed)
            }
            Err(error) => {
                let _ = log.close();
                Err(error)
            }
        }
    }

    /// Stores what a session has beyond its log, the first `stored` events.
    fn store_rest(&self, session: &Session, log: &dyn SessionLog, stored: u64) -> Result<()> {
        let missing: Vec<Event> = session.snapshot_events(stored, u64::MAX).into_iter().collect();
        // Where nothing is missing this must not touch the file: a torn tail stays until something is appended.
        match (missing.is_empty(), session.checks_stored_rules()) {
            (true, _) => Ok(()),
            (false, true) => log.append_checked(&missing, &CancelToken::new()),
            (false, false) => log.append(&missing, &CancelToken::new()),
        }
    }

    /// The session as it is after its log and, where they are due, the closers.
    fn restore(
        &self,
        resumed: Resumed,
        mut events: Vec<Event>,
        scan: &TailScan,
        open_turn: OpenTurn,
        cancel: &CancelToken,
    ) -> Result<Session> {
        let Resumed { log, mut checker } = resumed;
        if let (OpenTurn::Close, Some(last)) = (open_turn, events.last()) {
            let closers = scan.closers(Cause::Interrupted, last.seq() + 1, last.time())?;
            for closer in &closers {
                checker.check(closer).map_err(|breach| breach.error().with_session_id(log.id()))?;
            }
            events.extend(closers);
        }
        let header = log.header().clone();
        let inherited = log.inherited_event_count(cancel)?;
        let seed = Seed {
            mode: SeedMode::Restore,
            events: Some(events),
            inherited_event_count: header.is_seeded.then_some(inherited),
            adds_marker: open_turn == OpenTurn::Close,
        };
        let write_state = WriteState::Prepared;
        let construction =
            Construction { header, seed: &seed, write_state, known: Known::Checked(Box::new(checker)) };
        Session::build(construction, Arc::clone(self.shared.live.hub()))
    }
}
