/* Preloaded: rank 1 of an MPI job lives an hour later than the others, by its clock of the day. */
/* SPDX-License-Identifier: BSD-3-Clause */
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#pragma GCC visibility push(default)

int clock_gettime(clockid_t clock, struct timespec *now)
{
    const char *rank = getenv("OMPI_COMM_WORLD_RANK");
    int         ret  = (int)syscall(SYS_clock_gettime, clock, now);

    if (ret == 0 && clock == CLOCK_REALTIME && rank != NULL && strcmp(rank, "1") == 0) {
        now->tv_sec += 3600;
    }
    return ret;
}
