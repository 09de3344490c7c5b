/* The parts of zerange-info. Each prints its own section. */
/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef ZR_INFO_H
#define ZR_INFO_H

/** A section's title. */
void info_title(const char *title);
/** "  name    value" */
void info_line(const char *name, const char *format, ...) __attribute__((format(printf, 2, 3)));

/** Drivers of the loader, their devices, memories, queue groups and extensions.
 * @return 0, 1: there is no device */
int info_level_zero(void);
/** The transport: its file, the UCX of this machine, whether they fit, and why not. */
void info_ucx(void);
/** Counters of the processes of this user that use the transport. @return how many answered */
unsigned info_processes(void);
/** Variables, what is allowed, and what is set. */
void info_environment(void);

#endif
