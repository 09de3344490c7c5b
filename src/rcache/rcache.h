/* A cache of resources that cover VA ranges: what one process exported, and what it opened of
 * others. Knows nothing of Level Zero or UCX; an owner gives it functions that open and close.
 *
 *   space 0          |== region ==========|            a request inside a region of the same
 *                        [request)                     identity hits it
 *   space 7 (a peer)      |= A =======|
 *                              |= B ========|          regions may overlap; identity decides
 *
 * A region is used between zr_rcache_get and zr_rcache_put. It is closed when it is not used and
 * either stale (invalidated, or superseded by a newer one) or the least recently used one beyond
 * the limits. What is in use is never closed.
 *
 * A hit looks into a view of the open regions (view.h) and counts a reference where only its thread
 * writes (desk.h): it takes no lock, allocates nothing, makes no system call, and has no atomic
 * operation that is more than a load or a store. The first look-up of a thread is as slow as a miss.
 *
 * Locks: one mutex per cache guards the tree, the list and the limits; misses and invalidations
 * hold it, only for steps in memory. No function of the owner is called with it held, so they may
 * take system calls and locks, and may call back into the cache.
 */
/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef ZR_RCACHE_H
#define ZR_RCACHE_H

#include "itree.h"
#include "view.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Whose bytes a region gives access to: equal addresses with another identity never hit. */
struct zr_rcache_identity {
    uint64_t id; /* a number the exporter never gives twice; the larger one is the newer */
    union {
        uint8_t  bytes[64];
        uint64_t words[8];
    };
};

/* No reference is taken of what is stale; what is closed, by the one who set the bit, has none. What
 * is hidden has no new references at desks, only here. */
#define ZR_RCACHE_STALE  1
#define ZR_RCACHE_CLOSED 2
#define ZR_RCACHE_HIDDEN 4
#define ZR_RCACHE_REF    8 /* one reference; those at desks are not among them */

/* What a hit reads comes first. */
struct zr_rcache_region {
    _Atomic int64_t           state;
    _Atomic uint64_t          used; /* the cache's clock when it was last hit */
    struct zr_rcache_identity identity;
    struct zr_itree_node      node; /* node.space, node.start, node.end: what it covers */
    void                     *data; /* the owner's; set by open, released by close */
    /* the rest belongs to the cache */
    bool                     opening, in_tree;
    struct zr_rcache_region *prev, *next; /* of all that are open in the tree, or being opened */
    union {
        struct {
            uint64_t gone_start, gone_end; /* invalidated while it was being opened */
        };
        struct zr_rcache_region *chain; /* of those to be closed or told, or of spare ones */
    };
};

struct zr_rcache_request {
    uint64_t                         space;
    uint64_t                         start, size; /* size is not 0, start + size does not wrap */
    const struct zr_rcache_identity *identity;    /* NULL: any region of the space will do */
    const void                      *arg;         /* passed on to open */
};

struct zr_rcache_ops {
    /**
     * Make the resource behind @a request. May widen [*start_p, *end_p), which come in as the
     * request's, and set region->data and region->identity.
     * @return 0 or -errno; after -ENOMEM, -EMFILE or -ENFILE idle regions are closed and it is
     *         called once more.
     */
    int (*open)(void *owner, const struct zr_rcache_request *request,
                struct zr_rcache_region *region, uint64_t *start_p, uint64_t *end_p);
    /** Called once for each region that open made, when nobody uses it any more. */
    void (*close)(void *owner, struct zr_rcache_region *region);
    /** May be NULL. Called once when a region that is in use is invalidated, before the
     * invalidation returns; the close still follows. */
    void (*stale)(void *owner, struct zr_rcache_region *region);
    /** May be NULL. Asked on a hit; false makes the region stale and the hit a miss. */
    bool (*valid)(void *owner, const struct zr_rcache_region *region);
};

struct zr_rcache_limits {
    uint64_t regions, bytes; /* UINT64_MAX: no limit */
    bool     supersede;      /* a newer region that covers all of an older one of its space
                                makes it stale */
};

struct zr_rcache_stats {
    uint64_t hits, misses, evictions, invalidations, failures;
    uint64_t regions, bytes; /* now */
    uint64_t open_ns;        /* spent in open */
};

struct zr_rcache;

/** @return 0 or -ENOMEM. @a ops and @a owner must outlive the cache. */
int zr_rcache_create(const struct zr_rcache_ops *ops, void *owner,
                     const struct zr_rcache_limits *limits, struct zr_rcache **cache_p);
/** Closes what is idle. @return the number of regions still in use, which are leaked. */
unsigned zr_rcache_destroy(struct zr_rcache *cache);

/** Limits from now on; what is idle beyond them is closed. */
void zr_rcache_set_limits(struct zr_rcache *cache, const struct zr_rcache_limits *limits);

/**
 * Find or open a region around the request and use it. A hit takes no lock, allocates nothing and
 * makes no system call. Two threads that miss the same range open it once; misses of different
 * ranges do not wait for each other.
 * @return 0; -EINVAL: size 0 or wrapped; -ENOMEM; -EAGAIN: it was invalidated as often as it was
 *         opened; what open returned.
 */
int zr_rcache_get(struct zr_rcache *cache, const struct zr_rcache_request *request,
                  struct zr_rcache_region **region_p);
void zr_rcache_put(struct zr_rcache *cache, struct zr_rcache_region *region);

/** Whatever overlaps [start, start+size) of @a space is never hit again: closed now if idle,
 * at its last put otherwise. */
void zr_rcache_invalidate(struct zr_rcache *cache, uint64_t space, uint64_t start, uint64_t size);
/** The same for those of identity number @a id only. */
void zr_rcache_invalidate_id(struct zr_rcache *cache, uint64_t space, uint64_t start,
                             uint64_t size, uint64_t id);
/** The same for one region the caller uses. */
void zr_rcache_invalidate_region(struct zr_rcache *cache, struct zr_rcache_region *region);

/** Close up to @a count idle regions, the least recently used first. @return how many. */
unsigned zr_rcache_shrink(struct zr_rcache *cache, unsigned count);

void zr_rcache_get_stats(struct zr_rcache *cache, struct zr_rcache_stats *stats);

#endif
