/* The registration cache alone: which requests hit, what is closed and when, and threads. */
/* SPDX-License-Identifier: BSD-3-Clause */
#include "rcache/look.h"

#include <errno.h>
#include <malloc.h>
#include <pthread.h>
#include <sched.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <linux/seccomp.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

/* A fake owner: counts, and widens or fails as a test asks. */
struct owner {
    atomic_int       opens, closes, live, told;
    uint64_t         widen; /* both sides, aligned */
    int              fail;  /* what open returns */
    int              fail_times;
    bool             invalid; /* what valid answers, inverted */
    atomic_int       hold;    /* open waits while set */
    atomic_int       inside;  /* threads in open */
    _Atomic uint64_t next_id;
};

static int fake_open(void *arg, const struct zr_rcache_request *request,
                     struct zr_rcache_region *region, uint64_t *start_p, uint64_t *end_p)
{
    struct owner *owner = arg;

    atomic_fetch_add(&owner->opens, 1);
    atomic_fetch_add(&owner->inside, 1);
    while (atomic_load(&owner->hold)) {
        sched_yield();
    }
    atomic_fetch_sub(&owner->inside, 1);
    if (owner->fail != 0 && owner->fail_times-- > 0) {
        return owner->fail;
    }
    if (owner->widen != 0) {
        *start_p = *start_p / owner->widen * owner->widen;
        *end_p   = (*end_p + owner->widen - 1) / owner->widen * owner->widen;
    }
    if (request->identity == NULL) {
        region->identity.id = ++owner->next_id;
    }
    region->data = owner;
    atomic_fetch_add(&owner->live, 1);
    return 0;
}

static void fake_close(void *arg, struct zr_rcache_region *region)
{
    struct owner *owner = arg;

    assert_ptr_equal(region->data, owner);
    assert_int_equal(atomic_load(&region->state), ZR_RCACHE_STALE | ZR_RCACHE_CLOSED);
    region->data = NULL; /* who still uses it sees that */
    atomic_fetch_add(&owner->closes, 1);
    atomic_fetch_sub(&owner->live, 1);
}

static void fake_stale(void *arg, struct zr_rcache_region *region)
{
    struct owner *owner = arg;

    assert_ptr_equal(region->data, owner);
    assert_true(atomic_load(&region->state) > ZR_RCACHE_STALE); /* in use */
    atomic_fetch_add(&owner->told, 1);
}

static bool fake_valid(void *arg, const struct zr_rcache_region *region)
{
    return !((struct owner *)arg)->invalid;
}

static const struct zr_rcache_ops ops = {fake_open, fake_close, fake_stale, fake_valid};

static struct zr_rcache *make(struct owner *owner, uint64_t regions, uint64_t bytes,
                              bool supersede)
{
    struct zr_rcache_limits limits = {regions, bytes, supersede};
    struct zr_rcache       *cache;

    memset(owner, 0, sizeof(*owner));
    assert_int_equal(zr_rcache_create(&ops, owner, &limits, &cache), 0);
    return cache;
}

static int get(struct zr_rcache *cache, uint64_t space, uint64_t start, uint64_t size,
               uint64_t id, struct zr_rcache_region **region_p)
{
    struct zr_rcache_identity identity = {.id = id};
    struct zr_rcache_request  request  = {space, start, size, id != 0 ? &identity : NULL, NULL};

    return zr_rcache_get(cache, &request, region_p);
}

/* Use once and let go. */
static void touch(struct zr_rcache *cache, uint64_t space, uint64_t start, uint64_t size,
                  uint64_t id)
{
    struct zr_rcache_region *region;

    assert_int_equal(get(cache, space, start, size, id, &region), 0);
    assert_true(region->node.start <= start && region->node.end >= start + size);
    zr_rcache_put(cache, region);
}

/* Each case: one region, one request; does it hit? */
static void requests_that_hit(void **state)
{
    static const struct {
        const char *what;
        uint64_t    space, start, size, id;
        bool        hits;
    } cases[] = {
        {"the same", 1, 0x1000, 0x1000, 5, true},
        {"the first byte", 1, 0x1000, 1, 5, true},
        {"the last byte", 1, 0x1fff, 1, 5, true},
        {"inside", 1, 0x1800, 0x100, 5, true},
        {"one byte before", 1, 0xfff, 2, 5, false},
        {"one byte after", 1, 0x1fff, 2, 5, false},
        {"around", 1, 0x800, 0x2000, 5, false},
        {"right before", 1, 0x800, 0x800, 5, false},
        {"right behind", 1, 0x2000, 0x800, 5, false},
        {"another peer", 2, 0x1000, 0x1000, 5, false},
        {"another export", 1, 0x1000, 0x1000, 6, false},
        {"an older export", 1, 0x1000, 0x1000, 4, false},
    };
    struct owner      owner;
    struct zr_rcache *cache;
    unsigned          k;

    for (k = 0; k < sizeof(cases) / sizeof(cases[0]); k++) {
        cache = make(&owner, UINT64_MAX, UINT64_MAX, false);
        touch(cache, 1, 0x1000, 0x1000, 5);
        touch(cache, cases[k].space, cases[k].start, cases[k].size, cases[k].id);
        if (owner.opens != (cases[k].hits ? 1 : 2)) {
            fail_msg("%s: %d opens", cases[k].what, owner.opens);
        }
        assert_int_equal(zr_rcache_destroy(cache), 0);
        assert_int_equal(owner.closes, owner.opens);
    }
}

static void refuses_nothing_and_wrap(void **state)
{
    struct owner             owner;
    struct zr_rcache        *cache = make(&owner, UINT64_MAX, UINT64_MAX, false);
    struct zr_rcache_region *region;

    assert_int_equal(get(cache, 0, 0x1000, 0, 1, &region), -EINVAL);
    assert_int_equal(get(cache, 0, UINT64_MAX - 5, 7, 1, &region), -EINVAL);
    assert_int_equal(owner.opens, 0);
    touch(cache, 0, 0x1000, 0x1000, 1); /* nor where there is a region to be found in */
    assert_int_equal(get(cache, 0, 0x1800, 0, 1, &region), -EINVAL);
    assert_int_equal(get(cache, 0, 0x1800, 0 - UINT64_C(0x1800), 1, &region), -EINVAL);
    assert_int_equal(get(cache, 0, 0x1800, UINT64_MAX, 1, &region), -EINVAL);
    assert_int_equal(owner.opens, 1);
    zr_rcache_destroy(cache);
}

static void widened_region_serves_neighbours(void **state)
{
    struct owner           owner;
    struct zr_rcache      *cache = make(&owner, UINT64_MAX, UINT64_MAX, false);
    struct zr_rcache_stats stats;
    uint64_t               p;

    owner.widen = 0x10000;
    for (p = 0; p < 0x10000; p += 0x1000) {
        touch(cache, 0, 0x40000 + p, 0x1000, 0);
    }
    assert_int_equal(owner.opens, 1);
    zr_rcache_get_stats(cache, &stats);
    assert_int_equal(stats.hits, 15);
    assert_int_equal(stats.bytes, 0x10000);
    zr_rcache_destroy(cache);
}

static void least_recently_used_goes_first(void **state)
{
    struct owner             owner;
    struct zr_rcache        *cache = make(&owner, 3, UINT64_MAX, false);
    struct zr_rcache_region *used;

    touch(cache, 1, 0x1000, 0x1000, 1);
    touch(cache, 1, 0x2000, 0x1000, 1);
    touch(cache, 1, 0x3000, 0x1000, 1);
    touch(cache, 1, 0x1000, 0x1000, 1); /* 0x2000 is the oldest now */
    touch(cache, 1, 0x4000, 0x1000, 1);
    assert_int_equal(owner.closes, 1);
    touch(cache, 1, 0x1000, 0x1000, 1);
    assert_int_equal(owner.opens, 4);
    touch(cache, 1, 0x2000, 0x1000, 1);
    assert_int_equal(owner.opens, 5);

    /* What is in use stays, however old. */
    assert_int_equal(get(cache, 1, 0x2000, 0x1000, 1, &used), 0);
    touch(cache, 1, 0x5000, 0x1000, 1);
    touch(cache, 1, 0x6000, 0x1000, 1);
    touch(cache, 1, 0x7000, 0x1000, 1);
    touch(cache, 1, 0x8000, 0x1000, 1);
    assert_int_equal(owner.live, 3);
    assert_ptr_equal(used->data, &owner);
    zr_rcache_put(cache, used);
    zr_rcache_destroy(cache);
}

static void bytes_are_bounded(void **state)
{
    struct owner           owner;
    struct zr_rcache      *cache = make(&owner, UINT64_MAX, 0x8000, false);
    struct zr_rcache_stats stats;
    unsigned               k;

    for (k = 1; k <= 20; k++) {
        touch(cache, 1, k * 0x10000, 0x3000, 1);
        zr_rcache_get_stats(cache, &stats);
        assert_true(stats.bytes <= 0x8000);
    }
    assert_int_equal(stats.evictions, 18);
    zr_rcache_destroy(cache);
}

static void invalidation_spares_what_it_does_not_touch(void **state)
{
    struct owner             owner;
    struct zr_rcache        *cache = make(&owner, UINT64_MAX, UINT64_MAX, false);
    struct zr_rcache_region *used;

    touch(cache, 0, 0x1000, 0x1000, 0);
    touch(cache, 0, 0x2000, 0x1000, 0);
    touch(cache, 7, 0x2000, 0x1000, 0);
    assert_int_equal(get(cache, 0, 0x3000, 0x1000, 0, &used), 0);
    zr_rcache_invalidate(cache, 0, 0x2800, 0x1000);
    assert_int_equal(owner.closes, 1);  /* 0x2000 */
    touch(cache, 0, 0x1000, 0x1000, 0);
    touch(cache, 7, 0x2000, 0x1000, 0);
    assert_int_equal(owner.opens, 4);
    touch(cache, 0, 0x3000, 0x1000, 0); /* not the stale one */
    assert_int_equal(owner.opens, 5);
    zr_rcache_put(cache, used);
    assert_int_equal(owner.closes, 2);
    zr_rcache_destroy(cache);
    assert_int_equal(owner.live, 0);
}

static void newer_export_supersedes_what_it_covers(void **state)
{
    struct owner      owner;
    struct zr_rcache *cache = make(&owner, UINT64_MAX, UINT64_MAX, true);

    touch(cache, 1, 0x1000, 0x1000, 1);
    touch(cache, 1, 0x8000, 0x1000, 2);
    touch(cache, 1, 0x1000, 0x3000, 3); /* grown: the old one's memory is let go */
    assert_int_equal(owner.closes, 1);
    touch(cache, 1, 0x8000, 0x1000, 2);
    assert_int_equal(owner.opens, 3);
    touch(cache, 1, 0x1000, 0x1000, 4); /* a part of it is other memory now */
    assert_int_equal(owner.closes, 1);
    zr_rcache_destroy(cache);
}

static void invalid_hit_is_opened_again(void **state)
{
    struct owner             owner;
    struct zr_rcache        *cache = make(&owner, UINT64_MAX, UINT64_MAX, false);
    struct zr_rcache_region *region;

    touch(cache, 0, 0x1000, 0x1000, 0);
    owner.invalid = true;
    assert_int_equal(get(cache, 0, 0x1000, 0x1000, 0, &region), 0);
    owner.invalid = false;
    assert_int_equal(owner.opens, 2);
    assert_int_equal(owner.closes, 1);
    zr_rcache_put(cache, region);
    zr_rcache_destroy(cache);
}

static void failure_is_returned_and_not_kept(void **state)
{
    struct owner             owner;
    struct zr_rcache        *cache = make(&owner, UINT64_MAX, UINT64_MAX, false);
    struct zr_rcache_region *region;

    owner.fail       = -EIO;
    owner.fail_times = 1;
    assert_int_equal(get(cache, 0, 0x1000, 0x1000, 0, &region), -EIO);
    assert_int_equal(get(cache, 0, 0x1000, 0x1000, 0, &region), 0);
    zr_rcache_put(cache, region);

    /* Out of something: what is idle goes, then once more. */
    owner.fail       = -EMFILE;
    owner.fail_times = 1;
    assert_int_equal(get(cache, 0, 0x5000, 0x1000, 0, &region), 0);
    assert_int_equal(owner.closes, 1);
    zr_rcache_put(cache, region);
    owner.fail_times = 100;
    assert_int_equal(get(cache, 0, 0x9000, 0x1000, 0, &region), -EMFILE);
    zr_rcache_destroy(cache);
}

/* ---- threads ---- */

struct thread {
    pthread_t         id;
    struct zr_rcache *cache;
    uint64_t          start;
    unsigned          seed;
};

static void *touch_once(void *arg)
{
    struct thread *t = arg;

    touch(t->cache, 1, t->start, 0x1000, 1);
    return NULL;
}

static void *touch_any(void *arg)
{
    struct thread *t = arg;

    touch(t->cache, 1, t->start, 0x1000, 0);
    return NULL;
}

static void spawn(struct thread *t, struct zr_rcache *cache, uint64_t start,
                  void *(*body)(void *))
{
    t->cache = cache;
    t->start = start;
    assert_int_equal(pthread_create(&t->id, NULL, body, t), 0);
}

static void two_threads_open_the_same_range_once(void **state)
{
    struct owner      owner;
    struct zr_rcache *cache = make(&owner, UINT64_MAX, UINT64_MAX, false);
    struct thread     t[4];
    unsigned          k;

    owner.hold = 1;
    for (k = 0; k < 4; k++) {
        spawn(&t[k], cache, 0x1000, touch_once);
    }
    while (owner.inside == 0) {
        sched_yield();
    }
    owner.hold = 0;
    for (k = 0; k < 4; k++) {
        pthread_join(t[k].id, NULL);
    }
    assert_int_equal(owner.opens, 1);
    zr_rcache_destroy(cache);
}

static void misses_do_not_wait_for_each_other_nor_do_hits(void **state)
{
    struct owner      owner;
    struct zr_rcache *cache = make(&owner, UINT64_MAX, UINT64_MAX, false);
    struct thread     t[2];

    touch(cache, 1, 0x9000, 0x1000, 1);
    owner.hold = 1;
    spawn(&t[0], cache, 0x1000, touch_once);
    spawn(&t[1], cache, 0x3000, touch_once);
    while (owner.inside != 2) {
        sched_yield(); /* both are being opened at once */
    }
    touch(cache, 1, 0x9000, 0x1000, 1);
    owner.hold = 0;
    pthread_join(t[0].id, NULL);
    pthread_join(t[1].id, NULL);
    zr_rcache_destroy(cache);
}

static void invalidated_while_opening_is_opened_again(void **state)
{
    struct owner      owner;
    struct zr_rcache *cache = make(&owner, UINT64_MAX, UINT64_MAX, false);
    struct thread     t;

    owner.hold = 1;
    spawn(&t, cache, 0x1000, touch_once);
    while (owner.inside == 0) {
        sched_yield();
    }
    zr_rcache_invalidate(cache, 1, 0x1800, 1);
    owner.hold = 0;
    pthread_join(t.id, NULL);
    assert_int_equal(owner.opens, 2);
    assert_int_equal(owner.closes, 1);
    zr_rcache_destroy(cache);
}

/* A neighbour goes while an export that will cover it too is being made: it must not be kept. */
static void widened_over_what_goes_is_opened_again(void **state)
{
    struct owner      owner;
    struct zr_rcache *cache = make(&owner, UINT64_MAX, UINT64_MAX, false);
    struct thread     t;

    owner.widen = 0x10000;
    owner.hold  = 1;
    spawn(&t, cache, 0x1000, touch_any);
    while (owner.inside == 0) {
        sched_yield();
    }
    zr_rcache_invalidate(cache, 1, 0x8000, 0x1000);
    zr_rcache_invalidate(cache, 1, 0x20000, 0x1000); /* not its neighbour */
    owner.hold = 0;
    pthread_join(t.id, NULL);
    assert_int_equal(owner.opens, 2);
    assert_int_equal(owner.closes, 1);
    zr_rcache_destroy(cache);
}

static _Atomic(struct zr_rcache_region *) handed_over;

static void *random_use(void *arg)
{
    struct thread *t = arg;
    unsigned       k, r;

    for (k = 0; k < 20000; k++) {
        r = rand_r(&t->seed);
        if (r % 16 == 0) {
            zr_rcache_invalidate(t->cache, 1, (r >> 8) % 64 * 0x1000, 0x2000);
        } else if (r % 64 == 1) {
            zr_rcache_shrink(t->cache, 4);
        } else {
            struct zr_rcache_region *region;
            int ret = get(t->cache, 1, (r >> 8) % 64 * 0x1000, 1 + (r >> 16) % 0x3000, 0, &region);

            if (ret == 0) {
                if (r % 8 == 2) {
                    sched_yield();
                }
                assert_non_null(region->data);
                if (r % 4 == 2) { /* another thread gives it back */
                    region = atomic_exchange(&handed_over, region);
                }
                if (region != NULL) {
                    assert_non_null(region->data);
                    zr_rcache_put(t->cache, region);
                }
            } else {
                assert_int_equal(ret, -EAGAIN);
            }
        }
    }
    return NULL;
}

static void random_use_leaks_nothing(void **state)
{
    struct owner           owner;
    struct zr_rcache      *cache = make(&owner, 16, UINT64_MAX, false);
    struct zr_rcache_stats stats;
    struct thread          t[4];
    unsigned               k;

    for (k = 0; k < 4; k++) {
        t[k].seed = 17 + k;
        spawn(&t[k], cache, 0, random_use);
    }
    for (k = 0; k < 4; k++) {
        pthread_join(t[k].id, NULL);
    }
    if (handed_over != NULL) {
        zr_rcache_put(cache, handed_over);
        handed_over = NULL;
    }
    zr_rcache_get_stats(cache, &stats);
    assert_true(stats.regions <= 16);
    assert_true(stats.hits > 0 && stats.evictions > 0 && stats.invalidations > 0);
    assert_int_equal(zr_rcache_destroy(cache), 0);
    assert_int_equal(owner.live, 0);
}

/* Sanitizers make calls of their own, a forked child of theirs may not even end. */
#if defined(__SANITIZE_THREAD__) || defined(__SANITIZE_ADDRESS__)
#define SANITIZED 1
#elif defined(__has_feature)
#if __has_feature(thread_sanitizer) || __has_feature(address_sanitizer)
#define SANITIZED 1
#endif
#endif
#ifndef SANITIZED
#define SANITIZED 0
#endif

/* ---- references of several threads ---- */

struct errand {
    struct zr_rcache        *cache;
    struct zr_rcache_region *region;
    unsigned                 gets, puts;
};

static void *run_errand(void *arg)
{
    struct errand *errand = arg;

    while (errand->gets > 0) {
        errand->gets--;
        assert_int_equal(get(errand->cache, 1, 0x1000, 0x1000, 5, &errand->region), 0);
    }
    while (errand->puts > 0) {
        errand->puts--;
        zr_rcache_put(errand->cache, errand->region);
    }
    return NULL;
}

static void in_a_thread(struct errand *errand, unsigned gets, unsigned puts)
{
    pthread_t id;

    errand->gets = gets;
    errand->puts = puts;
    assert_int_equal(pthread_create(&id, NULL, run_errand, errand), 0);
    pthread_join(id, NULL);
}

/* Who takes a reference and who gives it back may be different threads, and the first may be gone:
 * the region is closed with the last one, not before and not never. */
static void references_are_those_of_all_threads(void **state)
{
    static const struct {
        unsigned gets_here, gets_there, puts_here, puts_there;
    } cases[] = {{3, 0, 0, 3}, {0, 3, 3, 0}, {2, 2, 3, 1}, {2, 2, 1, 3}, {1, 1, 1, 1}, {0, 1, 0, 1}};
    struct owner   owner;
    unsigned       k, n, when;

    for (k = 0; k < 2 * sizeof(cases) / sizeof(cases[0]); k++) {
        struct errand           errand = {make(&owner, UINT64_MAX, UINT64_MAX, false), NULL, 0, 0};
        struct zr_rcache_region *more;

        when = k % 2; /* it goes stale before what is given back, or in the middle */
        touch(errand.cache, 1, 0x1000, 0x1000, 5);
        for (n = 0; n < cases[k / 2].gets_here; n++) {
            assert_int_equal(get(errand.cache, 1, 0x1000, 0x1000, 5, &errand.region), 0);
        }
        in_a_thread(&errand, cases[k / 2].gets_there, 0);
        assert_int_equal(get(errand.cache, 1, 0x1000, 0x1000, 5, &more), 0);
        assert_int_equal(owner.opens, 1);
        if (when == 0) {
            zr_rcache_invalidate(errand.cache, 1, 0, UINT64_MAX);
        }
        in_a_thread(&errand, 0, cases[k / 2].puts_there);
        if (when == 1) {
            zr_rcache_invalidate(errand.cache, 1, 0, UINT64_MAX);
        }
        for (n = 0; n < cases[k / 2].puts_here; n++) {
            zr_rcache_put(errand.cache, errand.region);
        }
        assert_int_equal(owner.closes, 0);
        zr_rcache_put(errand.cache, more);
        assert_int_equal(owner.closes, 1);
        assert_int_equal(zr_rcache_destroy(errand.cache), 0);
    }
}

/* What other threads let go counts as idle, whoever had taken it. */
static void what_nobody_uses_makes_room(void **state)
{
    struct owner  owner;
    struct errand errand = {make(&owner, 1, UINT64_MAX, false), NULL, 0, 0};

    touch(errand.cache, 1, 0x1000, 0x1000, 5);
    assert_int_equal(get(errand.cache, 1, 0x1000, 0x1000, 5, &errand.region), 0);
    touch(errand.cache, 1, 0x8000, 0x1000, 6); /* beyond the limit, and the first is used */
    assert_int_equal(owner.closes, 1);
    in_a_thread(&errand, 0, 1);
    touch(errand.cache, 1, 0x10000, 0x1000, 7);
    assert_int_equal(owner.closes, 2);
    assert_int_equal(zr_rcache_destroy(errand.cache), 0);
    assert_int_equal(owner.closes, 3);
}

static atomic_bool stop_hits;

static void *hit_until_told(void *arg)
{
    struct thread *t = arg;

    while (!atomic_load(&stop_hits)) {
        touch(t->cache, 1, 0x1000, 0x1000, 1);
    }
    return NULL;
}

/* The child has one thread; those that were looking in the parent look no more. */
static void a_forked_child_goes_on(void **state)
{
    struct owner      owner;
    struct zr_rcache *cache = make(&owner, UINT64_MAX, UINT64_MAX, false);
    struct thread     t[2];
    unsigned          k;
    int               status;
    pid_t             pid;

    if (SANITIZED) {
        zr_rcache_destroy(cache);
        skip();
    }
    touch(cache, 1, 0x1000, 0x1000, 1);
    stop_hits = false;
    for (k = 0; k < 2; k++) {
        spawn(&t[k], cache, 0, hit_until_told);
    }
    for (k = 0; k < 20; k++) {
        pid = fork();
        assert_true(pid >= 0);
        if (pid == 0) {
            alarm(20);
            touch(cache, 1, 0x1000, 0x1000, 1);
            zr_rcache_invalidate(cache, 1, 0x1000, 1);
            touch(cache, 1, 0x1000, 0x1000, 1);
            _exit(owner.opens == 2 ? 0 : 1);
        }
        assert_int_equal(waitpid(pid, &status, 0), pid);
        assert_int_equal(status, 0);
    }
    stop_hits = true;
    for (k = 0; k < 2; k++) {
        pthread_join(t[k].id, NULL);
    }
    assert_int_equal(zr_rcache_destroy(cache), 0);
}

/* ---- what a hit costs ---- */

static atomic_int locks, allocations;

int   __real_pthread_mutex_lock(pthread_mutex_t *mutex);
void *__real_malloc(size_t size);
void *__real_calloc(size_t count, size_t size);
int   __wrap_pthread_mutex_lock(pthread_mutex_t *mutex);
void *__wrap_malloc(size_t size);
void *__wrap_calloc(size_t count, size_t size);

int __wrap_pthread_mutex_lock(pthread_mutex_t *mutex)
{
    atomic_fetch_add(&locks, 1);
    return __real_pthread_mutex_lock(mutex);
}

void *__wrap_malloc(size_t size)
{
    atomic_fetch_add(&allocations, 1);
    return __real_malloc(size);
}

void *__wrap_calloc(size_t count, size_t size)
{
    atomic_fetch_add(&allocations, 1);
    return __real_calloc(count, size);
}

static void a_hit_takes_no_lock_and_allocates_nothing(void **state)
{
    struct owner      owner;
    struct zr_rcache *cache = make(&owner, UINT64_MAX, UINT64_MAX, false);
    unsigned          k;

    locks = allocations = 0;
    for (k = 0; k < 50; k++) {
        touch(cache, 1 + k % 3, 0x10000 * k, 0x8000, 1 + k);
    }
    assert_true(locks > 0 && allocations > 0); /* misses are counted, so hits would be */
    locks = allocations = 0;
    for (k = 0; k < 50; k++) {
        touch(cache, 1 + k % 3, 0x10000 * k + k, 0x100, 1 + k);
    }
    assert_int_equal(owner.opens, 50);
    assert_int_equal(locks, 0);
    assert_int_equal(allocations, 0);
    zr_rcache_destroy(cache);
}

/* The kernel ends a process in strict mode at any call but read, write and exit. */
static void a_hit_makes_no_system_call(void **state)
{
    struct owner      owner;
    struct zr_rcache *cache = make(&owner, UINT64_MAX, UINT64_MAX, false);
    unsigned          k;
    int               status;
    pid_t             pid;

    if (SANITIZED) {
        zr_rcache_destroy(cache);
        skip();
    }
    for (k = 0; k < 50; k++) {
        touch(cache, 1, 0x10000 * k, 0x8000, 1 + k);
    }
    pid = fork();
    assert_true(pid >= 0);
    if (pid == 0) {
        if (prctl(PR_SET_SECCOMP, SECCOMP_MODE_STRICT) != 0) {
            _exit(2);
        }
        for (k = 0; k < 1000; k++) {
            touch(cache, 1, 0x10000 * (k % 50), 0x8000, 1 + k % 50);
        }
        syscall(SYS_exit, owner.opens == 50 ? 0 : 1);
    }
    assert_int_equal(waitpid(pid, &status, 0), pid);
    if (WIFEXITED(status) && WEXITSTATUS(status) == 2) {
        print_message("strict mode cannot be entered here\n");
    } else {
        assert_int_equal(status, 0);
    }
    zr_rcache_destroy(cache);
}

static void an_owner_is_told_of_what_goes_stale_in_use(void **state)
{
    struct owner             owner;
    struct zr_rcache        *cache = make(&owner, UINT64_MAX, UINT64_MAX, false);
    struct zr_rcache_region *region;

    assert_int_equal(get(cache, 0, 0x1000, 0x1000, 0, &region), 0);
    zr_rcache_invalidate(cache, 0, 0x1fff, 1);
    assert_int_equal(owner.told, 1);
    assert_int_equal(owner.closes, 0);
    zr_rcache_invalidate(cache, 0, 0x1fff, 1);
    zr_rcache_invalidate_region(cache, region);
    assert_int_equal(owner.told, 1); /* once */
    zr_rcache_put(cache, region);
    assert_int_equal(owner.closes, 1);
    touch(cache, 0, 0x1000, 0x1000, 0);
    zr_rcache_invalidate(cache, 0, 0x1000, 1);
    assert_int_equal(owner.told, 1); /* an idle one is closed */
    assert_int_equal(owner.closes, 2);
    zr_rcache_destroy(cache);
}

static void invalidation_by_number_spares_the_others(void **state)
{
    struct owner      owner;
    struct zr_rcache *cache = make(&owner, UINT64_MAX, UINT64_MAX, false);

    touch(cache, 1, 0x1000, 0x2000, 5);
    touch(cache, 1, 0x1000, 0x2000, 6);
    touch(cache, 2, 0x1000, 0x2000, 5);
    zr_rcache_invalidate_id(cache, 1, 0, UINT64_MAX, 5);
    assert_int_equal(owner.closes, 1);
    touch(cache, 1, 0x1000, 0x2000, 6);
    touch(cache, 2, 0x1000, 0x2000, 5);
    assert_int_equal(owner.opens, 3);
    touch(cache, 1, 0x1000, 0x2000, 5);
    assert_int_equal(owner.opens, 4);
    zr_rcache_destroy(cache);
}

/* Two slices of one extent are missed at once: one region stays. */
static void slices_missed_at_once_leave_one_region(void **state)
{
    struct owner          owner;
    struct zr_rcache     *cache = make(&owner, UINT64_MAX, UINT64_MAX, false);
    struct zr_rcache_stats stats;
    struct thread         t[2];
    unsigned              k;

    owner.widen = 0x10000;
    owner.hold  = 1;
    for (k = 0; k < 2; k++) {
        spawn(&t[k], cache, 0x2000 * k, touch_any);
    }
    while (owner.inside != 2) {
        sched_yield();
    }
    owner.hold = 0;
    pthread_join(t[0].id, NULL);
    pthread_join(t[1].id, NULL);
    zr_rcache_get_stats(cache, &stats);
    assert_int_equal(stats.regions, 1);
    assert_int_equal(owner.closes, 1);
    assert_int_equal(zr_rcache_destroy(cache), 0);
}

/* The view alone against a list: ranges of all lengths over each other in three spaces, many of
 * them with the same start, put in and taken out. */
static void the_view_finds_what_a_list_finds(void **state)
{
    enum { COUNT = 4000, ROUNDS = 20000 };
    static struct zr_view    view;
    static pthread_mutex_t   lock = PTHREAD_MUTEX_INITIALIZER;
    struct zr_desk          *desk;
    struct zr_rcache_region *regions = calloc(COUNT, sizeof(*regions)), *found;
    bool                    *in      = calloc(COUNT, sizeof(*in));
    uint64_t                 random  = 1;
    unsigned                 k, round;
    bool                     there, last;

    zr_desks_init(&view.desks, &lock);
    desk = zr_desk_open(&view.desks);
    assert_non_null(desk);
    for (round = 0; round < ROUNDS; round++) {
        random = random * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
        k      = (unsigned)(random >> 33) % COUNT;
        if (!in[k] && (round < ROUNDS / 2 ? round % 4 != 0 : round % 8 == 1)) {
            struct zr_rcache_region *r = &regions[k];

            r->node.space  = 1 + k % 3;
            r->node.start  = (random >> 20) % 512 * 0x1000;
            r->node.end    = r->node.start + 0x1000 * (1 + (random >> 40) % (k % 17 == 0 ? 400 : 5));
            r->identity.id = 1 + k % 7;
            atomic_store(&r->state, 0);
            zr_view_insert(&view, r);
            in[k] = true;
        } else if (in[k] && (round >= ROUNDS / 2 || round % 8 == 0)) {
            zr_view_hide(&view, &regions[k]);
            zr_view_remove(&view, &regions[k]);
            in[k] = false;
        }
        struct zr_rcache_identity identity = {.id = 1 + (random >> 45) % 7};
        struct zr_rcache_request  request  = {1 + (random >> 50) % 3, (random >> 25) % 520 * 0x1000,
                                              0x1000 * (1 + (random >> 55) % 4), &identity, NULL};

        there = false;
        for (k = 0; k < COUNT && !there; k++) {
            there = in[k] && regions[k].node.space == request.space &&
                    regions[k].node.start <= request.start &&
                    regions[k].node.end >= request.start + request.size &&
                    regions[k].identity.id == identity.id;
        }
        found = zr_view_acquire(&view, desk, &request);
        assert_int_equal(found != NULL, there);
        if (found != NULL) {
            assert_true(in[found - regions] && found->node.space == request.space &&
                        found->node.start <= request.start &&
                        found->node.end >= request.start + request.size &&
                        found->identity.id == identity.id);
            assert_true(zr_view_release(desk, found, &last) && last);
            assert_false(zr_view_release(desk, found, &last));
            assert_int_equal(found->state, 0);
        }
    }
    zr_view_fini(&view);
    free(regions);
    free(in);
}

/* Regions that share a place of a desk: while the references of one that is hidden are moved to its
 * state, its thread takes and gives back those of the other. None of them may get lost. */
struct sharing {
    struct zr_view          *view;
    struct zr_rcache_region *kept;
    atomic_bool              stop;
    atomic_uint              turns; /* uses of the other */
    int64_t                  left;  /* references at the end */
};

static void spin(unsigned turns)
{
    for (volatile unsigned left = turns; left > 0; left--) {
    }
}

static void *use_both(void *arg)
{
    struct sharing          *s      = arg;
    struct zr_rcache_request hidden = {1, 0x1000, 0x1000, NULL, NULL};
    struct zr_rcache_request kept   = {1, 0x9000, 0x1000, NULL, NULL};
    struct zr_desk          *desk   = zr_desk_open(&s->view->desks);
    struct zr_rcache_region *held[3];
    unsigned                 k, turn = 0;
    bool                     last;

    while (!atomic_load(&s->stop)) {
        held[0] = zr_view_acquire(s->view, desk, &hidden);
        if (held[0] != NULL) {
            if (!zr_view_release(desk, held[0], &last)) {
                atomic_fetch_sub(&held[0]->state, ZR_RCACHE_REF);
            }
            atomic_fetch_add(&s->turns, 1);
        }
        /* Now and then as long as the writer takes to come to this desk. */
        spin(turn % 8 == 0 ? 30000 : turn % 1024);
        turn++;
        for (k = 0; k < 3; k++) {
            held[k] = zr_view_acquire(s->view, desk, &kept);
        }
        spin(500);
        while (k-- > 0) {
            if (!zr_view_release(desk, held[k], &last)) {
                atomic_fetch_sub(&held[k]->state, ZR_RCACHE_REF);
            }
        }
    }
    s->left = atomic_load(&s->kept->state);
    if (atomic_load(&zr_desk_place(desk, s->kept)->region) == s->kept) {
        s->left += (int64_t)atomic_load(&zr_desk_place(desk, s->kept)->count) * ZR_RCACHE_REF;
    }
    return NULL;
}

static void a_shared_place_loses_no_reference(void **state)
{
    enum { COUNT = 100000, ROUNDS = 2000 }; /* so many that one has the place, wherever they are */
    static struct zr_view    view;
    static pthread_mutex_t   lock = PTHREAD_MUTEX_INITIALIZER;
    struct zr_rcache_region *regions = calloc(COUNT, sizeof(*regions)), *hidden = &regions[0];
    struct zr_desk          *desk;
    struct sharing           s = {.view = &view};
    pthread_t                thread;
    unsigned                 k;

    zr_desks_init(&view.desks, &lock);
    desk = zr_desk_open(&view.desks);
    assert_non_null(desk);
    for (k = 1; zr_desk_place(desk, &regions[k]) != zr_desk_place(desk, hidden); k++) {
        assert_true(k + 1 < COUNT);
    }
    s.kept       = &regions[k];
    hidden->node = (struct zr_itree_node){.space = 1, .start = 0x1000, .end = 0x2000};
    s.kept->node = (struct zr_itree_node){.space = 1, .start = 0x9000, .end = 0xa000};
    zr_view_insert(&view, hidden);
    zr_view_insert(&view, s.kept);
    pthread_create(&thread, NULL, use_both, &s);
    for (k = 0; k < ROUNDS; k++) {
        unsigned turn = atomic_load(&s.turns);

        while (atomic_load(&s.turns) == turn) {
            sched_yield();
        }
        pthread_mutex_lock(&lock);
        zr_view_hide(&view, hidden);
        atomic_fetch_and(&hidden->state, ~(int64_t)ZR_RCACHE_HIDDEN);
        pthread_mutex_unlock(&lock);
    }
    atomic_store(&s.stop, true);
    pthread_join(thread, NULL);
    assert_int_equal(s.left, 0);
    zr_view_fini(&view);
    free(regions);
}

/* The view keeps memory for the regions that are there, not for all that ever were. */
static void what_is_gone_takes_no_memory(void **state)
{
    enum { LIVE = 200, ALL = 40000 };
    struct owner      owner;
    struct zr_rcache *cache = make(&owner, LIVE, UINT64_MAX, false);
    size_t            before = 0;
    unsigned          k;

    for (k = 0; k < ALL; k++) {
        touch(cache, 1 + k / 1000, UINT64_C(0x10000) * k, 0x8000, 1);
        if (k == ALL / 10) {
            before = mallinfo2().uordblks;
        }
    }
    assert_true(mallinfo2().uordblks < before + (1 << 18));
    assert_int_equal(zr_rcache_destroy(cache), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_view_finds_what_a_list_finds),
        cmocka_unit_test(a_shared_place_loses_no_reference),
        cmocka_unit_test(what_is_gone_takes_no_memory),
        cmocka_unit_test(requests_that_hit),
        cmocka_unit_test(refuses_nothing_and_wrap),
        cmocka_unit_test(widened_region_serves_neighbours),
        cmocka_unit_test(least_recently_used_goes_first),
        cmocka_unit_test(bytes_are_bounded),
        cmocka_unit_test(invalidation_spares_what_it_does_not_touch),
        cmocka_unit_test(newer_export_supersedes_what_it_covers),
        cmocka_unit_test(invalid_hit_is_opened_again),
        cmocka_unit_test(failure_is_returned_and_not_kept),
        cmocka_unit_test(two_threads_open_the_same_range_once),
        cmocka_unit_test(misses_do_not_wait_for_each_other_nor_do_hits),
        cmocka_unit_test(invalidated_while_opening_is_opened_again),
        cmocka_unit_test(widened_over_what_goes_is_opened_again),
        cmocka_unit_test(random_use_leaks_nothing),
        cmocka_unit_test(references_are_those_of_all_threads),
        cmocka_unit_test(what_nobody_uses_makes_room),
        cmocka_unit_test(a_forked_child_goes_on),
        cmocka_unit_test(a_hit_takes_no_lock_and_allocates_nothing),
        cmocka_unit_test(a_hit_makes_no_system_call),
        cmocka_unit_test(an_owner_is_told_of_what_goes_stale_in_use),
        cmocka_unit_test(invalidation_by_number_spares_the_others),
        cmocka_unit_test(slices_missed_at_once_leave_one_region),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
