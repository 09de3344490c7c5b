/** @file
 * What an application or a transport may use of the zerange Level Zero driver beyond the headers
 * of Level Zero: extension structures missing from the installed headers, and a few functions
 * found with zeDriverGetExtensionFunctionAddress. No library to link.
 */
/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef ZERANGE_ZERANGE_H
#define ZERANGE_ZERANGE_H

#include <level_zero/ze_api.h>
#include <stddef.h>
#include <stdint.h>

#if defined(__cplusplus)
extern "C" {
#endif

/* ---- IPC Physical Memory Range Extension (Level Zero 1.18) ---- */

#ifndef ZE_IPC_PHYS_MEM_HANDLE_RANGE_EXT_NAME
#define ZE_IPC_PHYS_MEM_HANDLE_RANGE_EXT_NAME "ZE_extension_ipc_phys_mem_handle_range"
#define ZE_STRUCTURE_TYPE_IPC_PHYS_MEM_HANDLE_RANGE_EXT_DESC ((ze_structure_type_t)0x0002004B)

typedef enum _ze_ipc_phys_mem_handle_range_ext_version_t {
    ZE_IPC_PHYS_MEM_HANDLE_RANGE_EXT_VERSION_1_0     = ZE_MAKE_VERSION(1, 0),
    ZE_IPC_PHYS_MEM_HANDLE_RANGE_EXT_VERSION_CURRENT = ZE_MAKE_VERSION(1, 0),
    ZE_IPC_PHYS_MEM_HANDLE_RANGE_EXT_VERSION_FORCE_UINT32 = 0x7fffffff
} ze_ipc_phys_mem_handle_range_ext_version_t;

/** Passed in the pNext chain of zeMemGetIpcHandleWithProperties: export [ptr, ptr+size). */
typedef struct _ze_ipc_phys_mem_handle_range_ext_desc_t {
    ze_structure_type_t stype; /**< ZE_STRUCTURE_TYPE_IPC_PHYS_MEM_HANDLE_RANGE_EXT_DESC */
    const void         *pNext;
    size_t              size;  /**< bytes from ptr; not 0 */
} ze_ipc_phys_mem_handle_range_ext_desc_t;
#endif

/* ---- Init Driver Properties Extension (Level Zero 1.20) ---- */

/* No public header has the number of the structure's type yet: this one is provisional, and what
 * zerange was configured with (--with-init-properties-stype). */
#ifndef ZE_INIT_DRIVER_PROPERTIES_EXT_NAME
#define ZE_INIT_DRIVER_PROPERTIES_EXT_NAME "ZE_extension_init_driver_properties"
#ifndef ZE_STYPE_INIT_DRIVER_PROPERTIES
#define ZE_STYPE_INIT_DRIVER_PROPERTIES 0x0002004E
#endif
#define ZE_STRUCTURE_TYPE_INIT_DRIVER_PROPERTIES_EXT_DESC                                         \
    ((ze_structure_type_t)ZE_STYPE_INIT_DRIVER_PROPERTIES)

typedef uint32_t ze_init_driver_properties_ext_flags_t;
typedef enum _ze_init_driver_properties_ext_flag_t {
    ZE_INIT_DRIVER_PROPERTIES_EXT_FLAG_OPTIMIZE_MEMORY      = ZE_BIT(0),
    ZE_INIT_DRIVER_PROPERTIES_EXT_FLAG_OPTIMIZE_PERFORMANCE = ZE_BIT(1),
    ZE_INIT_DRIVER_PROPERTIES_EXT_FLAG_FORCE_UINT32         = 0x7fffffff
} ze_init_driver_properties_ext_flag_t;

/** In the pNext chain of ze_init_driver_type_desc_t: what contexts that state no flag of their own
 * are to spare. OPTIMIZE_MEMORY: staging rings are small, freed backing is given back at once,
 * pages come when touched. OPTIMIZE_PERFORMANCE: large staging rings, freed backing of allocations
 * is kept for the next of its size (at most 64 MiB), pages of host memory are there at once.
 * Neither: as OPTIMIZE_MEMORY, with staging rings in between. Only the first initialisation
 * counts; one with all driver types and no chain does not, as the loader makes such calls itself. */
typedef struct _ze_init_driver_properties_ext_desc_t {
    ze_structure_type_t stype; /**< ZE_STRUCTURE_TYPE_INIT_DRIVER_PROPERTIES_EXT_DESC */
    const void         *pNext;
    ze_init_driver_properties_ext_flags_t flags; /**< at most one of the two */
} ze_init_driver_properties_ext_desc_t;
#endif

/* ---- found with zeDriverGetExtensionFunctionAddress ---- */

/** Called after memory was mapped or allocated (@a mapped 1) and before it is unmapped or freed
 * (0), in the thread that does it, with no lock of the driver held. */
typedef void (*zr_mapping_callback_t)(void *arg, int mapped, void *ptr, size_t size,
                                      ze_memory_type_t type);

/** "zrSubscribeMappings": tell @a callback of every map and unmap of the process from now on.
 * @return ZE_RESULT_SUCCESS; INVALID_NULL_POINTER; OUT_OF_HOST_MEMORY. */
typedef ze_result_t (ZE_APICALL *zr_pfnSubscribeMappings_t)(zr_mapping_callback_t callback,
                                                            void *arg);
/** "zrUnsubscribeMappings": @a callback is not called after this returns. */
typedef ze_result_t (ZE_APICALL *zr_pfnUnsubscribeMappings_t)(zr_mapping_callback_t callback,
                                                              void *arg);

/** "zrDeviceGetCompletedBatches": batches completed by each copy engine since the device was
 * opened, as the device counts them.
 * @param count   in: room in @a batches; out: number of copy engines. With 0 only asks.
 * @return ZE_RESULT_SUCCESS; UNSUPPORTED_FEATURE where the kernel has no such counter. */
typedef ze_result_t (ZE_APICALL *zr_pfnDeviceGetCompletedBatches_t)(ze_device_handle_t device,
                                                                    uint32_t *count,
                                                                    uint64_t *batches);

/** "zrGetCounts": live objects of this process, for programs that look for leaks; and what the
 * driver holds for speed. */
typedef struct {
    uint64_t objects, regions, mappings, exports, imports, imported_objects;
    uint64_t kept_bytes;    /**< freed backing kept for the next allocation of its size */
    uint64_t staging_bytes; /**< of the queues' staging rings for short host sources */
} zr_counts_t;
typedef ze_result_t (ZE_APICALL *zr_pfnGetCounts_t)(zr_counts_t *counts);

#if defined(__cplusplus)
}
#endif
#endif
