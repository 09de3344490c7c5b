/* Lets ucx_perftest use Level Zero memory where UCX brings no such module (before 1.19), with
 * LD_PRELOAD: fills ucx_perftest's table of memory types. In any other program it does nothing. */
/* SPDX-License-Identifier: BSD-3-Clause */
#include <level_zero/ze_api.h>
#include <stdlib.h>
#include <uct/api/uct.h>

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
        zeDeviceGet(driver, &count, &device) != ZE_RESULT_SUCCESS || count == 0 ||
        zeContextCreate(driver, &context_desc, &context) != ZE_RESULT_SUCCESS ||
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
