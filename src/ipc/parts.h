/* Inside src/ipc: the parts and what they tell each other.
 *
 * Lock order: exports (export.c), then identity, then broker life, then broker connections; the
 * imports' lock (import.c) stands alone. None is held over a system call that waits for a peer.
 */
/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef ZR_IPC_PARTS_H
#define ZR_IPC_PARTS_H

#include "hmap.h"
#include "ipc.h"
#include "wire.h"

#include "util/local.h"

/* ---- identity.c ---- */

struct zr_identity {
    uint64_t process_id; /* random, never 0; a forked child has its own */
    uint32_t pid;
    uint64_t start_time, pid_namespace;
    uint8_t  system_id[16];
};

/* The calling process. */
struct zr_identity zr_identity(void);
/* Start time of @a pid in clock ticks since boot; 0 if it cannot be read. */
uint64_t zr_start_time(uint32_t pid);
/* An inode's number as a plain handle carries it: mixed with the system id, for another machine may
 * have a buffer of the same number under the same fd of the same pid. */
uint64_t zr_inode_here(uint64_t inode);
/* Compare in a time that does not depend on where they differ. */
bool zr_secret_equal(const uint8_t *a, const uint8_t *b);
/* A process's broker socket has the name of this and its id. An abstract name has no file
 * permissions: anybody may connect to it, or have taken it first. So both sides ask the kernel for the
 * other's user (zr_local_same_user) before anything secret is sent or served; the name only has to be
 * hard to hit by accident. */
#define ZR_BROKER_PREFIX "zerange-"
static inline socklen_t zr_broker_address(uint64_t process_id, struct sockaddr_un *address)
{
    return zr_local_address(ZR_BROKER_PREFIX, process_id, address);
}

/* ---- table.c ---- */

/* A checked table; header and entries point into a private mapping. */
struct zr_table {
    const struct zr_table_header *header;
    const struct zr_table_entry  *entries;
    size_t                        size;
};

struct zr_export;

/* The sealed memfd of an export whose handle, range and fds are filled in. 0 or -errno. */
int zr_table_create(const struct zr_export *export, int *fd_p);
/* NULL, or what is wrong with @a size bytes of table at @a data. */
const char *zr_table_check(const void *data, size_t size);
/* Map and check; @a fd stays the caller's. NULL, or what is wrong. */
const char *zr_table_open(int fd, struct zr_table *table);
void zr_table_close(struct zr_table *table);

/* ---- export.c ---- */

struct zr_export {
    struct zr_hnode  by_key, by_id;
    atomic_uint      refs;    /* of the tables below and of each user */
    unsigned         handles; /* given out and not put; guarded by the exports' lock */
    const void      *ptr;
    uint64_t         size, generation;
    void            *owner;
    uint32_t         lead;
    struct zr_handle handle;
    struct zr_range  range;
    int             *fds; /* of the objects, for pidfd_getfd; NULL: made when asked for */
    unsigned         fd_count;
};

/* The export with this id and secret, with a reference; NULL if there is none. */
struct zr_export *zr_export_find(uint64_t export_id, const uint8_t *secret);
void zr_export_unref(struct zr_export *export);
/* A copy of the handle's leading fd, the caller's to close; -ESTALE where the export ended after it
 * was found, -errno. */
int zr_export_lead_fd(struct zr_export *export);
uint64_t zr_export_count(void);

/* ---- broker.c ---- */

/* Have the broker thread running. 0 or -errno. */
int zr_broker_start(void);
void zr_broker_stop(void);

/* pthread_atfork: export.c calls the others in lock order. */
void zr_identity_fork_prepare(void);
void zr_identity_fork_done(bool child);
void zr_broker_fork_prepare(void);
void zr_broker_fork_done(bool child);

/* ---- exchange.c ---- */

/* One conversation about one handle. */
struct zr_exchange {
    struct zr_handle handle;
    struct zr_table  table; /* of a range, once its leading fd is known */
    int              pidfd, sock;
    uint32_t         sock_peer; /* pid of who listens at the other end of sock, by the kernel */
    uint32_t         peer; /* pid of who gave the last fds, by the kernel; 0: outside of our pid
                              namespace, or nobody yet */
    unsigned         ahead_first, ahead_count; /* objects asked for on sock whose answer is still to
                                                  be received; 0: none */
    bool             unproven; /* the table came from an fd of this process */
    bool             refused; /* the exporter does not know the export or the secret */
    int              last_errno;
    char             why[360]; /* what was tried and why it failed */
    size_t           why_used;
};

struct zr_exchange_method {
    const char *name;
    /* 0, or -errno with the reason noted: the method cannot serve this handle. */
    int (*probe)(struct zr_exchange *exchange);
    /* The range itself, with no fd; what it says is final. NULL: the method gives fds. */
    ze_result_t (*range)(struct zr_exchange *exchange, struct zr_range *range, size_t *lead_p);
    /* The leading fd, the caller's to close; recognised before it is believed. */
    int (*lead)(struct zr_exchange *exchange, int *fd_p);
    /* Fds of @a count objects from @a first on; *got_p of them, at least one, are the caller's. */
    int (*objects)(struct zr_exchange *exchange, unsigned first, unsigned count, int *fds,
                   unsigned *got_p);
};

void zr_exchange_init(struct zr_exchange *exchange, const struct zr_handle *handle);
void zr_exchange_fini(struct zr_exchange *exchange);
/* The range without fds, if a method has the objects at hand; *result_p is what came of it. False:
 * none has, and the fds are to be fetched. */
bool zr_exchange_range(struct zr_exchange *exchange, struct zr_range *range, size_t *lead_p,
                       ze_result_t *result_p);
/* The leading fd by the first method that gives the right one; for a range the table is open
 * after. UNKNOWN: nobody gives it; INVALID_ARGUMENT: refused. */
ze_result_t zr_exchange_lead(struct zr_exchange *exchange, int *fd_p);
ze_result_t zr_exchange_objects(struct zr_exchange *exchange, unsigned first, unsigned count,
                                int *fds, unsigned *got_p);
/* The next call of zr_exchange_objects will be for these: the exporter makes their fds while the
 * caller works on those it has. */
void zr_exchange_ahead(struct zr_exchange *exchange, unsigned first, unsigned count);
/* True if @a fd is what the handle stands for; opens the table of a range. */
bool zr_exchange_accept(struct zr_exchange *exchange, const char *method, int fd);

/* NULL, or what is wrong with a handle's own fields. */
const char *zr_handle_check(const struct zr_handle *handle);
/* Device number of an inode as the handle carries it. */
uint32_t zr_device_number(uint64_t st_dev);

/* ---- same.c: the method "same process" ---- */

int zr_same_probe(struct zr_exchange *exchange);
ze_result_t zr_same_range(struct zr_exchange *exchange, struct zr_range *range, size_t *lead_p);

#endif
