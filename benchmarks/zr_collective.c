/* Latency of a collective over all ranks, the way of osu_allreduce, osu_bcast, osu_allgather and
 * osu_alltoall. Built once for each operation of the table, with ZR_OPERATION its name. */
/* SPDX-License-Identifier: BSD-3-Clause */
#include "common/bench.h"
#include "common/pattern.h"

enum operation_name { ALLREDUCE, BCAST, ALLGATHER, ALLTOALL };

/* Blocks of the message's size in a buffer of each kind. */
enum blocks { ONE, ONE_A_RANK, ONE_AT_ROOT, ONE_ELSEWHERE };

struct operation {
    const char *program, *title, *datatype;
    void (*transfer)(struct zr_bench *b, size_t size);
    enum blocks blocks[2]; /* send, receive */
    unsigned    element;
    /* The rank whose bytes a block is, and which of its blocks; NULL: a sum of all ranks. */
    void (*source)(const struct zr_bench *b, bool receiving, size_t block, int *rank, int *which);
};

static void allreduce(struct zr_bench *b, size_t size)
{
    MPI_Allreduce(b->send_at[0], b->recv_at[0], (int)(size / sizeof(float)), MPI_FLOAT, MPI_SUM,
                  b->pair);
}

static void bcast(struct zr_bench *b, size_t size)
{
    MPI_Bcast(b->rank == 0 ? b->send_at[0] : b->recv_at[0], (int)size, MPI_CHAR, 0, b->pair);
}

static void allgather(struct zr_bench *b, size_t size)
{
    MPI_Allgather(b->send_at[0], (int)size, MPI_CHAR, b->recv_at[0], (int)size, MPI_CHAR, b->pair);
}

static void alltoall(struct zr_bench *b, size_t size)
{
    MPI_Alltoall(b->send_at[0], (int)size, MPI_CHAR, b->recv_at[0], (int)size, MPI_CHAR, b->pair);
}

static void of_root(const struct zr_bench *b, bool receiving, size_t block, int *rank, int *which)
{
    (void)b;
    (void)receiving;
    (void)block;
    *rank  = 0;
    *which = 0;
}

static void of_each(const struct zr_bench *b, bool receiving, size_t block, int *rank, int *which)
{
    *rank  = receiving ? (int)block : b->rank;
    *which = 0;
}

static void of_pair(const struct zr_bench *b, bool receiving, size_t block, int *rank, int *which)
{
    *rank  = receiving ? (int)block : b->rank;
    *which = receiving ? b->rank : (int)block;
}

static const struct operation operations[] = {
    [ALLREDUCE] = {"zr_allreduce", "Allreduce", "MPI_FLOAT", allreduce, {ONE, ONE}, sizeof(float),
                   NULL},
    [BCAST]     = {"zr_bcast", "Broadcast", NULL, bcast, {ONE_AT_ROOT, ONE_ELSEWHERE}, 1, of_root},
    [ALLGATHER] = {"zr_allgather", "Allgather", NULL, allgather, {ONE, ONE_A_RANK}, 1, of_each},
    [ALLTOALL]  = {"zr_alltoall", "All-to-All", NULL, alltoall, {ONE_A_RANK, ONE_A_RANK}, 1, of_pair},
};

static const struct operation *const operation = &operations[ZR_OPERATION];

static size_t extent(const struct zr_bench *b, bool receiving, size_t size)
{
    switch (operation->blocks[receiving]) {
    case ONE:
        return size;
    case ONE_A_RANK:
        return size * (size_t)b->ranks;
    case ONE_AT_ROOT:
        return b->rank == 0 ? size : 0;
    case ONE_ELSEWHERE:
        return b->rank != 0 ? size : 0;
    }
    return 0;
}

/* A whole number below 2^12, so that a sum of 4,096 of them is exact. */
static float number(uint64_t seed, size_t index)
{
    return (float)(zr_pattern_word(seed, index) & 0xfff);
}

static void fill_numbers(const struct zr_bench *b, bool receiving, size_t size, unsigned iteration,
                         size_t place, float *to, size_t count)
{
    int      first = receiving ? 0 : b->rank, last = receiving ? b->ranks : b->rank + 1, r;
    size_t   index = place / sizeof(float), k;
    uint64_t seed;

    memset(to, 0, count * sizeof(*to));
    for (r = first; r < last; r++) {
        seed = zr_pattern_seed((uint64_t)r, iteration, size, 0);
        for (k = 0; k < count; k++) {
            to[k] += number(seed, index + k);
        }
    }
}

static void fill(const struct zr_bench *b, bool receiving, size_t size, unsigned iteration,
                 unsigned buffer, size_t place, void *to, size_t length)
{
    unsigned char *p = to;
    size_t         n;
    int            rank, which;

    (void)buffer;
    if (operation->source == NULL) {
        fill_numbers(b, receiving, size, iteration, place, to, length / sizeof(float));
        return;
    }
    for (; length > 0; p += n, place += n, length -= n) {
        n = size - place % size < length ? size - place % size : length;
        operation->source(b, receiving, place / size, &rank, &which);
        zr_pattern_fill(zr_pattern_seed((uint64_t)rank, iteration, size, (unsigned)which),
                        place % size, p, n);
    }
}

/* Microseconds a call takes: the mean of the ranks, the fastest and the slowest. */
static double average(const struct zr_bench *b, size_t size, double seconds, unsigned iterations)
{
    (void)size;
    (void)seconds;
    return b->average * 1e6 / iterations;
}

static double least(const struct zr_bench *b, size_t size, double seconds, unsigned iterations)
{
    (void)size;
    (void)seconds;
    return b->least * 1e6 / iterations;
}

static double most(const struct zr_bench *b, size_t size, double seconds, unsigned iterations)
{
    (void)b;
    (void)size;
    return seconds * 1e6 / iterations;
}

int main(int argc, char **argv)
{
    const struct zr_bench_spec spec = {
        .defaults = {.program = operation->program, .iterations = 1000, .warmup = 200,
                     .iterations_large = 100, .warmup_large = 10, .collective = true,
                     .element = operation->element},
        .title = operation->title, .datatype = operation->datatype,
        .columns = {{"Avg Latency (us)", "avg_us", average},
                    {"Min Latency (us)", "min_us", least},
                    {"Max Latency (us)", "max_us", most}},
        .transfer = operation->transfer, .extent = extent, .fill = fill};

    return zr_bench_main(&spec, argc, argv);
}
