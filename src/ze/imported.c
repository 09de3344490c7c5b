/* Host pointers that a client has declared with zexDriverImportExternalPointer, as Intel's driver
 * has it and MPICH asks for it. Copies pin and remember host memory by themselves (hostmem.c), so
 * that here a declaration is only kept, and answered for. */
/* SPDX-License-Identifier: BSD-3-Clause */
#include "ze.h"

#include <pthread.h>
#include <stdlib.h>

struct zr_imported {
    uintptr_t base, end;
};

static pthread_mutex_t     lock = PTHREAD_MUTEX_INITIALIZER; /* guards all below */
static struct zr_imported *imported;
static size_t              count, room;

/* The first that overlaps [base, end), or NULL. The lock is held. */
static struct zr_imported *zr_imported_find(uintptr_t base, uintptr_t end)
{
    for (size_t i = 0; i < count; i++) {
        if (imported[i].base < end && base < imported[i].end) {
            return &imported[i];
        }
    }
    return NULL;
}

static ze_result_t zr_imported_add(uintptr_t base, uintptr_t end)
{
    const struct zr_imported *there = zr_imported_find(base, end);
    struct zr_imported       *grown;

    if (there != NULL && there->base <= base && end <= there->end) {
        return ZE_RESULT_SUCCESS;
    }
    if (there != NULL) {
        return zr_fail(ZE_RESULT_ERROR_OVERLAPPING_REGIONS,
                       "import 0x%zx..0x%zx: 0x%zx..0x%zx is imported", (size_t)base, (size_t)end,
                       (size_t)there->base, (size_t)there->end);
    }
    if (count == room) {
        grown = realloc(imported, (room * 2 + 8) * sizeof(*imported));
        if (grown == NULL) {
            return zr_fail(ZE_RESULT_ERROR_OUT_OF_HOST_MEMORY, "import 0x%zx..0x%zx: no memory",
                           (size_t)base, (size_t)end);
        }
        imported = grown;
        room     = room * 2 + 8;
    }
    imported[count++] = (struct zr_imported){base, end};
    return ZE_RESULT_SUCCESS;
}

ze_result_t ZE_APICALL zr_import_pointer(ze_driver_handle_t hDriver, void *ptr, size_t size)
{
    ze_result_t result;

    ZR_CHECK_HANDLE(hDriver, ZR_KIND_DRIVER);
    ZR_CHECK_POINTER(ptr);
    if (size == 0 || size > UINTPTR_MAX - (uintptr_t)ptr) {
        return zr_fail(ZE_RESULT_ERROR_INVALID_SIZE, "import %p: %zu bytes", ptr, size);
    }
    pthread_mutex_lock(&lock);
    result = zr_imported_add((uintptr_t)ptr, (uintptr_t)ptr + size);
    pthread_mutex_unlock(&lock);
    return result;
}

ze_result_t ZE_APICALL zr_release_pointer(ze_driver_handle_t hDriver, void *ptr)
{
    struct zr_imported *there;
    ze_result_t         result = ZE_RESULT_SUCCESS;

    ZR_CHECK_HANDLE(hDriver, ZR_KIND_DRIVER);
    ZR_CHECK_POINTER(ptr);
    pthread_mutex_lock(&lock);
    there = zr_imported_find((uintptr_t)ptr, (uintptr_t)ptr + 1);
    if (there == NULL || there->base != (uintptr_t)ptr) {
        result = zr_fail(ZE_RESULT_ERROR_INVALID_ARGUMENT, "release %p: nothing imported starts "
                         "there", ptr);
    } else {
        *there = imported[--count];
    }
    pthread_mutex_unlock(&lock);
    return result;
}

ze_result_t ZE_APICALL zr_imported_base(ze_driver_handle_t hDriver, void *ptr, void **base)
{
    const struct zr_imported *there;
    ze_result_t               result = ZE_RESULT_SUCCESS;

    ZR_CHECK_HANDLE(hDriver, ZR_KIND_DRIVER);
    pthread_mutex_lock(&lock);
    there = zr_imported_find((uintptr_t)ptr, (uintptr_t)ptr + 1);
    if (there == NULL) {
        result = zr_fail(ZE_RESULT_ERROR_INVALID_ARGUMENT, "%p is not in an imported range", ptr);
    } else if (base != NULL) {
        *base = (void *)there->base;
    }
    pthread_mutex_unlock(&lock);
    return result;
}
