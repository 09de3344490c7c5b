/* Streams: building and submitting, the ring for short host sources, and waiting. */
/* SPDX-License-Identifier: BSD-3-Clause */
#include "far.h"

#include <stdlib.h>
#include <sys/mman.h>

/* A longer list is submitted in parts: the copy queue starts one after the other anyway, and what
 * a batch and its list of objects can hold stays bounded. */
#define ZR_OPS_PER_SUBMIT 64

static pthread_mutex_t   streams_lock = PTHREAD_MUTEX_INITIALIZER;
static struct zr_stream *streams;
static _Atomic uint64_t  staging_bytes;

/* Staging trades memory for a system call less per short host source. */
static size_t zr_policy_staging(enum zr_policy policy)
{
    switch (policy) {
    case ZR_POLICY_MEMORY:
        return ZR_STAGE_MAX;
    case ZR_POLICY_PERFORMANCE:
        return 16 * ZR_STAGE_MAX;
    default:
        return 4 * ZR_STAGE_MAX;
    }
}

uint64_t zr_staging_bytes(void)
{
    return atomic_load(&staging_bytes);
}

void zr_staging_count(int64_t more)
{
    atomic_fetch_add(&staging_bytes, (uint64_t)more);
}

ze_result_t zr_stream_create(struct zr_device *device, enum zr_policy policy,
                             struct zr_stream **stream_p)
{
    struct zr_stream *stream = calloc(1, sizeof(*stream));
    ze_result_t       result;

    if (stream == NULL) {
        return zr_fail(ZE_RESULT_ERROR_OUT_OF_HOST_MEMORY, "no memory for a command queue");
    }
    result = zr_copyq_create(device->i915, zr_config()->engines, &stream->q);
    if (result != ZE_RESULT_SUCCESS) {
        free(stream);
        return result;
    }
    stream->refs         = 1;
    stream->device       = device;
    stream->staging_size = zr_policy_staging(policy);
    zr_range_init(&stream->range[0]);
    zr_range_init(&stream->range[1]);
    pthread_rwlock_init(&stream->closing, NULL);
    pthread_mutex_init(&stream->lock, NULL);
    pthread_mutex_lock(&streams_lock);
    stream->next = streams;
    if (streams != NULL) {
        streams->prev = stream;
    }
    streams = stream;
    pthread_mutex_unlock(&streams_lock);
    *stream_p = stream;
    return ZE_RESULT_SUCCESS;
}

struct zr_stream *zr_stream_ref(struct zr_stream *stream)
{
    atomic_fetch_add_explicit(&stream->refs, 1, memory_order_relaxed);
    return stream;
}

void zr_stream_unref(struct zr_stream *stream)
{
    if (atomic_fetch_sub_explicit(&stream->refs, 1, memory_order_acq_rel) == 1) {
        pthread_rwlock_destroy(&stream->closing);
        pthread_mutex_destroy(&stream->lock);
        free(stream);
    }
}

void zr_stream_close(struct zr_stream *stream)
{
    struct zr_copyq *q;

    pthread_mutex_lock(&streams_lock);
    if (stream->prev != NULL) {
        stream->prev->next = stream->next;
    } else if (streams == stream) {
        streams = stream->next;
    }
    if (stream->next != NULL) {
        stream->next->prev = stream->prev;
    }
    pthread_mutex_unlock(&streams_lock);

    pthread_rwlock_wrlock(&stream->closing);
    q         = stream->q;
    stream->q = NULL;
    pthread_rwlock_unlock(&stream->closing);
    zr_far_destroy(stream, q);
    zr_copyq_destroy(q);
    if (stream->staging != NULL) {
        zr_bo_unmap(stream->staging, stream->staging_cpu, stream->staging_size);
        zr_bo_unref(stream->staging);
        stream->staging = NULL;
        atomic_fetch_sub(&staging_bytes, stream->staging_size);
    }
    zr_range_clear(&stream->range[0]);
    zr_range_clear(&stream->range[1]);
    for (unsigned i = 0; i < ZR_ARRAY_SIZE(stream->segs); i++) {
        free(stream->segs[i]);
        stream->segs[i] = NULL;
    }
    free(stream->rows[0]);
    free(stream->rows[1]);
    stream->rows[0] = stream->rows[1] = NULL;
}

/* ---- waiting ---- */

ze_result_t zr_stream_query(struct zr_stream *stream, uint64_t seqno)
{
    ze_result_t result = ZE_RESULT_SUCCESS;

    pthread_rwlock_rdlock(&stream->closing);
    if (stream->q != NULL) {
        result = zr_copyq_query(stream->q, seqno);
        if (result == ZE_RESULT_NOT_READY) {
            zr_far_check(stream);
        }
    }
    pthread_rwlock_unlock(&stream->closing);
    return result;
}

/* With the stream open: where other devices take part, look at them from time to time. */
static ze_result_t zr_stream_wait_open(struct zr_stream *stream, uint64_t seqno,
                                       uint64_t timeout_ns)
{
    uint64_t    deadline = zr_deadline(timeout_ns), left = timeout_ns;
    ze_result_t result;

    for (;;) {
        if (atomic_load_explicit(&stream->far, memory_order_relaxed) == NULL) {
            return zr_copyq_wait(stream->q, seqno, left);
        }
        result = zr_copyq_wait(stream->q, seqno, ZR_MIN(left, ZR_FAR_SLICE_NS));
        if (result != ZE_RESULT_NOT_READY || left <= ZR_FAR_SLICE_NS) {
            return result;
        }
        zr_far_check(stream);
        left = deadline - ZR_MIN(zr_time_ns(), deadline);
    }
}

ze_result_t zr_stream_wait(struct zr_stream *stream, uint64_t seqno, uint64_t timeout_ns)
{
    ze_result_t result = ZE_RESULT_SUCCESS;

    pthread_rwlock_rdlock(&stream->closing);
    if (stream->q != NULL) {
        result = zr_stream_wait_open(stream, seqno, timeout_ns);
    }
    pthread_rwlock_unlock(&stream->closing);
    return result;
}

ze_result_t zr_stream_drain(struct zr_stream *stream, uint64_t timeout_ns)
{
    ze_result_t result = ZE_RESULT_SUCCESS;
    uint64_t    last;

    pthread_rwlock_rdlock(&stream->closing);
    if (stream->q != NULL && (last = zr_copyq_last(stream->q)) != 0) {
        result = (timeout_ns == 0) ? zr_copyq_query(stream->q, last)
                                   : zr_stream_wait_open(stream, last, timeout_ns);
    }
    pthread_rwlock_unlock(&stream->closing);
    return result;
}

ze_result_t zr_streams_drain(const struct zr_device *device)
{
    struct zr_stream **some = NULL, *stream;
    unsigned           count = 0, n = 0;
    ze_result_t        result = ZE_RESULT_SUCCESS, one;

    pthread_mutex_lock(&streams_lock);
    for (stream = streams; stream != NULL; stream = stream->next) {
        count += device == NULL || stream->device == device;
    }
    if (count > 0) {
        some = malloc(count * sizeof(*some));
    }
    for (stream = streams; some != NULL && stream != NULL; stream = stream->next) {
        if (device == NULL || stream->device == device) {
            some[n++] = zr_stream_ref(stream);
        }
    }
    pthread_mutex_unlock(&streams_lock);
    if (count > 0 && some == NULL) {
        return zr_fail(ZE_RESULT_ERROR_OUT_OF_HOST_MEMORY, "waiting for %u queues", count);
    }
    while (n > 0) {
        one    = zr_stream_drain(some[--n], UINT64_MAX);
        result = (result == ZE_RESULT_SUCCESS) ? one : result;
        zr_stream_unref(some[n]);
    }
    free(some);
    return result;
}

void zr_streams_end(void)
{
    struct zr_stream *stream, *next;

    for (stream = streams; stream != NULL; stream = next) {
        next = stream->next;
        if (zr_stream_drain(stream, 0) == ZE_RESULT_SUCCESS) {
            zr_stream_close(stream);
        }
    }
}

/* ---- staging ---- */

/* With the stream's lock held: give back what complete submissions have read. */
static void zr_staging_reclaim(struct zr_stream *stream)
{
    while (stream->staged_count > 0) {
        const struct zr_staged *staged = &stream->staged[stream->staged_first];

        if (zr_copyq_query(stream->q, staged->seqno) == ZE_RESULT_NOT_READY) {
            break; /* what is lost does not read any more either */
        }
        stream->tail         = staged->end;
        stream->staged_first = (stream->staged_first + 1) % ZR_STAGED_MAX;
        stream->staged_count--;
    }
}

static void zr_staging_commit(struct zr_stream *stream, uint64_t head, uint64_t seqno)
{
    unsigned last = (stream->staged_first + stream->staged_count) % ZR_STAGED_MAX;

    if (head != stream->head) {
        stream->staged[last] = (struct zr_staged){seqno, head};
        stream->staged_count++;
        stream->head = head;
    }
}

static bool zr_staging_ready(struct zr_stream *stream)
{
    void *cpu;

    if (stream->staging != NULL) {
        return true;
    }
    if (stream->staging_size == 0) {
        return false;
    }
    if (zr_bo_create(stream->device->i915, stream->staging_size, ZR_PLACE_SYSTEM, ZR_CACHE_CACHED,
                     &stream->staging) != ZE_RESULT_SUCCESS) {
        stream->staging_size = 0; /* userptr serves as well */
        return false;
    }
    if (zr_bo_map(stream->staging, NULL, 0, stream->staging_size, PROT_READ | PROT_WRITE, &cpu) !=
        ZE_RESULT_SUCCESS) {
        zr_bo_unref(stream->staging);
        stream->staging      = NULL;
        stream->staging_size = 0;
        return false;
    }
    stream->staging_cpu = cpu;
    atomic_fetch_add(&staging_bytes, stream->staging_size);
    return true;
}

char *zr_build_stage(struct zr_build *build, size_t size, struct zr_seg *seg)
{
    struct zr_stream *stream = build->stream;
    uint64_t          at, offset;

    if (!build->may_stage || stream->staged_count == ZR_STAGED_MAX || !zr_staging_ready(stream)) {
        return NULL;
    }
    at     = ZR_ALIGN_UP(build->head, 64);
    offset = at & (stream->staging_size - 1);
    if (offset + size > stream->staging_size) {
        at += stream->staging_size - offset;
        offset = 0;
    }
    if (at + size - stream->tail > stream->staging_size) {
        return NULL;
    }
    build->head = at + size;
    *seg        = (struct zr_seg){stream->staging, offset, size};
    return stream->staging_cpu + offset;
}

/* ---- submitting ---- */

ze_result_t zr_stream_reserve(struct zr_stream *stream, unsigned which, unsigned count)
{
    unsigned       capacity = ZR_MAX(16u, stream->segs_capacity[which]);
    struct zr_seg *segs;

    if (count <= stream->segs_capacity[which]) {
        return ZE_RESULT_SUCCESS;
    }
    while (capacity < count) {
        capacity *= 2;
    }
    segs = realloc(stream->segs[which], capacity * sizeof(*segs));
    if (segs == NULL) {
        return zr_fail(ZE_RESULT_ERROR_OUT_OF_HOST_MEMORY, "a range of %u objects", count);
    }
    stream->segs[which]          = segs;
    stream->segs_capacity[which] = capacity;
    return ZE_RESULT_SUCCESS;
}

/* With the stream's lock held: one try. The caller looks at build->hosted when it fails. */
static ze_result_t zr_build_submit(struct zr_build *build, const struct zr_op *ops, unsigned count,
                                   uint64_t *seqno_p)
{
    struct zr_copyq *q      = build->stream->q;
    ze_result_t      result = ZE_RESULT_SUCCESS;

    zr_copyq_begin(q);
    for (unsigned i = 0; i < count && result == ZE_RESULT_SUCCESS; i++) {
        result = zr_build_add(build, &ops[i]);
    }
    if (result != ZE_RESULT_SUCCESS || build->added == 0) {
        zr_copyq_abort(q);
        zr_far_abort(build->stream);
        if (result == ZE_RESULT_SUCCESS) {
            *seqno_p = zr_copyq_last(q);
        }
        return result;
    }
    result = zr_copyq_submit(q, seqno_p);
    if (result != ZE_RESULT_SUCCESS) {
        zr_far_abort(build->stream);
        return result;
    }
    return zr_far_submit(build->stream, *seqno_p);
}

static bool zr_ops_move_once(const struct zr_op *ops, unsigned count)
{
    unsigned moves = 0;

    for (unsigned i = 0; i < count; i++) {
        moves += ops[i].type == ZR_OP_COPY || ops[i].type == ZR_OP_FILL ||
                 ops[i].type == ZR_OP_REGION;
    }
    return moves <= 1;
}

/* With the stream's lock held.
 * Pages behind a known userptr object may have gone (EFAULT): then once more with new ones. What
 * precedes a barrier may have run by then, and only a single move can be done twice; a submission
 * with more moves does not use known objects. */
static ze_result_t zr_stream_submit(struct zr_stream *stream, const struct zr_op *ops,
                                    unsigned count, bool relaxed, uint64_t *seqno_p)
{
    struct zr_build build;
    ze_result_t     result;
    bool            safe, fresh = !zr_ops_move_once(ops, count);

    if (stream->staged_count > ZR_STAGED_MAX / 2 ||
        stream->head - stream->tail > stream->staging_size / 2) {
        zr_staging_reclaim(stream);
    }
    zr_far_refresh(stream);
    safe = stream->unsafe_seqno == 0 ||
           zr_copyq_query(stream->q, stream->unsafe_seqno) != ZE_RESULT_NOT_READY;
    for (;;) {
        build  = (struct zr_build){.stream    = stream,
                                   .relaxed   = relaxed,
                                   .fresh     = fresh,
                                   .may_stage = safe,
                                   .head      = stream->head};
        result = zr_build_submit(&build, ops, count, seqno_p);
        if (result != ZE_RESULT_ERROR_INVALID_ARGUMENT || !build.hosted || fresh) {
            break;
        }
        fresh = true;
    }
    if (result != ZE_RESULT_SUCCESS) {
        return result;
    }
    zr_staging_commit(stream, build.head, *seqno_p);
    if (build.changes_host) {
        stream->unsafe_seqno = *seqno_p;
    }
    for (unsigned i = 0; i < count; i++) {
        if (ops[i].type == ZR_OP_SIGNAL) {
            zr_event_arm(ops[i].event, stream, *seqno_p);
        }
    }
    return ZE_RESULT_SUCCESS;
}

ze_result_t zr_stream_run(struct zr_stream *stream, const struct zr_op *ops, unsigned count,
                          bool relaxed, uint64_t *seqno_p)
{
    ze_result_t result = ZE_RESULT_SUCCESS;
    uint64_t    seqno;

    pthread_mutex_lock(&stream->lock);
    seqno = zr_copyq_last(stream->q);
    while (count > 0 && result == ZE_RESULT_SUCCESS) {
        unsigned some = ZR_MIN(count, (unsigned)ZR_OPS_PER_SUBMIT);

        result = zr_stream_submit(stream, ops, some, relaxed, &seqno);
        ops += some;
        count -= some;
    }
    pthread_mutex_unlock(&stream->lock);
    if (result == ZE_RESULT_SUCCESS) {
        *seqno_p = seqno;
    }
    return result;
}
