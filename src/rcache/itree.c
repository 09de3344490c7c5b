/* Interval tree: a treap ordered by (space, start, address), each node knowing the largest end
 * below it, so that a search skips subtrees that end too early. */
/* SPDX-License-Identifier: BSD-3-Clause */
#include "itree.h"

#include <stddef.h>

static int compare(const struct zr_itree_node *a, const struct zr_itree_node *b)
{
    if (a->space != b->space) {
        return a->space < b->space ? -1 : 1;
    }
    if (a->start != b->start) {
        return a->start < b->start ? -1 : 1;
    }
    return (uintptr_t)a < (uintptr_t)b ? -1 : (a != b);
}

static void update(struct zr_itree_node *node)
{
    uint64_t max = node->end;

    if (node->left != NULL && node->left->max_end > max) {
        max = node->left->max_end;
    }
    if (node->right != NULL && node->right->max_end > max) {
        max = node->right->max_end;
    }
    node->max_end = max;
}

/* Nodes ordered before @a key go to *left_p, the others to *right_p. */
static void split(struct zr_itree_node *root, const struct zr_itree_node *key,
                  struct zr_itree_node **left_p, struct zr_itree_node **right_p)
{
    if (root == NULL) {
        *left_p = *right_p = NULL;
        return;
    }
    if (compare(root, key) < 0) {
        split(root->right, key, &root->right, right_p);
        *left_p = root;
    } else {
        split(root->left, key, left_p, &root->left);
        *right_p = root;
    }
    update(root);
}

static struct zr_itree_node *merge(struct zr_itree_node *left, struct zr_itree_node *right)
{
    if (left == NULL || right == NULL) {
        return left != NULL ? left : right;
    }
    if (left->priority > right->priority) {
        left->right = merge(left->right, right);
        update(left);
        return left;
    }
    right->left = merge(left, right->left);
    update(right);
    return right;
}

static uint32_t next_random(struct zr_itree *tree)
{
    uint32_t x = tree->random != 0 ? tree->random : 2463534242u;

    x ^= x << 13;
    x ^= x >> 17;
    x ^= x << 5;
    return tree->random = x;
}

void zr_itree_insert(struct zr_itree *tree, struct zr_itree_node *node)
{
    struct zr_itree_node *left, *right;

    node->left = node->right = NULL;
    node->priority           = next_random(tree);
    node->max_end            = node->end;
    split(tree->root, node, &left, &right);
    tree->root = merge(merge(left, node), right);
}

static struct zr_itree_node *remove_from(struct zr_itree_node *root, struct zr_itree_node *node)
{
    if (root == NULL) {
        return NULL;
    }
    if (root == node) {
        return merge(node->left, node->right);
    }
    if (compare(node, root) < 0) {
        root->left = remove_from(root->left, node);
    } else {
        root->right = remove_from(root->right, node);
    }
    update(root);
    return root;
}

void zr_itree_remove(struct zr_itree *tree, struct zr_itree_node *node)
{
    tree->root = remove_from(tree->root, node);
}

struct search {
    uint64_t space, start, end;
    bool (*match)(const struct zr_itree_node *node, const void *arg);
    const void *arg;
};

static struct zr_itree_node *find(struct zr_itree_node *node, const struct search *s)
{
    struct zr_itree_node *found;

    for (; node != NULL && node->max_end > s->start; node = node->right) {
        if (node->space >= s->space) {
            found = find(node->left, s);
            if (found != NULL) {
                return found;
            }
        }
        if (node->space > s->space || (node->space == s->space && node->start >= s->end)) {
            return NULL;
        }
        if (node->space == s->space && node->end > s->start &&
            (s->match == NULL || s->match(node, s->arg))) {
            return node;
        }
    }
    return NULL;
}

struct zr_itree_node *
zr_itree_find(const struct zr_itree *tree, uint64_t space, uint64_t start, uint64_t end,
              bool (*match)(const struct zr_itree_node *node, const void *arg), const void *arg)
{
    struct search s = {space, start, end, match, arg};

    return find(tree->root, &s);
}
