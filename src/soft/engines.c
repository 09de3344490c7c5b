/* SETPARAM(ENGINES): the engine map of a context, with load balancing and parallel slots. Checks
 * are in the kernel's order (i915_gem_context.c) and give its errno. */
/* SPDX-License-Identifier: BSD-3-Clause */
#include "soft.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* Batches of one execbuf: MAX_ENGINE_INSTANCE + 1 */
#define ZR_SOFT_MAX_WIDTH 9

struct zr_soft_map {
    struct zr_soft_dev *dev;
    struct zr_soft_ctx *ctx; /* its slots are filled as extensions come */
    unsigned            count;
};

/* A set is placed by its first engine; the others follow it in logical order, in whatever order
 * the siblings of a row were written. */
static void zr_soft_slot_columns(struct zr_soft_dev *dev, struct zr_soft_slot *slot)
{
    unsigned row, column, i;

    for (row = 1; row < slot->width; row++) {
        for (column = 0; column < slot->siblings; column++) {
            const struct zr_soft_engine_id *first = &dev->engine[slot->engine[column]].id;

            for (i = 0; i < dev->profile.num_engines; i++) {
                if (dev->engine[i].id.class == first->class &&
                    dev->engine[i].id.logical == first->logical + row) {
                    slot->engine[row * slot->siblings + column] = i;
                }
            }
        }
    }
}

static int zr_soft_slot_fill(struct zr_soft_ctx *ctx, unsigned index, unsigned width,
                             unsigned siblings, uint8_t *engine)
{
    struct zr_soft_slot *slot = &ctx->slot[index];

    slot->valid    = true;
    slot->class    = ctx->dev->engine[engine[0]].id.class;
    slot->width    = width;
    slot->siblings = siblings;
    slot->engine   = engine;
    slot->timeline = ++ctx->dev->timelines;
    TAILQ_INIT(&slot->reqs);
    zr_soft_slot_columns(ctx->dev, slot);
    return 0;
}

static int zr_soft_slot_single(struct zr_soft_ctx *ctx, unsigned index,
                               const struct zr_soft_engine *engine)
{
    uint8_t *list = malloc(1);

    if (list == NULL) {
        return -ENOMEM;
    }
    list[0] = engine - ctx->dev->engine;
    return zr_soft_slot_fill(ctx, index, 1, 1, list);
}

/* Without an engine map the execbuf flags name one of the legacy rings. */
int zr_soft_ctx_legacy_engines(struct zr_soft_ctx *ctx)
{
    static const int classes[] = {
        [I915_EXEC_DEFAULT] = I915_ENGINE_CLASS_RENDER,
        [I915_EXEC_RENDER]  = I915_ENGINE_CLASS_RENDER,
        [I915_EXEC_BSD]     = I915_ENGINE_CLASS_VIDEO,
        [I915_EXEC_BLT]     = I915_ENGINE_CLASS_COPY,
        [I915_EXEC_VEBOX]   = I915_ENGINE_CLASS_VIDEO_ENHANCE,
    };
    struct zr_soft_engine *engine;
    unsigned               i;
    int                    ret = 0;

    for (i = 0; ret == 0 && i < ZR_ARRAY_SIZE(classes); i++) {
        engine = zr_soft_engine_find(ctx->dev, classes[i], 0);
        if (engine != NULL && !ctx->slot[i].valid) {
            ret = zr_soft_slot_single(ctx, i, engine);
        }
        ctx->num_slots = i + 1;
    }
    engine = zr_soft_engine_find(ctx->dev, I915_ENGINE_CLASS_VIDEO, 1);
    if (ret == 0 && engine != NULL && !ctx->slot[ZR_SOFT_LEGACY_BSD2].valid) {
        ret            = zr_soft_slot_single(ctx, ZR_SOFT_LEGACY_BSD2, engine);
        ctx->num_slots = ZR_SOFT_LEGACY_BSD2 + 1;
    }
    return ret;
}

/* Read one engine of a list. NULL with *ret_p: -EFAULT or @a unknown. */
static struct zr_soft_engine *zr_soft_read_engine(struct zr_soft_dev *dev, uint64_t at,
                                                  int unknown, int *ret_p)
{
    struct i915_engine_class_instance ci;
    struct zr_soft_engine            *engine;

    *ret_p = zr_soft_copy_in(&ci, at, sizeof(ci));
    if (*ret_p != 0) {
        return NULL;
    }
    engine = zr_soft_engine_find(dev, ci.engine_class, ci.engine_instance);
    if (engine == NULL) {
        *ret_p = unknown;
    }
    return engine;
}

static int zr_soft_ext_load_balance(void *arg, uint64_t ext)
{
    struct zr_soft_map                       *map = arg;
    struct i915_context_engines_load_balance  lb;
    struct zr_soft_engine                    *engine;
    uint8_t                                  *list;
    unsigned                                  i;
    int                                       ret;

    ret = zr_soft_copy_in(&lb, ext, sizeof(lb));
    if (ret != 0) {
        return ret;
    }
    if (lb.engine_index >= map->count) {
        return -EINVAL;
    }
    if (map->ctx->slot[lb.engine_index].valid) {
        return -EEXIST;
    }
    if (lb.flags != 0 || lb.mbz64 != 0) {
        return -EINVAL;
    }
    if (lb.num_siblings == 0) {
        return 0;
    }
    list = malloc(lb.num_siblings);
    if (list == NULL) {
        return -ENOMEM;
    }
    for (i = 0; i < lb.num_siblings; i++) {
        engine = zr_soft_read_engine(
            map->dev, ext + sizeof(lb) + i * sizeof(struct i915_engine_class_instance), -EINVAL,
            &ret);
        if (engine == NULL) {
            goto err;
        }
        list[i] = engine - map->dev->engine;
        if (engine->id.class != map->dev->engine[list[0]].id.class) {
            ret = -EINVAL;
            goto err;
        }
    }
    return zr_soft_slot_fill(map->ctx, lb.engine_index, 1, lb.num_siblings, list);

err:
    free(list);
    return ret;
}

static int zr_soft_ext_bond(void *arg, uint64_t ext)
{
    return -ENODEV; /* dropped for this generation */
}

/* Rows of a parallel slot: siblings of one row form a mask of logical ids, and each row's mask is
 * the row before's, one up. */
static int zr_soft_parallel_rows(struct zr_soft_dev *dev, uint64_t at, unsigned width,
                                 unsigned siblings, uint8_t *list)
{
    struct zr_soft_engine *engine;
    uint32_t               mask, previous = 0;
    int                    class = -1, ret;
    unsigned               i, j;

    for (i = 0; i < width; i++) {
        mask = 0;
        for (j = 0; j < siblings; j++, at += sizeof(struct i915_engine_class_instance)) {
            engine = zr_soft_read_engine(dev, at, -EINVAL, &ret);
            if (engine == NULL) {
                return ret;
            }
            if (engine->id.class == I915_ENGINE_CLASS_RENDER ||
                engine->id.class == I915_ENGINE_CLASS_COMPUTE) {
                return -EINVAL;
            }
            if (class >= 0 && engine->id.class != class) {
                return -EINVAL;
            }
            class                  = engine->id.class;
            list[i * siblings + j] = engine - dev->engine;
            mask |= 1u << engine->id.logical;
        }
        if (i > 0 && mask != previous << 1) {
            return -EINVAL;
        }
        previous = mask;
    }
    return 0;
}

static int zr_soft_ext_parallel(void *arg, uint64_t ext)
{
    struct zr_soft_map                         *map = arg;
    struct i915_context_engines_parallel_submit ps;
    uint8_t                                    *list;
    int                                         ret;

    ret = zr_soft_copy_in(&ps, ext, sizeof(ps));
    if (ret != 0) {
        return ret;
    }
    if (!map->dev->profile.guc && ps.num_siblings != 1) {
        return -EINVAL;
    }
    if (ps.engine_index >= map->count) {
        return -EINVAL;
    }
    if (map->ctx->slot[ps.engine_index].valid) {
        return map->dev->profile.backports ? -EEXIST : -EINVAL;
    }
    if (ps.flags != 0 || ps.mbz64[0] != 0 || ps.mbz64[1] != 0 || ps.mbz64[2] != 0) {
        return -EINVAL;
    }
    if (ps.width < 2 || ps.num_siblings < 1) {
        return -EINVAL;
    }
    list = malloc((size_t)ps.width * ps.num_siblings);
    if (list == NULL) {
        return -ENOMEM;
    }
    ret = zr_soft_parallel_rows(map->dev, ext + sizeof(ps), ps.width, ps.num_siblings, list);
    if (ret == 0 && ps.width > ZR_SOFT_MAX_WIDTH) {
        ret = -EINVAL;
    }
    if (ret != 0) {
        free(list);
        return ret;
    }
    return zr_soft_slot_fill(map->ctx, ps.engine_index, ps.width, ps.num_siblings, list);
}

static void zr_soft_map_clear(struct zr_soft_ctx *ctx)
{
    unsigned i;

    for (i = 0; i < ctx->num_slots; i++) {
        free(ctx->slot[i].engine);
        free(ctx->slot[i].registers);
    }
    memset(ctx->slot, 0, sizeof(ctx->slot));
    ctx->num_slots = 0;
}

static int zr_soft_map_read(struct zr_soft_map *map, uint64_t engines)
{
    const struct i915_engine_class_instance none = {I915_ENGINE_CLASS_INVALID,
                                                    I915_ENGINE_CLASS_INVALID_NONE};
    struct i915_engine_class_instance       ci;
    struct zr_soft_engine                  *engine;
    unsigned                                i;
    int                                     ret;

    for (i = 0; i < map->count; i++) {
        ret = zr_soft_copy_in(&ci, engines + i * sizeof(ci), sizeof(ci));
        if (ret != 0) {
            return ret;
        }
        if (memcmp(&ci, &none, sizeof(ci)) == 0) {
            continue;
        }
        engine = zr_soft_engine_find(map->dev, ci.engine_class, ci.engine_instance);
        if (engine == NULL) {
            return -ENOENT;
        }
        ret = zr_soft_slot_single(map->ctx, i, engine);
        if (ret != 0) {
            return ret;
        }
    }
    return 0;
}

int zr_soft_ctx_set_engines(struct zr_soft_file *file, struct zr_soft_ctx *ctx,
                            const struct drm_i915_gem_context_param *param)
{
    static const zr_soft_ext_fn fns[] = {
        [I915_CONTEXT_ENGINES_EXT_LOAD_BALANCE]    = zr_soft_ext_load_balance,
        [I915_CONTEXT_ENGINES_EXT_BOND]            = zr_soft_ext_bond,
        [I915_CONTEXT_ENGINES_EXT_PARALLEL_SUBMIT] = zr_soft_ext_parallel,
    };
    struct zr_soft_map map = {.dev = file->dev, .ctx = ctx};
    uint64_t           extensions;
    size_t             head = sizeof(struct i915_context_param_engines);
    size_t             each = sizeof(struct i915_engine_class_instance);
    int                ret;

    if (ctx->user_engines || param->size < head || (param->size - head) % each != 0) {
        return -EINVAL;
    }
    map.count = (param->size - head) / each;
    if (map.count > ZR_SOFT_MAX_SLOTS) {
        return -EINVAL;
    }
    ret = zr_soft_copy_in(&extensions, param->value, sizeof(extensions));
    if (ret != 0) {
        return ret;
    }
    ctx->num_slots = map.count;
    ret            = zr_soft_map_read(&map, param->value + head);
    if (ret == 0) {
        ret = zr_soft_extensions(extensions, fns, ZR_ARRAY_SIZE(fns), &map);
    }
    if (ret != 0) {
        zr_soft_map_clear(ctx);
        return ret;
    }
    ctx->user_engines = true;
    return 0;
}
