/* Kernel contexts: a parallel slot as wide as the kernel allows, and a slot of one engine. */
/* SPDX-License-Identifier: BSD-3-Clause */
#include "ctx.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

static void zr_ctx_destroy_id(struct zr_i915 *dev, uint32_t id)
{
    struct drm_i915_gem_context_destroy arg = {.ctx_id = id};

    (void)zr_i915_ioctl(dev, DRM_IOCTL_I915_GEM_CONTEXT_DESTROY, &arg);
}

/* Work of a process that is gone, or of a context that was lost, ends with it. Kernels without
 * preemption refuse this: there it ends when it ends. */
static void zr_ctx_set_nonpersistent(struct zr_i915 *dev, uint32_t id)
{
    struct drm_i915_gem_context_param param = {.ctx_id = id,
                                               .param  = I915_CONTEXT_PARAM_PERSISTENCE};
    int ret = zr_i915_ioctl(dev, DRM_IOCTL_I915_GEM_CONTEXT_SETPARAM, &param);

    if (ret != 0) {
        zr_debug("%s: context %u stays persistent: %s", dev->info.node.path, id, strerror(-ret));
    }
}

static struct i915_engine_class_instance zr_ctx_engine(const struct zr_i915 *dev, unsigned i)
{
    return (struct i915_engine_class_instance){I915_ENGINE_CLASS_COPY,
                                               dev->info.engine[i].instance};
}

/* @return 0 with *id_p, or the errno of the kernel that refuses this width. */
static int zr_ctx_create_id(struct zr_i915 *dev, unsigned first, unsigned width, uint32_t *id_p)
{
    I915_DEFINE_CONTEXT_ENGINES_PARALLEL_SUBMIT(parallel, ZR_MAX_ENGINES);
    I915_DEFINE_CONTEXT_PARAM_ENGINES(engines, 2);
    struct drm_i915_gem_context_create_ext_setparam recoverable = {
        .base.name   = I915_CONTEXT_CREATE_EXT_SETPARAM,
        /* A recoverable context goes on after a hang with the next batch: its sequence number
         * would then cover the copy that was lost. */
        .param.param = I915_CONTEXT_PARAM_RECOVERABLE,
        .param.value = 0,
    };
    struct drm_i915_gem_context_create_ext_setparam map = {
        .base.name           = I915_CONTEXT_CREATE_EXT_SETPARAM,
        .base.next_extension = (uintptr_t)&recoverable,
        .param.param         = I915_CONTEXT_PARAM_ENGINES,
        .param.value         = (uintptr_t)&engines,
    };
    struct drm_i915_gem_context_create_ext_setparam vm = {
        .base.name           = I915_CONTEXT_CREATE_EXT_SETPARAM,
        .base.next_extension = (uintptr_t)&map,
        .param.param         = I915_CONTEXT_PARAM_VM,
        .param.value         = dev->vm_id,
    };
    struct drm_i915_gem_context_create_ext create = {
        .flags      = I915_CONTEXT_CREATE_FLAGS_USE_EXTENSIONS,
        .extensions = (uintptr_t)&vm,
    };
    struct drm_i915_gem_context_param probe = {.param = I915_CONTEXT_PARAM_GTT_SIZE};
    unsigned                          slots = width > 1 ? 2 : 1, i;
    int                               ret;

    memset(&parallel, 0, sizeof(parallel));
    memset(&engines, 0, sizeof(engines));
    if (width > 1) {
        parallel.base.name    = I915_CONTEXT_ENGINES_EXT_PARALLEL_SUBMIT;
        parallel.engine_index = 0;
        parallel.width        = (uint16_t)width;
        parallel.num_siblings = 1;
        for (i = 0; i < width; i++) {
            parallel.engines[i] = zr_ctx_engine(dev, first + i);
        }
        engines.extensions                 = (uintptr_t)&parallel;
        engines.engines[0].engine_class    = (uint16_t)I915_ENGINE_CLASS_INVALID;
        engines.engines[0].engine_instance = (uint16_t)I915_ENGINE_CLASS_INVALID_NONE;
    }
    engines.engines[slots - 1] = zr_ctx_engine(dev, first);
    map.param.size = (uint32_t)(sizeof(engines.extensions) + slots * sizeof(engines.engines[0]));
    ret            = zr_i915_ioctl(dev, DRM_IOCTL_I915_GEM_CONTEXT_CREATE_EXT, &create);
    if (ret != 0) {
        return ret;
    }
    /* Many kernels build the context at its first use: use it, so that a refusal comes here. */
    probe.ctx_id = create.ctx_id;
    ret          = zr_i915_ioctl(dev, DRM_IOCTL_I915_GEM_CONTEXT_GETPARAM, &probe);
    if (ret != 0) {
        zr_ctx_destroy_id(dev, create.ctx_id);
        return ret;
    }
    zr_ctx_set_nonpersistent(dev, create.ctx_id);
    *id_p = create.ctx_id;
    return 0;
}

/* The longest run of engines whose logical instances follow each other. */
static unsigned zr_ctx_longest_run(const struct zr_i915_info *info, unsigned *first_p)
{
    unsigned i, start = 0, longest = 0;

    for (i = 1; i <= info->num_engines; i++) {
        if (i < info->num_engines &&
            info->engine[i].logical_instance == info->engine[i - 1].logical_instance + 1) {
            continue;
        }
        if (i - start > longest) {
            longest  = i - start;
            *first_p = start;
        }
        start = i;
    }
    return longest;
}

static void zr_ctx_say_refused(struct zr_i915 *dev, unsigned width, int ret)
{
    unsigned bit = 1u << width;

    if ((atomic_fetch_or(&dev->said_width, bit) & bit) == 0) {
        zr_warn("%s: the kernel refuses a parallel slot of %u copy engines (%s), trying %u",
                dev->info.node.path, width, strerror(-ret), width - 1);
    }
}

static ze_result_t zr_ctx_create_syncobj(struct zr_ctx *ctx)
{
    struct drm_syncobj_create arg = {0};
    int                       ret = zr_i915_ioctl(ctx->dev, DRM_IOCTL_SYNCOBJ_CREATE, &arg);

    if (ret != 0) {
        return zr_fail(zr_result_from_errno(ret), "%s: creating a syncobj: %s",
                       ctx->dev->info.node.path, strerror(-ret));
    }
    ctx->syncobj = arg.handle;
    return ZE_RESULT_SUCCESS;
}

ze_result_t zr_ctx_create(struct zr_i915 *dev, unsigned max_width, struct zr_ctx **ctx_p)
{
    struct zr_ctx *ctx = calloc(1, sizeof(*ctx));
    ze_result_t    result;
    uint32_t       id = 0;
    int            ret;

    if (ctx == NULL) {
        return zr_fail(ZE_RESULT_ERROR_OUT_OF_HOST_MEMORY, "context: out of memory");
    }
    ctx->dev   = dev;
    ctx->width = zr_ctx_longest_run(&dev->info, &ctx->first);
    if (max_width != 0) {
        ctx->width = ZR_MIN(ctx->width, max_width);
    }
    result = zr_ctx_create_syncobj(ctx);
    if (result != ZE_RESULT_SUCCESS) {
        goto err_free;
    }
    while ((ret = zr_ctx_create_id(dev, ctx->first, ctx->width, &id)) != 0 && ctx->width > 1) {
        zr_ctx_say_refused(dev, ctx->width, ret);
        ctx->width--;
    }
    if (ret != 0) {
        result = zr_fail(zr_result_from_errno(ret), "%s: creating a context: %s",
                         dev->info.node.path, strerror(-ret));
        goto err_syncobj;
    }
    atomic_init(&ctx->id, id);
    *ctx_p = ctx;
    return ZE_RESULT_SUCCESS;

err_syncobj:
    (void)zr_i915_ioctl(dev, DRM_IOCTL_SYNCOBJ_DESTROY,
                        &(struct drm_syncobj_destroy){.handle = ctx->syncobj});
err_free:
    free(ctx);
    return result;
}

void zr_ctx_destroy(struct zr_ctx *ctx)
{
    zr_ctx_destroy_id(ctx->dev, atomic_load(&ctx->id));
    (void)zr_i915_ioctl(ctx->dev, DRM_IOCTL_SYNCOBJ_DESTROY,
                        &(struct drm_syncobj_destroy){.handle = ctx->syncobj});
    free(ctx->list);
    free(ctx);
}

ze_result_t zr_ctx_reset(struct zr_ctx *ctx)
{
    uint32_t id, old = atomic_load(&ctx->id);
    int      ret = zr_ctx_create_id(ctx->dev, ctx->first, ctx->width, &id);

    if (ret != 0) {
        return zr_fail(ret == -EIO ? ZE_RESULT_ERROR_DEVICE_LOST : zr_result_from_errno(ret),
                       "%s: replacing the lost context %u: %s", ctx->dev->info.node.path, old,
                       strerror(-ret));
    }
    atomic_store(&ctx->submitted, false);
    atomic_store(&ctx->id, id);
    zr_ctx_destroy_id(ctx->dev, old);
    return ZE_RESULT_SUCCESS;
}

unsigned zr_ctx_width(const struct zr_ctx *ctx)
{
    return ctx->width;
}

ze_result_t zr_ctx_wait(struct zr_ctx *ctx, uint64_t timeout_ns)
{
    uint32_t                handle = ctx->syncobj;
    uint64_t                now    = zr_time_ns();
    struct drm_syncobj_wait arg    = {.handles       = (uintptr_t)&handle,
                                      .count_handles = 1,
                                      .timeout_nsec  = INT64_MAX};
    int                     ret;

    if (!atomic_load(&ctx->submitted)) {
        return ZE_RESULT_SUCCESS;
    }
    if (timeout_ns == 0) {
        arg.timeout_nsec = 0;
    } else if (timeout_ns < (uint64_t)INT64_MAX - now) {
        arg.timeout_nsec = (int64_t)(now + timeout_ns);
    }
    ret = zr_i915_ioctl(ctx->dev, DRM_IOCTL_SYNCOBJ_WAIT, &arg);
    if (ret == 0) {
        return ZE_RESULT_SUCCESS;
    }
    if (ret == -ETIME || ret == -EBUSY) {
        return ZE_RESULT_NOT_READY;
    }
    return zr_fail(zr_result_from_errno(ret), "%s: waiting for context %u: %s",
                   ctx->dev->info.node.path, atomic_load(&ctx->id), strerror(-ret));
}

ze_result_t zr_ctx_check(struct zr_ctx *ctx)
{
    struct drm_i915_reset_stats stats = {.ctx_id = atomic_load(&ctx->id)};
    int ret = zr_i915_ioctl(ctx->dev, DRM_IOCTL_I915_GET_RESET_STATS, &stats);

    if (ret != 0) {
        return zr_fail(zr_result_from_errno(ret), "%s: reset statistics of context %u: %s",
                       ctx->dev->info.node.path, stats.ctx_id, strerror(-ret));
    }
    if (stats.batch_active == 0 && stats.batch_pending == 0) {
        return ZE_RESULT_SUCCESS;
    }
    return zr_fail(ZE_RESULT_ERROR_DEVICE_LOST,
                   "%s: context %u was reset: %u of its batches hung, %u were lost with others",
                   ctx->dev->info.node.path, stats.ctx_id, stats.batch_active,
                   stats.batch_pending);
}
