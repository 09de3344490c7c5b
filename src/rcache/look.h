/* What a hit does, inline: it is shorter than the calls it would take. */
/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef ZR_RCACHE_LOOK_H
#define ZR_RCACHE_LOOK_H

#include "rcache.h"

struct zr_view_hints {
    struct zr_retired retired;
    unsigned          shift; /* of a 64-bit key */
    _Atomic(struct zr_rcache_region *) regions[];
};

/* Without a branch or a call: a hit compares all of it. */
static inline bool zr_identity_same(const struct zr_rcache_identity *a,
                                    const struct zr_rcache_identity *b)
{
    const uint64_t *x = a->words, *y = b->words;

    return ((a->id ^ b->id) | (x[0] ^ y[0]) | (x[1] ^ y[1]) | (x[2] ^ y[2]) | (x[3] ^ y[3]) |
            (x[4] ^ y[4]) | (x[5] ^ y[5]) | (x[6] ^ y[6]) | (x[7] ^ y[7])) == 0;
}

/* Asked before anything else of a region is read: while it is not hidden it does not change. */
static inline bool zr_region_usable(const struct zr_rcache_region *region)
{
    return (atomic_load_explicit(&region->state, memory_order_acquire) &
            (ZR_RCACHE_STALE | ZR_RCACHE_HIDDEN)) == 0;
}

static inline bool zr_region_answers(const struct zr_rcache_region  *region,
                                     const struct zr_rcache_request *request)
{
    return region->node.space == request->space && region->node.start <= request->start &&
           region->node.end >= request->start + request->size &&
           (request->identity == NULL || zr_identity_same(&region->identity, request->identity));
}

/* What answered last, by the address asked for: mostly it does again. */
static inline _Atomic(struct zr_rcache_region *) *
zr_view_hint(struct zr_view_hints *hints, const struct zr_rcache_request *request)
{
    uint64_t key = (request->start >> 12 ^ request->space << 40) * UINT64_C(0x9e3779b97f4a7c15);

    return &hints->regions[key >> hints->shift & ~UINT64_C(1)];
}

/* What the first hint does not know: the second one, then all. */
struct zr_rcache_region *zr_view_search(const struct zr_view               *view,
                                        _Atomic(struct zr_rcache_region *) *hint,
                                        const struct zr_rcache_request     *request);

/* One more reference. Who hides the region waits until the desk is not busy. */
static inline void zr_desk_count(struct zr_desk *desk, struct zr_rcache_region *region)
{
    struct zr_desk_place *place  = zr_desk_place(desk, region);
    uint64_t              counts = atomic_load_explicit(&place->count, memory_order_relaxed);

    if (atomic_load_explicit(&place->region, memory_order_relaxed) != region) {
        if (counts != 0) {
            atomic_fetch_add(&region->state, ZR_RCACHE_REF);
            return;
        }
        atomic_store_explicit(&place->region, region, memory_order_relaxed);
    }
    atomic_store_explicit(&place->count, counts + 1, memory_order_release); /* after the region */
}

/* A region that answers @a request, counted at the calling thread's @a desk; NULL if there is none
 * in the view. No lock, no allocation, no system call. */
static inline struct zr_rcache_region *
zr_view_acquire(struct zr_view *view, struct zr_desk *desk, const struct zr_rcache_request *request)
{
    _Atomic(struct zr_rcache_region *) *hint = NULL;
    struct zr_rcache_region *region = NULL;
    struct zr_view_hints    *hints;

    zr_desk_enter(desk);
    hints = atomic_load_explicit(&view->hints, memory_order_acquire);
    if (hints != NULL) {
        hint   = zr_view_hint(hints, request);
        region = atomic_load_explicit(hint, memory_order_acquire);
    }
    if (region == NULL || !zr_region_usable(region) || !zr_region_answers(region, request)) {
        region = zr_view_search(view, hint, request);
    }
    if (region != NULL) {
        zr_desk_count(desk, region);
    }
    zr_desk_leave(desk);
    return region;
}

/* Give back a reference that @a desk counts; *last_p: it counts no more of this region. false: it
 * counts none, or they are being moved to the region's state. */
static inline bool zr_view_release(struct zr_desk *desk, struct zr_rcache_region *region,
                                   bool *last_p)
{
    struct zr_desk_place *place = zr_desk_place(desk, region);
    uint64_t              counts;
    bool                  here;

    zr_desk_enter(desk);
    counts = atomic_load_explicit(&place->count, memory_order_relaxed);
    here   = counts != 0 && zr_region_usable(region) &&
           atomic_load_explicit(&place->region, memory_order_relaxed) == region;
    if (here) {
        atomic_store_explicit(&place->count, counts - 1, memory_order_relaxed);
    }
    zr_desk_leave(desk);
    *last_p = counts == 1;
    return here;
}

#endif
