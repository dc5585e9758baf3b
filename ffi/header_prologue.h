/*
 * dsh_session.h: the C interface of dsh-session, durable session logs for AI agents.
 *
 * Generated from the Rust sources of the library; do not edit. The error table comes from the library's own.
 *
 * A program in five calls:
 *
 *     dsh_store *store = NULL;
 *     dsh_session *session = NULL;
 *     dsh_error *err = NULL;
 *     if (dsh_store_open(DSH_STR("sessions"), NULL, &store, &err) != DSH_OK ||
 *         dsh_session_create(store, DSH_STR("{\"cwd\":\"/repo\"}"), &session, &err) != DSH_OK ||
 *         dsh_session_append(session, DSH_STR("turn/start"), DSH_STR("{\"turn\":1}"), NULL, NULL, &err) != DSH_OK ||
 *         dsh_session_close(session, &err) != DSH_OK) {
 *         fprintf(stderr, "%.*s\n", DSH_FMT(dsh_error_message(err)));
 *     }
 *     dsh_error_free(err);
 *     dsh_session_free(session);
 *     dsh_store_free(store);
 *
 * Rules for all functions:
 *
 * - Results. A function that can fail returns a dsh_status: DSH_OK (0), a positive number that informs (DSH_DONE), or a negative
 *   DSH_E_... code. Results are written only with DSH_OK, and what was in their place is not looked at. With a failure, *err gets an
 *   error object that the caller frees; err may be NULL. It is not touched otherwise, so set it to NULL before.
 * - Handles. A handle is used until it is freed. `_close` ends its work, may fail, and may come from any thread while others are inside:
 *   their next calls get DSH_E_HANDLE_CLOSED. `_free` gives back the memory, closes first if need be, never fails, accepts NULL, and is the last
 *   call on that handle: no other call may be inside. A store may be freed before what was opened from it.
 * - Threads. A store, a session and a log may be used by many threads at once; iterators, buffers, errors and events by one at a time, any
 *   one. A cancel token may be fired from any thread and from a signal handler. `const` means: changes nothing.
 * - Text in is a pointer and a length: UTF-8, no NUL needed, borrowed for the call. NULL goes with length 0. Text out is lent (dsh_str; how
 *   long it lives is said at its function) or given (dsh_buffer, freed with dsh_buffer_free).
 * - Structs that may grow begin with struct_size; initialise them with their DSH_..._INIT.
 * - Callbacks may call the library unless it is said otherwise, and must not unwind, throw or longjmp out.
 * - Processes. A handle used in a forked child fails with DSH_E_FORKED_PROCESS; it may be freed there.
 * - If the library itself breaks down in a call, that call returns DSH_E_PANIC, and so does every later one on the handle but `_free`.
 */
