/*
 * Sessions whole, as a host uses them: recorded, heard of, judged, projected, closed in the middle of a turn, resumed, forked, begun
 * from rows, and folded without a session. The first argument is an empty folder.
 */
#include <pthread.h>

#include "check.h"

static dsh_error *err = NULL;

#define USER(id) "{\"id\":\"" id "\",\"role\":\"user\",\"source\":{\"kind\":\"user\"},\"content\":[{\"type\":\"text\",\"text\":\"hello\"}]}"
#define TYPES "[\"acme/usage\",{\"type\":\"acme/redact\",\"changesMessages\":true}]"

static dsh_store *open_store(const char *root)
{
    dsh_store_settings settings = DSH_STORE_SETTINGS_INIT;
    dsh_store *store = NULL;
    settings.event_types = TYPES;
    settings.event_types_len = strlen(TYPES);
    OK(dsh_store_open(root, root == NULL ? 0 : strlen(root), &settings, &store, &err));
    return store;
}

static dsh_session *create(dsh_store *store, const char *header)
{
    dsh_session *session = NULL;
    OK(dsh_session_create(store, header, strlen(header), &session, &err));
    return session;
}

static dsh_status try_append(dsh_session *session, const char *type, const char *data, dsh_surface surface)
{
    dsh_append_options options = DSH_APPEND_OPTIONS_INIT;
    options.surface = surface;
    return dsh_session_append(session, type, strlen(type), data, strlen(data), &options, NULL, &err);
}

static void append(dsh_session *session, const char *type, const char *data, dsh_surface surface)
{
    OK(try_append(session, type, data, surface));
}

/* The last failure must have this rule. */
static void rule_is(const char *rule)
{
    if (!is_text(dsh_error_rule(err), rule)) {
        fprintf(stderr, "instead of %s: %.*s\n", rule, DSH_FMT(dsh_error_message(err)));
        exit(1);
    }
    dsh_error_free(err);
    err = NULL;
}

static uint64_t next_seq(const dsh_session *session)
{
    uint64_t seq = 0;
    OK(dsh_session_next_seq(session, &seq, &err));
    return seq;
}

static int state(const dsh_session *session)
{
    int32_t state = -1;
    OK(dsh_session_write_state(session, &state, &err));
    return state;
}

/* The text of a call that fills a buffer must have the part. */
#define HAS(part, call) \
    do { \
        dsh_buffer text = DSH_BUFFER_INIT; \
        dsh_buffer *out = &text; \
        OK(call); \
        if (!has_text(text.data, part)) { \
            fprintf(stderr, "%s:%d: %s\n", __FILE__, __LINE__, text.data == NULL ? "nothing" : text.data); \
            exit(1); \
        } \
        dsh_buffer_free(&text); \
    } while (0)

static void has_nodes(const dsh_session *session, size_t count, const uint64_t *expected, uint64_t replaced, uint64_t changed)
{
    dsh_seqs nodes = DSH_SEQS_INIT;
    uint64_t replace_generation = 0, content_generation = 0;
    OK(dsh_session_surface(session, &nodes, &replace_generation, &content_generation, &err));
    CHECK(nodes.len == count && replace_generation == replaced && content_generation == changed);
    for (size_t i = 0; i < count; i++) {
        CHECK(nodes.data[i] == expected[i]);
    }
    dsh_seqs_free(&nodes);
    CHECK(nodes.data == NULL && nodes.len == 0);
    dsh_seqs_free(&nodes);
}

static size_t count_events(dsh_events *events)
{
    dsh_event event = DSH_EVENT_INIT;
    size_t count = 0;
    dsh_status status;
    while ((status = dsh_events_next(events, &event, &err)) == DSH_OK) {
        count++;
    }
    CHECK(status == DSH_DONE);
    dsh_events_free(events);
    return count;
}

/* Everything that is folded from a session, and what there is not. */
static void folded(dsh_store *store)
{
    dsh_session *session = create(store, "{\"id\":\"folded\",\"cwd\":\"/repo\"}");
    dsh_buffer text = DSH_BUFFER_INIT;
    CHECK(state(session) == DSH_WRITE_STATE_LIVE);
    CHECK(dsh_session_request_header(session, &text, &err) == DSH_ABSENT && err == NULL && text.data == NULL);
    CHECK(dsh_session_request_context(session, &text, &err) == DSH_ABSENT);
    CHECK(dsh_session_title(session, &text, &err) == DSH_ABSENT);
    CHECK(dsh_session_message_of(session, 0, &text, &err) == DSH_ABSENT);
    HAS("{\"tools\":[],\"updates\":[]}", dsh_session_tool_history(session, out, &err));
    has_nodes(session, 0, NULL, 0, 0);

    append(session, "turn/start", "{\"turn\":1}", DSH_SURFACE_NONE);
    append(session, "user/message", USER("u1"), DSH_SURFACE_APPEND);
    append(session, "user/message", USER("u2"), DSH_SURFACE_APPEND);
    dsh_append_options options = DSH_APPEND_OPTIONS_INIT;
    uint64_t sources[] = {1, 2};
    options.surface = DSH_SURFACE_REPLACE;
    options.surface_start_seq = 1;
    options.surface_end_seq = 2;
    options.source_event_seqs = sources;
    options.source_event_seqs_len = 2;
    uint64_t seq = 0;
    OK(dsh_session_append(session, DSH_STR("user/message"), DSH_STR(USER("u3")), &options, &seq, &err));
    CHECK(seq == 3);
    uint64_t expected[] = {3};
    has_nodes(session, 1, expected, 1, 1);
    append(session, "session/title", "{\"title\":\"A title\",\"messageSeqs\":[],\"source\":{\"kind\":\"user\"}}", DSH_SURFACE_NONE);
    append(session, "acme/usage", "{\"tokens\":3}", DSH_SURFACE_NONE);
    OK(dsh_session_append_record(session, DSH_STR("plugin:acme/state"), DSH_STR("7"), &seq, &err));
    CHECK(seq == 6);
    CHECK(dsh_session_append_record(session, DSH_STR("acme/state"), DSH_STR("7"), NULL, &err) == DSH_E_EVENT_REFUSED);
    rule_is("PLUGIN_RECORD_TYPE_INVALID");
    HAS("\"title\":\"A title\"", dsh_session_title(session, out, &err));
    HAS("\"id\":\"u1\"", dsh_session_message_of(session, 1, out, &err));

    dsh_messages *messages = NULL;
    dsh_message message = DSH_MESSAGE_INIT;
    OK(dsh_session_messages(session, &messages, &err));
    CHECK(dsh_messages_count(messages) == 1);
    OK(dsh_messages_at(messages, 0, &message, &err));
    CHECK(message.seq == 3 && is_text(message.text, USER("u3")) && message.struct_size == sizeof message);
    FAILS(DSH_E_INVALID_ARGUMENT, dsh_messages_at(messages, 1, &message, &err));

    dsh_events *events = NULL;
    OK(dsh_session_transcript(session, &events, &err));
    CHECK(count_events(events) == 2);
    OK(dsh_session_closers(session, DSH_CAUSE_INTERRUPTED, &events, &err));
    CHECK(count_events(events) == 1);
    FAILS(DSH_E_INVALID_ARGUMENT, dsh_session_closers(session, 2, &events, &err));

    dsh_event event = DSH_EVENT_INIT;
    OK(dsh_session_event_at(session, 5, &event, &err));
    CHECK(event.seq == 5 && is_text(event.type, "acme/usage"));
    dsh_event_release(&event);
    CHECK(dsh_session_event_at(session, 7, &event, &err) == DSH_ABSENT && event.row.ptr == NULL);
    CHECK(dsh_session_current_batch_publication(session, &event, &err) == DSH_ABSENT);
    CHECK(dsh_session_is_own_seq(session, 6) && !dsh_session_is_own_seq(session, 7) && !dsh_session_is_own_seq(NULL, 0));

    /* What the session holds stays readable once it is closed. */
    OK(dsh_session_close(session, &err));
    CHECK(state(session) == DSH_WRITE_STATE_REMOVED && next_seq(session) == 7);
    has_nodes(session, 1, expected, 1, 1);
    FAILS(DSH_E_HANDLE_CLOSED, try_append(session, "turn/end", "{}", DSH_SURFACE_NONE));
    dsh_session_free(session);
    OK(dsh_messages_at(messages, 0, &message, &err));
    CHECK(is_text(message.text, USER("u3")));
    dsh_messages_free(messages);
}

/* A turn that nobody ended is closed by a resume, and goes on after a plain open. */
static void resumed(dsh_store *store)
{
    dsh_session *session = create(store, "{\"id\":\"resumed\"}");
    append(session, "turn/start", "{\"turn\":1}", DSH_SURFACE_NONE);
    append(session, "user/message", USER("u1"), DSH_SURFACE_APPEND);
    dsh_session_free(session);
    OK(dsh_session_open(store, DSH_STR("resumed"), NULL, &session, &err));
    CHECK(next_seq(session) == 2);
    FAILS(DSH_E_SESSION_ALREADY_OWNED, dsh_store_resume(store, DSH_STR("resumed"), NULL, &session, &err));
    dsh_session_free(session);
    session = NULL;
    OK(dsh_store_resume(store, DSH_STR("resumed"), NULL, &session, &err));
    dsh_event event = DSH_EVENT_INIT;
    OK(dsh_session_event_at(session, 2, &event, &err));
    CHECK(is_text(event.type, "turn/end") && is_text(event.data, "{\"turn\":1,\"reason\":{\"kind\":\"interrupted\"}}"));
    dsh_event_release(&event);
    OK(dsh_session_event_at(session, 3, &event, &err));
    CHECK(is_text(event.type, "session/end-seed") && next_seq(session) == 4);
    dsh_event_release(&event);
    uint64_t live = 0, lifecycle = 0;
    OK(dsh_session_first_live_seq(session, &live, &err));
    OK(dsh_session_first_lifecycle_seq(session, &lifecycle, &err));
    CHECK(live == 3 && lifecycle == 3);
    dsh_session_free(session);

    FAILS(DSH_E_SESSION_NOT_FOUND, dsh_store_resume(store, DSH_STR("nowhere"), NULL, &session, &err));
    dsh_cancel *cancel = NULL;
    OK(dsh_cancel_new(&cancel, &err));
    dsh_cancel_fire(cancel);
    FAILS(DSH_E_CANCELLED, dsh_store_resume(store, DSH_STR("resumed"), cancel, &session, &err));
    FAILS(DSH_E_CANCELLED, dsh_store_fork(store, DSH_STR("resumed"), 1, DSH_NONE, cancel, &session, &err));
    dsh_cancel_free(cancel);
}

/* A child begins with its parent's events, of a live source and of a stored one. */
static void forked(dsh_store *store)
{
    dsh_session *session = create(store, "{\"id\":\"parent\",\"cwd\":\"/repo\"}"), *child = NULL;
    append(session, "turn/start", "{\"turn\":1}", DSH_SURFACE_NONE);
    append(session, "user/message", USER("u1"), DSH_SURFACE_APPEND);
    FAILS(DSH_E_FORK_UNAVAILABLE, dsh_store_fork(store, DSH_STR("parent"), DSH_COMPLETED_PREFIX, DSH_NONE, NULL, &child, &err));
    FAILS(DSH_E_FORK_UNAVAILABLE, dsh_store_fork(store, DSH_STR("parent"), 2, DSH_NONE, NULL, &child, &err));
    append(session, "turn/end", "{\"turn\":1,\"reason\":{\"kind\":\"completed\"}}", DSH_SURFACE_NONE);
    append(session, "turn/start", "{\"turn\":2}", DSH_SURFACE_NONE);

    uint64_t count = 0, lifecycle = 0;
    OK(dsh_store_fork(store, DSH_STR("parent"), DSH_COMPLETED_PREFIX, DSH_STR("{\"id\":\"child\"}"), NULL, &child, &err));
    OK(dsh_session_inherited_event_count(child, &count, &err));
    OK(dsh_session_first_lifecycle_seq(child, &lifecycle, &err));
    CHECK(count == 3 && next_seq(child) == 4 && lifecycle == 3 && !dsh_session_is_own_seq(child, 2));
    HAS("\"cwd\":\"/repo\"", dsh_session_header(child, out, &err));
    dsh_session_free(child);
    dsh_session_free(session);

    OK(dsh_store_fork(store, DSH_STR("parent"), 3, DSH_NONE, NULL, &child, &err));
    OK(dsh_session_inherited_event_count(child, &count, &err));
    CHECK(count == 4 && next_seq(child) == 6);
    dsh_session_free(child);
    FAILS(DSH_E_SESSION_ALREADY_EXISTS, dsh_store_fork(store, DSH_STR("parent"), 3, DSH_STR("{\"id\":\"child\"}"), NULL, &child, &err));
}

static const char ROWS[] = "{\"type\":\"turn/start\",\"seq\":0,\"time\":5,\"data\":{\"turn\":1}}\n"
                           "{\"type\":\"user/message\",\"seq\":1,\"time\":6,\"data\":" USER("u1") ",\"surfaceOp\":\"append\"}\n";

/* Rows make a session, a fork's seed, a surface, and folds. */
static void seeded(dsh_store *store)
{
    dsh_session *session = NULL;
    OK(dsh_store_create_seeded(store, DSH_STR("{\"id\":\"replay\"}"), DSH_STR(ROWS), -1, &session, &err));
    CHECK(next_seq(session) == 3);
    dsh_session_free(session);

    dsh_buffer seed = DSH_BUFFER_INIT;
    uint64_t inherited = 0;
    OK(dsh_fork_seed(DSH_STR(ROWS), 1, &seed, &inherited, &err));
    CHECK(inherited == 2 && has_text(seed.data, "{\"inherited\":true}") && has_text(seed.data, "\"forked\""));
    OK(dsh_store_create_seeded(store, DSH_STR("{\"id\":\"by-hand\",\"isSeeded\":true}"), seed.data, seed.len, (int64_t)inherited, &session, &err));
    CHECK(next_seq(session) == 4);
    dsh_session_free(session);
    dsh_buffer_free(&seed);
    FAILS(DSH_E_INVALID_BOUNDARY, dsh_fork_seed(DSH_STR(ROWS), 2, &seed, &inherited, &err));
    session = NULL;
    CHECK(dsh_store_create_seeded(store, DSH_STR("{\"isSeeded\":true}"), DSH_STR(ROWS), -1, &session, &err) == DSH_E_SESSION_REFUSED);
    rule_is("INHERITED_COUNT_REQUIRED");
    CHECK(dsh_store_create_seeded(store, DSH_NONE, DSH_STR("{\"type\":\"turn/start\"}"), -1, &session, &err) == DSH_E_SESSION_REFUSED);
    CHECK(dsh_error_index(err) == 0);
    rule_is("EVENT_ENVELOPE_INVALID");
    FAILS(DSH_E_INVALID_ARGUMENT, dsh_store_create_seeded(store, DSH_NONE, DSH_NONE, -2, &session, &err));
    CHECK(session == NULL);

    HAS("{\"nodes\":[1],\"replacements\":[],\"replaceGeneration\":0,\"contentGeneration\":0,\"messages\":[{\"seq\":1,\"message\":{\"id\":\"u1\"",
        dsh_fold_surface(NULL, DSH_STR(ROWS), 0, out, &err));
    HAS("\"nodes\":[1]", dsh_fold_surface(store, DSH_STR(ROWS), 0, out, &err));
    CHECK(dsh_fold_surface(NULL, DSH_STR(ROWS), 1, &seed, &err) == DSH_E_EVENT_REFUSED);
    rule_is("SEQ_NOT_CONTIGUOUS");
    HAS("\"kind\":\"interrupted\"", dsh_closers(DSH_STR(ROWS), DSH_CAUSE_INTERRUPTED, out, &err));
    HAS("\"kind\":\"forked\"", dsh_closers(DSH_STR(ROWS), DSH_CAUSE_FORKED, out, &err));
    HAS("\"updates\":[]", dsh_fold(DSH_FOLD_TOOL_HISTORY, DSH_STR(ROWS), out, &err));
    CHECK(dsh_fold(DSH_FOLD_TITLE, DSH_STR(ROWS), &seed, &err) == DSH_ABSENT);
    CHECK(dsh_fold(DSH_FOLD_REQUEST_HEADER, DSH_NONE, &seed, &err) == DSH_ABSENT);
    CHECK(dsh_fold(DSH_FOLD_REQUEST_CONTEXT, DSH_NONE, &seed, &err) == DSH_ABSENT);
    FAILS(DSH_E_INVALID_ARGUMENT, dsh_fold(4, DSH_NONE, &seed, &err));
}

/* Every handle of a live session counts; the store knows which there are. */
static void found(dsh_store *store)
{
    dsh_session *session = create(store, "{\"id\":\"found \\\"1\\\"\"}"), *other = NULL;
    HAS("[\"found \\\"1\\\"\"]", dsh_store_live_ids(store, out, &err));
    OK(dsh_store_get(store, DSH_STR("found \"1\""), &other, &err));
    dsh_session_free(session);
    append(other, "turn/start", "{\"turn\":1}", DSH_SURFACE_NONE);
    dsh_session_free(other);
    HAS("[]", dsh_store_live_ids(store, out, &err));
    FAILS(DSH_E_SESSION_NOT_FOUND, dsh_store_get(store, DSH_STR("found \"1\""), &other, &err));
}

/* What the callbacks of this program share. */
struct heard {
    dsh_store *store;          /* lent */
    dsh_session *other;        /* a session that a listener appends to, or NULL */
    dsh_subscription *own;     /* what a listener cancels, or NULL */
    int calls, destroyed, fails;
    uint64_t last_seq, length_seen, publishing;
    char line[512];
    dsh_event kept;
};

static void destroy(void *user)
{
    ((struct heard *)user)->destroyed++;
}

static int32_t hear(dsh_session *session, const dsh_event *event, void *user, dsh_error **error)
{
    struct heard *heard = user;
    CHECK(*error == NULL && event->struct_size == sizeof *event);
    heard->calls++;
    heard->last_seq = event->seq;
    /* The session already holds the whole batch. */
    heard->length_seen = next_seq(session);
    dsh_event member = DSH_EVENT_INIT;
    dsh_status status = dsh_session_current_batch_publication(session, &member, &err);
    heard->publishing += status == DSH_OK && member.seq == event->seq;
    dsh_event_release(&member);
    dsh_event_release(&heard->kept);
    heard->kept = (dsh_event)DSH_EVENT_INIT;
    OK(dsh_event_retain(event, &heard->kept, &err));
    /* An append to the same session is refused, to another one it is not. */
    CHECK(try_append(session, "turn/start", "{\"turn\":9}", DSH_SURFACE_NONE) == DSH_E_EVENT_REFUSED);
    rule_is("APPEND_REENTRANT");
    if (heard->other != NULL) {
        dsh_session *other = heard->other;
        heard->other = NULL;
        append(other, "acme/usage", "{}", DSH_SURFACE_NONE);
    }
    if (heard->own != NULL) {
        OK(dsh_subscription_cancel(heard->own, &err));
        CHECK(heard->destroyed == 0); /* it is being called */
    }
    /* A lent session is not the listener's to free. */
    dsh_session_free(session);
    if (heard->fails) {
        OK(dsh_error_new(DSH_E_IO, DSH_STR("the listener's disk is full"), error, &err));
        return 1;
    }
    return 0;
}

static void note_line(int32_t level, dsh_str text, void *user)
{
    struct heard *heard = user;
    CHECK(level == DSH_LOG_ERROR || level == DSH_LOG_WARNING);
    snprintf(heard->line, sizeof heard->line, "%.*s", DSH_FMT(text));
}

static void events_are_heard(void)
{
    dsh_store *store = open_store(NULL);
    struct heard log = {0}, one = {0}, two = {0};
    one.kept = two.kept = (dsh_event)DSH_EVENT_INIT;
    dsh_subscription *first = NULL, *second = NULL;
    OK(dsh_store_set_log_callback(store, note_line, &log, destroy, &err));
    dsh_session *session = create(store, "{\"id\":\"a\"}");
    dsh_session *other = create(store, "{\"id\":\"b\"}");
    OK(dsh_store_on_event(store, hear, &one, destroy, &first, &err));
    OK(dsh_store_on_event(store, hear, &two, destroy, &second, &err));
    append(session, "turn/start", "{\"turn\":1}", DSH_SURFACE_NONE);
    CHECK(one.calls == 1 && two.calls == 1 && one.last_seq == 0 && one.length_seen == 1 && one.publishing == 0);

    /* A failing listener is logged, the others are called and the append succeeds. */
    one.fails = 1;
    uint64_t first_seq = 0, count = 0;
    OK(dsh_session_append_rows(session, DSH_STR("{\"type\":\"acme/usage\",\"data\":{}}\n{\"type\":\"acme/usage\",\"data\":{}}"), &first_seq, &count, &err));
    CHECK(first_seq == 1 && count == 2 && one.calls == 3 && two.calls == 3 && two.length_seen == 3 && two.publishing == 2);
    CHECK(has_text(log.line, "the listener's disk is full"));
    one.fails = 0;

    /* An append to another session from a listener is published as well. */
    one.other = other;
    append(session, "acme/usage", "{}", DSH_SURFACE_NONE);
    CHECK(one.calls == 5 && two.calls == 5 && next_seq(other) == 1);

    /* A listener that takes itself away hears no more. */
    one.own = first;
    append(session, "acme/usage", "{}", DSH_SURFACE_NONE);
    CHECK(one.calls == 6 && one.destroyed == 1);
    append(session, "acme/usage", "{}", DSH_SURFACE_NONE);
    CHECK(one.calls == 6 && two.calls == 7 && two.last_seq == 5);
    OK(dsh_subscription_cancel(first, &err));
    dsh_subscription_free(first);
    CHECK(one.destroyed == 1);
    CHECK(is_text(one.kept.type, "acme/usage") && one.kept.seq == 4);

    /* A subscription nobody wanted ends with the store, and one that outlives it is harmless. */
    struct heard three = {0};
    three.kept = (dsh_event)DSH_EVENT_INIT;
    OK(dsh_store_on_event(store, hear, &three, destroy, NULL, &err));
    dsh_session_free(session);
    dsh_session_free(other);
    dsh_store_free(store);
    CHECK(two.destroyed == 0);
    dsh_subscription_free(second);
    CHECK(two.destroyed == 1 && three.destroyed == 1 && log.destroyed == 1);
    dsh_event_release(&one.kept);
    dsh_event_release(&two.kept);
}

static int32_t judge(dsh_session *session, const dsh_event *event, void *user, dsh_error **error)
{
    struct heard *heard = user;
    heard->calls++;
    CHECK(next_seq(session) == heard->length_seen); /* nothing is committed yet */
    if (!is_text(event->type, "acme/usage")) {
        return 0;
    }
    if (heard->fails == 1) {
        OK(dsh_error_new(DSH_E_LIMIT_EXCEEDED, DSH_STR("the budget is spent"), error, &err));
    }
    return heard->fails == 2 ? DSH_E_CANCELLED : 1;
}

static void events_are_judged(void)
{
    dsh_store *store = open_store(NULL);
    struct heard heard = {0};
    dsh_subscription *subscription = NULL;
    dsh_session *session = create(store, "{\"id\":\"judged\"}");
    OK(dsh_store_add_validator(store, judge, &heard, destroy, &subscription, &err));
    append(session, "turn/start", "{\"turn\":1}", DSH_SURFACE_NONE);
    heard.length_seen = 1;
    /* With an error object, with a code, with neither. */
    const dsh_status codes[] = {DSH_E_LIMIT_EXCEEDED, DSH_E_CANCELLED, DSH_E_EVENT_REFUSED};
    for (int i = 0; i < 3; i++) {
        heard.fails = i + 1;
        CHECK(try_append(session, "acme/usage", "{}", DSH_SURFACE_NONE) == DSH_E_EVENT_REFUSED);
        CHECK(dsh_error_cause_count(err) == 1 && dsh_error_code(dsh_error_cause(err, 0)) == codes[i]);
        rule_is("DISPATCH_REJECTED");
    }
    static const char rows[] = "{\"type\":\"turn/end\",\"data\":{\"turn\":1,\"reason\":{\"kind\":\"completed\"}}}\n{\"type\":\"acme/usage\",\"data\":{}}";
    CHECK(dsh_session_append_rows(session, DSH_STR(rows), NULL, NULL, &err) == DSH_E_EVENT_REFUSED);
    CHECK(dsh_error_index(err) == 1);
    rule_is("DISPATCH_REJECTED");
    CHECK(next_seq(session) == 1);
    dsh_subscription_free(subscription);
    CHECK(heard.destroyed == 1);
    append(session, "acme/usage", "{}", DSH_SURFACE_NONE);
    dsh_session_free(session);
    dsh_store_free(store);
}

static int32_t hear_session(dsh_session *session, void *user, dsh_error **error)
{
    struct heard *heard = user;
    heard->calls++;
    heard->last_seq = (uint64_t)state(session);
    heard->length_seen = next_seq(session);
    if (heard->fails == 1) {
        OK(dsh_error_new(DSH_E_INVALID_ARGUMENT, DSH_STR("no sessions today"), error, &err));
    }
    return heard->fails;
}

static int32_t close_at_once(dsh_session *session, void *user, dsh_error **error)
{
    (void)user;
    (void)error;
    OK(dsh_session_close(session, &err));
    return 0;
}

/* A creation listener that closes what it hears of leaves a closed session, which is in nobody's way. */
static void sessions_are_closed_at_once(const char *root)
{
    dsh_store *store = open_store(root);
    dsh_subscription *subscription = NULL;
    OK(dsh_store_on_created(store, close_at_once, NULL, NULL, &subscription, &err));
    dsh_session *session = create(store, "{\"id\":\"at-once\"}");
    FAILS(DSH_E_HANDLE_CLOSED, try_append(session, "turn/start", "{\"turn\":1}", DSH_SURFACE_NONE));
    HAS("[]", dsh_store_live_ids(store, out, &err));
    dsh_session_free(session);
    dsh_subscription_free(subscription);
    session = create(store, "{\"id\":\"at-once\"}");
    append(session, "turn/start", "{\"turn\":1}", DSH_SURFACE_NONE);
    dsh_session_free(session);
    dsh_store_free(store);
}

static void sessions_are_heard(const char *root)
{
    dsh_store *store = open_store(root);
    struct heard made = {0}, gone = {0}, flushed = {0};
    dsh_subscription *subscriptions[3] = {NULL, NULL, NULL};
    OK(dsh_store_on_created(store, hear_session, &made, destroy, &subscriptions[0], &err));
    OK(dsh_store_on_disposed(store, hear_session, &gone, destroy, &subscriptions[1], &err));
    OK(dsh_store_on_flush(store, hear_session, &flushed, destroy, &subscriptions[2], &err));
    dsh_session *session = create(store, "{\"id\":\"heard\"}");
    CHECK(made.calls == 1 && made.last_seq == DSH_WRITE_STATE_ANNOUNCING && made.length_seen == 0);
    append(session, "turn/start", "{\"turn\":1}", DSH_SURFACE_NONE);
    OK(dsh_session_flush(session, NULL, &err));
    CHECK(flushed.calls == 1 && flushed.length_seen == 1);
    flushed.fails = 1;
    CHECK(dsh_session_flush(session, NULL, &err) == DSH_E_FLUSH_FAILED);
    CHECK(dsh_error_code(dsh_error_cause(err, 0)) == DSH_E_INVALID_ARGUMENT);
    dsh_error_free(err);
    err = NULL;
    CHECK(gone.calls == 0);
    dsh_session_free(session);
    CHECK(gone.calls == 1 && gone.last_seq == DSH_WRITE_STATE_REMOVED && gone.length_seen == 1);

    /* A veto is what the making call fails with; the session can be opened later. */
    session = NULL;
    made.fails = 1;
    CHECK(dsh_store_resume(store, DSH_STR("heard"), NULL, &session, &err) == DSH_E_INVALID_ARGUMENT);
    CHECK(has_text(dsh_error_message(err).ptr, "no sessions today") && session == NULL && made.calls == 2 && gone.calls == 2);
    dsh_error_free(err);
    err = NULL;
    made.fails = 7;
    FAILS(DSH_E_SESSION_REFUSED, dsh_session_create(store, DSH_NONE, &session, &err));
    made.fails = 0;
    OK(dsh_store_resume(store, DSH_STR("heard"), NULL, &session, &err));
    dsh_session_free(session);
    for (int i = 0; i < 3; i++) {
        dsh_subscription_free(subscriptions[i]);
    }
    CHECK(made.destroyed == 1 && gone.destroyed == 1 && flushed.destroyed == 1);
    dsh_store_free(store);
}

static void *use_elsewhere(void *context)
{
    uint64_t seq = 0;
    dsh_error *mine = NULL;
    CHECK(dsh_projection_base_seq(context, &seq, &mine) == DSH_E_INVALID_ARGUMENT);
    dsh_error_free(mine);
    return NULL;
}

/* Blanks the message that the event names; looks at everything that a context has. */
static int32_t redact(const dsh_event *event, const dsh_projection *context, void *user, dsh_buffer *messages, dsh_error **error)
{
    struct heard *heard = user;
    heard->calls++;
    if (heard->fails == 1) {
        OK(dsh_error_new(DSH_E_INVALID_ARGUMENT, DSH_STR("nothing to blank"), error, &err));
        return 1;
    }
    if (heard->fails == 2) {
        OK(dsh_buffer_new(DSH_STR("{\"seq\":1}"), messages, &err));
        return 0;
    }
    dsh_seqs nodes = DSH_SEQS_INIT;
    uint64_t base = 9;
    OK(dsh_projection_nodes(context, &nodes, &err));
    CHECK(nodes.len == 1 && nodes.data[0] == 0 && dsh_projection_is_on_surface(context, 0) && !dsh_projection_is_on_surface(context, 1));
    dsh_seqs_free(&nodes);
    OK(dsh_projection_base_seq(context, &base, &err));
    CHECK(base == 0 && event->seq >= 1);
    dsh_event earlier = DSH_EVENT_INIT;
    OK(dsh_projection_event(context, 0, &earlier, &err));
    CHECK(is_text(earlier.type, "user/message"));
    dsh_event_release(&earlier);
    CHECK(dsh_projection_event(context, event->seq, &earlier, &err) == DSH_ABSENT);
    dsh_buffer text = DSH_BUFFER_INIT;
    OK(dsh_projection_message(context, 0, &text, &err));
    CHECK(has_text(text.data, "\"id\":\"u1\""));
    dsh_buffer_free(&text);
    CHECK(dsh_projection_message(context, 5, &text, &err) == DSH_ABSENT);
    dsh_messages *projected = NULL;
    OK(dsh_projection_projected(context, &projected, &err));
    CHECK(dsh_messages_count(projected) == (heard->calls > 1));
    dsh_messages_free(projected);
    pthread_t thread;
    CHECK(pthread_create(&thread, NULL, use_elsewhere, (void *)context) == 0 && pthread_join(thread, NULL) == 0);
    OK(dsh_buffer_new(DSH_STR("[{\"seq\":0,\"message\":{\"id\":\"u1\",\"role\":\"user\",\"source\":{\"kind\":\"user\"},\"content\":[]}}]"), messages, &err));
    return 0;
}

static void messages_are_projected(const char *root)
{
    dsh_store *store = open_store(root);
    struct heard heard = {0}, second = {0};
    dsh_subscription *subscription = NULL, *none = NULL;
    dsh_session *session = create(store, "{\"id\":\"projected\"}");
    append(session, "user/message", USER("u1"), DSH_SURFACE_APPEND);
    CHECK(try_append(session, "acme/redact", "{}", DSH_SURFACE_NONE) == DSH_E_EVENT_REFUSED);
    rule_is("PROJECTION_MISSING");
    OK(dsh_store_register_projection(store, DSH_STR("acme/redact"), redact, &heard, destroy, &subscription, &err));
    CHECK(dsh_store_register_projection(store, DSH_STR("acme/redact"), redact, &second, destroy, &none, &err) == DSH_E_SESSION_REFUSED);
    rule_is("PROJECTION_ALREADY_REGISTERED");
    FAILS(DSH_E_INVALID_ARGUMENT, dsh_store_register_projection(store, DSH_STR("user/message"), redact, &second, destroy, &none, &err));
    CHECK(second.destroyed == 0 && none == NULL); /* a failed registration leaves `user` with the caller */

    append(session, "acme/redact", "{}", DSH_SURFACE_NONE);
    uint64_t expected[] = {0};
    has_nodes(session, 1, expected, 0, 1);
    HAS("\"content\":[]", dsh_session_message_of(session, 0, out, &err));
    append(session, "acme/redact", "{}", DSH_SURFACE_NONE);
    CHECK(heard.calls == 2);
    heard.fails = 1;
    CHECK(try_append(session, "acme/redact", "{}", DSH_SURFACE_NONE) == DSH_E_EVENT_REFUSED);
    CHECK(dsh_error_code(dsh_error_cause(err, 0)) == DSH_E_INVALID_ARGUMENT);
    rule_is("PROJECTION_REJECTED");
    heard.fails = 2;
    CHECK(try_append(session, "acme/redact", "{}", DSH_SURFACE_NONE) == DSH_E_EVENT_REFUSED);
    rule_is("PROJECTION_REJECTED");
    heard.fails = 0;

    /* The store's projections count in a fold over rows. */
    static const char rows[] = "{\"type\":\"user/message\",\"seq\":0,\"time\":6,\"data\":" USER("u1") ",\"surfaceOp\":\"append\"}\n"
                               "{\"type\":\"acme/redact\",\"seq\":1,\"time\":6,\"data\":{}}\n";
    heard.calls = 0;
    HAS("\"projectedMessages\":[{\"seq\":0,", dsh_fold_surface(store, DSH_STR(rows), 0, out, &err));

    OK(dsh_subscription_cancel(subscription, &err));
    CHECK(heard.destroyed == 1);
    dsh_subscription_free(subscription);
    dsh_seqs nodes = DSH_SEQS_INIT;
    CHECK(dsh_session_surface(session, &nodes, NULL, NULL, &err) == DSH_E_EVENT_REFUSED && nodes.data == NULL);
    rule_is("PROJECTION_REMOVED");
    dsh_session_free(session);

    /* A restored session asks the projection that is registered by then. */
    heard = (struct heard){0};
    CHECK(dsh_store_resume(store, DSH_STR("projected"), NULL, &session, &err) == DSH_E_SESSION_REFUSED);
    rule_is("PROJECTION_MISSING");
    OK(dsh_store_register_projection(store, DSH_STR("acme/redact"), redact, &heard, destroy, NULL, &err));
    OK(dsh_store_resume(store, DSH_STR("projected"), NULL, &session, &err));
    CHECK(heard.calls == 2);
    HAS("\"content\":[]", dsh_session_message_of(session, 0, out, &err));
    dsh_store_free(store);
    CHECK(heard.destroyed == 0);
    dsh_session_free(session);
    CHECK(heard.destroyed == 1);
}

/* A store that does not judge by the rules of stored logs takes what the others refuse; bad settings are refused. */
static void rules_can_be_left_unchecked(void)
{
    dsh_store *store = open_store(NULL);
    dsh_session *session = create(store, "{}");
    CHECK(try_append(session, "turn/end", "{\"turn\":1,\"reason\":{\"kind\":\"completed\"}}", DSH_SURFACE_NONE) == DSH_E_EVENT_REFUSED);
    CHECK(dsh_error_rule(err).ptr[0] == 'A');
    dsh_error_free(err);
    err = NULL;
    dsh_session_free(session);
    dsh_store_free(store);

    dsh_store_settings settings = DSH_STORE_SETTINGS_INIT;
    settings.flags = DSH_STORE_UNCHECKED_RULES;
    OK(dsh_store_open(DSH_NONE, &settings, &store, &err));
    session = create(store, "{}");
    append(session, "turn/end", "{\"turn\":1,\"reason\":{\"kind\":\"completed\"}}", DSH_SURFACE_NONE);
    dsh_session_free(session);
    dsh_store_free(store);

    const char *const bad[] = {"7", "{}", "[7]", "[", "[{\"changesMessages\":true}]", "[{\"type\":\"a\",\"changesMessages\":1}]"};
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        settings.event_types = bad[i];
        settings.event_types_len = strlen(bad[i]);
        FAILS(DSH_E_INVALID_ARGUMENT, dsh_store_open(DSH_NONE, &settings, &store, &err));
    }
    /* A program built before the event types were added has a smaller struct. */
    settings.struct_size = offsetof(dsh_store_settings, event_types);
    OK(dsh_store_open(DSH_NONE, &settings, &store, &err));
    dsh_store_free(store);
}

/* Lines of the log callback, which a thread of the library may call. */
struct told {
    pthread_mutex_t lock;
    pthread_cond_t changed;
    int failed_writes, losses, destroyed;
};

static void tell(int32_t level, dsh_str text, void *user)
{
    struct told *told = user;
    char line[512];
    CHECK(level == DSH_LOG_ERROR);
    snprintf(line, sizeof line, "%.*s", DSH_FMT(text));
    pthread_mutex_lock(&told->lock);
    told->failed_writes += has_text(line, "session lost could not be written");
    told->losses += has_text(line, "session lost was dropped without a close");
    pthread_cond_broadcast(&told->changed);
    pthread_mutex_unlock(&told->lock);
}

static void told_destroyed(void *user)
{
    ((struct told *)user)->destroyed++;
}

/* A write that fails in the background, and what is lost by a free without a close, are told to the log callback. */
static void losses_are_logged(const char *folder)
{
    char root[2048], line[4096];
    snprintf(root, sizeof root, "%s/lost", folder);
    dsh_store *store = open_store(root);
    struct told told = {PTHREAD_MUTEX_INITIALIZER, PTHREAD_COND_INITIALIZER, 0, 0, 0};
    OK(dsh_store_set_log_callback(store, tell, &told, told_destroyed, &err));
    dsh_session *session = create(store, "{\"id\":\"lost\"}");
    append(session, "turn/start", "{\"turn\":1}", DSH_SURFACE_NONE);
    OK(dsh_session_flush(session, NULL, &err));
    snprintf(line, sizeof line, "f=$(find '%s' -name 'session.v4.jsonl*' | head -n 1) && printf more >> \"$f\"", root);
    CHECK(system(line) == 0);
    append(session, "acme/usage", "{}", DSH_SURFACE_NONE);
    pthread_mutex_lock(&told.lock);
    while (told.failed_writes == 0) {
        pthread_cond_wait(&told.changed, &told.lock);
    }
    CHECK(told.losses == 0);
    pthread_mutex_unlock(&told.lock);
    /* The event was accepted all the same, and waits. */
    dsh_pending pending = DSH_PENDING_INIT;
    OK(dsh_session_pending(session, &pending, &err));
    CHECK(pending.events == 1 && dsh_error_code(pending.error) == DSH_E_SESSION_OWNERSHIP_LOST);
    dsh_error_free(pending.error);
    dsh_session_free(session);
    CHECK(told.losses == 1);
    dsh_store_free(store);
    CHECK(told.destroyed == 1);
}

static void errors_are_made(void)
{
    dsh_error *made = NULL;
    OK(dsh_error_new(DSH_E_IO, DSH_STR("made here"), &made, &err));
    CHECK(dsh_error_code(made) == DSH_E_IO && is_text(dsh_error_summary(made), "made here"));
    dsh_error_free(made);
    FAILS(DSH_E_INVALID_ARGUMENT, dsh_error_new(DSH_OK, DSH_STR("fine"), &made, &err));
    FAILS(DSH_E_INVALID_ARGUMENT, dsh_error_new(-9999, DSH_STR("what"), &made, &err));
    FAILS(DSH_E_INVALID_ARGUMENT, dsh_error_new(DSH_E_IO, DSH_NONE, &made, &err));
}

/* What an upload predicate of the tests does, and how often it was asked and given back. */
struct predicate {
    int32_t answer;
    dsh_upload_exclusions *registry;
    int calls, ends;
};

static int32_t judge_upload(const dsh_upload *upload, void *user, dsh_error **error)
{
    struct predicate *predicate = user;
    predicate->calls += 1;
    CHECK(upload->struct_size == sizeof(dsh_upload) && is_text(upload->session_id, "s"));
    if (predicate->registry != NULL) {
        /* The registry that asks may be used. */
        static struct predicate inner = {DSH_UPLOAD_EXCLUDED, NULL, 0, 0};
        OK(dsh_upload_exclusions_register(predicate->registry, judge_upload, &inner, NULL, NULL, &err));
        predicate->registry = NULL;
    }
    if (predicate->answer == DSH_UPLOAD_EXCLUDED) {
        return is_text(upload->purpose, "title") ? DSH_UPLOAD_EXCLUDED : DSH_UPLOAD_UNMATCHED;
    }
    if (predicate->answer == DSH_UPLOAD_FAILED) {
        CHECK(dsh_error_new(DSH_E_IO, DSH_STR("no list"), error, NULL) == DSH_OK);
    }
    return predicate->answer;
}

static void end_predicate(void *user)
{
    ((struct predicate *)user)->ends += 1;
}

static dsh_subscription *add_predicate(dsh_upload_exclusions *exclusions, struct predicate *predicate)
{
    dsh_subscription *subscription = NULL;
    OK(dsh_upload_exclusions_register(exclusions, judge_upload, predicate, end_predicate, &subscription, &err));
    return subscription;
}

static int32_t verdict_on(const dsh_upload_exclusions *exclusions, const char *purpose)
{
    int32_t verdict = -1;
    dsh_error *failure = (dsh_error *)&verdict;
    OK(dsh_upload_exclusions_judge(exclusions, DSH_STR("s"), purpose, purpose == NULL ? 0 : strlen(purpose), &verdict, &failure, &err));
    CHECK((failure != NULL) == (verdict == DSH_UPLOAD_FAILED));
    dsh_error_free(failure);
    return verdict;
}

static void uploads_are_excluded(void)
{
    dsh_upload_exclusions *exclusions = NULL;
    struct predicate one = {DSH_UPLOAD_EXCLUDED, NULL, 0, 0}, never = {DSH_UPLOAD_UNMATCHED, NULL, 0, 0};
    OK(dsh_upload_exclusions_new(&exclusions, &err));
    CHECK(verdict_on(exclusions, "title") == DSH_UPLOAD_UNMATCHED);
    dsh_subscription *first = add_predicate(exclusions, &one), *second = add_predicate(exclusions, &one);
    OK(dsh_upload_exclusions_register(exclusions, judge_upload, &never, end_predicate, NULL, &err));
    CHECK(verdict_on(exclusions, "title") == DSH_UPLOAD_EXCLUDED && one.calls == 1 && never.calls == 0);
    CHECK(verdict_on(exclusions, NULL) == DSH_UPLOAD_UNMATCHED && one.calls == 3 && never.calls == 1);
    /* One registration goes, the other one of the same predicate stays. */
    OK(dsh_subscription_cancel(first, &err));
    OK(dsh_subscription_cancel(first, &err));
    CHECK(one.ends == 1 && verdict_on(exclusions, "title") == DSH_UPLOAD_EXCLUDED);
    dsh_subscription_free(second);
    CHECK(one.ends == 2 && verdict_on(exclusions, "title") == DSH_UPLOAD_UNMATCHED);

    int32_t verdict = -1;
    FAILS(DSH_E_INVALID_ARGUMENT, dsh_upload_exclusions_register(exclusions, NULL, NULL, NULL, NULL, &err));
    FAILS(DSH_E_INVALID_ARGUMENT, dsh_upload_exclusions_judge(exclusions, DSH_NONE, DSH_NONE, &verdict, NULL, &err));
    FAILS(DSH_E_INVALID_ARGUMENT, dsh_upload_exclusions_judge(exclusions, DSH_STR("s"), DSH_NONE, NULL, NULL, &err));
    CHECK(verdict == -1);
    dsh_subscription_free(first);
    CHECK(never.ends == 0);
    dsh_upload_exclusions_free(exclusions);
    CHECK(never.ends == 1 && one.ends == 2);
    dsh_upload_exclusions_free(NULL);
}

static void failing_predicates_fail_one_upload(void)
{
    dsh_upload_exclusions *exclusions = NULL;
    OK(dsh_upload_exclusions_new(&exclusions, &err));
    struct {
        int32_t answer;
        dsh_status code;
    } failures[] = {{DSH_UPLOAD_FAILED, DSH_E_IO}, {DSH_E_LIMIT_EXCEEDED, DSH_E_LIMIT_EXCEEDED}, {77, DSH_E_SESSION_REFUSED}};
    for (size_t index = 0; index < sizeof failures / sizeof *failures; ++index) {
        struct predicate failing = {failures[index].answer, NULL, 0, 0};
        dsh_subscription *subscription = add_predicate(exclusions, &failing);
        int32_t verdict = -1;
        dsh_error *failure = NULL;
        OK(dsh_upload_exclusions_judge(exclusions, DSH_STR("s"), DSH_NONE, &verdict, &failure, &err));
        CHECK(verdict == DSH_UPLOAD_FAILED && dsh_error_code(failure) == failures[index].code);
        dsh_error_free(failure);
        /* Who does not want to know why is not given it. */
        OK(dsh_upload_exclusions_judge(exclusions, DSH_STR("s"), DSH_NONE, &verdict, NULL, &err));
        CHECK(verdict == DSH_UPLOAD_FAILED && failing.calls == 2);
        dsh_subscription_free(subscription);
        CHECK(verdict_on(exclusions, NULL) == DSH_UPLOAD_UNMATCHED);
    }
    struct predicate adding = {DSH_UPLOAD_UNMATCHED, exclusions, 0, 0};
    dsh_subscription *subscription = add_predicate(exclusions, &adding);
    CHECK(verdict_on(exclusions, "title") == DSH_UPLOAD_UNMATCHED && verdict_on(exclusions, "title") == DSH_UPLOAD_EXCLUDED);
    dsh_subscription_free(subscription);
    dsh_upload_exclusions_free(exclusions);
}

static dsh_next_upload next_of(dsh_session *session, int64_t watermark, uint64_t bytes_max)
{
    dsh_events *events = NULL;
    dsh_next_upload next = DSH_NEXT_UPLOAD_INIT;
    OK(dsh_session_events(session, 0, DSH_ALL, &events, &err));
    OK(dsh_events_next_upload(events, watermark, bytes_max, &next, &err));
    dsh_events_free(events);
    return next;
}

static void uploads_take_what_fits(void)
{
    dsh_store *store = open_store(NULL);
    dsh_session *session = create(store, "{\"id\":\"s\"}");
    for (int turn = 0; turn < 4; ++turn) {
        append(session, "acme/usage", "{\"turn\":1}", DSH_SURFACE_NONE);
    }
    dsh_next_upload next = next_of(session, -1, 0);
    const uint64_t row = next.bytes / 4;
    CHECK(next.kind == DSH_NEXT_UPLOAD_EVENTS && next.first_seq == 0 && next.last_seq == 3 && next.bytes == row * 4);
    next = next_of(session, -1, row * 2);
    CHECK(next.kind == DSH_NEXT_UPLOAD_EVENTS && next.first_seq == 0 && next.last_seq == 1 && next.bytes == row * 2);
    next = next_of(session, 0, row * 2 - 1);
    CHECK(next.kind == DSH_NEXT_UPLOAD_EVENTS && next.first_seq == 1 && next.last_seq == 1);
    next = next_of(session, 1, row - 1);
    CHECK(next.kind == DSH_NEXT_UPLOAD_TOO_LARGE && next.first_seq == 2 && next.last_seq == 2 && next.bytes == row);
    next = next_of(session, 3, row);
    CHECK(next.kind == DSH_NEXT_UPLOAD_NOTHING && next.bytes == 0);

    dsh_events *events = NULL;
    dsh_delivery_fold *fold = NULL;
    dsh_event event = DSH_EVENT_INIT;
    OK(dsh_session_events(session, 0, DSH_ALL, &events, &err));
    FAILS(DSH_E_INVALID_ARGUMENT, dsh_events_next_upload(events, -2, 0, &next, &err));
    FAILS(DSH_E_INVALID_ARGUMENT, dsh_events_next_upload(events, -1, 0, NULL, &err));
    dsh_events_free(events);
    append(session, "session-log-deepseek/delivery-accepted", "{\"sessionId\":\"s\",\"sessionFormatVersion\":4,\"throughSeq\":2}",
           DSH_SURFACE_NONE);
    append(session, "session-log-deepseek/delivery-accepted", "{\"sessionId\":\"s\",\"sessionFormatVersion\":4,\"throughSeq\":1}",
           DSH_SURFACE_NONE);
    append(session, "session-log-deepseek/delivery-accepted", "{\"sessionId\":\"s\",\"throughSeq\":4}", DSH_SURFACE_NONE);
    OK(dsh_delivery_fold_new(DSH_STR("s"), &fold, &err));
    CHECK(dsh_delivery_fold_watermark(fold) == -1 && dsh_delivery_fold_watermark(NULL) == -1);
    OK(dsh_session_events(session, 0, DSH_ALL, &events, &err));
    while (dsh_events_next(events, &event, &err) == DSH_OK) {
        OK(dsh_delivery_fold_see(fold, &event, &err));
        CHECK(dsh_delivery_fold_watermark(fold) == (event.seq < 4 ? -1 : 2));
    }
    dsh_events_free(events);
    FAILS(DSH_E_INVALID_ARGUMENT, dsh_delivery_fold_see(fold, NULL, &err));
    dsh_delivery_fold_free(fold);
    FAILS(DSH_E_INVALID_ARGUMENT, dsh_delivery_fold_new(DSH_NONE, &fold, &err));
    OK(dsh_session_close(session, &err));
    dsh_session_free(session);
    dsh_store_free(store);
}

int main(int count, char **arguments)
{
    CHECK(count == 2 && dsh_check_abi() && dsh_has_feature(DSH_STR("listeners")));
    char root[2048];
    snprintf(root, sizeof root, "%s/sessions", arguments[1]);
    dsh_store *store = open_store(root);
    folded(store);
    resumed(store);
    forked(store);
    seeded(store);
    found(store);
    OK(dsh_store_close(store, &err));
    dsh_session *session = NULL;
    FAILS(DSH_E_HANDLE_CLOSED, dsh_store_get(store, DSH_STR("folded"), &session, &err));
    FAILS(DSH_E_HANDLE_CLOSED, dsh_store_on_event(store, hear, NULL, NULL, NULL, &err));
    dsh_store_free(store);
    events_are_heard();
    events_are_judged();
    sessions_are_heard(root);
    sessions_are_closed_at_once(root);
    messages_are_projected(root);
    rules_can_be_left_unchecked();
    losses_are_logged(arguments[1]);
    errors_are_made();
    uploads_are_excluded();
    failing_predicates_fail_one_upload();
    uploads_take_what_fits();
    printf("sessions: ok\n");
    return 0;
}
