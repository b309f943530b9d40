/* SPDX-License-Identifier: BSD-2-Clause */
/* Copies of programs. A constant in each copy identifies its function (src/bpf/template.bpf.h). */
#ifndef RSN_TEMPLATE_H
#define RSN_TEMPLATE_H

#include <stddef.h>
#include <stdint.h>

struct bpf_insn;

/* Return a copy to change and free(), or NULL if memory ran out. */
struct bpf_insn *rsn_template_copy(const void *insns, size_t cnt);

/*
 * Write the cookie to its next place, from index `from` on. Returns the index after that
 * instruction, or 0 if there is no further place. The compiler may have created several.
 */
size_t rsn_template_patch(struct bpf_insn *insns, size_t cnt, size_t from, uint64_t cookie);

/* cdef begin */
/*
 * Load a copy of a template with `cookie` in it. Returns its file descriptor or a negative errno.
 */
int rsn_load_copy(int prog_type, const void *insns, size_t cnt, uint64_t cookie);
/* cdef end */

#endif
