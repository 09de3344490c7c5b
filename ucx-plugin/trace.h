/* What other drivers do not tell: maps, unmaps, allocations and reservations of this process, seen
 * by the loader's tracing layer from the moment it is started. */
/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef ZR_PLUGIN_TRACE_H
#define ZR_PLUGIN_TRACE_H

#include "ze.h"

/** From now on @a callback hears of every map and allocation after it, and of every unmap and free
 * before it, in the thread that does it.
 * @return false: the loader has no tracing layer, or it cannot be enabled; *why_p says so. */
bool zr_trace_start(const struct zr_ze *ze, zr_mapping_callback_t callback, const char **why_p);

/** The mapping at @a ptr, if it was made since the start: where it begins and ends and its offset
 * in the object. */
bool zr_trace_mapping(uint64_t ptr, uint64_t *start_p, uint64_t *end_p, uint64_t *offset_p);
/** The reservation at @a ptr, likewise. */
bool zr_trace_reservation(uint64_t ptr, uint64_t *start_p, uint64_t *end_p);

#endif
