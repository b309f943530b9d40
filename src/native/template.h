/* SPDX-License-Identifier: BSD-2-Clause */
/* Copies of programs, each told by a constant where it is attached (src/bpf/template.bpf.h). */
#ifndef RSN_TEMPLATE_H
#define RSN_TEMPLATE_H

#include <stddef.h>
#include <stdint.h>

struct bpf_insn;

/* A copy to change and free(), NULL where memory ran out. */
struct bpf_insn *rsn_template_copy(const void *insns, size_t cnt);

/*
 * Puts the cookie in its next place, from an index on: gives the index of the instruction behind
 * it, 0 if there is none. The compiler may have made several.
 */
size_t rsn_template_patch(struct bpf_insn *insns, size_t cnt, size_t from, uint64_t cookie);

/* cdef begin */
/* Loads a copy of a template that knows `cookie`; its file descriptor, or a negative errno. */
int rsn_load_copy(int prog_type, const void *insns, size_t cnt, uint64_t cookie);
/* cdef end */

#endif
