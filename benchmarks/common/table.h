/* A table of numbers for people, as CSV or as JSON, and a line of progress on a terminal; small
 * things that the benchmarks without MPI share. */
/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef ZR_BENCH_TABLE_H
#define ZR_BENCH_TABLE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum zr_format { ZR_FORMAT_TEXT, ZR_FORMAT_CSV, ZR_FORMAT_JSON };

struct zr_column {
    const char *head; /* for people */
    const char *name; /* in CSV and JSON */
    int         digits;
};

struct zr_table {
    const char             *program, *title;
    enum zr_format          format;
    const struct zr_column *columns;
    unsigned                count, rows;
};

void zr_table_begin(struct zr_table *table);
/* NAN: not measured. */
void zr_table_row(struct zr_table *table, const double *values);
void zr_table_end(struct zr_table *table);

/* Shown on a terminal until the next line of the table. */
void zr_progress(const char *program, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

/* Seconds of CLOCK_MONOTONIC. */
double zr_now(void);
/* The median of @a count values, which it sorts; NAN of none. */
double zr_median(double *values, unsigned count);
/* A decimal number with an optional K, M or G from @a min to @a max, alone in @a text. */
bool zr_parse_number(const char *text, uint64_t min, uint64_t max, uint64_t *value);
/* MIN:MAX or MAX. */
bool zr_parse_span(const char *text, uint64_t min, uint64_t max, uint64_t *first, uint64_t *last);

#endif
