/* Address ranges with a value: see spans.h. */
/* SPDX-License-Identifier: BSD-3-Clause */
#include "spans.h"

#include <stdlib.h>

static void insert(struct zr_itree *tree, uint64_t space, uint64_t start, uint64_t end,
                   uint64_t value)
{
    struct zr_span *span = calloc(1, sizeof(*span));

    if (span != NULL) {
        span->node.space = space;
        span->node.start = start;
        span->node.end   = end;
        span->value      = value;
        zr_itree_insert(tree, &span->node);
    }
}

void zr_span_cut(struct zr_itree *tree, uint64_t space, uint64_t start, uint64_t end)
{
    struct zr_itree_node *node;

    while ((node = zr_itree_find(tree, space, start, end, NULL, NULL)) != NULL) {
        struct zr_span old = *(struct zr_span *)node;

        zr_itree_remove(tree, node);
        free(node);
        if (old.node.start < start) {
            insert(tree, space, old.node.start, start, old.value);
        }
        if (old.node.end > end) {
            insert(tree, space, end, old.node.end, old.value);
        }
    }
}

void zr_span_set(struct zr_itree *tree, uint64_t space, uint64_t start, uint64_t end,
                 uint64_t value)
{
    zr_span_cut(tree, space, start, end);
    insert(tree, space, start, end, value);
}

const struct zr_span *zr_span_find(const struct zr_itree *tree, uint64_t space, uint64_t ptr)
{
    return (const struct zr_span *)zr_itree_find(tree, space, ptr, ptr + 1, NULL, NULL);
}
