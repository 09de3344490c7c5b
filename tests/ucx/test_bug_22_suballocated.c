/* kvcache-ai/Mooncake 3546, ROCm/mori PR 416: of a buffer inside a larger allocation the offset was
 * lost: success, and the wrong bytes. Buffers at odd places inside USM allocations, inside ranges, and
 * over mappings that show an object from somewhere inside it. */
/* SPDX-License-Identifier: BSD-3-Clause */
#include "zepair.h"

static const size_t offsets[] = {1, 4096, 65536 + 24, 3 * MIB / 2 + 7};

/* Objects of 2 MiB, of each the part from 128 KiB on, 1 MiB long. */
static void map_inside(struct zebuf *buf)
{
    ze_physical_mem_desc_t desc = {.stype = ZE_STRUCTURE_TYPE_PHYSICAL_MEM_DESC,
                                   .flags = ZE_PHYSICAL_MEM_FLAG_ALLOCATE_ON_DEVICE,
                                   .size  = 2 * MIB};
    void                  *ptr;
    size_t                 k;

    buf->objects     = 3;
    buf->object_size = MIB;
    buf->size        = 3 * MIB;
    zebuf_need_staging(buf->size);
    ZE(zeVirtualMemReserve(zebuf_ze.context, NULL, buf->size, &ptr));
    buf->ptr = ptr;
    for (k = 0; k < 3; k++) {
        ZE(zePhysicalMemCreate(zebuf_ze.context, zebuf_ze.device, &desc, &buf->phys[k]));
        ZE(zeVirtualMemMap(zebuf_ze.context, buf->ptr + k * MIB, MIB, buf->phys[k], 2 * 65536,
                           ZE_MEMORY_ACCESS_ATTRIBUTE_READWRITE));
    }
}

static void messages(struct zebuf *buf, const char *what)
{
    unsigned k;

    for (k = 0; k < sizeof(offsets) / sizeof(offsets[0]); k++) {
        zp_message(k & 1, buf, offsets[k], offsets[3 - k], MIB + 333, 5 * k, what);
    }
}

static void body(void)
{
    ze_device_mem_alloc_desc_t desc = {.stype = ZE_STRUCTURE_TYPE_DEVICE_MEM_ALLOC_DESC};
    struct zebuf               usm  = {.size = 3 * MIB}, buf;
    void                      *ptr;

    zp_start();
    zebuf_need_staging(usm.size);
    ZE(zeMemAllocDevice(zebuf_ze.context, &desc, usm.size, 65536, zebuf_ze.device, &ptr));
    usm.ptr = ptr;
    messages(&usm, "inside an allocation");
    map_inside(&buf);
    messages(&buf, "objects mapped from inside");
    zebuf_unmap(&buf);
    zebuf_map(&buf, 6, MIB / 2, NULL);
    messages(&buf, "inside a range");
    zebuf_unmap(&buf);
    ZE(zeMemFree(zebuf_ze.context, ptr));
    pair_stop_ucx();
}

int main(int argc, char **argv)
{
    static const struct {
        const char *name, *hide, *quirks;
    } cases[] = {
        {"as it is", "none", "none"},
        {"without the extension", "range", "none"},
        {"another driver", "functions", "none"},
        {"another driver without the extension", "all", "none"},
        {"another driver with Intel's faults", "functions", "intel"},
        {"with Intel's faults", "none", "intel"},
    };
    unsigned which, k;
    int      result = 0;

    pair_enter(body, &which);
    setenv("UCX_RNDV_THRESH", "0", 1);
    for (k = 0; k < sizeof(cases) / sizeof(cases[0]) && result == 0; k++) {
        setenv("ZERANGE_HIDE", cases[k].hide, 1);
        setenv("ZERANGE_QUIRKS", cases[k].quirks, 1);
        result = pair_run(argv[0], k, 60);
        printf("%s: %s\n", result == 0 ? "ok" : "not ok", cases[k].name);
    }
    return result;
}
