/* Contexts: creation and parameters, before first use (a proto-context) and after; bans. */
/* SPDX-License-Identifier: BSD-3-Clause */
#include "soft.h"
#include "uapi.h"
#include "uapi_prelim.h"

#include <errno.h>
#include <stdlib.h>

#define ZR_SOFT_SECOND        UINT64_C(1000000000)
#define ZR_SOFT_CONTEXT_FAST  (120 * ZR_SOFT_SECOND) /* CONTEXT_FAST_HANG_JIFFIES */
#define ZR_SOFT_CLIENT_FAST   (60 * ZR_SOFT_SECOND)  /* I915_CLIENT_FAST_HANG_JIFFIES */
#define ZR_SOFT_CLIENT_BANNED 9                      /* I915_CLIENT_SCORE_BANNED */

struct zr_soft_ctx *zr_soft_ctx_new(struct zr_soft_file *file)
{
    struct zr_soft_ctx *ctx = calloc(1, sizeof(*ctx));

    if (ctx != NULL) {
        ctx->dev         = file->dev;
        ctx->refs        = 1;
        ctx->recoverable = ctx->bannable = ctx->persistent = true;
        ctx->file        = file;
        ctx->vm          = zr_soft_vm_get(file->vm);
    }
    return ctx;
}

void zr_soft_ctx_put(struct zr_soft_ctx *ctx)
{
    unsigned i;

    if (--ctx->refs != 0) {
        return;
    }
    for (i = 0; i < ctx->num_slots; i++) {
        free(ctx->slot[i].engine);
        free(ctx->slot[i].registers);
    }
    zr_soft_vm_put(ctx->vm);
    free(ctx);
}

void zr_soft_ctx_close(struct zr_soft_ctx *ctx)
{
    ctx->closed = true;
    ctx->file   = NULL;
    if (!ctx->persistent) {
        zr_soft_ctx_kill(ctx);
    }
    zr_soft_ctx_put(ctx);
}

/* First use makes the context what its parameters say; they cannot change after. */
static int zr_soft_ctx_finalize(struct zr_soft_ctx *ctx)
{
    int ret;

    if (!ctx->finalized) {
        if (!ctx->user_engines) {
            ret = zr_soft_ctx_legacy_engines(ctx);
            if (ret != 0) {
                return ret;
            }
        }
        ctx->finalized = true;
    }
    return 0;
}

struct zr_soft_ctx *zr_soft_ctx_find(struct zr_soft_file *file, uint64_t id)
{
    struct zr_soft_ctx *ctx = zr_soft_ids_get(&file->contexts, id);

    return ctx != NULL && zr_soft_ctx_finalize(ctx) == 0 ? ctx : NULL;
}

/* A client that hangs often, or has contexts banned, may make no new ones. */
static void zr_soft_file_blame(struct zr_soft_file *file, uint64_t now, bool banned)
{
    if (banned) {
        file->ban_score += 3;
    }
    if (file->hang_ns != 0 && now - file->hang_ns < ZR_SOFT_CLIENT_FAST) {
        file->ban_score += 1;
    }
    file->hang_ns = now;
}

void zr_soft_ctx_blame(struct zr_soft_ctx *ctx)
{
    uint64_t now = zr_time_ns(), before = ctx->hang_ns[0];

    ctx->guilty++;
    if (ctx->closed) {
        ctx->banned = true;
        return;
    }
    if (!ctx->bannable) {
        return;
    }
    ctx->hang_ns[0] = ctx->hang_ns[1];
    ctx->hang_ns[1] = now;
    if (!ctx->recoverable || (before != 0 && now - before < ZR_SOFT_CONTEXT_FAST)) {
        ctx->banned = true;
    }
    if (ctx->file != NULL) {
        zr_soft_file_blame(ctx->file, now, ctx->banned);
    }
}

/* ---- parameters ---- */

static int zr_soft_ctx_set_vm(struct zr_soft_file *file, struct zr_soft_ctx *ctx,
                              const struct drm_i915_gem_context_param *param)
{
    struct zr_soft_vm *vm;

    if (param->size != 0) {
        return -EINVAL;
    }
    vm = param->value >> 32 ? NULL : zr_soft_ids_get(&file->vms, param->value);
    if (vm == NULL) {
        return -ENOENT;
    }
    zr_soft_vm_get(vm);
    zr_soft_vm_put(ctx->vm);
    ctx->vm = vm;
    return 0;
}

static int zr_soft_ctx_set_priority(struct zr_soft_file *file, struct zr_soft_ctx *ctx,
                                    const struct drm_i915_gem_context_param *param)
{
    int64_t priority = (int64_t)param->value;

    if (param->size != 0 || priority > I915_CONTEXT_MAX_USER_PRIORITY ||
        priority < I915_CONTEXT_MIN_USER_PRIORITY) {
        return -EINVAL;
    }
    if (priority > I915_CONTEXT_DEFAULT_PRIORITY && !file->nice) {
        return -EPERM;
    }
    ctx->priority = priority;
    return 0;
}

static int zr_soft_ctx_set_flag(const struct drm_i915_gem_context_param *param, bool *flag)
{
    if (param->size != 0) {
        return -EINVAL;
    }
    *flag = param->value != 0;
    return 0;
}

static int zr_soft_ctx_set(struct zr_soft_file *file, struct zr_soft_ctx *ctx,
                           const struct drm_i915_gem_context_param *param)
{
    switch (param->param) {
    case I915_CONTEXT_PARAM_NO_ERROR_CAPTURE:
        return zr_soft_ctx_set_flag(param, &ctx->no_error_capture);
    case I915_CONTEXT_PARAM_BANNABLE:
        if (param->size == 0 && param->value == 0 && !file->admin) {
            return -EPERM;
        }
        return zr_soft_ctx_set_flag(param, &ctx->bannable);
    case ZR_CONTEXT_PARAM_LOW_LATENCY:
        /* A hint, before first use, of a firmware that takes it. */
        return ctx->finalized || !file->dev->profile.guc || file->dev->profile.backports ? -EINVAL
                                                                                         : 0;
    case I915_CONTEXT_PARAM_SSEU:
        return param->size < sizeof(struct drm_i915_gem_context_param_sseu) ? -EINVAL : -ENODEV;
    case I915_CONTEXT_PARAM_PROTECTED_CONTENT:
        return ctx->finalized ? -EINVAL : param->value != 0 ? -ENODEV : 0;
    case I915_CONTEXT_PARAM_RECOVERABLE:
        return zr_soft_ctx_set_flag(param, &ctx->recoverable);
    case I915_CONTEXT_PARAM_PERSISTENCE:
        return zr_soft_ctx_set_flag(param, &ctx->persistent);
    case I915_CONTEXT_PARAM_PRIORITY:
        return zr_soft_ctx_set_priority(file, ctx, param);
    case I915_CONTEXT_PARAM_VM:
        return ctx->finalized ? -EINVAL : zr_soft_ctx_set_vm(file, ctx, param);
    case I915_CONTEXT_PARAM_ENGINES:
        return ctx->finalized ? -EINVAL : zr_soft_ctx_set_engines(file, ctx, param);
    default:
        return -EINVAL;
    }
}

struct zr_soft_creation {
    struct zr_soft_file *file;
    struct zr_soft_ctx  *ctx;
};

static int zr_soft_ext_setparam(void *arg, uint64_t ext)
{
    struct zr_soft_creation                        *creation = arg;
    struct drm_i915_gem_context_create_ext_setparam set;
    int ret = zr_soft_copy_in(&set, ext, sizeof(set));

    if (ret != 0) {
        return ret;
    }
    if (set.param.ctx_id != 0) {
        return -EINVAL;
    }
    if (creation->file->dev->profile.backports && set.param.param == ZR_PRELIM_CONTEXT_RUN_ALONE) {
        return set.param.size != 0 ? -EINVAL : 0; /* engines of other classes stand still: not seen */
    }
    return zr_soft_ctx_set(creation->file, creation->ctx, &set.param);
}

int zr_soft_context_create(struct zr_soft_file *file, void *data)
{
    static const zr_soft_ext_fn fns[] = {
        [I915_CONTEXT_CREATE_EXT_SETPARAM] = zr_soft_ext_setparam,
    };
    struct drm_i915_gem_context_create_ext *args     = data;
    struct zr_soft_creation                 creation = {.file = file};
    uint32_t extra = file->dev->profile.backports ? ZR_PRELIM_CONTEXT_LONG_RUNNING : 0;
    int      ret   = 0;

    if (args->flags & I915_CONTEXT_CREATE_FLAGS_UNKNOWN & ~extra) {
        return -EINVAL;
    }
    if (file->dev->wedged || file->ban_score >= ZR_SOFT_CLIENT_BANNED) {
        return -EIO;
    }
    creation.ctx = zr_soft_ctx_new(file);
    if (creation.ctx == NULL) {
        return -ENOMEM;
    }
    if (args->flags & extra) {
        creation.ctx->long_running = true;
        creation.ctx->persistent   = false; /* it ends with its client */
    }
    if (args->flags & I915_CONTEXT_CREATE_FLAGS_USE_EXTENSIONS) {
        ret = zr_soft_extensions(args->extensions, fns, ZR_ARRAY_SIZE(fns), &creation);
    }
    if (ret == 0) {
        ret = zr_soft_ids_add(&file->contexts, 0, creation.ctx, &args->ctx_id);
    }
    if (ret != 0) {
        zr_soft_ctx_put(creation.ctx);
    }
    return ret;
}

int zr_soft_context_destroy(struct zr_soft_file *file, void *data)
{
    struct drm_i915_gem_context_destroy *args = data;
    struct zr_soft_ctx                  *ctx;

    if (args->pad != 0) {
        return -EINVAL;
    }
    ctx = args->ctx_id != 0 ? zr_soft_ids_remove(&file->contexts, args->ctx_id) : NULL;
    if (ctx == NULL) {
        return -ENOENT;
    }
    zr_soft_ctx_close(ctx);
    return 0;
}

/* All slices, subslices and execution units, always: only generation 11 lets one choose. */
static int zr_soft_ctx_get_sseu(struct zr_soft_file *file, const struct zr_soft_ctx *ctx,
                                struct drm_i915_gem_context_param *args)
{
    const struct zr_soft_profile          *profile = &file->dev->profile;
    struct drm_i915_gem_context_param_sseu sseu;
    uint32_t                               size = args->size;
    unsigned                               index;
    int                                    ret;

    args->size = sizeof(sseu);
    if (size == 0) {
        return 0;
    }
    if (size < sizeof(sseu)) {
        args->size = size;
        return -EINVAL;
    }
    ret = zr_soft_copy_in(&sseu, args->value, sizeof(sseu));
    if (ret != 0) {
        return ret;
    }
    if (sseu.rsvd != 0 || (sseu.flags & ~I915_CONTEXT_SSEU_FLAG_ENGINE_INDEX) ||
        ctx->user_engines != ((sseu.flags & I915_CONTEXT_SSEU_FLAG_ENGINE_INDEX) != 0)) {
        return -EINVAL;
    }
    index = sseu.engine.engine_instance;
    if (ctx->user_engines && (index >= ctx->num_slots || !ctx->slot[index].valid)) {
        return -EINVAL;
    }
    if (!ctx->user_engines &&
        zr_soft_engine_find(file->dev, sseu.engine.engine_class, index) == NULL) {
        return -EINVAL;
    }
    sseu.slice_mask           = (UINT64_C(1) << profile->slices) - 1;
    sseu.subslice_mask        = ~UINT64_C(0) >> (64 - profile->subslices_on);
    sseu.min_eus_per_subslice = sseu.max_eus_per_subslice = profile->eus;
    return zr_soft_copy_out(args->value, &sseu, sizeof(sseu));
}

int zr_soft_context_getparam(struct zr_soft_file *file, void *data)
{
    struct drm_i915_gem_context_param *args = data;
    struct zr_soft_ctx                *ctx  = zr_soft_ctx_find(file, args->ctx_id);
    uint32_t                           id;
    int                                ret;

    if (ctx == NULL) {
        return -ENOENT;
    }
    switch (args->param) {
    case I915_CONTEXT_PARAM_GTT_SIZE:
        args->value = UINT64_C(1) << file->dev->profile.gtt_bits;
        break;
    case I915_CONTEXT_PARAM_NO_ERROR_CAPTURE:
        args->value = ctx->no_error_capture;
        break;
    case I915_CONTEXT_PARAM_BANNABLE:
        args->value = ctx->bannable;
        break;
    case I915_CONTEXT_PARAM_RECOVERABLE:
        args->value = ctx->recoverable;
        break;
    case I915_CONTEXT_PARAM_PERSISTENCE:
        args->value = ctx->persistent;
        break;
    case I915_CONTEXT_PARAM_PRIORITY:
        args->value = (int64_t)ctx->priority;
        break;
    case I915_CONTEXT_PARAM_VM:
        ret = zr_soft_ids_add(&file->vms, 1, ctx->vm, &id);
        if (ret != 0) {
            return ret;
        }
        zr_soft_vm_get(ctx->vm);
        args->value = id;
        break;
    case I915_CONTEXT_PARAM_SSEU:
        return zr_soft_ctx_get_sseu(file, ctx, args);
    case I915_CONTEXT_PARAM_PROTECTED_CONTENT:
        args->value = 0;
        break;
    default:
        return -EINVAL;
    }
    args->size = 0;
    return 0;
}

int zr_soft_context_setparam(struct zr_soft_file *file, void *data)
{
    struct drm_i915_gem_context_param *args = data;
    struct zr_soft_ctx *ctx = zr_soft_ids_get(&file->contexts, args->ctx_id);

    if (ctx == NULL) {
        return -ENOENT;
    }
    return zr_soft_ctx_set(file, ctx, args);
}

int zr_soft_reset_stats(struct zr_soft_file *file, void *data)
{
    struct drm_i915_reset_stats *args = data;
    struct zr_soft_ctx          *ctx;

    if (args->flags != 0 || args->pad != 0) {
        return -EINVAL;
    }
    ctx = zr_soft_ctx_find(file, args->ctx_id);
    if (ctx == NULL) {
        return -ENOENT;
    }
    args->reset_count   = file->admin ? file->dev->resets : 0;
    args->batch_active  = ctx->guilty;
    args->batch_pending = ctx->innocent;
    return 0;
}
