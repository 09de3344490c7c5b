/* The memory domain ze_range: registers VA ranges of device memory, and opens those of peers. */
/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef ZR_PLUGIN_MD_H
#define ZR_PLUGIN_MD_H

#include "abi/layout.h"
#include "exports.h"
#include "imports.h"

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

/** UCX makes the domain's files. */
void zr_md_vfs_init(struct zr_uct_md *md);
/** Counters of both caches and whose they are. */
void zr_md_stats(struct zr_link_stats *stats);

/** The one function that turns Level Zero's results into UCX's. */
ucs_status_t zr_status_of(ze_result_t result);

#endif
