/* Objects in the caller's address space. */
/* SPDX-License-Identifier: BSD-3-Clause */
#include "soft.h"
#include "uapi.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#define ZR_SOFT_COOKIE_SHIFT 44 /* an mmap offset is cookie id and offset in the object */

int zr_soft_gem_mmap_offset(struct zr_soft_file *file, void *data)
{
    const struct zr_soft_profile    *profile = &file->dev->profile;
    struct drm_i915_gem_mmap_offset *args    = data;
    struct zr_soft_bo               *bo;
    uint32_t                        *cookie;
    int                              ret;

    ret = zr_soft_extensions(args->extensions, NULL, 0, NULL);
    if (ret != 0) {
        return ret;
    }
    switch (args->flags) {
    case I915_MMAP_OFFSET_GTT:
        if (profile->gen != ZR_SOFT_GEN12) {
            return -ENODEV; /* no aperture */
        }
        break;
    case I915_MMAP_OFFSET_WC:
    case I915_MMAP_OFFSET_WB:
    case I915_MMAP_OFFSET_UC:
        break;
    case I915_MMAP_OFFSET_FIXED:
        if (profile->backports) {
            return -EINVAL; /* it has no TTM: the client chooses, as on integrated parts */
        }
        break;
    default:
        return -EINVAL;
    }
    bo = zr_soft_bo_find(file, args->handle);
    if (bo == NULL) {
        return -ENOENT;
    }
    if (bo->user != NULL || (!profile->backports &&
                       (profile->lmem != 0) != (args->flags == I915_MMAP_OFFSET_FIXED))) {
        return -ENODEV;
    }
    cookie = args->flags == I915_MMAP_OFFSET_WB ? &bo->cookie_cached : &bo->cookie;
    if (*cookie == 0) {
        ret = zr_soft_ids_add(&file->dev->cookies, 1, bo, cookie);
        if (ret != 0) {
            return ret;
        }
    }
    args->offset = (uint64_t)*cookie << ZR_SOFT_COOKIE_SHIFT;
    return 0;
}

/* What a mapping of @a bo shows; the fd stays whose it is. Beyond a small BAR there is nothing:
 * memory without a page raises SIGBUS. */
static int zr_soft_mmap_memory(struct zr_soft_bo *bo, uint64_t offset)
{
    struct zr_soft_dev *dev = bo->dev;
    int                 ret;

    if (bo->invisible) {
        if (dev->hole == 0) {
            dev->hole = memfd_create("i915-hole", MFD_CLOEXEC) + 1;
        }
        return dev->hole > 0 ? dev->hole - 1 : -ENOMEM;
    }
    ret = zr_soft_bo_own(bo);
    if (ret != 0) {
        return ret;
    }
    return offset >> ZR_SOFT_COOKIE_SHIFT == bo->cookie_cached ? zr_soft_shadow_fd(bo) : bo->fd;
}

/* The object behind an offset. 0 or -errno */
static int zr_soft_mmap_find(const struct zr_soft_file *file, uint64_t length, int flags,
                             uint64_t offset, struct zr_soft_bo **bo_p, uint64_t *inside_p)
{
    uint64_t               inside = offset & ((UINT64_C(1) << ZR_SOFT_COOKIE_SHIFT) - 1);
    struct zr_soft_bo     *bo;
    struct zr_soft_handle *handle;
    int                    ret = zr_soft_fault_call(file->dev, ZR_SOFT_SUBJECT_MMAP);

    if (ret != 0) {
        return ret;
    }
    bo = zr_soft_ids_get(&file->dev->cookies, offset >> ZR_SOFT_COOKIE_SHIFT);
    if (bo == NULL || inside > bo->size || length > bo->size - inside || !(flags & MAP_SHARED)) {
        return -EINVAL;
    }
    for (handle = bo->handles; handle != NULL && handle->file != file; handle = handle->next) {
    }
    if (handle == NULL) {
        return -EACCES;
    }
    *bo_p     = bo;
    *inside_p = inside;
    return 0;
}

void *zr_soft_file_mmap(struct zr_soft_file *file, void *addr, size_t length, int prot, int flags,
                        uint64_t offset)
{
    struct zr_soft_dev *dev = file->dev;
    struct zr_soft_bo  *bo;
    uint64_t            inside;
    void               *result = MAP_FAILED;
    int                 ret;

    pthread_mutex_lock(&dev->lock);
    ret = zr_soft_mmap_find(file, length, flags, offset, &bo, &inside);
    if (ret == 0) {
        zr_soft_bo_get(bo);
        ret = zr_soft_mmap_memory(bo, offset);
        if (ret >= 0) {
            result = mmap(addr, length, prot, flags, ret, (off_t)inside);
        }
        zr_soft_bo_put(bo);
    }
    if (ret < 0) {
        errno = -ret;
    }
    pthread_mutex_unlock(&dev->lock);
    return result;
}

int zr_soft_file_mmap_fd(struct zr_soft_file *file, uint64_t length, int flags, uint64_t offset,
                         int *fd_p, uint64_t *inside_p)
{
    struct zr_soft_bo *bo;
    int                ret;

    pthread_mutex_lock(&file->dev->lock);
    ret = zr_soft_mmap_find(file, length, flags, offset, &bo, inside_p);
    if (ret == 0) {
        zr_soft_bo_get(bo);
        ret = zr_soft_mmap_memory(bo, offset);
        if (ret >= 0) {
            *fd_p = fcntl(ret, F_DUPFD_CLOEXEC, 0);
            ret   = *fd_p < 0 ? -errno : 0;
        }
        zr_soft_bo_put(bo);
    }
    pthread_mutex_unlock(&file->dev->lock);
    return ret;
}
