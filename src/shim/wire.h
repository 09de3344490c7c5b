/* Between a program under the shim and the device's server: SOCK_SEQPACKET messages with at most
 * two fds. Three kinds of connections, told apart by their first message:
 *   PROCESS  one a process; carries interrupts, and its end says that the process is gone
 *   CHANNEL  one a thread; requests and their replies, one at a time
 *   OPEN     what the program holds as the fd of a DRM file; nothing more is said on it, and the
 *            file is closed when the last copy of it is, in whatever process
 * A DRM file is named by the inode of the program's end of its socket. */
/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef ZR_SHIM_WIRE_H
#define ZR_SHIM_WIRE_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/socket.h>
#include <sys/un.h>

#define ZR_SHIM_PREFIX  "zr-i915d-" /* of the abstract socket name and of the tree's directory */
#define ZR_SHIM_MAX_FDS 2
#define ZR_SHIM_PRIMARY 0   /* minor of the first primary node */
#define ZR_SHIM_RENDER  128 /* minor of the first render node */
#define ZR_SHIM_SW_SYNC 1000 /* opened like a node: a timeline of sync/sw_sync */

enum zr_shim_op {
    ZR_SHIM_PROCESS,   /* reply a[0]: the process's id; then INTERRUPT without reply */
    ZR_SHIM_INTERRUPT, /* a[0]: channel id, a[1]: its sequence number */
    ZR_SHIM_CHANNEL,   /* a[0]: process id; reply a[0]: channel id, text: the tree's directory */
    ZR_SHIM_OPEN,      /* file, a[0]: minor, a[1]: capabilities */
    ZR_SHIM_IDENTIFY,  /* file; reply a[0]: minor, -ENOENT: no DRM file */
    ZR_SHIM_IOCTL,     /* file, a[0]: request, a[1]: argument in the caller's memory, a[2]: his
                          capabilities; an fd in the argument goes either way beside it, then reply
                          a[0]: its offset in the argument, a[1]: close-on-exec */
    ZR_SHIM_MMAP,      /* file, a[0]: offset, a[1]: length, a[2]: prot, a[3]: flags; reply: an fd,
                          a[0]: offset in it */
    ZR_SHIM_BUFFER,    /* ioctl on a dma-buf or a sync_file, fds[0]; a[0], a[1] as for IOCTL */
    ZR_SHIM_CONTROL,   /* file of debugfs written, or about to be read: a[0]: unit,
                          a[1]: enum zr_shim_control, a[2]: what is written */
    ZR_SHIM_COUNTER,   /* a[0]: unit, a[1]: config of the PMU; reply a[0]: its value */
};

enum zr_shim_control { ZR_SHIM_DROP_CACHES, ZR_SHIM_WEDGED, ZR_SHIM_OBJECTS };

struct zr_shim_message {
    uint32_t op, seq;
    int32_t  ret; /* of a reply: 0 or a negative errno */
    uint32_t num_fds;
    uint64_t file;
    uint64_t a[4];
    char     text[128];
};

/** @return 0 or a negative errno; a whole message or none */
int zr_shim_send(int socket, const struct zr_shim_message *message, const int *fds, unsigned count);
/** Fds that come along are the caller's, close-on-exec if @a cloexec. @return 0, -EPIPE when the
 * other end is gone, -EMFILE when fds came and could not be taken, or another negative errno */
int zr_shim_receive(int socket, struct zr_shim_message *message, int fds[ZR_SHIM_MAX_FDS],
                    bool cloexec);

/* The server of this environment: same user, same devices and knobs, same build. */
struct zr_shim_place {
    struct sockaddr_un address;
    socklen_t          length;
    char               name[64]; /* address without the leading zero byte */
};
/** @a build tells builds apart. */
void zr_shim_place_set(struct zr_shim_place *place, uint64_t build);
void zr_shim_place_named(struct zr_shim_place *place, const char *name);
/* What of the two ends of an argument is an fd: byte offset, -1: none. */
struct zr_shim_fd_rule {
    int in, out;
    bool cloexec;
};
/** For a DRM request with its argument; used by both ends. */
struct zr_shim_fd_rule zr_shim_fd_rule(unsigned long request, const void *argument);
/* For a request on a dma-buf or sync_file. */
struct zr_shim_fd_rule zr_shim_buffer_rule(unsigned long request);

#endif
