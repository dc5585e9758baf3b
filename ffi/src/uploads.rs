//! For programs that upload logs: who keeps a session out of it, and which events come next. The library uploads nothing itself.

use crate::buffer::dsh_str;
use crate::callback::{Callback, dsh_destructor};
use crate::errors::{dsh_error, give_error, take_error};
use crate::events::{dsh_event, dsh_events, owner_of};
use crate::guard::{self, look};
use crate::handle::{Kind, give};
use crate::input::{self, Sized1, invalid};
use crate::listeners::{SubscriptionValue, dsh_subscription, give_subscription};
use crate::output::{Out, OutStruct};
use crate::status::{DSH_OK, code_of, dsh_status};
use dsh_session_core::session::upload_exclusions::{
    DeliveryFold, NextUpload, Upload, UploadExclusions, UploadVerdict, next_upload,
};
use dsh_session_core::{Code, Error, Result};
use std::ffi::{c_char, c_void};
use std::ptr;
use std::sync::{Mutex, PoisonError};

/// The default bound of one upload, in bytes of rows with their newlines: 8 MiB.
pub const DSH_UPLOAD_BYTES_MAX_DEFAULT: u64 = 8_388_608;

const _: () = assert!(
    DSH_UPLOAD_BYTES_MAX_DEFAULT == dsh_session_core::session::upload_exclusions::UPLOAD_BYTES_MAX_DEFAULT
);

/// A registry of predicates, each of which may keep a session out of an upload. Used by many threads at once.
pub struct dsh_upload_exclusions {
    _opaque: [u8; 0],
}

impl Kind for dsh_upload_exclusions {
    type Value = UploadExclusions;
    const MAGIC: u64 = 0x6473_685f_7570_6c78;
    const WORD: &'static str = "registry of upload exclusions";
}

/// Whether a session's log may be part of an upload; also what one predicate says of it.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum dsh_upload_verdict {
    /// No predicate matches: ordinary eligibility decides.
    DSH_UPLOAD_UNMATCHED = 0,
    /// A predicate matches: nothing of the log goes out, no event is to be read, no acceptance to be noted.
    DSH_UPLOAD_EXCLUDED = 1,
    /// A predicate failed: this time nothing of the log goes out, and the failure is to be reported.
    DSH_UPLOAD_FAILED = 2,
}

const UNMATCHED: i32 = dsh_upload_verdict::DSH_UPLOAD_UNMATCHED as i32;
const EXCLUDED: i32 = dsh_upload_verdict::DSH_UPLOAD_EXCLUDED as i32;

/// What is about to be uploaded. Lent until the predicate returns.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct dsh_upload {
    /// How many bytes the library knows; a later one has members after these.
    pub struct_size: usize,
    /// The session.
    pub session_id: dsh_str,
    /// What the request is for; absent for an ordinary one of the conversation.
    pub purpose: dsh_str,
}

/// Says with a `dsh_upload_verdict` whether a session stays out of an upload, without side effects. Any other number is a failure too: a
/// negative `DSH_E_...` code is the error, unless `*error` is set to one of `dsh_error_new`, which the library then owns. It runs on the
/// thread that judges, with no lock of the library held, and may use the registry. It must not unwind or jump out.
pub type dsh_upload_predicate = Option<
    unsafe extern "C" fn(upload: *const dsh_upload, user: *mut c_void, error: *mut *mut dsh_error) -> i32,
>;

type PredicateFunction = unsafe extern "C" fn(*const dsh_upload, *mut c_void, *mut *mut dsh_error) -> i32;

/// A new registry without predicates, freed with `dsh_upload_exclusions_free`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dsh_upload_exclusions_new(
    exclusions: *mut *mut dsh_upload_exclusions,
    err: *mut *mut dsh_error,
) -> dsh_status {
    // SAFETY: C3 (exclusions, err).
    unsafe {
        guard::call_free(err, || {
            Out::new(exclusions, "the registry")?.set(give(UploadExclusions::new()));
            Ok(DSH_OK)
        })
    }
}

fn asked(callback: &Callback<PredicateFunction>, upload: &Upload<'_>) -> Result<bool> {
    let lent = dsh_upload {
        struct_size: size_of::<dsh_upload>(),
        session_id: dsh_str::of(upload.session_id),
        purpose: dsh_str::of_optional(upload.purpose),
    };
    let mut error = ptr::null_mut();
    // SAFETY: C6; what is lent lives until the call returns.
    let returned = unsafe { (callback.function)(&lent, callback.user, &mut error) };
    // SAFETY: C1: the predicate gave the error up.
    let given = unsafe { take_error(error) };
    match (returned, given) {
        (UNMATCHED, _) => Ok(false),
        (EXCLUDED, _) => Ok(true),
        (_, Some(error)) => Err(error),
        (returned, None) => {
            let code = code_of(returned).unwrap_or(Code::SessionRefused);
            let message = format!("an upload predicate returned {returned} and gave no error");
            Err(Error::new(code, message).with_session_id(upload.session_id))
        }
    }
}

/// Adds a predicate, which is asked after those before it. `subscription` takes exactly this one away again (`dsh_subscription_cancel`); if
/// it is NULL the predicate stays as long as the registry. `destructor` (or NULL) is called once with `user`, after the last call: when
/// the subscription is cancelled or freed, or when the registry is freed. If this call fails it is not called. Fails with
/// `DSH_E_INVALID_ARGUMENT`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dsh_upload_exclusions_register(
    exclusions: *mut dsh_upload_exclusions,
    predicate: dsh_upload_predicate,
    user: *mut c_void,
    destructor: dsh_destructor,
    subscription: *mut *mut dsh_subscription,
    err: *mut *mut dsh_error,
) -> dsh_status {
    // SAFETY: C1 (exclusions), C6 (predicate, destructor), C3 (subscription, err).
    unsafe {
        guard::call(exclusions, err, |value| {
            let out = Out::optional(subscription, "the subscription")?;
            let function = predicate.ok_or_else(|| invalid("the predicate is NULL"))?;
            let callback = Callback::new(function, user, destructor);
            let registration = value.register(move |upload| asked(&callback, upload));
            give_subscription(out, SubscriptionValue::UploadPredicate(registration))
        })
    }
}

/// Asks the predicates in order, up to the first that matches or fails; `purpose` is what the request is for, NULL with length 0 for an
/// ordinary one of the conversation. `*verdict` gets a `dsh_upload_verdict`, and `*failure`, unless `failure` is NULL, why a predicate
/// failed, to be freed by the caller, or NULL. Fails with `DSH_E_INVALID_ARGUMENT`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dsh_upload_exclusions_judge(
    exclusions: *const dsh_upload_exclusions,
    session_id: *const c_char,
    session_id_len: usize,
    purpose: *const c_char,
    purpose_len: usize,
    verdict: *mut i32,
    failure: *mut *mut dsh_error,
    err: *mut *mut dsh_error,
) -> dsh_status {
    // SAFETY: C1 (exclusions), C2 (session_id, purpose), C3 (verdict, failure, err).
    unsafe {
        guard::call(exclusions, err, |value| {
            let out = Out::new(verdict, "the verdict")?;
            let failure = Out::optional(failure, "the failure")?;
            let session_id = input::id(session_id, session_id_len)?;
            let has_purpose = !purpose.is_null();
            let purpose = input::text(purpose, purpose_len, "the purpose")?;
            let upload = Upload { session_id, purpose: has_purpose.then_some(purpose) };
            let (verdict, failed) = match value.judge(&upload) {
                UploadVerdict::Unmatched => (dsh_upload_verdict::DSH_UPLOAD_UNMATCHED, None),
                UploadVerdict::Excluded => (dsh_upload_verdict::DSH_UPLOAD_EXCLUDED, None),
                UploadVerdict::Failed(error) => (dsh_upload_verdict::DSH_UPLOAD_FAILED, Some(error)),
            };
            out.set(verdict as i32);
            // Nothing is made where nobody wants it: it would never be freed.
            if failure.is_wanted() {
                failure.set(failed.map_or(ptr::null_mut(), give_error));
            }
            Ok(DSH_OK)
        })
    }
}

/// Frees the registry; predicates that are being asked are asked to their end. NULL is fine.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dsh_upload_exclusions_free(exclusions: *mut dsh_upload_exclusions) {
    // SAFETY: C1, last call.
    unsafe { guard::free(exclusions, |_| {}) }
}

/// How far a session was uploaded: the largest `throughSeq` of its own delivery records of this format. Records that a fork inherited do
/// not count. Used by many threads at once.
pub struct dsh_delivery_fold {
    _opaque: [u8; 0],
}

impl Kind for dsh_delivery_fold {
    type Value = Mutex<DeliveryFold>;
    const MAGIC: u64 = 0x6473_685f_6465_6c66;
    const WORD: &'static str = "fold of delivery records";
}

/// For an empty log of a session, freed with `dsh_delivery_fold_free`. Fails with `DSH_E_INVALID_ARGUMENT`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dsh_delivery_fold_new(
    session_id: *const c_char,
    session_id_len: usize,
    fold: *mut *mut dsh_delivery_fold,
    err: *mut *mut dsh_error,
) -> dsh_status {
    // SAFETY: C2 (session_id), C3 (fold, err).
    unsafe {
        guard::call_free(err, || {
            let out = Out::new(fold, "the fold")?;
            out.set(give(Mutex::new(DeliveryFold::new(input::id(session_id, session_id_len)?))));
            Ok(DSH_OK)
        })
    }
}

/// Takes the next event of the log. Fails with `DSH_E_INVALID_ARGUMENT`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dsh_delivery_fold_see(
    fold: *mut dsh_delivery_fold,
    event: *const dsh_event,
    err: *mut *mut dsh_error,
) -> dsh_status {
    // SAFETY: C1 (fold), C5 (event), C3 (err).
    unsafe {
        guard::call(fold, err, |value| {
            let event = owner_of(event)?;
            value.lock().unwrap_or_else(PoisonError::into_inner).see(event);
            Ok(DSH_OK)
        })
    }
}

/// The last event that was uploaded; -1 before the first upload, and for NULL.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dsh_delivery_fold_watermark(fold: *const dsh_delivery_fold) -> i64 {
    // SAFETY: C1.
    unsafe {
        look(fold, -1, |value| {
            let watermark = value.lock().unwrap_or_else(PoisonError::into_inner).watermark();
            watermark.map_or(-1, |seq| i64::try_from(seq).unwrap_or(i64::MAX))
        })
    }
}

/// Frees the fold. NULL is fine.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dsh_delivery_fold_free(fold: *mut dsh_delivery_fold) {
    // SAFETY: C1, last call.
    unsafe { guard::free(fold, |_| {}) }
}

/// Whether there is something to upload.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum dsh_next_upload_kind {
    /// Everything was taken.
    DSH_NEXT_UPLOAD_NOTHING = 0,
    /// The events from `first_seq` to `last_seq`, both counted in.
    DSH_NEXT_UPLOAD_EVENTS = 1,
    /// The next event alone, `first_seq`, is larger than the bound. No run of events fits until that is raised.
    DSH_NEXT_UPLOAD_TOO_LARGE = 2,
}

/// What an upload takes next. Begin with `DSH_NEXT_UPLOAD_INIT`.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct dsh_next_upload {
    /// `sizeof(dsh_next_upload)`, set by the caller.
    pub struct_size: usize,
    /// A `dsh_next_upload_kind`.
    pub kind: i32,
    /// The first event, 0 where there is nothing.
    pub first_seq: u64,
    /// The last one; `first_seq` where that is too large.
    pub last_seq: u64,
    /// Their rows with newlines.
    pub bytes: u64,
}

impl Sized1 for dsh_next_upload {
    const SIZE_MIN: usize = size_of::<dsh_next_upload>();
}

impl dsh_next_upload {
    fn of(next: NextUpload, struct_size: usize) -> dsh_next_upload {
        use dsh_next_upload_kind::{
            DSH_NEXT_UPLOAD_EVENTS, DSH_NEXT_UPLOAD_NOTHING, DSH_NEXT_UPLOAD_TOO_LARGE,
        };
        let (kind, first_seq, last_seq, bytes) = match next {
            NextUpload::Nothing => (DSH_NEXT_UPLOAD_NOTHING, 0, 0, 0),
            NextUpload::Events { first_seq, last_seq, bytes } => {
                (DSH_NEXT_UPLOAD_EVENTS, first_seq, last_seq, bytes)
            }
            NextUpload::TooLarge { seq, bytes } => (DSH_NEXT_UPLOAD_TOO_LARGE, seq, seq, bytes),
        };
        dsh_next_upload { struct_size, kind: kind as i32, first_seq, last_seq, bytes }
    }
}

/// The longest run of events after the watermark (-1 before the first upload) whose rows with their newlines fit into `bytes_max`; 0
/// stands for `DSH_UPLOAD_BYTES_MAX_DEFAULT`. `events` begins anywhere up to the first event after the watermark, and is used up as far as
/// this looks: the run and one event after it. Read the run itself with another iterator. Fails with what the reading finds, and with
/// `DSH_E_INVALID_ARGUMENT`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dsh_events_next_upload(
    events: *mut dsh_events,
    watermark: i64,
    bytes_max: u64,
    next: *mut dsh_next_upload,
    err: *mut *mut dsh_error,
) -> dsh_status {
    // SAFETY: C1 (events), C4 (next), C3 (err).
    unsafe {
        guard::call(events, err, |value| {
            let out = OutStruct::new(next, "the next upload")?;
            let watermark = match watermark {
                -1 => None,
                seq => Some(u64::try_from(seq).map_err(|_| invalid(format!("{seq} is no watermark")))?),
            };
            let bytes_max = if bytes_max == 0 { DSH_UPLOAD_BYTES_MAX_DEFAULT } else { bytes_max };
            let found = value.take(|events| next_upload(events, watermark, bytes_max))?;
            let found = dsh_next_upload::of(found, out.size());
            out.set(found);
            Ok(DSH_OK)
        })
    }
}
