/* Copies and fills whose memory the stream's own device does not reach: the kernel does not attach
 * a buffer that may only be local to another device. Such a piece is moved by the copy engines of
 * the device that has it, to or from a buffer in system memory that all reach:
 *
 *   stream's queue   ... |go 7|wait|                 |go 8|wait| ...        (in order, as always)
 *   device 1             |wait go 7|local -> buffer|done 7|
 *   device 2                                         |wait go 8|buffer -> local|done 8|
 *
 * The words lie beside the buffer. Engines wait for engines; the host only submits. Each stream has
 * queues of its own on the other devices, so that what one of them waits for is never behind it. */
/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef ZR_FAR_H
#define ZR_FAR_H

#include "stream.h"

/* How long a wait trusts that another device goes on. */
#define ZR_FAR_SLICE_NS UINT64_C(100000000)

/** As zr_copyq_copy and zr_copyq_fill on the stream's queue, for segments of any device's buffer
 * objects. Only inside a build; complete before what is added next. */
ze_result_t zr_far_copy(struct zr_build *build, const struct zr_seg *dst, unsigned dst_count,
                        const struct zr_seg *src, unsigned src_count, uint64_t length);
ze_result_t zr_far_fill(struct zr_build *build, const struct zr_seg *dst, unsigned dst_count,
                        uint64_t length, const uint8_t *pattern, unsigned pattern_size);
/** The stream's device writes its time, for a destination it does not reach. */
ze_result_t zr_far_timestamp(struct zr_build *build, const struct zr_seg *dst, unsigned dst_count);

/* What was added goes after the stream's own submission @a seqno; or nowhere. The stream's lock is
 * held. @return the failure of another device: then the stream's submission is lost too. */
ze_result_t zr_far_submit(struct zr_stream *stream, uint64_t seqno);
void zr_far_abort(struct zr_stream *stream);
/* Before a submission, with the stream's lock held: after a loss the others begin anew. */
void zr_far_refresh(struct zr_stream *stream);
/* The stream makes no progress: is it another device that was lost? */
void zr_far_check(struct zr_stream *stream);
/* Wait for what @a q, the stream's queue so far, has in flight with others, and give them back. */
void zr_far_destroy(struct zr_stream *stream, struct zr_copyq *q);

#endif
