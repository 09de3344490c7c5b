/* Desks: see desk.h. */
/* SPDX-License-Identifier: BSD-3-Clause */
#include "desk.h"

#include "rcache.h"

#include <errno.h>
#include <linux/membarrier.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#define PATIENCE 1000 /* yields, until a reader of a lower priority is let run by a pause */

__thread struct zr_desk *zr_desk_mine[ZR_DESK_CACHES]
    __attribute__((tls_model("initial-exec"), visibility("hidden")));
static __thread struct zr_desk *of_thread;

static pthread_mutex_t       desks_lock = PTHREAD_MUTEX_INITIALIZER; /* guards the two below */
static struct zr_desk       *all;
static _Atomic uint64_t      last_cache;
static pthread_once_t        once = PTHREAD_ONCE_INIT;
static pthread_key_t         at_exit;
static bool                  possible;

static int barrier(int command)
{
    return (int)syscall(SYS_membarrier, command, 0, 0);
}

/* ---- a desk's life ---- */

/* What @a place counts of @a region, of which its thread takes no more, goes to the region's state.
 * While it counts none the thread may write another region there, and then a count: who reads that
 * count reads that region after it. */
static void move(struct zr_desk_place *place, struct zr_rcache_region *region)
{
    uint64_t count;

    if (atomic_load(&place->region) != region) {
        return;
    }
    count = atomic_load(&place->count);
    if (count != 0 && atomic_load(&place->region) == region) {
        atomic_fetch_add(&region->state, (int64_t)count * ZR_RCACHE_REF);
        atomic_store(&place->count, 0);
    }
}

/* What the thread still holds is given back by others: it stays counted. The desks' lock is held. */
static void leave_set(struct zr_desk *desk)
{
    struct zr_desks *set = desk->set;
    struct zr_desk **link;
    unsigned         k;

    if (set == NULL) {
        return;
    }
    pthread_mutex_lock(set->lock);
    for (k = 0; k < ZR_DESK_PLACES; k++) {
        move(&desk->places[k], atomic_load(&desk->places[k].region));
    }
    for (link = &set->first; *link != desk; link = &(*link)->next) {
    }
    *link = desk->next;
    set->hits += atomic_load(&desk->hits);
    pthread_mutex_unlock(set->lock);
}

static void thread_ends(void *arg)
{
    struct zr_desk *desk, *next;

    (void)arg;
    memset(zr_desk_mine, 0, sizeof(zr_desk_mine));
    for (desk = of_thread; desk != NULL; desk = next) {
        next = desk->of_thread;
        pthread_mutex_lock(&desks_lock);
        leave_set(desk);
        *desk->link = desk->of_all;
        if (desk->of_all != NULL) {
            desk->of_all->link = desk->link;
        }
        pthread_mutex_unlock(&desks_lock);
        free(desk);
    }
    of_thread = NULL;
}

static void before_fork(void)
{
    pthread_mutex_lock(&desks_lock);
}

static void after_fork(void)
{
    pthread_mutex_unlock(&desks_lock);
}

/* The other threads are not here, and look no more. */
static void in_child(void)
{
    struct zr_desk *desk;

    for (desk = all; desk != NULL; desk = desk->of_all) {
        atomic_store(&desk->busy, 0);
    }
    pthread_mutex_unlock(&desks_lock);
}

static void start(void)
{
    possible = barrier(MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED) == 0 &&
               pthread_key_create(&at_exit, thread_ends) == 0;
    if (possible) {
        pthread_atfork(before_fork, after_fork, in_child);
    }
}

void zr_desks_init(struct zr_desks *desks, pthread_mutex_t *lock)
{
    pthread_once(&once, start);
    *desks = (struct zr_desks){
        .cache = possible ? atomic_fetch_add(&last_cache, 1) + 1 : 0,
        .lock  = lock,
    };
}

void zr_desks_fini(struct zr_desks *desks)
{
    struct zr_desk *desk;

    pthread_mutex_lock(&desks_lock);
    for (desk = desks->first; desk != NULL; desk = desk->next) {
        desk->set = NULL;
        atomic_store(&desk->cache, 0); /* its thread uses it again for another cache */
    }
    desks->first = NULL;
    pthread_mutex_unlock(&desks_lock);
}

static struct zr_desk *desk_new(void)
{
    struct zr_desk *desk = aligned_alloc(64, sizeof(*desk));

    if (desk == NULL) {
        return NULL;
    }
    memset(desk, 0, sizeof(*desk));
    desk->thread = pthread_self();
    if (pthread_setspecific(at_exit, desk) != 0) {
        free(desk);
        return NULL;
    }
    desk->of_thread = of_thread;
    of_thread       = desk;
    pthread_mutex_lock(&desks_lock);
    desk->link   = &all;
    desk->of_all = all;
    if (all != NULL) {
        all->link = &desk->of_all;
    }
    all = desk;
    pthread_mutex_unlock(&desks_lock);
    return desk;
}

struct zr_desk *zr_desk_open(struct zr_desks *desks)
{
    struct zr_desk *desk, *unused = NULL;

    if (desks->cache == 0) {
        return NULL;
    }
    for (desk = of_thread; desk != NULL && atomic_load(&desk->cache) != desks->cache;
         desk = desk->of_thread) {
        unused = atomic_load(&desk->cache) == 0 ? desk : unused;
    }
    if (desk == NULL) {
        desk = unused != NULL ? unused : desk_new();
        if (desk == NULL) {
            return NULL;
        }
        memset(desk->places, 0, sizeof(desk->places));
        atomic_store(&desk->hits, 0);
        pthread_mutex_lock(&desks_lock);
        pthread_mutex_lock(desks->lock);
        desk->set    = desks;
        desk->next   = desks->first;
        desks->first = desk;
        atomic_store(&desk->cache, desks->cache);
        pthread_mutex_unlock(desks->lock);
        pthread_mutex_unlock(&desks_lock);
    }
    zr_desk_mine[desks->cache % ZR_DESK_CACHES] = desk;
    return desk;
}

/* ---- writers ---- */

static void pass_barrier(void)
{
    const struct timespec pause = {.tv_nsec = 1000000};

    if (barrier(MEMBARRIER_CMD_PRIVATE_EXPEDITED) == 0) {
        return;
    }
    /* A forked child may have to register anew. Without the call at all (a filter that came later)
     * there is no way but to give stores that wait the time to get out. */
    (void)barrier(MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED);
    if (barrier(MEMBARRIER_CMD_PRIVATE_EXPEDITED) != 0) {
        nanosleep(&pause, NULL);
    }
}

void zr_desks_sync(struct zr_desks *desks)
{
    const struct timespec pause = {.tv_nsec = 50000};
    const pthread_t       self  = pthread_self();
    struct zr_desk       *desk  = desks->first;
    unsigned              turns;

    if (desk == NULL || (desk->next == NULL && pthread_equal(desk->thread, self))) {
        return;
    }
    pass_barrier();
    for (; desk != NULL; desk = desk->next) {
        for (turns = 0; atomic_load_explicit(&desk->busy, memory_order_acquire) != 0; turns++) {
            if (turns < PATIENCE) {
                sched_yield();
            } else {
                nanosleep(&pause, NULL);
            }
        }
    }
}

void zr_desks_fold(struct zr_desks *desks, struct zr_rcache_region *region)
{
    struct zr_desk *desk;

    for (desk = desks->first; desk != NULL; desk = desk->next) {
        move(zr_desk_place(desk, region), region);
    }
}

uint64_t zr_desks_hits(const struct zr_desks *desks)
{
    uint64_t              sum = desks->hits;
    const struct zr_desk *desk;

    for (desk = desks->first; desk != NULL; desk = desk->next) {
        sum += atomic_load(&desk->hits);
    }
    return sum;
}
