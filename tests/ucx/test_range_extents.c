/* How far an export goes: over all that is mapped around a buffer, in front of it too, not beyond its
 * reservation nor a hole, and cut at the size limit, so that a new object renews one block only. */
/* SPDX-License-Identifier: BSD-3-Clause */
#include "zepair.h"

#define OBJECTS 16
#define LIMIT   4 /* MiB */

/* What UCX's log says was exported, read back by the process itself: "exported 0xA..0xB as N". */
static unsigned exports_seen(uint64_t *start, uint64_t *end)
{
    FILE         *file = fopen(getenv("ZEPAIR_LOG"), "r");
    char          line[1024], *at;
    unsigned long a, b;
    unsigned      count = 0;

    fflush(NULL);
    while (file != NULL && fgets(line, sizeof(line), file) != NULL) {
        at = strstr(line, "exported 0x");
        if (at != NULL && sscanf(at, "exported 0x%lx..0x%lx", &a, &b) == 2) {
            *start = a;
            *end   = b;
            count++;
        }
    }
    if (file != NULL) {
        fclose(file);
    }
    return count;
}

static void expect_export(const struct zebuf *buf, size_t object, unsigned count, size_t from,
                          size_t to, const char *what)
{
    struct zp_key key;
    uint64_t      start = 0, end = 0;
    unsigned      seen;

    zp_share(buf->ptr + object * MIB + 100, MIB / 2, &key);
    if (pair.rank == 0) {
        seen = exports_seen(&start, &end);
        if (seen != count || start != (uintptr_t)buf->ptr + from * MIB ||
            end != (uintptr_t)buf->ptr + to * MIB) {
            FAIL("%s: export %u is of MiB %.2f to %.2f, expected export %u of %zu to %zu", what,
                 seen, (double)(int64_t)(start - (uintptr_t)buf->ptr) / (double)MIB,
                 (double)(int64_t)(end - (uintptr_t)buf->ptr) / (double)MIB, count, from, to);
        }
    }
    pair_meet();
    zp_unshare(&key);
}

static void unmap_object(struct zebuf *buf, size_t k)
{
    ZE(zeVirtualMemUnmap(zebuf_ze.context, buf->ptr + k * MIB, MIB));
}

static void body(void)
{
    struct zebuf buf, behind;

    if (pair.rank == 0) {
        zp_log_here();
    }
    zp_device();
    zebuf_need_staging(OBJECTS * MIB);
    zebuf_map(&buf, OBJECTS, MIB, NULL);
    zebuf_map(&behind, 2, MIB, buf.ptr + buf.size); /* another reservation, next to it if it may */
    pair_start_ucx();
    pair_connect(UCP_ERR_HANDLING_MODE_NONE);
    expect_export(&buf, 6, 1, 4, 8, "a block around the middle");
    expect_export(&buf, 4, 1, 4, 8, "a slice in front of it");
    expect_export(&buf, 7, 1, 4, 8, "a slice behind it");
    expect_export(&buf, 15, 2, 12, 16, "the last block ends with the reservation");
    unmap_object(&buf, 5);
    expect_export(&buf, 6, 3, 6, 8, "not over a hole");
    expect_export(&buf, 15, 3, 6, 8, "another block is as it was: no new export");
    ZE(zeVirtualMemMap(zebuf_ze.context, buf.ptr + 5 * MIB, MIB, buf.phys[5], 0,
                       ZE_MEMORY_ACCESS_ATTRIBUTE_READWRITE));
    expect_export(&buf, 5, 4, 4, 8, "grown by the object in the hole");
    expect_export(&buf, 7, 4, 4, 8, "and one export for all of it");
    zebuf_unmap(&behind);
    pair_stop_ucx();
    zebuf_unmap(&buf);
}

int main(int argc, char **argv)
{
    unsigned which;
    int      result;

    pair_enter(body, &which);
    setenv("UCX_ZE_RANGE_MAX_EXTENT", "4M", 1);
    zp_log_start("debug");
    result = pair_run(argv[0], 0, 60);
    zp_log_end(result == 1);
    return result;
}
