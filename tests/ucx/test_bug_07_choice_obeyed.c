/* uxlfoundation/oneCCL 213: an explicit choice of the exchange was overridden by another. Each choice
 * with what it needs there or forbidden: obeyed, or refused with its name; never another one, never
 * wrong bytes. */
/* SPDX-License-Identifier: BSD-3-Clause */
#include "forbid.h"
#include "zepair.h"

static const struct {
    const char *name, *choice;
    int         forbid_pidfd, works;
    const char *says;  /* a line of the log */
    const char *never; /* in no line */
} cases[] = {
    {"socket", "socket", 0, 1, "by socket", "by pidfd"},
    {"socket, pidfd forbidden", "socket", 1, 1, "by socket", "by pidfd"},
    {"pidfd", "pidfd", 0, 1, "by pidfd", "by socket"},
    {"pidfd, forbidden", "pidfd", 1, 0, "pidfd_getfd", "by socket"},
    {"auto, pidfd forbidden", "auto", 1, 1, "by socket", "by pidfd"},
};
#define CASES (sizeof(cases) / sizeof(cases[0]))

static unsigned current;

static void body(void)
{
    struct zp_key key;
    struct zebuf  buf;
    ucs_status_t  status;

    zp_log_here();
    if (cases[current].forbid_pidfd && forbid_call(SYS_pidfd_getfd) != 0) {
        exit(77);
    }
    zp_start();
    zebuf_map(&buf, 3, MIB, NULL);
    zebuf_fill(&buf, 1 + pair.rank);
    zp_share(buf.ptr, buf.size, &key);
    if (pair.rank == 1) {
        status = zp_get(&key, buf.ptr, buf.size, key.remote);
        if ((status == UCS_OK) != cases[current].works) {
            FAIL("%s: the get says: %s", cases[current].name, ucs_status_string(status));
        }
        if (zebuf_check(&buf, 0, buf.size, 0, status == UCS_OK ? 1 : 2, 0) != 0) {
            FAIL("%s: wrong bytes", cases[current].name);
        }
    }
    pair_meet();
    zp_unshare(&key);
    pair_stop_ucx();
    zebuf_unmap(&buf);
}

int main(int argc, char **argv)
{
    int      result = 0, ret;
    unsigned major, minor, release;

    pair_enter(body, &current);
    ucp_get_version(&major, &minor, &release);
    setenv("ZERANGE_LOG", "debug", 1);
    for (current = 0; current < CASES; current++) {
        /* UCX 1.18's get has no way to end with an error: it ends the process (docs/ucx.md). */
        if (!cases[current].works && major == 1 && minor < 19) {
            printf("not run: %s: UCX %u.%u ends the process\n", cases[current].name, major, minor);
            continue;
        }
        setenv("ZERANGE_FD_EXCHANGE", cases[current].choice, 1);
        zp_log_start("debug");
        ret = pair_run(argv[0], current, 60);
        if (ret == 0 && (zp_log_count(cases[current].says, NULL) == 0 ||
                         zp_log_count(cases[current].never, NULL) != 0)) {
            fprintf(stderr, "%s: no line with \"%s\", or one with \"%s\"\n", cases[current].name,
                    cases[current].says, cases[current].never);
            ret = 1;
        }
        zp_log_end(ret == 1);
        printf("%s: %s\n", ret == 0 ? "ok" : "not ok", cases[current].name);
        result = ret != 0 ? ret : result;
    }
    return result;
}
