/* How much of a queue's work the kernel is given at a time. Its ring for a slot is small, and a
 * submission that finds it full blocks there: for good where what is in the ring waits for
 * something that the same thread does later. So the queue keeps the rest, and gives it when there is
 * room: whoever submits, asks or waits does that, and a thread of the queue when nobody does. */
/* SPDX-License-Identifier: BSD-3-Clause */
#include "queue.h"

#include <signal.h>

/* Bytes of a ring of 16 KiB that requests may take, about what one takes, and what each engine of
 * a set adds, since the first one's ring has the meeting points of all. */
#define ZR_RING_BYTES   10000u
#define ZR_RING_REQUEST 300u
#define ZR_RING_ENGINE  80u

#define ZR_PUMP_SLICE_NS UINT64_C(1000000)

bool zr_copyq_has_room(const struct zr_copyq *q, bool wide)
{
    return q->in_ring[wide] <
           ZR_RING_BYTES / (ZR_RING_REQUEST + (wide ? q->width * ZR_RING_ENGINE : 0));
}

void zr_copyq_launched(struct zr_copyq *q, struct zr_slot *slot)
{
    q->in_ring[slot->wide]++;
    zr_slot_push(&q->flying, slot);
}

void zr_copyq_pump(struct zr_copyq *q)
{
    struct zr_slot *slot;

    while ((slot = q->backlog.head) != NULL && zr_copyq_has_room(q, slot->wide)) {
        zr_slot_pop(&q->backlog);
        if (zr_copyq_exec(q, slot) != ZE_RESULT_SUCCESS) {
            /* Its caller has a number for it already. */
            slot->next      = q->backlog.head;
            q->backlog.tail = q->backlog.head == NULL ? slot : q->backlog.tail;
            q->backlog.head = slot;
            zr_copyq_lose(q, zr_last_error());
            return;
        }
        zr_copyq_launched(q, slot);
    }
}

static void *zr_pump_main(void *arg)
{
    struct zr_copyq *q = arg;

    pthread_mutex_lock(&q->lock);
    while (!q->stop_pump) {
        if (q->backlog.head == NULL) {
            pthread_cond_wait(&q->pump_wake, &q->lock);
            continue;
        }
        pthread_mutex_unlock(&q->lock);
        (void)zr_ctx_wait(q->ctx, ZR_PUMP_SLICE_NS);
        pthread_mutex_lock(&q->lock);
        zr_copyq_look(q, UINT64_MAX);
    }
    pthread_mutex_unlock(&q->lock);
    return NULL;
}

static bool zr_pump_start(struct zr_copyq *q)
{
    sigset_t all, old;

    if (!q->has_pump) {
        sigfillset(&all);
        pthread_sigmask(SIG_SETMASK, &all, &old);
        q->has_pump = pthread_create(&q->pump, NULL, zr_pump_main, q) == 0;
        pthread_sigmask(SIG_SETMASK, &old, NULL);
    }
    return q->has_pump;
}

bool zr_copyq_defer(struct zr_copyq *q, uint64_t number)
{
    struct zr_slot *slot;

    if (!zr_pump_start(q)) {
        return false;
    }
    while ((slot = zr_slot_pop(&q->building)) != NULL) {
        slot->number = q->building.head == NULL ? number : 0;
        zr_slot_push(&q->backlog, slot);
    }
    pthread_cond_signal(&q->pump_wake);
    return true;
}

void zr_copyq_stop_pump(struct zr_copyq *q)
{
    if (!q->has_pump) {
        return;
    }
    pthread_mutex_lock(&q->lock);
    q->stop_pump = true;
    pthread_cond_signal(&q->pump_wake);
    pthread_mutex_unlock(&q->lock);
    pthread_join(q->pump, NULL);
}
