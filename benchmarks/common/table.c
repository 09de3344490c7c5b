/* Tables, progress, time and numbers: see table.h. */
/* SPDX-License-Identifier: BSD-3-Clause */
#include "config.h"
#include "table.h"

#include <errno.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define WIDTH 16

static bool on_terminal(void)
{
    static int terminal = -1;

    if (terminal < 0) {
        terminal = isatty(STDERR_FILENO) != 0;
    }
    return terminal;
}

static void clear_progress(void)
{
    if (on_terminal()) {
        fprintf(stderr, "\r\33[K");
    }
}

void zr_progress(const char *program, const char *format, ...)
{
    va_list args;

    if (on_terminal()) {
        fprintf(stderr, "\r\33[K%s: ", program);
        va_start(args, format);
        vfprintf(stderr, format, args);
        va_end(args);
        fflush(stderr);
    }
}

void zr_table_begin(struct zr_table *table)
{
    unsigned i;

    if (table->format == ZR_FORMAT_JSON) {
        printf("{\"benchmark\": \"%s\", \"version\": \"%s\", \"results\": [", table->program,
               PACKAGE_VERSION);
        return;
    }
    if (table->format == ZR_FORMAT_TEXT) {
        printf("# zerange %s Test v%s\n# ", table->title, PACKAGE_VERSION);
    }
    for (i = 0; i < table->count; i++) {
        if (table->format == ZR_FORMAT_CSV) {
            printf("%s%s", i > 0 ? "," : "", table->columns[i].name);
        } else {
            printf("%*s", i == 0 ? -(WIDTH - 2) : WIDTH, table->columns[i].head);
        }
    }
    printf("\n");
    fflush(stdout);
}

void zr_table_row(struct zr_table *table, const double *values)
{
    const char *between = "";
    unsigned    i;

    clear_progress();
    if (table->format == ZR_FORMAT_JSON) {
        printf("%s\n {", table->rows > 0 ? "," : "");
        for (i = 0; i < table->count; i++) {
            if (!isnan(values[i])) {
                printf("%s\"%s\": %.*f", between, table->columns[i].name,
                       table->columns[i].digits, values[i]);
                between = ", ";
            }
        }
        printf("}");
    } else {
        for (i = 0; i < table->count; i++) {
            if (table->format == ZR_FORMAT_CSV) {
                printf("%s", i > 0 ? "," : "");
                if (!isnan(values[i])) {
                    printf("%.*f", table->columns[i].digits, values[i]);
                }
            } else if (isnan(values[i])) {
                printf("%*s", i == 0 ? -WIDTH : WIDTH, "-");
            } else {
                printf("%*.*f", i == 0 ? -WIDTH : WIDTH, table->columns[i].digits, values[i]);
            }
        }
        printf("\n");
    }
    table->rows++;
    fflush(stdout);
}

void zr_table_end(struct zr_table *table)
{
    clear_progress();
    if (table->format == ZR_FORMAT_JSON) {
        printf("\n]}\n");
    }
}

double zr_now(void)
{
    struct timespec ts;

    clock_gettime(CLOCK_MONOTONIC, &ts);
    return (double)ts.tv_sec + (double)ts.tv_nsec * 1e-9;
}

static int compare(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;

    return (x > y) - (x < y);
}

double zr_median(double *values, unsigned count)
{
    if (count == 0) {
        return NAN;
    }
    qsort(values, count, sizeof(*values), compare);
    return count % 2 ? values[count / 2] : (values[count / 2 - 1] + values[count / 2]) / 2;
}

static bool parse(const char *text, uint64_t min, uint64_t max, char **end_p, uint64_t *value)
{
    static const char suffixes[] = "KMG";
    const char       *suffix;
    int               shift = 0;

    if (*text < '0' || *text > '9') {
        return false;
    }
    errno  = 0;
    *value = strtoull(text, end_p, 10);
    suffix = **end_p != '\0' ? strchr(suffixes, **end_p) : NULL;
    if (suffix != NULL) {
        shift = 10 * (int)(suffix - suffixes + 1);
        (*end_p)++;
    }
    if (errno != 0 || *value > UINT64_MAX >> shift) {
        return false;
    }
    *value <<= shift;
    return *value >= min && *value <= max;
}

bool zr_parse_number(const char *text, uint64_t min, uint64_t max, uint64_t *value)
{
    char *end;

    return parse(text, min, max, &end, value) && *end == '\0';
}

bool zr_parse_span(const char *text, uint64_t min, uint64_t max, uint64_t *first, uint64_t *last)
{
    char *end;

    if (!parse(text, min, max, &end, first)) {
        return false;
    }
    if (*end == '\0') {
        *last  = *first;
        *first = min;
        return true;
    }
    return *end == ':' && zr_parse_number(end + 1, *first, max, last);
}
