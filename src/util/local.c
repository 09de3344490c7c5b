/* Sockets between processes of one user: see local.h. */
/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE 1
#endif
#include "local.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <unistd.h>

union control {
    struct cmsghdr header;
    char           bytes[CMSG_SPACE(ZR_LOCAL_MAX_FDS * sizeof(int))];
};

socklen_t zr_local_address(const char *prefix, uint64_t number, struct sockaddr_un *address)
{
    int n;

    memset(address, 0, sizeof(*address));
    address->sun_family = AF_UNIX;
    n = snprintf(address->sun_path + 1, sizeof(address->sun_path) - 1, "%s%u-%016llx", prefix,
                 (unsigned)getuid(), (unsigned long long)number);
    return (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + (size_t)n);
}

int zr_local_listen(const char *prefix, uint64_t number, int backlog)
{
    struct sockaddr_un address;
    socklen_t          length = zr_local_address(prefix, number, &address);
    int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0), error;

    if (fd < 0) {
        return -errno;
    }
    if (bind(fd, (struct sockaddr *)&address, length) != 0 || listen(fd, backlog) != 0) {
        error = errno;
        close(fd);
        return -error;
    }
    return fd;
}

int zr_local_socket(unsigned timeout_s)
{
    const struct timeval limit = {.tv_sec = timeout_s};
    int                  fd    = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0), error;

    if (fd < 0) {
        return -errno;
    }
    if (setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &limit, sizeof(limit)) != 0 ||
        setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof(limit)) != 0) {
        error = errno;
        close(fd);
        return -error;
    }
    return fd;
}

bool zr_local_same_user(int fd, uint32_t *pid_p)
{
    struct ucred peer;
    socklen_t    length = sizeof(peer);

    if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &length) != 0 || length != sizeof(peer) ||
        peer.uid != getuid()) {
        return false;
    }
    if (pid_p != NULL) {
        *pid_p = (uint32_t)peer.pid;
    }
    return true;
}

int zr_local_send(int fd, const void *bytes, size_t size, const int *fds, unsigned count, int flags)
{
    struct iovec    iov = {(void *)(uintptr_t)bytes, size};
    union control   control;
    struct msghdr   msg = {.msg_iov = &iov, .msg_iovlen = 1};
    struct cmsghdr *cmsg;
    ssize_t         n;

    if (count > 0) {
        memset(&control, 0, sizeof(control));
        msg.msg_control    = &control;
        msg.msg_controllen = CMSG_SPACE(count * sizeof(int));
        cmsg               = CMSG_FIRSTHDR(&msg);
        cmsg->cmsg_level   = SOL_SOCKET;
        cmsg->cmsg_type    = SCM_RIGHTS;
        cmsg->cmsg_len     = CMSG_LEN(count * sizeof(int));
        memcpy(CMSG_DATA(cmsg), fds, count * sizeof(int));
    }
    do {
        n = sendmsg(fd, &msg, MSG_NOSIGNAL | flags);
    } while (n < 0 && errno == EINTR);
    return n < 0 ? -errno : 0;
}

/* ThreadSanitizer follows fds through close alone. */
#if defined(__SANITIZE_THREAD__)
#define RUNS 0
#elif defined(__has_feature)
#define RUNS !__has_feature(thread_sanitizer)
#else
#define RUNS 1
#endif

void zr_local_close(const int *fds, unsigned count)
{
    unsigned first, last;

    for (first = 0; first < count; first = last) {
        for (last = first + 1; last < count && fds[last] == fds[last - 1] + 1; last++) {
        }
        if (!RUNS || last - first < 2 || syscall(SYS_close_range, fds[first], fds[last - 1], 0) != 0) {
            for (unsigned i = first; i < last; ++i) {
                close(fds[i]);
            }
        }
    }
}

static unsigned take_fds(struct msghdr *msg, int *fds, unsigned max)
{
    struct cmsghdr *cmsg;
    unsigned        i, n, count = 0;
    int             fd;

    for (cmsg = CMSG_FIRSTHDR(msg); cmsg != NULL; cmsg = CMSG_NXTHDR(msg, cmsg)) {
        if (cmsg->cmsg_level != SOL_SOCKET || cmsg->cmsg_type != SCM_RIGHTS) {
            continue;
        }
        n = (unsigned)((cmsg->cmsg_len - CMSG_LEN(0)) / sizeof(int));
        for (i = 0; i < n; i++) {
            memcpy(&fd, CMSG_DATA(cmsg) + i * sizeof(int), sizeof(fd));
            if (count < max) {
                fds[count++] = fd;
            } else {
                close(fd);
            }
        }
    }
    return count;
}

ssize_t zr_local_receive(int fd, void *bytes, size_t room, int *fds, unsigned max,
                         unsigned *count_p, int flags)
{
    struct iovec  iov = {bytes, room};
    union control control;
    struct msghdr msg = {.msg_iov        = &iov,
                         .msg_iovlen     = 1,
                         .msg_control    = &control,
                         .msg_controllen = sizeof(control)};
    unsigned      count;
    ssize_t       n = recvmsg(fd, &msg, MSG_CMSG_CLOEXEC | flags);

    if (n < 0) {
        return -errno;
    }
    count = take_fds(&msg, fds, max);
    if (msg.msg_flags & MSG_TRUNC) {
        zr_local_close(fds, count);
        return -EMSGSIZE;
    }
    *count_p = count;
    return n;
}

int zr_local_thread(pthread_t *thread_p, void *(*run)(void *arg), void *arg)
{
    sigset_t all, old;
    int      error;

    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &old);
    error = pthread_create(thread_p, NULL, run, arg);
    pthread_sigmask(SIG_SETMASK, &old, NULL);
    return -error;
}
