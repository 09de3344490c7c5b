/* The frame of a benchmark: start, buffers, one line of the table for each size, the report. */
/* SPDX-License-Identifier: BSD-3-Clause */
#include "bench.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

_Noreturn void zr_bench_abort(const struct zr_bench *bench, const char *what)
{
    fflush(stdout);
    fprintf(stderr, "%s: rank %d: %s\n", bench->spec->defaults.program, bench->rank, what);
    MPI_Abort(MPI_COMM_WORLD, 1);
    abort();
}

/* ---- buffers ---- */

/* Whose placement and objects a buffer has: the rank's, or those of the buffer's kind. */
static int end_of(const struct zr_bench *bench, bool receiving)
{
    return bench->spec->defaults.collective ? receiving : bench->rank;
}

static bool on_device(const struct zr_bench *bench)
{
    return bench->options.place[end_of(bench, false)] == 'D' ||
           bench->options.place[end_of(bench, true)] == 'D';
}

static struct zr_buffer *create_buffers(struct zr_bench *bench, bool receiving,
                                        unsigned char ***at_p, char *error, size_t error_size)
{
    struct zr_buffer       *buffers = calloc(bench->buffers, sizeof(*buffers));
    struct zr_bench_options options = bench->options;
    int                     end     = end_of(bench, receiving);
    unsigned                i;

    options.max_size = zr_bench_extent(bench, receiving, options.max_size);

    *at_p = calloc(bench->buffers, sizeof(**at_p));
    if (buffers == NULL || *at_p == NULL) {
        snprintf(error, error_size, "no memory for %u buffers", bench->buffers);
        free(buffers);
        return NULL;
    }
    for (i = 0; i < bench->buffers; i++) {
        if (zr_buffer_create(options.place[end] == 'D' ? &bench->ze : NULL, &options, end,
                             &buffers[i], error, error_size) != 0) {
            while (i-- > 0) {
                zr_buffer_destroy(&buffers[i]);
            }
            free(buffers);
            return NULL;
        }
    }
    return buffers;
}

static void destroy_buffers(struct zr_bench *bench, struct zr_buffer *buffers)
{
    unsigned i;

    for (i = 0; buffers != NULL && i < bench->buffers; i++) {
        zr_buffer_destroy(&buffers[i]);
    }
    free(buffers);
}

size_t zr_bench_extent(const struct zr_bench *bench, bool receiving, size_t size)
{
    const struct zr_bench_spec *spec = bench->spec;

    if (spec->extent != NULL) {
        return spec->extent(bench, receiving, size);
    }
    return spec->two_ways || bench->rank == (spec->reversed != receiving) ? size : 0;
}

static int make_buffers(struct zr_bench *bench, char *error, size_t error_size)
{
    if (zr_bench_extent(bench, false, bench->options.max_size) > 0) {
        bench->send = create_buffers(bench, false, &bench->send_at, error, error_size);
        if (bench->send == NULL) {
            return -1;
        }
    }
    if (zr_bench_extent(bench, true, bench->options.max_size) > 0) {
        bench->recv = create_buffers(bench, true, &bench->recv_at, error, error_size);
        if (bench->recv == NULL) {
            return -1;
        }
    }
    return 0;
}

static void drop_buffers(struct zr_bench *bench)
{
    destroy_buffers(bench, bench->send);
    destroy_buffers(bench, bench->recv);
    free(bench->send_at);
    free(bench->recv_at);
    bench->send = bench->recv = NULL;
    bench->send_at = bench->recv_at = NULL;
}

static int set_up(struct zr_bench *bench, char *error, size_t error_size)
{
    const struct zr_bench_options *o = &bench->options;
    uint64_t                       now[ZR_ZE_MAX_ENGINES];

    if (on_device(bench)) {
        if (zr_ze_open(&bench->ze, error, error_size) != 0) {
            return -1;
        }
        bench->engines = zr_ze_completed(&bench->ze, now);
    }
    bench->buffers  = o->multiple ? o->window : 1;
    bench->requests = calloc(2 * (size_t)o->window, sizeof(*bench->requests));
    if (bench->requests == NULL) {
        snprintf(error, error_size, "no memory for a window of %u", o->window);
        return -1;
    }
    return o->fit ? 0 : make_buffers(bench, error, error_size);
}

static void tear_down(struct zr_bench *bench)
{
    drop_buffers(bench);
    free(bench->requests);
    zr_ze_close(&bench->ze);
}

/* ---- one size ---- */

/* Add to or take from what the engines completed, so that only transfers between two calls count
 * and the copies of validation do not. */
static void count_engines(struct zr_bench *bench, int sign)
{
    uint64_t now[ZR_ZE_MAX_ENGINES];
    unsigned i;

    if (!bench->options.engines_report || bench->engines == 0) {
        return;
    }
    zr_ze_completed(&bench->ze, now);
    for (i = 0; i < bench->engines; i++) {
        bench->completed[i] += sign < 0 ? -now[i] : now[i];
    }
}

static double timed_transfer(struct zr_bench *bench, size_t size)
{
    double start = MPI_Wtime();

    bench->spec->transfer(bench, size);
    return MPI_Wtime() - start;
}

/* Whole elements begin where one may. */
static unsigned char *place_message(const struct zr_bench *bench, const struct zr_buffer *buffer,
                                    size_t size)
{
    size_t at = zr_buffer_place(buffer, size);

    return buffer->base + at - at % zr_bench_element(&bench->spec->defaults);
}

static void place_messages(struct zr_bench *bench, size_t size)
{
    unsigned i;

    bench->send_size = zr_bench_extent(bench, false, size);
    bench->recv_size = zr_bench_extent(bench, true, size);
    for (i = 0; i < bench->buffers; i++) {
        if (bench->send != NULL) {
            bench->send_at[i] = place_message(bench, &bench->send[i], bench->send_size);
        }
        if (bench->recv != NULL) {
            bench->recv_at[i] = place_message(bench, &bench->recv[i], bench->recv_size);
        }
    }
}

/* Each iteration: new bytes, the transfer repeated untimed, the timed one, a look at every byte. */
static int run_checked(struct zr_bench *bench, size_t size, unsigned warmup, unsigned iterations,
                       double *seconds)
{
    unsigned i, j;
    int      errors = 0;
    double   took;

    zr_check_begin(bench, size);
    for (i = 0; i < warmup + iterations; i++) {
        zr_check_refill(bench, size, i);
        MPI_Barrier(bench->pair);
        count_engines(bench, -1);
        for (j = 0; j < bench->options.repeats; j++) {
            bench->spec->transfer(bench, size);
        }
        took = timed_transfer(bench, size);
        count_engines(bench, 1);
        if (i >= warmup) {
            *seconds += took;
        }
        errors += zr_check_received(bench, size, i, errors == 0);
    }
    return errors + zr_check_end(bench, size, i - 1, errors == 0);
}

/* Collectives, as OSU's: each call is timed alone, and begins when all have ended the last. */
static void run_collective(struct zr_bench *bench, size_t size, unsigned warmup,
                           unsigned iterations, double *seconds)
{
    unsigned i;
    double   took;

    count_engines(bench, -1);
    for (i = 0; i < warmup + iterations; i++) {
        took = timed_transfer(bench, size);
        *seconds += i >= warmup ? took : 0;
        MPI_Barrier(bench->pair);
    }
    count_engines(bench, 1);
}

static void run_plain(struct zr_bench *bench, size_t size, unsigned warmup, unsigned iterations,
                      double *seconds)
{
    double   start = 0;
    unsigned i;

    count_engines(bench, -1);
    for (i = 0; i < warmup + iterations; i++) {
        if (i == warmup) {
            start = MPI_Wtime();
        }
        bench->spec->transfer(bench, size);
    }
    *seconds = MPI_Wtime() - start;
    count_engines(bench, 1);
}

/* What --volume leaves of window and iterations for a size; the window is never below 4. */
static void limit_volume(struct zr_bench_options *o, size_t size, unsigned window,
                         unsigned *iterations, unsigned *warmup)
{
    size_t left = o->volume / size;

    o->window = window;
    if (o->volume == 0) {
        return;
    }
    if (left < window) {
        o->window = left > 4 ? (unsigned)left : window < 4 ? window : 4;
    }
    left = left / o->window > 1 ? left / o->window : 1;
    if (left < *iterations) {
        *iterations = (unsigned)left;
        *warmup     = *warmup > 1 ? 1 : *warmup;
    }
}

/* Of several pairs the slowest counts, and a pair is as fast as its rank 0 says; of a collective
 * every rank counts. @return the longest time */
static double gather_times(struct zr_bench *bench, double seconds)
{
    bool   counts  = bench->spec->defaults.collective || bench->rank == 0;
    double mine[2] = {counts ? seconds : 0, counts ? -seconds : -HUGE_VAL}, most[2];
    double part[2] = {mine[0], counts ? 1 : 0}, sum[2];

    MPI_Allreduce(mine, most, 2, MPI_DOUBLE, MPI_MAX, bench->all);
    MPI_Allreduce(part, sum, 2, MPI_DOUBLE, MPI_SUM, bench->all);
    bench->least   = -most[1];
    bench->average = sum[0] / sum[1];
    return most[0];
}

/* Errors of all ranks. */
static int run_size(struct zr_bench *bench, size_t size)
{
    unsigned                       window     = bench->options.window;
    struct zr_bench_options       *o          = &bench->options;
    const struct zr_bench_spec    *spec       = bench->spec;
    bool                           large      = size > ZR_BENCH_SMALL;
    unsigned                       iterations = large ? o->iterations_large : o->iterations;
    unsigned                       warmup     = large ? o->warmup_large : o->warmup;
    double                         seconds = 0, longest;
    int                            mine = 0, all = 0;

    limit_volume(o, size, window, &iterations, &warmup);
    zr_report_progress(bench, size);
    place_messages(bench, size);
    if (spec->prepare != NULL) {
        spec->prepare(bench, size);
    }
    MPI_Barrier(bench->all);
    if (o->validate) {
        mine = run_checked(bench, size, warmup, iterations, &seconds);
    } else if (spec->defaults.collective) {
        run_collective(bench, size, warmup, iterations, &seconds);
    } else {
        run_plain(bench, size, warmup, iterations, &seconds);
    }
    longest = gather_times(bench, seconds);
    MPI_Allreduce(&mine, &all, 1, MPI_INT, MPI_SUM, bench->all);
    zr_report_progress(bench, 0);
    if (bench->lead) {
        zr_report_line(bench, size, longest, iterations, all);
    }
    o->window = window;
    return all;
}

static void report_engines(struct zr_bench *bench)
{
    const struct zr_bench_options *o = &bench->options;
    uint64_t                       sum[ZR_ZE_MAX_ENGINES];
    int      counted = bench->engines > 0 || !on_device(bench), all = 0;
    unsigned i, used = 0;

    if (!o->engines_report) {
        return;
    }
    MPI_Reduce(bench->completed, sum, ZR_ZE_MAX_ENGINES, MPI_UINT64_T, MPI_SUM, 0, bench->all);
    MPI_Reduce(&counted, &all, 1, MPI_INT, MPI_MIN, 0, bench->all);
    if (!bench->lead || o->json || o->csv) {
        return;
    }
    if (!all) {
        printf("# copies shared by an unknown number of engines: the driver has no counter of "
               "completed batches\n");
        return;
    }
    for (i = 0; i < ZR_ZE_MAX_ENGINES; i++) {
        used += sum[i] > 0;
    }
    printf("# copies shared by %u engine%s\n", used, used == 1 ? "" : "s");
}

/* Everybody stops if one cannot go on. */
static int together(struct zr_bench *bench, int failed, const char *error)
{
    int worst;

    if (failed) {
        fprintf(stderr, "%s: rank %d: %s\n", bench->spec->defaults.program, bench->rank, error);
    }
    MPI_Allreduce(&failed, &worst, 1, MPI_INT, MPI_MAX, bench->all);
    return worst;
}

/* With --fit a size has buffers of its own: what was said for the largest one holds for it. */
static int run_sizes(struct zr_bench *bench)
{
    struct zr_bench_options *o      = &bench->options;
    size_t                   last   = o->max_size, size;
    char                     error[256] = "";
    int                      errors = 0;

    for (size = o->min_size; size <= last && errors == 0; size *= 2) {
        if (o->fit) {
            o->max_size = size;
            if (together(bench, make_buffers(bench, error, sizeof(error)) != 0, error)) {
                return 1;
            }
        }
        if (bench->spec->attach != NULL && (o->fit || size == o->min_size)) {
            bench->spec->attach(bench);
        }
        errors = run_size(bench, size);
        if (bench->spec->detach != NULL && (o->fit || size * 2 > last || errors != 0)) {
            bench->spec->detach(bench);
        }
        if (o->fit) {
            MPI_Barrier(bench->all);
            drop_buffers(bench);
        }
        if (errors != 0 && bench->lead) {
            fprintf(stderr, "DATA VALIDATION ERROR: %s exits with status 1 on message size %zu\n",
                    bench->spec->defaults.program, size);
        }
    }
    return errors;
}

static int run_pair(struct zr_bench *bench)
{
    char error[256] = "";
    int  failed;

    failed = together(bench, set_up(bench, error, sizeof(error)) != 0, error);
    if (!failed) {
        if (bench->lead) {
            zr_report_header(bench);
        }
        failed = run_sizes(bench) != 0;
        if (bench->lead && bench->options.json) {
            printf("\n]}\n");
        }
        report_engines(bench);
    }
    MPI_Barrier(bench->all);
    tear_down(bench);
    return failed;
}

static int run_all(struct zr_bench *bench, int ranks)
{
    int status;

    bench->pairs = 1;
    bench->lead  = bench->rank == 0;
    bench->ranks = ranks;
    MPI_Comm_dup(MPI_COMM_WORLD, &bench->all);
    MPI_Comm_dup(MPI_COMM_WORLD, &bench->pair);
    status = run_pair(bench);
    MPI_Comm_free(&bench->pair);
    MPI_Comm_free(&bench->all);
    return status;
}

/* Ranks 0 to pairs - 1 send to those behind them, as in osu_mbw_mr. */
static int run_pairs(struct zr_bench *bench, int world_rank, int ranks)
{
    unsigned pairs  = bench->spec->defaults.many ? bench->options.pairs : 1;
    int      status = 0, inside;

    if (pairs == 0) {
        pairs = (unsigned)ranks / 2;
    }
    if (pairs * 2 > (unsigned)ranks) {
        if (world_rank == 0) {
            fprintf(stderr, "%s: %u pairs need %u ranks and there are %d\n",
                    bench->spec->defaults.program, pairs, 2 * pairs, ranks);
        }
        return 1;
    }
    inside       = world_rank < (int)(2 * pairs);
    bench->pairs = pairs;
    bench->ranks = 2;
    bench->lead  = world_rank == 0;
    MPI_Comm_split(MPI_COMM_WORLD, inside ? 0 : MPI_UNDEFINED, world_rank, &bench->all);
    if (inside) {
        MPI_Comm_split(bench->all, world_rank % (int)pairs, world_rank, &bench->pair);
        MPI_Comm_rank(bench->pair, &bench->rank);
        status = run_pair(bench);
        MPI_Comm_free(&bench->pair);
        MPI_Comm_free(&bench->all);
    }
    return status;
}

int zr_bench_main(const struct zr_bench_spec *spec, int argc, char **argv)
{
    struct zr_bench     bench = {.spec = spec, .all = MPI_COMM_NULL, .pair = MPI_COMM_NULL};
    char                error[512];
    enum zr_bench_parse parsed;
    int                 ranks, status = 0;

    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &bench.rank);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    parsed = zr_bench_options_parse(&spec->defaults, argc, argv, &bench.options, error,
                                    sizeof(error));
    if (parsed == ZR_BENCH_HELP) {
        if (bench.rank == 0) {
            zr_bench_options_help(&spec->defaults);
        }
    } else if (parsed == ZR_BENCH_BAD) {
        if (bench.rank == 0) {
            fprintf(stderr, "%s\n", error);
        }
        status = 2;
    } else if (ranks < 2) {
        fprintf(stderr, "%s: needs 2 ranks and has 1: mpirun -np 2 %s ...\n",
                spec->defaults.program, spec->defaults.program);
        status = 1;
    } else {
        status = spec->defaults.collective ? run_all(&bench, ranks) :
                                             run_pairs(&bench, bench.rank, ranks);
    }
    MPI_Finalize();
    return status;
}
