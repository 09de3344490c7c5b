/* pmodels/mpich 7977: with a bounded cache a range was evicted while a transfer used it. One region
 * may be kept, two buffers have eleven slices each on their way at once. */
/* SPDX-License-Identifier: BSD-3-Clause */
#include "zepair.h"

#define SLICES 11
#define SLICE  (256 * 1024)

static void body(void)
{
    ucp_request_param_t param = {0};
    struct zebuf        bufs[2];
    void               *requests[2 * SLICES];
    unsigned            round, k, b;

    zp_start();
    zebuf_need_staging(3 * MIB);
    zebuf_map(&bufs[0], 3, MIB, NULL);
    zebuf_map(&bufs[1], 6, MIB / 2, NULL);
    for (round = 0; round < 4; round++) {
        for (b = 0; b < 2; b++) {
            zebuf_fill(&bufs[b], 10 * round + 2 * b + pair.rank);
        }
        pair_meet();
        for (k = 0; k < 2 * SLICES; k++) {
            char *at = bufs[k & 1].ptr + k / 2 * SLICE;

            requests[k] = pair.rank == 0
                              ? ucp_tag_send_nbx(pair.ep, at, SLICE, k, &param)
                              : ucp_tag_recv_nbx(pair.worker, at, SLICE, k, ~0ull, &param);
        }
        for (k = 0; k < 2 * SLICES; k++) {
            UCS(pair_wait(requests[k]));
        }
        for (b = 0; pair.rank == 1 && b < 2; b++) {
            if (zebuf_check(&bufs[b], 0, SLICES * SLICE, 0, 10 * round + 2 * b,
                            10 * round + 2 * b + 1) != 0) {
                FAIL("round %u, buffer %u: wrong bytes", round, b);
            }
        }
        pair_meet();
    }
    pair_stop_ucx();
    zebuf_unmap(&bufs[0]);
    zebuf_unmap(&bufs[1]);
}

int main(int argc, char **argv)
{
    unsigned which;

    pair_enter(body, &which);
    setenv("UCX_ZE_RANGE_CACHE_MAX_REGIONS", "1", 1);
    return pair_run(argv[0], 0, 60);
}
