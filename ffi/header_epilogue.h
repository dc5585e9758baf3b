/**
 * Whether the library that the program runs with fits the header it was built with: the same major version, no older minor one.
 * Worth a call at the start of a program that is linked with the shared library.
 */
static inline bool dsh_check_abi(void)
{
    uint32_t library = dsh_abi_version();
    return library >> 16 == DSH_ABI_MAJOR && (library & 0xffff) >= DSH_ABI_MINOR;
}
