/* PRIME: a memfd stands for a dma-buf; its inode is the buffer's identity. */
/* SPDX-License-Identifier: BSD-3-Clause */
#include "soft.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define ZR_SOFT_SEAL_EXEC 0x20 /* the system may add it to every memfd */

int zr_soft_prime_to_fd(struct zr_soft_file *file, void *data)
{
    struct drm_prime_handle *args = data;
    struct zr_soft_bo       *bo;
    int                      fd, ret;

    if (args->flags & ~(DRM_CLOEXEC | DRM_RDWR)) {
        return -EINVAL;
    }
    bo = zr_soft_bo_find(file, args->handle);
    if (bo == NULL) {
        return -ENOENT;
    }
    if (bo->vm != 0) {
        return -EPERM; /* private to an address space */
    }
    if (bo->user != NULL) {
        return -EINVAL; /* userptr objects cannot be exported */
    }
    zr_soft_bo_get(bo);
    ret = zr_soft_bo_own(bo);
    if (ret == 0) {
        fd = fcntl(bo->fd, args->flags & DRM_CLOEXEC ? F_DUPFD_CLOEXEC : F_DUPFD, 0);
        if (fd < 0) {
            ret = -errno;
        } else {
            args->fd = fd;
        }
    }
    zr_soft_bo_put(bo);
    return ret;
}

/* Only an object's own memory can be taken in: anything else is not a dma-buf. */
static int zr_soft_prime_check(int fd, struct stat *st)
{
    int seals;

    if (fstat(fd, st) != 0) {
        return -EBADF;
    }
    seals = fcntl(fd, F_GET_SEALS);
    if (seals < 0 || (seals & ~ZR_SOFT_SEAL_EXEC) != ZR_SOFT_SEALS || st->st_size <= 0) {
        return -EINVAL;
    }
    return 0;
}

/* Whose memory it is by its name; *local_p: it may live in device memory only. 0 or -errno */
static int zr_soft_prime_name(int fd, unsigned *unit_p, bool *local_p)
{
    static const char prefix[] = "/memfd:i915-";
    char              path[32] = "/proc/self/fd/", name[64];
    char             *end = path + sizeof(path) - 1, *at = name;
    unsigned          unit = 0, rest = (unsigned)fd;
    ssize_t           n;

    /* By hand: printf and scanf take as long as the rest. */
    do {
        *--end = (char)('0' + rest % 10);
        rest /= 10;
    } while (rest != 0);
    memmove(path + sizeof("/proc/self/fd/") - 1, end, strlen(end) + 1);
    n = readlink(path, name, sizeof(name) - 1);
    if (n < 0) {
        return -errno;
    }
    name[n] = '\0';
    if (strncmp(name, prefix, sizeof(prefix) - 1) != 0) {
        return -EINVAL;
    }
    for (at += sizeof(prefix) - 1; *at >= '0' && *at <= '9' && unit < 10000; at++) {
        unit = 10 * unit + (unsigned)(*at - '0');
    }
    if (at == name + sizeof(prefix) - 1 || *at++ != '-' || strlen(at) < 4) {
        return -EINVAL;
    }
    *unit_p  = unit;
    *local_p = strncmp(at, "lmem", 4) == 0;
    return 0;
}

/* The attach of the kernel: memory that may only be local to another device cannot be moved to
 * where this one reaches it. */
static int zr_soft_prime_attach(const struct zr_soft_dev *dev, int fd, const struct stat *st,
                                bool *foreign_p)
{
    int64_t  stamp = (int64_t)st->st_atim.tv_sec - ZR_SOFT_STAMP;
    unsigned unit  = (unsigned)stamp / 2;
    bool     local = stamp & 1;
    int      ret   = 0;

    if (stamp < 0 || stamp >= 2 * ZR_SOFT_STAMP_UNITS || st->st_atim.tv_nsec != 0) {
        ret = zr_soft_prime_name(fd, &unit, &local);
    }
    *foreign_p = unit != dev->options.unit;
    return ret == 0 && local && *foreign_p ? -EOPNOTSUPP : ret;
}

struct zr_soft_bo *zr_soft_bo_by_fd(struct zr_soft_dev *dev, int fd)
{
    struct zr_soft_bo *bo = NULL;
    struct stat        st;

    if (zr_soft_prime_check(fd, &st) == 0) {
        bo = dev->bo_by_inode[st.st_ino % ZR_SOFT_BO_BUCKETS];
        while (bo != NULL && (bo->st_ino != st.st_ino || bo->st_dev != st.st_dev)) {
            bo = bo->next_inode;
        }
    }
    return bo;
}

int zr_soft_prime_to_handle(struct zr_soft_file *file, void *data)
{
    struct drm_prime_handle *args = data;
    struct zr_soft_dev      *dev  = file->dev;
    struct zr_soft_handle   *handle;
    struct zr_soft_bo       *bo;
    struct stat              st;
    bool                     foreign;
    int                      fd, ret;

    ret = zr_soft_prime_check(args->fd, &st);
    if (ret != 0) {
        return ret;
    }
    for (bo = dev->bo_by_inode[st.st_ino % ZR_SOFT_BO_BUCKETS]; bo != NULL; bo = bo->next_inode) {
        if (bo->st_ino != st.st_ino || bo->st_dev != st.st_dev) {
            continue;
        }
        for (handle = bo->handles; handle != NULL; handle = handle->next) {
            if (handle->file == file) {
                args->handle = handle->handle;
                return 0;
            }
        }
        return zr_soft_bo_add_handle(file, zr_soft_bo_get(bo), &args->handle);
    }
    ret = zr_soft_prime_attach(dev, args->fd, &st, &foreign);
    if (ret != 0) {
        return ret;
    }
    fd = zr_soft_fd_copy_up(args->fd);
    if (fd < 0) {
        return fd;
    }
    ret = zr_soft_bo_from_fd(dev, fd, &st, &bo);
    if (ret != 0) {
        close(fd);
        return ret;
    }
    /* The exporter's placement is not known here; the stricter alignment is right for both. The
     * memory is charged where it was made. */
    bo->imported = true;
    bo->foreign  = foreign;
    bo->lmem     = dev->profile.lmem != 0;
    bo->smem     = true;
    return zr_soft_bo_add_handle(file, bo, &args->handle);
}
