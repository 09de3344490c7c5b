/* The exchange of fds, and who gets none: every method alone, restricted ptrace, namespaces, other
 * users, forked children, freed exports, and what the log says. */
/* SPDX-License-Identifier: BSD-3-Clause */
#include "faults.h"

#include <grp.h>
#include <sched.h>
#include <sys/mount.h>

#define OBJECTS 20
#define NOBODY  65534

enum place { HERE, PID_NS, MOUNT_NS, NET_NS };

struct way {
    const char *name;
    const char *exchange;
    enum place  exporter, importer;
    uid_t       exporter_uid, importer_uid; /* 0: as we are */
    bool        undumpable;                 /* the exporter may not be traced */
    bool        own_copy;                   /* the client puts its own fd into the handle */
    ze_result_t result;
    const char *says; /* in the error, or in why other methods were passed over */
};

static const struct way ways[] = {
    {"every method allowed", "auto"},
    {"pidfd alone", "pidfd"},
    {"socket alone", "socket"},
    {"own copy of the table's fd, objects by pidfd", "pidfd", .own_copy = true},
    {"own copy of the table's fd, objects by socket", "socket", .own_copy = true},
    {"exporter may not be traced: socket instead", "auto", .exporter_uid = NOBODY,
     .importer_uid = NOBODY, .undumpable = true, .says = "pidfd: pidfd_getfd: "},
    {"exporter may not be traced, pidfd alone", "pidfd", .exporter_uid = NOBODY,
     .importer_uid = NOBODY, .undumpable = true, .result = ZE_RESULT_ERROR_UNKNOWN,
     .says = "pidfd: pidfd_getfd: Operation not permitted; socket: off by ZERANGE_FD_EXCHANGE"},
    {"exporter in a pid namespace of its own", "auto", .exporter = PID_NS},
    {"importer in a pid namespace of its own", "auto", .importer = PID_NS},
    {"exporter in a pid namespace of its own, pidfd alone", "pidfd", .exporter = PID_NS,
     .result = ZE_RESULT_ERROR_UNKNOWN, .says = "pidfd: "},
    {"importer in a mount namespace of its own", "auto", .importer = MOUNT_NS},
    {"importer in a mount namespace of its own, socket alone", "socket", .importer = MOUNT_NS},
    {"importer in a network namespace of its own, socket alone", "socket", .importer = NET_NS,
     .result = ZE_RESULT_ERROR_UNKNOWN,
     .says = "it is no process of this user in this network namespace any more"},
    {"importer in a network namespace of its own, pidfd alone", "pidfd", .importer = NET_NS},
    {"importer of another user", "auto", .importer_uid = NOBODY, .result = ZE_RESULT_ERROR_UNKNOWN,
     .says = "pidfd: pidfd_getfd: Operation not permitted; socket: connect: it is no process of "
             "this user"},
    {"exporter of another user, socket alone", "socket", .exporter_uid = NOBODY,
     .result = ZE_RESULT_ERROR_UNKNOWN, .says = "it is no process of this user"},
};

/* For a pid namespace the caller becomes a parent that waits. */
static void enter(enum place place)
{
    static const int flags[] = {0, CLONE_NEWPID, CLONE_NEWNS, CLONE_NEWNET};
    int              status  = -1;
    pid_t            pid;

    if (place == HERE) {
        return;
    }
    if (unshare(flags[place]) != 0) {
        skip("unshare: %s", strerror(errno));
    }
    if (place == MOUNT_NS) {
        (void)mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL);
        (void)mount("tmpfs", "/dev/shm", "tmpfs", 0, NULL);
    }
    if (place == PID_NS) {
        pid = fork();
        CHECK(pid >= 0);
        if (pid > 0) {
            waitpid(pid, &status, 0);
            _exit(status == 0 ? 0 : 1);
        }
        prctl(PR_SET_PDEATHSIG, SIGKILL);
    }
}

/* After the device is open: its profile may be where others cannot read. */
static void become(uid_t uid)
{
    if (uid == 0) {
        return;
    }
    if (setgroups(0, NULL) != 0 || setresgid(uid, uid, uid) != 0 || setresuid(uid, uid, uid) != 0) {
        skip("another user needs root: %s", strerror(errno));
    }
    prctl(PR_SET_DUMPABLE, 1);
}

static void way_exporter(int sock, const void *arg)
{
    const struct way   *way = arg;
    ze_ipc_mem_handle_t handle;
    char               *base;
    int                 fd, control_fd;
    char                byte = 'f', control[CMSG_SPACE(sizeof(int))] = {0};
    struct iovec        iov = {&byte, 1};
    struct msghdr       msg = {.msg_iov = &iov, .msg_iovlen = 1, .msg_control = control,
                               .msg_controllen = sizeof(control)};

    enter(way->exporter);
    test_device();
    become(way->exporter_uid);
    if (way->undumpable) {
        CHECK(prctl(PR_SET_DUMPABLE, 0) == 0);
    }
    base = fault_range(OBJECTS, 5);
    fault_export(base, OBJECTS * PAGE, &handle);
    say(sock, &handle, sizeof(handle));
    memcpy(&fd, &handle, sizeof(fd));
    control_fd                  = fd;
    CMSG_FIRSTHDR(&msg)->cmsg_level = SOL_SOCKET;
    CMSG_FIRSTHDR(&msg)->cmsg_type  = SCM_RIGHTS;
    CMSG_FIRSTHDR(&msg)->cmsg_len   = CMSG_LEN(sizeof(int));
    memcpy(CMSG_DATA(CMSG_FIRSTHDR(&msg)), &control_fd, sizeof(control_fd));
    CHECK(sendmsg(sock, &msg, MSG_NOSIGNAL) == 1);
    hear(sock, &byte, 1);
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

/* Which methods were passed over on the way to success. */
static void explain(const ze_ipc_mem_handle_t *handle, const char *says)
{
    struct zr_exchange x;
    struct zr_handle   h;
    int                fd;

    memcpy(&h, handle, sizeof(h));
    zr_exchange_init(&x, &h);
    OK(zr_exchange_lead(&x, &fd));
    CHECK(strstr(x.why, says) != NULL);
    outcome("%s", x.why);
    close(fd);
    zr_exchange_fini(&x);
}

static void way_importer(int sock, const void *arg)
{
    const struct way   *way = arg;
    ze_ipc_mem_handle_t handle;
    struct holdings     before;
    ze_result_t         result;
    uint64_t            start;
    void               *ptr = &handle;
    int                 fd;

    enter(way->importer);
    test_device();
    become(way->importer_uid);
    before = hold();
    hear(sock, &handle, sizeof(handle));
    fd = receive_fd(sock);
    if (way->own_copy) {
        memcpy(&handle, &fd, sizeof(fd));
    } else {
        close(fd);
    }
    start  = zr_time_ns();
    result = zr_ipc_open(test_device(), &handle, &ptr);
    if (result != way->result) {
        fail("0x%x instead of 0x%x: %s", result, way->result, zr_last_error());
    }
    if (result == ZE_RESULT_SUCCESS) {
        CHECK(fault_range_is(ptr, OBJECTS * PAGE, 5));
        outcome("opened");
        OK(zr_ipc_close(ptr));
        if (way->says != NULL) {
            explain(&handle, way->says);
        }
    } else {
        CHECK(ptr == &handle && zr_time_ns() - start < 20 * SECOND);
        CHECK(strstr(zr_last_error(), way->says) != NULL);
        outcome("refused: %s", zr_last_error());
    }
    if (way->own_copy) {
        close(fd);
    }
    check_holdings(before);
    say(sock, "d", 1);
}

static void run_way(const void *arg)
{
    const struct way *way = arg;
    int               pair[2];
    pid_t             pids[2];
    unsigned          i;

    /* Read before the first open of the driver in either process. */
    setenv("ZERANGE_FD_EXCHANGE", way->exchange, 1);
    CHECK(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) == 0);
    for (i = 0; i < 2; i++) {
        pids[i] = fork();
        CHECK(pids[i] >= 0);
        if (pids[i] == 0) {
            close(pair[1 - i]);
            (i == 0 ? way_exporter : way_importer)(pair[i], way);
            _exit(0);
        }
    }
    close(pair[0]);
    close(pair[1]);
    fault_join(pids[1]);
    if (!atomic_load(&fault_page->skipped)) {
        int status;

        waitpid(pids[0], &status, 0);
    } else {
        kill(pids[0], SIGKILL);
    }
}

/* ---- a forked child does not answer for its parent ---- */

static void broker_in_child(const void *arg)
{
    ze_ipc_mem_handle_t handle;
    struct sockaddr_un  address;
    struct zr_handle    h;
    socklen_t           length;
    unsigned            fds, sockets = 0;
    char               *base = fault_range(3, 1), path[40], name[100];
    int                 fd, status;
    pid_t               pid;
    ssize_t             n;

    fault_export(base, 3 * PAGE, &handle);
    memcpy(&h, &handle, sizeof(h));
    length = zr_broker_address(h.process_id, &address);
    pid    = fork();
    if (pid == 0) {
        CHECK(zr_identity().process_id != h.process_id);
        for (fds = 0; fds < 256; fds++) {
            snprintf(path, sizeof(path), "/proc/self/fd/%u", fds);
            n = readlink(path, name, sizeof(name) - 1);
            name[n > 0 ? n : 0] = '\0';
            /* Only what the test itself holds open may be a socket. */
            sockets += strncmp(name, "socket:", 7) == 0;
            CHECK(strstr(name, "zerange-range") == NULL);
        }
        CHECK(sockets == 0);
        /* The child's own end leaves the parent's exports alone. */
        exit(0);
    }
    CHECK(waitpid(pid, &status, 0) == pid && status == 0);
    fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
    CHECK(connect(fd, (struct sockaddr *)&address, length) == 0);
    close(fd);
    zr_ipc_shutdown();
    fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
    CHECK(connect(fd, (struct sockaddr *)&address, length) != 0 && errno == ECONNREFUSED);
    close(fd);
    outcome("no socket and no table in the child; nobody listens when the parent has stopped");
}

/* ---- an export that is gone ---- */

struct gone {
    const char *name;
    void (*end)(char *base, ze_ipc_mem_handle_t *handle);
};

static void end_put(char *base, ze_ipc_mem_handle_t *handle)
{
    OK(zr_ipc_put(handle));
}

static void end_forget(char *base, ze_ipc_mem_handle_t *handle)
{
    zr_ipc_forget(base);
}

static void end_owner(char *base, ze_ipc_mem_handle_t *handle)
{
    zr_ipc_owner_gone(NULL);
}

static const struct gone gones[] = {
    {"old handle after put", end_put},
    {"old handle after the exported address was freed", end_forget},
    {"old handle after the context ended", end_owner},
};

static void gone_exporter(int sock, const void *arg)
{
    const struct gone  *gone = arg;
    ze_ipc_mem_handle_t handle, other;
    char               *base = fault_range(4, 9);

    fault_export(base, 4 * PAGE, &handle);
    gone->end(base, &handle);
    /* The freed fd's number, and memory, are in use again. */
    OK(zr_va_unreserve(base, 4 * PAGE));
    base = fault_range(4, 77);
    fault_export(base, 4 * PAGE, &other);
    say(sock, &handle, sizeof(handle));
    meet(sock);
}

static void gone_importer(const void *arg)
{
    ze_ipc_mem_handle_t handle;
    int                 sock;
    pid_t               pid    = fault_spawn(gone_exporter, arg, &sock); /* before any device */
    struct holdings     before = hold();
    void               *ptr    = &handle;

    hear(sock, &handle, sizeof(handle));
    CHECK(zr_ipc_open(test_device(), &handle, &ptr) == ZE_RESULT_ERROR_INVALID_ARGUMENT);
    CHECK(ptr == &handle);
    outcome("refused: %s", zr_last_error());
    meet(sock);
    fault_join(pid);
    check_holdings(before);
}

/* ---- no secret in the log ---- */

static void log_exporter(int sock, const void *arg)
{
    ze_ipc_mem_handle_t handle, damaged;
    char               *base = fault_range(4, 9);

    fault_export(base, 4 * PAGE, &handle);
    say(sock, &handle, sizeof(handle));
    meet(sock);
    damaged = handle;
    damaged.data[offsetof(struct zr_handle, secret)] ^= 1;
    OK(zr_ipc_put(&damaged));
    OK(zr_ipc_put(&handle));
    meet(sock);
}

static void log_case(const void *arg)
{
    static char         log[1 << 20];
    char                path[] = "/tmp/zerange-log-XXXXXX", hex[3 * ZR_SECRET_LENGTH] = "", *c;
    ze_ipc_mem_handle_t handle, damaged;
    struct zr_handle    h;
    unsigned            i;
    ssize_t             n;
    pid_t               pid;
    void               *ptr;
    int                 fd = mkstemp(path), sock;

    CHECK(fd >= 0);
    unlink(path);
    setenv("ZERANGE_LOG", "debug", 1);
    CHECK(dup2(fd, STDERR_FILENO) >= 0);
    pid = fault_spawn(log_exporter, NULL, &sock);
    hear(sock, &handle, sizeof(handle));
    memcpy(&h, &handle, sizeof(h));
    OK(zr_ipc_open(test_device(), &handle, &ptr));
    OK(zr_ipc_close(ptr));
    damaged = handle;
    damaged.data[offsetof(struct zr_handle, secret) + 3] ^= 1;
    CHECK(zr_ipc_open(test_device(), &damaged, &ptr) != ZE_RESULT_SUCCESS);
    meet(sock);
    meet(sock);
    fault_join(pid);
    n = pread(fd, log, sizeof(log) - 1, 0);
    CHECK(n > 0 && strstr(log, "leading fd by") != NULL);
    CHECK(memmem(log, (size_t)n, h.secret, 4) == NULL);
    for (i = 0; i < 4; i++) {
        snprintf(hex + 2 * i, 3, "%02x", h.secret[i]);
    }
    for (c = log; *c != '\0'; c++) {
        *c = (*c >= 'A' && *c <= 'F') ? *c | 0x20 : *c;
    }
    CHECK(strstr(log, hex) == NULL);
    outcome("%zd bytes of debug log, no secret in them", n);
}

/* ---- the exporter opens its own handle ---- */

static void same_process(const void *arg)
{
    ze_ipc_mem_handle_t handle, wrong;
    struct zr_exchange  x;
    struct zr_handle    h;
    struct zr_range     range;
    struct holdings     before, open;
    ze_result_t         result = ZE_RESULT_ERROR_UNKNOWN;
    size_t              lead;
    char               *base, *ptr;
    void               *none = &handle;

    setenv("ZERANGE_FD_EXCHANGE", (const char *)arg, 1);
    base = fault_range(4, 6);
    fault_export(base, 4 * PAGE, &handle);
    before = hold();
    OK(zr_ipc_open(test_device(), &handle, (void **)&ptr));
    open = hold();
    CHECK(open.fds == before.fds && open.ipc.imported_objects == 0);
    ptr[PAGE] ^= 1;
    CHECK(ptr != base && memcmp(ptr, base, 4 * PAGE) == 0);
    OK(zr_ipc_close(ptr));

    /* The method by itself; for another process's handle it says no. */
    memcpy(&h, &handle, sizeof(h));
    zr_range_init(&range);
    zr_exchange_init(&x, &h);
    CHECK(zr_exchange_range(&x, &range, &lead, &result) && result == ZE_RESULT_SUCCESS);
    CHECK(range.count == 4 && range.length == 4 * PAGE && lead == 0);
    zr_range_clear(&range);
    x.handle.process_id ^= 1;
    CHECK(!zr_exchange_range(&x, &range, &lead, &result) && x.sock < 0 && x.pidfd < 0);
    zr_exchange_fini(&x);

    wrong = handle;
    wrong.data[offsetof(struct zr_handle, secret) + 15] ^= 1;
    CHECK(zr_ipc_open(test_device(), &wrong, &none) == ZE_RESULT_ERROR_INVALID_ARGUMENT);
    OK(zr_ipc_put(&handle));
    CHECK(zr_ipc_open(test_device(), &handle, &none) == ZE_RESULT_ERROR_INVALID_ARGUMENT);
    CHECK(none == &handle);
    outcome("same objects, no fd; wrong secret and after put: %s", zr_last_error());
}

int main(void)
{
    unsigned i;

    fault_start();
    setenv("ZERANGE_DEVICE_CPU_ACCESS", "1", 1);
    for (i = 0; i < ZR_ARRAY_SIZE(ways); i++) {
        fault_case(ways[i].name, run_way, &ways[i], 60);
    }
    setenv("ZERANGE_FD_EXCHANGE", "auto", 1);
    for (i = 0; i < ZR_ARRAY_SIZE(gones); i++) {
        fault_case(gones[i].name, gone_importer, &gones[i], 60);
    }
    fault_case("forked child of an exporter", broker_in_child, NULL, 60);
    fault_case("log at debug level", log_case, NULL, 60);
    fault_case("same process, every method allowed", same_process, "auto", 60);
    fault_case("same process, pidfd alone", same_process, "pidfd", 60);
    fault_case("same process, socket alone", same_process, "socket", 60);
    return fault_end("exchange");
}
