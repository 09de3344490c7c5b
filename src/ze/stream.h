/* A stream: one copy queue with what it takes to feed it pointers, behind a queue or an immediate
 * list; and the operations that lists record and streams carry out. */
/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef ZR_STREAM_H
#define ZR_STREAM_H

#include "ze.h"

enum zr_op_type {
    ZR_OP_COPY,
    ZR_OP_FILL,
    ZR_OP_REGION,
    ZR_OP_BARRIER,
    ZR_OP_WAIT,      /* until an event is signaled */
    ZR_OP_SIGNAL,    /* an event, with its end time where its pool wants times */
    ZR_OP_RESET,     /* an event */
    ZR_OP_STARTED,   /* write an event's start time */
    ZR_OP_TIMESTAMP, /* write the device's time */
    ZR_OP_TIMES,     /* copy an event's times */
};

struct zr_region {
    void            *dst;
    const void      *src;
    ze_copy_region_t dst_region, src_region;
    uint32_t         dst_pitch, dst_slice_pitch, src_pitch, src_slice_pitch; /* bytes */
};

struct zr_op {
    enum zr_op_type type;
    union {
        struct {
            void       *dst;
            const void *src;
            size_t      size;
        } copy;
        struct {
            void    *dst;
            size_t   size;
            uint32_t pattern_size;
            uint8_t  pattern[ZR_MAX_PATTERN];
        } fill;
        struct zr_region region;
        struct zr_event *event;
        uint64_t        *timestamp;
        struct {
            struct zr_event              *event;
            ze_kernel_timestamp_result_t *dst;
        } times;
    };
};

struct zr_far;

/* The newest submissions that read from the staging ring. */
#define ZR_STAGED_MAX 64
struct zr_staged {
    uint64_t seqno, end; /* ring position after its last byte */
};

struct zr_stream {
    atomic_uint       refs;
    struct zr_device *device;
    struct zr_stream *next, *prev; /* all of the process; guarded by the list's lock */

    pthread_rwlock_t closing; /* held for reading while q is used by a thread that only watches */
    struct zr_copyq *q;       /* NULL once closed */

    _Atomic(struct zr_far *) far; /* other devices' part in it (far.c); NULL before the first */

    pthread_mutex_t   lock;          /* taken before the copy queue's; guards what follows */
    size_t            staging_size;  /* bytes, a power of two; 0: no staging */
    struct zr_bo     *staging;       /* made when first used */
    char             *staging_cpu;
    uint64_t          head, tail;    /* ring positions, counted in bytes since the beginning */
    struct zr_staged  staged[ZR_STAGED_MAX];
    unsigned          staged_first, staged_count;
    uint64_t          unsafe_seqno;  /* newest submission after which host memory may differ */
    struct zr_range   range[2];      /* scratch: destination, source */
    struct zr_seg    *segs[4];       /* scratch: destination, source, a row of each */
    unsigned          segs_capacity[4];
    struct zr_seg    *rows[2]; /* scratch of a region across devices: all rows of both sides */
};

/* Bytes of all staging rings. */
uint64_t zr_staging_bytes(void);
void zr_staging_count(int64_t more);
ze_result_t zr_stream_create(struct zr_device *device, enum zr_policy policy,
                             struct zr_stream **stream_p);
struct zr_stream *zr_stream_ref(struct zr_stream *stream);
void zr_stream_unref(struct zr_stream *stream);
/* Wait for what is in flight and give the copy queue back; what remains answers "done". */
void zr_stream_close(struct zr_stream *stream);

/**
 * Carry out @a count operations in order.
 * @param relaxed  the application allows copies and fills of these to overlap
 * @param seqno_p  set to the number of the last submission
 * @return SUCCESS; INVALID_ARGUMENT with the address; UNSUPPORTED_FEATURE; DEVICE_LOST; OUT_OF_*
 */
ze_result_t zr_stream_run(struct zr_stream *stream, const struct zr_op *ops, unsigned count,
                          bool relaxed, uint64_t *seqno_p);
/* As zr_copyq_query and zr_copyq_wait; SUCCESS once the stream is closed. */
ze_result_t zr_stream_query(struct zr_stream *stream, uint64_t seqno);
ze_result_t zr_stream_wait(struct zr_stream *stream, uint64_t seqno, uint64_t timeout_ns);
/* Everything submitted so far. */
ze_result_t zr_stream_drain(struct zr_stream *stream, uint64_t timeout_ns);

/* Wait for every stream of @a device (NULL: of all devices). */
ze_result_t zr_streams_drain(const struct zr_device *device);
/* At the end of the driver: close those that are idle; a kernel cleans up after the others. */
void zr_streams_end(void);

/* ---- inside (stream.c, list_exec.c) ---- */

/* One submission being built. */
struct zr_build {
    struct zr_stream *stream;
    bool              relaxed;
    bool              fresh;     /* second try: do not trust known userptr objects */
    bool              may_stage; /* a host source read now has the bytes it will have later */
    bool              hosted;    /* uses userptr objects */
    bool              changes_host; /* writes host memory, or waits for something that may */
    bool              unordered; /* a copy or fill was added since the last barrier */
    unsigned          added;
    uint64_t          head;      /* staging ring position, kept if the submission succeeds */
};

/* list_exec.c: add one operation to the open build. */
ze_result_t zr_build_add(struct zr_build *build, const struct zr_op *op);
/* stream.c: @a size bytes of the staging ring, NULL if there is no room now. */
char *zr_build_stage(struct zr_build *build, size_t size, struct zr_seg *seg);
ze_result_t zr_stream_reserve(struct zr_stream *stream, unsigned which, unsigned count);

/* list.c: add an operation to what is recorded; append one (NULL: none) with its events to a list
 * whose handle has been checked. */
ze_result_t zr_list_push(struct zr_list *list, const struct zr_op *op);
ze_result_t zr_list_append(struct zr_list *list, const struct zr_op *op,
                           ze_event_handle_t hSignalEvent, uint32_t numWaitEvents,
                           ze_event_handle_t *phWaitEvents);
/* queue.c: INVALID_* unless it is a closed regular list for @a device. */
ze_result_t zr_list_check_closed(const struct zr_device *device, ze_command_list_handle_t hList);

/* event.c */
void zr_event_arm(struct zr_event *event, struct zr_stream *stream, uint64_t seqno);
bool zr_event_has_times(const struct zr_event *event);

#endif
