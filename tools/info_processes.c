/* zerange-info: the counters of running processes. Each process that shares device memory listens on
 * a socket (ucx-plugin/link.h) whose name /proc/net/unix lists. */
/* SPDX-License-Identifier: BSD-3-Clause */
#include "info.h"

#ifdef HAVE_UCX
#include "link.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/un.h>
#include <unistd.h>

/* Anybody may listen under any name: what another user says is not a process of ours. */
static bool is_ours(int fd)
{
    struct ucred peer;
    socklen_t    length = sizeof(peer);

    return getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &length) == 0 &&
           length == sizeof(peer) && peer.uid == getuid();
}

/* @a name is abstract: without its leading 0. @return 0 or -errno */
static int ask(const char *name, struct zr_link_message *answer)
{
    const struct zr_link_message request = {.magic   = ZR_LINK_MAGIC,
                                            .version = ZR_LINK_VERSION,
                                            .what    = ZR_LINK_STATS};
    const struct timeval         limit   = {.tv_sec = 2};
    struct sockaddr_un           address = {.sun_family = AF_UNIX};
    size_t                       length  = strlen(name);
    ssize_t                      n;
    int                          fd, ret = 0;

    if (length + 1 > sizeof(address.sun_path)) {
        return -EINVAL;
    }
    memcpy(address.sun_path + 1, name, length);
    fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
    if (fd < 0) {
        return -errno;
    }
    setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &limit, sizeof(limit));
    setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof(limit));
    if (connect(fd, (struct sockaddr *)&address,
                (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + length)) != 0) {
        ret = -errno;
    } else if (!is_ours(fd)) {
        ret = -EACCES;
    } else if (send(fd, &request, offsetof(struct zr_link_message, u), MSG_NOSIGNAL) < 0) {
        ret = -errno;
    } else {
        n = recv(fd, answer, sizeof(*answer), 0);
        if (n < (ssize_t)(offsetof(struct zr_link_message, u) + sizeof(answer->u.stats)) ||
            answer->magic != ZR_LINK_MAGIC || answer->version != ZR_LINK_VERSION) {
            ret = n < 0 ? -errno : -EPROTO;
        }
    }
    close(fd);
    return ret;
}

static void show(const char *what, const struct zr_rcache_stats *s)
{
    info_line(what,
              "%llu regions, %llu MiB; %llu hits, %llu misses, %llu evictions, %llu "
              "invalidations, %llu failures; %.3f ms in opening",
              (unsigned long long)s->regions, (unsigned long long)s->bytes >> 20,
              (unsigned long long)s->hits, (unsigned long long)s->misses,
              (unsigned long long)s->evictions, (unsigned long long)s->invalidations,
              (unsigned long long)s->failures, 1e-6 * (double)s->open_ns);
}

unsigned info_processes(void)
{
    static struct zr_link_message answer;
    char                          prefix[64], line[512], *name;
    unsigned                      count = 0;
    FILE                         *file  = fopen("/proc/net/unix", "re");

    info_title("Processes of this user that use the transport");
    snprintf(prefix, sizeof(prefix), "@" ZR_LINK_PREFIX "%u-", (unsigned)getuid());
    while (file != NULL && fgets(line, sizeof(line), file) != NULL) {
        line[strcspn(line, "\n")] = '\0';
        name                      = strstr(line, prefix);
        /* Connections of the listener have its name too; flags tell who listens. */
        if (name == NULL || strstr(line, " 00010000 ") == NULL || ask(name + 1, &answer) != 0) {
            continue;
        }
        answer.u.stats.program[sizeof(answer.u.stats.program) - 1] = '\0';
        info_line("process", "%llu (%s)", (unsigned long long)answer.u.stats.pid,
                  answer.u.stats.program);
        show("  exports", &answer.u.stats.exports);
        show("  imports", &answer.u.stats.imports);
        count++;
    }
    if (file != NULL) {
        fclose(file);
    }
    if (count == 0) {
        info_line("processes", "none");
    }
    return count;
}
#else
unsigned info_processes(void)
{
    return 0;
}
#endif
