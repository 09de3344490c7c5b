/* Stand-in for a header of Open MPI that Debian does not ship: a Fortran INTEGER is an int there. */
/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef ZR_COMPAT_FINT_H
#define ZR_COMPAT_FINT_H

#define OMPI_INT_2_FINT(value) (value)
#define OMPI_FINT_2_INT(value) (value)

#endif
