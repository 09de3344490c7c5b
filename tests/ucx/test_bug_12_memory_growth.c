/* pmodels/mpich 7849, 6959: device memory grew until none was left, as references of what was sent
 * were never dropped. Allocate, send and free over and over: objects, exports and imports are back at
 * their start on both sides. */
/* SPDX-License-Identifier: BSD-3-Clause */
#include "zepair.h"

#define ROUNDS 200
/* Of these a transport makes its next pool of events when more copies are on their way than ever, and
 * a pool has an object of its own. What a round leaves makes hundreds. */
#define POOLS 2

/* Objects come and go inside a reservation that stays: nothing but the transport can let go of them. */
static void in_place(const zr_counts_t *before, int counted)
{
    ze_physical_mem_desc_t desc = {.stype = ZE_STRUCTURE_TYPE_PHYSICAL_MEM_DESC,
                                   .flags = ZE_PHYSICAL_MEM_FLAG_ALLOCATE_ON_DEVICE,
                                   .size  = MIB};
    struct zebuf           buf  = {.objects = 1, .object_size = MIB, .size = MIB};
    zr_counts_t            after;
    unsigned               k;
    void                  *ptr;

    ZE(zeVirtualMemReserve(zebuf_ze.context, NULL, 2 * MIB, &ptr));
    for (k = 0; k < ROUNDS / 4; k++) {
        buf.ptr = (char *)ptr + (k & 1) * MIB;
        ZE(zePhysicalMemCreate(zebuf_ze.context, zebuf_ze.device, &desc, &buf.phys[0]));
        ZE(zeVirtualMemMap(zebuf_ze.context, buf.ptr, MIB, buf.phys[0], 0,
                           ZE_MEMORY_ACCESS_ATTRIBUTE_READWRITE));
        zp_message(k & 1, &buf, 0, 0, MIB, 3 * k, "in place");
        ZE(zeVirtualMemUnmap(zebuf_ze.context, buf.ptr, MIB));
        ZE(zePhysicalMemDestroy(zebuf_ze.context, buf.phys[0]));
    }
    zp_expect_no_imports("in place");
    pair_meet();
    if (counted && zp_counts(&after) && (after.objects > before->objects + POOLS || after.exports != 0)) {
        FAIL("in place: %lu objects and %lu exports are left of %lu and 0",
             (unsigned long)after.objects, (unsigned long)after.exports,
             (unsigned long)before->objects);
    }
    ZE(zeVirtualMemFree(zebuf_ze.context, ptr, 2 * MIB));
}

static void body(void)
{
    zr_counts_t  before, after;
    struct zebuf buf;
    unsigned     k;
    int          counted;

    zp_start();
    zebuf_map(&buf, 1, MIB, NULL); /* what is made once is made by now */
    zp_message(0, &buf, 0, 0, MIB, 1, "first");
    zp_message(1, &buf, 0, 0, MIB, 2, "first of the other");
    zebuf_unmap(&buf);
    zp_expect_no_imports("first");
    pair_meet();
    counted = zp_counts(&before);
    in_place(&before, counted);
    for (k = 0; k < ROUNDS; k++) {
        zebuf_map(&buf, 1 + k % 4, 65536 << k % 3, NULL);
        zp_message(k & 1, &buf, 0, 0, buf.size, k, "round");
        zebuf_unmap(&buf);
    }
    zp_expect_no_imports("after all was freed");
    pair_meet();
    if (counted && zp_counts(&after) &&
        (after.objects > before.objects + POOLS || after.exports != 0 || after.regions > before.regions)) {
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
