//! The registry's own fork, of live sessions (`session.md` 13.2).

use super::{Preparation, SessionStore};
use crate::error::{Code, Error, Result};
use crate::format::header::SessionHeader;
use crate::session::construction::Known;
use crate::session::{Seed, SeedMode, Session, fork_seed};

/// What is forked.
#[derive(Clone, Copy, Debug)]
pub enum ForkSource<'a> {
    /// The live session of an id.
    Id(&'a str),
    /// This session, which must be live.
    Session(&'a Session),
}

impl SessionStore {
    /// A new live session that begins with the events of another up to `boundary`, or with all of them. A turn that is open there is
    /// closed in the child.
    ///
    /// # Errors
    /// `SESSION_ALREADY_EXISTS` for the child's id, then `SESSION_NOT_FOUND`, `SESSION_NOT_LIVE`, `INVALID_BOUNDARY`.
    pub fn fork(
        &self,
        source: ForkSource<'_>,
        boundary: Option<u64>,
        child_id: Option<&str>,
    ) -> Result<Session> {
        if let Some(child_id) = child_id {
            self.check_free(child_id)?;
        }
        let source = self.source(source)?;
        let events = source.snapshot_events(0, u64::MAX);
        let boundary = boundary.or_else(|| events.len().checked_sub(1));
        let (seed, inherited) = match boundary {
            Some(boundary) => fork_seed(events, boundary)?,
            None => (Vec::new(), 0),
        };
        let folded = source.folded(inherited).filter(|_| inherited > 0);
        let known = folded.map_or(Known::Nothing, |folded| Known::Folded(Box::new(folded)));
        let mut header = SessionHeader::new(child_id.unwrap_or_default(), 0);
        header.cwd.clone_from(&source.header().cwd);
        header.is_seeded = true;
        let seed = Seed {
            mode: SeedMode::Snapshot,
            events: Some(seed),
            inherited_event_count: Some(inherited),
            ..Seed::default()
        };
        let child = self.prepare_from(Preparation { header: Some(header), seed }, known)?;
        self.publish(&child)?;
        Ok(child)
    }

    fn source(&self, source: ForkSource<'_>) -> Result<Session> {
        let id = match source {
            ForkSource::Id(id) => id,
            ForkSource::Session(session) => session.id(),
        };
        let live = self.get(id).ok_or_else(|| {
            Error::new(Code::SessionNotFound, format!("no session `{id}` is live")).with_session_id(id)
        })?;
        match source {
            ForkSource::Session(session) if !live.is_same(session) => {
                let message = format!("another session object is live under the id `{id}`");
                Err(Error::new(Code::SessionNotLive, message).with_session_id(id))
            }
            _ => Ok(live),
        }
    }
}
