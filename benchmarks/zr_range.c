/* What sharing costs: export, open, first touch and close of a range by its number of objects,
 * beside memfds received over a socket, mapped and touched; look-ups in the registration cache by
 * its number of ranges, beside those of UCX. */
/* SPDX-License-Identifier: BSD-3-Clause */
#include "range.h"

#include <getopt.h>
#include <stdio.h>
#include <string.h>

static void usage(void)
{
    printf("usage: " ZR_RANGE_PROGRAM " [open|register|grow] [OPTIONS]\n\n"
           "  open                     a range by its number of objects (default)\n"
           "  register                 hits and misses by the number of cached ranges\n"
           "  grow                     one more object for a range of --objects\n\n"
           "      --objects [MIN:]MAX  four times as many each time, and MAX [1:16384; grow 10000]\n"
           "      --ranges [MIN:]MAX   ten times as many each time [100:1000000]\n"
           "      --size BYTES         of an object [64K]\n"
           "  -r, --rounds N           1 to 32, interleaved; the median counts [5]\n"
           "      --no-memfd           without the memfds beside it\n"
           "      --csv, --json        the table as CSV or as JSON\n");
}

static int bad(const char *option, const char *value, const char *allowed)
{
    fprintf(stderr, ZR_RANGE_PROGRAM ": %s has the value '%s': allowed: %s\n", option, value,
            allowed);
    return 2;
}

int main(int argc, char **argv)
{
    static const struct option longs[] = {{"objects", required_argument, NULL, 'o'},
                                          {"ranges", required_argument, NULL, 'n'},
                                          {"size", required_argument, NULL, 's'},
                                          {"rounds", required_argument, NULL, 'r'},
                                          {"no-memfd", no_argument, NULL, 'N'},
                                          {"csv", no_argument, NULL, 'C'},
                                          {"json", no_argument, NULL, 'J'},
                                          {"help", no_argument, NULL, 'h'},
                                          {NULL, 0, NULL, 0}};
    struct zr_range_options o = {.first_objects = 1, .last_objects = 0, .first_ranges = 100,
                                 .last_ranges = 1000000, .size = 65536, .rounds = 5,
                                 .memfd = true};
    const char *mode;
    int         option;

    while ((option = getopt_long(argc, argv, "r:h", longs, NULL)) != -1) {
        switch (option) {
        case 'o':
            if (!zr_parse_span(optarg, 1, 65536, &o.first_objects, &o.last_objects)) {
                return bad("--objects", optarg, "[MIN:]MAX up to 65536");
            }
            break;
        case 'n':
            if (!zr_parse_span(optarg, 64, 4000000, &o.first_ranges, &o.last_ranges)) {
                return bad("--ranges", optarg, "[MIN:]MAX from 64 to 4000000");
            }
            break;
        case 's':
            if (!zr_parse_number(optarg, 65536, 1 << 30, &o.size) || o.size % 65536 != 0) {
                return bad("--size", optarg, "a multiple of 64K up to 1G");
            }
            break;
        case 'r':
            if (!zr_parse_number(optarg, 1, ZR_RANGE_MAX_ROUNDS, &o.rounds)) {
                return bad("-r", optarg, "1 to 32");
            }
            break;
        case 'N':
            o.memfd = false;
            break;
        case 'C':
            o.format = ZR_FORMAT_CSV;
            break;
        case 'J':
            o.format = ZR_FORMAT_JSON;
            break;
        case 'h':
            usage();
            return 0;
        default:
            return 2;
        }
    }
    mode = optind < argc ? argv[optind] : "open";
    if (strcmp(mode, "open") == 0) {
        o.last_objects = o.last_objects != 0 ? o.last_objects : 16384;
        return zr_range_open(&o, false);
    }
    if (strcmp(mode, "grow") == 0) {
        o.last_objects  = o.last_objects != 0 ? o.last_objects : 10000;
        o.first_objects = o.last_objects;
        return zr_range_open(&o, true);
    }
    if (strcmp(mode, "register") == 0) {
        return zr_range_register(&o);
    }
    return bad("the mode", mode, "open, register, grow");
}
