/* UCX 1.23: the tables, and the functions whose signature or structures belong to this version.
 *
 * Slots without a dispatcher, by order: memory domain close(0) .. mem_elem_release(12); interface
 * vfs_refresh right after estimate_perf. UCX asserts that estimate_perf, vfs_refresh, ep_query,
 * ep_invalidate and outstanding_purge are there. */
/* SPDX-License-Identifier: BSD-3-Clause */
#include "layout.h"

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
    MD_MEM_ELEM_PACK,
    MD_MEM_ELEM_RELEASE,
};

enum {
    IF_QUERY_V2,
    IF_ESTIMATE_PERF,
    IF_VFS_REFRESH,
    IF_EP_QUERY,
    IF_EP_INVALIDATE,
    IF_EP_CONNECT_TO_EP_V2,
    IF_IS_REACHABLE_V2,
    IF_EP_IS_CONNECTED,
    IF_EP_GET_DEVICE_EP,
    IF_EP_PUT_SGL_ZCOPY,
    IF_EP_GET_SGL_ZCOPY,
    IF_EP_OUTSTANDING_PURGE,
};

enum { C_RKEY_UNPACK = 3, C_RKEY_PTR, C_RKEY_RELEASE, C_RKEY_COMPARE };

static const struct zr_uct_slot slots[] = {
    {"uct_rkey_unpack", ZR_UCT_COMPONENT, C_RKEY_UNPACK},
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
    {"uct_md_mem_elem_pack", ZR_UCT_MD_OPS, MD_MEM_ELEM_PACK},
    {"uct_md_mem_elem_release", ZR_UCT_MD_OPS, MD_MEM_ELEM_RELEASE},
    {"uct_iface_query_v2", ZR_UCT_IFACE_OPS, IF_QUERY_V2},
    {"uct_iface_estimate_perf", ZR_UCT_IFACE_OPS, IF_ESTIMATE_PERF},
    {"uct_iface_is_reachable_v2", ZR_UCT_IFACE_OPS, IF_IS_REACHABLE_V2},
    {"uct_ep_query", ZR_UCT_EP_OPS, IF_EP_QUERY},
    {"uct_ep_invalidate", ZR_UCT_EP_OPS, IF_EP_INVALIDATE},
    {"uct_ep_connect_to_ep_v2", ZR_UCT_EP_OPS, IF_EP_CONNECT_TO_EP_V2},
    {"uct_ep_is_connected", ZR_UCT_EP_OPS, IF_EP_IS_CONNECTED},
    {"uct_ep_get_device_ep", ZR_UCT_EP_OPS, IF_EP_GET_DEVICE_EP},
    {"uct_ep_put_sgl_zcopy", ZR_UCT_EP_OPS, IF_EP_PUT_SGL_ZCOPY},
    {"uct_ep_get_sgl_zcopy", ZR_UCT_EP_OPS, IF_EP_GET_SGL_ZCOPY},
    {"uct_ep_outstanding_purge", ZR_UCT_EP_OPS, IF_EP_OUTSTANDING_PURGE},
    {NULL, ZR_UCT_COMPONENT, 0},
};

/* Since 1.19 unpack has parameters (a system device) before its results. */
static ucs_status_t rkey_unpack(struct zr_uct_component *component, const void *buffer,
                                const void *params, uct_rkey_t *rkey_p, void **handle_p)
{
    *handle_p = NULL;
    return zr_rkey_unpack(buffer, rkey_p);
}

/* Since 1.19 path_bandwidth stands before latency. */
struct perf_attr {
    uint64_t            field_mask;
    int                 operation;
    ucs_memory_type_t   local_memory_type, remote_memory_type;
    ucs_sys_device_t    local_sys_device, remote_sys_device;
    double              send_pre_overhead, send_post_overhead, recv_overhead;
    uct_ppn_bandwidth_t bandwidth, path_bandwidth;
    ucs_linear_func_t   latency;
    size_t              max_inflight_eps;
    uint64_t            flags;
};
enum {
    PERF_SEND_PRE_OVERHEAD  = UCS_BIT(5),
    PERF_SEND_POST_OVERHEAD = UCS_BIT(6),
    PERF_RECV_OVERHEAD      = UCS_BIT(7),
    PERF_BANDWIDTH          = UCS_BIT(8),
    PERF_PATH_BANDWIDTH     = UCS_BIT(9),
    PERF_LATENCY            = UCS_BIT(10),
    PERF_MAX_INFLIGHT_EPS   = UCS_BIT(11),
    PERF_FLAGS              = UCS_BIT(12),
};

static ucs_status_t estimate_perf(uct_iface_h iface, struct perf_attr *attr)
{
    struct zr_tl_perf         perf      = zr_tl_perf(iface);
    const uct_ppn_bandwidth_t bandwidth = {.dedicated = 0, .shared = perf.bandwidth};

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
        attr->bandwidth = bandwidth;
    }
    if (attr->field_mask & PERF_PATH_BANDWIDTH) {
        attr->path_bandwidth = bandwidth;
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

/* The default answer: no capabilities of the second generation. */
ucs_status_t uct_iface_base_query_v2(uct_iface_h iface, void *attr) __attribute__((weak));

static ucs_status_t query_v2(uct_iface_h iface, void *attr)
{
    return uct_iface_base_query_v2 != NULL ? uct_iface_base_query_v2(iface, attr)
                                           : UCS_ERR_UNSUPPORTED;
}

static void fill(struct zr_uct_tables *t)
{
    unsigned k;

    for (k = 0; k < ZR_UCT_TABLE_SLOTS; k++) {
        t->md_ops[k]       = (zr_uct_fn_t)ucs_empty_function_return_unsupported;
        t->internal_ops[k] = (zr_uct_fn_t)ucs_empty_function_return_unsupported;
    }
    t->component.rkey_unpack  = (zr_uct_fn_t)rkey_unpack;
    t->component.rkey_ptr     = (zr_uct_fn_t)ucs_empty_function_return_unsupported;
    t->component.rkey_release = (zr_uct_fn_t)zr_rkey_release;
    t->component.rkey_compare = (zr_uct_fn_t)uct_base_rkey_compare;

    t->md_ops[MD_CLOSE]            = (zr_uct_fn_t)zr_md_close;
    t->md_ops[MD_QUERY]            = (zr_uct_fn_t)zr_md_query;
    t->md_ops[MD_MEM_REG]          = (zr_uct_fn_t)zr_md_mem_reg;
    t->md_ops[MD_MEM_DEREG]        = (zr_uct_fn_t)zr_md_mem_dereg;
    t->md_ops[MD_MKEY_PACK]        = (zr_uct_fn_t)zr_md_mkey_pack;
    t->md_ops[MD_MEM_ELEM_RELEASE] = (zr_uct_fn_t)ucs_empty_function;

    t->internal_ops[IF_QUERY_V2]        = (zr_uct_fn_t)query_v2;
    t->internal_ops[IF_ESTIMATE_PERF]   = (zr_uct_fn_t)estimate_perf;
    t->internal_ops[IF_VFS_REFRESH]     = (zr_uct_fn_t)ucs_empty_function;
    t->internal_ops[IF_IS_REACHABLE_V2] = (zr_uct_fn_t)zr_tl_is_reachable;
    t->internal_ops[IF_EP_IS_CONNECTED] = (zr_uct_fn_t)zr_tl_ep_is_connected;

    t->md_flags = UCT_MD_FLAG_INVALIDATE | ZR_UCT_MD_FLAG_INVALIDATE_RMA |
                  ZR_UCT_MD_FLAG_INVALIDATE_AMO | ZR_UCT_MD_FLAG_MEMTYPE_COPY;
    t->mem_type_unknown = 10;
}

const struct zr_uct_layout zr_uct_layout_1_23 = {
    .minor = 23,
    .probe = "uct_ep_outstanding_purge",
    .slots = slots,
    .fill  = fill,
};
