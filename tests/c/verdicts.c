/*
 * Prints the judgement of every session under each root given, one JSON line each, after a line that names the root.
 */
#include "check.h"

static dsh_error *err = NULL;

int main(int argc, char **argv)
{
    for (int index = 1; index < argc; index++) {
        dsh_store *store = NULL;
        dsh_lines *lines = NULL;
        dsh_str line = {0};
        dsh_status status;
        OK(dsh_store_open(argv[index], strlen(argv[index]), NULL, &store, &err));
        OK(dsh_query_verify(store, NULL, 0, NULL, NULL, NULL, NULL, &lines, &err));
        printf("root %d\n", index);
        while ((status = dsh_lines_next(lines, &line, &err)) == DSH_OK) {
            printf("%s\n", line.ptr);
        }
        CHECK(status == DSH_DONE && err == NULL);
        dsh_lines_free(lines);
        dsh_store_free(store);
    }
    return 0;
}
