/* What peers share and this process has open. */
/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef ZR_PLUGIN_IMPORTS_H
#define ZR_PLUGIN_IMPORTS_H

#include "abi/uct_abi.h"
#include "link.h"

/* A remote key: nothing is opened before its first use, except where the key alone does not tell
 * whether it can be. */
struct zr_rkey {
    struct zr_key             key;
    uint64_t                  space; /* of the peer, in the cache */
    struct zr_rcache_identity identity;
    _Atomic(struct zr_rkey *) renewed; /* what the exporter gave when this one opened no more */
};

/** Called again it changes the limits. @return 0 or -ENOMEM. */
int zr_imports_start(const struct zr_rcache_limits *limits, const struct zr_link_ops *link);

/** @return UCS_ERR_NO_MEMORY; UCS_ERR_UNREACHABLE: a share of pieces that cannot be opened here,
 * which is said once. */
ucs_status_t zr_rkey_create(const struct zr_key *key, struct zr_rkey **rkey_p);
void         zr_rkey_destroy(struct zr_rkey *rkey);

/**
 * The peer's [remote, remote+size) is open until zr_import_put.
 * @return UCS_ERR_INVALID_ADDR: not inside the key; UCS_ERR_CONNECTION_RESET: the peer is gone;
 *         UCS_ERR_UNREACHABLE: it cannot be opened; UCS_ERR_NO_MEMORY. Says why.
 */
ucs_status_t zr_import_get(struct zr_rkey *rkey, uint64_t remote, size_t size,
                           struct zr_rcache_region **region_p);
void         zr_import_put(struct zr_rcache_region *region);
/** Where the peer's @a remote is here, and how many bytes go on from there. */
void *zr_import_at(const struct zr_rcache_region *region, uint64_t remote, uint64_t *length_p);

/** For the link. */
void zr_imports_let_go(uint64_t space, uint64_t base, uint64_t size, uint64_t id);
void zr_imports_stats(struct zr_rcache_stats *stats);

#endif
