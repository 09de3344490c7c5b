/* Hostile clients of the UCX transport's link socket: each does its worst, then an honest one is
 * answered; nobody is told what was another's. */
/* SPDX-License-Identifier: BSD-3-Clause */
#include "link.h"

#include "faults.h"

#include <grp.h>
#include <sys/syscall.h>

#define NOBODY 65534
#define HEADER offsetof(struct zr_link_message, u)

static uint64_t number; /* of the link of the process under attack */

/* ---- the process under attack: knows one registration ---- */

#define KNOWN UINT64_C(0x1122334455667788)

static void answer(const struct zr_link_message *request, struct zr_link_message *reply, int *fds)
{
    if (request->what == ZR_LINK_RENEW && request->export_id == KNOWN) {
        memset(&reply->u.key, 0x5e, sizeof(reply->u.key));
    } else {
        reply->status = -ENOENT;
    }
}

static void let_go(uint64_t space, uint64_t base, uint64_t size, uint64_t id)
{
}

static const struct zr_link_ops ops = {answer, let_go};

static atomic_uint accepts;

int accept4(int fd, struct sockaddr *address, socklen_t *length, int flags)
{
    atomic_fetch_add(&accepts, 1);
    return (int)syscall(SYS_accept4, fd, address, length, flags);
}

/* A peer waits in the queue: it is looked for now and then, not all the time. */
static void no_fd_is_free(int sock)
{
    struct rlimit limit, low;
    uint64_t      start;
    unsigned      count = 0, tries;
    int           fds[128];
    char          byte;

    CHECK(getrlimit(RLIMIT_NOFILE, &limit) == 0);
    low = (struct rlimit){100, limit.rlim_max};
    CHECK(setrlimit(RLIMIT_NOFILE, &low) == 0);
    while (count < ZR_ARRAY_SIZE(fds) && (fds[count] = dup(0)) >= 0) {
        count++;
    }
    CHECK(count > 0 && count < ZR_ARRAY_SIZE(fds));
    start = zr_time_ns();
    say(sock, "r", 1);
    hear(sock, &byte, 1);
    poll(NULL, 0, 1000);
    tries = atomic_load(&accepts);
    CHECK(tries > 0 && tries <= (zr_time_ns() - start) / (SECOND / 10) + 2);
    outcome("%u tries in %.1f s", tries, (double)(zr_time_ns() - start) / 1e9);
    while (count > 0) {
        close(fds[--count]);
    }
    CHECK(setrlimit(RLIMIT_NOFILE, &limit) == 0);
    say(sock, "r", 1);
    hear(sock, &byte, 1);
}

static void server(int sock, const void *arg)
{
    unsigned before, now;
    char     byte;

    number = zr_link_start(&ops);
    CHECK(number != 0);
    before = test_fds();
    say(sock, &number, sizeof(number));
    hear(sock, &byte, 1);
    if (byte == 'f') {
        no_fd_is_free(sock);
    }
    for (now = 0; test_fds() > before && now < 5000; now++) {
        poll(NULL, 0, 1);
    }
    CHECK(test_fds() == before);
    zr_link_stop();
}

/* ---- clients ---- */

static int link_connect(void)
{
    const struct timeval limit = {.tv_sec = 20};
    struct sockaddr_un   address = {.sun_family = AF_UNIX};
    int n  = snprintf(address.sun_path + 1, sizeof(address.sun_path) - 1, ZR_LINK_PREFIX "%u-%016llx",
                      (unsigned)getuid(), (unsigned long long)number);
    int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);

    CHECK(setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof(limit)) == 0);
    CHECK(connect(fd, (struct sockaddr *)&address,
                  (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + (size_t)n)) == 0);
    return fd;
}

static struct zr_link_message message(enum zr_link_what what, uint64_t id)
{
    return (struct zr_link_message){.magic = ZR_LINK_MAGIC, .version = ZR_LINK_VERSION,
                                    .what = what, .export_id = id, .base = 4096, .size = 4096};
}

/* @return bytes of the answer, 0: the connection ended */
static ssize_t talk(int fd, const void *data, size_t size, struct zr_link_message *reply)
{
    ssize_t n;

    memset(reply, 0, sizeof(*reply));
    if (send(fd, data, size, MSG_NOSIGNAL) < 0) {
        return 0;
    }
    n = recv(fd, reply, sizeof(*reply), 0);
    CHECK(n >= 0 || errno == ECONNRESET);
    return n > 0 ? n : 0;
}

static void honest(void)
{
    struct zr_link_message request = message(ZR_LINK_RENEW, KNOWN), reply;

    CHECK(zr_link_ask(number, &request, &reply, NULL) == 0);
    CHECK(((const uint8_t *)&reply.u.key)[0] == 0x5e);
}

static void packet(unsigned size)
{
    static char            bytes[1 << 16];
    struct zr_link_message request = message(ZR_LINK_RENEW, KNOWN), reply;
    int                    fd = link_connect();

    memcpy(bytes, &request, sizeof(request));
    CHECK(talk(fd, bytes, size, &reply) == 0);
    outcome("connection ended");
    close(fd);
}

static void field(unsigned offset)
{
    struct zr_link_message request = message(ZR_LINK_RENEW, KNOWN), reply;
    int                    fd = link_connect();

    ((uint8_t *)&request)[offset] ^= 0x10;
    CHECK(talk(fd, &request, HEADER, &reply) == 0 || reply.status < 0);
    outcome(reply.status < 0 ? "refused: %s" : "connection ended%s",
            reply.status < 0 ? strerror(-reply.status) : "");
    close(fd);
}

/* A refusal has nothing of what somebody else was answered before. */
static void leftovers(unsigned what)
{
    struct zr_link_message request, reply;
    unsigned               i;
    ssize_t                n;
    int                    fd;

    honest();
    fd      = link_connect();
    request = message(what, KNOWN + 1);
    n       = talk(fd, &request, HEADER, &reply);
    CHECK(n == (ssize_t)HEADER && reply.status < 0);
    for (i = 0; i < sizeof(reply); i++) {
        CHECK(((const uint8_t *)&reply)[i] != 0x5e);
    }
    outcome("refused, nothing but a header in it");
    close(fd);
}

static void crowd(unsigned count)
{
    unsigned i;

    for (i = 0; i < count; i++) {
        (void)link_connect();
    }
    outcome("%u silent connections", count);
}

static void half_closed(unsigned detail)
{
    struct zr_link_message reply;
    int                    fd = link_connect();

    CHECK(shutdown(fd, SHUT_WR) == 0);
    CHECK(recv(fd, &reply, sizeof(reply), 0) == 0);
    outcome("connection ended");
    close(fd);
}

static void deaf(unsigned detail)
{
    struct zr_link_message request = message(ZR_LINK_RENEW, KNOWN);
    unsigned               i;
    int                    fd = link_connect();

    for (i = 0; i < 5000 && send(fd, &request, HEADER, MSG_NOSIGNAL | MSG_DONTWAIT) > 0; i++) {
    }
    outcome("%u requests, no answer read", i);
}

static void other_user(unsigned detail)
{
    struct zr_link_message request = message(ZR_LINK_RENEW, KNOWN), reply;
    struct sockaddr_un     address = {.sun_family = AF_UNIX};
    int n  = snprintf(address.sun_path + 1, sizeof(address.sun_path) - 1, ZR_LINK_PREFIX "%u-%016llx",
                      (unsigned)getuid(), (unsigned long long)number);
    int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);

    if (setgroups(0, NULL) != 0 || setresuid(NOBODY, NOBODY, NOBODY) != 0) {
        skip("another user needs root");
    }
    CHECK(connect(fd, (struct sockaddr *)&address,
                  (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + (size_t)n)) == 0);
    CHECK(talk(fd, &request, HEADER, &reply) == 0);
    outcome("connection ended without an answer");
    close(fd);
}

static const struct attack {
    const char *name;
    void (*run)(unsigned detail);
    unsigned detail;
} attacks[] = {
    {"link: empty packet", packet, 0},
    {"link: header cut", packet, HEADER - 1},
    {"link: packet too long", packet, sizeof(struct zr_link_message) + 1},
    {"link: wrong magic", field, offsetof(struct zr_link_message, magic)},
    {"link: wrong version", field, offsetof(struct zr_link_message, version)},
    {"link: unknown request", field, offsetof(struct zr_link_message, what)},
    {"link: unknown registration", field, offsetof(struct zr_link_message, export_id)},
    {"link: refused renewal", leftovers, ZR_LINK_RENEW},
    {"link: refused pieces", leftovers, ZR_LINK_PIECES},
    {"link: silent crowd", crowd, 300},
    {"link: half-closed", half_closed, 0},
    {"link: asks and does not read", deaf, 0},
    {"link: another user", other_user, 0},
};

static void attacker(int sock, const void *arg)
{
    const struct attack *attack = arg;
    char                 byte;

    hear(sock, &number, sizeof(number));
    attack->run(attack->detail);
    say(sock, "d", 1);
    hear(sock, &byte, 1);
}

static void play(const void *arg)
{
    int   socks[2];
    char  byte;
    pid_t pids[2];

    pids[0] = fault_spawn(server, NULL, &socks[0]);
    pids[1] = fault_spawn(attacker, arg, &socks[1]);
    hear(socks[0], &number, sizeof(number));
    say(socks[1], &number, sizeof(number));
    if (recv(socks[1], &byte, 1, 0) == 1) {
        honest();
        say(socks[1], "d", 1);
    }
    fault_join(pids[1]);
    say(socks[0], "d", 1);
    fault_join(pids[0]);
    atomic_fetch_add(&fault_page->injected, 1);
}

static void no_fds(const void *arg)
{
    char  byte;
    int   sock, fd;
    pid_t pid = fault_spawn(server, NULL, &sock);

    hear(sock, &number, sizeof(number));
    say(sock, "f", 1);
    hear(sock, &byte, 1);
    fd = link_connect();
    say(sock, "w", 1);
    hear(sock, &byte, 1);
    honest();
    close(fd);
    say(sock, "d", 1);
    fault_join(pid);
    atomic_fetch_add(&fault_page->injected, 1);
}

int main(void)
{
    unsigned i;

    fault_start();
    for (i = 0; i < ZR_ARRAY_SIZE(attacks); i++) {
        fault_case(attacks[i].name, play, &attacks[i], 60);
    }
    fault_case("link: no fd is free", no_fds, NULL, 60);
    return fault_end("link");
}
