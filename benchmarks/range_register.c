/* Look-ups of registrations by the number of ranges cached: ours (hit and put), and on the same
 * keys UCX's registration cache (get and put) and its page table alone. In rounds, so that a slow
 * moment of the machine hits all of them. */
/* SPDX-License-Identifier: BSD-3-Clause */
#include "config.h"
#include "range.h"

#include "rcache/rcache.h"

#include <math.h>
#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#ifdef HAVE_UCX_HEADERS
#include <ucs/datastruct/pgtable.h>
#include <ucs/memory/rcache.h>
#endif

#define BASE    UINT64_C(0x100000000000)
#define LENGTH  65536u /* of a range, with as much to the next one */
#define STRIDE  (2 * (uint64_t)LENGTH)
#define HOT     64u
#define LOOKUPS 200000u
#define THREAD_LOOKUPS (10 * LOOKUPS) /* threads start at different times */
#define SPACE   7

/* ---- the three, behind one face: look the key up; 0 if it is not there ---- */

struct cache {
    struct zr_rcache *ours;
#ifdef HAVE_UCX_HEADERS
    ucs_rcache_t      *ucs;
    ucs_pgtable_t      pgtable;
    ucs_pgt_region_t **regions;
#endif
    uint64_t           count;
};

static const struct zr_rcache_identity identity = {.id = 1};

static int open_any(void *owner, const struct zr_rcache_request *request,
                    struct zr_rcache_region *region, uint64_t *start_p, uint64_t *end_p)
{
    (void)owner;
    (void)request;
    (void)start_p;
    (void)end_p;
    region->data = region;
    return 0;
}

static void close_any(void *owner, struct zr_rcache_region *region)
{
    (void)owner;
    (void)region;
}

static const struct zr_rcache_ops ours_ops = {.open = open_any, .close = close_any};

static int ours(struct cache *cache, uint64_t address)
{
    struct zr_rcache_request request = {SPACE, address, LENGTH / 2, &identity, NULL};
    struct zr_rcache_region *region;

    if (zr_rcache_get(cache->ours, &request, &region) != 0) {
        return 0;
    }
    zr_rcache_put(cache->ours, region);
    return 1;
}

#ifdef HAVE_UCX_HEADERS
static ucs_status_t ucs_reg(void *context, ucs_rcache_t *rcache, void *arg,
                            ucs_rcache_region_t *region, uint16_t flags)
{
    return UCS_OK;
}

static void ucs_dereg(void *context, ucs_rcache_t *rcache, ucs_rcache_region_t *region)
{
}

static void ucs_dump(void *context, ucs_rcache_t *rcache, ucs_rcache_region_t *region, char *buf,
                     size_t max)
{
    if (max > 0) {
        buf[0] = '\0';
    }
}

/* In a static object: other versions of UCX have more operations, all of which may be NULL. */
static struct {
    ucs_rcache_ops_t ops;
    void            *more[4];
} ucs_ops = {.ops = {.mem_reg = ucs_reg, .mem_dereg = ucs_dereg, .dump_region = ucs_dump}};

static int theirs(struct cache *cache, uint64_t address)
{
    ucs_rcache_region_t *region;

    if (ucs_rcache_get(cache->ucs, (void *)(uintptr_t)address, LENGTH / 2, LENGTH, 3, NULL,
                       &region) != UCS_OK) {
        return 0;
    }
    ucs_rcache_region_put(cache->ucs, region);
    return 1;
}

static int pgtable(struct cache *cache, uint64_t address)
{
    return ucs_pgtable_lookup(&cache->pgtable, address) != NULL;
}

static ucs_pgt_dir_t *pgt_new(const ucs_pgtable_t *table)
{
    void *dir;

    return posix_memalign(&dir, 64, sizeof(ucs_pgt_dir_t)) == 0 ? dir : NULL;
}

static void pgt_free(const ucs_pgtable_t *table, ucs_pgt_dir_t *dir)
{
    free(dir);
}

static bool ucs_make(struct cache *cache)
{
    ucs_rcache_params_t params;
    uint64_t            i;

    memset(&params, 0, sizeof(params));
    ucs_rcache_set_default_params(&params);
    params.region_struct_size = sizeof(ucs_rcache_region_t);
    params.ops                = &ucs_ops.ops;
    params.flags              = UCS_RCACHE_FLAG_NO_PFN_CHECK;
    params.ucm_events         = 0;
    params.max_regions        = ~0ul;
    params.max_size           = SIZE_MAX;
    cache->regions            = calloc(cache->count, sizeof(*cache->regions));
    if (cache->regions == NULL ||
        ucs_rcache_create(&params, "zr_range", NULL, &cache->ucs) != UCS_OK ||
        ucs_pgtable_init(&cache->pgtable, pgt_new, pgt_free) != UCS_OK) {
        return false;
    }
    for (i = 0; i < cache->count; i++) {
        ucs_pgt_region_t *region;

        if (posix_memalign((void **)&region, 64, sizeof(*region)) != 0) {
            return false;
        }
        region->start     = BASE + i * STRIDE;
        region->end       = region->start + LENGTH;
        cache->regions[i] = region;
        if (ucs_pgtable_insert(&cache->pgtable, region) != UCS_OK ||
            !theirs(cache, region->start + LENGTH / 4)) {
            return false;
        }
    }
    return true;
}

static void ucs_drop(struct cache *cache)
{
    uint64_t i;

    ucs_rcache_destroy(cache->ucs);
    for (i = 0; i < cache->count; i++) {
        ucs_pgtable_remove(&cache->pgtable, cache->regions[i]);
        free(cache->regions[i]);
    }
    ucs_pgtable_cleanup(&cache->pgtable);
    free(cache->regions);
}
#else
static int theirs(struct cache *cache, uint64_t address)
{
    return 0;
}
#define pgtable theirs
static bool ucs_make(struct cache *cache)
{
    return true;
}
static void ucs_drop(struct cache *cache)
{
}
#endif

/* ---- measuring ---- */

struct keys {
    uint64_t *address;
    unsigned  mask;
};

static uint64_t next_random(uint64_t *state)
{
    *state ^= *state << 13;
    *state ^= *state >> 7;
    *state ^= *state << 17;
    return *state;
}

/* @a among of @a count ranges in turn, or any of them; addresses inside a range. */
static struct keys keys_make(uint64_t count, unsigned size, bool hot)
{
    struct keys keys  = {malloc(size * sizeof(uint64_t)), size - 1};
    uint64_t    state = UINT64_C(88172645463325252) + count + size;
    unsigned    i;

    for (i = 0; keys.address != NULL && i < size; i++) {
        uint64_t which = hot ? i * (count / size) : next_random(&state) % count;

        keys.address[i] = BASE + which * STRIDE + LENGTH / 4;
    }
    return keys;
}

typedef int (*lookup_fn)(struct cache *cache, uint64_t address);

/* Nanoseconds of one look-up; NAN if one fails. */
static double measure(struct cache *cache, lookup_fn lookup, const struct keys *keys)
{
    double   start = zr_now();
    unsigned i, found = 0;

    for (i = 0; i < LOOKUPS; i++) {
        found += lookup(cache, keys->address[i & keys->mask]);
    }
    return found == LOOKUPS ? (zr_now() - start) * 1e9 / LOOKUPS : NAN;
}

struct thread {
    pthread_t          thread;
    pthread_barrier_t *start;
    struct cache      *cache;
    struct keys        keys;
    unsigned           which;
    double             began, ended;
};

/* Each on a CPU of its own: woken at once they would share one for longer than they run. */
static void thread_place(unsigned which)
{
    cpu_set_t allowed, one;
    int       cpu;

    if (sched_getaffinity(0, sizeof(allowed), &allowed) != 0) {
        return;
    }
    for (cpu = 0; cpu < CPU_SETSIZE; cpu++) {
        if (CPU_ISSET(cpu, &allowed) && which-- == 0) {
            CPU_ZERO(&one);
            CPU_SET(cpu, &one);
            sched_setaffinity(0, sizeof(one), &one);
            return;
        }
    }
}

static void *thread_main(void *arg)
{
    struct thread *t = arg;
    unsigned       i;

    thread_place(t->which);
    pthread_barrier_wait(t->start);
    t->began = zr_now();
    for (i = 0; i < THREAD_LOOKUPS; i++) {
        ours(t->cache, t->keys.address[i & t->keys.mask]);
    }
    t->ended = zr_now();
    return NULL;
}

/* Hits a second of @a threads threads, each on its own of two ranges or all on one; one thread takes
 * the two in turn, since hits of different ranges take different times. */
static double thread_rate(struct cache *cache, unsigned threads, bool same)
{
    struct thread     t[2];
    uint64_t          address[2];
    pthread_barrier_t start;
    double            began = INFINITY, ended = 0;
    unsigned          i;

    pthread_barrier_init(&start, NULL, threads);
    for (i = 0; i < 2; i++) {
        address[i] = BASE + (same ? 0 : i * (cache->count / 2)) * STRIDE + LENGTH / 4;
    }
    for (i = 0; i < threads; i++) {
        t[i]       = (struct thread){.start = &start, .cache = cache, .which = i,
                                     .keys = {&address[i], threads == 1 && !same}};
        if (pthread_create(&t[i].thread, NULL, thread_main, &t[i]) != 0) {
            fprintf(stderr, ZR_RANGE_PROGRAM ": no thread\n");
            exit(1);
        }
    }
    for (i = 0; i < threads; i++) {
        pthread_join(t[i].thread, NULL);
        began = fmin(began, t[i].began);
        ended = fmax(ended, t[i].ended);
    }
    pthread_barrier_destroy(&start);
    return threads * (double)THREAD_LOOKUPS / (ended - began);
}

enum { RANGES, HIT, HIT_UCS, HIT_PGT, HIT_TO_UCS, HIT_TO_PGT, ANY, ANY_PGT, ANY_TO_PGT, MISS,
       DIFFERENT, SAME, VALUES };

static const struct zr_column columns[VALUES] = {
    {"Ranges", "ranges", 0},            {"hit ns", "hit_ns", 2},
    {"ucs_rcache ns", "ucs_rcache_ns", 2}, {"pgtable ns", "pgtable_ns", 2},
    {"hit/rcache", "hit_to_ucs_rcache", 3}, {"hit/pgtable", "hit_to_pgtable", 3},
    {"random ns", "random_ns", 2},      {"pgtable random", "pgtable_random_ns", 2},
    {"random/pgt", "random_to_pgtable", 3}, {"miss ns", "miss_ns", 1},
    {"2 thr differ", "threads_different", 3}, {"2 thr same", "threads_same", 3}};

/* Invalidate and miss again. */
static double measure_miss(struct cache *cache, const struct keys *keys)
{
    double   spent = 0, start;
    unsigned i;

    for (i = 0; i < 2000; i++) {
        uint64_t address = keys->address[i & keys->mask];

        zr_rcache_invalidate(cache->ours, SPACE, address, 1);
        start = zr_now();
        ours(cache, address / STRIDE * STRIDE + LENGTH / 8);
        spent += zr_now() - start;
    }
    return spent * 1e9 / 2000;
}

static bool fill(struct cache *cache)
{
    struct zr_rcache_limits limits = {.regions = UINT64_MAX, .bytes = UINT64_MAX};
    uint64_t                i;

    if (zr_rcache_create(&ours_ops, NULL, &limits, &cache->ours) != 0) {
        return false;
    }
    for (i = 0; i < cache->count; i++) {
        struct zr_rcache_request request = {SPACE, BASE + i * STRIDE, LENGTH, &identity, NULL};
        struct zr_rcache_region *region;

        if (zr_rcache_get(cache->ours, &request, &region) != 0) {
            return false;
        }
        zr_rcache_put(cache->ours, region);
    }
    return ucs_make(cache);
}

static bool run_count(const struct zr_range_options *o, uint64_t count, struct zr_table *table)
{
    static double v[VALUES][ZR_RANGE_MAX_ROUNDS];
    struct cache  cache = {.count = count};
    struct keys   hot = keys_make(count, HOT, true), any = keys_make(count, 1u << 17, false);
    double        row[VALUES] = {(double)count};
    unsigned      r, k;

    if (hot.address == NULL || any.address == NULL || !fill(&cache)) {
        fprintf(stderr, ZR_RANGE_PROGRAM ": no memory for %llu ranges\n",
                (unsigned long long)count);
        return false;
    }
    for (r = 0; r < o->rounds; r++) {
        zr_progress(ZR_RANGE_PROGRAM, "%llu ranges, round %u ...", (unsigned long long)count,
                    r + 1);
        v[HIT][r]        = measure(&cache, ours, &hot);
        v[HIT_UCS][r]    = measure(&cache, theirs, &hot);
        v[HIT_PGT][r]    = measure(&cache, pgtable, &hot);
        v[HIT_TO_UCS][r] = v[HIT][r] / v[HIT_UCS][r];
        v[HIT_TO_PGT][r] = v[HIT][r] / v[HIT_PGT][r];
        v[ANY][r]        = measure(&cache, ours, &any);
        v[ANY_PGT][r]    = measure(&cache, pgtable, &any);
        v[ANY_TO_PGT][r] = v[ANY][r] / v[ANY_PGT][r];
        v[DIFFERENT][r]  = thread_rate(&cache, 2, false) / thread_rate(&cache, 1, false);
        v[SAME][r]       = thread_rate(&cache, 2, true) / thread_rate(&cache, 1, true);
    }
    for (r = 0; r < o->rounds; r++) {
        v[MISS][r] = measure_miss(&cache, &any);
    }
    for (k = 1; k < VALUES; k++) {
        row[k] = zr_median(v[k], (unsigned)o->rounds);
    }
    zr_table_row(table, row);
    zr_rcache_destroy(cache.ours);
    ucs_drop(&cache);
    free(hot.address);
    free(any.address);
    return true;
}

int zr_range_register(const struct zr_range_options *o)
{
    struct zr_table table = {ZR_RANGE_PROGRAM, "Registration Cache", o->format, columns, VALUES, 0};
    uint64_t        count;

    zr_table_begin(&table);
    for (count = o->first_ranges; count <= o->last_ranges; count *= 10) {
        if (!run_count(o, count, &table)) {
            return 1;
        }
    }
    zr_table_end(&table);
    return 0;
}
