/* Every protocol of UCP between two processes on buffers of several physical objects: tag, stream,
 * active message, put and get, with both schemes of rendezvous, with and without peer error
 * handling, and by who sleeps until something happens. Every byte is checked, and which way the
 * large ones took. */
/* SPDX-License-Identifier: BSD-3-Clause */
#include "protoinfo.h"
#include "ucppair.h"
#include "zebuf.h"

#define MIB   (1u << 20)
#define AM_ID 3

static const struct {
    const char             *name;
    const char             *scheme; /* UCX_RNDV_SCHEME */
    ucp_err_handling_mode_t mode;
    int                     sleeps;
} cases[] = {
    {"UCX's choice", "auto", UCP_ERR_HANDLING_MODE_NONE, 0},
    {"rendezvous by read", "get_zcopy", UCP_ERR_HANDLING_MODE_NONE, 0},
    {"rendezvous by write", "put_zcopy", UCP_ERR_HANDLING_MODE_NONE, 0},
    {"rendezvous by read, peer error handling", "get_zcopy", UCP_ERR_HANDLING_MODE_PEER, 0},
    {"rendezvous by write, peer error handling", "put_zcopy", UCP_ERR_HANDLING_MODE_PEER, 0},
    {"sleeping, rendezvous by read", "get_zcopy", UCP_ERR_HANDLING_MODE_NONE, 1},
    {"sleeping, rendezvous by write", "put_zcopy", UCP_ERR_HANDLING_MODE_NONE, 1},
    {"sleeping, peer error handling", "auto", UCP_ERR_HANDLING_MODE_PEER, 1},
};
#define CASES (sizeof(cases) / sizeof(cases[0]))

static unsigned current;

/* Objects are 1 MiB on rank 0 and 2 MiB on rank 1, 8 MiB in all on both. */
static const struct message {
    size_t from, to, size; /* offsets in the sender's and the receiver's buffer */
} messages[] = {
    {0, 0, 8},
    {MIB - 100, 2 * MIB - 77, 5000},
    {MIB - 1, 2 * MIB - 3, 2 * MIB + 17},
    {123, 4567, 7 * MIB},
};
#define MESSAGES (sizeof(messages) / sizeof(messages[0]))

static const ucp_request_param_t plain = {0};

static void expect(size_t bad, const char *what, const struct message *m)
{
    if (bad != 0) {
        fprintf(stderr, "%s, %s of %zu bytes from %zu to %zu: %zu bytes are wrong\n",
                cases[current].name, what, m->size, m->from, m->to, bad);
        exit(1);
    }
}

/* ---- two-sided: rank 0 sends, rank 1 receives ---- */

static void send_tag(const void *ptr, size_t size)
{
    UCS(pair_wait(ucp_tag_send_nbx(pair.ep, ptr, size, 7, &plain)));
}

static void receive_tag(void *ptr, size_t size)
{
    UCS(pair_wait(ucp_tag_recv_nbx(pair.worker, ptr, size, 7, ~0ull, &plain)));
}

static void send_stream(const void *ptr, size_t size)
{
    UCS(pair_wait(ucp_stream_send_nbx(pair.ep, ptr, size, &plain)));
}

static void receive_stream(void *ptr, size_t size)
{
    ucp_request_param_t all = {.op_attr_mask = UCP_OP_ATTR_FIELD_FLAGS,
                               .flags        = UCP_STREAM_RECV_FLAG_WAITALL};
    size_t              got = 0;

    UCS(pair_wait(ucp_stream_recv_nbx(pair.ep, ptr, size, &got, &all)));
}

static void send_am(const void *ptr, size_t size)
{
    UCS(pair_wait(ucp_am_send_nbx(pair.ep, AM_ID, NULL, 0, ptr, size, &plain)));
}

static struct {
    void  *to;     /* where the message is wanted */
    void  *offered; /* a rendezvous that waits for its receiver */
    size_t size;
    int    arrived;
} am;

static ucs_status_t on_am(void *arg, const void *header, size_t header_length, void *data,
                          size_t length, const ucp_am_recv_param_t *param)
{
    am.size    = length;
    am.arrived = 1;
    if (param->recv_attr & UCP_AM_RECV_ATTR_FLAG_RNDV) {
        am.offered = data;
        return UCS_INPROGRESS;
    }
    ZE(zeCommandListAppendMemoryCopy(zebuf_ze.list, am.to, data, length, NULL, 0, NULL));
    return UCS_OK;
}

static void receive_am(void *ptr, size_t size)
{
    while (!am.arrived) {
        if (ucp_worker_progress(pair.worker) == 0 && pair.sleeps) {
            pair_sleep();
        }
    }
    if (am.size != size) {
        fprintf(stderr, "active message of %zu bytes instead of %zu\n", am.size, size);
        exit(1);
    }
    if (am.offered != NULL) {
        UCS(pair_wait(ucp_am_recv_data_nbx(pair.worker, am.offered, ptr, size, &plain)));
    }
}

/* scheme: large messages are to go by the rendezvous that was asked for */
static const struct protocol {
    const char *name, *report;
    int         rendezvous;
    void (*send)(const void *ptr, size_t size);
    void (*receive)(void *ptr, size_t size);
} protocols[] = {
    {"tag", "ucp_tag_send", 1, send_tag, receive_tag},
    {"stream", "ucp_stream_send", 0, send_stream, receive_stream},
    {"active message", "ucp_am_send", 1, send_am, receive_am},
};
#define PROTOCOLS (sizeof(protocols) / sizeof(protocols[0]))

static void exchange(struct zebuf *buf, const struct protocol *protocol, const struct message *m,
                     unsigned seed)
{
    zebuf_fill(buf, seed + pair.rank);
    am.to      = buf->ptr + m->to;
    am.offered = NULL;
    am.arrived = 0;
    pair_meet();
    if (pair.rank == 0) {
        protocol->send(buf->ptr + m->from, m->size);
    } else {
        protocol->receive(buf->ptr + m->to, m->size);
        expect(zebuf_check(buf, m->to, m->size, m->from, seed, seed + 1), protocol->name, m);
    }
    pair_meet();
}

/* ---- one-sided: rank 0 writes into rank 1's buffer and reads it back ---- */

static void put_and_get(struct zebuf *buf, ucp_rkey_h rkey, uint64_t remote,
                        const struct message *m, unsigned seed)
{
    char *from = buf->ptr + m->from;

    zebuf_fill(buf, seed + pair.rank);
    pair_meet();
    if (pair.rank == 0) {
        UCS(pair_wait(ucp_put_nbx(pair.ep, from, m->size, remote + m->to, rkey, &plain)));
        UCS(pair_wait(ucp_ep_flush_nbx(pair.ep, &plain)));
    }
    pair_meet();
    if (pair.rank == 1) {
        expect(zebuf_check(buf, m->to, m->size, m->from, seed, seed + 1), "put", m);
    }
    pair_meet();
    if (pair.rank == 0) {
        zebuf_fill(buf, seed + 2);
        UCS(pair_wait(ucp_get_nbx(pair.ep, from, m->size, remote + m->to, rkey, &plain)));
        expect(zebuf_check(buf, m->from, m->size, m->from, seed, seed + 2), "get", m);
    }
    pair_meet();
}

/* ---- which way they took ---- */

static void expect_way(const char *report, const char *way)
{
    const char *const texts[] = {"ze_range", way, NULL};
    unsigned          tables;

    if (protoinfo_count(report, texts, &tables) == 0) {
        protoinfo_print();
        fprintf(stderr, "%s: none of %u tables of %s of ze-device has \"%s\" by ze_range\n",
                cases[current].name, tables, report, way);
        exit(1);
    }
}

static void expect_ways(void)
{
    const char *way = strcmp(cases[current].scheme, "get_zcopy") == 0 ? "read from remote"
                      : strcmp(cases[current].scheme, "put_zcopy") == 0 ? "write to remote"
                                                                        : "";
    unsigned    major, minor, release, k;

    for (k = 0; k < PROTOCOLS; k++) {
        if (protocols[k].rendezvous) {
            expect_way(protocols[k].report, way);
        }
    }
    expect_way("ucp_put", "");
    /* UCX 1.18 has no get from the peer's memory once errors are to be handled. */
    ucp_get_version(&major, &minor, &release);
    if (minor > 18 || cases[current].mode == UCP_ERR_HANDLING_MODE_NONE) {
        expect_way("ucp_get", "");
    }
}

static void start(void)
{
    ucp_am_handler_param_t handler = {.field_mask = UCP_AM_HANDLER_PARAM_FIELD_ID |
                                                    UCP_AM_HANDLER_PARAM_FIELD_CB,
                                      .id         = AM_ID,
                                      .cb         = on_am};

    pair.sleeps = cases[current].sleeps;
    pair_start_ucx_with(UCP_FEATURE_TAG | UCP_FEATURE_RMA | UCP_FEATURE_STREAM | UCP_FEATURE_AM |
                            (pair.sleeps ? UCP_FEATURE_WAKEUP : 0),
                        UCS_THREAD_MODE_SINGLE);
    UCS(ucp_worker_set_am_recv_handler(pair.worker, &handler));
    pair_connect(cases[current].mode);
}

static void body(void)
{
    struct zebuf buf;
    ucp_mem_h    memh;
    ucp_rkey_h   rkey;
    uint64_t     remote;
    unsigned     k, m;

    if (!zebuf_start()) {
        fprintf(stderr, "no Level Zero device\n");
        exit(getenv("ZERANGE_SOFT") != NULL ? 1 : 77); /* asked for, it must be there */
    }
    protoinfo_keep();
    start();
    zebuf_map(&buf, pair.rank ? 4 : 8, pair.rank ? 2 * MIB : MIB, NULL);
    for (k = 0; k < PROTOCOLS; k++) {
        for (m = 0; m < MESSAGES; m++) {
            exchange(&buf, &protocols[k], &messages[m], 11 * (k + PROTOCOLS * m));
        }
    }
    rkey = pair_exchange_keys(buf.ptr, buf.size, &memh, &remote);
    for (m = 0; m < MESSAGES; m++) {
        put_and_get(&buf, rkey, remote, &messages[m], 10 * m + 5);
    }
    ucp_rkey_destroy(rkey);
    UCS(ucp_mem_unmap(pair.context, memh));
    if (pair.rank == 0) {
        expect_ways();
    }
    if (pair.sleeps && pair.slept == 0) {
        fprintf(stderr, "rank %d never slept\n", pair.rank);
        exit(1);
    }
    pair.sleeps = 0;
    pair_stop_ucx();
    zebuf_unmap(&buf);
}

/* UCP leaves UCX's own ze_copy out of workers that sleep, see docs/ucx.md: ours is not. */
static void choose_copy_transport(void)
{
    static int given = -1;

    if (given < 0) {
        given = getenv("UCX_MODULES") != NULL;
    }
    if (!given && cases[current].sleeps) {
        setenv("UCX_MODULES", "^ze", 1);
    } else if (!given) {
        unsetenv("UCX_MODULES");
    }
}

/* Engines at their full rate end most copies before the worker gets to its sleep: then nobody would
 * miss who wakes it. */
static void choose_engine_rate(void)
{
    if (cases[current].sleeps) {
        setenv("ZERANGE_SOFT_ENGINE_MBPS", "300", 1);
    } else {
        unsetenv("ZERANGE_SOFT_ENGINE_MBPS");
    }
}

/* Of one case with its number as argument, of all without. */
int main(int argc, char **argv)
{
    unsigned k, only = argc > 1 ? (unsigned)atoi(argv[1]) : CASES;
    int      result = 0;

    pair_enter(body, &current);
    setenv("UCX_PROTO_INFO", "y", 1);
    for (k = 0; k < CASES && result == 0; k++) {
        if (only < CASES && only != k) {
            continue;
        }
        current = k;
        setenv("UCX_RNDV_SCHEME", cases[k].scheme, 1);
        choose_copy_transport();
        choose_engine_rate();
        result = pair_run(argv[0], k, 120);
        if (result == 0) {
            printf("ok: %s\n", cases[k].name);
        }
    }
    return result;
}
