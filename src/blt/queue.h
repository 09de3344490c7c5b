/* Inside src/blt: a copy queue and its slots. A slot is one execbuf2: a batch per engine row, or
 * one batch. A submission of the caller is one slot or more, in order. */
/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef ZR_BLT_QUEUE_H
#define ZR_BLT_QUEUE_H

#include "encode.h"
#include "plan.h"

#include <pthread.h>

/* Room kept in each batch for the closing flush and the end. */
#define ZR_ROW_TAIL (ZR_BLT_FLUSH_DWORDS + ZR_BLT_END_DWORDS)

struct zr_row {
    struct zr_bo     *bo; /* NULL before the first use */
    struct zr_blt_out out;
    uint64_t          load; /* cost so far, see ZR_PIECE_COST */
};

struct zr_slot {
    struct zr_slot        *next;
    uint64_t               sequence; /* what each row writes when it is done */
    uint64_t               number;   /* of the submission this slot ends, 0 if it does not */
    uint64_t               serial;   /* of this use, for the stamps */
    bool                   wide;
    bool                   closed; /* a barrier: what follows goes to another slot */
    struct zr_row          row[ZR_MAX_ENGINES];
    struct zr_exec_object *objects; /* each with a reference */
    unsigned               count, capacity;
    uint64_t               bytes;         /* copied and filled, for messages */
    uint64_t               first_address; /* GPU address of the first destination */
};

struct zr_slot_list {
    struct zr_slot *head, *tail;
};

/* Where an object stands in the list of the slot being built. */
struct zr_stamp {
    uint64_t serial;
    unsigned index;
};

/* Submissions that were lost, by number. */
struct zr_lost {
    uint64_t first, last;
    char     text[256];
};

#define ZR_MAX_SLOTS   4096
#define ZR_PUMP_SLICE_NS UINT64_C(1000000)
#define ZR_LINES_BYTES 4096 /* of a queue's page: a line of 64 bytes per engine row */

struct zr_copyq {
    struct zr_i915           *dev;
    struct zr_ctx            *ctx;
    const struct zr_blt_caps *caps;
    unsigned                  width;
    unsigned                  first_row;    /* of a set: runs on the first engine only */
    bool                      first_single; /* so does the slot of one engine */
    bool                      has_rates;
    uint32_t                  rate[ZR_MAX_ENGINES]; /* relative, by row */
    struct zr_bo             *page; /* lines, then ZR_BLT_SCRATCH bytes per engine row */
    _Atomic uint64_t         *lines;

    atomic_uint_fast64_t done; /* every number up to it is over */
    atomic_uint_fast64_t last; /* newest number given out */
    atomic_uint          lost_total; /* losses so far */

    pthread_mutex_t     lock; /* guards what follows; lock-order.md level 2 */
    struct zr_slot_list free, flying, building;
    struct zr_slot     *resting[2]; /* the newest complete one on the slot of one engine, and of all */
    struct zr_slot_list backlog;    /* submitted, and not given to the kernel yet */
    unsigned            in_ring[2]; /* flying on the slot of one engine, and of all */
    uint64_t            full[2];    /* sequence of the oldest flying when that ring was full, 0: it was not */
    pthread_t           pump;       /* gives the backlog to the kernel when nobody else does */
    pthread_cond_t      pump_wake;
    bool                has_pump, stop_pump;
    struct zr_slot_list abandoned; /* lost, and the engines may still read their batches */
    unsigned            num_slots, num_free;
    unsigned            used_peak, used_before, uses; /* see zr_slot_count_use */
    uint64_t            sequence, serial;
    struct zr_stamp    *stamps; /* by handle */
    unsigned            num_stamps;
    uint64_t            progress_ns; /* when the oldest slot started to be the oldest */
    uint64_t            check_ns;    /* when the kernel was asked last */
    struct zr_lost     *lost; /* ordered by number; room for one more at any time */
    unsigned            num_lost, max_lost;
};

/* ---- slot.c; all with the queue's lock held ---- */

void            zr_slot_push(struct zr_slot_list *list, struct zr_slot *slot);
struct zr_slot *zr_slot_pop(struct zr_slot_list *list);
/** An empty slot at the end of q->building. Waits for the oldest when ZR_MAX_SLOTS fly. */
ze_result_t zr_slot_open(struct zr_copyq *q, bool wide, struct zr_slot **slot_p);
/** Room for @a dwords in a row's batch, its tail kept. */
ze_result_t zr_slot_reserve(struct zr_copyq *q, struct zr_slot *slot, unsigned row,
                            uint64_t dwords);
/** Add to the slot's objects, once, with a reference. */
ze_result_t zr_slot_add_object(struct zr_copyq *q, struct zr_slot *slot, struct zr_bo *bo,
                               bool write);
/* Drop the references; the slot's batches stay for the next use. */
void zr_slot_recycle(struct zr_copyq *q, struct zr_slot *slot);
/* It has written its numbers, and its engines read on to the end of their batches: these stay as
 * they are until a slot behind it on the same engines is complete. */
void zr_slot_rest(struct zr_copyq *q, struct zr_slot *slot);
void zr_slot_free_list(struct zr_slot_list *list);

/* ---- copyq.c, flow.c; with the queue's lock held but for the last ---- */

/** One execbuf2. @return as zr_ctx_exec; NOT_READY: no room, nothing has changed */
ze_result_t zr_copyq_exec(struct zr_copyq *q, struct zr_slot *slot);
/* Is it worth asking the kernel whether its ring has room for one more? */
bool zr_copyq_has_room(const struct zr_copyq *q, bool wide);
/* It said that there is none. */
void zr_copyq_found_full(struct zr_copyq *q, bool wide);
/* Took place: the slot flies. */
void zr_copyq_launched(struct zr_copyq *q, struct zr_slot *slot);
/* Give the kernel of the backlog what there is room for; a failure loses all that was submitted. */
void zr_copyq_pump(struct zr_copyq *q);
/** What is built goes to the backlog under @a number. @return false: no thread could be made */
bool zr_copyq_defer(struct zr_copyq *q, uint64_t number);
/* Takes the lock; nothing is in the backlog. */
void zr_copyq_stop_pump(struct zr_copyq *q);

/* ---- complete.c; with the queue's lock held ---- */

/* Recycle what is complete. */
void zr_copyq_reap(struct zr_copyq *q);
/* Reap and pump; ask the kernel when nothing gets on and @a number is not over. */
void zr_copyq_look(struct zr_copyq *q, uint64_t number);
/** Ask the kernel about work that makes no progress. @return SUCCESS while it lives */
ze_result_t zr_copyq_look_for_loss(struct zr_copyq *q);
/* Everything in flight is lost: its numbers report that from now on, the context is replaced. */
void zr_copyq_lose(struct zr_copyq *q, const char *cause);
/** Wait until nothing is in flight. @return false: something still is after 10 s */
bool zr_copyq_drain(struct zr_copyq *q);
/* Room for one more loss. @return false: no memory */
bool zr_copyq_reserve_lost(struct zr_copyq *q);

#endif
