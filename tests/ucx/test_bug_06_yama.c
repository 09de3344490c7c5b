/* oneapi-src/unified-memory-framework 979: sharing needed ptrace_scope=0, and distributions have 1.
 * Neither process may be traced by the other; bytes are right, and the log says why pidfd_getfd was not
 * used. */
/* SPDX-License-Identifier: BSD-3-Clause */
#include "forbid.h"
#include "zepair.h"

static void body(void)
{
    struct zebuf buf;
    unsigned     k;

    zp_log_here();
    zp_device();
    if (forbid_tracing() != 0) {
        perror("forbid_tracing");
        exit(77);
    }
    pair_start_ucx();
    pair_connect(UCP_ERR_HANDLING_MODE_NONE);
    zebuf_map(&buf, 5, MIB, NULL);
    for (k = 0; k < 4; k++) {
        zp_message(k & 1, &buf, 11 * k, 7 * k, 5 * MIB - 1000, 3 * k, "not traceable");
    }
    pair_stop_ucx();
    zebuf_unmap(&buf);
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
