//! The fork that users call: of any session, live or stored, into a new one that is on the disk before it is announced
//! (`controller.md` 7).

use super::{NewSession, Origin, Store};
use crate::cancel::CancelToken;
use crate::error::{Code, Error, Result};
use crate::event::{Event, SurfaceOp};
use crate::format::EventRange;
use crate::format::header::SessionHeader;
use crate::persistence::{Access, StoredEvents};
use crate::session::{Session, fork_seed};
use std::sync::Weak;

impl Store {
    /// A new session that begins with the events of another: up to the event `at`, or, where none is given, up to the end of its last
    /// finished turn with what belongs to it. A turn that is open at `at` is closed in the child. The source, live or stored, is only
    /// read; the child has its `cwd` and its preset, unless `new` says otherwise.
    ///
    /// ```
    /// use dsh_session_core::{EventDraft, NewSession, Store};
    /// # fn main() -> dsh_session_core::Result<()> {
    /// let store = Store::in_memory()?;
    /// let session = store.create(NewSession::new().cwd("/repo"))?;
    /// session.append(&EventDraft::new("turn/start", r#"{"turn":1}"#)?)?;
    /// let child = store.fork(session.id(), Some(0), NewSession::new())?;
    /// assert_eq!((child.inherited_event_count(), child.next_seq()), (1, 3));
    /// assert_eq!(child.header().cwd.as_deref(), Some("/repo"));
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// `SESSION_NOT_FOUND`; `FORK_UNAVAILABLE` for an event that the source does not have, or a source without a finished turn; those of
    /// reading the source and of [`create`](Self::create).
    pub fn fork(&self, source_id: &str, at: Option<u64>, new: NewSession) -> Result<Session> {
        self.fork_with(source_id, at, new, &CancelToken::new())
    }

    /// As [`fork`](Self::fork), stoppable while a stored source is read.
    ///
    /// # Errors
    /// As there, and `CANCELLED`.
    pub fn fork_with(
        &self,
        source_id: &str,
        at: Option<u64>,
        new: NewSession,
        cancel: &CancelToken,
    ) -> Result<Session> {
        self.check_process()?;
        let ForkSource { header, events, live, stored } = self.fork_source(source_id, cancel)?;
        let unavailable = |message: String| {
            let error = Error::new(Code::ForkUnavailable, message).with_session_id(source_id);
            error.with_expected(events.len() as u64)
        };
        let boundary = match at {
            Some(at) if at < events.len() as u64 => at,
            Some(at) => return Err(unavailable(format!("the source has no event {at}"))),
            None => completed_prefix(&events)
                .ok_or_else(|| unavailable("no turn of the source has ended yet".to_owned()))?,
        };
        let mut child = new;
        let preset = effective_preset(&header, &events, boundary);
        let (seed, inherited) = fork_seed(events, boundary)?;
        child.header.cwd = child.header.cwd.or(header.cwd);
        child.header.agent_preset = child.header.agent_preset.or(preset);
        child.header.is_seeded = true;
        child.inherited_event_count = Some(inherited);
        child.seed = Some(seed);
        let folded = live.and_then(|live| live.folded(inherited));
        self.create_from(child, Origin { folded, stored, cancel: cancel.clone() })
    }

    /// A session as it is now; a live one before a stored one.
    fn fork_source(&self, id: &str, cancel: &CancelToken) -> Result<ForkSource> {
        if let Some(live) = self.shared.live.get(id) {
            let recording =
                self.recordings().iter().rev().filter_map(Weak::upgrade).find(|known| known.id() == id);
            return Ok(ForkSource {
                header: live.header().clone(),
                events: live.snapshot_events(0, u64::MAX).into_iter().collect(),
                stored: recording.and_then(|recording| recording.stored_events()),
                live: Some(live),
            });
        }
        let log = self.shared.persistence.open(id, Access::Read, cancel)?;
        let events = log.events(EventRange::ALL, cancel)?.collect::<Result<Vec<_>>>();
        let (header, stored) = (log.header().clone(), log.stored_events());
        log.close()?;
        Ok(ForkSource { header, events: events?, live: None, stored })
    }
}

/// The session that is forked.
struct ForkSource {
    header: SessionHeader,
    events: Vec<Event>,
    live: Option<Session>,
    /// Where some of its first events are stored.
    stored: Option<StoredEvents>,
}

/// The last event of the completed prefix: the last `turn/end` and what follows it, up to the first event that belongs to the next
/// turn.
fn completed_prefix(events: &[Event]) -> Option<u64> {
    let end = events.iter().rposition(|event| event.kind() == "turn/end")?;
    let begins_next = |event: &Event| match event.kind() {
        "turn/start" | "agent/inbox/spliced" => true,
        "user/message" => event.surface_op() == Some(SurfaceOp::Append),
        _ => false,
    };
    let after = events[end + 1..].iter().take_while(|event| !begins_next(event)).count();
    Some((end + after) as u64)
}

/// The preset that was last selected in the prefix, else that of the header.
fn effective_preset(header: &SessionHeader, events: &[Event], boundary: u64) -> Option<String> {
    let selected = events.iter().rev().filter(|event| event.seq() <= boundary);
    let mut selected = selected.filter(|event| event.kind() == "agent-preset/selected");
    let preset = selected.next().and_then(|event| event.data().get("agentPreset")?.as_str().map(Into::into));
    preset.or_else(|| header.agent_preset.clone())
}
