/* A UCX application with device memory: two processes, tag messages of buffers of two physical
 * objects. Used by test_subsets.sh under many values of UCX_TLS: what UCX refuses is said and ends
 * both processes without a crash. */
/* SPDX-License-Identifier: BSD-3-Clause */
#include "ucppair.h"
#include "zebuf.h"

#define MIB     (1u << 20)
#define REFUSED 3

#define TRY(call)                                                                             \
    do {                                                                                      \
        ucs_status_t status_ = (call);                                                        \
        if (status_ != UCS_OK) {                                                              \
            fprintf(stderr, "refused: %.20s...: %s\n", #call, ucs_status_string(status_));    \
            exit(REFUSED);                                                                    \
        }                                                                                     \
    } while (0)

static void start_ucx(void)
{
    ucp_params_t        params  = {.field_mask = UCP_PARAM_FIELD_FEATURES,
                                   .features   = UCP_FEATURE_TAG};
    ucp_worker_params_t wparams = {0};
    ucp_config_t       *config;

    TRY(ucp_config_read(NULL, NULL, &config));
    TRY(ucp_init(&params, config, &pair.context));
    ucp_config_release(config);
    TRY(ucp_worker_create(pair.context, &wparams, &pair.worker));
}

static void connect_other(void)
{
    ucp_ep_params_t params = {.field_mask = UCP_EP_PARAM_FIELD_REMOTE_ADDRESS};
    ucp_address_t  *mine, *other;
    size_t          size;

    TRY(ucp_worker_get_address(pair.worker, &mine, &size));
    pair_write(&size, sizeof(size));
    pair_write(mine, size);
    ucp_worker_release_address(pair.worker, mine);
    pair_read(&size, sizeof(size));
    other = malloc(size);
    pair_read(other, size);
    params.address = other;
    TRY(ucp_ep_create(pair.worker, &params, &pair.ep));
    free(other);
}

static void body(void)
{
    static const size_t sizes[] = {8, 3000, MIB + 1};
    ucp_request_param_t plain   = {0};
    struct zebuf        buf;
    unsigned            k;

    setvbuf(stdout, NULL, _IONBF, 0); /* UCX's warnings are not to be lost in a crash */
    pair.gone = REFUSED;
    if (!zebuf_start()) {
        fprintf(stderr, "no Level Zero device\n");
        exit(1);
    }
    start_ucx();
    connect_other();
    zebuf_map(&buf, 2, MIB, NULL);
    for (k = 0; k < sizeof(sizes) / sizeof(sizes[0]); k++) {
        zebuf_fill(&buf, 2 * k + pair.rank);
        pair_meet();
        if (pair.rank == 0) {
            TRY(pair_wait(ucp_tag_send_nbx(pair.ep, buf.ptr, sizes[k], 7, &plain)));
        } else {
            TRY(pair_wait(ucp_tag_recv_nbx(pair.worker, buf.ptr, sizes[k], 7, ~0ull, &plain)));
            if (zebuf_check(&buf, 0, sizes[k], 0, 2 * k, 2 * k + 1) != 0) {
                exit(1);
            }
        }
        pair_meet();
    }
    pair_stop_ucx();
    zebuf_unmap(&buf);
}

int main(int argc, char **argv)
{
    unsigned which;

    pair_enter(body, &which);
    return pair_run(argv[0], 0, 30);
}
