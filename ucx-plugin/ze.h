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
    uint32_t            driver_digest; /* peers of another driver have another */
    uint32_t            copy_group;  /* ordinal of the queue group copies go to */
    uint64_t            memory_size; /* bytes, of all the device's memories */
    bool                range_ext;   /* the driver lists the range extension */
    bool                ours;        /* its handles open in other processes as they are */
    /* NULL where the driver does not tell */
    zr_pfnSubscribeMappings_t  subscribe;   /* of maps and unmaps */
    zr_pfnMemGetReservation_t  reservation; /* where a reservation begins and ends */
};

/** The first GPU of the first driver that has one. Level Zero is initialised by the first call.
 * @return NULL: there is none; zr_ze_missing() says why. */
const struct zr_ze *zr_ze_get(void);
const char         *zr_ze_missing(void);

/** @return the type of the memory at @a ptr, ZE_MEMORY_TYPE_UNKNOWN if not Level Zero's;
 * *id_p is the allocation's id. */
ze_memory_type_t zr_ze_memory_type(const struct zr_ze *ze, const void *ptr, uint64_t *id_p);

/** Where the reservation of @a ptr begins and ends; false: it is in none, or nobody can say. */
bool zr_ze_reservation(const struct zr_ze *ze, uint64_t ptr, uint64_t *start_p, uint64_t *end_p);

/** Whether the caller is inside zr_probe: nobody needs to hear of the memory it maps. */
bool zr_probing(void);

/* How a piece of memory is shared; what a packed key carries. */
enum zr_share_kind {
    ZR_SHARE_NONE   = 0, /* it cannot be */
    ZR_SHARE_RANGE  = 1, /* handle of the range extension */
    ZR_SHARE_PLAIN  = 2, /* handle of one allocation */
    ZR_SHARE_PIECES = 3, /* handles that are asked for, and stitched by whoever opens them */
};

#define ZR_OFFSET_UNKNOWN UINT64_MAX

/* One handle of several. Travels between processes: no pointers, no padding. */
struct zr_piece {
    uint64_t start, length; /* in the exporter's addresses */
    uint64_t offset;        /* of start behind the address that opening the handle gives */
    uint8_t  handle[64];
    uint32_t has_fd; /* an fd travels with it and replaces the handle's first four bytes */
    uint32_t reserved;
};

struct zr_share {
    enum zr_share_kind  kind;
    uint64_t            base, size; /* what is shared, in the exporter's addresses */
    ze_ipc_mem_handle_t handle;     /* RANGE, PLAIN */
    struct zr_piece    *pieces;     /* PIECES: in order, without a gap */
    unsigned            count;
};

/* A share that is open here: the exporter's [start, end) is at `at`. */
struct zr_opened {
    unsigned count;
    struct {
        uint64_t start, end;
        char    *at;
        void    *opened;
    } pieces[];
};

/* What this driver's handles are good for, found out by trying (probe.c). */
enum zr_piece_base {
    ZR_PIECE_UNKNOWN, /* a handle of a mapping serves only where it shows the whole object */
    ZR_PIECE_OBJECT,  /* opening it gives the first byte of the object */
    ZR_PIECE_MAPPING, /* opening it gives the first byte of the mapping */
};
struct zr_probe {
    bool               range; /* the extension gives the right bytes */
    enum zr_piece_base piece;
    char               why[160]; /* range is false */
};
/** Tried by the first call, which takes about as long as a few small copies. */
const struct zr_probe *zr_probe(const struct zr_ze *ze);

/** Share [ptr, ptr+size), widened to what is mapped around it up to @a limit bytes and not beyond
 * its reservation.
 * @param why  when no way works: each one tried and what it said
 * @return the last way's error if none works; share->kind is ZR_SHARE_NONE then. */
ze_result_t zr_share_export(const struct zr_ze *ze, uint64_t ptr, uint64_t size, uint64_t limit,
                            struct zr_share *share, char *why, size_t why_size);
/** The exporter's part; the handles are not used again. */
void zr_share_release(const struct zr_ze *ze, struct zr_share *share);
/** The fd in a handle that a process must be given, -1 if it has none. It stays the handle's. */
int zr_share_fd(const uint8_t *handle);

/** @param fds  of the pieces, -1 where there is none; NULL for RANGE and PLAIN. They are closed in
 *              any case. */
ze_result_t zr_share_open(const struct zr_ze *ze, const struct zr_share *share, const int *fds,
                          struct zr_opened **opened_p);
void        zr_share_close(const struct zr_ze *ze, struct zr_opened *opened);
/** Where the exporter's @a remote is here, and how far it goes on from there. */
char *zr_opened_at(const struct zr_opened *opened, uint64_t remote, uint64_t *length_p);

/** The driver's own words on the last error of this thread; "" if it has none. */
const char *zr_ze_last_error(const struct zr_ze *ze);

#endif
