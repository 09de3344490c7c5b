/* Who a process is, so that no number that can be reused is taken for it; and the key that one
 * process packs for another. */
/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef ZR_PLUGIN_PEER_H
#define ZR_PLUGIN_PEER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* No padding: compared as bytes and sent between processes of one node. */
struct zr_peer {
    uint64_t start_time; /* clock ticks after boot */
    uint64_t pid_ns;     /* inode of the pid namespace */
    uint32_t pid;        /* in that namespace */
    uint32_t reserved;   /* 0 */
    uint64_t system_id;  /* of UCX: the same for processes that share a kernel */
};

/** This process; read again in a forked child. */
struct zr_peer zr_peer_self(void);
bool           zr_peer_equal(const struct zr_peer *a, const struct zr_peer *b);
/** A small number for @a peer that stays the same while this process lives; 0 is never one.
 * 0: out of memory. */
uint64_t zr_peer_space(const struct zr_peer *peer);

#define ZR_KEY_VERSION 2

/* What zr_md_mkey_pack writes; at most 255 bytes. */
struct zr_key {
    uint8_t        version; /* ZR_KEY_VERSION */
    uint8_t        kind;    /* enum zr_share_kind */
    uint8_t        reserved[6];
    uint64_t       export_id; /* the exporter never gives it twice */
    uint64_t       base, size;
    uint64_t       registration; /* random: whoever has it may ask for a new key */
    uint64_t       registered_base, registered_size; /* what of base, size it is for */
    uint64_t       link; /* where the exporter listens, 0: nowhere */
    struct zr_peer peer;
    uint8_t        handle[64]; /* PIECES: a secret */
};
_Static_assert(sizeof(struct zr_key) <= 255, "UCP asserts that a packed key has one length byte");

#endif
