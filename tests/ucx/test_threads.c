/* Threads that share a worker, each with endpoints of its own to the one peer, all of them sending
 * at once: every byte is right. */
/* SPDX-License-Identifier: BSD-3-Clause */
#include "ucppair.h"
#include "zebuf.h"

#include <pthread.h>

#define MIB       (1u << 20)
#define THREADS   4
#define ENDPOINTS 32 /* of all threads together */
#define ROUNDS    16

static const size_t sizes[] = {8, 3000, MIB - 1, MIB + 4097, 2 * MIB};
#define SIZES (sizeof(sizes) / sizeof(sizes[0]))

static ucp_ep_h        eps[ENDPOINTS];
static pthread_mutex_t device = PTHREAD_MUTEX_INITIALIZER; /* zebuf's one list and its staging */

/* The worker takes its lock itself. */
static void *exchange(void *arg)
{
    const ucp_request_param_t plain  = {0};
    unsigned                  thread = (unsigned)(uintptr_t)arg, round, seed;
    struct zebuf              buf;
    size_t                    size, bad;
    ucp_tag_t                 tag;

    pthread_mutex_lock(&device);
    zebuf_map(&buf, 2, MIB, NULL);
    pthread_mutex_unlock(&device);
    for (round = 0; round < ROUNDS; round++) {
        seed = 100 * thread + 2 * round;
        size = sizes[(round + thread) % SIZES];
        tag  = 1000 * thread + round;
        pthread_mutex_lock(&device);
        zebuf_fill(&buf, seed + pair.rank);
        pthread_mutex_unlock(&device);
        if (pair.rank == 0) {
            ucp_ep_h ep = eps[thread + THREADS * (round % (ENDPOINTS / THREADS))];

            UCS(pair_wait(ucp_tag_send_nbx(ep, buf.ptr, size, tag, &plain)));
            continue;
        }
        UCS(pair_wait(ucp_tag_recv_nbx(pair.worker, buf.ptr, size, tag, ~0ull, &plain)));
        pthread_mutex_lock(&device);
        bad = zebuf_check(&buf, 0, size, 0, seed, seed + 1);
        pthread_mutex_unlock(&device);
        if (bad != 0) {
            fprintf(stderr, "thread %u, round %u, %zu bytes: %zu are wrong\n", thread, round,
                    size, bad);
            exit(1);
        }
    }
    pthread_mutex_lock(&device);
    zebuf_unmap(&buf);
    pthread_mutex_unlock(&device);
    return NULL;
}

static void body(void)
{
    ucp_worker_attr_t   attr  = {.field_mask = UCP_WORKER_ATTR_FIELD_THREAD_MODE};
    ucp_request_param_t param = {0};
    pthread_t           threads[THREADS];
    uintptr_t           k;

    if (!zebuf_start()) {
        fprintf(stderr, "no Level Zero device\n");
        exit(getenv("ZERANGE_SOFT") != NULL ? 1 : 77); /* asked for, it must be there */
    }
    zebuf_need_staging(2 * MIB);
    pair_start_ucx_with(UCP_FEATURE_TAG, UCS_THREAD_MODE_MULTI);
    UCS(ucp_worker_query(pair.worker, &attr));
    if (attr.thread_mode != UCS_THREAD_MODE_MULTI) {
        fprintf(stderr, "this UCX has no workers for several threads\n");
        exit(77);
    }
    pair_connect_many(UCP_ERR_HANDLING_MODE_NONE, ENDPOINTS, eps);
    pair_meet();
    for (k = 0; k < THREADS; k++) {
        if (pthread_create(&threads[k], NULL, exchange, (void *)k) != 0) {
            perror("pthread_create");
            exit(1);
        }
    }
    for (k = 0; k < THREADS; k++) {
        pthread_join(threads[k], NULL);
    }
    pair_meet();
    pair.ep = eps[0];
    for (k = 1; k < ENDPOINTS; k++) {
        (void)pair_wait(ucp_ep_close_nbx(eps[k], &param));
    }
    pair_stop_ucx();
}

int main(int argc, char **argv)
{
    unsigned which;

    pair_enter(body, &which);
    return pair_run(argv[0], 0, 120);
}
