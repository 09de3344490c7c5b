/* Clients that the broker must survive: each does its worst, then an honest importer on the same
 * export gets every byte, and the exporter holds what it held before. */
/* SPDX-License-Identifier: BSD-3-Clause */
#include "faults.h"

#include <dirent.h>
#include <grp.h>
#include <poll.h>
#include <sched.h>
#include <sys/syscall.h>

#define OBJECTS 300
#define NOBODY  65534

/* A client knows the handle; it connects by itself. */
struct client {
    struct zr_handle   handle;
    struct sockaddr_un address;
    socklen_t          length;
    pid_t              exporter;
};

struct attack {
    const char *name;
    void (*run)(struct client *c, unsigned detail);
    unsigned detail;
    int      fds; /* 0: no limit stated; the process that serves may have so many more meanwhile */
};

static int client_connect(struct client *c)
{
    const struct timeval limit = {.tv_sec = 20};
    int                  fd    = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);

    CHECK(fd >= 0);
    CHECK(setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof(limit)) == 0);
    CHECK(setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &limit, sizeof(limit)) == 0);
    CHECK(connect(fd, (struct sockaddr *)&c->address, c->length) == 0);
    return fd;
}

static struct zr_broker_request request_of(const struct client *c)
{
    struct zr_broker_request request = {
        .magic     = ZR_BROKER_MAGIC,
        .version   = ZR_WIRE_VERSION,
        .what      = ZR_BROKER_OBJECTS,
        .export_id = c->handle.export_id,
        .count     = 1,
    };

    memcpy(request.secret, c->handle.secret, sizeof(request.secret));
    return request;
}

/* @return status of the answer, 1 if the broker ended the connection; fds are counted and closed */
static int answer_of(int fd, unsigned *fds_p)
{
    struct zr_broker_answer answer;
    struct iovec            iov = {&answer, sizeof(answer)};
    union {
        struct cmsghdr header;
        char           bytes[CMSG_SPACE(ZR_BROKER_MAX_FDS * sizeof(int))];
    } control;
    struct msghdr   msg = {.msg_iov = &iov, .msg_iovlen = 1, .msg_control = &control,
                           .msg_controllen = sizeof(control)};
    struct cmsghdr *cmsg;
    unsigned        i, n;
    ssize_t         got;

    *fds_p = 0;
    got    = recvmsg(fd, &msg, MSG_CMSG_CLOEXEC);
    if (got <= 0) {
        CHECK(got == 0 || errno == ECONNRESET); /* not a timeout */
        return 1;
    }
    CHECK(got == (ssize_t)sizeof(answer) && answer.magic == ZR_BROKER_MAGIC && answer.zero == 0);
    cmsg = CMSG_FIRSTHDR(&msg);
    if (cmsg != NULL) {
        n = (unsigned)((cmsg->cmsg_len - CMSG_LEN(0)) / sizeof(int));
        for (i = 0; i < n; i++) {
            int one;

            memcpy(&one, CMSG_DATA(cmsg) + i * sizeof(int), sizeof(one));
            close(one);
        }
        *fds_p = n;
    }
    CHECK(*fds_p == answer.count);
    return answer.status;
}

/* ---- packets ---- */

static void attack_packet_size(struct client *c, unsigned size)
{
    static char              bytes[1 << 16];
    struct zr_broker_request request = request_of(c);
    unsigned                 fds;
    int                      fd = client_connect(c);

    memcpy(bytes, &request, sizeof(request));
    CHECK(send(fd, bytes, size, MSG_NOSIGNAL) == (ssize_t)size);
    CHECK(answer_of(fd, &fds) == 1);
    outcome("connection ended");
    close(fd);
}

static const struct field {
    size_t   offset;
    uint64_t value;
    unsigned width;
    int      status; /* 1: connection ended */
} fields[] = {
    {offsetof(struct zr_broker_request, magic), 0, 4, 1},
    {offsetof(struct zr_broker_request, version), 99, 4, 1},
    {offsetof(struct zr_broker_request, what), 0, 4, 1},
    {offsetof(struct zr_broker_request, what), 3, 4, 1},
    {offsetof(struct zr_broker_request, zero), 1, 4, 1},
    {offsetof(struct zr_broker_request, export_id), 12345, 8, -EACCES},
    {offsetof(struct zr_broker_request, export_id), UINT64_MAX, 8, -EACCES},
    {offsetof(struct zr_broker_request, secret), 0, 1, -EACCES},
    {offsetof(struct zr_broker_request, secret) + 15, 0, 1, -EACCES},
    {offsetof(struct zr_broker_request, first), OBJECTS, 4, -EINVAL},
    {offsetof(struct zr_broker_request, first), UINT32_MAX, 4, -EINVAL},
    {offsetof(struct zr_broker_request, count), 0, 4, -EINVAL},
    {offsetof(struct zr_broker_request, count), 254, 4, -EINVAL},
    {offsetof(struct zr_broker_request, count), UINT32_MAX, 4, -EINVAL},
    {offsetof(struct zr_broker_request, first), (OBJECTS - 1) | UINT64_C(2) << 32, 8, -EINVAL},
    {offsetof(struct zr_broker_request, first), 1 | (uint64_t)UINT32_MAX << 32, 8, -EINVAL},
};

static void attack_field(struct client *c, unsigned which)
{
    const struct field      *field   = &fields[which];
    struct zr_broker_request request = request_of(c);
    unsigned                 fds;
    int                      fd = client_connect(c), status;

    if (field->width == 1) { /* a byte of the secret that is not the right one */
        ((uint8_t *)&request)[field->offset] ^= 0x40;
    } else {
        memcpy((char *)&request + field->offset, &field->value, field->width);
    }
    CHECK(send(fd, &request, sizeof(request), MSG_NOSIGNAL) == (ssize_t)sizeof(request));
    status = answer_of(fd, &fds);
    CHECK(status == field->status && fds == 0);
    if (status == 1) {
        outcome("connection ended");
    } else {
        outcome("refused: %s", strerror(-status));
    }
    close(fd);
}

/* Fds that a client sends along must not stay in the exporter. */
static void attack_gift(struct client *c, unsigned detail)
{
    struct zr_broker_request request = request_of(c);
    struct iovec             iov     = {&request, sizeof(request)};
    char                     control[CMSG_SPACE(100 * sizeof(int))] = {0};
    struct msghdr            msg = {.msg_iov = &iov, .msg_iovlen = 1, .msg_control = control,
                                    .msg_controllen = sizeof(control)};
    struct cmsghdr          *cmsg = CMSG_FIRSTHDR(&msg);
    unsigned                 i, fds;
    int                      fd = client_connect(c), gift = open("/dev/null", O_RDONLY | O_CLOEXEC);

    cmsg->cmsg_level = SOL_SOCKET;
    cmsg->cmsg_type  = SCM_RIGHTS;
    cmsg->cmsg_len   = CMSG_LEN(100 * sizeof(int));
    for (i = 0; i < 100; i++) {
        memcpy(CMSG_DATA(cmsg) + i * sizeof(int), &gift, sizeof(gift));
    }
    for (i = 0; i < 20; i++) {
        CHECK(sendmsg(fd, &msg, MSG_NOSIGNAL) == (ssize_t)sizeof(request));
        CHECK(answer_of(fd, &fds) == 0 && fds == 1);
    }
    outcome("2000 fds sent along, none kept");
    close(gift);
    close(fd);
}

/* ---- guessing ---- */

static void attack_guess(struct client *c, unsigned detail)
{
    struct zr_broker_request request = request_of(c);
    unsigned                 i, fds, answers = 0;
    int                      fd = -1, status;

    for (i = 0; i < detail; i++) {
        if (fd < 0) {
            fd = client_connect(c);
        }
        CHECK(zr_random_bytes(request.secret, sizeof(request.secret)) == 0);
        if (send(fd, &request, sizeof(request), MSG_NOSIGNAL) < 0) {
            status = 1;
        } else {
            status = answer_of(fd, &fds);
            CHECK(status == 1 || (status == -EACCES && fds == 0));
        }
        answers += status != 1;
        if (status == 1) {
            close(fd);
            fd = -1;
        }
    }
    CHECK(answers < detail); /* who guesses is thrown out now and then */
    outcome("%u guesses, %u answered, all refused", detail, answers);
    if (fd >= 0) {
        close(fd);
    }
}

/* ---- connections ---- */

/* Connect, do nothing, or ask and never read; stay until the honest importer is through. */
static void attack_crowd(struct client *c, unsigned ask)
{
    struct zr_broker_request request = request_of(c);
    unsigned                 i, k;
    int                      fd;

    request.count = 100;
    for (i = 0; i < 200; i++) {
        fd = client_connect(c);
        for (k = 0; k < ask; k++) {
            (void)send(fd, &request, sizeof(request), MSG_NOSIGNAL | MSG_DONTWAIT);
        }
    }
    outcome("200 connections at once, %u requests on each, no answer read", ask);
}

static void attack_half_close(struct client *c, unsigned asked)
{
    struct zr_broker_request request = request_of(c);
    unsigned                 fds;
    int                      fd = client_connect(c), status = 0;

    if (asked) {
        CHECK(send(fd, &request, sizeof(request), MSG_NOSIGNAL) == (ssize_t)sizeof(request));
    }
    CHECK(shutdown(fd, SHUT_WR) == 0);
    if (asked) {
        CHECK(answer_of(fd, &fds) == 0 && fds == 1);
    }
    status = answer_of(fd, &fds);
    CHECK(status == 1);
    outcome("%sconnection ended", asked ? "answered, then " : "");
    close(fd);
}

static void attack_deaf(struct client *c, unsigned detail)
{
    struct zr_broker_request request = request_of(c);
    int                      fd      = client_connect(c);

    CHECK(shutdown(fd, SHUT_RD) == 0);
    (void)send(fd, &request, sizeof(request), MSG_NOSIGNAL);
    (void)send(fd, &request, sizeof(request), MSG_NOSIGNAL);
    outcome("survived");
    close(fd);
}

static unsigned fds_of(pid_t pid)
{
    char           path[64];
    DIR           *dir;
    unsigned       count = 0;

    snprintf(path, sizeof(path), "/proc/%d/fd", (int)pid);
    dir = opendir(path);
    CHECK(dir != NULL);
    while (readdir(dir) != NULL) {
        count++;
    }
    closedir(dir);
    return count;
}

/* Hung up with an answer unread and a request waiting: nothing can be sent any more, and poll says
 * so again and again. It is dropped before a client that was there first and is silent. */
static void attack_hang_up(struct client *c, unsigned detail)
{
    struct zr_broker_request request = request_of(c);
    unsigned                 before  = fds_of(c->exporter);
    struct pollfd            silent  = {.fd = client_connect(c), .events = POLLIN};
    int                      fd      = client_connect(c);

    CHECK(send(fd, &request, sizeof(request), MSG_NOSIGNAL) == (ssize_t)sizeof(request));
    CHECK(recv(fd, &(char){0}, 1, MSG_PEEK) > 0);
    CHECK(send(fd, &request, sizeof(request), MSG_NOSIGNAL) == (ssize_t)sizeof(request));
    CHECK(shutdown(fd, SHUT_RDWR) == 0);
    while (fds_of(c->exporter) > before + 1) {
        CHECK(poll(&silent, 1, 1) == 0);
    }
    outcome("dropped at once");
    close(silent.fd);
    close(fd);
}

static void attack_storm(struct client *c, unsigned count)
{
    struct zr_broker_request request = request_of(c);
    unsigned                 i;
    int                      fd;

    for (i = 0; i < count; i++) {
        fd = client_connect(c);
        if (i % 2 == 1) {
            (void)send(fd, &request, sizeof(request), MSG_NOSIGNAL | MSG_DONTWAIT);
        }
        close(fd);
    }
    outcome("%u connections made and dropped", count);
}

/* What one connection gets served is bounded by what the rate allows in the time that passed. */
static void attack_flood(struct client *c, unsigned count)
{
    struct zr_broker_request request = request_of(c);
    uint64_t                 start   = zr_time_ns();
    unsigned                 i, fds, allowed;
    int                      fd = client_connect(c);

    for (i = 0; i < count; i++) {
        CHECK(send(fd, &request, sizeof(request), MSG_NOSIGNAL) == (ssize_t)sizeof(request));
        CHECK(answer_of(fd, &fds) == 0 && fds == 1);
    }
    allowed = 1024 + (unsigned)((zr_time_ns() - start) * 2048 / SECOND) + 1;
    CHECK(count <= allowed);
    outcome("%u requests served of %u that the rate allows by then", count, allowed);
    close(fd);
}

/* A client that is stopped in the middle of an answer. */
static void attack_stopped(struct client *c, unsigned detail)
{
    struct zr_broker_request request = request_of(c);
    int                      fd      = client_connect(c);
    pid_t                    pid;

    request.count = 200;
    pid           = fork();
    if (pid == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        (void)send(fd, &request, sizeof(request), MSG_NOSIGNAL);
        raise(SIGSTOP);
        _exit(0);
    }
    close(fd);
    fault_wait_down(pid);
    outcome("survived");
    /* It stays stopped until the honest importer is through, and ends with this process. */
}

static void attack_silent(struct client *c, unsigned detail)
{
    unsigned fds;
    int      fd = client_connect(c);

    CHECK(answer_of(fd, &fds) == 1);
    outcome("dropped");
    close(fd);
}

/* ---- another user ---- */

static void attack_other_user(struct client *c, unsigned detail)
{
    struct zr_broker_request request = request_of(c);
    unsigned                 fds;
    int                      fd;

    if (setgroups(0, NULL) != 0 || setresgid(NOBODY, NOBODY, NOBODY) != 0 ||
        setresuid(NOBODY, NOBODY, NOBODY) != 0) {
        skip("another user needs root");
    }
    fd = client_connect(c); /* the name is open to all */
    (void)send(fd, &request, sizeof(request), MSG_NOSIGNAL);
    CHECK(answer_of(fd, &fds) == 1);
    outcome("connection ended without an answer, with the right secret in the request");
    close(fd);
    /* Nor by the fd's number. */
    fd = (int)syscall(SYS_pidfd_open, c->exporter, 0);
    CHECK(fd >= 0 && syscall(SYS_pidfd_getfd, fd, c->handle.fd, 0) < 0 && errno == EPERM);
}

static const struct attack attacks[] = {
    {"empty packet", attack_packet_size, 0},
    {"packet of one byte", attack_packet_size, 1},
    {"packet one byte short", attack_packet_size, sizeof(struct zr_broker_request) - 1},
    {"packet one byte long", attack_packet_size, sizeof(struct zr_broker_request) + 1},
    {"packet of 64 KiB", attack_packet_size, 1 << 16},
    {"wrong magic", attack_field, 0},
    {"wrong version", attack_field, 1},
    {"no request", attack_field, 2},
    {"unknown request", attack_field, 3},
    {"reserved field set", attack_field, 4},
    {"unknown export", attack_field, 5},
    {"export id of all ones", attack_field, 6},
    {"first byte of the secret wrong", attack_field, 7},
    {"last byte of the secret wrong", attack_field, 8},
    {"first object behind the last", attack_field, 9},
    {"first object wraps", attack_field, 10},
    {"no objects", attack_field, 11},
    {"254 objects", attack_field, 12},
    {"4294967295 objects", attack_field, 13},
    {"one object more than are left", attack_field, 14}, /* first and count */
    {"first and count wrap", attack_field, 15},
    {"fds sent along with requests", attack_gift, 0},
    {"handle but no secret: guesses", attack_guess, 1000},
    {"silent crowd", attack_crowd, 0},
    {"crowd that asks and does not read", attack_crowd, 50},
    {"silent for long", attack_silent, 0},
    {"half-closed", attack_half_close, 0},
    {"half-closed after a request", attack_half_close, 1},
    {"deaf", attack_deaf, 0},
    {"hung up with an answer unread", attack_hang_up, 0},
    {"connection storm", attack_storm, 3000},
    {"flood of right requests", attack_flood, 3000},
    {"stopped in the middle of an answer", attack_stopped, 0},
    {"another user who knows handle and secret", attack_other_user, 0},
};

/* ---- the play: exporter, attacker, honest importer ---- */

static void exporter(int sock, const void *arg)
{
    ze_ipc_mem_handle_t handle;
    struct holdings     before = hold();
    char               *base   = fault_range(OBJECTS, 3);
    pid_t               self   = getpid();

    fault_export(base, OBJECTS * PAGE, &handle);
    say(sock, &handle, sizeof(handle));
    say(sock, &self, sizeof(self));
    meet(sock);
    OK(zr_ipc_put(&handle));
    OK(zr_va_unreserve(base, OBJECTS * PAGE));
    check_holdings(before);
}

static void attacker(int sock, const void *arg)
{
    const struct attack *attack = arg;
    struct client        c;

    hear(sock, &c.handle, sizeof(c.handle));
    hear(sock, &c.exporter, sizeof(c.exporter));
    c.length = zr_broker_address(c.handle.process_id, &c.address);
    attack->run(&c, attack->detail);
    meet(sock);
}

static void play(const void *arg)
{
    ze_ipc_mem_handle_t handle;
    int                 exporter_sock, attacker_sock;
    pid_t               self, exporter_pid, attacker_pid;
    struct holdings     before;
    void               *ptr;

    setpgid(0, 0);
    exporter_pid = fault_spawn(exporter, NULL, &exporter_sock);
    attacker_pid = fault_spawn(attacker, arg, &attacker_sock);
    before       = hold();
    hear(exporter_sock, &handle, sizeof(handle));
    hear(exporter_sock, &self, sizeof(self));
    say(attacker_sock, &handle, sizeof(handle));
    say(attacker_sock, &self, sizeof(self));
    if (recv(attacker_sock, &self, 1, 0) != 1) {
        fault_join(attacker_pid); /* says why */
        kill(exporter_pid, SIGKILL);
        return;
    }
    OK(zr_ipc_open(test_device(), &handle, &ptr));
    CHECK(fault_range_is(ptr, OBJECTS * PAGE, 3));
    OK(zr_ipc_close(ptr));
    say(attacker_sock, "d", 1);
    fault_join(attacker_pid);
    check_holdings(before);
    meet(exporter_sock);
    fault_join(exporter_pid);
    atomic_fetch_add(&fault_page->injected, 1);
}

/* ---- somebody else has the name ---- */

static void squatter(int sock, const void *arg)
{
    struct sockaddr_un address;
    struct zr_handle   handle;
    socklen_t          length;
    uid_t              uid = getuid();
    int                fd  = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0), peer;
    char               byte;

    hear(sock, &handle, sizeof(handle));
    length = zr_broker_address(handle.process_id, &address);
    if (uid != 0 || setresuid(NOBODY, NOBODY, NOBODY) != 0) {
        skip("another user needs root");
    }
    CHECK(bind(fd, (struct sockaddr *)&address, length) == 0 && listen(fd, 8) == 0);
    say(sock, "r", 1);
    peer = accept(fd, NULL, NULL);
    CHECK(peer >= 0);
    CHECK(recv(peer, &byte, 1, 0) <= 0); /* not a byte of the secret comes */
}

static void squatted(const void *arg)
{
    ze_ipc_mem_handle_t handle = {0};
    struct zr_handle    h      = {.fd = -1, .kind = ZR_HANDLE_RANGE, .version = ZR_WIRE_VERSION,
                                  .process_id = 0x1234567890abcdef, .export_id = 1};
    char                byte;
    int                 sock;
    pid_t               pid;
    void               *ptr;

    setenv("ZERANGE_FD_EXCHANGE", "socket", 1);
    pid = fault_spawn(squatter, NULL, &sock);
    memcpy(&handle, &h, sizeof(h));
    say(sock, &h, sizeof(h));
    if (recv(sock, &byte, 1, 0) == 1) {
        CHECK(zr_ipc_open(test_device(), &handle, &ptr) == ZE_RESULT_ERROR_UNKNOWN);
        CHECK(strstr(zr_last_error(), "the name belongs to another user") != NULL);
        outcome("refused: %s", zr_last_error());
    }
    fault_join(pid);
}

int main(void)
{
    unsigned i;

    fault_start();
    setenv("ZERANGE_DEVICE_CPU_ACCESS", "1", 1);
    setenv("ZERANGE_FD_EXCHANGE", "socket", 1);
    for (i = 0; i < ZR_ARRAY_SIZE(attacks); i++) {
        fault_case(attacks[i].name, play, &attacks[i], 100);
    }
    fault_case("another user took the exporter's name", squatted, NULL, 60);
    return fault_end("broker");
}
