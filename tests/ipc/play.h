/* What the tests of IPC share: two roles, each a process of its own, forked before the driver is
 * used; what a process holds; ranges of many objects with a pattern in them. */
/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef ZR_TEST_IPC_PLAY_H
#define ZR_TEST_IPC_PLAY_H

#include "../unit/device.h"
#include "ipc/parts.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/wait.h>

#define PAGE ZR_PAGE_SMALL
#define RW   ZE_MEMORY_ACCESS_ATTRIBUTE_READWRITE

#define CHECK(cond)                                                                           \
    do {                                                                                      \
        if (!(cond)) {                                                                        \
            printf("%s:%d: pid %d: not true: %s\n  last error: %s\n", __FILE__, __LINE__,     \
                   (int)getpid(), #cond, zr_last_error());                                    \
            fflush(stdout);                                                                   \
            _exit(1);                                                                         \
        }                                                                                     \
    } while (0)
#define OK(call) CHECK((call) == ZE_RESULT_SUCCESS)

/* ---- two processes ---- */

struct scenario {
    const char *name;
    void (*exporter)(int sock, const void *arg);
    void (*importer)(int sock, const void *arg);
    const void *arg;
    const char *exchange;
};

#include "talk.h"

/* As many fds as a user has by default. @return the limits from then on */
static inline struct rlimit limit_fds(void)
{
    struct rlimit limit = {0};

    if (getrlimit(RLIMIT_NOFILE, &limit) == 0 && limit.rlim_cur > 1024) {
        limit.rlim_cur = 1024;
        setrlimit(RLIMIT_NOFILE, &limit);
    }
    return limit;
}

static inline pid_t start_role(const struct scenario *s, int sock, int other, bool importer)
{
    pid_t pid = fork();

    if (pid == 0) {
        close(other);
        alarm(60);
        setenv("ZERANGE_FD_EXCHANGE", s->exchange, 1);
        test_device();
        (importer ? s->importer : s->exporter)(sock, s->arg);
        exit(0);
    }
    return pid;
}

/* 0, or 1 if the importer failed or the exporter failed by itself (SIGKILL is part of the play). */
static inline int run_scenario(const struct scenario *s)
{
    int   pair[2], exporter_status, importer_status, failed, skip;
    pid_t exporter, importer;

    if (socketpair(AF_UNIX, SOCK_STREAM, 0, pair) != 0) {
        return 1;
    }
    fflush(stdout);
    exporter = start_role(s, pair[0], pair[1], false);
    importer = start_role(s, pair[1], pair[0], true);
    close(pair[0]);
    close(pair[1]);
    waitpid(importer, &importer_status, 0);
    waitpid(exporter, &exporter_status, 0);
    failed = importer_status != 0 ||
             (exporter_status != 0 &&
              !(WIFSIGNALED(exporter_status) && WTERMSIG(exporter_status) == SIGKILL));
    skip = WIFEXITED(importer_status) && WEXITSTATUS(importer_status) == 77;
    if (skip) {
        printf("%s", "no device\n");
        fflush(stdout);
        exit(77);
    }
    printf("%s %s [%s]\n", failed ? "FAIL" : "ok  ", s->name, s->exchange);
    return failed;
}

/* ---- what a process holds ---- */

struct holdings {
    struct zr_mem_counts mem;
    struct zr_ipc_counts ipc;
    unsigned             fds;
};

/* The broker's own fds come with the first export and are no leak: started before counting. */
static inline struct holdings hold(void)
{
    struct holdings h;

    if (zr_config()->fd_exchange != ZR_FD_EXCHANGE_PIDFD) {
        CHECK(zr_broker_start() == 0);
    }
    zr_mem_counts(&h.mem);
    zr_ipc_counts(&h.ipc);
    h.fds = test_fds();
    return h;
}

/* The broker closes a connection when it sees its end: waited for, at most five seconds. */
static inline void check_holdings(struct holdings before)
{
    uint64_t        deadline = zr_time_ns() + UINT64_C(5000000000);
    struct holdings now;

    do {
        now = hold();
        poll(NULL, 0, 1);
    } while (now.fds != before.fds && zr_time_ns() < deadline);
    CHECK(memcmp(&now.mem, &before.mem, sizeof(now.mem)) == 0);
    CHECK(memcmp(&now.ipc, &before.ipc, sizeof(now.ipc)) == 0);
    CHECK(now.fds == before.fds);
}
/* ---- ranges ---- */

/* Every object has 3 pages, of which the mapping shows the middle one or two; every third is device
 * memory; the second half sits in a second reservation. */
static inline char *make_range(unsigned objects, size_t *size_p)
{
    size_t          size = 0, at;
    struct zr_phys *phys;
    unsigned        i;
    char           *base, *second;

    for (i = 0; i < objects; ++i) {
        size += (1 + i % 2) * PAGE;
    }
    OK(zr_va_reserve(NULL, size + PAGE, (void **)&base));
    OK(zr_va_unreserve(base, size + PAGE));
    OK(zr_va_reserve(base, PAGE, (void **)&second));
    CHECK(second == base);
    if (size > PAGE) {
        OK(zr_va_reserve(base + PAGE, size - PAGE, (void **)&second));
        CHECK(second == base + PAGE);
    }
    for (i = 0, at = 0; i < objects; at += (1 + i % 2) * PAGE, ++i) {
        OK((i % 3 == 2) ? zr_phys_create(test_device(), ZR_BACKING_CONTIGUOUS,
                                         ZR_CACHE_WRITE_COMBINED, 3 * PAGE, 0, &phys)
                        : zr_phys_create(test_device(), ZR_BACKING_SECTION, ZR_CACHE_CACHED,
                                         3 * PAGE, 0, &phys));
        OK(zr_va_map(base + at, (1 + i % 2) * PAGE, phys, PAGE, RW));
        zr_phys_unref(phys);
    }
    *size_p = size;
    return base;
}

static inline void free_range(char *base, size_t size)
{
    OK(zr_va_unreserve(base, PAGE));
    if (size > PAGE) {
        OK(zr_va_unreserve(base + PAGE, size - PAGE));
    }
}

static inline char pattern(size_t i)
{
    return (char)(i * 31 + (i >> 16) * 7 + 1);
}

static inline void export_range(char *ptr, size_t size, ze_ipc_mem_handle_t *handle)
{
    struct zr_range range;
    unsigned        kinds;
    uint64_t        generation;

    OK(zr_range_walk(ptr, size, &range, &kinds, &generation));
    OK(zr_ipc_export_range(ptr, &range, generation, NULL, handle));
    zr_range_clear(&range);
}

static inline void wait_for_death(int sock)
{
    char c;

    CHECK(recv(sock, &c, 1, 0) <= 0);
}

#endif
