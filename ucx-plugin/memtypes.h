/* What UCX's memory-type cache is told of Level Zero memory. */
/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef ZR_PLUGIN_MEMTYPES_H
#define ZR_PLUGIN_MEMTYPES_H

#include "ze.h"

/** [ptr, ptr+size) is memory of UCX's type @a type from now on. Objects side by side in one
 * reservation become one entry, so that a buffer over several is found. */
void zr_memtypes_appeared(const struct zr_ze *ze, void *ptr, size_t size, int type);
/** It is about to be nothing. */
void zr_memtypes_going(void *ptr, size_t size, int type);

#endif
