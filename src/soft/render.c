/* Commands of render and compute engines: state is taken without effect, PIPE_CONTROL writes what
 * it is asked to, and whatever would make execution units work hangs: there are none here. */
/* SPDX-License-Identifier: BSD-3-Clause */
#include "soft.h"

static enum zr_soft_step zr_soft_state(struct zr_soft_batch *batch, const uint32_t *dw,
                                       const struct zr_soft_command *command)
{
    return ZR_SOFT_MORE;
}

static enum zr_soft_step zr_soft_walker(struct zr_soft_batch *batch, const uint32_t *dw,
                                        const struct zr_soft_command *command)
{
    return zr_soft_hang(batch, "%s: this device has no execution units", command->name);
}

static enum zr_soft_step zr_soft_pipe_control(struct zr_soft_batch *batch, const uint32_t *dw,
                                              const struct zr_soft_command *command)
{
    unsigned op = dw[1] >> 14 & 3;
    void    *cpu;

    if (op == 0) {
        return ZR_SOFT_MORE;
    }
    if (op == 2) {
        return zr_soft_hang(batch, "%s: counts pixels, of which there are none", command->name);
    }
    cpu = zr_soft_word(batch, command->name, dw + 2, 8);
    if (cpu == NULL) {
        return ZR_SOFT_HANG;
    }
    return zr_soft_store(batch, cpu,
                         op == 3 ? zr_soft_timestamp(batch->req->ctx->dev)
                                 : dw[4] | (uint64_t)dw[5] << 32,
                         true);
}

#define BOTH   ((1u << I915_ENGINE_CLASS_RENDER) | (1u << I915_ENGINE_CLASS_COMPUTE))
#define ALL    ZR_SOFT_GENS_ALL, BOTH
#define AFTER  (ZR_SOFT_GENS_ALL & ~ZR_SOFT_GENS(ZR_SOFT_GEN12)), BOTH
#define WITH_COPY ZR_SOFT_GENS(ZR_SOFT_PVC), BOTH | ZR_SOFT_CLASS_COPY
#define GEN12  ZR_SOFT_GENS(ZR_SOFT_GEN12), BOTH
#define STATE(name, value, gens)                                                              \
    {name, 0xffff0000, value, ZR_SOFT_VARIABLE, gens, zr_soft_state, {0x0000ff00}}

/* PIPE_CONTROL: a write to the status page is reserved, as it needs a privilege. */
const struct zr_soft_command zr_soft_renders[] = {
    {"PIPE_CONTROL", 0xffff00ff, 0x7a000004, 6, ALL, zr_soft_pipe_control,
     {0x0000d000, 0x01200000, 0x7}},
    STATE("STATE_BASE_ADDRESS", 0x61010000, ALL),
    STATE("STATE_SIP", 0x61020000, ALL),
    STATE("STATE_COMPUTE_MODE", 0x61050000, ALL),
    STATE("STATE_SYSTEM_MEM_FENCE_ADDRESS", 0x61090000, WITH_COPY),
    STATE("3DSTATE_BINDING_TABLE_POOL_ALLOC", 0x79190000, ALL),
    STATE("3DSTATE_BTD", 0x79060000, AFTER),
    STATE("CFE_STATE", 0x72000000, AFTER),
    STATE("MEDIA_VFE_STATE", 0x70000000, GEN12),
    STATE("MEDIA_STATE_FLUSH", 0x70040000, GEN12),
    {"PIPELINE_SELECT", 0xffff0000, 0x69040000, 1, ALL, zr_soft_state, {0x00000000}},
    {"COMPUTE_WALKER", 0xffff0000, 0x72080000, ZR_SOFT_VARIABLE, AFTER, zr_soft_walker, {0}},
    {"GPGPU_WALKER", 0xffff0000, 0x71050000, ZR_SOFT_VARIABLE, GEN12, zr_soft_walker, {0}},
    {"MEDIA_INTERFACE_DESCRIPTOR_LOAD", 0xffff0000, 0x70020000, ZR_SOFT_VARIABLE, GEN12,
     zr_soft_state, {0x0000ff00}},
};
const unsigned zr_soft_num_renders = ZR_ARRAY_SIZE(zr_soft_renders);
