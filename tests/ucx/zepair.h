/* Two processes with UCX and a device, and what the tests of the transport do with them again and
 * again: messages with checked bytes, keys, counters, and UCX's log. */
/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef ZEPAIR_H
#define ZEPAIR_H

#include "ucppair.h"
#include "zebuf.h"

#include <dirent.h>
#include <time.h>
#include <zerange/zerange.h>

#define MIB ((size_t)1 << 20)

#define FAIL(...)                                                                             \
    do {                                                                                      \
        fprintf(stderr, "%s:%d: rank %d: ", __FILE__, __LINE__, pair.rank);                   \
        fprintf(stderr, __VA_ARGS__);                                                         \
        fputc('\n', stderr);                                                                  \
        exit(1);                                                                              \
    } while (0)

static inline void zp_device(void)
{
    if (zebuf_ze.list == NULL && !zebuf_start()) {
        fprintf(stderr, "no Level Zero device\n");
        exit(getenv("ZERANGE_SOFT") != NULL ? 1 : 77); /* asked for, it must be there */
    }
}

static inline void zp_start(void)
{
    zp_device();
    pair_start_ucx();
    pair_connect(UCP_ERR_HANDLING_MODE_NONE);
}

/* [from, from+size) of the sender's buffer goes to `to` of the other's; all bytes are checked. */
static inline void zp_message(int sender, struct zebuf *buf, size_t from, size_t to, size_t size,
                              unsigned seed, const char *what)
{
    ucp_request_param_t param = {0};

    zebuf_fill(buf, seed + pair.rank);
    pair_meet();
    if (pair.rank == sender) {
        UCS(pair_wait(ucp_tag_send_nbx(pair.ep, buf->ptr + from, size, 7, &param)));
    } else {
        UCS(pair_wait(ucp_tag_recv_nbx(pair.worker, buf->ptr + to, size, 7, ~0ull, &param)));
        if (zebuf_check(buf, to, size, from, seed + sender, seed + pair.rank) != 0) {
            FAIL("%s: wrong bytes", what);
        }
    }
    pair_meet();
}

/* UCX started as this process is now, messages both ways over buffers of several objects. */
static inline void zp_exchange(const char *what)
{
    struct zebuf buf;
    unsigned     k;

    zp_start();
    zebuf_map(&buf, 5, MIB, NULL);
    for (k = 0; k < 4; k++) {
        zp_message(k & 1, &buf, 11 * k, 7 * k, 5 * MIB - 1000, 3 * k, what);
    }
    pair_stop_ucx();
    zebuf_unmap(&buf);
}

/* ---- keys: rank 0 shares, rank 1 opens ---- */

struct zp_key {
    ucp_mem_h  memh; /* rank 0 */
    ucp_rkey_h rkey; /* rank 1 */
    uint64_t   remote;
    void      *packed; /* rank 1: for more endpoints */
};

static inline void zp_share(void *ptr, size_t size, struct zp_key *key)
{
    ucp_mem_map_params_t params = {.field_mask = UCP_MEM_MAP_PARAM_FIELD_ADDRESS |
                                                 UCP_MEM_MAP_PARAM_FIELD_LENGTH,
                                   .address    = ptr,
                                   .length     = size};
    void  *packed;
    size_t length;

    memset(key, 0, sizeof(*key));
    if (pair.rank == 0) {
        key->remote = (uintptr_t)ptr;
        UCS(ucp_mem_map(pair.context, &params, &key->memh));
        UCS(ucp_rkey_pack(pair.context, key->memh, &packed, &length));
        pair_write(&key->remote, sizeof(key->remote));
        pair_write(&length, sizeof(length));
        pair_write(packed, length);
        ucp_rkey_buffer_release(packed);
    } else {
        pair_read(&key->remote, sizeof(key->remote));
        pair_read(&length, sizeof(length));
        key->packed = malloc(length);
        pair_read(key->packed, length);
        UCS(ucp_ep_rkey_unpack(pair.ep, key->packed, &key->rkey));
    }
}

static inline void zp_unshare(struct zp_key *key)
{
    if (pair.rank == 0) {
        UCS(ucp_mem_unmap(pair.context, key->memh));
    } else {
        ucp_rkey_destroy(key->rkey);
        free(key->packed);
    }
}

/* Rank 1 reads the other's `remote`. */
static inline ucs_status_t zp_get(const struct zp_key *key, void *ptr, size_t size, uint64_t remote)
{
    ucp_request_param_t param  = {0};
    ucs_status_t        status = pair_wait(ucp_get_nbx(pair.ep, ptr, size, remote, key->rkey,
                                                       &param));

    return status != UCS_OK ? status : pair_wait(ucp_ep_flush_nbx(pair.ep, &param));
}

/* ---- what is held ---- */

static inline unsigned zp_fds(void)
{
    DIR     *dir   = opendir("/proc/self/fd");
    unsigned count = 0;

    while (readdir(dir) != NULL) {
        count++;
    }
    closedir(dir);
    return count;
}

/* @return false: the driver does not count */
static inline int zp_counts(zr_counts_t *counts)
{
    zr_pfnGetCounts_t get = NULL;

    if (zeDriverGetExtensionFunctionAddress(zebuf_ze.driver, "zrGetCounts", (void **)&get) !=
        ZE_RESULT_SUCCESS) {
        return 0;
    }
    ZE(get(counts));
    return 1;
}

static inline double zp_seconds(void)
{
    struct timespec ts;

    clock_gettime(CLOCK_MONOTONIC, &ts);
    return (double)ts.tv_sec + 1e-9 * (double)ts.tv_nsec;
}

/* This process has let go of all it opened, or does within the bound that is promised. */
static inline void zp_expect_no_imports(const char *what)
{
    double      give_up = zp_seconds() + 10;
    zr_counts_t counts;

    while (zp_counts(&counts) && (counts.imports != 0 || counts.imported_objects != 0)) {
        if (zp_seconds() > give_up) {
            FAIL("%s: %lu imports of %lu objects are still open", what,
                 (unsigned long)counts.imports, (unsigned long)counts.imported_objects);
        }
        usleep(1000);
    }
}

/* ---- UCX's log, and what else is said on standard error ---- */

static char zp_log_path[64];

/* From now on what processes say goes to a file. */
static inline void zp_log_start(const char *level)
{
    int fd;

    strcpy(zp_log_path, "/tmp/zerange-log.XXXXXX");
    fd = mkstemp(zp_log_path);
    if (fd < 0) {
        perror("log");
        exit(1);
    }
    close(fd);
    setenv("ZEPAIR_LOG", zp_log_path, 1);
    setenv("UCX_LOG_LEVEL", level, 1);
}

/* In the processes: first thing. */
static inline void zp_log_here(void)
{
    const char *path = getenv("ZEPAIR_LOG");

    if (path != NULL && (freopen(path, "a", stdout) == NULL || freopen(path, "a", stderr) == NULL)) {
        _exit(1);
    }
    /* A line at once, or the other rank's lines would stand in the middle of it. */
    setvbuf(stdout, NULL, _IOLBF, 8192);
    setvbuf(stderr, NULL, _IOLBF, 8192);
}

/* Lines that have all of the words; with `show` they are printed. */
static inline unsigned zp_log_count(const char *word, const char *other)
{
    FILE    *file = fopen(zp_log_path, "r");
    char     line[2048];
    unsigned count = 0;

    while (file != NULL && fgets(line, sizeof(line), file) != NULL) {
        count += strstr(line, word) != NULL && (other == NULL || strstr(line, other) != NULL);
    }
    if (file != NULL) {
        fclose(file);
    }
    return count;
}

/* @param show  print it, as the test failed */
static inline void zp_log_end(int show)
{
    char  line[2048];
    FILE *file = fopen(zp_log_path, "r");

    while (show && file != NULL && fgets(line, sizeof(line), file) != NULL) {
        fputs(line, stderr);
    }
    if (file != NULL) {
        fclose(file);
    }
    unlink(zp_log_path);
    unsetenv("ZEPAIR_LOG");
    unsetenv("UCX_LOG_LEVEL");
}

#endif
