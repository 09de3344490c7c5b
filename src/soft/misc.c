/* i915's smaller requests on objects, and the device as a whole: idle, reset, wedged. */
/* SPDX-License-Identifier: BSD-3-Clause */
#include "soft.h"

#include <errno.h>

#define ZR_SOFT_RESET_WAIT_NS INT64_C(200000000) /* of DROP_RESET_ACTIVE */

int zr_soft_throttle(struct zr_soft_file *file, void *data)
{
    return file->dev->wedged ? -EIO : 0;
}

int zr_soft_sw_finish(struct zr_soft_file *file, void *data)
{
    const struct drm_i915_gem_sw_finish *args = data;

    return zr_soft_bo_find(file, args->handle) != NULL ? 0 : -ENOENT;
}

int zr_soft_get_aperture(struct zr_soft_file *file, void *data)
{
    struct drm_i915_gem_get_aperture *args = data;

    args->aper_size           = UINT64_C(1) << 32; /* the global table's */
    args->aper_available_size = args->aper_size - 4 * ZR_MIB;
    return 0;
}

int zr_soft_madvise(struct zr_soft_file *file, void *data)
{
    struct drm_i915_gem_madvise *args = data;

    if (args->madv != I915_MADV_WILLNEED && args->madv != I915_MADV_DONTNEED) {
        return -EINVAL;
    }
    if (zr_soft_bo_find(file, args->handle) == NULL) {
        return -ENOENT;
    }
    args->retained = 1; /* nothing is ever purged here */
    return 0;
}

/* Objects are fenced only where there is an aperture. */
int zr_soft_set_tiling(struct zr_soft_file *file, void *data)
{
    struct drm_i915_gem_set_tiling *args = data;

    if (file->dev->profile.lmem != 0) {
        return -EOPNOTSUPP;
    }
    if (zr_soft_bo_find(file, args->handle) == NULL) {
        return -ENOENT;
    }
    if (args->tiling_mode > I915_TILING_LAST) {
        return -EINVAL;
    }
    args->tiling_mode  = I915_TILING_NONE;
    args->swizzle_mode = I915_BIT_6_SWIZZLE_NONE;
    args->stride       = 0;
    return 0;
}

int zr_soft_get_tiling(struct zr_soft_file *file, void *data)
{
    struct drm_i915_gem_get_tiling *args = data;

    if (file->dev->profile.lmem != 0) {
        return -EOPNOTSUPP;
    }
    if (zr_soft_bo_find(file, args->handle) == NULL) {
        return -ENOENT;
    }
    args->tiling_mode       = I915_TILING_NONE;
    args->swizzle_mode      = I915_BIT_6_SWIZZLE_NONE;
    args->phys_swizzle_mode = I915_BIT_6_SWIZZLE_NONE;
    return 0;
}

/* The one register that clients may read, in its two forms. */
int zr_soft_reg_read(struct zr_soft_file *file, void *data)
{
    struct drm_i915_reg_read *args = data;

    if ((args->offset & ~(uint64_t)I915_REG_READ_8B_WA) != 0x2358) {
        return -EINVAL;
    }
    args->val = zr_soft_timestamp(file->dev);
    return 0;
}

/* ---- the device ---- */

static bool zr_soft_dev_busy(const struct zr_soft_dev *dev)
{
    unsigned i;

    for (i = 0; i < dev->profile.num_engines; i++) {
        if (dev->engine[i].running != NULL) {
            return true;
        }
    }
    return !TAILQ_EMPTY(&dev->pending);
}

static int zr_soft_dev_wait_idle(struct zr_soft_dev *dev, int64_t deadline)
{
    int ret = 0;

    while (ret == 0 && zr_soft_dev_busy(dev)) {
        ret = zr_soft_wait_signal(dev, deadline);
    }
    return ret;
}

int zr_soft_dev_drop_caches(struct zr_soft_dev *dev, uint64_t what)
{
    int ret = 0;

    pthread_mutex_lock(&dev->lock);
    if ((what & ZR_SOFT_DROP_RESET_ACTIVE) &&
        zr_soft_dev_wait_idle(dev, (int64_t)zr_time_ns() + ZR_SOFT_RESET_WAIT_NS) == -ETIME) {
        zr_soft_dev_cancel(dev);
    }
    if (what & ZR_SOFT_DROP_RESET_ACTIVE) {
        dev->wedged = false;
    }
    if (what & (ZR_SOFT_DROP_IDLE | ZR_SOFT_DROP_ACTIVE)) {
        ret = zr_soft_dev_wait_idle(dev, INT64_MAX);
    }
    pthread_mutex_unlock(&dev->lock);
    return ret;
}

void zr_soft_dev_unwedge(struct zr_soft_dev *dev)
{
    pthread_mutex_lock(&dev->lock);
    dev->wedged = false;
    dev->resets++;
    zr_soft_dev_reset_active(dev);
    pthread_mutex_unlock(&dev->lock);
}
