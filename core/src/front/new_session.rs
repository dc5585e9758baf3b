//! What a caller says of a session that is to be.

use crate::error::{Code, Error, Result};
use crate::event::Event;
use crate::format::header::SessionHeader;

/// What a new session is to be. Everything has a default.
///
/// ```
/// use dsh_session_core::NewSession;
/// let new = NewSession::new().cwd("/repo").agent_preset("minimal");
/// assert_eq!(new.header.cwd.as_deref(), Some("/repo"));
/// ```
#[derive(Clone, Debug)]
pub struct NewSession {
    /// The header; an empty id and a `created_at` of 0 are filled in by [`Store::create`](crate::Store::create).
    pub header: SessionHeader,
    /// The length of a fork-inherited prefix, for a seeded header.
    pub inherited_event_count: Option<u64>,
    /// The events that the session begins with (`session.md` 12); they are on the disk before the session is announced.
    pub seed: Option<Vec<Event>>,
}

impl NewSession {
    /// An unseeded session with a minted id, created now.
    #[must_use]
    pub fn new() -> NewSession {
        NewSession { header: SessionHeader::new("", 0), inherited_event_count: None, seed: None }
    }

    /// From a JSON object with any of `id`, `createdAt`, `cwd`, `parentSession`, `origin`, `delegationDepth`, `agentPreset`,
    /// `isSeeded`: the form that C, Python and the command line take.
    ///
    /// # Errors
    /// `INVALID_ARGUMENT`, naming the key.
    pub fn from_json(text: &str) -> Result<NewSession> {
        let header = SessionHeader::from_json(text, SessionHeader::new("", 0))
            .map_err(|fault| Error::new(Code::InvalidArgument, fault.to_string()))?;
        Ok(NewSession { header, ..NewSession::new() })
    }

    /// Sets the id instead of minting one.
    #[must_use]
    pub fn id(mut self, id: impl Into<String>) -> NewSession {
        self.header.id = id.into();
        self
    }

    /// Sets the working directory, an absolute path.
    #[must_use]
    pub fn cwd(mut self, cwd: impl Into<String>) -> NewSession {
        self.header.cwd = Some(cwd.into());
        self
    }

    /// Names the session that this one comes from.
    #[must_use]
    pub fn parent_session(mut self, id: impl Into<String>) -> NewSession {
        self.header.parent_session = Some(id.into());
        self
    }

    /// Gives the events that the session begins with.
    #[must_use]
    pub fn seed(mut self, events: impl Into<Vec<Event>>) -> NewSession {
        self.seed = Some(events.into());
        self
    }

    /// Names the agent preset.
    #[must_use]
    pub fn agent_preset(mut self, preset: impl Into<String>) -> NewSession {
        self.header.agent_preset = Some(preset.into());
        self
    }
}

impl Default for NewSession {
    fn default() -> Self {
        NewSession::new()
    }
}
