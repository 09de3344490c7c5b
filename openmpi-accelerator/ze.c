/* Level Zero for the Open MPI components: one driver, its GPUs, one list of copies for each. */
/* SPDX-License-Identifier: BSD-3-Clause */
#include "ze.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

static struct zr_acc  the_acc;
static bool           ready;
static char           missing[160];
static pthread_once_t once = PTHREAD_ONCE_INIT;

static bool find_group(struct zr_acc_device *device)
{
    ze_command_queue_group_properties_t groups[16];
    uint32_t                            count = 16, k;
    bool                                found = false;

    memset(groups, 0, sizeof(groups));
    for (k = 0; k < 16; k++) {
        groups[k].stype = ZE_STRUCTURE_TYPE_COMMAND_QUEUE_GROUP_PROPERTIES;
    }
    if (zeDeviceGetCommandQueueGroupProperties(device->handle, &count, groups) !=
        ZE_RESULT_SUCCESS) {
        return false;
    }
    for (k = 0; k < count && k < 16; k++) {
        bool computes = groups[k].flags & ZE_COMMAND_QUEUE_GROUP_PROPERTY_FLAG_COMPUTE;

        if ((groups[k].flags & ZE_COMMAND_QUEUE_GROUP_PROPERTY_FLAG_COPY) && (!found || !computes)) {
            device->group = k;
            found         = true;
            if (!computes) {
                break; /* a group that only copies leaves the compute engines to the application */
            }
        }
    }
    return found;
}

static bool find_devices(struct zr_acc *acc, ze_driver_handle_t driver)
{
    ze_device_properties_t properties = {.stype = ZE_STRUCTURE_TYPE_DEVICE_PROPERTIES};
    ze_device_handle_t    *handles    = NULL;
    uint32_t               count      = 0, k;

    if (zeDeviceGet(driver, &count, NULL) != ZE_RESULT_SUCCESS || count == 0) {
        return false;
    }
    handles     = calloc(count, sizeof(*handles));
    acc->device = calloc(count, sizeof(*acc->device));
    if (handles == NULL || acc->device == NULL ||
        zeDeviceGet(driver, &count, handles) != ZE_RESULT_SUCCESS) {
        goto out;
    }
    for (k = 0; k < count; k++) {
        struct zr_acc_device *device = &acc->device[acc->count];

        device->handle = handles[k];
        if (zeDeviceGetProperties(handles[k], &properties) == ZE_RESULT_SUCCESS &&
            properties.type == ZE_DEVICE_TYPE_GPU && find_group(device)) {
            pthread_mutex_init(&device->lock, NULL);
            acc->count++;
        }
    }
out:
    free(handles);
    if (acc->count == 0) {
        free(acc->device);
        acc->device = NULL;
    }
    return acc->count > 0;
}

static void start(void)
{
    ze_context_desc_t  desc = {.stype = ZE_STRUCTURE_TYPE_CONTEXT_DESC};
    ze_driver_handle_t drivers[16];
    uint32_t           count = 16, k;
    void              *function;
    ze_result_t        result;

    result = zeInit(ZE_INIT_FLAG_GPU_ONLY);
    if (result != ZE_RESULT_SUCCESS) {
        snprintf(missing, sizeof(missing), "zeInit returned 0x%x", (unsigned)result);
        return;
    }
    if (zeDriverGet(&count, drivers) != ZE_RESULT_SUCCESS) {
        count = 0;
    }
    for (k = 0; k < count && k < 16 && !find_devices(&the_acc, drivers[k]); k++) {
    }
    if (the_acc.count == 0) {
        snprintf(missing, sizeof(missing), "none of %u Level Zero drivers has a GPU that copies",
                 count);
        return;
    }
    the_acc.driver = drivers[k];
    result         = zeContextCreate(the_acc.driver, &desc, &the_acc.context);
    if (result != ZE_RESULT_SUCCESS) {
        snprintf(missing, sizeof(missing), "zeContextCreate returned 0x%x", (unsigned)result);
        return;
    }
    the_acc.shares = zeDriverGetExtensionFunctionAddress(the_acc.driver, "zrSubscribeMappings",
                                                         &function) == ZE_RESULT_SUCCESS;
    ready = true;
}

const struct zr_acc *zr_acc_get(void)
{
    pthread_once(&once, start);
    return ready ? &the_acc : NULL;
}

const char *zr_acc_missing(void)
{
    return missing;
}

bool zr_acc_query(const void *ptr, struct zr_acc_memory *memory)
{
    ze_memory_allocation_properties_t properties = {
        .stype = ZE_STRUCTURE_TYPE_MEMORY_ALLOCATION_PROPERTIES};
    const struct zr_acc *acc    = zr_acc_get();
    ze_device_handle_t   device = NULL;
    uint32_t             k;

    memory->type     = ZE_MEMORY_TYPE_UNKNOWN;
    memory->reserved = false;
    if (acc == NULL || ptr == NULL ||
        zeMemGetAllocProperties(acc->context, ptr, &properties, &device) != ZE_RESULT_SUCCESS) {
        return false;
    }
    if (properties.type == ZE_MEMORY_TYPE_UNKNOWN) {
        memory->reserved = properties.pageSize != 0;
        return false;
    }
    memory->type   = properties.type;
    memory->id     = properties.id;
    memory->device = -1;
    for (k = 0; k < acc->count; k++) {
        if (acc->device[k].handle == device) {
            memory->device = (int)k;
        }
    }
    return true;
}

ze_result_t zr_acc_list_create(int device, ze_command_list_handle_t *list_p)
{
    const struct zr_acc    *acc  = zr_acc_get();
    ze_command_queue_desc_t desc = {.stype = ZE_STRUCTURE_TYPE_COMMAND_QUEUE_DESC,
                                    .flags = ZE_COMMAND_QUEUE_FLAG_IN_ORDER,
                                    .mode  = ZE_COMMAND_QUEUE_MODE_ASYNCHRONOUS};

    if (acc == NULL || device < 0 || (uint32_t)device >= acc->count) {
        return ZE_RESULT_ERROR_INVALID_ARGUMENT;
    }
    desc.ordinal = acc->device[device].group;
    return zeCommandListCreateImmediate(acc->context, acc->device[device].handle, &desc, list_p);
}

static bool copy_on(struct zr_acc_device *device, int index, void *dst, const void *src,
                    size_t size)
{
    const char *text   = NULL;
    ze_result_t result = ZE_RESULT_SUCCESS;

    pthread_mutex_lock(&device->lock);
    if (device->list == NULL) {
        result = zr_acc_list_create(index, &device->list);
    }
    if (result == ZE_RESULT_SUCCESS) {
        result = zeCommandListAppendMemoryCopy(device->list, dst, src, size, NULL, 0, NULL);
    }
    if (result == ZE_RESULT_SUCCESS) {
        result = zeCommandListHostSynchronize(device->list, UINT64_MAX);
    }
    pthread_mutex_unlock(&device->lock);
    if (result != ZE_RESULT_SUCCESS) {
        if (zeDriverGetLastErrorDescription(the_acc.driver, &text) != ZE_RESULT_SUCCESS ||
            text == NULL) {
            text = "";
        }
        fprintf(stderr, "zerange: copy of %zu bytes from %p to %p failed (0x%x): %s\n", size, src,
                dst, (unsigned)result, text);
    }
    return result == ZE_RESULT_SUCCESS;
}

bool zr_acc_copy(void *dst, const void *src, size_t size)
{
    struct zr_acc_memory to = {.device = -1}, from = {.device = -1};
    bool                 device_to, device_from;
    int                  index;

    if (size == 0) {
        return true;
    }
    device_to   = zr_acc_query(dst, &to) && to.type == ZE_MEMORY_TYPE_DEVICE;
    device_from = zr_acc_query(src, &from) && from.type == ZE_MEMORY_TYPE_DEVICE;
    if (!device_to && !device_from) {
        memcpy(dst, src, size);
        return true;
    }
    index = device_to && to.device >= 0 ? to.device : from.device;
    if (index < 0) {
        index = 0;
    }
    return copy_on(&the_acc.device[index], index, dst, src, size);
}

bool zr_acc_move(void *dst, const void *src, size_t size)
{
    uintptr_t d = (uintptr_t)dst, s = (uintptr_t)src;
    void     *through;
    bool      done;

    if (d + size <= s || s + size <= d) {
        return zr_acc_copy(dst, src, size);
    }
    if (d == s) {
        return true;
    }
    if (!zr_acc_is_device(dst)) {
        memmove(dst, src, size);
        return true;
    }
    through = malloc(size);
    if (through == NULL) {
        fprintf(stderr, "zerange: move of %zu bytes from %p to %p: no memory for the overlap\n",
                size, src, dst);
        return false;
    }
    done = zr_acc_copy(through, src, size) && zr_acc_copy(dst, through, size);
    free(through);
    return done;
}

/* ---- host memory that is kept ----
 *
 * The host's own, not Level Zero's: UCX with assertions aborts on ze-host memory (docs/ucx.md). A
 * driver that keeps its last pinned pages finds these again. */

#define HUGE_PAGE ((size_t)2 << 20)
#define KEPT ((size_t)64 << 20) /* bytes of blocks that nobody uses */

struct block {
    struct block *next;
    void         *ptr;
    size_t        size;
};

static struct block   *idle, *used;
static pthread_mutex_t blocks_lock = PTHREAD_MUTEX_INITIALIZER; /* of both lists */

static void block_free(struct block *block)
{
    free(block->ptr);
    free(block);
}

/* The smallest that is large enough, taken out of idle. */
static struct block *block_take(size_t size)
{
    struct block **at, **best = NULL, *block;

    for (at = &idle; *at != NULL; at = &(*at)->next) {
        if ((*at)->size >= size && (best == NULL || (*at)->size < (*best)->size)) {
            best = at;
        }
    }
    if (best == NULL) {
        return NULL;
    }
    block = *best;
    *best = block->next;
    return block;
}

static struct block *block_new(size_t size)
{
    struct block *block = malloc(sizeof(*block));

    if (block == NULL) {
        return NULL;
    }
    /* Others that are a little longer can use it too. */
    block->size = (size_t)64 << 10;
    while (block->size < size && block->size < KEPT) {
        block->size <<= 1;
    }
    if (block->size < size) {
        block->size = size;
    }
    if (posix_memalign(&block->ptr, block->size < HUGE_PAGE ? 4096 : HUGE_PAGE, block->size) != 0) {
        free(block);
        return NULL;
    }
    madvise(block->ptr, block->size, MADV_HUGEPAGE); /* a wish */
    return block;
}

void *zr_acc_host_get(size_t size)
{
    struct block *block;

    pthread_mutex_lock(&blocks_lock);
    block = block_take(size);
    if (block == NULL) {
        block = block_new(size);
    }
    if (block != NULL) {
        block->next = used;
        used        = block;
    }
    pthread_mutex_unlock(&blocks_lock);
    return block != NULL ? block->ptr : NULL;
}

/* The oldest of those that nobody uses go where there are too many. */
void zr_acc_host_put(void *ptr)
{
    struct block **at, *block, *next;
    size_t         kept = 0;

    if (ptr == NULL) {
        return;
    }
    pthread_mutex_lock(&blocks_lock);
    for (at = &used; (*at)->ptr != ptr; at = &(*at)->next) {
    }
    block       = *at;
    *at         = block->next;
    block->next = idle;
    idle        = block;
    for (at = &idle; *at != NULL && (kept += (*at)->size) <= KEPT; at = &(*at)->next) {
    }
    block = *at;
    *at   = NULL;
    pthread_mutex_unlock(&blocks_lock);
    for (; block != NULL; block = next) {
        next = block->next;
        block_free(block);
    }
}

void zr_acc_host_end(void)
{
    struct block *block, *next;

    for (block = idle; block != NULL; block = next) {
        next = block->next;
        block_free(block);
    }
    idle = NULL;
}
