/* Random stress: every rank maps, unmaps, replaces and frees objects of its buffers at random while
 * random parts of them are on their way to other ranks; every byte that arrives is checked, and those
 * around it. All ranks draw the same random numbers, so that all know what everyone has mapped. At the
 * end memory, fds and mappings are back at where they were after a short warm-up.
 *
 *   stress SEED SECONDS */
/* SPDX-License-Identifier: BSD-3-Clause */
#include "zebuf.h"

#include <dirent.h>
#include <mpi.h>
#include <time.h>
#include <unistd.h>
#include <zerange/zerange.h>

#define MAX_RANKS 8
#define SLOTS     5  /* buffers of a rank */
#define OBJECTS   12 /* places for objects in a buffer */
#define MESSAGES  6  /* on their way at once, at most */
#define GUARD     256

struct slot {
    size_t                   object_size;
    unsigned                 mapped; /* bits */
    char                    *base;   /* the rest: of this rank only */
    ze_physical_mem_handle_t phys[OBJECTS];
};

struct message {
    int          from, to;
    unsigned     from_slot, to_slot;
    size_t       from_offset, to_offset, size;
    unsigned     seed;
    MPI_Request  request;
};

static int         rank, ranks;
static struct slot slots[MAX_RANKS][SLOTS];
static uint64_t    random_state;
static unsigned    step;

static uint32_t draw(uint32_t below)
{
    random_state = random_state * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t)((random_state >> 33) % below);
}

static void die(const char *what, size_t a, size_t b)
{
    fprintf(stderr, "rank %d, step %u: %s: %zu, %zu\n", rank, step, what, a, b);
    MPI_Abort(MPI_COMM_WORLD, 1);
}

/* ---- buffers ---- */

static void copy(void *to, const void *from, size_t size)
{
    ZE(zeCommandListAppendMemoryCopy(zebuf_ze.list, to, from, size, NULL, 0, NULL));
}

static void map_object(int who, struct slot *slot, unsigned k)
{
    ze_physical_mem_desc_t desc = {.stype = ZE_STRUCTURE_TYPE_PHYSICAL_MEM_DESC,
                                   .flags = ZE_PHYSICAL_MEM_FLAG_ALLOCATE_ON_DEVICE,
                                   .size  = slot->object_size};

    slot->mapped |= 1u << k;
    if (who == rank) {
        ZE(zePhysicalMemCreate(zebuf_ze.context, zebuf_ze.device, &desc, &slot->phys[k]));
        ZE(zeVirtualMemMap(zebuf_ze.context, slot->base + k * slot->object_size,
                           slot->object_size, slot->phys[k], 0,
                           ZE_MEMORY_ACCESS_ATTRIBUTE_READWRITE));
    }
}

static void unmap_object(int who, struct slot *slot, unsigned k)
{
    slot->mapped &= ~(1u << k);
    if (who == rank) {
        ZE(zeVirtualMemUnmap(zebuf_ze.context, slot->base + k * slot->object_size,
                             slot->object_size));
        ZE(zePhysicalMemDestroy(zebuf_ze.context, slot->phys[k]));
    }
}

static void slot_free(int who, struct slot *slot)
{
    unsigned k;

    for (k = 0; k < OBJECTS; k++) {
        if (slot->mapped & (1u << k)) {
            unmap_object(who, slot, k);
        }
    }
    if (who == rank && slot->base != NULL) {
        ZE(zeVirtualMemFree(zebuf_ze.context, slot->base, OBJECTS * slot->object_size));
    }
}

/* At the same address as before, if it is free. */
static void slot_make(int who, struct slot *slot)
{
    void    *hint = slot->base, *ptr;
    unsigned k, count;

    slot->object_size = (size_t)65536 << draw(4);
    if (who == rank) {
        ZE(zeVirtualMemReserve(zebuf_ze.context, hint, OBJECTS * slot->object_size, &ptr));
        slot->base = ptr;
    }
    count = 1 + draw(OBJECTS);
    for (k = 0; k < count; k++) {
        map_object(who, slot, k);
    }
}

/* ---- messages ---- */

/* A random part of a random run of mapped objects; 0: nothing is mapped. */
static size_t choose_window(const struct slot *slot, size_t *offset_p)
{
    unsigned first = draw(OBJECTS), k, end;
    size_t   length;

    for (k = 0; k < OBJECTS && !(slot->mapped & (1u << first)); k++) {
        first = (first + 1) % OBJECTS;
    }
    if (!(slot->mapped & (1u << first))) {
        return 0;
    }
    for (end = first; end < OBJECTS && (slot->mapped & (1u << end)); end++) {
    }
    length    = (end - first) * slot->object_size;
    *offset_p = first * slot->object_size + draw((uint32_t)length / 2);
    return end * slot->object_size - *offset_p;
}

static int slot_in_use(const struct message *messages, unsigned count, int who, unsigned slot)
{
    unsigned k;

    for (k = 0; k < count; k++) {
        if ((messages[k].from == who && messages[k].from_slot == slot) ||
            (messages[k].to == who && messages[k].to_slot == slot)) {
            return 1;
        }
    }
    return 0;
}

static unsigned choose_messages(struct message *messages)
{
    unsigned want = 1 + draw(MESSAGES), count = 0, k;

    for (k = 0; k < want; k++) {
        struct message m = {.from      = (int)draw((uint32_t)ranks),
                            .from_slot = draw(SLOTS),
                            .to_slot   = draw(SLOTS),
                            .seed      = draw(1u << 20)};
        size_t room;

        m.to   = (m.from + 1 + (int)draw((uint32_t)ranks - 1)) % ranks;
        m.size = choose_window(&slots[m.from][m.from_slot], &m.from_offset);
        room   = choose_window(&slots[m.to][m.to_slot], &m.to_offset);
        m.size = m.size < room ? m.size : room;
        m.size = m.size != 0 ? 1 + draw((uint32_t)m.size) : 0;
        if (m.size != 0 && !slot_in_use(messages, count, m.from, m.from_slot) &&
            !slot_in_use(messages, count, m.to, m.to_slot)) {
            messages[count++] = m;
        }
    }
    return count;
}

static void fill(char *at, size_t size, unsigned seed)
{
    size_t k;

    for (k = 0; k < size; k++) {
        zebuf_ze.staging[k] = zebuf_byte(seed, k);
    }
    copy(at, zebuf_ze.staging, size);
}

/* The bytes around a message that are mapped too. */
static void guards(const struct slot *slot, const struct message *m, size_t *before, size_t *after)
{
    size_t end = m->to_offset + m->size, in_first = m->to_offset % slot->object_size;
    size_t left = (slot->object_size - end % slot->object_size) % slot->object_size;

    *before = in_first < GUARD ? in_first : GUARD;
    *after  = left < GUARD ? left : GUARD;
}

static void start(struct message *m, int tag)
{
    size_t before, after;

    m->request = MPI_REQUEST_NULL;
    if (m->from == rank) {
        fill(slots[rank][m->from_slot].base + m->from_offset, m->size, m->seed);
        MPI_Isend(slots[rank][m->from_slot].base + m->from_offset, (int)m->size, MPI_BYTE, m->to,
                  tag, MPI_COMM_WORLD, &m->request);
    } else if (m->to == rank) {
        struct slot *slot = &slots[rank][m->to_slot];

        guards(slot, m, &before, &after);
        fill(slot->base + m->to_offset - before, before + m->size + after, m->seed + 1);
        MPI_Irecv(slot->base + m->to_offset, (int)m->size, MPI_BYTE, m->from, tag, MPI_COMM_WORLD,
                  &m->request);
    }
}

/* What is wrong, for who has to find out why: where, and whether nothing arrived there. */
static void report(const struct message *m, size_t before, size_t total)
{
    size_t  k, bad = 0, first = 0, last = 0, untouched = 0;
    uint8_t want;

    for (k = 0; k < total; k++) {
        want = k >= before && k < before + m->size ? zebuf_byte(m->seed, k - before)
                                                   : zebuf_byte(m->seed + 1, k);
        if (zebuf_ze.staging[k] != want) {
            first = bad++ == 0 ? k : first;
            last  = k;
            untouched += zebuf_ze.staging[k] == zebuf_byte(m->seed + 1, k);
        }
    }
    fprintf(stderr,
            "rank %d, step %u: message of %zu bytes from rank %d slot %u+%zu (objects of %zu) to "
            "slot %u+%zu (objects of %zu): %zu bytes from %zd to %zd are wrong, %zu of them as they "
            "were before\n",
            rank, step, m->size, m->from, m->from_slot, m->from_offset,
            slots[m->from][m->from_slot].object_size, m->to_slot, m->to_offset,
            slots[rank][m->to_slot].object_size, bad, (ssize_t)(first - before),
            (ssize_t)(last - before), untouched);
    die("wrong bytes", bad, m->size);
}

static void check(const struct message *m)
{
    struct slot *slot = &slots[rank][m->to_slot];
    size_t       before, after, k;

    if (m->to != rank) {
        return;
    }
    guards(slot, m, &before, &after);
    copy(zebuf_ze.staging, slot->base + m->to_offset - before, before + m->size + after);
    for (k = 0; k < before + m->size + after; k++) {
        int inside = k >= before && k < before + m->size;

        if (zebuf_ze.staging[k] != (inside ? zebuf_byte(m->seed, k - before)
                                           : zebuf_byte(m->seed + 1, k))) {
            report(m, before, before + m->size + after);
        }
    }
}

/* ---- changes ---- */

/* What no message uses may change while they are on their way. */
static void change(const struct message *messages, unsigned count)
{
    int          who  = (int)draw((uint32_t)ranks);
    unsigned     s    = draw(SLOTS), k = draw(OBJECTS), what = draw(10);
    struct slot *slot = &slots[who][s];

    if (slot_in_use(messages, count, who, s)) {
        unsigned m;

        /* Of a buffer that is in use, only an object behind all of the messages' places. */
        for (m = 0; m < count; m++) {
            size_t end = messages[m].from == who && messages[m].from_slot == s
                             ? messages[m].from_offset + messages[m].size
                         : messages[m].to == who && messages[m].to_slot == s
                             ? messages[m].to_offset + messages[m].size + GUARD
                             : 0;

            if (k * slot->object_size < end) {
                return;
            }
        }
        what = 5 + what % 4;
    }
    if (what == 0) {
        slot_free(who, slot);
        slot_make(who, slot);
    } else if (!(slot->mapped & (1u << k))) {
        map_object(who, slot, k); /* growth, or a hole is closed */
    } else {
        unmap_object(who, slot, k);
        if (what < 8) {
            map_object(who, slot, k);
        }
    }
}

static void one_step(void)
{
    struct message messages[MESSAGES];
    MPI_Request    requests[MESSAGES];
    unsigned       count = choose_messages(messages), changes = draw(5), k;

    for (k = 0; k < count; k++) {
        start(&messages[k], (int)k);
        requests[k] = messages[k].request;
    }
    for (k = 0; k < changes; k++) {
        change(messages, count);
    }
    MPI_Waitall((int)count, requests, MPI_STATUSES_IGNORE);
    for (k = 0; k < count; k++) {
        check(&messages[k]);
    }
}

/* ---- what is held ---- */

struct held {
    zr_counts_t counts;
    size_t      fds, mappings, resident_mib;
};

static size_t lines_of(const char *path)
{
    FILE  *file  = fopen(path, "r");
    size_t count = 0;
    int    c;

    while (file != NULL && (c = fgetc(file)) != EOF) {
        count += c == '\n';
    }
    if (file != NULL) {
        fclose(file);
    }
    return count;
}

static double seconds(void)
{
    struct timespec ts;

    clock_gettime(CLOCK_MONOTONIC, &ts);
    return (double)ts.tv_sec + 1e-9 * (double)ts.tv_nsec;
}

/* After all have freed all, and those who had it open have let go of it. */
static struct held measure(void)
{
    zr_pfnGetCounts_t get     = NULL;
    double            give_up = seconds() + 10;
    struct held       held    = {0};
    long              pages   = 0;
    DIR              *dir;
    FILE             *file;

    (void)zeDriverGetExtensionFunctionAddress(zebuf_ze.driver, "zrGetCounts", (void **)&get);
    while (get != NULL) {
        ZE(get(&held.counts));
        if (held.counts.imports == 0 && held.counts.imported_objects == 0) {
            break;
        }
        if (seconds() > give_up) {
            die("still open: imports, objects", held.counts.imports, held.counts.imported_objects);
        }
        usleep(1000);
    }
    MPI_Barrier(MPI_COMM_WORLD);
    if (get != NULL) {
        ZE(get(&held.counts));
    }
    held.mappings = lines_of("/proc/self/maps");
    dir           = opendir("/proc/self/fd");
    while (readdir(dir) != NULL) {
        held.fds++;
    }
    closedir(dir);
    file = fopen("/proc/self/statm", "r");
    if (file == NULL || fscanf(file, "%*d %ld", &pages) != 1) {
        die("/proc/self/statm", 0, 0);
    }
    fclose(file);
    held.resident_mib = (size_t)pages * (size_t)sysconf(_SC_PAGESIZE) >> 20;
    return held;
}

static void run(double for_seconds, unsigned least_steps)
{
    double   end   = seconds() + for_seconds;
    unsigned first = step;
    int      who, more = 1;

    memset(slots, 0, sizeof(slots));
    for (who = 0; who < ranks; who++) {
        unsigned s;

        for (s = 0; s < SLOTS; s++) {
            slot_make(who, &slots[who][s]);
        }
    }
    for (; more; step++) {
        one_step();
        if (step % 16 == 15) {
            more = seconds() < end || step - first < least_steps;
            MPI_Bcast(&more, 1, MPI_INT, 0, MPI_COMM_WORLD);
        }
    }
    for (who = 0; who < ranks; who++) {
        unsigned s;

        for (s = 0; s < SLOTS; s++) {
            slot_free(who, &slots[who][s]);
        }
    }
    MPI_Barrier(MPI_COMM_WORLD);
}

static void list_fds(void)
{
    DIR           *dir = opendir("/proc/self/fd");
    struct dirent *entry;
    char           path[300], name[256];
    ssize_t        n;

    while (dir != NULL && (entry = readdir(dir)) != NULL) {
        snprintf(path, sizeof(path), "/proc/self/fd/%s", entry->d_name);
        n = readlink(path, name, sizeof(name) - 1);
        fprintf(stderr, "rank %d: fd %s: %.*s\n", rank, entry->d_name, n > 0 ? (int)n : 0, name);
    }
    if (dir != NULL) {
        closedir(dir);
    }
}

static void compare(const struct held *start, const struct held *end)
{
    if (end->counts.objects > start->counts.objects || end->counts.exports != 0 ||
        end->counts.regions > start->counts.regions) {
        die("objects and exports are left", end->counts.objects, end->counts.exports);
    }
    /* The software device has an fd for each buffer; queues and staging pools may still grow a little
     * after the warm-up: the first copy of all engines, which may come late, takes three slots with a
     * batch for each of nine. What is lost with each transfer or mapping makes thousands. */
    if (end->fds > start->fds + 32) {
        list_fds();
        die("fds at the start and at the end", start->fds, end->fds);
    }
    /* Such a buffer is mapped for the process, for its engines and for the look at it. */
    if (end->mappings > start->mappings + 3 * 32) {
        die("mappings at the start and at the end", start->mappings, end->mappings);
    }
    if (end->resident_mib > start->resident_mib + 64) {
        die("MiB at the start and at the end", start->resident_mib, end->resident_mib);
    }
}

int main(int argc, char **argv)
{
    struct held before, after;

    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    if (argc != 3 || ranks < 2 || ranks > MAX_RANKS || !zebuf_start()) {
        die("usage: stress SEED SECONDS, 2 to 8 ranks and a device", (size_t)argc, (size_t)ranks);
    }
    random_state = strtoull(argv[1], NULL, 10);
    zebuf_need_staging((size_t)OBJECTS * 65536 * 8 + 2 * GUARD);
    run(2, 256); /* by then queues and pools have what they keep, on a busy machine too */
    before = measure();
    run(strtod(argv[2], NULL), 0);
    after = measure();
    compare(&before, &after);
    if (rank == 0) {
        printf("seed %s: %u steps; %zu fds, %zu mappings, %zu MiB at the start; %zu, %zu, %zu at "
               "the end\n",
               argv[1], step, before.fds, before.mappings, before.resident_mib, after.fds,
               after.mappings, after.resident_mib);
    }
    MPI_Finalize();
    return 0;
}
