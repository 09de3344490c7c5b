/* Device profiles: key = value files that say which GPU and which kernel is imitated. */
/* SPDX-License-Identifier: BSD-3-Clause */
#include "soft.h"

#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct zr_soft_parse {
    const char             *path;
    unsigned                line;
    struct zr_soft_profile *profile;
    unsigned                logical[ZR_SOFT_MAX_ENGINES];
    unsigned                num_logical;
    unsigned                count[8]; /* engines by class */
};

struct zr_soft_key {
    const char *name;
    /* @return NULL or what is allowed */
    const char *(*set)(struct zr_soft_parse *parse, const char *value);
    bool        required;
};

static bool zr_soft_number(const char *text, uint64_t *value_p)
{
    char    *end;
    uint64_t value;
    unsigned shift = 0;

    errno = 0;
    value = strtoull(text, &end, 0);
    if (errno != 0 || end == text || *text == '-') {
        return false;
    }
    switch (*end) {
    case 'T':
        shift += 10; /* fall through */
    case 'G':
        shift += 10; /* fall through */
    case 'M':
        shift += 10; /* fall through */
    case 'K':
        shift += 10;
        end++;
    }
    if (*end != '\0' || value > (UINT64_MAX >> shift)) {
        return false;
    }
    *value_p = value << shift;
    return true;
}

static const char *zr_soft_set_u32(const char *value, uint32_t *field)
{
    uint64_t number;

    if (!zr_soft_number(value, &number) || number > UINT32_MAX) {
        return "a 32-bit number";
    }
    *field = number;
    return NULL;
}

static const char *zr_soft_set_bytes(const char *value, uint64_t *field)
{
    if (!zr_soft_number(value, field) || *field % (64 * ZR_KIB) != 0) {
        return "bytes (suffix K, M, G, T), a multiple of 64K";
    }
    return NULL;
}

static const char *zr_soft_set_choice(const char *value, const char *off, const char *on,
                                      bool *field, const char *allowed)
{
    if (strcmp(value, off) != 0 && strcmp(value, on) != 0) {
        return allowed;
    }
    *field = strcmp(value, on) == 0;
    return NULL;
}

static const char *zr_soft_set_device_id(struct zr_soft_parse *p, const char *value)
{
    return zr_soft_set_u32(value, &p->profile->device_id);
}

static const char *zr_soft_set_revision(struct zr_soft_parse *p, const char *value)
{
    return zr_soft_set_u32(value, &p->profile->revision);
}

static const char *zr_soft_set_heartbeat(struct zr_soft_parse *p, const char *value)
{
    return zr_soft_set_u32(value, &p->profile->heartbeat_ms);
}

static const char *zr_soft_set_generation(struct zr_soft_parse *p, const char *value)
{
    static const char *const names[] = {"gen12", "gen125", "pvc", "mtl"};
    unsigned                 i;

    for (i = 0; i < ZR_ARRAY_SIZE(names); i++) {
        if (strcmp(value, names[i]) == 0) {
            p->profile->gen = (enum zr_soft_gen)i;
            return NULL;
        }
    }
    return "gen12, gen125, pvc, mtl";
}

static const char *zr_soft_set_rules(struct zr_soft_parse *p, const char *value)
{
    return zr_soft_set_choice(value, "upstream", "backports", &p->profile->backports,
                              "upstream, backports");
}

static const char *zr_soft_set_submission(struct zr_soft_parse *p, const char *value)
{
    return zr_soft_set_choice(value, "execlists", "guc", &p->profile->guc, "execlists, guc");
}

static const char *zr_soft_set_llc(struct zr_soft_parse *p, const char *value)
{
    return zr_soft_set_choice(value, "no", "yes", &p->profile->llc, "no, yes");
}

static const char *zr_soft_set_lmem(struct zr_soft_parse *p, const char *value)
{
    return zr_soft_set_bytes(value, &p->profile->lmem);
}

static const char *zr_soft_set_smem(struct zr_soft_parse *p, const char *value)
{
    return zr_soft_set_bytes(value, &p->profile->smem);
}

static const char *zr_soft_set_gtt_bits(struct zr_soft_parse *p, const char *value)
{
    uint64_t number;

    if (!zr_soft_number(value, &number) || number < 32 || number > 57) {
        return "32 to 57";
    }
    p->profile->gtt_bits = number;
    return NULL;
}

static const char *zr_soft_set_timestamp(struct zr_soft_parse *p, const char *value)
{
    if (!zr_soft_number(value, &p->profile->timestamp_hz) || p->profile->timestamp_hz == 0 ||
        p->profile->timestamp_hz > INT32_MAX) {
        return "ticks per second";
    }
    return NULL;
}

static const char *zr_soft_set_count(struct zr_soft_parse *p, unsigned class, const char *value)
{
    uint64_t number;

    if (!zr_soft_number(value, &number) || number > 9) {
        return "0 to 9";
    }
    p->count[class] = number;
    return NULL;
}

static const char *zr_soft_set_copy(struct zr_soft_parse *p, const char *value)
{
    return zr_soft_set_count(p, I915_ENGINE_CLASS_COPY, value);
}

static const char *zr_soft_set_render(struct zr_soft_parse *p, const char *value)
{
    return zr_soft_set_count(p, I915_ENGINE_CLASS_RENDER, value);
}

static const char *zr_soft_set_compute(struct zr_soft_parse *p, const char *value)
{
    return zr_soft_set_count(p, I915_ENGINE_CLASS_COMPUTE, value);
}

static const char *zr_soft_set_video(struct zr_soft_parse *p, const char *value)
{
    return zr_soft_set_count(p, I915_ENGINE_CLASS_VIDEO, value);
}

static const char *zr_soft_set_enhance(struct zr_soft_parse *p, const char *value)
{
    return zr_soft_set_count(p, I915_ENGINE_CLASS_VIDEO_ENHANCE, value);
}

static const char *zr_soft_set_visible(struct zr_soft_parse *p, const char *value)
{
    return zr_soft_set_bytes(value, &p->profile->visible);
}

/* "1 32 16": slices, subslices of a slice, execution units of a subslice. */
static const char *zr_soft_set_topology(struct zr_soft_parse *p, const char *value)
{
    struct zr_soft_profile *profile = p->profile;
    char                    more;

    if (sscanf(value, "%u %u %u %c", &profile->slices, &profile->subslices_on, &profile->eus,
               &more) != 3 ||
        profile->slices != 1 || profile->subslices_on == 0 || profile->subslices_on > 64 ||
        profile->eus == 0 || profile->eus > 16) {
        return "slices (1), subslices (1 to 64), execution units of each (1 to 16)";
    }
    return NULL;
}

static const char *zr_soft_set_rates(struct zr_soft_parse *p, const char *value)
{
    unsigned long rate;
    unsigned      i;
    char         *end;

    for (i = 0; i < ZR_ARRAY_SIZE(p->profile->copy_rate); i++) {
        rate = strtoul(value, &end, 10);
        if (end == value || rate == 0 || rate > 1000) {
            break;
        }
        p->profile->copy_rate[i] = rate;
        value                    = end + strspn(end, " \t");
        if (*value == '\0') {
            return NULL;
        }
    }
    return "per cent (1 to 1000) of the rate model's, one per copy engine, separated by blanks";
}

static const char *zr_soft_set_logical(struct zr_soft_parse *p, const char *value)
{
    const char *s = value;
    char       *end;

    p->num_logical = 0;
    for (;;) {
        unsigned long number = strtoul(s, &end, 10);

        if (end == s || number > 8 || p->num_logical == 9) {
            return "logical ids 0 to 8, one per copy engine, separated by blanks";
        }
        p->logical[p->num_logical++] = number;
        s                            = end + strspn(end, " \t");
        if (*s == '\0') {
            return NULL;
        }
    }
}

static const struct zr_soft_key keys[] = {
    {"device_id", zr_soft_set_device_id, true},
    {"revision", zr_soft_set_revision, false},
    {"generation", zr_soft_set_generation, true},
    {"rules", zr_soft_set_rules, true},
    {"submission", zr_soft_set_submission, true},
    {"llc", zr_soft_set_llc, false},
    {"lmem", zr_soft_set_lmem, false},
    {"smem", zr_soft_set_smem, true},
    {"gtt_bits", zr_soft_set_gtt_bits, true},
    {"timestamp_hz", zr_soft_set_timestamp, true},
    {"heartbeat_ms", zr_soft_set_heartbeat, false},
    {"copy_engines", zr_soft_set_copy, true},
    {"copy_logical", zr_soft_set_logical, false},
    {"render_engines", zr_soft_set_render, false},
    {"compute_engines", zr_soft_set_compute, false},
    {"video_engines", zr_soft_set_video, false},
    {"video_enhance_engines", zr_soft_set_enhance, false},
    {"lmem_cpu_visible", zr_soft_set_visible, false},
    {"topology", zr_soft_set_topology, false},
    {"copy_rates", zr_soft_set_rates, false},
};

static int zr_soft_bad(const struct zr_soft_parse *p, const char *what, const char *detail)
{
    zr_error("%s:%u: %s%s", p->path, p->line, what, detail);
    zr_fail(ZE_RESULT_ERROR_INVALID_ARGUMENT, "%s:%u: %s%s", p->path, p->line, what, detail);
    return -EINVAL;
}

static char *zr_soft_trim(char *s)
{
    char *end;

    s += strspn(s, " \t");
    end = s + strlen(s);
    while (end > s && isspace((unsigned char)end[-1])) {
        end--;
    }
    *end = '\0';
    return s;
}

static int zr_soft_parse_line(struct zr_soft_parse *p, char *line, uint32_t *seen)
{
    const char *allowed;
    char       *key, *value, *equal;
    unsigned    i;
    char        text[128];

    line[strcspn(line, "#\n")] = '\0';
    key                        = zr_soft_trim(line);
    if (*key == '\0') {
        return 0;
    }
    equal = strchr(key, '=');
    if (equal == NULL) {
        return zr_soft_bad(p, "not of the form key = value: ", key);
    }
    *equal = '\0';
    value  = zr_soft_trim(equal + 1);
    key    = zr_soft_trim(key);
    for (i = 0; i < ZR_ARRAY_SIZE(keys) && strcmp(key, keys[i].name) != 0; i++) {
    }
    if (i == ZR_ARRAY_SIZE(keys)) {
        return zr_soft_bad(p, "unknown key: ", key);
    }
    if (*seen & (1u << i)) {
        return zr_soft_bad(p, "given twice: ", key);
    }
    *seen |= 1u << i;
    allowed = keys[i].set(p, value);
    if (allowed != NULL) {
        snprintf(text, sizeof(text), "%s = %s, allowed: %s", key, value, allowed);
        return zr_soft_bad(p, "not valid: ", text);
    }
    return 0;
}

/* Engines in the order of class and instance; logical ids of copy engines as given. */
static int zr_soft_finish(struct zr_soft_parse *p, uint32_t seen)
{
    struct zr_soft_profile *profile = p->profile;
    unsigned                i, class, instance, used = 0;

    for (i = 0; i < ZR_ARRAY_SIZE(keys); i++) {
        if (keys[i].required && !(seen & (1u << i))) {
            return zr_soft_bad(p, "missing key: ", keys[i].name);
        }
    }
    if (p->num_logical != 0 && p->num_logical != p->count[I915_ENGINE_CLASS_COPY]) {
        return zr_soft_bad(p, "copy_logical does not have one id per copy engine", "");
    }
    for (i = 0; i < p->num_logical; i++) {
        if (used & (1u << p->logical[i])) {
            return zr_soft_bad(p, "copy_logical has an id twice", "");
        }
        used |= 1u << p->logical[i];
    }
    if (profile->visible == 0) {
        profile->visible = profile->lmem;
    }
    if (profile->visible > profile->lmem) {
        return zr_soft_bad(p, "lmem_cpu_visible is more than lmem", "");
    }
    for (class = 0; class < ZR_ARRAY_SIZE(p->count); class++) {
        for (instance = 0; instance < p->count[class]; instance++) {
            struct zr_soft_engine_id *id = &profile->engine[profile->num_engines++];

            id->class    = class;
            id->instance = instance;
            id->logical  = (class == I915_ENGINE_CLASS_COPY && p->num_logical != 0)
                               ? p->logical[instance]
                               : instance;
        }
    }
    return 0;
}

static int zr_soft_is_profile(const struct dirent *entry)
{
    const char *dot = strrchr(entry->d_name, '.');

    return dot != NULL && strcmp(dot, ".profile") == 0;
}

/* Refuse a name: says which there are. */
static int zr_soft_no_profile(const char *dir, const char *name, int ret)
{
    struct dirent **entries = NULL;
    char            names[256] = "";
    int             i, n = scandir(dir, &entries, zr_soft_is_profile, alphasort);
    size_t          used = 0;

    for (i = 0; i < n; i++) {
        if (used < sizeof(names)) {
            used += (size_t)snprintf(names + used, sizeof(names) - used, "%s%.*s",
                                     (i > 0) ? ", " : "",
                                     (int)(strlen(entries[i]->d_name) - strlen(".profile")),
                                     entries[i]->d_name);
        }
        free(entries[i]);
    }
    free(entries);
    zr_error("ZERANGE_SOFT=%s is not valid, allowed: %s (the profiles in %s: %s)", name,
             (n > 0) ? names : "none", dir, (n < 0) ? strerror(errno) : strerror(-ret));
    zr_fail(ZE_RESULT_ERROR_INVALID_ARGUMENT, "ZERANGE_SOFT=%s: no such profile in %s", name, dir);
    return ret;
}

int zr_soft_profile_load(const char *dir, const char *name, struct zr_soft_profile *profile)
{
    char                 path[512], line[256];
    struct zr_soft_parse parse = {.path = path, .profile = profile};
    uint32_t             seen  = 0;
    FILE                *f;
    unsigned             i;
    int                  ret = 0;

    memset(profile, 0, sizeof(*profile));
    profile->llc          = true;
    profile->heartbeat_ms = 2500;
    profile->slices = profile->subslices_on = 1;
    profile->eus                            = 16;
    for (i = 0; i < ZR_ARRAY_SIZE(profile->copy_rate); i++) {
        profile->copy_rate[i] = 100;
    }
    snprintf(profile->name, sizeof(profile->name), "%s", name);
    snprintf(path, sizeof(path), "%s/%s.profile", dir, name);
    if (*name == '\0' || strchr(name, '/') != NULL || strlen(name) >= sizeof(profile->name)) {
        return zr_soft_no_profile(dir, name, -EINVAL);
    }
    f = fopen(path, "re");
    if (f == NULL) {
        return zr_soft_no_profile(dir, name, -errno);
    }
    while (ret == 0 && fgets(line, sizeof(line), f) != NULL) {
        parse.line++;
        ret = zr_soft_parse_line(&parse, line, &seen);
    }
    fclose(f);
    return ret == 0 ? zr_soft_finish(&parse, seen) : ret;
}
