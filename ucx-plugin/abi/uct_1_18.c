/* UCX 1.18: the tables, and the functions whose signature or structures belong to this version.
 *
 * Slots without a dispatcher, by order: memory domain close(0) .. detect_memory_type(10);
 * interface vfs_refresh right after estimate_perf. UCX 1.19 has the same tables but other
 * signatures: it is told by uct_rkey_unpack_v2. */
/* SPDX-License-Identifier: BSD-3-Clause */
#include "layout.h"

#include "../copy.h"
#include "../md.h"
#include "../tl.h"

enum {
    MD_CLOSE,
    MD_QUERY,
    MD_MEM_ALLOC,
    MD_MEM_FREE,
    MD_MEM_ADVISE,
    MD_MEM_REG,
    MD_MEM_DEREG,
    MD_MEM_QUERY,
    MD_MKEY_PACK,
    MD_MEM_ATTACH,
    MD_DETECT_MEMORY_TYPE,
};

enum {
    IF_ESTIMATE_PERF,
    IF_VFS_REFRESH,
    IF_EP_QUERY,
    IF_EP_INVALIDATE,
    IF_EP_CONNECT_TO_EP_V2,
    IF_IS_REACHABLE_V2,
    IF_EP_IS_CONNECTED,
};

enum { C_RKEY_UNPACK = 3, C_RKEY_PTR, C_RKEY_RELEASE, C_RKEY_COMPARE };

static const struct zr_uct_slot slots[] = {
    {"uct_rkey_unpack", ZR_UCT_COMPONENT, C_RKEY_UNPACK},
    {"uct_rkey_unpack_v2", ZR_UCT_COMPONENT, ZR_UCT_ABSENT},
    {"uct_rkey_ptr", ZR_UCT_COMPONENT, C_RKEY_PTR},
    {"uct_rkey_release", ZR_UCT_COMPONENT, C_RKEY_RELEASE},
    {"uct_rkey_compare", ZR_UCT_COMPONENT, C_RKEY_COMPARE},
    {"uct_md_close", ZR_UCT_MD_OPS, MD_CLOSE},
    {"uct_md_mem_advise", ZR_UCT_MD_OPS, MD_MEM_ADVISE},
    {"uct_md_mem_reg_v2", ZR_UCT_MD_OPS, MD_MEM_REG},
    {"uct_md_mem_dereg_v2", ZR_UCT_MD_OPS, MD_MEM_DEREG},
    {"uct_md_mem_query", ZR_UCT_MD_OPS, MD_MEM_QUERY},
    {"uct_md_mkey_pack_v2", ZR_UCT_MD_OPS, MD_MKEY_PACK},
    {"uct_md_mem_attach", ZR_UCT_MD_OPS, MD_MEM_ATTACH},
    {"uct_md_detect_memory_type", ZR_UCT_MD_OPS, MD_DETECT_MEMORY_TYPE},
    {"uct_iface_estimate_perf", ZR_UCT_IFACE_OPS, IF_ESTIMATE_PERF},
    {"uct_iface_is_reachable_v2", ZR_UCT_IFACE_OPS, IF_IS_REACHABLE_V2},
    {"uct_ep_query", ZR_UCT_EP_OPS, IF_EP_QUERY},
    {"uct_ep_invalidate", ZR_UCT_EP_OPS, IF_EP_INVALIDATE},
    {"uct_ep_connect_to_ep_v2", ZR_UCT_EP_OPS, IF_EP_CONNECT_TO_EP_V2},
    {"uct_ep_is_connected", ZR_UCT_EP_OPS, IF_EP_IS_CONNECTED},
    {NULL, ZR_UCT_COMPONENT, 0},
};

static ucs_status_t rkey_unpack(struct zr_uct_component *component, const void *buffer,
                                uct_rkey_t *rkey_p, void **handle_p)
{
    *handle_p = NULL;
    return zr_rkey_unpack(buffer, rkey_p);
}

struct perf_attr {
    uint64_t            field_mask;
    int                 operation;
    ucs_memory_type_t   local_memory_type, remote_memory_type;
    ucs_sys_device_t    local_sys_device, remote_sys_device;
    double              send_pre_overhead, send_post_overhead, recv_overhead;
    uct_ppn_bandwidth_t bandwidth;
    ucs_linear_func_t   latency;
    size_t              max_inflight_eps;
    uint64_t            flags;
};
enum {
    PERF_SEND_PRE_OVERHEAD  = UCS_BIT(5),
    PERF_SEND_POST_OVERHEAD = UCS_BIT(6),
    PERF_RECV_OVERHEAD      = UCS_BIT(7),
    PERF_BANDWIDTH          = UCS_BIT(8),
    PERF_LATENCY            = UCS_BIT(9),
    PERF_MAX_INFLIGHT_EPS   = UCS_BIT(10),
    PERF_FLAGS              = UCS_BIT(11),
};

static ucs_status_t estimate_perf(uct_iface_h iface, struct perf_attr *attr)
{
    struct zr_tl_perf perf = zr_tl_perf(iface);

    if (attr->field_mask & PERF_SEND_PRE_OVERHEAD) {
        attr->send_pre_overhead = perf.overhead;
    }
    if (attr->field_mask & PERF_SEND_POST_OVERHEAD) {
        attr->send_post_overhead = 0;
    }
    if (attr->field_mask & PERF_RECV_OVERHEAD) {
        attr->recv_overhead = 0; /* the peer's CPU does nothing */
    }
    if (attr->field_mask & PERF_BANDWIDTH) {
        attr->bandwidth = (uct_ppn_bandwidth_t){.dedicated = 0, .shared = perf.bandwidth};
    }
    if (attr->field_mask & PERF_LATENCY) {
        attr->latency = ucs_linear_func_make(perf.latency, 0);
    }
    if (attr->field_mask & PERF_MAX_INFLIGHT_EPS) {
        attr->max_inflight_eps = SIZE_MAX;
    }
    if (attr->field_mask & PERF_FLAGS) {
        attr->flags = 0;
    }
    return UCS_OK;
}

/* ---- our own copy transport ---- */

static ucs_status_t copy_rkey_unpack(struct zr_uct_component *component, const void *buffer,
                                     uct_rkey_t *rkey_p, void **handle_p)
{
    *rkey_p   = 0; /* an address is all a copy needs */
    *handle_p = NULL;
    return UCS_OK;
}

static ucs_status_t copy_mem_alloc(struct zr_uct_md *md, size_t *length_p, void **address_p,
                                   ucs_memory_type_t type, unsigned flags, const char *name,
                                   uct_mem_h *memh_p)
{
    return zr_copy_alloc(length_p, address_p, type, memh_p);
}

struct mem_attr {
    uint64_t          field_mask;
    ucs_memory_type_t mem_type;
    ucs_sys_device_t  sys_dev;
    void             *base_address;
    size_t            alloc_length;
    int               dmabuf_fd;
    size_t            dmabuf_offset;
};
enum {
    MEM_TYPE          = UCS_BIT(0),
    MEM_SYS_DEV       = UCS_BIT(1),
    MEM_BASE_ADDRESS  = UCS_BIT(2),
    MEM_ALLOC_LENGTH  = UCS_BIT(3),
    MEM_DMABUF_FD     = UCS_BIT(4),
    MEM_DMABUF_OFFSET = UCS_BIT(5),
};

static ucs_status_t copy_mem_query(struct zr_uct_md *md, const void *address, size_t length,
                                   struct mem_attr *attr)
{
    ucs_memory_type_t type;
    void             *base;
    size_t            size;
    ucs_status_t      status = zr_copy_locate(address, &type, &base, &size);

    if (status != UCS_OK) {
        return status;
    }
    if (attr->field_mask & MEM_TYPE) {
        attr->mem_type = type;
    }
    if (attr->field_mask & MEM_SYS_DEV) {
        attr->sys_dev = UCS_SYS_DEVICE_ID_UNKNOWN;
    }
    if (attr->field_mask & MEM_BASE_ADDRESS) {
        attr->base_address = base;
    }
    if (attr->field_mask & MEM_ALLOC_LENGTH) {
        attr->alloc_length = size;
    }
    if (attr->field_mask & MEM_DMABUF_FD) {
        attr->dmabuf_fd = -1;
    }
    if (attr->field_mask & MEM_DMABUF_OFFSET) {
        attr->dmabuf_offset = 0;
    }
    return UCS_OK;
}

static ucs_status_t copy_detect(struct zr_uct_md *md, const void *address, size_t length,
                                ucs_memory_type_t *type_p)
{
    return zr_copy_locate(address, type_p, NULL, NULL);
}

/* ---- tables ---- */

static void fill_common(struct zr_uct_tables *t)
{
    unsigned k;

    for (k = 0; k < ZR_UCT_TABLE_SLOTS; k++) {
        t->md_ops[k]       = (zr_uct_fn_t)ucs_empty_function_return_unsupported;
        t->internal_ops[k] = (zr_uct_fn_t)ucs_empty_function_return_unsupported;
    }
    t->component.rkey_ptr           = (zr_uct_fn_t)ucs_empty_function_return_unsupported;
    t->component.rkey_compare       = (zr_uct_fn_t)uct_base_rkey_compare;
    t->internal_ops[IF_VFS_REFRESH] = (zr_uct_fn_t)ucs_empty_function;
    t->mem_type_unknown             = 9;
}

static void fill(struct zr_uct_tables *t)
{
    fill_common(t);
    t->component.rkey_unpack  = (zr_uct_fn_t)rkey_unpack;
    t->component.rkey_release = (zr_uct_fn_t)zr_rkey_release;

    t->md_ops[MD_CLOSE]     = (zr_uct_fn_t)zr_md_close;
    t->md_ops[MD_QUERY]     = (zr_uct_fn_t)zr_md_query;
    t->md_ops[MD_MEM_REG]   = (zr_uct_fn_t)zr_md_mem_reg;
    t->md_ops[MD_MEM_DEREG] = (zr_uct_fn_t)zr_md_mem_dereg;
    t->md_ops[MD_MKEY_PACK] = (zr_uct_fn_t)zr_md_mkey_pack;

    t->internal_ops[IF_ESTIMATE_PERF]   = (zr_uct_fn_t)estimate_perf;
    t->internal_ops[IF_IS_REACHABLE_V2] = (zr_uct_fn_t)zr_tl_is_reachable;
    t->internal_ops[IF_EP_IS_CONNECTED] = (zr_uct_fn_t)zr_tl_ep_is_connected;

    t->md_flags = UCT_MD_FLAG_INVALIDATE | ZR_UCT_MD_FLAG_INVALIDATE_RMA |
                  ZR_UCT_MD_FLAG_INVALIDATE_AMO;
}

static void fill_copy(struct zr_uct_tables *t)
{
    fill_common(t);
    t->component.rkey_unpack  = (zr_uct_fn_t)copy_rkey_unpack;
    t->component.rkey_release = (zr_uct_fn_t)ucs_empty_function_return_success;

    t->md_ops[MD_CLOSE]              = (zr_uct_fn_t)zr_copy_md_close;
    t->md_ops[MD_QUERY]              = (zr_uct_fn_t)zr_copy_md_query;
    t->md_ops[MD_MEM_ALLOC]          = (zr_uct_fn_t)copy_mem_alloc;
    t->md_ops[MD_MEM_FREE]           = (zr_uct_fn_t)zr_copy_free;
    t->md_ops[MD_MEM_REG]            = (zr_uct_fn_t)zr_copy_reg;
    t->md_ops[MD_MEM_DEREG]          = (zr_uct_fn_t)ucs_empty_function_return_success;
    t->md_ops[MD_MEM_QUERY]          = (zr_uct_fn_t)copy_mem_query;
    t->md_ops[MD_MKEY_PACK]          = (zr_uct_fn_t)ucs_empty_function_return_success;
    t->md_ops[MD_DETECT_MEMORY_TYPE] = (zr_uct_fn_t)copy_detect;

    t->internal_ops[IF_ESTIMATE_PERF]   = (zr_uct_fn_t)uct_base_iface_estimate_perf;
    t->internal_ops[IF_IS_REACHABLE_V2] = (zr_uct_fn_t)zr_copy_is_reachable;
    t->internal_ops[IF_EP_IS_CONNECTED] = (zr_uct_fn_t)uct_base_ep_is_connected;
}

const struct zr_uct_layout zr_uct_layout_1_18 = {
    .minor     = 18,
    .probe     = "uct_iface_vfs_refresh",
    .slots     = slots,
    .fill      = fill,
    .fill_copy = fill_copy,
};
