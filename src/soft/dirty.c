/* What is allowed to happen and seldom does: ZERANGE_SOFT_DIRTY=MODE[,MODE...][:SEED]. The seed
 * decides what happens to which call, so that a run of one thread can be had again.
 *
 *   intr      any ioctl may end with EINTR or EAGAIN before it has done anything
 *   evict     what an execbuf does not name may lose its address before it; what has no fixed one
 *             gets another
 *   delay     engines start late, pause, and are served in any order
 *   lazy      what a copy or fill wrote is seen after the next MI_FLUSH_DW, or the batch's end
 *   shadow    cached mappings of what is not coherent show a copy, brought up to date and written
 *             back by SET_DOMAIN only (and once before the first use)
 *   high      objects without a fixed address go to the top of the address space
 *   all       all of these: a client that is right does not notice
 *   nospc     an execbuf may be refused with ENOSPC
 *   ring      a ring has room for two thirds of the requests (61, or 26 sets of nine batches)
 *   smallbar  the CPU reaches a sixteenth of the device memory, at most 256 MiB
 *   memcap    the device has 1 GiB of each kind of memory */
/* SPDX-License-Identifier: BSD-3-Clause */
#include "soft.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

static const struct {
    const char *name;
    unsigned    modes;
} modes[] = {
    {"intr", ZR_SOFT_DIRTY_INTR},     {"evict", ZR_SOFT_DIRTY_EVICT},
    {"delay", ZR_SOFT_DIRTY_DELAY},   {"lazy", ZR_SOFT_DIRTY_LAZY},
    {"shadow", ZR_SOFT_DIRTY_SHADOW}, {"high", ZR_SOFT_DIRTY_HIGH},
    {"nospc", ZR_SOFT_DIRTY_NOSPC},   {"ring", ZR_SOFT_DIRTY_RING},
    {"smallbar", ZR_SOFT_DIRTY_BAR},  {"memcap", ZR_SOFT_DIRTY_MEMORY},
    {"all", ZR_SOFT_DIRTY_INTR | ZR_SOFT_DIRTY_EVICT | ZR_SOFT_DIRTY_DELAY | ZR_SOFT_DIRTY_LAZY |
                ZR_SOFT_DIRTY_SHADOW | ZR_SOFT_DIRTY_HIGH},
};

static int zr_soft_dirty_bad(const char *text)
{
    zr_error("ZERANGE_SOFT_DIRTY=%s is not valid, allowed: intr, evict, delay, lazy, shadow, high, "
             "all, nospc, ring, smallbar, memcap, separated by commas; then :SEED, a number",
             text);
    zr_fail(ZE_RESULT_ERROR_INVALID_ARGUMENT, "ZERANGE_SOFT_DIRTY=%s", text);
    return -EINVAL;
}

int zr_soft_dirty_parse(struct zr_soft_dev *dev, const char *text)
{
    const char *at = text;
    uint64_t    seed = 1;
    size_t      length;
    unsigned    i;
    char       *end;

    if (text == NULL || *text == '\0') {
        return 0;
    }
    do {
        length = strcspn(at, ",:");
        for (i = 0; i < ZR_ARRAY_SIZE(modes); i++) {
            if (strlen(modes[i].name) == length && strncmp(modes[i].name, at, length) == 0) {
                dev->dirty |= modes[i].modes;
                break;
            }
        }
        if (i == ZR_ARRAY_SIZE(modes)) {
            return zr_soft_dirty_bad(text);
        }
        at += length;
    } while (*at++ == ',');
    if (at[-1] == ':') {
        errno = 0;
        seed  = strtoull(at, &end, 10);
        if (*at < '0' || *at > '9' || *end != '\0' || errno != 0) {
            return zr_soft_dirty_bad(text);
        }
    }
    dev->random = seed * UINT64_C(0x9e3779b97f4a7c15) + 1;
    if (dev->dirty & ZR_SOFT_DIRTY_MEMORY) {
        dev->profile.lmem    = ZR_MIN(dev->profile.lmem, 1024 * ZR_MIB);
        dev->profile.smem    = ZR_MIN(dev->profile.smem, 1024 * ZR_MIB);
        dev->profile.visible = ZR_MIN(dev->profile.visible, dev->profile.lmem);
    }
    if (dev->dirty & ZR_SOFT_DIRTY_BAR) {
        dev->profile.visible = ZR_ALIGN_UP(ZR_MIN(dev->profile.lmem / 16, 256 * ZR_MIB),
                                           64 * ZR_KIB);
    }
    return 0;
}

/* splitmix64 */
static uint64_t zr_soft_random(struct zr_soft_dev *dev)
{
    uint64_t z = dev->random += UINT64_C(0x9e3779b97f4a7c15);

    z = (z ^ z >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
    z = (z ^ z >> 27) * UINT64_C(0x94d049bb133111eb);
    return z ^ z >> 31;
}

bool zr_soft_dirty_one_in(struct zr_soft_dev *dev, unsigned mode, unsigned n)
{
    return (dev->dirty & mode) && zr_soft_random(dev) % n == 0;
}

int zr_soft_dirty_call(struct zr_soft_dev *dev)
{
    if (zr_soft_dirty_one_in(dev, ZR_SOFT_DIRTY_INTR, 8)) {
        return zr_soft_random(dev) & 1 ? -EINTR : -EAGAIN;
    }
    return 0;
}

uint64_t zr_soft_dirty_delay(struct zr_soft_dev *dev)
{
    return zr_soft_dirty_one_in(dev, ZR_SOFT_DIRTY_DELAY, 3) ? zr_soft_random(dev) % 400000 : 0;
}

void zr_soft_dirty_evict(struct zr_soft_vm *vm)
{
    struct zr_soft_dev *dev = vm->dev;
    struct zr_soft_bo  *bo;
    unsigned            i;

    if (!(dev->dirty & ZR_SOFT_DIRTY_EVICT)) {
        return;
    }
    for (i = vm->table->count; i > 0; i--) {
        /* Unbinding may compact the table: what moved down has been looked at. */
        if (i > vm->table->count) {
            continue;
        }
        bo = vm->table->entry[i - 1].bo;
        if (bo != NULL && bo->exec != dev->exec_count && zr_soft_random(dev) % 2 == 0) {
            zr_soft_vm_unbind(vm, bo);
        }
    }
}

/* ---- shadows ---- */

static bool zr_soft_shadowed(const struct zr_soft_bo *bo)
{
    const struct zr_soft_profile *profile = &bo->dev->profile;

    return (bo->dev->dirty & ZR_SOFT_DIRTY_SHADOW) && profile->lmem == 0 &&
           (!profile->llc || bo->uncached) && !bo->coherent && bo->user == NULL;
}

static void *zr_soft_shadow_cpu(const struct zr_soft_bo *bo)
{
    void *cpu = mmap(NULL, bo->size, PROT_READ | PROT_WRITE, MAP_SHARED, bo->shadow - 1, 0);

    return cpu == MAP_FAILED ? NULL : cpu;
}

/* @param publish: from the CPU's caches to memory; else the other way */
static void zr_soft_shadow_move(struct zr_soft_bo *bo, bool publish)
{
    void *memory = zr_soft_bo_cpu(bo), *shadow;

    if (bo->shadow == 0 || memory == NULL) {
        return;
    }
    shadow = zr_soft_shadow_cpu(bo);
    if (shadow != NULL) {
        memcpy(publish ? memory : shadow, publish ? shadow : memory, bo->size);
        munmap(shadow, bo->size);
    }
}

int zr_soft_shadow_fd(struct zr_soft_bo *bo)
{
    int fd;

    if (!zr_soft_shadowed(bo)) {
        return bo->fd;
    }
    if (bo->shadow == 0) {
        fd = memfd_create("i915-shadow", MFD_CLOEXEC);
        if (fd < 0 || ftruncate(fd, (off_t)bo->size) != 0) {
            return -errno;
        }
        bo->shadow       = zr_soft_fd_move_up(fd) + 1;
        bo->shadow_dirty = true;
        zr_soft_shadow_move(bo, false);
    }
    return bo->shadow - 1;
}

void zr_soft_shadow_domain(struct zr_soft_bo *bo, uint32_t read, uint32_t write)
{
    if (bo->shadow == 0) {
        return;
    }
    if (!(read & I915_GEM_DOMAIN_CPU)) {
        if (bo->cpu_write) {
            zr_soft_shadow_move(bo, true);
        }
        bo->cpu_write = bo->cpu_read = bo->shadow_dirty = false;
        return;
    }
    if (!bo->cpu_read) {
        zr_soft_shadow_move(bo, false);
    }
    bo->cpu_read  = true;
    bo->cpu_write = bo->shadow_dirty = bo->cpu_write || write != 0;
}

void zr_soft_shadow_use(struct zr_soft_bo *bo)
{
    if (bo->shadow != 0 && bo->shadow_dirty) {
        zr_soft_shadow_move(bo, true);
        bo->shadow_dirty = false;
    }
    bo->cpu_read = bo->cpu_write = false;
}
