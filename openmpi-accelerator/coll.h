/* Open MPI coll component: reductions over device memory. */
/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef ZR_OMPI_COLL_H
#define ZR_OMPI_COLL_H

#include "ze.h"

#include "ompi_config.h"

#include "ompi/communicator/communicator.h"
#include "ompi/constants.h"
#include "ompi/datatype/ompi_datatype.h"
#include "ompi/mca/coll/base/base.h"
#include "ompi/mca/coll/coll.h"
#include "ompi/op/op.h"
#include "ompi/request/request.h"

/* Open MPI 6 counts in size_t and has arrays of counts that know their width. */
#if OMPI_MAJOR_VERSION >= 6
typedef size_t             zr_count_t;
typedef ompi_count_array_t zr_counts_t;
#define ZR_COUNT_AT(counts, k) ompi_count_array_get(counts, k)
#else
typedef int        zr_count_t;
typedef const int *zr_counts_t;
#define ZR_COUNT_AT(counts, k) ((size_t)(counts)[k])
#endif

/* The reductions, each in three forms: blocking, non-blocking (i), persistent (_init). */
#define ZR_REDUCTIONS(X)                                                                           \
    X(allreduce)                                                                                   \
    X(reduce)                                                                                      \
    X(reduce_scatter)                                                                              \
    X(reduce_scatter_block)                                                                        \
    X(scan)                                                                                        \
    X(exscan)

enum zr_reduction {
#define X(name) ZR_##name,
    ZR_REDUCTIONS(X)
#undef X
};

/* One call of one of them, as its arguments came. */
struct zr_call {
    enum zr_reduction    kind;
    const void          *sbuf;
    void                *rbuf;
    zr_count_t           count;
    zr_counts_t          counts; /* reduce_scatter */
    ompi_datatype_t     *dtype;
    ompi_op_t           *op;
    int                  root;   /* reduce */
    ompi_communicator_t *comm;
    struct ompi_info_t  *info;   /* persistent */
};

/* Is every process of a communicator on this node, of this job, and has it this component? */
enum zr_nearness { ZR_NOT_ASKED, ZR_NEAR, ZR_FAR };

/* What was there before us, for one communicator. */
typedef struct {
    mca_coll_base_module_t super;
    enum zr_nearness       near;
#define X(name)                                                                                    \
    mca_coll_base_module_##name##_fn_t      name;                                                  \
    mca_coll_base_module_t                 *name##_module;                                         \
    mca_coll_base_module_i##name##_fn_t     i##name;                                               \
    mca_coll_base_module_t                 *i##name##_module;                                      \
    mca_coll_base_module_##name##_init_fn_t name##_init;                                           \
    mca_coll_base_module_t                 *name##_init_module;
    ZR_REDUCTIONS(X)
#undef X
    mca_coll_base_module_reduce_local_fn_t reduce_local;
    mca_coll_base_module_t                *reduce_local_module;
    mca_coll_base_module_alltoall_fn_t     alltoall;
    mca_coll_base_module_t                *alltoall_module;
    mca_coll_base_module_allgather_fn_t    allgather;
    mca_coll_base_module_t                *allgather_module;
} zr_coll_module_t;

/* One call of a collective that moves a block between every two ranks. */
struct zr_blocks {
    const void          *sbuf;
    size_t               scount;
    ompi_datatype_t     *stype;
    void                *rbuf;
    size_t               rcount;
    ompi_datatype_t     *rtype;
    ompi_communicator_t *comm;
    bool                 all; /* a block to send for each rank, not one for all */
    int                  tag;
};

/* Host copies of those buffers of a call that are device memory. */
struct zr_stage {
    size_t send_count, recv_count; /* elements of the send and of the receive buffer */
    void  *send, *recv;            /* what was allocated; NULL: the caller's buffer is used */
    size_t in_place;               /* elements that go in through rbuf */
};

/**
 * Replaces the buffers of inner by host copies where they are device memory.
 *
 * @return false: neither is, and the call goes on as it came
 */
bool zr_stage_needed(const struct zr_call *call);
int  zr_stage_open(struct zr_stage *stage, const struct zr_call *call, struct zr_call *inner);
/** Device to host: what the reduction reads. */
int zr_stage_in(const struct zr_stage *stage, const struct zr_call *call,
                const struct zr_call *inner);
/** Host to device: what it wrote. */
int zr_stage_out(const struct zr_stage *stage, const struct zr_call *call,
                 const struct zr_call *inner);
void zr_stage_close(struct zr_stage *stage);

/** Starts inner on the host and gives a request that ends when the result is back in call->rbuf. */
int zr_staged_begin(zr_coll_module_t *module, const struct zr_call *call, bool persistent,
                    ompi_request_t **request);

/** No request is looked after any more. */
void zr_requests_end(void);

/* ---- among the processes of one node ---- */

/* A buffer's place is known to its rank only, so these ways are taken whatever it is: all ranks
 * have to do the same. */

/* Bytes from which on a collective goes these ways, 0: never; bytes of the result that a rank makes at
 * a time. The same on all ranks. */
extern size_t zr_direct_bytes, zr_direct_piece;
extern int    zr_coll_verbose;

/** Tells the other processes that this one has the component. Before MPI's exchange of such things. */
void zr_direct_publish(void);
bool zr_near(zr_coll_module_t *module, ompi_communicator_t *comm);
/** Whether a reduction goes piece by piece. */
bool zr_direct_fits(zr_coll_module_t *module, const struct zr_call *call);
int  zr_direct(const struct zr_call *call);

/** Whether blocks go all at once. */
bool zr_blocks_fit(zr_coll_module_t *module, const struct zr_blocks *blocks);
int  zr_blocks(const struct zr_blocks *blocks);

/* What lies below us. */
int zr_below(zr_coll_module_t *module, const struct zr_call *call);
int zr_below_begin(zr_coll_module_t *module, const struct zr_call *call, ompi_request_t **request);
int zr_below_init(zr_coll_module_t *module, const struct zr_call *call, ompi_request_t **request);

#endif
