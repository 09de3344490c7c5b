/* The shim's way to the server: started by the first program, one channel for each thread. */
/* SPDX-License-Identifier: BSD-3-Clause */
#include "shim.h"

#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/capability.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#ifndef ZR_PKGLIBEXECDIR
#define ZR_PKGLIBEXECDIR "/usr/libexec/zerange"
#endif
#define ZR_SHIM_FD_FLOOR 900 /* our fds live above: programs look at the lowest free number */
#define ZR_SHIM_CACHE    1024

extern char **environ;

struct zr_shim_channel {
    int      socket;
    uint64_t id;
    uint32_t seq;
    uint32_t waiting; /* seq of a request without its reply yet: its thread was torn out of it */
};

static struct {
    pthread_mutex_t      lock;
    struct zr_shim_place place;
    bool                 known; /* place is set */
    bool                 failed;
    int                  link;  /* the process's connection, -1: none */
    uint64_t             process;
    char                 tree[sizeof(((struct zr_shim_message *)0)->text)];
} host = {.lock = PTHREAD_MUTEX_INITIALIZER, .link = -1};

static __thread struct zr_shim_channel *own;
static pthread_key_t                    channel_key;
static pthread_once_t                   once = PTHREAD_ONCE_INIT;

/* DRM files seen: inode and minor in one word (inodes of sockets are 32 bits or a few more). */
static _Atomic uint64_t seen[ZR_SHIM_CACHE];

void *zr_shim_next(const char *name)
{
    void *function = dlsym(RTLD_NEXT, name);

    if (function == NULL) {
        fprintf(stderr, "libi915shim: the C library has no %s\n", name);
        abort(); /* a program that calls it would not have been loaded */
    }
    return function;
}

bool zr_shim_active(void)
{
    static atomic_int active = -1; /* what the program does to its environment later is no matter */
    const char       *soft;

    if (atomic_load_explicit(&active, memory_order_relaxed) < 0) {
        soft = getenv("ZERANGE_SOFT");
        atomic_store(&active, soft != NULL && *soft != '\0');
    }
    return atomic_load_explicit(&active, memory_order_relaxed);
}

/* ---- fork and threads ---- */

static void zr_shim_channel_drop(void *arg)
{
    struct zr_shim_channel *channel = arg;

    ZR_REAL(close)(channel->socket);
    free(channel);
    own = NULL;
}

/* The child is a process of its own. */
static void zr_shim_in_child(void)
{
    pthread_mutex_init(&host.lock, NULL);
    if (own != NULL) {
        pthread_setspecific(channel_key, NULL);
        zr_shim_channel_drop(own);
    }
    if (host.link >= 0) {
        ZR_REAL(close)(host.link);
        host.link = -1;
    }
}

static void zr_shim_fork_prepare(void)
{
    pthread_mutex_lock(&host.lock);
}

static void zr_shim_fork_parent(void)
{
    pthread_mutex_unlock(&host.lock);
}

static void zr_shim_init(void)
{
    pthread_key_create(&channel_key, zr_shim_channel_drop);
    pthread_atfork(zr_shim_fork_prepare, zr_shim_fork_parent, zr_shim_in_child);
}

uint64_t zr_shim_capabilities(void)
{
    struct __user_cap_header_struct header = {.version = _LINUX_CAPABILITY_VERSION_3};
    struct __user_cap_data_struct   data[2];

    if (ZR_REAL(syscall)(SYS_capget, &header, data) != 0) {
        return 0;
    }
    return data[0].effective | (uint64_t)data[1].effective << 32;
}

/* ---- starting the server ---- */

static void zr_shim_say(const char *text)
{
    if (!host.failed) {
        fprintf(stderr, "libi915shim: %s\n", text);
    }
    host.failed = true;
}

/* Beside the library, above it (a build folder), or where it is installed. */
static void zr_shim_server_path(char path[PATH_MAX])
{
    static const char *const places[] = {"zr-i915d", "../zr-i915d", "zerange/zr-i915d"};
    Dl_info                  info;
    char                    *slash;
    unsigned                 i;

    if (dladdr((const void *)(uintptr_t)zr_shim_server_path, &info) != 0) {
        for (i = 0; i < sizeof(places) / sizeof(places[0]); i++) {
            snprintf(path, PATH_MAX, "%s", info.dli_fname);
            slash = strrchr(path, '/');
            if (slash == NULL) {
                break;
            }
            snprintf(slash + 1, PATH_MAX - (size_t)(slash + 1 - path), "%s", places[i]);
            if (ZR_REAL(access)(path, X_OK) == 0) {
                return;
            }
        }
    }
    snprintf(path, PATH_MAX, "%s", ZR_PKGLIBEXECDIR "/zr-i915d");
}

/* Identity of this build: a newer one must not meet an older server. */
static uint64_t zr_shim_build(void)
{
    struct stat st;
    char        path[PATH_MAX];

    zr_shim_server_path(path);
    if (ZR_REAL(stat)(path, &st) != 0) {
        return 0;
    }
    return ((uint64_t)st.st_ino << 32) ^ (uint64_t)st.st_mtim.tv_sec * 1000000007u ^
           (uint64_t)st.st_mtim.tv_nsec;
}

/* The server's environment: ours without what preloads us. */
static char **zr_shim_server_env(void)
{
    size_t count = 0, kept = 0;
    char **env;

    while (environ[count] != NULL) {
        count++;
    }
    env = calloc(count + 1, sizeof(*env));
    for (count = 0; env != NULL && environ[count] != NULL; count++) {
        if (strncmp(environ[count], "LD_PRELOAD=", strlen("LD_PRELOAD=")) != 0) {
            env[kept++] = environ[count];
        }
    }
    return env;
}

/* Runs in the child, which is a copy of a program with threads: system calls only. */
static void zr_shim_exec(const char *path, char *const *argv, char *const *env, int pipe_end)
{
    int      null = ZR_REAL(open)("/dev/null", O_RDWR);
    sigset_t none;

    setsid();
    dup2(null, 0);
    dup2(null, 1);
    dup2(pipe_end, 2);
    syscall(SYS_close_range, 3u, ~0u, 0u);
    sigemptyset(&none);
    sigprocmask(SIG_SETMASK, &none, NULL);
    execve(path, argv, env);
    dprintf(2, "cannot run %s\n", path);
    _exit(127);
}

/* No signal tells the program of our child, and no wait() of his finds it. */
static pid_t zr_shim_clone(void)
{
    return (pid_t)ZR_REAL(syscall)(SYS_clone, 0ul, 0ul, 0ul, 0ul, 0ul);
}

/* The server writes what is wrong to the pipe, or closes it when it listens. */
static int zr_shim_start(void)
{
    char    path[PATH_MAX], text[512];
    char   *argv[] = {"zr-i915d", host.place.name, NULL};
    char  **env    = zr_shim_server_env();
    size_t  used   = 0;
    ssize_t got;
    int     fds[2];
    pid_t   pid;

    zr_shim_server_path(path);
    if (env == NULL || ZR_REAL(pipe2)(fds, O_CLOEXEC) != 0) {
        free(env);
        return -ENOMEM;
    }
    pid = zr_shim_clone();
    if (pid == 0) {
        if (zr_shim_clone() == 0) {
            zr_shim_exec(path, argv, env, fds[1]);
        }
        _exit(0);
    }
    ZR_REAL(close)(fds[1]);
    free(env);
    while (pid > 0 && waitpid(pid, NULL, __WALL) < 0 && errno == EINTR) {
    }
    while (pid > 0 && used < sizeof(text) - 1) {
        got = ZR_REAL(read)(fds[0], text + used, sizeof(text) - 1 - used);
        if (got == 0 || (got < 0 && errno != EINTR)) {
            break;
        }
        used += got > 0 ? (size_t)got : 0;
    }
    ZR_REAL(close)(fds[0]);
    text[used] = '\0';
    text[strcspn(text, "\n")] = '\0';
    if (used > 0) {
        zr_shim_say(text);
        return -ENODEV;
    }
    return pid > 0 ? 0 : -EAGAIN;
}

/* ---- connections ---- */

static int zr_shim_high(int fd)
{
    int high = ZR_REAL(fcntl)(fd, F_DUPFD_CLOEXEC, ZR_SHIM_FD_FLOOR);

    if (high < 0) {
        return fd;
    }
    ZR_REAL(close)(fd);
    return high;
}

/* Connected, or a negative errno; a server that is not there is started. */
static int zr_shim_connect(void)
{
    int fd, ret, tries;

    if (!host.known) {
        zr_shim_place_set(&host.place, zr_shim_build());
        host.known = true;
    }
    for (tries = 0; tries < 8; tries++) {
        fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
        if (fd < 0) {
            return -errno;
        }
        if (connect(fd, (struct sockaddr *)&host.place.address, host.place.length) == 0) {
            return fd;
        }
        ret = -errno;
        ZR_REAL(close)(fd);
        if (ret != -ECONNREFUSED) {
            return ret;
        }
        ret = zr_shim_start();
        if (ret != 0) {
            return ret;
        }
    }
    return -ENODEV;
}

/* First message and its answer. A server that has just ended is met once at most. */
static int zr_shim_hello(int fd, struct zr_shim_message *m)
{
    int fds[ZR_SHIM_MAX_FDS], ret;

    ret = zr_shim_send(fd, m, NULL, 0);
    while (ret == 0) {
        ret = zr_shim_receive(fd, m, fds, true);
        if (ret != -EINTR) {
            break;
        }
        ret = 0;
    }
    return ret != 0 ? ret : m->ret;
}

/* Where Yama restricts ptrace the server, and nobody else, is let in to pages of this process. */
static void zr_shim_let_server_read(int fd)
{
    struct ucred server;
    socklen_t    length = sizeof(server);

    if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &server, &length) == 0 && server.pid > 0) {
        prctl(PR_SET_PTRACER, (unsigned long)server.pid);
    }
}

/* host.lock is held. */
static int zr_shim_link(void)
{
    struct zr_shim_message m;
    int                    fd = -1, ret = -EPIPE, tries;

    if (host.link >= 0) {
        return 0;
    }
    for (tries = 0; ret == -EPIPE && tries < 8; tries++) {
        fd = zr_shim_connect();
        if (fd < 0) {
            return fd;
        }
        memset(&m, 0, sizeof(m));
        m.op = ZR_SHIM_PROCESS;
        ret  = zr_shim_hello(fd, &m);
        if (ret != 0) {
            ZR_REAL(close)(fd);
        }
    }
    if (ret == 0) {
        host.link    = zr_shim_high(fd);
        host.process = m.a[0];
        memcpy(host.tree, m.text, sizeof(host.tree));
        zr_shim_let_server_read(host.link);
    }
    return ret;
}

const char *zr_shim_tree(void)
{
    int ret;

    pthread_once(&once, zr_shim_init);
    if (host.link >= 0) {
        return host.tree;
    }
    if (!zr_shim_active() && !host.known) {
        return NULL;
    }
    pthread_mutex_lock(&host.lock);
    ret = zr_shim_link();
    if (ret != 0) {
        zr_shim_say(strerror(-ret));
    }
    pthread_mutex_unlock(&host.lock);
    return ret == 0 ? host.tree : NULL;
}

static struct zr_shim_channel *zr_shim_channel(void)
{
    struct zr_shim_channel *channel;
    struct zr_shim_message  m = {.op = ZR_SHIM_CHANNEL};
    int                     fd;

    if (own != NULL) {
        return own;
    }
    if (zr_shim_tree() == NULL) {
        return NULL;
    }
    channel = calloc(1, sizeof(*channel));
    fd      = channel != NULL ? zr_shim_connect() : -ENOMEM;
    m.a[0]  = host.process;
    if (fd < 0 || zr_shim_hello(fd, &m) != 0) {
        free(channel);
        if (fd >= 0) {
            ZR_REAL(close)(fd);
        }
        return NULL;
    }
    channel->socket = zr_shim_high(fd);
    channel->id     = m.a[0];
    own             = channel;
    pthread_setspecific(channel_key, channel);
    return channel;
}

static void zr_shim_interrupt(const struct zr_shim_channel *channel, uint32_t seq)
{
    struct zr_shim_message m = {.op = ZR_SHIM_INTERRUPT, .a = {channel->id, seq}};

    zr_shim_send(host.link, &m, NULL, 0);
}

/* The reply to @a seq; a signal handler that has run interrupts the ioctl as in the kernel, and its
 * outcome says whether it was too late. */
static int zr_shim_reply(struct zr_shim_channel *channel, uint32_t seq, struct zr_shim_message *m,
                         int out[ZR_SHIM_MAX_FDS], bool cloexec)
{
    unsigned i;
    int      ret;

    for (;;) {
        ret = zr_shim_receive(channel->socket, m, out, cloexec);
        if (ret == -EINTR) {
            zr_shim_interrupt(channel, seq);
            continue;
        }
        if (ret != 0 || m->seq == seq) {
            return ret;
        }
        for (i = 0; i < m->num_fds; i++) {
            ZR_REAL(close)(out[i]);
        }
    }
}

int zr_shim_call(struct zr_shim_message *m, const int *fds, unsigned count,
                 int out[ZR_SHIM_MAX_FDS], bool cloexec)
{
    struct zr_shim_channel *channel = zr_shim_channel();
    struct zr_shim_message  stale;
    unsigned                i;
    int                     ret;

    if (channel == NULL) {
        return -ENODEV;
    }
    if (channel->waiting != 0) {
        zr_shim_interrupt(channel, channel->waiting);
        ret = zr_shim_reply(channel, channel->waiting, &stale, out, true);
        for (i = 0; ret == 0 && i < stale.num_fds; i++) {
            ZR_REAL(close)(out[i]);
        }
    }
    m->seq = channel->waiting = ++channel->seq;
    ret                       = zr_shim_send(channel->socket, m, fds, count);
    if (ret == 0) {
        ret = zr_shim_reply(channel, m->seq, m, out, cloexec);
    } else {
        m->num_fds = 0;
    }
    channel->waiting = 0;
    for (i = ret == 0 ? m->num_fds : 0; i < ZR_SHIM_MAX_FDS; i++) {
        out[i] = -1;
    }
    return ret == 0 ? m->ret : ret == -EPIPE ? -ENODEV : ret;
}

/* ---- DRM files ---- */

int zr_shim_device_open(unsigned minor, int flags)
{
    struct zr_shim_message m;
    struct stat            st;
    int                    fd = -1, ret = -EPIPE, tries;

    if (zr_shim_tree() == NULL) {
        return -ENODEV;
    }
    for (tries = 0; ret == -EPIPE && tries < 8; tries++) {
        fd = zr_shim_connect();
        if (fd < 0) {
            return fd;
        }
        if (ZR_REAL(fstat)(fd, &st) != 0) {
            ret = -errno;
            break;
        }
        memset(&m, 0, sizeof(m));
        m.op   = ZR_SHIM_OPEN;
        m.file = st.st_ino;
        m.a[0] = minor;
        m.a[1] = zr_shim_capabilities();
        ret    = zr_shim_hello(fd, &m);
        if (ret != 0) {
            ZR_REAL(close)(fd);
        }
    }
    if (ret != 0) {
        return ret;
    }
    if (!(flags & O_CLOEXEC)) {
        ZR_REAL(fcntl)(fd, F_SETFD, 0);
    }
    if (flags & O_NONBLOCK) {
        ZR_REAL(fcntl)(fd, F_SETFL, O_NONBLOCK);
    }
    return fd;
}

/* A socket that is connected to a server like ours: is it a DRM file there? */
static int zr_shim_ask(int fd, uint64_t inode)
{
    struct sockaddr_un     address;
    struct zr_shim_message m      = {.op = ZR_SHIM_IDENTIFY, .file = inode};
    socklen_t              length = sizeof(address);
    int                    out[ZR_SHIM_MAX_FDS];
    char                   name[sizeof(address.sun_path)];

    if (getpeername(fd, (struct sockaddr *)&address, &length) != 0 ||
        address.sun_family != AF_UNIX || length <= sizeof(sa_family_t) + 1 ||
        address.sun_path[0] != '\0') {
        return -1;
    }
    length -= sizeof(sa_family_t) + 1;
    memcpy(name, address.sun_path + 1, length);
    name[length] = '\0';
    if (strncmp(name, ZR_SHIM_PREFIX, strlen(ZR_SHIM_PREFIX)) != 0) {
        return -1;
    }
    if (!host.known) { /* the file came from who knows more than our environment */
        zr_shim_place_named(&host.place, name);
        host.known = true;
    }
    if (strcmp(name, host.place.name) != 0 || zr_shim_call(&m, NULL, 0, out, true) != 0) {
        return -1;
    }
    return (int)m.a[0];
}

int zr_shim_device_minor(int fd, uint64_t *inode_p)
{
    struct stat st;
    uint64_t    word;
    int         minor;

    if (fd < 0 || ZR_REAL(fstat)(fd, &st) != 0 || !S_ISSOCK(st.st_mode)) {
        return -1;
    }
    *inode_p = st.st_ino;
    word     = atomic_load(&seen[st.st_ino % ZR_SHIM_CACHE]);
    if (word >> 16 == st.st_ino) {
        return (int)(word & 0xffff);
    }
    minor = zr_shim_ask(fd, st.st_ino);
    if (minor >= 0) {
        atomic_store(&seen[st.st_ino % ZR_SHIM_CACHE], (uint64_t)st.st_ino << 16 | (unsigned)minor);
    }
    return minor;
}

bool zr_shim_is_own(int fd)
{
    return fd >= 0 && (fd == host.link || (own != NULL && fd == own->socket));
}
