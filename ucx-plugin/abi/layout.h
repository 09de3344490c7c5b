/* One layout per UCX minor version whose tables differ, chosen and verified at run time. */
/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef ZR_UCT_LAYOUT_H
#define ZR_UCT_LAYOUT_H

#include "uct_abi.h"

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

enum zr_uct_table_kind { ZR_UCT_COMPONENT, ZR_UCT_MD_OPS, ZR_UCT_IFACE_OPS, ZR_UCT_EP_OPS };

/* "libuct's exported function `dispatcher` calls this slot of this table", or is not there. */
#define ZR_UCT_ABSENT (-2)
struct zr_uct_slot {
    const char            *dispatcher;
    enum zr_uct_table_kind table;
    int                    slot;
};

struct zr_uct_layout {
    unsigned                  minor; /* of UCX 1.minor */
    const char               *probe; /* exported by libuct since this version */
    const struct zr_uct_slot *slots; /* ends with a NULL dispatcher */
    /* Put the plugin's functions where this version looks for them. */
    void (*fill)(struct zr_uct_tables *tables);
    /* The same for our own copy transport. NULL: this version has one for Level Zero. */
    void (*fill_copy)(struct zr_uct_tables *tables);
};

extern const struct zr_uct_layout zr_uct_layout_1_18;
extern const struct zr_uct_layout zr_uct_layout_1_23;

/**
 * The layout of the libuct in this process, every slot with a dispatcher confirmed by calling
 * it on objects of ours. Says in one line why there is none.
 * @return NULL: register nothing.
 */
const struct zr_uct_layout *zr_uct_layout_find(void);

#endif
