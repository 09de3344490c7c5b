/* What hits are looked up in: what answered the same address last, and behind that the open regions
 * in the order of their addresses, in chunks of at most a few dozen behind one sorted array. Readers
 * search it without a lock, from their desk (desk.h). Who changes it holds the cache's mutex and
 * copies a chunk, or the array when a chunk is full; readers see the old one or the new one. What was
 * taken out is freed when no reader can see it any more.
 *
 *   array    [ 0x1000 | 0x9000 | 0x20000 ]      first address of each chunk
 *               |        |         `----> [ 0x20000 0x28000 ]
 *               |        `--------------> [ 0x9000 0xa000 0x1c000 ]
 *               `-----------------------> [ 0x1000 0x2000 ]
 *
 * Regions are memory of their own kind: one that is closed serves as another later, and is never
 * freed before the cache is. So nobody has to look for hints that lead to it: who comes that way
 * finds it hidden, or that it is another.
 */
/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef ZR_RCACHE_VIEW_H
#define ZR_RCACHE_VIEW_H

#include "desk.h"

#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>

struct zr_rcache_region;
struct zr_rcache_request;

/* First member of what may be retired. */
struct zr_retired {
    struct zr_retired *next;
};

struct zr_view {
    _Atomic(struct zr_view_array *) array; /* NULL: empty */
    _Atomic(struct zr_view_hints *) hints; /* NULL: none yet, or no memory */
    struct zr_desks                 desks;
    /* the rest is guarded by the cache's mutex */
    uint64_t                 regions; /* in the view */
    struct zr_retired       *retired; /* what readers may still see */
    size_t                   retired_bytes;
    struct zr_rcache_region *closed, *spare; /* that readers may still see, and that not */
    unsigned                 num_closed;
    struct zr_view_slab     *slabs;
};

/* ---- with the cache's mutex held; looking up is in look.h ---- */

/** Readers leave it alone, and all its references are in its state. Hidden already: nothing. */
void zr_view_hide(struct zr_view *view, struct zr_rcache_region *region);
/** The same of a list up to @a end, at the price of one. */
void zr_view_hide_all(struct zr_view *view, struct zr_rcache_region *first,
                      const struct zr_rcache_region *end);
/** Without memory for it the region is not in the view and is found by the slow way only. */
void zr_view_insert(struct zr_view *view, struct zr_rcache_region *region);
void zr_view_remove(struct zr_view *view, struct zr_rcache_region *region);
/** Memory of a region; it is hidden and has one reference. NULL: there is no more. */
struct zr_rcache_region *zr_view_region_new(struct zr_view *view);
/** A closed one. */
void zr_view_region_free(struct zr_view *view, struct zr_rcache_region *region);
/** Nobody reads any more. */
void zr_view_fini(struct zr_view *view);

#endif
