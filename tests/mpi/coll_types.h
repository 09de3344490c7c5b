/* What the collectives' tests move and reduce: types, operations, and values whose sums and products
 * are exact, so that a result does not depend on the order of operations. */
/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef ZR_TEST_COLL_TYPES_H
#define ZR_TEST_COLL_TYPES_H

#include <mpi.h>
#include <complex.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>

enum { MOVED = 1, REDUCED = 2, BASE = 4, LONG = 8 }; /* BASE: in every form, in place too */

/* Puts an element's value at at; NULL: whatever bits are there. */
typedef void put_t(char *at, uint32_t v);

#define PUT(name, type, value)                                                                     \
    static void name(char *at, uint32_t v)                                                         \
    {                                                                                              \
        type x;                                                                                    \
        memset(&x, 0, sizeof(x));                                                                  \
        x = (value);                                                                               \
        memcpy(at, &x, sizeof(x));                                                                 \
    }

PUT(put_float, float, (float)(v % 64))
PUT(put_double, double, (double)(v % 64))
PUT(put_long_double, long double, (long double)(v % 64))
PUT(put_complex, double complex, (double)(v % 64) + (double)(v % 13) * I)
/* Gaussian primes: a product of 8 is exact and has no zero, whose sign the order would decide. */
PUT(put_prime, float complex,
    v % 4 == 0 ? 2 + I : v % 4 == 1 ? 3 + 2 * I : v % 4 == 2 ? 4 + I : 5 + 2 * I)
PUT(put_bool, bool, v % 3 != 0)
PUT(put_logical, int, v % 3 != 0)

/* (value, place) pairs, as MPI lays them out. */
#define PAIR(name, type)                                                                           \
    static void name(char *at, uint32_t v)                                                         \
    {                                                                                              \
        struct {                                                                                   \
            type value;                                                                            \
            int  place;                                                                            \
        } x;                                                                                       \
        memcpy(&x, at, sizeof(x));                                                                 \
        memset(&x.value, 0, sizeof(x.value));                                                      \
        x.value = (type)(v % 8);                                                                   \
        x.place = (int)(v % 1000);                                                                 \
        memcpy(at, &x, sizeof(x));                                                                 \
    }

PAIR(put_int_int, int)
PAIR(put_short_int, short)
PAIR(put_long_int, long)
PAIR(put_float_int, float)
PAIR(put_double_int, double)
PAIR(put_long_double_int, long double)

/* Words of a derived type's element, in its own order. */
struct words {
    int count, at[4];
};

static const struct words one_word = {1, {0}}, *words_in_use;

/* a * 3 + b: not commutative, and not associative either, so that another order shows. */
static void op_ordered(void *in, void *inout, int *count, MPI_Datatype *type)
{
    uint32_t *a = in, *b = inout;
    MPI_Aint  lb, extent;
    int       i, k, at;

    MPI_Type_get_extent(*type, &lb, &extent);
    for (i = 0; i < *count; i++) {
        for (k = 0; k < words_in_use->count; k++) {
            at    = words_in_use->at[k];
            b[at] = a[at] * 3 + b[at];
        }
        a += extent / 4;
        b += extent / 4;
    }
}

static void op_commutes(void *in, void *inout, int *count, MPI_Datatype *type)
{
    uint32_t *a = in, *b = inout;
    int       i;

    (void)type;
    for (i = 0; i < *count; i++) {
        b[i] = (a[i] ^ 0x5a5a5a5a) ^ (b[i] ^ 0x5a5a5a5a) ^ 0x5a5a5a5a;
    }
}

/* The letter stands for the type in the report's table. */
struct operand {
    const char         *name;
    char                letter;
    unsigned            flags;
    put_t              *put;
    const struct words *words;
    MPI_Datatype        type;
    MPI_Op              op;
};

static const struct words vector_words = {3, {0, 2, 4}}, indexed_words = {3, {1, 2, 5}},
                          struct_words = {3, {0, 1, 3}}, subarray_words = {4, {5, 6, 9, 10}};

static struct operand operands[64];
static int            operand_count;

static void add(const char *name, char letter, unsigned flags, MPI_Datatype type, MPI_Op op,
                put_t *put, const struct words *words)
{
    int size = 0;

    MPI_Type_size(type, &size);
    if (size > 0) { /* a build without Fortran has no LOGICAL */
        operands[operand_count++] = (struct operand){name, letter, flags, put,
                                                     words != NULL ? words : &one_word, type, op};
    }
}

static void add_derived(const char *name, char letter, const struct words *words, MPI_Datatype type,
                        MPI_Op ordered)
{
    MPI_Type_commit(&type);
    add(name, letter, MOVED | BASE, type, MPI_OP_NULL, NULL, words);
    add(name, letter, REDUCED | (words == &vector_words ? BASE : 0), type, ordered, NULL, words);
}

static void add_moved_and_derived(MPI_Op ordered)
{
    int          lengths[] = {2, 1}, places[] = {1, 5}, sizes[] = {4, 4}, part[] = {2, 2}, at[] = {1, 1};
    MPI_Aint     where[]  = {0, 12};
    MPI_Datatype inside[] = {MPI_INT, MPI_FLOAT}, type;

    add("int", 'i', MOVED | BASE | LONG, MPI_INT, MPI_OP_NULL, NULL, NULL);
    add("double", 'd', MOVED | BASE, MPI_DOUBLE, MPI_OP_NULL, NULL, NULL);
    add("byte", 'b', MOVED, MPI_BYTE, MPI_OP_NULL, NULL, NULL);
    add("complex", 'z', MOVED, MPI_C_DOUBLE_COMPLEX, MPI_OP_NULL, NULL, NULL);
    add("short_int", 'p', MOVED, MPI_SHORT_INT, MPI_OP_NULL, NULL, NULL);
    MPI_Type_vector(3, 1, 2, MPI_INT, &type);
    add_derived("vector", 'v', &vector_words, type, ordered);
    MPI_Type_indexed(2, lengths, places, MPI_INT, &type);
    add_derived("indexed", 'x', &indexed_words, type, ordered);
    MPI_Type_create_struct(2, lengths, where, inside, &type);
    add_derived("struct", 's', &struct_words, type, ordered);
    MPI_Type_create_subarray(2, sizes, part, at, MPI_ORDER_C, MPI_INT, &type);
    add_derived("subarray", 'a', &subarray_words, type, ordered);
}

static void add_reduced(MPI_Op ordered, MPI_Op commutes)
{
    add("double sum", 'd', REDUCED | BASE | LONG, MPI_DOUBLE, MPI_SUM, put_double, NULL);
    add("int bxor", 'i', REDUCED | BASE, MPI_INT, MPI_BXOR, NULL, NULL);
    add("float max", 'f', REDUCED | BASE, MPI_FLOAT, MPI_MAX, put_float, NULL);
    add("int user", 'i', REDUCED | BASE, MPI_INT, ordered, NULL, NULL);
    add("int user, commutative", 'i', REDUCED, MPI_INT, commutes, NULL, NULL);
    add("int sum", 'i', REDUCED, MPI_INT, MPI_SUM, NULL, NULL);
    add("int64 min", 'n', REDUCED, MPI_INT64_T, MPI_MIN, NULL, NULL);
    add("signed char max", 'n', REDUCED, MPI_SIGNED_CHAR, MPI_MAX, NULL, NULL);
    add("uint32 prod", 'n', REDUCED, MPI_UINT32_T, MPI_PROD, NULL, NULL);
    add("uint16 band", 'n', REDUCED, MPI_UINT16_T, MPI_BAND, NULL, NULL);
    add("uint64 bxor", 'n', REDUCED, MPI_UINT64_T, MPI_BXOR, NULL, NULL);
    add("int lor", 'i', REDUCED, MPI_INT, MPI_LOR, put_logical, NULL);
    add("byte bor", 'b', REDUCED, MPI_BYTE, MPI_BOR, NULL, NULL);
    add("long double sum", 'n', REDUCED, MPI_LONG_DOUBLE, MPI_SUM, put_long_double, NULL);
    add("complex sum", 'z', REDUCED, MPI_C_DOUBLE_COMPLEX, MPI_SUM, put_complex, NULL);
    add("float complex prod", 'z', REDUCED, MPI_C_FLOAT_COMPLEX, MPI_PROD, put_prime, NULL);
    add("bool land", 'l', REDUCED, MPI_C_BOOL, MPI_LAND, put_bool, NULL);
    add("bool lxor", 'l', REDUCED, MPI_C_BOOL, MPI_LXOR, put_bool, NULL);
    add("logical lor", 'l', REDUCED, MPI_LOGICAL, MPI_LOR, put_logical, NULL);
    add("2int maxloc", 'p', REDUCED, MPI_2INT, MPI_MAXLOC, put_int_int, NULL);
    add("short_int minloc", 'p', REDUCED, MPI_SHORT_INT, MPI_MINLOC, put_short_int, NULL);
    add("long_int maxloc", 'p', REDUCED, MPI_LONG_INT, MPI_MAXLOC, put_long_int, NULL);
    add("float_int minloc", 'p', REDUCED, MPI_FLOAT_INT, MPI_MINLOC, put_float_int, NULL);
    add("double_int maxloc", 'p', REDUCED, MPI_DOUBLE_INT, MPI_MAXLOC, put_double_int, NULL);
    add("long_double_int minloc", 'p', REDUCED, MPI_LONG_DOUBLE_INT, MPI_MINLOC,
        put_long_double_int, NULL);
}

static void make_operands(void)
{
    MPI_Op ordered, commutes;

    MPI_Op_create(op_ordered, 0, &ordered);
    MPI_Op_create(op_commutes, 1, &commutes);
    add_moved_and_derived(ordered);
    add_reduced(ordered, commutes);
}

#endif
