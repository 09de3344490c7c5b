/* EXECBUFFER2: the kernel's checks in the kernel's order (i915_gem_execbuffer.c), then bind and
 * submit. */
/* SPDX-License-Identifier: BSD-3-Clause */
#include "soft.h"

#include <errno.h>
#include <stdlib.h>

struct zr_soft_exec_fence {
    struct zr_soft_syncobj *syncobj;
    struct zr_soft_fence   *wait;
    bool                    signal;
};

struct zr_soft_exec {
    struct zr_soft_file              *file;
    struct drm_i915_gem_execbuffer2  *args;
    struct zr_soft_ctx               *ctx;
    struct zr_soft_slot              *slot;
    unsigned                          width, count;
    struct drm_i915_gem_exec_object2 *object;
    struct zr_soft_bo               **bo; /* borrowed from the handles: the lock is held */
    struct zr_soft_exec_fence        *fence;
    unsigned                          num_fences;
    struct zr_soft_fence             *in_fence;
};

static bool zr_soft_exec_is_batch(const struct zr_soft_exec *x, unsigned index)
{
    return x->args->flags & I915_EXEC_BATCH_FIRST ? index < x->width
                                                  : index >= x->count - x->width;
}

static uint64_t zr_soft_canonical(const struct zr_soft_dev *dev, uint64_t address)
{
    unsigned shift = 64 - dev->profile.gtt_bits;

    return (uint64_t)((int64_t)(address << shift) >> shift);
}

static uint64_t zr_soft_plain(const struct zr_soft_dev *dev, uint64_t address)
{
    return address & ((UINT64_C(1) << dev->profile.gtt_bits) - 1);
}

static int zr_soft_exec_check_args(const struct drm_i915_gem_execbuffer2 *args)
{
    const uint64_t extended = I915_EXEC_FENCE_ARRAY | I915_EXEC_USE_EXTENSIONS;

    if (args->buffer_count < 1 || args->buffer_count > INT32_MAX) {
        return -EINVAL;
    }
    if (args->flags & (__I915_EXEC_UNKNOWN_FLAGS | I915_EXEC_CONSTANTS_MASK |
                       I915_EXEC_RESOURCE_STREAMER)) {
        return -EINVAL;
    }
    if (!(args->flags & extended) && (args->num_cliprects != 0 || args->cliprects_ptr != 0)) {
        return -EINVAL;
    }
    if (args->DR4 != 0 && args->DR4 != 0xffffffff) {
        return -EINVAL; /* the latter is tolerated for an old client's sake */
    }
    if (args->DR1 != 0 || ((args->batch_start_offset | args->batch_len) & 7)) {
        return -EINVAL;
    }
    return 0;
}

static int zr_soft_exec_read_fences(struct zr_soft_exec *x)
{
    struct drm_i915_gem_exec_fence user;
    struct zr_soft_exec_fence     *fence;
    uint32_t                       i, count = x->args->num_cliprects;
    int                            ret;

    if (x->args->flags & I915_EXEC_USE_EXTENSIONS) {
        if ((x->args->flags & I915_EXEC_FENCE_ARRAY) || count != 0) {
            return -EINVAL;
        }
        /* The one extension, timeline fences, is not offered (HAS_EXEC_TIMELINE_FENCES is 0). */
        return zr_soft_extensions(x->args->cliprects_ptr, NULL, 0, NULL);
    }
    if (!(x->args->flags & I915_EXEC_FENCE_ARRAY) || count == 0) {
        return 0;
    }
    x->fence = calloc(count, sizeof(*x->fence));
    if (x->fence == NULL) {
        return -ENOMEM;
    }
    for (i = 0; i < count; i++) {
        ret = zr_soft_copy_in(&user, x->args->cliprects_ptr + i * sizeof(user), sizeof(user));
        if (ret != 0) {
            return ret;
        }
        if (user.flags & __I915_EXEC_FENCE_UNKNOWN_FLAGS) {
            return -EINVAL;
        }
        fence          = &x->fence[x->num_fences++];
        fence->syncobj = zr_soft_ids_get(&x->file->syncobjs, user.handle);
        if (fence->syncobj == NULL) {
            return -ENOENT;
        }
        if (user.flags & I915_EXEC_FENCE_WAIT) {
            if (fence->syncobj->fence == NULL) {
                return -EINVAL;
            }
            fence->wait = zr_soft_fence_get(fence->syncobj->fence);
        }
        fence->signal = user.flags & I915_EXEC_FENCE_SIGNAL;
    }
    return 0;
}

static int zr_soft_exec_read_in_fence(struct zr_soft_exec *x)
{
    if (x->args->flags & I915_EXEC_FENCE_SUBMIT) {
        return -EINVAL; /* HAS_EXEC_SUBMIT_FENCE is 0 */
    }
    if (!(x->args->flags & I915_EXEC_FENCE_IN)) {
        return 0;
    }
    return zr_soft_fence_import(x->file->dev, (int)(uint32_t)x->args->rsvd2, &x->in_fence);
}

static int zr_soft_exec_select(struct zr_soft_exec *x)
{
    unsigned index = x->args->flags & I915_EXEC_RING_MASK;

    x->ctx = zr_soft_ctx_find(x->file, (uint32_t)x->args->rsvd1);
    if (x->ctx == NULL) {
        return -ENOENT;
    }
    if (!x->ctx->user_engines && index != I915_EXEC_BSD &&
        (x->args->flags & I915_EXEC_BSD_MASK)) {
        return -EINVAL;
    }
    if (index >= x->ctx->num_slots || !x->ctx->slot[index].valid) {
        return -EINVAL;
    }
    x->slot  = &x->ctx->slot[index];
    x->width = x->slot->width;
    if (x->width > 1 && (x->count < x->width || x->args->batch_start_offset != 0 ||
                         x->args->batch_len != 0)) {
        return -EINVAL;
    }
    return 0;
}

static int zr_soft_exec_check_object(const struct zr_soft_exec *x, unsigned i)
{
    struct zr_soft_dev               *dev    = x->file->dev;
    struct drm_i915_gem_exec_object2 *object = &x->object[i];
    const struct zr_soft_bo          *bo     = x->bo[i];
    uint64_t start = x->args->batch_start_offset, length = x->args->batch_len;

    if (object->relocation_count != 0) {
        return -EINVAL; /* none after Tiger Lake */
    }
    if (object->flags & (__EXEC_OBJECT_UNKNOWN_FLAGS | EXEC_OBJECT_NEEDS_GTT)) {
        return -EINVAL;
    }
    if (object->alignment & (object->alignment - 1)) {
        return -EINVAL;
    }
    if ((object->flags & EXEC_OBJECT_PINNED) &&
        object->offset != zr_soft_canonical(dev, object->offset & ~(uint64_t)(ZR_SOFT_PAGE - 1))) {
        return -EINVAL;
    }
    if ((object->flags & EXEC_OBJECT_PAD_TO_SIZE) && object->pad_to_size % ZR_SOFT_PAGE != 0) {
        return -EINVAL;
    }
    if (zr_soft_exec_is_batch(x, i)) {
        if (object->flags & EXEC_OBJECT_WRITE) {
            return -EINVAL;
        }
        if (start > bo->size || length > bo->size - start || (length == 0 && start == bo->size)) {
            return -EINVAL;
        }
    }
    return 0;
}

static int zr_soft_exec_lookup(struct zr_soft_exec *x)
{
    unsigned i;
    int      ret;

    for (i = 0; i < x->count; i++) {
        x->bo[i] = zr_soft_bo_find(x->file, x->object[i].handle);
        if (x->bo[i] == NULL) {
            return -ENOENT;
        }
        ret = zr_soft_exec_check_object(x, i);
        if (ret == 0 && x->bo[i]->user != NULL) {
            ret = zr_soft_bo_check_user(x->bo[i]);
        }
        if (ret != 0) {
            return ret;
        }
    }
    return 0;
}

/* The limits of one object's address: its region's alignment and its zone. */
static void zr_soft_exec_limits(const struct zr_soft_exec *x, unsigned i, uint64_t *alignment_p,
                                uint64_t *limit_p)
{
    *alignment_p = ZR_MAX(zr_soft_bo_alignment(x->bo[i]), x->object[i].alignment);
    *limit_p     = UINT64_C(1) << x->file->dev->profile.gtt_bits;
    if (!(x->object[i].flags & EXEC_OBJECT_SUPPORTS_48B_ADDRESS)) {
        *limit_p = ZR_MIN(*limit_p, (UINT64_C(1) << 32) - ZR_SOFT_PAGE);
    }
}

/* Pinned objects first, so that the others go where there is room. Two passes over them: what
 * leaves its place must be gone before another takes it. */
static int zr_soft_exec_bind_pinned(struct zr_soft_exec *x)
{
    struct zr_soft_vm         *vm = x->ctx->vm;
    const struct zr_soft_bind *bind;
    uint64_t                   start, alignment, limit;
    unsigned                   i, pass;
    int                        ret;

    for (pass = 0; pass < 2; pass++) {
        for (i = 0; i < x->count; i++) {
            if (!(x->object[i].flags & EXEC_OBJECT_PINNED)) {
                continue;
            }
            start = zr_soft_plain(vm->dev, x->object[i].offset);
            bind  = zr_soft_vm_find(vm, x->bo[i]);
            if (pass == 0) {
                zr_soft_exec_limits(x, i, &alignment, &limit);
                if (start % alignment != 0 || start > limit || x->bo[i]->size > limit - start) {
                    return -EINVAL;
                }
                if (bind != NULL && bind->start != start) {
                    zr_soft_vm_unbind(vm, x->bo[i]);
                }
            } else if (bind == NULL) {
                ret = zr_soft_vm_bind(vm, x->bo[i], start);
                if (ret != 0) {
                    return ret;
                }
            } else if (bind->start != start) {
                return -ENOSPC; /* listed twice, at two places */
            }
        }
    }
    return 0;
}

static int zr_soft_exec_bind_others(struct zr_soft_exec *x)
{
    struct zr_soft_vm         *vm = x->ctx->vm;
    const struct zr_soft_bind *bind;
    uint64_t                   start, alignment, limit;
    unsigned                   i;
    int                        ret;

    for (i = 0; i < x->count; i++) {
        if (x->object[i].flags & EXEC_OBJECT_PINNED) {
            continue;
        }
        zr_soft_exec_limits(x, i, &alignment, &limit);
        bind = zr_soft_vm_find(vm, x->bo[i]);
        if (bind != NULL && bind->start % alignment == 0 &&
            bind->start + x->bo[i]->size <= limit) {
            continue;
        }
        zr_soft_vm_unbind(vm, x->bo[i]);
        ret = zr_soft_vm_hole(vm, x->bo[i]->size, alignment, limit, &start);
        if (ret == 0) {
            ret = zr_soft_vm_bind(vm, x->bo[i], start);
        }
        if (ret != 0) {
            return ret;
        }
    }
    return 0;
}

static int zr_soft_exec_bind(struct zr_soft_exec *x)
{
    const struct zr_soft_bind *bind;
    unsigned                   i;
    int                        ret;

    x->file->dev->exec_count++;
    for (i = 0; i < x->count; i++) {
        if (x->object[i].flags & EXEC_OBJECT_PINNED) {
            x->bo[i]->exec = x->file->dev->exec_count;
        }
    }
    ret = zr_soft_exec_bind_pinned(x);
    if (ret == 0) {
        ret = zr_soft_exec_bind_others(x);
    }
    for (i = 0; ret == 0 && i < x->count; i++) {
        bind = zr_soft_vm_find(x->ctx->vm, x->bo[i]);
        if (bind == NULL) {
            return -ENOMEM;
        }
        x->object[i].offset = zr_soft_canonical(x->file->dev, bind->start);
    }
    return ret;
}

/* What must be over before: fences given, and (unless ASYNC) who writes or reads each object. */
static int zr_soft_exec_await(const struct zr_soft_exec *x, struct zr_soft_req *req)
{
    const struct zr_soft_bo *bo;
    unsigned                 i, j;
    int                      ret = 0;

    if (x->in_fence != NULL) {
        ret = zr_soft_req_await(req, x->in_fence);
    }
    for (i = 0; ret == 0 && i < x->num_fences; i++) {
        if (x->fence[i].wait != NULL) {
            ret = zr_soft_req_await(req, x->fence[i].wait);
        }
    }
    for (i = 0; ret == 0 && i < x->count; i++) {
        bo = x->bo[i];
        if (x->object[i].flags & EXEC_OBJECT_ASYNC) {
            continue;
        }
        if (bo->write != NULL) {
            ret = zr_soft_req_await(req, bo->write);
        }
        if (!(x->object[i].flags & EXEC_OBJECT_WRITE)) {
            continue;
        }
        for (j = 0; ret == 0 && j < bo->num_reads; j++) {
            ret = zr_soft_req_await(req, bo->reads[j]);
        }
    }
    return ret;
}

static int zr_soft_exec_submit(struct zr_soft_exec *x)
{
    struct zr_soft_req *req = zr_soft_req_new(x->ctx, x->slot);
    unsigned            i, row = 0;
    int                 ret, fd;

    if (req == NULL) {
        return -ENOMEM;
    }
    ret = zr_soft_exec_await(x, req);
    if (ret == 0 && (x->args->flags & I915_EXEC_FENCE_OUT)) {
        ret = zr_soft_fence_export(x->file->dev, req->fence, &fd);
        if (ret == 0) {
            x->args->rsvd2 = (uint32_t)x->args->rsvd2 | (uint64_t)fd << 32;
        }
    }
    if (ret != 0) {
        zr_soft_req_free(req);
        return ret;
    }
    for (i = 0; i < x->count; i++) {
        if (zr_soft_exec_is_batch(x, i)) {
            req->batch[row++].start = zr_soft_plain(x->file->dev, x->object[i].offset) +
                                      x->args->batch_start_offset;
        }
        zr_soft_bo_add_fence(x->bo[i], req->fence, x->object[i].flags & EXEC_OBJECT_WRITE);
    }
    for (i = 0; i < x->num_fences; i++) {
        if (x->fence[i].signal) {
            zr_soft_syncobj_set(x->file->dev, x->fence[i].syncobj, req->fence);
        }
    }
    zr_soft_req_submit(req);
    return 0;
}

static int zr_soft_exec_run(struct zr_soft_exec *x)
{
    size_t size = x->count * sizeof(*x->object);
    int    ret;

    ret = zr_soft_copy_in(x->object, x->args->buffers_ptr, size);
    if (ret != 0) {
        return ret;
    }
    if (x->args->flags & I915_EXEC_SECURE) {
        return -ENODEV; /* gen11 and later */
    }
    ret = zr_soft_exec_read_fences(x);
    if (ret == 0) {
        ret = zr_soft_exec_read_in_fence(x);
    }
    if (ret == 0) {
        ret = zr_soft_exec_select(x);
    }
    if (ret == 0 && x->file->dev->wedged) {
        ret = -EIO;
    }
    if (ret == 0) {
        ret = zr_soft_exec_lookup(x);
    }
    if (ret == 0) {
        ret = zr_soft_exec_bind(x);
    }
    if (ret == 0 && x->ctx->banned) {
        ret = -EIO;
    }
    if (ret == 0) {
        ret = zr_soft_exec_submit(x);
    }
    if (ret == 0) {
        zr_soft_copy_out(x->args->buffers_ptr, x->object, size);
    }
    return ret;
}

int zr_soft_execbuffer2(struct zr_soft_file *file, void *data)
{
    struct drm_i915_gem_execbuffer2 *args = data;
    struct zr_soft_exec              x    = {.file = file, .args = args};
    unsigned                         i;
    int                              ret;

    ret = zr_soft_exec_check_args(args);
    if (ret != 0) {
        return ret;
    }
    x.count  = args->buffer_count;
    x.object = malloc(x.count * sizeof(*x.object));
    x.bo     = malloc(x.count * sizeof(*x.bo));
    ret      = x.object == NULL || x.bo == NULL ? -ENOMEM : zr_soft_exec_run(&x);
    for (i = 0; i < x.num_fences; i++) {
        zr_soft_fence_put(x.fence[i].wait);
    }
    zr_soft_fence_put(x.in_fence);
    free(x.fence);
    free(x.bo);
    free(x.object);
    return ret;
}
