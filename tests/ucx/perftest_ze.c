/* Preloaded into ucx_perftest. Where UCX has no module for Level Zero memory (before 1.19, or
 * disabled) this is one; and with PERFTEST_OBJECTS=N the device memory that our ze_copy allocates
 * for it is a range of N physical objects instead. With PERFTEST_SEED=S as well, S a digit, the
 * ranges of this process begin as patterns S.0, S.1, ... and when they are freed it is said which
 * pattern each begins with then, how far that goes, and how much its own does not follow at
 * once (a test's counter). */
/* SPDX-License-Identifier: BSD-3-Clause */
#include "zegroup.h"

#include <dlfcn.h>
#include <level_zero/ze_api.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <uct/api/uct.h>

#define EXPORT     __attribute__((visibility("default")))
#define MAX_RANGES 16

struct allocator {
    ucs_memory_type_t type;
    ucs_status_t (*init)(void *perf);
    ucs_status_t (*uct_alloc)(void);
    ucs_status_t (*uct_free)(void);
    void (*copy)(void *to, ucs_memory_type_t to_type, const void *from,
                 ucs_memory_type_t from_type, size_t size);
    void *(*set)(void *to, int value, size_t size);
};

extern const struct allocator *ucx_perf_mem_type_allocators[] __attribute__((weak));

/* ---- the module ---- */

static ze_command_list_handle_t list;

static ucs_status_t init(void *perf)
{
    ze_context_desc_t       context_desc = {.stype = ZE_STRUCTURE_TYPE_CONTEXT_DESC};
    ze_command_queue_desc_t queue_desc   = {.stype = ZE_STRUCTURE_TYPE_COMMAND_QUEUE_DESC,
                                            .mode  = ZE_COMMAND_QUEUE_MODE_SYNCHRONOUS};
    ze_driver_handle_t      driver;
    ze_device_handle_t      device;
    ze_context_handle_t     context;
    uint32_t                count = 1;

    if (list != NULL) {
        return UCS_OK;
    }
    if (zeInit(ZE_INIT_FLAG_GPU_ONLY) != ZE_RESULT_SUCCESS ||
        zeDriverGet(&count, &driver) != ZE_RESULT_SUCCESS || count == 0 ||
        zeDeviceGet(driver, &count, &device) != ZE_RESULT_SUCCESS || count == 0) {
        return UCS_ERR_NO_DEVICE;
    }
    queue_desc.ordinal = zegroup_copy(device);
    if (zeContextCreate(driver, &context_desc, &context) != ZE_RESULT_SUCCESS ||
        zeCommandListCreateImmediate(context, device, &queue_desc, &list) != ZE_RESULT_SUCCESS) {
        return UCS_ERR_NO_DEVICE;
    }
    return UCS_OK;
}

/* Memory of UCP's tests comes from a memory domain; UCT's own tests are not served. */
static ucs_status_t unsupported(void)
{
    return UCS_ERR_UNSUPPORTED;
}

static void copy(void *to, ucs_memory_type_t to_type, const void *from,
                 ucs_memory_type_t from_type, size_t size)
{
    if (zeCommandListAppendMemoryCopy(list, to, from, size, NULL, 0, NULL) != ZE_RESULT_SUCCESS) {
        exit(1);
    }
}

static void *set(void *to, int value, size_t size)
{
    unsigned char pattern = (unsigned char)value;

    if (zeCommandListAppendMemoryFill(list, to, &pattern, 1, size, NULL, 0, NULL) !=
        ZE_RESULT_SUCCESS) {
        exit(1);
    }
    return to;
}

__attribute__((constructor)) static void fill_table(void)
{
    static const struct allocator device = {
        UCS_MEMORY_TYPE_ZE_DEVICE, init, unsupported, unsupported, copy, set};

    if (ucx_perf_mem_type_allocators != NULL &&
        ucx_perf_mem_type_allocators[UCS_MEMORY_TYPE_ZE_DEVICE] == NULL) {
        ucx_perf_mem_type_allocators[UCS_MEMORY_TYPE_ZE_DEVICE] = &device;
    }
}

/* ---- device memory that is a range of several objects ---- */

static struct range {
    char                     *ptr;
    size_t                    size;
    unsigned                  objects, index;
    ze_physical_mem_handle_t *phys;
} ranges[MAX_RANGES];
static pthread_mutex_t    ranges_lock = PTHREAD_MUTEX_INITIALIZER;
static unsigned           ranges_made;
static ze_device_handle_t the_device; /* of all ranges */

/* 0: none */
static unsigned seed_wanted(void)
{
    const char *text = getenv("PERFTEST_SEED");

    return text != NULL ? (unsigned)atoi(text) % 10 : 0;
}

/* ---- what ranges hold ---- */

static unsigned char pattern_byte(unsigned seed, unsigned index, size_t offset)
{
    return (unsigned char)((offset * 2654435761u >> 15) + offset + 53 * seed + 101 * index);
}

/* How many bytes at the beginning are those of the pattern. */
static size_t same_start(const unsigned char *bytes, size_t size, unsigned seed, unsigned index)
{
    size_t k;

    for (k = 0; k < size && bytes[k] == pattern_byte(seed, index, k); k++) {
    }
    return k;
}

/* The same at the end, not before @a from. */
static size_t same_end(const unsigned char *bytes, size_t from, size_t size, unsigned seed,
                       unsigned index)
{
    size_t k;

    for (k = size; k > from && bytes[k - 1] == pattern_byte(seed, index, k - 1); k--) {
    }
    return size - k;
}

/* Between host memory and a range. */
static void move(ze_context_handle_t context, void *to, const void *from, size_t size)
{
    ze_command_queue_desc_t  desc = {.stype   = ZE_STRUCTURE_TYPE_COMMAND_QUEUE_DESC,
                                     .ordinal = zegroup_copy(the_device),
                                     .mode    = ZE_COMMAND_QUEUE_MODE_SYNCHRONOUS};
    ze_command_list_handle_t mover;

    if (zeCommandListCreateImmediate(context, the_device, &desc, &mover) != ZE_RESULT_SUCCESS ||
        zeCommandListAppendMemoryCopy(mover, to, from, size, NULL, 0, NULL) != ZE_RESULT_SUCCESS) {
        fprintf(stderr, "perftest: a range cannot be copied\n");
        exit(1);
    }
    zeCommandListDestroy(mover);
}

static void fill_range(ze_context_handle_t context, const struct range *range)
{
    unsigned char *bytes = malloc(range->size);
    size_t         k;

    for (k = 0; bytes != NULL && k < range->size; k++) {
        bytes[k] = pattern_byte(seed_wanted(), range->index, k);
    }
    if (bytes != NULL) {
        move(context, range->ptr, bytes, range->size);
    }
    free(bytes);
}

static void tell_range(ze_context_handle_t context, const struct range *range)
{
    unsigned char *bytes = malloc(range->size);
    size_t         n, most = 0;
    unsigned       k, best = 0;

    if (bytes == NULL) {
        return;
    }
    move(context, bytes, range->ptr, range->size);
    for (k = 0; k < 10 * MAX_RANGES; k++) {
        n = same_start(bytes, range->size, k / MAX_RANGES, k % MAX_RANGES);
        if (n > most) {
            most = n;
            best = k;
        }
    }
    n = same_end(bytes, most, range->size, seed_wanted(), range->index);
    fprintf(stderr,
            "perftest: range %u.%u of %u objects: %zu bytes of %u.%u, %zu others, then its own\n",
            seed_wanted(), range->index, range->objects, most, best / MAX_RANGES, best % MAX_RANGES,
            range->size - most - n);
    free(bytes);
}

/* ---- ranges ---- */

static unsigned objects_wanted(void)
{
    const char *text = getenv("PERFTEST_OBJECTS");

    return text != NULL ? (unsigned)atoi(text) : 0;
}

static ze_result_t map_objects(ze_context_handle_t context, ze_device_handle_t device,
                               struct range *range, size_t object_size)
{
    ze_physical_mem_desc_t desc = {.stype = ZE_STRUCTURE_TYPE_PHYSICAL_MEM_DESC,
                                   .flags = ZE_PHYSICAL_MEM_FLAG_ALLOCATE_ON_DEVICE,
                                   .size  = object_size};
    ze_result_t            result = ZE_RESULT_SUCCESS;
    unsigned               k;

    for (k = 0; k < range->objects && result == ZE_RESULT_SUCCESS; k++) {
        result = zePhysicalMemCreate(context, device, &desc, &range->phys[k]);
        if (result == ZE_RESULT_SUCCESS) {
            result = zeVirtualMemMap(context, range->ptr + k * object_size, object_size,
                                     range->phys[k], 0, ZE_MEMORY_ACCESS_ATTRIBUTE_READWRITE);
        }
    }
    return result;
}

/* Nothing is undone on failure: ucx_perftest ends then. */
static ze_result_t range_make(ze_context_handle_t context, ze_device_handle_t device, size_t size,
                              unsigned objects, void **ptr_p)
{
    size_t        page = 0, object_size;
    struct range *range = NULL;
    void         *ptr;
    ze_result_t   result;
    unsigned      k;

    result = zeVirtualMemQueryPageSize(context, device, size / objects + 1, &page);
    if (result != ZE_RESULT_SUCCESS) {
        return result;
    }
    object_size = ((size + objects - 1) / objects + page - 1) / page * page;
    for (k = 0; k < MAX_RANGES && range == NULL; k++) {
        range = ranges[k].ptr == NULL ? &ranges[k] : NULL;
    }
    if (range == NULL || (range->phys = calloc(objects, sizeof(*range->phys))) == NULL) {
        return ZE_RESULT_ERROR_OUT_OF_HOST_MEMORY;
    }
    range->objects = objects;
    range->size    = objects * object_size;
    result         = zeVirtualMemReserve(context, NULL, range->size, &ptr);
    if (result == ZE_RESULT_SUCCESS) {
        range->ptr = ptr;
        result     = map_objects(context, device, range, object_size);
    }
    if (result == ZE_RESULT_SUCCESS) {
        *ptr_p       = ptr;
        the_device   = device;
        range->index = ranges_made++ % MAX_RANGES;
        if (seed_wanted() != 0) {
            fill_range(context, range);
        }
        fprintf(stderr, "perftest: %zu bytes at %p are %u objects of %zu\n", size, ptr, objects,
                object_size);
    }
    return result;
}

static void range_free(ze_context_handle_t context, struct range *range)
{
    size_t   object_size = range->size / range->objects;
    unsigned k;

    if (seed_wanted() != 0) {
        tell_range(context, range);
    }
    for (k = 0; k < range->objects; k++) {
        zeVirtualMemUnmap(context, range->ptr + k * object_size, object_size);
        zePhysicalMemDestroy(context, range->phys[k]);
    }
    zeVirtualMemFree(context, range->ptr, range->size);
    free(range->phys);
    range->ptr = NULL;
}

EXPORT ze_result_t ZE_APICALL zeMemAllocDevice(ze_context_handle_t context,
                                               const ze_device_mem_alloc_desc_t *desc,
                                               size_t size, size_t alignment,
                                               ze_device_handle_t device, void **ptr_p)
{
    unsigned    objects = objects_wanted();
    ze_result_t result;

    if (objects == 0) {
        __typeof__(&zeMemAllocDevice) next = dlsym(RTLD_NEXT, __func__);

        return next(context, desc, size, alignment, device, ptr_p);
    }
    pthread_mutex_lock(&ranges_lock);
    result = range_make(context, device, size, objects, ptr_p);
    pthread_mutex_unlock(&ranges_lock);
    return result;
}

EXPORT ze_result_t ZE_APICALL zeMemFree(ze_context_handle_t context, void *ptr)
{
    __typeof__(&zeMemFree) next  = dlsym(RTLD_NEXT, __func__);
    struct range          *range = NULL;
    unsigned               k;

    pthread_mutex_lock(&ranges_lock);
    for (k = 0; k < MAX_RANGES && range == NULL; k++) {
        range = ptr != NULL && ranges[k].ptr == ptr ? &ranges[k] : NULL;
    }
    if (range != NULL) {
        range_free(context, range);
    }
    pthread_mutex_unlock(&ranges_lock);
    return range != NULL ? ZE_RESULT_SUCCESS : next(context, ptr);
}
