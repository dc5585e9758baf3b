/* Built against an installed library: records one event and reads its type back. The argument is an empty folder. */
#include <stdio.h>
#include <string.h>

#include <dsh_session.h>

int main(int count, char **arguments)
{
    dsh_store *store = NULL;
    dsh_session *session = NULL;
    dsh_events *events = NULL;
    dsh_error *err = NULL;
    dsh_event event = DSH_EVENT_INIT;
    if (count != 2 || !dsh_check_abi() || dsh_store_open(arguments[1], strlen(arguments[1]), NULL, &store, &err) != DSH_OK
        || dsh_session_create(store, DSH_NONE, &session, &err) != DSH_OK
        || dsh_session_append(session, DSH_STR("turn/start"), DSH_STR("{\"turn\":1}"), NULL, NULL, &err) != DSH_OK
        || dsh_session_flush(session, NULL, &err) != DSH_OK || dsh_session_events(session, 0, DSH_ALL, &events, &err) != DSH_OK
        || dsh_events_next(events, &event, &err) != DSH_OK) {
        fprintf(stderr, "%.*s\n", DSH_FMT(dsh_error_message(err)));
        dsh_error_free(err);
        return 1;
    }
    printf("%.*s: ok\n", DSH_FMT(event.type));
    dsh_events_free(events);
    dsh_session_free(session);
    dsh_store_free(store);
    return 0;
}
