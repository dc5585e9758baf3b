/* What the C tests share: a check that names its place and stops, and the expectation that a call failed with one code. */
#ifndef DSH_TEST_CHECK_H
#define DSH_TEST_CHECK_H

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <unistd.h>

#include "dsh_session.h"

#define CHECK(condition) \
    do { \
        if (!(condition)) { \
            fprintf(stderr, "%s:%d: not so: %s\n", __FILE__, __LINE__, #condition); \
            exit(1); \
        } \
    } while (0)

/* The call must succeed; what it says otherwise is printed. */
#define OK(call) check_ok((call), &err, #call, __LINE__)

/* The call must fail with the code, with an object that says the same and has a message. */
#define FAILS(code, call) check_fails((code), (call), &err, #call, __LINE__)

static inline void check_ok(dsh_status status, dsh_error **err, const char *call, int line)
{
    if (status != DSH_OK) {
        fprintf(stderr, "line %d: %s: %d: %.*s\n", line, call, (int)status, DSH_FMT(dsh_error_message(*err)));
        exit(1);
    }
    if (*err != NULL) {
        fprintf(stderr, "line %d: %s: succeeded, but set the error\n", line, call);
        exit(1);
    }
}

static inline void check_fails(dsh_status code, dsh_status status, dsh_error **err, const char *call, int line)
{
    if (status != code || dsh_error_code(*err) != code || dsh_error_message(*err).len == 0) {
        fprintf(stderr, "line %d: %s: %d instead of %d: %.*s\n", line, call, (int)status, (int)code,
                DSH_FMT(dsh_error_message(*err)));
        exit(1);
    }
    dsh_error_free(*err);
    *err = NULL;
}

static inline int is_text(dsh_str text, const char *expected)
{
    return text.len == strlen(expected) && memcmp(text.ptr, expected, text.len) == 0;
}

/*
 * Ends a forked child. What belongs to threads that the child does not have cannot be given back there; running another program ends
 * the child without a search for leaks.
 */
static inline void leave_child(int is_good)
{
    const char *program = is_good ? "true" : "false";
    execlp(program, program, (char *)NULL);
    _exit(1);
}

static inline int has_text(const char *text, const char *part)
{
    return text != NULL && strstr(text, part) != NULL;
}

#endif
