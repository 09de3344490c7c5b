/* A caching allocator that grows one range object by object while ranks exchange it: what training
 * frameworks do with expandable segments. Every byte is checked.
 *
 * usage: mpirun -n N expandable [STEPS [BYTES PER STEP]] */
/* SPDX-License-Identifier: BSD-3-Clause */
#include "common.h"

#include <stdint.h>

/* The allocator: a bump pointer over the range, which grows when the next tensor does not fit. */
static struct range pool;
static size_t       next_free;

static void *tensor(size_t size)
{
    void *ptr = pool.base + next_free;

    while (next_free + size > pool.used) {
        range_grow(&pool, size / 3 + 1);
    }
    next_free += size;
    return ptr;
}

static uint32_t value_at(int rank, int step, size_t k)
{
    return (uint32_t)(k * 2654435761u) ^ (uint32_t)(rank << 20) ^ (uint32_t)step;
}

int main(int argc, char **argv)
{
    int       steps = argc > 1 ? atoi(argv[1]) : 12, rank, ranks, step;
    size_t    size  = argc > 2 ? (size_t)atol(argv[2]) : (size_t)1 << 20, k, bad = 0, all_bad;
    uint32_t *host;

    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    if (steps < 1 || size < 4 || ranks < 2) {
        fprintf(stderr, "expandable: needs 2 ranks, at least 1 step and 4 bytes\n");
        MPI_Abort(MPI_COMM_WORLD, 1);
    }
    size = size / 4 * 4;
    open_device();
    range_open(&pool, (size_t)steps * (steps + 1) * size * 2 + ((size_t)64 << 20),
               size / 3 + 1);
    host = malloc(size * (size_t)steps);
    if (host == NULL) {
        MPI_Abort(MPI_COMM_WORLD, 1);
    }
    for (step = 1; step <= steps; step++) {
        /* Tensors grow: each pair crosses objects that were not there a step ago. */
        size_t length = size * (size_t)step, words = length / 4;
        char  *mine = tensor(length), *theirs = tensor(length);

        for (k = 0; k < words; k++) {
            host[k] = value_at(rank, step, k);
        }
        copy(mine, host, length);
        MPI_Sendrecv(mine, (int)words, MPI_UINT32_T, (rank + 1) % ranks, step, theirs, (int)words,
                     MPI_UINT32_T, (rank + ranks - 1) % ranks, step, MPI_COMM_WORLD,
                     MPI_STATUS_IGNORE);
        copy(host, theirs, length);
        for (k = 0; k < words; k++) {
            bad += host[k] != value_at((rank + ranks - 1) % ranks, step, k);
        }
        if (rank == 0) {
            printf("step %2d: %6zu KiB a rank, range of %3u objects, %6zu KiB\n", step,
                   length >> 10, pool.count, pool.used >> 10);
        }
    }
    MPI_Allreduce(&bad, &all_bad, 1, MPI_UNSIGNED_LONG, MPI_SUM, MPI_COMM_WORLD);
    if (rank == 0) {
        printf("%s: %zu wrong words\n", all_bad == 0 ? "Pass" : "Fail", all_bad);
    }
    free(host);
    range_close(&pool);
    close_device();
    MPI_Finalize();
    return all_bad != 0;
}
