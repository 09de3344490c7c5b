/* What the transports of two processes say to each other beside UCX: an exporter tells importers to
 * let go of what it shares no more; an importer asks for what does not fit into a key, or for a
 * new key where an old one opens no more; a tool asks for the counters. docs/ucx-cache.md draws it.
 *
 * Each process listens on an abstract Unix socket whose name is a random number; both ends ask the
 * kernel that the other belongs to the same user. One thread a process, started by the first
 * export or import, serves it; it sleeps unless spoken to.
 */
/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef ZR_PLUGIN_LINK_H
#define ZR_PLUGIN_LINK_H

#include "peer.h"
#include "ze.h"

#include "rcache/rcache.h"

#define ZR_LINK_MAGIC   0x5a524c4bu
#define ZR_LINK_VERSION 1u
#define ZR_LINK_PREFIX  "zerange-ucx-" /* then the user, '-', and the number in hexadecimal */
#define ZR_LINK_PIECES_MAX 64          /* of one message */

enum zr_link_what {
    ZR_LINK_WATCH  = 1, /* to an exporter: tell this connection of what goes; answered */
    ZR_LINK_LETGO  = 2, /* from it: export_id, base, size; not answered */
    ZR_LINK_RENEW  = 3, /* a key opens no more; export_id is its registration, [base, base+size)
                           what is wanted; answered with another key */
    ZR_LINK_PIECES = 4, /* pieces of export_id from `first` on; answered with them and their fds */
    ZR_LINK_STATS  = 5, /* answered with the counters */
};

struct zr_link_stats {
    uint64_t               pid;
    struct zr_rcache_stats exports, imports;
    char                   program[32];
};

struct zr_link_message {
    uint32_t magic, version, what;
    int32_t  status; /* of an answer: 0 or -errno */
    uint64_t export_id, base, size;
    uint32_t first, count; /* pieces */
    uint8_t  secret[64];   /* the handle in the key of export_id */
    union {
        struct zr_key        key;
        struct zr_piece      pieces[ZR_LINK_PIECES_MAX];
        struct zr_link_stats stats;
    } u;
};

/* Called by the link's thread. */
struct zr_link_ops {
    /** Fill @a answer, whose first part is the request's. @a fds: of the pieces, to be sent; -1
     * where a handle has none; they stay the owner's. */
    void (*answer)(const struct zr_link_message *request, struct zr_link_message *answer,
                   int *fds);
    /** The exporter behind @a space asks to let go; @a id 0: of everything, it is gone. */
    void (*let_go)(uint64_t space, uint64_t base, uint64_t size, uint64_t id);
};

/** Have the thread running. @return this process's number, 0: it cannot run, which is said once. */
uint64_t zr_link_start(const struct zr_link_ops *ops);
/** The application ends or UCX is unloaded. */
void zr_link_stop(void);

/** Tell all who watch this process that an export ended. */
void zr_link_let_go(uint64_t export_id, uint64_t base, uint64_t size);

/** Be told of what the exporter with @a number lets go. @return false: it cannot be reached. */
bool zr_link_watch(uint64_t number, uint64_t space);
/** Whether zr_link_watch of it still stands. */
bool zr_link_watching(uint64_t number);

/**
 * Ask the exporter with @a number. Waits for the answer, 5 s at most.
 * @param fds  NULL, or room for ZR_LINK_PIECES_MAX fds, the caller's afterwards; -1: none came
 * @return 0 and the answer, or -errno: not reached, no answer, or the answer's own status.
 */
int zr_link_ask(uint64_t number, const struct zr_link_message *request,
                struct zr_link_message *answer, int *fds);

#endif
