/* Command line of the benchmarks: a number has a range, a wrong value is named with it. */
/* SPDX-License-Identifier: BSD-3-Clause */
#include "options.h"

#include <errno.h>
#include <getopt.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    OPT_OBJECTS = 256, OPT_UNEQUAL, OPT_MAP_OFFSET, OPT_OFFSET, OPT_SPLIT, OPT_CSV, OPT_ENGINES,
    OPT_JSON, OPT_FIT, OPT_VOLUME
};

static const struct option long_options[] = {
    {"message-size", required_argument, NULL, 'm'},
    {"iterations", required_argument, NULL, 'i'},
    {"warmup", required_argument, NULL, 'x'},
    {"window-size", required_argument, NULL, 'W'},
    {"buffer-num", required_argument, NULL, 'b'},
    {"validation", no_argument, NULL, 'c'},
    {"validation-warmup", required_argument, NULL, 'u'},
    {"accelerator", required_argument, NULL, 'd'},
    {"help", no_argument, NULL, 'h'},
    {"objects", required_argument, NULL, OPT_OBJECTS},
    {"unequal", no_argument, NULL, OPT_UNEQUAL},
    {"map-offset", no_argument, NULL, OPT_MAP_OFFSET},
    {"offset", required_argument, NULL, OPT_OFFSET},
    {"split", required_argument, NULL, OPT_SPLIT},
    {"pairs", required_argument, NULL, 'p'},
    {"csv", no_argument, NULL, OPT_CSV},
    {"json", no_argument, NULL, OPT_JSON},
    {"fit", no_argument, NULL, OPT_FIT},
    {"volume", required_argument, NULL, OPT_VOLUME},
    {"engines-report", no_argument, NULL, OPT_ENGINES},
    {NULL, 0, NULL, 0},
};

void zr_bench_options_help(const struct zr_bench_defaults *d)
{
    printf("usage: mpirun -np %s %s [OPTIONS] [PLACE PLACE]\n\n"
           "  PLACE PLACE              %s: D (device) or H (host)"
           " [H H]\n"
           "  -m, --message-size [MIN:]MAX  bytes, doubled from MIN to MAX [%zu:4194304]\n"
           "  -i, --iterations N       iterations for each size [%u; above %d bytes %u]\n"
           "  -x, --warmup N           untimed iterations before them [%u; above %d bytes %u]\n",
           d->many || d->collective ? "N" : "2", d->program,
           d->collective ? "send and receive buffers" : "buffers of rank 0 and of rank 1",
           zr_bench_element(d), d->iterations, ZR_BENCH_SMALL, d->iterations_large,
           d->warmup, ZR_BENCH_SMALL, d->warmup_large);
    if (d->windowed) {
        printf("  -W, --window-size N      messages in flight [64]\n");
    }
    if (d->windowed && !d->single) {
        printf("  -b, --buffer-num single|multiple  one buffer for the window or one for each"
               " message [single]\n");
    }
    if (d->many) {
        printf("  -p, --pairs N            pairs of ranks [half of the ranks]\n");
    }
    printf("  -c, --validation         check every byte received and everything beside it\n"
           "  -u, --validation-warmup N  untimed transfers before each checked one [5]\n"
           "  -d, --accelerator ze     as in other benchmarks of this kind; only ze here\n"
           "      --volume BYTES       for each size at most so much, by fewer iterations and then a"
           " shorter window\n"
           "      --csv, --json        the table as CSV or as JSON\n"
           "      --engines-report     after the run, how many copy engines took part\n"
           "  -h, --help               this text\n\n"
           "device buffers (the pages of a device are 64 KiB; a message is placed across an edge"
           " between objects):\n"
           "      --objects N          physical objects of each buffer, 0: one plain allocation"
           " [1]\n"
           "      --split A:B          A objects %s\n"
           "      --unequal            objects of unequal size\n"
           "      --map-offset         objects mapped from an offset, shorter than the object\n"
           "      --offset BYTES       start that far inside a page [0]\n"
           "      --fit                buffers of their own for each size, so that a message spans"
           " all objects\n",
           d->collective ? "of send buffers and B of receive buffers" : "on rank 0 and B on rank 1");
}

/* A decimal number with an optional K, M or G, between min and max; *end_p is behind it. */
static bool parse_number(const char *text, uint64_t min, uint64_t max, char **end_p,
                         uint64_t *value)
{
    static const char suffixes[] = "KMG";
    const char *suffix;
    uint64_t    number;

    if (*text < '0' || *text > '9') {
        return false;
    }
    errno  = 0;
    number = strtoull(text, end_p, 10);
    suffix = **end_p != '\0' ? strchr(suffixes, **end_p) : NULL;
    if (suffix != NULL) {
        int shift = 10 * (int)(suffix - suffixes + 1);

        if (number > UINT64_MAX >> shift) {
            return false;
        }
        number <<= shift;
        (*end_p)++;
    }
    if (errno != 0 || number < min || number > max) {
        return false;
    }
    *value = number;
    return true;
}

static bool parse_unsigned(const char *text, uint64_t min, uint64_t max, unsigned *value)
{
    uint64_t number;
    char    *end;

    if (!parse_number(text, min, max, &end, &number) || *end != '\0') {
        return false;
    }
    *value = (unsigned)number;
    return true;
}

static bool parse_sizes(const char *text, size_t element, struct zr_bench_options *options)
{
    uint64_t first, second;
    char    *end;

    if (!parse_number(text, element, ZR_BENCH_MAX_MESSAGE, &end, &first)) {
        return false;
    }
    if (*end == '\0') {
        options->min_size = element;
        options->max_size = first;
        return true;
    }
    if (*end != ':' || first % element != 0 || !parse_number(end + 1, first, ZR_BENCH_MAX_MESSAGE, &end, &second) ||
        *end != '\0') {
        return false;
    }
    options->min_size = first;
    options->max_size = second;
    return true;
}

static bool parse_split(const char *text, struct zr_bench_options *options)
{
    uint64_t first, second;
    char    *end;

    if (!parse_number(text, 1, ZR_BENCH_MAX_OBJECTS, &end, &first) || *end != ':' ||
        !parse_number(end + 1, 1, ZR_BENCH_MAX_OBJECTS, &end, &second) || *end != '\0') {
        return false;
    }
    options->objects[0] = (unsigned)first;
    options->objects[1] = (unsigned)second;
    return true;
}

static bool parse_offset(const char *text, size_t element, struct zr_bench_options *options)
{
    uint64_t number;
    char    *end;

    if (!parse_number(text, 0, 65535, &end, &number) || *end != '\0' || number % element != 0) {
        return false;
    }
    options->offset     = number;
    options->offset_set = true;
    return true;
}

static bool parse_volume(const char *text, struct zr_bench_options *options)
{
    uint64_t number;
    char    *end;

    if (!parse_number(text, 1, UINT64_C(1) << 40, &end, &number) || *end != '\0') {
        return false;
    }
    options->volume = number;
    return true;
}

static bool parse_buffers(const char *text, struct zr_bench_options *options)
{
    options->multiple = strcmp(text, "multiple") == 0;
    return options->multiple || strcmp(text, "single") == 0;
}

/* One option with its value; what is allowed if the value is wrong, "" if there is no such
 * option, NULL if all is well. */
static const char *take_option(int option, const char *value, const struct zr_bench_defaults *d,
                               struct zr_bench_options *o)
{
    size_t element = zr_bench_element(d);

    switch (option) {
    case 'm':
        return parse_sizes(value, element, o) ? NULL :
               element == 1 ? "[MIN:]MAX with 1 <= MIN <= MAX <= 1G bytes" :
                              "[MIN:]MAX with 4 <= MIN <= MAX <= 1G bytes, MIN a multiple of 4";
    case 'i':
        if (!parse_unsigned(value, 1, 1000000000, &o->iterations)) {
            return "1 to 1000000000";
        }
        o->iterations_large = o->iterations;
        return NULL;
    case 'x':
        if (!parse_unsigned(value, 0, 1000000000, &o->warmup)) {
            return "0 to 1000000000";
        }
        o->warmup_large = o->warmup;
        return NULL;
    case 'W':
        return !d->windowed                             ? "" :
               parse_unsigned(value, 1, 65536, &o->window) ? NULL : "1 to 65536";
    case 'b':
        return !d->windowed || d->single ? "" :
               parse_buffers(value, o)   ? NULL : "single, multiple";
    case 'p':
        return !d->many                                ? "" :
               parse_unsigned(value, 1, 4096, &o->pairs) ? NULL : "1 to 4096";
    case 'c':
        o->validate = true;
        return NULL;
    case 'u':
        return parse_unsigned(value, 0, 1000000, &o->repeats) ? NULL : "0 to 1000000";
    case 'd':
        return strcmp(value, "ze") == 0 ? NULL : "ze";
    case OPT_OBJECTS:
        if (!parse_unsigned(value, 0, ZR_BENCH_MAX_OBJECTS, &o->objects[0])) {
            return "0 to 65536";
        }
        o->objects[1] = o->objects[0];
        return NULL;
    case OPT_SPLIT:
        return parse_split(value, o) ? NULL : "A:B with A and B from 1 to 65536";
    case OPT_UNEQUAL:
        o->unequal = true;
        return NULL;
    case OPT_MAP_OFFSET:
        o->map_offset = true;
        return NULL;
    case OPT_OFFSET:
        return parse_offset(value, element, o) ? NULL :
               element == 1                    ? "0 to 65535 bytes" :
                                                 "0 to 65535 bytes, a multiple of 4";
    case OPT_CSV:
        o->csv  = true;
        o->json = false;
        return NULL;
    case OPT_JSON:
        o->json = true;
        o->csv  = false;
        return NULL;
    case OPT_FIT:
        o->fit = true;
        return NULL;
    case OPT_VOLUME:
        return parse_volume(value, o) ? NULL : "1 to 1024G bytes";
    case OPT_ENGINES:
        o->engines_report = true;
        return NULL;
    }
    return "";
}

static void option_name(int option, char *name, size_t size)
{
    const struct option *o;

    if (option < 256) {
        snprintf(name, size, "-%c", option);
        return;
    }
    for (o = long_options; o->val != option; o++) {
    }
    snprintf(name, size, "--%s", o->name);
}

static enum zr_bench_parse take_places(const struct zr_bench_defaults *d, int count, char **words,
                                       struct zr_bench_options *options, char *error, size_t size)
{
    int i;

    if (count != 0 && count != 2) {
        snprintf(error, size, "%s: placement has %d words: allowed are D D, D H, H D, H H",
                 d->program, count);
        return ZR_BENCH_BAD;
    }
    for (i = 0; i < count; i++) {
        if (strcmp(words[i], "D") != 0 && strcmp(words[i], "H") != 0) {
            snprintf(error, size, "%s: placement '%s' is not valid: allowed are D (device) and H "
                     "(host)", d->program, words[i]);
            return ZR_BENCH_BAD;
        }
        options->place[i] = words[i][0];
    }
    return ZR_BENCH_RUN;
}

enum zr_bench_parse zr_bench_options_parse(const struct zr_bench_defaults *d, int argc, char **argv,
                                           struct zr_bench_options *options, char *error,
                                           size_t error_size)
{
    char        name[64];
    const char *allowed;
    int         option, at;

    *options = (struct zr_bench_options){
        .min_size = zr_bench_element(d), .max_size = (size_t)4 << 20, .iterations = d->iterations,
        .warmup = d->warmup, .iterations_large = d->iterations_large,
        .warmup_large = d->warmup_large, .window = d->windowed ? 64 : 1, .repeats = 5,
        .place = {'H', 'H'}, .objects = {1, 1}};
    opterr = 0;
    optind = 1;
    for (;;) {
        at     = optind;
        option = getopt_long(argc, argv, ":m:i:x:W:b:p:cu:d:h", long_options, NULL);
        if (option == -1) {
            break;
        }
        if (option == 'h') {
            return ZR_BENCH_HELP;
        }
        if (option == ':') {
            option_name(optopt, name, sizeof(name));
            snprintf(error, error_size, "%s: option %s needs a value", d->program, name);
            return ZR_BENCH_BAD;
        }
        if (option == '?') {
            snprintf(error, error_size, "%s: option '%s' is not known: -h lists those that are",
                     d->program, argv[optind > at ? optind - 1 : at]);
            return ZR_BENCH_BAD;
        }
        allowed = take_option(option, optarg, d, options);
        if (allowed == NULL) {
            continue;
        }
        option_name(option, name, sizeof(name));
        if (allowed[0] == '\0') {
            snprintf(error, error_size, "%s: option %s is not known: -h lists those that are",
                     d->program, name);
        } else {
            snprintf(error, error_size, "%s: option %s has the value '%s': allowed: %s",
                     d->program, name, optarg, allowed);
        }
        return ZR_BENCH_BAD;
    }
    return take_places(d, argc - optind, argv + optind, options, error, error_size);
}
