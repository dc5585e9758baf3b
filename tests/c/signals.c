/*
 * A host whose timer fires all the time, with a handler that does not ask for system calls to be restarted: no call of the library ends
 * because of it, nothing is lost, nothing is written twice. The first argument is an empty folder.
 */
#include <signal.h>
#include <sys/time.h>

#include "check.h"

enum { APPENDS_MIN = 200, SIGNALS_MIN = 300, APPENDS_MAX = 20000, INTERVAL_MICROSECONDS = 500 };

static dsh_error *err = NULL;
static volatile sig_atomic_t signals = 0;

static void on_alarm(int number)
{
    (void)number;
    if (signals < 1000000) {
        signals++;
    }
}

static void set_timer(long microseconds)
{
    struct itimerval timer = {{0, microseconds}, {0, microseconds}};
    CHECK(setitimer(ITIMER_REAL, &timer, NULL) == 0);
}

static uint64_t count_events(dsh_store *store, const char *id, uint64_t expected)
{
    dsh_log *log = NULL;
    dsh_events *events = NULL;
    dsh_event event = DSH_EVENT_INIT;
    uint64_t count = 0;
    dsh_status status;
    OK(dsh_log_open(store, id, strlen(id), DSH_READ, NULL, &log, &err));
    OK(dsh_log_events(log, 0, DSH_ALL, NULL, &events, &err));
    while ((status = dsh_events_next(events, &event, &err)) == DSH_OK) {
        CHECK(event.seq == count);
        count++;
    }
    CHECK(status == DSH_DONE && count == expected);
    dsh_events_free(events);
    dsh_log_free(log);
    return count;
}

/* Opens the session, appends until there were enough signals, looks at everything now and then, and closes. */
static uint64_t record(dsh_store *store, uint64_t appended)
{
    dsh_session *session = NULL;
    dsh_lines *lines = NULL;
    dsh_str line;
    uint64_t before = appended, seq = 0;
    sig_atomic_t signals_before = signals;
    if (appended == 0) {
        OK(dsh_session_create(store, DSH_STR("{\"id\":\"s\"}"), &session, &err));
    } else {
        OK(dsh_session_open(store, DSH_STR("s"), NULL, &session, &err));
    }
    while (appended - before < APPENDS_MIN || signals - signals_before < SIGNALS_MIN) {
        CHECK(appended - before < APPENDS_MAX);
        OK(dsh_session_append(session, DSH_STR("plugin:test/note"), DSH_STR("{\"text\":\"now and then\"}"), NULL, &seq, &err));
        CHECK(seq == appended);
        appended++;
        OK(dsh_session_flush(session, NULL, &err));
        if (appended % 50 == 0) {
            count_events(store, "s", appended);
            OK(dsh_store_list(store, 0, NULL, &lines, &err));
            CHECK(dsh_lines_next(lines, &line, &err) == DSH_OK);
            dsh_lines_free(lines);
        }
    }
    OK(dsh_session_close(session, &err));
    dsh_session_free(session);
    return appended;
}

int main(int argc, char **argv)
{
    CHECK(argc == 2);
    struct sigaction action;
    memset(&action, 0, sizeof action);
    action.sa_handler = on_alarm;
    CHECK(sigaction(SIGALRM, &action, NULL) == 0);
    set_timer(INTERVAL_MICROSECONDS);

    dsh_store *store = NULL;
    uint64_t appended = 0;
    for (int round = 0; round < 3; round++) {
        OK(dsh_store_open(argv[1], strlen(argv[1]), NULL, &store, &err));
        appended = record(store, appended);
        dsh_store_free(store);
    }
    set_timer(0);
    OK(dsh_store_open(argv[1], strlen(argv[1]), NULL, &store, &err));
    count_events(store, "s", appended);
    dsh_store_free(store);
    printf("signals: ok, %lu events, %ld signals\n", (unsigned long)appended, (long)signals);
    return 0;
}
