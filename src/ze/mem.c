/* USM: allocate, free, and what is at a pointer. */
/* SPDX-License-Identifier: BSD-3-Clause */
#include "stream.h"

#include <string.h>

/* Tag of regions made from a client's dma-buf; other imports are the IPC part's. */
static char zr_tag_dmabuf;

static ze_result_t zr_alloc_check(ze_context_handle_t hContext, size_t size, size_t alignment,
                                  const struct zr_device *device)
{
    uint64_t largest;

    ZR_CHECK_HANDLE(hContext, ZR_KIND_CONTEXT);
    if (device == NULL) {
        device = zr_context_device((struct zr_context *)hContext);
    }
    largest = device->info->lmem_size ? device->info->lmem_size : device->info->smem_size;
    if (size == 0 || size > largest) {
        return zr_fail(ZE_RESULT_ERROR_UNSUPPORTED_SIZE,
                       "allocation of %zu bytes, device %u has %llu", size, device->index,
                       (unsigned long long)largest);
    }
    if ((alignment & (alignment - 1)) != 0) {
        return zr_fail(ZE_RESULT_ERROR_UNSUPPORTED_ALIGNMENT,
                       "allocation aligned to %zu: not a power of two", alignment);
    }
    return zr_context_check_device((struct zr_context *)hContext, device);
}

/* True where the application wants speed rather than little memory. */
static bool zr_alloc_eager(ze_context_handle_t hContext)
{
    return ((struct zr_context *)hContext)->policy == ZR_POLICY_PERFORMANCE;
}

/* A dma-buf of the client as memory of @a type: the CPU reaches what is not a device's. */
static ze_result_t zr_import_dmabuf(struct zr_device                      *device,
                                    const ze_external_memory_import_fd_t *import,
                                    ze_memory_type_t type, size_t size, void **pptr)
{
    struct zr_range range;
    struct zr_phys *phys;
    struct zr_bo   *bo;
    ze_result_t     result;

    if (import->flags != ZE_EXTERNAL_MEMORY_TYPE_FLAG_DMA_BUF) {
        return zr_fail(ZE_RESULT_ERROR_UNSUPPORTED_ENUMERATION,
                       "import of external memory type 0x%x, DMA_BUF alone is supported",
                       import->flags);
    }
    result = zr_bo_import_near(device->i915, import->fd, &bo);
    if (result != ZE_RESULT_SUCCESS) {
        return result;
    }
    if (size > bo->size) {
        result = zr_fail(ZE_RESULT_ERROR_INVALID_SIZE,
                         "import of %zu bytes, the dma-buf (fd %d) has %llu", size, import->fd,
                         (unsigned long long)bo->size);
        zr_bo_unref(bo);
        return result;
    }
    result = zr_phys_wrap(bo, ZR_BACKING_IO_SPACE, &phys);
    if (result != ZE_RESULT_SUCCESS) {
        return result;
    }
    phys->device_local = (type == ZE_MEMORY_TYPE_DEVICE);
    zr_range_init(&range);
    result = zr_range_append(&range, phys, 0, ZR_ALIGN_UP(size, 4096));
    if (result == ZE_RESULT_SUCCESS) {
        result = zr_va_adopt(&range, 0, device->i915, &zr_tag_dmabuf, pptr);
    }
    zr_range_clear(&range);
    zr_phys_unref(phys);
    return result;
}

ze_result_t zr_zeMemAllocDevice(ze_context_handle_t               hContext,
                                const ze_device_mem_alloc_desc_t *device_desc, size_t size,
                                size_t alignment, ze_device_handle_t hDevice, void **pptr)
{
    struct zr_device                     *device = (struct zr_device *)hDevice;
    const ze_external_memory_import_fd_t *import;
    ze_result_t                           result;

    ZR_CHECK_HANDLE(hDevice, ZR_KIND_DEVICE);
    ZR_CHECK_POINTER(device_desc);
    ZR_CHECK_POINTER(pptr);
    if (device_desc->flags > 0x7) {
        return zr_fail(ZE_RESULT_ERROR_INVALID_ENUMERATION, "zeMemAllocDevice: flags 0x%x",
                       device_desc->flags);
    }
    result = zr_alloc_check(hContext, size, alignment, device);
    if (result != ZE_RESULT_SUCCESS) {
        return result;
    }
    import = zr_chain_find(device_desc->pNext, ZE_STRUCTURE_TYPE_EXTERNAL_MEMORY_IMPORT_FD);
    return import ? zr_import_dmabuf(device, import, ZE_MEMORY_TYPE_DEVICE, size, pptr)
                  : zr_usm_alloc(device->i915, ZE_MEMORY_TYPE_DEVICE, size, alignment,
                                 zr_alloc_eager(hContext), pptr);
}

ze_result_t zr_zeMemAllocHost(ze_context_handle_t             hContext,
                              const ze_host_mem_alloc_desc_t *host_desc, size_t size,
                              size_t alignment, void **pptr)
{
    struct zr_context                    *context = (struct zr_context *)hContext;
    const ze_external_memory_import_fd_t *import;
    ze_result_t                           result = zr_alloc_check(hContext, size, alignment, NULL);

    if (result != ZE_RESULT_SUCCESS) {
        return result;
    }
    ZR_CHECK_POINTER(host_desc);
    ZR_CHECK_POINTER(pptr);
    if (host_desc->flags > 0x1f) {
        return zr_fail(ZE_RESULT_ERROR_INVALID_ENUMERATION, "zeMemAllocHost: flags 0x%x",
                       host_desc->flags);
    }
    import = zr_chain_find(host_desc->pNext, ZE_STRUCTURE_TYPE_EXTERNAL_MEMORY_IMPORT_FD);
    return import ? zr_import_dmabuf(zr_context_device(context), import, ZE_MEMORY_TYPE_HOST, size,
                                     pptr)
                  : zr_usm_alloc(zr_context_device(context)->i915, ZE_MEMORY_TYPE_HOST, size,
                                 alignment, zr_alloc_eager(hContext), pptr);
}

ze_result_t zr_zeMemAllocShared(ze_context_handle_t               hContext,
                                const ze_device_mem_alloc_desc_t *device_desc,
                                const ze_host_mem_alloc_desc_t *host_desc, size_t size,
                                size_t alignment, ze_device_handle_t hDevice, void **pptr)
{
    struct zr_device *device = (struct zr_device *)hDevice;
    ze_result_t       result;

    if (hDevice != NULL) {
        ZR_CHECK_HANDLE(hDevice, ZR_KIND_DEVICE);
    }
    result = zr_alloc_check(hContext, size, alignment, device);
    if (result != ZE_RESULT_SUCCESS) {
        return result;
    }
    ZR_CHECK_POINTER(device_desc);
    ZR_CHECK_POINTER(host_desc);
    ZR_CHECK_POINTER(pptr);
    if (device_desc->flags > 0x7 || host_desc->flags > 0x1f) {
        return zr_fail(ZE_RESULT_ERROR_INVALID_ENUMERATION,
                       "zeMemAllocShared: flags 0x%x, 0x%x", device_desc->flags,
                       host_desc->flags);
    }
    if (zr_chain_find(device_desc->pNext, ZE_STRUCTURE_TYPE_EXTERNAL_MEMORY_IMPORT_FD) != NULL ||
        zr_chain_find(host_desc->pNext, ZE_STRUCTURE_TYPE_EXTERNAL_MEMORY_IMPORT_FD) != NULL) {
        return zr_fail(ZE_RESULT_ERROR_UNSUPPORTED_FEATURE,
                       "zeMemAllocShared: a dma-buf is imported as device or host memory");
    }
    if (device == NULL) {
        device = zr_context_device((struct zr_context *)hContext);
    }
    return zr_usm_alloc(device->i915, ZE_MEMORY_TYPE_SHARED, size, alignment,
                        zr_alloc_eager(hContext), pptr);
}

/* Copies in flight hold their own references on the object, so that nothing has to be waited
 * for. */
ze_result_t zr_zeMemFree(ze_context_handle_t hContext, void *ptr)
{
    struct zr_va_info info;
    void             *tag;

    ZR_CHECK_HANDLE(hContext, ZR_KIND_CONTEXT);
    ZR_CHECK_POINTER(ptr);
    if (!zr_va_query(ptr, &info) || (uintptr_t)ptr != info.base ||
        !(info.kind == ZR_VA_USM || (info.kind == ZR_VA_IMPORT && info.tag == &zr_tag_dmabuf))) {
        return zr_fail(ZE_RESULT_ERROR_INVALID_ARGUMENT, "zeMemFree: %p is not an allocation", ptr);
    }
    zr_ipc_forget(ptr);
    return (info.kind == ZR_VA_USM) ? zr_usm_free(ptr) : zr_va_release(ptr, &tag);
}

ze_result_t zr_zeMemFreeExt(ze_context_handle_t              hContext,
                            const ze_memory_free_ext_desc_t *pMemFreeDesc, void *ptr)
{
    ze_result_t result;

    ZR_CHECK_HANDLE(hContext, ZR_KIND_CONTEXT);
    ZR_CHECK_POINTER(pMemFreeDesc);
    ZR_CHECK_POINTER(ptr);
    if (pMemFreeDesc->freePolicy > 0x3) {
        return zr_fail(ZE_RESULT_ERROR_INVALID_ENUMERATION, "zeMemFreeExt: policy 0x%x",
                       pMemFreeDesc->freePolicy);
    }
    if (pMemFreeDesc->freePolicy & ZE_DRIVER_MEMORY_FREE_POLICY_EXT_FLAG_BLOCKING_FREE) {
        result = zr_streams_drain(NULL);
        if (result != ZE_RESULT_SUCCESS) {
            return result;
        }
    }
    return zr_zeMemFree(hContext, ptr);
}

ze_result_t zr_zeMemGetAddressRange(ze_context_handle_t hContext, const void *ptr, void **pBase,
                                    size_t *pSize)
{
    struct zr_va_info info;

    ZR_CHECK_HANDLE(hContext, ZR_KIND_CONTEXT);
    ZR_CHECK_POINTER(ptr);
    if (!zr_va_query(ptr, &info)) {
        return zr_fail(ZE_RESULT_ERROR_ADDRESS_NOT_FOUND, "%p is not memory of the driver", ptr);
    }
    if (zr_quirks() && info.kind == ZR_VA_IMPORT) {
        zr_quirk_address_range(&info, &info.base, &info.size);
    }
    if (pBase != NULL) {
        *pBase = (void *)info.base;
    }
    if (pSize != NULL) {
        *pSize = info.size;
    }
    return ZE_RESULT_SUCCESS;
}

/* The fd of the buffer behind a pointer, where the pointer's range is one object from its first
 * byte on: only then does an offset from the base mean the same in both. -1 else. */
static int zr_mem_export_fd(const struct zr_va_info *info)
{
    struct zr_range range;
    unsigned        kinds;
    int             fd = -1;

    zr_range_init(&range);
    if (zr_range_walk((void *)info->base, info->size, &range, &kinds, NULL) ==
            ZE_RESULT_SUCCESS &&
        range.count == 1 && range.segments[0].offset == 0 &&
        range.segments[0].object->bo != NULL) {
        /* Of the device the memory belongs to: the buffer is the same on all that reach it. */
        fd = zr_dmabuf_fd(range.segments[0].object, range.segments[0].object->bo);
    }
    zr_range_clear(&range);
    return fd;
}

ze_result_t zr_zeMemGetAllocProperties(ze_context_handle_t hContext, const void *ptr,
                                       ze_memory_allocation_properties_t *pMemAllocProperties,
                                       ze_device_handle_t                *phDevice)
{
    ze_external_memory_export_fd_t *export_fd;
    struct zr_va_info               info;

    ZR_CHECK_HANDLE(hContext, ZR_KIND_CONTEXT);
    ZR_CHECK_POINTER(ptr);
    ZR_CHECK_POINTER(pMemAllocProperties);
    export_fd = (void *)zr_chain_find(pMemAllocProperties->pNext,
                                      ZE_STRUCTURE_TYPE_EXTERNAL_MEMORY_EXPORT_FD);
    if (export_fd != NULL && export_fd->flags != ZE_EXTERNAL_MEMORY_TYPE_FLAG_DMA_BUF) {
        return zr_fail(ZE_RESULT_ERROR_UNSUPPORTED_ENUMERATION,
                       "export of %p as external memory type 0x%x, DMA_BUF alone is supported",
                       ptr, export_fd->flags);
    }
    if (!zr_va_query(ptr, &info)) {
        pMemAllocProperties->type = ZE_MEMORY_TYPE_UNKNOWN;
        pMemAllocProperties->id   = 0;
        /* 0, or where nothing is mapped in a reservation: the pages it is made for. */
        pMemAllocProperties->pageSize = info.page_size;
        if (phDevice != NULL) {
            *phDevice = NULL;
        }
        return ZE_RESULT_SUCCESS;
    }
    pMemAllocProperties->type     = info.type;
    pMemAllocProperties->id       = info.id;
    pMemAllocProperties->pageSize = info.page_size;
    if (phDevice != NULL) {
        *phDevice = (info.type == ZE_MEMORY_TYPE_HOST)
                        ? NULL
                        : (ze_device_handle_t)zr_device_of(info.dev);
    }
    if (export_fd != NULL) {
        export_fd->fd = zr_mem_export_fd(&info);
    }
    return ZE_RESULT_SUCCESS;
}
