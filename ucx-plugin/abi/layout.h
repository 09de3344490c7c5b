/* What differs between UCX minor versions, as data: one file per version names its tables, chosen
 * and verified at run time. */
/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef ZR_UCT_LAYOUT_H
#define ZR_UCT_LAYOUT_H

#include "uct_abi.h"

#include <stdbool.h>

/* More than any version has; unused slots answer UNSUPPORTED. */
#define ZR_UCT_TABLE_SLOTS 32

/* The tables libuct calls through; they live as long as the process. */
struct zr_uct_tables {
    struct zr_uct_component component;
    struct zr_uct_tl        tl;
    zr_uct_fn_t             md_ops[ZR_UCT_TABLE_SLOTS];
    zr_uct_fn_t             internal_ops[ZR_UCT_TABLE_SLOTS];
    uint64_t                md_flags; /* what this version wants beside REG and NEED_RKEY */
    int                     mem_type_unknown;
};

/* A component's functions, from query_md_resources on. */
enum zr_uct_component_op {
    ZR_C_QUERY_MD_RESOURCES,
    ZR_C_MD_OPEN,
    ZR_C_CM_OPEN,
    ZR_C_RKEY_UNPACK,
    ZR_C_RKEY_PTR,
    ZR_C_RKEY_RELEASE,
    ZR_C_RKEY_COMPARE,
    ZR_C_OPS
};

/* A memory domain's functions. Versions only appended; a layout says how many it has. */
enum zr_uct_md_op {
    ZR_MD_CLOSE,
    ZR_MD_QUERY,
    ZR_MD_MEM_ALLOC,
    ZR_MD_MEM_FREE,
    ZR_MD_MEM_ADVISE,
    ZR_MD_MEM_REG,
    ZR_MD_MEM_DEREG,
    ZR_MD_MEM_QUERY,
    ZR_MD_MKEY_PACK,
    ZR_MD_MEM_ATTACH,
    ZR_MD_DETECT_MEMORY_TYPE,
    ZR_MD_MEM_ELEM_PACK,    /* since 1.21 */
    ZR_MD_MEM_ELEM_RELEASE, /* since 1.23 */
    ZR_MD_OPS
};

/* An interface's internal functions, in no order: each layout has its own. */
enum zr_uct_iface_op {
    ZR_IF_ESTIMATE_PERF,
    ZR_IF_VFS_REFRESH,
    ZR_IF_EP_QUERY,
    ZR_IF_EP_INVALIDATE,
    ZR_IF_EP_CONNECT_TO_EP_V2,
    ZR_IF_IS_REACHABLE_V2,
    ZR_IF_EP_IS_CONNECTED,
    ZR_IF_QUERY_V2,
    ZR_IF_MEM_ELEMENT_PACK,
    ZR_IF_EP_GET_DEVICE_EP,
    ZR_IF_EP_PUT_SGL_ZCOPY,
    ZR_IF_EP_GET_SGL_ZCOPY,
    ZR_IF_EP_OUTSTANDING_PURGE,
    ZR_IF_OPS
};

/* The functions whose signature or structures changed, as one version wants them. */
struct zr_uct_forms {
    zr_uct_fn_t rkey_unpack, estimate_perf;       /* of ze_range */
    zr_uct_fn_t copy_rkey_unpack, copy_mem_alloc; /* of our own copy transport */
};
extern const struct zr_uct_forms zr_uct_forms_1_18, zr_uct_forms_1_19;

struct zr_uct_layout {
    unsigned                    minor;  /* of UCX 1.minor */
    const char                 *probe;  /* exported by libuct since this version */
    const enum zr_uct_iface_op *iface;  /* what its slots are, from 0 on */
    unsigned                    ifaces; /* how many */
    unsigned                    mds;    /* how many of zr_uct_md_op it has */
    const struct zr_uct_forms  *forms;
    uint64_t                    md_flags;
    int                         mem_type_unknown; /* UCS_MEMORY_TYPE_LAST */
};
#define ZR_UCT_IFACE_OPS(order_) .iface = order_, .ifaces = sizeof(order_) / sizeof(order_[0])

extern const struct zr_uct_layout zr_uct_layout_1_18, zr_uct_layout_1_19, zr_uct_layout_1_20,
    zr_uct_layout_1_21, zr_uct_layout_1_22, zr_uct_layout_1_23;

/** The slot of @a op, -1: this version has none. */
int zr_uct_iface_slot(const struct zr_uct_layout *layout, enum zr_uct_iface_op op);

/** Put the functions of ze_range where this version looks for them. */
void zr_uct_fill(const struct zr_uct_layout *layout, struct zr_uct_tables *tables);

/** The same for our own copy transport, which serves where UCX has none. */
void zr_uct_fill_copy(const struct zr_uct_layout *layout, struct zr_uct_tables *tables);

/**
 * The layout of the libuct in this process, every slot with a dispatcher confirmed by calling
 * it on objects of ours. Says in one line why there is none.
 * @return NULL: register nothing.
 */
const struct zr_uct_layout *zr_uct_layout_find(void);

#endif
