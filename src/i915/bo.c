/* Buffer objects: create, wrap the caller's pages, share as dma-buf, map for the CPU. */
/* SPDX-License-Identifier: BSD-3-Clause */
#include "device.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

struct zr_i915_bo {
    struct zr_bo   base;
    struct zr_vma *zone;
    uint64_t       va_start, va_size; /* as given by the zone, not canonical */
};

static void zr_bo_close_handle(struct zr_i915 *dev, uint32_t handle)
{
    struct drm_gem_close arg = {.handle = handle};

    (void)zr_i915_ioctl(dev, DRM_IOCTL_GEM_CLOSE, &arg);
}

/* Called with the device's lock held. */
static int zr_bo_table_reserve(struct zr_i915 *dev, uint32_t handle)
{
    struct zr_bo **table;
    unsigned       size = ZR_MAX(dev->table_size, 256u);

    if (handle < dev->table_size) {
        return 0;
    }
    while (size <= handle) {
        size *= 2;
    }
    table = realloc(dev->table, size * sizeof(*table));
    if (table == NULL) {
        return -ENOMEM;
    }
    memset(table + dev->table_size, 0, (size - dev->table_size) * sizeof(*table));
    dev->table      = table;
    dev->table_size = size;
    return 0;
}

/* Give a handle an address and a place in the table; called with the device's lock held. On
 * failure the handle stays the caller's. */
static ze_result_t zr_bo_adopt(struct zr_i915 *dev, const struct zr_bo *model,
                               struct zr_bo **bo_p)
{
    bool               large = model->placement != ZR_PLACE_SYSTEM && zr_i915_is_discrete(dev);
    uint64_t           page  = large ? 2 * ZR_MIB : 64 * ZR_KIB;
    struct zr_i915_bo *bo    = calloc(1, sizeof(*bo));
    int                ret;

    if (bo == NULL || zr_bo_table_reserve(dev, model->handle) != 0) {
        free(bo);
        return zr_fail(ZE_RESULT_ERROR_OUT_OF_HOST_MEMORY, "object of %llu bytes: out of memory",
                       (unsigned long long)model->size);
    }
    bo->base    = *model;
    bo->zone    = large ? &dev->vma_device : &dev->vma_system;
    bo->va_size = ZR_ALIGN_UP(model->size, page);
    ret         = zr_vma_alloc(bo->zone, bo->va_size, page, &bo->va_start);
    if (ret != 0) {
        free(bo);
        return zr_fail(ret == -ENOMEM ? ZE_RESULT_ERROR_OUT_OF_HOST_MEMORY :
                                        ZE_RESULT_ERROR_OUT_OF_DEVICE_MEMORY,
                       "object of %llu bytes: no GPU address space left (%u objects)",
                       (unsigned long long)model->size,
                       dev->vma_device.live + dev->vma_system.live);
    }
    bo->base.dev    = dev;
    bo->base.gpu_va = zr_vma_canonical(bo->va_start);
    atomic_init(&bo->base.refs, 1);
    dev->table[model->handle] = &bo->base;
    *bo_p                     = &bo->base;
    return ZE_RESULT_SUCCESS;
}

/* Adopt a handle that is new to this file; closes it on failure. */
static ze_result_t zr_bo_adopt_new(struct zr_i915 *dev, const struct zr_bo *model,
                                   struct zr_bo **bo_p)
{
    ze_result_t result;

    pthread_mutex_lock(&dev->lock);
    result = zr_bo_adopt(dev, model, bo_p);
    pthread_mutex_unlock(&dev->lock);
    if (result != ZE_RESULT_SUCCESS) {
        zr_bo_close_handle(dev, model->handle);
    }
    return result;
}

static const char *zr_cache_name(enum zr_cache cache)
{
    static const char *const names[] = {"cached", "write-combined", "uncached"};

    return names[cache];
}

/* Discrete parts have one mapping per placement: write-back where an object lives only in system
 * memory, write-combined else. */
static ze_result_t zr_bo_check_cache(struct zr_i915 *dev, enum zr_placement placement,
                                     enum zr_cache *cache)
{
    enum zr_cache only = placement == ZR_PLACE_SYSTEM ? ZR_CACHE_CACHED :
                                                        ZR_CACHE_WRITE_COMBINED;

    if (zr_i915_is_discrete(dev)) {
        if (*cache == only) {
            return ZE_RESULT_SUCCESS;
        }
        return zr_fail(ZE_RESULT_ERROR_UNSUPPORTED_FEATURE,
                       "%s: %s memory of a discrete device is %s for the CPU, it cannot be %s",
                       dev->info.node.path,
                       placement == ZR_PLACE_SYSTEM ? "system" : "device-local",
                       zr_cache_name(only), zr_cache_name(*cache));
    }
    if (*cache == ZR_CACHE_CACHED && !dev->info.has_llc) {
        /* Without a shared last-level cache a write-back mapping does not see the engine's
         * writes. */
        zr_log_once(ZR_LOG_INFO, "%s shares no cache with the CPU: its memory is mapped"
                                 " write-combined", dev->info.node.path);
        *cache = ZR_CACHE_WRITE_COMBINED;
    }
    return ZE_RESULT_SUCCESS;
}

static ze_result_t zr_bo_create_failed(struct zr_i915 *dev, uint64_t size,
                                       enum zr_placement placement, int ret)
{
    ze_result_t result = zr_result_from_errno(ret);

    if (ret == -ENXIO) {
        result = ZE_RESULT_ERROR_OUT_OF_DEVICE_MEMORY;
    } else if (ret == -ENOMEM && placement == ZR_PLACE_SYSTEM) {
        result = ZE_RESULT_ERROR_OUT_OF_HOST_MEMORY;
    }
    return zr_fail(result, "%s: creating an object of %llu bytes in %s memory: %s",
                   dev->info.node.path, (unsigned long long)size,
                   placement == ZR_PLACE_SYSTEM ? "system" : "device", strerror(-ret));
}

ze_result_t zr_bo_create(struct zr_i915 *dev, uint64_t size, enum zr_placement placement,
                         enum zr_cache cache, struct zr_bo **bo_p)
{
    struct drm_i915_gem_memory_class_instance     regions[2];
    struct drm_i915_gem_create_ext_memory_regions ext = {
        .base.name = I915_GEM_CREATE_EXT_MEMORY_REGIONS,
        .regions   = (uintptr_t)regions,
    };
    struct drm_i915_gem_create_ext arg   = {.size = size, .extensions = (uintptr_t)&ext};
    struct zr_bo                   model = {.placement = placement};
    ze_result_t                    result;
    int                            ret;

    if (size == 0) {
        return zr_fail(ZE_RESULT_ERROR_UNSUPPORTED_SIZE, "an object of 0 bytes is not possible");
    }
    result = zr_bo_check_cache(dev, placement, &cache);
    if (result != ZE_RESULT_SUCCESS) {
        return result;
    }
    if (placement != ZR_PLACE_SYSTEM && zr_i915_is_discrete(dev)) {
        regions[ext.num_regions++] =
            (struct drm_i915_gem_memory_class_instance){I915_MEMORY_CLASS_DEVICE, 0};
    }
    if (placement != ZR_PLACE_DEVICE || !zr_i915_is_discrete(dev)) {
        regions[ext.num_regions++] =
            (struct drm_i915_gem_memory_class_instance){I915_MEMORY_CLASS_SYSTEM, 0};
    }
    if (ext.num_regions == 2 && dev->small_bar) {
        arg.flags = I915_GEM_CREATE_EXT_FLAG_NEEDS_CPU_ACCESS;
    }
    ret = zr_i915_ioctl(dev, DRM_IOCTL_I915_GEM_CREATE_EXT, &arg);
    if (ret != 0) {
        return zr_bo_create_failed(dev, size, placement, ret);
    }
    model.handle = arg.handle;
    model.size   = arg.size;
    model.cache  = cache;
    return zr_bo_adopt_new(dev, &model, bo_p);
}

ze_result_t zr_bo_create_userptr(struct zr_i915 *dev, void *ptr, size_t size, struct zr_bo **bo_p)
{
    struct drm_i915_gem_userptr arg = {
        .user_ptr  = (uintptr_t)ptr,
        .user_size = size,
        .flags     = dev->userptr_probe ? I915_USERPTR_PROBE : 0,
    };
    struct zr_bo model = {
        .size      = size,
        .placement = ZR_PLACE_SYSTEM,
        .cache     = ZR_CACHE_CACHED,
        .userptr   = true,
    };
    int ret;

    ret = zr_i915_ioctl(dev, DRM_IOCTL_I915_GEM_USERPTR, &arg);
    if (ret != 0) {
        return zr_fail(zr_result_from_errno(ret), "%s: pages at %p, %zu bytes: %s",
                       dev->info.node.path, ptr, size, strerror(-ret));
    }
    model.handle = arg.handle;
    return zr_bo_adopt_new(dev, &model, bo_p);
}

ze_result_t zr_bo_import(struct zr_i915 *dev, int fd, struct zr_bo **bo_p)
{
    struct drm_prime_handle arg   = {.fd = fd};
    struct zr_bo            model = {0};
    ze_result_t             result;
    struct zr_bo           *known;
    off_t                   size;
    int                     ret;

    size = lseek(fd, 0, SEEK_END);
    if (size <= 0) {
        return zr_fail(ZE_RESULT_ERROR_INVALID_ARGUMENT, "fd %d is not a buffer: %s", fd,
                       size < 0 ? strerror(errno) : "it has no size");
    }
    /* One lock around the import and around the last unref: the kernel gives the handle of a
     * buffer that this file has, and that handle must not be closed in between. */
    pthread_mutex_lock(&dev->lock);
    ret = zr_i915_ioctl(dev, DRM_IOCTL_PRIME_FD_TO_HANDLE, &arg);
    if (ret != 0) {
        pthread_mutex_unlock(&dev->lock);
        return zr_fail(zr_result_from_errno(ret), "%s: importing fd %d of %lld bytes: %s%s",
                       dev->info.node.path, fd, (long long)size, strerror(-ret),
                       ret == -EOPNOTSUPP ? ": it may live in memory of another device only" : "");
    }
    known = arg.handle < dev->table_size ? dev->table[arg.handle] : NULL;
    if (known != NULL) {
        *bo_p  = zr_bo_ref(known);
        result = ZE_RESULT_SUCCESS;
    } else {
        model.handle    = arg.handle;
        model.size      = (uint64_t)size;
        model.placement = zr_i915_is_discrete(dev) ? ZR_PLACE_EITHER : ZR_PLACE_SYSTEM;
        model.cache     = zr_i915_is_discrete(dev) || !dev->info.has_llc ?
                              ZR_CACHE_WRITE_COMBINED :
                              ZR_CACHE_CACHED;
        model.shared    = true;
        result          = zr_bo_adopt(dev, &model, bo_p);
        if (result != ZE_RESULT_SUCCESS) {
            zr_bo_close_handle(dev, arg.handle);
        }
    }
    pthread_mutex_unlock(&dev->lock);
    return result;
}

ze_result_t zr_bo_export(struct zr_bo *bo, int *fd_p)
{
    struct drm_prime_handle arg = {.handle = bo->handle, .flags = DRM_CLOEXEC | DRM_RDWR};
    int                     ret = zr_i915_ioctl(bo->dev, DRM_IOCTL_PRIME_HANDLE_TO_FD, &arg);

    if (ret != 0) {
        return zr_fail(zr_result_from_errno(ret), "%s: exporting object %u of %llu bytes: %s",
                       bo->dev->info.node.path, bo->handle, (unsigned long long)bo->size,
                       strerror(-ret));
    }
    atomic_store(&bo->shared, true);
    *fd_p = arg.fd;
    return ZE_RESULT_SUCCESS;
}

static uint64_t zr_bo_mmap_mode(const struct zr_bo *bo)
{
    switch (bo->cache) {
    case ZR_CACHE_WRITE_COMBINED:
        return I915_MMAP_OFFSET_WC;
    case ZR_CACHE_UNCACHED:
        return I915_MMAP_OFFSET_UC;
    default:
        return I915_MMAP_OFFSET_WB;
    }
}

/* Upstream has one mode for discrete parts; Intel's out-of-tree driver does not know it and takes
 * those of integrated parts. */
static int zr_bo_mmap_cookie(struct zr_bo *bo, uint64_t *cookie_p)
{
    struct drm_i915_gem_mmap_offset arg = {.handle = bo->handle, .flags = I915_MMAP_OFFSET_FIXED};
    int                             ret = -EINVAL;

    if (zr_i915_is_discrete(bo->dev)) {
        ret = zr_i915_ioctl(bo->dev, DRM_IOCTL_I915_GEM_MMAP_OFFSET, &arg);
    }
    if (ret == -EINVAL) {
        arg.flags = zr_bo_mmap_mode(bo);
        ret       = zr_i915_ioctl(bo->dev, DRM_IOCTL_I915_GEM_MMAP_OFFSET, &arg);
    }
    *cookie_p = arg.offset;
    return ret;
}

/* Before Linux 6.12 a mapping must begin at the object's first byte: cut the part out of a longer
 * one. Integrated parts would then show the wrong pages (their fault handler of those kernels does
 * not look at the offset), so it is for discrete ones. */
static void *zr_bo_mmap_cut(struct zr_i915 *dev, void *fixed, size_t length, int prot,
                            uint64_t cookie, uint64_t offset)
{
    char *base = dev->kif->mmap(dev->file, NULL, offset + length, prot, MAP_SHARED, cookie);
    void *part = base + offset;
    int   error;

    if (base == MAP_FAILED) {
        return MAP_FAILED;
    }
    if (fixed != NULL) {
        part = mremap(part, length, length, MREMAP_MAYMOVE | MREMAP_FIXED, fixed);
    }
    error = errno;
    dev->kif->munmap(dev->file, base, part == MAP_FAILED ? offset + length : offset);
    errno = error;
    return part;
}

ze_result_t zr_bo_map(struct zr_bo *bo, void *fixed, uint64_t offset, size_t length, int prot,
                      void **addr_p)
{
    struct zr_i915 *dev = bo->dev;
    uint64_t        cookie;
    void           *addr;
    int             ret;

    if (offset > bo->size || length > bo->size - offset) {
        return zr_fail(ZE_RESULT_ERROR_INVALID_ARGUMENT,
                       "object %u of %llu bytes: mapping of %zu bytes at %llu is outside",
                       bo->handle, (unsigned long long)bo->size, length,
                       (unsigned long long)offset);
    }
    ret = zr_bo_mmap_cookie(bo, &cookie);
    if (ret != 0) {
        return zr_fail(zr_result_from_errno(ret), "%s: object %u cannot be mapped: %s",
                       dev->info.node.path, bo->handle, strerror(-ret));
    }
    addr = dev->kif->mmap(dev->file, fixed, length, prot,
                          MAP_SHARED | (fixed != NULL ? MAP_FIXED : 0), cookie + offset);
    if (addr == MAP_FAILED && errno == EINVAL && offset != 0 && offset % 4096 == 0 &&
        zr_i915_is_discrete(dev)) {
        addr = zr_bo_mmap_cut(dev, fixed, length, prot, cookie, offset);
    }
    if (addr == MAP_FAILED) {
        return zr_fail(errno == ENOMEM ? ZE_RESULT_ERROR_OUT_OF_HOST_MEMORY :
                                         zr_result_from_errno(-errno),
                       "%s: mapping %zu bytes at %llu of object %u: %s", dev->info.node.path,
                       length, (unsigned long long)offset, bo->handle, strerror(errno));
    }
    *addr_p = addr;
    return ZE_RESULT_SUCCESS;
}

void zr_bo_unmap(struct zr_bo *bo, void *addr, size_t length)
{
    (void)bo->dev->kif->munmap(bo->dev->file, addr, length);
}

void zr_bo_unref(struct zr_bo *bo)
{
    struct zr_i915    *dev  = bo->dev;
    struct zr_i915_bo *mine = ZR_CONTAINER_OF(bo, struct zr_i915_bo, base);
    unsigned           refs = atomic_load_explicit(&bo->refs, memory_order_relaxed);

    while (refs > 1) {
        if (atomic_compare_exchange_weak_explicit(&bo->refs, &refs, refs - 1,
                                                  memory_order_release, memory_order_relaxed)) {
            return;
        }
    }
    /* The step from 1 to 0 only under the lock: an import may find the object until then. */
    pthread_mutex_lock(&dev->lock);
    if (atomic_fetch_sub_explicit(&bo->refs, 1, memory_order_acq_rel) > 1) {
        pthread_mutex_unlock(&dev->lock);
        return;
    }
    dev->table[bo->handle] = NULL;
    zr_bo_close_handle(dev, bo->handle);
    zr_vma_free(mine->zone, mine->va_start, mine->va_size);
    pthread_mutex_unlock(&dev->lock);
    free(mine);
}
