/* What the fuzz targets share: the software device, exports of this process, a thread that plays an
 * exporter's broker, and inputs taken apart piece by piece. */
/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef ZR_FUZZ_H
#define ZR_FUZZ_H

#ifndef _GNU_SOURCE
#define _GNU_SOURCE 1
#endif
#include "../unit/device.h"
#include "ipc/parts.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>

#define PAGE ZR_PAGE_SMALL

#define NEED(cond)                                                                            \
    do {                                                                                      \
        if (!(cond)) {                                                                        \
            fprintf(stderr, "%s:%d: not true: %s (%s)\n", __FILE__, __LINE__, #cond,          \
                    zr_last_error());                                                         \
            abort();                                                                          \
        }                                                                                     \
    } while (0)

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int LLVMFuzzerInitialize(int *argc, char ***argv);

/* Up to @a size bytes of the input into @a to; the rest of it stays as it is. */
static inline void fuzz_take(const uint8_t **data, size_t *left, void *to, size_t size)
{
    size_t n = (size < *left) ? size : *left;

    memcpy(to, *data, n);
    *data += n;
    *left -= n;
}

/* Change what @a to has by the next bytes of the input: all zero changes nothing, so that a valid
 * thing is one mutation away from each of its neighbours. */
static inline void fuzz_mask(const uint8_t **data, size_t *left, void *to, size_t size)
{
    uint8_t mask[512] = {0};
    size_t  i;

    NEED(size <= sizeof(mask));
    fuzz_take(data, left, mask, size);
    for (i = 0; i < size; i++) {
        ((uint8_t *)to)[i] ^= mask[i];
    }
}

/* @a count pages of as many objects. */
static inline char *fuzz_range(unsigned count)
{
    struct zr_phys *phys;
    unsigned        i;
    char           *base;

    NEED(zr_va_reserve(NULL, count * PAGE, (void **)&base) == ZE_RESULT_SUCCESS);
    for (i = 0; i < count; ++i) {
        NEED(zr_phys_create(test_device(), ZR_BACKING_SECTION, ZR_CACHE_CACHED, PAGE, 0, &phys) ==
             ZE_RESULT_SUCCESS);
        NEED(zr_va_map(base + i * PAGE, PAGE, phys, 0, ZE_MEMORY_ACCESS_ATTRIBUTE_READWRITE) ==
             ZE_RESULT_SUCCESS);
        zr_phys_unref(phys);
    }
    return base;
}

static inline void fuzz_export(char *base, size_t size, struct zr_handle *handle)
{
    ze_ipc_mem_handle_t h;
    struct zr_range     range;
    unsigned            kinds;
    uint64_t            generation;

    NEED(zr_range_walk(base, size, &range, &kinds, &generation) == ZE_RESULT_SUCCESS);
    NEED(zr_ipc_export_range(base, &range, generation, NULL, &h) == ZE_RESULT_SUCCESS);
    zr_range_clear(&range);
    memcpy(handle, &h, sizeof(h));
}

static inline void fuzz_start(void)
{
    setenv("ZERANGE_SOFT", "pvc", 0);
    setenv("ZERANGE_SOFT_THREADS", "1", 1);
    setenv("ZERANGE_DEVICE_CPU_ACCESS", "1", 1);
    setenv("ZERANGE_LOG", "error", 1);
    signal(SIGPIPE, SIG_IGN);
    test_device();
}

/* ---- an exporter that answers what the input says ---- */

#define FUZZ_PROCESS UINT64_C(0x2f75ed0000000001)
#define FUZZ_EXPORT  UINT64_C(3)

static struct fuzz_exporter {
    uint64_t process; /* another one for each fuzzing process */
    int      listener;
    /* set before an input is tried, read while it is */
    int                     lead;           /* answer to LEAD, -1: refused */
    int                     objects[8];     /* by place */
    unsigned                object_count;
    const uint8_t          *answer;         /* bytes for OBJECTS instead of a right answer, NULL */
    size_t                  answer_size;
    unsigned                answer_fds;
} fuzz_exporter = {.listener = -1, .lead = -1};

static inline void fuzz_answer(int sock, const void *data, size_t size, const int *fds,
                               unsigned count)
{
    struct iovec  iov = {(void *)data, size};
    char          control[CMSG_SPACE(ZR_BROKER_MAX_FDS * sizeof(int))] = {0};
    struct msghdr msg = {.msg_iov = &iov, .msg_iovlen = 1};

    if (count > 0) {
        msg.msg_control                 = control;
        msg.msg_controllen              = CMSG_SPACE(count * sizeof(int));
        CMSG_FIRSTHDR(&msg)->cmsg_level = SOL_SOCKET;
        CMSG_FIRSTHDR(&msg)->cmsg_type  = SCM_RIGHTS;
        CMSG_FIRSTHDR(&msg)->cmsg_len   = CMSG_LEN(count * sizeof(int));
        memcpy(CMSG_DATA(CMSG_FIRSTHDR(&msg)), fds, count * sizeof(int));
    }
    (void)sendmsg(sock, &msg, MSG_NOSIGNAL | MSG_DONTWAIT);
}

static inline void fuzz_serve(int sock)
{
    struct fuzz_exporter    *e = &fuzz_exporter;
    struct zr_broker_request request;
    int                      fds[ZR_BROKER_MAX_FDS];
    unsigned                 i, count;

    while (recv(sock, &request, sizeof(request), 0) == (ssize_t)sizeof(request)) {
        struct zr_broker_answer answer = {ZR_BROKER_MAGIC, 0, 1, 0};

        if (request.what == ZR_BROKER_LEAD) {
            answer.status = (e->lead >= 0) ? 0 : -EACCES;
            fuzz_answer(sock, &answer, sizeof(answer), &e->lead, e->lead >= 0);
            continue;
        }
        NEED(request.count > 0 && request.count <= ZR_BROKER_MAX_FDS);
        count = request.count;
        if (e->answer != NULL) {
            count = (e->answer_fds < ZR_BROKER_MAX_FDS) ? e->answer_fds : ZR_BROKER_MAX_FDS;
        }
        for (i = 0; i < count; i++) {
            fds[i] = e->objects[(request.first + i) % e->object_count];
        }
        if (e->answer != NULL) {
            fuzz_answer(sock, e->answer, e->answer_size, fds, count);
            return; /* one such answer a connection: no endless conversation */
        }
        answer.count = count;
        fuzz_answer(sock, &answer, sizeof(answer), fds, count);
    }
}

static inline void *fuzz_exporter_main(void *arg)
{
    for (;;) {
        int sock = accept4(fuzz_exporter.listener, NULL, NULL, SOCK_CLOEXEC);

        if (sock >= 0) {
            fuzz_serve(sock);
            close(sock);
        }
    }
    return NULL;
}

static inline void fuzz_exporter_start(void)
{
    struct sockaddr_un address;
    socklen_t          length;
    pthread_t          thread;

    fuzz_exporter.process  = zr_random_u64();
    length                 = zr_broker_address(fuzz_exporter.process, &address);
    fuzz_exporter.listener = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
    NEED(bind(fuzz_exporter.listener, (struct sockaddr *)&address, length) == 0);
    NEED(listen(fuzz_exporter.listener, 64) == 0);
    NEED(pthread_create(&thread, NULL, fuzz_exporter_main, NULL) == 0);
}

/* A memfd with these bytes, sealed as a table is. */
static inline int fuzz_table_fd(const void *data, size_t size)
{
    int fd = memfd_create("fuzz", MFD_CLOEXEC | MFD_ALLOW_SEALING);

    NEED(fd >= 0 && write(fd, data, size) == (ssize_t)size);
    NEED(fcntl(fd, F_ADD_SEALS, F_SEAL_WRITE | F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL) == 0);
    return fd;
}

/* A buffer of @a size bytes as another process would send it. */
static inline int fuzz_buffer(size_t size)
{
    struct zr_bo *bo;
    int           fd;

    NEED(zr_bo_create(test_device(), size, ZR_PLACE_SYSTEM, ZR_CACHE_CACHED, &bo) ==
         ZE_RESULT_SUCCESS);
    NEED(zr_bo_export(bo, &fd) == ZE_RESULT_SUCCESS);
    return fd;
}

#endif
