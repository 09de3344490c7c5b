/* CPU access through the kernel: PREAD, PWRITE, domains, caching and the mmap ioctl. Discrete parts
 * and those after Tiger Lake have little of it. */
/* SPDX-License-Identifier: BSD-3-Clause */
#include "soft.h"

#include <errno.h>
#include <string.h>
#include <sys/mman.h>

#define ZR_SOFT_USER_END (UINT64_C(1) << 47)

static bool zr_soft_is_tgl(const struct zr_soft_file *file)
{
    return file->dev->profile.gen == ZR_SOFT_GEN12;
}

static bool zr_soft_user_range(uint64_t address, uint64_t size)
{
    return size <= ZR_SOFT_USER_END && address <= ZR_SOFT_USER_END - size;
}

/* The object of a PREAD or PWRITE with all checks done, waited for; *cpu_p is its first byte.
 * @return 0 with *bo_p NULL: nothing to do */
static int zr_soft_access(struct zr_soft_file *file, const struct drm_i915_gem_pread *args,
                          bool write, struct zr_soft_bo **bo_p, uint8_t **cpu_p)
{
    struct zr_soft_bo *bo;
    int                ret;

    *bo_p = NULL;
    if (!zr_soft_is_tgl(file)) {
        return -EOPNOTSUPP;
    }
    if (args->size == 0) {
        return 0;
    }
    if (!zr_soft_user_range(args->data_ptr, args->size)) {
        return -EFAULT;
    }
    bo = zr_soft_bo_find(file, args->handle);
    if (bo == NULL) {
        return -ENOENT;
    }
    if (args->offset > bo->size || args->size > bo->size - args->offset) {
        return -EINVAL;
    }
    if (bo->user != NULL) {
        return -EINVAL; /* userptr: its owner has the pages */
    }
    zr_soft_bo_get(bo);
    ret    = zr_soft_bo_wait(bo, write, INT64_MAX);
    *cpu_p = ret == 0 ? zr_soft_bo_cpu(bo) : NULL;
    if (*cpu_p == NULL) {
        zr_soft_bo_put(bo);
        return ret != 0 ? ret : -ENOMEM;
    }
    *bo_p = bo;
    return 0;
}

int zr_soft_pread(struct zr_soft_file *file, void *data)
{
    const struct drm_i915_gem_pread *args = data;
    struct zr_soft_bo               *bo;
    uint8_t                         *cpu;
    int                              ret = zr_soft_access(file, args, false, &bo, &cpu);

    if (ret == 0 && bo != NULL) {
        ret = zr_soft_copy_out(args->data_ptr, cpu + args->offset, args->size);
        zr_soft_bo_put(bo);
    }
    return ret;
}

int zr_soft_pwrite(struct zr_soft_file *file, void *data)
{
    const struct drm_i915_gem_pread *args = data; /* pwrite's fields are the same */
    struct zr_soft_bo               *bo;
    uint8_t                         *cpu;
    int                              ret = zr_soft_access(file, args, true, &bo, &cpu);

    if (ret == 0 && bo != NULL) {
        ret = zr_soft_copy_in(cpu + args->offset, args->data_ptr, args->size);
        zr_soft_bo_put(bo);
    }
    return ret;
}

/* ---- domains ---- */

int zr_soft_set_domain(struct zr_soft_file *file, void *data)
{
    const struct drm_i915_gem_set_domain *args  = data;
    uint32_t                              read  = args->read_domains;
    uint32_t                              write = args->write_domain;
    struct zr_soft_bo                    *bo;
    int                                   ret;

    if (file->dev->profile.lmem != 0) {
        return -ENODEV;
    }
    if ((read | write) & ~(I915_GEM_DOMAIN_CPU | I915_GEM_DOMAIN_GTT | I915_GEM_DOMAIN_WC)) {
        return -EINVAL;
    }
    if (write != 0 && read != write) {
        return -EINVAL;
    }
    if (read == 0) {
        return 0;
    }
    bo = zr_soft_bo_find(file, args->handle);
    if (bo == NULL) {
        return -ENOENT;
    }
    zr_soft_bo_get(bo);
    ret = zr_soft_bo_wait(bo, write != 0, INT64_MAX);
    if (ret == 0 && bo->user != NULL) {
        ret = zr_soft_bo_check_user(bo);
    } else if (ret == 0) {
        zr_soft_shadow_domain(bo, read, write);
    }
    zr_soft_bo_put(bo);
    return ret;
}

/* ---- caching ---- */

int zr_soft_set_caching(struct zr_soft_file *file, void *data)
{
    const struct drm_i915_gem_caching *args    = data;
    const struct zr_soft_profile      *profile = &file->dev->profile;
    struct zr_soft_bo                 *bo;
    int                                ret;

    if (profile->lmem != 0) {
        return -ENODEV;
    }
    if (!zr_soft_is_tgl(file)) {
        return -EOPNOTSUPP;
    }
    if (args->caching > I915_CACHING_DISPLAY) {
        return -EINVAL;
    }
    bo = zr_soft_bo_find(file, args->handle);
    if (bo == NULL) {
        return -ENOENT;
    }
    if (bo->pat_set) {
        return -EOPNOTSUPP;
    }
    if (bo->user != NULL) {
        return args->caching == I915_CACHING_CACHED ? 0 : -ENXIO;
    }
    zr_soft_bo_get(bo);
    ret = zr_soft_bo_wait(bo, true, INT64_MAX);
    if (ret == 0) {
        /* No write-through cache for scan-out here. */
        bo->uncached = args->caching != I915_CACHING_CACHED;
    }
    zr_soft_bo_put(bo);
    return ret;
}

int zr_soft_get_caching(struct zr_soft_file *file, void *data)
{
    struct drm_i915_gem_caching *args = data;
    const struct zr_soft_bo     *bo;

    if (file->dev->profile.lmem != 0) {
        return -ENODEV;
    }
    bo = zr_soft_bo_find(file, args->handle);
    if (bo == NULL) {
        return -ENOENT;
    }
    if (bo->pat_set) {
        return -EOPNOTSUPP;
    }
    args->caching = bo->uncached || !file->dev->profile.llc ? I915_CACHING_NONE
                                                            : I915_CACHING_CACHED;
    return 0;
}

/* ---- the mmap ioctl ---- */

int zr_soft_gem_mmap(struct zr_soft_file *file, void *data)
{
    struct drm_i915_gem_mmap       *args   = data;
    struct drm_i915_gem_mmap_offset offset = {.handle = args->handle};
    struct zr_soft_bo              *bo;
    void                           *cpu;
    int                             ret;

    if (!zr_soft_is_tgl(file)) {
        return -EOPNOTSUPP;
    }
    if (args->flags & ~(uint64_t)I915_MMAP_WC) {
        return -EINVAL;
    }
    bo = zr_soft_bo_find(file, args->handle);
    if (bo == NULL) {
        return -ENOENT;
    }
    if (bo->user != NULL || bo->foreign) {
        return -ENXIO;
    }
    if (args->offset > bo->size || args->size > bo->size - args->offset || args->size == 0 ||
        args->offset % ZR_SOFT_PAGE != 0) {
        return -EINVAL;
    }
    if (zr_soft_task_current() != NULL) {
        /* The host maps this in its client, and puts the address in its place. */
        offset.flags = args->flags & I915_MMAP_WC ? I915_MMAP_OFFSET_WC : I915_MMAP_OFFSET_WB;
        ret          = zr_soft_gem_mmap_offset(file, &offset);
        args->addr_ptr = offset.offset + args->offset;
        return ret;
    }
    zr_soft_bo_get(bo);
    ret = zr_soft_bo_own(bo);
    if (ret == 0) {
        cpu = mmap(NULL, args->size, PROT_READ | PROT_WRITE, MAP_SHARED, bo->fd,
                   (off_t)args->offset);
        ret = cpu == MAP_FAILED ? -errno : 0;
        if (ret == 0) {
            args->addr_ptr = (uintptr_t)cpu;
        }
    }
    zr_soft_bo_put(bo);
    return ret;
}
