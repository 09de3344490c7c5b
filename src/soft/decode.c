/* The command streamer: fetches commands from a batch, checks every bit of them, executes the MI
 * ones and hands 2D ones to blit.c. What the table does not know hangs the engine. */
/* SPDX-License-Identifier: BSD-3-Clause */
#include "soft.h"
#include "util/order.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define ZR_SOFT_COMMAND_COST 16 /* of the budget, beside the bytes it moves */
#define ZR_SOFT_MI_OPCODE    0xff800000u
#define ZR_SOFT_2D_OPCODE    0xffc00000u
#define ZR_SOFT_3D_OPCODE    0xffff0000u

enum zr_soft_step zr_soft_hang(struct zr_soft_batch *batch, const char *format, ...)
{
    va_list args;

    va_start(args, format);
    vsnprintf(batch->reason, sizeof(batch->reason), format, args);
    va_end(args);
    return ZR_SOFT_HANG;
}

/* A window onto userptr memory of another process. Of a destination only a word is needed: what
 * is longer is written whole. */
static uint8_t *zr_soft_window_open(struct zr_soft_batch *batch, enum zr_soft_port port,
                                    const struct zr_soft_bo *bo, uint64_t offset,
                                    uint64_t *available_p)
{
    struct zr_soft_window *window = batch->window[port];
    uint64_t               size   = ZR_MIN(ZR_SOFT_WINDOW, *available_p);

    if (window == NULL) {
        window = batch->window[port] = malloc(sizeof(*window));
        if (window == NULL) {
            return NULL;
        }
    }
    window->mm   = bo->mm;
    window->user = (uintptr_t)bo->user + offset;
    if (zr_soft_mm_read(window->mm, window->user, window->data,
                        port == ZR_SOFT_PORT_DST ? ZR_MIN(size, 8u) : size) != 0) {
        return NULL;
    }
    *available_p = size;
    return window->data;
}

bool zr_soft_written(struct zr_soft_batch *batch, const void *cpu, uint64_t length)
{
    const struct zr_soft_window *window = batch->window[ZR_SOFT_PORT_DST];
    const uint8_t               *at     = cpu;

    if (window == NULL || at < window->data || at >= window->data + sizeof(window->data)) {
        return true;
    }
    if (zr_soft_mm_write(window->mm, window->user + (at - window->data), at, length) != 0) {
        zr_soft_hang(batch, "the pages of a userptr object at 0x%lx are gone",
                     (unsigned long)window->user);
        return false;
    }
    return true;
}

/* Who runs long sees what was bound after it started, and no more what was unbound. A set runs on
 * several threads and keeps what it started with. */
static void zr_soft_long_look(struct zr_soft_req *req)
{
    struct zr_soft_dev *dev = req->ctx->dev;

    if (req->width == 1 &&
        atomic_load_explicit(&req->ctx->vm->generation, memory_order_acquire) != req->generation) {
        pthread_mutex_lock(&dev->lock);
        zr_soft_req_rebind(req);
        pthread_mutex_unlock(&dev->lock);
    }
}

/* What is bound at @a address, and where in the object that is; NULL: nothing. */
static inline const struct zr_soft_entry *zr_soft_bound(struct zr_soft_batch *batch,
                                                        enum zr_soft_port port, uint64_t address,
                                                        uint64_t *within_p)
{
    const struct zr_soft_table *table;
    unsigned                    low = 0, high, middle, hit = batch->hit[port];
    const struct zr_soft_entry *entry;

    if (batch->req->ctx->long_running) {
        zr_soft_long_look(batch->req);
    }
    table = batch->req->table;
    high  = table->count;
    if (hit >= table->count || address < table->entry[hit].start ||
        address >= table->entry[hit].end) {
        while (low < high) {
            middle = (low + high) / 2;
            if (table->entry[middle].end <= address) {
                low = middle + 1;
            } else {
                high = middle;
            }
        }
        if (low == table->count || address < table->entry[low].start) {
            return NULL;
        }
        hit = batch->hit[port] = low;
    }
    entry     = &table->entry[hit];
    *within_p = address - entry->start + entry->offset;
    /* Unbound, or what an object was padded with. */
    return entry->bo != NULL && *within_p < entry->bo->size ? entry : NULL;
}

uint8_t *zr_soft_resolve(struct zr_soft_batch *batch, enum zr_soft_port port, uint64_t address,
                         uint64_t *available_p)
{
    uint64_t                    within;
    const struct zr_soft_entry *entry = zr_soft_bound(batch, port, address, &within);
    uint8_t                    *cpu;

    if (entry == NULL) {
        return NULL;
    }
    *available_p = ZR_MIN(entry->bo->size - within, entry->end - address);
    if (entry->bo->mm != NULL) {
        return zr_soft_window_open(batch, port, entry->bo, within, available_p);
    }
    cpu = zr_soft_bo_cpu(entry->bo);
    return cpu != NULL ? cpu + within : NULL;
}

bool zr_soft_glance(struct zr_soft_batch *batch, uint64_t address, void *to, uint64_t length)
{
    uint64_t                    within;
    const struct zr_soft_entry *entry = zr_soft_bound(batch, ZR_SOFT_PORT_SRC, address, &within);

    return entry != NULL && length <= entry->end - address &&
           zr_soft_bo_glance(entry->bo, within, to, length);
}

bool zr_soft_address(const struct zr_soft_dev *dev, uint32_t low, uint32_t high,
                     uint64_t *address_p)
{
    uint64_t address   = low | (uint64_t)high << 32;
    unsigned shift     = 64 - dev->profile.gtt_bits;
    uint64_t plain     = address << shift >> shift;
    uint64_t canonical = (uint64_t)((int64_t)(address << shift) >> shift);

    *address_p = plain;
    return address == plain || address == canonical;
}

/* ---- MI commands ---- */

/* The rate model: what the batch moved so far must have taken its time. */
static bool zr_soft_held(struct zr_soft_batch *batch)
{
    if (batch->req->ctx->dev->options.mbps == 0 || zr_time_ns() >= batch->free_ns) {
        return false;
    }
    batch->pc = batch->at;
    return true;
}

/* CPU address of an aligned word. NULL: batch->reason is set. */
void *zr_soft_word(struct zr_soft_batch *batch, const char *name, const uint32_t *dw,
                          unsigned size)
{
    uint64_t address, available = 0;
    uint8_t *cpu;

    if (!zr_soft_address(batch->req->ctx->dev, dw[0], dw[1], &address)) {
        zr_soft_hang(batch, "%s: address 0x%08x%08x is not canonical", name, dw[1], dw[0]);
        return NULL;
    }
    if (address % size != 0) {
        zr_soft_hang(batch, "%s: address 0x%lx is not %u-byte aligned", name,
                     (unsigned long)address, size);
        return NULL;
    }
    cpu = zr_soft_resolve(batch, ZR_SOFT_PORT_DST, address, &available);
    if (cpu == NULL) {
        zr_soft_hang(batch, "%s: nothing is bound at 0x%lx", name, (unsigned long)address);
    }
    return cpu;
}

/* Visible after everything the batch wrote before. */
enum zr_soft_step zr_soft_store(struct zr_soft_batch *batch, void *cpu, uint64_t value, bool quad)
{
    zr_order_release(cpu);
    if (quad) {
        __atomic_store_n((uint64_t *)cpu, value, __ATOMIC_SEQ_CST);
    } else {
        __atomic_store_n((uint32_t *)cpu, (uint32_t)value, __ATOMIC_SEQ_CST);
    }
    atomic_fetch_add(&batch->req->ctx->dev->stores, 1);
    return zr_soft_written(batch, cpu, quad ? 8 : 4) ? ZR_SOFT_MORE : ZR_SOFT_HANG;
}

/* ---- dirty, lazy: what a copy or fill writes is held back until a flush ---- */

static enum zr_soft_step zr_soft_hold(struct zr_soft_batch *batch)
{
    struct zr_soft_op *grown;

    if (batch->num_held % 64 == 0) {
        grown = realloc(batch->held, (batch->num_held + 64) * sizeof(*grown));
        if (grown == NULL) {
            return ZR_SOFT_MORE; /* then it is done at once */
        }
        batch->held = grown;
    }
    batch->held[batch->num_held++] = batch->op;
    batch->op.kind                 = ZR_SOFT_OP_NONE;
    return ZR_SOFT_MORE;
}

/* The next of those held back; the flush is looked at again after it. */
static enum zr_soft_step zr_soft_drain(struct zr_soft_batch *batch)
{
    batch->op = batch->held[batch->next_held++];
    if (batch->next_held == batch->num_held) {
        batch->next_held = batch->num_held = 0;
    }
    batch->pc = batch->at;
    return ZR_SOFT_MORE;
}

static enum zr_soft_step zr_soft_mi_nop(struct zr_soft_batch *batch, const uint32_t *dw,
                                        const struct zr_soft_command *command)
{
    return ZR_SOFT_MORE;
}

/* Where the engine may leave the batch for another. */
static enum zr_soft_step zr_soft_mi_arbitrate(struct zr_soft_batch *batch, const uint32_t *dw,
                                              const struct zr_soft_command *command)
{
    batch->arbitrated = true;
    return ZR_SOFT_MORE;
}

static enum zr_soft_step zr_soft_mi_end(struct zr_soft_batch *batch, const uint32_t *dw,
                                        const struct zr_soft_command *command)
{
    if (batch->num_held != 0) {
        return zr_soft_drain(batch);
    }
    return zr_soft_held(batch) ? ZR_SOFT_BUSY : ZR_SOFT_DONE;
}

static enum zr_soft_step zr_soft_mi_store_data(struct zr_soft_batch *batch, const uint32_t *dw,
                                               const struct zr_soft_command *command)
{
    bool  quad = command->dwords == 5;
    void *cpu;

    if (zr_soft_held(batch)) {
        return ZR_SOFT_BUSY;
    }
    cpu = zr_soft_word(batch, command->name, dw + 1, quad ? 8 : 4);
    if (cpu == NULL) {
        return ZR_SOFT_HANG;
    }
    return zr_soft_store(batch, cpu, quad ? dw[3] | (uint64_t)dw[4] << 32 : dw[3], quad);
}

static enum zr_soft_step zr_soft_mi_flush(struct zr_soft_batch *batch, const uint32_t *dw,
                                          const struct zr_soft_command *command)
{
    unsigned op   = dw[0] >> 14 & 3;
    bool     quad = command->dwords == 5 || op == 3;
    uint64_t value;
    void    *cpu;

    if (batch->num_held != 0) {
        return zr_soft_drain(batch);
    }
    if (zr_soft_held(batch)) {
        return ZR_SOFT_BUSY;
    }
    if (op == 0) {
        return ZR_SOFT_MORE;
    }
    if (op == 2) {
        return zr_soft_hang(batch, "%s: post-sync operation 2 is reserved", command->name);
    }
    cpu = zr_soft_word(batch, command->name, dw + 1, 8);
    if (cpu == NULL) {
        return ZR_SOFT_HANG;
    }
    value = op == 3  ? zr_soft_timestamp(batch->req->ctx->dev)
            : quad ? dw[3] | (uint64_t)dw[4] << 32
                   : dw[3];
    return zr_soft_store(batch, cpu, value, quad);
}

static bool zr_soft_compare(unsigned op, uint32_t memory, uint32_t data)
{
    switch (op) {
    case 0:
        return memory > data;
    case 1:
        return memory >= data;
    case 2:
        return memory < data;
    case 3:
        return memory <= data;
    case 4:
        return memory == data;
    default:
        return memory != data;
    }
}

static enum zr_soft_step zr_soft_mi_semaphore(struct zr_soft_batch *batch, const uint32_t *dw,
                                              const struct zr_soft_command *command)
{
    unsigned op = dw[0] >> 12 & 7;
    void    *cpu;

    if (!(dw[0] & (1u << 15))) {
        return zr_soft_hang(batch, "%s: waits for a signal, not by polling", command->name);
    }
    if (op > 5) {
        return zr_soft_hang(batch, "%s: comparison %u is reserved", command->name, op);
    }
    if (zr_soft_held(batch)) {
        return ZR_SOFT_BUSY;
    }
    cpu = zr_soft_word(batch, command->name, dw + 2, 4);
    if (cpu == NULL) {
        return ZR_SOFT_HANG;
    }
    if (!zr_soft_compare(op, __atomic_load_n((uint32_t *)cpu, __ATOMIC_SEQ_CST), dw[1])) {
        batch->pc          = batch->at;
        batch->preemptible = true; /* a wait is a point of arbitration */
        return ZR_SOFT_BLOCKED;
    }
    zr_order_acquire(cpu);
    if (batch->blocked_ns != 0) {
        batch->blocked_ns = 0;
        if (batch->req->ctx->dev->options.mbps != 0) {
            batch->free_ns = zr_time_ns();
        }
    }
    return ZR_SOFT_MORE;
}

static enum zr_soft_step zr_soft_mi_atomic(struct zr_soft_batch *batch, const uint32_t *dw,
                                           const struct zr_soft_command *command)
{
    unsigned op = dw[0] >> 8 & 0xff, size = dw[0] >> 19 & 3;
    bool     quad = op & 0x20, has_data = command->dwords == 11;
    uint64_t operand = has_data ? dw[3] | (uint64_t)dw[4] << 32 : 0, delta;
    void    *cpu;

    if (has_data != ((dw[0] >> 18 & 1) != 0) || size != (quad ? 1u : 0u)) {
        return zr_soft_hang(batch, "%s: length, inline data and data size do not agree (0x%08x)",
                            command->name, dw[0]);
    }
    switch (op & ~0x20u) {
    case 5:
        delta = 1;
        break;
    case 6:
        delta = UINT64_MAX;
        break;
    case 7:
        if (!has_data) {
            return zr_soft_hang(batch, "%s: ADD without inline data", command->name);
        }
        delta = operand;
        break;
    default:
        return zr_soft_hang(batch, "%s: operation 0x%x is not known", command->name, op);
    }
    if (zr_soft_held(batch)) {
        return ZR_SOFT_BUSY;
    }
    cpu = zr_soft_word(batch, command->name, dw + 1, quad ? 8 : 4);
    if (cpu == NULL) {
        return ZR_SOFT_HANG;
    }
    zr_order_release(cpu);
    if (quad) {
        __atomic_fetch_add((uint64_t *)cpu, delta, __ATOMIC_SEQ_CST);
    } else {
        __atomic_fetch_add((uint32_t *)cpu, (uint32_t)delta, __ATOMIC_SEQ_CST);
    }
    atomic_fetch_add(&batch->req->ctx->dev->stores, 1);
    return zr_soft_written(batch, cpu, quad ? 8 : 4) ? ZR_SOFT_MORE : ZR_SOFT_HANG;
}

/* A jump; one that goes back is a loop that waits for the CPU to change the batch. */
#define ZR_SOFT_PREDICATED  (1u << 15) /* of a jump */
#define ZR_SOFT_INDIRECT    (1u << 18) /* to where general purpose register 0 says */
#define ZR_SOFT_NOOP_ON_SET 2u         /* of MI_SET_PREDICATE; 1: where the result is clear */
#define ZR_SOFT_NOOP_ALWAYS 15u

static enum zr_soft_step zr_soft_mi_start(struct zr_soft_batch *batch, const uint32_t *dw,
                                          const struct zr_soft_command *command)
{
    struct zr_soft_registers *regs;
    uint64_t                  address = dw[1] | (uint64_t)dw[2] << 32, target;

    if (dw[0] & ZR_SOFT_INDIRECT) {
        regs    = zr_soft_registers_get(batch);
        address = regs != NULL ? regs->gpr[0] & ~UINT64_C(3) : 0;
    }
    if (!zr_soft_address(batch->req->ctx->dev, (uint32_t)address, (uint32_t)(address >> 32),
                         &target)) {
        return zr_soft_hang(batch, "%s: address 0x%08x%08x is not canonical", command->name,
                            dw[2], dw[1]);
    }
    if ((dw[0] & ZR_SOFT_PREDICATED) && batch->req->ctx->dev->profile.gen == ZR_SOFT_GEN12 &&
        (batch->req->slot->registers == NULL || !(batch->req->slot->registers->predicate_1 & 1))) {
        return ZR_SOFT_MORE; /* predicated, and the predicate does not hold */
    }
    batch->pc = target;
    if (target > batch->at) {
        return ZR_SOFT_MORE;
    }
    batch->preemptible = batch->arbitrated;
    batch->arbitrated  = false;
    return ZR_SOFT_BLOCKED;
}

/* Ends the batch unless the word in memory compares with the data as asked. */
static enum zr_soft_step zr_soft_mi_conditional_end(struct zr_soft_batch *batch,
                                                    const uint32_t *dw,
                                                    const struct zr_soft_command *command)
{
    unsigned op = dw[0] >> 12 & 7;
    void    *cpu;

    if (op > 5) {
        return zr_soft_hang(batch, "%s: comparison %u is reserved", command->name, op);
    }
    if (zr_soft_held(batch)) {
        return ZR_SOFT_BUSY;
    }
    cpu = zr_soft_word(batch, command->name, dw + 2, 4);
    if (cpu == NULL) {
        return ZR_SOFT_HANG;
    }
    return zr_soft_compare(op, __atomic_load_n((uint32_t *)cpu, __ATOMIC_SEQ_CST), dw[1])
               ? ZR_SOFT_MORE
               : ZR_SOFT_DONE;
}

/* Commands are left out from when the register got its bit until this takes it away. */
static enum zr_soft_step zr_soft_mi_set_predicate(struct zr_soft_batch *batch, const uint32_t *dw,
                                                  const struct zr_soft_command *command)
{
    struct zr_soft_registers *regs = zr_soft_registers_get(batch);
    unsigned                  mode = dw[0] & 0xf;

    if (mode > ZR_SOFT_NOOP_ON_SET && mode != ZR_SOFT_NOOP_ALWAYS) {
        return zr_soft_hang(batch, "%s: mode %u is not known", command->name, mode);
    }
    if (regs == NULL) {
        return zr_soft_hang(batch, "%s: no memory for registers", command->name);
    }
    regs->noop = mode;
    if (mode == 0) {
        regs->predicate = 0;
    }
    return ZR_SOFT_MORE;
}

/* Is a command left out? A jump only where it asks for it. */
static bool zr_soft_is_noop(const struct zr_soft_batch *batch, uint32_t dw0,
                            const struct zr_soft_command *command)
{
    const struct zr_soft_registers *regs = batch->req->slot->registers;

    if (regs == NULL || command->decode == zr_soft_mi_set_predicate) {
        return false;
    }
    if (regs->predicate & 1) {
        return true;
    }
    if (regs->noop == 0 || (command->decode == zr_soft_mi_start && !(dw0 & ZR_SOFT_PREDICATED))) {
        return false;
    }
    return regs->noop == ZR_SOFT_NOOP_ALWAYS ||
           (regs->predicate_2 & 1) == (regs->noop == ZR_SOFT_NOOP_ON_SET);
}

#define ALL ZR_SOFT_GENS_ALL, ZR_SOFT_CLASSES_ALL
/* Render and compute engines have PIPE_CONTROL instead. */
#define NOT_RENDER                                                                            \
    ZR_SOFT_GENS_ALL, ZR_SOFT_CLASSES_ALL & ~(1u << I915_ENGINE_CLASS_RENDER) &               \
                          ~(1u << I915_ENGINE_CLASS_COMPUTE)

/* Bits of dword 0 that select a form (length, data size, PPGTT) are in the mask; a bit for global
 * GTT addresses is reserved: an unprivileged batch cannot use it. */
static const struct zr_soft_command mi_commands[] = {
    {"MI_NOOP", 0xff800000, 0x00000000, 1, ALL, zr_soft_mi_nop, {0}},
    {"MI_ARB_CHECK", 0xff800000, 0x02800000, 1, ALL, zr_soft_mi_arbitrate, {0x007ffefe}},
    /* Privileged: in a client's batch it does nothing. */
    {"MI_ARB_ON_OFF", 0xff800000, 0x04000000, 1, ALL, zr_soft_mi_nop, {0x007ffffc}},
    {"MI_BATCH_BUFFER_END", 0xff800000, 0x05000000, 1, ALL, zr_soft_mi_end, {0x007fffff}},
    {"MI_MEM_FENCE", 0xff800000, 0x04800000, 1, ZR_SOFT_GENS(ZR_SOFT_PVC), ZR_SOFT_CLASSES_ALL,
     zr_soft_mi_nop, {0x007ffffc}},
    {"MI_STORE_DATA_IMM", 0xffa000ff, 0x10000002, 4, ALL, zr_soft_mi_store_data,
     {0x005ffb00, 0x3}},
    {"MI_STORE_DATA_IMM qword", 0xffa000ff, 0x10200003, 5, ALL, zr_soft_mi_store_data,
     {0x005ffb00, 0x7}},
    /* Into the context's status page, which no client sees. */
    {"MI_STORE_DATA_INDEX", 0xff8000ff, 0x10800001, 3, ALL, zr_soft_mi_nop, {0x005fff00, 0xfffff003}},
    {"MI_STORE_DATA_INDEX qword", 0xff8000ff, 0x10800002, 4, ALL, zr_soft_mi_nop,
     {0x005fff00, 0xfffff003}},
    {"MI_FLUSH_DW", 0xff80003f, 0x13000002, 4, NOT_RENDER, zr_soft_mi_flush, {0x007e3cc0, 0x7}},
    {"MI_FLUSH_DW", 0xff80003f, 0x13000003, 5, NOT_RENDER, zr_soft_mi_flush, {0x007e3cc0, 0x7}},
    {"MI_SEMAPHORE_WAIT", 0xff8000ff, 0x0e000002, 4, ALL, zr_soft_mi_semaphore,
     {0x007f0f00, 0, 0x3}},
    {"MI_SEMAPHORE_WAIT", 0xff8000ff, 0x0e000003, 5, ALL, zr_soft_mi_semaphore,
     {0x007f0f00, 0, 0x3}},
    {"MI_ATOMIC", 0xff8000ff, 0x17800001, 3, ALL, zr_soft_mi_atomic, {0x00600000, 0x3}},
    {"MI_ATOMIC", 0xff8000ff, 0x17800009, 11, ALL, zr_soft_mi_atomic, {0x00600000, 0x3}},
    /* From a batch in the PPGTT it stays there: bit 8 says nothing. */
    {"MI_BATCH_BUFFER_START", 0xff8000ff, 0x18800001, 3, ZR_SOFT_GENS(ZR_SOFT_PVC),
     ZR_SOFT_CLASSES_ALL, zr_soft_mi_start, {0x007b7e00, 0x3}},
    {"MI_BATCH_BUFFER_START", 0xff8000ff, 0x18800001, 3,
     ZR_SOFT_GENS_ALL & ~ZR_SOFT_GENS(ZR_SOFT_PVC), ZR_SOFT_CLASSES_ALL, zr_soft_mi_start,
     {0x007f7e00, 0x3}},
    {"MI_CONDITIONAL_BATCH_BUFFER_END", 0xff8000ff, 0x1b000002, 4, ALL, zr_soft_mi_conditional_end,
     {0x00478f00, 0, 0x7}},
    {"MI_SET_PREDICATE", 0xff800000, 0x00800000, 1, ALL, zr_soft_mi_set_predicate, {0x007ffff0}},
    /* Ponte Vecchio's has a field for how memory is cached. */
    {"MI_MATH", 0xff800000, 0x0d000000, ZR_SOFT_VARIABLE, ZR_SOFT_GENS(ZR_SOFT_PVC),
     ZR_SOFT_CLASSES_ALL, zr_soft_mi_math, {0x007f8000}},
    {"MI_MATH", 0xff800000, 0x0d000000, ZR_SOFT_VARIABLE,
     ZR_SOFT_GENS_ALL & ~ZR_SOFT_GENS(ZR_SOFT_PVC), ZR_SOFT_CLASSES_ALL, zr_soft_mi_math,
     {0x007fff00}},
    {"MI_LOAD_REGISTER_IMM", 0xff800001, 0x11000001, ZR_SOFT_VARIABLE, ALL, zr_soft_mi_load_imm,
     {0x0075e000}},
    {"MI_STORE_REGISTER_MEM", 0xff8000ff, 0x12000002, 4, ALL, zr_soft_mi_store_reg,
     {0x0075ff00, 0, 0x3}},
    {"MI_LOAD_REGISTER_MEM", 0xff8000ff, 0x14800002, 4, ALL, zr_soft_mi_load_mem,
     {0x0075ff00, 0, 0x3}},
    {"MI_LOAD_REGISTER_REG", 0xff8000ff, 0x15000001, 3, ALL, zr_soft_mi_load_reg, {0x0070ff00}},
};

/* ---- fetch and check ---- */

/* Ponte Vecchio's link copy engines, all but the first, have MEM_COPY and MEM_SET alone. */
static bool zr_soft_engine_has(const struct zr_soft_batch *batch,
                               const struct zr_soft_command *command)
{
    const struct zr_soft_engine_id *id  = &batch->engine->id;
    enum zr_soft_gen                gen = batch->req->ctx->dev->profile.gen;
    bool link = gen == ZR_SOFT_PVC && id->class == I915_ENGINE_CLASS_COPY && id->instance > 0;

    return (command->gens & ZR_SOFT_GENS(gen)) != 0 && (command->classes & 1u << id->class) != 0 &&
           !(link && strncmp(command->name, "XY_", 3) == 0);
}

static const struct zr_soft_command *zr_soft_find(const struct zr_soft_command *commands,
                                                  unsigned count, const struct zr_soft_batch *batch,
                                                  uint32_t dw0,
                                                  const struct zr_soft_command **near_p)
{
    unsigned gens   = ZR_SOFT_GENS(batch->req->ctx->dev->profile.gen), i;
    uint32_t opcode = dw0 >> 29 == 2   ? ZR_SOFT_2D_OPCODE
                      : dw0 >> 29 == 3 ? ZR_SOFT_3D_OPCODE
                                       : ZR_SOFT_MI_OPCODE;

    for (i = 0; i < count; i++) {
        if ((dw0 & commands[i].mask) == commands[i].value &&
            zr_soft_engine_has(batch, &commands[i])) {
            return &commands[i];
        }
        if (((dw0 ^ commands[i].value) & opcode) == 0 &&
            (*near_p == NULL || (commands[i].gens & commands[i].classes & gens))) {
            *near_p = &commands[i];
        }
    }
    return NULL;
}

/* What a word stands for on an engine stays: the next batch has the same commands. */
static const struct zr_soft_command *zr_soft_known(const struct zr_soft_batch *batch, uint32_t dw0,
                                                   const struct zr_soft_command **near_p)
{
    static _Thread_local struct zr_soft_known {
        uint32_t                      dw0, engine; /* engine 0: nothing yet */
        const struct zr_soft_command *command;
    } known[32];
    struct zr_soft_known           *k      = &known[(dw0 >> 23 ^ dw0) % 32];
    const struct zr_soft_engine_id *id     = &batch->engine->id;
    uint32_t                        engine = 1u << 31 | batch->req->ctx->dev->profile.gen << 16 |
                                             (uint32_t)id->class << 8 | id->instance;

    if (k->dw0 == dw0 && k->engine == engine) {
        return k->command;
    }
    switch (dw0 >> 29) {
    case 2:
        k->command = zr_soft_find(zr_soft_blits, zr_soft_num_blits, batch, dw0, near_p);
        break;
    case 3:
        k->command = zr_soft_find(zr_soft_renders, zr_soft_num_renders, batch, dw0, near_p);
        break;
    default:
        k->command = zr_soft_find(mi_commands, ZR_ARRAY_SIZE(mi_commands), batch, dw0, near_p);
    }
    k->dw0    = dw0;
    k->engine = k->command != NULL ? engine : 0;
    return k->command;
}

static enum zr_soft_step zr_soft_unknown(struct zr_soft_batch *batch, uint32_t dw0,
                                         const struct zr_soft_command *near)
{
    if (near == NULL) {
        return zr_soft_hang(batch, "unknown command 0x%08x", dw0);
    }
    if (!zr_soft_engine_has(batch, near)) {
        return zr_soft_hang(batch, "%s (0x%08x): this engine does not have it", near->name, dw0);
    }
    return zr_soft_hang(batch, "%s: length or form of 0x%08x is not valid", near->name, dw0);
}

static enum zr_soft_step zr_soft_command_run(struct zr_soft_batch *batch)
{
    const struct zr_soft_command *command, *near = NULL;
    uint64_t                      available = 0;
    uint32_t                      dw[ZR_SOFT_MAX_DWORDS];
    const uint8_t                *cpu;
    unsigned                      i, count;
    enum zr_soft_step             step;

    batch->at = batch->pc;
    cpu       = zr_soft_resolve(batch, ZR_SOFT_PORT_COMMAND, batch->pc, &available);
    if (cpu == NULL || available < 4 || batch->pc % 4 != 0) {
        return zr_soft_hang(batch, "no command at 0x%lx: batch without end, or not bound",
                            (unsigned long)batch->pc);
    }
    dw[0] = __atomic_load_n((const uint32_t *)cpu, __ATOMIC_ACQUIRE);
    command = zr_soft_known(batch, dw[0], &near);
    if (command == NULL) {
        return zr_soft_unknown(batch, dw[0], near);
    }
    count = zr_soft_command_length(command, dw[0]);
    if (count > ZR_SOFT_MAX_DWORDS || available < count * 4) {
        return zr_soft_hang(batch, "%s: too long, or cut by the end of its object", command->name);
    }
    memcpy(dw + 1, cpu + 4, (count - 1) * 4);
    for (i = 0; i < ZR_MIN(count, (unsigned)ZR_ARRAY_SIZE(command->reserved)); i++) {
        if (dw[i] & command->reserved[i]) {
            return zr_soft_hang(batch, "%s: dword %u is 0x%08x, bits 0x%08x must be zero",
                                command->name, i, dw[i], dw[i] & command->reserved[i]);
        }
    }
    batch->pc += count * 4;
    if (zr_soft_is_noop(batch, dw[0], command)) {
        return ZR_SOFT_MORE;
    }
    step = command->decode(batch, dw, command);
    if (batch->op.kind != ZR_SOFT_OP_NONE && dw[0] >> 29 == 2 &&
        (batch->req->ctx->dev->dirty & ZR_SOFT_DIRTY_LAZY)) {
        return zr_soft_hold(batch);
    }
    return step;
}

enum zr_soft_step zr_soft_batch_run(struct zr_soft_batch *batch, uint64_t *budget)
{
    enum zr_soft_step step;

    if (batch->req->fault_hang) {
        batch->at = batch->pc;
        return zr_soft_hang(batch, "by order of ZERANGE_SOFT_FAULTS");
    }
    for (;;) {
        if (atomic_load_explicit(&batch->req->error, memory_order_relaxed) != 0) {
            return ZR_SOFT_DONE;
        }
        if (atomic_load_explicit(&batch->replay, memory_order_relaxed)) {
            atomic_store(&batch->replay, false);
            batch->op.kind  = ZR_SOFT_OP_NONE;
            batch->num_held = batch->next_held = 0;
            batch->pc                          = batch->start;
        }
        if (batch->op.kind != ZR_SOFT_OP_NONE) {
            step = zr_soft_op_run(batch, budget);
            if (step != ZR_SOFT_DONE) {
                return step;
            }
            batch->op.kind = ZR_SOFT_OP_NONE;
        }
        if (*budget == 0) {
            return ZR_SOFT_MORE;
        }
        *budget -= ZR_MIN(*budget, (uint64_t)ZR_SOFT_COMMAND_COST);
        step = zr_soft_command_run(batch);
        if (step != ZR_SOFT_MORE) {
            return step;
        }
    }
}
