/* No secrets out: memory that another process had, or had freed, comes zeroed; a window of an
 * object shows only itself through the imported pointer. */
/* SPDX-License-Identifier: BSD-3-Clause */
#include "faults.h"

#define COUNT 16
#define SECRET 0x5e

struct kind {
    const char    *name;
    enum zr_backing backing;
    enum zr_cache   cache;
    ze_memory_type_t usm; /* UNKNOWN: an object of the backing above */
    bool            eager;
};

static const struct kind kinds[] = {
    {"device memory", 0, 0, ZE_MEMORY_TYPE_DEVICE, false},
    {"device memory kept for reuse", 0, 0, ZE_MEMORY_TYPE_DEVICE, true},
    {"host memory", 0, 0, ZE_MEMORY_TYPE_HOST, false},
    {"shared memory", 0, 0, ZE_MEMORY_TYPE_SHARED, true},
    {"contiguous object", ZR_BACKING_CONTIGUOUS, ZR_CACHE_WRITE_COMBINED, 0, false},
    {"section object", ZR_BACKING_SECTION, ZR_CACHE_CACHED, 0, false},
};

/* An allocation of @a size; for an object its mapping. */
static char *get(const struct kind *kind, size_t size)
{
    struct zr_phys *phys;
    void           *p;

    if (kind->usm != ZE_MEMORY_TYPE_UNKNOWN) {
        OK(zr_usm_alloc(test_device(), kind->usm, size, 0, kind->eager, &p));
        return p;
    }
    OK(zr_phys_create(test_device(), kind->backing, kind->cache, size, 0, &phys));
    OK(zr_va_reserve(NULL, size, &p));
    OK(zr_va_map(p, size, phys, 0, RW));
    zr_phys_unref(phys);
    return p;
}

static void put(const struct kind *kind, char *p, size_t size)
{
    if (kind->usm != ZE_MEMORY_TYPE_UNKNOWN) {
        OK(zr_usm_free(p));
    } else {
        OK(zr_va_unreserve(p, size));
    }
}

static void owner(int sock, const void *arg)
{
    const struct kind *kind = arg;
    char              *p[COUNT], byte;
    unsigned           i;

    for (i = 0; i < COUNT; i++) {
        p[i] = get(kind, ZR_PAGE_LARGE);
        memset(p[i], SECRET, ZR_PAGE_LARGE);
    }
    for (i = 0; i < COUNT / 2; i++) {
        put(kind, p[i], ZR_PAGE_LARGE);
    }
    say(sock, "f", 1); /* half is free, half is in use; the rest ends with the process */
    hear(sock, &byte, 1);
}

static void all_zero(const char *p, size_t size)
{
    size_t i;

    for (i = 0; i < size; i++) {
        CHECK(p[i] == 0);
    }
}

static void fresh_and_reused(const void *arg)
{
    const struct kind *kind = arg;
    char              *p[COUNT], byte;
    unsigned           i, round;
    pid_t              pid;
    int                sock;

    pid = fault_spawn(owner, kind, &sock);
    hear(sock, &byte, 1);
    for (round = 0; round < 2; round++) { /* while the owner lives, and after it has died */
        for (i = 0; i < COUNT; i++) {
            p[i] = get(kind, ZR_PAGE_LARGE);
            all_zero(p[i], ZR_PAGE_LARGE);
        }
        if (round == 0) {
            say(sock, "d", 1);
            fault_join(pid);
            for (i = 0; i < COUNT; i++) {
                put(kind, p[i], ZR_PAGE_LARGE);
            }
            (void)zr_pool_drop();
        }
    }
    outcome("%u MiB looked at, all zero", 2 * COUNT * 2);
}

/* ---- a window ---- */

static void window_exporter(int sock, const void *arg)
{
    ze_ipc_mem_handle_t handle;
    struct zr_phys     *phys;
    char               *base;

    OK(zr_phys_create(test_device(), ZR_BACKING_SECTION, ZR_CACHE_CACHED, 3 * PAGE, 0, &phys));
    OK(zr_va_reserve(NULL, 3 * PAGE, (void **)&base));
    OK(zr_va_map(base, 3 * PAGE, phys, 0, RW));
    memset(base, SECRET, 3 * PAGE);
    memset(base + PAGE, 0x21, PAGE);
    fault_export(base + PAGE, PAGE, &handle);
    say(sock, &handle, sizeof(handle));
    meet(sock);
}

static void window(const void *arg)
{
    ze_ipc_mem_handle_t handle;
    struct zr_range     range;
    struct zr_va_info   info;
    unsigned            kinds_met;
    size_t              i;
    pid_t               pid;
    char               *ptr;
    int                 sock;

    pid = fault_spawn(window_exporter, NULL, &sock);
    hear(sock, &handle, sizeof(handle));
    OK(zr_ipc_open(test_device(), &handle, (void **)&ptr));
    CHECK(zr_va_query(ptr, &info) && info.base == (uintptr_t)ptr && info.size == PAGE);
    for (i = 0; i < PAGE; i++) {
        CHECK(ptr[i] == 0x21);
    }
    /* No call of the driver takes an address outside of it. */
    CHECK(zr_range_walk(ptr - 1, 2, &range, &kinds_met, NULL) != ZE_RESULT_SUCCESS);
    CHECK(zr_range_walk(ptr, PAGE + 1, &range, &kinds_met, NULL) != ZE_RESULT_SUCCESS);
    OK(zr_ipc_close(ptr));
    meet(sock);
    fault_join(pid);
    outcome("one page of three, nothing before and behind it");
}

/* ---- backing kept for reuse ---- */

/* The bytes in it are this process's own; what a peer may still hold, and write, is not kept. */
static void kept(const void *arg)
{
    const bool           shared = *(const bool *)arg;
    const size_t         size   = ZR_PAGE_LARGE;
    struct zr_mem_counts before, after;
    struct zr_range      range;
    unsigned             kinds_met;
    void                *p;
    int                  fd = -1;

    zr_mem_counts(&before);
    OK(zr_usm_alloc(test_device(), ZE_MEMORY_TYPE_DEVICE, size, 0, true, &p));
    if (shared) {
        OK(zr_range_walk(p, size, &range, &kinds_met, NULL));
        OK(zr_bo_export(range.segments[0].object->bo, &fd));
        zr_range_clear(&range);
        close(fd);
    }
    OK(zr_usm_free(p));
    zr_mem_counts(&after);
    CHECK(after.kept_bytes == before.kept_bytes + (shared ? 0 : size));
    outcome("%s", shared ? "given back" : "kept");
}

int main(void)
{
    static const bool both[] = {false, true};
    char              name[100];
    unsigned          i;

    fault_start();
    setenv("ZERANGE_DEVICE_CPU_ACCESS", "1", 1);
    for (i = 0; i < ZR_ARRAY_SIZE(kinds); i++) {
        snprintf(name, sizeof(name), "%s: new and reused, between processes", kinds[i].name);
        fault_case(name, fresh_and_reused, &kinds[i], 60);
    }
    fault_case("window of an object", window, NULL, 60);
    fault_case("backing that never left the process", kept, &both[0], 60);
    fault_case("backing that was shared", kept, &both[1], 60);
    return fault_end("secrets");
}
