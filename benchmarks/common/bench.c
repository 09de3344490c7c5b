/* The frame of a benchmark: start, buffers, one line of the table for each size, the report. */
/* SPDX-License-Identifier: BSD-3-Clause */
#include "config.h"
#include "bench.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define WIDTH_SIZE 10
#define WIDTH_VALUE 18

_Noreturn void zr_bench_abort(const struct zr_bench *bench, const char *what)
{
    fflush(stdout);
    fprintf(stderr, "%s: rank %d: %s\n", bench->spec->defaults.program, bench->rank, what);
    MPI_Abort(MPI_COMM_WORLD, 1);
    abort();
}

/* ---- buffers ---- */

static bool on_device(const struct zr_bench *bench)
{
    return bench->options.place[bench->rank] == 'D';
}

static struct zr_buffer *create_buffers(struct zr_bench *bench, unsigned char ***at_p, char *error,
                                        size_t error_size)
{
    struct zr_buffer *buffers = calloc(bench->buffers, sizeof(*buffers));
    unsigned          i;

    *at_p = calloc(bench->buffers, sizeof(**at_p));
    if (buffers == NULL || *at_p == NULL) {
        snprintf(error, error_size, "no memory for %u buffers", bench->buffers);
        free(buffers);
        return NULL;
    }
    for (i = 0; i < bench->buffers; i++) {
        if (zr_buffer_create(on_device(bench) ? &bench->ze : NULL, &bench->options, bench->rank,
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
    bench->requests = calloc(o->window, sizeof(*bench->requests));
    if (bench->requests == NULL) {
        snprintf(error, error_size, "no memory for a window of %u", o->window);
        return -1;
    }
    if (bench->rank == 0 || bench->spec->two_ways) {
        bench->send = create_buffers(bench, &bench->send_at, error, error_size);
        if (bench->send == NULL) {
            return -1;
        }
    }
    if (bench->rank == 1 || bench->spec->two_ways) {
        bench->recv = create_buffers(bench, &bench->recv_at, error, error_size);
        if (bench->recv == NULL) {
            return -1;
        }
    }
    return 0;
}

static void tear_down(struct zr_bench *bench)
{
    destroy_buffers(bench, bench->send);
    destroy_buffers(bench, bench->recv);
    free(bench->send_at);
    free(bench->recv_at);
    free(bench->requests);
    zr_ze_close(&bench->ze);
}

/* ---- table ---- */

static const char *place_name(char place)
{
    return place == 'D' ? "DEVICE (D)" : "HOST (H)";
}

static void print_header(const struct zr_bench *bench)
{
    const struct zr_bench_options *o = &bench->options;
    int                            i;

    if (o->csv) {
        printf("size,%s%s\n", bench->spec->csv, o->validate ? ",validation" : "");
        return;
    }
    printf("# zerange MPI %s Test v%s\n# Datatype: MPI_CHAR.\n", bench->spec->title,
           PACKAGE_VERSION);
    printf("# Send Buffer on %s and Receive Buffer on %s\n", place_name(o->place[0]),
           place_name(o->place[1]));
    for (i = 0; i < 2; i++) {
        if (o->place[i] == 'D' && o->objects[i] > 0) {
            printf("# Buffers of rank %d: %u physical object%s%s%s\n", i, o->objects[i],
                   o->objects[i] == 1 ? "" : "s", o->unequal ? " of unequal size" : "",
                   o->map_offset ? ", mapped from an offset and in part" : "");
        }
    }
    printf("%-*s%*s", WIDTH_SIZE, "# Size", WIDTH_VALUE, bench->spec->column);
    if (o->validate) {
        printf("%*s", WIDTH_VALUE, "Validation");
    }
    printf("\n");
    fflush(stdout);
}

static void print_line(const struct zr_bench *bench, size_t size, double value, int errors)
{
    const char *verdict = errors == 0 ? "Pass" : "Fail";

    if (bench->options.csv) {
        printf("%zu,%.2f", size, value);
        if (bench->options.validate) {
            printf(",%s", verdict);
        }
    } else {
        printf("%-*zu%*.2f", WIDTH_SIZE, size, WIDTH_VALUE, value);
        if (bench->options.validate) {
            printf("%*s", WIDTH_VALUE, verdict);
        }
    }
    printf("\n");
    fflush(stdout);
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

static void place_messages(struct zr_bench *bench, size_t size)
{
    unsigned i;

    for (i = 0; i < bench->buffers; i++) {
        if (bench->send != NULL) {
            bench->send_at[i] = bench->send[i].base + zr_buffer_place(&bench->send[i], size);
        }
        if (bench->recv != NULL) {
            bench->recv_at[i] = bench->recv[i].base + zr_buffer_place(&bench->recv[i], size);
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

/* Errors of both ranks. */
static int run_size(struct zr_bench *bench, size_t size)
{
    const struct zr_bench_options *o          = &bench->options;
    bool                           large      = size > ZR_BENCH_SMALL;
    unsigned                       iterations = large ? o->iterations_large : o->iterations;
    unsigned                       warmup     = large ? o->warmup_large : o->warmup;
    double                         seconds    = 0;
    int                            mine = 0, theirs = 0;

    place_messages(bench, size);
    MPI_Barrier(bench->pair);
    if (o->validate) {
        mine = run_checked(bench, size, warmup, iterations, &seconds);
    } else {
        run_plain(bench, size, warmup, iterations, &seconds);
    }
    MPI_Sendrecv(&mine, 1, MPI_INT, 1 - bench->rank, ZR_TAG_ERRORS, &theirs, 1, MPI_INT,
                 1 - bench->rank, ZR_TAG_ERRORS, bench->pair, MPI_STATUS_IGNORE);
    if (bench->rank == 0) {
        print_line(bench, size, bench->spec->value(bench, size, seconds, iterations),
                   mine + theirs);
    }
    return mine + theirs;
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
    MPI_Reduce(bench->completed, sum, ZR_ZE_MAX_ENGINES, MPI_UINT64_T, MPI_SUM, 0, bench->pair);
    MPI_Reduce(&counted, &all, 1, MPI_INT, MPI_MIN, 0, bench->pair);
    if (bench->rank != 0) {
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

static int run_pair(struct zr_bench *bench)
{
    const char *program = bench->spec->defaults.program;
    char        error[256] = "";
    int         mine, worst, errors = 0;
    size_t      size;

    mine = set_up(bench, error, sizeof(error)) != 0;
    if (mine) {
        fprintf(stderr, "%s: rank %d: %s\n", program, bench->rank, error);
    }
    MPI_Allreduce(&mine, &worst, 1, MPI_INT, MPI_MAX, bench->pair);
    if (!worst) {
        if (bench->rank == 0) {
            print_header(bench);
        }
        for (size = bench->options.min_size; size <= bench->options.max_size && errors == 0;
             size *= 2) {
            errors = run_size(bench, size);
            if (errors != 0 && bench->rank == 0) {
                fprintf(stderr, "DATA VALIDATION ERROR: %s exits with status 1 on message size "
                        "%zu\n", program, size);
            }
        }
        report_engines(bench);
    }
    MPI_Barrier(bench->pair);
    tear_down(bench);
    return worst || errors != 0;
}

int zr_bench_main(const struct zr_bench_spec *spec, int argc, char **argv)
{
    struct zr_bench     bench = {.spec = spec, .pair = MPI_COMM_NULL};
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
        MPI_Comm_split(MPI_COMM_WORLD, bench.rank < 2 ? 0 : MPI_UNDEFINED, bench.rank,
                       &bench.pair);
        if (bench.pair != MPI_COMM_NULL) {
            status = run_pair(&bench);
            MPI_Comm_free(&bench.pair);
        }
    }
    MPI_Finalize();
    return status;
}
