/* The table of a benchmark: OSU's, CSV or JSON. */
/* SPDX-License-Identifier: BSD-3-Clause */
#include "config.h"
#include "bench.h"

#include <stdio.h>
#include <unistd.h>

#define WIDTH_SIZE 10
#define WIDTH_VALUE 18

static const char *place_name(char place)
{
    return place == 'D' ? "DEVICE (D)" : "HOST (H)";
}

static unsigned columns_of(const struct zr_bench_spec *spec)
{
    unsigned n = 0;

    while (n < ZR_BENCH_COLUMNS && spec->columns[n].title != NULL) {
        n++;
    }
    return n;
}

static void print_title(const struct zr_bench *bench)
{
    const struct zr_bench_options *o    = &bench->options;
    bool                           all  = bench->spec->defaults.collective;
    const char                    *type = bench->spec->datatype;
    int                            i;

    printf("# zerange MPI %s Test v%s\n# Datatype: %s.\n", bench->spec->title, PACKAGE_VERSION,
           type != NULL ? type : "MPI_CHAR");
    printf("# Send Buffer on %s and Receive Buffer on %s\n", place_name(o->place[0]),
           place_name(o->place[1]));
    for (i = 0; i < 2; i++) {
        if (o->place[i] != 'D' || o->objects[i] == 0) {
            continue;
        }
        if (all) {
            printf("# %s buffers", i == 0 ? "Send" : "Receive");
        } else {
            printf("# Buffers of rank %d", i);
        }
        printf(": %u physical object%s%s%s\n", o->objects[i], o->objects[i] == 1 ? "" : "s",
               o->unequal ? " of unequal size" : "",
               o->map_offset ? ", mapped from an offset and in part" : "");
    }
    if (all) {
        printf("# [ ranks: %d ]\n", bench->ranks);
    } else if (bench->spec->defaults.many) {
        printf("# [ pairs: %u ] [ window size: %u ]\n", bench->pairs, o->window);
    }
}

void zr_report_header(const struct zr_bench *bench)
{
    const struct zr_bench_options *o       = &bench->options;
    unsigned                       columns = columns_of(bench->spec), i;

    if (o->json) {
        printf("{\"benchmark\": \"%s\", \"version\": \"%s\", \"ranks\": %u, \"pairs\": %u, "
               "\"places\": \"%c %c\", \"objects\": [%u, %u], \"results\": [",
               bench->spec->defaults.program, PACKAGE_VERSION,
               (unsigned)bench->ranks * bench->pairs, bench->pairs, o->place[0], o->place[1],
               o->objects[0], o->objects[1]);
        return;
    }
    if (o->csv) {
        printf("size");
        for (i = 0; i < columns; i++) {
            printf(",%s", bench->spec->columns[i].csv);
        }
        printf("%s\n", o->validate ? ",validation" : "");
        return;
    }
    print_title(bench);
    printf("%-*s", WIDTH_SIZE, "# Size");
    for (i = 0; i < columns; i++) {
        printf("%*s", WIDTH_VALUE, bench->spec->columns[i].title);
    }
    if (o->validate) {
        printf("%*s", WIDTH_VALUE, "Validation");
    }
    printf("\n");
    fflush(stdout);
}

void zr_report_line(struct zr_bench *bench, size_t size, double seconds, unsigned iterations,
                    int errors)
{
    const struct zr_bench_spec    *spec    = bench->spec;
    const struct zr_bench_options *o       = &bench->options;
    const char                    *verdict = errors == 0 ? "Pass" : "Fail";
    unsigned                       columns = columns_of(spec), i;
    double                         value;

    if (o->json) {
        printf("%s\n {\"size\": %zu", bench->lines > 0 ? "," : "", size);
    } else {
        printf("%-*zu", o->csv ? 0 : WIDTH_SIZE, size);
    }
    for (i = 0; i < columns; i++) {
        value = spec->columns[i].value(bench, size, seconds, iterations);
        if (o->json) {
            printf(", \"%s\": %.3f", spec->columns[i].csv, value);
        } else if (o->csv) {
            printf(",%.2f", value);
        } else {
            printf("%*.2f", WIDTH_VALUE, value);
        }
    }
    if (o->json) {
        printf(o->validate ? ", \"validation\": \"%s\"}" : "}", verdict);
    } else if (o->csv) {
        printf(o->validate ? ",%s\n" : "\n", verdict);
    } else {
        printf("%*s\n", o->validate ? WIDTH_VALUE : 0, o->validate ? verdict : "");
    }
    bench->lines++;
    fflush(stdout);
}

/* On a terminal, what is being measured; the line is written over by the next one. */
void zr_report_progress(const struct zr_bench *bench, size_t size)
{
    static int terminal = -1;

    if (terminal < 0) {
        terminal = isatty(STDERR_FILENO) != 0;
    }
    if (bench->lead && terminal) {
        if (size > 0) {
            fprintf(stderr, "%s: %zu bytes ...\r", bench->spec->defaults.program, size);
        } else {
            fprintf(stderr, "\33[K");
        }
    }
}
