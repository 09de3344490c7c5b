/* What a server and a real fd are for: a child shares the file it inherited, a new process opens one
 * that was sent, a killed client leaves its buffer to who imported it, ioctls know bad pointers, and
 * the end of a file is not late. */
/* SPDX-License-Identifier: BSD-3-Clause */
#include <drm.h>
#include <errno.h>
#include <fcntl.h>
#include <i915_drm.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#define REQUIRE(what)                                                                         \
    do {                                                                                      \
        if (!(what)) {                                                                        \
            fprintf(stderr, "%s:%d: not so: %s (%s)\n", __FILE__, __LINE__, #what,            \
                    strerror(errno));                                                         \
            exit(1);                                                                          \
        }                                                                                     \
    } while (0)

static uint32_t create(int drm)
{
    struct drm_i915_gem_create args = {.size = 65536};

    REQUIRE(ioctl(drm, DRM_IOCTL_I915_GEM_CREATE, &args) == 0);
    return args.handle;
}

static uint32_t *map(int drm, uint32_t handle)
{
    struct drm_i915_gem_mmap_offset args = {.handle = handle, .flags = I915_MMAP_OFFSET_FIXED};
    void                           *at;

    REQUIRE(ioctl(drm, DRM_IOCTL_I915_GEM_MMAP_OFFSET, &args) == 0);
    at = mmap(NULL, 65536, PROT_READ | PROT_WRITE, MAP_SHARED, drm, (off_t)args.offset);
    REQUIRE(at != MAP_FAILED);
    return at;
}

static void wait_for(pid_t child)
{
    int status;

    REQUIRE(waitpid(child, &status, 0) == child && status == 0);
}

/* The handle of the parent is the child's: one file. */
static void inherited(int drm)
{
    uint32_t handle = create(drm);
    uint32_t *cpu   = map(drm, handle);
    pid_t     child = fork();

    if (child == 0) {
        map(drm, handle)[5] = 0x1234;
        exit(0);
    }
    wait_for(child);
    REQUIRE(cpu[5] == 0x1234);
}

/* After exec the fd still is the file. */
static void executed(int drm, const char *self)
{
    char  fd[16], handle[16];
    pid_t child;
    int   kept = dup(drm);

    snprintf(fd, sizeof(fd), "%d", kept);
    snprintf(handle, sizeof(handle), "%u", create(drm));
    child = fork();
    if (child == 0) {
        execl(self, self, fd, handle, (char *)NULL);
        _exit(127);
    }
    wait_for(child);
    close(kept);
}

/* Its exporter is killed; the buffer stays what it was. */
static void killed(void)
{
    int      sockets[2], fd, drm;
    uint32_t handle;
    pid_t    child;
    struct drm_prime_handle prime = {.flags = DRM_CLOEXEC | DRM_RDWR};
    char     space[CMSG_SPACE(sizeof(int))] = {0}, byte = 0;
    struct iovec   iov = {&byte, 1};
    struct msghdr  msg = {.msg_iov = &iov, .msg_iovlen = 1, .msg_control = space,
                          .msg_controllen = sizeof(space)};

    REQUIRE(socketpair(AF_UNIX, SOCK_STREAM, 0, sockets) == 0);
    child = fork();
    if (child == 0) {
        drm             = open("/dev/dri/renderD128", O_RDWR);
        handle          = create(drm);
        map(drm, handle)[7] = 0xabcd;
        prime.handle    = handle;
        REQUIRE(ioctl(drm, DRM_IOCTL_PRIME_HANDLE_TO_FD, &prime) == 0);
        CMSG_FIRSTHDR(&msg)->cmsg_level = SOL_SOCKET;
        CMSG_FIRSTHDR(&msg)->cmsg_type  = SCM_RIGHTS;
        CMSG_FIRSTHDR(&msg)->cmsg_len   = CMSG_LEN(sizeof(int));
        memcpy(CMSG_DATA(CMSG_FIRSTHDR(&msg)), &prime.fd, sizeof(int));
        REQUIRE(sendmsg(sockets[1], &msg, 0) == 1);
        pause();
        exit(1);
    }
    REQUIRE(recvmsg(sockets[0], &msg, 0) == 1);
    memcpy(&fd, CMSG_DATA(CMSG_FIRSTHDR(&msg)), sizeof(fd));
    kill(child, SIGKILL);
    waitpid(child, NULL, 0);
    drm      = open("/dev/dri/renderD128", O_RDWR);
    prime.fd = fd;
    REQUIRE(ioctl(drm, DRM_IOCTL_PRIME_FD_TO_HANDLE, &prime) == 0);
    REQUIRE(map(drm, prime.handle)[7] == 0xabcd);
    close(drm);
    close(fd);
}

/* ---- a client killed in mid-copy ---- */

#define COPY_BYTES (4u << 20)

struct copier {
    int       drm;
    uint32_t  context, object[3]; /* source, destination, batch; of device memory */
    uint32_t *cpu[3];
};

static void region_create(int drm, uint32_t size, uint32_t *handle_p, uint32_t **cpu_p)
{
    struct drm_i915_gem_memory_class_instance     region = {I915_MEMORY_CLASS_DEVICE, 0};
    struct drm_i915_gem_create_ext_memory_regions ext    = {
        .base        = {.name = I915_GEM_CREATE_EXT_MEMORY_REGIONS},
        .num_regions = 1,
        .regions     = (uintptr_t)&region,
    };
    struct drm_i915_gem_create_ext  args = {.size = size, .extensions = (uintptr_t)&ext};
    struct drm_i915_gem_mmap_offset map  = {.flags = I915_MMAP_OFFSET_FIXED};

    REQUIRE(ioctl(drm, DRM_IOCTL_I915_GEM_CREATE_EXT, &args) == 0);
    map.handle = *handle_p = args.handle;
    REQUIRE(ioctl(drm, DRM_IOCTL_I915_GEM_MMAP_OFFSET, &map) == 0);
    *cpu_p = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED, drm, (off_t)map.offset);
    REQUIRE(*cpu_p != MAP_FAILED);
}

/* A context whose work ends with its client, on the copy engine, and what it copies. */
static void copier_open(struct copier *c, uint32_t seed)
{
    I915_DEFINE_CONTEXT_PARAM_ENGINES(map, 1) = {.engines = {{I915_ENGINE_CLASS_COPY, 0}}};
    struct drm_i915_gem_context_create_ext_setparam engines = {
        .base  = {.name = I915_CONTEXT_CREATE_EXT_SETPARAM},
        .param = {.param = I915_CONTEXT_PARAM_ENGINES,
                  .size  = sizeof(map),
                  .value = (uintptr_t)&map},
    };
    struct drm_i915_gem_context_create_ext_setparam persistence = {
        .base  = {.name           = I915_CONTEXT_CREATE_EXT_SETPARAM,
                  .next_extension = (uintptr_t)&engines},
        .param = {.param = I915_CONTEXT_PARAM_PERSISTENCE},
    };
    struct drm_i915_gem_context_create_ext args = {
        .flags      = I915_CONTEXT_CREATE_FLAGS_USE_EXTENSIONS,
        .extensions = (uintptr_t)&persistence,
    };
    unsigned i;

    c->drm = open("/dev/dri/renderD128", O_RDWR | O_CLOEXEC);
    REQUIRE(c->drm >= 0);
    REQUIRE(ioctl(c->drm, DRM_IOCTL_I915_GEM_CONTEXT_CREATE_EXT, &args) == 0);
    c->context = args.ctx_id;
    for (i = 0; i < 3; i++) {
        region_create(c->drm, i < 2 ? COPY_BYTES : 65536, &c->object[i], &c->cpu[i]);
    }
    for (i = 0; i < COPY_BYTES / 4; i++) {
        c->cpu[0][i] = seed + i * 2654435761u;
    }
}

static uint64_t copier_address(unsigned i)
{
    return UINT64_C(0x100000000) + i * UINT64_C(0x10000000);
}

/* Copy once, or again and again. */
static void copier_start(struct copier *c, int again)
{
    uint64_t to = copier_address(1), from = copier_address(0), loop = copier_address(2);
    uint32_t batch[] = {
        0x50800008, 3u << 24 | 4096, 0, COPY_BYTES / 4096 << 16 | 1024, (uint32_t)to,
        (uint32_t)(to >> 32), 0, 4096, (uint32_t)from, (uint32_t)(from >> 32),
        again ? 0x18800101 : 0x05000000, (uint32_t)loop, (uint32_t)(loop >> 32), 0};
    struct drm_i915_gem_exec_object2 list[3]  = {0};
    struct drm_i915_gem_execbuffer2  args     = {
        .buffers_ptr  = (uintptr_t)list,
        .buffer_count = 3,
        .flags        = I915_EXEC_NO_RELOC,
        .rsvd1        = c->context,
    };
    unsigned i;

    memcpy(c->cpu[2], batch, sizeof(batch));
    for (i = 0; i < 3; i++) {
        list[i].handle = c->object[i];
        list[i].offset = copier_address(i);
        list[i].flags  = EXEC_OBJECT_PINNED | EXEC_OBJECT_SUPPORTS_48B_ADDRESS |
                        (i == 1 ? EXEC_OBJECT_WRITE : 0);
    }
    REQUIRE(ioctl(c->drm, DRM_IOCTL_I915_GEM_EXECBUFFER2, &args) == 0);
}

static uint64_t memory_left(int drm)
{
    uint64_t                              space[64] = {0};
    struct drm_i915_query_memory_regions *regions   = (void *)space;
    struct drm_i915_query_item item = {.query_id = DRM_I915_QUERY_MEMORY_REGIONS,
                                       .length   = sizeof(space),
                                       .data_ptr = (uintptr_t)space};
    struct drm_i915_query      args = {.num_items = 1, .items_ptr = (uintptr_t)&item};

    REQUIRE(ioctl(drm, DRM_IOCTL_I915_QUERY, &args) == 0 && regions->num_regions == 2);
    return regions->regions[1].unallocated_size;
}

/* Its engine is taken from it and its memory comes back; who waited for the engine goes on. */
static void killed_in_mid_copy(void)
{
    struct drm_i915_gem_wait wait = {.timeout_ns = 0};
    struct copier            mine, own;
    int                      ready[2];
    uint64_t                 before;
    uint32_t                 large, *cpu;
    pid_t                    child;
    char                     byte;

    REQUIRE(pipe(ready) == 0);
    copier_open(&mine, 1);
    before = memory_left(mine.drm);
    child  = fork();
    if (child == 0) {
        copier_open(&own, 2);
        region_create(own.drm, 64u << 20, &large, &cpu);
        copier_start(&own, 1);
        while (memcmp(own.cpu[0], own.cpu[1], COPY_BYTES) != 0) {
        }
        own.cpu[1][0] = 0; /* it copies on */
        while (*(volatile uint32_t *)own.cpu[1] != own.cpu[0][0]) {
        }
        REQUIRE(write(ready[1], "r", 1) == 1);
        pause();
        exit(1);
    }
    REQUIRE(read(ready[0], &byte, 1) == 1);
    REQUIRE(memory_left(mine.drm) <= before - (64u << 20));
    copier_start(&mine, 0);
    wait.bo_handle = mine.object[1];
    errno          = 0;
    REQUIRE(ioctl(mine.drm, DRM_IOCTL_I915_GEM_WAIT, &wait) == -1 && errno == ETIME);
    kill(child, SIGKILL);
    waitpid(child, NULL, 0);
    wait.timeout_ns = -1;
    REQUIRE(ioctl(mine.drm, DRM_IOCTL_I915_GEM_WAIT, &wait) == 0);
    REQUIRE(memcmp(mine.cpu[0], mine.cpu[1], COPY_BYTES) == 0);
    while (memory_left(mine.drm) != before) {
    }
    copier_start(&mine, 0); /* the context is not the other's: it goes on */
    REQUIRE(ioctl(mine.drm, DRM_IOCTL_I915_GEM_WAIT, &wait) == 0);
    close(mine.drm);
    close(ready[0]);
    close(ready[1]);
}

static void pointers(int drm)
{
    struct drm_i915_getparam param = {.param = I915_PARAM_CHIPSET_ID, .value = (int *)8};

    errno = 0;
    REQUIRE(ioctl(drm, DRM_IOCTL_I915_GETPARAM, &param) == -1 && errno == EFAULT);
    errno = 0;
    REQUIRE(ioctl(drm, DRM_IOCTL_I915_GETPARAM, (void *)16) == -1 && errno == EFAULT);
}

/* ---- the end of a file ---- */

static unsigned objects(void)
{
    FILE    *file = fopen("/sys/kernel/debug/dri/0/i915_gem_objects", "r");
    unsigned count;

    REQUIRE(file != NULL && fscanf(file, "%u", &count) == 1);
    fclose(file);
    return count;
}

/* What a file had is gone when its last close returns, or when its process was waited for. */
static void ended(void)
{
    unsigned before = objects(), i;
    pid_t    child;
    int      drm;

    for (i = 0; i < 300; i++) {
        child = i % 3 == 0 ? fork() : -1;
        if (child <= 0) {
            drm = open("/dev/dri/renderD128", O_RDWR | O_CLOEXEC);
            REQUIRE(drm >= 0);
            create(drm);
            create(drm);
            if (child == 0) {
                _exit(0);
            }
            close(drm);
        } else {
            wait_for(child);
        }
        if (objects() != before) {
            fprintf(stderr, "round %u: %u objects, %u before\n", i, objects(), before);
            exit(1);
        }
    }
}

int main(int argc, char **argv)
{
    int drm;

    if (argc == 3) { /* the program that executed() runs */
        REQUIRE(map(atoi(argv[1]), (uint32_t)atoi(argv[2])) != NULL);
        return 0;
    }
    drm = open("/dev/dri/renderD128", O_RDWR | O_CLOEXEC);
    REQUIRE(drm >= 0);
    inherited(drm);
    executed(drm, argv[0]);
    killed();
    killed_in_mid_copy();
    pointers(drm);
    ended();
    return 0;
}
