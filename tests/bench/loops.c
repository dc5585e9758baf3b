/*
 * The loops of the border bench in C: `read ROOT THREADS` and `append ROOT BATCHES` go round once for each line on standard input and
 * print the seconds that it took, by a monotonic clock. borders.py runs it.
 */
#define _POSIX_C_SOURCE 200809L

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "dsh_session.h"

enum { CAPACITY = 256, EVENTS = 40000 };

static dsh_error *err = NULL;

static void ok(dsh_status status)
{
    if (status < 0) {
        fprintf(stderr, "%.*s\n", DSH_FMT(dsh_error_message(err)));
        exit(1);
    }
}

static double now_s(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + (double)now.tv_nsec / 1e9;
}

/* Every event as views into the library's buffers, a batch at a time. */
static void read_all(const char *root, uint32_t threads)
{
    static dsh_event batch[CAPACITY];
    dsh_store_settings settings = DSH_STORE_SETTINGS_INIT;
    dsh_store *store = NULL;
    dsh_log *log = NULL;
    dsh_events *events = NULL;
    volatile uint64_t bytes = 0; /* So that the views are looked at. */
    uint64_t total = 0;
    size_t count = 0;

    settings.threads = threads;
    batch[0].struct_size = sizeof batch[0];
    ok(dsh_store_open(root, strlen(root), &settings, &store, &err));
    ok(dsh_log_open(store, DSH_STR("bench"), DSH_READ, NULL, &log, &err));
    ok(dsh_log_events(log, 0, DSH_ALL, NULL, &events, &err));
    for (;;) {
        dsh_status status = dsh_events_next_batch(events, batch, CAPACITY, &count, &err);
        ok(status);
        if (status == DSH_DONE) {
            break;
        }
        for (size_t index = 0; index < count; index++) {
            bytes += batch[index].row.len;
        }
        total += count;
    }
    dsh_events_free(events);
    dsh_log_free(log);
    dsh_store_free(store);
    if (total != EVENTS) {
        fprintf(stderr, "%llu events\n", (unsigned long long)total);
        exit(1);
    }
}

static double append(const char *root, uint64_t batches)
{
    dsh_store *store = NULL;
    dsh_session *session = NULL;
    double start;

    ok(dsh_store_open(root, strlen(root), NULL, &store, &err));
    ok(dsh_session_create(store, DSH_STR("{\"cwd\":\"/bench\"}"), &session, &err));
    ok(dsh_session_flush(session, NULL, &err));
    start = now_s();
    for (uint64_t step = 0; step < batches; step++) {
        char data[80];
        int length = snprintf(data, sizeof data, "{\"step\":%llu,\"text\":\"a small event\"}", (unsigned long long)step);
        ok(dsh_session_append(session, DSH_STR("plugin:bench/note"), data, (size_t)length, NULL, NULL, &err));
        ok(dsh_session_flush(session, NULL, &err));
    }
    start = now_s() - start;
    ok(dsh_session_close(session, &err));
    dsh_session_free(session);
    dsh_store_free(store);
    return start;
}

static double read_once(const char *root, uint32_t threads)
{
    double start = now_s();
    read_all(root, threads);
    return now_s() - start;
}

int main(int argc, char **argv)
{
    char line[16];
    if (argc != 4) {
        fprintf(stderr, "read ROOT THREADS | append ROOT BATCHES\n");
        return 2;
    }
    uint32_t number = (uint32_t)strtoul(argv[3], NULL, 10);
    while (fgets(line, sizeof line, stdin) != NULL) {
        printf("%.9f\n", strcmp(argv[1], "read") == 0 ? read_once(argv[2], number) : append(argv[2], number));
        fflush(stdout);
    }
    return 0;
}
