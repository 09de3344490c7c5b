/* Dirty modes: each does what it says, a seed gives the same run again, and what is allowed to
 * happen happens only where its mode is on. */
/* SPDX-License-Identifier: BSD-3-Clause */
#include <sched.h>

#include "soft_device.h"

#include <signal.h>
#include <sys/wait.h>

#define CALLS 200

static void results(const char *dirty, int out[CALLS])
{
    struct drm_get_cap cap = {.capability = DRM_CAP_PRIME};
    struct rig         r;
    unsigned           i;

    rig_open(&r, "pvc", dirty);
    for (i = 0; i < CALLS; i++) {
        out[i] = zr_soft_file_ioctl(r.file, DRM_IOCTL_GET_CAP, (uintptr_t)&cap);
    }
    rig_close(&r);
}

static void interruptions(void **state)
{
    int      first[CALLS], again[CALLS], other[CALLS], clean[CALLS];
    unsigned i, eintr = 0, eagain = 0, zero = 0;

    results("intr:5", first);
    results("intr:5", again);
    results("intr:6", other);
    results("evict:5", clean);
    assert_memory_equal(first, again, sizeof(first));
    assert_memory_not_equal(first, other, sizeof(first));
    for (i = 0; i < CALLS; i++) {
        eintr += first[i] == -EINTR;
        eagain += first[i] == -EAGAIN;
        zero += first[i] == 0;
        assert_int_equal(clean[i], 0);
    }
    assert_true(eintr > 0 && eagain > 0 && zero > CALLS / 2);
    assert_int_equal(eintr + eagain + zero, CALLS);
}

/* A batch writes to what an execbuf before it had named. @return did it hang within 64 rounds? */
static bool relies_on_binding(const char *dirty)
{
    struct page  target, named, forgets, *both[] = {&target, &named};
    struct page *one[] = {&forgets};
    struct drm_i915_reset_stats stats = {0};
    struct batch b;
    struct rig   r;
    unsigned     round;

    rig_open(&r, "pvc", dirty);
    page_new(&r, 4096, &target);
    page_new(&r, 4096, &named);
    page_new(&r, 4096, &forgets);
    b = batch_in(&named);
    emit_end(&b);
    b = batch_in(&forgets);
    emit_store(&b, target.va, 7);
    emit_end(&b);
    for (round = 0; round < 64 && stats.batch_active == 0; round++) {
        assert_int_equal(submit(&r, 0, I915_EXEC_BLT, both, 2), 0);
        assert_int_equal(submit(&r, 0, I915_EXEC_BLT, one, 1), 0);
        assert_int_equal(page_wait(&r, &forgets, -1), 0);
        assert_int_equal(call(&r, DRM_IOCTL_I915_GET_RESET_STATS, &stats), 0);
        assert_int_equal(target.cpu[0], stats.batch_active == 0 ? 7 : 0);
        target.cpu[0] = 0;
    }
    rig_close(&r);
    return stats.batch_active != 0;
}

static void eviction(void **state)
{
    assert_false(relies_on_binding(NULL));
    assert_true(relies_on_binding("evict:1"));
    assert_true(relies_on_binding("evict:2"));
}

/* Is a copy seen when the marker after it is? @param flush: MI_FLUSH_DW writes the marker */
static bool copy_before_marker(const char *dirty, bool flush)
{
    struct page  data, batch, *list[] = {&data, &batch};
    struct batch b;
    struct rig   r;
    bool         seen;

    rig_open(&r, "pvc", dirty);
    page_new(&r, 64 << 10, &data);
    page_new(&r, 4096, &batch);
    memset((void *)data.cpu, 0x5a, 4096);
    b = batch_in(&batch);
    emit_mem_copy(&b, data.va + 8192, data.va, 4096);
    if (flush) {
        emit_flush_qword(&b, data.va + 32768, 1);
    } else {
        emit_store(&b, data.va + 32768, 1);
    }
    emit_wait_equal(&b, data.va + 36864, 1);
    emit_end(&b);
    assert_int_equal(submit(&r, 0, I915_EXEC_BLT, list, 2), 0);
    word_is(&data.cpu[8192], 1);
    seen = data.cpu[2048 + 1023] == 0x5a5a5a5a;
    __atomic_store_n(&data.cpu[9216], 1, __ATOMIC_SEQ_CST);
    assert_int_equal(page_wait(&r, &data, -1), 0);
    assert_int_equal(data.cpu[2048 + 1023], 0x5a5a5a5a); /* the end of the batch is a flush */
    rig_close(&r);
    return seen;
}

static void lazy_writes(void **state)
{
    assert_true(copy_before_marker(NULL, false));
    assert_false(copy_before_marker("lazy", false));
    assert_true(copy_before_marker("lazy", true));
}

/* What a cached mapping shows after the device wrote, on a part with caches of its own. */
static void shadow_one(const char *profile, const char *dirty, bool coherent)
{
    struct drm_i915_gem_set_domain domain = {.read_domains = I915_GEM_DOMAIN_CPU};
    struct page                    data, batch, *list[] = {&data, &batch};
    volatile uint32_t             *cached;
    struct batch                   b;
    struct rig                     r;

    rig_open(&r, profile, dirty);
    page_new(&r, 4096, &data);
    page_new(&r, 4096, &batch);
    cached        = page_map(&r, data.handle, 4096, I915_MMAP_OFFSET_WB);
    cached[1]     = 11; /* the first use of an object takes what the CPU wrote before */
    b             = batch_in(&batch);
    emit_store(&b, data.va, 7);
    emit_end(&b);
    assert_int_equal(submit(&r, 0, I915_EXEC_BLT, list, 2), 0);
    assert_int_equal(page_wait(&r, &data, -1), 0);
    assert_int_equal(data.cpu[0], 7);
    assert_int_equal(data.cpu[1], 11);
    assert_int_equal(cached[0], coherent ? 7 : 0);
    cached[2] = 13;
    assert_int_equal(data.cpu[2], coherent ? 13 : 0);
    domain.handle = data.handle;
    assert_int_equal(call(&r, DRM_IOCTL_I915_GEM_SET_DOMAIN, &domain), 0);
    assert_int_equal(cached[0], 7);
    domain.write_domain = I915_GEM_DOMAIN_CPU;
    assert_int_equal(call(&r, DRM_IOCTL_I915_GEM_SET_DOMAIN, &domain), 0);
    cached[3]           = 17;
    domain.write_domain = domain.read_domains = I915_GEM_DOMAIN_WC;
    assert_int_equal(call(&r, DRM_IOCTL_I915_GEM_SET_DOMAIN, &domain), 0);
    assert_int_equal(data.cpu[3], 17);
    munmap((void *)cached, 4096);
    rig_close(&r);
}

static void shadows(void **state)
{
    shadow_one("mtl", "shadow", false);
    shadow_one("mtl", NULL, true);
    shadow_one("tgl", "shadow", true); /* one last level cache for both */
}

static uint64_t free_address(const char *dirty)
{
    struct drm_i915_gem_exec_object2 list = {.flags = EXEC_OBJECT_SUPPORTS_48B_ADDRESS};
    struct drm_i915_gem_execbuffer2  exec = {
         .buffers_ptr = (uintptr_t)&list, .buffer_count = 1, .flags = I915_EXEC_BLT};
    struct page  page;
    struct batch b;
    struct rig   r;

    rig_open(&r, "dg2", dirty);
    page_new(&r, 4096, &page);
    b = batch_in(&page);
    emit_end(&b);
    list.handle = page.handle;
    assert_int_equal(call(&r, DRM_IOCTL_I915_GEM_EXECBUFFER2, &exec), 0);
    rig_close(&r);
    return list.offset;
}

static void high_addresses(void **state)
{
    assert_true(free_address(NULL) < UINT64_C(1) << 47);
    assert_true(free_address("high") >> 47 == 0x1ffff); /* canonical: sign extended */
}

static uint32_t device_memory(struct rig *r, uint64_t size, bool visible, int wanted)
{
    struct drm_i915_gem_memory_class_instance     region[2] = {{I915_MEMORY_CLASS_DEVICE, 0},
                                                               {I915_MEMORY_CLASS_SYSTEM, 0}};
    struct drm_i915_gem_create_ext_memory_regions ext       = {
              .base = {.name = I915_GEM_CREATE_EXT_MEMORY_REGIONS},
              .num_regions = visible ? 2 : 1,
              .regions = (uintptr_t)region};
    struct drm_i915_gem_create_ext create = {
        .size = size, .extensions = (uintptr_t)&ext,
        .flags = visible ? I915_GEM_CREATE_EXT_FLAG_NEEDS_CPU_ACCESS : 0};

    assert_int_equal(call(r, DRM_IOCTL_I915_GEM_CREATE_EXT, &create), wanted);
    return create.handle;
}

/* How a child ends that touches the mapping. */
static int touch(volatile uint32_t *cpu)
{
    int   status;
    pid_t pid = fork();

    if (pid == 0) {
        signal(SIGBUS, SIG_DFL);
        cpu[0] = 1;
        _exit(0);
    }
    assert_int_equal(waitpid(pid, &status, 0), pid);
    return WIFSIGNALED(status) ? WTERMSIG(status) : WEXITSTATUS(status);
}

static void small_bar(void **state)
{
    struct rig r;
    uint32_t   handle;

    rig_open(&r, "dg2", "smallbar");
    assert_int_equal(r.dev->profile.visible, 256 << 20);
    handle = device_memory(&r, UINT64_C(512) << 20, false, 0);
    assert_int_equal(touch(page_map(&r, handle, 4096, I915_MMAP_OFFSET_FIXED)), SIGBUS);
    handle = device_memory(&r, UINT64_C(512) << 20, true, 0);
    assert_int_equal(touch(page_map(&r, handle, 4096, I915_MMAP_OFFSET_FIXED)), 0);
    rig_close(&r);
}

/* A ring takes so many requests of which none ends; one more would have to wait. */
static void full_ring(const char *dirty, unsigned room)
{
    struct page  page, *list[] = {&page};
    struct batch b;
    struct rig   r;
    unsigned     i;

    rig_open(&r, "dg2", dirty);
    r.file->nonblock = true;
    page_new(&r, 4096, &page);
    b = batch_in(&page);
    emit_wait_equal(&b, page.va + 2048, 1);
    emit_end(&b);
    for (i = 0; i < room; i++) {
        assert_int_equal(submit(&r, 0, I915_EXEC_BLT, list, 1), 0);
    }
    assert_int_equal(submit(&r, 0, I915_EXEC_BLT, list, 1), -EWOULDBLOCK);
    __atomic_store_n(&page.cpu[512], 1, __ATOMIC_SEQ_CST);
    assert_int_equal(page_wait(&r, &page, -1), 0);
    assert_int_equal(submit(&r, 0, I915_EXEC_BLT, list, 1), 0);
    rig_close(&r);
}

static void limits(void **state)
{
    struct page  page, *list[] = {&page};
    struct batch b;
    struct rig   r;
    unsigned     i, refused = 0;
    int          ret;

    rig_open(&r, "dg2", "memcap");
    device_memory(&r, UINT64_C(2) << 30, false, -E2BIG);
    device_memory(&r, UINT64_C(768) << 20, false, 0);
    device_memory(&r, UINT64_C(768) << 20, false, -ENOMEM);
    rig_close(&r);

    rig_open(&r, "dg2", "nospc:3");
    page_new(&r, 4096, &page);
    b = batch_in(&page);
    emit_end(&b);
    for (i = 0; i < 64; i++) {
        ret = submit(&r, 0, I915_EXEC_BLT, list, 1);
        assert_true(ret == 0 || ret == -ENOSPC);
        refused += ret != 0;
    }
    assert_true(refused >= 1 && refused <= 32);
    rig_close(&r);

    full_ring(NULL, 61);
    full_ring("ring", 7);
}

static void bad_values(void **state)
{
    static const char *const values[] = {"soap", "evict,", "evict:", "evict:x", "evict:1x", ":1",
                                         "evict;lazy", "evict:-1"};
    struct rig r;
    unsigned   i;

    for (i = 0; i < ZR_ARRAY_SIZE(values); i++) {
        if (rig_try(&r, "pvc", &(struct zr_soft_options){.dirty = values[i]}) != -EINVAL) {
            fail_msg("ZERANGE_SOFT_DIRTY=%s is taken", values[i]);
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(interruptions), cmocka_unit_test(eviction),
        cmocka_unit_test(lazy_writes),   cmocka_unit_test(shadows),
        cmocka_unit_test(high_addresses), cmocka_unit_test(small_bar),
        cmocka_unit_test(limits),        cmocka_unit_test(bad_values),
    };

    client_profiles("pvc");
    return cmocka_run_group_tests(tests, NULL, NULL);
}
