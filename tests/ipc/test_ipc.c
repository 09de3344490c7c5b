/* IPC between two processes: ranges of 1 to 300 objects and of ten thousand by every exchange method,
 * growth, plain handles, puts and closes in any order, threads; counts and fds come back to where
 * they were. */
/* SPDX-License-Identifier: BSD-3-Clause */
#include "play.h"

/* ---- ranges ---- */

struct shape {
    unsigned objects;
    size_t   lead, tail; /* bytes cut from the first and the last mapping */
};

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

int main(void)
{
    static const struct shape shapes[] = {
        {1, 0, 0},      {1, 1000, 3000},  {2, 0, 0},        {3, PAGE / 2, 1},
        {17, 4097, 77}, {100, 1, PAGE - 1}, {300, PAGE - 1, 5},
    };
    static const char *const exchanges[] = {"auto", "socket", "pidfd"};
    struct rlimit limit;
    unsigned      i, k;
    char          name[100];
    int           failed = 0;

    limit = limit_fds();
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
    failed |= run_scenario(&(struct scenario){"both ways, four threads each", crossing, crossing,
                                              NULL, "auto"});
    failed |= run_scenario(&(struct scenario){"one process", own_process, nobody, NULL, "auto"});
    return failed;
}
