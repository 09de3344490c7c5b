/* Fills the tables of a layout: the same functions in all versions, at that version's slots. */
/* SPDX-License-Identifier: BSD-3-Clause */
#include "layout.h"

#include "../copy.h"
#include "../md.h"
#include "../tl.h"

int zr_uct_iface_slot(const struct zr_uct_layout *layout, enum zr_uct_iface_op op)
{
    unsigned k;

    for (k = 0; k < layout->ifaces; k++) {
        if (layout->iface[k] == op) {
            return (int)k;
        }
    }
    return -1;
}

static void set_iface(const struct zr_uct_layout *layout, struct zr_uct_tables *t,
                      enum zr_uct_iface_op op, zr_uct_fn_t function)
{
    int slot = zr_uct_iface_slot(layout, op);

    if (slot >= 0) {
        t->internal_ops[slot] = function;
    }
}

/* The default answer: no capabilities of the second generation. */
ucs_status_t uct_iface_base_query_v2(uct_iface_h iface, void *attr) __attribute__((weak));

static ucs_status_t query_v2(uct_iface_h iface, void *attr)
{
    return uct_iface_base_query_v2 != NULL ? uct_iface_base_query_v2(iface, attr)
                                           : UCS_ERR_UNSUPPORTED;
}

static void fill_common(const struct zr_uct_layout *layout, struct zr_uct_tables *t)
{
    unsigned k;

    for (k = 0; k < ZR_UCT_TABLE_SLOTS; k++) {
        t->md_ops[k]       = (zr_uct_fn_t)ucs_empty_function_return_unsupported;
        t->internal_ops[k] = (zr_uct_fn_t)ucs_empty_function_return_unsupported;
    }
    if (layout->mds > ZR_MD_MEM_ELEM_RELEASE) {
        t->md_ops[ZR_MD_MEM_ELEM_RELEASE] = (zr_uct_fn_t)ucs_empty_function;
    }
    set_iface(layout, t, ZR_IF_QUERY_V2, (zr_uct_fn_t)query_v2);
    set_iface(layout, t, ZR_IF_VFS_REFRESH, (zr_uct_fn_t)ucs_empty_function);
    t->component.rkey_ptr     = (zr_uct_fn_t)ucs_empty_function_return_unsupported;
    t->component.rkey_compare = (zr_uct_fn_t)uct_base_rkey_compare;
    t->md_flags               = layout->md_flags;
    t->mem_type_unknown       = layout->mem_type_unknown;
}

void zr_uct_fill(const struct zr_uct_layout *layout, struct zr_uct_tables *t)
{
    fill_common(layout, t);
    t->component.rkey_unpack  = layout->forms->rkey_unpack;
    t->component.rkey_release = (zr_uct_fn_t)zr_rkey_release;

    t->md_ops[ZR_MD_CLOSE]     = (zr_uct_fn_t)zr_md_close;
    t->md_ops[ZR_MD_QUERY]     = (zr_uct_fn_t)zr_md_query;
    t->md_ops[ZR_MD_MEM_REG]   = (zr_uct_fn_t)zr_md_mem_reg;
    t->md_ops[ZR_MD_MEM_DEREG] = (zr_uct_fn_t)zr_md_mem_dereg;
    t->md_ops[ZR_MD_MKEY_PACK] = (zr_uct_fn_t)zr_md_mkey_pack;

    set_iface(layout, t, ZR_IF_ESTIMATE_PERF, layout->forms->estimate_perf);
    set_iface(layout, t, ZR_IF_IS_REACHABLE_V2, (zr_uct_fn_t)zr_tl_is_reachable);
    set_iface(layout, t, ZR_IF_EP_IS_CONNECTED, (zr_uct_fn_t)zr_tl_ep_is_connected);
}

/* ---- our own copy transport ---- */

struct mem_attr {
    uint64_t          field_mask;
    ucs_memory_type_t mem_type;
    ucs_sys_device_t  sys_dev;
    void             *base_address;
    size_t            alloc_length;
    int               dmabuf_fd;
    size_t            dmabuf_offset;
    uint8_t           mem_flags; /* nobody asks for it before 1.22 */
};
enum {
    MEM_TYPE          = UCS_BIT(0),
    MEM_SYS_DEV       = UCS_BIT(1),
    MEM_BASE_ADDRESS  = UCS_BIT(2),
    MEM_ALLOC_LENGTH  = UCS_BIT(3),
    MEM_DMABUF_FD     = UCS_BIT(4),
    MEM_DMABUF_OFFSET = UCS_BIT(5),
    MEM_FLAGS         = UCS_BIT(6),
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
    if (attr->field_mask & MEM_FLAGS) {
        attr->mem_flags = ZR_UCS_MEM_FLAG_REGISTRABLE;
    }
    return UCS_OK;
}

static ucs_status_t copy_detect(struct zr_uct_md *md, const void *address, size_t length,
                                ucs_memory_type_t *type_p)
{
    return zr_copy_locate(address, type_p, NULL, NULL);
}

void zr_uct_fill_copy(const struct zr_uct_layout *layout, struct zr_uct_tables *t)
{
    fill_common(layout, t);
    t->component.rkey_unpack  = layout->forms->copy_rkey_unpack;
    t->component.rkey_release = (zr_uct_fn_t)ucs_empty_function_return_success;

    t->md_ops[ZR_MD_CLOSE]              = (zr_uct_fn_t)zr_copy_md_close;
    t->md_ops[ZR_MD_QUERY]              = (zr_uct_fn_t)zr_copy_md_query;
    t->md_ops[ZR_MD_MEM_ALLOC]          = layout->forms->copy_mem_alloc;
    t->md_ops[ZR_MD_MEM_FREE]           = (zr_uct_fn_t)zr_copy_free;
    t->md_ops[ZR_MD_MEM_REG]            = (zr_uct_fn_t)zr_copy_reg;
    t->md_ops[ZR_MD_MEM_DEREG]          = (zr_uct_fn_t)ucs_empty_function_return_success;
    t->md_ops[ZR_MD_MEM_QUERY]          = (zr_uct_fn_t)copy_mem_query;
    t->md_ops[ZR_MD_MKEY_PACK]          = (zr_uct_fn_t)ucs_empty_function_return_success;
    t->md_ops[ZR_MD_DETECT_MEMORY_TYPE] = (zr_uct_fn_t)copy_detect;

    set_iface(layout, t, ZR_IF_ESTIMATE_PERF, (zr_uct_fn_t)uct_base_iface_estimate_perf);
    set_iface(layout, t, ZR_IF_IS_REACHABLE_V2, (zr_uct_fn_t)zr_copy_is_reachable);
    set_iface(layout, t, ZR_IF_EP_IS_CONNECTED, (zr_uct_fn_t)uct_base_ep_is_connected);
}
