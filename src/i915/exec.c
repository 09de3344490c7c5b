/* One execbuf2: soft-pinned objects, one batch per engine of the slot, a syncobj for the order. */
/* SPDX-License-Identifier: BSD-3-Clause */
#include "ctx.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

static int zr_ctx_reserve_list(struct zr_ctx *ctx, unsigned count)
{
    struct drm_i915_gem_exec_object2 *list;
    unsigned                          size = ZR_MAX(ctx->list_size, 64u);

    if (count <= ctx->list_size) {
        return 0;
    }
    while (size < count) {
        size *= 2;
    }
    list = realloc(ctx->list, size * sizeof(*list));
    if (list == NULL) {
        return -ENOMEM;
    }
    ctx->list      = list;
    ctx->list_size = size;
    return 0;
}

/* ASYNC: order comes from the syncobj and from the caller, as Level Zero has it; implicit fences
 * would make each copy that touches an object wait for all others. WRITE all the same: it is what
 * other users of a shared buffer and eviction wait for. */
static void zr_exec_fill(struct drm_i915_gem_exec_object2 *entry, const struct zr_bo *bo,
                         bool write)
{
    memset(entry, 0, sizeof(*entry));
    entry->handle = bo->handle;
    entry->offset = bo->gpu_va;
    entry->flags  = EXEC_OBJECT_PINNED | EXEC_OBJECT_SUPPORTS_48B_ADDRESS | EXEC_OBJECT_ASYNC |
                   (write ? EXEC_OBJECT_WRITE : 0);
}

static ze_result_t zr_exec_failed(struct zr_ctx *ctx, bool wide, unsigned count, int ret)
{
    return zr_fail(zr_result_from_errno(ret), "%s: submission of %u objects to %u engine%s: %s%s",
                   ctx->dev->info.node.path, count, wide ? ctx->width : 1,
                   wide && ctx->width > 1 ? "s" : "", strerror(-ret),
                   ret == -EIO ? " (context banned or GPU wedged)" : "");
}

ze_result_t zr_ctx_exec(struct zr_ctx *ctx, bool wide, struct zr_bo *const *batches,
                        const struct zr_exec_object *objects, unsigned count, bool wait_prev)
{
    unsigned                       num_batches = wide ? ctx->width : 1;
    struct drm_i915_gem_exec_fence fence       = {.handle = ctx->syncobj,
                                                  .flags  = I915_EXEC_FENCE_SIGNAL};
    struct drm_i915_gem_execbuffer2 arg = {
        .buffer_count  = count + num_batches,
        .num_cliprects = 1,
        .cliprects_ptr = (uintptr_t)&fence,
        .flags         = I915_EXEC_NO_RELOC | I915_EXEC_FENCE_ARRAY,
    };
    unsigned i;
    int      ret;

    if (zr_ctx_reserve_list(ctx, count + num_batches) != 0) {
        return zr_fail(ZE_RESULT_ERROR_OUT_OF_HOST_MEMORY, "submission of %u objects: out of"
                                                           " memory", count);
    }
    for (i = 0; i < count; i++) {
        zr_exec_fill(&ctx->list[i], objects[i].bo, objects[i].write);
    }
    for (i = 0; i < num_batches; i++) {
        zr_exec_fill(&ctx->list[count + i], batches[i], false);
    }
    if (wait_prev && atomic_load_explicit(&ctx->submitted, memory_order_relaxed)) {
        fence.flags |= I915_EXEC_FENCE_WAIT;
    }
    arg.buffers_ptr = (uintptr_t)ctx->list;
    /* Index into the context's engine map. */
    arg.flags |= wide || ctx->width == 1 ? 0 : 1;
    i915_execbuffer2_set_context_id(arg, atomic_load_explicit(&ctx->id, memory_order_relaxed));
    ret = zr_i915_ioctl(ctx->dev, DRM_IOCTL_I915_GEM_EXECBUFFER2, &arg);
    if (ret == -EAGAIN) {
        return ZE_RESULT_NOT_READY;
    }
    if (ret != 0) {
        return zr_exec_failed(ctx, wide, count, ret);
    }
    atomic_store_explicit(&ctx->submitted, true, memory_order_release);
    return ZE_RESULT_SUCCESS;
}
