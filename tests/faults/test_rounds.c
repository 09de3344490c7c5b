/* Allocate, send, free, over and over between two processes: fds, mappings and memory are after a
 * thousand rounds what they were after the first hundred. */
/* SPDX-License-Identifier: BSD-3-Clause */
#include "../ucx/ucppair.h"
#include "../ucx/zebuf.h"

#include <dirent.h>
#include <malloc.h>
#include <zerange/zerange.h>

#define WARM_UP 100
#define ROUNDS  1000

struct use {
    unsigned long fds, maps, heap, exports, imports, objects;
};

static unsigned long count_lines(const char *path)
{
    FILE         *file  = fopen(path, "re");
    unsigned long lines = 0;
    int           c;

    while ((c = getc(file)) != EOF) {
        lines += c == '\n';
    }
    fclose(file);
    return lines;
}

static struct use use_now(void)
{
    zr_pfnGetCounts_t get    = NULL;
    zr_counts_t       counts = {0};
    struct use        use    = {0};
    DIR              *dir    = opendir("/proc/self/fd");

    while (readdir(dir) != NULL) {
        use.fds++;
    }
    closedir(dir);
    use.maps = count_lines("/proc/self/maps");
    use.heap = mallinfo2().uordblks;
    if (zeDriverGetExtensionFunctionAddress(zebuf_ze.driver, "zrGetCounts", (void **)&get) ==
            ZE_RESULT_SUCCESS &&
        get(&counts) == ZE_RESULT_SUCCESS) {
        use.exports = counts.exports;
        use.imports = counts.imports;
        use.objects = counts.imported_objects;
    }
    return use;
}

static void one_round(unsigned k)
{
    ucp_request_param_t param = {0};
    struct zebuf        buf;

    zebuf_map(&buf, 2 + k % 3, 65536, NULL);
    zebuf_fill(&buf, k + pair.rank);
    pair_meet();
    if (pair.rank == (int)(k & 1)) {
        UCS(pair_wait(ucp_tag_send_nbx(pair.ep, buf.ptr, buf.size, 7, &param)));
    } else {
        UCS(pair_wait(ucp_tag_recv_nbx(pair.worker, buf.ptr, buf.size, 7, ~0ull, &param)));
        if (zebuf_check(&buf, 0, buf.size, 0, k + !pair.rank, 0) != 0) {
            fprintf(stderr, "round %u: wrong bytes\n", k);
            exit(1);
        }
    }
    pair_meet();
    zebuf_unmap(&buf);
}

static int compare(const char *what, unsigned long before, unsigned long after, unsigned long spare)
{
    int bad = after > before + spare;

    printf("case: rank %d, %d rounds, %s: %s: %lu before, %lu after\n", pair.rank, ROUNDS, what,
           bad ? "FAILED" : "passed", before, after);
    return bad;
}

static void body(void)
{
    struct use before = {0}, after;
    unsigned   k;
    int        bad;

    if (!zebuf_start()) {
        fprintf(stderr, "no Level Zero device\n");
        exit(getenv("ZERANGE_SOFT") != NULL ? 1 : 77);
    }
    pair_start_ucx();
    pair_connect(UCP_ERR_HANDLING_MODE_NONE);
    for (k = 0; k < WARM_UP + ROUNDS; k++) {
        if (k == WARM_UP) {
            pair_meet();
            before = use_now();
        }
        one_round(k);
    }
    pair_meet();
    after = use_now();
    bad   = compare("fds", before.fds, after.fds, 0);
    bad |= compare("mappings", before.maps, after.maps, 8); /* of the allocator */
    bad |= compare("bytes of heap", before.heap, after.heap, 64 << 10);
    bad |= compare("exports", before.exports, after.exports, 0);
    bad |= compare("imports", before.imports, after.imports, 0);
    bad |= compare("imported objects", before.objects, after.objects, 0);
    pair_stop_ucx();
    fflush(stdout);
    if (bad) {
        exit(1);
    }
}

int main(int argc, char **argv)
{
    unsigned which;

    setvbuf(stdout, NULL, _IOLBF, 0);
    pair_enter(body, &which);
    setenv("UCX_ZE_RANGE_CACHE_MAX_REGIONS", "4", 1);
    return pair_run(argv[0], 0, 200);
}
