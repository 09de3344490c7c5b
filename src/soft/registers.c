/* Registers that a batch may use: the engine's general purpose ones with MI_MATH, its predicates and
 * its clocks. They belong to the context's slot, as the context image keeps them. */
/* SPDX-License-Identifier: BSD-3-Clause */
#include "soft.h"

#include <stdlib.h>

#define ZR_SOFT_GPR          0x600 /* 16 of 64 bits */
#define ZR_SOFT_TIMESTAMP    0x358 /* 64 bits, shared by engines */
#define ZR_SOFT_CTX_TIME     0x3a8 /* 32 bits: time on the engine */
#define ZR_SOFT_PREDICATE    0x3b8 /* bit 0: leave commands out */
#define ZR_SOFT_PREDICATE_2  0x3bc /* bit 0: as MI_SET_PREDICATE says */
#define ZR_SOFT_PREDICATE_1  0x41c /* bit 0: take a predicated jump */
#define ZR_SOFT_CS_CHICKEN1  0x580
#define ZR_SOFT_BCS_SWCTRL   0x200 /* masked: the high half says which bits are written */
#define ZR_SOFT_RELATIVE     (1u << 19) /* of dword 0: the register is named relative to the engine */
#define ZR_SOFT_REMAP        (1u << 17) /* the first engine's name stands for the engine's own */
#define ZR_SOFT_RELATIVE_SRC (1u << 18) /* of MI_LOAD_REGISTER_REG, its source */
#define ZR_SOFT_REMAP_SRC    (1u << 16)

uint32_t zr_soft_mmio_base(unsigned class, unsigned instance)
{
    static const uint32_t ccs[] = {0x1a000, 0x1c000, 0x1e000, 0x26000};

    switch (class) {
    case I915_ENGINE_CLASS_RENDER:
        return 0x2000;
    case I915_ENGINE_CLASS_COPY:
        return instance == 0 ? 0x22000 : 0x3e0000 + 0x2000 * (instance - 1);
    case I915_ENGINE_CLASS_VIDEO:
        return 0x1c0000 + 0x4000 * instance + (instance >= 2 ? 0x8000 * (instance / 2) : 0);
    case I915_ENGINE_CLASS_VIDEO_ENHANCE:
        return 0x1c8000 + 0x10000 * instance;
    default:
        return ccs[instance % ZR_ARRAY_SIZE(ccs)];
    }
}

struct zr_soft_registers *zr_soft_registers_get(struct zr_soft_batch *batch)
{
    struct zr_soft_slot *slot = batch->req->slot;

    if (slot->registers == NULL) {
        slot->registers = calloc(1, sizeof(*slot->registers));
    }
    return slot->registers;
}

/* Where a 32-bit register that can be written is. NULL: it cannot. Predicates are the one kind or the
 * other, by generation. */
static uint32_t *zr_soft_register(struct zr_soft_batch *batch, uint32_t offset)
{
    struct zr_soft_registers *regs = zr_soft_registers_get(batch);
    bool                      old  = batch->req->ctx->dev->profile.gen == ZR_SOFT_GEN12;

    if (regs == NULL) {
        return NULL;
    }
    if (offset >= ZR_SOFT_GPR && offset < ZR_SOFT_GPR + 128 && offset % 4 == 0) {
        return (uint32_t *)regs->gpr + (offset - ZR_SOFT_GPR) / 4;
    }
    return offset == ZR_SOFT_PREDICATE && !old    ? &regs->predicate
           : offset == ZR_SOFT_PREDICATE_2 && !old ? &regs->predicate_2
           : offset == ZR_SOFT_PREDICATE_1 && old ? &regs->predicate_1
                                                  : NULL;
}

/* How a command names a register: by its address, relative to the engine, or as the first render or
 * copy engine's, which stands for this engine's. */
enum zr_soft_naming { ZR_SOFT_ABSOLUTE, ZR_SOFT_OWN, ZR_SOFT_FIRST };

static enum zr_soft_naming zr_soft_naming(uint32_t dw0, uint32_t relative, uint32_t remap)
{
    return dw0 & relative ? ZR_SOFT_OWN : dw0 & remap ? ZR_SOFT_FIRST : ZR_SOFT_ABSOLUTE;
}

/* A register of this engine from its dword: an offset, or false with the batch's reason set. */
static bool zr_soft_register_offset(struct zr_soft_batch *batch, const char *name, uint32_t dw,
                                    enum zr_soft_naming naming, uint32_t *offset_p)
{
    const struct zr_soft_engine_id *id    = &batch->engine->id;
    uint32_t                        base  = zr_soft_mmio_base(id->class, id->instance);
    uint32_t                        first = id->class == I915_ENGINE_CLASS_COPY && dw >= 0x22000
                                                ? 0x22000
                                                : 0x2000;

    if (naming == ZR_SOFT_FIRST && dw >= first && dw < first + 0x1000) {
        dw += base - first;
    }
    if (dw & ~0x7ffffcu) {
        zr_soft_hang(batch, "%s: register 0x%08x has reserved bits set", name, dw);
        return false;
    }
    if (naming != ZR_SOFT_OWN && (dw < base || dw >= base + 0x1000)) {
        zr_soft_hang(batch, "%s: register 0x%x is not the engine's (0x%x)", name, dw, base);
        return false;
    }
    *offset_p = naming == ZR_SOFT_OWN ? dw : dw - base;
    return true;
}

static bool zr_soft_register_read(struct zr_soft_batch *batch, const char *name, uint32_t dw,
                                  enum zr_soft_naming naming, uint32_t *value_p)
{
    uint32_t  offset, *reg;
    uint64_t  now;

    if (!zr_soft_register_offset(batch, name, dw, naming, &offset)) {
        return false;
    }
    reg = zr_soft_register(batch, offset);
    if (reg != NULL) {
        *value_p = *reg;
        return true;
    }
    now = zr_soft_timestamp(batch->req->ctx->dev);
    if (offset == ZR_SOFT_TIMESTAMP || offset == ZR_SOFT_TIMESTAMP + 4) {
        *value_p = (uint32_t)(offset == ZR_SOFT_TIMESTAMP ? now : now >> 32);
        return true;
    }
    if (offset == ZR_SOFT_CTX_TIME) {
        *value_p = (uint32_t)now;
        return true;
    }
    zr_soft_hang(batch, "%s: register 0x%x is not known", name, dw);
    return false;
}

static bool zr_soft_register_write(struct zr_soft_batch *batch, const char *name, uint32_t dw,
                                   enum zr_soft_naming naming, uint32_t value)
{
    uint32_t offset, *reg;

    if (!zr_soft_register_offset(batch, name, dw, naming, &offset)) {
        return false;
    }
    if (offset == ZR_SOFT_CS_CHICKEN1 && batch->engine->id.class != I915_ENGINE_CLASS_COPY) {
        return true; /* the kernel lets clients write it: how finely their work can be preempted */
    }
    reg = zr_soft_register(batch, offset);
    if (offset == ZR_SOFT_BCS_SWCTRL && batch->engine->id.class == I915_ENGINE_CLASS_COPY &&
        !(value >> 16 & ~ZR_SOFT_SWCTRL_BITS) && zr_soft_registers_get(batch) != NULL) {
        reg   = &zr_soft_registers_get(batch)->swctrl;
        value = (*reg & ~(value >> 16)) | (value & value >> 16);
    }
    if (reg == NULL) {
        zr_soft_hang(batch, "%s: register 0x%x is not one that a batch may write", name, dw);
        return false;
    }
    *reg = value;
    return true;
}

enum zr_soft_step zr_soft_mi_load_imm(struct zr_soft_batch *batch, const uint32_t *dw,
                                      const struct zr_soft_command *command)
{
    unsigned i, count = zr_soft_command_length(command, dw[0]);

    for (i = 1; i + 1 < count; i += 2) {
        if (!zr_soft_register_write(batch, command->name, dw[i],
                                    zr_soft_naming(dw[0], ZR_SOFT_RELATIVE, ZR_SOFT_REMAP),
                                    dw[i + 1])) {
            return ZR_SOFT_HANG;
        }
    }
    return ZR_SOFT_MORE;
}

enum zr_soft_step zr_soft_mi_load_reg(struct zr_soft_batch *batch, const uint32_t *dw,
                                      const struct zr_soft_command *command)
{
    uint32_t value;

    return zr_soft_register_read(
               batch, command->name, dw[1],
               zr_soft_naming(dw[0], ZR_SOFT_RELATIVE_SRC, ZR_SOFT_REMAP_SRC), &value) &&
                   zr_soft_register_write(batch, command->name, dw[2],
                                          zr_soft_naming(dw[0], ZR_SOFT_RELATIVE, ZR_SOFT_REMAP),
                                          value)
               ? ZR_SOFT_MORE
               : ZR_SOFT_HANG;
}

enum zr_soft_step zr_soft_mi_load_mem(struct zr_soft_batch *batch, const uint32_t *dw,
                                      const struct zr_soft_command *command)
{
    uint32_t *cpu = zr_soft_word(batch, command->name, dw + 2, 4);

    return cpu != NULL && zr_soft_register_write(batch, command->name, dw[1],
                                                 zr_soft_naming(dw[0], ZR_SOFT_RELATIVE,
                                                                ZR_SOFT_REMAP),
                                                 __atomic_load_n(cpu, __ATOMIC_SEQ_CST))
               ? ZR_SOFT_MORE
               : ZR_SOFT_HANG;
}

enum zr_soft_step zr_soft_mi_store_reg(struct zr_soft_batch *batch, const uint32_t *dw,
                                       const struct zr_soft_command *command)
{
    uint32_t  value;
    uint32_t *cpu = zr_soft_word(batch, command->name, dw + 2, 4);

    if (cpu == NULL ||
        !zr_soft_register_read(batch, command->name, dw[1],
                               zr_soft_naming(dw[0], ZR_SOFT_RELATIVE, ZR_SOFT_REMAP), &value)) {
        return ZR_SOFT_HANG;
    }
    return zr_soft_store(batch, cpu, value, false);
}

/* ---- MI_MATH ---- */

struct zr_soft_alu {
    uint64_t a, b, result;
    bool     zero, carry;
};

/* @return false: no such operand */
static bool zr_soft_alu_source(const struct zr_soft_alu *alu, const uint64_t *gpr, unsigned operand,
                               uint64_t *value_p)
{
    if (operand < 16) {
        *value_p = gpr[operand];
        return true;
    }
    *value_p = operand == 0x31   ? alu->result
               : operand == 0x32 ? (alu->zero ? UINT64_MAX : 0)
                                 : (alu->carry ? UINT64_MAX : 0);
    return operand >= 0x31 && operand <= 0x33;
}

static bool zr_soft_alu_load(struct zr_soft_alu *alu, unsigned operand, uint64_t value)
{
    if (operand == 0x20) {
        alu->a = value;
    } else if (operand == 0x21) {
        alu->b = value;
    }
    return operand == 0x20 || operand == 0x21;
}

static void zr_soft_alu_compute(struct zr_soft_alu *alu, unsigned opcode)
{
    alu->result = opcode == 0x100   ? alu->a + alu->b
                  : opcode == 0x101 ? alu->a - alu->b
                  : opcode == 0x102 ? (alu->a & alu->b)
                  : opcode == 0x103 ? (alu->a | alu->b)
                  : opcode == 0x104 ? alu->a ^ alu->b
                                    : alu->a << (alu->b & 63);
    alu->carry  = opcode == 0x100 ? alu->result < alu->a : opcode == 0x101 && alu->a < alu->b;
    alu->zero   = alu->result == 0;
}

/* LOADIND and STOREIND: a general purpose register from memory, or to it, at the address that an operand
 * holds. */
static bool zr_soft_alu_memory(struct zr_soft_batch *batch, const struct zr_soft_alu *alu,
                               uint64_t *gpr, bool store, unsigned first, unsigned second)
{
    unsigned  reg = store ? second : first;
    uint64_t  address, *word;
    uint32_t  dw[2];

    if (reg >= 16 || !zr_soft_alu_source(alu, gpr, store ? first : second, &address)) {
        return false;
    }
    dw[0] = (uint32_t)address;
    dw[1] = (uint32_t)(address >> 32);
    word  = zr_soft_word(batch, "MI_MATH", dw, sizeof(*word));
    if (word == NULL) {
        return false;
    }
    if (!store) {
        gpr[reg] = __atomic_load_n(word, __ATOMIC_SEQ_CST);
        return true;
    }
    __atomic_store_n(word, gpr[reg], __ATOMIC_SEQ_CST);
    return zr_soft_written(batch, word, sizeof(*word));
}

/* Ponte Vecchio's instructions beside those that all have. */
static bool zr_soft_alu_step_pvc(struct zr_soft_batch *batch, struct zr_soft_alu *alu, uint64_t *gpr,
                                 uint32_t instruction)
{
    unsigned opcode = instruction >> 20, first = instruction >> 10 & 0x3ff;
    unsigned second = instruction & 0x3ff;

    switch (opcode) {
    case 0x001: /* FENCE_RD, FENCE_WR: nothing is reordered here */
    case 0x002:
        return true;
    case 0x082:
    case 0x181:
        return zr_soft_alu_memory(batch, alu, gpr, opcode == 0x181, first, second);
    case 0x105: /* SHL by a power of two */
        if (alu->b == 0 || alu->b > 32 || (alu->b & (alu->b - 1)) != 0) {
            return false;
        }
        zr_soft_alu_compute(alu, opcode);
        return true;
    default:
        return false;
    }
}

/* One instruction; false: not valid. */
static bool zr_soft_alu_step(struct zr_soft_alu *alu, uint64_t *gpr, uint32_t instruction)
{
    unsigned opcode = instruction >> 20, first = instruction >> 10 & 0x3ff;
    unsigned second = instruction & 0x3ff;
    uint64_t value;

    switch (opcode) {
    case 0x000: /* NOOP */
        return true;
    case 0x080: /* LOAD */
    case 0x480: /* LOADINV */
        return zr_soft_alu_source(alu, gpr, second, &value) && second < 16 &&
               zr_soft_alu_load(alu, first, opcode == 0x080 ? value : ~value);
    case 0x081: /* LOAD0 */
    case 0x481: /* LOAD1 */
        return zr_soft_alu_load(alu, first, opcode == 0x081 ? 0 : UINT64_MAX);
    case 0x100:
    case 0x101:
    case 0x102:
    case 0x103:
    case 0x104:
        zr_soft_alu_compute(alu, opcode);
        return true;
    case 0x180: /* STORE */
    case 0x580: /* STOREINV */
        if (first >= 16 || !zr_soft_alu_source(alu, gpr, second, &value)) {
            return false;
        }
        gpr[first] = opcode == 0x180 ? value : ~value;
        return true;
    default:
        return false;
    }
}

enum zr_soft_step zr_soft_mi_math(struct zr_soft_batch *batch, const uint32_t *dw,
                                  const struct zr_soft_command *command)
{
    struct zr_soft_alu        alu  = {0};
    struct zr_soft_registers *regs = zr_soft_registers_get(batch);
    unsigned                  i, count = zr_soft_command_length(command, dw[0]);

    for (i = 1; i < count; i++) {
        if (regs == NULL) {
            return zr_soft_hang(batch, "%s: no memory for registers", command->name);
        }
        if (!zr_soft_alu_step(&alu, regs->gpr, dw[i]) &&
            (batch->req->ctx->dev->profile.gen != ZR_SOFT_PVC ||
             !zr_soft_alu_step_pvc(batch, &alu, regs->gpr, dw[i]))) {
            return batch->reason[0] != '\0'
                       ? ZR_SOFT_HANG
                       : zr_soft_hang(batch, "%s: instruction 0x%08x is not valid", command->name,
                                      dw[i]);
        }
    }
    return ZR_SOFT_MORE;
}
