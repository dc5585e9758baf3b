/*
 * Prints every row of one session, read through the C library, one a line, with source numbers expanded.
 *
 *     read ROOT ID
 */
#include <stdio.h>
#include <string.h>

#include "dsh_session.h"

static int failed(dsh_error *err)
{
    fprintf(stderr, "%.*s\n", DSH_FMT(dsh_error_message(err)));
    dsh_error_free(err);
    return 1;
}

static int print_events(dsh_events *events)
{
    dsh_error *err = NULL;
    dsh_event event = DSH_EVENT_INIT;
    dsh_status status;
    while ((status = dsh_events_next(events, &event, &err)) == DSH_OK) {
        dsh_buffer row = DSH_BUFFER_INIT;
        if (dsh_event_logical_row(&event, &row, &err) != DSH_OK) {
            return failed(err);
        }
        printf("%s\n", row.data);
        dsh_buffer_free(&row);
    }
    return status == DSH_DONE ? 0 : failed(err);
}

int main(int argc, char **argv)
{
    dsh_error *err = NULL;
    dsh_store *store = NULL;
    dsh_log *log = NULL;
    dsh_events *events = NULL;
    if (argc != 3) {
        fprintf(stderr, "usage: read ROOT ID\n");
        return 2;
    }
    if (!dsh_check_abi()) {
        fprintf(stderr, "the library does not fit the header\n");
        return 1;
    }
    if (dsh_store_open(argv[1], strlen(argv[1]), NULL, &store, &err) != DSH_OK
        || dsh_log_open(store, argv[2], strlen(argv[2]), DSH_READ, NULL, &log, &err) != DSH_OK
        || dsh_log_events(log, 0, DSH_ALL, NULL, &events, &err) != DSH_OK) {
        dsh_log_free(log);
        dsh_store_free(store);
        return failed(err);
    }
    int result = print_events(events);
    dsh_events_free(events);
    dsh_log_free(log);
    dsh_store_free(store);
    return result;
}
