/* Command line of the benchmarks: OSU's options and ours. */
/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef ZR_BENCH_OPTIONS_H
#define ZR_BENCH_OPTIONS_H

#include <stdbool.h>
#include <stddef.h>

#define ZR_BENCH_SMALL 8192 /* longest message that counts as small for iterations and warm-up */
#define ZR_BENCH_MAX_MESSAGE ((size_t)1 << 30)
#define ZR_BENCH_MAX_OBJECTS 65536

/* What differs between programs in the command line. */
struct zr_bench_defaults {
    const char *program;
    unsigned    iterations, warmup;             /* messages up to ZR_BENCH_SMALL */
    unsigned    iterations_large, warmup_large; /* longer ones */
    bool        windowed;                       /* takes -W and -b */
    bool        single;                         /* but not -b */
    bool        many;                           /* any even number of ranks, and -p */
    bool        collective;                     /* all ranks; places of send and receive buffers */
    unsigned    element;                        /* bytes; 0: 1 */
};

/* Bytes that sizes and offsets are multiples of. */
static inline size_t zr_bench_element(const struct zr_bench_defaults *defaults)
{
    return defaults->element > 0 ? defaults->element : 1;
}

struct zr_bench_options {
    size_t   min_size, max_size; /* bytes of a message */
    unsigned iterations, warmup, iterations_large, warmup_large;
    unsigned window;     /* messages in flight */
    bool     multiple;   /* one buffer for each message of the window */
    bool     validate;   /* check every byte */
    unsigned repeats;    /* untimed transfers before a checked one */
    bool     csv, json;
    bool     fit;        /* buffers made anew for each size, no longer than it needs */
    size_t   volume;     /* at most so many bytes of each size, 0: no limit */
    unsigned pairs;      /* 0: as many as there are ranks for */
    bool     engines_report;
    /* 'D' or 'H', of rank 0's buffers and of rank 1's; of send and receive buffers in a collective */
    char     place[2];
    unsigned objects[2]; /* physical objects of each device buffer; 0: a plain allocation */
    bool     unequal;    /* objects of unequal size */
    bool     map_offset; /* objects mapped at an offset, and less than to their end */
    bool     offset_set;
    size_t   offset;     /* bytes between the start of a page and the message */
};

enum zr_bench_parse { ZR_BENCH_RUN, ZR_BENCH_HELP, ZR_BENCH_BAD };

/**
 * Parse @a argv. @a error gets the line to print for ZR_BENCH_BAD: the option, its value and the
 * values allowed.
 */
enum zr_bench_parse zr_bench_options_parse(const struct zr_bench_defaults *defaults, int argc,
                                           char **argv, struct zr_bench_options *options,
                                           char *error, size_t error_size);
/* Print the help text to standard output. */
void zr_bench_options_help(const struct zr_bench_defaults *defaults);

#endif
