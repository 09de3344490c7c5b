/* The memory domain ze_range: registers VA ranges of device memory, and opens those of peers. */
/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef ZR_PLUGIN_MD_H
#define ZR_PLUGIN_MD_H

#include "abi/layout.h"
#include "peer.h"
#include "rcache/rcache.h"
#include "ze.h"

#define ZR_COMPONENT_NAME "ze_range"

/* Set by module.c before anything is registered. */
extern struct zr_uct_tables zr_uct_tables;

/* Without slots: the signatures of these are the same in all versions. */
ucs_status_t zr_md_query_resources(struct zr_uct_component *component,
                                   uct_md_resource_desc_t **resources_p, unsigned *count_p);
ucs_status_t zr_md_open(struct zr_uct_component *component, const char *name,
                        const uct_md_config_t *config, struct zr_uct_md **md_p);
extern ucs_config_field_t zr_md_config_table[];
extern const size_t       zr_md_config_size;

/* For the slots of a layout. */
void         zr_md_close(struct zr_uct_md *md);
ucs_status_t zr_md_query(struct zr_uct_md *md, struct zr_uct_md_attr *attr);
ucs_status_t zr_md_mem_reg(struct zr_uct_md *md, void *address, size_t length, const void *params,
                           uct_mem_h *memh_p);
ucs_status_t zr_md_mem_dereg(struct zr_uct_md *md, const struct zr_uct_dereg_params *params);
ucs_status_t zr_md_mkey_pack(struct zr_uct_md *md, uct_mem_h memh, void *address, size_t length,
                             const void *params, void *buffer);
ucs_status_t zr_rkey_unpack(const void *buffer, uct_rkey_t *rkey_p);
ucs_status_t zr_rkey_release(struct zr_uct_component *component, uct_rkey_t rkey, void *handle);

/* ---- for the transport ---- */

/* A remote key: nothing is opened before its first use. */
struct zr_rkey {
    struct zr_key             key;
    uint64_t                  space; /* of the peer, in the import cache */
    struct zr_rcache_identity identity;
};

/**
 * The peer's [remote, remote+size) at *ptr_p, until zr_import_put.
 * @return UCS_ERR_INVALID_ADDR: not inside the key; UCS_ERR_CONNECTION_RESET: the peer is gone;
 *         UCS_ERR_UNREACHABLE: it cannot be opened; UCS_ERR_NO_MEMORY. Says why, once per kind.
 */
ucs_status_t zr_import_get(const struct zr_rkey *rkey, uint64_t remote, size_t size,
                           struct zr_rcache_region **region_p, void **ptr_p);
void         zr_import_put(struct zr_rcache_region *region);

/** The one function that turns Level Zero's results into UCX's. */
ucs_status_t zr_status_of(ze_result_t result);

#endif
