/* Stand-in for a header of Open MPI that Debian does not ship. */
/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef ZR_COMPAT_TIMER_H
#define ZR_COMPAT_TIMER_H

#include <stdint.h>

typedef uint64_t opal_timer_t;

#endif
