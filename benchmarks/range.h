/* The parts of zr_range. */
/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef ZR_BENCH_RANGE_H
#define ZR_BENCH_RANGE_H

#include "common/table.h"

#define ZR_RANGE_PROGRAM    "zr_range"
#define ZR_RANGE_MAX_ROUNDS 32

struct zr_range_options {
    uint64_t       first_objects, last_objects;
    uint64_t       first_ranges, last_ranges;
    uint64_t       size, rounds;
    uint64_t       no_memfd; /* a flag */
    enum zr_format format;
};

/* range_open.c; @a grow: one more object instead. @return exit status */
int zr_range_open(const struct zr_range_options *options, bool grow);
/* range_register.c */
int zr_range_register(const struct zr_range_options *options);

#endif
