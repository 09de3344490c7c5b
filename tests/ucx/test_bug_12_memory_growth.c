/* pmodels/mpich 7849, 6959: device memory grew until none was left, as references of what was sent
 * were never dropped. Allocate, send and free over and over: objects, exports and imports are back at
 * their start on both sides. */
/* SPDX-License-Identifier: BSD-3-Clause */
#include "zepair.h"

#define ROUNDS 200

static void body(void)
{
    zr_counts_t  before, after;
    struct zebuf buf;
    unsigned     k;
    int          counted;

    zp_start();
    zebuf_map(&buf, 1, MIB, NULL); /* what is made once is made by now */
    zp_message(0, &buf, 0, 0, MIB, 1, "first");
    zebuf_unmap(&buf);
    zp_expect_no_imports("first");
    pair_meet();
    counted = zp_counts(&before);
    for (k = 0; k < ROUNDS; k++) {
        zebuf_map(&buf, 1 + k % 4, 65536 << k % 3, NULL);
        zp_message(k & 1, &buf, 0, 0, buf.size, k, "round");
        zebuf_unmap(&buf);
    }
    zp_expect_no_imports("after all was freed");
    pair_meet();
    if (counted && zp_counts(&after) &&
        (after.objects > before.objects || after.exports != 0 || after.regions > before.regions)) {
        FAIL("%lu objects, %lu exports, %lu regions are left of %lu, 0, %lu",
             (unsigned long)after.objects, (unsigned long)after.exports,
             (unsigned long)after.regions, (unsigned long)before.objects,
             (unsigned long)before.regions);
    }
    pair_stop_ucx();
}

int main(int argc, char **argv)
{
    unsigned which;

    pair_enter(body, &which);
    return pair_run(argv[0], 0, 120);
}
