/* What this process shares: one export for each extent, found again for every slice of it. */
/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef ZR_PLUGIN_EXPORTS_H
#define ZR_PLUGIN_EXPORTS_H

#include "abi/uct_abi.h"
#include "link.h"

/** Called again it changes the limits. @return 0 or -ENOMEM. @param link  for the thread that
 * answers importers */
int zr_exports_start(const struct zr_rcache_limits *limits, uint64_t max_extent,
                     const struct zr_link_ops *link);

/* A registration of UCP. Its export changes when what lies around it does. */
struct zr_registration {
    struct zr_registration  *next; /* of all */
    uint64_t                 id;
    void                    *address;
    size_t                   length;
    struct zr_rcache_region *region; /* NULL: cannot be shared, peers are told so */
    struct zr_held          *held;   /* exports of parts of it that peers were given keys of */
};

/** Of [address, address+length). What cannot be shared is registered all the same, which is said
 * once. @return UCS_ERR_NO_MEMORY */
ucs_status_t zr_registration_create(void *address, size_t length,
                                    struct zr_registration **registration_p);
/** @param invalidate  no key of it serves any more, whoever has one */
void zr_registration_destroy(struct zr_registration *registration, bool invalidate);
/** The key as of now. */
void zr_registration_key(struct zr_registration *registration, struct zr_key *key);

/** [ptr, ptr+size) goes away: no key of it is given out again, its handles are put, importers are
 * asked to let go. A neighbour that is still registered gets a new export when it is asked for. */
void zr_exports_forget(void *ptr, size_t size);

/** For the link: a new key for a registration whose old one opens no more; pieces and their fds. */
void zr_exports_answer(const struct zr_link_message *request, struct zr_link_message *answer,
                       int *fds);

void zr_exports_stats(struct zr_rcache_stats *stats);

#endif
