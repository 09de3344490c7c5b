/* Inside libi915shim.so: the C library's functions under it, its connection to the server, and what
 * it knows of fds and paths. */
/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef ZR_SHIM_H
#define ZR_SHIM_H

#include "wire.h"

#include <limits.h>
#include <sys/stat.h>

#define ZR_PUBLIC __attribute__((visibility("default")))

/* The function that a program would have got without us. */
void *zr_shim_next(const char *name);
#define ZR_REAL(name)                                                                         \
    ({                                                                                        \
        static __typeof__(name) *real_;                                                       \
        if (real_ == NULL) {                                                                  \
            real_ = (__typeof__(name) *)zr_shim_next(#name);                                  \
        }                                                                                     \
        real_;                                                                                \
    })

/* ---- client.c ---- */

/* Are there software devices at all? */
bool zr_shim_active(void);
/* Directory of the generated /dev and /sys; starts the server. NULL: there is none (said once). */
const char *zr_shim_tree(void);
/** One request on this thread's channel. @a out: fds that come back, -1 where none.
 * @return the reply's ret, -ENODEV without a server */
int zr_shim_call(struct zr_shim_message *m, const int *fds, unsigned count,
                 int out[ZR_SHIM_MAX_FDS], bool cloexec);
/* A new DRM file. The fd, or a negative errno. */
int zr_shim_device_open(unsigned minor, int flags);
/* Minor of the DRM file behind @a fd, -1: something else. */
int zr_shim_device_minor(int fd, uint64_t *inode_p);
/* Is it a socket or memfd of ours that must outlive the program's close loops? */
bool     zr_shim_is_own(int fd);
uint64_t zr_shim_capabilities(void);

/* ---- paths.c ---- */

/** What to give the C library for a path of the program: the path itself, or @a buffer with where it
 * is in the tree. */
const char *zr_shim_path(int dirfd, const char *path, char buffer[PATH_MAX]);
/* "/dev/dri/..." or "/sys/..." of a path in the tree; the path itself if it is not there. */
const char *zr_shim_path_shown(const char *path);
/* Minor of the node at a path that zr_shim_path gave, -1: no DRM node. */
int  zr_shim_path_minor(const char *path);
/* Is it one of control.c's files? @a buffer becomes its path in the tree. */
bool zr_shim_path_is_control(int dirfd, const char *path, char buffer[PATH_MAX]);
/* N of /proc/self/fd/N, -1: another path. */
int  zr_shim_path_fd(const char *path);
void zr_shim_node_path(unsigned minor, char path[PATH_MAX]);
/* Make a node of the tree look like the device file it stands for. */
void zr_shim_stat_node(struct stat *st, int minor);

/* Is the fd a sync_file ('>') or a dma-buf ('b') of the server? */
bool zr_shim_is_buffer(int fd, unsigned type);

/* ---- control.c: files of debugfs that do something, and the PMU ---- */

void zr_shim_control_opened(int fd, const char *path);
/* @return 1 if written is what the write returns */
int  zr_shim_control_write(int fd, const void *bytes, size_t size, ssize_t *written);
/* A file whose content is made when it is opened. */
void zr_shim_control_before_open(const char *path);
long zr_shim_perf_open(const void *attr, int group);
/* @return 1 if got is what the read returns */
int  zr_shim_perf_read(int fd, void *bytes, size_t size, ssize_t *got);

#endif
