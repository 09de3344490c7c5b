/* What hits are looked up in: the open regions in the order of their addresses, in chunks of at most
 * a few dozen behind one sorted array, which readers search without a lock. Who changes it holds
 * the cache's mutex and copies a chunk, or the array when a chunk is full; readers see the old one
 * or the new one. What was taken out is freed when no reader can see it any more (two epochs
 * later).
 *
 *   array    [ 0x1000 | 0x9000 | 0x20000 ]      first address of each chunk
 *               |        |         `----> [ 0x20000 0x28000 ]
 *               |        `--------------> [ 0x9000 0xa000 0x1c000 ]
 *               `-----------------------> [ 0x1000 0x2000 ]
 *
 *   reader   enter ── load the array ── search ── take a reference ── leave
 *   writer   publish a new chunk, retire the old one ── advance: an epoch ends when the readers of
 *            the one before it have left
 */
/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef ZR_RCACHE_VIEW_H
#define ZR_RCACHE_VIEW_H

#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>

struct zr_rcache_region;
struct zr_rcache_request;

/* First member of what may be retired. */
struct zr_retired {
    struct zr_retired *next;
    unsigned           epoch;
};

#define ZR_VIEW_INSIDE  UINT64_C(0xffff)
#define ZR_VIEW_HINTS   256 /* of a stripe */
#define ZR_VIEW_STRIPES 16 /* readers of different threads write to different cache lines */

struct zr_view {
    _Atomic(struct zr_view_array *) array; /* NULL: empty */
    atomic_uint                     epoch;
    struct {
        /* By the parity of their epoch: readers inside (ZR_VIEW_INSIDE), and all so far. */
        _Alignas(64) _Atomic uint64_t readers[2];
        /* What answered last, by the address asked for: mostly it does again. */
        _Alignas(64) _Atomic(struct zr_rcache_region *) hints[ZR_VIEW_HINTS];
    } stripes[ZR_VIEW_STRIPES];
    struct zr_retired *retired; /* the newest first; guarded by the cache's mutex */
};

/** A region that answers @a request, with one reference; NULL if there is none in the view. No
 * lock, no allocation, no system call. */
struct zr_rcache_region *zr_view_acquire(struct zr_view *view,
                                         const struct zr_rcache_request *request);

/** Calls of zr_view_acquire so far. */
uint64_t zr_view_lookups(const struct zr_view *view);

/* ---- with the cache's mutex held ---- */

/** Without memory for it the region is not in the view and is found by the slow way only. */
void zr_view_insert(struct zr_view *view, struct zr_rcache_region *region);
void zr_view_remove(struct zr_view *view, struct zr_rcache_region *region);
/** Before a region is retired: it is stale, and no hint leads to it after this. */
void zr_view_forget(struct zr_view *view, const struct zr_rcache_region *region);
/** Free @a item, whose first member is @a item, when no reader can see it. */
void zr_view_retire(struct zr_view *view, struct zr_retired *item);
/** Nobody reads any more. */
void zr_view_fini(struct zr_view *view);

#endif
