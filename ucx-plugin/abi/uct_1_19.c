/* UCX 1.19: the tables of 1.18; unpack and alloc got a system device, and a path's bandwidth is
 * estimated beside the interface's. */
/* SPDX-License-Identifier: BSD-3-Clause */
#include "layout.h"

#include "../copy.h"
#include "../md.h"
#include "../tl.h"

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
    PERF_OPERATION          = UCS_BIT(0),
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
    int                       operation = attr->field_mask & PERF_OPERATION ? attr->operation : -1;
    const uct_ppn_bandwidth_t bandwidth = {.dedicated = 0,
                                           .shared = zr_tl_bandwidth(&perf, operation)};

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

/* ---- our own copy transport ---- */

static ucs_status_t copy_rkey_unpack(struct zr_uct_component *component, const void *buffer,
                                     const void *params, uct_rkey_t *rkey_p, void **handle_p)
{
    *rkey_p   = 0; /* an address is all a copy needs */
    *handle_p = NULL;
    return UCS_OK;
}

static ucs_status_t copy_mem_alloc(struct zr_uct_md *md, size_t *length_p, void **address_p,
                                   ucs_memory_type_t type, ucs_sys_device_t sys_dev,
                                   unsigned flags, const char *name, uct_mem_h *memh_p)
{
    return zr_copy_alloc(length_p, address_p, type, memh_p);
}

const struct zr_uct_forms zr_uct_forms_1_19 = {
    .rkey_unpack      = (zr_uct_fn_t)rkey_unpack,
    .estimate_perf    = (zr_uct_fn_t)estimate_perf,
    .copy_rkey_unpack = (zr_uct_fn_t)copy_rkey_unpack,
    .copy_mem_alloc   = (zr_uct_fn_t)copy_mem_alloc,
};

/* vfs_refresh has no dispatcher: it is right after estimate_perf in all versions. */
static const enum zr_uct_iface_op order[] = {
    ZR_IF_ESTIMATE_PERF,
    ZR_IF_VFS_REFRESH,
    ZR_IF_EP_QUERY,
    ZR_IF_EP_INVALIDATE,
    ZR_IF_EP_CONNECT_TO_EP_V2,
    ZR_IF_IS_REACHABLE_V2,
    ZR_IF_EP_IS_CONNECTED,
};

const struct zr_uct_layout zr_uct_layout_1_19 = {
    .minor = 19,
    .probe = "uct_rkey_unpack_v2",
    ZR_UCT_IFACE_OPS(order),
    .mds              = 11,
    .forms            = &zr_uct_forms_1_19,
    .md_flags         = ZR_UCT_MD_FLAGS_INVALIDATE | ZR_UCT_MD_FLAG_MEMTYPE_COPY,
    .mem_type_unknown = 9,
};
