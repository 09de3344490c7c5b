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
#include <sys/mman.h>
#include <time.h>
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

void zr_shim_control_before_open(const char *path)
{
    struct zr_shim_message m = {.op = ZR_SHIM_CONTROL};
    const char            *debug = strstr(path, "/sys/kernel/debug/dri/");
    char                   name[64];
    unsigned               unit;
    int                    out[ZR_SHIM_MAX_FDS];

    if (debug != NULL && sscanf(debug, "/sys/kernel/debug/dri/%u/%63s", &unit, name) == 2 &&
        strcmp(name, ZR_TREE_OBJECTS) == 0) {
        m.a[0] = unit % ZR_SHIM_RENDER;
        m.a[1] = ZR_SHIM_OBJECTS;
        zr_shim_call(&m, NULL, 0, out, true);
    }
}

/* ---- PMU ---- */

#define ZR_SHIM_COUNTERS 64

/* Open counters. The fd is a memfd that nobody reads: its inode tells whether it still is one. */
static struct {
    _Atomic uint64_t inode; /* 0: free */
    int              fd;
    uint64_t         leader; /* inode of its group's first, 0: alone, or the first */
    unsigned         unit;
    uint64_t         config, format, first, opened_ns;
} counters[ZR_SHIM_COUNTERS];
static atomic_uint open_counters;

static uint64_t zr_shim_now(void)
{
    struct timespec ts;

    clock_gettime(CLOCK_MONOTONIC, &ts);
    return (uint64_t)ts.tv_sec * 1000000000u + (uint64_t)ts.tv_nsec;
}

static int zr_shim_counter_value(unsigned unit, uint64_t config, uint64_t *value_p)
{
    struct zr_shim_message m = {.op = ZR_SHIM_COUNTER, .a = {unit, config}};
    int                    out[ZR_SHIM_MAX_FDS];
    int                    ret = zr_shim_call(&m, NULL, 0, out, true);

    *value_p = m.a[0];
    return ret;
}

static bool zr_shim_counter_is(unsigned i, int fd)
{
    struct stat st;

    return atomic_load(&counters[i].inode) != 0 && counters[i].fd == fd &&
           ZR_REAL(fstat)(fd, &st) == 0 && st.st_ino == atomic_load(&counters[i].inode);
}

/* Inode of an open counter, 0: it is none. */
static uint64_t zr_shim_counter_inode(int fd)
{
    unsigned i;

    for (i = 0; i < ZR_SHIM_COUNTERS; i++) {
        if (zr_shim_counter_is(i, fd)) {
            return atomic_load(&counters[i].inode);
        }
    }
    return 0;
}

/* -ENXIO: not our PMU */
long zr_shim_perf_open(const void *attr, int group)
{
    const struct perf_event_attr *a = attr;
    struct stat                   st;
    uint64_t                      first, leader = group >= 0 ? zr_shim_counter_inode(group) : 0;
    unsigned                      i;
    int                           ret, fd;

    if (a == NULL || a->type < ZR_TREE_PMU_TYPE || a->type >= ZR_TREE_PMU_TYPE + 16 ||
        !zr_shim_active()) {
        return -ENXIO;
    }
    ret = zr_shim_counter_value(a->type - ZR_TREE_PMU_TYPE, a->config, &first);
    if (ret != 0) {
        return ret;
    }
    fd = memfd_create("i915-pmu", MFD_CLOEXEC);
    if (fd < 0 || ZR_REAL(fstat)(fd, &st) != 0) {
        return -errno;
    }
    for (i = 0; i < ZR_SHIM_COUNTERS; i++) {
        if (!zr_shim_counter_is(i, counters[i].fd)) { /* free, or its fd is closed */
            counters[i].fd        = fd;
            counters[i].leader    = leader;
            counters[i].unit      = a->type - ZR_TREE_PMU_TYPE;
            counters[i].config    = a->config;
            counters[i].format    = a->read_format;
            counters[i].first     = first;
            counters[i].opened_ns = zr_shim_now();
            atomic_store(&counters[i].inode, st.st_ino);
            atomic_fetch_add(&open_counters, 1);
            return fd;
        }
    }
    ZR_REAL(close)(fd);
    return -EMFILE;
}

/* What perf's read gives: {value, time} or, of a group, {count, time, values}. */
static size_t zr_shim_counter_read(unsigned leader, uint64_t *words)
{
    uint64_t value, time = zr_shim_now() - counters[leader].opened_ns;
    bool     group = counters[leader].format & PERF_FORMAT_GROUP;
    size_t   n     = 0;
    unsigned i;

    if (!group) {
        zr_shim_counter_value(counters[leader].unit, counters[leader].config, &value);
        words[n++] = value - counters[leader].first;
    } else {
        words[n++] = 0;
    }
    if (counters[leader].format & PERF_FORMAT_TOTAL_TIME_ENABLED) {
        words[n++] = time;
    }
    for (i = 0; group && i < ZR_SHIM_COUNTERS; i++) {
        if (i == leader || (counters[i].leader == atomic_load(&counters[leader].inode) &&
                            zr_shim_counter_is(i, counters[i].fd))) {
            zr_shim_counter_value(counters[i].unit, counters[i].config, &value);
            words[n++] = value - counters[i].first;
            words[0]++;
        }
    }
    return n * sizeof(words[0]);
}

int zr_shim_perf_read(int fd, void *bytes, size_t size, ssize_t *got)
{
    uint64_t words[2 + ZR_SHIM_COUNTERS];
    size_t   length;
    unsigned i;

    if (atomic_load(&open_counters) == 0) {
        return 0;
    }
    for (i = 0; i < ZR_SHIM_COUNTERS && !zr_shim_counter_is(i, fd); i++) {
    }
    if (i == ZR_SHIM_COUNTERS) {
        return 0;
    }
    length = zr_shim_counter_read(i, words);
    if (size < length) {
        errno = ENOSPC;
        *got  = -1;
        return 1;
    }
    memcpy(bytes, words, length);
    *got = (ssize_t)length;
    return 1;
}
