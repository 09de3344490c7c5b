/* Buffers that are mapped, sent and unmapped over and over: the exporter keeps no handle, the
 * importer no more open ranges than it may, and neither an fd too many. */
/* SPDX-License-Identifier: BSD-3-Clause */
#include "ucppair.h"
#include "zebuf.h"

#include <dirent.h>
#include <zerange/zerange.h>

#define ROUNDS      150
#define MAX_REGIONS 4
#define SPARE_FDS   16 /* of connections made late, and of regions kept open */

static unsigned count_fds(void)
{
    DIR     *dir   = opendir("/proc/self/fd");
    unsigned count = 0;

    while (readdir(dir) != NULL) {
        count++;
    }
    closedir(dir);
    return count;
}

static void one_round(unsigned seed)
{
    ucp_request_param_t param = {0};
    struct zebuf        buf;

    /* Sizes differ, so that addresses are used again by other sizes. */
    zebuf_map(&buf, 2 + seed % 5, 65536 << seed % 3, NULL);
    zebuf_fill(&buf, seed + pair.rank);
    pair_meet();
    if (pair.rank == (int)(seed & 1)) {
        UCS(pair_wait(ucp_tag_send_nbx(pair.ep, buf.ptr, buf.size, 7, &param)));
    } else {
        UCS(pair_wait(ucp_tag_recv_nbx(pair.worker, buf.ptr, buf.size, 7, ~0ull, &param)));
        if (zebuf_check(&buf, 0, buf.size, 0, seed + !pair.rank, 0) != 0) {
            fprintf(stderr, "round %u: wrong bytes\n", seed);
            exit(1);
        }
    }
    pair_meet();
    zebuf_unmap(&buf);
}

static void expect_counts(void)
{
    zr_pfnGetCounts_t get = NULL;
    zr_counts_t       counts;

    if (zeDriverGetExtensionFunctionAddress(zebuf_ze.driver, "zrGetCounts", (void **)&get) !=
        ZE_RESULT_SUCCESS) {
        return;
    }
    ZE(get(&counts));
    if (counts.exports != 0 || counts.imports > MAX_REGIONS) {
        fprintf(stderr, "rank %d: %lu exports and %lu imports are left, expected 0 and %d\n",
                pair.rank, (unsigned long)counts.exports, (unsigned long)counts.imports,
                MAX_REGIONS);
        exit(1);
    }
}

static void body(void)
{
    unsigned k, fds = 0;

    if (!zebuf_start()) {
        fprintf(stderr, "no Level Zero device\n");
        exit(getenv("ZERANGE_SOFT") != NULL ? 1 : 77); /* asked for, it must be there */
    }
    pair_start_ucx();
    pair_connect(UCP_ERR_HANDLING_MODE_NONE);
    for (k = 0; k < ROUNDS; k++) {
        one_round(k);
        if (k == 10) {
            fds = count_fds();
        }
    }
    if (count_fds() > fds + SPARE_FDS) {
        fprintf(stderr, "rank %d: %u fds after round 10, %u after round %u\n", pair.rank, fds,
                count_fds(), k);
        exit(1);
    }
    expect_counts();
    pair_stop_ucx();
}

int main(int argc, char **argv)
{
    unsigned which;

    pair_enter(body, &which);
    setenv("UCX_ZE_RANGE_CACHE_MAX_REGIONS", "4", 1);
    return pair_run(argv[0], 0, 120);
}
