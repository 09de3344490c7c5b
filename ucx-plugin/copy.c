/* Copy transport: see copy.h. Every copy has ended when its call returns. */
/* SPDX-License-Identifier: BSD-3-Clause */
#include "copy.h"

#include "md.h"
#include "ze.h"

#include <stdlib.h>
#include <string.h>

#define COPY_BANDWIDTH 10e9 /* bytes/s, as UCX's ze_copy says */
#define COPY_LATENCY   10e-6

static struct zr_uct_tables tables;
static bool                 registered;

struct zr_uct_component *zr_component_find(const char *name)
{
    struct zr_uct_component *component;

    ucs_list_for_each(component, &uct_components_list, link) {
        if (strncmp(component->name, name, sizeof(component->name)) == 0) {
            return component;
        }
    }
    return NULL;
}

/* ---- memory domain ---- */

static const uint64_t ze_types = UCS_BIT(UCS_MEMORY_TYPE_ZE_HOST) |
                                 UCS_BIT(UCS_MEMORY_TYPE_ZE_DEVICE) |
                                 UCS_BIT(UCS_MEMORY_TYPE_ZE_MANAGED);

static ucs_status_t query_resources(struct zr_uct_component *component,
                                    uct_md_resource_desc_t **resources_p, unsigned *count_p)
{
    /* All modules are loaded by now. */
    if (zr_component_find(ZR_UCX_COPY_COMPONENT) != NULL || zr_ze_get() == NULL) {
        return uct_md_query_empty_md_resource(resources_p, count_p);
    }
    return uct_md_query_single_md_resource(component, resources_p, count_p);
}

static ucs_status_t md_open(struct zr_uct_component *component, const char *name,
                            const uct_md_config_t *config, struct zr_uct_md **md_p)
{
    struct zr_uct_md *md = calloc(1, sizeof(*md));

    if (md == NULL) {
        return UCS_ERR_NO_MEMORY;
    }
    md->ops       = tables.md_ops;
    md->component = component;
    *md_p         = md;
    return UCS_OK;
}

void zr_copy_md_close(struct zr_uct_md *md)
{
    free(md);
}

ucs_status_t zr_copy_md_query(struct zr_uct_md *md, struct zr_uct_md_attr *attr)
{
    uct_md_base_md_query(attr);
    attr->flags            = UCT_MD_FLAG_REG | UCT_MD_FLAG_ALLOC;
    attr->reg_mem_types    = ze_types | UCS_BIT(UCS_MEMORY_TYPE_HOST);
    attr->access_mem_types = attr->reg_mem_types;
    attr->cache_mem_types  = ze_types;
    attr->detect_mem_types = ze_types;
    attr->alloc_mem_types  = ze_types;
    attr->max_alloc        = SIZE_MAX;
    return UCS_OK;
}

ucs_status_t zr_copy_alloc(size_t *length_p, void **address_p, ucs_memory_type_t type,
                           uct_mem_h *memh_p)
{
    const struct zr_ze              *ze     = zr_ze_get();
    ze_device_mem_alloc_desc_t       device = {.stype = ZE_STRUCTURE_TYPE_DEVICE_MEM_ALLOC_DESC};
    ze_host_mem_alloc_desc_t         host   = {.stype = ZE_STRUCTURE_TYPE_HOST_MEM_ALLOC_DESC};
    void                            *ptr    = NULL;
    ze_result_t                      result;

    switch (type) {
    case UCS_MEMORY_TYPE_ZE_HOST:
        result = zeMemAllocHost(ze->context, &host, *length_p, 0, &ptr);
        break;
    case UCS_MEMORY_TYPE_ZE_DEVICE:
        result = zeMemAllocDevice(ze->context, &device, *length_p, 0, ze->device, &ptr);
        break;
    case UCS_MEMORY_TYPE_ZE_MANAGED:
        result = zeMemAllocShared(ze->context, &device, &host, *length_p, 0, ze->device, &ptr);
        break;
    default: return UCS_ERR_UNSUPPORTED;
    }
    if (result != ZE_RESULT_SUCCESS) {
        zr_ucs_diag("%zu bytes of Level Zero memory cannot be allocated: 0x%x %s", *length_p,
                    (unsigned)result, zr_ze_last_error(ze));
        return zr_status_of(result);
    }
    *address_p = *memh_p = ptr;
    return UCS_OK;
}

ucs_status_t zr_copy_free(struct zr_uct_md *md, uct_mem_h memh)
{
    return zr_status_of(zeMemFree(zr_ze_get()->context, memh));
}

/* The engine reaches all memory as it is; UCP wants a handle that is not NULL. */
ucs_status_t zr_copy_reg(struct zr_uct_md *md, void *address, size_t length, const void *params,
                         uct_mem_h *memh_p)
{
    *memh_p = &tables;
    return UCS_OK;
}

ucs_status_t zr_copy_locate(const void *address, ucs_memory_type_t *type_p, void **base_p,
                            size_t *size_p)
{
    const struct zr_ze *ze = zr_ze_get();
    ucs_memory_type_t   type;
    void               *base;
    size_t              size;

    if (ze == NULL) {
        return UCS_ERR_INVALID_ADDR;
    }
    switch (zr_ze_memory_type(ze, address, NULL)) {
    case ZE_MEMORY_TYPE_HOST: type = UCS_MEMORY_TYPE_ZE_HOST; break;
    case ZE_MEMORY_TYPE_DEVICE: type = UCS_MEMORY_TYPE_ZE_DEVICE; break;
    case ZE_MEMORY_TYPE_SHARED: type = UCS_MEMORY_TYPE_ZE_MANAGED; break;
    default: return UCS_ERR_INVALID_ADDR;
    }
    if (base_p != NULL || size_p != NULL) {
        if (zeMemGetAddressRange(ze->context, address, &base, &size) != ZE_RESULT_SUCCESS) {
            return UCS_ERR_INVALID_ADDR;
        }
        if (base_p != NULL) {
            *base_p = base;
        }
        if (size_p != NULL) {
            *size_p = size;
        }
    }
    *type_p = type;
    return UCS_OK;
}

/* ---- transport ---- */

typedef struct zr_copy_iface {
    struct zr_uct_base_iface super;
    uint64_t                 id; /* nobody else reaches it */
    ze_command_list_handle_t list;
} zr_copy_iface_t;

typedef struct zr_copy_ep {
    struct zr_uct_base_ep super;
} zr_copy_ep_t;

static ucs_status_t copy(uct_ep_h ep, void *to, const void *from, size_t size)
{
    zr_copy_iface_t *iface = (zr_copy_iface_t *)ep->iface;
    ze_result_t      result;

    if (size == 0) {
        return UCS_OK;
    }
    result = zeCommandListAppendMemoryCopy(iface->list, to, from, size, NULL, 0, NULL);
    if (result != ZE_RESULT_SUCCESS) {
        zr_ucs_error("copy of %zu bytes from %p to %p: 0x%x %s", size, from, to, (unsigned)result,
                     zr_ze_last_error(zr_ze_get()));
        return zr_status_of(result);
    }
    return UCS_OK;
}

static ucs_status_t ep_put_short(uct_ep_h ep, const void *buffer, unsigned size, uint64_t remote,
                                 uct_rkey_t rkey)
{
    return copy(ep, (void *)(uintptr_t)remote, buffer, size);
}

static ucs_status_t ep_get_short(uct_ep_h ep, void *buffer, unsigned size, uint64_t remote,
                                 uct_rkey_t rkey)
{
    return copy(ep, buffer, (void *)(uintptr_t)remote, size);
}

static ucs_status_t ep_put_zcopy(uct_ep_h ep, const uct_iov_t *iov, size_t iov_count,
                                 uint64_t remote, uct_rkey_t rkey, uct_completion_t *comp)
{
    return copy(ep, (void *)(uintptr_t)remote, iov->buffer, iov->length * iov->count);
}

static ucs_status_t ep_get_zcopy(uct_ep_h ep, const uct_iov_t *iov, size_t iov_count,
                                 uint64_t remote, uct_rkey_t rkey, uct_completion_t *comp)
{
    return copy(ep, iov->buffer, (void *)(uintptr_t)remote, iov->length * iov->count);
}

static ucs_status_t ep_pending_add(uct_ep_h ep, uct_pending_req_t *request, unsigned flags)
{
    return UCS_ERR_BUSY; /* a copy is never refused for lack of room */
}

static void ep_pending_purge(uct_ep_h ep, uct_pending_purge_callback_t callback, void *arg)
{
}

static ucs_status_t iface_get_device_address(uct_iface_h iface, uct_device_addr_t *address)
{
    return UCS_OK;
}

static ucs_status_t iface_get_address(uct_iface_h iface, uct_iface_addr_t *address)
{
    memcpy(address, &((zr_copy_iface_t *)iface)->id, sizeof(uint64_t));
    return UCS_OK;
}

int zr_copy_is_reachable(const uct_iface_h iface, const struct zr_uct_reachable_params *params)
{
    return (params->field_mask & ZR_UCT_REACHABLE_FIELD_IFACE_ADDR) &&
           params->iface_addr != NULL &&
           memcmp(params->iface_addr, &((zr_copy_iface_t *)iface)->id, sizeof(uint64_t)) == 0;
}

static unsigned iface_progress(uct_iface_h iface)
{
    return 0;
}

static void iface_progress_change(uct_iface_h iface, unsigned flags)
{
}

/* Every copy has ended already: there is nothing to wait for, so no descriptor either. */
static ucs_status_t iface_event_arm(uct_iface_h iface, unsigned events)
{
    return UCS_OK;
}

static ucs_status_t iface_query(uct_iface_h iface, uct_iface_attr_t *attr)
{
    uct_base_iface_query(iface, attr);
    attr->iface_addr_len = sizeof(uint64_t);
    /* Without these UCP leaves it out of a worker that sleeps, and has then no way to copy. */
    attr->cap.event_flags = UCT_IFACE_FLAG_EVENT_SEND_COMP | UCT_IFACE_FLAG_EVENT_RECV;
    attr->cap.flags      = UCT_IFACE_FLAG_CONNECT_TO_IFACE | UCT_IFACE_FLAG_PENDING |
                      UCT_IFACE_FLAG_PUT_SHORT | UCT_IFACE_FLAG_GET_SHORT |
                      UCT_IFACE_FLAG_PUT_ZCOPY | UCT_IFACE_FLAG_GET_ZCOPY;
    attr->cap.put.max_short = attr->cap.get.max_short = INT32_MAX;
    attr->cap.put.max_zcopy = attr->cap.get.max_zcopy = SIZE_MAX;
    attr->cap.put.max_iov = attr->cap.get.max_iov = attr->cap.am.max_iov = 1;
    attr->cap.put.opt_zcopy_align = attr->cap.put.align_mtu = 1;
    attr->cap.get.opt_zcopy_align = attr->cap.get.align_mtu = 1;
    attr->cap.am.opt_zcopy_align = attr->cap.am.align_mtu = 1;
    attr->latency             = ucs_linear_func_make(COPY_LATENCY, 0);
    attr->bandwidth.dedicated = 0;
    attr->bandwidth.shared    = COPY_BANDWIDTH;
    attr->overhead            = 0;
    return UCS_OK;
}

static UCS_CLASS_INIT_FUNC(zr_copy_ep_t, const uct_ep_params_t *params)
{
    ucs_status_t status;

    status = uct_base_ep_t_init(&self->super, _myclass->superclass, _init_count, params->iface);
    if (status == UCS_OK) {
        ++*_init_count;
    }
    return status;
}

static UCS_CLASS_CLEANUP_FUNC(zr_copy_ep_t)
{
}

UCS_CLASS_DEFINE(zr_copy_ep_t, uct_base_ep_t)
static UCS_CLASS_DEFINE_NEW_FUNC(zr_copy_ep_t, uct_ep_t, const uct_ep_params_t *);
static UCS_CLASS_DEFINE_DELETE_FUNC(zr_copy_ep_t, uct_ep_t);

static UCS_CLASS_DECLARE_DELETE_FUNC(zr_copy_iface_t, uct_iface_t);

static uct_iface_ops_t iface_ops = {
    .ep_put_short             = ep_put_short,
    .ep_get_short             = ep_get_short,
    .ep_put_zcopy             = ep_put_zcopy,
    .ep_get_zcopy             = ep_get_zcopy,
    .ep_pending_add           = ep_pending_add,
    .ep_pending_purge         = ep_pending_purge,
    .ep_flush                 = uct_base_ep_flush,
    .ep_fence                 = uct_base_ep_fence,
    .ep_create                = UCS_CLASS_NEW_FUNC_NAME(zr_copy_ep_t),
    .ep_destroy               = UCS_CLASS_DELETE_FUNC_NAME(zr_copy_ep_t),
    .iface_flush              = uct_base_iface_flush,
    .iface_fence              = uct_base_iface_fence,
    .iface_progress_enable    = iface_progress_change,
    .iface_progress_disable   = iface_progress_change,
    .iface_progress           = iface_progress,
    .iface_event_arm          = iface_event_arm,
    .iface_close              = UCS_CLASS_DELETE_FUNC_NAME(zr_copy_iface_t),
    .iface_query              = iface_query,
    .iface_get_device_address = iface_get_device_address,
    .iface_get_address        = iface_get_address,
    .iface_is_reachable       = uct_base_iface_is_reachable,
};

static UCS_CLASS_INIT_FUNC(zr_copy_iface_t, uct_md_h md, uct_worker_h worker,
                           const uct_iface_params_t *params, const uct_iface_config_t *config)
{
    const struct zr_ze     *ze   = zr_ze_get();
    ze_command_queue_desc_t desc = {.stype    = ZE_STRUCTURE_TYPE_COMMAND_QUEUE_DESC,
                                    .ordinal  = ze->copy_group,
                                    .mode     = ZE_COMMAND_QUEUE_MODE_SYNCHRONOUS,
                                    .priority = ZE_COMMAND_QUEUE_PRIORITY_NORMAL};
    ze_result_t             result;
    ucs_status_t            status;

    status = uct_base_iface_t_init(&self->super, _myclass->superclass, _init_count, &iface_ops,
                                   tables.internal_ops, md, worker, params, config);
    if (status != UCS_OK) {
        return status;
    }
    ++*_init_count;
    self->id = ucs_generate_uuid((uintptr_t)self);
    result   = zeCommandListCreateImmediate(ze->context, ze->device, &desc, &self->list);
    if (result != ZE_RESULT_SUCCESS) {
        zr_ucs_error("no command list for copies: zeCommandListCreateImmediate returned 0x%x %s",
                     (unsigned)result, zr_ze_last_error(ze));
        return UCS_ERR_NO_DEVICE;
    }
    return UCS_OK;
}

static UCS_CLASS_CLEANUP_FUNC(zr_copy_iface_t)
{
    zeCommandListDestroy(self->list);
}

UCS_CLASS_DEFINE(zr_copy_iface_t, uct_base_iface_t)
static UCS_CLASS_DEFINE_NEW_FUNC(zr_copy_iface_t, uct_iface_t, uct_md_h, uct_worker_h,
                                 const uct_iface_params_t *, const uct_iface_config_t *);
static UCS_CLASS_DEFINE_DELETE_FUNC(zr_copy_iface_t, uct_iface_t);

static ucs_status_t query_devices(struct zr_uct_md *md, struct zr_uct_tl_device **devices_p,
                                  unsigned *count_p)
{
    return uct_single_device_resource((uct_md_h)md, ZR_COPY_TL_NAME, UCT_DEVICE_TYPE_ACC,
                                      UCS_SYS_DEVICE_ID_UNKNOWN, devices_p, count_p);
}

/* ---- registration ---- */

void zr_copy_register(const struct zr_uct_layout *layout)
{
    static ucs_config_field_t md_config[] = {
        {"", "", NULL, 0, UCS_CONFIG_TYPE_TABLE(uct_md_config_table)}, {NULL}};
    static ucs_config_field_t tl_config[] = {
        {"", "", NULL, 0, UCS_CONFIG_TYPE_TABLE(uct_iface_config_table)}, {NULL}};
    struct zr_uct_component *component = &tables.component;
    struct zr_uct_tl        *tl        = &tables.tl;

    zr_uct_fill_copy(layout, &tables);
    strcpy(component->name, ZR_COPY_COMPONENT);
    component->query_md_resources = (zr_uct_fn_t)query_resources;
    component->md_open            = (zr_uct_fn_t)md_open;
    component->cm_open            = (zr_uct_fn_t)ucs_empty_function_return_unsupported;
    component->md_vfs_init        = (zr_uct_fn_t)ucs_empty_function;
    component->md_config          = (ucs_config_global_list_entry_t){
                 .name   = "ze_copy memory domain of zerange",
                 .prefix = "ZE_COPY_",
                 .table  = md_config,
                 .size   = ZR_UCT_CONFIG_RESERVE};
    component->cm_config = (ucs_config_global_list_entry_t){.name = "", .prefix = ""};
    ucs_list_head_init(&component->transports);

    strcpy(tl->name, ZR_COPY_TL_NAME);
    tl->query_devices = (zr_uct_fn_t)query_devices;
    tl->iface_open    = (zr_uct_fn_t)UCS_CLASS_NEW_FUNC_NAME(zr_copy_iface_t);
    tl->config        = (ucs_config_global_list_entry_t){.name = "ze_copy transport of zerange",
                                                         .prefix = "ZE_COPY_",
                                                         .table  = tl_config,
                                                         .size   = ZR_UCT_CONFIG_RESERVE};
    uct_component_register(component);
    uct_tl_register(component, tl);
    registered = true;
}

void zr_copy_unregister(void)
{
    if (registered) {
        uct_tl_unregister(&tables.tl);
        uct_component_unregister(&tables.component);
    }
}
