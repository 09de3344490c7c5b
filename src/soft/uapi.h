/* Parts of the kernel's interface that are younger than libdrm's headers; numbers of Linux 6.12. */
/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef ZR_SOFT_UAPI_H
#define ZR_SOFT_UAPI_H

#include <i915_drm.h>

#define ZR_PARAM_OA_TIMESTAMP_FREQUENCY 57
#define ZR_PARAM_PXP_STATUS             58
#define ZR_PARAM_HAS_CONTEXT_FREQ_HINT  59
#define ZR_CONTEXT_PARAM_LOW_LATENCY    0xe
#define ZR_QUERY_GUC_SUBMISSION_VERSION 7

struct zr_query_guc_submission_version {
    uint32_t branch, major, minor, patch;
};

/* SYNCOBJ_EVENTFD; DRM's number 0xcf */
struct zr_syncobj_eventfd {
    uint32_t handle, flags;
    uint64_t point;
    int32_t  fd;
    uint32_t pad;
};

/* GEM_CREATE_EXT's extension SET_PAT */
#define ZR_CREATE_EXT_SET_PAT 2
struct zr_create_ext_set_pat {
    struct i915_user_extension base;
    uint32_t                   pat_index, rsvd;
};

#endif
