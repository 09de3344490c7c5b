/* Two processes of a test that talk over a socket. Needs CHECK(condition) of the test. */
/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef ZR_TEST_TALK_H
#define ZR_TEST_TALK_H

#include <sys/socket.h>

static inline void say(int sock, const void *data, size_t size)
{
    CHECK(send(sock, data, size, MSG_NOSIGNAL) == (ssize_t)size);
}

static inline void hear(int sock, void *data, size_t size)
{
    CHECK(recv(sock, data, size, MSG_WAITALL) == (ssize_t)size);
}

static inline void meet(int sock)
{
    char c = 'x';

    say(sock, &c, 1);
    hear(sock, &c, 1);
}

#endif
