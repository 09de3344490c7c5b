/* Latency between two ranks, the way of osu_latency: ping-pong, half of it is one way. */
/* SPDX-License-Identifier: BSD-3-Clause */
#include "common/bench.h"

#define TAG 1

static void transfer(struct zr_bench *b, size_t size)
{
    if (b->rank == 0) {
        MPI_Send(b->send_at[0], (int)size, MPI_CHAR, 1, TAG, b->pair);
        MPI_Recv(b->recv_at[0], (int)size, MPI_CHAR, 1, TAG, b->pair, MPI_STATUS_IGNORE);
    } else {
        MPI_Recv(b->recv_at[0], (int)size, MPI_CHAR, 0, TAG, b->pair, MPI_STATUS_IGNORE);
        MPI_Send(b->send_at[0], (int)size, MPI_CHAR, 0, TAG, b->pair);
    }
}

/* Microseconds, one way. */
static double latency(const struct zr_bench *b, size_t size, double seconds, unsigned iterations)
{
    (void)b;
    (void)size;
    return seconds * 1e6 / (2.0 * iterations);
}

int main(int argc, char **argv)
{
    static const struct zr_bench_spec spec = {
        .defaults = {.program = "zr_latency", .iterations = 10000, .warmup = 100,
                     .iterations_large = 1000, .warmup_large = 10},
        .title = "Latency", .columns = {{"Latency (us)", "latency_us", latency}}, .two_ways = true,
        .transfer = transfer};

    return zr_bench_main(&spec, argc, argv);
}
