/* Every collective of MPI-3, in its three forms, over buffers on the host, in one device allocation
 * and in a range of many objects: the bytes are those of the same call on host buffers, and what lies
 * between and around the elements is untouched.
 *
 * A combination is one call compared. For each collective, type, placement and number of ranks a line
 * "cell: ..." with their number, and a line for each that is wrong; exit 1 if any is. With "all" the
 * types that else go in the blocking form only go in all of them, and long messages too.
 *
 * usage: collectives [all] [COLLECTIVE...] */
/* SPDX-License-Identifier: BSD-3-Clause */
#include <stddef.h>
#include <unistd.h>

#include "coll_calls.h"
#include "coll_types.h"
#include "devmem.h"

#define ELEMENTS 90   /* of one rank's part; below the eager limits */
#define MANY     9000 /* above them */
#define MAX_EXTENT 64
#define BEFORE 256    /* an edge between objects, where the misaligned buffers begin */
#define ODD 77        /* bytes into them, for what is only moved; an operation may count on elements */
#define EVEN 64       /* that begin where their type may */
#define BYTES ((size_t)(MANY + 1) * MAX_RANKS * MAX_EXTENT + ((size_t)1 << 20))
#define COLLECTIVES (sizeof(collectives) / sizeof(collectives[0]))
#define PLACEMENTS (sizeof(placements) / sizeof(placements[0]))

/* What the report calls it: D is memory of the device. */
static const struct placement {
    enum place  send, recv;
    bool        odd; /* across an edge between objects, at an odd offset */
    const char *name;
    bool        few; /* with forms and types that do not go through all of them */
} placements[] = {
    {RANGE, RANGE, true, "D->D", true}, {RANGE, RANGE, false, "D->D", false},
    {DEVICE, DEVICE, false, "D->D", false}, {RANGE, HOST, false, "D->H", true},
    {HOST, RANGE, false, "H->D", true},
};

static char *host[2], *expected[2], *memory[3][2]; /* by place; send and receive */
static char *seen;
static int   world_rank, world_ranks;
static size_t page; /* an object's */
static bool  everything;
static long  combinations, wrong;

/* Combinations of a collective, letter of a type and placement. */
static int cells[COLLECTIVES][128][PLACEMENTS];

/* From how many bytes on our own way among the processes of a node is taken: the call on host memory
 * that the others are compared with takes Open MPI's. */
static MPI_T_cvar_handle direct_bytes;
static size_t            direct_from;

static void find_direct_bytes(void)
{
    int provided, index, count;

    if (MPI_T_init_thread(MPI_THREAD_SINGLE, &provided) != MPI_SUCCESS ||
        MPI_T_cvar_get_index("coll_zerange_direct_bytes", &index) != MPI_SUCCESS ||
        MPI_T_cvar_handle_alloc(index, NULL, &direct_bytes, &count) != MPI_SUCCESS ||
        MPI_T_cvar_read(direct_bytes, &direct_from) != MPI_SUCCESS) {
        printf("coll_zerange_direct_bytes is not to be found\n");
        MPI_Abort(MPI_COMM_WORLD, 1);
    }
}

static void set_direct(bool on)
{
    size_t from = on ? direct_from : 0;

    if (MPI_T_cvar_write(direct_bytes, &from) != MPI_SUCCESS) {
        printf("coll_zerange_direct_bytes cannot be set\n");
        MPI_Abort(MPI_COMM_WORLD, 1);
    }
}

/* Elements begin at offset. */
static void fill(char *buffer, size_t size, size_t offset, const struct operand *operand,
                 MPI_Aint extent, unsigned salt)
{
    uint32_t value;
    size_t   k;

    for (k = 0; k < size / 4; k++) {
        value = ((uint32_t)k * 7 + salt * 3 + (uint32_t)world_rank) * 2654435761u;
        memcpy(buffer + 4 * k, &value, 4);
    }
    for (k = offset; operand->put != NULL && k + (size_t)extent <= size; k += (size_t)extent) {
        operand->put(buffer + k, (uint32_t)(k / (size_t)extent) * 7 + salt * 3 +
                                     (uint32_t)world_rank * 5);
    }
}

/* A long double is 10 bytes of value; what the rest of its place holds is left to who adds. */
static void clear_padding(char *buffer, size_t size, size_t offset, const struct operand *operand,
                          MPI_Aint extent)
{
    const size_t value = 10;
    size_t       k;

    for (k = offset; operand->type == MPI_LONG_DOUBLE && k + (size_t)extent <= size;
         k += (size_t)extent) {
        memset(buffer + k + value, 0, (size_t)extent - value);
    }
}

static void tell(const struct collective *c, const struct run *run, const struct operand *operand,
                 const struct placement *p, int ranks)
{
    wrong++;
    if (world_rank == 0) {
        printf("WRONG on %d of %d ranks: %s %s, %s, %d elements, %s to %s%s%s\n", ranks,
               world_ranks, c->name, form_names[run->form], operand->name, run->count,
               place_names[p->send], place_names[p->recv], p->odd ? " at an odd offset" : "",
               run->inter ? ", intercommunicator" : run->in_place ? ", in place" : "");
        fflush(stdout);
    }
}

static void one(size_t c, struct run *run, const struct operand *operand, size_t placement)
{
    const struct placement *p    = &placements[placement];
    size_t                  most = (size_t)(run->others > run->ranks ? run->others : run->ranks);
    size_t odd  = !p->odd ? 0 : run->op != MPI_OP_NULL ? EVEN : ODD;
    size_t size = odd + (size_t)run->step * most + 64;
    char  *at[2];
    int    k, bad = 0, sum;

    at[0] = memory[p->send][0] + (p->odd ? page - BEFORE : 0);
    at[1] = memory[p->recv][1] + (p->odd ? page - BEFORE : 0);
    for (k = 0; k < 2; k++) {
        fill(host[k], size, odd, operand, run->extent, (unsigned)k);
        memcpy(expected[k], host[k], size);
        devmem_copy(at[k], host[k], size);
    }
    run->send = expected[0] + odd;
    run->recv = expected[1] + odd;
    set_direct(false);
    collectives[c].run(run);
    set_direct(true);
    run->send = at[0] + odd;
    run->recv = at[1] + odd;
    collectives[c].run(run);
    for (k = 0; k < 2; k++) {
        /* In place, MPI says nothing of the input that lies behind a rank's own part. */
        size_t defined = k == 1 && run->in_place && (collectives[c].flags & SCATTERS) ?
                             odd + (size_t)run->extent * (size_t)run->mine :
                             size;

        devmem_copy(seen, at[k], size);
        clear_padding(seen, size, odd, operand, run->extent);
        clear_padding(expected[k], size, odd, operand, run->extent);
        bad |= memcmp(seen, expected[k], defined) != 0;
    }
    MPI_Allreduce(&bad, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
    combinations++;
    cells[c][(int)operand->letter][placement]++;
    if (sum != 0) {
        tell(&collectives[c], run, operand, p, sum);
    }
}

/* Parts of different length, where a collective can have that. */
static int part(const struct run *run, int rank)
{
    return run->count - rank % 3;
}

/* sources, targets: the ranks that parts come from and go to; NULL: every rank. */
static void prepare(size_t c, struct run *run, const struct operand *operand, int count,
                    const int *sources, const int *targets)
{
    bool     equal = strcmp(collectives[c].name, "reduce_scatter_block") == 0;
    MPI_Aint lb;
    int      k, most = run->others > run->ranks ? run->others : run->ranks;

    run->type  = operand->type;
    run->op    = operand->op;
    run->count = count;
    run->mine  = equal ? count : part(run, run->rank);
    MPI_Type_get_extent(run->type, &lb, &run->extent);
    run->step = run->extent * (count + 1); /* a hole of one element after each part */
    for (k = 0; k < most; k++) {
        int source = sources != NULL ? sources[k] : k, target = targets != NULL ? targets[k] : k;

        run->counts[k]         = part(run, source < 0 ? 0 : source);
        run->from[k]           = part(run, source < 0 ? 0 : source + run->rank);
        run->to[k]             = part(run, target < 0 ? 0 : target + run->rank);
        run->displs[k]         = k * (count + 1);
        run->address_displs[k] = run->step * k;
        run->byte_displs[k]    = (int)run->address_displs[k];
        run->types[k]          = run->type;
    }
    words_in_use = operand->words;
}

static void all_of(size_t c, struct run *run, const struct operand *operand, int count,
                   const int *sources, const int *targets)
{
    bool   base = (operand->flags & BASE) || everything;
    bool   few  = !everything && (!base || run->form != BLOCKING || run->inter);
    size_t p;

    prepare(c, run, operand, count, sources, targets);
    for (p = 0; p < PLACEMENTS; p++) {
        if ((count == MANY && !everything && p > 0) || (few && !placements[p].few)) {
            continue;
        }
        one(c, run, operand, p);
        if (base && (collectives[c].flags & IN_PLACE) && !run->inter && placements[p].send != HOST) {
            run->in_place = true;
            one(c, run, operand, p);
            run->in_place = false;
        }
    }
}

static void of_collective(size_t c, struct run *run, const int *sources, const int *targets)
{
    unsigned kind = collectives[c].flags & REDUCES ? REDUCED : MOVED;
    bool     full = everything || (run->form == BLOCKING && !run->inter);
    int      k;

    for (k = 0; k < operand_count; k++) {
        if (!(operands[k].flags & kind)) {
            continue;
        }
        if ((operands[k].flags & BASE) || full) {
            all_of(c, run, &operands[k], ELEMENTS, sources, targets);
        }
        if ((operands[k].flags & LONG) || (everything && (operands[k].flags & BASE))) {
            all_of(c, run, &operands[k], MANY, sources, targets);
        }
    }
}

/* ---- communicators ---- */

static struct run intra(enum form form)
{
    struct run run = {.form = form, .comm = MPI_COMM_WORLD};

    MPI_Comm_rank(run.comm, &run.rank);
    MPI_Comm_size(run.comm, &run.ranks);
    run.others = run.ranks;
    return run;
}

/* Two groups, even and odd; one has to have a rank more where the number is odd. */
static struct run inter(enum form form)
{
    static MPI_Comm half, both;
    static bool     made;
    struct run      run = {.form = form, .inter = true};
    int             odd = world_rank % 2;

    if (!made) {
        MPI_Comm_split(MPI_COMM_WORLD, odd, world_rank, &half);
        MPI_Intercomm_create(half, 0, MPI_COMM_WORLD, odd ? 0 : 1, 7, &both);
        made = true;
    }
    first_group = odd == 0;
    run.comm    = both;
    MPI_Comm_rank(run.comm, &run.rank);
    MPI_Comm_size(run.comm, &run.ranks);
    MPI_Comm_remote_size(run.comm, &run.others);
    return run;
}

/* A grid that ends in one direction and goes round in the other. */
static void on_grid(size_t c, enum form form)
{
    static MPI_Comm grid;
    static bool     made;
    struct run      run  = intra(form);
    int             dims[2] = {0, 0}, round[2] = {0, 1}, neighbours[4];

    if (!made) {
        MPI_Dims_create(run.ranks, 2, dims);
        MPI_Cart_create(MPI_COMM_WORLD, 2, dims, round, 0, &grid);
        made = true;
    }
    MPI_Cart_shift(grid, 0, 1, &neighbours[0], &neighbours[1]);
    MPI_Cart_shift(grid, 1, 1, &neighbours[2], &neighbours[3]);
    run.comm   = grid;
    run.others = run.ranks = 4;
    of_collective(c, &run, neighbours, neighbours);
}

/* Everybody sends to the next two, and rank 0 to itself as well. */
static void on_graph(size_t c, enum form form)
{
    static MPI_Comm graph;
    static bool     made;
    struct run      run = intra(form);
    int             n = run.ranks, self = run.rank == 0;
    int             sources[3] = {(run.rank + n - 1) % n, (run.rank + 2 * n - 2) % n, run.rank};
    int             targets[3] = {(run.rank + 1) % n, (run.rank + 2) % n, run.rank};
    int             weights[3] = {1, 1, 1};

    if (!made) {
        MPI_Dist_graph_create_adjacent(MPI_COMM_WORLD, 2 + self, sources, weights, 2 + self,
                                       targets, weights, MPI_INFO_NULL, 0, &graph);
        made = true;
    }
    run.comm   = graph;
    run.others = run.ranks = 3;
    of_collective(c, &run, sources, targets);
}

static void of_form(size_t c, enum form form)
{
    struct run run;

    if (collectives[c].flags & NEIGHBOR) {
        on_grid(c, form);
        on_graph(c, form);
        return;
    }
    run = intra(form);
    of_collective(c, &run, NULL, NULL);
    /* Open MPI has no persistent form over intercommunicators. */
    if (!(collectives[c].flags & INTER) || world_ranks < 2 || form == PERSISTENT) {
        return;
    }
    run = inter(form);
    /* The vectors that two groups reduce and scatter have to be equally long. */
    if (run.ranks == run.others || !(collectives[c].flags & SCATTERS)) {
        of_collective(c, &run, NULL, NULL);
    }
}

/* ---- the program ---- */

static void start(int argc, char **argv)
{
    int k, p;

    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &world_rank);
    MPI_Comm_size(MPI_COMM_WORLD, &world_ranks);
    if (world_ranks > MAX_RANKS) {
        printf("at most %d ranks\n", MAX_RANKS);
        MPI_Abort(MPI_COMM_WORLD, 1);
    }
    find_direct_bytes();
    devmem_open();
    ZE(zeVirtualMemQueryPageSize(devmem.context, devmem.device, 1, &page));
    make_operands();
    for (k = 0; k < 2; k++) {
        host[k]     = malloc(BYTES);
        expected[k] = malloc(BYTES);
        for (p = HOST; p <= RANGE; p++) {
            memory[p][k] = devmem_alloc((enum place)p, BYTES);
        }
    }
    seen = malloc(BYTES);
}

static void report(size_t c)
{
    size_t p;
    int    letter;

    for (letter = 0; letter < 128; letter++) {
        for (p = 0; p < PLACEMENTS; p++) {
            if (cells[c][letter][p] > 0) {
                printf("cell: %s %c %s %d\n", collectives[c].name, letter, placements[p].name,
                       cells[c][letter][p]);
            }
        }
    }
    fflush(stdout);
}

static bool asked(const char *name, int argc, char **argv)
{
    int k, first = everything ? 2 : 1;

    for (k = first; k < argc; k++) {
        if (strcmp(argv[k], name) == 0) {
            return true;
        }
    }
    return argc <= first;
}

int main(int argc, char **argv)
{
    size_t c;
    int    form;

    start(argc, argv);
    everything = argc > 1 && strcmp(argv[1], "all") == 0;
    for (c = 0; c < COLLECTIVES; c++) {
        if (!asked(collectives[c].name, argc, argv)) {
            continue;
        }
        for (form = 0; form < FORMS; form++) {
            of_form(c, (enum form)form);
        }
        if (world_rank == 0) {
            report(c);
        }
    }
    if (world_rank == 0) {
        printf("total: %d ranks: %ld combinations, %ld wrong\n", world_ranks, combinations, wrong);
    }
    MPI_Finalize();
    return wrong != 0 || combinations == 0;
}
