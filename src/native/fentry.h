/* SPDX-License-Identifier: BSD-2-Clause */
/* fentry and fexit: two programs per function, copied from two templates. */
#ifndef RSN_FENTRY_H
#define RSN_FENTRY_H

#include <stddef.h>
#include <stdint.h>

/* cdef begin */
struct rsn_fentry_batch {
	const void *entry_insns; /* instructions of the template, as loaded */
	const void *exit_insns;
	size_t entry_cnt;
	size_t exit_cnt;
	size_t count; /* number of functions; the arrays below have one element each */
	int btf_fd; /* BTF of the module, 0 for vmlinux */
	const uint32_t *btf_ids;
	const uint64_t *cookies;
	const int16_t *results; /* byte offset of the result in the context; -1: no result */
	int *entry_fds; /* out: links, -1 if attaching failed */
	int *exit_fds; /* out: links, -1 if attaching failed */
	int *errors; /* out: 0 or a positive errno */
};

/* For each function, attach both programs or neither. */
void rsn_attach_fentry(const struct rsn_fentry_batch *batch);

/*
 * Close cnt links in a child process, without waiting for it. Up to Linux 6.1, the kernel needs
 * more than 0.1 s per function, one after the other. The caller's descriptors are closed. Returns
 * 0, or -1 with nothing closed.
 */
int rsn_close_in_child(const int *fds, size_t cnt);

/* Open the kernel's BTF of a module. Returns a file descriptor or a negative errno. */
int rsn_module_btf_fd(const char *module);
/* cdef end */

#endif
