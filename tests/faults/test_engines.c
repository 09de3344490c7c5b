/* Kernel calls and engines that fail, at every call of a small workload: each ioctl refused with
 * EIO, ENOSPC, ENOMEM and EINTR, mappings refused, and submissions that hang, are banned, reset or
 * lose the device. The workload must end with an error that says what failed, or with the right
 * bytes; the same workload after it must be right. */
/* SPDX-License-Identifier: BSD-3-Clause */
#include "faults.h"

#include <zerange/zerange.h>

#define SIZE  ((size_t)2 << 20)
#define SMALL 4096
#define OWN   ((size_t)1 << 20)
#define WAIT  (20 * SECOND)

/* What one process reports. */
struct report {
    bool     refused;       /* some call of the first pass failed */
    unsigned result;        /* of the first that did */
    char     call[48];
    char     why[200];      /* its description */
    char     wrong[200];    /* not empty: this must not be */
    unsigned pass, refused_pass;
    bool     at_init;
};

static struct report *report;

static void wrong(const char *format, ...) __attribute__((format(printf, 1, 2)));
static void wrong(const char *format, ...)
{
    va_list args;

    va_start(args, format);
    if (report->wrong[0] == '\0') {
        vsnprintf(report->wrong, sizeof(report->wrong), format, args);
    }
    va_end(args);
}

static ze_driver_handle_t driver;
static ze_device_handle_t device;

/* ---- the workload: everything it made goes at its end, whatever failed ---- */

struct work {
    ze_context_handle_t      context;
    ze_command_list_handle_t list;
    ze_event_pool_handle_t   pool;
    ze_event_handle_t        event;
    char                    *dev, *in, *out, *own, *range;
    ze_physical_mem_handle_t object[2];
    size_t                   page;
    bool                     failed;
};

static bool done(struct work *w, ze_result_t result, const char *call)
{
    const char *why = "";

    if (result == ZE_RESULT_SUCCESS) {
        return true;
    }
    if (!w->failed && !report->refused) {
        if (driver != NULL) {
            (void)zeDriverGetLastErrorDescription(driver, &why);
        }
        report->refused = true;
        report->result  = result;
        snprintf(report->call, sizeof(report->call), "%.*s", (int)strcspn(call, "("), call);
        snprintf(report->why, sizeof(report->why), "%s", why);
        if (result == ZE_RESULT_NOT_READY) {
            wrong("%s: no end in %llu s", report->call, (unsigned long long)(WAIT / SECOND));
        }
        report->refused_pass = report->pass;
    } else if (report->refused && report->refused_pass != report->pass) {
        (void)zeDriverGetLastErrorDescription(driver, &why);
        wrong("again: %.*s: 0x%x: %s", (int)strcspn(call, "("), call, result, why);
    }
    w->failed = true;
    return false;
}

#define DO(call) done(w, call, #call)

static bool work_start(struct work *w)
{
    ze_context_desc_t          context_desc = {.stype = ZE_STRUCTURE_TYPE_CONTEXT_DESC};
    ze_command_queue_desc_t    queue_desc   = {.stype = ZE_STRUCTURE_TYPE_COMMAND_QUEUE_DESC,
                                               .mode  = ZE_COMMAND_QUEUE_MODE_ASYNCHRONOUS};
    ze_event_pool_desc_t       pool_desc    = {.stype = ZE_STRUCTURE_TYPE_EVENT_POOL_DESC,
                                               .flags = ZE_EVENT_POOL_FLAG_HOST_VISIBLE,
                                               .count = 1};
    ze_event_desc_t            event_desc   = {.stype = ZE_STRUCTURE_TYPE_EVENT_DESC};
    ze_device_mem_alloc_desc_t dev_desc  = {.stype = ZE_STRUCTURE_TYPE_DEVICE_MEM_ALLOC_DESC};
    ze_host_mem_alloc_desc_t   host_desc = {.stype = ZE_STRUCTURE_TYPE_HOST_MEM_ALLOC_DESC};

    return DO(zeContextCreate(driver, &context_desc, &w->context)) &&
           DO(zeCommandListCreateImmediate(w->context, device, &queue_desc, &w->list)) &&
           DO(zeEventPoolCreate(w->context, &pool_desc, 1, &device, &w->pool)) &&
           DO(zeEventCreate(w->pool, &event_desc, &w->event)) &&
           DO(zeMemAllocDevice(w->context, &dev_desc, SIZE, 64, device, (void **)&w->dev)) &&
           DO(zeMemAllocHost(w->context, &host_desc, SIZE, 64, (void **)&w->in)) &&
           DO(zeMemAllocHost(w->context, &host_desc, SIZE, 64, (void **)&w->out));
}

static bool work_map(struct work *w)
{
    ze_physical_mem_desc_t desc = {.stype = ZE_STRUCTURE_TYPE_PHYSICAL_MEM_DESC,
                                   .flags = ZE_PHYSICAL_MEM_FLAG_ALLOCATE_ON_DEVICE};
    unsigned               i;

    if (!DO(zeVirtualMemQueryPageSize(w->context, device, 1, &w->page)) ||
        !DO(zeVirtualMemReserve(w->context, NULL, 2 * w->page, (void **)&w->range))) {
        return false;
    }
    desc.size = w->page;
    for (i = 0; i < 2; i++) {
        if (!DO(zePhysicalMemCreate(w->context, device, &desc, &w->object[i])) ||
            !DO(zeVirtualMemMap(w->context, w->range + i * w->page, w->page, w->object[i], 0,
                                ZE_MEMORY_ACCESS_ATTRIBUTE_READWRITE))) {
            return false;
        }
    }
    return true;
}

static bool same(struct work *w, const char *what, const char *a, const char *b, size_t size)
{
    size_t i;

    if (memcmp(a, b, size) == 0) {
        return true;
    }
    for (i = 0; a[i] == b[i]; i++) {
    }
    wrong("pass %u: %s: byte %zu is 0x%02x instead of 0x%02x", report->pass, what, i,
          (unsigned char)a[i], (unsigned char)b[i]);
    w->failed = true;
    return false;
}

/* Nothing but polling: that the work is lost must be found by that too. */
static ze_result_t zr_poll(ze_event_handle_t event)
{
    uint64_t    start = zr_time_ns();
    ze_result_t result;

    do {
        result = zeEventQueryStatus(event);
    } while (result == ZE_RESULT_NOT_READY && zr_time_ns() - start < WAIT);
    return result;
}

static bool work_copy(struct work *w)
{
    ze_ipc_mem_handle_t handle;
    size_t              i;

    for (i = 0; i < SIZE; i++) {
        w->in[i] = (char)(i * 2654435761u >> 13);
    }
    memset(w->out, 0, SIZE);
    memset(w->own, 0x5c, OWN);
    w->own[OWN - 1] = 1;
    return DO(zeCommandListAppendMemoryCopy(w->list, w->dev, w->in, SIZE, w->event, 0, NULL)) &&
           DO(zr_poll(w->event)) &&
           DO(zeCommandListAppendMemoryCopy(w->list, w->out, w->dev, SIZE, NULL, 0, NULL)) &&
           DO(zeCommandListHostSynchronize(w->list, WAIT)) &&
           same(w, "long copy", w->out, w->in, SIZE) &&
           DO(zeCommandListAppendMemoryCopy(w->list, w->dev + 100, w->own, SMALL, NULL, 0,
                                            NULL)) &&
           DO(zeCommandListAppendMemoryCopy(w->list, w->range + w->page - SMALL / 2,
                                            w->dev + 100, SMALL, NULL, 0, NULL)) &&
           DO(zeCommandListAppendMemoryCopy(w->list, w->out + 7, w->range + w->page - SMALL / 2,
                                            SMALL, NULL, 0, NULL)) &&
           DO(zeCommandListHostSynchronize(w->list, WAIT)) &&
           same(w, "short copies", w->out + 7, w->own, SMALL) &&
           DO(zeCommandListAppendMemoryCopy(w->list, w->dev, w->own, OWN, NULL, 0, NULL)) &&
           DO(zeCommandListAppendMemoryCopy(w->list, w->out, w->dev, OWN, NULL, 0, NULL)) &&
           DO(zeCommandListHostSynchronize(w->list, WAIT)) &&
           same(w, "from the application's pages", w->out, w->own, OWN) &&
           DO(zeMemGetIpcHandle(w->context, w->dev, &handle)) &&
           DO(zeMemPutIpcHandle(w->context, handle));
}

/* Results are of no interest here, only that it ends. */
static void work_end(struct work *w)
{
    unsigned i;

    if (w->list != NULL) {
        (void)zeCommandListDestroy(w->list);
    }
    for (i = 0; i < 2; i++) {
        if (w->object[i] != NULL) {
            (void)zeVirtualMemUnmap(w->context, w->range + i * w->page, w->page);
            (void)zePhysicalMemDestroy(w->context, w->object[i]);
        }
    }
    if (w->range != NULL) {
        (void)zeVirtualMemFree(w->context, w->range, 2 * w->page);
    }
    for (i = 0; i < 3; i++) {
        char *p = (i == 0) ? w->dev : (i == 1) ? w->in : w->out;

        if (p != NULL) {
            (void)zeMemFree(w->context, p);
        }
    }
    if (w->event != NULL) {
        (void)zeEventDestroy(w->event);
    }
    if (w->pool != NULL) {
        (void)zeEventPoolDestroy(w->pool);
    }
    if (w->context != NULL) {
        (void)zeContextDestroy(w->context);
    }
    free(w->own);
}

static bool work_run(unsigned pass)
{
    struct work w  = {.own = malloc(OWN)};
    bool        ok = true;

    report->pass = pass;
    ok           = work_start(&w) && work_map(&w) && work_copy(&w);
    work_end(&w);
    return ok;
}

static void process(void)
{
    struct work w = {0};
    uint32_t    n = 1;

    report->pass = 1;
    if (!done(&w, zeInit(0), "zeInit") || !done(&w, zeDriverGet(&n, &driver), "zeDriverGet")) {
        report->at_init = true;
        return; /* the process has no device then, and no second try */
    }
    n = 1;
    if (!done(&w, zeDeviceGet(driver, &n, &device), "zeDeviceGet")) {
        report->at_init = true;
        return;
    }
    (void)work_run(1);
    if (!work_run(2)) {
        (void)work_run(3);
    }
}

/* ---- one process per fault ---- */

static char log[1 << 16]; /* of the last process */

/* @return how many faults happened */
static unsigned inject(const char *rule, const char *mbps)
{
    int         fd = memfd_create("log", MFD_CLOEXEC), status = -1;
    unsigned    faults = 0;
    const char *at;
    pid_t       pid;
    ssize_t     n;

    memset(report, 0, sizeof(*report));
    fflush(NULL);
    pid = fork();
    if (pid == 0) {
        alarm(60);
        dup2(fd, STDERR_FILENO);
        setenv("ZERANGE_SOFT_FAULTS", rule, 1);
        setenv("ZERANGE_LOG", "info", 1);
        setenv("ZERANGE_SOFT_ENGINE_MBPS", mbps, 1);
        process();
        exit(0); /* as an application does: its end must be clean too */
    }
    waitpid(pid, &status, 0);
    n = pread(fd, log, sizeof(log) - 1, 0);
    close(fd);
    log[n > 0 ? n : 0] = '\0';
    if (status != 0) {
        wrong("the process ended with %s %d (pass %u)", WIFSIGNALED(status) ? "signal" : "status",
              WIFSIGNALED(status) ? WTERMSIG(status) : WEXITSTATUS(status), report->pass);
    }
    for (at = log; (at = strstr(at, "fault: call")) != NULL; at++) {
        faults++;
    }
    return faults;
}

/* Before there is a driver the log says why. */
static void init_reason(void)
{
    const char *line = strstr(log, "no device can be used: ");

    line = (line != NULL) ? line : strstr(log, "error: init: ");
    if (line != NULL) {
        snprintf(report->why, sizeof(report->why), "%.*s", (int)strcspn(line, "\n"), line);
    }
}

struct sort {
    const char *what;    /* "EIO", "hang" */
    bool        hidden;  /* the driver must get over it by itself */
    bool        lost;    /* the device does not come back */
};

/* Calls of which there are none unless the engines are slow, or one fails. */
struct subject {
    const char *name, *mbps, *first;
};

static void walk(const struct subject *s, const struct sort *sort)
{
    const char *subject = s->name;
    char        rule[120], name[100], example[260] = "";
    unsigned    k, refused = 0, init = 0, fired;
    bool        submits = s->first != NULL || strcmp(subject, "submit") == 0 || strcmp(subject, "GEM_EXECBUFFER2") == 0;

    fault_reset();
    for (k = 1; k < 200; k++) {
        snprintf(rule, sizeof(rule), "%s%s@%u=%s", s->first != NULL ? s->first : "", subject, k,
                 sort->what);
        fired = inject(rule, s->mbps != NULL ? s->mbps : "0");
        if (fired <= (s->first != NULL)) {
            break;
        }
        atomic_fetch_add(&fault_page->injected, 1);
        refused += report->refused;
        init += report->at_init;
        if (sort->lost && report->refused &&
            strncmp(report->wrong, "again: ", strlen("again: ")) == 0) {
            report->wrong[0] = '\0';
        }
        if (report->at_init) {
            init_reason();
        }
        if (report->refused && report->why[0] == '\0') {
            wrong("%s: 0x%x without a description", report->call, report->result);
        }
        if (sort->hidden && report->refused && s->first == NULL) {
            wrong("%s: 0x%x: %s", report->call, report->result, report->why);
        }
        if (submits && report->refused && strstr(report->why, "copy of ") == NULL) {
            wrong("%s: 0x%x: does not name the copy: %s", report->call, report->result,
                  report->why);
        }
        if (report->wrong[0] != '\0') {
            break;
        }
        if (report->refused) {
            snprintf(example, sizeof(example), "; %s: %s", report->call, report->why);
        }
        if (report->refused_pass > 1) { /* each call of the first pass has been met */
            k++;
            break;
        }
    }
    snprintf(name, sizeof(name), "%s %s at each call", subject, sort->what);
    if (report->wrong[0] != '\0') {
        outcome("call %u: %s", k, report->wrong);
    } else if (k == 1) {
        outcome("the workload makes no such call");
        atomic_store(&fault_page->skipped, true);
    } else {
        outcome("%u calls, %u refused (%u at the start), %u got over%s", k - 1, refused, init,
                k - 1 - refused, example);
    }
    fault_line(name, report->wrong[0] != '\0');
}

int main(void)
{
    static const struct sort errors[] = {
        {"EIO"}, {"ENOSPC"}, {"ENOMEM"}, {"EINTR", .hidden = true}};
    static const struct sort befalls[] = {
        {"hang"}, {"ban"}, {"reset", .hidden = true}, {"wedge", .lost = true}};
    static const struct subject subjects[] = {
        {"VERSION"}, {"GETPARAM"}, {"QUERY"}, {"GEM_VM_CREATE"}, {"GEM_VM_DESTROY"},
        {"GEM_CREATE_EXT"}, {"GEM_CLOSE"}, {"GEM_MMAP_GTT"}, {"GEM_USERPTR"},
        {"GEM_CONTEXT_CREATE"}, {"GEM_CONTEXT_GETPARAM"}, {"GEM_CONTEXT_SETPARAM"},
        {"GEM_CONTEXT_DESTROY"}, {"SYNCOBJ_CREATE"}, {"SYNCOBJ_DESTROY"},
        {"SYNCOBJ_WAIT", .mbps = "1000"}, {"GET_RESET_STATS", .first = "submit@3=hang,"},
        {"PRIME_HANDLE_TO_FD"}, {"GEM_EXECBUFFER2"}, {"mmap"},
    };
    static const struct subject submissions = {"submit"};
    unsigned i, k;

    fault_start();
    report = mmap(NULL, sizeof(*report), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (inject("submit@1000000=hang", "0") || report->wrong[0] != '\0' || report->refused) {
        printf("without a fault: %s: 0x%x %s%s\n", report->call, report->result, report->why,
               report->wrong);
        return 1;
    }
    for (i = 0; i < ZR_ARRAY_SIZE(subjects); i++) {
        for (k = 0; k < ZR_ARRAY_SIZE(errors); k++) {
            if (strcmp(subjects[i].name, "mmap") != 0 || !errors[k].hidden) {
                walk(&subjects[i], &errors[k]);
            }
        }
    }
    for (k = 0; k < ZR_ARRAY_SIZE(befalls); k++) {
        walk(&submissions, &befalls[k]);
    }
    return fault_end("engines");
}
