/* Where a set of batches may run: the three examples of the specification
 * (spec/i915-parallel-submit.txt) as the kernel answers them, and what the driver asks for on
 * engines that are many, few, permuted, with holes, or of two tiles. Each refusal is said once. */
/* SPDX-License-Identifier: BSD-3-Clause */
#include "host.h"

#include <fcntl.h>

/* ---- the kernel's answers ---- */

static const struct {
    const char *what, *profile;
    unsigned    width, siblings;
    uint16_t    instance[8];
    int         ret;
} examples[] = {
    {"example 1", HOST_UPSTREAM_DG2 "submission = guc\ncopy_engines = 4\n", 2, 1, {0, 1}, 0},
    {"example 2", HOST_UPSTREAM_DG2 "submission = guc\ncopy_engines = 4\n", 2, 2, {0, 2, 1, 3}, 0},
    {"example 3", HOST_UPSTREAM_DG2 "submission = guc\ncopy_engines = 4\n", 2, 2, {0, 1, 1, 3},
     -EINVAL},
    {"example 1, execlists", HOST_UPSTREAM_DG2 "submission = execlists\ncopy_engines = 4\n", 2, 1,
     {0, 1}, 0},
    {"example 2, execlists", HOST_UPSTREAM_DG2 "submission = execlists\ncopy_engines = 4\n", 2, 2,
     {0, 2, 1, 3}, -EINVAL},
    {"one engine", HOST_UPSTREAM_DG2 "submission = guc\ncopy_engines = 1\n", 2, 1, {0, 1},
     -EINVAL},
};

static int ask(struct zr_i915 *dev, unsigned width, unsigned siblings, const uint16_t *instance)
{
    I915_DEFINE_CONTEXT_ENGINES_PARALLEL_SUBMIT(parallel, 8);
    I915_DEFINE_CONTEXT_PARAM_ENGINES(engines, 1);
    struct drm_i915_gem_context_create_ext_setparam set = {
        .base.name   = I915_CONTEXT_CREATE_EXT_SETPARAM,
        .param.param = I915_CONTEXT_PARAM_ENGINES,
        .param.value = (uintptr_t)&engines,
        .param.size  = sizeof(engines),
    };
    struct drm_i915_gem_context_create_ext create = {
        .flags      = I915_CONTEXT_CREATE_FLAGS_USE_EXTENSIONS,
        .extensions = (uintptr_t)&set,
    };
    unsigned i;

    memset(&parallel, 0, sizeof(parallel));
    memset(&engines, 0, sizeof(engines));
    parallel.base.name    = I915_CONTEXT_ENGINES_EXT_PARALLEL_SUBMIT;
    parallel.width        = (uint16_t)width;
    parallel.num_siblings = (uint16_t)siblings;
    for (i = 0; i < width * siblings; i++) {
        parallel.engines[i] =
            (struct i915_engine_class_instance){I915_ENGINE_CLASS_COPY, instance[i]};
    }
    engines.extensions                 = (uintptr_t)&parallel;
    engines.engines[0].engine_class    = (uint16_t)I915_ENGINE_CLASS_INVALID;
    engines.engines[0].engine_instance = (uint16_t)I915_ENGINE_CLASS_INVALID_NONE;
    return zr_i915_ioctl(dev, DRM_IOCTL_I915_GEM_CONTEXT_CREATE_EXT, &create);
}

static void test_examples(void)
{
    struct zr_i915 *dev;
    unsigned        i;
    int             ret;

    for (i = 0; i < ZR_ARRAY_SIZE(examples); i++) {
        dev = host_start(examples[i].profile, 0);
        ret = ask(dev, examples[i].width, examples[i].siblings, examples[i].instance);
        CHECK(ret == examples[i].ret, "%s: %d", examples[i].what, ret);
        host_stop(dev);
    }
}

/* ---- the driver's choice ---- */

#define GUC "submission = guc\n"

static const struct {
    const char *what, *profile;
    unsigned    tile;  /* engines of a tile, 0: one tile */
    unsigned    most;  /* engines of one copy */
    unsigned    width, siblings;
    unsigned    instance[9]; /* row * siblings + place */
    int         single;      /* engine of short copies, -1: the kernel's choice */
} choices[] = {
    {"all nine", HOST_BACKPORTS_PVC GUC "copy_engines = 9\n", 0, 0, 9, 1,
     {0, 1, 2, 3, 4, 5, 6, 7, 8}},
    {"four of nine", HOST_BACKPORTS_PVC GUC "copy_engines = 9\n", 0, 4, 4, 2,
     {0, 4, 1, 5, 2, 6, 3, 7}},
    {"two of four, as example 2", HOST_UPSTREAM_DG2 GUC "copy_engines = 4\n", 0, 2, 2, 2,
     {0, 2, 1, 3}, -1},
    {"two of four, as example 1", HOST_UPSTREAM_DG2 "submission = execlists\ncopy_engines = 4\n",
     0, 2, 2, 1, {0, 1}, -1},
    {"permuted", HOST_BACKPORTS_PVC GUC "copy_engines = 6\ncopy_logical = 0 3 1 4 2 5\n", 0, 0, 6,
     1, {0, 2, 4, 1, 3, 5}},
    {"permuted, the first not first", HOST_BACKPORTS_PVC GUC
     "copy_engines = 3\ncopy_logical = 2 0 1\n", 0, 0, 3, 1, {1, 2, 0}, 0},
    {"a hole", HOST_BACKPORTS_PVC GUC "copy_engines = 5\ncopy_logical = 0 1 4 5 6\n", 0, 0, 3, 1,
     {2, 3, 4}},
    {"pairs around a hole", HOST_BACKPORTS_PVC GUC "copy_engines = 5\ncopy_logical = 0 1 4 5 6\n",
     0, 2, 2, 2, {0, 2, 1, 3}},
    {"no two together", HOST_BACKPORTS_PVC GUC "copy_engines = 3\ncopy_logical = 0 2 4\n", 0, 0, 1,
     1, {0}},
    {"one", HOST_TGL "submission = execlists\ncopy_engines = 1\n", 0, 0, 1, 1, {0}},
    {"two tiles", HOST_BACKPORTS_PVC GUC "copy_engines = 8\n", 4, 0, 4, 1, {0, 1, 2, 3}},
};

static unsigned tile_size;

/* Each tile counts its logical instances from 0. */
static void two_tiles(unsigned long request, void *arg, int ret)
{
    struct drm_i915_query            *query = arg;
    struct drm_i915_query_item       *item  = (void *)(uintptr_t)query->items_ptr;
    struct drm_i915_query_engine_info *info = (void *)(uintptr_t)item->data_ptr;
    unsigned                          i;

    if (request != DRM_IOCTL_I915_QUERY || ret != 0 || tile_size == 0 || info == NULL ||
        item->query_id != DRM_I915_QUERY_ENGINE_INFO) {
        return;
    }
    for (i = 0; i < info->num_engines; i++) {
        if (info->engines[i].engine.engine_class == I915_ENGINE_CLASS_COPY) {
            info->engines[i].logical_instance %= tile_size;
        }
    }
}

static void test_choices(void)
{
    struct zr_i915 *dev;
    struct zr_ctx  *ctx = NULL;
    unsigned        c, row, place;

    for (c = 0; c < ZR_ARRAY_SIZE(choices); c++) {
        tile_size  = choices[c].tile;
        host.after = two_tiles;
        dev        = host_start(choices[c].profile, 0);
        OK(zr_ctx_create(dev, choices[c].most, &ctx));
        CHECK(zr_ctx_width(ctx) == choices[c].width && zr_ctx_siblings(ctx) == choices[c].siblings,
              "%s: width %u in %u places", choices[c].what, zr_ctx_width(ctx),
              zr_ctx_siblings(ctx));
        for (row = 0; row < ZR_MIN(zr_ctx_width(ctx), choices[c].width); row++) {
            for (place = 0; place < ZR_MIN(zr_ctx_siblings(ctx), choices[c].siblings); place++) {
                CHECK(zr_ctx_engine_at(ctx, row, place) ==
                          choices[c].instance[row * choices[c].siblings + place],
                      "%s: row %u place %u is engine %u", choices[c].what, row, place,
                      zr_ctx_engine_at(ctx, row, place));
            }
        }
        CHECK(zr_ctx_single(ctx) == choices[c].single, "%s: short copies on %d", choices[c].what,
              zr_ctx_single(ctx));
        CHECK(tile_size == 0 || zr_i915_info(dev)->num_engines == tile_size, "%s: %u engines",
              choices[c].what, zr_i915_info(dev)->num_engines);
        zr_ctx_destroy(ctx);
        host_stop(dev);
    }
}

/* ---- what is said ---- */

static int refuse_wide(struct zr_kfile *file, unsigned long request, void *arg)
{
    const struct drm_i915_gem_context_create_ext *create = arg;
    const struct drm_i915_gem_context_create_ext_setparam *set;
    const struct i915_user_extension *ext;
    uint64_t next;

    (void)file;
    if (request != DRM_IOCTL_I915_GEM_CONTEXT_CREATE_EXT) {
        return 0;
    }
    for (next = create->extensions; next != 0; next = set->base.next_extension) {
        set = (const void *)(uintptr_t)next;
        if (set->param.param != I915_CONTEXT_PARAM_ENGINES) {
            continue;
        }
        ext = (const void *)(uintptr_t)((const struct i915_context_param_engines *)(uintptr_t)
                                            set->param.value)->extensions;
        for (; ext != NULL; ext = (const void *)(uintptr_t)ext->next_extension) {
            if (ext->name == I915_CONTEXT_ENGINES_EXT_LOAD_BALANCE ||
                ((const struct i915_context_engines_parallel_submit *)ext)->width > 2) {
                return ext->name == I915_CONTEXT_ENGINES_EXT_LOAD_BALANCE ? -EINVAL : -ENODEV;
            }
        }
    }
    return 0;
}

static void test_said(void)
{
    static const struct {
        const char *text;
        unsigned    times;
    } lines[] = {{"balance single copies over 4 copy engines (Invalid argument)", 1},
                 {"a parallel slot of 4 copy engines (No such device), trying 3", 1},
                 {"a parallel slot of 3 copy engines (No such device), trying 2", 1},
                 {"a parallel slot of 2", 0},
                 {"zerange: warning", 3}};
    char            path[] = "/tmp/zerange-test-XXXXXX", log[8192] = "";
    int             fd = mkstemp(path), saved = dup(STDERR_FILENO);
    struct zr_i915 *dev;
    struct zr_ctx  *ctx[2];
    unsigned        i, found;
    const char     *at;
    ssize_t         n;

    dev         = host_start(HOST_UPSTREAM_DG2 GUC "copy_engines = 4\n", 0);
    host.before = refuse_wide;
    dup2(fd, STDERR_FILENO);
    for (i = 0; i < 2; i++) {
        OK(zr_ctx_create(dev, 0, &ctx[i]));
        CHECK(zr_ctx_width(ctx[i]) == 2, "width %u", zr_ctx_width(ctx[i]));
        zr_ctx_destroy(ctx[i]);
    }
    dup2(saved, STDERR_FILENO);
    host_stop(dev);
    n = pread(fd, log, sizeof(log) - 1, 0);
    log[n > 0 ? n : 0] = '\0';
    for (i = 0; i < ZR_ARRAY_SIZE(lines); i++) {
        found = 0;
        for (at = log; (at = strstr(at, lines[i].text)) != NULL; at++) {
            found++;
        }
        CHECK(found == lines[i].times, "'%s' is said %u times:\n%s", lines[i].text, found, log);
    }
    close(saved);
    close(fd);
    unlink(path);
}

int main(void)
{
    unsetenv("ZERANGE_LOG");
    test_examples();
    test_choices();
    test_said();
    printf("%zu examples, %zu choices, %u wrong\n", ZR_ARRAY_SIZE(examples),
           ZR_ARRAY_SIZE(choices), bad);
    return bad != 0;
}
