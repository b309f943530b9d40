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

/*
 * Lets go of cnt links in a process of its own, which nobody waits for: up to 6.1 at the least the
 * kernel takes over a tenth of a second for each function, one after the other. The caller's
 * descriptors are closed. Returns 0, or -1 with nothing closed.
 */
int rsn_close_in_child(const int *fds, size_t cnt);

/* A descriptor of the BTF that the kernel has of a module, or a negative errno. */
int rsn_module_btf_fd(const char *module);
/* cdef end */

#endif
