/* Physical memory objects as Level Zero creates them. */
/* SPDX-License-Identifier: BSD-3-Clause */
#include "ze.h"

_Static_assert((int)ZR_PHYS_MEM_SECTION == ZR_BACKING_SECTION &&
                   (int)ZR_PHYS_MEM_CONTIGUOUS == ZR_BACKING_CONTIGUOUS &&
                   (int)ZR_PHYS_MEM_PAGES == ZR_BACKING_PAGES &&
                   (int)ZR_PHYS_MEM_IO_SPACE == ZR_BACKING_IO_SPACE,
               "the header's backings are ours");
_Static_assert((int)ZR_PHYS_MEM_CACHED == ZR_CACHE_CACHED &&
                   (int)ZR_PHYS_MEM_WRITE_COMBINED == ZR_CACHE_WRITE_COMBINED &&
                   (int)ZR_PHYS_MEM_UNCACHED == ZR_CACHE_UNCACHED,
               "the header's cache types are ours");

/* What the descriptor and its chain ask for: our own structure, a dma-buf, or the flags. */
static ze_result_t zr_physical_spec(const ze_physical_mem_desc_t *desc, struct zr_phys_spec *spec)
{
    const zr_phys_mem_desc_t *own = zr_chain_find(desc->pNext, ZR_STRUCTURE_TYPE_PHYS_MEM_DESC);
    const ze_external_memory_import_fd_t *import =
        zr_chain_find(desc->pNext, ZE_STRUCTURE_TYPE_EXTERNAL_MEMORY_IMPORT_FD);
    const bool host = desc->flags == ZE_PHYSICAL_MEM_FLAG_ALLOCATE_ON_HOST;

    *spec = (struct zr_phys_spec){
        .backing = host ? ZR_BACKING_SECTION : ZR_BACKING_CONTIGUOUS,
        .cache   = host ? ZR_CACHE_CACHED : ZR_CACHE_WRITE_COMBINED,
        .size    = desc->size,
        .fd      = -1,
        .movable = desc->flags == (ZE_PHYSICAL_MEM_FLAG_ALLOCATE_ON_DEVICE |
                                   ZE_PHYSICAL_MEM_FLAG_ALLOCATE_ON_HOST),
    };
    if (own != NULL) {
        if ((unsigned)own->backing > ZR_PHYS_MEM_IO_SPACE ||
            (unsigned)own->cache > ZR_PHYS_MEM_UNCACHED) {
            return zr_fail(ZE_RESULT_ERROR_INVALID_ENUMERATION,
                           "zePhysicalMemCreate: backing %d, cache type %d", own->backing,
                           own->cache);
        }
        spec->backing      = (enum zr_backing)own->backing;
        spec->cache        = (enum zr_cache)own->cache;
        spec->context_word = own->context;
        spec->pages        = own->pages;
        spec->fd           = own->fd;
    } else if (import != NULL) {
        if (import->flags != ZE_EXTERNAL_MEMORY_TYPE_FLAG_DMA_BUF) {
            return zr_fail(ZE_RESULT_ERROR_UNSUPPORTED_ENUMERATION,
                           "import of external memory type 0x%x, DMA_BUF alone is supported",
                           import->flags);
        }
        spec->backing   = ZR_BACKING_IO_SPACE;
        spec->any_cache = true;
        spec->fd        = import->fd;
    }
    return ZE_RESULT_SUCCESS;
}

/* The specification's checks, but for the device that our structure may leave out. Host memory
 * needs no device of the application's: any of the context reaches it. */
static ze_result_t zr_physical_check(struct zr_context *context, struct zr_device **device_p,
                                     const ze_physical_mem_desc_t *desc)
{
    struct zr_device *device = *device_p;

    if (desc->flags > (ZE_PHYSICAL_MEM_FLAG_ALLOCATE_ON_DEVICE |
                       ZE_PHYSICAL_MEM_FLAG_ALLOCATE_ON_HOST)) {
        return zr_fail(ZE_RESULT_ERROR_INVALID_ENUMERATION, "zePhysicalMemCreate: flags 0x%x",
                       desc->flags);
    }
    if (device == NULL && zr_chain_find(desc->pNext, ZR_STRUCTURE_TYPE_PHYS_MEM_DESC) != NULL) {
        return ZE_RESULT_SUCCESS;
    }
    if (device == NULL && desc->flags == ZE_PHYSICAL_MEM_FLAG_ALLOCATE_ON_HOST) {
        *device_p = device = zr_context_device(context);
    }
    ZR_CHECK_HANDLE(device, ZR_KIND_DEVICE);
    return zr_context_check_device(context, device);
}

ze_result_t zr_zePhysicalMemCreate(ze_context_handle_t hContext, ze_device_handle_t hDevice,
                                   ze_physical_mem_desc_t   *desc,
                                   ze_physical_mem_handle_t *phPhysicalMemory)
{
    struct zr_context  *context = (struct zr_context *)hContext;
    struct zr_device   *device  = (struct zr_device *)hDevice;
    struct zr_physical *physical;
    struct zr_phys_spec spec;
    ze_result_t         result;

    ZR_CHECK_HANDLE(hContext, ZR_KIND_CONTEXT);
    ZR_CHECK_POINTER(desc);
    ZR_CHECK_POINTER(phPhysicalMemory);
    result = zr_physical_check(context, &device, desc);
    if (result == ZE_RESULT_SUCCESS) {
        result = zr_physical_spec(desc, &spec);
    }
    if (result != ZE_RESULT_SUCCESS) {
        return result;
    }
    physical = zr_object_create();
    if (physical == NULL) {
        return ZE_RESULT_ERROR_OUT_OF_HOST_MEMORY;
    }
    physical->context = context;
    physical->type    = (spec.backing == ZR_BACKING_CONTIGUOUS ||
                      (spec.backing == ZR_BACKING_IO_SPACE &&
                       desc->flags != ZE_PHYSICAL_MEM_FLAG_ALLOCATE_ON_HOST))
                            ? ZE_MEMORY_TYPE_DEVICE
                            : ZE_MEMORY_TYPE_HOST;
    result = zr_phys_make(device ? device->i915 : NULL, &spec, &physical->phys);
    if (result != ZE_RESULT_SUCCESS) {
        goto err_object;
    }
    if (device != NULL) {
        result = zr_physical_created(physical, device);
        if (result != ZE_RESULT_SUCCESS) {
            goto err_phys;
        }
    }
    zr_object_publish(physical, ZR_KIND_PHYSICAL);
    *phPhysicalMemory = (ze_physical_mem_handle_t)physical;
    return ZE_RESULT_SUCCESS;

err_phys:
    zr_phys_unref(physical->phys);
err_object:
    zr_object_destroy(physical);
    return result;
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
    zr_ipc_forget(physical);
    zr_physical_drop_created(physical);
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
    int                             fd;

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
        if (physical->phys->bo == NULL) {
            return zr_fail(ZE_RESULT_ERROR_UNSUPPORTED_FEATURE,
                           "export of object %llu: it is open on no device",
                           (unsigned long long)physical->phys->id);
        }
        fd = zr_dmabuf_fd(physical->phys, physical->phys->bo);
        if (fd < 0) {
            return ZE_RESULT_ERROR_UNSUPPORTED_FEATURE;
        }
        export_fd->fd = fd;
    }
    pMemProperties->id   = physical->phys->id;
    pMemProperties->size = physical->phys->size;
    return ZE_RESULT_SUCCESS;
}
