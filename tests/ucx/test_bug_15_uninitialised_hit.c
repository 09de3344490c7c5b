/* pmodels/mpich 7944: the path of a cache hit used a field that only the path of a miss had set.
 * Fresh memory is not zero here (MALLOC_PERTURB_); misses and hits on both sides, every byte checked,
 * and what a hit needs is told by the counters. */
/* SPDX-License-Identifier: BSD-3-Clause */
#include "zepair.h"

static void body(void)
{
    struct zp_key key;
    struct zebuf  buf;
    unsigned      k;

    zp_start();
    zebuf_map(&buf, 4, MIB, NULL);
    for (k = 0; k < 4; k++) {
        zp_message(k & 1, &buf, 0, 0, 4 * MIB, 3 * k, "whole");
        zp_message(k & 1, &buf, k * MIB, 0, MIB, 3 * k + 50, "slice");
    }
    zp_share(buf.ptr, buf.size, &key);
    for (k = 0; k < 4; k++) {
        zebuf_fill(&buf, 7 + pair.rank);
        pair_meet();
        if (pair.rank == 1) {
            UCS(zp_get(&key, buf.ptr + k * MIB, MIB, key.remote + k * MIB));
            if (zebuf_check(&buf, k * MIB, MIB, k * MIB, 7, 8) != 0) {
                FAIL("get %u: wrong bytes", k);
            }
        }
        pair_meet();
    }
    zp_unshare(&key);
    pair_stop_ucx();
    zebuf_unmap(&buf);
}

int main(int argc, char **argv)
{
    unsigned which;

    pair_enter(body, &which);
    setenv("MALLOC_PERTURB_", "165", 1);
    return pair_run(argv[0], 0, 60);
}
