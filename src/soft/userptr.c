/* Objects that are pages of the caller. */
/* SPDX-License-Identifier: BSD-3-Clause */
#include "soft.h"
#include "uapi.h"

#include <errno.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/uio.h>
#include <unistd.h>

#define ZR_SOFT_USER_SHORT (64 * ZR_KIB)

/* EINVAL of madvise means pages that cannot be written, or a kernel before 5.14. */
static bool zr_soft_can_populate(const void *writable)
{
    void *page = (void *)ZR_ALIGN_DOWN((uintptr_t)writable, (uintptr_t)ZR_SOFT_PAGE);

    return madvise(page, ZR_SOFT_PAGE, MADV_POPULATE_WRITE) == 0;
}

/* Are the pages at @a base there, to be written? Brings them in, as get_user_pages does. */
static bool zr_soft_user_pages(const struct zr_soft_bo *bo, char *base, uint64_t size)
{
    uint64_t at;
    char     byte;
    ssize_t  got;

    if (madvise(base, size, MADV_POPULATE_WRITE) == 0) {
        return true;
    }
    if (errno != EINVAL || zr_soft_can_populate(bo)) {
        return false;
    }
    for (at = 0; at < size; at += ZR_SOFT_PAGE) {
        got = process_vm_readv(getpid(), &(struct iovec){&byte, 1}, 1,
                               &(struct iovec){base + at, 1}, 1, 0);
        if (got != 1) {
            return got < 0 && (errno == ENOSYS || errno == EPERM);
        }
    }
    return true;
}

/* The kernel looks at every page when an object is used first, and again when it was told of a
 * change. Nobody tells us: a short object is looked at each time, of a longer one both ends, a
 * page every 2 MiB, and that nothing is unmapped between. */
int zr_soft_bo_check_user(struct zr_soft_bo *bo)
{
    char    *base = bo->user;
    uint64_t at;

    if (bo->mm != NULL) {
        return zr_soft_mm_check(bo->mm, (uintptr_t)bo->user, bo->size, true);
    }
    if (!bo->user_checked || bo->size <= ZR_SOFT_USER_SHORT) {
        bo->user_checked = zr_soft_user_pages(bo, base, bo->size);
        return bo->user_checked ? 0 : -EFAULT;
    }
    bo->user_checked = msync(base, bo->size, MS_ASYNC) == 0 &&
                       zr_soft_user_pages(bo, base + bo->size - ZR_SOFT_PAGE, ZR_SOFT_PAGE);
    for (at = 0; bo->user_checked && at < bo->size; at += 2 * ZR_MIB) {
        bo->user_checked = zr_soft_user_pages(bo, base + at, ZR_SOFT_PAGE);
    }
    return bo->user_checked ? 0 : -EFAULT;
}

int zr_soft_gem_userptr(struct zr_soft_file *file, void *data)
{
    struct drm_i915_gem_userptr *args = data;
    const struct zr_soft_task   *task = zr_soft_task_current();
    struct zr_soft_bo           *bo;

    if (args->flags &
        ~(I915_USERPTR_READ_ONLY | I915_USERPTR_UNSYNCHRONIZED | I915_USERPTR_PROBE)) {
        return -EINVAL;
    }
    if (args->user_size / ZR_SOFT_PAGE > INT32_MAX) {
        return -E2BIG;
    }
    if (args->user_size == 0 || ((args->user_ptr | args->user_size) & (ZR_SOFT_PAGE - 1))) {
        return -EINVAL;
    }
    if (args->user_ptr + args->user_size < args->user_ptr || args->user_ptr == 0 ||
        args->user_ptr + args->user_size > UINT64_C(1) << 47) {
        return -EFAULT;
    }
    /* The latter: read-only pages do not work in the page tables of generation 11 and 12. */
    if (args->flags & (I915_USERPTR_UNSYNCHRONIZED | I915_USERPTR_READ_ONLY)) {
        return -ENODEV;
    }
    /* A probe looks for holes, not at what the pages allow. */
    if ((args->flags & I915_USERPTR_PROBE) &&
        (task != NULL ? zr_soft_mm_check(task->mm, args->user_ptr, args->user_size, false)
                      : msync((void *)(uintptr_t)args->user_ptr, args->user_size, MS_ASYNC)) != 0) {
        return -EFAULT;
    }
    bo = calloc(1, sizeof(*bo));
    if (bo == NULL) {
        return -ENOMEM;
    }
    bo->dev  = file->dev;
    bo->refs = 1;
    file->dev->objects++;
    bo->size = args->user_size;
    bo->smem = true;
    bo->fd   = -1;
    bo->user = (void *)(uintptr_t)args->user_ptr;
    if (task != NULL) {
        bo->mm = zr_soft_mm_get(task->mm);
    } else {
        atomic_store(&bo->cpu, bo->user);
    }
    return zr_soft_bo_add_handle(file, bo, &args->handle);
}
