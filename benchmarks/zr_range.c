/* What sharing costs: export, open, first touch and close of a range by its number of objects,
 * beside memfds received over a socket, mapped and touched; look-ups in the registration cache by
 * its number of ranges, beside those of UCX. */
/* SPDX-License-Identifier: BSD-3-Clause */
#include "common/args.h"
#include "range.h"

#include <string.h>
#include <unistd.h>

static const char head[] =
    "  open                     a range by its number of objects (default)\n"
    "  register                 hits and misses by the number of cached ranges\n"
    "  grow                     one more object for a range of --objects\n\n";

int main(int argc, char **argv)
{
    struct zr_range_options o = {.first_objects = 1, .last_objects = 0, .first_ranges = 100,
                                 .last_ranges = 1000000, .size = 65536, .rounds = 5};
    const struct zr_arg list[] = {
        {"objects", 0, "[MIN:]MAX", "four times as many each time, and MAX [1:16384; grow 10000]",
         1, 65536, 0, &o.last_objects, &o.first_objects},
        {"ranges", 0, "[MIN:]MAX", "ten times as many each time [100:1000000]", 64, 4000000, 0,
         &o.last_ranges, &o.first_ranges},
        {"size", 0, "BYTES", "of an object [64K]", 65536, 1 << 30, 65536, &o.size, NULL},
        {"rounds", 'r', "N", "1 to 32, interleaved; the median counts [5]", 1, ZR_RANGE_MAX_ROUNDS,
         0, &o.rounds, NULL},
        {"no-memfd", 0, NULL, "without the memfds beside it", 0, 0, 0, &o.no_memfd, NULL}};
    const struct zr_args args = {ZR_RANGE_PROGRAM, head, "[open|register|grow] [OPTIONS]", list, 5,
                                 &o.format};
    const char *mode;
    int         status = zr_args_parse(&args, argc, argv);

    if (status >= 0) {
        return status;
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
    return zr_args_bad(ZR_RANGE_PROGRAM, "the mode", mode, "open, register, grow");
}
