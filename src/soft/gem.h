/* Buffer objects and the memory behind them. Part of soft.h. */
/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef ZR_SOFT_GEM_H
#define ZR_SOFT_GEM_H

#include "fence.h"

/* ---- gem.c, userptr.c, mmap.c: buffer objects, each with sealed memory of its own or the
 * caller's pages ---- */

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

#endif
