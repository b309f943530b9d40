// SPDX-License-Identifier: BSD-2-Clause
#define _GNU_SOURCE
#include "attach.h"

#include <errno.h>
#include <linux/bpf.h>
#include <linux/perf_event.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <bpf/bpf.h>
#include <bpf/libbpf.h>

/* enum bpf_attach_type, fixed by the kernel's ABI; the headers of the build may be older. */
enum {
	attach_fentry = 24,
	attach_kprobe_multi = 42,
	attach_kprobe_session = 56,
	attach_fsession_multi = 61,
};

/* The part of union bpf_attr that BPF_LINK_CREATE reads for tracing-multi links. */
struct tracing_multi_attr {
	uint32_t prog_fd;
	uint32_t target_fd;
	uint32_t attach_type;
	uint32_t flags;
	uint64_t ids;
	uint64_t cookies;
	uint32_t cnt;
	uint32_t unused;
};

/*
 * The heads of struct bpf_prog_info and bpf_link_info up to the counters of missed calls. Kernels
 * without a counter leave it at 0.
 */
struct prog_info_head {
	uint8_t before[208];
	uint64_t recursion_misses;
};

struct link_info_head {
	uint32_t type;
	uint32_t id;
	uint32_t prog_id;
	uint32_t unused;
	uint64_t addrs; /* of kprobe.multi */
	uint32_t count;
	uint32_t flags;
	uint64_t missed;
};

int rsn_tracing_multi_link(int prog_fd, int attach_type, const uint32_t *btf_ids,
			   const uint64_t *cookies, uint32_t cnt)
{
	struct tracing_multi_attr attr = {
		.prog_fd = prog_fd,
		.attach_type = attach_type,
		.ids = (uintptr_t)btf_ids,
		.cookies = (uintptr_t)cookies,
		.cnt = cnt,
	};
	int fd = syscall(__NR_bpf, BPF_LINK_CREATE, &attr, sizeof(attr));

	return fd < 0 ? -errno : fd;
}

/* A program that returns 0; its file descriptor, or a negative errno. */
static int load_nothing(enum bpf_prog_type type, int attach_type, uint32_t btf_id)
{
	static const struct bpf_insn insns[] = {
		{ .code = BPF_ALU64 | BPF_MOV | BPF_K },
		{ .code = BPF_JMP | BPF_EXIT },
	};
	LIBBPF_OPTS(bpf_prog_load_opts, opts, .expected_attach_type = attach_type,
		    .attach_btf_id = btf_id);

	return bpf_prog_load(type, "rsn_try", "GPL", insns, sizeof(insns) / sizeof(insns[0]),
			     &opts);
}

static int close_both(int prog_fd, int link_fd)
{
	close(prog_fd);
	if (link_fd < 0)
		return link_fd;
	close(link_fd);
	return 0;
}

int rsn_try_load(void)
{
	int prog_fd = load_nothing(BPF_PROG_TYPE_KPROBE, 0, 0);

	if (prog_fd < 0)
		return prog_fd;
	close(prog_fd);
	return 0;
}

int rsn_try_fetch(void)
{
	static const struct bpf_insn insns[] = {
		{ .code = BPF_ST | BPF_MEM | BPF_W, .dst_reg = 10, .off = -4 },
		{ .code = BPF_ALU64 | BPF_MOV | BPF_K },
		{ .code = BPF_STX | BPF_ATOMIC | BPF_W, .dst_reg = 10, .off = -4, .imm = BPF_FETCH },
		{ .code = BPF_JMP | BPF_EXIT },
	};
	int prog_fd = bpf_prog_load(BPF_PROG_TYPE_KPROBE, "rsn_try", "GPL", insns,
				    sizeof(insns) / sizeof(insns[0]), NULL);

	if (prog_fd < 0)
		return prog_fd;
	close(prog_fd);
	return 0;
}

int rsn_try_kfunc(uint32_t btf_id)
{
	const struct bpf_insn insns[] = {
		{ .code = BPF_JMP | BPF_CALL,
		  .src_reg = 2 /* BPF_PSEUDO_KFUNC_CALL, 5.13 */,
		  .imm = (int32_t)btf_id },
		{ .code = BPF_ALU64 | BPF_MOV | BPF_K },
		{ .code = BPF_JMP | BPF_EXIT },
	};
	int prog_fd = bpf_prog_load(BPF_PROG_TYPE_KPROBE, "rsn_try", "GPL", insns,
				    sizeof(insns) / sizeof(insns[0]), NULL);

	if (prog_fd < 0)
		return prog_fd;
	close(prog_fd);
	return 0;
}

int rsn_try_kprobe_multi(int is_session)
{
	int attach_type = is_session ? attach_kprobe_session : attach_kprobe_multi;
	int prog_fd = load_nothing(BPF_PROG_TYPE_KPROBE, attach_type, 0), err;
	LIBBPF_OPTS(bpf_link_create_opts, opts, .kprobe_multi.cnt = 1,
		    .kprobe_multi.addrs = (const unsigned long *)1);

	if (prog_fd < 0)
		return prog_fd;
	err = close_both(prog_fd, bpf_link_create(prog_fd, 0, attach_type, &opts));
	return err == -EFAULT ? 0 : err;
}

int rsn_try_fsession_multi(uint32_t btf_id)
{
	const uint64_t cookie = 0;
	int prog_fd = load_nothing(BPF_PROG_TYPE_TRACING, attach_fsession_multi, 0);

	if (prog_fd < 0)
		return prog_fd;
	return close_both(prog_fd, rsn_tracing_multi_link(prog_fd, attach_fsession_multi, &btf_id,
							  &cookie, 1));
}

int rsn_try_fentry(uint32_t btf_id)
{
	int prog_fd = load_nothing(BPF_PROG_TYPE_TRACING, attach_fentry, btf_id);

	if (prog_fd < 0)
		return prog_fd;
	return close_both(prog_fd, bpf_raw_tracepoint_open(NULL, prog_fd));
}

int rsn_try_kprobe(int pmu_type, const char *function)
{
	struct perf_event_attr attr = {
		.type = pmu_type,
		.size = sizeof(attr),
		.disabled = 1,
		.kprobe_func = (uintptr_t)function,
	};
	int fd = syscall(__NR_perf_event_open, &attr, -1, 0, -1, PERF_FLAG_FD_CLOEXEC);

	if (fd < 0)
		return -errno;
	close(fd);
	return 0;
}

uint64_t rsn_prog_misses(int prog_fd)
{
	struct prog_info_head info = {};
	uint32_t size = sizeof(info);

	return bpf_obj_get_info_by_fd(prog_fd, &info, &size) ? 0 : info.recursion_misses;
}

static int get_link_info(int link_fd, struct link_info_head *info)
{
	uint32_t size = sizeof(*info);

	memset(info, 0, sizeof(*info));
	return bpf_obj_get_info_by_fd(link_fd, info, &size);
}

void rsn_link_prog_misses(const int *link_fds, size_t cnt, uint64_t *misses)
{
	for (size_t i = 0; i < cnt; i++) {
		struct link_info_head info;
		int prog_fd = -1;

		misses[i] = 0;
		if (link_fds[i] >= 0 && !get_link_info(link_fds[i], &info))
			prog_fd = bpf_prog_get_fd_by_id(info.prog_id);
		if (prog_fd < 0)
			continue;
		misses[i] = rsn_prog_misses(prog_fd);
		close(prog_fd);
	}
}

uint64_t rsn_kprobe_multi_misses(int link_fd)
{
	struct link_info_head info;

	return get_link_info(link_fd, &info) ? 0 : info.missed;
}

int rsn_run_program(int prog_fd, const uint64_t *args, size_t cnt)
{
	LIBBPF_OPTS(bpf_test_run_opts, opts, .ctx_in = args, .ctx_size_in = cnt * sizeof(*args));

	return bpf_prog_test_run_opts(prog_fd, &opts);
}

/* It samples nothing: that it is there makes the kernel switch the CPU's branch records on. */
int rsn_open_branches(int cpu, uint64_t branches)
{
	struct perf_event_attr attr = {
		.type = PERF_TYPE_HARDWARE,
		.size = sizeof(attr),
		.config = PERF_COUNT_HW_CPU_CYCLES,
		.sample_type = PERF_SAMPLE_BRANCH_STACK,
		.branch_sample_type = branches,
	};
	int fd = syscall(__NR_perf_event_open, &attr, -1, cpu, -1, PERF_FLAG_FD_CLOEXEC);

	return fd < 0 ? -errno : fd;
}

static int open_kprobe_event(const struct rsn_kprobe_batch *batch, size_t i)
{
	struct perf_event_attr attr = {
		.type = batch->pmu_type,
		.size = sizeof(attr),
		.config = batch->config,
		.kprobe_func = 0, /* no name: the address below is absolute */
		.kprobe_addr = batch->addresses[i],
		.sample_period = 1,
		.wakeup_events = 1,
	};

	return syscall(__NR_perf_event_open, &attr, -1, 0, -1, PERF_FLAG_FD_CLOEXEC);
}

static int connect_program(const struct rsn_kprobe_batch *batch, size_t i)
{
	LIBBPF_OPTS(bpf_link_create_opts, opts);

	if (!batch->use_link) {
		if (ioctl(batch->event_fds[i], PERF_EVENT_IOC_SET_BPF, batch->prog_fd))
			return errno;
		return ioctl(batch->event_fds[i], PERF_EVENT_IOC_ENABLE, 0) ? errno : 0;
	}
	opts.perf_event.bpf_cookie = batch->cookies[i];
	batch->link_fds[i] =
		bpf_link_create(batch->prog_fd, batch->event_fds[i], BPF_PERF_EVENT, &opts);
	if (batch->link_fds[i] < 0)
		return -batch->link_fds[i];
	return ioctl(batch->event_fds[i], PERF_EVENT_IOC_ENABLE, 0) ? errno : 0;
}

/* Attaches one program to many functions, one perf event each; one that fails costs only itself. */
void rsn_attach_kprobes(const struct rsn_kprobe_batch *batch)
{
	size_t i;

	for (i = 0; i < batch->count; i++) {
		batch->link_fds[i] = -1;
		batch->errors[i] = 0;
		batch->event_fds[i] = open_kprobe_event(batch, i);
		if (batch->event_fds[i] < 0) {
			batch->errors[i] = errno;
			continue;
		}
		batch->errors[i] = connect_program(batch, i);
		if (!batch->errors[i])
			continue;
		rsn_close_all(&batch->link_fds[i], 1);
		rsn_close_all(&batch->event_fds[i], 1);
		batch->link_fds[i] = -1;
		batch->event_fds[i] = -1;
	}
}

void rsn_close_all(const int *fds, size_t count)
{
	size_t i;

	for (i = 0; i < count; i++) {
		if (fds[i] >= 0)
			close(fds[i]);
	}
}

void rsn_kprobes_missed(const int *link_fds, size_t count, uint64_t *missed)
{
	size_t i;

	for (i = 0; i < count; i++) {
		struct bpf_link_info info = { 0 };
		__u32 size = sizeof(info);

		missed[i] = 0;
		if (link_fds[i] >= 0 && !bpf_link_get_info_by_fd(link_fds[i], &info, &size))
			missed[i] = info.perf_event.kprobe.missed;
	}
}

int rsn_attach_raw_tracepoint(int prog_fd, const char *name, int has_cookie, uint64_t cookie)
{
	LIBBPF_OPTS(bpf_raw_tp_opts, opts, .tp_name = name, .cookie = has_cookie ? cookie : 0);

	return bpf_raw_tracepoint_open_opts(prog_fd, &opts);
}
