//! For programs that upload logs (`session.md` 16): who keeps a session out of it, and which events come next.
//!
//! The library uploads nothing itself.

use crate::error::{Code, Error, Result};
use crate::event::Event;
use crate::event::builders::DELIVERY_FORMAT_VERSION;
use std::borrow::Borrow;
use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

/// The default bound of one upload, in bytes of rows with their newlines: 8 MiB.
pub const UPLOAD_BYTES_MAX_DEFAULT: u64 = 8 << 20;

/// What is about to be uploaded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Upload<'a> {
    /// The session.
    pub session_id: &'a str,
    /// What the request is for; `None` for an ordinary one of the conversation.
    pub purpose: Option<&'a str>,
}

type Predicate = dyn Fn(&Upload<'_>) -> Result<bool> + Send + Sync;

/// Whether a session's log may be part of an upload.
#[derive(Debug)]
#[must_use]
pub enum UploadVerdict {
    /// No predicate matches: ordinary eligibility decides.
    Unmatched,
    /// A predicate matches: nothing of the log goes out, no event is to be read, no acceptance to be noted.
    Excluded,
    /// A predicate failed: this time nothing of the log goes out, and the failure is to be reported.
    Failed(Error),
}

/// A registry of predicates, each of which may keep a session out of an upload. Clones share one registry.
///
/// ```
/// use dsh_session_core::session::upload_exclusions::{Upload, UploadExclusions, UploadVerdict};
/// let exclusions = UploadExclusions::new();
/// let private = exclusions.register(|upload| Ok(upload.session_id.starts_with("private-")));
/// let upload = Upload { session_id: "private-1", purpose: None };
/// assert!(matches!(exclusions.judge(&upload), UploadVerdict::Excluded));
/// private.unregister();
/// assert!(matches!(exclusions.judge(&upload), UploadVerdict::Unmatched));
/// ```
#[derive(Clone, Debug, Default)]
pub struct UploadExclusions {
    registered: Arc<Mutex<Registered>>,
}

#[derive(Default)]
struct Registered {
    next_id: u64,
    /// In order of registration.
    predicates: Vec<(u64, Arc<Predicate>)>,
}

impl fmt::Debug for Registered {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Registered").field("predicates", &self.predicates.len()).finish_non_exhaustive()
    }
}

impl UploadExclusions {
    /// No predicate yet.
    #[must_use]
    pub fn new() -> UploadExclusions {
        UploadExclusions::default()
    }

    /// Adds a predicate: `true` keeps the session out. It must have no side effects. It is asked until its registration is given back
    /// by [`unregister`](UploadRegistration::unregister), on the thread that judges, and may use this registry.
    pub fn register(
        &self,
        predicate: impl Fn(&Upload<'_>) -> Result<bool> + Send + Sync + 'static,
    ) -> UploadRegistration {
        let mut registered = lock(&self.registered);
        let id = registered.next_id;
        registered.next_id += 1;
        registered.predicates.push((id, Arc::new(predicate)));
        UploadRegistration { id, registered: Arc::downgrade(&self.registered) }
    }

    /// Asks the predicates in order, up to the first that matches or fails. A panic of a predicate is a failure like any other.
    pub fn judge(&self, upload: &Upload<'_>) -> UploadVerdict {
        // Asked without the lock: a predicate may register or unregister.
        let predicates = lock(&self.registered).predicates.clone();
        for (_, predicate) in predicates {
            match catch_unwind(AssertUnwindSafe(|| predicate(upload))) {
                Ok(Ok(false)) => {}
                Ok(Ok(true)) => return UploadVerdict::Excluded,
                Ok(Err(error)) => return UploadVerdict::Failed(error),
                Err(_) => {
                    let message = "a predicate that excludes sessions from uploads panicked";
                    let error = Error::new(Code::Panic, message)
                        .with_session_id(upload.session_id)
                        .with_advice("correct the predicate; the session was left out of this upload");
                    return UploadVerdict::Failed(error);
                }
            }
        }
        UploadVerdict::Unmatched
    }
}

fn lock(registered: &Mutex<Registered>) -> MutexGuard<'_, Registered> {
    // Nothing foreign runs under the lock, so nothing is half done.
    registered.lock().unwrap_or_else(PoisonError::into_inner)
}

/// One registration of a predicate. Dropping it keeps the predicate registered.
#[derive(Debug)]
pub struct UploadRegistration {
    id: u64,
    registered: Weak<Mutex<Registered>>,
}

impl UploadRegistration {
    /// Removes exactly this registration; the same predicate registered twice stays once. A second call does nothing.
    pub fn unregister(&self) {
        if let Some(registered) = self.registered.upgrade() {
            let mut registered = lock(&registered);
            let place = registered.predicates.iter().position(|(id, _)| *id == self.id);
            let removed = place.map(|place| registered.predicates.remove(place));
            // What the predicate owns is dropped without the lock.
            drop(registered);
            drop(removed);
        }
    }
}

/// How far a session was uploaded (`events.md` 2.3): the largest `throughSeq` of its own records of this format. Records that a fork
/// inherited keep the id of their session, and so do not count.
#[derive(Clone, Debug)]
pub struct DeliveryFold {
    session_id: Box<str>,
    watermark: Option<u64>,
}

impl DeliveryFold {
    /// For an empty log of this session.
    #[must_use]
    pub fn new(session_id: &str) -> DeliveryFold {
        DeliveryFold { session_id: session_id.into(), watermark: None }
    }

    /// Takes the next event.
    pub fn see(&mut self, event: &Event) {
        let Some(accepted) = event.as_delivery_accepted() else { return };
        let is_own = accepted.session_id == *self.session_id
            && accepted.session_format_version == Some(DELIVERY_FORMAT_VERSION);
        if is_own {
            self.watermark = self.watermark.max(Some(accepted.through_seq));
        }
    }

    /// The last event that was uploaded; `None` before the first upload.
    #[must_use]
    pub fn watermark(&self) -> Option<u64> {
        self.watermark
    }
}

/// What an upload takes next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NextUpload {
    /// Everything was taken.
    Nothing,
    /// These events, both ends counted in.
    Events {
        /// The first.
        first_seq: u64,
        /// The last.
        last_seq: u64,
        /// Their rows with newlines.
        bytes: u64,
    },
    /// The next event alone is larger than the bound. No run of events fits until that is raised.
    TooLarge {
        /// The event.
        seq: u64,
        /// Its row with the newline.
        bytes: u64,
    },
}

/// The longest run of events after the watermark that fits into `bytes_max` ([`UPLOAD_BYTES_MAX_DEFAULT`]). `events` are in order and may
/// begin anywhere up to the first event after the watermark; no more of them are looked at than fit.
pub fn next_upload(
    events: impl IntoIterator<Item = impl Borrow<Event>>,
    watermark: Option<u64>,
    bytes_max: u64,
) -> NextUpload {
    let mut next = NextUpload::Nothing;
    for event in events {
        let event = event.borrow();
        let seq = event.seq();
        if watermark.is_some_and(|watermark| seq <= watermark) {
            continue;
        }
        let row_bytes = event.row().len() as u64 + 1;
        let (first_seq, taken) = match next {
            NextUpload::Events { first_seq, bytes, .. } => (first_seq, bytes),
            _ => (seq, 0),
        };
        let bytes = taken + row_bytes;
        if bytes > bytes_max {
            return if taken == 0 { NextUpload::TooLarge { seq, bytes } } else { next };
        }
        next = NextUpload::Events { first_seq, last_seq: seq, bytes };
    }
    next
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::event::builders::{DeliveryAccepted, IntoDraft, TurnStart};

    fn upload() -> Upload<'static> {
        Upload { session_id: "s", purpose: Some("title") }
    }

    #[test]
    fn any_predicate_that_matches_excludes_and_removing_one_leaves_the_others() {
        let exclusions = UploadExclusions::new();
        let of_titles = |upload: &Upload<'_>| Ok(upload.purpose == Some("title"));
        let first = exclusions.register(of_titles);
        let second = exclusions.register(of_titles);
        let never = exclusions.clone().register(|_| Ok(false));
        assert!(matches!(exclusions.judge(&upload()), UploadVerdict::Excluded));
        first.unregister();
        first.unregister();
        assert!(matches!(exclusions.judge(&upload()), UploadVerdict::Excluded));
        second.unregister();
        assert!(matches!(exclusions.judge(&upload()), UploadVerdict::Unmatched));
        drop(never);
        assert_eq!(lock(&exclusions.registered).predicates.len(), 1, "dropping a registration keeps it");
    }

    #[test]
    fn a_failing_predicate_fails_one_upload_and_not_the_next() {
        let exclusions = UploadExclusions::new();
        let failing = exclusions.register(|_| Err(Error::new(Code::InvalidArgument, "no")));
        let UploadVerdict::Failed(error) = exclusions.judge(&upload()) else { panic!() };
        assert_eq!(error.code(), Code::InvalidArgument);
        failing.unregister();
        let panicking = exclusions.register(|upload| {
            assert_eq!(upload.purpose, None, "only of a request with a purpose");
            Ok(false)
        });
        let UploadVerdict::Failed(error) = exclusions.judge(&upload()) else { panic!() };
        assert_eq!((error.code(), error.session_id()), (Code::Panic, Some("s")));
        let ordinary = Upload { purpose: None, ..upload() };
        assert!(matches!(exclusions.judge(&ordinary), UploadVerdict::Unmatched));
        panicking.unregister();
        assert!(matches!(exclusions.judge(&upload()), UploadVerdict::Unmatched));
    }

    #[test]
    fn a_predicate_may_use_the_registry_that_asks_it() {
        let exclusions = UploadExclusions::new();
        let inner = exclusions.clone();
        let _kept = exclusions.register(move |_| {
            inner.register(|_| Ok(true));
            Ok(false)
        });
        assert!(matches!(exclusions.judge(&upload()), UploadVerdict::Unmatched));
        assert!(matches!(exclusions.judge(&upload()), UploadVerdict::Excluded));
    }

    fn delivery(seq: u64, session_id: &str, through_seq: u64) -> Event {
        let accepted = DeliveryAccepted { session_id: session_id.to_owned(), through_seq };
        accepted.into_draft().unwrap().build(seq, 1).unwrap()
    }

    #[test]
    fn the_watermark_is_the_largest_of_the_sessions_own_records_of_this_format() {
        let mut fold = DeliveryFold::new("s");
        assert_eq!(fold.watermark(), None);
        let old = r#"{"type":"session-log-deepseek/delivery-accepted","seq":3,"time":1,"data":{"sessionId":"s","throughSeq":90}}"#;
        for event in [delivery(1, "s", 0), delivery(2, "parent", 80), Event::from_row(old).unwrap()] {
            fold.see(&event);
            assert_eq!(fold.watermark(), Some(0));
        }
        fold.see(&delivery(20, "s", 15));
        fold.see(&delivery(21, "s", 9));
        assert_eq!(fold.watermark(), Some(15));
    }

    #[test]
    fn an_upload_takes_what_fits_to_the_byte_and_no_more() {
        let events: Vec<Event> =
            (0..4).map(|seq| TurnStart { turn: 1 }.into_draft().unwrap().build(seq, 1).unwrap()).collect();
        let row = events[0].row().len() as u64 + 1;
        let run = |first_seq, last_seq| NextUpload::Events {
            first_seq,
            last_seq,
            bytes: row * (last_seq - first_seq + 1),
        };
        assert_eq!(next_upload(&events, None, UPLOAD_BYTES_MAX_DEFAULT), run(0, 3));
        assert_eq!(next_upload(&events, None, row * 2), run(0, 1));
        assert_eq!(next_upload(&events, None, row * 2 - 1), run(0, 0));
        assert_eq!(next_upload(&events, Some(0), row * 2), run(1, 2));
        assert_eq!(next_upload(&events, Some(2), row * 2), run(3, 3));
        assert_eq!(next_upload(&events, Some(3), row), NextUpload::Nothing);
        assert_eq!(next_upload(&events, Some(1), row - 1), NextUpload::TooLarge { seq: 2, bytes: row });
    }
}
