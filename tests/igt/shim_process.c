/* What a server and a real fd are for: a child shares the file it inherited, a new process opens one
 * that was sent, a killed client leaves its buffer to who imported it, and ioctls know bad pointers. */
/* SPDX-License-Identifier: BSD-3-Clause */
#include <drm.h>
#include <errno.h>
#include <fcntl.h>
#include <i915_drm.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#define REQUIRE(what)                                                                         \
    do {                                                                                      \
        if (!(what)) {                                                                        \
            fprintf(stderr, "%s:%d: not so: %s (%s)\n", __FILE__, __LINE__, #what,            \
                    strerror(errno));                                                         \
            exit(1);                                                                          \
        }                                                                                     \
    } while (0)

static uint32_t create(int drm)
{
    struct drm_i915_gem_create args = {.size = 65536};

    REQUIRE(ioctl(drm, DRM_IOCTL_I915_GEM_CREATE, &args) == 0);
    return args.handle;
}

static uint32_t *map(int drm, uint32_t handle)
{
    struct drm_i915_gem_mmap_offset args = {.handle = handle, .flags = I915_MMAP_OFFSET_FIXED};
    void                           *at;

    REQUIRE(ioctl(drm, DRM_IOCTL_I915_GEM_MMAP_OFFSET, &args) == 0);
    at = mmap(NULL, 65536, PROT_READ | PROT_WRITE, MAP_SHARED, drm, (off_t)args.offset);
    REQUIRE(at != MAP_FAILED);
    return at;
}

static void wait_for(pid_t child)
{
    int status;

    REQUIRE(waitpid(child, &status, 0) == child && status == 0);
}

/* The handle of the parent is the child's: one file. */
static void inherited(int drm)
{
    uint32_t handle = create(drm);
    uint32_t *cpu   = map(drm, handle);
    pid_t     child = fork();

    if (child == 0) {
        map(drm, handle)[5] = 0x1234;
        exit(0);
    }
    wait_for(child);
    REQUIRE(cpu[5] == 0x1234);
}

/* After exec the fd still is the file. */
static void executed(int drm, const char *self)
{
    char  fd[16], handle[16];
    pid_t child;
    int   kept = dup(drm);

    snprintf(fd, sizeof(fd), "%d", kept);
    snprintf(handle, sizeof(handle), "%u", create(drm));
    child = fork();
    if (child == 0) {
        execl(self, self, fd, handle, (char *)NULL);
        _exit(127);
    }
    wait_for(child);
    close(kept);
}

/* Its exporter is killed; the buffer stays what it was. */
static void killed(void)
{
    int      sockets[2], fd, drm;
    uint32_t handle;
    pid_t    child;
    struct drm_prime_handle prime = {.flags = DRM_CLOEXEC | DRM_RDWR};
    char     space[CMSG_SPACE(sizeof(int))] = {0}, byte = 0;
    struct iovec   iov = {&byte, 1};
    struct msghdr  msg = {.msg_iov = &iov, .msg_iovlen = 1, .msg_control = space,
                          .msg_controllen = sizeof(space)};

    REQUIRE(socketpair(AF_UNIX, SOCK_STREAM, 0, sockets) == 0);
    child = fork();
    if (child == 0) {
        drm             = open("/dev/dri/renderD128", O_RDWR);
        handle          = create(drm);
        map(drm, handle)[7] = 0xabcd;
        prime.handle    = handle;
        REQUIRE(ioctl(drm, DRM_IOCTL_PRIME_HANDLE_TO_FD, &prime) == 0);
        CMSG_FIRSTHDR(&msg)->cmsg_level = SOL_SOCKET;
        CMSG_FIRSTHDR(&msg)->cmsg_type  = SCM_RIGHTS;
        CMSG_FIRSTHDR(&msg)->cmsg_len   = CMSG_LEN(sizeof(int));
        memcpy(CMSG_DATA(CMSG_FIRSTHDR(&msg)), &prime.fd, sizeof(int));
        REQUIRE(sendmsg(sockets[1], &msg, 0) == 1);
        pause();
        exit(1);
    }
    REQUIRE(recvmsg(sockets[0], &msg, 0) == 1);
    memcpy(&fd, CMSG_DATA(CMSG_FIRSTHDR(&msg)), sizeof(fd));
    kill(child, SIGKILL);
    waitpid(child, NULL, 0);
    drm      = open("/dev/dri/renderD128", O_RDWR);
    prime.fd = fd;
    REQUIRE(ioctl(drm, DRM_IOCTL_PRIME_FD_TO_HANDLE, &prime) == 0);
    REQUIRE(map(drm, prime.handle)[7] == 0xabcd);
    close(drm);
    close(fd);
}

static void pointers(int drm)
{
    struct drm_i915_getparam param = {.param = I915_PARAM_CHIPSET_ID, .value = (int *)8};

    errno = 0;
    REQUIRE(ioctl(drm, DRM_IOCTL_I915_GETPARAM, &param) == -1 && errno == EFAULT);
    errno = 0;
    REQUIRE(ioctl(drm, DRM_IOCTL_I915_GETPARAM, (void *)16) == -1 && errno == EFAULT);
}

int main(int argc, char **argv)
{
    int drm;

    if (argc == 3) { /* the program that executed() runs */
        REQUIRE(map(atoi(argv[1]), (uint32_t)atoi(argv[2])) != NULL);
        return 0;
    }
    drm = open("/dev/dri/renderD128", O_RDWR | O_CLOEXEC);
    REQUIRE(drm >= 0);
    inherited(drm);
    executed(drm, argv[0]);
    killed();
    pointers(drm);
    return 0;
}
