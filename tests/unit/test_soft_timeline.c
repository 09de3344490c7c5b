/* Syncobjs with a timeline, sync_files made of several fences, fences that an execbuf waits for and
 * signals, and a submission that waits for the start of another. */
/* SPDX-License-Identifier: BSD-3-Clause */
#include <sched.h>

#include "soft_device.h"
#include "soft/uapi.h"

#include <linux/dma-buf.h>
#include <linux/sync_file.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/wait.h>

#define SYNCOBJ_EVENTFD DRM_IOWR(0xcf, struct zr_syncobj_eventfd)

static uint32_t syncobj(struct rig *r)
{
    struct drm_syncobj_create create = {0};

    assert_int_equal(call(r, DRM_IOCTL_SYNCOBJ_CREATE, &create), 0);
    return create.handle;
}

static int signal_point(struct rig *r, uint32_t handle, uint64_t point)
{
    struct drm_syncobj_timeline_array args = {
        .handles = (uintptr_t)&handle, .points = (uintptr_t)&point, .count_handles = 1};

    return call(r, DRM_IOCTL_SYNCOBJ_TIMELINE_SIGNAL, &args);
}

static uint64_t query(struct rig *r, uint32_t handle, uint32_t flags)
{
    uint64_t                          point = 77;
    struct drm_syncobj_timeline_array args  = {.handles       = (uintptr_t)&handle,
                                               .points        = (uintptr_t)&point,
                                               .count_handles = 1,
                                               .flags         = flags};

    assert_int_equal(call(r, DRM_IOCTL_SYNCOBJ_QUERY, &args), 0);
    return point;
}

static int wait_point(struct rig *r, uint32_t handle, uint64_t point, uint32_t flags)
{
    struct drm_syncobj_timeline_wait args = {.handles       = (uintptr_t)&handle,
                                             .points        = (uintptr_t)&point,
                                             .count_handles = 1,
                                             .flags         = flags};

    return call(r, DRM_IOCTL_SYNCOBJ_TIMELINE_WAIT, &args);
}

/* A batch behind a gate; it signals @a handle at @a point (0: binary) after waiting for another. */
struct gated {
    struct page page;
    uint32_t    context; /* of its own: no order but the fences' */
};

static void gated_new(struct rig *r, struct gated *g)
{
    struct drm_i915_gem_context_create_ext create = {0};
    struct batch                           b;

    assert_int_equal(call(r, DRM_IOCTL_I915_GEM_CONTEXT_CREATE_EXT, &create), 0);
    g->context = create.ctx_id;
    page_new(r, 4096, &g->page);
    b = batch_in(&g->page);
    emit_store(&b, g->page.va + 2052, 1);
    emit_wait_equal(&b, g->page.va + 2048, 1);
    emit_end(&b);
}

static void gate_open(struct gated *g)
{
    __atomic_store_n(&g->page.cpu[512], 1, __ATOMIC_SEQ_CST);
}

static int gated_run(struct rig *r, struct gated *g, struct drm_i915_gem_exec_fence *fences,
                     uint64_t *points, unsigned count)
{
    struct drm_i915_gem_execbuffer_ext_timeline_fences ext = {
        .base        = {.name = DRM_I915_GEM_EXECBUFFER_EXT_TIMELINE_FENCES},
        .fence_count = count,
        .handles_ptr = (uintptr_t)fences,
        .values_ptr  = (uintptr_t)points};
    struct drm_i915_gem_exec_object2 object = {
        .handle = g->page.handle, .offset = g->page.va, .flags = NEW_OBJECT_FLAGS};
    struct drm_i915_gem_execbuffer2 exec = {.buffers_ptr   = (uintptr_t)&object,
                                            .buffer_count  = 1,
                                            .cliprects_ptr = (uintptr_t)&ext,
                                            .rsvd1         = g->context,
                                            .flags = I915_EXEC_BLT | I915_EXEC_USE_EXTENSIONS};

    return call(r, DRM_IOCTL_I915_GEM_EXECBUFFER2, &exec);
}

static void points(void **state)
{
    const uint32_t for_submit = DRM_SYNCOBJ_WAIT_FLAGS_WAIT_FOR_SUBMIT;
    const uint32_t available  = DRM_SYNCOBJ_WAIT_FLAGS_WAIT_AVAILABLE;
    struct drm_i915_gem_exec_fence signal = {.flags = I915_EXEC_FENCE_SIGNAL};
    uint64_t                       point  = 20;
    struct gated                   g;
    struct rig                     r;
    uint32_t                       s;

    rig_open(&r, "pvc", NULL);
    s = syncobj(&r);
    assert_int_equal(query(&r, s, 0), 0);
    assert_int_equal(wait_point(&r, s, 10, 0), -EINVAL); /* nobody has submitted it */
    assert_int_equal(wait_point(&r, s, 10, for_submit), -ETIME);
    assert_int_equal(signal_point(&r, s, 10), 0);
    assert_int_equal(query(&r, s, 0), 10);
    assert_int_equal(wait_point(&r, s, 10, 0), 0);
    assert_int_equal(wait_point(&r, s, 5, 0), 0);
    assert_int_equal(wait_point(&r, s, 11, 0), -EINVAL);

    gated_new(&r, &g);
    signal.handle = s;
    assert_int_equal(gated_run(&r, &g, &signal, &point, 1), 0);
    assert_int_equal(query(&r, s, 0), 10);
    assert_int_equal(query(&r, s, DRM_SYNCOBJ_QUERY_FLAGS_LAST_SUBMITTED), 20);
    assert_int_equal(wait_point(&r, s, 10, 0), 0);
    assert_int_equal(wait_point(&r, s, 15, 0), -ETIME); /* comes with 20 */
    assert_int_equal(wait_point(&r, s, 20, available), 0);
    assert_int_equal(signal_point(&r, s, 30), 0); /* but 20 is before it */
    assert_int_equal(wait_point(&r, s, 30, 0), -ETIME);
    assert_int_equal(query(&r, s, 0), 10);
    gate_open(&g);
    assert_int_equal(page_wait(&r, &g.page, -1), 0);
    assert_int_equal(wait_point(&r, s, 30, 0), 0);
    assert_int_equal(query(&r, s, 0), 30);
    rig_close(&r);
}

static void exec_rules(void **state)
{
    static const struct {
        uint32_t flags;
        uint64_t point;
        bool     unknown;
        int      wanted;
    } cases[] = {
        {I915_EXEC_FENCE_WAIT, 4, false, 0},
        {I915_EXEC_FENCE_WAIT, 5, false, -EINVAL},
        {I915_EXEC_FENCE_WAIT | I915_EXEC_FENCE_SIGNAL, 6, false, -EINVAL},
        {I915_EXEC_FENCE_WAIT | I915_EXEC_FENCE_SIGNAL, 0, false, 0},
        {1u << 7, 0, false, -EINVAL},
        {I915_EXEC_FENCE_WAIT, 4, true, -ENOENT},
    };
    struct drm_i915_gem_exec_fence fence;
    struct gated                   g;
    struct rig                     r;
    uint64_t                       point;
    unsigned                       i;

    rig_open(&r, "pvc", NULL);
    gated_new(&r, &g);
    gate_open(&g);
    for (i = 0; i < ZR_ARRAY_SIZE(cases); i++) {
        fence = (struct drm_i915_gem_exec_fence){.handle = syncobj(&r), .flags = cases[i].flags};
        assert_int_equal(signal_point(&r, fence.handle, 4), 0);
        fence.handle += cases[i].unknown ? 100 : 0;
        point = cases[i].point;
        if (gated_run(&r, &g, &fence, &point, 1) != cases[i].wanted) {
            fail_msg("case %u: not %d", i, cases[i].wanted);
        }
    }
    rig_close(&r);
}

/* The second batch waits for a point that the first one signals. */
static void exec_order(void **state)
{
    struct drm_i915_gem_exec_fence fence = {.flags = I915_EXEC_FENCE_SIGNAL};
    struct gated                   first, second;
    struct rig                     r;
    uint64_t                       point = 3;

    rig_open(&r, "pvc", NULL);
    fence.handle = syncobj(&r);
    gated_new(&r, &first);
    gated_new(&r, &second);
    gate_open(&second);
    assert_int_equal(gated_run(&r, &first, &fence, &point, 1), 0);
    fence.flags = I915_EXEC_FENCE_WAIT;
    assert_int_equal(gated_run(&r, &second, &fence, &point, 1), 0);
    assert_int_equal(page_wait(&r, &second.page, 20 * 1000 * 1000), -ETIME);
    assert_int_equal(second.page.cpu[513], 0);
    gate_open(&first);
    assert_int_equal(page_wait(&r, &second.page, -1), 0);
    assert_int_equal(second.page.cpu[513], 1);
    rig_close(&r);
}

static int export_sync(struct rig *r, uint32_t handle)
{
    struct drm_syncobj_handle args = {
        .handle = handle, .flags = DRM_SYNCOBJ_HANDLE_TO_FD_FLAGS_EXPORT_SYNC_FILE};

    assert_int_equal(call(r, DRM_IOCTL_SYNCOBJ_HANDLE_TO_FD, &args), 0);
    return args.fd;
}

static int readable(int fd)
{
    struct pollfd p = {.fd = fd, .events = POLLIN};

    return poll(&p, 1, 0);
}

static struct sync_file_info info(struct rig *r, int fd)
{
    struct sync_file_info args = {0};

    assert_int_equal(zr_soft_fd_call(r->dev, fd, SYNC_IOC_FILE_INFO, &args), 0);
    return args;
}

static void sync_files(void **state)
{
    struct drm_i915_gem_exec_fence signal = {.flags = I915_EXEC_FENCE_SIGNAL};
    struct drm_syncobj_handle      import = {
             .flags = DRM_SYNCOBJ_FD_TO_HANDLE_FLAGS_IMPORT_SYNC_FILE};
    struct sync_merge_data merge = {0};
    struct gated           g[2];
    struct rig             r;
    uint64_t               binary = 0;
    uint32_t               s[2];
    unsigned               i;
    int                    fd[2];

    rig_open(&r, "pvc", NULL);
    for (i = 0; i < 2; i++) {
        gated_new(&r, &g[i]);
        s[i] = signal.handle = syncobj(&r);
        assert_int_equal(gated_run(&r, &g[i], &signal, &binary, 1), 0);
        fd[i] = export_sync(&r, s[i]);
    }
    merge.fd2 = fd[1];
    assert_int_equal(zr_soft_fd_call(r.dev, fd[0], SYNC_IOC_MERGE, &merge), 0);
    assert_int_equal(info(&r, merge.fence).num_fences, 2);
    assert_int_equal(info(&r, merge.fence).status, 0);
    gate_open(&g[1]);
    assert_int_equal(page_wait(&r, &g[1].page, -1), 0);
    assert_int_equal(readable(fd[1]), 1);
    assert_int_equal(readable(fd[0]), 0);
    assert_int_equal(readable(merge.fence), 0);
    import.fd     = merge.fence;
    import.handle = syncobj(&r);
    assert_int_equal(call(&r, DRM_IOCTL_SYNCOBJ_FD_TO_HANDLE, &import), 0);
    assert_int_equal(wait_point(&r, import.handle, 0, 0), -ETIME);
    gate_open(&g[0]);
    assert_int_equal(page_wait(&r, &g[0].page, -1), 0);
    assert_int_equal(readable(merge.fence), 1);
    assert_int_equal(info(&r, merge.fence).status, 1);
    assert_int_equal(info(&r, merge.fence).num_fences, 2);
    assert_int_equal(wait_point(&r, import.handle, 0, 0), 0);
    assert_int_equal(zr_soft_fd_call(r.dev, 0, SYNC_IOC_FILE_INFO, &merge), -EINVAL);
    rig_close(&r);
}

/* A syncobj through an fd is the same one, and lives as long as either. */
static void syncobj_fds(void **state)
{
    struct drm_syncobj_handle  args = {0};
    struct drm_syncobj_destroy destroy;
    struct rig                 r;

    rig_open(&r, "pvc", NULL);
    args.handle = destroy.handle = syncobj(&r);
    destroy.pad = 0;
    assert_int_equal(call(&r, DRM_IOCTL_SYNCOBJ_HANDLE_TO_FD, &args), 0);
    assert_int_equal(signal_point(&r, args.handle, 8), 0);
    assert_int_equal(call(&r, DRM_IOCTL_SYNCOBJ_DESTROY, &destroy), 0);
    args.handle = 0;
    assert_int_equal(call(&r, DRM_IOCTL_SYNCOBJ_FD_TO_HANDLE, &args), 0);
    assert_int_equal(query(&r, args.handle, 0), 8);
    close(args.fd);
    args.fd = 0;
    assert_int_equal(call(&r, DRM_IOCTL_SYNCOBJ_FD_TO_HANDLE, &args), -EINVAL);
    rig_close(&r);
}

static void transfers(void **state)
{
    struct drm_syncobj_transfer args = {0};
    struct rig                  r;

    rig_open(&r, "pvc", NULL);
    args.src_handle = syncobj(&r);
    args.dst_handle = syncobj(&r);
    args.src_point  = 4;
    args.dst_point  = 9;
    assert_int_equal(call(&r, DRM_IOCTL_SYNCOBJ_TRANSFER, &args), -EINVAL);
    assert_int_equal(signal_point(&r, args.src_handle, 4), 0);
    assert_int_equal(call(&r, DRM_IOCTL_SYNCOBJ_TRANSFER, &args), 0);
    assert_int_equal(query(&r, args.dst_handle, 0), 9);
    args.pad = 1;
    assert_int_equal(call(&r, DRM_IOCTL_SYNCOBJ_TRANSFER, &args), -EINVAL);
    args.pad        = 0;
    args.dst_handle = 99;
    assert_int_equal(call(&r, DRM_IOCTL_SYNCOBJ_TRANSFER, &args), -ENOENT);
    rig_close(&r);
}

/* FENCE_SUBMIT: the other has started, and still runs. */
static void submit_fence(void **state)
{
    struct drm_i915_gem_exec_fence signal = {.flags = I915_EXEC_FENCE_SIGNAL};
    struct drm_i915_gem_exec_object2 object = {.flags = NEW_OBJECT_FLAGS};
    struct drm_i915_gem_execbuffer2  exec   = {
           .buffers_ptr = (uintptr_t)&object, .buffer_count = 1,
           .flags = I915_EXEC_DEFAULT | I915_EXEC_FENCE_SUBMIT};
    struct gated g, other;
    struct rig   r;
    uint64_t     binary = 0;

    rig_open(&r, "dg2", NULL);
    gated_new(&r, &g);
    gated_new(&r, &other);
    gate_open(&other);
    signal.handle = syncobj(&r);
    assert_int_equal(gated_run(&r, &g, &signal, &binary, 1), 0);
    exec.rsvd1    = other.context;
    exec.rsvd2    = (uint32_t)export_sync(&r, signal.handle);
    object.handle = other.page.handle;
    object.offset = other.page.va;
    assert_int_equal(call(&r, DRM_IOCTL_I915_GEM_EXECBUFFER2, &exec), 0);
    assert_int_equal(page_wait(&r, &other.page, -1), 0);
    assert_int_equal(page_wait(&r, &g.page, 0), -ETIME);
    exec.flags |= I915_EXEC_FENCE_IN;
    assert_int_equal(call(&r, DRM_IOCTL_I915_GEM_EXECBUFFER2, &exec), -EINVAL);
    gate_open(&g);
    assert_int_equal(page_wait(&r, &g.page, -1), 0);
    rig_close(&r);
}

static void dma_bufs(void **state)
{
    struct dma_buf_export_sync_file export = {.flags = DMA_BUF_SYNC_RW};
    struct dma_buf_sync             sync   = {.flags = DMA_BUF_SYNC_START | DMA_BUF_SYNC_RW};
    struct drm_prime_handle         prime  = {.flags = DRM_CLOEXEC};
    struct gated                    g;
    struct rig                      r;

    rig_open(&r, "pvc", NULL);
    gated_new(&r, &g);
    prime.handle = g.page.handle;
    assert_int_equal(call(&r, DRM_IOCTL_PRIME_HANDLE_TO_FD, &prime), 0);
    assert_int_equal(gated_run(&r, &g, NULL, NULL, 0), 0);
    assert_int_equal(zr_soft_fd_call(r.dev, prime.fd, DMA_BUF_IOCTL_EXPORT_SYNC_FILE, &export), 0);
    assert_int_equal(readable(export.fd), 0);
    gate_open(&g);
    assert_int_equal(zr_soft_fd_call(r.dev, prime.fd, DMA_BUF_IOCTL_SYNC, &sync), 0);
    assert_int_equal(readable(export.fd), 1);
    sync.flags = 1u << 9;
    assert_int_equal(zr_soft_fd_call(r.dev, prime.fd, DMA_BUF_IOCTL_SYNC, &sync), -EINVAL);
    export.flags = 0;
    assert_int_equal(zr_soft_fd_call(r.dev, prime.fd, DMA_BUF_IOCTL_EXPORT_SYNC_FILE, &export),
                     -EINVAL);
    assert_int_equal(zr_soft_fd_call(r.dev, prime.fd, SYNC_IOC_FILE_INFO, &export), -ENOTTY);
    rig_close(&r);
}

/* An eventfd is written once: when the point is signalled, or has a fence if that is enough. */
static void eventfds(void **state)
{
    struct rig r;
    uint64_t   value = 0;
    int        fd = eventfd(0, EFD_NONBLOCK), other = eventfd(0, EFD_NONBLOCK), pipes[2];

    rig_open(&r, "dg2", NULL);
    assert_int_equal(pipe(pipes), 0);
    {
        uint32_t handle = syncobj(&r);
        struct zr_syncobj_eventfd args = {.handle = handle, .point = 2, .fd = fd};

        args.flags = 1;
        assert_int_equal(call(&r, SYNCOBJ_EVENTFD, &args), -EINVAL);
        args.flags = 0;
        args.pad   = 1;
        assert_int_equal(call(&r, SYNCOBJ_EVENTFD, &args), -EINVAL);
        args.pad    = 0;
        args.handle = handle + 9;
        assert_int_equal(call(&r, SYNCOBJ_EVENTFD, &args), -ENOENT);
        args.handle = handle;
        args.fd     = -1;
        assert_int_equal(call(&r, SYNCOBJ_EVENTFD, &args), -EBADF);
        args.fd = pipes[1];
        assert_int_equal(call(&r, SYNCOBJ_EVENTFD, &args), -EINVAL);
        args.fd = fd;
        assert_int_equal(call(&r, SYNCOBJ_EVENTFD, &args), 0);
        args.fd    = other;
        args.point = 3;
        assert_int_equal(call(&r, SYNCOBJ_EVENTFD, &args), 0);
        assert_int_equal(signal_point(&r, handle, 1), 0);
        assert_int_equal(eventfd_read(fd, &value), -1);
        assert_int_equal(signal_point(&r, handle, 2), 0);
        assert_int_equal(eventfd_read(fd, &value), 0);
        assert_int_equal(value, 1);
        assert_int_equal(eventfd_read(other, &value), -1);
        assert_int_equal(signal_point(&r, handle, 5), 0);
        assert_int_equal(eventfd_read(other, &value), 0);
        assert_int_equal(eventfd_read(fd, &value), -1);
        args.fd = fd; /* what is over already */
        assert_int_equal(call(&r, SYNCOBJ_EVENTFD, &args), 0);
        assert_int_equal(eventfd_read(fd, &value), 0);
        args.point = 9; /* goes with its syncobj */
        assert_int_equal(call(&r, SYNCOBJ_EVENTFD, &args), 0);
    }
    rig_close(&r);
    assert_int_equal(eventfd_read(fd, &value), -1);
    close(fd);
    close(other);
    close(pipes[0]);
    close(pipes[1]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(eventfds),    cmocka_unit_test(points),      cmocka_unit_test(exec_rules),
        cmocka_unit_test(exec_order),  cmocka_unit_test(sync_files),
        cmocka_unit_test(syncobj_fds), cmocka_unit_test(transfers),
        cmocka_unit_test(submit_fence), cmocka_unit_test(dma_bufs),
    };

    client_profiles("pvc");
    return cmocka_run_group_tests(tests, NULL, NULL);
}
