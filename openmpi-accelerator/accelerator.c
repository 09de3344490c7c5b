/* Open MPI accelerator component: the framework's functions on the Level Zero API. Open MPI 5 and 6;
 * members that only 6 has are under ZR_OMPI_6. */
/* SPDX-License-Identifier: BSD-3-Clause */
#include "ze.h"
#include "component.h"

#include "opal_config.h"

#include "opal/constants.h"
#include "opal/mca/accelerator/accelerator.h"
#include "opal/mca/accelerator/base/base.h"
#include "ompi/version.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <zerange/zerange.h>

#define ZR_OMPI_6 (OMPI_MAJOR_VERSION >= 6)

/* The default stream of a caller that names none. */
#define DEFAULT_STREAM ((opal_accelerator_stream_t *)0x00000002)

typedef struct {
    opal_accelerator_stream_t super;
    ze_command_list_handle_t  list;
} zr_stream_t;

typedef struct {
    opal_accelerator_event_t super;
    ze_event_pool_handle_t   pool;
    bool                     opened; /* another process's pool */
    ze_event_handle_t        event;
} zr_event_t;

static void stream_destruct(zr_stream_t *stream)
{
    if (stream->list != NULL) {
        zeCommandListHostSynchronize(stream->list, UINT64_MAX);
        zeCommandListDestroy(stream->list);
    }
}

static void event_destruct(zr_event_t *event)
{
    if (event->event != NULL) {
        zeEventDestroy(event->event);
    }
    if (event->pool != NULL && event->opened) {
        zeEventPoolCloseIpcHandle(event->pool);
    } else if (event->pool != NULL) {
        zeEventPoolDestroy(event->pool);
    }
}

static void stream_construct(zr_stream_t *stream)
{
    stream->list = NULL;
}

static void event_construct(zr_event_t *event)
{
    event->pool   = NULL;
    event->opened = false;
    event->event  = NULL;
}

static OBJ_CLASS_INSTANCE(zr_stream_t, opal_accelerator_stream_t, stream_construct,
                          stream_destruct);
static OBJ_CLASS_INSTANCE(zr_event_t, opal_accelerator_event_t, event_construct, event_destruct);

/* Says what failed; the framework has only numbers. */
static int failed(const char *what, ze_result_t result)
{
    if (result == ZE_RESULT_SUCCESS) {
        return OPAL_SUCCESS;
    }
    fprintf(stderr, "zerange: accelerator: %s returned 0x%x\n", what, (unsigned)result);
    return result == ZE_RESULT_ERROR_OUT_OF_DEVICE_MEMORY ||
                   result == ZE_RESULT_ERROR_OUT_OF_HOST_MEMORY ?
               OPAL_ERR_OUT_OF_RESOURCE :
               OPAL_ERROR;
}

static int device_index(int dev_id)
{
    return dev_id == MCA_ACCELERATOR_NO_DEVICE_ID ? 0 : dev_id;
}

static bool device_is_valid(int dev_id)
{
    const struct zr_acc *acc = zr_acc_get();

    return acc != NULL && dev_id >= 0 && (uint32_t)dev_id < acc->count;
}

static int check_addr(const void *addr, int *dev_id, uint64_t *flags)
{
    struct zr_acc_memory memory;

    *dev_id = MCA_ACCELERATOR_NO_DEVICE_ID;
    *flags  = 0;
    if (!zr_acc_query(addr, &memory) || memory.type == ZE_MEMORY_TYPE_HOST) {
        return 0;
    }
    *dev_id = memory.device;
    if (memory.type == ZE_MEMORY_TYPE_SHARED) {
        *flags |= MCA_ACCELERATOR_FLAGS_UNIFIED_MEMORY;
    }
    return 1;
}

/* ---- streams ---- */

static int create_stream(int dev_id, opal_accelerator_stream_t **stream_p)
{
    zr_stream_t *stream;
    int          rc;

    if (stream_p == NULL || !device_is_valid(device_index(dev_id))) {
        return OPAL_ERR_BAD_PARAM;
    }
    stream = OBJ_NEW(zr_stream_t);
    if (stream == NULL) {
        return OPAL_ERR_OUT_OF_RESOURCE;
    }
    rc = failed("zeCommandListCreateImmediate",
                zr_acc_list_create(device_index(dev_id), &stream->list));
    if (rc != OPAL_SUCCESS) {
        OBJ_RELEASE(stream);
        return rc;
    }
    stream->super.stream = stream->list;
    *stream_p            = &stream->super;
    return OPAL_SUCCESS;
}

/* The list of a stream; the default one lives as long as the component. */
static opal_accelerator_stream_t *default_stream;
static pthread_mutex_t            default_lock = PTHREAD_MUTEX_INITIALIZER;

static ze_command_list_handle_t list_of(opal_accelerator_stream_t *stream)
{
    if (stream == NULL) {
        return NULL;
    }
    if (stream == DEFAULT_STREAM) {
        pthread_mutex_lock(&default_lock);
        if (default_stream == NULL &&
            create_stream(MCA_ACCELERATOR_NO_DEVICE_ID, &default_stream) != OPAL_SUCCESS) {
            default_stream = NULL;
        }
        stream = default_stream;
        pthread_mutex_unlock(&default_lock);
    }
    return stream != NULL ? ((zr_stream_t *)stream)->list : NULL;
}

static int sync_stream(opal_accelerator_stream_t *stream)
{
    ze_command_list_handle_t list = list_of(stream);

    return list == NULL ? OPAL_ERR_BAD_PARAM :
                          failed("zeCommandListHostSynchronize",
                                 zeCommandListHostSynchronize(list, UINT64_MAX));
}

/* ---- events ---- */

static int new_event(int dev_id, opal_accelerator_event_t **event_p, bool shared)
{
    const struct zr_acc  *acc  = zr_acc_get();
    ze_event_pool_desc_t  pool = {.stype = ZE_STRUCTURE_TYPE_EVENT_POOL_DESC,
                                  .flags = ZE_EVENT_POOL_FLAG_HOST_VISIBLE,
                                  .count = 1};
    ze_event_desc_t       desc = {.stype  = ZE_STRUCTURE_TYPE_EVENT_DESC,
                                  .signal = ZE_EVENT_SCOPE_FLAG_HOST,
                                  .wait   = ZE_EVENT_SCOPE_FLAG_HOST};
    zr_event_t           *event;
    ze_result_t           result;

    if (event_p == NULL || !device_is_valid(device_index(dev_id))) {
        return OPAL_ERR_BAD_PARAM;
    }
    if (shared) {
        pool.flags |= ZE_EVENT_POOL_FLAG_IPC;
    }
    event = OBJ_NEW(zr_event_t);
    if (event == NULL) {
        return OPAL_ERR_OUT_OF_RESOURCE;
    }
    result = zeEventPoolCreate(acc->context, &pool, 1, &acc->device[device_index(dev_id)].handle,
                               &event->pool);
    if (result == ZE_RESULT_SUCCESS) {
        result = zeEventCreate(event->pool, &desc, &event->event);
    }
    if (result != ZE_RESULT_SUCCESS) {
        OBJ_RELEASE(event);
        return failed("creating an event", result);
    }
    event->super.event = event->event;
    *event_p           = &event->super;
    return OPAL_SUCCESS;
}

#if ZR_OMPI_6
static int create_event(int dev_id, opal_accelerator_event_t **event_p, bool enable_ipc)
{
    return new_event(dev_id, event_p, enable_ipc);
}
#else
static int create_event(int dev_id, opal_accelerator_event_t **event_p)
{
    return new_event(dev_id, event_p, false);
}
#endif

static int record_event(int dev_id, opal_accelerator_event_t *event,
                        opal_accelerator_stream_t *stream)
{
    ze_command_list_handle_t list = list_of(stream);
    ze_event_handle_t        handle;
    ze_result_t              result;

    if (event == NULL || list == NULL) {
        return OPAL_ERR_BAD_PARAM;
    }
    handle = ((zr_event_t *)event)->event;
    result = zeEventHostReset(handle);
    if (result == ZE_RESULT_SUCCESS) {
        result = zeCommandListAppendSignalEvent(list, handle);
    }
    return failed("recording an event", result);
}

static int query_event(int dev_id, opal_accelerator_event_t *event)
{
    ze_result_t result;

    if (event == NULL) {
        return OPAL_ERR_BAD_PARAM;
    }
    result = zeEventQueryStatus(((zr_event_t *)event)->event);
    return result == ZE_RESULT_NOT_READY ? OPAL_ERR_RESOURCE_BUSY :
                                           failed("zeEventQueryStatus", result);
}

#if ZR_OMPI_6
static int wait_event(int dev_id, opal_accelerator_event_t *event,
                      opal_accelerator_stream_t *stream)
{
    ze_command_list_handle_t list = list_of(stream);

    if (event == NULL || list == NULL) {
        return OPAL_ERR_BAD_PARAM;
    }
    return failed("zeCommandListAppendWaitOnEvents",
                  zeCommandListAppendWaitOnEvents(list, 1, &((zr_event_t *)event)->event));
}
#endif

/* ---- copies ---- */

static int copy_async(int dest_dev_id, int src_dev_id, void *dest, const void *src, size_t size,
                      opal_accelerator_stream_t *stream, opal_accelerator_transfer_type_t type)
{
    ze_command_list_handle_t list = list_of(stream);

    if (list == NULL || dest == NULL || src == NULL) {
        return OPAL_ERR_BAD_PARAM;
    }
    return size == 0 ? OPAL_SUCCESS :
                       failed("zeCommandListAppendMemoryCopy",
                              zeCommandListAppendMemoryCopy(list, dest, src, size, NULL, 0, NULL));
}

static int copy(int dest_dev_id, int src_dev_id, void *dest, const void *src, size_t size,
                opal_accelerator_transfer_type_t type)
{
    if (dest == NULL || src == NULL) {
        return size == 0 ? OPAL_SUCCESS : OPAL_ERR_BAD_PARAM;
    }
    if (type == MCA_ACCELERATOR_TRANSFER_HTOH) {
        memcpy(dest, src, size);
        return OPAL_SUCCESS;
    }
    return zr_acc_copy(dest, src, size) ? OPAL_SUCCESS : OPAL_ERROR;
}

static int move(int dest_dev_id, int src_dev_id, void *dest, const void *src, size_t size,
                opal_accelerator_transfer_type_t type)
{
    if (dest == NULL || src == NULL) {
        return size == 0 ? OPAL_SUCCESS : OPAL_ERR_BAD_PARAM;
    }
    if (type == MCA_ACCELERATOR_TRANSFER_HTOH) {
        memmove(dest, src, size);
        return OPAL_SUCCESS;
    }
    return zr_acc_move(dest, src, size) ? OPAL_SUCCESS : OPAL_ERROR;
}

#if ZR_OMPI_6
static int move_async(int dest_dev_id, int src_dev_id, void *dest, const void *src, size_t size,
                      opal_accelerator_stream_t *stream, opal_accelerator_transfer_type_t type)
{
    uintptr_t d = (uintptr_t)dest, s = (uintptr_t)src;
    int       rc;

    if (d + size <= s || s + size <= d) {
        return copy_async(dest_dev_id, src_dev_id, dest, src, size, stream, type);
    }
    /* An overlap goes through memory that must outlive the copy: in order with the stream. */
    rc = sync_stream(stream);
    return rc != OPAL_SUCCESS ? rc : move(dest_dev_id, src_dev_id, dest, src, size, type);
}
#endif

/* ---- memory ---- */

static int mem_alloc(int dev_id, void **ptr, size_t size)
{
    const struct zr_acc        *acc  = zr_acc_get();
    ze_device_mem_alloc_desc_t  desc = {.stype = ZE_STRUCTURE_TYPE_DEVICE_MEM_ALLOC_DESC};

    if (ptr == NULL || size == 0 || !device_is_valid(device_index(dev_id))) {
        return OPAL_ERR_BAD_PARAM;
    }
    return failed("zeMemAllocDevice",
                  zeMemAllocDevice(acc->context, &desc, size, 64,
                                   acc->device[device_index(dev_id)].handle, ptr));
}

static int mem_release(int dev_id, void *ptr)
{
    return ptr == NULL ? OPAL_SUCCESS : failed("zeMemFree", zeMemFree(zr_acc_get()->context, ptr));
}

#if ZR_OMPI_6
static int mem_alloc_stream(int dev_id, void **ptr, size_t size, opal_accelerator_stream_t *stream)
{
    return list_of(stream) == NULL ? OPAL_ERR_BAD_PARAM : mem_alloc(dev_id, ptr, size);
}

static int mem_release_stream(int dev_id, void *ptr, opal_accelerator_stream_t *stream)
{
    int rc = sync_stream(stream);

    return rc != OPAL_SUCCESS ? rc : mem_release(dev_id, ptr);
}
#endif

static int get_address_range(int dev_id, const void *ptr, void **base, size_t *size)
{
    void       *start;
    size_t      length;
    ze_result_t result;

    if (ptr == NULL || base == NULL || size == NULL) {
        return OPAL_ERR_BAD_PARAM;
    }
    result = zeMemGetAddressRange(zr_acc_get()->context, ptr, &start, &length);
    if (result == ZE_RESULT_SUCCESS) {
        *base = start;
        *size = length;
    }
    return failed("zeMemGetAddressRange", result);
}

static int get_buffer_id(int dev_id, const void *addr, opal_accelerator_buffer_id_t *buf_id)
{
    struct zr_acc_memory memory;

    if (buf_id == NULL || !zr_acc_query(addr, &memory)) {
        return OPAL_ERR_BAD_PARAM;
    }
    *buf_id = memory.id;
    return OPAL_SUCCESS;
}

/* The driver pins host memory as a copy needs it; there is nothing to do ahead. */
static int host_register(int dev_id, void *ptr, size_t size)
{
    return OPAL_SUCCESS;
}

static int host_unregister(int dev_id, void *ptr)
{
    return OPAL_SUCCESS;
}

/* ---- between processes (6) ---- */

#if ZR_OMPI_6
static bool is_ipc_enabled(void)
{
    const struct zr_acc *acc = zr_acc_get();

    /* A handle whose descriptor the peer has to fetch itself does not travel as 64 bytes. */
    return acc != NULL && acc->shares;
}

static int get_ipc_handle(int dev_id, void *dev_ptr, opal_accelerator_ipc_handle_t *handle)
{
    const struct zr_acc *acc = zr_acc_get();
    ze_ipc_mem_handle_t  ipc;
    ze_ipc_phys_mem_handle_range_ext_desc_t range = {
        .stype = ZE_STRUCTURE_TYPE_IPC_PHYS_MEM_HANDLE_RANGE_EXT_DESC};
    void                *base;
    size_t               size;
    ze_result_t          result;

    if (dev_ptr == NULL || handle == NULL) {
        return OPAL_ERR_BAD_PARAM;
    }
    result = zeMemGetAddressRange(acc->context, dev_ptr, &base, &size);
    if (result == ZE_RESULT_SUCCESS) {
        result = zeMemGetIpcHandle(acc->context, base, &ipc);
        if (result != ZE_RESULT_SUCCESS) { /* not one allocation: a range of objects */
            range.size = size;
            result     = zeMemGetIpcHandleWithProperties(acc->context, base, &range, &ipc);
        }
    }
    if (result != ZE_RESULT_SUCCESS) {
        return failed("zeMemGetIpcHandle", result);
    }
    OBJ_CONSTRUCT(handle, opal_accelerator_ipc_handle_t);
    memcpy(handle->handle, &ipc, IPC_MAX_HANDLE_SIZE);
    handle->size    = IPC_MAX_HANDLE_SIZE;
    handle->dev_ptr = base;
    return OPAL_SUCCESS;
}

static int import_ipc_handle(int dev_id, uint8_t ipc_handle[IPC_MAX_HANDLE_SIZE],
                             opal_accelerator_ipc_handle_t *handle)
{
    OBJ_CONSTRUCT(handle, opal_accelerator_ipc_handle_t);
    memcpy(handle->handle, ipc_handle, IPC_MAX_HANDLE_SIZE);
    handle->size    = IPC_MAX_HANDLE_SIZE;
    handle->dev_ptr = NULL;
    return OPAL_SUCCESS;
}

static int open_ipc_handle(int dev_id, opal_accelerator_ipc_handle_t *handle, void **dev_ptr)
{
    const struct zr_acc *acc = zr_acc_get();
    ze_ipc_mem_handle_t  ipc;
    int                  rc;

    if (handle == NULL || dev_ptr == NULL || !device_is_valid(device_index(dev_id))) {
        return OPAL_ERR_BAD_PARAM;
    }
    memcpy(&ipc, handle->handle, IPC_MAX_HANDLE_SIZE);
    rc = failed("zeMemOpenIpcHandle",
                zeMemOpenIpcHandle(acc->context, acc->device[device_index(dev_id)].handle, ipc, 0,
                                   &handle->dev_ptr));
    if (rc == OPAL_SUCCESS) {
        *dev_ptr = handle->dev_ptr;
    }
    return rc;
}

static int compare_ipc_handles(uint8_t handle_1[IPC_MAX_HANDLE_SIZE],
                               uint8_t handle_2[IPC_MAX_HANDLE_SIZE])
{
    return memcmp(handle_1, handle_2, IPC_MAX_HANDLE_SIZE);
}

static int get_ipc_event_handle(opal_accelerator_event_t *event,
                                opal_accelerator_ipc_event_handle_t *handle)
{
    ze_ipc_event_pool_handle_t ipc;
    int                        rc;

    if (event == NULL || handle == NULL) {
        return OPAL_ERR_BAD_PARAM;
    }
    rc = failed("zeEventPoolGetIpcHandle",
                zeEventPoolGetIpcHandle(((zr_event_t *)event)->pool, &ipc));
    if (rc == OPAL_SUCCESS) {
        OBJ_CONSTRUCT(handle, opal_accelerator_ipc_event_handle_t);
        memcpy(handle->handle, &ipc, IPC_MAX_HANDLE_SIZE);
        handle->size = IPC_MAX_HANDLE_SIZE;
    }
    return rc;
}

static int import_ipc_event_handle(uint8_t ipc_handle[IPC_MAX_HANDLE_SIZE],
                                   opal_accelerator_ipc_event_handle_t *handle)
{
    OBJ_CONSTRUCT(handle, opal_accelerator_ipc_event_handle_t);
    memcpy(handle->handle, ipc_handle, IPC_MAX_HANDLE_SIZE);
    handle->size = IPC_MAX_HANDLE_SIZE;
    return OPAL_SUCCESS;
}

static int open_ipc_event_handle(opal_accelerator_ipc_event_handle_t *handle,
                                 opal_accelerator_event_t *event)
{
    ze_event_desc_t desc = {.stype  = ZE_STRUCTURE_TYPE_EVENT_DESC,
                            .signal = ZE_EVENT_SCOPE_FLAG_HOST,
                            .wait   = ZE_EVENT_SCOPE_FLAG_HOST};
    ze_ipc_event_pool_handle_t ipc;
    zr_event_t                *opened = (zr_event_t *)event;
    ze_result_t                result;

    if (handle == NULL || event == NULL) {
        return OPAL_ERR_BAD_PARAM;
    }
    memcpy(&ipc, handle->handle, IPC_MAX_HANDLE_SIZE);
    event_destruct(opened);
    event_construct(opened);
    result = zeEventPoolOpenIpcHandle(zr_acc_get()->context, ipc, &opened->pool);
    if (result == ZE_RESULT_SUCCESS) {
        opened->opened = true;
        result         = zeEventCreate(opened->pool, &desc, &opened->event);
    }
    opened->super.event = opened->event;
    return failed("zeEventPoolOpenIpcHandle", result);
}
#endif

/* ---- devices ---- */

static int get_device(int *dev_id)
{
    const struct zr_acc *acc = zr_acc_get();

    /* Level Zero has no current device: only where there is one is it known. */
    *dev_id = acc != NULL && acc->count == 1 ? 0 : MCA_ACCELERATOR_NO_DEVICE_ID;
    return OPAL_SUCCESS;
}

static int get_device_pci_attr(int dev_id, opal_accelerator_pci_attr_t *pci_attr)
{
    ze_pci_ext_properties_t properties = {.stype = ZE_STRUCTURE_TYPE_PCI_EXT_PROPERTIES};
    int                     rc;

    if (pci_attr == NULL || !device_is_valid(dev_id)) {
        return OPAL_ERR_BAD_PARAM;
    }
    rc = failed("zeDevicePciGetPropertiesExt",
                zeDevicePciGetPropertiesExt(zr_acc_get()->device[dev_id].handle, &properties));
    if (rc == OPAL_SUCCESS) {
        pci_attr->domain_id   = (uint16_t)properties.address.domain;
        pci_attr->bus_id      = (uint8_t)properties.address.bus;
        pci_attr->device_id   = (uint8_t)properties.address.device;
        pci_attr->function_id = (uint8_t)properties.address.function;
    }
    return rc;
}

static int device_can_access_peer(int *access, int dev1, int dev2)
{
    const struct zr_acc *acc = zr_acc_get();
    ze_bool_t            can = 0;
    int                  rc;

    if (access == NULL || !device_is_valid(dev1) || !device_is_valid(dev2)) {
        return OPAL_ERR_BAD_PARAM;
    }
    rc = failed("zeDeviceCanAccessPeer",
                zeDeviceCanAccessPeer(acc->device[dev1].handle, acc->device[dev2].handle, &can));
    if (rc == OPAL_SUCCESS) {
        *access = can ? 1 : 0;
    }
    return rc;
}

#if ZR_OMPI_6
static int get_num_devices(int *num_devices)
{
    const struct zr_acc *acc = zr_acc_get();

    *num_devices = acc != NULL ? (int)acc->count : 0;
    return OPAL_SUCCESS;
}

/* Peak of the memories, in GB/s, as the other components give it. */
static int get_mem_bw(int device, float *bw)
{
    ze_device_memory_properties_t memories[16];
    uint32_t                      count = 16, k;
    double                        sum   = 0;
    int                           rc;

    if (bw == NULL || !device_is_valid(device)) {
        return OPAL_ERR_BAD_PARAM;
    }
    memset(memories, 0, sizeof(memories));
    for (k = 0; k < 16; k++) {
        memories[k].stype = ZE_STRUCTURE_TYPE_DEVICE_MEMORY_PROPERTIES;
    }
    rc = failed("zeDeviceGetMemoryProperties",
                zeDeviceGetMemoryProperties(zr_acc_get()->device[device].handle, &count, memories));
    if (rc == OPAL_SUCCESS) {
        for (k = 0; k < count && k < 16; k++) {
            sum += 2e6 * memories[k].maxClockRate * (memories[k].maxBusWidth / 8.0) / 1e9;
        }
        *bw = sum > 0 ? (float)sum : 1.0f; /* the framework divides by it */
    }
    return rc;
}

static void get_memkind(ompi_memkind_t *memkind)
{
    memkind->im_name            = strdup("level_zero");
    memkind->im_no_restrictors  = false;
    memkind->im_num_restrictors = 3;
    memkind->im_restrictors[0]  = strdup("host");
    memkind->im_restrictors[1]  = strdup("device");
    memkind->im_restrictors[2]  = strdup("shared");
}
#endif

static opal_accelerator_base_module_t the_module = {
    .check_addr             = check_addr,
    .create_stream          = create_stream,
    .create_event           = create_event,
    .record_event           = record_event,
    .query_event            = query_event,
    .mem_copy_async         = copy_async,
    .mem_copy               = copy,
    .mem_move               = move,
    .mem_alloc              = mem_alloc,
    .mem_release            = mem_release,
    .get_address_range      = get_address_range,
    .host_register          = host_register,
    .host_unregister        = host_unregister,
    .get_device             = get_device,
    .get_device_pci_attr    = get_device_pci_attr,
    .device_can_access_peer = device_can_access_peer,
    .get_buffer_id          = get_buffer_id,
#if ZR_OMPI_6
    .sync_stream             = sync_stream,
    .wait_event              = wait_event,
    .mem_move_async          = move_async,
    .mem_alloc_stream        = mem_alloc_stream,
    .mem_release_stream      = mem_release_stream,
    .is_ipc_enabled          = is_ipc_enabled,
    .get_ipc_handle          = get_ipc_handle,
    .import_ipc_handle       = import_ipc_handle,
    .open_ipc_handle         = open_ipc_handle,
    .compare_ipc_handles     = compare_ipc_handles,
    .get_ipc_event_handle    = get_ipc_event_handle,
    .import_ipc_event_handle = import_ipc_event_handle,
    .open_ipc_event_handle   = open_ipc_event_handle,
    .num_devices             = get_num_devices,
    .get_mem_bw              = get_mem_bw,
    .get_memkind             = get_memkind,
#endif
};

/* NULL: no device, and the framework goes on with host memory only. */
static opal_accelerator_base_module_t *accelerator_init(void)
{
    return zr_acc_get() != NULL ? &the_module : NULL;
}

static void accelerator_finalize(opal_accelerator_base_module_t *module)
{
    if (default_stream != NULL) {
        OBJ_RELEASE(default_stream);
        default_stream = NULL;
    }
}

extern __attribute__((visibility("default")))
opal_accelerator_base_component_t mca_accelerator_zerange_component;
opal_accelerator_base_component_t mca_accelerator_zerange_component = {
    .base_version = {
        OPAL_ACCELERATOR_BASE_VERSION_1_0_0,
        .mca_component_name = "zerange",
        MCA_BASE_MAKE_VERSION(component, 0, 1, 0),
    },
    .accelerator_init     = accelerator_init,
    .accelerator_finalize = accelerator_finalize,
};

ZR_COMPONENT_POINTER(mca_accelerator_zerange_component, base_version);
