/* An export covers what is mapped behind a buffer too. When a neighbour is unmapped, the buffer
 * itself can still be sent, and a key that a peer has but did not use yet still opens. */
/* SPDX-License-Identifier: BSD-3-Clause */
#include "ucppair.h"
#include "zebuf.h"

#define SIZE ((size_t)1 << 20)

/* Object @a k of rank 0 goes into object 0 of rank 1. */
static void send_object(struct zebuf *buf, unsigned k, unsigned seed, const char *what)
{
    ucp_request_param_t param = {0};

    zebuf_fill(buf, seed + pair.rank);
    pair_meet();
    if (pair.rank == 0) {
        UCS(pair_wait(ucp_tag_send_nbx(pair.ep, buf->ptr + k * SIZE, SIZE, 7, &param)));
    } else {
        UCS(pair_wait(ucp_tag_recv_nbx(pair.worker, buf->ptr, SIZE, 7, ~0ull, &param)));
        if (zebuf_check(buf, 0, SIZE, k * SIZE, seed, seed + 1) != 0) {
            fprintf(stderr, "%s: wrong bytes\n", what);
            exit(1);
        }
    }
    pair_meet();
}

/* Rank 1 reads rank 0's object 0 with a key that was packed before another object of it was
 * replaced, or before the reservation in front of it was freed. */
static void get_late(struct zebuf *buf, struct zebuf *front, unsigned seed)
{
    ucp_mem_map_params_t params = {.field_mask = UCP_MEM_MAP_PARAM_FIELD_ADDRESS |
                                                 UCP_MEM_MAP_PARAM_FIELD_LENGTH,
                                   .address    = buf->ptr,
                                   .length     = SIZE};
    ucp_request_param_t  param  = {0};
    uint64_t             remote = (uintptr_t)buf->ptr;
    ucp_mem_h            memh;
    ucp_rkey_h           rkey;
    void                *packed;
    size_t               size;

    zebuf_fill(buf, seed + pair.rank);
    if (pair.rank == 0) {
        UCS(ucp_mem_map(pair.context, &params, &memh));
        UCS(ucp_rkey_pack(pair.context, memh, &packed, &size));
        pair_write(&remote, sizeof(remote));
        pair_write(&size, sizeof(size));
        pair_write(packed, size);
        ucp_rkey_buffer_release(packed);
        if (front != NULL) {
            zebuf_unmap(front);
        } else {
            zebuf_replace(buf, 2);
        }
        pair_meet();
        pair_meet();
        UCS(ucp_mem_unmap(pair.context, memh));
        return;
    }
    pair_read(&remote, sizeof(remote));
    pair_read(&size, sizeof(size));
    packed = malloc(size);
    pair_read(packed, size);
    UCS(ucp_ep_rkey_unpack(pair.ep, packed, &rkey));
    free(packed);
    pair_meet();
    UCS(pair_wait(ucp_get_nbx(pair.ep, buf->ptr, SIZE, remote, rkey, &param)));
    UCS(pair_wait(ucp_ep_flush_nbx(pair.ep, &param)));
    if (zebuf_check(buf, 0, SIZE, 0, seed, seed + 1) != 0) {
        fprintf(stderr, "key packed before a neighbour went: wrong bytes\n");
        exit(1);
    }
    ucp_rkey_destroy(rkey);
    pair_meet();
}

/* Two reservations without a gap. */
static void map_in_a_row(struct zebuf *front, struct zebuf *buf)
{
    void *place;

    zebuf_need_staging(3 * SIZE); /* takes no address from them later */
    ZE(zeVirtualMemReserve(zebuf_ze.context, NULL, 8 * SIZE, &place));
    ZE(zeVirtualMemFree(zebuf_ze.context, place, 8 * SIZE));
    zebuf_map(front, 2, SIZE, place);
    zebuf_map(buf, 3, SIZE, front->ptr + 2 * SIZE);
    if (buf->ptr != front->ptr + 2 * SIZE) {
        fprintf(stderr, "note: rank %d: no reservation right in front\n", pair.rank);
    }
}

static void body(void)
{
    struct zebuf buf, front;

    if (!zebuf_start()) {
        fprintf(stderr, "no Level Zero device\n");
        exit(getenv("ZERANGE_SOFT") != NULL ? 1 : 77); /* asked for, it must be there */
    }
    pair_start_ucx();
    pair_connect(UCP_ERR_HANDLING_MODE_NONE);
    map_in_a_row(&front, &buf);
    send_object(&buf, 0, 10, "first object");
    zebuf_replace(&buf, 1);
    send_object(&buf, 1, 20, "replaced object");
    send_object(&buf, 0, 30, "first object after its neighbour was replaced");
    get_late(&buf, NULL, 40);
    get_late(&buf, &front, 50);
    if (pair.rank == 1) {
        zebuf_unmap(&front);
    }
    pair_stop_ucx();
    zebuf_unmap(&buf);
}

int main(int argc, char **argv)
{
    unsigned which;

    pair_enter(body, &which);
    return pair_run(argv[0], 0, 60);
}
