/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Attaching where libbpf has no call for it, or one per probe, and trying which mechanisms the kernel
 * has.
 */
#ifndef RSN_ATTACH_H
#define RSN_ATTACH_H

#include <stddef.h>
#include <stdint.h>

/* cdef begin */
/*
 * One tracing-multi link (Linux 7.x): program, BTF ids and cookies of cnt functions.
 * Its file descriptor, or a negative errno.
 */
int rsn_tracing_multi_link(int prog_fd, int attach_type, const uint32_t *btf_ids,
			   const uint64_t *cookies, uint32_t cnt);

/*
 * Loads a program of two instructions, and tries to attach it where its kind is named. kprobe.multi and kprobe.session are
 * given addresses that cannot be read, which the kernel notices last of all, so that no function is
 * hooked for it: a tenth of a start of ours. fsession.multi and fentry are attached for an instant
 * to btf_id. rsn_try_fetch() loads a program with an atomic addition that gives what was there
 * before (5.12, arm64: 5.18). rsn_try_kfunc() loads a program that calls the kernel function
 * btf_id: -ENOTSUPP (524) where no program may call any. 0 or a negative errno: of the load, or of
 * the link.
 */
int rsn_try_load(void);
int rsn_try_fetch(void);
int rsn_try_kfunc(uint32_t btf_id);
int rsn_try_kprobe_multi(int is_session);
int rsn_try_fsession_multi(uint32_t btf_id);
int rsn_try_fentry(uint32_t btf_id);

/* Opens a kprobe on a function as a perf event, which is not enabled: 0 or a negative errno. */
int rsn_try_kprobe(int pmu_type, const char *function);

/* Calls a program did not get because it, or for kprobes any other, was running (5.12). */
uint64_t rsn_prog_misses(int prog_fd);

/* The same of the programs behind cnt tracing links. */
void rsn_link_prog_misses(const int *link_fds, size_t cnt, uint64_t *misses);

/* Calls a kprobe.multi or kprobe.session link did not get (6.7). */
uint64_t rsn_kprobe_multi_misses(int link_fd);

/*
 * Runs a raw tracepoint program once, in this process (5.10); args: cnt words, twelve at the most.
 * 0 or a negative errno.
 */
int rsn_run_program(int prog_fd, const uint64_t *args, size_t cnt);

/*
 * A perf event for which a CPU keeps branch records; branches: PERF_SAMPLE_BRANCH_* flags. Its file
 * descriptor, or a negative errno.
 */
int rsn_open_branches(int cpu, uint64_t branches);

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

/* Attaches to a raw tracepoint; the link, or a negative errno. A cookie takes Linux 6.10. */
int rsn_attach_raw_tracepoint(int prog_fd, const char *name, int has_cookie, uint64_t cookie);
/* cdef end */

#endif
