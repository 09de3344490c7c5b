/* What Intel's out-of-tree driver ("backports") adds to the kernel's interface, as far as it is
 * carried out here: numbers and layouts of its i915_drm_prelim.h (March 2025). */
/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef ZR_SOFT_UAPI_PRELIM_H
#define ZR_SOFT_UAPI_PRELIM_H

#include <i915_drm.h>

/* Everything it adds is numbered from here, in each space of names. */
#define ZR_PRELIM 0x10000u

/* Requests, counted from DRM_COMMAND_BASE. GEM_CREATE has an argument that is longer. */
#define ZR_PRELIM_GET_RESET_STATS 0x52
#define ZR_PRELIM_VM_PREFETCH     0x59
#define ZR_PRELIM_WAIT_USER_FENCE 0x5a
#define ZR_PRELIM_VM_ADVISE       0x5b
#define ZR_PRELIM_VM_UNBIND       0x5c
#define ZR_PRELIM_VM_BIND         0x5d

enum zr_prelim_param {
    ZR_PRELIM_PARAM_MAX_ENGINE           = ZR_PRELIM | 1,
    ZR_PRELIM_PARAM_HAS_SVM              = ZR_PRELIM | 4,
    ZR_PRELIM_PARAM_OA_TIMESTAMP         = ZR_PRELIM | 5,
    ZR_PRELIM_PARAM_HAS_VM_BIND          = ZR_PRELIM | 6,
    ZR_PRELIM_PARAM_HAS_PAGE_FAULT       = ZR_PRELIM | 7,
    ZR_PRELIM_PARAM_HAS_SET_PAIR         = ZR_PRELIM | 8,
    ZR_PRELIM_PARAM_EU_DEBUGGER_VERSION  = ZR_PRELIM | 9,
    ZR_PRELIM_PARAM_HAS_CHUNK_SIZE       = ZR_PRELIM | 10,
};

enum zr_prelim_query {
    ZR_PRELIM_QUERY_MEMORY_REGIONS     = 4,
    ZR_PRELIM_QUERY_DISTANCE           = 5,
    ZR_PRELIM_QUERY_HWCONFIG           = 6,
    ZR_PRELIM_QUERY_GEOMETRY_SUBSLICES = 7,
    ZR_PRELIM_QUERY_COMPUTE_SUBSLICES  = 8,
    ZR_PRELIM_QUERY_HW_IP_VERSION      = 12,
    ZR_PRELIM_QUERY_ENGINES            = 13,
};

struct zr_prelim_create {
    uint64_t size;
    uint32_t handle, pad;
    uint64_t extensions;
};
enum zr_prelim_create_ext { ZR_PRELIM_CREATE_SETPARAM = 1, ZR_PRELIM_CREATE_VM_PRIVATE = 3 };
struct zr_prelim_create_param {
    struct i915_user_extension base;
    uint32_t                   handle, size;
    uint64_t                   param, data;
};
#define ZR_PRELIM_OBJECT_REGIONS (UINT64_C(1) << 48 | ZR_PRELIM | 1)
struct zr_prelim_create_private {
    struct i915_user_extension base;
    uint32_t                   vm;
};

struct zr_prelim_bind {
    uint32_t vm, handle;
    uint64_t start, offset, length, flags, extensions;
};
#define ZR_PRELIM_BIND_IMMEDIATE (UINT64_C(1) << 63)
#define ZR_PRELIM_BIND_READONLY  (UINT64_C(1) << 62)
#define ZR_PRELIM_BIND_FD        (UINT64_C(1) << 59)
enum zr_prelim_bind_ext {
    ZR_PRELIM_BIND_SYNC_FENCE,
    ZR_PRELIM_BIND_SET_PAT = 2,
    ZR_PRELIM_BIND_USER_FENCE,
};
struct zr_prelim_bind_fence { /* of both kinds; the address is the caller's */
    struct i915_user_extension base;
    uint64_t                   address, value;
};
struct zr_prelim_bind_pat {
    struct i915_user_extension base;
    uint64_t                   index;
};

/* VM_CREATE */
#define ZR_PRELIM_VM_NO_SCRATCH  (1u << 16)
#define ZR_PRELIM_VM_PAGE_FAULT  (1u << 17)
#define ZR_PRELIM_VM_BIND_ONLY   (1u << 18)
#define ZR_PRELIM_VM_FLAGS       (7u << 16)
struct zr_prelim_region_ext {
    struct i915_user_extension               base;
    struct drm_i915_gem_memory_class_instance region;
    uint32_t                                 pad;
};

/* CONTEXT_CREATE and its parameters */
#define ZR_PRELIM_CONTEXT_LONG_RUNNING (1u << 31)
#define ZR_PRELIM_CONTEXT_RUN_ALONE    (ZR_PRELIM | 0xf)

/* EXECBUFFER2: written to that GPU address when the batch is over. */
#define ZR_PRELIM_EXEC_USER_FENCE 1
struct zr_prelim_exec_fence {
    struct i915_user_extension base;
    uint64_t                   address, value, rsvd;
};

/* (*address & mask) OP (value & mask); the address is the caller's */
struct zr_prelim_wait {
    uint64_t extensions, address;
    uint32_t context;
    uint16_t op, flags;
    uint64_t value, mask;
    int64_t  timeout; /* ns, below 0: for ever */
};
enum zr_prelim_op {
    ZR_PRELIM_EQ = 1 << 8,
    ZR_PRELIM_NEQ,
    ZR_PRELIM_GT,
    ZR_PRELIM_GTE,
    ZR_PRELIM_LT,
    ZR_PRELIM_LTE,
    ZR_PRELIM_BEFORE,
    ZR_PRELIM_AFTER,
};
#define ZR_PRELIM_WAIT_SOFT    (1u << 15)
#define ZR_PRELIM_WAIT_ABSTIME (1u << 14)

struct zr_prelim_reset_stats {
    uint32_t context, flags, reset_count, batch_active, batch_pending, status;
    uint64_t fault_address;
    uint16_t fault_type, fault_level, fault_access, fault_flags;
};
#define ZR_PRELIM_STATUS_BANNED 1u

struct zr_prelim_advise {
    uint32_t                                  vm, handle;
    uint64_t                                  start, length;
    uint32_t                                  attribute;
    struct drm_i915_gem_memory_class_instance region;
    uint32_t                                  rsvd[2];
};
struct zr_prelim_prefetch {
    uint32_t region, vm;
    uint64_t start, length;
};

struct zr_prelim_engine {
    struct i915_engine_class_instance engine;
    uint32_t                          oa_unit;
    uint64_t                          flags, capabilities, known_capabilities;
    uint16_t                          logical, rsvd1[3];
    uint64_t                          rsvd2[2];
};
#define ZR_PRELIM_ENGINE_FLAGS       (UINT64_C(7) << 61) /* capabilities, logical id, OA unit known */
#define ZR_PRELIM_COPY_BLOCK         (UINT64_C(1) << 63)
#define ZR_PRELIM_COPY_SATURATE_PCIE (UINT64_C(1) << 62)
#define ZR_PRELIM_COPY_SATURATE_LINK (UINT64_C(1) << 61)
#define ZR_PRELIM_COPY_SATURATE_LMEM (UINT64_C(1) << 60)

struct zr_prelim_region {
    struct drm_i915_gem_memory_class_instance region;
    uint32_t                                  rsvd0;
    uint64_t                                  caps, flags, probed, unallocated, rsvd1[8];
};
struct zr_prelim_distance {
    struct i915_engine_class_instance         engine;
    struct drm_i915_gem_memory_class_instance region;
    int32_t                                   distance;
    uint32_t                                  rsvd[3];
};
struct zr_prelim_ip_version {
    struct i915_engine_class_instance engine;
    uint8_t                           flags, architecture, release, stepping;
};

#endif
