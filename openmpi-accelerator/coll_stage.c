/* Reductions on host copies: which buffers of a call are read and written, and copying them. */
/* SPDX-License-Identifier: BSD-3-Clause */
#include "coll.h"

#include <stdio.h>
#include <stdlib.h>

/* Elements of the send and of the receive buffer; 0 where the rank has none. */
static void extent_of(const struct zr_call *call, struct zr_stage *stage)
{
    int    ranks = ompi_comm_size(call->comm), rank = ompi_comm_rank(call->comm), k;
    bool   inter = OMPI_COMM_IS_INTER(call->comm);
    size_t sum   = 0;

    stage->send_count = stage->recv_count = (size_t)call->count;
    switch (call->kind) {
    case ZR_reduce:
        if (inter) {
            stage->send_count = call->root == MPI_ROOT || call->root == MPI_PROC_NULL ? 0 :
                                                                                     call->count;
            stage->recv_count = call->root == MPI_ROOT ? call->count : 0;
        } else if (rank != call->root) {
            stage->recv_count = 0;
        }
        break;
    case ZR_reduce_scatter:
        for (k = 0; k < ranks; k++) {
            sum += ZR_COUNT_AT(call->counts, k);
        }
        stage->send_count = sum;
        stage->recv_count = ZR_COUNT_AT(call->counts, rank);
        break;
    case ZR_reduce_scatter_block:
        stage->send_count *= (size_t)ranks;
        break;
    default:
        break;
    }
    stage->in_place = 0;
    if (call->sbuf == MPI_IN_PLACE) {
        stage->in_place   = stage->send_count;
        stage->send_count = 0;
    }
}

static bool is_device(const void *ptr, size_t count)
{
    return count > 0 && ptr != NULL && ptr != MPI_IN_PLACE && zr_acc_is_device(ptr);
}

/* A type may begin off the pointer. */
static const char *start_of(const void *buffer, const ompi_datatype_t *dtype)
{
    return (const char *)buffer + dtype->super.true_lb;
}

bool zr_stage_needed(const struct zr_call *call)
{
    struct zr_stage stage;

    extent_of(call, &stage);
    return is_device(start_of(call->sbuf == MPI_IN_PLACE ? call->rbuf : call->sbuf, call->dtype),
                     call->sbuf == MPI_IN_PLACE ? stage.in_place : stage.send_count) ||
           is_device(start_of(call->rbuf, call->dtype), stage.recv_count);
}

/* Host memory laid out as count elements at buffer are; *host_p is what a call gets. */
static int host_copy(const ompi_datatype_t *dtype, size_t count, const void *buffer, void **block_p,
                     const void **host_p)
{
    ptrdiff_t gap;
    ptrdiff_t span = opal_datatype_span(&dtype->super, count, &gap);

    *block_p = zr_acc_host_get(span > 0 ? (size_t)span : 1);
    if (*block_p == NULL) {
        fprintf(stderr, "zerange: reduction over %p: no memory for a host copy of %td bytes\n",
                buffer, span);
        return OMPI_ERR_OUT_OF_RESOURCE;
    }
    *host_p = (char *)*block_p - gap;
    return OMPI_SUCCESS;
}

int zr_stage_open(struct zr_stage *stage, const struct zr_call *call, struct zr_call *inner)
{
    const void *host;
    size_t      count;
    int         rc;

    *inner = *call;
    extent_of(call, stage);
    stage->send = stage->recv = NULL;
    if (is_device(start_of(call->sbuf, call->dtype), stage->send_count)) {
        rc = host_copy(call->dtype, stage->send_count, call->sbuf, &stage->send, &inner->sbuf);
        if (rc != OMPI_SUCCESS) {
            return rc;
        }
    }
    count = stage->in_place > stage->recv_count ? stage->in_place : stage->recv_count;
    if (is_device(start_of(call->rbuf, call->dtype), count)) {
        rc = host_copy(call->dtype, count, call->rbuf, &stage->recv, &host);
        if (rc != OMPI_SUCCESS) {
            zr_stage_close(stage);
            return rc;
        }
        inner->rbuf = (void *)host;
    }
    return OMPI_SUCCESS;
}

void zr_stage_close(struct zr_stage *stage)
{
    zr_acc_host_put(stage->send);
    zr_acc_host_put(stage->recv);
    stage->send = stage->recv = NULL;
}

/* Elements only: what lies between them belongs to somebody else. */
static int copy_elements(const ompi_datatype_t *dtype, size_t count, void *dst, const void *src)
{
    ptrdiff_t gap, span;

    if (count == 0) {
        return OMPI_SUCCESS;
    }
    if (opal_datatype_is_contiguous_memory_layout(&dtype->super, (int32_t)(count > 1 ? 2 : 1))) {
        span = opal_datatype_span(&dtype->super, count, &gap);
        return zr_acc_copy((char *)dst + gap, (const char *)src + gap, (size_t)span) ?
                   OMPI_SUCCESS :
                   OMPI_ERROR;
    }
    return ompi_datatype_copy_content_same_ddt(dtype, count, dst, (char *)src) == 0 ? OMPI_SUCCESS :
                                                                                  OMPI_ERROR;
}

int zr_stage_in(const struct zr_stage *stage, const struct zr_call *call,
                const struct zr_call *inner)
{
    int rc = OMPI_SUCCESS;

    if (stage->send != NULL) {
        rc = copy_elements(call->dtype, stage->send_count, (void *)inner->sbuf, call->sbuf);
    }
    if (rc == OMPI_SUCCESS && stage->recv != NULL) {
        /* exscan leaves rank 0's buffer as it is: it goes in and comes back */
        size_t count = stage->in_place;

        if (call->kind == ZR_exscan && count < stage->recv_count) {
            count = stage->recv_count;
        }
        rc = copy_elements(call->dtype, count, inner->rbuf, call->rbuf);
    }
    return rc;
}

int zr_stage_out(const struct zr_stage *stage, const struct zr_call *call,
                 const struct zr_call *inner)
{
    return stage->recv == NULL ?
               OMPI_SUCCESS :
               copy_elements(call->dtype, stage->recv_count, call->rbuf, inner->rbuf);
}
