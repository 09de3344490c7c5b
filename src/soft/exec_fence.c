/* What an execbuf waits for and signals: fence arrays, timeline fences, the fence of rsvd2. */
/* SPDX-License-Identifier: BSD-3-Clause */
#include "exec.h"
#include "uapi_prelim.h"

#include <errno.h>
#include <stdlib.h>

/* One entry of either list: what to wait for, in *fence_p (NULL: nothing). */
static int zr_soft_exec_fence_wait(const struct zr_soft_syncobj *syncobj, uint32_t flags,
                                   uint64_t point, bool timeline,
                                   struct zr_soft_fence **fence_p)
{
    struct zr_soft_fence *fence = syncobj->fence;
    int                   ret   = 0;

    *fence_p = NULL;
    if (!timeline) {
        if (flags & I915_EXEC_FENCE_WAIT) {
            *fence_p = fence;
            return fence != NULL ? 0 : -EINVAL;
        }
        return 0;
    }
    if (fence == NULL && flags != 0 && !(flags & I915_EXEC_FENCE_SIGNAL)) {
        return -EINVAL;
    }
    if (fence != NULL) {
        ret = zr_soft_fence_find_point(&fence, point);
    }
    if (ret != 0 && !(flags & I915_EXEC_FENCE_SIGNAL)) {
        return ret;
    }
    if (point != 0 && (flags & I915_EXEC_FENCE_SIGNAL) && (flags & I915_EXEC_FENCE_WAIT)) {
        return -EINVAL;
    }
    *fence_p = ret == 0 && (flags & I915_EXEC_FENCE_WAIT) ? fence : NULL;
    return 0;
}

static int zr_soft_exec_add_fence(struct zr_soft_exec *x, const struct drm_i915_gem_exec_fence *user,
                                  uint64_t point, bool timeline)
{
    struct zr_soft_exec_fence *fence = &x->fence[x->num_fences];
    struct zr_soft_fence      *wait;
    int                        ret;

    if (user->flags & __I915_EXEC_FENCE_UNKNOWN_FLAGS) {
        return -EINVAL;
    }
    fence->syncobj = zr_soft_ids_get(&x->file->syncobjs, user->handle);
    if (fence->syncobj == NULL) {
        return -ENOENT;
    }
    ret = zr_soft_exec_fence_wait(fence->syncobj, user->flags, point, timeline, &wait);
    if (ret != 0) {
        return ret;
    }
    fence->wait   = zr_soft_fence_get(wait);
    fence->signal = user->flags & I915_EXEC_FENCE_SIGNAL;
    fence->point  = point;
    fence->syncobj->refs++;
    x->num_fences++;
    return 0;
}

/* @param values: of a timeline, 0: none */
static int zr_soft_exec_add_fences(struct zr_soft_exec *x, uint64_t fences, uint64_t values,
                                   uint64_t count, bool timeline)
{
    struct drm_i915_gem_exec_fence user;
    struct zr_soft_exec_fence     *grown;
    uint64_t                       i, point = 0;
    int                            ret = 0;

    if (count > SIZE_MAX / sizeof(*grown) - x->num_fences || count > INT32_MAX) {
        return -EINVAL;
    }
    grown = realloc(x->fence, (x->num_fences + count) * sizeof(*grown));
    if (grown == NULL) {
        return -ENOMEM;
    }
    x->fence = grown;
    for (i = 0; ret == 0 && i < count; i++) {
        ret = zr_soft_copy_in(&user, fences + i * sizeof(user), sizeof(user));
        if (ret == 0 && timeline) {
            if (user.flags & __I915_EXEC_FENCE_UNKNOWN_FLAGS) {
                return -EINVAL;
            }
            ret = zr_soft_copy_in(&point, values + i * sizeof(point), sizeof(point));
        }
        if (ret == 0) {
            ret = zr_soft_exec_add_fence(x, &user, point, timeline);
        }
    }
    return ret;
}

static int zr_soft_ext_timeline(void *arg, uint64_t ext)
{
    struct drm_i915_gem_execbuffer_ext_timeline_fences list;
    int ret = zr_soft_copy_in(&list, ext, sizeof(list));

    if (ret != 0 || list.fence_count == 0) {
        return ret;
    }
    return zr_soft_exec_add_fences(arg, list.handles_ptr, list.values_ptr, list.fence_count, true);
}

/* Backports rules: a value for memory when the batch is over. */
static int zr_soft_ext_user_fence(void *arg, uint64_t ext)
{
    struct zr_soft_exec        *x = arg;
    struct zr_prelim_exec_fence fence;
    int                         ret = zr_soft_copy_in(&fence, ext, sizeof(fence));

    if (ret == 0 && fence.address % sizeof(fence.value) != 0) {
        ret = -EINVAL;
    }
    if (ret == 0) {
        x->tells      = true;
        x->tell_at    = fence.address;
        x->tell_value = fence.value;
    }
    return ret;
}

int zr_soft_exec_read_fences(struct zr_soft_exec *x)
{
    static const zr_soft_ext_fn fns[] = {
        [DRM_I915_GEM_EXECBUFFER_EXT_TIMELINE_FENCES] = zr_soft_ext_timeline,
        [ZR_PRELIM_EXEC_USER_FENCE]                   = zr_soft_ext_user_fence,
    };
    const struct drm_i915_gem_execbuffer2 *args = x->args;

    if (args->flags & I915_EXEC_USE_EXTENSIONS) {
        if ((args->flags & I915_EXEC_FENCE_ARRAY) || args->num_cliprects != 0) {
            return -EINVAL;
        }
        return x->file->dev->profile.backports
                   ? zr_soft_prelim_extensions(args->cliprects_ptr, fns, ZR_ARRAY_SIZE(fns), x)
                   : zr_soft_extensions(args->cliprects_ptr, fns, 1, x);
    }
    if (!(args->flags & I915_EXEC_FENCE_ARRAY) || args->num_cliprects == 0) {
        return 0;
    }
    return zr_soft_exec_add_fences(x, args->cliprects_ptr, 0, args->num_cliprects, false);
}

int zr_soft_exec_read_in_fence(struct zr_soft_exec *x)
{
    const uint64_t in = I915_EXEC_FENCE_IN | I915_EXEC_FENCE_SUBMIT;

    if (!(x->args->flags & in)) {
        return 0;
    }
    if ((x->args->flags & in) == in) {
        return -EINVAL;
    }
    return zr_soft_fence_import(x->file->dev, (int)(uint32_t)x->args->rsvd2, &x->in_fence);
}

int zr_soft_exec_await_fences(const struct zr_soft_exec *x, struct zr_soft_req *req)
{
    unsigned i;
    int      ret = 0;

    if (x->in_fence != NULL) {
        if (x->args->flags & I915_EXEC_FENCE_SUBMIT) {
            zr_soft_req_await_start(req, x->in_fence);
        } else {
            ret = zr_soft_req_await(req, x->in_fence);
        }
    }
    for (i = 0; ret == 0 && i < x->num_fences; i++) {
        if (x->fence[i].wait != NULL) {
            ret = zr_soft_req_await(req, x->fence[i].wait);
        }
    }
    return ret;
}

int zr_soft_exec_signal_fences(const struct zr_soft_exec *x, struct zr_soft_fence *fence)
{
    unsigned i;
    int      ret = 0;

    for (i = 0; ret == 0 && i < x->num_fences; i++) {
        if (!x->fence[i].signal) {
            continue;
        }
        if (x->fence[i].point != 0) {
            ret = zr_soft_syncobj_add_point(x->file->dev, x->fence[i].syncobj, fence,
                                            x->fence[i].point);
        } else {
            zr_soft_syncobj_set(x->file->dev, x->fence[i].syncobj, fence);
        }
    }
    return ret;
}

void zr_soft_exec_drop_fences(struct zr_soft_exec *x)
{
    unsigned i;

    for (i = 0; i < x->num_fences; i++) {
        zr_soft_fence_put(x->fence[i].wait);
        zr_soft_syncobj_put(x->fence[i].syncobj);
    }
    zr_soft_fence_put(x->in_fence);
    free(x->fence);
}
