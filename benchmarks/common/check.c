/* Validation: what a message holds depends on its rank, iteration, size and buffer; what is
 * beside it on the place alone, and must stay. */
/* SPDX-License-Identifier: BSD-3-Clause */
#include "bench.h"
#include "pattern.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define BESIDE 4096      /* bytes checked on each side of a message in every iteration */
#define REST_SEED 0x52455354u /* stands for the iteration in the seed of what is beside messages */

static unsigned char host_staging[ZR_ZE_STAGING], expected[ZR_ZE_STAGING];

/* Host memory that the buffer's device can copy from. */
static void *staging(const struct zr_buffer *b)
{
    return b->ze != NULL ? b->ze->staging : host_staging;
}

/* Which bytes a part of a buffer is to hold. */
struct bytes {
    enum { SENT, RECEIVED, REST } kind;
    size_t   size;
    unsigned iteration, buffer;
};

static void bytes_fill(const struct zr_bench *bench, const struct bytes *bytes, size_t place,
                       void *to, size_t length)
{
    const struct zr_bench_spec *spec   = bench->spec;
    int                         sender = bytes->kind == RECEIVED ? 1 - bench->rank : bench->rank;

    if (bytes->kind != REST && spec->fill != NULL) {
        spec->fill(bench, bytes->kind == RECEIVED, bytes->size, bytes->iteration, bytes->buffer,
                   place, to, length);
        return;
    }
    zr_pattern_fill(zr_pattern_seed((uint64_t)sender,
                                    bytes->kind == REST ? REST_SEED : bytes->iteration,
                                    bytes->size, bytes->buffer),
                    place, to, length);
}

static void write_bytes(struct zr_bench *bench, struct zr_buffer *b, size_t start, size_t length,
                        const struct bytes *bytes, size_t place)
{
    size_t n;

    for (; length > 0; start += n, place += n, length -= n) {
        n = length < ZR_ZE_STAGING ? length : ZR_ZE_STAGING;
        bytes_fill(bench, bytes, place, staging(b), n);
        if (zr_buffer_write(b, start, staging(b), n) != 0) {
            zr_bench_abort(bench, "cannot fill a buffer");
        }
    }
}

/* 0 if [start, start + length) of the buffer holds the bytes from place on, else 1. */
static int check_bytes(struct zr_bench *bench, struct zr_buffer *b, size_t start, size_t length,
                       const struct bytes *bytes, size_t place, const char *what, bool tell)
{
    size_t               begin = start, n, at;
    const unsigned char *got   = staging(b);

    for (; length > 0; start += n, place += n, length -= n) {
        n = length < ZR_ZE_STAGING ? length : ZR_ZE_STAGING;
        if (zr_buffer_read(b, start, staging(b), n) != 0) {
            zr_bench_abort(bench, "cannot read a buffer");
        }
        bytes_fill(bench, bytes, place, expected, n);
        if (memcmp(got, expected, n) == 0) {
            continue;
        }
        for (at = 0; got[at] == expected[at]; at++) {
        }
        if (tell) {
            fprintf(stderr,
                    "%s: DATA VALIDATION ERROR: rank %d, size %zu: %s differs first at byte %zu "
                    "of the buffer, in object %u (byte %zu from where this part begins): "
                    "expected 0x%02x, got 0x%02x\n",
                    bench->spec->defaults.program, bench->rank, bytes->size, what, start + at,
                    zr_buffer_object_at(b, start + at), start + at - begin, expected[at], got[at]);
        }
        return 1;
    }
    return 0;
}

static size_t at_of(const struct zr_buffer *b, const unsigned char *message)
{
    return (size_t)(message - b->base);
}

void zr_check_begin(struct zr_bench *bench, size_t size)
{
    struct bytes rest = {.kind = REST, .size = size};

    for (rest.buffer = 0; rest.buffer < bench->buffers; rest.buffer++) {
        if (bench->send != NULL) {
            write_bytes(bench, &bench->send[rest.buffer], 0, bench->send[rest.buffer].size, &rest,
                        0);
        }
        if (bench->recv != NULL) {
            write_bytes(bench, &bench->recv[rest.buffer], 0, bench->recv[rest.buffer].size, &rest,
                        0);
        }
    }
}

/* Only what is sent: the bytes received before are those of another iteration, hence wrong. */
void zr_check_refill(struct zr_bench *bench, size_t size, unsigned iteration)
{
    struct bytes sent = {.kind = SENT, .size = size, .iteration = iteration};
    unsigned     i;

    for (i = 0; bench->send != NULL && i < bench->buffers; i++) {
        sent.buffer = i;
        write_bytes(bench, &bench->send[i], at_of(&bench->send[i], bench->send_at[i]),
                    bench->send_size, &sent, 0);
    }
}

int zr_check_received(struct zr_bench *bench, size_t size, unsigned iteration, bool tell)
{
    struct bytes received = {.kind = RECEIVED, .size = size, .iteration = iteration};
    struct bytes rest     = {.kind = REST, .size = size};
    int          errors   = 0;
    unsigned     i;

    for (i = 0; bench->recv != NULL && i < bench->buffers; i++) {
        struct zr_buffer *b     = &bench->recv[i];
        size_t            at    = at_of(b, bench->recv_at[i]);
        size_t            end   = at + bench->recv_size;
        size_t            low   = at < BESIDE ? 0 : at - BESIDE;
        size_t            after = b->size - end < BESIDE ? b->size - end : BESIDE;

        received.buffer = rest.buffer = i;
        errors += check_bytes(bench, b, at, bench->recv_size, &received, 0, "the message",
                              tell && errors == 0);
        errors += check_bytes(bench, b, low, at - low, &rest, low, "memory before the message",
                              tell && errors == 0);
        errors += check_bytes(bench, b, end, after, &rest, end, "memory behind the message",
                              tell && errors == 0);
    }
    return errors;
}

static int check_rest(struct zr_bench *bench, struct zr_buffer *b, size_t at, size_t length,
                      const struct bytes *rest, const char *what, bool tell)
{
    return check_bytes(bench, b, 0, at, rest, 0, what, tell) ||
           check_bytes(bench, b, at + length, b->size - at - length, rest, at + length, what, tell);
}

int zr_check_end(struct zr_bench *bench, size_t size, unsigned iteration, bool tell)
{
    struct bytes sent   = {.kind = SENT, .size = size, .iteration = iteration};
    struct bytes rest   = {.kind = REST, .size = size};
    int          errors = 0;
    unsigned     i;

    for (i = 0; i < bench->buffers; i++) {
        sent.buffer = rest.buffer = i;
        if (bench->send != NULL) {
            struct zr_buffer *b  = &bench->send[i];
            size_t            at = at_of(b, bench->send_at[i]);

            errors += check_bytes(bench, b, at, bench->send_size, &sent, 0, "the message sent",
                                  tell && errors == 0);
            errors += check_rest(bench, b, at, bench->send_size, &rest,
                                 "memory beside the message sent", tell && errors == 0);
        }
        if (bench->recv != NULL) {
            struct zr_buffer *b  = &bench->recv[i];
            size_t            at = at_of(b, bench->recv_at[i]);

            errors += check_rest(bench, b, at, bench->recv_size, &rest,
                                 "memory beside the message received", tell && errors == 0);
        }
    }
    return errors;
}
