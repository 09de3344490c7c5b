/* A copy queue: takes copies, fills, waits and writes, cuts them over the copy engines, encodes a
 * batch per engine, submits them in one execbuf2 and tells when they are done. In order: a
 * submission starts after the one before it is complete on all engines. */
/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef ZR_COPYQ_H
#define ZR_COPYQ_H

#include "i915/i915.h"

/* A run of bytes of one object. */
struct zr_seg {
    struct zr_bo *bo;
    uint64_t      offset, length; /* bytes */
};

enum zr_wait_op { ZR_WAIT_EQUAL, ZR_WAIT_NOT_EQUAL, ZR_WAIT_GREATER_EQUAL };

struct zr_copyq;

/** @param max_width most engines of one copy, 0: all the kernel gives */
ze_result_t zr_copyq_create(struct zr_i915 *dev, unsigned max_width, struct zr_copyq **q_p);
/* Waits for what is in flight, then frees. */
void zr_copyq_destroy(struct zr_copyq *q);
unsigned zr_copyq_width(const struct zr_copyq *q);

/* Building: begin takes the queue's lock, the calls between add work in order, submit or abort
 * gives it back. The queue holds references on every object until the work is complete. A failed
 * add leaves the build open; abort it. */
void zr_copyq_begin(struct zr_copyq *q);
/** Copy @a length bytes between two segment lists; both cover at least @a length bytes. The lists
 * need not be split alike. Overlap of source and destination gives undefined bytes. */
ze_result_t zr_copyq_copy(struct zr_copyq *q, const struct zr_seg *dst, unsigned dst_count,
                          const struct zr_seg *src, unsigned src_count, uint64_t length);
/** 2D/3D: rows of @a width bytes, all in one object each side; used by copy regions. */
ze_result_t zr_copyq_fill(struct zr_copyq *q, const struct zr_seg *dst, unsigned dst_count,
                          uint64_t length, const void *pattern, size_t pattern_size);
/** Everything added before is complete before what follows starts. */
ze_result_t zr_copyq_barrier(struct zr_copyq *q);
/** Engine waits until the 32-bit word at bo+offset compares true with @a value. */
ze_result_t zr_copyq_wait_word(struct zr_copyq *q, struct zr_bo *bo, uint64_t offset,
                               uint32_t value, enum zr_wait_op op);
/** After everything added before: write a 64-bit value / the engine's timestamp. 8-byte aligned.*/
ze_result_t zr_copyq_write_qword(struct zr_copyq *q, struct zr_bo *bo, uint64_t offset,
                                 uint64_t value);
ze_result_t zr_copyq_write_timestamp(struct zr_copyq *q, struct zr_bo *bo, uint64_t offset);
/** Submit what was added. @param seqno_p number to poll or wait for (grows by one per call).
 * @return SUCCESS; DEVICE_LOST, OUT_OF_*: nothing of it runs (what was added before a barrier, a
 * wait or a change between one engine and all may have), the queue is usable or says DEVICE_LOST
 * again. */
ze_result_t zr_copyq_submit(struct zr_copyq *q, uint64_t *seqno_p);
void zr_copyq_abort(struct zr_copyq *q);

/** No system call while progress is seen: reads mapped memory; without progress for 100 ms the
 * kernel is asked, at most every 100 ms.
 * @return SUCCESS, NOT_READY, or DEVICE_LOST with the cause in zr_last_error. */
ze_result_t zr_copyq_query(struct zr_copyq *q, uint64_t seqno);
/** Spin a little, then block in the kernel. @param timeout_ns UINT64_MAX: no limit */
ze_result_t zr_copyq_wait(struct zr_copyq *q, uint64_t seqno, uint64_t timeout_ns);
/* What is in flight waits for something that will not come: lost, as if the device had dropped it.
 * Takes the queue's lock. */
void zr_copyq_fail(struct zr_copyq *q, const char *cause);
/* Number of the newest submission, 0 if none. */
uint64_t zr_copyq_last(struct zr_copyq *q);

#endif
