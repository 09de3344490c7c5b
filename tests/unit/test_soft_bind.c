/* What backports rules add (src/soft/prelim.c): binding by the client, objects of one address space,
 * fences in memory, contexts that run long; and that upstream rules know none of it. */
/* SPDX-License-Identifier: BSD-3-Clause */
#include "soft_device.h"

#include "soft/uapi_prelim.h"

#include <drm.h>

#define PRELIM_CREATE      DRM_IOWR(DRM_COMMAND_BASE + DRM_I915_GEM_CREATE, struct zr_prelim_create)
#define PRELIM_BIND        DRM_IOW(DRM_COMMAND_BASE + ZR_PRELIM_VM_BIND, struct zr_prelim_bind)
#define PRELIM_UNBIND      DRM_IOW(DRM_COMMAND_BASE + ZR_PRELIM_VM_UNBIND, struct zr_prelim_bind)
#define PRELIM_WAIT        DRM_IOWR(DRM_COMMAND_BASE + ZR_PRELIM_WAIT_USER_FENCE, struct zr_prelim_wait)
#define PRELIM_RESET_STATS                                                                    \
    DRM_IOWR(DRM_COMMAND_BASE + ZR_PRELIM_GET_RESET_STATS, struct zr_prelim_reset_stats)

#define BYTES (1u << 20)
#define VA    UINT64_C(0x4000000000)

static struct rig rig;

static uint32_t vm_new(struct rig *r, uint32_t flags)
{
    struct drm_i915_gem_vm_control args = {.flags = flags};

    assert_int_equal(call(r, DRM_IOCTL_I915_GEM_VM_CREATE, &args), 0);
    return args.vm_id;
}

static int bind(uint32_t vm, uint32_t handle, uint64_t start, uint64_t offset, uint64_t length)
{
    struct zr_prelim_bind args = {vm, handle, start, offset, length, ZR_PRELIM_BIND_IMMEDIATE, 0};

    return call(&rig, PRELIM_BIND, &args);
}

static int unbind(uint32_t vm, uint64_t start, uint64_t length)
{
    struct zr_prelim_bind args = {.vm = vm, .start = start, .length = length};

    return call(&rig, PRELIM_UNBIND, &args);
}

/* A context of the first copy engine, in @a vm. */
static uint32_t context_new(uint32_t vm, uint32_t flags)
{
    I915_DEFINE_CONTEXT_PARAM_ENGINES(map, 1) = {.engines = {{I915_ENGINE_CLASS_COPY, 0}}};
    struct drm_i915_gem_context_create_ext_setparam engines = {
        .base  = {.name = I915_CONTEXT_CREATE_EXT_SETPARAM},
        .param = {.param = I915_CONTEXT_PARAM_ENGINES,
                  .size  = sizeof(map),
                  .value = (uintptr_t)&map},
    };
    struct drm_i915_gem_context_create_ext_setparam space = {
        .base  = {.name           = I915_CONTEXT_CREATE_EXT_SETPARAM,
                  .next_extension = (uintptr_t)&engines},
        .param = {.param = I915_CONTEXT_PARAM_VM, .value = vm},
    };
    struct drm_i915_gem_context_create_ext args = {
        .flags      = I915_CONTEXT_CREATE_FLAGS_USE_EXTENSIONS | flags,
        .extensions = (uintptr_t)&space,
    };

    assert_int_equal(call(&rig, DRM_IOCTL_I915_GEM_CONTEXT_CREATE_EXT, &args), 0);
    return args.ctx_id;
}

/* An execbuf of what is bound at @a va, whatever its handle; at its end @a value goes to @a tell. */
static int run(uint32_t ctx, uint64_t va, uint64_t tell, uint64_t value)
{
    struct zr_prelim_exec_fence fence = {.base    = {.name = ZR_PRELIM | ZR_PRELIM_EXEC_USER_FENCE},
                                         .address = tell,
                                         .value   = value};
    struct drm_i915_gem_exec_object2 object = {.offset = va, .flags = NEW_OBJECT_FLAGS};
    struct drm_i915_gem_execbuffer2  exec   = {.buffers_ptr  = (uintptr_t)&object,
                                               .buffer_count = 1,
                                               .rsvd1        = ctx,
                                               .flags        = I915_EXEC_NO_RELOC};

    if (tell != 0) {
        exec.flags |= I915_EXEC_USE_EXTENSIONS;
        exec.cliprects_ptr = (uintptr_t)&fence;
    }
    return call(&rig, DRM_IOCTL_I915_GEM_EXECBUFFER2, &exec);
}

static int wait_word(const volatile uint64_t *word, uint64_t value, uint32_t ctx, int64_t timeout)
{
    struct zr_prelim_wait args = {
        .address = (uintptr_t)word,
        .context = ctx,
        .op      = ZR_PRELIM_GTE,
        .flags   = ctx == 0 ? ZR_PRELIM_WAIT_SOFT : 0,
        .value   = value,
        .mask    = UINT64_MAX,
        .timeout = timeout,
    };

    return call(&rig, PRELIM_WAIT, &args);
}

static void upstream_has_none(void **state)
{
    struct rig                     dg2;
    struct zr_prelim_bind          binding = {0};
    struct zr_prelim_wait          wait    = {0};
    struct zr_prelim_create        create  = {.size = 4096, .extensions = 8};
    struct drm_i915_gem_vm_control vm      = {.flags = ZR_PRELIM_VM_BIND_ONLY};
    struct drm_i915_getparam       param   = {.param = ZR_PRELIM_PARAM_HAS_VM_BIND, .value = (int[1]){0}};
    struct drm_i915_query_item item = {.query_id = ZR_PRELIM | ZR_PRELIM_QUERY_ENGINES};
    struct drm_i915_query      query = {.num_items = 1, .items_ptr = (uintptr_t)&item};

    rig_open(&dg2, "dg2", NULL);
    assert_int_equal(call(&dg2, PRELIM_BIND, &binding), -EINVAL);
    assert_int_equal(call(&dg2, PRELIM_WAIT, &wait), -EINVAL);
    assert_int_equal(call(&dg2, DRM_IOCTL_I915_GEM_VM_CREATE, &vm), -EINVAL);
    assert_int_equal(call(&dg2, DRM_IOCTL_I915_GETPARAM, &param), -EINVAL);
    assert_int_equal(call(&dg2, DRM_IOCTL_I915_QUERY, &query), 0);
    assert_int_equal(item.length, -EINVAL);
    assert_int_equal(call(&dg2, PRELIM_CREATE, &create), 0); /* what it does not know it ignores */
    assert_int_equal(create.extensions, 8);
    rig_close(&dg2);
}

static void bind_rules(void **state)
{
    uint32_t    vm = vm_new(&rig, ZR_PRELIM_VM_BIND_ONLY | ZR_PRELIM_VM_PAGE_FAULT);
    struct page p;

    page_new(&rig, BYTES, &p);
    {
        const struct {
            uint32_t vm, handle;
            uint64_t start, offset, length;
            int      expect;
        } cases[] = {
            {vm + 99, p.handle, VA, 0, BYTES, -ENOENT}, {vm, 999, VA, 0, BYTES, -ENOENT},
            {vm, p.handle, VA, 0, 0, -EINVAL},          {vm, p.handle, VA, 0, BYTES + 4096, -EINVAL},
            {vm, p.handle, VA, 4096, BYTES, -EINVAL},   {vm, p.handle, VA, 1, 4096, -EINVAL},
            {vm, p.handle, VA, 0, 100, -EINVAL},        {vm, p.handle, VA + 8, 0, 4096, -EINVAL},
            {vm, p.handle, VA, 0, BYTES, 0},            {vm, p.handle, VA, 0, BYTES, -EEXIST},
            {vm, p.handle, VA + 4096, 0, 4096, -EEXIST},
            {vm, p.handle, VA - 4096, 0, 8192, -ENOSPC},
            {vm, p.handle, VA + BYTES, 8192, 4096, 0}, /* a second time, a part of it */
        };
        unsigned i;

        for (i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
            if (bind(cases[i].vm, cases[i].handle, cases[i].start, cases[i].offset,
                     cases[i].length) != cases[i].expect) {
                fail_msg("case %u", i);
            }
        }
    }
    assert_int_equal(unbind(vm, VA - 4096, 4096), -ENOENT);
    assert_int_equal(unbind(vm, VA, 4096), -EINVAL);
    assert_int_equal(unbind(vm, VA, BYTES), 0);
    assert_int_equal(unbind(vm, VA, BYTES), -ENOENT);
    assert_int_equal(unbind(vm, VA + BYTES, 4096), 0);
    assert_int_equal(bind(vm, p.handle, VA, 0, BYTES), 0);
    page_free(&rig, &p); /* the binding keeps the object */
    assert_int_equal(unbind(vm, VA, BYTES), 0);
}

static void private_objects(void **state)
{
    uint32_t vm = vm_new(&rig, 0), other = vm_new(&rig, 0);
    struct zr_prelim_create_private own    = {.base = {.name = ZR_PRELIM | ZR_PRELIM_CREATE_VM_PRIVATE},
                                              .vm = vm};
    struct drm_i915_gem_memory_class_instance region = {I915_MEMORY_CLASS_DEVICE, 0};
    struct zr_prelim_create_param where = {.base = {.name = ZR_PRELIM | ZR_PRELIM_CREATE_SETPARAM,
                                                    .next_extension = (uintptr_t)&own},
                                           .size = 1,
                                           .param = ZR_PRELIM_OBJECT_REGIONS,
                                           .data  = (uintptr_t)&region};
    struct zr_prelim_create create = {.size = BYTES, .extensions = (uintptr_t)&where};
    struct drm_prime_handle prime  = {.flags = DRM_CLOEXEC};

    assert_int_equal(call(&rig, PRELIM_CREATE, &create), 0);
    prime.handle = create.handle;
    assert_int_equal(call(&rig, DRM_IOCTL_PRIME_HANDLE_TO_FD, &prime), -EPERM);
    assert_int_equal(bind(other, create.handle, VA, 0, BYTES), -EPERM);
    assert_int_equal(bind(vm, create.handle, VA, 4096, 65536), -EINVAL); /* device memory: 64 KiB */
    assert_int_equal(bind(vm, create.handle, VA, 65536, 65536), 0);
    own.vm = 999;
    assert_int_equal(call(&rig, PRELIM_CREATE, &create), -ENOENT);
    where.size = 0;
    assert_int_equal(call(&rig, PRELIM_CREATE, &create), -EINVAL);
}

/* One copy goes over two objects that are bound side by side, each in part. */
static void parts_side_by_side(void **state)
{
    uint32_t    vm = vm_new(&rig, 0), ctx = context_new(vm, 0);
    struct page a, b, batch, told;
    struct batch at;
    uint64_t    value;
    unsigned    i;

    page_new(&rig, BYTES, &a);
    page_new(&rig, BYTES, &b);
    page_new(&rig, 4096, &batch);
    page_new(&rig, 4096, &told);
    for (i = 0; i < BYTES / 4; i++) {
        a.cpu[i] = i;
        b.cpu[i] = ~i;
    }
    assert_int_equal(bind(vm, a.handle, VA, 8192, 4096), 0);
    assert_int_equal(bind(vm, b.handle, VA + 4096, 4096, 4096), 0);
    assert_int_equal(bind(vm, b.handle, VA + 65536, 65536, 8192), 0);
    assert_int_equal(bind(vm, batch.handle, VA + (1 << 21), 0, 4096), 0);
    assert_int_equal(bind(vm, told.handle, VA + (2 << 21), 0, 4096), 0);
    at = batch_in(&batch);
    emit_mem_copy(&at, VA + 65536, VA, 8192);
    emit_end(&at);
    assert_int_equal(run(ctx, VA + (1 << 21), VA + (2 << 21) + 12, 1), -EINVAL);
    value = UINT64_C(0x100000007);
    assert_int_equal(run(ctx, VA + (1 << 21), VA + (2 << 21) + 16, value), 0);
    assert_int_equal(wait_word((volatile uint64_t *)told.cpu + 2, value, ctx, -1), 0);
    for (i = 0; i < 1024; i++) {
        assert_int_equal(b.cpu[16384 + i], 2048 + i);
        assert_int_equal(b.cpu[16384 + 1024 + i], ~(1024 + i));
    }
    assert_int_equal(b.cpu[16384 + 2048], ~(16384u + 2048));
    page_free(&rig, &a);
    page_free(&rig, &b);
    page_free(&rig, &batch);
    page_free(&rig, &told);
}

static void waiting(void **state)
{
    uint64_t              word = 5;
    struct zr_prelim_wait args = {.address = (uintptr_t)&word, .op = ZR_PRELIM_EQ,
                                  .flags = ZR_PRELIM_WAIT_SOFT, .value = 0x105, .mask = 0xff};

    assert_int_equal(call(&rig, PRELIM_WAIT, &args), 0); /* only what the mask has */
    args.mask = 0xffff;
    assert_int_equal(call(&rig, PRELIM_WAIT, &args), -ETIME);
    args.address++;
    assert_int_equal(call(&rig, PRELIM_WAIT, &args), -EINVAL);
    args.address = 8;
    assert_int_equal(call(&rig, PRELIM_WAIT, &args), -EFAULT);
    args.address = (uintptr_t)&word;
    args.mask    = 0;
    assert_int_equal(call(&rig, PRELIM_WAIT, &args), -EINVAL);
    assert_int_equal(wait_word(&word, 6, 12345, 0), -ENOENT); /* no such context */
}

/* Who runs long sees what is bound after it has started; its end is its client's. */
static void long_running(void **state)
{
    uint32_t     vm = vm_new(&rig, 0), ctx = context_new(vm, ZR_PRELIM_CONTEXT_LONG_RUNNING);
    struct page  batch, gate, late;
    struct batch at;

    page_new(&rig, 4096, &batch);
    page_new(&rig, 4096, &gate);
    page_new(&rig, 4096, &late);
    assert_int_equal(bind(vm, batch.handle, VA, 0, 4096), 0);
    assert_int_equal(bind(vm, gate.handle, VA + (1 << 21), 0, 4096), 0);
    at = batch_in(&batch);
    emit_wait_equal(&at, VA + (1 << 21), 1);
    emit_store(&at, VA + (2 << 21), 0x600d);
    emit_end(&at);
    assert_int_equal(run(ctx, VA, 0, 0), 0);
    assert_int_equal(bind(vm, late.handle, VA + (2 << 21), 0, 4096), 0);
    gate.cpu[0] = 1;
    word_is(&late.cpu[0], 0x600d);
    page_free(&rig, &batch);
    page_free(&rig, &gate);
    page_free(&rig, &late);
}

/* A context that hung says so in the longer answer, and who waits for its fence is told. */
static void hung(void **state)
{
    uint32_t     vm = vm_new(&rig, 0), ctx = context_new(vm, 0);
    struct zr_prelim_reset_stats                    stats = {.context = ctx};
    struct drm_i915_gem_context_param param = {.ctx_id = ctx, .param = I915_CONTEXT_PARAM_RECOVERABLE};
    struct page  batch;
    struct batch at;
    uint64_t     word = 0;

    assert_int_equal(call(&rig, DRM_IOCTL_I915_GEM_CONTEXT_SETPARAM, &param), 0);
    page_new(&rig, 4096, &batch);
    assert_int_equal(bind(vm, batch.handle, VA, 0, 4096), 0);
    at = batch_in(&batch);
    emit_store(&at, VA + (1 << 21), 1); /* nothing is bound there */
    emit_end(&at);
    assert_int_equal(call(&rig, PRELIM_RESET_STATS, &stats), 0);
    assert_int_equal(stats.status | stats.batch_active, 0);
    assert_int_equal(run(ctx, VA, 0, 0), 0);
    assert_int_equal(wait_word(&word, 1, ctx, -1), -EIO);
    stats = (struct zr_prelim_reset_stats){.context = ctx};
    assert_int_equal(call(&rig, PRELIM_RESET_STATS, &stats), 0);
    assert_int_equal(stats.status, ZR_PRELIM_STATUS_BANNED);
    assert_int_equal(stats.batch_active, 1);
    page_free(&rig, &batch);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(upstream_has_none), cmocka_unit_test(bind_rules),
        cmocka_unit_test(private_objects),   cmocka_unit_test(parts_side_by_side),
        cmocka_unit_test(waiting),           cmocka_unit_test(long_running),
        cmocka_unit_test(hung),
    };
    int ret;

    client_profiles("pvc,dg2");
    rig_open(&rig, "pvc", NULL);
    ret = cmocka_run_group_tests(tests, NULL, NULL);
    rig_close(&rig);
    return ret != 0;
}
