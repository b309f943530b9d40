/* SPDX-License-Identifier: BSD-2-Clause */
/* Attaching the programs of injected probes. */
#ifndef RSN_INJECTED_H
#define RSN_INJECTED_H

#include <stddef.h>
#include <stdint.h>

/* cdef begin */
/* Loads a copy of a template that knows `cookie`; its file descriptor, or a negative errno. */
int rsn_load_copy(int prog_type, const void *insns, size_t cnt, uint64_t cookie);

/* Attaches to a raw tracepoint; the link, or a negative errno. A cookie takes Linux 6.10. */
int rsn_attach_raw_tracepoint(int prog_fd, const char *name, int has_cookie, uint64_t cookie);
/* cdef end */

#endif
