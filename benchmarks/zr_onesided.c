/* One-sided bandwidth and latency, the way of osu_put_bw, osu_get_bw, osu_put_latency and
 * osu_get_latency: rank 0 puts into a window of rank 1 or gets from it and flushes. Built four
 * times, with ZR_GET and ZR_LATENCY 0 or 1. */
/* SPDX-License-Identifier: BSD-3-Clause */
#include "common/bench.h"

#define TAG_PLACE 103

/* The buffer that rank 1 gives away. */
static struct zr_buffer *shared(const struct zr_bench *b)
{
    return b->rank == 0 ? NULL : ZR_GET ? b->send : b->recv;
}

static void attach(struct zr_bench *b)
{
    struct zr_buffer *buffer = shared(b);

    MPI_Win_create(buffer != NULL ? buffer->base : NULL,
                   buffer != NULL ? (MPI_Aint)buffer->size : 0, 1, MPI_INFO_NULL, b->pair,
                   &b->window);
    MPI_Win_lock_all(0, b->window);
}

static void detach(struct zr_bench *b)
{
    MPI_Win_unlock_all(b->window);
    MPI_Win_free(&b->window);
}

/* The ranks may place a message differently. */
static void prepare(struct zr_bench *b, size_t size)
{
    unsigned long long at = 0;

    (void)size;
    if (b->rank == 0) {
        MPI_Recv(&at, 1, MPI_UNSIGNED_LONG_LONG, 1, TAG_PLACE, b->pair, MPI_STATUS_IGNORE);
        b->target = (MPI_Aint)at;
    } else {
        at = (unsigned long long)((ZR_GET ? b->send_at : b->recv_at)[0] - shared(b)->base);
        MPI_Send(&at, 1, MPI_UNSIGNED_LONG_LONG, 0, TAG_PLACE, b->pair);
    }
}

/* The short answer tells rank 1, which makes progress while it waits, that all is there. */
static void transfer(struct zr_bench *b, size_t size)
{
    unsigned window = ZR_LATENCY ? 1 : b->options.window, i;
    char     ack[4] = "ack";

    if (b->rank != 0) {
        MPI_Recv(ack, sizeof(ack), MPI_CHAR, 0, ZR_TAG_ACK, b->pair, MPI_STATUS_IGNORE);
        return;
    }
    for (i = 0; i < window; i++) {
        if (ZR_GET) {
            MPI_Get(b->recv_at[0], (int)size, MPI_CHAR, 1, b->target, (int)size, MPI_CHAR,
                    b->window);
        } else {
            MPI_Put(b->send_at[0], (int)size, MPI_CHAR, 1, b->target, (int)size, MPI_CHAR,
                    b->window);
        }
    }
    MPI_Win_flush(1, b->window);
    MPI_Send(ack, sizeof(ack), MPI_CHAR, 1, ZR_TAG_ACK, b->pair);
}

static double value(const struct zr_bench *b, size_t size, double seconds, unsigned iterations)
{
    if (ZR_LATENCY) {
        return seconds * 1e6 / iterations;
    }
    return (double)size / 1e6 * iterations * b->options.window / seconds;
}

#define NAME  (ZR_GET ? ZR_LATENCY ? "zr_get_latency" : "zr_get_bw"                               \
                      : ZR_LATENCY ? "zr_put_latency" : "zr_put_bw")
#define TITLE (ZR_GET ? ZR_LATENCY ? "Get Latency" : "Get Bandwidth"                              \
                      : ZR_LATENCY ? "Put Latency" : "Put Bandwidth")

int main(int argc, char **argv)
{
    const struct zr_bench_spec spec = {
        .defaults = {.program = NAME, .iterations = ZR_LATENCY ? 10000 : 100,
                     .warmup = ZR_LATENCY ? 100 : 10, .iterations_large = ZR_LATENCY ? 1000 : 20,
                     .warmup_large = 2, .windowed = !ZR_LATENCY, .single = true},
        .title = TITLE,
        .columns = {{ZR_LATENCY ? "Latency (us)" : "Bandwidth (MB/s)",
                     ZR_LATENCY ? "latency_us" : "bandwidth_mb_s", value}},
        .reversed = ZR_GET, .attach = attach, .detach = detach, .prepare = prepare,
        .transfer = transfer};

    return zr_bench_main(&spec, argc, argv);
}
