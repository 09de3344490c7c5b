/* An ordered tree of half-open address intervals that may overlap: insert, remove, and visit what
 * overlaps a window in O(log n + hits). Memory belongs to the caller. */
/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef ZR_ITREE_H
#define ZR_ITREE_H

#include <stdbool.h>
#include <stdint.h>

/* Embed it; space, start and end must not change while the node is in a tree. */
struct zr_itree_node {
    uint64_t              space; /* intervals of different spaces never overlap */
    uint64_t              start, end;
    struct zr_itree_node *left, *right;
    uint64_t              max_end; /* largest end in the subtree */
    uint32_t              priority;
};

struct zr_itree {
    struct zr_itree_node *root;
    uint32_t              random;
};

void zr_itree_insert(struct zr_itree *tree, struct zr_itree_node *node);
void zr_itree_remove(struct zr_itree *tree, struct zr_itree_node *node);

/** The first interval in order of start that overlaps [start, end) of @a space and for which
 * @a match says true; NULL if none. */
struct zr_itree_node *
zr_itree_find(const struct zr_itree *tree, uint64_t space, uint64_t start, uint64_t end,
              bool (*match)(const struct zr_itree_node *node, const void *arg), const void *arg);

#endif
