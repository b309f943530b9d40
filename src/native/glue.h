/* SPDX-License-Identifier: BSD-2-Clause */
/* What libbpf and libc offer only as a callback, a macro or one call per probe, as Python needs it. */
#ifndef RSN_GLUE_H
#define RSN_GLUE_H

#include <stddef.h>
#include <stdint.h>

struct btf;

/* cdef begin */
/* From now on memory of 128 KiB and more is the kernel's again as soon as it is freed. */
void rsn_return_large_memory(void);

/* libbpf's messages since the last call, at or above the level given at start (0 warn .. 2 debug) */
void rsn_log_start(int level);
const char *rsn_log_text(void);
void rsn_log_clear(void);

/* offset and size in bytes of a global in a data section (".rodata", ".bss"); -ENOENT if absent */
int rsn_find_global(const struct btf *btf, const char *section, const char *name, uint32_t *offset,
		    uint32_t *size);

/* How single kprobes reach their function: see rsn_attach_kprobes(). */
struct rsn_kprobe_batch {
	int prog_fd;
	int pmu_type; /* of /sys/bus/event_source/devices/kprobe */
	uint64_t config; /* bit that makes it a kretprobe, 0 for an entry probe */
	int use_link; /* bpf_link with a cookie (5.15), otherwise the ioctl */
	size_t count;
	const uint64_t *addresses;
	const uint64_t *cookies; /* NULL without use_link */
	int *event_fds; /* out: -1 where it failed */
	int *link_fds; /* out: -1 where it failed or where no link is used */
	int *errors; /* out: 0 or a positive errno */
};

void rsn_attach_kprobes(const struct rsn_kprobe_batch *batch);
void rsn_close_all(const int *fds, size_t count);

/* How often each link's probe was missed; 0 where the kernel does not tell (before 6.7). */
void rsn_kprobes_missed(const int *link_fds, size_t count, uint64_t *missed);
/* cdef end */

#endif
