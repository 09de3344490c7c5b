/* One copy cut over 1 to N engines and submitted in parallel, each engine at the rate that the
 * software device's model gives it: how near the cut comes to N engines' rate. A process for each
 * width, since a driver reads its settings once. */
/* SPDX-License-Identifier: BSD-3-Clause */
#include "common/args.h"
#include "common/device.h"
#include "common/table.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#define PROGRAM "zr_engines"

struct options {
    uint64_t first, last, size, objects, rate, rounds;
};

/* MB/s of one copy by what ZERANGE_ENGINES allows; negative: said. */
static double measure(const struct options *o)
{
    struct zr_bench_options options = {.max_size = o->size, .objects = {(unsigned)o->objects,
                                                                        (unsigned)o->objects}};
    struct zr_buffer        from, to;
    struct zr_ze            ze;
    char                    error[256];
    double                  results[16], start;
    size_t                  at;
    unsigned                i;

    if (zr_ze_open(&ze, error, sizeof(error)) != 0 ||
        zr_buffer_create(&ze, &options, 0, &from, error, sizeof(error)) != 0 ||
        zr_buffer_create(&ze, &options, 1, &to, error, sizeof(error)) != 0) {
        fprintf(stderr, PROGRAM ": %s\n", error);
        return -1;
    }
    at = zr_buffer_place(&from, o->size);
    for (i = 0; i <= o->rounds; i++) { /* the first one brings the pages in */
        start = zr_now();
        if (zeCommandListAppendMemoryCopy(ze.list, to.base + at, from.base + at, o->size, NULL, 0,
                                          NULL) != ZE_RESULT_SUCCESS) {
            fprintf(stderr, PROGRAM ": a copy of %llu bytes failed\n", (unsigned long long)o->size);
            return -1;
        }
        if (i > 0) {
            results[i - 1] = (double)o->size / 1e6 / (zr_now() - start);
        }
    }
    zr_buffer_destroy(&from);
    zr_buffer_destroy(&to);
    zr_ze_close(&ze);
    return zr_median(results, (unsigned)o->rounds);
}

/* The same in a process of its own with the two settings. */
static double measure_width(const struct options *o, uint64_t width)
{
    char   text[32];
    double value = -1;
    int    ends[2], status;
    pid_t  pid;

    if (pipe(ends) != 0 || (pid = fork()) < 0) {
        perror(PROGRAM);
        exit(1);
    }
    if (pid == 0) {
        snprintf(text, sizeof(text), "%llu", (unsigned long long)width);
        setenv("ZERANGE_ENGINES", text, 1);
        if (o->rate > 0) {
            snprintf(text, sizeof(text), "%llu", (unsigned long long)o->rate);
            setenv("ZERANGE_SOFT_ENGINE_MBPS", text, 1);
        }
        value  = measure(o);
        status = value <= 0 || write(ends[1], &value, sizeof(value)) != sizeof(value);
        _exit(status);
    }
    close(ends[1]);
    if (read(ends[0], &value, sizeof(value)) != sizeof(value)) {
        value = -1;
    }
    close(ends[0]);
    waitpid(pid, &status, 0);
    return WIFEXITED(status) && WEXITSTATUS(status) == 0 ? value : -1;
}

int main(int argc, char **argv)
{
    static const struct zr_column columns[] = {{"Engines", "engines", 0},
                                               {"MB/s", "bandwidth_mb_s", 2},
                                               {"times one", "speedup", 3},
                                               {"of linear", "of_linear", 3}};
    struct options  o     = {1, 9, 16 << 20, 64, 200, 5};
    struct zr_table table = {PROGRAM, "Engines", ZR_FORMAT_TEXT, columns, 4, 0};
    const struct zr_arg list[] = {
        {"engines", 'e', "[MIN:]MAX", "widths to measure [1:9]", 1, 16, 0, &o.last, &o.first},
        {"size", 's', "BYTES", "of the copy [16M]", 1, 1 << 30, 0, &o.size, NULL},
        {"rounds", 'r', "N", "1 to 16 copies each, the median counts [5]", 1, 16, 0, &o.rounds,
         NULL},
        {"objects", 0, "N", "physical objects of each buffer [64]", 1, 16384, 0, &o.objects, NULL},
        {"rate", 0, "MB/S", "of one software engine, 0: as fast as it can [200]", 0, 1000000, 0,
         &o.rate, NULL}};
    const struct zr_args args = {PROGRAM, "", "[OPTIONS]", list, 5, &table.format};
    double   one = 0, value;
    uint64_t width;
    int      status = zr_args_parse(&args, argc, argv);

    if (status >= 0) {
        return status;
    }
    zr_table_begin(&table);
    for (width = o.first; width <= o.last; width++) {
        zr_progress(PROGRAM, "%llu engines ...", (unsigned long long)width);
        value = measure_width(&o, width);
        if (value <= 0) {
            return 1;
        }
        if (width == o.first) {
            one = value / (double)width;
        }
        zr_table_row(&table, (double[]){(double)width, value, value / one,
                                        value / one / (double)width});
    }
    zr_table_end(&table);
    return 0;
}
