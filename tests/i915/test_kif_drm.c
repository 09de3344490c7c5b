/* The kernel interface over a real node, with the system calls below it answered by the test:
 * signals and busy moments at any of them change nothing. */
/* SPDX-License-Identifier: BSD-3-Clause */
#include "i915/kif.h"
#include "util/util.h"

#include <drm.h>
#include <errno.h>
#include <fcntl.h>
#include <i915_drm.h>
#include <poll.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

static unsigned bad;

#define CHECK(cond, ...)                                                                      \
    do {                                                                                      \
        if (!(cond)) {                                                                        \
            printf("%s:%d: not true: %s; ", __func__, __LINE__, #cond);                       \
            printf(__VA_ARGS__);                                                              \
            printf("\n");                                                                     \
            bad++;                                                                            \
        }                                                                                     \
    } while (0)

/* ---- the system below: answers in order, then success ---- */

static struct {
    const int *answer; /* errno of each call, 0 ends the list */
    int        calls, flags, revents, ready;
    int        timeout[8]; /* of each poll */
} sys;

static int next_answer(void)
{
    int error = sys.answer != NULL ? sys.answer[sys.calls] : 0;

    sys.calls++;
    if (error == 0) {
        sys.answer = NULL;
        return 0;
    }
    errno = error;
    return -1;
}

/* Seen by libdrm, which drmIoctl is in. */
__attribute__((visibility("default"))) int ioctl(int fd, unsigned long request, ...)
{
    (void)fd, (void)request;
    return next_answer();
}

int poll(struct pollfd *fds, nfds_t n, int timeout)
{
    int ret;

    (void)n;
    if (sys.calls < 8) {
        sys.timeout[sys.calls] = timeout;
    }
    ret            = next_answer();
    fds[0].revents = (short)sys.revents;
    return ret != 0 ? ret : sys.ready;
}

int open(const char *path, int flags, ...)
{
    sys.flags = flags;
    return next_answer() != 0 ? -1 : (int)syscall(SYS_openat, AT_FDCWD, path, flags, 0);
}

static const int none[] = {0};
static const int interrupted[] = {EINTR, EINTR, EAGAIN, EINTR, EAGAIN, 0};
static const int no_memory[] = {EINTR, ENOMEM, 0};

static const struct {
    const char *what;
    const int  *answer;
    int         ret, calls;
} ioctls[] = {
    {"at once", none, 0, 1},
    {"signals and EAGAIN", interrupted, 0, 6},
    {"an error after a signal", no_memory, -ENOMEM, 2},
};

static const struct {
    const char *what;
    const int  *answer;
    int         timeout, ready, revents, ret, calls;
} polls[] = {
    {"ready", none, 1000, 1, POLLIN, 1, 1},
    {"signals", interrupted, 1000, 1, POLLIN, 1, 6},
    {"signals, no limit", interrupted, -1, 1, POLLIN, 1, 6},
    {"signals, no wait", interrupted, 0, 0, 0, 0, 6},
    {"over", interrupted, 50, 0, 0, 0, 6},
    {"an error", no_memory, 1000, 0, 0, -ENOMEM, 2},
    {"no such fd", none, 1000, 1, POLLNVAL, -EBADF, 1},
};

static void test_open(const struct zr_kif *kif, struct zr_kfile **file_p)
{
    struct zr_kif_node node = {.path = "/dev/null"};
    int                ret;

    sys.answer = interrupted + 3; /* EINTR, then EAGAIN: not retried, open(2) does not mean it so */
    sys.calls  = 0;
    ret        = kif->open(&node, file_p);
    CHECK(ret == -EAGAIN && sys.calls == 2, "%d after %d calls", ret, sys.calls);
    sys.answer = (const int[]){EINTR, EINTR, 0};
    sys.calls  = 0;
    ret        = kif->open(&node, file_p);
    CHECK(ret == 0 && sys.calls == 3, "%d after %d calls", ret, sys.calls);
    CHECK((sys.flags & O_ACCMODE) == O_RDWR && (sys.flags & O_CLOEXEC) != 0, "0x%x", sys.flags);
    CHECK((sys.flags & O_NONBLOCK) != 0, "an execbuf blocks in a full ring: 0x%x", sys.flags);
}

int main(void)
{
    const struct zr_kif *kif  = zr_drm_kif();
    struct zr_kfile     *file = NULL;
    unsigned             i;
    int                  ret, k;

    test_open(kif, &file);
    if (file == NULL) {
        return 1;
    }
    for (i = 0; i < ZR_ARRAY_SIZE(ioctls); i++) {
        sys.answer = ioctls[i].answer;
        sys.calls  = 0;
        ret        = kif->ioctl(file, DRM_IOCTL_GEM_CLOSE, &(struct drm_gem_close){0});
        CHECK(ret == ioctls[i].ret && sys.calls == ioctls[i].calls, "%s: %d after %d calls",
              ioctls[i].what, ret, sys.calls);
    }
    for (i = 0; i < ZR_ARRAY_SIZE(polls); i++) {
        sys.answer  = polls[i].answer;
        sys.calls   = 0;
        sys.ready   = polls[i].ready;
        sys.revents = polls[i].revents;
        ret         = kif->poll(0, polls[i].timeout);
        CHECK(ret == polls[i].ret && sys.calls == polls[i].calls, "%s: %d after %d calls",
              polls[i].what, ret, sys.calls);
        for (k = 0; k < ZR_MIN(sys.calls, 8); k++) {
            CHECK(polls[i].timeout <= 0 ? sys.timeout[k] == polls[i].timeout :
                                          sys.timeout[k] >= 0 &&
                                              sys.timeout[k] <= polls[i].timeout,
                  "%s: call %d waits %d ms", polls[i].what, k, sys.timeout[k]);
        }
    }
    sys.answer = interrupted; /* of an execbuf EAGAIN is told: the ring is full */
    sys.calls  = 0;
    ret        = kif->ioctl(file, DRM_IOCTL_I915_GEM_EXECBUFFER2,
                            &(struct drm_i915_gem_execbuffer2){0});
    CHECK(ret == -EAGAIN && sys.calls == 3, "a full ring: %d after %d calls", ret, sys.calls);
    kif->close(file);
    printf("%zu ioctls, %zu polls, %u wrong\n", ZR_ARRAY_SIZE(ioctls), ZR_ARRAY_SIZE(polls), bad);
    return bad != 0;
}
