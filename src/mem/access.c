/* Access attributes of reservations: spans of equal attribute, independent of what is mapped. */
/* SPDX-License-Identifier: BSD-3-Clause */
#include "vaspace.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

struct zr_span_list {
    struct zr_span *spans;
    unsigned        count;
};

static void zr_spans_emit(struct zr_span_list *list, uintptr_t start, uintptr_t end,
                          ze_memory_access_attribute_t access)
{
    if (start < end &&
        (list->count == 0 || list->spans[list->count - 1].access != access)) {
        list->spans[list->count++] = (struct zr_span){start, access};
    }
}

static uintptr_t zr_span_end(const struct zr_region *region, unsigned i)
{
    return (i + 1 < region->span_count) ? region->spans[i + 1].start
                                        : region->base + region->size;
}

/* Index of the span around @a at; the region has spans. */
static unsigned zr_span_find(const struct zr_region *region, uintptr_t at)
{
    unsigned low = 1, high = region->span_count;

    while (low < high) {
        unsigned middle = low + (high - low) / 2;

        if (region->spans[middle].start <= at) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    return low - 1;
}

ze_result_t zr_spans_set(struct zr_region *region, uintptr_t base, uintptr_t end,
                         ze_memory_access_attribute_t access)
{
    static const struct zr_span whole_none = {0, ZE_MEMORY_ACCESS_ATTRIBUTE_NONE};
    struct zr_span_list         list       = {NULL, 0};
    struct zr_span             *old;
    unsigned                    i;

    if (region->span_count > 0) {
        i = zr_span_find(region, base);
        if (region->spans[i].access == access && end <= zr_span_end(region, i)) {
            return ZE_RESULT_SUCCESS;
        }
    }
    list.spans = malloc((region->span_count + 3) * sizeof(*list.spans));
    if (list.spans == NULL) {
        return zr_fail(ZE_RESULT_ERROR_OUT_OF_HOST_MEMORY,
                       "access attribute of 0x%zx..0x%zx: no memory", (size_t)base, (size_t)end);
    }
    for (i = 0; i < ZR_MAX(region->span_count, 1u); ++i) {
        const struct zr_span *span  = (region->span_count > 0) ? &region->spans[i] : &whole_none;
        uintptr_t             start = ZR_MAX(span->start, region->base);
        uintptr_t             stop  = zr_span_end(region, i);

        zr_spans_emit(&list, start, ZR_MIN(stop, base), span->access);
        zr_spans_emit(&list, ZR_MAX(start, base), ZR_MIN(stop, end), access);
        zr_spans_emit(&list, ZR_MAX(start, end), stop, span->access);
    }
    pthread_rwlock_wrlock(&zr_va.lock);
    old                = region->spans;
    region->spans      = list.spans;
    region->span_count = list.count;
    pthread_rwlock_unlock(&zr_va.lock);
    free(old);
    return ZE_RESULT_SUCCESS;
}

static ze_result_t zr_access_check(uintptr_t base, size_t size)
{
    if (base % ZR_PAGE_SMALL != 0) {
        return zr_fail(ZE_RESULT_ERROR_UNSUPPORTED_ALIGNMENT,
                       "access attribute of 0x%zx: not a multiple of the page size 0x%zx",
                       (size_t)base, (size_t)ZR_PAGE_SMALL);
    }
    if (size == 0 || size % ZR_PAGE_SMALL != 0) {
        return zr_fail(ZE_RESULT_ERROR_UNSUPPORTED_SIZE,
                       "access attribute of 0x%zx: size 0x%zx is not a multiple of the page size "
                       "0x%zx", (size_t)base, size, (size_t)ZR_PAGE_SMALL);
    }
    return ZE_RESULT_SUCCESS;
}

/* A lock is held. */
static ze_result_t zr_access_region(uintptr_t base, size_t size, struct zr_region **region_p)
{
    struct zr_region *region = zr_region_at(base);

    if (region == NULL || region->kind != ZR_VA_NONE ||
        size > region->base + region->size - base) {
        return zr_fail(ZE_RESULT_ERROR_INVALID_ARGUMENT,
                       "access attribute of 0x%zx..0x%zx: not inside one reservation",
                       (size_t)base, (size_t)(base + size));
    }
    *region_p = region;
    return ZE_RESULT_SUCCESS;
}

/* What the CPU may do follows the attribute where the CPU may do anything. */
static ze_result_t zr_access_apply(const struct zr_region *region, uintptr_t base, uintptr_t end,
                                   ze_memory_access_attribute_t access)
{
    unsigned i;

    for (i = zr_extent_find(region, base); i < region->count && region->extents[i].base < end;
         ++i) {
        uintptr_t start = ZR_MAX(region->extents[i].base, base);
        uintptr_t stop  = ZR_MIN(region->extents[i].base + region->extents[i].size, end);

        if (zr_phys_cpu_visible(region->extents[i].phys) &&
            mprotect((void *)start, stop - start, zr_access_prot(access)) != 0) {
            return zr_fail(zr_result_from_errno(-errno), "access attribute of 0x%zx..0x%zx: %s",
                           (size_t)start, (size_t)stop, strerror(errno));
        }
    }
    return ZE_RESULT_SUCCESS;
}

ze_result_t zr_va_set_access(const void *ptr, size_t size, ze_memory_access_attribute_t access)
{
    uintptr_t         base = (uintptr_t)ptr;
    struct zr_region *region;
    ze_result_t       result = zr_access_check(base, size);

    if (result != ZE_RESULT_SUCCESS) {
        return result;
    }
    if ((unsigned)access > ZE_MEMORY_ACCESS_ATTRIBUTE_READONLY) {
        return zr_fail(ZE_RESULT_ERROR_INVALID_ENUMERATION, "access attribute %d", access);
    }
    pthread_mutex_lock(&zr_va.change);
    result = zr_access_region(base, size, &region);
    if (result == ZE_RESULT_SUCCESS) {
        result = zr_access_apply(region, base, base + size, access);
    }
    if (result == ZE_RESULT_SUCCESS) {
        result = zr_spans_set(region, base, base + size, access);
    }
    pthread_mutex_unlock(&zr_va.change);
    return result;
}

ze_result_t zr_va_get_access(const void *ptr, size_t size, ze_memory_access_attribute_t *access_p,
                             size_t *size_p)
{
    uintptr_t         base = (uintptr_t)ptr;
    struct zr_region *region;
    unsigned          i;
    ze_result_t       result = zr_access_check(base, size);

    if (result != ZE_RESULT_SUCCESS) {
        return result;
    }
    pthread_rwlock_rdlock(&zr_va.lock);
    result = zr_access_region(base, size, &region);
    if (result == ZE_RESULT_SUCCESS) {
        if (region->span_count == 0) {
            *access_p = ZE_MEMORY_ACCESS_ATTRIBUTE_NONE;
            *size_p   = size;
        } else {
            i         = zr_span_find(region, base);
            *access_p = region->spans[i].access;
            *size_p   = ZR_MIN(zr_span_end(region, i) - base, size);
        }
    }
    pthread_rwlock_unlock(&zr_va.lock);
    return result;
}
