/* Bandwidth in both directions at once, the way of osu_bibw: a window of messages each way. */
/* SPDX-License-Identifier: BSD-3-Clause */
#include "common/bench.h"

static void transfer(struct zr_bench *b, size_t size)
{
    unsigned window = b->options.window, i, at;
    int      peer   = 1 - b->rank;
    char     ack[4] = "ack";

    for (i = 0; i < window; i++) {
        at = b->options.multiple ? i : 0;
        MPI_Irecv(b->recv_at[at], (int)size, MPI_CHAR, peer, ZR_TAG_DATA, b->pair,
                  &b->requests[i]);
    }
    for (i = 0; i < window; i++) {
        at = b->options.multiple ? i : 0;
        MPI_Isend(b->send_at[at], (int)size, MPI_CHAR, peer, ZR_TAG_DATA, b->pair,
                  &b->requests[window + i]);
    }
    MPI_Waitall((int)(2 * window), b->requests, MPI_STATUSES_IGNORE);
    if (b->rank == 0) {
        MPI_Recv(ack, sizeof(ack), MPI_CHAR, 1, ZR_TAG_ACK, b->pair, MPI_STATUS_IGNORE);
    } else {
        MPI_Send(ack, sizeof(ack), MPI_CHAR, 0, ZR_TAG_ACK, b->pair);
    }
}

/* MB/s of both directions, MB = 10^6 bytes. */
static double bandwidth(const struct zr_bench *b, size_t size, double seconds, unsigned iterations)
{
    return (double)size / 1e6 * iterations * b->options.window * 2 / seconds;
}

int main(int argc, char **argv)
{
    static const struct zr_bench_spec spec = {
        .defaults = {.program = "zr_bibw", .iterations = 100, .warmup = 10, .iterations_large = 20,
                     .warmup_large = 2, .windowed = true},
        .title = "Bi-Directional Bandwidth",
        .columns = {{"Bandwidth (MB/s)", "bandwidth_mb_s", bandwidth}}, .two_ways = true,
        .transfer = transfer};

    return zr_bench_main(&spec, argc, argv);
}
