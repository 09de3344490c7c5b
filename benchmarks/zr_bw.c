/* Bandwidth between two ranks, the way of osu_bw: a window of messages, then one short answer. */
/* SPDX-License-Identifier: BSD-3-Clause */
#include "common/bench.h"

static void transfer(struct zr_bench *b, size_t size)
{
    unsigned window = b->options.window, i;
    char     ack[4] = "ack";

    if (b->rank == 0) {
        for (i = 0; i < window; i++) {
            MPI_Isend(b->send_at[b->options.multiple ? i : 0], (int)size, MPI_CHAR, 1, ZR_TAG_DATA,
                      b->pair, &b->requests[i]);
        }
        MPI_Waitall((int)window, b->requests, MPI_STATUSES_IGNORE);
        MPI_Recv(ack, sizeof(ack), MPI_CHAR, 1, ZR_TAG_ACK, b->pair, MPI_STATUS_IGNORE);
    } else {
        for (i = 0; i < window; i++) {
            MPI_Irecv(b->recv_at[b->options.multiple ? i : 0], (int)size, MPI_CHAR, 0, ZR_TAG_DATA,
                      b->pair, &b->requests[i]);
        }
        MPI_Waitall((int)window, b->requests, MPI_STATUSES_IGNORE);
        MPI_Send(ack, sizeof(ack), MPI_CHAR, 0, ZR_TAG_ACK, b->pair);
    }
}

/* MB/s with MB = 10^6 bytes. */
static double bandwidth(const struct zr_bench *b, size_t size, double seconds, unsigned iterations)
{
    return (double)size / 1e6 * iterations * b->options.window / seconds;
}

int main(int argc, char **argv)
{
    static const struct zr_bench_spec spec = {
        .defaults = {.program = "zr_bw", .iterations = 100, .warmup = 10, .iterations_large = 20,
                     .warmup_large = 2, .windowed = true},
        .title = "Bandwidth", .columns = {{"Bandwidth (MB/s)", "bandwidth_mb_s", bandwidth}},
        .transfer = transfer};

    return zr_bench_main(&spec, argc, argv);
}
