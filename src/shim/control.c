/* Files of debugfs that make the device do something, and counters of its PMU. */
/* SPDX-License-Identifier: BSD-3-Clause */
#include "shim.h"
#include "tree.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/perf_event.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#define ZR_SHIM_CONTROLS 64

/* Open control files: fd, inode of the tree's file, and what it does. */
static struct {
    _Atomic uint64_t inode; /* 0: free */
    int              fd;
    unsigned         unit, what;
} controls[ZR_SHIM_CONTROLS];
static atomic_uint open_controls;

static bool zr_shim_control_path(const char *path, unsigned *unit_p, unsigned *what_p)
{
    const char *debug = strstr(path, "/sys/kernel/debug/dri/");
    char        name[64];

    if (debug == NULL || sscanf(debug, "/sys/kernel/debug/dri/%u/%63s", unit_p, name) != 2) {
        return false;
    }
    *unit_p %= ZR_SHIM_RENDER;
    *what_p = strcmp(name, ZR_TREE_WEDGED) == 0 ? ZR_SHIM_WEDGED : ZR_SHIM_DROP_CACHES;
    return strcmp(name, ZR_TREE_WEDGED) == 0 || strcmp(name, ZR_TREE_DROP_CACHES) == 0;
}

/* Forgotten when another file has its number; a table that is full forgets the oldest way. */
void zr_shim_control_opened(int fd, const char *path)
{
    struct stat st;
    unsigned    unit, what, i;

    if (strstr(path, "/debug/dri/") == NULL || !zr_shim_control_path(path, &unit, &what) ||
        ZR_REAL(fstat)(fd, &st) != 0) {
        return;
    }
    for (i = 0; i < ZR_SHIM_CONTROLS; i++) {
        if (atomic_load(&controls[i].inode) == 0 || controls[i].fd == fd) {
            controls[i].fd   = fd;
            controls[i].unit = unit;
            controls[i].what = what;
            atomic_store(&controls[i].inode, st.st_ino);
            atomic_fetch_add(&open_controls, 1);
            return;
        }
    }
}

int zr_shim_control_write(int fd, const void *bytes, size_t size, ssize_t *written)
{
    struct zr_shim_message m = {.op = ZR_SHIM_CONTROL};
    struct stat            st;
    char                   text[32];
    int                    out[ZR_SHIM_MAX_FDS], ret;
    unsigned               i;

    if (atomic_load(&open_controls) == 0) {
        return 0;
    }
    for (i = 0; i < ZR_SHIM_CONTROLS; i++) {
        if (atomic_load(&controls[i].inode) != 0 && controls[i].fd == fd) {
            break;
        }
    }
    if (i == ZR_SHIM_CONTROLS || ZR_REAL(fstat)(fd, &st) != 0 ||
        st.st_ino != atomic_load(&controls[i].inode)) {
        return 0;
    }
    snprintf(text, sizeof(text), "%.*s", (int)size, (const char *)bytes);
    m.a[0] = controls[i].unit;
    m.a[1] = controls[i].what;
    m.a[2] = strtoull(text, NULL, 0);
    ret    = zr_shim_call(&m, NULL, 0, out, true);
    errno  = ret < 0 ? -ret : errno;
    *written = ret < 0 ? -1 : (ssize_t)size;
    return 1;
}

/* ---- PMU ---- */

/* A counter is asked for at the server; its fd counts nothing by itself. -ENXIO: not our PMU */
long zr_shim_perf_open(const void *attr, int group)
{
    const struct perf_event_attr *a = attr;
    struct zr_shim_message        m = {.op = ZR_SHIM_COUNTER};
    int                           out[ZR_SHIM_MAX_FDS], ret;

    if (a == NULL || a->type < ZR_TREE_PMU_TYPE || a->type >= ZR_TREE_PMU_TYPE + 16 ||
        !zr_shim_active()) {
        return -ENXIO;
    }
    m.a[0] = a->type - ZR_TREE_PMU_TYPE;
    m.a[1] = a->config;
    ret    = zr_shim_call(&m, NULL, 0, out, true);
    if (ret != 0) {
        return ret;
    }
    ret = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    return ret < 0 ? -errno : ret;
}
