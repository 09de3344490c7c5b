/* GPU address spaces: sorted tables of what is bound where, shared with running requests. */
/* SPDX-License-Identifier: BSD-3-Clause */
#include "soft.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

static struct zr_soft_table *zr_soft_table_new(unsigned capacity)
{
    struct zr_soft_table *table = malloc(sizeof(*table) + capacity * sizeof(table->entry[0]));

    if (table != NULL) {
        table->refs     = 1;
        table->count    = 0;
        table->dead     = 0;
        table->capacity = capacity;
    }
    return table;
}

struct zr_soft_table *zr_soft_table_get(struct zr_soft_table *table)
{
    table->refs++;
    return table;
}

void zr_soft_table_put(struct zr_soft_table *table)
{
    unsigned i;

    if (--table->refs != 0) {
        return;
    }
    for (i = 0; i < table->count; i++) {
        if (table->entry[i].bo != NULL) {
            zr_soft_bo_put(table->entry[i].bo);
        }
    }
    free(table);
}

static void zr_soft_table_compact(struct zr_soft_table *table)
{
    unsigned i, kept = 0;

    for (i = 0; i < table->count; i++) {
        if (table->entry[i].bo != NULL) {
            table->entry[kept++] = table->entry[i];
        }
    }
    table->count = kept;
    table->dead  = 0;
}

/* The caller keeps the entry's reference. */
static void zr_soft_table_kill(struct zr_soft_table *table, unsigned i)
{
    table->entry[i].bo = NULL;
    if (++table->dead > 16 && table->dead > table->count / 2) {
        zr_soft_table_compact(table);
    }
}

/* Make the VM's table its own, with room for one more entry. */
static int zr_soft_vm_own_table(struct zr_soft_vm *vm)
{
    struct zr_soft_table *old = vm->table, *table;
    unsigned              i;

    if (old->refs == 1 && old->count < old->capacity) {
        return 0;
    }
    table = zr_soft_table_new(ZR_MAX(16u, old->count * 2));
    if (table == NULL) {
        return -ENOMEM;
    }
    memcpy(table->entry, old->entry, old->count * sizeof(old->entry[0]));
    table->count = old->count;
    zr_soft_table_compact(table);
    for (i = 0; i < table->count; i++) {
        zr_soft_bo_get(table->entry[i].bo);
    }
    zr_soft_table_put(old);
    vm->table = table;
    return 0;
}

/* Index of the first entry that ends above @a start. */
static unsigned zr_soft_table_search(const struct zr_soft_table *table, uint64_t start)
{
    unsigned low = 0, high = table->count;

    while (low < high) {
        unsigned middle = (low + high) / 2;

        if (table->entry[middle].end <= start) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    return low;
}

struct zr_soft_vm *zr_soft_vm_new(struct zr_soft_file *file)
{
    struct zr_soft_vm *vm = calloc(1, sizeof(*vm));

    if (vm == NULL) {
        return NULL;
    }
    vm->dev    = file->dev;
    vm->serial = ++file->dev->vm_serial;
    vm->file  = file;
    vm->refs  = 1;
    vm->table = zr_soft_table_new(16);
    if (vm->table == NULL) {
        free(vm);
        return NULL;
    }
    return vm;
}

struct zr_soft_vm *zr_soft_vm_get(struct zr_soft_vm *vm)
{
    vm->refs++;
    return vm;
}

static void zr_soft_bind_remove(struct zr_soft_bo *bo, const struct zr_soft_vm *vm)
{
    struct zr_soft_bind **link, *bind;

    for (link = &bo->binds; *link != NULL; link = &(*link)->next) {
        if ((*link)->vm == vm) {
            bind  = *link;
            *link = bind->next;
            free(bind);
            return;
        }
    }
}

void zr_soft_vm_put(struct zr_soft_vm *vm)
{
    unsigned i;

    if (--vm->refs != 0) {
        return;
    }
    for (i = 0; i < vm->table->count; i++) {
        if (vm->table->entry[i].bo != NULL) {
            zr_soft_bind_remove(vm->table->entry[i].bo, vm);
        }
    }
    zr_soft_table_put(vm->table);
    free(vm);
}

struct zr_soft_bind *zr_soft_vm_find(const struct zr_soft_vm *vm, const struct zr_soft_bo *bo)
{
    struct zr_soft_bind *bind;

    for (bind = bo->binds; bind != NULL && bind->vm != vm; bind = bind->next) {
    }
    return bind;
}

void zr_soft_vm_unbind(struct zr_soft_vm *vm, struct zr_soft_bo *bo)
{
    struct zr_soft_bind *bind = zr_soft_vm_find(vm, bo);

    if (bind == NULL || zr_soft_vm_own_table(vm) != 0) {
        return; /* out of memory: the object stays bound a while longer */
    }
    zr_soft_table_kill(vm->table, zr_soft_table_search(vm->table, bind->start));
    zr_soft_bind_remove(bo, vm);
    zr_soft_bo_put(bo);
}

bool zr_soft_vm_is_free(const struct zr_soft_vm *vm, uint64_t start, uint64_t size)
{
    const struct zr_soft_table *table = vm->table;
    unsigned                    i;

    for (i = zr_soft_table_search(table, start);
         i < table->count && table->entry[i].start < start + size; i++) {
        if (table->entry[i].bo != NULL) {
            return false;
        }
    }
    return true;
}

/* Make room: what execbufs bound there goes, unless this one pinned it; what VM_BIND bound stays, and
 * so does the range. *index_p: of the entry that will be there. */
static int zr_soft_vm_clear(struct zr_soft_vm *vm, uint64_t start, uint64_t end, unsigned *index_p)
{
    struct zr_soft_table *table;
    unsigned              i;
    int                   ret = zr_soft_vm_own_table(vm);

    if (ret != 0) {
        return ret;
    }
    table = vm->table;
    for (;;) {
        i = zr_soft_table_search(table, start);
        if (i == table->count || table->entry[i].start >= end) {
            *index_p = i;
            return 0;
        }
        if (table->entry[i].bo != NULL) {
            if (table->entry[i].lasting || table->entry[i].bo->exec == vm->dev->exec_count) {
                return -ENOSPC;
            }
            zr_soft_vm_unbind(vm, table->entry[i].bo);
            continue; /* it may have moved */
        }
        memmove(&table->entry[i], &table->entry[i + 1],
                (table->count - i - 1) * sizeof(table->entry[0]));
        table->count--;
        table->dead--;
    }
}

static void zr_soft_vm_insert(struct zr_soft_vm *vm, unsigned i, struct zr_soft_entry entry)
{
    struct zr_soft_table *table = vm->table;

    memmove(&table->entry[i + 1], &table->entry[i], (table->count - i) * sizeof(table->entry[0]));
    table->entry[i] = entry;
    table->count++;
}

int zr_soft_vm_bind(struct zr_soft_vm *vm, struct zr_soft_bo *bo, uint64_t start, uint64_t size)
{
    struct zr_soft_bind *bind;
    unsigned             i;
    int                  ret = zr_soft_vm_clear(vm, start, start + size, &i);

    if (ret != 0) {
        return ret;
    }
    bind = malloc(sizeof(*bind));
    if (bind == NULL) {
        return -ENOMEM;
    }
    *bind     = (struct zr_soft_bind){bo->binds, vm, start, size};
    bo->binds = bind;
    zr_soft_vm_insert(
        vm, i, (struct zr_soft_entry){start, start + size, 0, zr_soft_bo_get(bo), false});
    return 0;
}

/* ---- VM_BIND ---- */

const struct zr_soft_entry *zr_soft_vm_lasting(const struct zr_soft_vm *vm, uint64_t address)
{
    const struct zr_soft_table *table = vm->table;
    unsigned                    i;

    if (vm->lasting == 0) {
        return NULL;
    }
    i = zr_soft_table_search(table, address);
    return i < table->count && table->entry[i].start <= address && table->entry[i].bo != NULL &&
                   table->entry[i].lasting
               ? &table->entry[i]
               : NULL;
}

int zr_soft_vm_bind_range(struct zr_soft_vm *vm, struct zr_soft_bo *bo, uint64_t start,
                          uint64_t offset, uint64_t length)
{
    unsigned i;
    int      ret;

    if (zr_soft_vm_lasting(vm, start) != NULL) {
        return -EEXIST;
    }
    ret = zr_soft_vm_clear(vm, start, start + length, &i);
    if (ret != 0) {
        return ret;
    }
    zr_soft_vm_insert(
        vm, i, (struct zr_soft_entry){start, start + length, offset, zr_soft_bo_get(bo), true});
    vm->lasting++;
    atomic_fetch_add(&vm->generation, 1);
    return 0;
}

int zr_soft_vm_unbind_range(struct zr_soft_vm *vm, uint64_t start, uint64_t length)
{
    const struct zr_soft_entry *entry = zr_soft_vm_lasting(vm, start);
    struct zr_soft_bo          *bo;
    uint64_t                    at;
    int                         ret;

    if (entry == NULL) {
        return -ENOENT;
    }
    if (entry->end - entry->start != length) {
        return -EINVAL;
    }
    at  = entry->start;
    bo  = entry->bo;
    ret = zr_soft_vm_own_table(vm);
    if (ret != 0) {
        return ret;
    }
    zr_soft_table_kill(vm->table, zr_soft_table_search(vm->table, at));
    vm->lasting--;
    atomic_fetch_add(&vm->generation, 1);
    zr_soft_bo_put(bo);
    return 0;
}

/* The highest hole. */
static int zr_soft_vm_hole_high(const struct zr_soft_table *table, uint64_t size,
                                uint64_t alignment, uint64_t limit, uint64_t *start_p)
{
    uint64_t end = limit, start;
    unsigned i   = table->count;

    for (;;) {
        if (size > end) {
            return -ENOSPC;
        }
        start = ZR_ALIGN_DOWN(end - size, alignment);
        while (i > 0 && (table->entry[i - 1].bo == NULL || table->entry[i - 1].start >= end)) {
            i--;
        }
        if (start < 2 * ZR_MIB) {
            return -ENOSPC;
        }
        if (i == 0 || table->entry[i - 1].end <= start) {
            *start_p = start;
            return 0;
        }
        end = table->entry[i - 1].start;
    }
}

int zr_soft_vm_hole(const struct zr_soft_vm *vm, uint64_t size, uint64_t alignment,
                    uint64_t limit, uint64_t *start_p)
{
    const struct zr_soft_table *table = vm->table;
    uint64_t                    start = ZR_ALIGN_UP(2 * ZR_MIB, alignment);
    unsigned                    i;

    if (vm->dev->dirty & ZR_SOFT_DIRTY_HIGH) {
        return zr_soft_vm_hole_high(table, size, alignment, limit, start_p);
    }
    for (i = zr_soft_table_search(table, start); i <= table->count; i++) {
        if (start > limit || size > limit - start) {
            return -ENOSPC;
        }
        if (i == table->count || table->entry[i].start >= start + size) {
            *start_p = start;
            return 0;
        }
        if (table->entry[i].bo == NULL) {
            continue;
        }
        start = ZR_ALIGN_UP(table->entry[i].end, alignment);
    }
    return -ENOSPC;
}

int zr_soft_vm_create(struct zr_soft_file *file, void *data)
{
    struct drm_i915_gem_vm_control *args = data;
    struct zr_soft_vm              *vm;
    int                             ret;

    ret = zr_soft_prelim_vm_check(file, args);
    if (ret != 0) {
        return ret;
    }
    vm = zr_soft_vm_new(file);
    if (vm == NULL) {
        return -ENOMEM;
    }
    ret = zr_soft_ids_add(&file->vms, 1, vm, &args->vm_id);
    if (ret != 0) {
        zr_soft_vm_put(vm);
    }
    return ret;
}

int zr_soft_vm_destroy(struct zr_soft_file *file, void *data)
{
    struct drm_i915_gem_vm_control *args = data;
    struct zr_soft_vm              *vm;

    if (args->flags != 0 || args->extensions != 0) {
        return -EINVAL;
    }
    vm = zr_soft_ids_remove(&file->vms, args->vm_id);
    if (vm == NULL) {
        return -ENOENT;
    }
    zr_soft_vm_put(vm);
    return 0;
}
