/* Physical memory objects as Level Zero creates them. */
/* SPDX-License-Identifier: BSD-3-Clause */
#include "ze.h"

/* With a dma-buf in the descriptor's chain the object is that buffer. */
static ze_result_t zr_physical_make(struct zr_device *device, const ze_physical_mem_desc_t *desc,
                                    ze_memory_type_t type, struct zr_phys **phys_p)
{
    const ze_external_memory_import_fd_t *import =
        zr_chain_find(desc->pNext, ZE_STRUCTURE_TYPE_EXTERNAL_MEMORY_IMPORT_FD);
    const bool    host = type == ZE_MEMORY_TYPE_HOST;
    struct zr_bo *bo;
    ze_result_t   result;

    if (import == NULL) {
        return zr_phys_create(device->i915, host ? ZR_BACKING_SECTION : ZR_BACKING_CONTIGUOUS,
                              host ? ZR_CACHE_CACHED : ZR_CACHE_WRITE_COMBINED, desc->size, 0,
                              phys_p);
    }
    if (import->flags != ZE_EXTERNAL_MEMORY_TYPE_FLAG_DMA_BUF) {
        return zr_fail(ZE_RESULT_ERROR_UNSUPPORTED_ENUMERATION,
                       "import of external memory type 0x%x, DMA_BUF alone is supported",
                       import->flags);
    }
    result = zr_bo_import(device->i915, import->fd, &bo);
    if (result != ZE_RESULT_SUCCESS) {
        return result;
    }
    if (desc->size > bo->size) {
        zr_bo_unref(bo);
        return zr_fail(ZE_RESULT_ERROR_INVALID_SIZE,
                         "import of %zu bytes, the dma-buf (fd %d) has %llu", desc->size,
                         import->fd, (unsigned long long)bo->size);
    }
    return zr_phys_wrap(bo, ZR_BACKING_IO_SPACE, phys_p);
}

ze_result_t zr_zePhysicalMemCreate(ze_context_handle_t hContext, ze_device_handle_t hDevice,
                                   ze_physical_mem_desc_t   *desc,
                                   ze_physical_mem_handle_t *phPhysicalMemory)
{
    struct zr_context  *context = (struct zr_context *)hContext;
    struct zr_device   *device  = (struct zr_device *)hDevice;
    struct zr_physical *physical;
    ze_result_t         result;

    ZR_CHECK_HANDLE(hContext, ZR_KIND_CONTEXT);
    ZR_CHECK_HANDLE(hDevice, ZR_KIND_DEVICE);
    ZR_CHECK_POINTER(desc);
    ZR_CHECK_POINTER(phPhysicalMemory);
    if (desc->flags > (ZE_PHYSICAL_MEM_FLAG_ALLOCATE_ON_DEVICE |
                       ZE_PHYSICAL_MEM_FLAG_ALLOCATE_ON_HOST)) {
        return zr_fail(ZE_RESULT_ERROR_INVALID_ENUMERATION, "zePhysicalMemCreate: flags 0x%x",
                       desc->flags);
    }
    if (desc->size == 0 || desc->size % ZR_PAGE_SMALL != 0) {
        return zr_fail(ZE_RESULT_ERROR_UNSUPPORTED_SIZE,
                       "physical memory object of %zu bytes: not a multiple of the %llu byte page",
                       desc->size, (unsigned long long)ZR_PAGE_SMALL);
    }
    result = zr_context_check_device(context, device);
    if (result != ZE_RESULT_SUCCESS) {
        return result;
    }
    physical = zr_object_create();
    if (physical == NULL) {
        return ZE_RESULT_ERROR_OUT_OF_HOST_MEMORY;
    }
    physical->context = context;
    physical->device  = device;
    physical->type    = (desc->flags == ZE_PHYSICAL_MEM_FLAG_ALLOCATE_ON_HOST)
                            ? ZE_MEMORY_TYPE_HOST
                            : ZE_MEMORY_TYPE_DEVICE;
    result = zr_physical_make(device, desc, physical->type, &physical->phys);
    if (result != ZE_RESULT_SUCCESS) {
        zr_object_destroy(physical);
        return result;
    }
    zr_object_publish(physical, ZR_KIND_PHYSICAL);
    *phPhysicalMemory = (ze_physical_mem_handle_t)physical;
    return ZE_RESULT_SUCCESS;
}

/* What is mapped or exported stays: each holds a reference of its own. */
ze_result_t zr_zePhysicalMemDestroy(ze_context_handle_t      hContext,
                                    ze_physical_mem_handle_t hPhysicalMemory)
{
    struct zr_physical *physical = (struct zr_physical *)hPhysicalMemory;
    struct zr_phys     *phys;

    ZR_CHECK_HANDLE(hContext, ZR_KIND_CONTEXT);
    ZR_CHECK_HANDLE(hPhysicalMemory, ZR_KIND_PHYSICAL);
    phys = physical->phys;
    zr_dmabuf_forget(phys->id);
    zr_ipc_forget(physical);
    zr_object_destroy(physical);
    zr_phys_unref(phys);
    return ZE_RESULT_SUCCESS;
}

ze_result_t zr_zePhysicalMemGetProperties(ze_context_handle_t           hContext,
                                          ze_physical_mem_handle_t      hPhysicalMem,
                                          ze_physical_mem_properties_t *pMemProperties)
{
    struct zr_physical             *physical = (struct zr_physical *)hPhysicalMem;
    ze_external_memory_export_fd_t *export_fd;
    struct zr_bo                   *bo;
    ze_result_t                     result;
    int                             fd = -1;

    ZR_CHECK_HANDLE(hContext, ZR_KIND_CONTEXT);
    ZR_CHECK_HANDLE(hPhysicalMem, ZR_KIND_PHYSICAL);
    ZR_CHECK_POINTER(pMemProperties);
    export_fd = (void *)zr_chain_find(pMemProperties->pNext,
                                      ZE_STRUCTURE_TYPE_EXTERNAL_MEMORY_EXPORT_FD);
    if (export_fd != NULL) {
        if (export_fd->flags != ZE_EXTERNAL_MEMORY_TYPE_FLAG_DMA_BUF) {
            return zr_fail(ZE_RESULT_ERROR_UNSUPPORTED_ENUMERATION,
                           "export as external memory type 0x%x, DMA_BUF alone is supported",
                           export_fd->flags);
        }
        result = zr_phys_bo(physical->phys, physical->device->i915, &bo);
        if (result == ZE_RESULT_SUCCESS && (fd = zr_dmabuf_fd(physical->phys, bo)) < 0) {
            result = ZE_RESULT_ERROR_UNSUPPORTED_FEATURE;
        }
        if (result != ZE_RESULT_SUCCESS) {
            return result;
        }
        export_fd->fd = fd;
    }
    pMemProperties->id   = physical->phys->id;
    pMemProperties->size = physical->phys->size;
    return ZE_RESULT_SUCCESS;
}
