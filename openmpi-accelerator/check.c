/* Checks of the buffers that MPI is given: see check.h. Memory that was checked is not asked for again
 * before some memory goes away. */
/* SPDX-License-Identifier: BSD-3-Clause */
#include "check.h"

#include "opal/datatype/opal_convertor.h"
#include "ompi/runtime/mpiruntime.h"
#include "ompi/mca/pml/pml.h"

#include <mpi.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/uio.h>
#include <unistd.h>
#include <zerange/zerange.h>

/* ---- what was freed ---- */

#define GONE_MAX 512 /* beyond it the lowest are forgotten: a text is lost, nothing else */

struct interval {
    uintptr_t start, end;
};

static pthread_mutex_t gone_lock = PTHREAD_MUTEX_INITIALIZER;
static struct interval gone[GONE_MAX]; /* in order, apart; under gone_lock */
static unsigned        gone_count;
/* Read without the lock: most memory of the host is outside of all of them. */
static uintptr_t gone_first, gone_last;
/* Changes with each unmap. */
static uint64_t generation = 1;

static void gone_publish(void)
{
    __atomic_store_n(&gone_first, gone_count > 0 ? gone[0].start : 0, __ATOMIC_RELAXED);
    __atomic_store_n(&gone_last, gone_count > 0 ? gone[gone_count - 1].end : 0, __ATOMIC_RELAXED);
}

/* The first that ends at or behind at. */
static unsigned gone_find(uintptr_t at)
{
    unsigned low = 0, high = gone_count;

    while (low < high) {
        unsigned middle = (low + high) / 2;

        if (gone[middle].end < at) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    return low;
}

static void gone_replace(unsigned k, unsigned old_count, const struct interval *with,
                         unsigned count)
{
    memmove(&gone[k + count], &gone[k + old_count],
            (gone_count - k - old_count) * sizeof(gone[0]));
    memcpy(&gone[k], with, count * sizeof(with[0]));
    gone_count = gone_count - old_count + count;
}

static void gone_add(uintptr_t start, uintptr_t end)
{
    struct interval one = {start, end};
    unsigned        k, n;

    k = gone_find(start);
    for (n = 0; k + n < gone_count && gone[k + n].start <= end; n++) {
        one.start = one.start < gone[k + n].start ? one.start : gone[k + n].start;
        one.end   = one.end > gone[k + n].end ? one.end : gone[k + n].end;
    }
    if (n == 0 && gone_count == GONE_MAX) {
        gone_replace(0, 1, NULL, 0);
        k -= k > 0;
    }
    gone_replace(k, n, &one, 1);
}

static void gone_remove(uintptr_t start, uintptr_t end)
{
    unsigned k = gone_find(start + 1);

    while (k < gone_count && gone[k].start < end) {
        struct interval rest[2];
        unsigned        n = 0;

        if (gone[k].start < start) {
            rest[n++] = (struct interval){gone[k].start, start};
        }
        if (gone[k].end > end && (n == 0 || gone_count < GONE_MAX)) {
            rest[n++] = (struct interval){end, gone[k].end};
        }
        gone_replace(k, 1, rest, n);
        k += n;
    }
}

static void on_mapping(void *arg, int mapped, void *ptr, size_t size, ze_memory_type_t type)
{
    uintptr_t start = (uintptr_t)ptr;

    pthread_mutex_lock(&gone_lock);
    if (mapped) {
        gone_remove(start, start + size);
    } else {
        gone_add(start, start + size);
        __atomic_fetch_add(&generation, 1, __ATOMIC_RELEASE);
    }
    gone_publish();
    pthread_mutex_unlock(&gone_lock);
}

static zr_pfnSubscribeMappings_t   subscribe;
static zr_pfnUnsubscribeMappings_t unsubscribe;
static bool                        told;

void zr_check_start(void)
{
    const struct zr_acc *acc = zr_acc_get();

    if (acc == NULL || told ||
        zeDriverGetExtensionFunctionAddress(acc->driver, "zrSubscribeMappings",
                                            (void **)&subscribe) != ZE_RESULT_SUCCESS ||
        zeDriverGetExtensionFunctionAddress(acc->driver, "zrUnsubscribeMappings",
                                            (void **)&unsubscribe) != ZE_RESULT_SUCCESS) {
        return;
    }
    told = subscribe(on_mapping, NULL) == ZE_RESULT_SUCCESS;
}

void zr_check_stop(void)
{
    if (told) {
        unsubscribe(on_mapping, NULL);
        told = false;
    }
}

/* Can the CPU read it? Then the address has become memory of the host. */
static bool readable(uintptr_t at)
{
    char         byte;
    struct iovec to = {&byte, 1}, from = {(void *)at, 1};

    return process_vm_readv(getpid(), &to, 1, &from, 1, 0) == 1;
}

/* The freed memory that holds at. */
static bool was_freed(uintptr_t at, struct interval *which)
{
    unsigned k;
    bool     found;

    if (at < __atomic_load_n(&gone_first, __ATOMIC_RELAXED) ||
        at >= __atomic_load_n(&gone_last, __ATOMIC_RELAXED)) {
        return false;
    }
    pthread_mutex_lock(&gone_lock);
    k     = gone_find(at + 1);
    found = k < gone_count && gone[k].start <= at;
    if (found) {
        *which = gone[k];
    }
    pthread_mutex_unlock(&gone_lock);
    return found && !readable(at);
}

/* ---- errors ---- */

#define TEXTS 8 /* of a class */

struct texts {
    int      mpi_class;
    int      code[TEXTS];
    unsigned next;
};

int zr_error(int mpi_class, const char *format, ...)
{
    static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
    static struct texts    all[4];
    char                   text[MPI_MAX_ERROR_STRING];
    struct texts          *texts = NULL;
    va_list                args;
    unsigned               k;
    int                    code;

    va_start(args, format);
    vsnprintf(text, sizeof(text), format, args);
    va_end(args);
    pthread_mutex_lock(&lock);
    for (k = 0; k < 4 && texts == NULL; k++) {
        if (all[k].mpi_class == mpi_class || all[k].mpi_class == MPI_SUCCESS) {
            texts            = &all[k];
            texts->mpi_class = mpi_class;
        }
    }
    code = mpi_class;
    if (texts != NULL) {
        k           = texts->next;
        texts->next = (k + 1) % TEXTS;
        if (texts->code[k] == 0 &&
            PMPI_Add_error_code(mpi_class, &texts->code[k]) != MPI_SUCCESS) {
            texts->code[k] = 0;
        }
        if (texts->code[k] != 0 && PMPI_Add_error_string(texts->code[k], text) == MPI_SUCCESS) {
            code = texts->code[k];
        }
    }
    pthread_mutex_unlock(&lock);
    if (code == mpi_class) {
        fprintf(stderr, "zerange: %s\n", text);
    }
    return code;
}

/* ---- checks ---- */

/* Device memory found mapped from end to end, good while nothing goes away. */
static __thread struct {
    struct interval bytes;
    uint64_t        generation;
} known[4];
static __thread unsigned known_next;

static bool is_known(uintptr_t start, uintptr_t end, uint64_t now)
{
    unsigned k;

    for (k = 0; k < 4; k++) {
        if (known[k].generation == now && known[k].bytes.start <= start &&
            end <= known[k].bytes.end) {
            return true;
        }
    }
    return false;
}

/* Where mapped memory ends, from start on. */
static uintptr_t mapped_until(uintptr_t start, uintptr_t end, uintptr_t *first)
{
    const struct zr_acc *acc = zr_acc_get();
    uintptr_t            at  = start;
    void                *base;
    size_t               size;

    *first = start;
    while (at < end && zeMemGetAddressRange(acc->context, (void *)at, &base, &size) ==
                           ZE_RESULT_SUCCESS) {
        if ((uintptr_t)base + size <= at) {
            break;
        }
        if (at == start) {
            *first = (uintptr_t)base;
        }
        at = (uintptr_t)base + size;
    }
    return at;
}

/* MPI_SUCCESS; 1: a hole, of which the rest speaks. */
static int look(uintptr_t start, uintptr_t end, struct interval *mapped, struct interval *freed)
{
    uint64_t             now = __atomic_load_n(&generation, __ATOMIC_ACQUIRE);
    struct zr_acc_memory memory;

    *mapped = *freed = (struct interval){0, 0};
    if (told && is_known(start, end, now)) {
        return MPI_SUCCESS;
    }
    if (!zr_acc_query((void *)start, &memory)) {
        if (was_freed(start, freed)) {
            return 1;
        }
        *freed = (struct interval){0, 0};
        return memory.reserved ? 1 : MPI_SUCCESS;
    }
    mapped->end = mapped_until(start, end, &mapped->start);
    if (mapped->end < end) {
        (void)was_freed(mapped->end, freed);
        return 1;
    }
    if (told) {
        known[known_next % 4].bytes      = *mapped;
        known[known_next % 4].generation = now;
        known_next++;
    }
    return MPI_SUCCESS;
}

#define P(address) (void *)(address)

static int complain(const char *what, uintptr_t start, uintptr_t end, const struct interval *mapped,
                    const struct interval *freed)
{
    size_t size = end - start;

    if (mapped->end == 0 && freed->end != 0) {
        return zr_error(MPI_ERR_BUFFER,
                        "%s: %zu bytes at %p: the device memory %p-%p was freed or unmapped", what,
                        size, P(start), P(freed->start), P(freed->end));
    }
    if (mapped->end == 0) {
        return zr_error(MPI_ERR_BUFFER,
                        "%s: %zu bytes at %p: the range is reserved, and nothing is mapped there",
                        what, size, P(start));
    }
    return zr_error(MPI_ERR_BUFFER,
                    "%s: %zu bytes at %p reach to %p: device memory is mapped at %p-%p, %s from %p "
                    "on",
                    what, size, P(start), P(end), P(mapped->start), P(mapped->end),
                    freed->end != 0 ? "freed or unmapped" : "nothing", P(mapped->end));
}

int zr_check_bytes(const char *what, const void *start, size_t size)
{
    uintptr_t       from = (uintptr_t)start;
    struct interval mapped, freed;

    if (size == 0 || zr_acc_get() == NULL ||
        look(from, from + size, &mapped, &freed) == MPI_SUCCESS) {
        return MPI_SUCCESS;
    }
    return complain(what, from, from + size, &mapped, &freed);
}

size_t zr_span(size_t count, const ompi_datatype_t *dtype, ptrdiff_t *first)
{
    const opal_datatype_t *type   = &dtype->super;
    ptrdiff_t              extent = type->ub - type->lb, rest;

    if (count == 0 || type->size == 0) {
        *first = 0;
        return 0;
    }
    rest   = extent * (ptrdiff_t)(count - 1);
    *first = type->true_lb + (rest < 0 ? rest : 0);
    return (size_t)(type->true_ub - type->true_lb + (rest < 0 ? -rest : rest));
}

/* A piece that is no device memory although the type began in some is host memory, or nothing. */
static int check_stray(const char *what, const void *buffer, const struct iovec *piece)
{
    uintptr_t            start = (uintptr_t)piece->iov_base;
    struct zr_acc_memory memory;

    if (piece->iov_len == 0 || zr_acc_query(piece->iov_base, &memory) ||
        (readable(start) && readable(start + piece->iov_len - 1))) {
        return MPI_SUCCESS;
    }
    return zr_error(MPI_ERR_BUFFER,
                    "%s: the type at %p reaches to %p, %zu bytes: from there on nothing is mapped",
                    what, buffer, piece->iov_base, piece->iov_len);
}

/* A type with gaps may lie on memory with gaps: each of its pieces. */
static int check_pieces(const char *what, const void *buffer, size_t count,
                        const ompi_datatype_t *dtype)
{
    opal_convertor_t convertor;
    struct iovec     pieces[64];
    uint32_t         n, k;
    size_t           size;
    int              rc = MPI_SUCCESS, done = 0;

    OBJ_CONSTRUCT(&convertor, opal_convertor_t);
    if (opal_convertor_copy_and_prepare_for_send(ompi_mpi_local_convertor, &dtype->super, count,
                                                 buffer, 0, &convertor) != OPAL_SUCCESS) {
        OBJ_DESTRUCT(&convertor);
        return zr_error(MPI_ERR_TYPE, "%s: the type cannot be taken apart", what);
    }
    while (rc == MPI_SUCCESS && !done) {
        n    = 64;
        done = opal_convertor_raw(&convertor, pieces, &n, &size);
        for (k = 0; k < n && rc == MPI_SUCCESS; k++) {
            rc = zr_check_bytes(what, pieces[k].iov_base, pieces[k].iov_len);
            if (rc == MPI_SUCCESS) {
                rc = check_stray(what, buffer, &pieces[k]);
            }
        }
    }
    opal_convertor_cleanup(&convertor);
    OBJ_DESTRUCT(&convertor);
    return rc;
}

int zr_check_buffer(const char *what, const void *buffer, size_t count,
                    const ompi_datatype_t *dtype)
{
    struct interval mapped, freed;
    ptrdiff_t       first;
    size_t          size  = zr_span(count, dtype, &first);
    uintptr_t       start = (uintptr_t)buffer + (uintptr_t)first;

    if (size == 0 || zr_acc_get() == NULL ||
        look(start, start + size, &mapped, &freed) == MPI_SUCCESS) {
        return MPI_SUCCESS;
    }
    if (opal_datatype_is_contiguous_memory_layout(&dtype->super, count > 1 ? 2 : 1)) {
        return complain(what, start, start + size, &mapped, &freed);
    }
    return check_pieces(what, buffer, count, dtype);
}
