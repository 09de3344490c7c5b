/* pytorch/pytorch 165685: in a container whose seccomp filter forbids pidfd_getfd, sharing memory made
 * of several objects died with "Operation not permitted". It goes on over the socket, and why is in
 * the log. */
/* SPDX-License-Identifier: BSD-3-Clause */
#include "forbid.h"
#include "zepair.h"

static void body(void)
{
    zp_log_here();
    if (forbid_call(SYS_pidfd_getfd) != 0) {
        perror("seccomp");
        exit(77);
    }
    if (syscall(SYS_pidfd_getfd, -1, 0, 0) != -1 || errno != EPERM) {
        FAIL("pidfd_getfd is not forbidden");
    }
    zp_exchange("pidfd_getfd forbidden");
}

int main(int argc, char **argv)
{
    unsigned which;
    int      result;

    pair_enter(body, &which);
    setenv("ZERANGE_LOG", "debug", 1);
    zp_log_start("debug");
    result = pair_run(argv[0], 0, 60);
    if (result == 0 && zp_log_count("opened 0x", NULL) == 0) {
        fprintf(stderr, "ze_range was not used\n");
        result = 1;
    }
    if (result == 0 && zp_log_count("pidfd_getfd", "Operation not permitted") == 0) {
        fprintf(stderr, "nothing says why pidfd_getfd was not used\n");
        result = 1;
    }
    zp_log_end(result == 1);
    return result;
}
