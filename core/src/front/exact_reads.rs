//! The exact reads of a store (`query.md` 5): what is live here, else what is stored.

use super::Store;
use crate::cancel::CancelToken;
use crate::error::Result;
use crate::query::{
    Document, EventFilter, EventRecord, EventRequest, EventTrace, EventWindow, ReadSession, ReadSurface,
    SessionFilter, SessionLineage, SessionRecord, TitleResult, TitleSnapshot, TranscriptEntry,
};

macro_rules! reads {
    ($($(#[$doc:meta])* $name:ident, $with:ident ($($argument:ident: $kind:ty),*) -> $result:ty;)*) => {
        impl Store {
            $(
                $(#[$doc])*
                pub fn $name(&self $(, $argument: $kind)*) -> Result<$result> {
                    self.$with($($argument,)* &CancelToken::new())
                }

                #[doc = concat!("As [`", stringify!($name), "`](Self::", stringify!($name), "), stoppable.")]
                ///
                /// # Errors
                /// As there, and `SESSION_QUERY_ABORTED`.
                pub fn $with(&self $(, $argument: $kind)*, cancel: &CancelToken) -> Result<$result> {
                    self.shared.corpus.$name($($argument,)* cancel)
                }
            )*
        }
    };
}

reads! {
    /// Every session, live or stored, most recently created first. What stands in the root and is not usable is told by
    /// [`list`](Store::list).
    ///
    /// ```
    /// # fn main() -> dsh_session_core::Result<()> {
    /// use dsh_session_core::{NewSession, Store};
    /// let store = Store::in_memory()?;
    /// let session = store.create(NewSession::new().id("s1"))?;
    /// let records = store.list_sessions()?;
    /// assert!(records[0].live && records[0].header.id == "s1");
    /// # session.close()
    /// # }
    /// ```
    ///
    /// # Errors
    /// `SESSION_QUERY_PERSISTENCE_FAILED`, `SESSION_QUERY_SOURCE_CONFLICT`.
    list_sessions, list_sessions_with () -> Vec<SessionRecord>;

    /// The sessions that pass every filter, most recently created first.
    ///
    /// # Errors
    /// As [`list_sessions`](Store::list_sessions).
    filter_sessions, filter_sessions_with (filters: &[SessionFilter]) -> Vec<SessionRecord>;

    /// Where a session came from and what came from it.
    ///
    /// # Errors
    /// `SESSION_QUERY_SESSION_NOT_FOUND`, `SESSION_QUERY_INVALID_LINEAGE`, and as [`list_sessions`](Store::list_sessions).
    trace_session, trace_session_with (id: &str) -> SessionLineage;

    /// A whole session; of a stored one whose last turn was interrupted, with the events that close it in memory.
    ///
    /// # Errors
    /// `SESSION_QUERY_SESSION_NOT_FOUND`, `SESSION_QUERY_CORRUPT_SESSION`, `SESSION_QUERY_PERSISTENCE_FAILED`,
    /// `SESSION_QUERY_SOURCE_CONFLICT`.
    read_session, read_session_with (id: &str) -> ReadSession;

    /// One record for each event of a session, in log order, with its place: on the surface, shadowed, or in the log only.
    ///
    /// # Errors
    /// As [`read_session`](Store::read_session), and `SESSION_QUERY_INVALID_SURFACE`.
    list_events, list_events_with (id: &str) -> Vec<EventRecord>;

    /// What the events of a session say that pass every filter, in log order.
    ///
    /// # Errors
    /// As [`list_events`](Store::list_events).
    filter_events, filter_events_with (id: &str, filters: &[EventFilter]) -> Vec<Document>;

    /// The events of a session that the model sees, in its order.
    ///
    /// # Errors
    /// As [`list_events`](Store::list_events).
    read_surface, read_surface_with (id: &str) -> ReadSurface;

    /// An event and its neighbours, without reading the rest of a long log.
    ///
    /// ```
    /// # fn main() -> dsh_session_core::Result<()> {
    /// use dsh_session_core::{EventDraft, NewSession, Store, query::EventRequest};
    /// let store = Store::in_memory()?;
    /// let session = store.create(NewSession::new().id("s1"))?;
    /// session.append(&EventDraft::new("turn/start", r#"{"turn":1}"#)?)?;
    /// let window = store.read_event("s1", EventRequest::new(0).after(3))?;
    /// assert_eq!((window.start_seq(), window.end_seq()), (0, 0));
    /// # session.close()
    /// # }
    /// ```
    ///
    /// # Errors
    /// `SESSION_QUERY_INVALID_WINDOW`, `SESSION_QUERY_EVENT_NOT_FOUND`, and as [`read_session`](Store::read_session).
    read_event, read_event_with (id: &str, request: EventRequest) -> EventWindow;

    /// Where an event came from and what became of it.
    ///
    /// # Errors
    /// `SESSION_QUERY_EVENT_NOT_FOUND`, and as [`list_events`](Store::list_events).
    trace_event, trace_event_with (id: &str, seq: u64) -> EventTrace;

    /// The header and the title of a session.
    ///
    /// # Errors
    /// As [`read_session`](Store::read_session).
    read_title, read_title_with (id: &str) -> TitleSnapshot;

    /// Headers and titles of many sessions, each id once; what is wrong with one session is said of that one.
    ///
    /// # Errors
    /// None but a cancellation.
    read_titles, read_titles_with (ids: &[String]) -> Vec<TitleResult>;

    /// What a person would read of a session, also where the model no longer sees it.
    ///
    /// # Errors
    /// As [`read_session`](Store::read_session).
    transcript, transcript_with (id: &str) -> Vec<TranscriptEntry>;
}
