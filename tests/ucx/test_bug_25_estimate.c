/* openucx/ucx PR 11865: the IPC transport's estimate was so low that copying through host memory was
 * chosen instead. With UCX's own choice, large messages of each kind name ze_range. */
/* SPDX-License-Identifier: BSD-3-Clause */
#include "zepair.h"

#include "protoinfo.h"

static void body(void)
{
    static const char *const  operations[] = {"ucp_tag_send", "ucp_put", "ucp_get"};
    static const char *const  texts[]      = {"ze_range", NULL};
    ucp_request_param_t       param        = {0};
    struct zp_key             key;
    struct zebuf              buf;
    unsigned                  k, tables;

    protoinfo_keep();
    zp_start();
    zebuf_map(&buf, 8, MIB, NULL);
    zp_message(1, &buf, 0, 0, 8 * MIB, 1, "tag");
    zebuf_fill(&buf, 8 + pair.rank);
    pair_meet();
    zp_share(buf.ptr, buf.size, &key);
    if (pair.rank == 1) {
        UCS(zp_get(&key, buf.ptr, 8 * MIB, key.remote));
        if (zebuf_check(&buf, 0, 8 * MIB, 0, 8, 9) != 0) {
            FAIL("get: wrong bytes");
        }
        zebuf_fill(&buf, 20);
        UCS(pair_wait(ucp_put_nbx(pair.ep, buf.ptr, 8 * MIB, key.remote, key.rkey, &param)));
        UCS(pair_wait(ucp_ep_flush_nbx(pair.ep, &param)));
        for (k = 0; k < 3; k++) {
            if (protoinfo_count(operations[k], texts, &tables) == 0) {
                protoinfo_print();
                FAIL("large %s of device memory is estimated faster without ze_range",
                     operations[k]);
            }
        }
    }
    pair_meet();
    if (pair.rank == 0 && zebuf_check(&buf, 0, 8 * MIB, 0, 20, 0) != 0) {
        FAIL("put: wrong bytes");
    }
    zp_unshare(&key);
    pair_stop_ucx();
    zebuf_unmap(&buf);
}

int main(int argc, char **argv)
{
    unsigned which;

    pair_enter(body, &which);
    setenv("UCX_PROTO_INFO", "y", 1);
    return pair_run(argv[0], 0, 60);
}
