/* A small hash map of nodes that live inside their owners; the owner's lock guards it. */
/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef ZR_HMAP_H
#define ZR_HMAP_H

#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

struct zr_hnode {
    struct zr_hnode *next;
    uint64_t         hash;
};

struct zr_hmap {
    struct zr_hnode **buckets;
    size_t            capacity; /* power of two, or 0 */
    size_t            count;
};

static inline uint64_t zr_hash_mix(uint64_t hash, uint64_t value)
{
    hash ^= value + UINT64_C(0x9e3779b97f4a7c15) + (hash << 6) + (hash >> 2);
    hash *= UINT64_C(0xbf58476d1ce4e5b9);
    return hash ^ (hash >> 29);
}

/* First node with this hash; the caller compares keys and goes on with zr_hmap_next. */
static inline struct zr_hnode *zr_hmap_next(struct zr_hnode *node, uint64_t hash)
{
    while (node != NULL && node->hash != hash) {
        node = node->next;
    }
    return node;
}

static inline struct zr_hnode *zr_hmap_first(const struct zr_hmap *map, uint64_t hash)
{
    return (map->capacity == 0)
               ? NULL
               : zr_hmap_next(map->buckets[hash & (map->capacity - 1)], hash);
}

static inline void zr_hmap_grow(struct zr_hmap *map)
{
    size_t            capacity = (map->capacity == 0) ? 64 : 2 * map->capacity, i;
    struct zr_hnode **buckets  = calloc(capacity, sizeof(*buckets));
    struct zr_hnode  *node, *next;

    if (buckets == NULL) {
        return; /* longer chains do as well */
    }
    for (i = 0; i < map->capacity; ++i) {
        for (node = map->buckets[i]; node != NULL; node = next) {
            next                                 = node->next;
            node->next                           = buckets[node->hash & (capacity - 1)];
            buckets[node->hash & (capacity - 1)] = node;
        }
    }
    free(map->buckets);
    map->buckets  = buckets;
    map->capacity = capacity;
}

/* 0, or -1 when there is no memory for the first buckets. */
static inline int zr_hmap_insert(struct zr_hmap *map, struct zr_hnode *node, uint64_t hash)
{
    struct zr_hnode **bucket;

    if (map->count >= map->capacity) {
        zr_hmap_grow(map);
        if (map->capacity == 0) {
            return -1;
        }
    }
    bucket     = &map->buckets[hash & (map->capacity - 1)];
    node->hash = hash;
    node->next = *bucket;
    *bucket    = node;
    map->count++;
    return 0;
}

static inline void zr_hmap_remove(struct zr_hmap *map, struct zr_hnode *node)
{
    struct zr_hnode **link = &map->buckets[node->hash & (map->capacity - 1)];

    while (*link != node) {
        link = &(*link)->next;
    }
    *link = node->next;
    map->count--;
}

#endif
