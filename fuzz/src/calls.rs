//! A sequence of calls of the C library, as a host that is wrong about nearly everything would make them.
//!
//! Each byte is an operation or an argument of one. Handles are NULL, open, closed or poisoned by nothing; texts are good, odd or missing;
//! what is freed is never used again, since that is the one promise a caller must keep. Whatever the order: a failure has an error object
//! that says so, a success has none, results are written only on success, nothing panics inside, and no log is damaged.

use ::dsh_session::buffer::{dsh_buffer, dsh_buffer_free, dsh_str};
use ::dsh_session::cancel::{
    dsh_cancel, dsh_cancel_fire, dsh_cancel_free, dsh_cancel_is_fired, dsh_cancel_new,
};
use ::dsh_session::errors::*;
use ::dsh_session::events::*;
use ::dsh_session::lines::{dsh_lines, dsh_lines_free, dsh_lines_next};
use ::dsh_session::log::*;
use ::dsh_session::query::*;
use ::dsh_session::session::*;
use ::dsh_session::status::dsh_status;
use ::dsh_session::store::*;
use ::dsh_session::version::{dsh_abi_version, dsh_has_feature, dsh_version};
use dsh_session_core::{CancelToken, Code, Store};
use std::ffi::{c_char, c_void};
use std::ptr::{null, null_mut};

/// Operations of one input: what goes wrong goes wrong early.
const OPERATIONS_MAX: usize = 200;

/// Handles of each kind.
const SLOTS: usize = 2;

/// Kept events, and events of one batch.
const KEPT_MAX: usize = 4;

/// Lines and events taken in one go.
const TAKEN_MAX: usize = 64;

const IDS: [&[u8]; 7] = [b"a", b"b", b"A", b"", "é/x".as_bytes(), b"\xff", &[b'n'; 256]];

const HEADERS: [&[u8]; 8] = [
    br#"{"id":"a"}"#,
    br#"{"id":"b","cwd":"/w"}"#,
    br#"{"id":"A","parentSession":"a"}"#,
    b"{}",
    br#"{"id":"s","isSeeded":true}"#,
    br#"{"id":1}"#,
    br#"{"idd":"a"}"#,
    b"",
];

const ROWS: [&[u8]; 8] = [
    br#"{"type":"turn/start","seq":0,"time":1,"data":{"turn":1}}"#,
    br#"{"type":"plugin:fuzz/a","data":{}}"#,
    b"{\"type\":\"plugin:fuzz/a\",\"data\":1}\n{\"type\":\"plugin:fuzz/b\",\"data\":[1.0]}\n",
    br#"{"type":"session/end-seed","seq":0,"time":1,"data":{"inherited":true}}"#,
    br#"{"type":"plugin:fuzz/c","seq":1,"time":1,"data":{},"ignorable":true}"#,
    br#"{"type":"unknown/type","seq":0,"time":1,"data":{}}"#,
    b"{",
    b"",
];

const TYPES: [&[u8]; 6] =
    [b"plugin:fuzz/note", b"feedback/record", b"turn/start", b"turn/end", b"no such", b"\xff"];

const DATA: [&[u8]; 6] = [b"{}", br#"{"turn":1}"#, br#"{"text":"\ud83d"}"#, b"-0", b"{", b"\xff"];

/// Calls the library. The promises of a caller are kept in one place:
macro_rules! c {
    ($call:expr) => {{
        // SAFETY: C1: the handles of a `World` are NULL or live, of their kind, and freed once, when they leave their slot. C2: texts are
        // slices that outlive the call. C3: results and errors are places on the stack. C4: structs begin with their own size. C5: a lent
        // event is forgotten before its iterator moves on, a kept one is released once. C6: callbacks use nothing.
        unsafe { $call }
    }};
}

/// Makes a call that may fail, with or without a place for its error.
macro_rules! attempt {
    ($input:expr, |$err:ident| $call:expr) => {{
        let mut error = null_mut();
        let is_wanted = $input.byte() & 7 != 0;
        let $err: *mut *mut dsh_error = if is_wanted { &mut error } else { null_mut() };
        let status = c!($call);
        settle(status, error, is_wanted);
        status
    }};
}

/// The bytes that decide; zeros when they are used up.
struct Input<'a> {
    rest: &'a [u8],
}

impl<'a> Input<'a> {
    fn byte(&mut self) -> u8 {
        let Some((first, rest)) = self.rest.split_first() else { return 0 };
        self.rest = rest;
        *first
    }

    fn slot(&mut self) -> usize {
        usize::from(self.byte()) % SLOTS
    }

    /// Small numbers, and now and then one at an edge.
    fn number(&mut self) -> u64 {
        match self.byte() {
            255 => u64::MAX,
            254 => i64::MAX as u64,
            253 => 1 << 53,
            small => u64::from(small % 16),
        }
    }

    /// One of the known texts, or bytes of the input.
    fn text(&mut self, known: &[&'static [u8]]) -> &'a [u8] {
        let choice = usize::from(self.byte());
        if choice < 224 {
            return known[choice % known.len()];
        }
        let (text, rest) = self.rest.split_at((choice - 220).min(self.rest.len()));
        self.rest = rest;
        text
    }
}

fn pointer(text: &[u8]) -> *const c_char {
    if text.is_empty() { null() } else { text.as_ptr().cast() }
}

fn no_text() -> dsh_str {
    dsh_str { ptr: null(), len: 0 }
}

fn no_event() -> dsh_event {
    let none = no_text();
    dsh_event {
        struct_size: size_of::<dsh_event>(),
        seq: 0,
        time: 0,
        flags: 0,
        reserved: 0,
        r#type: none,
        row: none,
        data: none,
        surface_op: none,
        source_event_seqs: none,
        owner: null(),
    }
}

/// Reads every byte of a text that the library lends.
fn touch(text: dsh_str) -> Vec<u8> {
    if text.ptr.is_null() {
        assert_eq!(text.len, 0);
        return Vec::new();
    }
    // SAFETY: a view of the library, within its lifetime: the caller touches it before the next call.
    unsafe { std::slice::from_raw_parts(text.ptr.cast::<u8>(), text.len) }.to_vec()
}

/// A call failed if and only if it says so in both ways, and never by a fault of its own.
fn settle(status: dsh_status, error: *mut dsh_error, is_wanted: bool) {
    let faults = [Code::Panic, Code::Internal].map(|code| -code.number());
    assert_eq!(!error.is_null(), status < 0 && is_wanted);
    if error.is_null() {
        assert!(!faults.contains(&status), "status {status}");
        return;
    }
    let message = touch(c!(dsh_error_message(error)));
    assert!(!faults.contains(&status), "{}", String::from_utf8_lossy(&message));
    assert_eq!(c!(dsh_error_code(error)), status);
    for text in [
        c!(dsh_error_name(error)),
        c!(dsh_error_summary(error)),
        c!(dsh_error_advice(error)),
        c!(dsh_error_path(error)),
        c!(dsh_error_session_id(error)),
        c!(dsh_error_rule(error)),
        c!(dsh_error_owner(error)),
    ] {
        touch(text);
    }
    assert!(!message.is_empty());
    for index in 0..c!(dsh_error_cause_count(error)) {
        touch(c!(dsh_error_message(dsh_error_cause(error, index))));
    }
    let mut json = no_buffer();
    assert_eq!(c!(dsh_error_json(error, &mut json, null_mut())), 0);
    check_buffer(0, json);
    c!(dsh_error_free(error));
}

fn no_buffer() -> dsh_buffer {
    dsh_buffer { data: null(), len: 0, owner: null_mut() }
}

/// A buffer is filled on success and untouched on failure.
fn check_buffer(status: dsh_status, mut buffer: dsh_buffer) {
    if status == 0 {
        touch(dsh_str { ptr: buffer.data, len: buffer.len });
    } else {
        assert!(buffer.data.is_null() && buffer.owner.is_null());
    }
    c!(dsh_buffer_free(&mut buffer));
    c!(dsh_buffer_free(&mut buffer));
}

unsafe extern "C" fn on_log(_level: i32, text: dsh_str, _user: *mut c_void) {
    touch(text);
}

unsafe extern "C" fn on_progress(done: u64, sessions: u64, _: u64, _: u64, user: *mut c_void) -> i32 {
    assert!(done <= sessions);
    i32::from(!user.is_null())
}

/// An iterator and the event that it lends.
struct Walk {
    events: *mut dsh_events,
    lent: Option<dsh_event>,
}

/// Every handle that the host has.
struct World {
    folder: Option<tempfile::TempDir>,
    stores: [*mut dsh_store; SLOTS],
    sessions: [*mut dsh_session; SLOTS],
    logs: [*mut dsh_log; SLOTS],
    walks: [Walk; SLOTS],
    lines: [*mut dsh_lines; SLOTS],
    cancel: *mut dsh_cancel,
    kept: Vec<dsh_event>,
}

impl World {
    fn new(has_files: bool) -> World {
        let folder = has_files.then(|| tempfile::tempdir().expect("a temporary folder can be made"));
        World {
            folder,
            stores: [null_mut(); SLOTS],
            sessions: [null_mut(); SLOTS],
            logs: [null_mut(); SLOTS],
            walks: [(); SLOTS].map(|()| Walk { events: null_mut(), lent: None }),
            lines: [null_mut(); SLOTS],
            cancel: null_mut(),
            kept: Vec::new(),
        }
    }

    fn root(&self) -> Vec<u8> {
        let path = self.folder.as_ref().map(|folder| folder.path().join("sessions"));
        path.map_or_else(Vec::new, |path| path.into_os_string().into_encoded_bytes())
    }

    fn walk_moves_on(&mut self, slot: usize) -> *mut dsh_events {
        self.walks[slot].lent = None;
        self.walks[slot].events
    }

    fn put_events(&mut self, slot: usize, status: dsh_status, events: *mut dsh_events) {
        assert_eq!(status == 0, !events.is_null());
        if status == 0 {
            c!(dsh_events_free(self.walk_moves_on(slot)));
            self.walks[slot].events = events;
        }
    }

    fn put_lines(&mut self, slot: usize, status: dsh_status, lines: *mut dsh_lines) {
        assert_eq!(status == 0, !lines.is_null());
        if status == 0 {
            c!(dsh_lines_free(self.lines[slot]));
            self.lines[slot] = lines;
        }
    }

    /// Frees one handle; the slot is empty then.
    fn free(&mut self, kind: u8, slot: usize) {
        match kind % 6 {
            0 => c!(dsh_store_free(std::mem::replace(&mut self.stores[slot], null_mut()))),
            1 => c!(dsh_session_free(std::mem::replace(&mut self.sessions[slot], null_mut()))),
            2 => c!(dsh_log_free(std::mem::replace(&mut self.logs[slot], null_mut()))),
            3 => {
                c!(dsh_events_free(self.walk_moves_on(slot)));
                self.walks[slot].events = null_mut();
            }
            4 => c!(dsh_lines_free(std::mem::replace(&mut self.lines[slot], null_mut()))),
            _ => c!(dsh_cancel_free(std::mem::replace(&mut self.cancel, null_mut()))),
        }
    }
}

/// Plays the calls, frees everything in one of the orders, and looks at what is stored.
pub fn run(bytes: &[u8]) {
    let mut input = Input { rest: bytes };
    let mut world = World::new(input.byte().is_multiple_of(8));
    for _ in 0..OPERATIONS_MAX {
        if input.rest.is_empty() {
            break;
        }
        match input.byte() % 32 {
            operation @ 0..=7 => on_store(&mut world, &mut input, operation),
            operation @ 8..=15 => on_session(&mut world, &mut input, operation - 8),
            operation @ 16..=21 => on_log_handle(&mut world, &mut input, operation - 16),
            operation @ 22..=28 => on_iterator(&mut world, &mut input, operation - 22),
            29 => on_cancel(&mut world, &mut input),
            30 => {
                let (kind, slot) = (input.byte(), input.slot());
                world.free(kind, slot);
            }
            _ => on_version(&mut input),
        }
    }
    free_all(&mut world, bytes.last().copied().unwrap_or(0));
    check_root(&world);
}

fn free_all(world: &mut World, order: u8) {
    for kind in 0..6 {
        for slot in 0..SLOTS {
            world.free(kind + order % 6, slot);
        }
    }
    for mut event in world.kept.drain(..) {
        // A kept event outlives everything.
        touch(event.row);
        c!(dsh_event_release(&mut event));
    }
}

/// No sequence of calls damages a log.
fn check_root(world: &World) {
    let Some(folder) = &world.folder else { return };
    let store = Store::open(folder.path().join("sessions")).expect("the root opens");
    for verification in store.verify(None, &CancelToken::new()).expect("a root is verified") {
        let verification = verification.expect("a session is judged");
        assert_eq!(verification.outcome.as_str(), "ok", "{:?}", verification.outcome);
    }
}

fn on_version(input: &mut Input<'_>) {
    assert!(dsh_abi_version() > 0);
    touch(dsh_version());
    let name = input.text(&IDS);
    c!(dsh_has_feature(pointer(name), name.len()));
}

fn on_cancel(world: &mut World, input: &mut Input<'_>) {
    match input.byte() % 3 {
        0 => {
            let mut cancel = null_mut();
            attempt!(input, |err| dsh_cancel_new(&mut cancel, err));
            c!(dsh_cancel_free(world.cancel));
            world.cancel = cancel;
        }
        1 => c!(dsh_cancel_fire(world.cancel)),
        _ => drop(c!(dsh_cancel_is_fired(world.cancel))),
    }
}

fn on_store(world: &mut World, input: &mut Input<'_>, operation: u8) {
    let slot = input.slot();
    let store = world.stores[slot];
    match operation {
        0 | 1 => open_store(world, input, slot),
        2 => {
            let id = input.text(&IDS);
            let mut out = no_buffer();
            let status = attempt!(input, |err| {
                dsh_store_stat(store, pointer(id), id.len(), world.cancel, &mut out, err)
            });
            check_buffer(status, out);
        }
        3 => {
            let (flags, into) = (u32::from(input.byte() % 3), input.slot());
            let mut lines = null_mut();
            let status = attempt!(input, |err| dsh_store_list(store, flags, world.cancel, &mut lines, err));
            world.put_lines(into, status, lines);
        }
        4 => {
            let (id, flags) = (input.text(&IDS), u32::from(input.byte() % 3));
            let mut path = no_buffer();
            let status = attempt!(input, |err| {
                dsh_store_remove(store, pointer(id), id.len(), flags, world.cancel, &mut path, err)
            });
            check_buffer(status, path);
        }
        5 => drop(attempt!(input, |err| dsh_store_flush(store, err))),
        6 => on_queries(world, input, store),
        _ => {
            touch(c!(dsh_store_root(store)));
            if input.byte().is_multiple_of(4) {
                attempt!(input, |err| dsh_store_close(store, err));
            } else {
                let callback =
                    (input.byte().is_multiple_of(2)).then_some(on_log as unsafe extern "C" fn(_, _, _));
                attempt!(input, |err| dsh_store_set_log_callback(store, callback, null_mut(), None, err));
            }
        }
    }
}

fn open_store(world: &mut World, input: &mut Input<'_>, slot: usize) {
    let root = world.root();
    let sizes = [size_of::<dsh_store_settings>(), 0, size_of::<dsh_store_settings>() - 1];
    let settings = dsh_store_settings {
        struct_size: sizes[usize::from(input.byte() % 8).min(2) % 3],
        encoding: i32::from(input.byte() % 4),
        depth_max: 0,
        row_bytes_max: 0,
        header_bytes_max: 0,
        threads: u32::from(input.byte() % 3),
        flags: 0,
        event_types: std::ptr::null(),
        event_types_len: 0,
    };
    let given: *const dsh_store_settings = if input.byte().is_multiple_of(2) { null() } else { &settings };
    let mut store = null_mut();
    let status = attempt!(input, |err| dsh_store_open(pointer(&root), root.len(), given, &mut store, err));
    assert_eq!(status == 0, !store.is_null());
    if status == 0 {
        world.free(0, slot);
        world.stores[slot] = store;
    }
}

fn on_queries(world: &mut World, input: &mut Input<'_>, store: *mut dsh_store) {
    let (id, into) = (input.text(&IDS), input.slot());
    let (text, length) = (pointer(id), id.len());
    let (mut lines, mut events) = (null_mut(), null_mut());
    match input.byte() % 4 {
        0 => {
            let stops =
                if input.byte().is_multiple_of(4) { std::ptr::dangling_mut::<c_void>() } else { null_mut() };
            let progress = (input.byte().is_multiple_of(2))
                .then_some(on_progress as unsafe extern "C" fn(_, _, _, _, _) -> _);
            let status = attempt!(input, |err| {
                dsh_query_verify(store, text, length, progress, stops, None, world.cancel, &mut lines, err)
            });
            world.put_lines(into, status, lines);
        }
        1 => {
            let status =
                attempt!(input, |err| dsh_query_salvage(store, text, length, world.cancel, &mut events, err));
            world.put_events(into, status, events);
        }
        2 => {
            let status =
                attempt!(input, |err| dsh_query_rows(store, text, length, world.cancel, &mut lines, err));
            world.put_lines(into, status, lines);
        }
        _ => {
            let mut out = no_buffer();
            let status =
                attempt!(input, |err| dsh_query_stats(store, text, length, world.cancel, &mut out, err));
            check_buffer(status, out);
        }
    }
}

fn on_session(world: &mut World, input: &mut Input<'_>, operation: u8) {
    let slot = input.slot();
    let session = world.sessions[slot];
    match operation {
        0 => {
            let (store, header) = (world.stores[input.slot()], input.text(&HEADERS));
            let mut opened = null_mut();
            let status = attempt!(input, |err| {
                dsh_session_create(store, pointer(header), header.len(), &mut opened, err)
            });
            put_session(world, slot, status, opened);
        }
        1 => {
            let (store, id) = (world.stores[input.slot()], input.text(&IDS));
            let mut opened = null_mut();
            let status = attempt!(input, |err| {
                dsh_session_open(store, pointer(id), id.len(), world.cancel, &mut opened, err)
            });
            put_session(world, slot, status, opened);
        }
        2 | 3 => append(input, session),
        4 => {
            let rows = input.text(&ROWS);
            let (mut first, mut count) = (0, 0);
            attempt!(input, |err| {
                dsh_session_append_rows(session, pointer(rows), rows.len(), &mut first, &mut count, err)
            });
        }
        5 => {
            attempt!(input, |err| dsh_session_flush(session, world.cancel, err));
        }
        6 => session_events(world, input, session),
        _ => look_at_session(input, session),
    }
}

fn put_session(world: &mut World, slot: usize, status: dsh_status, opened: *mut dsh_session) {
    assert_eq!(status == 0, !opened.is_null());
    if status == 0 {
        world.free(1, slot);
        world.sessions[slot] = opened;
    }
}

fn append(input: &mut Input<'_>, session: *mut dsh_session) {
    let (kind, data) = (input.text(&TYPES), input.text(&DATA));
    let sources = [input.number(), input.number()];
    let options = dsh_append_options {
        struct_size: size_of::<dsh_append_options>(),
        surface: i32::from(input.byte() % 4),
        flags: u32::from(input.byte() % 5),
        surface_start_seq: input.number(),
        surface_end_seq: input.number(),
        source_event_seqs: sources.as_ptr(),
        source_event_seqs_len: usize::from(input.byte() % 3),
        time: input.number().cast_signed(),
        seq: input.number(),
    };
    let given: *const dsh_append_options = if input.byte().is_multiple_of(2) { null() } else { &options };
    let mut seq = u64::MAX;
    let status = attempt!(input, |err| {
        dsh_session_append(
            session,
            pointer(kind),
            kind.len(),
            pointer(data),
            data.len(),
            given,
            &mut seq,
            err,
        )
    });
    assert_eq!(status == 0, seq != u64::MAX);
}

fn session_events(world: &mut World, input: &mut Input<'_>, session: *mut dsh_session) {
    let (into, from, count) = (input.slot(), input.number(), input.number());
    let mut events = null_mut();
    let status = if input.byte().is_multiple_of(2) {
        attempt!(input, |err| dsh_session_events(session, from, count, &mut events, err))
    } else {
        attempt!(input, |err| dsh_session_events_newest(session, count, &mut events, err))
    };
    world.put_events(into, status, events);
}

fn look_at_session(input: &mut Input<'_>, session: *mut dsh_session) {
    touch(c!(dsh_session_id(session)));
    let (mut number, mut out) = (0, no_buffer());
    match input.byte() % 6 {
        0 => drop(attempt!(input, |err| dsh_session_close(session, err))),
        1 => drop(attempt!(input, |err| dsh_session_next_seq(session, &mut number, err))),
        2 => drop(attempt!(input, |err| dsh_session_inherited_event_count(session, &mut number, err))),
        3 => {
            let status = attempt!(input, |err| dsh_session_header(session, &mut out, err));
            check_buffer(status, out);
        }
        4 => {
            let status = attempt!(input, |err| dsh_session_notices(session, &mut out, err));
            check_buffer(status, out);
        }
        _ => {
            let mut pending =
                dsh_pending { struct_size: size_of::<dsh_pending>(), events: 0, bytes: 0, error: null_mut() };
            attempt!(input, |err| dsh_session_pending(session, &mut pending, err));
            c!(dsh_error_free(pending.error));
        }
    }
}

fn on_log_handle(world: &mut World, input: &mut Input<'_>, operation: u8) {
    let slot = input.slot();
    let log = world.logs[slot];
    match operation {
        0 => {
            let (store, id) = (world.stores[input.slot()], input.text(&IDS));
            let access = i32::from(input.byte() % 3);
            let mut opened = null_mut();
            let status = attempt!(input, |err| {
                dsh_log_open(store, pointer(id), id.len(), access, world.cancel, &mut opened, err)
            });
            put_log(world, slot, status, opened);
        }
        1 => {
            let (store, header) = (world.stores[input.slot()], input.text(&HEADERS));
            let inherited = input.number().cast_signed() - 2;
            let mut opened = null_mut();
            let status = attempt!(input, |err| {
                dsh_log_create(
                    store,
                    pointer(header),
                    header.len(),
                    inherited,
                    world.cancel,
                    &mut opened,
                    err,
                )
            });
            put_log(world, slot, status, opened);
        }
        2 | 3 => {
            let rows = input.text(&ROWS);
            let mut count = 0;
            attempt!(input, |err| {
                dsh_log_append_rows(log, pointer(rows), rows.len(), world.cancel, &mut count, err)
            });
        }
        4 => {
            let (into, from, count) = (input.slot(), input.number(), input.number());
            let mut events = null_mut();
            let status = if input.byte().is_multiple_of(2) {
                attempt!(input, |err| dsh_log_events(log, from, count, world.cancel, &mut events, err))
            } else {
                attempt!(input, |err| dsh_log_events_newest(log, count, world.cancel, &mut events, err))
            };
            world.put_events(into, status, events);
        }
        _ => look_at_log(world, input, log),
    }
}

fn put_log(world: &mut World, slot: usize, status: dsh_status, opened: *mut dsh_log) {
    assert_eq!(status == 0, !opened.is_null());
    if status == 0 {
        world.free(2, slot);
        world.logs[slot] = opened;
    }
}

fn look_at_log(world: &World, input: &mut Input<'_>, log: *mut dsh_log) {
    touch(c!(dsh_log_id(log)));
    let (mut number, mut out) = (0, no_buffer());
    let cancel = world.cancel;
    match input.byte() % 7 {
        0 => drop(attempt!(input, |err| dsh_log_close(log, err))),
        1 => drop(attempt!(input, |err| dsh_log_event_count(log, cancel, &mut number, err))),
        2 => drop(attempt!(input, |err| dsh_log_inherited_event_count(log, cancel, &mut number, err))),
        3 => drop(attempt!(input, |err| dsh_log_flush(log, cancel, err))),
        4 => {
            let status = attempt!(input, |err| dsh_log_header(log, &mut out, err));
            check_buffer(status, out);
        }
        5 => {
            let status = attempt!(input, |err| dsh_log_notices(log, &mut out, err));
            check_buffer(status, out);
        }
        _ => {
            let status = attempt!(input, |err| dsh_log_check(log, cancel, &mut out, err));
            check_buffer(status, out);
        }
    }
}

fn touch_event(event: &dsh_event) {
    for text in [event.r#type, event.row, event.data, event.surface_op, event.source_event_seqs] {
        touch(text);
    }
}

fn on_iterator(world: &mut World, input: &mut Input<'_>, operation: u8) {
    let slot = input.slot();
    match operation {
        0 | 1 => {
            let events = world.walk_moves_on(slot);
            let mut event = no_event();
            if attempt!(input, |err| dsh_events_next(events, &mut event, err)) == 0 {
                touch_event(&event);
                world.walks[slot].lent = Some(event);
            }
        }
        2 => {
            let events = world.walk_moves_on(slot);
            let mut batch = [no_event(); KEPT_MAX];
            let (capacity, mut count) = (usize::from(input.byte()) % (KEPT_MAX + 1), 0);
            let status = attempt!(input, |err| {
                dsh_events_next_batch(events, batch.as_mut_ptr(), capacity, &mut count, err)
            });
            if status == 0 {
                assert!(count <= capacity);
                batch[..count].iter().for_each(touch_event);
            }
        }
        3 => on_lent_event(world, input, slot),
        4 => {
            let events = world.walk_moves_on(slot);
            let mut damage = null();
            attempt!(input, |err| dsh_events_damage(events, &mut damage, err));
            touch(c!(dsh_error_message(damage)));
        }
        5 => {
            let events = world.walk_moves_on(slot);
            let mut lines = null_mut();
            let status = attempt!(input, |err| dsh_events_after_damage(events, &mut lines, err));
            world.put_lines(slot, status, lines);
        }
        _ => {
            for _ in 0..TAKEN_MAX {
                let mut line = no_text();
                if attempt!(input, |err| dsh_lines_next(world.lines[slot], &mut line, err)) != 0 {
                    break;
                }
                touch(line);
            }
        }
    }
}

/// Keeps the lent event, prints it, or lets a kept one go.
fn on_lent_event(world: &mut World, input: &mut Input<'_>, slot: usize) {
    let event = world.walks[slot].lent.unwrap_or_else(no_event);
    match input.byte() % 3 {
        0 if world.kept.len() < KEPT_MAX => {
            let mut kept = no_event();
            if attempt!(input, |err| dsh_event_retain(&event, &mut kept, err)) == 0 {
                touch_event(&kept);
                world.kept.push(kept);
            }
        }
        1 => {
            let mut out = no_buffer();
            let status = attempt!(input, |err| dsh_event_logical_row(&event, &mut out, err));
            check_buffer(status, out);
        }
        _ => {
            if let Some(mut kept) = world.kept.pop() {
                touch_event(&kept);
                c!(dsh_event_release(&mut kept));
            }
        }
    }
}
