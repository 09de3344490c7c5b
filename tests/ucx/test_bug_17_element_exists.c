/* openucx/ucx 6560: threads that met the same remote range at once opened it twice, and the second
 * died. Four threads with a worker each read the same and neighbouring places by the same key; the
 * peer's range is opened once. */
/* SPDX-License-Identifier: BSD-3-Clause */
#include "zepair.h"

#include <pthread.h>

#define THREADS 4
#define ROUNDS  20

static struct {
    struct zp_key     key;
    void             *address; /* of the peer's worker */
    pthread_barrier_t barrier;
} shared;

struct reader {
    pthread_t    thread;
    ucp_worker_h worker;
    ucp_ep_h     ep;
    ucp_rkey_h   rkey;
    struct zebuf buf;
};

static ucs_status_t wait_on(ucp_worker_h worker, void *request)
{
    ucs_status_t status;

    if (request == NULL || UCS_PTR_IS_ERR(request)) {
        return UCS_PTR_STATUS(request);
    }
    while ((status = ucp_request_check_status(request)) == UCS_INPROGRESS) {
        ucp_worker_progress(worker);
    }
    ucp_request_free(request);
    return status;
}

static void *read_all(void *arg)
{
    ucp_request_param_t param  = {0};
    struct reader      *reader = arg;
    unsigned            k;

    for (k = 0; k < ROUNDS; k++) {
        pthread_barrier_wait(&shared.barrier);
        UCS(wait_on(reader->worker, ucp_get_nbx(reader->ep, reader->buf.ptr, MIB,
                                                shared.key.remote + k % 3 * MIB, reader->rkey,
                                                &param)));
        UCS(wait_on(reader->worker, ucp_ep_flush_nbx(reader->ep, &param)));
    }
    return NULL;
}

static void readers(void)
{
    ucp_worker_params_t wparams = {.field_mask  = UCP_WORKER_PARAM_FIELD_THREAD_MODE,
                                   .thread_mode = UCS_THREAD_MODE_MULTI};
    ucp_ep_params_t     eparams = {.field_mask = UCP_EP_PARAM_FIELD_REMOTE_ADDRESS,
                                   .address    = shared.address};
    struct reader       r[THREADS];
    zr_counts_t         counts;
    unsigned            k;

    pthread_barrier_init(&shared.barrier, NULL, THREADS);
    for (k = 0; k < THREADS; k++) {
        UCS(ucp_worker_create(pair.context, &wparams, &r[k].worker));
        UCS(ucp_ep_create(r[k].worker, &eparams, &r[k].ep));
        UCS(ucp_ep_rkey_unpack(r[k].ep, shared.key.packed, &r[k].rkey));
        zebuf_map(&r[k].buf, 1, MIB, NULL);
        zebuf_fill(&r[k].buf, 90);
    }
    for (k = 0; k < THREADS; k++) {
        pthread_create(&r[k].thread, NULL, read_all, &r[k]);
    }
    for (k = 0; k < THREADS; k++) {
        pthread_join(r[k].thread, NULL);
        if (zebuf_check(&r[k].buf, 0, MIB, (ROUNDS - 1) % 3 * MIB, 5, 90) != 0) {
            FAIL("thread %u: wrong bytes", k);
        }
    }
    if (zp_counts(&counts) && counts.imports != 1) {
        FAIL("one range of the peer is open %lu times", (unsigned long)counts.imports);
    }
    for (k = 0; k < THREADS; k++) {
        ucp_request_param_t param = {0};

        ucp_rkey_destroy(r[k].rkey);
        (void)wait_on(r[k].worker, ucp_ep_close_nbx(r[k].ep, &param));
        ucp_worker_destroy(r[k].worker);
        zebuf_unmap(&r[k].buf);
    }
}

static void body(void)
{
    ucp_address_t *mine;
    struct zebuf   buf;
    size_t         size;

    zp_device();
    pair.multi_thread = 1;
    pair_start_ucx();
    pair_connect(UCP_ERR_HANDLING_MODE_NONE);
    zebuf_map(&buf, 3, MIB, NULL);
    zebuf_fill(&buf, 5 + pair.rank);
    if (pair.rank == 0) {
        UCS(ucp_worker_get_address(pair.worker, &mine, &size));
        pair_write(&size, sizeof(size));
        pair_write(mine, size);
        ucp_worker_release_address(pair.worker, mine);
    } else {
        pair_read(&size, sizeof(size));
        shared.address = malloc(size);
        pair_read(shared.address, size);
    }
    zp_share(buf.ptr, buf.size, &shared.key);
    if (pair.rank == 1) {
        readers();
    }
    pair_meet();
    zp_unshare(&shared.key);
    pair_stop_ucx();
    zebuf_unmap(&buf);
}

int main(int argc, char **argv)
{
    unsigned which;

    pair_enter(body, &which);
    return pair_run(argv[0], 0, 60);
}
