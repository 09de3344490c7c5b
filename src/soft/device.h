/* What a device is: its profile, the errors and liberties it was given, its engines and files. Part of soft.h. */
/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef ZR_SOFT_DEVICE_H
#define ZR_SOFT_DEVICE_H

#include <drm.h>
#include <i915_drm.h>
#include <pthread.h>
#include <sys/queue.h>
#include <sys/stat.h>
#include <sys/types.h>

#include "util/util.h"

#define ZR_SOFT_MAX_ENGINES 32
#define ZR_SOFT_MAX_SLOTS   64      /* I915_EXEC_RING_MASK + 1 */
#define ZR_SOFT_PAGE        4096u

/* ---- profile.c: a GPU and a kernel, read from DIR/NAME.profile ---- */

/* Tiger Lake, DG2, Ponte Vecchio, Meteor Lake: graphics versions 12.0, 12.55, 12.60, 12.70 */
enum zr_soft_gen { ZR_SOFT_GEN12, ZR_SOFT_GEN125, ZR_SOFT_PVC, ZR_SOFT_MTL };

struct zr_soft_engine_id {
    uint16_t class, instance, logical;
};

struct zr_soft_profile {
    char             name[32];
    uint32_t         device_id, revision;
    enum zr_soft_gen gen;
    bool             backports; /* rules of Intel's out-of-tree driver instead of upstream's */
    bool             guc;       /* sets of a parallel slot have barriers; else execlists */
    bool             llc;
    uint64_t         lmem, smem; /* bytes; lmem 0: integrated part */
    unsigned         gtt_bits;
    uint64_t         timestamp_hz;
    uint32_t         heartbeat_ms; /* of each engine; 0: none */
    uint64_t         visible; /* bytes of lmem that the CPU reaches: small BAR; all if not given */
    unsigned         slices, subslices_on, eus; /* in all, in a slice, in a subslice */
    uint32_t         copy_rate[9]; /* per cent of the rate model's, by instance */
    unsigned         num_engines; /* sorted by class and instance, as ENGINE_INFO lists them */
    struct zr_soft_engine_id engine[ZR_SOFT_MAX_ENGINES];
};

/** @return 0, or -ENOENT / -EINVAL with file, line and cause said in the log and as last error */
int zr_soft_profile_load(const char *dir, const char *name, struct zr_soft_profile *profile);

/* ---- device.c ---- */

struct zr_soft_dev;

struct zr_soft_options {
    uint64_t    mbps;    /* rate model: MB/s of an engine, 0: none */
    unsigned    threads; /* at most; 0: one per CPU */
    unsigned    unit;    /* which device of the node this is, the same in every process that names
                            the same devices */
    const char *dirty;   /* ZERANGE_SOFT_DIRTY (dirty.c); NULL: none */
    const char *faults;  /* ZERANGE_SOFT_FAULTS (faults.c); NULL: none */
};

/* Small ids to pointers, lowest free id first, as the kernel's idr gives them. */
struct zr_soft_ids {
    void   **slot;
    unsigned size, hint; /* no free id below hint */
};

int   zr_soft_ids_add(struct zr_soft_ids *ids, unsigned first, void *object, uint32_t *id_p);
void *zr_soft_ids_get(const struct zr_soft_ids *ids, uint64_t id);
void *zr_soft_ids_remove(struct zr_soft_ids *ids, uint64_t id);

/* ---- faults.c: errors on demand ---- */

enum zr_soft_fault_what {
    ZR_SOFT_FAULT_NONE,
    ZR_SOFT_FAULT_HANG,
    ZR_SOFT_FAULT_BAN,
    ZR_SOFT_FAULT_RESET,
    ZR_SOFT_FAULT_WEDGE,
};

/* ---- dirty.c: what is allowed to happen ---- */

enum {
    ZR_SOFT_DIRTY_INTR   = 1 << 0,
    ZR_SOFT_DIRTY_EVICT  = 1 << 1,
    ZR_SOFT_DIRTY_DELAY  = 1 << 2,
    ZR_SOFT_DIRTY_LAZY   = 1 << 3,
    ZR_SOFT_DIRTY_SHADOW = 1 << 4,
    ZR_SOFT_DIRTY_HIGH   = 1 << 5,
    ZR_SOFT_DIRTY_NOSPC  = 1 << 6,
    ZR_SOFT_DIRTY_RING   = 1 << 7,
    ZR_SOFT_DIRTY_BAR    = 1 << 8,
    ZR_SOFT_DIRTY_MEMORY = 1 << 9,
};
struct zr_soft_bo;
struct zr_soft_vm;
/* 0, or -EINVAL with the cause said; profile and modes of the device change. */
int zr_soft_dirty_parse(struct zr_soft_dev *dev, const char *text);
/* Chance, where that mode is on. */
bool zr_soft_dirty_one_in(struct zr_soft_dev *dev, unsigned mode, unsigned n);
/* 0, -EINTR or -EAGAIN */
int zr_soft_dirty_call(struct zr_soft_dev *dev);
/* Nanoseconds that an engine takes its time. */
uint64_t zr_soft_dirty_delay(struct zr_soft_dev *dev);
/* Before an execbuf binds; it has marked the objects it names. */
void zr_soft_dirty_evict(struct zr_soft_vm *vm);
/* What a cached mapping shows: an fd that stays the object's, or -errno */
int  zr_soft_shadow_fd(struct zr_soft_bo *bo);
void zr_soft_shadow_domain(struct zr_soft_bo *bo, uint32_t read, uint32_t write);
/* An execbuf uses it. */
void zr_soft_shadow_use(struct zr_soft_bo *bo);

/* What calls are counted: ioctls by number, then these. */
enum { ZR_SOFT_SUBJECT_MMAP = 256, ZR_SOFT_SUBJECT_SUBMIT, ZR_SOFT_SUBJECTS };

struct zr_soft_fault {
    unsigned                subject;
    uint64_t                first, last;
    int                     error;
    enum zr_soft_fault_what what; /* of a submission */
};

/* 0, or -EINVAL with the cause said. */
int zr_soft_faults_parse(struct zr_soft_dev *dev, const char *rules);
/* Count a call; the errno that a rule gives it, or 0. */
int zr_soft_fault_call(struct zr_soft_dev *dev, unsigned subject);
enum zr_soft_fault_what zr_soft_fault_submit(struct zr_soft_dev *dev);
/* Number of the request of that name. 0 or -EINVAL */
int zr_soft_ioctl_find(const char *name, unsigned *number_p);

struct zr_soft_batch;
TAILQ_HEAD(zr_soft_batch_list, zr_soft_batch);
struct zr_soft_req;
TAILQ_HEAD(zr_soft_req_list, zr_soft_req);

struct zr_soft_engine {
    struct zr_soft_engine_id id;
    struct zr_soft_batch    *running; /* who has the engine; a set keeps it to the set's end */
    uint64_t                 completed, busy_ns, bytes;
    uint64_t                 mbps; /* of the rate model */
    /* Of the newest batch that is complete; due_ns: when the rate model let it end. */
    uint64_t                 began_ns, due_ns, ended_ns;
};

/* The newest set of a parallel slot that is complete, row by row. */
struct zr_soft_set_stats {
    uint64_t count; /* sets so far */
    unsigned width;
    uint64_t began_ns[9], ended_ns[9], due_ns[9], bytes[9];
    uint64_t overlap_ns; /* all of its engines were busy */
};

#define ZR_SOFT_BO_BUCKETS 4096

struct zr_soft_dev {
    struct zr_soft_profile profile; /* constant */
    struct zr_soft_options options; /* constant */
    uint64_t               stream_bytes; /* zr_soft_stream_bytes, constant */
    unsigned               max_threads;
    pthread_mutex_t        lock;
    pthread_cond_t         work;    /* run queue or waiting list changed */
    pthread_cond_t         signal;  /* a fence signalled or a syncobj got one */

    bool                   wedged; /* lost: EIO from now on */
    unsigned               resets; /* of all engines */
    unsigned               dirty; /* modes; constant */
    int                    hole;  /* fd + 1 of memory without pages; 0: none yet */
    uint64_t               random;
    struct zr_soft_fault  *fault;
    unsigned               num_faults;
    uint64_t               calls[ZR_SOFT_SUBJECTS];

    unsigned               files;
    uint64_t               lmem_used, smem_used;
    struct zr_soft_ids     cookies; /* mmap offsets: id -> object */
    struct zr_soft_ids     names, magics; /* drm.c: global names of objects, files to be authenticated */
    struct zr_soft_file   *master;
    unsigned               objects;
    struct zr_soft_bo     *bo_by_inode[ZR_SOFT_BO_BUCKETS];
    uint64_t               exec_count, timelines;
    struct zr_soft_token  *tokens; /* token.c: fds given out */
    unsigned               num_tokens, reap_tokens; /* reap_tokens: look for orphans then */
    LIST_HEAD(, zr_soft_fence) composites; /* fences that wait for their parts */
    LIST_HEAD(, zr_soft_eventfd) eventfds; /* to be written when a syncobj's point is reached */
    uint64_t               vm_serial;
    unsigned               start_waits; /* requests that wait for the start of another */

    struct zr_soft_engine     engine[ZR_SOFT_MAX_ENGINES];
    struct zr_soft_set_stats  set;
    struct zr_soft_req_list   pending; /* submitted, not (wholly) on engines, oldest first */
    struct zr_soft_batch_list runnable;
    struct zr_soft_batch_list waiting; /* on an engine, to be looked at again at wake_ns */
    unsigned                  slices, paused; /* batches being run; who wants none to be */
    struct zr_soft_arena     *arenas;
    atomic_ulong              stores;  /* memory writes that a waiting batch may wait for */
    unsigned                  threads, idle, queued; /* queued: batches in runnable */
    uint64_t                  timer_ns; /* when has_timer's thread wakes up */
    bool                      stop, has_timer; /* one idle thread watches the waiting list */
    pthread_t                *thread;
};

/* What the environment says (zr_config_load was called); unit 0. */
void zr_soft_options_config(struct zr_soft_options *options);
/* @return 0, -EINVAL with the cause said (dirty, faults), -ENOMEM */
int  zr_soft_dev_create(const struct zr_soft_profile *profile,
                        const struct zr_soft_options *options, struct zr_soft_dev **dev_p);
/* No file is open; batches still running are cancelled. */
void zr_soft_dev_destroy(struct zr_soft_dev *dev);
struct zr_soft_engine *zr_soft_engine_find(struct zr_soft_dev *dev, unsigned class,
                                           unsigned instance);

struct zr_soft_file {
    struct zr_soft_dev *dev;
    struct zr_soft_ids  handles, contexts, vms, syncobjs;
    bool                primary, authenticated, was_master; /* drm.c */
    uint32_t            magic; /* 0: none yet */
    struct zr_soft_vm  *vm; /* of contexts that name none */
    bool                perfmon, admin, nice; /* capabilities at open */
    bool                nonblock; /* O_NONBLOCK: no wait for room in a ring; the host's to set */
    unsigned            ban_score;
    uint64_t            hang_ns; /* newest hang of a context of this file, 0: none */
};

int  zr_soft_file_open(struct zr_soft_dev *dev, struct zr_soft_file **file_p);
void zr_soft_file_close(struct zr_soft_file *file);
/* One DRM ioctl as the kernel's drm_ioctl does it; @a arg is an address of the caller's. @return 0 or a negative errno */
int  zr_soft_file_ioctl(struct zr_soft_file *file, unsigned long request, uint64_t arg);

/* Bytes of the kernel's argument, 0: no such request. */
size_t zr_soft_ioctl_size(unsigned long request);
/* The argument is the kernel's copy already: at least 128 bytes. */
int  zr_soft_file_call(struct zr_soft_file *file, unsigned long request, void *data);

#endif
