/* Copies and fills with memory of other devices; far.h has the drawing. */
/* SPDX-License-Identifier: BSD-3-Clause */
#include "far.h"

#include "blt/plan.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#define ZR_FAR_BUFFERS   16               /* the buffer, in longest staging pieces of the stream */
#define ZR_FAR_GO(i)     ((i) * 128u)      /* written by the stream's queue */
#define ZR_FAR_DONE(i)   ((i) * 128u + 64) /* by the other device's */
#define ZR_FAR_TIME      (ZR_MAX_DEVICES * 128u)
#define ZR_FAR_BUFFER    4096u             /* where the buffer begins */
#define ZR_FAR_LAST_WORD UINT32_C(0xfff00000)
#define ZR_FAR_LIMIT_NS  UINT64_C(10000000000)

/* A device beside the stream's. */
struct zr_far_side {
    _Atomic(struct zr_copyq *) q;    /* made when first used */
    struct zr_bo              *bo;   /* words and buffer, on that device; borrowed from phys */
    _Atomic uint64_t           last; /* its newest submission that may not be complete */
    bool                       open; /* its build */
    bool                       busy; /* in the phase being built */
};

struct zr_far {
    struct zr_phys    *phys; /* words and buffer */
    struct zr_bo      *bo;   /* on the stream's device; borrowed from phys */
    uint64_t           size; /* of the buffer */
    uint32_t           number;
    uint64_t           seqno; /* of the stream's newest submission with others in it */
    struct zr_far_side side[ZR_MAX_DEVICES];
    pthread_mutex_t    check_lock; /* one thread looks for a loss */
};

/* ---- the buffer and the queues ---- */

static ze_result_t zr_far_new(struct zr_stream *stream, struct zr_far **far_p)
{
    struct zr_far *far = calloc(1, sizeof(*far));
    ze_result_t    result;

    if (far == NULL) {
        return zr_fail(ZE_RESULT_ERROR_OUT_OF_HOST_MEMORY, "no memory for copies across devices");
    }
    far->size = ZR_FAR_BUFFERS * ZR_MAX(stream->staging_size, (size_t)ZR_STAGE_MAX);
    result    = zr_phys_create(stream->device->i915, ZR_BACKING_SECTION, ZR_CACHE_CACHED,
                               ZR_ALIGN_UP(ZR_FAR_BUFFER + far->size, ZR_PAGE_SMALL), 0,
                               &far->phys);
    if (result != ZE_RESULT_SUCCESS) {
        free(far);
        return result;
    }
    result = zr_phys_bo(far->phys, stream->device->i915, &far->bo);
    if (result != ZE_RESULT_SUCCESS) {
        zr_phys_unref(far->phys);
        free(far);
        return result;
    }
    pthread_mutex_init(&far->check_lock, NULL);
    zr_staging_count((int64_t)far->size);
    atomic_store_explicit(&stream->far, far, memory_order_release);
    *far_p = far;
    return ZE_RESULT_SUCCESS;
}

static ze_result_t zr_far_get(struct zr_stream *stream, struct zr_far **far_p)
{
    *far_p = atomic_load_explicit(&stream->far, memory_order_relaxed);
    return (*far_p != NULL) ? ZE_RESULT_SUCCESS : zr_far_new(stream, far_p);
}

/* The open build on another device. */
static ze_result_t zr_far_open(struct zr_far *far, const struct zr_device *device)
{
    struct zr_far_side *side = &far->side[device->index];
    struct zr_copyq    *q    = atomic_load_explicit(&side->q, memory_order_relaxed);
    ze_result_t         result;

    if (side->open) {
        return ZE_RESULT_SUCCESS;
    }
    if (q == NULL) {
        result = zr_phys_bo(far->phys, device->i915, &side->bo);
        if (result == ZE_RESULT_SUCCESS) {
            result = zr_copyq_create(device->i915, zr_config()->engines, &q);
        }
        if (result != ZE_RESULT_SUCCESS) {
            return result;
        }
        atomic_store_explicit(&side->q, q, memory_order_release);
    }
    zr_copyq_begin(q);
    side->open = true;
    return ZE_RESULT_SUCCESS;
}

/* ---- phases ---- */

/* The queue for work on buffer objects of @a i915, and the buffer as it sees it. The first use of
 * a phase makes the other device wait for everything that the stream's queue has so far. */
static ze_result_t zr_far_enter(struct zr_build *build, struct zr_far *far,
                                const struct zr_i915 *i915, struct zr_copyq **q_p,
                                struct zr_bo **bo_p)
{
    struct zr_stream   *stream = build->stream;
    struct zr_device   *device = zr_device_of(i915);
    struct zr_far_side *side;
    ze_result_t         result;

    if (i915 == stream->device->i915) {
        *q_p  = stream->q;
        *bo_p = far->bo;
        return ZE_RESULT_SUCCESS;
    }
    side   = &far->side[device->index];
    result = zr_far_open(far, device);
    if (result == ZE_RESULT_SUCCESS && !side->busy) {
        result = zr_copyq_write_qword(stream->q, far->bo, ZR_FAR_GO(device->index), far->number);
        if (result == ZE_RESULT_SUCCESS) {
            result = zr_copyq_wait_word(side->q, side->bo, ZR_FAR_GO(device->index), far->number,
                                        ZR_WAIT_GREATER_EQUAL);
        }
        side->busy = true;
    }
    *q_p  = side->q;
    *bo_p = side->bo;
    return result;
}

/* The stream's queue goes on when all others are done with the phase. */
static ze_result_t zr_far_leave(struct zr_build *build, struct zr_far *far)
{
    ze_result_t result = ZE_RESULT_SUCCESS;

    for (unsigned i = 0; i < ZR_MAX_DEVICES && result == ZE_RESULT_SUCCESS; i++) {
        struct zr_far_side *side = &far->side[i];

        if (!side->busy) {
            continue;
        }
        side->busy = false;
        result     = zr_copyq_write_qword(side->q, side->bo, ZR_FAR_DONE(i), far->number);
        if (result == ZE_RESULT_SUCCESS) {
            result = zr_copyq_wait_word(build->stream->q, far->bo, ZR_FAR_DONE(i), far->number,
                                        ZR_WAIT_GREATER_EQUAL);
        }
    }
    return result;
}

static ze_result_t zr_far_begin(struct zr_build *build, struct zr_far **far_p)
{
    ze_result_t result = zr_far_get(build->stream, far_p);

    if (result == ZE_RESULT_SUCCESS) {
        zr_log_once(ZR_LOG_WARN, "a copy between devices: memory local to one is not reached by "
                    "the other, it goes through system memory (said once)");
        (*far_p)->number++;
        result = zr_copyq_barrier(build->stream->q); /* the buffer may be read still */
    }
    return result;
}

/* ---- copies ---- */

/* One phase over the pieces from @a walk on: into the buffer (from where each source lives), or
 * out of it (to where each destination lives) with the pieces that need no buffer. Both phases see
 * the same pieces: as many as fit. */
static ze_result_t zr_far_phase(struct zr_build *build, struct zr_far *far, struct zr_walk *walk,
                                bool out)
{
    uint64_t         used = 0;
    struct zr_piece  piece;
    struct zr_copyq *q;
    struct zr_bo    *bo;
    ze_result_t      result = ZE_RESULT_SUCCESS;
    int              more;

    while (used < far->size && result == ZE_RESULT_SUCCESS) {
        struct zr_seg dst, src, buffer;

        more = zr_walk_next(walk, far->size - used, &piece);
        if (more <= 0) {
            return (more == 0) ? zr_far_leave(build, far)
                               : zr_fail(ZE_RESULT_ERROR_INVALID_ARGUMENT,
                                         "a list of segments is shorter than the copy");
        }
        dst = (struct zr_seg){piece.dst, piece.dst_offset, piece.length};
        src = (struct zr_seg){piece.src, piece.src_offset, piece.length};
        if (dst.bo->dev == src.bo->dev) {
            result = out ? zr_far_enter(build, far, dst.bo->dev, &q, &bo) : ZE_RESULT_SUCCESS;
            if (out && result == ZE_RESULT_SUCCESS) {
                result = zr_copyq_copy(q, &dst, 1, &src, 1, piece.length);
            }
            continue;
        }
        result = zr_far_enter(build, far, out ? dst.bo->dev : src.bo->dev, &q, &bo);
        if (result == ZE_RESULT_SUCCESS) {
            buffer = (struct zr_seg){bo, ZR_FAR_BUFFER + used, piece.length};
            result = out ? zr_copyq_copy(q, &dst, 1, &buffer, 1, piece.length)
                         : zr_copyq_copy(q, &buffer, 1, &src, 1, piece.length);
        }
        used += piece.length;
    }
    return (result == ZE_RESULT_SUCCESS) ? zr_far_leave(build, far) : result;
}

ze_result_t zr_far_copy(struct zr_build *build, const struct zr_seg *dst, unsigned dst_count,
                        const struct zr_seg *src, unsigned src_count, uint64_t length)
{
    struct zr_walk walk, again;
    struct zr_far *far;
    ze_result_t    result = ZE_RESULT_SUCCESS;

    zr_walk_init(&walk, dst, dst_count, src, src_count, length);
    while (walk.left > 0 && result == ZE_RESULT_SUCCESS) {
        result = zr_far_begin(build, &far);
        again  = walk;
        if (result == ZE_RESULT_SUCCESS) {
            result = zr_far_phase(build, far, &walk, false);
        }
        if (result == ZE_RESULT_SUCCESS) {
            far->number++;
            result = zr_far_phase(build, far, &again, true);
        }
    }
    return result;
}

ze_result_t zr_far_fill(struct zr_build *build, const struct zr_seg *dst, unsigned dst_count,
                        uint64_t length, const uint8_t *pattern, unsigned pattern_size)
{
    uint8_t          turned[ZR_MAX_PATTERN];
    struct zr_walk   walk;
    struct zr_piece  piece;
    struct zr_copyq *q;
    struct zr_bo    *bo;
    struct zr_far   *far;
    ze_result_t      result = zr_far_begin(build, &far);

    zr_walk_init(&walk, dst, dst_count, NULL, 0, length);
    while (result == ZE_RESULT_SUCCESS && zr_walk_next(&walk, UINT64_MAX, &piece) > 0) {
        struct zr_seg seg = {piece.dst, piece.dst_offset, piece.length};

        for (unsigned i = 0; i < pattern_size; i++) {
            turned[i] = pattern[(piece.position + i) % pattern_size];
        }
        result = zr_far_enter(build, far, seg.bo->dev, &q, &bo);
        if (result == ZE_RESULT_SUCCESS) {
            result = zr_copyq_fill(q, &seg, 1, seg.length, turned, pattern_size);
        }
    }
    return (result == ZE_RESULT_SUCCESS) ? zr_far_leave(build, far) : result;
}

ze_result_t zr_far_timestamp(struct zr_build *build, const struct zr_seg *dst, unsigned dst_count)
{
    struct zr_seg  src;
    struct zr_far *far;
    ze_result_t    result = zr_far_get(build->stream, &far);

    if (result != ZE_RESULT_SUCCESS) {
        return result;
    }
    src    = (struct zr_seg){far->bo, ZR_FAR_TIME, sizeof(uint64_t)};
    result = zr_copyq_write_timestamp(build->stream->q, src.bo, src.offset);
    return (result == ZE_RESULT_SUCCESS)
               ? zr_far_copy(build, dst, dst_count, &src, 1, sizeof(uint64_t))
               : result;
}

/* ---- submitting, and what was lost ---- */

/* With the stream's lock held, or the check lock: nothing of the sides waits for a word that will
 * not be written any more. */
static void zr_far_drop(struct zr_far *far, const char *cause)
{
    for (unsigned i = 0; i < ZR_MAX_DEVICES; i++) {
        struct zr_far_side *side = &far->side[i];
        struct zr_copyq    *q    = atomic_load_explicit(&side->q, memory_order_acquire);
        uint64_t            last = atomic_exchange(&side->last, 0);

        if (q != NULL && last != 0 && zr_copyq_query(q, last) == ZE_RESULT_NOT_READY) {
            zr_copyq_fail(q, cause);
        }
    }
}

ze_result_t zr_far_submit(struct zr_stream *stream, uint64_t seqno)
{
    struct zr_far *far    = atomic_load_explicit(&stream->far, memory_order_relaxed);
    ze_result_t    result = ZE_RESULT_SUCCESS, one;
    bool           any    = false;
    uint64_t       last;
    char           cause[256];

    for (unsigned i = 0; far != NULL && i < ZR_MAX_DEVICES; i++) {
        struct zr_far_side *side = &far->side[i];

        if (!side->open) {
            continue;
        }
        side->open = false;
        any        = true;
        if (result != ZE_RESULT_SUCCESS) {
            zr_copyq_abort(side->q);
            continue;
        }
        one = zr_copyq_submit(side->q, &last);
        if (one == ZE_RESULT_SUCCESS) {
            atomic_store(&side->last, last);
        } else {
            result = one;
            snprintf(cause, sizeof(cause), "%s", zr_last_error());
        }
    }
    if (any) {
        far->seqno = seqno;
    }
    if (result != ZE_RESULT_SUCCESS) {
        zr_copyq_fail(stream->q, cause);
        zr_far_drop(far, cause);
        far->seqno = 0;
        return zr_fail(result, "%s", cause);
    }
    return ZE_RESULT_SUCCESS;
}

void zr_far_abort(struct zr_stream *stream)
{
    struct zr_far *far = atomic_load_explicit(&stream->far, memory_order_relaxed);

    for (unsigned i = 0; far != NULL && i < ZR_MAX_DEVICES; i++) {
        far->side[i].busy = false;
        if (far->side[i].open) {
            far->side[i].open = false;
            zr_copyq_abort(far->side[i].q);
        }
    }
}

void zr_far_refresh(struct zr_stream *stream)
{
    struct zr_far *far = atomic_load_explicit(&stream->far, memory_order_relaxed);

    if (far == NULL || far->seqno == 0) {
        return;
    }
    if (zr_copyq_query(stream->q, far->seqno) == ZE_RESULT_ERROR_DEVICE_LOST) {
        zr_far_drop(far, "the copy's other device was lost");
        far->seqno = 0;
    }
    if (far->number >= ZR_FAR_LAST_WORD) { /* the words begin anew when nobody looks at them */
        void *cpu;

        (void)zr_copyq_wait(stream->q, far->seqno, UINT64_MAX);
        if (zr_bo_map(far->bo, NULL, 0, ZR_FAR_BUFFER, PROT_READ | PROT_WRITE, &cpu) ==
            ZE_RESULT_SUCCESS) {
            memset(cpu, 0, ZR_FAR_BUFFER);
            zr_bo_unmap(far->bo, cpu, ZR_FAR_BUFFER);
            far->number = 0;
        }
    }
}

static void zr_far_look(struct zr_far *far, struct zr_copyq *stream_q)
{
    bool lost = false;
    char cause[256];

    if (pthread_mutex_trylock(&far->check_lock) != 0) {
        return;
    }
    for (unsigned i = 0; i < ZR_MAX_DEVICES && !lost; i++) {
        struct zr_copyq *q    = atomic_load_explicit(&far->side[i].q, memory_order_acquire);
        uint64_t         last = atomic_load(&far->side[i].last);

        if (q != NULL && last != 0 && zr_copyq_query(q, last) == ZE_RESULT_ERROR_DEVICE_LOST) {
            lost = true;
            snprintf(cause, sizeof(cause), "%s", zr_last_error());
        }
    }
    if (lost) {
        zr_copyq_fail(stream_q, cause);
        zr_far_drop(far, cause);
    }
    pthread_mutex_unlock(&far->check_lock);
}

void zr_far_check(struct zr_stream *stream)
{
    struct zr_far *far = atomic_load_explicit(&stream->far, memory_order_acquire);

    if (far != NULL) {
        zr_far_look(far, stream->q);
    }
}

void zr_far_destroy(struct zr_stream *stream, struct zr_copyq *q)
{
    struct zr_far *far      = atomic_load_explicit(&stream->far, memory_order_relaxed);
    uint64_t       deadline = zr_deadline(ZR_FAR_LIMIT_NS);
    ze_result_t    result   = ZE_RESULT_NOT_READY;

    if (far == NULL) {
        return;
    }
    while (result == ZE_RESULT_NOT_READY && zr_time_ns() < deadline) {
        result = zr_copyq_wait(q, far->seqno, ZR_FAR_SLICE_NS);
        zr_far_look(far, q);
    }
    if (result != ZE_RESULT_SUCCESS) {
        zr_copyq_fail(q, "the command list is destroyed");
        zr_far_drop(far, "the command list is destroyed");
    }
    atomic_store_explicit(&stream->far, NULL, memory_order_relaxed);
    for (unsigned i = 0; i < ZR_MAX_DEVICES; i++) {
        if (far->side[i].q != NULL) {
            zr_copyq_destroy(far->side[i].q);
        }
    }
    pthread_mutex_destroy(&far->check_lock);
    zr_staging_count(-(int64_t)far->size);
    zr_phys_unref(far->phys);
    free(far);
}
