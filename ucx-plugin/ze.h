/* The Level Zero side of the plugin: the device, what is mapped where, and handles made and
 * opened. Only the API of Level Zero is used, so it works on any driver the loader finds. */
/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef ZR_PLUGIN_ZE_H
#define ZR_PLUGIN_ZE_H

#include <zerange/zerange.h>

#include <stdbool.h>

/* One per process, made at first use, never freed; constant after that. */
struct zr_ze {
    ze_driver_handle_t  driver;
    ze_device_handle_t  device;
    ze_context_handle_t context;
    uint32_t            copy_group;  /* ordinal of the queue group copies go to */
    uint64_t            memory_size; /* bytes, of all the device's memories */
    bool                range_ext;   /* the driver lists the range extension */
    /* NULL where the driver does not tell of maps and unmaps */
    zr_pfnSubscribeMappings_t subscribe;
};

/** The first GPU of the first driver that has one. Level Zero is initialised by the first call.
 * @return NULL: there is none; zr_ze_missing() says why. */
const struct zr_ze *zr_ze_get(void);
const char         *zr_ze_missing(void);

/** @return the type of the memory at @a ptr, ZE_MEMORY_TYPE_UNKNOWN if not Level Zero's;
 * *id_p is the allocation's id. */
ze_memory_type_t zr_ze_memory_type(const struct zr_ze *ze, const void *ptr, uint64_t *id_p);

/* How a piece of memory is shared; what a packed key carries. */
enum zr_share_kind {
    ZR_SHARE_NONE  = 0, /* it cannot be */
    ZR_SHARE_RANGE = 1, /* handle of the range extension */
    ZR_SHARE_PLAIN = 2, /* handle of one allocation */
};

struct zr_share {
    enum zr_share_kind  kind;
    uint64_t            base, size; /* what the handle covers, in the exporter's addresses */
    ze_ipc_mem_handle_t handle;
};

/* Ways to share, tried in order; each answers for its kind. */
struct zr_share_ops {
    const char        *name;
    enum zr_share_kind kind;
    bool (*usable)(const struct zr_ze *ze);
    /* Export at least [ptr, ptr+size), at most @a limit bytes. */
    ze_result_t (*export)(const struct zr_ze *ze, uint64_t ptr, uint64_t size, uint64_t limit,
                          struct zr_share *share);
    ze_result_t (*open)(const struct zr_ze *ze, const struct zr_share *share, void **ptr_p);
};

/** Share [ptr, ptr+size), widened to what is mapped behind it up to @a limit bytes.
 * @param why  when no way works: each one tried and what it said
 * @return the last way's error if none works; share->kind is ZR_SHARE_NONE then. */
ze_result_t zr_share_export(const struct zr_ze *ze, uint64_t ptr, uint64_t size, uint64_t limit,
                            struct zr_share *share, char *why, size_t why_size);
/** The exporter's part; the handle is not used again. */
void zr_share_release(const struct zr_ze *ze, const struct zr_share *share);
/** @return the address of share->base here. */
ze_result_t zr_share_open(const struct zr_ze *ze, const struct zr_share *share, void **ptr_p);
void        zr_share_close(const struct zr_ze *ze, void *ptr);

/** The driver's own words on the last error of this thread; "" if it has none. */
const char *zr_ze_last_error(const struct zr_ze *ze);

#endif
