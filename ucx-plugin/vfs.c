/* The caches' counters in UCX's virtual file system, below the memory domain: exports/hits,
 * imports/bytes and so on. */
/* SPDX-License-Identifier: BSD-3-Clause */
#include "md.h"

#include <stddef.h>
#include <ucs/datastruct/string_buffer.h>

/* Not installed by UCX; an older one may lack them. */
typedef void (*vfs_show_t)(void *object, ucs_string_buffer_t *buffer, void *arg, uint64_t number);
ucs_status_t ucs_vfs_obj_add_ro_file(void *object, vfs_show_t show, void *arg, uint64_t number,
                                     const char *path, ...) __attribute__((format(printf, 5, 6)));
#pragma weak ucs_vfs_obj_add_ro_file
#pragma weak ucs_string_buffer_appendf

static const struct {
    const char *name;
    size_t      offset; /* in struct zr_rcache_stats */
} counters[] = {
    {"hits", offsetof(struct zr_rcache_stats, hits)},
    {"misses", offsetof(struct zr_rcache_stats, misses)},
    {"evictions", offsetof(struct zr_rcache_stats, evictions)},
    {"invalidations", offsetof(struct zr_rcache_stats, invalidations)},
    {"failures", offsetof(struct zr_rcache_stats, failures)},
    {"regions", offsetof(struct zr_rcache_stats, regions)},
    {"bytes", offsetof(struct zr_rcache_stats, bytes)},
    {"open_ns", offsetof(struct zr_rcache_stats, open_ns)},
};
#define COUNTERS (sizeof(counters) / sizeof(counters[0]))

/* @a number: the counter, of the exports first, then of the imports. */
static void show(void *object, ucs_string_buffer_t *buffer, void *arg, uint64_t number)
{
    struct zr_rcache_stats stats;

    if (number < COUNTERS) {
        zr_exports_stats(&stats);
    } else {
        zr_imports_stats(&stats);
    }
    ucs_string_buffer_appendf(
        buffer, "%lu\n",
        *(unsigned long *)((char *)&stats + counters[number % COUNTERS].offset));
}

void zr_md_vfs_init(struct zr_uct_md *md)
{
    unsigned k;

    if (ucs_vfs_obj_add_ro_file == NULL || ucs_string_buffer_appendf == NULL) {
        return;
    }
    for (k = 0; k < 2 * COUNTERS; k++) {
        (void)ucs_vfs_obj_add_ro_file(md, show, NULL, k, "%s/%s",
                                      k < COUNTERS ? "exports" : "imports",
                                      counters[k % COUNTERS].name);
    }
}
