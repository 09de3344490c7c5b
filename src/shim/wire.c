/* Messages with fds, where the server of this environment is, and which arguments carry fds. */
/* SPDX-License-Identifier: BSD-3-Clause */
#include "wire.h"

#include <drm.h>
#include <errno.h>
#include <fcntl.h>
#include <i915_drm.h>
#include <linux/dma-buf.h>
#include <linux/sync_file.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

extern char **environ;

int zr_shim_send(int socket, const struct zr_shim_message *message, const int *fds, unsigned count)
{
    char            space[CMSG_SPACE(ZR_SHIM_MAX_FDS * sizeof(int))] = {0};
    struct iovec    iov = {(void *)(uintptr_t)message, sizeof(*message)};
    struct msghdr   msg = {.msg_iov = &iov, .msg_iovlen = 1};
    struct cmsghdr *head;
    ssize_t         sent;

    if (count > 0) {
        msg.msg_control    = space;
        msg.msg_controllen = CMSG_SPACE(count * sizeof(int));
        head               = CMSG_FIRSTHDR(&msg);
        head->cmsg_level   = SOL_SOCKET;
        head->cmsg_type    = SCM_RIGHTS;
        head->cmsg_len     = CMSG_LEN(count * sizeof(int));
        memcpy(CMSG_DATA(head), fds, count * sizeof(int));
    }
    do {
        sent = sendmsg(socket, &msg, MSG_NOSIGNAL);
    } while (sent < 0 && errno == EINTR);
    return sent < 0 ? -errno : 0;
}

int zr_shim_receive(int socket, struct zr_shim_message *message, int fds[ZR_SHIM_MAX_FDS],
                    bool cloexec)
{
    char            space[CMSG_SPACE(ZR_SHIM_MAX_FDS * sizeof(int))];
    struct iovec    iov = {message, sizeof(*message)};
    struct msghdr   msg = {.msg_iov = &iov, .msg_iovlen = 1, .msg_control = space,
                           .msg_controllen = sizeof(space)};
    struct cmsghdr *head;
    unsigned        count = 0, i;
    ssize_t         got;

    got = recvmsg(socket, &msg, cloexec ? MSG_CMSG_CLOEXEC : 0);
    if (got < 0) {
        return errno == ECONNRESET ? -EPIPE : -errno;
    }
    for (head = CMSG_FIRSTHDR(&msg); head != NULL; head = CMSG_NXTHDR(&msg, head)) {
        if (head->cmsg_level == SOL_SOCKET && head->cmsg_type == SCM_RIGHTS) {
            count = (head->cmsg_len - CMSG_LEN(0)) / sizeof(int);
            memcpy(fds, CMSG_DATA(head), count * sizeof(int));
        }
    }
    if (got == (ssize_t)sizeof(*message) && !(msg.msg_flags & MSG_CTRUNC)) {
        message->num_fds = count;
        return 0;
    }
    for (i = 0; i < count; i++) {
        close(fds[i]);
    }
    message->num_fds = 0;
    return got == 0 ? -EPIPE : got != (ssize_t)sizeof(*message) ? -EPROTO : -EMFILE;
}

void zr_shim_place_named(struct zr_shim_place *place, const char *name)
{
    memset(place, 0, sizeof(*place));
    snprintf(place->name, sizeof(place->name), "%s", name);
    place->address.sun_family = AF_UNIX;
    memcpy(place->address.sun_path + 1, place->name, strlen(place->name));
    place->length = offsetof(struct sockaddr_un, sun_path) + 1 + strlen(place->name);
}

static uint64_t zr_shim_hash(uint64_t hash, const char *text)
{
    for (; *text != '\0'; text++) {
        hash = (hash ^ (uint8_t)*text) * UINT64_C(0x100000001b3);
    }
    return hash;
}

void zr_shim_place_set(struct zr_shim_place *place, uint64_t build)
{
    static const char *const prefixes[] = {"ZERANGE_SOFT", "ZERANGE_PROFILES=",
                                           "ZERANGE_SHIM_NAME="};
    uint64_t                 hash       = build;
    char                     name[64];
    char                   **env;
    unsigned                 i;

    /* A sum: the order of the environment does not matter. */
    for (env = environ; env != NULL && *env != NULL; env++) {
        for (i = 0; i < sizeof(prefixes) / sizeof(prefixes[0]); i++) {
            if (strncmp(*env, prefixes[i], strlen(prefixes[i])) == 0) {
                hash += zr_shim_hash(UINT64_C(0xcbf29ce484222325), *env);
            }
        }
    }
    snprintf(name, sizeof(name), ZR_SHIM_PREFIX "%u-%016llx", (unsigned)getuid(),
             (unsigned long long)hash);
    zr_shim_place_named(place, name);
}

struct zr_shim_fd_rule zr_shim_fd_rule(unsigned long request, const void *argument)
{
    const struct drm_prime_handle        *prime = argument;
    const struct drm_i915_gem_execbuffer2 *exec = argument;
    struct zr_shim_fd_rule                rule  = {-1, -1, true};

    switch (_IOC_NR(request)) {
    case _IOC_NR(DRM_IOCTL_PRIME_HANDLE_TO_FD):
        rule.out     = offsetof(struct drm_prime_handle, fd);
        rule.cloexec = prime->flags & DRM_CLOEXEC;
        break;
    case _IOC_NR(DRM_IOCTL_PRIME_FD_TO_HANDLE):
        rule.in = offsetof(struct drm_prime_handle, fd);
        break;
    case _IOC_NR(DRM_IOCTL_SYNCOBJ_HANDLE_TO_FD):
        rule.out = offsetof(struct drm_syncobj_handle, fd);
        break;
    case _IOC_NR(DRM_IOCTL_SYNCOBJ_FD_TO_HANDLE):
        rule.in = offsetof(struct drm_syncobj_handle, fd);
        break;
#ifdef DRM_IOCTL_SYNCOBJ_EVENTFD
    case _IOC_NR(DRM_IOCTL_SYNCOBJ_EVENTFD):
        rule.in = offsetof(struct drm_syncobj_eventfd, fd);
        break;
#endif
    case DRM_COMMAND_BASE + DRM_I915_GEM_EXECBUFFER2:
        if (exec->flags & (I915_EXEC_FENCE_IN | I915_EXEC_FENCE_SUBMIT)) {
            rule.in = offsetof(struct drm_i915_gem_execbuffer2, rsvd2);
        }
        if (exec->flags & I915_EXEC_FENCE_OUT) {
            rule.out = offsetof(struct drm_i915_gem_execbuffer2, rsvd2) + 4;
        }
        break;
    default:
        break;
    }
    return rule;
}

struct zr_shim_fd_rule zr_shim_buffer_rule(unsigned long request)
{
    struct zr_shim_fd_rule rule = {-1, -1, true};

    switch (request) {
    case SYNC_IOC_MERGE:
        rule.in  = offsetof(struct sync_merge_data, fd2);
        rule.out = offsetof(struct sync_merge_data, fence);
        break;
    case DMA_BUF_IOCTL_IMPORT_SYNC_FILE:
        rule.in = offsetof(struct dma_buf_import_sync_file, fd);
        break;
    case DMA_BUF_IOCTL_EXPORT_SYNC_FILE:
        rule.out = offsetof(struct dma_buf_export_sync_file, fd);
        break;
    default:
        break;
    }
    return rule;
}
