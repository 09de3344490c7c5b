/* Physical memory objects as devices know them (include/zerange/zerange.h): open, close, address
 * lists, properties. */
/* SPDX-License-Identifier: BSD-3-Clause */
#include "ze.h"

/* Guards the link between an object and the handle made with it: each may end first. */
static pthread_mutex_t created_lock = PTHREAD_MUTEX_INITIALIZER;

static ze_result_t zr_device_mem_create(struct zr_phys *phys, struct zr_device *device,
                                        struct zr_device_mem **mem_p)
{
    struct zr_device_mem *mem = zr_object_create();

    if (mem == NULL) {
        return ZE_RESULT_ERROR_OUT_OF_HOST_MEMORY;
    }
    mem->device = device;
    mem->phys   = zr_phys_ref(phys);
    *mem_p      = mem;
    return ZE_RESULT_SUCCESS;
}

ze_result_t zr_physical_created(struct zr_physical *physical, struct zr_device *device)
{
    ze_result_t result = zr_device_mem_create(physical->phys, device, &physical->created);

    if (result == ZE_RESULT_SUCCESS) {
        physical->created->physical = physical;
        zr_object_publish(physical->created, ZR_KIND_DEVICE_MEM);
    }
    return result;
}

static void zr_device_mem_destroy(struct zr_device_mem *mem)
{
    struct zr_phys *phys = mem->phys;

    zr_object_destroy(mem);
    zr_phys_unref(phys);
}

void zr_physical_drop_created(struct zr_physical *physical)
{
    struct zr_device_mem *mem;

    pthread_mutex_lock(&created_lock);
    mem               = physical->created;
    physical->created = NULL;
    pthread_mutex_unlock(&created_lock);
    if (mem != NULL) {
        zr_device_mem_destroy(mem);
    }
}

ze_result_t ZE_APICALL zr_device_mem_close(zr_device_mem_handle_t handle)
{
    struct zr_device_mem *mem = (struct zr_device_mem *)handle;

    ZR_CHECK_HANDLE(handle, ZR_KIND_DEVICE_MEM);
    pthread_mutex_lock(&created_lock);
    if (mem->physical != NULL) {
        mem->physical->created = NULL;
    }
    pthread_mutex_unlock(&created_lock);
    zr_device_mem_destroy(mem);
    return ZE_RESULT_SUCCESS;
}

ze_result_t ZE_APICALL zr_physical_open(ze_physical_mem_handle_t object, ze_device_handle_t hDevice,
                                        zr_device_mem_handle_t *handle)
{
    struct zr_physical   *physical = (struct zr_physical *)object;
    struct zr_device     *device   = (struct zr_device *)hDevice;
    struct zr_device_mem *mem;
    ze_result_t           result;

    ZR_CHECK_HANDLE(object, ZR_KIND_PHYSICAL);
    ZR_CHECK_HANDLE(hDevice, ZR_KIND_DEVICE);
    ZR_CHECK_POINTER(handle);
    result = zr_phys_open(physical->phys, device->i915);
    if (result == ZE_RESULT_SUCCESS) {
        result = zr_device_mem_create(physical->phys, device, &mem);
    }
    if (result == ZE_RESULT_SUCCESS) {
        zr_object_publish(mem, ZR_KIND_DEVICE_MEM);
        *handle = (zr_device_mem_handle_t)mem;
    }
    return result;
}

ze_result_t ZE_APICALL zr_physical_properties(ze_physical_mem_handle_t  object,
                                              zr_phys_mem_properties_t *properties)
{
    const struct zr_physical *physical = (struct zr_physical *)object;
    const struct zr_phys     *phys;

    ZR_CHECK_HANDLE(object, ZR_KIND_PHYSICAL);
    ZR_CHECK_POINTER(properties);
    phys                = physical->phys;
    properties->id      = phys->id;
    properties->size    = phys->size;
    properties->backing = (zr_phys_mem_backing_t)phys->backing;
    properties->cache   = (zr_phys_mem_cache_t)phys->cache;
    properties->context = (uintptr_t)phys->context_word;
    properties->open    = phys->bo != NULL;
    pthread_mutex_lock(&created_lock);
    properties->created = (zr_device_mem_handle_t)physical->created;
    pthread_mutex_unlock(&created_lock);
    return ZE_RESULT_SUCCESS;
}

/* A run for each segment. The first pass sees to it that the second cannot fail: nothing is written
 * otherwise. */
static ze_result_t zr_address_list(const struct zr_range *range, struct zr_device *device,
                                   uint32_t *count, zr_address_run_t *runs)
{
    const unsigned room = (runs != NULL) ? ZR_MIN(*count, range->count) : 0;
    struct zr_bo  *bo;
    ze_result_t    result;
    unsigned       i;

    for (i = 0; i < range->count; i++) {
        result = zr_phys_bo(range->segments[i].object, device->i915, &bo);
        if (result != ZE_RESULT_SUCCESS) {
            return result;
        }
    }
    for (i = 0; i < room; i++) {
        const struct zr_segment *segment = &range->segments[i];

        (void)zr_phys_bo(segment->object, device->i915, &bo);
        runs[i] = (zr_address_run_t){bo->gpu_va + segment->offset, segment->length};
    }
    *count = range->count;
    return ZE_RESULT_SUCCESS;
}

ze_result_t ZE_APICALL zr_device_mem_address_list(zr_device_mem_handle_t handle, uint64_t offset,
                                                  uint64_t length, uint32_t *count,
                                                  zr_address_run_t *runs)
{
    struct zr_device_mem *mem = (struct zr_device_mem *)handle;
    struct zr_range       range;
    ze_result_t           result;

    ZR_CHECK_HANDLE(handle, ZR_KIND_DEVICE_MEM);
    ZR_CHECK_POINTER(count);
    if (length == 0 || offset > mem->phys->size || length > mem->phys->size - offset) {
        return zr_fail(ZE_RESULT_ERROR_INVALID_SIZE,
                       "address list of %llu bytes at %llu of an object of %llu",
                       (unsigned long long)length, (unsigned long long)offset,
                       (unsigned long long)mem->phys->size);
    }
    zr_range_init(&range);
    result = zr_range_append(&range, mem->phys, offset, length);
    if (result == ZE_RESULT_SUCCESS) {
        result = zr_address_list(&range, mem->device, count, runs);
    }
    zr_range_clear(&range);
    return result;
}

ze_result_t ZE_APICALL zr_range_address_list(ze_device_handle_t hDevice, const void *ptr,
                                             size_t size, uint32_t *count, zr_address_run_t *runs)
{
    struct zr_range range;
    unsigned        kinds;
    ze_result_t     result;

    ZR_CHECK_HANDLE(hDevice, ZR_KIND_DEVICE);
    ZR_CHECK_POINTER(ptr);
    ZR_CHECK_POINTER(count);
    result = zr_range_walk(ptr, size, &range, &kinds, NULL);
    if (result == ZE_RESULT_SUCCESS) {
        result = zr_address_list(&range, (struct zr_device *)hDevice, count, runs);
        zr_range_clear(&range);
    }
    return result;
}
