/* Validation: what a message holds depends on its rank, iteration, size and buffer; what is
 * beside it on the place alone, and must stay. */
/* SPDX-License-Identifier: BSD-3-Clause */
#include "bench.h"
#include "pattern.h"

#include <stdio.h>
#include <stdlib.h>

#define BESIDE 4096      /* bytes checked on each side of a message in every iteration */
#define REST 0x52455354u /* stands for the iteration in the seed of what is beside messages */

static unsigned char host_staging[ZR_ZE_STAGING];

/* Host memory that the buffer's device can copy from. */
static void *staging(const struct zr_buffer *b)
{
    return b->ze != NULL ? b->ze->staging : host_staging;
}

static void write_pattern(struct zr_bench *bench, struct zr_buffer *b, size_t start, size_t length,
                          uint64_t seed, uint64_t place)
{
    size_t n;

    for (; length > 0; start += n, place += n, length -= n) {
        n = length < ZR_ZE_STAGING ? length : ZR_ZE_STAGING;
        zr_pattern_fill(seed, place, staging(b), n);
        if (zr_buffer_write(b, start, staging(b), n) != 0) {
            zr_bench_abort(bench, "cannot fill a buffer");
        }
    }
}

/* 0 if [start, start + length) of the buffer holds the pattern, else 1. */
static int check_pattern(struct zr_bench *bench, struct zr_buffer *b, size_t start, size_t length,
                         uint64_t seed, uint64_t place, size_t size, const char *what, bool tell)
{
    size_t begin = start, n, at;

    for (; length > 0; start += n, place += n, length -= n) {
        n = length < ZR_ZE_STAGING ? length : ZR_ZE_STAGING;
        if (zr_buffer_read(b, start, staging(b), n) != 0) {
            zr_bench_abort(bench, "cannot read a buffer");
        }
        at = zr_pattern_check(seed, place, staging(b), n);
        if (at == n) {
            continue;
        }
        if (tell) {
            fprintf(stderr,
                    "%s: DATA VALIDATION ERROR: rank %d, size %zu: %s differs first at byte %zu "
                    "of the buffer, in object %u (byte %zu from where this part begins): "
                    "expected 0x%02x, got 0x%02x\n",
                    bench->spec->defaults.program, bench->rank, size, what, start + at,
                    zr_buffer_object_at(b, start + at), start + at - begin,
                    zr_pattern_byte(seed, place + at), ((unsigned char *)staging(b))[at]);
        }
        return 1;
    }
    return 0;
}

static uint64_t rest_seed(const struct zr_bench *bench, size_t size, unsigned buffer)
{
    return zr_pattern_seed((uint64_t)bench->rank, REST, size, buffer);
}

static uint64_t message_seed(int sender, unsigned iteration, size_t size, unsigned buffer)
{
    return zr_pattern_seed((uint64_t)sender, iteration, size, buffer);
}

static size_t at_of(const struct zr_buffer *b, const unsigned char *message)
{
    return (size_t)(message - b->base);
}

void zr_check_begin(struct zr_bench *bench, size_t size)
{
    unsigned i;

    for (i = 0; i < bench->buffers; i++) {
        if (bench->send != NULL) {
            write_pattern(bench, &bench->send[i], 0, bench->send[i].size,
                          rest_seed(bench, size, i), 0);
        }
        if (bench->recv != NULL) {
            write_pattern(bench, &bench->recv[i], 0, bench->recv[i].size,
                          rest_seed(bench, size, i), 0);
        }
    }
}

/* Only what is sent: the bytes received before are those of another iteration, hence wrong. */
void zr_check_refill(struct zr_bench *bench, size_t size, unsigned iteration)
{
    unsigned i;

    for (i = 0; bench->send != NULL && i < bench->buffers; i++) {
        write_pattern(bench, &bench->send[i], at_of(&bench->send[i], bench->send_at[i]), size,
                      message_seed(bench->rank, iteration, size, i), 0);
    }
}

int zr_check_received(struct zr_bench *bench, size_t size, unsigned iteration, bool tell)
{
    int      errors = 0;
    unsigned i;

    for (i = 0; bench->recv != NULL && i < bench->buffers; i++) {
        struct zr_buffer *b   = &bench->recv[i];
        size_t            at  = at_of(b, bench->recv_at[i]);
        size_t            end = at + size;
        size_t            low = at < BESIDE ? 0 : at - BESIDE;
        size_t            after = b->size - end < BESIDE ? b->size - end : BESIDE;
        uint64_t          rest = rest_seed(bench, size, i);

        errors += check_pattern(bench, b, at, size,
                                message_seed(1 - bench->rank, iteration, size, i), 0, size,
                                "the message", tell && errors == 0);
        errors += check_pattern(bench, b, low, at - low, rest, low, size,
                                "memory before the message", tell && errors == 0);
        errors += check_pattern(bench, b, end, after, rest, end, size,
                                "memory behind the message", tell && errors == 0);
    }
    return errors;
}

static int check_rest(struct zr_bench *bench, struct zr_buffer *b, size_t at, size_t size,
                      unsigned i, const char *what, bool tell)
{
    uint64_t seed = rest_seed(bench, size, i);

    return check_pattern(bench, b, 0, at, seed, 0, size, what, tell) ||
           check_pattern(bench, b, at + size, b->size - at - size, seed, at + size, size, what,
                         tell);
}

int zr_check_end(struct zr_bench *bench, size_t size, unsigned iteration, bool tell)
{
    int      errors = 0;
    unsigned i;

    for (i = 0; i < bench->buffers; i++) {
        if (bench->send != NULL) {
            struct zr_buffer *b  = &bench->send[i];
            size_t            at = at_of(b, bench->send_at[i]);

            errors += check_pattern(bench, b, at, size,
                                    message_seed(bench->rank, iteration, size, i), 0, size,
                                    "the message sent", tell && errors == 0);
            errors += check_rest(bench, b, at, size, i, "memory beside the message sent",
                                 tell && errors == 0);
        }
        if (bench->recv != NULL) {
            struct zr_buffer *b  = &bench->recv[i];
            size_t            at = at_of(b, bench->recv_at[i]);

            errors += check_rest(bench, b, at, size, i, "memory beside the message received",
                                 tell && errors == 0);
        }
    }
    return errors;
}
