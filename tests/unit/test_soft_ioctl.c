/* What the software i915 refuses, and with which errno: the kernel's tables, row by row. */
/* SPDX-License-Identifier: BSD-3-Clause */
#include "soft_client.h"
#include "soft/soft.h"

static struct client pvc, dg2, fused, execlists;

#define COPY(n) {I915_ENGINE_CLASS_COPY, n}
#define NONE    {I915_ENGINE_CLASS_INVALID, I915_ENGINE_CLASS_INVALID_NONE}

/* ---- PARALLEL_SUBMIT ---- */

struct parallel_case {
    const char *name;
    int         expect_pvc, expect_dg2;
    unsigned    slots, index, width, siblings;
    uint64_t    flags, mbz64;
    uint16_t    mbz16;
    struct i915_engine_class_instance engine[16];
    bool        occupied;
};

static const struct parallel_case parallel_cases[] = {
    {"specification, example 1", 0, -EINVAL, 1, 0, 2, 1, 0, 0, 0, {COPY(0), COPY(1)}},
    {"specification, example 2", 0, -EINVAL, 1, 0, 2, 2, 0, 0, 0,
     {COPY(0), COPY(2), COPY(1), COPY(3)}},
    {"specification, example 3", -EINVAL, -EINVAL, 1, 0, 2, 2, 0, 0, 0,
     {COPY(0), COPY(1), COPY(1), COPY(3)}},
    {"all nine", 0, -EINVAL, 1, 0, 9, 1, 0, 0, 0,
     {COPY(0), COPY(1), COPY(2), COPY(3), COPY(4), COPY(5), COPY(6), COPY(7), COPY(8)}},
    {"from the middle", 0, -EINVAL, 1, 0, 2, 1, 0, 0, 0, {COPY(4), COPY(5)}},
    {"downwards", -EINVAL, -EINVAL, 1, 0, 2, 1, 0, 0, 0, {COPY(1), COPY(0)}},
    {"a gap", -EINVAL, -EINVAL, 1, 0, 2, 1, 0, 0, 0, {COPY(0), COPY(2)}},
    {"the same twice", -EINVAL, -EINVAL, 1, 0, 2, 1, 0, 0, 0, {COPY(0), COPY(0)}},
    {"order in a row does not matter", 0, -EINVAL, 1, 0, 2, 2, 0, 0, 0,
     {COPY(2), COPY(0), COPY(1), COPY(3)}},
    {"slot out of range", -EINVAL, -EINVAL, 1, 1, 2, 1, 0, 0, 0, {COPY(0), COPY(1)}},
    {"slot occupied", -EEXIST, -EINVAL, 1, 0, 2, 1, 0, 0, 0, {COPY(0), COPY(1)}, true},
    {"flags", -EINVAL, -EINVAL, 1, 0, 2, 1, 1, 0, 0, {COPY(0), COPY(1)}},
    {"mbz64", -EINVAL, -EINVAL, 1, 0, 2, 1, 0, 1, 0, {COPY(0), COPY(1)}},
    {"mbz16 is not looked at", 0, -EINVAL, 1, 0, 2, 1, 0, 0, 1, {COPY(0), COPY(1)}},
    {"width 1", -EINVAL, -EINVAL, 1, 0, 1, 1, 0, 0, 0, {COPY(0)}},
    {"width 0", -EINVAL, -EINVAL, 1, 0, 0, 1, 0, 0, 0, {COPY(0)}},
    {"no siblings", -EINVAL, -EINVAL, 1, 0, 2, 0, 0, 0, 0, {COPY(0), COPY(1)}},
    {"unknown engine", -EINVAL, -EINVAL, 1, 0, 2, 1, 0, 0, 0, {COPY(8), COPY(9)}},
    {"compute engines", -EINVAL, -EINVAL, 1, 0, 2, 1, 0, 0, 0,
     {{I915_ENGINE_CLASS_COMPUTE, 0}, {I915_ENGINE_CLASS_COMPUTE, 1}}},
    {"two classes", -EINVAL, -EINVAL, 1, 0, 2, 1, 0, 0, 0,
     {COPY(0), {I915_ENGINE_CLASS_COMPUTE, 1}}},
};

static int parallel_create(struct client *c, const struct parallel_case *t)
{
    I915_DEFINE_CONTEXT_PARAM_ENGINES(map, 4) = {0};
    I915_DEFINE_CONTEXT_ENGINES_PARALLEL_SUBMIT(parallel, 16) = {
        .base         = {.name = I915_CONTEXT_ENGINES_EXT_PARALLEL_SUBMIT},
        .engine_index = t->index,
        .width        = t->width,
        .num_siblings = t->siblings,
        .mbz16        = t->mbz16,
        .flags        = t->flags,
        .mbz64        = {0, t->mbz64},
    };
    struct drm_i915_gem_context_create_ext_setparam set = {
        .base  = {.name = I915_CONTEXT_CREATE_EXT_SETPARAM},
        .param = {.param = I915_CONTEXT_PARAM_ENGINES,
                  .size  = sizeof(uint64_t) + t->slots * sizeof(map.engines[0]),
                  .value = (uintptr_t)&map},
    };
    struct drm_i915_gem_context_create_ext create = {
        .flags      = I915_CONTEXT_CREATE_FLAGS_USE_EXTENSIONS,
        .extensions = (uintptr_t)&set,
    };
    const struct i915_engine_class_instance none = NONE, bcs0 = COPY(0);
    struct drm_i915_gem_context_destroy     destroy;
    unsigned                                i;
    int                                     ret;

    map.extensions = (uintptr_t)&parallel;
    for (i = 0; i < t->slots; i++) {
        map.engines[i] = t->occupied ? bcs0 : none;
    }
    memcpy(parallel.engines, t->engine, sizeof(t->engine));
    ret = client_ioctl(c, DRM_IOCTL_I915_GEM_CONTEXT_CREATE_EXT, &create);
    if (ret == 0) {
        destroy = (struct drm_i915_gem_context_destroy){.ctx_id = create.ctx_id};
        assert_int_equal(client_ioctl(c, DRM_IOCTL_I915_GEM_CONTEXT_DESTROY, &destroy), 0);
    }
    return ret;
}

static void parallel_rules(void **state)
{
    unsigned i;
    int      got_pvc, got_dg2, wrong = 0;

    for (i = 0; i < sizeof(parallel_cases) / sizeof(parallel_cases[0]); i++) {
        const struct parallel_case *t = &parallel_cases[i];

        got_pvc = parallel_create(&pvc, t);
        got_dg2 = parallel_create(&dg2, t);
        if (got_pvc != t->expect_pvc || got_dg2 != t->expect_dg2) {
            print_error("%s: pvc %d, expected %d; dg2 %d, expected %d\n", t->name, got_pvc,
                        t->expect_pvc, got_dg2, t->expect_dg2);
            wrong++;
        }
    }
    assert_int_equal(wrong, 0);
}

/* ---- the map around it ---- */

static int map_create(uint32_t size, struct i915_engine_class_instance engine, uint32_t ext_name)
{
    struct i915_user_extension                ext = {.name = ext_name};
    I915_DEFINE_CONTEXT_PARAM_ENGINES(map, 1)     = {0};
    struct drm_i915_gem_context_param param       = {.param = I915_CONTEXT_PARAM_ENGINES,
                                                     .size  = size,
                                                     .value = (uintptr_t)&map};
    struct drm_i915_gem_context_create_ext create = {0};
    int                                    ret;

    map.engines[0] = engine;
    map.extensions = ext_name != UINT32_MAX ? (uintptr_t)&ext : 0;
    assert_int_equal(client_ioctl(&pvc, DRM_IOCTL_I915_GEM_CONTEXT_CREATE_EXT, &create), 0);
    param.ctx_id = create.ctx_id;
    ret          = client_ioctl(&pvc, DRM_IOCTL_I915_GEM_CONTEXT_SETPARAM, &param);
    if (ret == 0) { /* once only */
        assert_int_equal(client_ioctl(&pvc, DRM_IOCTL_I915_GEM_CONTEXT_SETPARAM, &param), -EINVAL);
    }
    return ret;
}

static void map_rules(void **state)
{
    const struct i915_engine_class_instance bcs0 = COPY(0), bcs9 = COPY(9);

    assert_int_equal(map_create(12, bcs0, UINT32_MAX), 0);
    assert_int_equal(map_create(12, bcs9, UINT32_MAX), -ENOENT);
    assert_int_equal(map_create(4, bcs0, UINT32_MAX), -EINVAL);
    assert_int_equal(map_create(10, bcs0, UINT32_MAX), -EINVAL);
    assert_int_equal(map_create(8 + 65 * 4, bcs0, UINT32_MAX), -EINVAL);
    assert_int_equal(map_create(12, bcs0, 77), -EINVAL);
    assert_int_equal(map_create(12, bcs0, I915_CONTEXT_ENGINES_EXT_BOND), -ENODEV);
}

/* ---- EXECBUFFER2 ---- */

struct exec_case {
    const char *name;
    int         expect;
    uint64_t    flags;         /* of the execbuf */
    uint64_t    object_flags;  /* xor of the first object's */
    uint64_t    offset;        /* added to the first object's address */
    uint32_t    count, start, length, handle, dr1, cliprects, relocations;
    uint64_t    alignment;
    bool        parallel;
};

static const struct exec_case exec_cases[] = {
    {"right", 0, .count = 3},
    {"nothing to do", -EINVAL, .count = 0},
    {"unknown flag", -EINVAL, 1ull << 22, .count = 3},
    {"cliprects without a fence array", -EINVAL, .count = 3, .cliprects = 1},
    {"DR1", -EINVAL, .count = 3, .dr1 = 1},
    {"start not on a quadword", -EINVAL, .count = 3, .start = 4},
    {"length not of quadwords", -EINVAL, .count = 3, .length = 4},
    {"secure", -ENODEV, I915_EXEC_SECURE, .count = 3},
    {"extensions and fence array", -EINVAL, I915_EXEC_USE_EXTENSIONS | I915_EXEC_FENCE_ARRAY,
     .count = 3},
    {"no such slot", -EINVAL, 1, .count = 3},
    {"no such handle", -ENOENT, .count = 3, .handle = 999},
    {"unknown object flag", -EINVAL, .object_flags = 1 << 8, .count = 3},
    {"needs GTT", -EINVAL, .object_flags = EXEC_OBJECT_NEEDS_GTT, .count = 3},
    {"alignment not a power of two", -EINVAL, .count = 3, .alignment = 3 << 12},
    {"address not on a page", -EINVAL, .offset = 8, .count = 3},
    {"address not canonical", -EINVAL, .offset = 1ull << 60, .count = 3},
    {"64K alignment of lmem is not enough", -EINVAL, .offset = 64 << 10, .count = 3},
    {"above 4G without leave", -EINVAL, .object_flags = EXEC_OBJECT_SUPPORTS_48B_ADDRESS,
     .count = 3},
    {"on top of another", -ENOSPC, .offset = 2 << 20, .count = 3},
    {"relocations", -EINVAL, .count = 3, .relocations = 1},
    {"start behind the end", -EINVAL, .count = 3, .start = 1 << 20},
    {"parallel: right", 0, .count = 3, .parallel = true},
    {"parallel: fewer objects than batches", -EINVAL, .count = 1, .parallel = true},
    {"parallel: start", -EINVAL, .count = 3, .start = 8, .parallel = true},
    {"parallel: length", -EINVAL, .count = 3, .length = 8, .parallel = true},
};

static int exec_try(const struct exec_case *t, const uint32_t *ctx, const struct object *o)
{
    struct drm_i915_gem_relocation_entry reloc = {0};
    struct drm_i915_gem_exec_object2     list[3] = {0};
    struct drm_i915_gem_execbuffer2      exec    = {
        .buffers_ptr        = (uintptr_t)list,
        .buffer_count       = t->count,
        .batch_start_offset = t->start,
        .batch_len          = t->length,
        .DR1                = t->dr1,
        .num_cliprects      = t->cliprects,
        .flags              = t->flags,
        .rsvd1              = ctx[t->parallel],
    };
    unsigned i;

    for (i = 0; i < 3; i++) {
        list[i].handle = o[i].handle;
        list[i].offset = o[i].va;
        list[i].flags  = NEW_OBJECT_FLAGS;
    }
    list[0].flags ^= t->object_flags;
    list[0].offset += t->offset;
    list[0].alignment        = t->alignment;
    list[0].relocation_count = t->relocations;
    list[0].relocs_ptr       = (uintptr_t)&reloc;
    if (t->handle != 0) {
        list[0].handle = t->handle;
    }
    return client_ioctl(&pvc, DRM_IOCTL_I915_GEM_EXECBUFFER2, &exec);
}

static void exec_rules(void **state)
{
    struct object o[3];
    struct batch  b;
    uint32_t      ctx[2];
    unsigned      i;
    int           got, wrong = 0;

    assert_int_equal(context_create(&pvc, 0, 1, true, &ctx[0]), 0);
    assert_int_equal(context_create(&pvc, 0, 2, true, &ctx[1]), 0);
    for (i = 0; i < 3; i++) {
        object_create(&pvc, 64 << 10, I915_MEMORY_CLASS_DEVICE, &o[i]);
        b = batch_of(&o[i]);
        emit_end(&b);
    }
    for (i = 0; i < sizeof(exec_cases) / sizeof(exec_cases[0]); i++) {
        got = exec_try(&exec_cases[i], ctx, o);
        if (got != exec_cases[i].expect) {
            print_error("%s: %d, expected %d\n", exec_cases[i].name, got, exec_cases[i].expect);
            wrong++;
        }
    }
    for (i = 0; i < 3; i++) {
        assert_int_equal(object_wait(&pvc, &o[i], FOREVER), 0);
        object_destroy(&pvc, &o[i]);
    }
    assert_int_equal(wrong, 0);
}

static void exec_unknown_context(void **state)
{
    struct drm_i915_gem_exec_object2 list = {0};
    struct drm_i915_gem_execbuffer2  exec = {
        .buffers_ptr = (uintptr_t)&list, .buffer_count = 1, .rsvd1 = 4242};

    assert_int_equal(client_ioctl(&pvc, DRM_IOCTL_I915_GEM_EXECBUFFER2, &exec), -ENOENT);
    exec.buffers_ptr = 0;
    assert_int_equal(client_ioctl(&pvc, DRM_IOCTL_I915_GEM_EXECBUFFER2, &exec), -EFAULT);
}

/* ---- QUERY ---- */

static int query_item(struct client *c, uint64_t id, void *data, int32_t *length_p)
{
    struct drm_i915_query_item item  = {.query_id = id, .length = *length_p,
                                        .data_ptr = (uintptr_t)data};
    struct drm_i915_query      query = {.num_items = 1, .items_ptr = (uintptr_t)&item};
    int                        ret   = client_ioctl(c, DRM_IOCTL_I915_QUERY, &query);

    *length_p = item.length;
    return ret;
}

static void query_engines(void **state)
{
    union {
        struct drm_i915_query_engine_info info;
        char                              bytes[4096];
    } data = {0};
    int32_t  length = 0, wanted;
    unsigned i, copies = 0;

    assert_int_equal(query_item(&pvc, DRM_I915_QUERY_ENGINE_INFO, NULL, &length), 0);
    wanted = length;
    assert_true(wanted > 0);
    length = wanted - 1;
    assert_int_equal(query_item(&pvc, DRM_I915_QUERY_ENGINE_INFO, &data, &length), 0);
    assert_int_equal(length, -EINVAL);
    length = wanted;
    assert_int_equal(query_item(&pvc, DRM_I915_QUERY_ENGINE_INFO, &data, &length), 0);
    assert_int_equal(length, wanted);
    for (i = 0; i < data.info.num_engines; i++) {
        const struct drm_i915_engine_info *e = &data.info.engines[i];

        if (e->engine.engine_class == I915_ENGINE_CLASS_COPY) {
            assert_int_equal(e->engine.engine_instance, copies);
            assert_int_equal(e->logical_instance, copies);
            assert_true(e->flags & I915_ENGINE_INFO_HAS_LOGICAL_INSTANCE);
            copies++;
        }
    }
    assert_int_equal(copies, 9);
    length = wanted; /* the header is not zero any more */
    assert_int_equal(query_item(&pvc, DRM_I915_QUERY_ENGINE_INFO, &data, &length), 0);
    assert_int_equal(length, -EINVAL);
    length = 0;
    assert_int_equal(query_item(&pvc, 0, NULL, &length), -EINVAL);
    length = 0;
    assert_int_equal(query_item(&pvc, 99, NULL, &length), 0);
    assert_int_equal(length, -EINVAL);
}

static void query_regions(void **state)
{
    union {
        struct drm_i915_query_memory_regions info;
        char                                 bytes[4096];
    } data = {0};
    int32_t length = sizeof(data);

    assert_int_equal(query_item(&dg2, DRM_I915_QUERY_MEMORY_REGIONS, &data, &length), 0);
    assert_int_equal(data.info.num_regions, 2);
    assert_int_equal(data.info.regions[1].region.memory_class, I915_MEMORY_CLASS_DEVICE);
    assert_int_equal(data.info.regions[1].probed_size, UINT64_C(16) << 30);
}

/* ---- objects ---- */

struct create_case {
    const char *name;
    int         expect;
    uint64_t    size, expect_size;
    unsigned    class;
};

static void create_rules(void **state)
{
    static const struct create_case cases[] = {
        {"a page of system memory", 0, 1, 4096, I915_MEMORY_CLASS_SYSTEM},
        {"device memory is in 64K pages", 0, 4096, 65536, I915_MEMORY_CLASS_DEVICE},
        {"no bytes", -EINVAL, 0, 0, I915_MEMORY_CLASS_DEVICE},
        {"more than there is", -E2BIG, UINT64_C(1) << 40, 0, I915_MEMORY_CLASS_DEVICE},
        {"wraps", -EINVAL, UINT64_MAX - 5, 0, I915_MEMORY_CLASS_DEVICE},
        {"unknown region", -EINVAL, 4096, 0, 7},
    };
    struct drm_gem_close close;
    uint64_t             size;
    unsigned             i;
    uint32_t             handle;

    for (i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        int got = client_create_in(&pvc, cases[i].size, cases[i].class, &handle, &size);

        if (got != cases[i].expect) {
            fail_msg("%s: %d, expected %d", cases[i].name, got, cases[i].expect);
        }
        if (got == 0) {
            assert_int_equal(size, cases[i].expect_size);
            close = (struct drm_gem_close){.handle = handle};
            assert_int_equal(client_ioctl(&pvc, DRM_IOCTL_GEM_CLOSE, &close), 0);
            assert_int_equal(client_ioctl(&pvc, DRM_IOCTL_GEM_CLOSE, &close), -EINVAL);
        }
    }
}

static void mmap_rules(void **state)
{
    struct drm_i915_gem_mmap_offset offset = {0};
    struct drm_i915_gem_mmap        legacy = {0};
    struct object                   o;
    void                           *fixed, *again;

    static const struct {
        uint64_t flags;
        int      backports, upstream;
    } modes[] = {
        {I915_MMAP_OFFSET_GTT, -ENODEV, -ENODEV}, {9, -EINVAL, -EINVAL},
        {I915_MMAP_OFFSET_FIXED, -EINVAL, 0},     {I915_MMAP_OFFSET_UC, 0, -ENODEV},
        {I915_MMAP_OFFSET_WB, 0, -ENODEV},        {I915_MMAP_OFFSET_WC, 0, -ENODEV},
    };
    unsigned i;

    for (i = 0; i < sizeof(modes) / sizeof(modes[0]); i++) {
        offset.flags = modes[i].flags;
        object_create(&dg2, 128 << 10, I915_MEMORY_CLASS_SYSTEM, &o);
        offset.handle = o.handle;
        assert_int_equal(client_ioctl(&dg2, DRM_IOCTL_I915_GEM_MMAP_OFFSET, &offset),
                         modes[i].upstream);
        object_destroy(&dg2, &o);
        object_create(&pvc, 128 << 10, I915_MEMORY_CLASS_SYSTEM, &o);
        offset.handle = o.handle;
        assert_int_equal(client_ioctl(&pvc, DRM_IOCTL_I915_GEM_MMAP_OFFSET, &offset),
                         modes[i].backports);
        if (i + 1 < sizeof(modes) / sizeof(modes[0])) {
            object_destroy(&pvc, &o);
        }
    }
    assert_int_equal(client_ioctl(&pvc, DRM_IOCTL_I915_GEM_MMAP, &legacy), -EOPNOTSUPP);
    fixed = mmap(NULL, 64 << 10, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    again = pvc.kif->mmap(pvc.file, fixed, 64 << 10, PROT_READ, MAP_SHARED | MAP_FIXED,
                          offset.offset);
    assert_ptr_equal(again, fixed);
    strcpy(o.cpu, "seen twice");
    assert_string_equal(fixed, "seen twice");
    again = pvc.kif->mmap(pvc.file, NULL, 256 << 10, PROT_READ, MAP_SHARED, offset.offset);
    assert_ptr_equal(again, MAP_FAILED);
    assert_int_equal(errno, EINVAL);
    munmap(fixed, 64 << 10);
    object_destroy(&pvc, &o);
}

static void userptr_rules(void **state)
{
    long                        page = sysconf(_SC_PAGESIZE);
    char                       *ptr = mmap(NULL, 2 * page, PROT_READ | PROT_WRITE,
                                           MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    struct drm_i915_gem_userptr user = {.user_ptr = (uintptr_t)ptr, .user_size = page};

    assert_int_equal(client_ioctl(&pvc, DRM_IOCTL_I915_GEM_USERPTR, &user), 0);
    user.user_size = page - 1;
    assert_int_equal(client_ioctl(&pvc, DRM_IOCTL_I915_GEM_USERPTR, &user), -EINVAL);
    user.user_size = 0;
    assert_int_equal(client_ioctl(&pvc, DRM_IOCTL_I915_GEM_USERPTR, &user), -EINVAL);
    user.user_size = page;
    user.flags     = I915_USERPTR_UNSYNCHRONIZED;
    assert_int_equal(client_ioctl(&pvc, DRM_IOCTL_I915_GEM_USERPTR, &user), -ENODEV);
    user.flags = I915_USERPTR_READ_ONLY;
    assert_int_equal(client_ioctl(&pvc, DRM_IOCTL_I915_GEM_USERPTR, &user), -ENODEV);
    user.flags     = I915_USERPTR_PROBE;
    user.user_size = 2 * page;
    mprotect(ptr + page, page, PROT_NONE);
    assert_int_equal(client_ioctl(&pvc, DRM_IOCTL_I915_GEM_USERPTR, &user), 0);
    munmap(ptr + page, page);
    assert_int_equal(client_ioctl(&pvc, DRM_IOCTL_I915_GEM_USERPTR, &user), -EFAULT);
}

static void unknown_requests(void **state)
{
    char arg[64] = {0};

    assert_int_equal(client_ioctl(&pvc, _IOWR('x', 1, char[8]), arg), -ENOTTY);
    assert_int_equal(client_ioctl(&pvc, DRM_IOWR(0x9e, char[8]), arg), -EINVAL);
    assert_int_equal(client_ioctl(&pvc, DRM_IOCTL_I915_GEM_PREAD, arg), -EOPNOTSUPP);
}

static void syncobj_rules(void **state)
{
    struct drm_syncobj_create  create  = {.flags = 2};
    struct drm_syncobj_destroy destroy = {0};
    struct drm_syncobj_wait    wait    = {0};
    uint32_t                   handle  = 77;

    assert_int_equal(client_ioctl(&pvc, DRM_IOCTL_SYNCOBJ_CREATE, &create), -EINVAL);
    assert_int_equal(client_ioctl(&pvc, DRM_IOCTL_SYNCOBJ_WAIT, &wait), 0);
    wait.handles       = (uintptr_t)&handle;
    wait.count_handles = 1;
    assert_int_equal(client_ioctl(&pvc, DRM_IOCTL_SYNCOBJ_WAIT, &wait), -ENOENT);
    create.flags = 0;
    assert_int_equal(client_ioctl(&pvc, DRM_IOCTL_SYNCOBJ_CREATE, &create), 0);
    handle = create.handle;
    assert_int_equal(client_ioctl(&pvc, DRM_IOCTL_SYNCOBJ_WAIT, &wait), -EINVAL);
    wait.flags = DRM_SYNCOBJ_WAIT_FLAGS_WAIT_FOR_SUBMIT;
    assert_int_equal(client_ioctl(&pvc, DRM_IOCTL_SYNCOBJ_WAIT, &wait), -ETIME);
    assert_int_equal(client_ioctl(&pvc, DRM_IOCTL_SYNCOBJ_SIGNAL,
                                  &(struct drm_syncobj_array){(uintptr_t)&handle, 1, 0}), 0);
    assert_int_equal(client_ioctl(&pvc, DRM_IOCTL_SYNCOBJ_WAIT, &wait), 0);
    destroy.handle = handle;
    assert_int_equal(client_ioctl(&pvc, DRM_IOCTL_SYNCOBJ_DESTROY, &destroy), 0);
    assert_int_equal(client_ioctl(&pvc, DRM_IOCTL_SYNCOBJ_DESTROY, &destroy), -EINVAL);
}

static void vm_rules(void **state)
{
    struct drm_i915_gem_vm_control    vm    = {.flags = 1};
    struct drm_i915_gem_context_param param = {.param = I915_CONTEXT_PARAM_VM};

    assert_int_equal(client_ioctl(&pvc, DRM_IOCTL_I915_GEM_VM_CREATE, &vm), -EINVAL);
    vm.flags = 0;
    assert_int_equal(client_ioctl(&pvc, DRM_IOCTL_I915_GEM_VM_CREATE, &vm), 0);
    param.value = vm.vm_id + 100;
    assert_int_equal(client_ioctl(&pvc, DRM_IOCTL_I915_GEM_CONTEXT_SETPARAM, &param), -ENOENT);
    param.value = vm.vm_id;
    param.size  = 8;
    assert_int_equal(client_ioctl(&pvc, DRM_IOCTL_I915_GEM_CONTEXT_SETPARAM, &param), -EINVAL);
    param = (struct drm_i915_gem_context_param){.param = I915_CONTEXT_PARAM_GTT_SIZE};
    assert_int_equal(client_ioctl(&pvc, DRM_IOCTL_I915_GEM_CONTEXT_GETPARAM, &param), 0);
    assert_int_equal(param.value, UINT64_C(1) << 57);
    assert_int_equal(client_ioctl(&dg2, DRM_IOCTL_I915_GEM_CONTEXT_GETPARAM, &param), 0);
    assert_int_equal(param.value, UINT64_C(1) << 48);
    assert_int_equal(client_ioctl(&pvc, DRM_IOCTL_I915_GEM_VM_DESTROY, &vm), 0);
    assert_int_equal(client_ioctl(&pvc, DRM_IOCTL_I915_GEM_VM_DESTROY, &vm), -ENOENT);
}

struct profile_case {
    const char *text, *expect; /* in the message */
    int         error;
};

static void bad_profiles(void **state)
{
#define RIGHT                                                                                 \
    "device_id = 1\ngeneration = pvc\nrules = upstream\nsubmission = guc\nsmem = 1G\n"         \
    "gtt_bits = 48\ntimestamp_hz = 1\n"
    static const struct profile_case cases[] = {
        {NULL, "ZERANGE_SOFT=no: no such profile", -ENOENT},
        {RIGHT "copy_engines = 1\n", NULL, 0},
        {RIGHT "copy_engines = 2 # comment\n\ncopy_logical = 1 0\n", NULL, 0},
        {RIGHT, "missing key: copy_engines", -EINVAL},
        {"device_id = 1\ngeneration = gen99\n", "no.profile:2: not valid: generation = gen99, "
                                                "allowed: gen12, gen125, pvc", -EINVAL},
        {"colour = red\n", "no.profile:1: unknown key: colour", -EINVAL},
        {"device_id\n", "no.profile:1: not of the form key = value", -EINVAL},
        {"device_id = 1\ndevice_id = 1\n", "no.profile:2: given twice", -EINVAL},
        {"lmem = 5\n", "a multiple of 64K", -EINVAL},
        {RIGHT "copy_engines = 2\ncopy_logical = 1\n", "one id per copy engine", -EINVAL},
        {RIGHT "copy_engines = 2\ncopy_logical = 1 1\n", "an id twice", -EINVAL},
    };
    struct zr_soft_profile profile;
    char                   dir[] = "/tmp/zr_profile_XXXXXX", path[64];
    unsigned               i;
    FILE                  *f;

    assert_non_null(mkdtemp(dir));
    snprintf(path, sizeof(path), "%s/no.profile", dir);
    for (i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        if (cases[i].text != NULL) {
            f = fopen(path, "w");
            assert_non_null(f);
            fputs(cases[i].text, f);
            fclose(f);
        }
        assert_int_equal(zr_soft_profile_load(dir, "no", &profile), cases[i].error);
        if (cases[i].expect != NULL && strstr(zr_last_error(), cases[i].expect) == NULL) {
            fail_msg("case %u: \"%s\" is not in \"%s\"", i, cases[i].expect, zr_last_error());
        }
    }
    assert_int_equal(zr_soft_profile_load(dir, "../no", &profile), -EINVAL);
    unlink(path);
    rmdir(dir);
}

/* A buffer of one device taken in by another: what may only be local to the first is refused. */
static void prime_between_devices(void **state)
{
    static const struct {
        unsigned class;
        int expect;
    } cases[] = {{I915_MEMORY_CLASS_DEVICE, -EOPNOTSUPP}, {I915_MEMORY_CLASS_SYSTEM, 0}};
    unsigned i;

    for (i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct drm_prime_handle out = {.flags = DRM_CLOEXEC}, in;
        struct drm_gem_close    close_in;
        struct object           o;

        object_create(&pvc, 128 << 10, cases[i].class, &o);
        out.handle = o.handle;
        assert_int_equal(client_ioctl(&pvc, DRM_IOCTL_PRIME_HANDLE_TO_FD, &out), 0);
        in = (struct drm_prime_handle){.fd = out.fd};
        assert_int_equal(client_ioctl(&dg2, DRM_IOCTL_PRIME_FD_TO_HANDLE, &in), cases[i].expect);
        if (cases[i].expect == 0) {
            close_in = (struct drm_gem_close){.handle = in.handle};
            assert_int_equal(client_ioctl(&dg2, DRM_IOCTL_GEM_CLOSE, &close_in), 0);
        }
        close(out.fd);
        object_destroy(&pvc, &o);
    }
}

/* Rows follow logical ids, not instances: fused has instance:logical 0:0 1:3 2:1 3:4 4:2 5:5. */
static void permuted_logical_ids(void **state)
{
    static const struct parallel_case cases[] = {
        {"instances in order", -EINVAL, 0, 1, 0, 2, 1, 0, 0, 0, {COPY(0), COPY(1)}},
        {"logical ids in order", 0, 0, 1, 0, 6, 1, 0, 0, 0,
         {COPY(0), COPY(2), COPY(4), COPY(1), COPY(3), COPY(5)}},
        {"from the middle", 0, 0, 1, 0, 3, 1, 0, 0, 0, {COPY(4), COPY(1), COPY(3)}},
        {"fused off", -EINVAL, 0, 1, 0, 2, 1, 0, 0, 0, {COPY(5), COPY(6)}},
    };
    unsigned i;

    for (i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        assert_int_equal(parallel_create(&fused, &cases[i]), cases[i].expect_pvc);
    }
}

/* Execlists: one placement only. */
static void execlists_siblings(void **state)
{
    static const struct parallel_case cases[] = {
        {"one sibling", 0, 0, 1, 0, 2, 1, 0, 0, 0, {COPY(0), COPY(1)}},
        {"two siblings", -EINVAL, 0, 1, 0, 2, 2, 0, 0, 0, {COPY(0), COPY(0), COPY(1), COPY(1)}},
    };
    unsigned i;

    for (i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        assert_int_equal(parallel_create(&execlists, &cases[i]), cases[i].expect_pvc);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(parallel_rules), cmocka_unit_test(map_rules),
        cmocka_unit_test(exec_rules),     cmocka_unit_test(exec_unknown_context),
        cmocka_unit_test(query_engines),  cmocka_unit_test(query_regions),
        cmocka_unit_test(create_rules),   cmocka_unit_test(mmap_rules),
        cmocka_unit_test(userptr_rules),  cmocka_unit_test(unknown_requests),
        cmocka_unit_test(syncobj_rules),  cmocka_unit_test(vm_rules),
        cmocka_unit_test(bad_profiles),   cmocka_unit_test(prime_between_devices),
        cmocka_unit_test(permuted_logical_ids),
        cmocka_unit_test(execlists_siblings),
    };
    int ret;

    client_profiles("pvc,dg2,pvc-fused,execlists2");
    client_open(&pvc, 0);
    client_open(&dg2, 1);
    client_open(&fused, 2);
    client_open(&execlists, 3);
    ret = cmocka_run_group_tests(tests, NULL, NULL);
    client_close(&execlists);
    client_close(&fused);
    client_close(&dg2);
    client_close(&pvc);
    return ret != 0;
}
