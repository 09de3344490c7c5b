/* Inside the link: one message of it on a socket, and a question with its answer. */
/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef ZR_PLUGIN_LINK_MESSAGE_H
#define ZR_PLUGIN_LINK_MESSAGE_H

#include "link.h"

#include <stddef.h>
#include <sys/types.h>

#define ZR_LINK_HEADER offsetof(struct zr_link_message, u)

/** @return bytes, 0 at the end, -errno. Fds that come along are the caller's, *count_p of them. */
ssize_t zr_link_receive(int fd, struct zr_link_message *message, int *fds, unsigned *count_p,
                        int flags);

/** @return -errno, or a socket whose other end belongs to this user. */
int zr_link_connect(uint64_t number);

/** As zr_link_ask, on a connection that is there. */
int zr_link_ask_on(int fd, const struct zr_link_message *request, struct zr_link_message *answer,
                   int *fds);

#endif
