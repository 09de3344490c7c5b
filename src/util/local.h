/* Sockets between processes of one user on one machine: abstract names that end in a number, packets,
 * and fds beside them. Linked into the driver and into the UCX transport. */
/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef ZR_UTIL_LOCAL_H
#define ZR_UTIL_LOCAL_H

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/socket.h>
#include <sys/types.h>
#include <sys/un.h>

#define ZR_LOCAL_MAX_FDS 253 /* of one packet, the kernel's limit */

/** The address PREFIX<uid>-<16 hex digits of @a number>. @return its length in bytes */
socklen_t zr_local_address(const char *prefix, uint64_t number, struct sockaddr_un *address);

/** @return a listening socket that does not block, or -errno */
int zr_local_listen(const char *prefix, uint64_t number, int backlog);

/** @param timeout_s  seconds that a send or a receive may take
 * @return a socket to connect, or -errno */
int zr_local_socket(unsigned timeout_s);

/** True if the process at the other end of a connected socket belongs to our user. *pid_p (may be
 * NULL): what the kernel says its pid is here, 0 if it has none in our pid namespace. */
bool zr_local_same_user(int fd, uint32_t *pid_p);

/** One packet. @param flags of send(2) beside MSG_NOSIGNAL. @return 0 or -errno, never -EINTR */
int zr_local_send(int fd, const void *bytes, size_t size, const int *fds, unsigned count,
                  int flags);

/** One packet. @param fds  room for @a max of what comes along, the caller's then; more is closed
 * @return its bytes, 0 at the end of the connection, -errno (-EMSGSIZE: it is longer than @a room);
 * below 0 no fd is given */
ssize_t zr_local_receive(int fd, void *bytes, size_t room, int *fds, unsigned max,
                         unsigned *count_p, int flags);

/** Close them all; what has numbers in a row by one call. */
void zr_local_close(const int *fds, unsigned count);

/** A thread that gets none of the application's signals. @return 0 or -errno */
int zr_local_thread(pthread_t *thread_p, void *(*run)(void *arg), void *arg);

#endif
