/* An application that exits without a word to UCX while the transport's threads are in the driver:
 * they end before anything of the driver does. One has a peer that just freed what is open here,
 * which the link closes; one is to be woken by a copy on its way. */
/* SPDX-License-Identifier: BSD-3-Clause */
#include "zepair.h"

#include <dlfcn.h>
#include <level_zero/ze_ddi.h>
#include <sched.h>
#include <semaphore.h>
#include <stdatomic.h>
#include <stdbool.h>

#define OBJECTS 8
#define SIZE    ((size_t)OBJECTS * 65536)

#define PATIENCE_S 1 /* that a thread stays in the driver for, to see the end of the process there */

enum { CLOSING, WAITING, CASES };
static const char *const names[CASES] = {"the link closes what a peer freed", "a copy is waited for"};

static unsigned current;

static const ucp_request_param_t plain = {0};

/* ---- the driver's functions that the threads are in ---- */

static atomic_bool watched; /* from now on */
static atomic_bool inside;  /* a thread is in there */
static sem_t       ending;  /* all that was registered after this program's start has run */

static void end(void)
{
    sem_post(&ending);
}

static void stay(void)
{
    struct timespec until;

    if (!atomic_load(&watched) || atomic_exchange(&inside, true)) {
        return;
    }
    clock_gettime(CLOCK_REALTIME, &until);
    until.tv_sec += PATIENCE_S;
    if (sem_timedwait(&ending, &until) == 0) {
        fprintf(stderr, "while %s: the thread outlives the application\n", names[current]);
        _exit(3);
    }
}

/* These are before the loader's. */
__attribute__((visibility("default"))) ze_result_t ZE_APICALL
zeMemCloseIpcHandle(ze_context_handle_t context, const void *ptr)
{
    ze_pfnMemCloseIpcHandle_t next =
        (ze_pfnMemCloseIpcHandle_t)dlsym(RTLD_NEXT, "zeMemCloseIpcHandle");

    stay();
    return next(context, ptr);
}

__attribute__((visibility("default"))) ze_result_t ZE_APICALL
zeEventHostSynchronize(ze_event_handle_t event, uint64_t timeout)
{
    ze_pfnEventHostSynchronize_t next =
        (ze_pfnEventHostSynchronize_t)dlsym(RTLD_NEXT, "zeEventHostSynchronize");

    stay();
    return next(event, timeout);
}

static void exit_once_inside(void)
{
    double give_up = zp_seconds() + 20;

    while (!atomic_load(&inside)) {
        if (zp_seconds() > give_up) {
            FAIL("while %s: no thread came to the driver", names[current]);
        }
        sched_yield();
    }
    exit(0);
}

/* ---- the application ---- */

static void exit_while_closing(struct zebuf *buf)
{
    char c = 0;

    if (pair.rank == 0) {
        zebuf_unmap(buf);
        while (read(pair.fd, &c, 1) > 0) { /* until the other has ended */
        }
        exit(0);
    }
    exit_once_inside();
}

static void exit_while_waiting(struct zebuf *buf, struct zp_key *key)
{
    ucs_status_t status;
    void        *request;
    char         c;

    if (pair.rank == 0) {
        while (read(pair.fd, &c, 1) > 0) {
        }
        exit(0);
    }
    request = ucp_get_nbx(pair.ep, buf->ptr, SIZE, key->remote, key->rkey, &plain);
    while ((status = ucp_worker_arm(pair.worker)) == UCS_ERR_BUSY) {
        ucp_worker_progress(pair.worker);
    }
    UCS(status);
    if (!UCS_PTR_IS_PTR(request) || ucp_request_check_status(request) != UCS_INPROGRESS) {
        FAIL("the copy had ended before the worker slept");
    }
    exit_once_inside();
}

static void body(void)
{
    struct zebuf  buf;
    struct zp_key key;

    sem_init(&ending, 0, 0);
    atexit(end);
    zp_device();
    pair_start_ucx_with(UCP_FEATURE_TAG | UCP_FEATURE_RMA |
                            (current == WAITING ? UCP_FEATURE_WAKEUP : 0),
                        UCS_THREAD_MODE_SINGLE);
    pair_connect(UCP_ERR_HANDLING_MODE_NONE);
    zebuf_map(&buf, OBJECTS, SIZE / OBJECTS, NULL);
    zebuf_fill(&buf, pair.rank);
    zp_share(buf.ptr, SIZE, &key);
    pair_meet();
    if (pair.rank == 1) { /* it is open here */
        UCS(zp_get(&key, buf.ptr, SIZE, key.remote));
        if (zebuf_check(&buf, 0, SIZE, 0, 0, 1) != 0) {
            FAIL("wrong bytes");
        }
        atomic_store(&watched, true);
    }
    pair_meet();
    if (current == CLOSING) {
        exit_while_closing(&buf);
    } else {
        exit_while_waiting(&buf, &key);
    }
}

int main(int argc, char **argv)
{
    unsigned k;
    int      result = 0;

    pair_enter(body, &current);
    setenv("UCX_MODULES", "^ze", 1); /* UCX's own ze_copy does not serve who sleeps */
    setenv("ZERANGE_SOFT_ENGINE_MBPS", "50", 1);
    for (k = 0; k < CASES && result == 0; k++) {
        result = pair_run(argv[0], k, 60);
        if (result == 0) {
            printf("ok: exit while %s\n", names[k]);
        }
    }
    return result;
}
