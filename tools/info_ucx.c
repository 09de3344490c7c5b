/* zerange-info: does the transport register with the UCX that is installed? Tried in a child, with
 * UCX's own loader and with the plugin loaded first, as older versions need it. */
/* SPDX-License-Identifier: BSD-3-Clause */
#include <config.h>

#include "info.h"

#ifdef HAVE_UCX
#include <dlfcn.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <uct/api/uct.h>
#include <unistd.h>

#define PLUGIN "libuct_zerange.so.0"

/* The first file of that name in UCX_PLUGIN_PATH, else where it was installed to. */
static int find_plugin(char *path, size_t size)
{
    const char *list = getenv("UCX_PLUGIN_PATH"), *end;

    while (list != NULL && *list != '\0') {
        end = strchrnul(list, ':');
        snprintf(path, size, "%.*s/" PLUGIN, (int)(end - list), list);
        if (access(path, R_OK) == 0) {
            return 1;
        }
        list = *end == ':' ? end + 1 : end;
    }
    snprintf(path, size, "%s/" PLUGIN, ZR_UCXPLUGINDIR);
    return access(path, R_OK) == 0;
}

/* In the child: exit status 0: registers, 1: does not, 2: no UCX. */
static int try_it(const char *preload)
{
    __typeof__(&uct_query_components) query;
    __typeof__(&uct_component_query)  ask;
    uct_component_h                  *components;
    uct_component_attr_t              attr = {.field_mask = UCT_COMPONENT_ATTR_FIELD_NAME};
    unsigned                          count = 0, k;
    void                             *uct   = dlopen("libuct.so.0", RTLD_NOW | RTLD_GLOBAL);

    if (uct == NULL) {
        return 2;
    }
    if (preload != NULL && dlopen(preload, RTLD_NOW | RTLD_GLOBAL) == NULL) {
        printf("zerange: %s\n", dlerror());
        return 1;
    }
    query = (__typeof__(query))dlsym(uct, "uct_query_components");
    ask   = (__typeof__(ask))dlsym(uct, "uct_component_query");
    if (query == NULL || ask == NULL || query(&components, &count) != UCS_OK) {
        return 2;
    }
    for (k = 0; k < count; k++) {
        if (ask(components[k], &attr) == UCS_OK && strcmp(attr.name, "ze_range") == 0) {
            return 0;
        }
    }
    return 1;
}

/* @return the child's exit status, -1: it crashed; what it said of us goes to @a said. */
static int in_a_child(const char *preload, char *said, size_t size)
{
    int    fds[2], status;
    char   line[1024];
    size_t used = 0;
    FILE  *from;
    pid_t  pid;

    said[0] = '\0';
    fflush(stdout);
    if (pipe2(fds, O_CLOEXEC) != 0) {
        return -1;
    }
    pid = fork();
    if (pid == 0) {
        dup2(fds[1], STDOUT_FILENO);
        dup2(fds[1], STDERR_FILENO);
        status = try_it(preload);
        fflush(stdout);
        _exit(status);
    }
    close(fds[1]);
    from = fdopen(fds[0], "r");
    while (from != NULL && fgets(line, sizeof(line), from) != NULL) {
        if (strstr(line, "zerange") != NULL || strstr(line, "ze_range") != NULL) {
            used += used < size ? (size_t)snprintf(said + used, size - used, "%s", line) : 0;
        }
    }
    if (from != NULL) {
        fclose(from);
    }
    if (pid < 0 || waitpid(pid, &status, 0) != pid || !WIFEXITED(status)) {
        return -1;
    }
    return WEXITSTATUS(status);
}

static void version(void)
{
    void (*get)(unsigned *, unsigned *, unsigned *);
    void    *ucp = dlopen("libucp.so.0", RTLD_LAZY | RTLD_LOCAL);
    unsigned major, minor, release;

    get = ucp != NULL ? (__typeof__(get))dlsym(ucp, "ucp_get_version") : NULL;
    if (get == NULL) {
        info_line("UCX", "not found: %s", dlerror());
        return;
    }
    get(&major, &minor, &release);
    info_line("UCX", "%u.%u.%u", major, minor, release);
}

static void tell(int status, const char *how, const char *said)
{
    switch (status) {
    case 0: info_line("registers", "yes, %s", how); break;
    case 2: info_line("registers", "no: UCX cannot be loaded"); break;
    case -1: info_line("registers", "no: the try crashed"); break;
    default:
        info_line("registers", "no%s", said[0] != '\0' ? ":" : "");
        break;
    }
    fputs(said, stdout);
}

void info_ucx(void)
{
    char path[4096], said[4096];
    int  found = find_plugin(path, sizeof(path)), status;

    info_title("UCX transport");
    if (found) {
        info_line("plugin", "%s, version %s", path, PACKAGE_VERSION);
    } else {
        info_line("plugin", "none in UCX_PLUGIN_PATH, and not %s", path);
    }
    status = in_a_child(NULL, said, sizeof(said));
    if (status == 1 && found) {
        char loaded[4096];

        if (in_a_child(path, loaded, sizeof(loaded)) == 0) {
            tell(0, "if loaded first: set LD_PRELOAD to it", loaded);
        } else {
            tell(1, "", loaded[0] != '\0' ? loaded : said);
        }
    } else {
        const char *preload = getenv("LD_PRELOAD");

        tell(status,
             preload != NULL && strstr(preload, "libuct_zerange") != NULL ? "loaded by LD_PRELOAD"
                                                                          : "found by UCX itself",
             said);
    }
    version();
}
#else
void info_ucx(void)
{
    info_title("UCX transport");
    info_line("plugin", "not built (configured with --disable-ucx)");
}
#endif
