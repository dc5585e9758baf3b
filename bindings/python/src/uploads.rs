//! For programs that upload logs (`session.md` 16): who keeps a session out of it, and which events come next.

use crate::arguments;
use crate::callbacks::{Callback, Registered, Subscription};
use crate::error::raise;
use crate::event::Event;
use crate::records;
use crate::run::{Runner, lock};
use dsh_session_core::session::upload_exclusions::{self as core, NextUpload, Upload, UploadVerdict};
use pyo3::prelude::*;
use std::sync::{Arc, Mutex};

/// A registry of predicates, each of which may keep a session out of an upload. The library uploads nothing itself.
///
/// >>> exclusions = UploadExclusions()
/// >>> private = exclusions.register(lambda upload: upload.session_id.startswith("private-"))
/// >>> exclusions.judge("private-1").verdict, exclusions.judge("other").verdict
/// ('excluded', 'unmatched')
/// >>> private.cancel()
/// >>> exclusions.judge("private-1").verdict
/// 'unmatched'
#[pyclass(frozen, module = "dsh_session")]
#[derive(Debug)]
pub(crate) struct UploadExclusions {
    exclusions: core::UploadExclusions,
    runner: Arc<Runner>,
}

#[pymethods]
impl UploadExclusions {
    #[new]
    fn new() -> UploadExclusions {
        UploadExclusions { exclusions: core::UploadExclusions::new(), runner: Runner::new() }
    }

    /// Adds `predicate(upload)`, asked after those before it, until the subscription is cancelled: a true answer keeps the session out.
    ///
    /// `upload` is an `Upload`. The predicate must have no side effects; it is called on the thread that judges and may use the registry,
    /// but one that holds the registry keeps it for ever, and so itself, unless it is cancelled.
    fn register(&self, py: Python<'_>, predicate: &Bound<'_, PyAny>) -> PyResult<Subscription> {
        if !predicate.is_callable() {
            return Err(raise(py, &arguments::invalid("what is registered is not callable")));
        }
        let callback = Callback::new(&self.runner, predicate.clone().unbind());
        let registration = self.runner.in_place(py, || {
            Ok(self.exclusions.register(move |upload: &Upload<'_>| callback.excludes(upload)))
        })?;
        Ok(Subscription::of(Registered::UploadPredicate(registration)))
    }

    /// Asks the predicates in order, up to the first that matches or fails: an `UploadVerdict`. `purpose` is what the request is for,
    /// `None` for an ordinary one of the conversation.
    #[pyo3(signature = (session_id, purpose=None))]
    fn judge<'py>(
        &self,
        py: Python<'py>,
        #[pyo3(from_py_with = arguments::given)] session_id: String,
        #[pyo3(from_py_with = arguments::given)] purpose: Option<String>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let upload = Upload { session_id: &session_id, purpose: purpose.as_deref() };
        let verdict = self.runner.in_place(py, || Ok(self.exclusions.judge(&upload)))?;
        match verdict {
            UploadVerdict::Unmatched => records::upload_verdict(py, "unmatched", None),
            UploadVerdict::Excluded => records::upload_verdict(py, "excluded", None),
            UploadVerdict::Failed(error) => records::upload_verdict(py, "failed", Some(&error)),
        }
    }
}

/// How far a session was uploaded: the largest `throughSeq` of its own delivery records of this format. Records that a fork inherited do
/// not count.
///
/// >>> fold = DeliveryFold("s")
/// >>> record = {"sessionId": "s", "sessionFormatVersion": 4, "throughSeq": 2}
/// >>> row = {"type": "session-log-deepseek/delivery-accepted", "seq": 3, "time": 5, "data": record}
/// >>> fold.see(Event.from_row(row))
/// >>> fold.watermark
/// 2
#[pyclass(frozen, module = "dsh_session")]
#[derive(Debug)]
pub(crate) struct DeliveryFold {
    fold: Mutex<core::DeliveryFold>,
}

#[pymethods]
impl DeliveryFold {
    #[new]
    fn new(#[pyo3(from_py_with = arguments::given)] session_id: String) -> DeliveryFold {
        DeliveryFold { fold: Mutex::new(core::DeliveryFold::new(&session_id)) }
    }

    /// Takes the next event of the log.
    fn see(&self, py: Python<'_>, event: &Event) {
        py.detach(|| lock(&self.fold).see(event.event()));
    }

    /// The last event that was uploaded; `None` before the first upload.
    #[getter]
    fn watermark(&self, py: Python<'_>) -> Option<u64> {
        py.detach(|| lock(&self.fold).watermark())
    }
}

// The signature below shows its default to people, which takes a literal.
const _: () = assert!(core::UPLOAD_BYTES_MAX_DEFAULT == 8_388_608);

/// The longest run of `events` after the watermark whose rows with their newlines fit into `bytes_max`: a `NextUpload`, or `None` where
/// everything was taken. Where the next event alone is larger it is an `UploadTooLarge`: no run fits until `bytes_max` is raised.
///
/// `events` are in order and may begin anywhere up to the first event after the watermark; no more of them are taken than fit, and one.
///
/// >>> events = [Event.from_row({"type": "turn/start", "seq": seq, "time": 5, "data": {"turn": 1}}) for seq in range(4)]
/// >>> next_upload(events, watermark=0, bytes_max=130)
/// NextUpload(first_seq=1, last_seq=2, bytes=114)
/// >>> next_upload(events, watermark=3) is None
/// True
#[pyfunction]
#[pyo3(signature = (events, watermark=None, bytes_max=8_388_608))]
pub(crate) fn next_upload<'py>(
    py: Python<'py>,
    events: &Bound<'py, PyAny>,
    #[pyo3(from_py_with = arguments::given)] watermark: Option<u64>,
    #[pyo3(from_py_with = arguments::given)] bytes_max: u64,
) -> PyResult<Option<Bound<'py, PyAny>>> {
    let mut failure = None;
    let taken = events.try_iter()?.map_while(|event| {
        let event = event.and_then(|event| Ok(event.cast::<Event>()?.get().event().clone()));
        event.map_err(|error| failure = Some(error)).ok()
    });
    let next = core::next_upload(taken, watermark, bytes_max);
    if let Some(failure) = failure {
        return Err(failure);
    }
    match next {
        NextUpload::Nothing => Ok(None),
        NextUpload::Events { first_seq, last_seq, bytes } => {
            records::next_upload(py, first_seq, last_seq, bytes).map(Some)
        }
        NextUpload::TooLarge { seq, bytes } => records::upload_too_large(py, seq, bytes).map(Some),
    }
}
