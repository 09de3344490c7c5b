/* Open MPI hook component: at the end of MPI_Init it stands in front of the pml, and what point-to-point
 * communication (that of collectives too) is given is checked before anything touches it. */
/* SPDX-License-Identifier: BSD-3-Clause */
#include "check.h"
#include "component.h"

#include "ompi/communicator/communicator.h"
#include "ompi/mca/hook/base/base.h"
#include "ompi/mca/hook/hook.h"
#include "ompi/mca/pml/pml.h"
#include "ompi/message/message.h"
#include "ompi/request/request.h"

#include <mpi.h>
#include <stdlib.h>

static mca_pml_base_module_t below;

#define BUFFER(type) type *buf, size_t count, ompi_datatype_t *datatype

#define TRY(what)                                                                                  \
    do {                                                                                           \
        int try_rc = zr_check_buffer(what, buf, count, datatype);                                  \
        if (try_rc != MPI_SUCCESS) {                                                               \
            return try_rc;                                                                         \
        }                                                                                          \
    } while (0)

static int checked_send(BUFFER(const void), int dst, int tag, mca_pml_base_send_mode_t mode,
                ompi_communicator_t *comm)
{
    TRY("send");
    return below.pml_send(buf, count, datatype, dst, tag, mode, comm);
}

static int checked_isend(BUFFER(const void), int dst, int tag, mca_pml_base_send_mode_t mode,
                 ompi_communicator_t *comm, ompi_request_t **request)
{
    TRY("send");
    return below.pml_isend(buf, count, datatype, dst, tag, mode, comm, request);
}

static int checked_recv(BUFFER(void), int src, int tag, ompi_communicator_t *comm,
                ompi_status_public_t *status)
{
    TRY("receive");
    return below.pml_recv(buf, count, datatype, src, tag, comm, status);
}

static int checked_irecv(BUFFER(void), int src, int tag, ompi_communicator_t *comm,
                 ompi_request_t **request)
{
    TRY("receive");
    return below.pml_irecv(buf, count, datatype, src, tag, comm, request);
}

static int checked_mrecv(BUFFER(void), struct ompi_message_t **message, ompi_status_public_t *status)
{
    TRY("receive");
    return below.pml_mrecv(buf, count, datatype, message, status);
}

static int checked_imrecv(BUFFER(void), struct ompi_message_t **message, ompi_request_t **request)
{
    ompi_communicator_t *comm = (*message)->comm;
    int                  rc;

    TRY("receive");
    rc = below.pml_imrecv(buf, count, datatype, message, request);
    /* pml/ucx of Open MPI 5.0 leaves it out, and MPI_Waitall looks there. */
    if (rc == OMPI_SUCCESS && *request != NULL) {
        (*request)->req_mpi_object.comm = comm;
    }
    return rc;
}

/* ---- persistent requests: checked at each start ---- */

#define BUCKETS 256

struct persistent {
    ompi_request_t         *request;
    const char             *what;
    const void             *buf;
    size_t                  count;
    ompi_datatype_t        *datatype; /* a reference of ours */
    ompi_request_start_fn_t start;
    ompi_request_free_fn_t  free;
    struct persistent      *next;
};

static pthread_mutex_t    lock = PTHREAD_MUTEX_INITIALIZER;
static struct persistent *all[BUCKETS]; /* under lock */

static struct persistent **find(const ompi_request_t *request)
{
    struct persistent **at = &all[((uintptr_t)request / 64 * 0x9e3779b97f4a7c15u) >> 56];

    while (*at != NULL && (*at)->request != request) {
        at = &(*at)->next;
    }
    return at;
}

static struct persistent known(const ompi_request_t *request)
{
    struct persistent copy;

    pthread_mutex_lock(&lock);
    copy = **find(request);
    pthread_mutex_unlock(&lock);
    return copy;
}

static int start_persistent(size_t count, ompi_request_t **requests)
{
    struct persistent one;
    size_t            k;
    int               rc = OMPI_SUCCESS;

    for (k = 0; k < count && rc == OMPI_SUCCESS; k++) {
        if (requests[k]->req_start != start_persistent) {
            rc = requests[k]->req_start(1, &requests[k]);
            continue;
        }
        one = known(requests[k]);
        rc  = zr_check_buffer(one.what, one.buf, one.count, one.datatype);
        if (rc == MPI_SUCCESS) {
            rc = one.start(1, &requests[k]);
        }
    }
    return rc;
}

static int free_persistent(ompi_request_t **request)
{
    struct persistent *one, **at;
    int                rc;

    pthread_mutex_lock(&lock);
    at  = find(*request);
    one = *at;
    *at = one->next;
    pthread_mutex_unlock(&lock);
    (*request)->req_start = one->start;
    (*request)->req_free  = one->free;
    rc                    = one->free(request);
    OBJ_RELEASE(one->datatype);
    free(one);
    return rc;
}

static int remember(const char *what, const void *buf, size_t count, ompi_datatype_t *datatype,
                    ompi_request_t *request)
{
    struct persistent *one = malloc(sizeof(*one)), **at;

    if (one == NULL) {
        return OMPI_ERR_OUT_OF_RESOURCE;
    }
    OBJ_RETAIN(datatype);
    *one = (struct persistent){request, what, buf, count, datatype, request->req_start,
                               request->req_free, NULL};
    request->req_start = start_persistent;
    request->req_free  = free_persistent;
    pthread_mutex_lock(&lock);
    at  = find(request);
    *at = one;
    pthread_mutex_unlock(&lock);
    return OMPI_SUCCESS;
}

static int checked_isend_init(BUFFER(const void), int dst, int tag, mca_pml_base_send_mode_t mode,
                      ompi_communicator_t *comm, ompi_request_t **request)
{
    int rc;

    TRY("send");
    rc = below.pml_isend_init(buf, count, datatype, dst, tag, mode, comm, request);
    return rc == OMPI_SUCCESS ? remember("send", buf, count, datatype, *request) : rc;
}

static int checked_irecv_init(BUFFER(void), int src, int tag, ompi_communicator_t *comm,
                      ompi_request_t **request)
{
    int rc;

    TRY("receive");
    rc = below.pml_irecv_init(buf, count, datatype, src, tag, comm, request);
    return rc == OMPI_SUCCESS ? remember("receive", buf, count, datatype, *request) : rc;
}

/* ---- the component ---- */

static void init_bottom(int argc, char **argv, int requested, int *provided)
{
    if (zr_acc_get() == NULL) {
        return; /* no device, nothing to check */
    }
    zr_check_start();
    below                  = mca_pml;
    mca_pml.pml_send       = checked_send;
    mca_pml.pml_isend      = checked_isend;
    mca_pml.pml_isend_init = checked_isend_init;
    mca_pml.pml_recv       = checked_recv;
    mca_pml.pml_irecv      = checked_irecv;
    mca_pml.pml_irecv_init = checked_irecv_init;
    mca_pml.pml_mrecv      = checked_mrecv;
    mca_pml.pml_imrecv     = checked_imrecv;
    mca_pml.pml_start      = start_persistent;
}

static void finalize_top(void)
{
    if (below.pml_send != NULL) {
        mca_pml = below;
        zr_check_stop();
    }
}

extern __attribute__((visibility("default")))
ompi_hook_base_component_t mca_hook_zerange_component;
ompi_hook_base_component_t mca_hook_zerange_component = {
    .hookm_version = {
        OMPI_HOOK_BASE_VERSION_1_0_0,
        .mca_component_name = "zerange",
        MCA_BASE_MAKE_VERSION(component, 0, 1, 0),
    },
    .hookm_mpi_init_bottom  = init_bottom,
    .hookm_mpi_finalize_top = finalize_top,
};

ZR_COMPONENT_POINTER(mca_hook_zerange_component, hookm_version);
