/* How an importer gets the fds of an export: a list of methods, tried in order, each of which says
 * why it could not. What comes is recognised before it is believed. */
/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE 1
#endif
#include "parts.h"

#include "util/config.h"

#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#define ZR_MAX_ERRNO          4095 /* of the kernel */
#define ZR_EXCHANGE_TIMEOUT_S 5 /* a peer that says nothing for so long is given up */

/* A call that a signal interrupted is made again, unless it is late: signals that keep coming must
 * not make a wait endless. */
static bool zr_exchange_again(uint64_t start)
{
    return errno == EINTR && zr_time_ns() - start < ZR_EXCHANGE_TIMEOUT_S * UINT64_C(1000000000);
}

static void zr_exchange_note(struct zr_exchange *x, const char *method, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

static void zr_exchange_note(struct zr_exchange *x, const char *method, const char *format, ...)
{
    size_t  left = sizeof(x->why) - x->why_used;
    va_list args;
    int     n;

    n = snprintf(x->why + x->why_used, left, "%s%s: ", (x->why_used > 0) ? "; " : "", method);
    x->why_used += ZR_MIN((size_t)ZR_MAX(n, 0), left - 1);
    left = sizeof(x->why) - x->why_used;
    va_start(args, format);
    n = vsnprintf(x->why + x->why_used, left, format, args);
    va_end(args);
    x->why_used += ZR_MIN((size_t)ZR_MAX(n, 0), left - 1);
}

/* Note a failed step; -errno for the caller to return. */
static int zr_exchange_errno(struct zr_exchange *x, const char *method, const char *step, int error)
{
    zr_exchange_note(x, method, "%s: %s", step, strerror(error));
    x->last_errno = error;
    return -error;
}

const char *zr_handle_check(const struct zr_handle *handle)
{
    if (handle->version != ZR_WIRE_VERSION || handle->zero != 0) {
        return "not a handle of this driver's version";
    }
    switch (handle->kind) {
    case ZR_HANDLE_RANGE:
        if (handle->size != 0 || handle->inode != 0 || handle->device != 0 ||
            handle->memory_type != 0 || handle->process_id == 0) {
            return "a damaged range handle";
        }
        return NULL;
    case ZR_HANDLE_PLAIN:
        if (handle->size == 0 || handle->size > INT64_MAX ||
            handle->memory_type > ZE_MEMORY_TYPE_HOST_IMPORTED) {
            return "a damaged handle";
        }
        return NULL;
    default:
        return "not a handle of this driver";
    }
}

bool zr_exchange_accept(struct zr_exchange *x, const char *method, int fd)
{
    struct zr_table table = {0};
    struct stat     st;
    const char     *wrong;

    if (x->handle.kind == ZR_HANDLE_PLAIN) {
        if (fstat(fd, &st) != 0 || zr_inode_here(st.st_ino) != x->handle.inode ||
            zr_device_number(st.st_dev) != x->handle.device) {
            zr_exchange_note(x, method, "its fd is another file than the handle's");
            return false;
        }
        return true;
    }
    wrong = zr_table_open(fd, &table);
    if (wrong != NULL) {
        zr_exchange_note(x, method, "%s", wrong);
        return false;
    }
    if (table.header->process_id != x->handle.process_id ||
        table.header->export_id != x->handle.export_id) {
        zr_exchange_note(x, method, "its table belongs to another export");
        zr_table_close(&table);
        return false;
    }
    if (!zr_secret_equal(table.header->secret, x->handle.secret)) {
        zr_exchange_note(x, method, "the handle's secret is wrong");
        x->refused = true;
        zr_table_close(&table);
        return false;
    }
    zr_table_close(&x->table);
    x->table = table;
    return true;
}

/* ---- the fd in the handle, if a client has put its own copy there ---- */

/* A buffer needs no exporter. */
static int zr_own_probe(struct zr_exchange *x)
{
    if (x->handle.kind != ZR_HANDLE_PLAIN) {
        return -EOPNOTSUPP;
    }
    if (x->handle.fd < 0) {
        zr_exchange_note(x, "own copy", "the handle has no fd");
        return -EBADF;
    }
    return 0;
}

static int zr_own_lead(struct zr_exchange *x, int *fd_p)
{
    int fd = fcntl(x->handle.fd, F_DUPFD_CLOEXEC, 0);

    if (fd < 0) {
        x->last_errno = errno;
        zr_exchange_note(x, "own copy", "fd %d here: %s", x->handle.fd, strerror(errno));
        return -x->last_errno;
    }
    *fd_p = fd;
    return 0;
}

/* A table only where nobody else gives it: its objects come from the exporter in any case, and
 * only the exporter proves that the table is its own. */
static int zr_own_table_probe(struct zr_exchange *x)
{
    if (x->handle.kind != ZR_HANDLE_RANGE) {
        return -EOPNOTSUPP;
    }
    if (x->handle.fd < 0) {
        zr_exchange_note(x, "own copy", "the handle has no fd");
        return -EBADF;
    }
    return 0;
}

static int zr_own_table_lead(struct zr_exchange *x, int *fd_p)
{
    x->unproven = true;
    return zr_own_lead(x, fd_p);
}

/* ---- pidfd_getfd ---- */

/* A pid means a process only in its namespace and while that lives: with a table known, start
 * time and namespace must be those the exporter wrote. The pidfd then holds on to that process. */
static int zr_pidfd_probe(struct zr_exchange *x)
{
    const struct zr_table_header *header = x->table.header;

    if (zr_config()->fd_exchange == ZR_FD_EXCHANGE_SOCKET) {
        zr_exchange_note(x, "pidfd", "off by ZERANGE_FD_EXCHANGE");
        return -EOPNOTSUPP;
    }
    if (x->handle.pid == 0 || x->handle.pid > INT32_MAX) {
        zr_exchange_note(x, "pidfd", "the exporter is not known");
        return -ESRCH;
    }
    if (header != NULL && header->pid_namespace != zr_identity().pid_namespace) {
        zr_exchange_note(x, "pidfd", "the exporter lives in another pid namespace");
        return -ESRCH;
    }
    if (x->pidfd < 0) {
        x->pidfd = (int)syscall(SYS_pidfd_open, (pid_t)x->handle.pid, 0);
        if (x->pidfd < 0) {
            return zr_exchange_errno(x, "pidfd", "pidfd_open", errno);
        }
    }
    if (header != NULL && header->start_time != 0 &&
        header->start_time != zr_start_time(x->handle.pid)) {
        zr_exchange_note(x, "pidfd", "process %u is not the exporter any more", x->handle.pid);
        return -ESRCH;
    }
    return 0;
}

static int zr_pidfd_get(struct zr_exchange *x, int remote, int *fd_p)
{
    int fd = (int)syscall(SYS_pidfd_getfd, x->pidfd, remote, 0);

    if (fd < 0) {
        return zr_exchange_errno(x, "pidfd", "pidfd_getfd", errno);
    }
    x->peer = x->handle.pid;
    *fd_p   = fd;
    return 0;
}

static int zr_pidfd_lead(struct zr_exchange *x, int *fd_p)
{
    return zr_pidfd_get(x, x->handle.fd, fd_p);
}

static int zr_pidfd_objects(struct zr_exchange *x, unsigned first, unsigned count, int *fds,
                            unsigned *got_p)
{
    unsigned    i;
    struct stat st;
    int         status = -EOPNOTSUPP;

    if (x->table.entries[first].fd < 0) {
        zr_exchange_note(x, "pidfd", "the exporter keeps no object fds open");
        return status;
    }
    for (i = 0; i < count; ++i) {
        const struct zr_table_entry *entry = &x->table.entries[first + i];

        status = zr_pidfd_get(x, entry->fd, &fds[i]);
        if (status != 0) {
            break;
        }
        /* After a put the number may stand for something else. */
        if (fstat(fds[i], &st) != 0 || st.st_ino != entry->inode ||
            zr_device_number(st.st_dev) != entry->device) {
            close(fds[i]);
            zr_exchange_note(x, "pidfd", "object %u is exported no more", first + i);
            status = -ESTALE;
            break;
        }
    }
    *got_p = i;
    return (i > 0) ? 0 : status;
}

/* ---- the exporter's broker ---- */

static int zr_socket_connect(struct zr_exchange *x)
{
    struct sockaddr_un address;
    socklen_t          length = zr_broker_address(x->handle.process_id, &address);
    uint64_t           start  = zr_time_ns();
    int                fd     = zr_local_socket(ZR_EXCHANGE_TIMEOUT_S);

    if (fd < 0) {
        return zr_exchange_errno(x, "socket", "socket", -fd);
    }
    x->sock = fd;
    while (connect(fd, (struct sockaddr *)&address, length) != 0) {
        if (errno == ECONNREFUSED) {
            return zr_exchange_errno(x, "socket",
                                     "connect: it is no process of this user in this network "
                                     "namespace any more", errno);
        }
        if (!zr_exchange_again(start)) {
            return zr_exchange_errno(x, "socket", "connect", errno);
        }
    }
    if (!zr_local_same_user(fd, &x->sock_peer)) {
        zr_exchange_note(x, "socket", "the name belongs to another user");
        return -EACCES;
    }
    return 0;
}

static void zr_socket_close(struct zr_exchange *x)
{
    if (x->sock >= 0) {
        close(x->sock);
        x->sock = -1;
    }
    x->ahead_count = 0;
}

static int zr_socket_probe(struct zr_exchange *x)
{
    int status;

    if (zr_config()->fd_exchange == ZR_FD_EXCHANGE_PIDFD) {
        zr_exchange_note(x, "socket", "off by ZERANGE_FD_EXCHANGE");
        return -EOPNOTSUPP;
    }
    if (x->handle.process_id == 0) {
        zr_exchange_note(x, "socket", "the exporter is not known");
        return -ESRCH;
    }
    if (x->sock >= 0) {
        return 0;
    }
    status = zr_socket_connect(x);
    if (status != 0) {
        zr_socket_close(x);
    }
    return status;
}

static int zr_socket_receive(struct zr_exchange *x, int *fds, unsigned max, unsigned *got_p)
{
    struct zr_broker_answer answer;
    uint64_t                start = zr_time_ns();
    unsigned                got   = 0;
    bool                    whole;
    ssize_t                 n;

    do {
        n     = zr_local_receive(x->sock, &answer, sizeof(answer), fds, max, &got, 0);
        errno = n < 0 ? (int)-n : 0;
    } while (n < 0 && zr_exchange_again(start));
    if (n < 0 && n != -EMSGSIZE) {
        return zr_exchange_errno(x, "socket", (n == -EAGAIN) ? "no answer in time" : "recvmsg",
                                 (int)-n);
    }
    if (n == 0) {
        zr_exchange_note(x, "socket", "the exporter closed the connection");
        return -ECONNRESET;
    }
    whole = n == (ssize_t)sizeof(answer) && answer.magic == ZR_BROKER_MAGIC &&
            answer.status <= 0 && answer.status >= -ZR_MAX_ERRNO;
    if (whole && answer.status == 0 && got > 0) {
        *got_p = got; /* fewer than sent where this process has no room for more fds */
        return 0;
    }
    zr_local_close(fds, got);
    if (!whole) {
        zr_exchange_note(x, "socket", "the answer is not a broker's");
        return -EPROTO;
    }
    if (answer.status == -EACCES) {
        x->refused = true;
        zr_exchange_note(x, "socket", "the exporter refuses: not exported any more, or a wrong "
                                      "secret");
        return -EACCES;
    }
    return zr_exchange_errno(x, "socket", (answer.status == 0) ? "no fd received" : "exporter",
                             (answer.status == 0) ? EMFILE : -answer.status);
}

/* 0 or the errno */
static int zr_socket_send(struct zr_exchange *x, enum zr_broker_what what, unsigned first,
                          unsigned count, int flags)
{
    struct zr_broker_request request = {
        .magic     = ZR_BROKER_MAGIC,
        .version   = ZR_WIRE_VERSION,
        .what      = what,
        .export_id = x->handle.export_id,
        .first     = first,
        .count     = count,
    };
    uint64_t start = zr_time_ns();
    ssize_t  n;

    memcpy(request.secret, x->handle.secret, sizeof(request.secret));
    do {
        n = send(x->sock, &request, sizeof(request), MSG_NOSIGNAL | flags);
    } while (n < 0 && zr_exchange_again(start));
    return (n == (ssize_t)sizeof(request)) ? 0 : (n < 0) ? errno : EPIPE;
}

static int zr_socket_ask_once(struct zr_exchange *x, enum zr_broker_what what, unsigned first,
                              unsigned count, int *fds, unsigned *got_p)
{
    bool asked = x->ahead_count > 0, same = what == ZR_BROKER_OBJECTS && first == x->ahead_first &&
                                            count == x->ahead_count;
    int  error = 0, status;

    if (asked && !same) {
        error = EPIPE; /* the answer to come is to something else: a new connection */
    } else if (!asked) {
        error = zr_socket_send(x, what, first, count, 0);
    }
    x->ahead_count = 0;
    if (error != 0) {
        status = zr_exchange_errno(x, "socket", "send", error);
    } else {
        status = zr_socket_receive(x, fds, count, got_p);
    }
    if (status != 0) {
        zr_socket_close(x);
    }
    return status;
}

/* The broker drops who is silent for long, as an importer that was stopped for a while, and who it
 * has no place for: once more on a new connection before giving up. */
static int zr_socket_ask(struct zr_exchange *x, enum zr_broker_what what, unsigned first,
                         unsigned count, int *fds, unsigned *got_p)
{
    int status = zr_socket_ask_once(x, what, first, count, fds, got_p);

    if (status == -ECONNRESET || status == -EPIPE) {
        status = zr_socket_probe(x);
        if (status == 0) {
            status = zr_socket_ask_once(x, what, first, count, fds, got_p);
        }
    }
    if (status == 0) {
        x->peer = x->sock_peer;
    }
    return status;
}

static int zr_socket_lead(struct zr_exchange *x, int *fd_p)
{
    unsigned got;

    return zr_socket_ask(x, ZR_BROKER_LEAD, 0, 1, fd_p, &got);
}

static int zr_socket_objects(struct zr_exchange *x, unsigned first, unsigned count, int *fds,
                             unsigned *got_p)
{
    return zr_socket_ask(x, ZR_BROKER_OBJECTS, first, count, fds, got_p);
}

/* One question at a time, and only where the answer before it has been read: the broker keeps none
 * for who does not read. */
void zr_exchange_ahead(struct zr_exchange *x, unsigned first, unsigned count)
{
    if (x->sock >= 0 && x->ahead_count == 0 &&
        zr_socket_send(x, ZR_BROKER_OBJECTS, first, count, MSG_DONTWAIT) == 0) {
        x->ahead_first = first;
        x->ahead_count = count;
    }
}
/* ---- the list ---- */

static const struct zr_exchange_method zr_exchange_methods[] = {
    {"same process", zr_same_probe, zr_same_range, NULL, NULL},
    {"own copy", zr_own_probe, NULL, zr_own_lead, NULL},
    {"pidfd", zr_pidfd_probe, NULL, zr_pidfd_lead, zr_pidfd_objects},
    {"socket", zr_socket_probe, NULL, zr_socket_lead, zr_socket_objects},
    {"own copy", zr_own_table_probe, NULL, zr_own_table_lead, NULL},
};

void zr_exchange_init(struct zr_exchange *x, const struct zr_handle *handle)
{
    memset(x, 0, sizeof(*x));
    x->handle = *handle;
    x->pidfd = x->sock = -1;
}

void zr_exchange_fini(struct zr_exchange *x)
{
    zr_table_close(&x->table);
    zr_socket_close(x);
    if (x->pidfd >= 0) {
        close(x->pidfd);
    }
}

static ze_result_t zr_exchange_failed(struct zr_exchange *x, const char *what)
{
    ze_result_t result = ZE_RESULT_ERROR_UNKNOWN;

    if (x->refused) {
        result = ZE_RESULT_ERROR_INVALID_ARGUMENT;
    } else if (x->last_errno == EMFILE || x->last_errno == ENFILE || x->last_errno == ENOMEM) {
        result = ZE_RESULT_ERROR_OUT_OF_HOST_MEMORY;
    }
    return zr_fail(result, "export %llu of process %016llx (pid %u): no %s: %s",
                   (unsigned long long)x->handle.export_id,
                   (unsigned long long)x->handle.process_id, x->handle.pid, what, x->why);
}

/* What one call notes is of no interest once it succeeded. */
static void zr_exchange_begin(struct zr_exchange *x)
{
    x->why_used   = 0;
    x->why[0]     = '\0';
    x->last_errno = 0;
}

bool zr_exchange_range(struct zr_exchange *x, struct zr_range *range, size_t *lead_p,
                       ze_result_t *result_p)
{
    unsigned i;

    for (i = 0; i < ZR_ARRAY_SIZE(zr_exchange_methods); ++i) {
        const struct zr_exchange_method *method = &zr_exchange_methods[i];

        if (method->range != NULL && method->probe(x) == 0) {
            *result_p = method->range(x, range, lead_p);
            return true;
        }
    }
    return false;
}

ze_result_t zr_exchange_lead(struct zr_exchange *x, int *fd_p)
{
    unsigned i;
    int      fd;

    zr_exchange_begin(x);
    for (i = 0; i < ZR_ARRAY_SIZE(zr_exchange_methods); ++i) {
        const struct zr_exchange_method *method = &zr_exchange_methods[i];

        if (method->lead == NULL || method->probe(x) != 0 || method->lead(x, &fd) != 0) {
            continue;
        }
        if (zr_exchange_accept(x, method->name, fd)) {
            zr_debug("export %llu of pid %u: leading fd by %s%s%s",
                     (unsigned long long)x->handle.export_id, x->handle.pid, method->name,
                     (x->why_used > 0) ? "; " : "", x->why);
            *fd_p = fd;
            return ZE_RESULT_SUCCESS;
        }
        close(fd);
    }
    return zr_exchange_failed(x, "leading fd");
}

ze_result_t zr_exchange_objects(struct zr_exchange *x, unsigned first, unsigned count, int *fds,
                                unsigned *got_p)
{
    unsigned i;

    zr_exchange_begin(x);
    count = ZR_MIN(count, (unsigned)ZR_BROKER_MAX_FDS);
    for (i = 0; i < ZR_ARRAY_SIZE(zr_exchange_methods); ++i) {
        const struct zr_exchange_method *method = &zr_exchange_methods[i];

        if (method->objects != NULL && method->probe(x) == 0 &&
            method->objects(x, first, count, fds, got_p) == 0) {
            zr_debug("export %llu of pid %u: objects %u to %u by %s%s%s",
                     (unsigned long long)x->handle.export_id, x->handle.pid, first,
                     first + *got_p - 1, method->name, (x->why_used > 0) ? "; " : "", x->why);
            return ZE_RESULT_SUCCESS;
        }
    }
    return zr_exchange_failed(x, "objects");
}
