/* SPDX-License-Identifier: BSD-2-Clause */
/* What libbpf and libc offer only as a callback or a macro: libbpf's log, globals of an object. */
#ifndef RSN_OBJECT_H
#define RSN_OBJECT_H

#include <stddef.h>
#include <stdint.h>

struct btf;

/* cdef begin */
/* From now on memory of 128 KiB and more is the kernel's again as soon as it is freed. */
void rsn_return_large_memory(void);

/* libbpf's messages since the last call, at or above the level given at start (0 warn .. 2 debug) */
/* The log is the calling thread's own. */
void rsn_log_start(int level);
const char *rsn_log_text(void);
void rsn_log_clear(void);

/* offset and size in bytes of a global in a data section (".rodata", ".bss"); -ENOENT if absent */
int rsn_find_global(const struct btf *btf, const char *section, const char *name, uint32_t *offset,
		    uint32_t *size);
/* cdef end */

#endif
