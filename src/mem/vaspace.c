/* The process's VA space: the sorted array of regions, finding, inserting and taking them out. */
/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE 1
#endif
#include "vaspace.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

/* Writers go first: a stream of look-ups must not hold up an unmap for ever. */
struct zr_va_space zr_va = {
    .change = PTHREAD_MUTEX_INITIALIZER,
    .lock   = PTHREAD_RWLOCK_WRITER_NONRECURSIVE_INITIALIZER_NP,
};

static atomic_uint_fast64_t zr_va_next_stamp = 1;

uint64_t zr_va_stamp(void)
{
    return atomic_fetch_add_explicit(&zr_va_next_stamp, 1, memory_order_relaxed);
}

size_t zr_va_page_size(size_t size)
{
    return (size >= ZR_PAGE_LARGE) ? ZR_PAGE_LARGE : ZR_PAGE_SMALL;
}

ze_memory_type_t zr_phys_type(const struct zr_phys *phys)
{
    return phys->device_local ? ZE_MEMORY_TYPE_DEVICE : ZE_MEMORY_TYPE_HOST;
}

int zr_access_prot(ze_memory_access_attribute_t access)
{
    switch (access) {
    case ZE_MEMORY_ACCESS_ATTRIBUTE_READWRITE:
        return PROT_READ | PROT_WRITE;
    case ZE_MEMORY_ACCESS_ATTRIBUTE_READONLY:
        return PROT_READ;
    default:
        return PROT_NONE;
    }
}

void *zr_vm_reserve(const void *hint, size_t size, size_t alignment)
{
    const int flags = MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE;
    uintptr_t base, aligned;
    void     *ptr;

    if (hint != NULL && (uintptr_t)hint % ZR_PAGE_SMALL == 0) {
        ptr = mmap((void *)hint, size, PROT_NONE, flags | MAP_FIXED_NOREPLACE, -1, 0);
        if (ptr == hint) {
            return ptr;
        }
        if (ptr != MAP_FAILED) {
            munmap(ptr, size); /* a kernel that knows no MAP_FIXED_NOREPLACE */
        }
    }
    if (size > SIZE_MAX - alignment) {
        return NULL;
    }
    ptr = mmap(NULL, size + alignment, PROT_NONE, flags, -1, 0);
    if (ptr == MAP_FAILED) {
        return NULL;
    }
    base    = (uintptr_t)ptr;
    aligned = ZR_ALIGN_UP(base, alignment);
    if (aligned > base) {
        munmap(ptr, aligned - base);
    }
    munmap((void *)(aligned + size), base + alignment - aligned);
    return (void *)aligned;
}

/* ---- finding; a lock is held ---- */

int zr_slot_find(uintptr_t at)
{
    int low = 0, high = (int)zr_va.count;

    while (low < high) {
        int middle = low + (high - low) / 2;

        if (zr_va.slots[middle].base <= at) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    return low - 1;
}

struct zr_region *zr_region_at(uintptr_t at)
{
    int i = zr_slot_find(at);

    return (i >= 0 && at < zr_va.slots[i].end) ? zr_va.slots[i].region : NULL;
}

unsigned zr_extent_find(const struct zr_region *region, uintptr_t at)
{
    unsigned low = 0, high = region->count;

    while (low < high) {
        unsigned middle = low + (high - low) / 2;

        if (region->extents[middle].base + region->extents[middle].size <= at) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    return low;
}

/* ---- a region's life ---- */

struct zr_region *zr_region_new(enum zr_va_kind kind, void *vm_base, size_t vm_size,
                                unsigned extents)
{
    struct zr_region *region = calloc(1, sizeof(*region));

    if (region == NULL) {
        return NULL;
    }
    if (extents > 0) {
        region->extents = malloc(extents * sizeof(*region->extents));
        if (region->extents == NULL) {
            free(region);
            return NULL;
        }
    }
    region->capacity   = extents;
    region->kind       = kind;
    region->base       = (uintptr_t)vm_base;
    region->size       = vm_size;
    region->vm_base    = (uintptr_t)vm_base;
    region->vm_size    = vm_size;
    region->id         = zr_va_stamp();
    region->generation = region->id;
    return region;
}

void zr_region_free(struct zr_region *region)
{
    unsigned i;

    munmap((void *)region->vm_base, region->vm_size);
    for (i = 0; i < region->count; ++i) {
        zr_phys_unref(region->extents[i].phys);
    }
    free(region->extents);
    free(region->spans);
    free(region);
}

ze_result_t zr_region_make_room(struct zr_region *region, unsigned count)
{
    unsigned          capacity = ZR_MAX(region->capacity * 2, 8u);
    struct zr_extent *extents, *old;

    if (region->count + count <= region->capacity) {
        return ZE_RESULT_SUCCESS;
    }
    capacity = ZR_MAX(capacity, region->count + count);
    extents  = malloc(capacity * sizeof(*extents));
    if (extents == NULL) {
        return zr_fail(ZE_RESULT_ERROR_OUT_OF_HOST_MEMORY, "reservation 0x%zx: no memory for "
                       "%u mappings", (size_t)region->base, capacity);
    }
    if (region->count > 0) {
        memcpy(extents, region->extents, region->count * sizeof(*extents));
    }
    pthread_rwlock_wrlock(&zr_va.lock);
    old              = region->extents;
    region->extents  = extents;
    region->capacity = capacity;
    pthread_rwlock_unlock(&zr_va.lock);
    free(old);
    return ZE_RESULT_SUCCESS;
}

ze_result_t zr_region_insert(struct zr_region *region)
{
    struct zr_slot *slots;
    unsigned        i, capacity;

    pthread_mutex_lock(&zr_va.change);
    pthread_rwlock_wrlock(&zr_va.lock);
    if (zr_va.count == zr_va.capacity) {
        capacity = ZR_MAX(zr_va.capacity * 2, 64u);
        slots    = realloc(zr_va.slots, capacity * sizeof(*slots));
        if (slots == NULL) {
            pthread_rwlock_unlock(&zr_va.lock);
            pthread_mutex_unlock(&zr_va.change);
            return zr_fail(ZE_RESULT_ERROR_OUT_OF_HOST_MEMORY, "no memory for %u regions",
                           capacity);
        }
        zr_va.slots    = slots;
        zr_va.capacity = capacity;
    }
    i = (unsigned)(zr_slot_find(region->base) + 1);
    memmove(&zr_va.slots[i + 1], &zr_va.slots[i], (zr_va.count - i) * sizeof(*zr_va.slots));
    zr_va.slots[i] = (struct zr_slot){region->base, region->base + region->size, region};
    zr_va.count++;
    pthread_rwlock_unlock(&zr_va.lock);
    pthread_mutex_unlock(&zr_va.change);
    return ZE_RESULT_SUCCESS;
}

static bool zr_region_is(const struct zr_region *region, uintptr_t base, size_t size,
                         enum zr_va_kind kind)
{
    return region != NULL && region->base == base && region->kind == kind &&
           (size == 0 || region->size == size);
}

/* One notice for USM and imports, one for each mapping of a reservation. */
static ze_result_t zr_region_notices(const struct zr_region *region, struct zr_notice **notices_p,
                                     unsigned *count_p)
{
    unsigned          i, count = (region->kind == ZR_VA_NONE) ? region->count : 1;
    struct zr_notice *notices;

    *notices_p = NULL;
    *count_p   = 0;
    if (count == 0 || !zr_subscribers_any()) {
        return ZE_RESULT_SUCCESS;
    }
    notices = malloc(count * sizeof(*notices));
    if (notices == NULL) {
        return zr_fail(ZE_RESULT_ERROR_OUT_OF_HOST_MEMORY, "no memory for %u notices", count);
    }
    if (region->kind != ZR_VA_NONE) {
        notices[0] = (struct zr_notice){region->base, region->size, region->type};
    } else {
        for (i = 0; i < count; ++i) {
            notices[i] = (struct zr_notice){region->extents[i].base, region->extents[i].size,
                                            zr_phys_type(region->extents[i].phys)};
        }
    }
    *notices_p = notices;
    *count_p   = count;
    return ZE_RESULT_SUCCESS;
}

ze_result_t zr_region_take(uintptr_t base, size_t size, enum zr_va_kind kind,
                           struct zr_region **region_p)
{
    struct zr_region *region;
    struct zr_notice *notices;
    unsigned          count, i;
    uint64_t          generation;
    ze_result_t       result;

    for (;;) {
        pthread_rwlock_rdlock(&zr_va.lock);
        region = zr_region_at(base);
        if (!zr_region_is(region, base, size, kind)) {
            pthread_rwlock_unlock(&zr_va.lock);
            return zr_fail(ZE_RESULT_ERROR_INVALID_ARGUMENT,
                           "0x%zx (size 0x%zx) is not what was allocated or reserved",
                           (size_t)base, size);
        }
        generation = region->generation;
        result     = zr_region_notices(region, &notices, &count);
        pthread_rwlock_unlock(&zr_va.lock);
        if (result != ZE_RESULT_SUCCESS) {
            return result;
        }
        zr_subscribers_call(0, notices, count);
        free(notices);

        /* Taken only as the subscribers were told; else they are told of the new state. */
        pthread_mutex_lock(&zr_va.change);
        region = zr_region_at(base);
        if (zr_region_is(region, base, size, kind) && region->generation == generation) {
            pthread_rwlock_wrlock(&zr_va.lock);
            i = (unsigned)zr_slot_find(base);
            zr_va.count--;
            memmove(&zr_va.slots[i], &zr_va.slots[i + 1],
                    (zr_va.count - i) * sizeof(*zr_va.slots));
            pthread_rwlock_unlock(&zr_va.lock);
            pthread_mutex_unlock(&zr_va.change);
            *region_p = region;
            return ZE_RESULT_SUCCESS;
        }
        pthread_mutex_unlock(&zr_va.change);
    }
}

/* ---- queries ---- */

bool zr_va_query(const void *ptr, struct zr_va_info *info)
{
    uintptr_t               at = (uintptr_t)ptr;
    const struct zr_region *region;
    const struct zr_extent *extent = NULL;
    unsigned                i;

    memset(info, 0, sizeof(*info));
    pthread_rwlock_rdlock(&zr_va.lock);
    region = zr_region_at(at);
    if (region == NULL) {
        pthread_rwlock_unlock(&zr_va.lock);
        return false;
    }
    info->kind        = region->kind;
    info->type        = region->type;
    info->base        = region->base;
    info->size        = region->size;
    info->region_base = region->base;
    info->region_size = region->size;
    info->id          = region->id;
    info->generation  = region->generation;
    info->page_size   = zr_va_page_size(region->size);
    info->dev         = region->dev;
    info->tag         = region->tag;
    if (region->kind == ZR_VA_NONE) {
        i = zr_extent_find(region, at);
        if (i < region->count && region->extents[i].base <= at) {
            extent     = &region->extents[i];
            info->kind = ZR_VA_MAPPING;
            info->type = zr_phys_type(extent->phys);
            info->base = extent->base;
            info->size = extent->size;
            info->dev  = extent->phys->bo->dev;
        }
    }
    pthread_rwlock_unlock(&zr_va.lock);
    return info->kind != ZR_VA_NONE;
}

/* Where something begins again after the hole at @a at, or @a end. The lock is held. */
static uintptr_t zr_hole_end(uintptr_t at, uintptr_t end)
{
    int      slot = zr_slot_find(at);
    unsigned i;

    for (slot = ZR_MAX(slot, 0); slot < (int)zr_va.count && zr_va.slots[slot].base < end; ++slot) {
        const struct zr_region *region = zr_va.slots[slot].region;

        i = zr_extent_find(region, at);
        if (i < region->count) {
            return ZR_MIN(region->extents[i].base, end);
        }
    }
    return end;
}

static ze_result_t zr_range_hole(uintptr_t base, uintptr_t end, uintptr_t at,
                                 const struct zr_range *range)
{
    uintptr_t hole_end = zr_hole_end(at, end);

    if (range->count == 0) {
        return zr_fail(ZE_RESULT_ERROR_ADDRESS_NOT_FOUND,
                       "range 0x%zx..0x%zx: 0x%zx..0x%zx is not mapped", (size_t)base, (size_t)end,
                       (size_t)at, (size_t)hole_end);
    }
    return zr_fail(ZE_RESULT_ERROR_ADDRESS_NOT_FOUND,
                   "range 0x%zx..0x%zx (%u objects): object %u ends at 0x%zx, 0x%zx..0x%zx is not "
                   "mapped", (size_t)base, (size_t)end, range->count, range->count - 1,
                   (size_t)at, (size_t)at, (size_t)hole_end);
}

/* Append what lies behind [*at_p, end) in one region and move *at_p behind it; stops at a hole. */
static ze_result_t zr_region_walk(const struct zr_region *region, uintptr_t *at_p, uintptr_t end,
                                  struct zr_range *range, uint64_t *gen)
{
    uintptr_t   at = *at_p;
    unsigned    i;
    ze_result_t result;

    for (i = zr_extent_find(region, at); i < region->count && at < end; ++i) {
        const struct zr_extent *extent = &region->extents[i];
        uint64_t                length;

        if (extent->base > at) {
            break;
        }
        length = ZR_MIN(extent->base + extent->size, end) - at;
        result = zr_range_append(range, extent->phys, extent->offset + (at - extent->base), length);
        if (result != ZE_RESULT_SUCCESS) {
            return result;
        }
        /* A window without holes changes only by a younger mapping in it. */
        *gen = ZR_MAX(*gen, extent->stamp);
        at += length;
    }
    *at_p = at;
    return ZE_RESULT_SUCCESS;
}

ze_result_t zr_range_walk(const void *ptr, size_t size, struct zr_range *range, unsigned *kinds_p,
                          uint64_t *gen_p)
{
    uintptr_t   base = (uintptr_t)ptr, at = base, end = base + size, before;
    uint64_t    gen    = 0;
    ze_result_t result = ZE_RESULT_SUCCESS;
    int         slot;

    *kinds_p = ZR_VA_NONE;
    zr_range_init(range);
    if (size == 0) {
        return zr_fail(ZE_RESULT_ERROR_INVALID_SIZE, "range at 0x%zx: size is 0", (size_t)base);
    }
    if (end < base) {
        return zr_fail(ZE_RESULT_ERROR_INVALID_ARGUMENT,
                       "range at 0x%zx: size 0x%zx goes beyond the address space", (size_t)base,
                       size);
    }
    pthread_rwlock_rdlock(&zr_va.lock);
    for (slot = zr_slot_find(at); at < end; ++slot) {
        const struct zr_region *region;

        if (slot < 0 || slot >= (int)zr_va.count || at < zr_va.slots[slot].base ||
            at >= zr_va.slots[slot].end) {
            result = zr_range_hole(base, end, at, range);
            break;
        }
        region = zr_va.slots[slot].region;
        before = at;
        result = zr_region_walk(region, &at, end, range, &gen);
        if (result != ZE_RESULT_SUCCESS) {
            break;
        }
        if (at > before) {
            *kinds_p |= (region->kind == ZR_VA_NONE) ? ZR_VA_MAPPING : region->kind;
        }
        if (at < end && at < zr_va.slots[slot].end) {
            result = zr_range_hole(base, end, at, range);
            break;
        }
    }
    pthread_rwlock_unlock(&zr_va.lock);
    if (result != ZE_RESULT_SUCCESS) {
        zr_range_clear(range);
        return result;
    }
    if (gen_p != NULL) {
        *gen_p = gen;
    }
    return ZE_RESULT_SUCCESS;
}

void zr_mem_counts(struct zr_mem_counts *counts)
{
    unsigned i;

    counts->objects  = zr_phys_count();
    counts->mappings = 0;
    counts->kept_bytes = zr_pool_bytes();
    pthread_rwlock_rdlock(&zr_va.lock);
    counts->regions = zr_va.count;
    for (i = 0; i < zr_va.count; ++i) {
        if (zr_va.slots[i].region->kind == ZR_VA_NONE) {
            counts->mappings += zr_va.slots[i].region->count;
        }
    }
    pthread_rwlock_unlock(&zr_va.lock);
}
