/* The registration cache: see rcache.h. */
/* SPDX-License-Identifier: BSD-3-Clause */
#include "rcache.h"

#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define MAX_OPENS 8 /* of one request, when each one is invalidated before it is ready */

struct zr_rcache {
    const struct zr_rcache_ops *ops;
    void                       *owner;
    pthread_mutex_t             lock; /* guards all below */
    pthread_cond_t              opened;
    struct zr_itree             tree;
    struct zr_rcache_region     idle; /* head of the list: idle.next is the oldest */
    struct zr_rcache_limits     limits;
    struct zr_rcache_stats      stats;
    unsigned                    in_use; /* regions with refs, stale ones too */
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
    struct zr_rcache *cache = calloc(1, sizeof(*cache));

    if (cache == NULL) {
        return -ENOMEM;
    }
    cache->ops       = ops;
    cache->owner     = owner;
    cache->limits    = *limits;
    cache->idle.next = cache->idle.prev = &cache->idle;
    pthread_mutex_init(&cache->lock, NULL);
    pthread_cond_init(&cache->opened, NULL);
    *cache_p = cache;
    return 0;
}

/* ---- steps with the lock held ---- */

static void idle_remove(struct zr_rcache_region *region)
{
    region->prev->next = region->next;
    region->next->prev = region->prev;
    region->prev = region->next = NULL;
}

static void idle_append(struct zr_rcache *cache, struct zr_rcache_region *region)
{
    region->prev           = cache->idle.prev;
    region->next           = &cache->idle;
    cache->idle.prev->next = region;
    cache->idle.prev       = region;
}

static void tree_remove(struct zr_rcache *cache, struct zr_rcache_region *region)
{
    zr_itree_remove(&cache->tree, &region->node);
    region->in_tree = false;
    if (!region->opening) {
        cache->stats.regions--;
        cache->stats.bytes -= region->node.end - region->node.start;
    }
}

static void tree_insert(struct zr_rcache *cache, struct zr_rcache_region *region)
{
    zr_itree_insert(&cache->tree, &region->node);
    region->in_tree = true;
    if (!region->opening) {
        cache->stats.regions++;
        cache->stats.bytes += region->node.end - region->node.start;
    }
}

/* Never hit again. Goes onto *dead_p if nobody uses it. */
static void make_stale(struct zr_rcache *cache, struct zr_rcache_region *region,
                       struct zr_rcache_region **dead_p)
{
    if (region->in_tree) {
        tree_remove(cache, region);
    }
    region->stale = true;
    if (region->refs == 0) {
        idle_remove(region);
        region->next = *dead_p;
        *dead_p      = region;
    }
}

static void trim(struct zr_rcache *cache, struct zr_rcache_region **dead_p)
{
    while ((cache->stats.regions > cache->limits.regions ||
            cache->stats.bytes > cache->limits.bytes) &&
           cache->idle.next != &cache->idle) {
        cache->stats.evictions++;
        make_stale(cache, cache->idle.next, dead_p);
    }
}

static void use(struct zr_rcache *cache, struct zr_rcache_region *region)
{
    if (region->refs++ == 0) {
        idle_remove(region);
        cache->in_use++;
    }
}

/* ---- without the lock ---- */

static void close_all(struct zr_rcache *cache, struct zr_rcache_region *dead)
{
    while (dead != NULL) {
        struct zr_rcache_region *next = dead->next;

        cache->ops->close(cache->owner, dead);
        free(dead);
        dead = next;
    }
}

unsigned zr_rcache_destroy(struct zr_rcache *cache)
{
    unsigned in_use;

    zr_rcache_shrink(cache, ~0u);
    in_use = cache->in_use;
    if (in_use == 0) {
        pthread_cond_destroy(&cache->opened);
        pthread_mutex_destroy(&cache->lock);
        free(cache);
    }
    return in_use;
}

void zr_rcache_set_limits(struct zr_rcache *cache, const struct zr_rcache_limits *limits)
{
    struct zr_rcache_region *dead = NULL;

    pthread_mutex_lock(&cache->lock);
    cache->limits = *limits;
    trim(cache, &dead);
    pthread_mutex_unlock(&cache->lock);
    close_all(cache, dead);
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

/* Lock held on entry and on return, not during the owner's open. On success the region is used
 * by the caller. -EAGAIN: invalidated meanwhile. */
static int open_region(struct zr_rcache *cache, const struct zr_rcache_request *request,
                       struct zr_rcache_region **region_p, struct zr_rcache_region **dead_p)
{
    struct zr_rcache_region *region = calloc(1, sizeof(*region));
    struct zr_itree_node    *node;
    uint64_t                 start = request->start, end = request->start + request->size;
    uint64_t                 began = now_ns();
    int                      ret;

    if (region == NULL) {
        return -ENOMEM;
    }
    region->node.space = request->space;
    region->node.start = start;
    region->node.end   = end;
    if (request->identity != NULL) {
        region->identity = *request->identity;
    }
    region->opening = true;
    region->refs    = 1;
    tree_insert(cache, region);
    pthread_mutex_unlock(&cache->lock);

    ret = cache->ops->open(cache->owner, request, region, &start, &end);

    pthread_mutex_lock(&cache->lock);
    cache->stats.open_ns += now_ns() - began;
    if (region->in_tree) {
        tree_remove(cache, region);
    }
    region->opening = false;
    pthread_cond_broadcast(&cache->opened);
    if (ret != 0) {
        cache->stats.failures++;
        free(region);
        return ret;
    }
    if (region->stale) {
        region->refs = 0;
        region->next = *dead_p;
        *dead_p      = region;
        return -EAGAIN;
    }
    region->node.start = start;
    region->node.end   = end;
    tree_insert(cache, region);
    cache->in_use++;
    while (cache->limits.supersede &&
           (node = zr_itree_find(&cache->tree, region->node.space, start, end, superseded,
                                 region)) != NULL) {
        cache->stats.invalidations++;
        make_stale(cache, region_of(node), dead_p);
    }
    trim(cache, dead_p);
    *region_p = region;
    return 0;
}

static bool out_of_something(int ret)
{
    return ret == -ENOMEM || ret == -EMFILE || ret == -ENFILE;
}

int zr_rcache_get(struct zr_rcache *cache, const struct zr_rcache_request *request,
                  struct zr_rcache_region **region_p)
{
    struct zr_rcache_region *region, *dead = NULL;
    struct zr_itree_node    *node;
    unsigned                 opens  = 0;
    bool                     shrunk = false;
    int                      ret;

    if (request->size == 0 || request->start + request->size < request->start) {
        return -EINVAL;
    }
    pthread_mutex_lock(&cache->lock);
    for (;;) {
        node = zr_itree_find(&cache->tree, request->space, request->start,
                             request->start + request->size, covers, request);
        if (node != NULL && region_of(node)->opening) {
            pthread_cond_wait(&cache->opened, &cache->lock);
            continue;
        }
        if (node != NULL) {
            region = region_of(node);
            use(cache, region);
            cache->stats.hits++;
            if (cache->ops->valid == NULL) {
                break;
            }
            pthread_mutex_unlock(&cache->lock);
            if (cache->ops->valid(cache->owner, region)) {
                *region_p = region;
                return 0;
            }
            zr_rcache_invalidate_region(cache, region);
            zr_rcache_put(cache, region);
            pthread_mutex_lock(&cache->lock);
            cache->stats.hits--;
            continue;
        }
        cache->stats.misses++;
        ret = open_region(cache, request, &region, &dead);
        if (ret == 0) {
            break;
        }
        pthread_mutex_unlock(&cache->lock);
        close_all(cache, dead);
        dead = NULL;
        if (out_of_something(ret) && !shrunk && zr_rcache_shrink(cache, ~0u) > 0) {
            shrunk = true;
        } else if (ret != -EAGAIN || ++opens == MAX_OPENS) {
            return ret;
        }
        pthread_mutex_lock(&cache->lock);
    }
    pthread_mutex_unlock(&cache->lock);
    close_all(cache, dead);
    *region_p = region;
    return 0;
}

void zr_rcache_put(struct zr_rcache *cache, struct zr_rcache_region *region)
{
    struct zr_rcache_region *dead = NULL;

    pthread_mutex_lock(&cache->lock);
    if (--region->refs == 0) {
        cache->in_use--;
        idle_append(cache, region);
        if (region->stale) {
            make_stale(cache, region, &dead);
        } else {
            trim(cache, &dead);
        }
    }
    pthread_mutex_unlock(&cache->lock);
    close_all(cache, dead);
}

void zr_rcache_invalidate(struct zr_rcache *cache, uint64_t space, uint64_t start, uint64_t size)
{
    struct zr_rcache_region *dead = NULL;
    struct zr_itree_node    *node;
    uint64_t                 end = start + size < start ? UINT64_MAX : start + size;

    pthread_mutex_lock(&cache->lock);
    while ((node = zr_itree_find(&cache->tree, space, start, end, NULL, NULL)) != NULL) {
        cache->stats.invalidations++;
        make_stale(cache, region_of(node), &dead);
    }
    pthread_mutex_unlock(&cache->lock);
    close_all(cache, dead);
}

void zr_rcache_invalidate_region(struct zr_rcache *cache, struct zr_rcache_region *region)
{
    struct zr_rcache_region *dead = NULL;

    pthread_mutex_lock(&cache->lock);
    if (!region->stale) {
        cache->stats.invalidations++;
        make_stale(cache, region, &dead);
    }
    pthread_mutex_unlock(&cache->lock);
}

unsigned zr_rcache_shrink(struct zr_rcache *cache, unsigned count)
{
    struct zr_rcache_region *dead   = NULL;
    unsigned                 closed = 0;

    pthread_mutex_lock(&cache->lock);
    for (; closed < count && cache->idle.next != &cache->idle; closed++) {
        cache->stats.evictions++;
        make_stale(cache, cache->idle.next, &dead);
    }
    pthread_mutex_unlock(&cache->lock);
    close_all(cache, dead);
    return closed;
}

void zr_rcache_get_stats(struct zr_rcache *cache, struct zr_rcache_stats *stats)
{
    pthread_mutex_lock(&cache->lock);
    *stats = cache->stats;
    pthread_mutex_unlock(&cache->lock);
}
