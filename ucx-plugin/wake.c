/* The thread that writes the event descriptor: see wake.h. */
/* SPDX-License-Identifier: BSD-3-Clause */
#include "wake.h"

#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

/* How long the end of an interface may wait for this thread. */
#define LOOK_AGAIN_NS UINT64_C(50000000)

static pthread_mutex_t running_lock = PTHREAD_MUTEX_INITIALIZER; /* guards the list */
static struct zr_wake *running_first;

static void end_thread(struct zr_wake *wake)
{
    pthread_mutex_lock(&wake->lock);
    wake->stop = true;
    pthread_cond_signal(&wake->changed);
    pthread_mutex_unlock(&wake->lock);
    pthread_join(wake->thread, NULL);
    wake->running = false;
}

/* An application that ends without closing its workers: no thread may be in the driver when that
 * ends, and what is registered here runs before any library's destructor. */
static void end_all(void)
{
    pthread_mutex_lock(&running_lock);
    for (; running_first != NULL; running_first = running_first->next) {
        end_thread(running_first);
    }
    pthread_mutex_unlock(&running_lock);
}

static void before_fork(void)
{
    pthread_mutex_lock(&running_lock);
}

static void after_fork_parent(void)
{
    pthread_mutex_unlock(&running_lock);
}

/* The threads are not in the child. */
static void after_fork_child(void)
{
    for (; running_first != NULL; running_first = running_first->next) {
        running_first->running = false;
    }
    pthread_mutex_unlock(&running_lock);
}

static void register_ends(void)
{
    pthread_atfork(before_fork, after_fork_parent, after_fork_child);
    atexit(end_all);
}

void zr_wake_init(struct zr_wake *wake)
{
    memset(wake, 0, sizeof(*wake));
    wake->fd = -1;
    pthread_mutex_init(&wake->lock, NULL);
    pthread_cond_init(&wake->changed, NULL);
}

ucs_status_t zr_wake_fd(struct zr_wake *wake, int *fd_p)
{
    if (wake->fd < 0) {
        wake->fd = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
        if (wake->fd < 0) {
            zr_ucs_error("eventfd failed: %m");
            return UCS_ERR_IO_ERROR;
        }
    }
    *fd_p = wake->fd;
    return UCS_OK;
}

void zr_wake_drain(struct zr_wake *wake)
{
    eventfd_t count;

    (void)eventfd_read(wake->fd, &count); /* nothing in it is as good */
}

static void *waiter(void *arg)
{
    struct zr_wake   *wake = arg;
    ze_event_handle_t event;
    ze_result_t       result;

    pthread_mutex_lock(&wake->lock);
    while (!wake->stop) {
        event = wake->event;
        if (event == NULL) {
            pthread_cond_wait(&wake->changed, &wake->lock);
            continue;
        }
        pthread_mutex_unlock(&wake->lock);
        result = zeEventHostSynchronize(event, LOOK_AGAIN_NS);
        pthread_mutex_lock(&wake->lock);
        if (result != ZE_RESULT_NOT_READY) {
            /* An error ends the wait too: who wakes up finds it at the copy. */
            wake->event = NULL;
            (void)eventfd_write(wake->fd, 1); /* full is as good */
        }
    }
    pthread_mutex_unlock(&wake->lock);
    return NULL;
}

/* The application's signals are not for this thread. */
static ucs_status_t start_thread(struct zr_wake *wake)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    sigset_t              all, before;
    int                   error;

    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    error = pthread_create(&wake->thread, NULL, waiter, wake);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    if (error != 0) {
        zr_ucs_error("no thread that wakes a sleeping worker: %s", strerror(error));
        return UCS_ERR_NO_MEMORY;
    }
    pthread_once(&once, register_ends);
    pthread_mutex_lock(&running_lock);
    wake->running = true;
    wake->next    = running_first;
    running_first = wake;
    pthread_mutex_unlock(&running_lock);
    return UCS_OK;
}

ucs_status_t zr_wake_watch(struct zr_wake *wake, ze_event_handle_t event)
{
    ucs_status_t status = wake->running ? UCS_OK : start_thread(wake);

    if (status == UCS_OK) {
        pthread_mutex_lock(&wake->lock);
        if (wake->event == NULL) {
            wake->event = event;
            pthread_cond_signal(&wake->changed);
        }
        pthread_mutex_unlock(&wake->lock);
    }
    return status;
}

bool zr_wake_uses(struct zr_wake *wake, ze_event_handle_t event)
{
    bool uses;

    if (!wake->running) {
        return false;
    }
    pthread_mutex_lock(&wake->lock);
    uses = wake->event == event;
    pthread_mutex_unlock(&wake->lock);
    return uses;
}

void zr_wake_stop(struct zr_wake *wake)
{
    struct zr_wake **link;

    pthread_mutex_lock(&running_lock);
    if (wake->running) {
        for (link = &running_first; *link != wake; link = &(*link)->next) {
        }
        *link = wake->next;
        end_thread(wake);
    }
    pthread_mutex_unlock(&running_lock);
    if (wake->fd >= 0) {
        close(wake->fd);
    }
    pthread_cond_destroy(&wake->changed);
    pthread_mutex_destroy(&wake->lock);
}
