/* How the engines move bytes: through the cache, or past it with streaming stores where the set of
 * batches is too large to find its bytes there again.
 *
 * The rule. A set streams if what it copies is at least a quarter of the last-level cache: source
 * and destination would take half of it and push out what everybody else keeps there, and a store
 * through the cache first reads the line it overwrites. Below that a cached copy wins by far, since
 * the reader finds the bytes in the cache. What counts is the whole set and not one command: a
 * copy of 64 MiB between ranges of 16,384 objects is made of commands of 4 KiB. */
/* SPDX-License-Identifier: BSD-3-Clause */
#include "soft.h"

#include <string.h>
#include <unistd.h>

#ifdef __SSE2__
#include <emmintrin.h>
#endif

#define ZR_SOFT_STREAM_DEFAULT (8 * ZR_MIB) /* where the size of the cache is not known */
#define ZR_SOFT_STREAM_SHORT   1024         /* a piece so short is not worth a fence */
#define ZR_SOFT_LINE           64u
#define ZR_SOFT_LOOK           256 /* commands: if they copy no more than that, it is not much */

uint64_t zr_soft_stream_bytes(void)
{
    long cache = sysconf(_SC_LEVEL3_CACHE_SIZE);

    return cache >= (long)ZR_MIB ? (uint64_t)cache / 4 : ZR_SOFT_STREAM_DEFAULT;
}

/* ---- how much a set copies ---- */

/* Dwords of a command, and the bytes it copies; 0: what follows cannot be told from here. */
static unsigned zr_soft_peek(const uint32_t *dw, uint64_t available, uint64_t *bytes)
{
    unsigned length = (dw[0] & 0xff) + 2;

    if (dw[0] >> 29 == 0) { /* MI: those below 0x10 are one dword; an end or a jump ends the look */
        unsigned opcode = dw[0] >> 23 & 0x3f;

        if (opcode == 0x0a || opcode == 0x31) {
            return 0;
        }
        return opcode < 0x10 ? 1 : (dw[0] & 0x3f) + 2;
    }
    if (dw[0] >> 29 != 2 || available < 4 * length || length < 10) {
        return dw[0] >> 29 == 2 ? length : 0;
    }
    switch (dw[0] & 0xffc00000u) {
    case 0x56800000u: /* MEM_COPY */
        *bytes += ((uint64_t)dw[1] + 1) * (dw[0] & (1u << 17) ? (uint64_t)dw[2] + 1 : 1);
        break;
    case 0x50400000u: /* XY_BLOCK_COPY_BLT: rows of the rectangle by pitch */
        *bytes += (uint64_t)((dw[3] >> 16) - (dw[2] >> 16)) * ((dw[1] & 0x3ffff) + 1);
        break;
    case 0x50800000u: /* XY_FAST_COPY_BLT */
        *bytes += (uint64_t)((dw[3] >> 16) - (dw[2] >> 16)) * (dw[1] & 0xffff);
        break;
    }
    return length;
}

/* What a batch copies, as far as it can be told before it runs. */
static uint64_t zr_soft_batch_bytes(struct zr_soft_batch *batch, uint64_t enough)
{
    uint64_t       bytes = 0, available = 0;
    const uint8_t *cpu   = zr_soft_resolve(batch, ZR_SOFT_PORT_COMMAND, batch->start, &available);
    unsigned       dwords, look;

    for (look = 0; cpu != NULL && look < ZR_SOFT_LOOK && available >= 4 && bytes < enough; look++) {
        dwords = zr_soft_peek((const uint32_t *)cpu, available, &bytes);
        if (dwords == 0 || available < dwords * 4) {
            break;
        }
        cpu += dwords * 4;
        available -= dwords * 4;
    }
    return bytes;
}

/* A guess that is wrong costs time, never a byte. */
static bool zr_soft_set_copies(struct zr_soft_req *req, uint64_t enough)
{
    uint64_t bytes = 0;
    unsigned row;

    for (row = 0; row < req->width && bytes < enough; row++) {
        bytes += zr_soft_batch_bytes(&req->batch[row], enough - bytes);
    }
    return bytes >= enough;
}

void zr_soft_req_choose_copy(struct zr_soft_req *req, uint64_t objects_bytes)
{
    uint64_t limit = req->ctx->dev->stream_bytes;

    req->stream = req->slot->class == I915_ENGINE_CLASS_COPY && objects_bytes >= 2 * limit &&
                  zr_soft_set_copies(req, limit);
}

/* ---- moving bytes ---- */

#ifdef __SSE2__
/* @a to begins with a line. The fence: what signals the end must not overtake the bytes. */
static void zr_soft_stream_lines(uint8_t *to, const uint8_t *from, uint64_t lines)
{
    for (; lines > 0; lines--, to += ZR_SOFT_LINE, from += ZR_SOFT_LINE) {
        __m128i a = _mm_loadu_si128((const __m128i *)from);
        __m128i b = _mm_loadu_si128((const __m128i *)(from + 16));
        __m128i c = _mm_loadu_si128((const __m128i *)(from + 32));
        __m128i d = _mm_loadu_si128((const __m128i *)(from + 48));

        _mm_stream_si128((__m128i *)to, a);
        _mm_stream_si128((__m128i *)(to + 16), b);
        _mm_stream_si128((__m128i *)(to + 32), c);
        _mm_stream_si128((__m128i *)(to + 48), d);
    }
    _mm_sfence();
}
#else
static void zr_soft_stream_lines(uint8_t *to, const uint8_t *from, uint64_t lines)
{
    memcpy(to, from, lines * ZR_SOFT_LINE);
}
#endif

void zr_soft_copy(uint8_t *to, const uint8_t *from, uint64_t length, bool stream)
{
    uint64_t head = -(uintptr_t)to & (ZR_SOFT_LINE - 1), lines;

    if (!stream || length < ZR_SOFT_STREAM_SHORT || (to < from + length && from < to + length)) {
        memmove(to, from, length);
        return;
    }
    memcpy(to, from, head);
    lines = (length - head) / ZR_SOFT_LINE;
    zr_soft_stream_lines(to + head, from + head, lines);
    head += lines * ZR_SOFT_LINE;
    memcpy(to + head, from + head, length - head);
}
