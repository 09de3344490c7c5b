/* oneapi-src/unified-memory-framework 979: sharing needed ptrace_scope=0, and distributions have 1.
 * Neither process may be traced by the other; bytes are right, and the log says why pidfd_getfd was not
 * used. */
/* SPDX-License-Identifier: BSD-3-Clause */
#include "forbid.h"
#include "zepair.h"

static void body(void)
{
    zp_log_here();
    zp_device(); /* tracing is forbidden to a process that has the driver already */
    if (forbid_tracing() != 0) {
        perror("forbid_tracing");
        exit(77);
    }
    zp_exchange("not traceable");
}

int main(int argc, char **argv)
{
    unsigned which;
    int      result;

    pair_enter(body, &which);
    setenv("ZERANGE_LOG", "debug", 1);
    zp_log_start("debug");
    result = pair_run(argv[0], 0, 60);
    if (result == 0 && (zp_log_count("opened 0x", NULL) == 0 ||
                        zp_log_count("pidfd_getfd", "Operation not permitted") == 0)) {
        fprintf(stderr, "ze_range was not used, or nothing says why pidfd_getfd was not\n");
        result = 1;
    }
    zp_log_end(result == 1);
    return result;
}
