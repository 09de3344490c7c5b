/* Completion: sequence numbers read from mapped memory, the kernel asked only when they stand
 * still, and what happens to work that was lost. */
/* SPDX-License-Identifier: BSD-3-Clause */
#include "queue.h"
#include "util/order.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define ZR_CHECK_NS      UINT64_C(100000000) /* without progress, and between two questions */
#define ZR_SPIN_NS       UINT64_C(20000)
#define ZR_SLICE_MIN_NS  UINT64_C(20000)
#define ZR_SLICE_MAX_NS  UINT64_C(5000000)
#define ZR_LOST_DRAIN_NS UINT64_C(2000000000)
#define ZR_DRAIN_NS      UINT64_C(10000000000)

static bool zr_slot_is_complete(const struct zr_copyq *q, const struct zr_slot *slot)
{
    unsigned rows = slot->wide ? q->width : 1, i;

    for (i = 0; i < rows; i++) {
        if (atomic_load_explicit(&q->lines[i * 8], memory_order_acquire) < slot->sequence) {
            return false;
        }
        zr_order_acquire((const void *)&q->lines[i * 8]);
    }
    return true;
}

void zr_copyq_reap(struct zr_copyq *q)
{
    struct zr_slot *slot;
    bool            progress = false;

    while ((slot = q->flying.head) != NULL && zr_slot_is_complete(q, slot)) {
        zr_slot_pop(&q->flying);
        q->in_ring[slot->wide]--;
        if (slot->number > atomic_load_explicit(&q->done, memory_order_relaxed)) {
            atomic_store_explicit(&q->done, slot->number, memory_order_release);
        }
        zr_slot_rest(q, slot);
        progress = true;
    }
    if (progress && q->flying.head != NULL) {
        q->progress_ns = zr_time_ns();
    }
}

/* ---- loss ---- */

static uint64_t zr_slot_newest(const struct zr_slot_list *list)
{
    const struct zr_slot *slot;
    uint64_t              number = 0;

    for (slot = list->head; slot != NULL; slot = slot->next) {
        number = ZR_MAX(number, slot->number);
    }
    return number;
}

bool zr_copyq_reserve_lost(struct zr_copyq *q)
{
    unsigned        max = ZR_MAX(8u, q->max_lost * 2);
    struct zr_lost *lost;

    if (q->num_lost < q->max_lost) {
        return true;
    }
    lost = realloc(q->lost, max * sizeof(*lost));
    if (lost == NULL) {
        return false;
    }
    q->lost     = lost;
    q->max_lost = max;
    return true;
}

/* Where no memory is left for another entry the newest is made longer: more is called lost than
 * was, never less. */
static void zr_copyq_record_loss(struct zr_copyq *q, uint64_t first, uint64_t last,
                                 const char *text)
{
    struct zr_lost *lost;

    if (q->num_lost < q->max_lost) {
        lost        = &q->lost[q->num_lost++];
        lost->first = first;
    } else {
        lost = &q->lost[q->num_lost - 1];
    }
    lost->last = last;
    snprintf(lost->text, sizeof(lost->text), "%s", text);
    (void)zr_copyq_reserve_lost(q);
}

void zr_copyq_lose(struct zr_copyq *q, const char *cause)
{
    struct zr_slot *oldest = q->flying.head != NULL ? q->flying.head : q->backlog.head, *slot;
    uint64_t        first = atomic_load(&q->done) + 1;
    uint64_t        newest = ZR_MAX(zr_slot_newest(&q->flying), zr_slot_newest(&q->backlog));
    char            text[sizeof(q->lost->text)];
    bool            idle;

    if (oldest != NULL) {
        snprintf(text, sizeof(text),
                 "copy of %llu bytes to GPU address 0x%llx (submission %llu) was lost: %.120s",
                 (unsigned long long)oldest->bytes, (unsigned long long)oldest->first_address,
                 (unsigned long long)first, cause);
        zr_error("%s", text);
    }
    if (newest != 0) {
        zr_copyq_record_loss(q, first, newest, text);
    }
    /* The kernel ends what is left of a lost context; until then engines may read batches. */
    idle = zr_ctx_wait(q->ctx, ZR_LOST_DRAIN_NS) != ZE_RESULT_NOT_READY;
    q->in_ring[0] = q->in_ring[1] = 0;
    while ((slot = zr_slot_pop(&q->backlog)) != NULL) {
        zr_slot_recycle(q, slot);
    }
    while ((slot = zr_slot_pop(&q->flying)) != NULL) {
        if (idle) {
            zr_slot_recycle(q, slot);
        } else {
            zr_slot_push(&q->abandoned, slot);
            q->num_slots--;
        }
    }
    for (unsigned i = 0; i < 2 && !idle; i++) {
        if (q->resting[i] != NULL) {
            zr_slot_push(&q->abandoned, q->resting[i]);
            q->num_slots--;
            q->resting[i] = NULL;
        }
    }
    if (newest != 0) {
        atomic_fetch_add(&q->lost_total, 1);
        atomic_store_explicit(&q->done, newest, memory_order_release);
    }
    if (zr_ctx_reset(q->ctx) != ZE_RESULT_SUCCESS) {
        zr_error("%s", zr_last_error());
    }
}

void zr_copyq_fail(struct zr_copyq *q, const char *cause)
{
    pthread_mutex_lock(&q->lock);
    zr_copyq_reap(q);
    if (q->flying.head != NULL || q->backlog.head != NULL) {
        zr_copyq_lose(q, cause);
    }
    pthread_mutex_unlock(&q->lock);
}

ze_result_t zr_copyq_look_for_loss(struct zr_copyq *q)
{
    bool        idle   = zr_ctx_wait(q->ctx, 0) == ZE_RESULT_SUCCESS;
    ze_result_t result = zr_ctx_check(q->ctx);
    char        cause[256];

    q->check_ns = zr_time_ns();
    zr_copyq_reap(q);
    if (q->flying.head == NULL) {
        return ZE_RESULT_SUCCESS;
    }
    if (result == ZE_RESULT_ERROR_DEVICE_LOST) {
        snprintf(cause, sizeof(cause), "%s", zr_last_error());
    } else if (idle) {
        /* The kernel calls it over, the engines have not written their numbers. */
        snprintf(cause, sizeof(cause), "the kernel dropped it");
    } else {
        return ZE_RESULT_SUCCESS;
    }
    zr_copyq_lose(q, cause);
    return zr_fail(ZE_RESULT_ERROR_DEVICE_LOST, "%s", cause);
}

bool zr_copyq_drain(struct zr_copyq *q)
{
    uint64_t start = zr_time_ns();

    zr_copyq_reap(q);
    while (q->flying.head != NULL) {
        if (zr_time_ns() - start >= ZR_DRAIN_NS) {
            return false;
        }
        (void)zr_ctx_wait(q->ctx, ZR_CHECK_NS);
        (void)zr_copyq_look_for_loss(q); /* a loss is kept by number, and nothing flies then */
    }
    return true;
}

/* Only where a loss happened at all: the numbers up to done that were lost. Takes the lock. */
static ze_result_t zr_copyq_over(struct zr_copyq *q, uint64_t number)
{
    ze_result_t result = ZE_RESULT_SUCCESS;
    unsigned    low = 0, high, middle;

    if (atomic_load_explicit(&q->lost_total, memory_order_acquire) == 0) {
        return ZE_RESULT_SUCCESS;
    }
    pthread_mutex_lock(&q->lock);
    high = q->num_lost;
    while (low < high) {
        middle = low + (high - low) / 2;
        if (q->lost[middle].last < number) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    if (low < q->num_lost && number >= q->lost[low].first) {
        result = zr_fail(ZE_RESULT_ERROR_DEVICE_LOST, "%s", q->lost[low].text);
    }
    pthread_mutex_unlock(&q->lock);
    return result;
}

static bool zr_copyq_is_over(struct zr_copyq *q, uint64_t number)
{
    return number <= atomic_load_explicit(&q->done, memory_order_acquire);
}

void zr_copyq_look(struct zr_copyq *q, uint64_t number)
{
    uint64_t now;

    zr_copyq_reap(q);
    if (q->backlog.head != NULL) {
        zr_copyq_pump(q);
        zr_copyq_reap(q);
    }
    if (zr_copyq_is_over(q, number) || q->flying.head == NULL) {
        return;
    }
    now = zr_time_ns();
    if (now - q->progress_ns >= ZR_CHECK_NS && now - q->check_ns >= ZR_CHECK_NS) {
        (void)zr_copyq_look_for_loss(q); /* a loss is kept by number */
    }
}

ze_result_t zr_copyq_query(struct zr_copyq *q, uint64_t seqno)
{
    if (zr_copyq_is_over(q, seqno)) {
        return zr_copyq_over(q, seqno);
    }
    /* A lock that is held means that somebody builds or looks: the next query will see. */
    if (pthread_mutex_trylock(&q->lock) == 0) {
        zr_copyq_look(q, seqno);
        pthread_mutex_unlock(&q->lock);
    }
    return zr_copyq_is_over(q, seqno) ? zr_copyq_over(q, seqno) : ZE_RESULT_NOT_READY;
}

static inline void zr_cpu_pause(void)
{
#if defined(__x86_64__) || defined(__i386__)
    __builtin_ia32_pause();
#endif
}

static uint64_t zr_copyq_slice(uint64_t waited, uint64_t left)
{
    uint64_t slice = ZR_MAX(waited / 4, ZR_SLICE_MIN_NS);

    return ZR_MIN(ZR_MIN(slice, ZR_SLICE_MAX_NS), left);
}

ze_result_t zr_copyq_wait(struct zr_copyq *q, uint64_t seqno, uint64_t timeout_ns)
{
    ze_result_t result = zr_copyq_query(q, seqno);
    uint64_t    start, waited = 0;
    bool        idle;

    if (seqno > atomic_load(&q->last)) {
        return zr_fail(ZE_RESULT_ERROR_INVALID_ARGUMENT, "submission %llu has not been made",
                       (unsigned long long)seqno);
    }
    if (result != ZE_RESULT_NOT_READY || timeout_ns == 0) {
        return result;
    }
    start = zr_time_ns();
    while (result == ZE_RESULT_NOT_READY && waited < timeout_ns) {
        if (waited < ZR_SPIN_NS) {
            zr_cpu_pause();
        } else {
            /* The context's wait is for its newest submission: in slices, because an older one
             * may be over long before. */
            idle = zr_ctx_wait(q->ctx, zr_copyq_slice(waited, timeout_ns - waited)) !=
                   ZE_RESULT_NOT_READY;
            pthread_mutex_lock(&q->lock);
            zr_copyq_look(q, seqno);
            if (idle && !zr_copyq_is_over(q, seqno)) {
                (void)zr_copyq_look_for_loss(q);
            }
            pthread_mutex_unlock(&q->lock);
        }
        result = zr_copyq_query(q, seqno);
        waited = zr_time_ns() - start;
    }
    return result;
}

uint64_t zr_copyq_last(struct zr_copyq *q)
{
    return atomic_load(&q->last);
}
