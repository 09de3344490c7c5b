/* Stand-in for a header of Open MPI that Debian does not ship; what is used of it is pthread's. */
/* SPDX-License-Identifier: BSD-3-Clause */
#include <pthread.h>
#include <sched.h>

static inline void opal_thread_yield(void)
{
    sched_yield();
}
