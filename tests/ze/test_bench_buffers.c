/* Buffers of the benchmarks: as many objects as asked for, side by side; every message of two bytes
 * or more lies across an edge, with room on both sides. */
/* SPDX-License-Identifier: BSD-3-Clause */
#include "../../benchmarks/common/device.h"

#include <stdio.h>
#include <stdlib.h>

static const struct {
    unsigned objects;
    bool     unequal, map_offset;
    size_t   max_size, offset;
} cases[] = {
    {1, false, false, 4 << 20, 0},      {1, true, true, 4 << 20, 77},
    {2, false, false, 4 << 20, 0},      {2, true, false, 4 << 20, 65535},
    {3, false, true, 1, 0},             {5, true, true, 1000003, 1},
    {8, false, false, 64 << 20, 0},     {8, false, false, 8192, 4099},
    {64, true, false, 16 << 20, 300},   {1000, true, true, 65536, 9},
    {0, false, false, 4 << 20, 17},
};

static unsigned bad;

static void wrong(unsigned i, const char *what, size_t value)
{
    printf("case %u (%u objects, up to %zu bytes): %s: %zu\n", i, cases[i].objects,
           cases[i].max_size, what, value);
    bad++;
}

static void check_objects(unsigned i, const struct zr_buffer *b)
{
    size_t   end = 0;
    unsigned k, differ = 0;

    if (b->count != cases[i].objects) {
        wrong(i, "objects", b->count);
    }
    for (k = 0; k < b->count; k++) {
        if (b->objects[k].start != end || b->objects[k].length == 0 ||
            b->objects[k].length % b->page != 0) {
            wrong(i, "object out of place", k);
        }
        if ((b->objects[k].offset != 0) != cases[i].map_offset) {
            wrong(i, "object mapped at another offset", k);
        }
        end += b->objects[k].length;
        differ += k > 0 && b->objects[k].length != b->objects[k - 1].length;
    }
    if (b->count > 0 && end != b->size) {
        wrong(i, "end of the last object", end);
    }
    if (cases[i].unequal && b->count > 1 && differ == 0) {
        wrong(i, "unequal objects", differ);
    }
}

static void check_message(unsigned i, const struct zr_buffer *b, size_t length)
{
    size_t at = zr_buffer_place(b, length);

    if (at < 4096 || at + length > b->size - 4096) {
        wrong(i, "no room beside a message of", length);
    }
    if (b->count > 1 && length > 1 &&
        zr_buffer_object_at(b, at) == zr_buffer_object_at(b, at + length - 1)) {
        wrong(i, "no edge in a message of", length);
    }
    if (cases[i].offset != 0 && (b->count < 2 || length >= 2 * b->page) &&
        at % b->page != cases[i].offset) {
        wrong(i, "not at the offset in its page: a message of", length);
    }
}

int main(void)
{
    struct zr_ze            ze;
    struct zr_buffer        buffer;
    struct zr_bench_options options;
    char                    error[256];
    unsigned                i;
    size_t                  length;

    if (zr_ze_open(&ze, error, sizeof(error)) != 0) {
        printf("%s\n", error);
        return 77;
    }
    for (i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        options = (struct zr_bench_options){
            .min_size = 1, .max_size = cases[i].max_size,
            .objects = {cases[i].objects, cases[i].objects}, .unequal = cases[i].unequal,
            .map_offset = cases[i].map_offset, .offset_set = cases[i].offset != 0,
            .offset = cases[i].offset};
        if (zr_buffer_create(&ze, &options, 0, &buffer, error, sizeof(error)) != 0) {
            printf("case %u: %s\n", i, error);
            bad++;
            continue;
        }
        check_objects(i, &buffer);
        for (length = 1; length <= cases[i].max_size; length *= 2) {
            check_message(i, &buffer, length);
            if (length > 1) {
                check_message(i, &buffer, length - 1);
            }
        }
        check_message(i, &buffer, cases[i].max_size);
        zr_buffer_destroy(&buffer);
    }
    zr_ze_close(&ze);
    printf("%zu cases, %u wrong\n", sizeof(cases) / sizeof(cases[0]), bad);
    return bad != 0;
}
