/* The C library's functions that take a path, with the generated tree in its place. */
/* SPDX-License-Identifier: BSD-3-Clause */
#include "shim.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <glob.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/sysmacros.h>
#include <sys/vfs.h>
#include <unistd.h>

#define ZR_ALIAS(name) __attribute__((visibility("default"), alias(#name)))

/* ---- open ---- */

/* Minor of the node that is opened, or -1. A link of /proc to a DRM file opens a new one. */
static int zr_shim_opened_minor(const char *path, const char *real)
{
    uint64_t inode;
    int      fd = zr_shim_path_fd(path);

    return fd >= 0 ? zr_shim_device_minor(fd, &inode) : zr_shim_path_minor(real);
}

static int zr_shim_open_as(int dirfd, const char *path, int flags, mode_t mode)
{
    char        buffer[PATH_MAX];
    const char *real  = zr_shim_path(dirfd, path, buffer);
    int         minor = flags & O_PATH ? -1 : zr_shim_opened_minor(path, real), fd;

    if (minor >= 0) {
        fd = zr_shim_device_open(minor, flags);
        if (fd < 0) {
            errno = -fd;
            return -1;
        }
        return fd;
    }
    /* A file that is there below its directory's fd keeps its short name: look at the long one. */
    if (zr_shim_active() && path != NULL && zr_shim_path_is_control(dirfd, path, buffer)) {
        zr_shim_control_before_open(buffer);
        fd = ZR_REAL(openat)(dirfd, real == buffer ? buffer : real, flags, mode);
        if (fd >= 0) {
            zr_shim_control_opened(fd, buffer);
        }
        return fd;
    }
    return ZR_REAL(openat)(dirfd, real, flags, mode);
}

static mode_t zr_shim_mode(int flags, va_list args)
{
    return flags & (O_CREAT | O_TMPFILE) ? va_arg(args, mode_t) : 0;
}

ZR_PUBLIC int open(const char *path, int flags, ...)
{
    va_list args;
    mode_t  mode;

    va_start(args, flags);
    mode = zr_shim_mode(flags, args);
    va_end(args);
    return zr_shim_open_as(AT_FDCWD, path, flags, mode);
}
int open64(const char *path, int flags, ...) ZR_ALIAS(open);

ZR_PUBLIC int openat(int dirfd, const char *path, int flags, ...)
{
    va_list args;
    mode_t  mode;

    va_start(args, flags);
    mode = zr_shim_mode(flags, args);
    va_end(args);
    return zr_shim_open_as(dirfd, path, flags, mode);
}
int openat64(int dirfd, const char *path, int flags, ...) ZR_ALIAS(openat);

int           __open_2(const char *path, int flags);
ZR_PUBLIC int __open_2(const char *path, int flags)
{
    return zr_shim_open_as(AT_FDCWD, path, flags, 0);
}
int __open64_2(const char *path, int flags) ZR_ALIAS(__open_2);

int           __openat_2(int dirfd, const char *path, int flags);
ZR_PUBLIC int __openat_2(int dirfd, const char *path, int flags)
{
    return zr_shim_open_as(dirfd, path, flags, 0);
}
int __openat64_2(int dirfd, const char *path, int flags) ZR_ALIAS(__openat_2);

/* A stream on a node: an fd of ours under it. */
static FILE *zr_shim_stream(unsigned minor, const char *mode)
{
    int   fd = zr_shim_device_open(minor, strchr(mode, 'e') != NULL ? O_CLOEXEC : 0);
    FILE *stream;

    if (fd < 0) {
        errno = -fd;
        return NULL;
    }
    stream = fdopen(fd, mode);
    if (stream == NULL) {
        ZR_REAL(close)(fd);
    }
    return stream;
}

ZR_PUBLIC FILE *fopen(const char *path, const char *mode)
{
    char        buffer[PATH_MAX];
    const char *real  = zr_shim_path(AT_FDCWD, path, buffer);
    int         minor = zr_shim_opened_minor(path, real);

    if (minor >= 0) {
        return zr_shim_stream(minor, mode);
    }
    if (zr_shim_active() && path != NULL && zr_shim_path_is_control(AT_FDCWD, path, buffer)) {
        if (strpbrk(mode, "wa+") != NULL) { /* what a stream writes is not seen here */
            errno = EOPNOTSUPP;
            return NULL;
        }
        zr_shim_control_before_open(buffer);
        real = buffer;
    }
    return ZR_REAL(fopen)(real, mode);
}
FILE *fopen64(const char *path, const char *mode) ZR_ALIAS(fopen);

/* ---- directories ---- */

ZR_PUBLIC DIR *opendir(const char *path)
{
    char buffer[PATH_MAX];

    return ZR_REAL(opendir)(zr_shim_path(AT_FDCWD, path, buffer));
}

ZR_PUBLIC int scandir(const char *path, struct dirent ***list, int (*filter)(const struct dirent *),
                      int (*compare)(const struct dirent **, const struct dirent **))
{
    char buffer[PATH_MAX];

    return ZR_REAL(scandir)(zr_shim_path(AT_FDCWD, path, buffer), list, filter, compare);
}
int scandir64(const char *path, struct dirent64 ***list, int (*filter)(const struct dirent64 *),
              int (*compare)(const struct dirent64 **, const struct dirent64 **)) ZR_ALIAS(scandir);

/* Paths that glob found in the tree are shown as the program knows them. */
ZR_PUBLIC int glob(const char *pattern, int flags, int (*error)(const char *, int), glob_t *found)
{
    char   buffer[PATH_MAX], *path;
    int    ret = ZR_REAL(glob)(zr_shim_path(AT_FDCWD, pattern, buffer), flags, error, found);
    size_t i, skip = ret == 0 && (flags & GLOB_DOOFFS) ? found->gl_offs : 0;

    for (i = 0; ret == 0 && i < found->gl_pathc; i++) {
        path = found->gl_pathv[skip + i];
        memmove(path, zr_shim_path_shown(path), strlen(zr_shim_path_shown(path)) + 1);
    }
    return ret;
}
int glob64(const char *pattern, int flags, int (*error)(const char *, int), glob64_t *found)
    ZR_ALIAS(glob);

ZR_PUBLIC int nftw(const char *path, __nftw_func_t visit, int depth, int flags)
{
    char buffer[PATH_MAX];

    return ZR_REAL(nftw)(zr_shim_path(AT_FDCWD, path, buffer), visit, depth, flags);
}
int nftw64(const char *path, __nftw64_func_t visit, int depth, int flags) ZR_ALIAS(nftw);

/* ---- stat ---- */

/* The fd's own: what its node is by path, as both are in the kernel. */
static int zr_shim_fstat_as(int fd, struct stat *st)
{
    char     node[PATH_MAX];
    uint64_t inode;
    int      minor, ret = ZR_REAL(fstat)(fd, st);

    if (ret == 0 && S_ISSOCK(st->st_mode)) {
        minor = zr_shim_device_minor(fd, &inode);
        if (minor >= 0) {
            zr_shim_node_path(minor, node);
            ret = ZR_REAL(stat)(node, st);
            zr_shim_stat_node(st, minor);
        }
    }
    return ret;
}

static int zr_shim_stat_as(int dirfd, const char *path, struct stat *st, int flags)
{
    char        buffer[PATH_MAX], link[32];
    const char *real = path;
    uint64_t    inode;
    int         ret, fd;

    if ((flags & AT_EMPTY_PATH) && (path == NULL || *path == '\0')) {
        return dirfd == AT_FDCWD ? ZR_REAL(fstatat)(dirfd, "", st, flags)
                                 : zr_shim_fstat_as(dirfd, st);
    }
    fd = flags & AT_SYMLINK_NOFOLLOW ? -1 : zr_shim_path_fd(path);
    if (fd >= 0 && zr_shim_device_minor(fd, &inode) >= 0) {
        snprintf(link, sizeof(link), "/proc/self/fd/%d", fd);
        return zr_shim_fstat_as(fd, st);
    }
    real = zr_shim_path(dirfd, path, buffer);
    ret  = ZR_REAL(fstatat)(dirfd, real, st, flags);
    if (ret == 0 && real == buffer && S_ISREG(st->st_mode)) {
        zr_shim_stat_node(st, zr_shim_path_minor(real));
    }
    return ret;
}

ZR_PUBLIC int stat(const char *path, struct stat *st)
{
    return zr_shim_stat_as(AT_FDCWD, path, st, 0);
}
int stat64(const char *path, struct stat64 *st) ZR_ALIAS(stat);

ZR_PUBLIC int lstat(const char *path, struct stat *st)
{
    return zr_shim_stat_as(AT_FDCWD, path, st, AT_SYMLINK_NOFOLLOW);
}
int lstat64(const char *path, struct stat64 *st) ZR_ALIAS(lstat);

ZR_PUBLIC int fstat(int fd, struct stat *st)
{
    return zr_shim_fstat_as(fd, st);
}
int fstat64(int fd, struct stat64 *st) ZR_ALIAS(fstat);

ZR_PUBLIC int fstatat(int dirfd, const char *path, struct stat *st, int flags)
{
    return zr_shim_stat_as(dirfd, path, st, flags);
}
int fstatat64(int dirfd, const char *path, struct stat64 *st, int flags) ZR_ALIAS(fstatat);

/* The minor a statx is about, -1: no node; *path_p becomes where to look. */
static int zr_shim_statx_minor(int dirfd, const char **path_p, int flags, char buffer[PATH_MAX])
{
    const char *path = *path_p;
    uint64_t    inode;
    int         minor;

    if ((flags & AT_EMPTY_PATH) && (path == NULL || *path == '\0')) {
        minor = zr_shim_device_minor(dirfd, &inode);
        if (minor >= 0) {
            zr_shim_node_path(minor, buffer);
            *path_p = buffer;
        }
        return minor;
    }
    *path_p = zr_shim_path(dirfd, path, buffer);
    return *path_p == buffer ? zr_shim_path_minor(buffer) : -1;
}

ZR_PUBLIC int statx(int dirfd, const char *path, int flags, unsigned mask, struct statx *st)
{
    char buffer[PATH_MAX];
    int  minor = zr_shim_statx_minor(dirfd, &path, flags, buffer);
    int  ret   = ZR_REAL(statx)(dirfd, path, flags, mask, st);

    if (ret == 0 && minor >= 0 && minor != ZR_SHIM_SW_SYNC && S_ISREG(st->stx_mode)) {
        st->stx_mode       = S_IFCHR | (minor >= ZR_SHIM_RENDER ? 0666 : 0660);
        st->stx_rdev_major = 226;
        st->stx_rdev_minor = minor;
    }
    return ret;
}

ZR_PUBLIC int access(const char *path, int mode)
{
    char buffer[PATH_MAX];

    return ZR_REAL(access)(zr_shim_path(AT_FDCWD, path, buffer), mode);
}

ZR_PUBLIC int faccessat(int dirfd, const char *path, int mode, int flags)
{
    char buffer[PATH_MAX];

    return ZR_REAL(faccessat)(dirfd, zr_shim_path(dirfd, path, buffer), mode, flags);
}

/* ---- links ---- */

/* What a link of /proc to an fd of ours says. */
static ssize_t zr_shim_show_link(char *to, size_t size, ssize_t n, int fd)
{
    char        text[PATH_MAX];
    const char *shown = text;
    uint64_t    inode;
    int         minor = fd >= 0 ? zr_shim_device_minor(fd, &inode) : -1;

    if (n <= 0 || (size_t)n >= sizeof(text)) {
        return n;
    }
    memcpy(text, to, n);
    text[n] = '\0';
    if (minor >= 0) {
        zr_shim_node_path(minor, text);
    }
    shown = zr_shim_path_shown(text);
    if (minor >= 0 || shown != text) {
        n = (ssize_t)strnlen(shown, size);
        memcpy(to, shown, n);
    }
    return n;
}

ZR_PUBLIC ssize_t readlink(const char *path, char *to, size_t size)
{
    char    buffer[PATH_MAX];
    ssize_t n = ZR_REAL(readlink)(zr_shim_path(AT_FDCWD, path, buffer), to, size);

    return zr_shim_active() ? zr_shim_show_link(to, size, n, zr_shim_path_fd(path)) : n;
}

ZR_PUBLIC ssize_t readlinkat(int dirfd, const char *path, char *to, size_t size)
{
    char    buffer[PATH_MAX];
    ssize_t n = ZR_REAL(readlinkat)(dirfd, zr_shim_path(dirfd, path, buffer), to, size);

    return zr_shim_active() ? zr_shim_show_link(to, size, n, zr_shim_path_fd(path)) : n;
}

ssize_t           __readlink_chk(const char *path, char *to, size_t size, size_t room);
ZR_PUBLIC ssize_t __readlink_chk(const char *path, char *to, size_t size, size_t room)
{
    return readlink(path, to, size < room ? size : room);
}

ssize_t           __readlinkat_chk(int dirfd, const char *path, char *to, size_t size, size_t room);
ZR_PUBLIC ssize_t __readlinkat_chk(int dirfd, const char *path, char *to, size_t size, size_t room)
{
    return readlinkat(dirfd, path, to, size < room ? size : room);
}

ZR_PUBLIC char *realpath(const char *path, char *resolved)
{
    char        buffer[PATH_MAX], link[PATH_MAX];
    const char *shown;
    uint64_t    inode;
    int         minor, fd = zr_shim_path_fd(path);
    char       *result;

    minor = fd >= 0 ? zr_shim_device_minor(fd, &inode) : -1;
    if (minor >= 0) {
        zr_shim_node_path(minor, link);
        result = ZR_REAL(realpath)(link, resolved);
    } else {
        result = ZR_REAL(realpath)(zr_shim_path(AT_FDCWD, path, buffer), resolved);
    }
    if (result != NULL && zr_shim_active()) {
        shown = zr_shim_path_shown(result);
        memmove(result, shown, strlen(shown) + 1);
    }
    return result;
}

char           *__realpath_chk(const char *path, char *resolved, size_t room);
ZR_PUBLIC char *__realpath_chk(const char *path, char *resolved, size_t room)
{
    return realpath(path, resolved);
}

ZR_PUBLIC char *canonicalize_file_name(const char *path)
{
    return realpath(path, NULL);
}

/* ---- file systems ---- */

static void zr_shim_show_fs(const char *real, struct statfs *fs)
{
    const char *shown = zr_shim_path_shown(real);

    if (shown != real) {
        fs->f_type = strncmp(shown, "/sys/kernel/debug", 17) == 0 ? 0x64626720
                     : strncmp(shown, "/sys", 4) == 0             ? 0x62656572
                                                                  : 0x01021994;
    }
}

ZR_PUBLIC int statfs(const char *path, struct statfs *fs)
{
    char        buffer[PATH_MAX];
    const char *real = zr_shim_path(AT_FDCWD, path, buffer);
    int         ret  = ZR_REAL(statfs)(real, fs);

    if (ret == 0 && real == buffer) {
        zr_shim_show_fs(real, fs);
    }
    return ret;
}
int statfs64(const char *path, struct statfs64 *fs) ZR_ALIAS(statfs);

ZR_PUBLIC int fstatfs(int fd, struct statfs *fs)
{
    char    link[32], real[PATH_MAX];
    ssize_t n;
    int     ret = ZR_REAL(fstatfs)(fd, fs);

    if (ret == 0 && zr_shim_active()) {
        snprintf(link, sizeof(link), "/proc/self/fd/%d", fd);
        n = ZR_REAL(readlink)(link, real, sizeof(real) - 1);
        if (n > 0 && real[0] == '/') {
            real[n] = '\0';
            zr_shim_show_fs(real, fs);
        }
    }
    return ret;
}
int fstatfs64(int fd, struct statfs64 *fs) ZR_ALIAS(fstatfs);

/* debugfs is where the tree has it, whether the program may mount or not. */
ZR_PUBLIC int mount(const char *source, const char *target, const char *type, unsigned long flags,
                    const void *data)
{
    if (zr_shim_active() && type != NULL && strcmp(type, "debugfs") == 0) {
        return 0;
    }
    return ZR_REAL(mount)(source, target, type, flags, data);
}
