/* Entries of UCX's memory-type cache: see memtypes.h. */
/* SPDX-License-Identifier: BSD-3-Clause */
#include "memtypes.h"

#include "abi/uct_abi.h"
#include "spans.h"

#include <pthread.h>
#include <ucm/api/ucm.h>
#include <ucs/sys/topo/base/topo.h>

/* An entry that touches another is not joined with it, one that overlaps it is. */
#define OVERLAP 16 /* UCS_PGT_ADDR_ALIGN */

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; /* guards told */
static struct zr_itree told; /* the mappings that UCX knows of; their value is kind_of them */

/* ---- which device ---- */

/* UCX's number of a device with this PCI address. */
static ucs_sys_device_t sys_dev_of(ze_device_handle_t device)
{
    ze_pci_ext_properties_t pci = {.stype = ZE_STRUCTURE_TYPE_PCI_EXT_PROPERTIES};
    ucs_sys_bus_id_t        bus;
    unsigned                k;

    if (zeDevicePciGetPropertiesExt(device, &pci) != ZE_RESULT_SUCCESS) {
        return UCS_SYS_DEVICE_ID_UNKNOWN;
    }
    for (k = 0; k < ucs_topo_num_devices(); k++) {
        if (ucs_topo_get_device_bus_id((ucs_sys_device_t)k, &bus) == UCS_OK &&
            bus.domain == pci.address.domain && bus.bus == pci.address.bus &&
            bus.slot == pci.address.device && bus.function == pci.address.function) {
            return (ucs_sys_device_t)k;
        }
    }
    return UCS_SYS_DEVICE_ID_UNKNOWN;
}

/* The device that UCX's ze_copy names, which since UCX 1.21 puts it into UCX's list: UCX asserts
 * that all who speak of the same memory agree. Without that module nobody names one. */
static ucs_sys_device_t sys_dev_at(const struct zr_ze *ze, const void *ptr)
{
    ze_memory_allocation_properties_t properties = {
        .stype = ZE_STRUCTURE_TYPE_MEMORY_ALLOCATION_PROPERTIES};
    ze_device_handle_t device = NULL;

    if (zeMemGetAllocProperties(ze->context, ptr, &properties, &device) != ZE_RESULT_SUCCESS ||
        device == NULL) {
        return UCS_SYS_DEVICE_ID_UNKNOWN;
    }
    return sys_dev_of(device);
}

/* ---- what was told ---- */

static uint64_t kind_of(int type, ucs_sys_device_t sys_dev)
{
    return (uint64_t)sys_dev << 32 | (uint32_t)type;
}

static bool is_alike(uint64_t ptr, uint64_t kind)
{
    const struct zr_span *span = zr_span_find(&told, 0, ptr);

    return span != NULL && span->value == kind;
}

static void dispatch(unsigned event_type, uint64_t start, uint64_t end, int type,
                     ucs_sys_device_t sys_dev)
{
    struct zr_ucm_mem_type_event event = {.address   = (void *)(uintptr_t)start,
                                          .size      = end - start,
                                          .mem_type  = type,
                                          .sys_dev   = sys_dev,
                                          .mem_flags = ZR_UCS_MEM_FLAG_REGISTRABLE};

    ucm_event_dispatch(event_type, &event);
}

/* The lock is held until UCX knows, so that a neighbour that goes meanwhile takes all of its entry
 * with it. UCX's own lock comes first: who calls may hold it. */
void zr_memtypes_appeared(const struct zr_ze *ze, void *ptr, size_t size, int type)
{
    ucs_sys_device_t sys_dev = sys_dev_at(ze, ptr);
    uint64_t         start = (uintptr_t)ptr, end = start + size, low, high;
    uint64_t         kind   = kind_of(type, sys_dev);
    bool             mapped = zr_ze_reservation(ze, start, &low, &high);

    ucm_event_enter();
    pthread_mutex_lock(&lock);
    if (mapped) {
        zr_span_set(&told, 0, start, end, kind);
        start -= start > low && is_alike(start - 1, kind) ? OVERLAP : 0;
        end += end < high && is_alike(end, kind) ? OVERLAP : 0;
    }
    dispatch(UCM_EVENT_MEM_TYPE_ALLOC, start, end, type, sys_dev);
    pthread_mutex_unlock(&lock);
    ucm_event_leave();
}

void zr_memtypes_going(void *ptr, size_t size, int type)
{
    uint64_t start = (uintptr_t)ptr;

    ucm_event_enter();
    pthread_mutex_lock(&lock);
    zr_span_cut(&told, 0, start, start + size);
    pthread_mutex_unlock(&lock);
    dispatch(UCM_EVENT_MEM_TYPE_FREE, start, start + size, type, UCS_SYS_DEVICE_ID_UNKNOWN);
    ucm_event_leave();
}
