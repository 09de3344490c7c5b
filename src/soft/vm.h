/* Address spaces, contexts, and what backports rules add to both. Part of soft.h. */
/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef ZR_SOFT_VM_H
#define ZR_SOFT_VM_H

#include "gem.h"

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

#endif
