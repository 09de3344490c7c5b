/* Requests: what the DRM core asks before the driver, who calls, and the handlers. Part of soft.h. */
/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef ZR_SOFT_IOCTL_H
#define ZR_SOFT_IOCTL_H

#include "device.h"

/* ---- drm.c: the DRM core around the driver ---- */

/* What a request needs; render nodes have those without PRIMARY. */
#define ZR_SOFT_PRIMARY 1u
#define ZR_SOFT_AUTH    2u
#define ZR_SOFT_MASTER  4u
#define ZR_SOFT_ROOT    8u
#define ZR_SOFT_BACKPORTS 16u /* a request that only backports rules have */
int  zr_soft_permit(const struct zr_soft_file *file, unsigned flags);
/* It was opened through a primary node. */
void zr_soft_file_set_primary(struct zr_soft_file *file);
void zr_soft_file_leave(struct zr_soft_file *file);
int  zr_soft_get_unique(struct zr_soft_file *file, void *data);
int  zr_soft_get_magic(struct zr_soft_file *file, void *data);
int  zr_soft_auth_magic(struct zr_soft_file *file, void *data);
int  zr_soft_get_client(struct zr_soft_file *file, void *data);
int  zr_soft_get_stats(struct zr_soft_file *file, void *data);
int  zr_soft_set_version(struct zr_soft_file *file, void *data);
int  zr_soft_set_master(struct zr_soft_file *file, void *data);
int  zr_soft_drop_master(struct zr_soft_file *file, void *data);
int  zr_soft_flink(struct zr_soft_file *file, void *data);
int  zr_soft_open_name(struct zr_soft_file *file, void *data);

/* ---- misc.c ---- */

int zr_soft_throttle(struct zr_soft_file *file, void *data);
int zr_soft_sw_finish(struct zr_soft_file *file, void *data);
int zr_soft_get_aperture(struct zr_soft_file *file, void *data);
int zr_soft_madvise(struct zr_soft_file *file, void *data);
int zr_soft_set_tiling(struct zr_soft_file *file, void *data);
int zr_soft_get_tiling(struct zr_soft_file *file, void *data);
int zr_soft_reg_read(struct zr_soft_file *file, void *data);
/* debugfs i915_gem_drop_caches: wait for what is running, or end it. 0 or -EINTR */
#define ZR_SOFT_DROP_ACTIVE       UINT64_C(0x08)
#define ZR_SOFT_DROP_IDLE         UINT64_C(0x40)
#define ZR_SOFT_DROP_RESET_ACTIVE UINT64_C(0x80)
int zr_soft_dev_drop_caches(struct zr_soft_dev *dev, uint64_t what);
/* debugfs i915_wedged: reset the engines; who runs on one is guilty. */
void zr_soft_dev_unwedge(struct zr_soft_dev *dev);

/* ---- task.c: who calls. In process there is no task, and user memory is this process's. ---- */

/* The memory of another process; engines reach userptr objects of it through this. */
struct zr_soft_mm {
    atomic_uint refs;
    atomic_bool gone; /* the process has ended, or runs another program */
    pid_t       pid;
};

/* A thread of another process in an ioctl. */
struct zr_soft_task {
    struct zr_soft_mm *mm;
    uint64_t           capabilities;
    atomic_bool        interrupted; /* waits end with -EINTR; set with the device lock held */
};

struct zr_soft_mm *zr_soft_mm_create(pid_t pid);
struct zr_soft_mm *zr_soft_mm_get(struct zr_soft_mm *mm);
void zr_soft_mm_put(struct zr_soft_mm *mm);
/* 0 or -EFAULT */
int zr_soft_mm_read(struct zr_soft_mm *mm, uint64_t from, void *to, size_t size);
int zr_soft_mm_write(struct zr_soft_mm *mm, uint64_t to, const void *from, size_t size);
/* Is all of the range mapped, and writable if asked? */
int zr_soft_mm_check(struct zr_soft_mm *mm, uint64_t start, uint64_t size, bool writable);
/* The calling thread acts for @a task until it enters another one; NULL: for itself. */
void                 zr_soft_task_enter(struct zr_soft_task *task);
struct zr_soft_task *zr_soft_task_current(void);
/* Effective capabilities of the caller, a bit each. */
uint64_t zr_soft_task_capabilities(void);

/* User memory of the ioctl's caller. 0 or -EFAULT. */
int zr_soft_copy_in(void *to, uint64_t from, size_t size);
int zr_soft_copy_out(uint64_t to, const void *from, size_t size);
typedef int (*zr_soft_ext_fn)(void *arg, uint64_t ext);
/* The chain of struct i915_user_extension at @a ext; @a fns by name, NULL: refused. */
int zr_soft_extensions(uint64_t ext, const zr_soft_ext_fn *fns, unsigned count, void *arg);
/* Where backports rules are: its own extensions are counted in the same table. */
int zr_soft_prelim_extensions(uint64_t ext, const zr_soft_ext_fn *fns, unsigned count, void *arg);

/* Handlers, called with the device lock held; data is the kernel's copy of the argument. */
int zr_soft_getparam(struct zr_soft_file *file, void *data);
int zr_soft_query(struct zr_soft_file *file, void *data);
int zr_soft_gem_create(struct zr_soft_file *file, void *data);
int zr_soft_gem_create_ext(struct zr_soft_file *file, void *data);
int zr_soft_gem_close(struct zr_soft_file *file, void *data);
int zr_soft_gem_mmap_offset(struct zr_soft_file *file, void *data);
int zr_soft_gem_userptr(struct zr_soft_file *file, void *data);
int zr_soft_gem_wait(struct zr_soft_file *file, void *data);
int zr_soft_gem_busy(struct zr_soft_file *file, void *data);
int zr_soft_pread(struct zr_soft_file *file, void *data);
int zr_soft_pwrite(struct zr_soft_file *file, void *data);
int zr_soft_set_domain(struct zr_soft_file *file, void *data);
int zr_soft_set_caching(struct zr_soft_file *file, void *data);
int zr_soft_get_caching(struct zr_soft_file *file, void *data);
/* Of a caller in another process addr_ptr becomes an offset of its file, for the host to map. */
int zr_soft_gem_mmap(struct zr_soft_file *file, void *data);
int zr_soft_prime_to_fd(struct zr_soft_file *file, void *data);
int zr_soft_prime_to_handle(struct zr_soft_file *file, void *data);
int zr_soft_vm_create(struct zr_soft_file *file, void *data);
int zr_soft_vm_destroy(struct zr_soft_file *file, void *data);
int zr_soft_context_create(struct zr_soft_file *file, void *data);
int zr_soft_context_destroy(struct zr_soft_file *file, void *data);
int zr_soft_context_getparam(struct zr_soft_file *file, void *data);
int zr_soft_context_setparam(struct zr_soft_file *file, void *data);
int zr_soft_reset_stats(struct zr_soft_file *file, void *data);
int zr_soft_execbuffer2(struct zr_soft_file *file, void *data);
int zr_soft_syncobj_create(struct zr_soft_file *file, void *data);
int zr_soft_syncobj_destroy(struct zr_soft_file *file, void *data);
int zr_soft_syncobj_wait(struct zr_soft_file *file, void *data);
int zr_soft_syncobj_reset(struct zr_soft_file *file, void *data);
int zr_soft_syncobj_signal(struct zr_soft_file *file, void *data);
int zr_soft_syncobj_transfer(struct zr_soft_file *file, void *data);
int zr_soft_syncobj_query(struct zr_soft_file *file, void *data);
int zr_soft_syncobj_timeline_signal(struct zr_soft_file *file, void *data);
int zr_soft_syncobj_timeline_wait(struct zr_soft_file *file, void *data);
int zr_soft_syncobj_to_handle(struct zr_soft_file *file, void *data);
int zr_soft_syncobj_to_fd(struct zr_soft_file *file, void *data);

#endif
