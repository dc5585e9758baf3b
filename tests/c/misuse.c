/*
 * Everything a caller can do wrong without lying about its memory: NULL in every place, wrong sizes, wrong kinds, closed handles,
 * panics inside the library. Each is refused with a code, an object, and untouched results. The first argument is an empty folder.
 */
#include <pthread.h>
#include <unistd.h>

#include "check.h"

/* Exported by a library built for tests: a panic inside a call. */
dsh_status dsh_test_panic_store(const dsh_store *handle, dsh_error **err);
dsh_status dsh_test_panic_session(const dsh_session *handle, dsh_error **err);
dsh_status dsh_test_panic_log(const dsh_log *handle, dsh_error **err);
dsh_status dsh_test_panic_events(const dsh_events *handle, dsh_error **err);
dsh_status dsh_test_panic_lines(const dsh_lines *handle, dsh_error **err);
dsh_status dsh_test_panic_cancel(const dsh_cancel *handle, dsh_error **err);
dsh_status dsh_test_panic_subscription(const dsh_subscription *handle, dsh_error **err);
dsh_status dsh_test_panic_messages(const dsh_messages *handle, dsh_error **err);
dsh_status dsh_test_panic_projection(const dsh_projection *handle, dsh_error **err);
dsh_status dsh_test_panic_free(dsh_error **err);

static dsh_error *err = NULL;

#define REFUSED(call) FAILS(DSH_E_INVALID_ARGUMENT, call)

/* What a result holds before a call, and must still hold after a failed one. */
#define UNTOUCHED ((void *)&err)

static dsh_store *store = NULL;
static dsh_session *session = NULL;
static dsh_log *log_handle = NULL;
static dsh_events *events = NULL;
static dsh_lines *lines = NULL;
static dsh_cancel *cancel = NULL;
static dsh_messages *messages = NULL;
static dsh_subscription *subscription = NULL;

static int32_t hear(dsh_session *lent, const dsh_event *event, void *user, dsh_error **error)
{
    (void)lent;
    (void)event;
    (void)user;
    (void)error;
    return 0;
}

static int32_t hear_session(dsh_session *lent, void *user, dsh_error **error)
{
    return hear(lent, NULL, user, error);
}

static int32_t project(const dsh_event *event, const dsh_projection *context, void *user, dsh_buffer *changed, dsh_error **error)
{
    (void)context;
    (void)changed;
    return hear(NULL, event, user, error);
}

/* The destructor of a callback that could not be registered: never called. */
static void never(void *user)
{
    (void)user;
    CHECK(0);
}

static void open_all(const char *root)
{
    OK(dsh_store_open(root, strlen(root), NULL, &store, &err));
    OK(dsh_session_create(store, DSH_STR("{\"id\":\"s\"}"), &session, &err));
    OK(dsh_session_append(session, DSH_STR("turn/start"), DSH_STR("{\"turn\":1}"), NULL, NULL, &err));
    OK(dsh_session_append(session, DSH_STR("plugin:a/b"), DSH_STR("{}"), NULL, NULL, &err));
    OK(dsh_session_flush(session, NULL, &err));
    OK(dsh_log_open(store, DSH_STR("s"), DSH_READ, NULL, &log_handle, &err));
    OK(dsh_log_events(log_handle, 0, DSH_ALL, NULL, &events, &err));
    OK(dsh_store_list(store, 0, NULL, &lines, &err));
    OK(dsh_cancel_new(&cancel, &err));
    OK(dsh_session_messages(session, &messages, &err));
    OK(dsh_store_on_event(store, hear, NULL, NULL, &subscription, &err));
}

static void free_all(void)
{
    dsh_subscription_free(subscription);
    dsh_messages_free(messages);
    dsh_cancel_free(cancel);
    dsh_lines_free(lines);
    dsh_events_free(events);
    dsh_log_free(log_handle);
    dsh_session_free(session);
    dsh_store_free(store);
}

/* NULL handles. */
static void null_handles(void)
{
    dsh_buffer text = DSH_BUFFER_INIT;
    dsh_event event = DSH_EVENT_INIT;
    dsh_pending pending = DSH_PENDING_INIT;
    dsh_session *s = UNTOUCHED;
    dsh_log *l = UNTOUCHED;
    dsh_events *e = UNTOUCHED;
    dsh_lines *n = UNTOUCHED;
    dsh_str line = {NULL, 7};
    const dsh_error *damage = NULL;
    uint64_t number = 7;
    size_t count = 7;

    REFUSED(dsh_store_set_log_callback(NULL, NULL, NULL, NULL, &err));
    REFUSED(dsh_store_stat(NULL, DSH_STR("s"), NULL, &text, &err));
    REFUSED(dsh_store_list(NULL, 0, NULL, &n, &err));
    REFUSED(dsh_store_remove(NULL, DSH_STR("s"), 0, NULL, NULL, &err));
    REFUSED(dsh_store_flush(NULL, &err));
    REFUSED(dsh_store_close(NULL, &err));
    REFUSED(dsh_session_create(NULL, DSH_NONE, &s, &err));
    REFUSED(dsh_session_open(NULL, DSH_STR("s"), NULL, &s, &err));
    REFUSED(dsh_session_header(NULL, &text, &err));
    REFUSED(dsh_session_append(NULL, DSH_STR("turn/start"), DSH_STR("{}"), NULL, &number, &err));
    REFUSED(dsh_session_append_rows(NULL, DSH_STR(""), &number, &number, &err));
    REFUSED(dsh_session_flush(NULL, NULL, &err));
    REFUSED(dsh_session_next_seq(NULL, &number, &err));
    REFUSED(dsh_session_inherited_event_count(NULL, &number, &err));
    REFUSED(dsh_session_pending(NULL, &pending, &err));
    REFUSED(dsh_session_events(NULL, 0, 1, &e, &err));
    REFUSED(dsh_session_events_newest(NULL, 1, &e, &err));
    REFUSED(dsh_session_notices(NULL, &text, &err));
    REFUSED(dsh_session_close(NULL, &err));
    REFUSED(dsh_log_open(NULL, DSH_STR("s"), DSH_READ, NULL, &l, &err));
    REFUSED(dsh_log_create(NULL, DSH_NONE, -1, NULL, &l, &err));
    REFUSED(dsh_log_header(NULL, &text, &err));
    REFUSED(dsh_log_append_rows(NULL, DSH_STR(""), NULL, &number, &err));
    REFUSED(dsh_log_events(NULL, 0, 1, NULL, &e, &err));
    REFUSED(dsh_log_events_newest(NULL, 1, NULL, &e, &err));
    REFUSED(dsh_log_event_count(NULL, NULL, &number, &err));
    REFUSED(dsh_log_inherited_event_count(NULL, NULL, &number, &err));
    REFUSED(dsh_log_check(NULL, NULL, &text, &err));
    REFUSED(dsh_log_flush(NULL, NULL, &err));
    REFUSED(dsh_log_notices(NULL, &text, &err));
    REFUSED(dsh_log_close(NULL, &err));
    REFUSED(dsh_events_next(NULL, &event, &err));
    REFUSED(dsh_events_next_batch(NULL, &event, 1, &count, &err));
    REFUSED(dsh_events_damage(NULL, &damage, &err));
    REFUSED(dsh_events_after_damage(NULL, &n, &err));
    REFUSED(dsh_event_retain(NULL, &event, &err));
    REFUSED(dsh_event_logical_row(NULL, &text, &err));
    REFUSED(dsh_lines_next(NULL, &line, &err));
    REFUSED(dsh_query_verify(NULL, DSH_NONE, NULL, NULL, NULL, NULL, &n, &err));
    REFUSED(dsh_query_salvage(NULL, DSH_STR("s"), NULL, &e, &err));
    REFUSED(dsh_query_rows(NULL, DSH_STR("s"), NULL, &n, &err));
    REFUSED(dsh_query_stats(NULL, DSH_NONE, NULL, &text, &err));
    REFUSED(dsh_query_list_sessions(NULL, NULL, &n, &err));
    REFUSED(dsh_query_filter_sessions(NULL, DSH_NONE, NULL, &n, &err));
    REFUSED(dsh_query_trace_session(NULL, DSH_STR("s"), NULL, &text, &err));
    REFUSED(dsh_query_list_events(NULL, DSH_STR("s"), NULL, &n, &err));
    REFUSED(dsh_query_filter_events(NULL, DSH_STR("s"), DSH_NONE, NULL, &n, &err));
    REFUSED(dsh_query_read_event(NULL, DSH_STR("s"), DSH_STR("{\"seq\":0}"), NULL, &text, &err));
    REFUSED(dsh_query_trace_event(NULL, DSH_STR("s"), 0, NULL, &text, &err));
    REFUSED(dsh_query_read_title(NULL, DSH_STR("s"), NULL, &text, &err));
    REFUSED(dsh_query_read_titles(NULL, DSH_STR("[]"), NULL, &n, &err));
    REFUSED(dsh_query_transcript(NULL, DSH_STR("s"), NULL, &n, &err));
    REFUSED(dsh_query_read_session(NULL, DSH_STR("s"), NULL, &text, &e, &err));
    REFUSED(dsh_query_read_surface(NULL, DSH_STR("s"), NULL, &text, &e, &err));
    REFUSED(dsh_error_json(NULL, &text, &err));

    CHECK(s == UNTOUCHED && l == UNTOUCHED && e == UNTOUCHED && n == UNTOUCHED);
    CHECK(text.data == NULL && number == 7 && count == 7 && line.len == 7 && event.row.ptr == NULL && pending.events == 0);

    /* Looks that cannot fail, and frees. */
    CHECK(dsh_store_root(NULL).ptr == NULL && dsh_session_id(NULL).ptr == NULL && dsh_log_id(NULL).ptr == NULL);
    CHECK(dsh_error_code(NULL) == DSH_OK && dsh_error_message(NULL).ptr == NULL && dsh_error_seq(NULL) == -1);
    CHECK(dsh_error_os(NULL) == 0 && dsh_error_cause_count(NULL) == 0 && dsh_error_cause(NULL, 0) == NULL);
    CHECK(dsh_error_path_count(NULL) == 0 && dsh_error_path_at(NULL, 0).ptr == NULL);
    CHECK(!dsh_cancel_is_fired(NULL));
    dsh_cancel_fire(NULL);
    dsh_store_free(NULL);
    dsh_session_free(NULL);
    dsh_log_free(NULL);
    dsh_events_free(NULL);
    dsh_lines_free(NULL);
    dsh_cancel_free(NULL);
    dsh_error_free(NULL);
    dsh_buffer_free(NULL);
    dsh_event_release(NULL);
}

/* NULL places for results that must be there, and a NULL error place everywhere. */
static void null_results(void)
{
    REFUSED(dsh_store_open(DSH_NONE, NULL, NULL, &err));
    REFUSED(dsh_store_stat(store, DSH_STR("s"), NULL, NULL, &err));
    REFUSED(dsh_store_list(store, 0, NULL, NULL, &err));
    REFUSED(dsh_session_create(store, DSH_STR("{\"id\":\"never\"}"), NULL, &err));
    REFUSED(dsh_session_open(store, DSH_STR("s"), NULL, NULL, &err));
    REFUSED(dsh_session_header(session, NULL, &err));
    REFUSED(dsh_session_next_seq(session, NULL, &err));
    REFUSED(dsh_session_inherited_event_count(session, NULL, &err));
    REFUSED(dsh_session_pending(session, NULL, &err));
    REFUSED(dsh_session_events(session, 0, 1, NULL, &err));
    REFUSED(dsh_session_events_newest(session, 1, NULL, &err));
    REFUSED(dsh_session_notices(session, NULL, &err));
    REFUSED(dsh_log_open(store, DSH_STR("s"), DSH_READ, NULL, NULL, &err));
    REFUSED(dsh_log_create(store, DSH_STR("{\"id\":\"never\",\"createdAt\":1}"), -1, NULL, NULL, &err));
    REFUSED(dsh_log_header(log_handle, NULL, &err));
    REFUSED(dsh_log_events(log_handle, 0, 1, NULL, NULL, &err));
    REFUSED(dsh_log_events_newest(log_handle, 1, NULL, NULL, &err));
    REFUSED(dsh_log_event_count(log_handle, NULL, NULL, &err));
    REFUSED(dsh_log_inherited_event_count(log_handle, NULL, NULL, &err));
    REFUSED(dsh_log_check(log_handle, NULL, NULL, &err));
    REFUSED(dsh_log_notices(log_handle, NULL, &err));
    REFUSED(dsh_events_next(events, NULL, &err));
    REFUSED(dsh_events_next_batch(events, NULL, 1, NULL, &err));
    REFUSED(dsh_events_damage(events, NULL, &err));
    REFUSED(dsh_events_after_damage(events, NULL, &err));
    REFUSED(dsh_lines_next(lines, NULL, &err));
    REFUSED(dsh_cancel_new(NULL, &err));
    REFUSED(dsh_query_verify(store, DSH_NONE, NULL, NULL, NULL, NULL, NULL, &err));
    REFUSED(dsh_query_salvage(store, DSH_STR("s"), NULL, NULL, &err));
    REFUSED(dsh_query_rows(store, DSH_STR("s"), NULL, NULL, &err));
    REFUSED(dsh_query_stats(store, DSH_NONE, NULL, NULL, &err));
    REFUSED(dsh_query_list_sessions(store, NULL, NULL, &err));
    REFUSED(dsh_query_filter_sessions(store, DSH_NONE, NULL, NULL, &err));
    REFUSED(dsh_query_trace_session(store, DSH_STR("s"), NULL, NULL, &err));
    REFUSED(dsh_query_list_events(store, DSH_STR("s"), NULL, NULL, &err));
    REFUSED(dsh_query_filter_events(store, DSH_STR("s"), DSH_NONE, NULL, NULL, &err));
    REFUSED(dsh_query_read_event(store, DSH_STR("s"), DSH_STR("{\"seq\":0}"), NULL, NULL, &err));
    REFUSED(dsh_query_trace_event(store, DSH_STR("s"), 0, NULL, NULL, &err));
    REFUSED(dsh_query_read_title(store, DSH_STR("s"), NULL, NULL, &err));
    REFUSED(dsh_query_read_titles(store, DSH_STR("[]"), NULL, NULL, &err));
    REFUSED(dsh_query_transcript(store, DSH_STR("s"), NULL, NULL, &err));
    REFUSED(dsh_query_read_session(store, DSH_STR("s"), NULL, NULL, NULL, &err));
    REFUSED(dsh_query_read_surface(store, DSH_STR("s"), NULL, NULL, NULL, &err));
    /* Nothing was made by the calls that had no place for it. */
    dsh_buffer text = DSH_BUFFER_INIT;
    FAILS(DSH_E_SESSION_NOT_FOUND, dsh_store_stat(store, DSH_STR("never"), NULL, &text, &err));
    CHECK(dsh_store_flush(NULL, NULL) == DSH_E_INVALID_ARGUMENT);
    CHECK(dsh_session_open(store, DSH_STR("nowhere"), NULL, &session, NULL) == DSH_E_SESSION_NOT_FOUND);
}

/* The calls on sessions whole, without a handle, without a place, with texts and values that are none. */
static void sessions_whole(void)
{
    dsh_session *s = UNTOUCHED;
    dsh_events *e = UNTOUCHED;
    dsh_messages *m = UNTOUCHED;
    dsh_subscription *u = UNTOUCHED;
    dsh_buffer text = DSH_BUFFER_INIT;
    dsh_seqs seqs = DSH_SEQS_INIT;
    dsh_event event = DSH_EVENT_INIT;
    dsh_message message = DSH_MESSAGE_INIT;
    dsh_error *made = UNTOUCHED;
    uint64_t number = 7;
    int32_t state = 7;

    REFUSED(dsh_store_resume(NULL, DSH_STR("s"), NULL, &s, &err));
    REFUSED(dsh_store_resume(store, DSH_STR("s"), NULL, NULL, &err));
    REFUSED(dsh_store_resume(store, DSH_NONE, NULL, &s, &err));
    REFUSED(dsh_store_resume(store, DSH_STR("\xff"), NULL, &s, &err));
    REFUSED(dsh_store_fork(NULL, DSH_STR("s"), 0, DSH_NONE, NULL, &s, &err));
    REFUSED(dsh_store_fork(store, DSH_STR("s"), 0, DSH_NONE, NULL, NULL, &err));
    REFUSED(dsh_store_fork(store, DSH_NONE, 0, DSH_NONE, NULL, &s, &err));
    REFUSED(dsh_store_fork(store, DSH_STR("s"), 0, DSH_STR("{"), NULL, &s, &err));
    REFUSED(dsh_store_create_seeded(NULL, DSH_NONE, DSH_NONE, -1, &s, &err));
    REFUSED(dsh_store_create_seeded(store, DSH_NONE, DSH_NONE, -1, NULL, &err));
    REFUSED(dsh_store_create_seeded(store, DSH_NONE, NULL, 3, -1, &s, &err));
    REFUSED(dsh_store_get(NULL, DSH_STR("s"), &s, &err));
    REFUSED(dsh_store_get(store, DSH_STR("s"), NULL, &err));
    REFUSED(dsh_store_get(store, DSH_NONE, &s, &err));
    REFUSED(dsh_store_live_ids(NULL, &text, &err));
    REFUSED(dsh_store_live_ids(store, NULL, &err));

    REFUSED(dsh_session_append_record(NULL, DSH_STR("plugin:a"), DSH_STR("1"), &number, &err));
    REFUSED(dsh_session_append_record(session, DSH_STR("\xff"), DSH_STR("1"), &number, &err));
    REFUSED(dsh_session_append_record(session, DSH_STR("plugin:a"), DSH_NONE, &number, &err));
    REFUSED(dsh_session_surface(NULL, &seqs, &number, &number, &err));
    REFUSED(dsh_session_surface(session, NULL, &number, &number, &err));
    REFUSED(dsh_session_messages(NULL, &m, &err));
    REFUSED(dsh_session_messages(session, NULL, &err));
    REFUSED(dsh_session_message_of(NULL, 0, &text, &err));
    REFUSED(dsh_session_message_of(session, 0, NULL, &err));
    REFUSED(dsh_session_transcript(NULL, &e, &err));
    REFUSED(dsh_session_transcript(session, NULL, &err));
    REFUSED(dsh_session_closers(NULL, 0, &e, &err));
    REFUSED(dsh_session_closers(session, 0, NULL, &err));
    REFUSED(dsh_session_closers(session, -1, &e, &err));
    REFUSED(dsh_session_event_at(NULL, 0, &event, &err));
    REFUSED(dsh_session_event_at(session, 0, NULL, &err));
    REFUSED(dsh_session_current_batch_publication(NULL, &event, &err));
    REFUSED(dsh_session_request_header(NULL, &text, &err));
    REFUSED(dsh_session_request_context(NULL, &text, &err));
    REFUSED(dsh_session_tool_history(NULL, &text, &err));
    REFUSED(dsh_session_title(NULL, &text, &err));
    REFUSED(dsh_session_title(session, NULL, &err));
    REFUSED(dsh_session_first_live_seq(NULL, &number, &err));
    REFUSED(dsh_session_first_live_seq(session, NULL, &err));
    REFUSED(dsh_session_first_lifecycle_seq(NULL, &number, &err));
    REFUSED(dsh_session_write_state(NULL, &state, &err));
    REFUSED(dsh_session_write_state(session, NULL, &err));
    REFUSED(dsh_messages_at(NULL, 0, &message, &err));
    REFUSED(dsh_messages_at(messages, 0, NULL, &err));
    message.struct_size = 1;
    REFUSED(dsh_messages_at(messages, 0, &message, &err));
    CHECK(dsh_messages_count(NULL) == 0 && !dsh_projection_is_on_surface(NULL, 0));
    dsh_messages_free(NULL);
    dsh_seqs_free(NULL);
    dsh_subscription_free(NULL);

    REFUSED(dsh_store_on_event(NULL, hear, NULL, never, &u, &err));
    REFUSED(dsh_store_on_event(store, NULL, NULL, never, &u, &err));
    REFUSED(dsh_store_add_validator(NULL, hear, NULL, never, &u, &err));
    REFUSED(dsh_store_add_validator(store, NULL, NULL, never, &u, &err));
    REFUSED(dsh_store_on_created(NULL, hear_session, NULL, never, &u, &err));
    REFUSED(dsh_store_on_created(store, NULL, NULL, never, &u, &err));
    REFUSED(dsh_store_on_disposed(NULL, hear_session, NULL, never, &u, &err));
    REFUSED(dsh_store_on_disposed(store, NULL, NULL, never, &u, &err));
    REFUSED(dsh_store_on_flush(NULL, hear_session, NULL, never, &u, &err));
    REFUSED(dsh_store_on_flush(store, NULL, NULL, never, &u, &err));
    REFUSED(dsh_store_register_projection(NULL, DSH_STR("a"), project, NULL, never, &u, &err));
    REFUSED(dsh_store_register_projection(store, DSH_STR("a"), NULL, NULL, never, &u, &err));
    REFUSED(dsh_store_register_projection(store, DSH_NONE, project, NULL, never, &u, &err));
    REFUSED(dsh_subscription_cancel(NULL, &err));
    REFUSED(dsh_projection_nodes(NULL, &seqs, &err));
    REFUSED(dsh_projection_base_seq(NULL, &number, &err));
    REFUSED(dsh_projection_event(NULL, 0, &event, &err));
    REFUSED(dsh_projection_message(NULL, 0, &text, &err));
    REFUSED(dsh_projection_projected(NULL, &m, &err));

    REFUSED(dsh_fold_surface(NULL, DSH_NONE, 0, NULL, &err));
    REFUSED(dsh_fold_surface((const dsh_store *)session, DSH_NONE, 0, &text, &err));
    REFUSED(dsh_fold(DSH_FOLD_TITLE, DSH_NONE, NULL, &err));
    REFUSED(dsh_fold(-1, DSH_NONE, &text, &err));
    REFUSED(dsh_closers(DSH_NONE, 2, &text, &err));
    REFUSED(dsh_closers(DSH_NONE, 0, NULL, &err));
    REFUSED(dsh_fork_seed(DSH_NONE, 0, NULL, &number, &err));
    REFUSED(dsh_fork_seed(DSH_NONE, 0, &text, NULL, &err));
    REFUSED(dsh_buffer_new(DSH_STR("\xff"), &text, &err));
    REFUSED(dsh_buffer_new(DSH_NONE, NULL, &err));
    REFUSED(dsh_error_new(DSH_E_IO, DSH_STR("\xff"), &made, &err));
    REFUSED(dsh_error_new(DSH_E_IO, DSH_STR("x"), NULL, &err));
    REFUSED(dsh_session_messages((const dsh_session *)messages, &m, &err));
    REFUSED(dsh_subscription_cancel((dsh_subscription *)messages, &err));

    CHECK(s == UNTOUCHED && e == UNTOUCHED && m == UNTOUCHED && u == UNTOUCHED && made == UNTOUCHED);
    CHECK(text.data == NULL && seqs.data == NULL && event.row.ptr == NULL && number == 7 && state == 7);
}

/* A lent session that a panic spoiled is unusable until its callback returns; the session itself is not. */
static int32_t panic_inside(dsh_session *lent, const dsh_event *event, void *user, dsh_error **error)
{
    FAILS(DSH_E_PANIC, dsh_test_panic_session(lent, &err));
    FAILS(DSH_E_PANIC, dsh_session_flush(lent, NULL, &err));
    return hear(lent, event, user, error);
}

/* A projection that panics in a call on its context has a context that is spoiled, and goes on. */
static int32_t panic_in_projection(
    const dsh_event *event, const dsh_projection *context, void *user, dsh_buffer *changed, dsh_error **error)
{
    uint64_t base = 0;
    FAILS(DSH_E_PANIC, dsh_test_panic_projection(context, &err));
    FAILS(DSH_E_PANIC, dsh_projection_base_seq(context, &base, &err));
    return project(event, context, user, changed, error);
}

static void panics_in_callbacks(void)
{
    dsh_subscription *listener = NULL, *projection = NULL;
    OK(dsh_store_on_event(store, panic_inside, NULL, NULL, &listener, &err));
    OK(dsh_store_register_projection(store, DSH_STR("feedback/record"), panic_in_projection, NULL, NULL, &projection, &err));
    OK(dsh_session_append(session, DSH_STR("feedback/record"), DSH_STR("{}"), NULL, NULL, &err));
    OK(dsh_session_flush(session, NULL, &err));
    dsh_subscription_free(listener);
    dsh_subscription_free(projection);
    dsh_subscription *spoiled = NULL;
    OK(dsh_store_on_event(store, hear, NULL, NULL, &spoiled, &err));
    FAILS(DSH_E_PANIC, dsh_test_panic_subscription(spoiled, &err));
    FAILS(DSH_E_PANIC, dsh_subscription_cancel(spoiled, &err));
    dsh_subscription_free(spoiled);
    dsh_message message = DSH_MESSAGE_INIT;
    FAILS(DSH_E_PANIC, dsh_test_panic_messages(messages, &err));
    FAILS(DSH_E_PANIC, dsh_messages_at(messages, 0, &message, &err));
}

/* Texts: NULL with a length, not UTF-8, empty where something must be said, longer than memory, not JSON. */
static void bad_texts(void)
{
    dsh_store *other = UNTOUCHED;
    dsh_session *s = UNTOUCHED;
    uint64_t seq = 7;
    REFUSED(dsh_store_open(NULL, 5, NULL, &other, &err));
    REFUSED(dsh_store_open("", 0, NULL, &other, &err));
    REFUSED(dsh_store_open("\xff", 1, NULL, &other, &err));
    REFUSED(dsh_store_open("a\0b", 3, NULL, &other, &err));
    REFUSED(dsh_session_open(store, NULL, 5, NULL, &s, &err));
    REFUSED(dsh_session_open(store, DSH_NONE, NULL, &s, &err));
    REFUSED(dsh_session_open(store, "\xc3", 1, NULL, &s, &err));
    REFUSED(dsh_session_open(store, "s", SIZE_MAX, NULL, &s, &err));
    REFUSED(dsh_session_create(store, DSH_STR("{"), &s, &err));
    REFUSED(dsh_session_create(store, DSH_STR("[]"), &s, &err));
    REFUSED(dsh_session_create(store, DSH_STR("{\"cwdd\":\"/\"}"), &s, &err));
    REFUSED(dsh_session_create(store, DSH_STR("{\"cwd\":\"relative\"}"), &s, &err));
    REFUSED(dsh_session_create(store, DSH_STR("{\"cwd\":\"\xff\"}"), &s, &err));
    REFUSED(dsh_session_append(session, DSH_NONE, DSH_STR("{}"), NULL, &seq, &err));
    REFUSED(dsh_session_append(session, DSH_STR("\xff"), DSH_STR("{}"), NULL, &seq, &err));
    REFUSED(dsh_session_append(session, DSH_STR("turn/start"), DSH_NONE, NULL, &seq, &err));
    REFUSED(dsh_session_append(session, DSH_STR("turn/start"), NULL, 2, NULL, &seq, &err));
    REFUSED(dsh_session_append(session, DSH_STR("turn/start"), DSH_STR("{\"a\":}"), NULL, &seq, &err));
    REFUSED(dsh_session_append(session, DSH_STR("turn/start"), DSH_STR("{} {}"), NULL, &seq, &err));
    REFUSED(dsh_session_append_rows(session, DSH_STR("{\"type\":\"turn/start\"}"), &seq, NULL, &err));
    REFUSED(dsh_session_append_rows(session, NULL, 4, &seq, NULL, &err));
    REFUSED(dsh_log_append_rows(log_handle, DSH_STR("{}"), NULL, &seq, &err));
    CHECK(other == UNTOUCHED && s == UNTOUCHED && seq == 7);
    /* Ill-formed UTF-8 in JSON text is replaced, as in reading. */
    OK(dsh_session_append(session, DSH_STR("plugin:a/b"), DSH_STR("\"\xff\""), NULL, &seq, &err));
    OK(dsh_session_append_rows(session, DSH_NONE, &seq, NULL, &err));
}

/* Values that are none of an enum, of flags, of a count. */
static void bad_values(void)
{
    dsh_lines *n = UNTOUCHED;
    dsh_log *l = UNTOUCHED;
    dsh_event event = DSH_EVENT_INIT;
    size_t count = 7;
    REFUSED(dsh_store_list(store, 2, NULL, &n, &err));
    REFUSED(dsh_store_remove(store, DSH_STR("s"), 6, NULL, NULL, &err));
    REFUSED(dsh_log_open(store, DSH_STR("s"), 2, NULL, &l, &err));
    REFUSED(dsh_log_create(store, DSH_STR("{\"id\":\"x\",\"createdAt\":1}"), -2, NULL, &l, &err));
    REFUSED(dsh_log_create(store, DSH_STR("{\"id\":\"x\",\"createdAt\":1}"), 3, NULL, &l, &err));
    REFUSED(dsh_events_next_batch(events, &event, 0, &count, &err));
    CHECK(n == UNTOUCHED && l == UNTOUCHED && count == 7);

    dsh_append_options options = DSH_APPEND_OPTIONS_INIT;
    options.flags = 4;
    REFUSED(dsh_session_append(session, DSH_STR("plugin:a/b"), DSH_STR("{}"), &options, NULL, &err));
    options.flags = 0;
    options.surface = 3;
    REFUSED(dsh_session_append(session, DSH_STR("plugin:a/b"), DSH_STR("{}"), &options, NULL, &err));
    options.surface = 0;
    options.source_event_seqs_len = 1;
    REFUSED(dsh_session_append(session, DSH_STR("plugin:a/b"), DSH_STR("{}"), &options, NULL, &err));

    dsh_store_settings settings = DSH_STORE_SETTINGS_INIT;
    dsh_store *other = UNTOUCHED;
    settings.encoding = 9;
    REFUSED(dsh_store_open(DSH_STR("nowhere"), &settings, &other, &err));
    settings.encoding = 0;
    settings.row_bytes_max = UINT64_MAX;
    REFUSED(dsh_store_open(DSH_STR("nowhere"), &settings, &other, &err));
    settings.row_bytes_max = 0;
    settings.flags = 2;
    REFUSED(dsh_store_open(DSH_STR("nowhere"), &settings, &other, &err));
    CHECK(other == UNTOUCHED);
}

/* Structs of other sizes: too small is refused; larger is fine if the rest of an input is zero, and zeroes the rest of an output. */
static void struct_sizes(void)
{
    struct {
        dsh_append_options known;
        uint64_t later;
    } input = {DSH_APPEND_OPTIONS_INIT, 0};
    input.known.struct_size = sizeof input.known - 1;
    REFUSED(dsh_session_append(session, DSH_STR("plugin:a/b"), DSH_STR("{}"), &input.known, NULL, &err));
    input.known.struct_size = 0;
    REFUSED(dsh_session_append(session, DSH_STR("plugin:a/b"), DSH_STR("{}"), &input.known, NULL, &err));
    input.known.struct_size = sizeof input;
    OK(dsh_session_append(session, DSH_STR("plugin:a/b"), DSH_STR("{}"), &input.known, NULL, &err));
    input.later = 1;
    REFUSED(dsh_session_append(session, DSH_STR("plugin:a/b"), DSH_STR("{}"), &input.known, NULL, &err));

    struct {
        dsh_event known;
        uint64_t later;
    } output[2] = {{DSH_EVENT_INIT, 77}, {DSH_EVENT_INIT, 77}};
    output[0].known.struct_size = sizeof(dsh_event) - 8;
    REFUSED(dsh_events_next(events, &output[0].known, &err));
    output[0].known.struct_size = sizeof(dsh_event) + 1;
    size_t count = 7;
    REFUSED(dsh_events_next_batch(events, &output[0].known, 2, &count, &err));
    CHECK(count == 7 && output[0].later == 77);
    output[0].known.struct_size = sizeof output[0];
    OK(dsh_events_next_batch(events, &output[0].known, 2, &count, &err));
    CHECK(count == 2 && output[0].later == 0 && output[1].later == 0);
    CHECK(output[0].known.seq == 0 && output[1].known.seq == 1 && output[1].known.struct_size == sizeof output[0]);

    dsh_pending pending = DSH_PENDING_INIT;
    pending.struct_size = 8;
    REFUSED(dsh_session_pending(session, &pending, &err));
    dsh_event empty = DSH_EVENT_INIT, kept = DSH_EVENT_INIT;
    REFUSED(dsh_event_retain(&empty, &kept, &err));
    dsh_event_release(&empty);
}

/* A handle of another kind is seen to be one. */
static void wrong_kinds(void)
{
    dsh_buffer text = DSH_BUFFER_INIT;
    dsh_event event = DSH_EVENT_INIT;
    uint64_t number = 7;
    REFUSED(dsh_session_flush((dsh_session *)(void *)store, NULL, &err));
    REFUSED(dsh_store_flush((dsh_store *)(void *)session, &err));
    REFUSED(dsh_log_notices((dsh_log *)(void *)session, &text, &err));
    REFUSED(dsh_events_next((dsh_events *)(void *)lines, &event, &err));
    REFUSED(dsh_log_event_count(log_handle, (dsh_cancel *)(void *)store, &number, &err));
    REFUSED(dsh_store_flush((dsh_store *)(void *)((char *)store + 1), &err));
    dsh_cancel_fire((dsh_cancel *)(void *)store);
    dsh_session_free((dsh_session *)(void *)store);
    dsh_error_free((dsh_error *)(void *)store);
    OK(dsh_store_flush(store, &err));
}

static void *fire_later(void *user)
{
    usleep(1);
    dsh_cancel_fire(user);
    return NULL;
}

struct racer {
    dsh_events *events;
    uint64_t given, refused;
};

static void *race(void *user)
{
    struct racer *racer = user;
    dsh_event event = DSH_EVENT_INIT;
    dsh_status status;
    while ((status = dsh_events_next(racer->events, &event, NULL)) != DSH_DONE) {
        CHECK(status == DSH_OK || status == DSH_E_INVALID_ARGUMENT);
        *(status == DSH_OK ? &racer->given : &racer->refused) += 1;
    }
    return NULL;
}

/* Two threads on one iterator: each call gives an event or is refused, none is given twice or lost. */
static void concurrent_iteration(void)
{
    for (int i = 0; i < 500; i++) {
        OK(dsh_session_append(session, DSH_STR("plugin:a/b"), DSH_STR("{}"), NULL, NULL, &err));
    }
    uint64_t total = 0;
    OK(dsh_session_next_seq(session, &total, &err));
    dsh_events *shared = NULL;
    OK(dsh_session_events(session, 0, DSH_ALL, &shared, &err));
    struct racer racers[2] = {{shared, 0, 0}, {shared, 0, 0}};
    pthread_t thread, firing;
    CHECK(pthread_create(&thread, NULL, race, &racers[1]) == 0);
    CHECK(pthread_create(&firing, NULL, fire_later, cancel) == 0);
    race(&racers[0]);
    pthread_join(thread, NULL);
    pthread_join(firing, NULL);
    CHECK(racers[0].given + racers[1].given == total && dsh_cancel_is_fired(cancel));
    dsh_events_free(shared);
}

/* Closed handles say so; closing again and freeing is fine. */
static void closed_handles(void)
{
    dsh_buffer text = DSH_BUFFER_INIT;
    dsh_events *e = UNTOUCHED;
    dsh_lines *n = UNTOUCHED;
    dsh_log *l = UNTOUCHED;
    dsh_session *s = UNTOUCHED;
    uint64_t number = 7;
    OK(dsh_session_close(session, &err));
    OK(dsh_session_close(session, &err));
    FAILS(DSH_E_HANDLE_CLOSED, dsh_session_append(session, DSH_STR("plugin:a/b"), DSH_STR("{}"), NULL, &number, &err));
    FAILS(DSH_E_HANDLE_CLOSED, dsh_session_flush(session, NULL, &err));
    FAILS(DSH_E_HANDLE_CLOSED, dsh_session_events(session, 0, 1, &e, &err));
    CHECK(is_text(dsh_session_id(session), "s"));
    OK(dsh_log_close(log_handle, &err));
    OK(dsh_log_close(log_handle, &err));
    FAILS(DSH_E_HANDLE_CLOSED, dsh_log_events(log_handle, 0, 1, NULL, &e, &err));
    FAILS(DSH_E_HANDLE_CLOSED, dsh_log_check(log_handle, NULL, &text, &err));
    FAILS(DSH_E_HANDLE_CLOSED, dsh_log_flush(log_handle, NULL, &err));
    OK(dsh_store_close(store, &err));
    OK(dsh_store_close(store, &err));
    FAILS(DSH_E_HANDLE_CLOSED, dsh_store_flush(store, &err));
    FAILS(DSH_E_HANDLE_CLOSED, dsh_store_stat(store, DSH_STR("s"), NULL, &text, &err));
    FAILS(DSH_E_HANDLE_CLOSED, dsh_store_list(store, 0, NULL, &n, &err));
    FAILS(DSH_E_HANDLE_CLOSED, dsh_session_create(store, DSH_NONE, &s, &err));
    FAILS(DSH_E_HANDLE_CLOSED, dsh_store_resume(store, DSH_STR("s"), NULL, &s, &err));
    FAILS(DSH_E_HANDLE_CLOSED, dsh_store_fork(store, DSH_STR("s"), 0, DSH_NONE, NULL, &s, &err));
    FAILS(DSH_E_HANDLE_CLOSED, dsh_store_create_seeded(store, DSH_NONE, DSH_NONE, -1, &s, &err));
    FAILS(DSH_E_HANDLE_CLOSED, dsh_store_get(store, DSH_STR("s"), &s, &err));
    FAILS(DSH_E_HANDLE_CLOSED, dsh_store_live_ids(store, &text, &err));
    FAILS(DSH_E_HANDLE_CLOSED, dsh_store_on_event(store, hear, NULL, never, NULL, &err));
    FAILS(DSH_E_HANDLE_CLOSED, dsh_store_register_projection(store, DSH_STR("a/b"), project, NULL, never, NULL, &err));
    FAILS(DSH_E_HANDLE_CLOSED, dsh_fold_surface(store, DSH_NONE, 0, &text, &err));
    FAILS(DSH_E_HANDLE_CLOSED, dsh_session_open(store, DSH_STR("s"), NULL, &s, &err));
    FAILS(DSH_E_HANDLE_CLOSED, dsh_log_open(store, DSH_STR("s"), DSH_READ, NULL, &l, &err));
    FAILS(DSH_E_HANDLE_CLOSED, dsh_query_stats(store, DSH_NONE, NULL, &text, &err));
    FAILS(DSH_E_HANDLE_CLOSED, dsh_query_list_sessions(store, NULL, &n, &err));
    FAILS(DSH_E_HANDLE_CLOSED, dsh_query_filter_sessions(store, DSH_NONE, NULL, &n, &err));
    FAILS(DSH_E_HANDLE_CLOSED, dsh_query_trace_session(store, DSH_STR("s"), NULL, &text, &err));
    FAILS(DSH_E_HANDLE_CLOSED, dsh_query_list_events(store, DSH_STR("s"), NULL, &n, &err));
    FAILS(DSH_E_HANDLE_CLOSED, dsh_query_filter_events(store, DSH_STR("s"), DSH_NONE, NULL, &n, &err));
    FAILS(DSH_E_HANDLE_CLOSED, dsh_query_read_event(store, DSH_STR("s"), DSH_STR("{\"seq\":0}"), NULL, &text, &err));
    FAILS(DSH_E_HANDLE_CLOSED, dsh_query_trace_event(store, DSH_STR("s"), 0, NULL, &text, &err));
    FAILS(DSH_E_HANDLE_CLOSED, dsh_query_read_title(store, DSH_STR("s"), NULL, &text, &err));
    FAILS(DSH_E_HANDLE_CLOSED, dsh_query_read_titles(store, DSH_STR("[]"), NULL, &n, &err));
    FAILS(DSH_E_HANDLE_CLOSED, dsh_query_transcript(store, DSH_STR("s"), NULL, &n, &err));
    FAILS(DSH_E_HANDLE_CLOSED, dsh_query_read_session(store, DSH_STR("s"), NULL, &text, &e, &err));
    FAILS(DSH_E_HANDLE_CLOSED, dsh_query_read_surface(store, DSH_STR("s"), NULL, &text, &e, &err));
    CHECK(e == UNTOUCHED && n == UNTOUCHED && l == UNTOUCHED && s == UNTOUCHED && number == 7 && text.data == NULL);
}

/* A panic is a code; the handle is unusable from then on, can be freed, and disturbs no other. */
static void panics(void)
{
    dsh_event event = DSH_EVENT_INIT;
    dsh_str line = {NULL, 0};
    FAILS(DSH_E_PANIC, dsh_test_panic_free(&err));
    CHECK(dsh_test_panic_events(events, &err) == DSH_E_PANIC);
    CHECK(has_text(dsh_error_message(err).ptr, "on purpose, in the iterator of events"));
    dsh_error_free(err);
    err = NULL;
    FAILS(DSH_E_PANIC, dsh_events_next(events, &event, &err));
    FAILS(DSH_E_PANIC, dsh_test_panic_lines(lines, &err));
    FAILS(DSH_E_PANIC, dsh_lines_next(lines, &line, &err));
    FAILS(DSH_E_PANIC, dsh_test_panic_cancel(cancel, &err));
    OK(dsh_session_flush(session, NULL, &err));
    FAILS(DSH_E_PANIC, dsh_test_panic_log(log_handle, &err));
    FAILS(DSH_E_PANIC, dsh_log_close(log_handle, &err));
    FAILS(DSH_E_PANIC, dsh_test_panic_session(session, &err));
    FAILS(DSH_E_PANIC, dsh_session_flush(session, NULL, &err));
    OK(dsh_store_flush(store, &err));
    FAILS(DSH_E_PANIC, dsh_test_panic_store(store, &err));
    FAILS(DSH_E_PANIC, dsh_store_close(store, &err));
    CHECK(dsh_test_panic_store(store, NULL) == DSH_E_PANIC);
}

/* Two handles freed in the wrong order, with their iterators alive. */
static void orders_of_freeing(const char *root)
{
    dsh_event event = DSH_EVENT_INIT;
    OK(dsh_store_open(root, strlen(root), NULL, &store, &err));
    OK(dsh_log_open(store, DSH_STR("s"), DSH_READ, NULL, &log_handle, &err));
    OK(dsh_log_events(log_handle, 0, DSH_ALL, NULL, &events, &err));
    OK(dsh_events_next(events, &event, &err));
    dsh_store_free(store);
    dsh_log_free(log_handle);
    CHECK(is_text(event.type, "turn/start"));
    dsh_status status = dsh_events_next(events, &event, &err);
    CHECK(status == DSH_OK || status == DSH_E_HANDLE_CLOSED);
    dsh_error_free(err);
    err = NULL;
    dsh_events_free(events);
}

int main(int count, char **arguments)
{
    CHECK(count == 2);
    char root[2048];
    snprintf(root, sizeof root, "%s/sessions", arguments[1]);
    null_handles();
    open_all(root);
    null_results();
    sessions_whole();
    bad_texts();
    bad_values();
    struct_sizes();
    wrong_kinds();
    concurrent_iteration();
    closed_handles();
    free_all();
    snprintf(root, sizeof root, "%s/panics", arguments[1]);
    open_all(root);
    panics_in_callbacks();
    dsh_session_free(session);
    OK(dsh_store_resume(store, DSH_STR("s"), NULL, &session, &err));
    panics();
    free_all();
    orders_of_freeing(root);
    printf("misuse: ok\n");
    return 0;
}
