/* Limits: fds, address space, mappings, device memory. What does not fit is refused with an error
 * that says what, nothing is lost, and it fits again when the limit is gone. */
/* SPDX-License-Identifier: BSD-3-Clause */
#include "faults.h"

#include <sys/stat.h>

#define FEW  64
#define MANY 400

/* ---- what is tried under each limit ---- */

/* Memory made of objects, exported, opened, copied, given back.
 * @return 0, or the result with its reason in zr_last_error */
static ze_result_t work(unsigned objects, uint64_t size, const ze_ipc_mem_handle_t *foreign)
{
    struct zr_phys     *phys;
    ze_ipc_mem_handle_t handle;
    ze_result_t         result, closed;
    unsigned            i;
    char               *base;
    void               *ptr, *usm = NULL;

    result = zr_va_reserve(NULL, objects * size, (void **)&base);
    if (result != ZE_RESULT_SUCCESS) {
        return result;
    }
    for (i = 0; i < objects && result == ZE_RESULT_SUCCESS; ++i) {
        result = zr_phys_create(test_device(), ZR_BACKING_CONTIGUOUS, ZR_CACHE_WRITE_COMBINED, size,
                                0, &phys);
        if (result == ZE_RESULT_SUCCESS) {
            result = zr_va_map(base + i * size, size, phys, 0, RW);
            zr_phys_unref(phys);
        }
    }
    if (result == ZE_RESULT_SUCCESS) {
        result = zr_usm_alloc(test_device(), ZE_MEMORY_TYPE_DEVICE, size, 0, false, &usm);
    }
    if (result == ZE_RESULT_SUCCESS) {
        result = fault_export_try(base, objects * size, &handle);
    }
    if (result == ZE_RESULT_SUCCESS) {
        result = zr_ipc_open(test_device(), (foreign != NULL) ? foreign : &handle, &ptr);
        if (result == ZE_RESULT_SUCCESS) {
            OK(zr_ipc_close(ptr));
        }
    }
    if (usm != NULL) {
        OK(zr_usm_free(usm));
    }
    zr_ipc_forget(base);
    closed = zr_va_unreserve(base, objects * size);
    CHECK(closed == ZE_RESULT_SUCCESS);
    return result;
}

static unsigned count_maps(void)
{
    FILE    *file  = fopen("/proc/self/maps", "re");
    unsigned lines = 0;
    int      c;

    while ((c = getc(file)) != EOF) {
        lines += c == '\n';
    }
    fclose(file);
    return lines;
}

/* ---- 256 fds ---- */

/* The software device has an fd per object, a real one does not: so the limit is met by objects. */
static void limit_fds(const void *arg)
{
    struct holdings before;
    struct rlimit   limit, low;
    ze_result_t     result;

    OK(work(FEW, PAGE, NULL));
    before = hold();
    CHECK(getrlimit(RLIMIT_NOFILE, &limit) == 0);
    low = (struct rlimit){256, limit.rlim_max};
    if (limit.rlim_max < 1024) {
        skip("the hard limit is below 1024");
    }
    CHECK(setrlimit(RLIMIT_NOFILE, &low) == 0);
    OK(work(FEW, PAGE, NULL));
    result = work(MANY, PAGE, NULL);
    CHECK(result == ZE_RESULT_ERROR_OUT_OF_HOST_MEMORY ||
          result == ZE_RESULT_ERROR_OUT_OF_DEVICE_MEMORY);
    CHECK(strstr(zr_last_error(), "Too many open files") != NULL);
    outcome("%u objects work, of %u: %s", FEW, MANY, zr_last_error());
    check_holdings(before);
    OK(work(FEW, PAGE, NULL));
    CHECK(setrlimit(RLIMIT_NOFILE, &limit) == 0);
    OK(work(MANY, PAGE, NULL));
    check_holdings(before);
    atomic_fetch_add(&fault_page->injected, 1);
}

/* An importer with 256 fds and an exporter with many: what it can hold it gets. */
static void fds_exporter(int sock, const void *arg)
{
    ze_ipc_mem_handle_t handle;
    char               *few = fault_range(FEW, 3), *many = fault_range(MANY, 4);

    fault_export(few, FEW * PAGE, &handle);
    say(sock, &handle, sizeof(handle));
    fault_export(many, MANY * PAGE, &handle);
    say(sock, &handle, sizeof(handle));
    meet(sock);
}

static void limit_importer_fds(const void *arg)
{
    ze_ipc_mem_handle_t few, many;
    struct holdings     before;
    struct rlimit       limit, low;
    ze_result_t         result;
    pid_t               pid;
    void               *ptr = NULL;
    int                 sock;

    pid    = fault_spawn(fds_exporter, NULL, &sock);
    before = hold();
    hear(sock, &few, sizeof(few));
    hear(sock, &many, sizeof(many));
    CHECK(getrlimit(RLIMIT_NOFILE, &limit) == 0);
    low = (struct rlimit){256, limit.rlim_max};
    CHECK(setrlimit(RLIMIT_NOFILE, &low) == 0);
    OK(zr_ipc_open(test_device(), &few, &ptr));
    CHECK(fault_range_is(ptr, FEW * PAGE, 3));
    OK(zr_ipc_close(ptr));
    ptr    = NULL;
    result = zr_ipc_open(test_device(), &many, &ptr);
    CHECK(result == ZE_RESULT_ERROR_OUT_OF_HOST_MEMORY && ptr == NULL);
    outcome("%u objects open, of %u: %s", FEW, MANY, zr_last_error());
    check_holdings(before);
    CHECK(setrlimit(RLIMIT_NOFILE, &limit) == 0);
    OK(zr_ipc_open(test_device(), &many, &ptr));
    CHECK(fault_range_is(ptr, MANY * PAGE, 4));
    OK(zr_ipc_close(ptr));
    check_holdings(before);
    meet(sock);
    fault_join(pid);
    atomic_fetch_add(&fault_page->injected, 1);
}

/* ---- address space ---- */

static void limit_address_space(const void *arg)
{
    struct holdings before;
    struct rlimit   limit, low;
    unsigned long   pages;
    unsigned        refused = 0, k;
    ze_result_t     result;
    char            text[200] = "";
    FILE           *file;

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
    skip("a sanitizer needs the address space");
#endif
    OK(work(8, ZR_PAGE_LARGE, NULL));
    before = hold();
    CHECK(getrlimit(RLIMIT_AS, &limit) == 0);
    /* From too little for anything to enough. */
    for (k = 0; k <= 40; k++) {
        file = fopen("/proc/self/statm", "re");
        CHECK(file != NULL && fscanf(file, "%lu", &pages) == 1);
        fclose(file);
        low = (struct rlimit){pages * 4096 + k * ZR_MIB, limit.rlim_max};
        CHECK(setrlimit(RLIMIT_AS, &low) == 0);
        result = work(8, ZR_PAGE_LARGE, NULL);
        CHECK(setrlimit(RLIMIT_AS, &limit) == 0);
        if (result != ZE_RESULT_SUCCESS) {
            CHECK(result == ZE_RESULT_ERROR_OUT_OF_HOST_MEMORY ||
                  result == ZE_RESULT_ERROR_OUT_OF_DEVICE_MEMORY);
            CHECK(zr_last_error()[0] != '\0');
            snprintf(text, sizeof(text), "%s", zr_last_error());
            refused++;
        }
        check_holdings(before);
        atomic_fetch_add(&fault_page->injected, 1);
    }
    CHECK(refused > 0 && result == ZE_RESULT_SUCCESS);
    outcome("limits from 0 to 40 MiB above what is used: %u refused (%s), the others right", refused,
            text);
}

/* ---- mappings ---- */

/* The kernel counts areas: @a count of one page each, no two alike beside each other. */
static char *use_up_mappings(unsigned count, unsigned *made_p)
{
    size_t   size = (size_t)count * 4096;
    char    *base = mmap(NULL, size, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    unsigned i;

    CHECK(base != MAP_FAILED);
    for (i = 0; i + 1 < count; i += 2) {
        if (mprotect(base + (size_t)i * 4096, 4096, PROT_READ) != 0) {
            break;
        }
    }
    *made_p = i;
    return base;
}

static void limit_mappings(const void *arg)
{
    struct holdings before;
    unsigned        max = 0, used, refused = 0, k, i, made, maps;
    ze_result_t     result;
    char            text[200] = "", *filler;
    FILE           *file = fopen("/proc/sys/vm/max_map_count", "re");

    CHECK(file != NULL && fscanf(file, "%u", &max) == 1);
    fclose(file);
    if (max > 2000000) {
        skip("max_map_count is %u", max);
    }
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
    skip("a sanitizer needs mappings");
#endif
    OK(work(4, PAGE, NULL));
    before = hold();
    maps   = count_maps();
    filler = use_up_mappings(max + 100, &made);
    CHECK(made < max + 100);
    used = made;
    /* None left, then one more each time. */
    for (k = 0; k < 60; k++) {
        result = work(4, PAGE, NULL);
        if (result != ZE_RESULT_SUCCESS) {
            CHECK(zr_last_error()[0] != '\0');
            CHECK(result == ZE_RESULT_ERROR_OUT_OF_HOST_MEMORY ||
                  result == ZE_RESULT_ERROR_OUT_OF_DEVICE_MEMORY);
            snprintf(text, sizeof(text), "%s", zr_last_error());
            refused++;
        }
        atomic_fetch_add(&fault_page->injected, 1);
        for (i = 0; i < 1 && used >= 2; i++) {
            used -= 2;
            CHECK(mprotect(filler + (size_t)used * 4096, 4096, PROT_NONE) == 0);
        }
    }
    CHECK(munmap(filler, (size_t)(max + 100) * 4096) == 0);
    check_holdings(before);
    OK(work(4, PAGE, NULL));
    CHECK(refused > 0 && result == ZE_RESULT_SUCCESS);
    CHECK(count_maps() <= maps + 4); /* of the allocator */
    outcome("0 to 120 mappings left of %u: %u refused (%s), the others right", max, refused, text);
}

/* The kernel refuses the third mapping: the place is as it was, its access attribute too, and takes
 * the object when it is asked again. */
static void refused_mapping(const void *arg)
{
    const ze_memory_access_attribute_t none = ZE_MEMORY_ACCESS_ATTRIBUTE_NONE;
    ze_memory_access_attribute_t       access;
    struct zr_va_info                  info;
    struct zr_phys                    *phys;
    size_t                             size;
    char                              *base;
    unsigned                           i;

    setenv("ZERANGE_SOFT_FAULTS", "mmap@3=ENOMEM", 1);
    test_device();
    OK(zr_va_reserve(NULL, 4 * PAGE, (void **)&base));
    OK(zr_phys_create(test_device(), ZR_BACKING_SECTION, ZR_CACHE_CACHED, PAGE, 0, &phys));
    for (i = 0; i < 4 && zr_va_map(base + i * PAGE, PAGE, phys, 0, RW) == ZE_RESULT_SUCCESS; i++) {
    }
    CHECK(i > 0 && i < 4);
    outcome("mapping %u: %s", i + 1, zr_last_error());
    CHECK(!zr_va_query(base + i * PAGE, &info));
    OK(zr_va_get_access(base + i * PAGE, PAGE, &access, &size));
    CHECK(access == none);
    OK(zr_va_get_access(base, PAGE, &access, &size));
    CHECK(access == RW);
    OK(zr_va_map(base + i * PAGE, PAGE, phys, 0, RW));
    memset(base + i * PAGE, 0x3c, PAGE);
    CHECK(base[0] == 0x3c); /* one object */
    zr_phys_unref(phys);
    OK(zr_va_unreserve(base, 4 * PAGE));
    atomic_fetch_add(&fault_page->injected, 1);
}

/* ---- device memory ---- */

static void limit_device_memory(const void *arg)
{
    char            dir[] = "/tmp/zerange-limits-XXXXXX", path[64], line[200];
    const char     *profiles = getenv("ZERANGE_PROFILES");
    struct holdings before;
    void           *taken[64] = {NULL};
    unsigned        n = 0, again;
    ze_result_t     result = ZE_RESULT_SUCCESS;
    FILE           *from, *to;

    CHECK(mkdtemp(dir) != NULL);
    snprintf(line, sizeof(line), "%s/pvc.profile", profiles);
    snprintf(path, sizeof(path), "%s/small.profile", dir);
    from = fopen(line, "re");
    to   = fopen(path, "we");
    CHECK(from != NULL && to != NULL);
    while (fgets(line, sizeof(line), from) != NULL) {
        fputs(strncmp(line, "lmem", 4) == 0 ? "lmem = 64M\n" : line, to);
    }
    fclose(from);
    fclose(to);
    setenv("ZERANGE_SOFT", "small", 1);
    setenv("ZERANGE_PROFILES", dir, 1);
    before = hold();
    while (n < ZR_ARRAY_SIZE(taken) && result == ZE_RESULT_SUCCESS) {
        result = zr_usm_alloc(test_device(), ZE_MEMORY_TYPE_DEVICE, 8 * ZR_MIB, 0, n % 2 == 1,
                              &taken[n]);
        n += result == ZE_RESULT_SUCCESS;
    }
    unlink(path);
    rmdir(dir);
    CHECK(result == ZE_RESULT_ERROR_OUT_OF_DEVICE_MEMORY && n > 0 && n <= 8);
    outcome("64 MiB: %u allocations of 8 MiB, then: %s", n, zr_last_error());
    CHECK(work(4, ZR_PAGE_LARGE, NULL) == ZE_RESULT_ERROR_OUT_OF_DEVICE_MEMORY || n < 8);
    for (again = 0; again < 3; again++) {
        OK(zr_usm_free(taken[--n]));
        OK(zr_usm_alloc(test_device(), ZE_MEMORY_TYPE_DEVICE, 8 * ZR_MIB, 0, false, &taken[n]));
        n++;
    }
    while (n > 0) {
        OK(zr_usm_free(taken[--n]));
    }
    (void)zr_pool_drop();
    check_holdings(before);
    OK(work(16, ZR_PAGE_LARGE, NULL));
    check_holdings(before);
    atomic_fetch_add(&fault_page->injected, 1);
}

/* ---- arenas: what the other counts of fds leave out ---- */

static unsigned arenas(void)
{
    DIR           *dir = opendir("/proc/self/fd");
    struct dirent *entry;
    unsigned       count = 0;
    char           name[32];

    while ((entry = readdir(dir)) != NULL) {
        ssize_t n = readlinkat(dirfd(dir), entry->d_name, name, sizeof(name) - 1);

        name[n > 0 ? n : 0] = '\0';
        count += strncmp(name, "/memfd:i915-arena", 17) == 0;
    }
    closedir(dir);
    return count;
}

/* 40 MiB of small objects at a time, some of them shared, in sizes that change: as many arenas as
 * that needs, and after a thousand rounds no more. */
static void arena_rounds(const void *arg)
{
    struct zr_bo *bo[1280];
    unsigned      round, i, first = 0, most = 0, count;
    size_t        size;
    int           fd;

    test_device();
    for (round = 0; round < 1000; round++) {
        count = (round % 100 == 0) ? ZR_ARRAY_SIZE(bo) : 40;
        for (i = 0; i < count; i++) {
            size = 4096 * (1 + (i * 7 + round) % 15);
            OK(zr_bo_create(test_device(), size, ZR_PLACE_SYSTEM, ZR_CACHE_CACHED, &bo[i]));
            if (i % 20 == 19 && i < 200) {
                OK(zr_bo_export(bo[i], &fd));
                close(fd);
            }
        }
        most = ZR_MAX(most, arenas());
        for (i = 0; i < count; i++) {
            zr_bo_unref(bo[i]);
        }
        first = (round == 0) ? arenas() : first;
    }
    CHECK(most <= first + 1 && arenas() <= first + 1 && first <= 5);
    outcome("1000 rounds: %u arenas after the first, %u at the end, never more than %u", first,
            arenas(), most);
}

int main(void)
{
    fault_start();
    setenv("ZERANGE_DEVICE_CPU_ACCESS", "1", 1);
    fault_case("256 fds: allocating, exporting, opening", limit_fds, NULL, 120);
    fault_case("256 fds: an importer", limit_importer_fds, NULL, 120);
    fault_case("address space", limit_address_space, NULL, 120);
    fault_case("mappings (max_map_count)", limit_mappings, NULL, 120);
    fault_case("a mapping is refused", refused_mapping, NULL, 120);
    fault_case("arenas of the software device", arena_rounds, NULL, 120);
    fault_case("device memory", limit_device_memory, NULL, 120);
    return fault_end("limits");
}
