/* Bandwidth and message rate of several pairs of ranks together, the way of osu_mbw_mr: rank i of
 * the first half sends windows of messages to rank i of the second half. */
/* SPDX-License-Identifier: BSD-3-Clause */
#include "common/bench.h"

static void transfer(struct zr_bench *b, size_t size)
{
    unsigned window = b->options.window, i, at;
    char     ack[4] = "ack";

    for (i = 0; i < window; i++) {
        at = b->options.multiple ? i : 0;
        if (b->rank == 0) {
            MPI_Isend(b->send_at[at], (int)size, MPI_CHAR, 1, ZR_TAG_DATA, b->pair,
                      &b->requests[i]);
        } else {
            MPI_Irecv(b->recv_at[at], (int)size, MPI_CHAR, 0, ZR_TAG_DATA, b->pair,
                      &b->requests[i]);
        }
    }
    MPI_Waitall((int)window, b->requests, MPI_STATUSES_IGNORE);
    if (b->rank == 0) {
        MPI_Recv(ack, sizeof(ack), MPI_CHAR, 1, ZR_TAG_ACK, b->pair, MPI_STATUS_IGNORE);
    } else {
        MPI_Send(ack, sizeof(ack), MPI_CHAR, 0, ZR_TAG_ACK, b->pair);
    }
}

static double rate(const struct zr_bench *b, size_t size, double seconds, unsigned iterations)
{
    (void)size;
    return (double)b->pairs * iterations * b->options.window / seconds;
}

/* MB/s of all pairs, MB = 10^6 bytes. */
static double bandwidth(const struct zr_bench *b, size_t size, double seconds, unsigned iterations)
{
    return rate(b, size, seconds, iterations) * (double)size / 1e6;
}

int main(int argc, char **argv)
{
    static const struct zr_bench_spec spec = {
        .defaults = {.program = "zr_mbw_mr", .iterations = 100, .warmup = 10,
                     .iterations_large = 20, .warmup_large = 2, .windowed = true, .many = true},
        .title = "Multiple Bandwidth / Message Rate",
        .columns = {{"MB/s", "bandwidth_mb_s", bandwidth}, {"Messages/s", "messages_s", rate}},
        .transfer = transfer};

    return zr_bench_main(&spec, argc, argv);
}
