/* One-sided communication with device memory and ranges of many objects at either end: each operation
 * under each synchronisation leaves the bytes that the same run leaves on host memory, and the atomic
 * ones count exactly when all ranks meet at one word. */
/* SPDX-License-Identifier: BSD-3-Clause */
#include <mpi.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <unistd.h>

#include "devmem.h"

#define WORDS 40000 /* of a part of the window; more than two pages */
#define BYTES (WORDS * sizeof(uint32_t))

enum sync { FENCE, PSCW, LOCK, LOCK_ALL, SYNCS };

static const char *const sync_names[SYNCS] = {"fence", "post-start-complete-wait", "lock",
                                              "lock_all and flush"};

/* How a window comes to its memory. */
enum made { CREATE, ALLOCATE, ALLOCATE_DEVICE, ALLOCATE_SHARED, DYNAMIC };

static const char *const made_names[] = {"created", "allocated", "allocated on the device",
                                         "allocated shared", "dynamic"};

static int          rank, ranks, to, from;
static MPI_Win      window;
static MPI_Datatype scattered; /* 3 words of every 16 */
static MPI_Aint     start;     /* displacement of the first word of to's part */
static MPI_Aint     step;      /* of one word */
static char        *exposed, *origin, *compare, *result;
static long         cases, wrong;

#define AT(word) (start + (MPI_Aint)(word)*step)

/* ---- epochs ---- */

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
    case LOCK:
        MPI_Barrier(MPI_COMM_WORLD);
        MPI_Win_lock(MPI_LOCK_EXCLUSIVE, to, 0, window);
        break;
    default:
        MPI_Barrier(MPI_COMM_WORLD);
        MPI_Win_lock_all(0, window);
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
    case LOCK:
        MPI_Win_unlock(to, window);
        MPI_Barrier(MPI_COMM_WORLD);
        break;
    default:
        MPI_Win_flush(to, window);
        MPI_Barrier(MPI_COMM_WORLD);
        MPI_Win_unlock_all(window);
        MPI_Barrier(MPI_COMM_WORLD);
    }
}

/* ---- operations ---- */

static void wait_for(MPI_Request *request) { MPI_Wait(request, MPI_STATUS_IGNORE); }

static void put(void) { MPI_Put(origin, WORDS, MPI_UINT32_T, to, AT(0), WORDS, MPI_UINT32_T, window); }
static void get(void) { MPI_Get(result, WORDS, MPI_UINT32_T, to, AT(0), WORDS, MPI_UINT32_T, window); }
static void put_scattered(void)
{
    MPI_Put(origin, 1, scattered, to, AT(0), 1, scattered, window);
}
static void get_scattered(void)
{
    MPI_Get(result, 1, scattered, to, AT(0), 1, scattered, window);
}
static void sum(void)
{
    MPI_Accumulate(origin, WORDS, MPI_UINT32_T, to, AT(0), WORDS, MPI_UINT32_T, MPI_SUM, window);
}
static void replace(void)
{
    MPI_Accumulate(origin, WORDS, MPI_UINT32_T, to, AT(0), WORDS, MPI_UINT32_T, MPI_REPLACE,
                   window);
}
static void sum_scattered(void)
{
    MPI_Accumulate(origin, 1, scattered, to, AT(0), 1, scattered, MPI_SUM, window);
}
static void sum_one(void)
{
    MPI_Accumulate(origin, 1, MPI_INT64_T, to, AT(2), 1, MPI_INT64_T, MPI_SUM, window);
}
static void get_sum(void)
{
    MPI_Get_accumulate(origin, WORDS, MPI_UINT32_T, result, WORDS, MPI_UINT32_T, to, AT(0), WORDS,
                       MPI_UINT32_T, MPI_SUM, window);
}
static void get_replace(void)
{
    MPI_Get_accumulate(origin, WORDS, MPI_UINT32_T, result, WORDS, MPI_UINT32_T, to, AT(0), WORDS,
                       MPI_UINT32_T, MPI_REPLACE, window);
}
static void get_nothing(void)
{
    MPI_Get_accumulate(NULL, 0, MPI_UINT32_T, result, WORDS, MPI_UINT32_T, to, AT(0), WORDS,
                       MPI_UINT32_T, MPI_NO_OP, window);
}
static void requests(void)
{
    MPI_Request request;

    MPI_Rput(origin, 100, MPI_UINT32_T, to, AT(0), 100, MPI_UINT32_T, window, &request);
    wait_for(&request);
    MPI_Rget(result, 100, MPI_UINT32_T, to, AT(100), 100, MPI_UINT32_T, window, &request);
    wait_for(&request);
    MPI_Raccumulate(origin, 100, MPI_UINT32_T, to, AT(200), 100, MPI_UINT32_T, MPI_BXOR, window,
                    &request);
    wait_for(&request);
    MPI_Rget_accumulate(origin, 100, MPI_UINT32_T, result + 400, 100, MPI_UINT32_T, to, AT(300),
                        100, MPI_UINT32_T, MPI_MAX, window, &request);
    wait_for(&request);
}

/* One element each; words apart, so that the order does not matter. */
static void fetch_and_op(void)
{
    const struct {
        MPI_Datatype type;
        MPI_Op       op;
    } words[] = {
        {MPI_INT32_T, MPI_SUM},       {MPI_INT64_T, MPI_SUM},     {MPI_DOUBLE, MPI_SUM},
        {MPI_UINT32_T, MPI_REPLACE},  {MPI_INT64_T, MPI_NO_OP},   {MPI_SHORT, MPI_SUM},
        {MPI_INT32_T, MPI_MAX},       {MPI_UINT64_T, MPI_BXOR},   {MPI_FLOAT, MPI_PROD},
        {MPI_DOUBLE, MPI_REPLACE},    {MPI_BYTE, MPI_BAND},       {MPI_DOUBLE_INT, MPI_MINLOC},
        {MPI_C_DOUBLE_COMPLEX, MPI_SUM},
    };
    size_t k;

    for (k = 0; k < sizeof(words) / sizeof(words[0]); k++) {
        MPI_Fetch_and_op(words[k].op == MPI_NO_OP ? NULL : origin + 32 * k, result + 32 * k,
                         words[k].type, to, AT(8 * k), words[k].op, window);
    }
}

/* compare is what the window holds, but for the third of each kind. */
static void compare_and_swap(void)
{
    const MPI_Datatype types[] = {MPI_INT32_T, MPI_INT64_T, MPI_SHORT, MPI_BYTE};
    int                k;

    for (k = 0; k < 12; k++) {
        MPI_Compare_and_swap(origin + 32 * k, compare + 32 * k, result + 32 * k, types[k % 4], to,
                             AT(8 * k), window);
    }
}

static const struct operation {
    const char *name;
    void (*run)(void);
    bool passive; /* only between lock and unlock */
    bool many;    /* of messages of UCX in a dynamic window, which its flush may not wait for */
} operations[] = {
    {"put", put, false, false},
    {"get", get, false, false},
    {"put of a vector", put_scattered, false, false},
    {"get of a vector", get_scattered, false, false},
    {"accumulate, sum", sum, false, false},
    {"accumulate, replace", replace, false, false},
    {"accumulate of a vector", sum_scattered, false, true},
    {"accumulate of a word", sum_one, false, false},
    {"get_accumulate, sum", get_sum, false, false},
    {"get_accumulate, replace", get_replace, false, false},
    {"get_accumulate, nothing", get_nothing, false, false},
    {"fetch_and_op", fetch_and_op, false, false},
    {"compare_and_swap", compare_and_swap, false, false},
    {"rput, rget, raccumulate, rget_accumulate", requests, true, false},
};
#define OPERATIONS (sizeof(operations) / sizeof(operations[0]))

/* ---- compared with the host ---- */

static char on_host[OPERATIONS][2][BYTES]; /* window and result */

static void set(char *memory, int of)
{
    static uint32_t words[WORDS];
    uint32_t        k;

    for (k = 0; k < WORDS; k++) {
        words[k] = (k * 2654435761u + (uint32_t)of * 97) & 0x3fffffff;
    }
    devmem_copy(memory, words, BYTES);
}

static void set_compare(void)
{
    uint32_t other = 0x55555555;
    int      k;

    set(compare, to + 100);
    for (k = 8; k < 12; k++) {
        devmem_copy(compare + 32 * k, &other, sizeof(other));
    }
}

static void tell_difference(size_t which, char now[2][BYTES])
{
    size_t part, k, count = 0;

    for (part = 0; part < 2; part++) {
        for (k = 0; k < BYTES; k++) {
            if (on_host[which][part][k] != now[part][k] && count++ < 3) {
                printf("rank %d, %s, byte %zu (word %zu): 0x%02x instead of 0x%02x\n", rank,
                       part == 0 ? "window" : "result", k, k / 4, (unsigned char)now[part][k],
                       (unsigned char)on_host[which][part][k]);
            }
        }
    }
    printf("rank %d: %zu bytes differ\n", rank, count);
    fflush(stdout);
}

static void check(const struct operation *operation, enum sync sync, const char *kind,
                  bool reference)
{
    static char now[2][BYTES];
    size_t      which = (size_t)(operation - operations);
    int         bad, any;

    devmem_copy(now[0], exposed, BYTES);
    devmem_copy(now[1], result, BYTES);
    if (reference) {
        memcpy(on_host[which], now, sizeof(now));
    }
    bad = memcmp(on_host[which], now, sizeof(now)) != 0;
    if (bad) {
        tell_difference(which, now);
    }
    MPI_Allreduce(&bad, &any, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
    cases++;
    wrong += any != 0;
    if (rank == 0) {
        printf("case: %s, %s, %s: %s\n", operation->name, sync_names[sync], kind,
               any == 0 ? "right" : "WRONG");
        fflush(stdout);
    }
}

static void all_operations(const char *kind, bool dynamic, bool reference)
{
    size_t k;
    int    sync;

    for (k = 0; k < OPERATIONS; k++) {
        for (sync = 0; sync < SYNCS; sync++) {
            if ((operations[k].passive && sync < LOCK) || (dynamic && operations[k].many)) {
                continue;
            }
            set(exposed, rank + 100);
            set(origin, rank);
            set(result, rank + 200);
            set_compare();
            begin((enum sync)sync);
            operations[k].run();
            end((enum sync)sync);
            check(&operations[k], (enum sync)sync, kind,
                  reference && (sync == FENCE || (operations[k].passive && sync == LOCK)));
        }
    }
}

/* ---- many at one word ---- */

#define ROUNDS 40

static void contend(const char *kind)
{
    int64_t *all = calloc((size_t)(ranks * ROUNDS), sizeof(*all)), mine[ROUNDS], one, old, seen, k;
    char    *seen_flags = calloc((size_t)(ranks * ROUNDS), 1);
    int64_t  zeros[2] = {0, 0}, last[2];
    int      bad = 0, any;

    /* Rank 0's first two words of 8 bytes: tickets drawn, and a sum by compare and swap. */
    devmem_copy(exposed, zeros, sizeof(zeros));
    MPI_Bcast(&start, 1, MPI_AINT, ranks - 1, MPI_COMM_WORLD); /* the rank whose to is 0 */
    MPI_Barrier(MPI_COMM_WORLD);
    MPI_Win_lock_all(0, window);
    for (k = 0; k < ROUNDS; k++) {
        one = 1;
        devmem_copy(origin, &one, 8);
        MPI_Fetch_and_op(origin, result, MPI_INT64_T, 0, AT(0), MPI_SUM, window);
        MPI_Win_flush(0, window);
        devmem_copy(&mine[k], result, 8);
        for (seen = 0, old = -1; seen != old;) {
            old = seen;
            one = old + rank + 1;
            devmem_copy(origin, &one, 8);
            devmem_copy(compare, &old, 8);
            MPI_Compare_and_swap(origin, compare, result, MPI_INT64_T, 0, AT(2), window);
            MPI_Win_flush(0, window);
            devmem_copy(&seen, result, 8);
        }
    }
    MPI_Win_unlock_all(window);
    MPI_Allgather(mine, ROUNDS, MPI_INT64_T, all, ROUNDS, MPI_INT64_T, MPI_COMM_WORLD);
    for (k = 0; k < ranks * ROUNDS; k++) {
        bad += all[k] < 0 || all[k] >= ranks * ROUNDS || seen_flags[all[k]]++ != 0;
    }
    if (rank == 0) {
        devmem_copy(last, exposed, sizeof(last));
        bad += last[0] != ranks * ROUNDS || last[1] != (int64_t)ROUNDS * ranks * (ranks + 1) / 2;
    }
    MPI_Allreduce(&bad, &any, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
    cases++;
    wrong += any != 0;
    if (rank == 0) {
        printf("case: %d ranks at one word, fetch_and_op and compare_and_swap, %s: %lld drawn, sum "
               "%lld: %s\n",
               ranks, kind, (long long)last[0], (long long)last[1], any == 0 ? "right" : "WRONG");
        fflush(stdout);
    }
    free(all);
    free(seen_flags);
}

/* ---- windows ---- */

static void open_window(enum made made, enum place place)
{
    MPI_Info info = MPI_INFO_NULL;
    MPI_Aint mine = 0;

    start = 0;
    step  = 1;
    switch (made) {
    case CREATE:
        exposed = devmem_alloc(place, BYTES);
        MPI_Win_create(exposed, BYTES, sizeof(uint32_t), info, MPI_COMM_WORLD, &window);
        return;
    case ALLOCATE_DEVICE:
        MPI_Info_create(&info);
        MPI_Info_set(info, "zerange_memory_kind", "device");
        /* fall through */
    case ALLOCATE:
        MPI_Win_allocate(BYTES, sizeof(uint32_t), info, MPI_COMM_WORLD, &exposed, &window);
        if (info != MPI_INFO_NULL) {
            MPI_Info_free(&info);
        }
        return;
    case ALLOCATE_SHARED:
        MPI_Win_allocate_shared(BYTES, sizeof(uint32_t), info, MPI_COMM_WORLD, &exposed, &window);
        return;
    case DYNAMIC:
        exposed = devmem_alloc(place, BYTES);
        MPI_Win_create_dynamic(info, MPI_COMM_WORLD, &window);
        MPI_Win_attach(window, exposed, BYTES);
        MPI_Get_address(exposed, &mine);
        MPI_Sendrecv(&mine, 1, MPI_AINT, from, 0, &start, 1, MPI_AINT, to, 0, MPI_COMM_WORLD,
                     MPI_STATUS_IGNORE);
        step = sizeof(uint32_t);
    }
}

int main(int argc, char **argv)
{
    static const struct {
        enum made  made;
        enum place exposed, origin;
    } kinds[] = {
        {CREATE, HOST, HOST}, /* what the others are compared with */
        {CREATE, DEVICE, DEVICE},
        {CREATE, RANGE, RANGE},
        {CREATE, RANGE, HOST},
        {CREATE, HOST, RANGE},
        {ALLOCATE, HOST, RANGE},
        {ALLOCATE_DEVICE, DEVICE, RANGE},
        {ALLOCATE_SHARED, HOST, RANGE},
        {DYNAMIC, RANGE, DEVICE},
    };
    char   kind[120];
    size_t k;

    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    to   = (rank + 1) % ranks;
    from = (rank + ranks - 1) % ranks;
    MPI_Type_vector(WORDS / 16, 3, 16, MPI_UINT32_T, &scattered);
    MPI_Type_commit(&scattered);
    devmem_open();
    for (k = 0; k < sizeof(kinds) / sizeof(kinds[0]); k++) {
        origin  = devmem_alloc(kinds[k].origin, BYTES);
        compare = devmem_alloc(kinds[k].origin, BYTES);
        result  = devmem_alloc(kinds[k].origin, BYTES);
        open_window(kinds[k].made, kinds[k].exposed);
        snprintf(kind, sizeof(kind), "%s window in %s memory, origin in %s memory",
                 made_names[kinds[k].made], place_names[kinds[k].exposed],
                 place_names[kinds[k].origin]);
        all_operations(kind, kinds[k].made == DYNAMIC, k == 0);
        contend(kind);
        if (kinds[k].made == DYNAMIC) {
            MPI_Win_detach(window, exposed);
        }
        MPI_Win_free(&window);
    }
    if (rank == 0) {
        printf("case: one-sided, %d ranks: %ld cases, %ld wrong\n", ranks, cases, wrong);
    }
    MPI_Type_free(&scattered);
    MPI_Finalize();
    return wrong != 0;
}
