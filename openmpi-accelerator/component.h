/* What Open MPI looks for in a component's library besides the component: from 6 on a pointer to its
 * first member, named after it. */
/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef ZR_OMPI_COMPONENT_H
#define ZR_OMPI_COMPONENT_H

#include "ompi/version.h"

#if OMPI_MAJOR_VERSION >= 6
#define ZR_COMPONENT_POINTER(component, version)                                                   \
    extern __attribute__((visibility("default"))) const mca_base_component_t *component##_ptr;     \
    const mca_base_component_t *component##_ptr = &component.version
#else
#define ZR_COMPONENT_POINTER(component, version) extern int zr_no_component_pointer
#endif

#endif
