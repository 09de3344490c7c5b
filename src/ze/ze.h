/* The Level Zero driver's objects: checked handles, and what is behind each. */
/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef ZR_ZE_H
#define ZR_ZE_H

#include "blt/copyq.h"
#include "entries.h"
#include "ipc/ipc.h"
#include "mem/mem.h"
#include "util/config.h"
#include "util/util.h"

#include <level_zero/ze_ddi_common.h>
#include <level_zero/zes_ddi.h>
#include <pthread.h>
#include <zerange/zerange.h>

#define ZR_MAX_DEVICES    16
#define ZR_MAX_PATTERN    128 /* bytes of a fill pattern */
#define ZR_STAGE_MAX      (64 * ZR_KIB) /* longest host source that is copied by the CPU */
#define ZR_DRIVER_VERSION ZE_MAKE_VERSION(0, 1)

/* ---- checked handles ---- */

enum zr_kind {
    ZR_KIND_NONE,
    ZR_KIND_DRIVER,
    ZR_KIND_DEVICE,
    ZR_KIND_CONTEXT,
    ZR_KIND_QUEUE,
    ZR_KIND_LIST,
    ZR_KIND_EVENT_POOL,
    ZR_KIND_EVENT,
    ZR_KIND_FENCE,
    ZR_KIND_PHYSICAL,
    ZR_KIND_MEMORY,     /* memory module of Sysman */
    ZR_KIND_DEVICE_MEM, /* physical memory object as a device knows it */
};

/* First member of every object. The loader's thunks dispatch through the ddi header. */
struct zr_object {
    ze_handle_t      ddi;
    _Atomic uint32_t kind; /* ZR_KIND_NONE while free or not yet published */
};

/* Objects live in slots of one reserved piece of VA that is never given back, so that any pointer
 * can be checked without being followed: an old or foreign one is refused, not read. */
#define ZR_SLOT_SIZE 256
extern char          *zr_slots;      /* first slot */
extern _Atomic size_t zr_slots_size; /* bytes of slots ever used; 0 once the driver has ended */

static inline bool zr_object_is(const void *handle, enum zr_kind kind)
{
    size_t offset = (uintptr_t)handle - (uintptr_t)zr_slots;

    return offset < atomic_load_explicit(&zr_slots_size, memory_order_acquire) &&
           offset % ZR_SLOT_SIZE == 0 &&
           atomic_load_explicit(&((const struct zr_object *)handle)->kind,
                                memory_order_acquire) == kind;
}

/* INVALID_NULL_HANDLE, or INVALID_ARGUMENT with what the handle is not. */
ze_result_t zr_object_refuse(const void *handle, enum zr_kind kind);

#define ZR_CHECK_HANDLE(handle, kind)                                                             \
    do {                                                                                          \
        if (!zr_object_is((handle), (kind))) {                                                    \
            return zr_object_refuse((handle), (kind));                                            \
        }                                                                                         \
    } while (0)
#define ZR_CHECK_POINTER(pointer)                                                                 \
    do {                                                                                          \
        if ((pointer) == NULL) {                                                                  \
            return zr_fail(ZE_RESULT_ERROR_INVALID_NULL_POINTER, "%s: " #pointer " is NULL",      \
                           __func__ + 3);                                                         \
        }                                                                                         \
    } while (0)

/* A zeroed object of at most ZR_SLOT_SIZE bytes; NULL with zr_last_error. Not valid as a handle
 * before it is published. */
void *zr_object_create(void);
void zr_object_publish(void *object, enum zr_kind kind);
void zr_object_destroy(void *object);
/* From now on every handle is refused. */
void zr_objects_end(void);
/* The tables behind the ddi header (ddi.c, those of Sysman in sysman.c). */
extern const ze_handle_t     zr_ddi_header;
extern zes_dditable_driver_t zr_sysman_tables;

/* What a table getter asks first: there is a table, and the loader speaks API 1. */
static inline ze_result_t zr_check_version(ze_api_version_t version, const void *table)
{
    if (table == NULL) {
        return ZE_RESULT_ERROR_INVALID_NULL_POINTER;
    }
    return (ZE_MAJOR_VERSION(version) == 1) ? ZE_RESULT_SUCCESS
                                            : ZE_RESULT_ERROR_UNSUPPORTED_VERSION;
}

/* ---- objects ---- */

/* What an application asked the driver or a context to spare. */
enum zr_policy { ZR_POLICY_DEFAULT, ZR_POLICY_MEMORY, ZR_POLICY_PERFORMANCE };

struct zr_stream;
struct zr_hostmem;
struct zr_memory;

struct zr_device {
    struct zr_object           object;
    struct zr_i915            *i915;
    const struct zr_i915_info *info;
    unsigned                   index;
    struct zr_hostmem         *hostmem;
    struct zr_memory          *memory;
    pthread_mutex_t            clock_lock; /* guards clock and clock_phys */
    struct zr_copyq           *clock;      /* reads the device's time; made when first asked */
    struct zr_phys            *clock_phys;
};

/* The memory of a device, as Sysman speaks of it. */
struct zr_memory {
    struct zr_object  object;
    struct zr_device *device;
};

struct zr_context {
    struct zr_object object;
    enum zr_policy   policy;
    uint32_t         devices; /* bit i: device i may be used with it */
};

struct zr_driver {
    struct zr_object   object;
    unsigned           num_devices;
    struct zr_device  *device[ZR_MAX_DEVICES];
    struct zr_context *default_context;
};

struct zr_queue {
    struct zr_object        object;
    struct zr_context      *context;
    struct zr_device       *device;
    struct zr_stream       *stream;
    ze_command_queue_desc_t desc;
};

struct zr_list {
    struct zr_object        object;
    struct zr_context      *context;
    struct zr_device       *device;
    bool                    closed;
    ze_command_list_flags_t flags;
    struct zr_stream       *stream; /* of an immediate list; NULL: a regular one */
    ze_command_queue_desc_t desc;   /* of an immediate list; ordinal of both */
    struct zr_op           *ops;
    unsigned                count, capacity;
};

struct zr_event_pool {
    struct zr_object      object;
    struct zr_context    *context;
    struct zr_device     *device; /* where its memory was made */
    ze_event_pool_flags_t flags;
    bool                  opened; /* from a handle: made by another pool's creator */
    uint32_t              count;
    atomic_uint           live; /* events */
    struct zr_phys       *phys;
    struct zr_bo         *bo;
    char                 *cpu;
    size_t                size;
};

/* An event in its pool's memory, written by engines and the host. */
struct zr_event_state {
    _Atomic uint64_t signaled;   /* 1 or 0 */
    _Atomic uint64_t start, end; /* device time */
    uint64_t         pad[5];
};

struct zr_event {
    struct zr_object       object;
    struct zr_event_pool  *pool;
    ze_event_desc_t        desc;
    struct zr_event_state *state;
    uint64_t               offset; /* of state in the pool's BO */
    pthread_mutex_t        lock;   /* guards what follows */
    struct zr_stream      *stream; /* whose submission signals it, NULL: none known */
    uint64_t               seqno;
};

enum zr_fence_state { ZR_FENCE_UNUSED, ZR_FENCE_SUBMITTED, ZR_FENCE_SIGNALED };

struct zr_fence {
    struct zr_object  object;
    struct zr_stream *stream; /* a reference: whose queue's it is, known by it */
    _Atomic int       state;
    _Atomic uint64_t  seqno;
};

struct zr_device_mem {
    struct zr_object    object;
    struct zr_device   *device;
    struct zr_phys     *phys;     /* a reference */
    struct zr_physical *physical; /* whose handle of creation it is; NULL: of zrPhysicalMemOpen */
};

struct zr_physical {
    struct zr_object      object;
    struct zr_context    *context;
    struct zr_phys       *phys;
    ze_memory_type_t      type;
    struct zr_device_mem *created; /* physical.c's lock guards it */
};

/* ---- driver (global.c) ---- */

extern struct zr_driver *zr_driver; /* NULL before init and where there is no device */

static inline struct zr_device *zr_device_of(const struct zr_i915 *i915)
{
    for (unsigned i = 0; i < zr_driver->num_devices; i++) {
        if (zr_driver->device[i]->i915 == i915) {
            return zr_driver->device[i];
        }
    }
    return NULL;
}

/* Read the environment and find the devices; the first call decides. */
ze_result_t zr_init(void);
/* UNINITIALIZED, with the reason. */
ze_result_t zr_no_driver(void);
/* The policy of contexts that state none; from here on it is what it is. */
enum zr_policy zr_driver_policy(void);
ze_result_t zr_device_create(struct zr_i915 *i915, unsigned index, struct zr_device **device_p);
void zr_device_destroy(struct zr_device *device);
/* Command queue groups of a device; all have the same engines. */
unsigned zr_device_groups(void);
/* Free bytes of its memory; all of it where the kernel does not tell. */
uint64_t zr_device_free(const struct zr_device *device);
/* The same in every process and after every boot: vendor, device and PCI address. */
void zr_device_uuid(const struct zr_device *device, ze_device_uuid_t *uuid);
ze_result_t zr_context_create(enum zr_policy policy, uint32_t devices,
                              struct zr_context **context_p);
/* The first device a context may use. */
struct zr_device *zr_context_device(const struct zr_context *context);
/* INVALID_ARGUMENT where the context was created without the device. */
ze_result_t zr_context_check_device(const struct zr_context *context,
                                    const struct zr_device *device);

/* First structure of type @a stype in a pNext chain, NULL if there is none. */
const void *zr_chain_find(const void *chain, ze_structure_type_t stype);

/* zeXxxGet: how many and which. */
#define ZR_COUNTED(count_p, available, array, element)                                            \
    do {                                                                                          \
        if (*(count_p) == 0 || *(count_p) > (available)) {                                        \
            *(count_p) = (available);                                                             \
        }                                                                                         \
        for (uint32_t i_ = 0; (array) != NULL && i_ < *(count_p); i_++) {                         \
            (array)[i_] = (element);                                                              \
        }                                                                                         \
    } while (0)

/* ---- something happened that a waiting thread cannot see in memory it polls (event.c) ---- */

uint64_t zr_activity_count(void);
void zr_activity_bump(void);
/* Sleep until the count differs from @a seen or @a deadline_ns (zr_time_ns) has passed. */
void zr_activity_wait(uint64_t seen, uint64_t deadline_ns);
static inline uint64_t zr_deadline(uint64_t timeout_ns)
{
    uint64_t now = zr_time_ns();

    return (timeout_ns > UINT64_MAX - now) ? UINT64_MAX : now + timeout_ns;
}

/* ---- functions of include/zerange/zerange.h (physical_ext.c) ---- */

__typeof__(*(zr_pfnPhysicalMemGetProperties_t)0) zr_physical_properties;
__typeof__(*(zr_pfnPhysicalMemOpen_t)0)          zr_physical_open;
__typeof__(*(zr_pfnDeviceMemClose_t)0)           zr_device_mem_close;
__typeof__(*(zr_pfnDeviceMemGetAddressList_t)0)  zr_device_mem_address_list;
__typeof__(*(zr_pfnRangeGetAddressList_t)0)      zr_range_address_list;

/* ---- imported.c: found by name too, as Intel's driver has them ---- */

/* Declares that [ptr, ptr+size) of the host will be copied. A part of what is declared already: no
 * effect. OVERLAPPING_REGIONS: only a part of it is. */
ze_result_t ZE_APICALL zr_import_pointer(ze_driver_handle_t driver, void *ptr, size_t size);
/* INVALID_ARGUMENT: nothing declared starts at ptr. */
ze_result_t ZE_APICALL zr_release_pointer(ze_driver_handle_t driver, void *ptr);
/* The start of what is declared around ptr; base may be NULL. INVALID_ARGUMENT: nothing is. */
ze_result_t ZE_APICALL zr_imported_base(ze_driver_handle_t driver, void *ptr, void **base);
/* The handle an object gets with its device, and its end with the object. */
ze_result_t zr_physical_created(struct zr_physical *physical, struct zr_device *device);
void zr_physical_drop_created(struct zr_physical *physical);

/* ---- ZERANGE_QUIRKS (quirks.c) ---- */

bool zr_quirks(void);
const void *zr_quirk_range_desc(const void *chain);
/* Replaces @a range, as walked, by what Intel's driver would export. */
ze_result_t zr_quirk_export(const void *ptr, size_t size, struct zr_range *range);
void zr_quirk_address_range(const struct zr_va_info *info, uintptr_t *base_p, size_t *size_p);

/* ---- plain host memory (hostmem.c) ---- */

ze_result_t zr_hostmem_create(struct zr_i915 *i915, struct zr_hostmem **hostmem_p);
void zr_hostmem_destroy(struct zr_hostmem *hostmem);
/**
 * A userptr object over the pages of [ptr, ptr+size): one that is known, or a new one.
 * @param fresh  drop what is known first: it did not work
 * @param bo_p   a reference for the caller
 */
ze_result_t zr_hostmem_get(struct zr_hostmem *hostmem, const void *ptr, size_t size, bool fresh,
                           struct zr_bo **bo_p, uint64_t *offset_p);
/** A system object with a copy of [ptr, ptr+size) as it is now, for a source that the device
 * cannot pin. @return INVALID_ARGUMENT if it cannot be read; the reference is the caller's. */
ze_result_t zr_hostmem_bounce(struct zr_hostmem *hostmem, const void *ptr, size_t size,
                              struct zr_bo **bo_p);


/* ---- dma-buf fds handed to clients (dmabuf.c) ---- */

/* The fd of an object; the driver keeps it as long as the object is there, a client that closes it
 * does no harm. -1: none. */
int zr_dmabuf_fd(struct zr_phys *phys, struct zr_bo *bo);
/* The object ends. */
void zr_dmabuf_forget(uint64_t phys_id);
/* The fd that was given out for the buffer behind @a fd; @a fd if none was. */
int zr_dmabuf_same(int fd);

#endif
