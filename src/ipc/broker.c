/* The broker: a thread of the exporter that gives object fds to peers of the same user who know
 * an export's secret. Nothing in it waits for a single peer; one request is one packet and one
 * answer, at most 253 fds, and fds made for an answer are closed when it is on its way. The kernel
 * limits the fds that are sent and not yet received by user: peers that do not read share a part
 * of that, so that those who do always get on. */
/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE 1
#endif
#include "parts.h"

#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <stdlib.h>
#include <linux/sockios.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/ioctl.h>
#include <sys/resource.h>
#include <unistd.h>

#define ZR_BROKER_CONNECTIONS 64
#define ZR_BROKER_IDLE_NS     UINT64_C(10000000000) /* a silent peer is dropped after */
#define ZR_BROKER_REST_NS     UINT64_C(100000000)   /* no accept for so long without fds */
#define ZR_BROKER_RETRY_NS    UINT64_C(10000000)    /* until an answer is tried again */
#define ZR_BROKER_REFUSALS    4                     /* a connection that is refused so often ends */

/* So much at once, and so much a second: what a peer can make this thread do is bounded. */
static const struct zr_rate {
    unsigned burst, per_second;
} zr_request_rate = {1024, 2048}, /* of one connection */
    zr_accept_rate = {1024, 4096};

struct zr_tokens {
    uint64_t spent; /* zr_time_ns up to which what is allowed has been used */
};

struct zr_connection {
    int                      fd;
    unsigned                 unread;    /* fds in the last answer, as far as not known to be read */
    bool                     answering; /* request waits for its answer to be possible */
    uint64_t                 deadline;  /* zr_time_ns at which it is dropped */
    uint64_t                 retry;     /* at which the answer is tried again; 0: when writable */
    unsigned                 refusals;
    struct zr_tokens         tokens;
    struct zr_broker_request request;
};

static struct {
    pthread_mutex_t life;    /* guards running, thread: start and stop */
    pthread_mutex_t fds;     /* guards the fds below against fork; writers are the thread and,
                                before it runs and after it ended, who holds life */
    bool                 running;
    pthread_t            thread;
    int                  listener, wake;
    unsigned             count;
    struct zr_connection connections[ZR_BROKER_CONNECTIONS];
    uint64_t             accept_again; /* this and the next: of the thread */
    struct zr_tokens     accepts;
} zr_broker = {
    .life     = PTHREAD_MUTEX_INITIALIZER,
    .fds      = PTHREAD_MUTEX_INITIALIZER,
    .listener = -1,
    .wake     = -1,
};

/* One more now, if the rate allows it. */
static bool zr_tokens_take(struct zr_tokens *tokens, const struct zr_rate *rate, uint64_t now)
{
    const uint64_t each = UINT64_C(1000000000) / rate->per_second, full = rate->burst * each;
    uint64_t       from = (now > full) ? now - full : 0;

    from = ZR_MAX(tokens->spent, from);
    if (from + each > now) {
        return false;
    }
    tokens->spent = from + each;
    return true;
}

/* ---- answering ---- */

/* 0 or -errno; -EAGAIN: the peer has to read first. */
static int zr_broker_send(int sock, int status, const int *fds, unsigned count)
{
    struct zr_broker_answer answer = {ZR_BROKER_MAGIC, status, count, 0};

    return zr_local_send(sock, &answer, sizeof(answer), fds, count, MSG_DONTWAIT);
}

/* Fds of this connection that are under way: all of the last answer or none. */
static unsigned zr_connection_unread(struct zr_connection *connection)
{
    int bytes = 0;

    if (connection->unread > 0 && ioctl(connection->fd, SIOCOUTQ, &bytes) == 0 && bytes == 0) {
        connection->unread = 0;
    }
    return connection->unread;
}

/* How many fds the next answer may carry: a quarter of what is left of a quarter of the limit, so
 * that peers that do not read cannot use it up; at least one. */
static unsigned zr_broker_allowance(void)
{
    struct rlimit limit = {.rlim_cur = 1024};
    uint64_t      budget, used = 0;
    unsigned      i;

    getrlimit(RLIMIT_NOFILE, &limit);
    budget = limit.rlim_cur / 4;
    for (i = 0; i < zr_broker.count; ++i) {
        used += zr_connection_unread(&zr_broker.connections[i]);
    }
    budget = (budget > used) ? (budget - used) / 4 : 0;
    return (unsigned)ZR_MAX(ZR_MIN(budget, (uint64_t)ZR_BROKER_MAX_FDS), UINT64_C(1));
}

/* Object fds live only from here to the end of the call; the peer asks again for the rest. */
static int zr_broker_send_objects(struct zr_connection *connection, const struct zr_export *export)
{
    unsigned    first = connection->request.first, count = connection->request.count, made;
    int         fds[ZR_BROKER_MAX_FDS], status;
    ze_result_t result = ZE_RESULT_SUCCESS;

    if (first >= export->range.count || count == 0 || count > ZR_BROKER_MAX_FDS ||
        count > export->range.count - first) {
        return zr_broker_send(connection->fd, -EINVAL, NULL, 0);
    }
    count = ZR_MIN(count, zr_broker_allowance());
    for (made = 0; made < count; ++made) {
        result = zr_bo_export(export->range.segments[first + made].object->bo, &fds[made]);
        if (result != ZE_RESULT_SUCCESS) {
            break;
        }
    }
    if (made == 0) {
        zr_warn("export %llu: object %u cannot be given to a peer: %s",
                (unsigned long long)export->handle.export_id, first, zr_last_error());
        return zr_broker_send(connection->fd,
                              (result == ZE_RESULT_ERROR_OUT_OF_HOST_MEMORY) ? -EMFILE : -EIO, NULL,
                              0);
    }
    status = zr_broker_send(connection->fd, 0, fds, made);
    zr_local_close(fds, made);
    connection->unread = (status == 0) ? made : 0;
    return status;
}

static int zr_broker_answer(struct zr_connection *connection)
{
    const struct zr_broker_request *request = &connection->request;
    struct zr_export *export = zr_export_find(request->export_id, request->secret);
    int status, fd;

    /* An export that is gone and a wrong secret look alike from outside. */
    if (export == NULL) {
        status = zr_broker_send(connection->fd, -EACCES, NULL, 0);
        return (++connection->refusals < ZR_BROKER_REFUSALS) ? status : -EACCES;
    }
    if (request->what == ZR_BROKER_LEAD) {
        fd     = zr_export_lead_fd(export);
        status = zr_broker_send(connection->fd, (fd == -ESTALE) ? -EACCES : ZR_MIN(fd, 0), &fd,
                                fd >= 0);
        connection->unread = (status == 0 && fd >= 0) ? 1 : 0;
        if (fd >= 0) {
            close(fd);
        }
    } else {
        status = zr_broker_send_objects(connection, export);
    }
    zr_export_unref(export);
    return status;
}

/* ---- connections ---- */

static void zr_connection_close(struct zr_connection *connection)
{
    pthread_mutex_lock(&zr_broker.fds);
    close(connection->fd);
    *connection = zr_broker.connections[--zr_broker.count];
    pthread_mutex_unlock(&zr_broker.fds);
}

/* @return false: the connection is to be closed. */
static bool zr_connection_answer(struct zr_connection *connection)
{
    int status = -EBUSY;

    if (zr_connection_unread(connection) == 0 &&
        zr_tokens_take(&connection->tokens, &zr_request_rate, zr_time_ns())) {
        status = zr_broker_answer(connection);
    }
    switch (status) {
    case 0:
        connection->answering = false;
        connection->retry     = 0;
        return true;
    case -EAGAIN:
        connection->answering = true;
        connection->retry     = 0;
        return true;
    case -EBUSY:        /* it has not read the last answer, or asks too often */
    case -ETOOMANYREFS: /* the user's processes have too many fds under way together */
    case -ENOBUFS:
        connection->answering = true;
        connection->retry     = zr_time_ns() + ZR_BROKER_RETRY_NS;
        return true;
    default:
        return false;
    }
}

static bool zr_connection_read(struct zr_connection *connection)
{
    struct zr_broker_request *request = &connection->request;
    ssize_t n = recv(connection->fd, request, sizeof(*request), MSG_DONTWAIT | MSG_TRUNC);

    if (n < 0 && (errno == EAGAIN || errno == EINTR)) {
        return true;
    }
    if (n != (ssize_t)sizeof(*request) || request->magic != ZR_BROKER_MAGIC ||
        request->version != ZR_WIRE_VERSION || request->zero != 0 ||
        (request->what != ZR_BROKER_LEAD && request->what != ZR_BROKER_OBJECTS)) {
        return false;
    }
    connection->deadline = zr_time_ns() + ZR_BROKER_IDLE_NS;
    return zr_connection_answer(connection);
}

/* With no place left the peer that will be dropped next is dropped now. */
static void zr_broker_make_place(void)
{
    struct zr_connection *first = &zr_broker.connections[0];
    unsigned              i;

    if (zr_broker.count < ZR_BROKER_CONNECTIONS) {
        return;
    }
    for (i = 1; i < zr_broker.count; ++i) {
        if (zr_broker.connections[i].deadline < first->deadline) {
            first = &zr_broker.connections[i];
        }
    }
    zr_connection_close(first);
}

static void zr_broker_accept(void)
{
    int fd, error;

    if (!zr_tokens_take(&zr_broker.accepts, &zr_accept_rate, zr_time_ns())) {
        zr_broker.accept_again = zr_time_ns() + ZR_BROKER_RETRY_NS;
        return;
    }
    /* The lock makes "accepted and noted" one step for a fork in another thread. */
    zr_broker_make_place();
    pthread_mutex_lock(&zr_broker.fds);
    fd    = accept4(zr_broker.listener, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
    error = errno;
    if (fd >= 0 && zr_local_same_user(fd, NULL)) {
        zr_broker.connections[zr_broker.count++] = (struct zr_connection){
            .fd       = fd,
            .deadline = zr_time_ns() + ZR_BROKER_IDLE_NS,
        };
    } else if (fd >= 0) {
        close(fd);
    }
    pthread_mutex_unlock(&zr_broker.fds);
    if (fd < 0 && error != EAGAIN && error != EINTR && error != ECONNABORTED) {
        /* No fd is free: the peer waits in the queue rather than us in a busy loop. */
        zr_broker.accept_again = zr_time_ns() + ZR_BROKER_REST_NS;
        zr_log_once(ZR_LOG_WARN, "broker: accept: %s; peers wait", strerror(error));
    }
}

/* ---- the thread ---- */

static int zr_broker_timeout(uint64_t now)
{
    uint64_t next = zr_broker.accept_again;
    unsigned i;

    for (i = 0; i < zr_broker.count; ++i) {
        const struct zr_connection *connection = &zr_broker.connections[i];
        uint64_t due = (connection->retry != 0) ? ZR_MIN(connection->retry, connection->deadline)
                                                : connection->deadline;

        if (next == 0 || due < next) {
            next = due;
        }
    }
    if (next == 0) {
        return -1;
    }
    return (next <= now) ? 0 : (int)((next - now) / 1000000 + 1);
}

/* Downwards, as closing moves the last connection into the gap. */
static void zr_broker_serve(const struct pollfd *polls, unsigned count, uint64_t now)
{
    while (count-- > 0) {
        struct zr_connection *connection = &zr_broker.connections[count];
        /* Who has hung up cannot be answered, and poll would say so without end. */
        bool keep = now < connection->deadline && (polls[count].revents & (POLLHUP | POLLERR)) == 0;
        bool due  = connection->retry != 0 && connection->retry <= now;

        if (keep && (polls[count].revents != 0 || due)) {
            keep = connection->answering ? zr_connection_answer(connection)
                                         : zr_connection_read(connection);
        }
        if (!keep) {
            zr_connection_close(connection);
        }
    }
}

static unsigned zr_broker_prepare(struct pollfd *polls, uint64_t now)
{
    unsigned i, count = zr_broker.count;

    if (zr_broker.accept_again <= now) {
        zr_broker.accept_again = 0;
    }
    polls[0] = (struct pollfd){.fd = zr_broker.wake, .events = POLLIN};
    polls[1] = (struct pollfd){.fd     = (zr_broker.accept_again == 0) ? zr_broker.listener : -1,
                               .events = POLLIN};
    for (i = 0; i < count; ++i) {
        const struct zr_connection *connection = &zr_broker.connections[i];

        polls[2 + i] = (struct pollfd){.fd = connection->fd, .events = POLLIN};
        if (connection->answering) {
            polls[2 + i].events = (connection->retry == 0) ? POLLOUT : 0;
        }
    }
    return count;
}

static void *zr_broker_main(void *arg)
{
    struct pollfd polls[2 + ZR_BROKER_CONNECTIONS];
    unsigned      count;
    uint64_t      now;

    for (;;) {
        now   = zr_time_ns();
        count = zr_broker_prepare(polls, now);
        if (poll(polls, 2 + count, zr_broker_timeout(now)) < 0) {
            if (errno != EINTR) {
                zr_log_once(ZR_LOG_WARN, "broker: poll: %s; peers wait", strerror(errno));
                (void)poll(NULL, 0, (int)(ZR_BROKER_REST_NS / 1000000));
            }
            continue;
        }
        if (polls[0].revents != 0) {
            return NULL;
        }
        zr_broker_serve(&polls[2], count, zr_time_ns());
        if (polls[1].revents != 0) {
            zr_broker_accept();
        }
    }
}

static void zr_broker_close_fds(void)
{
    unsigned i;

    for (i = 0; i < zr_broker.count; ++i) {
        close(zr_broker.connections[i].fd);
    }
    zr_broker.count = 0;
    if (zr_broker.listener >= 0) {
        close(zr_broker.listener);
    }
    if (zr_broker.wake >= 0) {
        close(zr_broker.wake);
    }
    zr_broker.listener = zr_broker.wake = -1;
}

int zr_broker_start(void)
{
    int status = 0;

    pthread_mutex_lock(&zr_broker.life);
    if (zr_broker.running) {
        goto out;
    }
    pthread_mutex_lock(&zr_broker.fds);
    zr_broker.accept_again = 0;
    zr_broker.wake         = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    zr_broker.listener     = (zr_broker.wake >= 0) ? zr_local_listen(ZR_BROKER_PREFIX, zr_identity().process_id,
                                                                   ZR_BROKER_CONNECTIONS) : -errno;
    status                 = ZR_MIN(zr_broker.listener, 0);
    if (status == 0) {
        status = zr_local_thread(&zr_broker.thread, zr_broker_main, NULL);
    }
    if (status != 0) {
        zr_broker_close_fds();
    }
    zr_broker.running = (status == 0);
    pthread_mutex_unlock(&zr_broker.fds);
out:
    pthread_mutex_unlock(&zr_broker.life);
    return status;
}

void zr_broker_stop(void)
{
    const uint64_t one = 1;

    pthread_mutex_lock(&zr_broker.life);
    if (zr_broker.running) {
        if (write(zr_broker.wake, &one, sizeof(one)) == (ssize_t)sizeof(one)) {
            pthread_join(zr_broker.thread, NULL);
        }
        pthread_mutex_lock(&zr_broker.fds);
        zr_broker_close_fds();
        pthread_mutex_unlock(&zr_broker.fds);
        zr_broker.running = false;
    }
    pthread_mutex_unlock(&zr_broker.life);
}

void zr_broker_fork_prepare(void)
{
    pthread_mutex_lock(&zr_broker.life);
    pthread_mutex_lock(&zr_broker.fds);
}

/* With the listener open in a child, a dead exporter would look alive: connections would wait in
 * a queue nobody reads. */
void zr_broker_fork_done(bool child)
{
    if (child) {
        zr_broker_close_fds();
        zr_broker.running = false;
    }
    pthread_mutex_unlock(&zr_broker.fds);
    pthread_mutex_unlock(&zr_broker.life);
}
