/* Who calls the device: this process by plain pointers, or another one whose memory and capabilities
 * a server reaches for it. */
/* SPDX-License-Identifier: BSD-3-Clause */
#include "soft.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/capability.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

static __thread struct zr_soft_task *current;

void zr_soft_task_enter(struct zr_soft_task *task)
{
    current = task;
}

struct zr_soft_task *zr_soft_task_current(void)
{
    return current;
}

struct zr_soft_mm *zr_soft_mm_create(pid_t pid)
{
    struct zr_soft_mm *mm = calloc(1, sizeof(*mm));

    if (mm != NULL) {
        atomic_init(&mm->refs, 1);
        mm->pid = pid;
    }
    return mm;
}

struct zr_soft_mm *zr_soft_mm_get(struct zr_soft_mm *mm)
{
    atomic_fetch_add(&mm->refs, 1);
    return mm;
}

void zr_soft_mm_put(struct zr_soft_mm *mm)
{
    if (mm != NULL && atomic_fetch_sub(&mm->refs, 1) == 1) {
        free(mm);
    }
}

static int zr_soft_mm_move(struct zr_soft_mm *mm, uint64_t address, void *local, size_t size,
                           bool write)
{
    struct iovec here  = {local, size};
    struct iovec there = {(void *)(uintptr_t)address, size};
    ssize_t      moved;

    if (atomic_load(&mm->gone)) {
        return -EFAULT;
    }
    while (size > 0) {
        moved = write ? process_vm_writev(mm->pid, &here, 1, &there, 1, 0)
                      : process_vm_readv(mm->pid, &here, 1, &there, 1, 0);
        if (moved <= 0) {
            return -EFAULT; /* whatever hinders us from reaching a page */
        }
        size -= (size_t)moved;
        here.iov_base  = (char *)here.iov_base + moved;
        there.iov_base = (char *)there.iov_base + moved;
        here.iov_len = there.iov_len = size;
    }
    return 0;
}

/* Pages that may only be written can be read all the same on x86; process_vm_readv refuses them. */
static int zr_soft_mm_read_forced(struct zr_soft_mm *mm, uint64_t from, void *to, size_t size)
{
    char    path[32];
    ssize_t got;
    int     fd;

    if (zr_soft_mm_check(mm, from, size, true) != 0) {
        return -EFAULT;
    }
    snprintf(path, sizeof(path), "/proc/%d/mem", (int)mm->pid);
    fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0) {
        return -EFAULT;
    }
    got = pread(fd, to, size, (off_t)from);
    close(fd);
    return got == (ssize_t)size ? 0 : -EFAULT;
}

int zr_soft_mm_read(struct zr_soft_mm *mm, uint64_t from, void *to, size_t size)
{
    return zr_soft_mm_move(mm, from, to, size, false) == 0
               ? 0
               : zr_soft_mm_read_forced(mm, from, to, size);
}

int zr_soft_mm_write(struct zr_soft_mm *mm, uint64_t to, const void *from, size_t size)
{
    return zr_soft_mm_move(mm, to, (void *)(uintptr_t)from, size, true);
}

int zr_soft_mm_check(struct zr_soft_mm *mm, uint64_t start, uint64_t size, bool writable)
{
    char          path[32], line[512], access[8];
    unsigned long from, to;
    uint64_t      at = start;
    FILE         *f;

    snprintf(path, sizeof(path), "/proc/%d/maps", (int)mm->pid);
    f = atomic_load(&mm->gone) ? NULL : fopen(path, "re");
    if (f == NULL) {
        return -EFAULT;
    }
    while (at < start + size && fgets(line, sizeof(line), f) != NULL) {
        if (sscanf(line, "%lx-%lx %7s", &from, &to, access) != 3 || to <= at) {
            continue;
        }
        if (from > at || (writable && access[1] != 'w')) {
            break;
        }
        at = to;
    }
    fclose(f);
    return at >= start + size ? 0 : -EFAULT;
}

int zr_soft_copy_in(void *to, uint64_t from, size_t size)
{
    if (from < ZR_SOFT_PAGE) {
        return -EFAULT;
    }
    if (current != NULL) {
        return zr_soft_mm_read(current->mm, from, to, size);
    }
    memcpy(to, (const void *)(uintptr_t)from, size);
    return 0;
}

int zr_soft_copy_out(uint64_t to, const void *from, size_t size)
{
    if (to < ZR_SOFT_PAGE) {
        return -EFAULT;
    }
    if (current != NULL) {
        return zr_soft_mm_write(current->mm, to, from, size);
    }
    memcpy((void *)(uintptr_t)to, from, size);
    return 0;
}

uint64_t zr_soft_task_capabilities(void)
{
    struct __user_cap_header_struct header = {.version = _LINUX_CAPABILITY_VERSION_3};
    struct __user_cap_data_struct   data[2];

    if (current != NULL) {
        return current->capabilities;
    }
    if (syscall(SYS_capget, &header, data) != 0) {
        return 0;
    }
    return data[0].effective | (uint64_t)data[1].effective << 32;
}
