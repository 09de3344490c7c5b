/* Large alltoall and allgather among the processes of one node: all transfers at once, and the
 * rank's own block in one copy, which Open MPI's would cut into pieces of 128 KiB. */
/* SPDX-License-Identifier: BSD-3-Clause */
#include "coll.h"

#include "ompi/mca/coll/base/coll_tags.h"
#include "ompi/mca/pml/pml.h"

#include <stdio.h>
#include <stdlib.h>

static bool is_contiguous(const ompi_datatype_t *type, size_t count)
{
    return opal_datatype_is_contiguous_memory_layout(&type->super, (int32_t)(count > 1 ? 2 : 1));
}

static char *block_at(const void *buffer, size_t block, size_t count, const ompi_datatype_t *type)
{
    return (char *)buffer +
           (ptrdiff_t)(block * count) * (ptrdiff_t)(type->super.ub - type->super.lb);
}

static int copy_own(const struct zr_blocks *b, const char *from, char *to)
{
    size_t bytes = b->rcount * b->rtype->super.size;

    if (is_contiguous(b->stype, b->scount) && is_contiguous(b->rtype, b->rcount)) {
        return zr_acc_copy(to + b->rtype->super.true_lb, from + b->stype->super.true_lb, bytes) ?
                   OMPI_SUCCESS :
                   OMPI_ERROR;
    }
    return ompi_datatype_sndrcv(from, b->scount, b->stype, to, b->rcount, b->rtype);
}

static int send_block(const struct zr_blocks *b, const void *from, size_t count,
                      ompi_datatype_t *type, int rank, ompi_request_t **request)
{
    return MCA_PML_CALL(isend((void *)from, count, type, rank, b->tag, MCA_PML_BASE_SEND_STANDARD,
                              b->comm, request));
}

static int exchange(const struct zr_blocks *b, ompi_request_t **requests)
{
    int ranks = ompi_comm_size(b->comm), rank = ompi_comm_rank(b->comm), k, other, n = 0;
    int rc = OMPI_SUCCESS, ended;

    for (k = 1; k < ranks && rc == OMPI_SUCCESS; k++) {
        other = (rank + ranks - k) % ranks;
        rc    = MCA_PML_CALL(irecv(block_at(b->rbuf, (size_t)other, b->rcount, b->rtype), b->rcount,
                                   b->rtype, other, b->tag, b->comm, &requests[n]));
        n += rc == OMPI_SUCCESS;
    }
    for (k = 1; k < ranks && rc == OMPI_SUCCESS; k++) {
        other = (rank + k) % ranks;
        rc    = b->sbuf == MPI_IN_PLACE ?
                    send_block(b, block_at(b->rbuf, (size_t)rank, b->rcount, b->rtype), b->rcount,
                               b->rtype, other, &requests[n]) :
                    send_block(b, b->all ? block_at(b->sbuf, (size_t)other, b->scount, b->stype) :
                                           b->sbuf,
                               b->scount, b->stype, other, &requests[n]);
        n += rc == OMPI_SUCCESS;
    }
    if (rc == OMPI_SUCCESS && b->sbuf != MPI_IN_PLACE) {
        rc = copy_own(b, b->all ? block_at(b->sbuf, (size_t)rank, b->scount, b->stype) : b->sbuf,
                      block_at(b->rbuf, (size_t)rank, b->rcount, b->rtype));
    }
    ended = ompi_request_wait_all((size_t)n, requests, MPI_STATUSES_IGNORE);
    return rc != OMPI_SUCCESS ? rc : ended;
}

/* In place, an alltoall has nowhere to put a block before its own has been read. */
bool zr_blocks_fit(zr_coll_module_t *m, const struct zr_blocks *b)
{
    return zr_direct_bytes > 0 && b->rcount * b->rtype->super.size >= zr_direct_bytes &&
           !(b->all && b->sbuf == MPI_IN_PLACE) && zr_near(m, b->comm);
}

int zr_blocks(const struct zr_blocks *b)
{
    size_t           n        = 2 * (size_t)ompi_comm_size(b->comm);
    ompi_request_t **requests = malloc(n * sizeof(*requests));
    int              rc;

    if (requests == NULL) {
        fprintf(stderr, "zerange: collective over %p: no memory for %zu requests\n", b->rbuf, n);
        return OMPI_ERR_OUT_OF_RESOURCE;
    }
    rc = exchange(b, requests);
    free(requests);
    return rc;
}
