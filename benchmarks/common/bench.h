/* What the benchmarks share: two ranks or all of them, their buffers, the loop over sizes,
 * validation, the table in the format of the OSU benchmarks. */
/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef ZR_BENCH_H
#define ZR_BENCH_H

#include "device.h"

#include <mpi.h>

#define ZR_TAG_DATA 100
#define ZR_TAG_ACK 101
#define ZR_TAG_ERRORS 102

#define ZR_BENCH_COLUMNS 3

struct zr_bench;

/* What the table shows of a size; @a seconds for all @a iterations. */
struct zr_bench_column {
    const char *title; /* NULL: no such column */
    const char *csv;   /* the same without blanks */
    double (*value)(const struct zr_bench *bench, size_t size, double seconds,
                    unsigned iterations);
};

struct zr_bench_spec {
    struct zr_bench_defaults defaults;
    const char              *title;    /* as in "zerange MPI <title> Test" */
    const char              *datatype; /* NULL: MPI_CHAR */
    struct zr_bench_column   columns[ZR_BENCH_COLUMNS];
    bool                     two_ways; /* both ranks send and receive */
    bool                     reversed; /* rank 1 sends, rank 0 receives */
    /* Around the life of the buffers, and when a size's messages have their places; may be NULL. */
    void (*attach)(struct zr_bench *bench);
    void (*detach)(struct zr_bench *bench);
    void (*prepare)(struct zr_bench *bench, size_t size);
    /* One iteration of the benchmark's pattern. */
    void (*transfer)(struct zr_bench *bench, size_t size);
    /* Collectives: bytes of this rank's send buffer, or of its receive buffer, for a size; 0: it has
     * none. NULL: the size where the rank sends or receives. */
    size_t (*extent)(const struct zr_bench *bench, bool receiving, size_t size);
    /* Bytes [place, place + length) of what this rank sends, or has to have received, in an
     * iteration. NULL: the pattern of the rank that sends. */
    void (*fill)(const struct zr_bench *bench, bool receiving, size_t size, unsigned iteration,
                 unsigned buffer, size_t place, void *to, size_t length);
};

struct zr_bench {
    const struct zr_bench_spec *spec;
    struct zr_bench_options     options;
    MPI_Comm                    all;  /* everybody who takes part */
    MPI_Comm                    pair; /* two of them; all, of a collective */
    int                         rank; /* in the pair */
    int                         ranks; /* in it */
    unsigned                    pairs;
    bool                        lead; /* prints */
    unsigned                    lines; /* printed so far */
    struct zr_ze                ze;
    unsigned                    buffers; /* of each kind */
    struct zr_buffer           *send, *recv; /* NULL where this rank has none */
    unsigned char             **send_at, **recv_at; /* where this size's messages begin */
    size_t                      send_size, recv_size; /* their bytes */
    double                      average, least; /* seconds of a rank for all iterations of a size */
    MPI_Request                *requests; /* two for each message of a window */
    unsigned                    engines;  /* of this rank's device, 0: not counted */
    uint64_t                    completed[ZR_ZE_MAX_ENGINES]; /* in transfers, by engine */
    MPI_Win                     window;  /* of the one-sided programs */
    MPI_Aint                    target;  /* where in it the message goes or is */
};

/* The whole program. @return its exit status: 0, 1 for a failure, 2 for a bad command line. */
int zr_bench_main(const struct zr_bench_spec *spec, int argc, char **argv);

/* Bytes of this rank's send or receive buffer for a size; 0: it has none. */
size_t zr_bench_extent(const struct zr_bench *bench, bool receiving, size_t size);

/* ---- the table, in report.c ---- */

void zr_report_header(const struct zr_bench *bench);
void zr_report_line(struct zr_bench *bench, size_t size, double seconds, unsigned iterations,
                    int errors);
/* On a terminal, what is being measured; 0: nothing any more. */
void zr_report_progress(const struct zr_bench *bench, size_t size);

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
