/* Every entry of the Level Zero tables this driver fills: E is one that works, U one that answers
 * UNSUPPORTED_FEATURE. The number is the API version that brought the entry: a loader older than
 * it has a shorter table. Entries that are in neither list stay as the loader left them. */
/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef ZR_ZE_ENTRIES_H
#define ZR_ZE_ENTRIES_H

#include <level_zero/ze_ddi.h>

/* Version arithmetic for #if: ZE_API_VERSION_CURRENT is an enumerator. */
#if !defined(ZE_API_VERSION_CURRENT_M) || ZE_API_VERSION_CURRENT_M < ZE_MAKE_VERSION(1, 15)
#error "zerange needs Level Zero headers of API 1.15 or newer (libze-dev 1.27 or newer)"
#endif
#if ZE_API_VERSION_CURRENT_M >= ZE_MAKE_VERSION(1, 16)
#define ZR_IF_1_16(...) __VA_ARGS__
#else
#define ZR_IF_1_16(...)
#endif
#if ZE_API_VERSION_CURRENT_M >= ZE_MAKE_VERSION(1, 17)
#define ZR_IF_1_17(...) __VA_ARGS__
#else
#define ZR_IF_1_17(...)
#endif

#define ZR_GLOBAL_ENTRIES(E, U)                                                                   \
    E(, Init, 1, 0)                                                                               \
    E(, InitDrivers, 1, 10)

#define ZR_DRIVER_ENTRIES(E, U)                                                                   \
    E(Driver, Get, 1, 0)                                                                          \
    E(Driver, GetApiVersion, 1, 0)                                                                \
    E(Driver, GetProperties, 1, 0)                                                                \
    E(Driver, GetIpcProperties, 1, 0)                                                             \
    E(Driver, GetExtensionProperties, 1, 0)                                                       \
    E(Driver, GetExtensionFunctionAddress, 1, 1)                                                  \
    E(Driver, GetLastErrorDescription, 1, 6)                                                      \
    E(Driver, GetDefaultContext, 1, 14)

#define ZR_DEVICE_ENTRIES(E, U)                                                                   \
    E(Device, Get, 1, 0)                                                                          \
    E(Device, GetSubDevices, 1, 0)                                                                \
    E(Device, GetProperties, 1, 0)                                                                \
    E(Device, GetComputeProperties, 1, 0)                                                         \
    E(Device, GetModuleProperties, 1, 0)                                                          \
    E(Device, GetCommandQueueGroupProperties, 1, 0)                                               \
    E(Device, GetMemoryProperties, 1, 0)                                                          \
    E(Device, GetMemoryAccessProperties, 1, 0)                                                    \
    E(Device, GetCacheProperties, 1, 0)                                                           \
    E(Device, GetImageProperties, 1, 0)                                                           \
    E(Device, GetExternalMemoryProperties, 1, 0)                                                  \
    E(Device, GetP2PProperties, 1, 0)                                                             \
    E(Device, CanAccessPeer, 1, 0)                                                                \
    E(Device, GetStatus, 1, 0)                                                                    \
    E(Device, GetGlobalTimestamps, 1, 1)                                                          \
    U(Device, ReserveCacheExt, 1, 2)                                                              \
    U(Device, SetCacheAdviceExt, 1, 2)                                                            \
    E(Device, PciGetPropertiesExt, 1, 3)                                                          \
    E(Device, GetRootDevice, 1, 7)                                                                \
    U(Device, ImportExternalSemaphoreExt, 1, 12)                                                  \
    U(Device, ReleaseExternalSemaphoreExt, 1, 12)                                                 \
    E(Device, Synchronize, 1, 14)

#define ZR_CONTEXT_ENTRIES(E, U)                                                                  \
    E(Context, Create, 1, 0)                                                                      \
    E(Context, Destroy, 1, 0)                                                                     \
    E(Context, GetStatus, 1, 0)                                                                   \
    E(Context, SystemBarrier, 1, 0)                                                               \
    E(Context, MakeMemoryResident, 1, 0)                                                          \
    E(Context, EvictMemory, 1, 0)                                                                 \
    U(Context, MakeImageResident, 1, 0)                                                           \
    U(Context, EvictImage, 1, 0)                                                                  \
    E(Context, CreateEx, 1, 1)

#define ZR_COMMAND_QUEUE_ENTRIES(E, U)                                                            \
    E(CommandQueue, Create, 1, 0)                                                                 \
    E(CommandQueue, Destroy, 1, 0)                                                                \
    E(CommandQueue, ExecuteCommandLists, 1, 0)                                                    \
    E(CommandQueue, Synchronize, 1, 0)                                                            \
    E(CommandQueue, GetOrdinal, 1, 9)                                                             \
    E(CommandQueue, GetIndex, 1, 9)                                                               \
    ZR_IF_1_17(E(CommandQueue, GetFlags, 1, 17)                                                   \
               E(CommandQueue, GetMode, 1, 17)                                                    \
               E(CommandQueue, GetPriority, 1, 17))

#define ZR_COMMAND_LIST_ENTRIES(E, U)                                                             \
    E(CommandList, Create, 1, 0)                                                                  \
    E(CommandList, CreateImmediate, 1, 0)                                                         \
    E(CommandList, Destroy, 1, 0)                                                                 \
    E(CommandList, Close, 1, 0)                                                                   \
    E(CommandList, Reset, 1, 0)                                                                   \
    E(CommandList, AppendWriteGlobalTimestamp, 1, 0)                                              \
    E(CommandList, AppendBarrier, 1, 0)                                                           \
    E(CommandList, AppendMemoryRangesBarrier, 1, 0)                                               \
    E(CommandList, AppendMemoryCopy, 1, 0)                                                        \
    E(CommandList, AppendMemoryFill, 1, 0)                                                        \
    E(CommandList, AppendMemoryCopyRegion, 1, 0)                                                  \
    E(CommandList, AppendMemoryCopyFromContext, 1, 0)                                             \
    U(CommandList, AppendImageCopy, 1, 0)                                                         \
    U(CommandList, AppendImageCopyRegion, 1, 0)                                                   \
    U(CommandList, AppendImageCopyToMemory, 1, 0)                                                 \
    U(CommandList, AppendImageCopyFromMemory, 1, 0)                                               \
    E(CommandList, AppendMemoryPrefetch, 1, 0)                                                    \
    E(CommandList, AppendMemAdvise, 1, 0)                                                         \
    E(CommandList, AppendSignalEvent, 1, 0)                                                       \
    E(CommandList, AppendWaitOnEvents, 1, 0)                                                      \
    E(CommandList, AppendEventReset, 1, 0)                                                        \
    E(CommandList, AppendQueryKernelTimestamps, 1, 0)                                             \
    U(CommandList, AppendLaunchKernel, 1, 0)                                                      \
    U(CommandList, AppendLaunchCooperativeKernel, 1, 0)                                           \
    U(CommandList, AppendLaunchKernelIndirect, 1, 0)                                              \
    U(CommandList, AppendLaunchMultipleKernelsIndirect, 1, 0)                                     \
    U(CommandList, AppendImageCopyToMemoryExt, 1, 3)                                              \
    U(CommandList, AppendImageCopyFromMemoryExt, 1, 3)                                            \
    E(CommandList, HostSynchronize, 1, 6)                                                         \
    E(CommandList, GetDeviceHandle, 1, 9)                                                         \
    E(CommandList, GetContextHandle, 1, 9)                                                        \
    E(CommandList, GetOrdinal, 1, 9)                                                              \
    E(CommandList, ImmediateGetIndex, 1, 9)                                                       \
    E(CommandList, IsImmediate, 1, 9)                                                             \
    U(CommandList, AppendSignalExternalSemaphoreExt, 1, 12)                                       \
    U(CommandList, AppendWaitExternalSemaphoreExt, 1, 12)                                         \
    U(CommandList, AppendLaunchKernelWithParameters, 1, 14)                                       \
    U(CommandList, AppendLaunchKernelWithArguments, 1, 14)                                        \
    ZR_IF_1_16(E(CommandList, AppendMemoryCopyWithParameters, 1, 16)                              \
               E(CommandList, AppendMemoryFillWithParameters, 1, 16))                             \
    ZR_IF_1_17(E(CommandList, GetFlags, 1, 17)                                                    \
               E(CommandList, ImmediateGetFlags, 1, 17)                                           \
               E(CommandList, ImmediateGetMode, 1, 17)                                            \
               E(CommandList, ImmediateGetPriority, 1, 17))

#define ZR_COMMAND_LIST_EXP_ENTRIES(E, U)                                                         \
    E(CommandList, CreateCloneExp, 1, 9)                                                          \
    E(CommandList, ImmediateAppendCommandListsExp, 1, 9)

#define ZR_EVENT_POOL_ENTRIES(E, U)                                                               \
    E(EventPool, Create, 1, 0)                                                                    \
    E(EventPool, Destroy, 1, 0)                                                                   \
    E(EventPool, GetIpcHandle, 1, 0)                                                              \
    E(EventPool, OpenIpcHandle, 1, 0)                                                             \
    E(EventPool, CloseIpcHandle, 1, 0)                                                            \
    E(EventPool, PutIpcHandle, 1, 6)                                                              \
    E(EventPool, GetContextHandle, 1, 9)                                                          \
    E(EventPool, GetFlags, 1, 9)

#define ZR_EVENT_ENTRIES(E, U)                                                                    \
    E(Event, Create, 1, 0)                                                                        \
    E(Event, Destroy, 1, 0)                                                                       \
    E(Event, HostSignal, 1, 0)                                                                    \
    E(Event, HostSynchronize, 1, 0)                                                               \
    E(Event, QueryStatus, 1, 0)                                                                   \
    E(Event, HostReset, 1, 0)                                                                     \
    E(Event, QueryKernelTimestamp, 1, 0)                                                          \
    E(Event, GetEventPool, 1, 9)                                                                  \
    E(Event, GetSignalScope, 1, 9)                                                                \
    E(Event, GetWaitScope, 1, 9)

#define ZR_EVENT_EXP_ENTRIES(E, U) E(Event, QueryTimestampsExp, 1, 2)

#define ZR_FENCE_ENTRIES(E, U)                                                                    \
    E(Fence, Create, 1, 0)                                                                        \
    E(Fence, Destroy, 1, 0)                                                                       \
    E(Fence, HostSynchronize, 1, 0)                                                               \
    E(Fence, QueryStatus, 1, 0)                                                                   \
    E(Fence, Reset, 1, 0)

#define ZR_MEM_ENTRIES(E, U)                                                                      \
    E(Mem, AllocShared, 1, 0)                                                                     \
    E(Mem, AllocDevice, 1, 0)                                                                     \
    E(Mem, AllocHost, 1, 0)                                                                       \
    E(Mem, Free, 1, 0)                                                                            \
    E(Mem, GetAllocProperties, 1, 0)                                                              \
    E(Mem, GetAddressRange, 1, 0)                                                                 \
    E(Mem, GetIpcHandle, 1, 0)                                                                    \
    E(Mem, OpenIpcHandle, 1, 0)                                                                   \
    E(Mem, CloseIpcHandle, 1, 0)                                                                  \
    E(Mem, FreeExt, 1, 3)                                                                         \
    E(Mem, PutIpcHandle, 1, 6)                                                                    \
    U(Mem, GetPitchFor2dImage, 1, 9)                                                              \
    E(Mem, GetIpcHandleWithProperties, 1, 15)

#define ZR_MEM_EXP_ENTRIES(E, U)                                                                  \
    E(Mem, GetIpcHandleFromFileDescriptorExp, 1, 6)                                               \
    E(Mem, GetFileDescriptorFromIpcHandleExp, 1, 6)                                               \
    U(Mem, SetAtomicAccessAttributeExp, 1, 7)                                                     \
    U(Mem, GetAtomicAccessAttributeExp, 1, 7)

#define ZR_PHYSICAL_MEM_ENTRIES(E, U)                                                             \
    E(PhysicalMem, Create, 1, 0)                                                                  \
    E(PhysicalMem, Destroy, 1, 0)                                                                 \
    E(PhysicalMem, GetProperties, 1, 15)

#define ZR_VIRTUAL_MEM_ENTRIES(E, U)                                                              \
    E(VirtualMem, Reserve, 1, 0)                                                                  \
    E(VirtualMem, Free, 1, 0)                                                                     \
    E(VirtualMem, QueryPageSize, 1, 0)                                                            \
    E(VirtualMem, Map, 1, 0)                                                                      \
    E(VirtualMem, Unmap, 1, 0)                                                                    \
    E(VirtualMem, SetAccessAttribute, 1, 0)                                                       \
    E(VirtualMem, GetAccessAttribute, 1, 0)

/* The loader drops a driver without these tables; a device with copy engines only has nothing to
 * put in them. */
#define ZR_MODULE_ENTRIES(E, U)                                                                   \
    U(Module, Create, 1, 0)                                                                       \
    U(Module, Destroy, 1, 0)                                                                      \
    U(Module, DynamicLink, 1, 0)                                                                  \
    U(Module, GetNativeBinary, 1, 0)                                                              \
    U(Module, GetGlobalPointer, 1, 0)                                                             \
    U(Module, GetKernelNames, 1, 0)                                                               \
    U(Module, GetProperties, 1, 0)                                                                \
    U(Module, GetFunctionPointer, 1, 0)                                                           \
    U(Module, InspectLinkageExt, 1, 3)

#define ZR_MODULE_BUILD_LOG_ENTRIES(E, U)                                                         \
    U(ModuleBuildLog, Destroy, 1, 0)                                                              \
    U(ModuleBuildLog, GetString, 1, 0)

#define ZR_KERNEL_ENTRIES(E, U)                                                                   \
    U(Kernel, Create, 1, 0)                                                                       \
    U(Kernel, Destroy, 1, 0)                                                                      \
    U(Kernel, SetCacheConfig, 1, 0)                                                               \
    U(Kernel, SetGroupSize, 1, 0)                                                                 \
    U(Kernel, SuggestGroupSize, 1, 0)                                                             \
    U(Kernel, SuggestMaxCooperativeGroupCount, 1, 0)                                              \
    U(Kernel, SetArgumentValue, 1, 0)                                                             \
    U(Kernel, SetIndirectAccess, 1, 0)                                                            \
    U(Kernel, GetIndirectAccess, 1, 0)                                                            \
    U(Kernel, GetSourceAttributes, 1, 0)                                                          \
    U(Kernel, GetProperties, 1, 0)                                                                \
    U(Kernel, GetName, 1, 0)

#define ZR_IMAGE_ENTRIES(E, U)                                                                    \
    U(Image, GetProperties, 1, 0)                                                                 \
    U(Image, Create, 1, 0)                                                                        \
    U(Image, Destroy, 1, 0)                                                                       \
    U(Image, GetAllocPropertiesExt, 1, 3)                                                         \
    U(Image, ViewCreateExt, 1, 5)

#define ZR_SAMPLER_ENTRIES(E, U)                                                                  \
    U(Sampler, Create, 1, 0)                                                                      \
    U(Sampler, Destroy, 1, 0)

/* The tables: X(name of the getter and of the field, table type, entries). */
#define ZR_TABLES(X)                                                                              \
    X(Global, ze_global_dditable_t, ZR_GLOBAL_ENTRIES)                                            \
    X(Driver, ze_driver_dditable_t, ZR_DRIVER_ENTRIES)                                            \
    X(Device, ze_device_dditable_t, ZR_DEVICE_ENTRIES)                                            \
    X(Context, ze_context_dditable_t, ZR_CONTEXT_ENTRIES)                                         \
    X(CommandQueue, ze_command_queue_dditable_t, ZR_COMMAND_QUEUE_ENTRIES)                        \
    X(CommandList, ze_command_list_dditable_t, ZR_COMMAND_LIST_ENTRIES)                           \
    X(CommandListExp, ze_command_list_exp_dditable_t, ZR_COMMAND_LIST_EXP_ENTRIES)                \
    X(EventPool, ze_event_pool_dditable_t, ZR_EVENT_POOL_ENTRIES)                                 \
    X(Event, ze_event_dditable_t, ZR_EVENT_ENTRIES)                                               \
    X(EventExp, ze_event_exp_dditable_t, ZR_EVENT_EXP_ENTRIES)                                    \
    X(Fence, ze_fence_dditable_t, ZR_FENCE_ENTRIES)                                               \
    X(Mem, ze_mem_dditable_t, ZR_MEM_ENTRIES)                                                     \
    X(MemExp, ze_mem_exp_dditable_t, ZR_MEM_EXP_ENTRIES)                                          \
    X(PhysicalMem, ze_physical_mem_dditable_t, ZR_PHYSICAL_MEM_ENTRIES)                           \
    X(VirtualMem, ze_virtual_mem_dditable_t, ZR_VIRTUAL_MEM_ENTRIES)                              \
    X(Module, ze_module_dditable_t, ZR_MODULE_ENTRIES)                                            \
    X(ModuleBuildLog, ze_module_build_log_dditable_t, ZR_MODULE_BUILD_LOG_ENTRIES)                \
    X(Kernel, ze_kernel_dditable_t, ZR_KERNEL_ENTRIES)                                            \
    X(Image, ze_image_dditable_t, ZR_IMAGE_ENTRIES)                                               \
    X(Sampler, ze_sampler_dditable_t, ZR_SAMPLER_ENTRIES)

/* zr_zeXxx carries out zeXxx; its type is the one the header gives the table's pointer. */
#define ZR_DECLARE_ENTRY(prefix, name, major, minor)                                              \
    __typeof__(*(ze_pfn##prefix##name##_t)0) zr_ze##prefix##name;
#define ZR_DECLARE_NOTHING(prefix, name, major, minor)
#define ZR_DECLARE_TABLE(name, type, entries) entries(ZR_DECLARE_ENTRY, ZR_DECLARE_NOTHING)
ZR_TABLES(ZR_DECLARE_TABLE)

#endif
