/* Processes that may not look into each other: a seccomp filter that answers EPERM to pidfd_getfd, as
 * containers have it, and what Yama leaves of a process that nobody may trace. */
/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef FORBID_H
#define FORBID_H

#include <errno.h>
#include <linux/capability.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

/* @return 0, or -1 where the kernel takes no filter */
static inline int forbid_call(unsigned number)
{
    struct sock_filter filter[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, number, 0, 1),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    };
    struct sock_fprog program = {sizeof(filter) / sizeof(filter[0]), filter};

    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0) {
        return -1;
    }
    return prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program);
}

/* Nobody may trace this process, nor may it trace others by privilege. */
static inline int forbid_tracing(void)
{
    struct __user_cap_header_struct header = {_LINUX_CAPABILITY_VERSION_3, 0};
    struct __user_cap_data_struct   data[2];

    if (syscall(SYS_capget, &header, data) != 0) {
        return -1;
    }
    data[0].effective &= ~(1u << CAP_SYS_PTRACE);
    data[0].permitted &= ~(1u << CAP_SYS_PTRACE);
    if (syscall(SYS_capset, &header, data) != 0) {
        return -1;
    }
    return prctl(PR_SET_DUMPABLE, 0, 0, 0, 0);
}

#endif
