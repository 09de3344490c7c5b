/* IPC memory handles: which export a pointer and its descriptors ask for
 * (extension ZE_extension_ipc_phys_mem_handle_range), open and close. */
/* SPDX-License-Identifier: BSD-3-Clause */
#include "ze.h"

/* A physical memory handle passed as the pointer. */
static ze_result_t zr_export_physical(struct zr_context *context, const void *ptr,
                                      ze_ipc_mem_handle_t *handle_p)
{
    const struct zr_physical *physical = ptr;

    return zr_ipc_export_plain(ptr, physical->phys, physical->phys->size, physical->type, context,
                               handle_p);
}

/* The memory from its base on: a buffer that begins there is the handle's; of a mapping that begins
 * further on in its object a range is, which says where. */
static ze_result_t zr_export_at(struct zr_context *context, const struct zr_va_info *info,
                                ze_ipc_mem_handle_t *handle_p)
{
    const void      *base = (void *)info->base;
    uint64_t         size = info->size;
    struct zr_range  range;
    struct zr_phys  *phys;
    unsigned         kinds;
    uint64_t         generation;
    ze_result_t      result;

    zr_range_init(&range);
    result = zr_range_walk(base, info->size, &range, &kinds, &generation);
    if (result == ZE_RESULT_SUCCESS) {
        phys = range.segments[0].object;
        if (zr_quirks() && info->kind == ZR_VA_MAPPING) {
            size = phys->size;
        }
        result = (range.count == 1 && (range.segments[0].offset == 0 || size != info->size))
                     ? zr_ipc_export_plain(base, phys, size, info->type, context, handle_p)
                     : zr_ipc_export_range(base, &range, generation, context, handle_p);
    }
    zr_range_clear(&range);
    return result;
}

/* Without a range: a USM allocation, or the mapping that the pointer is in. */
static ze_result_t zr_export_whole(struct zr_context *context, const void *ptr,
                                   ze_ipc_mem_handle_t *handle_p)
{
    struct zr_va_info info;

    if (zr_object_is(ptr, ZR_KIND_PHYSICAL)) {
        return zr_export_physical(context, ptr, handle_p);
    }
    if (!zr_va_query(ptr, &info)) {
        return zr_fail(ZE_RESULT_ERROR_INVALID_ARGUMENT,
                       "IPC handle: %p is not memory of the driver", ptr);
    }
    if (info.kind == ZR_VA_IMPORT) {
        return zr_fail(ZE_RESULT_ERROR_INVALID_ARGUMENT,
                       "IPC handle: %p is an imported range; its exporter shares it", ptr);
    }
    if (info.kind == ZR_VA_USM && (uintptr_t)ptr != info.base) {
        return zr_fail(ZE_RESULT_ERROR_INVALID_ARGUMENT,
                       "IPC handle: %p is inside the allocation at %p, not its base", ptr,
                       (void *)info.base);
    }
    return zr_export_at(context, &info, handle_p);
}

/* The window [ptr, ptr+size) must be mapped to physical memory objects from end to end. Intel's
 * driver takes an allocation that fits, and gives the handle it would give without a range. */
static ze_result_t zr_export_range(struct zr_context *context, const void *ptr, size_t size,
                                   ze_ipc_mem_handle_t *handle_p)
{
    struct zr_range   range;
    struct zr_va_info info;
    unsigned          kinds = ZR_VA_NONE;
    uint64_t          generation;
    ze_result_t       result;

    if (zr_config()->compat == ZR_COMPAT_INTEL && zr_va_query(ptr, &info) &&
        info.kind == ZR_VA_USM && (uintptr_t)ptr == info.base && size <= info.size) {
        return zr_export_whole(context, ptr, handle_p);
    }
    zr_range_init(&range);
    result = zr_range_walk(ptr, size, &range, &kinds, &generation);
    if (kinds & ~ZR_VA_MAPPING) {
        result = zr_fail(ZE_RESULT_ERROR_INVALID_ARGUMENT,
                         "range %p + %zu has %s in it: only mapped physical memory objects can be "
                         "exported as a range",
                         ptr, size, (kinds & ZR_VA_USM) ? "a USM allocation" : "an imported range");
    } else if (result == ZE_RESULT_ERROR_ADDRESS_NOT_FOUND && kinds == ZR_VA_NONE &&
               !zr_va_query(ptr, &info) && info.region_base == 0) {
        result = zr_fail(ZE_RESULT_ERROR_INVALID_ARGUMENT, "range %p + %zu is not reserved VA", ptr,
                         size);
    } else if (result == ZE_RESULT_SUCCESS && zr_quirks()) {
        result = zr_quirk_export(ptr, size, &range);
    }
    if (result == ZE_RESULT_SUCCESS) {
        result = zr_ipc_export_range(ptr, &range, generation, context, handle_p);
    }
    zr_range_clear(&range);
    return result;
}

ze_result_t zr_zeMemGetIpcHandleWithProperties(ze_context_handle_t hContext, const void *ptr,
                                               void *pNext, ze_ipc_mem_handle_t *pIpcHandle)
{
    struct zr_context                             *context = (struct zr_context *)hContext;
    const ze_ipc_phys_mem_handle_range_ext_desc_t *range;
    const ze_ipc_mem_handle_type_ext_desc_t       *type;

    ZR_CHECK_HANDLE(hContext, ZR_KIND_CONTEXT);
    ZR_CHECK_POINTER(ptr);
    ZR_CHECK_POINTER(pIpcHandle);
    range = zr_quirks() ? zr_quirk_range_desc(pNext)
                        : zr_chain_find(pNext, ZE_STRUCTURE_TYPE_IPC_PHYS_MEM_HANDLE_RANGE_EXT_DESC);
    type  = zr_chain_find(pNext, ZE_STRUCTURE_TYPE_IPC_MEM_HANDLE_TYPE_EXT_DESC);
    if (range != NULL && (zr_config()->hide & ZR_HIDE_RANGE)) {
        return zr_fail(ZE_RESULT_ERROR_UNSUPPORTED_FEATURE,
                       "the range extension is hidden by ZERANGE_HIDE");
    }
    if (range != NULL && range->size == 0) {
        return zr_fail(ZE_RESULT_ERROR_INVALID_SIZE, "range at %p: size 0", ptr);
    }
    if (type != NULL && type->typeFlags > 0x3) {
        return zr_fail(ZE_RESULT_ERROR_INVALID_ENUMERATION, "IPC handle type flags 0x%x",
                       type->typeFlags);
    }
    if (type != NULL && (type->typeFlags & ZE_IPC_MEM_HANDLE_TYPE_FLAG_FABRIC_ACCESSIBLE)) {
        return zr_fail(ZE_RESULT_ERROR_UNSUPPORTED_FEATURE,
                       "a fabric accessible IPC handle needs a fabric");
    }
    return range ? zr_export_range(context, ptr, range->size, pIpcHandle)
                 : zr_export_whole(context, ptr, pIpcHandle);
}

ze_result_t zr_zeMemGetIpcHandle(ze_context_handle_t hContext, const void *ptr,
                                 ze_ipc_mem_handle_t *pIpcHandle)
{
    return zr_zeMemGetIpcHandleWithProperties(hContext, ptr, NULL, pIpcHandle);
}

ze_result_t zr_zeMemPutIpcHandle(ze_context_handle_t hContext, ze_ipc_mem_handle_t handle)
{
    ZR_CHECK_HANDLE(hContext, ZR_KIND_CONTEXT);
    return zr_ipc_put(&handle);
}

ze_result_t zr_zeMemOpenIpcHandle(ze_context_handle_t hContext, ze_device_handle_t hDevice,
                                  ze_ipc_mem_handle_t handle, ze_ipc_memory_flags_t flags,
                                  void **pptr)
{
    struct zr_device *device = (struct zr_device *)hDevice;
    ze_result_t       result;

    ZR_CHECK_HANDLE(hContext, ZR_KIND_CONTEXT);
    ZR_CHECK_HANDLE(hDevice, ZR_KIND_DEVICE);
    ZR_CHECK_POINTER(pptr);
    if (flags > 0x3) {
        return zr_fail(ZE_RESULT_ERROR_INVALID_ENUMERATION, "zeMemOpenIpcHandle: flags 0x%x",
                       flags);
    }
    result = zr_context_check_device((struct zr_context *)hContext, device);
    return (result == ZE_RESULT_SUCCESS) ? zr_ipc_open(device->i915, &handle, pptr) : result;
}

ze_result_t zr_zeMemCloseIpcHandle(ze_context_handle_t hContext, const void *ptr)
{
    ZR_CHECK_HANDLE(hContext, ZR_KIND_CONTEXT);
    ZR_CHECK_POINTER(ptr);
    return zr_ipc_close(ptr);
}

ze_result_t zr_zeMemGetIpcHandleFromFileDescriptorExp(ze_context_handle_t hContext, uint64_t handle,
                                                      ze_ipc_mem_handle_t *pIpcHandle)
{
    ZR_CHECK_HANDLE(hContext, ZR_KIND_CONTEXT);
    ZR_CHECK_POINTER(pIpcHandle);
    return zr_ipc_handle_from_fd(handle, pIpcHandle);
}

ze_result_t zr_zeMemGetFileDescriptorFromIpcHandleExp(ze_context_handle_t hContext,
                                                      ze_ipc_mem_handle_t ipcHandle,
                                                      uint64_t           *pHandle)
{
    uint64_t    fd;
    ze_result_t result;

    ZR_CHECK_HANDLE(hContext, ZR_KIND_CONTEXT);
    ZR_CHECK_POINTER(pHandle);
    result = zr_ipc_fd_from_handle(&ipcHandle, &fd);
    if (result == ZE_RESULT_SUCCESS) {
        /* One buffer has one fd here: that of zeMemGetAllocProperties if it was asked for. */
        *pHandle = (uint64_t)zr_dmabuf_same((int)fd);
    }
    return result;
}
