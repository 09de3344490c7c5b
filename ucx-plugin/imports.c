/* Imports: see imports.h. */
/* SPDX-License-Identifier: BSD-3-Clause */
#include "imports.h"

#include "md.h"

#include <errno.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define MAX_PIECES 65536
#define MAX_RENEW  4 /* new keys of one transfer, when each goes before it is opened */

static _Atomic(struct zr_rcache *)      cache;
static const struct zr_link_ops        *link_ops;

struct import {
    struct zr_opened *opened;
    bool              watched; /* its exporter can ask us to let go: it may be kept */
};

/* For one call of zr_rcache_get. */
struct opening {
    const struct zr_rkey *rkey;
    ze_result_t           result;
    int                   link_error; /* of asking for pieces */
};

static int errno_of(ze_result_t result)
{
    ucs_status_t status = zr_status_of(result);

    return status == UCS_OK ? 0 : status == UCS_ERR_NO_MEMORY ? -ENOMEM : -EIO;
}

/* ---- opening ---- */

static void close_fds(const int *fds, unsigned count)
{
    while (count-- > 0) {
        if (fds[count] >= 0) {
            close(fds[count]);
        }
    }
}

/* Pieces come in order, without a gap, and cover what the key says. */
static bool pieces_are_sane(const struct zr_key *key, const struct zr_piece *pieces, unsigned count)
{
    uint64_t at = key->base;
    unsigned k;

    for (k = 0; k < count; k++) {
        if (pieces[k].start != at || pieces[k].length == 0 ||
            pieces[k].length > key->base + key->size - at) {
            return false;
        }
        at += pieces[k].length;
    }
    return true;
}

/* 0 or -errno. Pieces and fds are the caller's to free and close. */
static int fetch_pieces(const struct zr_key *key, struct zr_share *share, int **fds_p)
{
    struct zr_link_message request = {.magic     = ZR_LINK_MAGIC,
                                      .version   = ZR_LINK_VERSION,
                                      .what      = ZR_LINK_PIECES,
                                      .export_id = key->export_id},
                           answer;
    uint64_t done = 0;
    void    *grown;
    unsigned k;
    int      ret;

    memcpy(request.secret, key->handle, sizeof(request.secret));
    while (done < key->size) {
        grown = realloc(share->pieces,
                        (share->count + ZR_LINK_PIECES_MAX) * sizeof(*share->pieces));
        if (grown == NULL) {
            return -ENOMEM;
        }
        share->pieces = grown;
        grown         = realloc(*fds_p, (share->count + ZR_LINK_PIECES_MAX) * sizeof(**fds_p));
        if (grown == NULL) {
            return -ENOMEM;
        }
        *fds_p        = grown;
        request.first = share->count;
        ret           = zr_link_ask(key->link, &request, &answer, *fds_p + share->count);
        if (ret != 0) {
            return ret;
        }
        if (answer.count == 0 || share->count + answer.count > MAX_PIECES) {
            close_fds(*fds_p + share->count, answer.count);
            return -EPROTO;
        }
        memcpy(share->pieces + share->count, answer.u.pieces,
               answer.count * sizeof(*share->pieces));
        for (k = 0; k < answer.count; k++) {
            done += answer.u.pieces[k].length;
        }
        share->count += answer.count;
    }
    return pieces_are_sane(key, share->pieces, share->count) ? 0 : -EPROTO;
}

static int open_pieces(struct opening *opening, const struct zr_key *key, struct import *import)
{
    struct zr_share share = {.kind = ZR_SHARE_PIECES, .base = key->base, .size = key->size};
    int            *fds   = NULL, ret;

    ret                 = fetch_pieces(key, &share, &fds);
    opening->link_error = ret;
    if (ret != 0) {
        close_fds(fds, fds != NULL ? share.count : 0);
    } else {
        opening->result = zr_share_open(zr_ze_get(), &share, fds, &import->opened);
        ret             = errno_of(opening->result);
    }
    free(share.pieces);
    free(fds);
    return ret;
}

static int open_handle(struct opening *opening, const struct zr_key *key, struct import *import)
{
    struct zr_share share = {.kind = key->kind, .base = key->base, .size = key->size};

    memcpy(share.handle.data, key->handle, sizeof(key->handle));
    opening->result = zr_share_open(zr_ze_get(), &share, NULL, &import->opened);
    return errno_of(opening->result);
}

static int import_open(void *owner, const struct zr_rcache_request *request,
                       struct zr_rcache_region *region, uint64_t *start_p, uint64_t *end_p)
{
    struct opening      *opening = (struct opening *)request->arg;
    const struct zr_key *key     = &opening->rkey->key;
    struct import       *import  = calloc(1, sizeof(*import));
    int                  ret;

    if (import == NULL) {
        return -ENOMEM;
    }
    if (zr_link_start(link_ops) != 0) {
        (void)zr_link_watch(key->link, opening->rkey->space);
    }
    ret = key->kind == ZR_SHARE_PIECES ? open_pieces(opening, key, import)
                                       : open_handle(opening, key, import);
    if (ret != 0) {
        free(import);
        return ret;
    }
    /* Asked now: if the watch ends later, that invalidates this region. */
    import->watched = zr_link_watching(key->link);
    region->data    = import;
    zr_ucs_debug("opened 0x%lx..0x%lx of process %u in %u pieces", (unsigned long)key->base,
                 (unsigned long)(key->base + key->size), key->peer.pid, import->opened->count);
    return 0;
}

static void import_close(void *owner, struct zr_rcache_region *region)
{
    struct import *import = region->data;

    zr_share_close(zr_ze_get(), import->opened);
    free(import);
}

static const struct zr_rcache_ops import_ops = {import_open, import_close, NULL, NULL};

int zr_imports_start(const struct zr_rcache_limits *limits, const struct zr_link_ops *link)
{
    struct zr_rcache *made = atomic_load(&cache);

    if (made == NULL) {
        link_ops = link;
        if (zr_rcache_create(&import_ops, NULL, limits, &made) != 0) {
            return -ENOMEM;
        }
        atomic_store(&cache, made);
    }
    zr_rcache_set_limits(made, limits);
    return 0;
}

/* ---- one key ---- */

static bool inside(const struct zr_key *key, uint64_t remote, size_t size)
{
    return remote >= key->base && remote - key->base <= key->size &&
           size <= key->size - (remote - key->base);
}

static int get(const struct zr_rkey *rkey, struct opening *opening,
               struct zr_rcache_region **region_p)
{
    static atomic_flag       said    = ATOMIC_FLAG_INIT;
    struct zr_rcache_request request = {rkey->space, rkey->key.base, rkey->key.size,
                                        &rkey->identity, opening};
    int                      ret;

    *opening = (struct opening){.rkey = rkey};
    ret      = zr_rcache_get(atomic_load(&cache), &request, region_p);
    if (ret == 0 && !((struct import *)(*region_p)->data)->watched) {
        /* Nobody could ask for it: it goes with this use. */
        zr_rcache_invalidate_region(atomic_load(&cache), *region_p);
        if (!atomic_flag_test_and_set(&said)) {
            zr_ucs_warn("process %u cannot say when it frees memory (no socket reaches it): what "
                        "it shares is opened for each transfer",
                        rkey->key.peer.pid);
        }
    }
    return ret;
}

static struct zr_rkey *rkey_new(const struct zr_key *key)
{
    struct zr_rkey *rkey = calloc(1, sizeof(*rkey));

    if (rkey == NULL) {
        return NULL;
    }
    rkey->key         = *key;
    rkey->space       = zr_peer_space(&key->peer);
    rkey->identity.id = key->export_id;
    memcpy(rkey->identity.bytes, key->handle, sizeof(key->handle));
    if (rkey->space == 0) {
        free(rkey);
        return NULL;
    }
    return rkey;
}

void zr_rkey_destroy(struct zr_rkey *rkey)
{
    struct zr_rkey *next;

    for (; rkey != NULL; rkey = next) {
        next = atomic_load(&rkey->renewed);
        free(rkey);
    }
}

/* Ask the exporter for a key that opens. */
static struct zr_rkey *renew(const struct zr_rkey *old, uint64_t remote, size_t size)
{
    struct zr_link_message request = {.magic     = ZR_LINK_MAGIC,
                                      .version   = ZR_LINK_VERSION,
                                      .what      = ZR_LINK_RENEW,
                                      .export_id = old->key.registration,
                                      .base      = remote,
                                      .size      = size},
                           answer;

    if (zr_link_ask(old->key.link, &request, &answer, NULL) != 0 ||
        answer.u.key.version != ZR_KEY_VERSION || answer.u.key.kind == ZR_SHARE_NONE ||
        !zr_peer_equal(&answer.u.key.peer, &old->key.peer) ||
        !inside(&answer.u.key, remote, size)) {
        return NULL;
    }
    return rkey_new(&answer.u.key);
}

static void say_unstitched(const struct zr_key *key, const struct opening *opening)
{
    static atomic_flag said = ATOMIC_FLAG_INIT;

    if (!atomic_flag_test_and_set(&said)) {
        zr_ucs_warn("mappings of process %u cannot be opened one by one (%s): such memory is "
                    "reached through host memory",
                    key->peer.pid,
                    opening->link_error == -ENOENT  ? "what it shared is gone or has changed"
                    : opening->link_error != 0      ? strerror(-opening->link_error)
                    : opening->result == ZE_RESULT_ERROR_INVALID_SIZE
                        ? "one shows a part of its object, at an unknown offset"
                        : zr_ze_last_error(zr_ze_get()));
    }
}

/* Whether pieces fit this driver is known only by opening them, and only now can UCP still take
 * another way. */
static ucs_status_t try_pieces(struct zr_rkey *rkey)
{
    struct zr_rcache_region *region;
    struct zr_rkey          *fresh = NULL;
    struct opening           opening;
    unsigned                 tries;

    for (tries = 0; get(fresh != NULL ? fresh : rkey, &opening, &region) != 0; tries++) {
        fresh = NULL;
        if (opening.result != ZE_RESULT_ERROR_INVALID_SIZE && tries < MAX_RENEW) {
            fresh = renew(rkey, rkey->key.registered_base, rkey->key.registered_size);
        }
        if (fresh == NULL) {
            say_unstitched(&rkey->key, &opening);
            return UCS_ERR_UNREACHABLE;
        }
        atomic_store(&fresh->renewed, atomic_load(&rkey->renewed));
        atomic_store(&rkey->renewed, fresh);
    }
    zr_import_put(region);
    return UCS_OK;
}

ucs_status_t zr_rkey_create(const struct zr_key *key, struct zr_rkey **rkey_p)
{
    struct zr_rkey *rkey = rkey_new(key);
    ucs_status_t    status;

    if (rkey == NULL) {
        return UCS_ERR_NO_MEMORY;
    }
    status = key->kind == ZR_SHARE_PIECES ? try_pieces(rkey) : UCS_OK;
    if (status != UCS_OK) {
        zr_rkey_destroy(rkey);
        return status;
    }
    *rkey_p = rkey;
    return UCS_OK;
}

/* The renewed key that covers what is wanted, newest first; NULL: none. */
static struct zr_rkey *renewed_for(struct zr_rkey *rkey, uint64_t remote, size_t size)
{
    struct zr_rkey *next = atomic_load(&rkey->renewed);

    while (next != NULL && !inside(&next->key, remote, size)) {
        next = atomic_load(&next->renewed);
    }
    return next;
}

static void add_renewed(struct zr_rkey *rkey, struct zr_rkey *fresh)
{
    struct zr_rkey *head = atomic_load(&rkey->renewed);

    do {
        atomic_store(&fresh->renewed, head);
    } while (!atomic_compare_exchange_weak(&rkey->renewed, &head, fresh));
}

/* The same process may be alive under this pid, or another one, or none. */
static bool peer_is_gone(const struct zr_peer *peer)
{
    return kill((pid_t)peer->pid, 0) != 0 && errno == ESRCH;
}

ucs_status_t zr_import_get(struct zr_rkey *rkey, uint64_t remote, size_t size,
                           struct zr_rcache_region **region_p)
{
    const struct zr_key *key     = &rkey->key;
    struct zr_rkey      *current = renewed_for(rkey, remote, size);
    struct opening       opening;
    unsigned             tries;
    int                  ret;

    if (!inside(key, remote, size)) {
        zr_ucs_error("remote 0x%lx..0x%lx is not inside the key's 0x%lx..0x%lx",
                     (unsigned long)remote, (unsigned long)(remote + size),
                     (unsigned long)key->base, (unsigned long)(key->base + key->size));
        return UCS_ERR_INVALID_ADDR;
    }
    for (tries = 0;; tries++) {
        ret = get(current != NULL ? current : rkey, &opening, region_p);
        if (ret == 0) {
            return UCS_OK;
        }
        current = tries < MAX_RENEW && ret != -ENOMEM ? renew(rkey, remote, size) : NULL;
        if (current == NULL) {
            break;
        }
        add_renewed(rkey, current);
    }
    zr_ucs_diag("range 0x%lx..0x%lx of process %u cannot be opened: 0x%x %s %s",
                (unsigned long)key->base, (unsigned long)(key->base + key->size), key->peer.pid,
                (unsigned)opening.result, zr_ze_last_error(zr_ze_get()),
                opening.link_error != 0 ? strerror(-opening.link_error) : "");
    if (peer_is_gone(&key->peer)) {
        return UCS_ERR_CONNECTION_RESET;
    }
    return ret == -ENOMEM ? UCS_ERR_NO_MEMORY : UCS_ERR_UNREACHABLE;
}

void zr_import_put(struct zr_rcache_region *region)
{
    zr_rcache_put(atomic_load(&cache), region);
}

void *zr_import_at(const struct zr_rcache_region *region, uint64_t remote, uint64_t *length_p)
{
    return zr_opened_at(((const struct import *)region->data)->opened, remote, length_p);
}

/* ---- for the link ---- */

void zr_imports_let_go(uint64_t space, uint64_t base, uint64_t size, uint64_t id)
{
    if (id == 0) {
        zr_rcache_invalidate(atomic_load(&cache), space, 0, UINT64_MAX);
    } else {
        zr_rcache_invalidate_id(atomic_load(&cache), space, base, size, id);
    }
}

void zr_imports_stats(struct zr_rcache_stats *stats)
{
    struct zr_rcache *made = atomic_load(&cache);

    memset(stats, 0, sizeof(*stats));
    if (made != NULL) {
        zr_rcache_get_stats(made, stats);
    }
}
