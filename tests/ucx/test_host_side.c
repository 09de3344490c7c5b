/* Host memory at one end, a range of several objects at the other: the engines copy between them
 * without a stop; what they cannot pin goes by way of the driver's pages. Every byte is checked, and
 * which way it took. */
/* SPDX-License-Identifier: BSD-3-Clause */
#include "protoinfo.h"
#include "zepair.h"

#include <sys/mman.h>
#include <sys/syscall.h>

#define SIZE  (8 * MIB)
#define GUARD ((size_t)4096)

static const struct {
    const char             *name;
    ucp_err_handling_mode_t mode;
    int                     refused; /* the kernel pins no page of the host's */
} cases[] = {
    {"host memory at one end", UCP_ERR_HANDLING_MODE_NONE, 0},
    {"with peer error handling", UCP_ERR_HANDLING_MODE_PEER, 0},
    {"that cannot be pinned", UCP_ERR_HANDLING_MODE_NONE, 1},
};
#define CASES (sizeof(cases) / sizeof(cases[0]))

static unsigned current;

/* Objects are of 1 MiB. */
static const struct message {
    size_t device, host, size;
} messages[] = {
    {0, 0, 8},
    {MIB - 100, 77, 5000},
    {MIB - 1, 3, 2 * MIB + 17},
    {123, 4567, 7 * MIB},
};
#define MESSAGES (sizeof(messages) / sizeof(messages[0]))

static const ucp_request_param_t plain = {0};

static struct {
    struct zebuf buf;  /* of rank 0 */
    uint8_t     *host; /* of rank 1, with a guard at both ends */
    unsigned     asked; /* for a page that cannot be pinned */
} test;

/* What a mapping of a device's registers would say: this is before libc's. */
__attribute__((visibility("default"))) int madvise(void *start, size_t size, int advice)
{
    uint8_t *at = start;

    if (test.host != NULL && at < test.host + SIZE + GUARD && at + size > test.host - GUARD &&
        cases[current].refused) {
        test.asked++;
        errno = EFAULT;
        return -1;
    }
    return (int)syscall(SYS_madvise, start, size, advice);
}

/* ---- what is in them ---- */

static void fill(unsigned seed)
{
    size_t k;

    if (pair.rank == 0) {
        zebuf_fill(&test.buf, seed);
        return;
    }
    for (k = 0; k < SIZE + 2 * GUARD; k++) {
        test.host[k - GUARD] = zebuf_byte(seed + 1, k - GUARD);
    }
}

static void check_host(const char *what, const struct message *m, unsigned seed)
{
    size_t  k;
    uint8_t want;

    for (k = 0; k < SIZE + 2 * GUARD; k++) {
        size_t at = k - GUARD;

        want = at - m->host < m->size ? zebuf_byte(seed, at - m->host + m->device)
                                      : zebuf_byte(seed + 1, at);
        if (test.host[at] != want) {
            FAIL("%s, %s of %zu bytes: byte %zd of the host's is 0x%02x, expected 0x%02x",
                 cases[current].name, what, m->size, (ssize_t)at, test.host[at], want);
        }
    }
}

static void check_device(const char *what, const struct message *m, unsigned seed)
{
    if (zebuf_check(&test.buf, m->device, m->size, m->host, seed + 1, seed) != 0) {
        FAIL("%s, %s of %zu bytes: wrong", cases[current].name, what, m->size);
    }
}

/* ---- the ways ---- */

static void tag(const struct message *m, int sender, unsigned seed)
{
    char *mine = pair.rank == 0 ? test.buf.ptr + m->device : (char *)test.host + m->host;

    fill(seed);
    pair_meet();
    if (pair.rank == sender) {
        UCS(pair_wait(ucp_tag_send_nbx(pair.ep, mine, m->size, 7, &plain)));
    } else {
        UCS(pair_wait(ucp_tag_recv_nbx(pair.worker, mine, m->size, 7, ~0ull, &plain)));
        if (pair.rank == 0) {
            check_device("tag", m, seed);
        } else {
            check_host("tag", m, seed);
        }
    }
    pair_meet();
}

/* Rank 1 reads and writes what rank 0 shares. */
static void one_sided(const struct message *m, ucp_rkey_h rkey, uint64_t remote, unsigned seed)
{
    fill(seed);
    pair_meet();
    if (pair.rank == 1) {
        UCS(pair_wait(ucp_get_nbx(pair.ep, test.host + m->host, m->size, remote + m->device, rkey,
                                  &plain)));
        check_host("get", m, seed);
        fill(seed + 1);
        /* What may only be read is a source as well. */
        if (mprotect(test.host - GUARD, SIZE + 2 * GUARD, PROT_READ) != 0) {
            FAIL("mprotect: %s", strerror(errno));
        }
        UCS(pair_wait(ucp_put_nbx(pair.ep, test.host + m->host, m->size, remote + m->device, rkey,
                                  &plain)));
        UCS(pair_wait(ucp_ep_flush_nbx(pair.ep, &plain)));
        mprotect(test.host - GUARD, SIZE + 2 * GUARD, PROT_READ | PROT_WRITE);
    }
    pair_meet();
    if (pair.rank == 0 &&
        zebuf_check(&test.buf, m->device, m->size, m->host, seed + 2, seed) != 0) {
        FAIL("%s, put of %zu bytes: wrong", cases[current].name, m->size);
    }
    pair_meet();
}

static void expect_way(const char *report)
{
    static const char *const ours[] = {"ze_range", NULL};
    unsigned                 tables;

    if (protoinfo_count(report, ours, &tables) == 0) {
        protoinfo_print();
        FAIL("%s: none of %u tables of %s with ze-device has ze_range for large sizes",
             cases[current].name, tables, report);
    }
}

/* UCX 1.18 has neither a get from the peer's memory nor a write to it for a message once errors are
 * to be handled: it asks the peer. */
static void expect_ways(void)
{
    unsigned major, minor, release;

    ucp_get_version(&major, &minor, &release);
    if (minor > 18 || cases[current].mode == UCP_ERR_HANDLING_MODE_NONE) {
        expect_way("ucp_get");
        expect_way("rendezvous data fetch into host");
        expect_way("rendezvous data send from host");
    }
    expect_way("ucp_put");
}

static void body(void)
{
    ucp_mem_h  memh;
    ucp_rkey_h rkey;
    uint64_t   remote;
    uint8_t   *pages;
    unsigned   k;

    zp_device();
    protoinfo_keep();
    pair_start_ucx();
    pair_connect(cases[current].mode);
    if (pair.rank == 0) {
        zebuf_map(&test.buf, SIZE / MIB, MIB, NULL);
    } else {
        pages = mmap(NULL, SIZE + 2 * GUARD, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS,
                     -1, 0);
        if (pages == MAP_FAILED) {
            FAIL("mmap: %s", strerror(errno));
        }
        test.host = pages + GUARD;
    }
    for (k = 0; k < MESSAGES; k++) {
        tag(&messages[k], 0, 10 * k);
        tag(&messages[k], 1, 10 * k + 3);
    }
    rkey = pair_exchange_keys(pair.rank == 0 ? test.buf.ptr : (char *)test.host, SIZE, &memh,
                              &remote);
    for (k = 0; k < MESSAGES; k++) {
        one_sided(&messages[k], rkey, remote, 10 * k + 6);
    }
    ucp_rkey_destroy(rkey);
    UCS(ucp_mem_unmap(pair.context, memh));
    if (pair.rank == 1) {
        expect_ways();
        if (cases[current].refused != (test.asked > 0)) {
            FAIL("%s: %u times pages were not to be pinned", cases[current].name, test.asked);
        }
    }
    pair_stop_ucx();
}

int main(int argc, char **argv)
{
    unsigned k;
    int      result = 0;

    pair_enter(body, &current);
    setenv("UCX_PROTO_INFO", "y", 1);
    for (k = 0; k < CASES && result == 0; k++) {
        result = pair_run(argv[0], k, 120);
        if (result == 0) {
            printf("ok: %s\n", cases[k].name);
        }
    }
    return result;
}
