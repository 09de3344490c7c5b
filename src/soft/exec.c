/* EXECBUFFER2: the kernel's checks in the kernel's order (i915_gem_execbuffer.c), then bind and
 * submit. */
/* SPDX-License-Identifier: BSD-3-Clause */
#include "exec.h"

#include <errno.h>
#include <stdlib.h>

static bool zr_soft_exec_is_batch(const struct zr_soft_exec *x, unsigned index)
{
    return x->args->flags & I915_EXEC_BATCH_FIRST ? index < x->width
                                                  : index >= x->count - x->width;
}

uint64_t zr_soft_canonical(const struct zr_soft_dev *dev, uint64_t address)
{
    unsigned shift = 64 - dev->profile.gtt_bits;

    return (uint64_t)((int64_t)(address << shift) >> shift);
}

uint64_t zr_soft_plain(const struct zr_soft_dev *dev, uint64_t address)
{
    return address & ((UINT64_C(1) << dev->profile.gtt_bits) - 1);
}

static int zr_soft_exec_check_args(const struct drm_i915_gem_execbuffer2 *args)
{
    const uint64_t extended = I915_EXEC_FENCE_ARRAY | I915_EXEC_USE_EXTENSIONS;

    if (args->buffer_count < 1 || args->buffer_count > INT32_MAX) {
        return -EINVAL;
    }
    if (args->flags & (__I915_EXEC_UNKNOWN_FLAGS | I915_EXEC_CONSTANTS_MASK |
                       I915_EXEC_RESOURCE_STREAMER)) {
        return -EINVAL;
    }
    if (!(args->flags & extended) && (args->num_cliprects != 0 || args->cliprects_ptr != 0)) {
        return -EINVAL;
    }
    if (args->DR4 != 0 && args->DR4 != 0xffffffff) {
        return -EINVAL; /* the latter is tolerated for an old client's sake */
    }
    if (args->DR1 != 0 || ((args->batch_start_offset | args->batch_len) & 7)) {
        return -EINVAL;
    }
    return 0;
}

/* A request takes so many bytes of a ring of 16 KiB; the parent of a set more, as it tells each child
 * to start and waits for it. An execbuf that finds less than a page free waits until half is. */
#define ZR_SOFT_RING_BYTES    (16 * 1024)
#define ZR_SOFT_RING_FREE     (4 * 1024)
#define ZR_SOFT_REQUEST_BYTES 200
#define ZR_SOFT_CHILD_BYTES   32

/* Requests that a ring of @a bytes holds. Dirty: of a kernel whose requests are longer. */
static unsigned zr_soft_ring_holds(const struct zr_soft_exec *x, unsigned bytes)
{
    unsigned request = ZR_SOFT_REQUEST_BYTES + (x->width - 1) * ZR_SOFT_CHILD_BYTES;

    return bytes / (x->file->dev->dirty & ZR_SOFT_DIRTY_RING ? 8 * request : request);
}

/* Slot of a context without an engine map; -1: none. */
static int zr_soft_exec_legacy(const struct zr_soft_exec *x)
{
    unsigned ring = x->args->flags & I915_EXEC_RING_MASK;
    unsigned bsd  = x->args->flags & I915_EXEC_BSD_MASK;

    if (ring != I915_EXEC_BSD) {
        return bsd == 0 && ring < ZR_SOFT_LEGACY_BSD2 ? (int)ring : -1;
    }
    if (!x->ctx->slot[ZR_SOFT_LEGACY_BSD2].valid || bsd == I915_EXEC_BSD_DEFAULT ||
        bsd == I915_EXEC_BSD_RING1) {
        return ring;
    }
    return bsd == I915_EXEC_BSD_RING2 ? ZR_SOFT_LEGACY_BSD2 : -1;
}

/* Wait for room. The context may be closed meanwhile, and handles too: nothing of them has been
 * looked at. */
static int zr_soft_exec_throttle(struct zr_soft_exec *x)
{
    struct zr_soft_slot *slot = x->slot;
    unsigned             room = zr_soft_ring_holds(x, ZR_SOFT_RING_BYTES - ZR_SOFT_RING_FREE);
    int                  ret  = 0;

    if (slot->num_reqs > 0 && slot->num_reqs >= room) {
        room = ZR_MAX(zr_soft_ring_holds(x, ZR_SOFT_RING_BYTES / 2), 1u);
    }
    while (ret == 0 && slot->num_reqs > 0 && slot->num_reqs >= room && !x->ctx->banned) {
        ret = x->file->nonblock ? -EWOULDBLOCK : zr_soft_wait_signal(x->file->dev, INT64_MAX);
    }
    return ret;
}

static int zr_soft_exec_select(struct zr_soft_exec *x)
{
    struct zr_soft_ctx *ctx   = zr_soft_ctx_find(x->file, (uint32_t)x->args->rsvd1);
    unsigned            index = x->args->flags & I915_EXEC_RING_MASK;

    if (ctx == NULL) {
        return -ENOENT;
    }
    x->ctx = ctx;
    ctx->refs++;
    if (!ctx->user_engines) {
        index = (unsigned)zr_soft_exec_legacy(x);
    }
    if (index >= ctx->num_slots || !ctx->slot[index].valid) {
        return -EINVAL;
    }
    x->slot  = &x->ctx->slot[index];
    x->width = x->slot->width;
    if (x->width > 1 && x->tells) {
        return -EINVAL; /* a set tells nobody by a fence in memory */
    }
    if (x->width > 1 && (x->count < x->width || x->args->batch_start_offset != 0 ||
                         x->args->batch_len != 0)) {
        return -EINVAL;
    }
    return x->file->dev->wedged ? -EIO : 0;
}

static int zr_soft_exec_check_object(const struct zr_soft_exec *x, unsigned i)
{
    struct zr_soft_dev               *dev    = x->file->dev;
    struct drm_i915_gem_exec_object2 *object = &x->object[i];
    const struct zr_soft_bo          *bo     = x->bo[i];
    uint64_t start = x->args->batch_start_offset, length = x->args->batch_len;

    if (object->relocation_count != 0 && dev->profile.gen != ZR_SOFT_GEN12) {
        return -EINVAL; /* none after Tiger Lake */
    }
    if (object->flags & (__EXEC_OBJECT_UNKNOWN_FLAGS | EXEC_OBJECT_NEEDS_GTT)) {
        return -EINVAL;
    }
    if (object->alignment & (object->alignment - 1)) {
        return -EINVAL;
    }
    if ((object->flags & EXEC_OBJECT_PINNED) &&
        object->offset != zr_soft_canonical(dev, object->offset & ~(uint64_t)(ZR_SOFT_PAGE - 1))) {
        return -EINVAL;
    }
    if ((object->flags & EXEC_OBJECT_PAD_TO_SIZE) && object->pad_to_size % ZR_SOFT_PAGE != 0) {
        return -EINVAL;
    }
    if (zr_soft_exec_is_batch(x, i)) {
        if (object->flags & EXEC_OBJECT_WRITE) {
            return -EINVAL;
        }
        if (start > bo->size || length > bo->size - start || (length == 0 && start == bo->size)) {
            return -EINVAL;
        }
    }
    return 0;
}

/* The object that VM_BIND has put where a pinned one is said to be, whatever its handle. */
static struct zr_soft_bo *zr_soft_exec_lasting(const struct zr_soft_exec *x, unsigned i)
{
    const struct zr_soft_entry *entry = NULL;

    if (x->object[i].flags & EXEC_OBJECT_PINNED) {
        entry = zr_soft_vm_lasting(x->ctx->vm, zr_soft_plain(x->file->dev, x->object[i].offset));
    }
    return entry != NULL ? entry->bo : NULL;
}

static int zr_soft_exec_lookup(struct zr_soft_exec *x)
{
    unsigned i;
    int      ret;

    for (i = 0; i < x->count; i++) {
        x->bo[i] = zr_soft_exec_lasting(x, i);
        x->lasting[i] = x->bo[i] != NULL;
        if (x->bo[i] == NULL) {
            x->bo[i] = zr_soft_bo_find(x->file, x->object[i].handle);
        }
        if (x->bo[i] == NULL) {
            return -ENOENT;
        }
        x->bytes += x->bo[i]->size;
        ret = zr_soft_exec_check_object(x, i);
        if (ret == 0 && x->bo[i]->user != NULL) {
            ret = zr_soft_bo_check_user(x->bo[i]);
        }
        if (ret != 0) {
            return ret;
        }
    }
    return 0;
}

/* The limits of one object's address: its region's alignment and its zone. */
static void zr_soft_exec_limits(const struct zr_soft_exec *x, unsigned i, uint64_t *alignment_p,
                                uint64_t *limit_p)
{
    *alignment_p = ZR_MAX(zr_soft_bo_alignment(x->bo[i]), x->object[i].alignment);
    *limit_p     = UINT64_C(1) << x->file->dev->profile.gtt_bits;
    if (!(x->object[i].flags & EXEC_OBJECT_SUPPORTS_48B_ADDRESS)) {
        *limit_p = ZR_MIN(*limit_p, (UINT64_C(1) << 32) - ZR_SOFT_PAGE);
    }
}

/* What it takes in the address space: clients may ask for more than there is. */
static uint64_t zr_soft_exec_size(const struct zr_soft_exec *x, unsigned i)
{
    uint64_t size = x->bo[i]->size;

    return x->object[i].flags & EXEC_OBJECT_PAD_TO_SIZE ? ZR_MAX(size, x->object[i].pad_to_size)
                                                        : size;
}

/* Pinned objects first, so that the others go where there is room. Two passes over them: what
 * leaves its place must be gone before another takes it. */
static int zr_soft_exec_bind_pinned(struct zr_soft_exec *x)
{
    struct zr_soft_vm         *vm = x->ctx->vm;
    const struct zr_soft_bind *bind;
    uint64_t                   start, alignment, limit;
    unsigned                   i, pass;
    bool                       bound = true; /* all of them, where they shall be */
    int                        ret;

    for (pass = 0; pass < (bound ? 1u : 2u); pass++) {
        for (i = 0; i < x->count; i++) {
            if (!(x->object[i].flags & EXEC_OBJECT_PINNED) || x->lasting[i]) {
                continue;
            }
            start = zr_soft_plain(vm->dev, x->object[i].offset);
            bind  = zr_soft_vm_find(vm, x->bo[i]);
            if (pass == 0) {
                zr_soft_exec_limits(x, i, &alignment, &limit);
                if (start % alignment != 0 || start > limit ||
                    zr_soft_exec_size(x, i) > limit - start) {
                    return -EINVAL;
                }
                if (bind == NULL) {
                    bound = false;
                } else if (bind->start != start || bind->size < zr_soft_exec_size(x, i)) {
                    zr_soft_vm_unbind(vm, x->bo[i]);
                    bound = false;
                }
            } else if (bind == NULL) {
                ret = zr_soft_vm_bind(vm, x->bo[i], start, zr_soft_exec_size(x, i));
                if (ret != 0) {
                    return ret;
                }
            } else if (bind->start != start) {
                return -ENOSPC; /* listed twice, at two places */
            }
        }
    }
    return 0;
}

/* Where an object goes that is not pinned: where the client thinks it is if that will do and is
 * free, else anywhere. 0 or -ENOSPC */
static int zr_soft_exec_place(const struct zr_soft_exec *x, unsigned i, uint64_t alignment,
                              uint64_t limit, uint64_t *start_p)
{
    struct zr_soft_vm *vm    = x->ctx->vm;
    uint64_t           size  = zr_soft_exec_size(x, i);
    uint64_t           start = zr_soft_plain(vm->dev, x->object[i].offset) &
                     ~(uint64_t)(ZR_SOFT_PAGE - 1);

    if (!(vm->dev->dirty & ZR_SOFT_DIRTY_HIGH) && start % alignment == 0 && start <= limit &&
        size <= limit - start && zr_soft_vm_is_free(vm, start, size)) {
        *start_p = start;
        return 0;
    }
    return zr_soft_vm_hole(vm, size, alignment, limit, start_p);
}

static int zr_soft_exec_bind_others(struct zr_soft_exec *x)
{
    struct zr_soft_vm         *vm = x->ctx->vm;
    const struct zr_soft_bind *bind;
    uint64_t                   start, alignment, limit, size;
    unsigned                   i;
    int                        ret;

    for (i = 0; i < x->count; i++) {
        if (x->object[i].flags & EXEC_OBJECT_PINNED) {
            continue;
        }
        zr_soft_exec_limits(x, i, &alignment, &limit);
        size = zr_soft_exec_size(x, i);
        bind = zr_soft_vm_find(vm, x->bo[i]);
        if (bind != NULL && bind->start % alignment == 0 && bind->size >= size &&
            bind->start + bind->size <= limit &&
            !zr_soft_dirty_one_in(vm->dev, ZR_SOFT_DIRTY_EVICT, 2)) {
            continue;
        }
        zr_soft_vm_unbind(vm, x->bo[i]);
        ret = zr_soft_exec_place(x, i, alignment, limit, &start);
        if (ret == 0) {
            ret = zr_soft_vm_bind(vm, x->bo[i], start, size);
        }
        if (ret != 0) {
            return ret;
        }
    }
    return 0;
}

static int zr_soft_exec_bind(struct zr_soft_exec *x)
{
    const struct zr_soft_bind *bind;
    uint64_t                   start;
    unsigned                   i;
    int                        ret;

    x->file->dev->exec_count++;
    for (i = 0; i < x->count; i++) {
        if (x->object[i].flags & EXEC_OBJECT_PINNED) {
            x->bo[i]->exec = x->file->dev->exec_count;
        }
    }
    if (x->file->dev->dirty != 0) {
        zr_soft_dirty_evict(x->ctx->vm);
        if (zr_soft_dirty_one_in(x->file->dev, ZR_SOFT_DIRTY_NOSPC, 8)) {
            return -ENOSPC;
        }
    }
    ret = zr_soft_exec_bind_pinned(x);
    if (ret == 0) {
        ret = zr_soft_exec_bind_others(x);
    }
    for (i = 0; ret == 0 && i < x->count; i++) {
        x->moved[i] = false;
        if (x->lasting[i]) {
            continue;
        }
        bind = zr_soft_vm_find(x->ctx->vm, x->bo[i]);
        if (bind == NULL) {
            return -ENOMEM;
        }
        start = zr_soft_canonical(x->file->dev, bind->start);
        zr_soft_shadow_use(x->bo[i]);
        x->relocate |= x->object[i].offset != start;
        x->moved[i]         = x->object[i].offset != start;
        x->object[i].offset = start;
    }
    return ret;
}

/* What must be over before: fences given, and (unless ASYNC) who writes or reads each object. */
static int zr_soft_exec_await(const struct zr_soft_exec *x, struct zr_soft_req *req)
{
    const struct zr_soft_bo *bo;
    unsigned                 i, j;
    int                      ret = zr_soft_exec_await_fences(x, req);

    for (i = 0; ret == 0 && i < x->count; i++) {
        bo = x->bo[i];
        if (x->object[i].flags & EXEC_OBJECT_ASYNC) {
            continue;
        }
        if (bo->write != NULL) {
            ret = zr_soft_req_await(req, bo->write);
        }
        if (!(x->object[i].flags & EXEC_OBJECT_WRITE)) {
            continue;
        }
        for (j = 0; ret == 0 && j < bo->num_reads; j++) {
            ret = zr_soft_req_await(req, bo->reads[j]);
        }
    }
    return ret;
}

static int zr_soft_exec_submit(struct zr_soft_exec *x)
{
    struct zr_soft_req *req = zr_soft_req_new(x->ctx, x->slot);
    unsigned            i, row = 0;
    int                 ret, fd;

    if (req == NULL) {
        return -ENOMEM;
    }
    ret = zr_soft_exec_await(x, req);
    if (ret == 0 && (x->args->flags & I915_EXEC_FENCE_OUT)) {
        ret = zr_soft_fence_export(x->file->dev, req->fence, &fd);
        if (ret == 0) {
            x->args->rsvd2 = (uint32_t)x->args->rsvd2 | (uint64_t)fd << 32;
        }
    }
    if (ret != 0) {
        zr_soft_req_free(req);
        return ret;
    }
    for (i = 0; i < x->count; i++) {
        if (zr_soft_exec_is_batch(x, i)) {
            req->batch[row++].start = zr_soft_plain(x->file->dev, x->object[i].offset) +
                                      x->args->batch_start_offset;
        }
        zr_soft_bo_add_fence(x->bo[i], req->fence, x->object[i].flags & EXEC_OBJECT_WRITE);
    }
    req->tells      = x->tells;
    req->tell_at    = x->tell_at;
    req->tell_value = x->tell_value;
    ret = zr_soft_exec_signal_fences(x, req->fence);
    zr_soft_req_choose_copy(req, x->bytes);
    zr_soft_req_submit(req);
    return ret;
}

/* Tell the caller where objects are that are not where it thought. */
static void zr_soft_exec_tell(const struct zr_soft_exec *x)
{
    uint64_t at = x->args->buffers_ptr + offsetof(struct drm_i915_gem_exec_object2, offset);
    unsigned i;

    for (i = 0; x->relocate && i < x->count; i++) {
        if (x->moved[i]) {
            zr_soft_copy_out(at + i * sizeof(*x->object), &x->object[i].offset,
                             sizeof(x->object[i].offset));
        }
    }
}

static int zr_soft_exec_check_ban(struct zr_soft_exec *x)
{
    return x->ctx->banned ? -EIO : 0;
}

/* What the kernel finds when the request is made already. */
static int zr_soft_exec_check_request(struct zr_soft_exec *x)
{
    return x->args->flags & I915_EXEC_GEN7_SOL_RESET ? -EINVAL : 0; /* of generation 7 alone */
}

static int zr_soft_exec_run(struct zr_soft_exec *x)
{
    /* In the kernel's order; each returns 0 or the errno that ends it. */
    static int (*const steps[])(struct zr_soft_exec *) = {
        zr_soft_exec_read_fences, zr_soft_exec_read_in_fence, zr_soft_exec_select,
        zr_soft_exec_throttle,    zr_soft_exec_lookup,        zr_soft_exec_check_ban,
        zr_soft_exec_bind,        zr_soft_exec_relocate,      zr_soft_exec_check_request,
        zr_soft_exec_submit,
    };
    unsigned i;
    int      ret;

    ret = zr_soft_copy_in(x->object, x->args->buffers_ptr, x->count * sizeof(*x->object));
    if (ret == 0 && (x->args->flags & I915_EXEC_SECURE)) {
        ret = -ENODEV; /* gen11 and later */
    }
    x->relocate = !(x->args->flags & I915_EXEC_NO_RELOC);
    for (i = 0; ret == 0 && i < ZR_ARRAY_SIZE(steps); i++) {
        ret = steps[i](x);
    }
    if (ret == 0) {
        zr_soft_exec_tell(x);
    }
    return ret;
}

int zr_soft_execbuffer2(struct zr_soft_file *file, void *data)
{
    struct drm_i915_gem_execbuffer2 *args = data;
    struct zr_soft_exec              x    = {.file = file, .args = args};
    int                              ret;

    ret = zr_soft_exec_check_args(args);
    if (ret != 0) {
        return ret;
    }
    x.count  = args->buffer_count;
    x.object = malloc(x.count * sizeof(*x.object));
    x.bo     = malloc(x.count * sizeof(*x.bo));
    x.moved  = malloc(x.count * 2 * sizeof(*x.moved)); /* both lists of them */
    ret      = -ENOMEM;
    if (x.object != NULL && x.bo != NULL && x.moved != NULL) {
        x.lasting = x.moved + x.count;
        ret       = zr_soft_exec_run(&x);
    }
    zr_soft_exec_drop_fences(&x);
    if (x.ctx != NULL) {
        zr_soft_ctx_put(x.ctx);
    }
    free(x.moved);
    free(x.bo);
    free(x.object);
    return ret;
}
