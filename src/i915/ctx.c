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

/* The engine map of a context, in the layout that the kernel reads. */
struct zr_ctx_map {
    I915_DEFINE_CONTEXT_ENGINES_PARALLEL_SUBMIT(parallel, ZR_MAX_ENGINES);
    I915_DEFINE_CONTEXT_ENGINES_LOAD_BALANCE(balance, ZR_MAX_ENGINES);
    I915_DEFINE_CONTEXT_PARAM_ENGINES(engines, 2);
    uint32_t size; /* of engines, bytes */
};

static void zr_ctx_map_slot(struct zr_ctx_map *map, unsigned slot, bool by_extension,
                            struct i915_engine_class_instance engine)
{
    if (by_extension) {
        engine.engine_class    = (uint16_t)I915_ENGINE_CLASS_INVALID;
        engine.engine_instance = (uint16_t)I915_ENGINE_CLASS_INVALID_NONE;
    }
    map->engines.engines[slot] = engine;
}

/* Slot 0: the set, where the width is above one; the last slot: one engine. */
static void zr_ctx_map_fill(const struct zr_ctx *ctx, struct zr_ctx_map *map)
{
    const struct zr_i915 *dev   = ctx->dev;
    unsigned              slots = ctx->width > 1 ? 2 : 1, i;
    uint64_t              next  = 0;

    memset(map, 0, sizeof(*map));
    if (ctx->balanced) {
        map->balance.base.name    = I915_CONTEXT_ENGINES_EXT_LOAD_BALANCE;
        map->balance.engine_index = (uint16_t)(slots - 1);
        map->balance.num_siblings = (uint16_t)dev->info.num_engines;
        for (i = 0; i < dev->info.num_engines; i++) {
            map->balance.engines[i] = zr_ctx_engine(dev, i);
        }
        next = (uintptr_t)&map->balance;
    }
    if (ctx->width > 1) {
        map->parallel.base.name           = I915_CONTEXT_ENGINES_EXT_PARALLEL_SUBMIT;
        map->parallel.base.next_extension = next;
        map->parallel.engine_index        = 0;
        map->parallel.width               = (uint16_t)ctx->width;
        map->parallel.num_siblings        = (uint16_t)ctx->siblings;
        for (i = 0; i < ctx->width * ctx->siblings; i++) {
            map->parallel.engines[i] = zr_ctx_engine(dev, ctx->engine[i]);
        }
        zr_ctx_map_slot(map, 0, true, map->parallel.engines[0]);
        next = (uintptr_t)&map->parallel;
    }
    map->engines.extensions = next;
    zr_ctx_map_slot(map, slots - 1, ctx->balanced, zr_ctx_engine(dev, ctx->single));
    map->size = (uint32_t)(sizeof(map->engines.extensions) +
                           slots * sizeof(map->engines.engines[0]));
}

/* @return 0 with *id_p, or the errno of the kernel that refuses this map. */
static int zr_ctx_create_id(const struct zr_ctx *ctx, uint32_t *id_p)
{
    struct zr_i915   *dev = ctx->dev;
    struct zr_ctx_map map;
    struct drm_i915_gem_context_create_ext_setparam recoverable = {
        .base.name   = I915_CONTEXT_CREATE_EXT_SETPARAM,
        /* A recoverable context goes on after a hang with the next batch: its sequence number
         * would then cover the copy that was lost. */
        .param.param = I915_CONTEXT_PARAM_RECOVERABLE,
        .param.value = 0,
    };
    struct drm_i915_gem_context_create_ext_setparam engines = {
        .base.name           = I915_CONTEXT_CREATE_EXT_SETPARAM,
        .base.next_extension = (uintptr_t)&recoverable,
        .param.param         = I915_CONTEXT_PARAM_ENGINES,
        .param.value         = (uintptr_t)&map.engines,
    };
    struct drm_i915_gem_context_create_ext_setparam vm = {
        .base.name           = I915_CONTEXT_CREATE_EXT_SETPARAM,
        .base.next_extension = (uintptr_t)&engines,
        .param.param         = I915_CONTEXT_PARAM_VM,
        .param.value         = dev->vm_id,
    };
    struct drm_i915_gem_context_create_ext create = {
        .flags      = I915_CONTEXT_CREATE_FLAGS_USE_EXTENSIONS,
        .extensions = (uintptr_t)&vm,
    };
    struct drm_i915_gem_context_param probe = {.param = I915_CONTEXT_PARAM_GTT_SIZE};
    int                               ret;

    zr_ctx_map_fill(ctx, &map);
    engines.param.size = map.size;
    ret                = zr_i915_ioctl(dev, DRM_IOCTL_I915_GEM_CONTEXT_CREATE_EXT, &create);
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

/* Fill ctx->engine with sets of width engines whose logical instances follow each other, the
 * sets disjoint: set p is row 0 to width - 1 of column p. Each row is then the one before it
 * with every logical instance one up, as the kernel wants it.
 *
 *   logical  0 1 2 3 4 5 . 7 8        width 2    row 0:  0 2 4 7
 *                                                row 1:  1 3 5 8
 * @return how many there are */
static unsigned zr_ctx_place(struct zr_ctx *ctx, unsigned width)
{
    const struct zr_i915_info *info = &ctx->dev->info;
    uint8_t                    first[ZR_MAX_ENGINES];
    unsigned                   count = 0, run = 0, i, row;

    for (i = 0; i < info->num_engines; i++) {
        run = i > 0 && run > 0 &&
                      info->engine[i].logical_instance == info->engine[i - 1].logical_instance + 1 ?
                  run + 1 :
                  1;
        if (run == width) {
            first[count++] = (uint8_t)(i + 1 - width);
            run            = 0;
        }
    }
    for (row = 0; row < width; row++) {
        for (i = 0; i < count; i++) {
            ctx->engine[row * count + i] = (uint8_t)(first[i] + row);
        }
    }
    ctx->width    = width;
    ctx->siblings = count;
    return count;
}

/* The first set alone. */
static void zr_ctx_place_once(struct zr_ctx *ctx)
{
    unsigned row;

    for (row = 1; row < ctx->width; row++) {
        ctx->engine[row] = ctx->engine[row * ctx->siblings];
    }
    ctx->siblings = 1;
}

/* Said once per device and choice: bit 1 for balancing, the width for one place, ZR_MAX_ENGINES
 * more for several. */
static void zr_ctx_say_refused(const struct zr_ctx *ctx, int ret)
{
    const char *path  = ctx->dev->info.node.path;
    uint64_t    which = UINT64_C(1) << (ctx->siblings > 1 ? ctx->width + ZR_MAX_ENGINES :
                                                            ctx->width);

    if (atomic_fetch_or(&ctx->dev->said_refused, which) & which) {
        return;
    }
    if (ctx->width == 1) {
        zr_warn("%s: the kernel does not balance single copies over %u copy engines (%s), they"
                " use one", path, ctx->dev->info.num_engines, strerror(-ret));
    } else if (ctx->siblings > 1) {
        zr_warn("%s: the kernel refuses %u places for a parallel slot of %u copy engines (%s),"
                " trying one", path, ctx->siblings, ctx->width, strerror(-ret));
    } else {
        zr_warn("%s: the kernel refuses a parallel slot of %u copy engines (%s), trying %u", path,
                ctx->width, strerror(-ret), ctx->width - 1);
    }
}

/* Nothing narrower helps: the device is gone, or its memory is. */
static bool zr_ctx_is_final(int ret)
{
    return ret == 0 || ret == -EIO;
}

/* Short copies of several contexts need not wait for each other: their slot is whichever engine is
 * free, where the kernel does that. Asked once per device. Ponte Vecchio's engines are not alike:
 * the first one has more commands, and is cheaper to drain. */
static int zr_ctx_ask_balance(struct zr_ctx *ctx)
{
    struct zr_i915 *dev = ctx->dev;
    uint32_t        id;
    int             ret;

    if (dev->info.num_engines == 1 || dev->info.gen == ZR_BLT_PVC ||
        atomic_load(&dev->balance) == ZR_BALANCE_NO) {
        return 0;
    }
    ctx->balanced = true;
    if (atomic_load(&dev->balance) == ZR_BALANCE_YES) {
        return 0;
    }
    (void)zr_ctx_place(ctx, 1);
    zr_ctx_place_once(ctx);
    ret = zr_ctx_create_id(ctx, &id);
    if (ret == 0) {
        zr_ctx_destroy_id(dev, id);
        atomic_store(&dev->balance, ZR_BALANCE_YES);
    } else if (!zr_ctx_is_final(ret)) {
        zr_ctx_say_refused(ctx, ret);
        ctx->balanced = false;
        atomic_store(&dev->balance, ZR_BALANCE_NO);
        ret = 0;
    }
    return ret;
}

/* The widest slot that the kernel accepts, each width with all its places first, then with one. */
static int zr_ctx_choose(struct zr_ctx *ctx, unsigned most, uint32_t *id_p)
{
    unsigned width = ctx->dev->info.num_engines;
    int      ret;

    for (ctx->single = width - 1;
         ctx->single > 0 && ctx->dev->info.engine[ctx->single].instance != 0; ctx->single--) {
    }
    ret = zr_ctx_ask_balance(ctx);
    if (ret != 0) {
        return ret;
    }
    for (width = most != 0 ? ZR_MIN(width, most) : width; width > 1; width--) {
        if (zr_ctx_place(ctx, width) == 0) {
            continue;
        }
        ret = zr_ctx_create_id(ctx, id_p);
        if (!zr_ctx_is_final(ret) && ctx->siblings > 1) {
            zr_ctx_say_refused(ctx, ret);
            zr_ctx_place_once(ctx);
            ret = zr_ctx_create_id(ctx, id_p);
        }
        if (zr_ctx_is_final(ret)) {
            return ret;
        }
        zr_ctx_say_refused(ctx, ret);
    }
    (void)zr_ctx_place(ctx, 1);
    zr_ctx_place_once(ctx);
    ret = zr_ctx_create_id(ctx, id_p);
    if (!zr_ctx_is_final(ret) && ctx->balanced) {
        zr_ctx_say_refused(ctx, ret);
        ctx->balanced = false;
        ret           = zr_ctx_create_id(ctx, id_p);
    }
    return ret;
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
    ctx->dev = dev;
    result   = zr_ctx_create_syncobj(ctx);
    if (result != ZE_RESULT_SUCCESS) {
        goto err_free;
    }
    ret = zr_ctx_choose(ctx, max_width, &id);
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
    int      ret = zr_ctx_create_id(ctx, &id);

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

unsigned zr_ctx_siblings(const struct zr_ctx *ctx)
{
    return ctx->siblings;
}

int zr_ctx_single(const struct zr_ctx *ctx)
{
    return ctx->balanced ? -1 : (int)ctx->dev->info.engine[ctx->single].instance;
}

unsigned zr_ctx_engine_at(const struct zr_ctx *ctx, unsigned row, unsigned place)
{
    return ctx->dev->info.engine[ctx->engine[row * ctx->siblings + place]].instance;
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
    /* A batch that was only beside the one that hung is done again by the kernel: whether it was
     * lost, its number tells. */
    if (stats.batch_active == 0) {
        return ZE_RESULT_SUCCESS;
    }
    return zr_fail(ZE_RESULT_ERROR_DEVICE_LOST,
                   "%s: context %u was reset: %u of its batches hung, %u were lost with others",
                   ctx->dev->info.node.path, stats.ctx_id, stats.batch_active,
                   stats.batch_pending);
}
