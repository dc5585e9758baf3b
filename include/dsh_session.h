/*
 * dsh_session.h: the C interface of dsh-session, durable session logs for AI agents.
 *
 * Generated from the Rust sources of the library; do not edit. The error table comes from the library's own.
 *
 * A program in five calls:
 *
 *     dsh_store *store = NULL;
 *     dsh_session *session = NULL;
 *     dsh_error *err = NULL;
 *     if (dsh_store_open(DSH_STR("sessions"), NULL, &store, &err) != DSH_OK ||
 *         dsh_session_create(store, DSH_STR("{\"cwd\":\"/repo\"}"), &session, &err) != DSH_OK ||
 *         dsh_session_append(session, DSH_STR("turn/start"), DSH_STR("{\"turn\":1}"), NULL, NULL, &err) != DSH_OK ||
 *         dsh_session_close(session, &err) != DSH_OK) {
 *         fprintf(stderr, "%.*s\n", DSH_FMT(dsh_error_message(err)));
 *     }
 *     dsh_error_free(err);
 *     dsh_session_free(session);
 *     dsh_store_free(store);
 *
 * Rules for all functions:
 *
 * - Results. A function that can fail returns a dsh_status: DSH_OK (0), a positive number that informs (DSH_DONE),
 *   or a negative DSH_E_... code. Results are written only with DSH_OK, and what was in their place is not looked
 *   at. With a failure, *err gets an error object that the caller frees; err may be NULL. It is not touched
 *   otherwise, so set it to NULL before.
 * - Handles. A handle is used until it is freed. `_close` ends its work, may fail, and may come from any thread
 *   while others are inside: their next calls get DSH_E_HANDLE_CLOSED. `_free` gives back the memory, closes first
 *   if need be, never fails, accepts NULL, and is the last call on that handle: no other call may be inside. A
 *   store may be freed before what was opened from it.
 * - Threads. A store, a session and a log may be used by many threads at once; iterators, buffers, errors and
 *   events by one at a time, any one. A cancel token may be fired from any thread and from a signal handler.
 *   `const` means: changes nothing.
 * - Text in is a pointer and a length: UTF-8, no NUL needed, borrowed for the call. NULL goes with length 0. Text
 *   out is lent (dsh_str; how long it lives is said at its function) or given (dsh_buffer, freed with
 *   dsh_buffer_free).
 * - Structs that may grow begin with struct_size; initialise them with their DSH_..._INIT.
 * - Callbacks may call the library unless it is said otherwise, and must not unwind, throw or longjmp out.
 * - Processes. A handle used in a forked child fails with DSH_E_FORKED_PROCESS; it may be freed there.
 * - If the library itself breaks down in a call, that call returns DSH_E_PANIC, and so does every later one on the
 *   handle but `_free`.
 */

#ifndef DSH_SESSION_H
#define DSH_SESSION_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* The interface that this header describes: dsh_abi_version() of a library it works with has the same major and no smaller minor. */
#define DSH_ABI_MAJOR 1
#define DSH_ABI_MINOR 1
#define DSH_ABI_VERSION ((uint32_t)DSH_ABI_MAJOR << 16 | (uint32_t)DSH_ABI_MINOR)

/* A string literal as the two arguments pointer and length. */
#define DSH_STR(literal) (literal), (sizeof(literal) - 1)

/* No text, as the two arguments pointer and length. */
#define DSH_NONE NULL, 0

/* A dsh_str as the two arguments of "%.*s". Evaluates its argument twice. */
#define DSH_FMT(text) (int)(text).len, (text).ptr

/* As a count: everything there is. */
#define DSH_ALL UINT64_MAX

/* As the place of a fork: the end of the last finished turn, with what belongs to it. */
#define DSH_COMPLETED_PREFIX UINT64_MAX

/* How structs begin. */
#define DSH_EVENT_INIT {sizeof(dsh_event), 0, 0, 0, 0, {NULL, 0}, {NULL, 0}, {NULL, 0}, {NULL, 0}, {NULL, 0}, NULL}
#define DSH_BUFFER_INIT {NULL, 0, NULL}
#define DSH_STORE_SETTINGS_INIT {sizeof(dsh_store_settings), 0, 0, 0, 0, 0, 0, NULL, 0}
#define DSH_APPEND_OPTIONS_INIT {sizeof(dsh_append_options), 0, 0, 0, 0, NULL, 0, 0, 0}
#define DSH_PENDING_INIT {sizeof(dsh_pending), 0, 0, NULL}
#define DSH_MESSAGE_INIT {sizeof(dsh_message), 0, {NULL, 0}}
#define DSH_SEQS_INIT {NULL, 0, NULL}
#define DSH_NEXT_UPLOAD_INIT {sizeof(dsh_next_upload), 0, 0, 0, 0}

/*
 * What a dsh_status says. A code keeps its name and number for ever; new ones may come.
 */
enum {
    /* Done; the results are written. */
    DSH_OK = 0,
    /* There is nothing more: the end of an iterator. */
    DSH_DONE = 1,
    /* What was asked for does not exist: no title, no such event, an event that makes no message. No results are written. */
    DSH_ABSENT = 2,
    /* An argument is not of the form the call takes. Correct the argument and call again. */
    DSH_E_INVALID_ARGUMENT = -1,
    /* A value would not come back equal from its JSON text. Send the number as a string, or one that a double holds exactly. */
    DSH_E_NOT_LOSSLESS_JSON = -2,
    /* The call was cancelled by its token; nothing of it was done. Call again to do it after all. */
    DSH_E_CANCELLED = -10,
    /* Something is larger than a setting of the store allows. Raise the limit named here in the store's settings if the content is trusted. */
    DSH_E_LIMIT_EXCEEDED = -11,
    /* A handle was used in a forked child of the process that opened it. Open the store again in the child. */
    DSH_E_FORKED_PROCESS = -12,
    /* Several failures of one call, listed as causes. Look at each of the causes. */
    DSH_E_SEVERAL = -13,
    /* Memory could not be had. Free memory and call again. */
    DSH_E_OUT_OF_MEMORY = -14,
    /* The library broke a promise of its own. Report it with this message; the files are not changed by reporting. */
    DSH_E_INTERNAL = -15,
    /* The library stopped in the middle of a call; the handle is unusable. Report it with this message, free the handle and open it again. */
    DSH_E_PANIC = -16,
    /* There is no such session. Check the id and the root; `list` shows what is there. */
    DSH_E_SESSION_NOT_FOUND = -100,
    /* A session of that id exists, stored or about to be. Choose another id, or open the session. */
    DSH_E_SESSION_ALREADY_EXISTS = -101,
    /* Another writer has the session open. Close it there, or open it for reading. */
    DSH_E_SESSION_ALREADY_OWNED = -102,
    /* The log or its lock changed under the writer; nothing was written. Close this handle and open the session again to go on from what is stored now. */
    DSH_E_SESSION_OWNERSHIP_LOST = -103,
    /* A read handle was asked to write. Open the session for writing. */
    DSH_E_SESSION_READ_ONLY = -104,
    /* The handle is closed, or closing. Open the session again. */
    DSH_E_HANDLE_CLOSED = -105,
    /* Stored bytes are damaged and cannot be accepted. Nothing was changed; `salvage` gives what is readable before the damage. */
    DSH_E_SESSION_CORRUPT = -106,
    /* The log is whole, but this build cannot read it faithfully. Use a program that knows this version or type; nothing was changed. */
    DSH_E_FORMAT_UNSUPPORTED = -107,
    /* Files or folders exclude each other. Move all but one of them out of the root; nothing was changed. */
    DSH_E_SESSION_CONFLICT = -108,
    /* A log changed or shrank while it was being read. Read again from the start. */
    DSH_E_SOURCE_CHANGED = -109,
    /* The operating system refused a call. The system's own error says why; try again once that is resolved. */
    DSH_E_IO = -110,
    /* An event breaks the rules of its session; nothing was appended. Correct the event as the reason says. */
    DSH_E_EVENT_REFUSED = -200,
    /* A session, or a call on it, breaks the rules of sessions. Correct the call as the reason says. */
    DSH_E_SESSION_REFUSED = -201,
    /* The session object is not the one that is live under its id. Ask the store for the session that is live now. */
    DSH_E_SESSION_NOT_LIVE = -202,
    /* The boundary of a fork is no event of the source. Name an event that exists, from 0 to the last. */
    DSH_E_INVALID_BOUNDARY = -203,
    /* A session enters a store once in its life. Build a new session from the same events. */
    DSH_E_SESSION_ALREADY_ENTERED = -204,
    /* The announcement of the session has begun before. Detach the session and build a new one if its announcement failed. */
    DSH_E_ALREADY_ANNOUNCED = -205,
    /* A listener could not make the session durable. Look at the cause, resolve it and flush again. */
    DSH_E_FLUSH_FAILED = -206,
    /* A query was cancelled by its token; its result was discarded. Ask again. */
    DSH_E_SESSION_QUERY_ABORTED = -300,
    /* A stored log that a query needs is damaged, or breaks the rules of logs. Nothing was changed; `verify` says more, `salvage` gives what is readable before the damage. */
    DSH_E_SESSION_QUERY_CORRUPT_SESSION = -301,
    /* The session has no event with this seq. Name a seq from 0 to the last of the log. */
    DSH_E_SESSION_QUERY_EVENT_NOT_FOUND = -302,
    /* A setting of queries is out of its range. Correct the setting named here and open the store again. */
    DSH_E_SESSION_QUERY_INVALID_CONFIG = -304,
    /* A filter is not of the form that filters have. Correct the clause named here. */
    DSH_E_SESSION_QUERY_INVALID_FILTER = -306,
    /* The chain of parent sessions meets a session twice. A `parentSession` in one of these headers is wrong; read the sessions one by one. */
    DSH_E_SESSION_QUERY_INVALID_LINEAGE = -309,
    /* An event of the log breaks a rule of the surface. Operations that fold no surface, such as reading an event, still work. */
    DSH_E_SESSION_QUERY_INVALID_SURFACE = -310,
    /* The number of events before or after is no whole number within the limit. Ask for fewer events, or raise `readWindowMax`. */
    DSH_E_SESSION_QUERY_INVALID_WINDOW = -311,
    /* The storage that a query needs failed to list, find, open, read or close. Look at the cause. */
    DSH_E_SESSION_QUERY_PERSISTENCE_FAILED = -312,
    /* No session of this id is live or stored. Check the id and the root; `list` shows what is there. */
    DSH_E_SESSION_QUERY_SESSION_NOT_FOUND = -314,
    /* Two descriptions of one session differ in what never changes. One of the two carries an id that is not its own; give it another. */
    DSH_E_SESSION_QUERY_SOURCE_CONFLICT = -316,
    /* The source has no place at which it can be forked. Name an event of the source, or wait until a turn has ended. */
    DSH_E_FORK_UNAVAILABLE = -400,
};

/**
 * A bit of `dsh_store_settings.flags`: appends are not judged by the rules of stored logs (A1 to A25), only by those of sessions. A
 * log written so may be one that no reader accepts.
 */
#define DSH_STORE_UNCHECKED_RULES 1

/**
 * A bit of the `flags` of `dsh_store_list`: findings about a single session fail the listing or are passed
 * over, as the reference implementation does it, instead of being named as problems.
 */
#define DSH_LIST_STRICT 1

/**
 * A bit of the `flags` of `dsh_store_remove`: the session's folder is moved aside, to `<root>.trash/` beside
 * the root.
 */
#define DSH_REMOVE_TRASH 1

/**
 * A bit of `dsh_event.flags`: a reader that does not know the type may keep the event without understanding
 * it.
 */
#define DSH_EVENT_IGNORABLE 1

/**
 * A bit of `dsh_append_options.flags`: `time` counts.
 */
#define DSH_APPEND_TIME 1

/**
 * A bit of `dsh_append_options.flags`: `seq` counts.
 */
#define DSH_APPEND_SEQ 2

/**
 * The default bound of one upload, in bytes of rows with their newlines: 8 MiB.
 */
#define DSH_UPLOAD_BYTES_MAX_DEFAULT 8388608

/**
 * What a log handle may do.
 */
typedef enum dsh_access {
    /**
     * Reads; never takes ownership, works beside a writer.
     */
    DSH_READ = 0,
    /**
     * Reads and appends; at most one such handle exists for a session, in all processes.
     */
    DSH_WRITE = 1,
} dsh_access;

/**
 * How new sessions are stored.
 */
typedef enum dsh_encoding {
    /**
     * As the sessions that the root already holds; in an empty root compressed.
     */
    DSH_ENCODING_OF_ROOT = 0,
    /**
     * Lines of text.
     */
    DSH_ENCODING_NONE = 1,
    /**
     * Compressed with Zstandard. In a root that holds the other encoding `dsh_session_create` fails with
     * `DSH_E_SESSION_CONFLICT`.
     */
    DSH_ENCODING_ZSTD = 2,
} dsh_encoding;

/**
 * How much a log line matters.
 */
typedef enum dsh_log_level {
    /**
     * Something was lost or broke: a panic, a failure that no call could report.
     */
    DSH_LOG_ERROR = 1,
    /**
     * Something is not as it should be, and was dealt with: a torn tail found by an open.
     */
    DSH_LOG_WARNING = 2,
    /**
     * Worth knowing.
     */
    DSH_LOG_INFO = 3,
} dsh_log_level;

/**
 * What an event does to the list of messages that a model sees.
 */
typedef enum dsh_surface {
    /**
     * Nothing.
     */
    DSH_SURFACE_NONE = 0,
    /**
     * It is added at the end.
     */
    DSH_SURFACE_APPEND = 1,
    /**
     * It takes the place of a range.
     */
    DSH_SURFACE_REPLACE = 2,
} dsh_surface;

/**
 * Whether a session may be written, and whether the listeners hear of its events.
 */
typedef enum dsh_write_state {
    /**
     * In no store. No session of this interface is that.
     */
    DSH_WRITE_STATE_INDEPENDENT = 0,
    /**
     * Made by a store, not found there yet.
     */
    DSH_WRITE_STATE_PREPARED = 1,
    /**
     * In its store, not announced yet.
     */
    DSH_WRITE_STATE_ENTERED = 2,
    /**
     * The creation listeners are being called; read-only until they have returned.
     */
    DSH_WRITE_STATE_ANNOUNCING = 3,
    /**
     * May be written; the listeners hear of its events.
     */
    DSH_WRITE_STATE_LIVE = 4,
    /**
     * A creation listener failed; never to be written.
     */
    DSH_WRITE_STATE_FAILED = 5,
    /**
     * Closed: no longer in its store.
     */
    DSH_WRITE_STATE_REMOVED = 6,
} dsh_write_state;

/**
 * Why a turn did not end by itself.
 */
typedef enum dsh_cause {
    /**
     * The program that wrote the log stopped.
     */
    DSH_CAUSE_INTERRUPTED = 0,
    /**
     * The log was copied up to a place inside the turn.
     */
    DSH_CAUSE_FORKED = 1,
} dsh_cause;

/**
 * What is folded from rows.
 */
typedef enum dsh_fold_kind {
    /**
     * As `dsh_session_request_header`.
     */
    DSH_FOLD_REQUEST_HEADER = 0,
    /**
     * As `dsh_session_request_context`.
     */
    DSH_FOLD_REQUEST_CONTEXT = 1,
    /**
     * As `dsh_session_tool_history`.
     */
    DSH_FOLD_TOOL_HISTORY = 2,
    /**
     * As `dsh_session_title`.
     */
    DSH_FOLD_TITLE = 3,
} dsh_fold_kind;

/**
 * Whether a session's log may be part of an upload; also what one predicate says of it.
 */
typedef enum dsh_upload_verdict {
    /**
     * No predicate matches: ordinary eligibility decides.
     */
    DSH_UPLOAD_UNMATCHED = 0,
    /**
     * A predicate matches: nothing of the log goes out, no event is to be read, no acceptance to be noted.
     */
    DSH_UPLOAD_EXCLUDED = 1,
    /**
     * A predicate failed: this time nothing of the log goes out, and the failure is to be reported.
     */
    DSH_UPLOAD_FAILED = 2,
} dsh_upload_verdict;

/**
 * Whether there is something to upload.
 */
typedef enum dsh_next_upload_kind {
    /**
     * Everything was taken.
     */
    DSH_NEXT_UPLOAD_NOTHING = 0,
    /**
     * The events from `first_seq` to `last_seq`, both counted in.
     */
    DSH_NEXT_UPLOAD_EVENTS = 1,
    /**
     * The next event alone, `first_seq`, is larger than the bound. No run of events fits until that is raised.
     */
    DSH_NEXT_UPLOAD_TOO_LARGE = 2,
} dsh_next_upload_kind;

/**
 * Stops the calls it is given to, once and for good. May be fired from any thread and from a signal handler.
 * A call that takes one accepts NULL for none; it looks at the token before its work and between pieces of
 * long work. A cancelled call that changes something has done it all (`DSH_OK`) or nothing
 * (`DSH_E_CANCELLED`). May be freed once no call that it was given to is running.
 */
typedef struct dsh_cancel dsh_cancel;

/**
 * How far a session was uploaded: the largest `throughSeq` of its own delivery records of this format. Records that a fork inherited do
 * not count. Used by many threads at once.
 */
typedef struct dsh_delivery_fold dsh_delivery_fold;

/**
 * Why a call failed. A call that takes `dsh_error **err` sets `*err` when it fails and `err` is not NULL;
 * the caller frees it with `dsh_error_free`. It holds nothing but its own facts, so it may outlive
 * everything else. Used by one thread at a time. Text got from it lives as long as it does and is followed
 * by a NUL that `len` does not count.
 */
typedef struct dsh_error dsh_error;

/**
 * What keeps the texts of an event alive: part of an iterator, or a kept event.
 */
typedef struct dsh_event_owner dsh_event_owner;

/**
 * A walk over events, in bounded memory. Used by one thread at a time, any one. Keeps alive what it walks
 * over.
 */
typedef struct dsh_events dsh_events;

/**
 * A walk over lines of JSON. Used by one thread at a time, any one. Keeps alive what it walks over.
 */
typedef struct dsh_lines dsh_lines;

/**
 * An open channel onto a stored log. Used by many threads at once. Free it with `dsh_log_free`.
 */
typedef struct dsh_log dsh_log;

/**
 * Messages as they were when they were asked for; never changes. Used by many threads at once.
 */
typedef struct dsh_messages dsh_messages;

/**
 * What a projection sees: everything as of just before its event. Lent until the projection returns, and used on its thread only.
 */
typedef struct dsh_projection dsh_projection;

/**
 * A session open for appending: one process at a time has it open. Used by many threads at once. Close it
 * with `dsh_session_close` to learn whether everything became durable, then free it with
 * `dsh_session_free`. A session handed to a callback is lent: it is used until the callback returns, and is
 * not to be freed.
 */
typedef struct dsh_session dsh_session;

/**
 * A root of sessions, opened. Used by many threads at once. Sessions, logs and iterators opened from it may
 * outlive it: they keep alive what they need.
 */
typedef struct dsh_store dsh_store;

/**
 * A registered listener, validator, projection or upload predicate. Used by many threads at once. May outlive its store; what it
 * registered is taken away when it is freed.
 */
typedef struct dsh_subscription dsh_subscription;

/**
 * A registry of predicates, each of which may keep a session out of an upload. Used by many threads at once.
 */
typedef struct dsh_upload_exclusions dsh_upload_exclusions;

/**
 * Text lent by the library: UTF-8 unless it is a path, and not ended by a NUL unless its giver says so. How
 * long it lives is said where it is given. Absent text is `{NULL, 0}`. Never grows another member.
 */
typedef struct dsh_str {
    /**
     * The first byte.
     */
    const char *ptr;
    /**
     * How many bytes.
     */
    size_t len;
} dsh_str;

/**
 * The outcome of a call: `DSH_OK` (0), a positive number that informs (`DSH_DONE`), or a negative
 * `DSH_E_...`.
 */
typedef int32_t dsh_status;

/**
 * Text given by the library: the caller frees it with `dsh_buffer_free`. `data` is followed by a NUL that
 * `len` does not count. Begin with `DSH_BUFFER_INIT`; a call that fills a buffer does not look at what it
 * held, so free it before it is filled again. Never grows another member.
 */
typedef struct dsh_buffer {
    /**
     * The first byte; NULL in an empty buffer.
     */
    const char *data;
    /**
     * How many bytes.
     */
    size_t len;
    /**
     * The library's own; leave it alone.
     */
    void *owner;
} dsh_buffer;

/**
 * Settings of a store. Begin with `DSH_STORE_SETTINGS_INIT`; 0 means the default everywhere.
 */
typedef struct dsh_store_settings {
    /**
     * `sizeof(dsh_store_settings)`.
     */
    size_t struct_size;
    /**
     * A `dsh_encoding`.
     */
    int32_t encoding;
    /**
     * The deepest nesting of a row that is read, in levels; default 100,000.
     */
    uint32_t depth_max;
    /**
     * The longest row that is read, in bytes; default and most: 2 GiB less 4 MiB.
     */
    uint64_t row_bytes_max;
    /**
     * The longest header line that is read, in bytes; default 1 MiB.
     */
    uint64_t header_bytes_max;
    /**
     * How many threads decode one compressed log, the calling one included; default as many as there are
     * processors, at most 4.
     */
    uint32_t threads;
    /**
     * `DSH_STORE_UNCHECKED_RULES` or 0.
     */
    uint32_t flags;
    /**
     * The event types that this program registers: a JSON array whose members are names, or objects with `type` and
     * `changesMessages`, which says that events of the type need a projection (`dsh_store_register_projection`). They are known
     * when a log is read, and may be appended. NULL for none.
     */
    const char *event_types;
    /**
     * How many bytes.
     */
    size_t event_types_len;
} dsh_store_settings;

/**
 * A line for the host's log. `level` is a `dsh_log_level`. `text` is one line of UTF-8, lent until the
 * callback returns. Runs on the thread that caused it, which for a failed write in the background is one of
 * the library's own; a listener's failure is told inside the store's gate, everything else with no lock of
 * the library held. It may call the library, and must not unwind or jump out.
 */
typedef void (*dsh_log_callback)(int32_t level, dsh_str text, void *user);

/**
 * Gives back the `user` of a callback; called once, after the callback's last call.
 */
typedef void (*dsh_destructor)(void *user);

/**
 * One event. Begin with `DSH_EVENT_INIT`. The texts are lent: until the next call on the iterator that gave
 * the event, or until `dsh_event_release` for a kept one. They are not ended by a NUL.
 */
typedef struct dsh_event {
    /**
     * `sizeof(dsh_event)`, set by the caller.
     */
    size_t struct_size;
    /**
     * The position in the log, from 0.
     */
    uint64_t seq;
    /**
     * Milliseconds since 1970, as the writer's clock said.
     */
    int64_t time;
    /**
     * `DSH_EVENT_IGNORABLE` or 0; other bits may come.
     */
    uint32_t flags;
    /**
     * Zero.
     */
    uint32_t reserved;
    /**
     * The event type, such as `turn/start`.
     */
    dsh_str type;
    /**
     * The row as stored: JSON text without a newline.
     */
    dsh_str row;
    /**
     * The payload: JSON text.
     */
    dsh_str data;
    /**
     * `surfaceOp` as stored: JSON text; absent where the row has none.
     */
    dsh_str surface_op;
    /**
     * `sourceEventSeqs` as stored, runs as pairs: JSON text; absent where the row has none.
     * `dsh_event_logical_row` expands them.
     */
    dsh_str source_event_seqs;
    /**
     * The library's own: what keeps the texts alive.
     */
    const dsh_event_owner *owner;
} dsh_event;

/**
 * What an event carries beyond its type and payload. Begin with `DSH_APPEND_OPTIONS_INIT`.
 */
typedef struct dsh_append_options {
    /**
     * `sizeof(dsh_append_options)`.
     */
    size_t struct_size;
    /**
     * A `dsh_surface`.
     */
    int32_t surface;
    /**
     * `DSH_APPEND_TIME`, `DSH_APPEND_SEQ`, both or 0.
     */
    uint32_t flags;
    /**
     * The first seq of the range that `DSH_SURFACE_REPLACE` replaces.
     */
    uint64_t surface_start_seq;
    /**
     * The last seq of that range.
     */
    uint64_t surface_end_seq;
    /**
     * The events this one was made from, each earlier than itself; NULL where none are named.
     */
    const uint64_t *source_event_seqs;
    /**
     * How many.
     */
    size_t source_event_seqs_len;
    /**
     * With `DSH_APPEND_TIME`: milliseconds since 1970, instead of the clock's.
     */
    int64_t time;
    /**
     * With `DSH_APPEND_SEQ`: the seq that the event must get; any other is refused (`SEQ_NOT_CONTIGUOUS`).
     */
    uint64_t seq;
} dsh_append_options;

/**
 * Events that were accepted and are not on the disk yet. Begin with `DSH_PENDING_INIT`.
 */
typedef struct dsh_pending {
    /**
     * `sizeof(dsh_pending)`, set by the caller.
     */
    size_t struct_size;
    /**
     * How many.
     */
    uint64_t events;
    /**
     * Their text, in bytes.
     */
    uint64_t bytes;
    /**
     * Why the last attempt to write them failed, the caller's to free; NULL if it did not.
     */
    dsh_error *error;
} dsh_pending;

/**
 * One message. Begin with `DSH_MESSAGE_INIT`.
 */
typedef struct dsh_message {
    /**
     * `sizeof(dsh_message)`, set by the caller.
     */
    size_t struct_size;
    /**
     * The event that makes the message.
     */
    uint64_t seq;
    /**
     * The message: a JSON object, not ended by a NUL. Lent: it lives as long as the list.
     */
    dsh_str text;
} dsh_message;

/**
 * A list of seqs given by the library, which never changes: the caller frees it with `dsh_seqs_free`. Begin with
 * `DSH_SEQS_INIT`; a call that fills a list does not look at what it held, so free it before it is filled
 * again. Never grows another member.
 */
typedef struct dsh_seqs {
    /**
     * The first seq; NULL in an empty list.
     */
    const uint64_t *data;
    /**
     * How many.
     */
    size_t len;
    /**
     * The library's own; leave it alone.
     */
    void *owner;
} dsh_seqs;

/**
 * How far long work has come; called on the thread that does it. A result other than 0 stops it with
 * `DSH_E_CANCELLED`.
 */
typedef int32_t (*dsh_progress_callback)(uint64_t sessions_done,
                                         uint64_t sessions,
                                         uint64_t bytes_done,
                                         uint64_t bytes,
                                         void *user);

/**
 * Hears of an event, or judges one. 0 is fine; with anything else `*error` may be set to an error of `dsh_error_new`, which the library
 * then owns (without one, a negative `DSH_E_...` code is the error). `session` and `event` are lent until the function returns:
 * `dsh_event_retain` keeps an event, and `dsh_store_get` a session. It must not unwind or jump out.
 *
 * It runs on the appending thread, inside the store's gate: it may read anything and append to other sessions of the store; an append to
 * the same session is refused (`APPEND_REENTRANT`). Waiting there for another thread that appends to the store is a deadlock.
 */
typedef int32_t (*dsh_event_callback)(dsh_session *session,
                                      const dsh_event *event,
                                      void *user,
                                      dsh_error **error);

/**
 * Hears of a session. As `dsh_event_callback`.
 */
typedef int32_t (*dsh_session_callback)(dsh_session *session, void *user, dsh_error **error);

/**
 * Decides what `event` does to the messages before it. `messages` gets the changed ones with `dsh_buffer_new`, as a JSON array of objects
 * with `seq`, an event on the surface, and `message`, the whole new message under its old id; left empty, nothing changes. Pure: the
 * same events, the same decision. 0 is fine; anything else refuses the event, with `*error` as in `dsh_event_callback`. `event` and
 * `context` are lent until the function returns. It runs inside the store's gate as a `dsh_event_callback` does.
 */
typedef int32_t (*dsh_projection_callback)(const dsh_event *event,
                                           const dsh_projection *context,
                                           void *user,
                                           dsh_buffer *messages,
                                           dsh_error **error);

/**
 * What is about to be uploaded. Lent until the predicate returns.
 */
typedef struct dsh_upload {
    /**
     * How many bytes the library knows; a later one has members after these.
     */
    size_t struct_size;
    /**
     * The session.
     */
    dsh_str session_id;
    /**
     * What the request is for; absent for an ordinary one of the conversation.
     */
    dsh_str purpose;
} dsh_upload;

/**
 * Says with a `dsh_upload_verdict` whether a session stays out of an upload, without side effects. Any other number is a failure too: a
 * negative `DSH_E_...` code is the error, unless `*error` is set to one of `dsh_error_new`, which the library then owns. It runs on the
 * thread that judges, with no lock of the library held, and may use the registry. It must not unwind or jump out.
 */
typedef int32_t (*dsh_upload_predicate)(const dsh_upload *upload, void *user, dsh_error **error);

/**
 * What an upload takes next. Begin with `DSH_NEXT_UPLOAD_INIT`.
 */
typedef struct dsh_next_upload {
    /**
     * `sizeof(dsh_next_upload)`, set by the caller.
     */
    size_t struct_size;
    /**
     * A `dsh_next_upload_kind`.
     */
    int32_t kind;
    /**
     * The first event, 0 where there is nothing.
     */
    uint64_t first_seq;
    /**
     * The last one; `first_seq` where that is too large.
     */
    uint64_t last_seq;
    /**
     * Their rows with newlines.
     */
    uint64_t bytes;
} dsh_next_upload;

#ifdef __cplusplus
extern "C" {
#endif // __cplusplus

/**
 * The ABI of the library: major version times 65536 plus minor version. Compare through the header's
 * `dsh_check_abi`.
 */
uint32_t dsh_abi_version(void);

/**
 * The version of the library, such as `0.1.0`; followed by a NUL, lives for ever.
 */
dsh_str dsh_version(void);

/**
 * Whether the library has a part: `files`, `memory` (stores without a root), `zstd`, `log-callback`,
 * `verify`, `salvage`, `rows`, `stats`, `remove`, `sessions` (surface, messages, resume,
 * fork), `listeners`, `projections`, `folds`, `uploads`. False for words it does not know.
 */
bool dsh_has_feature(const char *name, size_t name_len);

/**
 * Fills a buffer with a copy of the caller's text, for a projection to return; any other is freed with `dsh_buffer_free`. Fails with
 * `DSH_E_INVALID_ARGUMENT` for text that is not UTF-8.
 */
dsh_status dsh_buffer_new(const char *text,
                          size_t text_len,
                          dsh_buffer *buffer,
                          dsh_error **err);

/**
 * Frees the text and leaves the buffer empty, ready to be filled again. NULL and empty buffers are fine.
 */
void dsh_buffer_free(dsh_buffer *buffer);

/**
 * An error of the host's own, for a callback to fail with: `*error` gets it. `code` is any `DSH_E_…`, `message` says in one line what
 * is wrong. The library owns an error that a callback gave it; any other is freed with `dsh_error_free`. Fails with
 * `DSH_E_INVALID_ARGUMENT` for a number that is no code, an empty message, and text that is not UTF-8.
 */
dsh_status dsh_error_new(dsh_status code,
                         const char *message,
                         size_t message_len,
                         dsh_error **error,
                         dsh_error **err);

/**
 * The code: a `DSH_E_…`, the same number that the failed call returned. 0 for NULL.
 */
dsh_status dsh_error_code(const dsh_error *error);

/**
 * The name of the code without `DSH_E_`, such as `SESSION_NOT_FOUND`; the same word in every language.
 */
dsh_str dsh_error_name(const dsh_error *error);

/**
 * What a person reads: what happened, where, and what to do.
 */
dsh_str dsh_error_message(const dsh_error *error);

/**
 * What happened, without place and advice.
 */
dsh_str dsh_error_summary(const dsh_error *error);

/**
 * What to do next, in one sentence.
 */
dsh_str dsh_error_advice(const dsh_error *error);

/**
 * The file or folder concerned, absolute, in the bytes of the file system; absent where none is.
 */
dsh_str dsh_error_path(const dsh_error *error);

/**
 * How many files or folders exclude each other, for `DSH_E_SESSION_CONFLICT`; 0 otherwise.
 */
size_t dsh_error_path_count(const dsh_error *error);

/**
 * One of the `dsh_error_path_count` files or folders, from 0; absent past the last.
 */
dsh_str dsh_error_path_at(const dsh_error *error, size_t index);

/**
 * The session concerned; absent where none is.
 */
dsh_str dsh_error_session_id(const dsh_error *error);

/**
 * The event type concerned; absent where none is.
 */
dsh_str dsh_error_event_type(const dsh_error *error);

/**
 * The format version that was found, as it is written; absent where that is not the trouble.
 */
dsh_str dsh_error_version(const dsh_error *error);

/**
 * The part of the log that a finding is about: `header`, `first-frame`, `row`, `seed-marker`, `relationship`
 * or `identity`.
 */
dsh_str dsh_error_at(const dsh_error *error);

/**
 * The rule that was broken: R1 to R11, A1 to A25, or the reason of a refusal such as `SEQ_NOT_CONTIGUOUS`.
 */
dsh_str dsh_error_rule(const dsh_error *error);

/**
 * The name of the limit that was passed, for `DSH_E_LIMIT_EXCEEDED`.
 */
dsh_str dsh_error_limit(const dsh_error *error);

/**
 * Who owns the session, for `DSH_E_SESSION_ALREADY_OWNED`: process id and program name, where known.
 */
dsh_str dsh_error_owner(const dsh_error *error);

/**
 * Where in a JSON value the offending part stands, such as `$.items[3]`, for `DSH_E_NOT_LOSSLESS_JSON`.
 */
dsh_str dsh_error_json_path(const dsh_error *error);

/**
 * The position of the event in its log, from 0; -1 where not known.
 */
int64_t dsh_error_seq(const dsh_error *error);

/**
 * The line in the decompressed text, from 1, which is the header; -1 where not known.
 */
int64_t dsh_error_line(const dsh_error *error);

/**
 * The frame of a compressed log, from 0, which is the header's; -1 where not known.
 */
int64_t dsh_error_frame(const dsh_error *error);

/**
 * The byte offset in the file, from 0; -1 where not known.
 */
int64_t dsh_error_offset(const dsh_error *error);

/**
 * Which member of a batch was refused, from 0; -1 where that is not the trouble.
 */
int64_t dsh_error_index(const dsh_error *error);

/**
 * The number that should have stood where `dsh_error_got` stands; -1 where not known.
 */
int64_t dsh_error_expected(const dsh_error *error);

/**
 * The number found; -1 where not known.
 */
int64_t dsh_error_got(const dsh_error *error);

/**
 * How many events before the damage can be read; -1 where not known.
 */
int64_t dsh_error_salvageable(const dsh_error *error);

/**
 * The operating system's `errno`; 0 where the system is not the trouble.
 */
int32_t dsh_error_os(const dsh_error *error);

/**
 * How many errors this one sums up (`DSH_E_SEVERAL`) or was caused by.
 */
size_t dsh_error_cause_count(const dsh_error *error);

/**
 * One of the `dsh_error_cause_count` causes, from 0; NULL past the last. Lent: it lives as long as `error`,
 * and is not to be freed.
 */
const dsh_error *dsh_error_cause(const dsh_error *error, size_t index);

/**
 * The error as a JSON object with every fact that is known: `code`, `message`, and of `path`, `id`, `type`,
 * `version`, `at`, `rule`, `limit`, `owner`, `jsonPath`, `seq`, `line`, `frame`, `offset`, `expected`,
 * `got`, `index`, `salvageable`, `os`, `paths` and `causes` those that apply. Fails only for NULL arguments.
 */
dsh_status dsh_error_json(const dsh_error *error, dsh_buffer *out, dsh_error **err);

/**
 * Frees an error. NULL is fine, and a lent cause is left alone.
 */
void dsh_error_free(dsh_error *error);

/**
 * A new token, not fired. Free it with `dsh_cancel_free`.
 */
dsh_status dsh_cancel_new(dsh_cancel **cancel, dsh_error **err);

/**
 * Fires the token: one atomic store, safe in a signal handler and from any thread. NULL is fine.
 */
void dsh_cancel_fire(const dsh_cancel *cancel);

/**
 * Whether the token was fired. False for NULL.
 */
bool dsh_cancel_is_fired(const dsh_cancel *cancel);

/**
 * Frees a token. NULL is fine.
 */
void dsh_cancel_free(dsh_cancel *cancel);

/**
 * The next line: a JSON object without a newline, lent until the next call on the iterator and followed by a
 * NUL. `DSH_DONE` at the end, and after a failure. Fails with what the work finds, and with
 * `DSH_E_INVALID_ARGUMENT` if another thread is inside.
 */
dsh_status dsh_lines_next(dsh_lines *lines, dsh_str *line, dsh_error **err);

/**
 * Frees the iterator. NULL is fine.
 */
void dsh_lines_free(dsh_lines *lines);

/**
 * Opens a root. It need not exist: the first session makes it. With `root` NULL (and `root_len` 0) the store
 * is kept in memory: it writes no file, and its sessions go with it. `settings` may be NULL. The store is
 * freed with `dsh_store_free`. Fails with `DSH_E_INVALID_ARGUMENT` for settings that are none, and with `DSH_E_IO` if the root is there and is no readable folder.
 */
dsh_status dsh_store_open(const char *root,
                          size_t root_len,
                          const dsh_store_settings *settings,
                          dsh_store **store,
                          dsh_error **err);

/**
 * The root, absolute, in the bytes of the file system; absent for a store in memory. Lives as long as the
 * store.
 */
dsh_str dsh_store_root(const dsh_store *store);

/**
 * Gives log lines of the store, and of what is opened from it, to a callback; NULL removes the one before.
 * `destructor` (or NULL) is called once with `user`, after the callback's last call: when it is replaced or
 * removed, or when the store and everything opened from it are freed. If this call fails the destructor is
 * not called.
 */
dsh_status dsh_store_set_log_callback(dsh_store *store,
                                      dsh_log_callback callback,
                                      void *user,
                                      dsh_destructor destructor,
                                      dsh_error **err);

/**
 * One session without its events, as a JSON object with `header`, `formatStatus`, `sizeBytes` and
 * `revision`. Fails with `DSH_E_SESSION_NOT_FOUND`, and as a read open does if the session is damaged.
 */
dsh_status dsh_store_stat(const dsh_store *store,
                          const char *id,
                          size_t id_len,
                          const dsh_cancel *cancel,
                          dsh_buffer *out,
                          dsh_error **err);

/**
 * Every session, most recently created first, as lines of JSON: for each session what `dsh_store_stat`
 * gives, then for each file or folder that is no usable session
 * `{"problem":{"path","id"?,"code","message"}}`. One damaged session hides no other. `flags` is 0 or
 * `DSH_LIST_STRICT`. The iterator is freed with `dsh_lines_free`. Fails with `DSH_E_IO` if the root cannot
 * be read.
 */
dsh_status dsh_store_list(const dsh_store *store,
                          uint32_t flags,
                          const dsh_cancel *cancel,
                          dsh_lines **lines,
                          dsh_error **err);

/**
 * Takes a session away, with its older generations. `flags` is 0 to remove it for good, or
 * `DSH_REMOVE_TRASH`. `path` may be NULL; otherwise it gets the folder that the session was moved to, empty
 * where there is none, to be freed with `dsh_buffer_free`. A crash meanwhile leaves the session, or nothing
 * that counts as one. Fails with `DSH_E_SESSION_NOT_FOUND`, `DSH_E_SESSION_ALREADY_OWNED`,
 * `DSH_E_SESSION_CONFLICT`, `DSH_E_CANCELLED`, `DSH_E_IO`.
 */
dsh_status dsh_store_remove(dsh_store *store,
                            const char *id,
                            size_t id_len,
                            uint32_t flags,
                            const dsh_cancel *cancel,
                            dsh_buffer *path,
                            dsh_error **err);

/**
 * Writes what the store's sessions have accepted, makes every session and log handle of the store durable, and goes on past
 * failures. Several failures come as `DSH_E_SEVERAL`, with causes.
 */
dsh_status dsh_store_flush(dsh_store *store,
                           dsh_error **err);

/**
 * Closes the store: later calls on it fail with `DSH_E_HANDLE_CLOSED`. What was opened from it stays open
 * and works on. A second close does nothing.
 */
dsh_status dsh_store_close(dsh_store *store, dsh_error **err);

/**
 * Frees a store, closing it if need be. NULL is fine.
 */
void dsh_store_free(dsh_store *store);

/**
 * The next event; `DSH_DONE` at the end. The texts of the event given before are gone. Fails with what the
 * reading finds (`DSH_E_SESSION_CORRUPT`, `DSH_E_SOURCE_CHANGED`, `DSH_E_LIMIT_EXCEEDED`, `DSH_E_CANCELLED`,
 * `DSH_E_IO`); after that there is nothing more. `DSH_E_INVALID_ARGUMENT` if another thread is inside.
 */
dsh_status dsh_events_next(dsh_events *events, dsh_event *event, dsh_error **err);

/**
 * Several events at once: up to `capacity` of them into the array, `*count` says how many. The first
 * element's `struct_size` counts for all of them, and is the distance between them. A batch ends early after
 * 1 MiB of row text, and before a failure, which the next call reports. `DSH_DONE` when there was none left.
 * Otherwise as `dsh_events_next`: all texts live until the next call.
 */
dsh_status dsh_events_next_batch(dsh_events *events,
                                 dsh_event *batch,
                                 size_t capacity,
                                 size_t *count,
                                 dsh_error **err);

/**
 * What stopped a salvage, once its iterator has said `DSH_DONE`: NULL where the log is whole, and for an
 * iterator that is no salvage. Lent: it lives as long as the iterator, and is not to be freed.
 */
dsh_status dsh_events_damage(dsh_events *events, const dsh_error **damage, dsh_error **err);

/**
 * What is readable after the damage that stopped a salvage, once its iterator has said `DSH_DONE`, as the
 * lines of `dsh_query_rows`; none where the log is whole. The iterator of lines is freed with
 * `dsh_lines_free`. Fails with `DSH_E_INVALID_ARGUMENT` if `events` is no salvage.
 */
dsh_status dsh_events_after_damage(dsh_events *events, dsh_lines **lines, dsh_error **err);

/**
 * Frees the iterator and with it the texts of the events it gave last. NULL is fine.
 */
void dsh_events_free(dsh_events *events);

/**
 * Keeps an event beyond the next call on its iterator: `*kept` gets the same facts, with texts that live
 * until `dsh_event_release`. Nothing is copied; the buffer that the row shares with its neighbours (about 1
 * MiB) stays as long as one of them is kept.
 */
dsh_status dsh_event_retain(const dsh_event *event, dsh_event *kept, dsh_error **err);

/**
 * Gives back a kept event and sets everything in it but `struct_size` to zero. NULL, an empty event and one
 * that was not kept are fine.
 */
void dsh_event_release(dsh_event *event);

/**
 * The row with the pairs of `sourceEventSeqs` expanded to numbers: what other programs take. The stored row
 * where there are none.
 */
dsh_status dsh_event_logical_row(const dsh_event *event, dsh_buffer *out, dsh_error **err);

/**
 * A new session. `header` is a JSON object with any of `id`, `createdAt`, `cwd`, `parentSession`, `origin`,
 * `delegationDepth`, `agentPreset`; no text (length 0) means `{}`. Without `id` one is minted: see
 * `dsh_session_id`. The session is on the disk with its first written batch, or with `dsh_session_flush`.
 * Fails with `DSH_E_INVALID_ARGUMENT`, `DSH_E_SESSION_ALREADY_EXISTS`, `DSH_E_SESSION_CONFLICT` (the root
 * uses the other encoding), `DSH_E_IO`.
 */
dsh_status dsh_session_create(dsh_store *store,
                              const char *header,
                              size_t header_len,
                              dsh_session **session,
                              dsh_error **err);

/**
 * Opens a stored session for appending where its log ends; the whole log is read and checked. What was found
 * wrong and dealt with is told by `dsh_session_notices`. Fails with `DSH_E_SESSION_NOT_FOUND`,
 * `DSH_E_SESSION_ALREADY_OWNED` (see `dsh_error_owner`), `DSH_E_SESSION_CORRUPT`,
 * `DSH_E_FORMAT_UNSUPPORTED`, `DSH_E_SESSION_CONFLICT`, `DSH_E_LIMIT_EXCEEDED`, `DSH_E_CANCELLED`,
 * `DSH_E_IO`.
 */
dsh_status dsh_session_open(dsh_store *store,
                            const char *id,
                            size_t id_len,
                            const dsh_cancel *cancel,
                            dsh_session **session,
                            dsh_error **err);

/**
 * The session's id. Lives as long as the handle.
 */
dsh_str dsh_session_id(const dsh_session *session);

/**
 * The header, as the JSON object that stands in the log's first line.
 */
dsh_status dsh_session_header(const dsh_session *session, dsh_buffer *out, dsh_error **err);

/**
 * Accepts one event; it is durable when `dsh_session_flush` or `dsh_session_close` has returned. `data` is
 * JSON text, the payload. `options` may be NULL. `*seq` (`seq` may be NULL) gets the event's position. Fails
 * with `DSH_E_EVENT_REFUSED` (`dsh_error_rule` tells why), `DSH_E_INVALID_ARGUMENT`,
 * `DSH_E_NOT_LOSSLESS_JSON` (`dsh_error_json_path`), `DSH_E_LIMIT_EXCEEDED`, `DSH_E_HANDLE_CLOSED`; then
 * nothing was accepted.
 */
dsh_status dsh_session_append(dsh_session *session,
                              const char *type,
                              size_t type_len,
                              const char *data,
                              size_t data_len,
                              const dsh_append_options *options,
                              uint64_t *seq,
                              dsh_error **err);

/**
 * Accepts many events together: all of them or none, and in one frame on the disk. `rows` holds one JSON
 * object a line, with `type`, `data` and optionally `surfaceOp`, `sourceEventSeqs`, `seq`, `time` and, on
 * plugin records, `ignorable`. `*first_seq` and `*count` (both may be NULL) tell where they went. Errors as
 * those of `dsh_session_append`, with the line in `dsh_error_index`, from 0; empty lines do not count.
 */
dsh_status dsh_session_append_rows(dsh_session *session,
                                   const char *rows,
                                   size_t rows_len,
                                   uint64_t *first_seq,
                                   uint64_t *count,
                                   dsh_error **err);

/**
 * The durability barrier: on return every accepted event is on the disk, and the session exists for other
 * processes. Fails with `DSH_E_SESSION_OWNERSHIP_LOST`, `DSH_E_SESSION_ALREADY_OWNED` and
 * `DSH_E_SESSION_ALREADY_EXISTS` (first write), `DSH_E_HANDLE_CLOSED`, `DSH_E_CANCELLED`, `DSH_E_IO`
 * (`dsh_error_os`); the events wait on, in order.
 */
dsh_status dsh_session_flush(dsh_session *session, const dsh_cancel *cancel, dsh_error **err);

/**
 * The seq that the next event gets: how many events the session has, those included that are not written
 * yet.
 */
dsh_status dsh_session_next_seq(const dsh_session *session, uint64_t *seq, dsh_error **err);

/**
 * How many events at the beginning were inherited by a fork; 0 in a session that is not seeded.
 */
dsh_status dsh_session_inherited_event_count(const dsh_session *session,
                                             uint64_t *count,
                                             dsh_error **err);

/**
 * What is accepted and not on the disk yet, and why not. `pending->error`, if not NULL, is the caller's to
 * free.
 */
dsh_status dsh_session_pending(const dsh_session *session, dsh_pending *pending, dsh_error **err);

/**
 * The events of a range, those included that are not written yet: `count` of them (`DSH_ALL`: all) from
 * position `from` on. The iterator is freed with `dsh_events_free`.
 */
dsh_status dsh_session_events(const dsh_session *session,
                              uint64_t from,
                              uint64_t count,
                              dsh_events **events,
                              dsh_error **err);

/**
 * The last `count` events, those included that are not written yet. The iterator is freed with
 * `dsh_events_free`.
 */
dsh_status dsh_session_events_newest(const dsh_session *session,
                                     uint64_t count,
                                     dsh_events **events,
                                     dsh_error **err);

/**
 * What opening and writing have found so far: a JSON array of objects with a `kind`, such as `torn-tail`.
 */
dsh_status dsh_session_notices(const dsh_session *session, dsh_buffer *out, dsh_error **err);

/**
 * Writes what waits, leaves the store and gives up ownership; may come from any thread, while others are inside, and
 * closes every handle of the session (`dsh_store_get`). Later calls that write fail with `DSH_E_HANDLE_CLOSED`, and so does
 * `dsh_session_events`; what the session holds in memory can still be read. A second close does nothing. Fails as `dsh_session_flush`: the session is
 * closed all the same, and what could not be written is lost.
 */
dsh_status dsh_session_close(dsh_session *session,
                             dsh_error **err);

/**
 * Frees a session; the last handle of it closes it if need be, and what that loses is only told to the log callback.
 * NULL and a lent session are fine.
 */
void dsh_session_free(dsh_session *session);

/**
 * How many messages the list has. 0 for NULL.
 */
size_t dsh_messages_count(const dsh_messages *messages);

/**
 * One of the messages, from 0. Fails with `DSH_E_INVALID_ARGUMENT` past the last.
 */
dsh_status dsh_messages_at(const dsh_messages *messages,
                           size_t index,
                           dsh_message *message,
                           dsh_error **err);

/**
 * Frees the list and with it the texts of its messages. NULL is fine.
 */
void dsh_messages_free(dsh_messages *messages);

/**
 * Frees the list and leaves it empty, ready to be filled again. NULL and empty lists are fine.
 */
void dsh_seqs_free(dsh_seqs *seqs);

/**
 * Appends a plugin record: any JSON value, also a scalar, under a name of the plugin grammar (`plugin:<name>/<kind>`, in
 * lower case), which readers may keep without understanding it. Otherwise as `dsh_session_append`. Fails with
 * `DSH_E_EVENT_REFUSED`, `PLUGIN_RECORD_TYPE_INVALID` for another name.
 */
dsh_status dsh_session_append_record(dsh_session *session,
                                     const char *name,
                                     size_t name_len,
                                     const char *data,
                                     size_t data_len,
                                     uint64_t *seq,
                                     dsh_error **err);

/**
 * The surface: the seqs of the events that make the messages a model sees, in their order. `*nodes` gets a list that never changes
 * afterwards and costs no copy; free it with `dsh_seqs_free`. `*replace_generation` counts replacements, `*content_generation`
 * replacements and projections: while that stays, messages are only added at the end. Both may be NULL. Fails with
 * `DSH_E_EVENT_REFUSED`, `PROJECTION_REMOVED` in a session whose projection was taken away.
 */
dsh_status dsh_session_surface(const dsh_session *session,
                               dsh_seqs *nodes,
                               uint64_t *replace_generation,
                               uint64_t *content_generation,
                               dsh_error **err);

/**
 * The messages that a model sees, in order. Cheap to ask for again: only what is new is looked at, and texts are shared. The list is
 * freed with `dsh_messages_free`. Fails with `DSH_E_EVENT_REFUSED`, `PROJECTION_REMOVED`.
 */
dsh_status dsh_session_messages(const dsh_session *session,
                                dsh_messages **messages,
                                dsh_error **err);

/**
 * The message that one event makes now, as a JSON object, whether or not it was replaced since. `DSH_ABSENT` for an event that makes
 * none and for a seq that does not exist. Fails with `DSH_E_EVENT_REFUSED`, `PROJECTION_REMOVED`.
 */
dsh_status dsh_session_message_of(const dsh_session *session,
                                  uint64_t seq,
                                  dsh_buffer *out,
                                  dsh_error **err);

/**
 * The conversation as a person would read it: every message event that was appended, in log order, replaced or not. The iterator is
 * freed with `dsh_events_free`.
 */
dsh_status dsh_session_transcript(const dsh_session *session,
                                  dsh_events **events,
                                  dsh_error **err);

/**
 * The events that would end what the session's last turn leaves open, for a `dsh_cause`; none where no turn is open. Nothing is
 * appended. The iterator is freed with `dsh_events_free`.
 */
dsh_status dsh_session_closers(const dsh_session *session,
                               int32_t cause,
                               dsh_events **events,
                               dsh_error **err);

/**
 * The event with a seq, kept: release it with `dsh_event_release`. `DSH_ABSENT` where there is none.
 */
dsh_status dsh_session_event_at(const dsh_session *session,
                                uint64_t seq,
                                dsh_event *event,
                                dsh_error **err);

/**
 * The member of a batch that the listeners are being told of, kept: release it with `dsh_event_release`. `DSH_ABSENT` at all other
 * times, and for events that were appended one by one.
 */
dsh_status dsh_session_current_batch_publication(const dsh_session *session,
                                                 dsh_event *event,
                                                 dsh_error **err);

/**
 * The last request header, as a JSON object in canonical form. `DSH_ABSENT` before the first.
 */
dsh_status dsh_session_request_header(const dsh_session *session,
                                      dsh_buffer *out,
                                      dsh_error **err);

/**
 * The last request context, as a JSON object. `DSH_ABSENT` before the first.
 */
dsh_status dsh_session_request_context(const dsh_session *session,
                                       dsh_buffer *out,
                                       dsh_error **err);

/**
 * Which tools the model was told of and how they changed, as a JSON object with `tools` and `updates`; never absent.
 */
dsh_status dsh_session_tool_history(const dsh_session *session, dsh_buffer *out, dsh_error **err);

/**
 * The newest title: a JSON object with its event's data, `eventSeq` and `updatedAt`. `DSH_ABSENT` before the first.
 */
dsh_status dsh_session_title(const dsh_session *session, dsh_buffer *out, dsh_error **err);

/**
 * Where the events begin that were appended to this object, the marker that its making added first: the length of what it was made
 * from.
 */
dsh_status dsh_session_first_live_seq(const dsh_session *session,
                                      uint64_t *seq,
                                      dsh_error **err);

/**
 * The first event made for this object's life: in a new fork the end of what it inherits, else `dsh_session_first_live_seq`.
 */
dsh_status dsh_session_first_lifecycle_seq(const dsh_session *session,
                                           uint64_t *seq,
                                           dsh_error **err);

/**
 * Whether an event exists and was not inherited by a fork. False for NULL.
 */
bool dsh_session_is_own_seq(const dsh_session *session, uint64_t seq);

/**
 * Whether the session may be written now: `*state` gets a `dsh_write_state`.
 */
dsh_status dsh_session_write_state(const dsh_session *session, int32_t *state, dsh_error **err);

/**
 * Opens a stored log. `access` is a `dsh_access`: to write, the whole log is read and checked; to read, its
 * header. Fails with `DSH_E_SESSION_NOT_FOUND`, `DSH_E_SESSION_ALREADY_OWNED`, `DSH_E_SESSION_CORRUPT`,
 * `DSH_E_FORMAT_UNSUPPORTED`, `DSH_E_SESSION_CONFLICT`, `DSH_E_LIMIT_EXCEEDED`, `DSH_E_CANCELLED`,
 * `DSH_E_IO`.
 */
dsh_status dsh_log_open(dsh_store *store,
                        const char *id,
                        size_t id_len,
                        int32_t access,
                        const dsh_cancel *cancel,
                        dsh_log **log,
                        dsh_error **err);

/**
 * A new log, open for whole rows (importers). `header` is as in `dsh_session_create`, but `id` and
 * `createdAt` must be given. With `inherited_event_count` >= 0 the log begins with that many events of
 * another session, and the header says `"isSeeded":true`; -1 otherwise. Fails as `dsh_session_create`.
 */
dsh_status dsh_log_create(dsh_store *store,
                          const char *header,
                          size_t header_len,
                          int64_t inherited_event_count,
                          const dsh_cancel *cancel,
                          dsh_log **log,
                          dsh_error **err);

/**
 * The session's id. Lives as long as the handle.
 */
dsh_str dsh_log_id(const dsh_log *log);

/**
 * The header, as the JSON object that stands in the log's first line.
 */
dsh_status dsh_log_header(const dsh_log *log, dsh_buffer *out, dsh_error **err);

/**
 * Adds whole rows, one JSON object a line with `seq` and `time`, as one batch: all of them or none, one
 * frame, on the disk on return. The first row's seq must be the next one. `*count` (`count` may be NULL)
 * tells how many rows there were. Fails with `DSH_E_INVALID_ARGUMENT` (`dsh_error_index` is the line, from
 * 0, empty ones not counted), `DSH_E_SESSION_READ_ONLY`, `DSH_E_EVENT_REFUSED` (an unknown required type),
 * and as `dsh_session_flush`.
 */
dsh_status dsh_log_append_rows(dsh_log *log,
                               const char *rows,
                               size_t rows_len,
                               const dsh_cancel *cancel,
                               uint64_t *count,
                               dsh_error **err);

/**
 * The events of a range: `count` of them (`DSH_ALL`: all) from position `from` on, read while walking, in
 * bounded memory. The token also stops the walk. The iterator is freed with `dsh_events_free`.
 */
dsh_status dsh_log_events(const dsh_log *log,
                          uint64_t from,
                          uint64_t count,
                          const dsh_cancel *cancel,
                          dsh_events **events,
                          dsh_error **err);

/**
 * The last `count` events; only the end of the log is read. Otherwise as `dsh_log_events`.
 */
dsh_status dsh_log_events_newest(const dsh_log *log,
                                 uint64_t count,
                                 const dsh_cancel *cancel,
                                 dsh_events **events,
                                 dsh_error **err);

/**
 * How many events the log has. To read that, a read handle looks at the end of the log.
 */
dsh_status dsh_log_event_count(const dsh_log *log,
                               const dsh_cancel *cancel,
                               uint64_t *count,
                               dsh_error **err);

/**
 * How many events at the beginning were inherited by a fork; 0 in a session that is not seeded.
 */
dsh_status dsh_log_inherited_event_count(const dsh_log *log,
                                         const dsh_cancel *cancel,
                                         uint64_t *count,
                                         dsh_error **err);

/**
 * Reads and checks everything, keeps nothing, and tells what the log is like, as a JSON object: `events`,
 * `inheritedEventCount`, `fileBytes`, `frames` (0 for a log of plain lines), and for a torn tail `keepBytes`
 * and `cutBytes`. Fails at the first damage.
 */
dsh_status dsh_log_check(const dsh_log *log,
                         const dsh_cancel *cancel,
                         dsh_buffer *out,
                         dsh_error **err);

/**
 * The durability barrier: on return the session exists for other processes, with everything appended. Fails
 * as `dsh_session_flush`, and with `DSH_E_SESSION_READ_ONLY`.
 */
dsh_status dsh_log_flush(dsh_log *log, const dsh_cancel *cancel, dsh_error **err);

/**
 * What opening and writing have found so far: a JSON array of objects with a `kind`, such as `torn-tail`.
 */
dsh_status dsh_log_notices(const dsh_log *log, dsh_buffer *out, dsh_error **err);

/**
 * Ends the work and gives up ownership; may come from any thread, while others are inside. Later calls fail
 * with `DSH_E_HANDLE_CLOSED`; a second close does nothing.
 */
dsh_status dsh_log_close(dsh_log *log, dsh_error **err);

/**
 * Frees a log handle, closing it if need be; what that loses is only told to the log callback. NULL is fine.
 * Iterators opened from it work on.
 */
void dsh_log_free(dsh_log *log);

/**
 * Judges one session, or with `id` NULL every one, in the order of their paths: each step of the iterator
 * reads one log to its end and gives one line as `{"id"?,"path","outcome","events",...}`, whose `outcome` is
 * `ok`, `torn-tail`, `corrupt`, `unsupported`, `conflict`, `limit` or `unreadable`. Nothing is changed.
 * `progress` (or NULL) is called after each step, and `destructor` (or NULL) once when the iterator is
 * freed; not if this call fails. The iterator is freed with `dsh_lines_free`.
 */
dsh_status dsh_query_verify(const dsh_store *store,
                            const char *id,
                            size_t id_len,
                            dsh_progress_callback progress,
                            void *user,
                            dsh_destructor destructor,
                            const dsh_cancel *cancel,
                            dsh_lines **lines,
                            dsh_error **err);

/**
 * The events of a session up to its damage. At the end of the walk `dsh_events_damage` says what stopped it,
 * and `dsh_events_after_damage` gives what is readable after it. A failure of the walk itself is about
 * reading, not about the log. The iterator is freed with `dsh_events_free`.
 */
dsh_status dsh_query_salvage(const dsh_store *store,
                             const char *id,
                             size_t id_len,
                             const dsh_cancel *cancel,
                             dsh_events **events,
                             dsh_error **err);

/**
 * Every row of a log as it stands, of any version, damaged or not, header first: lines as
 * `{"line","text","seq"?,"type"?,"problem"?}`. For viewers and repair tools, never to resume from. The
 * iterator is freed with `dsh_lines_free`.
 */
dsh_status dsh_query_rows(const dsh_store *store,
                          const char *id,
                          size_t id_len,
                          const dsh_cancel *cancel,
                          dsh_lines **lines,
                          dsh_error **err);

/**
 * Counts by type, bytes, frames, largest rows and tokens of one session, or with `id` NULL of all, as a JSON
 * object. Reads every log; of all, sessions that cannot be read are counted as such.
 */
dsh_status dsh_query_stats(const dsh_store *store,
                           const char *id,
                           size_t id_len,
                           const dsh_cancel *cancel,
                           dsh_buffer *out,
                           dsh_error **err);

/**
 * Every session, live in this store or stored, most recently created first: lines as
 * `{"header","live","persisted","formatStatus"?}`. What stands in the root and is not usable is told by
 * `dsh_store_list`. The iterator is freed with `dsh_lines_free`.
 */
dsh_status dsh_query_list_sessions(const dsh_store *store,
                                   const dsh_cancel *cancel,
                                   dsh_lines **lines,
                                   dsh_error **err);

/**
 * The sessions that pass every filter, as `dsh_query_list_sessions`. `filters_json` is an array of clauses:
 * `{"kind":"id","values"}`, `cwd` and `parent` (whose values may be `null`), `created-at` with `from` and `to`,
 * `availability` with `live` and `persisted`. NULL and length 0 stand for none.
 */
dsh_status dsh_query_filter_sessions(const dsh_store *store,
                                     const char *filters_json,
                                     size_t filters_json_len,
                                     const dsh_cancel *cancel,
                                     dsh_lines **lines,
                                     dsh_error **err);

/**
 * Where a session came from and what came from it, as a JSON object:
 * `{"target","ancestors","descendants","complete","root"?,"unresolvedParentId"?}`; a descendant is
 * `{"session","descendants"}`, as deep as the lineage is.
 */
dsh_status dsh_query_trace_session(const dsh_store *store,
                                   const char *id,
                                   size_t id_len,
                                   const dsh_cancel *cancel,
                                   dsh_buffer *out,
                                   dsh_error **err);

/**
 * A whole session, live or stored, as it was at one moment: its events, and in `facts` (or NULL)
 * `{"session","inheritedEventCount"}`. A stored one whose last turn was interrupted ends with the events that
 * close it, which are not stored. The iterator is freed with `dsh_events_free`.
 */
dsh_status dsh_query_read_session(const dsh_store *store,
                                  const char *id,
                                  size_t id_len,
                                  const dsh_cancel *cancel,
                                  dsh_buffer *facts,
                                  dsh_events **events,
                                  dsh_error **err);

/**
 * One line for each event of a session, in log order: `{"sessionId","seq","type","time","surface"}`, whose
 * `surface` is `current`, `shadowed` or `log-only`. The iterator is freed with `dsh_lines_free`.
 */
dsh_status dsh_query_list_events(const dsh_store *store,
                                 const char *id,
                                 size_t id_len,
                                 const dsh_cancel *cancel,
                                 dsh_lines **lines,
                                 dsh_error **err);

/**
 * What the events of a session say that pass every filter, in log order: lines as those of
 * `dsh_query_list_events` with `text`. `filters_json` is an array of clauses: `seq` and `time` with `from` and
 * `to`, `type` and `surface` with `values`, `{"kind":"text","text"}`. NULL and length 0 stand for none.
 */
dsh_status dsh_query_filter_events(const dsh_store *store,
                                   const char *id,
                                   size_t id_len,
                                   const char *filters_json,
                                   size_t filters_json_len,
                                   const dsh_cancel *cancel,
                                   dsh_lines **lines,
                                   dsh_error **err);

/**
 * The events of a session that the model sees, in its order, and in `facts` (or NULL)
 * `{"session","inheritedEventCount","capturedThroughSeq"}`. The iterator is freed with `dsh_events_free`.
 */
dsh_status dsh_query_read_surface(const dsh_store *store,
                                  const char *id,
                                  size_t id_len,
                                  const dsh_cancel *cancel,
                                  dsh_buffer *facts,
                                  dsh_events **events,
                                  dsh_error **err);

/**
 * An event and its neighbours, without reading the rest of a long log. The request is
 * `{"seq","before"?,"after"?}`, the result
 * `{"session","inheritedEventCount","target","events","startSeq","endSeq"}`.
 */
dsh_status dsh_query_read_event(const dsh_store *store,
                                const char *id,
                                size_t id_len,
                                const char *request_json,
                                size_t request_json_len,
                                const dsh_cancel *cancel,
                                dsh_buffer *out,
                                dsh_error **err);

/**
 * Where an event came from and what became of it: `{"session","target","replacedBy"?,"replacementChain",
 * "replacedEventSeqs","sourceEventSeqs","derivedEventSeqs"}`.
 */
dsh_status dsh_query_trace_event(const dsh_store *store,
                                 const char *id,
                                 size_t id_len,
                                 uint64_t seq,
                                 const dsh_cancel *cancel,
                                 dsh_buffer *out,
                                 dsh_error **err);

/**
 * The header and, if there is one, the title of a session: `{"session","title"?}`; a title is
 * `{"title","messageSeqs","source","eventSeq","updatedAt"}`.
 */
dsh_status dsh_query_read_title(const dsh_store *store,
                                const char *id,
                                size_t id_len,
                                const dsh_cancel *cancel,
                                dsh_buffer *out,
                                dsh_error **err);

/**
 * Headers and titles of many sessions, each id of the JSON array once, in the order in which they come first:
 * lines as `{"sessionId","status":"fulfilled","value"}` with what `dsh_query_read_title` gives, or as
 * `{"sessionId","status":"rejected","reason"}`. The iterator is freed with `dsh_lines_free`.
 */
dsh_status dsh_query_read_titles(const dsh_store *store,
                                 const char *ids_json,
                                 size_t ids_json_len,
                                 const dsh_cancel *cancel,
                                 dsh_lines **lines,
                                 dsh_error **err);

/**
 * What a person would read of a session, one line an entry: `{"kind","seq",...}`, whose `kind` is `user`,
 * `context`, `assistant`, `tool`, `marker` or `status`. The iterator is freed with `dsh_lines_free`.
 */
dsh_status dsh_query_transcript(const dsh_store *store,
                                const char *id,
                                size_t id_len,
                                const dsh_cancel *cancel,
                                dsh_lines **lines,
                                dsh_error **err);

/**
 * Takes up a stored session again: its log is read and checked, a turn that was interrupted is closed with the
 * results that are missing, the marker of a new life is added, and all of that is on the disk before the
 * creation listeners hear of the session. What was found wrong and dealt with is told by
 * `dsh_session_notices`; what was added, by the events from `dsh_session_first_live_seq` on and the ones
 * before it that closed the turn. The session is freed with `dsh_session_free`. To go on in the middle of an
 * open turn instead, as an importer does, call `dsh_session_open`. Fails with `DSH_E_SESSION_NOT_FOUND`,
 * `DSH_E_SESSION_ALREADY_OWNED` (see `dsh_error_owner`; also by this process), `DSH_E_SESSION_CORRUPT`,
 * `DSH_E_FORMAT_UNSUPPORTED`, `DSH_E_SESSION_CONFLICT`, `DSH_E_LIMIT_EXCEEDED`, `DSH_E_CANCELLED`,
 * `DSH_E_IO`, and with the error of a creation listener.
 */
dsh_status dsh_store_resume(dsh_store *store,
                            const char *id,
                            size_t id_len,
                            const dsh_cancel *cancel,
                            dsh_session **session,
                            dsh_error **err);

/**
 * A new session that begins with the events of another, live or stored, up to the event `at`, or with
 * `DSH_COMPLETED_PREFIX` up to the end of its last finished turn and what belongs to it. A turn that is open
 * there is closed in the child. The source is only read. `header` is that of `dsh_session_create`; without
 * `cwd` and `agentPreset` the child has the source's, and it is seeded whatever the header says. The child is
 * on the disk before the creation listeners hear of it, and is freed with `dsh_session_free`. Fails with
 * `DSH_E_SESSION_NOT_FOUND`, `DSH_E_FORK_UNAVAILABLE` (the source has no such event, or no finished turn),
 * what reading the source finds, what `dsh_session_create` fails with, `DSH_E_CANCELLED`, and with the error
 * of a creation listener.
 */
dsh_status dsh_store_fork(dsh_store *store,
                          const char *source_id,
                          size_t source_id_len,
                          uint64_t at,
                          const char *header,
                          size_t header_len,
                          const dsh_cancel *cancel,
                          dsh_session **session,
                          dsh_error **err);

/**
 * A new session that begins with events of the caller's: a replay, an import, a fork made by hand. `rows` holds whole rows, one JSON
 * object a line, with seqs from 0 on. With `"isSeeded":true` in the header they are a fork's seed, such as `dsh_fork_seed` makes,
 * and the first `inherited_event_count` of them are the parent's; otherwise that is -1 or 0. What the session adds of its own is a
 * marker that ends the seed. All of it is on the disk before the creation listeners hear of the session. No rows (length 0) are an
 * empty seed, which is another thing than none. The session is freed with `dsh_session_free`. Fails as `dsh_session_create`, and
 * with `DSH_E_SESSION_REFUSED` for a seed that breaks a rule: `dsh_error_rule` names it, `dsh_error_index` the row, from 0.
 */
dsh_status dsh_store_create_seeded(dsh_store *store,
                                   const char *header,
                                   size_t header_len,
                                   const char *rows,
                                   size_t rows_len,
                                   int64_t inherited_event_count,
                                   dsh_session **session,
                                   dsh_error **err);

/**
 * Another handle of the live session of an id, which this store has open. It counts as much as the first one: the
 * session stays open until the last handle of it is freed, and `dsh_session_close` on any of them closes it.
 * Freed with `dsh_session_free`. Fails with `DSH_E_SESSION_NOT_FOUND` when no session of that id is live
 * here, stored or not.
 */
dsh_status dsh_store_get(dsh_store *store,
                         const char *id,
                         size_t id_len,
                         dsh_session **session,
                         dsh_error **err);

/**
 * The ids of the live sessions, in the order in which they were opened: a JSON array of strings.
 */
dsh_status dsh_store_live_ids(const dsh_store *store, dsh_buffer *out, dsh_error **err);

/**
 * Takes the function away. An append that goes on calls it to its end; the next one does not, and neither does this one if a listener takes
 * itself away. The destructor runs once the function cannot be called any more, which may be inside this call. A second call does
 * nothing. Sessions that a projection was applied in refuse to show their surface and to append from then on
 * (`PROJECTION_REMOVED`); build them anew from their events.
 */
dsh_status dsh_subscription_cancel(dsh_subscription *subscription,
                                   dsh_error **err);

/**
 * Takes the function away and frees the subscription. NULL is fine.
 */
void dsh_subscription_free(dsh_subscription *subscription);

/**
 * Calls `callback` with each event that a live session of the store commits, in order, from the next append on. All members of a batch
 * are in the session when the first of them is told. What the callback fails with is given to the log callback; the append has
 * succeeded all the same.
 *
 * `destructor` (or NULL) is called once with `user`, after the last call: when the subscription is cancelled or freed, or when the store
 * and everything opened from it, subscriptions included, are freed. If this call fails it is not called. `user` must not own the
 * store, or neither ever goes. `subscription` may be NULL: the callback stays as long as the store. Fails with
 * `DSH_E_INVALID_ARGUMENT`, `DSH_E_HANDLE_CLOSED`.
 */
dsh_status dsh_store_on_event(dsh_store *store,
                              dsh_event_callback callback,
                              void *user,
                              dsh_destructor destructor,
                              dsh_subscription **subscription,
                              dsh_error **err);

/**
 * Asks `callback` about each event before it is accepted, after every rule of the library; of a batch about all members before any is
 * committed. What it fails with refuses the append: `DSH_E_EVENT_REFUSED`, `DISPATCH_REJECTED`, with its error as cause. Destructor,
 * subscription and errors as in `dsh_store_on_event`.
 */
dsh_status dsh_store_add_validator(dsh_store *store,
                                   dsh_event_callback callback,
                                   void *user,
                                   dsh_destructor destructor,
                                   dsh_subscription **subscription,
                                   dsh_error **err);

/**
 * Calls `callback` with each session that is created, opened, resumed or forked, before it may be written. What it fails with is what the
 * call that made the session fails with; later listeners are not called and the session is closed. Destructor, subscription and
 * errors as in `dsh_store_on_event`.
 */
dsh_status dsh_store_on_created(dsh_store *store,
                                dsh_session_callback callback,
                                void *user,
                                dsh_destructor destructor,
                                dsh_subscription **subscription,
                                dsh_error **err);

/**
 * Calls `callback` with each session that has left the store: it is closed, and what it holds in memory can still be read. What the callback
 * fails with is given to the log callback. Destructor, subscription and errors as in `dsh_store_on_event`.
 */
dsh_status dsh_store_on_disposed(dsh_store *store,
                                 dsh_session_callback callback,
                                 void *user,
                                 dsh_destructor destructor,
                                 dsh_subscription **subscription,
                                 dsh_error **err);

/**
 * Calls `callback` with each session that `dsh_session_flush` makes durable, on the flushing thread, when the events are on the disk and with
 * no lock of the library held. All listeners are called; then the flush fails with `DSH_E_FLUSH_FAILED` and the first one's error as
 * cause. Destructor, subscription and errors as in `dsh_store_on_event`.
 */
dsh_status dsh_store_on_flush(dsh_store *store,
                              dsh_session_callback callback,
                              void *user,
                              dsh_destructor destructor,
                              dsh_subscription **subscription,
                              dsh_error **err);

/**
 * Registers a projection for an event type: one that the store's settings name with `changesMessages`, or any known one that makes no
 * message itself. Every session of the store has it from now on, in appends, seeds and logs that are read. The library's own one,
 * for `image/offload`, is registered already. `subscription` takes it away again (see `dsh_subscription_cancel`); if it is NULL the
 * projection stays as long as the store. Destructor as in `dsh_store_on_event`. Fails with `DSH_E_SESSION_REFUSED`,
 * `PROJECTION_ALREADY_REGISTERED`; `DSH_E_INVALID_ARGUMENT` for a type that makes messages itself; `DSH_E_HANDLE_CLOSED`.
 */
dsh_status dsh_store_register_projection(dsh_store *store,
                                         const char *event_type,
                                         size_t event_type_len,
                                         dsh_projection_callback callback,
                                         void *user,
                                         dsh_destructor destructor,
                                         dsh_subscription **subscription,
                                         dsh_error **err);

/**
 * The seqs on the surface, in model order. Freed with `dsh_seqs_free`.
 */
dsh_status dsh_projection_nodes(const dsh_projection *context, dsh_seqs *nodes, dsh_error **err);

/**
 * Whether an event is on the surface. False for NULL.
 */
bool dsh_projection_is_on_surface(const dsh_projection *context, uint64_t seq);

/**
 * The seq of the first event that can be seen: 0, but in a window of a log.
 */
dsh_status dsh_projection_base_seq(const dsh_projection *context, uint64_t *seq, dsh_error **err);

/**
 * An earlier event, kept: release it with `dsh_event_release`. `DSH_ABSENT` where there is none.
 */
dsh_status dsh_projection_event(const dsh_projection *context,
                                uint64_t seq,
                                dsh_event *event,
                                dsh_error **err);

/**
 * The message of an event as earlier projections left it: a JSON object. `DSH_ABSENT` where there is none.
 */
dsh_status dsh_projection_message(const dsh_projection *context,
                                  uint64_t seq,
                                  dsh_buffer *out,
                                  dsh_error **err);

/**
 * The messages that projections changed so far, by seq. The list is freed with `dsh_messages_free`, and may outlive the projection.
 */
dsh_status dsh_projection_projected(const dsh_projection *context,
                                    dsh_messages **messages,
                                    dsh_error **err);

/**
 * Folds the surface of rows, whole ones with consecutive seqs from `base_seq` on, 0 for a whole log: a JSON object with `nodes`,
 * `replacements` (`seq`, `start`, `end`, `shadowedSeqs`), `replaceGeneration`, `contentGeneration`, `messages` and
 * `projectedMessages` (each `seq` and `message`). With a store, its projections and event types count; with NULL only the library's
 * own. Fails with `DSH_E_EVENT_REFUSED` (`dsh_error_rule`, `dsh_error_index` from 0), `DSH_E_SESSION_REFUSED` for a line that is no
 * row, `DSH_E_INVALID_ARGUMENT`.
 */
dsh_status dsh_fold_surface(const dsh_store *store,
                            const char *rows,
                            size_t rows_len,
                            uint64_t base_seq,
                            dsh_buffer *out,
                            dsh_error **err);

/**
 * One fold, a `dsh_fold_kind`, over whole rows: a JSON object. `DSH_ABSENT` where the rows have nothing to fold. Fails with
 * `DSH_E_SESSION_REFUSED` for a line that is no row (`dsh_error_index`, from 0), `DSH_E_INVALID_ARGUMENT`.
 */
dsh_status dsh_fold(int32_t kind,
                    const char *rows,
                    size_t rows_len,
                    dsh_buffer *out,
                    dsh_error **err);

/**
 * The events that end what the last turn of whole rows leaves open, for a `dsh_cause`: rows, each with its newline; an empty text where no
 * turn is open. Errors as those of `dsh_fold`.
 */
dsh_status dsh_closers(const char *rows,
                       size_t rows_len,
                       int32_t cause,
                       dsh_buffer *out,
                       dsh_error **err);

/**
 * The seed of a fork of whole rows, which begin with seq 0, at the event `boundary`: those rows, the marker that ends them, and what
 * closes a turn that is open there; rows, each with its newline, for `dsh_store_create_seeded`. `*inherited_event_count` gets how
 * many of them are the parent's. Fails with `DSH_E_INVALID_BOUNDARY` for a seq that is not among the rows, else as `dsh_fold`.
 */
dsh_status dsh_fork_seed(const char *rows,
                         size_t rows_len,
                         uint64_t boundary,
                         dsh_buffer *out,
                         uint64_t *inherited_event_count,
                         dsh_error **err);

/**
 * A new registry without predicates, freed with `dsh_upload_exclusions_free`.
 */
dsh_status dsh_upload_exclusions_new(dsh_upload_exclusions **exclusions, dsh_error **err);

/**
 * Adds a predicate, which is asked after those before it. `subscription` takes exactly this one away again (`dsh_subscription_cancel`); if
 * it is NULL the predicate stays as long as the registry. `destructor` (or NULL) is called once with `user`, after the last call: when
 * the subscription is cancelled or freed, or when the registry is freed. If this call fails it is not called. Fails with
 * `DSH_E_INVALID_ARGUMENT`.
 */
dsh_status dsh_upload_exclusions_register(dsh_upload_exclusions *exclusions,
                                          dsh_upload_predicate predicate,
                                          void *user,
                                          dsh_destructor destructor,
                                          dsh_subscription **subscription,
                                          dsh_error **err);

/**
 * Asks the predicates in order, up to the first that matches or fails; `purpose` is what the request is for, NULL with length 0 for an
 * ordinary one of the conversation. `*verdict` gets a `dsh_upload_verdict`, and `*failure`, unless `failure` is NULL, why a predicate
 * failed, to be freed by the caller, or NULL. Fails with `DSH_E_INVALID_ARGUMENT`.
 */
dsh_status dsh_upload_exclusions_judge(const dsh_upload_exclusions *exclusions,
                                       const char *session_id,
                                       size_t session_id_len,
                                       const char *purpose,
                                       size_t purpose_len,
                                       int32_t *verdict,
                                       dsh_error **failure,
                                       dsh_error **err);

/**
 * Frees the registry; predicates that are being asked are asked to their end. NULL is fine.
 */
void dsh_upload_exclusions_free(dsh_upload_exclusions *exclusions);

/**
 * For an empty log of a session, freed with `dsh_delivery_fold_free`. Fails with `DSH_E_INVALID_ARGUMENT`.
 */
dsh_status dsh_delivery_fold_new(const char *session_id,
                                 size_t session_id_len,
                                 dsh_delivery_fold **fold,
                                 dsh_error **err);

/**
 * Takes the next event of the log. Fails with `DSH_E_INVALID_ARGUMENT`.
 */
dsh_status dsh_delivery_fold_see(dsh_delivery_fold *fold, const dsh_event *event, dsh_error **err);

/**
 * The last event that was uploaded; -1 before the first upload, and for NULL.
 */
int64_t dsh_delivery_fold_watermark(const dsh_delivery_fold *fold);

/**
 * Frees the fold. NULL is fine.
 */
void dsh_delivery_fold_free(dsh_delivery_fold *fold);

/**
 * The longest run of events after the watermark (-1 before the first upload) whose rows with their newlines fit into `bytes_max`; 0
 * stands for `DSH_UPLOAD_BYTES_MAX_DEFAULT`. `events` begins anywhere up to the first event after the watermark, and is used up as far as
 * this looks: the run and one event after it. Read the run itself with another iterator. Fails with what the reading finds, and with
 * `DSH_E_INVALID_ARGUMENT`.
 */
dsh_status dsh_events_next_upload(dsh_events *events,
                                  int64_t watermark,
                                  uint64_t bytes_max,
                                  dsh_next_upload *next,
                                  dsh_error **err);

#ifdef __cplusplus
}  // extern "C"
#endif  // __cplusplus
/**
 * Whether the library that the program runs with fits the header it was built with: the same major version, no older minor one.
 * Worth a call at the start of a program that is linked with the shared library.
 */
static inline bool dsh_check_abi(void)
{
    uint32_t library = dsh_abi_version();
    return library >> 16 == DSH_ABI_MAJOR && (library & 0xffff) >= DSH_ABI_MINOR;
}

#endif /* DSH_SESSION_H */
