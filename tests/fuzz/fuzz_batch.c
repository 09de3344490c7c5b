/* Fuzz target: a batch buffer, executed by a copy engine of the software device. Whatever it holds,
 * the engine stays inside the objects of its VM, and the device serves the next client. */
/* SPDX-License-Identifier: BSD-3-Clause */
#include "fuzz.h"

#include <i915_drm.h>
#include <drm.h>

#define BATCH_SIZE 8192
#define DATA_SIZE  65536
#define BATCH_VA   UINT64_C(0x200000)
#define DATA_VA    UINT64_C(0x400000) /* below 4 GiB: one dword of an address is zero */
#define GUARD      4096

static const struct zr_kif *kif;
static struct zr_kif_node   nodes[1];
static struct zr_kfile     *keeper; /* keeps the device alive between the clients */

int LLVMFuzzerInitialize(int *argc, char ***argv)
{
    setenv("ZERANGE_SOFT", "pvc", 0);
    setenv("ZERANGE_SOFT_THREADS", "1", 1);
    setenv("ZERANGE_LOG", "error", 1);
    NEED(zr_config_load() == ZE_RESULT_SUCCESS);
    kif = zr_soft_kif();
    NEED(kif->enumerate(nodes, 1) == 1 && kif->open(&nodes[0], &keeper) == 0);
    return 0;
}

static void *map(struct zr_kfile *file, uint32_t handle, size_t size)
{
    struct drm_i915_gem_mmap_offset offset = {.handle = handle, .flags = I915_MMAP_OFFSET_WC};
    void                           *cpu;

    NEED(kif->ioctl(file, DRM_IOCTL_I915_GEM_MMAP_OFFSET, &offset) == 0);
    cpu = kif->mmap(file, NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED, offset.offset);
    NEED(cpu != MAP_FAILED);
    return cpu;
}

static uint32_t create(struct zr_kfile *file, size_t size)
{
    struct drm_i915_gem_create args = {.size = size};

    NEED(kif->ioctl(file, DRM_IOCTL_I915_GEM_CREATE, &args) == 0);
    return args.handle;
}

static uint32_t context(struct zr_kfile *file)
{
    I915_DEFINE_CONTEXT_PARAM_ENGINES(engines, 1) = {
        .engines = {{I915_ENGINE_CLASS_COPY, 0}}};
    struct drm_i915_gem_context_create_ext_setparam persistent = {
        .base  = {.name = I915_CONTEXT_CREATE_EXT_SETPARAM},
        .param = {.param = I915_CONTEXT_PARAM_PERSISTENCE, .value = 0}};
    struct drm_i915_gem_context_create_ext_setparam set = {
        .base  = {.name = I915_CONTEXT_CREATE_EXT_SETPARAM,
                  .next_extension = (uintptr_t)&persistent},
        .param = {.param = I915_CONTEXT_PARAM_ENGINES, .size = sizeof(engines),
                  .value = (uintptr_t)&engines}};
    struct drm_i915_gem_context_create_ext args = {
        .flags      = I915_CONTEXT_CREATE_FLAGS_USE_EXTENSIONS,
        .extensions = (uintptr_t)&set};

    NEED(kif->ioctl(file, DRM_IOCTL_I915_GEM_CONTEXT_CREATE_EXT, &args) == 0);
    return args.ctx_id;
}

static int exec(struct zr_kfile *file, uint32_t ctx, uint32_t data, uint32_t batch)
{
    const uint64_t flags = EXEC_OBJECT_PINNED | EXEC_OBJECT_SUPPORTS_48B_ADDRESS;
    struct drm_i915_gem_exec_object2 list[2] = {
        {.handle = data, .offset = DATA_VA, .flags = flags | EXEC_OBJECT_WRITE},
        {.handle = batch, .offset = BATCH_VA, .flags = flags}};
    struct drm_i915_gem_execbuffer2 args = {
        .buffers_ptr = (uintptr_t)list, .buffer_count = 2, .rsvd1 = ctx};

    return kif->ioctl(file, DRM_IOCTL_I915_GEM_EXECBUFFER2, &args);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct drm_i915_gem_wait wait = {.timeout_ns = 3000000};
    struct zr_kfile         *file;
    uint32_t                 bo[2], end = 0x05000000;
    uint8_t                 *cpu[2];

    if (size > BATCH_SIZE - 8) {
        return 0;
    }
    NEED(kif->open(&nodes[0], &file) == 0);
    bo[0]  = create(file, DATA_SIZE);
    bo[1]  = create(file, BATCH_SIZE);
    cpu[0] = map(file, bo[0], DATA_SIZE);
    cpu[1] = map(file, bo[1], BATCH_SIZE);
    memcpy(cpu[1], data, size);
    memcpy(cpu[1] + ZR_ALIGN_UP(size, 4), &end, sizeof(end));
    NEED(exec(file, context(file), bo[0], bo[1]) == 0);
    wait.bo_handle = bo[1];
    (void)kif->ioctl(file, DRM_IOCTL_I915_GEM_WAIT, &wait);
    kif->munmap(file, cpu[0], DATA_SIZE);
    kif->munmap(file, cpu[1], BATCH_SIZE);
    kif->close(file); /* ends what still runs */
    return 0;
}
