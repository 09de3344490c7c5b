/* Open MPI osc component: one-sided communication with device memory at either end. */
/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef ZR_OMPI_OSC_H
#define ZR_OMPI_OSC_H

#include "check.h"

#include "ompi/communicator/communicator.h"
#include "ompi/mca/osc/base/base.h"
#include "ompi/mca/osc/osc.h"
#include "ompi/op/op.h"
#include "ompi/win/win.h"

#include <mpi.h>

#if OMPI_MAJOR_VERSION >= 6
typedef ptrdiff_t zr_unit_t;
#else
typedef int zr_unit_t;
#endif

/* What every rank knows of a rank's part of a window. */
struct zr_part {
    uint64_t base, size;
    int64_t  unit;   /* bytes; what a displacement counts */
    int32_t  device; /* bool */
    int32_t  flavor; /* MPI_WIN_FLAVOR_CREATE: the memory is there already */
    int32_t  failed; /* a class of errors of MPI; 0: the part is fit */
};

/* Data on its way through memory of ours, until the window is synchronised. */
struct zr_pending {
    struct zr_pending *next;
    int                target;
    void              *host, *device; /* ours; where both are, host is copied on to device first */
    size_t             bytes;
    bool               laid_out; /* host is as count elements lie, else they follow each other */
    void              *to;       /* where they go; NULL: there is nothing to bring */
    size_t             count;
    ompi_datatype_t   *dtype; /* a reference of ours */
};

/* One window: the functions of the component below stand in its module, ours take their place. */
struct zr_window {
    ompi_win_t            *win; /* NULL: this entry is free */
    struct zr_window      *next;
    ompi_osc_base_module_t below;
    int                    ranks;
    struct zr_part        *parts;     /* NULL: not known (MPI_Win_create_dynamic) */
    void                  *allocated; /* device memory of MPI_Win_allocate */
    pthread_mutex_t        lock;
    struct zr_pending     *pending; /* under lock */
    /* Where a part is device memory: the same parts, and a word of each rank that is 1 while
     * somebody accumulates there. Always open for access. Under lock. */
    MPI_Win data, locks;
    MPI_Op  swap; /* of a dynamic window: see zr_swap */
};

/** @return NULL: not a window of ours, which does not happen in the functions installed here */
struct zr_window *zr_window_find(const ompi_win_t *win);

/** Puts the functions of osc_comm.c in the module of a window. */
void zr_comm_install(ompi_osc_base_module_t *module);

/** Compare and swap as an operation of an accumulate. */
void zr_swap(void *in, void *inout, int *count, MPI_Datatype *dtype);

/* ---- osc_stage.c ---- */

/** Elements to bytes one after the other, and back. Either side may be device memory, not both. */
int zr_pack(void *bytes, const void *buffer, size_t count, ompi_datatype_t *dtype);
int zr_unpack(const void *bytes, void *buffer, size_t count, ompi_datatype_t *dtype);

/** The same elements elsewhere, what lies between them left alone. */
int zr_copy_elements(void *to, const void *from, size_t count, ompi_datatype_t *dtype);

/** @return NULL after a text, which *rc names */
struct zr_pending *zr_pending_new(int target, size_t bytes, bool device, int *rc);
/** Host memory for count elements as they lie at buffer; *copy is to be used in its place. */
struct zr_pending *zr_pending_like(int target, size_t count, ompi_datatype_t *dtype, void **copy,
                                   int *rc);
void               zr_pending_free(struct zr_pending *pending);
void               zr_pending_keep(struct zr_window *window, struct zr_pending *pending);
int                zr_pending_bring(struct zr_pending *pending);

/**
 * What operations to a target have left in memory of ours goes where it belongs.
 *
 * @param target a rank, or -1 for all
 */
int  zr_land(struct zr_window *window, int target);
void zr_pending_drop(struct zr_window *window);

/* ---- osc_device.c ---- */

/** Opens and closes what zr_device_accumulate needs; collective. */
int  zr_device_open(struct zr_window *window, void *base, size_t size, zr_unit_t unit,
                    ompi_communicator_t *comm);
void zr_device_close(struct zr_window *window);

/* An accumulate of any kind. */
struct zr_accumulate {
    const char      *call; /* for texts */
    const void      *origin;
    size_t           origin_count;
    ompi_datatype_t *origin_dt;
    const void      *compare; /* not NULL: compare and swap */
    void            *result;  /* NULL: none */
    size_t           result_count;
    ompi_datatype_t *result_dt;
    int              target;
    ptrdiff_t        disp;
    size_t           target_count;
    ompi_datatype_t *target_dt;
    ompi_op_t       *op;
};

/** Get, compute, put under the target's lock. It has ended when this returns. */
int zr_device_accumulate(struct zr_window *window, const struct zr_accumulate *acc);

#endif
