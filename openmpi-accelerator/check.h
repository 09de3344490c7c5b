/* What a call of MPI was given: device memory from end to end, or an error that names what is not. */
/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef ZR_OMPI_CHECK_H
#define ZR_OMPI_CHECK_H

#include "ze.h"

#include "ompi_config.h"

#include "ompi/constants.h"
#include "ompi/datatype/ompi_datatype.h"

/* Open MPI 6 counts in size_t where 5 counts in int. */
#if OMPI_MAJOR_VERSION >= 6
typedef size_t zr_count_t;
#else
typedef int zr_count_t;
#endif

/** From now on memory that goes away is remembered, so that it is known for what it was. Without it
 * (another driver) freed memory looks like memory of the host. */
void zr_check_start(void);
void zr_check_stop(void);

/**
 * An error code of MPI with a text of its own, which MPI_Error_string gives and MPI's abort prints.
 * The texts of the last few errors of a class are kept.
 *
 * @param mpi_class MPI_ERR_BUFFER, ...
 */
int zr_error(int mpi_class, const char *format, ...) __attribute__((format(printf, 2, 3)));

/**
 * Is what a call touches there? Memory of the host is not looked at, except where device memory
 * was before.
 *
 * @param what  the call and its argument, for the text
 * @return MPI_SUCCESS, or a code of class MPI_ERR_BUFFER
 */
int zr_check_bytes(const char *what, const void *start, size_t size);
int zr_check_buffer(const char *what, const void *buffer, size_t count,
                    const ompi_datatype_t *dtype);

/** What count elements of a type at address 0 cover: from *first, so many bytes. */
size_t zr_span(size_t count, const ompi_datatype_t *dtype, ptrdiff_t *first);

#endif
