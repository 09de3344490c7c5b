/* Open MPI op component: a predefined reduction one of whose operands is device memory runs on host
 * copies of it; any other goes to the function that would have been used without us. */
/* SPDX-License-Identifier: BSD-3-Clause */
#include "ze.h"
#include "component.h"

#include "ompi_config.h"

#include "ompi/communicator/communicator.h"
#include "ompi/constants.h"
#include "ompi/datatype/ompi_datatype.h"
#include "ompi/mca/op/base/base.h"
#include "ompi/mca/op/op.h"
#include "ompi/op/op.h"
#include "ompi/runtime/mpiruntime.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define PRIORITY 90 /* above every component that computes */

/* What was there before us, for one operation. Apart from the module, which Open MPI releases when
 * this component may be unloaded already. */
struct below {
    ompi_op_base_handler_fn_1_0_0_t       two[OMPI_OP_BASE_TYPE_MAX];
    ompi_op_base_module_t                *two_module[OMPI_OP_BASE_TYPE_MAX];
    ompi_op_base_3buff_handler_fn_1_0_0_t three[OMPI_OP_BASE_TYPE_MAX];
    ompi_op_base_module_t                *three_module[OMPI_OP_BASE_TYPE_MAX];
};

static struct below all_below[OMPI_OP_BASE_FORTRAN_OP_MAX];

static struct below *below_of(const struct ompi_op_base_module_1_0_0_t *module)
{
    return &all_below[module->opm_op->o_f_to_c_index];
}

/* A reduction has no way to say no: MPI's result would be wrong bytes. */
static void cannot(const char *what, const void *ptr, size_t size)
{
    fprintf(stderr, "zerange: reduction: cannot %s %zu bytes at %p; the job ends here rather than "
                    "with a wrong result\n",
            what, size, ptr);
    ompi_mpi_abort(&ompi_mpi_comm_world.comm, MPI_ERR_OP);
}

/* The operand where the CPU can read it: itself, or a copy that the caller frees. */
static void *reachable(const void *ptr, size_t size, bool fill)
{
    void *copy;

    if (!zr_acc_is_device(ptr)) {
        return (void *)ptr;
    }
    copy = malloc(size);
    if (copy == NULL || (fill && !zr_acc_copy(copy, ptr, size))) {
        cannot("copy out", ptr, size);
    }
    return copy;
}

static void put_back(void *ptr, void *copy, size_t size)
{
    if (copy != ptr) {
        if (!zr_acc_copy(ptr, copy, size)) {
            cannot("copy back", ptr, size);
        }
        free(copy);
    }
}

static void drop(const void *ptr, void *copy)
{
    if (copy != ptr) {
        free(copy);
    }
}

/* The place of a type in the tables of functions, and the bytes of count of it. */
static int place_of(ompi_datatype_t *dtype, int count, size_t *size_p)
{
    if (!ompi_datatype_is_predefined(dtype)) {
        dtype = ompi_datatype_get_single_predefined_type_from_args(dtype);
    }
    *size_p = (size_t)count * (size_t)(dtype->super.ub - dtype->super.lb);
    return ompi_op_ddt_map[dtype->id];
}

static void reduce_two(const void *in, void *inout, int *count, struct ompi_datatype_t **dtype,
                       struct ompi_op_base_module_1_0_0_t *module)
{
    struct below *below = below_of(module);
    size_t        size;
    int           k = place_of(*dtype, *count, &size);
    void         *a = reachable(in, size, true);
    void         *b = reachable(inout, size, true);

    below->two[k](a, b, count, dtype, below->two_module[k]);
    put_back(inout, b, size);
    drop(in, a);
}

static void reduce_three(const void *in1, const void *in2, void *out, int *count,
                         struct ompi_datatype_t            **dtype,
                         struct ompi_op_base_module_1_0_0_t *module)
{
    struct below *below = below_of(module);
    size_t        size;
    int           k = place_of(*dtype, *count, &size);
    void         *a = reachable(in1, size, true);
    void         *b = reachable(in2, size, true);
    void         *c = reachable(out, size, true);

    below->three[k](a, b, c, count, dtype, below->three_module[k]);
    put_back(out, c, size);
    drop(in2, b);
    drop(in1, a);
}

/* Called before this module's functions replace those of lower priority: these are kept. */
static int module_enable(struct ompi_op_base_module_1_0_0_t *module, struct ompi_op_t *op)
{
    struct below *below = &all_below[op->o_f_to_c_index];
    int           k;

    for (k = 0; k < OMPI_OP_BASE_TYPE_MAX; k++) {
        below->two[k]          = op->o_func.intrinsic.fns[k];
        below->two_module[k]   = op->o_func.intrinsic.modules[k];
        below->three[k]        = op->o_3buff_intrinsic.fns[k];
        below->three_module[k] = op->o_3buff_intrinsic.modules[k];
        OBJ_RETAIN(below->two_module[k]);
        OBJ_RETAIN(below->three_module[k]);
        /* What nobody computes must stay an error of MPI. */
        module->opm_fns[k]       = below->two[k] != NULL ? reduce_two : NULL;
        module->opm_3buff_fns[k] = below->three[k] != NULL ? reduce_three : NULL;
#if OMPI_MAJOR_VERSION < 6
        /* 5.0 releases the module of the two-buffer function where it replaces the three-buffer
         * one (op_base_op_select.c); one reference more keeps it alive, at worst to the end. */
        if (below->three[k] != NULL) {
            OBJ_RETAIN(below->two[k] != NULL ? module : below->two_module[k]);
        }
#endif
    }
    return OMPI_SUCCESS;
}

static int init_query(bool enable_progress_threads, bool enable_mpi_threads)
{
    return zr_acc_get() != NULL ? OMPI_SUCCESS : OMPI_ERR_NOT_SUPPORTED;
}

static struct ompi_op_base_module_1_0_0_t *op_query(struct ompi_op_t *op, int *priority)
{
    ompi_op_base_module_t *module;

    if ((op->o_flags & OMPI_OP_FLAGS_INTRINSIC) == 0 || op->o_f_to_c_index < 0 ||
        op->o_f_to_c_index >= OMPI_OP_BASE_FORTRAN_OP_MAX) {
        return NULL;
    }
    module = OBJ_NEW(ompi_op_base_module_t);
    if (module == NULL) {
        return NULL;
    }
    module->opm_enable = module_enable;
    module->opm_op     = op;
    *priority          = PRIORITY;
    return module;
}

static int component_close(void)
{
    int i, k;

    for (i = 0; i < OMPI_OP_BASE_FORTRAN_OP_MAX; i++) {
        for (k = 0; k < OMPI_OP_BASE_TYPE_MAX && all_below[i].two_module[k] != NULL; k++) {
            OBJ_RELEASE(all_below[i].two_module[k]);
            OBJ_RELEASE(all_below[i].three_module[k]);
            all_below[i].two_module[k] = all_below[i].three_module[k] = NULL;
        }
    }
    return OMPI_SUCCESS;
}

extern __attribute__((visibility("default")))
ompi_op_base_component_t mca_op_zerange_component;
ompi_op_base_component_t mca_op_zerange_component = {
    .opc_version = {
        OMPI_OP_BASE_VERSION_1_0_0,
        .mca_component_name = "zerange",
        MCA_BASE_MAKE_VERSION(component, 0, 1, 0),
        .mca_close_component = component_close,
    },
    .opc_init_query = init_query,
    .opc_op_query   = op_query,
};

ZR_COMPONENT_POINTER(mca_op_zerange_component, opc_version);
