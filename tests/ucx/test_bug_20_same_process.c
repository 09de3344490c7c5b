/* openucx/ucx 11854: IPC was chosen between two workers of one process, and device memory filled up.
 * Two workers in one process: bytes right at every size, UCX's tables name another way, and nothing is
 * exported or opened by ze_range. */
/* SPDX-License-Identifier: BSD-3-Clause */
#include "protoinfo.h"
#include "zepair.h"

static const size_t sizes[] = {8, 5000, MIB + 1, 4 * MIB};
#define SIZES (sizeof(sizes) / sizeof(sizes[0]))

static ucp_worker_h receiver;

static ucs_status_t wait_both(void *request)
{
    ucs_status_t status;

    if (!UCS_PTR_IS_PTR(request)) {
        return UCS_PTR_STATUS(request);
    }
    while ((status = ucp_request_check_status(request)) == UCS_INPROGRESS) {
        ucp_worker_progress(pair.worker);
        ucp_worker_progress(receiver);
    }
    ucp_request_free(request);
    return status;
}

static void connect_to_receiver(void)
{
    ucp_ep_params_t params = {.field_mask = UCP_EP_PARAM_FIELD_REMOTE_ADDRESS};
    ucp_address_t  *address;
    size_t          size;

    UCS(ucp_worker_get_address(receiver, &address, &size));
    params.address = address;
    UCS(ucp_ep_create(pair.worker, &params, &pair.ep));
    ucp_worker_release_address(receiver, address);
}

static void expect_other_way(void)
{
    static const char *const ours[] = {"ze_range", NULL}, *const any[] = {NULL};
    unsigned                 tables, with_rows = protoinfo_count("ucp_tag_send", any, &tables);
    zr_counts_t              counts;

    if (with_rows == 0 || protoinfo_count("ucp_tag_send", ours, &tables) != 0) {
        protoinfo_print();
        FAIL("ze_range was chosen within a process, or nothing was (%u tables)", tables);
    }
    if (zp_counts(&counts) && (counts.imports != 0 || counts.exports != 0)) {
        FAIL("%lu exports, and %lu imports in the process they belong to",
             (unsigned long)counts.exports, (unsigned long)counts.imports);
    }
}

int main(void)
{
    ucp_worker_params_t wparams = {0};
    ucp_request_param_t plain   = {0};
    struct zebuf        from, to;
    void               *request;
    size_t              bad;
    unsigned            k;

    zp_device();
    setenv("UCX_PROTO_INFO", "y", 1);
    protoinfo_keep();
    pair_start_ucx();
    UCS(ucp_worker_create(pair.context, &wparams, &receiver));
    connect_to_receiver();
    zebuf_map(&from, 4, MIB, NULL);
    zebuf_map(&to, 2, 2 * MIB, NULL);
    for (k = 0; k < SIZES; k++) {
        zebuf_fill(&from, k);
        zebuf_fill(&to, 100 + k);
        request = ucp_tag_recv_nbx(receiver, to.ptr, sizes[k], 7, ~0ull, &plain);
        UCS(wait_both(ucp_tag_send_nbx(pair.ep, from.ptr, sizes[k], 7, &plain)));
        UCS(wait_both(request));
        bad = zebuf_check(&to, 0, sizes[k], 0, k, 100 + k);
        if (bad != 0) {
            FAIL("%zu bytes: %zu are wrong", sizes[k], bad);
        }
    }
    expect_other_way();
    (void)wait_both(ucp_ep_close_nbx(pair.ep, &plain));
    zebuf_unmap(&from);
    zebuf_unmap(&to);
    ucp_worker_destroy(receiver);
    ucp_worker_destroy(pair.worker);
    ucp_cleanup(pair.context);
    return 0;
}
