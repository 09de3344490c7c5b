/* Entries of UCX's memory-type cache: see memtypes.h. */
/* SPDX-License-Identifier: BSD-3-Clause */
#include "memtypes.h"

#include "abi/uct_abi.h"
#include "rcache/itree.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <ucm/api/ucm.h>
#include <ucs/sys/topo/base/topo.h>

#define MAX_DEVICES 16
/* An entry that touches another is not joined with it, one that overlaps it is. */
#define OVERLAP 16 /* UCS_PGT_ADDR_ALIGN */

/* A mapping that UCX knows of. */
struct told {
    struct zr_itree_node node;
    int                  type;
    ucs_sys_device_t     sys_dev;
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; /* guards the tree */
static struct zr_itree tree;

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
    static struct {
        _Atomic(ze_device_handle_t) device;
        ucs_sys_device_t            sys_dev;
    } known[MAX_DEVICES];
    static pthread_mutex_t           fill       = PTHREAD_MUTEX_INITIALIZER;
    ze_memory_allocation_properties_t properties = {
        .stype = ZE_STRUCTURE_TYPE_MEMORY_ALLOCATION_PROPERTIES};
    ze_device_handle_t device = NULL, at;
    ucs_sys_device_t   sys_dev;
    unsigned           k;

    if (zeMemGetAllocProperties(ze->context, ptr, &properties, &device) != ZE_RESULT_SUCCESS ||
        device == NULL) {
        return UCS_SYS_DEVICE_ID_UNKNOWN;
    }
    for (k = 0; k < MAX_DEVICES; k++) {
        at = atomic_load_explicit(&known[k].device, memory_order_acquire);
        if (at == device) {
            return known[k].sys_dev;
        }
        if (at == NULL) {
            break;
        }
    }
    sys_dev = sys_dev_of(device);
    pthread_mutex_lock(&fill);
    for (k = 0; k < MAX_DEVICES && atomic_load(&known[k].device) != NULL; k++) {
    }
    if (k < MAX_DEVICES && sys_dev != UCS_SYS_DEVICE_ID_UNKNOWN) {
        known[k].sys_dev = sys_dev;
        atomic_store_explicit(&known[k].device, device, memory_order_release);
    }
    pthread_mutex_unlock(&fill);
    return sys_dev;
}

/* ---- what was told ---- */

static void insert(uint64_t start, uint64_t end, int type, ucs_sys_device_t sys_dev)
{
    struct told *told = calloc(1, sizeof(*told));

    if (told != NULL) { /* else its neighbours get entries of their own */
        told->node.start = start;
        told->node.end   = end;
        told->type       = type;
        told->sys_dev    = sys_dev;
        zr_itree_insert(&tree, &told->node);
    }
}

static void cut(uint64_t start, uint64_t end)
{
    struct zr_itree_node *node;

    while ((node = zr_itree_find(&tree, 0, start, end, NULL, NULL)) != NULL) {
        struct told old = *(struct told *)node;

        zr_itree_remove(&tree, node);
        free(node);
        if (old.node.start < start) {
            insert(old.node.start, start, old.type, old.sys_dev);
        }
        if (old.node.end > end) {
            insert(end, old.node.end, old.type, old.sys_dev);
        }
    }
}

static bool is_alike(uint64_t ptr, int type, ucs_sys_device_t sys_dev)
{
    struct told *told = (struct told *)zr_itree_find(&tree, 0, ptr, ptr + 1, NULL, NULL);

    return told != NULL && told->type == type && told->sys_dev == sys_dev;
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
    bool             mapped = zr_ze_reservation(ze, start, &low, &high);

    ucm_event_enter();
    pthread_mutex_lock(&lock);
    if (mapped) {
        cut(start, end);
        insert(start, end, type, sys_dev);
        start -= start > low && is_alike(start - 1, type, sys_dev) ? OVERLAP : 0;
        end += end < high && is_alike(end, type, sys_dev) ? OVERLAP : 0;
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
    cut(start, start + size);
    pthread_mutex_unlock(&lock);
    dispatch(UCM_EVENT_MEM_TYPE_FREE, start, start + size, type, UCS_SYS_DEVICE_ID_UNKNOWN);
    ucm_event_leave();
}
