/* What the fault tests share: each case is a process (or several) of its own, and one line
 * "case: NAME: OUTCOME" on standard output; ranges of several objects; what a process holds. */
/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef ZR_TEST_FAULTS_H
#define ZR_TEST_FAULTS_H

#ifndef _GNU_SOURCE
#define _GNU_SOURCE 1
#endif
#include "../unit/device.h"
#include "blt/copyq.h"
#include "ipc/parts.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdarg.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/wait.h>

#define PAGE   ZR_PAGE_SMALL
#define RW     ZE_MEMORY_ACCESS_ATTRIBUTE_READWRITE
#define SECOND UINT64_C(1000000000)

/* ---- cases ---- */

/* Written by any process of a case, read by the test. */
struct fault_page {
    atomic_uint injected; /* faults, all cases together */
    atomic_bool skipped, failed;
    char        text[600];
};

static struct fault_page *fault_page;
static unsigned           fault_cases, fault_failed, fault_skipped;

static inline void fault_text(const char *format, va_list args)
{
    char line[sizeof(fault_page->text)], *c;

    vsnprintf(line, sizeof(line), format, args);
    for (c = line; *c != '\0'; c++) {
        *c = (*c == '\n') ? ' ' : *c;
    }
    memcpy(fault_page->text, line, sizeof(line));
}

/* What the case's line says; the last one counts. */
__attribute__((format(printf, 1, 2))) static inline void outcome(const char *format, ...)
{
    va_list args;

    if (atomic_load(&fault_page->failed)) {
        return;
    }
    va_start(args, format);
    fault_text(format, args);
    va_end(args);
}

/* The first failure is the one that is told: the others follow from it. */
__attribute__((format(printf, 1, 2), noreturn)) static inline void fail(const char *format, ...)
{
    va_list args;

    if (!atomic_exchange(&fault_page->failed, true)) {
        va_start(args, format);
        fault_text(format, args);
        va_end(args);
    }
    _exit(1);
}

__attribute__((format(printf, 1, 2), noreturn)) static inline void skip(const char *format, ...)
{
    va_list args;

    va_start(args, format);
    fault_text(format, args);
    va_end(args);
    atomic_store(&fault_page->skipped, true);
    _exit(0);
}

#define CHECK(cond)                                                                           \
    do {                                                                                      \
        if (!(cond)) {                                                                        \
            fail("%s:%d: pid %d: not true: %s (last error: %s)", __FILE__, __LINE__,          \
                 (int)getpid(), #cond, zr_last_error());                                      \
        }                                                                                     \
    } while (0)
#define OK(call) CHECK((call) == ZE_RESULT_SUCCESS)

static inline void fault_start(void)
{
    struct rlimit none = {0, 0};

    setvbuf(stdout, NULL, _IOLBF, 0);
    setrlimit(RLIMIT_CORE, &none);
    signal(SIGPIPE, SIG_IGN);
    fault_page = mmap(NULL, sizeof(*fault_page), PROT_READ | PROT_WRITE,
                      MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (fault_page == MAP_FAILED) {
        perror("fault_start");
        exit(1);
    }
}

/* The line of a case that ended with @a status of waitpid. */
static inline void fault_line(const char *name, int status)
{
    fault_cases++;
    if (status != 0 || atomic_load(&fault_page->failed)) {
        fault_failed++;
        if (WIFSIGNALED(status)) {
            printf("case: %s: FAILED: signal %d: %s\n", name, WTERMSIG(status), fault_page->text);
        } else {
            printf("case: %s: FAILED: %s\n", name, fault_page->text);
        }
    } else if (atomic_load(&fault_page->skipped)) {
        fault_skipped++;
        printf("case: %s: skipped: %s\n", name, fault_page->text);
    } else {
        printf("case: %s: passed%s%s\n", name, fault_page->text[0] != '\0' ? ": " : "",
               fault_page->text);
    }
}

static inline void fault_reset(void)
{
    memset(fault_page->text, 0, sizeof(fault_page->text));
    atomic_store(&fault_page->skipped, false);
    atomic_store(&fault_page->failed, false);
}

/* Run @a body in a process that ends within @a seconds. */
static inline void fault_case(const char *name, void (*body)(const void *arg), const void *arg,
                              unsigned seconds)
{
    int   status = -1;
    pid_t pid;

    fault_reset();
    fflush(NULL);
    pid = fork();
    if (pid == 0) {
        alarm(seconds);
        body(arg);
        fflush(NULL);
        _exit(0);
    }
    waitpid(pid, &status, 0);
    fault_line(name, status);
}

static inline int fault_end(const char *test)
{
    printf("%s: %u cases, %u failed, %u skipped, %u faults injected\n", test, fault_cases,
           fault_failed, fault_skipped, atomic_load(&fault_page->injected));
    if (fault_failed > 0) {
        return 1;
    }
    return (fault_cases > 0 && fault_skipped == fault_cases) ? 77 : 0;
}

/* ---- processes of a case that talk to each other ---- */

#include "../ipc/talk.h"

/* A process that runs @a body with one end of a socket; *sock_p is the other. It dies with us. */
static inline pid_t fault_spawn(void (*body)(int sock, const void *arg), const void *arg,
                                int *sock_p)
{
    int   pair[2];
    pid_t pid;

    CHECK(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) == 0);
    fflush(NULL);
    pid = fork();
    CHECK(pid >= 0);
    if (pid == 0) {
        close(pair[0]);
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        alarm(120);
        body(pair[1], arg);
        fflush(NULL);
        _exit(0);
    }
    close(pair[1]);
    *sock_p = pair[0];
    return pid;
}

static inline void fault_join(pid_t pid)
{
    int status = -1;

    CHECK(waitpid(pid, &status, 0) == pid);
    if (status != 0) {
        fail("a process of the case ended with status 0x%x", status);
    }
}

/* State of another process as /proc has it: 'R', 'S', 'T', 'Z'; 'X' if it is gone. */
static inline char fault_state(pid_t pid)
{
    char  path[40], text[200], *c;
    FILE *file;
    char  state = 'X';

    snprintf(path, sizeof(path), "/proc/%d/stat", (int)pid);
    file = fopen(path, "re");
    if (file != NULL) {
        c = fgets(text, sizeof(text), file) != NULL ? strrchr(text, ')') : NULL;
        state = (c != NULL) ? c[2] : 'X';
        fclose(file);
    }
    return state;
}

/* Wait until a signal has had its effect: nothing runs in that process any more. */
static inline void fault_wait_down(pid_t pid)
{
    char state;

    while ((state = fault_state(pid)) != 'X' && state != 'Z' && state != 'T') {
        poll(NULL, 0, 1);
    }
}

/* ---- ranges ---- */

static inline unsigned char fault_byte(size_t i, unsigned seed)
{
    return (unsigned char)(i * 31 + (i >> 16) * 7 + seed);
}

/* @a objects objects of one page each, mapped one behind the other and CPU visible. */
static inline char *fault_range(unsigned objects, unsigned seed)
{
    struct zr_phys *phys;
    unsigned        i;
    size_t          k;
    char           *base;

    OK(zr_va_reserve(NULL, objects * PAGE, (void **)&base));
    for (i = 0; i < objects; ++i) {
        OK(zr_phys_create(test_device(), ZR_BACKING_SECTION, ZR_CACHE_CACHED, PAGE, 0, &phys));
        OK(zr_va_map(base + i * PAGE, PAGE, phys, 0, RW));
        zr_phys_unref(phys);
    }
    for (k = 0; k < objects * PAGE; k += 64) {
        base[k] = (char)fault_byte(k, seed);
    }
    return base;
}

static inline bool fault_range_is(const char *base, size_t size, unsigned seed)
{
    size_t k;

    for (k = 0; k < size; k += 64) {
        if ((unsigned char)base[k] != fault_byte(k, seed)) {
            return false;
        }
    }
    return true;
}

static inline ze_result_t fault_export_try(char *ptr, size_t size, ze_ipc_mem_handle_t *handle)
{
    struct zr_range range;
    unsigned        kinds;
    uint64_t        generation;
    ze_result_t     result = zr_range_walk(ptr, size, &range, &kinds, &generation);

    if (result == ZE_RESULT_SUCCESS) {
        result = zr_ipc_export_range(ptr, &range, generation, NULL, handle);
        zr_range_clear(&range);
    }
    return result;
}

static inline void fault_export(char *ptr, size_t size, ze_ipc_mem_handle_t *handle)
{
    OK(fault_export_try(ptr, size, handle));
}

/* ---- what a process holds ---- */

struct holdings {
    struct zr_mem_counts mem;
    struct zr_ipc_counts ipc;
    unsigned             fds;
};

/* Open fds but the arenas, which the software device keeps for its next small objects. */
static inline unsigned fault_fds(void)
{
    DIR           *dir = opendir("/proc/self/fd");
    struct dirent *entry;
    unsigned       count = 0;
    char           name[64];

    while ((entry = readdir(dir)) != NULL) {
        ssize_t n = readlinkat(dirfd(dir), entry->d_name, name, sizeof(name) - 1);

        name[n > 0 ? n : 0] = '\0';
        count += strncmp(name, "/memfd:i915-arena", 17) != 0;
    }
    closedir(dir);
    return count;
}

/* The broker's own fds come with the first export and are no leak: started before counting. */
static inline struct holdings hold(void)
{
    struct holdings h = {0};

    test_device();
    if (zr_config()->fd_exchange != ZR_FD_EXCHANGE_PIDFD) {
        CHECK(zr_broker_start() == 0);
    }
    zr_mem_counts(&h.mem);
    zr_ipc_counts(&h.ipc);
    h.fds = fault_fds();
    return h;
}

/* The broker closes a connection when it sees its end: waited for, at most ten seconds. */
static inline void check_holdings(struct holdings before)
{
    uint64_t        deadline = zr_time_ns() + 15 * SECOND;
    struct holdings now;

    do {
        now = hold();
        poll(NULL, 0, 1);
    } while (now.fds != before.fds && zr_time_ns() < deadline);
    if (now.fds != before.fds) {
        char           names[400] = "", name[64];
        size_t         used = 0;
        DIR           *dir  = opendir("/proc/self/fd");
        struct dirent *entry;

        while ((entry = readdir(dir)) != NULL && used < sizeof(names) - 80) {
            ssize_t n = readlinkat(dirfd(dir), entry->d_name, name, sizeof(name) - 1);

            if (n > 0 && strncmp(name, "/root", 5) != 0 && atoi(entry->d_name) > 14) {
                used += (size_t)snprintf(names + used, sizeof(names) - used, " %s:%.*s",
                                         entry->d_name, (int)n, name);
            }
        }
        closedir(dir);
        fail("%u fds open, %u before:%s", now.fds, before.fds, names);
    }
    CHECK(memcmp(&now.mem, &before.mem, sizeof(now.mem)) == 0);
    CHECK(memcmp(&now.ipc, &before.ipc, sizeof(now.ipc)) == 0);
}

#endif
