/* Copy queues: create, build and submit. */
/* SPDX-License-Identifier: BSD-3-Clause */
#include "queue.h"

#include "util/config.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#define ZR_DESTROY_LIMIT_NS UINT64_C(10000000000)

/* ---- life ---- */

static void zr_copyq_find_first(struct zr_copyq *q)
{
    q->first_single = zr_ctx_single(q->ctx) == 0;
    q->first_row    = 0;
    while (q->first_row < q->width && (zr_ctx_siblings(q->ctx) > 1 ||
                                       zr_ctx_engine_at(q->ctx, q->first_row, 0) != 0)) {
        q->first_row++;
    }
}

/* The rate of a row is that of the slowest engine it may run on. */
static bool zr_copyq_read_rates(struct zr_copyq *q)
{
    const struct zr_config *config = zr_config();
    unsigned                row, column, instance;

    for (row = 0; row < q->width; row++) {
        q->rate[row] = UINT32_MAX;
        for (column = 0; column < zr_ctx_siblings(q->ctx); column++) {
            instance     = zr_ctx_engine_at(q->ctx, row, column);
            q->rate[row] = ZR_MIN(q->rate[row], instance < config->num_rates ?
                                                    config->engine_rate[instance] :
                                                    1u);
        }
    }
    return config->num_rates > 0;
}

ze_result_t zr_copyq_create(struct zr_i915 *dev, unsigned max_width, struct zr_copyq **q_p)
{
    const struct zr_i915_info *info   = zr_i915_info(dev);
    unsigned                   limit  = zr_config()->engines;
    struct zr_copyq           *q      = calloc(1, sizeof(*q));
    ze_result_t                result;
    void                      *map;

    if (q == NULL) {
        return zr_fail(ZE_RESULT_ERROR_OUT_OF_HOST_MEMORY, "copy queue: out of memory");
    }
    if (limit != 0 && (max_width == 0 || max_width > limit)) {
        max_width = limit;
    }
    q->dev  = dev;
    q->caps = zr_blt_caps(info->gen, info->lmem_size > 0);
    pthread_mutex_init(&q->lock, NULL);
    pthread_cond_init(&q->pump_wake, NULL);
    if (!zr_copyq_reserve_lost(q)) {
        result = zr_fail(ZE_RESULT_ERROR_OUT_OF_HOST_MEMORY, "copy queue: out of memory");
        goto err_free;
    }
    result = zr_ctx_create(dev, max_width, &q->ctx);
    if (result != ZE_RESULT_SUCCESS) {
        goto err_free;
    }
    q->width     = zr_ctx_width(q->ctx);
    q->has_rates = zr_copyq_read_rates(q);
    zr_copyq_find_first(q);
    result       = zr_bo_create(dev, ZR_LINES_BYTES + (uint64_t)q->width * ZR_BLT_SCRATCH,
                                ZR_PLACE_SYSTEM, ZR_CACHE_CACHED, &q->page);
    if (result != ZE_RESULT_SUCCESS) {
        goto err_ctx;
    }
    result = zr_bo_map(q->page, NULL, 0, q->page->size, PROT_READ | PROT_WRITE, &map);
    if (result != ZE_RESULT_SUCCESS) {
        goto err_page;
    }
    q->lines = map;
    *q_p     = q;
    return ZE_RESULT_SUCCESS;

err_page:
    zr_bo_unref(q->page);
err_ctx:
    zr_ctx_destroy(q->ctx);
err_free:
    pthread_cond_destroy(&q->pump_wake);
    pthread_mutex_destroy(&q->lock);
    free(q->lost);
    free(q);
    return result;
}

void zr_copyq_destroy(struct zr_copyq *q)
{
    if (zr_copyq_wait(q, atomic_load(&q->last), ZR_DESTROY_LIMIT_NS) == ZE_RESULT_NOT_READY) {
        zr_warn("copy queue: submission %llu is not complete after 10 s, it is cancelled",
                (unsigned long long)atomic_load(&q->last));
    }
    zr_copyq_stop_pump(q);
    /* Ends with the context whatever runs still: after that nothing reads a batch. */
    zr_ctx_destroy(q->ctx);
    for (unsigned i = 0; i < 2; i++) {
        if (q->resting[i] != NULL) {
            zr_slot_push(&q->flying, q->resting[i]);
        }
    }
    zr_slot_free_list(&q->flying);
    zr_slot_free_list(&q->backlog);
    zr_slot_free_list(&q->building);
    zr_slot_free_list(&q->abandoned);
    zr_slot_free_list(&q->free);
    zr_bo_unmap(q->page, q->lines, q->page->size);
    zr_bo_unref(q->page);
    pthread_cond_destroy(&q->pump_wake);
    pthread_mutex_destroy(&q->lock);
    free(q->lost);
    free(q->stamps);
    free(q);
}

unsigned zr_copyq_width(const struct zr_copyq *q)
{
    return q->width;
}

/* ---- building ---- */

void zr_copyq_begin(struct zr_copyq *q)
{
    pthread_mutex_lock(&q->lock);
}

/* The slot that the next piece of work goes to: the newest one where it fits, else a new one.
 * @param wide      wants all engines
 * @param ordered   must come after everything added before and before what follows */
static ze_result_t zr_copyq_slot(struct zr_copyq *q, bool wide, bool ordered,
                                 struct zr_slot **slot_p)
{
    struct zr_slot *slot = q->building.head != NULL ? q->building.tail : NULL;

    /* One batch runs in order by itself; several do not. A short copy may go beside long ones. */
    if (slot != NULL && !slot->closed && (slot->wide ? !ordered : !wide)) {
        *slot_p = slot;
        return ZE_RESULT_SUCCESS;
    }
    return zr_slot_open(q, wide, slot_p);
}

/* What a fill writes; a copy has none. */
struct zr_work {
    const uint8_t *pattern;
    unsigned       pattern_size;
};

static bool zr_bo_is_system(const struct zr_copyq *q, const struct zr_bo *bo)
{
    return bo->placement == ZR_PLACE_SYSTEM || zr_i915_info(q->dev)->lmem_size == 0;
}

static ze_result_t zr_piece_check(const struct zr_copyq *q, const struct zr_bo *bo,
                                  uint64_t offset, uint64_t length)
{
    if (bo->dev != q->dev) {
        return zr_fail(ZE_RESULT_ERROR_INVALID_ARGUMENT,
                       "object %u belongs to another device than the copy queue", bo->handle);
    }
    if (offset > bo->size || length > bo->size - offset) {
        return zr_fail(ZE_RESULT_ERROR_INVALID_ARGUMENT,
                       "object %u of %llu bytes: %llu bytes at %llu are outside", bo->handle,
                       (unsigned long long)bo->size, (unsigned long long)length,
                       (unsigned long long)offset);
    }
    return ZE_RESULT_SUCCESS;
}

static struct zr_blt_side zr_piece_side(const struct zr_copyq *q, const struct zr_bo *bo,
                                        uint64_t offset)
{
    return (struct zr_blt_side){bo->gpu_va + offset, zr_bo_is_system(q, bo)};
}

static ze_result_t zr_copyq_add_piece(struct zr_copyq *q, struct zr_slot *slot, unsigned row,
                                      const struct zr_piece *piece, const struct zr_work *work)
{
    struct zr_blt_out *out = &slot->row[row].out;
    struct zr_blt_side dst, src = {0};
    ze_result_t        result;
    uint64_t           dwords;

    if ((result = zr_piece_check(q, piece->dst, piece->dst_offset, piece->length)) ||
        (piece->src != NULL &&
         (result = zr_piece_check(q, piece->src, piece->src_offset, piece->length)))) {
        return result;
    }
    dst = zr_piece_side(q, piece->dst, piece->dst_offset);
    if (piece->src != NULL) {
        src    = zr_piece_side(q, piece->src, piece->src_offset);
        dwords = zr_blt_copy_dwords(q->caps, piece->length, dst.system || src.system);
    } else {
        dwords = zr_blt_fill_dwords(q->caps, piece->length, dst.system, work->pattern_size);
    }
    if ((result = zr_slot_reserve(q, slot, row, dwords)) ||
        (result = zr_slot_add_object(q, slot, piece->dst, true)) ||
        (piece->src != NULL && (result = zr_slot_add_object(q, slot, piece->src, false)))) {
        return result;
    }
    if (piece->src != NULL) {
        zr_blt_copy(q->caps, out, dst, src, piece->length);
    } else {
        zr_blt_fill(q->caps, out, dst, piece->length, work->pattern, work->pattern_size,
                    piece->position);
    }
    if (slot->bytes == 0) {
        slot->first_address = dst.address;
    }
    slot->bytes += piece->length;
    slot->row[row].load += piece->length + ZR_PIECE_COST;
    return ZE_RESULT_SUCCESS;
}

static unsigned zr_slot_lightest_row(const struct zr_copyq *q, const struct zr_slot *slot)
{
    unsigned i, best = 0;

    for (i = 1; slot->wide && i < q->width; i++) {
        if (slot->row[i].load < slot->row[best].load) {
            best = i;
        }
    }
    return best;
}

static ze_result_t zr_copyq_too_short(const char *what, uint64_t length)
{
    return zr_fail(ZE_RESULT_ERROR_INVALID_ARGUMENT,
                   "%s of %llu bytes: a list of segments is shorter", what,
                   (unsigned long long)length);
}

static ze_result_t zr_copyq_add_short(struct zr_copyq *q, const struct zr_walk *start,
                                      const struct zr_work *work)
{
    struct zr_walk  walk = *start;
    struct zr_piece piece;
    struct zr_slot *slot;
    ze_result_t     result;
    unsigned        row;
    int             more;

    result = zr_copyq_slot(q, false, false, &slot);
    if (result != ZE_RESULT_SUCCESS) {
        return result;
    }
    row = zr_slot_lightest_row(q, slot);
    while ((more = zr_walk_next(&walk, UINT64_MAX, &piece)) > 0) {
        result = zr_copyq_add_piece(q, slot, row, &piece, work);
        if (result != ZE_RESULT_SUCCESS) {
            return result;
        }
    }
    return more == 0 ? ZE_RESULT_SUCCESS :
                       zr_copyq_too_short(work != NULL ? "fill" : "copy", start->left);
}

static ze_result_t zr_copyq_add_wide(struct zr_copyq *q, const struct zr_walk *start,
                                     const struct zr_work *work)
{
    struct zr_plan  plan;
    struct zr_piece piece;
    struct zr_slot *slot;
    ze_result_t     result;
    unsigned        row;

    if (!zr_plan_init(&plan, start, q->width, q->has_rates ? q->rate : NULL,
                      zr_blt_drain_bytes(q->caps))) {
        return zr_copyq_too_short(work != NULL ? "fill" : "copy", start->left);
    }
    result = zr_copyq_slot(q, true, false, &slot);
    while (result == ZE_RESULT_SUCCESS && zr_plan_next(&plan, &piece, &row)) {
        result = zr_copyq_add_piece(q, slot, row, &piece, work);
    }
    return result;
}

static ze_result_t zr_copyq_add(struct zr_copyq *q, const struct zr_walk *walk,
                                const struct zr_work *work)
{
    if (walk->left == 0) {
        return ZE_RESULT_SUCCESS;
    }
    if (q->width > 1 && walk->left >= zr_config()->split_threshold) {
        return zr_copyq_add_wide(q, walk, work);
    }
    return zr_copyq_add_short(q, walk, work);
}

ze_result_t zr_copyq_copy(struct zr_copyq *q, const struct zr_seg *dst, unsigned dst_count,
                          const struct zr_seg *src, unsigned src_count, uint64_t length)
{
    struct zr_walk walk;

    if (length > 0 && src_count == 0) {
        return zr_copyq_too_short("copy", length);
    }
    zr_walk_init(&walk, dst, dst_count, src, src_count, length);
    return zr_copyq_add(q, &walk, NULL);
}

ze_result_t zr_copyq_fill(struct zr_copyq *q, const struct zr_seg *dst, unsigned dst_count,
                          uint64_t length, const void *pattern, size_t pattern_size)
{
    struct zr_work work = {pattern, (unsigned)pattern_size};
    struct zr_walk walk;

    if (pattern_size == 0 || pattern_size > ZR_BLT_MAX_PATTERN ||
        (pattern_size & (pattern_size - 1)) != 0) {
        return zr_fail(ZE_RESULT_ERROR_INVALID_SIZE,
                       "a fill pattern of %zu bytes is not possible, allowed: powers of two to %u",
                       pattern_size, ZR_BLT_MAX_PATTERN);
    }
    zr_walk_init(&walk, dst, dst_count, NULL, 0, length);
    return zr_copyq_add(q, &walk, &work);
}

ze_result_t zr_copyq_barrier(struct zr_copyq *q)
{
    struct zr_slot *slot = q->building.head != NULL ? q->building.tail : NULL;
    ze_result_t     result;

    if (slot == NULL) {
        return ZE_RESULT_SUCCESS; /* a submission starts after the one before it */
    }
    if (slot->wide) {
        slot->closed = true;
        return ZE_RESULT_SUCCESS;
    }
    result = zr_slot_reserve(q, slot, 0, ZR_BLT_FLUSH_DWORDS);
    if (result == ZE_RESULT_SUCCESS) {
        zr_blt_flush(q->caps, &slot->row[0].out);
    }
    return result;
}

/* Room in a single batch for a command on the word at bo+offset. */
static ze_result_t zr_copyq_word(struct zr_copyq *q, struct zr_bo *bo, uint64_t offset,
                                 unsigned size, unsigned dwords, bool write,
                                 struct zr_blt_out **out_p)
{
    struct zr_slot *slot;
    ze_result_t     result;

    if (offset % size != 0) {
        return zr_fail(ZE_RESULT_ERROR_UNSUPPORTED_ALIGNMENT,
                       "object %u: word at offset %llu is not aligned to %u bytes", bo->handle,
                       (unsigned long long)offset, size);
    }
    if ((result = zr_piece_check(q, bo, offset, size)) ||
        (result = zr_copyq_slot(q, false, true, &slot)) ||
        (result = zr_slot_reserve(q, slot, 0, dwords)) ||
        (result = zr_slot_add_object(q, slot, bo, write))) {
        return result;
    }
    *out_p = &slot->row[0].out;
    return ZE_RESULT_SUCCESS;
}

ze_result_t zr_copyq_wait_word(struct zr_copyq *q, struct zr_bo *bo, uint64_t offset,
                               uint32_t value, enum zr_wait_op op)
{
    struct zr_blt_out *out;
    ze_result_t result = zr_copyq_word(q, bo, offset, 4, ZR_BLT_WAIT_DWORDS, false, &out);

    if (result == ZE_RESULT_SUCCESS) {
        zr_blt_wait(out, bo->gpu_va + offset, value, op);
    }
    return result;
}

ze_result_t zr_copyq_write_qword(struct zr_copyq *q, struct zr_bo *bo, uint64_t offset,
                                 uint64_t value)
{
    struct zr_blt_out *out;
    ze_result_t result = zr_copyq_word(q, bo, offset, 8, ZR_BLT_FLUSH_DWORDS, true, &out);

    if (result == ZE_RESULT_SUCCESS) {
        zr_blt_flush_write(q->caps, out, bo->gpu_va + offset, value);
    }
    return result;
}

ze_result_t zr_copyq_write_timestamp(struct zr_copyq *q, struct zr_bo *bo, uint64_t offset)
{
    struct zr_blt_out *out;
    ze_result_t result = zr_copyq_word(q, bo, offset, 8, ZR_BLT_FLUSH_DWORDS, true, &out);

    if (result == ZE_RESULT_SUCCESS) {
        zr_blt_flush_timestamp(q->caps, out, bo->gpu_va + offset);
    }
    return result;
}

/* ---- submission ---- */

static void zr_copyq_drop_building(struct zr_copyq *q)
{
    struct zr_slot *slot;

    while ((slot = zr_slot_pop(&q->building)) != NULL) {
        zr_slot_recycle(q, slot);
    }
}

void zr_copyq_abort(struct zr_copyq *q)
{
    zr_copyq_drop_building(q);
    pthread_mutex_unlock(&q->lock);
}

/* The kernel has no room for it: as if its batches had not been ended yet. */
static ze_result_t zr_copyq_full(struct zr_copyq *q, struct zr_slot *slot, const unsigned *used,
                                 const bool *dirty)
{
    unsigned rows = slot->wide ? q->width : 1, i;

    for (i = 0; i < rows; i++) {
        slot->row[i].out.used  = used[i];
        slot->row[i].out.dirty = dirty[i];
    }
    q->sequence--;
    zr_copyq_found_full(q, slot->wide);
    return ZE_RESULT_NOT_READY;
}

/* One execbuf2. It waits in the kernel for the slot before it unless that is complete or both
 * run on the one engine, which is in order by itself. */
ze_result_t zr_copyq_exec(struct zr_copyq *q, struct zr_slot *slot)
{
    unsigned      rows = slot->wide ? q->width : 1, i, used[ZR_MAX_ENGINES];
    struct zr_bo *batches[ZR_MAX_ENGINES];
    bool          idle, wait_prev, dirty[ZR_MAX_ENGINES];
    ze_result_t   result;

    slot->sequence = ++q->sequence;
    for (i = 0; i < rows; i++) {
        used[i]  = slot->row[i].out.used;
        dirty[i] = slot->row[i].out.dirty;
        zr_blt_flush_write(q->caps, &slot->row[i].out, q->page->gpu_va + i * 64, slot->sequence);
        zr_blt_end(&slot->row[i].out);
        batches[i] = slot->row[i].bo;
    }
    zr_copyq_reap(q);
    idle      = q->flying.head == NULL;
    wait_prev = !idle && (q->flying.tail->wide || slot->wide) && q->width > 1;
    if (idle) {
        q->progress_ns = zr_time_ns();
    }
    result = zr_ctx_exec(q->ctx, slot->wide, batches, slot->objects, slot->count, wait_prev);
    if (result == ZE_RESULT_ERROR_OUT_OF_DEVICE_MEMORY && !idle) {
        /* What flies holds its objects in place: once it is over they can make room. */
        zr_warn("%s; waiting for what is in flight", zr_last_error());
        if (zr_copyq_drain(q)) {
            q->progress_ns = zr_time_ns();
            result = zr_ctx_exec(q->ctx, slot->wide, batches, slot->objects, slot->count, false);
        }
    }
    return result == ZE_RESULT_NOT_READY ? zr_copyq_full(q, slot, used, dirty) : result;
}

/* A submission was refused: what was lost with it, and an error that names the copy. */
static void zr_copyq_refused(struct zr_copyq *q, ze_result_t result, uint64_t bytes,
                             uint64_t address)
{
    char cause[256];

    snprintf(cause, sizeof(cause), "%s", zr_last_error());
    zr_copyq_drop_building(q);
    if (result == ZE_RESULT_ERROR_DEVICE_LOST) {
        zr_copyq_lose(q, cause);
    }
    if (bytes > 0) {
        zr_fail(result, "copy of %llu bytes to GPU address 0x%llx: %s", (unsigned long long)bytes,
                (unsigned long long)address, cause);
    } else {
        zr_fail(result, "%s", cause);
    }
}

/* In order, and only where it does not block. */
static bool zr_copyq_may_launch(struct zr_copyq *q, bool wide)
{
    if (q->backlog.head == NULL && zr_copyq_has_room(q, wide)) {
        return true;
    }
    zr_copyq_reap(q);
    zr_copyq_pump(q);
    return q->backlog.head == NULL && zr_copyq_has_room(q, wide);
}

ze_result_t zr_copyq_submit(struct zr_copyq *q, uint64_t *seqno_p)
{
    ze_result_t     result = ZE_RESULT_SUCCESS;
    struct zr_slot *slot;
    uint64_t        number = atomic_load(&q->last) + 1, bytes = 0, address = 0;

    if (q->building.head == NULL) {
        result = zr_slot_open(q, false, &slot);
    }
    for (slot = q->building.head; slot != NULL; slot = slot->next) {
        address = (bytes == 0) ? slot->first_address : address;
        bytes += slot->bytes;
    }
    while (result == ZE_RESULT_SUCCESS && (slot = q->building.head) != NULL) {
        result = zr_copyq_may_launch(q, slot->wide) ? zr_copyq_exec(q, slot) : ZE_RESULT_NOT_READY;
        if (result == ZE_RESULT_SUCCESS) {
            zr_slot_pop(&q->building);
            slot->number = q->building.head == NULL ? number : 0;
            zr_copyq_launched(q, slot);
        } else if (result == ZE_RESULT_NOT_READY) {
            result = ZE_RESULT_SUCCESS;
            if (q->flying.head == NULL && q->backlog.head == NULL) {
                continue; /* not a full ring: again, and what it says then is for the caller */
            }
            if (zr_copyq_defer(q, number)) {
                break;
            }
            /* No thread to give it later: this one waits. */
            (void)zr_ctx_wait(q->ctx, ZR_PUMP_SLICE_NS);
            zr_copyq_look(q, UINT64_MAX);
        }
    }
    if (result == ZE_RESULT_SUCCESS) {
        atomic_store(&q->last, number);
        *seqno_p = number;
    } else {
        zr_copyq_refused(q, result, bytes, address);
    }
    pthread_mutex_unlock(&q->lock);
    return result;
}
