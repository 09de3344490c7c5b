/* openucx/ucx PR 11283, NVIDIA/nccl 1820: of a buffer of several allocations only the first chunk was
 * exported, bytes behind it were silently wrong. Three objects with a pattern each; transfers
 * across every edge, read and written by the peer. */
/* SPDX-License-Identifier: BSD-3-Clause */
#include "zepair.h"

static void body(void)
{
    static const struct {
        size_t from, to, size;
    } cases[] = {
        {0, 0, 3 * MIB},
        {MIB - 4096, MIB - 8192, 8192},
        {2 * MIB - 50000, 50000, 100001},
        {1, 1, 3 * MIB - 2},
        {2 * MIB, 0, MIB},
    };
    struct zebuf buf;
    unsigned     k;

    zp_start();
    zebuf_map(&buf, 3, MIB, NULL);
    for (k = 0; k < sizeof(cases) / sizeof(cases[0]); k++) {
        zp_message(k & 1, &buf, cases[k].from, cases[k].to, cases[k].size, 10 * k, "three objects");
    }
    pair_stop_ucx();
    zebuf_unmap(&buf);
}

int main(int argc, char **argv)
{
    static const char *const schemes[] = {"get_zcopy", "put_zcopy"};
    unsigned                 which, k;
    int                      result = 0;

    pair_enter(body, &which);
    for (k = 0; k < 2 && result == 0; k++) {
        setenv("UCX_RNDV_SCHEME", schemes[k], 1);
        setenv("UCX_RNDV_THRESH", "0", 1);
        result = pair_run(argv[0], k, 60);
    }
    return result;
}
