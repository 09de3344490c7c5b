/* Stand-in for a header of Open MPI that Debian does not ship: a mutex and a condition of Open MPI
 * are pthread's. Declarations of our own, of what the shipped headers use. */
/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef ZR_COMPAT_MUTEX_H
#define ZR_COMPAT_MUTEX_H

#include <pthread.h>
#include <stdbool.h>

typedef pthread_mutex_t opal_thread_internal_mutex_t;
typedef pthread_cond_t  opal_thread_internal_cond_t;

static inline int opal_thread_internal_mutex_init(opal_thread_internal_mutex_t *mutex, bool recursive)
{
    pthread_mutexattr_t attr;
    int                 rc;

    pthread_mutexattr_init(&attr);
    pthread_mutexattr_settype(&attr, recursive ? PTHREAD_MUTEX_RECURSIVE : PTHREAD_MUTEX_DEFAULT);
    rc = pthread_mutex_init(mutex, &attr);
    pthread_mutexattr_destroy(&attr);
    return rc;
}

#define opal_thread_internal_mutex_trylock(mutex) pthread_mutex_trylock(mutex)
#define opal_thread_internal_mutex_lock(mutex)    ((void)pthread_mutex_lock(mutex))
#define opal_thread_internal_mutex_unlock(mutex)  ((void)pthread_mutex_unlock(mutex))
#define opal_thread_internal_mutex_destroy(mutex) ((void)pthread_mutex_destroy(mutex))
#define opal_thread_internal_cond_init(cond)      pthread_cond_init(cond, NULL)
#define opal_thread_internal_cond_wait(cond, m)   ((void)pthread_cond_wait(cond, m))
#define opal_thread_internal_cond_signal(cond)    ((void)pthread_cond_signal(cond))
#define opal_thread_internal_cond_broadcast(cond) ((void)pthread_cond_broadcast(cond))
#define opal_thread_internal_cond_destroy(cond)   ((void)pthread_cond_destroy(cond))

#endif
