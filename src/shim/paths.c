/* Which paths of a program are in the generated tree, and what they are shown as. */
/* SPDX-License-Identifier: BSD-3-Clause */
#include "shim.h"
#include "tree.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/sysmacros.h>
#include <unistd.h>

/* Below these there is nothing but what the tree has; below the others the real files go on. */
static const struct {
    const char *prefix;
    bool        owned;
} places[] = {
    {"/dev/dri", true},
    {"/sys/class/drm", true},
    {"/sys/class", false},
    {"/sys/bus/pci", true},
    {"/sys/bus/event_source/devices/i915", true},
    {"/sys/bus", false},
    {"/sys/dev/char/226:", true},
    {"/sys/dev", false},
    {"/sys/devices/pci0000:00", true},
    {"/sys/module/i915", true},
    {"/sys/module", false},
    {"/sys/kernel/debug/dri", true},
    {"/sys/kernel/debug/sync", true},
};

/* 0: not ours, 1: maybe, 2: ours alone */
static int zr_shim_place(const char *path)
{
    unsigned i;
    size_t   length;

    for (i = 0; i < sizeof(places) / sizeof(places[0]); i++) {
        length = strlen(places[i].prefix);
        if (strncmp(path, places[i].prefix, length) == 0 &&
            (path[length] == '\0' || path[length] == '/' || path[length - 1] == ':' ||
             strcmp(places[i].prefix, "/sys/bus/event_source/devices/i915") == 0)) {
            return places[i].owned ? 2 : 1;
        }
    }
    return 0;
}

const char *zr_shim_path_shown(const char *path)
{
    const char *tree = zr_shim_tree();
    size_t      length;

    if (tree == NULL || path == NULL) {
        return path;
    }
    length = strlen(tree);
    return strncmp(path, tree, length) == 0 && path[length] == '/' ? path + length : path;
}

/* The program's name of what is at @a path below @a dirfd. false: cannot be one of ours */
static bool zr_shim_absolute(int dirfd, const char *path, char shown[PATH_MAX], bool *in_tree)
{
    char    link[32], real[PATH_MAX];
    ssize_t n;

    *in_tree = false;
    if (*path == '/') {
        snprintf(shown, PATH_MAX, "%s", zr_shim_path_shown(path));
        *in_tree = strlen(shown) != strlen(path);
        return true;
    }
    if (dirfd == AT_FDCWD) {
        return false;
    }
    snprintf(link, sizeof(link), "/proc/self/fd/%d", dirfd);
    n = ZR_REAL(readlink)(link, real, sizeof(real) - 1);
    if (n <= 0 || real[0] != '/') {
        return false;
    }
    real[n] = '\0';
    shown[0] = '\0';
    *in_tree = zr_shim_path_shown(real) != real;
    if (strlen(real) + strlen(path) + 2 > PATH_MAX) {
        return false;
    }
    strcpy(shown, strcmp(real, "/") == 0 ? "" : zr_shim_path_shown(real));
    strcat(shown, "/");
    strcat(shown, path);
    return true;
}

static bool zr_shim_may_matter(int dirfd, const char *path)
{
    if (path == NULL || *path == '\0') {
        return false;
    }
    if (*path != '/') {
        return dirfd != AT_FDCWD;
    }
    return strncmp(path, "/sys", 4) == 0 || strncmp(path, "/dev/dri", 8) == 0;
}

const char *zr_shim_path(int dirfd, const char *path, char buffer[PATH_MAX])
{
    char        shown[PATH_MAX];
    const char *tree;
    int         place, saved = errno;
    bool        in_tree;

    if (!zr_shim_may_matter(dirfd, path) || !zr_shim_active() ||
        (*path == '/' && zr_shim_place(path) == 0)) {
        return path;
    }
    if (!zr_shim_absolute(dirfd, path, shown, &in_tree)) {
        goto same;
    }
    place = zr_shim_place(shown);
    tree  = place != 0 ? zr_shim_tree() : NULL;
    if (tree == NULL) {
        goto same;
    }
    if (in_tree && *path != '/' && ZR_REAL(faccessat)(dirfd, path, F_OK, AT_SYMLINK_NOFOLLOW) == 0) {
        goto same;
    }
    if (strlen(tree) + strlen(shown) >= PATH_MAX) {
        goto same;
    }
    strcpy(buffer, tree);
    strcat(buffer, shown);
    if (place == 1 && ZR_REAL(faccessat)(AT_FDCWD, buffer, F_OK, AT_SYMLINK_NOFOLLOW) != 0) {
        strcpy(buffer, shown);
    }
    errno = saved;
    return buffer;
same:
    errno = saved;
    return path;
}

bool zr_shim_path_is_control(int dirfd, const char *path, char buffer[PATH_MAX])
{
    const char *name = strrchr(path, '/');
    const char *tree;
    char        shown[PATH_MAX];
    bool        in_tree;

    name = name != NULL ? name + 1 : path;
    if ((strcmp(name, ZR_TREE_DROP_CACHES) != 0 && strcmp(name, ZR_TREE_WEDGED) != 0 &&
         strcmp(name, ZR_TREE_OBJECTS) != 0) ||
        !zr_shim_absolute(dirfd, path, shown, &in_tree)) {
        return false;
    }
    tree = zr_shim_tree();
    if (tree == NULL || strlen(tree) + strlen(shown) >= PATH_MAX) {
        return false;
    }
    strcpy(buffer, tree);
    strcat(buffer, shown);
    return true;
}

int zr_shim_path_minor(const char *path)
{
    char     real[PATH_MAX];
    unsigned n;
    int      used = 0;

    if (path == NULL || zr_shim_path_shown(path) == path) {
        return -1;
    }
    if (strcmp(zr_shim_path_shown(path), "/sys/kernel/debug/sync/sw_sync") == 0) {
        return ZR_SHIM_SW_SYNC;
    }
    if (strstr(path, "/dev/dri/") == NULL) {
        return -1;
    }
    if (strstr(path, "/by-path/") != NULL) {
        if (ZR_REAL(realpath)(path, real) == NULL) {
            return -1;
        }
        path = real;
    }
    path = strstr(path, "/dev/dri/") + strlen("/dev/dri/");
    if (sscanf(path, "card%u%n", &n, &used) == 1 && path[used] == '\0' && n < 64) {
        return (int)n;
    }
    if (sscanf(path, "renderD%u%n", &n, &used) == 1 && path[used] == '\0' && n >= ZR_SHIM_RENDER) {
        return (int)n;
    }
    return -1;
}

int zr_shim_path_fd(const char *path)
{
    int fd, pid, used = 0;

    if (path == NULL || (path[1] != 'p' && path[1] != 'd')) {
        return -1;
    }
    if ((sscanf(path, "/proc/self/fd/%d%n", &fd, &used) == 1 ||
         sscanf(path, "/dev/fd/%d%n", &fd, &used) == 1 ||
         (sscanf(path, "/proc/%d/fd/%d%n", &pid, &fd, &used) == 2 && pid == getpid())) &&
        used > 0 && path[used] == '\0') {
        return fd;
    }
    return -1;
}

void zr_shim_node_path(unsigned minor, char path[PATH_MAX])
{
    const char *tree = zr_shim_tree();

    if (minor == ZR_SHIM_SW_SYNC) {
        snprintf(path, PATH_MAX, "%s/sys/kernel/debug/sync/sw_sync", tree != NULL ? tree : "");
        return;
    }
    snprintf(path, PATH_MAX, "%s/dev/dri/%s%u", tree != NULL ? tree : "",
             minor >= ZR_SHIM_RENDER ? "renderD" : "card", minor);
}

void zr_shim_stat_node(struct stat *st, int minor)
{
    if (minor >= 0 && minor != ZR_SHIM_SW_SYNC) {
        st->st_mode = S_IFCHR | (minor >= ZR_SHIM_RENDER ? 0666 : 0660);
        st->st_rdev = makedev(226, minor);
        st->st_size = 0;
    }
}
