/* Faults on demand: each kind of rule meets the call it names, and the device behaves as after a
 * real one. */
/* SPDX-License-Identifier: BSD-3-Clause */
#include "soft/soft.h"
#include "soft_client.h"

#include <errno.h>

struct rig {
    struct zr_soft_dev  *dev;
    struct zr_soft_file *file;
};

static int rig_try(struct rig *r, const char *rules)
{
    struct zr_soft_options options = {.threads = 2, .faults = rules};
    struct zr_soft_profile profile;
    int                    ret;

    assert_int_equal(zr_soft_profile_load(zr_config()->profiles, "pvc", &profile), 0);
    ret = zr_soft_dev_create(&profile, &options, &r->dev);
    if (ret == 0) {
        assert_int_equal(zr_soft_file_open(r->dev, &r->file), 0);
    }
    return ret;
}

static void rig_open(struct rig *r, const char *rules)
{
    assert_int_equal(rig_try(r, rules), 0);
}

static void rig_close(struct rig *r)
{
    zr_soft_file_close(r->file);
    zr_soft_dev_destroy(r->dev);
}

static int call(struct rig *r, unsigned long request, void *arg)
{
    return zr_soft_file_ioctl(r->file, request, (uintptr_t)arg);
}

static uint32_t create(struct rig *r, int wanted)
{
    struct drm_i915_gem_create args = {.size = 4096};

    assert_int_equal(call(r, DRM_IOCTL_I915_GEM_CREATE, &args), wanted);
    return args.handle;
}

/* A batch that ends at once; @return execbuf's result */
static int submit(struct rig *r, uint32_t ctx, uint32_t *handle_p)
{
    struct drm_i915_gem_mmap_offset  offset = {.flags = I915_MMAP_OFFSET_WC};
    struct drm_i915_gem_exec_object2 object = {.flags = EXEC_OBJECT_SUPPORTS_48B_ADDRESS};
    struct drm_i915_gem_execbuffer2  exec   = {
           .buffers_ptr = (uintptr_t)&object, .buffer_count = 1, .rsvd1 = ctx, .flags = I915_EXEC_BLT};
    uint32_t *cpu;

    *handle_p = object.handle = offset.handle = create(r, 0);
    assert_int_equal(call(r, DRM_IOCTL_I915_GEM_MMAP_OFFSET, &offset), 0);
    cpu = zr_soft_file_mmap(r->file, NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, offset.offset);
    assert_ptr_not_equal(cpu, MAP_FAILED);
    cpu[0] = 0x05000000;
    assert_int_equal(munmap(cpu, 4096), 0);
    return call(r, DRM_IOCTL_I915_GEM_EXECBUFFER2, &exec);
}

static void wait_idle(struct rig *r, uint32_t handle)
{
    struct drm_i915_gem_wait wait = {.bo_handle = handle, .timeout_ns = -1};

    assert_int_equal(call(r, DRM_IOCTL_I915_GEM_WAIT, &wait), 0);
}

static void ioctls(void **state)
{
    struct rig r;
    unsigned   i;
    static const int wanted[] = {0, -ENOMEM, 0, -EINTR, -EINTR, 0};

    rig_open(&r, "GEM_CREATE@2=ENOMEM,0x5b@4-5=EINTR");
    for (i = 0; i < ZR_ARRAY_SIZE(wanted); i++) {
        create(&r, wanted[i]);
    }
    rig_close(&r);
    rig_open(&r, "GEM_CREATE@3+=28,mmap@1=EAGAIN");
    create(&r, 0);
    create(&r, 0);
    create(&r, -ENOSPC);
    create(&r, -ENOSPC);
    errno = 0;
    assert_ptr_equal(zr_soft_file_mmap(r.file, NULL, 4096, PROT_READ, MAP_SHARED, 0), MAP_FAILED);
    assert_int_equal(errno, EAGAIN);
    rig_close(&r);
}

static void submissions(void **state)
{
    static const struct {
        const char *rules;
        int         second, third; /* results of the next execbufs */
        unsigned    guilty, innocent, resets;
        int         context; /* of creating one afterwards */
    } cases[] = {
        {"submit@1=hang", 0, 0, 1, 0, 0, 0},
        {"submit@1=ban", -EIO, -EIO, 1, 0, 0, 0},
        {"submit@1=reset", 0, 0, 0, 1, 1, 0},
        {"submit@1=wedge", -EIO, -EIO, 0, 1, 1, -EIO},
        {"submit@2+=reset", 0, 0, 0, 2, 2, 0},
    };
    struct drm_i915_gem_context_create_ext create_ctx = {0};
    struct drm_i915_reset_stats            stats;
    struct rig                             r;
    uint32_t                               handle;
    unsigned                               i;

    for (i = 0; i < ZR_ARRAY_SIZE(cases); i++) {
        rig_open(&r, cases[i].rules);
        r.file->admin = true; /* or the count of resets is not told */
        memset(&stats, 0, sizeof(stats));
        assert_int_equal(submit(&r, 0, &handle), 0);
        wait_idle(&r, handle);
        assert_int_equal(submit(&r, 0, &handle), cases[i].second);
        wait_idle(&r, handle);
        assert_int_equal(submit(&r, 0, &handle), cases[i].third);
        wait_idle(&r, handle);
        assert_int_equal(call(&r, DRM_IOCTL_I915_GET_RESET_STATS, &stats), 0);
        assert_int_equal(stats.batch_active, cases[i].guilty);
        assert_int_equal(stats.batch_pending, cases[i].innocent);
        assert_int_equal(stats.reset_count, cases[i].resets);
        assert_int_equal(call(&r, DRM_IOCTL_I915_GEM_CONTEXT_CREATE_EXT, &create_ctx),
                         cases[i].context);
        rig_close(&r);
    }
}

static void bad_rules(void **state)
{
    static const char *const rules[] = {
        "GEM_CREATE", "GEM_CREATE@1", "GEM_CREATE=EIO", "NO_SUCH@1=EIO", "GEM_CREATE@0=EIO",
        "GEM_CREATE@2-1=EIO", "GEM_CREATE@1=EFOO", "GEM_CREATE@1=0", "submit@1=EIO",
        "submit@1=melt", "GEM_CREATE@1=hang", "256@1=EIO", "GEM_CREATE@x=EIO",
    };
    struct rig r;
    unsigned   i;

    for (i = 0; i < ZR_ARRAY_SIZE(rules); i++) {
        assert_int_equal(rig_try(&r, rules[i]), -EINVAL);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(ioctls),
        cmocka_unit_test(submissions),
        cmocka_unit_test(bad_rules),
    };

    client_profiles("pvc");
    return cmocka_run_group_tests(tests, NULL, NULL);
}
