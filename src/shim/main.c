/* zr-i915d: hosts the software devices of one user and environment for every program that runs
 * under libi915shim.so; started by the first of them, ends with the last. */
/* SPDX-License-Identifier: BSD-3-Clause */
#include "server.h"
#include "util/config.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#define ZR_SHIM_LINGER_MS 500 /* programs that come one after another find the same device */

enum zr_shim_link_kind {
    ZR_SHIM_LISTEN,
    ZR_SHIM_WAKE,
    ZR_SHIM_NEW,
    ZR_SHIM_IS_PROCESS,
    ZR_SHIM_IS_FILE,
};

/* What the main thread watches. */
struct zr_shim_link {
    enum zr_shim_link_kind kind;
    int                    fd;
    uint64_t               inode; /* a file */
    struct zr_shim_process *process;
};

static struct zr_shim_server server = {
    .lock    = PTHREAD_MUTEX_INITIALIZER,
    .handled = PTHREAD_COND_INITIALIZER,
};
static int watch_fd;

/* ---- what clients share ---- */

int zr_shim_device(struct zr_shim_server *s, unsigned unit, struct zr_soft_dev **dev_p)
{
    struct zr_soft_options options;
    int                    ret = 0;

    if (unit >= s->units) {
        return -ENODEV;
    }
    pthread_mutex_lock(&s->lock);
    if (s->dev[unit] == NULL) {
        zr_soft_options_config(&options);
        options.unit = unit;
        ret          = zr_soft_dev_create(&s->profile[unit], &options, &s->dev[unit]);
    }
    *dev_p = s->dev[unit];
    pthread_mutex_unlock(&s->lock);
    return ret;
}

void zr_shim_client_gone(struct zr_shim_server *s)
{
    uint64_t one = 1;

    pthread_mutex_lock(&s->lock);
    s->clients--;
    pthread_mutex_unlock(&s->lock);
    if (write(s->wake, &one, sizeof(one)) != sizeof(one)) {
        zr_debug("server: its own eventfd is full");
    }
}

void zr_shim_process_put(struct zr_shim_server *s, struct zr_shim_process *process)
{
    struct zr_shim_process **link;

    pthread_mutex_lock(&s->lock);
    if (--process->refs == 0) {
        for (link = &s->processes; *link != process; link = &(*link)->next) {
        }
        *link = process->next;
    } else {
        process = NULL;
    }
    pthread_mutex_unlock(&s->lock);
    if (process != NULL) {
        zr_soft_mm_put(process->mm);
        free(process);
    }
}

struct zr_shim_file *zr_shim_file_get(struct zr_shim_server *s, uint64_t inode)
{
    struct zr_shim_file *file;

    pthread_mutex_lock(&s->lock);
    for (file = s->files; file != NULL && file->inode != inode; file = file->next) {
    }
    if (file != NULL) {
        file->refs++;
    }
    pthread_mutex_unlock(&s->lock);
    return file;
}

void zr_shim_file_put(struct zr_shim_server *s, struct zr_shim_file *file)
{
    bool last;

    pthread_mutex_lock(&s->lock);
    last = --file->refs == 0;
    pthread_mutex_unlock(&s->lock);
    if (last) {
        if (file->timeline != NULL) {
            zr_shim_timeline_destroy(file->timeline);
        } else {
            zr_soft_file_close(file->file);
        }
        free(file);
    }
}

/* In the kernel close(2) returns after the end of the file; here the main thread comes to it. While
 * one is not ended its link is ready, and ready links are served in turn: after as many as there are
 * connections each was. */
void zr_shim_ends_wait(struct zr_shim_server *s)
{
    struct pollfd watch = {.fd = watch_fd, .events = POLLIN};
    unsigned      turns;

    if (poll(&watch, 1, 0) <= 0) {
        return;
    }
    pthread_mutex_lock(&s->lock);
    for (turns = s->clients + 2; turns > 0 && poll(&watch, 1, 0) > 0; turns--) {
        pthread_cond_wait(&s->handled, &s->lock);
    }
    pthread_mutex_unlock(&s->lock);
}

/* ---- connections ---- */

static struct zr_shim_link *zr_shim_watch(enum zr_shim_link_kind kind, int fd)
{
    struct zr_shim_link *link = calloc(1, sizeof(*link));
    struct epoll_event   event = {.events = EPOLLIN, .data.ptr = link};

    if (link == NULL) {
        return NULL;
    }
    link->kind = kind;
    link->fd   = fd;
    if (epoll_ctl(watch_fd, EPOLL_CTL_ADD, fd, &event) != 0) {
        free(link);
        return NULL;
    }
    return link;
}

static void zr_shim_link_end(struct zr_shim_link *link)
{
    struct zr_shim_file **file;
    struct zr_shim_file  *gone = NULL;

    if (link->kind == ZR_SHIM_IS_FILE) {
        pthread_mutex_lock(&server.lock);
        for (file = &server.files; *file != NULL; file = &(*file)->next) {
            if ((*file)->inode == link->inode) {
                gone  = *file;
                *file = gone->next;
                break;
            }
        }
        pthread_mutex_unlock(&server.lock);
        zr_shim_file_put(&server, gone);
    } else if (link->kind == ZR_SHIM_IS_PROCESS) {
        atomic_store(&link->process->mm->gone, true);
        zr_shim_process_put(&server, link->process);
    }
    close(link->fd);
    free(link);
    zr_shim_client_gone(&server);
}

static int zr_shim_new_process(struct zr_shim_link *link, struct zr_shim_message *m)
{
    struct zr_shim_process *process = calloc(1, sizeof(*process));
    struct ucred            peer;
    socklen_t               size = sizeof(peer);

    if (process == NULL || getsockopt(link->fd, SOL_SOCKET, SO_PEERCRED, &peer, &size) != 0) {
        free(process);
        return -ENOMEM;
    }
    process->mm = zr_soft_mm_create(peer.pid);
    if (process->mm == NULL) {
        free(process);
        return -ENOMEM;
    }
    process->refs = 1;
    pthread_mutex_lock(&server.lock);
    process->id      = ++server.ids;
    process->next    = server.processes;
    server.processes = process;
    pthread_mutex_unlock(&server.lock);
    link->kind    = ZR_SHIM_IS_PROCESS;
    link->process = process;
    m->a[0]       = process->id;
    return 0;
}

/* Who opens acts for himself: his capabilities count. */
static int zr_shim_new_file(struct zr_shim_link *link, const struct zr_shim_message *m)
{
    struct zr_shim_file *file;
    struct zr_soft_dev  *dev;
    struct zr_soft_task  task = {.capabilities = m->a[1]};
    int                  ret;

    file = calloc(1, sizeof(*file));
    if (file == NULL) {
        return -ENOMEM;
    }
    file->inode = link->inode = m->file;
    file->minor               = m->a[0];
    file->unit                = m->a[0] == ZR_SHIM_SW_SYNC ? 0 : m->a[0] % ZR_SHIM_RENDER;
    file->refs                = 1;
    ret                       = zr_shim_device(&server, file->unit, &dev);
    if (ret == 0 && file->minor == ZR_SHIM_SW_SYNC) {
        file->timeline = zr_shim_timeline_create(dev);
        ret            = file->timeline != NULL ? 0 : -ENOMEM;
    } else if (ret == 0) {
        zr_soft_task_enter(&task);
        ret = zr_soft_file_open(dev, &file->file);
        zr_soft_task_enter(NULL);
    }
    if (ret != 0) {
        free(file);
        return ret;
    }
    if (m->a[0] < ZR_SHIM_RENDER) {
        zr_soft_file_set_primary(file->file);
    }
    pthread_mutex_lock(&server.lock);
    file->next   = server.files;
    server.files = file;
    pthread_mutex_unlock(&server.lock);
    link->kind = ZR_SHIM_IS_FILE;
    return 0;
}

/* The connection becomes a thread's. */
static int zr_shim_new_channel(struct zr_shim_link *link, const struct zr_shim_message *m)
{
    struct zr_shim_channel_start *start   = calloc(1, sizeof(*start));
    struct zr_shim_channel       *channel = calloc(1, sizeof(*channel));
    struct zr_shim_process       *process;
    pthread_attr_t                attr;
    pthread_t                     thread;
    int                           ret = -ENOMEM;

    if (start == NULL || channel == NULL) {
        goto err_free;
    }
    pthread_mutex_lock(&server.lock);
    for (process = server.processes; process != NULL && process->id != m->a[0];
         process = process->next) {
    }
    if (process != NULL) {
        process->refs++;
        channel->process = process;
        channel->task.mm = process->mm;
        channel->id      = ++server.ids;
        channel->next    = server.channels;
        server.channels  = channel;
    }
    pthread_mutex_unlock(&server.lock);
    if (process == NULL) {
        ret = -ESRCH;
        goto err_free;
    }
    channel->socket = link->fd;
    start->server   = &server;
    start->channel  = channel;
    pthread_attr_init(&attr);
    pthread_attr_setdetachstate(&attr, PTHREAD_CREATE_DETACHED);
    pthread_attr_setstacksize(&attr, 256 * ZR_KIB);
    ret = -pthread_create(&thread, &attr, zr_shim_channel_thread, start);
    pthread_attr_destroy(&attr);
    if (ret == 0) {
        return 0;
    }
    pthread_mutex_lock(&server.lock);
    server.channels = channel->next; /* only this thread adds */
    pthread_mutex_unlock(&server.lock);
    zr_shim_process_put(&server, process);
err_free:
    free(channel);
    free(start);
    return ret;
}

/* The first message says what a connection is. */
static void zr_shim_first(struct zr_shim_link *link)
{
    struct zr_shim_message m;
    int                    fds[ZR_SHIM_MAX_FDS], ret;
    unsigned               i;

    ret = zr_shim_receive(link->fd, &m, fds, true);
    for (i = 0; ret == 0 && i < m.num_fds; i++) {
        close(fds[i]);
    }
    if (ret == 0 && m.op == ZR_SHIM_CHANNEL) {
        epoll_ctl(watch_fd, EPOLL_CTL_DEL, link->fd, NULL);
        m.ret = zr_shim_new_channel(link, &m);
        if (m.ret == 0) {
            free(link); /* the thread replies */
            return;
        }
        zr_shim_send(link->fd, &m, NULL, 0);
        zr_shim_link_end(link);
        return;
    }
    if (ret == 0) {
        m.ret = m.op == ZR_SHIM_PROCESS ? zr_shim_new_process(link, &m)
                : m.op == ZR_SHIM_OPEN  ? zr_shim_new_file(link, &m)
                                        : -EPROTO;
        snprintf(m.text, sizeof(m.text), "%s", server.tree);
        ret = zr_shim_send(link->fd, &m, NULL, 0);
    }
    if (ret != 0 || m.ret != 0) {
        zr_shim_link_end(link);
    }
}

static void zr_shim_interrupt(const struct zr_shim_message *m)
{
    struct zr_shim_channel *channel;
    struct zr_soft_dev     *dev = NULL;

    pthread_mutex_lock(&server.lock);
    for (channel = server.channels; channel != NULL && channel->id != m->a[0];
         channel = channel->next) {
    }
    if (channel != NULL) {
        channel->stopped = m->a[1];
        if (channel->seq == channel->stopped) {
            atomic_store(&channel->task.interrupted, true);
            dev = channel->dev;
        }
    }
    pthread_mutex_unlock(&server.lock);
    if (dev != NULL) {
        pthread_mutex_lock(&dev->lock);
        pthread_cond_broadcast(&dev->signal);
        pthread_mutex_unlock(&dev->lock);
    }
}

static void zr_shim_process_message(struct zr_shim_link *link)
{
    struct zr_shim_message m;
    int                    fds[ZR_SHIM_MAX_FDS];

    if (zr_shim_receive(link->fd, &m, fds, true) != 0) {
        zr_shim_link_end(link);
    } else if (m.op == ZR_SHIM_INTERRUPT) {
        zr_shim_interrupt(&m);
    }
}

static void zr_shim_accept(int listener)
{
    struct ucred peer;
    socklen_t    size = sizeof(peer);
    int          fd   = accept4(listener, NULL, NULL, SOCK_CLOEXEC);

    if (fd < 0) {
        return;
    }
    if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &size) != 0 ||
        (peer.uid != getuid() && getuid() != 0)) {
        close(fd);
        return;
    }
    pthread_mutex_lock(&server.lock);
    server.clients++;
    pthread_mutex_unlock(&server.lock);
    if (zr_shim_watch(ZR_SHIM_NEW, fd) == NULL) {
        close(fd);
        zr_shim_client_gone(&server);
    }
}

/* ---- life ---- */

static void zr_shim_serve(int listener)
{
    struct epoll_event   event;
    struct zr_shim_link *link;
    uint64_t             count;
    unsigned             clients;
    int                  n;

    for (;;) {
        pthread_mutex_lock(&server.lock);
        clients = server.clients;
        pthread_mutex_unlock(&server.lock);
        n = epoll_wait(watch_fd, &event, 1, clients == 0 ? ZR_SHIM_LINGER_MS : -1);
        if (n == 0) {
            return;
        }
        if (n < 0) {
            continue;
        }
        link = event.data.ptr;
        switch (link->kind) {
        case ZR_SHIM_LISTEN:
            zr_shim_accept(listener);
            break;
        case ZR_SHIM_WAKE:
            if (read(server.wake, &count, sizeof(count)) != sizeof(count)) {
                zr_debug("server: nothing to wake up for");
            }
            break;
        case ZR_SHIM_NEW:
            zr_shim_first(link);
            break;
        case ZR_SHIM_IS_PROCESS:
            zr_shim_process_message(link);
            break;
        case ZR_SHIM_IS_FILE:
            zr_shim_link_end(link); /* nobody speaks there: it is the end */
            break;
        }
        pthread_mutex_lock(&server.lock);
        pthread_cond_broadcast(&server.handled);
        pthread_mutex_unlock(&server.lock);
    }
}

static int zr_shim_load_profiles(void)
{
    const char *list = zr_config()->soft;
    char        name[64];
    size_t      length;
    int         ret;

    while (list != NULL && *list != '\0' && server.units < ZR_SHIM_MAX_UNITS) {
        length = strcspn(list, ",");
        snprintf(name, sizeof(name), "%.*s", (int)length, list);
        ret = zr_soft_profile_load(zr_config()->profiles, name, &server.profile[server.units]);
        if (ret != 0) {
            return ret;
        }
        server.units++;
        list += length + (list[length] == ',');
    }
    return server.units > 0 ? 0 : -ENODEV;
}

static int zr_shim_listen(void)
{
    int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);

    if (fd < 0) {
        return -errno;
    }
    if (bind(fd, (struct sockaddr *)&server.place.address, server.place.length) != 0 ||
        listen(fd, 512) != 0) {
        close(fd);
        return -errno;
    }
    return fd;
}

/* From here on what is said goes to ZERANGE_SHIM_LOG; the starter sees his pipe's end. */
static void zr_shim_leave_starter(void)
{
    const char *log = getenv("ZERANGE_SHIM_LOG");
    int         fd  = -1;

    if (log != NULL && *log != '\0') {
        fd = open(log, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644);
    }
    if (fd < 0) {
        fd = open("/dev/null", O_WRONLY | O_CLOEXEC);
    }
    dup2(fd, 2);
    close(fd);
}

static int zr_shim_begin(const char *name)
{
    struct rlimit limit;
    int           listener, ret;

    if (getrlimit(RLIMIT_NOFILE, &limit) == 0) {
        limit.rlim_cur = limit.rlim_max; /* every object has an fd here */
        setrlimit(RLIMIT_NOFILE, &limit);
    }
    zr_shim_place_named(&server.place, name);
    listener = zr_shim_listen();
    if (listener < 0) {
        return listener;
    }
    snprintf(server.tree, sizeof(server.tree), "/tmp/%s", server.place.name);
    zr_shim_tree_remove(server.tree);
    ret = zr_shim_tree_make(server.tree, server.profile, server.units);
    if (ret != 0) {
        return ret;
    }
    server.wake = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    watch_fd    = epoll_create1(EPOLL_CLOEXEC);
    if (server.wake < 0 || watch_fd < 0 || zr_shim_watch(ZR_SHIM_LISTEN, listener) == NULL ||
        zr_shim_watch(ZR_SHIM_WAKE, server.wake) == NULL) {
        return -ENOMEM;
    }
    return listener;
}

/* usage: zr-i915d NAME: listens as NAME; standard error is the starter's until it does. */
int main(int argc, char **argv)
{
    int listener;

    if (argc != 2) {
        fprintf(stderr, "usage: zr-i915d NAME (started by libi915shim.so)\n");
        return 2;
    }
    signal(SIGPIPE, SIG_IGN);
    umask(0022);
    if (zr_config_load() != ZE_RESULT_SUCCESS || zr_shim_load_profiles() != 0) {
        fprintf(stderr, "zr-i915d: %s\n", zr_last_error());
        return 1;
    }
    listener = zr_shim_begin(argv[1]);
    if (listener == -EADDRINUSE) {
        return 0; /* another was faster */
    }
    if (listener < 0) {
        fprintf(stderr, "zr-i915d: cannot serve as %s: %s\n", argv[1], strerror(-listener));
        return 1;
    }
    zr_shim_leave_starter();
    zr_shim_serve(listener);
    close(listener);
    zr_shim_tree_remove(server.tree);
    return 0; /* the devices end with the process */
}
