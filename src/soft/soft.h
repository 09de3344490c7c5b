/* The software i915: devices, files and what hangs on them. Explicit objects, no globals, so that
 * a process or a server can host any number of them; soft_kif.c is the host in process.
 *
 * One lock per device, zr_soft_dev::lock, guards every field below but those that say otherwise.
 * A batch's interpreter state belongs to the thread that took it off a queue, without the lock. */
/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef ZR_SOFT_H
#define ZR_SOFT_H

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

/* ---- drm.c: the DRM core around the driver ---- */

/* What a request needs; render nodes have those without PRIMARY. */
#define ZR_SOFT_PRIMARY 1u
#define ZR_SOFT_AUTH    2u
#define ZR_SOFT_MASTER  4u
#define ZR_SOFT_ROOT    8u
#define ZR_SOFT_BACKPORTS 16u /* a request that only backports rules have */
int  zr_soft_permit(const struct zr_soft_file *file, unsigned flags);
/* It was opened through a primary node. */
void zr_soft_file_set_primary(struct zr_soft_file *file);
void zr_soft_file_leave(struct zr_soft_file *file);
int  zr_soft_get_unique(struct zr_soft_file *file, void *data);
int  zr_soft_get_magic(struct zr_soft_file *file, void *data);
int  zr_soft_auth_magic(struct zr_soft_file *file, void *data);
int  zr_soft_get_client(struct zr_soft_file *file, void *data);
int  zr_soft_get_stats(struct zr_soft_file *file, void *data);
int  zr_soft_set_version(struct zr_soft_file *file, void *data);
int  zr_soft_set_master(struct zr_soft_file *file, void *data);
int  zr_soft_drop_master(struct zr_soft_file *file, void *data);
int  zr_soft_flink(struct zr_soft_file *file, void *data);
int  zr_soft_open_name(struct zr_soft_file *file, void *data);

/* ---- misc.c ---- */

int zr_soft_throttle(struct zr_soft_file *file, void *data);
int zr_soft_sw_finish(struct zr_soft_file *file, void *data);
int zr_soft_get_aperture(struct zr_soft_file *file, void *data);
int zr_soft_madvise(struct zr_soft_file *file, void *data);
int zr_soft_set_tiling(struct zr_soft_file *file, void *data);
int zr_soft_get_tiling(struct zr_soft_file *file, void *data);
int zr_soft_reg_read(struct zr_soft_file *file, void *data);
/* debugfs i915_gem_drop_caches: wait for what is running, or end it. 0 or -EINTR */
#define ZR_SOFT_DROP_ACTIVE       UINT64_C(0x08)
#define ZR_SOFT_DROP_IDLE         UINT64_C(0x40)
#define ZR_SOFT_DROP_RESET_ACTIVE UINT64_C(0x80)
int zr_soft_dev_drop_caches(struct zr_soft_dev *dev, uint64_t what);
/* debugfs i915_wedged: reset the engines; who runs on one is guilty. */
void zr_soft_dev_unwedge(struct zr_soft_dev *dev);

/* ---- task.c: who calls. In process there is no task, and user memory is this process's. ---- */

/* The memory of another process; engines reach userptr objects of it through this. */
struct zr_soft_mm {
    atomic_uint refs;
    atomic_bool gone; /* the process has ended, or runs another program */
    pid_t       pid;
};

/* A thread of another process in an ioctl. */
struct zr_soft_task {
    struct zr_soft_mm *mm;
    uint64_t           capabilities;
    atomic_bool        interrupted; /* waits end with -EINTR; set with the device lock held */
};

struct zr_soft_mm *zr_soft_mm_create(pid_t pid);
struct zr_soft_mm *zr_soft_mm_get(struct zr_soft_mm *mm);
void zr_soft_mm_put(struct zr_soft_mm *mm);
/* 0 or -EFAULT */
int zr_soft_mm_read(struct zr_soft_mm *mm, uint64_t from, void *to, size_t size);
int zr_soft_mm_write(struct zr_soft_mm *mm, uint64_t to, const void *from, size_t size);
/* Is all of the range mapped, and writable if asked? */
int zr_soft_mm_check(struct zr_soft_mm *mm, uint64_t start, uint64_t size, bool writable);
/* The calling thread acts for @a task until it enters another one; NULL: for itself. */
void                 zr_soft_task_enter(struct zr_soft_task *task);
struct zr_soft_task *zr_soft_task_current(void);
/* Effective capabilities of the caller, a bit each. */
uint64_t zr_soft_task_capabilities(void);

/* User memory of the ioctl's caller. 0 or -EFAULT. */
int zr_soft_copy_in(void *to, uint64_t from, size_t size);
int zr_soft_copy_out(uint64_t to, const void *from, size_t size);
typedef int (*zr_soft_ext_fn)(void *arg, uint64_t ext);
/* The chain of struct i915_user_extension at @a ext; @a fns by name, NULL: refused. */
int zr_soft_extensions(uint64_t ext, const zr_soft_ext_fn *fns, unsigned count, void *arg);
/* Where backports rules are: its own extensions are counted in the same table. */
int zr_soft_prelim_extensions(uint64_t ext, const zr_soft_ext_fn *fns, unsigned count, void *arg);

/* Handlers, called with the device lock held; data is the kernel's copy of the argument. */
int zr_soft_getparam(struct zr_soft_file *file, void *data);
int zr_soft_query(struct zr_soft_file *file, void *data);
int zr_soft_gem_create(struct zr_soft_file *file, void *data);
int zr_soft_gem_create_ext(struct zr_soft_file *file, void *data);
int zr_soft_gem_close(struct zr_soft_file *file, void *data);
int zr_soft_gem_mmap_offset(struct zr_soft_file *file, void *data);
int zr_soft_gem_userptr(struct zr_soft_file *file, void *data);
int zr_soft_gem_wait(struct zr_soft_file *file, void *data);
int zr_soft_gem_busy(struct zr_soft_file *file, void *data);
int zr_soft_pread(struct zr_soft_file *file, void *data);
int zr_soft_pwrite(struct zr_soft_file *file, void *data);
int zr_soft_set_domain(struct zr_soft_file *file, void *data);
int zr_soft_set_caching(struct zr_soft_file *file, void *data);
int zr_soft_get_caching(struct zr_soft_file *file, void *data);
/* Of a caller in another process addr_ptr becomes an offset of its file, for the host to map. */
int zr_soft_gem_mmap(struct zr_soft_file *file, void *data);
int zr_soft_prime_to_fd(struct zr_soft_file *file, void *data);
int zr_soft_prime_to_handle(struct zr_soft_file *file, void *data);
int zr_soft_vm_create(struct zr_soft_file *file, void *data);
int zr_soft_vm_destroy(struct zr_soft_file *file, void *data);
int zr_soft_context_create(struct zr_soft_file *file, void *data);
int zr_soft_context_destroy(struct zr_soft_file *file, void *data);
int zr_soft_context_getparam(struct zr_soft_file *file, void *data);
int zr_soft_context_setparam(struct zr_soft_file *file, void *data);
int zr_soft_reset_stats(struct zr_soft_file *file, void *data);
int zr_soft_execbuffer2(struct zr_soft_file *file, void *data);
int zr_soft_syncobj_create(struct zr_soft_file *file, void *data);
int zr_soft_syncobj_destroy(struct zr_soft_file *file, void *data);
int zr_soft_syncobj_wait(struct zr_soft_file *file, void *data);
int zr_soft_syncobj_reset(struct zr_soft_file *file, void *data);
int zr_soft_syncobj_signal(struct zr_soft_file *file, void *data);
int zr_soft_syncobj_transfer(struct zr_soft_file *file, void *data);
int zr_soft_syncobj_query(struct zr_soft_file *file, void *data);
int zr_soft_syncobj_timeline_signal(struct zr_soft_file *file, void *data);
int zr_soft_syncobj_timeline_wait(struct zr_soft_file *file, void *data);
int zr_soft_syncobj_to_handle(struct zr_soft_file *file, void *data);
int zr_soft_syncobj_to_fd(struct zr_soft_file *file, void *data);

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

/* ---- gem.c: buffer objects, each with sealed memory of its own ---- */

struct zr_soft_handle {
    struct zr_soft_handle *next;
    struct zr_soft_file   *file;
    uint32_t               handle;
};

struct zr_soft_bind {
    struct zr_soft_bind *next;
    struct zr_soft_vm   *vm;
    uint64_t             start, size; /* start: not canonical; size: at least the object's */
};

struct zr_soft_bo {
    struct zr_soft_dev    *dev;
    unsigned               refs;
    uint64_t               size;
    bool                   lmem, smem; /* where it may live; memory is charged to lmem if it can */
    struct zr_soft_arena  *arena;      /* where its memory is; NULL: its own, or the caller's */
    int                    fd;         /* memfd of its own, else -1 */
    dev_t                  st_dev;
    ino_t                  st_ino;
    struct zr_soft_bo     *next_inode;
    void                  *user; /* userptr: the caller's pages */
    struct zr_soft_mm     *mm;   /* userptr of another process: whose; NULL: ours */
    bool                   uncached, pat_set, coherent; /* SET_CACHING, SET_PAT */
    bool                   invisible; /* beyond a small BAR */
    /* dirty.c: what cached mappings show, its fd + 1 (0: none), and the CPU's domains */
    int                    shadow;
    bool                   shadow_dirty, cpu_read, cpu_write;
    bool                   user_checked, imported; /* user_checked: all its pages, once */
    bool                   foreign; /* another device's, whose pages are not ours to map */
    atomic_bool            glanced; /* read once without being mapped */
    _Atomic(void *)        cpu;  /* address for the engines, mapped at first use */
    uint32_t               cookie, cookie_cached, name; /* name: flink's, 0: none */
    struct zr_soft_handle *handles;
    struct zr_soft_bind   *binds;
    uint64_t               vm;   /* serial of the only one it may be bound in, 0: any */
    uint64_t               exec; /* newest execbuf that pinned it */
    struct zr_soft_fence  *write;
    struct zr_soft_fence **reads;
    unsigned               num_reads, max_reads;
};

struct zr_soft_bo *zr_soft_bo_get(struct zr_soft_bo *bo);
void               zr_soft_bo_put(struct zr_soft_bo *bo);
struct zr_soft_bo *zr_soft_bo_find(const struct zr_soft_file *file, uint32_t handle);
/* Takes over the caller's reference. */
int zr_soft_bo_add_handle(struct zr_soft_file *file, struct zr_soft_bo *bo, uint32_t *handle_p);
void zr_soft_bo_close_handle(struct zr_soft_file *file, struct zr_soft_bo *bo, uint32_t handle);
/* ---- arena.c ---- */
#define ZR_SOFT_OWN_BYTES (64 * ZR_KIB) /* objects of as many have memory of their own */
int  zr_soft_arena_alloc(struct zr_soft_dev *dev, struct zr_soft_bo *bo);
void zr_soft_arena_free(struct zr_soft_bo *bo);
/* Give it memory of its own, if it has none yet. The lock is given up meanwhile: the caller has a
 * reference. 0 or -errno */
int  zr_soft_bo_own(struct zr_soft_bo *bo);
void zr_soft_arenas_free(struct zr_soft_dev *dev);
/* Sealed memory of an object that is to have it, as an fd; or -errno */
int  zr_soft_memory(const struct zr_soft_dev *dev, uint64_t size, bool lmem, bool smem);
/* The memfd is the object's from now on; @a st: of it. */
void zr_soft_bo_adopt(struct zr_soft_bo *bo, int fd, const struct stat *st);
/* Wrap a memfd the callee then owns. 0 or -ENOMEM */
int zr_soft_bo_from_fd(struct zr_soft_dev *dev, int fd, const struct stat *st,
                       struct zr_soft_bo **bo_p);
int zr_soft_fd_move_up(int fd);
/* A second fd, where objects' fds live. @return -errno */
int zr_soft_fd_copy_up(int fd);
/* Its last handle may be gone. */
void zr_soft_bo_unname(struct zr_soft_bo *bo);
/* Of an object's memory; other memfds have others. */
#define ZR_SOFT_MEMORY_NAME "i915-%u-%s" /* unit, then lmem, smem or both */
/* The same in its time of access, which comes with size and inode: a name takes ten times as long
 * to read. Plus 2 * unit, plus 1 where it may live in lmem alone. Nobody sets it later. */
#define ZR_SOFT_STAMP INT64_C(0x693931350000)
#define ZR_SOFT_STAMP_UNITS 10000
#define ZR_SOFT_SEALS (F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL)
/* CPU address of its first byte for an engine; NULL when it cannot be mapped. No lock needed. */
void *zr_soft_bo_cpu(struct zr_soft_bo *bo);
/* The first look of an engine: an object that is not mapped is read. false: map it. No lock. */
#define ZR_SOFT_GLANCE 4096u
bool zr_soft_bo_glance(struct zr_soft_bo *bo, uint64_t offset, void *to, uint64_t length);
/* Are a userptr object's pages there? 0 or -EFAULT */
int  zr_soft_bo_check_user(struct zr_soft_bo *bo);
/* Until nobody writes it any more, or (@a all) uses it. 0, -ETIME, -EINTR */
int  zr_soft_bo_wait(struct zr_soft_bo *bo, bool all, int64_t deadline_ns);
/* The object whose dma-buf @a fd is; NULL: of none. */
struct zr_soft_bo *zr_soft_bo_by_fd(struct zr_soft_dev *dev, int fd);
void zr_soft_bo_add_fence(struct zr_soft_bo *bo, struct zr_soft_fence *fence, bool write);
/* @return MAP_FAILED with errno */
void *zr_soft_file_mmap(struct zr_soft_file *file, void *addr, size_t length, int prot, int flags,
                        uint64_t offset);
/* What to map for an offset: a new fd and where in it. 0 or -errno */
int zr_soft_file_mmap_fd(struct zr_soft_file *file, uint64_t length, int flags, uint64_t offset,
                         int *fd_p, uint64_t *inside_p);
/* Alignment of its GPU address. */
uint64_t zr_soft_bo_alignment(const struct zr_soft_bo *bo);

/* ---- vm.c: which object is bound where. The table is copied when it changes while a request
 * still runs on it, so that engines look addresses up without a lock. ---- */

struct zr_soft_entry {
    uint64_t           start, end, offset; /* offset: in the object, of start */
    struct zr_soft_bo *bo; /* a reference; NULL: unbound, the entry goes when many are */
    bool               lasting; /* by VM_BIND: until VM_UNBIND */
};

struct zr_soft_table {
    unsigned             refs, count, capacity, dead; /* dead: entries without an object */
    struct zr_soft_entry entry[];
};

struct zr_soft_vm {
    struct zr_soft_dev   *dev;
    const void           *file; /* whose; only compared */
    unsigned              refs, lasting; /* lasting: entries that are */
    uint64_t              serial;        /* never 0, never used again */
    atomic_uint           generation;    /* of what VM_BIND has bound */
    struct zr_soft_table *table;
};

struct zr_soft_vm *zr_soft_vm_new(struct zr_soft_file *file);
struct zr_soft_vm *zr_soft_vm_get(struct zr_soft_vm *vm);
void zr_soft_vm_put(struct zr_soft_vm *vm);
struct zr_soft_bind *zr_soft_vm_find(const struct zr_soft_vm *vm, const struct zr_soft_bo *bo);
/* Bind at @a start; what is in the way is evicted, unless this execbuf pinned it: -ENOSPC. */
int  zr_soft_vm_bind(struct zr_soft_vm *vm, struct zr_soft_bo *bo, uint64_t start, uint64_t size);
bool zr_soft_vm_is_free(const struct zr_soft_vm *vm, uint64_t start, uint64_t size);
void zr_soft_vm_unbind(struct zr_soft_vm *vm, struct zr_soft_bo *bo);
/* Lowest hole for @a size bytes below @a limit. 0 or -ENOSPC */
int  zr_soft_vm_hole(const struct zr_soft_vm *vm, uint64_t size, uint64_t alignment,
                     uint64_t limit, uint64_t *start_p);
/** VM_BIND: part of an object, until it is unbound. @return 0, -EEXIST: something was bound so at
 * @a start, -ENOSPC: elsewhere in the range, -ENOMEM */
int zr_soft_vm_bind_range(struct zr_soft_vm *vm, struct zr_soft_bo *bo, uint64_t start,
                          uint64_t offset, uint64_t length);
/* 0, -ENOENT: nothing there, -EINVAL: of another length, -ENOMEM */
int zr_soft_vm_unbind_range(struct zr_soft_vm *vm, uint64_t start, uint64_t length);
/* What VM_BIND has put there; NULL: nothing. */
const struct zr_soft_entry *zr_soft_vm_lasting(const struct zr_soft_vm *vm, uint64_t address);
struct zr_soft_table *zr_soft_table_get(struct zr_soft_table *table);
void zr_soft_table_put(struct zr_soft_table *table);

/* ---- prelim.c: what backports rules add; uapi_prelim.h ---- */

int zr_soft_prelim_vm_check(struct zr_soft_file *file, const struct drm_i915_gem_vm_control *args);
int zr_soft_prelim_bind(struct zr_soft_file *file, void *data);
int zr_soft_prelim_unbind(struct zr_soft_file *file, void *data);
int zr_soft_prelim_advise(struct zr_soft_file *file, void *data);
int zr_soft_prelim_prefetch(struct zr_soft_file *file, void *data);
int zr_soft_prelim_wait(struct zr_soft_file *file, void *data);
int zr_soft_prelim_reset_stats(struct zr_soft_file *file, void *data);
int zr_soft_prelim_param(const struct zr_soft_file *file, unsigned param, int *value_p);
int zr_soft_prelim_query(struct zr_soft_file *file, const struct drm_i915_query_item *item);

/* Where a new object may be, and how it is cached; gem.c. */
struct zr_soft_placements {
    struct zr_soft_file *file;
    unsigned             count;
    bool                 lmem, smem;
    bool                 pat_set, coherent;
    uint64_t             vm; /* serial: private to it, 0: not */
};
/* A list of regions at an address of the caller's. */
int zr_soft_placements_add(struct zr_soft_placements *placements, uint64_t regions, uint32_t count);
int zr_soft_prelim_create(struct zr_soft_file *file, uint64_t extensions,
                          struct zr_soft_placements *placements);

/* query.c: @return 0: go on, else what the item's length becomes. @a zero: the header must be */
int zr_soft_query_begin(const struct drm_i915_query_item *item, void *header, size_t header_size,
                        int total, bool zero);
int zr_soft_query_subslices(const struct zr_soft_profile     *profile,
                            const struct drm_i915_query_item *item);
int zr_soft_query_hwconfig(struct zr_soft_file *file, const struct drm_i915_query_item *item);

/* ---- context.c ---- */

struct zr_soft_slot {
    bool                    valid;
    uint16_t                class;
    unsigned                width, siblings;
    uint8_t                *engine; /* index in zr_soft_dev::engine, row * siblings + column */
    uint64_t                timeline;
    struct zr_soft_req_list reqs; /* not complete, oldest first */
    struct zr_soft_registers *registers; /* registers.c; NULL: as they are reset */
    unsigned                num_reqs;
};

struct zr_soft_ctx {
    struct zr_soft_dev *dev;
    unsigned            refs;
    bool                user_engines, finalized, closed, banned, long_running;
    bool                recoverable, bannable, persistent, no_error_capture;
    int                 priority;
    unsigned            guilty, innocent;
    uint64_t            hang_ns[2];
    struct zr_soft_file *file; /* NULL when the file is closed */
    struct zr_soft_vm  *vm;
    unsigned            num_slots;
    struct zr_soft_slot slot[ZR_SOFT_MAX_SLOTS];
};

/* Slots of a context without an engine map are the rings of execbuf's flags; then this one. */
#define ZR_SOFT_LEGACY_BSD2 5

struct zr_soft_ctx *zr_soft_ctx_new(struct zr_soft_file *file);
struct zr_soft_ctx *zr_soft_ctx_find(struct zr_soft_file *file, uint64_t id);
void zr_soft_ctx_close(struct zr_soft_ctx *ctx);
void zr_soft_ctx_put(struct zr_soft_ctx *ctx);
/* A batch of it hung: count, and ban as the kernel does. */
void zr_soft_ctx_blame(struct zr_soft_ctx *ctx);
/* engines.c: SETPARAM(ENGINES) and its extensions. */
int zr_soft_ctx_set_engines(struct zr_soft_file *file, struct zr_soft_ctx *ctx,
                            const struct drm_i915_gem_context_param *param);
int zr_soft_ctx_legacy_engines(struct zr_soft_ctx *ctx);

/* ---- decode.c, blit.c: what the engines do ---- */

enum zr_soft_op_kind { ZR_SOFT_OP_NONE, ZR_SOFT_OP_COPY, ZR_SOFT_OP_FILL };

/* ---- tiling.c ---- */

enum { ZR_SOFT_LINEAR, ZR_SOFT_TILE_X, ZR_SOFT_TILE_Y, ZR_SOFT_TILE_4, ZR_SOFT_TILE_64 };

/* How a surface is tiled, and where in it the first byte of an operation is. */
struct zr_soft_tiling {
    uint8_t  kind, cpp;
    uint32_t x, y; /* bytes, rows */
};

/* Offset in the surface of a byte; *run_p becomes at most what follows it there. */
uint64_t zr_soft_tile_offset(const struct zr_soft_tiling *tiling, uint64_t pitch, uint64_t column,
                             uint64_t row, uint64_t *run_p);
/* Are base and pitch (bytes) as it needs them? */
bool zr_soft_tile_valid(const struct zr_soft_tiling *tiling, uint64_t base, uint64_t pitch);
/* Of a command's two bits. false: the part has no such tiling */
bool zr_soft_tile_kind(enum zr_soft_gen gen, unsigned code, bool block_copy, unsigned *kind_p);

/* A copy or fill of rows; can be left and taken up at any byte. */
struct zr_soft_op {
    enum zr_soft_op_kind kind;
    uint64_t             dst, src, dst_pitch, src_pitch;
    uint64_t             width, rows; /* bytes, count */
    uint64_t             row, column; /* done so far */
    struct zr_soft_tiling dst_tiling, src_tiling; /* dst, src: then of the surface */
    uint8_t              pattern[16];
    unsigned             pattern_size;
};

enum zr_soft_step {
    ZR_SOFT_DONE,    /* reached MI_BATCH_BUFFER_END */
    ZR_SOFT_MORE,    /* budget used up */
    ZR_SOFT_BLOCKED, /* waits for memory to change */
    ZR_SOFT_BUSY,    /* the rate model holds it until free_ns */
    ZR_SOFT_HANG,    /* reason says why */
};

enum zr_soft_batch_state { ZR_SOFT_PENDING, ZR_SOFT_RUNNING, ZR_SOFT_FINISHED };

struct zr_soft_batch {
    TAILQ_ENTRY(zr_soft_batch) link; /* runnable or waiting */
    struct zr_soft_req      *req;
    struct zr_soft_engine   *engine;
    enum zr_soft_batch_state state;
    unsigned                 row;
    bool                     is_waiting, started, polling;
    bool                     arbitrated, preemptible; /* in this round of a loop; in the last one */
    atomic_bool              replay; /* from its start, after a reset */
    uint64_t                 wake_ns, blocked_ns; /* blocked_ns: since when, 0: not */
    uint64_t                 started_ns, free_ns, ended_ns;
    uint64_t                 start, pc, at; /* GPU addresses, not canonical; at: the command
                                               that is being executed */
    unsigned                 hit[3];    /* entries found last: commands, source, destination */
    struct zr_soft_window   *window[3]; /* onto userptr memory of another process, by port */
    struct zr_soft_op        op;
    struct zr_soft_op       *held; /* dirty, lazy: to be done at the next flush */
    unsigned                 num_held, next_held;
    uint64_t                 bytes; /* copied or filled so far */
    char                     reason[160];
};

/** Run until an end of the batch or of @a budget (bytes moved, plus some for each command). */
enum zr_soft_step zr_soft_batch_run(struct zr_soft_batch *batch, uint64_t *budget);
/* Says why in batch->reason. @return ZR_SOFT_HANG */
enum zr_soft_step zr_soft_hang(struct zr_soft_batch *batch, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

enum zr_soft_port { ZR_SOFT_PORT_COMMAND, ZR_SOFT_PORT_SRC, ZR_SOFT_PORT_DST };
/* What an engine sees of another process's memory: a copy of a piece of it. */
#define ZR_SOFT_WINDOW (64 * ZR_KIB)
struct zr_soft_window {
    struct zr_soft_mm *mm;
    uint64_t           user;
    uint8_t            data[ZR_SOFT_WINDOW];
};

/** CPU address of a GPU address, with the bytes that follow in the same object (or window). Who
 * writes there says so with zr_soft_written.
 * @return NULL: nothing is bound there */
uint8_t *zr_soft_resolve(struct zr_soft_batch *batch, enum zr_soft_port port, uint64_t address,
                         uint64_t *available_p);
/* Read the source at an address that is looked at for the first time. false: resolve it. */
bool zr_soft_glance(struct zr_soft_batch *batch, uint64_t address, void *to, uint64_t length);
/* The destination got @a length bytes at @a cpu. false: its owner's pages are not there */
bool zr_soft_written(struct zr_soft_batch *batch, const void *cpu, uint64_t length);
/* CPU address of an aligned word. NULL: batch->reason is set. */
void *zr_soft_word(struct zr_soft_batch *batch, const char *name, const uint32_t *dw,
                   unsigned size);
/* Visible after everything the batch wrote before. */
enum zr_soft_step zr_soft_store(struct zr_soft_batch *batch, void *cpu, uint64_t value, bool quad);
/* Is it canonical, or the same address without sign extension? Clears the extension. */
bool zr_soft_address(const struct zr_soft_dev *dev, uint32_t low, uint32_t high,
                     uint64_t *address_p);
struct zr_soft_command;
/* Set batch->op from a 2D command. MORE: op is set. */
enum zr_soft_step zr_soft_decode_2d(struct zr_soft_batch *batch, const uint32_t *dw,
                                    const struct zr_soft_command *command);
/* Advance batch->op. DONE: finished; MORE: budget; HANG. */
enum zr_soft_step zr_soft_op_run(struct zr_soft_batch *batch, uint64_t *budget);

/* ---- copy.c: how bytes are moved ---- */

/* A set that copies so much streams. */
uint64_t zr_soft_stream_bytes(void);
/* Before a request is handed over; @a objects_bytes: of all objects it names. */
void zr_soft_req_choose_copy(struct zr_soft_req *req, uint64_t objects_bytes);
/* As memmove; @a stream: past the cache. */
void zr_soft_copy(uint8_t *to, const uint8_t *from, uint64_t length, bool stream);

/* The opcode table: one entry per form of a command, with the generations that have it. */
struct zr_soft_command {
    const char *name;
    uint32_t    mask, value; /* of dword 0: opcode and length */
    unsigned    dwords, gens, classes;
    enum zr_soft_step (*decode)(struct zr_soft_batch *, const uint32_t *,
                                const struct zr_soft_command *);
    uint32_t    reserved[22]; /* bits that must be zero */
};
extern const struct zr_soft_command zr_soft_blits[];
extern const unsigned               zr_soft_num_blits;
extern const struct zr_soft_command zr_soft_renders[];
extern const unsigned               zr_soft_num_renders;

/* Length from the command itself; its table entry's reserved bits are those of dword 0. */
#define ZR_SOFT_VARIABLE   0u
#define ZR_SOFT_MAX_DWORDS 258u
static inline unsigned zr_soft_command_length(const struct zr_soft_command *command, uint32_t dw0)
{
    return command->dwords != ZR_SOFT_VARIABLE ? command->dwords : (dw0 & 0xff) + 2;
}

#define ZR_SOFT_GENS_ALL    15u
#define ZR_SOFT_GENS(gen)   (1u << (gen))
#define ZR_SOFT_CLASSES_ALL 0xffu
#define ZR_SOFT_CLASS_COPY  (1u << I915_ENGINE_CLASS_COPY)

/* ---- registers.c ---- */

struct zr_soft_registers {
    uint64_t gpr[16];
    uint32_t predicate, predicate_1, predicate_2;
    uint32_t noop; /* when predicate_2 leaves commands out: the mode of MI_SET_PREDICATE */
    uint32_t swctrl; /* of a copy engine: how the older commands' tiled surfaces are tiled */
};
#define ZR_SOFT_SWCTRL_SRC_Y 1u
#define ZR_SOFT_SWCTRL_DST_Y 2u
#define ZR_SOFT_SWCTRL_BITS  3u
/* Of the batch's slot, made when they are used first; NULL: no memory. */
struct zr_soft_registers *zr_soft_registers_get(struct zr_soft_batch *batch);

uint32_t zr_soft_mmio_base(unsigned class, unsigned instance);
enum zr_soft_step zr_soft_mi_load_imm(struct zr_soft_batch *batch, const uint32_t *dw,
                                      const struct zr_soft_command *command);
enum zr_soft_step zr_soft_mi_load_reg(struct zr_soft_batch *batch, const uint32_t *dw,
                                      const struct zr_soft_command *command);
enum zr_soft_step zr_soft_mi_load_mem(struct zr_soft_batch *batch, const uint32_t *dw,
                                      const struct zr_soft_command *command);
enum zr_soft_step zr_soft_mi_store_reg(struct zr_soft_batch *batch, const uint32_t *dw,
                                       const struct zr_soft_command *command);
enum zr_soft_step zr_soft_mi_math(struct zr_soft_batch *batch, const uint32_t *dw,
                                  const struct zr_soft_command *command);

/* ---- sched.c: requests, engines, threads ---- */

struct zr_soft_req {
    TAILQ_ENTRY(zr_soft_req) link;      /* pending */
    TAILQ_ENTRY(zr_soft_req) slot_link;
    bool                   in_pending, run_inline, fault_hang; /* fault_hang: on demand */
    bool                   stream; /* its copies go past the cache */
    bool                   tells;  /* the user fence: tell_value goes to GPU address tell_at */
    uint64_t               tell_at, tell_value;
    struct zr_soft_ctx    *ctx;
    struct zr_soft_slot   *slot;
    struct zr_soft_table  *table;
    unsigned               generation; /* of the table; only who runs long looks for a newer one */
    struct zr_soft_fence  *fence;
    struct zr_soft_fence **deps;
    unsigned               num_deps, max_deps;
    struct zr_soft_fence  *start; /* waits for its start; NULL: no */
    atomic_int             error; /* negative errno: stop */
    unsigned               width, finished;
    uint64_t               progress_ns; /* when one of its batches last got on */
    struct zr_soft_batch   batch[];
};

struct zr_soft_req *zr_soft_req_new(struct zr_soft_ctx *ctx, struct zr_soft_slot *slot);
/* What is bound by now; with the lock held. */
void zr_soft_req_rebind(struct zr_soft_req *req);
int  zr_soft_req_await(struct zr_soft_req *req, struct zr_soft_fence *fence);
/* Only until the other request has started. */
void zr_soft_req_await_start(struct zr_soft_req *req, struct zr_soft_fence *fence);
void zr_soft_req_free(struct zr_soft_req *req);
/* Hand over; small work is done before it returns. The lock is given up meanwhile. */
void zr_soft_req_submit(struct zr_soft_req *req);
/* Cancel what a context has in flight. */
void zr_soft_ctx_kill(struct zr_soft_ctx *ctx);
/* Reset all engines: nobody is to blame, and what ran runs again from its start; lost: all that was
 * submitted is cancelled, and the device takes nothing more. */
void zr_soft_dev_reset(struct zr_soft_dev *dev, bool lost);
/* Reset engines: what is on one hangs; or end all there is without blame. */
void zr_soft_dev_reset_active(struct zr_soft_dev *dev);
void zr_soft_dev_cancel(struct zr_soft_dev *dev);
/* No batch is being run between these; the lock is given up meanwhile. */
void zr_soft_engines_pause(struct zr_soft_dev *dev);
void zr_soft_engines_resume(struct zr_soft_dev *dev);
/* Start what can start. */
void zr_soft_dispatch(struct zr_soft_dev *dev);
void zr_soft_threads_stop(struct zr_soft_dev *dev);
uint64_t zr_soft_timestamp(const struct zr_soft_dev *dev);

#endif
