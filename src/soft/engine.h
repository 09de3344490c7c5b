/* Engines: batches, what decodes and runs them, and the scheduler that hands them out. Part of soft.h. */
/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef ZR_SOFT_ENGINE_H
#define ZR_SOFT_ENGINE_H

#include "vm.h"

/* ---- decode.c, blit.c: what the engines do ---- */

enum zr_soft_op_kind { ZR_SOFT_OP_NONE, ZR_SOFT_OP_COPY, ZR_SOFT_OP_FILL };

/* ---- tiling.c ---- */

enum { ZR_SOFT_LINEAR, ZR_SOFT_TILE_X, ZR_SOFT_TILE_Y, ZR_SOFT_TILE_4, ZR_SOFT_TILE_64 };

/* How a surface is tiled, and where in it the first byte of an operation is. */
struct zr_soft_tiling {
    uint8_t  kind, cpp;
    uint32_t x, y; /* bytes, rows */
};

/* Offset in the surface of a byte; *run_p becomes at most what follows it there. */
uint64_t zr_soft_tile_offset(const struct zr_soft_tiling *tiling, uint64_t pitch, uint64_t column,
                             uint64_t row, uint64_t *run_p);
/* Are base and pitch (bytes) as it needs them? */
bool zr_soft_tile_valid(const struct zr_soft_tiling *tiling, uint64_t base, uint64_t pitch);
/* Of a command's two bits. false: the part has no such tiling */
bool zr_soft_tile_kind(enum zr_soft_gen gen, unsigned code, bool block_copy, unsigned *kind_p);

/* A copy or fill of rows; can be left and taken up at any byte. */
struct zr_soft_op {
    enum zr_soft_op_kind kind;
    uint64_t             dst, src, dst_pitch, src_pitch;
    uint64_t             width, rows; /* bytes, count */
    uint64_t             row, column; /* done so far */
    struct zr_soft_tiling dst_tiling, src_tiling; /* dst, src: then of the surface */
    uint8_t              pattern[16];
    unsigned             pattern_size;
};

enum zr_soft_step {
    ZR_SOFT_DONE,    /* reached MI_BATCH_BUFFER_END */
    ZR_SOFT_MORE,    /* budget used up */
    ZR_SOFT_BLOCKED, /* waits for memory to change */
    ZR_SOFT_BUSY,    /* the rate model holds it until free_ns */
    ZR_SOFT_HANG,    /* reason says why */
};

enum zr_soft_batch_state { ZR_SOFT_PENDING, ZR_SOFT_RUNNING, ZR_SOFT_FINISHED };

struct zr_soft_batch {
    TAILQ_ENTRY(zr_soft_batch) link; /* runnable or waiting */
    struct zr_soft_req      *req;
    struct zr_soft_engine   *engine;
    enum zr_soft_batch_state state;
    unsigned                 row;
    bool                     is_waiting, started, polling;
    bool                     arbitrated, preemptible; /* in this round of a loop; in the last one */
    atomic_bool              replay; /* from its start, after a reset */
    uint64_t                 wake_ns, blocked_ns; /* blocked_ns: since when, 0: not */
    uint64_t                 started_ns, free_ns, ended_ns;
    uint64_t                 start, pc, at; /* GPU addresses, not canonical; at: the command
                                               that is being executed */
    unsigned                 hit[3];    /* entries found last: commands, source, destination */
    struct zr_soft_window   *window[3]; /* onto userptr memory of another process, by port */
    struct zr_soft_op        op;
    struct zr_soft_op       *held; /* dirty, lazy: to be done at the next flush */
    unsigned                 num_held, next_held;
    uint64_t                 bytes; /* copied or filled so far */
    char                     reason[160];
};

/** Run until an end of the batch or of @a budget (bytes moved, plus some for each command). */
enum zr_soft_step zr_soft_batch_run(struct zr_soft_batch *batch, uint64_t *budget);
/* Says why in batch->reason. @return ZR_SOFT_HANG */
enum zr_soft_step zr_soft_hang(struct zr_soft_batch *batch, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

enum zr_soft_port { ZR_SOFT_PORT_COMMAND, ZR_SOFT_PORT_SRC, ZR_SOFT_PORT_DST };
/* What an engine sees of another process's memory: a copy of a piece of it. */
#define ZR_SOFT_WINDOW (64 * ZR_KIB)
struct zr_soft_window {
    struct zr_soft_mm *mm;
    uint64_t           user;
    uint8_t            data[ZR_SOFT_WINDOW];
};

/** CPU address of a GPU address, with the bytes that follow in the same object (or window). Who
 * writes there says so with zr_soft_written.
 * @return NULL: nothing is bound there */
uint8_t *zr_soft_resolve(struct zr_soft_batch *batch, enum zr_soft_port port, uint64_t address,
                         uint64_t *available_p);
/* Read the source at an address that is looked at for the first time. false: resolve it. */
bool zr_soft_glance(struct zr_soft_batch *batch, uint64_t address, void *to, uint64_t length);
/* The destination got @a length bytes at @a cpu. false: its owner's pages are not there */
bool zr_soft_written(struct zr_soft_batch *batch, const void *cpu, uint64_t length);
/* CPU address of an aligned word. NULL: batch->reason is set. */
void *zr_soft_word(struct zr_soft_batch *batch, const char *name, const uint32_t *dw,
                   unsigned size);
/* Visible after everything the batch wrote before. */
enum zr_soft_step zr_soft_store(struct zr_soft_batch *batch, void *cpu, uint64_t value, bool quad);
/* Is it canonical, or the same address without sign extension? Clears the extension. */
bool zr_soft_address(const struct zr_soft_dev *dev, uint32_t low, uint32_t high,
                     uint64_t *address_p);
struct zr_soft_command;
/* Set batch->op from a 2D command. MORE: op is set. */
enum zr_soft_step zr_soft_decode_2d(struct zr_soft_batch *batch, const uint32_t *dw,
                                    const struct zr_soft_command *command);
/* Advance batch->op. DONE: finished; MORE: budget; HANG. */
enum zr_soft_step zr_soft_op_run(struct zr_soft_batch *batch, uint64_t *budget);

/* ---- copy.c: how bytes are moved ---- */

/* A set that copies so much streams. */
uint64_t zr_soft_stream_bytes(void);
/* Before a request is handed over; @a objects_bytes: of all objects it names. */
void zr_soft_req_choose_copy(struct zr_soft_req *req, uint64_t objects_bytes);
/* As memmove; @a stream: past the cache. */
void zr_soft_copy(uint8_t *to, const uint8_t *from, uint64_t length, bool stream);

/* The opcode table: one entry per form of a command, with the generations that have it. */
struct zr_soft_command {
    const char *name;
    uint32_t    mask, value; /* of dword 0: opcode and length */
    unsigned    dwords, gens, classes;
    enum zr_soft_step (*decode)(struct zr_soft_batch *, const uint32_t *,
                                const struct zr_soft_command *);
    uint32_t    reserved[22]; /* bits that must be zero */
};
extern const struct zr_soft_command zr_soft_blits[];
extern const unsigned               zr_soft_num_blits;
extern const struct zr_soft_command zr_soft_renders[];
extern const unsigned               zr_soft_num_renders;

/* Length from the command itself; its table entry's reserved bits are those of dword 0. */
#define ZR_SOFT_VARIABLE   0u
#define ZR_SOFT_MAX_DWORDS 258u
static inline unsigned zr_soft_command_length(const struct zr_soft_command *command, uint32_t dw0)
{
    return command->dwords != ZR_SOFT_VARIABLE ? command->dwords : (dw0 & 0xff) + 2;
}

#define ZR_SOFT_GENS_ALL    15u
#define ZR_SOFT_GENS(gen)   (1u << (gen))
#define ZR_SOFT_CLASSES_ALL 0xffu
#define ZR_SOFT_CLASS_COPY  (1u << I915_ENGINE_CLASS_COPY)

/* ---- registers.c ---- */

struct zr_soft_registers {
    uint64_t gpr[16];
    uint32_t predicate, predicate_1, predicate_2;
    uint32_t noop; /* when predicate_2 leaves commands out: the mode of MI_SET_PREDICATE */
    uint32_t swctrl; /* of a copy engine: how the older commands' tiled surfaces are tiled */
};
#define ZR_SOFT_SWCTRL_SRC_Y 1u
#define ZR_SOFT_SWCTRL_DST_Y 2u
#define ZR_SOFT_SWCTRL_BITS  3u
/* Of the batch's slot, made when they are used first; NULL: no memory. */
struct zr_soft_registers *zr_soft_registers_get(struct zr_soft_batch *batch);

uint32_t zr_soft_mmio_base(unsigned class, unsigned instance);
enum zr_soft_step zr_soft_mi_load_imm(struct zr_soft_batch *batch, const uint32_t *dw,
                                      const struct zr_soft_command *command);
enum zr_soft_step zr_soft_mi_load_reg(struct zr_soft_batch *batch, const uint32_t *dw,
                                      const struct zr_soft_command *command);
enum zr_soft_step zr_soft_mi_load_mem(struct zr_soft_batch *batch, const uint32_t *dw,
                                      const struct zr_soft_command *command);
enum zr_soft_step zr_soft_mi_store_reg(struct zr_soft_batch *batch, const uint32_t *dw,
                                       const struct zr_soft_command *command);
enum zr_soft_step zr_soft_mi_math(struct zr_soft_batch *batch, const uint32_t *dw,
                                  const struct zr_soft_command *command);

/* ---- sched.c: requests, engines, threads ---- */

struct zr_soft_req {
    TAILQ_ENTRY(zr_soft_req) link;      /* pending */
    TAILQ_ENTRY(zr_soft_req) slot_link;
    bool                   in_pending, run_inline, fault_hang; /* fault_hang: on demand */
    bool                   stream; /* its copies go past the cache */
    bool                   tells;  /* the user fence: tell_value goes to GPU address tell_at */
    uint64_t               tell_at, tell_value;
    struct zr_soft_ctx    *ctx;
    struct zr_soft_slot   *slot;
    struct zr_soft_table  *table;
    unsigned               generation; /* of the table; only who runs long looks for a newer one */
    struct zr_soft_fence  *fence;
    struct zr_soft_fence **deps;
    unsigned               num_deps, max_deps;
    struct zr_soft_fence  *start; /* waits for its start; NULL: no */
    atomic_int             error; /* negative errno: stop */
    unsigned               width, finished;
    uint64_t               progress_ns; /* when one of its batches last got on */
    struct zr_soft_batch   batch[];
};

struct zr_soft_req *zr_soft_req_new(struct zr_soft_ctx *ctx, struct zr_soft_slot *slot);
/* What is bound by now; with the lock held. */
void zr_soft_req_rebind(struct zr_soft_req *req);
int  zr_soft_req_await(struct zr_soft_req *req, struct zr_soft_fence *fence);
/* Only until the other request has started. */
void zr_soft_req_await_start(struct zr_soft_req *req, struct zr_soft_fence *fence);
void zr_soft_req_free(struct zr_soft_req *req);
/* Hand over; small work is done before it returns. The lock is given up meanwhile. */
void zr_soft_req_submit(struct zr_soft_req *req);
/* Cancel what a context has in flight. */
void zr_soft_ctx_kill(struct zr_soft_ctx *ctx);
/* Reset all engines: nobody is to blame, and what ran runs again from its start; lost: all that was
 * submitted is cancelled, and the device takes nothing more. */
void zr_soft_dev_reset(struct zr_soft_dev *dev, bool lost);
/* Reset engines: what is on one hangs; or end all there is without blame. */
void zr_soft_dev_reset_active(struct zr_soft_dev *dev);
void zr_soft_dev_cancel(struct zr_soft_dev *dev);
/* No batch is being run between these; the lock is given up meanwhile. */
void zr_soft_engines_pause(struct zr_soft_dev *dev);
void zr_soft_engines_resume(struct zr_soft_dev *dev);
/* Start what can start. */
void zr_soft_dispatch(struct zr_soft_dev *dev);
void zr_soft_threads_stop(struct zr_soft_dev *dev);
uint64_t zr_soft_timestamp(const struct zr_soft_dev *dev);

#endif
