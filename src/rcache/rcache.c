/* The registration cache: see rcache.h. */
/* SPDX-License-Identifier: BSD-3-Clause */
#include "look.h"

#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define MAX_OPENS 8 /* of one request, when each one is invalidated before it is ready */

struct zr_rcache {
    const struct zr_rcache_ops *ops;
    void                       *owner;
    struct zr_view              view;  /* what hits read */
    _Atomic uint64_t            clock; /* counts opens: the order of use. Hits only read it, else
                                          it were a line that all threads write to */
    _Atomic uint64_t            found; /* hits with the lock held */
    atomic_uint                 alive; /* regions opened and not closed */
    atomic_bool                 over;  /* the limits; a put has to look for what to close */
    pthread_mutex_t             lock;  /* guards all below */
    pthread_cond_t              opened;
    struct zr_itree             tree;
    struct zr_rcache_region     all;     /* head of the list of open regions in the tree */
    struct zr_rcache_region     openings; /* head of the list of those being opened */
    struct zr_rcache_limits     limits;
    struct zr_rcache_stats      stats; /* but hits: counted by the desks, and found */
};

static struct zr_rcache_region *region_of(struct zr_itree_node *node)
{
    return (struct zr_rcache_region *)((char *)node - offsetof(struct zr_rcache_region, node));
}

static uint64_t now_ns(void)
{
    struct timespec ts;

    clock_gettime(CLOCK_MONOTONIC, &ts);
    return (uint64_t)ts.tv_sec * 1000000000u + (uint64_t)ts.tv_nsec;
}

int zr_rcache_create(const struct zr_rcache_ops *ops, void *owner,
                     const struct zr_rcache_limits *limits, struct zr_rcache **cache_p)
{
    struct zr_rcache *cache = aligned_alloc(64, (sizeof(*cache) + 63) / 64 * 64);

    if (cache == NULL) {
        return -ENOMEM;
    }
    memset(cache, 0, sizeof(*cache));
    cache->ops      = ops;
    cache->owner    = owner;
    cache->limits   = *limits;
    cache->all.next = cache->all.prev = &cache->all;
    cache->openings.next = cache->openings.prev = &cache->openings;
    pthread_mutex_init(&cache->lock, NULL);
    zr_desks_init(&cache->view.desks, &cache->lock);
    pthread_cond_init(&cache->opened, NULL);
    *cache_p = cache;
    return 0;
}

/* One more reference. @return false: it is stale. */
static bool acquire(struct zr_rcache_region *region)
{
    int64_t state = atomic_load(&region->state);

    do {
        if (state & ZR_RCACHE_STALE) {
            return false;
        }
    } while (!atomic_compare_exchange_weak(&region->state, &state, state + ZR_RCACHE_REF));
    return true;
}

/* ---- steps with the lock held ---- */

static void list_remove(struct zr_rcache_region *region)
{
    region->prev->next = region->next;
    region->next->prev = region->prev;
}

static void list_append(struct zr_rcache_region *head, struct zr_rcache_region *region)
{
    region->prev     = head->prev;
    region->next     = head;
    head->prev->next = region;
    head->prev       = region;
}

static void tree_remove(struct zr_rcache *cache, struct zr_rcache_region *region)
{
    zr_itree_remove(&cache->tree, &region->node);
    region->in_tree = false;
    if (!region->opening) {
        cache->stats.regions--;
        cache->stats.bytes -= region->node.end - region->node.start;
        list_remove(region);
        zr_view_remove(&cache->view, region);
    }
}

static void tree_insert(struct zr_rcache *cache, struct zr_rcache_region *region)
{
    zr_itree_insert(&cache->tree, &region->node);
    region->in_tree = true;
    if (!region->opening) {
        cache->stats.regions++;
        cache->stats.bytes += region->node.end - region->node.start;
        list_append(&cache->all, region);
        zr_view_insert(&cache->view, region);
    }
}

/* Never hit again. Goes onto *chain_p if it is to be closed, or its owner to be told. */
static void make_stale(struct zr_rcache *cache, struct zr_rcache_region *region,
                       struct zr_rcache_region **chain_p)
{
    bool    tell = cache->ops->stale != NULL && !region->opening;
    int64_t state, next;

    tree_remove(cache, region);
    zr_view_hide(&cache->view, region);
    state = atomic_load(&region->state);
    do {
        if (state == ZR_RCACHE_HIDDEN) {
            next = ZR_RCACHE_STALE | ZR_RCACHE_CLOSED;
        } else { /* used until it is told */
            next = (state + tell * ZR_RCACHE_REF) ^ (ZR_RCACHE_HIDDEN | ZR_RCACHE_STALE);
        }
    } while (!atomic_compare_exchange_weak(&region->state, &state, next));
    if (state == ZR_RCACHE_HIDDEN || tell) {
        region->chain = *chain_p;
        *chain_p      = region;
    }
}

/* @return false: it is in use. */
static bool evict(struct zr_rcache *cache, struct zr_rcache_region *region,
                  struct zr_rcache_region **chain_p)
{
    int64_t idle = ZR_RCACHE_HIDDEN;

    zr_view_hide(&cache->view, region);
    if (!atomic_compare_exchange_strong(&region->state, &idle,
                                        ZR_RCACHE_STALE | ZR_RCACHE_CLOSED)) {
        atomic_fetch_and(&region->state, ~(int64_t)ZR_RCACHE_HIDDEN);
        return false;
    }
    tree_remove(cache, region);
    cache->stats.evictions++;
    region->chain = *chain_p;
    *chain_p      = region;
    return true;
}

/* As far as can be told without asking the desks: evict asks them. */
static struct zr_rcache_region *least_recently_used(struct zr_rcache *cache)
{
    struct zr_rcache_region *region, *oldest = NULL;

    for (region = cache->all.next; region != &cache->all; region = region->next) {
        if (atomic_load(&region->state) <= 0 &&
            (oldest == NULL || atomic_load(&region->used) < atomic_load(&oldest->used))) {
            oldest = region;
        }
    }
    return oldest;
}

static bool beyond_limits(const struct zr_rcache *cache)
{
    return cache->stats.regions > cache->limits.regions ||
           cache->stats.bytes > cache->limits.bytes;
}

static void trim(struct zr_rcache *cache, struct zr_rcache_region **chain_p)
{
    struct zr_rcache_region *region;

    if (!beyond_limits(cache)) {
        atomic_store(&cache->over, false);
        return;
    }
    /* Before the search, so that a put that comes after it looks too. */
    atomic_store(&cache->over, true);
    while (beyond_limits(cache) && (region = least_recently_used(cache)) != NULL) {
        evict(cache, region, chain_p);
    }
    if (!beyond_limits(cache)) {
        atomic_store(&cache->over, false);
    }
}

/* ---- without the lock ---- */

static void close_region(struct zr_rcache *cache, struct zr_rcache_region *region)
{
    cache->ops->close(cache->owner, region);
    atomic_fetch_sub(&cache->alive, 1);
    pthread_mutex_lock(&cache->lock);
    zr_view_region_free(&cache->view, region);
    pthread_mutex_unlock(&cache->lock);
}

/* What make_stale and evict have put aside. */
static void finish(struct zr_rcache *cache, struct zr_rcache_region *chain)
{
    struct zr_rcache_region *next;

    for (; chain != NULL; chain = next) {
        next = chain->chain;
        if (atomic_load(&chain->state) & ZR_RCACHE_CLOSED) {
            close_region(cache, chain);
        } else {
            cache->ops->stale(cache->owner, chain);
            zr_rcache_put(cache, chain);
        }
    }
}

unsigned zr_rcache_destroy(struct zr_rcache *cache)
{
    unsigned in_use;

    zr_rcache_shrink(cache, ~0u);
    in_use = atomic_load(&cache->alive);
    if (in_use == 0) {
        pthread_cond_destroy(&cache->opened);
        pthread_mutex_destroy(&cache->lock);
        zr_view_fini(&cache->view);
        free(cache);
    }
    return in_use;
}

void zr_rcache_set_limits(struct zr_rcache *cache, const struct zr_rcache_limits *limits)
{
    struct zr_rcache_region *chain = NULL;

    pthread_mutex_lock(&cache->lock);
    cache->limits = *limits;
    trim(cache, &chain);
    pthread_mutex_unlock(&cache->lock);
    finish(cache, chain);
}

static bool covers(const struct zr_itree_node *node, const void *arg)
{
    const struct zr_rcache_request *request = arg;
    const struct zr_rcache_region  *region  = region_of((struct zr_itree_node *)node);

    return node->start <= request->start && node->end >= request->start + request->size &&
           (request->identity == NULL ||
            memcmp(&region->identity, request->identity, sizeof(region->identity)) == 0);
}

/* An older region that lies wholly inside the new one. */
static bool superseded(const struct zr_itree_node *node, const void *arg)
{
    const struct zr_rcache_region *fresh = arg;
    const struct zr_rcache_region *old   = region_of((struct zr_itree_node *)node);

    return old != fresh && !old->opening && old->identity.id < fresh->identity.id &&
           node->start >= fresh->node.start && node->end <= fresh->node.end;
}

/* Another thread opened all of it meanwhile, from another part: one of the two is enough. */
static bool already_open(const struct zr_itree_node *node, const void *arg)
{
    const struct zr_rcache_region *fresh = arg;
    const struct zr_rcache_region *other = region_of((struct zr_itree_node *)node);

    return !other->opening && node->start <= fresh->node.start && node->end >= fresh->node.end;
}

/* Lock held. */
static struct zr_rcache_region *region_new(struct zr_rcache               *cache,
                                           const struct zr_rcache_request *request)
{
    static const struct zr_rcache_identity none;
    struct zr_rcache_region               *region = zr_view_region_new(&cache->view);

    if (region != NULL) {
        region->node = (struct zr_itree_node){
            .space = request->space,
            .start = request->start,
            .end   = request->start + request->size,
        };
        region->identity   = request->identity != NULL ? *request->identity : none;
        region->data       = NULL;
        region->opening    = true;
        region->in_tree    = false;
        region->gone_start = region->gone_end = 0;
    }
    return region;
}

/* Lock held. The region that was opened gets its place, or makes way for one that has it.
 * @return the one to be used */
static struct zr_rcache_region *place(struct zr_rcache *cache, struct zr_rcache_region *region,
                                      bool any, struct zr_rcache_region **chain_p)
{
    struct zr_itree_node *node = NULL;

    if (any) {
        node = zr_itree_find(&cache->tree, region->node.space, region->node.start,
                             region->node.end, already_open, region);
    }
    if (node != NULL && acquire(region_of(node))) {
        atomic_store(&region->state, ZR_RCACHE_STALE | ZR_RCACHE_CLOSED);
        region->chain = *chain_p;
        *chain_p      = region;
        return region_of(node);
    }
    atomic_store(&region->used, atomic_fetch_add(&cache->clock, 1) + 1);
    atomic_fetch_and(&region->state, ~(int64_t)ZR_RCACHE_HIDDEN);
    tree_insert(cache, region);
    while (cache->limits.supersede &&
           (node = zr_itree_find(&cache->tree, region->node.space, region->node.start,
                                 region->node.end, superseded, region)) != NULL) {
        cache->stats.invalidations++;
        make_stale(cache, region_of(node), chain_p);
    }
    trim(cache, chain_p);
    return region;
}

/* Lock held on entry and on return, not during the owner's open. On success the region is used
 * by the caller. -EAGAIN: invalidated meanwhile. */
static int open_region(struct zr_rcache *cache, const struct zr_rcache_request *request,
                       struct zr_rcache_region **region_p, struct zr_rcache_region **chain_p)
{
    struct zr_rcache_region *region = region_new(cache, request);
    uint64_t                 start = request->start, end = request->start + request->size;
    uint64_t                 began = now_ns();
    int                      ret;

    if (region == NULL) {
        return -ENOMEM;
    }
    tree_insert(cache, region);
    list_append(&cache->openings, region);
    pthread_mutex_unlock(&cache->lock);

    ret = cache->ops->open(cache->owner, request, region, &start, &end);

    pthread_mutex_lock(&cache->lock);
    cache->stats.open_ns += now_ns() - began;
    list_remove(region);
    if (region->in_tree) {
        tree_remove(cache, region);
    }
    region->opening = false;
    pthread_cond_broadcast(&cache->opened);
    if (ret != 0) {
        cache->stats.failures++;
        atomic_store(&region->state, ZR_RCACHE_STALE | ZR_RCACHE_CLOSED);
        zr_view_region_free(&cache->view, region);
        return ret;
    }
    atomic_fetch_add(&cache->alive, 1);
    if ((atomic_load(&region->state) & ZR_RCACHE_STALE) ||
        (region->gone_start < end && region->gone_end > start)) {
        atomic_store(&region->state, ZR_RCACHE_STALE | ZR_RCACHE_CLOSED);
        region->chain = *chain_p;
        *chain_p      = region;
        return -EAGAIN;
    }
    region->node.start = start;
    region->node.end   = end;
    *region_p          = place(cache, region, request->identity == NULL, chain_p);
    return 0;
}

static bool out_of_something(int ret)
{
    return ret == -ENOMEM || ret == -EMFILE || ret == -ENFILE;
}

static __attribute__((noinline)) bool refused(struct zr_rcache        *cache,
                                              struct zr_rcache_region *region)
{
    zr_rcache_invalidate_region(cache, region);
    zr_rcache_put(cache, region);
    return false;
}

/* The hit's last question. The reference is given back if the answer is no. */
static inline bool confirmed(struct zr_rcache *cache, struct zr_rcache_region *region)
{
    uint64_t now = atomic_load_explicit(&cache->clock, memory_order_relaxed);

    if (cache->ops->valid != NULL && !cache->ops->valid(cache->owner, region)) {
        return refused(cache, region);
    }
    if (atomic_load_explicit(&region->used, memory_order_relaxed) != now) {
        atomic_store_explicit(&region->used, now, memory_order_relaxed);
    }
    return true;
}

/* Lock held, and on return too. Found only here: what is not in the view for lack of memory, and
 * what another thread is opening, which is waited for. */
static struct zr_rcache_region *find_or_wait(struct zr_rcache               *cache,
                                             const struct zr_rcache_request *request)
{
    struct zr_itree_node *node;

    while ((node = zr_itree_find(&cache->tree, request->space, request->start,
                                 request->start + request->size, covers, request)) != NULL) {
        if (!region_of(node)->opening) {
            return acquire(region_of(node)) ? region_of(node) : NULL;
        }
        pthread_cond_wait(&cache->opened, &cache->lock);
    }
    return NULL;
}

static __attribute__((noinline)) int get_slowly(struct zr_rcache               *cache,
                                                const struct zr_rcache_request *request,
                                                struct zr_rcache_region       **region_p)
{
    struct zr_rcache_region *region, *chain;
    unsigned                 opens  = 0;
    bool                     shrunk = false;
    int                      ret;

    if (request->size == 0 || request->start + request->size < request->start) {
        return -EINVAL;
    }
    if (zr_desk_here(cache->view.desks.cache) == NULL) {
        (void)zr_desk_open(&cache->view.desks);
    }
    for (;;) {
        chain = NULL;
        pthread_mutex_lock(&cache->lock);
        region = find_or_wait(cache, request);
        if (region != NULL) {
            pthread_mutex_unlock(&cache->lock);
            if (confirmed(cache, region)) {
                atomic_fetch_add(&cache->found, 1);
                *region_p = region;
                return 0;
            }
            continue;
        }
        cache->stats.misses++;
        ret = open_region(cache, request, region_p, &chain);
        pthread_mutex_unlock(&cache->lock);
        finish(cache, chain);
        if (ret == 0) {
            return 0;
        }
        if (out_of_something(ret) && !shrunk && zr_rcache_shrink(cache, ~0u) > 0) {
            shrunk = true;
        } else if (ret != -EAGAIN || ++opens == MAX_OPENS) {
            return ret;
        }
    }
}

int zr_rcache_get(struct zr_rcache *cache, const struct zr_rcache_request *request,
                  struct zr_rcache_region **region_p)
{
    struct zr_desk          *desk = zr_desk_here(cache->view.desks.cache);
    struct zr_rcache_region *region;

    /* What wraps or is empty is in no region. */
    if (desk != NULL && request->size - 1 < UINT64_MAX - request->start) {
        region = zr_view_acquire(&cache->view, desk, request);
        if (region != NULL && confirmed(cache, region)) {
            atomic_store_explicit(&desk->hits,
                                  atomic_load_explicit(&desk->hits, memory_order_relaxed) + 1,
                                  memory_order_relaxed);
            *region_p = region;
            return 0;
        }
    }
    return get_slowly(cache, request, region_p);
}

static __attribute__((noinline)) void make_room(struct zr_rcache *cache)
{
    struct zr_rcache_region *chain = NULL;

    pthread_mutex_lock(&cache->lock);
    trim(cache, &chain);
    pthread_mutex_unlock(&cache->lock);
    finish(cache, chain);
}

/* @return may the region be idle? false too if it was closed */
static __attribute__((noinline)) bool put_slowly(struct zr_rcache        *cache,
                                                 struct zr_rcache_region *region)
{
    int64_t state = atomic_load(&region->state), next;

    do {
        next = state - ZR_RCACHE_REF;
        if (next == ZR_RCACHE_STALE) {
            next |= ZR_RCACHE_CLOSED;
        }
    } while (!atomic_compare_exchange_weak(&region->state, &state, next));
    if (next & ZR_RCACHE_CLOSED) {
        close_region(cache, region);
        return false;
    }
    return next < ZR_RCACHE_REF;
}

void zr_rcache_put(struct zr_rcache *cache, struct zr_rcache_region *region)
{
    struct zr_desk *desk = zr_desk_here(cache->view.desks.cache);
    bool            idle;

    if (desk == NULL || !zr_view_release(desk, region, &idle)) {
        idle = put_slowly(cache, region);
    }
    if (idle && atomic_load(&cache->over)) {
        make_room(cache);
    }
}

static bool has_id(const struct zr_itree_node *node, const void *id)
{
    return region_of((struct zr_itree_node *)node)->identity.id == *(const uint64_t *)id;
}

/* What is being opened may turn out wider than what was asked for, and have seen what goes. */
static void mark_openings(struct zr_rcache *cache, uint64_t space, uint64_t start, uint64_t end,
                          const uint64_t *id)
{
    struct zr_rcache_region *region;

    for (region = cache->openings.next; region != &cache->openings; region = region->next) {
        if (region->node.space != space || (id != NULL && region->identity.id != *id)) {
            continue;
        }
        if (region->gone_end == 0) {
            region->gone_start = start;
            region->gone_end   = end;
        }
        region->gone_start = start < region->gone_start ? start : region->gone_start;
        region->gone_end   = end > region->gone_end ? end : region->gone_end;
    }
}

static void invalidate(struct zr_rcache *cache, uint64_t space, uint64_t start, uint64_t size,
                       const uint64_t *id)
{
    struct zr_rcache_region *chain = NULL;
    struct zr_itree_node    *node;
    uint64_t                 end = start + size < start ? UINT64_MAX : start + size;

    pthread_mutex_lock(&cache->lock);
    mark_openings(cache, space, start, end, id);
    while ((node = zr_itree_find(&cache->tree, space, start, end, id != NULL ? has_id : NULL,
                                 id)) != NULL) {
        cache->stats.invalidations++;
        make_stale(cache, region_of(node), &chain);
    }
    pthread_mutex_unlock(&cache->lock);
    finish(cache, chain);
}

void zr_rcache_invalidate(struct zr_rcache *cache, uint64_t space, uint64_t start, uint64_t size)
{
    invalidate(cache, space, start, size, NULL);
}

void zr_rcache_invalidate_id(struct zr_rcache *cache, uint64_t space, uint64_t start,
                             uint64_t size, uint64_t id)
{
    invalidate(cache, space, start, size, &id);
}

void zr_rcache_invalidate_region(struct zr_rcache *cache, struct zr_rcache_region *region)
{
    struct zr_rcache_region *chain = NULL;

    pthread_mutex_lock(&cache->lock);
    if (region->in_tree) {
        cache->stats.invalidations++;
        make_stale(cache, region, &chain);
    }
    pthread_mutex_unlock(&cache->lock);
    finish(cache, chain);
}

unsigned zr_rcache_shrink(struct zr_rcache *cache, unsigned count)
{
    struct zr_rcache_region *chain = NULL, *region, *next;
    unsigned                 closed = 0;

    pthread_mutex_lock(&cache->lock);
    if (count >= cache->stats.regions) {
        zr_view_hide_all(&cache->view, cache->all.next, &cache->all);
        for (region = cache->all.next; region != &cache->all; region = next) {
            next = region->next;
            closed += evict(cache, region, &chain);
        }
    } else {
        while (closed < count && (region = least_recently_used(cache)) != NULL) {
            closed += evict(cache, region, &chain);
        }
    }
    pthread_mutex_unlock(&cache->lock);
    finish(cache, chain);
    return closed;
}

void zr_rcache_get_stats(struct zr_rcache *cache, struct zr_rcache_stats *stats)
{
    pthread_mutex_lock(&cache->lock);
    *stats = cache->stats;
    stats->hits = zr_desks_hits(&cache->view.desks) + atomic_load(&cache->found);
    pthread_mutex_unlock(&cache->lock);
}
