/* What the caches count: slices of an extent hit on both sides; UCX's virtual file system and
 * zerange-info show the same numbers. */
/* SPDX-License-Identifier: BSD-3-Clause */
#include "zepair.h"

/* Of libucs, without an installed header. */
typedef void (*vfs_list_t)(const char *name, void *arg);
ucs_status_t ucs_vfs_path_list_dir(const char *path, vfs_list_t list, void *arg);
ucs_status_t ucs_vfs_path_read_file(const char *path, void *buffer);
struct text { /* ucs_string_buffer_t, and room */
    char  *data;
    size_t length, capacity;
    char   rest[64];
};

struct names {
    unsigned count;
    char     names[64][64];
};

/* Called with UCX's lock held: only notes. */
static void note_name(const char *name, void *arg)
{
    struct names *list = arg;

    if (list->count < 64) {
        snprintf(list->names[list->count++], 64, "%s", name);
    }
}

/* The path below @a path that ends in @a wanted; found is set then. */
static char found[512];

static void search(const char *path, const char *wanted, unsigned depth)
{
    struct names *list = calloc(1, sizeof(*list));
    char          below[512];
    size_t        length;
    unsigned      k;

    if (ucs_vfs_path_list_dir(*path == '\0' ? "/" : path, note_name, list) == UCS_OK) {
        for (k = 0; k < list->count && found[0] == '\0'; k++) {
            length = (size_t)snprintf(below, sizeof(below), "%s/%s", path, list->names[k]);
            if (length > strlen(wanted) &&
                strcmp(below + length - strlen(wanted), wanted) == 0) {
                strcpy(found, below);
            } else if (depth < 8) {
                search(below, wanted, depth + 1);
            }
        }
    }
    free(list);
}

/* The counter at the end of a path of the file system of this process. */
static unsigned long counter(const char *name)
{
    struct text   text;
    unsigned long value;

    found[0] = '\0';
    search("", name, 0);
    memset(&text, 0, sizeof(text));
    if (found[0] == '\0' || ucs_vfs_path_read_file(found, &text) != UCS_OK || text.data == NULL ||
        sscanf(text.data, "%lu", &value) != 1) {
        FAIL("UCX's file system has no %s (%s)", name, found);
    }
    return value;
}

/* The line of this process and the two behind it. */
static void expect_info(unsigned long exports, unsigned long imports)
{
    const char   *builddir = getenv("builddir");
    char          command[4096], line[1024];
    unsigned long hits, regions, got[2] = {0, 0};
    int           mine = 0;
    FILE         *from;

    snprintf(command, sizeof(command), "%s/zerange-info --processes",
             builddir != NULL ? builddir : ".");
    from = popen(command, "r");
    while (from != NULL && fgets(line, sizeof(line), from) != NULL) {
        if (strstr(line, "process  ") != NULL) {
            mine = strtol(strstr(line, "process  ") + 8, NULL, 10) == getpid();
        } else if (mine && (strstr(line, "exports") != NULL || strstr(line, "imports") != NULL) &&
                   sscanf(line, " %*s %lu regions, %*u MiB; %lu hits", &regions, &hits) == 2) {
            got[strstr(line, "imports") != NULL] = hits + 1;
        }
    }
    if (from == NULL || pclose(from) != 0 || got[0] != exports + 1 || got[1] != imports + 1) {
        FAIL("zerange-info says %ld and %ld hits, UCX %lu and %lu", (long)got[0] - 1,
             (long)got[1] - 1, exports, imports);
    }
}

static void body(void)
{
    unsigned long exports, imports;
    struct zebuf  buf;
    unsigned      k;

    zp_start();
    zebuf_map(&buf, 8, MIB, NULL);
    for (k = 0; k < 8; k++) {
        zp_message(0, &buf, k * MIB, k * MIB, MIB, 3 * k, "slice");
    }
    exports = counter("exports/hits");
    imports = counter("imports/hits");
    /* One of the two sides opened the other's extent, once, and found it seven times. */
    if (pair.rank == 1 && (counter("imports/misses") != 1 || imports < 7 ||
                           counter("imports/bytes") != 8 * MIB || counter("imports/open_ns") == 0)) {
        FAIL("imports: %lu misses, %lu hits, %lu bytes", counter("imports/misses"), imports,
             counter("imports/bytes"));
    }
    if (pair.rank == 0 && counter("exports/misses") != 1) {
        FAIL("eight slices were exported %lu times", counter("exports/misses"));
    }
    expect_info(exports, imports);
    pair_meet();
    zebuf_unmap(&buf);
    if (pair.rank == 0 && (counter("exports/invalidations") == 0 || counter("exports/regions") != 0)) {
        FAIL("an unmap is not counted");
    }
    zp_expect_no_imports("unmapped");
    pair_stop_ucx();
}

int main(int argc, char **argv)
{
    unsigned which;

    pair_enter(body, &which);
    setenv("UCX_RNDV_SCHEME", "get_zcopy", 1);
    setenv("UCX_RNDV_THRESH", "0", 1);
    return pair_run(argv[0], 0, 60);
}
