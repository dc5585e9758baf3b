/*
 * Each code that the library can produce, once, from where a host meets it. The test that runs it compares what it prints
 * with the codes of the library. The first argument is an empty folder.
 */
#include <sys/wait.h>
#include <unistd.h>

#include "check.h"

dsh_status dsh_test_panic_free(dsh_error **err);

static dsh_error *err = NULL;
static char root[2048];

/* The call must fail with the code of that name. Printed: the test reads it. */
#define PRODUCES(name, call) \
    do { \
        CHECK((call) == DSH_E_##name && dsh_error_code(err) == DSH_E_##name && is_text(dsh_error_name(err), #name)); \
        CHECK(dsh_error_message(err).len > dsh_error_summary(err).len || dsh_error_advice(err).len == 0); \
        dsh_error_free(err); \
        err = NULL; \
        printf("produced %s\n", #name); \
    } while (0)

static dsh_store *opened(const char *path)
{
    dsh_store *store = NULL;
    OK(dsh_store_open(path, strlen(path), NULL, &store, &err));
    return store;
}

static dsh_session *created(dsh_store *store, const char *header)
{
    dsh_session *session = NULL;
    OK(dsh_session_create(store, header, strlen(header), &session, &err));
    OK(dsh_session_append(session, DSH_STR("feedback/record"), DSH_STR("{\"turn\":1}"), NULL, NULL, &err));
    OK(dsh_session_flush(session, NULL, &err));
    return session;
}

/* Runs a shell command on the log of a session, as `$f`. */
static void on_log_in(const char *folder, const char *id, const char *command)
{
    char line[8192];
    snprintf(line, sizeof line, "f=$(find '%s' -path '*/%s/session.v4.jsonl*' | head -n 1) && test -f \"$f\" && %s", folder, id, command);
    CHECK(system(line) == 0);
}

static void on_log(const char *id, const char *command)
{
    on_log_in(root, id, command);
}

static void of_arguments(dsh_store *store)
{
    dsh_session *session = NULL;
    PRODUCES(INVALID_ARGUMENT, dsh_session_create(store, DSH_STR("{\"cwd\":7}"), &session, &err));
    session = created(store, "{\"id\":\"arguments\"}");
    PRODUCES(NOT_LOSSLESS_JSON, dsh_session_append(session, DSH_STR("turn/start"), DSH_STR("-0"), NULL, NULL, &err));
    PRODUCES(EVENT_REFUSED, dsh_session_append(session, DSH_STR("no/such"), DSH_STR("{}"), NULL, NULL, &err));
    dsh_cancel *cancel = NULL;
    OK(dsh_cancel_new(&cancel, &err));
    dsh_cancel_fire(cancel);
    PRODUCES(CANCELLED, dsh_session_flush(session, cancel, &err));
    dsh_cancel_free(cancel);
    PRODUCES(SESSION_ALREADY_OWNED, dsh_session_open(store, DSH_STR("arguments"), NULL, &session, &err));
    dsh_session *other = NULL;
    PRODUCES(SESSION_ALREADY_EXISTS, dsh_session_create(store, DSH_STR("{\"id\":\"arguments\"}"), &other, &err));
    OK(dsh_session_close(session, &err));
    PRODUCES(HANDLE_CLOSED, dsh_session_flush(session, NULL, &err));
    dsh_session_free(session);
    PRODUCES(SESSION_NOT_FOUND, dsh_session_open(store, DSH_STR("nowhere"), NULL, &session, &err));
    PRODUCES(PANIC, dsh_test_panic_free(&err));
}

static int32_t refuses(dsh_session *session, void *user, dsh_error **error)
{
    (void)session;
    (void)user;
    (void)error;
    return 1;
}

static void of_sessions(dsh_store *store)
{
    dsh_session *session = created(store, "{\"id\":\"sessions\"}"), *child = NULL;
    dsh_subscription *subscription = NULL;
    dsh_buffer text = DSH_BUFFER_INIT;
    uint64_t count = 0;
    OK(dsh_store_on_flush(store, refuses, NULL, NULL, &subscription, &err));
    PRODUCES(FLUSH_FAILED, dsh_session_flush(session, NULL, &err));
    dsh_subscription_free(subscription);
    PRODUCES(FORK_UNAVAILABLE, dsh_store_fork(store, DSH_STR("sessions"), 9, DSH_NONE, NULL, &child, &err));
    PRODUCES(SESSION_REFUSED, dsh_store_create_seeded(store, DSH_NONE, DSH_STR("{}"), -1, &child, &err));
    PRODUCES(INVALID_BOUNDARY, dsh_fork_seed(DSH_NONE, 0, &text, &count, &err));
    dsh_session_free(session);
}

static void of_logs(dsh_store *store)
{
    dsh_log *log = NULL;
    dsh_events *events = NULL;
    uint64_t count = 0;
    dsh_session_free(created(store, "{\"id\":\"logs\"}"));
    OK(dsh_log_open(store, DSH_STR("logs"), DSH_READ, NULL, &log, &err));
    PRODUCES(SESSION_READ_ONLY, dsh_log_flush(log, NULL, &err));
    OK(dsh_log_event_count(log, NULL, &count, &err));
    OK(dsh_log_events(log, 0, DSH_ALL, NULL, &events, &err));
    dsh_event event = DSH_EVENT_INIT;
    OK(dsh_events_next(events, &event, &err));
    dsh_events_free(events);
    on_log("logs", "size=$(stat -c %s \"$f\") && truncate -s $((size - 9)) \"$f\"");
    dsh_status status = dsh_log_events(log, 0, DSH_ALL, NULL, &events, &err);
    if (status == DSH_OK) {
        status = dsh_events_next(events, &event, &err);
        dsh_events_free(events);
    }
    PRODUCES(SOURCE_CHANGED, status);
    dsh_log_free(log);

    dsh_session *session = created(store, "{\"id\":\"lost\"}");
    on_log("lost", "printf 'more' >> \"$f\"");
    OK(dsh_session_append(session, DSH_STR("feedback/record"), DSH_STR("{\"turn\":2}"), NULL, NULL, &err));
    PRODUCES(SESSION_OWNERSHIP_LOST, dsh_session_flush(session, NULL, &err));
    dsh_pending pending = DSH_PENDING_INIT;
    OK(dsh_session_pending(session, &pending, &err));
    CHECK(pending.events == 1 && dsh_error_code(pending.error) == DSH_E_SESSION_OWNERSHIP_LOST);
    dsh_error_free(pending.error);
    dsh_session_free(session);

    dsh_session_free(created(store, "{\"id\":\"corrupt\"}"));
    on_log("corrupt", "printf 'XXXXXXXX' | dd of=\"$f\" conv=notrunc status=none");
    PRODUCES(SESSION_CORRUPT, dsh_session_open(store, DSH_STR("corrupt"), NULL, &session, &err));
}

static void of_stores(const char *folder)
{
    char path[4096];
    dsh_store_settings settings = DSH_STORE_SETTINGS_INIT;
    dsh_store *store = NULL;
    dsh_session *session = NULL;
    settings.encoding = DSH_ENCODING_NONE;
    OK(dsh_store_open(root, strlen(root), &settings, &store, &err));
    PRODUCES(SESSION_CONFLICT, dsh_session_create(store, DSH_NONE, &session, &err));
    dsh_store_free(store);
    settings.encoding = DSH_ENCODING_OF_ROOT;
    settings.depth_max = 1;
    OK(dsh_store_open(root, strlen(root), &settings, &store, &err));
    PRODUCES(LIMIT_EXCEEDED, dsh_session_open(store, DSH_STR("arguments"), NULL, &session, &err));
    dsh_store_free(store);
    snprintf(path, sizeof path, "%s/plain", folder);
    settings = (dsh_store_settings)DSH_STORE_SETTINGS_INIT;
    settings.encoding = DSH_ENCODING_NONE;
    OK(dsh_store_open(path, strlen(path), &settings, &store, &err));
    dsh_session_free(created(store, "{\"id\":\"types\"}"));
    on_log_in(path, "types", "sed -i 's/\"version\":4/\"version\":5/' \"$f\"");
    PRODUCES(FORMAT_UNSUPPORTED, dsh_session_open(store, DSH_STR("types"), NULL, &session, &err));
    dsh_store_free(store);
    snprintf(path, sizeof path, "%s/file", folder);
    FILE *file = fopen(path, "w");
    CHECK(file != NULL);
    fclose(file);
    PRODUCES(IO, dsh_store_open(path, strlen(path), NULL, &store, &err));
}

/* A root of raw logs, which the shell can edit. */
static void of_queries(const char *folder)
{
    char path[4096];
    snprintf(path, sizeof path, "%s/queries", folder);
    dsh_store_settings settings = DSH_STORE_SETTINGS_INIT;
    settings.encoding = DSH_ENCODING_NONE;
    dsh_store *store = NULL;
    OK(dsh_store_open(path, strlen(path), &settings, &store, &err));
    dsh_lines *lines = NULL;
    dsh_events *events = NULL;
    dsh_buffer text = DSH_BUFFER_INIT;
    dsh_cancel *cancel = NULL;
    OK(dsh_cancel_new(&cancel, &err));
    dsh_cancel_fire(cancel);
    PRODUCES(SESSION_QUERY_ABORTED, dsh_query_list_sessions(store, cancel, &lines, &err));
    dsh_cancel_free(cancel);
    dsh_session_free(created(store, "{\"id\":\"loop\",\"parentSession\":\"loop\"}"));
    PRODUCES(SESSION_QUERY_INVALID_LINEAGE, dsh_query_trace_session(store, DSH_STR("loop"), NULL, &text, &err));
    PRODUCES(SESSION_QUERY_SESSION_NOT_FOUND, dsh_query_read_title(store, DSH_STR("nowhere"), NULL, &text, &err));
    PRODUCES(SESSION_QUERY_EVENT_NOT_FOUND, dsh_query_trace_event(store, DSH_STR("loop"), 9, NULL, &text, &err));
    PRODUCES(SESSION_QUERY_INVALID_FILTER, dsh_query_filter_sessions(store, DSH_STR("7"), NULL, &lines, &err));
    PRODUCES(SESSION_QUERY_INVALID_WINDOW,
             dsh_query_read_event(store, DSH_STR("loop"), DSH_STR("{\"seq\":0,\"after\":51}"), NULL, &text, &err));
    /* A projection of a message that is not there breaks no rule of stored logs, only the fold. */
    dsh_log *log = NULL;
    OK(dsh_log_create(store, DSH_STR("{\"id\":\"offload\",\"createdAt\":1}"), -1, NULL, &log, &err));
    OK(dsh_log_append_rows(log, DSH_STR("{\"type\":\"image/offload\",\"seq\":0,\"time\":1,\"data\":{\"turn\":1}}\n"), NULL,
                           NULL, &err));
    dsh_log_free(log);
    PRODUCES(SESSION_QUERY_INVALID_SURFACE, dsh_query_list_events(store, DSH_STR("offload"), NULL, &lines, &err));
    dsh_session_free(created(store, "{\"id\":\"damaged\"}"));
    on_log_in(path, "damaged", "sed -i '1s/\"isSeeded\":false/\"isSeeded\":7/' \"$f\"");
    PRODUCES(SESSION_QUERY_CORRUPT_SESSION,
             dsh_query_read_session(store, DSH_STR("damaged"), NULL, &text, &events, &err));
    dsh_session_free(created(store, "{\"id\":\"later\"}"));
    on_log_in(path, "later", "sed -i 's/\"version\":4/\"version\":5/' \"$f\"");
    PRODUCES(SESSION_QUERY_PERSISTENCE_FAILED,
             dsh_query_read_session(store, DSH_STR("later"), NULL, &text, &events, &err));
    dsh_session *session = created(store, "{\"id\":\"conflict\"}");
    on_log_in(path, "conflict", "sed -i '1s/\"createdAt\":[0-9]*/\"createdAt\":7/' \"$f\"");
    PRODUCES(SESSION_QUERY_SOURCE_CONFLICT, dsh_query_list_sessions(store, NULL, &lines, &err));
    dsh_session_free(session);
    dsh_store_free(store);
}

/* Two sessions that two stores create at the same time: the second one to write learns of both at once. */
static void of_many(dsh_store *store)
{
    dsh_store *other = opened(root);
    dsh_log *one = NULL, *two = NULL;
    OK(dsh_log_create(store, DSH_STR("{\"id\":\"many-1\",\"createdAt\":1}"), -1, NULL, &one, &err));
    OK(dsh_log_create(store, DSH_STR("{\"id\":\"many-2\",\"createdAt\":1}"), -1, NULL, &two, &err));
    dsh_session_free(created(other, "{\"id\":\"many-1\"}"));
    dsh_session_free(created(other, "{\"id\":\"many-2\"}"));
    dsh_status status = dsh_store_flush(store, &err);
    CHECK(dsh_error_cause_count(err) == 2 && dsh_error_cause(err, 2) == NULL);
    CHECK(dsh_error_code(dsh_error_cause(err, 1)) == DSH_E_SESSION_ALREADY_EXISTS);
    CHECK(dsh_error_session_id(dsh_error_cause(err, 0)).len == strlen("many-1"));
    PRODUCES(SEVERAL, status);
    dsh_log_free(one);
    dsh_log_free(two);
    dsh_store_free(other);
}

static void of_processes(dsh_store *store)
{
    fflush(NULL);
    pid_t child = fork();
    if (child == 0) {
        PRODUCES(FORKED_PROCESS, dsh_store_flush(store, &err));
        dsh_store_free(store);
        fflush(NULL);
        leave_child(1);
    }
    int outcome = 1;
    CHECK(waitpid(child, &outcome, 0) == child && WIFEXITED(outcome) && WEXITSTATUS(outcome) == 0);
}

int main(int count, char **arguments)
{
    CHECK(count == 2);
    snprintf(root, sizeof root, "%s/sessions", arguments[1]);
    dsh_store *store = opened(root);
    of_arguments(store);
    of_sessions(store);
    of_logs(store);
    of_many(store);
    of_stores(arguments[1]);
    of_queries(arguments[1]);
    of_processes(store);
    dsh_store_free(store);
    printf("codes: ok\n");
    return 0;
}
