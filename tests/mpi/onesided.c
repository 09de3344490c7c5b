/* One-sided communication over windows in device memory and in ranges of many objects: put, get,
 * accumulate and get_accumulate under the three synchronisations. */
/* SPDX-License-Identifier: BSD-3-Clause */
#include <mpi.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <unistd.h>

#include "devmem.h"

#define WORDS 40000 /* of a part of the window; more than a page */

enum sync { FENCE, PSCW, LOCK, SYNCS };

static const char *const sync_names[SYNCS] = {"fence", "post-start-complete-wait", "lock"};

static int      rank, ranks, to, from;
static MPI_Win  window;
static uint32_t host[WORDS], seen[WORDS];
static long     cases, wrong;

static void begin(enum sync sync)
{
    MPI_Group all, before, after;

    switch (sync) {
    case FENCE:
        MPI_Win_fence(0, window);
        break;
    case PSCW:
        MPI_Comm_group(MPI_COMM_WORLD, &all);
        MPI_Group_incl(all, 1, &from, &before);
        MPI_Group_incl(all, 1, &to, &after);
        MPI_Win_post(before, 0, window);
        MPI_Win_start(after, 0, window);
        MPI_Group_free(&all);
        MPI_Group_free(&before);
        MPI_Group_free(&after);
        break;
    default:
        MPI_Barrier(MPI_COMM_WORLD);
        MPI_Win_lock(MPI_LOCK_EXCLUSIVE, to, 0, window);
    }
}

static void end(enum sync sync)
{
    switch (sync) {
    case FENCE:
        MPI_Win_fence(0, window);
        break;
    case PSCW:
        MPI_Win_complete(window);
        MPI_Win_wait(window);
        break;
    default:
        MPI_Win_unlock(to, window);
        MPI_Barrier(MPI_COMM_WORLD);
    }
}

static uint32_t word(int of, size_t k)
{
    return (uint32_t)k * 2654435761u + (uint32_t)of * 97;
}

static void set(void *memory, int of)
{
    size_t k;

    for (k = 0; k < WORDS; k++) {
        host[k] = word(of, k);
    }
    devmem_copy(memory, host, sizeof(host));
}

typedef uint32_t expect_fn(size_t k);
static uint32_t  of_from(size_t k) { return word(from, k); }
static uint32_t  of_to(size_t k) { return word(to + 100, k); }
static uint32_t  summed(size_t k) { return word(rank + 100, k) + word(from, k); }

static void check(const char *what, enum sync sync, const char *kind, const void *memory,
                  expect_fn *expect, size_t words)
{
    size_t k;
    int    bad = 0, sum;

    devmem_copy(seen, memory, words * sizeof(seen[0]));
    for (k = 0; k < words; k++) {
        bad += seen[k] != expect(k);
    }
    MPI_Allreduce(&bad, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
    cases++;
    wrong += sum != 0;
    if (rank == 0) {
        printf("case: %s, %s, %s: %s\n", what, sync_names[sync], kind, sum == 0 ? "right" : "WRONG");
        fflush(stdout);
    }
}

static void all(const char *kind, void *exposed, void *origin, void *result, enum sync sync)
{
    /* Each rank's window starts as word(rank + 100), its origin as word(rank). */
    set(exposed, rank + 100);
    set(origin, rank);
    begin(sync);
    MPI_Put(origin, WORDS, MPI_UINT32_T, to, 0, WORDS, MPI_UINT32_T, window);
    end(sync);
    check("put", sync, kind, exposed, of_from, WORDS);

    set(exposed, rank + 100);
    begin(sync);
    MPI_Get(result, WORDS, MPI_UINT32_T, to, 0, WORDS, MPI_UINT32_T, window);
    end(sync);
    check("get", sync, kind, result, of_to, WORDS);

    begin(sync);
    MPI_Accumulate(origin, WORDS, MPI_UINT32_T, to, 0, WORDS, MPI_UINT32_T, MPI_SUM, window);
    end(sync);
    check("accumulate", sync, kind, exposed, summed, WORDS);

    set(exposed, rank + 100);
    begin(sync);
    MPI_Get_accumulate(origin, WORDS, MPI_UINT32_T, result, WORDS, MPI_UINT32_T, to, 0, WORDS,
                       MPI_UINT32_T, MPI_SUM, window);
    end(sync);
    check("get_accumulate, window", sync, kind, exposed, summed, WORDS);
    check("get_accumulate, result", sync, kind, result, of_to, WORDS);
}

int main(int argc, char **argv)
{
    static const struct {
        enum place  exposed, origin;
        const char *name;
    } kinds[] = {{DEVICE, DEVICE, "device to device"},
                 {RANGE, RANGE, "range to range"},
                 {RANGE, HOST, "host to range"},
                 {HOST, RANGE, "range to host"}};
    size_t k;
    int    sync;

    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    to   = (rank + 1) % ranks;
    from = (rank + ranks - 1) % ranks;
    devmem_open();
    for (k = 0; k < sizeof(kinds) / sizeof(kinds[0]); k++) {
        void *exposed = devmem_alloc(kinds[k].exposed, sizeof(host));
        void *origin  = devmem_alloc(kinds[k].origin, sizeof(host));
        void *result  = devmem_alloc(kinds[k].origin, sizeof(host));

        MPI_Win_create(exposed, sizeof(host), sizeof(uint32_t), MPI_INFO_NULL, MPI_COMM_WORLD,
                       &window);
        for (sync = 0; sync < SYNCS; sync++) {
            all(kinds[k].name, exposed, origin, result, (enum sync)sync);
        }
        MPI_Win_free(&window);
    }
    {
        void *exposed, *origin = devmem_alloc(RANGE, sizeof(host));
        void *result = devmem_alloc(RANGE, sizeof(host));

        MPI_Win_allocate(sizeof(host), sizeof(uint32_t), MPI_INFO_NULL, MPI_COMM_WORLD, &exposed,
                         &window);
        for (sync = 0; sync < SYNCS; sync++) {
            all("range to MPI_Win_allocate", exposed, origin, result, (enum sync)sync);
        }
        MPI_Win_free(&window);
    }
    if (rank == 0) {
        printf("case: one-sided, %d ranks: %ld cases, %ld wrong\n", ranks, cases, wrong);
    }
    MPI_Finalize();
    return wrong != 0;
}
