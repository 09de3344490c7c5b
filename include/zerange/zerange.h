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

/* ---- physical memory objects: what an object is made of ----
 *
 * The model is the physical memory object of WDDM (DXGKARGCB_CREATE_PHYSICAL_MEMORY_OBJECT). Where
 * Linux differs:
 *   - MDL: pages are not allocated for the object, they are the caller's own, scattered or not;
 *     so there are no address bounds, bytes to skip or flags. They stay the caller's, who keeps
 *     them mapped as long as the object lives. No dma-buf carries them: they cannot be exported.
 *     The CPU uses them where they are; where they are mapped, only the device does.
 *   - contiguous memory: device-local memory in the largest pages its region has. No i915 uAPI
 *     promises contiguity, so there are no address bounds and no boundary.
 *   - section: pageable shared memory, always committed. Desired access and object attributes do
 *     not exist: who holds a handle may use it. Page protection is that of each mapping
 *     (zeVirtualMemMap), not of the object.
 *   - io space: memory that belongs to another device or process has no address of its own here,
 *     it comes as a dma-buf, from its first byte, in whole pages.
 *   - without a device at creation an object has no backing before the first device opens it.
 */

/** What the memory is: DXGK_PHYSICAL_MEMORY_TYPE. */
typedef enum _zr_phys_mem_backing_t {
    ZR_PHYS_MEM_SECTION    = 0, /**< pageable system memory */
    ZR_PHYS_MEM_CONTIGUOUS = 1, /**< memory of the device; of the system where it has none */
    ZR_PHYS_MEM_PAGES      = 2, /**< the caller's own pages */
    ZR_PHYS_MEM_IO_SPACE   = 3, /**< a dma-buf of another device or process */
    ZR_PHYS_MEM_BACKING_FORCE_UINT32 = 0x7fffffff
} zr_phys_mem_backing_t;

/** How the CPU sees it: DXGK_MEMORY_CACHING_TYPE. A section is not uncached (INVALID_ARGUMENT); what
 * the device cannot give is refused (UNSUPPORTED_FEATURE): on a discrete device system memory is
 * cached and device memory write-combined. */
typedef enum _zr_phys_mem_cache_t {
    ZR_PHYS_MEM_CACHED         = 0,
    ZR_PHYS_MEM_WRITE_COMBINED = 1,
    ZR_PHYS_MEM_UNCACHED       = 2,
    ZR_PHYS_MEM_CACHE_FORCE_UINT32 = 0x7fffffff
} zr_phys_mem_cache_t;

#define ZR_STRUCTURE_TYPE_PHYS_MEM_DESC       ((ze_structure_type_t)0x000f0001)
#define ZR_STRUCTURE_TYPE_PHYS_MEM_PROPERTIES ((ze_structure_type_t)0x000f0002)

/** In the pNext chain of ze_physical_mem_desc_t: zePhysicalMemCreate makes this object; the flags
 * of ze_physical_mem_desc_t are not looked at, and hDevice may be NULL (but not through the loader's
 * parameter validation). The size is a multiple of 64 KiB (UNSUPPORTED_SIZE). */
typedef struct _zr_phys_mem_desc_t {
    ze_structure_type_t   stype; /**< ZR_STRUCTURE_TYPE_PHYS_MEM_DESC */
    const void           *pNext;
    zr_phys_mem_backing_t backing;
    zr_phys_mem_cache_t   cache;
    uintptr_t             context; /**< the caller's, kept for debugging, never used or followed */
    void                 *pages;   /**< PAGES: on a page of the CPU (UNSUPPORTED_ALIGNMENT) */
    int                   fd;      /**< IO_SPACE: dma-buf at least as long; stays the caller's */
} zr_phys_mem_desc_t;

/** An object as one device knows it: what an address list is asked of (hAdapterMemoryObject). */
typedef struct _zr_device_mem_handle_t *zr_device_mem_handle_t;

typedef struct _zr_phys_mem_properties_t {
    ze_structure_type_t    stype; /**< ZR_STRUCTURE_TYPE_PHYS_MEM_PROPERTIES */
    void                  *pNext;
    uint64_t               id;    /**< never reused in this process */
    uint64_t               size;  /**< bytes */
    zr_phys_mem_backing_t  backing;
    zr_phys_mem_cache_t    cache; /**< as asked for; once open, as it is */
    uintptr_t              context;
    zr_device_mem_handle_t created; /**< handle on the device of its creation; NULL: created without
                                         one, or closed */
    ze_bool_t              open;    /**< has been open on a device: has its backing */
} zr_phys_mem_properties_t;

/** Bytes of one object, next to each other as a device sees them. */
typedef struct _zr_address_run_t {
    uint64_t address, length;
} zr_address_run_t;

/* ---- found with zeDriverGetExtensionFunctionAddress ---- */

/** "zrPhysicalMemGetProperties": what an object is made of, and the handle made with it.
 * @param properties  stype and pNext stay as they are
 * @return SUCCESS; INVALID_NULL_HANDLE, INVALID_ARGUMENT: not an object; INVALID_NULL_POINTER. */
typedef ze_result_t (ZE_APICALL *zr_pfnPhysicalMemGetProperties_t)(
    ze_physical_mem_handle_t object, zr_phys_mem_properties_t *properties);

/** "zrPhysicalMemOpen": make an object known to a device; needed before it has an address list
 * there, and before it is mapped if it was created without a device.
 * @return SUCCESS: the handle is to be closed; UNSUPPORTED_FEATURE: the object cannot be reached
 *         from the device (device memory of another one), or not with its cache type; as
 *         zePhysicalMemCreate for the first open. */
typedef ze_result_t (ZE_APICALL *zr_pfnPhysicalMemOpen_t)(ze_physical_mem_handle_t object,
                                                          ze_device_handle_t       device,
                                                          zr_device_mem_handle_t  *handle);

/** "zrDeviceMemClose": close a handle of zrPhysicalMemOpen, or the one made with the object. That
 * one is closed here or goes with zePhysicalMemDestroy, not both: what is closed is refused
 * (INVALID_ARGUMENT). Handles of zrPhysicalMemOpen stay valid, and the memory lives, when the
 * object is destroyed before them. */
typedef ze_result_t (ZE_APICALL *zr_pfnDeviceMemClose_t)(zr_device_mem_handle_t handle);

/** "zrDeviceMemGetAddressList": where [offset, offset+length) of an object is for the device.
 * @param count  in: room in @a runs, 0 to ask; out: number of runs
 * @return SUCCESS; INVALID_SIZE: length 0 or beyond the object's end. */
typedef ze_result_t (ZE_APICALL *zr_pfnDeviceMemGetAddressList_t)(zr_device_mem_handle_t handle,
                                                                  uint64_t offset, uint64_t length,
                                                                  uint32_t         *count,
                                                                  zr_address_run_t *runs);

/** "zrRangeGetAddressList": where [ptr, ptr+size) is for a device: memory of the driver of any
 * kind, mapped from end to end.
 * @return SUCCESS; ADDRESS_NOT_FOUND: a part is not mapped; INVALID_SIZE: size 0;
 *         UNSUPPORTED_FEATURE: a part cannot be reached from the device. */
typedef ze_result_t (ZE_APICALL *zr_pfnRangeGetAddressList_t)(ze_device_handle_t device,
                                                              const void *ptr, size_t size,
                                                              uint32_t         *count,
                                                              zr_address_run_t *runs);

/** Called after memory was mapped or allocated (@a mapped 1) and before it is unmapped or freed
 * (0), in the thread that does it, with no lock of the driver held. */
typedef void (*zr_mapping_callback_t)(void *arg, int mapped, void *ptr, size_t size,
                                      ze_memory_type_t type);

/** "zrSubscribeMappings": tell @a callback of every map and unmap of the process from now on.
 * @return ZE_RESULT_SUCCESS; INVALID_NULL_POINTER; OUT_OF_HOST_MEMORY. */
typedef ze_result_t (ZE_APICALL *zr_pfnSubscribeMappings_t)(zr_mapping_callback_t callback,
                                                            void *arg);
/** "zrUnsubscribeMappings": @a callback is not called with @a arg after this returns; from the
 * callback itself it may be used too.
 * @return ZE_RESULT_SUCCESS, subscribed or not; INVALID_NULL_POINTER. */
typedef ze_result_t (ZE_APICALL *zr_pfnUnsubscribeMappings_t)(zr_mapping_callback_t callback,
                                                              void *arg);

/** "zrMemGetReservation": the reservation (or allocation, or import) that @a ptr lies in, mapped
 * there or not.
 * @param base,size  out: where it begins, and its bytes
 * @return SUCCESS; ADDRESS_NOT_FOUND: in none; INVALID_NULL_POINTER. */
typedef ze_result_t (ZE_APICALL *zr_pfnMemGetReservation_t)(const void *ptr, void **base,
                                                            size_t *size);

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
