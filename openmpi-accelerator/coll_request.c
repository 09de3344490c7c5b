/* Reductions that go on: a request of ours around one of what lies below, which ends when the result
 * is back in device memory. */
/* SPDX-License-Identifier: BSD-3-Clause */
#include "coll.h"

#include "ompi/mca/coll/base/coll_base_util.h"
#include "opal/runtime/opal_progress.h"

#include <pthread.h>

typedef struct zr_request {
    /* Open MPI keeps the operation and types that a request holds in this one. */
    ompi_coll_base_nbc_request_t super;
    struct zr_call               call, inner_call;
    struct zr_stage              stage;
    ompi_request_t              *inner;
    struct zr_request           *next; /* among those that go on; under lock */
} zr_request_t;

static void request_construct(zr_request_t *request)
{
    request->inner = NULL;
    request->next  = NULL;
    request->stage = (struct zr_stage){0};
}

static OBJ_CLASS_INSTANCE(zr_request_t, ompi_coll_base_nbc_request_t, request_construct, NULL);

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static zr_request_t   *going;

/* Takes the requests whose inner one has ended. */
static zr_request_t *take_ended(void)
{
    zr_request_t **at = &going, *ended = NULL, *request;

    if (pthread_mutex_trylock(&lock) != 0) {
        return NULL; /* somebody else is at it */
    }
    while ((request = *at) != NULL) {
        if (REQUEST_COMPLETE(request->inner)) {
            *at           = request->next;
            request->next = ended;
            ended         = request;
        } else {
            at = &request->next;
        }
    }
    pthread_mutex_unlock(&lock);
    return ended;
}

static int progress(void)
{
    zr_request_t *request, *next;
    int           events = 0;

    if (__atomic_load_n(&going, __ATOMIC_ACQUIRE) == NULL) {
        return 0;
    }
    for (request = take_ended(); request != NULL; request = next) {
        int rc = request->inner->req_status.MPI_ERROR;

        next = request->next;
        if (rc == MPI_SUCCESS) {
            rc = zr_stage_out(&request->stage, &request->call, &request->inner_call);
        }
        request->super.super.req_status.MPI_ERROR = rc == OMPI_SUCCESS ? MPI_SUCCESS : MPI_ERR_OTHER;
        if (!request->super.super.req_persistent) {
            ompi_request_free(&request->inner);
            zr_stage_close(&request->stage);
        }
        ompi_request_complete(&request->super.super, true);
        events++;
    }
    return events;
}

static pthread_once_t once = PTHREAD_ONCE_INIT;

static void start_progress(void)
{
    opal_progress_register(progress);
}

void zr_requests_end(void)
{
    opal_progress_unregister(progress);
}

static void go_on(zr_request_t *request)
{
    pthread_once(&once, start_progress);
    pthread_mutex_lock(&lock);
    request->next = going;
    __atomic_store_n(&going, request, __ATOMIC_RELEASE);
    pthread_mutex_unlock(&lock);
}

static int request_free(ompi_request_t **request_p)
{
    zr_request_t *request = (zr_request_t *)*request_p;

    if (!REQUEST_COMPLETE(&request->super.super)) {
        return MPI_ERR_REQUEST;
    }
    if (request->inner != NULL) {
        ompi_request_free(&request->inner);
    }
    zr_stage_close(&request->stage);
    OMPI_REQUEST_FINI(&request->super.super);
    OBJ_RELEASE(request);
    *request_p = MPI_REQUEST_NULL;
    return OMPI_SUCCESS;
}

static int request_start(size_t count, ompi_request_t **requests)
{
    size_t k;
    int    rc;

    for (k = 0; k < count; k++) {
        zr_request_t *request = (zr_request_t *)requests[k];

        rc = zr_stage_in(&request->stage, &request->call, &request->inner_call);
        if (rc != OMPI_SUCCESS) {
            return rc;
        }
        request->super.super.req_complete = REQUEST_PENDING;
        request->super.super.req_state    = OMPI_REQUEST_ACTIVE;
        rc                          = request->inner->req_start(1, &request->inner);
        if (rc != OMPI_SUCCESS) {
            request->super.super.req_complete = REQUEST_COMPLETED;
            return rc;
        }
        go_on(request);
    }
    return OMPI_SUCCESS;
}

int zr_staged_begin(zr_coll_module_t *module, const struct zr_call *call, bool persistent,
                    ompi_request_t **request_p)
{
    zr_request_t *request = OBJ_NEW(zr_request_t);
    int           rc;

    if (request == NULL) {
        return OMPI_ERR_OUT_OF_RESOURCE;
    }
    request->call = *call;
    rc            = zr_stage_open(&request->stage, call, &request->inner_call);
    if (rc == OMPI_SUCCESS && !persistent) {
        rc = zr_stage_in(&request->stage, call, &request->inner_call);
    }
    if (rc == OMPI_SUCCESS) {
        rc = persistent ? zr_below_init(module, &request->inner_call, &request->inner) :
                          zr_below_begin(module, &request->inner_call, &request->inner);
    }
    if (rc != OMPI_SUCCESS) {
        zr_stage_close(&request->stage);
        OBJ_RELEASE(request);
        return rc;
    }
    OMPI_REQUEST_INIT(&request->super.super, persistent);
    request->super.super.req_type            = OMPI_REQUEST_COLL;
    request->super.super.req_status          = (ompi_status_public_t){0};
    request->super.super.req_mpi_object.comm = call->comm;
    request->super.super.req_free            = request_free;
    request->super.super.req_start           = request_start;
    request->super.super.req_cancel          = NULL;
    if (!persistent) {
        request->super.super.req_state = OMPI_REQUEST_ACTIVE;
        go_on(request);
    }
    *request_p = &request->super.super;
    return OMPI_SUCCESS;
}
