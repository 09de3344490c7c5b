/* Tells ThreadSanitizer of an order it cannot see. A word that an engine writes and the host reads
 * (a sequence number, an event) is one page mapped at two addresses: the sanitizer pairs the
 * release and the acquire by address, so that plain host memory, which both reach at the same
 * address, seems to be handed over without any order. The two mappings agree on the place in the
 * page; that is what they meet by here. Each call stands next to the atomic access that really
 * orders, and without the sanitizer there is nothing. */
/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef ZR_ORDER_H
#define ZR_ORDER_H

#if defined(__SANITIZE_THREAD__)
#include <sanitizer/tsan_interface.h>
#include <stdint.h>

/* One per 8 bytes of a page; of the whole program. */
extern char zr_order_places[512];

/* Before the store that hands over. */
static inline void zr_order_release(const void *word)
{
    __tsan_release(&zr_order_places[((uintptr_t)word & 4095) / 8]);
}

/* After a load that has seen it. */
static inline void zr_order_acquire(const void *word)
{
    __tsan_acquire(&zr_order_places[((uintptr_t)word & 4095) / 8]);
}
#else
static inline void zr_order_release(const void *word)
{
    (void)word;
}

static inline void zr_order_acquire(const void *word)
{
    (void)word;
}
#endif

#endif
