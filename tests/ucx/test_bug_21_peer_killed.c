/* ai-dynamo/nixl PR 1953: a peer was killed and the survivors crashed when they ended. The peer is
 * killed at different moments of a stream of gets; the survivor sees an error or right bytes, ends
 * cleanly, and keeps nothing of the dead. */
/* SPDX-License-Identifier: BSD-3-Clause */
#include "zepair.h"

static unsigned current; /* gets before the kill */

static void body(void)
{
    ucp_request_param_t param = {.op_attr_mask = UCP_OP_ATTR_FIELD_FLAGS,
                                 .flags        = UCP_EP_CLOSE_FLAG_FORCE};
    struct zp_key       key;
    struct zebuf        buf;
    ucs_status_t        status;
    unsigned            k;
    pid_t               pid = getpid();

    zp_device();
    setenv("UCX_KEEPALIVE_INTERVAL", "1s", 0);
    pair_start_ucx();
    pair_connect(UCP_ERR_HANDLING_MODE_PEER);
    zebuf_map(&buf, 8, MIB, NULL);
    zebuf_fill(&buf, 1 + pair.rank);
    if (pair.rank == 0) {
        pair_write(&pid, sizeof(pid));
    } else {
        pair_read(&pid, sizeof(pid));
    }
    zp_share(buf.ptr, buf.size, &key);
    while (pair.rank == 0) {
        ucp_worker_progress(pair.worker);
    }
    for (k = 0; k < 8; k++) {
        if (k == current) {
            kill(pid, SIGKILL);
        }
        status = zp_get(&key, buf.ptr, buf.size, key.remote);
        if (status != UCS_OK) {
            if (k < current) {
                FAIL("get %u before the peer was killed: %s", k, ucs_status_string(status));
            }
            break;
        }
        if (zebuf_check(&buf, 0, buf.size, 0, 1, 2) != 0) {
            FAIL("get %u: wrong bytes", k);
        }
    }
    ucp_rkey_destroy(key.rkey);
    (void)pair_wait(ucp_ep_close_nbx(pair.ep, &param));
    ucp_worker_destroy(pair.worker);
    zp_expect_no_imports("the peer is dead");
    ucp_cleanup(pair.context);
    zebuf_unmap(&buf);
}

int main(int argc, char **argv)
{
    int result = 0;

    pair_enter(body, &current);
    pair_victim = 0;
    for (current = 0; current < 4 && result == 0; current++) {
        result = pair_run(argv[0], current, 60);
    }
    return result;
}
