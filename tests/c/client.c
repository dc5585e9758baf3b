/*
 * A program as a host would write it: records a session, reads it back in every way, lists the root, and looks at every fact of the
 * errors on the way. The first argument is an empty folder.
 */
#include <pthread.h>
#include <signal.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "check.h"

static dsh_error *err = NULL;

#define NOTE "{\"id\":\"m\",\"role\":\"user\",\"source\":{\"kind\":\"user\"},\"content\":[{\"type\":\"text\",\"text\":\"\xc3\xa9\"}]}"

static dsh_store *open_store(const char *root)
{
    dsh_store *store = NULL;
    OK(dsh_store_open(root, strlen(root), NULL, &store, &err));
    return store;
}

static void append_turn(dsh_session *session, int turn)
{
    char data[32];
    int length = snprintf(data, sizeof data, "{ \"turn\": %d }", turn);
    uint64_t seq = 0;
    OK(dsh_session_append(session, DSH_STR("feedback/record"), data, (size_t)length, NULL, &seq, &err));
}

static uint64_t next_seq(dsh_session *session)
{
    uint64_t seq = 0;
    OK(dsh_session_next_seq(session, &seq, &err));
    return seq;
}

/* Create, append one by one and as a batch, look at what waits, flush. */
static void record(dsh_store *store)
{
    dsh_session *session = NULL;
    OK(dsh_session_create(store, DSH_STR("{\"id\":\"one\",\"cwd\":\"/repo\"}"), &session, &err));
    CHECK(is_text(dsh_session_id(session), "one"));
    append_turn(session, 1);

    dsh_append_options options = DSH_APPEND_OPTIONS_INIT;
    uint64_t sources[] = {0};
    options.surface = DSH_SURFACE_APPEND;
    options.source_event_seqs = sources;
    options.source_event_seqs_len = 1;
    options.flags = DSH_APPEND_TIME | DSH_APPEND_SEQ;
    options.time = 1760000000000;
    options.seq = 1;
    uint64_t seq = 0;
    OK(dsh_session_append(session, DSH_STR("user/message"), DSH_STR(NOTE), &options, &seq, &err));
    CHECK(seq == 1 && next_seq(session) == 2);

    uint64_t first = 0, count = 0;
    OK(dsh_session_append_rows(session,
                               DSH_STR("{\"type\":\"plugin:test/a\",\"data\":{}}\n\n{\"type\":\"plugin:test/b\",\"data\":[1.0]}"),
                               &first, &count, &err));
    CHECK(first == 2 && count == 2);

    dsh_pending pending = DSH_PENDING_INIT;
    OK(dsh_session_pending(session, &pending, &err));
    CHECK(pending.events == 4 && pending.bytes > 100 && pending.error == NULL);
    OK(dsh_session_flush(session, NULL, &err));
    OK(dsh_session_pending(session, &pending, &err));
    CHECK(pending.events == 0 && pending.bytes == 0);

    dsh_buffer text = DSH_BUFFER_INIT;
    OK(dsh_session_header(session, &text, &err));
    CHECK(has_text(text.data, "\"cwd\":\"/repo\"") && strlen(text.data) == text.len);
    dsh_buffer_free(&text);
    CHECK(text.data == NULL && text.len == 0);
    OK(dsh_session_notices(session, &text, &err));
    CHECK(strcmp(text.data, "[]") == 0);
    dsh_buffer_free(&text);
    OK(dsh_session_inherited_event_count(session, &count, &err));
    CHECK(count == 0);
    OK(dsh_session_close(session, &err));
    OK(dsh_session_close(session, &err));
    FAILS(DSH_E_HANDLE_CLOSED, dsh_session_flush(session, NULL, &err));
    dsh_session_free(session);
}

/* Events one by one: every member of the view; kept ones outlive the iterator. */
static void read_back(dsh_store *store)
{
    dsh_log *log = NULL;
    OK(dsh_log_open(store, DSH_STR("one"), DSH_READ, NULL, &log, &err));
    CHECK(is_text(dsh_log_id(log), "one"));
    uint64_t count = 0;
    OK(dsh_log_event_count(log, NULL, &count, &err));
    CHECK(count == 4);
    OK(dsh_log_inherited_event_count(log, NULL, &count, &err));
    CHECK(count == 0);

    dsh_events *events = NULL;
    dsh_event event = DSH_EVENT_INIT, kept = DSH_EVENT_INIT;
    OK(dsh_log_events(log, 0, DSH_ALL, NULL, &events, &err));
    OK(dsh_events_next(events, &event, &err));
    CHECK(event.seq == 0 && event.time > 0 && event.flags == 0 && is_text(event.type, "feedback/record"));
    CHECK(is_text(event.data, "{\"turn\":1}") && event.surface_op.ptr == NULL && event.source_event_seqs.ptr == NULL);
    OK(dsh_events_next(events, &event, &err));
    CHECK(event.seq == 1 && event.time == 1760000000000 && event.flags == 0);
    CHECK(is_text(event.surface_op, "\"append\"") && is_text(event.source_event_seqs, "[0]"));
    CHECK(is_text(event.data, NOTE));
    OK(dsh_event_retain(&event, &kept, &err));
    CHECK(kept.row.ptr == event.row.ptr);
    OK(dsh_events_next(events, &event, &err));
    CHECK(event.flags == DSH_EVENT_IGNORABLE);
    OK(dsh_events_next(events, &event, &err));
    CHECK(is_text(event.data, "[1]"));
    CHECK(dsh_events_next(events, &event, &err) == DSH_DONE && err == NULL);
    CHECK(dsh_events_next(events, &event, &err) == DSH_DONE);
    dsh_events_free(events);

    OK(dsh_log_events_newest(log, 1, NULL, &events, &err));
    OK(dsh_events_next(events, &event, &err));
    CHECK(event.seq == 3);
    dsh_event_release(&event); /* not a kept one: nothing happens to the iterator's */
    CHECK(dsh_events_next(events, &event, &err) == DSH_DONE);
    dsh_events_free(events);

    dsh_buffer text = DSH_BUFFER_INIT;
    OK(dsh_log_header(log, &text, &err));
    CHECK(has_text(text.data, "\"id\":\"one\""));
    dsh_buffer_free(&text);
    OK(dsh_log_check(log, NULL, &text, &err));
    CHECK(has_text(text.data, "\"events\":4"));
    dsh_buffer_free(&text);
    OK(dsh_log_notices(log, &text, &err));
    dsh_buffer_free(&text);
    OK(dsh_log_close(log, &err));
    FAILS(DSH_E_HANDLE_CLOSED, dsh_log_event_count(log, NULL, &count, &err));
    dsh_log_free(log);

    /* Everything it came from is gone. */
    CHECK(kept.seq == 1 && is_text(kept.type, "user/message") && is_text(kept.data, NOTE));
    dsh_event again = DSH_EVENT_INIT;
    OK(dsh_event_retain(&kept, &again, &err));
    dsh_event_release(&kept);
    CHECK(kept.struct_size == sizeof kept && kept.row.ptr == NULL && kept.owner == NULL);
    dsh_event_release(&kept);
    OK(dsh_event_logical_row(&again, &text, &err));
    CHECK(has_text(text.data, "\"sourceEventSeqs\":[0]"));
    dsh_buffer_free(&text);
    dsh_event_release(&again);
}

/* Batches hold the same events as single steps, in order, whatever the batch's size. */
static void read_in_batches(dsh_store *store)
{
    dsh_session *session = NULL;
    OK(dsh_session_open(store, DSH_STR("one"), NULL, &session, &err));
    for (int turn = 0; turn < 96; turn++) {
        append_turn(session, turn);
    }
    for (size_t capacity = 1; capacity <= 64; capacity = capacity * 3 + 1) {
        dsh_event batch[64];
        batch[0].struct_size = sizeof batch[0];
        dsh_events *events = NULL;
        OK(dsh_session_events(session, 0, DSH_ALL, &events, &err));
        uint64_t seq = 0;
        size_t count = 0;
        dsh_status status;
        while ((status = dsh_events_next_batch(events, batch, capacity, &count, &err)) == DSH_OK) {
            CHECK(count >= 1 && count <= capacity);
            for (size_t i = 0; i < count; i++) {
                CHECK(batch[i].seq == seq++ && batch[i].struct_size == sizeof batch[0] && batch[i].row.len > 0);
            }
        }
        CHECK(status == DSH_DONE && seq == 100);
        dsh_events_free(events);
    }
    dsh_events *events = NULL;
    dsh_event event = DSH_EVENT_INIT;
    OK(dsh_session_events_newest(session, 2, &events, &err));
    OK(dsh_events_next(events, &event, &err));
    CHECK(event.seq == 98);
    dsh_events_free(events);
    OK(dsh_session_events(session, 50, 1, &events, &err));
    OK(dsh_events_next(events, &event, &err));
    CHECK(event.seq == 50);
    CHECK(dsh_events_next(events, &event, &err) == DSH_DONE);
    dsh_events_free(events);
    dsh_session_free(session); /* closes, and so writes what waits */
}

/* Whole rows through a log handle; a run of sources is stored as a pair and shown expanded. */
static void import_rows(dsh_store *store)
{
    dsh_log *log = NULL;
    OK(dsh_log_create(store, DSH_STR("{\"id\":\"imported\",\"createdAt\":5}"), -1, NULL, &log, &err));
    static const char rows[] = "{\"type\":\"plugin:i/a\",\"seq\":0,\"time\":1,\"data\":0,\"ignorable\":true}\n"
                               "{\"type\":\"plugin:i/a\",\"seq\":1,\"time\":2,\"data\":1,\"ignorable\":true}\n"
                               "{\"type\":\"plugin:i/a\",\"seq\":2,\"time\":3,\"data\":2,\"ignorable\":true}\n"
                               "{\"type\":\"plugin:i/a\",\"seq\":3,\"time\":4,\"data\":3,\"sourceEventSeqs\":[0,1,2],\"ignorable\":true}\n";
    uint64_t count = 0;
    OK(dsh_log_append_rows(log, DSH_STR(rows), NULL, &count, &err));
    CHECK(count == 4);
    OK(dsh_log_flush(log, NULL, &err));
    dsh_events *events = NULL;
    dsh_event event = DSH_EVENT_INIT;
    dsh_buffer row = DSH_BUFFER_INIT;
    OK(dsh_log_events(log, 3, 1, NULL, &events, &err));
    OK(dsh_events_next(events, &event, &err));
    CHECK(is_text(event.source_event_seqs, "[[0,2]]"));
    OK(dsh_event_logical_row(&event, &row, &err));
    CHECK(has_text(row.data, "\"sourceEventSeqs\":[0,1,2]"));
    dsh_buffer_free(&row);
    dsh_events_free(events);
    dsh_log_free(log);
}

/* Every session is listed, and what is none is named beside them. */
static void list(dsh_store *store, const char *root)
{
    char path[4096];
    snprintf(path, sizeof path, "%s/project", root);
    CHECK(mkdir(path, 0700) == 0);
    snprintf(path, sizeof path, "%s/project/stray.jsonl", root);
    FILE *stray = fopen(path, "w");
    CHECK(stray != NULL);
    fclose(stray);

    dsh_lines *lines = NULL;
    dsh_str line = {NULL, 0};
    int sessions = 0, problems = 0;
    dsh_status status;
    OK(dsh_store_list(store, 0, NULL, &lines, &err));
    while ((status = dsh_lines_next(lines, &line, &err)) == DSH_OK) {
        CHECK(strlen(line.ptr) == line.len);
        if (has_text(line.ptr, "{\"problem\":")) {
            CHECK(has_text(line.ptr, "\"code\":") && has_text(line.ptr, "stray.jsonl"));
            problems++;
        } else {
            CHECK(has_text(line.ptr, "{\"header\":{") && has_text(line.ptr, "\"formatStatus\":\"current\""));
            CHECK(has_text(line.ptr, "\"sizeBytes\":") && has_text(line.ptr, "\"revision\":\""));
            sessions++;
        }
    }
    CHECK(status == DSH_DONE && sessions == 2 && problems == 1);
    dsh_lines_free(lines);
    remove(path);
    OK(dsh_store_list(store, DSH_LIST_STRICT, NULL, &lines, &err));
    dsh_lines_free(lines);

    dsh_buffer text = DSH_BUFFER_INIT;
    OK(dsh_store_stat(store, DSH_STR("one"), NULL, &text, &err));
    CHECK(has_text(text.data, "{\"header\":{") && has_text(text.data, "\"id\":\"one\""));
    dsh_buffer_free(&text);
}

/* The facts of errors, each from where a host meets it. */
static void errors(dsh_store *store, const char *root)
{
    dsh_session *session = NULL, *second = NULL;
    uint64_t seq = 77;
    CHECK(dsh_session_open(store, DSH_STR("nowhere"), NULL, &session, &err) == DSH_E_SESSION_NOT_FOUND);
    CHECK(session == NULL && is_text(dsh_error_name(err), "SESSION_NOT_FOUND"));
    CHECK(is_text(dsh_error_session_id(err), "nowhere") && dsh_error_seq(err) == -1 && dsh_error_os(err) == 0);
    CHECK(dsh_error_cause_count(err) == 0 && dsh_error_cause(err, 0) == NULL && dsh_error_advice(err).len > 0);
    CHECK(dsh_error_message(err).len > dsh_error_summary(err).len);
    CHECK(strlen(dsh_error_message(err).ptr) == dsh_error_message(err).len);
    dsh_buffer json = DSH_BUFFER_INIT;
    dsh_error *none = NULL;
    CHECK(dsh_error_json(err, &json, &none) == DSH_OK && has_text(json.data, "{\"code\":\"SESSION_NOT_FOUND\",\"message\":"));
    dsh_buffer_free(&json);
    dsh_error_free(err);
    err = NULL;

    OK(dsh_session_open(store, DSH_STR("one"), NULL, &session, &err));
    CHECK(dsh_session_open(store, DSH_STR("one"), NULL, &second, &err) == DSH_E_SESSION_ALREADY_OWNED);
    CHECK(dsh_error_session_id(err).len == 3);
    dsh_error_free(err);
    err = NULL;
    FAILS(DSH_E_SESSION_ALREADY_EXISTS, dsh_session_create(store, DSH_STR("{\"id\":\"one\"}"), &second, &err));

    CHECK(dsh_session_append(session, DSH_STR("no/such"), DSH_STR("{}"), NULL, &seq, &err) == DSH_E_EVENT_REFUSED);
    CHECK(seq == 77 && is_text(dsh_error_rule(err), "UNKNOWN_EVENT_TYPE") && is_text(dsh_error_event_type(err), "no/such"));
    CHECK(dsh_error_index(err) == 0);
    dsh_error_free(err);
    err = NULL;
    dsh_append_options options = DSH_APPEND_OPTIONS_INIT;
    options.flags = DSH_APPEND_SEQ;
    options.seq = 5;
    CHECK(dsh_session_append(session, DSH_STR("feedback/record"), DSH_STR("{}"), &options, &seq, &err) == DSH_E_EVENT_REFUSED);
    CHECK(is_text(dsh_error_rule(err), "SEQ_NOT_CONTIGUOUS") && dsh_error_expected(err) == 100 && dsh_error_got(err) == 5);
    dsh_error_free(err);
    err = NULL;
    CHECK(dsh_session_append(session, DSH_STR("feedback/record"), DSH_STR("{\"n\":[9007199254740993]}"), NULL, &seq, &err)
          == DSH_E_NOT_LOSSLESS_JSON);
    CHECK(is_text(dsh_error_json_path(err), "$.n[0]"));
    dsh_error_free(err);
    err = NULL;
    static const char rows[] = "{\"type\":\"feedback/record\",\"data\":{}}\n{\"type\":\"feedback/record\",\"data\":{}\n";
    CHECK(dsh_session_append_rows(session, DSH_STR(rows), &seq, NULL, &err) == DSH_E_INVALID_ARGUMENT);
    CHECK(dsh_error_index(err) == 1);
    dsh_error_free(err);
    err = NULL;
    CHECK(next_seq(session) == 100);
    dsh_session_free(session);

    dsh_log *log = NULL;
    OK(dsh_log_open(store, DSH_STR("one"), DSH_READ, NULL, &log, &err));
    FAILS(DSH_E_SESSION_READ_ONLY, dsh_log_flush(log, NULL, &err));
    dsh_log_free(log);

    char file[4096];
    snprintf(file, sizeof file, "%s/a-file", root);
    FILE *it = fopen(file, "w");
    CHECK(it != NULL);
    fclose(it);
    dsh_store *bad = NULL;
    CHECK(dsh_store_open(file, strlen(file), NULL, &bad, &err) == DSH_E_IO && bad == NULL);
    CHECK(dsh_error_os(err) != 0 && dsh_error_path(err).len >= strlen("a-file"));
    dsh_error_free(err);
    err = NULL;
    remove(file);
}

/* A root that holds plain lines, and a store told to write the other encoding. */
static void settings(const char *folder)
{
    char root[4096];
    snprintf(root, sizeof root, "%s/plain", folder);
    dsh_store_settings given = DSH_STORE_SETTINGS_INIT;
    given.encoding = DSH_ENCODING_NONE;
    dsh_store *store = NULL;
    dsh_session *session = NULL;
    OK(dsh_store_open(root, strlen(root), &given, &store, &err));
    OK(dsh_session_create(store, DSH_STR("{\"id\":\"p\"}"), &session, &err));
    append_turn(session, 1);
    OK(dsh_session_close(session, &err));
    dsh_session_free(session);
    dsh_store_free(store);

    given.encoding = DSH_ENCODING_ZSTD;
    OK(dsh_store_open(root, strlen(root), &given, &store, &err));
    FAILS(DSH_E_SESSION_CONFLICT, dsh_session_create(store, DSH_STR("{\"id\":\"q\"}"), &session, &err));
    dsh_store_free(store);

    given.encoding = DSH_ENCODING_OF_ROOT;
    given.depth_max = 1;
    given.threads = 1;
    OK(dsh_store_open(root, strlen(root), &given, &store, &err));
    CHECK(dsh_session_open(store, DSH_STR("p"), NULL, &session, &err) == DSH_E_LIMIT_EXCEEDED);
    CHECK(is_text(dsh_error_limit(err), "depth_max") && dsh_error_line(err) == 2);
    dsh_error_free(err);
    err = NULL;
    dsh_store_free(store);
}

/* A store without a root: the same calls, no file. */
static void in_memory(void)
{
    dsh_store *store = NULL;
    dsh_session *session = NULL;
    OK(dsh_store_open(DSH_NONE, NULL, &store, &err));
    CHECK(dsh_store_root(store).ptr == NULL);
    OK(dsh_session_create(store, DSH_NONE, &session, &err));
    CHECK(dsh_session_id(session).len == strlen("session-") + 36);
    append_turn(session, 1);
    OK(dsh_session_flush(session, NULL, &err));
    OK(dsh_store_flush(store, &err));
    dsh_events *events = NULL;
    dsh_event event = DSH_EVENT_INIT;
    OK(dsh_session_events(session, 0, DSH_ALL, &events, &err));
    OK(dsh_events_next(events, &event, &err));
    /* The children keep alive what they need. */
    OK(dsh_store_close(store, &err));
    FAILS(DSH_E_HANDLE_CLOSED, dsh_store_flush(store, &err));
    dsh_store_free(store);
    append_turn(session, 2);
    CHECK(next_seq(session) == 2 && is_text(event.type, "feedback/record"));
    dsh_session_free(session);
    dsh_events_free(events);
}

static dsh_cancel *fired_by_signal = NULL;

static void on_signal(int number)
{
    (void)number;
    dsh_cancel_fire(fired_by_signal);
}

/* A token fired in a signal handler stops calls before they do anything. */
static void cancelling(dsh_store *store)
{
    OK(dsh_cancel_new(&fired_by_signal, &err));
    CHECK(!dsh_cancel_is_fired(fired_by_signal));
    signal(SIGUSR1, on_signal);
    raise(SIGUSR1);
    CHECK(dsh_cancel_is_fired(fired_by_signal));
    dsh_log *log = NULL;
    dsh_session *session = NULL;
    dsh_lines *lines = NULL;
    dsh_events *events = NULL;
    dsh_event event = DSH_EVENT_INIT;
    FAILS(DSH_E_CANCELLED, dsh_log_open(store, DSH_STR("one"), DSH_READ, fired_by_signal, &log, &err));
    FAILS(DSH_E_CANCELLED, dsh_session_open(store, DSH_STR("one"), fired_by_signal, &session, &err));
    FAILS(DSH_E_CANCELLED, dsh_store_list(store, 0, fired_by_signal, &lines, &err));
    OK(dsh_session_open(store, DSH_STR("one"), NULL, &session, &err));
    append_turn(session, 3);
    FAILS(DSH_E_CANCELLED, dsh_session_flush(session, fired_by_signal, &err));
    dsh_pending pending = DSH_PENDING_INIT;
    OK(dsh_session_pending(session, &pending, &err));
    CHECK(pending.events == 1);
    dsh_error_free(pending.error);
    OK(dsh_session_close(session, &err));
    dsh_session_free(session);

    dsh_cancel *later = NULL;
    OK(dsh_cancel_new(&later, &err));
    OK(dsh_log_open(store, DSH_STR("one"), DSH_READ, NULL, &log, &err));
    OK(dsh_log_events(log, 0, DSH_ALL, later, &events, &err));
    dsh_cancel_fire(later);
    dsh_status status;
    while ((status = dsh_events_next(events, &event, &err)) == DSH_OK) {
    }
    CHECK(status == DSH_E_CANCELLED || status == DSH_DONE);
    dsh_error_free(err);
    err = NULL;
    dsh_events_free(events);
    dsh_log_free(log);
    dsh_cancel_free(later);
    dsh_cancel_free(fired_by_signal);
}

struct sink {
    int lines, destroyed;
    char last[256];
};

static void on_line(int32_t level, dsh_str text, void *user)
{
    struct sink *sink = user;
    CHECK(level == DSH_LOG_ERROR || level == DSH_LOG_WARNING);
    sink->lines++;
    snprintf(sink->last, sizeof sink->last, "%.*s", DSH_FMT(text));
}

static void on_destroy(void *user)
{
    ((struct sink *)user)->destroyed++;
}

/* A torn tail is a notice on the handle and a line for the log callback, whose destructor runs once, with the last child. */
static void torn_tail(const char *folder)
{
    char root[4096], command[8192];
    snprintf(root, sizeof root, "%s/plain", folder);
    snprintf(command, sizeof command, "f=$(find '%s' -name '*.jsonl' | head -1) && printf '{\"torn' >> \"$f\"", root);
    CHECK(system(command) == 0);

    struct sink one = {0, 0, ""}, two = {0, 0, ""};
    dsh_store *store = open_store(root);
    OK(dsh_store_set_log_callback(store, on_line, &one, on_destroy, &err));
    OK(dsh_store_set_log_callback(store, on_line, &two, on_destroy, &err));
    CHECK(one.destroyed == 1 && two.destroyed == 0);
    dsh_session *session = NULL;
    OK(dsh_session_open(store, DSH_STR("p"), NULL, &session, &err));
    dsh_buffer text = DSH_BUFFER_INIT;
    OK(dsh_session_notices(session, &text, &err));
    CHECK(has_text(text.data, "\"kind\":\"torn-tail\"") && has_text(text.data, "\"cutBytes\":6"));
    dsh_buffer_free(&text);
    CHECK(one.lines == 0 && two.lines == 1 && has_text(two.last, "torn-tail"));
    dsh_store_free(store);
    CHECK(two.destroyed == 0);
    dsh_session_free(session);
    CHECK(two.destroyed == 1);
}

static int32_t on_progress(uint64_t done, uint64_t all, uint64_t bytes_done, uint64_t bytes, void *user)
{
    struct sink *sink = user;
    CHECK(done <= all && bytes_done <= bytes);
    sink->lines++;
    return sink->last[0] == 'x';
}

/* Reading a damaged root: what verify says, what salvage gives, the rows as they stand. */
static void damage(const char *folder)
{
    char root[4096], command[8192];
    snprintf(root, sizeof root, "%s/plain", folder);
    snprintf(command, sizeof command,
             "f=$(find '%s' -name '*.jsonl' | head -1) && printf '%%s\\n%%s\\n%%s\\n' '{\"type\":\"turn/start\",\"seq\":1,\"time\":1,\"data\":{\"turn\":2}}'"
             " '{broken}' '{\"type\":\"turn/end\",\"seq\":2,\"time\":1,\"data\":{}}' >> \"$f\"",
             root);
    CHECK(system(command) == 0);
    dsh_store *store = open_store(root);
    dsh_lines *lines = NULL;
    dsh_str line = {NULL, 0};
    struct sink sink = {0, 0, ""};
    OK(dsh_query_verify(store, DSH_NONE, on_progress, &sink, on_destroy, NULL, &lines, &err));
    OK(dsh_lines_next(lines, &line, &err));
    CHECK(has_text(line.ptr, "\"id\":\"p\"") && has_text(line.ptr, "\"outcome\":\"corrupt\"") && sink.lines == 1);
    CHECK(dsh_lines_next(lines, &line, &err) == DSH_DONE && sink.destroyed == 0);
    dsh_lines_free(lines);
    CHECK(sink.destroyed == 1);
    sink.last[0] = 'x';
    OK(dsh_query_verify(store, DSH_STR("p"), on_progress, &sink, NULL, NULL, &lines, &err));
    FAILS(DSH_E_CANCELLED, dsh_lines_next(lines, &line, &err));
    dsh_lines_free(lines);

    dsh_events *events = NULL;
    dsh_event event = DSH_EVENT_INIT;
    const dsh_error *found = NULL;
    OK(dsh_query_salvage(store, DSH_STR("p"), NULL, &events, &err));
    OK(dsh_events_next(events, &event, &err));
    CHECK(event.seq == 0);
    OK(dsh_events_damage(events, &found, &err));
    CHECK(found == NULL);
    dsh_status status;
    while ((status = dsh_events_next(events, &event, &err)) == DSH_OK) {
    }
    CHECK(status == DSH_DONE);
    OK(dsh_events_damage(events, &found, &err));
    CHECK(dsh_error_code(found) == DSH_E_SESSION_CORRUPT && dsh_error_line(found) > 1 && dsh_error_path(found).len > 0);
    dsh_error_free((dsh_error *)found); /* lent: nothing happens */
    CHECK(dsh_error_salvageable(found) >= -1);
    OK(dsh_events_after_damage(events, &lines, &err));
    OK(dsh_lines_next(lines, &line, &err));
    CHECK(has_text(line.ptr, "turn/"));
    dsh_lines_free(lines);
    dsh_events_free(events);

    int rows = 0;
    OK(dsh_query_rows(store, DSH_STR("p"), NULL, &lines, &err));
    while ((status = dsh_lines_next(lines, &line, &err)) == DSH_OK) {
        CHECK(has_text(line.ptr, "{\"line\":"));
        rows++;
    }
    CHECK(status == DSH_DONE && rows >= 4);
    dsh_lines_free(lines);
    dsh_session *session = NULL;
    FAILS(DSH_E_SESSION_CORRUPT, dsh_session_open(store, DSH_STR("p"), NULL, &session, &err));
    dsh_buffer text = DSH_BUFFER_INIT;
    OK(dsh_query_stats(store, DSH_NONE, NULL, &text, &err));
    CHECK(has_text(text.data, "\"sessions\":"));
    dsh_buffer_free(&text);
    OK(dsh_store_remove(store, DSH_STR("p"), DSH_REMOVE_TRASH, NULL, &text, &err));
    CHECK(has_text(text.data, ".trash/"));
    dsh_buffer_free(&text);
    FAILS(DSH_E_SESSION_NOT_FOUND, dsh_store_remove(store, DSH_STR("p"), 0, NULL, &text, &err));
    dsh_store_free(store);
}

struct worker {
    dsh_session *session;
    int appended;
};

static void *work(void *user)
{
    struct worker *worker = user;
    for (int i = 0; i < 200; i++) {
        dsh_error *mine = NULL;
        dsh_status status =
            dsh_session_append(worker->session, DSH_STR("feedback/record"), DSH_STR("{\"turn\":1}"), NULL, NULL, &mine);
        CHECK(status == DSH_OK || status == DSH_E_HANDLE_CLOSED);
        dsh_error_free(mine);
        if (status != DSH_OK) {
            break;
        }
        worker->appended++;
    }
    return NULL;
}

/* Many threads append to one session while another closes it: what was accepted before the close is stored. */
static void threads(dsh_store *store)
{
    enum { THREADS = 4 };
    dsh_session *session = NULL;
    OK(dsh_session_create(store, DSH_STR("{\"id\":\"threads\"}"), &session, &err));
    struct worker workers[THREADS];
    pthread_t ids[THREADS];
    for (int i = 0; i < THREADS; i++) {
        workers[i].session = session;
        workers[i].appended = 0;
        CHECK(pthread_create(&ids[i], NULL, work, &workers[i]) == 0);
    }
    uint64_t appended = 0;
    for (int i = 0; i < THREADS; i++) {
        pthread_join(ids[i], NULL);
        appended += (uint64_t)workers[i].appended;
    }
    OK(dsh_session_close(session, &err));
    dsh_session_free(session);
    dsh_log *log = NULL;
    uint64_t count = 0;
    OK(dsh_log_open(store, DSH_STR("threads"), DSH_READ, NULL, &log, &err));
    OK(dsh_log_event_count(log, NULL, &count, &err));
    CHECK(count == appended && appended == 800);
    dsh_log_free(log);
}

/* A forked child is turned away, and may free what it inherited without disturbing its parent. */
static void forked(dsh_store *store)
{
    dsh_session *session = NULL;
    OK(dsh_session_open(store, DSH_STR("threads"), NULL, &session, &err));
    append_turn(session, 1);
    fflush(NULL);
    pid_t child = fork();
    if (child == 0) {
        dsh_error *mine = NULL;
        uint64_t seq = 0;
        int good = dsh_session_flush(session, NULL, &mine) == DSH_E_FORKED_PROCESS;
        dsh_error_free(mine);
        good &= dsh_session_next_seq(session, &seq, NULL) == DSH_E_FORKED_PROCESS;
        good &= dsh_store_flush(store, NULL) == DSH_E_FORKED_PROCESS;
        dsh_session_free(session);
        dsh_store_free(store);
        leave_child(good);
    }
    int outcome = 1;
    CHECK(waitpid(child, &outcome, 0) == child && WIFEXITED(outcome) && WEXITSTATUS(outcome) == 0);
    OK(dsh_session_flush(session, NULL, &err));
    OK(dsh_session_close(session, &err));
    dsh_session_free(session);
}

int main(int count, char **arguments)
{
    CHECK(count == 2 && dsh_check_abi() && dsh_version().len >= 5);
    CHECK(dsh_has_feature(DSH_STR("zstd")) && !dsh_has_feature(DSH_STR("flying")) && !dsh_has_feature(DSH_NONE));
    char root[2048];
    snprintf(root, sizeof root, "%s/sessions", arguments[1]);
    dsh_store *store = open_store(root);
    CHECK(is_text(dsh_store_root(store), root));
    record(store);
    read_back(store);
    read_in_batches(store);
    import_rows(store);
    list(store, root);
    errors(store, arguments[1]);
    settings(arguments[1]);
    in_memory();
    cancelling(store);
    torn_tail(arguments[1]);
    damage(arguments[1]);
    threads(store);
    forked(store);
    OK(dsh_store_close(store, &err));
    dsh_store_free(store);
    printf("client: ok\n");
    return 0;
}
