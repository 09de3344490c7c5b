/* pmodels/mpich PR 7055, 7887; ofiwg/libfabric PR 8592: one or two fds stayed open for each map, until
 * none was left; who closes the fd of a handle differed by driver. 400 buffers under a limit of 256
 * fds, with handles that travel by themselves and with handles whose fds are sent along. */
/* SPDX-License-Identifier: BSD-3-Clause */
#include "zepair.h"

#include <sys/resource.h>

#define ROUNDS 400
#define SPARE  8 /* connections made late */

static void body(void)
{
    struct rlimit limit = {256, 256};
    struct zebuf  buf;
    unsigned      k, fds = 0;

    if (setrlimit(RLIMIT_NOFILE, &limit) != 0) {
        FAIL("setrlimit");
    }
    zp_start();
    for (k = 0; k < ROUNDS; k++) {
        zebuf_map(&buf, 2, 65536, NULL);
        zp_message(k & 1, &buf, 0, 0, buf.size, k, "round");
        zebuf_unmap(&buf);
        if (k == 20) {
            fds = zp_fds();
        }
    }
    zp_expect_no_imports("at the end");
    pair_meet();
    if (zp_fds() > fds + SPARE) {
        FAIL("%u fds after %u rounds, %u after 20", zp_fds(), ROUNDS, fds);
    }
    pair_stop_ucx();
}

int main(int argc, char **argv)
{
    static const char *const hide[] = {"none", "functions", "all"};
    unsigned                 which, k;
    int                      result = 0;

    pair_enter(body, &which);
    setenv("UCX_RNDV_THRESH", "0", 1);
    for (k = 0; k < 3 && result == 0; k++) {
        setenv("ZERANGE_HIDE", hide[k], 1);
        result = pair_run(argv[0], k, 120);
        printf("%s: ZERANGE_HIDE=%s\n", result == 0 ? "ok" : "not ok", hide[k]);
    }
    return result;
}
