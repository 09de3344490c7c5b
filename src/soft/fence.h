/* Fences, and what user space holds of them: sync_files, syncobjs, eventfds. Part of soft.h. */
/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef ZR_SOFT_FENCE_H
#define ZR_SOFT_FENCE_H

#include "ioctl.h"

/* ---- fence.c ---- */

struct zr_soft_fence {
    unsigned              refs;
    int                   status; /* 0: pending, 1: signalled, negative errno: signalled so */
    uint64_t              timeline; /* a later fence of a timeline signals after earlier ones */
    uint16_t              class; /* of its engines; UINT16_MAX: not a request's */
    uint8_t               width; /* fences in it, as a sync_file tells */
    bool                  started, exported; /* exported: as a sync_file */
    bool                  composite, is_link; /* composite: on zr_soft_dev::composites */
    LIST_ENTRY(zr_soft_fence) link;
    struct zr_soft_fence **part; /* signals when all of these have; references */
    unsigned              num_parts;
    /* A link of a timeline's chain: its own fence and the link before, which both are parts too. */
    struct zr_soft_fence *own, *previous;
    uint64_t              point, previous_point;
};

struct zr_soft_fence *zr_soft_fence_create(uint64_t timeline, uint16_t class);
struct zr_soft_fence *zr_soft_fence_get(struct zr_soft_fence *fence);
void zr_soft_fence_put(struct zr_soft_fence *fence);
void zr_soft_fence_signal(struct zr_soft_dev *dev, struct zr_soft_fence *fence, int status);
/* One that signals when all of @a fences (NULL ones left out) have; NULL: no memory. */
struct zr_soft_fence *zr_soft_fence_all(struct zr_soft_dev *dev,
                                        struct zr_soft_fence *const *fences, unsigned count);
/* A timeline's next link, dma_fence_chain's rules. */
struct zr_soft_fence *zr_soft_fence_chain(struct zr_soft_dev *dev, struct zr_soft_fence *previous,
                                          struct zr_soft_fence *fence, uint64_t point);
/* From a timeline's head to what signals when @a point is reached; *fence_p NULL: it has been.
 * No reference changes hands. 0, or -EINVAL: nobody has submitted it */
int zr_soft_fence_find_point(struct zr_soft_fence **fence_p, uint64_t point);
/* The point reached (or submitted) of a timeline; 0 of a binary fence. */
uint64_t zr_soft_fence_point(struct zr_soft_fence *fence, bool submitted);

/* ---- token.c ---- */

/* A pollable fd. 0 or -errno. */
int zr_soft_fence_export(struct zr_soft_dev *dev, struct zr_soft_fence *fence, int *fd_p);
/* The fence behind a sync_file, a reference; *fence_p NULL if it has signalled. 0 or -EINVAL. */
int zr_soft_fence_import(struct zr_soft_dev *dev, int fd, struct zr_soft_fence **fence_p);
void zr_soft_token_signal(struct zr_soft_dev *dev, struct zr_soft_fence *fence);
void zr_soft_tokens_free(struct zr_soft_dev *dev);
/* ioctl(2) on a sync_file or dma-buf of this device: @a fd is of this process, and so are the fds in
 * @a data, the kernel's copy of the argument. -ENOTTY: it is neither, or has no such request. */
int zr_soft_fd_call(struct zr_soft_dev *dev, int fd, unsigned long request, void *data);

/* ---- syncobj.c ---- */

struct zr_soft_syncobj {
    struct zr_soft_dev   *dev; /* whose file made it */
    unsigned              refs;
    struct zr_soft_fence *fence;
};
void zr_soft_syncobj_set(struct zr_soft_dev *dev, struct zr_soft_syncobj *syncobj,
                         struct zr_soft_fence *fence);
int  zr_soft_syncobj_add_point(struct zr_soft_dev *dev, struct zr_soft_syncobj *syncobj,
                               struct zr_soft_fence *fence, uint64_t point);
void zr_soft_syncobj_put(struct zr_soft_syncobj *syncobj);
/* eventfd.c: after a fence or a syncobj has changed; and when a syncobj (NULL: the device) goes. */
void zr_soft_eventfds_look(struct zr_soft_dev *dev);
void zr_soft_eventfds_forget(struct zr_soft_dev *dev, const struct zr_soft_syncobj *syncobj);
int  zr_soft_syncobj_eventfd(struct zr_soft_file *file, void *data);
int  zr_soft_syncobj_export(struct zr_soft_dev *dev, struct zr_soft_syncobj *syncobj, int *fd_p);
/* No reference; NULL: it is none. */
struct zr_soft_syncobj *zr_soft_syncobj_import(struct zr_soft_dev *dev, int fd);
/* Wait on zr_soft_dev::signal until CLOCK_MONOTONIC @a deadline_ns (INT64_MAX: no limit).
 * @return 0, -ETIME or -EINTR (the caller got a signal) */
int zr_soft_wait_signal(struct zr_soft_dev *dev, int64_t deadline_ns);

#endif
