/* Who wants to know of maps and unmaps. A subscriber is called with no lock held and, once its
 * unsubscribe has returned, never again. */
/* SPDX-License-Identifier: BSD-3-Clause */
#include "vaspace.h"

#include <stdlib.h>

struct zr_subscriber {
    zr_mapping_cb         cb;
    void                 *arg;
    unsigned              calls;   /* running now */
    bool                  removed; /* freed by the last call that returns, or by who removed it */
    struct zr_subscriber *next;
};

static pthread_mutex_t       zr_sub_lock = PTHREAD_MUTEX_INITIALIZER; /* guards all below */
static pthread_cond_t        zr_sub_idle = PTHREAD_COND_INITIALIZER;
static struct zr_subscriber *zr_subs;
static atomic_uint           zr_sub_count; /* read without the lock as a hint */

/* The subscriber this thread is calling: one that unsubscribes itself must not wait for itself. */
static __thread struct zr_subscriber *zr_sub_current;

bool zr_subscribers_any(void)
{
    return atomic_load_explicit(&zr_sub_count, memory_order_acquire) != 0;
}

ze_result_t zr_va_subscribe(zr_mapping_cb cb, void *arg)
{
    struct zr_subscriber *sub, **tail;

    if (cb == NULL) {
        return zr_fail(ZE_RESULT_ERROR_INVALID_NULL_POINTER, "subscribe: no callback");
    }
    sub = calloc(1, sizeof(*sub));
    if (sub == NULL) {
        return zr_fail(ZE_RESULT_ERROR_OUT_OF_HOST_MEMORY, "subscribe: no memory");
    }
    sub->cb  = cb;
    sub->arg = arg;
    pthread_mutex_lock(&zr_sub_lock);
    for (tail = &zr_subs; *tail != NULL; tail = &(*tail)->next) {
    }
    *tail = sub;
    atomic_fetch_add(&zr_sub_count, 1);
    pthread_mutex_unlock(&zr_sub_lock);
    return ZE_RESULT_SUCCESS;
}

/* Unlinks and frees; the lock is held and nobody calls it. */
static void zr_sub_free(struct zr_subscriber *sub)
{
    struct zr_subscriber **link;

    for (link = &zr_subs; *link != sub; link = &(*link)->next) {
    }
    *link = sub->next;
    free(sub);
}

void zr_va_unsubscribe(zr_mapping_cb cb, void *arg)
{
    struct zr_subscriber *sub;

    pthread_mutex_lock(&zr_sub_lock);
    for (sub = zr_subs; sub != NULL; sub = sub->next) {
        if (sub->cb == cb && sub->arg == arg && !sub->removed) {
            break;
        }
    }
    if (sub != NULL) {
        atomic_fetch_sub(&zr_sub_count, 1);
        if (sub == zr_sub_current) {
            sub->removed = true;
        } else {
            sub->calls++; /* keeps it in the list until the wait is over */
            sub->removed = true;
            while (sub->calls > 1) {
                pthread_cond_wait(&zr_sub_idle, &zr_sub_lock);
            }
            zr_sub_free(sub);
        }
    }
    pthread_mutex_unlock(&zr_sub_lock);
}

void zr_subscribers_call(int mapped, const struct zr_notice *notices, unsigned count)
{
    struct zr_subscriber *sub, *next, *outer = zr_sub_current;
    unsigned              i;

    if (count == 0 || !zr_subscribers_any()) {
        return;
    }
    pthread_mutex_lock(&zr_sub_lock);
    for (sub = zr_subs; sub != NULL; sub = next) {
        if (sub->removed) {
            next = sub->next;
            continue;
        }
        sub->calls++;
        pthread_mutex_unlock(&zr_sub_lock);
        zr_sub_current = sub;
        for (i = 0; i < count; ++i) {
            sub->cb(sub->arg, mapped, (void *)notices[i].base, notices[i].size, notices[i].type);
        }
        zr_sub_current = outer;
        pthread_mutex_lock(&zr_sub_lock);
        next = sub->next;
        sub->calls--;
        if (sub->removed) {
            if (sub->calls == 0) {
                zr_sub_free(sub);
            } else {
                pthread_cond_broadcast(&zr_sub_idle);
            }
        }
    }
    pthread_mutex_unlock(&zr_sub_lock);
}
