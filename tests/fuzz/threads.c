/* For ThreadSanitizer: 8 threads that allocate, map, export, open, copy and free, with exporters in
 * other processes that do the same; and 8 threads on one registration cache. */
/* SPDX-License-Identifier: BSD-3-Clause */
#include "../faults/faults.h"
#include "rcache/rcache.h"

#include <pthread.h>

#define THREADS 8
#define OBJECTS 6

static unsigned rounds = 60;

static void run_threads(void *(*body)(void *), void *arg)
{
    pthread_t threads[THREADS];
    unsigned  i;

    for (i = 0; i < THREADS; i++) {
        CHECK(pthread_create(&threads[i], NULL, body, arg) == 0);
    }
    for (i = 0; i < THREADS; i++) {
        pthread_join(threads[i], NULL);
    }
}

/* ---- driver ---- */

static struct zr_copyq *shared;

static void copy(struct zr_copyq *q, char *to, char *from, size_t size)
{
    struct zr_range range[2];
    struct zr_seg   segs[2][OBJECTS];
    unsigned        kinds, i, k;
    uint64_t        seqno;

    for (i = 0; i < 2; i++) {
        OK(zr_range_walk(i == 0 ? to : from, size, &range[i], &kinds, NULL));
        CHECK(range[i].count <= OBJECTS);
        for (k = 0; k < range[i].count; k++) {
            const struct zr_segment *s = &range[i].segments[k];

            segs[i][k] = (struct zr_seg){s->object->bo, s->offset, s->length};
        }
    }
    zr_copyq_begin(q);
    OK(zr_copyq_copy(q, segs[0], range[0].count, segs[1], range[1].count, size));
    OK(zr_copyq_submit(q, &seqno));
    OK(zr_copyq_wait(q, seqno, 60 * SECOND));
    zr_range_clear(&range[0]);
    zr_range_clear(&range[1]);
}

static void *driver_thread(void *arg)
{
    ze_ipc_mem_handle_t handle;
    struct zr_copyq    *own;
    struct zr_va_info   info;
    unsigned            i;
    char               *base, *usm;
    void               *ptr;

    OK(zr_copyq_create(test_device(), 0, &own));
    for (i = 0; i < rounds; i++) {
        base = fault_range(OBJECTS, i);
        OK(zr_usm_alloc(test_device(), (i % 2) ? ZE_MEMORY_TYPE_SHARED : ZE_MEMORY_TYPE_HOST,
                        OBJECTS * PAGE, 0, i % 3 == 0, (void **)&usm));
        copy((i % 2) ? shared : own, usm, base, OBJECTS * PAGE);
        CHECK(fault_range_is(usm, OBJECTS * PAGE, i));
        fault_export(base, OBJECTS * PAGE, &handle);
        OK(zr_ipc_open(test_device(), &handle, &ptr));
        CHECK(zr_va_query(ptr, &info) && info.size == OBJECTS * PAGE);
        OK(zr_ipc_close(ptr));
        OK(zr_ipc_put(&handle));
        OK(zr_usm_free(usm));
        OK(zr_va_unreserve(base, OBJECTS * PAGE));
    }
    zr_copyq_destroy(own);
    return NULL;
}

static void driver_case(const void *arg)
{
    OK(zr_copyq_create(test_device(), 0, &shared));
    run_threads(driver_thread, NULL);
    zr_copyq_destroy(shared);
    zr_ipc_shutdown();
    outcome("%u threads, %u rounds each of allocate, map, copy, export, open, close, free", THREADS,
            rounds);
    exit(0);
}

/* ---- two processes, each with threads that open what the other exports ---- */

static ze_ipc_mem_handle_t theirs[4];

static void *open_thread(void *arg)
{
    unsigned i;
    void    *ptr;

    for (i = 0; i < rounds; i++) {
        OK(zr_ipc_open(test_device(), &theirs[i % 4], &ptr));
        CHECK(fault_range_is(ptr, OBJECTS * PAGE, i % 4));
        OK(zr_ipc_close(ptr));
    }
    return NULL;
}

static void exchange_side(int sock, const void *arg)
{
    ze_ipc_mem_handle_t mine;
    unsigned            i;

    for (i = 0; i < 4; i++) {
        fault_export(fault_range(OBJECTS, i), OBJECTS * PAGE, &mine);
        say(sock, &mine, sizeof(mine));
        hear(sock, &theirs[i], sizeof(theirs[i]));
    }
    run_threads(open_thread, NULL);
    meet(sock);
}

static void exchange_case(const void *arg)
{
    int   sock;
    pid_t pid;

    setenv("ZERANGE_FD_EXCHANGE", (const char *)arg, 1);
    pid = fault_spawn(exchange_side, NULL, &sock);
    exchange_side(sock, NULL);
    fault_join(pid);
    outcome("%u threads on each side, %u opens each", THREADS, rounds);
    exit(0);
}

/* ---- cache ---- */

static struct zr_rcache *cache;
static atomic_int        live;

static int cache_open(void *owner, const struct zr_rcache_request *request,
                      struct zr_rcache_region *region, uint64_t *start_p, uint64_t *end_p)
{
    uint64_t *data = malloc(sizeof(*data));

    if (data == NULL) {
        return -ENOMEM;
    }
    *start_p     = *start_p / 65536 * 65536;
    *end_p       = (*end_p + 65535) / 65536 * 65536;
    *data        = *start_p;
    region->data = data;
    atomic_fetch_add(&live, 1);
    return 0;
}

static void cache_close(void *owner, struct zr_rcache_region *region)
{
    free(region->data);
    atomic_fetch_sub(&live, 1);
}

static const struct zr_rcache_ops cache_ops = {cache_open, cache_close, NULL, NULL};

static void *cache_thread(void *arg)
{
    uint64_t                 x = zr_random_u64();
    struct zr_rcache_region *region;
    unsigned                 i;

    for (i = 0; i < rounds * 200; i++) {
        struct zr_rcache_identity identity = {.id = 1 + (x >> 20) % 3};
        struct zr_rcache_request  request  = {(x >> 8) % 2, (x >> 12) % 64 * 4096, 4096,
                                              &identity, NULL};

        x = x * UINT64_C(6364136223846793005) + 1442695040888963407;
        if ((x >> 40) % 16 == 0) {
            zr_rcache_invalidate(cache, request.space, request.start, 65536);
        } else if ((x >> 40) % 64 == 1) {
            (void)zr_rcache_shrink(cache, 2);
        } else if (zr_rcache_get(cache, &request, &region) == 0) {
            CHECK(*(uint64_t *)region->data <= request.start);
            zr_rcache_put(cache, region);
        }
    }
    return NULL;
}

static void cache_case(const void *arg)
{
    struct zr_rcache_limits limits = {5, UINT64_MAX, false};

    CHECK(zr_rcache_create(&cache_ops, NULL, &limits, &cache) == 0);
    run_threads(cache_thread, NULL);
    CHECK(zr_rcache_destroy(cache) == 0);
    CHECK(atomic_load(&live) == 0);
    outcome("%u threads, %u requests each, every region closed", THREADS, rounds * 200);
    exit(0);
}

int main(void)
{
    fault_start();
    setenv("ZERANGE_DEVICE_CPU_ACCESS", "1", 1);
    if (getenv("ZERANGE_NIGHTLY") != NULL) {
        rounds = 1000;
    }
    fault_case("ThreadSanitizer: driver", driver_case, NULL, 250);
    fault_case("ThreadSanitizer: exchange, every method", exchange_case, "auto", 250);
    fault_case("ThreadSanitizer: exchange by socket", exchange_case, "socket", 250);
    fault_case("ThreadSanitizer: cache", cache_case, NULL, 250);
    return fault_end("threads");
}
