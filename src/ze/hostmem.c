/* Plain host memory for the copy engines: userptr objects over the pages of a buffer, the last
 * used ones kept. i915 follows the page tables of the process (mmu notifier), so an object made
 * for a piece of VA shows whatever is mapped there when it is used; where nothing is any more,
 * the submission fails and the caller asks for a fresh one. */
/* SPDX-License-Identifier: BSD-3-Clause */
#include "ze.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/uio.h>
#include <unistd.h>

#ifndef MADV_POPULATE_WRITE
#define MADV_POPULATE_WRITE 23 /* Linux 5.14 */
#endif

#define ZR_HOSTMEM_KEPT 32

struct zr_hostmem_entry {
    uintptr_t     start, end; /* page aligned */
    struct zr_bo *bo;         /* NULL: unused */
    uint64_t      used;       /* when last, in calls */
};

struct zr_hostmem {
    struct zr_i915         *i915;
    pthread_mutex_t         lock; /* guards what follows; between the copy queue's and the VA's */
    uint64_t                calls;
    struct zr_hostmem_entry entry[ZR_HOSTMEM_KEPT];
};

ze_result_t zr_hostmem_create(struct zr_i915 *i915, struct zr_hostmem **hostmem_p)
{
    struct zr_hostmem *hostmem = calloc(1, sizeof(*hostmem));

    if (hostmem == NULL) {
        return zr_fail(ZE_RESULT_ERROR_OUT_OF_HOST_MEMORY, "no memory for a device");
    }
    hostmem->i915 = i915;
    pthread_mutex_init(&hostmem->lock, NULL);
    *hostmem_p = hostmem;
    return ZE_RESULT_SUCCESS;
}

void zr_hostmem_destroy(struct zr_hostmem *hostmem)
{
    for (unsigned i = 0; i < ZR_HOSTMEM_KEPT; i++) {
        if (hostmem->entry[i].bo != NULL) {
            zr_bo_unref(hostmem->entry[i].bo);
        }
    }
    pthread_mutex_destroy(&hostmem->lock);
    free(hostmem);
}

/* With the lock held: drop every entry that shares a page with [start, end). */
static void zr_hostmem_forget(struct zr_hostmem *hostmem, uintptr_t start, uintptr_t end)
{
    for (unsigned i = 0; i < ZR_HOSTMEM_KEPT; i++) {
        struct zr_hostmem_entry *entry = &hostmem->entry[i];

        if (entry->bo != NULL && entry->start < end && start < entry->end) {
            zr_bo_unref(entry->bo);
            entry->bo = NULL;
        }
    }
}

/* With the lock held: the entry that covers [start, end), else NULL and *oldest_p. */
static struct zr_hostmem_entry *zr_hostmem_find(struct zr_hostmem *hostmem, uintptr_t start,
                                                uintptr_t end, struct zr_hostmem_entry **oldest_p)
{
    struct zr_hostmem_entry *oldest = &hostmem->entry[0];

    for (unsigned i = 0; i < ZR_HOSTMEM_KEPT; i++) {
        struct zr_hostmem_entry *entry = &hostmem->entry[i];

        if (entry->bo != NULL && entry->start <= start && end <= entry->end) {
            return entry;
        }
        if (oldest->bo != NULL && (entry->bo == NULL || entry->used < oldest->used)) {
            oldest = entry;
        }
    }
    *oldest_p = oldest;
    return NULL;
}

/* i915 pins the pages of a userptr object for writing, and says no only at submission. Asked here
 * of a new object (a kernel before 5.14 cannot be), a source that is read-only can be read by
 * other means. */
static ze_result_t zr_hostmem_check_writable(uintptr_t start, uintptr_t end)
{
    if (madvise((void *)start, end - start, MADV_POPULATE_WRITE) == 0 ||
        madvise((void *)start, 0, MADV_POPULATE_WRITE) != 0) {
        return ZE_RESULT_SUCCESS;
    }
    return zr_fail(ZE_RESULT_ERROR_INVALID_ARGUMENT, "host memory %p..%p cannot be written",
                   (void *)start, (void *)end);
}

ze_result_t zr_hostmem_bounce(struct zr_hostmem *hostmem, const void *ptr, size_t size,
                              struct zr_bo **bo_p)
{
    struct zr_bo *bo;
    void         *cpu;
    size_t        done = 0;
    ssize_t       n    = 0;
    ze_result_t   result;

    result = zr_bo_create(hostmem->i915, size, ZR_PLACE_SYSTEM, ZR_CACHE_CACHED, &bo);
    if (result != ZE_RESULT_SUCCESS) {
        return result;
    }
    result = zr_bo_map(bo, NULL, 0, bo->size, PROT_READ | PROT_WRITE, &cpu);
    if (result != ZE_RESULT_SUCCESS) {
        goto err_unref;
    }
    /* By the kernel, since a plain read of memory that is gone would end the application. */
    while (done < size) {
        struct iovec to   = {(char *)cpu + done, size - done};
        struct iovec from = {(char *)ptr + done, size - done};

        n = process_vm_readv(getpid(), &to, 1, &from, 1, 0);
        if (n <= 0) {
            break;
        }
        done += n;
    }
    zr_bo_unmap(bo, cpu, bo->size);
    if (done < size) {
        result = zr_fail(ZE_RESULT_ERROR_INVALID_ARGUMENT,
                         "host memory %p..%p cannot be read at %p: %s", ptr,
                         (const char *)ptr + size, (const char *)ptr + done,
                         n < 0 ? strerror(errno) : "nothing there");
        goto err_unref;
    }
    *bo_p = bo;
    return ZE_RESULT_SUCCESS;

err_unref:
    zr_bo_unref(bo);
    return result;
}

ze_result_t zr_hostmem_get(struct zr_hostmem *hostmem, const void *ptr, size_t size, bool fresh,
                           struct zr_bo **bo_p, uint64_t *offset_p)
{
    const uintptr_t          page  = sysconf(_SC_PAGESIZE);
    const uintptr_t          start = ZR_ALIGN_DOWN((uintptr_t)ptr, page);
    const uintptr_t          end   = ZR_ALIGN_UP((uintptr_t)ptr + size, page);
    struct zr_hostmem_entry *entry, *oldest = NULL;
    struct zr_bo            *bo;
    ze_result_t              result = ZE_RESULT_SUCCESS;

    pthread_mutex_lock(&hostmem->lock);
    if (fresh) {
        zr_hostmem_forget(hostmem, start, end);
    }
    entry = zr_hostmem_find(hostmem, start, end, &oldest);
    if (entry == NULL) {
        result = zr_hostmem_check_writable(start, end);
        if (result != ZE_RESULT_SUCCESS) {
            goto out;
        }
        result = zr_bo_create_userptr(hostmem->i915, (void *)start, end - start, &bo);
        if (result != ZE_RESULT_SUCCESS) {
            goto out;
        }
        entry = oldest;
        if (entry->bo != NULL) {
            zr_bo_unref(entry->bo);
        }
        *entry = (struct zr_hostmem_entry){.start = start, .end = end, .bo = bo};
    }
    entry->used = ++hostmem->calls;
    *bo_p       = zr_bo_ref(entry->bo);
    *offset_p   = (uintptr_t)ptr - entry->start;
out:
    pthread_mutex_unlock(&hostmem->lock);
    return result;
}
