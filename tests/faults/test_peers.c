/* Peers that die: at each step of export, exchange, open, copy and close, by SIGKILL, SIGSTOP, exit
 * without finalise and SIGSEGV, on either side. The survivor gets an error in bounded time, or the
 * right bytes; works on with another peer; holds what it held before; and nothing stays behind.
 *
 *   survivor ──── victim      dies when the survivor's own call says so (hooks below)
 *       └──────── bystander   is served and serves all the same */
/* SPDX-License-Identifier: BSD-3-Clause */
#include "faults.h"

#include <dirent.h>
#include <sched.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/syscall.h>

#define OBJECTS 300 /* more than one answer carries */
#define SIZE    (OBJECTS * PAGE)
#define LIMIT   (30 * SECOND)

enum step { EXPORT, EXCHANGE, OPEN, COPY, CLOSE, STEPS };
enum side { EXPORTER, IMPORTER };

static const char *const step_names[] = {"export", "exchange", "open", "copy", "close"};
static const char *const side_names[] = {"exporter", "importer"};
static const struct death {
    const char *name;
    int         signal;
} deaths[] = {
    {"SIGKILL", SIGKILL}, {"SIGSTOP", SIGSTOP}, {"exit", SIGUSR1}, {"SIGSEGV", SIGSEGV}};

struct cell {
    enum step           step;
    enum side           side; /* of the victim */
    const struct death *death;
};

/* ---- the moment: calls of src/ipc in the survivor pass through here ---- */

static struct {
    pid_t       victim;
    int         signal;
    unsigned    sends;    /* before that one, 0: not there */
    unsigned    fds;      /* when so many fds came or went, 0: not there */
    atomic_uint sent, moved;
    atomic_bool over;
} moment;

static void strike(void)
{
    if (!atomic_exchange(&moment.over, true)) {
        kill(moment.victim, moment.signal);
        fault_wait_down(moment.victim);
        atomic_fetch_add(&fault_page->injected, 1);
    }
}

static void count_send(void)
{
    if (moment.sends != 0 && atomic_fetch_add(&moment.sent, 1) + 1 == moment.sends) {
        strike();
    }
}

static void count_fds(const struct msghdr *msg)
{
    struct cmsghdr *cmsg = (moment.fds != 0) ? CMSG_FIRSTHDR(msg) : NULL;

    if (cmsg != NULL && cmsg->cmsg_type == SCM_RIGHTS) {
        unsigned n = (unsigned)((cmsg->cmsg_len - CMSG_LEN(0)) / sizeof(int));

        if (n + atomic_fetch_add(&moment.moved, n) >= moment.fds) {
            strike();
        }
    }
}

/* The importer asks with these two, the exporter answers with the third. */
ssize_t send(int fd, const void *data, size_t size, int flags)
{
    if (size == sizeof(struct zr_broker_request)) {
        count_send();
    }
    return syscall(SYS_sendto, fd, data, size, flags, NULL, 0);
}

ssize_t recvmsg(int fd, struct msghdr *msg, int flags)
{
    ssize_t n = syscall(SYS_recvmsg, fd, msg, flags);

    if (n > 0) {
        count_fds(msg);
    }
    return n;
}

ssize_t sendmsg(int fd, const struct msghdr *msg, int flags)
{
    ssize_t n;

    count_send();
    n = syscall(SYS_sendmsg, fd, msg, flags);
    if (n > 0) {
        count_fds(msg);
    }
    return n;
}

static void arm(pid_t victim, const struct cell *cell)
{
    moment.victim = victim;
    moment.signal = cell->death->signal;
    moment.sends  = 0;
    moment.fds    = 0;
    atomic_store(&moment.sent, 0);
    atomic_store(&moment.moved, 0);
    atomic_store(&moment.over, false);
    if (cell->step == EXCHANGE) {
        moment.sends = 2;
    } else if (cell->step == OPEN) {
        moment.fds = OBJECTS; /* the leading fd of an importer that must ask for it comes first */
    }
}

/* ---- the other processes ---- */

static void on_exit_signal(int number)
{
    _exit(0);
}

static void exporter_main(int sock, const void *arg)
{
    ze_ipc_mem_handle_t handle;
    char                byte;
    unsigned            seed = *(const unsigned *)arg;
    char               *base;

    signal(SIGUSR1, on_exit_signal);
    base = fault_range(OBJECTS, seed);
    fault_export(base, SIZE, &handle);
    say(sock, &handle, sizeof(handle));
    (void)recv(sock, &byte, 1, 0); /* until the survivor has done */
}

static ze_result_t copy_bytes(struct zr_copyq *q, char *to, char *from, size_t size,
                              uint64_t *seqno_p)
{
    struct zr_range range[2];
    struct zr_seg  *segs[2];
    unsigned        kinds, i, k;
    ze_result_t     result;

    for (i = 0; i < 2; i++) {
        OK(zr_range_walk(i == 0 ? to : from, size, &range[i], &kinds, NULL));
        segs[i] = calloc(range[i].count, sizeof(*segs[i]));
        for (k = 0; k < range[i].count; k++) {
            const struct zr_segment *s = &range[i].segments[k];

            segs[i][k] = (struct zr_seg){s->object->bo, s->offset, s->length};
        }
    }
    zr_copyq_begin(q);
    result = zr_copyq_copy(q, segs[0], range[0].count, segs[1], range[1].count, size);
    if (result == ZE_RESULT_SUCCESS) {
        result = zr_copyq_submit(q, seqno_p);
    } else {
        zr_copyq_abort(q);
    }
    for (i = 0; i < 2; i++) {
        zr_range_clear(&range[i]);
        free(segs[i]);
    }
    return result;
}

/* Opens what it hears of, says so, then does its step over and over, or is done. */
static void importer_main(int sock, const void *arg)
{
    const enum step     step = *(const enum step *)arg;
    ze_ipc_mem_handle_t handle;
    struct zr_copyq    *q;
    uint64_t            seqno;
    char               *ptr, *own;

    signal(SIGUSR1, on_exit_signal);
    own = fault_range(OBJECTS, 0);
    OK(zr_copyq_create(test_device(), 0, &q));
    say(sock, "r", 1);
    while (recv(sock, &handle, sizeof(handle), MSG_WAITALL) == (ssize_t)sizeof(handle)) {
        if (zr_ipc_open(test_device(), &handle, (void **)&ptr) != ZE_RESULT_SUCCESS) {
            say(sock, "n", 1);
            continue;
        }
        say(sock, fault_range_is(ptr, SIZE, 7) ? "y" : "w", 1);
        while (step == COPY) {
            OK(copy_bytes(q, own, ptr, SIZE, &seqno));
            OK(zr_copyq_wait(q, seqno, LIMIT));
        }
        OK(zr_ipc_close(ptr));
        while (step == CLOSE) {
            OK(zr_ipc_open(test_device(), &handle, (void **)&ptr));
            OK(zr_ipc_close(ptr));
        }
    }
    zr_copyq_destroy(q);
}

/* ---- the survivor imports ---- */

static void survive_exporter(const struct cell *cell)
{
    static const unsigned seeds[2] = {7, 8};
    ze_ipc_mem_handle_t   handles[2];
    struct holdings       before;
    struct zr_copyq      *q = NULL;
    ze_result_t           result;
    uint64_t              start, seqno = 0, took;
    pid_t                 pids[2];
    char                 *ptr = NULL, *own = NULL;
    int                   socks[2], i;

    for (i = 0; i < 2; i++) {
        pids[i] = fault_spawn(exporter_main, &seeds[i], &socks[i]);
    }
    if (cell->step == COPY) { /* what a device makes for its first queue stays with the device */
        OK(zr_copyq_create(test_device(), 0, &q));
        zr_copyq_destroy(q);
        q = NULL;
    }
    before = hold();
    for (i = 0; i < 2; i++) {
        hear(socks[i], &handles[i], sizeof(handles[i]));
    }
    if (cell->step == COPY) {
        own = fault_range(OBJECTS, 0);
        OK(zr_copyq_create(test_device(), 0, &q));
    }
    arm(pids[0], cell);
    if (cell->step == EXPORT) {
        strike();
    }
    start  = zr_time_ns();
    result = zr_ipc_open(test_device(), &handles[0], (void **)&ptr);
    took   = zr_time_ns() - start;
    CHECK(took < LIMIT);
    if (cell->step <= EXCHANGE) {
        CHECK(result == ZE_RESULT_ERROR_UNKNOWN && ptr == NULL && atomic_load(&moment.over));
        outcome("error after %.2f s: %s", (double)took / 1e9, zr_last_error());
    } else {
        CHECK(result == ZE_RESULT_SUCCESS);
        if (cell->step == COPY) {
            OK(copy_bytes(q, own, ptr, SIZE, &seqno));
        }
        if (cell->step >= COPY) {
            strike();
        }
        CHECK(atomic_load(&moment.over));
        if (cell->step == COPY) {
            OK(zr_copyq_wait(q, seqno, LIMIT));
            CHECK(fault_range_is(own, SIZE, 7));
        }
        CHECK(fault_range_is(ptr, SIZE, 7));
        OK(zr_ipc_close(ptr));
        outcome("opened, right bytes, closed");
    }
    if (q != NULL) {
        zr_copyq_destroy(q);
        OK(zr_va_unreserve(own, SIZE));
    }
    OK(zr_ipc_open(test_device(), &handles[1], (void **)&ptr));
    CHECK(fault_range_is(ptr, SIZE, 8));
    OK(zr_ipc_close(ptr));
    kill(pids[0], SIGKILL);
    waitpid(pids[0], NULL, 0);
    check_holdings(before);
    say(socks[1], "d", 1);
    fault_join(pids[1]);
}

/* ---- the survivor exports ---- */

static void survive_importer(const struct cell *cell)
{
    static const enum step none = STEPS;
    ze_ipc_mem_handle_t    handle;
    struct holdings        before;
    pid_t                  victim, bystander;
    char                   byte, *base;
    int                    socks[2];

    victim    = fault_spawn(importer_main, &cell->step, &socks[0]);
    bystander = fault_spawn(importer_main, &none, &socks[1]);
    before    = hold();
    hear(socks[0], &byte, 1);
    hear(socks[1], &byte, 1);
    arm(victim, cell);
    if (cell->step == EXPORT) {
        strike();
    }
    base = fault_range(OBJECTS, 7);
    fault_export(base, SIZE, &handle);
    if (cell->step != EXPORT) {
        say(socks[0], &handle, sizeof(handle));
    }
    if (cell->step >= COPY) {
        hear(socks[0], &byte, 1);
        CHECK(byte == 'y');
        poll(NULL, 0, 20); /* it is somewhere in its loop: nobody knows where */
        strike();
    }
    while (!atomic_load(&moment.over)) {
        poll(NULL, 0, 1);
    }
    say(socks[1], &handle, sizeof(handle));
    hear(socks[1], &byte, 1);
    CHECK(byte == 'y');
    OK(zr_ipc_put(&handle));
    OK(zr_va_unreserve(base, SIZE));
    outcome("another importer got every byte; exported memory given back");
    if (cell->death->signal != SIGSTOP) {
        check_holdings(before); /* with the victim's corpse still there */
    }
    kill(victim, SIGKILL);
    waitpid(victim, NULL, 0);
    check_holdings(before);
    shutdown(socks[1], SHUT_WR);
    fault_join(bystander);
}

/* exit, not _exit: the survivor's own end must be clean too. */
static void survive(const void *arg)
{
    const struct cell *cell = arg;

    (cell->side == EXPORTER ? survive_exporter : survive_importer)(cell);
    exit(0);
}

/* ---- nothing stays behind ---- */

static bool fault_is_private; /* /tmp, /dev/shm and sockets are ours alone */

static void make_way(const char *path)
{
    char  copy[512], *c;

    snprintf(copy, sizeof(copy), "%s", path);
    for (c = copy + 1; *c != '\0'; c++) {
        if (*c == '/') {
            *c = '\0';
            (void)mkdir(copy, 0755);
            *c = '/';
        }
    }
    (void)mkdir(copy, 0755);
}

static void go_private(void)
{
    const char *profiles = getenv("ZERANGE_PROFILES");
    char        path[40];
    int         fd;

    if (unshare(CLONE_NEWNS | CLONE_NEWNET | CLONE_NEWIPC) != 0) {
        return;
    }
    fd = (profiles != NULL) ? open(profiles, O_PATH | O_DIRECTORY | O_CLOEXEC) : -1;
    (void)mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL);
    if (mount("tmpfs", "/dev/shm", "tmpfs", 0, "mode=1777") != 0 ||
        mount("tmpfs", "/tmp", "tmpfs", 0, "mode=1777") != 0) {
        return;
    }
    if (fd >= 0 && access(profiles, R_OK) != 0) {
        make_way(profiles);
        snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
        fault_is_private = mount(path, profiles, NULL, MS_BIND, NULL) == 0;
        return;
    }
    fault_is_private = true;
}

/* Number of things; the last one's name in @a name. */
static unsigned count_things(char *name, size_t size)
{
    static const char *const dirs[] = {"/tmp", "/dev/shm"};
    struct dirent           *entry;
    unsigned                 i, count = 0;
    char                     line[512];
    FILE                    *file;
    DIR                     *dir;

    for (i = 0; i < ZR_ARRAY_SIZE(dirs); i++) {
        dir = opendir(dirs[i]);
        while (dir != NULL && (entry = readdir(dir)) != NULL) {
            if (entry->d_name[0] != '.' && (fault_is_private || strstr(entry->d_name, "zerange"))) {
                snprintf(name, size, "%s/%s", dirs[i], entry->d_name);
                count++;
            }
        }
        if (dir != NULL) {
            closedir(dir);
        }
    }
    file = fopen("/proc/self/net/unix", "re");
    while (fault_is_private && file != NULL && fgets(line, sizeof(line), file) != NULL) {
        if (strstr(line, "@zerange-") != NULL) {
            snprintf(name, size, "%s", strstr(line, "@zerange-"));
            count++;
        }
    }
    if (file != NULL) {
        fclose(file);
    }
    return count;
}

int main(void)
{
    struct cell cell;
    unsigned    before, after, side, step, death;
    char        name[300] = "";

    fault_start();
    go_private();
    setenv("ZERANGE_DEVICE_CPU_ACCESS", "1", 1);
    before = count_things(name, sizeof(name));
    for (side = EXPORTER; side <= IMPORTER; side++) {
        for (step = EXPORT; step < STEPS; step++) {
            for (death = 0; death < ZR_ARRAY_SIZE(deaths); death++) {
                cell = (struct cell){step, side, &deaths[death]};
                snprintf(name, sizeof(name), "%s dies at %s by %s", side_names[side],
                         step_names[step], deaths[death].name);
                fault_case(name, survive, &cell, 100);
            }
        }
    }
    after = count_things(name, sizeof(name));
    fault_reset();
    outcome(after == before ? "/tmp, /dev/shm and sockets as before%s" : "%s was left behind",
            after == before ? (fault_is_private ? "" : " (only names with zerange in them)") : name);
    fault_line("nothing stays behind", after != before);
    return fault_end("peers");
}
