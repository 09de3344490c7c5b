/* IPC between two processes: ranges of 1 to 300 objects by every exchange method, puts and closes
 * in any order, damaged handles and tables, peers that die, forked children; counts and fds come
 * back to where they were. Each role is a process of its own, forked before the driver is used. */
/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE 1
#endif
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

static void say(int sock, const void *data, size_t size)
{
    CHECK(send(sock, data, size, MSG_NOSIGNAL) == (ssize_t)size);
}

static void hear(int sock, void *data, size_t size)
{
    CHECK(recv(sock, data, size, MSG_WAITALL) == (ssize_t)size);
}

static void meet(int sock)
{
    char c = 'x';

    say(sock, &c, 1);
    hear(sock, &c, 1);
}

static pid_t start_role(const struct scenario *s, int sock, int other, bool importer)
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
static int run_scenario(const struct scenario *s)
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
static struct holdings hold(void)
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
static void check_holdings(struct holdings before)
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

struct shape {
    unsigned objects;
    size_t   lead, tail; /* bytes cut from the first and the last mapping */
};

/* Every object has 3 pages, of which the mapping shows the middle one or two; every third is device
 * memory; the second half sits in a second reservation. */
static char *make_range(unsigned objects, size_t *size_p)
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

static void free_range(char *base, size_t size)
{
    OK(zr_va_unreserve(base, PAGE));
    if (size > PAGE) {
        OK(zr_va_unreserve(base + PAGE, size - PAGE));
    }
}

static char pattern(size_t i)
{
    return (char)(i * 31 + (i >> 16) * 7 + 1);
}

static void export_range(char *ptr, size_t size, ze_ipc_mem_handle_t *handle)
{
    struct zr_range range;
    unsigned        kinds;
    uint64_t        generation;

    OK(zr_range_walk(ptr, size, &range, &kinds, &generation));
    OK(zr_ipc_export_range(ptr, &range, generation, NULL, handle));
    zr_range_clear(&range);
}

static void shape_exporter(int sock, const void *arg)
{
    const struct shape *shape  = arg;
    struct holdings     before = hold();
    ze_ipc_mem_handle_t handle, again;
    size_t              size, i;
    char               *base;

    base = make_range(shape->objects, &size);
    for (i = 0; i < size; ++i) {
        base[i] = pattern(i);
    }
    export_range(base + shape->lead, size - shape->lead - shape->tail, &handle);
    export_range(base + shape->lead, size - shape->lead - shape->tail, &again);
    CHECK(memcmp(&handle, &again, sizeof(handle)) == 0);
    OK(zr_ipc_put(&again)); /* counted: the handle still stands */
    say(sock, &size, sizeof(size));
    say(sock, &handle, sizeof(handle));
    meet(sock); /* opened */
    OK(zr_ipc_put(&handle));
    OK(zr_ipc_put(&handle)); /* unknown now: succeeds */
    free_range(base, size);
    meet(sock); /* freed */
    meet(sock); /* checked */
    check_holdings(before);
}

static void shape_importer(int sock, const void *arg)
{
    const struct shape  *shape  = arg;
    struct holdings      before = hold();
    struct zr_ipc_counts counts;
    struct zr_va_info    info;
    ze_ipc_mem_handle_t  handle;
    size_t               size, length, i;
    char                *ptr, *twice;

    hear(sock, &size, sizeof(size));
    hear(sock, &handle, sizeof(handle));
    length = size - shape->lead - shape->tail;
    OK(zr_ipc_open(test_device(), &handle, (void **)&ptr));
    OK(zr_ipc_open(test_device(), &handle, (void **)&twice));
    zr_ipc_counts(&counts);
    CHECK(counts.imports == before.ipc.imports + 2);
    CHECK(counts.imported_objects == before.ipc.imported_objects + shape->objects);
    CHECK(zr_va_query(ptr, &info) && info.kind == ZR_VA_IMPORT);
    CHECK(info.base == (uintptr_t)ptr && info.size == length);
    CHECK((uintptr_t)ptr % PAGE == shape->lead % PAGE);
    meet(sock);
    meet(sock); /* the exporter has freed everything: the memory is still ours */
    for (i = 0; i < length; ++i) {
        CHECK(ptr[i] == pattern(i + shape->lead));
    }
    OK(zr_ipc_close(twice));
    CHECK(ptr[length - 1] == pattern(length - 1 + shape->lead));
    OK(zr_ipc_close(ptr));
    CHECK(zr_ipc_close(ptr) == ZE_RESULT_ERROR_INVALID_ARGUMENT);
    CHECK(zr_ipc_open(test_device(), &handle, (void **)&ptr) != ZE_RESULT_SUCCESS);
    meet(sock);
    check_holdings(before);
}

/* ---- many objects: one fd of the driver for all of them ---- */

#define MANY 10000

static void many_exporter(int sock, const void *arg)
{
    ze_ipc_mem_handle_t handle;
    struct zr_range     range;
    struct zr_phys     *phys;
    unsigned            i, kinds, fds;
    uint64_t            generation, start;
    char               *base;

    hold(); /* starts the broker */
    OK(zr_va_reserve(NULL, MANY * PAGE, (void **)&base));
    for (i = 0; i < MANY; ++i) {
        OK(zr_phys_create(test_device(), ZR_BACKING_SECTION, ZR_CACHE_CACHED, PAGE, 0, &phys));
        OK(zr_va_map(base + i * PAGE, PAGE, phys, 0, RW));
        zr_phys_unref(phys);
        memcpy(base + i * PAGE + 4096, &i, sizeof(i));
    }
    fds   = test_fds();
    start = zr_time_ns();
    export_range(base, MANY * PAGE, &handle);
    printf("     %u objects: export %.1f ms", MANY, (double)(zr_time_ns() - start) / 1e6);
    CHECK(test_fds() == fds + 1);
    OK(zr_range_walk(base, MANY * PAGE, &range, &kinds, &generation));
    start = zr_time_ns();
    for (i = 0; i < 100; ++i) {
        OK(zr_ipc_export_range(base, &range, generation, NULL, &handle));
    }
    printf(", again without the walk %.2f us", (double)(zr_time_ns() - start) / 1e5);
    start = zr_time_ns();
    zr_range_clear(&range);
    export_range(base, MANY * PAGE, &handle);
    printf(", with it %.0f us\n", (double)(zr_time_ns() - start) / 1e3);
    fflush(stdout);
    say(sock, &handle, sizeof(handle));
    meet(sock);
    CHECK(test_fds() <= fds + 1 + 1); /* and the importer's connection */
    zr_ipc_forget(base);
    OK(zr_va_unreserve(base, MANY * PAGE));
}

static void many_importer(int sock, const void *arg)
{
    ze_ipc_mem_handle_t handle;
    unsigned            i, value;
    uint64_t            start;
    char               *ptr;

    hear(sock, &handle, sizeof(handle));
    start = zr_time_ns();
    OK(zr_ipc_open(test_device(), &handle, (void **)&ptr));
    printf("     import %.1f ms\n", (double)(zr_time_ns() - start) / 1e6);
    fflush(stdout);
    for (i = 0; i < MANY; ++i) {
        memcpy(&value, ptr + i * PAGE + 4096, sizeof(value));
        CHECK(value == i);
    }
    OK(zr_ipc_close(ptr));
    meet(sock);
}

/* ---- growth: a new export of a grown range fetches only what is new ---- */

static void growth_exporter(int sock, const void *arg)
{
    ze_ipc_mem_handle_t handle;
    unsigned            objects;
    size_t              size;
    char               *base = make_range(40, &size);

    for (objects = 10; objects <= 40; objects += 10) {
        size_t shown = objects / 2 * 3 * PAGE;

        export_range(base, shown, &handle);
        say(sock, &handle, sizeof(handle));
        meet(sock);
    }
}

static void growth_importer(int sock, const void *arg)
{
    struct zr_ipc_counts counts;
    ze_ipc_mem_handle_t  handle;
    unsigned             objects, i = 0;
    void                *ptr[4];

    for (objects = 10; objects <= 40; objects += 10) {
        hear(sock, &handle, sizeof(handle));
        OK(zr_ipc_open(test_device(), &handle, &ptr[i++]));
        zr_ipc_counts(&counts);
        CHECK(counts.imported_objects == objects);
        meet(sock);
    }
    OK(zr_ipc_close(ptr[3]));
    zr_ipc_counts(&counts);
    CHECK(counts.imported_objects == 30);
    OK(zr_ipc_close(ptr[0]));
    OK(zr_ipc_close(ptr[1]));
    zr_ipc_counts(&counts);
    CHECK(counts.imported_objects == 30);
    OK(zr_ipc_close(ptr[2]));
    zr_ipc_counts(&counts);
    CHECK(counts.imported_objects == 0 && counts.imports == 0);
}

/* ---- a plain handle opens from its fd alone ---- */

static void send_fd(int sock, int fd)
{
    char            byte = 'f', control[CMSG_SPACE(sizeof(int))] = {0};
    struct iovec    iov = {&byte, 1};
    struct msghdr   msg = {.msg_iov = &iov, .msg_iovlen = 1, .msg_control = control,
                           .msg_controllen = sizeof(control)};
    struct cmsghdr *cmsg = CMSG_FIRSTHDR(&msg);

    cmsg->cmsg_level = SOL_SOCKET;
    cmsg->cmsg_type  = SCM_RIGHTS;
    cmsg->cmsg_len   = CMSG_LEN(sizeof(int));
    memcpy(CMSG_DATA(cmsg), &fd, sizeof(fd));
    CHECK(sendmsg(sock, &msg, 0) == 1);
}

static int receive_fd(int sock)
{
    char          byte, control[CMSG_SPACE(sizeof(int))];
    struct iovec  iov = {&byte, 1};
    struct msghdr msg = {.msg_iov = &iov, .msg_iovlen = 1, .msg_control = control,
                         .msg_controllen = sizeof(control)};
    int           fd;

    CHECK(recvmsg(sock, &msg, MSG_CMSG_CLOEXEC) == 1 && CMSG_FIRSTHDR(&msg) != NULL);
    memcpy(&fd, CMSG_DATA(CMSG_FIRSTHDR(&msg)), sizeof(fd));
    return fd;
}

static void wait_for_death(int sock)
{
    char c;

    CHECK(recv(sock, &c, 1, 0) <= 0);
}

static void plain_exporter(int sock, const void *arg)
{
    ze_ipc_mem_handle_t handle;
    struct zr_range     range;
    unsigned            kinds;
    char               *usm;
    int                 fd;

    OK(zr_usm_alloc(test_device(), ZE_MEMORY_TYPE_SHARED, 100000, 0, false, (void **)&usm));
    memset(usm, 0x77, 100000);
    OK(zr_range_walk(usm, 100000, &range, &kinds, NULL));
    OK(zr_ipc_export_plain(usm, range.segments[0].object, 100000, ZE_MEMORY_TYPE_SHARED, NULL,
                           &handle));
    zr_range_clear(&range);
    memcpy(&fd, &handle, sizeof(fd));
    say(sock, &handle, sizeof(handle));
    send_fd(sock, fd);
    meet(sock); /* opened by the exchange */
    kill(getpid(), SIGKILL);
}

static void plain_importer(int sock, const void *arg)
{
    struct holdings     before = hold();
    struct zr_va_info   info;
    ze_ipc_mem_handle_t handle, made;
    struct zr_range     range;
    unsigned            kinds;
    uint64_t            back;
    void               *usm;
    char               *ptr;
    int                 fd, other;

    hear(sock, &handle, sizeof(handle));
    fd = receive_fd(sock);
    OK(zr_ipc_open(test_device(), &handle, (void **)&ptr));
    CHECK(ptr[0] == 0x77 && ptr[99999] == 0x77);
    OK(zr_ipc_close(ptr));
    meet(sock);
    wait_for_death(sock);

    /* A number that is open here for another buffer is not taken for the handle's. */
    OK(zr_usm_alloc(test_device(), ZE_MEMORY_TYPE_SHARED, 100000, 0, false, &usm));
    OK(zr_range_walk(usm, 100000, &range, &kinds, NULL));
    OK(zr_bo_export(range.segments[0].object->bo, &other));
    zr_range_clear(&range);
    memcpy(&handle, &other, sizeof(other));
    CHECK(zr_ipc_open(test_device(), &handle, (void **)&ptr) == ZE_RESULT_ERROR_UNKNOWN);
    close(other);
    OK(zr_usm_free(usm));

    memcpy(&handle, &fd, sizeof(fd)); /* as MPICH and libfabric do */
    OK(zr_ipc_open(test_device(), &handle, (void **)&ptr));
    CHECK(zr_va_query(ptr, &info) && info.size == 100000 && info.type == ZE_MEMORY_TYPE_HOST);
    CHECK(ptr[0] == 0x77 && ptr[99999] == 0x77);
    OK(zr_ipc_close(ptr));
    OK(zr_ipc_fd_from_handle(&handle, &back));
    CHECK(back == (uint64_t)fd);
    OK(zr_ipc_handle_from_fd((uint64_t)fd, &made));
    OK(zr_ipc_open(test_device(), &made, (void **)&ptr));
    OK(zr_ipc_close(ptr));
    close(fd);
    CHECK(zr_ipc_fd_from_handle(&handle, &back) == ZE_RESULT_ERROR_INVALID_ARGUMENT);
    CHECK(zr_ipc_open(test_device(), &handle, (void **)&ptr) != ZE_RESULT_SUCCESS);
    CHECK(zr_ipc_handle_from_fd(0x7ffffff0, &made) == ZE_RESULT_ERROR_INVALID_ARGUMENT);
    check_holdings(before);
}

/* A range's table in the client's hands: objects still come from the exporter. */
static void table_exporter(int sock, const void *arg)
{
    ze_ipc_mem_handle_t handle;
    size_t              size;
    char               *base = make_range(5, &size);
    int                 fd;

    export_range(base, size, &handle);
    memcpy(&fd, &handle, sizeof(fd));
    send_fd(sock, fd);
    meet(sock);
}

static void table_importer(int sock, const void *arg)
{
    struct holdings     before = hold();
    ze_ipc_mem_handle_t handle;
    void               *ptr;
    int                 fd = receive_fd(sock);

    OK(zr_ipc_handle_from_fd((uint64_t)fd, &handle));
    OK(zr_ipc_open(test_device(), &handle, &ptr));
    OK(zr_ipc_close(ptr));
    close(fd);
    meet(sock);
    check_holdings(before);
}

/* ---- damaged handles ---- */

static const struct {
    const char *name;
    size_t      offset;
    uint8_t     flip;
    ze_result_t result; /* by the socket */
} damages[] = {
    {"kind", offsetof(struct zr_handle, kind), 1, ZE_RESULT_ERROR_INVALID_ARGUMENT},
    {"kind plain", offsetof(struct zr_handle, kind), 'P' ^ 'R', ZE_RESULT_ERROR_INVALID_ARGUMENT},
    {"version", offsetof(struct zr_handle, version), 1, ZE_RESULT_ERROR_INVALID_ARGUMENT},
    {"type", offsetof(struct zr_handle, memory_type), 1, ZE_RESULT_ERROR_INVALID_ARGUMENT},
    {"zero", offsetof(struct zr_handle, zero), 1, ZE_RESULT_ERROR_INVALID_ARGUMENT},
    {"size", offsetof(struct zr_handle, size), 1, ZE_RESULT_ERROR_INVALID_ARGUMENT},
    {"inode", offsetof(struct zr_handle, inode), 1, ZE_RESULT_ERROR_INVALID_ARGUMENT},
    {"process", offsetof(struct zr_handle, process_id), 1, ZE_RESULT_ERROR_UNKNOWN},
    {"export", offsetof(struct zr_handle, export_id), 1, ZE_RESULT_ERROR_INVALID_ARGUMENT},
    {"secret, first bit", offsetof(struct zr_handle, secret), 1, ZE_RESULT_ERROR_INVALID_ARGUMENT},
    {"secret, last bit", offsetof(struct zr_handle, secret) + 15, 0x80,
     ZE_RESULT_ERROR_INVALID_ARGUMENT},
};

static void damage_exporter(int sock, const void *arg)
{
    ze_ipc_mem_handle_t handle;
    size_t              size;
    char               *base = make_range(3, &size);

    export_range(base, size, &handle);
    say(sock, &handle, sizeof(handle));
    meet(sock);
}

static void damage_importer(int sock, const void *arg)
{
    struct holdings     before = hold();
    ze_ipc_mem_handle_t handle, damaged;
    void               *ptr = &handle;
    unsigned            i;

    hear(sock, &handle, sizeof(handle));
    for (i = 0; i < ZR_ARRAY_SIZE(damages); ++i) {
        ze_result_t result;

        damaged = handle;
        damaged.data[damages[i].offset] ^= (char)damages[i].flip;
        result = zr_ipc_open(test_device(), &damaged, &ptr);
        if (result != damages[i].result) {
            printf("damaged %s: 0x%x\n", damages[i].name, result);
        }
        CHECK(result == damages[i].result);
        CHECK(ptr == &handle); /* written only on success */
    }
    OK(zr_ipc_open(test_device(), &handle, &ptr)); /* the exporter is none the worse */
    OK(zr_ipc_close(ptr));
    meet(sock);
    check_holdings(before);
}

/* ---- exporters that die, stop, or leave a child behind ---- */

enum death { DEATH_KILL, DEATH_STOP, DEATH_CHILD, DEATH_EXIT };

static void death_exporter(int sock, const void *arg)
{
    enum death          death = *(const enum death *)arg;
    ze_ipc_mem_handle_t handle;
    size_t              size;
    char               *base = make_range(4, &size);
    pid_t               self = getpid();

    export_range(base, size, &handle);
    say(sock, &handle, sizeof(handle));
    say(sock, &self, sizeof(self));
    if (death == DEATH_CHILD && fork() == 0) {
        /* Holds whatever a fork leaves open for longer than the test waits. */
        close(sock);
        poll(NULL, 0, 3000);
        _exit(0);
    }
    meet(sock);
    if (death == DEATH_STOP) {
        kill(self, SIGSTOP);
    }
    if (death == DEATH_EXIT) {
        exit(0);
    }
    kill(self, SIGKILL);
}

static void death_importer(int sock, const void *arg)
{
    enum death          death  = *(const enum death *)arg;
    struct holdings     before = hold();
    ze_ipc_mem_handle_t handle;
    uint64_t            start;
    pid_t               exporter;
    void               *ptr = &handle;
    ze_result_t         result;

    hear(sock, &handle, sizeof(handle));
    hear(sock, &exporter, sizeof(exporter));
    meet(sock);
    if (death == DEATH_STOP) {
        poll(NULL, 0, 100); /* the stop is under way */
    } else {
        wait_for_death(sock);
    }
    start  = zr_time_ns();
    result = zr_ipc_open(test_device(), &handle, &ptr);
    kill(exporter, SIGKILL);
    CHECK(result == ZE_RESULT_ERROR_UNKNOWN && ptr == &handle);
    CHECK(zr_time_ns() - start < UINT64_C(1000000) * (death == DEATH_STOP ? 8000 : 2000));
    CHECK(strstr(zr_last_error(), "pidfd: ") != NULL && strstr(zr_last_error(), "socket: ") != NULL);
    check_holdings(before);
}

/* ---- one process ---- */

static void own_process(int sock, const void *arg)
{
    struct holdings     before = hold();
    ze_ipc_mem_handle_t handle, other;
    struct zr_range     range;
    uint64_t            generation;
    unsigned            kinds;
    size_t              size, i;
    char               *base = make_range(6, &size), *ptr, owner[2];
    void               *tag;
    struct zr_handle     h;
    struct zr_export    *export;

    for (i = 0; i < size; ++i) {
        base[i] = pattern(i);
    }
    export_range(base + 10, size - 20, &handle);
    OK(zr_ipc_open(test_device(), &handle, (void **)&ptr));
    CHECK(memcmp(ptr, base + 10, size - 20) == 0);
    OK(zr_ipc_close(ptr));

    /* A range that somebody else took in is not an opened handle. */
    OK(zr_range_walk(base, size, &range, &kinds, &generation));
    OK(zr_va_adopt(&range, 0, test_device(), owner, (void **)&ptr));
    CHECK(zr_ipc_close(ptr) == ZE_RESULT_ERROR_INVALID_ARGUMENT);
    OK(zr_va_release(ptr, &tag));
    CHECK(tag == owner);
    zr_range_clear(&range);

    /* Another generation is another export; both go with zr_ipc_forget. */
    OK(zr_range_walk(base + 10, size - 20, &range, &kinds, &generation));
    OK(zr_ipc_export_range(base + 10, &range, generation + 1, owner, &other));
    CHECK(memcmp(&handle, &other, sizeof(handle)) != 0);
    zr_ipc_forget(base + 10);
    CHECK(zr_ipc_open(test_device(), &handle, (void **)&ptr) == ZE_RESULT_ERROR_INVALID_ARGUMENT);
    CHECK(zr_ipc_open(test_device(), &other, (void **)&ptr) == ZE_RESULT_ERROR_INVALID_ARGUMENT);

    /* The fd of an ended export is closed while the broker still answers for it. */
    OK(zr_ipc_export_range(base + 10, &range, generation, owner, &handle));
    memcpy(&h, &handle, sizeof(h));
    export = zr_export_find(h.export_id, h.secret);
    CHECK(export != NULL && fcntl(h.fd, F_GETFD) >= 0);
    OK(zr_ipc_put(&handle));
    CHECK(fcntl(h.fd, F_GETFD) < 0 && zr_export_lead_fd(export) == -ESTALE);
    zr_export_unref(export);

    /* What a context exported goes with it, and nothing else. */
    OK(zr_ipc_export_range(base + 10, &range, generation, &owner[0], &handle));
    OK(zr_ipc_export_range(base + 10, &range, generation, &owner[1], &other));
    zr_ipc_owner_gone(&owner[0]);
    CHECK(zr_ipc_open(test_device(), &handle, (void **)&ptr) == ZE_RESULT_ERROR_INVALID_ARGUMENT);
    OK(zr_ipc_open(test_device(), &other, (void **)&ptr));
    OK(zr_ipc_put(&other));
    OK(zr_ipc_close(ptr));
    zr_range_clear(&range);
    free_range(base, size);
    check_holdings(before);
    zr_ipc_shutdown();
    zr_ipc_shutdown();
}

static void nobody(int sock, const void *arg)
{
}

/* ---- hostile clients of the broker ---- */

static void hostile_exporter(int sock, const void *arg)
{
    struct holdings     before = hold();
    ze_ipc_mem_handle_t handle;
    size_t              size;
    char               *base = make_range(300, &size);

    export_range(base, size, &handle);
    say(sock, &handle, sizeof(handle));
    meet(sock);
    OK(zr_ipc_put(&handle));
    free_range(base, size);
    check_holdings(before);
}

static void hostile_importer(int sock, const void *arg)
{
    struct zr_broker_request request = {
        .magic = ZR_BROKER_MAGIC, .version = ZR_WIRE_VERSION, .what = ZR_BROKER_OBJECTS};
    struct sockaddr_un       address;
    ze_ipc_mem_handle_t      handle;
    struct zr_handle         h;
    socklen_t                length;
    char                     big[4096] = {0};
    unsigned                 i;
    void                    *ptr;
    int                      fds[100];

    hear(sock, &handle, sizeof(handle));
    memcpy(&h, &handle, sizeof(h));
    length = zr_broker_address(h.process_id, &address);
    /* More silent, babbling and never reading peers than there are places. */
    for (i = 0; i < ZR_ARRAY_SIZE(fds); ++i) {
        fds[i] = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
        CHECK(connect(fds[i], (struct sockaddr *)&address, length) == 0);
        request.export_id = h.export_id;
        request.first     = i;
        request.count     = (i % 5 == 1) ? 0x40000000 : 100;
        memcpy(request.secret, h.secret, sizeof(h.secret));
        if (i % 3 == 1) {
            send(fds[i], big, i * 40, MSG_NOSIGNAL);
        }
        if (i % 3 == 2) {
            unsigned k;

            for (k = 0; k < 50; ++k) {
                send(fds[i], &request, sizeof(request), MSG_NOSIGNAL | MSG_DONTWAIT);
            }
        }
    }
    OK(zr_ipc_open(test_device(), &handle, &ptr));
    OK(zr_ipc_close(ptr));
    for (i = 0; i < ZR_ARRAY_SIZE(fds); ++i) {
        close(fds[i]);
    }
    meet(sock);
}

/* ---- both ways at once, with threads on each side ---- */

static ze_ipc_mem_handle_t theirs[2];

static void *crossing_thread(void *arg)
{
    unsigned i, bad = 0;
    void    *ptr;

    for (i = 0; i < 40; ++i) {
        bad += zr_ipc_open(test_device(), &theirs[i % 2], &ptr) != ZE_RESULT_SUCCESS ||
               zr_ipc_close(ptr) != ZE_RESULT_SUCCESS;
    }
    return (void *)(uintptr_t)bad;
}

static void crossing(int sock, const void *arg)
{
    struct holdings     before = hold();
    ze_ipc_mem_handle_t handle;
    pthread_t           threads[4];
    unsigned            i;
    size_t              size[2];
    char               *base[2];
    void               *bad;

    for (i = 0; i < 2; ++i) {
        base[i] = make_range(30 + 10 * i, &size[i]);
        export_range(base[i], size[i], &handle);
        say(sock, &handle, sizeof(handle));
        hear(sock, &theirs[i], sizeof(theirs[i]));
    }
    for (i = 0; i < ZR_ARRAY_SIZE(threads); ++i) {
        CHECK(pthread_create(&threads[i], NULL, crossing_thread, NULL) == 0);
    }
    for (i = 0; i < ZR_ARRAY_SIZE(threads); ++i) {
        pthread_join(threads[i], &bad);
        CHECK(bad == NULL);
    }
    meet(sock);
    for (i = 0; i < 2; ++i) {
        zr_ipc_forget(base[i]);
        free_range(base[i], size[i]);
    }
    check_holdings(before);
}

/* ---- tables ---- */

#define FIELD(f)  offsetof(struct zr_table_header, f), sizeof(((struct zr_table_header *)0)->f)
#define ENTRY(f)                                                                              \
    sizeof(struct zr_table_header) + sizeof(struct zr_table_entry) +                          \
        offsetof(struct zr_table_entry, f), sizeof(((struct zr_table_entry *)0)->f)

static int check_tables(void)
{
    static const struct {
        const char *name;
        size_t      offset, width;
        uint64_t    value;
        bool        good;
        uint64_t    size; /* of the entry's object, if not 0 */
    } cases[] = {
        {"as made", 0, 0, 0, true},
        {"magic", FIELD(magic), 0, false},
        {"version", FIELD(version), 2, false},
        {"no entries", FIELD(count), 0, false},
        {"fewer entries", FIELD(count), 2, false},
        {"more entries", FIELD(count), 4, false},
        {"very many entries", FIELD(count), UINT32_MAX, false},
        {"entry size", FIELD(entry_size), 8, false},
        {"shorter", FIELD(length), 3 * PAGE - 1, false},
        {"longer", FIELD(length), 3 * PAGE + 1, false},
        {"lead in the page", FIELD(lead), PAGE - 1, true},
        {"lead beyond", FIELD(lead), PAGE, false},
        {"object cut", ENTRY(size), 2 * PAGE - 1, false},
        {"offset beyond", ENTRY(offset), PAGE + 1, false},
        {"offset wraps", ENTRY(offset), UINT64_MAX, false},
        {"offset and length wrap", ENTRY(offset), UINT64_MAX - 4095, false, UINT64_MAX},
        {"empty entry", ENTRY(length), 0, false},
        {"length wraps", ENTRY(length), UINT64_MAX - PAGE + 1, false},
        {"flags", ENTRY(flags), 2, false},
        {"fd", ENTRY(fd), (uint32_t)-2, false},
        {"zero", ENTRY(zero), 1, false},
    };
    struct {
        struct zr_table_header header;
        struct zr_table_entry  entries[3];
    } table;
    unsigned i;
    int      failed = 0;

    for (i = 0; i < ZR_ARRAY_SIZE(cases); ++i) {
        unsigned    k;
        const char *wrong;

        memset(&table, 0, sizeof(table));
        table.header = (struct zr_table_header){.magic      = ZR_TABLE_MAGIC,
                                                .version    = ZR_WIRE_VERSION,
                                                .count      = 3,
                                                .entry_size = sizeof(struct zr_table_entry),
                                                .length     = 3 * PAGE};
        for (k = 0; k < 3; ++k) {
            table.entries[k] = (struct zr_table_entry){
                .object_id = k + 1, .size = 2 * PAGE, .offset = PAGE, .length = PAGE, .fd = -1};
        }
        if (cases[i].size != 0) {
            table.entries[1].size = cases[i].size;
        }
        memcpy((char *)&table + cases[i].offset, &cases[i].value, cases[i].width);
        wrong = zr_table_check(&table, sizeof(table));
        if ((wrong == NULL) != cases[i].good) {
            printf("FAIL table, %s: %s\n", cases[i].name, (wrong == NULL) ? "accepted" : wrong);
            failed = 1;
        }
    }
    for (i = 0; i < sizeof(table); ++i) {
        if (zr_table_check(&table, i) == NULL) {
            printf("FAIL table of %u bytes accepted\n", i);
            failed = 1;
        }
    }
    return failed;
}

/* Only a memfd that nobody can change any more is a table. */
static int check_seals(void)
{
    static const int seals[] = {0, F_SEAL_WRITE, F_SEAL_WRITE | F_SEAL_SHRINK,
                                F_SEAL_WRITE | F_SEAL_SHRINK | F_SEAL_GROW};
    struct zr_table_header header = {0};
    struct zr_table        table;
    unsigned               i;
    int                    failed = 0, fd;

    for (i = 0; i < ZR_ARRAY_SIZE(seals); ++i) {
        const char *wrong;

        fd = memfd_create("test", MFD_CLOEXEC | MFD_ALLOW_SEALING);
        if (write(fd, &header, sizeof(header)) < 0 || fcntl(fd, F_ADD_SEALS, seals[i]) != 0) {
            return 1;
        }
        wrong = zr_table_open(fd, &table);
        if (wrong == NULL || strcmp(wrong, "not a sealed memfd") != 0) {
            printf("FAIL table with seals %d: %s\n", seals[i], wrong == NULL ? "opened" : wrong);
            failed = 1;
        }
        close(fd);
    }
    return failed;
}

int main(void)
{
    static const struct shape shapes[] = {
        {1, 0, 0},      {1, 1000, 3000},  {2, 0, 0},        {3, PAGE / 2, 1},
        {17, 4097, 77}, {100, 1, PAGE - 1}, {300, PAGE - 1, 5},
    };
    static const char *const exchanges[] = {"auto", "socket", "pidfd"};
    static const enum death  deaths[]    = {DEATH_KILL, DEATH_STOP, DEATH_CHILD, DEATH_EXIT};
    static const char *const death_names[] = {"killed", "stopped", "killed, a child lives",
                                              "exited"};
    struct rlimit limit;
    unsigned      i, k;
    char          name[100];
    int           failed = check_tables() | check_seals();

    if (getrlimit(RLIMIT_NOFILE, &limit) == 0 && limit.rlim_cur > 1024) {
        limit.rlim_cur = 1024;
        setrlimit(RLIMIT_NOFILE, &limit);
    }
    setenv("ZERANGE_DEVICE_CPU_ACCESS", "1", 1);
    for (k = 0; k < ZR_ARRAY_SIZE(exchanges); ++k) {
        for (i = 0; i < ZR_ARRAY_SIZE(shapes); ++i) {
            snprintf(name, sizeof(name), "range of %u objects, lead %zu, tail %zu",
                     shapes[i].objects, shapes[i].lead, shapes[i].tail);
            failed |= run_scenario(&(struct scenario){name, shape_exporter, shape_importer,
                                                      &shapes[i], exchanges[k]});
        }
        failed |= run_scenario(&(struct scenario){"growth", growth_exporter, growth_importer, NULL,
                                                  exchanges[k]});
        failed |= run_scenario(&(struct scenario){"plain handle, replaced fd", plain_exporter,
                                                  plain_importer, NULL, exchanges[k]});
        failed |= run_scenario(&(struct scenario){"handle from a table's fd", table_exporter,
                                                  table_importer, NULL, exchanges[k]});
    }
    if (limit.rlim_max > MANY + 1000) { /* the software device has an fd per object */
        failed |= run_scenario(&(struct scenario){"10000 objects, soft fd limit 1024",
                                                  many_exporter, many_importer, NULL, "auto"});
    }
    failed |= run_scenario(&(struct scenario){"damaged handles", damage_exporter, damage_importer,
                                              NULL, "socket"});
    for (i = 0; i < ZR_ARRAY_SIZE(deaths); ++i) {
        snprintf(name, sizeof(name), "exporter %s", death_names[i]);
        failed |= run_scenario(&(struct scenario){name, death_exporter, death_importer, &deaths[i],
                                                  (deaths[i] == DEATH_STOP) ? "socket" : "auto"});
    }
    failed |= run_scenario(&(struct scenario){"hostile clients", hostile_exporter,
                                              hostile_importer, NULL, "socket"});
    failed |= run_scenario(&(struct scenario){"both ways, four threads each", crossing, crossing,
                                              NULL, "auto"});
    failed |= run_scenario(&(struct scenario){"one process", own_process, nobody, NULL, "auto"});
    return failed;
}
