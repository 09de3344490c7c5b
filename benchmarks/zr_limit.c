/* What memory allows: a window of copies between two ranges made of shared memory objects, as
 * zr_bw makes them, by memcpy and by streaming stores, with one thread or two. What a transport can
 * reach is measured against this. */
/* SPDX-License-Identifier: BSD-3-Clause */
#include "common/args.h"

#include <math.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#ifdef __SSE2__
#include <emmintrin.h>
#endif

#define PROGRAM "zr_limit"
#define PAGE    65536u

struct options {
    uint64_t       first, last, objects, window, iterations, threads, rounds;
    enum zr_format format;
};

/* ---- two ways to copy ---- */

static void copy_memcpy(char *to, const char *from, size_t size)
{
    memcpy(to, from, size);
    __asm__ volatile("" : : "r"(to) : "memory"); /* each copy of a window is made */
}

/* @a to begins with a line. */
static void copy_stream(char *to, const char *from, size_t size)
{
    size_t i = 0;

#ifdef __SSE2__
    for (; i + 64 <= size; i += 64) {
        __m128i a = _mm_loadu_si128((const __m128i *)(from + i));
        __m128i b = _mm_loadu_si128((const __m128i *)(from + i + 16));
        __m128i c = _mm_loadu_si128((const __m128i *)(from + i + 32));
        __m128i d = _mm_loadu_si128((const __m128i *)(from + i + 48));

        _mm_stream_si128((__m128i *)(to + i), a);
        _mm_stream_si128((__m128i *)(to + i + 16), b);
        _mm_stream_si128((__m128i *)(to + i + 32), c);
        _mm_stream_si128((__m128i *)(to + i + 48), d);
    }
    _mm_sfence();
#endif
    copy_memcpy(to + i, from + i, size - i);
}

static void (*const kernels[])(char *, const char *, size_t) = {copy_memcpy, copy_stream};

/* ---- memory: as many objects side by side as zr_bw --fit has ---- */

static char *make_range(size_t size, uint64_t objects)
{
    size_t pages = size / PAGE, given = 0, upto, i;
    char  *base  = mmap(NULL, size, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    int    fd;

    for (i = 0; base != MAP_FAILED && i < objects; i++, given = upto) {
        upto = pages * (i + 1) / objects;
        fd   = memfd_create("limit", MFD_CLOEXEC);
        if (fd < 0 || ftruncate(fd, (off_t)((upto - given) * PAGE)) != 0 ||
            mmap(base + given * PAGE, (upto - given) * PAGE, PROT_READ | PROT_WRITE,
                 MAP_SHARED | MAP_FIXED | MAP_POPULATE, fd, 0) == MAP_FAILED) {
            base = MAP_FAILED;
        }
        if (fd >= 0) {
            close(fd);
        }
    }
    if (base == MAP_FAILED) {
        perror(PROGRAM ": shared memory");
        exit(1);
    }
    memset(base, 1, size);
    return base;
}

/* ---- measuring ---- */

struct worker {
    pthread_t         thread;
    pthread_barrier_t *start;
    char             *to, *from;
    size_t            size;
    uint64_t          copies;
    unsigned          kernel;
    double            began, ended;
};

static void *work(void *arg)
{
    struct worker *w = arg;
    uint64_t       i;

    kernels[w->kernel](w->to, w->from, w->size);
    pthread_barrier_wait(w->start);
    w->began = zr_now();
    for (i = 0; i < w->copies; i++) {
        kernels[w->kernel](w->to, w->from, w->size);
    }
    w->ended = zr_now();
    return NULL;
}

/* MB/s of all threads together. */
static double measure(struct worker *workers, uint64_t threads, unsigned kernel)
{
    pthread_barrier_t start;
    double            began = INFINITY, ended = 0, bytes = 0;
    uint64_t          i;

    pthread_barrier_init(&start, NULL, (unsigned)threads);
    for (i = 0; i < threads; i++) {
        workers[i].kernel = kernel;
        workers[i].start  = &start;
        if (i > 0 && pthread_create(&workers[i].thread, NULL, work, &workers[i]) != 0) {
            fprintf(stderr, PROGRAM ": no thread\n");
            exit(1);
        }
    }
    work(&workers[0]);
    for (i = 0; i < threads; i++) {
        if (i > 0) {
            pthread_join(workers[i].thread, NULL);
        }
        began = fmin(began, workers[i].began);
        ended = fmax(ended, workers[i].ended);
        bytes += (double)workers[i].size * (double)workers[i].copies;
    }
    pthread_barrier_destroy(&start);
    return bytes / 1e6 / (ended - began);
}

static void run_size(const struct options *o, uint64_t size, struct zr_table *table)
{
    size_t        all = (size + PAGE - 1) / PAGE * PAGE + 4 * PAGE;
    struct worker workers[2];
    double        results[2][16];
    uint64_t      i, k;

    if (all / PAGE < o->objects) {
        all = o->objects * PAGE;
    }
    for (i = 0; i < o->threads; i++) {
        workers[i] = (struct worker){.size = size, .copies = o->window * o->iterations};
        workers[i].to   = make_range(all, o->objects) + (all - size) / 2 / PAGE * PAGE;
        workers[i].from = make_range(all, o->objects) + (all - size) / 2 / PAGE * PAGE;
    }
    for (i = 0; i < o->rounds; i++) {
        zr_progress(PROGRAM, "%llu bytes ...", (unsigned long long)size);
        for (k = 0; k < 2; k++) {
            results[k][i] = measure(workers, o->threads, (unsigned)k);
        }
    }
    for (i = 0; i < o->threads; i++) {
        munmap(workers[i].to - (all - size) / 2 / PAGE * PAGE, all);
        munmap(workers[i].from - (all - size) / 2 / PAGE * PAGE, all);
    }
    double plain  = zr_median(results[0], (unsigned)o->rounds);
    double stream = zr_median(results[1], (unsigned)o->rounds);

    zr_table_row(table, (double[]){(double)size, fmax(plain, stream), plain, stream});
}

int main(int argc, char **argv)
{
    static const struct zr_column columns[] = {{"Size", "size", 0},
                                               {"Best (MB/s)", "best_mb_s", 2},
                                               {"memcpy", "memcpy_mb_s", 2},
                                               {"streaming", "stream_mb_s", 2}};
    struct options  o     = {1 << 20, 64 << 20, 64, 64, 4, 1, 1, ZR_FORMAT_TEXT};
    struct zr_table table = {PROGRAM, "Memory Copy Limit", ZR_FORMAT_TEXT, columns, 4, 0};
    const struct zr_arg list[] = {
        {"message-size", 'm', "[MIN:]MAX", "bytes, doubled from MIN to MAX [1M:64M]", 1, 1 << 30, 0,
         &o.last, &o.first},
        {"window-size", 'W', "N", "copies of one iteration [64]", 1, 65536, 0, &o.window, NULL},
        {"iterations", 'i', "N", "[4]", 1, 1000000, 0, &o.iterations, NULL},
        {"threads", 't', "N", "1 or 2, each with ranges of its own [1]", 1, 2, 0, &o.threads, NULL},
        {"rounds", 'r', "N", "1 to 16, the two kernels in turn; the median counts [1]", 1, 16, 0,
         &o.rounds, NULL},
        {"objects", 0, "N", "shared memory objects of each range [64]", 1, 16384, 0, &o.objects,
         NULL}};
    const struct zr_args args = {PROGRAM, "", "[OPTIONS]", list, 6, &o.format};
    uint64_t size;
    int      status = zr_args_parse(&args, argc, argv);

    if (status >= 0) {
        return status;
    }
    table.format = o.format;
    zr_table_begin(&table);
    for (size = o.first; size <= o.last; size *= 2) {
        run_size(&o, size, &table);
    }
    zr_table_end(&table);
    return 0;
}
