/* A 7-point stencil on a 3D grid in device memory: the ranks exchange the six faces of their blocks
 * with derived types, and the result is compared with a run on the host alone, bit by bit. The
 * faces leave the grid in one of two ways:
 *
 *   inplace  the message is the derived type in the grid itself
 *   pack     MPI_Pack gathers it into device memory beside the grid, and that is the message
 *
 * The device here only copies, so that a step's arithmetic is done on a host copy of the block; on
 * a GPU it is a kernel. What matters is the exchange: faces are strided in two of three directions.
 *
 * usage: mpirun -n N halo3d [CELLS A SIDE OF THE BLOCK [STEPS [inplace|pack]]] */
/* SPDX-License-Identifier: BSD-3-Clause */
#include "common.h"

#include <stdbool.h>

static int      side, row; /* cells of a block without and with the halo */
static MPI_Comm grid_comm;

static size_t cell(int x, int y, int z)
{
    return ((size_t)z * (size_t)row + (size_t)y) * (size_t)row + (size_t)x;
}

static void stencil(const double *from, double *to)
{
    int x, y, z;

    for (z = 1; z <= side; z++) {
        for (y = 1; y <= side; y++) {
            for (x = 1; x <= side; x++) {
                to[cell(x, y, z)] = 0.4 * from[cell(x, y, z)] +
                                    0.1 * (from[cell(x - 1, y, z)] + from[cell(x + 1, y, z)] +
                                           from[cell(x, y - 1, z)] + from[cell(x, y + 1, z)] +
                                           from[cell(x, y, z - 1)] + from[cell(x, y, z + 1)]);
            }
        }
    }
}

/* The face of the block at a layer of one direction, as a subarray of the grid with its halo. */
static MPI_Datatype face(int direction, int layer)
{
    int          sizes[] = {row, row, row}, part[] = {side, side, side}, at[] = {1, 1, 1};
    MPI_Datatype type;

    part[2 - direction] = 1; /* C order: z is first */
    at[2 - direction]   = layer;
    MPI_Type_create_subarray(3, sizes, part, at, MPI_ORDER_C, MPI_DOUBLE, &type);
    MPI_Type_commit(&type);
    return type;
}

static MPI_Datatype sends[6], recvs[6]; /* low and high face of each direction */
static int          neighbours[6];

static void exchange(void *grid)
{
    MPI_Request requests[12];
    int         k;

    for (k = 0; k < 6; k++) {
        MPI_Irecv(grid, 1, recvs[k], neighbours[k], k ^ 1, grid_comm, &requests[k]);
    }
    for (k = 0; k < 6; k++) {
        MPI_Isend(grid, 1, sends[k], neighbours[k], k, grid_comm, &requests[6 + k]);
    }
    MPI_Waitall(12, requests, MPI_STATUSES_IGNORE);
}

/* The same with what is sent and received in one piece: faces has room for twelve. */
static void exchange_packed(void *grid, char *faces)
{
    int         bytes = side * side * (int)sizeof(double), k, at;
    MPI_Request requests[12];

    for (k = 0; k < 6; k++) {
        MPI_Irecv(faces + k * bytes, bytes, MPI_PACKED, neighbours[k], k ^ 1, grid_comm,
                  &requests[k]);
    }
    for (k = 0; k < 6; k++) {
        at = 0;
        MPI_Pack(grid, 1, sends[k], faces + (6 + k) * bytes, bytes, &at, grid_comm);
        MPI_Isend(faces + (6 + k) * bytes, bytes, MPI_PACKED, neighbours[k], k, grid_comm,
                  &requests[6 + k]);
    }
    MPI_Waitall(12, requests, MPI_STATUSES_IGNORE);
    for (k = 0; k < 6; k++) {
        at = 0;
        MPI_Unpack(faces + k * bytes, bytes, &at, grid, 1, recvs[k], grid_comm);
    }
}

/* The ranks as a periodic grid, with the types of the faces and who is behind each. */
static void neighbourhood(int ranks, int *dims)
{
    int wrap[3] = {1, 1, 1}, d;

    MPI_Dims_create(ranks, 3, dims);
    MPI_Cart_create(MPI_COMM_WORLD, 3, dims, wrap, 0, &grid_comm);
    for (d = 0; d < 3; d++) {
        MPI_Cart_shift(grid_comm, d, 1, &neighbours[2 * d], &neighbours[2 * d + 1]);
        sends[2 * d]     = face(d, 1);
        sends[2 * d + 1] = face(d, side);
        recvs[2 * d]     = face(d, 0);
        recvs[2 * d + 1] = face(d, side + 1);
    }
}

int main(int argc, char **argv)
{
    int          steps, rank, ranks, step, dims[3] = {0, 0, 0};
    double      *host, *next, *only_host;
    size_t       bytes, k, bad = 0, all_bad;
    const char  *form;
    struct range range;
    bool         pack;

    MPI_Init(&argc, &argv);
    side  = argc > 1 ? atoi(argv[1]) : 96;
    steps = argc > 2 ? atoi(argv[2]) : 5;
    form  = argc > 3 ? argv[3] : "inplace";
    pack  = strcmp(form, "pack") == 0;
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    if (side < 1 || side > 1000 || steps < 1 || (!pack && strcmp(form, "inplace") != 0)) {
        fprintf(stderr, "halo3d: 1 to 1000 cells a side, at least one step, inplace or pack\n");
        MPI_Abort(MPI_COMM_WORLD, 1);
    }
    row   = side + 2;
    bytes = (size_t)row * (size_t)row * (size_t)row * sizeof(double);
    neighbourhood(ranks, dims);
    MPI_Comm_rank(grid_comm, &rank);

    /* The grid, and behind it room for twelve faces. */
    open_device();
    k = bytes + 12 * (size_t)side * (size_t)side * sizeof(double);
    range_open(&range, k + ((size_t)4 << 20), bytes / 16 + 1);
    while (range.used < k) {
        range_grow(&range, bytes / 16 + 1);
    }
    host      = calloc(1, bytes);
    next      = calloc(1, bytes);
    only_host = calloc(1, bytes);
    if (host == NULL || next == NULL || only_host == NULL) {
        MPI_Abort(MPI_COMM_WORLD, 1);
    }
    for (k = 0; k < bytes / sizeof(double); k++) {
        host[k] = only_host[k] = (double)((k * 31 + (size_t)rank * 17) % 101);
    }
    copy(range.base, host, bytes);

    for (step = 0; step < steps; step++) {
        if (pack) {
            exchange_packed(range.base, range.base + bytes);
        } else {
            exchange(range.base);
        }
        copy(host, range.base, bytes); /* the kernel: on the host here */
        stencil(host, next);
        copy(range.base, next, bytes);

        exchange(only_host);
        stencil(only_host, next);
        memcpy(only_host, next, bytes);
    }
    copy(host, range.base, bytes);
    for (k = 0; k < bytes / sizeof(double); k++) {
        bad += memcmp(&host[k], &only_host[k], sizeof(double)) != 0;
    }
    MPI_Allreduce(&bad, &all_bad, 1, MPI_UNSIGNED_LONG, MPI_SUM, grid_comm);
    if (rank == 0) {
        printf("halo3d %s: %d x %d x %d ranks, blocks of %d cells a side in %u objects, %d steps: "
               "%s, %zu cells differ from the host's run\n",
               form, dims[0], dims[1], dims[2], side, range.count, steps,
               all_bad == 0 ? "Pass" : "Fail", all_bad);
    }
    free(host);
    free(next);
    free(only_host);
    range_close(&range);
    close_device();
    for (k = 0; k < 6; k++) {
        MPI_Type_free(&sends[k]);
        MPI_Type_free(&recvs[k]);
    }
    MPI_Comm_free(&grid_comm);
    MPI_Finalize();
    return all_bad != 0;
}
