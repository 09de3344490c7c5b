/* Options of the benchmarks without MPI: a table of them is parsed and is the usage text. */
/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef ZR_BENCH_ARGS_H
#define ZR_BENCH_ARGS_H

#include "table.h"

/* One option with a value, a number with an optional K, M or G; or a flag. */
struct zr_arg {
    const char *name;   /* without the dashes */
    char        letter; /* 0: none */
    const char *value;  /* what the usage text calls the value; NULL: a flag, which sets *to to 1 */
    const char *help;
    uint64_t    min, max, multiple; /* multiple 0: any */
    uint64_t   *to;
    uint64_t   *first; /* not NULL: [MIN:]MAX, and this is MIN; MAX alone sets both */
};

struct zr_args {
    const char          *program;
    const char          *head; /* of the usage text, before the options; ends with a line's end */
    const char          *synopsis;
    const struct zr_arg *args;
    unsigned             count;
    enum zr_format      *format; /* --csv, --json */
};

/**
 * Parse; optind is the first argument that is no option.
 * @return -1: go on; else the exit status: 0 after --help, 2 after a wrong option or value, which was
 *         named with what is allowed.
 */
int zr_args_parse(const struct zr_args *args, int argc, char **argv);
/* Say that @a option cannot have @a value. @return 2 */
int zr_args_bad(const char *program, const char *option, const char *value, const char *allowed);

#endif
