/* A file descriptor that becomes readable when a copy ends. Level Zero has none, so a thread waits
 * for the copy's event and writes it. The thread exists only once somebody who sleeps has armed the
 * interface with copies on their way; who polls never has one. */
/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef ZR_PLUGIN_WAKE_H
#define ZR_PLUGIN_WAKE_H

#include "abi/uct_abi.h"

#include <level_zero/ze_api.h>
#include <pthread.h>
#include <stdbool.h>

struct zr_wake {
    int               fd; /* an eventfd, -1: nobody asked yet */
    pthread_t         thread;
    bool              running; /* the thread exists */
    pthread_mutex_t   lock;    /* guards what follows */
    pthread_cond_t    changed;
    ze_event_handle_t event; /* what the thread waits for, NULL: nothing */
    bool              stop;
    struct zr_wake   *next; /* of those whose thread exists */
};

void zr_wake_init(struct zr_wake *wake);

/** @return UCS_ERR_IO_ERROR: no eventfd; says why. */
ucs_status_t zr_wake_fd(struct zr_wake *wake, int *fd_p);

/** Make it unreadable again. */
void zr_wake_drain(struct zr_wake *wake);

/**
 * Make it readable once @a event is signalled, which must not be reset or destroyed as long as
 * zr_wake_uses says so. While the thread still waits for an earlier event this does nothing: that
 * one makes it readable.
 * @return UCS_ERR_NO_MEMORY: there is no thread; says why.
 */
ucs_status_t zr_wake_watch(struct zr_wake *wake, ze_event_handle_t event);
bool         zr_wake_uses(struct zr_wake *wake, ze_event_handle_t event);

/** Ends the thread and closes the descriptor. */
void zr_wake_stop(struct zr_wake *wake);

#endif
