/* Allocations that bring their own VA: device, host and shared USM, and ranges taken in. */
/* SPDX-License-Identifier: BSD-3-Clause */
#include "vaspace.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

/* Let the CPU see an extent where it may and where page alignment allows. The pages around an
 * extent that begins or ends inside a page come with it: the CPU knows nothing smaller. */
static ze_result_t zr_extent_cpu_map(const struct zr_extent *extent)
{
    uintptr_t start = ZR_ALIGN_DOWN(extent->base, ZR_CPU_PAGE);
    size_t    size  = ZR_ALIGN_UP(extent->base + extent->size, ZR_CPU_PAGE) - start;
    void     *mapped;

    if (!zr_phys_cpu_visible(extent->phys)) {
        return ZE_RESULT_SUCCESS;
    }
    if ((extent->base - extent->offset) % ZR_CPU_PAGE != 0) {
        zr_debug("0x%zx..0x%zx stays closed to the CPU: offset 0x%llx of object %llu does not fit "
                 "its page", (size_t)extent->base, (size_t)(extent->base + extent->size),
                 (unsigned long long)extent->offset, (unsigned long long)extent->phys->id);
        return ZE_RESULT_SUCCESS;
    }
    return zr_bo_map(extent->phys->bo, (void *)start, extent->offset - (extent->base - start), size,
                     PROT_READ | PROT_WRITE, &mapped);
}

static void zr_extent_add(struct zr_region *region, uintptr_t base, size_t size,
                          struct zr_phys *phys, uint64_t offset)
{
    region->extents[region->count++] = (struct zr_extent){base, size, zr_phys_ref(phys), offset,
                                                          region->generation};
}

/* Publish a finished region and tell the subscribers; frees it on failure. */
static ze_result_t zr_region_publish(struct zr_region *region, void **ptr_p)
{
    struct zr_notice notice = {region->base, region->size, region->type};
    ze_result_t      result = zr_region_insert(region);

    if (result != ZE_RESULT_SUCCESS) {
        zr_region_free(region);
        return result;
    }
    *ptr_p = (void *)notice.base;
    zr_subscribers_call(1, &notice, 1);
    return ZE_RESULT_SUCCESS;
}

static ze_result_t zr_usm_region(ze_memory_type_t type, size_t size, size_t alignment,
                                 struct zr_region **region_p)
{
    size_t vm_size = ZR_ALIGN_UP(size, ZR_CPU_PAGE);
    void  *vm      = zr_vm_reserve(NULL, vm_size, ZR_MAX(alignment, zr_va_page_size(size)));

    if (vm == NULL) {
        return zr_fail(ZE_RESULT_ERROR_OUT_OF_HOST_MEMORY,
                       "allocation of 0x%zx bytes, alignment 0x%zx: no address space: %s", size,
                       alignment, strerror(errno));
    }
    *region_p = zr_region_new(ZR_VA_USM, vm, vm_size, 1);
    if (*region_p == NULL) {
        munmap(vm, vm_size);
        return zr_fail(ZE_RESULT_ERROR_OUT_OF_HOST_MEMORY, "allocation of 0x%zx bytes: no memory",
                       size);
    }
    (*region_p)->size = size;
    (*region_p)->type = type;
    return ZE_RESULT_SUCCESS;
}

/* Backing of an allocation: kept, fresh, or fresh after everything kept was given back. */
static ze_result_t zr_usm_bo(struct zr_i915 *dev, bool device, size_t size, struct zr_bo **bo_p)
{
    const enum zr_placement placement = device ? ZR_PLACE_DEVICE : ZR_PLACE_SYSTEM;
    const enum zr_cache     cache     = device ? ZR_CACHE_WRITE_COMBINED : ZR_CACHE_CACHED;
    const uint64_t          length    = ZR_ALIGN_UP(size, device ? ZR_PAGE_SMALL : ZR_CPU_PAGE);
    ze_result_t             result;

    *bo_p = zr_pool_take(dev, length, placement);
    if (*bo_p != NULL) {
        return ZE_RESULT_SUCCESS;
    }
    result = zr_bo_create(dev, length, placement, cache, bo_p);
    if ((result == ZE_RESULT_ERROR_OUT_OF_DEVICE_MEMORY ||
         result == ZE_RESULT_ERROR_OUT_OF_HOST_MEMORY) && zr_pool_drop()) {
        result = zr_bo_create(dev, length, placement, cache, bo_p);
    }
    return result;
}

/* The CPU finds every page in its page table. Nobody else knows the memory yet. */
static void zr_usm_prefault(const struct zr_region *region)
{
    volatile char *at = (volatile char *)region->base;
    size_t         i;

    for (i = 0; zr_phys_cpu_visible(region->extents[0].phys) && i < region->size;
         i += ZR_CPU_PAGE) {
        at[i] = at[i];
    }
}

ze_result_t zr_usm_alloc(struct zr_i915 *dev, ze_memory_type_t type, size_t size,
                         size_t alignment, bool eager, void **ptr_p)
{
    bool              device = (type == ZE_MEMORY_TYPE_DEVICE);
    struct zr_region *region;
    struct zr_phys   *phys;
    struct zr_bo     *bo;
    ze_result_t       result;

    if (size == 0 || size > SIZE_MAX / 2) {
        return zr_fail(ZE_RESULT_ERROR_UNSUPPORTED_SIZE, "allocation of 0x%zx bytes", size);
    }
    if ((alignment & (alignment - 1)) != 0 || alignment > SIZE_MAX / 4) {
        return zr_fail(ZE_RESULT_ERROR_UNSUPPORTED_ALIGNMENT,
                       "allocation: alignment 0x%zx is not a usable power of two", alignment);
    }
    result = zr_usm_bo(dev, device, size, &bo);
    if (result != ZE_RESULT_SUCCESS) {
        return result;
    }
    result = zr_phys_wrap(bo, device ? ZR_BACKING_CONTIGUOUS : ZR_BACKING_SECTION, &phys);
    if (result != ZE_RESULT_SUCCESS) {
        return result;
    }
    phys->keep = eager;
    result     = zr_usm_region(type, size, alignment, &region);
    if (result != ZE_RESULT_SUCCESS) {
        goto err_phys;
    }
    region->dev = dev;
    zr_extent_add(region, region->base, size, phys, 0);
    zr_phys_unref(phys); /* the extent has its own */
    result = zr_extent_cpu_map(&region->extents[0]);
    if (result != ZE_RESULT_SUCCESS) {
        zr_region_free(region);
        return result;
    }
    if (eager) {
        zr_usm_prefault(region);
    }
    return zr_region_publish(region, ptr_p);

err_phys:
    zr_phys_unref(phys);
    return result;
}

ze_result_t zr_usm_free(void *ptr)
{
    struct zr_region *region;
    ze_result_t       result = zr_region_take((uintptr_t)ptr, 0, ZR_VA_USM, &region);

    if (result == ZE_RESULT_SUCCESS) {
        zr_region_free(region);
    }
    return result;
}

ze_result_t zr_va_adopt(const struct zr_range *range, size_t lead, struct zr_i915 *dev, void *tag,
                        void **ptr_p)
{
    struct zr_region *region;
    uintptr_t         at;
    unsigned          i;
    size_t            vm_size;
    void             *vm;
    ze_result_t       result;

    lead %= ZR_PAGE_SMALL;
    if (range->count == 0 || range->length > SIZE_MAX / 2) {
        return zr_fail(ZE_RESULT_ERROR_INVALID_ARGUMENT, "import of %u objects, 0x%llx bytes",
                       range->count, (unsigned long long)range->length);
    }
    vm_size = ZR_ALIGN_UP(lead + range->length, ZR_PAGE_SMALL);
    vm      = zr_vm_reserve(NULL, vm_size, zr_va_page_size(vm_size));
    if (vm == NULL) {
        return zr_fail(ZE_RESULT_ERROR_OUT_OF_HOST_MEMORY,
                       "import of 0x%llx bytes: no address space: %s",
                       (unsigned long long)range->length, strerror(errno));
    }
    region = zr_region_new(ZR_VA_IMPORT, vm, vm_size, range->count);
    if (region == NULL) {
        munmap(vm, vm_size);
        return zr_fail(ZE_RESULT_ERROR_OUT_OF_HOST_MEMORY, "import of %u objects: no memory",
                       range->count);
    }
    region->base = (uintptr_t)vm + lead;
    region->size = range->length;
    region->type = zr_phys_type(range->segments[0].object);
    region->dev  = dev;
    region->tag  = tag;
    for (i = 0, at = region->base; i < range->count; ++i) {
        zr_extent_add(region, at, range->segments[i].length, range->segments[i].object,
                      range->segments[i].offset);
        at += range->segments[i].length;
        result = zr_extent_cpu_map(&region->extents[i]);
        if (result != ZE_RESULT_SUCCESS) {
            zr_region_free(region);
            return result;
        }
    }
    return zr_region_publish(region, ptr_p);
}

ze_result_t zr_va_release(const void *ptr, void **tag_p)
{
    struct zr_region *region;
    ze_result_t       result = zr_region_take((uintptr_t)ptr, 0, ZR_VA_IMPORT, &region);

    if (result == ZE_RESULT_SUCCESS) {
        *tag_p = region->tag;
        zr_region_free(region);
    }
    return result;
}
