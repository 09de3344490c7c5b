/* UCP between two processes on buffers of several physical objects, mapped before UCX started and
 * after it: tag, put and get, across object edges; every byte is checked, and that what was large
 * went over ze_range is read from UCX's own protocol report. */
/* SPDX-License-Identifier: BSD-3-Clause */
#include "protoinfo.h"
#include "ucppair.h"
#include "zebuf.h"

#define MIB (1u << 20)

struct message {
    size_t from, to, size; /* offsets in the sender's and the receiver's buffer */
};

/* Objects are 1 MiB on rank 0 and 2 MiB on rank 1. */
static const struct message messages[] = {
    {0, 0, 8},
    {MIB - 100, 2 * MIB - 77, 1000},
    {MIB - 4096, 4 * MIB - 8192, 65536},
    {MIB / 2, MIB, MIB},
    {MIB - 1, 2 * MIB - 3, 2 * MIB + 17},
    {123, 4567, 5 * MIB},
    {0, 0, 8 * MIB},
};
#define MESSAGES (sizeof(messages) / sizeof(messages[0]))

static const struct {
    const char             *name;
    int                     map_before;
    const char             *cpu_access; /* UCX's own scan finds what the CPU cannot touch only */
    ucp_err_handling_mode_t mode;
} cases[] = {
    {"mapped before UCX started", 1, "0", UCP_ERR_HANDLING_MODE_NONE},
    {"mapped before UCX started, visible to the CPU", 1, "1", UCP_ERR_HANDLING_MODE_NONE},
    {"mapped after UCX started", 0, "0", UCP_ERR_HANDLING_MODE_NONE},
    {"mapped after, with peer error handling", 0, "0", UCP_ERR_HANDLING_MODE_PEER},
};
#define CASES (sizeof(cases) / sizeof(cases[0]))

static unsigned current;

static void expect(size_t bad, const char *what, const struct message *m)
{
    if (bad != 0) {
        fprintf(stderr, "%s, %s of %zu bytes from %zu to %zu: %zu bytes are wrong\n",
                cases[current].name, what, m->size, m->from, m->to, bad);
        exit(1);
    }
}

static void tag(struct zebuf *buf, const struct message *m, unsigned seed)
{
    ucp_request_param_t param = {0};

    zebuf_fill(buf, seed + pair.rank);
    pair_meet();
    if (pair.rank == 0) {
        UCS(pair_wait(ucp_tag_send_nbx(pair.ep, buf->ptr + m->from, m->size, 7, &param)));
    } else {
        UCS(pair_wait(ucp_tag_recv_nbx(pair.worker, buf->ptr + m->to, m->size, 7, ~0ull,
                                       &param)));
        expect(zebuf_check(buf, m->to, m->size, m->from, seed, seed + 1), "tag", m);
    }
    pair_meet();
}

/* Rank 0 writes into rank 1's buffer, then reads what is there back to another place. */
static void put_and_get(struct zebuf *buf, ucp_rkey_h rkey, uint64_t remote,
                        const struct message *m, unsigned seed)
{
    ucp_request_param_t param = {0};

    zebuf_fill(buf, seed + pair.rank);
    pair_meet();
    if (pair.rank == 0) {
        UCS(pair_wait(ucp_put_nbx(pair.ep, buf->ptr + m->from, m->size, remote + m->to, rkey,
                                  &param)));
        UCS(pair_wait(ucp_ep_flush_nbx(pair.ep, &param)));
    }
    pair_meet();
    if (pair.rank == 1) {
        expect(zebuf_check(buf, m->to, m->size, m->from, seed, seed + 1), "put", m);
    }
    pair_meet();
    if (pair.rank == 0) {
        zebuf_fill(buf, seed + 2);
        UCS(pair_wait(ucp_get_nbx(pair.ep, buf->ptr + m->from, m->size, remote + m->to, rkey,
                                  &param)));
        UCS(pair_wait(ucp_ep_flush_nbx(pair.ep, &param)));
        expect(zebuf_check(buf, m->from, m->size, m->from, seed, seed + 2), "get", m);
    }
    pair_meet();
}

/* ---- UCX's protocol report ---- */

static const char *const operations[] = {"ucp_tag_send", "ucp_put", "ucp_get"};

/* UCX 1.18 has no get from the peer's memory once errors are to be handled: it asks the peer. */
static int may_choose(int operation)
{
    unsigned major, minor, release;

    ucp_get_version(&major, &minor, &release);
    return minor > 18 || cases[current].mode == UCP_ERR_HANDLING_MODE_NONE ||
           strcmp(operations[operation], "ucp_get") != 0;
}

/* Of each operation that can, a row of the largest sizes names ze_range. */
static void expect_range(void)
{
    static const char *const ours[] = {"ze_range", NULL};
    unsigned                 tables;
    int                      k;

    for (k = 0; k < 3; k++) {
        if (protoinfo_count(operations[k], ours, &tables) == 0 && may_choose(k)) {
            protoinfo_print();
            fprintf(stderr, "%s: UCX did not choose ze_range for large %s of ze-device\n",
                    cases[current].name, operations[k]);
            exit(1);
        }
    }
}

/* Rank 0 has 8 objects of 1 MiB, rank 1 has 4 of 2 MiB. */
static void map(struct zebuf *buf, const void *hint)
{
    zebuf_map(buf, pair.rank ? 4 : 8, pair.rank ? 2 * MIB : MIB, hint);
}

static void tag_all(struct zebuf *buf, unsigned seed)
{
    unsigned k;

    for (k = 0; k < MESSAGES; k++) {
        tag(buf, &messages[k], seed + 10 * k);
    }
}

/* No registration of before may serve when other memory is at its addresses. */
static void change_memory(struct zebuf *buf)
{
    void *was = buf->ptr;

    zebuf_replace(buf, buf->objects / 2);
    tag_all(buf, 101);
    zebuf_replace(buf, 0);
    zebuf_replace(buf, buf->objects - 1);
    tag_all(buf, 102);
    zebuf_unmap(buf);
    map(buf, was);
    if (buf->ptr != was) {
        fprintf(stderr, "note: rank %d: mapped again elsewhere\n", pair.rank);
    }
    tag_all(buf, 103);
}

static void body(void)
{
    struct zebuf buf;
    ucp_mem_h    memh;
    ucp_rkey_h   rkey;
    uint64_t     remote;
    unsigned     k;

    if (!zebuf_start()) {
        fprintf(stderr, "no Level Zero device\n");
        exit(getenv("ZERANGE_SOFT") != NULL ? 1 : 77); /* asked for, it must be there */
    }
    protoinfo_keep();
    if (cases[current].map_before) {
        map(&buf, NULL);
    }
    pair_start_ucx();
    pair_connect(cases[current].mode);
    if (!cases[current].map_before) {
        map(&buf, NULL);
    }
    tag_all(&buf, 0);
    rkey = pair_exchange_keys(buf.ptr, buf.size, &memh, &remote);
    for (k = 0; k < MESSAGES; k++) {
        put_and_get(&buf, rkey, remote, &messages[k], 10 * k + 5);
    }
    ucp_rkey_destroy(rkey);
    UCS(ucp_mem_unmap(pair.context, memh));
    change_memory(&buf);
    if (pair.rank == 0) {
        expect_range();
    }
    pair_stop_ucx();
    zebuf_unmap(&buf);
}

int main(int argc, char **argv)
{
    unsigned k;
    int      result = 0;

    pair_enter(body, &current);
    setenv("UCX_PROTO_INFO", "y", 1);
    for (k = 0; k < CASES && result == 0; k++) {
        setenv("ZERANGE_DEVICE_CPU_ACCESS", cases[k].cpu_access, 1);
        result = pair_run(argv[0], k, 120);
        if (result == 0) {
            printf("ok: %s\n", cases[k].name);
        }
    }
    return result;
}
