/* Faults on demand: ZERANGE_SOFT_FAULTS=RULE[,RULE...], so that every error path of a client can be
 * walked. A rule counts the calls it is about, over all files of one device in one process:
 *
 *   NAME@WHEN=ERRNO   that ioctl is refused (NAME as in i915_drm.h or drm.h, without DRM_IOCTL_ and
 *                     I915_: GEM_CREATE_EXT, EXECBUFFER2, PRIME_FD_TO_HANDLE; or its number, 0x69;
 *                     ERRNO: ENOMEM, or a number)
 *   mmap@WHEN=ERRNO   mapping an object
 *   submit@WHEN=WHAT  what befalls an execbuf that was accepted: hang (a batch of it hangs), ban
 *                     (and its context is banned for it), reset (all engines are reset, whatever
 *                     runs is an innocent victim), wedge (the device is lost: EIO from then on)
 *
 * WHEN: 3 the third call, 3-5 the third to the fifth, 3+ all from the third, * all. */
/* SPDX-License-Identifier: BSD-3-Clause */
#include "soft.h"

#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const struct {
    const char *name;
    int         value;
} errors[] = {
    {"EPERM", EPERM},   {"ENOENT", ENOENT}, {"EINTR", EINTR},           {"EIO", EIO},
    {"ENXIO", ENXIO},   {"E2BIG", E2BIG},   {"EBADF", EBADF},           {"EAGAIN", EAGAIN},
    {"ENOMEM", ENOMEM}, {"EACCES", EACCES}, {"EFAULT", EFAULT},         {"EBUSY", EBUSY},
    {"EEXIST", EEXIST}, {"ENODEV", ENODEV}, {"EINVAL", EINVAL},         {"ENFILE", ENFILE},
    {"EMFILE", EMFILE}, {"ENOTTY", ENOTTY}, {"ENOSPC", ENOSPC},         {"ETIME", ETIME},
    {"EDEADLK", EDEADLK}, {"EWOULDBLOCK", EWOULDBLOCK}, {"EOPNOTSUPP", EOPNOTSUPP},
};

static const char *const befalls[] = {
    [ZR_SOFT_FAULT_HANG]  = "hang",
    [ZR_SOFT_FAULT_BAN]   = "ban",
    [ZR_SOFT_FAULT_RESET] = "reset",
    [ZR_SOFT_FAULT_WEDGE] = "wedge",
};

static int zr_soft_fault_subject(const char *name, unsigned *subject_p)
{
    char *end;

    if (strcmp(name, "mmap") == 0) {
        *subject_p = ZR_SOFT_SUBJECT_MMAP;
        return 0;
    }
    if (strcmp(name, "submit") == 0) {
        *subject_p = ZR_SOFT_SUBJECT_SUBMIT;
        return 0;
    }
    if (isdigit((unsigned char)*name)) {
        *subject_p = strtoul(name, &end, 0);
        return *end == '\0' && *subject_p < 256 ? 0 : -EINVAL;
    }
    return zr_soft_ioctl_find(name, subject_p);
}

static int zr_soft_fault_when(char *when, struct zr_soft_fault *fault)
{
    char *end;

    fault->last = UINT64_MAX;
    if (strcmp(when, "*") == 0) {
        fault->first = 1;
        return 0;
    }
    if (!isdigit((unsigned char)*when)) {
        return -EINVAL;
    }
    fault->first = strtoull(when, &end, 10);
    if (*end == '\0') {
        fault->last = fault->first;
    } else if (*end == '-' && isdigit((unsigned char)end[1])) {
        fault->last = strtoull(end + 1, &end, 10);
    } else if (*end == '+') {
        end++;
    }
    return *end == '\0' && fault->first >= 1 && fault->last >= fault->first ? 0 : -EINVAL;
}

static int zr_soft_fault_what(const char *what, struct zr_soft_fault *fault)
{
    unsigned i;
    char    *end;

    if (fault->subject == ZR_SOFT_SUBJECT_SUBMIT) {
        for (i = 1; i < ZR_ARRAY_SIZE(befalls); i++) {
            if (strcmp(what, befalls[i]) == 0) {
                fault->what = i;
                return 0;
            }
        }
        return -EINVAL;
    }
    for (i = 0; i < ZR_ARRAY_SIZE(errors); i++) {
        if (strcmp(what, errors[i].name) == 0) {
            fault->error = -errors[i].value;
            return 0;
        }
    }
    fault->error = -(int)strtol(what, &end, 10);
    return isdigit((unsigned char)*what) && *end == '\0' && fault->error < 0 ? 0 : -EINVAL;
}

static int zr_soft_fault_parse(char *rule, struct zr_soft_fault *fault)
{
    char *when = strchr(rule, '@'), *what = when != NULL ? strchr(when, '=') : NULL;

    if (what == NULL) {
        return -EINVAL;
    }
    *when++ = '\0';
    *what++ = '\0';
    if (zr_soft_fault_subject(rule, &fault->subject) != 0 ||
        zr_soft_fault_when(when, fault) != 0) {
        return -EINVAL;
    }
    return zr_soft_fault_what(what, fault);
}

int zr_soft_faults_parse(struct zr_soft_dev *dev, const char *rules)
{
    struct zr_soft_fault *grown;
    char                  rule[64];
    size_t                length;

    while (rules != NULL && *rules != '\0') {
        length = strcspn(rules, ",");
        grown  = realloc(dev->fault, (dev->num_faults + 1) * sizeof(*grown));
        if (grown == NULL) {
            return -ENOMEM;
        }
        dev->fault             = grown;
        grown[dev->num_faults] = (struct zr_soft_fault){0};
        snprintf(rule, sizeof(rule), "%.*s", (int)length, rules);
        if (length >= sizeof(rule) || zr_soft_fault_parse(rule, &grown[dev->num_faults]) != 0) {
            zr_error("ZERANGE_SOFT_FAULTS: rule \"%.*s\" is not valid, allowed: IOCTL@WHEN=ERRNO, "
                     "mmap@WHEN=ERRNO, submit@WHEN=hang|ban|reset|wedge; WHEN: N, N-M, N+ or *",
                     (int)length, rules);
            zr_fail(ZE_RESULT_ERROR_INVALID_ARGUMENT, "ZERANGE_SOFT_FAULTS: rule \"%.*s\"",
                    (int)length, rules);
            return -EINVAL;
        }
        dev->num_faults++;
        rules += length + (rules[length] == ',');
    }
    return 0;
}

static const struct zr_soft_fault *zr_soft_fault_next(struct zr_soft_dev *dev, unsigned subject)
{
    const struct zr_soft_fault *fault;
    uint64_t                    call;
    unsigned                    i;

    if (dev->num_faults == 0) {
        return NULL;
    }
    call = ++dev->calls[subject];
    for (i = 0; i < dev->num_faults; i++) {
        fault = &dev->fault[i];
        if (fault->subject == subject && call >= fault->first && call <= fault->last) {
            zr_info("soft %s: fault: call %lu of %u", dev->profile.name, (unsigned long)call,
                    subject);
            return fault;
        }
    }
    return NULL;
}

int zr_soft_fault_call(struct zr_soft_dev *dev, unsigned subject)
{
    const struct zr_soft_fault *fault = zr_soft_fault_next(dev, subject);

    return fault != NULL ? fault->error : 0;
}

enum zr_soft_fault_what zr_soft_fault_submit(struct zr_soft_dev *dev)
{
    const struct zr_soft_fault *fault = zr_soft_fault_next(dev, ZR_SOFT_SUBJECT_SUBMIT);

    return fault != NULL ? fault->what : ZR_SOFT_FAULT_NONE;
}
