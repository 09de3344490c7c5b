/* What the benchmarks share: two ranks, their buffers, the loop over sizes, validation, the table
 * in the format of the OSU benchmarks. */
/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef ZR_BENCH_H
#define ZR_BENCH_H

#include "device.h"

#include <mpi.h>

#define ZR_TAG_DATA 100
#define ZR_TAG_ACK 101
#define ZR_TAG_ERRORS 102

struct zr_bench;

struct zr_bench_spec {
    struct zr_bench_defaults defaults;
    const char              *title;    /* as in "zerange MPI <title> Test" */
    const char              *column;   /* of the table */
    const char              *csv;      /* the same without blanks */
    const char              *column2, *csv2; /* a second value, NULL: none */
    bool                     two_ways; /* both ranks send and receive */
    bool                     reversed; /* rank 1 sends, rank 0 receives */
    /* Around the life of the buffers, and when a size's messages have their places; may be NULL. */
    void (*attach)(struct zr_bench *bench);
    void (*detach)(struct zr_bench *bench);
    void (*prepare)(struct zr_bench *bench, size_t size);
    /* One iteration of the benchmark's pattern. */
    void (*transfer)(struct zr_bench *bench, size_t size);
    /* What the table shows; @a seconds for all @a iterations. */
    double (*value)(const struct zr_bench *bench, size_t size, double seconds,
                    unsigned iterations);
    double (*value2)(const struct zr_bench *bench, size_t size, double seconds,
                     unsigned iterations);
};

struct zr_bench {
    const struct zr_bench_spec *spec;
    struct zr_bench_options     options;
    MPI_Comm                    all;  /* everybody who takes part */
    MPI_Comm                    pair; /* two of them */
    int                         rank; /* in the pair */
    unsigned                    pairs;
    bool                        lead; /* prints */
    unsigned                    lines; /* printed so far */
    struct zr_ze                ze;
    unsigned                    buffers; /* of each kind */
    struct zr_buffer           *send, *recv; /* NULL where this rank has none */
    unsigned char             **send_at, **recv_at; /* where this size's messages begin */
    MPI_Request                *requests; /* two for each message of a window */
    unsigned                    engines;  /* of this rank's device, 0: not counted */
    uint64_t                    completed[ZR_ZE_MAX_ENGINES]; /* in transfers, by engine */
    MPI_Win                     window;  /* of the one-sided programs */
    MPI_Aint                    target;  /* where in it the message goes or is */
};

/* The whole program. @return its exit status: 0, 1 for a failure, 2 for a bad command line. */
int zr_bench_main(const struct zr_bench_spec *spec, int argc, char **argv);

/* ---- validation, in check.c ---- */

/* Before a size: fill the whole of every buffer with what nobody sends. */
void zr_check_begin(struct zr_bench *bench, size_t size);
/* Before an iteration: new bytes in the messages to send. */
void zr_check_refill(struct zr_bench *bench, size_t size, unsigned iteration);
/* After it: errors found in the messages received and right beside them. The first is told. */
int zr_check_received(struct zr_bench *bench, size_t size, unsigned iteration, bool tell);
/* After a size: everything but the received messages must be as it was. */
int zr_check_end(struct zr_bench *bench, size_t size, unsigned iteration, bool tell);

/* Say what went wrong on this rank and end all of them with status 1. */
_Noreturn void zr_bench_abort(const struct zr_bench *bench, const char *what);

#endif
