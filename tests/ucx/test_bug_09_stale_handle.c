/* uxlfoundation/oneCCL 212, pmodels/mpich 7302: a handle opened before the exporter freed its memory
 * served what was allocated at the same address after. Free and map again at the same address, with
 * other objects, other sizes, one more object, one object in the middle; the bytes are the new ones
 * each time. */
/* SPDX-License-Identifier: BSD-3-Clause */
#include "zepair.h"

static void again_at(struct zebuf *buf, size_t objects, size_t object_size)
{
    void *was = buf->ptr;

    zebuf_unmap(buf);
    zebuf_map(buf, objects, object_size, was);
    if (buf->ptr != was) {
        fprintf(stderr, "note: rank %d: mapped again elsewhere\n", pair.rank);
    }
}

/* One more object behind the others, in the same reservation: rank 0 sends all of them. */
static void grow(unsigned seed)
{
    ze_physical_mem_desc_t desc = {.stype = ZE_STRUCTURE_TYPE_PHYSICAL_MEM_DESC,
                                   .flags = ZE_PHYSICAL_MEM_FLAG_ALLOCATE_ON_DEVICE,
                                   .size  = MIB};
    struct zebuf           buf  = {.object_size = MIB};
    void                  *ptr;

    ZE(zeVirtualMemReserve(zebuf_ze.context, NULL, 6 * MIB, &ptr));
    buf.ptr = ptr;
    while (buf.objects < 6) {
        ZE(zePhysicalMemCreate(zebuf_ze.context, zebuf_ze.device, &desc, &buf.phys[buf.objects]));
        ZE(zeVirtualMemMap(zebuf_ze.context, buf.ptr + buf.objects * MIB, MIB,
                           buf.phys[buf.objects], 0, ZE_MEMORY_ACCESS_ATTRIBUTE_READWRITE));
        buf.objects++;
        buf.size = buf.objects * MIB;
        zebuf_need_staging(buf.size);
        zp_message(0, &buf, 0, 0, buf.size, seed + 3 * buf.objects, "grown by an object");
    }
    for (; buf.objects > 0; buf.objects--) {
        ZE(zeVirtualMemUnmap(zebuf_ze.context, buf.ptr + (buf.objects - 1) * MIB, MIB));
        ZE(zePhysicalMemDestroy(zebuf_ze.context, buf.phys[buf.objects - 1]));
        buf.size -= MIB;
        if (buf.size > 0) {
            zp_message(0, &buf, 0, 0, buf.size, seed + 100 + 3 * buf.objects, "shrunk by one");
        }
    }
    ZE(zeVirtualMemFree(zebuf_ze.context, ptr, 6 * MIB));
}

static void body(void)
{
    struct zebuf buf;
    unsigned     k;

    zp_start();
    zebuf_need_staging(8 * MIB);
    zebuf_map(&buf, 3, MIB, NULL);
    zp_message(0, &buf, 0, 0, 3 * MIB, 1, "first");
    again_at(&buf, 3, MIB);
    zp_message(0, &buf, 0, 0, 3 * MIB, 5, "other objects");
    again_at(&buf, 6, MIB / 2);
    zp_message(0, &buf, 0, 0, 3 * MIB, 9, "objects of another size");
    again_at(&buf, 1, MIB);
    zp_message(1, &buf, 0, 0, MIB, 13, "a smaller one");
    again_at(&buf, 4, 2 * MIB);
    zp_message(0, &buf, 0, 0, 8 * MIB, 17, "a larger one");
    for (k = 0; k < 4; k++) {
        zebuf_replace(&buf, k);
        zp_message(k & 1, &buf, 100, 200, 8 * MIB - 300, 21 + 4 * k, "one object replaced");
    }
    zebuf_unmap(&buf);
    grow(60);
    pair_stop_ucx();
}

int main(int argc, char **argv)
{
    unsigned which;

    pair_enter(body, &which);
    return pair_run(argv[0], 0, 60);
}
