/* openucx/ucx 11854: IPC was chosen between two workers of one process, and device memory filled up.
 * Two workers in one process: bytes right, and nothing is exported, opened or sent by ze_range. */
/* SPDX-License-Identifier: BSD-3-Clause */
#include "zepair.h"

static void body(void)
{
    ucp_worker_params_t wparams = {0};
    ucp_ep_params_t     eparams = {.field_mask = UCP_EP_PARAM_FIELD_REMOTE_ADDRESS};
    ucp_request_param_t param   = {0};
    ucp_address_t      *address;
    struct zebuf        from, to;
    ucp_worker_h        other;
    zr_counts_t         counts;
    ucp_ep_h            ep;
    void               *send, *receive;
    size_t              size;

    zp_log_here();
    zp_start();
    UCS(ucp_worker_create(pair.context, &wparams, &other));
    UCS(ucp_worker_get_address(other, &address, &size));
    eparams.address = address;
    UCS(ucp_ep_create(pair.worker, &eparams, &ep));
    zebuf_map(&from, 4, MIB, NULL);
    zebuf_map(&to, 4, MIB, NULL);
    zebuf_fill(&from, 1);
    zebuf_fill(&to, 2);
    send    = ucp_tag_send_nbx(ep, from.ptr, 4 * MIB, 1, &param);
    receive = ucp_tag_recv_nbx(other, to.ptr, 4 * MIB, 1, ~0ull, &param);
    while ((UCS_PTR_IS_PTR(send) && ucp_request_check_status(send) == UCS_INPROGRESS) ||
           (UCS_PTR_IS_PTR(receive) && ucp_request_check_status(receive) == UCS_INPROGRESS)) {
        ucp_worker_progress(pair.worker);
        ucp_worker_progress(other);
    }
    UCS(pair_wait(send));
    UCS(pair_wait(receive));
    if (zebuf_check(&to, 0, 4 * MIB, 0, 1, 2) != 0) {
        FAIL("wrong bytes");
    }
    if (zp_counts(&counts) && counts.imports != 0) {
        FAIL("%lu ranges were opened in the process they belong to", (unsigned long)counts.imports);
    }
    pair_meet();
    send = ucp_ep_close_nbx(ep, &param);
    while (UCS_PTR_IS_PTR(send) && ucp_request_check_status(send) == UCS_INPROGRESS) {
        ucp_worker_progress(pair.worker);
        ucp_worker_progress(other);
    }
    UCS(pair_wait(send));
    ucp_worker_release_address(other, address);
    ucp_worker_destroy(other);
    pair_stop_ucx();
    zebuf_unmap(&from);
    zebuf_unmap(&to);
}

int main(int argc, char **argv)
{
    unsigned which;
    int      result;

    pair_enter(body, &which);
    zp_log_start("debug");
    setenv("UCX_PROTO_INFO", "y", 1);
    result = pair_run(argv[0], 0, 60);
    if (result == 0 && zp_log_count("exported 0x", NULL) + zp_log_count("opened 0x", NULL) > 0) {
        fprintf(stderr, "ze_range was used inside a process\n");
        result = 1;
    }
    zp_log_end(result == 1);
    return result;
}
