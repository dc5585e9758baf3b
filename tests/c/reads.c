/*
 * The exact reads, of a live session and of the same one stored. The first argument is an empty folder.
 */
#include "check.h"

static dsh_error *err = NULL;

static void append(dsh_session *session, const char *type, const char *data)
{
    OK(dsh_session_append(session, type, strlen(type), data, strlen(data), NULL, NULL, &err));
}

/* Reads a walk to its end and frees it: how many lines, and whether each holds a text. */
static int lines_with(dsh_lines *lines, const char *text)
{
    dsh_str line;
    dsh_status status;
    int count = 0;
    while ((status = dsh_lines_next(lines, &line, &err)) == DSH_OK) {
        CHECK(has_text(line.ptr, text));
        count++;
    }
    CHECK(status == DSH_DONE);
    dsh_lines_free(lines);
    return count;
}

static int events_of(dsh_events *events)
{
    dsh_event event = DSH_EVENT_INIT;
    dsh_status status;
    int count = 0;
    while ((status = dsh_events_next(events, &event, &err)) == DSH_OK)
        count++;
    CHECK(status == DSH_DONE);
    dsh_events_free(events);
    return count;
}

/* A buffer holds a text; it is freed. */
static void holds(dsh_buffer *buffer, const char *text)
{
    CHECK(has_text(buffer->data, text));
    dsh_buffer_free(buffer);
}

static void reads(const dsh_store *store, int is_live)
{
    dsh_lines *lines = NULL;
    dsh_events *events = NULL;
    dsh_buffer text = DSH_BUFFER_INIT;

    OK(dsh_query_list_sessions(store, NULL, &lines, &err));
    CHECK(lines_with(lines, is_live ? "\"live\":true" : "\"live\":false") == 1);
    OK(dsh_query_filter_sessions(store, DSH_STR("[{\"kind\":\"cwd\",\"values\":[null]}]"), NULL, &lines, &err));
    CHECK(lines_with(lines, "") == 0);
    OK(dsh_query_filter_sessions(store, DSH_NONE, NULL, &lines, &err));
    CHECK(lines_with(lines, "\"cwd\":\"/repo\"") == 1);
    OK(dsh_query_trace_session(store, DSH_STR("s"), NULL, &text, &err));
    holds(&text, "\"descendants\":[],\"complete\":true,\"root\":{");

    /* The turn of the stored session was interrupted: its end is added in memory. */
    OK(dsh_query_read_session(store, DSH_STR("s"), NULL, &text, &events, &err));
    holds(&text, "\"inheritedEventCount\":0}");
    CHECK(events_of(events) == (is_live ? 2 : 3));
    OK(dsh_query_read_session(store, DSH_STR("s"), NULL, NULL, &events, &err));
    dsh_events_free(events);
    OK(dsh_query_list_events(store, DSH_STR("s"), NULL, &lines, &err));
    CHECK(lines_with(lines, "\"surface\":\"log-only\"") == (is_live ? 2 : 3));
    OK(dsh_query_filter_events(store, DSH_STR("s"), DSH_STR("[{\"kind\":\"text\",\"text\":\"INTERRUPTED\"}]"), NULL, &lines,
                               &err));
    CHECK(lines_with(lines, "\"text\":\"interrupted\"") == (is_live ? 0 : 1));
    OK(dsh_query_transcript(store, DSH_STR("s"), NULL, &lines, &err));
    CHECK(lines_with(lines, "\"kind\":\"status\"") == (is_live ? 0 : 1));
    OK(dsh_query_read_surface(store, DSH_STR("s"), NULL, &text, &events, &err));
    holds(&text, is_live ? "\"capturedThroughSeq\":1" : "\"capturedThroughSeq\":2");
    CHECK(events_of(events) == 0);
    OK(dsh_query_read_event(store, DSH_STR("s"), DSH_STR("{\"seq\":1,\"before\":9}"), NULL, &text, &err));
    holds(&text, "\"startSeq\":0,\"endSeq\":1}");
    OK(dsh_query_trace_event(store, DSH_STR("s"), 1, NULL, &text, &err));
    holds(&text, "\"derivedEventSeqs\":[]}");
    OK(dsh_query_read_title(store, DSH_STR("s"), NULL, &text, &err));
    holds(&text, "\"title\":\"Ledger\"");
    OK(dsh_query_read_titles(store, DSH_STR("[\"s\",\"s\"]"), NULL, &lines, &err));
    CHECK(lines_with(lines, "\"status\":\"fulfilled\"") == 1);
    OK(dsh_query_read_titles(store, DSH_STR("[\"nobody\"]"), NULL, &lines, &err));
    CHECK(lines_with(lines, "\"code\":\"SESSION_QUERY_SESSION_NOT_FOUND\"") == 1);
}

static void refusals(const dsh_store *store)
{
    dsh_lines *lines = NULL;
    dsh_events *events = NULL;
    dsh_buffer text = DSH_BUFFER_INIT;
    FAILS(DSH_E_SESSION_QUERY_INVALID_FILTER, dsh_query_filter_sessions(store, DSH_STR("{}"), NULL, &lines, &err));
    FAILS(DSH_E_SESSION_QUERY_INVALID_FILTER,
          dsh_query_filter_events(store, DSH_STR("s"), DSH_STR("[{\"kind\":\"cwd\",\"values\":[]}]"), NULL, &lines, &err));
    FAILS(DSH_E_SESSION_QUERY_INVALID_WINDOW,
          dsh_query_read_event(store, DSH_STR("nobody"), DSH_STR("{\"seq\":1,\"before\":51}"), NULL, &text, &err));
    FAILS(DSH_E_SESSION_QUERY_EVENT_NOT_FOUND,
          dsh_query_read_event(store, DSH_STR("s"), DSH_STR("{\"seq\":99}"), NULL, &text, &err));
    FAILS(DSH_E_SESSION_QUERY_EVENT_NOT_FOUND, dsh_query_trace_event(store, DSH_STR("s"), 99, NULL, &text, &err));
    FAILS(DSH_E_SESSION_QUERY_SESSION_NOT_FOUND,
          dsh_query_read_session(store, DSH_STR("nobody"), NULL, &text, &events, &err));
    FAILS(DSH_E_INVALID_ARGUMENT, dsh_query_read_titles(store, DSH_STR("{}"), NULL, &lines, &err));
    FAILS(DSH_E_INVALID_ARGUMENT, dsh_query_read_titles(store, DSH_STR("[1]"), NULL, &lines, &err));
    dsh_cancel *cancel = NULL;
    OK(dsh_cancel_new(&cancel, &err));
    dsh_cancel_fire(cancel);
    CHECK(dsh_query_list_sessions(store, cancel, &lines, &err) == DSH_E_SESSION_QUERY_ABORTED);
    CHECK(dsh_error_code(dsh_error_cause(err, 0)) == DSH_E_CANCELLED);
    dsh_error_free(err);
    err = NULL;
    dsh_cancel_free(cancel);
    CHECK(lines == NULL && events == NULL && text.data == NULL);
}

int main(int count, char **arguments)
{
    CHECK(count == 2);
    dsh_store *store = NULL;
    dsh_session *session = NULL;
    OK(dsh_store_open(arguments[1], strlen(arguments[1]), NULL, &store, &err));
    OK(dsh_session_create(store, DSH_STR("{\"id\":\"s\",\"cwd\":\"/repo\"}"), &session, &err));
    append(session, "turn/start", "{\"turn\":1}");
    append(session, "session/title", "{\"title\":\"Ledger\",\"messageSeqs\":[],\"source\":{\"kind\":\"user\"}}");
    OK(dsh_session_flush(session, NULL, &err));
    reads(store, 1);
    refusals(store);
    OK(dsh_session_close(session, &err));
    dsh_session_free(session);
    reads(store, 0);
    OK(dsh_store_close(store, &err));
    dsh_store_free(store);
    printf("reads: ok\n");
    return 0;
}
