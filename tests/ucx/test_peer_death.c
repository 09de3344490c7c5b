/* A peer is killed: what is started afterwards on its memory ends, with an error or, as long as the
 * memory is still open here, with the right bytes; never with a hang or a crash. */
/* SPDX-License-Identifier: BSD-3-Clause */
#include "ucppair.h"
#include "zebuf.h"

#define MIB (1u << 20)

static const struct {
    const char             *name;
    int                     open_before; /* a first get has opened the peer's memory */
    ucp_err_handling_mode_t mode;
    int                     sleeps; /* the survivor waits on its worker's descriptor */
    int                     sends;  /* a message that the peer never takes is on its way */
} cases[] = {
    {"killed before its memory is opened", 0, UCP_ERR_HANDLING_MODE_PEER, 0, 0},
    {"killed after its memory is opened", 1, UCP_ERR_HANDLING_MODE_PEER, 0, 0},
    {"the same without error handling", 1, UCP_ERR_HANDLING_MODE_NONE, 0, 0},
    {"a message waits for it", 0, UCP_ERR_HANDLING_MODE_PEER, 0, 1},
    {"asleep, before its memory is opened", 0, UCP_ERR_HANDLING_MODE_PEER, 1, 0},
    {"asleep, after its memory is opened", 1, UCP_ERR_HANDLING_MODE_PEER, 1, 0},
    {"asleep, a message waits for it", 0, UCP_ERR_HANDLING_MODE_PEER, 1, 1},
};
#define CASES (sizeof(cases) / sizeof(cases[0]))

static unsigned current;

/* Rank 1 says where its buffer is, then waits to be killed. */
static void victim(struct zebuf *buf)
{
    ucp_mem_map_params_t params = {.field_mask = UCP_MEM_MAP_PARAM_FIELD_ADDRESS |
                                                 UCP_MEM_MAP_PARAM_FIELD_LENGTH,
                                   .address    = buf->ptr,
                                   .length     = buf->size};
    uint64_t             mine   = (uintptr_t)buf->ptr;
    pid_t                pid    = getpid();
    ucp_mem_h            memh;
    void                *packed;
    size_t               size;

    UCS(ucp_mem_map(pair.context, &params, &memh));
    UCS(ucp_rkey_pack(pair.context, memh, &packed, &size));
    pair_write(&pid, sizeof(pid));
    pair_write(&mine, sizeof(mine));
    pair_write(&size, sizeof(size));
    pair_write(packed, size);
    for (;;) {
        ucp_worker_progress(pair.worker);
    }
}

static ucs_status_t get(struct zebuf *buf, uint64_t remote, ucp_rkey_h rkey)
{
    ucp_request_param_t param = {0};
    ucs_status_t        status;

    status = pair_wait(ucp_get_nbx(pair.ep, buf->ptr, buf->size, remote, rkey, &param));
    return status;
}

static pid_t victim_pid;

static void kill_victim(void)
{
    kill(victim_pid, SIGKILL);
}

/* A message that nobody takes can only end with an error, and whoever sleeps must be woken for it. */
static void expect_error(void *request)
{
    unsigned     slept  = pair.slept;
    ucs_status_t status = pair_wait(request);

    if (status == UCS_OK || (cases[current].sleeps && pair.slept == slept)) {
        fprintf(stderr, "%s: the message ended with \"%s\" after %u sleeps\n", cases[current].name,
                ucs_status_string(status), pair.slept - slept);
        exit(1);
    }
}

static void survivor(struct zebuf *buf)
{
    ucp_request_param_t param = {.op_attr_mask = UCP_OP_ATTR_FIELD_FLAGS,
                                 .flags        = UCP_EP_CLOSE_FLAG_FORCE};
    ucp_request_param_t plain = {0};
    void               *message = NULL;
    ucp_rkey_h          rkey;
    ucs_status_t        status;
    uint64_t            remote;
    void               *packed;
    size_t              size;
    char                c;

    pair_read(&victim_pid, sizeof(victim_pid));
    pair_read(&remote, sizeof(remote));
    pair_read(&size, sizeof(size));
    packed = malloc(size);
    pair_read(packed, size);
    UCS(ucp_ep_rkey_unpack(pair.ep, packed, &rkey));
    free(packed);
    zebuf_fill(buf, 9);
    if (cases[current].open_before) {
        UCS(get(buf, remote, rkey));
        zebuf_fill(buf, 9);
    }
    if (cases[current].sends) {
        /* Connected, so that the message is with the peer and not still looking for it. */
        UCS(pair_wait(ucp_ep_flush_nbx(pair.ep, &plain)));
        message = ucp_tag_send_nbx(pair.ep, buf->ptr, buf->size, 7, &plain);
    }
    if (cases[current].sends && cases[current].sleeps) {
        pair.armed = kill_victim; /* not before: what happens must wake */
        expect_error(message);
    }
    kill_victim();
    while (read(pair.fd, &c, 1) > 0) {
    }
    if (cases[current].sends && !cases[current].sleeps) {
        expect_error(message);
    }
    status = get(buf, remote, rkey);
    if (status == UCS_OK) {
        if (!cases[current].open_before || zebuf_check(buf, 0, buf->size, 0, 1, 9) != 0) {
            fprintf(stderr, "%s: the get succeeded with wrong bytes\n", cases[current].name);
            exit(1);
        }
    }
    ucp_rkey_destroy(rkey);
    (void)pair_wait(ucp_ep_close_nbx(pair.ep, &param));
    ucp_worker_destroy(pair.worker);
    ucp_cleanup(pair.context);
    zebuf_unmap(buf);
}

static void body(void)
{
    struct zebuf buf;

    if (!zebuf_start()) {
        fprintf(stderr, "no Level Zero device\n");
        exit(getenv("ZERANGE_SOFT") != NULL ? 1 : 77); /* asked for, it must be there */
    }
    /* UCX 1.18 asks the peer for a get: that it is dead is found by keepalive only. */
    setenv("UCX_KEEPALIVE_INTERVAL", "1s", 0);
    pair.sleeps = cases[current].sleeps && pair.rank == 0;
    pair_start_ucx_with(UCP_FEATURE_TAG | UCP_FEATURE_RMA |
                            (cases[current].sleeps ? UCP_FEATURE_WAKEUP : 0),
                        UCS_THREAD_MODE_SINGLE);
    pair_connect(cases[current].mode);
    zebuf_map(&buf, 4, MIB, NULL);
    zebuf_fill(&buf, 1);
    if (pair.rank == 1) {
        victim(&buf);
    } else {
        survivor(&buf);
    }
}

int main(int argc, char **argv)
{
    int      result = 0, ret;
    unsigned k;
    unsigned major, minor, release;

    pair_enter(body, &current);
    ucp_get_version(&major, &minor, &release);
    for (k = 0; k < CASES; k++) {
        /* UCX 1.18's get has no way to end with an error: it ends the process (docs/ucx.md). */
        if (cases[k].mode == UCP_ERR_HANDLING_MODE_NONE && major == 1 && minor < 19) {
            printf("not run: %s: UCX %u.%u ends the process\n", cases[k].name, major, minor);
            continue;
        }
        /* UCP leaves UCX's own ze_copy out of workers that sleep, see docs/ucx.md: ours is not. */
        if (cases[k].sleeps) {
            setenv("UCX_MODULES", "^ze", 1);
        }
        ret = pair_run(argv[0], k, 60);
        if (ret == 77) {
            return 77;
        }
        printf("%s: %s\n", ret == 0 ? "ok" : "not ok", cases[k].name);
        result |= ret;
    }
    return result;
}
