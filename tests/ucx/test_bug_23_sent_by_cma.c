/* openucx/ucx 3268: a device pointer was taken for host memory and sent with process_vm_readv: "Bad
 * address". Mapped before UCX started and after it, by the loader of the program and by one that was
 * opened with dlopen; told by the driver, by the loader's tracing layer, and with UCX's memory-type cache
 * off; addresses that were host memory before, and are after. */
/* SPDX-License-Identifier: BSD-3-Clause */
#include "zepair.h"

#include <dlfcn.h>
#include <sys/mman.h>

static const struct {
    const char *name, *hide;
    int         before, dlopened;
    const char *loader; /* preloaded: hides the tracing layer */
} cases[] = {
    {"mapped before, driver tells", "none", 1, 0, NULL},
    {"mapped after, driver tells", "none", 0, 0, NULL},
    {"mapped after through dlopen, driver tells", "none", 0, 1, NULL},
    {"mapped before, traced", "functions", 1, 0, NULL},
    {"mapped after, traced", "functions", 0, 0, NULL},
    {"mapped after through dlopen, traced", "functions", 0, 1, NULL},
    {"mapped before, nobody tells", "functions", 1, 0, "untraced.so"},
    {"mapped after, nobody tells", "functions", 0, 0, "untraced.so"},
};
#define CASES (sizeof(cases) / sizeof(cases[0]))

static unsigned current;

/* One mapping by functions that no link-time hook sees. */
static void map_dlopened(struct zebuf *buf)
{
    void *library = dlopen("libze_loader.so.1", RTLD_NOW | RTLD_LOCAL);
    ze_physical_mem_desc_t desc = {.stype = ZE_STRUCTURE_TYPE_PHYSICAL_MEM_DESC,
                                   .flags = ZE_PHYSICAL_MEM_FLAG_ALLOCATE_ON_DEVICE,
                                   .size  = MIB};
    __typeof__(&zeVirtualMemMap)     map     = dlsym(library, "zeVirtualMemMap");
    __typeof__(&zeVirtualMemReserve) reserve = dlsym(library, "zeVirtualMemReserve");
    void                            *ptr;

    if (map == NULL || reserve == NULL) {
        FAIL("dlopen: %s", dlerror());
    }
    zebuf_need_staging(2 * MIB);
    ZE(reserve(zebuf_ze.context, NULL, 2 * MIB, &ptr));
    *buf = (struct zebuf){.ptr = ptr, .size = 2 * MIB, .objects = 2, .object_size = MIB};
    ZE(zePhysicalMemCreate(zebuf_ze.context, zebuf_ze.device, &desc, &buf->phys[0]));
    ZE(zePhysicalMemCreate(zebuf_ze.context, zebuf_ze.device, &desc, &buf->phys[1]));
    ZE(map(zebuf_ze.context, buf->ptr, MIB, buf->phys[0], 0, ZE_MEMORY_ACCESS_ATTRIBUTE_READWRITE));
    ZE(map(zebuf_ze.context, buf->ptr + MIB, MIB, buf->phys[1], 0,
           ZE_MEMORY_ACCESS_ATTRIBUTE_READWRITE));
}

static void make(struct zebuf *buf)
{
    if (cases[current].dlopened) {
        map_dlopened(buf);
    } else {
        zebuf_map(buf, 2, MIB, NULL);
    }
}

/* The addresses of a buffer that was unmapped, as host memory: messages of it are checked too. */
static void host_message(void *at, unsigned seed)
{
    ucp_request_param_t param = {0};
    unsigned char      *p;
    size_t              k;

    p = mmap(at, 2 * MIB, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (p == MAP_FAILED) {
        FAIL("mmap");
    }
    memset(p, (int)seed + pair.rank, 2 * MIB);
    pair_meet();
    if (pair.rank == 0) {
        UCS(pair_wait(ucp_tag_send_nbx(pair.ep, p, 2 * MIB, 9, &param)));
    } else {
        UCS(pair_wait(ucp_tag_recv_nbx(pair.worker, p, 2 * MIB, 9, ~0ull, &param)));
        for (k = 0; k < 2 * MIB; k++) {
            if (p[k] != (unsigned char)seed) {
                FAIL("%s: host memory at such an address: byte %zu is wrong", cases[current].name,
                     k);
            }
        }
    }
    pair_meet();
    munmap(p, 2 * MIB);
}

static void body(void)
{
    struct zebuf buf;
    void        *was;
    unsigned     k;

    zp_log_here();
    zp_device();
    if (cases[current].before) {
        make(&buf);
    }
    pair_start_ucx();
    pair_connect(UCP_ERR_HANDLING_MODE_NONE);
    if (!cases[current].before) {
        make(&buf);
    }
    for (k = 0; k < 3; k++) {
        zp_message(k & 1, &buf, 0, 0, 2 * MIB, 4 * k, cases[current].name);
        zp_message(k & 1, &buf, 5, 6, 900, 4 * k + 50, cases[current].name);
        was = buf.ptr;
        zebuf_unmap(&buf);
        host_message(was, 20 + k);
        zebuf_map(&buf, 2, MIB, was);
    }
    zebuf_unmap(&buf);
    pair_stop_ucx();
}

int main(int argc, char **argv)
{
    const char *builddir = getenv("builddir"), *preload = getenv("LD_PRELOAD");
    char        text[4096];
    unsigned    off;
    int         result = 0, ret;

    pair_enter(body, &current);
    setenv("UCX_RNDV_THRESH", "64k", 1);
    for (current = 0; current < CASES; current++) {
        setenv("ZERANGE_HIDE", cases[current].hide, 1);
        if (cases[current].loader != NULL) {
            snprintf(text, sizeof(text), "%s/.libs/%s%s%s", builddir != NULL ? builddir : ".",
                     cases[current].loader, preload != NULL ? ":" : "",
                     preload != NULL ? preload : "");
            setenv("LD_PRELOAD", text, 1);
        }
        zp_log_start("warn");
        ret = pair_run(argv[0], current, 60);
        off = zp_log_count("cache is turned off", NULL);
        if (ret == 0 && off != (cases[current].loader != NULL ? 2u : 0u)) {
            fprintf(stderr, "%s: %u processes say that the memory type cache is off\n",
                    cases[current].name, off);
            ret = 1;
        }
        zp_log_end(ret == 1);
        printf("%s: %s\n", ret == 0 ? "ok" : "not ok", cases[current].name);
        result = ret != 0 ? ret : result;
    }
    return result;
}
