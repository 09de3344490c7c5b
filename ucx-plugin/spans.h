/* Address ranges that never overlap, each with a value that its parts keep. The caller locks. */
/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef ZR_PLUGIN_SPANS_H
#define ZR_PLUGIN_SPANS_H

#include "rcache/itree.h"

struct zr_span {
    struct zr_itree_node node;
    uint64_t             value;
};

/** Nothing in [start, end) of @a space any more; what sticks out stays. */
void zr_span_cut(struct zr_itree *tree, uint64_t space, uint64_t start, uint64_t end);
/** [start, end) has @a value, instead of what was there. Without memory it has none. */
void zr_span_set(struct zr_itree *tree, uint64_t space, uint64_t start, uint64_t end,
                 uint64_t value);
/** @return the one that @a ptr lies in, NULL: none. */
const struct zr_span *zr_span_find(const struct zr_itree *tree, uint64_t space, uint64_t ptr);

#endif
