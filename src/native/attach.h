/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Attach probes where libbpf has no function for it or needs one call per probe. Test which
 * mechanisms the kernel supports.
 */
#ifndef RSN_ATTACH_H
#define RSN_ATTACH_H

#include <stddef.h>
#include <stdint.h>

/* cdef begin */
/*
 * Create one tracing-multi link (Linux 7.x) for cnt functions, given by BTF ids and cookies.
 * Returns its file descriptor or a negative errno.
 */
int rsn_tracing_multi_link(int prog_fd, int attach_type, const uint32_t *btf_ids,
			   const uint64_t *cookies, uint32_t cnt);

/*
 * Load a program of two instructions and, if the name contains an attach type, try to attach it.
 * They return 0 or the negative errno of the load or of the link.
 *
 * kprobe.multi and kprobe.session receive an unreadable address array. The kernel reads that array
 * last, so EFAULT shows support without hooking a function. Hooking one would take a tenth of the
 * start time of retsnoop-py. fsession.multi and fentry are attached to btf_id and detached at once.
 *
 * rsn_try_fetch() loads a program with an atomic addition that returns the old value (5.12, arm64:
 * 5.18). rsn_try_kfunc() loads a program that calls the kernel function btf_id; -ENOTSUPP (524)
 * means that programs cannot call kernel functions here.
 */
int rsn_try_load(void);
int rsn_try_fetch(void);
int rsn_try_kfunc(uint32_t btf_id);
int rsn_try_kprobe_multi(int is_session);
int rsn_try_fsession_multi(uint32_t btf_id);
int rsn_try_fentry(uint32_t btf_id);

/* Open a disabled kprobe on a function as a perf event. Returns 0 or a negative errno. */
int rsn_try_kprobe(int pmu_type, const char *function);

/*
 * Calls that a program missed because it was already running (5.12). Kprobes also miss calls while
 * any other kprobe runs.
 */
uint64_t rsn_prog_misses(int prog_fd);

/* Write the missed calls of the programs behind cnt tracing links to misses. */
void rsn_link_prog_misses(const int *link_fds, size_t cnt, uint64_t *misses);

/* Calls that a kprobe.multi or kprobe.session link missed (6.7). */
uint64_t rsn_kprobe_multi_misses(int link_fd);

/*
 * Run a raw tracepoint program once in this process (5.10). args has cnt words, at most 12. Returns
 * 0 or a negative errno.
 */
int rsn_run_program(int prog_fd, const uint64_t *args, size_t cnt);

/*
 * Open a perf event for which a CPU keeps branch records. branches: PERF_SAMPLE_BRANCH_* flags.
 * Returns its file descriptor or a negative errno.
 */
int rsn_open_branches(int cpu, uint64_t branches);

/* Options and results of rsn_attach_kprobes(). */
struct rsn_kprobe_batch {
	int prog_fd;
	int pmu_type; /* from /sys/bus/event_source/devices/kprobe */
	uint64_t config; /* bit that makes it a kretprobe, 0 for an entry probe */
	int use_link; /* 1: bpf_link with a cookie (5.15); 0: ioctl */
	size_t count;
	const uint64_t *addresses;
	const uint64_t *cookies; /* NULL if use_link is 0 */
	int *event_fds; /* out: -1 if attaching failed */
	int *link_fds; /* out: -1 if attaching failed or use_link is 0 */
	int *errors; /* out: 0 or a positive errno */
};

void rsn_attach_kprobes(const struct rsn_kprobe_batch *batch);
void rsn_close_all(const int *fds, size_t count);

/*
 * Write how often each link's probe missed a call to missed; 0 before Linux 6.7, which has no
 * count.
 */
void rsn_kprobes_missed(const int *link_fds, size_t count, uint64_t *missed);

/*
 * Attach to a raw tracepoint. A cookie requires Linux 6.10. Returns the link or a negative errno.
 */
int rsn_attach_raw_tracepoint(int prog_fd, const char *name, int has_cookie, uint64_t cookie);
/* cdef end */

#endif
