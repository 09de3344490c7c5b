/* A transport ze_copy of our own, for a UCX that has none: without one UCX refuses to start as soon
 * as a memory domain gives access to Level Zero memory. It copies within this process, and its
 * memory domain allocates such memory and recognises it. */
/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef ZR_PLUGIN_COPY_H
#define ZR_PLUGIN_COPY_H

#include "abi/layout.h"

#include <level_zero/ze_api.h>

#define ZR_COPY_TL_NAME       "ze_copy" /* as UCX's, so that the same UCX_TLS selects either */
#define ZR_COPY_COMPONENT     "ze_range_cpy"
#define ZR_UCX_COPY_COMPONENT "ze_cpy" /* UCX's own; where it is, ours has no memory domain */

/** Of libuct's list. @return NULL: not there. */
struct zr_uct_component *zr_component_find(const char *name);

void zr_copy_register(const struct zr_uct_layout *layout);
void zr_copy_unregister(void);

/* For the slots of a layout. */
ucs_status_t zr_copy_md_query(struct zr_uct_md *md, struct zr_uct_md_attr *attr);
void         zr_copy_md_close(struct zr_uct_md *md);
/** *length_p is what was asked for; the allocation may be used beyond it up to a page. */
ucs_status_t zr_copy_alloc(size_t *length_p, void **address_p, ucs_memory_type_t type,
                           uct_mem_h *memh_p);
ucs_status_t zr_copy_free(struct zr_uct_md *md, uct_mem_h memh);
ucs_status_t zr_copy_reg(struct zr_uct_md *md, void *address, size_t length, const void *params,
                         uct_mem_h *memh_p);
/** @return UCS_ERR_INVALID_ADDR: not Level Zero's. base_p and size_p may be NULL. */
ucs_status_t zr_copy_locate(const void *address, ucs_memory_type_t *type_p, void **base_p,
                            size_t *size_p);
int          zr_copy_is_reachable(const uct_iface_h iface,
                                  const struct zr_uct_reachable_params *params);

#endif
