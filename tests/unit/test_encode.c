/* Copy-engine commands: exact dwords where a source outside gives them, and the bytes that the
 * rectangles cover for every alignment, read back by a decoder that knows only the field layout. */
/* SPDX-License-Identifier: BSD-3-Clause */
#include "blt/encode.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static unsigned bad;

#define CHECK(cond, ...)                                                                      \
    do {                                                                                      \
        if (!(cond)) {                                                                        \
            printf("%s:%d: not true: %s; ", __func__, __LINE__, #cond);                       \
            printf(__VA_ARGS__);                                                              \
            printf("\n");                                                                     \
            bad++;                                                                            \
        }                                                                                     \
    } while (0)

static const struct {
    enum zr_blt_gen gen;
    bool            discrete;
} devices[] = {{ZR_BLT_GEN12, false}, {ZR_BLT_GEN12, true}, {ZR_BLT_GEN125, true},
               {ZR_BLT_GEN125, false}, {ZR_BLT_PVC, true}};

/* ---- a decoder: addresses are pointers of this process ---- */

static void copy_rows(const uint8_t *src, uint8_t *dst, uint32_t width, uint32_t rows,
                      uint32_t pitch)
{
    uint32_t y;

    for (y = 0; y < rows; y++) {
        memmove(dst + (size_t)y * pitch, src + (size_t)y * pitch, width);
    }
}

static uint8_t *address_of(const uint32_t *dw)
{
    return (uint8_t *)(uintptr_t)(dw[0] | (uint64_t)dw[1] << 32);
}

static void run_color(const uint32_t *dw)
{
    static const unsigned bytes[] = {1, 2, 4, 8, 12, 16};
    unsigned              unit    = bytes[dw[0] >> 19 & 7];
    uint32_t              pitch = (dw[1] & 0x3ffff) + 1, width = dw[3] & 0xffff, rows = dw[3] >> 16;
    uint8_t              *dst = address_of(&dw[4]);
    uint32_t              x, y;

    CHECK((uintptr_t)dst % unit == 0, "unit %u", unit);
    CHECK(dw[2] == 0 && width >= 1 && width <= 16384 && rows >= 1 && rows <= 16384, "limits");
    for (y = 0; y < rows; y++) {
        for (x = 0; x < width; x++) {
            memcpy(dst + (size_t)y * pitch + x * unit, &dw[7], unit);
        }
    }
}

/* @return number of commands, or 0 at something unknown */
static unsigned run(const struct zr_blt_out *out)
{
    unsigned        at = 0, commands = 0, length;
    const uint32_t *dw;

    while (at < out->used) {
        dw     = out->dw + at;
        length = dw[0] == 0x04800000 ? 1 : (dw[0] & 0xff) + 2;
        switch (dw[0] & 0xffc00000) {
        case 0x56800000: /* MEM_COPY */
            CHECK((dw[1] & ~0x3ffffu) == 0 && (dw[2] & ~0x3ffffu) == 0, "reserved bits");
            CHECK((dw[0] & 1 << 17) || dw[2] == 0, "linear with rows");
            copy_rows(address_of(&dw[5]), address_of(&dw[7]), dw[1] + 1, dw[2] + 1, dw[3] + 1);
            break;
        case 0x50400000: /* XY_BLOCK_COPY_BLT */
            CHECK(dw[2] == 0 && dw[7] == 0, "origin");
            CHECK(length == 12 || dw[16] == (1u << 29 | ((dw[3] & 0xffff) - 1) << 14 |
                                             ((dw[3] >> 16) - 1)), "surface 0x%x", dw[16]);
            copy_rows(address_of(&dw[9]), address_of(&dw[4]), dw[3] & 0xffff, dw[3] >> 16,
                      (dw[1] & 0x3ffff) + 1);
            break;
        case 0x56c00000: { /* MEM_SET */
            uint32_t y;

            for (y = 0; y <= dw[2]; y++) {
                memset(address_of(&dw[4]) + (size_t)y * (dw[3] + 1), dw[6] >> 24, dw[1] + 1);
            }
            break;
        }
        case 0x51000000: /* XY_FAST_COLOR_BLT */
            run_color(dw);
            break;
        case 0x50800000: /* XY_FAST_COPY_BLT */
            CHECK((dw[1] & 0x0fffffff) == (4096 | 3 << 24) && dw[7] == 4096, "pitch, depth");
            CHECK(dw[2] == 0 && dw[6] == 0 && (dw[3] & 0xffff) == 1024 && dw[3] >> 16 < 32768,
                  "rectangle");
            CHECK(((dw[4] | dw[8]) & 63) == 0, "base not on a cache line");
            copy_rows(address_of(&dw[8]), address_of(&dw[4]), 4096, dw[3] >> 16, 4096);
            break;
        case 0x04800000: /* MI_MEM_FENCE */
        case 0x13000000: /* MI_FLUSH_DW */
            CHECK(length == 1 || (dw[0] == 0x13000003 && dw[1] == 0), "flush");
            break;
        default:
            CHECK(false, "unknown 0x%08x at %u", dw[0], at);
            return 0;
        }
        at += length;
        commands++;
    }
    return commands;
}

/* ---- the bytes ---- */

#define ARENA (5u << 20)
#define LIMIT (1u << 16)

static uint8_t  *source, *arena, *expected, *scratch;
static uint32_t *buffer;

static struct zr_blt_out new_out(unsigned size)
{
    return (struct zr_blt_out){.dw = buffer, .size = size, .scratch = (uintptr_t)scratch};
}

static void try_copy(const struct zr_blt_caps *caps, uint64_t length, unsigned dst_at,
                     unsigned src_at, bool system)
{
    struct zr_blt_out  out = new_out(LIMIT);
    struct zr_blt_side dst = {(uintptr_t)arena + 64 + dst_at, system};
    struct zr_blt_side src = {(uintptr_t)source + src_at, false};

    memset(arena, 0xee, ARENA);
    memset(expected, 0xee, ARENA);
    memcpy(expected + 64 + dst_at, source + src_at, length);
    CHECK(zr_blt_copy(caps, &out, dst, src, length), "%s: %llu", caps->name,
          (unsigned long long)length);
    CHECK(out.used <= zr_blt_copy_dwords(caps, length, system), "%s: %llu: %u dwords", caps->name,
          (unsigned long long)length, out.used);
    run(&out);
    CHECK(memcmp(arena, expected, ARENA) == 0, "%s: %llu bytes, +%u from +%u", caps->name,
          (unsigned long long)length, dst_at, src_at);
}

static void try_fill(const struct zr_blt_caps *caps, uint64_t length, unsigned at, unsigned size,
                     unsigned phase, bool flat)
{
    struct zr_blt_out  out = new_out(LIMIT);
    struct zr_blt_side dst = {(uintptr_t)arena + 64 + at, true};
    uint8_t            pattern[ZR_BLT_MAX_PATTERN];
    uint64_t           i;

    for (i = 0; i < size; i++) {
        pattern[i] = flat ? 0x5a : (uint8_t)(17 * i + 3);
    }
    memset(arena, 0xee, ARENA);
    memset(expected, 0xee, ARENA);
    for (i = 0; i < length; i++) {
        expected[64 + at + i] = pattern[(phase + i) % size];
    }
    CHECK(zr_blt_fill(caps, &out, dst, length, pattern, size, phase), "%s", caps->name);
    CHECK(out.used <= zr_blt_fill_dwords(caps, length, true, size), "%s: %llu by %u: %u dwords",
          caps->name, (unsigned long long)length, size, out.used);
    run(&out);
    CHECK(memcmp(arena, expected, ARENA) == 0, "%s: %llu bytes at +%u by %u phase %u", caps->name,
          (unsigned long long)length, at, size, phase);
}

static void test_bytes(const struct zr_blt_caps *caps)
{
    static const uint64_t lengths[] = {1, 2, 63, 300, 4096, 16383, 16384, 16385, 262144, 262145,
                                       300001, (4u << 20) + 4097};
    unsigned i, size, at;

    for (i = 0; i < ZR_ARRAY_SIZE(lengths); i++) {
        try_copy(caps, lengths[i], i * 7 % 61, i * 5 % 59, i & 1);
        for (size = 1; size <= ZR_BLT_MAX_PATTERN; size *= 2) {
            try_fill(caps, lengths[i], (i * 3 + size) % 61, size, (i * 5) % size, false);
        }
        try_fill(caps, lengths[i], i, 16, 0, true);
    }
    for (at = 0; at < 17; at++) {
        try_copy(caps, 300 + at, at, 16 - at, true);
        try_fill(caps, 100, at, 16, at, false);
        try_fill(caps, 5, at, 16, at, false);
    }
}

/* Longer than memory here: only the commands are looked at. */
static void test_long(const struct zr_blt_caps *caps)
{
    struct zr_blt_out  out  = new_out(LIMIT);
    struct zr_blt_side dst  = {UINT64_C(0xffff800000000001), true};
    struct zr_blt_side src  = {UINT64_C(0x100000003), false};
    uint64_t           length = (UINT64_C(5) << 30) + 12345;

    CHECK(zr_blt_copy(caps, &out, dst, src, length), "%s", caps->name);
    CHECK(out.used <= zr_blt_copy_dwords(caps, length, true), "%s: %u", caps->name, out.used);
    CHECK(out.used > 0 && out.used < LIMIT / 2, "%s: %u", caps->name, out.used);
}

/* ---- exact dwords ---- */

static void test_dwords(void)
{
    static const struct {
        enum zr_blt_gen gen;
        bool            discrete;
        uint32_t        dw[22];
        unsigned        count;
    } cases[] = {
        /* 300 bytes from 0x1_00000003 to 0xffff8000_00000001 (system memory) */
        {ZR_BLT_GEN12, false,
         {0x5040000a, 299 | 3 << 22, 0, 1 << 16 | 300, 1, 0xffff8000, 0x80000000, 0,
          299 | 3 << 22, 3, 1, 0},
         12},
        {ZR_BLT_GEN125, true,
         {0x50400014, 299 | 1 << 22, 0, 1 << 16 | 300, 1, 0xffff8000, 0x80000000, 0,
          299 | 1 << 22, 3, 1, 0, 0, 0, 0, 0, 0x20000000 | 299 << 14, 0, 0,
          0x20000000 | 299 << 14, 0, 0},
         22},
        {ZR_BLT_GEN125, false,
         {0x50400014, 299 | 5 << 22, 0, 1 << 16 | 300, 1, 0xffff8000, 0x80000000, 0,
          299 | 5 << 22, 3, 1, 0, 0, 0, 0, 0, 0x20000000 | 299 << 14, 0, 0,
          0x20000000 | 299 << 14, 0, 0},
         22},
        {ZR_BLT_PVC, true,
         {0x56800008, 299, 0, 299, 299, 3, 1, 1, 0xffff8000, 1 << 1 | 1 << 26},
         10},
    };
    struct zr_blt_side dst = {UINT64_C(0xffff800000000001), true};
    struct zr_blt_side src = {UINT64_C(0x100000003), false};
    unsigned           i, k;

    for (i = 0; i < ZR_ARRAY_SIZE(cases); i++) {
        const struct zr_blt_caps *caps = zr_blt_caps(cases[i].gen, cases[i].discrete);
        struct zr_blt_out         out  = new_out(LIMIT);

        CHECK(zr_blt_copy(caps, &out, dst, src, 300), "%s", caps->name);
        CHECK(out.used == cases[i].count, "%s: %u dwords", caps->name, out.used);
        for (k = 0; k < out.used; k++) {
            CHECK(buffer[k] == cases[i].dw[k], "%s dw%u: 0x%08x instead of 0x%08x", caps->name, k,
                  buffer[k], cases[i].dw[k]);
        }
    }
}

/* The form in which the kernel itself copies (gt/intel_migrate.c), with the memory types. */
static void test_fast_copy(void)
{
    static const uint32_t expect[] = {0x50800008, 4096 | 3 << 24 | 1 << 28, 0, 3 << 16 | 1024,
                                      0x40, 0xffff8000, 0, 4096, 0x80, 1};
    const struct zr_blt_caps *caps = zr_blt_caps(ZR_BLT_GEN125, true);
    struct zr_blt_side        dst  = {UINT64_C(0xffff800000000040), true};
    struct zr_blt_side        src  = {UINT64_C(0x100000080), false};
    struct zr_blt_out         out  = new_out(LIMIT);
    unsigned                  k;

    CHECK(zr_blt_copy(caps, &out, dst, src, 3 * 4096 + 5) && out.used == 10 + 22, "%u", out.used);
    for (k = 0; k < ZR_ARRAY_SIZE(expect); k++) {
        CHECK(buffer[k] == expect[k], "dw%u: 0x%08x instead of 0x%08x", k, buffer[k], expect[k]);
    }
    CHECK(buffer[10] == 0x50400014 && buffer[14] == 0x40 + 3 * 4096, "rest");
    out = new_out(LIMIT);
    dst.address += 32;
    CHECK(zr_blt_copy(caps, &out, dst, src, 3 * 4096) && buffer[0] == 0x50400014, "unaligned");
}

static void check_dwords(const char *what, const struct zr_blt_out *out, const uint32_t *expect,
                         unsigned count)
{
    unsigned k;

    CHECK(out->used == count, "%s: %u dwords", what, out->used);
    for (k = 0; k < count && k < out->used; k++) {
        CHECK(buffer[k] == expect[k], "%s dw%u: 0x%08x instead of 0x%08x", what, k, buffer[k],
              expect[k]);
    }
}

static void test_order_commands(void)
{
    static const uint32_t expect[] = {
        0x13000003, 0, 0, 0, 0,                                     /* flush */
        0x13004003, 0x1000, 0xffff8000, 0x9abcdef0, 0x12345678,     /* write */
        0x1300c003, 0x1008, 0, 0, 0,                                /* timestamp */
        0x0e00c002, 7, 0x2000, 1,                                   /* == */
        0x0e00d002, 7, 0x2000, 1,                                   /* != */
        0x0e009002, 7, 0x2000, 1,                                   /* >= */
        0x05000000,                                                 /* end, 28 dwords */
    };
    unsigned i;

    for (i = 0; i < ZR_ARRAY_SIZE(devices); i++) {
        const struct zr_blt_caps *caps = zr_blt_caps(devices[i].gen, devices[i].discrete);
        struct zr_blt_out         out  = new_out(LIMIT);

        zr_blt_flush(caps, &out);
        zr_blt_flush_write(caps, &out, UINT64_C(0xffff800000001000),
                           UINT64_C(0x123456789abcdef0));
        zr_blt_flush_timestamp(caps, &out, 0x1008);
        zr_blt_wait(&out, UINT64_C(0x100002000), 7, ZR_WAIT_EQUAL);
        zr_blt_wait(&out, UINT64_C(0x100002000), 7, ZR_WAIT_NOT_EQUAL);
        zr_blt_wait(&out, UINT64_C(0x100002000), 7, ZR_WAIT_GREATER_EQUAL);
        zr_blt_end(&out);
        CHECK(out.used % 2 == 0, "%u dwords", out.used);
        check_dwords(caps->name, &out, expect, ZR_ARRAY_SIZE(expect));
        out.used = 0;
        zr_blt_end(&out);
        CHECK(out.used == 2 && buffer[0] == 0x05000000 && buffer[1] == 0, "padding");
    }
}

/* A marker after copies: they are drained first, once, where the generation needs it. */
static void test_drain(void)
{
    static const struct {
        enum zr_blt_gen gen;
        bool            discrete;
        bool            first; /* engine */
        unsigned        count;
        uint32_t        dw[22];
    } cases[] = {
        {ZR_BLT_GEN12, false, true, 5, {0x13004003, 0x1000, 1, 9, 0}},
        {ZR_BLT_GEN12, true, true, 5, {0x13004003, 0x1000, 1, 9, 0}},
        {ZR_BLT_GEN125, true, true, 21,
         {0x5118000e, 4095 | 1 << 22, 0, 4 << 16 | 1, 0x7000, 0xffff8000, 1u << 31, 0, 0, 0, 0, 0,
          0, 0x20000003, 0, 0, 0x13004003, 0x1000, 1, 9, 0}},
        {ZR_BLT_GEN125, false, false, 21,
         {0x5118000e, 4095 | 5 << 22, 0, 4 << 16 | 1, 0x7000, 0xffff8000, 1u << 31, 0, 0, 0, 0, 0,
          0, 0x20000003, 0, 0, 0x13004003, 0x1000, 1, 9, 0}},
        {ZR_BLT_PVC, true, true, 22,
         {0x5118000e, 4095 | 1 << 22, 0, 4 << 16 | 1, 0x7000, 0xffff8000, 1u << 31, 0, 0, 0, 0, 0,
          0, 0x20000003, 0, 0, 0x04800000, 0x13004003, 0x1000, 1, 9, 0}},
        {ZR_BLT_PVC, true, false, 13,
         {0x56c00005, 32767, 0, 32767, 0x7000, 0xffff8000, 1 << 1, 0x04800000, 0x13004003, 0x1000,
          1, 9, 0}},
    };
    struct zr_blt_side side = {0x10000, true};
    unsigned           i, copies;

    for (i = 0; i < ZR_ARRAY_SIZE(cases); i++) {
        const struct zr_blt_caps *caps = zr_blt_caps(cases[i].gen, cases[i].discrete);
        struct zr_blt_out         out  = new_out(LIMIT);

        out.scratch = UINT64_C(0xffff800000007000);
        out.first   = cases[i].first;
        CHECK(zr_blt_copy(caps, &out, side, side, 100) && out.dirty, "%s", caps->name);
        copies   = out.used;
        out.used = 0;
        CHECK(zr_blt_flush_write(caps, &out, UINT64_C(0x100001000), 9), "%s", caps->name);
        check_dwords(caps->name, &out, cases[i].dw, cases[i].count);
        CHECK(out.used <= ZR_BLT_FLUSH_DWORDS && !out.dirty && copies > 0, "%s", caps->name);
        out.used = 0;
        CHECK(zr_blt_flush(caps, &out) && out.used == 5, "%s: drained twice", caps->name);
        CHECK(zr_blt_fill(caps, &out, side, 9, (const uint8_t *)"a", 1, 0) && out.dirty, "fill");
    }
}

/* A buffer too small is refused and left as it was. */
static void test_no_room(const struct zr_blt_caps *caps)
{
    struct zr_blt_side side = {0x10000, true};
    struct zr_blt_out  out;
    unsigned           size;

    for (size = 0; size < 9; size++) {
        out = new_out(size);
        CHECK(!zr_blt_copy(caps, &out, side, side, 100) && out.used == 0, "%s", caps->name);
    }
    out = new_out(40);
    CHECK(!zr_blt_fill(caps, &out, side, 1 << 20, (const uint8_t *)"abcd", 4, 0) ||
              out.used <= 40, "%s", caps->name);
    out = new_out(4);
    CHECK(!zr_blt_flush(caps, &out) && out.used == 0, "flush");
}

int main(void)
{
    unsigned i;

    source   = malloc(ARENA);
    arena    = aligned_alloc(4096, ARENA);
    expected = malloc(ARENA);
    scratch  = aligned_alloc(4096, ZR_BLT_SCRATCH);
    buffer   = malloc(LIMIT * sizeof(*buffer));
    for (i = 0; i < ARENA; i++) {
        source[i] = (uint8_t)(i * 2654435761u >> 13);
    }
    test_dwords();
    test_fast_copy();
    test_order_commands();
    test_drain();
    for (i = 0; i < ZR_ARRAY_SIZE(devices); i++) {
        const struct zr_blt_caps *caps = zr_blt_caps(devices[i].gen, devices[i].discrete);

        test_bytes(caps);
        test_long(caps);
        test_no_room(caps);
    }
    free(source);
    free(arena);
    free(expected);
    free(scratch);
    free(buffer);
    printf("%zu devices, %u wrong\n", ZR_ARRAY_SIZE(devices), bad);
    return bad != 0;
}
