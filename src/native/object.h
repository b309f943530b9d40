/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Functions that libbpf and libc offer only as a callback or a macro: libbpf's log, globals of an
 * object, malloc options.
 */
#ifndef RSN_OBJECT_H
#define RSN_OBJECT_H

#include <stddef.h>
#include <stdint.h>

struct btf;

/* cdef begin */
/* From now on, return allocations of 128 KiB and more to the kernel as soon as they are freed. */
void rsn_return_large_memory(void);

/* Collect libbpf's messages at or above a level (0 warn .. 2 debug). */
/* Each thread has its own log. */
void rsn_log_start(int level);
const char *rsn_log_text(void);
void rsn_log_clear(void);

/*
 * Byte offset and size of a global in a data section (".rodata", ".bss"). -ENOENT if it does not
 * exist.
 */
int rsn_find_global(const struct btf *btf, const char *section, const char *name, uint32_t *offset,
		    uint32_t *size);
/* cdef end */

#endif
