/* UCX 1.21: the tables of 1.19 with one more function at the end of each, and a new memory type. */
/* SPDX-License-Identifier: BSD-3-Clause */
#include "layout.h"

/* vfs_refresh has no dispatcher: it is right after estimate_perf in all versions. */
static const enum zr_uct_iface_op order[] = {
    ZR_IF_ESTIMATE_PERF,
    ZR_IF_VFS_REFRESH,
    ZR_IF_EP_QUERY,
    ZR_IF_EP_INVALIDATE,
    ZR_IF_EP_CONNECT_TO_EP_V2,
    ZR_IF_IS_REACHABLE_V2,
    ZR_IF_EP_IS_CONNECTED,
    ZR_IF_EP_GET_DEVICE_EP,
};

const struct zr_uct_layout zr_uct_layout_1_21 = {
    .minor = 21,
    .probe = "uct_md_mem_elem_pack",
    ZR_UCT_IFACE_OPS(order),
    .mds              = 12,
    .forms            = &zr_uct_forms_1_19,
    .md_flags         = ZR_UCT_MD_FLAGS_INVALIDATE | ZR_UCT_MD_FLAG_MEMTYPE_COPY,
    .mem_type_unknown = 10,
};
