/* SPDX-License-Identifier: BSD-2-Clause */
/* fentry and fexit: a pair of programs per function, copies of two templates. */
#ifndef RSN_FENTRY_H
#define RSN_FENTRY_H

#include <stddef.h>
#include <stdint.h>

/* cdef begin */
struct rsn_fentry_batch {
	const void *entry_insns; /* of the template, as loaded */
	const void *exit_insns;
	size_t entry_cnt;
	size_t exit_cnt;
	size_t count; /* functions; the arrays below have one element for each */
	int btf_fd; /* of the module's BTF, 0 for vmlinux */
	const uint32_t *btf_ids;
	const uint64_t *cookies;
	const int16_t *results; /* where in the context the result is, in bytes; -1: there is none */
	int *entry_fds; /* out: links, -1 where it failed */
	int *exit_fds; /* out: the same */
	int *errors; /* out: 0 or a positive errno */
};

/* Attaches both sides of each function, or none. */
void rsn_attach_fentry(const struct rsn_fentry_batch *batch);

/* A descriptor of the BTF that the kernel has of a module, or a negative errno. */
int rsn_module_btf_fd(const char *module);
/* cdef end */

#endif
