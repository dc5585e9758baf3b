//! The store: a root, opened; everything else is opened from it.

use crate::buffer::{buffer_out, dsh_buffer, dsh_str};
use crate::callback::{Callback, LogSink, dsh_destructor, dsh_log_callback};
use crate::cancel::{self, dsh_cancel};
use crate::errors::dsh_error;
use crate::guard::{self, look};
use crate::handle::{Kind, give};
use crate::input::{self, Sized1, invalid};
use crate::lines::{LinesValue, dsh_lines};
use crate::output::Out;
use crate::status::{DSH_OK, dsh_status};
use dsh_session_core::event::Vocabulary;
use dsh_session_core::json::{self, DEPTH_MAX_DEFAULT, Json};
use dsh_session_core::{Code, Encoding, Error, ListMode, ReadLimits, Removal, Result, Store, StoreBuilder};
use std::ffi::{c_char, c_void};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// A root of sessions, opened. Used by many threads at once. Sessions, logs and iterators opened from it may
/// outlive it: they keep alive what they need.
pub struct dsh_store {
    _opaque: [u8; 0],
}

/// The store, and where its log lines go.
#[derive(Debug)]
pub(crate) struct StoreValue {
    store: Store,
    is_closed: AtomicBool,
    pub(crate) log: Arc<LogSink>,
    /// The event types that the host registered, for folds outside of sessions.
    pub(crate) vocabulary: Vocabulary,
}

impl Kind for dsh_store {
    type Value = StoreValue;
    const MAGIC: u64 = 0x6473_685f_7374_6f72;
    const WORD: &'static str = "store";
}

impl StoreValue {
    /// The open store.
    ///
    /// # Errors
    /// `HANDLE_CLOSED`.
    pub(crate) fn open(&self) -> Result<&Store> {
        if self.is_closed.load(Ordering::Acquire) {
            return Err(
                Error::new(Code::HandleClosed, "the store is closed").with_advice("open the store again")
            );
        }
        Ok(&self.store)
    }

    /// A share of the store that keeps it alive, closed or not: for what was just opened from it.
    pub(crate) fn share(&self) -> Store {
        self.store.clone()
    }

    /// Closes once; whether this call did it.
    fn close(&self) -> bool {
        !self.is_closed.swap(true, Ordering::AcqRel)
    }
}

/// How new sessions are stored.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum dsh_encoding {
    /// As the sessions that the root already holds; in an empty root compressed.
    DSH_ENCODING_OF_ROOT = 0,
    /// Lines of text.
    DSH_ENCODING_NONE = 1,
    /// Compressed with Zstandard. In a root that holds the other encoding `dsh_session_create` fails with
    /// `DSH_E_SESSION_CONFLICT`.
    DSH_ENCODING_ZSTD = 2,
}

/// Settings of a store. Begin with `DSH_STORE_SETTINGS_INIT`; 0 means the default everywhere.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct dsh_store_settings {
    /// `sizeof(dsh_store_settings)`.
    pub struct_size: usize,
    /// A `dsh_encoding`.
    pub encoding: i32,
    /// The deepest nesting of a row that is read, in levels; default 100,000.
    pub depth_max: u32,
    /// The longest row that is read, in bytes; default and most: 2 GiB less 4 MiB.
    pub row_bytes_max: u64,
    /// The longest header line that is read, in bytes; default 1 MiB.
    pub header_bytes_max: u64,
    /// How many threads decode one compressed log, the calling one included; default as many as there are
    /// processors, at most 4.
    pub threads: u32,
    /// `DSH_STORE_UNCHECKED_RULES` or 0.
    pub flags: u32,
    /// The event types that this program registers: a JSON array whose members are names, or objects with `type` and
    /// `changesMessages`, which says that events of the type need a projection (`dsh_store_register_projection`). They are known
    /// when a log is read, and may be appended. NULL for none.
    pub event_types: *const c_char,
    /// How many bytes.
    pub event_types_len: usize,
}

/// A bit of `dsh_store_settings.flags`: appends are not judged by the rules of stored logs (A1 to A25), only by those of sessions. A
/// log written so may be one that no reader accepts.
pub const DSH_STORE_UNCHECKED_RULES: u32 = 1;

impl Sized1 for dsh_store_settings {
    const SIZE_MIN: usize = std::mem::offset_of!(dsh_store_settings, event_types);
}

impl dsh_store_settings {
    fn encoding(&self) -> Result<Option<Encoding>> {
        match self.encoding {
            0 => Ok(None),
            1 => Ok(Some(Encoding::None)),
            2 => Ok(Some(Encoding::Zstd)),
            other => Err(invalid(format!("{other} is no dsh_encoding"))),
        }
    }

    fn limits(&self) -> Result<ReadLimits> {
        if self.flags & !DSH_STORE_UNCHECKED_RULES != 0 {
            return Err(invalid(format!("{:#x} are no flags of a store", self.flags)));
        }
        let mut limits = ReadLimits::default();
        if self.row_bytes_max > limits.row_bytes_max {
            let message =
                format!("row_bytes_max is {}, more than {}", self.row_bytes_max, limits.row_bytes_max);
            return Err(invalid(message));
        }
        let or = |given: u64, default: u64| if given == 0 { default } else { given };
        limits.row_bytes_max = or(self.row_bytes_max, limits.row_bytes_max);
        limits.header_bytes_max = or(self.header_bytes_max, limits.header_bytes_max);
        if self.depth_max != 0 {
            limits.depth_max = self.depth_max;
        }
        if self.threads != 0 {
            limits.threads = self.threads as usize;
        }
        Ok(limits)
    }

    /// # Errors
    /// `INVALID_ARGUMENT`.
    ///
    /// # Safety
    /// C2 (the event types).
    unsafe fn vocabulary(&self) -> Result<Vocabulary> {
        // SAFETY: C2.
        let text = unsafe { input::text(self.event_types, self.event_types_len, "event_types") }?;
        let mut vocabulary = Vocabulary::default();
        if text.is_empty() {
            return Ok(vocabulary);
        }
        let malformed =
            || invalid("event_types is no JSON array of names, or objects with `type` and `changesMessages`");
        let types = Json::parse(text, DEPTH_MAX_DEFAULT).map_err(|_| malformed())?;
        if types.kind() != json::Kind::Array {
            return Err(malformed());
        }
        for entry in types.elements() {
            let (name, changes_messages) = match entry.kind() {
                json::Kind::String => (entry.as_str(), Some(false)),
                json::Kind::Object => {
                    let flag = entry.get("changesMessages");
                    (
                        entry.get("type").and_then(|name| name.as_str()),
                        flag.map_or(Some(false), |flag| flag.as_bool()),
                    )
                }
                _ => return Err(malformed()),
            };
            let (Some(name), Some(changes_messages)) = (name, changes_messages) else {
                return Err(malformed());
            };
            vocabulary = vocabulary.and_type(name, changes_messages);
        }
        Ok(vocabulary)
    }

    /// # Errors
    /// `INVALID_ARGUMENT`.
    ///
    /// # Safety
    /// C2 (the event types).
    unsafe fn apply(&self, mut builder: StoreBuilder) -> Result<(StoreBuilder, Vocabulary)> {
        // SAFETY: C2.
        let vocabulary = unsafe { self.vocabulary() }?;
        if let Some(encoding) = self.encoding()? {
            builder = builder.encoding(encoding);
        }
        builder = builder
            .limits(self.limits()?)
            .vocabulary(vocabulary.clone())
            .checks_stored_rules(self.flags & DSH_STORE_UNCHECKED_RULES == 0);
        Ok((builder, vocabulary))
    }
}

/// Opens a root. It need not exist: the first session makes it. With `root` NULL (and `root_len` 0) the store
/// is kept in memory: it writes no file, and its sessions go with it. `settings` may be NULL. The store is
/// freed with `dsh_store_free`. Fails with `DSH_E_INVALID_ARGUMENT` for settings that are none, and with `DSH_E_IO` if the root is there and is no readable folder.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dsh_store_open(
    root: *const c_char,
    root_len: usize,
    settings: *const dsh_store_settings,
    store: *mut *mut dsh_store,
    err: *mut *mut dsh_error,
) -> dsh_status {
    // SAFETY: C2 (root), C4 (settings), C3 (store, err).
    unsafe {
        guard::call_free(err, || {
            let out = Out::new(store, "the store")?;
            let settings = input::optional_struct(settings, "the settings")?;
            let mut builder = if root.is_null() && root_len == 0 {
                Store::memory_builder()
            } else {
                let root = input::some_text(root, root_len, "the root")?;
                Store::builder(root)
            };
            let mut vocabulary = Vocabulary::default();
            if let Some(settings) = settings {
                (builder, vocabulary) = settings.apply(builder)?;
            }
            let log = Arc::new(LogSink::default());
            let store = builder.reporter(log.reporter()).open()?;
            out.set(give(StoreValue { store, is_closed: AtomicBool::new(false), log, vocabulary }));
            Ok(DSH_OK)
        })
    }
}

/// The root, absolute, in the bytes of the file system; absent for a store in memory. Lives as long as the
/// store.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dsh_store_root(store: *const dsh_store) -> dsh_str {
    // SAFETY: C1.
    unsafe {
        look(store, dsh_str::ABSENT, |value| {
            value.store.root().map_or(dsh_str::ABSENT, |root| {
                let bytes = root.as_os_str().as_encoded_bytes();
                dsh_str { ptr: bytes.as_ptr().cast(), len: bytes.len() }
            })
        })
    }
}

/// Gives log lines of the store, and of what is opened from it, to a callback; NULL removes the one before.
/// `destructor` (or NULL) is called once with `user`, after the callback's last call: when it is replaced or
/// removed, or when the store and everything opened from it are freed. If this call fails the destructor is
/// not called.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dsh_store_set_log_callback(
    store: *mut dsh_store,
    callback: dsh_log_callback,
    user: *mut c_void,
    destructor: dsh_destructor,
    err: *mut *mut dsh_error,
) -> dsh_status {
    // SAFETY: C1 (store), C6 (callback, destructor), C3 (err).
    unsafe {
        guard::call(store, err, |value| {
            value.open()?;
            if callback.is_none() && destructor.is_some() {
                return Err(invalid("a destructor was given without a callback"));
            }
            value.log.set(callback.map(|function| Callback::new(function, user, destructor)));
            Ok(DSH_OK)
        })
    }
}

/// One session without its events, as a JSON object with `header`, `formatStatus`, `sizeBytes` and
/// `revision`. Fails with `DSH_E_SESSION_NOT_FOUND`, and as a read open does if the session is damaged.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dsh_store_stat(
    store: *const dsh_store,
    id: *const c_char,
    id_len: usize,
    cancel: *const dsh_cancel,
    out: *mut dsh_buffer,
    err: *mut *mut dsh_error,
) -> dsh_status {
    // SAFETY: C1 (store, cancel), C2 (id), C3 (out, err).
    unsafe {
        guard::call(store, err, |value| {
            let out = buffer_out(out)?;
            let id = input::id(id, id_len)?;
            let cancel = cancel::token(cancel)?;
            match value.open()?.persistence().stat(id, &cancel)? {
                Some(snapshot) => out.give(snapshot.to_json()),
                None => {
                    let message = format!("there is no session {id}");
                    return Err(Error::new(Code::SessionNotFound, message).with_session_id(id));
                }
            }
            Ok(DSH_OK)
        })
    }
}

/// A bit of the `flags` of `dsh_store_list`: findings about a single session fail the listing or are passed
/// over, as the reference implementation does it, instead of being named as problems.
pub const DSH_LIST_STRICT: u32 = 1;

/// A bit of the `flags` of `dsh_store_remove`: the session's folder is moved aside, to `<root>.trash/` beside
/// the root.
pub const DSH_REMOVE_TRASH: u32 = 1;

/// Every session, most recently created first, as lines of JSON: for each session what `dsh_store_stat`
/// gives, then for each file or folder that is no usable session
/// `{"problem":{"path","id"?,"code","message"}}`. One damaged session hides no other. `flags` is 0 or
/// `DSH_LIST_STRICT`. The iterator is freed with `dsh_lines_free`. Fails with `DSH_E_IO` if the root cannot
/// be read.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dsh_store_list(
    store: *const dsh_store,
    flags: u32,
    cancel: *const dsh_cancel,
    lines: *mut *mut dsh_lines,
    err: *mut *mut dsh_error,
) -> dsh_status {
    // SAFETY: C1 (store, cancel), C3 (lines, err).
    unsafe {
        guard::call(store, err, |value| {
            let out = Out::new(lines, "the iterator")?;
            let mode = match flags {
                0 => ListMode::Tolerant,
                DSH_LIST_STRICT => ListMode::Strict,
                other => return Err(invalid(format!("{other:#x} are no flags of a listing"))),
            };
            let listing = value.open()?.list_with(mode, &cancel::token(cancel)?)?;
            let mut sessions = listing.sessions.into_iter();
            let mut problems = listing.problems.into_iter();
            out.set(give(LinesValue::new(move || {
                let line = sessions.next().map(|session| session.to_json());
                Ok(line.or_else(|| problems.next().map(|problem| problem.to_json())))
            })));
            Ok(DSH_OK)
        })
    }
}

/// Takes a session away, with its older generations. `flags` is 0 to remove it for good, or
/// `DSH_REMOVE_TRASH`. `path` may be NULL; otherwise it gets the folder that the session was moved to, empty
/// where there is none, to be freed with `dsh_buffer_free`. A crash meanwhile leaves the session, or nothing
/// that counts as one. Fails with `DSH_E_SESSION_NOT_FOUND`, `DSH_E_SESSION_ALREADY_OWNED`,
/// `DSH_E_SESSION_CONFLICT`, `DSH_E_CANCELLED`, `DSH_E_IO`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dsh_store_remove(
    store: *mut dsh_store,
    id: *const c_char,
    id_len: usize,
    flags: u32,
    cancel: *const dsh_cancel,
    path: *mut dsh_buffer,
    err: *mut *mut dsh_error,
) -> dsh_status {
    // SAFETY: C1 (store, cancel), C2 (id), C3 (path, err).
    unsafe {
        guard::call(store, err, |value| {
            let out = Out::optional(path, "the path")?;
            let id = input::id(id, id_len)?;
            let how = match flags {
                0 => Removal::Delete,
                DSH_REMOVE_TRASH => Removal::Trash,
                other => return Err(invalid(format!("{other:#x} are no flags of a removal"))),
            };
            let moved_to = value.open()?.persistence().remove(id, how, &cancel::token(cancel)?)?;
            out.give_optional(moved_to.map(|path| path.to_string_lossy().into_owned()));
            Ok(DSH_OK)
        })
    }
}

/// Writes what the store's sessions have accepted, makes every session and log handle of the store durable, and goes on past
/// failures. Several failures come as `DSH_E_SEVERAL`, with causes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dsh_store_flush(store: *mut dsh_store, err: *mut *mut dsh_error) -> dsh_status {
    // SAFETY: C1 (store), C3 (err).
    unsafe {
        guard::call(store, err, |value| {
            value.open()?.flush()?;
            Ok(DSH_OK)
        })
    }
}

/// Closes the store: later calls on it fail with `DSH_E_HANDLE_CLOSED`. What was opened from it stays open
/// and works on. A second close does nothing.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dsh_store_close(store: *mut dsh_store, err: *mut *mut dsh_error) -> dsh_status {
    // SAFETY: C1 (store), C3 (err).
    unsafe {
        guard::call(store, err, |value| {
            value.close();
            Ok(DSH_OK)
        })
    }
}

/// Frees a store, closing it if need be. NULL is fine.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dsh_store_free(store: *mut dsh_store) {
    // SAFETY: C1, last call.
    unsafe {
        guard::free(store, |value| {
            value.close();
        })
    }
}
