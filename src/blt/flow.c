/* How much of a queue's work the kernel is given at a time. Its ring for a slot is small; how many
 * requests it holds is the kernel's affair, and it says when there is no room (files are
 * O_NONBLOCK). What is in the ring may wait for something that the same thread does later, so the
 * queue keeps the rest, and gives it when something in the ring is over: whoever submits, asks or
 * waits does that, and a thread of the queue when nobody does. */
/* SPDX-License-Identifier: BSD-3-Clause */
#include "queue.h"

#include <signal.h>

/* A ring that was full is so until the oldest of what flies is over: each leaves in its turn. With
 * nothing of its own in it the kernel meant something else, and is asked again. */
bool zr_copyq_has_room(const struct zr_copyq *q, bool wide)
{
    return q->full[wide] == 0 || q->in_ring[wide] == 0 || q->flying.head->sequence != q->full[wide];
}

void zr_copyq_found_full(struct zr_copyq *q, bool wide)
{
    q->full[wide] = q->flying.head != NULL ? q->flying.head->sequence : 0;
}

void zr_copyq_launched(struct zr_copyq *q, struct zr_slot *slot)
{
    q->in_ring[slot->wide]++;
    q->full[slot->wide] = 0;
    zr_slot_push(&q->flying, slot);
}

void zr_copyq_pump(struct zr_copyq *q)
{
    struct zr_slot *slot;
    ze_result_t     result;

    while ((slot = q->backlog.head) != NULL && zr_copyq_has_room(q, slot->wide)) {
        zr_slot_pop(&q->backlog);
        result = zr_copyq_exec(q, slot);
        if (result != ZE_RESULT_SUCCESS) {
            /* Its caller has a number for it already. */
            slot->next      = q->backlog.head;
            q->backlog.tail = q->backlog.head == NULL ? slot : q->backlog.tail;
            q->backlog.head = slot;
            if (result != ZE_RESULT_NOT_READY) {
                zr_copyq_lose(q, zr_last_error());
            }
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
