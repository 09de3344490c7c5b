/* The C library's functions on fds: DRM, dma-buf and sync_file requests go to the server. */
/* SPDX-License-Identifier: BSD-3-Clause */
#include "shim.h"

#include <errno.h>
#include <fcntl.h>
#include <i915_drm.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/msg.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

#define ZR_ALIAS(name) __attribute__((visibility("default"), alias(#name)))

/* ---- ioctl ---- */

/* The argument may be anywhere, also nowhere: the server will say EFAULT. */
static bool zr_shim_peek(uint64_t *to, const void *from, size_t size)
{
    struct iovec here = {to, size}, there = {(void *)(uintptr_t)from, size};

    return process_vm_readv(getpid(), &here, 1, &there, 1, 0) == (ssize_t)size;
}

static bool zr_shim_may_carry_fd(unsigned long request)
{
    static const uint8_t numbers[] = {0x2d, 0x2e, 0xc1, 0xc2, 0xcf, 0x40 + 0x29};
    unsigned             i;

    for (i = 0; i < sizeof(numbers); i++) {
        if (_IOC_NR(request) == numbers[i]) {
            return true;
        }
    }
    return false;
}

static int zr_shim_drm_ioctl(uint64_t inode, unsigned long request, void *argument)
{
    struct zr_shim_message m = {.op = ZR_SHIM_IOCTL, .file = inode};
    uint64_t               data[16] = {0};
    struct zr_shim_fd_rule rule     = {-1, -1, true};
    int                    out[ZR_SHIM_MAX_FDS], fd = -1, ret;
    size_t                 size = _IOC_SIZE(request);

    if (zr_shim_may_carry_fd(request) && size <= sizeof(data) &&
        zr_shim_peek(data, argument, size)) {
        rule = zr_shim_fd_rule(request, data);
        if (rule.in >= 0) {
            memcpy(&fd, (char *)data + rule.in, sizeof(fd));
            fd = ZR_REAL(fcntl)(fd, F_GETFD) < 0 ? -1 : fd;
        }
    }
    m.a[0] = request;
    m.a[1] = (uintptr_t)argument;
    m.a[2] = zr_shim_capabilities();
    ret    = zr_shim_call(&m, &fd, fd >= 0, out, rule.cloexec);
    if (out[0] >= 0) {
        memcpy((char *)argument + m.a[0], &out[0], sizeof(out[0]));
    }
    return ret;
}

bool zr_shim_is_buffer(int fd, unsigned type)
{
    char        link[32], name[64];
    struct stat st;
    uint64_t    inode;
    ssize_t     n;

    if (type == '>') {
        return ZR_REAL(fstat)(fd, &st) == 0 && S_ISSOCK(st.st_mode) &&
               zr_shim_device_minor(fd, &inode) < 0;
    }
    snprintf(link, sizeof(link), "/proc/self/fd/%d", fd);
    n = ZR_REAL(readlink)(link, name, sizeof(name));
    return n > 0 && strncmp(name, "/memfd:i915-", strlen("/memfd:i915-")) == 0;
}

/* A buffer or fence is known to the server by its fd. */
static int zr_shim_buffer_ioctl(int fd, unsigned long request, void *argument)
{
    struct zr_shim_message m = {.op = ZR_SHIM_BUFFER};
    int                    fds[ZR_SHIM_MAX_FDS] = {fd, -1}, out[ZR_SHIM_MAX_FDS], ret;
    uint64_t               data[16] = {0};
    int                    second   = zr_shim_buffer_rule(request).in;

    if (second >= 0 && zr_shim_peek(data, argument, _IOC_SIZE(request))) {
        memcpy(&fds[1], (char *)data + second, sizeof(fds[1]));
        if (ZR_REAL(fcntl)(fds[1], F_GETFD) < 0) {
            return -ENOENT; /* as sync_file_merge says it */
        }
    }
    m.a[0] = request;
    m.a[1] = (uintptr_t)argument;
    ret    = zr_shim_call(&m, fds, 1 + (fds[1] >= 0), out, true);
    if (out[0] >= 0) {
        memcpy((char *)argument + m.a[0], &out[0], sizeof(out[0]));
    }
    return ret;
}

/* The oldest way to map: the kernel maps for its caller. The server said which offset of the file. */
static int zr_shim_map_for_caller(int fd, struct drm_i915_gem_mmap *args)
{
    void *cpu = mmap(NULL, args->size, PROT_READ | PROT_WRITE, MAP_SHARED, fd,
                     (off_t)args->addr_ptr);

    if (cpu == MAP_FAILED) {
        return -errno;
    }
    args->addr_ptr = (uintptr_t)cpu;
    return 0;
}

ZR_PUBLIC int ioctl(int fd, unsigned long request, ...)
{
    va_list  args;
    void    *argument;
    uint64_t inode;
    int      ret;

    va_start(args, request);
    argument = va_arg(args, void *);
    va_end(args);
    switch (_IOC_TYPE(request)) {
    case 'd':
    case 'W': /* sw_sync */
        if (zr_shim_device_minor(fd, &inode) < 0) {
            return ZR_REAL(ioctl)(fd, request, argument);
        }
        ret = zr_shim_drm_ioctl(inode, request, argument);
        if (ret == 0 && request == DRM_IOCTL_I915_GEM_MMAP) {
            ret = zr_shim_map_for_caller(fd, argument);
        }
        break;
    case 'b':
    case '>':
        if (!zr_shim_active() || !zr_shim_is_buffer(fd, _IOC_TYPE(request))) {
            return ZR_REAL(ioctl)(fd, request, argument);
        }
        ret = zr_shim_buffer_ioctl(fd, request, argument);
        break;
    default:
        return ZR_REAL(ioctl)(fd, request, argument);
    }
    if (ret < 0) {
        errno = -ret;
        return -1;
    }
    return ret;
}

/* ---- mmap ---- */

/* A dma-buf is not mapped beyond its end; other files are none of our business. */
static bool zr_shim_fits(int fd, size_t length, off_t offset)
{
    struct stat st;

    if (ZR_REAL(fcntl)(fd, F_GET_SEALS) < 0 || !zr_shim_is_buffer(fd, 'b') ||
        ZR_REAL(fstat)(fd, &st) != 0) {
        return true;
    }
    return offset >= 0 && offset <= st.st_size && length <= (size_t)(st.st_size - offset);
}

/* @param direct  by system call, since the caller may stand where the C library's mmap was */
static void *zr_shim_device_mmap(bool direct, uint64_t file, void *at, size_t length, int prot,
                                 int flags, off_t offset)
{
    struct zr_shim_message m = {.op = ZR_SHIM_MMAP, .file = file};
    int                    out[ZR_SHIM_MAX_FDS], ret, saved;
    void                  *result;

    m.a[0] = (uint64_t)offset;
    m.a[1] = length;
    m.a[2] = (unsigned)prot;
    m.a[3] = (unsigned)flags;
    ret    = zr_shim_call(&m, NULL, 0, out, true);
    if (ret != 0) {
        errno = -ret;
        return MAP_FAILED;
    }
    /* What can be written can be read on x86, also by who reads for us. */
    prot |= prot & PROT_WRITE ? PROT_READ : 0;
    offset = (off_t)m.a[0];
    result = direct ? (void *)ZR_REAL(syscall)(SYS_mmap, at, length, prot, flags, out[0], offset)
                    : ZR_REAL(mmap)(at, length, prot, flags, out[0], offset);
    saved  = errno;
    ZR_REAL(close)(out[0]);
    errno = saved;
    return result;
}

ZR_PUBLIC void *mmap(void *at, size_t length, int prot, int flags, int fd, off_t offset)
{
    uint64_t file;

    if (fd < 0 || (flags & MAP_ANONYMOUS) || !zr_shim_active()) {
        return ZR_REAL(mmap)(at, length, prot, flags, fd, offset);
    }
    if (zr_shim_device_minor(fd, &file) >= 0) {
        return zr_shim_device_mmap(false, file, at, length, prot, flags, offset);
    }
    if (!zr_shim_fits(fd, length, offset)) {
        errno = EINVAL;
        return MAP_FAILED;
    }
    return ZR_REAL(mmap)(at, length, prot, flags, fd, offset);
}
void *mmap64(void *at, size_t length, int prot, int flags, int fd, off64_t offset) ZR_ALIAS(mmap);

/* ---- the rest ---- */

ZR_PUBLIC int close(int fd)
{
    if (zr_shim_is_own(fd)) {
        errno = EBADF; /* the program has no such fd */
        return -1;
    }
    return ZR_REAL(close)(fd);
}

ZR_PUBLIC ssize_t write(int fd, const void *bytes, size_t size)
{
    ssize_t written;

    return zr_shim_control_write(fd, bytes, size, &written) ? written
                                                            : ZR_REAL(write)(fd, bytes, size);
}

ZR_PUBLIC ssize_t read(int fd, void *bytes, size_t size)
{
    ssize_t got;

    return zr_shim_perf_read(fd, bytes, size, &got) ? got : ZR_REAL(read)(fd, bytes, size);
}

/* A dma-buf has two places to seek: its start, and its end for its size. */
ZR_PUBLIC off_t lseek(int fd, off_t offset, int whence)
{
    if (zr_shim_active() && (offset != 0 || whence == SEEK_CUR) && zr_shim_is_buffer(fd, 'b')) {
        errno = EINVAL;
        return -1;
    }
    return ZR_REAL(lseek)(fd, offset, whence);
}
off64_t lseek64(int fd, off64_t offset, int whence) ZR_ALIAS(lseek);

/* A limit on message queues needs a privilege that a container's root has not; programs that ask
 * for it work with the limit there is. */
ZR_PUBLIC int msgctl(int queue, int command, struct msqid_ds *data)
{
    int ret = ZR_REAL(msgctl)(queue, command, data);

    return ret != 0 && errno == EPERM && command == IPC_SET && zr_shim_active() ? 0 : ret;
}

ZR_PUBLIC long syscall(long number, ...)
{
    va_list  args;
    long     a[6], ret;
    uint64_t file;
    int      i;

    va_start(args, number);
    for (i = 0; i < 6; i++) {
        a[i] = va_arg(args, long);
    }
    va_end(args);
    if (number == SYS_perf_event_open) {
        ret = zr_shim_perf_open((const void *)a[0], (int)a[3]);
        if (ret >= 0) {
            return ret;
        }
        if (ret != -ENXIO) {
            errno = (int)-ret;
            return -1;
        }
    }
    /* MPI libraries write a jump to a function of theirs over mmap, and that function asks so. */
    if (number == SYS_mmap && (int)a[4] >= 0 && !(a[3] & MAP_ANONYMOUS) && zr_shim_active() &&
        zr_shim_device_minor((int)a[4], &file) >= 0) {
        return (long)zr_shim_device_mmap(true, file, (void *)a[0], (size_t)a[1], (int)a[2],
                                         (int)a[3], a[5]);
    }
    return ZR_REAL(syscall)(number, a[0], a[1], a[2], a[3], a[4], a[5]);
}
