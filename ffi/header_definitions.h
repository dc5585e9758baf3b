
/* The interface that this header describes: dsh_abi_version() of a library it works with has the same major and no smaller minor. */
#define DSH_ABI_MAJOR {abi_major}
#define DSH_ABI_MINOR {abi_minor}
#define DSH_ABI_VERSION ((uint32_t)DSH_ABI_MAJOR << 16 | (uint32_t)DSH_ABI_MINOR)

/* A string literal as the two arguments pointer and length. */
#define DSH_STR(literal) (literal), (sizeof(literal) - 1)

/* No text, as the two arguments pointer and length. */
#define DSH_NONE NULL, 0

/* A dsh_str as the two arguments of "%.*s". Evaluates its argument twice. */
#define DSH_FMT(text) (int)(text).len, (text).ptr

/* As a count: everything there is. */
#define DSH_ALL UINT64_MAX

/* As the place of a fork: the end of the last finished turn, with what belongs to it. */
#define DSH_COMPLETED_PREFIX UINT64_MAX

/* How structs begin. */
#define DSH_EVENT_INIT {sizeof(dsh_event), 0, 0, 0, 0, {NULL, 0}, {NULL, 0}, {NULL, 0}, {NULL, 0}, {NULL, 0}, NULL}
#define DSH_BUFFER_INIT {NULL, 0, NULL}
#define DSH_STORE_SETTINGS_INIT {sizeof(dsh_store_settings), 0, 0, 0, 0, 0, 0, NULL, 0}
#define DSH_APPEND_OPTIONS_INIT {sizeof(dsh_append_options), 0, 0, 0, 0, NULL, 0, 0, 0}
#define DSH_PENDING_INIT {sizeof(dsh_pending), 0, 0, NULL}
#define DSH_MESSAGE_INIT {sizeof(dsh_message), 0, {NULL, 0}}
#define DSH_SEQS_INIT {NULL, 0, NULL}
#define DSH_NEXT_UPLOAD_INIT {sizeof(dsh_next_upload), 0, 0, 0, 0}

/*
 * What a dsh_status says. A code keeps its name and number for ever; new ones may come.
 */
enum {
    /* Done; the results are written. */
    DSH_OK = 0,
    /* There is nothing more: the end of an iterator. */
    DSH_DONE = 1,
    /* What was asked for does not exist: no title, no such event, an event that makes no message. No results are written. */
    DSH_ABSENT = 2,
{codes}};
