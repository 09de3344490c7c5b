/* What leaves the process: the handle, the object table behind a range handle's fd, and what is
 * said on the broker's socket. docs/ipc.md draws them. All peers run on one machine: byte order
 * and alignment are the machine's. */
/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef ZR_IPC_WIRE_H
#define ZR_IPC_WIRE_H

#include <level_zero/ze_api.h>
#include <stdint.h>

#define ZR_WIRE_VERSION  1
#define ZR_SECRET_LENGTH 16

/* ---- the handle ---- */

enum zr_handle_kind {
    ZR_HANDLE_PLAIN = 'P', /* fd: the buffer itself */
    ZR_HANDLE_RANGE = 'R', /* fd: a memfd with the object table */
};

struct zr_handle {
    int32_t  fd; /* in the exporter, or a copy a client put here in its own process */
    uint8_t  kind;
    uint8_t  version;
    uint8_t  memory_type; /* plain: ze_memory_type_t; 0: not known */
    uint8_t  zero;
    uint64_t process_id; /* random; 0: made of an fd, the exporter is not known */
    uint32_t pid;        /* a hint: believed only after the table or the buffer is recognised */
    uint32_t device;     /* plain: device number of the buffer's inode */
    uint64_t export_id;
    uint8_t  secret[ZR_SECRET_LENGTH];
    uint64_t size;  /* plain: bytes */
    uint64_t inode; /* plain: with device, the buffer's identity; zr_inode_here */
};
_Static_assert(sizeof(struct zr_handle) == ZE_MAX_IPC_HANDLE_SIZE, "a handle is 64 bytes");

/* ---- the object table ---- */

#define ZR_TABLE_MAGIC 0x5a52544cu
#define ZR_TABLE_MAX   (1u << 22) /* entries */

struct zr_table_header {
    uint32_t magic, version;
    uint32_t count; /* entries that follow */
    uint32_t entry_size;
    uint64_t length; /* of the range: sum of the entries' lengths */
    uint32_t lead;   /* bytes from a page boundary to the range's first byte */
    uint32_t pid;
    uint64_t process_id, export_id;
    uint64_t start_time;    /* of the exporter, in clock ticks since boot */
    uint64_t pid_namespace; /* inode of the namespace pid counts in */
    uint8_t  system_id[16]; /* of this boot of this machine */
    uint8_t  secret[ZR_SECRET_LENGTH]; /* who was given the fd may ask for the objects */
};

#define ZR_ENTRY_DEVICE_LOCAL 1u

struct zr_table_entry {
    uint64_t object_id; /* unique in the exporter */
    uint64_t size;      /* of the whole object */
    uint64_t offset, length;
    uint64_t inode; /* of the buffer at fd, 0 without */
    uint32_t device;
    uint32_t flags;
    int32_t  fd; /* kept open in the exporter for pidfd_getfd, or -1 */
    uint32_t zero;
};

/* ---- the broker: one SOCK_SEQPACKET packet each way ---- */

#define ZR_BROKER_MAGIC   0x5a524252u
#define ZR_BROKER_MAX_FDS 253 /* SCM_MAX_FD of the kernel */

enum zr_broker_what { ZR_BROKER_LEAD = 1, ZR_BROKER_OBJECTS = 2 };

struct zr_broker_request {
    uint32_t magic, version;
    uint32_t what;
    uint32_t zero;
    uint64_t export_id;
    uint8_t  secret[ZR_SECRET_LENGTH];
    uint32_t first, count; /* objects by their place in the table */
};

struct zr_broker_answer {
    uint32_t magic;
    int32_t  status; /* 0 or -errno */
    uint32_t count;  /* fds attached, at most what was asked for */
    uint32_t zero;
};

#endif
