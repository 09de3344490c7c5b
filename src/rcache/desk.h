/* How readers of the registration cache are seen without an atomic operation of theirs. Each thread
 * has a desk for a cache: a flag that says that it is looking, and places for the references it
 * takes, which only it writes to.
 *
 *   reader   busy = 1 ── look up, count at the desk ── busy = 0
 *   writer   change something ── have every thread pass a barrier (membarrier) ── wait until no desk
 *            is busy: who looks from now on sees the change, and what was counted can be read
 *
 * A reference may be given back by another thread than took it: then it is taken off the region's
 * state, which may be negative until the desks are folded into it.
 *
 * Lock order: the desks' lock (desk.c), then a cache's mutex.
 */
/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef ZR_RCACHE_DESK_H
#define ZR_RCACHE_DESK_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

struct zr_rcache_region;

#define ZR_DESK_PLACES 256

struct zr_desk_place {
    _Atomic(struct zr_rcache_region *) region;
    _Atomic uint64_t                   count; /* references of the thread */
};

struct zr_desk {
    _Alignas(64) atomic_uint busy;
    _Atomic uint64_t         cache; /* number of the cache; 0: it is gone */
    _Atomic uint64_t         hits;
    struct zr_desk_place     places[ZR_DESK_PLACES];
    pthread_t                thread;
    struct zr_desks         *set;       /* NULL: gone; guarded by the desks' lock */
    struct zr_desk          *next;      /* in the set; guarded by the cache's mutex */
    struct zr_desk          *of_thread; /* the next one of the thread, which alone reads it */
    struct zr_desk         **link, *of_all; /* of all there are; guarded by the desks' lock */
};

/* The desks of a cache. */
struct zr_desks {
    uint64_t         cache; /* its number, never given twice; 0: desks are not possible here */
    pthread_mutex_t *lock;  /* the cache's; guards the rest */
    struct zr_desk  *first;
    uint64_t         hits; /* of threads that have ended */
};

void zr_desks_init(struct zr_desks *desks, pthread_mutex_t *lock);
/* No thread uses the cache any more. */
void zr_desks_fini(struct zr_desks *desks);

#define ZR_DESK_CACHES 4 /* that a thread finds its desks of at once */
extern __thread struct zr_desk *zr_desk_mine[ZR_DESK_CACHES]
    __attribute__((tls_model("initial-exec"), visibility("hidden")));

/* The calling thread's desk if it has used it before; else NULL, and zr_desk_open finds or makes it
 * (NULL: no memory, or not possible). */
static inline struct zr_desk *zr_desk_here(uint64_t cache)
{
    struct zr_desk *desk = zr_desk_mine[cache % ZR_DESK_CACHES];

    return desk != NULL && atomic_load_explicit(&desk->cache, memory_order_relaxed) == cache ? desk
                                                                                            : NULL;
}
struct zr_desk *zr_desk_open(struct zr_desks *desks);

/* ---- of the calling thread ---- */

static inline void zr_desk_enter(struct zr_desk *desk)
{
    atomic_store_explicit(&desk->busy, 1, memory_order_relaxed);
    atomic_signal_fence(memory_order_seq_cst); /* the other half is the writer's membarrier */
}

static inline void zr_desk_leave(struct zr_desk *desk)
{
    atomic_store_explicit(&desk->busy, 0, memory_order_release);
}

static inline struct zr_desk_place *zr_desk_place(struct zr_desk *desk,
                                                  const struct zr_rcache_region *region)
{
    return &desk->places[((uintptr_t)region >> 6 ^ (uintptr_t)region >> 14) % ZR_DESK_PLACES];
}

/* ---- with the cache's mutex held, and not busy ---- */

/* What was written before is seen by who looks after it, and the other way round. */
void zr_desks_sync(struct zr_desks *desks);
/* References to a region that no desk counts any more, after zr_desks_sync, to its state. */
void zr_desks_fold(struct zr_desks *desks, struct zr_rcache_region *region);
uint64_t zr_desks_hits(const struct zr_desks *desks);

#endif
