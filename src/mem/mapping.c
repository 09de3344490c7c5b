/* Reservations and the mappings of physical memory objects in them. */
/* SPDX-License-Identifier: BSD-3-Clause */
#include "vaspace.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

ze_result_t zr_va_reserve(const void *hint, size_t size, void **ptr_p)
{
    struct zr_region *region;
    ze_result_t       result;
    void             *ptr;

    if (size == 0 || size % ZR_PAGE_SMALL != 0) {
        return zr_fail(ZE_RESULT_ERROR_UNSUPPORTED_SIZE,
                       "reservation: size 0x%zx is not a multiple of the page size 0x%zx", size,
                       (size_t)ZR_PAGE_SMALL);
    }
    ptr = zr_vm_reserve(hint, size, zr_va_page_size(size));
    if (ptr == NULL) {
        return zr_fail(ZE_RESULT_ERROR_OUT_OF_HOST_MEMORY,
                       "reservation of 0x%zx bytes: no address space: %s", size, strerror(errno));
    }
    region = zr_region_new(ZR_VA_NONE, ptr, size, 0);
    if (region == NULL) {
        munmap(ptr, size);
        return zr_fail(ZE_RESULT_ERROR_OUT_OF_HOST_MEMORY, "reservation: no memory");
    }
    result = zr_region_insert(region);
    if (result != ZE_RESULT_SUCCESS) {
        zr_region_free(region);
        return result;
    }
    *ptr_p = ptr;
    return ZE_RESULT_SUCCESS;
}

ze_result_t zr_va_unreserve(const void *ptr, size_t size)
{
    struct zr_region *region;
    ze_result_t       result;

    if (size == 0) {
        return zr_fail(ZE_RESULT_ERROR_UNSUPPORTED_SIZE, "reservation 0x%zx: size is 0",
                       (size_t)ptr);
    }
    result = zr_region_take((uintptr_t)ptr, size, ZR_VA_NONE, &region);
    if (result == ZE_RESULT_SUCCESS) {
        zr_region_free(region);
    }
    return result;
}

/* Numbers a map call must have, whatever is there. */
static ze_result_t zr_map_check(uintptr_t base, size_t size, const struct zr_phys *phys,
                                uint64_t offset, ze_memory_access_attribute_t access)
{
    if (base % ZR_PAGE_SMALL != 0 || offset % ZR_PAGE_SMALL != 0) {
        return zr_fail(ZE_RESULT_ERROR_UNSUPPORTED_ALIGNMENT,
                       "map 0x%zx: address or offset 0x%llx is not a multiple of the page size "
                       "0x%zx", (size_t)base, (unsigned long long)offset, (size_t)ZR_PAGE_SMALL);
    }
    if (size == 0 || size % ZR_PAGE_SMALL != 0) {
        return zr_fail(ZE_RESULT_ERROR_UNSUPPORTED_SIZE,
                       "map 0x%zx: size 0x%zx is not a multiple of the page size 0x%zx",
                       (size_t)base, size, (size_t)ZR_PAGE_SMALL);
    }
    if (offset > phys->size || size > phys->size - offset) {
        return zr_fail(ZE_RESULT_ERROR_INVALID_SIZE,
                       "map 0x%zx: 0x%llx+0x%zx is beyond the end of object %llu (size 0x%llx)",
                       (size_t)base, (unsigned long long)offset, size,
                       (unsigned long long)phys->id, (unsigned long long)phys->size);
    }
    if ((unsigned)access > ZE_MEMORY_ACCESS_ATTRIBUTE_READONLY) {
        return zr_fail(ZE_RESULT_ERROR_INVALID_ENUMERATION, "map 0x%zx: access attribute %d",
                       (size_t)base, access);
    }
    if (phys->bo == NULL) {
        return zr_fail(ZE_RESULT_ERROR_INVALID_ARGUMENT, "map 0x%zx: object %llu is open on no "
                       "device", (size_t)base, (unsigned long long)phys->id);
    }
    return ZE_RESULT_SUCCESS;
}

/* The reservation that has room at [base, base+size). zr_va.change is held. */
static ze_result_t zr_map_place(uintptr_t base, size_t size, struct zr_region **region_p,
                                unsigned *index_p)
{
    struct zr_region *region = zr_region_at(base);
    unsigned          i;

    if (region == NULL || region->kind != ZR_VA_NONE ||
        size > region->base + region->size - base) {
        return zr_fail(ZE_RESULT_ERROR_INVALID_ARGUMENT,
                       "map 0x%zx..0x%zx: not inside one reservation", (size_t)base,
                       (size_t)(base + size));
    }
    i = zr_extent_find(region, base);
    if (i < region->count && region->extents[i].base < base + size) {
        return zr_fail(ZE_RESULT_ERROR_INVALID_ARGUMENT,
                       "map 0x%zx..0x%zx: 0x%zx..0x%zx is mapped already", (size_t)base,
                       (size_t)(base + size), (size_t)region->extents[i].base,
                       (size_t)(region->extents[i].base + region->extents[i].size));
    }
    *region_p = region;
    *index_p  = i;
    return ZE_RESULT_SUCCESS;
}

/* No CPU access from here on; the reservation stays. */
static void zr_cpu_unmap(uintptr_t base, size_t size, const struct zr_phys *phys)
{
    if (zr_phys_cpu_visible(phys) &&
        mmap((void *)base, size, PROT_NONE,
             MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1, 0) == MAP_FAILED) {
        zr_error("unmap 0x%zx..0x%zx: the pages of object %llu stay visible to the CPU: %s",
                 (size_t)base, (size_t)(base + size), (unsigned long long)phys->id,
                 strerror(errno));
    }
}

ze_result_t zr_va_map(const void *ptr, size_t size, struct zr_phys *phys, uint64_t offset,
                      ze_memory_access_attribute_t access)
{
    uintptr_t         base   = (uintptr_t)ptr;
    struct zr_notice  notice = {base, size, ZE_MEMORY_TYPE_UNKNOWN};
    struct zr_region *region = NULL;
    unsigned          i      = 0;
    void             *mapped;
    ze_result_t       result = zr_map_check(base, size, phys, offset, access);

    if (result != ZE_RESULT_SUCCESS) {
        return result;
    }
    pthread_mutex_lock(&zr_va.change);
    result = zr_map_place(base, size, &region, &i);
    if (result == ZE_RESULT_SUCCESS) {
        result = zr_region_make_room(region, 1);
    }
    if (result == ZE_RESULT_SUCCESS && zr_phys_cpu_visible(phys)) {
        result = zr_bo_map(phys->bo, (void *)base, offset, size, zr_access_prot(access), &mapped);
    }
    if (result == ZE_RESULT_SUCCESS) { /* last: what fails leaves the attribute as it was */
        result = zr_spans_set(region, base, base + size, access);
        if (result != ZE_RESULT_SUCCESS) {
            zr_cpu_unmap(base, size, phys);
        }
    }
    if (result == ZE_RESULT_SUCCESS) {
        pthread_rwlock_wrlock(&zr_va.lock);
        memmove(&region->extents[i + 1], &region->extents[i],
                (region->count - i) * sizeof(*region->extents));
        region->generation = zr_va_stamp();
        region->extents[i] = (struct zr_extent){base, size, zr_phys_ref(phys), offset,
                                                region->generation};
        region->count++;
        pthread_rwlock_unlock(&zr_va.lock);
    }
    pthread_mutex_unlock(&zr_va.change);
    if (result == ZE_RESULT_SUCCESS) {
        notice.type = zr_phys_type(phys);
        zr_subscribers_call(1, &notice, 1);
    }
    return result;
}

/* The whole mappings inside [base, base+size): first and number. A lock is held. */
static ze_result_t zr_unmap_find(uintptr_t base, size_t size, struct zr_region **region_p,
                                 unsigned *first_p, unsigned *count_p)
{
    struct zr_region *region = zr_region_at(base);
    unsigned          i, last;

    if (region == NULL || region->kind != ZR_VA_NONE ||
        size > region->base + region->size - base) {
        return zr_fail(ZE_RESULT_ERROR_INVALID_ARGUMENT,
                       "unmap 0x%zx..0x%zx: not inside one reservation", (size_t)base,
                       (size_t)(base + size));
    }
    i = zr_extent_find(region, base);
    for (last = i; last < region->count && region->extents[last].base < base + size; ++last) {
        const struct zr_extent *extent = &region->extents[last];

        if (extent->base < base || extent->base + extent->size > base + size) {
            return zr_fail(ZE_RESULT_ERROR_INVALID_ARGUMENT,
                           "unmap 0x%zx..0x%zx cuts the mapping 0x%zx..0x%zx", (size_t)base,
                           (size_t)(base + size), (size_t)extent->base,
                           (size_t)(extent->base + extent->size));
        }
    }
    *region_p = region;
    *first_p  = i;
    *count_p  = last - i;
    return ZE_RESULT_SUCCESS;
}

/* Copies of the extents, so that they can be spoken of and dropped with no lock held. */
static ze_result_t zr_unmap_snapshot(uintptr_t base, size_t size, uint64_t *generation_p,
                                     struct zr_extent **extents_p, struct zr_notice **notices_p,
                                     unsigned *count_p)
{
    struct zr_region *region;
    struct zr_extent *extents;
    struct zr_notice *notices;
    unsigned          first, count, i;
    ze_result_t       result;

    pthread_rwlock_rdlock(&zr_va.lock);
    result = zr_unmap_find(base, size, &region, &first, &count);
    if (result != ZE_RESULT_SUCCESS || count == 0) {
        *count_p = 0;
        goto out;
    }
    extents = malloc(count * sizeof(*extents));
    notices = malloc(count * sizeof(*notices));
    if (extents == NULL || notices == NULL) {
        free(extents);
        free(notices);
        result = zr_fail(ZE_RESULT_ERROR_OUT_OF_HOST_MEMORY, "unmap of %u mappings: no memory",
                         count);
        goto out;
    }
    for (i = 0; i < count; ++i) {
        extents[i] = region->extents[first + i];
        notices[i] = (struct zr_notice){extents[i].base, extents[i].size,
                                        zr_phys_type(extents[i].phys)};
    }
    *generation_p = region->generation;
    *extents_p    = extents;
    *notices_p    = notices;
    *count_p      = count;
out:
    pthread_rwlock_unlock(&zr_va.lock);
    return result;
}

/* Take the mappings out if the region is as it was. zr_va.change is held. */
static bool zr_unmap_commit(uintptr_t base, size_t size, uint64_t generation)
{
    struct zr_region *region;
    unsigned          first, count;

    if (zr_unmap_find(base, size, &region, &first, &count) != ZE_RESULT_SUCCESS ||
        region->generation != generation) {
        return false;
    }
    pthread_rwlock_wrlock(&zr_va.lock);
    region->count -= count;
    memmove(&region->extents[first], &region->extents[first + count],
            (region->count - first) * sizeof(*region->extents));
    region->generation = zr_va_stamp();
    pthread_rwlock_unlock(&zr_va.lock);
    return true;
}

ze_result_t zr_va_unmap(const void *ptr, size_t size)
{
    uintptr_t         base = (uintptr_t)ptr;
    struct zr_extent *extents    = NULL;
    struct zr_notice *notices    = NULL;
    unsigned          count      = 0, i;
    uint64_t          generation = 0;
    bool              done;
    ze_result_t       result;

    if (base % ZR_PAGE_SMALL != 0) {
        return zr_fail(ZE_RESULT_ERROR_UNSUPPORTED_ALIGNMENT,
                       "unmap 0x%zx: not a multiple of the page size 0x%zx", (size_t)base,
                       (size_t)ZR_PAGE_SMALL);
    }
    if (size == 0 || size % ZR_PAGE_SMALL != 0) {
        return zr_fail(ZE_RESULT_ERROR_UNSUPPORTED_SIZE,
                       "unmap 0x%zx: size 0x%zx is not a multiple of the page size 0x%zx",
                       (size_t)base, size, (size_t)ZR_PAGE_SMALL);
    }
    do {
        result = zr_unmap_snapshot(base, size, &generation, &extents, &notices, &count);
        if (result != ZE_RESULT_SUCCESS || count == 0) {
            return result;
        }
        zr_subscribers_call(0, notices, count);
        pthread_mutex_lock(&zr_va.change);
        done = zr_unmap_commit(base, size, generation);
        for (i = 0; done && i < count; ++i) {
            zr_cpu_unmap(extents[i].base, extents[i].size, extents[i].phys);
        }
        pthread_mutex_unlock(&zr_va.change);
        for (i = 0; done && i < count; ++i) {
            zr_phys_unref(extents[i].phys);
        }
        free(extents);
        free(notices);
    } while (!done);
    return ZE_RESULT_SUCCESS;
}
