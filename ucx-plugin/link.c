/* The link between processes: see link.h.
 *
 * Locks: one mutex guards all state; it is not held while a socket is waited for, nor while the
 * owner's functions run. */
/* SPDX-License-Identifier: BSD-3-Clause */
#include "link_message.h"

#include "abi/uct_abi.h"
#include "util/local.h"

#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <unistd.h>

#define BACKLOG         128
#define ASKERS_MAX      64  /* who asks and does not watch; one more, and the oldest goes */
#define REST_MS         100 /* no accept for so long where no fd is free */

/* A connection: somebody who asks or watches us, or an exporter that we watch. */
struct connection {
    struct connection *next;
    int                fd;
    bool               watches; /* us */
    uint64_t           number;  /* of the exporter that we watch, 0: it is not one */
    uint64_t           space;
};

static struct {
    pthread_mutex_t           lock;
    const struct zr_link_ops *ops;
    bool                      running, stopping, failed;
    pid_t                     pid; /* that the rest belongs to: a forked child has none of it */
    uint64_t                  number;
    int                       listener, wake;
    pthread_t                 thread;
    struct connection        *connections;
    unsigned                  count;
} zr_link = {.lock = PTHREAD_MUTEX_INITIALIZER, .listener = -1, .wake = -1};

/* ---- the thread ---- */

/* Lock held. */
static void unlink_connection(struct connection *connection)
{
    struct connection **link = &zr_link.connections;

    while (*link != connection) {
        link = &(*link)->next;
    }
    *link = connection->next;
    zr_link.count--;
}

/* Lock held. */
static void wake_thread(void)
{
    const uint64_t one = 1;

    if (zr_link.wake >= 0 && write(zr_link.wake, &one, sizeof(one)) < 0) {
        return; /* the counter is full: it is awake */
    }
}

/* Lock held. */
static bool add_connection(int fd, uint64_t number, uint64_t space)
{
    struct connection *connection = calloc(1, sizeof(*connection));

    if (connection == NULL) {
        return false;
    }
    connection->fd      = fd;
    connection->number  = number;
    connection->space   = space;
    connection->next    = zr_link.connections;
    zr_link.connections = connection;
    zr_link.count++;
    return true;
}

/* What an exporter said that we watch. @return false: it is gone. */
static bool hear(struct connection *connection)
{
    struct zr_link_message message;
    int                    fds[ZR_LINK_PIECES_MAX];
    unsigned               count = 0;
    ssize_t n = zr_link_receive(connection->fd, &message, fds, &count, MSG_DONTWAIT);

    if (n == -EAGAIN) {
        return true;
    }
    if (n <= 0) {
        return false;
    }
    zr_local_close(fds, count);
    if (message.what == ZR_LINK_LETGO && message.export_id != 0) {
        zr_link.ops->let_go(connection->space, message.base, message.size, message.export_id);
    }
    return true;
}

/* @return false: the connection is to be closed. */
static bool serve(struct connection *connection)
{
    static struct zr_link_message request, answer; /* of the thread */
    int                           fds[ZR_LINK_PIECES_MAX], sent[ZR_LINK_PIECES_MAX];
    unsigned                      count = 0, k, n_sent = 0;
    size_t                        size;
    ssize_t n = zr_link_receive(connection->fd, &request, fds, &count, MSG_DONTWAIT);

    if (n == -EAGAIN) {
        return true;
    }
    if (n <= 0) {
        return false;
    }
    zr_local_close(fds, count);
    /* Nothing of an answer to somebody else. */
    memset(&answer, 0, sizeof(answer));
    memcpy(&answer, &request, ZR_LINK_HEADER);
    memset(answer.secret, 0, sizeof(answer.secret));
    answer.status = 0;
    answer.count  = 0;
    if (request.what == ZR_LINK_WATCH) {
        pthread_mutex_lock(&zr_link.lock);
        connection->watches = true;
        pthread_mutex_unlock(&zr_link.lock);
    } else {
        zr_link.ops->answer(&request, &answer, fds);
    }
    size = answer.status != 0               ? 0
           : answer.what == ZR_LINK_PIECES ? answer.count * sizeof(struct zr_piece)
           : answer.what == ZR_LINK_RENEW ? sizeof(answer.u.key)
           : answer.what == ZR_LINK_STATS ? sizeof(answer.u.stats)
                                          : 0;
    for (k = 0; size > 0 && answer.what == ZR_LINK_PIECES && k < answer.count; k++) {
        answer.u.pieces[k].has_fd = fds[k] >= 0;
        if (fds[k] >= 0) {
            sent[n_sent++] = fds[k];
        }
    }
    return zr_local_send(connection->fd, &answer, ZR_LINK_HEADER + size, sent, n_sent,
                         MSG_DONTWAIT) == 0;
}

/* Lock held. Connections that only ask are short; the oldest of too many is nobody's loss. New ones
 * are in front. */
static struct connection *one_too_many(void)
{
    struct connection *connection, *oldest = NULL;
    unsigned           askers = 0;

    for (connection = zr_link.connections; connection != NULL; connection = connection->next) {
        if (connection->number == 0 && !connection->watches) {
            oldest = connection;
            askers++;
        }
    }
    return askers > ASKERS_MAX ? oldest : NULL;
}

/* @return false: no fd is free, the next try is for later. */
static bool accept_one(void)
{
    int fd = accept4(zr_link.listener, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK), error = errno;
    struct connection *old;

    if (fd < 0) {
        return error == EAGAIN || error == EINTR || error == ECONNABORTED;
    }
    pthread_mutex_lock(&zr_link.lock);
    if (!zr_local_same_user(fd, NULL) || !add_connection(fd, 0, 0)) {
        close(fd);
    }
    old = one_too_many();
    if (old != NULL) {
        unlink_connection(old);
        close(old->fd);
        free(old);
    }
    pthread_mutex_unlock(&zr_link.lock);
    return true;
}

/* An exporter that cannot tell us any more may free at any time: nothing of it is kept. */
static void drop(struct connection *connection)
{
    pthread_mutex_lock(&zr_link.lock);
    unlink_connection(connection);
    pthread_mutex_unlock(&zr_link.lock);
    if (connection->number != 0) {
        zr_link.ops->let_go(connection->space, 0, UINT64_MAX, 0);
    }
    close(connection->fd);
    free(connection);
}

/* @return the number of polls, 0: stop. *who is who each is about. */
static unsigned prepare(struct pollfd **polls_p, struct connection ***who_p, unsigned *room)
{
    struct connection *connection;
    unsigned           n = 0;
    void              *polls, *who;

    pthread_mutex_lock(&zr_link.lock);
    if (*room < zr_link.count + 2) {
        unsigned want = 2 * (zr_link.count + 2);

        polls    = realloc(*polls_p, want * sizeof(**polls_p));
        *polls_p = polls != NULL ? polls : *polls_p;
        who      = realloc(*who_p, want * sizeof(**who_p));
        *who_p   = who != NULL ? who : *who_p;
        *room    = polls != NULL && who != NULL ? want : *room;
    }
    if (!zr_link.stopping && *room >= 2) {
        (*polls_p)[n++] = (struct pollfd){.fd = zr_link.wake, .events = POLLIN};
        (*polls_p)[n++] = (struct pollfd){.fd = zr_link.listener, .events = POLLIN};
        for (connection = zr_link.connections; connection != NULL && n < *room;
             connection = connection->next) {
            (*who_p)[n]     = connection;
            (*polls_p)[n++] = (struct pollfd){.fd = connection->fd, .events = POLLIN};
        }
    }
    pthread_mutex_unlock(&zr_link.lock);
    return n;
}

static void *link_main(void *arg)
{
    struct pollfd      *polls = NULL;
    struct connection **who   = NULL;
    unsigned            room = 0, n, k;
    uint64_t            ignored;
    bool                rest = false;

    while ((n = prepare(&polls, &who, &room)) > 0) {
        if (rest) {
            polls[1].fd = -1;
        }
        if (poll(polls, n, rest ? REST_MS : -1) < 0) {
            if (errno != EINTR) {
                (void)poll(NULL, 0, REST_MS); /* no memory, or more sockets than the fd limit */
            }
            continue;
        }
        rest = false;
        if (polls[0].revents != 0 && read(zr_link.wake, &ignored, sizeof(ignored)) < 0) {
            continue;
        }
        for (k = 2; k < n; k++) {
            if (polls[k].revents != 0 &&
                !(who[k]->number != 0 ? hear(who[k]) : serve(who[k]))) {
                drop(who[k]);
            }
        }
        if (polls[1].revents != 0) {
            rest = !accept_one();
        }
    }
    free(polls);
    free(who);
    return NULL;
}

/* ---- start and stop ---- */

/* Lock held: sockets are closed, the rest forgotten. */
static void forget_all(void)
{
    struct connection *connection;

    while ((connection = zr_link.connections) != NULL) {
        zr_link.connections = connection->next;
        close(connection->fd);
        free(connection);
    }
    if (zr_link.listener >= 0) {
        close(zr_link.listener);
    }
    if (zr_link.wake >= 0) {
        close(zr_link.wake);
    }
    zr_link.listener = zr_link.wake = -1;
    zr_link.count    = 0;
    zr_link.running  = zr_link.stopping = false;
}

static void before_fork(void)
{
    pthread_mutex_lock(&zr_link.lock);
}

static void after_fork_parent(void)
{
    pthread_mutex_unlock(&zr_link.lock);
}

/* The child is another process: it must not keep its parent's name alive. */
static void after_fork_child(void)
{
    struct connection *connection;

    for (connection = zr_link.connections; connection != NULL; connection = connection->next) {
        close(connection->fd);
    }
    zr_link.connections = NULL; /* freeing is not safe here */
    forget_all();
    pthread_mutex_unlock(&zr_link.lock);
}

/* The thread closes what it is told to let go of, so it ends before the driver does: what is
 * registered here runs before any library's destructor. */
static void register_ends(void)
{
    pthread_atfork(before_fork, after_fork_parent, after_fork_child);
    atexit(zr_link_stop);
}

/* Lock held. 0 or -errno. */
static int start_thread(void)
{
    if (getrandom(&zr_link.number, sizeof(zr_link.number), 0) != sizeof(zr_link.number)) {
        return -EIO;
    }
    zr_link.number |= 1;
    zr_link.listener = zr_local_listen(ZR_LINK_PREFIX, zr_link.number, BACKLOG);
    if (zr_link.listener < 0) {
        return zr_link.listener;
    }
    zr_link.wake = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (zr_link.wake < 0) {
        return -errno;
    }
    return zr_local_thread(&zr_link.thread, link_main, NULL);
}

uint64_t zr_link_start(const struct zr_link_ops *ops)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    uint64_t              number;
    int                   ret;

    pthread_once(&once, register_ends);
    pthread_mutex_lock(&zr_link.lock);
    if (!zr_link.running && !zr_link.failed) {
        zr_link.ops = ops;
        ret         = start_thread();
        if (ret != 0) {
            forget_all();
            zr_link.failed = true;
            zr_ucs_warn("no socket for other processes (%s): they keep nothing of this process "
                        "open between transfers",
                        strerror(-ret));
        }
        zr_link.running = ret == 0;
    }
    number = zr_link.running ? zr_link.number : 0;
    pthread_mutex_unlock(&zr_link.lock);
    return number;
}

void zr_link_stop(void)
{
    pthread_t thread;
    bool      running;

    pthread_mutex_lock(&zr_link.lock);
    running          = zr_link.running && !zr_link.stopping;
    thread           = zr_link.thread;
    zr_link.stopping = running;
    wake_thread();
    pthread_mutex_unlock(&zr_link.lock);
    if (running) {
        pthread_join(thread, NULL);
        pthread_mutex_lock(&zr_link.lock);
        forget_all();
        pthread_mutex_unlock(&zr_link.lock);
    }
}

/* ---- watching ---- */

void zr_link_let_go(uint64_t export_id, uint64_t base, uint64_t size)
{
    struct zr_link_message message = {.magic     = ZR_LINK_MAGIC,
                                      .version   = ZR_LINK_VERSION,
                                      .what      = ZR_LINK_LETGO,
                                      .export_id = export_id,
                                      .base      = base,
                                      .size      = size};
    struct connection     *connection;

    pthread_mutex_lock(&zr_link.lock);
    for (connection = zr_link.connections; connection != NULL; connection = connection->next) {
        if (connection->watches &&
            zr_local_send(connection->fd, &message, ZR_LINK_HEADER, NULL, 0, MSG_DONTWAIT) != 0) {
            /* It does not read. The end of the connection tells it what this would have. */
            connection->watches = false;
            shutdown(connection->fd, SHUT_RDWR);
        }
    }
    pthread_mutex_unlock(&zr_link.lock);
}

/* Lock held. */
static bool is_watched(uint64_t number)
{
    struct connection *connection;

    for (connection = zr_link.connections; connection != NULL; connection = connection->next) {
        if (connection->number == number) {
            return true;
        }
    }
    return false;
}

bool zr_link_watching(uint64_t number)
{
    bool watched;

    pthread_mutex_lock(&zr_link.lock);
    watched = is_watched(number);
    pthread_mutex_unlock(&zr_link.lock);
    return watched;
}

bool zr_link_watch(uint64_t number, uint64_t space)
{
    struct zr_link_message request = {.magic   = ZR_LINK_MAGIC,
                                      .version = ZR_LINK_VERSION,
                                      .what    = ZR_LINK_WATCH},
                           answer;
    bool watched;
    int  fd;

    if (number == 0) {
        return false;
    }
    if (zr_link_watching(number)) {
        return true;
    }
    fd = zr_link_connect(number);
    if (fd < 0) {
        return false;
    }
    if (zr_link_ask_on(fd, &request, &answer, NULL) != 0) {
        close(fd);
        return false;
    }
    pthread_mutex_lock(&zr_link.lock);
    watched = zr_link.running && !zr_link.stopping;
    if (!watched || is_watched(number)) {
        close(fd); /* another thread was first */
    } else if (add_connection(fd, number, space)) {
        wake_thread();
    } else {
        close(fd);
        watched = false;
    }
    pthread_mutex_unlock(&zr_link.lock);
    return watched;
}
