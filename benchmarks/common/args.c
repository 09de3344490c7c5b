/* Options from a table: see args.h. */
/* SPDX-License-Identifier: BSD-3-Clause */
#include "args.h"

#include <getopt.h>
#include <stdio.h>
#include <string.h>

#define MOST   24
#define COLUMN 27 /* where the help begins */

enum { OPT_CSV = 256, OPT_JSON, OPT_FIRST };

int zr_args_bad(const char *program, const char *option, const char *value, const char *allowed)
{
    fprintf(stderr, "%s: %s has the value '%s': allowed: %s\n", program, option, value, allowed);
    return 2;
}

static void number(char *text, size_t size, uint64_t value)
{
    static const char units[] = {0, 'K', 'M', 'G'};
    unsigned          unit    = 0;

    while (value != 0 && value % 1024 == 0 && unit < 3) {
        value /= 1024;
        unit++;
    }
    snprintf(text, size, "%llu%.1s", (unsigned long long)value, &units[unit]);
}

static int bad_value(const struct zr_args *args, const struct zr_arg *arg, const char *value)
{
    char name[40], min[24], max[24], multiple[24], allowed[120];

    snprintf(name, sizeof(name), "--%s", arg->name);
    number(min, sizeof(min), arg->min);
    number(max, sizeof(max), arg->max);
    number(multiple, sizeof(multiple), arg->multiple);
    snprintf(allowed, sizeof(allowed), "%s%s to %s%s%s", arg->first != NULL ? "[MIN:]MAX, " : "",
             min, max, arg->multiple != 0 ? ", a multiple of " : "", arg->multiple != 0 ? multiple : "");
    return zr_args_bad(args->program, name, value, allowed);
}

static bool take(const struct zr_arg *arg, const char *text)
{
    uint64_t value;

    if (arg->value == NULL) {
        *arg->to = 1;
        return true;
    }
    if (arg->first != NULL) {
        return zr_parse_span(text, arg->min, arg->max, arg->first, arg->to);
    }
    if (!zr_parse_number(text, arg->min, arg->max, &value) ||
        (arg->multiple != 0 && value % arg->multiple != 0)) {
        return false;
    }
    *arg->to = value;
    return true;
}

static void usage(const struct zr_args *args)
{
    char     left[80];
    unsigned k;
    int      n;

    printf("usage: %s %s\n\n%s", args->program, args->synopsis, args->head);
    for (k = 0; k < args->count; k++) {
        const struct zr_arg *arg = &args->args[k];

        n = arg->letter != 0 ? snprintf(left, sizeof(left), "  -%c, --%s", arg->letter, arg->name)
                             : snprintf(left, sizeof(left), "      --%s", arg->name);
        snprintf(left + n, sizeof(left) - (size_t)n, " %s", arg->value != NULL ? arg->value : "");
        printf("%-*s%s%s\n", COLUMN, left, strlen(left) < COLUMN ? "" : " ", arg->help);
    }
    printf("%-*s%s\n%-*s%s\n", COLUMN, "      --csv, --json", "the table as CSV or as JSON", COLUMN,
           "  -h, --help", "this text");
}

int zr_args_parse(const struct zr_args *args, int argc, char **argv)
{
    struct option longs[MOST + 4] = {{"csv", no_argument, NULL, OPT_CSV},
                                     {"json", no_argument, NULL, OPT_JSON},
                                     {"help", no_argument, NULL, 'h'}};
    char          shorts[2 * MOST + 2] = "h";
    unsigned      k, count = args->count < MOST ? args->count : MOST;
    int           option;

    for (k = 0; k < count; k++) {
        const struct zr_arg *arg = &args->args[k];

        longs[3 + k] = (struct option){arg->name, arg->value != NULL, NULL, (int)(OPT_FIRST + k)};
        if (arg->letter != 0) {
            size_t at = strlen(shorts);

            shorts[at]     = arg->letter;
            shorts[at + 1] = arg->value != NULL ? ':' : '\0';
        }
    }
    while ((option = getopt_long(argc, argv, shorts, longs, NULL)) != -1) {
        switch (option) {
        case OPT_CSV:
            *args->format = ZR_FORMAT_CSV;
            continue;
        case OPT_JSON:
            *args->format = ZR_FORMAT_JSON;
            continue;
        case 'h':
            usage(args);
            return 0;
        case '?':
            return 2;
        }
        for (k = 0; k < count; k++) {
            if (option == (int)(OPT_FIRST + k) || option == args->args[k].letter) {
                break;
            }
        }
        if (k < count && !take(&args->args[k], optarg)) {
            return bad_value(args, &args->args[k], optarg);
        }
    }
    return -1;
}
