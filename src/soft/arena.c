/* Arenas: memory of small objects, many to one memfd that never leaves the process. An object that
 * is exported or mapped gets sealed memory of its own first, so that who holds its fd can reach
 * nothing else; engines stand still while it moves.
 *
 * An object of 64 KiB or more has its own from the start: only such can be a physical memory
 * object, whose pages are of that size. */
/* SPDX-License-Identifier: BSD-3-Clause */
#include "soft.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define ZR_SOFT_ARENA_PAGES 4096u /* 16 MiB */

struct zr_soft_arena {
    struct zr_soft_arena *next;
    int                   fd;
    uint8_t              *cpu;
    unsigned              free, hint; /* pages; no free page below hint */
    bool                  used[ZR_SOFT_ARENA_PAGES];
};

static struct zr_soft_arena *zr_soft_arena_new(void)
{
    const size_t          size  = (size_t)ZR_SOFT_ARENA_PAGES * ZR_SOFT_PAGE;
    struct zr_soft_arena *arena = calloc(1, sizeof(*arena));

    if (arena == NULL) {
        return NULL;
    }
    arena->fd = memfd_create("i915-arena", MFD_CLOEXEC);
    if (arena->fd < 0) {
        goto err_arena;
    }
    if (ftruncate(arena->fd, (off_t)size) != 0) {
        goto err_fd;
    }
    arena->fd  = zr_soft_fd_move_up(arena->fd);
    arena->cpu = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED, arena->fd, 0);
    if (arena->cpu == MAP_FAILED) {
        goto err_fd;
    }
    arena->free = ZR_SOFT_ARENA_PAGES;
    return arena;

err_fd:
    close(arena->fd);
err_arena:
    free(arena);
    return NULL;
}

/* First of @a count pages in a row; ZR_SOFT_ARENA_PAGES: there are none. */
static unsigned zr_soft_arena_find(struct zr_soft_arena *arena, unsigned count)
{
    unsigned i, run = 0;

    while (arena->hint < ZR_SOFT_ARENA_PAGES && arena->used[arena->hint]) {
        arena->hint++;
    }
    for (i = arena->hint; i < ZR_SOFT_ARENA_PAGES; i++) {
        run = arena->used[i] ? 0 : run + 1;
        if (run == count) {
            return i + 1 - count;
        }
    }
    return ZR_SOFT_ARENA_PAGES;
}

int zr_soft_arena_alloc(struct zr_soft_dev *dev, struct zr_soft_bo *bo)
{
    unsigned              count = bo->size / ZR_SOFT_PAGE, first = ZR_SOFT_ARENA_PAGES;
    struct zr_soft_arena *arena;

    for (arena = dev->arenas; arena != NULL; arena = arena->next) {
        first = arena->free >= count ? zr_soft_arena_find(arena, count) : ZR_SOFT_ARENA_PAGES;
        if (first != ZR_SOFT_ARENA_PAGES) {
            break;
        }
    }
    if (arena == NULL) {
        arena = zr_soft_arena_new();
        if (arena == NULL) {
            return -ENOMEM;
        }
        arena->next = dev->arenas;
        dev->arenas = arena;
        first       = 0;
    }
    memset(arena->used + first, true, count);
    arena->free -= count;
    bo->arena = arena;
    atomic_store(&bo->cpu, arena->cpu + (size_t)first * ZR_SOFT_PAGE);
    return 0;
}

void zr_soft_arena_free(struct zr_soft_bo *bo)
{
    struct zr_soft_arena *arena = bo->arena;
    uint8_t              *cpu   = atomic_load(&bo->cpu);
    unsigned              first = (unsigned)((cpu - arena->cpu) / ZR_SOFT_PAGE);
    unsigned              count = bo->size / ZR_SOFT_PAGE;

    /* The next object must not see it, and the pages go back. */
    if (madvise(cpu, bo->size, MADV_REMOVE) != 0) {
        memset(cpu, 0, bo->size);
    }
    memset(arena->used + first, false, count);
    arena->free += count;
    arena->hint = ZR_MIN(arena->hint, first);
    bo->arena   = NULL;
}

/* The pages of an arena go to the object's own memory, which engines find from then on. */
static int zr_soft_arena_move(struct zr_soft_bo *bo)
{
    uint8_t    *from = atomic_load(&bo->cpu), *to;
    struct stat st;
    int         fd = zr_soft_memory(bo->dev, bo->size, bo->lmem, bo->smem), ret;

    if (fd < 0) {
        return fd;
    }
    to = mmap(NULL, bo->size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (to == MAP_FAILED || fstat(fd, &st) != 0) {
        ret = -errno;
        if (to != MAP_FAILED) {
            munmap(to, bo->size);
        }
        close(fd);
        return ret;
    }
    memcpy(to, from, bo->size);
    zr_soft_arena_free(bo);
    zr_soft_bo_adopt(bo, fd, &st);
    atomic_store(&bo->cpu, to);
    return 0;
}

int zr_soft_bo_own(struct zr_soft_bo *bo)
{
    struct zr_soft_dev *dev = bo->dev;
    int                 ret = 0;

    if (bo->arena == NULL) {
        return 0;
    }
    zr_soft_engines_pause(dev);
    if (bo->arena != NULL) { /* another caller may have been first */
        ret = zr_soft_arena_move(bo);
    }
    zr_soft_engines_resume(dev);
    return ret;
}

void zr_soft_arenas_free(struct zr_soft_dev *dev)
{
    struct zr_soft_arena *arena;

    while ((arena = dev->arenas) != NULL) {
        dev->arenas = arena->next;
        munmap(arena->cpu, (size_t)ZR_SOFT_ARENA_PAGES * ZR_SOFT_PAGE);
        close(arena->fd);
        free(arena);
    }
}
