/* Messages of the link: see link_message.h. */
/* SPDX-License-Identifier: BSD-3-Clause */
#include "link_message.h"

#include "util/local.h"

#include <errno.h>
#include <sys/socket.h>
#include <unistd.h>

#define ASK_TIMEOUT_S 5
#define MAX_ERRNO     4095 /* of the kernel */

ssize_t zr_link_receive(int fd, struct zr_link_message *message, int *fds, unsigned *count_p,
                        int flags)
{
    ssize_t n;

    do {
        n = zr_local_receive(fd, message, sizeof(*message), fds, ZR_LINK_PIECES_MAX, count_p,
                             flags);
    } while (n == -EINTR);
    if (n > 0 && (n < (ssize_t)ZR_LINK_HEADER || message->magic != ZR_LINK_MAGIC ||
                  message->version != ZR_LINK_VERSION)) {
        zr_local_close(fds, *count_p);
        return -EPROTO;
    }
    return n;
}

int zr_link_connect(uint64_t number)
{
    struct sockaddr_un address;
    socklen_t          length = zr_local_address(ZR_LINK_PREFIX, number, &address);
    int                fd     = zr_local_socket(ASK_TIMEOUT_S), error;

    if (fd < 0) {
        return fd;
    }
    if (connect(fd, (struct sockaddr *)&address, length) != 0) {
        error = errno;
    } else if (!zr_local_same_user(fd, NULL)) {
        error = EACCES;
    } else {
        return fd;
    }
    close(fd);
    return -error;
}

int zr_link_ask_on(int fd, const struct zr_link_message *request, struct zr_link_message *answer,
                   int *fds)
{
    int      got[ZR_LINK_PIECES_MAX];
    unsigned count = 0, k, used = 0;
    ssize_t  n;
    int      ret = zr_local_send(fd, request, ZR_LINK_HEADER, NULL, 0, 0);

    if (ret != 0) {
        return ret;
    }
    n = zr_link_receive(fd, answer, got, &count, 0);
    if (n == 0) {
        return -ECONNRESET;
    }
    if (n < 0) {
        return (int)n;
    }
    ret = answer->status;
    if (ret > 0 || ret < -MAX_ERRNO || answer->what != request->what ||
        answer->count > ZR_LINK_PIECES_MAX ||
        (answer->what == ZR_LINK_PIECES && answer->status == 0 &&
         n < (ssize_t)(ZR_LINK_HEADER + answer->count * sizeof(struct zr_piece)))) {
        ret = -EPROTO;
    }
    for (k = 0; ret == 0 && fds != NULL && k < answer->count; k++) {
        bool has_fd = answer->u.pieces[k].has_fd != 0;

        if (has_fd && used == count) {
            ret = -EMFILE; /* this process had no room for it */
        }
        fds[k] = has_fd && used < count ? got[used++] : -1;
    }
    if (ret != 0 || fds == NULL) {
        used = 0;
    }
    zr_local_close(got + used, count - used);
    return ret;
}

int zr_link_ask(uint64_t number, const struct zr_link_message *request,
                struct zr_link_message *answer, int *fds)
{
    int fd = number != 0 ? zr_link_connect(number) : -ENOTCONN, ret;

    if (fd < 0) {
        return fd;
    }
    ret = zr_link_ask_on(fd, request, answer, fds);
    close(fd);
    return ret;
}
