/* A UCX application without device memory: two processes, tag messages of host memory. Used by
 * test_tls.sh under many values of UCX_TLS. */
/* SPDX-License-Identifier: BSD-3-Clause */
#include "ucppair.h"

static void body(void)
{
    static const size_t sizes[] = {8, 5000, 300000};
    ucp_request_param_t param   = {0};
    unsigned char      *buf     = malloc(300000);
    size_t              k, n;

    pair_start_ucx();
    pair_connect(UCP_ERR_HANDLING_MODE_NONE);
    for (k = 0; k < 3; k++) {
        memset(buf, pair.rank == 0 ? 0x40 + (int)k : 0, sizes[k]);
        pair_meet();
        if (pair.rank == 0) {
            UCS(pair_wait(ucp_tag_send_nbx(pair.ep, buf, sizes[k], 7, &param)));
        } else {
            UCS(pair_wait(ucp_tag_recv_nbx(pair.worker, buf, sizes[k], 7, ~0ull, &param)));
            for (n = 0; n < sizes[k]; n++) {
                if (buf[n] != 0x40 + k) {
                    fprintf(stderr, "byte %zu of %zu is wrong\n", n, sizes[k]);
                    exit(1);
                }
            }
        }
        pair_meet();
    }
    pair_stop_ucx();
    free(buf);
}

int main(int argc, char **argv)
{
    unsigned which;

    pair_enter(body, &which);
    return pair_run(argv[0], 0, 50);
}
