/* The server of the software devices: what main thread and channels share. */
/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef ZR_SHIM_SERVER_H
#define ZR_SHIM_SERVER_H

#include "soft/soft.h"
#include "wire.h"

#define ZR_SHIM_MAX_UNITS 16

/* A process that uses a device. */
struct zr_shim_process {
    struct zr_shim_process *next;
    unsigned                refs; /* its link and its channels */
    uint64_t                id;
    struct zr_soft_mm      *mm;
};

/* A thread of one, and the thread here that serves it. */
struct zr_shim_channel {
    struct zr_shim_channel *next;
    struct zr_shim_process *process;
    uint64_t                id;
    int                     socket;
    pid_t                   tid_owner; /* process id of the peer */
    struct zr_soft_task     task;
    struct zr_soft_dev     *dev;     /* in whose ioctl it is, NULL: none */
    uint32_t                seq;     /* of the request being served */
    uint32_t                stopped; /* newest sequence number that was interrupted */
};

struct zr_shim_file {
    struct zr_shim_file *next;
    uint64_t             inode; /* of the client's end of its socket */
    unsigned             refs;
    unsigned             unit, minor;
    struct zr_soft_file     *file;     /* either */
    struct zr_shim_timeline *timeline; /* or, of sync/sw_sync */
};

struct zr_shim_server {
    struct zr_shim_place    place;
    char                    tree[96]; /* directory of the generated /dev and /sys */
    unsigned                units;
    struct zr_soft_profile  profile[ZR_SHIM_MAX_UNITS];
    pthread_mutex_t         lock; /* guards all below */
    struct zr_soft_dev     *dev[ZR_SHIM_MAX_UNITS];
    struct zr_shim_file    *files;
    struct zr_shim_process *processes;
    struct zr_shim_channel *channels;
    uint64_t                ids;
    unsigned                clients; /* connections of any kind */
    pthread_cond_t          handled; /* the main thread did what one of them wanted */
    int                     wake;    /* eventfd: the last client may be gone */
};

/* main.c */
int  zr_shim_device(struct zr_shim_server *server, unsigned unit, struct zr_soft_dev **dev_p);
void zr_shim_client_gone(struct zr_shim_server *server);
/* Every file whose last fd was closed before this call has ended when it returns. */
void zr_shim_ends_wait(struct zr_shim_server *server);
void zr_shim_process_put(struct zr_shim_server *server, struct zr_shim_process *process);
struct zr_shim_file *zr_shim_file_get(struct zr_shim_server *server, uint64_t inode);
void zr_shim_file_put(struct zr_shim_server *server, struct zr_shim_file *file);

/* channel.c: serve a channel until its client is gone. */
void *zr_shim_channel_thread(void *arg);
struct zr_shim_channel_start {
    struct zr_shim_server  *server;
    struct zr_shim_channel *channel;
};

/* timeline.c */
struct zr_shim_timeline *zr_shim_timeline_create(struct zr_soft_dev *dev);
void   zr_shim_timeline_destroy(struct zr_shim_timeline *timeline);
size_t zr_shim_timeline_size(unsigned long request); /* of the argument, 0: no such request */
int    zr_shim_timeline_out(unsigned long request);  /* where in it an fd is given, -1: none */
int    zr_shim_timeline_call(struct zr_shim_timeline *timeline, unsigned long request, void *data);

/* tree.c: the files under @a dir that the devices have in /dev and /sys. 0 or -errno. */
int  zr_shim_tree_make(const char *dir, const struct zr_soft_profile *profiles, unsigned count);
void zr_shim_tree_remove(const char *dir);
/* Bring debugfs i915_gem_objects up to date. 0 or -errno */
int  zr_shim_tree_objects(const char *dir, unsigned unit, struct zr_soft_dev *dev);

#endif
