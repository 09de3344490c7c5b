/* Broadcasts, and a ring, of device buffers of several objects: every rank's whole buffer is checked. Started by
 * test_bug_02_collective.sh. */
/* SPDX-License-Identifier: BSD-3-Clause */
#include "zebuf.h"

#include <mpi.h>

#define MIB ((size_t)1 << 20)

static int rank, size;

static void expect(size_t bad, const char *what)
{
    if (bad != 0) {
        fprintf(stderr, "rank %d: %s: %zu bytes are wrong\n", rank, what, bad);
        MPI_Abort(MPI_COMM_WORLD, 1);
    }
}

int main(int argc, char **argv)
{
    struct zebuf buf;
    size_t       half;
    int          root;

    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    if (!zebuf_start()) {
        fprintf(stderr, "no Level Zero device\n");
        MPI_Abort(MPI_COMM_WORLD, 1);
    }
    zebuf_map(&buf, 6, MIB, NULL);
    half = buf.size / 2;
    for (root = 0; root < size; root++) {
        zebuf_fill(&buf, 10 + rank);
        MPI_Bcast(buf.ptr, (int)buf.size, MPI_BYTE, root, MPI_COMM_WORLD);
        expect(zebuf_check(&buf, 0, buf.size, 0, 10 + root, 0), "bcast");
    }
    /* A ring: half of each buffer goes round. */
    zebuf_fill(&buf, 100 + rank);
    MPI_Sendrecv(buf.ptr, (int)half, MPI_BYTE, (rank + 1) % size, 5, buf.ptr + half, (int)half,
                 MPI_BYTE, (rank + size - 1) % size, 5, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    expect(zebuf_check(&buf, half, half, 0, 100 + (rank + size - 1) % size, 100 + rank),
           "ring");
    zebuf_unmap(&buf);
    MPI_Finalize();
    return 0;
}
